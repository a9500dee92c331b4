//! Bodies of the fuzz targets: properties that hold for every byte string. The tests run them too.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a broken invariant must panic; built for tests and fuzzing only"
)]

mod lines;

pub use crate::mount::fuzz::requests as fuse;
#[cfg(test)]
pub(crate) use lines::Pieces;
pub use lines::{grep, input};

use crate::crc::{Action, Crc};
use crate::rewrite::Rewrite;
use crate::rewrite::nat::{Config, Fate, Nat};
#[cfg(test)]
use crate::{Encoder, Format};
use crate::{Frames, Stage, Time};
use clock::Instant;
use wire::edit::Layout;

/// Fuzzes `rewrite`, NAT and `crc`. The input is a line of edit expressions, followed by frames,
/// each preceded by its length.
/// Checks that nothing panics; that the caret of each bad expression is within the line; that
/// checksums that are correct before an edit are correct after it, unless the edit changes raw
/// bytes or the type; that all frames are accounted for; and that checksums set by `crc` are
/// correct.
pub fn rewrite(data: &[u8]) {
    let (line, frames) = data.split_at(data.iter().position(|byte| *byte == b'\n').unwrap_or(data.len()));
    let line = String::from_utf8_lossy(line);
    let exprs: Vec<&str> = line.split_whitespace().take(8).collect();
    let mut good = Vec::new();
    for expr in exprs {
        match Rewrite::new(&[expr]) {
            Ok(_) => good.push(expr),
            Err(bad) => {
                let picture = bad.picture();
                let (shown, caret) = picture.split_once('\n').unwrap();
                assert!(caret.chars().count() <= shown.chars().count() + 1);
            }
        }
    }
    let mut batch = batch(frames.get(1..).unwrap_or_default());
    let keeps_sums = good.iter().all(|expr| !expr.starts_with("byte") && !expr.starts_with("type"));
    let before = batch.iter().filter(|(frame, _)| verifies(frame)).count();
    let count = batch.len() as u64;

    let mut stage = Rewrite::new(&good).unwrap();
    stage.run(&mut batch).unwrap();
    let counts = stage.counts();
    assert_eq!(counts.frames, batch.len() as u64 + counts.ttl + counts.too_long);
    assert_eq!(counts.frames, count);
    let after = batch.iter().filter(|(frame, _)| verifies(frame)).count() as u64;
    // Adding or removing a tag may reveal or hide a header.
    if keeps_sums && !good.iter().any(|expr| expr.starts_with("vlan.p")) {
        assert!(after <= before as u64 && after + counts.ttl + counts.too_long >= before as u64);
    }

    let mut config = Config::new("10.0.0.0/8=192.0.2.1".parse().unwrap());
    (config.limit, config.ports) = (4, 1000..=1010);
    let mut nat = Nat::new(config);
    let mut now = 0;
    batch.retain(|frame| {
        now += u64::from(frame.bytes()[0]) << 28;
        nat.advance(Instant::from_nanos(now));
        let right = verifies(frame.bytes());
        let fate = nat.translate(frame.bytes_mut());
        assert!(nat.sessions() <= 4);
        assert!(matches!(fate, Fate::Dropped(_)) || right == verifies(frame.bytes()));
        !matches!(fate, Fate::Dropped(_))
    });
    let counts = nat.counts();
    assert_eq!(counts.frames, counts.passed + counts.out + counts.inward + counts.dropped.iter().sum::<u64>());
    assert_eq!(counts.sessions, counts.expired + counts.evicted + nat.sessions() as u64);

    Crc::new(Action::Set, data.len().is_multiple_of(2)).run(&mut batch).unwrap();
    assert!(batch.iter().all(|(frame, _)| verifies(frame)));
}

fn verifies(frame: &[u8]) -> bool {
    Layout::of(frame).checksums(frame).into_iter().flatten().all(|checksum| checksum.verifies())
}

/// Splits `bytes` into frames, each preceded by its length as two big-endian bytes.
fn batch(mut bytes: &[u8]) -> Frames {
    let mut frames = Frames::new();
    while let Some((len, rest)) = bytes.split_first_chunk::<2>() {
        let len = usize::from(u16::from_be_bytes(*len)).min(rest.len());
        let (frame, rest) = rest.split_at(len);
        frames.push(frame, Time::None);
        bytes = rest;
    }
    frames
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod edits {
    use proptest::prelude::*;

    /// Returns a few valid frames as seeds.
    fn seeds() -> Vec<Vec<u8>> {
        let udp = crate::rewrite::tests::udp4(b"hello");
        let mut tagged = udp.clone();
        tagged.splice(12..12, [0x81, 0, 0, 10]);
        let mut answer = udp.clone();
        answer[26..34].copy_from_slice(&[10, 0, 0, 2, 192, 0, 2, 1]);
        [udp, tagged, answer, crate::rewrite::tests::tcp4(wire::tcp::Flags::SYN, b""), crate::rewrite::tests::udp6()]
            .into()
    }

    fn input(line: &str, frames: &[Vec<u8>]) -> Vec<u8> {
        let mut out = line.as_bytes().to_vec();
        out.push(b'\n');
        for frame in frames {
            out.extend_from_slice(&(frame.len() as u16).to_be_bytes());
            out.extend_from_slice(frame);
        }
        out
    }

    const LINES: &[&str] = &[
        "dst=00:11:22:*:*:* ip.ttl-=1 sport=7 ip.dst=8.8.8.8",
        "vlan.push=5,1,0x88a8 vlan.id=5->6 swap=mac swap=ip swap=port",
        "vlan.pop vlan.pcp=1 type=0x0800 byte[14:2]=0x4500",
        "ip.src=fd00::/16 ip.dscp=46 ip.id=1 udp.dport=9 tcp.sport=70000",
        "",
    ];

    /// Updates the seeds in the corpus if the repository is writable, then runs the whole corpus.
    #[test]
    fn corpus_seeds_do_not_panic() {
        let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/pipe_rewrite");
        let writable = std::fs::create_dir_all(&dir).is_ok();
        for (at, line) in LINES.iter().enumerate() {
            let seed = input(line, &seeds());
            super::rewrite(&seed);
            let path = dir.join(format!("seed-{at}"));
            if writable && std::fs::read(&path).ok().as_ref() != Some(&seed) && std::fs::write(&path, &seed).is_err() {
                println!("skipped: {} cannot be written", path.display());
            }
        }
        for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
            super::rewrite(&std::fs::read(entry.path()).unwrap());
        }
    }

    proptest! {
        #[test]
        fn corrupted_frames_do_not_panic(
            line in prop::sample::select(LINES), which in any::<prop::sample::Index>(),
            edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6), len in 14..90_usize,
        ) {
            let mut frame = which.get(&seeds()).clone();
            for (at, value) in edits {
                let at = at.index(frame.len());
                frame[at] = value;
            }
            frame.truncate(len);
            super::rewrite(&input(line, &[frame.clone(), frame]));
        }

        #[test]
        fn random_frames_do_not_panic(line in prop::sample::select(LINES), frames in prop::collection::vec(prop::collection::vec(any::<u8>(), 14..16_384), 0..3)) {
            super::rewrite(&input(line, &frames));
        }
    }
}
