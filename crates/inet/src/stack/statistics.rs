//! Statistics of a stack: counters, processing time by stage, balance of frames, locks and pools.

use super::{LockUse, Stack};
use crate::counters::{AuditReport, Counters};
use crate::demux::Tuple;
use buf::{Frame, Pool, PoolStats};
use clock::Instant;
use lock::{Cx, Locks};
use stats::{Costs, DropReason, Entry, Lap, StageTimes};
use std::net::SocketAddr;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use wire::Proto;
use wire::control::ControlClass;

/// Usage of the loopback queue and of the queue of decapsulated packets. Packets are always queued
/// in them and never processed directly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoopUse {
    /// Number of packets queued now.
    pub len: usize,
    /// Maximum number of packets ever queued.
    pub watermark: usize,
    /// Total number of packets queued.
    pub queued: u64,
    /// Number of packets dropped because the queue was full.
    pub dropped: u64,
    /// Number of packets processed.
    pub handled: u64,
}

impl<L: Locks> Stack<L> {
    /// Returns the combined usage of the loopback queue and the queue of decapsulated packets.
    #[inline(never)]
    pub fn loop_use(&self, cx: Cx) -> LoopUse {
        let len = self.loopback.lock(cx).len() + self.held_by_tunnels(cx);
        let sum = |pick: fn(&Counters) -> u64| self.counters.iter().map(pick).sum::<u64>();
        let queued = sum(|counters| counters.loopback.queued.get() + counters.tunnel.requeued.get());
        LoopUse {
            len,
            watermark: self.loop_peak.load(Ordering::Relaxed),
            queued,
            dropped: sum(|counters| {
                [DropReason::LoopQueueFull, DropReason::TunnelQueueFull].map(|why| counters.drops.get(why)).iter().sum()
            }),
            handled: queued.saturating_sub(len as u64),
        }
    }

    /// Sets the filter of a stack that shares its addresses with other stacks. `leads` receives a
    /// protocol, a local address and port, and a remote address and port. It returns whether
    /// packets from the remote to the local address and port arrive at this stack. The local ports
    /// of outgoing connections are selected so that the answers arrive at this stack. Only the
    /// first call has an effect.
    pub fn set_leads_here(&self, leads: impl Fn(Proto, SocketAddr, SocketAddr) -> bool + Send + Sync + 'static) {
        let _ = self.leads_here.set(Box::new(leads)); // if already set, the first function stays
    }

    /// Sets a function that is called before each frame is dropped, with the frame, the reason and
    /// the time. Only the first call has an effect.
    pub fn set_drop_watch(&self, watch: impl Fn(&Frame, DropReason, Instant) + Send + Sync + 'static) {
        let _ = self.drop_watch.set(Box::new(watch)); // if already set, the first function stays
    }

    /// Returns whether answers to a socket with these addresses and ports would arrive at this
    /// stack; `true` for a socket without a peer.
    pub(crate) fn leads_here(&self, proto: Proto, ends: &Tuple) -> bool {
        let Some(leads) = self.leads_here.get().filter(|_| ends.remote_port.0 != 0) else { return true };
        leads(proto, ends.local_addr(), ends.remote_addr())
    }

    /// Returns the number of frames that the calling thread has received from ports.
    pub fn received_here(&self, cx: Cx) -> u64 {
        self.count(cx).audit.received.get()
    }

    /// Drops frames that were received from a port and are not processed, with the reason `why`.
    /// Counts them as received and dropped.
    pub fn refuse(&self, cx: Cx, frames: impl IntoIterator<Item = Frame>, why: DropReason) {
        let counters = self.count(cx);
        for frame in frames {
            counters.audit.received.bump();
            counters.ether.received.bump();
            self.drop_frame(cx, frame, why);
        }
    }

    /// Drops frames that were removed from a neighbor table, each with its own drop reason.
    #[inline]
    pub(crate) fn end_all(&self, cx: Cx, ended: Vec<(Frame, DropReason)>) {
        for (frame, why) in ended {
            self.drop_frame(cx, frame, why);
        }
    }

    /// Counts a frame that was lost in code where no frame can be lost ([`buf::Burst::put`]).
    #[cold]
    pub fn count_bug(&self, cx: Cx) {
        self.count(cx).drops.bump(DropReason::Bug);
    }

    /// Drops a frame in an unreachable branch; `what` describes the violated assumption. A test
    /// build panics; a release build counts [`DropReason::Bug`].
    #[cold]
    #[inline(never)]
    pub(crate) fn drop_as_bug(&self, cx: Cx, frame: Frame, what: &'static str) {
        debug_assert!(false, "{what}");
        self.drop_frame(cx, frame, DropReason::Bug);
    }

    /// Returns the calling thread's counters.
    #[inline(always)]
    pub(crate) fn count(&self, cx: Cx) -> &Counters {
        match L::SHARED {
            true => self.counters.get(cx.current()).unwrap_or_else(|| self.add_counters(cx.current())),
            false => self.counters.sole(),
        }
    }

    /// Creates the counters of an additional thread, for which none were created with the stack.
    /// They measure processing time if this measurement is on.
    #[cold]
    fn add_counters(&self, index: usize) -> &Counters {
        let is_on = self.has_ledger.lock().unwrap_or_else(PoisonError::into_inner); // held until the counters exist
        self.counters.at_or_insert_with(index, || {
            let counters = Counters::default();
            if *is_on {
                let hertz = clock::tsc::hertz();
                counters.ledger.set_on_with_times(true, clock::tsc::ticks(), hertz);
            }
            counters
        })
    }

    /// Starts to measure the processing time of the calling thread, at an entry point of the stack.
    /// The result is a stopwatch that adds the time of each stage to the cost ledger.
    #[inline(always)]
    pub fn lap(&self, cx: Cx) -> Lap<'_> {
        self.count(cx).ledger.lap(clock::tsc::ticks)
    }

    /// Starts to measure processing time as [`Stack::lap`] does, and calls `point`, which fires a
    /// tracepoint. A single branch skips both if neither is enabled.
    #[inline(always)]
    pub fn lap_at(&self, cx: Cx, point: impl FnOnce()) -> Lap<'_> {
        self.count(cx).ledger.lap_at(clock::tsc::ticks, point)
    }

    /// Returns the measurement that [`Stack::lap`] started, for code within that entry point.
    #[inline(always)]
    pub fn resume(&self, cx: Cx) -> Lap<'_> {
        self.count(cx).ledger.resume()
    }

    /// Returns all counters, summed over threads.
    pub fn snapshot(&self) -> Vec<Entry> {
        self.counters.snapshot()
    }

    /// Returns a counter by its dotted name; 0 if there is no counter with this name.
    pub fn counter(&self, name: &str) -> u64 {
        self.snapshot().iter().find(|entry| entry.name == name).map_or(0, |entry| entry.value)
    }

    /// Returns the numbers of packets for mirrors, by class: those passed, and those not passed
    /// because of the rate of their class.
    pub fn punted(&self) -> Vec<(ControlClass, [u64; 2])> {
        let add = |[a, b]: [u64; 2], [c, d]: [u64; 2]| [a + c, b + d];
        let sum = |class| self.counters.iter().map(|shard| shard.punted.get(class)).fold([0; 2], add);
        ControlClass::ALL.map(|class| (class, sum(class))).to_vec()
    }

    /// Switches the measurement of processing time by stage on or off.
    pub fn set_ledger(&self, on: bool) {
        let mut is_on = self.has_ledger.lock().unwrap_or_else(PoisonError::into_inner);
        *is_on = on;
        let hertz = if on { clock::tsc::hertz() } else { 0 }; // the first call takes 10 ms
        let now = clock::tsc::ticks();
        self.counters.iter().for_each(|shard| shard.ledger.set_on_with_times(on, now, hertz));
    }

    /// Returns histograms of the processing time of each stage for each frame, from a sample,
    /// summed over threads.
    pub fn stage_times(&self) -> Vec<StageTimes> {
        StageTimes::of(self.counters.iter().map(|shard| &shard.ledger))
    }

    /// Returns the cost ledger: processing time by stage, summed over threads.
    pub fn ledger(&self) -> Costs {
        Costs::of(self.counters.iter().map(|shard| &shard.ledger), clock::tsc::ticks())
    }

    /// Returns the number of frames that the stack holds.
    pub fn held(&self, cx: Cx) -> u64 {
        let mut held = self.loopback.lock(cx).len() + self.held_by_tunnels(cx);
        held += self.neighbors.lock(cx).held() + self.reassembly.lock(cx).held();
        held += self.six.neighbors.lock(cx).held();
        held += self.udp_held.lock(cx).iter_mut().map(|(_, held)| held.len()).sum::<usize>();
        held += self.ifaces.iter().map(|iface| iface.staged(cx)).sum::<usize>();
        self.pcbs.for_each(cx, |_, pcb| held += pcb.queued());
        held as u64
    }

    /// Returns the balance of frames received, created, sent and freed. It is exact while the stack
    /// is idle.
    pub fn audit(&self, cx: Cx) -> AuditReport {
        AuditReport::of(&self.counters, self.held(cx))
    }

    /// Returns the number of frames received and created, minus those sent, consumed, dropped and
    /// held. It is 0 if no frame was lost. Unlike [`Stack::audit`], it builds no lists, so it can
    /// be called after every step.
    pub fn imbalance(&self, cx: Cx) -> i64 {
        AuditReport::imbalance_of(&self.counters, self.held(cx))
    }

    /// Returns the number of lock acquisitions for each part of the stack.
    pub fn lock_use(&self) -> Vec<LockUse> {
        let one = |part, acquisitions| LockUse { part, locks: 1, acquisitions };
        let (pcbs, pcb_locks) = self.pcbs.locks();
        let (demux, demux_locks) = self.udp.locks();
        let (pool, pool_locks) = self.pool.locks();
        let ifaces = self.ifaces.iter().count();
        let stages = self
            .ifaces
            .iter()
            .map(|iface| iface.queues.locks())
            .fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        vec![
            one("inet.route", self.routes.acquisitions()),
            one("inet.neigh", self.neighbors.acquisitions()),
            one("inet.ip4.reass", self.reassembly.acquisitions()),
            one("inet.icmp4.limit", self.limiter.acquisitions()),
            one("inet.ip4.ident", self.idents.acquisitions()),
            one("inet.groups", self.groups.acquisitions()),
            one("inet.ip4.pmtu", self.path_mtus.acquisitions()),
            one("inet.icmp4.redirect", self.redirects.acquisitions()),
            one("inet.link.loopback", self.loopback.acquisitions()),
            one("inet.tunnel", self.tunnels.acquisitions()),
            one("inet.tunnel.requeue", self.requeued.queue.acquisitions()),
            one("inet.ip6.route", self.six.routes.acquisitions()),
            one("inet.nd", self.six.neighbors.acquisitions()),
            one("inet.ip6.pmtu", self.six.path_mtus.acquisitions()),
            one("inet.icmp6.limit", self.six.limiter.acquisitions()),
            one("inet.ip6.ident", self.six.idents.acquisitions()),
            one("inet.udp.unconnected", self.unconnected.acquisitions()),
            LockUse { part: "inet.demux", locks: demux_locks, acquisitions: demux },
            LockUse { part: "inet.udp.pcb", locks: pcb_locks, acquisitions: pcbs },
            LockUse { part: "inet.iface.stage", locks: stages.1, acquisitions: stages.0 },
            LockUse {
                part: "inet.iface.addrs",
                locks: ifaces,
                acquisitions: self.ifaces.iter().map(|i| i.addrs.acquisitions()).sum(),
            },
            one("inet.large_pool", self.large.acquisitions()),
            LockUse { part: "buf.pool", locks: pool_locks, acquisitions: pool },
        ]
        .into_iter()
        .chain(self.tcp.lock_use())
        .collect()
    }

    /// Returns all buffer pools of this host with their names: the main pool and, once used, the
    /// pools for sending and for reassembling long datagrams.
    pub fn pools(&self, cx: Cx) -> Vec<(&'static str, PoolStats)> {
        let large = self.large.lock(cx).as_ref().map(Pool::stats);
        let reassembly = self.reassembly.lock(cx).large_stats();
        let rest = [("large", large), ("reassembly", reassembly)];
        let rest = rest.into_iter().filter_map(|(part, stats)| Some((part, stats?)));
        std::iter::once(("main", self.pool.stats())).chain(rest).collect()
    }
}
