//! Socket options with their POSIX names.

use crate::{Calls, Errno, Fd};
use clock::Duration;
use inet::groups::SourceFilter;
use inet::iface::IfaceId;
use inet::raw::{IcmpFilter, RawKind, RawState};
use inet::tcp::{Options, Sock};
use inet::udp::{AncillaryKind, Domain, Pcb, SourceChange};
use lock::Locks;
use std::net::IpAddr;
use tcp::cc::Algorithm;

/// Socket option with its value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Opt {
    /// `SO_RCVBUF`: size of the receive buffer in bytes, at least 512.
    RecvBuffer(usize),
    /// `SO_RCVTIMEO`: maximum time that a receive waits; `None` waits forever.
    RecvTimeout(Option<Duration>),
    /// `O_NONBLOCK`: calls do not wait.
    NonBlocking(bool),
    /// `SO_BROADCAST`: permits sending to broadcast addresses.
    Broadcast(bool),
    /// `SO_REUSEADDR`: permits binding to an address that another socket uses, under the same
    /// conditions as in BSD.
    ReuseAddr(bool),
    /// `SO_REUSEPORT`: permits several sockets that all set it to bind to the same address and
    /// port.
    ReusePort(bool),
    /// `IP_TTL`, `IPV6_UNICAST_HOPS`: time to live or hop limit of sent packets, 1 to 255.
    Ttl(u8),
    /// `IP_TOS`, `IPV6_TCLASS`: type of service or traffic class of sent packets.
    Tos(u8),
    /// `IP_DONTFRAG`, `IPV6_DONTFRAG`: sent datagrams are not fragmented.
    DontFragment(bool),
    /// `IPV6_V6ONLY`: an IPv6 socket receives no IPv4 packets. Can be set only before binding.
    V6Only(bool),
    /// `IP_MULTICAST_TTL`, `IPV6_MULTICAST_HOPS`: time to live or hop limit of sent multicast
    /// datagrams.
    MulticastTtl(u8),
    /// `IP_MULTICAST_LOOP`, `IPV6_MULTICAST_LOOP`: this host also receives the multicast packets
    /// that the socket sends.
    MulticastLoop(bool),
    /// `IP_MULTICAST_IF`, `IPV6_MULTICAST_IF`: iface on which multicast packets are sent; `None`
    /// selects the iface of the route.
    MulticastIface(Option<IfaceId>),
    /// `IP_PKTINFO`, `IPV6_RECVPKTINFO`: [`Calls::recv_msg`] returns destination address and iface.
    RecvPacketInfo(bool),
    /// `IP_RECVTTL`, `IPV6_RECVHOPLIMIT`: [`Calls::recv_msg`] returns the time to live or hop
    /// limit.
    RecvTtl(bool),
    /// `IP_RECVTOS`, `IPV6_RECVTCLASS`: [`Calls::recv_msg`] returns the type of service or traffic
    /// class.
    RecvTos(bool),
    /// `IP_HDRINCL` of a raw IPv4 socket: the caller's data begins with the IPv4 header. The stack
    /// fills in total length and checksum, and also source address and identification if they are
    /// 0.
    HeaderIncluded(bool),
    /// `IPV6_CHECKSUM` of a raw IPv6 socket: even offset of the checksum in the packet, in bytes.
    /// The stack fills it in when sending and verifies it when receiving.
    Checksum(Option<u16>),
    /// `ICMP6_FILTER` of a raw socket for ICMP or ICMPv6: the message types that it receives.
    IcmpFilter(IcmpFilter),
    /// `SO_SNDBUF` of a stream: size of the send buffer in bytes. Setting it turns off automatic
    /// sizing.
    SendBuffer(usize),
    /// `SO_SNDTIMEO` of a stream: maximum time that a send waits; `None` waits forever.
    SendTimeout(Option<Duration>),
    /// `SO_LINGER` of a stream: maximum time that closing waits for acknowledgments. With zero,
    /// closing resets the connection. With `None`, closing does not wait.
    Linger(Option<Duration>),
    /// `SO_KEEPALIVE`: an idle connection sends keepalive probes.
    KeepAlive(bool),
    /// `IP_BINDANY`, `IP_TRANSPARENT`: permits binding to addresses that this host does not have,
    /// and, on a datagram socket, such sources in [`Ancillary`](crate::Ancillary). Packets to these
    /// addresses arrive if they have a local route.
    BindAny(bool),
    /// `TCP_NODELAY`: small segments are sent at once.
    NoDelay(bool),
    /// `TCP_CORK`, `TCP_NOPUSH`: segments that are not full are held back.
    Cork(bool),
    /// `TCP_KEEPIDLE`: idle time before the first keepalive probe.
    KeepIdle(Duration),
    /// `TCP_KEEPINTVL`: interval between keepalive probes.
    KeepInterval(Duration),
    /// `TCP_KEEPCNT`: number of unanswered keepalive probes after which the connection is dropped.
    KeepCount(u8),
    /// `TCP_USER_TIMEOUT`: maximum time that sent data may stay unacknowledged; `None` selects the
    /// host's default.
    UserTimeout(Option<Duration>),
    /// `TCP_MAXSEG`: maximum segment size in bytes.
    MaxSegment(u16),
    /// `TCP_CONGESTION`: congestion control algorithm.
    Congestion(Algorithm),
    /// `TCP_NOTSENT_LOWAT`: a stream becomes writable when fewer bytes than this are waiting to be
    /// sent. With 0 or the maximum value, it is writable whenever the send buffer has free space.
    NotSentLowat(u32),
    /// `IP_ADD_MEMBERSHIP`, `IPV6_JOIN_GROUP`: joins a multicast group on an iface; `None` selects
    /// the iface of the route to the group.
    Join(IpAddr, Option<IfaceId>),
    /// `IP_DROP_MEMBERSHIP`, `IPV6_LEAVE_GROUP`: leaves a multicast group on an iface; `None`
    /// selects the iface of the route to the group.
    Leave(IpAddr, Option<IfaceId>),
    /// `MCAST_JOIN_SOURCE_GROUP` and related options (RFC 3678 5.1): adds or removes one source in
    /// the source filter of a multicast group.
    Source(SourceChange, Membership),
}

/// A source of a multicast group on an iface (`group_source_req`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Membership {
    /// Multicast group.
    pub group: IpAddr,
    /// Sender whose datagrams to the group are admitted or blocked.
    pub source: IpAddr,
    /// Iface on which the group was joined; `None` selects the iface of the route to the group.
    pub iface: Option<IfaceId>,
}

/// An option without its value, for reading the value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum OptKind {
    /// `SO_RCVBUF`.
    RecvBuffer,
    /// `SO_RCVTIMEO`.
    RecvTimeout,
    /// `O_NONBLOCK`.
    NonBlocking,
    /// `SO_BROADCAST`.
    Broadcast,
    /// `SO_REUSEADDR`.
    ReuseAddr,
    /// `SO_REUSEPORT`.
    ReusePort,
    /// `IP_TTL`.
    Ttl,
    /// `IP_TOS`.
    Tos,
    /// `IP_DONTFRAG`.
    DontFragment,
    /// `IPV6_V6ONLY`.
    V6Only,
    /// `IP_MULTICAST_TTL`.
    MulticastTtl,
    /// `IP_MULTICAST_LOOP`.
    MulticastLoop,
    /// `IP_MULTICAST_IF`.
    MulticastIface,
    /// `IP_PKTINFO`, `IPV6_RECVPKTINFO`.
    RecvPacketInfo,
    /// `IP_RECVTTL`, `IPV6_RECVHOPLIMIT`.
    RecvTtl,
    /// `IP_RECVTOS`, `IPV6_RECVTCLASS`.
    RecvTos,
    /// `IP_HDRINCL`.
    HeaderIncluded,
    /// `IPV6_CHECKSUM`.
    Checksum,
    /// `ICMP6_FILTER`.
    IcmpFilter,
    /// `SO_SNDBUF`.
    SendBuffer,
    /// `SO_SNDTIMEO`.
    SendTimeout,
    /// `SO_LINGER`.
    Linger,
    /// `SO_KEEPALIVE`.
    KeepAlive,
    /// `IP_BINDANY`.
    BindAny,
    /// `TCP_NODELAY`.
    NoDelay,
    /// `TCP_CORK`.
    Cork,
    /// `TCP_KEEPIDLE`.
    KeepIdle,
    /// `TCP_KEEPINTVL`.
    KeepInterval,
    /// `TCP_KEEPCNT`.
    KeepCount,
    /// `TCP_USER_TIMEOUT`.
    UserTimeout,
    /// `TCP_MAXSEG`.
    MaxSegment,
    /// `TCP_CONGESTION`.
    Congestion,
    /// `TCP_NOTSENT_LOWAT`.
    NotSentLowat,
}

const RECV_BUFFER_MIN: usize = 512;
/// Maximum size of a receive buffer in bytes. It corresponds to FreeBSD's kern.ipc.maxsockbuf: a
/// single socket must not use the whole pool.
const RECV_BUFFER_MAX: usize = 1 << 30;

impl<L: Locks> Calls<'_, L> {
    /// Sets an option (`setsockopt`).
    ///
    /// # Errors
    /// `EBADF`; `EINVAL` for a value out of range, and for `IPV6_V6ONLY` on a bound socket;
    /// `ENOPROTOOPT` for an option of another type of socket; `EADDRINUSE` for a group that is
    /// joined already, `EADDRNOTAVAIL` for one that is not joined.
    #[inline(never)]
    pub fn set_option(&self, fd: Fd, opt: Opt) -> Result<(), Errno> {
        if let Some(id) = fd.sock() {
            return self.set_stream_option(id, opt);
        }
        match opt {
            Opt::Join(group, iface) => return Ok(self.stack.udp_join(self.cx(), fd.0, group, iface)?),
            Opt::Leave(group, iface) => return Ok(self.stack.udp_leave(self.cx(), fd.0, group, iface)?),
            Opt::Source(change, Membership { group, source, iface }) => {
                return Ok(self.stack.udp_change_source(self.cx(), fd.0, change, (group, source), iface)?);
            }
            Opt::Ttl(0) => return Err(Errno::EINVAL),
            Opt::RecvBuffer(n) if !(RECV_BUFFER_MIN..=RECV_BUFFER_MAX).contains(&n) => return Err(Errno::EINVAL),
            Opt::MulticastIface(Some(id)) if self.stack.iface(id).is_none() => return Err(Errno::EADDRNOTAVAIL),
            _ => {}
        }
        self.stack
            .with_pcb(self.cx(), fd.0, |pcb| {
                let (domain, is_bound, is_raw) = (pcb.domain(), pcb.is_bound(), pcb.raw().is_some());
                let options = &mut pcb.options;
                match opt {
                    Opt::RecvBuffer(bytes) => pcb.set_recv_limit(bytes),
                    Opt::RecvTimeout(timeout) => options.recv_timeout = timeout,
                    Opt::NonBlocking(on) => pcb.nonblocking = on,
                    Opt::Broadcast(on) => options.broadcast = on,
                    Opt::ReuseAddr(on) => options.reuse_addr = on,
                    Opt::ReusePort(on) => options.reuse_port = on,
                    Opt::BindAny(on) => options.bind_any = on,
                    Opt::Ttl(ttl) => options.ttl = Some(ttl),
                    Opt::Tos(tos) => options.tos = tos,
                    Opt::DontFragment(on) => options.dont_fragment = on,
                    Opt::V6Only(_) if domain == Domain::Inet => return Err(Errno::ENOPROTOOPT),
                    Opt::V6Only(_) if is_bound || is_raw => return Err(Errno::EINVAL),
                    Opt::V6Only(on) => options.v6only = on,
                    Opt::MulticastTtl(ttl) => options.multicast_ttl = ttl,
                    Opt::MulticastLoop(on) => options.multicast_loop = on,
                    Opt::MulticastIface(iface) => options.multicast_iface = iface,
                    Opt::RecvPacketInfo(on) => pcb.set_receives(AncillaryKind::PacketInfo, on),
                    Opt::RecvTtl(on) => pcb.set_receives(AncillaryKind::Ttl, on),
                    Opt::RecvTos(on) => pcb.set_receives(AncillaryKind::Tos, on),
                    Opt::Join(..) | Opt::Leave(..) | Opt::Source(..) => {}
                    Opt::HeaderIncluded(_) | Opt::Checksum(_) | Opt::IcmpFilter(_) => {
                        return set_raw_option(domain, pcb.raw_mut(), opt);
                    }
                    _ => return Err(Errno::ENOPROTOOPT),
                }
                pcb.forget_headers();
                Ok(())
            })
            .ok_or(Errno::EBADF)?
    }

    /// Sets the source filter of a multicast group (`setsourcefilter`, RFC 3678 4.2.1). Joins the
    /// group if necessary; leaves it if the filter admits no source.
    ///
    /// # Errors
    /// `EBADF`; `EOPNOTSUPP` for a stream; `EINVAL` if the group is not a multicast address, or if
    /// a source cannot be a sender or has another family; `ENOBUFS` for more than 64 sources;
    /// `EADDRNOTAVAIL`.
    pub fn set_source_filter(
        &self,
        fd: Fd,
        group: IpAddr,
        iface: Option<IfaceId>,
        filter: SourceFilter,
    ) -> Result<(), Errno> {
        self.datagrams(fd)?;
        Ok(self.stack.udp_set_filter(self.cx(), fd.0, group, iface, filter)?)
    }

    /// Returns the source filter of a multicast group (`getsourcefilter`, RFC 3678 4.2.2).
    ///
    /// # Errors
    /// `EBADF`; `EOPNOTSUPP` for a stream; `EADDRNOTAVAIL` if the group is not joined.
    pub fn source_filter(&self, fd: Fd, group: IpAddr, iface: Option<IfaceId>) -> Result<SourceFilter, Errno> {
        self.datagrams(fd)?;
        Ok(self.stack.udp_filter(self.cx(), fd.0, group, iface)?)
    }

    /// Returns the value of an option (`getsockopt`).
    ///
    /// # Errors
    /// `EBADF`.
    pub fn option(&self, fd: Fd, kind: OptKind) -> Result<Opt, Errno> {
        if let Some(id) = fd.sock() {
            return self.stream_option(id, kind);
        }
        let sysctls = &self.stack.sysctls;
        let default_ttl = |pcb: &Pcb<L>| match pcb.domain() {
            Domain::Inet => sysctls.ttl.get() as u8,
            Domain::Inet6 => sysctls.hop_limit6.get() as u8,
        };
        self.stack
            .with_pcb(self.cx(), fd.0, |pcb| {
                Ok(match kind {
                    OptKind::RecvBuffer => Opt::RecvBuffer(pcb.recv_limit()),
                    OptKind::RecvTimeout => Opt::RecvTimeout(pcb.options.recv_timeout),
                    OptKind::NonBlocking => Opt::NonBlocking(pcb.nonblocking),
                    OptKind::Broadcast => Opt::Broadcast(pcb.options.broadcast),
                    OptKind::ReuseAddr => Opt::ReuseAddr(pcb.options.reuse_addr),
                    OptKind::ReusePort => Opt::ReusePort(pcb.options.reuse_port),
                    OptKind::BindAny => Opt::BindAny(pcb.options.bind_any),
                    OptKind::Ttl => Opt::Ttl(pcb.options.ttl.unwrap_or(default_ttl(pcb))),
                    OptKind::Tos => Opt::Tos(pcb.options.tos),
                    OptKind::DontFragment => Opt::DontFragment(pcb.options.dont_fragment),
                    OptKind::V6Only if pcb.domain() == Domain::Inet6 => Opt::V6Only(pcb.options.v6only),
                    OptKind::MulticastTtl => Opt::MulticastTtl(pcb.options.multicast_ttl),
                    OptKind::MulticastLoop => Opt::MulticastLoop(pcb.options.multicast_loop),
                    OptKind::MulticastIface => Opt::MulticastIface(pcb.options.multicast_iface),
                    OptKind::RecvPacketInfo => Opt::RecvPacketInfo(pcb.receives(AncillaryKind::PacketInfo)),
                    OptKind::HeaderIncluded => Opt::HeaderIncluded(raw(pcb, Domain::Inet)?.header_included),
                    OptKind::Checksum => Opt::Checksum(raw(pcb, Domain::Inet6)?.checksum_at),
                    OptKind::IcmpFilter => match pcb.raw().filter(|raw| raw.has_filter()) {
                        Some(raw) => Opt::IcmpFilter(raw.filter),
                        None => return Err(Errno::ENOPROTOOPT),
                    },
                    OptKind::RecvTtl => Opt::RecvTtl(pcb.receives(AncillaryKind::Ttl)),
                    OptKind::RecvTos => Opt::RecvTos(pcb.receives(AncillaryKind::Tos)),
                    _ => return Err(Errno::ENOPROTOOPT),
                })
            })
            .ok_or(Errno::EBADF)?
    }
}

/// Returns the raw socket state of a socket; `ENOPROTOOPT` unless it is a raw socket of `domain`.
fn raw<L: Locks>(pcb: &Pcb<L>, domain: Domain) -> Result<&RawState, Errno> {
    let is_raw = |raw: &&RawState| matches!(raw.kind(), RawKind::Raw(_)) && pcb.domain() == domain;
    pcb.raw().filter(is_raw).ok_or(Errno::ENOPROTOOPT)
}

/// Sets an option that only raw sockets have.
fn set_raw_option(domain: Domain, raw: Option<&mut RawState>, opt: Opt) -> Result<(), Errno> {
    let raw = raw.filter(|raw| matches!(raw.kind(), RawKind::Raw(_))).ok_or(Errno::ENOPROTOOPT)?;
    match (opt, domain) {
        (Opt::HeaderIncluded(on), Domain::Inet) => raw.header_included = on,
        // The checksum offset of ICMPv6 is fixed (RFC 3542 3.1).
        (Opt::Checksum(_), Domain::Inet6) if raw.has_filter() => return Err(Errno::EINVAL),
        (Opt::Checksum(Some(at)), Domain::Inet6) if at % 2 != 0 => return Err(Errno::EINVAL),
        (Opt::Checksum(at), Domain::Inet6) => raw.checksum_at = at,
        (Opt::IcmpFilter(filter), _) if raw.has_filter() => raw.filter = filter,
        _ => return Err(Errno::ENOPROTOOPT),
    }
    Ok(())
}

/// Permitted sizes of a stream's send and receive buffers, in bytes.
const STREAM_BUFFERS: std::ops::RangeInclusive<usize> = 2048..=1 << 30;

impl<L: Locks> Calls<'_, L> {
    fn set_stream_option(&self, id: usize, opt: Opt) -> Result<(), Errno> {
        let millis = |time: Duration| time >= Duration::from_millis(1);
        let sound = match opt {
            Opt::RecvBuffer(n) | Opt::SendBuffer(n) => STREAM_BUFFERS.contains(&n),
            Opt::Ttl(ttl) => ttl != 0,
            Opt::KeepIdle(time) | Opt::KeepInterval(time) => millis(time),
            Opt::KeepCount(n) => (1..=127).contains(&n),
            Opt::MaxSegment(mss) => mss >= 48,
            _ => true,
        };
        if !sound {
            return Err(Errno::EINVAL);
        }
        if let Opt::V6Only(_) = opt {
            let seen = |sock: &mut Sock<L>| (sock.domain(), sock.is_bound());
            let (domain, is_bound) = self.stack.with_sock(self.cx(), id, seen).ok_or(Errno::EBADF)?;
            match domain {
                Domain::Inet => return Err(Errno::ENOPROTOOPT),
                Domain::Inet6 if is_bound => return Err(Errno::EINVAL),
                Domain::Inet6 => {}
            }
        }
        let mut known = true;
        let set = |options: &mut Options| match opt {
            Opt::RecvBuffer(bytes) => options.recv_space = Some(bytes as u32),
            Opt::SendBuffer(bytes) => options.send_space = Some(bytes as u32),
            Opt::RecvTimeout(timeout) => options.recv_timeout = timeout,
            Opt::SendTimeout(timeout) => options.send_timeout = timeout,
            Opt::Linger(time) => options.linger = time,
            Opt::NonBlocking(on) => options.nonblocking = on,
            Opt::ReuseAddr(on) => options.reuse_addr = on,
            Opt::ReusePort(on) => options.reuse_port = on,
            Opt::BindAny(on) => options.bind_any = on,
            Opt::Ttl(ttl) => options.ttl = Some(ttl),
            Opt::Tos(tos) => options.tos = tos & !3,
            Opt::KeepAlive(on) => options.keepalive = on,
            Opt::NoDelay(on) => (options.nodelay, options.flush) = (on, on),
            Opt::Cork(on) => options.cork = on,
            Opt::KeepIdle(time) => options.keep_idle = Some(time),
            Opt::KeepInterval(time) => options.keep_interval = Some(time),
            Opt::KeepCount(n) => options.keep_count = Some(n),
            Opt::UserTimeout(time) => options.user_timeout = time,
            Opt::MaxSegment(mss) => options.maxseg = Some(mss),
            Opt::Congestion(algorithm) => options.congestion = Some(algorithm),
            Opt::NotSentLowat(bytes) => options.notsent_lowat = Some(bytes),
            Opt::V6Only(on) => options.v6only = on,
            // Programs set this option on any type of socket; on a stream it has no effect.
            Opt::Broadcast(_) => {}
            Opt::DontFragment(_)
            | Opt::MulticastTtl(_)
            | Opt::MulticastLoop(_)
            | Opt::MulticastIface(_)
            | Opt::RecvPacketInfo(_)
            | Opt::RecvTtl(_)
            | Opt::RecvTos(_)
            | Opt::HeaderIncluded(_)
            | Opt::Checksum(_)
            | Opt::IcmpFilter(_)
            | Opt::Join(..)
            | Opt::Leave(..)
            | Opt::Source(..) => known = false,
        };
        self.stack.tcp_set_options(self.cx(), id, set)?;
        if known { Ok(()) } else { Err(Errno::ENOPROTOOPT) }
    }

    fn stream_option(&self, id: usize, kind: OptKind) -> Result<Opt, Errno> {
        let sysctls = &self.stack.sysctls;
        let now = self.cx().now;
        let ms = |sysctl: &inet::sysctls::Sysctl| Duration::from_millis(sysctl.get() as u64);
        self.stack
            .with_sock(self.cx(), id, |sock| {
                let options = sock.options();
                let info = sock.tcb().map(|tcb| tcb.info(now));
                Ok(match kind {
                    OptKind::RecvBuffer => {
                        let tuned = sock.tcb().map_or(sysctls.tcp_recvspace.get() as u32, tcp::Tcb::recv_space);
                        Opt::RecvBuffer(options.recv_space.unwrap_or(tuned) as usize)
                    }
                    OptKind::SendBuffer => {
                        Opt::SendBuffer(options.send_space.unwrap_or(sysctls.tcp_sendspace.get() as u32) as usize)
                    }
                    OptKind::RecvTimeout => Opt::RecvTimeout(options.recv_timeout),
                    OptKind::SendTimeout => Opt::SendTimeout(options.send_timeout),
                    OptKind::Linger => Opt::Linger(options.linger),
                    OptKind::NonBlocking => Opt::NonBlocking(options.nonblocking),
                    OptKind::ReuseAddr => Opt::ReuseAddr(options.reuse_addr),
                    OptKind::ReusePort => Opt::ReusePort(options.reuse_port),
                    OptKind::BindAny => Opt::BindAny(options.bind_any),
                    OptKind::Ttl if sock.domain() == Domain::Inet6 => {
                        Opt::Ttl(options.ttl.unwrap_or(sysctls.hop_limit6.get() as u8))
                    }
                    OptKind::Ttl => Opt::Ttl(options.ttl.unwrap_or(sysctls.ttl.get() as u8)),
                    OptKind::V6Only if sock.domain() == Domain::Inet6 => Opt::V6Only(options.v6only),
                    OptKind::Tos => Opt::Tos(options.tos),
                    OptKind::KeepAlive => Opt::KeepAlive(options.keepalive),
                    OptKind::NoDelay => Opt::NoDelay(options.nodelay),
                    OptKind::Cork => Opt::Cork(options.cork),
                    OptKind::KeepIdle => Opt::KeepIdle(options.keep_idle.unwrap_or(ms(&sysctls.tcp_keepidle))),
                    OptKind::KeepInterval => {
                        Opt::KeepInterval(options.keep_interval.unwrap_or(ms(&sysctls.tcp_keepintvl)))
                    }
                    OptKind::KeepCount => Opt::KeepCount(options.keep_count.unwrap_or(sysctls.tcp_keepcnt.get() as u8)),
                    OptKind::UserTimeout => Opt::UserTimeout(options.user_timeout),
                    OptKind::MaxSegment => {
                        let mss = info.map_or(sysctls.tcp_mssdflt.get() as u32, |info| info.snd_mss);
                        Opt::MaxSegment(options.maxseg.unwrap_or(mss as u16))
                    }
                    OptKind::Congestion => {
                        let default = if sysctls.tcp_cc_cubic.on() { Algorithm::Cubic } else { Algorithm::NewReno };
                        Opt::Congestion(options.congestion.unwrap_or(default))
                    }
                    OptKind::NotSentLowat => Opt::NotSentLowat(options.notsent_lowat.unwrap_or(0)),
                    _ => return Err(Errno::ENOPROTOOPT),
                })
            })
            .ok_or(Errno::EBADF)?
    }

    /// Returns the TCP statistics of a connection (`getsockopt(TCP_INFO)`).
    ///
    /// # Errors
    /// `EBADF`, `EOPNOTSUPP` (for a datagram socket), `ENOTCONN`.
    pub fn tcp_info(&self, fd: Fd) -> Result<tcp::Info, Errno> {
        let id = fd.sock().ok_or(Errno::EOPNOTSUPP)?;
        let now = self.cx().now;
        let info = self.stack.with_sock(self.cx(), id, |sock| sock.tcb().map(|tcb| tcb.info(now)));
        info.ok_or(Errno::EBADF)?.ok_or(Errno::ENOTCONN)
    }
}
