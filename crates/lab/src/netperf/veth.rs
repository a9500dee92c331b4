//! The kernel as both hosts and as the router between them, over virtual Ethernet.
//!
//! ```text
//!  namespace of this process      a second             a third
//!  near, 10.0.0.1  vn = vr  10.0.0.254, forwards, 10.0.1.254  vs = vf  10.0.1.2, far
//! ```
//!
//! Over IPv6 the addresses are fd00::1, fd00::fe, fd00:0:0:1::fe and fd00:0:0:1::2.
//!
//! One thread drives both ends as in [`super::Place`]: when a send call returns, the packet has
//! passed the router, in the kernel's softirq.

use super::{Drivers, Ground, Observed, address, any, beside, far_end, kernel, prefix_len};
use crate::native::sockets::{Calls, KernelSockets};
use anyhow::Context;
use apps::netperf::session::{FarEnd, Play};
use port::os::netlink::Netlink;
use port::os::netns::Namespace;
use port::os::tun;
use socket::Domain;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Maximum size of a TCP segment on the devices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Segments {
    /// TCP segments of up to 64 KiB, the default of veth. They are not split into packets, since
    /// they do not leave the machine.
    Whole,
    /// At most the MTU: segmented before transmission.
    Cut,
}

/// The three namespaces and their links.
#[derive(Debug)]
pub struct Veth {
    family: Domain,
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
    pub fn new(family: Domain, segments: Segments, drivers: Drivers) -> anyhow::Result<Veth> {
        let router_at = |net| address(family, net, super::ROUTER);
        let router = Namespace::new().context("cannot create a namespace for the router")?;
        let far = Namespace::new().context("cannot create a namespace for the far host")?;
        let join = |inner: &str, outer: &str| -> anyhow::Result<()> {
            let mut netlink = Netlink::open()?;
            netlink.add_veth(inner, outer)?;
            Ok(netlink.move_to(outer, &router)?)
        };
        join("vn", "vr")?;
        host("vn", address(family, 0, 1), router_at(0), segments)?;
        far.within(|| {
            join("vf", "vs")?;
            host("vf", address(family, 1, 2), router_at(1), segments)
        })??;
        router.within(|| {
            device("vr", router_at(0), segments)?;
            device("vs", router_at(1), segments)?;
            let setting = match family {
                Domain::Inet => "/proc/sys/net/ipv4/ip_forward",
                Domain::Inet6 => "/proc/sys/net/ipv6/conf/all/forwarding",
            };
            std::fs::write(setting, "1").with_context(|| format!("cannot enable forwarding: {setting}"))
        })??;
        await_path(address(family, 1, 2))?;
        Ok(Veth { family, drivers, far, _router: router })
    }

    fn far_sockets(&self, calls: Calls) -> anyhow::Result<KernelSockets> {
        Ok(KernelSockets::within(self.far.try_clone()?, calls))
    }
}

impl Ground for Veth {
    fn is_one_thread(&self) -> bool {
        self.drivers != Drivers::Each
    }

    fn run_counted<P: Play>(&self, play: &mut P) -> anyhow::Result<Observed> {
        let at = |port| SocketAddr::new(address(self.family, 1, 2), port);
        let usual = any(self.family, <P::Far as FarEnd>::PORT);
        match self.drivers {
            Drivers::One | Drivers::Workers => kernel::together(play, self.far_sockets(Calls::Return)?, usual, at)?,
            Drivers::Each => {
                let mut there = self.far_sockets(Calls::Wait)?;
                beside(
                    play,
                    |over, reported| far_end::<P::Far, _>(&mut there, usual, over, reported),
                    |play, port| kernel::ask_at(play, at(port)),
                )?;
            }
        }
        Ok(Observed::default())
    }
}

/// Waits until the far host refuses a connection, which proves that packets reach it. IPv6 routes
/// become usable up to a second after the links are up.
fn await_path(far: IpAddr) -> anyhow::Result<()> {
    const ATTEMPT: Duration = Duration::from_millis(200);
    const DISCARD: u16 = 9;
    let until = Instant::now() + Duration::from_secs(10);
    loop {
        let why = match TcpStream::connect_timeout(&SocketAddr::new(far, DISCARD), ATTEMPT) {
            Ok(_) => return Ok(()),
            Err(why) if why.kind() == ErrorKind::ConnectionRefused => return Ok(()),
            Err(why) => why,
        };
        if Instant::now() >= until {
            return Err(why).with_context(|| format!("no path to {far} over the veth devices"));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn device(dev: &str, addr: IpAddr, segments: Segments) -> anyhow::Result<()> {
    let mut netlink = Netlink::open()?;
    if segments == Segments::Cut {
        tun::carry_no_large(dev).with_context(|| format!("{dev}: cannot turn off segmentation offload"))?;
    }
    netlink.set_up(dev)?;
    Ok(netlink.add_addr(dev, addr, prefix_len(addr))?)
}

fn host(dev: &str, addr: IpAddr, gateway: IpAddr, segments: Segments) -> anyhow::Result<()> {
    device(dev, addr, segments)?;
    let all = match gateway {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    Ok(Netlink::open()?.add_route(all, 0, Some(gateway), dev)?)
}
