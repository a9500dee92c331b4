//! The rows `sim.*`: the throughput of a simulation of two hosts with one connection.

use super::MEGABYTES;
use crate::side::Side;
use crate::study::Entry;
use crate::subject::{Reading, Subject, measure};
use anyhow::{Context, ensure};
use clock::Duration;
use sim::{End, HostId, World};
use socket::{Errno, Fd, Opt};
use std::net::{Ipv4Addr, SocketAddr};

/// Bytes of the stream in a trial.
const BYTES: usize = if cfg!(debug_assertions) { 1 << 20 } else { 32 << 20 };
const CHUNK: usize = 64 << 10;
/// Virtual time that passes between sending and receiving.
const TURN: Duration = Duration::from_micros(500);
/// Maximum number of [`TURN`]s without progress: more than the longest retransmission timeout.
const TURNS_MAX: usize = 1_000_000;

/// Returns the rows `sim.*`.
pub(super) fn entries() -> Vec<Entry> {
    let rows = [
        ("sim.delay", "delay=10ms", "a simulated stream over a link with 10 ms delay"),
        ("sim.loss", "loss=1%,delay=10ms", "a simulated stream over a link with 10 ms delay and 1 % loss"),
        ("sim.plain", "", "a simulated stream over a link without delay"),
    ];
    let entry = |(id, wire, title)| Entry::new(Side::new(id, move || Stream::new(id, wire)), title).unit(MEGABYTES);
    rows.map(entry).into()
}

/// A connection between two simulated hosts.
struct Stream {
    id: &'static str,
    world: World,
    from: (HostId, Fd),
    to: (HostId, Fd),
}

impl Stream {
    /// Joins two hosts by a link with the impairment `wire`, and connects them.
    fn new(id: &'static str, wire: &str) -> anyhow::Result<Stream> {
        let mut world = World::new(1);
        let [a, b] = ["a", "b"].map(|name| world.add_host(name));
        let end = |host, last| End { host, addr: Ipv4Addr::new(10, 0, 0, last), len: 24 };
        world.link(end(a, 1), end(b, 2), wire, "")?;
        let calls = world.host(b).calls();
        let listener = calls.stream_socket()?;
        calls.bind(listener, SocketAddr::from((Ipv4Addr::UNSPECIFIED, 80)))?;
        calls.listen(listener, 1)?;
        calls.set_option(listener, Opt::NonBlocking(true))?;
        let calls = world.host(a).calls();
        let client = calls.stream_socket()?;
        calls.set_option(client, Opt::NonBlocking(true))?;
        let connected = calls.connect(client, SocketAddr::from((Ipv4Addr::new(10, 0, 0, 2), 80)));
        ensure!(connected == Err(Errno::EINPROGRESS), "connect returned {connected:?}");
        let accepted = (0..1000).find_map(|_| {
            world.run_for(Duration::from_millis(1));
            world.host(b).calls().accept(listener).ok()
        });
        let (server, _) = accepted.context("no connection within a second of virtual time")?;
        world.host(b).calls().set_option(server, Opt::NonBlocking(true))?;
        Ok(Stream { id, world, from: (a, client), to: (b, server) })
    }

    /// Sends `bytes` bytes and receives them.
    fn run(&mut self, bytes: usize) -> anyhow::Result<()> {
        let Stream { world, from: (a, client), to: (b, server), .. } = self;
        let (chunk, mut into) = (vec![7; CHUNK], vec![0; CHUNK]);
        let (mut sent, mut received, mut idle) = (0, 0, 0);
        while received < bytes {
            while sent < bytes {
                match world.host(*a).calls().send(*client, &chunk[..CHUNK.min(bytes - sent)]) {
                    Ok(n) => sent += n,
                    Err(_) => break,
                }
            }
            world.run_for(TURN);
            idle += 1;
            while let Ok(n @ 1..) = world.host(*b).calls().recv(*server, &mut into) {
                ensure!(into.iter().take(n).all(|byte| *byte == 7), "other bytes arrived than were sent");
                (received, idle) = (received + n, 0);
            }
            ensure!(idle < TURNS_MAX, "no progress after {received} of {bytes} bytes");
        }
        Ok(())
    }
}

impl Subject for Stream {
    fn id(&self) -> &str {
        self.id
    }

    fn trial(&mut self) -> anyhow::Result<Reading> {
        let mut done = Ok(());
        let reading = measure(BYTES as u64, || done = self.run(BYTES));
        done.map(|()| reading)
    }
}
