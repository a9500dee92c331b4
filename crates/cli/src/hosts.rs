//! `up` and `host`: run hosts from a file or from flags, live or in virtual time, and print their
//! audits at the end.

use crate::args::{AloneArgs, HostArgs, UpArgs};
use crate::ask;
use crate::exit::{Exit, Fault, misused, notice, print};
use crate::ready::Ready;
use crate::running::Works;
use crate::sandbox::warn_if_unavailable;
use anyhow::Context;
use clock::Instant;
use dispatch::sandbox::Sandbox;
use node::config::{self, HostConfig, IfaceConfig, Network};
use node::run::{Event, Outcome, UpError};
use port::Spec;
use sim::probe::{EchoReplies, probe};
use sim::programs::WithPrograms;
use sim::shape;
use std::cell::RefCell;
use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Runs `up FILE`.
pub fn up(args: UpArgs) -> anyhow::Result<Exit> {
    let mut network = config::load_network(&args.file).map_err(Fault::usage)?;
    for host in &mut network.hosts {
        set_all(host, &args.set)?;
        host.check().map_err(Fault::usage)?;
    }
    if args.check {
        let hosts = network.hosts.iter().map(|host| host.name.as_str());
        let names: Vec<&str> = hosts.chain(network.switches.iter().map(|switch| switch.name.as_str())).collect();
        return print(&format!("{}: valid: {}\n", args.file.display(), names.join(", "))).map(|()| Exit::Fine);
    }
    if let Some(seconds) = args.sim {
        return simulate(&network, Duration::from_secs(seconds), args.seed, &args.words);
    }
    let Network { hosts, switches } = &mut network;
    let hosts = hosts.iter_mut().map(|host| (&host.name, &mut host.control));
    let controls = hosts.chain(switches.iter_mut().map(|switch| (&switch.name, &mut switch.control)));
    let without: Vec<_> = controls.filter(|(_, control)| control.is_none()).collect();
    if !without.is_empty() {
        let dir = control_dir(args.control_dir)?;
        for (name, control) in without {
            *control = Some(dir.join(format!("{name}.sock")));
        }
    }
    run(network, &args.sandbox.with_control(true), args.ready_fd)
}

/// Runs `up --sim SECONDS FILE`: the same hosts in virtual time. Runs the commands first, then each
/// host sends to each echo service.
fn simulate(network: &Network, span: Duration, seed: u64, words: &[String]) -> anyhow::Result<Exit> {
    let world = shape::from_network(network, seed).map_err(Fault::usage)?;
    world.warnings().iter().for_each(|warning| notice(warning));
    let begin = world.now();
    let mut programs = WithPrograms::open(&world, &apps::host::Servers::SIMULATED).map_err(Fault::usage)?;
    for line in words {
        let left = span.saturating_sub(world.now().since(begin));
        print(&command(&mut programs, line, left)?)?;
    }
    let span = span.saturating_sub(world.now().since(begin));
    let heard = probe(&mut programs, &network.hosts, span, Duration::from_secs(1)).context("cannot open a socket")?;
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    for EchoReplies { from, to, sent, answered, least, most, sum } in heard {
        let times = match answered {
            0 => String::new(),
            _ => format!("  {:.1} {:.1} {:.1} ms", ms(least), ms(sum) / f64::from(answered), ms(most)),
        };
        print(&format!("{from:<12} {to:<12} {answered:>5} of {sent}{times}\n"))?;
    }
    drop(programs);
    report(&world.end(), Audits::Stdout)
}

/// Host of a simulated world. Virtual time advances only in [`Works::pause`], up to `end`.
struct Simulated<'a, 'w> {
    programs: RefCell<&'a mut WithPrograms<'w>>,
    world: &'w sim::World,
    at: sim::HostId,
    begin: Instant,
    end: Instant,
}

impl Works for Simulated<'_, '_> {
    fn ask(&self, words: &[&str], json: bool) -> anyhow::Result<String> {
        let is_end = self.world.now() >= self.end && words.get(1) != Some(&"stop");
        anyhow::ensure!(!is_end, "the simulated time is over");
        let words: Vec<&str> = words.iter().copied().chain(json.then_some("-j")).collect();
        self.world.say(self.at, &words).map_err(|why| anyhow::anyhow!("{why}"))
    }

    fn now(&self) -> Duration {
        self.world.now().since(self.begin)
    }

    fn pause(&self, time: Duration) {
        self.programs.borrow_mut().run_for(time.max(sim::probe::GRAIN));
    }

    fn is_virtual(&self) -> bool {
        true
    }
}

/// Arguments of a client, without the client's name.
#[derive(clap::Parser, Debug)]
#[command(no_binary_name = true, disable_help_flag = true)]
struct Line<A: clap::Args> {
    #[command(flatten)]
    args: A,
}

/// Parses a client's words and runs it in the world; it prints its own output.
fn client<A: clap::Args>(
    words: &[&str],
    host: &Simulated<'_, '_>,
    run: fn(&dyn Works, &A) -> anyhow::Result<Exit>,
) -> anyhow::Result<String> {
    use clap::Parser as _;
    let whole: Vec<String> = words.iter().map(|word| word.to_string()).collect();
    let line = Line::<A>::try_parse_from(words.iter().skip(1));
    let line = line.map_err(|why| Fault::usage(misused(&why, &whole)))?;
    match run(host, &line.args) {
        Ok(_) => Ok(String::new()),
        Err(why) if why.downcast_ref::<Fault>().is_some() => Err(why),
        Err(why) => Ok(format!("{why:#}\n")),
    }
}

/// Runs `HOST WORDS` in the world; clients ([`CLIENTS`]) run for at most `span`. Returns the output
/// that was not printed.
fn command(programs: &mut WithPrograms<'_>, line: &str, span: Duration) -> anyhow::Result<String> {
    let world = programs.world();
    let words: Vec<&str> = line.split_whitespace().collect();
    let (name, words) = words.split_first().ok_or_else(|| Fault::usage("--do: expected 'HOST WORDS'"))?;
    let at = world.hosts().find(|id| world.host(*id).stack.name == *name);
    let at = at.ok_or_else(|| Fault::usage(format!("--do '{line}': unknown host '{name}'")))?;
    let wrong = |why: &dyn std::fmt::Display| Fault::usage(format!("--do '{line}': {why}"));
    let Some(first) = words.first().filter(|first| CLIENTS.contains(first)) else {
        return world.say(at, words).map_err(|why| wrong(&why));
    };
    let begin = world.now();
    let host = Simulated { programs: RefCell::new(programs), world, at, begin, end: begin.after(span) };
    match *first {
        "nc" => client(words, &host, ask::connect),
        "nslookup" => client(words, &host, ask::look_up),
        "http" => client(words, &host, ask::get),
        "iperf3" => client(words, &host, crate::iperf3::simulated),
        _ => client_of_lines(&host, words).map_err(|why| wrong(&why)),
    }
}

/// Clients that a host of a simulated world can be.
const CLIENTS: &[&str] = &["ping", "traceroute", "nc", "nslookup", "http", "iperf3"];

/// Runs `ping` or `traceroute` and returns the lines of the job.
fn client_of_lines(host: &Simulated<'_, '_>, words: &[&str]) -> anyhow::Result<String> {
    let id = host.ask(&[&["job"], words].concat(), false)?;
    let mut out = String::new();
    while host.world.now() < host.end {
        let text = host.ask(&["job", "read", id.trim()], false)?;
        let (state, more) = text.split_once('\n').unwrap_or((&text, ""));
        out += more;
        match state {
            "running" => host.pause(sim::probe::GRAIN),
            "done" | "failed no reply" => return Ok(out),
            state => return Ok(format!("{out}{}\n", state.trim_start_matches("failed "))),
        }
    }
    host.ask(&["job", "stop", id.trim()], false).map(|_| out + "the simulated time is over\n")
}

/// Runs `host --port SPEC ...`.
pub fn host(args: &AloneArgs, words: &[OsString]) -> anyhow::Result<Exit> {
    let host = from_flags(&args.host, words).map_err(Fault::usage)?;
    let sandbox = args.sandbox.with_control(host.control.is_some());
    run(Network { hosts: vec![host], switches: Vec::new() }, &sandbox, args.host.ready_fd)
}

/// Runs until Ctrl-C or until no port is left; then prints the audits.
fn run(network: Network, sandbox: &Sandbox, ready_fd: Option<u32>) -> anyhow::Result<Exit> {
    let mut ready = Ready::new(ready_fd, network.hosts.len() + network.switches.len())?;
    let audits = Audits::beside(&network.hosts);
    dispatch::install_stop_handler().context("cannot catch Ctrl-C")?;
    let outcomes =
        node::run::up_network(network, apps::host::Servers::LIVE, sandbox, |event| print_event(event, &mut ready));
    let outcomes = outcomes.map_err(|error| match error {
        UpError::Build(node::run::BuildError::Config(_)) => Fault::usage(error),
        other => other.into(),
    })?;
    report(&outcomes, audits)
}

/// Destination of audits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Audits {
    /// Standard output.
    Stdout,
    /// Standard error, because a port writes its frames to standard output.
    Stderr,
}

impl Audits {
    /// Returns the destination of the audits of `hosts`.
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
    }
}

/// Prints the audits; fails if one does not balance or a host lost its ports.
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

/// Sets keys or sysctls of a host.
pub fn set_all(host: &mut HostConfig, pairs: &[(String, String)]) -> anyhow::Result<()> {
    pairs.iter().try_for_each(|(key, value)| host.set(key, value)).map_err(Fault::usage)
}

/// Builds the structure that a file would give. Flags of a port apply to the --port before them;
/// clap keeps the values of each flag apart, so their order is read from the command line.
pub fn from_flags(args: &HostArgs, words: &[OsString]) -> Result<HostConfig, String> {
    let mut host = HostConfig::default();
    for (flag, value) in in_order(words.iter().skip(1).map(|word| word.to_string_lossy().into_owned())) {
        match flag.as_str() {
            "--port" => {
                host.ifaces.push(IfaceConfig::default());
                host.set_iface("port", &value)?;
            }
            "--addr" => host.set_iface("addresses", &value)?,
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

/// Creates the directory of control sockets: the one given, or one that only this user can enter.
fn control_dir(given: Option<PathBuf>) -> anyhow::Result<PathBuf> {
    if let Some(dir) = given {
        fs::create_dir_all(&dir).with_context(|| format!("--control-dir {}", dir.display()))?;
        return Ok(dir);
    }
    let dir = own_control_dir();
    if let Err(error) = DirBuilder::new().mode(0o700).create(&dir)
        && error.kind() != std::io::ErrorKind::AlreadyExists
    {
        return Err(error).with_context(|| dir.display().to_string());
    }
    // Another user may have created a directory of that name in /tmp.
    anyhow::ensure!(
        is_ours_alone(&dir),
        "{}: must be owned by the current user and inaccessible to others; set another directory with --control-dir",
        dir.display()
    );
    Ok(dir)
}

/// Returns the default directory of control sockets.
pub fn own_control_dir() -> PathBuf {
    match std::env::var_os("XDG_RUNTIME_DIR").filter(|dir| !dir.is_empty()) {
        Some(dir) => Path::new(&dir).join("linerate"),
        None => PathBuf::from(format!("/tmp/linerate-{}", uid())),
    }
}

/// Returns whether `dir` is a directory that only this user can enter.
pub fn is_ours_alone(dir: &Path) -> bool {
    fs::symlink_metadata(dir).is_ok_and(|meta| meta.is_dir() && meta.uid() == uid() && meta.mode() & 0o077 == 0)
}

fn uid() -> u32 {
    fs::metadata("/proc/self").map(|meta| meta.uid()).unwrap_or_default()
}
