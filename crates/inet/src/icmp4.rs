//! ICMP for IPv4: echo, errors in both directions (RFC 792, RFC 1122 3.2.2, RFC 1812 4.3).
//!
//! No error is sent about an ICMP error, a broadcast, a multicast, a fragment other than the first,
//! or a packet whose source address does not identify a single host. Errors are rate limited per
//! destination. The limit varies at random, so that an attacker can neither measure it (SAD DNS)
//! nor exhaust it for other destinations. A received error is reported to the socket that sent the
//! quoted packet.

mod cause;
mod redirect;

pub(crate) use cause::{Cause, plateau};

use crate::Stack;
use crate::echo::{Answer, Kind};
use crate::ends::Domain;
use crate::iface::Iface;
use crate::ip4::pmtu::Noted;
use crate::raw::cut_options;
use crate::route::Via;
use crate::udp::{SoError, came_by};
use buf::{Flags, Frame};
use lock::{Cx, Locks};
use stats::DropReason;
use std::net::Ipv4Addr;
use tcp::IcmpNotice;
use wire::control::ControlClass;
use wire::icmp4::{self, Inner, Message, Problem, unreachable};
use wire::{Malformed, Proto, ip4};

/// Converts a socket error to a notice for TCP. `mtu` is the reported path MTU in bytes; 0 if none
/// was reported.
fn notice(error: SoError, mtu: usize) -> IcmpNotice {
    match error {
        SoError::Refused | SoError::ProtocolOption => IcmpNotice::Refused,
        SoError::HostUnreachable | SoError::NetUnreachable => IcmpNotice::Unreachable,
        SoError::MessageSize => IcmpNotice::TooBig { mss: crate::tcp::mss_of::<u32>(mtu) },
    }
}

/// Precedence of ICMP errors (RFC 1812 4.3.2.5), in the upper three bits of the type of service.
const INTERNETWORK_CONTROL: u8 = 0xc0;
/// Bits of the type of service that an error copies from the packet that caused it (RFC 1812
/// 4.3.2.5), without the bits that are now ECN (RFC 3168).
const TOS: u8 = 0x1c;
impl<L: Locks> Stack<L> {
    pub(crate) fn icmp4_input(&self, cx: Cx, iface: Option<&Iface<L>>, mut packet: Frame, header: &ip4::Header) {
        self.count(cx).icmp4.received.bump();
        packet.pull(header.ihl_len);
        let message = Message::parse(packet.bytes());
        if matches!(
            message,
            Ok(Message::Unreachable { .. } | Message::TimeExceeded { .. } | Message::ParameterProblem { .. })
        ) {
            self.punt_copy(cx, iface, ControlClass::Icmp, &packet);
        }
        let why = match message {
            Err(Malformed::BadChecksum { .. }) => DropReason::IcmpBadChecksum,
            Err(_) => DropReason::IcmpMalformed,
            Ok(Message::EchoRequest { .. }) => return self.echo(cx, packet, header),
            Ok(Message::Unreachable { code, next_mtu, inner }) => {
                let kind = match code {
                    unreachable::FRAG_NEEDED => Kind::TooBig(next_mtu.into()),
                    code => Kind::Unreachable(code),
                };
                self.echo_error_input(cx, header, &inner, kind);
                if !self.tunnel_error_input(cx, Problem::Unreachable { code, next_mtu }, &inner) {
                    self.unreachable(cx, code, next_mtu, &inner);
                }
                DropReason::IcmpConsumed
            }
            Ok(Message::TimeExceeded { code, inner }) => {
                self.echo_error_input(cx, header, &inner, Kind::TimeExceeded);
                if !self.tunnel_error_input(cx, Problem::TimeExceeded { code }, &inner) {
                    self.deliver_error_to_socket(cx, &inner, SoError::HostUnreachable, 0);
                }
                DropReason::IcmpConsumed
            }
            Ok(Message::ParameterProblem { inner, .. }) => {
                self.echo_error_input(cx, header, &inner, Kind::Error);
                self.deliver_error_to_socket(cx, &inner, SoError::ProtocolOption, 0);
                DropReason::IcmpConsumed
            }
            Ok(Message::Redirect { gateway, inner, .. }) => self.redirected(cx, iface, header.src, gateway, &inner),
            Ok(Message::EchoReply { ident, seq, .. }) => {
                let ends = (header.dst.to_bits(), header.src.to_bits());
                packet = match self.echo_input::<u32>(cx, came_by(iface), ident, ends, packet, cut_options) {
                    Some(packet) => packet,
                    None => return,
                };
                let (from, len) = (header.src.into(), packet.len());
                let answer = Answer { at: cx.now, from, seq, ttl: header.ttl, len, kind: Kind::Reply };
                if self.echo_answered(cx, ident, answer) {
                    DropReason::IcmpConsumed
                } else {
                    return self.punt_or_drop(cx, iface, packet, DropReason::IcmpIgnored);
                }
            }
            Ok(Message::SourceQuench) => DropReason::IcmpIgnored,
            Ok(Message::Other { .. }) => return self.punt_or_drop(cx, iface, packet, DropReason::IcmpIgnored),
        };
        self.drop_frame(cx, packet, why);
    }

    /// Queues an error in the exchange that sent the quoted packet `inner`, if that is an echo
    /// request.
    fn echo_error_input(&self, cx: Cx, header: &ip4::Header, inner: &Inner<'_>, kind: Kind) {
        if inner.header.proto == Proto::ICMP && inner.header.frag_off == 0 {
            self.echo_failed(cx, header.src.into(), header.ttl, inner.payload, kind);
        }
    }

    /// Answers an echo request (RFC 1122 3.2.2.6). The reply reuses the frame of the request.
    fn echo(&self, cx: Cx, mut packet: Frame, header: &ip4::Header) {
        let to_all = !matches!(self.ways.lookup(cx, header.dst).map(|h| h.via), Some(Via::Local(_)));
        if (to_all || packet.flags().has(Flags::LINK_BROADCAST)) && !self.sysctls.broadcast_echo.on() {
            return self.drop_frame(cx, packet, DropReason::IcmpBroadcastEcho);
        }
        let looped = packet.flags().has(Flags::LOOPBACK);
        if !looped && self.is_own(cx, header.src) {
            return self.drop_frame(cx, packet, DropReason::Ip4OwnSource);
        }
        if !self.limiter.lock(cx).echo_allowed(self.sysctls.echo_rate.get() as u64, cx.now) {
            return self.drop_frame(cx, packet, DropReason::IcmpRateLimited);
        }
        if icmp4::echo_reply_in_place(packet.bytes_mut()).is_none() {
            return self.drop_frame(cx, packet, DropReason::IcmpMalformed);
        }
        let options = self.echoed_options(cx, &packet, header);
        packet.set_flags(Flags::default());
        let mut reply = self.reply_to(header.dst, header.src, Proto::ICMP);
        if to_all {
            reply.src = None;
        }
        reply.tos = header.tos;
        // Copies the options, from the last word to the first, into the space that the header of
        // the request occupied.
        for word in options.as_chunks::<4>().0.iter().rev() {
            let Some(room) = packet.push::<4>() else {
                packet.pull(std::mem::take(&mut reply.options_len));
                break;
            };
            *room = *word;
            reply.options_len += word.len();
        }
        if self.ip4_output(cx, packet, &reply).is_ok() {
            self.count(cx).icmp4.echoes_answered.bump();
        }
    }

    /// Returns the Record Route and Timestamp options for the reply to an echo request (RFC 1122
    /// 3.2.2.6). This host adds one entry as the receiver and one as the sender, as Linux does.
    /// Other options are omitted. An option with space for only a part of an entry is omitted too.
    fn echoed_options(&self, cx: Cx, request: &Frame, header: &ip4::Header) -> Vec<u8> {
        let mut kept = Vec::new();
        if header.ihl_len <= ip4::HEADER_LEN {
            return kept;
        }
        let addr = if self.is_local(cx, header.dst) { header.dst } else { Ipv4Addr::UNSPECIFIED };
        let scribe = ip4::Scribe { addr, millis: self.millis_of_options(cx) };
        let options = request.l3_bytes().get(ip4::HEADER_LEN..header.ihl_len).unwrap_or_default();
        let is_own = |addr| self.is_own(cx, addr);
        for kind in [ip4::Opt::RECORD_ROUTE, ip4::Opt::TIMESTAMP] {
            let Some(option) = ip4::raw_options(options).find(|option| option.first() == Some(&kind)) else { continue };
            let mut option = option.to_vec();
            let mut recorded = ip4::record_option(&mut option, scribe, &is_own).is_ok();
            // If the option is full after the receiver's entry, the sender's entry is omitted. This
            // does not increment the overflow count of the option.
            if option.get(2).is_some_and(|pointer| usize::from(*pointer) <= option.len()) {
                recorded &= ip4::record_option(&mut option, scribe, &is_own).is_ok();
            }
            if recorded {
                kept.append(&mut option);
            }
        }
        kept.resize(kept.len().next_multiple_of(4), ip4::Opt::END);
        kept
    }

    /// Returns whether `addr` is an address of this host or the broadcast address of one of its
    /// links.
    pub(crate) fn is_own(&self, cx: Cx, addr: Ipv4Addr) -> bool {
        matches!(self.ways.lookup(cx, addr).map(|hop| hop.via), Some(Via::Local(_) | Via::Broadcast(_)))
    }

    fn unreachable(&self, cx: Cx, code: u8, next_mtu: u16, inner: &Inner<'_>) {
        let error = match code {
            unreachable::PORT => SoError::Refused,
            unreachable::PROTOCOL => SoError::Refused,
            unreachable::FRAG_NEEDED => {
                // The path MTU is accepted only if one of our sockets can have sent the quoted
                // packet (RFC 5927 7).
                let reported = if next_mtu == 0 { plateau(inner.header.total_len) } else { usize::from(next_mtu) };
                if self.deliver_error_to_socket(cx, inner, SoError::MessageSize, reported) {
                    self.note_path(cx, inner.header.dst, reported);
                }
                return;
            }
            unreachable::NET => SoError::NetUnreachable,
            _ => SoError::HostUnreachable,
        };
        self.deliver_error_to_socket(cx, inner, error, 0);
    }

    /// Stores `mtu` as the path MTU to `dst`, in bytes, if it is lower than the current one.
    pub(crate) fn note_path(&self, cx: Cx, dst: Ipv4Addr, mtu: usize) {
        let noted = self.path_mtus.lock(cx).note(dst, mtu, cx.now);
        if noted != Noted::Nothing {
            self.changed();
        }
        self.count(cx).ip4.path_mtus_evicted.add(u64::from(matches!(noted, Noted::InPlaceOf(_))));
    }

    /// Reports an error about the packet `inner` to the socket that sent it. The error was received
    /// in an ICMP message or found by this host itself.
    pub(crate) fn deliver_error(&self, cx: Cx, problem: Problem, inner: &Inner<'_>) {
        match problem {
            Problem::Unreachable { code, next_mtu } => self.unreachable(cx, code, next_mtu, inner),
            _ => drop(self.deliver_error_to_socket(cx, inner, SoError::HostUnreachable, 0)),
        }
    }

    /// Reports an error to the socket that sent the quoted packet `inner`. Returns whether there is
    /// such a socket. `mtu` is the reported path MTU in bytes; 0 if none was reported.
    ///
    /// There is no such socket if the source is not one of our addresses. For a fragment other than
    /// the first, no socket is found, since it contains no ports.
    fn deliver_error_to_socket(&self, cx: Cx, inner: &Inner<'_>, error: SoError, mtu: usize) -> bool {
        self.report_to_socket(cx, inner, error, notice(error, mtu))
    }

    /// Reports an error to the socket that sent the quoted packet `inner`: `what` to a TCP socket,
    /// `error` to any other. Returns whether there is such a socket.
    fn report_to_socket(&self, cx: Cx, inner: &Inner<'_>, error: SoError, what: IcmpNotice) -> bool {
        let header = &inner.header;
        let ours = header.frag_off == 0 && self.is_local(cx, header.src);
        let reported = match header.proto {
            Proto::UDP if ours => self.udp_error(cx, header, inner.payload, error),
            Proto::TCP if ours => self.tcp_error(cx, header, inner.payload, what),
            proto if ours => {
                let ends = (header.src.to_bits(), header.dst.to_bits());
                self.raw_error::<u32>(cx, proto, ends, inner.payload, error)
            }
            _ => false,
        };
        self.count(cx).icmp4.errors_delivered.add(u64::from(reported));
        reported
    }

    /// Sends an error about `packet`, whose bytes begin at the IP header, unless a rule of RFC 1122
    /// or the rate limit forbids it.
    pub(crate) fn icmp4_error(&self, cx: Cx, packet: &Frame, cause: Cause) {
        self.send_error(cx, packet.l3_bytes(), packet.flags(), cause);
    }

    /// Sends an error about a packet that begins with `quoted`, which may be truncated. An error
    /// about a packet of this host is reported to the socket that sent it instead.
    #[inline(never)]
    pub(crate) fn send_error(&self, cx: Cx, quoted: &[u8], flags: Flags, cause: Cause) {
        let counters = &self.count(cx).icmp4;
        let Some(header) = self.may_send_error(cx, quoted, flags) else {
            return counters.errors_forbidden.bump();
        };
        if self.is_own(cx, header.src) {
            // The packet is our own: its next hop did not answer, or this host is the destination
            // and has no receiver for it. The error is reported directly to the socket that sent
            // the packet.
            if let (Ok(inner), Some(error)) = (Inner::parse(quoted), cause.for_socket())
                && !self.tunnel_error_input(cx, cause.problem(), &inner)
            {
                if let Problem::Unreachable { code, .. } = cause.problem() {
                    self.echo_error_input(cx, &header, &inner, Kind::Unreachable(code));
                }
                let what = if matches!(cause, Cause::NoNeighbor) { IcmpNotice::NoNeighbor } else { notice(error, 0) };
                self.report_to_socket(cx, &inner, error, what);
            }
            return;
        }
        if !self.limiter.lock(cx).error_allowed(header.src, self.sysctls.icmp_rate.get() as u64, cx.now) {
            return counters.errors_limited.bump();
        }
        let Some(mut frame) = self.make_frame(cx) else { return };
        // The error quotes as much of the packet as fits into 576 bytes with the IP and ICMP
        // headers (RFC 1812 4.3.2.3).
        let most = frame.tailroom().saturating_sub(icmp4::HEADER_LEN).min(548);
        let quoted = quoted.get(..most).unwrap_or(quoted);
        let written = match frame.append(icmp4::HEADER_LEN + quoted.len()) {
            Some(room) => icmp4::emit_error(cause.problem(), quoted, room),
            None => None,
        };
        if written.is_none() {
            return self.drop_as_bug(cx, frame, "the ICMP error does not fit into a new frame");
        }
        // The source is the destination of the quoted packet if that is one of our addresses.
        // Otherwise it is an address of the outgoing interface.
        let src = self.is_local(cx, header.dst).then_some(header.dst);
        let tos = INTERNETWORK_CONTROL | header.tos & TOS;
        let out = crate::ip4::Outgoing { src, tos, ..self.reply_to(header.dst, header.src, Proto::ICMP) };
        if self.ip4_output(cx, frame, &out).is_ok() {
            counters.errors_sent.bump();
            counters.redirects_sent.add(u64::from(matches!(cause, Cause::Redirect(_))));
        }
    }

    /// Returns whether `addr` is one of this host's addresses.
    pub(crate) fn is_local(&self, cx: Cx, addr: Ipv4Addr) -> bool {
        matches!(self.ways.lookup(cx, addr).map(|hop| hop.via), Some(Via::Local(_)))
    }

    /// Returns the header of the quoted packet; `None` if no error may be sent about it (RFC 1122
    /// 3.2.2).
    fn may_send_error(&self, cx: Cx, quoted: &[u8], flags: Flags) -> Option<ip4::Header> {
        let whole = ip4::Header::parse(quoted);
        let header = whole.or_else(|_| Inner::parse(quoted).map(|inner| inner.header)).ok()?;
        let forbidden = flags.has(Flags::LINK_BROADCAST)
            || header.frag_off != 0
            || header.dst.is_multicast()
            || header.dst.is_broadcast()
            || matches!(self.ways.lookup(cx, header.dst).map(|h| h.via), Some(Via::Broadcast(_)))
            || header.src.is_unspecified()
            || header.src.is_multicast()
            || header.src.is_loopback() && !flags.has(Flags::LOOPBACK)
            || matches!(self.ways.lookup(cx, header.src).map(|h| h.via), Some(Via::Broadcast(_)))
            || header.proto == Proto::ICMP && is_error(quoted.get(header.ihl_len..).unwrap_or_default());
        (!forbidden).then_some(header)
    }

    /// Drops a packet of a protocol that this host does not implement, and sends an ICMP error. If
    /// raw sockets have already received copies of the packet, no error is sent.
    pub(crate) fn unknown_protocol(&self, cx: Cx, iface: Option<&Iface<L>>, packet: Frame, proto: Proto) {
        if self.raw.has(Domain::Inet, proto) {
            return self.drop_frame(cx, packet, DropReason::RawConsumed);
        }
        let Some(packet) = self.punt(cx, iface, packet) else { return };
        self.icmp4_error(cx, &packet, Cause::Unreachable(unreachable::PROTOCOL));
        self.drop_frame(cx, packet, DropReason::Ip4UnknownProtocol);
    }

    pub(crate) fn reassembly_timed_out(&self, cx: Cx, first: &Frame) {
        if wire::ip6::is_version(first.bytes()) {
            let code = wire::icmp6::time_exceeded::REASSEMBLY;
            return self.icmp6_error(cx, None, first, wire::icmp6::Problem::TimeExceeded { code });
        }
        self.icmp4_error(cx, first, Cause::ReassemblyTimeout);
    }
}

/// Returns whether this ICMP message is or may be an error. It may be one if it is empty or of an
/// unknown type.
fn is_error(message: &[u8]) -> bool {
    use icmp4::ty;
    !matches!(message.first(), Some(&(ty::ECHO_REPLY | ty::ECHO_REQUEST | 9 | 10 | 13..=18)))
}
