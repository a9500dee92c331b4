//! Routes from a routing engine: FRR's `zebra` connects to this host and sends its routes by the
//! Forwarding Plane Manager protocol (FPM).
//!
//! [`FpmServer`] listens, and reads the stream in a separate thread, so that `zebra` waits only if
//! the queue to the host is full. The thread that runs the host applies the frames between its
//! rounds ([`Host::serve_fpm`](crate::Host::serve_fpm)), to which it gives a small share of its
//! time while packets arrive. The engine (module `engine`) decides what a message changes; the
//! tables of the stack keep the routes ([`inet::route::Routes::learn`]).
//!
//! After `zebra` has disconnected, its routes stay for a configured time. A new connection
//! announces all of them again; those that it does not announce are then removed.

mod config;
mod engine;
mod inline;
mod paths;
mod server;
mod stale;
mod status;
mod tables;
#[cfg(test)]
mod tests;

pub use config::{FpmConfig, STALE_MAX};
pub(crate) use config::{loopback, marker, stale};
pub use engine::Engine;
pub use inet::route::Protocol;
pub use paths::Links;
pub use server::FpmServer;
pub(crate) use server::Target;
pub use status::{FpmStatus, NextHopStatus};
pub use tables::Tables;

stats::counters! {
    /// Counters of the messages of a routing engine, and of what became of its routes.
    pub struct FpmCounts at "node.fpm" {
        /// Connections accepted.
        accepted,
        /// Connections refused: another one was open.
        refused,
        /// Connections closed: the stream was not FPM.
        not_fpm,
        /// Frames received.
        frames,
        /// Messages: new or changed route.
        new_routes,
        /// Messages: removed route.
        del_routes,
        /// Messages: new or changed next hop.
        new_next_hops,
        /// Messages: removed next hop.
        del_next_hops,
        /// Messages of other types, ignored.
        other_messages,
        /// Messages that could not be parsed. The rest of their frame was ignored.
        malformed,
        /// Routes that were added or changed.
        changed,
        /// Routes that were the same already.
        unchanged,
        /// Routes that are not used, since the host has own routes to the same prefixes.
        shadowed,
        /// Routes that were removed.
        removed,
        /// Stale routes that were removed, since no connection announced them again.
        swept,
        /// Routes ignored: for another table.
        other_table,
        /// Routes ignored: link-local, loopback or multicast, or the kernel's own default route.
        ignored,
        /// Routes that wait for their next hop, which was not announced.
        unknown_next_hop,
        /// Routes without a path through an iface of this host.
        no_path,
        /// Routes lost: too many routes waited for their next hop.
        waiting_full,
        /// Routes lost: the table was full.
        table_full,
        /// Routes or next hops lost: no number for a next hop or path set was left.
        no_next_hop_left,
        /// Marker routes, which end the time of stale routes.
        markers,
    }
}
