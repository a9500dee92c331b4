//! ICMP for IPv6: echo, and errors in both directions (RFC 4443).
//!
//! No error is sent about an error, a redirect, or a packet whose source address does not identify
//! a single host. About a packet to a multicast group, only two errors are sent: packet too big,
//! and unknown option (RFC 4443 2.4 e). An error is never longer than 1280 bytes. Errors are rate
//! limited by the same rules as for ICMPv4, but separately. A received error is passed to the
//! tunnel or socket that sent the quoted packet. It can also lower a path MTU.

use crate::echo::{Answer, Kind};
use crate::iface::{Iface, IfaceId};
use crate::ip::exit::{OutputError, Target};
use crate::ip4::pmtu::{FLOOR6, Noted};
use crate::udp::{SoError, came_by, strip6};
use crate::{Stack, zone};
use ::tcp::IcmpNotice;
use buf::{Flags, Frame};
use lock::{Cx, Locks};
use stats::DropReason;
use std::net::Ipv6Addr;
use wire::control::ControlClass;
use wire::icmp6::{self, Inner, Message, Problem, nd, parameter, ty, unreachable};
use wire::ip6::{self, Chain};
use wire::{Malformed, Proto, mld};

/// Maximum number of bytes that an error quotes from the packet that caused it.
const QUOTED: usize = icmp6::MAX_ERROR - ip6::HEADER_LEN - icmp6::HEADER_LEN;

/// Returns the class of messages of which a mirror gets a copy. Solicitations are answered here
/// alone, and discovery in fragments is not allowed (RFC 6980 5).
fn copied(message: &Message<'_>, fragmented: bool) -> Option<ControlClass> {
    match message {
        Message::Nd(_) if fragmented => None,
        Message::Nd(nd::Message::Solicit { .. }) => None,
        Message::Nd(_) => Some(ControlClass::Nd),
        Message::Other { ty, .. } if mld::is_mld(*ty) => Some(ControlClass::Igmp),
        Message::Error { .. } => Some(ControlClass::Icmp),
        _ => None,
    }
}

impl<L: Locks> Stack<L> {
    /// Processes an ICMPv6 message for this host. `fragmented` is true if the message arrived in
    /// fragments, which neighbor discovery does not allow (RFC 6980 5).
    pub(crate) fn icmp6_input(
        &self,
        cx: Cx,
        iface: Option<&Iface<L>>,
        mut packet: Frame,
        header: &ip6::Header,
        chain: &Chain,
        fragmented: bool,
    ) {
        self.count(cx).icmp6.received.bump();
        let message = chain.payload(header, packet.bytes());
        let discovery = message.first().is_some_and(|ty| (ty::ROUTER_SOLICIT..=ty::REDIRECT).contains(ty));
        let parsed = Message::parse(message, header.src, header.dst);
        if let Some(class) = parsed.as_ref().ok().and_then(|message| copied(message, fragmented)) {
            self.punt_copy(cx, iface, class, &packet);
        }
        let why = match parsed {
            Err(Malformed::BadChecksum { .. }) => DropReason::Icmp6BadChecksum,
            Err(_) if discovery => DropReason::NdMalformed,
            Err(_) => DropReason::Icmp6Malformed,
            Ok(Message::EchoRequest { .. }) => return self.echo6(cx, iface, packet, header, chain),
            Ok(Message::Error { problem, inner }) => {
                self.echo_error_input6(cx, header, &inner, problem);
                self.error_input6(cx, iface.map(|iface| iface.id), problem, &inner);
                DropReason::Icmp6Consumed
            }
            Ok(Message::Nd(_)) if fragmented => DropReason::NdMalformed,
            Ok(Message::Nd(message)) => match iface {
                Some(iface) => self.nd_input(cx, iface, header, &message),
                None => DropReason::NdIgnored,
            },
            Ok(Message::Other { ty, .. }) if mld::is_mld(ty) => match iface {
                Some(iface) => self.mld_input(cx, iface, header, chain, message),
                None => DropReason::MldConsumed,
            },
            Ok(Message::EchoReply { ident, seq, .. }) => {
                let (from, ttl, len) = (header.src.into(), header.hop_limit, message.len());
                let zone = iface.map(|iface| iface.id).or_else(|| self.own_zone6(cx, header.src));
                let ends = (zone::embed(header.dst, zone), zone::embed(header.src, zone));
                let came_by = zone.unwrap_or(came_by(iface));
                let at = (chain.upper, chain.offset);
                let strip = |packet: &mut Frame| strip6(packet, header, at, len, 0, came_by);
                packet = match self.echo_input::<u128>(cx, came_by, ident, ends, packet, strip) {
                    Some(packet) => packet,
                    None => return,
                };
                let answer = Answer { at: cx.now, from, seq, ttl, len, kind: Kind::Reply };
                if self.echo_answered(cx, ident, answer) {
                    DropReason::Icmp6Consumed
                } else {
                    return self.punt_or_drop(cx, iface, packet, DropReason::Icmp6Ignored);
                }
            }
            Ok(Message::Other { .. }) => return self.punt_or_drop(cx, iface, packet, DropReason::Icmp6Ignored),
        };
        self.drop_frame(cx, packet, why);
    }

    /// Answers an echo request. The reply reuses the frame of the request. A request to a multicast
    /// group is answered from one of our unicast addresses (RFC 4443 4.2).
    fn echo6(&self, cx: Cx, iface: Option<&Iface<L>>, mut packet: Frame, header: &ip6::Header, chain: &Chain) {
        if header.src.is_unspecified() {
            return self.drop_frame(cx, packet, DropReason::Icmp6Ignored);
        }
        if !self.six.limiter.lock(cx).echo_allowed(self.sysctls.echo_rate.get() as u64, cx.now) {
            return self.drop_frame(cx, packet, DropReason::Icmp6RateLimited);
        }
        let to_group = header.dst.is_multicast();
        let src = if to_group { iface.and_then(|out| self.source6_for(cx, out, header.src)) } else { Some(header.dst) };
        let written = packet.pull(chain.offset).then_some(()).and_then(|()| {
            icmp6::echo_reply_in_place(packet.bytes_mut())?;
            if to_group { icmp6::fill_checksum(src?, header.src, packet.bytes_mut()) } else { Some(()) }
        });
        if written.is_none() {
            return self.drop_frame(cx, packet, DropReason::Icmp6Ignored);
        }
        packet.set_flags(Flags::default());
        let mut reply = self.reply_to6(header.src, Proto::IPV6_ICMP, iface.map(|iface| iface.id));
        (reply.src, reply.class) = (src, header.traffic_class);
        if self.ip6_output(cx, packet, &reply).is_ok() {
            self.count(cx).icmp6.echoes_answered.bump();
        }
    }

    /// Queues an error in the exchange that sent the quoted packet `inner`, if that is an echo
    /// request.
    fn echo_error_input6(&self, cx: Cx, header: &ip6::Header, inner: &Inner<'_>, problem: Problem) {
        let kind = match problem {
            Problem::Unreachable { code } => Kind::Unreachable(code),
            Problem::TooBig { mtu } => Kind::TooBig(mtu),
            Problem::TimeExceeded { .. } => Kind::TimeExceeded,
            Problem::Parameter { .. } => Kind::Error,
        };
        if inner.upper == Proto::IPV6_ICMP && !inner.is_later {
            self.echo_failed(cx, header.src.into(), header.hop_limit, inner.payload, kind);
        }
    }

    /// Handles an error about a packet that this host or one of its tunnels sent.
    fn error_input6(&self, cx: Cx, iface: Option<IfaceId>, problem: Problem, inner: &Inner<'_>) {
        if !self.tunnel_error_input6(cx, problem, inner) {
            self.deliver_error6(cx, iface, problem, inner);
        }
    }

    /// Reports an error about the packet `inner` to the socket that sent it. `iface` is the
    /// interface by which the error arrived. A smaller path MTU is accepted only if a socket can
    /// have sent the packet, or if the packet is an echo request or reply (RFC 5927 7). An error
    /// with an MTU below 1280 bytes is ignored (RFC 8201 4).
    #[inline(never)]
    pub(crate) fn deliver_error6(&self, cx: Cx, iface: Option<IfaceId>, problem: Problem, inner: &Inner<'_>) {
        let header = &inner.header;
        let is_no_path = matches!(problem, Problem::TooBig { mtu } if (mtu as usize) < FLOOR6);
        if is_no_path || !self.is_own6(cx, header.src) {
            return;
        }
        let reported = match inner.upper {
            _ if inner.is_later => false,
            Proto::UDP => self.udp_error6(cx, iface, header, inner.payload, so_error(problem)),
            Proto::TCP => self.tcp_error6(cx, iface, header, inner.payload, notice(problem)),
            proto => {
                let zone = iface.or_else(|| self.own_zone6(cx, header.src));
                let ends = (zone::embed(header.src, zone), zone::embed(header.dst, zone));
                self.raw_error::<u128>(cx, proto, ends, inner.payload, so_error(problem))
            }
        };
        self.count(cx).icmp6.errors_delivered.add(u64::from(reported));
        if let Problem::TooBig { mtu } = problem
            && (reported || inner.upper == Proto::IPV6_ICMP)
        {
            self.note_path6(cx, header.dst, mtu as usize);
        }
    }

    /// Stores `mtu` as the path MTU to `dst`, in bytes, if it is lower than the current one.
    /// Ignores values below the IPv6 minimum of 1280 (RFC 8201 4), and values that are not below
    /// the MTU of the outgoing interface.
    pub(crate) fn note_path6(&self, cx: Cx, dst: Ipv6Addr, mtu: usize) {
        let first_link = self.exit6_for(cx, dst, None).ok().and_then(|exit| self.ifaces.get(exit.iface));
        if mtu < FLOOR6 || first_link.is_some_and(|iface| mtu >= iface.mtu6()) {
            return;
        }
        let noted = self.six.path_mtus.lock(cx).note(dst, mtu, cx.now);
        let counters = &self.count(cx).ip6;
        if noted != Noted::Nothing {
            self.changed();
            counters.paths_narrowed.bump();
        }
        counters.path_mtus_evicted.add(u64::from(matches!(noted, Noted::InPlaceOf(_))));
    }

    /// Sends an error about `packet`, which `iface` received, unless a rule of RFC 4443 or the rate
    /// limit forbids it. `packet` must begin with its IPv6 header.
    #[cold]
    #[inline(never)]
    pub(crate) fn icmp6_error(&self, cx: Cx, iface: Option<IfaceId>, packet: &Frame, problem: Problem) {
        self.send_error6(cx, iface, packet.bytes(), packet.flags(), problem);
    }

    /// Sends an error about a packet that begins with `quoted`, which may be truncated. An error
    /// about a packet of this host is reported to the socket that sent it instead.
    pub(crate) fn send_error6(&self, cx: Cx, iface: Option<IfaceId>, quoted: &[u8], flags: Flags, problem: Problem) {
        let counters = &self.count(cx).icmp6;
        let Some(header) = may_send_error(quoted, flags, problem) else {
            return counters.errors_forbidden.bump();
        };
        if self.state6(cx, self.iface_of(iface), header.src).is_some() {
            if let Ok(inner) = Inner::parse(quoted)
                && !self.tunnel_error_input6(cx, problem, &inner)
            {
                self.echo_error_input6(cx, &header, &inner, problem);
                self.deliver_error6(cx, iface, problem, &inner);
            }
            return;
        }
        if !self.six.limiter.lock(cx).error_allowed6(header.src, self.sysctls.icmp6_rate.get() as u64, cx.now) {
            return counters.errors_limited.bump();
        }
        // The source is the destination of the quoted packet if that is one of our addresses.
        // Otherwise it is an address of the outgoing interface (RFC 4443 2.2).
        let spoken_to = Some(header.dst).filter(|dst| !dst.is_multicast() && self.is_own6(cx, *dst));
        let Some(src) = spoken_to.or_else(|| self.source6_towards(cx, header.src, iface)) else {
            return counters.errors_forbidden.bump(); // no route or source address for the error
        };
        let Some(mut frame) = self.make_frame(cx) else { return };
        let most = frame.tailroom().saturating_sub(icmp6::HEADER_LEN).min(QUOTED);
        let quoted = quoted.get(..most).unwrap_or(quoted);
        let written = match frame.append(icmp6::HEADER_LEN + quoted.len()) {
            Some(room) => icmp6::emit_error(problem, (src, header.src), quoted, room),
            None => None,
        };
        if written.is_none() {
            return self.drop_as_bug(cx, frame, "the ICMPv6 error does not fit into a new frame");
        }
        let mut out = self.reply_to6(header.src, Proto::IPV6_ICMP, iface);
        out.src = Some(src);
        if self.ip6_output(cx, frame, &out).is_ok() {
            counters.errors_sent.bump();
        }
    }

    /// Returns the source address for packets to `dst`; `None` if there is no route or no source
    /// address.
    pub fn source6_to(&self, cx: Cx, dst: Ipv6Addr) -> Option<Ipv6Addr> {
        self.source6_towards(cx, dst, None)
    }

    /// Returns the source address for packets to `dst` that leave by `iface`. If `iface` is `None`,
    /// the interface of the route is used. A link-local destination needs an interface.
    pub(crate) fn source6_towards(&self, cx: Cx, dst: Ipv6Addr, iface: Option<IfaceId>) -> Option<Ipv6Addr> {
        let exit = self.exit6_for(cx, dst, iface).ok()?;
        self.source6_for(cx, self.ifaces.get(exit.iface)?, dst)
    }

    /// Returns the source address and outgoing interface for a socket's packets to `dst`. For
    /// packets to this host itself, the source is `dst`.
    pub(crate) fn source6_at(
        &self,
        cx: Cx,
        dst: Ipv6Addr,
        iface: Option<IfaceId>,
    ) -> Result<(Ipv6Addr, IfaceId), OutputError> {
        let exit = self.exit6_for(cx, dst, iface)?;
        let src = match exit.to {
            Target::Here => Some(dst),
            _ => self.ifaces.get(exit.iface).and_then(|iface| self.source6_for(cx, iface, dst)),
        };
        Ok((src.ok_or(OutputError::NoRoute)?, exit.iface))
    }
}

/// Converts the problem of an ICMPv6 error to a socket error.
fn so_error(problem: Problem) -> SoError {
    match problem {
        Problem::Unreachable { code: unreachable::PORT } => SoError::Refused,
        Problem::Unreachable { code: unreachable::NO_ROUTE } => SoError::NetUnreachable,
        Problem::Unreachable { .. } | Problem::TimeExceeded { .. } => SoError::HostUnreachable,
        Problem::TooBig { .. } => SoError::MessageSize,
        Problem::Parameter { .. } => SoError::ProtocolOption,
    }
}

/// Converts the problem of an ICMPv6 error to a notice for TCP.
fn notice(problem: Problem) -> IcmpNotice {
    match problem {
        Problem::TooBig { mtu } => IcmpNotice::TooBig { mss: crate::tcp::mss_of::<u128>(mtu as usize) },
        _ => match so_error(problem) {
            SoError::Refused | SoError::ProtocolOption => IcmpNotice::Refused,
            _ => IcmpNotice::Unreachable,
        },
    }
}

/// Returns the header of the quoted packet; `None` if no error may be sent about it (RFC 4443 2.4
/// e).
fn may_send_error(quoted: &[u8], flags: Flags, problem: Problem) -> Option<ip6::Header> {
    let header = ip6::Header::parse_quoted(quoted).ok()?;
    let to_groups = matches!(problem, Problem::TooBig { .. } | Problem::Parameter { code: parameter::OPTION, .. });
    let group = header.dst.is_multicast() || flags.has(Flags::LINK_BROADCAST);
    let nobody = header.src.is_unspecified()
        || header.src.is_multicast()
        || header.src.is_loopback() && !flags.has(Flags::LOOPBACK);
    let forbidden = nobody || group && !to_groups || is_error(&header, quoted, problem);
    (!forbidden).then_some(header)
}

/// Returns whether the quoted packet is an ICMPv6 error or a redirect. If its chain of extension
/// headers cannot be parsed, returns true, unless the error to send is about the chain itself.
fn is_error(header: &ip6::Header, quoted: &[u8], problem: Problem) -> bool {
    let here = quoted.len().saturating_sub(ip6::HEADER_LEN).min(usize::from(header.payload_len));
    let cut = ip6::Header { payload_len: here as u16, ..*header };
    let of_chain = matches!(problem, Problem::Parameter { code: parameter::NEXT_HEADER | parameter::CUT_CHAIN, .. });
    let Ok(chain) = Chain::walk(&cut, quoted) else { return !of_chain };
    if chain.upper != Proto::IPV6_ICMP || chain.fragment.is_some_and(|fragment| fragment.offset != 0) {
        return false;
    }
    chain.payload(&cut, quoted).first().map_or(!of_chain, |&ty| icmp6::is_error(ty) || ty == ty::REDIRECT)
}
