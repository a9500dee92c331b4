//! One file of numbers: its points in order, and the sums that mean and variance come from.
//!
//! A line is cut at the delimiters and one column of it is the number; a column that begins with `#` ends the line,
//! a line without the column is skipped, and anything else that is not a number ends the run.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;

use super::Failure;
use super::options::Options;
use crate::cscan;

/// C's BUFSIZ less the terminator: the most that one fgets takes.
const LONGEST_LINE: usize = 8191;
const FEWEST_POINTS: usize = 3;

/// Where standard input comes from; it can be read once.
pub struct Streams {
    stdin: Option<Box<dyn BufRead>>,
}

impl Streams {
    /// The process's own standard input.
    pub fn of_process() -> Streams {
        Streams { stdin: Some(Box::new(BufReader::new(io::stdin()))) }
    }

    /// Standard input that holds `text`.
    pub fn with_stdin(text: Vec<u8>) -> Streams {
        Streams { stdin: Some(Box::new(io::Cursor::new(text))) }
    }

    fn open(&mut self, name: &[u8]) -> Result<(Vec<u8>, Box<dyn BufRead>), Failure> {
        if name == b"-" {
            let stream = self.stdin.take().unwrap_or_else(|| Box::new(io::empty()));
            return Ok((b"<stdin>".to_vec(), stream));
        }
        match File::open(OsStr::from_bytes(name)) {
            Ok(file) => Ok((name.to_vec(), Box::new(BufReader::new(file)))),
            Err(error) => Err(cannot_open(name, &error)),
        }
    }
}

/// Number, mean and variance of a set: what Student's t looks at.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moments {
    /// How many points.
    pub n: usize,
    /// Their arithmetic mean.
    pub mean: f64,
    /// Their variance with n - 1 below the line; rounding can take it below zero.
    pub variance: f64,
}

impl Moments {
    /// The standard deviation, not a number if the variance is below zero.
    pub fn deviation(&self) -> f64 {
        self.variance.sqrt()
    }
}

/// A file's name and points.
#[derive(Debug, Clone, PartialEq)]
pub struct DataSet {
    /// As it was given, or `<stdin>`.
    pub name: Vec<u8>,
    points: Vec<f64>,
    sum: f64,
    sum_of_squares: f64,
}

impl DataSet {
    /// Puts `points` in order; the sums are taken in the order given. `None` if there are fewer than three.
    pub fn new(name: &[u8], points: &[f64]) -> Option<DataSet> {
        let sum = points.iter().fold(0.0, |sum, point| add(sum, *point));
        let sum_of_squares = points.iter().fold(0.0, |sum, point| add(point * point, sum));
        let points = merge_sorted(points);
        (points.len() >= FEWEST_POINTS).then(|| DataSet { name: name.to_vec(), points, sum, sum_of_squares })
    }

    /// Reads the file called `name`, or standard input for `-`.
    ///
    /// # Errors
    /// Status 1 if the file cannot be opened, 2 if a line holds no number or there are fewer than three points.
    pub fn read(name: &[u8], options: &Options, streams: &mut Streams) -> Result<DataSet, Failure> {
        let (name, mut stream) = streams.open(name)?;
        let (mut points, mut line) = (Vec::new(), 0);
        while let Some(text) = fgets(&mut *stream) {
            line += 1;
            let Some(word) = word(&text, options) else { continue };
            let (value, used) = cscan::strtod(word);
            if used != word.len() {
                return Err(invalid_data(line, &name));
            }
            points.push(value);
        }
        DataSet::new(&name, &points).ok_or_else(|| too_few(&name))
    }

    /// The points in ascending order, at least three.
    pub fn points(&self) -> &[f64] {
        &self.points
    }

    /// The smallest point.
    pub fn min(&self) -> f64 {
        self.points[0]
    }

    /// The largest point.
    pub fn max(&self) -> f64 {
        self.points[self.points.len() - 1]
    }

    /// The middle point, the upper of two.
    pub fn median(&self) -> f64 {
        self.points[self.points.len() / 2]
    }

    /// Number, mean, variance.
    pub fn moments(&self) -> Moments {
        let n = self.points.len() as f64;
        let variance = (self.sum_of_squares - self.sum * self.sum / n) / (n - 1.0);
        Moments { n: self.points.len(), mean: self.sum / n, variance }
    }
}

/// `a + b`, where of two not-a-numbers the first wins, as in x86's ADDSD: the sign of a `-nan` depends on it.
fn add(a: f64, b: f64) -> f64 {
    if a.is_nan() { a } else { a + b }
}

/// The next line as fgets and strlen see it: at most 8191 bytes, cut at a zero byte. A read error ends the file.
fn fgets(stream: &mut dyn BufRead) -> Option<Vec<u8>> {
    let mut line = Vec::new();
    let read = io::Read::take(&mut *stream, LONGEST_LINE as u64).read_until(b'\n', &mut line);
    if read.is_err() || line.is_empty() {
        return None;
    }
    line.truncate(line.iter().position(|byte| *byte == 0).unwrap_or(line.len()));
    Some(line)
}

/// The word in the wanted column, as strtok finds words; `None` on a comment before it or a line too short.
fn word<'a>(line: &'a [u8], options: &Options) -> Option<&'a [u8]> {
    let blanks = line.iter().rev().take_while(|byte| cscan::is_space(**byte)).count();
    let words = line[..line.len() - blanks].split(|byte| options.delimiters.contains(byte));
    let mut words = words.filter(|word| !word.is_empty()).take_while(|word| word[0] != b'#');
    words.nth(options.column - 1)
}

/// glibc's qsort is a merge sort; with not-a-numbers among the points the order depends on it.
fn merge_sorted(points: &[f64]) -> Vec<f64> {
    if points.len() < 2 {
        return points.to_vec();
    }
    let (left, right) = points.split_at(points.len() / 2);
    let (left, right) = (merge_sorted(left), merge_sorted(right));
    let (mut i, mut j, mut merged) = (0, 0, Vec::with_capacity(points.len()));
    while i < left.len() && j < right.len() {
        let from_right = left[i] > right[j];
        merged.push(if from_right { right[j] } else { left[i] });
        j += usize::from(from_right);
        i += usize::from(!from_right);
    }
    merged.extend(&left[i..]);
    merged.extend(&right[j..]);
    merged
}

fn cannot_open(name: &[u8], error: &io::Error) -> Failure {
    let text = error.to_string();
    let reason = text.split(" (os error").next().unwrap_or(&text);
    Failure { message: [b"ministat: Cannot open ", name, b": ", reason.as_bytes(), b"\n"].concat(), status: 1 }
}

fn invalid_data(line: usize, name: &[u8]) -> Failure {
    let head = format!("ministat: Invalid data on line {line} in ");
    Failure { message: [head.as_bytes(), name, b"\n"].concat(), status: 2 }
}

fn too_few(name: &[u8]) -> Failure {
    Failure { message: [b"Dataset ", name, b" must contain at least 3 data points\n"].concat(), status: 2 }
}
