//! `ss`: the sockets.

use super::parse::Words;
use super::{Ctl, WordError};
use lock::Locks;
use serde_json::{Value, json};
use std::net::{IpAddr, SocketAddr};

/// One socket, as listed.
struct Row {
    fd: usize,
    state: &'static str,
    queued: usize,
    queued_bytes: usize,
    limit: usize,
    local: SocketAddr,
    peer: Option<SocketAddr>,
}

pub(super) fn run<L: Locks>(ctl: &Ctl<'_, L>, mut words: Words<'_>) -> Result<String, WordError> {
    while let Some(word) = words.take() {
        let known = word.strip_prefix('-').is_some_and(|letters| letters.chars().all(|c| "uanl4".contains(c)));
        if !known {
            return Err(WordError::unknown("option", word, ["-u", "-a", "-n", "-l"].into_iter()));
        }
    }
    Ok(list(ctl))
}

pub(super) fn list<L: Locks>(ctl: &Ctl<'_, L>) -> String {
    let mut rows = Vec::new();
    ctl.host.stack.for_each_pcb(ctl.cx, |fd, pcb| {
        let tuple = pcb.tuple();
        let end = |addr: inet::demux::Addr, port: wire::L4Port| SocketAddr::new(IpAddr::from(addr), port.0);
        rows.push(Row {
            fd,
            state: if pcb.is_connected() { "ESTAB" } else { "UNCONN" },
            queued: pcb.queued(),
            queued_bytes: pcb.queued_bytes(),
            limit: pcb.recv_limit(),
            local: end(tuple.local, tuple.local_port),
            peer: pcb.is_connected().then(|| end(tuple.remote, tuple.remote_port)),
        });
    });
    let json = |row: &Row| {
        json!({
            "netid": "udp", "state": row.state, "recv_q": row.queued_bytes, "recv_datagrams": row.queued,
            "recv_limit": row.limit, "send_q": 0, "local": row.local.ip().to_string(), "local_port": row.local.port(),
            "peer": row.peer.map(|peer| peer.ip().to_string()), "peer_port": row.peer.map(|peer| peer.port()),
            "fd": row.fd,
        })
    };
    let text = |row: &Row| {
        let peer = row.peer.map_or("0.0.0.0:*".to_string(), |peer| peer.to_string());
        format!("udp   {:<6} {:>6} {:>6} {:>22} {peer:>22}\n", row.state, row.queued_bytes, 0, any(row.local))
    };
    ctl.listing(
        || Value::Array(rows.iter().map(json).collect()),
        || {
            let head = format!("Netid {:<6} {:>6} {:>6} {:>22} {:>22}\n", "State", "Recv-Q", "Send-Q", "Local", "Peer");
            head + &rows.iter().map(text).collect::<String>()
        },
    )
}

/// A socket not bound yet has no port.
fn any(local: SocketAddr) -> String {
    if local.port() == 0 { format!("{}:*", local.ip()) } else { local.to_string() }
}
