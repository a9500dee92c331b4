//! `grep`: a stage of a pipeline or, alone, a search in lines of text without decoding them.

use super::args::{FormArgs, StreamArgs};
use super::ends;
use super::step::Step;
use super::stream::run_stream;
use crate::exit::{Exit, Fault, notice};
use anyhow::Context;
use clap::{Args, ValueHint};
use pipe::grep::{Found, Grep, Judge, Lines, Matcher, Selection, Shown, Syntax, Terms, Wanted};
use pipe::input::Cut;
use pipe::run::RunError;
use pipe::spread::{Turns, lock, spread};
use pipe::stage::Chain;
use pipe::{Format, Input, os};
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use wire::filter::Filter;

/// Arguments of `grep`.
#[derive(Args, Debug, Clone)]
#[command(after_help = "\
Patterns are those of grep: basic (\\| \\( \\{), extended with -E, fixed strings with -F. A pattern that begins with \
FIELD= is a list of fields with values, all of which must match. Fields: dst src mac type vlan ip.src ip.dst ip proto \
ttl sport dport port len. In a MAC address, * matches any byte, or all remaining bytes. With alternatives, -o prints \
the first that matches, not the longest. Exit codes as in grep: 0 a frame was selected; 1 none; 2 an error.

Examples:
  linerate cat tap:tap0 | linerate grep '001122334455\\|FFFFFFFFFFFF'
  linerate grep 'dst=00:11:* type=ip dport=443' trace.pcap > some.pcap
  linerate grep -f 'tcp port 443 and net 10.0.0.0/8' trace.pcap > some.pcap
  linerate grep -j 2 -c -F --file addresses.txt frames.txt")]
pub struct GrepArgs {
    /// Print the frames of each FILE that match PATTERN (no PATTERN if -e, -f or --file is given);
    /// '-' is standard input
    #[arg(value_name = "PATTERN FILE", value_hint = ValueHint::FilePath)]
    pub words: Vec<String>,
    /// Use this pattern for matching; if repeated, any pattern may match
    #[arg(short = 'e', long = "regexp", value_name = "PATTERN")]
    pub patterns: Vec<String>,
    /// Use this tcpdump filter expression instead of a pattern: 'tcp port 443'
    #[arg(short = 'f', long, value_name = "EXPR", conflicts_with_all = ["patterns", "file"])]
    pub filter: Option<String>,
    /// Read patterns from this file, one per line
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: Option<PathBuf>,
    /// Interpret patterns as extended regular expressions
    #[arg(short = 'E', long, conflicts_with = "fixed")]
    pub extended: bool,
    /// Interpret patterns as fixed strings
    #[arg(short = 'F', long)]
    pub fixed: bool,
    /// Interpret patterns as basic regular expressions (the default)
    #[arg(short = 'G', long, hide = true, conflicts_with_all = ["extended", "fixed"])]
    pub basic: bool,
    /// Ignore case distinctions
    #[arg(short = 'i', long)]
    pub ignore_case: bool,
    /// Select frames that do not match
    #[arg(short = 'v', long)]
    pub invert_match: bool,
    /// Print only a count of selected frames
    #[arg(short = 'c', long)]
    pub count: bool,
    /// Print only the matching parts, each on a line
    #[arg(short = 'o', long)]
    pub only_matching: bool,
    /// Print the line number in front of each line
    #[arg(short = 'n', long)]
    pub line_number: bool,
    /// Stop after N selected frames
    #[arg(short = 'm', long, value_name = "N")]
    pub max_count: Option<u64>,
    /// Print nothing; set only the exit code
    #[arg(short = 'q', long)]
    pub quiet: bool,
    /// Match only whole words
    #[arg(short = 'w', long)]
    pub word_regexp: bool,
    /// Match only whole lines
    #[arg(short = 'x', long)]
    pub line_regexp: bool,
    /// Match digits anywhere in the frame, regardless of the blanks between fields and bytes
    #[arg(long)]
    pub any_field: bool,
    /// Set the input format: text, bin1, bin2, pcap, pcapng, jsonl [default: detected from the
    /// first bytes]
    #[arg(long = "in", value_name = "FORM")]
    pub input: Option<Format>,
    /// Set the output format: as --in, or text lines without (f1) or with timestamps (f2) [default:
    /// the input's]
    #[arg(long = "out", value_name = "FORM")]
    pub output: Option<Format>,
    /// Use N threads
    #[arg(short = 'j', long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub jobs: Option<u16>,
    /// With -j, write frames in any order
    #[arg(long)]
    pub unordered: bool,
}

/// Maximum size of a file of patterns, in bytes.
const PATTERNS_MAX: u64 = 64 << 20;

impl GrepArgs {
    /// Returns the patterns and the files to search.
    fn wanted(&self) -> anyhow::Result<(Wanted, Vec<PathBuf>)> {
        let mut patterns = self.patterns.clone();
        let mut files: Vec<PathBuf> = self.words.iter().map(PathBuf::from).collect();
        if let Some(path) = &self.file {
            let text = port::os::read_text(path, PATTERNS_MAX).with_context(|| path.display().to_string());
            let text = text.map_err(in_two)?;
            patterns.extend(text.lines().map(str::to_owned));
        } else if patterns.is_empty() && self.filter.is_none() {
            let Some(first) = self.words.first() else {
                return Err(Fault::usage("no pattern; see 'linerate grep --help'"));
            };
            patterns.push(first.clone());
            files.remove(0);
        }
        let syntax = match (self.extended, self.fixed) {
            (true, _) => Syntax::Extended,
            (_, true) => Syntax::Fixed,
            _ => Syntax::Basic,
        };
        let wanted = Wanted {
            patterns,
            syntax,
            ignore_case: self.ignore_case,
            words: self.word_regexp,
            whole_lines: self.line_regexp,
            any_field: self.any_field,
        };
        Ok((wanted, files))
    }

    fn stream(&self, files: Vec<PathBuf>) -> StreamArgs {
        let form = FormArgs {
            input: self.input,
            output: self.output,
            jobs: self.jobs,
            unordered: self.unordered,
            ..FormArgs::default()
        };
        StreamArgs { files, form }
    }

    fn shown(&self) -> Shown {
        Shown {
            invert: self.invert_match,
            count_only: self.count || self.quiet,
            only_matching: self.only_matching,
            numbers: self.line_number,
        }
    }

    fn most(&self) -> u64 {
        if self.quiet { 1 } else { self.max_count.unwrap_or(u64::MAX) }
    }
}

/// Compiles the filter expression, the terms or the patterns.
fn judge(args: &GrepArgs, wanted: &Wanted) -> anyhow::Result<Judge> {
    if let Some(expression) = &args.filter {
        return Ok(Judge::Filter(Arc::new(Filter::compile(expression).map_err(caret)?)));
    }
    if wanted.patterns.iter().all(|pattern| Terms::is_like(pattern)) && !wanted.patterns.is_empty() {
        let terms: Result<Vec<Terms>, _> = wanted.patterns.iter().map(|text| Terms::parse(text)).collect();
        return Ok(Judge::Fields(Arc::new(terms.map_err(caret)?)));
    }
    Ok(Judge::Line(Arc::new(Matcher::new(wanted).map_err(caret)?)))
}

/// Returns the first line of an error as a usage error; prints the other lines, which show the
/// pattern with a caret, to standard error.
fn caret(error: impl std::fmt::Display) -> anyhow::Error {
    let said = error.to_string();
    let mut lines = said.lines();
    let first = lines.next().unwrap_or_default().to_owned();
    for line in lines {
        let _ = writeln!(std::io::stderr(), "{line}");
    }
    Fault::usage(first)
}

/// Converts any error to a usage error, since grep's exit code for errors is 2.
fn in_two(error: anyhow::Error) -> anyhow::Error {
    Fault::usage(format!("{error:#}"))
}

/// Creates the stage of `grep` in a pipeline with `+`.
pub fn step(args: &GrepArgs) -> anyhow::Result<Step> {
    if args.count || args.only_matching || args.line_number || args.quiet {
        return Err(Fault::usage("grep: -c, -o, -n and -q are not supported in a pipeline with '+'"));
    }
    let (wanted, files) = args.wanted()?;
    let stage = Grep::new(judge(args, &wanted)?, args.invert_match, args.max_count);
    Ok(Step::Stage(Box::new(stage), args.stream(files)))
}

/// Runs `grep` alone.
pub fn run(args: &GrepArgs) -> anyhow::Result<Exit> {
    let (wanted, files) = args.wanted()?;
    let judge = judge(args, &wanted)?;
    let stream = args.stream(files);
    let mut input = ends::input(&stream).map_err(in_two)?;
    let format = input.format().with_context(|| ends::name(&stream)).map_err(in_two)?;
    let (selected, ran) = match (&judge, args.output) {
        (Judge::Line(matcher), None | Some(Format::Text)) if format.is_text() => {
            let selected = lines(args, matcher, &mut input, &stream.files)?;
            if input.tally().bad > 0 {
                notice(&format!("{} lines skipped: longer than the largest frame", input.tally().bad));
            }
            (selected, Ok(()))
        }
        _ => frames(args, judge, input, &stream)?,
    };
    // The count is printed before an error too; it covers the frames that were read.
    if args.count && !args.quiet {
        crate::exit::print(&format!("{selected}\n")).map_err(in_two)?;
    }
    ran?;
    Ok(if selected > 0 { Exit::Fine } else { Exit::Failed })
}

/// Searches frames of any format. Returns the number of frames selected, and the error if one ended
/// the search early.
fn frames(
    args: &GrepArgs,
    judge: Judge,
    input: Input,
    stream: &StreamArgs,
) -> anyhow::Result<(u64, anyhow::Result<()>)> {
    if args.only_matching || args.line_number {
        return Err(Fault::usage("grep: -o and -n require a line pattern and text as input and output"));
    }
    let quiet = args.quiet || args.count;
    let most = (args.most() < u64::MAX).then(|| args.most());
    let stage = Grep::new(judge, args.invert_match, most);
    let selected = stage.selected();
    let mut stages = Chain(vec![Box::new(stage)]);
    let ran = match run_stream(input, &mut stages, stream, quiet) {
        Ok(Exit::Fine) => Ok(()),
        Ok(_) => Err(Fault::usage("grep: some packets were not valid frames and were not searched")),
        Err(error) => Err(in_two(error)),
    };
    Ok((selected.load(Relaxed), ran))
}

/// Searches lines of text; returns the number of lines selected.
fn lines(args: &GrepArgs, matcher: &Matcher, input: &mut Input, files: &[PathBuf]) -> anyhow::Result<u64> {
    let mut out = os::stdout().context("standard output").map_err(in_two)?;
    os::widen_pipe(std::os::fd::AsFd::as_fd(&out));
    let jobs = args.jobs.map_or(1, usize::from);
    // If there is a single file, the threads read pieces of it in parallel. Any other input is read
    // by one thread at a time.
    let cut = match files {
        [file] if file.as_os_str() != "-" => Cut::of(file).map_err(|why| in_two(why.into()))?,
        _ => None,
    };
    let ran = if args.most() == u64::MAX && jobs > 1 {
        beside_each_other(args, matcher, input, cut.as_ref(), &mut out, jobs)
    } else {
        one_by_one(args, matcher, input, &mut out)
    };
    match ran {
        Ok(selected) => Ok(selected),
        // The reader closed the pipe, so at least one line was selected and written.
        Err(error) if error.is_closed_pipe() => Ok(1),
        Err(error) => Err(in_two(error.into())),
    }
}

fn one_by_one(args: &GrepArgs, matcher: &Matcher, input: &mut Input, to: &mut impl Write) -> Result<u64, RunError> {
    let lines = Lines::new(matcher, args.shown());
    let (mut all, mut out, most) = (Found::default(), Selection::default(), args.most());
    while all.selected < most
        && let Some(block) = input.lend_lines()?
    {
        let found = lines.search(block, all.lines, most - all.selected, &mut out);
        all.lines += found.lines;
        all.selected += found.selected;
        out.write(block, to)?;
    }
    Ok(all.selected)
}

/// A block of lines and the result of its search. The buffers of both are reused.
type Searched = (Vec<u8>, Selection);

fn beside_each_other(
    args: &GrepArgs,
    matcher: &Matcher,
    input: &mut Input,
    cut: Option<&Cut>,
    to: &mut (impl Write + Send),
    jobs: usize,
) -> Result<u64, RunError> {
    let lines = Lines::new(matcher, args.shown());
    let (turns, before, selected, left_out) =
        (Turns::default(), AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let spare = Mutex::new(Vec::<Searched>::new());
    let recycled = || lock(&spare).pop().unwrap_or_default();
    let mut next = 0;
    let source = || -> Result<Option<Searched>, RunError> {
        let mut piece = recycled();
        let more = match cut {
            Some(cut) => cut.pieces() > next,
            None => input.read_lines(&mut piece.0)?,
        };
        next += 1;
        Ok(more.then_some(piece))
    };
    let worker = || {
        |number: u64, (mut block, mut out): Searched| -> Result<Searched, RunError> {
            if let Some(cut) = cut {
                left_out.fetch_add(cut.read(number, &mut block)?, Relaxed);
            }
            // Line numbers depend on the number of lines in all earlier pieces.
            let first = match args.line_number {
                false => 0,
                true => {
                    let here = pipe::grep::count_lines(&block);
                    turns.in_turn(number, || before.fetch_add(here, Relaxed))
                }
            };
            let found = lines.search(&block, first, u64::MAX, &mut out);
            selected.fetch_add(found.selected, Relaxed);
            Ok((block, out))
        }
    };
    let sink = |(block, out): Searched| -> Result<(), RunError> {
        out.write(&block, to)?;
        lock(&spare).push((block, out));
        Ok(())
    };
    spread(jobs, !args.unordered, source, worker, sink)?;
    input.tally_mut().bad += left_out.into_inner();
    Ok(selected.into_inner())
}
