//! `profile`: runs another command of this program in this process, and reports where it spent
//! processor time.
//!
//! The command's own output comes first, unchanged; with machine-readable output (`--json`,
//! `--folded`) it goes to standard error. The exit code is the command's. A failed command is
//! profiled too.

use crate::args::ProfileArgs;
use crate::exit::{Exit, Fault, notice, print};
use crate::run::Output;
use anyhow::Context;
use lab::env::Environment;
use lab::measuring::Measuring;
use lab::profile::{self, Profile, folded, report::Report};
use std::ffi::OsString;

/// Maximum size of an earlier profile, in bytes.
const FOLDED_MAX: u64 = 64 << 20;

/// A parsed command, ready to run.
pub type Parsed = Box<dyn FnOnce() -> anyhow::Result<Exit>>;

/// Runs `profile [OPTIONS] -- COMMAND`; `parse` parses the command.
pub fn run(args: ProfileArgs, parse: fn(&[OsString]) -> anyhow::Result<Parsed>) -> anyhow::Result<Exit> {
    let inner = inner(&args.command, parse)?;
    if args.svg.is_some() || (args.folded && args.diff.is_some()) {
        folded::require_flamegraphs()?;
    }
    // The earlier profile is read before the command runs, so that a wrong file name is reported at
    // once.
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
        Inner::Other(command) => command(),
    };
    let profile = running.stop()?;
    drop(aside);
    show(&args, &profile, env, before.as_deref(), svg)?;
    done
}

/// Parsed command to profile.
enum Inner {
    Ministat(Vec<OsString>),
    Other(Parsed),
}

fn inner(words: &[OsString], parse: fn(&[OsString]) -> anyhow::Result<Parsed>) -> anyhow::Result<Inner> {
    if words.first().is_some_and(|word| word == "ministat") {
        return Ok(Inner::Ministat(words.iter().skip(1).cloned().collect()));
    }
    parse(words).map(Inner::Other)
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
    // The differences of stacks are computed only for folded output and flamegraphs: the report
    // compares functions.
    let needed = before.filter(|_| args.folded || svg.is_some());
    let compared = needed.map(|before| folded::difference(before, &stacks)).transpose()?;
    if args.folded {
        print(compared.as_deref().unwrap_or(&stacks))?;
        // Standard output contains only folded stacks, for flamegraph programs.
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
