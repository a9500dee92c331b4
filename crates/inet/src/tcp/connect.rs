//! Active open, for IPv4 and IPv6.

use super::input::mss_of;
use super::net::Net;
use super::options::configured;
use super::{Kind, Sock, TcpError, core_ends};
use crate::Stack;
use crate::demux::{Addr, Ends, Tuple};
use crate::ends::SockEnds;
use ::tcp::isn;
use lock::{Cx, Locks};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use wire::L4Port;

impl<L: Locks> Stack<L> {
    /// Starts to connect socket `id`.
    ///
    /// # Errors
    /// [`TcpError`]; the socket is then unchanged.
    pub fn tcp_connect(&self, cx: Cx, id: usize, addr: SocketAddr) -> Result<(), TcpError> {
        let seen = |sock: &mut Sock<L>| (sock.domain(), sock.options().v6only);
        let (domain, v6only) = self.with_sock(cx, id, seen).ok_or(TcpError::NoSocket)?;
        let port = L4Port(addr.port());
        // The unspecified address means this host, as in BSD and Linux.
        match domain.end(v6only, &addr)? {
            Addr::ANY4 => self.tcp_connect_to(cx, id, Ipv4Addr::LOCALHOST.to_bits(), port),
            Addr::ANY6 => self.tcp_connect_to(cx, id, Ipv6Addr::LOCALHOST.to_bits(), port),
            remote => match remote.to_v4() {
                Some(v4) => self.tcp_connect_to(cx, id, v4.to_bits(), port),
                None => self.tcp_connect_to(cx, id, remote.0, port),
            },
        }
    }

    #[inline(never)]
    fn tcp_connect_to<A: Net>(&self, cx: Cx, id: usize, dst: A, port: L4Port) -> Result<(), TcpError> {
        if port.0 == 0 || dst.is_for_many() {
            return Err(TcpError::Invalid);
        }
        self.tcp_reuse(cx, id)?;
        let bound = self
            .with_sock(cx, id, |sock| match &sock.kind {
                Kind::Fresh => A::ends_of(sock).ok_or(TcpError::Family), // if bound to an address of the other family
                Kind::Stream(stream) if stream.connected => Err(TcpError::Connected),
                Kind::Stream(_) => Err(TcpError::InProgress),
                Kind::Listening(_) => Err(TcpError::Listens),
            })
            .ok_or(TcpError::NoSocket)??;
        let exit = A::exit(self, cx, dst, None).map_err(TcpError::Output)?;
        let src = match bound.local == A::default() {
            true => A::source(self, cx, dst, &exit).map_err(TcpError::Output)?,
            false => bound.local,
        };
        let mut ends = Ends { local: src, remote: dst, local_port: bound.local_port, remote_port: port };
        let chosen = ends.local_port.0 == 0;
        if chosen {
            ends.local_port = self.tcp_ephemeral(cx, ends.into())?;
        }
        if (ends.local, ends.local_port) == (ends.remote, ends.remote_port) {
            return Err(TcpError::Invalid); // RFC 9293 allows a connection to itself, but it has no use
        }
        let tuple = Tuple::from(ends);
        if !chosen && self.tcp.demux.contains(cx, &tuple, |_| true) {
            return Err(TcpError::InUse);
        }
        let mtu = self.ifaces.get(exit.iface).map_or(1500, |iface| A::mtu(iface));
        let base = self.tcp_config::<A>(cx, mtu);
        let path = mss_of::<A>(A::path_mtu(self, cx, dst));
        let core = core_ends(ends);
        let (iss, offset) = isn::numbers(self.tcp.secret, &core, cx.now);
        self.tcp.demux.insert(cx, &tuple, id);
        let begun = self.act(cx, id, |sock| {
            let config = configured(base, sock.options());
            let space = sock.options().send_space.unwrap_or(self.sysctls.tcp_sendspace.get() as u32);
            let mut stream = self.tcp_place(cx, &config);
            stream.tcb.connect_again(&config, iss, offset, cx.now);
            stream.tcb.know_path(path, cx.now);
            stream.reinit(space, cx.now);
            (stream.dirty, stream.found) = (true, true);
            sock.kind = Kind::Stream(stream);
            sock.set_ends(SockEnds::of(ends));
            if sock.options.is_some() {
                sock.apply_options(&self.sysctls, cx.now);
            }
            Ok(())
        });
        if begun.is_err() {
            self.tcp.demux.remove(cx, &tuple, id);
        }
        begun
    }

    /// Resets a socket after a failed connect, so that it can connect again. Returns the error of
    /// the failed connect if no call has returned it yet.
    fn tcp_reuse(&self, cx: Cx, id: usize) -> Result<(), TcpError> {
        let revive = |sock: &mut Sock<L>| match &sock.kind {
            Kind::Stream(stream) if stream.is_stillborn() => {
                let before = sock.tuple();
                let kept = match sock.place.is_bound() {
                    true => SockEnds::bound(before.local, before.local_port),
                    false => sock.domain().any(sock.options().v6only, L4Port(0)),
                };
                sock.set_ends(kept);
                (sock.kind, sock.shut_read) = (Kind::Fresh, false);
                Some((before, sock.take_error()))
            }
            _ => None,
        };
        let Some((before, error)) = self.with_sock(cx, id, revive).ok_or(TcpError::NoSocket)? else { return Ok(()) };
        self.tcp.demux.remove(cx, &before, id);
        self.with_tcp_wheel(cx, |wheel| wheel.cancel(id as u32));
        error.map_or(Ok(()), Err)
    }
}
