//! Tests of the cost model: one bus shared by several cards, delayed reuse of buffers, and counters
//! of the memory that the driver touches.

use super::*;
use std::collections::HashSet;

#[test]
fn cards_on_one_bus_share_its_time() {
    let text = ",bus=pcix100,bus_pace=on,rx_tail_batch=64";
    let pool = pool(4096);
    let time = |buses: [Arc<Bus>; 2]| {
        let cards = buses.map(|bus| {
            let (near, mut far) = wire(WIRE_SLOTS);
            let mut nic = assemble_on(&bus, "em0", settings(text), 1500, Some(near), &pool).unwrap();
            nic.rx.rx_burst(&mut Burst::new(), 1, ZERO);
            far.send(&mut frames(&pool, 0, 100, 60), ZERO);
            (nic, far)
        });
        let (mut cards, mut now) = (cards, 0);
        while cards.iter().any(|(nic, _)| nic.nic.counts.rx_stored.get() < 100) {
            now += 500;
            cards.iter_mut().for_each(|(nic, _)| _ = nic.card.rx.step(at(now)));
        }
        now
    };
    let one = Arc::<Bus>::default();
    let (alone, shared) = (time([Arc::default(), Arc::default()]), time([one.clone(), one]));
    assert!((1.8..2.2).contains(&(shared as f64 / alone as f64)), "{shared} ns shared, {alone} ns alone");
}

#[test]
fn register_accesses_occupy_a_paced_bus() {
    let pool = pool(4096);
    for (pace, ns) in [("on", 255 * 50), ("off", 0)] {
        let (mut nic, _far) = parts(&format!(",bus_pace={pace}"), &pool);
        nic.rx.rx_burst(&mut Burst::new(), 1, ZERO);
        assert_eq!(nic.nic.counts.rx_doorbells.get(), 255);
        assert_eq!(nic.nic.bus.busy_until(&nic.nic.settings), at(ns), "five clocks of 10 ns each, if {pace}");
        nic.nic.check_status();
        let more = if ns > 0 { 2 * bus::REGISTER_READ * 10 } else { 0 };
        assert_eq!(nic.nic.bus.busy_until(&nic.nic.settings), at(ns + more));
    }
}

#[test]
fn descriptors_are_written_back_by_cache_line_on_a_paced_bus() {
    let pool = pool(4096);
    let (mut nic, mut far) = parts(",bus_pace=on,rx_tail_batch=64", &pool);
    nic.rx.rx_burst(&mut Burst::new(), 1, ZERO);
    far.send(&mut frames(&pool, 0, 40, 60), ZERO);
    let mut now = nic.nic.bus.busy_until(&nic.nic.settings);
    for _ in 0..200 {
        nic.card.rx.step(now); // one frame per step, because the bus is busy afterwards
        now = now.max(nic.nic.bus.busy_until(&nic.nic.settings));
    }
    assert_eq!((nic.nic.counts.rx_stored.get(), nic.nic.counts.rx_writebacks.get()), (40, 10));
}

#[test]
fn sent_buffers_are_reused_in_order_of_age() {
    let pool = pool(4096);
    let (mut nic, mut far) = parts("", &pool);
    let place = |frame: &Frame| frame.bytes().as_ptr() as usize;
    let mut resting = Burst::new();
    pool.get_burst_of(8, 60, &mut resting);
    let places: Vec<usize> = resting.as_slice().iter().map(place).collect();
    nic.card.tx.rest(resting.drain());
    for expected in places.chunks(4) {
        let mut burst = frames(&pool, 1, 4, 60);
        let sent: HashSet<usize> = burst.as_slice().iter().map(place).collect();
        assert_eq!(nic.tx.tx_burst(&mut burst, ZERO), 4);
        nic.card.tx.step(ZERO);
        nic.tx.poll(ZERO);
        let mut back = Burst::new();
        pool.get_burst_of(4, 60, &mut back); // the buffers that were freed last
        let back: HashSet<usize> = back.drain().map(|frame| place(&frame)).collect();
        assert_eq!(back, expected.iter().copied().collect::<HashSet<_>>());
        assert!(back.is_disjoint(&sent));
        let mut got = Burst::new();
        far.take(&mut got, 256, ZERO);
        assert_eq!(numbers(&mut got), [1, 2, 3, 4], "the frames sent are those put into the ring");
    }
    drop(nic);
    assert_eq!(pool.stats().live(), 0);
}

#[test]
fn driver_memory_accesses_are_counted() {
    for (kind, links) in [(buf::Kind::Freelist, 1), (buf::Kind::Stack, 0)] {
        let pool = Pool::new(&PoolConfig { buffers: 4096, kind, ..PoolConfig::default() }).unwrap();
        for (text, headers, stock, early, prefetched) in [
            ("", 1, 0, 1, 0),
            (",refill=pool", 0, 0, 1, 0),
            (",refill=stack", 0, 1, 1, 0),
            (",parse=late", 1, 0, 0, 0),
            (",prefetch=4", 1, 0, 1, 1),
        ] {
            let (mut nic, mut far) = parts(text, &pool);
            let mut got = Burst::new();
            nic.rx.rx_burst(&mut got, 32, ZERO);
            far.send(&mut frames(&pool, 0, 100, 60), ZERO);
            nic.card.rx.step(ZERO);
            assert_eq!(nic.rx.rx_burst(&mut got, 256, ZERO), 100);
            let c = &nic.nic.counts;
            assert_eq!(c.rx_posted.get(), 255 + 100, "{text}");
            let posted = [c.rx_links_read.get(), c.rx_headers_written.get(), c.rx_from_stock.get()];
            assert_eq!(posted, [links * 355, headers * 355, stock * 355], "{kind} {text}");
            assert_eq!(
                [c.rx_early_reads.get(), c.rx_prefetches.get()],
                [early * 100, prefetched * 100],
                "{kind} {text}"
            );
        }
    }
}
