//! Compiles the code of the guide.

#[cfg(feature = "tokio")]
#[doc = include_str!("../../../docs/guide/async.md")]
mod asynchronous {}

#[doc = include_str!("../../../docs/guide/bridge-and-router.md")]
mod bridge_and_router {}

#[cfg(all(feature = "commands", feature = "files"))]
#[doc = include_str!("../../../docs/guide/configuration.md")]
mod configuration {}

#[doc = include_str!("../../../docs/guide/embedding.md")]
mod embedding {}

#[doc = include_str!("../../../docs/guide/first-host.md")]
mod first_host {}

#[doc = include_str!("../../../docs/guide/measuring.md")]
mod measuring {}

#[doc = include_str!("../../../docs/guide/simulation.md")]
mod simulation {}

#[doc = include_str!("../../../docs/guide/sockets.md")]
mod sockets {}

#[doc = include_str!("../../../docs/guide/README.md")]
mod index {}
