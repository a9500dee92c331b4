//! SYN cookies: stateless handshakes, whose state the peer returns in its ACK (RFC 4987 3.6).
//!
//! ```text
//!  cookie (our ISN) = blind(ends) + [ slot parity : 1 | MSS index : 3 | MAC : 28 ]
//!  TSval's low bits =               [ ECN : 1 | SACK : 1 | window scale : 4, 15 for none ]
//! ```
//! The MAC covers the addresses and ports, the peer's ISN, the slot (a minute), the MSS index and
//! the low bits of TSval. A valid cookie was therefore sent by us less than two minutes ago; a
//! forged one is accepted with probability 2^-28. `blind` makes cookies indistinguishable from
//! other ISNs. Without timestamps there is no field for the options, so they are not offered, as in
//! Linux.
//!
//! The secret may change at any time. Cookies created with the previous secret stay valid until
//! they expire.

use crate::siphash::Key;
use crate::{Ends, SeqNum};
use clock::{Duration, Instant};

/// MSS values that a cookie can encode; the peer's MSS is rounded down to one of them. The first is
/// the minimum accepted from a peer (CVE-2019-11479), the last is for jumbo frames, and the others
/// are common on real paths.
pub const MSS_TABLE: [u16; 8] = [48, 216, 536, 1220, 1360, 1440, 1460, 8940];

/// Unit of a cookie's lifetime: a cookie is valid in the slot in which it was created and in the
/// next one.
pub const SLOT: Duration = Duration::from_secs(60);

const MAC_BITS: u32 = 28;
const MAC_MASK: u32 = (1 << MAC_BITS) - 1;
/// Number of low bits of TSval that encode options.
const TS_BITS: u32 = 6;
const TS_MASK: u32 = (1 << TS_BITS) - 1;
const NO_SCALE: u8 = 15;
const BLIND: u64 = 1;
const MAC: u64 = 2;

/// Negotiated options of a SYN, as encoded in a cookie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Remembered {
    /// The peer's MSS, rounded down to one of [`MSS_TABLE`].
    pub mss: u16,
    /// The peer's window scale; `None` without window scaling.
    pub wscale: Option<u8>,
    /// SACK was negotiated.
    pub sack: bool,
    /// ECN was negotiated.
    pub ecn: bool,
}

impl Remembered {
    /// Encodes the options as the low bits of TSval.
    fn ts_bits(&self) -> u32 {
        let scale = self.wscale.map_or(NO_SCALE, |shift| shift.min(14));
        u32::from(self.ecn) << 5 | u32::from(self.sack) << 4 | u32::from(scale)
    }
}

/// Returns the index of the largest entry of [`MSS_TABLE`] that is at most `mss`; 0 if `mss` is
/// below the minimum.
fn mss_index(mss: u16) -> u32 {
    MSS_TABLE.iter().rposition(|known| *known <= mss).unwrap_or(0) as u32
}

/// Generates and verifies SYN cookies.
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

/// Computes the cookie for time slot `slot` from an MSS index and the option bits of TSval.
fn bake(key: Key, ends: &Ends, irs: SeqNum, slot: u64, mss: u32, ts_bits: Option<u32>) -> SeqNum {
    // the slot number fits the upper 32 bits for 8,000 years
    let over = slot << 32 | u64::from(irs.0);
    let options = u64::from(mss << 8 | ts_bits.map_or(0xff, |bits| bits));
    let mac = hash(key, ends, MAC | options << 2, over) & MAC_MASK;
    SeqNum(hash(key, ends, BLIND, 0)).plus((slot as u32 & 1) << 31 | mss << MAC_BITS | mac)
}

impl Cookies {
    /// Creates a cookie generator with secret `key`.
    pub fn new(key: Key) -> Cookies {
        Cookies { key, previous: None }
    }

    /// Replaces the secret. Cookies created with the previous secret stay valid until they expire.
    pub fn rotate(&mut self, key: Key, now: Instant) {
        self.previous = Some((core::mem::replace(&mut self.key, key), now.after(2 * SLOT)));
    }

    /// Returns the ISN that encodes `syn`. With timestamps, also returns a TSval not above `tsval`
    /// whose low bits encode the options.
    pub fn make(&self, ends: &Ends, irs: SeqNum, syn: &Remembered, tsval: Option<u32>, now: Instant) -> (SeqNum, u32) {
        let bits = tsval.map(|_| syn.ts_bits());
        let cookie = bake(self.key, ends, irs, slot(now), mss_index(syn.mss), bits);
        (cookie, tsval.map_or(0, |tsval| with_bits(tsval, syn.ts_bits())))
    }

    /// Verifies the cookie returned in an ACK and decodes it. `iss` is SEG.ACK - 1, `irs` is
    /// SEG.SEQ - 1, and `tsecr` is the echoed TSval. Returns `None` if the cookie is forged or
    /// expired.
    pub fn check(&self, ends: &Ends, iss: SeqNum, irs: SeqNum, tsecr: Option<u32>, now: Instant) -> Option<Remembered> {
        let previous = self.previous.filter(|(_, until)| now < *until).map(|(key, _)| key);
        let bits = tsecr.map(|ecr| ecr & TS_MASK);
        core::iter::once(self.key).chain(previous).find_map(|key| {
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

/// Returns the latest TSval that is not after `tsval` and has the low bits `bits`. A later value is
/// not possible, because subsequent segments of the connection must not have an older TSval (RFC
/// 7323 5.4).
fn with_bits(tsval: u32, bits: u32) -> u32 {
    let with = tsval & !TS_MASK | bits;
    if bits > tsval & TS_MASK { with.wrapping_sub(TS_MASK + 1) } else { with }
}

#[cfg(test)]
mod tests;
