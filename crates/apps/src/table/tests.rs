use super::*;
use std::collections::HashMap;

#[test]
fn a_table_behaves_like_a_hash_map() {
    let mut table = Table::new(Key::seeded(1));
    let mut map: HashMap<Vec<u8>, u32> = HashMap::new();
    let mut word = 7u64;
    for step in 0..200_000u32 {
        word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // Alternates between mostly inserts and mostly removals.
        let grows = (step / 20_000) % 2 == 0;
        let name = format!("{}", (word >> 33) % 5_000).into_bytes();
        match (word >> 20) % 8 {
            0 => assert_eq!(table.get(&name), map.get(&name)),
            1..4 if grows => assert_eq!(table.insert(&name, step), map.insert(name, step)),
            4 if !table.is_empty() => {
                let (name, value) = table.remove_at((word >> 7) as usize % table.len()).unwrap();
                assert_eq!(map.remove(&*name), Some(value));
            }
            5 => {
                if let Some(value) = table.get_mut(&name) {
                    *value += 1;
                    *map.get_mut(&name).unwrap() += 1;
                }
            }
            _ if grows => {}
            _ => assert_eq!(table.remove(&name).map(|(_, value)| value), map.remove(&name)),
        }
        assert_eq!(table.len(), map.len());
    }
    let mut all: Vec<(Vec<u8>, u32)> = table.iter().map(|(name, value)| (name.to_vec(), *value)).collect();
    let mut wanted: Vec<(Vec<u8>, u32)> = map.into_iter().collect();
    all.sort();
    wanted.sort();
    assert_eq!(all, wanted);
}

#[test]
fn an_emptied_table_frees_its_memory() {
    let mut table = Table::new(Key::seeded(2));
    for n in 0..100_000u32 {
        table.insert(&n.to_le_bytes(), ());
    }
    for n in 0..100_000u32 {
        assert!(table.remove(&n.to_le_bytes()).is_some());
    }
    assert!(table.0.capacity() <= 64, "{}", table.0.capacity());
    assert!(table.get(b"a").is_none() && table.remove(b"a").is_none() && table.remove_at(0).is_none());
}

#[test]
fn a_scan_visits_all_entries_that_stay() {
    let mut table = Table::new(Key::seeded(3));
    for n in 0..1_000u32 {
        table.insert(&n.to_le_bytes(), n);
    }
    let (mut seen, mut cursor, mut word) = (std::collections::HashSet::new(), 0, 7u64);
    loop {
        cursor = table.scan(cursor, 10, |_, n| {
            seen.insert(*n);
            true
        });
        if cursor == 0 {
            break;
        }
        // Even numbers are removed and new ones inserted; odd ones below 1000 stay.
        for _ in 0..5 {
            word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            table.remove(&((word >> 33) as u32 % 500 * 2).to_le_bytes());
        }
        table.insert(&((word >> 33) as u32 | 1 << 20).to_le_bytes(), 0);
    }
    assert!((1..1_000).step_by(2).all(|n| seen.contains(&n)), "{} seen", seen.len());
    assert_eq!(table.scan(0, 5, |_, _| false), table.len() as u64 - 1);
    assert_eq!(table.scan(u64::MAX, usize::MAX, |_, _| true), 0);
}
