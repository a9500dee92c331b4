//! Policies: which flows the stations behind a port may open, and how much they may transfer.
//!
//! A policy belongs to a port of a host. [`Policy::admit`] checks each received frame before the
//! stack processes it, and [`Policy::limit`] checks each frame before the port sends it. A station
//! is a device that sends through the port. For the first packet of a flow that a station opens,
//! the policy calls a function of the user, the hook, with the addresses, the ports, and the domain
//! name under which the station looked up the destination. The hook's decision applies to all
//! packets that the station sends in this flow, until the flow is forgotten. Flows that are opened
//! from the other side are allowed. ARP and all protocols other than IP are admitted. So are
//! neighbor discovery, MLD and IGMP to addresses to which the stack never forwards, since the stack
//! processes or drops these packets itself.
//!
//! All tables are bounded. If the table of flows is full, packets that stations send in further
//! flows are dropped and counted. If the table of stations with quotas is full, packets of further
//! stations are dropped and counted.

mod bounded;
mod direction;
mod flow;
mod flows;
mod packet;
mod quota;
#[cfg(test)]
mod tests;

pub use flow::{Decision, Flow, FlowState, Volume};
#[cfg(any(test, fuzzing))]
pub(crate) use quota::source_of;
pub use quota::{Quota, SOURCES_MAX};

use bounded::Recent;
use buf::{Burst, Frame};
use clock::{Duration, Instant};
use direction::{Both, Direction};
use flows::{Entry, Flows, Key};
use inet::Notice;
use packet::{Event, Kind, Packet, Parsed, Part};
use quota::{Exceeded, Sources};
use stats::DropReason;
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use wire::{Mac, Proto, dns};

/// Default maximum number of flows of a policy.
pub const FLOWS_MAX: usize = 65_536;
/// Half of the maximum number of recorded names, and half of the maximum number of recorded
/// fragmented packets.
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

/// Function of the user that decides whether the packets of a flow are allowed.
type Hook = dyn Fn(&Flow) -> Decision + Send + Sync;

/// A policy for the stations behind a port.
///
/// A `Policy` is a handle: clones refer to the same policy, which several ports of one host may
/// share. Stations that must not affect each other need separate policies, since all stations of a
/// policy share its tables.
///
/// The hook runs on the thread of the host and blocks the host meanwhile. It must not panic, and
/// must not use the host other than through this policy.
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
    /// Domain names, by the MAC address of the station that looked them up and by the IP address
    /// found, each with the time until which it is valid. The MAC address identifies the station in
    /// both address families.
    names: Recent<(Mac, IpAddr), (Arc<str>, Instant)>,
    /// Flows of fragmented packets, and the time until which their fragments belong together.
    fragmented: Recent<Fragmented, (Key, Instant)>,
    /// Time at which the policy last inspected a packet.
    now: Instant,
}

/// Identification of a fragmented packet.
#[derive(PartialEq, Eq, Hash, Debug)]
struct Fragmented {
    direction: Direction,
    addrs: (IpAddr, IpAddr),
    proto: Proto,
    id: u32,
}

/// Rejection of a frame.
struct Rejection {
    why: DropReason,
    notice: Notice,
}

impl Policy {
    /// Creates a policy whose hook decides about each flow that a station opens.
    pub fn new(hook: impl Fn(&Flow) -> Decision + Send + Sync + 'static) -> Policy {
        let state = State {
            flows: Flows::new(FLOWS_MAX),
            sources: Sources::new(Both::default()),
            names: Recent::new(NAMES_HALF),
            fragmented: Recent::new(FRAGMENTED_HALF),
            now: Instant::ZERO,
        };
        Policy(Arc::new(Shared { hook: Box::new(hook), counts: PolicyCounts::default(), state: Mutex::new(state) }))
    }

    /// Creates a policy that allows all flows, for users who need only quotas.
    pub fn allow_all() -> Policy {
        Policy::new(|_| Decision::Allow)
    }

    /// Limits what each station sends, or removes the limit (`None`), for all clones of the policy.
    #[must_use]
    pub fn upload(self, quota: impl Into<Option<Quota>>) -> Policy {
        self.lock().sources.limit(Direction::Sent, quota.into());
        self
    }

    /// Limits what each station receives, or removes the limit (`None`), for all clones of the
    /// policy.
    #[must_use]
    pub fn download(self, quota: impl Into<Option<Quota>>) -> Policy {
        self.lock().sources.limit(Direction::Received, quota.into());
        self
    }

    /// Sets the maximum number of flows, 65,536 by default. Packets of further flows are dropped.
    #[must_use]
    pub fn max_flows(self, most: usize) -> Policy {
        self.lock().flows.limit(most);
        self
    }

    /// Makes the hook decide again about each flow that a station opened, as soon as the station
    /// sends the next packet of the flow.
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

    /// Removes from `frames`, which a port received, the frames that the policy does not admit.
    /// Passes each removed frame to `reject`, with the drop reason and the notice for its sender.
    /// `stays_here` returns whether the stack never forwards packets to an address.
    pub(crate) fn admit(
        &self,
        frames: &mut Burst,
        now: Instant,
        stays_here: impl Fn(IpAddr) -> bool,
        mut reject: impl FnMut(Frame, DropReason, Notice),
    ) {
        let mut rejected = Vec::new();
        let judge = |frame: &Frame| self.judge_sent(frame.bytes(), &stays_here, now);
        sort(frames, judge, |frame, why| rejected.push((frame, why)));
        // The frames are rejected only after all are checked, since answers to their senders pass
        // through `limit`.
        rejected.into_iter().for_each(|(frame, Rejection { why, notice })| reject(frame, why, notice));
    }

    /// Removes from `frames`, which the port is about to send, the frames that exceed a quota. The
    /// first `judged` frames stay, since an earlier call has admitted them. Returns the number of
    /// frames removed.
    pub(crate) fn limit(&self, frames: &mut Burst, judged: usize, now: Instant) -> usize {
        let (mut at, before) = (0, frames.len());
        let judge = |frame: &Frame| {
            at += 1;
            if at <= judged { Ok(()) } else { self.judge_received(frame.bytes(), now) }
        };
        sort(frames, judge, |_, _| ());
        before - frames.len()
    }

    /// Decides about a frame that a station sends.
    fn judge_sent(&self, frame: &[u8], stays_here: &impl Fn(IpAddr) -> bool, now: Instant) -> Result<(), Rejection> {
        let counts = &self.0.counts;
        let denied = || Rejection { why: DropReason::PolicyDenied, notice: Notice::Silent };
        let packet = match packet::parse(frame) {
            Parsed::NotIp => return Ok(()),
            Parsed::Packet(packet) => packet,
            Parsed::Malformed => {
                counts.malformed.bump();
                return Err(denied());
            }
        };
        if packet.kind == Kind::Upkeep && stays_here(packet.destination.ip()) {
            return Ok(());
        }
        let mut state = self.lock();
        state.now = now;
        let Some(key) = state.key(&packet, Direction::Sent, now) else {
            counts.fragments.bump();
            return Err(denied());
        };
        let State { flows, sources, .. } = &mut *state;
        if let Some(entry) = flows.find(&key, packet.event, Direction::Sent, now) {
            return pass(counts, sources, entry, &packet, frame, now);
        }
        if packet.kind == Kind::Error {
            counts.errors.bump();
            return Err(denied());
        }
        if !flows.has_room(&key, now) {
            counts.flows_full.bump();
            return Err(denied());
        }
        let (name, generation) = (state.name(packet.macs.source, key.remote.ip(), now), state.flows.generation());
        // The lock is released before the hook runs, since the hook may use the policy.
        drop(state);
        let (decision, name) = self.ask(&key, name);
        let mut state = self.lock();
        let State { flows, sources, .. } = &mut *state;
        flows.insert(key, Entry::new(decision, true, name, now), generation);
        match flows.get(&key) {
            Some(entry) => pass(counts, sources, entry, &packet, frame, now),
            None => Err(denied()), // not reached: the flow was inserted above
        }
    }

    /// Decides about a frame that a station receives. Only quotas reject it.
    fn judge_received(&self, frame: &[u8], now: Instant) -> Result<(), Rejection> {
        let counts = &self.0.counts;
        let packet = match packet::parse(frame) {
            Parsed::Packet(packet) if packet.kind != Kind::Upkeep => packet,
            Parsed::Packet(_) | Parsed::NotIp => return Ok(()),
            // Only parts that routers do not read are malformed, so the stack may have forwarded
            // the packet. It is charged to the station to which it is addressed.
            Parsed::Malformed => match packet::destination(frame) {
                Some(station) => {
                    return charge(counts, &mut self.lock().sources, (station, Direction::Received), frame, now);
                }
                None => return Ok(()),
            },
        };
        let mut state = self.lock();
        state.now = now;
        charge(counts, &mut state.sources, (packet.destination.ip(), Direction::Received), frame, now)?;
        let Some(key) = state.key(&packet, Direction::Received, now) else { return Ok(()) };
        let len = frame.len() as u64;
        let may_have_name = match state.flows.find(&key, packet.event, Direction::Received, now) {
            // In a flow that is not allowed, packets to the station are answers of the stack, such
            // as a TCP RST, and are not counted.
            Some(entry) if entry.decision != Decision::Allow => false,
            Some(entry) => {
                entry.count(&packet, Direction::Received, len);
                entry.by_station && key.proto == Proto::UDP && key.remote.port() == dns::PORT
            }
            None => {
                // If no entry is inserted here, the hook decides about the station's reply. A flow
                // that the station opened must not count as opened by the other side only because
                // it was idle.
                let begins = match key.proto {
                    Proto::TCP => packet.event == Event::Opens,
                    _ => !state.flows.is_by_station(&key),
                };
                let is_opened = packet.kind == Kind::Data && begins && !state.flows.is_reply(&key);
                if is_opened && state.flows.has_room(&key, now) {
                    let generation = state.flows.generation();
                    let mut entry = Entry::new(Decision::Allow, false, None, now);
                    entry.count(&packet, Direction::Received, len);
                    state.flows.insert(key, entry, generation);
                }
                false
            }
        };
        // Names are not learned from a forged response, which a station sends to itself under the
        // address of the server.
        if may_have_name && !state.flows.is_reply(&key) {
            counts.names.add(state.learn(packet.macs.destination, packet.payload(frame), now));
        }
        Ok(())
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
    /// fragment; returns `None` if the first fragment was not seen.
    fn key(&mut self, packet: &Packet, direction: Direction, now: Instant) -> Option<Key> {
        let addrs = (packet.source.ip(), packet.destination.ip());
        let fragmented = |id| Fragmented { direction, addrs, proto: packet.proto, id };
        match packet.part {
            Part::Whole => Some(Key::of(packet, direction)),
            Part::First(id) => {
                let key = Key::of(packet, direction);
                self.fragmented.insert(fragmented(id), (key, now.after(FRAGMENT_TIME)));
                Some(key)
            }
            Part::Later(id) => {
                self.fragmented.get(&fragmented(id)).filter(|(_, until)| now < *until).map(|(key, _)| *key)
            }
        }
    }

    /// Returns the name under which a station looked up an address.
    fn name(&self, station: Mac, addr: IpAddr, now: Instant) -> Option<Arc<str>> {
        let (name, until) = self.names.get(&(station, addr))?;
        (now < *until).then(|| name.clone())
    }

    /// Records the addresses in a DNS response to `station`. Returns their number.
    fn learn(&mut self, station: Mac, message: &[u8], now: Instant) -> u64 {
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

/// Moves the frames that `judge` rejects from `frames` to `reject`.
fn sort(
    frames: &mut Burst,
    mut judge: impl FnMut(&Frame) -> Result<(), Rejection>,
    mut reject: impl FnMut(Frame, Rejection),
) {
    let mut kept = Burst::new();
    for frame in frames.drain() {
        match judge(&frame) {
            Ok(()) => kept.put(frame, || ()), // always has space: at most all frames are kept
            Err(why) => reject(frame, why),
        }
    }
    frames.take_from(&mut kept);
}

/// Handles a packet that a station sends in a known flow: applies the decision about the flow and
/// the station's quota, and counts the packet.
fn pass(
    counts: &PolicyCounts,
    sources: &mut Sources,
    entry: &mut Entry,
    packet: &Packet,
    frame: &[u8],
    now: Instant,
) -> Result<(), Rejection> {
    if entry.decision != Decision::Allow {
        counts.denied.bump();
        let is_notified = entry.decision == Decision::Refuse && packet.kind != Kind::Error;
        let notice = if is_notified { Notice::Refusal } else { Notice::Silent };
        return Err(Rejection { why: DropReason::PolicyDenied, notice });
    }
    charge(counts, sources, (packet.source.ip(), Direction::Sent), frame, now)?;
    entry.count(packet, Direction::Sent, frame.len() as u64);
    Ok(())
}

/// Charges a frame to the quota of a station in one direction. Returns a rejection if the frame
/// exceeds the quota.
fn charge(
    counts: &PolicyCounts,
    sources: &mut Sources,
    (station, direction): (IpAddr, Direction),
    frame: &[u8],
    now: Instant,
) -> Result<(), Rejection> {
    let Err(exceeded) = sources.take(station, direction, frame.len() as u64, now) else { return Ok(()) };
    match exceeded {
        Exceeded::Rate => counts.over_rate.bump(),
        Exceeded::Total => counts.over_total.bump(),
        Exceeded::Sources => counts.sources_full.bump(),
    }
    Err(Rejection { why: DropReason::PolicyQuota, notice: Notice::Silent })
}

impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Policy").field("counts", &self.0.counts).finish_non_exhaustive()
    }
}
