//! `report` and `gate`: show stored results as a page, and compare them.

use crate::args::BenchGroup;
use crate::exit::{Exit, Fault, notice, print};
use crate::place;
use crate::run::{self, bar};
use anyhow::{Context, bail};
use clap::{Args, ValueHint};
use lab::gate::{self, Gate};
use lab::page::{FILE_MAX, Page};
use lab::result::Report;
use std::path::{Path, PathBuf};

/// Arguments of `report`.
#[derive(Args, Debug)]
#[command(after_help = "\
Reads .json (of --json), .svg (of --svg) and .txt files from the directory, in the order of their names. The page is \
self-contained. Differences between results in machine, kernel, build or revision are reported, also on the page. \
Exit codes: 0 all files are shown; 1 a file was skipped, or a result of another version is shown as text only; 2 no \
results, or invalid usage.

Example:
  linerate bench udp --json > results/udp.json; linerate report results")]
pub struct ReportArgs {
    /// Read results from this directory
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub dir: PathBuf,
    /// Write the page to this file; -: standard output [default: index.html in DIR]
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Set the title [default: the directory's name]
    #[arg(long, value_name = "TEXT")]
    pub title: Option<String>,
}

/// Arguments of `gate`.
#[derive(Args, Debug)]
#[command(after_help = "\
Without NOW, the baseline's bench runs now, and a second time if a row is slower or unclear: a slowdown in the code \
appears in both runs. Notes list differences from the baseline in kernel, build and revision. Exit codes: 0 no \
slowdown; 1 a row is slower than the tolerance in two runs; 2 a row has no verdict, or invalid usage; 3 the machine is \
another one, busy, or too noisy for a verdict.

Example:
  linerate bench bridge --json > before.json
  linerate gate --baseline before.json")]
pub struct GateArgs {
    /// Use this JSON result of an earlier run as baseline
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub baseline: PathBuf,
    /// Compare these JSON results of later runs
    #[arg(value_name = "NOW", value_hint = ValueHint::FilePath)]
    pub now: Vec<PathBuf>,
    /// Set the tolerated slowdown in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 5.0)]
    pub tolerance: f64,
    /// Run N rounds, if the bench runs now
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: Option<u32>,
    /// Run few rounds, if the bench runs now
    #[arg(long)]
    pub quick: bool,
    /// Print one JSON object instead of the table
    #[arg(short, long)]
    pub json: bool,
}

pub fn report(args: &ReportArgs) -> anyhow::Result<Exit> {
    let at = || args.dir.display().to_string();
    let entries = std::fs::read_dir(&args.dir).with_context(at)?;
    let mut files: Vec<PathBuf> =
        entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>().with_context(at)?;
    files.retain(|file| file.extension().is_some_and(|kind| ["json", "svg", "txt"].iter().any(|known| kind == *known)));
    files.sort();
    let (mut page, mut bad) = (Page::default(), 0);
    for file in &files {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        match read(file) {
            Ok(content) => {
                if let Err(why) = page.add(&name, &content) {
                    notice(&format!("{name}: shown as text: {why}"));
                    bad += 1;
                }
            }
            Err(why) => {
                notice(&format!("{name}: skipped: {why:#}"));
                bad += 1;
            }
        }
    }
    page.differences().iter().for_each(|difference| notice(difference));
    if page.is_empty() {
        return Err(Fault::usage(format!("{}: no results found (.json, .svg, .txt)", at())));
    }
    let name = args.dir.canonicalize().ok().and_then(|dir| Some(dir.file_name()?.to_string_lossy().into_owned()));
    let title = args.title.clone().or(name).unwrap_or_else(|| "results".to_owned());
    let html = page.html(&title);
    let output = args.output.clone().unwrap_or_else(|| args.dir.join("index.html"));
    if output == Path::new("-") {
        print(&html)?;
        return Ok(done(bad));
    }
    std::fs::write(&output, html).with_context(|| format!("-o {}", output.display()))?;
    notice(&format!("{}: {} results", output.display(), page.len()));
    Ok(done(bad))
}

/// Returns the exit code of a page with `bad` files missing or shown as text only.
fn done(bad: usize) -> Exit {
    if bad > 0 { Exit::Failed } else { Exit::Fine }
}

/// Reads a file and checks that it is complete, as far as its format shows.
fn read(file: &Path) -> anyhow::Result<String> {
    let content = port::os::read_text(file, FILE_MAX)?;
    let has = |kind: &str| file.extension().is_some_and(|of| of == kind);
    if content.trim().is_empty() {
        bail!("the file is empty: measure again");
    }
    if has("json") {
        serde_json::from_str::<serde_json::Value>(&content).map_err(|why| anyhow::anyhow!(reason(&why)))?;
    }
    if has("svg") && !content.trim_end().ends_with('>') {
        bail!("the file is truncated: it does not end with a tag: measure again");
    }
    Ok(content)
}

/// Describes why a text is not JSON, with the position. If the file is truncated, advises to
/// measure again.
fn reason(why: &serde_json::Error) -> String {
    if why.is_eof() { format!("the file is truncated: {why}: measure again") } else { why.to_string() }
}

pub fn gate(args: &GateArgs) -> anyhow::Result<Exit> {
    if !(args.tolerance > 0.0 && args.tolerance <= 1000.0) {
        return Err(Fault::usage(format!("--tolerance {}: expected a percentage above 0, up to 1000", args.tolerance)));
    }
    let baseline = result(&args.baseline)?;
    let found = if args.now.is_empty() {
        live(args, &baseline)?
    } else {
        let runs = args.now.iter().map(|file| run_of(file, &baseline)).collect::<anyhow::Result<Vec<_>>>()?;
        gate::judge(&baseline, &runs, args.tolerance)
    };
    print(&if args.json { found.to_json()? } else { found.text() })?;
    Ok(Exit::Judged(found.outcome))
}

/// Converts an error to a usage error, since the exit code of a missing run must differ from that
/// of a slow run.
fn unknown(why: &anyhow::Error) -> anyhow::Error {
    Fault::usage(format!("{why:#}"))
}

fn result(file: &Path) -> anyhow::Result<Report> {
    let content = read(file).with_context(|| file.display().to_string()).map_err(|why| unknown(&why))?;
    Report::from_json(&content)
        .map_err(|why| Fault::usage(format!("{}: not the JSON result of a run: {}", file.display(), reason(&why))))
}

/// Reads a run and checks that it measures the same as the baseline.
fn run_of(file: &Path, baseline: &Report) -> anyhow::Result<Report> {
    let run = result(file)?;
    if run.name != baseline.name {
        let (at, name, before) = (file.display(), run.name, &baseline.name);
        return Err(Fault::usage(format!(
            "{at}: run of '{name}', but the baseline is of '{before}': give a run of '{before}'"
        )));
    }
    Ok(run)
}

/// Runs the baseline's bench, and a second time if a row is slower or unclear.
fn live(args: &GateArgs, baseline: &Report) -> anyhow::Result<Gate> {
    let group = baseline
        .name
        .strip_prefix("bench ")
        .and_then(|name| <BenchGroup as clap::ValueEnum>::from_str(name, false).ok());
    let Some(group) = group else {
        return Err(Fault::usage(format!(
            "the baseline is of '{}', which gate cannot run: give the JSON result of a run",
            baseline.name
        )));
    };
    if group == BenchGroup::Services && !place::is_inside() {
        let why = "the baseline is of 'bench services', which needs a network namespace: give the JSON result of a run";
        return Err(Fault::usage(why));
    }
    let options = lab::study::Options { quick: args.quick, rounds: args.rounds, ..lab::study::Options::default() };
    let mut runs = Vec::new();
    loop {
        let bar = bar();
        let run = run::study(group)(&options, &mut |progress| run::show_progress(&bar, progress));
        bar.finish_and_clear();
        runs.push(run.map_err(|why| unknown(&why))?);
        let found = gate::judge(baseline, &runs, args.tolerance);
        if runs.len() > 1 || !found.wants_another_run() {
            return Ok(found);
        }
        notice("a row is slower or unclear: running again");
    }
}
