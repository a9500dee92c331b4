//! UDP (RFC 768, RFC 1122 4.1, RFC 8200 8.1): protocol control blocks, and what is common to both directions and families.
//!
//! A [`Pcb`] holds one socket's addresses, receive queue and kept headers. Datagrams come in as whole frames and wait as
//! such: the one copy is the reader's, or none if it takes the [`buf::Frame`]. A socket of IPv6 that is bound to no address
//! takes datagrams of both families, unless it says otherwise (RFC 3493 3.7, 5.3).

mod ancillary;
mod bind;
mod cache;
mod check;
mod ends;
mod error;
mod group;
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
pub(crate) use input::came_by;
pub use pcb::Pcb;
pub(crate) use read::strip6;
pub use read::{Read, Received, Sender, sender};
pub(crate) use receive::Receive;

/// What a socket wants of the datagrams it sends and receives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Time to live, or hop limit of IPv6; `None`: the knob's.
    pub ttl: Option<u8>,
    /// Type of service, or traffic class of IPv6.
    pub tos: u8,
    /// Time to live, or hop limit of IPv6, of multicasts.
    pub multicast_ttl: u8,
    /// The iface multicasts leave through.
    pub multicast_iface: Option<IfaceId>,
    /// Own multicasts come back to this host's members.
    pub multicast_loop: bool,
    /// May send to broadcast addresses.
    pub broadcast: bool,
    /// The port may be bound by others that say the same.
    pub reuse_addr: bool,
    /// As `reuse_addr`, also for unicast.
    pub reuse_port: bool,
    /// Never fragment; too long is an error.
    pub dont_fragment: bool,
    /// A socket of IPv6 takes no IPv4, not even where it is bound to no address.
    pub v6only: bool,
    /// How long a receive may wait; `None`: for ever.
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
            dont_fragment: false,
            v6only: false,
            recv_timeout: None,
        }
    }
}

/// The bound but unconnected sockets of each L4 port, those that broadcasts and multicasts may be for; and the connected
/// ones that keep their port for themselves (BSD and Linux count them too when somebody wants to bind it).
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

    /// Notes that a connected socket keeps `port` for itself.
    pub(crate) fn hold(&mut self, port: L4Port, pcb: usize) {
        self.1.entry(port).or_default().push(pcb);
    }

    /// Does a connected socket keep `port` for itself?
    pub(crate) fn is_held(&self, port: L4Port) -> bool {
        self.1.contains_key(&port)
    }

    pub(crate) fn get(&self, port: L4Port) -> &[usize] {
        self.0.get(&port).map_or(&[], Vec::as_slice)
    }
}
