//! Result of a three-way handshake: everything that a `Tcb` needs to begin in ESTABLISHED.
//!
//! A [`Handshake`] is created from an entry of the SYN queue or from a SYN cookie.

use crate::SeqNum;
use clock::Duration;

/// Negotiated state of timestamps (RFC 7323).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TsState {
    /// TS.Recent: the peer's latest TSval, which our segments echo.
    pub recent: u32,
    /// Offset added to our millisecond clock to compute TSval.
    pub offset: u32,
}

/// Result of a listener's handshake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Handshake {
    /// Our initial sequence number. The peer has acknowledged it, so SND.UNA is one more.
    pub iss: SeqNum,
    /// The peer's initial sequence number. The first RCV.NXT is one more.
    pub irs: SeqNum,
    /// The peer's MSS option as received; 0 if absent.
    pub mss: u16,
    /// Window shift of the peer's advertisements; `None` without window scaling.
    pub snd_wscale: Option<u8>,
    /// Window shift of our advertisements; 0 without window scaling.
    pub rcv_wscale: u8,
    /// True if SACK was negotiated.
    pub sack: bool,
    /// State of timestamps; `None` if they were not negotiated.
    pub ts: Option<TsState>,
    /// Window field of the segment that completed the handshake, unscaled.
    pub window: u16,
    /// True if ECN was negotiated (RFC 3168 6.1.1).
    pub ecn: bool,
    /// Time from SYN-ACK to ACK; `None` if the SYN-ACK was retransmitted (Karn).
    pub rtt: Option<Duration>,
}
