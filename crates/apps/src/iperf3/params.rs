//! What a client asks for: the JSON it sends after PARAM_EXCHANGE, checked against the limits stock iperf3 has.

use super::STREAMS_MAX;
use crate::streams::{CongestionName, StreamOption};
use serde_json::Value;
use std::fmt;
use std::time::Duration;

/// Bytes of the JSON.
pub(super) const JSON_MAX: usize = 8 * 1024;
/// The usual block.
const BLOCK: usize = 128 * 1024;
const BLOCK_MAX: u64 = 1 << 20;
const TIME_MAX: u64 = 86_400;
const OMIT_MAX: u64 = 600;

/// Why a test cannot be; the number is the one that stock clients have a sentence for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// Too long a test.
    Duration = 5,
    /// Too many streams, or none.
    Streams = 6,
    /// Too long a block.
    Block = 7,
    /// Too much to be left out at the beginning.
    Omit = 12,
    /// Not TCP, or something of it that is not here.
    Unimplemented = 13,
    /// A message that does not belong here.
    Message = 110,
    /// Not parameters.
    Params = 114,
    /// Not results.
    Results = 117,
    /// Nothing was received for long.
    Idle = 144,
    /// The client did not end the test when its time was over.
    Expired = 160,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refused::Duration => "the test would take too long",
            Refused::Streams => "no such number of streams",
            Refused::Block => "no such block length",
            Refused::Omit => "no such time to be omitted",
            Refused::Unimplemented => "only TCP is measured here",
            Refused::Message => "a message that does not belong here",
            Refused::Params => "no parameters came",
            Refused::Results => "no results came",
            Refused::Idle => "nothing moved for too long",
            Refused::Expired => "the client did not end the test in its time",
        })
    }
}

/// A test's parameters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Params {
    /// How long; zero: until `bytes` or `blocks` are through.
    pub time: Duration,
    /// How much at the beginning does not count.
    pub omit: Duration,
    /// Bytes to be sent; 0: time decides.
    pub bytes: u64,
    /// Blocks to be sent; 0: time decides.
    pub blocks: u64,
    /// Streams in each direction.
    pub streams: u32,
    /// We send.
    pub reverse: bool,
    /// Both send.
    pub bidir: bool,
    /// Bytes given to one send call.
    pub block: usize,
    /// Bits a second for each stream; 0: as fast as it goes.
    pub rate: u64,
    /// The client wants our report too.
    pub wants_output: bool,
    /// What the client calls the test.
    pub title: Option<String>,
    /// What the client wants noted.
    pub extra: Option<String>,
    /// Type of service.
    pub tos: u8,
    nodelay: bool,
    mss: u16,
    window: usize,
    congestion: Option<CongestionName>,
}

impl Default for Params {
    /// Nothing asked for: one stream, until the client ends it.
    fn default() -> Params {
        Params {
            time: Duration::ZERO,
            omit: Duration::ZERO,
            bytes: 0,
            blocks: 0,
            streams: 1,
            reverse: false,
            bidir: false,
            block: BLOCK,
            rate: 0,
            wants_output: false,
            title: None,
            extra: None,
            tos: 0,
            nodelay: false,
            mss: 0,
            window: 0,
            congestion: None,
        }
    }
}

impl Params {
    /// From the client's JSON.
    ///
    /// # Errors
    /// Why there can be no such test.
    pub fn parse(json: &[u8]) -> Result<Params, Refused> {
        let json: Value = serde_json::from_slice(json).map_err(|_| Refused::Params)?;
        let json = json.as_object().ok_or(Refused::Params)?;
        let flag = |name: &str| matches!(json.get(name), Some(Value::Bool(true)));
        let number = |name: &str| json.get(name).map_or(Ok(0), |value| whole(value).ok_or(Refused::Params));
        let text = |name: &str| json.get(name).and_then(Value::as_str).map(str::to_owned);
        let is_more_than_tcp = ["udp", "sctp", "mptcp"].into_iter().any(flag) || json.contains_key("authtoken");
        if !flag("tcp") || is_more_than_tcp {
            return Err(Refused::Unimplemented);
        }
        let (time, omit) = (number("time")?, number("omit")?);
        let streams = json.get("parallel").map_or(Some(1), whole).ok_or(Refused::Params)?;
        let block = json.get("len").map_or(Some(BLOCK as u64), whole).ok_or(Refused::Params)?;
        if time > TIME_MAX {
            return Err(Refused::Duration);
        }
        if omit > OMIT_MAX {
            return Err(Refused::Omit);
        }
        if !(1..=u64::from(STREAMS_MAX)).contains(&streams) {
            return Err(Refused::Streams);
        }
        if !(1..=BLOCK_MAX).contains(&block) {
            return Err(Refused::Block);
        }
        let (reverse, bidir) = (flag("reverse"), flag("bidirectional"));
        if reverse && bidir {
            return Err(Refused::Params);
        }
        Ok(Params {
            time: Duration::from_secs(time),
            omit: Duration::from_secs(omit),
            bytes: number("num")?,
            blocks: number("blockcount")?,
            streams: streams as u32,
            reverse,
            bidir,
            block: block as usize,
            rate: number("bandwidth")?,
            wants_output: json.get("get_server_output").and_then(whole).is_some_and(|wants| wants > 0),
            title: text("title"),
            extra: text("extra_data"),
            tos: number("TOS")?.min(255) as u8,
            nodelay: flag("nodelay"),
            mss: number("MSS")?.min(u64::from(u16::MAX)) as u16,
            // Stock iperf3 permits 512 MiB; what a stack makes of it is its own business.
            window: number("window")?.min(512 << 20) as usize,
            congestion: json.get("congestion").and_then(Value::as_str).and_then(CongestionName::new),
        })
    }

    /// Streams in all.
    pub fn streams_in_all(&self) -> usize {
        self.streams as usize * if self.bidir { 2 } else { 1 }
    }

    /// Does the stream that comes as number `at` send from here? Those that receive come first.
    pub fn sends(&self, at: usize) -> bool {
        if self.bidir { at >= self.streams as usize } else { self.reverse }
    }

    /// Bytes after which we stop sending, whatever the client says; stock clients end the test when they have them.
    pub(super) fn bytes_max(&self) -> u64 {
        // What is sent while nothing counts would count against it: then the client alone decides.
        let bytes = match (self.bytes, self.blocks) {
            _ if !self.omit.is_zero() => 0,
            (0, blocks) => blocks.saturating_mul(self.block as u64),
            (bytes, _) => bytes,
        };
        if bytes == 0 { u64::MAX } else { bytes }
    }

    /// What a stream's socket is to be like.
    pub(super) fn options(&self) -> impl Iterator<Item = StreamOption> {
        let options = [
            self.nodelay.then_some(StreamOption::NoDelay(true)),
            (self.mss > 0).then_some(StreamOption::MaxSegment(self.mss)),
            (self.window > 0).then_some(StreamOption::Buffers(self.window)),
            (self.tos > 0).then_some(StreamOption::Tos(self.tos)),
            self.congestion.map(StreamOption::Congestion),
        ];
        options.into_iter().flatten()
    }
}

/// A number that counts something: whole (clients may write it with a point), not negative.
pub(super) fn whole(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| {
        let float = value.as_f64().filter(|float| *float >= 0.0 && *float < 9.0e15 && float.fract() == 0.0)?;
        Some(float as u64)
    })
}
