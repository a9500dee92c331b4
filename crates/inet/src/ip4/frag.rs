//! IPv4 fragmentation: from `ip4::output` and `ip4::forward`, a packet above the next link's MTU; back, fragments.
//!
//! RFC 791 3.2: every fragment but the last carries a multiple of 8 bytes and MF; options go to the first fragment, and
//! to the later ones only with their copied bit set. A fragment may be cut again: its offset and its MF carry on.
//! All fragments are made before the first is handed out: all of them, or none. The original comes back to
//! the caller, who ends it (`Ip4Fragmented`) and who has put an identification into the header (RFC 6864 4).
//!
//! Not from here: the decision to fragment, the ICMP error for a DF packet, the link header (the pool's headroom).

#[cfg(test)]
mod tests;

use buf::{Flags, Frame, Pool};
use std::fmt;
use wire::checksum::Partial;
use wire::ip4::{self, Header, Opt};
use wire::{Proto, tcp, udp};

/// Why a packet was not cut. Nothing has been handed out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FragError {
    /// The header says don't fragment (answer: ICMP fragmentation needed).
    DontFragment,
    /// No 8 bytes of payload fit behind the header (every link must take 68 bytes: RFC 791 3.2).
    MtuTooSmall,
    /// The pool ran out before the last fragment.
    NoBuffer,
    /// The packet is a fragment that reaches beyond 65,535 bytes: its later parts would have no offset.
    Malformed,
}

impl fmt::Display for FragError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FragError::DontFragment => "the packet may not be fragmented",
            FragError::MtuTooSmall => "the MTU leaves no room for 8 bytes of payload",
            FragError::NoBuffer => "not enough buffers for all fragments",
            FragError::Malformed => "the packet is a fragment that ends beyond 65,535 bytes",
        })
    }
}

impl std::error::Error for FragError {}

/// Cuts `packet`, whose bytes begin with the IP header that `header` was parsed from, into fragments of at most `mtu`
/// bytes (or as much as a buffer of `pool` holds), gives them to `out` in order, and the original back.
///
/// A transport checksum that was left to the port (`TX_L4_CSUM`) is computed first: a port sees a part only.
///
/// # Errors
/// The original and a [`FragError`]; `out` has not been called.
pub fn fragment(
    mut packet: Frame,
    header: &Header,
    mtu: usize,
    pool: &Pool,
    out: &mut dyn FnMut(Frame),
) -> Result<Frame, (Frame, FragError)> {
    if header.df {
        return Err((packet, FragError::DontFragment));
    }
    if packet.flags().has(Flags::TX_L4_CSUM) && finish_checksum(&mut packet, header).is_none() {
        return Err((packet, FragError::NoBuffer));
    }
    match cut(&packet, header, mtu, pool) {
        Ok(fragments) => {
            fragments.into_iter().for_each(out);
            Ok(packet)
        }
        Err(why) => Err((packet, why)),
    }
}

fn cut(packet: &Frame, header: &Header, mtu: usize, pool: &Pool) -> Result<Vec<Frame>, FragError> {
    let options = packet.bytes().get(ip4::HEADER_LEN..header.ihl_len).unwrap_or_default();
    let mut rest = header.payload(packet.bytes());
    if usize::from(header.frag_off) + rest.len() > usize::from(u16::MAX) - header.ihl_len {
        return Err(FragError::Malformed);
    }
    let room = mtu.min(pool.size() - pool.headroom());
    let blocks = |ihl_len: usize| room.saturating_sub(ihl_len) & !7;
    if blocks(header.ihl_len) == 0 {
        return Err(FragError::MtuTooSmall);
    }

    let mut fragments = Vec::with_capacity(rest.len().div_ceil(blocks(header.ihl_len)));
    let mut next = *header;
    let later_options = copied(options);
    let mut options = options;
    loop {
        let fits = next.ihl_len + rest.len() <= room;
        let (payload, after) = rest.split_at_checked(blocks(next.ihl_len)).filter(|_| !fits).unwrap_or((rest, &[]));
        next.mf = !after.is_empty() || header.mf;
        next.total_len = (next.ihl_len + payload.len()) as u16; // both came out of a packet of at most 65,535 bytes
        let fragment = build(pool, &next, options, payload).ok_or(FragError::NoBuffer)?;
        fragments.push(facts_of(packet, fragment));
        if after.is_empty() {
            return Ok(fragments);
        }
        rest = after;
        options = &later_options;
        next.ihl_len = ip4::HEADER_LEN + options.len();
        next.frag_off += payload.len() as u16; // below 65,535: checked at the top
    }
}

fn build(pool: &Pool, header: &Header, options: &[u8], payload: &[u8]) -> Option<Frame> {
    let mut frame = pool.get()?;
    frame.mark_l3();
    header.emit(frame.append(ip4::HEADER_LEN)?.first_chunk_mut()?);
    if !options.is_empty() {
        frame.extend(options)?;
        ip4::fill_checksum(frame.bytes_mut());
    }
    frame.extend(payload)?;
    Some(frame)
}

/// What was known about the packet and is true of its part; all checksums are in place.
fn facts_of(packet: &Frame, mut fragment: Frame) -> Frame {
    fragment.set_flags(packet.flags().without(Flags::RX_L4_OK).without(Flags::TX_IP_CSUM));
    fragment
}

/// The options that later fragments carry too, padded to whole words; none from a malformed one on.
fn copied(options: &[u8]) -> Vec<u8> {
    const COPIED: u8 = 0x80;
    let mut kept = Vec::new();
    let mut rest = options;
    while let Some((&kind, after)) = rest.split_first() {
        if kind == Opt::END {
            break;
        }
        if kind == Opt::NOP {
            rest = after;
            continue;
        }
        let len = after.first().map_or(0, |&len| usize::from(len));
        let Some((option, next)) = rest.split_at_checked(len).filter(|_| len >= 2) else { break };
        if kind & COPIED != 0 {
            kept.extend_from_slice(option);
        }
        rest = next;
    }
    kept.resize(kept.len().next_multiple_of(4), Opt::END);
    kept
}

/// Computes the checksum that a port was to fill in. Other protocols and fragments have none to offload.
/// `None`: the packet shares its buffer and there is no other one, or is shorter than its header says.
pub(crate) fn finish_checksum(packet: &mut Frame, header: &Header) -> Option<()> {
    packet.set_flags(packet.flags().without(Flags::TX_L4_CSUM));
    if header.is_fragment() {
        return Some(());
    }
    packet.make_own().then_some(())?;
    let segment = packet.bytes_mut().get_mut(header.ihl_len..usize::from(header.total_len))?;
    let pseudo = Partial::pseudo4(header.src, header.dst, header.proto, segment.len() as u16);
    match header.proto {
        Proto::TCP => tcp::fill_checksum(pseudo, segment),
        Proto::UDP => {
            let datagram = udp::Header::parse(segment).ok()?;
            datagram.with_checksum(pseudo, datagram.payload(segment)).emit(segment.first_chunk_mut()?);
        }
        _ => {}
    }
    Some(())
}
