//! Measures the cost that a port adds to a bare loop over the same rings or devices. Run it with
//! `cargo run --release -p linerate-port --example forward_speed [TRIALS]`.
//!
//! The program runs in a separate network namespace. The kernel puts frames of 60 bytes (no FCS)
//! into a veth or TAP device; this is not timed. Then the frames are received, their addresses
//! swapped, and the frames sent back (or to a second TAP device); this is timed. The port and the
//! bare loop do this in turns, each over devices of its own.

use buf::{Burst, Pool, PoolConfig};
use clock::Instant;
use linerate_port::Port;
use linerate_port::os::netlink::Netlink;
use linerate_port::os::packet::tx::{Config, Slot, TxRing};
use linerate_port::os::{netns, packet as os};
use linerate_port::packet::{self, PacketConfig};
use linerate_port::tap::{self, TapConfig};
use std::time::{self, Duration};

const FRAMES: usize = 400;

/// Puts frames into an interface, from the kernel's side.
struct Generator {
    ring: TxRing,
    tail: usize,
}

impl Generator {
    fn new(name: &str) -> Generator {
        let config = Config { slots: 512, slot: 2048, vnet_hdr: false, qdisc_bypass: true };
        let index = os::iface(name).expect("an interface").index;
        Generator { ring: TxRing::open(index, &config).expect("a packet socket"), tail: 0 }
    }

    fn put(&mut self, frames: usize) {
        for _ in 0..frames {
            assert_eq!(self.ring.state(self.tail), Slot::Free);
            let frame = &mut self.ring.data(self.tail)[..60];
            frame.copy_from_slice(&[0; 60]);
            frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5]);
            self.ring.request(self.tail, 60);
            self.tail += 1;
        }
        self.ring.send().expect("sent");
        std::thread::sleep(Duration::from_millis(3)); // a block's time
    }
}

/// Runs one trial. Returns the nanoseconds per frame.
fn trial(generator: &mut Generator, mut step: impl FnMut() -> usize) -> f64 {
    generator.put(FRAMES);
    let (begin, mut done) = (time::Instant::now(), 0);
    while done < FRAMES && begin.elapsed() < Duration::from_secs(1) {
        done += step();
    }
    assert!(done >= FRAMES, "{done} frames");
    begin.elapsed().as_nanos() as f64 / done as f64
}

fn forward(
    rx: &mut dyn linerate_port::RxHalf,
    tx: &mut dyn linerate_port::TxHalf,
    swap: bool,
    burst: &mut Burst,
) -> usize {
    let got = rx.rx_burst(burst, 64, Instant::ZERO);
    if swap {
        for frame in burst.as_mut_slice() {
            let (dst, src) = frame.bytes_mut()[..12].split_at_mut(6);
            dst.swap_with_slice(src);
        }
    }
    tx.tx_burst(burst, Instant::ZERO);
    assert!(burst.is_empty());
    got
}

/// Prints the medians of both loops, and of the ratio in each pair of trials.
fn contest(name: &str, trials: usize, mut ours: impl FnMut() -> f64, mut bare: impl FnMut() -> f64) {
    let mut pairs: Vec<(f64, f64)> = (0..trials + 20).map(|_| (ours(), bare())).skip(20).collect();
    let middle = |figures: &mut Vec<f64>| {
        figures.sort_by(f64::total_cmp);
        let at = |share: usize| figures[figures.len() * share / 100];
        (at(50), at(25), at(75))
    };
    let mut ratios: Vec<f64> = pairs.iter().map(|(ours, bare)| bare / ours).collect();
    let (ratio, low, high) = middle(&mut ratios);
    let ours = middle(&mut pairs.iter().map(|pair| pair.0).collect());
    let bare = middle(&mut pairs.iter_mut().map(|pair| pair.1).collect());
    println!(
        "{name}: ours {:.0} ns/frame, bare {:.0}; speed against bare {ratio:.3} (quartiles {low:.3}..{high:.3}), n {trials}",
        ours.0, bare.0
    );
}

fn up(netlink: &mut Netlink, name: &str) {
    drop(std::fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1"));
    netlink.set_up(name).expect("up");
}

fn main() {
    let trials = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(200);
    netns::enter_new().expect("a namespace");
    let mut netlink = Netlink::open().expect("netlink");
    let pool = Pool::new(&PoolConfig::default()).expect("a pool");

    for (a, b) in [("ours", "ours.k"), ("bare", "bare.k")] {
        netlink.add_veth(a, b).expect("veth");
        up(&mut netlink, a);
        up(&mut netlink, b);
    }
    let config = PacketConfig::default();
    let (mut to_ours, mut to_bare) = (Generator::new("ours.k"), Generator::new("bare.k"));
    let mut port: Port = packet::open("ours", &config, &pool).expect("a port");
    let mut bare = packet::bare::Bare::open("bare", "bare", &config).expect("the bare loop");
    let mut burst = Burst::new();
    contest(
        "packet",
        trials,
        || trial(&mut to_ours, || forward(&mut *port.rx, &mut *port.tx, true, &mut burst)),
        || trial(&mut to_bare, || bare.step()),
    );
    drop(port);

    for (name, vnet_hdr) in [("tap, virtio header", true), ("tap", false)] {
        let config = TapConfig { up: true, vnet_hdr, ..TapConfig::default() };
        let [mut a, mut b] = ["tap0", "tap1"].map(|name| tap::open(name, &config, &pool).expect("a TAP"));
        let mut bare = tap::bare::Bare::open("tap2", "tap3", &config).expect("the bare loop");
        for name in ["tap0", "tap1", "tap2", "tap3"] {
            up(&mut netlink, name);
        }
        while forward(&mut *a.rx, &mut *b.tx, false, &mut burst) > 0 || bare.step() > 0 {}
        let (mut to_ours, mut to_bare) = (Generator::new("tap0"), Generator::new("tap2"));
        contest(
            name,
            trials,
            || trial(&mut to_ours, || forward(&mut *a.rx, &mut *b.tx, false, &mut burst)),
            || trial(&mut to_bare, || bare.step()),
        );
    }
}
