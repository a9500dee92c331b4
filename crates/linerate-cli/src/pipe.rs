//! Pipeline commands, which read frames and write frames. One command runs alone, or several run as
//! one pipeline, called a row here.
//!
//! `linerate A ... + B ... + C ...` is `linerate A ... | linerate B ... | linerate C ...` in one
//! process: frames are read once, pass through the stage of each command, and are written once.

mod args;
mod ends;
mod flow;
mod generate;
mod grep;
mod machines;
mod mount;
mod rewrite;
mod step;
mod stream;

pub use args::PipeArgs;
pub use ends::{both_ways, open};
pub use machines::{NanopingArgs, TapArgs, nanoping};
pub use mount::{MountArgs, run as mount};

use crate::exit::{Exit, Fault, misused, notice};
use anyhow::Context;
use args::{CatArgs, ConvArgs, PutArgs, StreamArgs};
use clap::{Parser, Subcommand};
use ends::{From, To, ended};
use flow::{CountArgs, DelayArgs, MirrorArgs, RateArgs, SplitArgs};
pub use flow::{TopArgs, WatchArgs};
use generate::GenArgs;
use grep::GrepArgs;
use pipe::stage::Chain;
use pipe::{Stage, run};
use rewrite::{CrcArgs, RewriteArgs};
use std::ffi::{OsStr, OsString};
use step::Step;
use stream::{from_stream, open_sink, stream_ended};

/// Separator between two commands of a row.
const JOIN: &str = "+";

/// Commands that can be part of a row, that is, of a pipeline with `+`.
#[derive(Subcommand, Debug)]
pub enum RowCommand {
    /// Write received frames of a port to standard output, as lines of text
    Cat(CatArgs),
    /// Send the frames of standard input through a port
    Put(PutArgs),
    /// Convert frames: text, binary, pcap, pcapng, JSON lines
    Conv(ConvArgs),
    /// Select frames by grep patterns in their lines of text, or by header fields
    Grep(GrepArgs),
    /// Change fields and checksums of frames; translate addresses (NAT)
    Rewrite(RewriteArgs),
    /// Correct the checksums of frames, or check them
    Crc(CrcArgs),
    /// Generate frames with given size, number, addresses and timestamps
    Gen(GenArgs),
    /// Copy each frame to other ports or files, and pass it on unchanged
    Mirror(MirrorArgs),
    /// Send each frame to one of several ports or files, selected by flow or another property
    #[command(visible_alias = "balance")]
    Split(SplitArgs),
    /// Delay each frame, keeping the order
    Delay(DelayArgs),
    /// Limit the rate of frames, in bits or frames per second
    Rate(RateArgs),
    /// Count frames, their bytes and their rates
    Count(CountArgs),
    /// Print the busiest flows, addresses, types or VLANs, or watch running hosts
    Top(TopArgs),
}

/// Returns the role of `command` in a row.
fn step(command: RowCommand) -> anyhow::Result<Step> {
    Ok(match command {
        RowCommand::Cat(args) => Step::First(From::Cat(args)),
        RowCommand::Gen(args) => Step::First(From::Gen(args)),
        RowCommand::Put(args) => {
            let stream = args.stream.clone();
            Step::Last(To::Put(args), stream)
        }
        RowCommand::Conv(args) => Step::Pass(args.stream),
        RowCommand::Grep(args) => grep::step(&args)?,
        RowCommand::Rewrite(args) => rewrite::rewrite(args)?,
        RowCommand::Crc(args) => rewrite::crc(args)?,
        RowCommand::Mirror(args) => made(args.make()),
        RowCommand::Split(args) => made(args.make()),
        RowCommand::Delay(args) => made(args.make()),
        RowCommand::Rate(args) => made(args.make()),
        RowCommand::Count(args) => made(args.make()),
        RowCommand::Top(args) => made(args.make()),
    })
}

fn made((make, stream): (flow::Make, StreamArgs)) -> Step {
    Step::Make(make, stream)
}

/// Runs a single command without `+`; some commands have a faster implementation for this case.
pub fn alone(command: RowCommand) -> anyhow::Result<Exit> {
    match &command {
        RowCommand::Grep(args) => return grep::run(args),
        RowCommand::Top(args) if crate::top::is_meant(args) => return crate::top::run(args),
        RowCommand::Gen(args) if args.fixed => {
            dispatch::install_stop_handler().context("cannot catch Ctrl-C")?;
            return args.run_fixed().map(|()| Exit::Fine);
        }
        RowCommand::Cat(args) => {
            if let Some(exit) = ends::cat_into_pipe(args)? {
                return Ok(exit);
            }
        }
        _ => {}
    }
    row(vec![step(command)?])
}

/// Runs a row of commands if `words`, the program's arguments, contain the separator; otherwise
/// returns `None`.
pub fn in_a_row(words: &[OsString]) -> Option<anyhow::Result<Exit>> {
    let first = words.first()?.to_str()?;
    let joined = words.iter().any(|word| word == JOIN) && is_of_pipes(first);
    joined.then(|| parse_row(words).and_then(row))
}

/// Returns whether `name` is a command that can be part of a row. In the arguments of other
/// commands, `+` is not a separator.
fn is_of_pipes(name: &str) -> bool {
    RowCommand::augment_subcommands(clap::Command::new("row")).find_subcommand(name).is_some()
}

/// One command of a row.
#[derive(Parser, Debug)]
#[command(name = "linerate")]
struct Part {
    #[command(subcommand)]
    command: RowCommand,
}

fn parse_row(words: &[OsString]) -> anyhow::Result<Vec<Step>> {
    let mut steps = Vec::new();
    for words in words.split(|word| word == JOIN) {
        let name = words.first().map_or("".into(), |word| word.to_string_lossy());
        if !is_of_pipes(&name) {
            return Err(Fault::usage(format!(
                "'{name}': not a command for a pipeline with '+'; see 'linerate --help'"
            )));
        }
        let whole = std::iter::once(OsStr::new("linerate")).chain(words.iter().map(OsString::as_os_str));
        let part = Part::try_parse_from(whole).map_err(|error| {
            if !error.use_stderr() {
                error.exit(); // --help
            }
            Fault::usage(misused(&error, &[name.to_string()]))
        })?;
        steps.push(step(part.command)?);
    }
    Ok(steps)
}

/// Runs a row of commands and prints the reports of its stages.
fn row(steps: Vec<Step>) -> anyhow::Result<Exit> {
    dispatch::install_stop_handler().context("cannot catch Ctrl-C")?;
    let (mut from, mut to, mut stages, mut stream) = (None, None, Vec::new(), StreamArgs::default());
    let last = steps.len() - 1;
    for (at, step) in steps.into_iter().enumerate() {
        let given = match step {
            Step::First(first) if at == 0 => {
                let form = first.form().clone();
                from = Some(first);
                StreamArgs { form, ..StreamArgs::default() }
            }
            Step::First(_) => return Err(Fault::usage("'cat' and 'gen' must be the first command of a pipeline")),
            Step::Last(end, given) if at == last => {
                to = Some(end);
                given
            }
            Step::Last(..) => return Err(Fault::usage("'put' must be the last command of a pipeline")),
            Step::Pass(given) => given,
            Step::Stage(stage, given) => {
                stages.push(stage);
                given
            }
            Step::Make(make, given) => {
                stages.push(make()?);
                given
            }
        };
        merge(&mut stream, given, at, last)?;
    }
    let mut stages = Chain(stages);
    // If the row could not start, the stages have nothing to report.
    let ran = between(from, &mut stages, to, &stream)?;
    if let Some(said) = stages.report() {
        said.lines().for_each(notice);
    }
    match ran {
        Ok(Exit::Fine) if stages.failed() => Ok(Exit::Failed),
        ran => ran,
    }
}

/// Merges the flags of a command into those of the row. The files and the input format come from
/// the first command, the output format from the last, and all other flags from any command.
fn merge(all: &mut StreamArgs, given: StreamArgs, at: usize, last: usize) -> anyhow::Result<()> {
    if at > 0 && (!given.files.is_empty() || given.form.input.is_some()) {
        return Err(Fault::usage("input files and -i are only allowed in the first command of a pipeline"));
    }
    if at == 0 {
        (all.files, all.form.input) = (given.files, given.form.input);
    }
    if at == last {
        all.form.output = given.form.output;
    } else if given.form.output.is_some() {
        return Err(Fault::usage("-o is only allowed in the last command of a pipeline"));
    }
    all.form.strict |= given.form.strict;
    all.form.unordered |= given.form.unordered;
    all.form.jobs = all.form.jobs.max(given.form.jobs);
    all.form.tick = all.form.tick.or(given.form.tick);
    Ok(())
}

/// Moves frames from source to sink and reports invalid lines. Returns the outcome, or the error
/// that prevented the start.
fn between(
    from: Option<From>,
    stages: &mut Chain,
    to: Option<To>,
    stream: &StreamArgs,
) -> anyhow::Result<anyhow::Result<Exit>> {
    let stop = dispatch::stop_requested;
    let form = &stream.form;
    Ok(match from {
        Some(from) => {
            let mut source = from.open()?;
            let format = form.output.unwrap_or_else(|| source.format());
            let mut sink = open_sink(stages.passes(), to, format, form.tick())?;
            if stages.timed().next().is_some() {
                return Ok(by_the_clock(source, ends::Sources::tell, stages, sink));
            }
            let ran = run::run(source.as_source(), stages, sink.as_sink(), stop);
            let ran = sink.end().and(ran);
            let undone = source.tell() | sink.tell();
            ended(ran, undone)
        }
        None => {
            let mut input = ends::input(stream)?;
            if stages.timed().next().is_some() {
                let read = input.format().with_context(|| ends::name(stream))?;
                let sink = open_sink(stages.passes(), to, form.output.unwrap_or(read), form.tick())?;
                return Ok(by_the_clock(input, ends::print_warnings, stages, sink));
            }
            let passes = stages.passes();
            let sink = |format| open_sink(passes, to, format, form.tick());
            let (ran, undone) = from_stream(input, stages, stream, sink)?;
            stream_ended(ran, undone, stream)
        }
    })
}

/// Moves frames as [`between`] does, for stages that buffer frames or report at certain times.
/// `tell` reports errors of the source and returns whether frames are missing.
fn by_the_clock<S: run::Source + Send + 'static>(
    source: S,
    tell: fn(&S) -> bool,
    stages: &mut Chain,
    mut sink: ends::Sinks,
) -> anyhow::Result<Exit> {
    let clock = pipe::ports::Counter::new(1).clock();
    let (ran, source) = pipe::timed::run_timed(source, stages, sink.as_sink(), &clock, dispatch::stop_requested);
    let ran = sink.end().and(ran);
    // If the source is still blocked in a read, `source` is `None`, and its errors are not
    // reported.
    let undone = source.as_ref().is_some_and(tell) | sink.tell();
    ended(ran, undone)
}
