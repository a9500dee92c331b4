//! Every rung by two loops on two cores, beside one loop that has all ports: cumulative, and each tweak alone in fewer rounds.

use super::climb::{COUNTED, DISTRACTED, FREE};
use super::steps::Step;
use crate::result::{Cell, Change, Figure, Row, Sheet};
use crate::rigs::{NicLoops, NicStall, nic_stall};
use crate::run;
use crate::sample::{Sample, Summary};
use crate::study;
use crate::subject::Subject;
use crate::timer;
use crate::verdict::NoiseFloor;
use anyhow::Context;

/// Parts that it tells of.
pub(super) const PARTS: usize = 2;
/// Rounds at most, of the ladder and of a tweak alone: what is asked is whether two cores are of use, and all of it is to take a minute or two.
const LADDER_ROUNDS: u32 = 12;
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

/// Whether each tweak alone is run by two loops, too: as many trials as the ladder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Alone {
    Measured,
    LeftOut,
}

/// One rung by one loop and by two, trial by trial.
struct Pair {
    step: Step,
    one: Sample,
    two: Sample,
}

/// Results of one bridge.
pub(super) struct Cores {
    ports: usize,
    steps: Vec<Step>,
    /// The ladder.
    ladder: Vec<Pair>,
    alone: Vec<Pair>,
    /// Of the ladder's steps: the first of two loops distracted.
    stalls: Vec<NicStall>,
    /// Why nothing was measured.
    missing: Option<String>,
}

/// On a machine of so many `cores`.
pub(super) fn climb(
    ports: usize,
    base: &str,
    steps: &[Step],
    (cores, tweaks): (usize, Alone),
    options: &run::Options,
    said: &mut study::Steps<'_>,
) -> anyhow::Result<Cores> {
    let steps = steps.to_vec();
    let (ladder, alone, stalls) = (Vec::new(), Vec::new(), Vec::new());
    said.next(&format!("{ports} ports, two loops on two cores: one tweak after the other"));
    if cores < 2 {
        said.next(&format!("{ports} ports, two loops on two cores: left out"));
        let missing = Some(format!("two loops want two cores, and this program has {cores}"));
        return Ok(Cores { ports, steps, ladder, alone, stalls, missing });
    }
    // Threads that meet wait for each other: their share of a core says nothing. Each has its own core.
    let keep = options.keep.min(LADDER_ROUNDS);
    let options = run::Options { min_cpu_share: None, cpu: None, keep, ..options.clone() };
    let ladder = pairs(&format!("p{ports}.two."), base, &steps, |step| &step.words, &options)?;
    said.next(&format!("{ports} ports, two loops on two cores: each tweak alone"));
    let fewer = run::Options { keep: options.keep.min(ALONE_ROUNDS), ..options };
    let alone = match tweaks {
        Alone::Measured => pairs(&format!("p{ports}.two.alone."), base, &steps, |step| &step.alone, &fewer)?,
        Alone::LeftOut => alone,
    };
    let lost = |step: &Step| nic_stall(&format!("{base} {FREE} {} {COUNTED}", step.words), 2, DISTRACTED);
    let stalls = steps.iter().map(lost).collect::<anyhow::Result<Vec<_>>>()?;
    Ok(Cores { ports, steps, ladder, alone, stalls, missing: None })
}

fn pairs(
    prefix: &str,
    base: &str,
    steps: &[Step],
    words: fn(&Step) -> &str,
    options: &run::Options,
) -> anyhow::Result<Vec<Pair>> {
    let rig = |step: &Step, loops: usize| -> anyhow::Result<Box<dyn Subject>> {
        Ok(Box::new(NicLoops::new(&format!("{prefix}{}", step.id), loops, &format!("{base} {}", words(step)))?))
    };
    let mut subjects = Vec::new();
    for step in steps {
        subjects.extend([rig(step, 1)?, rig(step, 2)?]);
    }
    let mut samples = run::interleave(&mut subjects, options, &mut |_| ())?.into_iter();
    let pair = |step: &Step| Some(Pair { step: step.clone(), one: samples.next()?, two: samples.next()? });
    steps.iter().map(pair).collect::<Option<_>>().context("a sample for each subject")
}

impl Pair {
    fn change(&self, floor: &NoiseFloor) -> anyhow::Result<Change> {
        Ok(Change::paired(&self.one, &self.two, floor)?)
    }
}

/// Million frames a second; of loops all together.
fn rate(sample: &Sample) -> anyhow::Result<Summary> {
    let hertz = timer::rate().hz as f64;
    let rates: Vec<f64> = sample.values().iter().map(|ticks| hertz / ticks / 1e6).collect();
    Ok(Summary::of(&rates)?)
}

impl Cores {
    fn title(&self, title: &str) -> String {
        format!("{} ports, two loops on two cores: {title}", self.ports)
    }

    /// Two loops against one at the last rung; `None`: nothing was measured.
    pub(super) fn last(&self, floor: &NoiseFloor) -> anyhow::Result<Option<Change>> {
        self.ladder.last().map(|pair| pair.change(floor)).transpose()
    }

    /// The ladder's rows, then those of each tweak alone.
    pub(super) fn rows(&self, floor: &NoiseFloor) -> anyhow::Result<Vec<Row>> {
        if let Some(why) = &self.missing {
            let row =
                |step: &Step| Row::missing(&format!("p{}.two.{}", self.ports, step.id), &self.title(&step.title), why);
            return Ok(self.steps.iter().map(row).collect());
        }
        let alone = self.alone.iter().skip(1); // its first rung is the ladder's
        let ladder = self.ladder.iter().map(|pair| (pair, self.title(&pair.step.title)));
        let alone = alone.map(|pair| (pair, self.title(&format!("first and {}", pair.step.title))));
        let row = |(pair, title): (&Pair, String)| -> anyhow::Result<Row> {
            let mut row = Row::new(&pair.two.id, &title, Figure::new(&rate(&pair.two)?, "Mframe/s"));
            row.vs_previous = Some(pair.change(floor)?);
            Ok(row)
        };
        ladder.chain(alone).map(row).collect()
    }

    /// One loop and two, rung by rung.
    pub(super) fn sheet(&self, floor: &NoiseFloor) -> anyhow::Result<Sheet> {
        let how = if self.ports == 2 { "a direction each" } else { "two ports each" };
        let title = format!("{} ports: one loop on one core, two loops on two, {how}", self.ports);
        if let Some(why) = &self.missing {
            let row = |step: &Step| vec![step.id.as_str().into(), why.as_str().into()];
            let head = ["rung", "two loops"].map(str::to_owned).to_vec();
            return Ok(Sheet { title, head, rows: self.steps.iter().map(row).collect() });
        }
        let mut rows = Vec::new();
        for (at, (pair, stall)) in self.ladder.iter().zip(&self.stalls).enumerate() {
            let (one, two, change) = (pair.one.summary()?.median, pair.two.summary()?.median, pair.change(floor)?);
            let mut row: Vec<Cell> = vec![pair.step.id.as_str().into(), rate(&pair.one)?.median.into(), one.into()];
            // Ticks of the sample are those between two frames, whoever passes them on: of a loop they are twice as many.
            row.extend([rate(&pair.two)?.median.into(), (2.0 * two).into()]);
            row.extend(times(&change));
            row.push(format!("{} of {}", stall.missed, stall.came).into());
            match self.alone.get(at) {
                Some(alone) => {
                    row.extend([rate(&alone.one)?.median.into(), rate(&alone.two)?.median.into()]);
                    row.extend(times(&alone.change(floor)?));
                }
                None => row.extend(["-"; 4].map(Cell::from)),
            }
            rows.push(row);
        }
        Ok(Sheet { title, head: COLUMNS.map(str::to_owned).to_vec(), rows })
    }
}

fn times(change: &Change) -> [Cell; 2] {
    [format!("{:.2} [{:.2}, {:.2}]", change.ratio, change.lo, change.hi).into(), change.verdict.to_string().into()]
}

#[cfg(test)]
mod tests {
    use super::super::steps;
    use super::*;
    use crate::study::Options;

    #[test]
    fn where_there_is_one_core_every_rung_says_so() {
        let ladder = steps::ladder(4, &steps::HugePages::Available);
        let mut told = Vec::new();
        let mut tell = |progress: study::Progress| told.push(progress.what);
        let mut said = study::Steps::new(PARTS, &mut tell);
        let cores = climb(4, "ports=4", &ladder, (1, Alone::Measured), &Options::default().run(1), &mut said).unwrap();
        let floor = NoiseFloor { ratio: 1.0, lo: 0.99, hi: 1.01, n: 10 };
        let (rows, sheet) = (cores.rows(&floor).unwrap(), cores.sheet(&floor).unwrap());
        assert_eq!((rows.len(), sheet.rows.len()), (ladder.len(), ladder.len()));
        assert_eq!(rows[0].id, "p4.two.first");
        let why = "two loops want two cores, and this program has 1";
        assert!(rows.iter().all(|row| row.now.is_none() && row.missing.as_deref() == Some(why)));
        assert!(sheet.rows.iter().all(|row| row.len() == sheet.head.len() && row[1] == Cell::from(why)));
        assert_eq!(told.len(), PARTS);
    }
}
