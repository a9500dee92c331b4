//! Parses numbers with units in command-line options: `10ms`, `1.5G`, `64k`.

use std::fmt;
use std::time::Duration;

/// Error for a word that is not a valid number with a unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadUnits {
    word: String,
    /// Offset of the error in the word, in bytes.
    at: usize,
    expected: &'static str,
}

impl fmt::Display for BadUnits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rest = self.word.get(self.at..).filter(|rest| !rest.is_empty()).unwrap_or("the end");
        write!(f, "'{}', column {}: expected {}, found {rest}", self.word, self.at + 1, self.expected)
    }
}

impl std::error::Error for BadUnits {}

/// Parses a number with up to nine decimal places, followed by one of `units`, and multiplies the
/// number by the unit.
fn parse(word: &str, units: &[(&str, u64)], expected: &'static str) -> Result<u64, BadUnits> {
    let bad = |at| BadUnits { word: word.to_owned(), at, expected };
    let end = word.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(word.len());
    let (number, unit) = word.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || fraction.len() > 9 || fraction.contains('.') || number.ends_with('.') {
        return Err(bad(0));
    }
    let times = units.iter().find(|(name, _)| *name == unit).ok_or_else(|| bad(end))?.1;
    let whole: u64 = whole.parse().map_err(|_| bad(0))?;
    let part: u64 = if fraction.is_empty() { 0 } else { fraction.parse().map_err(|_| bad(0))? };
    let part = u128::from(part) * u128::from(times) / 10_u128.pow(fraction.len() as u32);
    let value = u128::from(whole) * u128::from(times) + part;
    u64::try_from(value).map_err(|_| bad(0))
}

/// Parses a duration with a unit: `10ms`, `1.5s`, `250us`, `84ns`, `2m`.
///
/// # Errors
/// The number is missing, malformed or too large, or the unit is missing or unknown.
pub fn duration(word: &str) -> Result<Duration, BadUnits> {
    let units = [("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000), ("m", 60_000_000_000)];
    parse(word, &units, "a time such as 10ms, 1.5s, 250us or 84ns").map(Duration::from_nanos)
}

/// Parses a number of bytes: `1500`, `64k`, `1M`. The units are powers of 1024.
///
/// # Errors
/// The number is missing, malformed or too large, or the unit is unknown.
pub fn bytes(word: &str) -> Result<u64, BadUnits> {
    let units = [("", 1), ("k", 1 << 10), ("M", 1 << 20), ("G", 1 << 30)];
    parse(word, &units, "a number of bytes such as 1500, 64k or 1M")
}

/// A rate per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rate {
    /// Bits per second.
    Bits(u64),
    /// Frames per second.
    Frames(u64),
}

/// Parses a rate in bits per second (`100M`, `1.5G`) or frames per second (`1000pps`, `1.488Mpps`).
/// The units are powers of 1000.
///
/// # Errors
/// The number is missing, malformed, too large or zero, or the unit is unknown.
pub fn rate(word: &str) -> Result<Rate, BadUnits> {
    const EXPECTED: &str = "a rate above 0 such as 100M, 1.5G (bits per second), 1000pps or 1.488Mpps";
    let units = [("", 1), ("k", 1_000), ("M", 1_000_000), ("G", 1_000_000_000)];
    let (number, frames) = word.strip_suffix("pps").map_or((word, false), |number| (number, true));
    let value = parse(number, &units, EXPECTED)?;
    if value == 0 {
        return Err(BadUnits { word: word.to_owned(), at: 0, expected: EXPECTED });
    }
    Ok(if frames { Rate::Frames(value) } else { Rate::Bits(value) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_with_units_are_parsed() {
        assert_eq!(duration("10ms"), Ok(Duration::from_millis(10)));
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("0.000000001s"), Ok(Duration::from_nanos(1)));
        assert_eq!((bytes("64k"), bytes("1.5M")), (Ok(65_536), Ok(1_572_864)));
        assert_eq!((rate("100M"), rate("1.488Mpps")), (Ok(Rate::Bits(100_000_000)), Ok(Rate::Frames(1_488_000))));
    }

    #[test]
    fn invalid_numbers_are_rejected_with_position() {
        for word in
            ["", "ms", "1..5s", "1.s", ".5s", "10", "99999999999999999999s", "18446744073709551615s", "1.0000000001s"]
        {
            assert!(duration(word).is_err(), "{word}");
        }
        assert_eq!(
            duration("10mz").unwrap_err().to_string(),
            "'10mz', column 3: expected a time such as 10ms, 1.5s, 250us or 84ns, found mz"
        );
        assert!(rate("0").is_err() && rate("0pps").is_err() && rate("pps").is_err());
    }

    proptest! {
        #[test]
        fn parsing_any_word_does_not_panic(word in ".{0,20}") {
            let _ = (duration(&word).map_err(|e| e.to_string()), bytes(&word).is_ok(), rate(&word).is_ok());
        }
    }
}
