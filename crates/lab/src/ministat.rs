//! FreeBSD's ministat(1), byte for byte as Debian installs it (20150715).
//!
//! The input is at most seven files of numbers; the output is a plot, the vital statistics of each
//! file and Student's t against the first. [`options`] reads the command line, [`dataset`] the
//! files, [`chart`] draws the plot, [`student`] contains the table of Student's t; this file
//! composes the report. Every floating-point operation happens in the original's order, so that the
//! digits agree.
//!
//! Quirks kept because the digits depend on them: the median of an even number of points is the
//! upper one; the variance is sum of squares less squared sum, which loses digits and can fall
//! below zero (`-nan`); the plot's height is that of the last set; `99.5` is really 99.8 % (see
//! [`student`]); lines longer than 8191 bytes are split.
//!
//! Intended differences: where the original writes outside its buffers (a width of 0 or 1, infinite
//! data) it is killed by a signal; this program omits the stray mark and continues. Widths over
//! [`options::WIDEST`] are rejected with status 2. A failure to write the output gives status 1.
//! As in Debian's version, there is an option `-A` and no `-q`.

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};

use self::chart::Chart;
use self::dataset::{DataSet, Moments, Streams};
use self::options::Options;
use crate::{cfmt, cscan, os};

pub mod chart;
pub mod dataset;
pub mod options;
pub mod student;

/// Marks of sets 1 to 7; index 0 is an empty cell.
pub const SYMBOLS: [u8; 8] = *b" x+*%#@O";

/// Error that ends ministat before it prints anything.
#[derive(Debug, PartialEq, Eq)]
pub struct Failure {
    /// Text for standard error, newline included.
    pub message: Vec<u8>,
    /// Exit status: 1 for a file that cannot be opened, 2 for everything else.
    pub status: u8,
}

/// Runs ministat with `args` (without the program's name) and returns its exit status. Reads
/// standard input if no file is named or one is named `-`.
pub fn main(args: &[OsString], out: &mut dyn Write, err: &mut dyn Write) -> u8 {
    run(args, terminal_width(), &mut Streams::of_process(), out, err)
}

/// Runs [`main`] with the environment as arguments: the plot width used without `-w`, and the
/// contents of standard input.
pub fn run(args: &[OsString], width: i32, streams: &mut Streams, out: &mut dyn Write, err: &mut dyn Write) -> u8 {
    match prepare(args, width, streams) {
        Ok((options, sets)) => {
            let text = report(&options, &sets);
            let written = out.write_all(&text).and_then(|()| out.flush());
            u8::from(written.is_err())
        }
        Err(failure) => {
            let _ = err.write_all(&failure.message);
            failure.status
        }
    }
}

/// Returns the default plot width: 74, or on a terminal the value of COLUMNS, or the terminal's own
/// width less two.
fn terminal_width() -> i32 {
    const DEFAULT: i32 = 74;
    if !io::stdout().is_terminal() {
        return DEFAULT;
    }
    match std::env::var_os("COLUMNS").filter(|value| !value.is_empty()) {
        Some(columns) => cscan::strtol(columns.as_encoded_bytes()).0 as i32,
        None => os::terminal_columns().map_or(DEFAULT, |columns| i32::from(columns) - 2),
    }
}

fn prepare(args: &[OsString], width: i32, streams: &mut Streams) -> Result<(Options, Vec<DataSet>), Failure> {
    let options = Options::parse(args, width)?;
    let sets = options.files.iter().map(|name| DataSet::read(name, &options, streams));
    let sets = sets.collect::<Result<Vec<_>, _>>()?;
    Ok((options, sets))
}

/// Returns the text for standard output. `sets` contains one to seven sets.
pub fn report(options: &Options, sets: &[DataSet]) -> Vec<u8> {
    let mut out = Vec::new();
    for (set, symbol) in sets.iter().zip(&SYMBOLS[1..]) {
        out.extend([*symbol, b' ']);
        out.extend(&set.name);
        out.push(b'\n');
    }
    if !options.no_plot && !options.numbers_only {
        Chart::of(sets, options.width, options.separate_bars).draw(&mut out);
    }
    out.extend(b"    N           Min           Max        Median           Avg        Stddev\n");
    for (i, set) in sets.iter().enumerate() {
        out.extend(vitals(set, SYMBOLS[i + 1]).as_bytes());
        if i > 0 && !options.numbers_only {
            out.extend(relative(&set.moments(), &sets[0].moments(), options.level).as_bytes());
        }
    }
    out
}

fn vitals(set: &DataSet, symbol: u8) -> String {
    let moments = set.moments();
    let columns = [set.min(), set.max(), set.median(), moments.mean, moments.deviation()];
    let columns: String = columns.iter().map(|value| format!(" {}", cfmt::general_wide(*value, 13, 8))).collect();
    format!("{} {:3}{columns}\n", symbol as char, moments.n)
}

/// Returns the sentence that compares `set` with `reference` at confidence
/// `student::LEVELS[level]`.
///
/// Student's t for two samples with a pooled deviation (Cartoon Guide to Statistics, ch. 9, which
/// the manual page cites).
pub fn relative(set: &Moments, reference: &Moments, level: usize) -> String {
    let (n, m) = (set.n as f64, reference.n as f64);
    let freedom = set.n + reference.n - 2;
    let pooled = (((n - 1.0) * set.variance + (m - 1.0) * reference.variance) / freedom as f64).sqrt();
    let error = student::critical(freedom, level) * (pooled * (1.0 / n + 1.0 / m).sqrt());
    let difference = set.mean - reference.mean;
    let confidence = student::LEVELS[level];
    if difference.abs() > error {
        format!(
            "Difference at {confidence:.1}% confidence\n\t{} +/- {}\n\t{}% +/- {}%\n\t(Student's t, pooled s = {})\n",
            cfmt::g(difference),
            cfmt::g(error),
            cfmt::g(difference * 100.0 / reference.mean),
            cfmt::g(error * 100.0 / reference.mean),
            cfmt::g(pooled),
        )
    } else {
        format!("No difference proven at {confidence:.1}% confidence\n")
    }
}

#[cfg(test)]
mod differential;
#[cfg(test)]
mod tests;
