//! Delivery of data that was written just before a stop request, between two hosts of one stack and
//! between two hosts of two stacks. The file has only one test, because a stop request stops all
//! hosts of the process.

use clock::Instant;
use linerate_node as node;
use lock::Locks;
use node::Host;
use node::config::{self, ServiceConfig};
use node::run::{Event, Program, Programs};
use socket::{Calls, Fd, Opt};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const BYTES: usize = 40_000;
/// Number of connections: one between the hosts of one stack, and two between the hosts of two
/// stacks.
const CONNECTIONS: usize = 3;

/// Returns the configuration of a writer and a reader on network 10.`net`.0.0/24, each with
/// `stacks` stacks.
fn pair(net: usize, stacks: usize) -> String {
    let host = |name: &str, last: usize| {
        format!(
            "[[host]]\nname = '{name}{net}'\nstacks = {stacks}\n[[host.service]]\nkind = 'netserver'\n\
             [[host.iface]]\nport = 'pair:ab{net}'\naddresses = ['10.{net}.0.{last}/24']\n"
        )
    };
    host("writer", 1) + &host("reader", 2)
}

#[derive(Clone, Default)]
struct Seen {
    connected: Arc<AtomicUsize>,
    read: Arc<AtomicUsize>,
    ended: Arc<AtomicUsize>,
}

/// Program that connects, and writes data when its host ends.
struct Writer<'h, L: Locks>(Calls<'h, L>, Fd, SocketAddr);

/// Program that accepts connections, and reads from them after its host has shut down.
struct Reader<'h, L: Locks>(Calls<'h, L>, Fd, Vec<Fd>, Seen);

impl<L: Locks> Program for Writer<'_, L> {
    fn turn(&mut self, now: Instant) -> usize {
        self.0.set_now(now);
        let _ = self.0.connect(self.1, self.2); // until it is connected
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
            self.2.push(fd);
            self.3.connected.fetch_add(1, Ordering::Release);
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
        for &fd in &self.2 {
            while let Ok(n) = self.0.recv(fd, &mut buffer) {
                self.3.read.fetch_add(n, Ordering::Release);
                if n == 0 {
                    self.3.ended.fetch_add(1, Ordering::Release);
                    break;
                }
            }
        }
    }
}

impl Programs for Seen {
    type Commands = node::control::NoCommands;

    fn open<'h, L: Locks>(&self, host: &'h Host<L>, _: ServiceConfig) -> Result<Box<dyn Program + 'h>, String> {
        let calls = host.shared_calls();
        let fd = calls.stream_socket().unwrap();
        calls.set_option(fd, Opt::NonBlocking(true)).unwrap();
        if let Some(net) = host.stack.name.strip_prefix("writer") {
            let to = format!("10.{}.0.2:7", &net[..1]).parse().unwrap();
            return Ok(Box::new(Writer(calls, fd, to)));
        }
        calls.bind(fd, "0.0.0.0:7".parse().unwrap()).unwrap();
        calls.listen(fd, 2).unwrap();
        Ok(Box::new(Reader(calls, fd, Vec::new(), self.clone())))
    }
}

#[test]
fn last_writes_arrive_when_hosts_are_stopped() {
    let seen = Seen::default();
    let waits = seen.clone();
    std::thread::spawn(move || {
        let deadline = std::time::Instant::now() + Duration::from_secs(30);
        while waits.connected.load(Ordering::Acquire) < CONNECTIONS && std::time::Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        dispatch::request_stop(); // as SIGTERM does
    });
    let mut notices = Vec::new();
    let hosts = config::read(&(pair(1, 1) + &pair(2, 2)), "farewell.toml").unwrap();
    let outcomes = node::run::up_with(hosts, seen.clone(), |event| {
        if let Event::Notice(text) = event {
            notices.push(text.clone());
        }
    });
    assert!(outcomes.unwrap().iter().all(|outcome| outcome.is_balanced()));
    let all = [&seen.connected, &seen.read, &seen.ended].map(|count| count.load(Ordering::Acquire));
    assert_eq!(
        all,
        [CONNECTIONS, CONNECTIONS * BYTES, CONNECTIONS],
        "accepted connections, bytes and FINs: {notices:?}"
    );
    assert!(!notices.iter().any(|notice| notice.contains("acknowledge")), "{notices:?}");
}
