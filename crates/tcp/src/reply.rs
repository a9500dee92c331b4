//! What the core answers: where text goes, what may be released, what the application should know, why something was dropped.

use crate::Out;
use std::fmt;
use std::ops::{BitOr, BitOrAssign};

/// What to do with an arriving segment's text.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Text {
    /// Nothing of it is wanted.
    #[default]
    Nothing,
    /// Keep `len` bytes after the first `skip`, to lie `at` bytes after what RCV.NXT was (0: in order).
    ///
    /// Out-of-order text may overlap what is held already; which of the two copies is kept is the host's choice.
    Accept {
        /// Bytes of the text to pass over.
        skip: u32,
        /// Bytes to keep.
        len: u32,
        /// Where they lie.
        at: u32,
    },
}

/// A set of things the application may want to know.
#[derive(Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Events(pub u32);

impl Events {
    /// Nothing.
    pub const NONE: Events = Events(0);
    /// There is more to read.
    pub const READABLE: Events = Events(1);
    /// There is more room in the send queue.
    pub const WRITABLE: Events = Events(1 << 1);
    /// The handshake is done: an active open succeeded.
    pub const CONNECTED: Events = Events(1 << 2);
    /// The handshake is done: a passive open may be accepted.
    pub const ACCEPTABLE: Events = Events(1 << 3);
    /// The peer has sent all it will send: end of file.
    pub const PEER_CLOSED: Events = Events(1 << 4);
    /// The peer reset the connection (`ECONNRESET`).
    pub const RESET: Events = Events(1 << 5);
    /// The peer, or an ICMP message, refused the connection (`ECONNREFUSED`).
    pub const REFUSED: Events = Events(1 << 6);
    /// Given up (`ETIMEDOUT`).
    pub const TIMED_OUT: Events = Events(1 << 7);
    /// Urgent data is announced (`SIGURG`).
    pub const URGENT: Events = Events(1 << 8);
    /// The connection entered TIME-WAIT: a compact entry can take its place.
    pub const TIME_WAIT: Events = Events(1 << 9);
    /// The connection is over: it will neither send nor take anything, no timer runs.
    pub const CLOSED: Events = Events(1 << 10);
    /// An ICMP error came that does not end the connection; `getsockopt(SO_ERROR)` may tell if it ends for another reason.
    pub const SOFT_ERROR: Events = Events(1 << 11);
    /// The path does not answer: another route may (RFC 9293 3.8.3, R1).
    pub const PATH_DOUBTFUL: Events = Events(1 << 12);
    /// A SYN that may begin a new connection in place of this one in TIME-WAIT (RFC 6191, RFC 9293 3.6.1).
    pub const REUSABLE: Events = Events(1 << 13);
    /// The host or network is unreachable (`EHOSTUNREACH`).
    pub const UNREACHABLE: Events = Events(1 << 14);

    /// All of `other` are in it.
    #[inline]
    pub const fn contains(self, other: Events) -> bool {
        self.0 & other.0 == other.0
    }

    /// Some of `other` are in it.
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
        /// Why a segment, or its text, was not taken.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
        pub enum Dropped {
            $(#[doc = $why] $name,)+
        }

        impl Dropped {
            /// All reasons.
            pub const ALL: &[Dropped] = &[$(Dropped::$name,)+];

            /// The reason as a sentence.
            pub const fn sentence(self) -> &'static str {
                match self { $(Dropped::$name => $why,)+ }
            }
        }
    };
}

dropped! {
    NoConnection: "There is no connection (RFC 9293 3.10.7.1).",
    BadFlags: "SYN with FIN or RST, or no flag that means something.",
    Paws: "An old duplicate by its timestamp (RFC 7323 5.3, R1).",
    OutOfWindow: "Outside the receive window (RFC 9293 3.10.7.4, first).",
    ResetInWindow: "RST with a sequence number in the window that is not RCV.NXT: challenged (RFC 5961 3.2).",
    ResetOutOfWindow: "RST outside the window.",
    ResetUnacknowledged: "RST in SYN-SENT that does not acknowledge our SYN (RFC 9293 3.10.7.3, second).",
    ResetInTimeWait: "RST in TIME-WAIT (RFC 1337).",
    SynInWindow: "SYN on a synchronized connection: challenged (RFC 5961 4.2).",
    SynDuplicate: "The SYN that is being answered already.",
    NoAck: "Without ACK, which all but SYN and RST carry (RFC 9293 3.10.7.4, fifth).",
    AckUnsent: "Acknowledges what was not sent (RFC 9293 3.10.7.4, fifth).",
    AckTooOld: "Acknowledges what was acknowledged more than a window ago (RFC 5961 5.2).",
    AckInHandshake: "Acknowledges anything but our SYN (RFC 9293 3.10.7.3, first; 3.10.7.4, fifth).",
    TextDuplicate: "All of its text was here already.",
    TextBeyondWindow: "All of its text lies beyond the receive window.",
    TextAfterFin: "Text behind the peer's FIN.",
    TextAfterClose: "Text for a connection that nobody will read: reset (RFC 9293 3.6.1, RFC 1122 4.2.2.13).",
    ReassemblyFull: "One more gap in the text received than are kept.",
    TimeWaitDuplicate: "A late segment of a connection in TIME-WAIT.",
}

/// What a segment brought.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Reply {
    /// Where its text goes.
    pub text: Text,
    /// Bytes by which RCV.NXT advanced, text only: this text, and stored text that it joined.
    pub in_order: u32,
    /// Bytes that may be released from the front of the send queue.
    pub acked: u32,
    /// For the application.
    pub events: Events,
    /// Why it, or its text, was not taken.
    pub dropped: Option<Dropped>,
    /// An answer that is not part of the stream: RST or challenge ACK.
    pub answer: Option<Out>,
    /// A round trip was measured.
    pub measured: bool,
}

impl Reply {
    /// Returns whether the segment's text joined text that was stored behind it.
    pub(crate) fn fills_gap(&self) -> bool {
        matches!(self.text, Text::Accept { len, .. } if self.in_order > len)
    }
}
