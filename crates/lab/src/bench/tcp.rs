//! `linerate bench tcp`: bytes, transactions and connections between two hosts on one thread, beside the kernel's loopback.

use crate::env::Environment;
use crate::native::loopback::{LoopbackBulk, LoopbackConnect, LoopbackRr};
use crate::result::{Figure, Peer, Report, Row};
use crate::rigs::{BulkRig, ConnectRig, Link, RrRig};
use crate::run;
use crate::study::{self, Options, Progress, Steps};
use crate::subject::Subject;
use anyhow::Context;

const SOFT: Link = Link { mtu: 1500, offload: false };
const HARD: Link = Link { mtu: 1500, offload: true };
/// The largest packet that a pair takes.
const LARGE: Link = Link { mtu: 65_521, offload: true };

/// The figures.
///
/// # Errors
/// A rig could not be built, or stalled.
pub fn tcp(options: &Options, progress: &mut dyn FnMut(Progress)) -> anyhow::Result<Report> {
    let run_options = options.run(20);
    let mut steps = Steps::new(4, progress);
    steps.next("A against A: the noise floor");
    let floor = study::floor(&mut BulkRig::new("floor", SOFT)?, &run_options)?;
    steps.next("connecting");
    let ours: [(&str, &str, Box<dyn Subject>); 6] = [
        (
            "bulk.1460.csum",
            "a byte carried, MTU 1500, checksums in software both ways",
            Box::new(BulkRig::new("bulk.1460.csum", SOFT)?),
        ),
        (
            "bulk.1460.offload",
            "a byte carried, MTU 1500, no checksum work",
            Box::new(BulkRig::new("bulk.1460.offload", HARD)?),
        ),
        (
            "bulk.64k",
            "a byte carried in segments of 64 KiB, no checksum work",
            Box::new(BulkRig::new("bulk.64k", LARGE)?),
        ),
        ("rr.tcp", "a byte there and a byte back (TCP_RR)", Box::new(RrRig::tcp("rr.tcp", 0)?)),
        ("rr.udp", "the same with datagrams (UDP_RR)", Box::new(RrRig::udp("rr.udp")?)),
        ("connect_close", "a connection opened, accepted and closed", Box::new(ConnectRig::new("connect_close")?)),
    ];
    let (mut subjects, mut titles) = (Vec::new(), Vec::new());
    for (id, title, subject) in ours {
        titles.push((id, title));
        subjects.push(subject);
    }
    subjects.push(Box::new(LoopbackBulk::new("kernel.bulk.64k")?));
    subjects.push(Box::new(LoopbackRr::tcp("kernel.rr.tcp")?));
    subjects.push(Box::new(LoopbackRr::udp("kernel.rr.udp")?));
    subjects.push(Box::new(LoopbackConnect::new("kernel.connect_close")?));
    steps.next("carrying, asking, connecting");
    let samples = run::interleave(&mut subjects, &run_options, &mut |_| ())?;
    let sample = |id: &str| samples.iter().find(|s| s.id == id).with_context(|| format!("no sample of {id}"));
    let mut rows = Vec::new();
    for (id, title) in titles {
        rows.push(Row::new(id, title, Figure::ticks(sample(id)?)?));
    }
    let mut peers = Vec::new();
    for theirs in &samples {
        let Some((peer, row)) = theirs.id.split_once('.').filter(|(peer, _)| *peer == "kernel") else { continue };
        peers.push(Peer::new(peer, theirs, sample(row)?)?);
    }
    steps.next("iperf3 over TAP devices");
    drop(subjects);
    let env = Environment::detect();
    let tap = super::tap::rows(options, &env)?;
    rows.extend(tap.rows);
    peers.extend(tap.peers);
    let mut notes = vec![
        "two hosts on one thread over a pair; 64 KiB a call; send and receive buffers of 256 KiB; CUBIC; timestamps on"
            .to_owned(),
        format!(
            "kernel: loopback (MTU 65536, no checksum work), both ends on one thread, 64 KiB a call, {}",
            congestion()
        ),
        "not among the rows yet: two cores, 100,000 idle connections and their memory".to_owned(),
    ];
    notes.extend(tap.notes);
    Ok(Report { name: "bench tcp".to_owned(), env, noise_floor: floor, rows, peers, notes, beside: None })
}

/// The kernel's congestion control, by name.
fn congestion() -> String {
    let file = "/proc/sys/net/ipv4/tcp_congestion_control";
    std::fs::read_to_string(file).map_or("congestion control not known".to_owned(), |name| name.trim().to_owned())
}
