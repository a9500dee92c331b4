mod model;

use super::*;
use crate::spec::Value;
use crate::{Port, RxHalf, TxHalf};
use buf::{Burst, Flags, Frame};
use clock::{Duration, Instant};
use proptest::prelude::*;

const ZERO: Instant = Instant::ZERO;

/// Returns the settings in a port's name, with register accesses that cost nothing.
pub fn settings(text: &str) -> Settings {
    let settings = Settings::default();
    let spec = crate::Spec::parse(&format!("nic(reg_read_ns=0,reg_write_ns=0{text}):x")).unwrap();
    spec.port.options().for_each(|(option, value)| settings.preset(option, value));
    settings
}

fn pool(buffers: usize) -> Pool {
    Pool::new(&PoolConfig { buffers, ..PoolConfig::default() }).unwrap()
}

/// Returns a nic in parts, and the other end of its wire.
fn parts(text: &str, pool: &Pool) -> (Parts, End) {
    let (near, far) = wire(WIRE_SLOTS);
    (assemble("em0", settings(text), 1500, Some(near), pool).unwrap(), far)
}

/// Returns `n` frames of `len` bytes, numbered from `first`. If bit 23 of the number is set, the
/// destination is a group address.
fn frames(pool: &Pool, first: u32, n: usize, len: usize) -> Burst {
    let mut burst = Burst::new();
    assert_eq!(pool.get_burst(n, &mut burst), n);
    for (i, frame) in (first..).zip(burst.as_mut_slice()) {
        frame.append(len).unwrap().fill(0);
        frame.bytes_mut()[..4].copy_from_slice(&(i << 1 & 0x0fff_fffe).to_be_bytes());
        frame.bytes_mut()[4..8].copy_from_slice(&i.to_be_bytes());
    }
    burst
}

fn number(frame: &Frame) -> u32 {
    u32::from_be_bytes(*frame.bytes()[4..].first_chunk().unwrap())
}

fn numbers(burst: &mut Burst) -> Vec<u32> {
    burst.drain().map(|frame| number(&frame)).collect()
}

fn at(ns: u64) -> Instant {
    Instant::from_nanos(ns)
}

#[test]
fn a_frame_passes_from_the_tx_ring_to_the_rx_ring() {
    let pool = pool(2048);
    let (a, b) = wire(64);
    let mut a = open("a", settings(""), 1500, Some(a), &pool).unwrap();
    let mut b = open("b", settings(""), 1500, Some(b), &pool).unwrap();
    let mut got = Burst::new();
    assert_eq!(b.rx.rx_burst(&mut got, 32, ZERO), 0, "buffers are posted");
    let mut burst = frames(&pool, 7, 3, 60);
    assert_eq!((a.tx.tx_burst(&mut burst, ZERO), burst.len()), (3, 0));
    assert_eq!(b.rx.held(), 3);
    assert_eq!(b.rx.rx_burst(&mut got, 32, ZERO), 3);
    assert!(got.as_slice().iter().all(|frame| frame.len() == 60 && frame.flags() == Flags::default()));
    assert_eq!(numbers(&mut got), [7, 8, 9]);
    let (a_nic, b_nic) = (a.nic.clone().unwrap(), b.nic.clone().unwrap());
    assert_eq!((a_nic.counts.tx_doorbells.get(), a_nic.counts.tx_writebacks.get()), (3, 3));
    assert_eq!(b_nic.counts.rx_doorbells.get(), 255 + 3, "one doorbell for each buffer");
    assert!(a_nic.show().contains("tx doorbells                1.0000 per frame\n"), "{}", a_nic.show());
    drop(a);
    assert!(b.rx.is_gone());
    assert_eq!(b.tx.tx_burst(&mut frames(&pool, 0, 2, 60), ZERO), 2);
    assert!(!b_nic.is_up());
    assert_eq!(b_nic.counts.unplugged.get(), 2);
    drop((b, a_nic, b_nic));
    assert_eq!(pool.stats().live(), 0);
}

#[test]
fn early_parsing_reads_the_frame_in_the_driver() {
    let pool = pool(2048);
    for (parse, flags) in [("early", Flags::LINK_BROADCAST), ("late", Flags::default())] {
        let (mut nic, mut far) = parts(&format!(",parse={parse}"), &pool);
        let mut got = Burst::new();
        nic.rx.rx_burst(&mut got, 32, ZERO);
        let mut burst = frames(&pool, 0, 1, 60);
        burst.as_mut_slice()[0].bytes_mut()[0] = 1;
        far.send(&mut burst, ZERO);
        nic.card.step(ZERO);
        assert_eq!(nic.rx.rx_burst(&mut got, 32, ZERO), 1);
        assert_eq!(got.as_slice()[0].flags(), flags);
    }
}

/// Sends `n` frames in each direction, in bursts of 32. Returns the nic with its counters.
fn run(text: &str, n: u32) -> Arc<Nic> {
    let pool = pool(16384);
    let (mut nic, mut far) = parts(text, &pool);
    let mut got = Burst::new();
    nic.rx.rx_burst(&mut got, 32, ZERO);
    let posted = nic.nic.counts.rx_doorbells.get();
    let mut back = Vec::new();
    for first in (0..n).step_by(32) {
        assert_eq!(far.send(&mut frames(&pool, first, 32, 60), ZERO), 32);
        nic.card.step(ZERO);
        assert_eq!(nic.rx.rx_burst(&mut got, 32, ZERO), 32);
        assert_eq!(nic.tx.tx_burst(&mut got, ZERO), 32);
        nic.card.step(ZERO);
        let mut sent = Burst::new();
        far.take(&mut sent, 256, ZERO);
        back.extend(numbers(&mut sent));
    }
    nic.tx.poll(ZERO);
    nic.card.step(ZERO);
    let mut sent = Burst::new();
    far.take(&mut sent, 256, ZERO);
    back.extend(numbers(&mut sent));
    assert_eq!(back, (0..n).collect::<Vec<_>>());
    let shared = nic.nic.clone();
    let rx = shared.counts.rx_doorbells.get() - posted;
    shared.counts.rx_doorbells.sub(posted); // only the cost of frames is counted
    assert_eq!(rx, shared.counts.rx_doorbells.get());
    drop((nic, far, got, sent));
    assert_eq!(pool.stats().live(), 0);
    shared
}

#[test]
fn doorbells_and_write_backs_match_the_sysctls() {
    let n = 6400u64;
    let plain = run("", n as u32);
    let c = &plain.counts;
    assert_eq!((c.rx_doorbells.get(), c.tx_doorbells.get(), c.tx_writebacks.get()), (n, n, n));
    assert_eq!((c.register_reads.get(), c.rx_writebacks.get(), c.tx_fetches.get()), (0, n / 4, n / 4));
    let tuned =
        run(",rx_tail_batch=64,tx_tail_batch=64,tx_flush=poll,tx_rs_every=32,rx_ring=2048,tx_ring=2048", n as u32);
    let c = &tuned.counts;
    assert_eq!((c.rx_doorbells.get(), c.tx_doorbells.get(), c.tx_writebacks.get()), (n / 64, n / 64, n / 32));
    assert_eq!((c.cleaned.get() / c.cleanings.get(), c.register_reads.get()), (64, 0));
    let ahead = run(",fetch=32", n as u32);
    let fetches = |nic: &Nic| (nic.counts.rx_fetches.get(), nic.counts.tx_fetches.get());
    // A ring of 256 has 255 posted descriptors, so one fetch near its end finds only three left.
    assert_eq!((fetches(&plain), fetches(&ahead)), ((n / 4 + 1, n / 4), (n / 32 + 1, n / 32)));
    // 8 clocks per fetch, and 2 for each descriptor of 16 bytes: 16 clocks for four descriptors, 72
    // for 32.
    let saved = plain.counts.tx_bus_clocks.get() - ahead.counts.tx_bus_clocks.get();
    assert_eq!(saved, n / 4 * 16 - n / 32 * 72);
    let flushed = run(",tx_tail_batch=64", n as u32);
    assert_eq!(flushed.counts.tx_doorbells.get(), n / 32, "one per burst, although the batch is 64");
    // The bus of the report bridge2004, 64 bits at 100 MHz, for both directions of one frame.
    let limit = |nic: &Nic| nic.counts.bus_limit(nic.bus_model().unwrap()).unwrap() / 2.0;
    assert!((1.6e6..2.2e6).contains(&limit(&plain)), "{}", limit(&plain));
    assert!(limit(&tuned) > 1.2 * limit(&plain), "{} {}", limit(&plain), limit(&tuned));
    let report = tuned.counts.report();
    assert_eq!((report[0].name, report[0].per_frame), ("rx doorbells", 1.0 / 64.0));
}

#[test]
fn a_batch_is_never_larger_than_a_quarter_of_the_ring() {
    let nic = run(",rx_tail_batch=1024,tx_tail_batch=1024,tx_rs_every=1024,tx_flush=poll,rx_ring=64,tx_ring=64", 640);
    assert_eq!((nic.counts.rx_doorbells.get(), nic.counts.tx_doorbells.get()), (40, 40));
    assert_eq!(nic.counts.tx_writebacks.get(), 40);
}

#[test]
fn wire_speeds_are_exact() {
    for (speed, ps) in [("1g", 672_000u64), ("10g", 67_200), ("25g", 26_880), ("100g", 6_720)] {
        let pool = pool(4096);
        let (mut nic, mut far) = parts(&format!(",speed={speed},tx_ring=1024"), &pool);
        let bits = nic.counts.link.speed().expect("a wire with a speed"); // a frame of 60 bytes takes 672 bits
        assert_eq!(672 * 1_000_000_000_000 / bits, ps);
        assert_eq!(nic.tx.tx_burst(&mut frames(&pool, 0, 250, 60), ZERO), 250);
        nic.card.step(ZERO);
        let (mut taken, mut got) = (0, Burst::new());
        for frame in 1..=180u64 {
            let due = (frame * ps).div_ceil(1000);
            far.take(&mut got, 256, at(due - 1));
            assert_eq!(got.len() as u64, frame - 1, "{speed}: frame {frame} before {due} ns");
            taken = far.take(&mut got, 256, at(due));
            assert_eq!(got.len() as u64, frame, "{speed}: frame {frame} at {due} ns");
        }
        assert_eq!(taken, 1);
        // The FIFO holds 16 KiB. The remaining frames wait in the ring, and the wire is never idle.
        assert!(nic.tx.pending() > 0);
        let next = nic.card.tx.next_event().unwrap();
        assert!(nic.card.step(at(next.nanos() - 1)) == 0 && nic.card.step(next) == 1, "{speed}");
        nic.card.step(at(180 * ps / 1000));
        got.clear();
        assert_eq!(far.take(&mut got, 256, at((250 * ps).div_ceil(1000))), 70, "{speed}");
    }
    assert_eq!((wire::bits(60), wire::bits(14), wire::bits(1514)), (672, 672, 12_304));
}

/// Returns the number of frames of a full 1 Gb/s that are missed if the driver does not run for a
/// millisecond.
fn missed_in_a_stall(ring: &str) -> (u64, u64) {
    let pool = pool(16384);
    let (mut nic, mut far) = parts(&format!(",rx_ring={ring},speed=1g"), &pool);
    far.tx.set_pace(Some(1_000_000_000));
    let mut got = Burst::new();
    nic.rx.rx_burst(&mut got, 1, ZERO);
    let (mut sent, mut received, mut now) = (0u32, 0, 0);
    let mut ahead = frames(&pool, 0, 32, 60);
    for _ in 0..2000 {
        now += 5_000;
        while far.send(&mut ahead, at(now)) > 0 {
            sent += 32 - ahead.len() as u32;
            ahead = frames(&pool, sent, 32, 60);
        }
        nic.card.step(at(now));
        if !(3_000_000..4_000_000).contains(&now) {
            while nic.rx.rx_burst(&mut got, 64, at(now)) > 0 {
                received += got.drain().count() as u64;
            }
        }
    }
    nic.card.rx.step(at(now));
    let counts = &nic.nic.counts;
    assert_eq!(counts.rx_stored.get() + counts.missed.get() + far.tx_held(&nic), u64::from(sent));
    (counts.missed.get(), received)
}

trait Held {
    fn tx_held(&self, nic: &Parts) -> u64;
}

impl Held for End {
    fn tx_held(&self, nic: &Parts) -> u64 {
        nic.card.rx.held() as u64
    }
}

#[test]
fn a_large_ring_absorbs_a_processor_pause_and_a_small_one_does_not() {
    let (small, _) = missed_in_a_stall("256");
    assert!((1200..1260).contains(&small), "{small} of 1488 in a millisecond");
    assert!(missed_in_a_stall("1024").0 > 0);
    assert_eq!(missed_in_a_stall("2048").0, 0);
}

#[test]
fn an_empty_pool_causes_missed_frames_and_no_leaks() {
    let pool = pool(100);
    let far_pool = self::pool(4096);
    let (mut nic, mut far) = parts(",pause=off,rx_tail_batch=64", &pool);
    let mut got = Burst::new();
    nic.rx.rx_burst(&mut got, 32, ZERO);
    assert_eq!((pool.stats().live(), nic.nic.counts.no_buffer.get()), (100, 1));
    far.send(&mut frames(&far_pool, 0, 150, 60), ZERO);
    nic.card.step(ZERO);
    assert_eq!((nic.nic.counts.rx_stored.get(), nic.nic.counts.missed.get()), (100, 50));
    assert_eq!(nic.rx.rx_burst(&mut got, 256, ZERO), 100);
    assert_eq!(numbers(&mut got), (0..100).collect::<Vec<_>>());
    assert_eq!(nic.rx.rx_burst(&mut got, 256, ZERO), 0, "the driver posts the buffers again");
    far.send(&mut frames(&far_pool, 150, 10, 60), ZERO);
    nic.card.step(ZERO);
    assert_eq!(nic.rx.rx_burst(&mut got, 256, ZERO), 10);
    let interrupt = nic.nic.check_status();
    assert!(interrupt.cause & regs::RXO != 0 && interrupt.link_up);
    drop((nic, far, got));
    assert_eq!((pool.stats().live(), far_pool.stats().live()), (0, 0));
}

#[test]
fn frames_wait_on_a_wire_of_unlimited_speed() {
    let pool = pool(4096);
    let (mut nic, mut far) = parts(",rx_ring=64", &pool);
    let mut got = Burst::new();
    nic.rx.rx_burst(&mut got, 256, ZERO);
    far.send(&mut frames(&pool, 0, 200, 60), ZERO);
    for _ in 0..4 {
        nic.card.step(ZERO);
        nic.rx.rx_burst(&mut got, 256, ZERO);
    }
    assert_eq!((numbers(&mut got).len(), nic.nic.missed()), (200, 0));
}

#[test]
fn an_unread_wire_drops_excess_frames() {
    let pool = pool(512);
    let (near, mut far) = wire(8);
    let mut nic = assemble("em0", settings(",pause=off"), 1500, Some(near), &pool).unwrap();
    nic.rx.rx_burst(&mut Burst::new(), 32, ZERO);
    assert_eq!(far.send(&mut frames(&pool, 0, 20, 60), ZERO), 20);
    nic.card.step(ZERO);
    assert_eq!((nic.nic.missed(), nic.nic.counts.rx_stored.get()), (12, 8));
}

#[test]
fn without_a_wire_frames_are_dropped_and_counted() {
    let pool = pool(512);
    let mut port = open("em0", settings(""), 1500, None, &pool).unwrap();
    assert_eq!(port.tx.tx_burst(&mut frames(&pool, 0, 9, 60), ZERO), 9);
    assert_eq!(port.rx.rx_burst(&mut Burst::new(), 9, ZERO), 0);
    let nic = port.nic.clone().unwrap();
    assert_eq!((nic.counts.unplugged.get(), port.counts.tx.errors.get(), nic.is_up()), (9, 9, false));
    assert!(port.rx.is_silent() && nic.show().starts_with("em0: link down"));
    drop((port, nic));
    assert_eq!(pool.stats().live(), 0);
}

#[test]
fn interrupts_are_moderated() {
    let pool = pool(4096);
    let (mut nic, mut far) = parts(",intr=on,itr_us=100,tx_rs_every=1", &pool);
    let mut got = Burst::new();
    nic.rx.rx_burst(&mut got, 32, ZERO);
    assert!(!crate::os::is_readable(nic.rx.wait_fd().unwrap()));
    for us in 0..1000u32 {
        let now = Instant::from_micros(u64::from(us));
        far.send(&mut frames(&pool, us, 1, 60), now);
        nic.card.step(now);
        if crate::os::is_readable(nic.rx.wait_fd().unwrap()) {
            while nic.rx.rx_burst(&mut got, 32, now) > 0 {}
        } else {
            assert_eq!(nic.rx.rx_burst(&mut got, 32, now), 0, "nothing was announced");
            assert_eq!(nic.rx.next_event(), Some(Instant::from_micros(u64::from(us).div_ceil(100) * 100)));
        }
    }
    let reads = nic.nic.counts.register_reads.get();
    assert_eq!((nic.nic.interrupts(), reads), (10, 10), "{}", numbers(&mut got).len());
}

#[test]
fn an_arriving_frame_wakes_a_sleeping_loop() {
    let pool = pool(4096);
    let (a, b) = wire(64);
    let mut a = open("a", settings(",intr=on"), 1500, Some(a), &pool).unwrap();
    let mut b = open("b", settings(",intr=on"), 1500, Some(b), &pool).unwrap();
    let mut got = Burst::new();
    while b.rx.rx_burst(&mut got, 32, ZERO) > 0 {}
    assert!(!crate::os::is_readable(b.rx.wait_fd().unwrap()));
    a.tx.tx_burst(&mut frames(&pool, 0, 2, 60), ZERO);
    assert!(crate::os::is_readable(b.rx.wait_fd().unwrap()), "although its card was not stepped");
    assert_eq!(b.rx.rx_burst(&mut got, 32, ZERO), 2);
    assert!(!crate::os::is_readable(b.rx.wait_fd().unwrap()));
}

#[test]
fn bus_pace_limits_the_card_to_the_bus_speed() {
    let pool = pool(4096);
    let (mut nic, mut far) = parts(",bus=pcix100,bus_pace=on,rx_ring=2048,rx_tail_batch=64", &pool);
    let mut got = Burst::new();
    nic.rx.rx_burst(&mut got, 1, ZERO);
    far.send(&mut frames(&pool, 0, 250, 60), ZERO);
    let mut now = 0;
    while nic.nic.counts.rx_stored.get() < 200 {
        now += 1000;
        nic.card.rx.step(at(now));
    }
    // 12 clocks of payload, 4 of a fetch and 3 of a write-back: 190 ns for each frame.
    assert!((36_000..45_000).contains(&now), "{now} ns for 200 frames");
}

#[test]
fn checksums_are_filled_in_and_verified_on_the_card() {
    use crate::offload::tests::udp4;
    let (src, dst) = ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap());
    let macs = (wire_mac(1), wire_mac(2));
    let pool = pool(2048);
    for dma in ["copy", "move", "cold"] {
        let (a, b) = wire(64);
        let text = format!(",csum=on,dma={dma}");
        let mut a = open("a", settings(&text), 1500, Some(a), &pool).unwrap();
        let mut b = open("b", settings(&text), 1500, Some(b), &pool).unwrap();
        assert!(a.caps.tx_l4_csum && a.caps.rx_csum && a.caps.tso_max == 0);
        let mut got = Burst::new();
        b.rx.rx_burst(&mut got, 1, ZERO);
        let mut frame = pool.get().unwrap();
        frame.extend(&udp4(macs, (src, 5), (dst, 6), b"hello", true)).unwrap();
        frame.bytes_mut()[24..26].fill(0);
        frame.set_flags(Flags::TX_L4_CSUM.with(Flags::TX_IP_CSUM));
        assert!(a.tx.tx_one(frame, ZERO).is_ok());
        let mut wrong = pool.get().unwrap();
        wrong.extend(&udp4(macs, (src, 5), (dst, 6), b"hello", true)).unwrap();
        a.tx.tx_burst(&mut Burst::of(wrong), ZERO);
        let mut short = pool.get().unwrap();
        short.extend(&[0; 40]).unwrap();
        short.set_flags(Flags::TX_L4_CSUM);
        a.tx.tx_burst(&mut Burst::of(short), ZERO);
        assert_eq!(b.rx.rx_burst(&mut got, 9, ZERO), 2);
        assert_eq!(got.as_slice()[0].bytes(), udp4(macs, (src, 5), (dst, 6), b"hello", false));
        assert_eq!(got.as_slice()[0].flags(), Flags::RX_IP_OK.with(Flags::RX_L4_OK), "{dma}");
        assert_eq!(got.as_slice()[1].flags(), Flags::RX_IP_OK, "the UDP checksum was left open");
        assert_eq!(a.nic.as_ref().unwrap().counts.tx_malformed.get(), 1);
    }
    assert_eq!(pool.stats().live(), 0);
}

fn wire_mac(last: u8) -> ::wire::Mac {
    ::wire::Mac([2, 0, 0, 0, 0, last])
}

#[test]
fn a_large_segment_is_split_on_the_card() {
    use crate::offload::gso::tests::{Sent, packet};
    let sent = Sent { seq: 9, id: 3, df: true, flags: 0x18, urgent: 0, options: Vec::new(), tags: 0, six: false };
    let text: Vec<u8> = (0..5000u32).map(|i| i as u8).collect();
    for dma in ["copy", "move"] {
        let pool = Pool::new(&PoolConfig { buffers: 600, data: 8192, ..PoolConfig::default() }).unwrap();
        let (a, mut far) = wire(64);
        let mut a = open("a", settings(&format!(",tso=on,dma={dma}")), 1500, Some(a), &pool).unwrap();
        assert_eq!((a.caps.tso_max, a.caps.tx_l4_csum), (65_535, true));
        let mut frame = pool.get().unwrap();
        frame.extend(&packet(&sent, 0, &text, text.len(), 0, true)).unwrap();
        frame.set_flags(Flags::TX_L4_CSUM);
        frame.set_gso_size(1400);
        assert!(a.tx.tx_one(frame, ZERO).is_ok());
        let mut got = Burst::new();
        assert_eq!(far.take(&mut got, 9, ZERO), 4);
        for (n, piece) in got.as_slice().iter().enumerate() {
            let part = text.chunks(1400).nth(n).unwrap();
            assert_eq!(piece.bytes(), packet(&sent, n * 1400, part, text.len(), n as u16, false), "{n}");
        }
        let mut wrong = pool.get().unwrap();
        wrong.extend(&packet(&sent, 0, &text, text.len(), 0, true)).unwrap();
        wrong.set_gso_size(4000);
        assert!(a.tx.tx_one(wrong, ZERO).is_ok());
        let nic = a.nic.clone().unwrap();
        assert_eq!((nic.counts.tx_malformed.get(), nic.counts.tx_segments.get()), (1, 4), "the ring continues");
        a.tx.poll(ZERO);
        drop((a, nic));
        got.clear();
        assert_eq!(pool.stats().live(), 0);
    }
}

#[test]
fn the_card_inserts_and_strips_vlan_tags() {
    let pool = pool(2048);
    for dma in ["copy", "move"] {
        let (mut nic, mut far) = parts(&format!(",vlan=100,dma={dma}"), &pool);
        let mut got = Burst::new();
        nic.rx.rx_burst(&mut got, 1, ZERO);
        nic.tx.tx_burst(&mut frames(&pool, 5, 1, 60), ZERO);
        nic.card.step(ZERO);
        far.take(&mut got, 9, ZERO);
        assert_eq!(got.as_slice()[0].bytes()[12..16], [0x81, 0, 0, 100]);
        assert_eq!(got.as_slice()[0].len(), 64);
        let mut other = frames(&pool, 6, 1, 60);
        far.send(&mut other, ZERO);
        far.send(&mut got, ZERO);
        nic.card.step(ZERO);
        assert_eq!((nic.rx.rx_burst(&mut got, 9, ZERO), nic.nic.counts.refused.get()), (1, 1));
        assert_eq!(got.as_slice()[0].bytes(), frames(&pool, 5, 1, 60).as_slice()[0].bytes());
    }
}

#[test]
fn frames_that_do_not_fit_are_rejected() {
    let (small, large) = (
        Pool::new(&PoolConfig { buffers: 300, data: 1518, ..PoolConfig::default() }).unwrap(),
        Pool::new(&PoolConfig { buffers: 30, data: 4000, ..PoolConfig::default() }).unwrap(),
    );
    let (near, mut far) = wire(8);
    let mut nic = assemble("em0", settings(""), 1500, Some(near), &small).unwrap();
    let mut got = Burst::new();
    nic.rx.rx_burst(&mut got, 1, ZERO);
    far.send(&mut frames(&large, 0, 1, 1519), ZERO);
    far.send(&mut frames(&large, 1, 1, 1518), ZERO);
    nic.card.step(ZERO);
    assert_eq!((nic.rx.rx_burst(&mut got, 9, ZERO), nic.nic.counts.refused.get()), (1, 1));
    let error = assemble("em0", settings(""), 1501, None, &small).unwrap_err();
    assert_eq!(
        error.to_string(),
        "frames of up to 1519 bytes do not fit in the pool's buffers of 1518 bytes: raise pool.data"
    );
}

#[test]
fn sysctls_are_set_at_run_time_or_rejected_with_a_reason() {
    let settings = Settings::default();
    settings.set("nic.rx_tail_batch", "64").unwrap();
    settings.set("nic.refill", "stack").unwrap();
    assert_eq!((settings.rx_tail_batch.get(), settings.get("nic.refill").unwrap().as_str()), (64, "stack"));
    for (name, value, says) in [
        ("nic.rx_tail_batch", "0", "nic.rx_tail_batch='0': expected a count from 1 to 1024"),
        ("nic.refill", "heap", "nic.refill='heap': expected one of pool, stack, touch"),
        ("nic.rx_ring", "512", "nic.rx_ring can be set only when the port is opened: nic(rx_ring=...):NAME"),
    ] {
        assert_eq!(settings.set(name, value).unwrap_err().to_string(), says);
    }
    assert!(
        settings.set("rx_ring", "1").unwrap_err().to_string().starts_with("unknown sysctl 'rx_ring'; nic settings")
    );
    for (info, value) in settings.list() {
        assert!(info.option.form.parse(&value).is_some(), "{}={value}", info.option.name);
        assert_eq!(settings.get(&format!("nic.{}", info.option.name)).unwrap(), value);
    }
    assert_eq!(Settings::default().get("nic.reg_read_ns").unwrap(), "875");
    assert_eq!(
        crate::Spec::parse("nic(rx_ring=100):em0").unwrap_err().to_string(),
        "at byte 12: nic rx_ring='100': expected one of 64, 128, 256, 512, 1024, 2048, 4096"
    );
    settings.preset("wire", &Value::Text("no setting".into()));
}

#[test]
fn register_accesses_have_the_configured_duration() {
    let pool = pool(2048);
    let (mut nic, _far) = parts("", &pool);
    nic.nic.settings.set("nic.reg_write_ns", "20000").unwrap();
    let from = std::time::Instant::now();
    nic.tx.tx_burst(&mut frames(&pool, 0, 10, 60), ZERO);
    assert!(from.elapsed() >= Duration::from_micros(195), "ten doorbells");
}

#[test]
fn a_card_on_its_own_thread_keeps_order_and_loses_nothing() {
    use std::sync::atomic::{AtomicBool, Ordering};
    const N: u32 = 40_000;
    let pool = pool(8192);
    let far_pool = self::pool(1024);
    let text = ",rx_tail_batch=16,tx_tail_batch=16,tx_rs_every=8,refill=stack,prefetch=4";
    let (nic, mut far) = parts(text, &pool);
    let Parts { mut rx, mut tx, mut card, nic, .. } = nic;
    let stop = AtomicBool::new(false);
    let mut got = Burst::new();
    rx.rx_burst(&mut got, 1, ZERO);
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let (mut sent, mut back, mut burst) = (0, Vec::new(), Burst::new());
            while !stop.load(Ordering::Relaxed) {
                if sent < N && burst.is_empty() {
                    far_pool.get_burst(32, &mut burst);
                    for frame in burst.as_mut_slice() {
                        frame.append(60).unwrap()[4..8].copy_from_slice(&sent.to_be_bytes());
                        sent += 1;
                    }
                }
                far.send(&mut burst, ZERO);
                if card.step(ZERO) == 0 {
                    std::thread::yield_now();
                }
                let mut taken = Burst::new();
                far.take(&mut taken, 256, ZERO);
                back.extend(numbers(&mut taken));
            }
            drop((card, far));
            back
        });
        let mut received = 0;
        while received < N || !got.is_empty() || tx.pending() > 0 {
            received += rx.rx_burst(&mut got, 32, ZERO) as u32;
            if tx.tx_burst(&mut got, ZERO) == 0 {
                std::thread::yield_now();
            }
            tx.poll(ZERO);
        }
        std::thread::sleep(Duration::from_millis(20));
        stop.store(true, Ordering::Relaxed);
        let back = worker.join().unwrap();
        // The last burst may exceed N, because an earlier burst found fewer buffers than requested.
        assert!((N..N + 32).contains(&(back.len() as u32)), "{}", back.len());
        assert!(back.iter().zip(0..).all(|(got, want)| *got == want));
    });
    drop((rx, tx, got, nic));
    assert_eq!(pool.stats().live(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn frames_are_conserved_and_keep_their_order(
        sizes in (0usize..4, 0usize..4), batches in (1u64..100, 1u64..100, 1u64..100), words in (0u64..3, 0u64..2, 0u64..3, 0u64..2),
        prefetch in 0u64..33, pause in any::<bool>(), buffers in prop::sample::select(vec![40usize, 300, 3000]),
        steps in prop::collection::vec((0u8..6, 1usize..64), 1..120)
    ) {
        let k = settings(if pause { ",pause=on" } else { ",pause=off" });
        let (refill, parse, dma, flush) = words;
        for (setting, value) in [
            (&k.rx_ring, sizes.0 as u64), (&k.tx_ring, sizes.1 as u64), (&k.rx_tail_batch, batches.0),
            (&k.tx_tail_batch, batches.1), (&k.tx_rs_every, batches.2), (&k.refill, refill), (&k.parse, parse),
            (&k.dma, dma), (&k.tx_flush, flush), (&k.prefetch, prefetch),
        ] {
            setting.set(value);
        }
        let (pool, far_pool) = (pool(buffers), self::pool(6000));
        let (near, mut far) = wire(WIRE_SLOTS);
        let mut nic = assemble("em0", k, 1500, Some(near), &pool).unwrap();
        let (mut fed, mut expect_rx, mut expect_tx) = (0u32, 0u32, 0u32);
        let (mut bridged, mut got) = (Burst::new(), Burst::new());
        let mut sent_back = 0u64;
        for (what, n) in steps {
            match what {
                0 => {
                    let mut burst = frames(&far_pool, fed, n, 60);
                    fed += far.send(&mut burst, ZERO) as u32;
                }
                1 => { nic.card.rx.step(ZERO); }
                2 => { nic.card.tx.step(ZERO); }
                3 => {
                    let before = bridged.len();
                    nic.rx.rx_burst(&mut bridged, n, ZERO);
                    for frame in &bridged.as_slice()[before..] {
                        prop_assert!(number(frame) >= expect_rx, "order");
                        expect_rx = number(frame) + 1;
                    }
                }
                4 => { sent_back += nic.tx.tx_burst(&mut bridged, ZERO) as u64; }
                _ => { nic.tx.poll(ZERO); }
            }
            far.take(&mut got, n, ZERO);
            for frame in got.drain() {
                prop_assert!(number(&frame) >= expect_tx, "order");
                expect_tx = number(&frame) + 1;
            }
            let c = &nic.nic.counts;
            let inside = nic.rx.held() + nic.card.rx.held();
            prop_assert_eq!(u64::from(fed), c.rx_frames.get() + c.missed.get() + inside as u64);
            prop_assert_eq!(c.tx_frames.get(), c.tx_wire.get() + nic.tx.pending() as u64);
            prop_assert_eq!(sent_back, c.tx_frames.get());
            prop_assert!(!pause || c.missed.get() == 0);
        }
        drop((nic, far, bridged, got));
        prop_assert_eq!(pool.stats().live(), 0);
        prop_assert_eq!(far_pool.stats().live(), 0);
    }
}

#[test]
fn a_wire_has_exactly_two_ends() {
    let pairs = crate::Pairs::new();
    let env = crate::Env { pool: pool(4096), pairs: &pairs, mac: wire_mac(9), unit: 0 };
    let open = |text: &str| crate::open(&crate::Spec::parse(text).unwrap(), &env);
    let mut a: Port = open("nic(wire=w,speed=1g,reg_write_ns=0):em0").unwrap();
    assert_eq!(pairs.unfinished_wires(), ["w"]);
    assert_eq!(
        open("nic(wire=w):em9").unwrap_err().to_string(),
        "nic:em9: em0 at the other end of wire 'w' has speed=1g: use the same speed"
    );
    let mut b = open("impair:nic(wire=w,speed=1g,reg_write_ns=0):em1").unwrap();
    assert!(pairs.unfinished_wires().is_empty() && b.nic.is_some());
    assert_eq!(
        open("nic(wire=w,speed=1g):em2").unwrap_err().to_string(),
        "nic:em2: wire 'w' already connects em0 and em1"
    );
    let mut got = Burst::new();
    b.rx.rx_burst(&mut got, 32, ZERO);
    a.tx.tx_burst(&mut frames(&env.pool, 0, 4, 60), ZERO);
    assert_eq!(b.rx.next_event(), Some(at(672)));
    assert_eq!((b.rx.rx_burst(&mut got, 32, at(671)), b.rx.rx_burst(&mut got, 32, at(4 * 672))), (0, 4));
    assert!(crate::Spec::parse("nic:").is_err());
}
