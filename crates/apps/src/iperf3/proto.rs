//! Formats of iperf3's messages: states and JSON texts on the control connection, and headers of
//! datagrams.
//!
//! ```text
//!  control    one signed byte per state; or a length (4 bytes, big-endian) and that much JSON
//!  datagram   seconds, microseconds (4 bytes each), count (4 or 8 bytes), filler; big-endian
//!  connect    a 4-byte datagram from the client and a 4-byte reply: numbers in x86 byte order
//! ```
//!
//! Source: traffic between two stock iperf3 3.12 programs, recorded with strace.

use linerate::stack::Instant;

/// Length of a cookie in bytes, including the NUL at its end.
pub const COOKIE: usize = 37;
pub(super) const TEST_START: u8 = 1;
pub(super) const TEST_RUNNING: u8 = 2;
pub(super) const TEST_END: u8 = 4;
pub(super) const PARAM_EXCHANGE: u8 = 9;
pub(super) const CREATE_STREAMS: u8 = 10;
pub(super) const SERVER_TERMINATE: u8 = 11;
pub(super) const CLIENT_TERMINATE: u8 = 12;
pub(super) const EXCHANGE_RESULTS: u8 = 13;
pub(super) const DISPLAY_RESULTS: u8 = 14;
pub(super) const IPERF_DONE: u8 = 16;
pub(super) const ACCESS_DENIED: u8 = -1i8 as u8;
pub(super) const SERVER_ERROR: u8 = -2i8 as u8;

/// Contents of the first datagram that a client sends on a UDP stream: in iperf3 3.10 and later,
/// and in earlier versions.
pub(super) const HELLOS: [[u8; 4]; 2] = [*b"9876", 123_456_789u32.to_le_bytes()];
/// Replies to the datagrams of [`HELLOS`], in the same order.
pub(super) const HELLO_ANSWERS: [[u8; 4]; 2] = [*b"6789", 987_654_321u32.to_le_bytes()];

/// Prefix of a cookie that requests an echo connection for measuring latency during a test; the
/// rest equals the end of the test's cookie.
pub(super) const PROBE: &[u8; 8] = b"latency.";
/// Length of an echo request and of its reply in bytes.
pub(super) const PROBE_BYTES: usize = 8;

/// Buffers of a control connection: received bytes to be parsed, and bytes to send.
#[derive(Debug, Default)]
pub(super) struct Talk {
    input: Vec<u8>,
    out: Vec<u8>,
    out_at: usize,
}

/// Error: the announced length of a JSON text is 0 or exceeds the maximum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct BadLength;

impl Talk {
    pub(super) fn say(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    pub(super) fn say_json(&mut self, json: &str) {
        self.say(&(json.len() as u32).to_be_bytes());
        self.say(json.as_bytes());
    }

    pub(super) fn output(&self) -> &[u8] {
        self.out.get(self.out_at..).unwrap_or_default()
    }

    pub(super) fn sent(&mut self, n: usize) {
        self.out_at = self.out_at.saturating_add(n);
        if self.out_at >= self.out.len() {
            self.out.clear();
            self.out_at = 0;
        }
    }

    pub(super) fn input(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
    }

    /// Returns the number of received bytes that have not been parsed yet.
    pub(super) fn received(&self) -> usize {
        self.input.len()
    }

    /// Removes the next state byte from the received bytes and returns it.
    pub(super) fn take_state(&mut self) -> Option<u8> {
        if self.input.is_empty() { None } else { Some(self.input.remove(0)) }
    }

    /// Puts back the state byte that was removed last, so that it is parsed again when more bytes
    /// have arrived.
    pub(super) fn put_back(&mut self, state: u8) {
        self.input.insert(0, state);
    }

    pub(super) fn starts_with(&self, state: u8) -> bool {
        self.input.first() == Some(&state)
    }

    /// Removes the next four received bytes and returns them as a big-endian number.
    pub(super) fn take_word(&mut self) -> Option<u32> {
        let word = self.input.first_chunk::<4>().map(|word| u32::from_be_bytes(*word))?;
        self.input.drain(..4);
        Some(word)
    }

    /// Removes a length and that many bytes of JSON from the received bytes, once all of them have
    /// arrived; returns the JSON. A length above `most` is an error.
    pub(super) fn take_json(&mut self, most: usize) -> Result<Option<Vec<u8>>, BadLength> {
        let Some(len) = self.input.first_chunk::<4>() else { return Ok(None) };
        let len = u32::from_be_bytes(*len) as usize;
        if len == 0 || len > most {
            return Err(BadLength);
        }
        if self.input.len() < 4 + len {
            return Ok(None);
        }
        let rest = self.input.split_off(4 + len);
        let json = std::mem::replace(&mut self.input, rest);
        Ok(Some(json.get(4..).unwrap_or_default().to_vec()))
    }
}

/// Width of the sequence number in the datagram header.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Counters {
    /// 32 bits, the default.
    #[default]
    Narrow,
    /// 64 bits (`--udp-counters-64bit`).
    Wide,
}

impl Counters {
    /// Returns the length of a datagram header in bytes.
    pub fn header(self) -> usize {
        if self == Counters::Wide { 16 } else { 12 }
    }
}

/// The header of a UDP datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamp {
    /// Time of sending by the sender's clock, in microseconds since an arbitrary origin.
    pub sent_us: u64,
    /// Sequence number of the datagram, starting at 1.
    pub count: u64,
}

impl Stamp {
    /// Creates the header of a datagram sent at `now`.
    pub(super) fn new(now: Instant, count: u64) -> Stamp {
        Stamp { sent_us: now.nanos() / 1_000, count }
    }

    /// Parses the header at the start of a datagram; `None` if the datagram is too short.
    pub fn parse(bytes: &[u8], counters: Counters) -> Option<Stamp> {
        let word = |at: usize| {
            let word = bytes.get(at..at + 4)?.first_chunk::<4>()?;
            Some(u64::from(u32::from_be_bytes(*word)))
        };
        let count = match counters {
            Counters::Narrow => word(8)?,
            Counters::Wide => word(8)? << 32 | word(12)?,
        };
        Some(Stamp { sent_us: word(0)? * 1_000_000 + word(4)?, count })
    }

    /// Writes the header to the start of `into`, if there is room.
    pub fn emit(&self, into: &mut [u8], counters: Counters) {
        let (seconds, rest) = ((self.sent_us / 1_000_000) as u32, (self.sent_us % 1_000_000) as u32);
        let mut header = [0; 16];
        let (time, count) = header.split_at_mut(8);
        time.copy_from_slice(&(u64::from(seconds) << 32 | u64::from(rest)).to_be_bytes());
        match counters {
            Counters::Narrow => count.copy_from_slice(&(self.count << 32).to_be_bytes()),
            Counters::Wide => count.copy_from_slice(&self.count.to_be_bytes()),
        }
        let n = counters.header();
        if let (Some(into), Some(header)) = (into.get_mut(..n), header.get(..n)) {
            into.copy_from_slice(header);
        }
    }
}
