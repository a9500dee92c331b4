//! Checks of a received datagram.

use crate::demux::Ends4;
use crate::iface::Iface;
use buf::{Flags, Frame};
use lock::Locks;
use stats::DropReason;
use wire::checksum::Partial;
use wire::ip6::{self, Chain};
use wire::{Proto, ip4, udp};

/// Checks that apply to the datagrams of one interface.
#[derive(Clone, Copy)]
pub(crate) struct Check {
    /// Frame flags, each of which means that the checksum of the datagram need not be verified.
    pub(super) verified: Flags,
}

impl Check {
    pub(super) fn of<L: Locks>(iface: Option<&Iface<L>>) -> Check {
        let trusts_port = iface.is_none_or(|iface| iface.offload().rx); // no interface: the packet is from this host
        let open = Flags::TX_L4_CSUM; // was never on a wire, so there is nothing to verify
        Check { verified: if trusts_port { open.with(Flags::RX_L4_OK) } else { open } }
    }

    /// Checks lengths, checksum and ports (RFC 768, RFC 1122 4.1.3). Counts datagrams without a
    /// checksum.
    pub(super) fn look(self, packet: &Frame, without_checksum: &mut u64) -> Result<ParsedDatagram, DropReason> {
        let bytes = packet.bytes();
        let ip = ip4::HeaderView::of(bytes).ok_or(DropReason::Ip4Malformed)?;
        let ihl = ip.ihl_len();
        let segment = bytes.get(ihl..).ok_or(DropReason::Ip4Malformed)?;
        let pseudo = |len| Partial::pseudo4(ip.src(), ip.dst(), Proto::UDP, len);
        let header = self.look_at(packet.flags(), segment, pseudo)?;
        *without_checksum += u64::from(header.checksum == 0);
        let ends = Ends4 {
            local: ip.dst().to_bits(),
            remote: ip.src().to_bits(),
            local_port: header.dst,
            remote_port: header.src,
        };
        Ok(ParsedDatagram { ends, header_len: ihl + udp::HEADER_LEN, len: ihl + usize::from(header.len) })
    }

    /// Checks a UDP header and its payload. A checksum of 0 means that the datagram has no
    /// checksum.
    pub(super) fn look_at(
        self,
        flags: Flags,
        segment: &[u8],
        pseudo: impl FnOnce(u16) -> Partial,
    ) -> Result<udp::Header, DropReason> {
        let header = udp::Header::parse(segment).map_err(|_| DropReason::UdpBadLength)?;
        if header.checksum != 0 && !flags.any(self.verified) {
            let datagram = segment.get(..usize::from(header.len)).ok_or(DropReason::UdpBadLength)?;
            if !udp::checksum_ok(pseudo(header.len), datagram) {
                return Err(DropReason::UdpBadChecksum);
            }
        }
        if header.dst.0 == 0 { Err(DropReason::UdpPortZero) } else { Ok(header) }
    }

    /// Checks an IPv6 datagram, which must have a checksum (RFC 8200 8.1).
    pub(super) fn look6(self, packet: &Frame, header: &ip6::Header, chain: &Chain) -> Result<udp::Header, DropReason> {
        let segment = chain.payload(header, packet.bytes());
        let pseudo = |len| Partial::pseudo6(header.src, header.dst, Proto::UDP, u32::from(len));
        let seen = self.look_at(packet.flags(), segment, pseudo)?;
        if seen.checksum == 0 { Err(DropReason::UdpBadChecksum) } else { Ok(seen) }
    }
}

/// Addresses and ports of a valid datagram, and the lengths in bytes of its headers and of the
/// whole packet.
pub(super) struct ParsedDatagram {
    pub(super) ends: Ends4,
    header_len: usize,
    len: usize,
}

impl ParsedDatagram {
    /// Reduces `packet` to the payload. The headers stay in the headroom.
    pub(super) fn strip(&self, packet: &mut Frame) {
        packet.truncate(self.len);
        packet.pull(self.header_len);
    }
}
