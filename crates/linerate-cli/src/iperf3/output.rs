//! Output of iperf3, to standard output or to a file (--logfile), without or with timestamps
//! (--timestamps).

use crate::exit::{Fault, print};
use crate::local_time;
use anyhow::Context;
use jiff::tz::TimeZone;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Destination of the output.
#[derive(Debug)]
pub struct Output {
    file: Option<File>,
    stamp: Option<Stamp>,
}

/// Timestamp that is written before each line.
#[derive(Debug)]
struct Stamp {
    /// Format of the timestamp, as for strftime(3).
    format: String,
    /// Time zone, read once before the server drops its privileges.
    zone: TimeZone,
}

impl Output {
    /// Opens the output, which appends to `file`, or without it writes to standard output.
    /// `timestamps` is the strftime(3) format of a timestamp before each line.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn open(file: Option<&Path>, timestamps: Option<&str>) -> anyhow::Result<Output> {
        let open = |path: &Path| {
            let file = File::options().append(true).create(true).open(path);
            file.with_context(|| format!("--logfile {}", path.display()))
                .map_err(|why| Fault::usage(format!("{why:#}")))
        };
        let stamp = timestamps.map(|format| Stamp { format: format.to_owned(), zone: TimeZone::system() });
        Ok(Output { file: file.map(open).transpose()?, stamp })
    }

    /// Writes `text`, which consists of whole lines, and flushes it.
    ///
    /// # Errors
    /// Errors of the file or of standard output.
    pub fn write(&mut self, text: &str) -> anyhow::Result<()> {
        let stamped;
        let text = match &self.stamp {
            Some(Stamp { format, zone }) => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                let stamp = local_time::format(format, &local_time::at(now.as_nanos() as u64, zone.clone()));
                stamped = text.split_inclusive('\n').map(|line| format!("{stamp}{line}")).collect::<String>();
                &stamped
            }
            None => text,
        };
        match &mut self.file {
            Some(file) => file.write_all(text.as_bytes()).context("cannot write to the file of --logfile"),
            None => print(text),
        }
    }
}
