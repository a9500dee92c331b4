//! Reader of captures in both formats. Input may arrive in pieces: if a read would block in the
//! middle of a record, the bytes read so far are kept.

use super::ng::{self, InterfaceBlock, Stripped};
use super::options::{Numbers, section_option};
use super::{
    Direction, Fault, Format, Interface, MAX_ALL_INTERFACES, MAX_BLOCK, MAX_INTERFACES, PcapError, Record, Section,
};
use std::io::{self, Read};

const CHUNK: usize = 64 * 1024;

/// Reader of a capture, used as `while let Some(record) = reader.read()? { ... }`.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    /// Buffered input. Unread data begins at index `start`, which is at byte `offset` of the file.
    buf: Vec<u8>,
    start: usize,
    offset: u64,
    state: State,
    /// Number of bytes of a block that remain to be skipped, and the length field expected after
    /// them; `None` if no block is being skipped.
    skip: Option<(u64, u32)>,
    last_ns: u64,
    section: Section,
    /// Index of this section's first interface among the interfaces of the whole file.
    first: usize,
    /// Options of the last record.
    options: Vec<u8>,
}

#[derive(Debug)]
enum State {
    /// The file's header has not been read yet.
    Begin,
    Pcap {
        numbers: Numbers,
        nanos: bool,
        linktype: u16,
        /// Number of bytes of FCS at the end of each packet.
        fcs: u32,
        /// Number of bytes in a record's header: 16, or 24 in the modified form.
        header: usize,
    },
    Pcapng {
        numbers: Numbers,
    },
    /// An error has ended reading.
    Failed,
}

/// Result of one step of the parser.
enum Step {
    Record(InterfaceBlock, usize),
    More,
    End,
}

impl<R: Read> Reader<R> {
    /// Creates a reader, without reading anything yet.
    pub fn new(input: R) -> Reader<R> {
        Reader {
            input,
            buf: Vec::new(),
            start: 0,
            offset: 0,
            state: State::Begin,
            skip: None,
            last_ns: 0,
            section: Section::new(Format::Pcap),
            first: 0,
            options: Vec::new(),
        }
    }

    /// Returns the format. Reads the file's header if necessary.
    ///
    /// # Errors
    /// An unknown format or version, or a file that ends within its header.
    pub fn format(&mut self) -> Result<Format, PcapError> {
        if matches!(self.state, State::Begin) {
            self.guard(Self::begin)?;
        }
        Ok(if matches!(self.state, State::Pcapng { .. }) { Format::Pcapng } else { Format::Pcap })
    }

    /// Returns the link type of all packets in a pcap file; `None` for pcapng, where each interface
    /// has its own. Reads the file's header if necessary.
    ///
    /// # Errors
    /// The same errors as [`Reader::format`].
    pub fn linktype(&mut self) -> Result<Option<u16>, PcapError> {
        self.format()?;
        Ok(if let State::Pcap { linktype, .. } = self.state { Some(linktype) } else { None })
    }

    /// Returns the next record; `None` at the end of the file, and after an error.
    ///
    /// # Errors
    /// The fault and its position. If [`PcapError::is_would_block`] is true, the caller may call
    /// again later. All other errors are final.
    pub fn read(&mut self) -> Result<Option<Record<'_>>, PcapError> {
        let (found, len) = loop {
            match self.guard(Self::step)? {
                Step::More => {}
                Step::End => return Ok(None),
                Step::Record(found, len) => break (found, len),
            }
        };
        let from = self.start;
        self.consume(len);
        self.last_ns = found.record.ts_ns;
        let data = self.buf.get(from + found.data.start..from + found.data.end).unwrap_or_default();
        Ok(Some(Record { data, options: &self.options, ..found.record }))
    }

    /// Returns the description of the interfaces and of the capturing machine, as far as the file
    /// has been read.
    pub fn section(&self) -> &Section {
        &self.section
    }

    /// Returns the number of bytes currently allocated. It is bounded, whatever lengths the file
    /// claims.
    pub fn allocated(&self) -> usize {
        self.buf.capacity()
    }

    /// Runs one step of the parser, and adds the position to an error. After an error other than
    /// "would block", nothing more is read.
    fn guard<T>(&mut self, step: fn(&mut Self) -> Result<T, Fault>) -> Result<T, PcapError> {
        step(self).map_err(|fault| {
            let error = PcapError { at: self.offset, fault };
            if !error.is_would_block() {
                (self.state, self.skip) = (State::Failed, None);
            }
            error
        })
    }

    fn step(&mut self) -> Result<Step, Fault> {
        if self.skip.is_some() {
            return self.step_over();
        }
        match self.state {
            State::Begin => self.begin().map(|()| Step::More),
            State::Pcap { .. } => self.record(),
            State::Pcapng { .. } => self.block(),
            State::Failed => Ok(Step::End),
        }
    }

    /// Reads the file's header. The first four bytes identify the format.
    fn begin(&mut self) -> Result<(), Fault> {
        let magic = *self.need(4)?.first_chunk().ok_or(Fault::UnknownMagic([0; 4]))?;
        let (big_endian, nanos, record) = match u32::from_be_bytes(magic) {
            ng::SECTION => return self.begin_section(),
            0xa1b2_c3d4 => (true, false, 16),
            0xd4c3_b2a1 => (false, false, 16),
            0xa1b2_3c4d => (true, true, 16),
            0x4d3c_b2a1 => (false, true, 16),
            // The modified form is written by patched kernels and AVM's routers: interface index,
            // protocol and packet type follow the lengths.
            0xa1b2_cd34 => (true, false, 24),
            0x34cd_b2a1 => (false, false, 24),
            _ => return Err(Fault::UnknownMagic(magic)),
        };
        let numbers = Numbers { big_endian };
        let header = self.need(24)?;
        let half = |at| numbers.u16(header, at).unwrap_or_default();
        let (major, minor) = (half(4), half(6));
        if major != 2 {
            return Err(Fault::Version { major, minor });
        }
        let word = |at| numbers.u32(header, at).unwrap_or_default();
        // Link type. If bit 26 is set, the upper half contains the FCS length in units of 2 bytes
        // (draft-ietf-opsawg-pcap 4).
        let (snaplen, link) = (word(16), word(20));
        let (linktype, fcs) = (link as u16, if link & 1 << 26 != 0 { 2 * (link >> 28) } else { 0 });
        self.consume(24);
        let resolution = if nanos { 9 } else { 6 };
        let interface = Interface { linktype, snaplen, resolution, offset_s: 0, fcs_len: fcs, options: Vec::new() };
        self.section.interfaces.push(interface);
        self.state = State::Pcap { numbers, nanos, linktype, fcs, header: record };
        Ok(())
    }

    /// Reads one record of a pcap file.
    fn record(&mut self) -> Result<Step, Fault> {
        let State::Pcap { numbers, nanos, linktype, fcs, header: front } = self.state else { return Ok(Step::End) };
        if self.at_end()? {
            return Ok(Step::End);
        }
        let header = self.need(front)?;
        let word = |at| numbers.u32(header, at).unwrap_or_default();
        let (seconds, fraction, captured, orig_len) = (word(0), word(4), word(8), word(12));
        let kind = header.get(22).copied();
        let len = usize::try_from(captured).unwrap_or(usize::MAX);
        if len > MAX_BLOCK {
            return Err(Fault::Length { len: captured.into(), what: "too long for a record" });
        }
        self.need(front + len)?;
        let fraction = u64::from(fraction) * if nanos { 1 } else { 1_000 };
        let ts_ns = u64::from(seconds) * 1_000_000_000 + fraction;
        // The packet type in the modified form is one of Linux's PACKET_HOST to PACKET_OUTGOING.
        let direction = match kind {
            Some(0..=3) if front > 16 => Direction::Inbound,
            Some(4) if front > 16 => Direction::Outbound,
            _ => Direction::Unknown,
        };
        let stripped = Stripped::of(linktype, fcs, captured, orig_len);
        let orig_len = stripped.orig_len;
        let record = Record { ts_ns, orig_len, linktype, direction, ..Record::default() };
        Ok(Step::Record(InterfaceBlock { record, data: front..front + len - stripped.captured }, front + len))
    }

    /// Reads one block of a pcapng file.
    fn block(&mut self) -> Result<Step, Fault> {
        if self.at_end()? {
            return Ok(Step::End);
        }
        let State::Pcapng { numbers, .. } = self.state else { return Ok(Step::End) };
        let header = self.need(8)?;
        let (ty, len) = (numbers.u32(header, 0).unwrap_or_default(), numbers.u32(header, 4).unwrap_or_default());
        match ty {
            ng::SECTION => self.begin_section().map(|()| Step::More),
            ng::INTERFACE => self.interface(len).map(|()| Step::More),
            ng::PACKET | ng::SIMPLE_PACKET | ng::OLD_PACKET => {
                let size = self.whole(numbers, len)?.len();
                let body = self.buf.get(self.start + 8..self.start + size - 4).unwrap_or_default();
                let known = self.section.interfaces.get(self.first..).unwrap_or_default();
                self.options.clear();
                let mut found = ng::packet(numbers, ty, body, known, self.last_ns, &mut self.options)?;
                found.record.interface += self.first as u32;
                found.data = found.data.start + 8..found.data.end + 8;
                Ok(Step::Record(found, size))
            }
            _ => {
                check_len(len)?;
                self.consume(8);
                self.skip = Some((u64::from(len) - 12, len));
                Ok(Step::More)
            }
        }
    }

    /// Starts a section. Each section has its own byte order and its own interfaces.
    fn begin_section(&mut self) -> Result<(), Fault> {
        let header = self.need(12)?;
        let magic = Numbers { big_endian: false }.u32(header, 8).unwrap_or_default();
        let numbers = match magic {
            ng::BYTE_ORDER => Numbers { big_endian: false },
            _ if magic.swap_bytes() == ng::BYTE_ORDER => Numbers { big_endian: true },
            _ => return Err(Fault::ByteOrder(magic)),
        };
        let len = numbers.u32(header, 4).unwrap_or_default();
        if len < 28 {
            return Err(Fault::Length { len: len.into(), what: "too short for a section header" });
        }
        let whole = self.whole(numbers, len)?;
        let (major, minor) = (numbers.u16(whole, 12).unwrap_or_default(), numbers.u16(whole, 14).unwrap_or_default());
        if major != 1 {
            return Err(Fault::Version { major, minor });
        }
        let used = whole.len();
        let mut options = Vec::new();
        numbers.copy_options(whole.get(24..used - 4).unwrap_or_default(), section_option, &mut options);
        if matches!(self.state, State::Begin) {
            (self.section.format, self.section.options) = (Format::Pcapng, options);
        }
        self.consume(used);
        self.first = self.section.interfaces.len();
        self.state = State::Pcapng { numbers };
        Ok(())
    }

    fn interface(&mut self, len: u32) -> Result<(), Fault> {
        let State::Pcapng { numbers } = self.state else { return Ok(()) };
        let whole = self.whole(numbers, len)?;
        let used = whole.len();
        let parsed = Interface::parse(numbers, whole.get(8..used - 4).unwrap_or_default());
        let parsed = parsed.ok_or(Fault::Length { len: len.into(), what: "too short for an interface description" })?;
        let all = self.section.interfaces.len();
        if all - self.first >= MAX_INTERFACES || all >= MAX_ALL_INTERFACES {
            return Err(Fault::TooManyInterfaces);
        }
        self.section.interfaces.push(parsed);
        self.consume(used);
        Ok(())
    }

    /// Returns a whole block, after checking that its two length fields match.
    fn whole(&mut self, numbers: Numbers, len: u32) -> Result<&[u8], Fault> {
        let size = check_len(len)?;
        if size > MAX_BLOCK {
            return Err(Fault::Length { len: len.into(), what: "too long for a block of this type" });
        }
        let block = self.need(size)?;
        let end = numbers.u32(block, size - 4).unwrap_or_default();
        if end == len { Ok(block) } else { Err(Fault::Trailer { start: len, end }) }
    }

    /// Skips a block of any length that the reader does not need, piece by piece.
    fn step_over(&mut self) -> Result<Step, Fault> {
        let Some((left, len)) = self.skip else { return Ok(Step::More) };
        if left > 0 {
            self.need(1)?;
            let now = left.min(self.have() as u64);
            self.consume(now as usize);
            self.skip = Some((left - now, len));
            return Ok(Step::More);
        }
        let State::Pcapng { numbers, .. } = self.state else { return Ok(Step::End) };
        let end = numbers.u32(self.need(4)?, 0).unwrap_or_default();
        if end != len {
            return Err(Fault::Trailer { start: len, end });
        }
        self.consume(4);
        self.skip = None;
        Ok(Step::More)
    }

    fn have(&self) -> usize {
        self.buf.len() - self.start
    }

    fn consume(&mut self, n: usize) {
        self.start += n;
        self.offset += n as u64;
    }

    fn at_end(&mut self) -> Result<bool, Fault> {
        Ok(!self.fill(1)?)
    }

    /// Returns the next `n` bytes. They stay buffered until they are consumed.
    fn need(&mut self, n: usize) -> Result<&[u8], Fault> {
        if !self.fill(n)? {
            return Err(Fault::Truncated { need: n as u64, have: self.have() as u64 });
        }
        Ok(self.buf.get(self.start..self.start + n).unwrap_or_default())
    }

    /// Reads until `n` bytes are buffered. Returns `false` if the input ends before that. The
    /// buffer grows with the data received, not with the lengths that the file claims.
    fn fill(&mut self, n: usize) -> Result<bool, Fault> {
        while self.have() < n {
            self.buf.drain(..self.start);
            self.start = 0;
            let old = self.buf.len();
            self.buf.resize(old + CHUNK, 0);
            let answer = self.input.read(self.buf.get_mut(old..).unwrap_or_default());
            let got = *answer.as_ref().unwrap_or(&0);
            self.buf.truncate(old + got.min(CHUNK));
            match answer {
                Ok(0) => return Ok(false),
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(Fault::Io(error)),
                _ => {}
            }
        }
        Ok(true)
    }
}

/// Checks the length of a block, which must be at least 12 and a multiple of 4.
fn check_len(len: u32) -> Result<usize, Fault> {
    if len < 12 || !len.is_multiple_of(4) {
        return Err(Fault::Length { len: len.into(), what: "must be a multiple of 4, and at least 12" });
    }
    Ok(usize::try_from(len).unwrap_or(usize::MAX))
}
