//! Placement of the two ends of `apps::netperf`, and the link between them.
//!
//! ```text
//!  pair     host - pair - host             nic      host - card = wire = card - host
//!  router   host - pair - router - pair - host     (host-(router)-host of netisr2005)
//!  native   kernel - loopback - kernel     tap      host - TAP - kernel, requests from either side
//!  veth     kernel - veth - kernel that forwards - veth - kernel, in three namespaces ([`veth`])
//! ```
//!
//! A [`Shape`] uses the hosts of a file instead. On one thread, router and far end are stepped
//! while the near end waits; with several threads each host has its own. Over TAP there are always
//! two threads, since the kernel's calls block. Over TAP and veth [`Place::run`] runs in a
//! namespace of its own (`port::os::netns`). A host is built on the thread that runs it, which owns
//! its pool.

mod kernel;
mod seen;
mod shape;
mod threads;
pub mod veth;

pub use kernel::{ask_native, serve_native};
pub use seen::{Dispatched, Observed};
pub use shape::Shape;
pub use threads::THREADS_MAX;
use veth::{Segments, Veth};

use anyhow::{Context, anyhow};
use apps::netperf::session::{FarEnd, Play, Turn};
use apps::netperf::sockets::{Pace, Sockets};
use clock::Clock;
use dispatch::netisr::Mode;
use inet::fib::Prefix6;
use lock::{Heavy, Light, Locks, Up};
use node::Host;
use node::config::{HostConfig, IfaceConfig, RouteConfig};
use port::{Pairs, Spec};
use programs::netperf::{OurSockets, Rest};
pub use rung::LockKind;
pub use socket::Domain;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use wire::checksum;

/// Link between the two ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Over {
    /// A pair of ports in memory.
    Pair,
    /// Two cards and a wire.
    Nic,
    /// A router, with a pair to each end.
    Router,
    /// A TAP device; one end is the kernel.
    Tap,
    /// Loopback; both ends are the kernel.
    Native,
    /// Two pairs of virtual Ethernet devices and a namespace that forwards; all are the kernel.
    Veth,
}

impl Over {
    /// All links between the two ends, in the order of the help text.
    pub const ALL: [Over; 6] = [Over::Pair, Over::Nic, Over::Router, Over::Tap, Over::Native, Over::Veth];

    /// Returns the name and a description.
    pub fn words(self) -> [&'static str; 2] {
        match self {
            Over::Pair => ["pair", "A pair of ports in memory"],
            Over::Nic => ["nic", "Two emulated NICs and a wire"],
            Over::Router => ["router", "A router between two hosts"],
            Over::Tap => ["tap", "A TAP device to the kernel"],
            Over::Native => ["native", "The kernel's loopback, without our stack"],
            Over::Veth => ["veth", "Three kernel namespaces over veth (host, router, host)"],
        }
    }
}

impl FromStr for Over {
    type Err = String;

    fn from_str(word: &str) -> Result<Over, String> {
        Over::ALL
            .into_iter()
            .find(|over| over.words()[0] == word)
            .ok_or_else(|| format!("over={word}: expected one of {}", Over::ALL.map(|over| over.words()[0]).join(", ")))
    }
}

/// A setup of hosts on which a play can run: a [`Play`] is one test with its near and far end.
pub trait Ground {
    /// Runs `play`; returns the counters of this project's hosts.
    ///
    /// # Errors
    /// A host, port or namespace that cannot be created; an error of the play.
    fn run_counted<P: Play>(&self, play: &mut P) -> anyhow::Result<Observed>;

    /// Returns whether one thread drives everything, so that the processor time of that thread is
    /// the time to measure.
    fn is_one_thread(&self) -> bool;
}

/// The near (requesting) end of [`Over::Tap`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Asker {
    /// A host of this project.
    Ours,
    /// The kernel of this machine.
    Kernel,
}

/// The threads that drive the ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Drivers {
    /// One thread for everything, including the netisr workstreams.
    One,
    /// One thread for all hosts, and one for each netisr workstream of the judged host (see
    /// [`Place::isr`]).
    Workers,
    /// A thread for each host, and one for each netisr workstream.
    Each,
}

/// The link, the hosts' settings and the threads of a test.
#[derive(Clone, Debug)]
pub struct Place {
    /// Link between the two ends.
    pub over: Over,
    /// Address family of the ends.
    pub family: Domain,
    /// Near end of [`Over::Tap`].
    pub asker: Asker,
    /// The threads that drive the ends.
    pub drivers: Drivers,
    /// Locks of all hosts if they run on one thread; otherwise the threads determine the locks.
    pub locks: LockKind,
    /// Checksum routine during a trial; `None` for the one selected in the process.
    pub checksum: Option<checksum::Kind>,
    /// Port options, as in `tso=on,csum=on`; empty for the defaults.
    pub link: String,
    /// Keys and settings of every host, as given by `--set`.
    pub set: Vec<(String, String)>,
    /// Set to turn on the cost ledger of the hosts.
    pub ledger: bool,
    /// Netisr of the judged host, whose dispatch the test measures: the router if there is one,
    /// else the far end.
    pub isr: Option<Isr>,
    /// Number of additional addresses of the near end, from [`Place::alias`] on.
    pub aliases: u8,
    /// Measures wall-clock time even if one thread drives both ends, for comparison with several
    /// threads.
    pub wall_clock: bool,
}

/// Netisr settings of the judged host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Isr {
    /// Number of workstreams. Each has its own thread, except with [`Drivers::One`], where the
    /// host's loop does their work.
    pub workstreams: usize,
    /// Dispatch mode of netisr.
    pub dispatch: Mode,
}

impl Place {
    /// Returns a place with one thread, default ports and the link `over`.
    pub fn new(over: Over) -> Place {
        Place {
            over,
            family: Domain::Inet,
            asker: Asker::Ours,
            drivers: Drivers::One,
            locks: LockKind::Up,
            checksum: None,
            link: String::new(),
            set: Vec::new(),
            ledger: false,
            isr: None,
            aliases: 0,
            wall_clock: false,
        }
    }

    /// Returns the address of the far end.
    pub fn far_address(&self) -> IpAddr {
        match (self.over, self.asker) {
            (Over::Native, _) if self.family == Domain::Inet => Ipv4Addr::LOCALHOST.into(),
            (Over::Native, _) => Ipv6Addr::LOCALHOST.into(),
            (Over::Router | Over::Veth, _) => address(self.family, 1, 2),
            (Over::Tap, Asker::Kernel) => address(self.family, 0, OURS),
            _ => address(self.family, 0, 2),
        }
    }

    /// Returns the additional address number `n` of the near end.
    pub fn alias(&self, n: u8) -> IpAddr {
        let host = 101u8.saturating_add(n);
        if self.over == Over::Native { Ipv4Addr::new(127, 0, 0, host).into() } else { address(self.family, 0, host) }
    }

    /// Checks that the port options and settings apply to the link.
    ///
    /// # Errors
    /// The option or setting that does not apply or is invalid.
    pub fn check(&self) -> Result<(), String> {
        if let Some((key, _)) = self.set.iter().find(|(key, _)| OURS_TO_SET.contains(&key.as_str())) {
            return Err(format!("{key}: cannot be set here; see --threads, --dispatch and --workstreams"));
        }
        if self.aliases > 0 && matches!(self.over, Over::Tap | Over::Veth) {
            return Err("several addresses are supported only over pair, nic, router or native".to_owned());
        }
        if self.aliases > 0 && self.over == Over::Native && self.family == Domain::Inet6 {
            return Err("several addresses are not supported over IPv6 loopback, which has one address".to_owned());
        }
        if self.locks != LockKind::Up
            && (self.drivers != Drivers::One || matches!(self.over, Over::Tap | Over::Native | Over::Veth))
        {
            return Err(
                "locks: can be set only if our hosts run on one thread; with threads=on the threads determine the locks".to_owned()
            );
        }
        if self.isr.is_some() && matches!(self.over, Over::Tap | Over::Native | Over::Veth) {
            return Err(format!("{DISPATCH}: can be set only over pair, nic or router, where our host is measured"));
        }
        if !self.set.is_empty() && matches!(self.over, Over::Native | Over::Veth) {
            return Err("--set: has no effect without a host of our stack".to_owned());
        }
        let mut config = HostConfig::default();
        self.set.iter().try_for_each(|(key, value)| config.set(key, value))?;
        match self.over {
            Over::Native if self.link.is_empty() => Ok(()),
            Over::Native => Err("--link: has no effect over the kernel's loopback".to_owned()),
            Over::Veth => self.segments().map(drop),
            Over::Tap => Spec::parse(&self.tap_port()).map(drop).map_err(|why| why.to_string()),
            _ => Spec::parse(&self.port(0)).map(drop).map_err(|why| why.to_string()),
        }
    }

    /// Runs `play`.
    ///
    /// # Errors
    /// A host, port or namespace that cannot be created; an error of the play.
    pub fn run<P: Play>(&self, play: &mut P) -> anyhow::Result<()> {
        self.run_counted(play).map(drop)
    }

    /// Returns whether the caller must move this process into a network namespace first.
    pub fn wants_namespace(&self) -> bool {
        matches!(self.over, Over::Tap | Over::Veth)
    }

    /// Returns the segmentation setting of [`Over::Veth`].
    fn segments(&self) -> Result<Segments, String> {
        match self.link.as_str() {
            "" | "tso=on" => Ok(Segments::Whole),
            "tso=off" => Ok(Segments::Cut),
            other => Err(format!("--link {other}: expected tso=on or tso=off over veth")),
        }
    }

    /// Returns the port specification of an end: 0 is near, 1 far. A router has both.
    fn port(&self, end: u8) -> String {
        let with = |first: &str| {
            let options: Vec<&str> = [first, &self.link].into_iter().filter(|part| !part.is_empty()).collect();
            options.join(",")
        };
        match self.over {
            Over::Nic => format!("nic({}):em{end}", with("wire=w")),
            Over::Router => format!("pair({}):p{end}", with("slots=1024")),
            _ => format!("pair({}):p", with("slots=1024")),
        }
    }

    fn tap_port(&self) -> String {
        match self.link.as_str() {
            "" => format!("tap:{TAP}"),
            link => format!("tap({link}):{TAP}"),
        }
    }

    fn config(&self, name: &str, locks: &str) -> anyhow::Result<HostConfig> {
        let judged = if self.over == Over::Router { "router" } else { "far" };
        let mut config = HostConfig { pool_buffers: 16_384, burst: 64, ..HostConfig::default() };
        for (key, value) in &self.set {
            config.set(key, value).map_err(|why| anyhow!(why))?;
        }
        (config.name, config.locks) = (name.to_owned(), locks.to_owned());
        config.sysctl.entry(DAD.to_owned()).or_insert(0); // no other host is on these links
        match self.isr.filter(|_| name == judged) {
            Some(of) => {
                config.isr.workstreams = of.workstreams;
                config.sysctl.insert(DISPATCH.to_owned(), i64::from(of.dispatch.number()));
            }
            None => config.sysctl.retain(|setting, _| !setting.starts_with("net.isr.")),
        }
        Ok(config)
    }

    /// Builds the host of the near end (0) or of the far end (1).
    fn host<L: Locks>(&self, end: u8, pairs: &Pairs) -> anyhow::Result<Host<L>> {
        let mut config = self.config(if end == 0 { "near" } else { "far" }, L::NAME)?;
        let routed = self.over == Over::Router;
        let net = if routed { end } else { 0 };
        let addr = address(self.family, net, if routed && end == 0 { 1 } else { 1 + end });
        let aliases = (0..self.aliases).filter(|_| end == 0).map(|n| self.alias(n));
        let addrs: Vec<IpAddr> = std::iter::once(addr).chain(aliases).collect();
        config.ifaces.push(iface(&self.port(end), &addrs));
        if routed {
            config.routes.push(default_route(address(self.family, net, ROUTER)));
        }
        self.build(&config, pairs)
    }

    fn router<L: Locks>(&self, pairs: &Pairs) -> anyhow::Result<Option<Host<L>>> {
        if self.over != Over::Router {
            return Ok(None);
        }
        let mut config = self.config("router", L::NAME)?;
        for setting in ["net.inet.ip.forwarding", "net.inet6.ip6.forwarding"] {
            config.sysctl.insert(setting.to_owned(), 1);
        }
        for net in 0..2 {
            config.ifaces.push(IfaceConfig {
                name: Some(format!("p{net}")),
                ..iface(&self.port(net), &[address(self.family, net, ROUTER)])
            });
        }
        self.build(&config, pairs).map(Some)
    }

    fn build<L: Locks>(&self, config: &HostConfig, pairs: &Pairs) -> anyhow::Result<Host<L>> {
        let host = node::run::build::<L>(config, pairs, Clock::live(config.clock))?;
        host.stack.set_ledger(self.ledger);
        Ok(host)
    }

    fn far_at(&self, port: u16) -> SocketAddr {
        SocketAddr::new(self.far_address(), port)
    }

    /// Returns the default listening address of a far end.
    fn usual<A: FarEnd>(&self) -> SocketAddr {
        any(self.family, A::PORT)
    }

    /// Runs all hosts on this thread. `lend` is a function that calls another function, which runs
    /// `play` here; meanwhile it may run the netisr threads of the judged host.
    fn together<L: Locks, P: Play>(&self, play: &mut P, lend: Lend<L>) -> anyhow::Result<Observed> {
        let pairs = Pairs::new();
        let near = self.host::<L>(0, &pairs)?;
        let router = self.router::<L>(&pairs)?;
        let far = self.host::<L>(1, &pairs)?;
        let mut there = OurSockets::new(&far, Rest::Never);
        let (mut end, port) =
            <P::Far>::open_for_one(&mut there, self.usual::<P::Far>()).context("cannot open the far end")?;
        // The cards' own threads need the processor as well.
        let rest = if self.over == Over::Nic { Rest::Spins } else { Rest::Never };
        let mut here = OurSockets::new(&near, rest);
        let mut round = |here: &mut OurSockets<'_, L>, pace| {
            if let Some(router) = &router {
                router.step();
            }
            let now = there.step(Pace::Go);
            end.turn(&mut there, now);
            if let Some(router) = &router {
                router.step();
            }
            here.step(pace)
        };
        let judged = router.as_ref().unwrap_or(&far);
        lend(judged, &mut || play.near(&mut here, &mut round, self.far_at(port)))?;
        let mut seen = Observed::default();
        for host in [Some(&near), router.as_ref(), Some(&far)].into_iter().flatten() {
            balanced(host)?;
            seen.add(&Observed::of(host));
            // frames under way at the end of a trial are discarded: no host waits for them
            host.discard();
        }
        Ok(seen)
    }

    /// Returns whether the judged host has netisr threads.
    fn has_threads(&self) -> bool {
        self.isr.is_some()
    }

    /// Runs the far end on the calling thread, which is the far end's own, until `over` is set.
    fn far_there<P: Play>(&self, pairs: &Pairs, over: &AtomicBool, reported: &Told) -> anyhow::Result<Observed> {
        fn go<A: FarEnd, L: Locks>(
            host: &Host<L>,
            at: SocketAddr,
            over: &AtomicBool,
            reported: &Told,
        ) -> anyhow::Result<()> {
            far_end::<A, _>(&mut OurSockets::new(host, Rest::Spins), at, over, reported)
        }
        let at = self.usual::<P::Far>();
        let gone = |why: &anyhow::Error| drop(reported.send(Err(format!("{why:#}"))));
        if self.has_threads() && self.over != Over::Router {
            let host = self.host::<Light>(1, pairs).inspect_err(gone)?;
            with_threads(&host, || go::<P::Far, _>(&host, at, over, reported))?;
            balanced(&host)?;
            return Ok(Observed::of(&host));
        }
        let host = self.host::<Up>(1, pairs).inspect_err(gone)?;
        go::<P::Far, _>(&host, at, over, reported)?;
        balanced(&host)?;
        Ok(Observed::of(&host))
    }

    /// Runs the router on the calling thread, which is the router's own, until `over` is set.
    fn router_there(&self, pairs: &Pairs, over: &AtomicBool) -> anyhow::Result<Observed> {
        fn go<L: Locks>(host: &Host<L>, over: &AtomicBool) {
            let mut sockets = OurSockets::new(host, Rest::Spins);
            while !over.load(Ordering::Acquire) {
                sockets.step(Pace::Wait);
            }
        }
        if self.has_threads() {
            let host = self.router::<Light>(pairs)?.context("no router in this setup")?;
            with_threads(&host, || {
                go(&host, over);
                Ok(())
            })?;
            balanced(&host)?;
            return Ok(Observed::of(&host));
        }
        let host = self.router::<Up>(pairs)?.context("no router in this setup")?;
        go(&host, over);
        balanced(&host)?;
        Ok(Observed::of(&host))
    }

    /// Runs the far end, and the router if any, on threads of their own.
    fn apart<P: Play>(&self, play: &mut P) -> anyhow::Result<Observed> {
        let (pairs, over) = (Pairs::new(), AtomicBool::new(false));
        let (reported, heard) = mpsc::channel();
        thread::scope(|scope| {
            let _end = End(&over); // stops the threads on every exit, before the scope joins
            let (pairs, over) = (&pairs, &over);
            // This thread keeps no sender, so that `recv` fails when both threads have ended.
            let told_too = (self.over == Over::Router).then(|| reported.clone());
            let far = dispatch::spawn_scoped(scope, "far", move || self.far_there::<P>(pairs, over, &reported))?;
            let mut threads = vec![far];
            if let Some(told_too) = told_too {
                threads.push(dispatch::spawn_scoped(scope, "router", move || {
                    let gone = |why: &anyhow::Error| drop(told_too.send(Err(format!("{why:#}"))));
                    self.router_there(pairs, over).inspect_err(gone)
                })?);
            }
            let near = self.host::<Up>(0, pairs)?;
            let port = heard.recv().context("the far end's thread has ended")?.map_err(|why| anyhow!(why))?;
            let mut here = OurSockets::new(&near, Rest::Spins);
            let played = play.near(&mut here, &mut |here, pace| here.step(pace), self.far_at(port));
            over.store(true, Ordering::Release);
            let ended =
                threads.into_iter().map(|thread| thread.join().map_err(|_| anyhow!("a host's thread panicked"))?);
            let ended: Vec<anyhow::Result<Observed>> = ended.collect();
            played?;
            let mut seen = Observed::of(&near);
            for counted in ended {
                seen.add(&counted?);
            }
            balanced(&near)?;
            Ok(seen)
        })
    }
}

impl Ground for Place {
    fn is_one_thread(&self) -> bool {
        let one = match self.drivers {
            // Simulated NICs and TAP devices are run by separate threads.
            Drivers::One => !matches!(self.over, Over::Nic | Over::Tap),
            Drivers::Workers => matches!(self.over, Over::Native | Over::Veth),
            Drivers::Each => false,
        };
        one && !self.wall_clock
    }

    fn run_counted<P: Play>(&self, play: &mut P) -> anyhow::Result<Observed> {
        let before = checksum::kind();
        if let Some(kind) = self.checksum {
            checksum::select(kind)?;
        }
        let counted = self.run_on(play);
        checksum::select(before)?;
        counted
    }
}

impl Place {
    fn run_on<P: Play>(&self, play: &mut P) -> anyhow::Result<Observed> {
        let none = |()| Observed::default();
        match (self.over, self.drivers) {
            (Over::Native, Drivers::One | Drivers::Workers) => kernel::native_together(self, play).map(none),
            (Over::Native, Drivers::Each) => kernel::native_apart(self, play).map(none),
            (Over::Veth, drivers) => {
                Veth::new(self.family, self.segments().map_err(|why| anyhow!(why))?, drivers)?.run_counted(play)
            }
            (Over::Tap, _) => kernel::tap(self, play).map(none),
            (_, Drivers::One) => match self.locks {
                LockKind::Up => self.together::<Up, P>(play, lend_none),
                LockKind::Light => self.together::<Light, P>(play, lend_none),
                LockKind::Heavy => self.together::<Heavy, P>(play, lend_none),
            },
            (_, Drivers::Workers) => self.together::<Light, P>(play, |host, run| with_threads(host, run)),
            (_, Drivers::Each) => self.apart(play),
        }
    }
}

/// Function that calls its second argument, which runs a play. Meanwhile it runs the netisr threads
/// of the judged host, if there are any.
type Lend<L> = fn(&Host<L>, &mut dyn FnMut() -> anyhow::Result<()>) -> anyhow::Result<()>;

fn lend_none<L: Locks>(_: &Host<L>, run: &mut dyn FnMut() -> anyhow::Result<()>) -> anyhow::Result<()> {
    run()
}

/// Sysctl setting of netisr's dispatch mode.
pub const DISPATCH: &str = "net.isr.dispatch";
/// Configuration keys set by [`Place`], which `--set` may not change.
const OURS_TO_SET: [&str; 7] = ["name", "locks", "threads", "stay", "control", "isr.workstreams", DISPATCH];
const TAP: &str = "np0";
/// Host number, in the address, of this project's host over TAP; the kernel's is 2.
const OURS: u8 = 1;
/// Host number, in the address, of a router in each of its networks.
const ROUTER: u8 = 254;
/// Sysctl setting of duplicate address detection.
const DAD: &str = "net.inet6.ip6.dad_count";

/// Channel on which the far end reports its L4 port, or the error because of which it does not
/// listen.
type Told = mpsc::Sender<Result<u16, String>>;

/// Stops the other threads when dropped.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Returns the wildcard address of `family` with L4 port `port`. A listener on the IPv6 wildcard
/// accepts IPv4 as well.
fn any(family: Domain, port: u16) -> SocketAddr {
    match family {
        Domain::Inet => SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)),
        Domain::Inet6 => SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)),
    }
}

/// Returns the address of host `host` in network `net`: 10.0.NET.HOST or fd00:0:0:NET::HOST.
fn address(family: Domain, net: u8, host: u8) -> IpAddr {
    match family {
        Domain::Inet => Ipv4Addr::new(10, 0, net, host).into(),
        Domain::Inet6 => Ipv6Addr::new(0xfd00, 0, 0, net.into(), 0, 0, 0, host.into()).into(),
    }
}

/// Returns the prefix length of the networks.
fn prefix_len(addr: IpAddr) -> u8 {
    if addr.is_ipv4() { 24 } else { 64 }
}

fn iface(port: &str, addrs: &[IpAddr]) -> IfaceConfig {
    let mut iface = IfaceConfig::on(port);
    addrs.iter().for_each(|addr| iface.add_address(*addr, prefix_len(*addr)));
    iface
}

fn default_route(via: IpAddr) -> RouteConfig {
    match via {
        IpAddr::V4(via) => RouteConfig { via: Some(via), ..RouteConfig::default() },
        IpAddr::V6(via) => RouteConfig { to6: Some(Prefix6::DEFAULT), via6: Some(via), ..RouteConfig::default() },
    }
}

/// Ends the host's netisr threads when dropped.
struct Finish<'a>(&'a Host<Light>);

impl Drop for Finish<'_> {
    fn drop(&mut self) {
        self.0.finish_isr();
    }
}

/// Runs the netisr threads of `host` for the duration of `run`.
fn with_threads<R>(host: &Host<Light>, run: impl FnOnce() -> anyhow::Result<R>) -> anyhow::Result<R> {
    thread::scope(|scope| {
        let finish = Finish(host); // ends the threads on every exit, before the scope joins
        let mut threads = Vec::new();
        for at in 0..host.isr_threads() {
            threads.push(dispatch::spawn_scoped(scope, &format!("isr{at}"), move || host.run_isr(at))?);
        }
        let ran = run();
        drop(finish);
        for thread in threads {
            thread.join().map_err(|_| anyhow!("a netisr thread panicked"))??;
        }
        ran
    })
}

fn balanced<L: Locks>(host: &Host<L>) -> anyhow::Result<()> {
    let audit = host.audit();
    anyhow::ensure!(audit.imbalance() == 0, "host {}: frames unaccounted for: {audit:?}", host.stack.name);
    Ok(())
}

/// Opens a far end, sends its L4 port to `reported`, and serves until `over` is set.
fn far_end<A: FarEnd, S: Sockets>(
    sockets: &mut S,
    at: SocketAddr,
    over: &AtomicBool,
    reported: &Told,
) -> anyhow::Result<()> {
    let opened = A::open_for_one(sockets, at);
    let (mut end, port) = match opened {
        Ok(opened) => opened,
        Err(why) => {
            drop(reported.send(Err(format!("cannot open the far end at {at}: {why}"))));
            return Err(anyhow!(why));
        }
    };
    drop(reported.send(Ok(port)));
    let mut pace = Pace::Go;
    while !over.load(Ordering::Acquire) {
        let now = sockets.step(pace);
        pace = if end.turn(sockets, now) { Pace::Go } else { Pace::Wait };
    }
    Ok(())
}

/// Runs the far end on a thread of its own and the near end on this one.
fn beside<P: Play>(
    play: &mut P,
    far: impl FnOnce(&AtomicBool, &Told) -> anyhow::Result<()> + Send,
    near: impl FnOnce(&mut P, u16) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let over = AtomicBool::new(false);
    let (reported, heard) = mpsc::channel();
    thread::scope(|scope| {
        let _end = End(&over);
        let over = &over;
        let thread = dispatch::spawn_scoped(scope, "far", move || far(over, &reported))?;
        let port = heard.recv().context("the far end's thread has ended")?.map_err(|why| anyhow!(why))?;
        let played = near(play, port);
        over.store(true, Ordering::Release);
        let ended = thread.join().map_err(|_| anyhow!("the far end's thread panicked"))?;
        played.and(ended)
    })
}

#[cfg(test)]
mod tests;
