//! `linerate bench tcp`: bytes, transactions and connections between two hosts, each with its peers
//! measured in the same run.
//!
//! The host kernel's loopback is always a peer. smoltcp comes from the bench program: `cargo xtask
//! bench tcp`.

use super::{Peers, peer_of};
use crate::native::loopback::{self, LoopbackBulk, LoopbackConnect, LoopbackRr};
use crate::result::{Figure, Peer, Report, Row};
use crate::rigs::{BulkRig, CHUNK, ConnectRig, CoresRig, Domain, Link, RrRig, TwoCores, idle_bytes};
use crate::sample::Summary;
use crate::side::Side;
use crate::study::{Entry, Options, Progress, Study, Unit};

/// A link with the largest MTU that a pair of ports supports.
const LARGE: Link = Link { family: Domain::Inet, mtu: 65_521, offload: true };
/// Target for a row over IPv6: maximum ratio to the cost of the same row over IPv4.
const SIX_TARGET: f64 = 1.08;
/// Number of idle connections in the rows `*.100k_idle` and `conn.idle_bytes`.
const IDLE: usize = 100_000;
/// Number of processes in which the memory of idle connections is measured.
const WEIGHED: usize = 5;
/// Number of buffers used in turn by the row that copies data between two cores without a stack. It
/// was the fastest of 2 to 128 on two kinds of processor.
const CROSSING: usize = 4;

/// Memory that an idle connection of a peer takes at each end.
pub struct IdlePeer {
    /// Name of the peer.
    pub peer: String,
    /// Resident bytes per end of the connection.
    pub bytes: f64,
    /// A sentence on how it was measured.
    pub how: String,
}

/// Peers of the TCP rows.
#[derive(Default)]
pub struct TcpPeers {
    /// Subjects named `<peer>.<row>`.
    pub subjects: Peers,
    /// Peers of the row `conn.idle_bytes`.
    pub idle: Vec<IdlePeer>,
    /// Reasons for missing peers.
    pub notes: Vec<String>,
}

/// `linerate bench tcp`, with the host kernel as the only peer.
///
/// # Errors
/// As [`tcp_with`].
pub fn tcp(options: &Options, progress: &mut dyn FnMut(Progress)) -> anyhow::Result<Report> {
    let mut report = tcp_with(options, TcpPeers::default(), progress)?;
    report.notes.push("for a comparison with smoltcp: cargo xtask bench tcp".to_owned());
    Ok(report)
}

/// Returns the cores of the sender and of the receiver for a stream between two cores. The
/// receiver's core is that of the measuring thread. `None` if only one core is available.
pub fn both_cores(options: &Options) -> Option<[usize; 2]> {
    Some([dispatch::other_core(options.core())?, options.core()])
}

/// Measures all rows of `linerate bench tcp`, with the kernel and `peers` as peers.
///
/// # Errors
/// Returns no error: a row that could not be measured states the reason instead.
pub fn tcp_with(options: &Options, peers: TcpPeers, progress: &mut dyn FnMut(Progress)) -> anyhow::Result<Report> {
    let mut study = Study::new("bench tcp", options.run(20), 6, progress);
    study.note(
        "two hosts on one thread, joined by a pair of ports; 64 KiB per call; send and receive buffers of 256 KiB; \
         CUBIC; timestamps on",
    );
    study.note(format!(
        "kernel: loopback (MTU 65536, no checksum work), both ends on one thread, 64 KiB per call, auto-tuned \
         buffers, {}",
        congestion()
    ));
    let TcpPeers { subjects: peers, idle, notes: missing } = peers;
    study.part("idle connections"); // first, and in separate processes
    let (idle_row, idle_peers) = idle_row(&mut study, &idle);
    let mut sides = Vec::new();
    for (side, how) in peers {
        if !how.is_empty() {
            study.note(format!("{}: {how}", side.id()));
        }
        sides.push(side);
    }
    let (crossing, sides): (Vec<Side>, Vec<Side>) =
        sides.into_iter().partition(|side| side.id().ends_with("two_cores"));
    study.part("streams, transactions, connections");
    streams(&mut study, sides);
    study.part("over IPv6");
    over_ipv6(&mut study);
    study.part("among idle connections");
    among_idle(&mut study);
    study.part("stream from core to core");
    cores(&mut study, crossing, options);
    study.part("two threads on one host");
    study.note("shared.bulk: one host with light locks, each thread with its own connection and far host; target: 1.6");
    let title = "bytes carried by two threads on one shared host, a connection each, relative to one";
    super::on_two_cores(&mut study, "shared.bulk", title, CoresRig::bulk);
    study.rows([idle_row]);
    study.report.peers.extend(idle_peers);
    missing.into_iter().for_each(|why| study.note(format!("missing: {why}")));
    study.part("iperf3 over TAP devices");
    super::tap::rows(&mut study, options);
    Ok(study.finish())
}

/// Returns the rows that are measured over one address family.
fn rows_of(family: Domain) -> [Entry; 5] {
    let link = move |offload| Link { offload, ..Link::plain(family) };
    let six = family == Domain::Inet6;
    let id = move |four: &'static str, over_six: &'static str| if six { over_six } else { four };
    let over = if six { " over IPv6" } else { "" };
    let csum = id("bulk.1460.csum", "six.bulk.1440.csum");
    let offload = id("bulk.1460.offload", "six.bulk.1440.offload");
    let [tcp, udp] = [id("rr.tcp", "six.rr.tcp"), id("rr.udp", "six.rr.udp")];
    let connect = id("connect_close", "six.connect_close");
    [
        Entry::new(
            Side::new(csum, move || BulkRig::new(csum, link(false))),
            format!("a byte carried{over}, MTU 1500, checksums in software both ways"),
        ),
        Entry::new(
            Side::new(offload, move || BulkRig::new(offload, link(true))),
            format!("a byte carried{over}, MTU 1500, no checksum work"),
        ),
        Entry::new(
            Side::new(tcp, move || RrRig::tcp(tcp, family, 0)),
            format!("one byte in each direction{over} (TCP_RR)"),
        ),
        Entry::new(
            Side::new(udp, move || RrRig::udp(udp, family)),
            format!("one byte in each direction in datagrams{over} (UDP_RR)"),
        ),
        Entry::new(
            Side::new(connect, move || ConnectRig::new(connect, family)),
            format!("a connection opened, accepted and closed{over}"),
        ),
    ]
}

/// Measures the rows of [`rows_of`] over IPv6, each compared with its IPv4 row in the same run.
fn over_ipv6(study: &mut Study<'_>) {
    study.note(format!("six.*: the same rows over IPv6; target: at most {SIX_TARGET} times IPv4"));
    for (four, six) in rows_of(Domain::Inet).into_iter().zip(rows_of(Domain::Inet6)) {
        study.compare_with_base(four.side(), six, study.options());
    }
}

/// Measures the rows that run on one thread, interleaved, with the kernel's loopback as a peer.
fn streams(study: &mut Study<'_>, peers: Vec<Side>) {
    let mut ours = Vec::from(rows_of(Domain::Inet));
    let kernel = Side::new("kernel.bulk.64k", || LoopbackBulk::new("kernel.bulk.64k"));
    let large = Entry::new(large("bulk.64k"), "a byte carried in segments of 64 KiB, no checksum work");
    ours.insert(2, large.with_sides([kernel]));
    study.note(
        "no kernel peer for bulk.1460.* (loopback neither splits segments nor computes checksums) and \
         conn.idle_bytes (kernel memory belongs to no process)",
    );
    let kernel = [
        Side::new("kernel.rr.tcp", || LoopbackRr::tcp("kernel.rr.tcp")),
        Side::new("kernel.rr.udp", || LoopbackRr::udp("kernel.rr.udp")),
        Side::new("kernel.connect_close", || LoopbackConnect::new("kernel.connect_close")),
    ];
    if let Some(last) = ours.pop() {
        ours.push(last.with_sides(kernel).with_sides(peers));
    }
    study.compare_entries(ours);
}

fn large(id: &'static str) -> Side {
    Side::new(id, move || BulkRig::new(id, LARGE))
}

/// Measures TCP_RR on hosts that have [`IDLE`] idle connections, compared with hosts that have
/// none. The connections are built anew for each round.
fn among_idle(study: &mut Study<'_>) {
    let (id, among) = ("rr.tcp.100k_idle", LoopbackRr::most_idle(IDLE));
    if among < IDLE {
        study.note(format!(
            "kernel.{id}: only {among} idle connections, the most that this process's descriptor limit allows"
        ));
    }
    let options = super::run_slow(study);
    let none = Side::new("rr.tcp", || RrRig::tcp("rr.tcp", Domain::Inet, 0));
    let ours = Side::new(id, || RrRig::tcp("rr.tcp.100k_idle", Domain::Inet, IDLE));
    let kernel = Side::new("kernel.rr.tcp.100k_idle", || LoopbackRr::among_idle("kernel.rr.tcp.100k_idle", IDLE));
    let entry = Entry::new(ours, "TCP_RR among 100,000 idle connections").with_sides([kernel]);
    study.compare_with_base(none, entry, options);
}

/// Measures streams that use two cores, compared with one core.
fn cores(study: &mut Study<'_>, peers: Vec<Side>, options: &Options) {
    let titles = [
        ("bulk.64k.two_cores", "a byte carried in segments of 64 KiB, each host on its own core"),
        ("bulk.64k.two_pairs", "a byte carried in segments of 64 KiB, two streams, each on its own core"),
    ];
    let Some(both) = both_cores(options) else {
        return study.rows(titles.map(|(id, title)| Row::missing(id, title, super::ONE_CORE)));
    };
    study.note(format!(
        "two cores: ticks of wall time per byte, compared with bulk.64k; copies: no stack, {CROSSING} buffers of \
         {} KiB filled on one core and emptied on the other, the limit that memory sets",
        CHUNK >> 10
    ));
    let mut sides = vec![
        large("bulk.64k"),
        Side::new("bulk.64k.two_cores", move || TwoCores::ours("bulk.64k.two_cores", LARGE, both)),
        Side::new("bulk.64k.two_pairs", move || TwoCores::two_pairs("bulk.64k.two_pairs", LARGE, both)),
        Side::new("copies.bulk.64k.two_cores", move || TwoCores::copies("copies.bulk.64k.two_cores", CROSSING, both)),
        Side::new("kernel.bulk.64k.two_cores", move || loopback::two_cores("kernel.bulk.64k.two_cores", both)),
    ];
    sides.extend(peers);
    let group = study.compare(sides);
    study.rows(titles.map(|(id, title)| group.against(id, title, Unit::TICKS, "bulk.64k")));
    study.report.peers.extend(titles.iter().flat_map(|(id, _)| group.peers(id, Unit::TICKS)));
}

/// Returns the row for the memory of an idle connection, per end, and its peers. The connections
/// are measured in separate processes.
fn idle_row(study: &mut Study<'_>, theirs: &[IdlePeer]) -> (Row, Vec<Peer>) {
    let (id, title) = ("conn.idle_bytes", "memory of an idle connection, per end");
    let weigh = || -> anyhow::Result<[Figure; 3]> {
        let weighed = (0..WEIGHED).map(|_| idle_bytes(IDLE)).collect::<anyhow::Result<Vec<_>>>()?;
        let of = |bytes: Vec<f64>| anyhow::Ok(Figure::new(&Summary::of(&bytes)?, "bytes"));
        Ok([
            of(weighed.iter().map(|idle| idle.fresh).collect())?,
            of(weighed.iter().map(|idle| idle.used).collect())?,
            of(weighed.iter().map(|idle| idle.kept).collect())?,
        ])
    };
    let [fresh, used, kept] = match weigh() {
        Ok(figures) => figures,
        Err(why) => return (Row::missing(id, title, &format!("{why:#}")), Vec::new()),
    };
    study.note(format!(
        "conn.idle_bytes: growth of resident memory over {IDLE} connections, both ends counted, after a request \
         and its answer on each, once the allocator has returned its free memory; {:.0} bytes before it does, \
         {:.0} before the requests",
        kept.median, fresh.median
    ));
    let row = Row::new(id, title, used);
    for idle in theirs {
        study.note(format!("{}.conn.idle_bytes: {}", idle.peer, idle.how));
    }
    let peers = theirs.iter().filter_map(|idle| peer_of(&idle.peer, &row, idle.bytes)).collect();
    (row, peers)
}

/// Returns the name of the kernel's congestion control.
fn congestion() -> String {
    let file = "/proc/sys/net/ipv4/tcp_congestion_control";
    std::fs::read_to_string(file).map_or("unknown congestion control".to_owned(), |name| name.trim().to_owned())
}
