//! The devices of a namespace, and the packet sockets that send through them. Arriving frames are
//! counted by the far device only.

use crate::native::batch::Batch;
use crate::subject::{Reading, measure};
use anyhow::{Context, ensure};
use port::os::netlink::Netlink;
use port::os::packet;
use port::os::tun;
use std::fs::{self, File};
use std::net::Ipv4Addr;

/// Length of a frame in bytes, without FCS; the frame has 64 bytes on the wire.
const LEN: usize = 60;
/// Number of stations at each side: 1,000 in all, as in the row `bridge.1k`.
const STATIONS: usize = 500;
/// Number of different frames in each direction.
const DIFFERENT: usize = 1024;
/// Local experimental EtherType 1 (IEEE 802 9.2.4): no protocol of the kernel receives it.
const ETHERTYPE: [u8; 2] = [0x88, 0xb5];

/// Creates a pair of veths, both up.
pub fn veths(netlink: &mut Netlink, near: &str, far: &str) -> anyhow::Result<()> {
    netlink.add_veth(near, far)?;
    [near, far].iter().try_for_each(|name| up(netlink, name))
}

/// Brings a device up, with IPv6 disabled so that the kernel sends nothing of its own.
pub fn up(netlink: &mut Netlink, name: &str) -> anyhow::Result<()> {
    // A failure is not fatal: the kernel may have no IPv6.
    let _ = fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1");
    Ok(netlink.set_up(name)?)
}

/// Opens a packet socket that sends through device `name`.
pub fn sender(name: &str) -> anyhow::Result<File> {
    let at = |(step, error): packet::Failure| anyhow::Error::new(error).context(format!("{name}: {step}"));
    packet::tx::open_plain(packet::iface(name).map_err(at)?.index, false).map_err(at)
}

/// Opens a packet socket that receives from device `name`.
pub fn receiver(name: &str) -> anyhow::Result<File> {
    let at = |(step, error): packet::Failure| anyhow::Error::new(error).context(format!("{name}: {step}"));
    packet::rx::open_plain(packet::iface(name).map_err(at)?.index).map_err(at)
}

/// Checks that TAP devices can be created.
pub fn has_tun() -> anyhow::Result<()> {
    let plain = tun::Config { vnet_hdr: 0, rx_csum: false, rx_large: false };
    tun::open_tap("probe%d", plain).map(drop).map_err(|(step, error)| anyhow::Error::new(error).context(step))
}

/// Returns a station's address: locally administered (IEEE 802 8.4).
fn station(side: u8, n: usize) -> [u8; 6] {
    let [.., a, b, c] = n.to_be_bytes();
    [2, 0, side, a, b, c]
}

/// Builds a frame from station `from` of a side to station `to` of the other side.
pub fn frame(side: u8, from: usize, to: usize) -> Vec<u8> {
    let mut frame = [&station(1 - side, to)[..], &station(side, from), &ETHERTYPE].concat();
    frame.resize(LEN, 0);
    frame
}

/// MAC address of both gateways (an arbitrary value).
pub const GATEWAY_MAC: [u8; 6] = [2, 9, 9, 9, 9, 9];

/// Returns the router's MAC address at a side.
pub fn router_mac(side: u8) -> [u8; 6] {
    [2, 8, 0, 0, 0, side]
}

/// Returns the router's address at a side, the gateway there, and the /16 network reached by it.
pub fn router_addrs(side: u8) -> [Ipv4Addr; 3] {
    [Ipv4Addr::new(10, side, 0, 1), Ipv4Addr::new(10, side, 0, 2), Ipv4Addr::new(20 + side, 0, 0, 0)]
}

/// Builds a frame for the router that carries a UDP datagram without payload, from the network of
/// `side` to the network of the other side.
fn packet(side: u8, n: usize) -> Vec<u8> {
    let host = |side: u8, n: usize| {
        let [.., a, b] = n.to_be_bytes();
        Ipv4Addr::new(20 + side, 0, a, b)
    };
    let header = wire::ip4::Header::new(host(side, n), host(1 - side, n * 7 % DIFFERENT), wire::Proto::UDP, LEN - 34);
    let mut frame = [&router_mac(side)[..], &GATEWAY_MAC, &[8, 0]].concat();
    frame.resize(LEN, 0);
    if let (Some(header), Some(room)) = (header, frame[14..].first_chunk_mut()) {
        wire::ip4::Header { ttl: 64, ..header }.emit(room);
    }
    frame[34..40].copy_from_slice(&[4, 0, 0, 9, 0, (LEN - 34) as u8]); // no checksum (RFC 768)
    frame
}

/// One direction of traffic: the sending socket, and the device that counts the arriving frames.
pub struct Way {
    from: File,
    sink: String,
    frames: Vec<Vec<u8>>,
    next: usize,
}

impl Way {
    /// Returns the direction from the stations of `side` behind device `from` to the stations
    /// behind `sink`.
    pub fn new(side: u8, from: &str, sink: &str) -> anyhow::Result<Way> {
        // The strides are coprime with the number of stations, so each station is used.
        let frames = (0..DIFFERENT).map(|n| frame(side, n * 7 % STATIONS, n * 13 % STATIONS)).collect();
        Ok(Way { from: sender(from)?, sink: sink.to_owned(), frames, next: 0 })
    }

    /// Returns a direction in which the frames carry IPv4 packets for a router.
    pub fn routed(side: u8, from: &str, sink: &str) -> anyhow::Result<Way> {
        let frames = (0..DIFFERENT).map(|n| packet(side, n)).collect();
        Ok(Way { from: sender(from)?, sink: sink.to_owned(), frames, next: 0 })
    }

    /// Sends `count` frames, at most [`DIFFERENT`], in one call.
    pub fn send(&mut self, count: usize) -> anyhow::Result<Reading> {
        let at = self.next % DIFFERENT;
        self.next += count;
        let frames = self.frames.iter().cycle().skip(at).take(count);
        let mut batch = Batch::of(frames.map(Vec::as_slice));
        let mut sent = 0;
        let reading = measure(count as u64, || sent = batch.send(&self.from, count as u64));
        let error = std::io::Error::last_os_error();
        ensure!(sent == count as u64, "{sent} of {count} frames sent: {error}");
        Ok(reading)
    }

    /// Returns the name of the far device.
    pub fn sink(&self) -> &str {
        &self.sink
    }

    /// Returns the number of frames received by the far device so far.
    pub fn arrived(&self) -> anyhow::Result<u64> {
        let text = fs::read_to_string("/proc/self/net/dev").context("cannot read /proc/self/net/dev")?;
        received(&text, &self.sink).with_context(|| format!("no device {} in /proc/self/net/dev", self.sink))
    }
}

/// Returns the second number of a device's line: packets received (proc_pid_net(5)).
fn received(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.trim_start().strip_prefix(name)?.strip_prefix(':'))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn received_counts_are_parsed_and_frames_have_their_addresses() {
        let text = "Inter-| Receive\n left0: 10 2 0\n  left:  640 17 0 0\n";
        assert_eq!(received(text, "left"), Some(17));
        assert_eq!(received(text, "right"), None);
        let frame = frame(1, 3, 4);
        assert_eq!(frame.len(), LEN);
        assert_eq!(frame[..14], [2, 0, 0, 0, 0, 4, 2, 0, 1, 0, 0, 3, 0x88, 0xb5]);
    }
}
