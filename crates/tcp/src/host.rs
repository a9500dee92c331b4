//! Queries that let the host size and free its buffers.

use crate::tcb::Tcb;

impl Tcb {
    /// Number of data bytes that fit one segment, after the options that every segment contains.
    #[inline]
    pub fn mss(&self) -> u16 {
        self.snd.mss
    }

    /// Returns whether out-of-order data is stored for this connection.
    #[inline]
    pub fn holds_out_of_order(&self) -> bool {
        self.ooo.is_some()
    }
}
