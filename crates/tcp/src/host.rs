//! Queries by which the host sizes and frees its buffers.

use crate::tcb::Tcb;

impl Tcb {
    /// Data bytes that fit one segment besides the options that every segment carries.
    #[inline]
    pub fn mss(&self) -> u16 {
        self.snd.mss
    }

    /// Returns whether out-of-order data is held.
    #[inline]
    pub fn holds_out_of_order(&self) -> bool {
        self.ooo.is_some()
    }
}
