//! One file of numbers: its sorted points, and the sums for mean and variance.
//!
//! A line is split at the delimiters, and one column of it is the number. A column that begins with
//! `#` ends the line, a line without the column is skipped, and anything else that is not a number
//! ends the run.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;

use super::Failure;
use super::options::Options;
use crate::cscan;

/// C's BUFSIZ less the terminator: the maximum that one fgets reads.
const LONGEST_LINE: usize = 8191;
const FEWEST_POINTS: usize = 3;

/// Source of standard input, which can be read once.
pub struct Streams {
    stdin: Option<Box<dyn BufRead>>,
}

impl Streams {
    /// Returns the process's standard input.
    pub fn of_process() -> Streams {
        Streams { stdin: Some(Box::new(BufReader::new(io::stdin()))) }
    }

    /// Returns a standard input with the contents `text`.
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

/// Number, mean and variance of a set: the input of Student's t.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moments {
    /// Number of points in the set.
    pub n: usize,
    /// Arithmetic mean of the points.
    pub mean: f64,
    /// Variance, with n - 1 as the divisor; rounding can make it negative.
    pub variance: f64,
}

impl Moments {
    /// Returns the standard deviation, NaN if the variance is negative.
    pub fn deviation(&self) -> f64 {
        self.variance.sqrt()
    }
}

/// Name and points of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct DataSet {
    /// Name as given, or `<stdin>`.
    pub name: Vec<u8>,
    points: Vec<f64>,
    sum: f64,
    sum_of_squares: f64,
}

impl DataSet {
    /// Sorts `points`; the sums are taken in the order given. Returns `None` for fewer than three
    /// points.
    pub fn new(name: &[u8], points: &[f64]) -> Option<DataSet> {
        let sum = points.iter().fold(0.0, |sum, point| add(sum, *point));
        let sum_of_squares = points.iter().fold(0.0, |sum, point| add(point * point, sum));
        let points = merge_sorted(points);
        (points.len() >= FEWEST_POINTS).then(|| DataSet { name: name.to_vec(), points, sum, sum_of_squares })
    }

    /// Reads the file `name`, or standard input for `-`.
    ///
    /// # Errors
    /// Status 1 if the file cannot be opened, 2 if a line contains no number or there are fewer
    /// than three points.
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

    /// Returns the points in ascending order, at least three.
    pub fn points(&self) -> &[f64] {
        &self.points
    }

    /// Returns the smallest point.
    pub fn min(&self) -> f64 {
        self.points[0]
    }

    /// Returns the largest point.
    pub fn max(&self) -> f64 {
        self.points[self.points.len() - 1]
    }

    /// Returns the median, the upper of two middle points.
    pub fn median(&self) -> f64 {
        self.points[self.points.len() / 2]
    }

    /// Returns number, mean and variance.
    pub fn moments(&self) -> Moments {
        let n = self.points.len() as f64;
        let variance = (self.sum_of_squares - self.sum * self.sum / n) / (n - 1.0);
        Moments { n: self.points.len(), mean: self.sum / n, variance }
    }
}

/// Adds two numbers. If both are NaN, returns `a`, as x86's ADDSD does; this determines the sign of
/// a printed `-nan`.
fn add(a: f64, b: f64) -> f64 {
    if a.is_nan() { a } else { a + b }
}

/// Returns the next line as fgets and strlen see it: at most 8191 bytes, cut at a zero byte. A read
/// error ends the file.
fn fgets(stream: &mut dyn BufRead) -> Option<Vec<u8>> {
    let mut line = Vec::new();
    let read = io::Read::take(&mut *stream, LONGEST_LINE as u64).read_until(b'\n', &mut line);
    if read.is_err() || line.is_empty() {
        return None;
    }
    line.truncate(line.iter().position(|byte| *byte == 0).unwrap_or(line.len()));
    Some(line)
}

/// Returns the word in the selected column, split as by strtok; `None` if a comment begins before
/// it or the line is too short.
fn word<'a>(line: &'a [u8], options: &Options) -> Option<&'a [u8]> {
    let blanks = line.iter().rev().take_while(|byte| cscan::is_space(**byte)).count();
    let words = line[..line.len() - blanks].split(|byte| options.delimiters.contains(byte));
    let mut words = words.filter(|word| !word.is_empty()).take_while(|word| word[0] != b'#');
    words.nth(options.column - 1)
}

/// Sorts with merge sort, as glibc's qsort does. If there are NaNs among the points, the order
/// depends on the algorithm.
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
