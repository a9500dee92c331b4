//! A minimal rtnetlink client (rtnetlink(7)): links, addresses, neighbors, routes, a drop filter
//! and drop counters.
//!
//! Each call sends one request and reads the reply on the same socket; the kernel replies before
//! the request returns. Interface names are looked up on each call.

mod counts;
mod drop;
mod features;
mod message;
mod watch;

pub use counts::TxDrops;
pub use drop::{DropBy, DropError};
pub use features::{XdpFeatures, xdp_features};
pub use watch::{DeviceLink, LinkChanges, LinkWatch};

use super::netns::Namespace;
use super::{errno_text, set_option, socket};
use message::{Message, Reader, Reply};
use std::fmt;
use std::fs::File;
use std::io::{Read, Write};
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd};
use wire::Mac;

/// Error of a kernel request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NetlinkError {
    /// Description of the failed operation for the error message, such as `set eth0 up`.
    pub doing: String,
    /// Error number returned by the kernel.
    pub errno: i32,
    /// The kernel's error text, if it sent one (extended acknowledgement).
    pub why: Option<String>,
}

impl fmt::Display for NetlinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.doing, errno_text(self.errno))?;
        self.why.as_ref().map_or(Ok(()), |why| write!(f, ": {why}"))
    }
}

impl std::error::Error for NetlinkError {}

/// Result of a request: the interface index in the reply, if any.
type Answer = Result<Option<u32>, NetlinkError>;

/// A netlink socket to the kernel's routing subsystem.
#[derive(Debug)]
pub struct Netlink {
    socket: File,
    seq: u32,
}

impl Netlink {
    /// Opens the socket in the network namespace of the calling thread.
    ///
    /// # Errors
    /// The kernel has no netlink support, or no descriptors are available.
    pub fn open() -> Result<Netlink, NetlinkError> {
        Netlink::open_family(libc::NETLINK_ROUTE)
    }

    fn open_family(family: i32) -> Result<Netlink, NetlinkError> {
        let failed = |error: std::io::Error| failure("open a netlink socket", &error);
        let fd = socket(libc::AF_NETLINK, libc::SOCK_RAW, family).map_err(failed)?;
        // Requests error texts; kernels before 4.12 do not have them.
        let _ = set_option(fd.as_fd(), libc::SOL_NETLINK, libc::NETLINK_EXT_ACK, &1i32);
        // The reply is available when the request returns; the timeout is only a safeguard.
        let patience = libc::timeval { tv_sec: 2, tv_usec: 0 };
        set_option(fd.as_fd(), libc::SOL_SOCKET, libc::SO_RCVTIMEO, &patience).map_err(failed)?;
        Ok(Netlink { socket: File::from(fd), seq: 0 })
    }

    /// Returns the index of interface `dev`.
    ///
    /// # Errors
    /// ENODEV if there is no interface with this name.
    pub fn ifindex(&mut self, dev: &str) -> Result<u32, NetlinkError> {
        self.device(dev).map(|link| link.index)
    }

    /// Brings `dev` up.
    ///
    /// # Errors
    /// The kernel's errors.
    pub fn set_up(&mut self, dev: &str) -> Result<(), NetlinkError> {
        let up = libc::IFF_UP as u32;
        self.link(dev, "up", |message, index| message.ifinfo(index, up, up))
    }

    /// Brings `dev` down.
    ///
    /// # Errors
    /// The kernel's errors.
    pub fn set_down(&mut self, dev: &str) -> Result<(), NetlinkError> {
        self.link(dev, "down", |message, index| message.ifinfo(index, 0, libc::IFF_UP as u32))
    }

    /// Sets the MTU of `dev`.
    ///
    /// # Errors
    /// EINVAL if `mtu` is outside the range that the device supports.
    pub fn set_mtu(&mut self, dev: &str, mtu: u32) -> Result<(), NetlinkError> {
        self.link(dev, &format!("mtu {mtu}"), |message, index| {
            message.ifinfo(index, 0, 0);
            message.attr(libc::IFLA_MTU, &mtu.to_ne_bytes());
        })
    }

    /// Sets the MAC address of `dev`.
    ///
    /// # Errors
    /// EADDRNOTAVAIL if `mac` is a group address.
    pub fn set_mac(&mut self, dev: &str, mac: Mac) -> Result<(), NetlinkError> {
        self.link(dev, &format!("address {mac}"), |message, index| {
            message.ifinfo(index, 0, 0);
            message.attr(libc::IFLA_ADDRESS, &mac.0);
        })
    }

    fn link(&mut self, dev: &str, what: &str, fill: impl FnOnce(&mut Message, u32)) -> Result<(), NetlinkError> {
        let index = self.ifindex(dev)?;
        let mut message = Message::new(libc::RTM_NEWLINK, 0);
        fill(&mut message, index);
        self.request(message, || format!("set {dev} {what}")).map(drop)
    }

    /// Deletes `dev`.
    ///
    /// # Errors
    /// EOPNOTSUPP if the device cannot be deleted.
    pub fn delete_link(&mut self, dev: &str) -> Result<(), NetlinkError> {
        let index = self.ifindex(dev)?;
        let mut message = Message::new(libc::RTM_DELLINK, 0);
        message.ifinfo(index, 0, 0);
        self.request(message, || format!("delete {dev}")).map(drop)
    }

    /// Creates a pair of connected virtual Ethernet devices.
    ///
    /// # Errors
    /// EEXIST if a name is in use; EOPNOTSUPP if the kernel does not support veth.
    pub fn add_veth(&mut self, a: &str, b: &str) -> Result<(), NetlinkError> {
        let mut message = Message::new(libc::RTM_NEWLINK, (libc::NLM_F_CREATE | libc::NLM_F_EXCL) as u16);
        message.ifinfo(0, 0, 0);
        message.text(libc::IFLA_IFNAME, a);
        message.nest(libc::IFLA_LINKINFO, |info| {
            info.text(libc::IFLA_INFO_KIND, "veth");
            info.nest(libc::IFLA_INFO_DATA, |data| {
                const VETH_INFO_PEER: u16 = 1;
                data.nest(VETH_INFO_PEER, |peer| {
                    peer.ifinfo(0, 0, 0);
                    peer.text(libc::IFLA_IFNAME, b);
                });
            });
        });
        self.request(message, || format!("add veth {a} and {b}")).map(drop)
    }

    /// Moves `dev` to another namespace. It is down there and has no addresses.
    ///
    /// # Errors
    /// EEXIST if the device's name is in use in that namespace; EPERM if the process has no rights
    /// in it.
    pub fn move_to(&mut self, dev: &str, namespace: &Namespace) -> Result<(), NetlinkError> {
        self.link(dev, "namespace", |message, index| {
            message.ifinfo(index, 0, 0);
            message.attr(libc::IFLA_NET_NS_FD, &namespace.as_fd().as_raw_fd().to_ne_bytes());
        })
    }

    /// Creates a bridge of the kernel with its spanning tree off.
    ///
    /// # Errors
    /// EEXIST if the name is in use; EOPNOTSUPP if the kernel does not support bridges.
    pub fn add_bridge(&mut self, name: &str) -> Result<(), NetlinkError> {
        let mut message = Message::new(libc::RTM_NEWLINK, (libc::NLM_F_CREATE | libc::NLM_F_EXCL) as u16);
        message.ifinfo(0, 0, 0);
        message.text(libc::IFLA_IFNAME, name);
        message.nest(libc::IFLA_LINKINFO, |info| info.text(libc::IFLA_INFO_KIND, "bridge"));
        self.request(message, || format!("add bridge {name}")).map(drop)
    }

    /// Makes `dev` a port of the kernel's bridge `bridge`.
    ///
    /// # Errors
    /// EBUSY if the device is a port of another bridge; ELOOP or EINVAL if it cannot be a bridge
    /// port.
    pub fn set_master(&mut self, dev: &str, bridge: &str) -> Result<(), NetlinkError> {
        let master = self.ifindex(bridge)?;
        self.link(dev, &format!("master {bridge}"), |message, index| {
            message.ifinfo(index, 0, 0);
            message.attr(libc::IFLA_MASTER, &master.to_ne_bytes());
        })
    }

    /// Adds an address to `dev`. An IPv6 address is added without duplicate address detection.
    ///
    /// # Errors
    /// EEXIST if the interface already has the address.
    pub fn add_addr(&mut self, dev: &str, address: impl Into<IpAddr>, prefix_len: u8) -> Result<(), NetlinkError> {
        let (index, address) = (self.ifindex(dev)?, address.into());
        let (family, octets) = parts(address);
        let flags = if address.is_ipv6() { libc::IFA_F_NODAD as u8 } else { 0 };
        let mut message = Message::new(libc::RTM_NEWADDR, (libc::NLM_F_CREATE | libc::NLM_F_EXCL) as u16);
        message.put(&[family, prefix_len, flags, 0]); // struct ifaddrmsg: family, prefix, flags, scope
        message.put(&index.to_ne_bytes());
        message.attr(libc::IFA_LOCAL, &octets);
        message.attr(libc::IFA_ADDRESS, &octets);
        self.request(message, || format!("add address {address}/{prefix_len} to {dev}")).map(drop)
    }

    /// Removes an address from `dev`.
    ///
    /// # Errors
    /// EADDRNOTAVAIL if the interface does not have the address.
    pub fn remove_addr(&mut self, dev: &str, address: impl Into<IpAddr>, prefix_len: u8) -> Result<(), NetlinkError> {
        let (index, address) = (self.ifindex(dev)?, address.into());
        let (family, octets) = parts(address);
        let mut message = Message::new(libc::RTM_DELADDR, 0);
        message.put(&[family, prefix_len, 0, 0]); // struct ifaddrmsg, as above
        message.put(&index.to_ne_bytes());
        message.attr(libc::IFA_LOCAL, &octets);
        self.request(message, || format!("remove address {address}/{prefix_len} from {dev}")).map(drop)
    }

    /// Makes the kernel add no link-local address to `dev`.
    ///
    /// # Errors
    /// The kernel's errors, such as EAFNOSUPPORT without IPv6.
    pub fn set_no_link_local(&mut self, dev: &str) -> Result<(), NetlinkError> {
        const ADDR_GEN_MODE: u16 = 8; // IFLA_INET6_ADDR_GEN_MODE
        const NONE: u8 = 1; // IN6_ADDR_GEN_MODE_NONE
        self.link(dev, "addrgenmode none", |message, index| {
            message.ifinfo(index, 0, 0);
            message.nest(libc::IFLA_AF_SPEC, |families| {
                families.nest(libc::AF_INET6 as u16, |six| six.attr(ADDR_GEN_MODE, &[NONE]));
            });
        })
    }

    /// Adds a permanent neighbor entry to `dev`.
    ///
    /// # Errors
    /// The kernel's errors.
    pub fn add_neighbor(&mut self, dev: &str, address: impl Into<IpAddr>, mac: Mac) -> Result<(), NetlinkError> {
        let (index, address) = (self.ifindex(dev)?, address.into());
        let (family, octets) = parts(address);
        let mut message = Message::new(libc::RTM_NEWNEIGH, (libc::NLM_F_CREATE | libc::NLM_F_REPLACE) as u16);
        message.put(&[family, 0, 0, 0]); // struct ndmsg: family, padding, index, state, flags, type
        message.put(&index.to_ne_bytes());
        message.put(&libc::NUD_PERMANENT.to_ne_bytes());
        message.put(&[0, 0]);
        message.attr(libc::NDA_DST, &octets);
        message.attr(libc::NDA_LLADDR, &mac.0);
        self.request(message, || format!("add neighbor {address} {mac} to {dev}")).map(drop)
    }

    /// Adds a route to the main table, either through a gateway or directly on the link of `dev`.
    ///
    /// # Errors
    /// ENETUNREACH if the gateway is not on a link; ENETDOWN if `dev` is down.
    pub fn add_route<A: Into<IpAddr>>(
        &mut self,
        dst: A,
        prefix_len: u8,
        via: Option<A>,
        dev: &str,
    ) -> Result<(), NetlinkError> {
        let (index, dst) = (self.ifindex(dev)?, dst.into());
        let (family, octets) = parts(dst);
        let mut message = Message::new(libc::RTM_NEWROUTE, (libc::NLM_F_CREATE | libc::NLM_F_EXCL) as u16);
        let scope = if via.is_some() { libc::RT_SCOPE_UNIVERSE } else { libc::RT_SCOPE_LINK };
        // Fields of struct rtmsg: family, dst_len, src_len, tos, table, protocol, scope, type,
        // flags.
        let table = libc::RT_TABLE_MAIN;
        message.put(&[family, prefix_len, 0, 0, table, libc::RTPROT_STATIC, scope, libc::RTN_UNICAST]);
        message.put(&[0; 4]);
        message.attr(libc::RTA_DST, &octets);
        message.attr(libc::RTA_OIF, &index.to_ne_bytes());
        if let Some(via) = via {
            message.attr(libc::RTA_GATEWAY, &parts(via.into()).1);
        }
        self.request(message, || format!("add route {dst}/{prefix_len} dev {dev}")).map(drop)
    }

    /// Sends a request and waits for its reply.
    fn request(&mut self, message: Message, doing: impl Fn() -> String) -> Answer {
        let mut found = None;
        self.exchange(message, doing, |reply| {
            if reply.ty == libc::RTM_NEWLINK {
                found = reply.ifindex();
            }
        })?;
        Ok(found)
    }

    /// Sends a request and passes each reply to `each`, up to the acknowledgement or the end of a
    /// dump.
    fn exchange(
        &mut self,
        message: Message,
        doing: impl Fn() -> String,
        mut each: impl FnMut(&Reply<'_>),
    ) -> Result<(), NetlinkError> {
        self.seq = self.seq.wrapping_add(1);
        let bytes = message.finish(self.seq);
        self.socket.write_all(&bytes).map_err(|error| failure(&doing(), &error))?;
        let mut answer = vec![0; 32 * 1024];
        loop {
            let len = self.socket.read(&mut answer).map_err(|error| failure(&doing(), &error))?;
            for reply in Reader::new(answer.get(..len).unwrap_or_default()).filter(|reply| reply.seq == self.seq) {
                if !matches!(reply.ty, message::ERROR | message::DONE) {
                    each(&reply);
                    continue;
                }
                let (errno, why) = reply.error();
                return if errno == 0 { Ok(()) } else { Err(NetlinkError { doing: doing(), errno, why }) };
            }
        }
    }
}

/// Returns the family's number and the octets of an address.
fn parts(address: IpAddr) -> (u8, Vec<u8>) {
    match address {
        IpAddr::V4(v4) => (libc::AF_INET as u8, v4.octets().to_vec()),
        IpAddr::V6(v6) => (libc::AF_INET6 as u8, v6.octets().to_vec()),
    }
}

fn failure(doing: &str, error: &std::io::Error) -> NetlinkError {
    NetlinkError { doing: doing.to_string(), errno: error.raw_os_error().unwrap_or(libc::EIO), why: None }
}

#[cfg(test)]
mod tests;
