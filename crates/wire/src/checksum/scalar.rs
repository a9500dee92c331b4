//! Sums without SIMD: the inlined short path, the 64-bit word path, and the 16-bit loop of RFC 1071
//! as the baseline.
//!
//! All return a `u64` that is congruent modulo 65,535 to the sum of the machine-order 16-bit words,
//! and is 0 only when every byte is 0.

/// Adds with end-around carry (RFC 1071 2 (A)).
#[inline(always)]
pub(super) const fn add_carry(a: u64, b: u64) -> u64 {
    let (sum, carry) = a.overflowing_add(b);
    sum + carry as u64
}

/// Adds both 32-bit halves of a word; the result fits in 64 bits without a carry.
#[inline(always)]
pub(super) const fn halves(word: u64) -> u64 {
    (word & 0xffff_ffff) + (word >> 32)
}

/// Returns the last 0 to 7 bytes as one word, followed by zeros in memory order.
#[cfg_attr(not(debug_assertions), inline(always))]
fn tail(bytes: &[u8]) -> u64 {
    let (quads, rest) = bytes.as_chunks::<4>();
    let (pairs, odd) = rest.as_chunks::<2>();
    let quad = quads.first().map_or(0, |&quad| u64::from(u32::from_ne_bytes(quad)));
    let pair = pairs.first().map_or(0, |&pair| u64::from(u16::from_ne_bytes(pair)));
    let odd = odd.first().map_or(0, |&odd| u64::from(u16::from_ne_bytes([odd, 0])));
    quad + pair + odd
}

/// Sums short inputs with unaligned 64-bit loads. Carries are counted separately from the sum, and
/// no function is called. Each word costs an addition and an addition with carry. The alternative,
/// to add both halves of each word, cost four instructions per word and made the compiler use
/// vectors, whose setup does not pay for inputs of up to 64 bytes.
///
/// For 8 bytes or more, the last 1 to 7 bytes come from an overlapping load, shifted so that bytes
/// already counted drop out. For 22 bytes this takes 5.7 ticks; loading the last bytes by fours,
/// twos and ones takes 6.8. Two alternatives are slower. With end-around carry instead of counted
/// carries it takes 6.0 ticks; with separate sums of whole words and high halves, as in the vector
/// code, 6.6 (`linerate bench parts`, 2.0 GHz TSC).
#[cfg_attr(not(debug_assertions), inline(always))]
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

/// Returns the last `rest` (0 to 7) of 8 bytes as a word in memory order, followed by zeros.
#[inline(always)]
fn uncounted(last: [u8; 8], rest: usize) -> u64 {
    // Two shifts, because a shift by 64 bits is not defined.
    (u64::from_le_bytes(last) >> 1 >> (63 - 8 * rest as u32)).to_le()
}

/// Sums as [`short`] does and copies at the same time, up to the length of the shorter slice.
#[cfg_attr(not(debug_assertions), inline(always))]
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

/// Sums 20 bytes, such as an IPv4 header without options, as five 32-bit words.
#[inline(always)]
pub(super) fn sum_20(bytes: &[u8; 20]) -> u64 {
    let (words, _) = bytes.as_chunks::<4>();
    words.iter().map(|&word| u64::from(u32::from_ne_bytes(word))).sum()
}

/// Sums 16 bytes, such as an IPv6 address. The result is at most 2^34.
#[inline(always)]
pub(super) fn sum_16(bytes: &[u8; 16]) -> u64 {
    let (words, _) = bytes.as_chunks::<8>();
    words.iter().map(|&word| halves(u64::from_ne_bytes(word))).sum()
}

/// Sums one 16-bit word at a time, as the loop of RFC 1071 4.1 does. It is the baseline for
/// measurements, although the compiler vectorizes it.
pub(super) fn generic16(bytes: &[u8]) -> u64 {
    let (words, odd) = bytes.as_chunks::<2>();
    let mut sum = u64::from(u16::from_ne_bytes([odd.first().copied().unwrap_or(0), 0]));
    for &word in words {
        sum += u64::from(u16::from_ne_bytes(word));
    }
    sum
}

/// Sums 64-bit words with end-around carry, in four independent sums to avoid a dependency chain.
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
