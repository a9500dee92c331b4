//! Measuring commands: convert flags to options, and reports to a table, JSON or a chart.

use crate::args::{
    BenchArgs, BenchGroup, DmaName, LabArgs, LabCommand, LadderArgs, LadderName, ReportName, ReproArgs, StudyArgs,
    TesttoolArgs, ToolMode,
};
use crate::exit::{Exit, Fault, notice, print};
use crate::place;
use crate::surroundings::{self, Form};
use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use lab::result::Report;
use lab::study::{Options, Progress};
use node::config::HostConfig;
use node::remote::Families;
use port::pktgen::Family;
use programs::testtool;
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Study function of `lab`.
pub type Study = fn(&Options, &mut dyn FnMut(Progress)) -> anyhow::Result<Report>;

pub fn testtool(args: TesttoolArgs) -> anyhow::Result<Exit> {
    if args.native && args.mode != ToolMode::Send {
        return Err(Fault::usage("testtool --native: only mode send is supported; the kernel has no generator"));
    }
    if args.native && (args.pool.is_some() || args.clock.is_some() || args.context.is_some() || args.checksum.is_some())
    {
        let why = "testtool --native: --pool, --clock, --context and --checksum do not apply to the kernel";
        return Err(Fault::usage(why));
    }
    let mut sysctls = HostConfig::default();
    for (key, value) in &args.set {
        let item = node::config::keys::Item::Word(value.clone());
        sysctls.set_sysctl(key, &item).map_err(Fault::usage)?;
    }
    let options = testtool::Options {
        mode: match args.mode {
            ToolMode::Send => testtool::Mode::Send,
            ToolMode::Recv => testtool::Mode::Recv,
            ToolMode::Route => testtool::Mode::Route,
        },
        family: match args.family.families() {
            Families::V6 => Family::V6,
            Families::V4 | Families::Any => Family::V4,
        },
        burst: args.burst,
        count: args.count,
        parallel: args.parallel,
        shared: args.shared,
        rc: args.rc,
        size: args.size,
        native: args.native,
        locks: args.locks,
        pool: args.pool.unwrap_or_default(),
        clock: args.clock.unwrap_or_default(),
        context: args.context.unwrap_or_default(),
        checksum: args.checksum,
        sysctl: sysctls.sysctl.into_iter().collect(),
        json: args.json,
    };
    surroundings::measured(Form::of(options.json), |out| {
        if options.native {
            lab::native::testtool::native(&options, out)?;
        } else {
            testtool::run(&options, out)?;
        }
        Ok(Exit::Fine)
    })
}

pub fn ladder(args: LadderArgs) -> anyhow::Result<Exit> {
    let study: Study = match args.name {
        LadderName::UdpSend => lab::ladder::udp_send,
    };
    show(study, &args.study, args.source)
}

pub fn repro(args: ReproArgs) -> anyhow::Result<Exit> {
    if args.dma.is_some() && args.name != ReportName::Bridge2004 {
        return Err(Fault::usage("repro --dma: only supported by bridge2004"));
    }
    let study: Study = match args.name {
        ReportName::Rump2014 => lab::repro::rump2014,
        ReportName::Rtems2014 => lab::repro::rtems2014,
        ReportName::Ethpipe2013 => lab::repro::ethpipe2013,
        ReportName::Bridge2004 if args.dma == Some(DmaName::Copy) => lab::repro::bridge2004_in_cache,
        ReportName::Bridge2004 => lab::repro::bridge2004,
        ReportName::Netisr2005 => lab::repro::netisr2005,
    };
    show(study, &args.study, args.source)
}

pub fn bench(args: BenchArgs) -> anyhow::Result<Exit> {
    // The benchmark of services needs a network namespace, for devices and servers of its own.
    if args.group == BenchGroup::Services
        && let Some(exit) = place::in_namespace()?
    {
        return Ok(exit);
    }
    show(study(args.group), &args.study, None)
}

/// Returns the study that measures `group`.
pub fn study(group: BenchGroup) -> Study {
    match group {
        BenchGroup::Udp => lab::bench::udp,
        BenchGroup::Tcp => lab::bench::tcp,
        BenchGroup::Text => lab::bench::text,
        BenchGroup::Bridge => lab::bench::bridge,
        BenchGroup::Route => lab::bench::route,
        BenchGroup::Dispatch => lab::bench::dispatch,
        BenchGroup::Parts => lab::bench::parts,
        BenchGroup::Services => lab::bench::services,
    }
}

/// Runs `lab`.
pub fn lab(args: LabArgs) -> anyhow::Result<Exit> {
    let LabCommand::Selftest(args) = args.command;
    watch(|_| ())?; // the self-test has no rows to print
    let options = Options { quick: args.quick, rounds: args.rounds, core: args.core, ..Options::default() };
    let bar = bar();
    let outcome =
        lab::selftest::selftest(args.comparisons, args.busy, &options, &mut |progress| show_progress(&bar, progress));
    bar.finish_and_clear();
    let outcome = outcome?;
    print(&if args.json { outcome.to_json()? } else { outcome.text() })?;
    Ok(if outcome.misses.is_empty() && outcome.failed.is_empty() { Exit::Fine } else { Exit::Failed })
}

/// Installs two handlers: Ctrl-C ends a measurement after the current trial; and if a subject
/// panics or hangs, the watchdog passes the finished rows to `print` and exits.
fn watch(print: impl Fn(&Report) + Send + Sync + 'static) -> anyhow::Result<()> {
    dispatch::install_stop_handler().context("cannot catch Ctrl-C")?;
    lab::alarm::install(1, Arc::new(print)).context("cannot start the thread that watches the measurement")
}

/// Output file. It is created before the measurement, so that a wrong path is reported at once, and
/// written after it.
pub struct Output {
    flag: &'static str,
    path: PathBuf,
    file: File,
}

impl Output {
    /// Creates the file at `path`, the value of `flag`, if there is one.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn open(flag: &'static str, path: Option<&PathBuf>) -> anyhow::Result<Option<Output>> {
        let open = |path: &PathBuf| {
            let file = File::create(path).with_context(|| format!("{flag} {}", path.display()))?;
            anyhow::Ok(Output { flag, path: path.clone(), file })
        };
        path.map(open).transpose()
    }

    /// Writes the file.
    ///
    /// # Errors
    /// An error of `with`, or of writing the file.
    pub fn write(&self, with: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> anyhow::Result<()> {
        let mut buffered = io::BufWriter::new(&self.file);
        with(&mut buffered)
            .and_then(|()| buffered.flush())
            .with_context(|| format!("{} {}", self.flag, self.path.display()))
    }
}

/// Outputs of a report.
struct Files {
    json: bool,
    trials: Option<Output>,
    svg: Option<Output>,
}

impl Files {
    /// Prints the report and writes the files.
    fn write(&self, report: &Report) -> anyhow::Result<()> {
        print(&if self.json { report.to_json()? } else { lab::table::render(report) })?;
        if let Some(output) = &self.trials {
            output.write(|out| lab::result::write_trials(out, &report.name, &report.samples))?;
        }
        if let Some(output) = &self.svg {
            output.write(|out| out.write_all(lab::plot::Chart::of(report, None).svg().as_bytes()))?;
        }
        Ok(())
    }
}

/// Runs a study, shows its progress on standard error, and prints its report. Output files are
/// opened first and written last.
pub fn show(
    study: impl FnOnce(&Options, &mut dyn FnMut(Progress)) -> anyhow::Result<Report>,
    args: &StudyArgs,
    source: Option<PathBuf>,
) -> anyhow::Result<Exit> {
    let files = Files {
        json: args.json,
        trials: Output::open("--trials", args.trials.as_ref())?,
        svg: Output::open("--svg", args.svg.as_ref())?,
    };
    let files = Arc::new(files);
    let unfinished = files.clone();
    // The process is about to exit: an error here is only printed to standard error.
    watch(move |report| unfinished.write(report).unwrap_or_else(|why| notice(&format!("{why:#}"))))?;
    let limit = args.limit.map(Duration::from_secs);
    let options = Options { quick: args.quick, rounds: args.rounds, core: args.core, source, limit };
    let bar = bar();
    let report = study(&options, &mut |progress| show_progress(&bar, progress));
    bar.finish_and_clear();
    let report = report?;
    files.write(&report)?;
    if dispatch::stop_requested() {
        notice("interrupted: only finished rows are shown");
        return Ok(Exit::Failed);
    }
    if report.rows.iter().all(|row| row.now.is_none()) {
        notice("nothing was measured: see the reason in each row");
        return Ok(Exit::Failed);
    }
    Ok(Exit::Fine)
}

/// Shows the progress of a study.
pub fn show_progress(bar: &ProgressBar, progress: Progress) {
    bar.set_length(progress.total as u64);
    bar.set_position(progress.done as u64);
    bar.set_message(progress.what);
}

/// Returns a progress bar, hidden if standard error is not a terminal.
pub fn bar() -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(1);
    let style = ProgressStyle::with_template("{elapsed_precise} [{bar:30}] {pos}/{len} {msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "));
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}
