//! `show places`: where frames are dropped along their path: in a ring before the link layer, in a
//! queue after it, in the stack, at sockets.
//!
//! Netisr's modes differ here under overload (netisr2005): direct leaves frames in the ring, before
//! any work was spent on them; deferred takes them out and drops them at its queues. Frames lost in
//! the ring were never received and are in no balance. All other locations add up to the `dropped`
//! value of `audit`, since each reason belongs to one location.

use super::Ctl;
use crate::PortInfo;
use lock::Locks;
use port::PortCounts;
use serde_json::{Map, json};
use stats::Entry;

/// A location, and the prefixes of its drop reasons. The first match wins.
struct Place {
    name: &'static str,
    about: &'static str,
    reasons: &'static [&'static str],
}

const PLACES: &[Place] = &[
    Place {
        name: "queue",
        about: "refused: as many wait as may (netisr, loopback, tunnels)",
        reasons: &["dispatch.netisr.", "inet.link.loopback.", "inet.tunnel.in.queue_full"],
    },
    Place { name: "worker", about: "in the hand of a worker of netisr's that died", reasons: &["net.isr."] },
    Place {
        name: "socket",
        about: "buffers and queues of sockets are full, or are not read any more",
        reasons: &[
            "inet.udp.in.buffer_full",
            "inet.udp.in.closed",
            "inet.tcp.in.accept_queue_full",
            "inet.tcp.in.no_memory",
            "inet.tcp.in.reassembly_full",
            "inet.tcp.in.after_close",
        ],
    },
    Place { name: "transmit", about: "no place on the way out, or no port", reasons: &["inet.link.ether.out."] },
    Place { name: "end", about: "the host ended", reasons: &["node."] },
    Place {
        name: "link",
        about: "the link layer, ARP, neighbors",
        reasons: &["inet.link.", "inet.arp.", "inet.neigh."],
    },
    Place { name: "ip", about: "IP, fragments, tunnels", reasons: &["inet.ip4.", "inet.ip6.", "inet.tunnel."] },
    // All remaining reasons belong to upper protocols.
    Place { name: "transport", about: "ICMP, IGMP, UDP and TCP: refused", reasons: &[""] },
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
        let mut out = line("ring", ring, "before the link: no descriptor or buffer where they came; never received");
        out += &line("port", port, "in a port or its wrappers: not frames, or dropped on purpose; never received");
        for row in &rows {
            out += &line(row.place, row.frames, row.about);
            for entry in &row.reasons {
                out += &format!("{:>23}  {}: {}\n", entry.value, entry.name, entry.sentence);
            }
        }
        out + &line("dropped", report.dropped, "lost of those received or made: all but ring and port")
    };
    ctl.listing(json, text)
}

/// Returns each location with its reasons, in the order of a frame's path.
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

/// Returns the frames lost before reception, in the ring of a card or of the kernel.
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
