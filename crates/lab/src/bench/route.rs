//! `linerate bench route`: what a packet costs in a router with a million routes, a lookup, and routes that change meanwhile.

use super::{ROUTES, lookups};
use crate::env::Environment;
use crate::native::forward::{Bench, Forward, Part, Who};
use crate::result::{Change, Figure, Peer, Report, Row};
use crate::rigs::{RouteRig, TunnelRig, UPDATES_PER_SECOND, UpdatesRig};
use crate::run;
use crate::sample::Ratio;
use crate::study::{self, Options, Progress, Steps};
use crate::subject::Subject;
use crate::verdict::NoiseFloor;
use anyhow::Context;
use inet::tunnel::Kind;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::Ordering;

/// The figures.
///
/// # Errors
/// A rig could not be built, or lost a frame.
pub fn route(options: &Options, progress: &mut dyn FnMut(Progress)) -> anyhow::Result<Report> {
    let env = Environment::detect(); // before the trials: their load is ours
    let run_options = options.run(30);
    let mut steps = Steps::new(6, progress);
    let mut notes = vec![
        "1 M routes with the Internet's lengths by 16 gateways, random destinations, 64-byte frames without FCS (22-byte payload), pktgen's \
         work on both sides included; locks up, one core; ticks of the TSC a frame"
            .to_owned(),
    ];
    steps.next("filling a router, A against A: the noise floor");
    let mut rig = RouteRig::new("floor", ROUTES)?;
    let floor = study::floor(&mut rig, &run_options)?;
    steps.next("forwarding");
    let (mut rows, peers) = forwarding(rig, &run_options, options.core(), &floor, &mut notes)?;
    steps.next("looking up");
    rows.extend(lookups(&run_options)?);
    steps.next("routes that change");
    rows.extend(updates(&run_options, &floor, &mut notes)?);
    steps.next("tunnels");
    rows.extend(tunnels(&run_options, &floor)?);
    notes.push(
        "tunnel: two routers with one route each, a link between them or a tunnel over it; what both cost together"
            .to_owned(),
    );
    steps.next("done");
    Ok(Report { name: "bench route".to_owned(), env, noise_floor: floor, rows, peers, notes, beside: None })
}

type Rows = (Vec<Row>, Vec<Peer>);

fn forwarding(
    rig: RouteRig,
    options: &run::Options,
    core: usize,
    floor: &NoiseFloor,
    notes: &mut Vec<String>,
) -> anyhow::Result<Rows> {
    // Two routers with tables of their own would take the cache from each other: one, and its burst changes between trials.
    let rig = Rc::new(RefCell::new(rig));
    let at = |id: &str, burst: usize| {
        let (rig, id) = (Rc::clone(&rig), id.to_owned());
        crate::subject::from_fn(id, move || {
            let mut rig = rig.borrow_mut();
            rig.set_burst(burst);
            rig.trial()
        })
    };
    let mut subjects: Vec<Box<dyn Subject>> = vec![at("route.1m.burst32", 32), at("route.1m.burst256", 256)];
    match Bench::start(Who::KernelRouter) {
        Ok(bench) => {
            let bench = Rc::new(RefCell::new(bench));
            subjects.push(Box::new(Forward::new("kernel.route.1m.burst32", &bench, Part::Whole, core)));
            notes.push(
                "kernel: its forwarding between veths in a namespace of its own, two routes of 16 bits and not a million, a packet \
                 socket's sendmmsg included"
                    .to_owned(),
            );
        }
        Err(why) => notes.push(format!("without kernel: skipped: {why:#}")),
    }
    let samples = run::interleave(&mut subjects, options, &mut |_| ())?;
    let [small, large, theirs @ ..] = samples.as_slice() else { anyhow::bail!("no samples") };
    let title = "IPv4 forwarding, 1 M routes, random destinations, burst 32";
    let mut rows = vec![Row::new("route.1m.burst32", title, Figure::ticks(small)?)];
    let mut row = Row::new("route.1m.burst256", "the same, burst 256", Figure::ticks(large)?);
    row.vs_previous = Some(Change::paired(small, large, floor)?);
    rows.push(row);
    let peers = theirs.iter().map(|theirs| Peer::new("kernel", theirs, small)).collect::<Result<Vec<_>, _>>()?;
    drop(subjects);
    rig.borrow_mut().set_burst(256);
    let (ledger, packets) = rig.borrow_mut().statement(20)?;
    let each = |ticks: i64| ticks as f64 / packets.max(1) as f64;
    let part = |row: &stats::Row| format!("{} {:.1}", row.stage.word(), each(row.ticks as i64));
    notes.push(format!(
        "burst 256 by stages, ticks a frame: {}; readings of the counter {:.1}, subtracted; unexplained {:.1} of {:.1}",
        ledger.rows.iter().map(part).collect::<Vec<_>>().join(", "),
        each(ledger.probes as i64),
        each(ledger.unexplained),
        each(ledger.total as i64)
    ));
    Ok((rows, peers))
}

fn tunnels(options: &run::Options, floor: &NoiseFloor) -> anyhow::Result<Vec<Row>> {
    let mut subjects: Vec<Box<dyn Subject>> = vec![Box::new(TunnelRig::new("tunnel.none", None)?)];
    for kind in Kind::ALL {
        subjects.push(Box::new(TunnelRig::new(&format!("tunnel.{}", kind.name()), Some(kind))?));
    }
    let samples = run::interleave(&mut subjects, options, &mut |_| ())?;
    let [none, tunnels @ ..] = samples.as_slice() else { anyhow::bail!("no samples of tunnels") };
    let mut rows = vec![Row::new("tunnel.none", "two routers, the link between them, burst 32", Figure::ticks(none)?)];
    for (kind, sample) in Kind::ALL.iter().zip(tunnels) {
        let title = format!("the same with a tunnel over it: {}", kind.name());
        let mut row = Row::new(&format!("tunnel.{}", kind.name()), &title, Figure::ticks(sample)?);
        row.vs_previous = Some(Change::paired(none, sample, floor)?);
        rows.push(row);
    }
    Ok(rows)
}

fn updates(options: &run::Options, floor: &NoiseFloor, notes: &mut Vec<String>) -> anyhow::Result<Vec<Row>> {
    let title = "the same with light locks while another thread changes 100,000 routes a second";
    if dispatch::cores() < 2 {
        return Ok(vec![Row::missing("route.updates", title, "this machine has one core")]);
    }
    let forwarder = options.cpu.unwrap_or(0);
    let updater = if forwarder == 0 { dispatch::cores() - 1 } else { 0 };
    let pair = UpdatesRig::pair("route.still", "route.updates", ROUTES, updater)?;
    let made = pair[1].made();
    let mut subjects: Vec<Box<dyn Subject>> = pair.into_iter().map(|rig| Box::new(rig) as Box<dyn Subject>).collect();
    let samples = run::interleave(&mut subjects, options, &mut |_| ())?;
    let [still, changing] = samples.as_slice() else { anyhow::bail!("no samples") };
    let [changes, ns] = [0, 1].map(|at| made[at].load(Ordering::Relaxed));
    let rate = changes as f64 * 1e9 / ns.max(1) as f64;
    let ratio = Ratio::paired(&changing.values(), &still.values()).context("a ratio")?;
    notes.push(format!(
        "route.updates: {:.0} routes changed a second (asked for {UPDATES_PER_SECOND}); cost with them over without \
         {:.3} [{:.3}, {:.3}], n {}",
        rate, ratio.median, ratio.lo, ratio.hi, ratio.n
    ));
    let still_title = "1 M routes with light locks, burst 32, nothing changes";
    let mut row = Row::new("route.updates", title, Figure::ticks(changing)?);
    row.vs_previous = Some(Change::paired(still, changing, floor)?);
    Ok(vec![Row::new("route.still", still_title, Figure::ticks(still)?), row])
}
