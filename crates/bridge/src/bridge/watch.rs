//! The drop watch: a function that the bridge calls with each frame that it drops, so that dropped
//! frames can be captured.

use super::Bridge;
use crate::PortNo;
use buf::Frame;
use clock::Instant;
use stats::DropReason;
use std::fmt;

type Watch = dyn Fn(&Frame, PortNo, DropReason, Instant) + Send + Sync;

/// Function called with a dropped frame, the port where it was dropped ([`crate::LOCAL`] for the
/// bridge itself), the drop reason, and the time.
pub(super) struct DropWatch(Box<Watch>);

impl fmt::Debug for DropWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DropWatch")
    }
}

impl Bridge {
    /// Calls `watch` with each dropped frame before its buffer is freed. Further arguments are the
    /// port where it was dropped, the reason, and the time.
    pub fn set_drop_watch(&mut self, watch: impl Fn(&Frame, PortNo, DropReason, Instant) + Send + Sync + 'static) {
        self.drop_watch = Some(DropWatch(Box::new(watch)));
    }

    /// Counts a frame that is dropped at `port` for the reason `why`, and calls the drop watch.
    #[cold]
    pub(super) fn lose(&mut self, port: PortNo, why: DropReason, frame: &Frame) {
        self.drops.bump(why);
        if let Some(DropWatch(watch)) = &self.drop_watch {
            watch(frame, port, why, self.now);
        }
    }
}
