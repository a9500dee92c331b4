//! A port as two files, one of lines and one of records: its open files, blocked requests, ring
//! buffers and send queue.
//!
//! ```text
//! port thread    -> received()  encodes a burst once per file -> ring -> blocked read(2), poll(2)
//! session thread -> read()      returns buffered data, or the request waits (`Wait`)
//!                -> write()     queues the frames of the lines, or the request waits for room
//! sender thread  <- next()      takes a batch from the queue and sends it at its time
//! ```
//!
//! A port with a descriptor to wait for (a device) delivers frames when they arrive, and a slow
//! reader loses the oldest frames. A port without a descriptor (a generator, a capture file) is
//! polled only while some reader has consumed most of its buffered frames. A single reader of such
//! a port therefore loses no frames.

use super::fuse::{Answer, MOST};
use super::kernel::Kernel;
use super::lines::{Fed, Kind, Lines};
use super::ring::{BLOCK, Block, Piece, Reader, Ring, Taken};
use crate::Frames;
use crate::spread::lock;
use buf::Burst;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;
use wire::bpkt::Form;
use wire::text::{self, MAX_LINE, SLACK, Stamp};

/// Maximum time between two checks for a request to stop.
const NAP: Duration = Duration::from_millis(50);
/// Number of bytes in the send queue at which writes begin to block.
const QUEUED: usize = 1 << 20;
/// Kinds of the two files of a port.
const KINDS: [Kind; 2] = [Kind::Text, Kind::Binary];
/// Maximum number of open files per port; the default limit of a process is 1024.
const OPEN: usize = 4096;

/// The two files of a port.
#[derive(Debug)]
pub struct Device {
    name: String,
    stamped: bool,
    announces: bool,
    /// Number of bytes to keep buffered for each reader. A port without a descriptor is polled only
    /// while fewer bytes are buffered for some reader.
    ahead: usize,
    state: Mutex<State>,
    /// Signaled when a reader has opened, read or closed a file, because the port may then be
    /// polled.
    room: Condvar,
    /// Signaled when frames to send may have been queued.
    written: Condvar,
}

#[derive(Debug)]
struct State {
    rings: [Ring; 2],
    open: BTreeMap<u64, Open>,
    waiting: Vec<Wait>,
    queue: VecDeque<Frames>,
    queued: usize,
    writers: VecDeque<Writer>,
    counts: Counts,
    /// True while more frames are expected immediately. A read then waits for them unless it can be
    /// answered in full.
    more: bool,
    over: bool,
    lost: bool,
}

/// Counters of a port's files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of frames received from the port.
    pub received: u64,
    /// Number of frames received while no file was open for reading.
    pub unread: u64,
    /// Number of received frames that are too short or too long for a line or record.
    pub refused: u64,
    /// Number of frames delivered to readers, counted once for each reader.
    pub delivered: u64,
    /// Number of frames dropped before a slow reader read them, counted once for each reader.
    pub overflow: u64,
    /// Number of valid frames that programs wrote to the files.
    pub accepted: u64,
    /// Number of frames sent through the port.
    pub sent: u64,
    /// Number of frames not sent because they are too long for the port.
    pub too_long: u64,
    /// Number of written lines and records that are not frames.
    pub bad_lines: u64,
    /// Error in the first written line or record that is not a frame.
    pub first_bad: Option<String>,
}

/// Counters of one reader, as printed in the file `stats/PORT`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReaderCounts {
    /// Kind of the file that the reader has open.
    pub kind: Kind,
    /// Number of frames delivered to the reader.
    pub delivered: u64,
    /// Number of frames dropped before the reader read them.
    pub overflow: u64,
    /// Number of frames buffered for the reader.
    pub waiting: u64,
}

#[derive(Debug)]
struct Open {
    kind: Kind,
    reader: Option<Reader>,
    /// Remaining bytes of a frame that was longer than the buffer of the last read.
    rest: Option<Piece>,
    lines: Arc<Mutex<Lines>>,
    /// FUSE poll handle that is notified when the events returned by poll(2) change; `None` if no
    /// poll waits.
    poll: Option<u64>,
}

/// A read request that waits for a frame.
#[derive(Debug, Clone, Copy)]
struct Wait {
    unique: u64,
    fh: u64,
    room: usize,
}

/// A write request that waits for space in the send queue.
#[derive(Debug)]
struct Writer {
    unique: u64,
    fh: u64,
    data: Vec<u8>,
}

/// Data that is being sent to a reader. If the read was interrupted, the reader's position is set
/// back to `before`.
#[derive(Debug)]
struct Given {
    unique: u64,
    fh: u64,
    pieces: Vec<Piece>,
    kind: Kind,
    before: (Option<Reader>, Option<Piece>),
    after: Option<Reader>,
}

impl State {
    fn ring(&self, kind: Kind) -> &Ring {
        let [text, binary] = &self.rings;
        if kind == Kind::Text { text } else { binary }
    }

    fn ring_mut(&mut self, kind: Kind) -> &mut Ring {
        let [text, binary] = &mut self.rings;
        if kind == Kind::Text { text } else { binary }
    }

    fn readers(&self, kind: Kind) -> impl Iterator<Item = &Reader> {
        self.open.values().filter(move |open| open.kind == kind).filter_map(|open| open.reader.as_ref())
    }

    /// Frees the buffered frames that all readers have read.
    fn release(&mut self, kind: Kind) {
        let State { rings: [text, binary], open, .. } = self;
        let ring = if kind == Kind::Text { text } else { binary };
        ring.release(open.values().filter(|open| open.kind == kind).filter_map(|open| open.reader.as_ref()));
    }

    /// Returns the data with which the read request `wait` is answered now, or `None` if it must
    /// wait. While more frames are expected immediately, a request waits until as many bytes are
    /// buffered as it requested, or `enough` bytes.
    fn give(&mut self, wait: Wait, enough: usize) -> Option<Given> {
        let Wait { unique, fh, room } = wait;
        if self.more
            && let Some(Open { kind, reader: Some(reader), rest: None, .. }) = self.open.get(&fh)
            && self.ring(*kind).ahead(reader) < room.min(enough)
        {
            return None;
        }
        let State { rings: [text, binary], open, .. } = self;
        let open = open.get_mut(&fh)?;
        let ring = if open.kind == Kind::Text { text } else { binary };
        let before = (open.reader, open.rest.clone());
        let pieces = if let Some(mut rest) = open.rest.take() {
            let front = rest.split(room);
            open.rest = front.is_some().then(|| rest.clone());
            vec![front.unwrap_or(rest)]
        } else {
            match ring.take(open.reader.as_mut()?, room) {
                Taken::Pieces(pieces) => pieces,
                Taken::Long(mut record) => {
                    let front = record.split(room);
                    open.rest = Some(record);
                    front.into_iter().collect()
                }
                Taken::Nothing => return None,
            }
        };
        Some(Given { unique, fh, pieces, before, after: open.reader, kind: open.kind })
    }

    fn is_ready(&self, open: &Open) -> bool {
        let ready = open.reader.is_some_and(|reader| self.ring(open.kind).is_ready(&reader));
        ready || open.rest.is_some() || (self.over && open.reader.is_some())
    }

    /// Removes and returns the poll handles to notify: all handles if `to_write`, because writes
    /// are possible again; otherwise the handles of readers with buffered frames.
    fn polled(&mut self, to_write: bool) -> Vec<u64> {
        let ready: Vec<u64> =
            self.open.iter().filter(|(_, open)| to_write || self.is_ready(open)).map(|(fh, _)| *fh).collect();
        ready.iter().filter_map(|fh| self.open.get_mut(fh)?.poll.take()).collect()
    }

    fn queue(&mut self, frames: &mut Frames) {
        let bytes: usize = frames.iter().map(|(bytes, _)| bytes.len()).sum();
        self.queued += bytes;
        self.counts.accepted += frames.len() as u64;
        match self.queue.back_mut() {
            // Small writes are merged into one batch.
            Some(last) if bytes < BLOCK && !last.is_full() => {
                last.append(frames);
            }
            _ => self.queue.push_back(std::mem::take(frames)),
        }
    }

    fn count(&mut self, fed: &Fed) {
        self.counts.bad_lines += fed.bad;
        if let (None, Some(why)) = (&self.counts.first_bad, &fed.why) {
            self.counts.first_bad = Some(why.clone());
        }
    }
}

impl Device {
    /// Creates the files of port `name`. With `stamped`, lines begin with the arrival time; records
    /// always contain it. `announces` is true if the port has a descriptor that becomes readable
    /// when frames arrive. Each file buffers `ring` bytes for its readers.
    pub fn new(name: &str, stamped: bool, announces: bool, ring: usize) -> Device {
        let state = State {
            rings: [Ring::new(ring), Ring::new(ring)],
            open: BTreeMap::new(),
            waiting: Vec::new(),
            queue: VecDeque::new(),
            queued: 0,
            writers: VecDeque::new(),
            counts: Counts::default(),
            more: false,
            over: false,
            lost: false,
        };
        Device {
            name: name.to_owned(),
            stamped,
            announces,
            ahead: ring / 2,
            state: Mutex::new(state),
            room: Condvar::new(),
            written: Condvar::new(),
        }
    }

    /// Returns the name of the port.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Opens the file of kind `kind` with the handle `fh`. Returns false if too many files of the
    /// port are open.
    pub fn open(&self, fh: u64, kind: Kind, reads: bool) -> bool {
        let mut state = self.lock();
        if state.open.len() >= OPEN {
            return false;
        }
        let reader = reads.then(|| state.ring(kind).reader());
        let lines = Arc::new(Mutex::new(Lines::new(kind)));
        state.open.insert(fh, Open { kind, reader, rest: None, lines, poll: None });
        self.room.notify_all();
        true
    }

    /// Closes the open file `fh`. A last line that was written without a newline counts as
    /// complete.
    pub fn close(&self, fh: u64) {
        let Some(open) = self.lock().open.remove(&fh) else { return };
        let fed = lock(&open.lines).end(|frames| self.lock().queue(frames));
        let mut state = self.lock();
        state.count(&fed);
        if let Some(reader) = open.reader {
            state.counts.delivered += reader.delivered;
            // Frames that are still buffered for the reader do not count as lost, because the
            // reader closed the file.
            state.counts.overflow += reader.overflow;
        }
        state.release(open.kind);
        self.written.notify_all();
        self.room.notify_all();
    }

    /// Answers a read request of `size` bytes: now or, if `wait` is true, when a frame arrives.
    pub fn read(&self, unique: u64, fh: u64, size: u32, wait: bool, kernel: &Kernel) {
        // The kernel splits a large read(2) into several requests and continues until one returns
        // less than its size. Returning one byte less ends the read(2), so that it does not block
        // although some data has already been read.
        let size = size as usize;
        let room = if size > MOST - 4096 { size - 1 } else { size };
        let request = Wait { unique, fh, room };
        let mut state = self.lock();
        let enough = if wait { self.ahead } else { 0 };
        let given = if size == 0 { None } else { state.give(request, enough) };
        if let Some(given) = given {
            drop(state);
            return self.hand_over(vec![given], kernel);
        }
        let errno = if state.over || size == 0 {
            0
        } else if !wait {
            libc::EAGAIN
        } else {
            return state.waiting.push(request);
        };
        drop(state);
        kernel.send(&Answer::error(unique, errno));
    }

    /// Answers read requests with their data. If a request was interrupted, the reader's position
    /// is restored, so that its next read returns the same data.
    fn hand_over(&self, all: Vec<Given>, kernel: &Kernel) {
        for given in all {
            let answered = kernel.send_data(given.unique, &given.pieces);
            let mut state = self.lock();
            if !answered && let Some(open) = state.open.get_mut(&given.fh).filter(|open| open.reader == given.after) {
                (open.reader, open.rest) = given.before;
            }
            // The frames are freed only after the answer was sent: if the kernel had interrupted
            // the read request, the next read request returns the same frames.
            drop(given.pieces);
            state.release(given.kind);
        }
        self.room.notify_one();
    }

    /// Answers a write request: now or, if `wait` is true, when the send queue has space.
    pub fn write(&self, unique: u64, fh: u64, data: &[u8], wait: bool, kernel: &Kernel) {
        let mut state = self.lock();
        let Some(open) = state.open.get(&fh) else {
            drop(state);
            return kernel.send(&Answer::error(unique, libc::EBADF));
        };
        let lines = open.lines.clone();
        let full = state.queued >= QUEUED || !state.writers.is_empty();
        if full && wait {
            return state.writers.push_back(Writer { unique, fh, data: data.to_vec() });
        }
        drop(state);
        let answer = if full { Answer::error(unique, libc::EAGAIN) } else { self.accept(unique, &lines, data) };
        kernel.send(&answer);
    }

    /// Queues the frames in `data` for sending, and returns the answer to the write request. A
    /// write without any valid frame is an error. Otherwise bad lines are only counted.
    fn accept(&self, unique: u64, lines: &Mutex<Lines>, data: &[u8]) -> Answer {
        let fed = lock(lines).feed(data, |frames| self.lock().queue(frames));
        self.lock().count(&fed);
        self.written.notify_all();
        let nothing = fed.good == 0 && fed.bad > 0;
        if nothing { Answer::error(unique, libc::EINVAL) } else { Answer::written(unique, data.len()) }
    }

    /// Returns the events of poll(2) for the open file `fh`. If the poll handle `kh` is given, it
    /// is notified when the events change.
    pub fn poll(&self, fh: u64, kh: Option<u64>) -> u32 {
        let mut state = self.lock();
        let Some(open) = state.open.get(&fh) else { return libc::POLLERR as u32 };
        let mut events = 0;
        if state.is_ready(open) {
            events |= libc::POLLIN | libc::POLLRDNORM;
        }
        if state.queued < QUEUED {
            events |= libc::POLLOUT | libc::POLLWRNORM;
        }
        if let Some(open) = state.open.get_mut(&fh) {
            open.poll = kh;
        }
        events as u32
    }

    /// Cancels the request `unique` if it waits for a frame or for space in the send queue. Returns
    /// whether it was waiting.
    pub fn interrupt(&self, unique: u64, kernel: &Kernel) -> bool {
        let mut state = self.lock();
        let waiting = state.waiting.len() + state.writers.len();
        state.waiting.retain(|wait| wait.unique != unique);
        state.writers.retain(|writer| writer.unique != unique);
        let found = state.waiting.len() + state.writers.len() < waiting;
        drop(state);
        if found {
            kernel.send(&Answer::error(unique, libc::EINTR));
        }
        found
    }

    /// Waits until the port should be polled for frames. Returns at once for a port with a
    /// descriptor, otherwise when few bytes are buffered for some reader (`ahead`) or `stop`
    /// returns true.
    pub fn wait_for_room(&self, stop: fn() -> bool) {
        let mut state = self.lock();
        while !self.announces && !stop() {
            let eager = |kind| state.readers(kind).any(|reader| state.ring(kind).ahead(reader) < self.ahead);
            if eager(Kind::Text) || eager(Kind::Binary) {
                return;
            }
            state = match self.room.wait_timeout(state, NAP) {
                Ok((state, _)) => state,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
    }

    /// Passes the frames that the port received at `ticks` to all readers. If `more`, further
    /// frames are expected immediately, so reads that cannot be answered in full wait for them or
    /// for [`Device::pause`].
    pub fn received(&self, burst: &mut Burst, ticks: u64, more: bool, kernel: &Kernel) {
        let mut state = self.lock();
        state.more = more;
        state.counts.received += burst.len() as u64;
        let wanted = KINDS.map(|kind| state.readers(kind).next().is_some());
        let [text, binary] = &mut state.rings;
        let mut blocks = [text.spare(), binary.spare()];
        drop(state);
        let arrival = Stamp::arrival(ticks);
        let mut refused = 0;
        for ((kind, block), _) in KINDS.into_iter().zip(&mut blocks).zip(wanted).filter(|(_, wanted)| *wanted) {
            refused = 0;
            for frame in burst.as_slice() {
                refused += u64::from(!encode(kind, frame.bytes(), self.stamped, arrival, block));
                if block.is_full() {
                    let mut state = self.lock();
                    let ring = state.ring_mut(kind);
                    let spare = ring.spare();
                    ring.push(std::mem::replace(block, spare));
                    self.notify(state, kernel);
                }
            }
        }
        let unread = if wanted == [false; 2] { burst.len() as u64 } else { 0 };
        burst.clear();
        let mut state = self.lock();
        for (ring, block) in state.rings.iter_mut().zip(blocks) {
            ring.push(block);
        }
        state.counts.unread += unread;
        state.counts.refused += refused;
        self.notify(state, kernel);
    }

    /// Ends the wait for further frames that [`Device::received`] began. Blocked reads receive the
    /// frames that are buffered.
    pub fn pause(&self, kernel: &Kernel) {
        let mut state = self.lock();
        state.more = false;
        self.notify(state, kernel);
    }

    /// Answers blocked reads with the frames that are buffered, and notifies poll handles.
    fn notify(&self, mut state: MutexGuard<'_, State>, kernel: &Kernel) {
        let mut given = Vec::new();
        let mut waiting = std::mem::take(&mut state.waiting);
        let over = state.over;
        let mut ended = Vec::new();
        waiting.retain(|wait| match state.give(*wait, self.ahead) {
            Some(some) => {
                given.push(some);
                false
            }
            None if over => {
                ended.push(wait.unique);
                false
            }
            None => true,
        });
        state.waiting = waiting;
        let polled = state.polled(false);
        drop(state);
        self.hand_over(given, kernel);
        ended.into_iter().for_each(|unique| kernel.send(&Answer::done(unique)));
        polled.into_iter().for_each(|kh| kernel.send(&Answer::wake(kh)));
    }

    /// Records that the port receives no more frames. Readers get end of file after the remaining
    /// frames. If `lost`, the port has failed and cannot send either.
    pub fn end(&self, lost: bool, kernel: &Kernel) {
        let mut state = self.lock();
        state.lost |= lost;
        (state.over, state.more) = (true, false);
        self.notify(state, kernel);
    }

    /// Ends the files when the mount ends. Readers get end of file, and blocked writes fail with
    /// ENODEV.
    pub fn shut(&self, kernel: &Kernel) {
        self.end(false, kernel);
        let writers = std::mem::take(&mut self.lock().writers);
        writers.iter().for_each(|writer| kernel.send(&Answer::error(writer.unique, libc::ENODEV)));
    }

    /// Returns whether the port has ended and all received frames have been read. Unless the port
    /// failed, all queued frames must have been sent too.
    pub fn is_done(&self) -> bool {
        let state = self.lock();
        let unread = |open: &Open| {
            open.rest.is_some() || open.reader.is_some_and(|reader| state.ring(open.kind).is_ready(&reader))
        };
        state.over && (state.queued == 0 || state.lost) && !state.open.values().any(unread)
    }

    /// Returns whether any file is open.
    pub fn is_open(&self) -> bool {
        !self.lock().open.is_empty()
    }

    /// Waits for the next batch to send and returns it; returns `None` when `stop` returns true.
    pub fn next(&self, stop: fn() -> bool) -> Option<Frames> {
        let mut state = self.lock();
        loop {
            if stop() {
                return None;
            }
            if let Some(batch) = state.queue.pop_front() {
                return Some(batch);
            }
            state = match self.written.wait_timeout(state, NAP) {
                Ok((state, _)) => state,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
    }

    /// Removes the bytes of `batch`, which has been sent, from the count of queued bytes, and
    /// resumes blocked writes. `sent` and `too_long` are the port's totals of frames sent, and of
    /// frames dropped as too long.
    pub fn sent(&self, batch: &Frames, sent: u64, too_long: u64, kernel: &Kernel) {
        let mut state = self.lock();
        let bytes: usize = batch.iter().map(|(bytes, _)| bytes.len()).sum();
        state.queued = state.queued.saturating_sub(bytes);
        (state.counts.sent, state.counts.too_long) = (sent, too_long);
        while state.queued < QUEUED
            && let Some(writer) = state.writers.pop_front()
        {
            let lines = state.open.get(&writer.fh).map(|open| open.lines.clone());
            drop(state);
            let gone = Answer::error(writer.unique, libc::EBADF);
            let answer = lines.map_or(gone, |lines| self.accept(writer.unique, &lines, &writer.data));
            kernel.send(&answer);
            state = self.lock();
        }
        let polled = if state.queued < QUEUED { state.polled(true) } else { Vec::new() };
        drop(state);
        polled.into_iter().for_each(|kh| kernel.send(&Answer::wake(kh)));
    }

    /// Returns the totals of the port, which include those of open readers, and the counters of
    /// each open reader.
    pub fn counts(&self) -> (Counts, Vec<ReaderCounts>) {
        let state = self.lock();
        let mut counts = state.counts.clone();
        let mut readers = Vec::new();
        for open in state.open.values() {
            let Some(reader) = open.reader else { continue };
            counts.delivered += reader.delivered;
            counts.overflow += reader.overflow;
            let waiting = state.ring(open.kind).waiting(&reader);
            let (delivered, overflow) = (reader.delivered, reader.overflow);
            readers.push(ReaderCounts { kind: open.kind, delivered, overflow, waiting });
        }
        (counts, readers)
    }
}

/// Appends a frame to `block` in the format `kind`. Returns false if the frame is too short or too
/// long for the format.
fn encode(kind: Kind, frame: &[u8], stamped: bool, arrival: Stamp, block: &mut Block) -> bool {
    let end = block.len();
    let used = match kind {
        Kind::Text => {
            let most = end + text::len(frame.len()) + 17 + SLACK;
            if block.bytes.len() < most {
                block.bytes.resize(most.max(BLOCK + MAX_LINE + SLACK), 0);
            }
            let room = block.bytes.get_mut(end..).unwrap_or_default();
            text::encode(frame, stamped.then_some(arrival), room)
        }
        Kind::Binary => {
            block.bytes.truncate(end);
            wire::bpkt::emit(Form::V2, frame, Some(arrival), &mut block.bytes).then(|| Form::V2.header() + frame.len())
        }
    };
    if let Some(used) = used {
        block.ends.push((end + used) as u32);
    }
    used.is_some()
}

#[cfg(test)]
mod tests;
