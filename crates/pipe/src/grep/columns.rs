//! Fast path for patterns that can match only in the header of a line.
//!
//! After the header, each word of a line has two digits. A pattern of three or more digits without
//! a space can therefore match only in the destination, the source and the type. These are 30 of
//! the 169 characters of the line of a 64-byte frame, or of the 4531 for 1518 bytes. The same is
//! true for several such words with anything between them.

use super::syntax::Syntax;
use std::collections::HashSet;
use wire::text::{HEADER, Needle};

/// Length of the longest word of a header: a MAC address in digits.
const LONGEST: usize = 12;
/// Maximum number of address patterns that are compared one by one. More patterns are looked up in
/// a hash set.
const FEW: usize = 8;

/// Patterns compiled for the fast path.
#[derive(Debug, Clone)]
pub(super) struct Columns {
    whole: Whole,
    /// Patterns that are not whole MAC addresses, one per row. A line matches if its header
    /// contains the words of any row in order.
    rows: Vec<Vec<Needle>>,
}

/// Patterns of twelve digits, each a whole MAC address.
#[derive(Debug, Clone)]
enum Whole {
    None,
    /// The first eight and the last four digits of each address. The first eight digits are also
    /// stored in an array that fits into one vector register, since most comparisons fail on them.
    Few([u64; FEW], Vec<(u64, u32)>),
    Many(Box<Filter>, HashSet<[u8; LONGEST]>),
}

/// Bloom filter with one bit for each of 65,536 hash values. It rejects most words that are not in
/// the set without an access outside the first-level cache.
#[derive(Debug, Clone)]
struct Filter([u64; 1024]);

impl Filter {
    fn place(word: &[u8; LONGEST]) -> (usize, u64) {
        let (first, last) = halves(word);
        let mixed = (first ^ u64::from(last).rotate_left(40)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48;
        ((mixed >> 6) as usize, 1 << (mixed & 63))
    }

    fn add(&mut self, word: &[u8; LONGEST]) {
        let (at, bit) = Filter::place(word);
        if let Some(bits) = self.0.get_mut(at) {
            *bits |= bit;
        }
    }

    #[inline]
    fn may_have(&self, word: &[u8; LONGEST]) -> bool {
        let (at, bit) = Filter::place(word);
        self.0.get(at).is_some_and(|bits| bits & bit != 0)
    }
}

#[inline]
fn halves(word: &[u8; LONGEST]) -> (u64, u32) {
    let [a, b, c, d, e, f, g, h, i, j, k, l] = *word;
    (u64::from_le_bytes([a, b, c, d, e, f, g, h]), u32::from_le_bytes([i, j, k, l]))
}

impl Columns {
    /// Compiles `patterns` for the fast path; returns `None` unless it applies to all of them.
    pub fn new(patterns: &[String], syntax: Syntax) -> Option<Columns> {
        let or = match syntax {
            Syntax::Basic => Some("\\|"),
            Syntax::Extended => Some("|"),
            Syntax::Fixed => None,
        };
        let (mut addresses, mut rows) = (Vec::new(), Vec::new());
        for pattern in patterns {
            let alternatives: Vec<&str> = or.map_or(vec![pattern], |or| pattern.split(or).collect());
            for alternative in alternatives {
                let words: Vec<&str> = if or.is_some() { alternative.split(".*").collect() } else { vec![alternative] };
                // `.*` at the start or the end adds no condition.
                let words: Vec<&[u8]> =
                    words.into_iter().filter(|word| !word.is_empty()).map(|word| word.as_bytes()).collect();
                let good = |word: &&[u8]| (3..=LONGEST).contains(&word.len()) && word.iter().all(u8::is_ascii_hexdigit);
                if words.is_empty() || !words.iter().all(good) {
                    return None;
                }
                match words.as_slice() {
                    [word] if word.len() == LONGEST => addresses.push(<[u8; LONGEST]>::try_from(*word).ok()?),
                    words => rows.push(words.iter().map(|word| Needle::new(word)).collect::<Option<_>>()?),
                }
            }
        }
        let whole = if addresses.is_empty() {
            Whole::None
        } else if addresses.len() <= FEW {
            // Unused entries are zero, which is not a digit.
            let mut first = [0; FEW];
            first.iter_mut().zip(&addresses).for_each(|(place, address)| *place = halves(address).0);
            Whole::Few(first, addresses.iter().map(halves).collect())
        } else {
            let mut filter = Box::new(Filter([0; 1024]));
            addresses.iter().for_each(|address| filter.add(address));
            Whole::Many(filter, addresses.into_iter().collect())
        };
        Some(Columns { whole, rows })
    }

    /// Returns whether a line that begins with `header` matches.
    #[inline(always)]
    pub fn matches(&self, header: &[u8; HEADER]) -> bool {
        if self.whole.matches(header) {
            return true;
        }
        // A loop, because the closure of any() would not be inlined.
        for row in &self.rows {
            if in_order(header, row) {
                return true;
            }
        }
        false
    }
}

impl Whole {
    #[inline(always)]
    fn matches(&self, header: &[u8; HEADER]) -> bool {
        let (Some(dst), Some(src)) = (header.first_chunk::<LONGEST>(), header[13..].first_chunk::<LONGEST>()) else {
            return false;
        };
        match self {
            Whole::None => false,
            Whole::Few(first, few) => {
                let (dst, src) = (halves(dst), halves(src));
                first.iter().fold(false, |any, one| any | (*one == dst.0) | (*one == src.0))
                    && few.iter().any(|one| *one == dst || *one == src)
            }
            Whole::Many(filter, all) => {
                (filter.may_have(dst) && all.contains(dst)) || (filter.may_have(src) && all.contains(src))
            }
        }
    }
}

/// Returns whether the words of `row` occur in `header` in order. Each word is matched at its
/// earliest position, which leaves the most characters for the next word.
#[inline(always)]
fn in_order(header: &[u8; HEADER], row: &[Needle]) -> bool {
    let mut allowed = u32::MAX;
    for needle in row {
        let found = needle.places(header) & allowed;
        if found == 0 {
            return false;
        }
        let behind = found.trailing_zeros() as usize + needle.word().len();
        allowed = u32::MAX.checked_shl(behind as u32).unwrap_or(0);
    }
    true
}
