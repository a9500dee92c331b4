//! Tests of the standard's tables, the guards, and whole networks on virtual time.

mod guards;
mod random;
mod table;
mod world;

use super::*;

use std::fs;
use std::path::Path;
use world::Rng;

/// Runs the corpus. Missing or outdated seeds are written first, so that the corpus follows the
/// tests. Other files in the directory are kept and tested too.
#[test]
fn the_corpus_passes() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/bridge_stp");
    if fs::create_dir_all(&dir).is_err() {
        println!("skipped: {} cannot be written", dir.display());
        return;
    }
    for seed in 0..6 {
        let mut rng = Rng(seed);
        let data: Vec<u8> = (0..600).map(|_| rng.next() as u8).collect();
        let path = dir.join(format!("seed_{seed}"));
        if fs::read(&path).ok().as_ref() != Some(&data) {
            fs::write(&path, &data).unwrap();
        }
    }
    for file in fs::read_dir(&dir).unwrap() {
        fuzz::stp(&fs::read(file.unwrap().path()).unwrap());
    }
}

#[test]
fn arbitrary_steps_keep_the_invariants() {
    for seed in 100..500 {
        println!("seed {seed}");
        let mut rng = Rng(seed);
        let data: Vec<u8> = (0..4000).map(|_| rng.next() as u8).collect();
        fuzz::stp(&data);
    }
}
