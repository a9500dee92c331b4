//! Large TCP segments, cut into what a link takes, where the port does not do it: what a NIC's TSO or Linux's GSO does.
//!
//! Each piece is what a sender without the offload would have sent: headers repeated, sequence number and identification counted
//! on, CWR on the first only (RFC 3168 6.1.2), PSH and FIN on the last only, both checksums filled in. An identification of 0 with
//! DF stays 0 (RFC 6864 4.1: it means nothing there). The text is copied, and summed by the way: a frame has one buffer.

use super::l3_place;
use buf::{Flags, Frame, Pool};
use wire::checksum::{self, Partial};
use wire::{Proto, eth, ip4, tcp};

/// A large segment that is being cut up.
#[derive(Debug)]
pub struct Cutter {
    frame: Frame,
    ip: ip4::Header,
    tcp: tcp::Header,
    /// Where the IP header, the TCP header and the text begin in the frame, and where the text ends.
    l3: usize,
    l4: usize,
    text: usize,
    end: usize,
    size: usize,
    /// Text cut off so far, and in how many pieces.
    done: usize,
    pieces: u16,
}

impl Cutter {
    /// Begins to cut `frame` up.
    ///
    /// # Errors
    /// The frame, if it is not a large segment, or not of TCP over IPv4.
    pub fn new(frame: Frame) -> Result<Cutter, Frame> {
        let Some((l3, ip, tcp, size)) = read(&frame) else { return Err(frame) };
        let l4 = l3 + ip.ihl_len;
        let (text, end) = (l4 + tcp.header_len, l3 + usize::from(ip.total_len));
        Ok(Cutter { frame, ip, tcp, l3, l4, text, end, size, done: 0, pieces: 0 })
    }

    /// Is all of it cut?
    pub fn is_done(&self) -> bool {
        self.text + self.done >= self.end && self.pieces > 0
    }

    /// Bytes of the longest piece.
    pub fn longest(&self) -> usize {
        self.end.min(self.text + self.size)
    }

    /// The segment itself, whatever was cut off.
    pub fn into_frame(self) -> Frame {
        self.frame
    }

    /// The next piece, in a buffer of `pool`; `None`: it has none, or none so large.
    pub fn cut(&mut self, pool: &Pool) -> Option<Frame> {
        let (from, bytes) = (self.text + self.done, self.frame.bytes());
        let text = bytes.get(from..self.end.min(from + self.size))?;
        let last = from + text.len() == self.end;
        let mut piece = pool.get()?;
        piece.extend(bytes.get(..self.text)?)?;
        let sum = checksum::copy_and_sum(piece.append(text.len())?, text);
        let head = piece.bytes_mut().get_mut(..self.text)?;
        self.write_ip(head.get_mut(self.l3..self.l4)?, text.len());
        self.write_tcp(head.get_mut(self.l4..)?, text.len(), last, sum);
        piece.set_flags(self.frame.flags().without(Flags::TX_WORK));
        self.done += text.len();
        self.pieces = self.pieces.wrapping_add(1);
        Some(piece)
    }

    fn write_ip(&self, header: &mut [u8], text: usize) {
        let total_len = (self.text - self.l3 + text) as u16; // no longer than the packet was
        let id = if self.ip.df && self.ip.id == 0 { 0 } else { self.ip.id.wrapping_add(self.pieces) };
        if let Some(h) = header.first_chunk_mut::<{ ip4::HEADER_LEN }>() {
            [h[2], h[3]] = total_len.to_be_bytes();
            [h[4], h[5]] = id.to_be_bytes();
        }
        ip4::fill_checksum(header);
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
            // The pointer counts from the segment's own number (RFC 9293 3.1).
            match usize::from(urgent).checked_sub(self.done) {
                Some(ahead @ 1..) => urgent = ahead as u16,
                _ => (urgent, flags) = (0, flags & !tcp::Flags::URG.0),
            }
        }
        let len = (header.len() + text) as u16;
        let seq = self.tcp.seq.wrapping_add(self.done as u32);
        if let Some(h) = header.first_chunk_mut::<{ tcp::HEADER_LEN }>() {
            // Not by `tcp::Header::emit`: reserved bits go through as they are.
            [h[4], h[5], h[6], h[7]] = seq.to_be_bytes();
            h[13] = flags;
            [h[16], h[17]] = [0, 0];
            [h[18], h[19]] = urgent.to_be_bytes();
        }
        let pseudo = Partial::pseudo4(self.ip.src, self.ip.dst, Proto::TCP, len);
        let field = pseudo.add(checksum::sum(header)).add(sum).finish();
        if let Some(h) = header.first_chunk_mut::<{ tcp::HEADER_LEN }>() {
            [h[16], h[17]] = field.to_be_bytes();
        }
    }
}

/// What a large segment's headers say: where the IP header is, the headers, the size of a piece's text.
fn read(frame: &Frame) -> Option<(usize, ip4::Header, tcp::Header, usize)> {
    let size = frame.gso_size().filter(|size| *size > 0)?;
    let (ethertype, l3) = l3_place(frame.bytes())?;
    let packet = frame.bytes().get(l3..).filter(|_| ethertype == eth::EtherType::IPV4)?;
    let ip = ip4::Header::parse(packet).ok().filter(|ip| ip.proto == Proto::TCP && !ip.is_fragment())?;
    let segment = packet.get(ip.ihl_len..usize::from(ip.total_len))?;
    let tcp = tcp::Header::parse(segment).ok()?;
    Some((l3, ip, tcp, usize::from(size)))
}

/// The headers of a large segment as virtio wants to know them: where the TCP header begins, and where the text does;
/// `None`: it is none.
pub fn places(frame: &Frame) -> Option<(usize, usize)> {
    let (l3, ip, tcp, _) = read(frame)?;
    Some((l3 + ip.ihl_len, l3 + ip.ihl_len + tcp.header_len))
}

#[cfg(test)]
pub(crate) mod tests;
