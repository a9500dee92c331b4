//! UDP (RFC 768, RFC 1122 4.1, RFC 8200 8.1): protocol control blocks, and code that is common to
//! input and output and to IPv4 and IPv6.
//!
//! A [`Pcb`] contains a socket's addresses, receive queue and cached headers. Datagrams are queued
//! as whole frames. The only copy is made when the application reads, and there is no copy if it
//! reads the [`buf::Frame`] itself. An IPv6 socket that is bound to no address receives IPv4
//! datagrams too, unless it is IPv6-only (RFC 3493 3.7, 5.3).

mod ancillary;
mod bind;
mod cache;
mod check;
mod ends;
mod error;
mod group;
mod held;
mod hold;
mod input;
mod net;
mod output;
mod pcb;
mod read;
mod receive;
mod to;

use crate::iface::IfaceId;
use std::collections::HashMap;
use wire::L4Port;

pub use crate::ends::Domain;
pub(crate) use crate::ends::{Families, SockEnds};
pub use crate::ready::ReadySet;
pub use ancillary::{Ancillary, AncillaryKind, PacketInfo};
pub(crate) use ancillary::{NOTE, Reception, note_iface};
pub(crate) use ends::OfPcb;
pub use error::{BindError, SendError, SoError};
pub use group::SourceChange;
pub(crate) use held::HeldDatagrams;
pub(crate) use input::came_by;
pub use pcb::Pcb;
pub(crate) use read::strip6;
pub use read::{Read, Received, Sender, sender};
pub(crate) use receive::Receive;

/// Options of a datagram socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Time to live or IPv6 hop limit of sent datagrams; `None` selects the value of the sysctl.
    pub ttl: Option<u8>,
    /// Type of service or IPv6 traffic class of sent datagrams.
    pub tos: u8,
    /// Time to live or IPv6 hop limit of sent multicast datagrams.
    pub multicast_ttl: u8,
    /// Outgoing interface of multicast datagrams; `None` selects the interface of the route.
    pub multicast_iface: Option<IfaceId>,
    /// True if sockets of this host that have joined a multicast group also receive the datagrams
    /// that this socket sends to the group.
    pub multicast_loop: bool,
    /// Permits sending to broadcast addresses (`SO_BROADCAST`).
    pub broadcast: bool,
    /// `SO_REUSEADDR`: permits sharing the address and port with sockets that set this option or
    /// `reuse_port`.
    pub reuse_addr: bool,
    /// `SO_REUSEPORT`: has the same effect as `reuse_addr`.
    pub reuse_port: bool,
    /// `IP_BINDANY`: permits source addresses that this host does not have.
    pub bind_any: bool,
    /// Sets Don't Fragment. Sending a datagram that exceeds the MTU then fails.
    pub dont_fragment: bool,
    /// Rejects IPv4 on an IPv6 socket, even if the socket is bound to no address.
    pub v6only: bool,
    /// Maximum time that a receive waits; `None` waits forever.
    pub recv_timeout: Option<clock::Duration>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            ttl: None,
            tos: 0,
            multicast_ttl: 1,
            multicast_iface: None,
            multicast_loop: true,
            broadcast: false,
            reuse_addr: false,
            reuse_port: false,
            bind_any: false,
            dont_fragment: false,
            v6only: false,
            recv_timeout: None,
        }
    }
}

/// Sockets by L4 port, in two tables. The first contains bound but unconnected sockets, which can
/// receive broadcasts and multicasts. The second contains connected sockets that do not share their
/// port. As in BSD and Linux, no other socket can be bound to such a port.
#[derive(Debug, Default)]
pub struct ByPort(HashMap<L4Port, Vec<usize>>, HashMap<L4Port, Vec<usize>>);

impl ByPort {
    pub(crate) fn add(&mut self, port: L4Port, pcb: usize) {
        self.0.entry(port).or_default().push(pcb);
    }

    pub(crate) fn remove(&mut self, port: L4Port, pcb: usize) {
        for map in [&mut self.0, &mut self.1] {
            if let Some(pcbs) = map.get_mut(&port) {
                pcbs.retain(|&other| other != pcb);
                if pcbs.is_empty() {
                    map.remove(&port);
                }
            }
        }
    }

    /// Records that a connected socket owns `port`.
    pub(crate) fn hold(&mut self, port: L4Port, pcb: usize) {
        self.1.entry(port).or_default().push(pcb);
    }

    /// Returns whether a connected socket owns `port`.
    pub(crate) fn is_held(&self, port: L4Port) -> bool {
        self.1.contains_key(&port)
    }

    pub(crate) fn get(&self, port: L4Port) -> &[usize] {
        self.0.get(&port).map_or(&[], Vec::as_slice)
    }
}
