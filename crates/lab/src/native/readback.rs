//! Reads one of our datagrams back from the TAP device, before frames are dropped, and checks that
//! the frame has the length, the address and the checksums that the comparison assumes.

use std::fs::File;
use std::io::Read;

use anyhow::{Context, ensure};
use wire::checksum::Partial;
use wire::eth::{EtherType, Mac};
use wire::{Proto, eth, ip4, udp};

/// Finds our datagram among the frames of the TAP device and checks it. Returns a phrase for the
/// description of the device.
pub(super) fn datagram(tap: &mut File, to: Mac) -> anyhow::Result<&'static str> {
    let mut frame = [0; 2048];
    loop {
        let length = tap.read(&mut frame).context("cannot read the datagram back from the TAP")?;
        let frame = &frame[..length];
        if let Some((link, packet)) = udp_in(frame) {
            ensure!(length == 64, "frame length {length}: expected 64 bytes");
            ensure!(link.dst == to, "the frame has another destination MAC address");
            ensure!(checksums_right(packet)?, "bad checksum in the frame");
            return Ok("verified in a frame read back");
        }
    }
}

/// Returns the Ethernet header and the IPv4 packet of a frame that carries UDP.
fn udp_in(frame: &[u8]) -> Option<(eth::Header, &[u8])> {
    let link = eth::Header::parse(frame).ok().filter(|link| link.ethertype == EtherType::IPV4)?;
    let packet = frame.get(eth::HEADER_LEN..)?;
    let header = ip4::Header::parse(packet).ok()?;
    (header.proto == Proto::UDP).then_some((link, packet))
}

/// Returns whether the checksums of the IPv4 header and of UDP are right (RFC 1071). An omitted UDP
/// checksum is treated as wrong.
fn checksums_right(packet: &[u8]) -> anyhow::Result<bool> {
    let header = ip4::Header::parse(packet)?;
    let datagram = header.payload(packet);
    let pseudo = Partial::pseudo4(header.src, header.dst, header.proto, datagram.len() as u16);
    let sums = ip4::header_checksum_ok(packet, header.ihl_len) && udp::checksum_ok(pseudo, datagram);
    Ok(sums && udp::Header::parse(datagram)?.checksum != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::L4Port;

    fn packet() -> Vec<u8> {
        let (src, dst) = ([10, 99, 0, 1].into(), [10, 99, 0, 2].into());
        let pseudo = Partial::pseudo4(src, dst, Proto::UDP, 12);
        let datagram = udp::Header { src: L4Port(7), dst: L4Port(9), len: 12, checksum: 0 };
        let (mut outer, mut inner) = ([0; ip4::HEADER_LEN], [0; udp::HEADER_LEN]);
        ip4::Header::new(src, dst, Proto::UDP, 12).unwrap().emit(&mut outer);
        datagram.with_checksum(pseudo, b"data").emit(&mut inner);
        [&outer[..], &inner, b"data"].concat()
    }

    #[test]
    fn a_wrong_or_absent_checksum_is_detected() {
        assert!(checksums_right(&packet()).unwrap());
        for at in [8, 11, 26, 29] {
            let mut packet = packet();
            packet[at] ^= 1;
            assert!(!checksums_right(&packet).unwrap(), "byte {at}");
        }
        let mut absent = packet();
        absent[26..28].fill(0);
        assert!(!checksums_right(&absent).unwrap());
    }
}
