//! C's `%g` and `%e`, digit for digit.
//!
//! C99 7.19.6.1: `%.Pg` is `%e` with P-1 digits when the decimal exponent X is below -4 or at least
//! P, else `%f` with P-1-X digits; trailing zeros are removed. Exponents have at least two digits.
//! The exact binary value is rounded, ties to even, as in glibc. Not implemented: the flags `# + 0
//! -` and space, which none of the imitated programs uses.

/// Formats as `%.{precision}g`. A precision of 0 is treated as 1, as in C.
pub fn general(value: f64, precision: usize) -> String {
    if !value.is_finite() {
        return not_finite(value);
    }
    let significant = precision.max(1);
    let (mantissa, exponent) = scientific_parts(value, significant - 1);
    if exponent < -4 || exponent >= significant as i32 {
        return join_exponent(without_trailing_zeros(&mantissa), exponent);
    }
    let decimals = (significant as i32 - 1 - exponent) as usize;
    without_trailing_zeros(&format!("{value:.decimals$}")).to_owned()
}

/// Formats as `%{width}.{precision}g`: right-aligned in at least `width` columns.
pub fn general_wide(value: f64, width: usize, precision: usize) -> String {
    format!("{:>width$}", general(value, precision))
}

/// Formats as `%g`.
pub fn g(value: f64) -> String {
    general(value, 6)
}

/// Formats as `%.{precision}e`.
pub fn scientific(value: f64, precision: usize) -> String {
    if !value.is_finite() {
        return not_finite(value);
    }
    let (mantissa, exponent) = scientific_parts(value, precision);
    join_exponent(&mantissa, exponent)
}

/// Formats infinities and NaN. glibc prints the sign of a NaN; x86 sets it on every NaN that it
/// produces.
fn not_finite(value: f64) -> String {
    let name = if value.is_nan() { "nan" } else { "inf" };
    let sign = if value.is_sign_negative() { "-" } else { "" };
    format!("{sign}{name}")
}

fn scientific_parts(value: f64, precision: usize) -> (String, i32) {
    let text = format!("{value:.precision$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    (mantissa.to_owned(), exponent.parse().unwrap_or(0))
}

fn join_exponent(mantissa: &str, exponent: i32) -> String {
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.unsigned_abs())
}

fn without_trailing_zeros(digits: &str) -> &str {
    match digits.contains('.') {
        true => digits.trim_end_matches('0').trim_end_matches('.'),
        false => digits,
    }
}

#[cfg(test)]
mod tests;
