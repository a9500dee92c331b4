//! Comparison of this stack with other stacks (peers), measured in the same run.
//!
//! Each peer is a [`lab::subject::Subject`] called `<peer>.<row>`: every subject with the same row
//! does the same work.
//!
//! | row | one operation |
//! |---|---|
//! | `send.csum` | send 22 bytes as a 64-byte frame (without FCS), checksums in software |
//! | `send.offload` | the same as `send.csum`, with both checksums left to the device |
//! | `recv.one_thread` | receive a 64-byte frame with correct checksums, copy the payload out |
//! | `bulk.*`, `rr.*`, `connect_close`, `conn.idle_bytes` | as in `bench tcp`: [`lab::rigs`] |
//!
//! Each peer is configured for its best result. Only the features that the row needs are compiled
//! in, tables are warm, buffers never fill, and the device has one buffer. Of several methods to
//! call the peer, the fastest is used ([`smoltcp::Chosen`]). After every trial, the device's frame
//! count and every byte of the last frame must match the row.

pub mod frame;
pub mod library;
pub mod smoltcp;

use lab::bench::{IdlePeer, Peers, TcpPeers, both_cores};
use lab::side::Side;
use lab::subject::Subject;

use crate::smoltcp::tcp::{self, HARD, LARGE, SOFT};
use crate::smoltcp::{Chosen, SmoltcpRecv, SmoltcpSend};

/// Builds one subject with `make`, to check that the peer is available and to choose the fastest
/// method of calling it. Returns the side `id` of a comparison, which builds its subjects with
/// `make`, and a description of the chosen method.
fn peer<S: Subject + 'static>(
    id: &'static str,
    make: impl Fn(&Chosen) -> anyhow::Result<S> + 'static,
) -> anyhow::Result<(Side, String)> {
    let chosen = Chosen::default();
    drop(make(&chosen)?);
    let how = chosen.how();
    Ok((Side::new(id, move || make(&chosen)), how))
}

/// Returns the peers of `bench udp` except the kernel, and for each peer that is unavailable on
/// this machine the reason.
pub fn udp_peers() -> (Peers, Vec<String>) {
    split([
        peer("smoltcp.send.csum", SmoltcpSend::new),
        peer("smoltcp.send.offload", SmoltcpSend::offload),
        peer("smoltcp.recv.one_thread", SmoltcpRecv::new),
    ])
}

fn split(made: impl IntoIterator<Item = anyhow::Result<(Side, String)>>) -> (Peers, Vec<String>) {
    let (mut found, mut missing) = (Peers::new(), Vec::new());
    for peer in made {
        match peer {
            Ok(peer) => found.push(peer),
            Err(why) => missing.push(format!("{why:#}")),
        }
    }
    (found, missing)
}

/// Number of connections in the memory measurement. The time to set them up grows with the square
/// of this number.
const WEIGHED: u16 = 4000;

/// Returns the peers of `bench tcp` except the kernel, which the crate `lab` provides.
pub fn tcp_peers(options: &lab::study::Options) -> TcpPeers {
    let crossing = both_cores(options).map(|cores| {
        let side =
            Side::new("smoltcp.bulk.64k.two_cores", move || tcp::two_cores("smoltcp.bulk.64k.two_cores", LARGE, cores));
        Ok((side, tcp::two_cores_how()))
    });
    let made = [
        peer("smoltcp.bulk.1460.csum", |chosen| tcp::stream("smoltcp.bulk.1460.csum", SOFT, chosen)),
        peer("smoltcp.bulk.1460.offload", |chosen| tcp::stream("smoltcp.bulk.1460.offload", HARD, chosen)),
        peer("smoltcp.bulk.64k", |chosen| tcp::stream("smoltcp.bulk.64k", LARGE, chosen)),
        peer("smoltcp.rr.tcp", |chosen| tcp::rr_tcp("smoltcp.rr.tcp", 0, chosen)),
        peer("smoltcp.rr.udp", |chosen| tcp::rr_udp("smoltcp.rr.udp", chosen)),
        peer("smoltcp.connect_close", |_| tcp::Connect::new("smoltcp.connect_close"))
            .map(|(side, _)| (side, "the same two sockets each time, no TIME-WAIT".to_owned())),
    ];
    let (subjects, mut notes) = split(made.into_iter().chain(crossing));
    let idle: Vec<IdlePeer> = tcp::idle(WEIGHED).map_err(|why| notes.push(format!("{why:#}"))).into_iter().collect();
    TcpPeers { subjects, idle, notes }
}
