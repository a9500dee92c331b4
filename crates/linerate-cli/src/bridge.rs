//! `bridge`: runs a learning bridge over ports, or sends commands to a running one.

use crate::ctl;
use crate::exit::{Exit, Fault, notice, print};
use crate::hosts;
use crate::metrics_server::MetricsArgs;
use crate::ready::Ready;
use crate::sandbox::{SandboxArgs, warn_if_unavailable};
use anyhow::Context;
use bridge::{ADDRESSES, FdbConfig, MAX_PORTS, StpVersion};
use clap::{Args, ValueHint};
use clock::{Clock, Strategy};
use commands::bridge as control;
use node::config::{MetricsConfig, Network, SwitchFile};
use node::control::SwitchServer;
use node::run::Event;
use node::switch::run::Until;
use node::switch::{AddError, Switch, SwitchConfig, THREADS_MAX};
use port::spec::{Kind, Layer, Spec};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Arguments of `bridge`.
#[derive(Args, Debug, Clone)]
#[command(after_help = "\
Ends on Ctrl-C, or when all ports are closed, and prints a report of each port. If all ports are closed, the exit code \
is 1 if a port was lost: its device was removed, or its file is truncated or cannot be written. --text IN,OUT is \
text(write=OUT):IN: frames are read as lines from the file or FIFO IN and written to OUT. If the first word is not a \
port (link, fdb, vlan, mdb), the words are a command for a running bridge, as in 'linerate bridge --url \
unix:///tmp/b.sock fdb show'. 'linerate ctl --url ... help' lists the commands.

Examples:
  linerate bridge tap:tap0 tap:tap1 tap:tap2
  linerate bridge 'tap(queues=2):tap0' 'tap(queues=2):tap0' tap:tap1 --loops 2
  linerate bridge xdp:veth0 packet:veth1 --set kern.polling.mode=clock
  mkfifo in out; linerate bridge tap:tap0 'text(write=out):in'")]
pub struct BridgeArgs {
    /// Bridge these ports, as in tap:tap0; or send this command to a running bridge
    #[arg(value_name = "PORT")]
    pub ports: Vec<String>,
    /// Add a text port, which reads and writes frames as lines of two files or FIFOs
    #[arg(long, value_name = "IN,OUT")]
    pub text: Vec<String>,
    /// Limit the address table to N entries, each of at most 64 bytes of memory
    #[arg(long, value_name = "N", default_value_t = ADDRESSES as u32, value_parser = clap::value_parser!(u32).range(1..=1 << 24))]
    pub table: u32,
    /// Set the ageing time of addresses
    #[arg(long, value_name = "DURATION", value_parser = age, default_value = "300s")]
    pub age: Duration,
    /// Poll ports in N loops, each in its own thread; ports are assigned in turn
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=THREADS_MAX as i64))]
    pub loops: u16,
    /// Forward frames in N worker threads, fed by the polling loop
    #[arg(long, value_name = "N", default_value_t = 0, conflicts_with = "loops", value_parser = clap::value_parser!(u16).range(0..THREADS_MAX as i64))]
    pub workers: u16,
    /// Set the name of the bridge
    #[arg(long, value_name = "NAME", default_value = "bridge0", value_parser = word)]
    pub name: String,
    /// Set a sysctl; may be repeated
    #[arg(long = "set", value_name = "K=V", value_parser = crate::args::key_value)]
    pub set: Vec<(String, String)>,
    /// Run a spanning tree protocol on all ports
    #[arg(long, value_name = "PROTO", num_args = 0..=1, default_missing_value = "rstp", require_equals = true, value_parser = ["rstp", "stp"])]
    pub stp: Option<String>,
    /// Run this command before the bridge starts, as in 'ifconfig bridge0 private tap0'; may be
    /// repeated
    #[arg(long = "do", value_name = "WORDS")]
    pub words: Vec<String>,
    /// Create the control socket at this path [default: none]
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath, value_parser = crate::args::control_path)]
    pub control: Option<PathBuf>,
    #[command(flatten)]
    pub metrics: MetricsArgs,
    /// Check the flags, print what would be opened, and exit
    #[arg(long)]
    pub check: bool,
    /// Keep running when all ports are closed
    #[arg(long)]
    pub stay: bool,
    /// Write a newline to this open descriptor when the bridge runs
    #[arg(long, value_name = "N")]
    pub ready_fd: Option<u32>,
    /// Use the running bridge at this control socket: unix:///path
    #[arg(long, value_name = "URL", env = "LINERATE_CTL")]
    pub url: Option<String>,
    /// Print replies of a running bridge, and the final audit, as JSON
    #[arg(short, long)]
    pub json: bool,
    #[command(flatten)]
    pub sandbox: SandboxArgs,
}

pub fn run(args: &BridgeArgs) -> anyhow::Result<Exit> {
    if args.ports.first().is_some_and(|word| !word.contains(':')) {
        let words = std::iter::once("bridge".to_string()).chain(args.ports.iter().cloned()).collect();
        return ctl::run(args.url.as_deref(), args.json, words);
    }
    let specs = specs(args)?;
    let mut config = SwitchConfig { name: args.name.clone(), loops: args.loops.into(), ..SwitchConfig::default() };
    config.workers = args.workers.into();
    config.bridge.fdb = FdbConfig { most: args.table as usize, timeout: args.age, ..FdbConfig::new() };
    config.pool.stride = port::stride_for(&specs);
    let mut sysctls = Vec::new();
    for (name, value) in &args.set {
        if !control::preset(&mut config, name, value).map_err(Fault::usage)? {
            sysctls.push((name, value));
        }
    }
    if args.check {
        let ports = specs.iter().map(Spec::to_string).collect();
        let switch = SwitchFile { name: args.name.clone(), ports, ..SwitchFile::default() };
        switch.check().map_err(Fault::usage)?;
        let metrics = args.metrics.over(&MetricsConfig::default());
        let network = Network { switches: vec![switch], metrics, ..Network::default() };
        return print(&hosts::summary(&network)).map(|()| Exit::Fine);
    }
    let mut metrics = args.metrics.bind(&MetricsConfig::default())?;
    let mut ready = Ready::new(args.ready_fd, 1)?;
    dispatch::install_stop_handler().context("cannot catch Ctrl-C")?;
    port::fit_pool(&mut config.pool, &specs);
    let switch = Switch::new(&config, Clock::live(Strategy::TscScaled)).context("cannot allocate port buffers")?;
    for spec in &specs {
        switch.add(spec, None).map_err(|why| match why {
            AddError::NotEthernet(_) | AddError::Taken(_) | AddError::TooMany(_) | AddError::NoLoopLeft { .. } => {
                Fault::usage(why)
            }
            why => anyhow::anyhow!("port {}", port::port_message(&spec.to_string(), &why)),
        })?;
    }
    // The sysctls of simulated NICs exist only after their ports are opened.
    for (name, value) in sysctls {
        control::set(&switch, name, value).map_err(Fault::usage)?;
    }
    if let Some(proto) = &args.stp {
        let version = StpVersion::named(proto).context("--stp")?; // the parser accepts these names only
        switch.span(version).map_err(Fault::usage)?;
    }
    for line in &args.words {
        let said: Vec<&str> = line.split_whitespace().collect();
        let answer =
            control::run(&switch, &said, false).map_err(|why| Fault::usage(format!("--do '{line}': {why}")))?;
        print(&answer)?;
    }
    let mut socket = args.control.as_deref().map(serve).transpose()?;
    if let Some(collector) = &metrics.collector {
        switch.report_to(collector).context("metrics")?;
    }
    args.sandbox.with_control(socket.is_some()).enter()?.into_iter().for_each(notice);
    let path = socket.as_ref().map(|socket| socket.server.path().to_path_buf());
    let running = Event::Running { name: args.name.clone(), control: path };
    hosts::print_event(&running, &mut ready);
    metrics.serve();
    let at_start = control::warnings(&switch);
    at_start.iter().for_each(|warning| notice(warning));
    let until = if args.stay { Until::Stopped } else { Until::Over };
    let ran = switch.run(socket.as_mut(), until, dispatch::stop_requested);
    drop(ready);
    switch.end_report();
    drop(metrics);
    control::warnings(&switch).iter().filter(|warning| !at_start.contains(warning)).for_each(|warning| notice(warning));
    control::report(&switch).lines().for_each(notice);
    warn_if_unavailable();
    ran.context("waiting for ports")?;
    let lost = control::lost(&switch);
    lost.iter().for_each(|port| notice(port));
    let audit = switch.audit();
    if !audit.holds() {
        notice(&format!("frames unaccounted for: {audit:?}"));
        return Ok(Exit::Failed);
    }
    if args.json {
        print(&control::run(&switch, &["audit"], true).unwrap_or_default())?;
    }
    // A bridge that was stopped has succeeded, even if ports were lost.
    let ended_by_itself = !dispatch::stop_requested();
    Ok(if ended_by_itself && !lost.is_empty() { Exit::Failed } else { Exit::Fine })
}

/// Parses the ageing time, at least half a second, since ages are counted in fractions of it
/// ([`bridge::Fdb`]).
fn age(text: &str) -> Result<Duration, String> {
    let age = pipe::units::duration(text).map_err(|why| why.to_string())?;
    let least = Duration::from_millis(500);
    (age >= least).then_some(age).ok_or_else(|| "ageing time must be at least 500ms".to_string())
}

/// Parses a name that can be used in commands.
fn word(text: &str) -> Result<String, String> {
    let good = !text.is_empty() && text.len() <= 32 && text.chars().all(|c| c.is_ascii_graphic());
    good.then(|| text.to_string()).ok_or_else(|| "expected a name of up to 32 characters, without spaces".to_string())
}

fn serve(path: &Path) -> anyhow::Result<SwitchServer> {
    SwitchServer::bind::<commands::All>(path).with_context(|| format!("control socket {}", path.display()))
}

/// Parses the names of the ports.
fn specs(args: &BridgeArgs) -> anyhow::Result<Vec<Spec>> {
    let ports = args.ports.iter().map(|name| Spec::parse(name).map_err(Fault::usage));
    let texts = args.text.iter().map(|name| text(name));
    let specs: Vec<Spec> = ports.chain(texts).collect::<Result<_, _>>()?;
    match specs.len() {
        0 | 1 => Err(Fault::usage("a bridge needs at least two ports; see 'linerate bridge --help'")),
        n if n > MAX_PORTS => Err(Fault::usage(format!("a bridge has at most {MAX_PORTS} ports, {n} are given"))),
        _ => Ok(specs),
    }
}

/// Converts `IN,OUT` to the port specification `text(write=OUT):IN`.
fn text(name: &str) -> anyhow::Result<Spec> {
    let Some((read, write)) = name.split_once(',') else {
        return Err(Fault::usage(format!("--text '{name}': expected IN,OUT, two files or FIFOs")));
    };
    let mut port = Layer::new(Kind::Text);
    port.set("write", write).map_err(Fault::usage)?;
    Ok(Spec { wrappers: Vec::new(), port, name: read.to_string() })
}
