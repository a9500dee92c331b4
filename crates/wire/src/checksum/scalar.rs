//! Sums without SIMD: the inlined short path, the 64-bit word path, and the textbook's 16-bit loop as the baseline.
//!
//! All return a `u64` that is congruent modulo 65,535 to the sum of the machine-order 16-bit words, and is 0 only
//! when every byte is 0.

/// Adds with the carry brought round (RFC 1071 2 (A)).
#[inline(always)]
pub(super) const fn add_carry(a: u64, b: u64) -> u64 {
    let (sum, carry) = a.overflowing_add(b);
    sum + carry as u64
}

/// Both 32-bit halves: no carry can be lost in a `u64`.
#[inline(always)]
pub(super) const fn halves(word: u64) -> u64 {
    (word & 0xffff_ffff) + (word >> 32)
}

/// The last 0 to 7 bytes as one word, zeros after them in memory order.
#[inline(always)]
fn tail(bytes: &[u8]) -> u64 {
    let (quads, rest) = bytes.as_chunks::<4>();
    let (pairs, odd) = rest.as_chunks::<2>();
    let quad = quads.first().map_or(0, |&quad| u64::from(u32::from_ne_bytes(quad)));
    let pair = pairs.first().map_or(0, |&pair| u64::from(u16::from_ne_bytes(pair)));
    let odd = odd.first().map_or(0, |&odd| u64::from(u16::from_ne_bytes([odd, 0])));
    quad + pair + odd
}

/// For short inputs: unaligned 64-bit loads, carries counted beside the sum, nothing called. A word is an addition and one of the
/// carry, where adding its halves took four instructions and made the compiler prepare for vectors that 64 bytes do not fill.
///
/// The last 1 to 7 bytes of 8 and more come from an overlapping load, shifted so that what was counted falls out: against
/// loading them by fours, twos and ones, 22 bytes cost 5.7 ticks instead of 6.8. Bringing the carry round instead of
/// adding halves costs the same (6.0), keeping whole and high sums as the vectors do costs 6.6 (examples/checksum_speed.rs,
/// 2.0 GHz TSC).
#[inline(always)]
pub(super) fn short(bytes: &[u8]) -> u64 {
    let Some(&last) = bytes.last_chunk::<8>() else {
        return tail(bytes);
    };
    let (words, rest) = bytes.as_chunks::<8>();
    let (mut sum, mut carries) = (uncounted(last, rest.len()), 0);
    for &word in words {
        let (next, carry) = sum.overflowing_add(u64::from_ne_bytes(word));
        (sum, carries) = (next, carries + u64::from(carry));
    }
    add_carry(sum, carries)
}

/// The last `rest` (0 to 7) of 8 bytes as a word in memory order, zeros after them.
#[inline(always)]
fn uncounted(last: [u8; 8], rest: usize) -> u64 {
    // Two shifts, because one by 64 bits is none.
    (u64::from_le_bytes(last) >> 1 >> (63 - 8 * rest as u32)).to_le()
}

/// As [`short`], copying while the words are at hand. Copies and sums as much as both slices have.
#[inline(always)]
pub(super) fn short_copy(dst: &mut [u8], src: &[u8]) -> u64 {
    let len = dst.len().min(src.len());
    let (Some(dst), Some(src)) = (dst.get_mut(..len), src.get(..len)) else { return 0 };
    let mut sum = 0;
    for (to, from) in dst.as_chunks_mut::<8>().0.iter_mut().zip(src.as_chunks::<8>().0) {
        *to = *from;
        sum += halves(u64::from_ne_bytes(*from));
    }
    match (dst.last_chunk_mut::<8>(), src.last_chunk::<8>()) {
        (Some(to), Some(from)) => {
            *to = *from;
            sum + halves(uncounted(*from, len % 8))
        }
        _ => {
            dst.iter_mut().zip(src).for_each(|(to, from)| *to = *from);
            tail(src)
        }
    }
}

/// 20 bytes as five 32-bit words.
#[inline(always)]
pub(super) fn sum_20(bytes: &[u8; 20]) -> u64 {
    let (words, _) = bytes.as_chunks::<4>();
    words.iter().map(|&word| u64::from(u32::from_ne_bytes(word))).sum()
}

/// 16 bytes, an IPv6 address: at most 2^34.
#[inline(always)]
pub(super) fn sum_16(bytes: &[u8; 16]) -> u64 {
    let (words, _) = bytes.as_chunks::<8>();
    words.iter().map(|&word| halves(u64::from_ne_bytes(word))).sum()
}

/// RFC 1071 4.1's loop, one 16-bit word at a time: the ladder's lowest rung. Nothing stops the compiler
/// from vectorizing it, and it does.
pub(super) fn generic16(bytes: &[u8]) -> u64 {
    let (words, odd) = bytes.as_chunks::<2>();
    let mut sum = u64::from(u16::from_ne_bytes([odd.first().copied().unwrap_or(0), 0]));
    for &word in words {
        sum += u64::from(u16::from_ne_bytes(word));
    }
    sum
}

/// 64-bit words with the carry brought round, four sums at a time so that they do not wait for each other.
pub(super) fn word64(bytes: &[u8]) -> u64 {
    let (blocks, rest) = bytes.as_chunks::<32>();
    let mut sums = [0; 4];
    for block in blocks {
        let (words, _) = block.as_chunks::<8>();
        for (sum, &word) in sums.iter_mut().zip(words) {
            *sum = add_carry(*sum, u64::from_ne_bytes(word));
        }
    }
    sums.into_iter().fold(short(rest), add_carry)
}
