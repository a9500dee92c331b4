//! Buffers for frames made here: the pool's for packets of a link, large ones for datagrams and segments of up to 64 KiB.

use crate::Stack;
use buf::{Frame, Pool};
use lock::{Cx, Locks};
use stats::trace;

impl<L: Locks> Stack<L> {
    /// A frame made here, empty, counted.
    #[inline(always)]
    pub(crate) fn make_frame(&self, cx: Cx) -> Option<Frame> {
        let frame = self.pool.get()?;
        trace::buffer_made(|| self.pool.number());
        self.count(cx).audit.made.bump();
        Some(frame)
    }

    /// A frame made here with room for the longest datagram, counted.
    pub(crate) fn make_large_frame(&self, cx: Cx) -> Option<Frame> {
        let frame = self.large_buffer(cx)?;
        self.count(cx).audit.made.bump();
        Some(frame)
    }

    /// The same, not counted yet: it is not on its way.
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
