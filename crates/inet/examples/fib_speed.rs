//! Measures the cost of one lookup in ticks of the TSC, for several distributions of routes, with
//! and without huge pages.
//!
//! `cargo run --release -p linerate-inet --example fib_speed [routes]`
//!
//! Addresses are uniformly random, or ("hits") inside routes drawn at random. With 64 k addresses,
//! the 4 MB of the array that they use stay in the cache; with 1 M they do not. `loads` is the
//! lower limit: only the reads from 64 MB at the same addresses.
#![allow(unsafe_code)]

use std::arch::x86_64::_rdtsc;
use std::collections::HashSet;
use std::hint::black_box;
use std::net::Ipv4Addr;
use std::time::Instant;

use linerate_inet::fib::{Fib, NextHopId, Prefix};

const SAMPLES: usize = 31;
const LOOKUPS: usize = 1 << 20;

/// Random number generator xorshift64* with a fixed seed: the same routes and addresses in every
/// run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) as u32
    }

    fn below(&mut self, end: u32) -> u32 {
        ((u64::from(self.next()) * u64::from(end)) >> 32) as u32
    }
}

/// Returns a prefix length, distributed as in the Internet's routing table of 2026 (in 1/1000).
fn bgp_length(random: &mut Random) -> u8 {
    match random.below(1000) {
        0..600 => 24,
        600..992 => [16, 17, 18, 19, 20, 20, 21, 21, 22, 22, 22, 22, 23, 23, 23][random.below(15) as usize],
        992..996 => 8 + random.below(8) as u8,
        _ => 25 + random.below(8) as u8,
    }
}

type LengthOf = fn(&mut Random) -> u8;

fn routes(count: usize, length: LengthOf) -> Vec<(Prefix, NextHopId)> {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let (mut seen, mut routes) = (HashSet::new(), Vec::with_capacity(count));
    while routes.len() < count {
        let addr = 0x0100_0000 + random.below(0xdf00_0000);
        let prefix = Prefix::new(Ipv4Addr::from_bits(addr), length(&mut random)).unwrap();
        if seen.insert(prefix) {
            routes.push((prefix, NextHopId::new(random.below(256)).unwrap()));
        }
    }
    routes
}

fn ticks() -> u64 {
    // SAFETY: every x86-64 has a TSC.
    unsafe { _rdtsc() }
}

fn ticks_per_ns() -> f64 {
    let (start, ticks_before) = (Instant::now(), ticks());
    while start.elapsed().as_millis() < 50 {}
    (ticks() - ticks_before) as f64 / start.elapsed().as_nanos() as f64
}

/// Returns the minimum and median ticks per lookup over bursts of `burst` addresses.
fn measure(addresses: &[u32], burst: usize, mut lookup: impl FnMut(&[u32])) -> (f64, f64) {
    let rounds = LOOKUPS / addresses.len();
    let mut sample = || {
        let start = ticks();
        for _ in 0..rounds {
            addresses.chunks_exact(burst).for_each(&mut lookup);
        }
        (ticks() - start) as f64 / (rounds * addresses.len()) as f64
    };
    let mut samples: Vec<f64> = (0..SAMPLES).map(|_| sample()).collect();
    samples.sort_by(f64::total_cmp);
    (samples[0], samples[SAMPLES / 2])
}

fn report(name: &str, fib: &Fib, array: &[u32], addresses: &[u32]) {
    print!("{name:<24}");
    let mut out = vec![None; 256];
    let one = measure(addresses, 1, |dst| {
        black_box(fib.lookup(Ipv4Addr::from_bits(dst[0])));
    });
    let bursts = [8, 32, 256].map(|burst| {
        measure(addresses, burst, |dst| {
            fib.lookup_burst(dst, &mut out[..burst]);
            black_box(&mut out);
        })
    });
    let loads = measure(addresses, 32, |dst| {
        black_box(dst.iter().fold(0, |sum: u32, &dst| sum.wrapping_add(array[(dst >> 8) as usize])));
    });
    for (least, median) in [one].into_iter().chain(bursts).chain([loads]) {
        print!(" {least:>5.1} {median:>5.1} |");
    }
    println!();
}

fn uniform(count: usize) -> Vec<u32> {
    let mut random = Random(7);
    (0..count).map(|_| random.next()).collect()
}

/// Returns addresses inside randomly selected routes.
fn hits(count: usize, routes: &[(Prefix, NextHopId)]) -> Vec<u32> {
    let mut random = Random(8);
    let mut inside = || {
        let (prefix, _) = routes[random.below(routes.len() as u32) as usize];
        prefix.addr().to_bits() | (random.next() & !prefix.netmask().to_bits())
    };
    (0..count).map(|_| inside()).collect()
}

fn trial(name: &str, routes: &[(Prefix, NextHopId)], huge_pages: bool) {
    let mut array = vec![0u32; 1 << 24];
    if huge_pages {
        buf::mem::advise_huge(&mut array);
    }
    array.fill(1);
    let pages = if huge_pages { "huge pages" } else { "4k pages" };
    let before = resident();
    let mut fib = if huge_pages { Fib::new().with_huge_pages() } else { Fib::new() };
    let start = Instant::now();
    for &(prefix, hop) in routes {
        fib.insert(prefix, hop).unwrap();
    }
    let inserted = start.elapsed();
    let (reserved, resident) = (fib.bytes() as f64 / 1e6, (resident() - before) as f64 / 1e6);
    report(&format!("{name} {pages} 64k"), &fib, &array, &uniform(1 << 16));
    report(&format!("{name} {pages} 1M"), &fib, &array, &uniform(1 << 20));
    report(&format!("{name} {pages} 1M hits"), &fib, &array, &hits(1 << 20, routes));
    let start = Instant::now();
    for &(prefix, _) in routes {
        black_box(fib.remove(prefix));
    }
    println!(
        "{name} {pages}: {reserved:.0} MB by bytes(), {resident:.0} MB resident; insert {:.2} s, remove {:.2} s",
        inserted.as_secs_f64(),
        start.elapsed().as_secs_f64()
    );
}

/// Returns the resident memory of this process in bytes.
fn resident() -> i64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<i64>().ok()).expect("a number of pages") * 4096
}

/// Measures the cost of adding and removing a /8 that covers many routes, and of a host route.
fn changes(routes: &[(Prefix, NextHopId)]) {
    let (mut fib, mut random) = (Fib::new(), Random(9));
    for &(prefix, hop) in routes {
        fib.insert(prefix, hop).unwrap();
    }
    for len in [8, 16, 24, 32] {
        let mut samples: Vec<f64> = (0..201)
            .map(|_| {
                let prefix = Prefix::new(Ipv4Addr::from_bits(random.next()), len).unwrap();
                let start = Instant::now();
                if fib.insert(prefix, NextHopId::new(999).unwrap()).unwrap().is_none() {
                    fib.remove(prefix);
                }
                start.elapsed().as_secs_f64() * 1e6 / 2.0
            })
            .collect();
        samples.sort_by(f64::total_cmp);
        println!("one change of a /{len}: least {:.2}, median {:.2} us", samples[0], samples[100]);
    }
}

fn main() {
    let count = std::env::args().nth(1).map_or(1_000_000, |n| n.parse().expect("a number of routes"));
    println!("TSC {:.3} GHz, {count} routes, {SAMPLES} samples of {LOOKUPS} lookups", ticks_per_ns());
    println!("ticks per lookup, least and median, in bursts of 1 | 8 | 32 | 256 | loads alone");
    let distributions: [(&str, LengthOf); 3] =
        [("bgp", bgp_length), ("/32", |_| 32), ("/9../32", |random| 9 + random.below(24) as u8)];
    for (name, length) in distributions {
        let routes = routes(count, length);
        trial(name, &routes, false);
        trial(name, &routes, true);
        if name == "bgp" {
            changes(&routes);
        }
    }
}
