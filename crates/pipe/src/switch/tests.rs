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

fn pool() -> Pool {
    Pool::new(&PoolConfig { locks: PoolLocks::Light, data: 2048, ..PoolConfig::default() }).unwrap()
}

/// A switch over `n` ports, and their other ends.
fn switch(n: usize) -> (Switch, Vec<Port>) {
    let (ours, theirs) = (0..n).map(|at| pair(&format!("p{at}"), 256, Caps::PLAIN)).unzip();
    (Switch::new(ours, FdbConfig::new()), theirs)
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
    assert_eq!((counts[0].bridge.flooded, counts[0].sent, counts[1].bridge.forwarded, counts[2].sent), (1, 1, 1, 1));
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
            prop_assert_eq!(c.bridge.received, c.bridge.forwarded + c.bridge.flooded + c.bridge.dropped);
            prop_assert_eq!((c.bridge.given, c.sent), (c.sent + c.late, got));
        }
        let audit = switch.bridge().audit();
        prop_assert!(audit.holds() && audit.received == frames.len() as u64, "{audit:?}");
    }
}
