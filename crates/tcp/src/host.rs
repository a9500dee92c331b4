//! Queries that let the host size and free its buffers.

use crate::tcb::Tcb;

impl Tcb {
    /// Maximum number of data bytes in a segment. The options that every segment contains are
    /// already subtracted.
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
