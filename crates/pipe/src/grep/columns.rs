//! Patterns that a line's header decides.
//!
//! Behind the header each word of a line has two digits. A pattern of three digits and more, without a space in it, can match in the
//! destination, the source and the type alone: 30 characters of 169, or of 4531. So can several such words with anything between them.

use super::Syntax;
use std::collections::HashSet;
use wire::text::{HEADER, Needle};

/// The longest word of a header.
const LONGEST: usize = 12;
/// Up to so many addresses are compared one by one.
const FEW: usize = 8;

/// Patterns in the short form.
#[derive(Debug, Clone)]
pub(super) struct Columns {
    whole: Whole,
    /// All else: one of these, each a row of words.
    rows: Vec<Vec<Needle>>,
}

/// Words of twelve digits: a whole address, or none.
#[derive(Debug, Clone)]
enum Whole {
    None,
    /// The first eight digits and the last four; the first by themselves too, a vector full, since most lines end there.
    Few([u64; FEW], Vec<(u64, u32)>),
    Many(Box<Filter>, HashSet<[u8; LONGEST]>),
}

/// One bit for each of 65,536 hashes: most words that are not there end here, in the first-level cache.
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
    /// The short form of all of `patterns`, if each has one.
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
                // Anything in front or behind is no condition.
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
            // Zeros are no digits.
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

    /// Does a line that begins with `header` match?
    #[inline(always)]
    pub fn matches(&self, header: &[u8; HEADER]) -> bool {
        if self.whole.matches(header) {
            return true;
        }
        // Not by any(): its closure would be called.
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

/// Each word behind the one before it, the earliest place of each being the best.
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
