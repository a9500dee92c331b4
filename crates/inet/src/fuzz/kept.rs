//! Seeds of a fuzz target. The tests run the target with them, and they are the initial corpus of
//! libFuzzer.

use std::path::PathBuf;

pub(super) type Seeds = [(String, Vec<u8>)];

/// Runs the fuzz target with each seed, and stores the seeds below `fuzz/corpus/TARGET` if they are
/// missing or differ there.
pub(super) fn seeds_hold_and_are_on_disk(target: &str, seeds: &Seeds, body: fn(&[u8])) {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let writable = std::fs::create_dir_all(&dir).is_ok();
    for (name, seed) in seeds {
        println!("{name}");
        body(seed);
        let path = dir.join(name);
        if writable && std::fs::read(&path).ok().as_ref() != Some(seed) {
            std::fs::write(&path, seed).unwrap();
        }
    }
}

/// Runs the fuzz target with seeds in which a few bytes were changed or inserted, and with `noise`
/// random bytes.
pub(super) fn damaged_seeds_and_any_bytes_hold(mut state: u64, seeds: &Seeds, noise: usize, body: fn(&[u8])) {
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as usize >> 8
    };
    for round in 0..600 {
        let mut data = seeds[next() % seeds.len()].1.clone();
        for _ in 0..1 + next() % 12 {
            let at = next() % data.len();
            match next() % 3 {
                0 => data.insert(at, next() as u8),
                _ => data[at] = next() as u8,
            }
        }
        println!("round {round}");
        body(&data);
        body(&(0..noise).map(|_| next() as u8).collect::<Vec<_>>());
    }
}
