//! Drop counters of the kernel.

use anyhow::Context;
use port::os::netlink::{Netlink, TxDrops};

pub(super) enum Drops {
    /// Statistics of a device and of its queues.
    Device { netlink: Netlink, name: &'static str },
    /// Last column of /proc/net/udp, in the row of the socket bound to the port.
    Socket { l4_port: u16 },
}

impl Drops {
    /// Reads the counters; [`TxDrops::since`] subtracts two readings. A socket's counter has 32
    /// bits and wraps, like that of a device.
    pub fn read(&mut self) -> anyhow::Result<TxDrops> {
        match self {
            Drops::Device { netlink, name } => Ok(netlink.tx_drops(name)?),
            Drops::Socket { l4_port } => Ok(TxDrops { queues: socket_drops(*l4_port)?, driver: 0 }),
        }
    }
}

fn socket_drops(l4_port: u16) -> anyhow::Result<u32> {
    let table = std::fs::read_to_string("/proc/thread-self/net/udp").context("cannot read /proc/net/udp")?;
    let local = format!(":{l4_port:04X}");
    let ours = |line: &&str| line.split_whitespace().nth(1).is_some_and(|address| address.ends_with(&local));
    let column = table.lines().find(ours).and_then(|row| row.split_whitespace().last());
    Ok(column.context("no entry of the socket in /proc/net/udp")?.parse()?)
}
