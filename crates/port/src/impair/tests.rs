use super::*;
use crate::spec::Percent;
use crate::{Caps, null, pair, pktgen};
use buf::{Pool, PoolConfig};
use proptest::prelude::*;

fn pool() -> Pool {
    Pool::new(&PoolConfig { buffers: 4096, ..PoolConfig::default() }).unwrap()
}

fn percent(hundredths: u32) -> Percent {
    Percent::from_billionths(hundredths * 100_000)
}

fn burst(pool: &Pool, n: usize, first: u32, len: usize) -> Burst {
    let mut burst = Burst::new();
    assert_eq!(pool.get_burst(n, &mut burst), n);
    for (i, frame) in (first..).zip(burst.as_mut_slice()) {
        frame.extend(&i.to_be_bytes()).unwrap();
        frame.append(len - 4).unwrap().fill(0);
    }
    burst
}

/// Sends `n` frames of 100 bytes at intervals of `every`. Returns which arrived, and when.
fn run(how: &Impairment, n: u32, every: Duration) -> (Vec<(u32, u64)>, Arc<PortCounts>) {
    let pool = pool();
    let (port, mut far) = pair::pair("p", 4096, Caps::PLAIN);
    let mut port = wrap(how, Direction::Tx, port, &pool);
    let (mut arrived, mut got) = (Vec::new(), Burst::new());
    let mut collect = |far: &mut Port, now: Instant| {
        while far.rx.rx_burst(&mut got, 256, now) > 0 {
            arrived.extend(got.drain().map(|f| (u32::from_be_bytes(*f.bytes().first_chunk().unwrap()), now.nanos())));
        }
    };
    for i in 0..n {
        let now = Instant::from_nanos(every.as_nanos() as u64 * u64::from(i));
        while let Some(event) = port.tx.next_event().filter(|event| *event < now) {
            port.tx.poll(event);
            collect(&mut far, event);
        }
        assert_eq!(port.tx.tx_burst(&mut burst(&pool, 1, i, 100), now), 1);
        collect(&mut far, now);
        assert_eq!(port.counts.tx.from_host(), u64::from(i) + 1, "at every moment");
        assert_eq!(port.counts.tx.held.get(), port.tx.held() as u64);
    }
    while let Some(event) = port.tx.next_event() {
        port.tx.poll(event);
        collect(&mut far, event);
    }
    assert_eq!((port.tx.held(), port.counts.tx.frames.get()), (0, arrived.len() as u64));
    let counts = port.counts.clone();
    drop((port, far, got));
    assert_eq!(pool.stats().live(), 0);
    (arrived, counts)
}

const MS: Duration = Duration::from_millis(1);

#[test]
fn a_perfect_link_changes_nothing() {
    let (arrived, counts) = run(&Impairment::default(), 100, MS);
    assert!(arrived.iter().enumerate().all(|(i, at)| *at == (i as u32, i as u64 * 1_000_000)));
    assert_eq!(counts.tx.dropped(), 0);
}

#[test]
fn loss_rate_matches_the_option() {
    // 100,000 frames at 1 %: mean 1000, standard deviation 31.5; the bounds are five of those.
    // Seeds 1 to 3.
    for seed in 1..=3 {
        for (loss, dup, corrupt) in [(100, 0, 0), (0, 100, 0), (0, 0, 100)] {
            let how = Impairment {
                loss: percent(loss),
                dup: percent(dup),
                corrupt: percent(corrupt),
                seed,
                ..Default::default()
            };
            let (arrived, counts) = run(&how, 100_000, MS);
            let tx = &counts.tx;
            let events = tx.impaired.get() + tx.duplicated.get() + tx.corrupted.get();
            assert!((843..=1157).contains(&events), "{how:?}: {events}");
            assert_eq!(arrived.len() as u64, 100_000 - tx.impaired.get() + tx.duplicated.get());
        }
    }
}

#[test]
fn the_same_seed_loses_the_same_frames_and_another_loses_others() {
    let how = |seed| Impairment { loss: percent(1000), jitter: MS, delay: MS, seed, ..Default::default() };
    assert_eq!(run(&how(7), 1000, MS).0, run(&how(7), 1000, MS).0);
    assert_ne!(run(&how(7), 1000, MS).0, run(&how(8), 1000, MS).0);
}

#[test]
fn a_corrupted_frame_has_one_bit_flipped() {
    let (pool, how) = (pool(), Impairment { corrupt: Percent::ALL, ..Default::default() });
    let mut link = Link::new(&how);
    let mut seen = std::collections::HashSet::new();
    for _ in 0..2000 {
        let mut frame = pool.get().unwrap();
        frame.append(20).unwrap().fill(0);
        link.enter(frame, Instant::ZERO, &mut Noted::default());
        let frame = link.leave(Instant::ZERO).unwrap();
        assert_eq!(frame.bytes().iter().map(|b| b.count_ones()).sum::<u32>(), 1);
        seen.insert(frame.bytes().to_vec());
    }
    assert_eq!(seen.len(), 160, "every bit, in time");
}

/// Checks that corruption comes last: checksums left to the port are filled in before it (as in
/// Linux's netem), and flags of verified checksums are cleared.
#[test]
fn corruption_is_applied_after_checksums() {
    use crate::offload::{complete, tests::udp4};
    use buf::Flags;
    let how = Impairment { corrupt: Percent::ALL, ..Default::default() };
    let (pool, mut link) = (pool(), Link::new(&how));
    let macs = (wire::Mac([2, 0, 0, 0, 0, 1]), wire::Mac([2, 0, 0, 0, 0, 2]));
    let bytes = udp4(macs, ([10, 0, 0, 1].into(), 7), ([10, 0, 0, 2].into(), 9), &[0x5a; 200], true);
    let frame = || {
        let mut frame = pool.get().unwrap();
        frame.extend(&bytes).unwrap();
        frame.set_flags(Flags::TX_L4_CSUM.with(Flags::TX_IP_CSUM).with(Flags::RX_IP_OK).with(Flags::RX_L4_OK));
        frame
    };
    let mut whole = frame();
    complete(&mut whole).unwrap();
    for _ in 0..1000 {
        let mut noted = Noted::default();
        link.enter(frame(), Instant::ZERO, &mut noted);
        let damaged = link.leave(Instant::ZERO).unwrap();
        let bits = damaged.bytes().iter().zip(whole.bytes()).map(|(a, b)| (a ^ b).count_ones()).sum::<u32>();
        assert_eq!((bits, damaged.flags(), noted.corrupted), (1, Flags::default(), 1));
    }
    // A frame without a recognizable checksum offset cannot be corrupted in the way a link does, so
    // it is lost.
    let mut odd = pool.get().unwrap();
    odd.append(60).unwrap().fill(0);
    odd.set_flags(Flags::TX_L4_CSUM);
    let mut noted = Noted::default();
    link.enter(odd, Instant::ZERO, &mut noted);
    assert_eq!((noted.lost, noted.corrupted, link.held()), (1, 0, 0));
}

/// Checks that no frame waits for another: the last frame of a burst leaves on time, however many
/// overtake it.
#[test]
fn reordering_never_exceeds_delay_and_jitter() {
    for (reorder, gap, delay, jitter) in [(5000, 1, 0, 0), (5000, 1, 10, 0), (9900, 3, 10, 4), (100, 1000, 5, 5)] {
        let how =
            Impairment { reorder: percent(reorder), gap, delay: delay * MS, jitter: jitter * MS, ..Default::default() };
        let (arrived, counts) = run(&how, 500, MS);
        let late = arrived.iter().map(|(i, at)| at - u64::from(*i) * 1_000_000).max().unwrap();
        assert!(late <= u64::from(delay + jitter) * 1_000_000, "{how:?}: {late} ns");
        assert_eq!((arrived.len(), counts.tx.held.get()), (500, 0));
    }
}

#[test]
fn a_delay_is_exact() {
    let (arrived, _) = run(&Impairment { delay: 10 * MS, ..Default::default() }, 100, MS);
    assert!(arrived.iter().enumerate().all(|(i, at)| *at == (i as u32, (i as u64 + 10) * 1_000_000)));
}

#[test]
fn jitter_stays_in_its_bounds_and_keeps_the_order() {
    let how = Impairment { delay: 10 * MS, jitter: 5 * MS, ..Default::default() };
    let (arrived, _) = run(&how, 5000, Duration::from_millis(20));
    let delays: Vec<u64> = arrived.iter().map(|(i, at)| at - u64::from(*i) * 20_000_000).collect();
    let mean = delays.iter().sum::<u64>() / 5000;
    assert!(delays.iter().all(|d| (5_000_000..=15_000_000).contains(d)));
    assert!((9_800_000..=10_200_000).contains(&mean), "{mean}"); // sd of the mean: 0.04 ms
    let (arrived, _) = run(&how, 5000, MS / 10);
    assert!(arrived.windows(2).all(|w| w[0].0 + 1 == w[1].0 && w[0].1 <= w[1].1));
}

#[test]
fn odd_rates_are_exact() {
    for rate in [1_000_000, 999_983, 3] {
        let how = Impairment { rate, limit: 10_000, ..Default::default() };
        let (arrived, _) = run(&how, 3000, Duration::ZERO);
        for (i, at) in arrived {
            let bits = (u128::from(i) + 1) * 800;
            assert_eq!(u128::from(at), (bits * 1_000_000_000).div_ceil(u128::from(rate)));
        }
    }
    // An idle wire accumulates no credit.
    let (arrived, _) = run(&Impairment { rate: 1_000_000, ..Default::default() }, 10, 10 * MS);
    assert!(arrived.iter().all(|(i, at)| *at == u64::from(*i) * 10_000_000 + 800_000));
}

#[test]
fn a_full_queue_is_counted() {
    let (arrived, counts) = run(&Impairment { rate: 1, limit: 5, ..Default::default() }, 20, Duration::ZERO);
    assert_eq!((arrived.len(), counts.tx.queue_full.get()), (5, 15));
    assert!(arrived.windows(2).all(|w| w[0].0 + 1 == w[1].0));
}

#[test]
fn reordered_frames_overtake_and_a_gap_spaces_them() {
    let how = Impairment { reorder: Percent::ALL, gap: 5, delay: 10 * MS, ..Default::default() };
    let (arrived, counts) = run(&how, 100, MS);
    assert_eq!(counts.tx.reordered.get(), 20);
    for (i, at) in arrived {
        let delay = if i % 5 == 4 { 0 } else { 10 };
        assert_eq!(at, (u64::from(i) + delay) * 1_000_000);
    }
    let how = Impairment { reorder: percent(2500), delay: 10 * MS, ..Default::default() };
    let (_, counts) = run(&how, 10_000, MS);
    assert!((2283..=2717).contains(&counts.tx.reordered.get()), "{}", counts.tx.reordered.get()); // 5 sd
}

#[test]
fn a_full_port_is_retried_and_frames_stay_with_the_host() {
    let pool = pool();
    let (port, mut far) = pair::pair("p", 4, Caps::PLAIN);
    let mut port = wrap(&Impairment::default(), Direction::Tx, port, &pool);
    let mut out = burst(&pool, 10, 0, 60);
    assert_eq!(port.tx.tx_burst(&mut out, Instant::ZERO), 10);
    assert_eq!((port.tx.held(), port.counts.tx.from_host()), (6, 10));
    let mut more = burst(&pool, 3, 10, 60);
    assert_eq!((port.tx.tx_burst(&mut more, Instant::ZERO), more.len()), (0, 3));
    let mut got = Burst::new();
    while let Some(event) = port.tx.next_event() {
        assert!(event > Instant::ZERO, "the next event is not due at once");
        far.rx.rx_burst(&mut got, 32, event);
        port.tx.poll(event);
    }
    far.rx.rx_burst(&mut got, 32, Instant::ZERO);
    let order: Vec<u8> = got.as_slice().iter().map(|f| f.bytes()[3]).collect();
    assert_eq!(order, (0..10).collect::<Vec<u8>>());
}

#[test]
fn received_frames_can_be_impaired() {
    let pool = pool();
    let source = pktgen::Source { count: 1000, ..Default::default() };
    let how = Impairment { loss: percent(1000), dup: percent(500), delay: 10 * MS, ..Default::default() };
    let mut port = wrap(&how, Direction::Both, pktgen::open("pg", Some(&source), &pool), &pool);
    let (mut got, mut now, mut given) = (Burst::new(), Instant::ZERO, 0);
    while !port.rx.is_gone() {
        given += port.rx.rx_burst(&mut got, 32, now) as u64;
        got.clear();
        assert_eq!(port.counts.rx.to_host(), given);
        now = port.rx.next_event().map_or(now, |event| event.max(now)).after(MS);
    }
    let rx = &port.counts.rx;
    assert_eq!((rx.frames.get(), rx.held.get(), port.rx.held()), (1000, 0, 0));
    assert!((60..140).contains(&rx.impaired.get()) && (20..80).contains(&rx.duplicated.get()), "{rx:?}");
    assert_eq!(pool.stats().live(), 0);
}

#[test]
fn only_the_selected_direction_is_impaired() {
    let pool = pool();
    let all = Impairment { loss: Percent::ALL, ..Default::default() };
    let mut port = wrap(&all, Direction::Rx, null::open("", Caps::PLAIN), &pool);
    assert_eq!(port.tx.tx_burst(&mut burst(&pool, 5, 0, 60), Instant::ZERO), 5);
    assert_eq!((port.counts.tx.frames.get(), port.counts.tx.impaired.get()), (5, 0));
    let mut port = wrap(&all, Direction::Tx, null::open("", Caps::PLAIN), &pool);
    port.tx.tx_burst(&mut burst(&pool, 5, 0, 60), Instant::ZERO);
    assert_eq!((port.counts.tx.frames.get(), port.counts.tx.impaired.get(), port.counts.tx.from_host()), (0, 5, 5));
}

#[test]
fn a_large_segment_is_impaired_frame_by_frame() {
    use crate::offload::gso::tests::{Sent, large};
    let (pool, big) = (pool(), Pool::new(&PoolConfig { buffers: 40, data: 65_600, ..PoolConfig::default() }).unwrap());
    let sent = Sent { seq: 5, id: 0, df: true, flags: 0x18, urgent: 0, options: vec![], tags: 0, six: false };
    let caps = Caps { tso_max: 65_535, lro: true, ..Caps::PLAIN };
    let how = Impairment { loss: percent(5000), ..Default::default() };
    for direction in [Direction::Tx, Direction::Rx] {
        let (port, mut far) = pair::pair("p", 4096, caps);
        let mut port = wrap(&how, direction, port, &pool);
        let mut burst = Burst::new();
        (0..20).for_each(|_| burst.push(large(&sent, &[1; 50_000], 1000, &big)).unwrap());
        let (tx, rx) = if direction == Direction::Tx { (&mut port, &mut far) } else { (&mut far, &mut port) };
        assert_eq!(tx.tx.tx_burst(&mut burst, Instant::ZERO), 20);
        let mut arrived = 0;
        for _ in 0..100 {
            arrived += rx.rx.rx_burst(&mut Burst::new(), 256, Instant::ZERO);
        }
        assert!((400..600).contains(&arrived), "{arrived} of 1000");
        let counts = &port.counts;
        let (from, to) = (counts.tx.from_host(), counts.rx.to_host());
        assert_eq!((from, to), if direction == Direction::Tx { (20, 0) } else { (0, arrived as u64) });
    }
    assert_eq!((pool.stats().live(), big.stats().live()), (0, 0));
}

/// Length of the TCP payload of the largest IPv4 packet.
const LARGEST_TEXT: usize = 65_535 - 40;

/// Sends six segments of 64 KiB, split into pieces of 1000 bytes, through an impaired port. Returns
/// the arrivals as (segment, piece, nanoseconds), and the counters `segmented`, `segments`,
/// `duplicated`, `reordered` and `held`. Checks that each frame that arrives equals the one that a
/// sender of small segments would send.
fn large_through(how: &Impairment, direction: Direction) -> (Vec<(u32, usize, u64)>, [u64; 5]) {
    use crate::offload::gso::tests::{Sent, large, packet};
    let (pool, big) = (pool(), Pool::new(&PoolConfig { buffers: 8, data: 65_600, ..PoolConfig::default() }).unwrap());
    let text: Vec<u8> = (0..LARGEST_TEXT).map(|at| at as u8).collect();
    let sent = |n: u32| Sent {
        seq: n * 100_000,
        id: 7,
        df: false,
        flags: 0x18,
        urgent: 0,
        options: vec![],
        tags: 0,
        six: false,
    };
    let caps = Caps { tso_max: 65_535, lro: true, ..Caps::PLAIN };
    let (port, mut far) = pair::pair("p", 4096, caps);
    let mut port = wrap(how, direction, port, &pool);
    let mut burst = Burst::new();
    (0..6).for_each(|n| burst.push(large(&sent(n), &text, 1000, &big)).unwrap());
    let (from, to) = if direction == Direction::Tx { (&mut port, &mut far) } else { (&mut far, &mut port) };
    assert_eq!(from.tx.tx_burst(&mut burst, Instant::ZERO), 6);
    let (mut arrived, mut got, mut now) = (Vec::new(), Burst::new(), Instant::ZERO);
    loop {
        from.tx.poll(now);
        while to.rx.rx_burst(&mut got, 256, now) > 0 {
            for frame in got.drain() {
                assert!(!frame.flags().any(buf::Flags::TX_WORK) && frame.gso_size().is_none());
                let seq = u32::from_be_bytes(*frame.bytes()[38..].first_chunk().unwrap());
                let (n, at) = (seq / 100_000, (seq % 100_000) as usize);
                let piece = &text[at..text.len().min(at + 1000)];
                assert_eq!(frame.bytes(), packet(&sent(n), at, piece, text.len(), (at / 1000) as u16, false));
                arrived.push((n, at / 1000, now.nanos()));
            }
        }
        let Some(event) = earlier(from.tx.next_event(), to.rx.next_event()) else { break };
        now = event.max(now);
    }
    let (tx, rx) = (&port.counts.tx, &port.counts.rx);
    let counts = match direction {
        Direction::Tx => [&tx.segmented, &tx.segments, &tx.duplicated, &tx.reordered].map(|of| of.get()),
        _ => [&rx.segmented, &rx.segments, &rx.duplicated, &rx.reordered].map(|of| of.get()),
    };
    let held = if direction == Direction::Tx { tx.held.get() } else { rx.held.get() };
    let [segmented, segments, duplicated, reordered] = counts;
    drop((port, far, got, burst));
    assert_eq!((pool.stats().live(), big.stats().live()), (0, 0));
    (arrived, [segmented, segments, duplicated, reordered, held])
}

const PIECES: usize = LARGEST_TEXT.div_ceil(1000);

/// Checks that a duplicate is a frame of the link and follows its original: a large segment is not
/// duplicated as a whole.
#[test]
fn a_large_segment_is_duplicated_frame_by_frame() {
    for direction in [Direction::Tx, Direction::Rx] {
        let all = Impairment { dup: Percent::ALL, limit: 10_000, ..Default::default() };
        let (arrived, counts) = large_through(&all, direction);
        let each = (0..6).flat_map(|n| (0..PIECES).flat_map(move |piece| [(n, piece, 0); 2]));
        assert_eq!(arrived, each.collect::<Vec<_>>());
        let half = Impairment { dup: percent(5000), limit: 10_000, ..Default::default() };
        assert_eq!(counts, [6, 6 * 66, 6 * 66, 0, 0]);
        let (some, [_, _, duplicated, ..]) = large_through(&half, direction);
        assert_eq!(some.len() as u64, 6 * 66 + duplicated);
        // 396 frames at 50 %: mean 198, standard deviation 9.9; the bounds are five of those.
        assert!((148..=248).contains(&duplicated), "{duplicated}");
        let twice = |n: u32| some.iter().filter(|of| of.0 == n).count() - PIECES;
        assert!((0..6).all(|n| (1..PIECES).contains(&twice(n))), "some frames of each segment");
    }
}

/// Checks that every fifth frame of the link overtakes the delayed ones, within a large segment and
/// across its end.
#[test]
fn a_large_segment_is_reordered_frame_by_frame() {
    let how = Impairment { reorder: Percent::ALL, gap: 5, delay: 10 * MS, limit: 10_000, ..Default::default() };
    for direction in [Direction::Tx, Direction::Rx] {
        let (arrived, counts) = large_through(&how, direction);
        let all = (0..6).flat_map(|n| (0..PIECES).map(move |piece| (n, piece)));
        let (mut first, mut later) = (Vec::new(), Vec::new());
        for (at, (n, piece)) in all.enumerate() {
            if at % 5 == 4 { first.push((n, piece, 0)) } else { later.push((n, piece, 10_000_000)) }
        }
        assert_eq!(arrived, [first, later].concat());
        assert_eq!(counts, [6, 6 * 66, 0, 6 * 66 / 5, 0]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn counters_always_balance(
        loss in 0..10_000u32, dup in 0..10_000u32, corrupt in 0..10_000u32, reorder in 0..10_000u32, gap in 1..5u64,
        delay_us in 0..3000u64, jitter_us in 0..3000u64, rate in 0..10_000_000u64, limit in 1..100usize, seed: u64,
    ) {
        let how = Impairment {
            loss: percent(loss), dup: percent(dup), corrupt: percent(corrupt), reorder: percent(reorder), gap,
            delay: Duration::from_micros(delay_us), jitter: Duration::from_micros(jitter_us),
            rate, limit, seed,
        };
        run(&how, 300, Duration::from_micros(100)); // balances at every step
    }
}
