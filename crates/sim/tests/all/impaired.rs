//! Streams over links that reorder, duplicate, lose and corrupt frames, with fixed seeds.
//! The tests check that retransmissions are not much more than the losses, that a reduction of the
//! congestion window is not undone after a real loss (RFC 3522, RFC 3708, RFC 4015, RFC 8985 6.2),
//! and that corruption is detected.

use clock::Duration;
use linerate_sim::World;
use linerate_sim::shape::from_toml;
use socket::{Errno, Opt};
use std::net::{Ipv4Addr, SocketAddr};

const BYTES: usize = 1_000_000;

/// Counters of the sender after a stream of [`BYTES`].
#[derive(Debug)]
struct Seen {
    /// Data segments sent, including retransmissions.
    sent: u64,
    again: u64,
    /// Number of frames that the link lost.
    lost: u64,
    episodes: u64,
    undone: u64,
    took: Duration,
}

/// Sends a stream from `a` to `b` through `impair(FAULTS)`, with or without timestamps; the delay
/// in each direction is 5 ms.
fn stream(faults: &str, timestamps: bool, seed: u64) -> Seen {
    stream_of(BYTES, faults, "impair(delay=5ms):pair:x", timestamps, seed)
}

fn stream_of(bytes: usize, faults: &str, far: &str, timestamps: bool, seed: u64) -> Seen {
    let rfc1323 = if timestamps { 1 } else { 2 };
    let host = |name: &str, port: &str, address: &str| {
        format!(
            "[[host]]\nname = '{name}'\n[host.sysctl]\n\"net.inet.tcp.rfc1323\" = {rfc1323}\n[[host.iface]]\nport = '{port}'\n\
             addresses = ['{address}/24']\n"
        )
    };
    let near = format!("impair({faults},delay=5ms,limit=10000):pair:x");
    let text = host("a", &near, "10.0.0.1") + &host("b", far, "10.0.0.2");
    let mut world = from_toml(&text, "undo.toml", seed).unwrap();
    let took = transfer(&mut world, bytes);
    let stack = &world.host(world.host_named("a").unwrap()).stack;
    let port = &world.host(world.host_named("a").unwrap()).ports()[0].counts.tx;
    Seen {
        sent: stack.counter("tcp.out.data"),
        again: stack.counter("tcp.out.retransmitted"),
        lost: port.impaired.get() + port.queue_full.get(),
        episodes: stack.counter("tcp.recovery.sack_episodes"),
        undone: stack.counter("tcp.recovery.undone_by_dsack")
            + stack.counter("tcp.recovery.undone_by_timestamp")
            + stack.counter("tcp.recovery.spurious_rtos"),
        took,
    }
}

/// Sends `most` bytes from `a` to `b`, and checks that they arrive unchanged. Returns the virtual
/// time of the transfer.
fn transfer(world: &mut World, most: usize) -> Duration {
    let (from, to) = (world.host_named("a").unwrap(), world.host_named("b").unwrap());
    let at: SocketAddr = "10.0.0.2:8000".parse().unwrap();
    let calls = world.host(to).calls();
    let listener = calls.stream_socket().unwrap();
    calls.bind(listener, at).unwrap();
    calls.listen(listener, 1).unwrap();
    calls.set_option(listener, Opt::NonBlocking(true)).unwrap();
    let calls = world.host(from).calls();
    let near = calls.stream_socket().unwrap();
    calls.set_option(near, Opt::NonBlocking(true)).unwrap();
    assert_eq!(calls.connect(near, at), Err(Errno::EINPROGRESS));
    let bytes: Vec<u8> = (0..most).map(|i| (i * 7 + (i >> 8)) as u8).collect();
    let (begin, mut sent, mut got, mut far, mut into) = (world.now(), 0, Vec::new(), None, vec![0; 65_536]);
    while got.len() < most {
        assert!(world.now().since(begin) < Duration::from_secs(120), "{} of {most} bytes", got.len());
        world.run_for(Duration::from_micros(500));
        let calls = world.host(from).calls();
        while sent < most
            && let Ok(some) = calls.send(near, &bytes[sent..])
        {
            sent += some;
        }
        let calls = world.host(to).calls();
        far = far.or_else(|| calls.accept(listener).ok().map(|(fd, _)| fd));
        if let Some(fd) = far {
            calls.set_option(fd, Opt::NonBlocking(true)).unwrap();
            while let Ok(some @ 1..) = calls.recv(fd, &mut into) {
                got.extend_from_slice(&into[..some]);
            }
        }
    }
    assert!(got == bytes, "byte-exact");
    world.now().since(begin)
}

/// Without loss there are few retransmissions, and most reductions of the congestion window are
/// undone.
#[test]
fn reordering_causes_few_retransmissions() {
    for (faults, most) in [("reorder=2%", 10), ("reorder=10%", 25), ("reorder=2%,gap=5", 10), ("reorder=2%,dup=1%", 10)]
    {
        for (seed, timestamps) in [(1, true), (2, true), (3, true), (1, false), (2, false)] {
            let seen = stream(faults, timestamps, seed);
            assert_eq!(seen.lost, 0, "{faults} timestamps {timestamps} seed {seed}: {seen:?}");
            assert!(seen.again * 100 <= seen.sent * most, "{faults} timestamps {timestamps} seed {seed}: {seen:?}");
            assert!(seen.undone * 2 >= seen.episodes || faults.contains("dup"), "{faults} seed {seed}: {seen:?}");
        }
    }
}

/// Segments that overtake others by a whole round trip make the minimum round-trip time almost 0,
/// and RFC 8985 6.2 derives the reordering window from that minimum. Once D-SACKs indicate that the
/// window is too short, it is derived from the smoothed round-trip time. Without that rule, a
/// transfer took twenty times as long as without reordering.
#[test]
fn segments_that_overtake_by_a_round_trip_cost_little() {
    for seed in 1..=5 {
        let plain = stream_of(4 * BYTES, "dup=0%", "pair:x", true, seed).took;
        for faults in ["reorder=2%", "reorder=10%"] {
            let seen = stream_of(4 * BYTES, faults, "pair:x", true, seed);
            assert!(seen.again * 5 <= seen.sent, "{faults} seed {seed}: {seen:?}");
            assert!(seen.took <= plain * 5, "{faults} seed {seed}: {plain:?} without, {seen:?}");
        }
    }
}

/// Frames duplicated by the network do not undo a reduction of the congestion window (RFC 3708 3),
/// and little more than the lost segments is retransmitted.
#[test]
fn a_real_loss_is_not_undone() {
    for faults in ["loss=1%", "dup=5%", "loss=1%,dup=2%", "loss=3%", "loss=2%,dup=10%"] {
        for (seed, timestamps) in [(1, true), (2, true), (3, true), (1, false), (2, false), (3, false)] {
            let seen = stream(faults, timestamps, seed);
            assert_eq!(seen.undone, 0, "{faults} timestamps {timestamps} seed {seed}: {seen:?}");
            assert!(seen.again <= seen.lost + seen.lost / 2 + 2, "{faults} seed {seed}: {seen:?}");
        }
    }
}

/// A frame is corrupted after its checksum is computed, even with checksum offload. Otherwise the
/// checksum would cover the corrupted data, and the receiver would accept it.
#[test]
fn corruption_is_detected_with_checksum_offload() {
    for (options, seed) in [("", 1), ("(csum=on)", 2), ("(tso=on)", 3), ("(csum=on,tso=on)", 4)] {
        let host = |name: &str, address: &str| {
            format!(
                "[[host]]\nname = '{name}'\n[[host.iface]]\nport = 'impair(corrupt=3%,delay=1ms):pair{options}:x'\n\
                 addresses = ['{address}/24']\n"
            )
        };
        let text = host("a", "10.0.0.1") + &host("b", "10.0.0.2");
        let mut world = from_toml(&text, "damage.toml", seed).unwrap();
        let [a, b] = ["a", "b"].map(|name| world.host_named(name).unwrap());
        for (near, far, last) in [(a, b, 2), (b, a, 1)] {
            // Static neighbors, since ARP has no checksum.
            let mac = world.host(far).stack.iface(world.host(far).ports()[0].iface).unwrap().mac;
            let near = world.host(near);
            near.stack.set_neighbor(near.cx(), near.ports()[0].iface, Ipv4Addr::new(10, 0, 0, last), mac);
        }
        transfer(&mut world, BYTES);
        let corrupted = world.host(a).ports()[0].counts.tx.corrupted.get();
        let audit = world.host(b).stack.audit(world.host(b).cx());
        let dropped = world.host(b).stack.counter("inet.tcp.in.bad_checksum");
        assert!(corrupted >= 10 && dropped * 2 >= corrupted, "{options}: {dropped} of {corrupted}, {audit:?}");
        assert_eq!(world.imbalances(), [], "{options}");
    }
}
