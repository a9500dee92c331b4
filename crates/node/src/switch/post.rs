//! Dataflow in a switch: the one loop polls and posts, workers decide (bridge2004's wish; [`dispatch::dataflow`]).
//!
//! ```text
//!  Poster::post       each frame into the lane of its port and flow
//!  Worker::turn       a lane's frames through the worker's replica of the bridge
//!  exchange::Outbox   what leaves, in one queue for each port; the loop sends it
//! ```
//! A lane's number says through which port its frames came, so that a burst of it is one port's. Of a flow's frames those that are
//! fragments may pass those that are not, as with receive-side scaling.

use bridge::PortNo;
use buf::{Burst, Frame};
use dispatch::dataflow::{self, Dispatcher};
use wire::hash::Key;

/// Ports that a switch with workers can have.
pub const PORTS_MAX: usize = 64;
/// Lanes of a port for its flows.
const SPREAD: usize = 16;
/// And one for what bridges say to each other: a spanning tree whose BPDUs wait behind data, or find no room, takes a busy link for a dead one.
const LANES: usize = SPREAD + 1;

/// Lanes for all ports; up to 256 frames wait in each.
pub fn config() -> dataflow::Config {
    dataflow::Config { lanes: PORTS_MAX * LANES, ..dataflow::Config::default() }
}

/// The port through which the frames of a lane came.
pub fn port_of(lane: usize) -> PortNo {
    (lane / LANES) as PortNo
}

/// Posts what came through ports.
#[derive(Debug)]
pub struct Poster {
    dispatcher: Dispatcher,
    key: Key,
}

impl Poster {
    pub fn new(dispatcher: Dispatcher) -> Poster {
        Poster { dispatcher, key: Key::random() }
    }

    /// Drops what waits for workers and came through `port`, counted: whoever has that number next is another port.
    pub fn discard(&mut self, port: PortNo) {
        let first = usize::from(port) * LANES;
        (first..first + LANES).for_each(|lane| self.dispatcher.discard(lane));
    }

    /// All of `burst`, which came through `from`; what has no room is dropped, and counted.
    pub fn post(&mut self, from: PortNo, burst: &mut Burst) {
        let (first, key) = (usize::from(from) * LANES, self.key);
        burst.as_slice().iter().for_each(Frame::prefetch);
        let lane_of = |frame: &Frame| match is_for_bridges(frame.bytes()) {
            true => first + SPREAD,
            false => first + wire::flow::hash(key, frame.bytes()) as usize % SPREAD,
        };
        self.dispatcher.post(burst, lane_of);
    }
}

/// To 01-80-C2-00-00-00 to -0F, which no bridge forwards (IEEE 802.1D 7.12.6).
fn is_for_bridges(frame: &[u8]) -> bool {
    matches!(frame, [0x01, 0x80, 0xc2, 0, 0, last, ..] if *last < 0x10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_bridges_say_has_a_lane_of_its_own_at_each_port() {
        assert!(is_for_bridges(&[1, 0x80, 0xc2, 0, 0, 0, 9]) && is_for_bridges(&[1, 0x80, 0xc2, 0, 0, 15]));
        assert!(!is_for_bridges(&[1, 0x80, 0xc2, 0, 0, 16]) && !is_for_bridges(&[1, 0x80, 0xc2]));
        let lanes = config().lanes;
        assert_eq!(((0..lanes).map(port_of).max(), lanes), (Some(PORTS_MAX as PortNo - 1), PORTS_MAX * LANES));
    }
}
