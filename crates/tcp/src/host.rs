//! What the host asks to size buffers by.

use crate::tcb::Tcb;

impl Tcb {
    /// Text that fits a segment with the options that all carry.
    #[inline]
    pub fn mss(&self) -> u16 {
        self.snd.mss
    }
}
