//! TIME-WAIT without a Tcb: 64 bytes for each connection that is over, until its late segments have died (RFC 9293 3.6.1).
//!
//! | what arrives | what happens |
//! |---|---|
//! | RST | nothing: TIME-WAIT is not to be assassinated (RFC 1337) |
//! | the peer's FIN again | acknowledged again, 2 MSL begin anew |
//! | SYN with a newer timestamp or a higher sequence number | the caller may open a new connection (RFC 6191) |
//! | SYN with FIN; neither SYN nor ACK | nothing |
//! | any other SYN, anything outside the window, an old timestamp | acknowledged: challenges whoever sent it (RFC 5961 4.2) |
//! | an ACK of our FIN once more: in the window, empty | nothing |
//!
//! Acknowledgments to one peer are about half a second apart, so that two ends in TIME-WAIT cannot keep each other
//! talking. When the table is full the oldest record goes. 2 MSL is `Config::time_wait`: a minute, as in Linux,
//! where RFC 9293 would have four.

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

/// What a connection leaves when it enters TIME-WAIT.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Remains {
    /// SND.NXT, our FIN counted.
    pub snd_nxt: SeqNum,
    /// RCV.NXT, the peer's FIN counted.
    pub rcv_nxt: SeqNum,
    /// The window as it was last advertised, scaled.
    pub window: u16,
    /// Timestamps.
    pub ts: Option<TsState>,
}

impl Tcb {
    /// What to keep of it; `None` unless it is in TIME-WAIT.
    pub fn remains(&self) -> Option<Remains> {
        (self.state == State::TimeWait).then(|| Remains {
            snd_nxt: self.snd.nxt,
            rcv_nxt: self.rcv.nxt,
            window: u16::try_from(self.recv_window() >> self.rcv.wscale).unwrap_or(u16::MAX),
            ts: self.ts.map(|ts| TsState { recent: ts.recent, offset: ts.offset }),
        })
    }
}

/// What all calls are given.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The stack's configuration.
    pub config: &'a Config,
    /// This thread's counters.
    pub counts: &'a counters::TimeWaitCounts,
    /// The time.
    pub now: Instant,
}

/// What became of a late segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Late {
    /// No such connection is in TIME-WAIT.
    Unknown,
    /// Send this ACK.
    Answer(Out),
    /// Nothing.
    Dropped,
    /// A SYN that may begin a new connection, whose ISN comes after `above` (RFC 9293 3.6.1, MAY-2). If a listener takes it,
    /// [`TimeWaitTable::reuse`] first.
    Reusable {
        /// Where the old incarnation ended, and a window further.
        above: SeqNum,
    },
}

const TIMESTAMPS: u8 = 1;
const ANSWERED: u8 = 2;

/// One connection that is over.
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
    /// When it was answered last, in units of 268 ms.
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

    /// RFC 7323 5.3, R1.
    fn is_old(&self, seg: &Segment) -> bool {
        let ts = seg.options.timestamps.filter(|_| self.has(TIMESTAMPS));
        ts.is_some_and(|ts| SeqNum(ts.val).before(SeqNum(self.ts_recent)))
    }

    /// RFC 6191 2: a newer timestamp, or where timestamps cannot tell, a sequence number not seen before.
    fn may_be_reused_by(&self, syn: &Segment) -> bool {
        let higher = syn.seq.after(self.rcv_nxt);
        match syn.options.timestamps {
            Some(ts) if self.has(TIMESTAMPS) => {
                let (new, old) = (SeqNum(ts.val), SeqNum(self.ts_recent));
                new.after(old) || (new == old && higher)
            }
            Some(_) => true, // they were not in use before: no segment of then can pass for one of now
            None => higher,
        }
    }

    /// Every half second or so.
    fn may_answer(&mut self, cx: Context<'_>) -> bool {
        let now = (cx.now.nanos() >> 28) as u8; // comes round after 69 s; at worst one answer is late
        let apart = (cx.config.invalid_interval.as_nanos() >> 28).min(127);
        if self.has(ANSWERED) && u128::from(now.wrapping_sub(self.answered)) < apart {
            cx.counts.limited.bump();
            return false;
        }
        self.answered = now;
        self.flags |= ANSWERED;
        true
    }

    /// The answer to a late segment, if it is not too soon after the one before.
    fn acknowledge(&mut self, cx: Context<'_>) -> Late {
        cx.counts.late.bump();
        if self.may_answer(cx) { Late::Answer(self.ack(cx.now)) } else { Late::Dropped }
    }

    /// <SEQ=SND.NXT><ACK=RCV.NXT><CTL=ACK>.
    fn ack(&self, now: Instant) -> Out {
        let options = match self.has(TIMESTAMPS) {
            true => OutOptions::timestamps(ts_clock(now).wrapping_add(self.ts_offset), self.ts_recent),
            false => OutOptions::NONE,
        };
        Out { window: self.window, options, ..bare(self.snd_nxt, self.rcv_nxt, Flags::ACK) }
    }
}

/// The connections in TIME-WAIT.
#[derive(Debug)]
pub struct TimeWaitTable {
    table: Table<Record, 1>,
}

impl TimeWaitTable {
    /// At most `limit` of them.
    pub fn new(limit: u32, secret: Key) -> TimeWaitTable {
        TimeWaitTable { table: Table::new(secret.derive(0x5457_4149), limit as usize) }
    }

    /// A connection enters TIME-WAIT. The oldest goes if there are too many (Linux's `TCPTimeWaitOverflow`, but that
    /// one turns the newest away: a peer that is gone would stay, one that still sends would meet an RST).
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

    /// Takes a segment that belongs to no Tcb.
    pub fn on_segment(&mut self, cx: Context<'_>, ends: &Ends, seg: &Segment) -> Late {
        let Some(at) = self.find(ends) else { return Late::Unknown };
        let Some(record) = self.table.get_mut(at) else { return Late::Unknown };
        if seg.has(Flags::RST) {
            cx.counts.resets_ignored.bump();
            return Late::Dropped;
        }
        if seg.has(Flags::SYN | Flags::FIN) || !seg.flags.intersects(Flags::SYN | Flags::ACK) {
            return Late::Dropped;
        }
        let old = record.is_old(seg);
        if seg.has(Flags::SYN) && !seg.has(Flags::ACK) {
            if !old && record.may_be_reused_by(seg) {
                return Late::Reusable { above: record.snd_nxt.plus(u32::from(u16::MAX) + 2) };
            }
        } else if seg.has(Flags::FIN) && !old && seg.seq.plus(seg.seq_len()) == record.rcv_nxt {
            cx.counts.fins_again.bump();
            record.deadline = cx.now.after(cx.config.time_wait);
            let answer = if record.may_answer(cx) { Late::Answer(record.ack(cx.now)) } else { Late::Dropped };
            self.table.requeue(at, 0);
            return answer;
        } else if !old && seg.seq_len() == 0 && seg.seq == record.rcv_nxt && seg.ack == record.snd_nxt {
            // The peer's own last ACK, again, is the one segment that is right: answered, it would be answered in turn.
            let ts = seg.options.timestamps.filter(|_| record.has(TIMESTAMPS));
            record.ts_recent = ts.map_or(record.ts_recent, |ts| ts.val);
            return Late::Dropped;
        }
        record.acknowledge(cx)
    }

    /// Answers a SYN that might have begun a new connection, but nobody listens: as RFC 5961 4.2 has it.
    pub fn challenge(&mut self, cx: Context<'_>, ends: &Ends) -> Late {
        let record = self.find(ends).and_then(|at| self.table.get_mut(at));
        record.map_or(Late::Unknown, |record| record.acknowledge(cx))
    }

    /// A new connection takes the ends over.
    pub fn reuse(&mut self, cx: Context<'_>, ends: &Ends) -> bool {
        let gone = self.find(ends).and_then(|at| self.table.remove(at)).is_some();
        if gone {
            cx.counts.reused.bump();
        }
        gone
    }

    /// Whether a connection with these ends is in TIME-WAIT.
    pub fn contains(&self, ends: &Ends) -> bool {
        self.find(ends).is_some()
    }

    /// Whether `which` is true of the ends of any; asks each.
    pub fn any(&self, which: impl Fn(&Ends) -> bool) -> bool {
        self.table.iter().any(|record| which(&record.ends()))
    }

    /// When [`TimeWaitTable::on_timer`] has something to do.
    pub fn next_timer(&self) -> Instant {
        self.table.front(0).map_or(Instant::NEVER, |(_, record)| record.deadline)
    }

    /// Forgets those whose time is over and tells of each; at most `limit`. True: there are more.
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

    /// How many there are.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// There are none.
    pub fn is_empty(&self) -> bool {
        self.table.len() == 0
    }

    /// Bytes of memory they take.
    pub fn bytes(&self) -> usize {
        self.table.bytes()
    }

    /// More or fewer; what is there already stays until its time.
    pub fn set_limit(&mut self, limit: u32) {
        self.table.set_limit(limit as usize);
    }

    /// All of them, each with the end of its time.
    pub fn iter(&self) -> impl Iterator<Item = (Ends, Instant)> + '_ {
        self.table.iter().map(|record| (record.ends(), record.deadline))
    }

    fn find(&self, ends: &Ends) -> Option<u32> {
        // A server's has nothing in it where clients close first.
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
