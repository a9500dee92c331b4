//! Two connections and a link on virtual time; conversations with a scripted peer.

mod conversations;
mod pair;
mod peer;
mod strangers;
