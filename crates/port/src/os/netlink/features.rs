//! XDP features of a device's driver: the generic netlink family "netdev" (Linux 6.3,
//! Documentation/netlink/specs/netdev.yaml).

use super::message::{self, Message};
use super::{Netlink, NetlinkError};

/// XDP features of a driver (`NETDEV_XDP_ACT_*`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct XdpFeatures(u64);

impl XdpFeatures {
    /// Returns whether the driver supports zero copy for AF_XDP sockets
    /// (`NETDEV_XDP_ACT_XSK_ZEROCOPY`).
    pub fn zero_copy(self) -> bool {
        self.0 & 8 != 0
    }

    /// Returns whether XDP programs in the driver can redirect frames (`NETDEV_XDP_ACT_REDIRECT`).
    pub fn redirect(self) -> bool {
        self.0 & 2 != 0
    }
}

/// Size of `struct genlmsghdr` in bytes.
const GENERIC: usize = 4;
const CMD_GETFAMILY: u8 = 3;
const FAMILY_ID: u16 = 1; // CTRL_ATTR_FAMILY_ID
const FAMILY_NAME: u16 = 2; // CTRL_ATTR_FAMILY_NAME
const CMD_DEV_GET: u8 = 1;
const IFINDEX: u16 = 1; // NETDEV_A_DEV_IFINDEX
const FEATURES: u16 = 3; // NETDEV_A_DEV_XDP_FEATURES

/// Reads the XDP features of device `dev` from the kernel.
///
/// # Errors
/// ENODEV if there is no interface with this name; ENOENT on kernels before 6.3, which do not
/// report XDP features.
pub fn xdp_features(dev: &str) -> Result<XdpFeatures, NetlinkError> {
    let index = Netlink::open()?.ifindex(dev)?;
    let mut generic = Netlink::open_family(libc::NETLINK_GENERIC)?;
    let family = generic.family("netdev")?;
    let mut features = None;
    let mut message = Message::new(family, 0);
    message.put(&[CMD_DEV_GET, 1, 0, 0]);
    message.attr(IFINDEX, &index.to_ne_bytes());
    generic.exchange(
        message,
        || format!("read the XDP features of {dev}"),
        |reply| {
            let value = reply.find(GENERIC, FEATURES).and_then(|value| value.first_chunk());
            features = value.map(|value| XdpFeatures(u64::from_ne_bytes(*value)));
        },
    )?;
    Ok(features.unwrap_or_default())
}

impl Netlink {
    /// Returns the number of a generic netlink family, which is the type of its messages.
    fn family(&mut self, name: &str) -> Result<u16, NetlinkError> {
        let mut message = Message::new(libc::GENL_ID_CTRL as u16, 0);
        message.put(&[CMD_GETFAMILY, 1, 0, 0]);
        message.text(FAMILY_NAME, name);
        let (mut id, doing) = (None, || format!("find the netlink family {name}"));
        self.exchange(message, doing, |reply| {
            id = reply.find(GENERIC, FAMILY_ID).and_then(|value| message::half(value, 0));
        })?;
        id.ok_or_else(|| NetlinkError { doing: doing(), errno: libc::ENOENT, why: None })
    }
}
