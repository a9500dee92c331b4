//! netisr2005: direct dispatch against queued dispatch, measured by netperf and tcpconnect, host to
//! host and through a router.
//!
//! The report's machines had one processor (UP) or two (SMP). Here `up.*` is one thread that drives
//! both hosts and the router. The judged host is the one whose netisr is measured. In `up.*` its
//! own loop empties the queue, so the figure is the cost of queueing without a second processor.
//! `smp.*` has one thread for the machines and one for the netisr workstream (queue) of the judged
//! host; `several.*` has one more workstream. A column that needs more threads than this machine
//! has processors is not measured. Each trial builds its hosts anew, so no trial is discarded as a
//! warm-up; the variants run in turns.

use crate::ab::Trials;
use crate::ministat;
use crate::netperf::{Drivers, Isr, Observed, Over, Place};
use crate::result::{Cell, Report, Row, Sheet};
use crate::rigs::{NetperfRig, Work};
use crate::run;
use crate::sample;
use crate::side::Side;
use crate::study::{Group, Options, Progress, Study, Unit};
use crate::subject::Subject;
use crate::table;
use crate::verdict::Verdict;
use anyhow::Context;
use apps::netperf::{self, Length, Test};
use clock::Duration;
use dispatch::netisr::Mode;
use std::collections::{BTreeMap, BTreeSet};
use std::iter::once;

/// Duration of a trial.
const TRIAL: Duration = Duration::from_millis(20);
/// Number of builds of each variant; the report made 10 to 12 runs.
const KEPT: u32 = 20;
/// Number of trials of each build in a quick run, whose figures are too imprecise to publish.
const TRIALS_QUICK: u32 = 2;
/// Number of extra trials of each variant: this many without the cost ledger for the counts, and as
/// many with it for the costs. The median of each figure is reported. A quick run has one extra
/// trial of each kind.
const COUNTED: usize = 5;

/// A row of the report: its test, and how much direct dispatch improved it, in per cent, on one
/// processor and on two.
struct Then {
    id: &'static str,
    title: &'static str,
    test: Option<Test>,
    over: Over,
    up: &'static str,
    smp: &'static str,
}

const ROWS: [Then; 9] = [
    then("tcp_rr.host", "TCP_RR, host-(host)", Some(Test::TcpRr), Over::Pair, "0.9", "0.7"),
    then("tcp_rr.router", "TCP_RR, host-(router)-host", Some(Test::TcpRr), Over::Router, "2.4", "2.9"),
    then("udp_rr.host", "UDP_RR, host-(host)", Some(Test::UdpRr), Over::Pair, "0.7", "0.6"),
    then("udp_rr.router", "UDP_RR, host-(router)-host", Some(Test::UdpRr), Over::Router, "2.2", "3.0"),
    then("tcp_stream.host", "TCP_STREAM, host-(host)", Some(Test::TcpStream), Over::Pair, "0.8", "1.8"),
    then("tcp_stream.router", "TCP_STREAM, host-(router)-host", Some(Test::TcpStream), Over::Router, "13.6", "15.7"),
    then("udp_stream.host", "UDP_STREAM, host-(host)", Some(Test::UdpStream), Over::Pair, "none", "none"),
    then("udp_stream.router", "UDP_STREAM, host-(router)-host", Some(Test::UdpStream), Over::Router, "none", "none"),
    then("tcpconnect", "tcpconnect, host-(host)", None, Over::Pair, "7.90383 +/- 0.553773", "12.2391 +/- 0.500561"),
];

const fn then(
    id: &'static str,
    title: &'static str,
    test: Option<Test>,
    over: Over,
    up: &'static str,
    smp: &'static str,
) -> Then {
    Then { id, title, test, over, up, smp }
}

/// Column of the table: the number of processors.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Column {
    Up,
    Smp,
    Several,
}

impl Column {
    const ALL: [Column; 3] = [Column::Up, Column::Smp, Column::Several];

    fn word(self) -> &'static str {
        match self {
            Column::Up => "up",
            Column::Smp => "smp",
            Column::Several => "several",
        }
    }

    fn workstreams(self) -> usize {
        if self == Column::Several { 2 } else { 1 }
    }

    /// Returns the report's figure of how much direct dispatch improved the row, in per cent.
    fn then(self, row: &Then) -> &'static str {
        match self {
            Column::Up => row.up,
            Column::Smp => row.smp,
            Column::Several => "-",
        }
    }

    fn drivers(self) -> Drivers {
        if self == Column::Up { Drivers::One } else { Drivers::Workers }
    }

    /// Returns the number of working threads, each of which needs a processor of its own.
    fn threads(self) -> usize {
        if self == Column::Up { 1 } else { 1 + self.workstreams() }
    }

    /// Returns the heading of the column, with the number of threads.
    fn heading(self) -> String {
        let word = self.word().to_uppercase();
        match self.threads() {
            1 => format!("{word}: one thread"),
            threads => format!("{word}: {threads} threads, {} of them netisr's", self.workstreams()),
        }
    }
}

/// Dispatch modes. The first one, queued, is the baseline of the others.
const MODES: [(Mode, &str); 3] = [(Mode::Deferred, "queued"), (Mode::Direct, "direct"), (Mode::Hybrid, "hybrid")];

/// Names of the counts: frames that netisr dispatched directly, frames that it queued, wake-ups of
/// its threads, and context switches of the process.
const DID: [&str; 5] = ["direct", "queued", "wakeups", "voluntary switches", "involuntary"];

/// A row measured in one column.
struct Measured {
    row: &'static Then,
    column: Column,
    work: Work,
    /// Sides named `<column>.<row>.<mode>`.
    group: Group,
    /// For each dispatch mode, how often each operation of [`DID`] happened per unit of
    /// [`Work::each`].
    did: Vec<[f64; DID.len()]>,
    /// Ticks per unit of [`Work::each`], by mode.
    costs: Vec<Cost>,
}

impl Measured {
    fn side(&self, at: usize) -> String {
        id(self.row, self.column, MODES[at].1)
    }
}

fn id(row: &Then, column: Column, word: &str) -> String {
    format!("{}.{}.{word}", column.word(), row.id)
}

/// Ledger stage to which an idle loop's ticks are charged.
const IDLE: &str = "inet.timers";

/// Cost per unit of [`Work::each`], in ticks, of all machines together.
struct Cost {
    /// Elapsed ticks per unit.
    all: f64,
    /// Number of threads that run the hosts of the test.
    threads: usize,
    /// Ticks by processing stage of the stack.
    stages: BTreeMap<&'static str, f64>,
}

impl Cost {
    /// Runs a trial of `rig` and reads its ledger.
    fn of(mut rig: NetperfRig, many: f64, threads: usize) -> anyhow::Result<Cost> {
        let reading = rig.trial()?;
        let each = reading.ops.max(1) as f64 / many;
        // An idle loop only checks its timers; these ticks count as waiting.
        let busy = rig.seen().stages.iter().filter(|(stage, _)| **stage != IDLE);
        let stages = busy.map(|(stage, (ticks, _))| (*stage, *ticks as f64 / each));
        Ok(Cost { all: reading.ticks as f64 / each, threads, stages: stages.collect() })
    }

    /// Returns the median of each figure of `costs`, which must not be empty.
    fn median(costs: &[Cost]) -> Cost {
        let names: BTreeSet<&'static str> = costs.iter().flat_map(|cost| cost.stages.keys().copied()).collect();
        let median = |of: &dyn Fn(&Cost) -> f64| sample::median(&costs.iter().map(of).collect::<Vec<_>>());
        let stage = |name| median(&|cost| cost.stages.get(name).copied().unwrap_or(0.0));
        Cost {
            all: median(&|cost| cost.all),
            threads: costs[0].threads,
            stages: names.into_iter().map(|name| (name, stage(name))).collect(),
        }
    }

    fn inside(&self) -> f64 {
        self.stages.values().sum()
    }

    /// Returns the ticks that all threads spent outside the stack, including those spent waiting.
    fn outside(&self) -> f64 {
        self.threads as f64 * self.all - self.inside()
    }
}

/// Measures the rows of the report's table and compares them with the report's figures.
///
/// # Errors
/// Returns no error: a row that could not be measured states the reason instead.
pub fn netisr2005(options: &Options, progress: &mut dyn FnMut(Progress)) -> anyhow::Result<Report> {
    let run_options = run_options(options, Column::Smp);
    let mut study = Study::new("repro netisr2005", run_options.clone(), ROWS.len() * Column::ALL.len(), progress);
    let mut all = Vec::new();
    for column in Column::ALL {
        for row in &ROWS {
            study.part(&format!("{}: {}", column.word(), row.title));
            if column.threads() > dispatch::cores() {
                let why = format!("needs {} processors, this machine has {}", column.threads(), dispatch::cores());
                study
                    .rows(MODES.map(|(_, word)| Row::missing(&id(row, column, word), &title(row, column, word), &why)));
                continue;
            }
            match measure(&mut study, row, column, options) {
                Ok(of) => {
                    study.rows(rows(&of));
                    all.push(of);
                }
                Err(why) => {
                    let why = format!("{why:#}");
                    let missing =
                        |(_, word): (Mode, &str)| Row::missing(&id(row, column, word), &title(row, column, word), &why);
                    study.rows(MODES.map(missing));
                }
            }
        }
    }
    let beside = study.beside();
    beside.baseline = Some("queued".to_owned());
    beside.sheets = vec![table(&all), why(&all), did(&all)];
    beside.texts = all.iter().filter_map(|of| ministat_text(of).ok()).collect();
    notes(options, &run_options).into_iter().chain(explain(&all)).for_each(|note| study.note(note));
    Ok(study.finish())
}

fn title(row: &Then, column: Column, word: &str) -> String {
    format!("{} {}, {word}", column.word().to_uppercase(), row.title)
}

fn run_options(options: &Options, column: Column) -> run::Options {
    let usual = Trials::Hosts { one_thread: column == Column::Up }.options(options.run(KEPT));
    // With fewer than 8 builds every verdict would be inconclusive.
    let keep = options.rounds.unwrap_or(usual.keep.max(8));
    let trials = if options.quick { TRIALS_QUICK } else { usual.trials };
    run::Options { keep, trials, max_seconds: None, ..usual }
}

fn trial(options: &Options) -> Duration {
    if options.quick { TRIAL / 5 } else { TRIAL }
}

fn counted_trials(options: &Options) -> usize {
    if options.quick { 1 } else { COUNTED }
}

fn work(row: &Then, options: &Options) -> Work {
    let time = trial(options);
    match row.test {
        Some(test) => Work::Netperf(netperf::Options { length: Length::Time(time), ..netperf::Options::new(test) }),
        None => Work::Connect(time),
    }
}

fn place(row: &Then, column: Column, dispatch: Mode) -> Place {
    let isr = Some(Isr { workstreams: column.workstreams(), dispatch });
    Place { isr, drivers: column.drivers(), ..Place::new(row.over) }
}

/// Runs the extra trials of a row. The modes take turns, each with a trial without the ledger, for
/// the counts of netisr and the context switches, and a trial with the ledger, for the costs.
fn counted(
    row: &Then,
    column: Column,
    work: &Work,
    trials: usize,
) -> anyhow::Result<(Vec<[f64; DID.len()]>, Vec<Cost>)> {
    let (many, _) = work.each();
    let mut counts = MODES.map(|_| Vec::new());
    let mut costs = MODES.map(|_| Vec::new());
    for _ in 0..trials {
        for (at, (mode, _)) in MODES.into_iter().enumerate() {
            anyhow::ensure!(!dispatch::stop_requested(), "interrupted");
            let mut rig = NetperfRig::counted(place(row, column, mode), work);
            let ops = rig.trial()?.ops.max(1) as f64 / many;
            let Observed { netisr, switches: [waited, others], .. } = rig.seen();
            let seen = [netisr.directly, netisr.queued, netisr.wakeups, *waited, *others];
            counts[at].push(seen.map(|count| count as f64 / ops));
            let place = Place { ledger: true, ..place(row, column, mode) };
            costs[at].push(Cost::of(NetperfRig::counted(place, work), many, column.threads())?);
        }
    }
    let did = |of: &Vec<[f64; DID.len()]>| {
        std::array::from_fn(|at| sample::median(&of.iter().map(|counts| counts[at]).collect::<Vec<_>>()))
    };
    Ok((counts.iter().map(did).collect(), costs.iter().map(|of| Cost::median(of)).collect()))
}

fn measure(study: &mut Study<'_>, row: &'static Then, column: Column, options: &Options) -> anyhow::Result<Measured> {
    let work = work(row, options);
    let (did, costs) = counted(row, column, &work, counted_trials(options))?;
    let side = |(mode, word): &(Mode, &'static str)| {
        let (id, mode, work) = (id(row, column, word), *mode, work.clone());
        Side::new(id.clone(), move || Ok(NetperfRig::new(&id, place(row, column, mode), work.clone())))
    };
    let group = study.compare_with(MODES.iter().map(side).collect(), run_options(options, column));
    Ok(Measured { row, column, work, group, did, costs })
}

fn rows(of: &Measured) -> Vec<Row> {
    let unit = Unit { name: of.work.unit(), of: of.work.rate() };
    let row = |(at, (_, word)): (usize, &(Mode, &str))| {
        let (side, title) = (of.side(at), title(of.row, of.column, word));
        if at == 0 { of.group.row(&side, &title, unit) } else { of.group.against(&side, &title, unit, &of.side(0)) }
    };
    MODES.iter().enumerate().map(row).collect()
}

/// Returns the improvement of dispatch mode number `at` over queued, in per cent, with its
/// interval, and the verdict.
fn gain(of: &Measured, at: usize) -> (String, String) {
    let Some(change) = of.group.change(&of.side(0), &of.side(at)) else { return ("-".to_owned(), "-".to_owned()) };
    let per_cent = [change.ratio, change.lo, change.hi].map(|ratio| (ratio - 1.0) * 100.0);
    (table::spread(per_cent, change.n, |value| format!("{value:+.1}")), change.verdict.to_string())
}

/// Returns the report's table: the improvement by direct dispatch in per cent, in the report and in
/// this run.
fn table(all: &[Measured]) -> Sheet {
    let row = |of: &Measured| {
        let ((direct, verdict), (hybrid, verdict_too)) = (gain(of, 1), gain(of, 2));
        let cells: [Cell; 7] = [
            of.column.heading().into(),
            of.row.title.into(),
            of.column.then(of.row).into(),
            direct.into(),
            verdict.into(),
            hybrid.into(),
            verdict_too.into(),
        ];
        cells.to_vec()
    };
    let head = ["", "test", "direct, then %", "direct, now %", "verdict", "hybrid, now %", "verdict"];
    let title = "improvement over queued, in per cent; (in parentheses) the measured host".to_owned();
    Sheet { title, head: head.map(str::to_owned).to_vec(), rows: all.iter().map(row).collect() }
}

/// Explains why direct dispatch improves TCP_STREAM through the router less here than in the
/// report: queueing is a smaller share of an operation.
fn explain(all: &[Measured]) -> Option<String> {
    let of = all.iter().find(|of| of.column == Column::Up && of.row.id == "tcp_stream.router")?;
    let (queued, direct) = (of.costs.first()?, of.costs.get(1)?);
    let frames = of.did.first()?[1];
    let (gain, _) = gain(of, 1);
    Some(format!(
        "up.tcp_stream.router, {gain} % here against 13.6 % in the report: {frames:.2} frames are queued for each 1000 bytes, and queueing them costs \
         {:.0} of {:.0} ticks outside the stack ({:.0} with direct dispatch); no thread is woken for them, since the router's own loop empties the \
         queue. The report's router woke a software-interrupt thread for its queue: one thread switch per batch, which this column lacks \
         by construction and a machine with one processor cannot avoid",
        queued.outside() - direct.outside(),
        queued.all,
        direct.all
    ))
}

/// Returns the table of netisr's counts per operation on the judged host. They explain the cost of
/// a mode.
fn did(all: &[Measured]) -> Sheet {
    let mut rows = Vec::new();
    for of in all {
        for ((_, word), did) in MODES.iter().zip(&of.did) {
            let id = format!("{}.{}.{word}", of.column.word(), of.row.id);
            rows.push(once(Cell::from(id)).chain(did.map(Cell::Number)).collect());
        }
    }
    let head = once("row").chain(DID).map(str::to_owned).collect();
    let title = "per operation (of a stream: 1000 bytes): frames through netisr of the measured host, and context switches of all \
                 hosts' threads (getrusage)"
        .to_owned();
    Sheet { title, head, rows }
}

/// Returns the table of the rows that a dispatch mode makes faster or slower. The cause stated is
/// the part of the cost ledger that changed most in that direction.
fn why(all: &[Measured]) -> Sheet {
    let mut rows = Vec::new();
    for of in all {
        for (at, (_, word)) in MODES.iter().enumerate().skip(1) {
            let Some(change) = of.group.change(&of.side(0), &of.side(at)) else { continue };
            let id = format!("{}.{}", of.column.word(), of.row.id);
            if change.verdict.is_firm()
                && let Some((cause, reported)) = because(of, at, change.verdict)
            {
                rows.push(vec![
                    id.into(),
                    (*word).into(),
                    change.verdict.to_string().into(),
                    cause.into(),
                    reported.into(),
                ]);
            }
        }
    }
    let head = ["row", "mode", "effect", "cause", "ticks of all hosts, queued -> in this mode; and netisr's counts"];
    let title = "gains and losses of the modes, by the cost ledger, in separate trials".to_owned();
    Sheet { title, head: head.map(str::to_owned).to_vec(), rows }
}

/// Difference in wake-ups of netisr's threads per operation above which the wake-ups are stated as
/// the cause.
const WOKEN: f64 = 0.001;

/// Returns the direction in which a mode's cost changed: -1 if it is faster, 1 if it is slower.
fn sign(verdict: Verdict) -> f64 {
    if verdict == Verdict::Faster { -1.0 } else { 1.0 }
}

/// Returns the cause in one word. `outside` and `inside` are the extra ticks of a mode outside and
/// inside the stack; `wakeups` is the number of wake-ups of netisr's threads that the mode saves.
fn cause(verdict: Verdict, outside: f64, inside: f64, wakeups: f64) -> &'static str {
    match () {
        () if inside * sign(verdict) <= 0.0 && outside * sign(verdict) <= 0.0 => "not shown by the ledger",
        () if inside * sign(verdict) > outside * sign(verdict) => "cache",
        () if wakeups.abs() > WOKEN => "wakeups",
        () => "queueing",
    }
}

/// Returns the cause of a mode's gain or loss, with the figures. The stages of the stack do the
/// same work in all modes, so their ticks differ only by the contents of the caches. All other
/// ticks of an operation belong to the queue, the threads and the ports.
fn because(of: &Measured, at: usize, verdict: Verdict) -> Option<(&'static str, String)> {
    let (queued, mode) = (of.costs.first()?, of.costs.get(at)?);
    let [_, frames, wakeups, waited, others] = of.did.first().copied().unwrap_or_default();
    let [_, _, woken, waited_too, others_too] = of.did.get(at).copied().unwrap_or_default();
    let sign = sign(verdict);
    let (switches, switches_too) = (waited + others, waited_too + others_too);
    let (outside, inside) = (mode.outside() - queued.outside(), mode.inside() - queued.inside());
    let cause = cause(verdict, outside, inside, wakeups - woken);
    let stage = queued.stages.iter().map(|(name, ticks)| (name, *ticks, mode.stages.get(name).copied().unwrap_or(0.0)));
    let most = stage.max_by(|a, b| ((a.2 - a.1) * sign).total_cmp(&((b.2 - b.1) * sign)));
    let most = most.map_or(String::new(), |(name, from, to)| format!(", of which {name} {from:.0} -> {to:.0}"));
    let reported = format!(
        "outside the stack {:.0} -> {:.0}, in it {:.0} -> {:.0}{most}; {frames:.2} frames for {} queued, netisr's wakeups {wakeups:.3} -> \
         {woken:.3}, context switches {switches:.3} -> {switches_too:.3}",
        queued.outside(),
        mode.outside(),
        queued.inside(),
        mode.inside(),
        of.work.each().1
    );
    Some((cause, reported))
}

/// Returns the output of ministat(1) for queued, direct and hybrid dispatch. The report prints it
/// for queued and direct.
fn ministat_text(of: &Measured) -> anyhow::Result<Vec<String>> {
    let options = ministat::options::Options::parse(&[], 74).map_err(|why| anyhow::anyhow!("ministat: {why:?}"))?;
    let sets = MODES.iter().enumerate().map(|(at, (_, word))| {
        let sample = of.group.sample(&of.side(at));
        let name = format!("{}/{}_{word}", of.column.word().to_uppercase(), of.row.id.replace('.', "_"));
        ministat::dataset::DataSet::new(name.as_bytes(), &of.work.rates(&sample))
            .context("ministat needs at least three samples")
    });
    let text = ministat::report(&options, &sets.collect::<anyhow::Result<Vec<_>>>()?);
    Ok(String::from_utf8_lossy(&text).lines().map(str::to_owned).collect())
}

fn notes(options: &Options, run_options: &run::Options) -> Vec<String> {
    vec![
        format!(
            "{} builds of each variant, {} trials of {} ms per build, the three modes and a twin of queued interleaved; each trial creates new hosts; \
             verdicts by paired ratios, and additionally by ministat; counts and costs are medians of {} longer trials",
            run_options.keep,
            run_options.trials,
            trial(options).as_millis(),
            counted_trials(options)
        ),
        "up: both hosts and the router on one thread, the measured host's queue emptied by its own loop after its ports: this column is the \
         comparable one; smp: one thread for the hosts and one for the measured host's workstream; several: two workstreams"
            .to_owned(),
        "links between hosts: pairs of ports in memory; then: dual Xeons, gigabit Ethernet (if_em), which limited both streams"
            .to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_complete_with_the_reports_figures_and_ministat() {
        let options = Options { quick: true, rounds: Some(3), ..Options::default() };
        let mut reported = 0;
        let report = netisr2005(&options, &mut |_| reported += 1).unwrap();
        assert_eq!((report.rows.len(), reported), (3 * 9 * 3, 27));
        let columns = Column::ALL.iter().filter(|column| column.threads() <= dispatch::cores()).count();
        let (measured, missing): (Vec<_>, Vec<_>) = report.rows.iter().partition(|row| row.now.is_some());
        assert_eq!(measured.len(), columns * 27, "{missing:?}");
        assert!(missing.iter().all(|row| row.missing.as_ref().is_some_and(|why| why.contains("processors"))));
        for row in measured {
            let now = row.now.as_ref().unwrap();
            assert!(now.median > 0.0 && now.n == 3, "{row:?}");
            assert_eq!(row.vs_previous.is_none(), row.id.ends_with(".queued"), "{}", row.id);
        }
        let beside = report.beside.as_ref().unwrap();
        let table = &beside.sheets[0];
        assert_eq!(table.rows.len(), columns * 9);
        if columns > 1 {
            assert_eq!(table.rows[17][2], Cell::Text("12.2391 +/- 0.500561".to_owned()));
            assert_eq!(table.rows[17][0], Cell::Text("SMP: 2 threads, 1 of them netisr's".to_owned()));
        }
        assert_eq!(table.rows[5][2], Cell::Text("13.6".to_owned()));
        assert_eq!(beside.texts.len(), columns * 9);
        assert!(report.notes.iter().any(|note| note.starts_with("up.tcp_stream.router")), "{:?}", report.notes);
        let sets = ["x UP/tcp_rr_host_queued", "+ UP/tcp_rr_host_direct", "* UP/tcp_rr_host_hybrid"];
        assert_eq!(&beside.texts[0][..3], sets);
        assert!(beside.texts[0].iter().any(|line| line.trim_start().starts_with("N  ")), "{:?}", beside.texts[0]);
        assert!(
            table
                .rows
                .iter()
                .all(|row| row.len() == 7 && [4, 6].iter().all(|at| row[*at] != Cell::Text(String::new()))),
            "both verdicts"
        );
        for reason in &beside.sheets[1].rows {
            let [_, Cell::Text(mode), _, Cell::Text(cause), Cell::Text(reported)] = &reason[..] else {
                panic!("{reason:?}")
            };
            assert!(["direct", "hybrid"].contains(&&**mode), "{mode}");
            let causes = ["queueing", "wakeups", "cache", "not shown by the ledger"];
            assert!(causes.contains(&&**cause) && reported.contains("of which "), "{reported}");
            assert!(
                reported.starts_with("outside the stack ")
                    && !reported.contains("stack -")
                    && !reported.contains("-> -"),
                "{reported}"
            );
        }
        let did = &beside.sheets[2];
        let of = |id: &str| did.rows.iter().find(|row| row[0] == Cell::Text(id.to_owned())).unwrap().clone();
        assert_eq!(of("up.tcp_rr.router.direct")[2], Cell::Number(0.0), "nothing is queued");
        assert!(matches!(of("up.tcp_rr.router.queued")[2], Cell::Number(n) if n >= 2.0), "a request and a response");
    }

    #[test]
    fn the_cause_is_the_largest_change_in_the_verdicts_direction() {
        for (verdict, outside, inside, switches, word) in [
            (Verdict::Faster, -254.0, 1.0, 0.0, "queueing"),
            (Verdict::Faster, -30_000.0, -1700.0, 2.03, "wakeups"),
            (Verdict::Faster, -183.0, -429.0, 0.02, "cache"),
            (Verdict::Slower, 90.0, -200.0, 0.0, "queueing"),
            (Verdict::Slower, 90.0, 20.0, -1.5, "wakeups"),
            (Verdict::Slower, -90.0, 200.0, 0.0, "cache"),
            (Verdict::Faster, 0.0, 965.0, 0.0, "not shown by the ledger"),
            (Verdict::Slower, -14.0, 0.0, 2.0, "not shown by the ledger"),
        ] {
            assert_eq!(cause(verdict, outside, inside, switches), word, "{verdict} {outside} {inside} {switches}");
        }
    }
}
