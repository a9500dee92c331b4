//! Hosts of one configuration that are told to stop: what their programs wrote last arrives. One test: the stop is the
//! process's.

use clock::Instant;
use linerate_node as node;
use lock::Locks;
use node::Host;
use node::config::{self, ServiceConfig};
use node::run::{Event, Program, Programs};
use socket::{Calls, Fd, Opt};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

const FILE: &str = r#"
[[host]]
name = "writer"
[[host.iface]]
port = "pair:ab"
addresses = ["10.1.0.1/24"]
[[host.service]]
kind = "netserver"
[[host]]
name = "reader"
[[host.iface]]
port = "pair:ab"
addresses = ["10.1.0.2/24"]
[[host.service]]
kind = "netserver"
"#;
const BYTES: usize = 40_000;

#[derive(Clone, Default)]
struct Seen {
    connected: Arc<AtomicBool>,
    read: Arc<AtomicUsize>,
    ended: Arc<AtomicBool>,
}

/// Connects, and writes when it is ended.
struct Writer<'h, L: Locks>(Calls<'h, L>, Fd);

/// Accepts, and reads when the host is gone.
struct Reader<'h, L: Locks>(Calls<'h, L>, Fd, Option<Fd>, Seen);

impl<L: Locks> Program for Writer<'_, L> {
    fn turn(&mut self, now: Instant) -> usize {
        self.0.set_now(now);
        let _ = self.0.connect(self.1, "10.1.0.2:7".parse().unwrap()); // until it is connected
        0
    }

    fn next_timer(&self) -> Option<Instant> {
        None
    }

    fn end(&mut self) {
        assert_eq!(self.0.send(self.1, &[1; BYTES]), Ok(BYTES));
        self.0.close(self.1).unwrap();
    }
}

impl<L: Locks> Program for Reader<'_, L> {
    fn turn(&mut self, now: Instant) -> usize {
        self.0.set_now(now);
        if let Ok((fd, _)) = self.0.accept(self.1) {
            self.0.set_option(fd, Opt::NonBlocking(true)).unwrap();
            self.2 = Some(fd);
            self.3.connected.store(true, Ordering::Release);
        }
        0
    }

    fn next_timer(&self) -> Option<Instant> {
        None
    }
}

impl<L: Locks> Drop for Reader<'_, L> {
    fn drop(&mut self) {
        let mut buffer = vec![0; BYTES];
        while let Some(Ok(n)) = self.2.map(|fd| self.0.recv(fd, &mut buffer)) {
            self.3.read.fetch_add(n, Ordering::Release);
            if n == 0 {
                return self.3.ended.store(true, Ordering::Release);
            }
        }
    }
}

impl Programs for Seen {
    fn open<'h, L: Locks>(&self, host: &'h Host<L>, _: ServiceConfig) -> Result<Box<dyn Program + 'h>, String> {
        let calls = host.shared_calls();
        let fd = calls.stream_socket().unwrap();
        calls.set_option(fd, Opt::NonBlocking(true)).unwrap();
        if host.stack.name == "writer" {
            return Ok(Box::new(Writer(calls, fd)));
        }
        calls.bind(fd, "0.0.0.0:7".parse().unwrap()).unwrap();
        calls.listen(fd, 1).unwrap();
        Ok(Box::new(Reader(calls, fd, None, self.clone())))
    }
}

#[test]
fn what_programs_write_last_arrives_when_hosts_are_told_to_stop() {
    let seen = Seen::default();
    let waits = seen.clone();
    std::thread::spawn(move || {
        let deadline = std::time::Instant::now() + Duration::from_secs(30);
        while !waits.connected.load(Ordering::Acquire) && std::time::Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        dispatch::request_stop(); // as SIGTERM does
    });
    let mut notices = Vec::new();
    let hosts = config::read(FILE, "farewell.toml").unwrap();
    let outcomes = node::run::up_with(hosts, seen.clone(), |event| match event {
        Event::Notice(text) => notices.push(text.clone()),
        Event::Running { .. } => {}
    });
    assert!(outcomes.unwrap().iter().all(|outcome| outcome.is_balanced()));
    assert!(seen.connected.load(Ordering::Acquire));
    assert_eq!(seen.read.load(Ordering::Acquire), BYTES, "{notices:?}");
    assert!(seen.ended.load(Ordering::Acquire), "its FIN came too: {notices:?}");
    assert!(!notices.iter().any(|notice| notice.contains("acknowledge")), "{notices:?}");
}
