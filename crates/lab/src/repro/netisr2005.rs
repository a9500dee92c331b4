//! netisr2005: direct dispatch against queued, as netperf and tcpconnect see it, host to host and through a router.
//!
//! The report's machines had one processor (UP) or two (SMP). Here `up.*` is one thread that drives both hosts and the router, the judged
//! host's queue worked on by its own loop: what queueing costs without a second processor. `smp.*` has a thread for each host and one
//! for the judged host's workstream, `several.*` two: on fewer processors than threads they share them. Samples as the report asks:
//! 12, the first two discarded, the variants in turn.

use crate::env::Environment;
use crate::ministat;
use crate::netperf::{Drivers, Isr, Over, Place, Seen};
use crate::result::{Beside, Cell, Change, Figure, Report, Row, Sheet};
use crate::rigs::{NetperfRig, Work};
use crate::run;
use crate::sample::{Ratio, Sample, Summary};
use crate::study::{Options, Progress, Steps};
use crate::subject::Subject;
use crate::verdict::{self, NoiseFloor, Verdict};
use anyhow::Context;
use apps::netperf::{self, Length, Test};
use clock::Duration;
use dispatch::netisr::Mode;
use std::collections::BTreeMap;
use std::iter::once;

/// How long a trial goes on.
const TRIAL: Duration = Duration::from_millis(100);
/// Thrown away, as the report advises.
const DISCARDED: u32 = 2;
const KEPT: u32 = 10;

/// A row of the report: what it measured, and by how many per cent direct dispatch was better, on one processor and on two.
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

/// The processors of a column.
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

    /// By how many per cent direct dispatch was better in the report.
    fn then(self, row: &Then) -> &'static str {
        match self {
            Column::Up => row.up,
            Column::Smp => row.smp,
            Column::Several => "-",
        }
    }

    fn drivers(self) -> Drivers {
        match self {
            Column::Up => Drivers::One,
            Column::Smp | Column::Several => Drivers::Each,
        }
    }
}

/// The variants, queued first: what the others are held against.
const MODES: [(Mode, &str); 3] = [(Mode::Deferred, "queued"), (Mode::Direct, "direct"), (Mode::Hybrid, "hybrid")];

/// What is counted: frames that netisr took at once, frames it queued, threads it woke; and the process's context switches.
const DID: [&str; 5] = ["direct", "queued", "wakeups", "voluntary switches", "involuntary"];

/// A row of ours in one column, measured.
struct Measured {
    row: &'static Then,
    column: Column,
    work: Work,
    /// As [`MODES`].
    samples: Vec<Sample>,
    /// What was done for each [`Work::each`], by mode: as [`DID`].
    did: Vec<[f64; DID.len()]>,
    /// What it cost, likewise.
    costs: Vec<Cost>,
    /// The column's.
    floor: NoiseFloor,
}

/// The stage of a loop that has nothing to do.
const IDLE: &str = "inet.timers";

/// Ticks of one [`Work::each`], of all machines together, by the cost ledger.
struct Cost {
    /// From one to the next.
    all: f64,
    /// By stage of the stack.
    stages: BTreeMap<&'static str, f64>,
}

impl Cost {
    fn of(mut rig: NetperfRig, many: f64) -> anyhow::Result<Cost> {
        let reading = rig.trial()?;
        let each = reading.ops.max(1) as f64 / many;
        // Loops without work look at their timers: that is waiting.
        let busy = rig.seen().stages.iter().filter(|(stage, _)| **stage != IDLE);
        let stages = busy.map(|(stage, (ticks, _))| (*stage, *ticks as f64 / each));
        Ok(Cost { all: reading.ticks as f64 / each, stages: stages.collect() })
    }

    fn inside(&self) -> f64 {
        self.stages.values().sum()
    }

    /// Machines of threads of their own work beside each other: there it may be less than nothing.
    fn outside(&self) -> f64 {
        self.all - self.inside()
    }
}

/// The report's table, then and now.
///
/// # Errors
/// A test that failed, or frames unaccounted for.
pub fn netisr2005(options: &Options, progress: &mut dyn FnMut(Progress)) -> anyhow::Result<Report> {
    let env = Environment::detect(); // before the trials: their load is ours
    let mut steps = Steps::new(1 + ROWS.len() * Column::ALL.len(), progress);
    let run_options = run_options(options);
    steps.next("A against A: the noise floor");
    let floor = noise(Column::Up, options, &run_options)?;
    let mut all = Vec::new();
    for column in Column::ALL {
        let floor = if column == Column::Up { floor } else { noise(column, options, &run_options)? };
        for row in &ROWS {
            steps.next(&format!("{}: {}", column.word(), row.title));
            all.push(measure(row, column, floor, options, &run_options)?);
        }
    }
    let rows = all.iter().map(rows).collect::<anyhow::Result<Vec<_>>>()?.concat();
    let sheets = vec![table(&all)?, why(&all)?, did(&all)];
    let texts = all.iter().map(ministat_text).collect::<anyhow::Result<Vec<_>>>()?;
    let beside = Beside { baseline: Some("queued".to_owned()), sheets, texts };
    let name = "repro netisr2005".to_owned();
    Ok(Report {
        name,
        env,
        noise_floor: floor,
        rows,
        peers: Vec::new(),
        notes: notes(options, &run_options),
        beside: Some(beside),
    })
}

/// The noise floor of a column: a trial of its first row against itself.
fn noise(column: Column, options: &Options, run_options: &run::Options) -> anyhow::Result<NoiseFloor> {
    let [a, again] =
        run::against_itself(&mut rig(&ROWS[0], column, Mode::Direct, options, false), run_options, &mut |_| ())?;
    Ok(NoiseFloor::of(&a, &again)?)
}

fn run_options(options: &Options) -> run::Options {
    let keep = options.rounds.map_or(if options.quick { 6 } else { KEPT }, |rounds| rounds.max(1));
    // Trials make hosts, and threads of their own: their clock is in them.
    run::Options { warmup: DISCARDED, keep, cpu: None, min_cpu_share: None, max_seconds: None, replacements: keep }
}

fn trial(options: &Options) -> Duration {
    if options.quick { TRIAL / 5 } else { TRIAL }
}

fn work(row: &Then, options: &Options) -> Work {
    let time = trial(options);
    match row.test {
        Some(test) => Work::Netperf(netperf::Options { length: Length::Time(time), ..netperf::Options::new(test) }),
        None => Work::Connect(time),
    }
}

fn rig(row: &Then, column: Column, dispatch: Mode, options: &Options, ledger: bool) -> NetperfRig {
    let isr = Some(Isr { workstreams: column.workstreams(), dispatch });
    let place = Place { isr, drivers: column.drivers(), ledger, ..Place::new(row.over) };
    let work = work(row, options);
    let word = MODES.iter().find(|(mode, _)| *mode == dispatch).map_or("", |(_, word)| word);
    NetperfRig::new(&format!("{}.{}.{word}", column.word(), row.id), place, work)
}

fn measure(
    row: &'static Then,
    column: Column,
    floor: NoiseFloor,
    options: &Options,
    run_options: &run::Options,
) -> anyhow::Result<Measured> {
    let mut rigs: Vec<NetperfRig> = MODES.iter().map(|(mode, _)| rig(row, column, *mode, options, false)).collect();
    let mut did = Vec::new();
    let (many, _) = work(row, options).each();
    // One more trial of each, for what netisr does in it.
    for rig in &mut rigs {
        let ops = rig.trial()?.ops.max(1) as f64 / many;
        let Seen { netisr, switches: [waited, others], .. } = rig.seen();
        let counts = [netisr.directly, netisr.queued, netisr.wakeups, *waited, *others];
        did.push(counts.map(|count| count as f64 / ops));
    }
    // And one with the ledger on: its readings cost, so that it is no other's.
    let cost = |(mode, _): &(Mode, &str)| Cost::of(rig(row, column, *mode, options, true), many);
    let costs = MODES.iter().map(cost).collect::<anyhow::Result<Vec<_>>>()?;
    let mut subjects: Vec<Box<dyn Subject>> = rigs.into_iter().map(|rig| Box::new(rig) as Box<dyn Subject>).collect();
    let samples = run::interleave(&mut subjects, run_options, &mut |_| ())?;
    Ok(Measured { row, column, work: work(row, options), samples, did, costs, floor })
}

fn rows(of: &Measured) -> anyhow::Result<Vec<Row>> {
    let queued = of.samples.first().context("no sample of queued")?;
    let row = |(sample, (_, word)): (&Sample, &(Mode, &str))| -> anyhow::Result<Row> {
        let title = format!("{} {}, {word}", of.column.word().to_uppercase(), of.row.title);
        let mut row = Row::new(&sample.id, &title, Figure::new(&Summary::of(&of.work.rates(sample))?, of.work.unit()));
        row.vs_previous = (sample.id != queued.id).then(|| Change::paired(queued, sample, &of.floor)).transpose()?;
        Ok(row)
    };
    of.samples.iter().zip(&MODES).map(row).collect()
}

/// By how many per cent a mode is better than queued, with its interval and the verdict.
fn gain(of: &Measured, at: usize) -> anyhow::Result<(String, String)> {
    let (queued, sample) = (of.samples.first().context("queued")?, of.samples.get(at).context("a mode")?);
    let ratio = Ratio::paired(&queued.values(), &sample.values())?;
    let percent = |ratio: f64| (ratio - 1.0) * 100.0;
    let [at, lo, hi] = [ratio.median, ratio.lo, ratio.hi].map(percent);
    Ok((format!("{at:+.1} [{lo:+.1}, {hi:+.1}]"), verdict::judge(&ratio, &of.floor).to_string()))
}

/// The report's table: improvement by direct dispatch, per cent, then and now.
fn table(all: &[Measured]) -> anyhow::Result<Sheet> {
    let mut rows = Vec::new();
    for of in all {
        let ((direct, says), (hybrid, says_too)) = (gain(of, 1)?, gain(of, 2)?);
        let cells: [Cell; 7] = [
            of.column.word().to_uppercase().into(),
            of.row.title.into(),
            of.column.then(of.row).into(),
            direct.into(),
            says.into(),
            hybrid.into(),
            says_too.into(),
        ];
        rows.push(cells.to_vec());
    }
    let head = ["", "test", "direct, then %", "direct, now %", "verdict", "hybrid, now %", "verdict"]
        .map(str::to_owned)
        .to_vec();
    let title = "improvement against queued, in per cent; (in parentheses) the host that is judged".to_owned();
    Ok(Sheet { title, head, rows })
}

/// What netisr of the judged host did for each operation: where a mode's price comes from.
fn did(all: &[Measured]) -> Sheet {
    let mut rows = Vec::new();
    for of in all {
        for ((_, word), did) in MODES.iter().zip(&of.did) {
            let id = format!("{}.{}.{word}", of.column.word(), of.row.id);
            rows.push(once(Cell::from(id)).chain(did.map(Cell::Number)).collect());
        }
    }
    let head = once("row").chain(DID).map(str::to_owned).collect();
    let title = "for each operation (of a stream: 1000 bytes): frames through netisr of the judged host, and context switches of all \
                 machines' threads (getrusage)"
        .to_owned();
    Sheet { title, head, rows }
}

/// Rows on which a mode helps or hurts, and why: of the cost ledger the part that changed most in that direction.
fn why(all: &[Measured]) -> anyhow::Result<Sheet> {
    let mut rows = Vec::new();
    for of in all {
        let queued = of.samples.first().context("queued")?;
        for (at, (_, word)) in MODES.iter().enumerate().skip(1) {
            let sample = of.samples.get(at).context("a mode")?;
            let verdict = verdict::judge(&Ratio::paired(&queued.values(), &sample.values())?, &of.floor);
            if matches!(verdict, Verdict::Faster | Verdict::Slower) {
                let id = format!("{}.{}", of.column.word(), of.row.id);
                let (cause, told) = because(of, at, verdict)?;
                rows.push(vec![id.into(), (*word).into(), verdict.to_string().into(), cause.into(), told.into()]);
            }
        }
    }
    let head = ["row", "mode", "it is", "by its", "ticks of all machines, queued -> in this mode; and what netisr did"];
    let title = "where a mode helps, and where it hurts: the cost ledger, in a trial of its own".to_owned();
    Ok(Sheet { title, head: head.map(str::to_owned).to_vec(), rows })
}

/// Context switches for an operation beyond which it is not the queue alone that a mode has less of: threads sleep and are woken.
const WOKEN: f64 = 0.01;

/// What is less where a mode is faster, and more where it is slower.
fn sign(verdict: Verdict) -> f64 {
    if verdict == Verdict::Faster { -1.0 } else { 1.0 }
}

/// In a word, by how much more a mode takes outside the stack and in it, and how many context switches it has less.
fn cause(verdict: Verdict, outside: f64, inside: f64, switches: f64) -> &'static str {
    match () {
        () if inside * sign(verdict) > outside * sign(verdict) => "cache",
        () if switches.abs() > WOKEN => "wakeups",
        () => "queueing",
    }
}

/// What a mode's gain or loss is, and the figures. What stages of the stack take differs only by what the caches hold, as they do the
/// same in all modes; the rest of an operation is the queue's, the threads' and the ports'.
fn because(of: &Measured, at: usize, verdict: Verdict) -> anyhow::Result<(&'static str, String)> {
    let (queued, mode) = (of.costs.first().context("queued")?, of.costs.get(at).context("a mode")?);
    let [_, frames, wakeups, waited, others] = of.did.first().copied().unwrap_or_default();
    let [_, _, woken, waited_too, others_too] = of.did.get(at).copied().unwrap_or_default();
    let sign = sign(verdict);
    let (switches, switches_too) = (waited + others, waited_too + others_too);
    let (outside, inside) = (mode.outside() - queued.outside(), mode.inside() - queued.inside());
    let cause = cause(verdict, outside, inside, switches - switches_too);
    let stage = queued.stages.iter().map(|(name, ticks)| (name, *ticks, mode.stages.get(name).copied().unwrap_or(0.0)));
    let most = stage.max_by(|a, b| ((a.2 - a.1) * sign).total_cmp(&((b.2 - b.1) * sign)));
    let most = most.map_or(String::new(), |(name, from, to)| format!(", of which {name} {from:.0} -> {to:.0}"));
    let told = format!(
        "outside the stack {:.0} -> {:.0}, in it {:.0} -> {:.0}{most}; {frames:.2} frames for {} queued, netisr's wakeups {wakeups:.3} -> \
         {woken:.3}, context switches {switches:.3} -> {switches_too:.3}",
        queued.outside(),
        mode.outside(),
        queued.inside(),
        mode.inside(),
        of.work.each().1
    );
    Ok((cause, told))
}

/// What ministat(1) says of queued, direct and hybrid, as the report prints it of the first two.
fn ministat_text(of: &Measured) -> anyhow::Result<Vec<String>> {
    let options = ministat::options::Options::parse(&[], 74).map_err(|why| anyhow::anyhow!("ministat: {why:?}"))?;
    let sets = of.samples.iter().zip(&MODES).map(|(sample, (_, word))| {
        let name = format!("{}/{}_{word}", of.column.word().to_uppercase(), of.row.id.replace('.', "_"));
        ministat::dataset::DataSet::new(name.as_bytes(), &of.work.rates(sample)).context("ministat wants three samples")
    });
    let text = ministat::report(&options, &sets.collect::<anyhow::Result<Vec<_>>>()?);
    Ok(String::from_utf8_lossy(&text).lines().map(str::to_owned).collect())
}

fn notes(options: &Options, run_options: &run::Options) -> Vec<String> {
    let mut notes = vec![
        format!(
            "{} samples of {} ms, {} before them discarded, the three modes in turn; each trial makes its hosts anew; verdicts by \
             paired ratios, and ministat's beside",
            run_options.keep,
            trial(options).as_millis(),
            run_options.warmup
        ),
        "up: both hosts and the router on one thread, the judged host's queue worked on by its own loop after its ports; smp: a thread for \
         each machine and one for the workstream; several: two workstreams"
            .to_owned(),
        "between the machines: pairs of ports in memory; then: dual Xeons, gigabit Ethernet, if_em, whose wire was the limit of both streams"
            .to_owned(),
    ];
    let threads = 5;
    if dispatch::cores() < threads {
        notes.push(format!(
            "smp and several here are {} processors for up to {threads} threads that do not sleep for long: who has the processor decides as much as dispatch",
            dispatch::cores()
        ));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_table_is_there_with_the_reports_figures_and_ministats_words() {
        let options = Options { quick: true, rounds: Some(3), core: None };
        let mut told = 0;
        let report = netisr2005(&options, &mut |_| told += 1).unwrap();
        assert_eq!((report.rows.len(), told), (3 * 9 * 3, 28));
        for row in &report.rows {
            let now = row.now.as_ref().unwrap();
            assert!(now.median > 0.0 && now.n == 3, "{row:?}");
            assert_eq!(row.vs_previous.is_none(), row.id.ends_with(".queued"), "{}", row.id);
        }
        let beside = report.beside.as_ref().unwrap();
        let table = &beside.sheets[0];
        assert_eq!(table.rows.len(), 27);
        assert_eq!(table.rows[17][2], Cell::Text("12.2391 +/- 0.500561".to_owned()));
        assert_eq!(table.rows[5][2], Cell::Text("13.6".to_owned()));
        assert_eq!(beside.texts.len(), 27);
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
            let [_, Cell::Text(mode), _, Cell::Text(cause), Cell::Text(told)] = &reason[..] else {
                panic!("{reason:?}")
            };
            assert!(["direct", "hybrid"].contains(&&**mode), "{mode}");
            assert!(["queueing", "wakeups", "cache"].contains(&&**cause) && told.contains("of which inet."), "{told}");
        }
        let did = &beside.sheets[2];
        let of = |id: &str| did.rows.iter().find(|row| row[0] == Cell::Text(id.to_owned())).unwrap().clone();
        assert_eq!(of("up.tcp_rr.router.direct")[2], Cell::Number(0.0), "nothing is queued");
        assert!(matches!(of("up.tcp_rr.router.queued")[2], Cell::Number(n) if n >= 2.0), "a request and a response");
    }

    #[test]
    fn a_cause_is_what_changed_most_in_the_verdicts_direction() {
        for (verdict, outside, inside, switches, word) in [
            (Verdict::Faster, -254.0, 1.0, 0.0, "queueing"),
            (Verdict::Faster, -30_000.0, -1700.0, 2.03, "wakeups"),
            (Verdict::Faster, -183.0, -429.0, 0.02, "cache"),
            (Verdict::Slower, 90.0, -200.0, 0.0, "queueing"),
            (Verdict::Slower, 90.0, 20.0, -1.5, "wakeups"),
            (Verdict::Slower, -90.0, 200.0, 0.0, "cache"),
        ] {
            assert_eq!(cause(verdict, outside, inside, switches), word, "{verdict} {outside} {inside} {switches}");
        }
    }
}
