//! Destination of the packets: a TAP device that drops them or, where TAP is unavailable, a full
//! socket on loopback.
//!
//! The setup is verified: a frame is read back from the TAP before the filter is installed, to
//! check its length and checksums, and packets sent after that must be counted as dropped.
//! [`Sink::send`] is the measured loop.

use std::fs::File;
use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use port::os::netlink::{DropBy, Netlink};
use port::os::tun;
use wire::eth::Mac;

use super::PAYLOAD;
use super::batch::Batch;
use super::drops::Drops;
use super::readback;
use super::send::Job;
use crate::child::one_line;
use crate::subject::{Reading, measure};

const TAP: &str = "tap0";
const OURS: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 1);
const THEIRS: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 2);
const THEIR_MAC: Mac = Mac([2, 0, 0, 0, 0, 2]);
const DISCARD: u16 = 9; // the L4 port of RFC 863

/// A connected socket; its packets are dropped and counted.
pub(super) struct Sink {
    socket: UdpSocket,
    pub drops: Drops,
    /// One sentence that describes the device.
    pub device: String,
    _held: Held,
}

/// Descriptor that must stay open so that the packets have a destination.
#[expect(dead_code, reason = "held open, never read")]
enum Held {
    Tap(File),
    Unread(UdpSocket),
}

impl Sink {
    /// Creates a TAP device in this process's own `namespace`.
    pub fn tap(namespace: &str) -> anyhow::Result<Sink> {
        let plain = tun::Config { vnet_hdr: 0, rx_csum: false, rx_large: false };
        let opened = tun::open_tap(TAP, plain).map_err(|(step, why)| anyhow::Error::new(why).context(step))?;
        let mut tap = opened.file;
        // With IPv6 enabled, the interface would add its own router solicitations to the drops. A
        // failure is not fatal: they are few.
        let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{TAP}/disable_ipv6"), "1");
        let mut netlink = Netlink::open()?;
        netlink.add_addr(TAP, OURS, 24)?;
        netlink.set_up(TAP)?;
        netlink.add_neighbor(TAP, THEIRS, THEIR_MAC)?;
        let socket = connected(OURS, THEIRS, DISCARD)?;
        socket.send(&[0x5a; PAYLOAD]).context("cannot send through the TAP")?;
        let checked = readback::datagram(&mut tap, THEIR_MAC)?;
        let checksums =
            match tun::takes_tx_checksums(TAP).context("cannot read the checksum offload (ETHTOOL_GTXCSUM)")? {
                true => "the device has checksum offload",
                false => "no checksum offload, so the kernel computes checksums",
            };
        let drops = Drops::Device { netlink, name: TAP };
        let mut sink = Sink { socket, drops, device: String::new(), _held: Held::Tap(tap) };
        let filter = sink.drop_everything()?;
        sink.device = format!(
            "TAP in a separate {namespace}, 64-byte frames without FCS; every packet is dropped by {filter}; \
             {checksums} ({checked})"
        );
        Ok(sink)
    }

    /// Creates [`Sink::loopback`] in this process's own namespace, after setting the loopback
    /// device up.
    pub fn own_loopback(why: &str) -> anyhow::Result<Sink> {
        Netlink::open()?.set_up("lo")?;
        Sink::loopback(why)
    }

    /// Creates a socket on 127.0.0.1 that is never read, and fills it until it drops packets. `why`
    /// is the reason why a TAP device is unavailable.
    pub fn loopback(why: &str) -> anyhow::Result<Sink> {
        let unread = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).context("cannot bind a UDP socket on 127.0.0.1")?;
        let l4_port = unread.local_addr()?.port();
        let socket = connected(Ipv4Addr::LOCALHOST, Ipv4Addr::LOCALHOST, l4_port)?;
        let device = format!(
            "loopback to a full socket that is not read ({why}); the figure includes the receive path up to that socket, \
             and no checksum, since loopback has checksum offload"
        );
        let mut sink = Sink { socket, drops: Drops::Socket { l4_port }, device, _held: Held::Unread(unread) };
        let before = sink.drops.read()?;
        for _ in 0..100_000 {
            if sink.drops.read()?.since(before) > 0 {
                sink.prove()?;
                return Ok(sink);
            }
            sink.send(Job { count: 64, size: PAYLOAD, burst: 1 });
        }
        bail!("6.4 million datagrams did not fill a socket's buffer")
    }

    /// Runs the measured loop; returns its cost, and the number of packets that the kernel refused.
    pub fn send(&self, job: Job) -> (Reading, u64) {
        let payload = vec![0x5a; job.size];
        let mut errors = 0;
        let reading = match job.burst {
            1 => measure(job.count, || {
                for _ in 0..job.count {
                    errors += u64::from(!matches!(self.socket.send(&payload), Ok(n) if n == job.size));
                }
            }),
            burst => {
                let mut batch = Batch::new(&payload, burst);
                measure(job.count, || errors = job.count - batch.send(&self.socket, job.count))
            }
        };
        (reading, errors)
    }

    /// Sends a few packets and checks that each is counted as dropped.
    fn prove(&mut self) -> anyhow::Result<()> {
        let before = self.drops.read()?;
        let (_, errors) = self.send(Job { count: 4, size: PAYLOAD, burst: 1 });
        let dropped = self.drops.read()?.since(before);
        ensure!(errors == 0 && dropped >= 4, "4 packets sent, {errors} refused, {dropped} dropped");
        Ok(())
    }

    /// Installs the first drop method that this kernel supports, and verifies that it drops.
    /// Kernels differ in their build options.
    ///
    /// The order is by cost: a filter before the queue, then a queue that drops, then a queue that
    /// overflows.
    fn drop_everything(&mut self) -> anyhow::Result<String> {
        let mut refused: Vec<String> = Vec::new();
        for means in DropBy::ALL.map(Some).into_iter().chain([None]) {
            match self.drop_by(means).and_then(|()| self.prove()) {
                Ok(()) => return Ok(means.map_or("the blackhole queue".to_owned(), filter_text) + &not_there(&refused)),
                Err(why) => refused.push(one_line(&why)),
            }
            refused.dedup(); // without clsact every filter fails the same way
        }
        self.send(Job { count: 4096, size: PAYLOAD, burst: 1 });
        self.prove().context("this kernel has no method of dropping packets")?;
        Ok("its own full queue, which is not read".to_owned() + &not_there(&refused))
    }

    /// Drops by a filter or, for `None`, by the blackhole queue.
    fn drop_by(&mut self, means: Option<DropBy>) -> anyhow::Result<()> {
        let Drops::Device { netlink, name } = &mut self.drops else { bail!("not a device") };
        match means {
            Some(filter) => netlink.add_drop_filter_by(name, filter)?,
            None => netlink.set_blackhole(name)?,
        }
        Ok(())
    }
}

fn filter_text(filter: DropBy) -> String {
    format!("the filter `{filter}`")
}

fn not_there(refused: &[String]) -> String {
    if refused.is_empty() { String::new() } else { format!(" (rejected by this kernel: {})", refused.join("; ")) }
}

fn connected(from: Ipv4Addr, to: Ipv4Addr, l4_port: u16) -> anyhow::Result<UdpSocket> {
    let socket = UdpSocket::bind((from, 0)).with_context(|| format!("cannot bind a UDP socket to {from}"))?;
    socket.connect((to, l4_port)).with_context(|| format!("cannot connect to {to}"))?;
    // a device that keeps packets instead of dropping them must not block this thread
    socket.set_write_timeout(Some(Duration::from_secs(1)))?;
    Ok(socket)
}
