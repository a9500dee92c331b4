use super::*;
use buf::{Pool, PoolConfig, PoolLocks};
use clock::{Clock, SimClock};
use port::Caps;
use port::pair::pair;
use proptest::prelude::*;

fn frame(dst: u8, src: u8) -> Vec<u8> {
    let mut frame = vec![0; 60];
    frame[5] = dst;
    frame[11] = src;
    frame
}

fn mac(dst: [u8; 6], src: [u8; 6]) -> Vec<u8> {
    [&dst[..], &src, &[0x88, 0xb5], &[0; 46]].concat()
}

#[test]
fn sources_are_learned_forgotten_and_followed() {
    let mut fdb = Fdb::new(10, AGE);
    let at = Instant::from_millis;
    assert_eq!(fdb.decide(0, &frame(2, 1), at(0)), Verdict::Flood);
    assert_eq!(fdb.decide(1, &frame(1, 2), at(0)), Verdict::To(0));
    assert_eq!(fdb.decide(0, &frame(2, 1), at(1)), Verdict::To(1));
    assert_eq!(fdb.decide(1, &frame(2, 3), at(1)), Verdict::Same);
    assert_eq!(fdb.decide(2, &frame(1, 2), at(2)), Verdict::To(0), "2 has moved");
    assert_eq!(fdb.decide(0, &frame(2, 1), at(3)), Verdict::To(2));
    assert_eq!(fdb.decide(1, &frame(1, 4), at(300_003)), Verdict::Flood, "1 is forgotten");
    assert_eq!(fdb.counts(), (4, 0, 1));
}

#[test]
fn groups_are_flooded_but_not_all_and_never_learned() {
    let mut fdb = Fdb::new(10, AGE);
    let now = Instant::ZERO;
    assert_eq!(fdb.decide(0, &mac([0xff; 6], [2, 0, 0, 0, 0, 1]), now), Verdict::Flood);
    assert_eq!(fdb.decide(0, &mac([1, 0x80, 0xc2, 0, 0, 0x0e], [2, 0, 0, 0, 0, 2]), now), Verdict::Reserved);
    assert_eq!(fdb.decide(0, &mac([1, 0x80, 0xc2, 0, 0, 0x10], [2, 0, 0, 0, 0, 1]), now), Verdict::Flood);
    assert_eq!(fdb.decide(0, &mac([2; 6], [3; 6]), now), Verdict::Bad);
    assert_eq!(fdb.decide(0, &[0; 13], now), Verdict::Bad);
    assert_eq!(fdb.counts().0, 1);
}

#[test]
fn a_full_table_makes_place_for_the_new_only_when_the_old_have_aged() {
    let mut fdb = Fdb::new(2, Duration::from_secs(10));
    let at = |secs: u64| Instant::from_millis(secs * 1000);
    for src in 1..=3 {
        fdb.decide(0, &frame(99, src), at(5));
    }
    assert_eq!(fdb.counts(), (2, 1, 0));
    fdb.decide(0, &frame(99, 1), at(9));
    fdb.decide(0, &frame(99, 4), at(16));
    assert_eq!(fdb.counts(), (2, 1, 0));
    assert_eq!(fdb.decide(1, &frame(4, 9), at(17)), Verdict::To(0));
    assert_eq!(fdb.counts(), (2, 2, 0), "9 has no place: 1 and 4 are young");
}

fn pool() -> Pool {
    Pool::new(&PoolConfig { locks: PoolLocks::Light, data: 2048, ..PoolConfig::default() }).unwrap()
}

/// A switch over `n` ports, and their other ends.
fn switch(n: usize) -> (Switch, Vec<Port>) {
    let (ours, theirs) = (0..n).map(|at| pair(&format!("p{at}"), 256, Caps::PLAIN)).unzip();
    (Switch::new(ours, Fdb::new(ENTRIES, AGE)), theirs)
}

fn send(port: &mut Port, pool: &Pool, bytes: &[u8]) {
    let mut frame = pool.get().unwrap();
    frame.extend(bytes).unwrap();
    assert!(port.tx.tx_one(frame, Instant::ZERO).is_ok());
}

fn receive(port: &mut Port) -> Vec<Vec<u8>> {
    let mut burst = Burst::new();
    port.rx.rx_burst(&mut burst, 256, Instant::ZERO);
    burst.drain().map(|frame| frame.bytes().to_vec()).collect()
}

#[test]
fn a_frame_reaches_whom_it_is_for() {
    let (mut switch, mut ends) = switch(3);
    let pool = pool();
    send(&mut ends[0], &pool, &frame(2, 1));
    switch.turn(Instant::ZERO);
    assert_eq!((receive(&mut ends[0]).len(), receive(&mut ends[1]).len(), receive(&mut ends[2]).len()), (0, 1, 1));
    send(&mut ends[1], &pool, &frame(1, 2));
    switch.turn(Instant::ZERO);
    assert_eq!((receive(&mut ends[0]), receive(&mut ends[2]).len()), (vec![frame(1, 2)], 0));
    let counts: Vec<Counts> = switch.counts().map(|(_, counts)| counts).collect();
    assert_eq!((counts[0].flooded, counts[0].sent, counts[1].forwarded, counts[2].sent), (1, 1, 1, 1));
    assert!(switch.report().ends_with("2 addresses known, 0 moved, 0 not learned: no place"));
}

#[test]
fn it_ends_when_all_ports_have() {
    let (mut switch, ends) = switch(2);
    drop(ends);
    switch.run(&Clock::sim(&SimClock::new()), || false).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// What came has left, or ended under a name; nobody gets what he sent.
    #[test]
    fn nothing_is_lost(frames in prop::collection::vec((0..4_usize, prop::collection::vec(0..3_u8, 14..70)), 0..200)) {
        let (mut switch, mut ends) = switch(4);
        let pool = pool();
        let mut got = [0_u64; 4];
        for (from, bytes) in &frames {
            send(&mut ends[*from], &pool, bytes);
            switch.turn(Instant::ZERO);
            prop_assert_eq!(receive(&mut ends[*from]).len(), 0);
            for (end, got) in ends.iter_mut().zip(&mut got) {
                *got += receive(end).len() as u64;
            }
        }
        let counts: Vec<Counts> = switch.counts().map(|(_, counts)| counts).collect();
        for (c, got) in counts.iter().zip(got) {
            prop_assert_eq!(c.received, c.forwarded + c.flooded + c.same + c.reserved + c.bad);
            prop_assert_eq!(c.given, c.sent + c.full + c.no_buffer);
            prop_assert_eq!(c.sent, got);
        }
        let sum = |of: fn(&Counts) -> u64| counts.iter().map(of).sum::<u64>();
        prop_assert_eq!(sum(|c| c.given), sum(|c| c.forwarded) + 3 * sum(|c| c.flooded));
        prop_assert_eq!(sum(|c| c.received), frames.len() as u64);
    }
}
