//! Policies: which flows the stations behind a port may open, and how much they may transfer.
//!
//! A policy belongs to a port of a host. Each frame that the port receives is passed to
//! [`Policy::admit`] before the stack, and each frame that is sent to [`Policy::limit`]. The first
//! packet of a flow that a station opens is shown to a hook of the user, with its addresses, ports,
//! and the domain name under which the station looked up the destination. The decision applies to
//! all packets of the flow until the flow is forgotten. Flows in the other direction are allowed.
//! ARP, neighbor discovery, MLD, IGMP and protocols other than IP always pass, since the stack
//! processes or drops them itself.
//!
//! All tables are bounded. A packet for which they have no room is dropped and counted.

mod flow;
mod flows;
mod packet;
mod quota;
mod recent;
#[cfg(test)]
mod tests;

pub use flow::{Decision, Flow, FlowState, Volume};
pub use quota::{Quota, SOURCES_MAX};

use buf::{Burst, Frame};
use clock::{Duration, Instant};
use flows::{Entry, Flows, Key};
use packet::{Packet, Parsed, Part};
use quota::{Exceeded, Sources};
use recent::Recent;
use stats::DropReason;
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use wire::{Proto, dns};

/// Default maximum number of flows of a policy.
pub const FLOWS_MAX: usize = 65_536;
/// Half of the maximum number of names, and of fragmented packets, on record.
const NAMES_HALF: usize = 4096;
const FRAGMENTED_HALF: usize = 128;
/// Maximum number of addresses recorded from one DNS response.
const ADDRESSES_MAX: usize = 32;
/// Minimum time for which a name is known, since programs use addresses beyond their TTL.
const NAME_TIME_MIN: Duration = Duration::from_secs(300);
/// Time for which the fragments of a packet belong together.
const FRAGMENT_TIME: Duration = Duration::from_secs(30);

stats::counters! {
    /// Counters of a policy.
    pub struct PolicyCounts at "policy" {
        /// Flows that the hook allowed.
        allowed,
        /// Flows that the hook refused.
        refused,
        /// Flows that the hook dropped.
        dropped,
        /// Packets dropped because the hook did not allow their flow.
        denied,
        /// Packets dropped because the table of flows was full.
        flows_full,
        /// Packets dropped because their addresses and ports cannot be parsed.
        malformed,
        /// Fragments dropped because the first fragment of their packet was not seen.
        fragments,
        /// ICMP errors dropped because they belong to no allowed flow.
        errors,
        /// Packets dropped because a station exceeded its rate.
        over_rate,
        /// Packets dropped because a station exceeded its number of bytes.
        over_total,
        /// Packets dropped because the table of stations with quotas was full.
        sources_full,
        /// Addresses learned from DNS responses.
        names,
    }
}

/// Function that decides about a flow.
type Hook = dyn Fn(&Flow) -> Decision + Send + Sync;

/// A policy for the stations behind a port.
///
/// A `Policy` is a handle: clones refer to the same policy, which several ports may share.
///
/// The hook runs in the thread of the host, which waits for it. It must not use the host's sockets.
#[derive(Clone)]
pub struct Policy(Arc<Shared>);

struct Shared {
    hook: Box<Hook>,
    counts: PolicyCounts,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    flows: Flows,
    sources: Sources,
    /// Names of addresses, by station and address, and the time until which they are valid.
    names: Recent<(IpAddr, IpAddr), (Arc<str>, Instant)>,
    /// Flows of fragmented packets, by source, destination and identification.
    fragmented: Recent<(IpAddr, IpAddr, Proto, u32), (Key, Instant)>,
    /// Time of the last packet.
    now: Instant,
}

/// Rejection of a frame.
struct Rejection {
    why: DropReason,
    /// True if the sender is notified.
    answers: bool,
}

/// Directions in which a frame passes a policy, as indices.
const SENT: usize = 0;
const RECEIVED: usize = 1;

impl Policy {
    /// Creates a policy whose hook decides about each flow that a station opens.
    pub fn new(hook: impl Fn(&Flow) -> Decision + Send + Sync + 'static) -> Policy {
        let state = State {
            flows: Flows::new(FLOWS_MAX),
            sources: Sources::new([None, None]),
            names: Recent::new(NAMES_HALF),
            fragmented: Recent::new(FRAGMENTED_HALF),
            now: Instant::ZERO,
        };
        Policy(Arc::new(Shared { hook: Box::new(hook), counts: PolicyCounts::default(), state: Mutex::new(state) }))
    }

    /// Creates a policy that allows all flows, for quotas alone.
    pub fn allow_all() -> Policy {
        Policy::new(|_| Decision::Allow)
    }

    /// Limits the bytes that each station sends. Replaces an earlier limit and resets its counts.
    #[must_use]
    pub fn upload(self, quota: Quota) -> Policy {
        self.lock().sources.limit(SENT, quota);
        self
    }

    /// Limits the bytes that each station receives. Replaces an earlier limit and resets its
    /// counts.
    #[must_use]
    pub fn download(self, quota: Quota) -> Policy {
        self.lock().sources.limit(RECEIVED, quota);
        self
    }

    /// Sets the maximum number of flows, 65,536 by default. Packets of further flows are dropped.
    #[must_use]
    pub fn max_flows(self, most: usize) -> Policy {
        self.lock().flows.limit(most);
        self
    }

    /// Requests a new decision of the hook about each flow that a station opened. It is made at the
    /// station's next packet.
    pub fn recheck(&self) {
        self.lock().flows.make_stale();
    }

    /// Returns the flows, oldest first.
    pub fn flows(&self) -> Vec<FlowState> {
        let state = self.lock();
        state.flows.list(state.now)
    }

    /// Returns the counters of the policy.
    pub fn counts(&self) -> &PolicyCounts {
        &self.0.counts
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes the frames from `frames`, which a port received, that the policy does not admit.
    /// Passes each of them to `reject`, with the reason, and whether the sender is to be notified.
    pub(crate) fn admit(&self, frames: &mut Burst, now: Instant, mut reject: impl FnMut(Frame, DropReason, bool)) {
        let mut rejected = Vec::new();
        self.sort(frames, |policy, frame| policy.judge(frame, true, now), |frame, why| rejected.push((frame, why)));
        // Afterwards, since answers to the senders pass through `limit`.
        rejected.into_iter().for_each(|(frame, Rejection { why, answers })| reject(frame, why, answers));
    }

    /// Removes the frames from `frames`, which are to be sent, that exceed a quota. The first
    /// `judged` frames were admitted before. Returns the number of frames removed.
    pub(crate) fn limit(&self, frames: &mut Burst, judged: usize, now: Instant) -> usize {
        let (mut at, before) = (0, frames.len());
        let judge = |policy: &Policy, frame: &Frame| {
            at += 1;
            if at <= judged { Ok(()) } else { policy.judge(frame, false, now) }
        };
        self.sort(frames, judge, |_, _| ());
        before - frames.len()
    }

    /// Moves the frames that `judge` rejects from `frames` to `reject`.
    fn sort(
        &self,
        frames: &mut Burst,
        mut judge: impl FnMut(&Policy, &Frame) -> Result<(), Rejection>,
        mut reject: impl FnMut(Frame, Rejection),
    ) {
        let mut kept = Burst::new();
        for frame in frames.drain() {
            match judge(self, &frame) {
                Ok(()) => kept.put(frame, || ()), // has space, since it takes no more frames than came
                Err(why) => reject(frame, why),
            }
        }
        frames.take_from(&mut kept);
    }

    /// Decides about a frame that a station sends or receives.
    fn judge(&self, frame: &Frame, from_station: bool, now: Instant) -> Result<(), Rejection> {
        let (bytes, counts) = (frame.bytes(), &self.0.counts);
        let denied = |answers| Rejection { why: DropReason::PolicyDenied, answers };
        let packet = match packet::parse(bytes) {
            Parsed::Link => return Ok(()),
            Parsed::Packet(packet) => packet,
            Parsed::Malformed if !from_station => return Ok(()),
            Parsed::Malformed => {
                counts.malformed.bump();
                return Err(denied(false));
            }
        };
        let mut state = self.lock();
        state.now = now;
        let Some(key) = state.key(&packet, from_station, now) else {
            counts.fragments.add(u64::from(from_station));
            return if from_station { Err(denied(false)) } else { Ok(()) };
        };
        if state.flows.find(&key, from_station, now).is_none() {
            if packet.is_error {
                counts.errors.add(u64::from(from_station));
                return if from_station { Err(denied(false)) } else { Ok(()) };
            }
            if !state.flows.has_room(&key, now) {
                counts.flows_full.bump();
                return Err(denied(false));
            }
            let (mut decision, mut name) = (Decision::Allow, None);
            if from_station {
                name = state.name(&key, now);
                // Without the lock, since the hook may use the policy.
                drop(state);
                (decision, name) = self.ask(&key, name);
                state = self.lock();
            }
            state.flows.insert(key, Entry::new(decision, from_station, name, now));
        }
        state.pass(counts, &key, &packet, bytes, from_station, now)
    }

    /// Calls the hook for a flow.
    fn ask(&self, key: &Key, name: Option<Arc<str>>) -> (Decision, Option<Arc<str>>) {
        let flow = Flow { protocol: key.proto, source: key.station, destination: key.remote, name };
        let (decision, counts) = ((self.0.hook)(&flow), &self.0.counts);
        match decision {
            Decision::Allow => counts.allowed.bump(),
            Decision::Refuse => counts.refused.bump(),
            Decision::Drop => counts.dropped.bump(),
        }
        (decision, flow.name)
    }
}

impl State {
    /// Returns the flow of a packet. A fragment without ports belongs to the flow of the first
    /// fragment; returns `None` if that was not seen.
    fn key(&mut self, packet: &Packet, from_station: bool, now: Instant) -> Option<Key> {
        let fragmented = |id| (packet.source.ip(), packet.destination.ip(), packet.proto, id);
        match packet.part {
            Part::Whole => Some(Key::of(packet, from_station)),
            Part::First(id) => {
                let key = Key::of(packet, from_station);
                self.fragmented.insert(fragmented(id), (key, now.after(FRAGMENT_TIME)));
                Some(key)
            }
            Part::Later(id) => {
                self.fragmented.get(&fragmented(id)).filter(|(_, until)| now < *until).map(|(key, _)| *key)
            }
        }
    }

    /// Returns the name under which the station of a flow looked up the other side.
    fn name(&self, key: &Key, now: Instant) -> Option<Arc<str>> {
        let (name, until) = self.names.get(&(key.station.ip(), key.remote.ip()))?;
        (now < *until).then(|| name.clone())
    }

    /// Applies the decision about the flow of a packet, and the quotas, and counts the packet.
    fn pass(
        &mut self,
        counts: &PolicyCounts,
        key: &Key,
        packet: &Packet,
        frame: &[u8],
        from_station: bool,
        now: Instant,
    ) -> Result<(), Rejection> {
        let (direction, len) = (if from_station { SENT } else { RECEIVED }, frame.len() as u64);
        let Some(entry) = self.flows.find(key, false, now) else { return Ok(()) };
        let is_allowed = entry.decision == Decision::Allow;
        if !is_allowed && from_station {
            counts.denied.bump();
            let answers = entry.decision == Decision::Refuse && !packet.is_error;
            return Err(Rejection { why: DropReason::PolicyDenied, answers });
        }
        if let Err(exceeded) = self.sources.take(key.station.ip(), direction, len, now) {
            match exceeded {
                Exceeded::Rate => counts.over_rate.bump(),
                Exceeded::Total => counts.over_total.bump(),
                Exceeded::Sources => counts.sources_full.bump(),
            }
            return Err(Rejection { why: DropReason::PolicyQuota, answers: false });
        }
        // To a station whose flow is not allowed, only answers of the stack are sent.
        if is_allowed {
            entry.count(packet, direction, len);
            if !from_station && key.proto == Proto::UDP && key.remote.port() == dns::PORT {
                counts.names.add(self.learn(key.station.ip(), packet.payload(frame), now));
            }
        }
        Ok(())
    }

    /// Records the addresses in a DNS response to `station`. Returns their number.
    fn learn(&mut self, station: IpAddr, message: &[u8], now: Instant) -> u64 {
        let Some(query) = dns::Query::of_message(message) else { return 0 };
        let Ok(answer) = query.parse_answer(message) else { return 0 };
        if !dns::is_host_name(&query.name) {
            return 0;
        }
        let name: Arc<str> = query.name.to_ascii_lowercase().into();
        let (addrs, _) = answer.addresses(&query.name);
        let ttl = answer.records.iter().map(|record| record.ttl).min().unwrap_or(0);
        let until = now.after(Duration::from_secs(ttl.into()).max(NAME_TIME_MIN));
        let learned = addrs.iter().take(ADDRESSES_MAX);
        learned.clone().for_each(|addr| self.names.insert((station, *addr), (name.clone(), until)));
        learned.len() as u64
    }
}

impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Policy").field("counts", &self.0.counts).finish_non_exhaustive()
    }
}
