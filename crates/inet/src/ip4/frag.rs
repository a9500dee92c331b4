//! IPv4 fragmentation of packets that exceed the MTU of the outgoing interface or of the path, for
//! `ip4::output` and `ip4::forward`.
//!
//! The fragments follow RFC 791 3.2. Every fragment but the last has the MF flag and a payload
//! length that is a multiple of 8 bytes. The first fragment contains all options; later ones
//! contain only options with the copied bit. A fragment may be fragmented again. The offsets of the
//! new fragments then start at its offset, and the last new fragment keeps its MF flag. All
//! fragments are built before the first is output, so either all or none are sent. The original
//! packet is returned to the caller, which drops it with the reason `Ip4Fragmented`. The caller
//! must have set the identification in the header (RFC 6864 4).
//!
//! This module does not decide whether to fragment, does not send the ICMP error for a packet with
//! DF, and does not write link headers; the headroom of the pool leaves space for them.

#[cfg(test)]
mod tests;

use buf::{Flags, Frame, Pool};
use std::fmt;
use wire::checksum::Partial;
use wire::ip4::{self, Header, Opt};
use wire::{Proto, tcp, udp};

/// Reason why a packet was not fragmented. No fragment has been sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FragError {
    /// DF is set. A router must send the ICMP error "fragmentation needed".
    DontFragment,
    /// The MTU leaves less than 8 bytes of payload after the header. Every link must support
    /// packets of 68 bytes (RFC 791 3.2).
    MtuTooSmall,
    /// The pool has not enough free buffers for all fragments.
    NoBuffer,
    /// The packet is a fragment whose payload extends beyond offset 65,535, so later parts of it
    /// would have no valid offset.
    Malformed,
}

impl fmt::Display for FragError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FragError::DontFragment => "the packet is too long for the MTU and has DF set",
            FragError::MtuTooSmall => "the MTU is too small: at least 8 bytes of payload must fit",
            FragError::NoBuffer => "not enough free buffers for all fragments",
            FragError::Malformed => "the packet is a fragment that extends beyond 65,535 bytes",
        })
    }
}

impl std::error::Error for FragError {}

/// Splits `packet` into fragments of at most `mtu` bytes, or of the size of a buffer of `pool` if
/// that is smaller. `packet` must begin with the IP header that `header` was parsed from. Passes
/// the fragments to `out` in order and returns the original packet.
///
/// If the transport checksum was left to the port (`TX_L4_CSUM`), it is computed first, since the
/// port would receive only parts of the data.
///
/// # Errors
///
/// The original packet and a [`FragError`]; `out` has not been called.
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
        next.total_len = (next.ihl_len + payload.len()) as u16; // part of a packet of at most 65,535 bytes
        let fragment = build(pool, &next, options, payload).ok_or(FragError::NoBuffer)?;
        fragments.push(facts_of(packet, fragment));
        if after.is_empty() {
            return Ok(fragments);
        }
        rest = after;
        options = &later_options;
        next.ihl_len = ip4::HEADER_LEN + options.len();
        next.frag_off += payload.len() as u16; // below 65,535: checked above
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

/// Copies to `fragment` the flags of `packet` that are also true for a fragment. All checksums are
/// already computed.
fn facts_of(packet: &Frame, mut fragment: Frame) -> Frame {
    fragment.set_flags(packet.flags().without(Flags::RX_L4_OK).without(Flags::TX_IP_CSUM));
    fragment
}

/// Returns the options with the copied bit, which later fragments contain, padded to a multiple of
/// four bytes. Stops at a malformed option.
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

/// Computes the transport checksum if it was left to the port, which is possible only for TCP and
/// UDP packets that are not fragments. Returns `None` if the packet is shorter than its header
/// states, or if it shares its buffer and no buffer is available for a copy.
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
