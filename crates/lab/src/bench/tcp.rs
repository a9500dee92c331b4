//! `linerate bench tcp`: bytes, transactions and connections between two hosts, each figure beside its peers in the same run.
//!
//! The host kernel's loopback is always a peer. smoltcp comes from the bench program: `cargo xtask bench tcp`.

use super::Peers;
use crate::env::Environment;
use crate::native::loopback::{self, LoopbackBulk, LoopbackConnect, LoopbackRr};
use crate::result::{Change, Figure, Peer, Report, Row, Times};
use crate::rigs::{BulkRig, CHUNK, ConnectRig, Link, RrRig, TwoCores, idle_bytes};
use crate::run;
use crate::sample::{Sample, Summary};
use crate::study::{self, Options, Progress, Steps};
use crate::subject::Subject;
use crate::verdict::NoiseFloor;
use anyhow::Context;

const SOFT: Link = Link { mtu: 1500, offload: false };
const HARD: Link = Link { mtu: 1500, offload: true };
/// The largest packet that a pair takes.
const LARGE: Link = Link { mtu: 65_521, offload: true };
/// Idle connections of the rows that have them.
const IDLE: usize = 100_000;
/// Processes that are weighed.
const WEIGHED: usize = 5;
/// Buffers that cross in turn where nothing but memory is measured: the number with which it is fastest, tried on two kinds of
/// processor with 2 to 128.
const CROSSING: usize = 4;

/// What an idle connection of a peer weighs, in bytes an end, and in a sentence how that was found.
pub struct IdlePeer {
    /// The peer.
    pub peer: String,
    /// Bytes.
    pub bytes: f64,
    /// How.
    pub how: String,
}

/// Who is measured beside us.
#[derive(Default)]
pub struct TcpPeers {
    /// Subjects called `<peer>.<row>`.
    pub subjects: Peers,
    /// For `conn.idle_bytes`.
    pub idle: Vec<IdlePeer>,
    /// Which peers are missing, and why.
    pub notes: Vec<String>,
}

/// `linerate bench tcp`, with the host kernel as the only peer.
///
/// # Errors
/// As [`tcp_with`].
pub fn tcp(options: &Options, progress: &mut dyn FnMut(Progress)) -> anyhow::Result<Report> {
    let mut report = tcp_with(options, TcpPeers::default(), progress)?;
    report.notes.push("smoltcp beside us: cargo xtask bench tcp".to_owned());
    Ok(report)
}

/// The two cores of a stream that crosses: the receiver's is the measuring thread's.
pub fn both_cores(options: &Options) -> Option<[usize; 2]> {
    let own = options.core();
    (dispatch::cores() >= 2).then_some([if own == 0 { 1 } else { 0 }, own])
}

/// The figures with the kernel and `peers`.
///
/// # Errors
/// A rig could not be built, stalled, or lost something.
pub fn tcp_with(options: &Options, peers: TcpPeers, progress: &mut dyn FnMut(Progress)) -> anyhow::Result<Report> {
    let env = Environment::detect(); // before the trials: their load is ours
    let run_options = options.run(20);
    let mut steps = Steps::new(6, progress);
    let mut notes = vec![
        "two hosts on one thread over a pair; 64 KiB a call; send and receive buffers of 256 KiB; CUBIC; timestamps on"
            .to_owned(),
        format!(
            "kernel: loopback (MTU 65536, no checksum work), both ends on one thread, 64 KiB a call, buffers as it tunes \
             them, {}",
            congestion()
        ),
    ];
    let TcpPeers { subjects: mut peers, idle, notes: missing } = peers;
    steps.next("idle connections"); // first, and in processes of their own
    let (idle_row, idle_peers) = idle_row(&idle, &mut notes)?;
    steps.next("A against A: the noise floor");
    let floor = study::floor(&mut BulkRig::new("floor", SOFT)?, &run_options)?;
    steps.next("connecting");
    peers.extend(kernel(&mut notes)?);
    let (crossing, beside): (Peers, Peers) = peers.into_iter().partition(|(peer, _)| peer.id().ends_with("two_cores"));
    steps.next("carrying, asking, connecting");
    let (mut rows, mut found) = streams(beside, &run_options, &floor, &mut notes)?;
    steps.next("carrying from core to core");
    let (cores, from_cores) = cores(crossing, options, &run_options, &floor, &mut notes)?;
    let at = rows.iter().position(|row| row.id == "rr.tcp").unwrap_or(rows.len());
    rows.splice(at..at, cores);
    rows.push(idle_row);
    found.extend(from_cores);
    found.extend(idle_peers);
    notes.extend(missing.into_iter().map(|why| format!("missing: {why}")));
    steps.next("iperf3 over TAP devices");
    let tap = super::tap::rows(options, &env)?;
    rows.extend(tap.rows);
    found.extend(tap.peers);
    notes.extend(tap.notes);
    Ok(Report { name: "bench tcp".to_owned(), env, noise_floor: floor, rows, peers: found, notes, beside: None })
}

/// The kernel's loopback.
fn kernel(notes: &mut Vec<String>) -> anyhow::Result<Peers> {
    let mut peers: Peers = Vec::new();
    let mut add = |subject: Box<dyn Subject>| peers.push((subject, String::new()));
    add(Box::new(LoopbackBulk::new("kernel.bulk.64k")?));
    add(Box::new(LoopbackRr::tcp("kernel.rr.tcp")?));
    add(Box::new(LoopbackRr::udp("kernel.rr.udp")?));
    add(Box::new(LoopbackConnect::new("kernel.connect_close")?));
    let among = LoopbackRr::among_idle("kernel.rr.tcp.100k_idle", IDLE)?;
    if among.idle() < IDLE {
        let how = format!("among {} idle connections: more descriptors this process may not have", among.idle());
        notes.push(format!("kernel.rr.tcp.100k_idle: {how}"));
    }
    add(Box::new(among));
    notes.push(
        "kernel: not on bulk.1460 (its loopback neither cuts segments up nor sums them), nor on conn.idle_bytes (its memory \
         is no process's)"
            .to_owned(),
    );
    Ok(peers)
}

/// All that runs on one thread, in turn.
fn streams(
    peers: Peers,
    options: &run::Options,
    floor: &NoiseFloor,
    notes: &mut Vec<String>,
) -> anyhow::Result<(Vec<Row>, Vec<Peer>)> {
    let ours: [(&str, Box<dyn Subject>); 7] = [
        ("a byte carried, MTU 1500, checksums in software both ways", Box::new(BulkRig::new("bulk.1460.csum", SOFT)?)),
        ("a byte carried, MTU 1500, no checksum work", Box::new(BulkRig::new("bulk.1460.offload", HARD)?)),
        ("a byte carried in segments of 64 KiB, no checksum work", Box::new(BulkRig::new("bulk.64k", LARGE)?)),
        ("a byte there and a byte back (TCP_RR)", Box::new(RrRig::tcp("rr.tcp", 0)?)),
        ("the same among 100,000 idle connections", Box::new(RrRig::tcp("rr.tcp.100k_idle", IDLE)?)),
        ("the same with datagrams (UDP_RR)", Box::new(RrRig::udp("rr.udp")?)),
        ("a connection opened, accepted and closed", Box::new(ConnectRig::new("connect_close")?)),
    ];
    let (mut subjects, mut titles) = (Vec::new(), Vec::new());
    for (title, subject) in ours {
        titles.push((subject.id().to_owned(), title));
        subjects.push(subject);
    }
    subjects.extend(told(peers, notes));
    let samples = run::interleave(&mut subjects, options, &mut |_| ())?;
    let mut rows = Vec::new();
    for (id, title) in &titles {
        rows.push(Row::new(id, title, Figure::ticks(named(&samples, id)?)?));
    }
    if let Some(row) = rows.iter_mut().find(|row| row.id == "rr.tcp.100k_idle") {
        let (alone, among) = (named(&samples, "rr.tcp")?, named(&samples, "rr.tcp.100k_idle")?);
        row.vs_previous = Some(Change::paired(alone, among, floor)?);
    }
    Ok((rows, beside(&samples, notes)?))
}

/// Two cores at work, against one.
fn cores(
    peers: Peers,
    options: &Options,
    run_options: &run::Options,
    floor: &NoiseFloor,
    notes: &mut Vec<String>,
) -> anyhow::Result<(Vec<Row>, Vec<Peer>)> {
    let titles = [
        ("bulk.64k.two_cores", "the same, a core for each of the two hosts"),
        ("bulk.64k.two_pairs", "the same, two streams and a core for each"),
    ];
    let Some(both) = both_cores(options) else {
        let missing = titles.map(|(id, title)| Row::missing(id, title, "this machine has one core"));
        return Ok((missing.into(), Vec::new()));
    };
    let mut subjects: Vec<Box<dyn Subject>> = vec![
        Box::new(BulkRig::new("bulk.64k", LARGE)?),
        Box::new(TwoCores::ours("bulk.64k.two_cores", LARGE, both)?),
        Box::new(TwoCores::two_pairs("bulk.64k.two_pairs", LARGE, both)?),
        Box::new(TwoCores::copies("copies.bulk.64k.two_cores", CROSSING, both)?),
        Box::new(loopback::two_cores("kernel.bulk.64k.two_cores", both)?),
    ];
    notes.push(format!(
        "two cores: ticks of wall time a byte; against the one before: against bulk.64k; copies: no stack \
         at all, {CROSSING} buffers of {} KiB filled on one core and emptied on the other, which is what memory allows",
        CHUNK >> 10
    ));
    subjects.extend(told(peers, notes));
    let samples = run::interleave(&mut subjects, run_options, &mut |_| ())?;
    let mut rows = Vec::new();
    let one = named(&samples, "bulk.64k")?;
    for (id, title) in titles {
        let two = named(&samples, id)?;
        let mut row = Row::new(id, title, Figure::ticks(two)?);
        row.vs_previous = Some(Change::paired(one, two, floor)?);
        rows.push(row);
    }
    Ok((rows, beside(&samples, notes)?))
}

/// What an idle connection takes, an end; processes of their own are weighed.
fn idle_row(theirs: &[IdlePeer], notes: &mut Vec<String>) -> anyhow::Result<(Row, Vec<Peer>)> {
    let weighed = (0..WEIGHED).map(|_| idle_bytes(IDLE)).collect::<anyhow::Result<Vec<_>>>()?;
    let of = |bytes: Vec<f64>| anyhow::Ok(Figure::new(&Summary::of(&bytes)?, "bytes"));
    let fresh = of(weighed.iter().map(|idle| idle.fresh).collect())?;
    let now = of(weighed.iter().map(|idle| idle.used).collect())?;
    let kept = of(weighed.iter().map(|idle| idle.kept).collect())?;
    notes.push(format!(
        "conn.idle_bytes: growth of resident memory over {IDLE} connections, both ends counted, after a request and its \
         answer on each, when the allocator has given back what is free; before that {:.0} bytes, before requests {:.0}",
        kept.median, fresh.median
    ));
    let peer = |idle: &IdlePeer| {
        let ratio = |ours: f64| idle.bytes / ours;
        notes.push(format!("{}.conn.idle_bytes: {}", idle.peer, idle.how));
        Peer {
            id: format!("{}.conn.idle_bytes", idle.peer),
            row: "conn.idle_bytes".to_owned(),
            now: Figure { median: idle.bytes, lo: idle.bytes, hi: idle.bytes, n: 1, unit: "bytes".to_owned() },
            ratio: Times { median: ratio(now.median), lo: ratio(now.hi), hi: ratio(now.lo) },
        }
    };
    let peers = theirs.iter().map(peer).collect();
    Ok((Row::new("conn.idle_bytes", "memory of an idle connection, an end", now), peers))
}

/// The subjects alone; how each is run goes to the notes.
fn told(peers: Peers, notes: &mut Vec<String>) -> Vec<Box<dyn Subject>> {
    let said = |(subject, how): (Box<dyn Subject>, String)| {
        if !how.is_empty() {
            notes.push(format!("{}: {how}", subject.id()));
        }
        subject
    };
    peers.into_iter().map(said).collect()
}

fn named<'a>(samples: &'a [Sample], id: &str) -> anyhow::Result<&'a Sample> {
    samples.iter().find(|sample| sample.id == id).with_context(|| format!("no sample of {id}"))
}

/// Every sample `<peer>.<row>` against the row's.
fn beside(samples: &[Sample], notes: &mut Vec<String>) -> anyhow::Result<Vec<Peer>> {
    let mut peers = Vec::new();
    for theirs in samples {
        if theirs.noisy {
            notes.push(format!("{}: noisy, disturbed trials are among those kept", theirs.id));
        }
        if let Some((peer, row)) = theirs.id.split_once('.')
            && let Ok(ours) = named(samples, row)
        {
            peers.push(Peer::new(peer, theirs, ours)?);
        }
    }
    Ok(peers)
}

/// The kernel's congestion control, by name.
fn congestion() -> String {
    let file = "/proc/sys/net/ipv4/tcp_congestion_control";
    std::fs::read_to_string(file).map_or("congestion control not known".to_owned(), |name| name.trim().to_owned())
}
