//! The kernel as one end or both: over a TAP device, over loopback, and between network namespaces.

use super::{Asker, OURS, Place, TAP, any, balanced, beside, far_end, iface, usual};
use crate::native::sockets::{Calls, KernelSockets};
use anyhow::Context;
use apps::netperf::ours::{OurSockets, Rest};
use apps::netperf::session::{Asked, Play, Turn};
use apps::netperf::sockets::{Pace, Sockets};
use apps::slots::Limits;
use lock::Up;
use port::Pairs;
use port::os::netlink::Netlink;
use std::net::{Ipv4Addr, SocketAddr};

/// Runs a play over a TAP device, in the network namespace that the caller has moved this process
/// into.
pub(super) fn tap<P: Play>(place: &Place, play: &mut P) -> anyhow::Result<()> {
    let pairs = Pairs::new();
    let mut config = place.config("ours", <Up as lock::Locks>::NAME)?;
    config.ifaces.push(iface(&place.tap_port(), &[OURS]));
    match place.asker {
        Asker::Ours => {
            let host = place.build::<Up>(&config, &pairs)?;
            set_address()?;
            beside(
                play,
                |over, told| far_end::<P::Far, _>(&mut KernelSockets::new(Calls::Wait), usual::<P::Far>(), over, told),
                |play, port| {
                    let at = place.far_at(port);
                    play.near(&mut OurSockets::new(&host, Rest::Sleeps), &mut |here, pace| here.step(pace), at)
                },
            )?;
            balanced(&host)
        }
        Asker::Kernel => beside(
            play,
            |over, told| {
                let host =
                    place.build::<Up>(&config, &pairs).inspect_err(|why| drop(told.send(Err(format!("{why:#}")))))?;
                set_address().inspect_err(|why| drop(told.send(Err(format!("{why:#}")))))?;
                far_end::<P::Far, _>(&mut OurSockets::new(&host, Rest::Sleeps), usual::<P::Far>(), over, told)?;
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
fn set_address() -> anyhow::Result<()> {
    let mut netlink = Netlink::open()?;
    netlink.set_up(TAP)?;
    Ok(netlink.add_addr(TAP, Ipv4Addr::new(10, 0, 0, 2), 24)?)
}

/// Runs both ends on the kernel's sockets, on one thread. The far end listens at `listen`; `at`
/// returns its address for an L4 port.
pub(super) fn together<P: Play>(
    play: &mut P,
    mut there: KernelSockets,
    listen: SocketAddr,
    at: impl Fn(u16) -> SocketAddr,
) -> anyhow::Result<()> {
    let (mut end, port) = <P::Far>::open_for_one(&mut there, listen).context("the far end")?;
    let mut round = |here: &mut KernelSockets, pace| {
        let now = there.latest();
        end.turn(&mut there, now);
        here.step(pace)
    };
    play.near(&mut KernelSockets::new(Calls::Return), &mut round, at(port))
}

pub(super) fn native_together<P: Play>(play: &mut P) -> anyhow::Result<()> {
    let at = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    together(play, KernelSockets::new(Calls::Return), at(0), at)
}

pub(super) fn native_apart<P: Play>(play: &mut P) -> anyhow::Result<()> {
    let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    beside(
        play,
        |over, told| far_end::<P::Far, _>(&mut KernelSockets::new(Calls::Wait), loopback, over, told),
        |play, port| {
            let at = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
            play.near(&mut KernelSockets::new(Calls::Wait), &mut |here, pace| here.step(pace), at)
        },
    )
}

/// Serves a far end on the kernel's sockets at L4 port `port` of every address, until
/// [`dispatch::request_stop`]. Calls `ready` once it listens, and ends if that fails.
///
/// # Errors
/// The port is taken; `ready`'s.
pub fn serve_native<A: Asked>(
    port: u16,
    limits: Limits,
    ready: impl FnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut sockets = KernelSockets::new(Calls::Wait);
    let (mut end, _) = A::open(&mut sockets, any(port), limits).with_context(|| format!("L4 port {port}"))?;
    ready()?;
    let mut pace = Pace::Go;
    while !dispatch::stop_requested() {
        let now = sockets.step(pace);
        pace = if end.turn(&mut sockets, now) { Pace::Go } else { Pace::Wait };
    }
    Ok(())
}

/// Runs the near end on the kernel's sockets, against the far end at `at`.
///
/// # Errors
/// An error of the play.
pub fn ask_native<P: Play>(play: &mut P, at: SocketAddr) -> anyhow::Result<()> {
    play.near(&mut KernelSockets::new(Calls::Wait), &mut |here, pace| here.step(pace), at)
}
