//! `profile`: runs another command of this program in this process, and reports where it spent
//! processor time.
//!
//! The command's own output comes first, unchanged; with machine-readable output (`--json`,
//! `--folded`) it goes to standard error. The exit code is the command's. A failed command is
//! profiled too.

use crate::args::{Cli, Command, ProfileArgs};
use crate::exit::{Exit, Fault, misused, notice, print};
use crate::run::Output;
use anyhow::Context;
use clap::Parser;
use lab::env::Environment;
use lab::measuring::Measuring;
use lab::profile::{self, Profile, folded, report::Report};
use std::ffi::OsString;

/// Maximum size of an earlier profile, in bytes.
const FOLDED_MAX: u64 = 64 << 20;

/// Runs `profile [OPTIONS] -- COMMAND`.
pub fn run(args: ProfileArgs) -> anyhow::Result<Exit> {
    let inner = parse(&args.command)?;
    // Read before the command runs, so that a wrong name is reported early.
    let read = |file: &std::path::PathBuf| {
        let text = port::os::read_text(file, FOLDED_MAX).with_context(|| format!("--diff {}", file.display()));
        text.and_then(|text| {
            folded::functions(&text).map(|_| text).with_context(|| format!("--diff {}", file.display()))
        })
    };
    let before = args.diff.as_ref().map(read).transpose().map_err(|why| Fault::usage(format!("{why:#}")))?;
    let options = profile::Options { rate_hz: args.rate, ..profile::Options::default() };
    if args.ledger {
        node::ledgers::keep();
    }
    let aside = (args.json || args.folded).then(lab::os::stdout_aside).transpose().context("standard output")?;
    let svg = Output::open("--svg", args.svg.as_ref())?;
    let (_measuring, env) = Measuring::begin();
    let running = profile::start(options)?;
    let done = match inner {
        Inner::Ministat(words) => {
            let status = lab::ministat::main(&words, &mut std::io::stdout(), &mut std::io::stderr());
            Ok(if status == 0 { Exit::Fine } else { Exit::Failed })
        }
        Inner::Clap(command) => crate::run_command(*command, &args.command),
    };
    let profile = running.stop()?;
    drop(aside);
    show(&args, &profile, env, before.as_deref(), svg)?;
    done
}

/// Parsed command to profile.
enum Inner {
    Ministat(Vec<OsString>),
    Clap(Box<Command>),
}

fn parse(words: &[OsString]) -> anyhow::Result<Inner> {
    if words.first().is_some_and(|word| word == "ministat") {
        return Ok(Inner::Ministat(words.iter().skip(1).cloned().collect()));
    }
    let program = std::iter::once(OsString::from("linerate"));
    let cli = Cli::try_parse_from(program.chain(words.iter().cloned())).map_err(|why| {
        if !why.use_stderr() {
            why.exit(); // --help
        }
        let name = words.first().map_or(String::new(), |word| word.to_string_lossy().into_owned());
        Fault::usage(misused(&why, &[name]))
    })?;
    match cli.command {
        Command::Profile(_) => Err(Fault::usage("profile: a profile cannot profile another profile")),
        command => Ok(Inner::Clap(Box::new(command))),
    }
}

fn show(
    args: &ProfileArgs,
    profile: &Profile,
    env: Environment,
    before: Option<&str>,
    svg: Option<Output>,
) -> anyhow::Result<()> {
    let words: Vec<_> = args.command.iter().map(|word| word.to_string_lossy()).collect();
    let command = words.join(" ");
    let stacks = folded::fold(profile);
    let compared = before.map(|before| folded::difference(before, &stacks)).transpose()?;
    if args.folded {
        print(compared.as_deref().unwrap_or(&stacks))?;
        // Standard output is read by flamegraph programs.
        env.warnings().iter().for_each(|warning| notice(warning));
    } else {
        let mut report = Report::of(profile, &command, env);
        if args.ledger {
            report.add_ledger(node::ledgers::take());
        }
        if let Some(before) = before {
            report.add_diff(before, &stacks)?;
        }
        print(&if args.json { report.json()? + "\n" } else { format!("\n{}", report.text()) })?;
    }
    if let Some(output) = svg {
        let title = if before.is_some() { format!("{command}, compared with before") } else { command.clone() };
        let svg = folded::svg(compared.as_deref().unwrap_or(&stacks), &title)?;
        output.write(|out| out.write_all(svg.as_bytes()))?;
    }
    Ok(())
}
