//! What a finished three-way handshake leaves: all that a `Tcb` needs to begin in ESTABLISHED.
//!
//! It comes from a SYN queue's entry or out of a SYN cookie; neither keeps more than this.

use crate::SeqNum;
use clock::Duration;

/// What timestamps were agreed on (RFC 7323).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TsState {
    /// TS.Recent: the peer's latest TSval, echoed.
    pub recent: u32,
    /// What is added to our clock of milliseconds to make TSval.
    pub offset: u32,
}

/// The result of a handshake that a listener has led.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Handshake {
    /// Our initial sequence number. The peer has acknowledged it: SND.UNA is one more.
    pub iss: SeqNum,
    /// The peer's. RCV.NXT is one more.
    pub irs: SeqNum,
    /// The peer's MSS option as it stood; 0 stands for none.
    pub mss: u16,
    /// The shift of windows that the peer advertises; `None` without window scaling.
    pub snd_wscale: Option<u8>,
    /// The shift of windows that we advertise; 0 without window scaling.
    pub rcv_wscale: u8,
    /// SACK was agreed on.
    pub sack: bool,
    /// Timestamps were agreed on.
    pub ts: Option<TsState>,
    /// The window of the segment that finished the handshake, unscaled.
    pub window: u16,
    /// ECN was agreed on (RFC 3168 6.1.1).
    pub ecn: bool,
    /// From SYN-ACK to ACK, if it was sent once only (Karn).
    pub rtt: Option<Duration>,
}
