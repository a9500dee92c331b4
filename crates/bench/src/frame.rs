//! The frame used in the comparison: Ethernet, IPv4 without options, UDP, and 22 bytes of payload.
//! Without FCS, it is 64 bytes long.
//!
//! The encoder and the checks are independent of all measured stacks, so that they can verify the
//! frames that these stacks send.

use anyhow::ensure;

/// Length of the UDP payload in bytes.
pub const PAYLOAD: usize = 22;
/// Length of the whole frame in bytes.
pub const FRAME: usize = 14 + 20 + 8 + PAYLOAD;

/// Addresses of one end of the conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    /// Ethernet address of this end.
    pub mac: [u8; 6],
    /// IPv4 address of this end.
    pub ip: [u8; 4],
    /// UDP port of this end.
    pub l4_port: u16,
}

/// Addresses of the host under test.
pub const HERE: End = End { mac: [2, 0, 0, 0, 0, 1], ip: [10, 99, 0, 1], l4_port: 5000 };
/// Addresses of the neighbor of the host under test.
pub const THERE: End = End { mac: [2, 0, 0, 0, 0, 2], ip: [10, 99, 0, 2], l4_port: 9 };

/// Method of computing IPv4 and UDP checksums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checksums {
    /// In software: [`check`] requires that both checksums are correct.
    Software,
    /// Left to the device: [`check`] requires that both checksum fields are zero.
    Offloaded,
}

/// Returns a frame from one end to the other with correct checksums.
pub fn build(from: End, to: End, payload: &[u8; PAYLOAD]) -> [u8; FRAME] {
    let mut frame = [0; FRAME];
    frame[0..6].copy_from_slice(&to.mac);
    frame[6..12].copy_from_slice(&from.mac);
    frame[12..14].copy_from_slice(&[8, 0]);
    frame[14..18].copy_from_slice(&[0x45, 0, 0, (FRAME - 14) as u8]);
    frame[20..24].copy_from_slice(&[0x40, 0, 64, 17]); // don't fragment; time to live; UDP
    frame[26..30].copy_from_slice(&from.ip);
    frame[30..34].copy_from_slice(&to.ip);
    frame[34..36].copy_from_slice(&from.l4_port.to_be_bytes());
    frame[36..38].copy_from_slice(&to.l4_port.to_be_bytes());
    frame[38..40].copy_from_slice(&[0, (8 + PAYLOAD) as u8]);
    frame[42..].copy_from_slice(payload);
    let header = !fold(sum(&frame[14..34]));
    frame[24..26].copy_from_slice(&header.to_be_bytes());
    let datagram = !fold(pseudo_and_datagram(&frame));
    frame[40..42].copy_from_slice(&datagram.to_be_bytes());
    frame
}

/// Checks that `frame` contains `payload`, the addresses of both ends, and the expected checksums.
///
/// # Errors
/// The first deviation found.
pub fn check(frame: &[u8], from: End, to: End, payload: &[u8; PAYLOAD], checksums: Checksums) -> anyhow::Result<()> {
    ensure!(frame.len() == FRAME, "frame length {}: expected {FRAME} bytes", frame.len());
    ensure!(frame[0..6] == to.mac && frame[6..12] == from.mac, "wrong MAC addresses {:02x?}", &frame[..12]);
    ensure!(frame[12..16] == [8, 0, 0x45, 0], "expected an IPv4 header without options, found {:02x?}", &frame[12..16]);
    ensure!(frame[16..18] == [0, (FRAME - 14) as u8], "wrong IPv4 length {:02x?}", &frame[16..18]);
    ensure!(frame[22] > 0 && frame[23] == 17, "wrong time to live or protocol {:?}", &frame[22..24]);
    ensure!(frame[26..30] == from.ip && frame[30..34] == to.ip, "wrong IPv4 addresses {:?}", &frame[26..34]);
    let ports = [from.l4_port.to_be_bytes(), to.l4_port.to_be_bytes()].concat();
    ensure!(frame[34..38] == *ports, "wrong UDP ports {:02x?}", &frame[34..38]);
    ensure!(frame[38..40] == [0, (8 + PAYLOAD) as u8], "wrong UDP length {:02x?}", &frame[38..40]);
    ensure!(frame[42..] == *payload, "wrong payload {:02x?}", &frame[42..]);
    let fields = [&frame[24..26], &frame[40..42]].concat();
    match checksums {
        Checksums::Offloaded => ensure!(fields == [0; 4], "checksum fields {fields:02x?}: expected zero (offloaded)"),
        Checksums::Software => {
            ensure!(fold(sum(&frame[14..34])) == 0xffff, "bad IPv4 header checksum");
            ensure!(fields[2..] != [0, 0], "no UDP checksum");
            ensure!(fold(pseudo_and_datagram(frame)) == 0xffff, "bad UDP checksum");
        }
    }
    Ok(())
}

fn pseudo_and_datagram(frame: &[u8]) -> u32 {
    sum(&frame[26..34]) + 17 + (frame.len() as u32 - 34) + sum(&frame[34..])
}

/// Returns the RFC 1071 sum of an even number of bytes.
fn sum(bytes: &[u8]) -> u32 {
    bytes.chunks_exact(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum()
}

fn fold(sum: u32) -> u16 {
    let once = (sum & 0xffff) + (sum >> 16);
    ((once & 0xffff) + (once >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_built_frame_passes_the_check() {
        let frame = build(THERE, HERE, b"twenty-two bytes of it");
        check(&frame, THERE, HERE, b"twenty-two bytes of it", Checksums::Software).unwrap();
    }

    #[test]
    fn every_relevant_byte_is_checked() {
        let frame = build(THERE, HERE, &[7; PAYLOAD]);
        for at in 0..FRAME {
            let mut wrong = frame;
            wrong[at] ^= 0x10;
            assert!(check(&wrong, THERE, HERE, &[7; PAYLOAD], Checksums::Software).is_err(), "byte {at}");
        }
    }

    #[test]
    fn offloaded_means_zero() {
        let mut frame = build(THERE, HERE, &[7; PAYLOAD]);
        assert!(check(&frame, THERE, HERE, &[7; PAYLOAD], Checksums::Offloaded).is_err());
        frame[24..26].fill(0);
        frame[40..42].fill(0);
        check(&frame, THERE, HERE, &[7; PAYLOAD], Checksums::Offloaded).unwrap();
    }
}
