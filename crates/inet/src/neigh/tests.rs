use super::*;
use buf::{Pool, PoolConfig};

const EM0: IfaceId = IfaceId(1);

fn addr(n: u32) -> Ipv4Addr {
    Ipv4Addr::from(0x0a00_0000 + n)
}

fn mac(n: u32) -> Mac {
    let [a, b, c, d] = n.to_be_bytes();
    Mac([2, 0, a, b, c, d])
}

fn rules(limit: usize) -> Rules {
    Rules { limit, hold: 2, hold_all: 0, tries: 3, max_age: Duration::from_secs(100) }
}

fn at(secs: u64) -> Instant {
    Instant::from_millis(secs * 1000)
}

fn table() -> Table {
    Table::new(Key::seeded(1))
}

fn pool(buffers: usize) -> Pool {
    Pool::new(&PoolConfig { buffers, ..PoolConfig::default() }).unwrap()
}

impl Table {
    fn asks(&mut self, n: u32, pool: &Pool, now: Instant, rules: Rules) -> Resolved {
        self.resolve(EM0, addr(n), pool.get().unwrap(), now, rules, pool)
    }

    fn has(&self, n: u32) -> bool {
        self.entries.contains_key(&(EM0, addr(n)))
    }

    fn meets(&mut self, n: u32, now: Instant, limit: usize) -> bool {
        matches!(self.learn(EM0, addr(n), mac(n), true, now, rules(limit)), Learned::Changed { created: true, .. })
    }

    /// Checks that the idle queue contains exactly the idle entries, each at its position.
    fn assert_sound(&self) {
        for (key, entry) in &self.entries {
            assert_eq!(entry.place.is_some(), entry.is_idle(), "{key:?} {entry:?}");
            if let Some(place) = entry.place {
                assert_eq!((self.idle.queue.get(&place), place.0), (Some(key), entry.used), "{key:?} {entry:?}");
            }
        }
        assert_eq!(self.idle(), self.entries.values().filter(|entry| entry.is_idle()).count());
        let incomplete = self.entries.values().filter(|entry| entry.state == State::Incomplete);
        let (mut requested, mut holding, mut held) = (0, 0, 0);
        for entry in incomplete {
            requested += usize::from(self.requested.all.contains_key(&entry.serial));
            holding += usize::from(self.requested.holding.contains_key(&entry.serial));
            held += entry.pending.len();
        }
        assert_eq!((requested, holding), (self.requested.all.len(), self.requested.holding.len()));
        assert_eq!(held, self.held);
    }
}

#[test]
fn unused_entries_are_evicted_before_used_ones_and_the_oldest_first() {
    let mut table = table();
    for n in 0..4 {
        assert!(table.meets(n, at(n.into()), 4));
    }
    assert_eq!(table.lookup(EM0, addr(1), at(10)), Some(mac(1)));
    assert_eq!(table.lookup(EM0, addr(0), at(11)), Some(mac(0)));
    table.expire(at(200), rules(4), |_| {}); // all entries are Stale; two of them were used once
    assert_eq!(table.idle(), 4);
    for (newcomer, gone) in [(10, 2), (11, 3)] {
        assert!(table.meets(newcomer, at(200), 4));
        assert!(!table.has(gone) && table.has(0) && table.has(1), "{newcomer} should have replaced {gone}");
    }
    // Unknown stations that arrive later are still evicted before entries that were used.
    assert!(table.meets(12, at(201), 4));
    assert!(!table.has(10) && table.has(11) && table.has(0) && table.has(1));
    table.lookup(EM0, addr(11), at(202));
    table.lookup(EM0, addr(12), at(202));
    assert!(table.meets(13, at(203), 4));
    assert!(!table.has(1) && table.has(0), "entry 1 was used before entry 0");
    table.assert_sound();
    assert_eq!(table.take_evicted(), 4);
}

#[test]
fn used_and_permanent_entries_stay_and_incomplete_ones_are_evicted_last() {
    let pool = pool(4);
    let mut table = table();
    assert!(table.meets(0, at(0), 4));
    table.lookup(EM0, addr(0), at(1));
    table.set(EM0, addr(1), mac(1), at(1));
    let requested = table.resolve(EM0, addr(2), pool.get().unwrap(), at(1), rules(4), &pool);
    assert!(matches!(requested, Resolved::Waits { ask: true }));
    assert!(table.meets(3, at(1), 4) && table.meets(4, at(1), 4), "one slot is left for unknown stations");
    assert!(!table.has(3) && table.has(2));
    table.lookup(EM0, addr(4), at(1));
    assert!(table.meets(5, at(1), 4), "the Incomplete entry is replaced by a host that has sent something");
    assert!((0..=5).filter(|n| table.has(*n)).eq([0, 1, 4, 5]));
    let ended = table.take_ended();
    assert!(matches!(&ended[..], [(_, DropReason::NeighDisplaced)]), "{ended:?}");
    drop(ended);
    table.lookup(EM0, addr(5), at(4));
    assert!(!table.meets(6, at(4), 4), "all entries are in use");
    table.assert_sound();
    table.flush(EM0, drop);
    assert_eq!((table.idle(), table.held()), (0, 0));
}

/// 200,000 unknown stations and a table of 65,536 entries. With a scan of the table for each
/// station, this took minutes.
#[test]
fn eviction_does_not_scan_the_table() {
    let mut table = table();
    for n in 0..200_000 {
        assert!(table.meets(n, at(1), 65_536));
    }
    assert_eq!(table.entries.len(), 65_536);
    assert!((200_000 - 65_536..200_000).all(|n| table.has(n)), "the newest stations are in the table");
    assert_eq!(table.take_evicted(), 200_000 - 65_536);
}

/// The queue is consistent with the table after any sequence of operations.
#[test]
fn random_conversations_keep_the_queue_consistent() {
    let pool = pool(256);
    let key = Key::seeded(3);
    let (mut table, mut now) = (table(), at(1));
    for step in 0..20_000u64 {
        let random = key.hash2(step, 0);
        let (n, what) = ((random >> 8) as u32 % 48, random % 64);
        match what {
            0..24 => drop(table.learn(EM0, addr(n), mac(n + what as u32 % 2), what % 3 > 0, now, rules(24))),
            24..36 => drop(table.lookup(EM0, addr(n), now)),
            36..50 => {
                if let Some(frame) = pool.get() {
                    drop(table.resolve(EM0, addr(n), frame, now, rules(24), &pool));
                }
            }
            50..52 => drop(table.set(EM0, addr(n), mac(n), now)),
            52..57 => drop(table.remove(EM0, addr(n))),
            57..63 => {
                now = now.after(Duration::from_secs(random >> 40 & 0x1f));
                table.expire(now, rules(24), drop);
            }
            _ if random >> 60 == 0 => table.flush(EM0, drop),
            _ => {}
        }
        drop(table.take_ended());
        if step % 16 == 0 {
            table.assert_sound();
        }
    }
    assert!(table.take_evicted() > 100, "the table was never full");
}

/// RFC 6583 7: held packets are limited to a share of the pool. Beyond it, the oldest packet is
/// dropped, but its entry stays and is resolved by an answer.
#[test]
fn a_scan_holds_a_share_of_the_pool_and_the_oldest_packet_is_dropped() {
    let (pool, mut table) = (pool(256), table());
    for n in 0..100 {
        assert!(matches!(table.asks(n, &pool, at(1), rules(4096)), Resolved::Waits { ask: true }));
        let ended = table.take_ended();
        assert_eq!(ended.len(), usize::from(n >= 32), "{n}");
        assert!(ended.iter().all(|(_, why)| *why == DropReason::NeighShareFull));
        assert!(table.held() <= 256 / SHARE);
    }
    table.assert_sound();
    assert_eq!(pool.stats().live(), 32);
    let Learned::Changed { pending, .. } = table.learn(EM0, addr(0), mac(0), false, at(1), rules(4096)) else {
        panic!("the entry must stay without its packet");
    };
    assert!(pending.is_empty());
    let Learned::Changed { pending, .. } = table.learn(EM0, addr(99), mac(99), false, at(1), rules(4096)) else {
        panic!("the newest entry must be resolved");
    };
    assert_eq!((pending.len(), table.held()), (1, 31));
}

/// The share of held packets shrinks with the number of free buffers, so that ARP and neighbor
/// discovery keep a reserve.
#[test]
fn a_small_pool_keeps_its_reserve() {
    let (pool, mut table) = (pool(256), table());
    let others: Vec<Frame> = (0..230).map(|_| pool.get().unwrap()).collect();
    for n in 0..100 {
        table.asks(n, &pool, at(1), rules(4096));
        drop(table.take_ended());
        assert!(pool.stats().live() <= 256 - 256 / RESERVE as u64, "{n}");
    }
    assert_eq!(table.held(), 256 - 256 / RESERVE - others.len());
    drop(others);
    table.asks(100, &pool, at(1), rules(4096));
    assert_eq!(table.held(), 11, "the limit grows again with the free buffers");
    assert!(table.take_ended().is_empty());
    table.assert_sound();
}

/// The sysctl sets the share. At least one packet may always be held.
#[test]
fn the_share_is_as_configured_and_never_zero() {
    let (pool, mut table) = (pool(16), table());
    let others: Vec<Frame> = (0..15).map(|_| pool.get().unwrap()).collect();
    table.asks(1, &pool, at(1), rules(4096));
    assert_eq!((table.held(), table.take_ended().len()), (1, 0), "one packet is held although the pool is exhausted");
    drop(others);
    for n in 2..10 {
        table.asks(n, &pool, at(1), Rules { hold_all: 3, ..rules(4096) });
        drop(table.take_ended());
    }
    assert_eq!(table.held(), 3);
}

/// The oldest unresolved entry is replaced by a new one. An entry without an answer is replaced
/// before a neighbor that has sent something.
#[test]
fn incomplete_entries_are_replaced() {
    let (pool, mut table) = (pool(256), table());
    for n in 0..10 {
        table.asks(n, &pool, at(1), rules(8));
        drop(table.take_ended());
    }
    assert!((0..10).filter(|n| table.has(*n)).eq([6, 7, 8, 9]), "Incomplete entries fill half of the table");
    for n in 20..24 {
        assert!(table.meets(n, at(1), 8));
    }
    assert!(table.meets(24, at(1), 8) && !table.has(20) && table.has(6), "entry 6 is less than a second old");
    assert!(table.meets(25, at(2), 8) && table.has(21) && !table.has(6), "entry 6 has had no answer for a second");
    assert_eq!(table.take_evicted(), 6 + 2);
    table.assert_sound();
}

/// During a scan, an entry is due at every moment. The table is still scanned only a hundred times
/// a second, not for each packet.
#[test]
fn a_scan_does_not_keep_the_timer_expired() {
    let (pool, mut table) = (pool(256), table());
    let mut walks = 0;
    for n in 0..3_000u32 {
        let now = Instant::from_millis(1_000 + u64::from(n));
        table.asks(n, &pool, now, rules(4096));
        drop(table.take_ended());
        walks += u32::from(table.next_deadline() <= now);
        table.expire(now, rules(4096), drop);
    }
    assert!((180..=210).contains(&walks), "{walks}");
}
