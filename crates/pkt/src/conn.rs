//! A connection in a script. Translates sequence numbers and timestamps between the script and our
//! host.
//!
//! In a script, our host's sequence numbers start at the value stated for its SYN, usually 0. The
//! peer's sequence numbers and timestamps are used unchanged.

use crate::script::{Opt, Tcp};
use crate::segment::{Ends, Seg, text_byte};
use wire::tcp::Flags;

#[derive(Clone, Debug)]
pub(crate) struct Conn {
    pub ends: Ends,
    /// Difference between our host's sequence numbers and the script's; `None` until the host has
    /// sent its SYN.
    offset: Option<u32>,
    from_zero: bool,
    /// Sequence number of the peer's first SYN; a different one starts a new connection.
    peer_syn: Option<u32>,
    /// True if the peer started a new connection, so that our host may send a new SYN too.
    renewed: bool,
    /// Timestamps of our host as (stated in the script, actual), in the order of sending.
    stamps: Vec<(u32, u32)>,
    /// Last segment sent by our host, with the host's own sequence numbers; ICMP errors quote it.
    pub last: Option<Seg>,
}

/// Maximum number of stored timestamps, which are used to translate the echoes from the peer.
const STAMPS_MAX: usize = 4096;

impl Conn {
    pub fn new(ends: Ends) -> Conn {
        Conn { ends, offset: None, from_zero: false, peer_syn: None, renewed: false, stamps: Vec::new(), last: None }
    }

    /// Returns the sequence number of the peer's first data byte.
    pub fn peer_text(&self) -> Option<u32> {
        self.peer_syn.map(|syn| syn.wrapping_add(1))
    }

    /// Returns whether `text`, sent with our host's sequence number `seq`, is the data that
    /// [`crate::call`] wrote at this position. Not checked (`true`) if the script's sequence
    /// numbers do not start at 0.
    pub fn is_written(&self, seq: u32, text: &[u8]) -> bool {
        let at = seq.wrapping_sub(self.offset.unwrap_or(0));
        !self.from_zero || (0u32..).zip(text).all(|(i, byte)| text_byte(at.wrapping_add(i)) == *byte)
    }

    pub fn live_seq(&self, stated: u32) -> u32 {
        stated.wrapping_add(self.offset.unwrap_or(0))
    }

    /// Translates a segment of the peer from the script's sequence numbers and timestamps to our
    /// host's.
    pub fn arriving(&mut self, stated: &Tcp) -> Seg {
        if stated.flags.contains(Flags::SYN) && self.peer_syn != Some(stated.seq) {
            self.renewed = self.peer_syn.is_some();
            self.peer_syn = Some(stated.seq);
        }
        let ack = stated.ack.map_or(0, |ack| self.live_seq(ack));
        let options = stated.options.iter().flatten().map(|option| match option {
            Opt::Sack(blocks) => {
                Opt::Sack(blocks.iter().map(|(l, r)| (self.live_seq(*l), self.live_seq(*r))).collect())
            }
            Opt::Timestamps(val, ecr) => Opt::Timestamps(*val, self.live_stamp(*ecr)),
            other => other.clone(),
        });
        Seg {
            flags: stated.flags,
            seq: stated.seq,
            ack,
            win: stated.win.unwrap_or(0),
            urgent: stated.urgent,
            len: stated.len,
            options: options.collect(),
        }
    }

    fn live_stamp(&self, stated: u32) -> u32 {
        match (self.stamps.iter().rev().find(|(script, _)| *script == stated), self.stamps.first()) {
            (Some((_, live)), _) => *live,
            (None, Some((script, live))) if stated != 0 => stated.wrapping_sub(*script).wrapping_add(*live),
            _ => stated,
        }
    }

    /// Translates a segment of our host to the script's sequence numbers and timestamps. `stated`
    /// is the segment that the script expects, and `tick_ns` is the length of a timestamp tick. A
    /// timestamp may differ from the stated one by `tolerance_ns`, or by any amount if `tick_ns` is
    /// 0.
    pub fn leaving(&mut self, live: &Seg, stated: &Tcp, tick_ns: u64, tolerance_ns: u64) -> Seg {
        if live.flags.contains(Flags::SYN) && (self.offset.is_none() || self.renewed) {
            self.renewed = false;
            self.offset = Some(live.seq.wrapping_sub(stated.seq));
            self.from_zero = stated.seq == 0;
        }
        self.last = Some(live.clone());
        let offset = self.offset.unwrap_or(0);
        let stated_val = stated.options.iter().flatten().find_map(|option| match option {
            Opt::Timestamps(val, _) => Some(*val),
            _ => None,
        });
        let mut seg = live.clone();
        seg.seq = live.seq.wrapping_sub(offset);
        for option in &mut seg.options {
            if let (Opt::Timestamps(val, _), Some(stated)) = (option, stated_val) {
                *val = self.stated_stamp(*val, stated, tick_ns, tolerance_ns);
            }
        }
        seg
    }

    /// Translates `live`, a timestamp of our host, to the script's timestamps. `stated` is the
    /// expected value.
    fn stated_stamp(&mut self, live: u32, stated: u32, tick_ns: u64, tolerance_ns: u64) -> u32 {
        let first = self.stamps.first().copied();
        if self.stamps.len() < STAMPS_MAX {
            self.stamps.push((stated, live));
        }
        match first {
            Some((first_stated, first_live)) if tick_ns > 0 => {
                let seen = live.wrapping_sub(first_live).wrapping_add(first_stated);
                let near = (seen.wrapping_sub(stated) as i32).unsigned_abs();
                if u64::from(near) * tick_ns <= tolerance_ns.max(tick_ns) { stated } else { seen }
            }
            _ => stated,
        }
    }
}
