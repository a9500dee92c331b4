//! `linerate bench route`: the cost of a packet in a router with a million routes, of a lookup, and
//! of forwarding while routes change.

use super::{ROUTES, lookups, on_two_cores, run_slow};
use crate::native::forward::{Bench, Forward, Part, Who};
use crate::result::{Report, Row};
use crate::rigs::{CoresRig, EngineRig, EngineWork, FibRig, RouteRig, TunnelRig, UPDATES_PER_SECOND, UpdatesRig};
use crate::run::{self, Alive};
use crate::side::{Shared, Side};
use crate::study::{Entry, Options, Progress, Study, Unit};
use crate::subject::Subject;
use crate::timer;
use inet::tunnel::Kind;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::Ordering;

/// Measures all rows of `linerate bench route`.
///
/// # Errors
/// Returns no error: a row that could not be measured states the reason instead.
pub fn route(options: &Options, progress: &mut dyn FnMut(Progress)) -> anyhow::Result<Report> {
    let mut study = Study::new("bench route", options.run(30), 5, progress);
    study.note(
        "1 M routes with the prefix lengths of the Internet's table through 16 gateways, random destinations, \
         64-byte frames without FCS (22-byte payload), pktgen's work on both sides included; locks up, one core; \
         TSC ticks per frame; at most twelve tables, each filled again",
    );
    study.part("forwarding");
    forwarding(&mut study, options.core());
    study.part("route lookup");
    lookups(&mut study);
    study.part("over IPv6");
    over_ipv6(&mut study);
    study.part("routes that change");
    updates(&mut study);
    study.part("a routing engine");
    engine(&mut study, if options.quick { 100_000 } else { ROUTES });
    study.part("two threads");
    study.note("shared.route: one router with light locks, each thread between two ports of its own; target: 1.6");
    let title = "forwarding by two threads on one shared router, bursts of 32, relative to one";
    on_two_cores(&mut study, "shared.route", title, CoresRig::forward);
    study.part("tunnels");
    tunnels(&mut study);
    study.note(
        "tunnel: two routers with one route each, joined by a link or by a tunnel over it; ticks of both routers \
         together",
    );
    Ok(study.finish())
}

/// Measures two burst sizes on the same router in each round: two routers, with tables of 80 MB
/// each, would evict each other's table from the cache.
fn forwarding(study: &mut Study<'_>, core: usize) {
    let rig = Shared::new(|| RouteRig::new("route.1m", ROUTES));
    let at = |id: &'static str, burst: usize| {
        let rig = rig.clone();
        Side::new(id, move || {
            let rig = rig.get()?;
            Ok(crate::subject::from_fn(id, move || {
                let mut rig = rig.borrow_mut();
                rig.set_burst(burst);
                rig.trial()
            }))
        })
    };
    let bench = Shared::new(|| Bench::start(Who::KernelRouter));
    let kernel = Side::new("kernel.route.1m.burst32", move || {
        Ok(Forward::new("kernel.route.1m.burst32", &bench.get()?, Part::Whole, core))
    });
    let title = |burst: usize| format!("IPv4 forwarding, 1 M routes, random destinations, burst {burst}");
    let entries = vec![
        Entry::new(at("route.1m.burst32", 32), title(32)),
        Entry::new(at("route.1m.burst256", 256), title(256)).with_sides([kernel]),
    ];
    study.note(
        "kernel: forwards between veths in a separate network namespace, with two /16 routes instead of a \
         million; a packet socket's sendmmsg is included. The devices differ, so the ratio does not measure \
         routing alone",
    );
    let options = run_slow(study);
    // Both burst sizes use one router, so no side is built twice to measure the noise floor, and
    // the rows are not compared.
    study.measure_entries(entries, options.clone());
    // The tables of both routers evict each other from the cache, which costs both the same.
    let bursts = |mut rig: RouteRig| {
        rig.set_burst(32);
        rig
    };
    let [own_id, id] = ["route.own.burst32", "route.engine.burst32"];
    let own = Side::new(own_id, move || RouteRig::new(own_id, ROUTES).map(bursts));
    let engine = Side::new(id, move || RouteRig::of_engine(id, ROUTES, ROUTES6).map(bursts));
    let title = "the same with 1 M IPv4 and 220 k IPv6 routes of a routing engine";
    let entries = vec![
        Entry::new(own, "the same with 1 M own routes, beside another router"),
        Entry::new(engine, title).against(own_id),
    ];
    study.measure_entries(entries, options);
    match stages() {
        Ok(text) => study.note(text),
        Err(why) => study.note(format!("no stages: {why:#}")),
    }
}

/// Measures how fast the routes of a routing engine are applied.
fn engine(study: &mut Study<'_>, routes: usize) {
    study.note(format!(
        "engine.*: FPM frames of FRR's form in memory, {routes} IPv4 routes and 22 % as many IPv6 routes, sorted, through \
         16 next hops each; targets: new 1.5 M/s, same 5 M/s, move 1 ms. zebra 8.4.4 writes 0.44 to 0.57 M/s"
    ));
    let works = [
        ("engine.new", EngineWork::New, "new routes of a routing engine"),
        ("engine.same", EngineWork::Same, "routes of a routing engine that do not change"),
        ("engine.renumbered", EngineWork::Renumbered, "the same, on a new connection with other next hop numbers"),
    ];
    let side = |id: &'static str, work| Side::new(id, move || EngineRig::new(id, work, routes));
    let mut entries: Vec<Entry> =
        works.into_iter().map(|(id, work, title)| Entry::new(side(id, work), title).unit(Unit::MILLIONS)).collect();
    let us = Unit { name: "us", of: |ticks| ticks / timer::rate().hz as f64 * 1e6 };
    let title = "change of the next hop of all IPv4 routes at once";
    entries.push(Entry::new(side("engine.move", EngineWork::Move), title).unit(us));
    let options = run::Options { alive: Alive::OneByOne, ..study.options().at_most(10) };
    study.measure_entries(entries, run::Options { trials: 2, ..options });
}

/// Returns a note on the ticks per frame by stage, measured on a separate router.
fn stages() -> anyhow::Result<String> {
    let mut rig = RouteRig::new("route.stages", ROUTES)?;
    rig.set_burst(256);
    rig.trial()?;
    let (ledger, packets) = rig.statement(20)?;
    let each = |ticks: i64| ticks as f64 / packets.max(1) as f64;
    let part = |row: &stats::Row| format!("{} {:.1}", row.stage.word(), each(row.ticks as i64));
    Ok(format!(
        "burst 256 by stages, ticks per frame: {}; readings of the counter {:.1}, subtracted; unexplained {:.1} of \
         {:.1}",
        ledger.rows.iter().map(part).collect::<Vec<_>>().join(", "),
        each(ledger.probes as i64),
        each(ledger.unexplained),
        each(ledger.total as i64)
    ))
}

/// Number of routes in the IPv6 rows: about the size of the Internet's table.
const ROUTES6: usize = 220_000;

/// Measures forwarding and lookups over IPv6.
fn over_ipv6(study: &mut Study<'_>) {
    study.note(
        "six.*: 220,000 IPv6 routes with the prefix lengths of the Internet's table in round figures, 84-byte frames \
         without FCS, destinations within the prefixes; targets: 55 ticks per frame, 25 per lookup",
    );
    let options = run_slow(study);
    let six = |id: &'static str| {
        Side::new(id, move || {
            let mut rig = RouteRig::six(id, ROUTES6)?;
            rig.set_burst(32);
            Ok(rig)
        })
    };
    let title = "IPv6 forwarding, 220 k routes, destinations within them, burst 32";
    study.measure_entries(vec![Entry::new(six("six.route.220k.burst32"), title)], options.clone());
    let entries =
        [(32, "six.fib.220k", "bursts of 32"), (1, "six.fib.220k_one", "one by one")].map(|(burst, id, how)| {
            let side = Side::new(id, move || Ok(FibRig::six(id, ROUTES6)?.in_bursts_of(burst)));
            Entry::new(side, format!("longest-prefix lookup, 220 k IPv6 routes, {how}"))
        });
    study.measure_entries(entries.into(), options);
}

fn tunnels(study: &mut Study<'_>) {
    let none = Side::new("tunnel.none", || TunnelRig::new("tunnel.none", None));
    let mut entries = vec![Entry::new(none, "two routers joined by a link, burst 32")];
    entries.extend(Kind::ALL.iter().map(|kind| {
        let id = format!("tunnel.{}", kind.name());
        let side = Side::new(id.clone(), move || TunnelRig::new(&id, Some(*kind)));
        let title = format!("two routers with a tunnel over the link, burst 32: {}", kind.name());
        Entry::new(side, title).against("tunnel.none")
    }));
    study.compare_entries(entries);
}

fn updates(study: &mut Study<'_>) {
    let (still, changing) = ("route.still", "route.updates");
    let title = "1 M routes with light locks, burst 32, another thread changes routes (rate in the notes)";
    let Some(updater) = dispatch::other_core(study.options().cpu.unwrap_or(0)) else {
        return study.rows([Row::missing(changing, title, super::ONE_CORE)]);
    };
    // Number of route changes, and nanoseconds of the trials, summed over all rounds.
    let made = Rc::new(Cell::new([0u64; 2]));
    let pair = Shared::new(move || {
        UpdatesRig::pair("route.still", "route.updates", ROUTES, updater).map(|pair| pair.map(Some))
    });
    let side = |at: usize, id: &'static str| {
        let (pair, made) = (pair.clone(), Rc::clone(&made));
        Side::new(id, move || {
            let pair = pair.get()?;
            let mut rig =
                pair.borrow_mut()[at].take().ok_or_else(|| anyhow::anyhow!("this half of the pair is in use"))?;
            let (made, counts) = (Rc::clone(&made), rig.made());
            let mut before = [0, 1].map(|at| counts[at].load(Ordering::Relaxed));
            Ok(crate::subject::from_fn(id, move || {
                let _both = &pair;
                let reading = rig.trial()?;
                let now = [0, 1].map(|at| counts[at].load(Ordering::Relaxed));
                let sum = made.get();
                made.set([0, 1].map(|at| sum[at] + now[at] - before[at]));
                before = now;
                Ok(reading)
            }))
        })
    };
    let entries = vec![
        Entry::new(side(0, still), "1 M routes with light locks, burst 32, no route changes"),
        Entry::new(side(1, changing), title),
    ];
    let options = run_slow(study);
    let group = study.measure_entries(entries, options);
    let [changes, ns] = made.get();
    if let Ok(ratio) = group.ratio(changing, still) {
        study.note(format!(
            "route.updates: {:.0} routes changed per second (target: {UPDATES_PER_SECOND}); cost with changes over \
             cost without {}, n {}",
            changes as f64 * 1e9 / ns.max(1) as f64,
            ratio.show(3),
            ratio.n
        ));
    }
}
