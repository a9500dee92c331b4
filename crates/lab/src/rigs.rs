//! Rigs: hosts set up to do one thing over and over, as subjects of a study.
//!
//! | row | one operation |
//! |---|---|
//! | `send.*` | a datagram of 22 bytes through `sendto` to the pktgen sink: a 64-byte frame (FCS not counted) |
//! | `recv.*` | such a frame made by pktgen, taken in, demultiplexed, and its payload copied by `recvfrom` |
//! | `route.*` | such a frame made by pktgen, forwarded, sunk |
//! | `route.updates` | the same while another thread changes routes |
//! | `tunnel.*` | the same over two routers with a link or a tunnel between |
//! | `direct`, `hybrid`, `queued`, `deferred` | such a frame forwarded behind netisr |
//! | `fib.*` | a longest-prefix lookup, in bursts of 32 over uniformly random addresses |
//! | `bridge.*` | a frame taken from one port's ring, decided about, put into another's |
//! | `lanes.*` | a frame through a switch of four ports, by one loop or two: ticks of wall time, all together |
//! | `nic.*` | the same between cards with descriptor rings, their drivers' work included |
//! | `fdb.*`, `pool`, `ring` | an address looked up; a buffer, a frame through a ring: in bursts of 32 |
//! | `ftp.*` | a byte of an FTP transfer, both hosts' work included |
//! | `up.*`, `smp.*`, `several.*` | a byte, transaction or connection of netperf's or tcpconnect, one host's netisr set: ticks of wall time |
//! | `hrh.*`, `tcpconnect` | the same without netisr |
//! | `hosts.*` | `send` on n disjoint hosts, a thread and a core each: ticks of wall time per datagram, all together |
//! | `bulk.*`, `rr.*`, `connect_close` | bytes, transactions, connections between two hosts |
//!
//! Every trial checks that what should have arrived has arrived, and that the conservation audit is exact.

mod bridge;
mod fib;
mod ftp;
mod hosts;
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
pub use fib::FibRig;
pub use ftp::{BUFFER as FTP_BUFFER, Facts as FtpFacts, FtpSubject, Setup, WARM as FTP_WARM, Way, ftp_rig};
pub use hosts::{HostsRig, SharedRig, idle_host_bytes};
pub use isr::{IsrRig, IsrThreadRig, LightRig};
pub use lanes::{LanesRig, Leave};
pub use netperf::{NetperfRig, Service, Work};
pub use nic::{
    FINAL as NIC_FINAL, FIRST as NIC_FIRST, NicCosts, NicLoops, NicPaced, NicRig, NicSetup, NicStall,
    ROUND as NIC_ROUND, last_level_cache, stall as nic_stall,
};
pub use recv::{RecvRig, TwoThreadsRig};
pub use route::{RouteRig, UPDATES_PER_SECOND, UpdatesRig};
pub use send::{BuiltSend, SendRig};
pub(crate) use tcp::idle;
pub use tcp::{
    BUFFER, BULK, Bulk, BulkRig, CHUNK, CONNECTIONS, ConnectRig, End, Idle, Link, MakeEnd, RrRig, TRANSACTIONS,
    TwoCores, idle_bytes,
};
pub use text::Text;
pub use tunnel::TunnelRig;

/// The payload of the report.
pub use rung::serve::PAYLOAD;
