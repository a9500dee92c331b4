//! Classification of multicast frames: data, query, report, router hello or other.
//!
//! Only verified messages are used (RFC 4541 2.1.1): IGMP in an unfragmented packet with correct IP
//! and IGMP checksums, and MLD with hop limit 1 from a link-local source (RFC 3810 5.1.14, 5.2.13;
//! a report may have the unspecified address as source). Non-IP frames and truncated headers are
//! flooded.

use clock::Duration;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use wire::eth::EtherType;
use wire::igmp::v3::{QueryMore, Record, Records};
use wire::{Proto, igmp, ip4, ip6, mld};

/// IP protocol number of PIM (RFC 7761 4.9). A PIM message of version 2 and type 0 is a hello.
const PIM: Proto = Proto(103);
const HELLO: u8 = 0x20;
/// Maximum response time of an IGMPv1 query (RFC 2236 4).
const V1_RESP: Duration = Duration::from_secs(10);

pub(super) enum Message<'a> {
    /// The frame is not relevant to snooping and is flooded.
    Other,
    /// The message is invalid, and the frame is dropped.
    Malformed,
    Data(IpAddr),
    /// Hello message of a PIM router of this address family.
    Hello(IpAddr),
    Query(ReceivedQuery),
    Reports(Reports<'a>),
}

impl Message<'_> {
    /// Returns whether the message must be sent to other replicas.
    pub fn is_valid(&self) -> bool {
        matches!(self, Message::Hello(_) | Message::Query(_) | Message::Reports(_))
    }
}

pub(super) struct ReceivedQuery {
    pub src: IpAddr,
    /// Group of the query; `None` for a general query.
    pub group: Option<IpAddr>,
    pub max_resp: Duration,
    /// True if listeners that do not answer the query expire early.
    pub shortens: bool,
}

/// The groups in a report, and for each whether it is joined or left.
pub(super) enum Reports<'a> {
    One(IpAddr, Listens),
    Four(Records<'a, 4>),
    Six(Records<'a, 16>),
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Listens {
    Yes,
    No,
}

impl Reports<'_> {
    pub fn six(&self) -> bool {
        matches!(self, Reports::Six(_) | Reports::One(IpAddr::V6(_), _))
    }

    pub fn records(&self) -> impl Iterator<Item = (IpAddr, bool)> {
        let (one, four, six) = match self {
            Reports::One(group, listens) => (Some((*group, *listens == Listens::Yes)), None, None),
            Reports::Four(records) => (None, Some(*records), None),
            Reports::Six(records) => (None, None, Some(*records)),
        };
        let four =
            four.into_iter().flatten().filter_map(|record: Record<4>| Some((record.group.into(), record.listens()?)));
        let six =
            six.into_iter().flatten().filter_map(|record: Record<16>| Some((record.group.into(), record.listens()?)));
        one.into_iter().chain(four).chain(six).filter(|(group, _)| group.is_multicast())
    }
}

/// Returns whether snooping may restrict the frames of a group to certain ports. Groups of
/// link-local protocols must not be restricted (RFC 4541 2.1.2 (2), 3).
pub(super) fn is_pruned(group: IpAddr) -> bool {
    match group {
        IpAddr::V4(group) => group.octets().first_chunk() != Some(&[224, 0, 0]),
        IpAddr::V6(group) => group.segments()[0] & 0xf > 1 && group != ALL_NODES,
    }
}

const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

pub(super) fn parse(tpe: u16, packet: &[u8]) -> Message<'_> {
    match EtherType(tpe) {
        EtherType::IPV4 => parse4(packet),
        EtherType::IPV6 => parse6(packet),
        _ => Message::Other,
    }
}

/// Returns the packet truncated to the length in its header, or the whole packet if it is shorter.
pub(super) fn without_padding(tpe: u16, packet: &[u8]) -> &[u8] {
    let len = match EtherType(tpe) {
        EtherType::IPV4 => ip4::Header::parse(packet).ok().map(|header| usize::from(header.total_len)),
        EtherType::IPV6 => {
            ip6::Header::parse(packet).ok().map(|header| ip6::HEADER_LEN + usize::from(header.payload_len))
        }
        _ => None,
    };
    len.and_then(|len| packet.get(..len)).unwrap_or(packet)
}

fn parse4(packet: &[u8]) -> Message<'_> {
    let Ok(header) = ip4::Header::parse(packet) else { return Message::Other };
    let payload = header.payload(packet);
    match header.proto {
        Proto::IGMP if header.is_fragment() || !ip4::header_checksum_ok(packet, header.ihl_len) => Message::Malformed,
        Proto::IGMP => igmp(header.src, payload),
        PIM if payload.first() == Some(&HELLO) => Message::Hello(header.src.into()),
        _ if header.dst.is_multicast() => Message::Data(header.dst.into()),
        _ => Message::Other,
    }
}

fn igmp(src: Ipv4Addr, message: &[u8]) -> Message<'_> {
    let Ok(read) = igmp::Message::parse(message) else { return Message::Malformed };
    match read {
        igmp::Message::Query { max_resp_ds, group } => {
            let code = igmp::v3::query_more(message).map_or(u16::from(max_resp_ds), |_| igmp::v3::number8(max_resp_ds));
            let max_resp = if code == 0 { V1_RESP } else { Duration::from_millis(100 * u64::from(code)) };
            query(src.into(), group.into(), max_resp, igmp::v3::query_more(message))
        }
        igmp::Message::ReportV1 { group } | igmp::Message::Report { group } => one(group.into(), Listens::Yes),
        igmp::Message::Leave { group } => one(group.into(), Listens::No),
        igmp::Message::Other { ty: igmp::v3::REPORT } => {
            igmp::v3::report(message).map_or(Message::Malformed, |records| Message::Reports(Reports::Four(records)))
        }
        igmp::Message::Other { .. } => Message::Other,
    }
}

fn one<'a>(group: IpAddr, listens: Listens) -> Message<'a> {
    if group.is_multicast() { Message::Reports(Reports::One(group, listens)) } else { Message::Malformed }
}

fn query<'a>(src: IpAddr, group: IpAddr, max_resp: Duration, more: Option<QueryMore>) -> Message<'a> {
    let shortens = more.is_none_or(|more| !more.suppress && more.sources == 0);
    let group = (!group.is_unspecified()).then_some(group);
    if group.is_some_and(|group| !group.is_multicast()) {
        return Message::Malformed;
    }
    Message::Query(ReceivedQuery { src, group, max_resp, shortens })
}

fn parse6(packet: &[u8]) -> Message<'_> {
    let Ok(header) = ip6::Header::parse(packet) else { return Message::Other };
    let Ok(chain) = ip6::Chain::walk(&header, packet) else { return Message::Other };
    let payload = packet.get(chain.offset..ip6::HEADER_LEN + usize::from(header.payload_len)).unwrap_or_default();
    let is_whole = chain.fragment.is_none();
    match chain.upper {
        Proto::IPV6_ICMP if is_whole && payload.first().is_some_and(|ty| mld::is_mld(*ty)) => {
            listener(&header, payload)
        }
        PIM if is_whole && payload.first() == Some(&HELLO) => Message::Hello(header.src.into()),
        _ if header.dst.is_multicast() => Message::Data(header.dst.into()),
        _ => Message::Other,
    }
}

fn listener<'a>(header: &ip6::Header, message: &'a [u8]) -> Message<'a> {
    let is_local = header.src.is_unicast_link_local();
    let Ok(Some(read)) = mld::Message::parse(message, header.src, header.dst) else { return Message::Malformed };
    let is_query = matches!(read, mld::Message::Query { .. });
    if header.hop_limit != 1 || !(is_local || !is_query && header.src.is_unspecified()) {
        return Message::Malformed;
    }
    match read {
        mld::Message::Query { max_resp, group, more } => {
            query(header.src.into(), group.into(), Duration::from_millis(max_resp.into()), more)
        }
        mld::Message::Report { group } => one(group.into(), Listens::Yes),
        mld::Message::Done { group } => one(group.into(), Listens::No),
        mld::Message::ReportV2(records) => Message::Reports(Reports::Six(records)),
    }
}
