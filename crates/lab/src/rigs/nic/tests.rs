use super::*;

/// Registers that cost nothing: tests are not to wait.
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
        assert_eq!(last.bus_clocks - ahead.bus_clocks, 3.5, "T11: 4 clocks a descriptor are 2.25, twice");
        assert!(ahead.bus_allows > 4.0 / 3.0 * last.bus_allows);
        assert!(last.bus_clocks < 0.8 * first.bus_clocks && last.bus_allows > 1.2 * first.bus_allows);
        assert_eq!(last.stall_ns, 0.0);
    }
    let paid = NicRig::new("nic", FINAL).unwrap().costs().unwrap();
    assert_eq!(paid.stall_ns, 204.0 * 2.0 / 64.0 + 875.0 * 2.0 / (20.0 * 128.0));
}

#[test]
fn interrupts_are_as_many_as_moderation_lets_through() {
    let costs = |words: &str| NicRig::new("nic", &format!("{FREE} intr=on {words}")).unwrap().costs().unwrap();
    let each = costs("feed=1");
    assert_eq!((each.interrupts, each.register_reads), (1.0, 1.0));
    let moderated = costs("feed=75 itr_us=125");
    assert!((0.5..=1.0).contains(&(moderated.interrupts * 75.0)), "{moderated:?}");
}

#[test]
fn a_large_ring_bridges_a_distraction_that_a_small_one_does_not() {
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
fn one_loop_of_two_that_is_distracted_loses_its_own_frames_alone() {
    for ports in [2, 4] {
        let lost = |words: &str| stall(&format!("{FREE} ports={ports} {words}"), 2, 40).unwrap();
        let small = lost("");
        assert_eq!((small.us, small.came), (2000, 1200 * ports));
        assert_eq!(small.missed, (1200 - 255) * ports / 2);
        assert_eq!(lost("rx_ring=2048").missed, 0);
    }
}

#[test]
fn a_word_that_is_none_is_told() {
    for words in ["ports=3", "feed=0", "feed=129", "rx_ring=300", "cold", "dma=warm", "pool=sea"] {
        assert!(NicRig::new("nic", words).is_err(), "{words}");
    }
    let setup: NicSetup = "feed=7 pool=stack rx_ring=2048 feed=8".parse().unwrap();
    assert_eq!((setup.feed, setup.pool, setup.knobs().unwrap().rings()), (8, buf::Kind::Stack, (2048, 256)));
}
