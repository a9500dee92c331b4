//! `up` and `host`: run hosts from a file or from flags, live or in virtual time, and print their
//! audits at the end.

use crate::args::{AloneArgs, HostArgs};
use crate::exit::{Exit, Fault, notice, print};
use crate::log::{self, LogFormat};
use crate::metrics_server::{Metrics, MetricsArgs};
use crate::ready::Ready;
use crate::sandbox::warn_if_unavailable;
use anyhow::Context;
use dispatch::sandbox::Sandbox;
use node::config::{ConfigFile, HostConfig, IfaceConfig, MetricsConfig, Network};
use node::reload::ReloadOutcome;
use node::run::{Event, Outcome, UpError};
use port::Spec;
use std::ffi::OsString;
use std::io::IsTerminal;
use std::sync::Arc;

/// Runs `host --port SPEC ...`.
pub fn host(args: &AloneArgs, words: &[OsString]) -> anyhow::Result<Exit> {
    let mut host = from_flags(&args.host, words).map_err(Fault::usage)?;
    if let Some(address) = &args.fpm {
        host.set("fpm.listen", address).map_err(|why| Fault::usage(format!("--fpm: {why}")))?;
    }
    if let Some(netns) = &args.netns {
        host.set("mirror.netns", netns).map_err(|why| Fault::usage(format!("--netns: {why}")))?;
    }
    let sandbox = args.sandbox.with_control(host.control.is_some() || host.has_mirrors());
    let metrics = args.metrics.over(&MetricsConfig::default());
    let network = Network { hosts: vec![host], metrics, ..Network::default() };
    if args.check {
        return print(&summary(&network)).map(|()| Exit::Fine);
    }
    run(network, None, &sandbox, args.host.ready_fd, &args.metrics, args.log.as_ref())
}

/// Returns what the hosts and switches would open, and the address of the metrics, for --check.
pub fn summary(network: &Network) -> String {
    let mut out = String::new();
    for host in &network.hosts {
        let ports = host.ifaces.iter().filter(|iface| iface.tunnel.is_none()).map(|iface| iface.port.clone());
        let mut parts = vec![("ports", ports.collect::<Vec<_>>())];
        let mirrors = host.ifaces.iter().filter_map(|iface| iface.mirror.as_ref());
        parts.push(("mirrors", mirrors.map(|name| format!("{name} in {}", host.netns)).collect()));
        parts.push(("services", host.services.iter().map(|of| format!("{}:{}", of.kind, of.port.0)).collect()));
        parts.push(("control", host.control.iter().map(|path| path.display().to_string()).collect()));
        parts.push(("fpm", host.fpm.listen.iter().map(|at| at.to_string()).collect()));
        out += &line("host", &host.name, &parts);
    }
    for switch in &network.switches {
        out += &line("switch", &switch.name, &[("ports", switch.ports.clone())]);
    }
    if let MetricsConfig { listen: Some(address), series_max } = &network.metrics {
        out += &format!("metrics: {address}; at most {series_max} samples\n");
    }
    out
}

fn line(kind: &str, name: &str, parts: &[(&str, Vec<String>)]) -> String {
    let parts = parts.iter().filter(|(_, of)| !of.is_empty());
    let parts: Vec<String> = parts.map(|(word, of)| format!("{word} {}", of.join(", "))).collect();
    let of = if parts.is_empty() { "no ports".to_string() } else { parts.join("; ") };
    format!("{kind} {name}: {of}\n")
}

/// Runs until Ctrl-C or until no port is left; then prints the audits. Meanwhile, serves metrics,
/// if the flag `metrics` or the configuration has an address. On SIGHUP, the hosts reload `file`.
/// With `format`, events of the hosts are logged, too.
pub fn run(
    network: Network,
    file: Option<ConfigFile>,
    sandbox: &Sandbox,
    ready_fd: Option<u32>,
    metrics: &MetricsArgs,
    format: Option<&LogFormat>,
) -> anyhow::Result<Exit> {
    format.map_or(Ok(()), log::start)?;
    let mut ready = Ready::new(ready_fd, network.parts())?;
    let audits = Audits::beside(&network.hosts);
    dispatch::install_stop_handler().context("cannot catch Ctrl-C")?;
    if file.is_some() {
        dispatch::install_reload_handler().context("cannot catch SIGHUP")?;
    }
    let mut metrics = metrics.bind(&network.metrics)?;
    let (programs, collector) = (programs::servers::Servers::LIVE, metrics.collector.clone());
    let has_terminal = || std::io::stdin().is_terminal() || std::io::stderr().is_terminal();
    let had_terminal = has_terminal();
    let outcomes =
        node::run::up_network(network, programs, collector, sandbox, file.map(Arc::new), format.is_some(), |event| {
            print_event(event, &mut ready);
            // SIGHUP also arrives when the terminal is closed, which ends the program as it does by
            // default.
            if *event == Event::Reloading && had_terminal && !has_terminal() {
                dispatch::request_stop();
            }
            // The first event is passed on when all nodes run and the privileges are dropped.
            metrics.serve();
        });
    drop(metrics);
    let outcomes = outcomes.map_err(|error| match error {
        UpError::Build(node::run::BuildError::Config(_)) => Fault::usage(error),
        other => other.into(),
    })?;
    report(&outcomes, audits)
}

/// Stream to which the frame audits of hosts are printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Audits {
    /// Standard output.
    Stdout,
    /// Standard error, because a port writes its frames to standard output.
    Stderr,
}

impl Audits {
    /// Returns the destination of audits that does not mix them with the output of `hosts`.
    pub fn beside(hosts: &[HostConfig]) -> Audits {
        let ports = hosts.iter().flat_map(|host| &host.ifaces);
        let is_taken = ports.filter_map(|iface| Spec::parse(&iface.port).ok()).any(|spec| spec.writes_stdout());
        if is_taken { Audits::Stderr } else { Audits::Stdout }
    }
}

/// Reports events of running hosts on standard error.
pub fn print_event(event: &Event, ready: &mut Ready) {
    if let Err(why) = ready.note(event) {
        notice(&format!("{why:#}"));
    }
    match event {
        Event::Running { name, control: Some(path) } => notice(&format!("{name}: running; control {}", path.display())),
        Event::Running { name, control: None } => notice(&format!("{name}: running")),
        Event::Notice(text) => notice(text),
        Event::Log(event) => log::event(event),
        Event::Reloaded(ReloadOutcome::Done) => notice("reload: done"),
        Event::Reloaded(ReloadOutcome::Unchanged) => notice("reload: failed; nothing was changed"),
        Event::Reloaded(ReloadOutcome::Partly) => notice("reload: failed on some hosts"),
        Event::Reloading | Event::Alive | Event::Stopping => {}
    }
}

/// Reports an event of the only host of a process, and starts the server of its metrics once the
/// host runs.
pub fn print_event_and_serve(event: &Event, ready: &mut Ready, metrics: &mut Metrics) {
    print_event(event, ready);
    if matches!(event, Event::Running { .. }) {
        metrics.serve();
    }
}

/// Prints the audits. Returns a failure if an audit has frames unaccounted for, or if a host lost
/// its ports.
pub fn report(outcomes: &[Outcome], audits: Audits) -> anyhow::Result<Exit> {
    for outcome in outcomes {
        match audits {
            Audits::Stdout => print(&outcome.audit)?,
            Audits::Stderr => notice(outcome.audit.trim_end()),
        }
    }
    for outcome in outcomes.iter().filter(|outcome| !outcome.is_balanced()) {
        let [stack, rx, tx] = outcome.imbalance;
        notice(&format!("{}: frames unaccounted for: {stack} in the stack, {rx} received, {tx} sent", outcome.name));
    }
    warn_if_unavailable();
    let fine = |outcome: &Outcome| outcome.is_balanced() && !outcome.lost_ports;
    Ok(if outcomes.iter().all(fine) { Exit::Fine } else { Exit::Failed })
}

/// Sets keys or sysctls in the configuration of a host.
pub fn set_all(host: &mut HostConfig, pairs: &[(String, String)]) -> anyhow::Result<()> {
    pairs.iter().try_for_each(|(key, value)| host.set(key, value)).map_err(Fault::usage)
}

/// Builds the configuration of a host from flags, as if it were read from a file. Flags of a port
/// apply to the preceding --port. Since clap separates the values of each flag, their order is
/// taken from the command line.
pub fn from_flags(args: &HostArgs, words: &[OsString]) -> Result<HostConfig, String> {
    let mut host = HostConfig::default();
    for (flag, value) in in_order(words.iter().skip(1).map(|word| word.to_string_lossy().into_owned())) {
        match flag.as_str() {
            "--port" => {
                host.ifaces.push(IfaceConfig::default());
                host.set_iface("port", &value)?;
            }
            "--addr" => host.set_iface("addresses", &value)?,
            "--mirror" => host.set_iface("mirror", &value)?,
            "--dhcp" => host.set_iface("addresses", "dhcp")?,
            "--mac" | "--mtu" => host.set_iface(flag.trim_start_matches('-'), &value)?,
            "--offload" => {
                let known = ["ip4csum", "udp4csum", "rxcsum", "tso4"];
                for word in value.split(',') {
                    if !known.contains(&word) {
                        return Err(format!("--offload '{word}': expected {}", known.join(", ")));
                    }
                    host.set_iface(word, "on")?;
                }
            }
            _ => {}
        }
    }
    let single = [("name", &args.name), ("locks", &args.locks), ("core", &args.core)];
    for (key, value) in single.into_iter().filter_map(|(key, value)| Some((key, value.as_ref()?))) {
        host.set(key, value)?;
    }
    for (key, value) in &args.set {
        host.set(key, value)?;
    }
    for service in &args.service {
        host.services.push(service.parse().map_err(|why| format!("--service '{service}': {why}"))?);
    }
    for route in &args.route {
        host.set_route(route)?;
    }
    host.dns.extend(&args.dns);
    if !args.search.is_empty() {
        host.set_search(&args.search)?;
    }
    if args.control.is_some() {
        host.control = args.control.clone();
    }
    host.check()?;
    Ok(host)
}

/// Returns the pairs of `--flag value` and `--flag=value` in the order given.
fn in_order(words: impl Iterator<Item = String>) -> Vec<(String, String)> {
    let mut out = Vec::new();
    let mut words = words.peekable();
    while let Some(word) = words.next() {
        if let Some((flag, value)) = word.split_once('=').filter(|(flag, _)| flag.starts_with("--")) {
            out.push((flag.to_string(), value.to_string()));
        } else if word.starts_with("--")
            && let Some(value) = words.next_if(|next| !next.starts_with("--"))
        {
            out.push((word, value));
        } else if word == "--dhcp" {
            out.push((word, String::new())); // a flag without value; its position matters
        }
    }
    out
}
