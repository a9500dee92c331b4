//! Values of options: counts, durations, percentages, switches, addresses, words and texts. Each is
//! formatted as text that is parsed to the same value.

use clock::Duration;
use std::fmt;
use std::net::IpAddr;
use wire::Mac;

/// Form that an option's values must have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// A whole number from `min` to `max`, written with an optional decimal suffix k, M or G, as in
    /// `100` and `1.5M`.
    Count {
        /// Smallest value allowed.
        min: u64,
        /// Largest value allowed.
        max: u64,
    },
    /// A rate per second, written with an optional suffix k, M or G. 0 means that there is no
    /// limit.
    Rate,
    /// A time with its unit, as in `10ms` and `1.5s`.
    Duration,
    /// A percentage from 0% to 100%, with up to seven decimals, as in `0.5%`.
    Percent,
    /// `on` or `off`.
    Switch,
    /// An Ethernet (MAC) address.
    Mac,
    /// An IPv4 or IPv6 address.
    Ip,
    /// One of the words in the list.
    Word(&'static [&'static str]),
    /// Any text, in quotes if it contains `,`, `(`, `)` or a quote.
    Text,
}

/// Value of an option.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Value {
    /// A count or a rate.
    Count(u64),
    /// A time span.
    Duration(Duration),
    /// A share of a whole.
    Percent(Percent),
    /// A switch: true if on.
    Switch(bool),
    /// An Ethernet (MAC) address.
    Mac(Mac),
    /// An IPv4 or IPv6 address.
    Ip(IpAddr),
    /// One of the words that the option allows.
    Word(&'static str),
    /// A text of any content.
    Text(String),
}

/// A share of a whole, in billionths: 1 % is 10,000,000.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Percent(u32);

impl Percent {
    /// Probability 0: never.
    pub const ZERO: Percent = Percent(0);
    /// Probability 1: always.
    pub const ALL: Percent = Percent(1_000_000_000);

    /// Creates a share from billionths. Values above 100 % are reduced to 100 %.
    pub const fn from_billionths(n: u32) -> Percent {
        if n > Percent::ALL.0 { Percent::ALL } else { Percent(n) }
    }

    /// Returns the share in billionths of the whole.
    pub const fn billionths(self) -> u32 {
        self.0
    }

    /// Returns whether an event of this probability occurs. `draw` must be a random number that is
    /// uniformly distributed over all 64-bit values.
    #[inline]
    pub const fn happens(self, draw: u64) -> bool {
        ((draw as u128 * Percent::ALL.0 as u128) >> 64) < self.0 as u128
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, part) = (self.0 / 10_000_000, self.0 % 10_000_000);
        if part == 0 {
            return write!(f, "{whole}%");
        }
        let digits = format!("{part:07}");
        write!(f, "{whole}.{}%", digits.trim_end_matches('0'))
    }
}

impl Form {
    /// Parses a value of this form. Returns `None` if `text` is not valid.
    pub fn parse(&self, text: &str) -> Option<Value> {
        Some(match self {
            Form::Count { min, max } => Value::Count(count(text).filter(|n| (*min..=*max).contains(n))?),
            Form::Rate => Value::Count(count(text)?),
            Form::Duration => Value::Duration(duration(text)?),
            Form::Percent => {
                let billionths = decimal(text.strip_suffix('%')?, 10_000_000)?;
                let billionths = u32::try_from(billionths).ok().filter(|n| *n <= Percent::ALL.0)?;
                Value::Percent(Percent(billionths))
            }
            Form::Switch => Value::Switch(match text {
                "on" => true,
                "off" => false,
                _ => return None,
            }),
            Form::Mac => Value::Mac(text.parse().ok()?),
            Form::Ip => Value::Ip(text.parse().ok()?),
            Form::Word(words) => Value::Word(words.iter().find(|word| **word == text)?),
            Form::Text => Value::Text((!text.contains(char::is_control)).then(|| text.to_string())?),
        })
    }
}

impl fmt::Display for Form {
    /// Writes the form as the end of an error message, after "expected".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Form::Count { min: 0, max: u64::MAX } => f.write_str("a count such as 100, 10k or 1M"),
            Form::Count { min, max } => write!(f, "a count from {min} to {max}"),
            Form::Rate => f.write_str("a rate per second such as 1000, 1.5M or 1G"),
            Form::Duration => f.write_str("a time such as 10us, 1.5ms or 2s"),
            Form::Percent => f.write_str("a percentage such as 1% or 0.01%"),
            Form::Switch => f.write_str("on or off"),
            Form::Mac => f.write_str("an Ethernet address such as 02:00:00:00:00:01"),
            Form::Ip => f.write_str("an address such as 10.0.0.1 or fd00::1"),
            Form::Word(words) => write!(f, "one of {}", words.join(", ")),
            Form::Text => f.write_str("text without control characters"),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Count(n) => largest(f, *n, &[(1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")], ""),
            Value::Duration(d) => {
                let ns = u64::try_from(d.as_nanos()).unwrap_or(u64::MAX);
                largest(f, ns, &[(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")], "ns")
            }
            Value::Percent(percent) => percent.fmt(f),
            Value::Switch(on) => f.write_str(if *on { "on" } else { "off" }),
            Value::Mac(mac) => mac.fmt(f),
            Value::Ip(address) => address.fmt(f),
            Value::Word(word) => f.write_str(word),
            Value::Text(text) => quoted(f, text),
        }
    }
}

/// Writes `n` in the largest unit that divides it without remainder.
fn largest(f: &mut fmt::Formatter<'_>, n: u64, units: &[(u64, &str)], base: &str) -> fmt::Result {
    match units.iter().find(|(size, _)| n != 0 && n.is_multiple_of(*size)) {
        Some((size, unit)) => write!(f, "{}{unit}", n / size),
        None => write!(f, "{n}{base}"),
    }
}

fn quoted(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    let bare = !text.is_empty() && text.trim() == text && !text.contains([',', '(', ')', '"', '\\']);
    if bare { f.write_str(text) } else { write!(f, "\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")) }
}

fn count(text: &str) -> Option<u64> {
    for (suffix, unit) in [('k', 1_000), ('M', 1_000_000), ('G', 1_000_000_000)] {
        if let Some(number) = text.strip_suffix(suffix) {
            return decimal(number, unit);
        }
    }
    decimal(text, 1)
}

fn duration(text: &str) -> Option<Duration> {
    let units = [("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];
    let (number, unit) = units.iter().find_map(|(suffix, unit)| Some((text.strip_suffix(suffix)?, *unit)))?;
    decimal(number, unit).map(Duration::from_nanos)
}

/// Parses a decimal number of `unit`s. Returns `None` if the result is not a whole number or
/// exceeds 64 bits.
fn decimal(text: &str, unit: u64) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |s: &str| !s.is_empty() && s.len() <= 20 && s.bytes().all(|b| b.is_ascii_digit());
    if !is_number(whole) || !is_number(part) {
        return None;
    }
    let whole = u128::from(whole.parse::<u64>().ok()?) * u128::from(unit);
    let scale = 10u128.pow(u32::try_from(part.len()).ok()?);
    let part = part.parse::<u128>().ok()?.checked_mul(u128::from(unit))?;
    if !part.is_multiple_of(scale) {
        return None;
    }
    u64::try_from(whole + part / scale).ok()
}
