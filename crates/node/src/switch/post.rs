//! Dataflow in a switch: a single loop polls ports and dispatches frames, and workers forward them
//! ([`dispatch::dataflow`]).
//!
//! ```text
//! Poster::post       each frame into the lane (queue) of its port and flow
//! Worker::turn       the frames of a lane through the worker's replica of the bridge
//! exchange::Outbox   outgoing frames, in one queue for each port; the loop sends them
//! ```
//! The number of a dataflow lane determines the ingress port of its frames, so that all frames of a
//! burst come from one port. Within a flow, fragments may overtake other frames, as with
//! receive-side scaling.

use bridge::PortNo;
use buf::{Burst, Frame};
use dispatch::dataflow::{self, Dispatcher};
use wire::hash::Key;

/// Maximum number of ports of a switch with workers.
pub const PORTS_MAX: usize = 64;
/// Number of dataflow lanes (queues) over which the flows of a port are distributed.
const SPREAD: usize = 16;
/// Number of dataflow lanes of a port: the lanes for its flows, and one for frames between bridges.
/// If BPDUs waited behind data, or were dropped at a full lane, the spanning tree would treat a
/// busy link as down.
const LANES: usize = SPREAD + 1;

/// Returns the dataflow configuration, with lanes for [`PORTS_MAX`] ports. Each lane has space for
/// 256 frames.
pub fn config() -> dataflow::Config {
    dataflow::Config { lanes: PORTS_MAX * LANES, ..dataflow::Config::default() }
}

/// Returns the ingress port of the frames in a lane.
pub fn port_of(lane: usize) -> PortNo {
    (lane / LANES) as PortNo
}

/// Dispatches received frames to workers.
#[derive(Debug)]
pub struct Poster {
    dispatcher: Dispatcher,
    key: Key,
}

impl Poster {
    pub fn new(dispatcher: Dispatcher) -> Poster {
        Poster { dispatcher, key: Key::random() }
    }

    /// Drops and counts the frames received on `port` that still wait for workers, because a port
    /// added later may get the same number.
    pub fn discard(&mut self, port: PortNo) {
        let first = usize::from(port) * LANES;
        (first..first + LANES).for_each(|lane| self.dispatcher.discard(lane));
    }

    /// Dispatches `burst`, which was received on port `from`. Frames that do not fit into their
    /// lane are dropped and counted.
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

/// Returns whether a frame is addressed to 01-80-C2-00-00-00 to -0F, which bridges do not forward
/// (IEEE 802.1D 7.12.6).
fn is_for_bridges(frame: &[u8]) -> bool {
    matches!(frame, [0x01, 0x80, 0xc2, 0, 0, last, ..] if *last < 0x10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_for_bridges_have_a_queue_of_their_own_at_each_port() {
        assert!(is_for_bridges(&[1, 0x80, 0xc2, 0, 0, 0, 9]) && is_for_bridges(&[1, 0x80, 0xc2, 0, 0, 15]));
        assert!(!is_for_bridges(&[1, 0x80, 0xc2, 0, 0, 16]) && !is_for_bridges(&[1, 0x80, 0xc2]));
        let lanes = config().lanes;
        assert_eq!(((0..lanes).map(port_of).max(), lanes), (Some(PORTS_MAX as PortNo - 1), PORTS_MAX * LANES));
    }
}
