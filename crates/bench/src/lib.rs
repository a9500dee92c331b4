//! Peers beside us in one run.
