//! `show places`: the places along a frame's path where frames are dropped, such as a ring before
//! the link layer, a queue after it, the stack, and the sockets.
//!
//! Under overload, the dispatch modes of netisr differ in this list. With direct dispatch, frames
//! are lost in the ring, before any work is spent on them. With deferred dispatch, frames are taken
//! from the ring and dropped at netisr's queues. Frames lost in the ring were never received and
//! are not part of the balance of `audit`. All other places add up to the `dropped` value of
//! `audit`, because each reason belongs to one place.

use super::context::Ctl;
use lock::Locks;
use node::PortInfo;
use port::PortCounts;
use serde_json::{Map, json};
use stats::Entry;

/// A place where frames are dropped, with the name prefixes of its drop reasons. A drop reason
/// belongs to the first place with a prefix that matches.
struct Place {
    name: &'static str,
    about: &'static str,
    reasons: &'static [&'static str],
}

const PLACES: &[Place] = &[
    Place {
        name: "queue",
        about: "queue full (netisr, loopback, tunnels)",
        reasons: &["dispatch.netisr.", "inet.link.loopback.", "inet.tunnel.in.queue_full"],
    },
    Place { name: "worker", about: "in processing by a netisr worker that died", reasons: &["net.isr."] },
    Place {
        name: "socket",
        about: "socket buffer or queue full, or socket closed",
        reasons: &[
            "inet.udp.in.buffer_full",
            "inet.udp.in.closed",
            "inet.tcp.in.accept_queue_full",
            "inet.tcp.in.no_memory",
            "inet.tcp.in.reassembly_full",
            "inet.tcp.in.after_close",
        ],
    },
    Place { name: "transmit", about: "transmit queue full, or no port", reasons: &["inet.link.ether.out."] },
    Place { name: "end", about: "host shut down", reasons: &["node."] },
    Place {
        name: "link",
        about: "link layer, ARP, neighbor table",
        reasons: &["inet.link.", "inet.arp.", "inet.neigh."],
    },
    Place { name: "ip", about: "IP, fragments, tunnels", reasons: &["inet.ip4.", "inet.ip6.", "inet.tunnel."] },
    // All remaining reasons belong to upper protocols.
    Place { name: "transport", about: "rejected by ICMP, IGMP, UDP, TCP or another upper protocol", reasons: &[""] },
];

struct Row {
    place: &'static str,
    about: &'static str,
    frames: u64,
    reasons: Vec<Entry>,
}

pub(super) fn shown<L: Locks>(ctl: &Ctl<'_, L>) -> String {
    let (report, ports) = (ctl.host.audit(), ctl.host.ports());
    let (rows, ring, port) = (rows(&report.reasons), sum(&ports, missed), sum(&ports, |port| in_port(&port.counts)));
    let json = || {
        let row = |row: &Row| {
            let reasons: Map<_, _> = row.reasons.iter().map(|entry| (entry.name.clone(), entry.value.into())).collect();
            json!({ "place": row.place, "frames": row.frames, "reasons": reasons })
        };
        json!({
            "ring": ring, "port": port, "places": rows.iter().map(row).collect::<Vec<_>>(), "dropped": report.dropped,
            "imbalance": report.imbalance(),
        })
    };
    let text = || {
        let line = |name: &str, frames: u64, about: &str| format!("{name:<10} {frames:>12}  {about}\n");
        let mut out = line("ring", ring, "lost before reception: no free descriptor or buffer in the ring");
        out += &line(
            "port",
            port,
            "lost in a port or its wrappers, before reception: malformed, queue full, or on purpose",
        );
        for row in &rows {
            out += &line(row.place, row.frames, row.about);
            for entry in &row.reasons {
                out += &format!("{:>23}  {}: {}\n", entry.value, entry.name, entry.sentence);
            }
        }
        out + &line("dropped", report.dropped, "total of all places except ring and port")
    };
    ctl.listing(json, text)
}

/// Returns each place with its drop reasons, in the order of a frame's path.
fn rows(reasons: &[Entry]) -> Vec<Row> {
    let of =
        |entry: &Entry| PLACES.iter().position(|place| place.reasons.iter().any(|head| entry.name.starts_with(head)));
    let row = |(at, place): (usize, &Place)| {
        let reasons: Vec<Entry> = reasons.iter().filter(|entry| of(entry) == Some(at)).cloned().collect();
        Row { place: place.name, about: place.about, frames: reasons.iter().map(|entry| entry.value).sum(), reasons }
    };
    PLACES.iter().enumerate().map(row).collect()
}

fn sum(ports: &[PortInfo], of: impl Fn(&PortInfo) -> u64) -> u64 {
    ports.iter().map(of).sum()
}

/// Returns the number of frames lost before reception, in the ring of a card or of the kernel.
fn missed(port: &PortInfo) -> u64 {
    port.counts.rx.missed.get() + port.nic.as_ref().map_or(0, |nic| nic.missed())
}

fn in_port(counts: &PortCounts) -> u64 {
    let rx = &counts.rx;
    rx.malformed.get() + rx.impaired.get() + rx.queue_full.get() + counts.tx.dropped()
}

#[cfg(test)]
mod tests {
    use super::*;
    use stats::DropReason;

    #[test]
    fn each_reason_is_one_places() {
        let entry = |why: &DropReason| Entry { name: why.name().to_owned(), sentence: "", value: 1 };
        let all: Vec<Entry> = DropReason::ALL.iter().map(entry).collect();
        let rows = rows(&all);
        assert_eq!(rows.iter().map(|row| row.frames).sum::<u64>(), DropReason::ALL.len() as u64);
        let place =
            |why: DropReason| rows.iter().find(|row| row.reasons.iter().any(|e| e.name == why.name())).unwrap().place;
        for (why, is) in [
            (DropReason::NetisrQueueFull, "queue"),
            (DropReason::TunnelQueueFull, "queue"),
            (DropReason::UdpBufferFull, "socket"),
            (DropReason::TcpAcceptQueueFull, "socket"),
            (DropReason::TxQueueFull, "transmit"),
            (DropReason::EtherShort, "link"),
            (DropReason::FragTimeout, "ip"),
            (DropReason::UdpNoSocket, "transport"),
            (DropReason::Shutdown, "end"),
        ] {
            assert_eq!(place(why), is, "{why:?}");
        }
    }
}
