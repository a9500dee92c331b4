//! Measures every rung (configuration of the ladder of tweaks) with a processor that waits for the
//! modelled bus. The result is the rate, in frames per second and port, of a processor and a bus
//! that work in parallel.

use super::steps::{self, Step};
use crate::result::{Change, Figure, Row};
use crate::rigs::NicPaced;
use crate::run;
use crate::sample::{Sample, Summary};
use crate::side::Side;
use crate::study::Study;
use crate::timer;
use crate::verdict::NoiseFloor;
use anyhow::Context;

/// Number of progress steps that this measurement reports.
pub(super) const PARTS: usize = 1;
/// Maximum number of rounds. Few rounds are enough: if the bus limits the rate, every round takes
/// the same number of bus clocks.
const ROUNDS: u32 = 8;
const UNIT: &str = "kframe/s a port";

/// Rates of the report in thousand frames per second and port, with all tweaks but T11, and with
/// T11 (for the bridge of two ports only).
#[derive(Debug, Clone, Copy)]
pub(super) struct Then {
    pub(super) without: f64,
    pub(super) with: Option<f64>,
}

/// Results of one bridge with waits for the bus.
pub(super) struct Paced {
    ports: usize,
    steps: Vec<Step>,
    /// Samples of the ladder's rungs, followed by those of the two rungs of T11.
    pub(super) ladder: Vec<Sample>,
    /// Samples of the first rung, followed by those of the two rungs of T11, each added to the
    /// first rung alone.
    alone: Vec<Sample>,
    floor: NoiseFloor,
}

pub(super) fn climb(
    study: &mut Study<'_>,
    ports: usize,
    base: &str,
    ladder: &[Step],
    options: &run::Options,
) -> anyhow::Result<Paced> {
    study.part(&format!("{ports} ports: with waits for the bus"));
    let (first, last) =
        (ladder.first().context("the ladder has no rungs")?, ladder.last().context("the ladder has no rungs")?);
    let t11 = steps::bus(last);
    let steps: Vec<Step> = ladder.iter().chain(&t11).cloned().collect();
    let side = |id: String, words: &str| {
        let (name, line) = (id.clone(), format!("{base} {words}"));
        Side::new(id, move || NicPaced::new(&name, &line))
    };
    let ladder = steps.iter().map(|step| side(format!("p{ports}.bus.{}", step.id), &step.words));
    let alone =
        [first].into_iter().chain(&t11).map(|step| side(format!("p{ports}.bus.alone.{}", step.id), &step.alone));
    let group = study.compare_with(ladder.chain(alone).collect(), options.clone().at_most(ROUNDS)).whole()?;
    let (mut ladder, floor) = (group.samples, group.floor);
    let alone = ladder.split_off(steps.len());
    Ok(Paced { ports, steps, ladder, alone, floor })
}

impl Paced {
    /// Returns the rate in thousand frames per second and port.
    pub(super) fn rate(&self, sample: &Sample) -> anyhow::Result<Summary> {
        let all = timer::rate().hz as f64 / self.ports as f64 / 1e3;
        let rates: Vec<f64> = sample.values().iter().map(|ticks| all / ticks).collect();
        Ok(Summary::of(&rates)?)
    }

    /// Returns the rows of the ladder and of T11, each compared with the row before it, and the
    /// rows of T11 alone, each compared with the first rung.
    pub(super) fn rows(&self, then: Then) -> anyhow::Result<Vec<Row>> {
        let (mut rows, floor): (Vec<Row>, _) = (Vec::new(), &self.floor);
        let mut before: Option<&Sample> = None;
        for (step, sample) in self.steps.iter().zip(&self.ladder) {
            let row = self.row(&step.title, sample, before, floor)?;
            let quoted = match step.id.as_str() {
                "t10.prefetch" => Some(then.without),
                "t11.hw_prefetch" => then.with,
                _ => None,
            };
            rows.push(match quoted {
                Some(rate) => row.then(rate, UNIT),
                None => row,
            });
            before = Some(sample);
        }
        if let [first, faster, ahead] = self.alone.as_slice() {
            rows.push(self.row("first and T11: bus at 133 MHz", faster, Some(first), floor)?);
            rows.push(self.row("first and T11: bus and fetches", ahead, Some(first), floor)?);
        }
        Ok(rows)
    }

    fn row(&self, title: &str, sample: &Sample, before: Option<&Sample>, floor: &NoiseFloor) -> anyhow::Result<Row> {
        let figure = Figure::new(&self.rate(sample).with_context(|| sample.id.clone())?, UNIT);
        let mut row = Row::new(&sample.id, &format!("{} ports, with waits for the bus: {title}", self.ports), figure);
        row.vs_previous = before.map(|before| Change::paired(before, sample, floor)).transpose()?;
        Ok(row)
    }

    /// Returns the samples of T10 and of both rungs of T11.
    pub(super) fn ends(&self) -> Option<[&Sample; 3]> {
        match self.ladder.as_slice() {
            [.., last, faster, ahead] => Some([last, faster, ahead]),
            _ => None,
        }
    }
}
