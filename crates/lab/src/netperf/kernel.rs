//! The kernel as one end or both: over a TAP device, over loopback, and between network namespaces.

use super::{Asker, OURS, Place, TAP, address, any, balanced, beside, far_end, iface, prefix_len};
use crate::native::sockets::{Calls, KernelSockets};
use anyhow::Context;
use apps::netperf::session::{FarEnd, Play, Turn};
use apps::netperf::sockets::{Pace, Sockets};
use apps::slots::Limits;
use lock::Up;
use node::remote::{Families, Remote};
use port::Pairs;
use port::os::netlink::Netlink;
use programs::netperf::{OurSockets, Rest};
use socket::Domain;
use std::net::{SocketAddr, ToSocketAddrs, UdpSocket};

/// Runs a play over a TAP device, in the network namespace that the caller has moved this process
/// into.
pub(super) fn tap<P: Play>(place: &Place, play: &mut P) -> anyhow::Result<()> {
    let pairs = Pairs::new();
    let mut config = place.config("ours", <Up as lock::Locks>::NAME)?;
    config.ifaces.push(iface(&place.tap_port(), &[address(place.family, 0, OURS)]));
    match place.asker {
        Asker::Ours => {
            let host = place.build::<Up>(&config, &pairs)?;
            set_address(place.family)?;
            beside(
                play,
                |over, reported| {
                    far_end::<P::Far, _>(&mut KernelSockets::new(Calls::Wait), place.usual::<P::Far>(), over, reported)
                },
                |play, port| {
                    let at = place.far_at(port);
                    play.near(&mut OurSockets::new(&host, Rest::Sleeps), &mut |here, pace| here.step(pace), at)
                },
            )?;
            balanced(&host)
        }
        Asker::Kernel => beside(
            play,
            |over, reported| {
                let host = place
                    .build::<Up>(&config, &pairs)
                    .inspect_err(|why| drop(reported.send(Err(format!("{why:#}")))))?;
                set_address(place.family).inspect_err(|why| drop(reported.send(Err(format!("{why:#}")))))?;
                far_end::<P::Far, _>(
                    &mut OurSockets::new(&host, Rest::Sleeps),
                    place.usual::<P::Far>(),
                    over,
                    reported,
                )?;
                balanced(&host)
            },
            |play, port| {
                let at = place.far_at(port);
                play.near(&mut KernelSockets::new(Calls::Wait), &mut |here, pace| here.step(pace), at)
            },
        ),
    }
}

/// Sets the kernel's address on the TAP device.
fn set_address(family: Domain) -> anyhow::Result<()> {
    let mut netlink = Netlink::open()?;
    netlink.set_up(TAP)?;
    let addr = address(family, 0, 2);
    Ok(netlink.add_addr(TAP, addr, prefix_len(addr))?)
}

/// Runs both ends on the kernel's sockets, on one thread. The far end listens at `listen`; `at`
/// returns its address for an L4 port.
pub(super) fn together<P: Play>(
    play: &mut P,
    mut there: KernelSockets,
    listen: SocketAddr,
    at: impl Fn(u16) -> SocketAddr,
) -> anyhow::Result<()> {
    let (mut end, port) = <P::Far>::open_for_one(&mut there, listen).context("cannot open the far end")?;
    let mut round = |here: &mut KernelSockets, pace| {
        let now = there.latest();
        end.turn(&mut there, now);
        here.step(pace)
    };
    play.near(&mut KernelSockets::new(Calls::Return), &mut round, at(port))
}

pub(super) fn native_together<P: Play>(place: &Place, play: &mut P) -> anyhow::Result<()> {
    let at = |port| place.far_at(port);
    together(play, KernelSockets::new(Calls::Return), at(0), at)
}

pub(super) fn native_apart<P: Play>(place: &Place, play: &mut P) -> anyhow::Result<()> {
    let loopback = place.far_at(0);
    beside(
        play,
        |over, reported| far_end::<P::Far, _>(&mut KernelSockets::new(Calls::Wait), loopback, over, reported),
        |play, port| {
            let at = place.far_at(port);
            play.near(&mut KernelSockets::new(Calls::Wait), &mut |here, pace| here.step(pace), at)
        },
    )
}

/// Serves a far end on the kernel's sockets at L4 port `port` of every address of `families`, until
/// [`dispatch::request_stop`]. Calls `ready` once it listens, and ends if that fails.
///
/// # Errors
/// The L4 port is in use, or `ready` failed.
pub fn serve_native<A: FarEnd>(
    families: Families,
    port: u16,
    limits: Limits,
    ready: impl FnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut sockets = KernelSockets::new(Calls::Wait);
    let has_six = || UdpSocket::bind(any(Domain::Inet6, 0)).is_ok();
    let family = match families {
        Families::V4 => Domain::Inet,
        Families::V6 => Domain::Inet6,
        Families::Any if has_six() => Domain::Inet6, // takes IPv4 as well
        Families::Any => Domain::Inet,
    };
    let opened = A::open(&mut sockets, any(family, port), limits);
    let (mut end, _) = opened.with_context(|| format!("cannot listen on L4 port {port}"))?;
    ready()?;
    let mut pace = Pace::Go;
    while !dispatch::stop_requested() {
        let now = sockets.step(pace);
        pace = if end.turn(&mut sockets, now) { Pace::Go } else { Pace::Wait };
    }
    Ok(())
}

/// Runs the near end on the kernel's sockets, against the far end at L4 port `port` of `far`. If
/// `far` is a name, the C library's resolver looks it up.
///
/// # Errors
/// No such interface or name; an error of the play.
pub fn ask_native<P: Play>(play: &mut P, far: &Remote, port: u16, families: Families) -> anyhow::Result<()> {
    let at = far.at(port, |name| Netlink::open().ok()?.ifindex(name).ok()).map_err(anyhow::Error::msg)?;
    let at = match at {
        Some(at) => at,
        None => {
            let name = far.to_string();
            let mut all = (name.as_str(), port).to_socket_addrs().with_context(|| name.clone())?;
            all.find(|at| families.permits(*at)).with_context(|| format!("{name}: no address of this family"))?
        }
    };
    ask_at(play, at)
}

/// Runs the near end of `play` on the kernel's sockets, as [`ask_native`], against the far end at
/// `at`.
pub(super) fn ask_at<P: Play>(play: &mut P, at: SocketAddr) -> anyhow::Result<()> {
    play.near(&mut KernelSockets::new(Calls::Wait), &mut |here, pace| here.step(pace), at)
}
