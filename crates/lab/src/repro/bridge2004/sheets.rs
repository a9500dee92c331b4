//! The tables beside the rows: what is counted of each rung, where its time goes, then and now.

use super::Dma;
use super::climb::Climbed;
use crate::result::{Cell, Sheet};
use crate::rigs::NicCosts;
use crate::sample::{Ratio, Sample, Summary};
use crate::timer;
use anyhow::Context;

/// What was to be reached at the last rung: ticks a frame, and times the first rung.
const TARGET_TICKS: f64 = 100.0;
const TARGET_TIMES: f64 = 12.0;
/// Clocks a second of the report's bus.
const BUS_HERTZ: f64 = 100e6;

fn hertz() -> f64 {
    timer::rate().hz as f64
}

fn head(columns: &[&str]) -> Vec<String> {
    columns.iter().map(|&column| column.to_owned()).collect()
}

/// What cards and drivers counted.
pub(super) fn costs(climbed: &Climbed) -> anyhow::Result<Sheet> {
    let steps = climbed.steps.iter().chain(&climbed.extras);
    let samples = climbed.main.iter().chain(&climbed.main_extras);
    let mut rows = Vec::new();
    for (at, ((step, sample), costs)) in steps.zip(samples).zip(&climbed.costs).enumerate() {
        let ticks = sample.summary()?.median;
        let missed = climbed
            .stalls
            .get(at)
            .map_or("-".into(), |stall| Cell::from(format!("{} of {}", stall.missed, stall.came)));
        let counted = [costs.doorbells, costs.writebacks, costs.register_reads, costs.interrupts, costs.bus_clocks];
        let mut row: Vec<Cell> = vec![step.id.as_str().into(), ticks.into(), (hertz() / ticks / 1e6).into()];
        row.extend(counted.map(Cell::from));
        row.extend([(costs.bus_allows / 1e6).into(), missed]);
        rows.push(row);
    }
    let columns = [
        "rung",
        "ticks",
        "Mframe/s",
        "doorbells",
        "write-backs",
        "register reads",
        "interrupts",
        "bus clocks",
        "bus allows Mframe/s",
        "missed in 2 ms",
    ];
    let title = format!(
        "{} ports, dma={}, one core: what a frame bridged costs, received here and sent there; Mframe/s of all ports together",
        climbed.ports,
        climbed.dma.word()
    );
    Ok(Sheet { title, head: head(&columns), rows })
}

/// A rung's ticks, by what they wait for.
struct Parts {
    all: f64,
    registers: f64,
    memory: f64,
    cycles: f64,
    /// Of the bus, which the processor does not wait for here.
    bus: f64,
}

impl Parts {
    fn all_of(climbed: &Climbed) -> anyhow::Result<Vec<Parts>> {
        let pairs = climbed.main.iter().zip(&climbed.other).zip(&climbed.free).zip(&climbed.costs);
        let part =
            |(((main, other), free), costs): (((&Sample, &Sample), &Sample), &NicCosts)| -> anyhow::Result<Parts> {
                let (cold, copy) = if climbed.dma == Dma::Cold { (main, other) } else { (other, main) };
                let bus = costs.bus_clocks / BUS_HERTZ * hertz();
                let (registers, memory) = (less(copy, free), less(cold, copy));
                Ok(Parts { all: cold.summary()?.median, registers, memory, cycles: free.summary()?.median, bus })
            };
        pairs.map(part).collect()
    }

    /// Where most of a frame's time goes, if the bus is as fast as it likes.
    fn most(&self) -> &'static str {
        let parts = [("registers", self.registers), ("memory", self.memory), ("cycles", self.cycles)];
        parts.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).map_or("-", |(name, _)| name)
    }

    /// What would hold the report's machine, with this bus: the slower of both.
    fn holds(&self) -> &'static str {
        if self.bus > self.all { "bus" } else { self.most() }
    }
}

/// What `more` costs over `less`, in the middle of all pairs. It may be below nothing: no logarithms.
fn less(more: &Sample, less: &Sample) -> f64 {
    let mut values: Vec<f64> = more.values().iter().zip(less.values()).map(|(more, less)| more - less).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The report's remark, rung by rung.
pub(super) fn where_it_goes(climbed: &Climbed) -> anyhow::Result<Sheet> {
    let row = |(step, part): (&super::steps::Step, Parts)| -> Vec<Cell> {
        vec![
            step.id.as_str().into(),
            part.all.into(),
            part.registers.into(),
            part.memory.into(),
            part.cycles.into(),
            part.most().into(),
            part.bus.into(),
            part.holds().into(),
        ]
    };
    let rows = climbed.steps.iter().zip(Parts::all_of(climbed)?).map(row).collect();
    let columns = ["rung", "ticks, cold", "registers", "memory", "cycles", "most", "bus, beside", "with the bus"];
    let title = format!(
        "{} ports: where a frame's ticks go. cycles: frames in the cache, registers free; registers: what theirs cost over that; memory: what cold \
         costs over copy; each from trials made in turn; bus: its clocks as ticks of ours, at the same time as the processor's",
        climbed.ports
    );
    Ok(Sheet { title, head: head(&columns), rows })
}

/// What the table says of the report's remark: where most goes, rung by rung.
pub(super) fn remark(climbed: &Climbed) -> anyhow::Result<String> {
    let parts = Parts::all_of(climbed)?;
    let (first, last) = (parts.first().context("no rung")?, parts.last().context("no rung")?);
    let mut runs: Vec<(&str, &str)> = Vec::new();
    for (step, part) in climbed.steps.iter().zip(&parts) {
        if runs.last().is_none_or(|(most, _)| *most != part.most()) {
            runs.push((part.most(), &step.id));
        }
    }
    let way: Vec<String> = runs.iter().map(|(most, from)| format!("{most} from {from} on")).collect();
    let bound = parts.iter().filter(|part| part.bus > part.all).count();
    Ok(format!(
        "{} ports, the report: first the bus, then memory, then cycles. Here, of the processor's time: {}. The bus of 2004 would need {:.0} ticks \
         of ours at the first rung and {:.0} at the last: it would hold this processor at {bound} of {} rungs: the report's move from the bus to \
         the processor is its Xeon's, whose figures (1.2 and 1.6 Mframe/s) are below what this bus allows",
        climbed.ports,
        way.join(", "),
        first.bus,
        last.bus,
        parts.len()
    ))
}

/// The report's figures, and what was to be reached.
pub(super) fn then_and_now(ends: &[Climbed], then: &[(usize, f64)]) -> anyhow::Result<Sheet> {
    let mut rows = Vec::new();
    for (climbed, (ports, cycles)) in ends.iter().zip(then) {
        let (first, last) = (climbed.main.first().context("no rung")?, climbed.main.last().context("no rung")?);
        let ticks = last.summary()?;
        let better = Ratio::paired(&first.values(), &last.values())?;
        rows.push(vec![
            format!("{ports} ports").into(),
            format!("{cycles:.0} cycles, {:.1} Mframe/s", 2800.0 / cycles).into(),
            format!("{:.1} ticks, {:.1} Mframe/s", ticks.median, hertz() / ticks.median / 1e6).into(),
            format!("{:.1}", cycles / ticks.median).into(),
            at_most(&ticks, TARGET_TICKS).into(),
            format!("{:.1} [{:.1}, {:.1}]", better.median, better.lo, better.hi).into(),
            at_least(&better, TARGET_TIMES).into(),
        ]);
    }
    let columns = [
        "bridge",
        "then",
        "now, last rung",
        "cycles then / ticks now",
        "at most 100 ticks",
        "times the first rung",
        "at least 12 times",
    ];
    Ok(Sheet { title: "then and now".to_owned(), head: head(&columns), rows })
}

fn at_most(figure: &Summary, target: f64) -> &'static str {
    verdict(figure.hi <= target, figure.lo > target)
}

fn at_least(ratio: &Ratio, target: f64) -> &'static str {
    verdict(ratio.lo >= target, ratio.hi < target)
}

fn verdict(met: bool, missed: bool) -> &'static str {
    match (met, missed) {
        (true, _) => "met",
        (_, true) => "missed",
        _ => "inconclusive",
    }
}
