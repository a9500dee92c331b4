//! Rigs: hosts set up to do one thing repeatedly, as subjects of a study.
//!
//! | row | one operation |
//! |---|---|
//! | `send.*` | a datagram of 22 bytes by `sendto` to the pktgen sink: 64 bytes without FCS |
//! | `recv.*` | a 64-byte frame from pktgen, received, its payload copied by `recvfrom` |
//! | `route.*` | a 64-byte frame from pktgen, forwarded into a pktgen sink |
//! | `route.updates` | as `route.*`, while another thread changes routes |
//! | `tunnel.*` | as `route.*`, through two routers with a link or a tunnel between them |
//! | `direct`, `hybrid`, `queued`, `deferred` | a 64-byte frame forwarded by a router with netisr |
//! | `fib.*` | a longest-prefix lookup, in bursts of 32 over uniformly random addresses |
//! | `fib.loads` | a random load from 64 MB, which is the lower limit of a lookup |
//! | `engine.*` | a route of a routing engine (FPM), or a change of the next hop of all |
//! | `fib.change.*` | a route added to a full table or removed from it |
//! | `bridge.*` | a frame received from one port's ring, bridged, and put into another's |
//! | `lanes.*` | a frame through a switch, 1 or 2 loops of two ports each (wall time, all loops) |
//! | `nic.*` | a frame bridged between cards with descriptor rings, including their drivers' work |
//! | `fdb.*` | an address looked up in a bridge's table, in bursts of 32 |
//! | `pool`, `ring` | a buffer allocated and freed; a frame passed through a ring: bursts of 32 |
//! | `ftp.*` | a byte of an FTP transfer, including both hosts' work |
//! | `up.*`, `smp.*`, `several.*` | a byte, transaction or connection, with netisr (wall time) |
//! | `hrh.*`, `tcpconnect` | a byte, transaction or connection, without netisr (wall time) |
//! | `hosts.*` | `send` on n disjoint hosts, each with a thread and a core (wall time, all) |
//! | `shared.*` | `send`, `recv`, `route` or `bulk` by n threads on one host (wall time, all) |
//! | `bulk.*`, `rr.*`, `connect_close` | bytes, transactions, connections between two hosts |
//!
//! A figure is in ticks per operation; "wall time" means ticks of the wall clock, "all" over all
//! loops or threads together. Every trial checks that all expected data has arrived, and that the
//! host's audit accounts for every frame.

mod bridge;
mod cores;
mod engine;
mod fib;
mod ftp;
mod isr;
mod lanes;
mod netperf;
mod nic;
mod recv;
mod route;
mod send;
mod tcp;
mod text;
mod tunnel;

pub use bridge::{BridgeFacts, BridgeRig, FdbRig, PoolRig, RingRig};
pub use cores::{CoresRig, idle_host_bytes};
pub use engine::{EngineRig, EngineWork};
pub use fib::{FibChangeRig, FibRig, LoadsRig};
pub use ftp::{BUFFER as FTP_BUFFER, Facts as FtpFacts, FtpSubject, Setup, Way, ftp_rig, warm_up};
pub use isr::{IsrRig, IsrThreadRig, LightRig};
pub use lanes::{LanesRig, Leave};
pub use netperf::{NetperfRig, Service, Work};
pub use nic::{
    FINAL as NIC_FINAL, FIRST as NIC_FIRST, NicCosts, NicLoops, NicPaced, NicRig, NicSetup, NicStall,
    ROUND as NIC_ROUND, last_level_cache, stall as nic_stall,
};
pub use recv::{RecvRig, TwoThreadsRig};
pub use route::{Lengths, RouteRig, UPDATES_PER_SECOND, UpdatesRig};
pub use send::{BuiltSend, SendRig};
pub(crate) use tcp::idle;
pub use tcp::{
    BUFFER, BULK, Bulk, BulkRig, CHUNK, CONNECTIONS, ConnectRig, Domain, End, Idle, Link, MakeEnd, RrRig, TRANSACTIONS,
    TwoCores, idle_bytes,
};
pub use text::Text;
pub use tunnel::TunnelRig;

/// Payload of each datagram: 22 bytes, as in the report rump2014.
pub use rung::serve::PAYLOAD;
