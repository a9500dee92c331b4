//! Two connections and a link on virtual time; conversations with a scripted peer.

mod conversations;
pub mod pair;
mod peer;
mod strangers;

/// What an idle connection costs is its control block (docs/results/2026-11-21-tcp.md): what few need is boxed when they do.
#[test]
fn a_control_block_is_small() {
    assert!(size_of::<crate::Tcb>() <= 608, "{} bytes", size_of::<crate::Tcb>());
}
