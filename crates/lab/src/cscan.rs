//! C's `strtod` and `strtol`, which return the value and the number of bytes used.
//!
//! C99 7.20.1.3 in the C locale: leading white space, a sign, then a decimal, `0x` hexadecimal,
//! `inf`, `infinity`, `nan` or `nan(...)`, in any case. Values are rounded once, ties to even. A
//! value that is too large becomes infinity, one that is too small becomes zero. If 0 bytes are
//! used, the text does not start with a number.

/// Parses the longest floating-point number at the start of `text`, as `strtod`.
pub fn strtod(text: &[u8]) -> (f64, usize) {
    let (negative, start) = sign(text);
    let body = &text[start..];
    let found = named(body).or_else(|| hexadecimal(body)).or_else(|| decimal(body));
    match found {
        None => (0.0, 0),
        Some((value, used)) => (if negative { -value } else { value }, start + used),
    }
}

/// Parses an integer as `strtol` in base 10, saturating as on a machine with 64-bit `long`.
pub fn strtol(text: &[u8]) -> (i64, usize) {
    let (negative, start) = sign(text);
    let digits = count(&text[start..], |byte| byte.is_ascii_digit());
    if digits == 0 {
        return (0, 0);
    }
    let step = |value: i64, byte: &u8| {
        let digit = i64::from(byte - b'0');
        value.saturating_mul(10).saturating_add(if negative { -digit } else { digit })
    };
    (text[start..start + digits].iter().fold(0, step), start + digits)
}

/// Returns whether C's `isspace` accepts the byte.
pub fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | 0x0b | 0x0c | b'\r')
}

fn count(text: &[u8], test: impl Fn(u8) -> bool) -> usize {
    text.iter().take_while(|byte| test(**byte)).count()
}

/// Returns whether there is a minus sign, and the offset after white space and sign.
fn sign(text: &[u8]) -> (bool, usize) {
    let start = count(text, is_space);
    match text.get(start) {
        Some(b'-') => (true, start + 1),
        Some(b'+') => (false, start + 1),
        _ => (false, start),
    }
}

fn named(text: &[u8]) -> Option<(f64, usize)> {
    let begins = |word: &[u8]| text.len() >= word.len() && text[..word.len()].eq_ignore_ascii_case(word);
    if begins(b"infinity") {
        return Some((f64::INFINITY, 8));
    }
    if begins(b"inf") {
        return Some((f64::INFINITY, 3));
    }
    begins(b"nan").then(|| (f64::NAN.copysign(1.0), 3 + nan_payload(&text[3..])))
}

/// Counts the bytes of the characters in parentheses (letters, digits, underscores) that may follow
/// `nan`. Without the closing parenthesis they are not part of the number, and the count is 0.
fn nan_payload(text: &[u8]) -> usize {
    if text.first() != Some(&b'(') {
        return 0;
    }
    let inside = count(&text[1..], |byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if text.get(1 + inside) == Some(&b')') { inside + 2 } else { 0 }
}

fn decimal(text: &[u8]) -> Option<(f64, usize)> {
    let (_, mantissa) = mantissa(text, |byte| byte.is_ascii_digit())?;
    let used = mantissa + exponent(&text[mantissa..], b'e').1;
    let value = std::str::from_utf8(&text[..used]).ok()?.parse().ok()?;
    Some((value, used))
}

/// Scans digits, which may contain one decimal point. Returns the number of digits and the number
/// of bytes; `None` if there is no digit.
fn mantissa(text: &[u8], digit: impl Fn(u8) -> bool + Copy) -> Option<(usize, usize)> {
    let whole = count(text, digit);
    let part = match text.get(whole) {
        Some(b'.') => count(&text[whole + 1..], digit),
        _ => return (whole > 0).then_some((whole, whole)),
    };
    (whole + part > 0).then_some((whole + part, whole + 1 + part))
}

/// Parses an exponent: `letter` (`e` or `p`), an optional sign and digits. Returns its value and
/// the number of bytes used; zeros if the digits are missing.
fn exponent(text: &[u8], letter: u8) -> (i64, usize) {
    if !text.first().is_some_and(|byte| byte.eq_ignore_ascii_case(&letter)) || text.get(1).is_some_and(|b| is_space(*b))
    {
        return (0, 0);
    }
    match strtol(&text[1..]) {
        (_, 0) => (0, 0),
        (value, used) => (value, 1 + used),
    }
}

fn hexadecimal(text: &[u8]) -> Option<(f64, usize)> {
    if !(text.len() > 2 && text[0] == b'0' && text[1].eq_ignore_ascii_case(&b'x')) {
        return None;
    }
    let digits = &text[2..];
    let (_, length) = mantissa(digits, |byte| byte.is_ascii_hexdigit())?;
    let (bits, scale) = hex_bits(&digits[..length]);
    let (power, used) = exponent(&digits[length..], b'p');
    Some((scaled(bits, scale.saturating_add(power)), 2 + length + used))
}

/// Returns up to 64 significant bits of hexadecimal digits, and the power of two to multiply them
/// by. The lowest bit is set if any further digit is not 0 (sticky bit).
fn hex_bits(digits: &[u8]) -> (u64, i64) {
    let (mut bits, mut scale, mut after_point) = (0u64, 0i64, false);
    for byte in digits {
        let Some(digit) = (*byte as char).to_digit(16) else {
            after_point = true;
            continue;
        };
        if bits >> 60 == 0 {
            bits = bits << 4 | u64::from(digit);
            scale -= if after_point { 4 } else { 0 };
        } else {
            bits |= u64::from(digit != 0);
            scale += if after_point { 0 } else { 4 };
        }
    }
    (bits, scale)
}

/// Returns `bits * 2^scale`, rounded once to the nearest double, ties to even.
fn scaled(bits: u64, scale: i64) -> f64 {
    if bits == 0 {
        return 0.0;
    }
    let top = scale.saturating_add(63 - i64::from(bits.leading_zeros()));
    if top > 1023 {
        return f64::INFINITY;
    }
    let last = (top - 52).max(-1074); // exponent of the last bit that the double can hold
    let shift = last.saturating_sub(scale);
    let kept = match shift {
        ..=0 => bits << -shift,
        1..=64 => round_shift(bits, shift as u32),
        _ => 0,
    };
    // A carry out of `kept` increments the exponent field, which gives the right value, up to
    // infinity.
    f64::from_bits((((last + 1074) as u64) << 52) + kept)
}

fn round_shift(bits: u64, shift: u32) -> u64 {
    let wide = u128::from(bits);
    let (kept, rest, half) = (wide >> shift, wide & ((1 << shift) - 1), 1u128 << (shift - 1));
    (kept + u128::from(rest > half || (rest == half && kept & 1 == 1))) as u64
}

#[cfg(test)]
mod tests;
