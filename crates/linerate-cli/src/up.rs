//! `up`: runs the hosts and switches of a file, live or in virtual time.

mod probe;

use crate::args::UpArgs;
use crate::ask;
use crate::control::{is_ours_alone, own_control_dir};
use crate::exit::{Exit, Fault, misused, notice, print};
use crate::hosts::{Audits, report, run, summary};
use crate::running::Works;
use anyhow::Context;
use clock::Instant;
use node::config::{ConfigFile, Network};
use probe::{EchoReplies, probe};
use sim::programs::WithPrograms;
use sim::shape;
use std::cell::RefCell;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::time::Duration;

/// Runs `up FILE`.
pub fn up(args: UpArgs) -> anyhow::Result<Exit> {
    let file = ConfigFile::load(&args.file, &args.set).map_err(Fault::usage)?;
    let mut network = file.started().clone();
    network.metrics = args.metrics.over(&network.metrics);
    if args.check {
        let text = format!("{}: valid\n{}", args.file.display(), summary(&network));
        return print(&text).map(|()| Exit::Fine);
    }
    if let Some(seconds) = args.sim {
        return simulate(&network, Duration::from_secs(seconds), args.seed, &args.words);
    }
    let Network { hosts, switches, .. } = &mut network;
    let hosts = hosts.iter_mut().map(|host| (&host.name, &mut host.control));
    let controls = hosts.chain(switches.iter_mut().map(|switch| (&switch.name, &mut switch.control)));
    let without: Vec<_> = controls.filter(|(_, control)| control.is_none()).collect();
    if !without.is_empty() {
        let dir = control_dir(args.control_dir)?;
        for (name, control) in without {
            *control = Some(dir.join(format!("{name}.sock")));
        }
    }
    run(network, Some(file), &args.sandbox.with_control(true), args.ready_fd, &args.metrics, args.log.as_ref())
}

/// Runs `up --sim SECONDS FILE`: the same hosts in virtual time. First runs the commands of --do,
/// then lets each host send to each echo service.
fn simulate(network: &Network, span: Duration, seed: u64, words: &[String]) -> anyhow::Result<Exit> {
    let world = shape::from_network(network, seed).map_err(Fault::usage)?;
    world.warnings().iter().for_each(|warning| notice(warning));
    if let Some(address) = &network.metrics.listen {
        notice(&format!("metrics.listen = {address}: no metrics are served in virtual time"));
    }
    let begin = world.now();
    let mut programs = WithPrograms::open(&world, &programs::servers::Servers::SIMULATED).map_err(Fault::usage)?;
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
        self.programs.borrow_mut().run_for(time.max(probe::GRAIN));
    }

    fn is_virtual(&self) -> bool {
        true
    }
}

/// Command line of a client, without the client's name.
#[derive(clap::Parser, Debug)]
#[command(no_binary_name = true, disable_help_flag = true)]
struct Line<A: clap::Args> {
    #[command(flatten)]
    args: A,
}

/// Parses a client's command line and runs the client in the simulated world. The client prints its
/// own output; the result contains the text of an error, if any.
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

/// Runs `HOST WORDS` in the simulated world, for at most `span` if it is a client ([`CLIENTS`]).
/// Returns the output, unless the command has already printed it.
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

/// Clients that can run on a host of a simulated world.
const CLIENTS: &[&str] = &["ping", "traceroute", "nc", "nslookup", "http", "iperf3"];

/// Runs `ping` or `traceroute` as a job and returns the job's lines.
fn client_of_lines(host: &Simulated<'_, '_>, words: &[&str]) -> anyhow::Result<String> {
    let id = host.ask(&[&["job"], words].concat(), false)?;
    let mut out = String::new();
    while host.world.now() < host.end {
        let text = host.ask(&["job", "read", id.trim()], false)?;
        let (state, more) = text.split_once('\n').unwrap_or((&text, ""));
        out += more;
        match state {
            "running" => host.pause(probe::GRAIN),
            "done" | "failed no reply" => return Ok(out),
            state => return Ok(format!("{out}{}\n", state.trim_start_matches("failed "))),
        }
    }
    host.ask(&["job", "stop", id.trim()], false).map(|_| out + "the simulated time is over\n")
}

/// Creates the directory of control sockets: `given`, or by default one that only this user can
/// enter.
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
