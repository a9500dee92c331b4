//! The forwarders: our switch, a port's bare loop, the kernel.

use super::devices::{GATEWAY_MAC, Way, has_tun, router_addrs, router_mac, up, veths};
use super::{Kind, Who};
use anyhow::{Context, bail};
use buf::{PoolConfig, PoolLocks};
use clock::{Clock, Strategy};
use node::switch::{Switch, SwitchConfig};
use port::os::netlink::Netlink;
use port::packet::{self, PacketConfig};
use port::tap::{self, TapConfig};
use port::xdp::bare::BareSwap;
use port::xdp::{self, XdpConfig};
use wire::Mac;

/// Program or kernel function that forwards the frames. `Kernel` needs no work by this process.
pub enum Loop {
    Switch(Box<Switch>),
    Xdp(Box<[BareSwap; 2]>),
    Packet(Box<[packet::bare::Bare; 2]>),
    Tap([tap::bare::Bare; 2]),
    Kernel,
}

/// A forwarder, and the two directions of traffic through it.
pub struct Bridge {
    pub passes: Loop,
    pub ways: [Way; 2],
    /// Number of frames in a round.
    pub round: usize,
    /// Milliseconds from sending frames until they can be forwarded.
    pub settle_ms: u64,
}

/// Number of buffers in the pool. It is the default of a pool; the bare loop over `xdp` has as
/// many.
const BUFFERS: usize = 4096;
/// Number of frames in a round. An `xdp` port gives the kernel an eighth of its pool to fill, and
/// the queue of a TAP device has space for 1000 frames. A round is smaller than both.
const ROUND: usize = 256;
/// Number of frames in a round over `packet` ports. Such a port receives a block of frames when the
/// block is full or its timeout expires, and this round contains blocks of both kinds.
const ROUND_OF_BLOCKS: usize = 1024;
/// Milliseconds to wait for the last block: longer than the 1 ms after which the kernel hands over
/// a block that is not full.
const RETIRE_MS: u64 = 3;
/// Number of turns of the loop without a frame after which no more frames are expected.
const MOST_EMPTY: u32 = 200_000;

/// Creates a switch with one loop and no ports, as `linerate bridge` does, except for the size of
/// its pool.
pub fn switch(locks: PoolLocks) -> anyhow::Result<Switch> {
    let pool = PoolConfig { buffers: BUFFERS, locks, ..PoolConfig::default() };
    Ok(Switch::new(&SwitchConfig { pool, ..SwitchConfig::default() }, Clock::live(Strategy::TscScaled))?)
}

/// Creates a switch with TAP devices `left` and `right`, both up.
pub fn tap_switch(locks: PoolLocks) -> anyhow::Result<Switch> {
    has_tun()?;
    let switch = switch(locks)?;
    for name in ["left", "right"] {
        switch.attach(tap::open(name, &TapConfig::default(), switch.pool())?, Some(0))?;
        up(&mut Netlink::open()?, name)?;
    }
    Ok(switch)
}

impl Bridge {
    /// Creates and opens the devices. The caller then forwards all frames once, so that the
    /// addresses are learned.
    pub fn new(who: Who) -> anyhow::Result<Bridge> {
        let mut bridge = match who {
            Who::Kernel => Bridge::kernel()?,
            Who::KernelRouter => Bridge::kernel_router()?,
            Who::Ours(Kind::Tap) => Bridge::taps()?,
            Who::Bare(Kind::Tap) => Bridge::bare_taps()?,
            Who::Ours(kind) => Bridge::ours(kind)?,
            Who::Bare(kind) => Bridge::bare(kind)?,
            Who::Idle => bail!("an idle switch forwards no frames and cannot be measured"),
        };
        if matches!(who, Who::Ours(Kind::Packet) | Who::Bare(Kind::Packet)) {
            (bridge.round, bridge.settle_ms) = (ROUND_OF_BLOCKS, RETIRE_MS);
        }
        Ok(bridge)
    }

    fn with(passes: Loop, ways: [Way; 2]) -> Bridge {
        Bridge { passes, ways, round: ROUND, settle_ms: 0 }
    }

    fn over_veths(make: impl FnOnce(&mut Netlink) -> anyhow::Result<Loop>) -> anyhow::Result<Bridge> {
        let mut netlink = Netlink::open()?;
        veths(&mut netlink, "left0", "left1")?;
        veths(&mut netlink, "right0", "right1")?;
        let passes = make(&mut netlink)?;
        Ok(Bridge::with(passes, [Way::new(0, "left0", "right0")?, Way::new(1, "right0", "left0")?]))
    }

    fn kernel() -> anyhow::Result<Bridge> {
        Bridge::over_veths(|netlink| {
            netlink.add_bridge("bridge0").context("cannot create a bridge of the kernel")?;
            netlink.set_master("left1", "bridge0")?;
            netlink.set_master("right1", "bridge0")?;
            up(netlink, "bridge0")?;
            Ok(Loop::Kernel)
        })
    }

    /// Creates the kernel's router. Each side has a gateway with a static neighbor entry, and a /16
    /// route through that gateway.
    fn kernel_router() -> anyhow::Result<Bridge> {
        let mut bridge = Bridge::over_veths(|netlink| {
            std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").context("ip_forward")?;
            for (side, dev) in ["left1", "right1"].into_iter().enumerate() {
                let [address, gateway, net] = router_addrs(side as u8);
                netlink.set_mac(dev, Mac(router_mac(side as u8)))?;
                netlink.add_addr(dev, address, 24)?;
                netlink.add_neighbor(dev, gateway, Mac(GATEWAY_MAC))?;
                netlink.add_route(net, 16, Some(gateway), dev)?;
            }
            Ok(Loop::Kernel)
        })?;
        bridge.ways = [Way::routed(0, "left0", "right0")?, Way::routed(1, "right0", "left0")?];
        Ok(bridge)
    }

    fn ours(kind: Kind) -> anyhow::Result<Bridge> {
        Bridge::over_veths(|_| {
            let switch = switch(PoolConfig::default().locks)?;
            for name in ["left1", "right1"] {
                let port = match kind {
                    Kind::Xdp => xdp::open(name, &XdpConfig::default(), switch.pool())?,
                    _ => packet::open(name, &PacketConfig::default(), switch.pool())?,
                };
                switch.attach(port, Some(0))?;
            }
            Ok(Loop::Switch(Box::new(switch)))
        })
    }

    fn bare(kind: Kind) -> anyhow::Result<Bridge> {
        let mut bridge = Bridge::over_veths(|_| {
            Ok(if kind == Kind::Xdp {
                let open = |name| BareSwap::open(name, &XdpConfig::default());
                Loop::Xdp(Box::new([open("left1")?, open("right1")?]))
            } else {
                let open = |from, to| packet::bare::Bare::open(from, to, &PacketConfig::default());
                Loop::Packet(Box::new([open("left1", "right1")?, open("right1", "left1")?]))
            })
        })?;
        if kind == Kind::Xdp {
            // The bare xdp loop returns frames to the device that they came from; the path out is
            // the same for both devices.
            bridge.ways = [Way::new(0, "left0", "left0")?, Way::new(1, "right0", "right0")?];
        }
        Ok(bridge)
    }

    fn taps() -> anyhow::Result<Bridge> {
        let passes = Loop::Switch(Box::new(tap_switch(PoolConfig::default().locks)?));
        Ok(Bridge::with(passes, [Way::new(0, "left", "right")?, Way::new(1, "right", "left")?]))
    }

    /// Creates the bare loop over TAP devices. A device has one reader, so each direction has two
    /// devices.
    fn bare_taps() -> anyhow::Result<Bridge> {
        has_tun()?;
        let open = |from: &str, to: &str| {
            let bare = tap::bare::Bare::open(from, to, &TapConfig::default())?;
            let mut netlink = Netlink::open()?;
            up(&mut netlink, from)?;
            up(&mut netlink, to)?;
            anyhow::Ok(bare)
        };
        let passes = Loop::Tap([open("left", "right")?, open("right2", "left2")?]);
        Ok(Bridge::with(passes, [Way::new(0, "left", "right")?, Way::new(1, "right2", "left2")?]))
    }
}

impl Loop {
    /// Forwards `frames` frames; returns the number forwarded.
    pub fn pass(&mut self, frames: u64) -> u64 {
        match self {
            Loop::Switch(switch) => {
                let Some(mut thread) = switch.thread(0) else { return 0 };
                let mut before = thread.polling.counts.frames.get();
                turns(frames, || {
                    thread.turn();
                    let now = thread.polling.counts.frames.get();
                    now - std::mem::replace(&mut before, now)
                })
            }
            Loop::Xdp(both) => turns(frames, || both.iter_mut().map(|one| one.turn() as u64).sum()),
            Loop::Packet(both) => turns(frames, || both.iter_mut().map(|one| one.step() as u64).sum()),
            Loop::Tap(both) => turns(frames, || both.iter_mut().map(|one| one.step() as u64).sum()),
            Loop::Kernel => frames,
        }
    }

    /// Runs the loop for one more turn, to send pending frames.
    pub fn turn(&mut self) {
        match self {
            Loop::Switch(switch) => drop(switch.thread(0).map(|mut thread| thread.turn())),
            Loop::Xdp(both) => both.iter_mut().for_each(|one| _ = one.turn()),
            Loop::Packet(both) => both.iter_mut().for_each(|one| _ = one.step()),
            Loop::Tap(both) => both.iter_mut().for_each(|one| _ = one.step()),
            Loop::Kernel => std::thread::yield_now(),
        }
    }

    /// Returns the ticks within the bridge so far, and the number of frames sampled for them.
    pub fn average(&self) -> [u64; 2] {
        let Loop::Switch(switch) = self else { return [0; 2] };
        let average = switch.average();
        [average.ticks, average.frames]
    }

    /// Checks the switch's audit: every frame is accounted for.
    pub fn check(&self) -> anyhow::Result<()> {
        let Loop::Switch(switch) = self else { return Ok(()) };
        let audit = switch.audit();
        anyhow::ensure!(audit.holds(), "frames unaccounted for: {audit:?}");
        Ok(())
    }
}

fn turns(frames: u64, mut turn: impl FnMut() -> u64) -> u64 {
    let (mut passed, mut empty) = (0, 0);
    while passed < frames && empty < MOST_EMPTY {
        let came = turn();
        passed += came;
        empty = if came == 0 { empty + 1 } else { 0 };
    }
    passed
}
