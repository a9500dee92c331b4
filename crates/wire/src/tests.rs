//! Tests of the whole crate: all frames truncated at every length, with every byte changed, and the
//! seeds of the fuzz targets.

use crate::{Layer, Malformed, fuzz, samples};
use proptest::prelude::*;
use std::{fs, path::Path};

#[test]
fn every_truncation_is_handled() {
    for (_, frame) in samples::all() {
        for len in 0..=frame.len() {
            fuzz::frame(&frame[..len]);
            fuzz::dissect(&frame[..len]);
            fuzz::checksum(&frame[..len]);
        }
    }
}

#[test]
fn every_byte_may_be_wrong() {
    for (_, frame) in samples::all() {
        for at in 0..frame.len() {
            for value in [0, 1, 0x0f, 0x40, 0x7f, 0x80, 0xff] {
                let mut frame = frame.clone();
                frame[at] = value;
                fuzz::frame(&frame);
                fuzz::dissect(&frame);
            }
        }
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        fuzz::frame(&bytes);
        fuzz::dissect(&bytes);
        fuzz::filter(&bytes);
    }

    #[test]
    fn mutated_frames(which in any::<prop::sample::Index>(), edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6), len in 0..200usize) {
        let frames = samples::all();
        let mut frame = which.get(&frames).1.clone();
        for (at, value) in edits {
            let at = at.index(frame.len());
            frame[at] = value;
        }
        frame.truncate(len.max(1));
        fuzz::frame(&frame);
        fuzz::dissect(&frame);
    }
}

/// Writes the samples as seeds of the fuzz targets if they are missing or outdated, so that the
/// corpus follows the tests. Other files in the corpus are kept.
#[test]
fn fuzz_seeds_are_on_disk() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    for target in ["wire_frame", "wire_dissect", "wire_checksum"] {
        let dir = corpus.join(target);
        if fs::create_dir_all(&dir).is_err() {
            println!("skipped: {} cannot be written", dir.display());
            return;
        }
        let every = if target == "wire_checksum" { 6 } else { 1 };
        for (name, frame) in samples::all().into_iter().step_by(every) {
            let path = dir.join(name);
            if fs::read(&path).ok().as_ref() != Some(&frame) {
                fs::write(&path, &frame).unwrap();
            }
        }
    }
}

/// Writes the seeds for filters: an expression of each kind, followed by a frame.
#[test]
fn filter_seeds_are_on_disk() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/wire_filter");
    if fs::create_dir_all(&dir).is_err() {
        println!("skipped: {} cannot be written", dir.display());
        return;
    }
    let frames = samples::frames();
    let lines = include_str!("filter/tests/accepted.txt").lines().filter(|line| !line.starts_with('#'));
    for (nth, line) in lines.step_by(9).enumerate() {
        let seed = [line.as_bytes(), b"\n", &frames[nth % frames.len()].1].concat();
        fuzz::filter(&seed);
        let path = dir.join(format!("line_{nth:02}"));
        if fs::read(&path).ok().as_ref() != Some(&seed) {
            fs::write(&path, &seed).unwrap();
        }
    }
}

#[test]
fn malformed_is_small_and_has_texts() {
    assert!(size_of::<Malformed>() <= 8, "{}", size_of::<Malformed>());
    let why = Malformed::Truncated { layer: Layer::Ip4, need: 20, have: 3 };
    assert_eq!(why.to_string(), "IPv4: truncated, needs 20 bytes and has 3");
    assert_eq!(
        Malformed::truncated(Layer::Udp, 1 << 20, 70_000),
        Malformed::Truncated { layer: Layer::Udp, need: 65535, have: 65535 }
    );
}
