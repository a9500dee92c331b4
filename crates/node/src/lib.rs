//! The one crate that knows everyone: configuration, wiring, running, control socket, show.
