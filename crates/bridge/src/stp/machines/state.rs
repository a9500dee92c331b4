//! Port State Transition (IEEE 802.1D-2004 17.30): sets the port to the state that the other
//! machines have decided.

use crate::stp::port::Port;
use crate::stp::tree::Tree;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Discarding,
    Learning,
    Forwarding,
}

pub fn begin(p: &mut Port, b: &mut Tree) {
    enter(p, b, State::Discarding);
}

pub fn step(p: &mut Port, b: &mut Tree) -> bool {
    let next = match p.state {
        State::Discarding if p.learn => State::Learning,
        State::Learning if !p.learn => State::Discarding,
        State::Learning if p.forward => State::Forwarding,
        State::Forwarding if !p.forward => State::Discarding,
        _ => return false,
    };
    enter(p, b, next);
    true
}

fn enter(p: &mut Port, b: &mut Tree, state: State) {
    p.state = state;
    p.learning = state != State::Discarding;
    p.forwarding = state == State::Forwarding;
    p.counts.forwarded += u64::from(p.forwarding);
    b.out.state(p.no);
}
