//! Marks of a record of the scoreboard.

/// Reported by the peer in a SACK block (RFC 2018).
pub const SACKED: u8 = 1;
/// The latest transmission but a retransmission in flight, if any, is considered lost.
pub const LOST: u8 = 1 << 1;
/// Retransmitted, and the retransmission is considered in flight.
pub const RETRANS: u8 = 1 << 2;
/// Retransmitted at least once, so it cannot be used for RTT measurement (Karn).
pub const EVER: u8 = 1 << 3;
/// Ends with FIN.
pub const FIN: u8 = 1 << 4;
/// Sent with PSH.
pub const PSH: u8 = 1 << 5;
/// Marked lost, and unmarked by an undo.
pub const SPARED: u8 = 1 << 6;
