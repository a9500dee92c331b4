//! ECN through a tunnel: the normal mode of RFC 6040, for IPv4 and IPv6 inner and outer headers.
//!
//! On encapsulation, the ECN field (RFC 6040 4.1) and the DSCP (RFC 2983 3.1, the uniform model) of
//! the inner header are copied to the outer header. On decapsulation, a congestion mark that the
//! path has set in the outer header is copied to the inner header (RFC 6040 figure 4).

use stats::DropReason;
use wire::{ip4, ip6};

const MASK: u8 = 3;
const NOT_ECT: u8 = 0;
const ECT1: u8 = 1;
const ECT0: u8 = 2;
const CE: u8 = 3;

/// Updates the ECN field of the decapsulated packet `inner`. `outer` is the type of service or
/// traffic class of the outer header.
///
/// # Errors
/// The drop reason, if the path has marked congestion but the sender of the inner packet is not
/// ECN-capable. Dropping the packet then signals the congestion.
pub(super) fn leave(outer: u8, inner: &mut [u8]) -> Result<(), DropReason> {
    let six = ip6::is_version(inner);
    let tos = match six {
        true => ip6::Header::parse_quoted(inner).ok().map(|header| header.traffic_class),
        false => ip4::HeaderView::of(inner).map(|header| header.tos()),
    };
    let Some(tos) = tos else { return Ok(()) };
    let mark = match (tos & MASK, outer & MASK) {
        (NOT_ECT, CE) => return Err(DropReason::TunnelEcn),
        (ECT0, ECT1) => ECT1,
        (ECT0 | ECT1, CE) => CE,
        _ => return Ok(()),
    };
    let marked = tos & !MASK | mark;
    let written = if six { ip6::set_traffic_class(inner, marked) } else { ip4::set_tos(inner, marked).map(drop) };
    written.ok_or_else(|| {
        debug_assert!(false, "cannot rewrite the ECN field of a parsed header");
        DropReason::Bug
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv6Addr;
    use wire::Proto;

    /// RFC 6040 figure 4: the rows are the ECN field of the arriving inner header.
    #[test]
    fn decapsulation_follows_rfc_6040_figure_4() {
        let rows: [[Option<u8>; 4]; 4] = [
            [Some(NOT_ECT), Some(NOT_ECT), Some(NOT_ECT), None],
            [Some(ECT1), Some(ECT1), Some(ECT1), Some(CE)],
            [Some(ECT0), Some(ECT1), Some(ECT0), Some(CE)],
            [Some(CE), Some(CE), Some(CE), Some(CE)],
        ];
        for (inner, row) in (0u8..).zip(rows) {
            for (outer, expected) in (0u8..).zip(row) {
                let header = ip4::Header::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), Proto::UDP, 0).unwrap();
                let mut packet = [0; ip4::HEADER_LEN];
                ip4::Header { tos: 0xb8 | inner, ..header }.emit(&mut packet);
                let left = leave(outer, &mut packet).ok().map(|()| packet[1]);
                assert_eq!(left, expected.map(|mark| 0xb8 | mark), "{inner} in {outer}");
                assert!(ip4::header_checksum_ok(&packet, ip4::HEADER_LEN));
                let (src, dst, next) = (Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST, Proto::UDP);
                let traffic_class = 0xb8 | inner;
                let header =
                    ip6::Header { traffic_class, flow_label: 0xabcde, payload_len: 0, next, hop_limit: 1, src, dst };
                let mut packet = [0; ip6::HEADER_LEN];
                header.emit(&mut packet);
                let left = leave(outer, &mut packet).ok().map(|()| ip6::Header::parse(&packet).unwrap());
                let expected = expected.map(|mark| ip6::Header { traffic_class: 0xb8 | mark, ..header });
                assert_eq!(left, expected, "{inner} in {outer}");
            }
        }
        assert_eq!(leave(CE, &mut [0; 7]), Ok(()), "a packet without a whole header is left to IP input");
        assert_eq!(leave(CE, &mut [0x60; 39]), Ok(()));
    }
}
