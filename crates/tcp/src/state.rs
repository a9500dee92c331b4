//! The states of a connection (RFC 9293 3.3.2), and what may be done in which.
//!
//! LISTEN is not among them: a listener is a table, not a connection.

/// A connection's state.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum State {
    /// No connection: never opened, or over.
    Closed,
    /// SYN sent, waiting for the peer's.
    SynSent,
    /// SYN received and ours sent, waiting for its acknowledgment.
    SynReceived,
    /// Data flows.
    Established,
    /// The peer has sent FIN; we may still send.
    CloseWait,
    /// We have sent FIN; the peer may still send.
    FinWait1,
    /// Our FIN is acknowledged; the peer may still send.
    FinWait2,
    /// Both FINs are sent, ours is not acknowledged.
    Closing,
    /// The peer's FIN came first, ours is sent and not acknowledged.
    LastAck,
    /// Both are done; late duplicates die out.
    TimeWait,
}

impl State {
    /// Both sides know each other's initial sequence number (RFC 9293 3.5.2).
    #[inline]
    pub fn is_synchronized(self) -> bool {
        self >= State::Established
    }

    /// The application may queue bytes that will be sent.
    #[inline]
    pub fn may_queue(self) -> bool {
        matches!(self, State::SynSent | State::SynReceived | State::Established | State::CloseWait)
    }

    /// Text, first or again, may leave: all states in which something sent may be unacknowledged.
    #[inline]
    pub fn may_send(self) -> bool {
        matches!(self, State::Established | State::CloseWait | State::FinWait1 | State::Closing | State::LastAck)
    }

    /// Text is taken from the peer (RFC 9293 3.10.7.4, seventh).
    #[inline]
    pub fn may_receive(self) -> bool {
        matches!(self, State::Established | State::FinWait1 | State::FinWait2)
    }

    /// Our FIN has been asked for.
    #[inline]
    pub fn is_closing(self) -> bool {
        matches!(self, State::FinWait1 | State::FinWait2 | State::Closing | State::LastAck | State::TimeWait)
    }
}
