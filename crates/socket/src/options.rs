//! Socket options, by their POSIX names.

use crate::{Calls, Errno, Fd};
use clock::Duration;
use inet::iface::IfaceId;
use lock::Locks;
use std::net::Ipv4Addr;

/// An option with its value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Opt {
    /// `SO_RCVBUF`: bytes of receive buffer, at least 512.
    RecvBuffer(usize),
    /// `SO_RCVTIMEO`: how long a receive waits; `None`: for ever.
    RecvTimeout(Option<Duration>),
    /// `O_NONBLOCK`.
    NonBlocking(bool),
    /// `SO_BROADCAST`.
    Broadcast(bool),
    /// `SO_REUSEADDR`.
    ReuseAddr(bool),
    /// `SO_REUSEPORT`.
    ReusePort(bool),
    /// `IP_TTL`: 1 to 255.
    Ttl(u8),
    /// `IP_TOS`.
    Tos(u8),
    /// `IP_DONTFRAG`.
    DontFragment(bool),
    /// `IP_MULTICAST_TTL`.
    MulticastTtl(u8),
    /// `IP_MULTICAST_LOOP`.
    MulticastLoop(bool),
    /// `IP_MULTICAST_IF`; `None`: what the routes say.
    MulticastIface(Option<IfaceId>),
    /// `IP_ADD_MEMBERSHIP`.
    Join(Ipv4Addr, Option<IfaceId>),
    /// `IP_DROP_MEMBERSHIP`.
    Leave(Ipv4Addr, Option<IfaceId>),
}

/// An option to be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
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
    /// `IP_MULTICAST_TTL`.
    MulticastTtl,
    /// `IP_MULTICAST_LOOP`.
    MulticastLoop,
    /// `IP_MULTICAST_IF`.
    MulticastIface,
}

const RECV_BUFFER_MIN: usize = 512;
/// kern.ipc.maxsockbuf's role: a stranger's socket must not take the whole pool for itself.
const RECV_BUFFER_MAX: usize = 1 << 30;

impl<L: Locks> Calls<'_, L> {
    /// `setsockopt`.
    ///
    /// # Errors
    /// `EBADF`, `EINVAL` for values out of range, `EADDRINUSE`/`EADDRNOTAVAIL` for groups joined or not.
    pub fn set_option(&self, fd: Fd, opt: Opt) -> Result<(), Errno> {
        match opt {
            Opt::Join(group, iface) => return Ok(self.stack.udp_join(self.cx(), fd.0, group, iface)?),
            Opt::Leave(group, iface) => return Ok(self.stack.udp_leave(self.cx(), fd.0, group, iface)?),
            Opt::Ttl(0) => return Err(Errno::EINVAL),
            Opt::RecvBuffer(n) if !(RECV_BUFFER_MIN..=RECV_BUFFER_MAX).contains(&n) => return Err(Errno::EINVAL),
            Opt::MulticastIface(Some(id)) if self.stack.iface(id).is_none() => return Err(Errno::EADDRNOTAVAIL),
            _ => {}
        }
        self.stack
            .with_pcb(self.cx(), fd.0, |pcb| {
                let options = &mut pcb.options;
                match opt {
                    Opt::RecvBuffer(bytes) => pcb.set_recv_limit(bytes),
                    Opt::RecvTimeout(timeout) => options.recv_timeout = timeout,
                    Opt::NonBlocking(on) => options.nonblocking = on,
                    Opt::Broadcast(on) => options.broadcast = on,
                    Opt::ReuseAddr(on) => options.reuse_addr = on,
                    Opt::ReusePort(on) => options.reuse_port = on,
                    Opt::Ttl(ttl) => options.ttl = Some(ttl),
                    Opt::Tos(tos) => options.tos = tos,
                    Opt::DontFragment(on) => options.dont_fragment = on,
                    Opt::MulticastTtl(ttl) => options.multicast_ttl = ttl,
                    Opt::MulticastLoop(on) => options.multicast_loop = on,
                    Opt::MulticastIface(iface) => options.multicast_iface = iface,
                    Opt::Join(..) | Opt::Leave(..) => {}
                }
                pcb.forget_headers();
            })
            .ok_or(Errno::EBADF)
    }

    /// `getsockopt`.
    ///
    /// # Errors
    /// `EBADF`.
    pub fn option(&self, fd: Fd, kind: OptKind) -> Result<Opt, Errno> {
        let default_ttl = self.stack.knobs.ttl.get() as u8;
        self.stack
            .with_pcb(self.cx(), fd.0, |pcb| match kind {
                OptKind::RecvBuffer => Opt::RecvBuffer(pcb.recv_limit()),
                OptKind::RecvTimeout => Opt::RecvTimeout(pcb.options.recv_timeout),
                OptKind::NonBlocking => Opt::NonBlocking(pcb.options.nonblocking),
                OptKind::Broadcast => Opt::Broadcast(pcb.options.broadcast),
                OptKind::ReuseAddr => Opt::ReuseAddr(pcb.options.reuse_addr),
                OptKind::ReusePort => Opt::ReusePort(pcb.options.reuse_port),
                OptKind::Ttl => Opt::Ttl(pcb.options.ttl.unwrap_or(default_ttl)),
                OptKind::Tos => Opt::Tos(pcb.options.tos),
                OptKind::DontFragment => Opt::DontFragment(pcb.options.dont_fragment),
                OptKind::MulticastTtl => Opt::MulticastTtl(pcb.options.multicast_ttl),
                OptKind::MulticastLoop => Opt::MulticastLoop(pcb.options.multicast_loop),
                OptKind::MulticastIface => Opt::MulticastIface(pcb.options.multicast_iface),
            })
            .ok_or(Errno::EBADF)
    }
}
