//! Segmentation of a large TCP segment to fit a link, as a NIC's TSO or Linux's GSO does.
//!
//! Each piece equals the segment that a sender without the offload would have sent. Headers are
//! repeated, and sequence number and identification advance. CWR is set only on the first piece
//! (RFC 3168 6.1.2), PSH and FIN only on the last. All checksums are filled in. An identification
//! of 0 with DF stays 0, because it has no meaning then (RFC 6864 4.1). The payload is copied and
//! summed in one pass. Over IPv6, extension headers in front of the segment are repeated unchanged.

use crate::checksum::{self, Partial};
use crate::{Proto, ip4, ip6, tcp};

/// Headers of a large segment, and the position up to which it has been split.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    ip: Ip,
    tcp: tcp::Header,
    // Offsets in the frame: IP header, TCP header, payload, and end of the payload.
    l3: usize,
    l4: usize,
    text: usize,
    end: usize,
    size: usize,
    /// Number of payload bytes split off so far.
    done: usize,
    /// Number of pieces split off so far.
    pieces: u16,
}

/// IP header of a large segment.
#[derive(Clone, Copy, Debug)]
enum Ip {
    V4(ip4::Header),
    V6(ip6::Header),
}

impl Ip {
    /// Parses the headers of a packet in front of its TCP header. Returns the offsets of the TCP
    /// header and of the end of the packet.
    fn read(packet: &[u8]) -> Option<(Ip, usize, usize)> {
        if ip6::is_version(packet) {
            let ip = ip6::Header::parse(packet).ok()?;
            let chain = ip6::Chain::walk(&ip, packet).ok()?;
            // With a Routing header the checksum covers an address that is not in the IP header
            // (RFC 8200 8.1).
            let is_whole = chain.upper == Proto::TCP && chain.fragment.is_none() && chain.routing.is_none();
            return is_whole.then_some((Ip::V6(ip), chain.offset, ip6::HEADER_LEN + usize::from(ip.payload_len)));
        }
        let ip = ip4::Header::parse(packet).ok().filter(|ip| ip.proto == Proto::TCP && !ip.is_fragment())?;
        Some((Ip::V4(ip), ip.ihl_len, usize::from(ip.total_len)))
    }
}

impl Segment {
    /// Parses the large segment whose IP header is at offset `l3` of `frame`, to be split into
    /// pieces of `size` payload bytes. Returns `None` if it is not TCP, or `size` is 0.
    pub fn read(frame: &[u8], l3: usize, size: u16) -> Option<Segment> {
        let packet = frame.get(l3..).filter(|_| size > 0)?;
        let (ip, l4, end) = Ip::read(packet)?;
        let tcp = tcp::Header::parse(packet.get(l4..end)?).ok()?;
        let (l4, end) = (l3 + l4, l3 + end);
        let text = l4 + tcp.header_len;
        Some(Segment { ip, tcp, l3, l4, text, end, size: size.into(), done: 0, pieces: 0 })
    }

    /// Returns the offsets of the TCP header and of the payload in the frame.
    pub fn places(&self) -> (usize, usize) {
        (self.l4, self.text)
    }

    /// Returns whether the whole segment has been split.
    pub fn is_done(&self) -> bool {
        self.text + self.done >= self.end && self.pieces > 0
    }

    /// Returns the length in bytes of the longest piece, including the bytes in front of the IP
    /// header.
    pub fn longest(&self) -> usize {
        self.end.min(self.text + self.size)
    }

    /// Returns the length of the next piece in bytes; `None` if the whole segment has been split.
    pub fn next_len(&self) -> Option<usize> {
        (!self.is_done()).then(|| self.end.min(self.text + self.done + self.size) - self.done)
    }

    /// Writes the next piece into `piece`, which must be [`next_len`](Segment::next_len) bytes
    /// long. `frame` must be the frame that was parsed. Returns `None` if nothing is left, or if
    /// `frame` or `piece` has the wrong length.
    pub fn cut(&mut self, frame: &[u8], piece: &mut [u8]) -> Option<()> {
        let from = self.text + self.done;
        let text = frame.get(from..self.end.min(from + self.size)).filter(|_| !self.is_done())?;
        let last = from + text.len() == self.end;
        let (head, place) = piece.split_at_mut_checked(self.text).filter(|(_, place)| place.len() == text.len())?;
        head.copy_from_slice(frame.get(..self.text)?);
        let sum = checksum::copy_and_sum(place, text);
        self.write_ip(head.get_mut(self.l3..self.l4)?, text.len());
        self.write_tcp(head.get_mut(self.l4..)?, text.len(), last, sum);
        self.done += text.len();
        self.pieces = self.pieces.wrapping_add(1);
        Some(())
    }

    fn write_ip(&self, header: &mut [u8], text: usize) {
        let len = self.text - self.l3 + text; // not longer than the original packet
        match self.ip {
            Ip::V4(ip) => {
                let id = if ip.df && ip.id == 0 { 0 } else { ip.id.wrapping_add(self.pieces) };
                if let Some(h) = header.first_chunk_mut::<{ ip4::HEADER_LEN }>() {
                    [h[2], h[3]] = (len as u16).to_be_bytes();
                    [h[4], h[5]] = id.to_be_bytes();
                }
                ip4::fill_checksum(header);
            }
            Ip::V6(_) => {
                if let Some(h) = header.first_chunk_mut::<{ ip6::HEADER_LEN }>() {
                    [h[4], h[5]] = ((len - ip6::HEADER_LEN) as u16).to_be_bytes();
                }
            }
        }
    }

    fn write_tcp(&self, header: &mut [u8], text: usize, last: bool, sum: Partial) {
        let mut flags = self.tcp.flags.0;
        let mut urgent = self.tcp.urgent;
        if self.done > 0 {
            flags &= !tcp::Flags::CWR.0;
        }
        if !last {
            flags &= !(tcp::Flags::PSH.0 | tcp::Flags::FIN.0);
        }
        if self.tcp.flags.contains(tcp::Flags::URG) && self.done > 0 {
            // The urgent pointer is relative to the segment's own sequence number (RFC 9293 3.1).
            match usize::from(urgent).checked_sub(self.done) {
                Some(ahead @ 1..) => urgent = ahead as u16,
                _ => (urgent, flags) = (0, flags & !tcp::Flags::URG.0),
            }
        }
        let len = (header.len() + text) as u16;
        let seq = self.tcp.seq.wrapping_add(self.done as u32);
        if let Some(h) = header.first_chunk_mut::<{ tcp::HEADER_LEN }>() {
            // Written without `tcp::Header::emit`, because the reserved bits must be kept.
            [h[4], h[5], h[6], h[7]] = seq.to_be_bytes();
            h[13] = flags;
            [h[16], h[17]] = [0, 0];
            [h[18], h[19]] = urgent.to_be_bytes();
        }
        let pseudo = match self.ip {
            Ip::V4(ip) => Partial::pseudo4(ip.src, ip.dst, Proto::TCP, len),
            Ip::V6(ip) => Partial::pseudo6(ip.src, ip.dst, Proto::TCP, len.into()),
        };
        let field = pseudo.add(checksum::sum(header)).add(sum).finish();
        if let Some(h) = header.first_chunk_mut::<{ tcp::HEADER_LEN }>() {
            [h[16], h[17]] = field.to_be_bytes();
        }
    }
}
