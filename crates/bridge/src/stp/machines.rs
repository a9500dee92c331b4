//! State machines of a port (IEEE 802.1D-2004 17.15, figures 17-13 and following), one file for
//! each.
//!
//! Each file contains the states of the machine by their standard names, and a function `step` with
//! the transitions out of each state, their conditions as in the figure, and the actions on
//! entering a state. `step` returns whether the machine changed state. The function [`step`] of
//! this module runs each machine, and each changes state at most once.

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

/// Maximum number of rounds over the machines, more than they ever need. If it is reached, a
/// machine is faulty, and the machines stop until the next event.
pub(super) const MOST_ROUNDS: usize = 64;

/// Executes BEGIN of the standard: every machine enters its initial state.
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

/// Steps each machine except Port Transmit. Returns whether any of them changed state.
pub(super) fn step(p: &mut Port, b: &mut Tree) -> bool {
    let mut moved = receive::step(p);
    moved |= migration::step(p, b);
    moved |= detection::step(p);
    moved |= information::step(p, b);
    moved |= transitions::step(p, b);
    moved |= state::step(p, b);
    moved | topology::step(p, b)
}

/// Runs Port Transmit after the other machines have come to rest, so that a port sends only its
/// final state.
pub(super) fn transmit(p: &mut Port, b: &mut Tree) {
    let mut steps = 0;
    while transmit::step(p, b) && steps < MOST_ROUNDS {
        steps += 1;
    }
}
