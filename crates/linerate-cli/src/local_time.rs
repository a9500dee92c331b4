//! Formats local time for `tcpdump` and `iperf3 --timestamps`: in the zone of TZ or /etc/localtime,
//! with the conversions of strftime(3) in the C locale.

use jiff::Zoned;
use jiff::fmt::strtime::{BrokenDownTime, Config, PosixCustom};
use jiff::tz::TimeZone;

/// Returns the time `ns` nanoseconds after 1970 in `zone`.
pub fn at(ns: u64, zone: TimeZone) -> Zoned {
    // 64-bit nanoseconds end in the year 2554, which the type can represent.
    let time = jiff::Timestamp::from_nanosecond(i128::from(ns)).unwrap_or_default();
    time.to_zoned(zone)
}

/// Returns the time `ns` nanoseconds after 1970 in the system's zone; in UTC if there is no zone.
pub fn local(ns: u64) -> Zoned {
    at(ns, TimeZone::system())
}

/// Replaces the conversions of strftime(3) in `format`. An unknown conversion is unchanged, as in
/// the GNU C library.
///
/// Differences: %E and %O modifiers are unchanged; %f, %N, %q and %Q, which the GNU C library
/// lacks, become fractions, nanoseconds, the quarter and the zone's name.
pub fn format(format: &str, time: &Zoned) -> String {
    // Lenient formatting fails only if writing to the string does.
    let config = Config::new().custom(PosixCustom::new()).lenient(true);
    BrokenDownTime::from(time).to_string_with_config(&config, format).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_strftime_does_in_the_c_locale() {
        // LC_ALL=C TZ=UTC date -d @784111777 +FORMAT, and @1709164800: the 29th of February.
        for (pattern, second, text) in [
            ("%c ", 784_111_777, "Sun Nov  6 08:49:37 1994 "),
            ("%x|%X|%r", 784_111_777, "11/06/94|08:49:37|08:49:37 AM"),
            ("%F %T|%D %R", 784_111_777, "1994-11-06 08:49:37|11/06/94 08:49"),
            ("%A %B %d %e %j %y", 1_709_164_800, "Thursday February 29 29 060 24"),
            ("%U %W %V %G %g %u %w %C %h", 1_709_164_800, "08 09 09 2024 24 4 4 20 Feb"),
            ("%I%p %H%P %k%l", 1_709_164_800, "12AM 00am  012"),
            ("%r", 1_709_208_000, "12:00:00 PM"),
            ("%s%%%z%Z%n%t", 5, "5%+0000UTC\n\t"),
            ("no conversion, \u{f6}", 0, "no conversion, \u{f6}"),
        ] {
            assert_eq!(format(pattern, &at(second * 1_000_000_000, TimeZone::UTC)), text, "{pattern}");
        }
    }

    #[test]
    fn unknown_conversions_stay() {
        for unknown in ["x%!", "%", "a%", "%J%i", "%999999999d", "%-", "%+"] {
            assert_eq!(format(unknown, &at(0, TimeZone::UTC)), unknown);
        }
    }

    #[test]
    fn zones_have_their_offset_and_rules() {
        // A POSIX zone needs no database: New York's rules since 2007.
        let zone = TimeZone::posix("EST5EDT,M3.2.0,M11.1.0").unwrap();
        for (second, text) in [
            (1_773_557_940, "2026-03-15 02:59:00 -0400 EDT"),
            (1_772_953_199, "2026-03-08 01:59:59 -0500 EST"),
            (1_772_953_200, "2026-03-08 03:00:00 -0400 EDT"),
        ] {
            assert_eq!(format("%F %T %z %Z", &at(second * 1_000_000_000, zone.clone())), text);
        }
    }
}
