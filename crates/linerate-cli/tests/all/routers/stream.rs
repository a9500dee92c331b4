//! A stream of numbered datagrams, one each `LINERATE_STREAM_MS` milliseconds (10 by default), of
//! which the lost ones are counted.

use crate::common::setting;
use port::os::netns::Namespace;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

fn interval_ms() -> u64 {
    setting("LINERATE_STREAM_MS", 10) as u64
}

/// Returns the time for which the datagrams of a stream were lost, at most.
pub fn outage((_, lost): (u32, usize)) -> Duration {
    Duration::from_millis(lost as u64 * interval_ms())
}

/// Runs `during` while a stream passes between two namespaces, to the address `to` of the second.
/// Returns the number of datagrams sent and of those lost.
pub fn lost(ends: [&Namespace; 2], to: (Ipv4Addr, u16), during: impl FnOnce()) -> (u32, usize) {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let stream = Stream::start(scope, ends, to, &is_over);
        std::thread::sleep(Duration::from_millis(300));
        during();
        stream.end()
    })
}

struct Stream<'s> {
    is_over: &'s AtomicBool,
    receiver: std::thread::ScopedJoinHandle<'s, Vec<bool>>,
    sender: std::thread::ScopedJoinHandle<'s, u32>,
}

impl<'s> Stream<'s> {
    fn start<'e>(
        scope: &'s std::thread::Scope<'s, 'e>,
        [from, at]: [&Namespace; 2],
        to: (Ipv4Addr, u16),
        is_over: &'s AtomicBool,
    ) -> Stream<'s> {
        // Several flows, of which some take each path.
        let open = || [0; 8].map(|_| UdpSocket::bind("0.0.0.0:0").unwrap());
        let from = from.within(open).unwrap();
        let at = at.within(|| UdpSocket::bind(to).unwrap()).unwrap();
        at.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        let sender = scope.spawn(move || {
            let (began, pause, mut n) = (Instant::now(), interval_ms(), 0u32);
            while !is_over.load(Ordering::Relaxed) {
                // Refused while there is no route.
                let _ = from[n as usize % from.len()].send_to(&n.to_be_bytes(), to);
                n += 1;
                std::thread::sleep(
                    (began + Duration::from_millis(u64::from(n) * pause)).saturating_duration_since(Instant::now()),
                );
            }
            n
        });
        let receiver = scope.spawn(move || {
            let (mut seen, mut bytes) = (Vec::new(), [0; 4]);
            loop {
                match at.recv(&mut bytes) {
                    Ok(_) => {
                        let n = u32::from_be_bytes(bytes) as usize;
                        seen.resize(seen.len().max(n + 1), false);
                        seen[n] = true;
                    }
                    Err(_) if is_over.load(Ordering::Relaxed) => return seen,
                    Err(_) => {}
                }
            }
        });
        Stream { is_over, receiver, sender }
    }

    /// Ends the stream. Returns the number of datagrams sent and of those lost.
    fn end(self) -> (u32, usize) {
        std::thread::sleep(Duration::from_millis(300));
        self.is_over.store(true, Ordering::Relaxed);
        let sent = self.sender.join().unwrap();
        let seen = self.receiver.join().unwrap();
        (sent, sent as usize - seen.iter().filter(|seen| **seen).count())
    }
}
