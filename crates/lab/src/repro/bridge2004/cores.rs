//! Measures every configuration of the ladder of tweaks (rung) with two loops on two cores,
//! compared with one loop that serves all ports. Each tweak is also measured alone in this way, in
//! fewer rounds.

use super::climb::{COUNTED, DISTRACTED, FREE};
use super::steps::Step;
use crate::result::{Cell, Change, Figure, Row, Sheet};
use crate::rigs::{NicLoops, NicStall, nic_stall};
use crate::run;
use crate::sample::{Sample, Summary};
use crate::side::Side;
use crate::study::Study;
use crate::timer;
use crate::verdict::NoiseFloor;
use anyhow::Context;

/// Number of progress steps that [`climb`] reports.
pub(super) const PARTS: usize = 2;
/// Maximum number of rounds of the ladder, so that the whole measurement takes one or two minutes.
const LADDER_ROUNDS: u32 = 12;
/// Maximum number of rounds that measure each tweak alone.
const ALONE_ROUNDS: u32 = 8;
const COLUMNS: [&str; 12] = [
    "rung",
    "one loop Mframe/s",
    "ticks",
    "two loops Mframe/s",
    "ticks each",
    "times",
    "against one loop",
    "missed in 2 ms by one of two",
    "alone, one loop",
    "alone, two loops",
    "alone, times",
    "alone, against one loop",
];

/// Selects whether each tweak is also measured alone with two loops, which takes about as long as
/// the ladder with two loops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Alone {
    Measured,
    LeftOut,
}

/// Samples of one rung with one loop and with two loops, paired by round.
struct Pair {
    step: Step,
    one: Sample,
    two: Sample,
}

/// Results of a bridge with one loop and with two loops.
pub(super) struct Cores {
    ports: usize,
    steps: Vec<Step>,
    /// Results of each step of the ladder.
    ladder: Vec<Pair>,
    alone: Vec<Pair>,
    /// Frames missed at each of the ladder's steps while the first of two loops pauses its polling.
    stalls: Vec<NicStall>,
    /// Reason why the figures are missing, if they are.
    missing: Option<String>,
    floor: NoiseFloor,
    alone_floor: NoiseFloor,
}

/// Measures the ladder on a machine with `cores` cores.
pub(super) fn climb(
    study: &mut Study<'_>,
    ports: usize,
    base: &str,
    steps: &[Step],
    (cores, tweaks): (usize, Alone),
    options: &run::Options,
) -> anyhow::Result<Cores> {
    let steps = steps.to_vec();
    let (ladder, alone, stalls) = (Vec::new(), Vec::new(), Vec::new());
    let (floor, alone_floor) = (NoiseFloor::NONE, NoiseFloor::NONE);
    study.part(&format!("{ports} ports, two loops on two cores: one tweak after the other"));
    if cores < 2 {
        study.part(&format!("{ports} ports, two loops on two cores: skipped"));
        let missing = Some(format!("two loops need two cores, and this program has {cores}"));
        return Ok(Cores { ports, steps, ladder, alone, stalls, missing, floor, alone_floor });
    }
    // The loops wait for each other at the start of a trial, so their CPU share shows nothing. Each
    // loop's thread is pinned to its own core.
    let options = run::Options { cpu: None, ..options.clone().waiting().at_most(LADDER_ROUNDS) };
    let (ladder, floor) = pairs(study, &format!("p{ports}.two."), base, &steps, |step| &step.words, &options)?;
    study.part(&format!("{ports} ports, two loops on two cores: each tweak alone"));
    let fewer = options.at_most(ALONE_ROUNDS);
    let (alone, alone_floor) = match tweaks {
        Alone::Measured => pairs(study, &format!("p{ports}.two.alone."), base, &steps, |step| &step.alone, &fewer)?,
        Alone::LeftOut => (alone, alone_floor),
    };
    let lost = |step: &Step| nic_stall(&format!("{base} {FREE} {} {COUNTED}", step.words), 2, DISTRACTED);
    let stalls = steps.iter().map(lost).collect::<anyhow::Result<Vec<_>>>()?;
    Ok(Cores { ports, steps, ladder, alone, stalls, missing: None, floor, alone_floor })
}

fn pairs(
    study: &mut Study<'_>,
    prefix: &str,
    base: &str,
    steps: &[Step],
    words: fn(&Step) -> &str,
    options: &run::Options,
) -> anyhow::Result<(Vec<Pair>, NoiseFloor)> {
    let side = |step: &Step, loops: usize| {
        let (name, line) = (format!("{prefix}{}", step.id), format!("{base} {}", words(step)));
        let id = if loops == 1 { format!("{name}.one_loop") } else { name.clone() };
        Side::new(id, move || NicLoops::new(&name, loops, &line))
    };
    let sides = steps.iter().flat_map(|step| [side(step, 1), side(step, 2)]).collect();
    let group = study.compare_with(sides, options.clone()).whole()?;
    let mut samples = group.samples.into_iter();
    let pair = |step: &Step| Some(Pair { step: step.clone(), one: samples.next()?, two: samples.next()? });
    let pairs = steps.iter().map(pair).collect::<Option<_>>().context("missing sample of a side")?;
    Ok((pairs, group.floor))
}

impl Pair {
    fn change(&self, floor: &NoiseFloor) -> anyhow::Result<Change> {
        Ok(Change::paired(&self.one, &self.two, floor)?)
    }
}

/// Returns the rate in million frames per second, of all loops together.
fn rate(sample: &Sample) -> anyhow::Result<Summary> {
    let hertz = timer::rate().hz as f64;
    let rates: Vec<f64> = sample.values().iter().map(|ticks| hertz / ticks / 1e6).collect();
    Ok(Summary::of(&rates)?)
}

impl Cores {
    fn title(&self, title: &str) -> String {
        format!("{} ports, two loops on two cores: {title}", self.ports)
    }

    /// Compares two loops with one loop at the last rung; `None` if nothing was measured.
    pub(super) fn last(&self) -> anyhow::Result<Option<Change>> {
        self.ladder.last().map(|pair| pair.change(&self.floor)).transpose()
    }

    /// Returns the rows of the ladder, then those of each tweak alone.
    pub(super) fn rows(&self) -> anyhow::Result<Vec<Row>> {
        if let Some(why) = &self.missing {
            let row =
                |step: &Step| Row::missing(&format!("p{}.two.{}", self.ports, step.id), &self.title(&step.title), why);
            return Ok(self.steps.iter().map(row).collect());
        }
        let alone = self.alone.iter().skip(1); // its first rung is the ladder's
        let ladder = self.ladder.iter().map(|pair| (pair, self.title(&pair.step.title), &self.floor));
        let alone = alone.map(|pair| (pair, self.title(&format!("first and {}", pair.step.title)), &self.alone_floor));
        let row = |(pair, title, floor): (&Pair, String, &NoiseFloor)| -> anyhow::Result<Row> {
            let mut row = Row::new(&pair.two.id, &title, Figure::new(&rate(&pair.two)?, "Mframe/s"));
            row.vs_previous = Some(pair.change(floor)?);
            Ok(row)
        };
        ladder.chain(alone).map(row).collect()
    }

    /// Returns the table that compares one loop with two loops, rung by rung.
    pub(super) fn sheet(&self) -> anyhow::Result<Sheet> {
        let how = if self.ports == 2 { "one direction each" } else { "two ports each" };
        let title = format!("{} ports: one loop on one core, two loops on two, {how}", self.ports);
        if let Some(why) = &self.missing {
            let row = |step: &Step| vec![step.id.as_str().into(), why.as_str().into()];
            let head = ["rung", "two loops"].map(str::to_owned).to_vec();
            return Ok(Sheet { title, head, rows: self.steps.iter().map(row).collect() });
        }
        let mut rows = Vec::new();
        for (at, (pair, stall)) in self.ladder.iter().zip(&self.stalls).enumerate() {
            let (one, two, change) =
                (pair.one.summary()?.median, pair.two.summary()?.median, pair.change(&self.floor)?);
            let mut row: Vec<Cell> = vec![pair.step.id.as_str().into(), rate(&pair.one)?.median.into(), one.into()];
            // The sample's ticks are the time between two frames of both loops together, so each
            // loop spends twice as many ticks per frame.
            row.extend([rate(&pair.two)?.median.into(), (2.0 * two).into()]);
            row.extend(times(&change));
            row.push(format!("{} of {}", stall.missed, stall.came).into());
            match self.alone.get(at) {
                Some(alone) => {
                    row.extend([rate(&alone.one)?.median.into(), rate(&alone.two)?.median.into()]);
                    row.extend(times(&alone.change(&self.alone_floor)?));
                }
                None => row.extend(["-"; 4].map(Cell::from)),
            }
            rows.push(row);
        }
        Ok(Sheet { title, head: COLUMNS.map(str::to_owned).to_vec(), rows })
    }
}

fn times(change: &Change) -> [Cell; 2] {
    [change.show(2).into(), change.verdict.to_string().into()]
}

#[cfg(test)]
mod tests {
    use super::super::steps;
    use super::*;
    use crate::study::{Options, Progress};

    #[test]
    fn on_one_core_every_rung_has_the_reason() {
        let ladder = steps::ladder(4, &steps::HugePages::Available);
        let mut reported = Vec::new();
        let mut show = |progress: Progress| reported.push(progress.what);
        let options = Options::default().run(1);
        let mut study = Study::new("cores", options.clone(), PARTS, &mut show);
        let cores = climb(&mut study, 4, "ports=4", &ladder, (1, Alone::Measured), &options).unwrap();
        drop(study);
        let (rows, sheet) = (cores.rows().unwrap(), cores.sheet().unwrap());
        assert_eq!((rows.len(), sheet.rows.len()), (ladder.len(), ladder.len()));
        assert_eq!(rows[0].id, "p4.two.first");
        let why = "two loops need two cores, and this program has 1";
        assert!(rows.iter().all(|row| row.now.is_none() && row.missing.as_deref() == Some(why)));
        assert!(sheet.rows.iter().all(|row| row.len() == sheet.head.len() && row[1] == Cell::from(why)));
        assert_eq!(reported.len(), PARTS);
    }
}
