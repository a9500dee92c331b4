//! Where drops are counted, and how far the count has moved.

use anyhow::Context;
use port::os::netlink::{Netlink, TxDrops};

pub(super) enum Drops {
    /// The statistics of a device and of its queues.
    Device { netlink: Netlink, name: &'static str },
    /// The last column of /proc/net/udp, in the row of the socket bound there.
    Socket { l4_port: u16 },
}

impl Drops {
    /// The level now, for [`TxDrops::since`]. A socket's counter, too, has 32 bits and goes round.
    pub fn read(&mut self) -> anyhow::Result<TxDrops> {
        match self {
            Drops::Device { netlink, name } => Ok(netlink.tx_drops(name)?),
            Drops::Socket { l4_port } => Ok(TxDrops { queues: socket_drops(*l4_port)?, driver: 0 }),
        }
    }
}

fn socket_drops(l4_port: u16) -> anyhow::Result<u32> {
    let table = std::fs::read_to_string("/proc/thread-self/net/udp").context("read /proc/net/udp")?;
    let local = format!(":{l4_port:04X}");
    let ours = |line: &&str| line.split_whitespace().nth(1).is_some_and(|address| address.ends_with(&local));
    let column = table.lines().find(ours).and_then(|row| row.split_whitespace().last());
    Ok(column.context("our socket in /proc/net/udp")?.parse()?)
}
