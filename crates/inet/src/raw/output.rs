//! Output of raw and ICMP sockets: checks and completes the message, which `udp::output` then sends
//! like any datagram.

use super::{RawKind, RawState};
use crate::Stack;
use crate::demux::Addr;
use crate::family::Family;
use crate::ip::exit::OutputError;
use crate::udp::SendError;
use buf::Frame;
use lock::{Cx, Locks};
use std::net::Ipv4Addr;
use wire::{L4Port, Proto, checksum, icmp4, ip4};

/// Header that precedes the payload of a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Upper {
    /// A UDP header, written by the stack.
    Udp,
    /// An ICMP echo request header, written by the application; the stack fills in identifier and
    /// checksum.
    Icmp,
    /// No header: the payload of the application follows the IP header of the stack.
    Raw { proto: Proto, checksum_at: Option<u16> },
    /// An IPv4 header, written by the application.
    Included,
}

impl Upper {
    pub(crate) fn of(state: Option<&RawState>) -> Upper {
        match state {
            None => Upper::Udp,
            Some(RawState { kind: RawKind::Icmp, .. }) => Upper::Icmp,
            Some(RawState { header_included: true, .. }) => Upper::Included,
            Some(RawState { kind: RawKind::Raw(proto), checksum_at, .. }) => {
                Upper::Raw { proto: *proto, checksum_at: *checksum_at }
            }
        }
    }

    /// Checks the message of the application.
    ///
    /// # Errors
    /// [`SendError::Invalid`] if the message is not an echo request, is too short for its checksum,
    /// or has no IPv4 header.
    pub(crate) fn check<A: Family>(self, message: &[u8]) -> Result<(), SendError> {
        let is_sound = match self {
            Upper::Udp => true,
            Upper::Icmp => message.len() >= icmp4::HEADER_LEN && message.starts_with(&[A::ECHO_REQUEST, 0]),
            Upper::Raw { checksum_at, .. } => checksum_at.is_none_or(|at| message.len() >= usize::from(at) + 2),
            Upper::Included => match message.first_chunk::<{ ip4::HEADER_LEN }>() {
                Some(header) => {
                    let (version, ihl_len) = (header[0] >> 4, usize::from(header[0] & 0xf) * 4);
                    version == 4 && (ip4::HEADER_LEN..=message.len()).contains(&ihl_len) && header[8] != 0
                }
                None => false,
            },
        };
        if is_sound { Ok(()) } else { Err(SendError::Invalid) }
    }

    pub(crate) fn proto<A: Family>(self) -> Proto {
        match self {
            Upper::Udp => Proto::UDP,
            Upper::Icmp => A::ICMP,
            Upper::Raw { proto, .. } => proto,
            Upper::Included => Proto(0), // contained in the application's header
        }
    }
}

impl<L: Locks> Stack<L> {
    /// Fills in the fields of a message that the stack sets. [`Upper::check`] has accepted the
    /// message, which is sent from `src` to `dst`.
    ///
    /// In an IPv4 header of the application (`IP_HDRINCL`), these fields are the total length and
    /// the checksum, and also source address and identification if they are 0, as in Linux and
    /// FreeBSD.
    ///
    /// # Errors
    /// [`SendError::Output`] if an included header contains addresses that may not leave this host.
    pub(crate) fn fill_in<A: Family>(
        &self,
        cx: Cx,
        message: &mut Frame,
        upper: Upper,
        ident: L4Port,
        (src, dst): (A, A),
    ) -> Result<(), SendError> {
        let bytes = message.bytes_mut();
        let len = bytes.len();
        match upper {
            Upper::Udp => {}
            Upper::Icmp => {
                if let Some([_, _, sum0, sum1, i0, i1, ..]) = bytes.first_chunk_mut::<{ icmp4::HEADER_LEN }>() {
                    [*i0, *i1] = ident.0.to_be_bytes();
                    [*sum0, *sum1] = [0, 0];
                }
                fill_checksum(bytes, 2, A::icmp_seed(src, dst, len as u32));
            }
            Upper::Raw { proto, checksum_at: Some(at) } => {
                fill_checksum(bytes, usize::from(at), A::pseudo(src, dst, proto, len as u32));
            }
            Upper::Raw { .. } => {}
            Upper::Included => {
                let Some(header) = bytes.first_chunk_mut::<{ ip4::HEADER_LEN }>() else { return Ok(()) };
                [header[2], header[3]] = (len as u16).to_be_bytes();
                if header[12..16] == [0; 4]
                    && let Some(src) = src.addr().to_v4()
                {
                    header[12..16].copy_from_slice(&src.octets());
                }
                let [.., s0, s1, s2, s3, d0, d1, d2, d3] = *header;
                let (src, dst) = (Ipv4Addr::new(s0, s1, s2, s3), Ipv4Addr::new(d0, d1, d2, d3));
                if [header[4], header[5]] == [0, 0] {
                    let id = self.idents.lock(cx).next(src, dst, Proto(header[9]), cx.now);
                    [header[4], header[5]] = id.to_be_bytes();
                }
                let ihl_len = usize::from(header[0] & 0xf) * 4;
                ip4::fill_checksum(bytes.get_mut(..ihl_len).unwrap_or_default());
                let is_here = self.owns(cx, Addr::v4(dst)) == Some(true);
                if !is_here && !u32::is_for_links(src.to_bits(), dst.to_bits()) {
                    return Err(SendError::Output(OutputError::NoRoute));
                }
            }
        }
        Ok(())
    }
}

/// Writes the checksum of `message` at offset `at`. `seed` is the partial checksum of its pseudo
/// header.
fn fill_checksum(message: &mut [u8], at: usize, seed: checksum::Partial) {
    if let Some(field) = message.get_mut(at..at + 2) {
        field.fill(0);
    }
    let sum = seed.add(checksum::sum(message)).finish();
    if let Some(field) = message.get_mut(at..at + 2) {
        field.copy_from_slice(&sum.to_be_bytes());
    }
}
