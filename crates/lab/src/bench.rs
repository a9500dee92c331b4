//! `linerate bench GROUP`: measures this stack and, in the same run, other programs that do the
//! same work (peers). The UDP rows are in this file; the other groups have files of their own.
//!
//! The host kernel is always a peer. Other peers (smoltcp) come from the separate bench program:
//! `cargo xtask bench udp`.

mod bridge;
mod netisr;
mod parts;
mod route;
mod services;
mod tap;
mod tcp;
mod text;

pub use bridge::bridge;
pub use netisr::dispatch;
pub use parts::parts;
pub use route::route;
pub use services::services;
pub use tcp::{IdlePeer, TcpPeers, both_cores, tcp, tcp_with};
pub use text::text;
pub(crate) use text::{Codec, FIVE, GIGABYTES};

use crate::ledger;
use crate::native::NativeSend;
use crate::result::{Figure, Peer, Report, Row};
use crate::rigs::{CoresRig, FibRig, RecvRig, RouteRig, SendRig, TwoThreadsRig, idle_host_bytes};
use crate::side::Side;
use crate::study::{Entry, Group, Options, Progress, Study, Unit};
use port::pktgen::Family;

/// Peers measured in the same run: sides named `<peer>.<row>`, each with a sentence that describes
/// how the peer is run.
pub type Peers = Vec<(Side, String)>;

/// A row that another program declares, with its peers. The side of a peer is named `<peer>.<row
/// id>`.
#[derive(Debug)]
pub struct ForeignRow {
    /// Side of the row; its identifier is the row's.
    pub side: Side,
    /// Title of the row.
    pub title: String,
    /// Unit of the row and its peers.
    pub unit: Unit,
    /// Sides of the peers.
    pub others: Vec<Side>,
}

/// Runs the study `name` of rows that another program declares. Each row is measured in the same
/// rounds as its peers.
///
/// # Errors
/// Returns no error: a row that could not be measured states the reason instead.
pub fn foreign(
    name: &str,
    notes: &[&str],
    rows: Vec<ForeignRow>,
    options: &Options,
    progress: &mut dyn FnMut(Progress),
) -> anyhow::Result<Report> {
    let mut study = Study::new(name, options.run(20), rows.len(), progress);
    notes.iter().for_each(|note| study.note(*note));
    for ForeignRow { side, title, unit, others } in rows {
        study.part(&title);
        let run = study.options();
        study.measure_entries(vec![Entry::new(side, title).unit(unit).with_sides(others)], run);
    }
    Ok(study.finish())
}

/// Reason stated in a row that is missing because it needs two cores.
const ONE_CORE: &str = "this program has one core";

const ROUTES: usize = 1_000_000;
const MILLION: usize = 1 << 20;

/// Runs `linerate bench udp` with the host kernel as the only peer.
///
/// # Errors
/// As [`udp_with`].
pub fn udp(options: &Options, progress: &mut dyn FnMut(Progress)) -> anyhow::Result<Report> {
    let mut notes = Vec::new();
    let mut report = udp_with(options, kernel(&mut notes), progress)?;
    notes.push("for a comparison with smoltcp: cargo xtask bench udp".to_owned());
    report.notes.extend(notes);
    Ok(report)
}

/// Returns the host kernel as a peer. If it is unavailable, returns no peer and adds the reason to
/// `notes`.
pub fn kernel(notes: &mut Vec<String>) -> Peers {
    match NativeSend::start() {
        Ok(native) => vec![(Side::new("kernel.send.csum", NativeSend::start), native.device().to_owned())],
        Err(why) => {
            notes.push(format!("no kernel peer: {why:#}"));
            Vec::new()
        }
    }
}

/// Measures the UDP rows and `peers`.
///
/// # Errors
/// Returns no error: a row that could not be measured states the reason instead.
pub fn udp_with(options: &Options, peers: Peers, progress: &mut dyn FnMut(Progress)) -> anyhow::Result<Report> {
    let mut study = Study::new("bench udp", options.run(30), 8, progress);
    study.note(
        "22-byte payload, 64-byte frames without FCS; locks up, pool stack; one core, TSC ticks; send reads no \
         clock, recv and route read the scaled TSC once per burst",
    );
    study.note(
        "send: one sendto and one call of the port per frame; recv and route: burst 32, pktgen's own work \
         included; received checksums are verified in software",
    );
    study.part("idle hosts"); // first: memory freed by later parts would hide a host's size
    let title = "resident memory of an idle host without its pool, mean of 2000 hosts";
    let idle = match idle_host_bytes() {
        Ok(bytes) => Row::new("host.idle_bytes", title, Figure::single(bytes, "bytes")),
        Err(why) => Row::missing("host.idle_bytes", title, &format!("{why:#}")),
    };

    study.part("send and receive, with the peers");
    let (peers, hows): (Vec<Side>, Vec<String>) = peers.into_iter().unzip();
    for (side, how) in peers.iter().zip(hows) {
        study.note(format!("{}: {how}", side.id()));
    }
    study.compare_entries(vec![
        Entry::new(send("send.csum", "locks=up"), "sendto, checksums in software"),
        Entry::new(send("send.offload", "locks=up offload=on"), "sendto, checksums left to the port"),
        Entry::new(
            recv("recv.one_thread", Family::V4, 1),
            "recv_from, 2048-byte buffer, nonblocking, after Poller::ready, one socket",
        )
        .with_sides(peers),
    ]);

    study.part("receive with 100,000 sockets");
    let many = recv("recv.100k_sockets", Family::V4, 100_000);
    let title = "recv_from over 100,000 connected sockets, random order";
    let options = study.options();
    study.compare_with_base(recv("recv.one_thread", Family::V4, 1), Entry::new(many, title), options);

    study.part("over IPv6");
    udp_over_ipv6(&mut study);
    study.part("receive with two threads");
    two_threads(&mut study, "recv.two_threads");
    study.part("forwarding");
    let side = Side::new("route.1m", || RouteRig::new("route.1m", ROUTES));
    let options = run_slow(&study);
    study.measure_entries(vec![Entry::new(side, "IPv4 forwarding, 1 M routes, random destinations")], options);
    study.part("route lookup");
    lookups(&mut study);
    study.part("hosts on cores");
    hosts(&mut study);
    study.rows([idle]);
    study.part("cost by stage");
    ledger::sheets(&mut study);
    Ok(study.finish())
}

fn send(id: &'static str, words: &'static str) -> Side {
    Side::new(id, move || SendRig::new(id, words, false))
}

fn recv(id: &'static str, family: Family, sockets: u32) -> Side {
    Side::new(id, move || RecvRig::new(id, family, sockets))
}

/// Measures sending and receiving over IPv6, each compared with its IPv4 row in the same run.
fn udp_over_ipv6(study: &mut Study<'_>) {
    let (four, six) = (Family::V4, Family::V6);
    let pairs = [
        (
            send("send.csum", "locks=up"),
            send("six.send.csum", "locks=up family=6"),
            "sendto over IPv6, checksums in software",
        ),
        (
            send("send.offload", "locks=up offload=on"),
            send("six.send.offload", "locks=up offload=on family=6"),
            "sendto over IPv6, checksums left to the port",
        ),
        (
            recv("recv.one_thread", four, 1),
            recv("six.recv.one_thread", six, 1),
            "recv_from over IPv6, 2048-byte buffer, nonblocking, after Poller::ready, one socket",
        ),
        (
            recv("recv.100k_sockets", four, 100_000),
            recv("six.recv.100k_sockets", six, 100_000),
            "recv_from over IPv6 and 100,000 connected sockets, random order",
        ),
    ];
    study.note("six.*: the same payload over IPv6, 84-byte frames without FCS; target: at most 1.08 times IPv4");
    for (plain, side, title) in pairs {
        study.compare_with_base(plain, Entry::new(side, title), study.options());
    }
}

/// Returns the runner's options for subjects that take about a second to build: at most twelve
/// builds, with nine trials each.
pub(crate) fn run_slow(study: &Study<'_>) -> crate::run::Options {
    let options = study.options();
    crate::run::Options { keep: options.keep.min(12), trials: 9, ..options }
}

/// Measures receiving with two threads (part 2 of the report rump2014), in millions of datagrams
/// per second.
pub(crate) fn two_threads(study: &mut Study<'_>, id: &'static str) {
    let title = "recv_burst while another thread polls the port, light locks";
    let Some(puller) = dispatch::other_core(study.options().cpu.unwrap_or(0)) else {
        return study.rows([Row::missing(id, title, ONE_CORE)]);
    };
    // The reader busy-waits, which uses its whole core, so the usual checks for disturbed trials
    // apply.
    let side = Side::new(id, move || TwoThreadsRig::new(id, puller));
    study.measure_entries(vec![Entry::new(side, title).unit(Unit::MILLIONS)], study.options());
}

/// Measures lookups in tables of a million routes, one table at a time: two tables of 80 MB would
/// evict each other from the cache.
pub(crate) fn lookups(study: &mut Study<'_>) {
    let rows = [
        (
            "fib.1m",
            250,
            MILLION,
            256,
            "longest-prefix lookup, 1 M routes, 250 next hops, bursts of 256, a million random addresses",
        ),
        (
            "fib.1m_burst32",
            250,
            MILLION,
            32,
            "longest-prefix lookup, 1 M routes, bursts of 32, without prefetching ahead of the burst",
        ),
        (
            "fib.1m_64k_addresses",
            250,
            1 << 16,
            32,
            "longest-prefix lookup, 1 M routes, 64 k random addresses repeated, bursts of 32",
        ),
        (
            "fib.1m_10k_hops",
            10_000,
            MILLION,
            32,
            "longest-prefix lookup, 1 M routes, 10,000 next hops (more than a byte holds)",
        ),
    ];
    for (id, hops, addresses, burst, title) in rows {
        let side = Side::new(id, move || Ok(FibRig::new(id, ROUTES, hops, addresses)?.in_bursts_of(burst)));
        let options = run_slow(study);
        study.measure_entries(vec![Entry::new(side, title)], options);
    }
}

/// Function that builds a rig, given its name and the number of threads.
pub(crate) type OnCores = fn(&str, usize) -> anyhow::Result<CoresRig>;

/// Measures two hosts on two cores, and two threads on one shared host, each relative to one
/// thread.
fn hosts(study: &mut Study<'_>) {
    let rows: [(&str, &str, OnCores); 4] = [
        ("hosts", "sending by two disjoint hosts on two cores, relative to one", |id, n| {
            CoresRig::hosts(id, n, "locks=up")
        }),
        ("shared.send", "sending by two threads on one shared host, port with two queues, relative to one", |id, n| {
            CoresRig::send(id, n, &format!("locks=light queues={n}"))
        }),
        (
            "shared.send.one_queue",
            "sending by two threads on one shared host, port with one queue, relative to one",
            |id, n| CoresRig::send(id, n, "locks=light"),
        ),
        (
            "shared.recv",
            "receiving by two threads on one shared host, each from its own port, relative to one",
            |id, n| CoresRig::receive(id, n),
        ),
    ];
    study.note("shared.*: one host with light locks, each thread with its own socket; target: 1.6 times one thread");
    rows.into_iter().for_each(|(id, title, make)| on_two_cores(study, id, title, make));
}

/// Measures two threads on two cores relative to one thread; the row's identifier is `ID.two`.
pub(crate) fn on_two_cores(study: &mut Study<'_>, id: &str, title: &str, make: OnCores) {
    let [one, two] = [format!("{id}.one"), format!("{id}.two")];
    if dispatch::cores() < 2 {
        return study.rows([Row::missing(&two, title, ONE_CORE)]);
    }
    // The measuring thread sleeps while other threads work, so its CPU share does not show whether
    // a trial was disturbed.
    let options = crate::run::Options { cpu: None, ..study.options().waiting() };
    let side = |id: &String, n| {
        let name = id.clone();
        Side::new(id.clone(), move || make(&name, n))
    };
    let group = study.measure_with(vec![side(&one, 1), side(&two, 2)], options);
    study.rows([times_one(&group, &two, title, &one)]);
    let figures = [&one, &two].map(|id| group.row(id, "", Unit::TICKS).now);
    if let [Some(one), Some(two)] = figures {
        study.note(format!(
            "{id}: ticks of wall time per operation: one thread {:.4}, two threads {:.4}",
            one.median, two.median
        ));
    }
}

/// Returns a row with the speed of side `id` as a multiple of the speed of side `one`.
pub(crate) fn times_one(group: &Group, id: &str, title: &str, one: &str) -> Row {
    match group.ratio(one, id) {
        Ok(ratio) => Row::new(id, title, Figure::ratio(&ratio, "times one")),
        Err(why) => Row::missing(id, title, &format!("{why:#}")),
    }
}

/// Returns a peer of `row` from a figure that was measured separately: `theirs`, in the row's unit,
/// in which less is better. Adds its ratio to the row's own figure. Returns `None` if the row has
/// no figure.
pub(crate) fn peer_of(peer: &str, row: &Row, theirs: f64) -> Option<Peer> {
    let ours = row.now.as_ref()?;
    let ratio = |ours: f64| theirs / ours;
    Some(Peer {
        id: format!("{peer}.{}", row.id),
        row: row.id.clone(),
        now: Figure::single(theirs, &ours.unit),
        ratio: Some(crate::result::Times {
            median: ratio(ours.median),
            lo: ratio(ours.hi),
            hi: ratio(ours.lo),
            n: ours.n,
        }),
    })
}
