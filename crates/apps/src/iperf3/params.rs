//! Parameters of a test: the JSON that a client sends after PARAM_EXCHANGE, checked against the
//! limits of stock iperf3.

use super::STREAMS_MAX;
use super::pace::Rate;
use super::proto::Counters;
use crate::streams::{CongestionName, StreamOption};
use serde_json::{Map, Value, json};
use std::fmt;
use std::time::Duration;

/// Maximum length in bytes of the JSON text that contains a client's parameters.
pub(super) const JSON_MAX: usize = 8 * 1024;
/// Default number of bytes per send call over TCP.
const BLOCK: usize = 128 * 1024;
const BLOCK_MAX: u64 = 1 << 20;
/// Default length of a UDP datagram's payload in bytes, used if the client gives no length, or if
/// the maximum segment size of its control connection is unknown.
pub const DATAGRAM: usize = 1460;
/// Permitted lengths of a UDP datagram's payload in bytes: from the longest header of iperf3 to the
/// maximum over IPv4.
const DATAGRAMS: std::ops::RangeInclusive<u64> = 16..=65_507;
/// Default rate of a UDP stream in bits per second.
pub const UDP_RATE: u64 = 1 << 20;
const BURST_MAX: u64 = 1000;
const TIME_MAX: u64 = 86_400;
const OMIT_MAX: u64 = 600;

/// Reason for refusing or ending a test. The value is the error number for which stock clients have
/// a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// The test is too long.
    Duration = 5,
    /// The number of streams is 0 or too large.
    Streams = 6,
    /// The block is too long.
    Block = 7,
    /// The time that is omitted at the beginning of the test (--omit) is too long.
    Omit = 12,
    /// The protocol is neither TCP nor UDP, or a requested feature is not supported.
    Unimplemented = 13,
    /// A message is not expected in the current state of the test.
    Message = 110,
    /// The parameters are invalid.
    Params = 114,
    /// The results are invalid.
    Results = 117,
    /// No data was received within the time limit.
    Idle = 144,
    /// The client did not end the test in time.
    Expired = 160,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refused::Duration => "test duration too long",
            Refused::Streams => "invalid number of parallel streams",
            Refused::Block => "invalid block size",
            Refused::Omit => "bogus value for --omit",
            Refused::Unimplemented => "an option you are trying to set is not implemented yet",
            Refused::Message => "received an unknown control message",
            Refused::Params => "unable to receive parameters from client",
            Refused::Results => "unable to receive results",
            Refused::Idle => "idle timeout for receiving data",
            Refused::Expired => "server test duration expired",
        })
    }
}

impl Refused {
    /// Returns the message for an error number sent by the server. Only errors that the user of the
    /// client can correct have a text; other errors are formatted as their number.
    pub(super) fn sentence_of(number: u32) -> String {
        let known = [
            Refused::Duration,
            Refused::Streams,
            Refused::Block,
            Refused::Omit,
            Refused::Unimplemented,
            Refused::Message,
            Refused::Params,
            Refused::Results,
            Refused::Idle,
            Refused::Expired,
        ];
        let known = known.into_iter().find(|known| *known as u32 == number);
        known.map_or_else(|| format!("error {number}"), |known| known.to_string())
    }
}

/// Transport protocol of a test.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Protocol {
    #[default]
    Tcp,
    Udp,
}

/// The parameters of a test.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Params {
    pub protocol: Protocol,
    /// Duration of the test; zero if the test ends after `bytes` or `blocks`.
    pub time: Duration,
    /// Time at the beginning of the test in which nothing is counted (--omit).
    pub omit: Duration,
    /// Number of bytes to send; 0 if the test is not limited by bytes.
    pub bytes: u64,
    /// Number of blocks to send; 0 if the test is not limited by blocks.
    pub blocks: u64,
    /// Number of parallel streams per direction.
    pub streams: u32,
    /// Set if the server sends and the client receives (-R).
    pub reverse: bool,
    /// Set if both sides send (--bidir).
    pub bidir: bool,
    /// Number of bytes per send call: a block over TCP, a datagram over UDP.
    pub block: usize,
    /// Number of blocks sent at once if the stream has a target rate.
    pub burst: u64,
    /// Width of the sequence number in each datagram.
    pub counters: Counters,
    /// Target rate of each stream in bits per second; 0 means unlimited.
    pub rate: u64,
    /// Set if the client requests the server's report (--get-server-output).
    pub wants_output: bool,
    /// Title that the client gave to the test; it begins each line of the client's text report.
    pub title: Option<String>,
    /// Extra data of the client, copied into the JSON report.
    pub extra: Option<String>,
    /// Type of service byte of the IPv4 header, or traffic class of the IPv6 header.
    pub tos: u8,
    /// Set if both sides set TCP_NODELAY on the streams.
    pub nodelay: bool,
    /// Maximum segment size in bytes; 0: determined by the path.
    pub mss: u16,
    /// Size of the socket buffers in bytes; 0: default of the stack.
    pub window: usize,
    pub congestion: Option<CongestionName>,
    /// Set if the payload repeats the digits 0 to 9; otherwise it is incompressible.
    pub repeating_payload: bool,
}

impl Default for Params {
    /// Returns parameters for one TCP stream without limits, which runs until the client ends the
    /// test.
    fn default() -> Params {
        Params {
            protocol: Protocol::Tcp,
            time: Duration::ZERO,
            omit: Duration::ZERO,
            bytes: 0,
            blocks: 0,
            streams: 1,
            reverse: false,
            bidir: false,
            block: BLOCK,
            burst: 1,
            counters: Counters::Narrow,
            rate: 0,
            wants_output: false,
            title: None,
            extra: None,
            tos: 0,
            nodelay: false,
            mss: 0,
            window: 0,
            congestion: None,
            repeating_payload: false,
        }
    }
}

impl Params {
    /// Parses the JSON of a client.
    ///
    /// # Errors
    /// The reason for refusing the test.
    pub fn parse(json: &[u8]) -> Result<Params, Refused> {
        let json: Value = serde_json::from_slice(json).map_err(|_| Refused::Params)?;
        let json = json.as_object().ok_or(Refused::Params)?;
        let flag = |name: &str| matches!(json.get(name), Some(Value::Bool(true)));
        let number = |name: &str| json.get(name).map_or(Ok(0), |value| whole(value).ok_or(Refused::Params));
        let text = |name: &str| json.get(name).and_then(Value::as_str).map(str::to_owned);
        let is_more = ["sctp", "mptcp"].into_iter().any(flag) || json.contains_key("authtoken");
        let protocol = match (flag("tcp"), flag("udp")) {
            (true, false) if !is_more => Protocol::Tcp,
            (false, true) if !is_more => Protocol::Udp,
            _ => return Err(Refused::Unimplemented),
        };
        let (time, omit) = (number("time")?, number("omit")?);
        let streams = json.get("parallel").map_or(Some(1), whole).ok_or(Refused::Params)?;
        let usual = if protocol == Protocol::Udp { DATAGRAM } else { BLOCK };
        let block = json.get("len").map_or(Some(usual as u64), whole).ok_or(Refused::Params)?;
        let (reverse, bidir) = (flag("reverse"), flag("bidirectional"));
        let is_wide = json.get("udp_counters_64bit").and_then(whole).is_some_and(|wide| wide > 0);
        let params = Params {
            protocol,
            time: Duration::from_secs(time),
            omit: Duration::from_secs(omit),
            bytes: number("num")?,
            blocks: number("blockcount")?,
            streams: u32::try_from(streams).unwrap_or(u32::MAX),
            reverse,
            bidir,
            block: usize::try_from(block).unwrap_or(usize::MAX),
            burst: number("burst")?.clamp(1, BURST_MAX),
            counters: if is_wide { Counters::Wide } else { Counters::Narrow },
            rate: number("bandwidth")?,
            wants_output: json.get("get_server_output").and_then(whole).is_some_and(|wants| wants > 0),
            title: text("title"),
            extra: text("extra_data"),
            tos: number("TOS")?.min(255) as u8,
            nodelay: flag("nodelay"),
            mss: number("MSS")?.min(u64::from(u16::MAX)) as u16,
            // Stock iperf3 permits 512 MiB; the stack may apply a lower limit.
            window: number("window")?.min(512 << 20) as usize,
            congestion: json.get("congestion").and_then(Value::as_str).and_then(CongestionName::new),
            // As in stock servers, only the presence of the key matters, not its value.
            repeating_payload: json.contains_key("repeating_payload"),
        };
        if block == 0 {
            return Err(Refused::Block);
        }
        params.check().map(|()| params)
    }

    /// Checks the parameters against the limits. A block length of 0 is permitted, since the client
    /// determines the length later.
    ///
    /// # Errors
    /// The reason for refusing the test.
    pub fn check(&self) -> Result<(), Refused> {
        let blocks = if self.is_udp() { DATAGRAMS } else { 1..=BLOCK_MAX };
        if self.time.as_secs() > TIME_MAX {
            return Err(Refused::Duration);
        }
        if self.omit.as_secs() > OMIT_MAX {
            return Err(Refused::Omit);
        }
        if !(1..=STREAMS_MAX).contains(&self.streams) {
            return Err(Refused::Streams);
        }
        if self.block != 0 && !blocks.contains(&(self.block as u64)) {
            return Err(Refused::Block);
        }
        if self.reverse && self.bidir { Err(Refused::Params) } else { Ok(()) }
    }

    /// Formats the parameters as the JSON that a client sends.
    pub fn to_json(&self) -> Value {
        let mut json = Map::new();
        let mut put = |name: &str, value: Value| drop(json.insert(name.to_owned(), value));
        put(if self.is_udp() { "udp" } else { "tcp" }, json!(true));
        put("omit", json!(self.omit.as_secs()));
        put("time", json!(self.time.as_secs()));
        put("num", json!(self.bytes));
        put("blockcount", json!(self.blocks));
        put("parallel", json!(self.streams));
        put("len", json!(self.block));
        put("pacing_timer", json!(1000)); // stock servers expect it; our server ignores it
        put("client_version", json!("3.12")); // version of the message format
        let flags = [("reverse", self.reverse), ("bidirectional", self.bidir), ("nodelay", self.nodelay)];
        flags.into_iter().filter(|(_, is_set)| *is_set).for_each(|(name, _)| put(name, json!(true)));
        let numbers = [
            ("bandwidth", self.rate),
            ("burst", if self.burst > 1 { self.burst } else { 0 }),
            ("MSS", self.mss.into()),
            ("window", self.window as u64),
            ("TOS", self.tos.into()),
            ("get_server_output", self.wants_output.into()),
            ("udp_counters_64bit", (self.counters == Counters::Wide).into()),
            ("repeating_payload", self.repeating_payload.into()),
        ];
        numbers.into_iter().filter(|(_, number)| *number > 0).for_each(|(name, number)| put(name, json!(number)));
        let congestion = self.congestion.as_ref().map(CongestionName::as_str);
        let texts =
            [("title", self.title.as_deref()), ("extra_data", self.extra.as_deref()), ("congestion", congestion)];
        texts.into_iter().for_each(|(name, text)| {
            if let Some(text) = text {
                put(name, json!(text));
            }
        });
        Value::Object(json)
    }

    /// Returns whether the test uses UDP.
    pub fn is_udp(&self) -> bool {
        self.protocol == Protocol::Udp
    }

    /// Returns the target rate of a stream and the number of bytes that it sends at a time.
    pub(super) fn pace(&self) -> Rate {
        Rate { bits: self.rate, group: self.burst.saturating_mul(self.block as u64) }
    }

    /// Returns the number of streams of both directions together.
    pub fn streams_in_all(&self) -> usize {
        self.streams as usize * if self.bidir { 2 } else { 1 }
    }

    /// Returns whether the server sends on the stream with index `at`. In a bidirectional test, the
    /// streams on which the server receives come first.
    pub fn sends(&self, at: usize) -> bool {
        if self.bidir { at >= self.streams as usize } else { self.reverse }
    }

    /// Returns the number of bytes per direction after which the test ends; `u64::MAX` if only time
    /// limits it.
    pub(super) fn goal(&self) -> u64 {
        let bytes = match (self.bytes, self.blocks) {
            (0, blocks) => blocks.saturating_mul(self.block as u64),
            (bytes, _) => bytes,
        };
        if bytes == 0 { u64::MAX } else { bytes }
    }

    /// Returns the socket options for the streams.
    pub(super) fn options(&self) -> [Option<StreamOption>; 5] {
        [
            self.nodelay.then_some(StreamOption::NoDelay(true)),
            (self.mss > 0).then_some(StreamOption::MaxSegment(self.mss)),
            (self.window > 0).then_some(StreamOption::Buffers(self.window)),
            (self.tos > 0).then_some(StreamOption::Tos(self.tos)),
            self.congestion.map(StreamOption::Congestion),
        ]
    }
}

/// Parses a non-negative integer, which some clients write as a floating-point number.
pub(super) fn whole(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| {
        let float = value.as_f64().filter(|float| *float >= 0.0 && *float < 9.0e15 && float.fract() == 0.0)?;
        Some(float as u64)
    })
}
