//! The key-value workload: GET and SET requests, sent to [`crate::kv`] or to any Redis server. Some
//! keys are requested more often than others.
//!
//! By default 90 % of the requests are GET and 10 % are SET, which is between YCSB's workloads A
//! (50 to 50) and B (95 to 5).

use super::Mix;
use super::zipf::Zipf;
use crate::kv::{Bounds, Config, Kv, PORT};
use crate::resp::reply::{Says, first};
use linerate::sim::Random;
use std::io::Write;

/// Maximum number of keys in the data set.
pub const KEYS_MAX: u32 = 10_000_000;
/// Maximum length of a value in bytes.
pub const VALUE_MAX: u32 = 8192;
/// Number of keys that one request sets while the service is filled with data.
const FILLED: u64 = 100;
/// Length of a key in bytes.
const NAME: usize = 16;

const GET: usize = 0;
const SET: usize = 1;

/// Parameters of the workload.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Proportions {
    pub keys: u64,
    /// Length of each value in bytes.
    pub value: usize,
    /// Percentage of GET requests; the others are SET.
    pub gets: u32,
    /// Exponent of the Zipf distribution of key popularity: from 0 (uniform) to below 1.
    pub skew: f64,
}

impl Default for Proportions {
    fn default() -> Proportions {
        Proportions { keys: 100_000, value: 100, gets: 90, skew: 0.99 }
    }
}

#[derive(Debug)]
pub struct Kvload {
    proportions: Proportions,
    zipf: Zipf,
    draw: Random,
    text: Vec<u8>,
    filled: u64,
}

impl Kvload {
    /// Creates a workload with these parameters.
    pub fn new(proportions: Proportions) -> Kvload {
        let (zipf, draw) = (Zipf::new(proportions.keys, proportions.skew), Random::new(1));
        Kvload { proportions, zipf, draw, text: vec![b'v'; proportions.value], filled: 0 }
    }
}

/// Returns limits for the largest data set that the command line permits. A high limit alone uses
/// no memory, and only this workload sends requests.
pub(super) fn bounds() -> Bounds {
    Bounds::for_texts(KEYS_MAX as usize, NAME, VALUE_MAX as usize)
}

/// Appends the key with this number, of [`NAME`] bytes, as a RESP bulk string.
fn key(out: &mut Vec<u8>, number: u64) {
    // Writing to memory cannot fail.
    let _ = write!(out, "$16\r\nkey:{number:012}\r\n");
}

fn value(out: &mut Vec<u8>, text: &[u8]) {
    let _ = write!(out, "${}\r\n", text.len());
    out.extend_from_slice(text);
    out.extend_from_slice(b"\r\n");
}

impl Mix for Kvload {
    type App = Kv;

    const PORT: u16 = PORT;
    const NAME: &'static str = "kvload";
    const KINDS: &'static [&'static str] = &["GET", "SET"];

    fn app() -> Kv {
        Kv::new(Config { bounds: bounds(), ..Config::default() })
    }

    fn fill(&mut self, out: &mut Vec<u8>) -> bool {
        let end = (self.filled + FILLED).min(self.proportions.keys);
        if self.filled >= end {
            return false;
        }
        let _ = write!(out, "*{}\r\n$4\r\nMSET\r\n", 1 + 2 * (end - self.filled));
        for number in self.filled..end {
            key(out, number);
            value(out, &self.text);
        }
        self.filled = end;
        true
    }

    fn ask(&mut self, _client: usize, out: &mut Vec<u8>) -> usize {
        let number = self.zipf.rank(&mut self.draw);
        if self.draw.below(100) < u64::from(self.proportions.gets) {
            out.extend_from_slice(b"*2\r\n$3\r\nGET\r\n");
            key(out, number);
            return GET;
        }
        out.extend_from_slice(b"*3\r\n$3\r\nSET\r\n");
        key(out, number);
        value(out, &self.text);
        SET
    }

    fn on_reply(&mut self, _client: usize, kind: Option<usize>, bytes: &[u8]) -> anyhow::Result<Option<usize>> {
        // No request of this workload has an array as its reply, so an array is rejected before it
        // is complete.
        anyhow::ensure!(bytes.first() != Some(&b'*'), "unexpected type or length of the reply");
        let Some((says, len)) = first(bytes, self.proportions.value)? else { return Ok(None) };
        match (kind, says) {
            (Some(GET), Says::Bulk(text)) if text.len() == self.text.len() => Ok(Some(len)),
            (Some(SET) | None, Says::Line(b"OK")) => Ok(Some(len)),
            (_, Says::Error(why)) => anyhow::bail!("server error: {}", why.escape_ascii()),
            _ => anyhow::bail!("unexpected type or length of the reply"),
        }
    }

    fn describe(&self) -> String {
        let Proportions { keys, value, gets, skew } = self.proportions;
        format!("{gets} % GET, {} % SET, {keys} keys (Zipf {skew}), values of {value} bytes", 100 - gets)
    }
}
