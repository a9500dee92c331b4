//! Counters of the frames that a device has dropped on transmission. They show whether a drop
//! filter has dropped all frames sent to its device. Also reads the device's XDP program and kind.
//!
//! There are two counters, because a frame can be dropped in a queue or in the driver. Frames
//! dropped by a filter at the `clsact` qdisc are counted as dropped in a queue, under that qdisc.
//! Both counters are read over netlink, because /proc/net/dev contains only the driver's counter.

use super::message::{self, Message};
use super::{Netlink, NetlinkError};

/// Values of a device's drop counters at one time, for comparison with the values at an earlier
/// time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TxDrops {
    /// Frames dropped in queues, summed over all queues, as printed by `tc -s qdisc`. The kernel's
    /// counter has 32 bits and wraps around.
    pub queues: u32,
    /// Frames dropped by the driver (`tx_dropped`).
    pub driver: u64,
}

impl TxDrops {
    /// Returns the number of frames dropped since `before`. It is correct as long as fewer than
    /// 2^32 frames were dropped in queues.
    pub fn since(self, before: TxDrops) -> u64 {
        u64::from(self.queues.wrapping_sub(before.queues)) + self.driver.wrapping_sub(before.driver)
    }
}

impl Netlink {
    /// Returns the transmit drop counters of `dev`.
    ///
    /// # Errors
    /// ENODEV if there is no interface with this name.
    pub fn tx_drops(&mut self, dev: &str) -> Result<TxDrops, NetlinkError> {
        let index = self.ifindex(dev)?;
        Ok(TxDrops { queues: self.queue_drops(dev, index)?, driver: self.driver_drops(dev, index)? })
    }

    /// Returns the number of the XDP program on `dev`; `None` if there is none.
    ///
    /// # Errors
    /// ENODEV if there is no interface with this name.
    pub fn xdp_program(&mut self, dev: &str) -> Result<Option<u32>, NetlinkError> {
        let index = self.ifindex(dev)?;
        let mut message = Message::new(libc::RTM_GETLINK, 0);
        message.ifinfo(index, 0, 0);
        let mut program = None;
        self.exchange(
            message,
            || format!("read the XDP program of {dev}"),
            |reply| {
                if reply.ty == libc::RTM_NEWLINK {
                    program = reply.find(16, libc::IFLA_XDP).and_then(of_xdp); // after struct ifinfomsg
                }
            },
        )?;
        Ok(program)
    }

    /// Returns the kind of a virtual device, such as "veth"; `None` for hardware and for the
    /// loopback.
    ///
    /// # Errors
    /// ENODEV if there is no interface with this name.
    pub fn kind(&mut self, dev: &str) -> Result<Option<String>, NetlinkError> {
        const INFO_KIND: u16 = 1; // IFLA_INFO_KIND
        let index = self.ifindex(dev)?;
        let mut message = Message::new(libc::RTM_GETLINK, 0);
        message.ifinfo(index, 0, 0);
        let mut kind = None;
        self.exchange(
            message,
            || format!("read the link type of {dev}"),
            |reply| {
                if reply.ty == libc::RTM_NEWLINK {
                    let info = reply.find(16, libc::IFLA_LINKINFO); // after struct ifinfomsg
                    let text = info.and_then(|info| message::find(info, INFO_KIND));
                    kind = text.map(|text| String::from_utf8_lossy(text).trim_end_matches('\0').to_string());
                }
            },
        )?;
        Ok(kind)
    }

    fn queue_drops(&mut self, dev: &str, index: u32) -> Result<u32, NetlinkError> {
        let mut message = Message::new(libc::RTM_GETQDISC, libc::NLM_F_DUMP as u16);
        message.tc(index, 0, 0, 0);
        let mut drops = 0u32;
        self.exchange(
            message,
            || format!("read the queue drop counters of {dev}"),
            |reply| {
                // The reply contains the queues of all devices.
                if reply.ty == libc::RTM_NEWQDISC && reply.ifindex() == Some(index) {
                    let stats = reply.find(20, libc::TCA_STATS2); // after struct tcmsg
                    drops = drops.wrapping_add(stats.and_then(of_queue).unwrap_or_default());
                }
            },
        )?;
        Ok(drops)
    }

    fn driver_drops(&mut self, dev: &str, index: u32) -> Result<u64, NetlinkError> {
        let mut message = Message::new(libc::RTM_GETLINK, 0);
        message.ifinfo(index, 0, 0);
        let mut drops = None;
        self.exchange(
            message,
            || format!("read the drop counter of {dev}"),
            |reply| {
                if reply.ty == libc::RTM_NEWLINK {
                    drops = reply.find(16, libc::IFLA_STATS64).and_then(of_driver); // after struct ifinfomsg
                }
            },
        )?;
        let missing =
            || NetlinkError { doing: format!("read the drop counter of {dev}"), errno: libc::ENODATA, why: None };
        drops.ok_or_else(missing)
    }
}

/// Returns the field `drops` of struct gnet_stats_queue (qlen, backlog, drops, requeues,
/// overlimits).
fn of_queue(stats: &[u8]) -> Option<u32> {
    const STATS_QUEUE: u16 = 3; // TCA_STATS_QUEUE
    message::word(message::find(stats, STATS_QUEUE)?, 8)
}

/// Returns the program's number from the attributes of IFLA_XDP.
fn of_xdp(xdp: &[u8]) -> Option<u32> {
    const PROG_ID: u16 = 4; // IFLA_XDP_PROG_ID
    message::word(message::find(xdp, PROG_ID)?, 0)
}

/// Returns `tx_dropped`, the eighth field of struct rtnl_link_stats64.
fn of_driver(stats: &[u8]) -> Option<u64> {
    Some(u64::from_ne_bytes(*stats.get(7 * 8..)?.first_chunk()?))
}
