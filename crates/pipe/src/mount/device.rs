//! A port as two files, one of lines and one of records: who has them open, who waits, what they are given and what they gave.
//!
//! ```text
//! the port's thread  -> received()  encodes a burst, once for each of the two files  -> ring -> who waits in read(2) or poll(2)
//! a session's thread -> read()      what is there, or the request waits (`Wait`)
//!                    -> write()     lines become frames of the queue, or the request waits for room
//! the sender's thread <- next()     a batch of the queue, which it sends when its time has come
//! ```
//!
//! A port that announces frames by a descriptor (a device) gives them when they come, and a reader that is slow loses the oldest. One that
//! is asked (a generator, a capture file) is asked only while some reader has read what there was: alone, a reader loses nothing.

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

/// The longest sleep, so that a request to stop is seen.
const NAP: Duration = Duration::from_millis(50);
/// Bytes of frames that wait to be sent before who writes has to wait.
const QUEUED: usize = 1 << 20;
/// The two files.
const KINDS: [Kind; 2] = [Kind::Text, Kind::Binary];
/// Files open at a time on one port; a process has 1024 by default.
const OPEN: usize = 4096;

/// A port's files.
#[derive(Debug)]
pub struct Device {
    name: String,
    stamped: bool,
    announces: bool,
    /// Bytes that a port that is asked may be ahead of its fastest reader.
    ahead: usize,
    state: Mutex<State>,
    /// A reader came, or has read.
    room: Condvar,
    /// Something was written.
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
    /// More frames are expected at once: a read that has less than it asked for waits for them.
    more: bool,
    over: bool,
    lost: bool,
}

/// What a port's files have counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Frames of the port.
    pub received: u64,
    /// Those that came while nobody had a file open for reading.
    pub unread: u64,
    /// Those that no line can hold.
    pub refused: u64,
    /// Given to readers: a frame counts once for each.
    pub delivered: u64,
    /// Gone before a reader asked for them.
    pub overflow: u64,
    /// Written and taken.
    pub accepted: u64,
    /// Sent through the port.
    pub sent: u64,
    /// Not sent: longer than the port takes.
    pub too_long: u64,
    /// Lines and records that are no frames.
    pub bad_lines: u64,
    /// What is wrong with the first of them.
    pub first_bad: Option<String>,
}

/// A reader as `stats` shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReaderCounts {
    /// Which file.
    pub kind: Kind,
    /// Frames given to it.
    pub delivered: u64,
    /// Frames gone before it asked for them.
    pub overflow: u64,
    /// Frames that wait for it.
    pub waiting: u64,
}

#[derive(Debug)]
struct Open {
    kind: Kind,
    reader: Option<Reader>,
    /// What is left of a frame that a read had no room for.
    rest: Option<Piece>,
    lines: Arc<Mutex<Lines>>,
    /// Who polls, and wants to know.
    poll: Option<u64>,
}

/// A read that waits for a frame.
#[derive(Debug, Clone, Copy)]
struct Wait {
    unique: u64,
    fh: u64,
    room: usize,
}

/// A write that waits for room.
#[derive(Debug)]
struct Writer {
    unique: u64,
    fh: u64,
    data: Vec<u8>,
}

/// Records on their way to a reader, and its place before them: a read that was given up gives them back.
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

    /// Forgets what nobody is to read any more.
    fn release(&mut self, kind: Kind) {
        let State { rings: [text, binary], open, .. } = self;
        let ring = if kind == Kind::Text { text } else { binary };
        ring.release(open.values().filter(|open| open.kind == kind).filter_map(|open| open.reader.as_ref()));
    }

    /// What `fh` can be given now. While more is coming at once, that is as much as it asked for, or `enough`.
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

    /// Whom to wake, of those who poll: readers with frames, and all if there is room to write.
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
            // A frame written alone does not take a batch alone.
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
    /// The files of port `name`. With `stamped` lines have the time of arrival in front; records have it always. `announces`: frames come
    /// when they come. Each file's ring holds `ring` bytes.
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

    /// The port's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Opens the file of that kind as `fh`; `false`: too many are open.
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

    /// Closes `fh`: a last line that it was written counts though it has no end.
    pub fn close(&self, fh: u64) {
        let Some(open) = self.lock().open.remove(&fh) else { return };
        let fed = lock(&open.lines).end(|frames| self.lock().queue(frames));
        let mut state = self.lock();
        state.count(&fed);
        if let Some(reader) = open.reader {
            state.counts.delivered += reader.delivered;
            // What waited for it is not lost: it did not want it.
            state.counts.overflow += reader.overflow;
        }
        state.release(open.kind);
        self.written.notify_all();
        self.room.notify_all();
    }

    /// Answers a read of `size` bytes, now or when there is a frame.
    pub fn read(&self, unique: u64, fh: u64, size: u32, wait: bool, kernel: &Kernel) {
        // A read(2) of more than one request's bytes comes in several; only one that was not filled ends it, and it must end
        // before it waits for more.
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

    /// Sends what was given; what nobody waits for any more is put back.
    fn hand_over(&self, all: Vec<Given>, kernel: &Kernel) {
        for given in all {
            let answered = kernel.send_data(given.unique, &given.pieces);
            let mut state = self.lock();
            if !answered && let Some(open) = state.open.get_mut(&given.fh).filter(|open| open.reader == given.after) {
                (open.reader, open.rest) = given.before;
            }
            // Only now: until it was sent it may have to come back. Without its shares a block is used again.
            drop(given.pieces);
            state.release(given.kind);
        }
        self.room.notify_one();
    }

    /// Answers a write, now or when there is room.
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

    /// Frames of `data` into the queue. A write of which nothing is a frame is an error; a bad line among good ones is counted.
    fn accept(&self, unique: u64, lines: &Mutex<Lines>, data: &[u8]) -> Answer {
        let fed = lock(lines).feed(data, |frames| self.lock().queue(frames));
        self.lock().count(&fed);
        self.written.notify_all();
        let nothing = fed.good == 0 && fed.bad > 0;
        if nothing { Answer::error(unique, libc::EINVAL) } else { Answer::written(unique, data.len()) }
    }

    /// Which of POLLIN and POLLOUT are there; who polls is woken when that changes, if `kh` is given.
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

    /// Gives up the request `unique`, if it waits here.
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

    /// Waits until the port is to be asked for frames.
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

    /// Frames that the port received at `ticks`, to all readers. `more`: others are expected at once, so that a read that has not got
    /// what it asked for waits for them, or for [`Device::pause`].
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
                    self.tell(state, kernel);
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
        self.tell(state, kernel);
    }

    /// There are no more frames at the moment: who waits gets what there is.
    pub fn pause(&self, kernel: &Kernel) {
        let mut state = self.lock();
        state.more = false;
        self.tell(state, kernel);
    }

    /// Answers who waits for frames.
    fn tell(&self, mut state: MutexGuard<'_, State>, kernel: &Kernel) {
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

    /// There will be no more frames: who has read all is told the end of the file. What is `lost` takes none either.
    pub fn end(&self, lost: bool, kernel: &Kernel) {
        let mut state = self.lock();
        state.lost |= lost;
        (state.over, state.more) = (true, false);
        self.tell(state, kernel);
    }

    /// The mount ends: who waits to write is told so.
    pub fn shut(&self, kernel: &Kernel) {
        self.end(false, kernel);
        let writers = std::mem::take(&mut self.lock().writers);
        writers.iter().for_each(|writer| kernel.send(&Answer::error(writer.unique, libc::ENODEV)));
    }

    /// Will nothing come any more, and is nothing left for those who read?
    pub fn is_done(&self) -> bool {
        let state = self.lock();
        let unread = |open: &Open| {
            open.rest.is_some() || open.reader.is_some_and(|reader| state.ring(open.kind).is_ready(&reader))
        };
        state.over && (state.queued == 0 || state.lost) && !state.open.values().any(unread)
    }

    /// Is any file open?
    pub fn is_open(&self) -> bool {
        !self.lock().open.is_empty()
    }

    /// The next batch to send; waits for it. `None` at the end.
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

    /// A batch was dealt with; so far `sent` frames were sent and `too_long` were not. Lets those in who wait to write.
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

    /// What was counted, with what present readers count, and each of those.
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

/// Appends a frame to a block; `false` if no line can hold it.
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
