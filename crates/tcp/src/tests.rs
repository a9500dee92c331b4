//! Tests with two connections and a link in virtual time, and conversations with a scripted peer.

mod conversations;
pub mod pair;
mod peer;
mod strangers;

use crate::{Handshake, SeqNum, TsState};
use clock::Duration;

/// Returns a listener's handshake with a peer that offered all options but ECN.
pub fn handshake() -> Handshake {
    Handshake {
        iss: SeqNum(5),
        irs: SeqNum(9),
        mss: 1460,
        snd_wscale: Some(7),
        rcv_wscale: 7,
        sack: true,
        ts: Some(TsState { recent: 70, offset: 3 }),
        window: 500,
        ecn: false,
        rtt: Some(Duration::from_millis(2)),
    }
}

/// The size of the control block is the cost of an idle connection
/// (docs/results/2026-11-21-tcp.md), so state that few connections need is boxed.
#[test]
fn a_control_block_is_small() {
    assert!(size_of::<crate::Tcb>() <= 608, "{} bytes", size_of::<crate::Tcb>());
}
