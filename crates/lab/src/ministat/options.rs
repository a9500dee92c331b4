//! ministat's command line: `[-Ans] [-C column] [-c confidence] [-d delimiters] [-w width] [file
//! ...]`.
//!
//! Parsed as by GNU getopt(3): options may be combined (`-nsw60`) and may follow files, and `--`
//! ends them. POSIXLY_CORRECT is ignored. An error prints one sentence and the usage to standard
//! error; the exit status is 2.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use super::{Failure, student};
use crate::{cfmt, cscan};

/// Maximum width of a plot. The original has no limit and allocates any width.
pub const WIDEST: i32 = 1 << 20;
const MOST_SETS: usize = 7;

/// Options and files of a command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// `-C`: number of the column that is read, from 1.
    pub column: usize,
    /// `-c`: index into [`student::LEVELS`].
    pub level: usize,
    /// `-d`: bytes that separate columns.
    pub delimiters: Vec<u8>,
    /// `-n`: prints statistics only, neither plot nor test.
    pub numbers_only: bool,
    /// `-A`: prints no plot.
    pub no_plot: bool,
    /// `-s`: draws each set's bar on a separate line.
    pub separate_bars: bool,
    /// `-w`: number of columns inside the plot's frame.
    pub width: i32,
    /// Names of the files, `-` for standard input; never empty.
    pub files: Vec<Vec<u8>>,
}

impl Options {
    /// Parses a command line.
    ///
    /// # Errors
    /// A [`Failure`] with status 2 for every error that ministat reports.
    pub fn parse(args: &[OsString], width: i32) -> Result<Options, Failure> {
        let mut options = Options {
            column: 1,
            level: student::DEFAULT_LEVEL,
            delimiters: b" \t".to_vec(),
            numbers_only: false,
            no_plot: false,
            separate_bars: false,
            width,
            files: Vec::new(),
        };
        options.read_all(args)?;
        match options.files.len() {
            0 => options.files.push(b"-".to_vec()),
            1..=MOST_SETS => {}
            _ => return Err(usage("Too many datasets.")),
        }
        if options.width > WIDEST {
            return Err(usage("Invalid width, too wide."));
        }
        Ok(options)
    }

    fn read_all(&mut self, args: &[OsString]) -> Result<(), Failure> {
        let mut level_given = false;
        let mut args = args.iter().map(|arg| arg.as_bytes());
        while let Some(arg) = args.next() {
            if arg == b"--" {
                self.files.extend(args.by_ref().map(<[u8]>::to_vec));
            } else if arg.len() > 1 && arg[0] == b'-' {
                self.read_cluster(&arg[1..], &mut args, &mut level_given)?;
            } else {
                self.files.push(arg.to_vec());
            }
        }
        Ok(())
    }

    /// Parses the letters after one dash; the last may take the rest of the argument or the next
    /// one as its value.
    fn read_cluster<'a>(
        &mut self,
        letters: &'a [u8],
        args: &mut impl Iterator<Item = &'a [u8]>,
        level_given: &mut bool,
    ) -> Result<(), Failure> {
        for (i, letter) in letters.iter().enumerate() {
            match letter {
                b'A' => self.no_plot = true,
                b'n' => self.numbers_only = true,
                b's' => self.separate_bars = true,
                b'C' | b'c' | b'd' | b'w' => {
                    let rest = &letters[i + 1..];
                    let value = if rest.is_empty() { args.next() } else { Some(rest) };
                    let value = value.ok_or_else(|| getopt("option requires an argument -- ", *letter))?;
                    return self.set(*letter, value, level_given);
                }
                other => return Err(getopt("invalid option -- ", *other)),
            }
        }
        Ok(())
    }

    fn set(&mut self, letter: u8, value: &[u8], level_given: &mut bool) -> Result<(), Failure> {
        match letter {
            b'C' => self.column = column(value)?,
            b'c' => self.level = level(value, level_given.then_some(self.level))?,
            b'd' if value.is_empty() => return Err(usage("Can't use empty delimiter string")),
            b'd' => self.delimiters = value.to_vec(),
            _ => self.width = plot_width(value)?,
        }
        *level_given |= letter == b'c';
        Ok(())
    }
}

fn column(value: &[u8]) -> Result<usize, Failure> {
    match int(value) {
        None => Err(usage("Invalid column number.")),
        Some(column) => {
            usize::try_from(column).ok().filter(|c| *c > 0).ok_or_else(|| usage("Column number should be positive."))
        }
    }
}

/// Parses a confidence level. An unsupported level is refused only if no valid `-c` came before, as
/// in the original.
fn level(value: &[u8], before: Option<usize>) -> Result<usize, Failure> {
    let (number, used) = cscan::strtod(value);
    if used != value.len() {
        return Err(usage("Not a floating point number"));
    }
    let found = student::LEVELS.iter().position(|level| *level == number);
    found.or(before).ok_or_else(|| usage("No support for confidence level"))
}

fn plot_width(value: &[u8]) -> Result<i32, Failure> {
    let width = int(value).ok_or_else(|| usage("Invalid width, not a number."))?;
    if width < 0 { Err(usage("Unable to move beyond left margin.")) } else { Ok(width) }
}

/// Converts with `strtol` to an `int`: the low 32 bits. Empty text is 0, as in C; `None` if
/// anything follows the number.
fn int(value: &[u8]) -> Option<i32> {
    let (number, used) = cscan::strtol(value);
    (used == value.len()).then_some(number as i32)
}

fn getopt(complaint: &str, letter: u8) -> Failure {
    let mut failure = usage("Unknown option");
    let mut message = format!("ministat: {complaint}'").into_bytes();
    message.push(letter);
    message.extend(b"'\n");
    message.append(&mut failure.message);
    Failure { message, ..failure }
}

fn usage(complaint: &str) -> Failure {
    let levels: Vec<String> = student::LEVELS.iter().map(|level| format!("{}%", cfmt::g(*level))).collect();
    let message = format!(
        "{complaint}
Usage: ministat [-C column] [-c confidence] [-d delimiter(s)] [-Ans] [-w width] [file [file ...]]
\tconfidence = {{{}}}
\t-A : print statistics only. suppress the graph.
\t-C : column number to extract (starts and defaults to 1)
\t-d : delimiter(s) string, default to \" \\t\"
\t-n : print summary statistics only, no graph/test
\t-s : print avg/median/stddev bars on separate lines
\t-w : width of graph/test output (default 74 or terminal width)
",
        levels.join(", ")
    );
    Failure { message: message.into_bytes(), status: 2 }
}
