//! Peers beside us in one run.
//!
//! Each peer is a [`lab::subject::Subject`] called `<peer>.<row>`: every subject with the same row does the same work.
//!
//! | row | one operation |
//! |---|---|
//! | `send.csum` | a datagram with 22 bytes of payload leaves as a 64-byte frame (FCS not counted), checksums by software |
//! | `send.offload` | the same with both checksums left to the device |
//! | `recv.one_thread` | such a frame comes in with right checksums and its payload is copied to the application |
//! | `recv.sockets_<n>` | the same with n sockets, asked for in an order without pattern |
//! | `bulk.*`, `rr.*`, `connect_close`, `conn.idle_bytes` | as `linerate bench tcp` has them: [`lab::rigs`] |
//!
//! Peers are treated kindly: nothing compiled in that the row does not need, warm tables, buffers that never fill, one
//! reused device buffer, and of several ways of calling them the fastest ([`Peer::how`] says which). Nothing is taken on
//! trust: after every trial the device's count of frames and the last frame, byte by byte, must be what the row says.

pub mod frame;
pub mod smoltcp;

use lab::bench::{TcpPeers, both_cores};
use lab::native::{NativeRecv, NativeSend};
use lab::subject::Subject;

use crate::smoltcp::tcp::{self, HARD, LARGE, SOFT};
use crate::smoltcp::{SmoltcpRecv, SmoltcpSend};

/// A subject, and in a sentence what was done for it.
pub struct Peer {
    /// What is measured.
    pub subject: Box<dyn Subject>,
    /// The way it was called, and the device.
    pub how: String,
}

/// Every peer that this machine has, and a sentence for each that it has not.
pub fn peers_and_missing() -> (Vec<Peer>, Vec<String>) {
    let makers: [fn() -> anyhow::Result<Peer>; 8] = [
        || NativeSend::start().map(|it| Peer { how: it.device().to_owned(), subject: Box::new(it) }),
        || Ok(Peer { how: "the call alone; datagrams wait".to_owned(), subject: Box::new(NativeRecv::start()?) }),
        || sends(SmoltcpSend::new()),
        || sends(SmoltcpSend::offload()),
        || receives(SmoltcpRecv::new()),
        || receives(SmoltcpRecv::sockets(10)),
        || receives(SmoltcpRecv::sockets(1000)),
        || receives(SmoltcpRecv::sockets(10_000)),
    ];
    let mut missing = Vec::new();
    let mut found = Vec::new();
    for make in makers {
        match make() {
            Ok(peer) => found.push(peer),
            Err(why) => missing.push(format!("{why:#}")),
        }
    }
    (found, missing)
}

/// Idle connections that a row with 100,000 has where each segment is compared with every one.
const FEW: u16 = 1000;
/// Connections that are weighed: setting them up takes the square of their number.
const WEIGHED: u16 = 4000;

/// The peers of `bench tcp`; the kernel comes from the lab.
pub fn tcp_peers(options: &lab::study::Options) -> TcpPeers {
    let mut peers = TcpPeers::default();
    let made = [
        tcp::stream("smoltcp.bulk.1460.csum", SOFT),
        tcp::stream("smoltcp.bulk.1460.offload", HARD),
        tcp::stream("smoltcp.bulk.64k", LARGE),
        tcp::rr_tcp("smoltcp.rr.tcp", 0),
        tcp::rr_tcp("smoltcp.rr.tcp.100k_idle", FEW),
        tcp::rr_udp("smoltcp.rr.udp"),
        tcp::Connect::new("smoltcp.connect_close")
            .map(|it| (Box::new(it) as Box<dyn Subject>, "the same two sockets each time, no TIME-WAIT".to_owned())),
    ];
    let crossing = both_cores(options).map(|cores| tcp::two_cores("smoltcp.bulk.64k.two_cores", LARGE, cores));
    for subject in made.into_iter().chain(crossing) {
        match subject {
            Ok(subject) => peers.subjects.push(subject),
            Err(why) => peers.notes.push(format!("{why:#}")),
        }
    }
    match tcp::idle(WEIGHED) {
        Ok(idle) => peers.idle.push(idle),
        Err(why) => peers.notes.push(format!("{why:#}")),
    }
    peers
}

/// Every peer that this machine has.
pub fn peers() -> Vec<Box<dyn Subject>> {
    peers_and_missing().0.into_iter().map(|peer| peer.subject).collect()
}

fn sends(subject: anyhow::Result<SmoltcpSend>) -> anyhow::Result<Peer> {
    subject.map(|it| Peer { how: it.how().to_owned(), subject: Box::new(it) })
}

fn receives(subject: anyhow::Result<SmoltcpRecv>) -> anyhow::Result<Peer> {
    subject.map(|it| Peer { how: it.how().to_owned(), subject: Box::new(it) })
}
