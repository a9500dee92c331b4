//! Two connections and a link on virtual time; conversations with a scripted peer.

mod conversations;
pub mod pair;
mod peer;
mod strangers;

use crate::{Handshake, SeqNum, TsState};
use clock::Duration;

/// What a listener hands on when a peer that offers everything but ECN has answered.
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

/// What an idle connection costs is its control block (docs/results/2026-11-21-tcp.md): what few need is boxed when they do.
#[test]
fn a_control_block_is_small() {
    assert!(size_of::<crate::Tcb>() <= 608, "{} bytes", size_of::<crate::Tcb>());
}
