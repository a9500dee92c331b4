//! SYN cookies: a handshake that is remembered by the peer (RFC 4987 3.6).
//!
//! ```text
//!  cookie (our ISN) = blind(ends) + [ slot parity : 1 | MSS index : 3 | MAC : 28 ]
//!  TSval's low bits =               [ ECN : 1 | SACK : 1 | window scale : 4, 15 for none ]
//! ```
//! The MAC is over the ends, the peer's ISN, the slot (a minute), the MSS index and the low bits of TSval: what comes
//! back is what was sent, less than two minutes ago, and a forged one is taken once in 2^28. `blind` keeps cookies from being told
//! from other ISNs. Without timestamps the options are not remembered and were not offered, as in Linux.
//!
//! The secret may change at any time; cookies made with the one before are good until they would have ended.

use crate::siphash::Key;
use crate::{Ends, SeqNum};
use clock::{Duration, Instant};

/// What a peer may send in one segment, rounded down to one of these. The first is the least that a stranger may have us
/// send (CVE-2019-11479), the last jumbo frames; between, what paths have.
pub const MSS_TABLE: [u16; 8] = [48, 216, 536, 1220, 1360, 1440, 1460, 8940];

/// The unit of a cookie's life: it is good in the slot it was made in and in the next.
pub const SLOT: Duration = Duration::from_secs(60);

const MAC_BITS: u32 = 28;
const MAC_MASK: u32 = (1 << MAC_BITS) - 1;
/// Low bits of TSval that hold options.
const TS_BITS: u32 = 6;
const TS_MASK: u32 = (1 << TS_BITS) - 1;
const NO_SCALE: u8 = 15;
const BLIND: u64 = 1;
const MAC: u64 = 2;

/// What is remembered of a SYN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Remembered {
    /// One of [`MSS_TABLE`].
    pub mss: u16,
    /// The peer's window scale.
    pub wscale: Option<u8>,
    /// SACK was agreed on.
    pub sack: bool,
    /// ECN was agreed on.
    pub ecn: bool,
}

impl Remembered {
    /// As the low bits of TSval.
    fn ts_bits(&self) -> u32 {
        let scale = self.wscale.map_or(NO_SCALE, |shift| shift.min(14));
        u32::from(self.ecn) << 5 | u32::from(self.sack) << 4 | u32::from(scale)
    }
}

/// The greatest of [`MSS_TABLE`] that is not above `mss`; the least if none is.
fn mss_index(mss: u16) -> u32 {
    MSS_TABLE.iter().rposition(|known| *known <= mss).unwrap_or(0) as u32
}

/// What makes cookies and knows its own.
#[derive(Clone, Copy, Debug)]
pub struct Cookies {
    key: Key,
    previous: Option<(Key, Instant)>,
}

fn slot(now: Instant) -> u64 {
    now.nanos() / SLOT.as_nanos() as u64
}

fn hash(key: Key, ends: &Ends, purpose: u64, rest: u64) -> u32 {
    let [a, b, c, d, e] = ends.words();
    key.sip24(&[a, b, c, d, e | purpose << 32, rest]) as u32
}

/// The cookie of `slot`, with an MSS index and what TSval holds.
fn bake(key: Key, ends: &Ends, irs: SeqNum, slot: u64, mss: u32, ts_bits: Option<u32>) -> SeqNum {
    // 32 bits of slots are 8,000 years
    let over = slot << 32 | u64::from(irs.0);
    let options = u64::from(mss << 8 | ts_bits.map_or(0xff, |bits| bits));
    let mac = hash(key, ends, MAC | options << 2, over) & MAC_MASK;
    SeqNum(hash(key, ends, BLIND, 0)).plus((slot as u32 & 1) << 31 | mss << MAC_BITS | mac)
}

impl Cookies {
    /// Cookies under `key`.
    pub fn new(key: Key) -> Cookies {
        Cookies { key, previous: None }
    }

    /// Changes the secret.
    pub fn rotate(&mut self, key: Key, now: Instant) {
        self.previous = Some((std::mem::replace(&mut self.key, key), now.after(2 * SLOT)));
    }

    /// The ISN that remembers `syn`, and with timestamps the TSval that remembers its options: not above `tsval`.
    pub fn make(&self, ends: &Ends, irs: SeqNum, syn: &Remembered, tsval: Option<u32>, now: Instant) -> (SeqNum, u32) {
        let bits = tsval.map(|_| syn.ts_bits());
        let cookie = bake(self.key, ends, irs, slot(now), mss_index(syn.mss), bits);
        (cookie, tsval.map_or(0, |tsval| with_bits(tsval, syn.ts_bits())))
    }

    /// What the cookie remembers that an ACK of ours brings back: `iss` is its SEG.ACK - 1, `irs` its SEG.SEQ - 1, `tsecr`
    /// what it echoes of our TSval. `None`: we did not make it, or too long ago.
    pub fn check(&self, ends: &Ends, iss: SeqNum, irs: SeqNum, tsecr: Option<u32>, now: Instant) -> Option<Remembered> {
        let previous = self.previous.filter(|(_, until)| now < *until).map(|(key, _)| key);
        let bits = tsecr.map(|ecr| ecr & TS_MASK);
        std::iter::once(self.key).chain(previous).find_map(|key| {
            let inside = iss.since(SeqNum(hash(key, ends, BLIND, 0)));
            let (parity, mss) = (inside >> 31, inside >> MAC_BITS & 7);
            let this = slot(now);
            let made = if this as u32 & 1 == parity { this } else { this.checked_sub(1)? };
            (bake(key, ends, irs, made, mss, bits) == iss).then(|| remembered(mss, bits))
        })
    }
}

fn remembered(mss: u32, bits: Option<u32>) -> Remembered {
    let mss = MSS_TABLE.get(mss as usize).copied().unwrap_or(536);
    let Some(bits) = bits else { return Remembered { mss, wscale: None, sack: false, ecn: false } };
    let scale = (bits & 15) as u8;
    Remembered { mss, wscale: (scale < NO_SCALE).then_some(scale), sack: bits & 16 != 0, ecn: bits & 32 != 0 }
}

/// The latest TSval not after `tsval` that ends in `bits`: what follows on the connection must not be older (RFC 7323 5.4).
fn with_bits(tsval: u32, bits: u32) -> u32 {
    let with = tsval & !TS_MASK | bits;
    if bits > tsval & TS_MASK { with.wrapping_sub(TS_MASK + 1) } else { with }
}

#[cfg(test)]
mod tests;
