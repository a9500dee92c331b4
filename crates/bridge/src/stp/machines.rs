//! The state machines of a port (IEEE 802.1D-2004 17.15, figures 17-13 and after), one file each.
//!
//! A file has the machine's states by their names and `step`: the transitions out of each state with their conditions as the figure
//! has them, then what is done on entering a state. `step` says whether the machine moved; [`step`] has each move once.

pub(super) mod detection;
pub(super) mod information;
pub(super) mod migration;
pub(super) mod receive;
pub(super) mod state;
pub(super) mod topology;
pub(super) mod transitions;
pub(super) mod transmit;

use super::port::Port;
use super::tree::Tree;

/// More steps than machines ever take at a time; beyond them one would be at fault, and waits for the next event.
pub(super) const MOST_ROUNDS: usize = 64;

/// BEGIN: every machine enters its first state.
pub(super) fn begin(p: &mut Port, b: &mut Tree) {
    receive::begin(p);
    migration::begin(p, b);
    detection::begin(p);
    information::begin(p);
    transitions::begin(p);
    state::begin(p, b);
    topology::begin(p);
    transmit::begin(p);
}

/// One step of each machine but Port Transmit. Did one move?
pub(super) fn step(p: &mut Port, b: &mut Tree) -> bool {
    let mut moved = receive::step(p);
    moved |= migration::step(p, b);
    moved |= detection::step(p);
    moved |= information::step(p, b);
    moved |= transitions::step(p, b);
    moved |= state::step(p, b);
    moved | topology::step(p, b)
}

/// Port Transmit, when the others rest: what a port says is said once, as it is in the end.
pub(super) fn speak(p: &mut Port, b: &mut Tree) {
    let mut steps = 0;
    while transmit::step(p, b) && steps < MOST_ROUNDS {
        steps += 1;
    }
}
