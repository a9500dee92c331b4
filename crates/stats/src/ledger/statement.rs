//! Statement of a ledger: the cost of each stage without the ledger's own cost, the ledger's own
//! cost, and the unexplained rest of a separately measured total.

use super::{Ledger, Probe, Stage, StageCost};

/// One stage of a [`Statement`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Stage that was measured.
    pub stage: Stage,
    /// Ticks of the measured work: the booked ticks minus those of the ledger's readings.
    pub ticks: u64,
    /// Number of frames, packets or calls that spent the ticks.
    pub units: u64,
    /// Ticks of the ledger's own readings, which were subtracted.
    pub probes: u64,
}

/// Ticks by stage, the ledger's own ticks, and the unexplained rest. Their sum is exactly the
/// total.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// Costs of the stages, in the order of the path.
    pub rows: Vec<Row>,
    /// Number of readings of the tick counter.
    pub readings: u64,
    /// Ticks of all counter readings: the ticks subtracted from the rows, and the ticks of readings
    /// that booked nothing.
    pub probes: u64,
    /// Total ticks, measured by the caller, including the ledger's own.
    pub total: u64,
    /// Total minus the rows and the ledger's own ticks: time spent outside of all stages. Negative
    /// if more ticks were subtracted for the readings than the readings cost.
    pub unexplained: i64,
}

/// Sum of the costs of several ledgers, such as the ledgers of all threads of a host, or of all
/// loops of a switch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// Stages with bookings, in the order of the path.
    pub stages: Vec<StageCost>,
    /// Number of readings of the tick counter.
    pub readings: u64,
    /// Ticks for which the ledgers were on, summed over the ledgers with bookings.
    pub on_for: u64,
}

impl Costs {
    /// Returns the sum of the costs of `ledgers`. `on_for` covers the time up to `now`, a reading
    /// of the tick counter.
    pub fn of<'a>(ledgers: impl IntoIterator<Item = &'a Ledger>, now: u64) -> Costs {
        let mut all = Costs::default();
        for ledger in ledgers {
            let (stages, readings) = (ledger.costs().collect(), ledger.readings());
            let on_for = if readings > 0 { ledger.on_for(now) } else { 0 };
            all.add(&Costs { stages, readings, on_for });
        }
        all
    }

    /// Adds the costs of other ledgers.
    pub fn add(&mut self, other: &Costs) {
        self.readings += other.readings;
        self.on_for += other.on_for;
        other.stages.iter().for_each(|cost| self.add_stage(*cost));
        self.stages.sort_by_key(|cost| cost.stage as usize);
    }

    fn add_stage(&mut self, cost: StageCost) {
        match self.stages.iter_mut().find(|sum| sum.stage == cost.stage) {
            Some(sum) => {
                sum.ticks += cost.ticks;
                sum.units += cost.units;
                sum.bookings += cost.bookings;
            }
            None => self.stages.push(cost),
        }
    }

    /// Adds the counter readings of `parts` to the stages that contain these parts
    /// ([`Stage::PortTake`] is a part of [`Stage::PortRx`], and so on), so that a statement also
    /// subtracts their cost from the containing stages.
    #[must_use]
    pub fn around(mut self, parts: &Costs) -> Costs {
        self.readings += parts.readings;
        for (cost, (stage, each)) in parts.stages.iter().filter_map(|cost| Some((cost, cost.stage.within()?))) {
            if let Some(outer) = self.stages.iter_mut().find(|outer| outer.stage == stage) {
                outer.bookings += cost.bookings * each;
            }
        }
        self
    }

    /// Returns the costs booked since `before`, which is an earlier state of the same ledgers.
    pub fn since(&self, before: &Costs) -> Costs {
        let zero = |stage| StageCost { stage, ticks: 0, units: 0, bookings: 0 };
        let of = |now: &StageCost| {
            let old = before.stages.iter().find(|old| old.stage == now.stage).copied().unwrap_or(zero(now.stage));
            StageCost {
                stage: now.stage,
                ticks: now.ticks - old.ticks,
                units: now.units - old.units,
                bookings: now.bookings - old.bookings,
            }
        };
        Costs {
            stages: self.stages.iter().map(of).filter(|cost| cost.bookings > 0).collect(),
            readings: self.readings - before.readings,
            on_for: self.on_for - before.on_for,
        }
    }

    /// Returns the statement of these costs. `probe` is the cost of one reading; `total` is the
    /// total number of ticks.
    pub fn statement(&self, probe: Probe, total: u64) -> Statement {
        Statement::new(self.stages.iter().copied(), self.readings, probe, total)
    }
}

impl Statement {
    /// Returns the statement of `costs`, with `readings` counter readings that cost `probe` each.
    /// `total` is the total number of ticks.
    pub fn new(costs: impl IntoIterator<Item = StageCost>, readings: u64, probe: Probe, total: u64) -> Statement {
        let of = |readings: u64| (readings as f64 * probe.0).round() as u64;
        let (mut rows, mut booked, mut bookings) = (Vec::new(), 0, 0);
        for cost in costs {
            let probes = of(cost.bookings).min(cost.ticks); // at most the booked ticks
            rows.push(Row { stage: cost.stage, ticks: cost.ticks - probes, units: cost.units, probes });
            (booked, bookings) = (booked + cost.ticks, bookings + cost.bookings);
        }
        let between = of(readings.saturating_sub(bookings));
        let probes = rows.iter().map(|row| row.probes).sum::<u64>() + between;
        let unexplained = total as i64 - booked as i64 - between as i64;
        Statement { rows, readings, probes, total, unexplained }
    }

    /// Returns the sum of the ticks of all rows.
    pub fn explained(&self) -> u64 {
        self.rows.iter().map(|row| row.ticks).sum()
    }

    /// Returns the ticks of one stage.
    pub fn ticks(&self, stage: Stage) -> u64 {
        self.rows.iter().find(|row| row.stage == stage).map_or(0, |row| row.ticks)
    }

    /// Returns the unexplained rest as a fraction of the total: 0.05 for 5 %.
    pub fn unexplained_share(&self) -> f64 {
        self.unexplained as f64 / self.total.max(1) as f64
    }
}
