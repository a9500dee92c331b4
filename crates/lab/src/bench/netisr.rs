//! `linerate bench dispatch`: what netisr costs a frame, and what netperf's tests reach through a router and between two hosts.

use crate::env::Environment;
use crate::native::routed::Routed;
use crate::netperf::veth::Segments;
use crate::netperf::{Over, Place};
use crate::result::{Change, Figure, Peer, Report, Row};
use crate::rigs::{IsrRig, IsrThreadRig, LightRig, NetperfRig, Work};
use crate::run;
use crate::sample::{Ratio, Sample};
use crate::study::{self, Options, Progress, Steps};
use crate::subject::Subject;
use crate::verdict::NoiseFloor;
use anyhow::Context;
use apps::netperf::{self, Length, Test};
use clock::Duration;
use dispatch::netisr::Mode;

const TRIAL: Duration = Duration::from_millis(100);

/// The figures.
///
/// # Errors
/// A rig could not be built, a frame was lost, or a test failed.
pub fn dispatch(options: &Options, progress: &mut dyn FnMut(Progress)) -> anyhow::Result<Report> {
    let env = Environment::detect(); // before the trials: their load is ours
    let run_options = options.run(30);
    let mut steps = Steps::new(4, progress);
    let mut notes = vec![
        "direct, deferred: frames of 64 bytes forwarded by 1,000 routes in bursts of 32 by one router, with netisr and without, in turns; \
         from the ratio of paired trials; deferred: light locks, a thread on another core takes them through the stack, ticks of \
         wall time beside light locks on one thread"
            .to_owned(),
        "hrh: host-router-host, three hosts of ours on one thread; kernel: three namespaces and veth between, both ends on one thread; \
         tcpconnect: two hosts of ours, the kernel over loopback; checksums are left out by both; an operation is a byte, a transaction, a connection"
            .to_owned(),
    ];
    steps.next("A against A: the noise floor");
    let floor = study::floor(&mut IsrRig::new("floor", None)?, &run_options)?;
    steps.next("what netisr costs");
    let mut rows = overheads(&run_options, options.core(), &floor, &mut notes)?;
    steps.next("host-router-host, and connections");
    let (more, peers) = netperf_rows(&run_options, options.core(), &mut notes)?;
    rows.extend(more);
    steps.next("done");
    Ok(Report { name: "bench dispatch".to_owned(), env, noise_floor: floor, rows, peers, notes, beside: None })
}

/// How many ticks more a frame costs in `with`, whose ticks count `threads` times, than in `without`: by the paired ratio, and so below 0 where
/// noise says so.
fn more(without: &Sample, with: &Sample, threads: f64) -> anyhow::Result<Figure> {
    let (base, ratio) = (without.summary()?, Ratio::paired(&without.values(), &with.values())?);
    let [median, lo, hi] = [ratio.median, ratio.hi, ratio.lo].map(|times| base.median * (threads / times - 1.0));
    Ok(Figure { median, lo, hi, n: ratio.n, unit: "ticks/op".to_owned() })
}

fn overheads(
    options: &run::Options,
    core: usize,
    floor: &NoiseFloor,
    notes: &mut Vec<String>,
) -> anyhow::Result<Vec<Row>> {
    let mut subjects: Vec<Box<dyn Subject>> = vec![
        Box::new(IsrRig::new("bare", None)?),
        Box::new(IsrRig::new("direct", Some(Mode::Direct))?),
        Box::new(IsrRig::new("hybrid", Some(Mode::Hybrid))?),
        Box::new(IsrRig::new("queued", Some(Mode::Deferred))?),
    ];
    let samples = run::interleave(&mut subjects, options, &mut |_| ())?;
    let [bare, direct, hybrid, queued] = samples.as_slice() else { anyhow::bail!("no samples of netisr") };
    let row = |id: &str, title: &str, with: &Sample| -> anyhow::Result<Row> {
        let mut row = Row::new(id, title, more(bare, with, 1.0)?);
        row.vs_previous = Some(Change::paired(bare, with, floor)?);
        Ok(row)
    };
    let mut rows = vec![
        row("direct.overhead", "direct dispatch beside none, ticks a frame more", direct)?,
        row("hybrid.overhead", "hybrid, one thread", hybrid)?,
        row("queued.overhead", "deferred to the same thread", queued)?,
    ];
    let title = "deferred to another core, both sides together, ticks a frame more";
    if dispatch::cores() < 2 {
        rows.push(Row::missing("deferred.overhead", title, "this machine has one core"));
        return Ok(rows);
    }
    drop(subjects);
    let other = if core == 0 { dispatch::cores() - 1 } else { 0 };
    let deferred = IsrThreadRig::new("deferred", other)?;
    let waited = deferred.waited();
    let mut subjects: Vec<Box<dyn Subject>> = vec![Box::new(LightRig::new("light")?), Box::new(deferred)];
    let samples = run::interleave(&mut subjects, options, &mut |_| ())?;
    let [light, deferred] = samples.as_slice() else { anyhow::bail!("no samples of two threads") };
    // Both threads' ticks: twice the wall's, less what the one that takes frames waited because the queue was long.
    let (waits, all) = waited.get();
    let waits = waits as f64 / all.max(1) as f64;
    let mut row = Row::new("deferred.overhead", title, more(light, deferred, 2.0 - waits)?);
    row.vs_previous = Some(Change::paired(light, deferred, floor)?);
    notes.push(format!(
        "deferred.overhead: {:.1} ticks of wall time a frame, beside {:.1} on one thread; both cores' time but {:.0} % of the taker's, in which it \
         waited for the worker",
        deferred.summary()?.median,
        light.summary()?.median,
        100.0 * waits
    ));
    rows.push(row);
    Ok(rows)
}

/// Where the kernel does the same.
#[derive(Clone, Copy)]
enum Kernel {
    /// Through two pairs of veth and a namespace that forwards.
    Veth(Segments),
    /// Over loopback.
    Loopback,
}

/// A row: what both do, and where.
struct Both {
    id: &'static str,
    title: &'static str,
    /// `None`: tcpconnect.
    test: Option<Test>,
    over: Over,
    link: &'static str,
    kernel: Kernel,
}

/// Checksums are left out on both sides: veth does not compute them either.
const BOTH: [Both; 4] = [
    Both {
        id: "hrh.tcp_stream",
        title: "TCP_STREAM, host-router-host, segments of 1448 bytes",
        test: Some(Test::TcpStream),
        over: Over::Router,
        link: "csum=on",
        kernel: Kernel::Veth(Segments::Cut),
    },
    Both {
        id: "hrh.tcp_stream.large",
        title: "TCP_STREAM, host-router-host, segments of up to 64 KiB",
        test: Some(Test::TcpStream),
        over: Over::Router,
        link: "csum=on,tso=on",
        kernel: Kernel::Veth(Segments::Whole),
    },
    Both {
        id: "hrh.tcp_rr",
        title: "TCP_RR, host-router-host",
        test: Some(Test::TcpRr),
        over: Over::Router,
        link: "csum=on",
        kernel: Kernel::Veth(Segments::Whole),
    },
    Both {
        id: "tcpconnect",
        title: "tcpconnect, host-host",
        test: None,
        over: Over::Pair,
        link: "csum=on",
        kernel: Kernel::Loopback,
    },
];

fn work(test: Option<Test>) -> Work {
    match test {
        Some(test) => Work::Netperf(netperf::Options { length: Length::Time(TRIAL), ..netperf::Options::new(test) }),
        None => Work::Connect(TRIAL),
    }
}

fn netperf_rows(options: &run::Options, core: usize, notes: &mut Vec<String>) -> anyhow::Result<(Vec<Row>, Vec<Peer>)> {
    // Each trial makes its hosts: setting up is in its clocks.
    let options = run::Options { min_cpu_share: None, keep: options.keep.min(12), ..options.clone() };
    let (mut rows, mut peers) = (Vec::new(), Vec::new());
    for both in &BOTH {
        let place = Place { link: both.link.to_owned(), ..Place::new(both.over) };
        let mut subjects: Vec<Box<dyn Subject>> = vec![Box::new(NetperfRig::new(both.id, place, work(both.test)))];
        match kernel(both, core) {
            Ok(kernel) => subjects.push(kernel),
            Err(why) => notes.push(format!("{}: no kernel beside it: {why:#}", both.id)),
        }
        let samples = run::interleave(&mut subjects, &options, &mut |_| ())?;
        let ours = samples.first().with_context(|| format!("no sample of {}", both.id))?;
        rows.push(Row::new(both.id, both.title, Figure::ticks(ours)?));
        if let Some(theirs) = samples.get(1) {
            peers.push(Peer::new("kernel", theirs, ours)?);
        }
    }
    Ok((rows, peers))
}

fn kernel(both: &Both, core: usize) -> anyhow::Result<Box<dyn Subject>> {
    let id = format!("kernel.{}", both.id);
    Ok(match both.kernel {
        Kernel::Veth(segments) => Box::new(Routed::new(&id, segments, both.test, TRIAL, core)?),
        Kernel::Loopback => Box::new(NetperfRig::new(&id, Place::new(Over::Native), work(both.test))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_a_figure_and_the_kernel_its_place() {
        let options = Options { quick: true, rounds: Some(3), core: None };
        let report = dispatch(&options, &mut |_| ()).unwrap();
        let ids: Vec<&str> = report.rows.iter().map(|row| row.id.as_str()).collect();
        let all = ["direct.overhead", "hybrid.overhead", "queued.overhead", "deferred.overhead"];
        assert_eq!(ids, [&all[..], &BOTH.map(|both| both.id)].concat());
        assert!(report.rows.iter().all(|row| row.now.is_some() || row.missing.is_some()));
        let beside: Vec<&str> = report.peers.iter().map(|peer| peer.row.as_str()).collect();
        match port::os::netns::available() {
            Ok(()) => assert_eq!(beside, BOTH.map(|both| both.id), "{:?}", report.notes),
            Err(_) => assert_eq!(beside, ["tcpconnect"]),
        }
    }
}
