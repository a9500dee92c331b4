//! IGMP version 3: queries with sources, and reports of several groups (RFC 3376 4). Records have
//! the same layout as in MLD version 2.
//!
//! Parsing checks the whole report once, so reading its [`Records`] cannot go past the end of the
//! message.

use super::{Message, QUERY};
use crate::checksum;
use crate::{Layer, Malformed};
use alloc::vec;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr};

/// Length in bytes of a version 3 query without sources (RFC 3376 4.1).
pub const QUERY_LEN: usize = 12;
/// Type of a version 3 report (RFC 3376 4.2).
pub const REPORT: u8 = 0x22;
/// Number of bytes in front of a report's first record.
const HEAD: usize = 8;
/// Number of bytes of a record in front of its group address.
const RECORD: usize = 4;

/// Type of a group record (RFC 3376 4.2.12, RFC 3810 5.2.12).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RecordKind {
    /// MODE_IS_INCLUDE: reception from the listed sources only.
    IsInclude,
    /// MODE_IS_EXCLUDE: reception from all but the listed sources.
    IsExclude,
    /// CHANGE_TO_INCLUDE_MODE: change to the listed sources only; an empty list leaves the group.
    ToInclude,
    /// CHANGE_TO_EXCLUDE_MODE: change to all but the listed sources.
    ToExclude,
    /// ALLOW_NEW_SOURCES: reception from the listed sources too.
    Allow,
    /// BLOCK_OLD_SOURCES: no further reception from the listed sources.
    Block,
    /// Any other type: ignored.
    Other,
}

impl RecordKind {
    fn code(self) -> u8 {
        match self {
            RecordKind::IsInclude => 1,
            RecordKind::IsExclude => 2,
            RecordKind::ToInclude => 3,
            RecordKind::ToExclude => 4,
            RecordKind::Allow => 5,
            RecordKind::Block => 6,
            RecordKind::Other => 0,
        }
    }
}

/// A group record of an IGMPv3 or MLDv2 report to be sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewRecord {
    /// Kind of the record.
    pub kind: RecordKind,
    /// Address of the group.
    pub group: IpAddr,
    /// Listed sources, of the group's address family.
    pub sources: Vec<IpAddr>,
}

impl NewRecord {
    /// Returns the length in bytes of an address of the record's family.
    pub fn len_of_source(&self) -> usize {
        if self.group.is_ipv4() { 4 } else { 16 }
    }

    /// Returns the length in bytes that the record would have with `sources` sources.
    pub fn len_with(&self, sources: usize) -> usize {
        RECORD + (sources + 1) * self.len_of_source()
    }
}

/// Returns the header of a report of type `ty` and its records; the checksum is 0.
pub(crate) fn emit(ty: u8, records: &[NewRecord]) -> Vec<u8> {
    let [n0, n1] = (records.len() as u16).to_be_bytes();
    let mut bytes = vec![ty, 0, 0, 0, 0, 0, n0, n1];
    let put = |addr: &IpAddr, bytes: &mut Vec<u8>| match addr {
        IpAddr::V4(addr) => bytes.extend_from_slice(&addr.octets()),
        IpAddr::V6(addr) => bytes.extend_from_slice(&addr.octets()),
    };
    for record in records {
        let [s0, s1] = (record.sources.len() as u16).to_be_bytes();
        bytes.extend_from_slice(&[record.kind.code(), 0, s0, s1]);
        put(&record.group, &mut bytes);
        record.sources.iter().for_each(|source| put(source, &mut bytes));
    }
    bytes
}

/// Builds an IGMPv3 report that consists of these records. Its checksum is filled in.
pub fn new_report(records: &[NewRecord]) -> Vec<u8> {
    let mut bytes = emit(REPORT, records);
    let [sum0, sum1] = checksum::sum(&bytes).finish().to_be_bytes();
    if let Some([_, _, at0, at1]) = bytes.first_chunk_mut::<4>() {
        (*at0, *at1) = (sum0, sum1);
    }
    bytes
}

/// A group record in a received report; `N` is the length of an address in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Record<const N: usize> {
    /// Type of the record.
    pub kind: RecordKind,
    /// Address of the group.
    pub group: [u8; N],
    /// Number of listed sources.
    pub sources: u16,
}

impl<const N: usize> Record<N> {
    /// Parses a record. Returns its length with sources and auxiliary data, and the record; `None`
    /// if it is incomplete.
    fn read(bytes: &[u8]) -> Option<(usize, Record<N>)> {
        let (&[kind, aux, s0, s1], rest) = bytes.split_first_chunk::<RECORD>()?;
        let (group, rest) = rest.split_first_chunk::<N>()?;
        let sources = u16::from_be_bytes([s0, s1]);
        let behind = usize::from(sources) * N + usize::from(aux) * 4;
        let kind = match kind {
            1 => RecordKind::IsInclude,
            2 => RecordKind::IsExclude,
            3 => RecordKind::ToInclude,
            4 => RecordKind::ToExclude,
            5 => RecordKind::Allow,
            6 => RecordKind::Block,
            _ => RecordKind::Other,
        };
        (rest.len() >= behind).then_some((RECORD + N + behind, Record { kind, group: *group, sources }))
    }

    /// Returns whether the sender listens to the group; `None` if the record alone does not
    /// determine this. The addresses of the sources are ignored.
    pub fn listens(&self) -> Option<bool> {
        match (self.kind, self.sources) {
            (RecordKind::IsExclude | RecordKind::ToExclude, _) => Some(true),
            (RecordKind::IsInclude | RecordKind::ToInclude | RecordKind::Allow, 1..) => Some(true),
            (RecordKind::ToInclude, 0) => Some(false),
            _ => None,
        }
    }
}

/// Iterator over the records of a report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Records<'a, const N: usize> {
    rest: &'a [u8],
    left: u16,
}

impl<'a, const N: usize> Records<'a, N> {
    /// Parses a report with a verified checksum, starting at its type.
    pub(crate) fn parse(report: &'a [u8], layer: Layer) -> Result<Records<'a, N>, Malformed> {
        let Some((head, rest)) = report.split_first_chunk::<HEAD>() else {
            return Err(Malformed::truncated(layer, HEAD, report.len()));
        };
        let left = u16::from_be_bytes([head[6], head[7]]);
        let records = Records { rest, left };
        let whole = records.count();
        if whole < usize::from(left) {
            return Err(Malformed::truncated(layer, report.len() + 1, report.len()));
        }
        Ok(records)
    }
}

impl<const N: usize> Iterator for Records<'_, N> {
    type Item = Record<N>;

    fn next(&mut self) -> Option<Record<N>> {
        self.left = self.left.checked_sub(1)?;
        let (len, record) = Record::read(self.rest)?;
        self.rest = self.rest.get(len..).unwrap_or_default();
        Some(record)
    }
}

/// Parses the records of a version 3 report. Like [`Message::parse`], checks lengths and checksum.
///
/// # Errors
/// The message is not a version 3 report, or is malformed.
pub fn report(message: &[u8]) -> Result<Records<'_, 4>, Malformed> {
    match Message::parse(message)? {
        Message::Other { ty: REPORT } => Records::parse(message, Layer::Igmp),
        _ => Err(Malformed::BadOperation(0)),
    }
}

/// Fields that an IGMPv3 or MLDv2 query has in addition to earlier versions (RFC 3376 4.1, RFC 3810
/// 5.1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct QueryMore {
    /// S flag: true if routers must not update their timers.
    pub suppress: bool,
    /// Number of sources queried; 0 if the query is for the group as a whole.
    pub sources: u16,
}

impl QueryMore {
    /// Parses the bytes after the group address; `None` if the query has none, because it is of an
    /// earlier version.
    pub(crate) fn read(behind: &[u8]) -> Option<QueryMore> {
        let &[flags, _, s0, s1] = behind.first_chunk::<4>()?;
        Some(QueryMore { suppress: flags & 8 != 0, sources: u16::from_be_bytes([s0, s1]) })
    }
}

/// Returns the additional fields of a query that [`Message::parse`] has accepted; `None` for a
/// query of an earlier version.
pub fn query_more(message: &[u8]) -> Option<QueryMore> {
    QueryMore::read(message.get(super::MESSAGE_LEN..)?)
}

/// Encodes a number as an 8-bit code, rounded down. Numbers above 127 are encoded as exponent and
/// mantissa (RFC 3376 4.1.1). The maximum is 31,744.
pub fn code8(number: u16) -> u8 {
    if number < 128 {
        return number as u8;
    }
    let number = number.min(31_744);
    let exponent = (11 - number.leading_zeros() as u8).saturating_sub(3);
    0x80 | exponent << 4 | (number >> (exponent + 3)) as u8 & 0xf
}

/// Decodes an 8-bit code that [`code8`] has written.
pub fn number8(code: u8) -> u16 {
    if code < 128 { code.into() } else { (u16::from(code & 0xf) | 0x10) << ((code >> 4 & 7) + 3) }
}

/// Returns the sources of a query. An incomplete last source is ignored.
pub fn query_sources(message: &[u8]) -> impl ExactSizeIterator<Item = Ipv4Addr> {
    let n = query_more(message).map_or(0, |more| more.sources);
    let (sources, _) = message.get(QUERY_LEN..).unwrap_or_default().as_chunks::<4>();
    sources.iter().take(n.into()).map(|source| Ipv4Addr::from(*source))
}

/// Builds a query without sources, which is a general query if `group` is unspecified.
/// `max_resp_ds` is in tenths of a second, `interval_s` in seconds.
pub fn query(group: Ipv4Addr, max_resp_ds: u16, robustness: u8, interval_s: u16) -> [u8; QUERY_LEN] {
    let [g0, g1, g2, g3] = group.octets();
    let mut bytes = [QUERY, code8(max_resp_ds), 0, 0, g0, g1, g2, g3, robustness & 7, code8(interval_s), 0, 0];
    [bytes[2], bytes[3]] = checksum::sum(&bytes).finish().to_be_bytes();
    bytes
}
