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
    Rules { limit, hold: 2, tries: 3, max_age: Duration::from_secs(100) }
}

fn at(secs: u64) -> Instant {
    Instant::from_millis(secs * 1000)
}

fn table() -> Table {
    Table::new(Key::seeded(1))
}

impl Table {
    fn has(&self, n: u32) -> bool {
        self.entries.contains_key(&(EM0, addr(n)))
    }

    fn meets(&mut self, n: u32, now: Instant, limit: usize) -> bool {
        matches!(self.learn(EM0, addr(n), mac(n), true, now, rules(limit)), Learned::Changed { created: true, .. })
    }

    /// The queue holds the idle entries, each at its place, and nothing else.
    fn assert_sound(&self) {
        for (key, entry) in &self.entries {
            assert_eq!(entry.place.is_some(), entry.is_idle(), "{key:?} {entry:?}");
            if let Some(place) = entry.place {
                assert_eq!((self.idle.queue.get(&place), place.0), (Some(key), entry.used), "{key:?} {entry:?}");
            }
        }
        assert_eq!(self.idle(), self.entries.values().filter(|entry| entry.is_idle()).count());
    }
}

#[test]
fn strangers_go_before_old_acquaintances_and_the_oldest_of_each_first() {
    let mut table = table();
    for n in 0..4 {
        assert!(table.meets(n, at(n.into()), 4));
    }
    assert_eq!(table.lookup(EM0, addr(1), at(10)), Some(mac(1)));
    assert_eq!(table.lookup(EM0, addr(0), at(11)), Some(mac(0)));
    table.expire(at(200), rules(4), |_| {}); // all are Stale, two of them used once
    assert_eq!(table.idle(), 4);
    for (newcomer, gone) in [(10, 2), (11, 3)] {
        assert!(table.meets(newcomer, at(200), 4));
        assert!(!table.has(gone) && table.has(0) && table.has(1), "{newcomer} came for another than {gone}");
    }
    // Strangers that came later stand in front of who was used, still.
    assert!(table.meets(12, at(201), 4));
    assert!(!table.has(10) && table.has(11) && table.has(0) && table.has(1));
    table.lookup(EM0, addr(11), at(202));
    table.lookup(EM0, addr(12), at(202));
    assert!(table.meets(13, at(203), 4));
    assert!(!table.has(1) && table.has(0), "1 was used before 0");
    table.assert_sound();
    assert_eq!(table.take_evicted(), 4);
}

#[test]
fn neighbors_in_use_permanent_ones_and_open_questions_stay() {
    let pool = Pool::new(&PoolConfig { buffers: 4, ..PoolConfig::default() }).unwrap();
    let mut table = table();
    assert!(table.meets(0, at(0), 4));
    table.lookup(EM0, addr(0), at(1));
    table.set(EM0, addr(1), mac(1), at(1));
    let asked = table.resolve(EM0, addr(2), pool.get().unwrap(), at(1), rules(4));
    assert!(matches!(asked, Resolved::Waits { ask: true, .. }));
    assert!(table.meets(3, at(1), 4) && table.meets(4, at(2), 4), "one place is for strangers");
    assert!(!table.has(3));
    table.lookup(EM0, addr(4), at(3));
    assert!(!table.meets(5, at(4), 4), "there is no room now");
    assert!((0..=4).filter(|n| table.has(*n)).eq([0, 1, 2, 4]));
    table.assert_sound();
    table.flush(EM0, drop);
    assert_eq!((table.idle(), table.held()), (0, 0));
}

/// A flood of 200,000 strangers at a table of 65,536: with a walk through the table for each it took minutes.
#[test]
fn making_room_does_not_walk_through_the_table() {
    let mut table = table();
    for n in 0..200_000 {
        assert!(table.meets(n, at(1), 65_536));
    }
    assert_eq!(table.entries.len(), 65_536);
    assert!((200_000 - 65_536..200_000).all(|n| table.has(n)), "the last to come are there");
    assert_eq!(table.take_evicted(), 200_000 - 65_536);
}

/// Whatever happens, the queue agrees with the table.
#[test]
fn any_conversation_leaves_the_queue_sound() {
    let pool = Pool::new(&PoolConfig { buffers: 256, ..PoolConfig::default() }).unwrap();
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
                    drop(table.resolve(EM0, addr(n), frame, now, rules(24)));
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
        if step % 16 == 0 {
            table.assert_sound();
        }
    }
    assert!(table.take_evicted() > 100, "the table was never full");
}
