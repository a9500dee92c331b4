//! Additional tables: the counts of each rung, the parts of its time, and a comparison with the
//! report's figures.

use super::climb::Climbed;
use super::memory::Dma;
use super::paced::{Paced, Then};
use crate::result::{Cell, Change, Sheet};
use crate::sample::{Ratio, Sample, StatError, Summary};
use crate::timer;
use anyhow::Context;

/// Targets at the last rung: ticks per frame, and ratio to the first rung.
const TARGET_TICKS: f64 = 100.0;
const TARGET_TIMES: f64 = 12.0;
/// Clock rate of the report's bus, in hertz.
const BUS_HERTZ: f64 = 100e6;

fn hertz() -> f64 {
    timer::rate().hz as f64
}

fn head(columns: &[&str]) -> Vec<String> {
    columns.iter().map(|&column| column.to_owned()).collect()
}

/// Returns the table of the operations that cards and drivers counted.
pub(super) fn costs(climbed: &Climbed) -> anyhow::Result<Sheet> {
    let steps = climbed.steps.iter().chain(&climbed.extras);
    let samples = climbed.main.iter().chain(&climbed.main_extras).map(Some).chain(std::iter::repeat(None));
    let mut rows = Vec::new();
    for (at, ((step, sample), costs)) in steps.zip(samples).zip(&climbed.costs).enumerate() {
        // T11 changes nothing that the processor waits for, so its ticks equal those of T10.
        let ticks = match sample {
            Some(sample) => Cell::from(sample.summary()?.median),
            None => "as t10".into(),
        };
        let rate = sample.map(|sample| Ok::<_, StatError>(hertz() / sample.summary()?.median / 1e6)).transpose()?;
        let missed = climbed
            .stalls
            .get(at)
            .map_or("-".into(), |stall| Cell::from(format!("{} of {}", stall.missed, stall.came)));
        let driver = [costs.doorbells, costs.register_reads, costs.interrupts];
        let memory = [costs.links_read, costs.headers_written, costs.from_stock, costs.early_reads, costs.prefetches];
        let bus = [costs.writebacks, costs.fetches, costs.bus_clocks];
        let counted = driver.into_iter().chain(memory).chain(bus);
        let mut row: Vec<Cell> = vec![step.id.as_str().into(), ticks, rate.map_or("as t10".into(), Cell::from)];
        row.extend(counted.map(Cell::from));
        row.extend([(costs.bus_allows / 1e6).into(), missed]);
        rows.push(row);
    }
    let columns = [
        "rung",
        "ticks",
        "Mframe/s",
        "doorbells",
        "register reads",
        "interrupts",
        "links read",
        "headers written",
        "from stack",
        "read early",
        "prefetched",
        "write-backs",
        "descriptor reads",
        "bus clocks",
        "bus allows Mframe/s",
        "missed in 2 ms",
    ];
    let title = format!(
        "{} ports, dma={}, one core: cost of a bridged frame, received and sent; Mframe/s of all ports together",
        climbed.ports,
        climbed.dma.word()
    );
    Ok(Sheet { title, head: head(&columns), rows })
}

/// Ticks per frame of a rung, by cause.
struct Parts {
    all: f64,
    registers: f64,
    memory: f64,
    cycles: f64,
    /// Ticks for which a frame uses the bus. The bus works in parallel with the processor, except
    /// while the processor waits for it.
    bus: f64,
    /// Ticks per frame in the measurement with waits for the bus.
    paced: f64,
    /// Indices in [`PARTS`] of the largest part; several indices if no part is clearly the largest.
    largest: Vec<usize>,
}

/// Parts of the processor's time, in the order in which they become the bottleneck according to the
/// report.
const PARTS: [&str; 3] = ["registers", "memory", "cycles"];

/// Returns the largest parts: those for which no other part is larger in four fifths or more of the
/// rounds.
fn largest(rounds: [&[f64]; 3]) -> Vec<usize> {
    let loses = |part: usize, other: usize| {
        let [mine, others] = [rounds[part], rounds[other]];
        let more = mine.iter().zip(others).filter(|(mine, other)| other > mine).count();
        5 * more >= 4 * mine.len()
    };
    (0..3).filter(|part| !(0..3).any(|other| other != *part && loses(*part, other))).collect()
}

/// Returns whether the largest part changes from rung to rung in the report's order: from the first
/// part to the second and then to the third, never back.
fn is_in_order<'a>(rungs: impl Iterator<Item = &'a [usize]>) -> bool {
    let (mut stage, mut seen) = (0, [false; 3]);
    for largest in rungs {
        let Some(next) = largest.iter().find(|part| **part >= stage) else { return false };
        stage = *next;
        seen[stage] = true;
    }
    seen == [true; 3]
}

impl Parts {
    fn all_of(climbed: &Climbed, paced: &Paced) -> anyhow::Result<Vec<Parts>> {
        let mut parts = Vec::new();
        let beside = climbed.other.iter().zip(&climbed.free);
        let counted = climbed.costs.iter().zip(&paced.ladder);
        for ((main, (other, free)), (costs, paced)) in climbed.main.iter().zip(beside).zip(counted) {
            let (cold, copy) = if climbed.dma == Dma::Cold { (main, other) } else { (other, main) };
            let (registers, memory) = (less(copy, free), less(cold, copy));
            let [all, cycles, paced] = [cold.summary()?.median, free.summary()?.median, paced.summary()?.median];
            let bus = costs.bus_clocks / BUS_HERTZ * hertz();
            let [cold, copy, free] = [cold.values(), copy.values(), free.values()];
            let largest = largest([&over(&copy, &free), &over(&cold, &copy), &free]);
            parts.push(Parts { all, registers, memory, cycles, bus, paced, largest });
        }
        Ok(parts)
    }

    /// Names the largest part of the processor's time, or several parts, joined by `or`, if none of
    /// them is clearly the largest.
    fn most(&self) -> String {
        let names: Vec<&str> = self.largest.iter().map(|part| PARTS[*part]).collect();
        names.join(" or ")
    }

    /// Names the limit of the rate with waits for the bus: the bus, if a frame needs it for longer
    /// than the processor, or else the processor's largest part.
    fn holds(&self) -> String {
        if self.bus > self.all { "bus".to_owned() } else { self.most() }
    }
}

/// Returns each value of `more` minus the value of `less` at the same index. A difference may be
/// negative, so differences are not compared on a logarithmic scale, as ratios are.
fn over(more: &[f64], less: &[f64]) -> Vec<f64> {
    more.iter().zip(less).map(|(more, less)| more - less).collect()
}

/// Returns the median of the paired differences of the values of `more` and `less`.
fn less(more: &Sample, less: &Sample) -> f64 {
    let mut values = over(&more.values(), &less.values());
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Returns the table that checks, rung by rung, the report's warning that the bottleneck moves.
pub(super) fn where_it_goes(climbed: &Climbed, paced: &Paced) -> anyhow::Result<Sheet> {
    let row = |(step, part): (&super::steps::Step, Parts)| -> Vec<Cell> {
        vec![
            step.id.as_str().into(),
            part.bus.into(),
            part.registers.into(),
            part.memory.into(),
            part.cycles.into(),
            part.all.into(),
            part.most().into(),
            part.paced.into(),
            (hertz() / part.paced / 1e6).into(),
            part.holds().into(),
        ]
    };
    let rows = climbed.steps.iter().zip(Parts::all_of(climbed, paced)?).map(row).collect();
    let columns = [
        "rung",
        "bus needs",
        "registers",
        "memory",
        "cycles",
        "processor, total",
        "largest part",
        "with bus waits",
        "Mframe/s",
        "limited by",
    ];
    let title = format!(
        "{} ports: ticks of a frame by cause. bus needs: counted bus clocks, as ticks of this machine. Parts of the processor's time, from interleaved trials: \
         registers: cost over free register accesses; memory: cost of dma=cold over dma=copy; cycles: the rest, with frames in \
         the cache and free registers. with bus waits: measured with processor and bus in parallel",
        climbed.ports
    );
    Ok(Sheet { title, head: head(&columns), rows })
}

/// Checks the report's warning that the bottleneck moves. Returns notes on the largest part of the
/// time at each rung, with and without waits for the bus.
pub(super) fn warning(climbed: &Climbed, paced: &Paced, two: Option<&Change>) -> anyhow::Result<Vec<String>> {
    let parts = Parts::all_of(climbed, paced)?;
    let (first, last) =
        (parts.first().context("the ladder has no rungs")?, parts.last().context("the ladder has no rungs")?);
    let series = |which: fn(&Parts) -> String| -> String {
        let mut runs: Vec<(String, &str)> = Vec::new();
        for (step, part) in climbed.steps.iter().zip(&parts) {
            if runs.last().is_none_or(|(name, _)| *name != which(part)) {
                runs.push((which(part), &step.id));
            }
        }
        let each: Vec<String> = runs.iter().map(|(name, from)| format!("{name} from {from} on")).collect();
        each.join(", ")
    };
    let in_order = is_in_order(parts.iter().map(|part| part.largest.as_slice()));
    let order = if in_order { "the report's order" } else { "not the report's order" };
    let then = match two {
        Some(change) => {
            format!("then several processors: two loops on two cores reach {} times one loop", change.show(2))
        }
        None => "then several processors: not measured, needs two cores".to_owned(),
    };
    let ports = climbed.ports;
    let own = format!(
        "{ports} ports, the report: first the bus, then memory (after T1 to T3), then cycles. Here, largest part of the processor's time (waits for \
         the bus count as registers; a part must be the largest in four of five rounds): {}: {order}; {then}",
        series(Parts::most)
    );
    let bound = parts.iter().filter(|part| part.holds() == "bus").count();
    let whole = format!(
        "{ports} ports, with waits for the bus of 2004: {}. The bus needs {:.0} of this machine's ticks per frame at the first rung and {:.0} at the last, the \
         processor {:.0} and {:.0}: the bus limits {bound} of {} rungs, since this processor is faster than the report's Xeon and the bus is not; \
         two loops on two cores cannot gain there",
        series(Parts::holds),
        first.bus,
        last.bus,
        first.all,
        last.all,
        parts.len()
    );
    Ok(vec![own, whole])
}

/// Compares the gain from T11 (a faster bus) with the report's.
pub(super) fn faster_bus(paced: &Paced, then: Then, ports: usize) -> anyhow::Result<String> {
    let [last, faster, ahead] = paced.ends().context("no figures of T11")?;
    let rate = |sample: &Sample| -> anyhow::Result<f64> { Ok(paced.rate(sample)?.median) };
    let both = Ratio::paired(&last.values(), &ahead.values())?;
    let report = match then.with {
        Some(with) => format!("{:.0} and {with:.0}, {:.2} times", then.without, with / then.without),
        None => format!("{:.0} without, none with it", then.without),
    };
    Ok(format!(
        "{ports} ports, T11, thousand frames per second and port, with waits for the bus: {:.0} without, {:.0} at 133 MHz, {:.0} also with \
         prefetched descriptors: {} times. The report: {report}. The model's bus clocks are minimum values, without waits for an \
         arbiter or a chipset, so these rates are upper limits",
        rate(last)?,
        rate(faster)?,
        rate(ahead)?,
        both.show(2)
    ))
}

/// Returns the table that compares the figures with those of the report and with the targets.
pub(super) fn then_and_now(ends: &[Climbed], then: &[(usize, f64)]) -> anyhow::Result<Sheet> {
    let mut rows = Vec::new();
    for (climbed, (ports, cycles)) in ends.iter().zip(then) {
        let (first, last) = (
            climbed.main.first().context("the ladder has no rungs")?,
            climbed.main.last().context("the ladder has no rungs")?,
        );
        let ticks = last.summary()?;
        let better = Ratio::paired(&first.values(), &last.values())?;
        rows.push(vec![
            format!("{ports} ports").into(),
            format!("{cycles:.0} cycles, {:.1} Mframe/s", 2800.0 / cycles).into(),
            format!("{:.1} ticks, {:.1} Mframe/s", ticks.median, hertz() / ticks.median / 1e6).into(),
            format!("{:.1}", cycles / ticks.median).into(),
            at_most(&ticks, TARGET_TICKS).into(),
            better.show(1).into(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_part_must_be_largest_in_most_rounds() {
        let (small, large, mixed) = ([1.0, 1.0, 1.0, 1.0, 1.0], [3.0, 3.0, 3.0, 3.0, 0.0], [4.0, 4.0, 2.0, 2.0, 2.0]);
        assert_eq!(largest([&small, &large, &small]), [1]);
        assert_eq!(largest([&small, &large, &mixed]), [1, 2], "each is the larger one in two or three of five");
        assert_eq!(largest([&large, &small, &small]), [0]);
    }

    #[test]
    fn the_reports_order_needs_all_three_parts_without_a_return() {
        let in_order = |rungs: &[&[usize]]| is_in_order(rungs.iter().copied());
        assert!(in_order(&[&[0], &[1], &[1], &[2]]));
        assert!(in_order(&[&[0], &[1], &[1, 2], &[1], &[2]]), "what may be either goes with its neighbours");
        assert!(!in_order(&[&[0], &[1], &[2], &[1], &[2]]), "back to memory");
        assert!(!in_order(&[&[0], &[2]]), "memory is missing");
        assert!(!in_order(&[&[0], &[1]]), "cycles are missing");
    }
}
