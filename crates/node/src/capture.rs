//! Frames copied as they pass a port, for who asks for them over the control socket: `linerate tcpdump`.
//!
//! A port that nobody watches pays one load and a predicted branch a burst ([`Watch::is_on`]). One that is watched pays for a
//! copy of each frame: received ones as the port gave them, sent ones when the port took them, open checksums as they are.
//! A [`Capture`] is bounded in bytes; what comes when it is full is counted as missed and the traffic goes on. One that
//! nobody reads ends by itself, so a client that died costs nothing for long.

#[cfg(test)]
mod tests;
mod text;

pub use text::{Batch, Caught, parse};

use buf::Frame;
use clock::{Duration, Instant};
use inet::iface::IfaceId;
use port::pcap::Direction;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Captures open at a time.
pub const CAPTURES_MAX: usize = 4;
/// Bytes that one holds for its reader; a frame costs [`FRAME_COST`] beside its own.
pub const BYTES_MAX: usize = 4 << 20;
/// What a held frame costs beside its bytes.
pub const FRAME_COST: usize = 64;
/// Bytes given to the reader at a time.
pub const READ_MAX: usize = 1 << 20;
/// A capture that nobody has read for so long ends.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes kept of each frame unless asked otherwise: all of them, as in tcpdump.
pub const SNAPLEN: u32 = 262_144;

/// A port's side: is anybody watching, and how much of each frame does he want?
#[derive(Debug)]
pub(crate) struct Watch {
    iface: IfaceId,
    snaplen: AtomicU32, // 0: nobody
    captures: Arc<Captures>,
}

impl Watch {
    pub(crate) fn new(iface: IfaceId, captures: &Arc<Captures>) -> Arc<Watch> {
        let watch = Arc::new(Watch { iface, snaplen: AtomicU32::new(0), captures: captures.clone() });
        captures.lock().watches.push(watch.clone());
        watch
    }

    /// Does anybody watch?
    #[inline(always)]
    pub(crate) fn is_on(&self) -> bool {
        self.snaplen.load(Ordering::Relaxed) != 0
    }

    /// The parts of `frames` that are wanted: made before they go, for then they are gone.
    #[cold]
    pub(crate) fn copy<'f>(&self, frames: impl IntoIterator<Item = &'f Frame>) -> Vec<Copied> {
        let most = self.snaplen.load(Ordering::Relaxed) as usize;
        let copy = |frame: &Frame| Copied {
            data: frame.bytes().get(..most.min(frame.len())).unwrap_or_default().into(),
            len: frame.len() as u32,
        };
        frames.into_iter().map(copy).collect()
    }

    /// Keeps them for every capture that wants them.
    #[cold]
    pub(crate) fn keep(&self, copies: impl IntoIterator<Item = Copied>, direction: Direction, now: Instant) {
        let mut shared = self.captures.lock();
        shared.end_unread(now);
        for copied in copies {
            shared.open.iter_mut().filter(|c| c.ifaces.contains(&self.iface)).for_each(|capture| {
                capture.keep(self.iface, &copied, direction, now);
            });
        }
    }
}

/// A frame, or its beginning.
#[derive(Debug)]
pub(crate) struct Copied {
    data: Box<[u8]>,
    len: u32,
}

/// One frame held for its reader.
#[derive(Debug)]
struct Held {
    at: Instant,
    iface: IfaceId,
    direction: Direction,
    len: u32,
    data: Box<[u8]>,
}

/// What one reader has asked for.
#[derive(Debug)]
struct Capture {
    id: u32,
    ifaces: Vec<IfaceId>,
    snaplen: u32,
    held: VecDeque<Held>,
    bytes: usize,
    seen: u64,
    missed: u64,
    read_at: Instant,
}

impl Capture {
    fn keep(&mut self, iface: IfaceId, copied: &Copied, direction: Direction, now: Instant) {
        self.seen += 1;
        let data = copied.data.get(..copied.data.len().min(self.snaplen as usize)).unwrap_or_default();
        if self.bytes + data.len() + FRAME_COST > BYTES_MAX {
            self.missed += 1;
            return;
        }
        self.bytes += data.len() + FRAME_COST;
        self.held.push_back(Held { at: now, iface, direction, len: copied.len, data: data.into() });
    }
}

/// What a capture is like now, for a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Status {
    pub(crate) id: u32,
    pub(crate) ifaces: Vec<IfaceId>,
    pub(crate) held: usize,
    pub(crate) seen: u64,
    pub(crate) missed: u64,
}

/// The captures of a host.
#[derive(Debug, Default)]
pub(crate) struct Captures(Mutex<Shared>);

#[derive(Debug, Default)]
struct Shared {
    watches: Vec<Arc<Watch>>,
    open: Vec<Capture>,
    last_id: u32,
}

impl Shared {
    /// Tells the ports how much is wanted now.
    fn tell(&self) {
        for watch in &self.watches {
            let wanted = self.open.iter().filter(|capture| capture.ifaces.contains(&watch.iface));
            watch.snaplen.store(wanted.map(|capture| capture.snaplen).max().unwrap_or(0), Ordering::Relaxed);
        }
    }

    fn end_unread(&mut self, now: Instant) {
        let before = self.open.len();
        self.open.retain(|capture| now.since(capture.read_at) < PATIENCE);
        if self.open.len() != before {
            self.tell();
        }
    }
}

impl Captures {
    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to keep what passes `ifaces`, `snaplen` bytes of each frame; gives the capture's number. `None`: there are
    /// [`CAPTURES_MAX`], and all of them are read.
    pub(crate) fn open(&self, ifaces: Vec<IfaceId>, snaplen: u32, now: Instant) -> Option<u32> {
        let mut shared = self.lock();
        shared.end_unread(now);
        if shared.open.len() >= CAPTURES_MAX {
            return None;
        }
        shared.last_id = shared.last_id.wrapping_add(1);
        let id = shared.last_id;
        let snaplen = snaplen.clamp(1, SNAPLEN);
        let held = VecDeque::new();
        shared.open.push(Capture { id, ifaces, snaplen, held, bytes: 0, seen: 0, missed: 0, read_at: now });
        shared.tell();
        Some(id)
    }

    /// Gives what capture `id` holds, at most [`READ_MAX`] bytes; `name` names ifaces. `None`: there is none such.
    pub(crate) fn read(&self, id: u32, now: Instant, name: impl Fn(IfaceId) -> String) -> Option<Batch> {
        let mut shared = self.lock();
        let capture = shared.open.iter_mut().find(|capture| capture.id == id)?;
        capture.read_at = now;
        let (mut frames, mut bytes) = (Vec::new(), 0);
        while bytes < READ_MAX
            && let Some(held) = capture.held.pop_front()
        {
            bytes += held.data.len() + FRAME_COST;
            capture.bytes = capture.bytes.saturating_sub(held.data.len() + FRAME_COST);
            frames.push(Caught {
                at_ns: held.at.nanos(),
                iface: name(held.iface),
                direction: held.direction,
                len: held.len,
                data: held.data.into(),
            });
        }
        Some(Batch { now_ns: now.nanos(), seen: capture.seen, missed: capture.missed, frames })
    }

    /// Ends capture `id`; `false`: there is none such.
    pub(crate) fn close(&self, id: u32) -> bool {
        let mut shared = self.lock();
        let before = shared.open.len();
        shared.open.retain(|capture| capture.id != id);
        shared.tell();
        shared.open.len() < before
    }

    /// The open ones.
    pub(crate) fn list(&self, now: Instant) -> Vec<Status> {
        let mut shared = self.lock();
        shared.end_unread(now);
        let status = |c: &Capture| Status {
            id: c.id,
            ifaces: c.ifaces.clone(),
            held: c.held.len(),
            seen: c.seen,
            missed: c.missed,
        };
        shared.open.iter().map(status).collect()
    }
}
