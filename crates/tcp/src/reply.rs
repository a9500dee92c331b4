//! Results of processing a segment: the data to store, bytes to release, events for the
//! application, and drop reasons.

use crate::Out;
use core::fmt;
use core::ops::{BitOr, BitOrAssign};

/// Action that the host takes for the data of an arriving segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Text {
    /// Discard the data.
    #[default]
    Nothing,
    /// Store `len` bytes after the first `skip` bytes, at offset `at` from the previous RCV.NXT (0:
    /// in order).
    ///
    /// Out-of-order data may overlap stored data; the host chooses which copy to keep.
    Accept {
        /// Number of data bytes to skip.
        skip: u32,
        /// Number of data bytes to keep.
        len: u32,
        /// Offset from the previous RCV.NXT, in bytes.
        at: u32,
    },
}

/// Set of events for the application.
#[derive(Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Events(pub u32);

impl Events {
    /// No events.
    pub const NONE: Events = Events(0);
    /// More data can be read.
    pub const READABLE: Events = Events(1);
    /// The send queue has more space.
    pub const WRITABLE: Events = Events(1 << 1);
    /// The handshake of an active open is complete.
    pub const CONNECTED: Events = Events(1 << 2);
    /// The handshake of a passive open is complete: the connection can be accepted.
    pub const ACCEPTABLE: Events = Events(1 << 3);
    /// The peer has sent all of its data, so reads return end of file.
    pub const PEER_CLOSED: Events = Events(1 << 4);
    /// The peer reset the connection (`ECONNRESET`).
    pub const RESET: Events = Events(1 << 5);
    /// The peer, or an ICMP message, refused the connection (`ECONNREFUSED`).
    pub const REFUSED: Events = Events(1 << 6);
    /// The connection timed out (`ETIMEDOUT`).
    pub const TIMED_OUT: Events = Events(1 << 7);
    /// The peer announced urgent data (`SIGURG`).
    pub const URGENT: Events = Events(1 << 8);
    /// The connection entered TIME-WAIT, so the caller can replace it by a compact entry.
    pub const TIME_WAIT: Events = Events(1 << 9);
    /// The connection is over: it neither sends nor receives, and no timer is set.
    pub const CLOSED: Events = Events(1 << 10);
    /// An ICMP error arrived that does not end the connection; `getsockopt(SO_ERROR)` may report it
    /// if the connection ends for another reason.
    pub const SOFT_ERROR: Events = Events(1 << 11);
    /// The path does not respond, but another route may work (RFC 9293 3.8.3, R1).
    pub const PATH_DOUBTFUL: Events = Events(1 << 12);
    /// A SYN arrived for this connection in TIME-WAIT. A new connection may replace it (RFC 6191,
    /// RFC 9293 3.6.1).
    pub const REUSABLE: Events = Events(1 << 13);
    /// The host or network is unreachable (`EHOSTUNREACH`).
    pub const UNREACHABLE: Events = Events(1 << 14);

    /// Returns whether all of `other` are in the set.
    #[inline]
    pub const fn contains(self, other: Events) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns whether some of `other` are in the set.
    #[inline]
    pub const fn intersects(self, other: Events) -> bool {
        self.0 & other.0 != 0
    }
}

impl BitOr for Events {
    type Output = Events;
    #[inline]
    fn bitor(self, other: Events) -> Events {
        Events(self.0 | other.0)
    }
}

impl BitOrAssign for Events {
    #[inline]
    fn bitor_assign(&mut self, other: Events) {
        self.0 |= other.0;
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [(Events, &str); 15] = [
            (Events::READABLE, "READABLE"),
            (Events::WRITABLE, "WRITABLE"),
            (Events::CONNECTED, "CONNECTED"),
            (Events::ACCEPTABLE, "ACCEPTABLE"),
            (Events::PEER_CLOSED, "PEER_CLOSED"),
            (Events::RESET, "RESET"),
            (Events::REFUSED, "REFUSED"),
            (Events::TIMED_OUT, "TIMED_OUT"),
            (Events::URGENT, "URGENT"),
            (Events::TIME_WAIT, "TIME_WAIT"),
            (Events::CLOSED, "CLOSED"),
            (Events::SOFT_ERROR, "SOFT_ERROR"),
            (Events::PATH_DOUBTFUL, "PATH_DOUBTFUL"),
            (Events::REUSABLE, "REUSABLE"),
            (Events::UNREACHABLE, "UNREACHABLE"),
        ];
        f.debug_list().entries(NAMES.iter().filter(|(one, _)| self.contains(*one)).map(|(_, name)| name)).finish()
    }
}

macro_rules! dropped {
    ($($name:ident: $why:literal,)+) => {
        /// Reason why a segment or its data was dropped.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
        pub enum Dropped {
            $(#[doc = $why] $name,)+
        }

        impl Dropped {
            /// All reasons.
            pub const ALL: &[Dropped] = &[$(Dropped::$name,)+];

            /// Description of the reason as a sentence.
            pub const fn sentence(self) -> &'static str {
                match self { $(Dropped::$name => $why,)+ }
            }
        }
    };
}

dropped! {
    NoConnection: "The connection is closed (RFC 9293 3.10.7.1).",
    BadFlags: "SYN with FIN or RST, or no relevant flag set.",
    Paws: "Old duplicate, detected by its timestamp (PAWS, RFC 7323 5.3, R1).",
    OutOfWindow: "Outside the receive window (RFC 9293 3.10.7.4, first).",
    ResetInWindow: "RST in the window but not at RCV.NXT: answered with a challenge ACK (RFC 5961 3.2).",
    ResetOutOfWindow: "RST outside the receive window.",
    ResetUnacknowledged: "RST in SYN-SENT that does not acknowledge our SYN (RFC 9293 3.10.7.3, second step).",
    ResetInTimeWait: "RST in TIME-WAIT (RFC 1337).",
    SynInWindow: "SYN on a synchronized connection: answered with a challenge ACK (RFC 5961 4.2).",
    SynDuplicate: "Duplicate SYN of a handshake in progress.",
    NoAck: "No ACK flag on a segment that is neither SYN nor RST (RFC 9293 3.10.7.4, fifth).",
    AckUnsent: "Acknowledges data that was never sent (RFC 9293 3.10.7.4, fifth).",
    AckTooOld: "Acknowledges data that was acknowledged more than a window ago (RFC 5961 5.2).",
    AckInHandshake: "Acknowledges something other than our SYN (RFC 9293 3.10.7.3, first; 3.10.7.4, fifth).",
    TextDuplicate: "Contains only data that was received before.",
    TextBeyondWindow: "All of its data is beyond the receive window.",
    TextAfterFin: "Data after the peer's FIN.",
    TextAfterClose: "Data after close: answered with an RST (RFC 9293 3.6.1, RFC 1122 4.2.2.13).",
    ReassemblyFull: "Out-of-order data that would exceed the maximum number of stored ranges.",
    TimeWaitDuplicate: "Late segment of a connection in TIME-WAIT.",
}

/// Result of processing a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Reply {
    /// Action that the host takes for the segment's data.
    pub text: Text,
    /// Number of bytes by which RCV.NXT advanced: data of this segment, and stored data that
    /// directly follows it.
    pub in_order: u32,
    /// Number of bytes that may be released from the front of the send queue.
    pub acked: u32,
    /// Events for the application.
    pub events: Events,
    /// Reason why the segment or its data was dropped.
    pub dropped: Option<Dropped>,
    /// Segment to send that is not part of the data stream: a RST or a challenge ACK.
    pub answer: Option<Out>,
    /// True if a round trip was measured.
    pub measured: bool,
}

impl Reply {
    /// Returns whether the segment's data filled the gap before stored data.
    pub(crate) fn fills_gap(&self) -> bool {
        matches!(self.text, Text::Accept { len, .. } if self.in_order > len)
    }
}
