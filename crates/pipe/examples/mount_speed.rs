//! Measures how fast a port is read as a file: runs `dd` alternately on a mounted generator and on
//! a tmpfs file with the same lines.
//!
//! `cargo run --release -p linerate-pipe --example mount_speed [-- PAYLOAD [ROUNDS]]`, with 22 or
//! 1472 as PAYLOAD, in bytes. Prints the median of each in GB/s, and the ratio of the medians.

use buf::{Pool, PoolConfig, PoolLocks};
use linerate_pipe::mount::{Options, serve};
use port::{Env, Pairs, Spec};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

const MIB: usize = 1 << 20;

fn main() {
    let mut words = std::env::args().skip(1).map(|word| word.parse::<usize>().unwrap());
    let (payload, rounds) = (words.next().unwrap_or(22), words.next().unwrap_or(11));
    let base = std::env::temp_dir().join(format!("lr-mount-speed-{}", std::process::id()));
    println!("{:>6} {:>6} {:>9} {:>9} {:>6}", "frame", "bs", "mount", "tmpfs", "ratio");
    let dir = base;
    std::fs::create_dir_all(&dir).unwrap();
    let pool = Pool::new(&PoolConfig { locks: PoolLocks::Light, data: 2048, ..PoolConfig::default() }).unwrap();
    let spec = Spec::parse(&format!("pktgen(size={payload}):pg0")).unwrap();
    let env = Env { pool: pool.clone(), pairs: &Pairs::new(), mac: wire::Mac([2, 0, 0, 0, 0, 1]), unit: 0 };
    let port = port::open(&spec, &env).unwrap();
    let options = Options {
        dir: dir.clone(),
        numbered: false,
        stamped: false,
        timed: true,
        ring: 4 * MIB,
        tick_ns: 8,
        stop: dispatch::stop_requested,
    };
    std::thread::scope(|scope| {
        let (ready, wait) = std::sync::mpsc::channel();
        let mounted = scope.spawn(move || serve(vec![(port, pool)], &options, |_| ready.send(()).unwrap()));
        if wait.recv().is_err() {
            println!("{}", mounted.join().unwrap().unwrap_err());
            return;
        }
        let file = Path::new("/dev/shm").join(format!("lr-mount-speed-{}", std::process::id()));
        dd(&dir.join("pg0"), &file, 4 * MIB, 256 * MIB);
        for block in [4096, 16_384, 65_536, 262_144, MIB, 4 * MIB] {
            // The amount is read in about a fifth of a second.
            let bytes = if block < 65_536 { 64 * MIB } else { 512 * MIB };
            let null = Path::new("/dev/null");
            let mut times: Vec<(f64, f64)> = (0..=rounds)
                .map(|_| (dd(&dir.join("pg0"), null, block, bytes), dd(&file, null, block, bytes.min(256 * MIB))))
                .collect();
            times.remove(0);
            let (mount, tmpfs) = (median(times.iter().map(|t| t.0)), median(times.iter().map(|t| t.1)));
            println!("{:>6} {block:>7} {mount:>8.2} {tmpfs:>9.2} {:>6.2}", payload + 42, mount / tmpfs);
        }
        std::fs::remove_file(&file).unwrap();
        assert!(Command::new("umount").arg(&dir).status().unwrap().success());
        mounted.join().unwrap().unwrap();
    });
}

/// Copies `bytes` bytes with `dd`, in blocks of `block` bytes; returns the speed in GB/s.
fn dd(from: &Path, to: &Path, block: usize, bytes: usize) -> f64 {
    let start = Instant::now();
    let output = Command::new("dd")
        .args([format!("if={}", from.display()), format!("of={}", to.display())])
        .args([format!("bs={block}"), format!("count={}", bytes / block)])
        .env("LC_ALL", "C")
        .output()
        .unwrap();
    let seconds = start.elapsed().as_secs_f64();
    // Reads return whole frames, so they are a little shorter than requested: the number of bytes
    // and the time are taken from the output of dd.
    let said = String::from_utf8_lossy(&output.stderr);
    let copied: f64 = said.lines().last().and_then(|line| line.split(' ').next()?.parse().ok()).unwrap();
    let own = said.lines().last().and_then(|line| line.split(", ").nth(2)?.trim_end_matches(" s").parse().ok());
    copied / own.unwrap_or(seconds) / 1e9
}

fn median(figures: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = figures.collect();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}
