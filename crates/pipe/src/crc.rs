//! `crc`: recomputes the checksums of each frame and corrects or only checks them.
//!
//! Covers IPv4 headers, ICMP, IGMP, TCP, UDP and ICMPv6. Checksums of fragments and of truncated
//! packets cannot be computed and are left unchanged. A UDP checksum of 0 over IPv4 means "not
//! computed". It counts as correct, and is replaced by the computed checksum unless checksums are
//! only checked.

use crate::stage::StageError;
use crate::{Frames, Stage};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use wire::edit::{Covered, Layout};
use wire::eth::MIN_FRAME_LEN;

/// Action of the stage on the checksums of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Action {
    /// Correct wrong checksums.
    #[default]
    Set,
    /// Correct wrong checksums, except that UDP checksums over IPv4 are set to 0 ("not computed"),
    /// as ethpipe's crc.sh does. Over IPv6, where 0 is not allowed, the checksum is computed.
    SetUdpZero,
    /// Change nothing, but count wrong checksums. If there are any, the program ends with exit code
    /// 1.
    Check,
}

/// Stage that corrects or checks checksums.
#[derive(Clone, Debug)]
pub struct Crc {
    action: Action,
    pad: bool,
    counts: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    frames: AtomicU64,
    checksums: AtomicU64,
    wrong: [AtomicU64; KINDS.len()],
}

/// Kinds of checksums, in the order of the report.
const KINDS: [(Covered, &str); 6] = [
    (Covered::Ip4, "IPv4"),
    (Covered::Tcp, "TCP"),
    (Covered::Udp, "UDP"),
    (Covered::Icmp, "ICMP"),
    (Covered::Igmp, "IGMP"),
    (Covered::Icmp6, "ICMPv6"),
];

impl Crc {
    /// Creates the stage. With `pad`, frames shorter than 60 bytes, the minimum on a wire, are
    /// padded with zeros.
    pub fn new(action: Action, pad: bool) -> Crc {
        Crc { action, pad, counts: Arc::default() }
    }

    /// Returns the number of wrong checksums so far.
    pub fn wrong(&self) -> u64 {
        self.counts.wrong.iter().map(|count| count.load(Relaxed)).sum()
    }

    /// Checks the checksums of one frame, counts the wrong ones in `wrong`, and writes each
    /// checksum as `action` requires. Returns the number of checksums in the frame.
    #[inline]
    fn one(&self, frame: &mut [u8], wrong: &mut [u64; KINDS.len()]) -> u64 {
        let mut checksums = 0;
        for checksum in Layout::of(frame).checksums(frame).into_iter().flatten() {
            checksums += 1;
            if !checksum.verifies() {
                let counts = wrong.iter_mut().zip(KINDS).filter(|(_, (of, _))| *of == checksum.of);
                counts.for_each(|(count, _)| *count += 1);
            }
            match self.action {
                Action::Check => {}
                Action::SetUdpZero if checksum.may_be_none() => checksum.write(frame, 0),
                Action::Set | Action::SetUdpZero => checksum.write(frame, checksum.right),
            }
        }
        checksums
    }
}

impl Stage for Crc {
    fn run(&mut self, frames: &mut Frames) -> Result<(), StageError> {
        let (mut checksums, mut wrong) = (0, [0; KINDS.len()]);
        self.counts.frames.fetch_add(frames.len() as u64, Relaxed);
        frames.for_each(|frame| {
            // Pad first: if the IP length exceeds the frame, the packet is complete only after
            // padding, and the checksum must cover the padding.
            if self.pad {
                frame.pad(MIN_FRAME_LEN);
            }
            checksums += self.one(frame.bytes_mut(), &mut wrong);
        });
        self.counts.checksums.fetch_add(checksums, Relaxed);
        for (shared, count) in self.counts.wrong.iter().zip(wrong) {
            shared.fetch_add(count, Relaxed);
        }
        Ok(())
    }

    fn fork(&self) -> Option<Box<dyn Stage>> {
        Some(Box::new(self.clone()))
    }

    fn report(&self) -> Option<String> {
        let (frames, checksums) = (self.counts.frames.load(Relaxed), self.counts.checksums.load(Relaxed));
        let were = if self.action == Action::Check { "are" } else { "were" };
        let mut said = format!("crc: {} of {checksums} checksums in {frames} frames {were} wrong", self.wrong());
        let wrong = self.counts.wrong.iter().map(|count| count.load(Relaxed)).zip(KINDS);
        let each: Vec<String> = wrong.filter(|(n, _)| *n > 0).map(|(n, (_, name))| format!("{name} {n}")).collect();
        if !each.is_empty() {
            said += &format!(" ({})", each.join(", "));
        }
        Some(said)
    }

    fn failed(&self) -> bool {
        self.action == Action::Check && self.wrong() > 0
    }
}

#[cfg(test)]
mod tests;
