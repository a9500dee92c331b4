//! Programs on our sockets.
