//! BFD control packets (RFC 5880 4.1): the state of a session, as one end announces it.

use crate::L4Port;

/// UDP destination port of control packets over one hop (RFC 5881 4).
pub const PORT: L4Port = L4Port(3784);
/// Length of the mandatory part of a control packet.
const LEN: usize = 24;
const VERSION: u8 = 1;

/// State of a session at the sender (RFC 5880 4.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// The session is administratively down.
    AdminDown,
    /// The session is down.
    Down,
    /// The sender has received the other end's packets.
    Init,
    /// The session is up.
    Up,
}

/// Parsed fields of a control packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packet {
    /// State of the session.
    pub state: State,
    /// Reason of the last change of the state to down; 0 if there was none.
    pub diagnostic: u8,
}

impl Packet {
    /// Parses the payload of a UDP datagram; `None` if it is no control packet.
    pub fn parse(payload: &[u8]) -> Option<Packet> {
        let [first, second, _, len, ..] = *payload.first_chunk::<LEN>()?;
        let is_valid = first >> 5 == VERSION && (LEN..=payload.len()).contains(&usize::from(len));
        let state = match second >> 6 {
            0 => State::AdminDown,
            1 => State::Down,
            2 => State::Init,
            _ => State::Up,
        };
        is_valid.then_some(Packet { state, diagnostic: first & 0x1f })
    }

    /// Returns whether the session failed (diagnostics 1 to 6), rather than that it has not come up
    /// yet or that an operator of this end has ended it.
    pub fn has_failed(self) -> bool {
        self.state == State::Down && matches!(self.diagnostic, 1..=6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(first: u8, second: u8, len: u8) -> [u8; LEN] {
        let mut out = [0; LEN];
        (out[0], out[1], out[2], out[3]) = (first, second, 3, len);
        out
    }

    #[test]
    fn the_state_and_its_reason_are_parsed() {
        let of = |first, second| Packet::parse(&packet(first, second, 24)).unwrap();
        assert_eq!(of(0x20, 0xc0), Packet { state: State::Up, diagnostic: 0 });
        assert_eq!(of(0x20, 0x80).state, State::Init);
        assert_eq!(of(0x20, 0x00).state, State::AdminDown);
        assert!((1..=6).all(|diagnostic| of(0x20 | diagnostic, 0x40).has_failed()));
        // Not up yet; ended by an operator; up again with the reason of the last failure.
        assert!(!of(0x20, 0x40).has_failed() && !of(0x27, 0x40).has_failed() && !of(0x21, 0xc0).has_failed());
    }

    #[test]
    fn other_packets_are_rejected() {
        assert_eq!(Packet::parse(&packet(0x40, 0xc0, 24)), None); // another version
        assert_eq!(Packet::parse(&packet(0x20, 0xc0, 23)), None);
        assert_eq!(Packet::parse(&packet(0x20, 0xc0, 25)), None); // longer than the datagram
        assert_eq!(Packet::parse(&packet(0x20, 0xc0, 24)[..23]), None);
        assert_eq!(Packet::parse(&[]), None);
    }
}
