//! Internal crate of [linerate](https://docs.rs/linerate): its interface may change in any release.
//!
//! The send path of one host as a test rig for `linerate ladder`, which measures a series of
//! settings one after the other.
//!
//! A [`Rig`] reproduces the setup of the report rump2014: one host, one pktgen sink, and `sendto`
//! of a small UDP payload to 1.0.0.2:55443, or over IPv6 to `[2001:2::2]:55443`. The report's
//! largest gains come from the way in which the code is built and linked. The same source is
//! therefore built in three ways: linked into `linerate` with whole-program optimization, as a
//! dynamic library with [a C interface](face), and as a program that [executes](serve) commands.
//! All three parse the same [`Settings`] line.

pub mod face;
pub mod serve;
mod settings;

pub use settings::{BadSettings, LockKind, Settings};

use buf::{Burst, Frame, Pool, PoolConfig, PoolLocks};
use clock::{Clock, Instant};
use inet::iface::{IfaceAddr, IfaceId, Offload, Output};
use inet::ip6::IfaceAddr6;
use inet::{Config, Stack};
use lock::{Cx, Heavy, Light, Locks, Up};
use port::pktgen;
use port::{PortCounts, TxHalf};
use socket::{Calls, Domain, Errno, Fd};
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use wire::Mac;

/// Destination port of the datagrams, as in the report rump2014.
pub const TO_PORT: u16 = 55_443;
const LOCAL_MAC: Mac = Mac([0xb2, 0, 0, 0, 0, 0]);
const REMOTE_MAC: Mac = Mac([0x12, 0x23, 0x34, 0x45, 0x56, 0]);

struct Sink(Box<dyn TxHalf>);

impl Output for Sink {
    #[inline]
    fn output(&mut self, burst: &mut Burst, now: Instant) -> usize {
        self.0.tx_burst(burst, now)
    }

    #[inline]
    fn output_one(&mut self, frame: Frame, now: Instant) -> Result<(), Frame> {
        self.0.tx_one(frame, now)
    }
}

/// A sink that keeps the latest `most` frames before it passes on the oldest. This cycles through
/// `most` + 1 buffers, so that a pool that reuses the last freed buffer first cannot keep its
/// buffers in the CPU cache.
struct Rotation {
    sink: Sink,
    held: VecDeque<Frame>,
    most: usize,
}

impl Output for Rotation {
    fn output(&mut self, burst: &mut Burst, now: Instant) -> usize {
        let mut taken = 0;
        while let Some(frame) = burst.pop() {
            if let Err(frame) = self.output_one(frame, now) {
                drop(frame);
            }
            taken += 1;
        }
        taken
    }

    #[inline]
    fn output_one(&mut self, frame: Frame, now: Instant) -> Result<(), Frame> {
        self.held.push_back(frame);
        match self.held.pop_front() {
            Some(oldest) if self.held.len() >= self.most => self.sink.output_one(oldest, now),
            Some(oldest) => {
                self.held.push_front(oldest);
                Ok(())
            }
            None => Ok(()),
        }
    }
}

/// Returns the output of a transmit queue, with a [`Rotation`] in front of the sink if the settings
/// require it.
fn output(tx: Box<dyn TxHalf>, settings: &Settings) -> Box<dyn Output> {
    let sink = Sink(tx);
    match settings.rotate {
        0 => Box::new(sink),
        most => Box::new(Rotation { sink, held: VecDeque::with_capacity(most + 1), most }),
    }
}

/// One host that sends into a sink.
pub struct Rig<L: Locks> {
    stack: Stack<L>,
    cx: Cx,
    clock: Option<Clock>,
    /// Number of calls of `sendto` per reading of the clock. `since` is the number of calls after
    /// the last reading.
    clock_every: u32,
    since: u32,
    fd: Fd,
    to: SocketAddr,
    /// Counters of the transmit queues of the port, which count the frames that reached the sink.
    sunk: Vec<Arc<PortCounts>>,
}

impl<L: Locks> Rig<L> {
    /// Builds the host.
    ///
    /// # Errors
    /// There is no memory for the pool, or a table is full. The error is a message.
    pub fn new(settings: &Settings) -> Result<Rig<L>, String> {
        let config = PoolConfig {
            kind: settings.pool,
            locks: match settings.locks {
                LockKind::Up => PoolLocks::Owner,
                LockKind::Light => PoolLocks::Light,
                LockKind::Heavy => PoolLocks::Heavy,
            },
            pages: settings.pages,
            prefetch: settings.prefetch,
            buffers: PoolConfig::default().buffers + settings.rotate,
            ..PoolConfig::default()
        };
        let pool = Pool::new(&config).map_err(|error| error.to_string())?;
        let cx = Cx::enter(settings.context, Instant::from_millis(1));
        let stack: Stack<L> = Stack::new(cx, Config::new("rig", pool.clone()));
        let ports = (0..settings.queues).map(|_| pktgen::open("pg0", None, &pool));
        let (sunk, outputs) = ports.map(|port| (port.counts, output(port.tx, settings))).unzip();
        let all = Offload { tx_ip: true, tx_l4: true, rx: true, tso: false };
        let pg0 = stack.add_iface("pg0", LOCAL_MAC, 1500, all).ok_or("cannot add the iface")?;
        Rig::<L>::wire(&stack, cx, pg0, outputs, settings)?;
        let to = SocketAddr::new(pktgen::net(settings.family, 0, 2), TO_PORT);
        let fd = Calls::new(&stack, cx).socket_of(Domain::of(&to)).map_err(|error| error.to_string())?;
        let (clock, clock_every) = (settings.clock.map(Clock::live), settings.clock_every);
        let mut rig = Rig { stack, cx, clock, clock_every, since: 0, fd, to, sunk };
        // Fills the sink's rotation (see [`Rotation`]). From here on, each new frame moves an older
        // one to the sink.
        rig.send(settings.rotate as u64, &[0; 22]);
        Ok(rig)
    }

    fn wire(
        stack: &Stack<L>,
        cx: Cx,
        pg0: IfaceId,
        outputs: Vec<Box<dyn Output>>,
        settings: &Settings,
    ) -> Result<(), String> {
        stack.set_outputs(cx, pg0, outputs);
        let [own, other] = [1, 2].map(|host| pktgen::net(settings.family, 0, host));
        match own {
            IpAddr::V4(addr) => {
                stack.add_addr(cx, pg0, IfaceAddr { addr, len: 24 }).map_err(|error| format!("{error:?}"))?;
            }
            IpAddr::V6(addr) => {
                stack.sysctls.dad_count.set(0); // no other host is on the link
                stack.add_addr6(cx, pg0, IfaceAddr6::new(addr, 64)).map_err(|error| format!("{error:?}"))?;
            }
        }
        match other {
            IpAddr::V4(addr) => stack.set_neighbor(cx, pg0, addr, REMOTE_MAC),
            IpAddr::V6(addr) => stack.set_neighbor6(cx, pg0, addr, REMOTE_MAC),
        }
        stack.set_offload(pg0, Offload { tx_ip: settings.offload, tx_l4: settings.offload, rx: false, tso: false });
        stack.sysctls.header_cache.set(i64::from(settings.header_cache));
        stack.sysctls.tx_burst.set(settings.burst as i64);
        stack.set_ledger(settings.ledger);
        stack.flush(cx);
        Ok(())
    }

    /// Makes one `sendto` call.
    ///
    /// # Errors
    /// The errno of the failed socket call.
    #[inline(always)]
    pub fn sendto(&mut self, payload: &[u8]) -> Result<usize, Errno> {
        if let Some(clock) = &self.clock {
            self.since += 1;
            if self.since >= self.clock_every {
                self.since = 0;
                self.cx = self.cx.at(clock.now());
            }
        }
        Calls::new(&self.stack, self.cx).send_to(self.fd, payload, &self.to)
    }

    /// Calls [`Rig::sendto`] `n` times. Returns the number of successful calls.
    pub fn send(&mut self, n: u64, payload: &[u8]) -> u64 {
        let sent = (0..n).filter(|_| self.sendto(std::hint::black_box(payload)).is_ok()).count() as u64;
        self.stack.flush(self.cx);
        sent
    }

    /// Sends `n` datagrams in calls of 32 (`send_burst`). Returns the number of datagrams sent.
    pub fn send_bursts(&mut self, n: u64, payload: &[u8]) -> u64 {
        let calls = Calls::new(&self.stack, self.cx);
        let mut sent = 0;
        while sent < n {
            let some = (n - sent).min(32) as usize;
            match calls.send_burst(self.fd, std::iter::repeat_n(std::hint::black_box(payload), some), Some(&self.to)) {
                Ok(n) if n > 0 => sent += n as u64,
                _ => break,
            }
        }
        sent
    }

    /// Sends `n` times and calls `read` before and after each call, as in the report rump2014.
    /// Returns the sum of the differences, which includes the cost of `n` empty pairs of readings.
    pub fn send_timed(&mut self, n: u64, payload: &[u8], read: fn() -> u64) -> u64 {
        let mut ticks = 0;
        for _ in 0..n {
            let start = read();
            let sent = self.sendto(std::hint::black_box(payload));
            ticks += read() - start;
            debug_assert!(sent.is_ok());
        }
        self.stack.flush(self.cx);
        ticks
    }

    /// Returns the frames and bytes that reached the sink.
    pub fn sunk(&self) -> (u64, u64) {
        self.sunk
            .iter()
            .fold((0, 0), |(frames, bytes), queue| (frames + queue.tx.frames.get(), bytes + queue.tx.bytes.get()))
    }

    /// Returns the parts of the rig's state from which tests check that the settings took effect.
    pub fn facts(&self) -> Facts {
        let offload = self.stack.ifaces().any(|iface| iface.offload().tx_ip && iface.offload().tx_l4);
        Facts {
            now: self.cx.now,
            doorbells: self.sunk.iter().map(|queue| queue.tx.bursts.get()).sum(),
            pool: self.stack.pool.stats().kind,
            offload,
        }
    }

    /// Returns the number of frames unaccounted for, which is 0 unless there is a bug.
    pub fn imbalance(&self) -> i64 {
        self.stack.audit(self.cx).imbalance()
    }

    /// Returns the number of buffers of the pool that are in use by frames.
    pub fn buffers_in_use(&self) -> usize {
        self.stack.pool.stats().live() as usize
    }

    /// Returns the stack, for its ledger and lock counts.
    pub fn stack(&self) -> &Stack<L> {
        &self.stack
    }
}

/// State of a rig from which tests check that its settings took effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Facts {
    /// Time of the stack, as last read from the clock.
    pub now: Instant,
    /// Number of bursts of frames passed to the port, one per call of its transmit function.
    pub doorbells: u64,
    /// Kind of the pool's free-buffer store.
    pub pool: buf::Kind,
    /// True if IPv4 and UDP checksums are left to the port.
    pub offload: bool,
}

/// A thread's own socket on a shared rig.
pub struct Sender<'r, L: Locks> {
    calls: Calls<'r, L>,
    fd: Fd,
    to: SocketAddr,
}

impl<L: Locks> Rig<L> {
    /// Opens a socket for the calling thread.
    ///
    /// # Errors
    /// The errno of the failed socket call.
    pub fn sender(&self) -> Result<Sender<'_, L>, Errno> {
        // The context belongs to the calling thread. The rig's own context belongs to the thread
        // that built the rig.
        let calls = Calls::new(&self.stack, Cx::enter(lock::How::Register, self.cx.now));
        let fd = calls.socket()?;
        Ok(Sender { calls, fd, to: self.to })
    }
}

impl<L: Locks> Sender<'_, L> {
    /// Calls `sendto` `n` times. Returns the number of successful calls.
    pub fn send(&self, n: u64, payload: &[u8]) -> u64 {
        let one = |_: &u64| self.calls.send_to(self.fd, std::hint::black_box(payload), &self.to).is_ok();
        let sent = (0..n).filter(one).count() as u64;
        self.calls.stack().flush(self.calls.cx());
        sent
    }
}

impl<L: Locks> Drop for Sender<'_, L> {
    fn drop(&mut self) {
        // The descriptor is open and owned here, so closing it cannot fail.
        let _ = self.calls.close(self.fd);
    }
}

/// A rig with the kind of locks that the settings select.
pub enum AnyRig {
    /// Rig with `Up` locks: one thread, no atomics.
    Up(Box<Rig<Up>>),
    /// Rig with `Light` locks, each a compare-and-swap.
    Light(Box<Rig<Light>>),
    /// Rig with `Heavy` locks, each a semaphore with owner and queue.
    Heavy(Box<Rig<Heavy>>),
}

macro_rules! each_kind {
    ($any:expr, $rig:ident => $body:expr) => {
        match $any {
            AnyRig::Up($rig) => $body,
            AnyRig::Light($rig) => $body,
            AnyRig::Heavy($rig) => $body,
        }
    };
}

impl AnyRig {
    /// Builds the host with the kind of locks that `settings` selects.
    ///
    /// # Errors
    /// As for [`Rig::new`].
    pub fn new(settings: &Settings) -> Result<AnyRig, String> {
        Ok(match settings.locks {
            LockKind::Up => AnyRig::Up(Box::new(Rig::new(settings)?)),
            LockKind::Light => AnyRig::Light(Box::new(Rig::new(settings)?)),
            LockKind::Heavy => AnyRig::Heavy(Box::new(Rig::new(settings)?)),
        })
    }

    /// Makes one `sendto` call.
    ///
    /// # Errors
    /// The errno of the failed socket call.
    #[inline(always)]
    pub fn sendto(&mut self, payload: &[u8]) -> Result<usize, Errno> {
        each_kind!(self, rig => rig.sendto(payload))
    }

    /// Calls [`Rig::send`].
    pub fn send(&mut self, n: u64, payload: &[u8]) -> u64 {
        each_kind!(self, rig => rig.send(n, payload))
    }

    /// Calls [`Rig::send_bursts`].
    pub fn send_bursts(&mut self, n: u64, payload: &[u8]) -> u64 {
        each_kind!(self, rig => rig.send_bursts(n, payload))
    }

    /// Calls [`Rig::send_timed`].
    pub fn send_timed(&mut self, n: u64, payload: &[u8], read: fn() -> u64) -> u64 {
        each_kind!(self, rig => rig.send_timed(n, payload, read))
    }

    /// Calls [`Rig::sunk`].
    pub fn sunk(&self) -> (u64, u64) {
        each_kind!(self, rig => rig.sunk())
    }

    /// Calls [`Rig::imbalance`].
    pub fn imbalance(&self) -> i64 {
        each_kind!(self, rig => rig.imbalance())
    }

    /// Calls [`Rig::facts`].
    pub fn facts(&self) -> Facts {
        each_kind!(self, rig => rig.facts())
    }

    /// Returns the total number of lock acquisitions in the stack.
    pub fn acquisitions(&self) -> u64 {
        each_kind!(self, rig => rig.stack().lock_use().iter().map(|lock| lock.acquisitions).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_sends_all_frames() {
        for line in [
            "locks=up",
            "locks=light context=call header_cache=off pool=zone clock=timespec",
            "locks=heavy context=inline pool=malloc",
            "locks=up offload=on burst=32 pool=freelist prefetch=on",
            "locks=up clock=tsc clock_every=32",
        ] {
            let mut rig = AnyRig::new(&line.parse().unwrap()).unwrap();
            assert_eq!(rig.send(100, &[7; 22]), 100, "{line}");
            assert_eq!(rig.send_bursts(100, &[7; 22]), 100, "{line}");
            assert!(rig.send_timed(10, &[7; 22], clock::tsc::ticks) > 0);
            let announced = (1, 42); // the gratuitous ARP request for the host's address
            let datagrams = (210, 210 * 64); // 22 + 8 + 20 + 14, FCS not counted
            assert_eq!(rig.sunk(), (datagrams.0 + announced.0, datagrams.1 + announced.1), "{line}");
            assert_eq!(rig.imbalance(), 0, "{line}");
        }
    }

    #[test]
    fn frames_of_ipv6_are_sent_and_none_is_lost() {
        for line in ["family=6", "family=6 locks=light header_cache=off", "family=6 offload=on burst=32"] {
            let mut rig = AnyRig::new(&line.parse().unwrap()).unwrap();
            let before = rig.sunk();
            assert_eq!((rig.send(100, &[7; 22]), rig.send_bursts(100, &[7; 22])), (100, 100), "{line}");
            let after = rig.sunk();
            assert_eq!((after.0 - before.0, after.1 - before.1), (200, 200 * 84), "{line}: 22 + 8 + 40 + 14");
            assert_eq!(rig.imbalance(), 0, "{line}");
        }
    }

    #[test]
    fn a_rotation_keeps_its_buffers_in_use() {
        let mut rig = AnyRig::new(&"locks=up rotate=100".parse().unwrap()).unwrap();
        let (before, _) = rig.sunk();
        assert_eq!(rig.send(500, &[7; 22]), 500);
        assert_eq!((rig.sunk().0 - before, rig.imbalance()), (500, 0), "a frame leaves for each that comes");
        let AnyRig::Up(rig) = &rig else { panic!("locks=up") };
        assert_eq!(rig.buffers_in_use(), 100);
    }

    #[test]
    fn the_clock_is_read_once_per_clock_every_calls() {
        let readings = |line: &str| {
            let AnyRig::Up(mut rig) = AnyRig::new(&line.parse().unwrap()).unwrap() else { panic!("locks=up") };
            let mut times = std::collections::BTreeSet::new();
            for _ in 0..320 {
                rig.sendto(&[7; 22]).unwrap();
                times.insert(rig.cx.now);
                std::thread::sleep(std::time::Duration::from_micros(2));
            }
            times.len()
        };
        assert_eq!(readings("locks=up"), 1, "no clock");
        assert!((300..=321).contains(&readings("locks=up clock=tsc")), "every call");
        assert!((10..=11).contains(&readings("locks=up clock=tsc clock_every=32")), "every 32nd call");
    }
}
