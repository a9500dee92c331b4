//! Output of iperf3: to standard output or a file (--logfile), with time stamps (--timestamps).

use crate::exit::{Fault, print};
use anyhow::Context;
use apps::date::Civil;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
/// The conversions of strftime(3) that are known, in the C locale and in UTC.
const CONVERSIONS: &str = "aAbBcdDeFHIjmMnpRsStTyYzZ%";

/// A format for the time of day, as strftime(3) has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TimeFormat(String);

impl TimeFormat {
    /// A format, if all of its conversions are known.
    ///
    /// # Errors
    /// The unknown conversion.
    pub fn parse(text: &str) -> Result<TimeFormat, String> {
        let mut letters = text.chars();
        while let Some(letter) = letters.next() {
            if letter != '%' {
                continue;
            }
            match letters.next() {
                Some(known) if CONVERSIONS.contains(known) => {}
                other => {
                    let other = other.map(String::from).unwrap_or_default();
                    return Err(format!("unknown conversion '%{other}', expected one of {CONVERSIONS}"));
                }
            }
        }
        Ok(TimeFormat(text.to_owned()))
    }

    fn text(&self, unix_s: u64) -> String {
        let (civil, mut text, mut letters) = (Civil::from_unix(unix_s), String::new(), self.0.chars());
        while let Some(letter) = letters.next() {
            match letter {
                '%' => text += &letters.next().map(|letter| conversion(letter, &civil, unix_s)).unwrap_or_default(),
                plain => text.push(plain),
            }
        }
        text
    }
}

fn conversion(letter: char, t: &Civil, unix_s: u64) -> String {
    // 1970-01-01 was a Thursday.
    let day = DAYS[(unix_s / 86_400 + 4) as usize % 7];
    let month = MONTHS[(t.month as usize + 11) % 12];
    let of = |format: &str| TimeFormat(format.to_owned()).text(unix_s);
    match letter {
        'a' => day[..3].to_owned(),
        'A' => day.to_owned(),
        'b' => month[..3].to_owned(),
        'B' => month.to_owned(),
        'c' => of("%a %b %e %H:%M:%S %Y"),
        'd' => format!("{:02}", t.day),
        'D' => of("%m/%d/%y"),
        'e' => format!("{:2}", t.day),
        'F' => of("%Y-%m-%d"),
        'H' => format!("{:02}", t.hour),
        'I' => format!("{:02}", (t.hour + 11) % 12 + 1),
        'j' => {
            let new_year = Civil { month: 1, day: 1, hour: 0, minute: 0, second: 0, ..*t };
            let days = new_year.to_unix().map_or(0, |begin| unix_s.saturating_sub(begin) / 86_400);
            format!("{:03}", days + 1)
        }
        'm' => format!("{:02}", t.month),
        'M' => format!("{:02}", t.minute),
        'n' => "\n".to_owned(),
        'p' => if t.hour < 12 { "AM" } else { "PM" }.to_owned(),
        'R' => of("%H:%M"),
        's' => unix_s.to_string(),
        'S' => format!("{:02}", t.second),
        't' => "\t".to_owned(),
        'T' => of("%H:%M:%S"),
        'y' => format!("{:02}", t.year % 100),
        'Y' => t.year.to_string(),
        'z' => "+0000".to_owned(),
        'Z' => "UTC".to_owned(),
        other => other.to_string(),
    }
}

/// Destination of the output.
#[derive(Debug)]
pub struct Output {
    file: Option<File>,
    stamp: Option<TimeFormat>,
}

impl Output {
    /// To a file's end, or to standard output; with the time in front of each line.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn open(file: Option<&Path>, stamp: Option<TimeFormat>) -> anyhow::Result<Output> {
        let open = |path: &Path| {
            let file = File::options().append(true).create(true).open(path);
            file.with_context(|| format!("--logfile {}", path.display()))
                .map_err(|why| Fault::usage(format!("{why:#}")))
        };
        Ok(Output { file: file.map(open).transpose()?, stamp })
    }

    /// Writes whole lines, and flushes them.
    ///
    /// # Errors
    /// The file's, or standard output's.
    pub fn write(&mut self, text: &str) -> anyhow::Result<()> {
        let stamped;
        let text = match &self.stamp {
            Some(format) => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                let stamp = format.text(now.as_secs());
                stamped = text.split_inclusive('\n').map(|line| format!("{stamp}{line}")).collect::<String>();
                &stamped
            }
            None => text,
        };
        match &mut self.file {
            Some(file) => file.write_all(text.as_bytes()).context("--logfile"),
            None => print(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_strftime_does_in_the_c_locale() {
        // date -u -d @784111777 +FORMAT, and @1709164800: the 29th of February.
        for (format, at, text) in [
            ("%c ", 784_111_777, "Sun Nov  6 08:49:37 1994 "),
            ("%F %T|%D %R", 784_111_777, "1994-11-06 08:49:37|11/06/94 08:49"),
            ("%A %B %d %e %j %y", 1_709_164_800, "Thursday February 29 29 060 24"),
            ("%I%p %H", 1_709_164_800, "12AM 00"),
            ("%I%p", 1_709_208_000, "12PM"),
            ("%s%%%z%Z", 5, "5%+0000UTC"),
            ("no conversion", 0, "no conversion"),
        ] {
            assert_eq!(TimeFormat::parse(format).unwrap().text(at), text, "{format}");
        }
        for wrong in ["%Q", "x%", "%E%"] {
            assert!(TimeFormat::parse(wrong).unwrap_err().contains("unknown conversion"), "{wrong}");
        }
    }
}
