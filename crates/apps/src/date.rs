//! Dates as FTP, HTTP and `ls -l` write them: from seconds since 1970 (UTC) and back.
//!
//! No clock: what time it is follows from `now` and a [`Wall`], which whoever owns a clock sets once.

use clock::Instant;
use std::time::Duration;

const DAY_S: u64 = 86_400;
const WEEKDAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"]; // 1970-01-01 was a Thursday
const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
/// The last second of the year 9999: later times do not fit the formats.
const LATEST: u64 = 253_402_300_799;

/// The calendar time at [`Instant::ZERO`], as time since 1970.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Wall(pub Duration);

impl Wall {
    /// Seconds since 1970.
    pub fn unix_s(self, now: Instant) -> u64 {
        self.0.saturating_add(now.since(Instant::ZERO)).as_secs()
    }
}

/// A day and a time of day, in UTC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Civil {
    /// 1970 to 9999.
    pub year: u64,
    /// 1 to 12.
    pub month: u64,
    /// 1 to 31.
    pub day: u64,
    /// 0 to 23.
    pub hour: u64,
    /// 0 to 59.
    pub minute: u64,
    /// 0 to 59.
    pub second: u64,
}

impl Civil {
    /// From seconds since 1970; times after 9999 are its last second.
    pub fn from_unix(unix_s: u64) -> Civil {
        let unix_s = unix_s.min(LATEST);
        let (days, rest) = (unix_s / DAY_S, unix_s % DAY_S);
        // Years that begin in March put the odd day at the end; 400 of them have 146,097 days.
        let shifted = days + 719_468;
        let (era, of_era) = (shifted / 146_097, shifted % 146_097);
        let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let from_march = (5 * of_year + 2) / 153;
        let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
        Civil {
            year: era * 400 + year_of_era + u64::from(month <= 2),
            month,
            day: of_year - (153 * from_march + 2) / 5 + 1,
            hour: rest / 3_600,
            minute: rest / 60 % 60,
            second: rest % 60,
        }
    }

    /// Seconds since 1970, if it is a day of the calendar from then on.
    pub fn to_unix(self) -> Option<u64> {
        let fits = (1970..=9999).contains(&self.year)
            && (1..=12).contains(&self.month)
            && self.day >= 1
            && self.hour < 24
            && self.minute < 60
            && self.second < 60;
        if !fits {
            return None;
        }
        let year = self.year - u64::from(self.month <= 2);
        let (era, year_of_era) = (year / 400, year % 400);
        let from_march = if self.month > 2 { self.month - 3 } else { self.month + 9 };
        let of_year = (153 * from_march + 2) / 5 + self.day - 1;
        let of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + of_year;
        let days = (era * 146_097 + of_era).checked_sub(719_468)?;
        let unix_s = days * DAY_S + self.hour * 3_600 + self.minute * 60 + self.second;
        (Civil::from_unix(unix_s) == self).then_some(unix_s) // the 31st of April is none
    }
}

fn month_name(month: u64) -> &'static str {
    MONTHS.get((month as usize).wrapping_sub(1)).copied().unwrap_or("???")
}

/// `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110 5.6.7, IMF-fixdate).
pub fn http(unix_s: u64) -> String {
    let t = Civil::from_unix(unix_s);
    let weekday = WEEKDAYS.get((unix_s.min(LATEST) / DAY_S % 7) as usize).copied().unwrap_or("???");
    format!(
        "{weekday}, {:02} {} {} {:02}:{:02}:{:02} GMT",
        t.day,
        month_name(t.month),
        t.year,
        t.hour,
        t.minute,
        t.second
    )
}

/// `19941106084937` (RFC 3659 2.3).
pub fn ftp(unix_s: u64) -> String {
    let t = Civil::from_unix(unix_s);
    format!("{:04}{:02}{:02}{:02}{:02}{:02}", t.year, t.month, t.day, t.hour, t.minute, t.second)
}

/// As `ls -l`: `Nov  6 08:49`, or `Nov  6  1994` when that is half a year away from `now_s` or more.
pub fn ls(unix_s: u64, now_s: u64) -> String {
    let t = Civil::from_unix(unix_s);
    let is_recent = unix_s <= now_s && now_s - unix_s < 183 * DAY_S;
    let month = month_name(t.month);
    if is_recent {
        format!("{month} {:2} {:02}:{:02}", t.day, t.hour, t.minute)
    } else {
        format!("{month} {:2}  {:4}", t.day, t.year)
    }
}

/// An HTTP date in any of its three forms (RFC 9110 5.6.7). The day of the week is not compared with the date.
pub fn parse_http(text: &str) -> Option<u64> {
    let (first, rest) = text.split_once(' ')?;
    let words: Vec<&str> = rest.split_ascii_whitespace().collect();
    let civil = match (first.strip_suffix(','), words.as_slice()) {
        (Some(_), [day, month, year, time, "GMT"]) => civil(year, month, day, time, 4)?,
        (Some(_), [date, time, "GMT"]) => {
            let mut parts = date.split('-');
            let (day, month, year) = (parts.next()?, parts.next()?, parts.next()?);
            let mut civil = civil(year, month, day, time, 2).filter(|_| parts.next().is_none())?;
            // RFC 850's two digits: this century's, unless that is far ahead; nothing here is older than 1970.
            civil.year += if civil.year < 70 { 2000 } else { 1900 };
            civil
        }
        (None, [month, day, time, year]) => civil(year, month, day, time, 4)?,
        _ => return None,
    };
    civil.to_unix()
}

fn civil(year: &str, month: &str, day: &str, time: &str, year_digits: usize) -> Option<Civil> {
    let mut parts = time.split(':').map(|part| number(part, 2, 2));
    let (hour, minute, second) = (parts.next()??, parts.next()??, parts.next()??);
    Some(Civil {
        year: number(year, year_digits, year_digits)?,
        month: MONTHS.iter().position(|name| *name == month)? as u64 + 1,
        day: number(day, 1, 2)?,
        hour,
        minute,
        second: second.min(59), // a leap second is the second before
    })
    .filter(|_| parts.next().is_none())
}

fn number(text: &str, least: usize, most: usize) -> Option<u64> {
    let fits = (least..=most).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    fits.then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests;
