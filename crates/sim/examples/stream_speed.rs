//! Measures the throughput of a simulation: `cargo run --release -p linerate-sim --example
//! stream_speed` (`cargo xtask sim --speed`).
//!
//! One thread runs two hosts with one connection on virtual time; every byte is written and read
//! through the socket calls. The result is the number of bytes delivered per second of real time,
//! over links with delay, with loss, or without either. Run it on an idle machine.

use clock::Duration;
use linerate_sim::{End, HostId, World};
use socket::{Errno, Fd, Opt};
use std::net::{Ipv4Addr, SocketAddr};

const BYTES: usize = 64 << 20;
const TRIALS: usize = 15;
const CHUNK: usize = 64 << 10;
/// Virtual time between two turns of the application.
const TURN: Duration = Duration::from_micros(500);

/// Returns two hosts joined by `wire` and a connection: (world, host and descriptor of the sender,
/// host and descriptor of the receiver).
fn connected(wire: &str) -> (World, (HostId, Fd), (HostId, Fd)) {
    let mut world = World::new(1);
    let [a, b] = ["a", "b"].map(|name| world.add_host(name));
    let end = |host, last| End { host, addr: Ipv4Addr::new(10, 0, 0, last), len: 24 };
    world.link(end(a, 1), end(b, 2), wire, "").expect("a link");
    let calls = world.host(b).calls();
    let listener = calls.stream_socket().expect("a socket");
    calls.bind(listener, SocketAddr::from((Ipv4Addr::UNSPECIFIED, 80))).expect("a port");
    calls.listen(listener, 1).expect("a listener");
    calls.set_option(listener, Opt::NonBlocking(true)).expect("an option");
    let calls = world.host(a).calls();
    let client = calls.stream_socket().expect("a socket");
    calls.set_option(client, Opt::NonBlocking(true)).expect("an option");
    let to = SocketAddr::from((Ipv4Addr::new(10, 0, 0, 2), 80));
    assert_eq!(calls.connect(client, to), Err(Errno::EINPROGRESS));
    let server = loop {
        world.run_for(Duration::from_millis(1));
        if let Ok((fd, _)) = world.host(b).calls().accept(listener) {
            break fd;
        }
    };
    world.host(b).calls().set_option(server, Opt::NonBlocking(true)).expect("an option");
    (world, (a, client), (b, server))
}

/// Returns the number of bytes delivered per second.
fn trial(wire: &str) -> f64 {
    let (world, (a, client), (b, server)) = connected(wire);
    let (chunk, mut into) = (vec![7; CHUNK], vec![0; CHUNK]);
    let (mut sent, mut got) = (0, 0);
    let begun = std::time::Instant::now();
    while got < BYTES {
        while sent < BYTES {
            match world.host(a).calls().send(client, &chunk) {
                Ok(n) => sent += n,
                Err(_) => break,
            }
        }
        world.run_for(TURN);
        while let Ok(n @ 1..) = world.host(b).calls().recv(server, &mut into) {
            assert!(into.iter().take(n).all(|byte| *byte == 7));
            got += n;
        }
    }
    got as f64 / begun.elapsed().as_secs_f64()
}

fn main() {
    for (name, wire) in
        [("perfect link, 10 ms", "delay=10ms"), ("1 % lost, 10 ms", "loss=1%,delay=10ms"), ("no delay", "")]
    {
        let mut rates: Vec<f64> = (0..TRIALS).map(|_| trial(wire) / 1e6).collect();
        rates.sort_by(f64::total_cmp);
        let (low, median, high) = (rates[TRIALS / 4], rates[TRIALS / 2], rates[TRIALS - 1 - TRIALS / 4]);
        println!(
            "{name:22} {median:8.0} MB/s per core   quartiles {low:.0} to {high:.0}, n = {TRIALS}, {} MB each",
            BYTES >> 20
        );
    }
}
