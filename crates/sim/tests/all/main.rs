//! Networks on virtual time.

mod impaired;
mod shapes;
mod streams;
mod switches;
mod tunnels;
mod worlds;
