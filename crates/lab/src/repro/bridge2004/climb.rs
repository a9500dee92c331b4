//! Measures the ladder of tweaks: each rung contains all tweaks up to its own and is measured with
//! both kinds of DMA. Then each tweak is measured alone.

use super::memory::{Dma, WorkingSet};
use super::steps::{self, HugePages, Step};
use crate::result::{Change, Figure, Row};
use crate::rigs::{NicCosts, NicRig, NicStall, nic_stall};
use crate::run;
use crate::sample::Sample;
use crate::side::Side;
use crate::study::Study;
use crate::verdict::{NoiseFloor, Verdict};
use anyhow::Context;

/// Number of progress steps that the measurement of one ladder reports.
pub(super) const PARTS: usize = 4;
/// Number of consecutive polls that are skipped to simulate a pause in polling: 2 ms at one poll
/// every 50 us.
pub(super) const DISTRACTED: usize = 40;
/// Maximum number of rounds of the sweep over prefetch distances. Only the order of the results
/// matters, not the last per cent.
const SWEEP_ROUNDS: u32 = 8;
/// Maximum number of rounds that measure each tweak alone.
const ALONE_ROUNDS: u32 = 10;
/// Settings that make register accesses free.
pub(super) const FREE: &str = "reg_write_ns=0 reg_read_ns=0";

/// Setting of a rig whose operations are only counted: sent buffers are reused at once.
pub(super) const COUNTED: &str = "rest=0";

/// Results of the ladder on the bridge with two or with four ports.
pub(super) struct Climbed {
    pub(super) ports: usize,
    pub(super) dma: Dma,
    /// Rungs of the ladder.
    pub(super) steps: Vec<Step>,
    /// Rungs outside the ladder: those that undo T8 (polling), then those of T11 (a faster bus).
    /// The operations of the T11 rungs are counted here, not timed.
    pub(super) extras: Vec<Step>,
    /// Samples of the ladder's steps.
    pub(super) main: Vec<Sample>,
    /// Samples of the ladder's steps with the other kind of DMA, measured in the same rounds.
    pub(super) other: Vec<Sample>,
    /// Samples of the ladder's steps with frames in the cache and free registers, measured in the
    /// same rounds.
    pub(super) free: Vec<Sample>,
    /// Samples of the rungs that undo T8 (interrupts instead of polling).
    pub(super) main_extras: Vec<Sample>,
    alone: Vec<Sample>,
    pages: HugePages,
    /// Counted costs of the ladder's steps, then of the rungs in `extras`.
    pub(super) costs: Vec<NicCosts>,
    /// Frames missed at each of the ladder's steps during a pause in polling.
    pub(super) stalls: Vec<NicStall>,
    /// Ticks per frame at each prefetch distance of T10: (distance in frames, median).
    sweep: Vec<(usize, f64)>,
    /// Noise floor of the ladder's rounds, from the first rung and its twin.
    pub(super) floor: NoiseFloor,
    /// Noise floor in the rounds that measure each tweak alone.
    alone_floor: NoiseFloor,
}

/// Settings common to all rungs: ports, DMA and size of a trial. The settings of a rung are
/// appended to them and take precedence.
struct Base(String);

impl Base {
    /// Builds a rig whose operations are counted instead of timed.
    fn rig(&self, id: &str, words: &str) -> anyhow::Result<NicRig> {
        NicRig::new(id, &format!("{} {words}", self.0))
    }

    fn sides(&self, prefix: &str, steps: &[Step], words: fn(&Step) -> &str) -> Vec<Side> {
        let side = |step: &Step| self.side(format!("{prefix}{}", step.id), words(step));
        steps.iter().map(side).collect()
    }

    fn side(&self, id: String, words: &str) -> Side {
        let (name, line) = (id.clone(), format!("{} {words}", self.0));
        Side::new(id, move || NicRig::new(&name, &line))
    }
}

pub(super) fn climb(
    study: &mut Study<'_>,
    ports: usize,
    place: (Dma, WorkingSet, &HugePages),
    frames: &str,
    options: &run::Options,
) -> anyhow::Result<Climbed> {
    let (dma, set, pages) = place;
    let based = |dma: Dma| format!("ports={ports} {} {frames}", set.words(dma));
    let base = Base(based(dma));
    study.part(&format!("{ports} ports: prefetch distance"));
    let sweep = distances(study, &base, pages, &options.clone().at_most(SWEEP_ROUNDS))?;
    let best = sweep.iter().min_by(|a, b| a.1.total_cmp(&b.1)).map_or(0, |(distance, _)| *distance);
    let steps = steps::ladder(best, pages);
    let last = steps.last().context("the ladder has no rungs")?;
    let interrupts = steps::interrupts(last).to_vec();
    study.part(&format!("{ports} ports: one tweak after the other"));
    let mut sides = base.sides(&format!("p{ports}."), &steps, |step| &step.words);
    sides.extend(base.sides(&format!("p{ports}."), &interrupts, |step| &step.words));
    let beside = Base(based(dma.other()));
    sides.extend(beside.sides(&format!("p{ports}.{}.", dma.other().word()), &steps, |step| &step.words));
    let free = Base(format!("{} {FREE}", based(Dma::Copy)));
    sides.extend(free.sides(&format!("p{ports}.free."), &steps, |step| &step.words));
    let group = study.compare_with(sides, options.clone()).whole()?;
    let (mut main, floor) = (group.samples, group.floor);
    let mut other = main.split_off(steps.len() + interrupts.len());
    let free = other.split_off(steps.len());
    let main_extras = main.split_off(steps.len());
    study.part(&format!("{ports} ports: each tweak alone"));
    let mut sides = base.sides(&format!("p{ports}.alone."), &steps, |step| &step.alone);
    sides.extend(base.sides(&format!("p{ports}.alone."), &interrupts, |step| &step.alone));
    let alone = study.compare_with(sides, options.clone().at_most(ALONE_ROUNDS)).whole()?;
    let (alone, alone_floor) = (alone.samples, alone.floor);
    study.part(&format!("{ports} ports: registers, bus, drops"));
    let extras: Vec<Step> = interrupts.into_iter().chain(steps::bus(last)).collect();
    let costs =
        steps.iter().chain(&extras).map(|step| base.rig(&step.id, &format!("{} {COUNTED}", step.words))?.costs());
    let costs = costs.collect::<anyhow::Result<Vec<_>>>()?;
    let lost = |step: &Step| nic_stall(&format!("{} {FREE} {} {COUNTED}", base.0, step.words), 1, DISTRACTED);
    let stalls = steps.iter().map(lost).collect::<anyhow::Result<Vec<_>>>()?;
    let pages = pages.clone();
    Ok(Climbed {
        ports,
        dma,
        steps,
        extras,
        main,
        other,
        free,
        main_extras,
        alone,
        pages,
        costs,
        stalls,
        sweep,
        floor,
        alone_floor,
    })
}

fn distances(
    study: &mut Study<'_>,
    base: &Base,
    pages: &HugePages,
    options: &run::Options,
) -> anyhow::Result<Vec<(usize, f64)>> {
    let side = |distance: usize| base.side(format!("prefetch.{distance}"), &steps::last(distance, pages).words);
    let group = study.measure_with(steps::DISTANCES.into_iter().map(side).collect(), options.clone()).whole()?;
    let median = |(distance, sample): (usize, &Sample)| Ok((distance, sample.summary()?.median));
    steps::DISTANCES.into_iter().zip(&group.samples).map(median).collect()
}

impl Climbed {
    /// Returns the rows of the ladder, of the rungs that undo T8, and of each tweak alone, in this
    /// order.
    pub(super) fn rows(&self, then: f64) -> anyhow::Result<Vec<Row>> {
        let (mut rows, floor): (Vec<Row>, _) = (Vec::new(), &self.floor);
        let mut before: Option<&Sample> = None;
        for (step, sample) in self.steps.iter().zip(&self.main) {
            rows.push(self.row(&step.title, sample, before, floor)?);
            before = Some(sample);
        }
        if let Some(row) = rows.last_mut() {
            *row = row.clone().then(then, "cycles/frame");
        }
        if let Some([id, title, why]) = self.pages.missing() {
            rows.insert(rows.len() - 1, Row::missing(&format!("p{}.{id}", self.ports), &self.title(title), why));
        }
        for (step, sample) in self.extras.iter().zip(&self.main_extras) {
            rows.push(self.row(&step.title, sample, before, floor)?);
        }
        let first = self.alone.first();
        for (step, sample) in self.steps.iter().chain(&self.extras).zip(&self.alone).skip(1) {
            rows.push(self.row(&format!("first and {}", step.title), sample, first, &self.alone_floor)?);
        }
        Ok(rows)
    }

    fn row(&self, title: &str, sample: &Sample, before: Option<&Sample>, floor: &NoiseFloor) -> anyhow::Result<Row> {
        let figure = Figure::new(&sample.summary().with_context(|| sample.id.clone())?, "ticks/frame");
        let mut row = Row::new(&sample.id, &self.title(title), figure);
        row.vs_previous = before.map(|before| Change::paired(before, sample, floor)).transpose()?;
        Ok(row)
    }

    fn title(&self, title: &str) -> String {
        format!("{} ports: {title}", self.ports)
    }

    /// Lists the rungs that are not shown to be faster than the previous rung, with their ratios to
    /// it.
    pub(super) fn without_effect(&self) -> anyhow::Result<String> {
        let mut none = Vec::new();
        for (pair, step) in self.main.windows(2).zip(self.steps.iter().skip(1)) {
            let [before, sample] = pair else { continue };
            let change = Change::paired(before, sample, &self.floor)?;
            if change.lo <= 1.0 || change.verdict != Verdict::Faster {
                none.push(format!("{} {}", step.id, change.show(3)));
            }
        }
        let which = if none.is_empty() { "none".to_owned() } else { none.join(", ") };
        Ok(format!(
            "{} ports, rungs not shown to be faster than the one before, ratios: {which}. T7 reduces missed frames, T11 affects \
             the bus only",
            self.ports
        ))
    }

    /// Lists the ticks per frame at each prefetch distance of T10.
    pub(super) fn distances(&self) -> String {
        let each: Vec<String> = self.sweep.iter().map(|(distance, ticks)| format!("{distance}: {ticks:.1}")).collect();
        format!(
            "{} ports, T10, ticks by distance (0: no prefetch): {}; the ladder uses the best, measured again",
            self.ports,
            each.join(", ")
        )
    }
}
