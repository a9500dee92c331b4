//! Measures the TSC ticks per call of the checksum, for the lengths that packets have and for each
//! implementation, and of the parsers.
//!
//! Run it with `cargo run --release -p linerate-wire --example checksum_speed`. Each result is the
//! minimum and the median of 201 samples of 2,000 calls, on data in the first-level cache. Calls
//! depend on each other only through `black_box`. This is a quick check during development, not a
//! measurement for publication.
#![allow(unsafe_code, reason = "_rdtsc")]

use linerate_wire as wire;
use std::hint::black_box;
use std::time::Instant;
use wire::checksum::{self, Kind, Partial};
use wire::{Proto, arp, eth, ip4, tcp, udp};

const CALLS: u64 = 2_000;
const SAMPLES: usize = 201;

#[cfg(target_arch = "x86_64")]
fn ticks() -> u64 {
    // SAFETY: RDTSC reads a register; every x86-64 has it.
    unsafe { std::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
fn ticks() -> u64 {
    use std::sync::LazyLock;
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    START.elapsed().as_nanos() as u64
}

fn report<T>(what: &str, mut call: impl FnMut() -> T) {
    let mut samples: Vec<f64> = (0..SAMPLES)
        .map(|_| {
            let start = ticks();
            for _ in 0..CALLS {
                black_box(call());
            }
            (ticks() - start) as f64 / CALLS as f64
        })
        .collect();
    samples.sort_by(f64::total_cmp);
    println!("{what:<44} {:>8.1} {:>8.1}", samples[0], samples[SAMPLES / 2]);
}

fn main() {
    let (start, from) = (Instant::now(), ticks());
    while start.elapsed().as_millis() < 50 {}
    let per_ns = (ticks() - from) as f64 / start.elapsed().as_nanos() as f64;
    println!("1 ns is {per_ns:.3} ticks; default kind {}", checksum::kind());
    println!("{:<44} {:>8} {:>8}", "ticks per call", "least", "median");
    report("nothing (the loop)", || black_box(1));

    let bytes: Vec<u8> = (0..65_536u32).map(|i| (i * 7 + i / 251) as u8).collect();
    let (src, dst) = ([1, 0, 0, 1].into(), [1, 0, 0, 2].into());
    let segment = &bytes[..30];
    report("pseudo header + 8 + 22 bytes, finish", || {
        let segment = black_box(segment);
        Partial::pseudo4(src, dst, Proto::UDP, segment.len() as u16).add(checksum::sum(segment)).finish()
    });
    report("header20, finish", || checksum::header20(black_box(bytes.first_chunk().unwrap())).finish());
    report("header_checksum_ok, 20", || ip4::header_checksum_ok(black_box(&bytes), 20));
    for len in [8, 20, 22, 30, 40, 63, 64, 128, 256, 576, 1480, 9000] {
        let slice = &bytes[..len];
        report(&format!("sum, {len} bytes"), || checksum::sum(black_box(slice)).finish());
    }
    for kind in Kind::available() {
        for len in [30, 64, 128, 256, 1480, 9000] {
            let slice = &bytes[..len];
            report(&format!("{kind}, {len} bytes"), || checksum::sum_with(kind, black_box(slice)).finish());
        }
    }
    let mut copy = vec![0; 9000];
    for len in [22, 1480, 9000] {
        report(&format!("copy_and_sum, {len} bytes"), || {
            checksum::copy_and_sum(black_box(&mut copy[..len]), black_box(&bytes[..len])).finish()
        });
        report(&format!("copy alone, {len} bytes"), || copy[..len].copy_from_slice(black_box(&bytes[..len])));
    }
    report("update16", || checksum::update16(black_box(1), black_box(2), black_box(3)));

    let mut packet = vec![0; 50];
    let header = ip4::Header::new(src, dst, Proto::UDP, 30).unwrap();
    header.emit(packet.first_chunk_mut().unwrap());
    report("eth::Header::parse", || eth::Header::parse(black_box(&bytes[..64])));
    report("ip4::Header::parse", || ip4::Header::parse(black_box(&packet)));
    report("ip4::Header::emit", || black_box(&header).emit(packet.first_chunk_mut().unwrap()));
    report("ip4::decrement_ttl", || {
        packet[8..10].copy_from_slice(&[64, 17]);
        ip4::decrement_ttl(black_box(&mut packet))
    });
    let datagram = [0, 1, 0, 2, 0, 30, 0, 0].into_iter().chain([0; 22]).collect::<Vec<u8>>();
    report("udp::Header::parse", || udp::Header::parse(black_box(&datagram)));
    let header = udp::Header::parse(&datagram).unwrap();
    let pseudo = Partial::pseudo4(src, dst, Proto::UDP, 30);
    report("udp::Header::with_checksum, 22", || {
        black_box(&header).with_checksum(black_box(pseudo), black_box(&datagram[8..]))
    });
    report("tcp::Header::parse", || tcp::Header::parse(black_box(&packet[20..])));
    report("arp::Packet::parse", || arp::Packet::parse(black_box(&packet)));
}
