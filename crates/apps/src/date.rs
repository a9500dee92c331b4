//! Formats of dates in FTP, HTTP and `ls -l`, all in UTC.
//!
//! This module reads no clock. It computes the time of day from `now` and a [`Wall`], which the
//! owner of the clock sets once.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use linerate::stack::Instant;
use std::time::{Duration, SystemTime};

const DAY_S: u64 = 86_400;
/// Last second of the year 9999, in seconds since 1970. Later times do not fit the date formats.
const LATEST: u64 = 253_402_300_799;

/// Wall-clock time, since 1970, that corresponds to [`Instant::ZERO`] of the host's clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Wall(pub Duration);

impl Wall {
    /// Returns the seconds since 1970.
    pub fn unix_s(self, now: Instant) -> u64 {
        self.0.saturating_add(now.since(Instant::ZERO)).as_secs()
    }
}

/// Formats a time by a pattern of strftime(3). Times after 9999-12-30 22:00:00, the latest time
/// that the crate `jiff` supports, are formatted as that time.
fn format(unix_s: u64, pattern: &str) -> String {
    let second = i64::try_from(unix_s).unwrap_or(i64::MAX).min(Timestamp::MAX.as_second());
    let time = Timestamp::from_second(second).unwrap_or(Timestamp::MAX);
    time.to_zoned(TimeZone::UTC).strftime(pattern).to_string()
}

/// Formats a date for HTTP: `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110 5.6.7, IMF-fixdate).
pub fn http(unix_s: u64) -> String {
    httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + Duration::from_secs(unix_s.min(LATEST)))
}

/// Formats a time for FTP: `19941106084937` (RFC 3659 2.3).
pub fn ftp(unix_s: u64) -> String {
    format(unix_s, "%Y%m%d%H%M%S")
}

/// Formats a time as `ls -l` does: `Nov  6 08:49`, or `Nov  6  1994` if the time is half a year ago
/// or more, or in the future.
pub fn ls(unix_s: u64, now_s: u64) -> String {
    let is_recent = unix_s <= now_s && now_s - unix_s < 183 * DAY_S;
    format(unix_s, if is_recent { "%b %e %H:%M" } else { "%b %e  %Y" })
}

/// Parses an HTTP date in any of its three forms (RFC 9110 5.6.7) to seconds since 1970.
pub fn parse_http(text: &str) -> Option<u64> {
    let time = httpdate::parse_http_date(text).ok()?;
    Some(time.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_secs())
}

#[cfg(test)]
mod tests;
