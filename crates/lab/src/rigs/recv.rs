//! Receiving: on one thread, run to completion; and on two threads, where one (the puller) takes
//! frames from the port and the other reads the socket.

use crate::subject::{Reading, Subject, measure};
use anyhow::{Context, ensure};
use clock::{Clock, Strategy};
use lock::{Light, Up};
use node::Host;
use node::config::{HostConfig, IfaceConfig};
use port::Pairs;
use port::pktgen::{self, Family, flow_address};
use socket::{Calls, Domain, Errno, Fd, Opt, Poller};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Datagrams of a trial. Figures of an unoptimized build are for tests only.
const DATAGRAMS: u64 = if cfg!(debug_assertions) { 1_000 } else { 20_000 };
/// Destination L4 port of the datagrams.
pub(super) const PORT: u16 = 54_321;

pub(super) fn host_config(name: &str, locks: &str) -> HostConfig {
    let mut config = HostConfig { name: name.to_owned(), locks: locks.to_owned(), ..HostConfig::default() };
    config.clock = Strategy::TscScaled;
    config.sysctl.insert("net.inet6.ip6.dad_count".to_owned(), 0); // no other host is on the link
    config
}

pub(super) fn iface(spec: &str, family: Family) -> IfaceConfig {
    // Checksums are verified in software: `rxcsum` is off, although the generator could report them
    // as valid.
    let mut iface = IfaceConfig { rxcsum: Some(false), ..IfaceConfig::on(spec) };
    iface.add_address(pktgen::net(family, 0, 1), if family == Family::V4 { 8 } else { 64 });
    iface
}

/// One host with `sockets` sockets, all on one thread.
pub struct RecvRig {
    id: String,
    host: Host<Up>,
    poller: Poller<Up>,
    got: u64,
    ready: Vec<usize>,
    /// Number of datagrams of a trial. It is at least two per socket, so that a trial with many
    /// sockets does not measure only their warm-up.
    datagrams: u64,
}

impl RecvRig {
    /// Creates a rig. A single socket is bound. Several sockets are each connected to one of the
    /// generator's flows, which arrive in pseudo-random order.
    ///
    /// # Errors
    /// A socket call failed, or the port could not be added.
    pub fn new(id: &str, family: Family, sockets: u32) -> anyhow::Result<RecvRig> {
        let host: Host<Up> = Host::new(&host_config("recv", "up"), Clock::live(Strategy::TscScaled))?;
        let order = if sockets > 1 { "random" } else { "sequence" };
        let number = if family == Family::V4 { 4 } else { 6 };
        let spec = format!("pktgen(family={number},flows={sockets},order={order},id=off,udp_csum=on):pg0");
        host.add_port(&iface(&spec, family), &Pairs::new())?;
        let [own, remote] = [1, 2].map(|host| pktgen::net(family, 0, host));
        let own = SocketAddr::new(own, PORT);
        let poller = Poller::default();
        let calls = host.calls();
        for k in 0..sockets {
            let fd = calls.socket_of(Domain::of(&own))?;
            calls.set_option(fd, Opt::ReusePort(true))?;
            calls.set_option(fd, Opt::NonBlocking(true))?;
            calls.bind(fd, own)?;
            if sockets > 1 {
                let (addr, port) = flow_address(remote, k);
                calls.connect(fd, SocketAddr::new(addr, port))?;
            }
            calls.watch(&poller, fd)?;
        }
        let datagrams = DATAGRAMS.max(2 * u64::from(sockets));
        Ok(RecvRig { id: id.to_owned(), host, poller, got: 0, ready: Vec::new(), datagrams })
    }

    fn receive(&mut self, n: u64) -> anyhow::Result<()> {
        let calls = Calls::new(&self.host.stack, self.host.cx());
        let mut into = [0u8; 2048];
        let until = self.got + n;
        while self.got < until {
            self.host.step();
            self.ready.clear();
            self.poller.ready(&calls, 256, &mut self.ready);
            for &fd in &self.ready {
                loop {
                    // The result is used by reference. Moving the address out of it would cost 8
                    // ticks, since it would read 16 bytes that were just written in parts.
                    match &calls.recv_from(Fd(fd), &mut into) {
                        Ok((len, from)) => {
                            std::hint::black_box((&into, *len, from));
                            self.got += 1;
                        }
                        Err(Errno::EAGAIN) => break,
                        Err(error) => return Err((*error).into()),
                    }
                }
            }
        }
        Ok(())
    }
}

impl Subject for RecvRig {
    fn id(&self) -> &str {
        &self.id
    }

    fn trial(&mut self) -> anyhow::Result<Reading> {
        let before = self.got;
        let datagrams = self.datagrams;
        let mut done = Ok(());
        let mut reading = measure(datagrams, || done = self.receive(datagrams));
        done?;
        reading.ops = self.got - before;
        let audit = self.host.stack.audit(self.host.cx());
        ensure!(
            audit.imbalance() == 0 && audit.dropped == 0,
            "{}: frames dropped or unaccounted for: {audit:?}",
            self.id
        );
        Ok(reading)
    }
}

/// Rig for part 2 of the report rump2014: one thread (the puller) takes frames from the port and
/// delivers them to the socket, and another thread reads the socket.
pub struct TwoThreadsRig {
    id: String,
    host: Arc<Host<Light>>,
    fd: Fd,
    stop: Arc<AtomicBool>,
    /// Number of datagrams that the puller may pull, over all trials.
    wanted: Arc<AtomicU64>,
    /// Number of datagrams that the puller has pulled: at most a burst more than `wanted`.
    pulled: Arc<AtomicU64>,
    read: u64,
    puller: Option<JoinHandle<()>>,
}

impl TwoThreadsRig {
    /// Creates a rig with its puller on `puller_core`; the reader is the thread that runs the
    /// trial.
    ///
    /// # Errors
    /// A socket call failed, or the port or the puller's thread could not be created.
    pub fn new(id: &str, puller_core: usize) -> anyhow::Result<TwoThreadsRig> {
        let config = HostConfig { pool_buffers: 16_384, ..host_config("recv2", "light") };
        let host: Arc<Host<Light>> = Arc::new(Host::new(&config, Clock::live(Strategy::TscScaled))?);
        host.add_port(&iface("pktgen(id=off,udp_csum=on):pg0", Family::V4), &Pairs::new())?;
        let calls = host.shared_calls();
        let fd = calls.socket()?;
        calls.bind(fd, "1.0.0.1:54321".parse()?)?;
        calls.set_option(fd, Opt::RecvBuffer(8 << 20))?;
        calls.set_option(fd, Opt::NonBlocking(true))?;
        let stop = Arc::new(AtomicBool::new(false));
        let [wanted, pulled] = [0, 0].map(|none| Arc::new(AtomicU64::new(none)));
        let puller = {
            let (host, stop, wanted, pulled) = (host.clone(), stop.clone(), wanted.clone(), pulled.clone());
            dispatch::spawn_worker("puller", Some(puller_core), move |_| {
                let mut done = 0u64;
                while !stop.load(Ordering::Relaxed) {
                    // The puller takes no more datagrams than the reader has requested, so that
                    // they fit into the socket buffer.
                    if done < wanted.load(Ordering::Relaxed) {
                        done += host.step().frames as u64;
                        pulled.store(done, Ordering::Release);
                    } else {
                        std::hint::spin_loop();
                    }
                }
            })
            .context("cannot start the polling thread")?
        };
        Ok(TwoThreadsRig { id: id.to_owned(), host, fd, stop, wanted, pulled, read: 0, puller: Some(puller) })
    }
}

/// Maximum number of datagrams in flight. With 1024, their cache lines stay in the caches and their
/// pages in the TLB, and a datagram takes 190 ticks. With 8192, it took 350.
const AHEAD: u64 = 1024;
/// Number of consecutive empty reads after which a trial fails. This many reads take seconds.
const MOST_EMPTY: u64 = 1 << 26;
/// Maximum wait for the puller's last burst.
const PATIENCE: Duration = Duration::from_secs(1);

impl Subject for TwoThreadsRig {
    fn id(&self) -> &str {
        &self.id
    }

    fn trial(&mut self) -> anyhow::Result<Reading> {
        let calls = self.host.shared_calls();
        let (mut got, mut into) = (0u64, [0u8; 2048]);
        let total = DATAGRAMS * 5;
        let base = self.read;
        let mut empty = 0u64;
        let reading = measure(total, || {
            while got < total && empty < MOST_EMPTY {
                self.wanted.store(base + (got + AHEAD).min(total), Ordering::Relaxed);
                let n = calls.recv_burst(self.fd, 64, |bytes, _| {
                    into[..bytes.len()].copy_from_slice(bytes);
                    std::hint::black_box(&into);
                });
                match n {
                    Ok(n) => (got, empty) = (got + n as u64, 0),
                    Err(_) => {
                        empty += 1;
                        std::hint::spin_loop();
                    }
                }
            }
        });
        self.read += got;
        // The puller works in bursts. The datagrams left from its last burst are read too, so that
        // none are in flight when the next trial begins.
        let begun = Instant::now();
        loop {
            let pulled = self.pulled.load(Ordering::Acquire);
            self.read += calls.recv_burst(self.fd, 256, |_, _| ()).unwrap_or(0) as u64;
            if (pulled >= base + total && self.read >= pulled) || begun.elapsed() >= PATIENCE {
                break;
            }
        }
        ensure!(got >= total, "{}: the polling thread has ended after {got} of {total} datagrams", self.id);
        Ok(Reading { ops: got, ..reading })
    }
}

impl Drop for TwoThreadsRig {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(puller) = self.puller.take() {
            drop(puller.join());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The row's operation is a successful `recv_from`: the stack counts as many as the trial
    /// reports, and no datagram is read otherwise.
    #[test]
    fn each_datagram_is_read_by_a_call_of_recv_from() {
        for (family, sockets) in [(Family::V4, 1), (Family::V4, 3), (Family::V6, 1), (Family::V6, 3)] {
            let mut rig = RecvRig::new("recv.test", family, sockets).unwrap();
            for _ in 0..2 {
                let before = ["inet.udp.copied_out", "inet.audit.consumed"].map(|name| rig.host.stack.counter(name));
                let ops = rig.trial().unwrap().ops;
                let after = ["inet.udp.copied_out", "inet.audit.consumed"].map(|name| rig.host.stack.counter(name));
                assert!(ops >= DATAGRAMS, "{ops}");
                assert_eq!([after[0] - before[0], after[1] - before[1]], [ops, ops], "{sockets} sockets");
            }
        }
    }

    /// Each trial begins with no datagram in flight, even if the puller's last burst contained more
    /// datagrams than the trial before needed.
    #[test]
    fn two_threads_read_all_polled_datagrams_in_every_trial() {
        let mut rig = TwoThreadsRig::new("recv.test", dispatch::last_core()).unwrap();
        for _ in 0..3 {
            let ops = rig.trial().unwrap().ops;
            assert!((DATAGRAMS * 5..DATAGRAMS * 5 + 64).contains(&ops), "{ops}");
            let consumed = rig.host.stack.counter("inet.audit.consumed");
            assert_eq!((rig.pulled.load(Ordering::Relaxed), consumed), (rig.read, rig.read));
        }
    }
}
