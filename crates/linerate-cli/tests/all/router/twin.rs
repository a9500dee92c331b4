//! Comparison of our router with the kernel's: the same input packets must leave by the same links.
//!
//! The kernel's router has TAP devices as links. Ours has pairs of the library, in virtual time.
//! Packets are drawn from a seed, which is printed (`LINERATE_SEED` sets it), and are processed one
//! by one. Packets that leave are compared byte by byte. The list [`known::KNOWN`] has all
//! differences, each with its reason and a packet that shows it. Any other difference fails the
//! test.

mod draw;
mod known;
mod net;
mod ours;
mod packet;
mod theirs;

use crate::common::isolated;
use draw::Draw;
use known::{Case, KNOWN, Known};
use ours::Ours;
use theirs::Theirs;

const PACKETS: usize = 4000;

/// Packets that left by each link.
type Out = [Vec<Vec<u8>>; 2];

/// Mode of source address validation (RFC 3704).
#[derive(Clone, Copy, PartialEq, Eq)]
enum Validation {
    Off,
    Loose,
    Strict,
}

struct Twins {
    validation: Validation,
    ours: Ours,
    theirs: Theirs,
}

impl Twins {
    fn new(validation: Validation) -> Twins {
        Twins { validation, ours: Ours::new(validation), theirs: Theirs::new(validation) }
    }

    /// Passes a frame to both routers. Returns the packets that left.
    fn both(&mut self, from: usize, bytes: &[u8]) -> Case {
        let ours = self.ours.pass(from, bytes);
        let theirs = self.theirs.pass(from, bytes, ours.iter().map(Vec::len).sum());
        Case { validation: self.validation, from, came: bytes.to_vec(), ours, theirs }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().take(120).map(|byte| format!("{byte:02x}")).collect()
}

fn list(out: &Out) -> String {
    out.iter()
        .map(|frames| format!("\n    {:#?} ", frames.iter().map(|bytes| hex(bytes)).collect::<Vec<_>>()))
        .collect()
}

/// Returns two seeds. The second one is random or set by the user, and may find errors that depend
/// on the state after the first.
fn seeds() -> [u64; 2] {
    let set = std::env::var("LINERATE_SEED").map(|seed| seed.parse().unwrap());
    let drawn = || std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().subsec_nanos().into();
    [1, set.unwrap_or_else(|_| drawn())]
}

/// Checks that both routers forward equally, packet by packet.
fn alike(validation: Validation) {
    let mut twins = Twins::new(validation);
    for (turn, seed) in seeds().into_iter().enumerate() {
        println!("seed {seed}");
        let mut draw = Draw::new(seed, turn);
        let (mut out, mut wrong) = (0, Vec::new());
        for at in 0..PACKETS {
            let (from, bytes) = draw.any();
            let case = twins.both(from, &bytes);
            out += case.ours.iter().map(Vec::len).sum::<usize>();
            if !case.explained() {
                wrong.push(format!(
                    "seed {seed}, packet {at}: {} in at {from}\n  ours {}\n  theirs {}",
                    hex(&bytes),
                    list(&case.ours),
                    list(&case.theirs)
                ));
            }
        }
        twins.theirs.quiet();
        twins.ours.holds();
        assert!(
            wrong.is_empty(),
            "{} of {PACKETS}, the first of which are\n{}",
            wrong.len(),
            wrong[..wrong.len().min(12)].join("\n")
        );
        assert!(out > PACKETS / 2, "{out} of {PACKETS}: they did something");
    }
}

#[test]
fn forwarding_without_source_validation() {
    isolated("forwarding_without_source_validation", || alike(Validation::Off));
}

#[test]
fn forwarding_with_loose_source_validation() {
    isolated("forwarding_with_loose_source_validation", || alike(Validation::Loose));
}

#[test]
fn forwarding_with_strict_source_validation() {
    isolated("forwarding_with_strict_source_validation", || alike(Validation::Strict));
}

/// Each known difference still occurs, and explains its example packet.
#[test]
fn known_differences_occur() {
    isolated("known_differences_occur", || {
        let mut twins = Twins::new(Validation::Off);
        let left: Vec<_> = KNOWN.iter().filter(|known| !shows(&mut twins, known)).collect();
        drop(twins);
        let mut twins = Twins::new(Validation::Strict);
        for known in left {
            assert!(shows(&mut twins, known), "no longer there: {} ({})", known.what, known.why);
        }
    });
}

/// Returns whether the example packet of a difference still shows it.
fn shows(twins: &mut Twins, known: &Known) -> bool {
    let (from, bytes) = (known.example)();
    let case = twins.both(from, &bytes);
    let out = format!("{}\n  ours {}\n  theirs {}", hex(&bytes), list(&case.ours), list(&case.theirs));
    assert!(case.explained(), "{} is not all: {out}", known.what);
    !case.explained_without(known)
}
