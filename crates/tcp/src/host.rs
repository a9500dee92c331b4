//! What the host asks to size and free its buffers by.

use crate::tcb::Tcb;

impl Tcb {
    /// Text that fits a segment with the options that all carry.
    #[inline]
    pub fn mss(&self) -> u16 {
        self.snd.mss
    }

    /// Is text kept that came before its turn?
    #[inline]
    pub fn holds_out_of_order(&self) -> bool {
        self.ooo.is_some()
    }
}
