//! Forwarding: pktgen to pktgen through a host with many routes.

use crate::subject::{Reading, Subject, measure};
use anyhow::{anyhow, ensure};
use clock::{Clock, Random, Strategy};
use inet::fib::{Prefix, Prefix6};
use inet::iface::{IfaceAddr, IfaceId};
use inet::route::{Origin, Path, Protocol, RouteError, Target, Via, Via6};
use lock::{Light, Locks, Up};
use node::Host;
use node::config::{HostConfig, IfaceConfig};
use port::Pairs;
use port::pktgen::{self, Family, Source};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use wire::Mac;

pub(super) const PACKETS: u64 = 20_000;
/// Number of packets in a router's trial, which takes ten milliseconds. A trial of the kernel's
/// router leaves the kernel's data in the caches. A sixth of a trial of 20,000 packets passed
/// before the caches contained this router's data again: it took 53 ticks per packet, against 44.6
/// in long trials of one router in the same run.
const STEADY: u64 = 200_000;
/// Number of packets in a trial with route updates: long enough for some hundreds of updates.
const LONG: u64 = 400_000;
const GATEWAYS: u8 = 16;

/// Distribution of the lengths of the prefixes of a route table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lengths {
    /// As in the Internet's table: three of five are /24, most others /16 to /23.
    Internet,
    /// All /32.
    Host,
    /// Each length from /9 to /32 equally often.
    Uniform,
}

impl Lengths {
    fn draw(self, mut draw: impl FnMut() -> u32) -> u8 {
        match self {
            Lengths::Internet => match draw() % 100 {
                0..60 => 24,
                60..97 => 16 + (draw() % 8) as u8,
                97..99 => 9 + (draw() % 7) as u8,
                _ => 25 + (draw() % 8) as u8,
            },
            Lengths::Host => 32,
            Lengths::Uniform => 9 + (draw() % 24) as u8,
        }
    }
}

/// Returns pseudo-random prefixes with the lengths of the Internet's table.
pub(crate) fn prefixes(n: usize) -> impl Iterator<Item = Prefix> {
    prefixes_of(n, Lengths::Internet)
}

/// Returns pseudo-random prefixes with the given distribution of lengths.
pub(crate) fn prefixes_of(n: usize, lengths: Lengths) -> impl Iterator<Item = Prefix> {
    let mut draw = draws();
    let mut seen = std::collections::HashSet::new();
    std::iter::repeat_with(move || {
        let len = lengths.draw(&mut draw);
        // 3.0.0.0 to 223.255.255.255 without 127/8: not the rig's own networks, not martian.
        let addr = 0x0300_0000 + draw() % 0xdd00_0000;
        Prefix::new(Ipv4Addr::from(addr), len).ok()
    })
    .flatten()
    .filter(|prefix| {
        let first = prefix.addr().octets()[0];
        (3..224).contains(&first) && first != 127
    })
    .filter(move |prefix| seen.insert((prefix.addr(), prefix.len())))
    .take(n)
}

/// Rig that forwards packets through one router.
pub struct RouteRig<L: Locks = Up> {
    id: String,
    host: Host<L>,
    out: Arc<port::PortCounts>,
}

impl RouteRig {
    /// Creates a router with `routes` routes through sixteen gateways; destinations are random over
    /// all unicast addresses.
    ///
    /// # Errors
    /// The port could not be added, or a table refused an entry.
    pub fn new(id: &str, routes: usize) -> anyhow::Result<RouteRig> {
        RouteRig::with(id, routes, &HostConfig::default())
    }

    /// Creates a router as [`RouteRig::new`] does, whose routes are those of a routing engine
    /// through sixteen next hop objects, and that also has `routes6` IPv6 routes.
    ///
    /// # Errors
    /// The port could not be added, or a table refused an entry.
    pub fn of_engine(id: &str, routes: usize, routes6: usize) -> anyhow::Result<RouteRig> {
        let (host, out) = router(&HostConfig::default(), 0)?;
        learn(&host, out, routes, routes6)?;
        let out = host.ports()[1].counts.clone();
        Ok(RouteRig { id: id.to_owned(), host, out })
    }
}

impl RouteRig {
    /// Creates a router with `routes` IPv6 routes through sixteen gateways. The destinations are
    /// one address within each prefix; the prefixes are in pseudo-random order.
    ///
    /// # Errors
    /// A port could not be added, or the table is full.
    pub fn six(id: &str, routes: usize) -> anyhow::Result<RouteRig> {
        let config = HostConfig { name: "router".to_owned(), ..HostConfig::default() };
        let host: Host<Up> = Host::new(&config, Clock::live(Strategy::TscScaled))?;
        host.stack.sysctls.dad_count.set(0); // no other host is on these links
        host.stack.sysctls.forwarding6.set(1);
        let [near, far] = [0, 1].map(|unit| pktgen::net(Family::V6, unit, 1));
        let mut source = Source { dst: pktgen::net(Family::V6, 2, 2), src: pktgen::net(Family::V6, 0, 2), ..source6() };
        source.destinations = destinations6(routes).collect();
        let mut iface = IfaceConfig { rxcsum: Some(false), ..IfaceConfig::on("pktgen:pg0") };
        iface.add_address(near, 64);
        let port = pktgen::open("pg0", Some(&source), &host.stack.pool);
        host.attach("pg0", source.dst_mac, port, &iface)?;
        let mut iface = IfaceConfig::on("pktgen(source=off):pg1");
        iface.add_address(far, 64);
        let out = host.add_port(&iface, &Pairs::new())?;
        let cx = host.cx();
        let gateway = |g: u8| Ipv6Addr::new(0x2001, 2, 0, 1, 0, 0, 0, 0x10 + u16::from(g));
        (0..GATEWAYS).for_each(|g| {
            host.stack.set_neighbor6(cx, out, gateway(g), Mac([0x12, 0x23, 0x34, 0x45, 0x57, g]));
        });
        for (i, prefix) in prefixes6(routes).enumerate() {
            let via = Via6::Gateway(out, gateway((i % usize::from(GATEWAYS)) as u8));
            host.stack
                .add_route6(cx, prefix, via)
                .map_err(|_| anyhow!("cannot add {routes} IPv6 routes: table full"))?;
        }
        let out = host.ports()[1].counts.clone();
        Ok(RouteRig { id: id.to_owned(), host, out })
    }
}

/// Returns a source of frames to this router's MAC address.
fn source6() -> Source {
    Source { dst_mac: Mac([0xb2, 0, 0, 0, 0, 9]), ttl: 64, ..Source::default() }
}

/// Returns pseudo-random IPv6 prefixes with the lengths of the Internet's table, in round figures:
/// half are /48, a tenth each /32, /40 and /44; all within the blocks of the five registries.
pub(crate) fn prefixes6(n: usize) -> impl Iterator<Item = Prefix6> {
    let mut draw = draws();
    let mut seen = std::collections::HashSet::new();
    std::iter::repeat_with(move || {
        let len = match draw() % 100 {
            0..48 => 48,
            48..60 => 32,
            60..69 => 40,
            69..78 => 44,
            78..84 => 36,
            84..88 => 46,
            88..91 => 47,
            91..93 => 45,
            93..95 => 42,
            95..97 => 29,
            97 => 33,
            98 => 34,
            _ => 38,
        };
        let blocks = [0x2400u128, 0x2600, 0x2800, 0x2a00, 0x2c00];
        let block = blocks[draw() as usize % blocks.len()] << 112;
        let rest = u128::from(draw()) << 84 | u128::from(draw()) << 60;
        Prefix6::new(Ipv6Addr::from_bits(block | rest & (u128::MAX >> 12)), len).ok()
    })
    .flatten()
    .filter(move |prefix| seen.insert(*prefix))
    .take(n)
}

/// Returns an address within each of the [`prefixes6`].
pub(crate) fn destinations6(n: usize) -> impl Iterator<Item = Ipv6Addr> {
    let mut draw = draws();
    prefixes6(n).map(move |prefix| {
        let rest = u128::from(draw()) << 96 | u128::from(draw()) << 64 | u128::from(draw());
        Ipv6Addr::from_bits(prefix.addr().to_bits() | rest & (u128::MAX >> prefix.len()))
    })
}

/// Returns a generator of pseudo-random numbers, the same in every run.
fn draws() -> impl FnMut() -> u32 {
    let mut random = Random::new(0);
    move || random.bits() as u32
}

impl<L: Locks> RouteRig<L> {
    /// Creates a router as [`RouteRig::new`] does, on a host configured by `config` except for its
    /// name, ports and locks.
    ///
    /// # Errors
    /// As [`RouteRig::new`].
    pub fn with(id: &str, routes: usize, config: &HostConfig) -> anyhow::Result<RouteRig<L>> {
        let (host, _) = router(config, routes)?;
        let out = host.ports()[1].counts.clone();
        Ok(RouteRig { id: id.to_owned(), host, out })
    }

    /// Sets the number of frames that the router takes per burst from now on.
    pub fn set_burst(&mut self, burst: usize) {
        self.host.set_burst(burst);
    }

    /// Returns the router's ticks by stage, over `trials` trials with the cost ledger on, and the
    /// number of packets in these trials.
    pub fn statement(&mut self, trials: u32) -> anyhow::Result<(stats::Statement, u64)> {
        let probe = stats::Probe::measure(clock::tsc::ticks);
        self.host.stack.set_ledger(true);
        let before = self.host.stack.ledger();
        let (mut total, mut packets) = (0, 0);
        for _ in 0..trials {
            let reading = self.trial()?;
            (total, packets) = (total + reading.ticks, packets + reading.ops);
        }
        self.host.stack.set_ledger(false);
        Ok((self.host.stack.ledger().since(&before).statement(probe, total), packets))
    }
}

/// Creates a host with `routes` routes through sixteen gateways, which are reached by its second
/// port; also returns that port's iface.
pub(super) fn router<L: Locks>(config: &HostConfig, routes: usize) -> anyhow::Result<(Host<L>, IfaceId)> {
    let config = HostConfig { name: "router".to_owned(), locks: L::NAME.to_owned(), ..config.clone() };
    let host: Host<L> = Host::new(&config, Clock::live(Strategy::TscScaled))?;
    host.add_port(&iface("pktgen(random_dst=on,id=off,ttl=64):pg0", Ipv4Addr::new(1, 0, 0, 1)), &Pairs::new())?;
    let out = host.add_port(&iface("pktgen(source=off):pg1", Ipv4Addr::new(2, 0, 0, 1)), &Pairs::new())?;
    let cx = host.cx();
    host.stack.sysctls.forwarding.set(1);
    for g in 0..GATEWAYS {
        host.stack.set_neighbor(cx, out, gateway(g), Mac([0x12, 0x23, 0x34, 0x45, 0x57, g]));
    }
    fill(&host, out, routes)?;
    Ok((host, out))
}

/// Returns the configuration of port `spec` with `addr`/24. Checksums are verified, so that the
/// figure has the full cost of a frame.
pub(super) fn iface(spec: &str, addr: Ipv4Addr) -> IfaceConfig {
    IfaceConfig { addresses: vec![IfaceAddr { addr, len: 24 }], rxcsum: Some(false), ..IfaceConfig::on(spec) }
}

/// Number of route changes per second that are attempted. The required number is 100,000, but the
/// thread that makes the changes is sometimes preempted: with 100,000 attempted, 90,000 to 95,000
/// were made.
pub const UPDATES_PER_SECOND: u64 = 120_000;
/// Time limit for the first change after the other thread was started.
const PATIENCE: Duration = Duration::from_secs(10);

/// A router with light locks that forwards on one processor while a thread on another processor
/// makes [`UPDATES_PER_SECOND`] route changes per second. It removes a route of /20 or longer, and
/// then adds it again with another gateway.
pub struct UpdatesRig {
    id: String,
    host: Arc<Host<Light>>,
    out: Arc<port::PortCounts>,
    on: Arc<AtomicBool>,
    updates: Arc<AtomicU64>,
    made: Arc<[AtomicU64; 2]>,
    stop: Arc<AtomicBool>,
    updater: Option<std::thread::JoinHandle<()>>,
    changing: bool,
}

impl UpdatesRig {
    /// Creates two subjects that share one router, and so the contents of the caches: `still`
    /// without route changes, and `id` with route changes.
    ///
    /// # Errors
    /// The port could not be added, or a table refused an entry.
    pub fn pair(still: &str, id: &str, routes: usize, core: usize) -> anyhow::Result<[UpdatesRig; 2]> {
        let (host, out) = router::<Light>(&HostConfig::default(), routes)?;
        let host = Arc::new(host);
        let (on, stop, updates) = <(Arc<AtomicBool>, Arc<AtomicBool>, Arc<AtomicU64>)>::default();
        let counts = host.ports()[1].counts.clone();
        // Collected before the thread starts, since generating a million prefixes takes longer than
        // the first trials.
        let changed: Vec<Prefix> =
            prefixes(routes.saturating_sub(1)).filter(|prefix| prefix.len() >= 20).step_by(7).collect();
        let updater = {
            let (host, on, stop, updates) = (host.clone(), on.clone(), stop.clone(), updates.clone());
            dispatch::spawn_worker("updater", Some(core), move |_| update(&host, out, &changed, &on, &stop, &updates))?
        };
        let rig = |id: &str, changing, updater| UpdatesRig {
            id: id.to_owned(),
            host: host.clone(),
            out: counts.clone(),
            on: on.clone(),
            updates: updates.clone(),
            made: Arc::default(),
            stop: stop.clone(),
            updater,
            changing,
        };
        Ok([rig(still, false, None), rig(id, true, Some(updater))])
    }

    /// Returns the number of routes changed while trials ran, and the nanoseconds of these trials.
    pub fn made(&self) -> Arc<[AtomicU64; 2]> {
        self.made.clone()
    }
}

impl Drop for UpdatesRig {
    fn drop(&mut self) {
        if let Some(updater) = self.updater.take() {
            self.stop.store(true, Ordering::Relaxed);
            drop(updater.join());
        }
    }
}

/// Removes and adds the routes of `prefixes` at an even pace while `on` is set. If it falls more
/// than a hundred changes behind, it gives up the excess.
fn update(
    host: &Host<Light>,
    out: IfaceId,
    prefixes: &[Prefix],
    on: &AtomicBool,
    stop: &AtomicBool,
    updates: &AtomicU64,
) {
    let (pace, mut due, mut at) = (Duration::from_nanos(1_000_000_000 / UPDATES_PER_SECOND), Instant::now(), 0usize);
    while !stop.load(Ordering::Relaxed) {
        if !on.load(Ordering::Relaxed) {
            due = Instant::now();
            std::thread::sleep(Duration::from_micros(50));
            continue;
        }
        if Instant::now() < due {
            std::hint::spin_loop();
            continue;
        }
        due = (due + pace).max(Instant::now().checked_sub(100 * pace).unwrap_or(due));
        let prefix = prefixes[at / 2 % prefixes.len()];
        let cx = host.cx();
        if at % 2 == 0 {
            host.stack.remove_route(cx, prefix);
        } else {
            let way = Via::Gateway(out, gateway((at / 2 % usize::from(GATEWAYS)) as u8));
            let _ = host.stack.add_route(cx, prefix, way); // there was room for it before
        }
        at += 1;
        updates.fetch_add(1, Ordering::Relaxed);
    }
}

impl Subject for UpdatesRig {
    fn id(&self) -> &str {
        &self.id
    }

    fn trial(&mut self) -> anyhow::Result<Reading> {
        let updates = || self.updates.load(Ordering::Relaxed);
        let (idle, begun) = (updates(), Instant::now());
        self.on.store(self.changing, Ordering::Relaxed);
        while self.changing && updates() == idle {
            ensure!(begun.elapsed() < PATIENCE, "{}: no route changed within {PATIENCE:?}", self.id);
            std::thread::yield_now();
        }
        let (before, first) = (self.out.tx.frames.get(), updates());
        let mut forwarded = 0;
        let mut reading = measure(LONG, || {
            while forwarded < LONG {
                forwarded += self.host.step().frames as u64;
            }
        });
        self.made[0].fetch_add(updates() - first, Ordering::Relaxed);
        self.made[1].fetch_add(reading.wall_ns, Ordering::Relaxed);
        self.on.store(false, Ordering::Relaxed);
        reading.ops = self.out.tx.frames.get() - before;
        few_left(&self.id, &self.host, reading.ops, forwarded)?;
        Ok(reading)
    }
}

fn gateway(g: u8) -> Ipv4Addr {
    Ipv4Addr::new(2, 0, 0, 10 + g)
}

fn fill<L: Locks>(host: &Host<L>, out: IfaceId, routes: usize) -> anyhow::Result<()> {
    let via = |i: usize| Via::Gateway(out, gateway((i % usize::from(GATEWAYS)) as u8));
    host.stack.with_routes(host.cx(), |table| {
        table.insert(Prefix::DEFAULT, via(0)).map_err(|error| anyhow!("{error:?}"))?;
        for (i, prefix) in prefixes(routes.saturating_sub(1)).enumerate() {
            table.insert(prefix, via(i)).map_err(|error| anyhow!("{error:?}"))?;
        }
        Ok(())
    })
}

/// Adds routes of a routing engine, as FRR announces the table of the Internet.
fn learn<L: Locks>(host: &Host<L>, out: IfaceId, routes: usize, routes6: usize) -> anyhow::Result<()> {
    let origin = Origin::engine(Protocol(186), 1, host.cx().now);
    let error = |error: RouteError| anyhow!("{error}");
    host.stack.change_routes(host.cx(), |v4, v6| {
        let mut fill = || -> anyhow::Result<()> {
            let object = |g| v4.new_object(&[Path { via: Via::Gateway(out, gateway(g)), weight: 1 }]).map_err(error);
            let objects = (0..GATEWAYS).map(object).collect::<anyhow::Result<Vec<_>>>()?;
            let prefixes = std::iter::once(Prefix::DEFAULT).chain(prefixes(routes.saturating_sub(1)));
            for (prefix, object) in prefixes.zip(objects.iter().cycle()) {
                v4.learn(prefix, Target::Object(*object), origin).map_err(error)?;
            }
            let object = v6.new_object(&[Path { via: Via6::Link(out), weight: 1 }]).map_err(error)?;
            for prefix in prefixes6(routes6) {
                v6.learn(prefix, Target::Object(object), origin).map_err(error)?;
            }
            Ok(())
        };
        (true, fill())
    })
}

impl<L: Locks> Subject for RouteRig<L> {
    fn id(&self) -> &str {
        &self.id
    }

    fn trial(&mut self) -> anyhow::Result<Reading> {
        let before = self.out.tx.frames.get();
        let mut forwarded = 0;
        let mut reading = measure(STEADY, || {
            while forwarded < STEADY {
                forwarded += self.host.step().frames as u64;
            }
        });
        reading.ops = self.out.tx.frames.get() - before;
        few_left(&self.id, &self.host, reading.ops, forwarded)?;
        Ok(reading)
    }
}

/// Checks that no frame was lost. The few frames with a random destination in the router's own
/// networks are excepted, since they are counted and not forwarded.
pub(super) fn few_left<L: Locks>(id: &str, router: &Host<L>, forwarded: u64, taken: u64) -> anyhow::Result<()> {
    let audit = router.stack.audit(router.cx());
    ensure!(
        audit.imbalance() == 0 && forwarded * 1000 >= taken * 999,
        "{id}: {forwarded} of {taken} frames forwarded: {audit:?}"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_of_ipv6_are_forwarded_by_their_routes() {
        let mut rig = RouteRig::six("six.route", 2_000).unwrap();
        rig.set_burst(32);
        assert_eq!(rig.host.step().frames, 32);
        let before = rig.host.stack.counter("inet.ip6.forwarded");
        let ops = rig.trial().unwrap().ops;
        assert_eq!((rig.host.stack.counter("inet.ip6.forwarded") - before, ops), (ops, STEADY));
        let lengths: std::collections::BTreeSet<u8> = prefixes6(2_000).map(|prefix| prefix.len()).collect();
        assert!(lengths.len() == 13 && prefixes6(2_000).zip(destinations6(2_000)).all(|(p, dst)| p.contains(dst)));
    }

    /// A burst has the length in the row's name, and an operation is a forwarded packet.
    #[test]
    fn packets_are_forwarded_in_bursts_of_the_rows_length() {
        for burst in [1, 32, 256] {
            let mut rig: RouteRig = RouteRig::new("route", 2_000).unwrap();
            rig.set_burst(burst);
            assert_eq!(rig.host.step().frames, burst);
            let before = rig.host.stack.counter("inet.ip4.forwarded");
            let ops = rig.trial().unwrap().ops;
            assert_eq!(rig.host.stack.counter("inet.ip4.forwarded") - before, ops);
            assert!(ops * 1000 >= STEADY * 999, "{ops}");
        }
    }

    /// Routes change at the requested rate while a trial of one side runs, and not during the
    /// trials of the other side.
    #[test]
    fn routes_change_only_in_the_trials_of_one_side() {
        let [mut still, mut changing] = UpdatesRig::pair("still", "changing", 2_000, dispatch::last_core()).unwrap();
        let made = changing.made();
        let changes = || made[0].load(Ordering::Relaxed);
        still.trial().unwrap();
        assert_eq!(changes(), 0);
        changing.trial().unwrap();
        let first = changes();
        assert!(first > 0);
        still.trial().unwrap();
        assert_eq!(changes(), first);
    }
}
