//! `linerate`: one binary with many commands. [`args`] declares the commands and the flags that
//! several commands share; each command is implemented in its own module.
#![forbid(unsafe_code)]

mod ab;
mod args;
mod ask;
mod bridge;
mod control;
mod ctl;
mod docs;
mod exit;
mod extcap;
mod files;
mod hosts;
mod iperf3;
mod kv;
mod livelock;
mod load;
mod local_time;
mod log;
mod metrics_server;
mod netperf;
mod netrate;
mod pipe;
mod pkt;
mod place;
mod ports;
mod profile;
mod program;
mod ready;
mod results;
mod rfc2544;
mod run;
mod running;
mod sandbox;
mod serve;
mod surroundings;
mod tcpdump;
mod top;
mod up;
mod why;

use args::{Cli, Command};
use clap::Parser;
use exit::{Exit, Fault};
use std::ffi::OsString;
use std::process::ExitCode;

fn main() -> ExitCode {
    lab::child_main_if_requested();
    // ministat parses its own arguments, except --help, so they do not pass through clap.
    let mut words: Vec<OsString> = std::env::args_os().skip(1).collect();
    if let Some((first, rest)) = words.split_first()
        && first == "ministat"
        && rest.first().is_none_or(|word| word != "--help")
    {
        let status = lab::ministat::main(rest, &mut std::io::stdout(), &mut std::io::stderr());
        return ExitCode::from(status);
    }
    if extcap::is_called(&words) {
        words.insert(0, "extcap".into());
    }
    put_flags_behind_command(&mut words);
    if let Some(ran) = pipe::in_a_row(&words) {
        return match ran {
            Ok(exit) => exit.code(),
            Err(error) => exit::report(&error).code(),
        };
    }
    let whole = std::iter::once(OsString::from("linerate")).chain(words.iter().cloned());
    let cli = match Cli::try_parse_from(whole) {
        Ok(cli) => cli,
        Err(error) => {
            let words: Vec<_> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
            return exit::misuse(&error, &words).code();
        }
    };
    match run_command(cli.command, &words) {
        Ok(exit) => exit.code(),
        Err(error) => exit::report(&error).code(),
    }
}

/// Moves '--url URL' and '-j' after the command if they precede it, as flags may in iproute2.
fn put_flags_behind_command(words: &mut [OsString]) {
    let mut flags = 0;
    while let Some(word) = words.get(flags).and_then(|word| word.to_str()) {
        flags += match word {
            "--url" => 2,
            "-j" | "--json" => 1,
            _ if word.starts_with("--url=") => 1,
            _ => break,
        };
    }
    if let Some(moved) = words.get_mut(..=flags) {
        moved.rotate_right(1);
    }
}

/// Runs a command. `words` are its command line, starting with its name.
fn run_command(command: Command, words: &[OsString]) -> anyhow::Result<Exit> {
    match command {
        Command::Up(args) => up::up(args),
        Command::Bridge(args) => bridge::run(&args),
        Command::Host(args) => hosts::host(&args, words),
        Command::Run(args) => program::run(&args, words),
        Command::Ftpd(args) => serve::ftpd(&args, words),
        Command::Httpd(args) => serve::httpd(&args, words),
        Command::Iperf3(args) => iperf3::run(&args, words),
        Command::Serve(args) => serve::small(&args, words),
        Command::Filed(args) => files::serve(&args, words),
        Command::Kvd(args) => kv::serve(&args, words),
        Command::Ctl(args) => ctl::ctl(args),
        Command::Short(command) => ctl::short(command),
        Command::Tcpdump(args) => tcpdump::run(&args),
        Command::Why(args) => why::run(&args),
        Command::Ping(args) => ask::lines("ping", &args),
        Command::Traceroute(args) => ask::lines("traceroute", &args),
        Command::Nc(args) => ask::nc(&args),
        Command::Nslookup(args) => ask::nslookup(&args),
        Command::Http(args) => ask::http(&args),
        Command::Testtool(args) => run::testtool(args),
        Command::Lab(args) => run::lab(args),
        Command::Ladder(args) => run::ladder(args),
        Command::Repro(args) => run::repro(args),
        Command::Bench(args) => run::bench(args),
        Command::Report(args) => results::report(&args),
        Command::Gate(args) => results::gate(&args),
        Command::Rfc2544(args) => rfc2544::run(&args),
        Command::Ab(args) => ab::run(&args),
        Command::Netperf(args) => netperf::run(&args, words),
        Command::Netserver(args) => netperf::serve(&args, words),
        Command::Netrate(args) => netrate::run(&args, words),
        Command::Kvload(args) => kv::load(&args, words),
        Command::Fileload(args) => files::load(&args, words),
        Command::Livelock(args) => livelock::run(&args),
        Command::Profile(args) => profile::run(args, parse_inner),
        Command::InARow(command) => pipe::alone(command),
        Command::Pipe(args) => pipe::both_ways(&args),
        Command::Tap(args) => pipe::both_ways(&args.pipe()?),
        Command::Nanoping(args) => pipe::nanoping(&args),
        Command::Mount(args) => pipe::mount(&args),
        Command::Ministat { .. } => Ok(Exit::Fine), // handled in `main`
        Command::Pkt(args) => pkt::play(&args),
        Command::Ports(args) => ports::list(&args),
        Command::Keys => docs::keys(),
        Command::Extcap(args) => extcap::run(&args),
        Command::Completions { shell } => docs::completions(shell),
        Command::Man { dir } => docs::man(&dir),
    }
}

/// Parses the command of `profile`.
fn parse_inner(words: &[OsString]) -> anyhow::Result<profile::Parsed> {
    let program = std::iter::once(OsString::from("linerate"));
    let cli = Cli::try_parse_from(program.chain(words.iter().cloned())).map_err(|why| {
        if !why.use_stderr() {
            why.exit(); // --help
        }
        let name = words.first().map_or(String::new(), |word| word.to_string_lossy().into_owned());
        Fault::usage(exit::misused(&why, &[name]))
    })?;
    let words = words.to_vec();
    match cli.command {
        Command::Profile(_) => Err(Fault::usage("profile: cannot profile another 'linerate profile'")),
        command => Ok(Box::new(move || run_command(command, &words))),
    }
}
