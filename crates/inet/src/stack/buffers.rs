//! Buffers for frames that this host creates: from the host's pool for single packets, and from a
//! pool of large buffers for datagrams and segments of up to 64 KiB.

use crate::Stack;
use buf::{Frame, Pool};
use lock::{Cx, Locks};
use stats::trace;

impl<L: Locks> Stack<L> {
    /// Allocates an empty frame and counts it as created.
    #[inline(always)]
    pub(crate) fn make_frame(&self, cx: Cx) -> Option<Frame> {
        let frame = self.pool.get()?;
        trace::buffer_made(|| self.pool.number());
        self.count(cx).audit.made.bump();
        Some(frame)
    }

    /// Allocates a frame with space for the longest datagram, and counts it as created.
    pub(crate) fn make_large_frame(&self, cx: Cx) -> Option<Frame> {
        let frame = self.large_buffer(cx)?;
        self.count(cx).audit.made.bump();
        Some(frame)
    }

    /// Allocates a large frame without counting it as created, since it might not be sent.
    pub(crate) fn large_buffer(&self, cx: Cx) -> Option<Frame> {
        let mut large = self.large.lock(cx);
        if large.is_none() {
            *large = Pool::new(&self.large_config).ok();
        }
        let pool = large.as_ref()?;
        let frame = pool.get()?;
        trace::buffer_made(|| pool.number());
        Some(frame)
    }
}
