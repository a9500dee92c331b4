use super::*;

fn or_skip(test: &str, who: Who) -> Option<Bench> {
    Bench::start(who).inspect_err(|why| println!("skipped: {test}: {}: {why:#}", who.name())).ok()
}

#[test]
fn every_contender_forwards_all_frames() {
    for who in Who::ALL.into_iter().filter(|who| *who != Who::Idle) {
        let Some(mut bench) = or_skip("forward", who) else { continue };
        let run = bench.run(3000, 0).unwrap_or_else(|why| panic!("{}: {why:#}", who.name()));
        assert!(run.frames >= 3000 && run.sent[0] > 0 && run.passed[2] > 0, "{}: {run:?}", who.name());
        assert_eq!(run.bridge[1] > 0, matches!(who, Who::Ours(_)), "{}: {run:?}", who.name());
        println!("{:12} {run:?}", who.name());
    }
}

fn sleeps_and_wakes(idle: &mut Idle) {
    let core = dispatch::last_core();
    let used = idle.share(2, 50, core).unwrap();
    println!("{}: processor, of 50 ms each: {used:?}", idle.ports());
    if matches!(idle.0, Asleep::Taps(_)) {
        // With cards, the process includes the threads of other tests.
        assert!(used.iter().all(|ns| *ns < 50_000_000), "it does not sleep: {used:?}");
    }
    let delays = idle.wake(20, 1000, core).unwrap();
    println!("delays: {delays:?}");
    assert!(delays.len() == 20 && delays.iter().all(|ns| *ns > 0));
}

#[test]
fn an_idle_switch_sleeps_and_wakes_for_each_frame() {
    if let Some(bench) = or_skip("idle", Who::Idle) {
        sleeps_and_wakes(&mut Idle::taps(bench));
    }
    sleeps_and_wakes(&mut Idle::cards("a test").unwrap());
}

#[test]
fn our_loops_ledger_has_the_stages_of_the_loop_and_of_its_ports() {
    for (who, parts) in [(Who::Ours(Kind::Xdp), true), (Who::Ours(Kind::Packet), false)] {
        let Some(mut bench) = or_skip("costs", who) else { continue };
        let LoopCosts { stages, readings, probes } = bench.costs(2000, 0).unwrap();
        let of = |name: &str| stages.iter().find(|stage| stage.stage == name);
        for name in ["dispatch.polling", "port.rx", "bridge.input", "port.tx"] {
            assert!(of(name).is_some_and(|stage| stage.ticks > 0.0 && !stage.within), "{name}: {stages:?}");
        }
        for name in ["port.rx.take", "port.rx.refill", "port.tx.reclaim", "port.tx.fill", "port.tx.kick"] {
            assert_eq!(of(name).is_some_and(|stage| stage.ticks > 0.0 && stage.within), parts, "{name}: {stages:?}");
        }
        let tx = of("port.tx").unwrap().ticks;
        let within: f64 =
            stages.iter().filter(|part| part.stage.starts_with("port.tx.") && part.within).map(|part| part.ticks).sum();
        // The cost of a reading differs from the calibrated cost by at most that cost.
        assert!(within <= tx + probes && readings > 0.0, "{within} of {tx}: {stages:?}");
    }
}
