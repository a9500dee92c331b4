//! Networks on virtual time.

mod impaired;
mod pkt;
mod requirements;
mod shapes;
mod streams;
mod switches;
mod tunnels;
mod worlds;
