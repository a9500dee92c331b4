//! TIME-WAIT without a Tcb: 64 bytes per closed connection, until late segments of the connection
//! have expired (RFC 9293 3.6.1).
//!
//! | segment | action |
//! |---|---|
//! | RST | dropped: a RST must not end TIME-WAIT (RFC 1337) |
//! | the peer's FIN again | acknowledged again, 2 MSL begin again |
//! | SYN with a newer timestamp or higher sequence number | may open a new connection (RFC 6191) |
//! | SYN with FIN; neither SYN nor ACK | dropped |
//! | repeat of the peer's last ACK: at RCV.NXT, without data | dropped |
//! | any other, such as an old timestamp or out of window | acknowledged (RFC 5961 4.2) |
//!
//! Replies to one peer are about half a second apart, so that two ends in TIME-WAIT cannot exchange
//! ACKs forever. When the table is full, the oldest entry is evicted. `Config::time_wait` sets 2
//! MSL: one minute, as in Linux, instead of the four minutes of RFC 9293.

#[cfg(test)]
mod tests;

use crate::answer::bare;
use crate::isn::ts_clock;
use crate::siphash::Key;
use crate::table::Table;
use crate::{Config, Ends, Out, OutOptions, Segment, SeqNum, State, Tcb, TsState, counters};
use clock::Instant;
use wire::L4Port;
use wire::tcp::Flags;

/// State that is kept for a connection in TIME-WAIT after its Tcb is freed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Remains {
    /// SND.NXT, including our FIN.
    pub snd_nxt: SeqNum,
    /// RCV.NXT, including the peer's FIN.
    pub rcv_nxt: SeqNum,
    /// Last window that we advertised, scaled.
    pub window: u16,
    /// State of timestamps, if negotiated.
    pub ts: Option<TsState>,
}

impl Tcb {
    /// Returns the state to keep; `None` unless the connection is in TIME-WAIT.
    pub fn remains(&self) -> Option<Remains> {
        (self.state == State::TimeWait).then(|| Remains {
            snd_nxt: self.snd.nxt,
            rcv_nxt: self.rcv.nxt,
            window: u16::try_from(self.recv_window() >> self.rcv.wscale).unwrap_or(u16::MAX),
            ts: self.ts.map(|ts| TsState { recent: ts.recent, offset: ts.offset }),
        })
    }
}

/// Arguments common to all calls of the table.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The stack's configuration.
    pub config: &'a Config,
    /// This thread's counters.
    pub counts: &'a counters::TimeWaitCounts,
    /// Current time.
    pub now: Instant,
}

/// Action that the caller takes for a late segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TimeWaitAction {
    /// No connection with these addresses and ports is in TIME-WAIT.
    Unknown,
    /// Send this ACK.
    Answer(Out),
    /// Send no reply.
    Dropped,
    /// The segment is a SYN that may begin a new connection, whose ISN must come after `above` (RFC
    /// 9293 3.6.1, MAY-2). If a listener accepts the SYN, call [`TimeWaitTable::reuse`] first.
    Reusable {
        /// Last sequence number of the connection in TIME-WAIT plus a window.
        above: SeqNum,
    },
}

const TIMESTAMPS: u8 = 1;
const ANSWERED: u8 = 2;

/// Entry of one closed connection.
#[derive(Clone, Copy, Debug)]
struct Record {
    local: u128,
    remote: u128,
    deadline: Instant,
    snd_nxt: SeqNum,
    rcv_nxt: SeqNum,
    ts_recent: u32,
    ts_offset: u32,
    local_port: L4Port,
    remote_port: L4Port,
    window: u16,
    flags: u8,
    /// Time of the last reply, in units of 2^28 ns (268 ms).
    answered: u8,
}

impl Record {
    fn new(ends: &Ends, left: &Remains, deadline: Instant) -> Record {
        let ts = left.ts.unwrap_or_default();
        Record {
            local: ends.local,
            remote: ends.remote,
            deadline,
            snd_nxt: left.snd_nxt,
            rcv_nxt: left.rcv_nxt,
            ts_recent: ts.recent,
            ts_offset: ts.offset,
            local_port: ends.local_port,
            remote_port: ends.remote_port,
            window: left.window,
            flags: if left.ts.is_some() { TIMESTAMPS } else { 0 },
            answered: 0,
        }
    }

    fn ends(&self) -> Ends {
        Ends { local: self.local, remote: self.remote, local_port: self.local_port, remote_port: self.remote_port }
    }

    fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Returns whether the segment has an old timestamp (RFC 7323 5.3, R1).
    fn is_old(&self, seg: &Segment) -> bool {
        let ts = seg.options.timestamps.filter(|_| self.has(TIMESTAMPS));
        ts.is_some_and(|ts| SeqNum(ts.val).before(SeqNum(self.ts_recent)))
    }

    /// Returns whether a SYN may replace this entry. The SYN must have a newer timestamp or, if
    /// timestamps cannot decide, a higher sequence number (RFC 6191 2).
    fn may_be_reused_by(&self, syn: &Segment) -> bool {
        let higher = syn.seq.after(self.rcv_nxt);
        match syn.options.timestamps {
            Some(ts) if self.has(TIMESTAMPS) => {
                let (new, old) = (SeqNum(ts.val), SeqNum(self.ts_recent));
                new.after(old) || (new == old && higher)
            }
            // The old connection did not use timestamps, so none of its segments can be mistaken
            // for one of the new connection.
            Some(_) => true,
            None => higher,
        }
    }

    /// Returns whether the rate limit, about one reply per half second, permits a reply now. If so,
    /// records the reply.
    fn may_answer(&mut self, cx: Context<'_>) -> bool {
        let now = (cx.now.nanos() >> 28) as u8; // wraps after 69 s; at worst one reply is late
        let apart = (cx.config.invalid_interval.as_nanos() >> 28).min(127);
        if self.has(ANSWERED) && u128::from(now.wrapping_sub(self.answered)) < apart {
            cx.counts.limited.bump();
            return false;
        }
        self.answered = now;
        self.flags |= ANSWERED;
        true
    }

    /// Acknowledges a late segment, subject to the rate limit.
    fn acknowledge(&mut self, cx: Context<'_>) -> TimeWaitAction {
        cx.counts.late.bump();
        if self.may_answer(cx) { TimeWaitAction::Answer(self.ack(cx.now)) } else { TimeWaitAction::Dropped }
    }

    /// Builds the ACK `<SEQ=SND.NXT><ACK=RCV.NXT><CTL=ACK>`.
    fn ack(&self, now: Instant) -> Out {
        let options = match self.has(TIMESTAMPS) {
            true => OutOptions::timestamps(ts_clock(now).wrapping_add(self.ts_offset), self.ts_recent),
            false => OutOptions::NONE,
        };
        Out { window: self.window, options, ..bare(self.snd_nxt, self.rcv_nxt, Flags::ACK) }
    }
}

/// Table of the connections in TIME-WAIT.
#[derive(Debug)]
pub struct TimeWaitTable {
    table: Table<Record, 1>,
}

impl TimeWaitTable {
    /// Creates a table for at most `limit` entries.
    pub fn new(limit: u32, secret: Key) -> TimeWaitTable {
        TimeWaitTable { table: Table::new(secret.derive(0x5457_4149), limit as usize) }
    }

    /// Adds a connection that enters TIME-WAIT. The oldest entry is evicted if the table is full.
    /// (Linux instead rejects the newest, counted as `TCPTimeWaitOverflow`. Entries of absent peers
    /// would then remain, and an active peer would receive a RST.)
    pub fn insert(&mut self, cx: Context<'_>, ends: &Ends, left: &Remains) {
        let hash = self.table.hash(ends);
        if let Some(at) = self.find_hashed(hash, ends) {
            self.table.remove(at);
        } else if self.table.is_full() && self.remove_oldest() {
            cx.counts.evicted.bump();
        }
        if self.table.insert(hash, 0, Record::new(ends, left, cx.now.after(cx.config.time_wait))).is_some() {
            cx.counts.added.bump();
        }
    }

    /// Processes a segment that belongs to no Tcb.
    pub fn on_segment(&mut self, cx: Context<'_>, ends: &Ends, seg: &Segment) -> TimeWaitAction {
        let Some(at) = self.find(ends) else { return TimeWaitAction::Unknown };
        let Some(record) = self.table.get_mut(at) else { return TimeWaitAction::Unknown };
        if seg.has(Flags::RST) {
            cx.counts.resets_ignored.bump();
            return TimeWaitAction::Dropped;
        }
        if seg.has(Flags::SYN | Flags::FIN) || !seg.flags.intersects(Flags::SYN | Flags::ACK) {
            return TimeWaitAction::Dropped;
        }
        let old = record.is_old(seg);
        if seg.has(Flags::SYN) && !seg.has(Flags::ACK) {
            if !old && record.may_be_reused_by(seg) {
                return TimeWaitAction::Reusable { above: record.snd_nxt.plus(u32::from(u16::MAX) + 2) };
            }
        } else if seg.has(Flags::FIN) && !old && seg.seq.plus(seg.seq_len()) == record.rcv_nxt {
            cx.counts.fins_again.bump();
            record.deadline = cx.now.after(cx.config.time_wait);
            let answer = if record.may_answer(cx) {
                TimeWaitAction::Answer(record.ack(cx.now))
            } else {
                TimeWaitAction::Dropped
            };
            self.table.requeue(at, 0);
            return answer;
        } else if !old && seg.seq_len() == 0 && seg.seq == record.rcv_nxt && seg.ack == record.snd_nxt {
            // A repetition of the peer's last ACK is the only acceptable segment. A reply to it
            // would start an ACK loop.
            let ts = seg.options.timestamps.filter(|_| record.has(TIMESTAMPS));
            record.ts_recent = ts.map_or(record.ts_recent, |ts| ts.val);
            return TimeWaitAction::Dropped;
        }
        record.acknowledge(cx)
    }

    /// Returns a challenge ACK for a SYN that could have begun a new connection but found no
    /// listener (RFC 5961 4.2).
    pub fn challenge(&mut self, cx: Context<'_>, ends: &Ends) -> TimeWaitAction {
        let record = self.find(ends).and_then(|at| self.table.get_mut(at));
        record.map_or(TimeWaitAction::Unknown, |record| record.acknowledge(cx))
    }

    /// Removes the entry of `ends`, because a new connection replaces it. Returns whether there was
    /// an entry.
    pub fn reuse(&mut self, cx: Context<'_>, ends: &Ends) -> bool {
        let gone = self.find(ends).and_then(|at| self.table.remove(at)).is_some();
        if gone {
            cx.counts.reused.bump();
        }
        gone
    }

    /// Returns whether a connection with these ends is in TIME-WAIT.
    pub fn contains(&self, ends: &Ends) -> bool {
        self.find(ends).is_some()
    }

    /// Returns whether any entry has addresses and ports for which `which` returns true. Takes time
    /// linear in the number of entries.
    pub fn any(&self, which: impl Fn(&Ends) -> bool) -> bool {
        self.table.iter().any(|record| which(&record.ends()))
    }

    /// Time at which [`TimeWaitTable::on_timer`] must be called next.
    pub fn next_timer(&self) -> Instant {
        self.table.front(0).map_or(Instant::NEVER, |(_, record)| record.deadline)
    }

    /// Removes at most `limit` expired entries and passes the addresses and ports of each to
    /// `over`. Returns whether there are more.
    pub fn on_timer(&mut self, cx: Context<'_>, limit: usize, mut over: impl FnMut(&Ends)) -> bool {
        for _ in 0..limit {
            let Some((at, record)) = self.table.front(0).filter(|(_, record)| record.deadline <= cx.now) else {
                return false;
            };
            let ends = record.ends();
            self.table.remove(at);
            cx.counts.expired.bump();
            over(&ends);
        }
        self.next_timer() <= cx.now
    }

    /// Number of connections in TIME-WAIT.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Returns whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.table.len() == 0
    }

    /// Bytes of memory used by the entries.
    pub fn bytes(&self) -> usize {
        self.table.bytes()
    }

    /// Changes the maximum number of entries; existing entries stay until they expire.
    pub fn set_limit(&mut self, limit: u32) {
        self.table.set_limit(limit as usize);
    }

    /// Iterates over all entries with their expiry times.
    pub fn iter(&self) -> impl Iterator<Item = (Ends, Instant)> + '_ {
        self.table.iter().map(|record| (record.ends(), record.deadline))
    }

    fn find(&self, ends: &Ends) -> Option<u32> {
        // The table of a server is empty if its clients close first, so the hash is not computed.
        if self.is_empty() { None } else { self.find_hashed(self.table.hash(ends), ends) }
    }

    fn find_hashed(&self, hash: u32, ends: &Ends) -> Option<u32> {
        self.table.find(hash, |record| record.ends() == *ends)
    }

    fn remove_oldest(&mut self) -> bool {
        let oldest = self.table.front(0).map(|(at, _)| at);
        oldest.and_then(|at| self.table.remove(at)).is_some()
    }
}
