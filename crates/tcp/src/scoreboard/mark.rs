//! Marks of a record of the scoreboard.

/// The peer reported the record in a SACK block (RFC 2018).
pub const SACKED: u8 = 1;
/// All transmissions are considered lost, except a retransmission in flight ([`RETRANS`]).
pub const LOST: u8 = 1 << 1;
/// The record was retransmitted, and the retransmission is considered in flight.
pub const RETRANS: u8 = 1 << 2;
/// The record was retransmitted at least once, so it cannot be used for RTT measurement (Karn).
pub const EVER: u8 = 1 << 3;
/// The record ends with FIN.
pub const FIN: u8 = 1 << 4;
/// The record was sent with PSH.
pub const PSH: u8 = 1 << 5;
/// The record was marked lost, and an undo has removed the mark.
pub const SPARED: u8 = 1 << 6;
