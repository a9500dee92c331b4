//! Comparison of our bridge with other bridges: the same input frames must leave by the same ports.
//!
//! Without VLANs, the other bridge is the kernel's. With VLANs, it is Open vSwitch in user space,
//! and also the kernel's if it was built with VLANs. The other bridge has TAP devices as ports.
//! Ours has pairs of the library, in virtual time. Frames are drawn from a seed, which is printed
//! (`LINERATE_SEED` sets it), and are processed one by one. Where our bridge differs on purpose
//! (crates/bridge/differences.md), the other bridge is configured like ours, or ours like the
//! other, or the frame is not drawn. Each difference then has its own test here.

mod draw;
mod open_vswitch;
mod ours;
mod theirs;

use crate::common::{Rng, has, isolated};
use bridge::Stacked;
use draw::{For, Station, Tags, Vlans, frame};
use ours::Ours;
use std::time::Duration;
use theirs::Theirs;

const PORTS: usize = 4;
const FRAMES: usize = 3000;
const AGE_S: u64 = 300;
/// Seed of the run that is the same each time.
const FIXED: u64 = 1;

/// Frames that left by each port.
type Out = Vec<Vec<Vec<u8>>>;

/// Configuration of both bridges.
#[derive(Clone, Copy)]
struct Plan {
    /// Number of forwarding loops of our bridge.
    lanes: usize,
    vlans: Vlans,
    age_s: u64,
}

struct Twins {
    ours: Ours,
    theirs: Theirs,
}

impl Twins {
    fn new(plan: Plan, rng: &mut Rng) -> Twins {
        let sets = plan.vlans.draw(rng, PORTS);
        Twins { ours: Ours::new(plan, &sets), theirs: Theirs::new(plan, &sets) }
    }

    fn with_open_vswitch(plan: Plan, rng: &mut Rng) -> Twins {
        let sets = plan.vlans.draw(rng, PORTS);
        println!("{sets:?}");
        Twins { ours: Ours::new(plan, &sets), theirs: Theirs::open_vswitch(&sets) }
    }

    /// Passes a frame to both bridges. Returns the frames that left ours and the other.
    fn both(&mut self, from: usize, bytes: &[u8]) -> (Out, Out) {
        let ours = self.ours.pass(from, bytes);
        let theirs = self.theirs.pass(from, bytes, ours.iter().map(Vec::len).sum());
        (ours, theirs)
    }

    #[track_caller]
    fn same(&mut self, from: usize, bytes: &[u8], what: &str) -> Out {
        let (ours, theirs) = self.both(from, bytes);
        assert!(
            ours == theirs,
            "{what}: {} in at {from}\nours   {}\ntheirs {}",
            hex(bytes),
            list(&ours),
            list(&theirs)
        );
        ours
    }

    /// Sends a frame until both bridges forward it equally, for at most two seconds: the kernel
    /// removes an expired address with a delay, which is long if the machine is busy.
    #[track_caller]
    fn same_soon(&mut self, from: usize, bytes: &[u8], what: &str) -> Out {
        for _ in 0..20 {
            let (ours, theirs) = self.both(from, bytes);
            if ours == theirs {
                return ours;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        self.same(from, bytes, what)
    }

    /// Lets `time` pass for both bridges.
    fn wait(&mut self, time: Duration) {
        std::thread::sleep(time);
        self.ours.wait(time);
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().take(40).map(|byte| format!("{byte:02x}")).collect()
}

fn list(out: &Out) -> String {
    out.iter().map(|frames| format!("{:?} ", frames.iter().map(|bytes| hex(bytes)).collect::<Vec<_>>())).collect()
}

/// Returns the ports by which frames left.
fn where_of(out: &Out) -> Vec<usize> {
    (0..PORTS).filter(|at| !out[*at].is_empty()).collect()
}

fn seeds() -> Vec<u64> {
    if let Ok(seed) = std::env::var("LINERATE_SEED") {
        return vec![seed.parse().unwrap()];
    }
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
    vec![FIXED, now.subsec_nanos().into()]
}

/// Checks that a run with the seed [`FIXED`] forwarded at least `least` frames, so that the
/// comparison is not one of dropped frames. With the VLANs of another seed it may be.
fn did_something(seed: u64, out: usize, least: usize) {
    println!("{out} frames left");
    assert!(seed != FIXED || out >= least, "{out} frames left, less than {least}");
}

/// Checks that our bridge and the kernel's forward equally, frame by frame.
fn alike(plan: Plan) {
    for seed in seeds() {
        println!("seed {seed}");
        let mut rng = Rng(seed);
        let out = alike_by(Twins::new(plan, &mut rng), For::Kernel, FRAMES, &format!("seed {seed}"), &mut rng);
        did_something(seed, out, FRAMES / 2);
    }
}

/// Checks that both bridges forward equally, frame by frame. Returns the number of frames that
/// left.
fn alike_by(mut twins: Twins, whose: For, frames: usize, what: &str, rng: &mut Rng) -> usize {
    let mut out = 0;
    for at in 0..frames {
        let (from, bytes) = draw::any(rng, PORTS, whose);
        let came = twins.same(from, &bytes, &format!("{what}, frame {at}"));
        out += came.iter().map(Vec::len).sum::<usize>();
    }
    twins.theirs.quiet();
    twins.ours.holds();
    out
}

/// Runs `body` in a namespace if Open vSwitch is installed; otherwise the test is skipped with a
/// message.
fn with_open_vswitch(test: &str, body: impl FnOnce()) {
    if open_vswitch::PROGRAMS.iter().all(|program| has(program)) {
        return isolated(test, body);
    }
    println!("skipped: {test}: Open vSwitch is not installed");
}

/// Compares with Open vSwitch for each seed. The VLANs of the ports are drawn from the seed, so
/// many short runs test more than a long one.
fn as_open_vswitch(lanes: usize, seeds: &[u64]) {
    const EACH: usize = 1000;
    let plan = Plan { lanes, vlans: Vlans::DrawnAsModes, age_s: AGE_S };
    for seed in seeds {
        println!("seed {seed}");
        let mut rng = Rng(*seed);
        let twins = Twins::with_open_vswitch(plan, &mut rng);
        let out = alike_by(twins, For::OpenVswitch, EACH, &format!("seed {seed}"), &mut rng);
        did_something(*seed, out, EACH / 4);
    }
}

fn where_the_kernel_has_vlans(test: &str, body: impl FnOnce()) {
    match theirs::has_vlans() {
        true => body(),
        false => println!(
            "not compared: {test}: this kernel was built without VLANs in its bridge, which no package gives it"
        ),
    }
}

#[test]
fn without_vlans() {
    isolated("without_vlans", || alike(Plan { lanes: 1, vlans: Vlans::None, age_s: AGE_S }));
}

#[test]
fn with_vlans() {
    let plan = Plan { lanes: 1, vlans: Vlans::Drawn, age_s: AGE_S };
    isolated("with_vlans", || where_the_kernel_has_vlans("with_vlans", || alike(plan)));
}

#[test]
fn with_vlans_on_two_loops() {
    let plan = Plan { lanes: 2, vlans: Vlans::Drawn, age_s: AGE_S };
    isolated("with_vlans_on_two_loops", || where_the_kernel_has_vlans("with_vlans_on_two_loops", || alike(plan)));
}

/// Access ports, and trunks with tagged and untagged native VLANs. Tests learning by VLAN, ingress
/// filtering and egress tags. The inner of two tags is payload.
#[test]
fn with_the_vlans_of_open_vswitch() {
    let seeds = [seeds(), (2..8).collect()].concat();
    with_open_vswitch("with_the_vlans_of_open_vswitch", || as_open_vswitch(1, &seeds));
}

#[test]
fn with_the_vlans_of_open_vswitch_on_two_loops() {
    let test = "with_the_vlans_of_open_vswitch_on_two_loops";
    with_open_vswitch(test, || as_open_vswitch(2, &seeds()));
}

/// An address from which no frame arrives is removed, and an address in use is not.
#[test]
fn addresses_age_out_as_in_the_kernel() {
    isolated("addresses_age_out_as_in_the_kernel", || {
        let mut twins = Twins::new(Plan { lanes: 1, vlans: Vlans::None, age_s: 4 }, &mut Rng(1));
        let (a, b, c) = (Station(1), Station(2), Station(3));
        let (to_a, to_b) = (frame(c, a.mac(), Tags::None), frame(c, b.mac(), Tags::None));
        twins.same(0, &frame(a, draw::ALL, Tags::None), "a speaks");
        twins.same(1, &frame(b, draw::ALL, Tags::None), "b speaks");
        assert_eq!(where_of(&twins.same(2, &to_a, "a is known")), [0]);
        twins.wait(Duration::from_millis(3000));
        twins.same(1, &frame(b, a.mac(), Tags::None), "b speaks again");
        twins.wait(Duration::from_millis(1300));
        assert_eq!(where_of(&twins.same_soon(2, &to_a, "a is forgotten")), [0, 1, 3]);
        assert_eq!(where_of(&twins.same(2, &to_b, "b is not")), [1]);
        twins.wait(Duration::from_millis(3000));
        assert_eq!(where_of(&twins.same_soon(2, &to_b, "b is too")), [0, 1, 3]);
        twins.ours.holds();
    });
}

/// Known differences: a kernel's bridge that runs no spanning tree forwards frames to the spanning
/// tree group. It also learns addresses from frames to reserved groups, unless configured
/// otherwise. Ours drops frames with two tags, unless a port is configured otherwise.
#[test]
fn known_differences_occur() {
    isolated("known_differences_occur", || {
        reserved_groups();
        where_the_kernel_has_vlans("known_differences_occur", two_tags);
    });
}

fn reserved_groups() {
    let mut twins = Twins::new(Plan { lanes: 1, vlans: Vlans::None, age_s: AGE_S }, &mut Rng(1));
    let (a, b) = (Station(1), Station(2));
    let (ours, theirs) = twins.both(0, &frame(a, draw::reserved(0), Tags::None));
    assert_eq!((where_of(&ours), where_of(&theirs)), (vec![], vec![1, 2, 3]), "no bridge forwards it: 802.1Q 8.6.3");
    twins.theirs.ip("link set br0 type bridge no_linklocal_learn 0 fdb_flush");
    twins.ours.flush();
    let (ours, theirs) = twins.both(0, &frame(a, draw::reserved(0xe), Tags::None));
    assert_eq!((where_of(&ours), where_of(&theirs)), (vec![], vec![]));
    let (ours, theirs) = twins.both(1, &frame(b, a.mac(), Tags::None));
    assert_eq!((where_of(&ours), where_of(&theirs)), (vec![0, 2, 3], vec![0]), "they have learned from it");
}

fn two_tags() {
    let mut twins = Twins::new(Plan { lanes: 1, vlans: Vlans::All, age_s: AGE_S }, &mut Rng(1));
    twins.ours.set_stacked(Stacked::Refuse);
    let (ours, theirs) = twins.both(0, &frame(Station(1), draw::ALL, Tags::Two(0x8100, 10, 20)));
    assert_eq!((where_of(&ours), where_of(&theirs)), (vec![], vec![1, 2, 3]));
}

/// Each difference from Open vSwitch, whose frames are not drawn, and its reason.
#[test]
fn known_differences_from_open_vswitch_occur() {
    with_open_vswitch("known_differences_from_open_vswitch_occur", || {
        let mut twins = Twins::with_open_vswitch(Plan { lanes: 1, vlans: Vlans::All, age_s: AGE_S }, &mut Rng(1));
        let (a, all) = (Station(1), draw::ALL);
        // 802.1Q 6.9.3 preserves drop eligibility.
        let (ours, theirs) = twins.both(0, &frame(a, all, Tags::One(0x1000 | 10)));
        assert_eq!((where_of(&ours), where_of(&theirs)), (vec![1, 2, 3], vec![1, 2, 3]));
        assert_eq!((ours[1][0][14], theirs[1][0][14]), (0x10, 0));
        // A provider tag is not a tag for a customer bridge (802.1Q 5.5), so the frame is untagged
        // and is not admitted.
        let (ours, theirs) = twins.both(0, &frame(a, all, Tags::Two(0x88a8, 10, 20)));
        assert_eq!((where_of(&ours), where_of(&theirs)), (vec![], vec![1, 2, 3]));
        // A group address cannot be a source (IEEE 802 8.2.2), and no station has the address 0.
        for src in [[0x01, 0, 0x5e, 0, 0, 1], [0; 6]] {
            let bytes = [&all[..], &src, &frame(a, all, Tags::One(10))[12..]].concat();
            let (ours, theirs) = twins.both(0, &bytes);
            assert_eq!((where_of(&ours), where_of(&theirs)), (vec![], vec![1, 2, 3]));
        }
        twins.ours.holds();
    });
}
