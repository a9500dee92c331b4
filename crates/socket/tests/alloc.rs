//! Checks that no packet allocates memory: after a warm-up, sending, receiving, forwarding and
//! filtering no longer call the system's allocator.
//!
//! Implementing the allocator trait requires `unsafe`; the implementation only counts the calls and
//! passes them to the system's allocator.
#![allow(unsafe_code)]

use buf::{Burst, Frame, Pool, PoolConfig};
use clock::Instant;
use inet::iface::{IfaceAddr, IfaceId, Offload, Output};
use inet::{Config, Stack};
use linerate_socket::{Calls, Fd};
use lock::{Cx, How, Up};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use wire::Mac;

thread_local! {
    static TAKEN: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: all memory comes from the system's allocator, and counting allocates no memory.
unsafe impl GlobalAlloc for Counting {
    // SAFETY: the caller's obligations are those of the system's allocator.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        TAKEN.set(TAKEN.get() + 1);
        // SAFETY: the arguments are passed on unchanged.
        unsafe { System.alloc(layout) }
    }

    // SAFETY: the caller's obligations are those of the system's allocator.
    unsafe fn realloc(&self, old: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        TAKEN.set(TAKEN.get() + 1);
        // SAFETY: the arguments are passed on unchanged.
        unsafe { System.realloc(old, layout, size) }
    }

    // SAFETY: the caller's obligations are those of the system's allocator.
    unsafe fn dealloc(&self, old: *mut u8, layout: Layout) {
        // SAFETY: the arguments are passed on unchanged.
        unsafe { System.dealloc(old, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Returns the number of allocations of this thread in a thousand calls of `work`, after a hundred
/// calls that are not counted.
fn taken(mut work: impl FnMut()) -> u64 {
    (0..100).for_each(|_| work());
    let before = TAKEN.get();
    (0..1000).for_each(|_| work());
    TAKEN.get() - before
}

/// The bytes of a transmitted frame. An empty vector requests a copy of the next frame.
type Kept = Arc<Mutex<Option<Vec<u8>>>>;
/// A MAC address and an IPv4 address.
type Station = (Mac, Ipv4Addr);

/// Drops transmitted frames, but copies the first one after a request in [`Kept`].
struct Sink(Kept);

impl Output for Sink {
    fn output(&mut self, burst: &mut Burst, _: Instant) -> usize {
        let frames = burst.len();
        let mut kept = self.0.lock().unwrap();
        for frame in burst.drain() {
            if kept.as_ref().is_some_and(Vec::is_empty) {
                *kept = Some(frame.bytes().to_vec());
            }
        }
        frames
    }
}

const EM0: IfaceId = IfaceId(1);
const HOST: Station = (Mac([2, 0, 0, 0, 0, 1]), Ipv4Addr::new(10, 0, 0, 1));
const PEER: Station = (Mac([2, 0, 0, 0, 0, 2]), Ipv4Addr::new(10, 0, 0, 2));
const BEYOND: Station = (Mac([2, 0, 0, 0, 1, 2]), Ipv4Addr::new(10, 0, 1, 2));

fn cx() -> Cx {
    Cx::enter(How::Register, Instant::from_millis(1))
}

/// Creates a host with an iface for each link. A link consists of the host's own addresses and
/// those of the neighbor. Also returns the storage into which transmitted frames are copied.
fn host(links: &[(Station, Station)]) -> (Stack<Up>, Kept) {
    let pool = Pool::new(&PoolConfig { buffers: 256, ..PoolConfig::default() }).unwrap();
    let stack = Stack::new(cx(), Config { seed: Some(1), ..Config::new("h", pool) });
    let kept = Arc::new(Mutex::new(None));
    for (n, (own, neighbor)) in links.iter().enumerate() {
        let id = stack.add_iface(&format!("em{n}"), own.0, 1500, Offload::default()).unwrap();
        stack.set_output(cx(), id, Some(Box::new(Sink(kept.clone()))));
        stack.add_addr(cx(), id, IfaceAddr { addr: own.1, len: 24 }).unwrap();
        stack.set_neighbor(cx(), id, neighbor.1, neighbor.0);
    }
    stack.flush(cx());
    (stack, kept)
}

/// Returns the frame in which PEER sends a datagram to `to`. A destination that is not on the link
/// is reached through HOST.
fn frame_to(to: SocketAddr) -> Vec<u8> {
    let (peer, kept) = host(&[(PEER, HOST)]);
    peer.add_route(cx(), "0.0.0.0/0".parse().unwrap(), inet::route::Via::Gateway(EM0, HOST.1)).unwrap();
    let calls = Calls::new(&peer, cx());
    let fd = calls.socket().unwrap();
    *kept.lock().unwrap() = Some(Vec::new());
    calls.send_to(fd, b"twenty-two bytes of it", &to).unwrap();
    peer.flush(cx());
    kept.lock().unwrap().take().unwrap()
}

fn arrives(stack: &Stack<Up>, bytes: &[u8], frames: usize) {
    let mut burst = Burst::new();
    for _ in 0..frames {
        let mut frame: Frame = stack.pool.get().unwrap();
        frame.extend(bytes).unwrap();
        burst.push(frame).unwrap();
    }
    stack.input(cx(), EM0, &mut burst);
    stack.poll(cx());
}

#[test]
fn the_allocator_is_counted() {
    assert_eq!(taken(|| drop(std::hint::black_box(Box::new(1)))), 1000);
}

#[test]
fn sending_allocates_nothing() {
    let (stack, _) = host(&[(HOST, PEER)]);
    let calls = Calls::new(&stack, cx());
    let fd = calls.socket().unwrap();
    let to = SocketAddr::from((PEER.1, 9));
    for cache in [1, 0] {
        stack.sysctls.header_cache.set(cache);
        assert_eq!(taken(|| assert_eq!(calls.send_to(fd, b"hello", &to), Ok(5))), 0, "header_cache {cache}");
    }
    stack.flush(cx());
}

#[test]
fn receiving_allocates_nothing() {
    let (stack, _) = host(&[(HOST, PEER)]);
    let calls = Calls::new(&stack, cx());
    let fd: Fd = calls.socket().unwrap();
    let here = SocketAddr::from((HOST.1, 9));
    calls.bind(fd, here).unwrap();
    let bytes = frame_to(here);
    let mut buffer = [0; 64];
    for frames in [1, 32] {
        let all = taken(|| {
            arrives(&stack, &bytes, frames);
            (0..frames).for_each(|_| assert_eq!(calls.recv_from(fd, &mut buffer).unwrap().0, 22));
        });
        assert_eq!(all, 0, "{frames} at a time");
    }
}

#[test]
fn forwarding_allocates_nothing() {
    let own = (Mac([2, 0, 0, 0, 1, 1]), Ipv4Addr::new(10, 0, 1, 1));
    let (stack, _) = host(&[(HOST, PEER), (own, BEYOND)]);
    stack.sysctls.forwarding.set(1);
    let bytes = frame_to(SocketAddr::from((BEYOND.1, 9)));
    for frames in [1, 32] {
        let before = stack.counter("inet.ip4.forwarded");
        assert_eq!(taken(|| arrives(&stack, &bytes, frames)), 0, "{frames} at a time");
        assert_eq!(stack.counter("inet.ip4.forwarded") - before, 1100 * frames as u64);
    }
}

#[test]
fn filtering_allocates_nothing() {
    let frame = frame_to(SocketAddr::from((HOST.1, 9)));
    for (text, matches) in [
        ("udp port 9", true),
        ("tcp port 443 and net 10.0.0.0/8", false),
        ("ether[0] & 1 = 0 and ip[8] > 1 and not (vlan or arp)", true),
        ("ip proto \\udp and (len - 14) * 2 < ip[2:2] * 4", true),
    ] {
        let filter = wire::filter::Filter::compile(text).unwrap();
        assert_eq!(taken(|| assert_eq!(filter.matches(&frame), matches, "{text}")), 0, "{text}");
    }
}
