//! Netisr of a host: decides which thread processes a received frame and when, like netisr in
//! FreeBSD.
//!
//! A burst from a port goes to [`Feed::input`]. If all protocols are dispatched directly, the burst
//! goes straight to the stack. Otherwise [`dispatch::netisr`] decides for each frame, by its
//! EtherType, whether it is processed at once or queued for a workstream. The worker of the
//! workstream passes queued frames to the stack. A worker runs on a thread in [`Host::run_isr`], or
//! in the host's own loop after the ports ([`Feed::work`]). A frame that does not fit a queue is
//! dropped as [`DropReason::NetisrQueueFull`]; queued frames are counted as held in
//! [`Host::audit`].
//!
//! [`DropReason::NetisrQueueFull`]: stats::DropReason::NetisrQueueFull
//! [`Host::run_isr`]: crate::Host::run_isr
//! [`Host::audit`]: crate::Host::audit

mod check;
mod died;
mod error;
mod feed;
mod host;
mod protocols;
mod setup;
mod snapshot;
mod state;
pub mod sysctl;
#[cfg(test)]
mod tests;

pub(crate) use check::check;
pub use died::RESTARTS_MAX;
pub use error::IsrError;
pub(crate) use feed::{Feed, in_bursts};
pub use protocols::Received;
pub(crate) use protocols::{ARP, CLASSES, ETHER, IP, IP6, class_of, ids, named, packet};
pub use setup::WORKSTREAMS_MAX;
pub(crate) use setup::{base, set_up};
pub use snapshot::snapshot;
pub(crate) use state::{Isr, ShardOf};
