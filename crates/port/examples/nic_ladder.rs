//! Ticks a frame of the driver of `nic:`, from bridge2004's first rung to its last, one tweak at a time.
//!
//! `cargo run --release -p linerate-port --example nic_ladder [copy|cold|move] [samples]`. Frames of 60 bytes (FCS not
//! included) come over an unpaced wire to one nic and leave by another; timed are `rx_burst` of 32, a look at each frame's
//! first line (what a bridge reads), and `tx_burst`; the two cards and the rig at the wires' ends run in between, untimed, on
//! the same core, pinned. The timer's own cost is taken off. It is a quick look while building, not a measurement of the lab.

use buf::mem::Pages;
use buf::{Burst, Kind, Pool, PoolConfig};
use clock::{Instant, tsc};
use linerate_port as port;
use port::nic::{self, Knobs, Parts};
use port::{RxHalf, TxHalf};
use std::hint::black_box;
use std::sync::Arc;

const BURST: usize = 32;
/// Bursts in a sample.
const ROUNDS: usize = 400;
/// Bursts that each ring is taken through before the first sample.
const WARM: usize = 400;

/// A rung: what it adds to those before it, and the pool it runs on.
struct Rung {
    name: &'static str,
    sets: &'static [(&'static str, &'static str)],
    kind: Kind,
    pages: Pages,
}

fn rungs() -> Vec<Rung> {
    let rung = |name, sets, kind, pages| Rung { name, sets, kind, pages };
    let (small, list, stack) = (Pages::Small, Kind::Freelist, Kind::Stack);
    vec![
        rung("first: as em was", &[], list, small),
        rung("T1 rx_tail_batch=64", &[("rx_tail_batch", "64")], list, small),
        rung("T2 tx_tail_batch=64", &[("tx_tail_batch", "64"), ("tx_flush", "poll")], list, small),
        rung("T3 tx_rs_every=32", &[("tx_rs_every", "32")], list, small),
        rung("T4 refill=pool (stack)", &[("refill", "pool")], stack, small),
        rung("T5 refill=stack", &[("refill", "stack")], stack, small),
        rung("T6 parse=late", &[("parse", "late")], stack, small),
        rung("T7 rings of 2048", &[("rx_ring", "2048"), ("tx_ring", "2048")], stack, small),
        rung("T9 2m pages", &[], stack, Pages::Huge2M),
        rung("T10 prefetch=4", &[("prefetch", "4")], stack, Pages::Huge2M),
        rung("T10 prefetch=8", &[("prefetch", "8")], stack, Pages::Huge2M),
        rung("T10 prefetch=16", &[("prefetch", "16")], stack, Pages::Huge2M),
        rung("T10 prefetch=32", &[("prefetch", "32")], stack, Pages::Huge2M),
    ]
}

/// Knobs as options of a port's name set them; later ones win.
fn knobs(dma: &str, sets: &[(&str, &str)]) -> Knobs {
    let knobs = Knobs::default();
    for (name, value) in std::iter::once(&("dma", dma)).chain(sets) {
        let spec = port::Spec::parse(&format!("nic({name}={value}):x")).expect("an option of nic");
        spec.port.options().for_each(|(option, value)| knobs.preset(option, value));
    }
    knobs
}

struct Rig {
    a: Parts,
    b: Parts,
    feed: nic::End,
    sink: nic::End,
    far_pool: Pool,
    burst: Burst,
    seen: u64,
}

/// Ticks of receiving, of looking, of sending.
#[derive(Clone, Copy, Default)]
struct Ticks([u64; 3]);

impl Rig {
    fn new(dma: &str, sets: &[(&str, &str)], kind: Kind, pages: Pages) -> Rig {
        let pool = |kind, pages| {
            Pool::new(&PoolConfig { buffers: 16384, kind, pages, ..PoolConfig::default() }).expect("memory")
        };
        let (a_end, feed) = nic::wire(1024);
        let (b_end, sink) = nic::wire(1024);
        let shared = pool(kind, pages);
        let make = |name, end| nic::assemble(name, knobs(dma, sets), 1500, Some(end), &shared).expect("a nic");
        let (a, b) = (make("em0", a_end), make("em1", b_end));
        let far_pool = pool(Kind::Stack, Pages::Small);
        Rig { a, b, feed, sink, far_pool, burst: Burst::new(), seen: 0 }
    }

    /// The part of the world that is not the driver.
    fn world(&mut self) {
        let now = Instant::ZERO;
        let mut burst = Burst::new();
        self.far_pool.get_burst_of(BURST, 60, &mut burst);
        burst.as_mut_slice().iter_mut().for_each(|frame| frame.bytes_mut()[..12].fill(2));
        self.feed.send(&mut burst, now);
        self.b.card.step(now);
        self.a.card.step(now);
        let mut gone = Burst::new();
        self.sink.take(&mut gone, 256, now);
    }

    fn driver(&mut self, ticks: &mut Ticks) {
        let now = Instant::ZERO;
        let t0 = tsc::ticks();
        self.a.rx.rx_burst(&mut self.burst, BURST, now);
        let t1 = tsc::ticks();
        for frame in self.burst.as_slice() {
            self.seen = self.seen.wrapping_add(u64::from(frame.bytes().first().copied().unwrap_or(0)));
        }
        black_box(self.seen);
        let t2 = tsc::ticks();
        self.b.tx.tx_burst(&mut self.burst, now);
        let t3 = tsc::ticks();
        for (sum, span) in ticks.0.iter_mut().zip([t1 - t0, t2 - t1, t3 - t2]) {
            *sum += span;
        }
    }

    /// Ticks a frame, each part.
    fn sample(&mut self, rounds: usize, empty: f64) -> [f64; 3] {
        let mut ticks = Ticks::default();
        let before = self.frames();
        for round in 0..rounds {
            self.world();
            self.driver(&mut ticks);
            if round % 2 == 1 {
                let from = tsc::ticks();
                self.b.tx.poll(Instant::ZERO); // the end of a round of polling
                ticks.0[2] += (tsc::ticks() - from).saturating_sub(empty as u64);
            }
        }
        let frames = (self.frames() - before) as f64;
        ticks.0.map(|sum| (sum as f64 - empty * rounds as f64) / frames)
    }

    fn frames(&self) -> u64 {
        self.b.nic.counts.tx_frames.get()
    }
}

/// Ticks between two reads of the counter with nothing between.
fn empty() -> f64 {
    let spans: Vec<u64> = (0..1001)
        .map(|_| {
            let from = tsc::ticks();
            tsc::ticks() - from
        })
        .collect();
    median(spans.iter().map(|span| *span as f64).collect())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

fn main() {
    let mut args = std::env::args().skip(1);
    let dma = args.next().unwrap_or_else(|| "copy".into());
    let samples: usize = args.next().and_then(|n| n.parse().ok()).unwrap_or(21);
    let empty = empty();
    println!(
        "dma={dma}; {:.3} GHz TSC; timer {empty} ticks; {samples} samples of {ROUNDS} bursts of {BURST}",
        tsc::hertz() as f64 / 1e9
    );
    println!("{:<26}{:>7}{:>7}{:>7}{:>9}{:>9}{:>7}{:>9}", "rung", "rx", "look", "tx", "driver", "all", "least", "Mpps");
    let mut sets: Vec<(&str, &str)> = Vec::new();
    let mut first = None;
    for rung in rungs() {
        sets.extend(rung.sets);
        let mut rig = Rig::new(&dma, &sets, rung.kind, rung.pages);
        rig.sample(WARM, empty);
        let figures: Vec<[f64; 3]> = (0..samples).map(|_| rig.sample(ROUNDS, empty)).collect();
        let part = |i: usize| median(figures.iter().map(|f| f[i]).collect());
        let driver: Vec<f64> = figures.iter().map(|f| f[0] + f[2]).collect();
        let all = median(figures.iter().map(|f| f[0] + f[1] + f[2]).collect());
        let least = driver.iter().copied().fold(f64::INFINITY, f64::min);
        let driver = median(driver);
        let times = *first.get_or_insert(driver) / driver;
        println!(
            "{:<26}{:>7.1}{:>7.1}{:>7.1}{:>9.1}{:>9.1}{:>7.1}{:>9.2}  {:.1} x",
            rung.name,
            part(0),
            part(1),
            part(2),
            driver,
            all,
            least,
            tsc::hertz() as f64 / all / 1e6,
            times
        );
        if sets.is_empty() || rung.name.starts_with("T3") {
            print!("{}", both(&rig.a.nic, &rig.b.nic));
        }
    }
}

/// What the bus allows: each frame crosses it twice, into one card's buffer and out to the other card.
fn both(a: &Arc<nic::Nic>, b: &Arc<nic::Nic>) -> String {
    let Some(model) = a.bus_model() else { return String::new() };
    let clocks = a.counts.bus_clocks() as f64 / a.counts.rx_frames.get() as f64
        + b.counts.bus_clocks() as f64 / b.counts.tx_frames.get() as f64;
    format!("  {model}: {clocks:.1} clocks a frame bridged, {:.2} Mpps allowed\n", model.hertz() as f64 / clocks / 1e6)
}
