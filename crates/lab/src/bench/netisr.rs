//! `linerate bench dispatch`: the cost of netisr (direct or queued dispatch of input frames) per
//! frame, and the results of netperf's tests through a router and between two hosts.

use crate::ab::Trials;
use crate::native::routed::Routed;
use crate::netperf::veth::Segments;
use crate::netperf::{Over, Place};
use crate::result::{Figure, Report, Row};
use crate::rigs::{IsrRig, IsrThreadRig, LightRig, NetperfRig, Work};
use crate::run;
use crate::side::Side;
use crate::study::{Entry, Group, Options, Progress, Study};
use crate::subject::Subject;
use apps::netperf::{self, Length, Test};
use clock::Duration;
use dispatch::netisr::Mode;
use std::cell::Cell;
use std::rc::Rc;

const TRIAL: Duration = Duration::from_millis(20);

/// Measures all rows of `linerate bench dispatch`.
///
/// # Errors
/// Returns no error: a row that could not be measured states the reason instead.
pub fn dispatch(options: &Options, progress: &mut dyn FnMut(Progress)) -> anyhow::Result<Report> {
    let mut study = Study::new("bench dispatch", options.run(30), 2, progress);
    study.note(
        "*.overhead: one router forwards 64-byte frames over 1,000 routes in bursts of 32, with and without netisr \
         alternately; computed from the ratio of paired builds. deferred.overhead: light locks, a thread on another \
         core takes the frames through the stack; ticks of wall time, compared with light locks on one thread",
    );
    study.note(
        "hrh: host-router-host, three of our hosts on one thread; kernel: three namespaces joined by veth, both ends on one thread; \
         tcpconnect: two of our hosts, the kernel over loopback; neither computes checksums; an operation is a byte, a transaction, a \
         connection",
    );
    study.part("netisr's cost");
    overheads(&mut study, options.core());
    study.part("host-router-host, and connections");
    netperf_rows(&mut study, options.core());
    Ok(study.finish())
}

/// Returns the extra ticks per frame of side `with` over side `base`. The ticks of `with` are first
/// multiplied by `threads`, the number of cores that it keeps busy. Since the figure is computed
/// from the paired ratio, noise can make it negative.
fn more(group: &Group, base: &str, with: &str, threads: f64) -> anyhow::Result<Figure> {
    let (middle, ratio) = (group.sample(base).summary()?, group.ratio(base, with)?);
    let [median, lo, hi] = [ratio.median, ratio.hi, ratio.lo].map(|times| middle.median * (threads / times - 1.0));
    Ok(Figure { median, lo, hi, n: ratio.n, unit: "ticks/op".to_owned(), range: None })
}

/// Returns the row `id` with the extra cost of side `with` over side `base`.
fn more_row(group: &Group, id: &str, title: &str, [base, with]: [&str; 2], threads: f64) -> Row {
    match more(group, base, with, threads) {
        Ok(figure) => Row { vs_previous: group.change(base, with), ..Row::new(id, title, figure) },
        Err(why) => Row::missing(id, title, &format!("{why:#}")),
    }
}

fn overheads(study: &mut Study<'_>, core: usize) {
    let modes = [
        ("direct", Mode::Direct, "netisr with direct dispatch on one thread: extra ticks per frame"),
        ("hybrid", Mode::Hybrid, "netisr with hybrid dispatch on one thread: extra ticks per frame"),
        ("queued", Mode::Deferred, "netisr deferred to the same thread: extra ticks per frame"),
    ];
    let mut sides = vec![Side::new("bare", || IsrRig::new("bare", None))];
    sides.extend(modes.map(|(id, mode, _)| Side::new(id, move || IsrRig::new(id, Some(mode)))));
    let group = study.compare(sides);
    study.rows(modes.map(|(id, _, title)| more_row(&group, &format!("{id}.overhead"), title, ["bare", id], 1.0)));

    let (id, title) =
        ("deferred.overhead", "netisr deferred to another core: extra ticks per frame, both cores together");
    let Some(other) = dispatch::other_core(core) else {
        return study.rows([Row::missing(id, title, super::ONE_CORE)]);
    };
    // Ticks that the receiving thread waited because the queue was long, and all its ticks, summed
    // over all builds.
    let waited = Rc::new(Cell::new((0u64, 0u64)));
    let sum = Rc::clone(&waited);
    let sides = vec![
        Side::new("light", || LightRig::new("light")),
        Side::new("deferred", move || {
            let mut rig = IsrThreadRig::new("deferred", other)?;
            let (counts, sum) = (rig.waited(), Rc::clone(&sum));
            let mut before = counts.get();
            Ok(crate::subject::from_fn("deferred", move || {
                let reading = rig.trial()?;
                let (now, all) = (counts.get(), sum.get());
                sum.set((all.0 + now.0 - before.0, all.1 + now.1 - before.1));
                before = now;
                Ok(reading)
            }))
        }),
    ];
    let group = study.compare(sides);
    // Ticks of both threads: twice the wall-clock ticks, less the waits of the receiving thread.
    let (waits, all) = waited.get();
    let waits = waits as f64 / all.max(1) as f64;
    study.rows([more_row(&group, id, title, ["light", "deferred"], 2.0 - waits)]);
    if let [Ok(deferred), Ok(light)] = ["deferred", "light"].map(|id| group.sample(id).summary()) {
        study.note(format!(
            "deferred.overhead: {:.1} ticks of wall time per frame, {:.1} on one thread; counts the time of both \
             cores, except the {:.0} % of the receiving thread's time in which it waited for the worker",
            deferred.median,
            light.median,
            100.0 * waits
        ));
    }
}

/// Kernel setup that a row is compared with.
#[derive(Clone, Copy)]
enum Kernel {
    /// Through two pairs of veth and a namespace that forwards.
    Veth(Segments),
    /// Over the loopback device.
    Loopback,
}

/// A row: the test that both sides run, our setup, and the kernel's setup.
struct Both {
    id: &'static str,
    title: &'static str,
    /// netperf's test; `None` for tcpconnect.
    test: Option<Test>,
    over: Over,
    link: &'static str,
    kernel: Kernel,
}

/// Rows compared with the kernel. Checksums are disabled on both sides, since veth does not compute
/// them either.
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

fn netperf_rows(study: &mut Study<'_>, core: usize) {
    let usual = Trials::Hosts { one_thread: true }.options(study.options());
    let options = run::Options { keep: usual.keep.min(12), ..usual };
    for both in &BOTH {
        let place = Place { link: both.link.to_owned(), ..Place::new(both.over) };
        let (id, test) = (both.id, both.test);
        let ours = Side::new(id, move || Ok(NetperfRig::new(id, place.clone(), work(test))));
        let entry = Entry::new(ours, both.title).with_sides([kernel(both, core)]);
        let group = study.measure_entries(vec![entry], options.clone());
        if let Some(why) = group.sample(&format!("kernel.{id}")).failed {
            study.note(format!("{id}: no kernel peer: {why}"));
        }
    }
}

fn kernel(both: &Both, core: usize) -> Side {
    let (id, test) = (format!("kernel.{}", both.id), both.test);
    let name = id.clone();
    match both.kernel {
        Kernel::Veth(segments) => Side::new(id, move || Routed::new(&name, segments, test, TRIAL, core)),
        Kernel::Loopback => Side::new(id, move || Ok(NetperfRig::new(&name, Place::new(Over::Native), work(test)))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_a_figure_and_its_kernel_peer() {
        let options = Options { quick: true, rounds: Some(3), ..Options::default() };
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
