//! States of a connection (RFC 9293 3.3.2), and the operations permitted in each.
//!
//! LISTEN is not one of them, because a listener is a table and not a connection.

/// State of a connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum State {
    /// No connection: it was never opened, or it has ended.
    Closed,
    /// Our SYN is sent; the connection waits for the peer's SYN.
    SynSent,
    /// The peer's SYN was received and ours is sent; the connection waits for the ACK of our SYN.
    SynReceived,
    /// The handshake is complete, and both sides may send data.
    Established,
    /// The peer has sent FIN; we may still send.
    CloseWait,
    /// We have sent FIN, which is not acknowledged; the peer may still send.
    FinWait1,
    /// Our FIN is acknowledged; the peer may still send.
    FinWait2,
    /// Both sides have sent a FIN; ours is not acknowledged.
    Closing,
    /// The peer's FIN came first; ours is sent and not acknowledged.
    LastAck,
    /// Both sides have closed; the connection waits for late duplicates to expire.
    TimeWait,
}

impl State {
    /// Returns whether both sides have received each other's initial sequence number (RFC 9293
    /// 3.5.2).
    #[inline]
    pub fn is_synchronized(self) -> bool {
        self >= State::Established
    }

    /// Returns whether the application may append bytes to the send queue.
    #[inline]
    pub fn may_queue(self) -> bool {
        matches!(self, State::SynSent | State::SynReceived | State::Established | State::CloseWait)
    }

    /// Returns whether data may be sent or retransmitted, which includes all states in which sent
    /// data may be unacknowledged.
    #[inline]
    pub fn may_send(self) -> bool {
        matches!(self, State::Established | State::CloseWait | State::FinWait1 | State::Closing | State::LastAck)
    }

    /// Returns whether data from the peer is accepted (RFC 9293 3.10.7.4, seventh).
    #[inline]
    pub fn may_receive(self) -> bool {
        matches!(self, State::Established | State::FinWait1 | State::FinWait2)
    }

    /// Returns whether our side has closed, so that our FIN is queued or sent.
    #[inline]
    pub fn is_closing(self) -> bool {
        matches!(self, State::FinWait1 | State::FinWait2 | State::Closing | State::LastAck | State::TimeWait)
    }
}
