//! Packet captures: copies of the frames that pass the ports of a host or bridge, and of the
//! dropped frames, for clients of the control socket (`linerate tcpdump`, `linerate why`).
//!
//! If no open capture selects a port, captures cost one load and one predicted branch per burst
//! ([`Watch::is_on`]); the same check also covers the port's policy. If a capture selects the port,
//! each frame is copied. A received frame is copied as the port delivered it; a sent frame is
//! recorded once the port has accepted it, without the checksums that the port fills in. A
//! [`Capture`] stores at most [`BYTES_MAX`] bytes; frames that do not fit are counted as missed. A
//! capture of the control socket ends if its client does not read it for [`PATIENCE`].
//!
//! Dropped frames are recorded even if no capture is open: the first [`KEPT_OF_DROPPED`] bytes of
//! the last [`DROPPED_MAX`] frames, at most one frame per [`DROPPED_PACE`]. `linerate why` can
//! therefore explain a drop after it happened.

mod text;

pub use text::{Batch, Caught, Fate, parse};

use crate::policy::Policy;
use buf::Frame;
use clock::{Duration, Instant};
use port::pcap::Direction;
use stats::{DropReason, End};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use wire::eth::{self, EtherType};
use wire::filter::Filter;

/// Maximum number of open captures.
pub const CAPTURES_MAX: usize = 4;
/// Maximum number of bytes that a capture stores for its client. Each frame counts as
/// [`FRAME_COST`] bytes in addition to its data.
pub const BYTES_MAX: usize = 4 << 20;
/// Bytes of memory counted for each stored frame in addition to its data.
pub const FRAME_COST: usize = 64;
/// Number of bytes after which a read of a capture returns no further frames.
pub const READ_MAX: usize = 1 << 20;
/// Time after which a capture that is not read ends.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// Default and maximum snap length (maximum number of bytes stored per frame), the same value as in
/// tcpdump. No frame is longer.
pub const SNAPLEN: u32 = 262_144;
/// Maximum number of dropped frames on record; a new one replaces the oldest.
pub const DROPPED_MAX: usize = 256;
/// Maximum number of bytes recorded of each dropped frame.
pub const KEPT_OF_DROPPED: usize = 160;
/// Minimum interval between recorded drops, which limits the cost of a flood of drops.
pub const DROPPED_PACE: Duration = Duration::from_micros(20);

/// Number of a capture point, which is the number of a host's iface or of a bridge's port.
pub type Place = u16;

/// Capture point of frames dropped by a host's stack, where the ingress iface is no longer known.
pub const NOWHERE: Place = Place::MAX;

/// Hook in a port, which copies the port's frames for the open captures, and applies the policy of
/// the port.
#[derive(Debug)]
pub(crate) struct Watch {
    place: Place,
    /// Name of the iface or port.
    name: Box<str>,
    /// Largest snap length of the open captures that select the port, 0 if there are none. In
    /// addition, the bit [`HAS_POLICY`] is set if the port has a policy.
    needs: AtomicU32,
    captures: Arc<Captures>,
    policy: Mutex<PortPolicy>,
}

/// Policy of a port.
#[derive(Clone, Debug, Default)]
pub(crate) struct PortPolicy {
    pub(crate) policy: Option<Policy>,
    /// Number of times that the policy was set or removed.
    pub(crate) generation: u64,
}

/// Bit of [`Watch::needs`] that is set if the port has a policy.
const HAS_POLICY: u32 = 1 << 31;

impl Watch {
    /// Creates and registers the hook of the port at `place`, which is called `name`.
    pub(crate) fn new(place: Place, name: &str, captures: &Arc<Captures>) -> Arc<Watch> {
        let watch = Arc::new(Watch {
            place,
            name: name.into(),
            needs: AtomicU32::new(0),
            captures: captures.clone(),
            policy: Mutex::default(),
        });
        let mut shared = captures.lock();
        shared.watches.retain(|watch| watch.strong_count() > 0); // drops removed ports
        shared.watches.push(Arc::downgrade(&watch));
        captures.switch(&shared);
        watch
    }

    /// Returns whether a capture or a policy needs this port's frames.
    #[inline(always)]
    pub(crate) fn is_on(&self) -> bool {
        self.needs.load(Ordering::Relaxed) != 0
    }

    /// Returns the largest snap length of the captures that select this port; 0 if there is none.
    fn snaplen(&self) -> u32 {
        self.needs.load(Ordering::Relaxed) & !HAS_POLICY
    }

    fn set_snaplen(&self, snaplen: u32) {
        // The snap length changes only under the lock of `captures`, and `HAS_POLICY` only under
        // the lock of `policy`.
        let set = |needs: u32| Some(needs & HAS_POLICY | snaplen);
        let _ = self.needs.fetch_update(Ordering::Relaxed, Ordering::Relaxed, set);
    }

    /// Sets or removes the policy of the port.
    pub(crate) fn set_policy(&self, policy: Option<&Policy>) {
        let mut place = self.policy.lock().unwrap_or_else(PoisonError::into_inner);
        match policy {
            Some(_) => self.needs.fetch_or(HAS_POLICY, Ordering::Relaxed),
            None => self.needs.fetch_and(!HAS_POLICY, Ordering::Relaxed),
        };
        *place = PortPolicy { policy: policy.cloned(), generation: place.generation + 1 };
    }

    /// Returns the policy of the port.
    #[cold]
    pub(crate) fn policy(&self) -> PortPolicy {
        if self.needs.load(Ordering::Relaxed) & HAS_POLICY == 0 {
            return PortPolicy::default();
        }
        self.policy.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Copies the first bytes of each of `frames`, up to the longest snap length of the captures
    /// that select this port. Must be called before the frames are passed on.
    #[cold]
    pub(crate) fn copy<'f>(&self, frames: impl IntoIterator<Item = &'f Frame>) -> Vec<Copied> {
        let most = self.snaplen() as usize;
        if most == 0 {
            return Vec::new();
        }
        let copy = |frame: &Frame| Copied {
            data: frame.bytes().get(..most.min(frame.len())).unwrap_or_default().into(),
            len: frame.len() as u32,
        };
        frames.into_iter().map(copy).collect()
    }

    /// Adds the copies to every capture that selects this port, as frames that were received or
    /// sent, according to `direction`.
    #[cold]
    pub(crate) fn keep(&self, copies: impl IntoIterator<Item = Copied>, direction: Direction, now: Instant) {
        if self.snaplen() == 0 {
            return;
        }
        let mut shared = self.captures.lock();
        if shared.end_unread(now) {
            self.captures.switch(&shared);
        }
        for copied in copies {
            let wanting = shared.open.iter_mut().filter(|capture| capture.wants.passing(self.place));
            wanting.for_each(|capture| capture.keep(self.place, &copied, Fate::Passed(direction), now));
        }
    }
}

/// A copied frame, possibly truncated.
#[derive(Debug)]
pub(crate) struct Copied {
    data: Box<[u8]>,
    len: u32,
}

/// Frames selected by a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wants {
    /// Frames that pass one of these capture points.
    Places(Vec<Place>),
    /// Frames that pass any capture point, including capture points that are added later.
    Any,
    Dropped,
    /// Frames that pass any capture point, and dropped frames.
    All,
}

impl Wants {
    fn passing(&self, place: Place) -> bool {
        match self {
            Wants::Places(places) => places.contains(&place),
            Wants::Any | Wants::All => true,
            Wants::Dropped => false,
        }
    }

    fn dropped(&self) -> bool {
        matches!(self, Wants::Dropped | Wants::All)
    }
}

/// A frame stored until the capture's client reads it.
#[derive(Clone, Debug)]
struct Held {
    at: Instant,
    place: Place,
    fate: Fate,
    len: u32,
    data: Box<[u8]>,
}

impl Held {
    fn caught(self, name: &impl Fn(Place) -> String) -> Caught {
        let iface = if self.place == NOWHERE { "-".to_string() } else { name(self.place) };
        Caught { at_ns: self.at.nanos(), iface, fate: self.fate, len: self.len, data: self.data.into() }
    }
}

/// An open capture of one client.
#[derive(Debug)]
struct Capture {
    id: u32,
    wants: Wants,
    filter: Option<Filter>,
    snaplen: u32,
    held: VecDeque<Held>,
    bytes: usize,
    seen: u64,
    missed: u64,
    /// Time of the last read; `None` for a capture that does not end by itself.
    read_at: Option<Instant>,
}

impl Capture {
    fn keep(&mut self, place: Place, copied: &Copied, fate: Fate, now: Instant) {
        if self.filter.as_ref().is_some_and(|filter| !filter.matches_captured(&copied.data, copied.len as usize)) {
            return;
        }
        self.seen += 1;
        let data = copied.data.get(..copied.data.len().min(self.snaplen as usize)).unwrap_or_default();
        if self.bytes + data.len() + FRAME_COST > BYTES_MAX {
            self.missed += 1;
            return;
        }
        self.bytes += data.len() + FRAME_COST;
        self.held.push_back(Held { at: now, place, fate, len: copied.len, data: data.into() });
    }

    /// Returns the number of bytes of each frame that a port must copy for this capture. With a
    /// filter, this is the whole frame, because the filter may read beyond the snap length.
    fn copied(&self) -> u32 {
        if self.filter.is_some() { SNAPLEN } else { self.snaplen }
    }
}

/// State of an open capture, as `capture list` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    pub id: u32,
    pub wants: Wants,
    pub held: usize,
    pub seen: u64,
    pub missed: u64,
}

/// The captures of a host or bridge.
#[derive(Debug, Default)]
pub struct Captures {
    shared: Mutex<Shared>,
    /// Set while an open capture selects dropped frames.
    wants_dropped: AtomicBool,
    /// Earliest time at which the next dropped frame may be recorded, in nanoseconds.
    next_dropped: AtomicU64,
}

#[derive(Debug, Default)]
struct Shared {
    watches: Vec<Weak<Watch>>,
    open: Vec<Capture>,
    last_id: u32,
    /// Most recent dropped frames, oldest first.
    dropped: VecDeque<Held>,
}

impl Shared {
    /// Adds a capture, and returns its number; `None` if [`CAPTURES_MAX`] are open.
    fn add(&mut self, wants: Wants, snaplen: u32, filter: Option<Filter>, read_at: Option<Instant>) -> Option<u32> {
        if self.open.len() >= CAPTURES_MAX {
            return None;
        }
        self.last_id = self.last_id.wrapping_add(1);
        let (id, held) = (self.last_id, VecDeque::new());
        self.open.push(Capture { id, wants, filter, snaplen, held, bytes: 0, seen: 0, missed: 0, read_at });
        Some(id)
    }

    /// Ends captures that were not read for [`PATIENCE`]; returns whether any was ended.
    fn end_unread(&mut self, now: Instant) -> bool {
        let before = self.open.len();
        self.open.retain(|capture| capture.read_at.is_none_or(|at| now.since(at) < PATIENCE));
        self.open.len() != before
    }
}

/// Returns the EtherType of a packet whose link header the host has already removed; `None` if the
/// packet still has a link header or is not recognized.
fn stripped(packet: &[u8]) -> Option<EtherType> {
    let after_link = packet.get(eth::HEADER_LEN).map(|byte| byte >> 4);
    if matches!((packet.get(12..14), after_link), (Some([8, 0]), Some(4)) | (Some([0x86, 0xdd]), Some(6))) {
        return None;
    }
    match *packet {
        [0x45..=0x4f, _, high, low, ..]
            if (20..=packet.len()).contains(&usize::from(u16::from_be_bytes([high, low]))) =>
        {
            Some(EtherType::IPV4)
        }
        [0x60..=0x6f, _, _, _, high, low, ..]
            if packet.len() >= 40 && usize::from(u16::from_be_bytes([high, low])) <= packet.len() - 40 =>
        {
            Some(EtherType::IPV6)
        }
        [0, 1, 8, 0, 6, 4, 0, ..] if packet.len() >= 28 => Some(EtherType::ARP),
        _ => None,
    }
}

/// Copies a dropped frame. A packet without a link header gets an Ethernet header with zero
/// addresses.
fn copy_dropped(place: Place, frame: &Frame, most: usize) -> Copied {
    let packet = frame.l3_bytes();
    let Some(ethertype) = Some(packet).filter(|_| place == NOWHERE).and_then(stripped) else {
        let bytes = frame.bytes();
        return Copied { data: bytes.get(..most.min(bytes.len())).unwrap_or_default().into(), len: bytes.len() as u32 };
    };
    let mut data = vec![0; eth::HEADER_LEN - 2];
    data.extend(ethertype.0.to_be_bytes());
    data.extend(packet.iter().take(most.saturating_sub(data.len())));
    Copied { data: data.into(), len: (eth::HEADER_LEN + packet.len()) as u32 }
}

impl Captures {
    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Updates the snap lengths in the ports' hooks, and the flag `wants_dropped`, after a change
    /// of the open captures.
    fn switch(&self, shared: &Shared) {
        for watch in shared.watches.iter().filter_map(Weak::upgrade) {
            let wanting = shared.open.iter().filter(|capture| capture.wants.passing(watch.place));
            watch.set_snaplen(wanting.map(Capture::copied).max().unwrap_or(0));
        }
        let wants_dropped = shared.open.iter().any(|capture| capture.wants.dropped());
        self.wants_dropped.store(wants_dropped, Ordering::Relaxed);
    }

    /// Records a frame that is dropped at `place` for the reason `why`. Ignores a frame that was
    /// consumed rather than lost ([`End::Consumed`]).
    pub(crate) fn note_dropped(&self, place: Place, frame: &Frame, why: DropReason, now: Instant) {
        if why.end() == End::Consumed {
            return;
        }
        let wanted = self.wants_dropped.load(Ordering::Relaxed);
        let is_due = now.nanos() >= self.next_dropped.load(Ordering::Relaxed);
        if !wanted && !is_due {
            return;
        }
        let mut shared = self.lock();
        if is_due {
            self.next_dropped.store(now.after(DROPPED_PACE).nanos(), Ordering::Relaxed);
            if shared.dropped.len() >= DROPPED_MAX {
                shared.dropped.pop_front();
            }
            let Copied { data, len } = copy_dropped(place, frame, KEPT_OF_DROPPED);
            shared.dropped.push_back(Held { at: now, place, fate: Fate::Dropped(why), len, data });
        }
        if !wanted {
            return;
        }
        if shared.end_unread(now) {
            self.switch(&shared);
        }
        let mut copied = None;
        for capture in shared.open.iter_mut().filter(|capture| capture.wants.dropped()) {
            let copied = copied.get_or_insert_with(|| copy_dropped(place, frame, SNAPLEN as usize));
            capture.keep(place, copied, Fate::Dropped(why), now);
        }
    }

    /// Sets or removes the policy of the port at `place`. Returns `false` if there is no such port.
    pub(crate) fn set_policy(&self, place: Place, policy: Option<&Policy>) -> bool {
        let watches = self.lock().watches.clone();
        let of_place = watches.iter().filter_map(Weak::upgrade).filter(|watch| watch.place == place);
        of_place.inspect(|watch| watch.set_policy(policy)).count() > 0
    }

    /// Returns the recorded dropped frames that match `filter`, oldest first; `name` maps a capture
    /// point to its name.
    pub fn dropped(&self, filter: &Filter, now: Instant, name: impl Fn(Place) -> String) -> Batch {
        let mut held: Vec<Held> = self.lock().dropped.iter().cloned().collect();
        held.retain(|held| filter.matches_captured(&held.data, held.len as usize));
        let frames: Vec<Caught> = held.into_iter().map(|held| held.caught(&name)).collect();
        Batch { now_ns: now.nanos(), seen: frames.len() as u64, missed: 0, frames }
    }

    /// Opens a capture of the frames that `wants` and `filter` select, `snaplen` bytes of each, and
    /// returns its number. Returns `None` if [`CAPTURES_MAX`] captures are open and each of them is
    /// still being read.
    pub fn open(&self, wants: Wants, snaplen: u32, filter: Option<Filter>, now: Instant) -> Option<u32> {
        let mut shared = self.lock();
        shared.end_unread(now);
        let id = shared.add(wants, snaplen.clamp(1, SNAPLEN), filter, Some(now))?;
        self.switch(&shared);
        Some(id)
    }

    /// Opens a capture of the whole frames that match `filter` at any capture point, which lasts
    /// until the reader is dropped. Returns `None` if [`CAPTURES_MAX`] captures are open.
    pub(crate) fn open_reader(self: &Arc<Captures>, filter: Filter) -> Option<CaptureReader> {
        let mut shared = self.lock();
        let id = shared.add(Wants::Any, SNAPLEN, Some(filter), None)?;
        self.switch(&shared);
        drop(shared);
        Some(CaptureReader { captures: self.clone(), id })
    }

    /// Returns the name of a capture point; `-` if its port was removed.
    fn name(&self, place: Place) -> String {
        let watches = self.lock().watches.clone();
        let watch = watches.iter().filter_map(Weak::upgrade).find(|watch| watch.place == place);
        watch.map_or("-".to_owned(), |watch| watch.name.to_string())
    }

    /// Removes frames from capture `id` and returns them, until their size reaches [`READ_MAX`];
    /// `name` maps a capture point to its name. Returns `None` if there is no such capture.
    pub fn read(&self, id: u32, now: Instant, name: impl Fn(Place) -> String) -> Option<Batch> {
        let mut shared = self.lock();
        let capture = shared.open.iter_mut().find(|capture| capture.id == id)?;
        capture.read_at = capture.read_at.map(|_| now);
        let (mut frames, mut bytes) = (Vec::new(), 0);
        while bytes < READ_MAX
            && let Some(held) = capture.held.pop_front()
        {
            bytes += held.data.len() + FRAME_COST;
            capture.bytes = capture.bytes.saturating_sub(held.data.len() + FRAME_COST);
            frames.push(held);
        }
        let (seen, missed) = (capture.seen, capture.missed);
        drop(shared);
        let frames = frames.into_iter().map(|held| held.caught(&name)).collect();
        Some(Batch { now_ns: now.nanos(), seen, missed, frames })
    }

    /// Ends capture `id`; returns `false` if there is no such capture.
    pub fn close(&self, id: u32) -> bool {
        let mut shared = self.lock();
        let before = shared.open.len();
        shared.open.retain(|capture| capture.id != id);
        self.switch(&shared);
        shared.open.len() < before
    }

    /// Returns the state of the open captures.
    pub fn list(&self, now: Instant) -> Vec<Status> {
        let mut shared = self.lock();
        if shared.end_unread(now) {
            self.switch(&shared);
        }
        let status = |c: &Capture| Status {
            id: c.id,
            wants: c.wants.clone(),
            held: c.held.len(),
            seen: c.seen,
            missed: c.missed,
        };
        shared.open.iter().map(status).collect()
    }
}

/// An open capture of a program that uses the library. Dropping it ends the capture.
#[derive(Debug)]
pub struct CaptureReader {
    captures: Arc<Captures>,
    id: u32,
}

impl CaptureReader {
    /// Removes frames from the capture and returns them, until their size reaches [`READ_MAX`].
    pub fn read(&self) -> Batch {
        let batch = self.captures.read(self.id, Instant::ZERO, |place| self.captures.name(place));
        batch.unwrap_or_default() // none only if a command has closed the capture
    }
}

impl Drop for CaptureReader {
    fn drop(&mut self) {
        self.captures.close(self.id);
    }
}
