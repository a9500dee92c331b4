//! `linerate bench GROUP`: figures beside their peers in the same run. UDP's are here, the others' in files of their own.
//!
//! The host kernel is always a peer. Others (smoltcp) come from the bench program, which this one does not depend on:
//! `cargo xtask bench udp`.

mod bridge;
mod netisr;
mod route;
mod services;
mod tap;
mod tcp;
mod text;

pub use bridge::bridge;
pub use netisr::dispatch;
pub use route::route;
pub use services::services;
pub use tcp::{IdlePeer, TcpPeers, both_cores, tcp, tcp_with};
pub use text::text;
pub(crate) use text::{FIVE, Unit};

use crate::env::Environment;
use crate::native::NativeSend;
use crate::result::{Change, Figure, Peer, Report, Row};
use crate::rigs::{FibRig, HostsRig, RecvRig, RouteRig, SendRig, TwoThreadsRig, idle_host_bytes};
use crate::run;
use crate::sample::{Ratio, Sample, Summary};
use crate::study::{self, Options, Progress, Steps};
use crate::subject::Subject;
use crate::timer;
use anyhow::Context;

/// Peers to be measured in the same run, called `<peer>.<row>`, each with a sentence on how it is run.
pub type Peers = Vec<(Box<dyn Subject>, String)>;

const ROUTES: usize = 1_000_000;

/// `linerate bench udp`, with the host kernel as the only peer.
///
/// # Errors
/// As [`udp_with`].
pub fn udp(options: &Options, progress: &mut dyn FnMut(Progress)) -> anyhow::Result<Report> {
    let mut notes = Vec::new();
    let mut report = udp_with(options, kernel(&mut notes), progress)?;
    notes.push("smoltcp beside us: cargo xtask bench udp".to_owned());
    report.notes.extend(notes);
    Ok(report)
}

/// The host kernel as a peer; where it cannot be had, a note says why.
pub fn kernel(notes: &mut Vec<String>) -> Peers {
    match NativeSend::start() {
        Ok(native) => {
            let how = native.device().to_owned();
            vec![(Box::new(native), how)]
        }
        Err(why) => {
            notes.push(format!("no kernel peer: {why:#}"));
            Vec::new()
        }
    }
}

/// The figures with `peers`.
///
/// # Errors
/// A rig could not be built, or lost a frame.
pub fn udp_with(options: &Options, peers: Peers, progress: &mut dyn FnMut(Progress)) -> anyhow::Result<Report> {
    let run_options = options.run(30);
    let mut steps = Steps::new(9, progress);
    let mut notes = vec![
        "22-byte payload, 64-byte frames without FCS; locks up, pool stack, clock tsc; one core, ticks of the TSC".to_owned(),
        "send: one sendto a frame, the port called for each; recv and route: burst 32, pktgen's own work included; received \
         checksums verified in software"
            .to_owned(),
    ];
    steps.next("idle hosts"); // first: what later parts free would hide what a host takes
    let idle = idle_host_bytes()?;
    steps.next("A against A: the noise floor");
    let floor = study::floor(&mut SendRig::new("floor", "locks=up", false)?, &run_options)?;
    let (mut rows, mut found) = (Vec::new(), Vec::new());
    let (mut subjects, hows): (Vec<_>, Vec<_>) = peers.into_iter().unzip();
    notes.extend(subjects.iter().zip(hows).map(|(subject, how)| format!("{}: {how}", subject.id())));

    steps.next("send and receive, beside the peers");
    let ours: [(&str, &str); 3] = [
        ("send.csum", "sendto, checksums in software"),
        ("send.offload", "sendto, checksums left to the port"),
        ("recv.one_thread", "receive, run to completion on one thread, one socket"),
    ];
    subjects.push(Box::new(SendRig::new("send.csum", "locks=up", false)?));
    subjects.push(Box::new(SendRig::new("send.offload", "locks=up offload=on", false)?));
    subjects.push(Box::new(RecvRig::new("recv.one_thread", 1)?));
    steps.next("receive with 100,000 sockets");
    subjects.push(Box::new(RecvRig::new("recv.100k_sockets", 100_000)?));
    let samples = run::interleave(&mut subjects, &run_options, &mut |_| ())?;
    drop(subjects);
    let sample = |id: &str| samples.iter().find(|s| s.id == id).with_context(|| format!("no sample of {id}"));
    for (id, title) in ours {
        rows.push(Row::new(id, title, Figure::ticks(sample(id)?)?));
    }
    let (one, many) = (sample("recv.one_thread")?, sample("recv.100k_sockets")?);
    let mut row =
        Row::new("recv.100k_sockets", "the same with 100,000 connected sockets, random order", Figure::ticks(many)?);
    row.vs_previous = Some(Change::paired(one, many, &floor)?);
    rows.push(row);
    for theirs in &samples {
        let Some((peer, row)) = theirs.id.split_once('.') else { continue };
        if rows.iter().any(|r| r.id == row) {
            found.push(Peer::new(peer, theirs, sample(row)?)?);
        }
    }

    steps.next("receive with two threads");
    rows.push(two_threads(&run_options)?);
    steps.next("filling a router with a million routes");
    let mut route: Vec<Box<dyn Subject>> = vec![Box::new(RouteRig::new("route.1m", ROUTES)?)];
    steps.next("forwarding");
    rows.push(alone("route.1m", "IPv4 forwarding, 1 M routes, random destinations", &mut route, &run_options)?);
    drop(route);
    steps.next("looking up");
    rows.extend(lookups(&run_options)?);
    steps.next("hosts on cores");
    rows.extend(hosts(&run_options, &mut notes)?);
    let figure = Figure { median: idle, lo: idle, hi: idle, n: 1, unit: "bytes".to_owned() };
    rows.push(Row::new("host.idle_bytes", "resident memory of an idle host beside its pool, mean of 2000", figure));
    notes.extend(
        samples.iter().filter(|s| s.noisy).map(|s| format!("{}: noisy, disturbed trials are among those kept", s.id)),
    );
    Ok(Report {
        name: "bench udp".to_owned(),
        env: Environment::detect(),
        noise_floor: floor,
        rows,
        peers: found,
        notes,
        beside: None,
    })
}

fn alone(id: &str, title: &str, subject: &mut [Box<dyn Subject>], options: &run::Options) -> anyhow::Result<Row> {
    let samples = run::interleave(subject, options, &mut |_| ())?;
    Ok(Row::new(id, title, Figure::ticks(samples.first().context("no sample")?)?))
}

/// Datagrams a second, in millions.
pub(crate) fn two_threads(options: &run::Options) -> anyhow::Result<Row> {
    let reader = options.cpu.unwrap_or(0);
    let puller = if reader == 0 { dispatch::cores() - 1 } else { 0 };
    // The reader's share of its core is full (it spins); steal still drops trials.
    let mut rig: Vec<Box<dyn Subject>> = vec![Box::new(TwoThreadsRig::new("recv.two_threads", puller)?)];
    let samples = run::interleave(&mut rig, options, &mut |_| ())?;
    let rates = rates(samples.first().context("no sample")?);
    let figure = Figure::new(&Summary::of(&rates)?, "M/s");
    let title = "receive, one thread pulls and another reads, light locks";
    Ok(Row::new("recv.two_threads", title, figure))
}

fn rates(sample: &Sample) -> Vec<f64> {
    let hertz = timer::rate().hz as f64;
    sample.values().iter().map(|ticks| hertz / ticks / 1e6).collect()
}

fn lookups(options: &run::Options) -> anyhow::Result<Vec<Row>> {
    const MILLION: usize = 1 << 20;
    let rows = [
        (
            "fib.1m",
            250,
            MILLION,
            256,
            "longest-prefix lookup, 1 M routes, 250 next hops, bursts of 256, a million random addresses",
        ),
        ("fib.1m_burst32", 250, MILLION, 32, "the same in bursts of 32, which nothing can be fetched ahead of"),
        ("fib.1m_64k_addresses", 250, 1 << 16, 32, "64 k random addresses over and over, bursts of 32"),
        (
            "fib.1m_10k_hops",
            10_000,
            MILLION,
            32,
            "a million addresses, and 10,000 next hops: more than a byte can name",
        ),
    ];
    // One after the other: two tables of 80 MB that take turns find nothing of theirs in the cache.
    let row = |(id, hops, addresses, burst, title)| {
        alone(id, title, &mut [Box::new(FibRig::new(id, ROUTES, hops, addresses)?.in_bursts_of(burst))], options)
    };
    rows.into_iter().map(row).collect()
}

/// Two hosts on two cores, as times one host.
pub(crate) fn hosts(options: &run::Options, notes: &mut Vec<String>) -> anyhow::Result<Vec<Row>> {
    if dispatch::cores() < 2 {
        return Ok(vec![Row::missing(
            "hosts.two",
            "two disjoint hosts on two cores, as times one",
            "this machine has one core",
        )]);
    }
    // Workers have their own threads: the measuring thread sleeps, so its CPU share is no sign of disturbance.
    let options = run::Options { min_cpu_share: None, cpu: None, ..options.clone() };
    let mut subjects: Vec<Box<dyn Subject>> = vec![
        Box::new(HostsRig::new("hosts.one", 1, "locks=up")?),
        Box::new(HostsRig::new("hosts.two", 2, "locks=up")?),
    ];
    let samples = run::interleave(&mut subjects, &options, &mut |_| ())?;
    let [one, two] = samples.as_slice() else { anyhow::bail!("no samples of hosts") };
    let ratio = Ratio::paired(&one.values(), &two.values())?;
    let figure = Figure { median: ratio.median, lo: ratio.lo, hi: ratio.hi, n: ratio.n, unit: "times one".to_owned() };
    let rate = |sample: &Sample| Summary::of(&rates(sample)).map(|summary| summary.median);
    notes.push(format!("hosts: one sends {:.1} M/s, two together {:.1} M/s", rate(one)?, rate(two)?));
    Ok(vec![Row::new("hosts.two", "two disjoint hosts on two cores, as times one", figure)])
}
