//! The kernel as both hosts and as the router between them, over virtual Ethernet.
//!
//! ```text
//!  namespace of this process      a second             a third
//!  near, 10.0.0.1  vn = vr  10.0.0.254, forwards, 10.0.1.254  vs = vf  10.0.1.2, far
//! ```
//!
//! One thread drives both ends as in [`super::Place`]: when a send call returns, the packet has
//! passed the router, in the kernel's softirq.

use super::{Drivers, Ground, Seen, beside, far_end, kernel, usual};
use crate::native::sockets::{Calls, KernelSockets};
use anyhow::Context;
use apps::netperf::session::Play;
use port::os::netlink::Netlink;
use port::os::netns::Namespace;
use port::os::tun;
use std::net::{Ipv4Addr, SocketAddr};

/// Address of the far end.
pub const FAR: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 2);
const NEAR: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const ROUTER: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 0, 0, 254), Ipv4Addr::new(10, 0, 1, 254)];

/// Maximum size of a TCP segment on the devices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Segments {
    /// Up to 64 KiB, the default of veth: never segmented, since it does not leave the machine.
    Whole,
    /// Within the MTU: segmented before transmission.
    Cut,
}

/// The three namespaces and their links.
#[derive(Debug)]
pub struct Veth {
    drivers: Drivers,
    far: Namespace,
    _router: Namespace,
}

impl Veth {
    /// Sets up namespaces, devices and routes. The process must already be in a namespace of its
    /// own ([`port::os::netns::command`]).
    ///
    /// # Errors
    /// The kernel has no veth or no forwarding.
    pub fn new(segments: Segments, drivers: Drivers) -> anyhow::Result<Veth> {
        let router = Namespace::new().context("cannot create a namespace for the router")?;
        let far = Namespace::new().context("cannot create a namespace for the far host")?;
        let join = |inner: &str, outer: &str| -> anyhow::Result<()> {
            let mut netlink = Netlink::open()?;
            netlink.add_veth(inner, outer)?;
            Ok(netlink.move_to(outer, &router)?)
        };
        join("vn", "vr")?;
        host("vn", NEAR, ROUTER[0], segments)?;
        far.within(|| {
            join("vf", "vs")?;
            host("vf", FAR, ROUTER[1], segments)
        })??;
        router.within(|| {
            device("vr", ROUTER[0], segments)?;
            device("vs", ROUTER[1], segments)?;
            std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").context("cannot enable IPv4 forwarding")
        })??;
        Ok(Veth { drivers, far, _router: router })
    }

    fn far_sockets(&self, calls: Calls) -> anyhow::Result<KernelSockets> {
        Ok(KernelSockets::within(self.far.try_clone()?, calls))
    }
}

impl Ground for Veth {
    fn is_one_thread(&self) -> bool {
        self.drivers != Drivers::Each
    }

    fn run_counted<P: Play>(&self, play: &mut P) -> anyhow::Result<Seen> {
        let at = |port| SocketAddr::from((FAR, port));
        match self.drivers {
            Drivers::One | Drivers::Workers => {
                kernel::together(play, self.far_sockets(Calls::Return)?, usual::<P::Far>(), at)?
            }
            Drivers::Each => {
                let mut there = self.far_sockets(Calls::Wait)?;
                beside(
                    play,
                    |over, told| far_end::<P::Far, _>(&mut there, usual::<P::Far>(), over, told),
                    |play, port| super::ask_native(play, at(port)),
                )?;
            }
        }
        Ok(Seen::default())
    }
}

fn device(dev: &str, addr: Ipv4Addr, segments: Segments) -> anyhow::Result<()> {
    let mut netlink = Netlink::open()?;
    if segments == Segments::Cut {
        tun::carry_no_large(dev).with_context(|| format!("{dev}: cannot turn off segmentation offload"))?;
    }
    netlink.set_up(dev)?;
    Ok(netlink.add_addr(dev, addr, 24)?)
}

fn host(dev: &str, addr: Ipv4Addr, gateway: Ipv4Addr, segments: Segments) -> anyhow::Result<()> {
    device(dev, addr, segments)?;
    Ok(Netlink::open()?.add_route(Ipv4Addr::UNSPECIFIED, 0, Some(gateway), dev)?)
}
