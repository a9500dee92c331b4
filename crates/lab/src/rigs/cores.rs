//! Several cores: threads that do equal work at the same time, on disjoint hosts or on one shared
//! host (part 3 of the report rump2014). Also the memory of an idle host.
//!
//! On a shared host each thread has sockets, a port or a queue of a port, and a connection of its
//! own.

use super::tcp::{End, Ours, bulk};
use super::{PAYLOAD, recv, route};
use crate::os;
use crate::subject::{Reading, Subject};
use crate::tsc;
use anyhow::{Context, anyhow, ensure};
use clock::{Clock, Strategy};
use inet::fib::Prefix;
use inet::iface::IfaceAddr;
use inet::route::Via;
use inet::{Config, Stack};
use lock::{Cx, How, Light, Up};
use node::Host;
use node::config::{HostConfig, IfaceConfig};
use port::Pairs;
use port::pktgen::{self, Family, Source};
use rung::{AnyRig, Settings};
use socket::{Errno, Fd, Opt};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Barrier, mpsc};
use std::thread::JoinHandle;
use wire::Mac;

/// Number of datagrams that each thread sends or receives in a trial.
const CALLS: u64 = if cfg!(debug_assertions) { 2_000 } else { 50_000 };
/// Number of packets that each thread forwards in a trial.
const PACKETS: u64 = if cfg!(debug_assertions) { 2_000 } else { 200_000 };

/// Function that runs a thread's part of a trial and returns the number of its operations.
type Work = Box<dyn FnMut() -> anyhow::Result<u64>>;
/// Function that builds the work of a thread, on that thread. Its argument is the number of the
/// thread.
type Make = Arc<dyn Fn(usize) -> anyhow::Result<Work> + Send + Sync>;

struct Worker {
    orders: Option<mpsc::Sender<Arc<Barrier>>>,
    thread: Option<JoinHandle<()>>,
}

/// Rig in which `n` threads do equal work at the same time, each on its own core. The figure is the
/// wall-clock time divided by the operations of all threads together.
pub struct CoresRig {
    id: String,
    workers: Vec<Worker>,
    /// Results of a trial: (start in ticks, end in ticks, number of operations).
    answers: mpsc::Receiver<anyhow::Result<[u64; 3]>>,
    /// Function that checks that no frame was lost.
    check: Box<dyn Fn() -> anyhow::Result<()>>,
}

impl CoresRig {
    fn new(
        id: &str,
        n: usize,
        make: impl Fn(usize) -> anyhow::Result<Work> + Send + Sync + 'static,
        check: impl Fn() -> anyhow::Result<()> + 'static,
    ) -> anyhow::Result<CoresRig> {
        let (answer, answers) = mpsc::channel();
        let (make, mut workers): (Make, _) = (Arc::new(make), Vec::new());
        for at in 0..n {
            let (orders, inbox) = mpsc::channel::<Arc<Barrier>>();
            let (answer, make) = (answer.clone(), make.clone());
            let thread = dispatch::spawn_worker(&format!("core{at}"), Some(dispatch::core_at(at)), move |_| {
                let mut work = make(at);
                for start in inbox {
                    start.wait();
                    let begin = tsc::now();
                    let done = match &mut work {
                        Ok(work) => work(),
                        Err(why) => Err(anyhow!("{why:#}")),
                    };
                    if answer.send(done.map(|ops| [begin, tsc::now(), ops])).is_err() {
                        return;
                    }
                }
            })
            .context("cannot start a thread on its core")?;
            workers.push(Worker { orders: Some(orders), thread: Some(thread) });
        }
        Ok(CoresRig { id: id.to_owned(), workers, answers, check: Box::new(check) })
    }

    /// Creates `n` disjoint sending hosts, as configured by the settings line.
    ///
    /// # Errors
    /// A thread could not be created, or the settings line is invalid.
    pub fn hosts(id: &str, n: usize, settings: &str) -> anyhow::Result<CoresRig> {
        let settings: Settings = settings.parse()?;
        let make = move |_| -> anyhow::Result<Work> {
            // the pool belongs to this thread
            let mut rig = AnyRig::new(&settings).map_err(|why| anyhow!(why))?;
            Ok(Box::new(move || Ok(rig.send(CALLS, &PAYLOAD))))
        };
        CoresRig::new(id, n, make, || Ok(()))
    }

    /// Creates one host, configured by the settings line, that `n` threads share for sending.
    ///
    /// # Errors
    /// The host could not be created, or the settings line is invalid or lacks `locks=light`.
    pub fn send(id: &str, n: usize, settings: &str) -> anyhow::Result<CoresRig> {
        let settings: Settings = settings.parse()?;
        ensure!(settings.locks == rung::LockKind::Light, "a shared host needs locks=light");
        let rig = Arc::new(rung::Rig::<Light>::new(&settings).map_err(|why| anyhow!(why))?);
        let shared = rig.clone();
        let make = move |_| -> anyhow::Result<Work> {
            let rig = shared.clone();
            Ok(Box::new(move || Ok(rig.sender()?.send(CALLS, &PAYLOAD))))
        };
        let name = id.to_owned();
        CoresRig::new(id, n, make, move || {
            ensure!(rig.imbalance() == 0, "{name}: frames unaccounted for");
            Ok(())
        })
    }

    /// Creates one host that `n` threads share for receiving, each from its own port into its own
    /// socket.
    ///
    /// # Errors
    /// A port could not be added, or a socket call failed.
    pub fn receive(id: &str, n: usize) -> anyhow::Result<CoresRig> {
        let mut host: Host<Light> = Host::new(&recv::host_config("recv", "light"), live())?;
        host.divide(n);
        let host = Arc::new(host);
        for unit in 0..n as u16 {
            let mut iface = recv::iface(&format!("pktgen(id=off,udp_csum=on):pg{unit}"), Family::V4);
            iface.addresses.clear();
            iface.add_address(pktgen::net(Family::V4, unit, 1), 8);
            host.add_port(&iface, &Pairs::new())?;
        }
        let shared = host.clone();
        let make = move |at: usize| -> anyhow::Result<Work> {
            let host = shared.clone();
            let calls = host.shared_calls();
            let fd = calls.socket()?;
            calls.set_option(fd, Opt::NonBlocking(true))?;
            calls.bind(fd, SocketAddr::new(pktgen::net(Family::V4, at as u16, 1), recv::PORT))?;
            Ok(Box::new(move || receive(&host, at, fd)))
        };
        CoresRig::new(id, n, make, balanced(id, host))
    }

    /// Creates one router that `n` threads share, each of which forwards from its own port to
    /// another.
    ///
    /// # Errors
    /// A port could not be added.
    pub fn forward(id: &str, n: usize) -> anyhow::Result<CoresRig> {
        let config = HostConfig { name: "router".to_owned(), locks: "light".to_owned(), ..HostConfig::default() };
        let mut host: Host<Light> = Host::new(&config, live())?;
        host.divide(n);
        host.set_burst(32);
        host.stack.sysctls.forwarding.set(1);
        let host = Arc::new(host);
        let net = |unit: usize, host| match pktgen::net(Family::V4, unit as u16, host) {
            IpAddr::V4(addr) => addr,
            IpAddr::V6(_) => Ipv4Addr::UNSPECIFIED,
        };
        for at in 0..n {
            let (src, dst) = (net(at, 2).into(), net(100 + at, 2).into());
            let source = Source {
                src,
                dst,
                dst_mac: Mac([0xb2, 0, 0, 0, 1, at as u8]),
                ttl: 64,
                id: false,
                ..Source::default()
            };
            let name = format!("pg{at}");
            let port = pktgen::open(&name, Some(&source), &host.stack.pool);
            host.attach(&name, source.dst_mac, port, &route::iface(&format!("pktgen:{name}"), net(at, 1)))?;
        }
        for at in 0..n {
            let far = format!("pktgen(source=off):pg{}", 50 + at);
            let out = host.add_port(&route::iface(&far, net(50 + at, 1)), &Pairs::new())?;
            let (cx, gateway) = (host.cx(), net(50 + at, 2));
            host.stack.set_neighbor(cx, out, gateway, Mac([0x12, 0x23, 0x34, 0x45, 0x57, at as u8]));
            let prefix = Prefix::new(net(100 + at, 0), 24).map_err(|why| anyhow!("{why:?}"))?;
            host.stack.add_route(cx, prefix, Via::Gateway(out, gateway)).map_err(|why| anyhow!("{why:?}"))?;
        }
        let shared = host.clone();
        let make = move |at: usize| -> anyhow::Result<Work> {
            let host = shared.clone();
            let ports = host.ports();
            let out = ports.get(n + at).map(|port| port.counts.clone()).context("no output port")?;
            Ok(Box::new(move || {
                let before = out.tx.frames.get();
                let mut taken = 0;
                while taken < PACKETS {
                    taken += host.step_part(at).frames as u64;
                }
                ensure!(
                    out.tx.frames.get() - before == taken,
                    "{} of {taken} frames forwarded",
                    out.tx.frames.get() - before
                );
                Ok(taken)
            }))
        };
        CoresRig::new(id, n, make, balanced(id, host))
    }

    /// Creates one host that `n` threads share for sending streams. Each thread has one connection
    /// to a separate host, which the same thread runs.
    ///
    /// # Errors
    /// A port could not be added, or a connection failed.
    pub fn bulk(id: &str, n: usize) -> anyhow::Result<CoresRig> {
        let config = HostConfig { name: "near".to_owned(), locks: "light".to_owned(), ..HostConfig::default() };
        let mut host: Host<Light> = Host::new(&config, live())?;
        host.divide(n);
        let (host, pairs) = (Arc::new(host), Arc::new(Pairs::new()));
        for at in 0..n {
            host.add_port(&pair_iface(at, 1), &pairs)?;
        }
        let shared = host.clone();
        let make = move |at: usize| -> anyhow::Result<Work> {
            let mut bulk = connected(&shared, at, &pairs)?;
            Ok(Box::new(move || Ok(bulk.measured(bulk::BULK)?.ops)))
        };
        CoresRig::new(id, n, make, balanced(id, host))
    }
}

fn live() -> Clock {
    Clock::live(Strategy::TscScaled)
}

/// Returns a check that a host has lost no frame and dropped none.
fn balanced(id: &str, host: Arc<Host<Light>>) -> impl Fn() -> anyhow::Result<()> + use<> {
    let id = id.to_owned();
    move || {
        let audit = host.stack.audit(host.cx());
        ensure!(audit.imbalance() == 0 && audit.dropped == 0, "{id}: frames dropped or unaccounted for: {audit:?}");
        Ok(())
    }
}

fn receive(host: &Host<Light>, part: usize, fd: Fd) -> anyhow::Result<u64> {
    let (mut got, mut into) = (0, [0u8; 2048]);
    while got < CALLS {
        let calls = host.calls_at(host.step_part(part).now);
        loop {
            match &calls.recv_from(fd, &mut into) {
                Ok((len, from)) => {
                    std::hint::black_box((&into, *len, from));
                    got += 1;
                }
                Err(Errno::EAGAIN) => break,
                Err(error) => return Err((*error).into()),
            }
        }
    }
    Ok(got)
}

fn pair_addr(at: usize, host: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, at as u8, host)
}

fn pair_iface(at: usize, host: u8) -> IfaceConfig {
    IfaceConfig {
        addresses: vec![IfaceAddr { addr: pair_addr(at, host), len: 24 }],
        rxcsum: Some(false),
        ip4csum: false,
        udp4csum: Some(false),
        ..IfaceConfig::on(&format!("pair(slots=1024):p{at}"))
    }
}

/// The shared host's end of a connection, for the thread with this number.
struct Near {
    host: Arc<Host<Light>>,
    at: usize,
    fd: Fd,
    now: clock::Instant,
}

impl End for Near {
    fn send(&mut self, bytes: &[u8]) -> anyhow::Result<usize> {
        match self.host.calls_at(self.now).send(self.fd, bytes) {
            Err(Errno::EAGAIN) => Ok(0),
            sent => Ok(sent?),
        }
    }

    fn recv(&mut self, _: &mut [u8]) -> anyhow::Result<usize> {
        Ok(0) // it only sends
    }

    fn turn(&mut self) -> bool {
        let step = self.host.step_part(self.at);
        self.now = step.now;
        step.frames > 0
    }
}

/// Connects thread `at`'s part of the shared host with the host that the thread runs.
fn connected(near: &Arc<Host<Light>>, at: usize, pairs: &Pairs) -> anyhow::Result<bulk::Bulk<Box<dyn End>>> {
    let far: Host<Up> = Host::new(&HostConfig { name: format!("far{at}"), ..HostConfig::default() }, live())?;
    far.add_port(&pair_iface(at, 2), pairs)?;
    let to = SocketAddr::new(pair_addr(at, 2).into(), 5001);
    let listener = far.shared_calls().stream_socket()?;
    far.shared_calls().set_option(listener, Opt::NonBlocking(true))?;
    far.shared_calls().bind(listener, to)?;
    far.shared_calls().listen(listener, 1)?;
    let fd = near.shared_calls().stream_socket()?;
    near.shared_calls().set_option(fd, Opt::NonBlocking(true))?;
    match near.shared_calls().connect(fd, to) {
        Err(Errno::EINPROGRESS) | Ok(()) => {}
        Err(error) => return Err(error.into()),
    }
    for _ in 0..100_000 {
        let now = near.step_part(at).now;
        far.step();
        match far.shared_calls().accept(listener) {
            Ok((there, _)) => {
                far.shared_calls().set_option(there, Opt::NonBlocking(true))?;
                near.calls_at(now).set_option(fd, Opt::SendBuffer(bulk::BUFFER))?;
                let near = Near { host: near.clone(), at, fd, now };
                let ends: [Box<dyn End>; 2] = [Box::new(near), Box::new(Ours::new(far, there, false)?)];
                return Ok(bulk::Bulk::between(&format!("bulk{at}"), ends));
            }
            Err(Errno::EAGAIN) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(anyhow!("the host received no connection"))
}

impl Subject for CoresRig {
    fn id(&self) -> &str {
        &self.id
    }

    fn trial(&mut self) -> anyhow::Result<Reading> {
        let start = Arc::new(Barrier::new(self.workers.len()));
        let wall = os::monotonic_ns();
        for worker in &self.workers {
            let orders = worker.orders.as_ref().context("a worker thread has ended")?;
            orders.send(start.clone()).map_err(|_| anyhow!("a worker thread has ended"))?;
        }
        let (mut first, mut last, mut ops) = (u64::MAX, 0, 0);
        for _ in &self.workers {
            let [begin, end, done] = self.answers.recv()?.with_context(|| self.id.clone())?;
            (first, last, ops) = (first.min(begin), last.max(end), ops + done);
        }
        let wall_ns = os::monotonic_ns() - wall;
        (self.check)()?;
        // The measuring thread sleeps while its workers work, so its own processor time is
        // meaningless here.
        Ok(Reading { ops, ticks: last.saturating_sub(first), wall_ns, cpu_ns: wall_ns })
    }
}

impl Drop for CoresRig {
    fn drop(&mut self) {
        for worker in &mut self.workers {
            worker.orders = None;
        }
        for thread in self.workers.iter_mut().filter_map(|worker| worker.thread.take()) {
            drop(thread.join());
        }
    }
}

/// Returns the bytes of resident memory that one idle host adds, its pool not counted: the mean
/// over 2000 hosts on one pool.
///
/// # Errors
/// The pool could not be created, or /proc is unavailable.
pub fn idle_host_bytes() -> anyhow::Result<f64> {
    const HOSTS: usize = 2000; // more than freed memory could hide
    let pool = buf::Pool::new(&buf::PoolConfig { buffers: 64, ..buf::PoolConfig::default() })?;
    let cx = Cx::enter(How::Register, clock::Instant::ZERO);
    let host = |i: usize| -> Stack<Up> { Stack::new(cx, Config::new(&format!("idle{i}"), pool.clone())) };
    let warm = host(0); // not counted: memory that only the first host adds
    let before = os::resident()?;
    let hosts: Vec<Stack<Up>> = (1..=HOSTS).map(host).collect();
    let after = os::resident()?;
    drop((hosts, warm));
    Ok(after.saturating_sub(before) as f64 / HOSTS as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Rig = fn(usize) -> anyhow::Result<CoresRig>;

    /// Checks that every thread does its part of the operations of a trial.
    #[test]
    fn each_thread_does_its_share_of_operations() {
        let rigs: [(Rig, u64); 5] = [
            (|n| CoresRig::hosts("hosts", n, "locks=up"), CALLS),
            (|n| CoresRig::send("send", n, &format!("locks=light queues={n}")), CALLS),
            (|n| CoresRig::receive("recv", n), CALLS),
            (|n| CoresRig::forward("route", n), PACKETS),
            (|n| CoresRig::bulk("bulk", n), bulk::BULK as u64),
        ];
        for (rig, each) in rigs {
            for n in [1, 2] {
                let mut rig = rig(n).unwrap();
                assert_eq!(rig.workers.len(), n);
                for _ in 0..2 {
                    let (ops, most) = (rig.trial().unwrap().ops, n as u64 * (each + 256));
                    assert!((n as u64 * each..=most).contains(&ops), "{}: {ops} of {n} threads", rig.id);
                }
            }
        }
    }

    #[test]
    fn a_wrong_setting_is_an_error() {
        assert!(CoresRig::hosts("hosts", 1, "locks=no").is_err());
        assert!(CoresRig::send("shared", 2, "locks=up").is_err());
    }

    /// An idle host takes at least a thousand bytes; a pool would take megabytes.
    #[test]
    fn an_idle_host_takes_some_memory() {
        let bytes = idle_host_bytes().unwrap();
        assert!((1_000.0..1_000_000.0).contains(&bytes), "{bytes}");
    }
}
