use super::*;

/// Settings that make register accesses free, so that tests do not wait.
const FREE: &str = "reg_read_ns=0 reg_write_ns=0";

#[test]
fn every_frame_comes_back() {
    for (ports, words) in [(2, ""), (4, ""), (2, FINAL), (4, FINAL)] {
        let mut rig = NicRig::new("nic", &format!("{FREE} {words} ports={ports} dma=cold")).unwrap();
        let reading = rig.trial().unwrap();
        assert!(reading.ops as usize >= FRAMES && reading.ticks > 0, "{reading:?}");
        assert_eq!((rig.fed, rig.missed()), (rig.back, 0));
        let given: Vec<u64> = rig.bridge.counts().map(|counts| counts.given).collect();
        assert_eq!(given, vec![rig.fed / ports; ports as usize], "each port sends as much as it receives");
    }
}

#[test]
fn doorbells_write_backs_and_register_reads_are_exact() {
    let costs = |words: &str| NicRig::new("nic", &format!("{FREE} {words}")).unwrap().costs().unwrap();
    for ports in [2, 4] {
        let first = costs(&format!("ports={ports}"));
        assert_eq!((first.doorbells, first.writebacks), (2.0, 1.25));
        assert_eq!(first.register_reads, 2.0 / (20.0 * 128.0));
        assert_eq!(costs(&format!("ports={ports} rx_tail_batch=64")).doorbells, 1.0 + 1.0 / 64.0);
        assert_eq!(costs(&format!("ports={ports} tx_tail_batch=64 tx_flush=poll")).doorbells, 1.0 + 1.0 / 64.0);
        assert_eq!(costs(&format!("ports={ports} tx_rs_every=32")).writebacks, 0.25 + 1.0 / 32.0);
        let last = costs(&format!("ports={ports} {FINAL}"));
        assert_eq!((last.doorbells, last.writebacks), (2.0 / 64.0, 0.25 + 1.0 / 32.0));
        let ahead = costs(&format!("ports={ports} {FINAL} bus=pcix133 fetch=32"));
        assert_eq!(last.bus_clocks - ahead.bus_clocks, 3.5, "2.25 clocks per descriptor instead of 4, twice");
        assert!(ahead.bus_allows > 4.0 / 3.0 * last.bus_allows);
        assert!(last.bus_clocks < 0.8 * first.bus_clocks && last.bus_allows > 1.2 * first.bus_allows);
        assert_eq!(last.stall_ns, 0.0);
    }
    let paid = NicRig::new("nic", FINAL).unwrap().costs().unwrap();
    assert_eq!(paid.stall_ns, 204.0 * 2.0 / 64.0 + 875.0 * 2.0 / (20.0 * 128.0));
}

#[test]
fn moderation_limits_the_interrupts() {
    let costs = |words: &str| NicRig::new("nic", &format!("{FREE} intr=on {words}")).unwrap().costs().unwrap();
    let each = costs("feed=1");
    assert_eq!((each.interrupts, each.register_reads), (1.0, 1.0));
    let moderated = costs("feed=75 itr_us=125");
    assert!((0.5..=1.0).contains(&(moderated.interrupts * 75.0)), "{moderated:?}");
}

#[test]
fn a_large_ring_bridges_a_pause_that_a_small_one_does_not() {
    for ports in [2, 4] {
        let lost = |words: &str| stall(&format!("{FREE} ports={ports} {words}"), 1, 40).unwrap();
        let small = lost("");
        assert_eq!((small.us, small.came), (2000, 1200 * ports));
        assert_eq!(small.missed, (1200 - 255) * ports, "a ring holds one less than it has places");
        assert_eq!(lost("rx_ring=2048").missed, 0);
    }
}

#[test]
fn two_loops_share_the_cards_and_no_frame_is_lost_between_them() {
    for (ports, halves) in [(2, [vec![0], vec![1]]), (4, [vec![0, 1], vec![2, 3]])] {
        let words = format!("{FREE} {FINAL} ports={ports}");
        let mut rigs = NicRig::shared("shared", 2, &words).unwrap();
        for (rig, half) in rigs.iter_mut().zip(halves) {
            let comes: Vec<PortNo> = rig.comes.iter().map(|card| card.port).collect();
            let mut leaves: Vec<PortNo> = rig.leaves.iter().map(|card| card.port ^ 1).collect();
            leaves.sort_unstable();
            assert_eq!(
                (&comes, &leaves),
                (&half, &half),
                "what comes by a port leaves by its partner, in the same loop"
            );
            rig.trial().unwrap();
            assert_eq!((rig.fed, rig.missed()), (rig.back, 0));
        }
        let reading = NicLoops::new("loops", 2, &words).unwrap().trial().unwrap();
        assert!(reading.ops as usize >= 2 * FRAMES && reading.ticks > 0);
    }
    let Err(why) = NicLoops::new("loops", 1, "ring=7") else { panic!("ring=7 is no word") };
    assert!(format!("{why:#}").contains("nic(ring=7):x"), "{why:#}");
    assert!(NicLoops::new("loops", 3, FREE).is_err());
}

#[test]
fn a_paused_loop_loses_only_its_own_frames() {
    for ports in [2, 4] {
        let lost = |words: &str| stall(&format!("{FREE} ports={ports} {words}"), 2, 40).unwrap();
        let small = lost("");
        assert_eq!((small.us, small.came), (2000, 1200 * ports));
        assert_eq!(small.missed, (1200 - 255) * ports / 2);
        assert_eq!(lost("rx_ring=2048").missed, 0);
    }
}

#[test]
fn an_unknown_setting_is_rejected() {
    for words in ["ports=3", "feed=0", "feed=129", "rx_ring=300", "cold", "dma=warm", "pool=sea"] {
        assert!(NicRig::new("nic", words).is_err(), "{words}");
    }
    let setup: NicSetup = "feed=7 pool=stack rx_ring=2048 feed=8".parse().unwrap();
    assert_eq!((setup.feed, setup.pool, setup.settings().unwrap().rings()), (8, buf::Kind::Stack, (2048, 256)));
}

/// A trial that waits for the modelled bus takes longer than the wall clock shows, and must not be
/// reported as one with a stepped clock.
#[test]
fn modelled_time_is_not_a_disturbance() {
    let words = format!("{FREE} {FINAL} ports=2 feed=128 rest=512 stride=power2 dma=cold frames=4096");
    let reading = NicPaced::new("paced", &words).unwrap().trial().unwrap();
    let modelled = crate::timer::rate().ns(reading.ticks as f64);
    assert!(modelled <= reading.wall_ns as f64 + 1.0 && modelled <= reading.cpu_ns as f64 + 1.0, "{reading:?}");
}

#[test]
fn with_bus_waits_the_slower_of_processor_and_bus_sets_the_rate() {
    let words = "ports=2 feed=128 rest=512 stride=power2 dma=cold";
    let time = |adds: &str, processor: u64| {
        let mut paced = NicPaced::new("paced", &format!("{FREE} {FINAL} {words} {adds}")).unwrap();
        paced.run_with(2560, |_| processor).unwrap();
        paced.run_with(25_600, |_| processor).unwrap() as f64 / 25_600.0
    };
    let needs = |adds: &str, hertz: f64| {
        let costs = NicRig::new("counted", &format!("{FREE} {FINAL} {words} {adds}")).unwrap().costs().unwrap();
        costs.bus_clocks / hertz * 1e9
    };
    // A processor that needs no time is limited by the bus clocks exactly.
    for (adds, hertz) in [("", 100e6), ("bus=pcix133", 133_333_333.0), ("bus=pcix133 fetch=32", 133_333_333.0)] {
        let (found, expected) = (time(adds, 0), needs(adds, hertz));
        assert!((found / expected - 1.0).abs() < 0.02, "{adds}: {found} ns a frame, {expected} counted");
    }
    // 256 frames a turn: a processor that needs 600 ns for each hides the bus, which needs less.
    assert!((time("", 256 * 600) - 600.0).abs() < 1.0);
}

#[test]
fn a_bus_without_waits_takes_no_time() {
    let mut rig = NicRig::new("counted", &format!("{FREE} {FINAL}")).unwrap();
    rig.offer(128).unwrap();
    let begun = rig.now;
    assert_eq!(rig.transfer(begun), begun);
    assert!(rig.totals().since(&Totals::default()).per_frame(1, &rig.comes[0].nic).bus_clocks > 0.0);
}

#[test]
fn resting_buffers_are_used_in_turn_and_freed_with_the_rig() {
    let distinct = |words: &str| {
        let mut rig = NicRig::new("rest", &format!("{FREE} {FINAL} feed=64 {words}")).unwrap();
        let mut seen = std::collections::HashSet::new();
        for _ in 0..64 {
            rig.arrive(64).unwrap();
            for card in &mut rig.comes {
                card.rx.rx_burst(&mut rig.burst, 256, rig.now);
                seen.extend(rig.burst.as_mut_slice().iter().map(|frame| frame.bytes().as_ptr() as usize));
                rig.bridge.input(card.port, &mut rig.burst, rig.now, &mut rig.out);
            }
            for card in &mut rig.leaves {
                card.tx.tx_burst(&mut rig.out[usize::from(card.port)], rig.now);
                card.tx.poll(rig.now);
            }
            rig.leave();
        }
        let pool = rig.pool.clone();
        drop(rig);
        assert_eq!(pool.stats().live(), 0, "{words}");
        seen.len()
    };
    // 8192 frames pass, each in a different buffer if as many are at rest.
    assert_eq!(distinct("rx_ring=256 rest=8192"), 8192);
    assert!(distinct("rx_ring=256") < 1024);
}
