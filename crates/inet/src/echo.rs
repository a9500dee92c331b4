//! Echo requests sent by this host and the answers to them, for `ping` and `traceroute`.
//!
//! Each run of `ping` or `traceroute` opens an exchange. All of its requests contain the identifier
//! of the exchange (RFC 792, RFC 4443 4.1). Replies to these requests and ICMP errors about them
//! are queued in the exchange until they are read. The identifier is random, so an off-path
//! attacker that does not see the requests cannot forge answers.

mod exchanges;

pub(crate) use exchanges::Exchanges;
pub use exchanges::{ANSWERS_MAX, Answer, EXCHANGES_MAX, Kind};

use crate::Stack;
use crate::iface::IfaceId;
use crate::ip4::{Outgoing, OutputError};
use crate::ip6::Outgoing6;
use lock::{Cx, Locks};
use std::collections::VecDeque;
use std::net::IpAddr;
use wire::{Proto, icmp4, icmp6};

/// Maximum length in bytes of an ICMP message with its header: the largest payload of an IPv4
/// packet.
const LONGEST: usize = 65_535 - wire::ip4::HEADER_LEN;

/// Parameters of an echo request.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Destination.
    pub dst: IpAddr,
    /// Source address; `None`: an address of the outgoing interface.
    pub src: Option<IpAddr>,
    /// Outgoing interface, needed for link-local destinations; `None`: the interface of the route.
    pub iface: Option<IfaceId>,
    /// Identifier of the exchange.
    pub ident: u16,
    /// Sequence number.
    pub seq: u16,
    /// TTL or hop limit; `None`: the host's default.
    pub ttl: Option<u8>,
    /// True to forbid fragmentation; for IPv4, this sets Don't Fragment.
    pub whole: bool,
    /// Payload of the request; the reply contains a copy.
    pub payload: &'a [u8],
}

impl<L: Locks> Stack<L> {
    /// Opens an exchange and returns its identifier; `None` if [`EXCHANGES_MAX`] exchanges are
    /// open.
    pub fn open_echo(&self, cx: Cx) -> Option<u16> {
        let mut exchanges = self.exchanges.lock(cx);
        if exchanges.0.len() >= EXCHANGES_MAX {
            return None;
        }
        let draw = |n: u64| (self.secret.hash2(cx.now.nanos(), n) >> 16) as u16;
        let ident = (0..).map(draw).find(|ident| !exchanges.0.iter().any(|(other, _)| other == ident))?;
        exchanges.0.push((ident, VecDeque::new()));
        Some(ident)
    }

    /// Closes the exchange `ident` and discards its queued answers.
    pub fn close_echo(&self, cx: Cx, ident: u16) {
        self.exchanges.lock(cx).0.retain(|(other, _)| *other != ident);
    }

    /// Removes and returns the oldest queued answer of the exchange `ident`.
    pub fn take_answer(&self, cx: Cx, ident: u16) -> Option<Answer> {
        let mut exchanges = self.exchanges.lock(cx);
        exchanges.0.iter_mut().find(|(other, _)| *other == ident)?.1.pop_front()
    }

    /// Sends an echo request, or queues it until the MAC address of the next hop is resolved. If no
    /// buffer is free, the request is lost without an error.
    ///
    /// # Errors
    /// [`OutputError`] if the request was not sent, for example because there is no route or
    /// because it is too long.
    #[inline(never)]
    pub fn send_echo(&self, cx: Cx, request: &Request<'_>) -> Result<(), OutputError> {
        let Request { dst, src, iface, ident, seq, ttl, whole, payload } = *request;
        let len = icmp4::HEADER_LEN + payload.len();
        if len > LONGEST {
            return Err(OutputError::TooBig(LONGEST));
        }
        // The checksum of an IPv6 message covers its source, so the source is chosen first.
        let own6 = match (dst, src) {
            (IpAddr::V6(_), Some(IpAddr::V6(src))) => Some(src),
            (IpAddr::V6(dst), _) => Some(self.source6_towards(cx, dst, iface).ok_or(OutputError::NoRoute)?),
            _ => None,
        };
        let small = self.pool.size() > len + 128;
        let frame = if small { self.make_frame(cx) } else { self.make_large_frame(cx) };
        let Some(mut frame) = frame else { return Ok(()) }; // no free buffer: the request is lost
        let written = frame.append(len).and_then(|room| match (dst, own6) {
            (IpAddr::V6(dst), Some(own)) => {
                icmp6::emit_echo(icmp6::ty::ECHO_REQUEST, (ident, seq), (own, dst), payload, room)
            }
            _ => icmp4::emit_echo(icmp4::ty::ECHO_REQUEST, ident, seq, payload, room),
        });
        if written.is_none() {
            self.drop_as_bug(cx, frame, "the echo request does not fit into a new frame");
            return Err(OutputError::TooBig(LONGEST));
        }
        let sent = match dst {
            IpAddr::V4(dst) => {
                let ttl = ttl.unwrap_or(self.sysctls.ttl.get() as u8);
                let src = match src {
                    Some(IpAddr::V4(src)) => Some(src),
                    _ => None,
                };
                self.ip4_output(cx, frame, &Outgoing { src, iface, df: whole, ..Outgoing::new(dst, Proto::ICMP, ttl) })
            }
            IpAddr::V6(dst) => {
                let hop_limit = ttl.unwrap_or(self.sysctls.hop_limit6.get() as u8);
                let out = Outgoing6::new(dst, Proto::IPV6_ICMP, hop_limit);
                self.ip6_output(cx, frame, &Outgoing6 { src: own6, iface, whole, ..out })
            }
        };
        self.flush(cx);
        sent
    }

    /// Queues an answer for the exchange `ident`. Returns `false` if there is no such exchange or
    /// [`ANSWERS_MAX`] answers are queued already.
    pub(crate) fn echo_answered(&self, cx: Cx, ident: u16, answer: Answer) -> bool {
        let mut exchanges = self.exchanges.lock(cx);
        let found = exchanges.0.iter_mut().find(|(other, _)| *other == ident);
        let Some((_, answers)) = found.filter(|(_, answers)| answers.len() < ANSWERS_MAX) else { return false };
        answers.push_back(answer);
        true
    }

    /// Queues an ICMP error about the echo request `quoted` for the exchange that sent the request.
    /// Returns `false` if the error was not queued, for example because `quoted` is not an echo
    /// request.
    pub(crate) fn echo_failed(&self, cx: Cx, from: IpAddr, ttl: u8, quoted: &[u8], kind: Kind) -> bool {
        let request = if from.is_ipv6() { icmp6::ty::ECHO_REQUEST } else { icmp4::ty::ECHO_REQUEST };
        let Some(&[ty, _, _, _, i0, i1, s0, s1]) = quoted.first_chunk::<8>() else { return false };
        let (ident, seq) = (u16::from_be_bytes([i0, i1]), u16::from_be_bytes([s0, s1]));
        let answer = Answer { at: cx.now, from, seq, ttl, len: quoted.len(), kind };
        ty == request && self.echo_answered(cx, ident, answer)
    }
}
