//! Segments as this crate processes them: sequence numbers, flags, options, and the length of the
//! data, but not the data itself.
//!
//! A received [`Segment`] is parsed from a header validated by `wire`, and the host has verified
//! its checksum. A segment to send is an [`Out`]: the header fields, and the position and length of
//! its data in the send queue. This module makes no protocol decisions.

use crate::SeqNum;
use wire::tcp::{Flags, Header, MAX_OPTIONS_LEN, Opt, OptionWriter, Options};

/// ECN field of an IP header (RFC 3168 5).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Ecn {
    /// 00: not ECN-capable.
    #[default]
    NotEct,
    /// 01: ECT(1).
    Ect1,
    /// 10: ECT(0), which we send.
    Ect0,
    /// 11: congestion experienced.
    Ce,
}

impl Ecn {
    /// Parses the low two bits of an IPv4 TOS or IPv6 traffic class.
    pub const fn from_bits(tos: u8) -> Ecn {
        match tos & 3 {
            0 => Ecn::NotEct,
            1 => Ecn::Ect1,
            2 => Ecn::Ect0,
            _ => Ecn::Ce,
        }
    }

    /// Returns the low two bits of an IPv4 TOS or IPv6 traffic class.
    pub const fn bits(self) -> u8 {
        match self {
            Ecn::NotEct => 0,
            Ecn::Ect1 => 1,
            Ecn::Ect0 => 2,
            Ecn::Ce => 3,
        }
    }
}

/// The TCP timestamps option (RFC 7323 3.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Timestamps {
    /// Timestamp value (TSval).
    pub val: u32,
    /// Timestamp echo reply (TSecr).
    pub ecr: u32,
}

/// A SACK block: the range of sequence numbers `left..right`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Block {
    /// First sequence number of the block.
    pub left: SeqNum,
    /// Sequence number after the last of the block.
    pub right: SeqNum,
}

/// Blocks of a SACK option, in the order sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Blocks {
    blocks: [Block; 4],
    len: u8,
}

impl Blocks {
    /// Creates a list of the first four of `blocks`, the maximum number in a header.
    pub fn new(blocks: impl IntoIterator<Item = Block>) -> Blocks {
        let mut out = Blocks::default();
        for (slot, block) in out.blocks.iter_mut().zip(blocks) {
            *slot = block;
            out.len += 1;
        }
        out
    }

    /// Returns the blocks in the order sent.
    #[inline]
    pub fn as_slice(&self) -> &[Block] {
        self.blocks.get(..usize::from(self.len)).unwrap_or_default()
    }

    /// Returns whether there are no blocks.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// Options of an arriving segment that this implementation uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SegmentOptions {
    /// Maximum segment size as received; may be 0.
    pub mss: Option<u16>,
    /// Window scale as received; may exceed 14.
    pub window_scale: Option<u8>,
    /// True if the SACK-permitted option is present.
    pub sack_permitted: bool,
    /// Timestamps option; `None` if absent.
    pub timestamps: Option<Timestamps>,
    /// Selective acknowledgment blocks.
    pub sack: Blocks,
}

/// First bytes of the options of nearly every segment with timestamps: NOP, NOP, kind 8, length 10.
const ALIGNED_TIMESTAMPS: [u8; 4] = [1, 1, 8, 10];

/// Kind and length of the MSS option.
const MSS: u16 = 0x0204;
/// Kind and length of the SACK-permitted option.
const SACK_PERMITTED: [u8; 2] = [4, 2];
/// NOP, and kind and length of the window scale option.
const SCALE: u32 = 0x01_0303;

impl SegmentOptions {
    /// Parses options. Malformed options are ignored. If an option is repeated, the last one is
    /// used.
    #[inline(never)]
    pub fn parse(options: Options<'_>) -> SegmentOptions {
        let mut out = SegmentOptions::default();
        for option in options.flatten() {
            match option {
                Opt::Mss(mss) => out.mss = Some(mss),
                Opt::WindowScale(shift) => out.window_scale = Some(shift),
                Opt::SackPermitted => out.sack_permitted = true,
                Opt::Timestamps { val, ecr } => out.timestamps = Some(Timestamps { val, ecr }),
                Opt::Sack(blocks) => {
                    let blocks = blocks.iter().map(|(left, right)| Block { left: SeqNum(left), right: SeqNum(right) });
                    out.sack = Blocks::new(blocks);
                }
                Opt::End | Opt::Nop | Opt::Unknown { .. } => {}
            }
        }
        out
    }

    /// Parses a SYN with MSS, SACK permitted, timestamps and window scale in Linux's order. Returns
    /// `None` for any other layout.
    #[inline]
    fn of_syn(bytes: &[u8]) -> Option<SegmentOptions> {
        let (words, []) = bytes.as_chunks() else { return None };
        let &[mss, head, val, ecr, scale] = words else { return None };
        let [sack0, sack1, kind, len] = head;
        let [mss, scale] = [mss, scale].map(u32::from_be_bytes);
        let usual = mss >> 16 == MSS.into() && scale >> 8 == SCALE && [1, 1, kind, len] == ALIGNED_TIMESTAMPS;
        (usual && [sack0, sack1] == SACK_PERMITTED).then(|| SegmentOptions {
            mss: Some(mss as u16),
            window_scale: Some(scale as u8),
            sack_permitted: true,
            timestamps: Some(Timestamps { val: u32::from_be_bytes(val), ecr: u32::from_be_bytes(ecr) }),
            ..SegmentOptions::default()
        })
    }

    /// Parses raw option bytes. Common layouts are parsed without a loop, in a third of the time of
    /// [`SegmentOptions::parse`].
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub fn parse_bytes(bytes: &[u8]) -> SegmentOptions {
        match bytes {
            [] => SegmentOptions::default(),
            [n0, n1, kind, len, v0, v1, v2, v3, e0, e1, e2, e3] if [*n0, *n1, *kind, *len] == ALIGNED_TIMESTAMPS => {
                let (val, ecr) = (u32::from_be_bytes([*v0, *v1, *v2, *v3]), u32::from_be_bytes([*e0, *e1, *e2, *e3]));
                SegmentOptions { timestamps: Some(Timestamps { val, ecr }), ..SegmentOptions::default() }
            }
            _ => SegmentOptions::of_syn(bytes).unwrap_or_else(|| SegmentOptions::parse(Options::new(bytes))),
        }
    }
}

/// Arriving segment, parsed and with a verified checksum.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Segment {
    /// Sequence number (SEG.SEQ).
    pub seq: SeqNum,
    /// Acknowledgment number (SEG.ACK), valid with [`Flags::ACK`].
    pub ack: SeqNum,
    /// Control bits.
    pub flags: Flags,
    /// Window field, unscaled (SEG.WND).
    pub window: u16,
    /// Urgent pointer (SEG.UP), valid with [`Flags::URG`].
    pub urgent: u16,
    /// Number of data bytes.
    pub len: u32,
    /// Data bytes per packet if several packets were merged (LRO); 0 for a single packet.
    pub gso_size: u16,
    /// Parsed options.
    pub options: SegmentOptions,
    /// ECN field of the IP header.
    pub ecn: Ecn,
}

impl Segment {
    /// Maximum number of data bytes in one of the packets merged into this segment.
    #[inline]
    pub fn piece(&self) -> u32 {
        match self.gso_size {
            0 => self.len,
            size => self.len.min(size.into()),
        }
    }

    /// Number of packets merged into this segment.
    #[inline]
    pub fn segments(&self) -> u32 {
        match self.gso_size {
            0 => 1,
            size => self.len.div_ceil(size.into()).max(1),
        }
    }

    /// Builds a segment from a header, its options, and the length of its data.
    #[inline]
    pub fn parse(header: &Header, options: Options<'_>, len: u32, ecn: Ecn) -> Segment {
        Segment::with_options(header, SegmentOptions::parse(options), len, ecn)
    }

    /// Builds a segment from a header, its raw options (`header_len - 20` bytes), and the length of
    /// its data.
    #[inline(always)]
    pub fn parse_bytes(header: &Header, options: &[u8], len: u32, ecn: Ecn) -> Segment {
        Segment::with_options(header, SegmentOptions::parse_bytes(options), len, ecn)
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    fn with_options(header: &Header, options: SegmentOptions, len: u32, ecn: Ecn) -> Segment {
        Segment {
            seq: SeqNum(header.seq),
            ack: SeqNum(header.ack),
            flags: header.flags,
            window: header.window,
            urgent: header.urgent,
            len,
            gso_size: 0,
            options,
            ecn,
        }
    }

    /// Length in sequence numbers (SEG.LEN): the data, and one each for SYN and FIN (RFC 9293 3.4).
    #[inline]
    pub fn seq_len(&self) -> u32 {
        let controls = u32::from(self.has(Flags::SYN)) + u32::from(self.has(Flags::FIN));
        self.len.saturating_add(controls)
    }

    /// Sequence number of the first byte of data. A SYN occupies the number before it.
    #[inline]
    pub fn text_seq(&self) -> SeqNum {
        self.seq.plus(u32::from(self.has(Flags::SYN)))
    }

    /// Returns whether all of `flags` are set.
    #[inline]
    pub fn has(&self, flags: Flags) -> bool {
        self.flags.contains(flags)
    }
}

/// Encoded options of a segment to send: at most 40 bytes, in a multiple of 4.
#[derive(Clone, Copy)]
pub struct OutOptions {
    bytes: [u8; MAX_OPTIONS_LEN],
    len: u8,
}

impl OutOptions {
    /// No options.
    pub const NONE: OutOptions = OutOptions { bytes: [0; MAX_OPTIONS_LEN], len: 0 };

    /// Encodes NOP, NOP, timestamps.
    #[inline]
    pub fn timestamps(val: u32, ecr: u32) -> OutOptions {
        let mut out = OutOptions::NONE;
        out.set_timestamps(val, ecr);
        out
    }

    /// Sets the options to NOP, NOP, timestamps, as in nearly every segment, without the cost of an
    /// `OptionWriter`.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub fn set_timestamps(&mut self, val: u32, ecr: u32) {
        let [a, b, c, d] = ALIGNED_TIMESTAMPS;
        let head = u32::from_be_bytes([a, b, c, d]);
        let words = (u128::from(head) << 64 | u128::from(val) << 32 | u128::from(ecr)) << 32;
        if let Some(room) = self.bytes.first_chunk_mut() {
            *room = words.to_be_bytes(); // one store, because it is read with one load
        }
        self.len = 12;
    }

    /// Encodes the options of a SYN in Linux's order, each group aligned to four bytes. If there
    /// are timestamps (`val`, `ecr`), the cost of an `OptionWriter` is avoided.
    pub(crate) fn of_syn(mss: u16, sack: bool, timestamps: Option<(u32, u32)>, shift: Option<u8>) -> OutOptions {
        let Some((val, ecr)) = timestamps else {
            let mut options = OptionWriter::new().mss(mss);
            if sack {
                options = options.nop().nop().sack_permitted();
            }
            if let Some(shift) = shift {
                options = options.nop().window_scale(shift);
            }
            return OutOptions::from(&options);
        };
        let [nop0, nop1, kind, len] = ALIGNED_TIMESTAMPS;
        let head = if sack { [SACK_PERMITTED[0], SACK_PERMITTED[1], kind, len] } else { [nop0, nop1, kind, len] };
        let (head, mss) = (u32::from_be_bytes(head), u32::from(MSS) << 16 | u32::from(mss));
        let mut out = OutOptions::NONE;
        let words = u128::from(mss) << 96 | u128::from(head) << 64 | u128::from(val) << 32 | u128::from(ecr);
        if let Some((first, rest)) = out.bytes.split_first_chunk_mut() {
            *first = words.to_be_bytes();
            if let (Some(shift), Some(last)) = (shift, rest.first_chunk_mut()) {
                *last = (SCALE << 8 | u32::from(shift)).to_be_bytes();
            }
        }
        out.len = if shift.is_some() { 20 } else { 16 };
        out
    }

    /// Removes all options.
    #[inline]
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Returns the encoded options if they are twelve bytes long, as timestamps alone are. The
    /// caller can then copy a constant length.
    #[inline(always)]
    pub fn as_twelve(&self) -> Option<&[u8; 12]> {
        if self.len == 12 { self.bytes.first_chunk() } else { None }
    }

    /// Returns the encoded options as bytes.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or_default()
    }

    /// Number of encoded option bytes.
    #[inline]
    pub fn len(&self) -> usize {
        usize::from(self.len)
    }

    /// Returns whether there are no options.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Default for OutOptions {
    fn default() -> OutOptions {
        OutOptions::NONE
    }
}

impl From<&OptionWriter> for OutOptions {
    fn from(writer: &OptionWriter) -> OutOptions {
        let encoded = writer.finish();
        let mut out = OutOptions { len: encoded.len().min(MAX_OPTIONS_LEN) as u8, ..OutOptions::NONE };
        for (to, from) in out.bytes.iter_mut().zip(encoded) {
            *to = *from;
        }
        out
    }
}

impl PartialEq for OutOptions {
    fn eq(&self, other: &OutOptions) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for OutOptions {}

impl core::fmt::Debug for OutOptions {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_list().entries(Options::new(self.as_slice()).flatten()).finish()
    }
}

/// Segment to send; the host adds ports, checksum, data and the IP header.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Out {
    /// Sequence number (SEG.SEQ).
    pub seq: SeqNum,
    /// Acknowledgment number (SEG.ACK); 0 without [`Flags::ACK`].
    pub ack: SeqNum,
    /// Control bits.
    pub flags: Flags,
    /// Window field, scaled (SEG.WND).
    pub window: u16,
    /// Urgent pointer (SEG.UP).
    pub urgent: u16,
    /// Encoded options.
    pub options: OutOptions,
    /// Offset of the segment's data in the send queue, whose front is SND.UNA.
    pub text_at: u32,
    /// Number of data bytes. If this is more than `mss`, the port splits the data into segments of
    /// `mss` bytes, with FIN and PSH on the last (TSO).
    pub text_len: u32,
    /// Maximum data bytes per segment with these options.
    pub mss: u16,
    /// ECN field for the IP header.
    pub ecn: Ecn,
    /// True if the segment is a retransmission.
    pub retransmission: bool,
    /// True if the segment only announces more space in the window (RFC 9293 3.8.6.2.2).
    pub window_update: bool,
}

impl Out {
    /// Returns whether the data exceeds one segment.
    #[inline]
    pub fn is_large(&self) -> bool {
        self.text_len > u32::from(self.mss)
    }

    /// Number of segments into which the port splits the data.
    #[inline]
    pub fn segments(&self) -> u32 {
        if self.is_large() { self.text_len.div_ceil(u32::from(self.mss.max(1))) } else { 1 }
    }

    /// Converts the segment to a [`Segment`], as the receiver would parse it from the wire.
    pub fn as_arriving(&self) -> Segment {
        Segment {
            seq: self.seq,
            ack: self.ack,
            flags: self.flags,
            window: self.window,
            urgent: self.urgent,
            len: self.text_len,
            gso_size: if self.is_large() { self.mss } else { 0 },
            options: SegmentOptions::parse_bytes(self.options.as_slice()),
            ecn: self.ecn,
        }
    }
}

#[cfg(test)]
mod tests;
