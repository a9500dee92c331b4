//! Two connections and a link on virtual time; conversations with a scripted peer.

mod conversations;
pub mod pair;
mod peer;
mod strangers;
