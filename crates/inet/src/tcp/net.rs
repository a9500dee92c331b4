//! The ends of a TCP socket (local and remote address and port), and the methods that TCP adds to
//! [`Family`].
//!
//! The cache line of a socket contains its ports and its IPv4 addresses. IPv6 addresses are in
//! [`Rest`], which is allocated only if needed.

use super::headers::LINK;
use super::{ListenConfigs, Rest, Sock};
use crate::Stack;
use crate::demux::{Ends, Ends4, Ends6, Tuple};
use crate::ends::{Domain, Families, SockEnds};
use crate::family::Family;
use ::tcp::Config;
use lock::Locks;
use std::net::SocketAddr;
use std::sync::Arc;
use wire::ip6;

/// Address family, as used by TCP.
pub(crate) trait Net: Family {
    /// Returns the socket's addresses and ports if it accepts segments of this family.
    fn ends_of<L: Locks>(sock: &Sock<L>) -> Option<Ends<Self>>;
    /// Returns the MSS assumed for a peer without an MSS option (RFC 9293 3.7.1).
    fn default_mss<L: Locks>(stack: &Stack<L>) -> u16;
    /// Returns the configuration that a listener uses for connections of this family.
    fn listen_config(configs: &ListenConfigs) -> &Arc<Config>;
    /// Returns whether headers that were built for another connection are valid for segments
    /// between `ends`, except for the fields that [`Net::make_own`] writes.
    fn leads(headers: &[u8], ends: Ends<Self>, tos: u8, ttl: u8) -> bool;
    /// Writes the header fields that are specific to one connection.
    fn make_own<L: Locks>(headers: &mut [u8], stack: &Stack<L>, ends: Ends<Self>);
}

impl Net for u32 {
    #[inline(always)]
    fn ends_of<L: Locks>(sock: &Sock<L>) -> Option<Ends4> {
        (sock.place.families() != Families::V6).then_some(sock.ends)
    }

    fn default_mss<L: Locks>(stack: &Stack<L>) -> u16 {
        stack.sysctls.tcp_mssdflt.get() as u16
    }

    #[inline(always)]
    fn listen_config(configs: &ListenConfigs) -> &Arc<Config> {
        &configs.four
    }

    #[inline(always)]
    fn leads(headers: &[u8], ends: Ends4, tos: u8, ttl: u8) -> bool {
        let Some(ip) = headers.get(LINK..).and_then(|ip| ip.first_chunk::<20>()) else { return false };
        let addrs = u64::from(ends.local) << 32 | u64::from(ends.remote);
        (ip[0], ip[1], ip[8]) == (0x45, tos, ttl) && ip.last_chunk() == Some(&addrs.to_be_bytes())
    }

    #[inline(always)]
    fn make_own<L: Locks>(_: &mut [u8], _: &Stack<L>, _: Ends4) {}
}

impl Net for u128 {
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn ends_of<L: Locks>(sock: &Sock<L>) -> Option<Ends6> {
        match sock.place.families() {
            Families::V6 => sock.rest.as_ref().map(|rest| rest.ends6),
            Families::Both => Some(Ends { local_port: sock.ends.local_port, ..Ends::default() }),
            Families::V4 | Families::Mapped => None,
        }
    }

    fn default_mss<L: Locks>(stack: &Stack<L>) -> u16 {
        stack.sysctls.tcp_v6mssdflt.get() as u16
    }

    #[inline(always)]
    fn listen_config(configs: &ListenConfigs) -> &Arc<Config> {
        &configs.six
    }

    /// Headers between link-local addresses are never shared, since the same address exists on many
    /// links.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn leads(headers: &[u8], ends: Ends6, tos: u8, ttl: u8) -> bool {
        let Some(ip) = headers.get(LINK..).and_then(ip6::HeaderView::of) else { return false };
        let is_link_local = |bits: u128| bits >> 118 == 0xfe80 >> 6;
        (ip.traffic_class(), ip.hop_limit(), ip.src, ip.dst) == (tos, ttl, ends.local, ends.remote)
            && !is_link_local(ends.local)
            && !is_link_local(ends.remote)
    }

    fn make_own<L: Locks>(headers: &mut [u8], stack: &Stack<L>, ends: Ends6) {
        let [_, l0, l1, l2] =
            stack.flow_label(ends.local, ends.remote, [ends.local_port, ends.remote_port]).to_be_bytes();
        if let Some([_, f0, f1, f2, ..]) = headers.get_mut(LINK..) {
            (*f0, *f1, *f2) = (*f0 & 0xf0 | l0, l1, l2);
        }
    }
}

impl<L: Locks> Sock<L> {
    /// Returns the domain with which the socket was opened.
    pub fn domain(&self) -> Domain {
        if self.place.families() == Families::V4 { Domain::Inet } else { Domain::Inet6 }
    }

    /// Returns whether the socket's addresses are IPv6.
    #[inline(always)]
    pub(super) fn is_six(&self) -> bool {
        self.place.families() == Families::V6
    }

    /// Returns the local and remote address and port.
    pub fn tuple(&self) -> Tuple {
        self.ends().tuple()
    }

    /// Returns the local address in the form that the application receives.
    pub fn local_addr(&self) -> SocketAddr {
        self.domain().shown(self.tuple().local_addr())
    }

    /// Returns the remote address in the form that the application receives.
    pub fn peer_addr(&self) -> SocketAddr {
        self.domain().shown(self.tuple().remote_addr())
    }

    /// Returns the local and remote address and port of the socket.
    pub(super) fn ends(&self) -> SockEnds {
        match self.place.families() {
            Families::V4 | Families::Mapped => SockEnds::V4(self.ends),
            Families::V6 => SockEnds::V6(self.rest.as_ref().map(|rest| rest.ends6).unwrap_or_default()),
            Families::Both => SockEnds::Both(self.ends.local_port),
        }
    }

    /// Sets the local and remote address and port. Called when the socket is bound, connected or
    /// disconnected.
    pub(super) fn set_ends(&mut self, ends: SockEnds) {
        let domain = self.domain();
        match ends {
            SockEnds::V4(ends) => {
                self.place.take(if domain == Domain::Inet { Families::V4 } else { Families::Mapped });
                self.ends = ends;
            }
            SockEnds::Both(local_port) => {
                self.place.take(Families::Both);
                self.ends = Ends { local_port, ..Ends::default() };
            }
            SockEnds::V6(ends) => {
                let Ends { local_port, remote_port, .. } = ends;
                self.place.take(Families::V6);
                self.ends = Ends { local: 0, remote: 0, local_port, remote_port };
                self.rest().ends6 = ends;
            }
        }
    }

    /// Records that the socket is in the table of L4 ports.
    pub(super) fn set_bound(&mut self) {
        self.place.set_bound();
    }

    pub(super) fn rest(&mut self) -> &mut Rest<L> {
        self.rest.get_or_insert_default()
    }
}
