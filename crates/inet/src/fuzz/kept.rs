//! Seeds of a target: run through its body by the tests, and the initial corpus of libFuzzer.

use std::path::PathBuf;

pub(super) type Seeds = [(String, Vec<u8>)];

/// Checks that each seed passes and is stored unchanged below `fuzz/corpus/TARGET`.
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

/// Checks that seeds with a few bytes changed or inserted pass, and so do `noise` random bytes.
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
