//! Placement of both ends of a workload: in our hosts, in the kernel, or in another process. Shared
//! by 'netperf', 'netrate', 'kvload', 'fileload' and 'ab'.

use crate::args::{FamilyArgs, HostArgs, LimitArgs, ServedArgs};
use crate::exit::{Exit, Fault, notice};
use crate::hosts::{self, Audits};
use crate::ready::Ready;
use crate::sandbox::warn_if_unavailable;
use anyhow::Context;
use apps::netperf::session::{FarEnd, Play};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum, ValueHint};
use dispatch::netisr::Mode;
use lab::netperf::{Asker, Domain, Drivers, Isr, Over, Place, Shape};
use node::config::{HostConfig, MetricsConfig};
use node::isr::WORKSTREAMS_MAX;
use node::remote::{Families, Remote};
use node::run::Event;
use port::os::netns;
use programs::netperf::serve as ends;
use programs::{RunError, everywhere_of};
use std::ffi::OsString;
use std::io::{self, Read};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Environment variable that marks the process in the network namespace.
const INSIDE: &str = "LINERATE_NETPERF_INSIDE";

/// Flags that select where the two ends of a workload run and what connects them.
#[derive(Args, Debug)]
pub struct PlaceArgs {
    /// Select what connects the two ends of the test
    #[arg(long, value_name = "WHAT", default_value = "pair", value_parser = over())]
    pub over: Over,
    /// Select the end that sends requests, with --over tap
    #[arg(long, value_name = "END", default_value = "ours", conflicts_with_all = ["topo", "far"])]
    pub from: FromArg,
    /// Run each host in its own thread
    #[arg(long, conflicts_with = "far")]
    pub threads: bool,
    /// Set options of the ports between the ends, as in tso=on,csum=on; see 'linerate ports'
    #[arg(long, value_name = "OPTIONS", default_value = "", hide_default_value = true, conflicts_with = "far")]
    pub link: String,
    /// Use the hosts of this topology file instead of --over, on one thread and without their
    /// services; the first host is the client, the last the server
    #[arg(long, value_name = "FILE", conflicts_with_all = ["over", "threads", "link", "far", "port", "dispatch"], value_hint = ValueHint::FilePath)]
    pub topo: Option<PathBuf>,
    /// Select the client host of --topo
    #[arg(long, value_name = "HOST", requires = "topo")]
    pub near: Option<String>,
    /// Select the server host of --topo
    #[arg(long = "far", value_name = "HOST", requires = "topo")]
    pub requested: Option<String>,
    /// Use the far end at this address or name, with --over native or --port
    #[arg(short = 'H', value_name = "A[%IF]")]
    pub far: Option<Remote>,
    /// Set the netisr dispatch of the router, or of the far end if there is no router
    #[arg(long, value_name = "MODE", conflicts_with = "far")]
    pub dispatch: Option<DispatchArg>,
    /// Set the number of netisr workstreams; with --threads, each runs in its own thread
    #[arg(long, value_name = "N", default_value_t = 1, requires = "dispatch", value_parser = clap::value_parser!(u8).range(1..=WORKSTREAMS_MAX as i64))]
    pub workstreams: u8,
    /// Set the L4 port of the far end
    #[arg(short = 'p', value_name = "L4PORT", requires = "far", value_parser = clap::value_parser!(u16).range(1..))]
    pub far_port: Option<u16>,
    #[command(flatten)]
    pub family: FamilyArgs,
    #[command(flatten)]
    pub host: HostArgs,
}

/// Parses each [`Over`] by its name.
fn over() -> impl TypedValueParser<Value = Over> {
    let known = Over::ALL.map(Over::words).map(|[word, about]| PossibleValue::new(word).help(about));
    PossibleValuesParser::new(known).try_map(|word| word.parse::<Over>())
}

/// Netisr dispatch policy of the measured host.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum DispatchArg {
    /// Process frames at once
    Direct,
    /// Process frames at once where ordering allows it
    Hybrid,
    /// Queue frames
    Deferred,
}

impl DispatchArg {
    /// Returns the netisr mode.
    pub fn mode(self) -> Mode {
        match self {
            DispatchArg::Direct => Mode::Direct,
            DispatchArg::Hybrid => Mode::Hybrid,
            DispatchArg::Deferred => Mode::Deferred,
        }
    }
}

/// Requesting end of a test over TAP.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum FromArg {
    /// Send requests from the linerate host
    Ours,
    /// Send requests from the kernel
    Kernel,
}

/// Runs the far end on the kernel's sockets.
pub fn serve_kernel<A: FarEnd>(
    name: &str,
    args: &ServedArgs,
    family: FamilyArgs,
    port: u16,
    limits: LimitArgs,
) -> anyhow::Result<Exit> {
    let limits = limits.or(A::CONNECTIONS);
    if let Some(kind) = args.host.service.first() {
        let why = "not supported with --native, which runs no linerate host";
        return Err(Fault::usage(format!("{name} --service {kind}: {why}")));
    }
    if !args.host.port.is_empty() {
        return Err(Fault::usage(format!(
            "{name}: --native (kernel sockets) and --port (linerate host) exclude each other"
        )));
    }
    for (flag, is_given) in [("--control", args.host.control.is_some()), ("--metrics", args.metrics.metrics.is_some())]
    {
        if is_given {
            let why = "not supported with --native, which runs no linerate host";
            return Err(Fault::usage(format!("{name} {flag}: {why}")));
        }
    }
    let mut ready = Ready::new(args.host.ready_fd, 1)?;
    dispatch::install_stop_handler().context("cannot catch Ctrl-C")?;
    let sandbox = args.sandbox.with_kernel_sockets();
    lab::netperf::serve_native::<A>(family.families(), port, limits, || {
        sandbox.enter()?.into_iter().for_each(notice);
        notice(&format!("{name}: listening on kernel sockets, L4 port {port}"));
        ready.note(&Event::Running { name: name.to_string(), control: None })
    })?;
    warn_if_unavailable();
    Ok(Exit::Fine)
}

/// Runs the far end on a linerate host.
pub fn serve_ours<A: FarEnd>(
    args: &ServedArgs,
    words: &[OsString],
    family: FamilyArgs,
    port: u16,
    limits: LimitArgs,
) -> anyhow::Result<Exit> {
    let limits = limits.or(A::CONNECTIONS);
    let mut config = hosts::from_flags(&args.host, words).map_err(Fault::usage)?;
    if let Some(gateway) = args.gateway {
        config.set_route(&format!("default,{gateway}")).map_err(Fault::usage)?;
        config.check().map_err(Fault::usage)?;
    }
    with_buffers(&mut config, &args.host);
    dispatch::install_stop_handler().context("cannot catch Ctrl-C")?;
    let mut ready = Ready::new(args.host.ready_fd, 1)?;
    let mut metrics = args.metrics.bind(&MetricsConfig::default())?;
    let collector = metrics.collector.clone();
    let sandbox = args.sandbox.with_control(config.control.is_some());
    let mut each = |event: &_| hosts::print_event_and_serve(event, &mut ready, &mut metrics);
    let at = everywhere_of(family.families(), port);
    let ended = ends::serve::<A>(&config, at, limits, collector.as_deref(), &sandbox, &mut each);
    drop(metrics);
    let ended = ended.map_err(|why| match why {
        RunError::Build(node::run::BuildError::Config(_)) => Fault::usage(why),
        RunError::Build(named) => named.into(), // the error contains the name of the host
        other => anyhow::Error::from(other).context(config.name.clone()),
    })?;
    hosts::report(&[ended], Audits::beside(&[config]))
}

/// Sets the number of buffers unless --set pool.buffers is given. Many are needed, since sent data
/// stays in buffers until it is acknowledged.
fn with_buffers(config: &mut HostConfig, args: &HostArgs) {
    if !args.set.iter().any(|(key, _)| key == "pool.buffers") {
        config.pool_buffers = 16_384;
    }
}

/// Placement of a workload.
pub enum Where {
    /// Both ends in this process, or in a child process.
    Here(Place),
    /// Both ends in this process, connected by the network of a topology file.
    Shape(Box<Shape>),
    /// A linerate host, with the far end in another process or on another machine.
    Ours(Box<HostConfig>, Remote, u16, Families),
    /// The kernel's sockets, with the far end in another process or on another machine.
    Kernel(Remote, u16, Families),
}

impl PlaceArgs {
    /// Returns whether the two ends run on separate threads or in separate processes.
    pub fn has_threads(&self) -> bool {
        self.threads || self.over == Over::Tap || self.far.is_some()
    }

    /// Returns the placement that the flags select; `words` are the command line, `port` is the
    /// default port of the far end.
    pub fn place(&self, words: &[OsString], port: u16) -> anyhow::Result<Where> {
        if let Some(far) = &self.far {
            if let Some(ip) = far.ip() {
                self.family.families().check("-H", ip).map_err(Fault::usage)?;
            }
            return self.elsewhere(far.clone(), self.far_port.unwrap_or(port), words);
        }
        if let Some(file) = &self.topo {
            return self.shape(file);
        }
        if !self.host.port.is_empty() {
            return Err(Fault::usage("--port: requires the address of the far end: give -H ADDRESS"));
        }
        self.serves_nothing()?;
        let over = self.over;
        if self.from == FromArg::Kernel && over != Over::Tap {
            return Err(Fault::usage("--from: requires --over tap"));
        }
        let asker = if self.from == FromArg::Kernel { Asker::Kernel } else { Asker::Ours };
        let drivers = if self.threads { Drivers::Each } else { Drivers::One };
        let isr = self.dispatch.map(|dispatch| Isr { workstreams: self.workstreams.into(), dispatch: dispatch.mode() });
        let (link, set) = (self.link.clone(), self.host.set.clone());
        let family = if self.family.families() == Families::V6 { Domain::Inet6 } else { Domain::Inet };
        let place = Place { family, asker, drivers, link, set, isr, ..Place::new(over) };
        place.check().map_err(Fault::usage)?;
        Ok(Where::Here(place))
    }

    fn shape(&self, file: &Path) -> anyhow::Result<Where> {
        self.serves_nothing()?;
        let mut hosts = node::config::load(file).map_err(Fault::usage)?;
        for host in &mut hosts {
            hosts::set_all(host, &self.host.set)?;
        }
        let shape = Shape::new(hosts, self.family.families(), self.near.as_deref(), self.requested.as_deref());
        let shape = shape.map_err(|why| Fault::usage(format!("{}: {why}", file.display())))?;
        shape.warnings().iter().for_each(|warning| notice(warning));
        Ok(Where::Shape(Box::new(shape)))
    }

    /// Rejects flags that apply to servers only, since the near end is a client.
    fn serves_nothing(&self) -> anyhow::Result<()> {
        let HostArgs { service, control, ready_fd, .. } = &self.host;
        let given =
            [("--service", !service.is_empty()), ("--control", control.is_some()), ("--ready-fd", ready_fd.is_some())];
        match given.iter().find(|(_, given)| *given) {
            Some((flag, _)) => {
                Err(Fault::usage(format!("{flag}: not supported by clients; use 'linerate host' or a server command")))
            }
            None => Ok(()),
        }
    }

    fn elsewhere(&self, at: Remote, port: u16, words: &[OsString]) -> anyhow::Result<Where> {
        self.serves_nothing()?;
        let families = self.family.families();
        match (self.over, self.host.port.is_empty()) {
            (Over::Native, true) => Ok(Where::Kernel(at, port, families)),
            (Over::Pair, false) => {
                let own: Vec<OsString> = words.iter().take_while(|word| *word != "--").cloned().collect();
                let mut config = hosts::from_flags(&self.host, &own).map_err(Fault::usage)?;
                with_buffers(&mut config, &self.host);
                config.socket_addr(&at, port).map_err(|why| Fault::usage(format!("-H: {why}")))?;
                Ok(Where::Ours(Box::new(config), at, port, families))
            }
            (Over::Native, false) => {
                Err(Fault::usage("--over native (kernel) and --port (linerate host) exclude each other"))
            }
            _ => Err(Fault::usage("-H: requires --over native or --port")),
        }
    }
}

impl Where {
    /// Returns the far end's address; `None` if it is given by name.
    fn far_ip(&self) -> Option<IpAddr> {
        match self {
            Where::Here(place) => Some(place.far_address()),
            Where::Shape(shape) => Some(shape.far_address()),
            Where::Ours(_, at, ..) | Where::Kernel(at, ..) => at.ip(),
        }
    }

    /// Returns the address or name of the far end as given on the command line.
    pub fn far(&self) -> String {
        match self {
            Where::Ours(_, at, ..) | Where::Kernel(at, ..) => at.to_string(),
            Where::Here(_) | Where::Shape(_) => self.far_ip().map_or(String::new(), |ip| ip.to_string()),
        }
    }

    /// Assigns `n` consecutive source addresses to the near end and returns them. They begin at
    /// `base`; without `base`, a near end that is created here chooses the first one.
    pub fn addresses(&mut self, n: u8, base: Option<IpAddr>) -> anyhow::Result<Vec<IpAddr>> {
        let first = match (&mut *self, base) {
            (_, Some(base)) => base,
            (Where::Here(place), None) => {
                place.aliases = n;
                place.check().map_err(|why| Fault::usage(format!("-M: {why}")))?;
                place.alias(0)
            }
            _ => return Err(Fault::usage("-M: requires the first source address: give -l ADDRESS")),
        };
        if self.far_ip().is_some_and(|far| far.is_ipv4() != first.is_ipv4()) {
            let far = self.far();
            return Err(Fault::usage(format!("-l {first}: address family differs from the far end's address {far}")));
        }
        let nth = |at: u8| match first {
            IpAddr::V4(first) => first.to_bits().checked_add(at.into()).map(|bits| IpAddr::V4(bits.into())),
            IpAddr::V6(first) => first.to_bits().checked_add(at.into()).map(|bits| IpAddr::V6(bits.into())),
        };
        (0..n).map(nth).collect::<Option<Vec<_>>>().ok_or_else(|| Fault::usage("-l: addresses exceed address space"))
    }

    /// Runs `play` in this placement.
    pub fn play<P: Play>(&self, play: &mut P) -> anyhow::Result<Exit> {
        if let Where::Here(place) = self
            && place.wants_namespace()
            && let Some(exit) = in_namespace()?
        {
            return Ok(exit);
        }
        dispatch::install_stop_handler().context("cannot catch Ctrl-C")?;
        match self {
            Where::Here(place) => place.run(play)?,
            Where::Shape(shape) => shape.run(play)?,
            Where::Ours(config, at, port, families) => ends::ask(play, config, at, *port, *families)?,
            Where::Kernel(at, port, families) => lab::netperf::ask_native(play, at, *port, *families)?,
        }
        Ok(Exit::Fine)
    }
}

/// Returns whether this process runs in the namespace created by [`in_namespace`].
pub fn is_inside() -> bool {
    std::env::var_os(INSIDE).is_some()
}

/// Runs this command again in a child process with its own network namespace, and returns the
/// child's exit code. In the child, returns `None` and requests a stop at the end of standard
/// input, so that the child ends when its parent ends.
///
/// # Errors
/// Network namespaces are not available, or the process cannot be started.
pub fn in_namespace() -> anyhow::Result<Option<Exit>> {
    if is_inside() {
        end_with_stdin()?;
        return Ok(None);
    }
    run_inside().map(Some)
}

fn run_inside() -> anyhow::Result<Exit> {
    netns::available()
        .map_err(anyhow::Error::msg)
        .context("cannot create a network namespace, which --over tap and veth need; run as root")?;
    dispatch::install_stop_handler().context("cannot catch Ctrl-C")?;
    let mut again = Command::new("/proc/self/exe");
    again.args(std::env::args_os().skip(1)).env(INSIDE, "1").stdin(Stdio::piped());
    let mut child = netns::command(&mut again).spawn().context("cannot start this command in a network namespace")?;
    let mut input = child.stdin.take();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if dispatch::stop_requested() {
            input = None;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    drop(input);
    Ok(match status.code() {
        Some(0) => Exit::Fine,
        Some(2) => Exit::Usage,
        _ => Exit::Failed,
    })
}

fn end_with_stdin() -> anyhow::Result<()> {
    let watch = |_| {
        let _ = io::stdin().read(&mut [0; 1]); // ends at end of file: the parent never writes
        dispatch::request_stop();
    };
    dispatch::spawn_worker("end", None, watch).context("cannot start the thread that watches standard input")?;
    Ok(())
}

/// Parses seconds, which may have a fraction.
pub fn seconds(word: &str) -> Result<Duration, String> {
    let seconds = word.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let within = |time: &Duration| !time.is_zero() && *time <= apps::netperf::LENGTH_MAX;
    seconds.filter(within).ok_or_else(|| "expected seconds, above 0 and at most 86400".to_owned())
}
