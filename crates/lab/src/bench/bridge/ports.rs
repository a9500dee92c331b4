//! The rows `xdp.forward`, `packet.forward` and `tap.forward`: a switch between kernel devices,
//! compared with a bare loop over the same ports and with the kernel's bridge.

use crate::native::forward::{Bench, FRAMES, Forward, Kind, LoopCosts, Part, Who};
use crate::result::{Cell, Sheet};
use crate::run;
use crate::side::{Shared, Side};
use crate::study::{Group, Study, Unit};
use std::cell;
use std::rc::Rc;

const TABLE: &str = "between devices of the kernel: ticks per frame, from a packet socket to the far device; a \
                     ratio above 1: our bridge takes fewer";
const COLUMNS: [&str; 6] =
    ["row", "our bridge", "the kernel's bridge", "kernel / ours", "bare loop, no bridge", "bare / ours"];

/// Number of runs with the cost ledger (ticks by processing stage) on. They follow the trials, so
/// that no trial includes them.
const LEDGER_RUNS: u64 = 8;

/// A kind of port to compare with the kernel's bridge and the bare loop, with the name and the
/// titles of its rows.
struct Contest {
    kind: Kind,
    name: &'static str,
    whole: &'static str,
    looped: &'static str,
}

const CONTESTS: [Contest; 3] = [
    Contest {
        kind: Kind::Xdp,
        name: "xdp.forward",
        whole: "learning bridge between veths by xdp:, 64-byte frames, from a packet socket to the far device",
        looped: "of that, the loop: receive, bridge, send; the kernel's part of sending included",
    },
    Contest {
        kind: Kind::Packet,
        name: "packet.forward",
        whole: "learning bridge between veths by packet:, 64-byte frames",
        looped: "of that, the loop",
    },
    Contest {
        kind: Kind::Tap,
        name: "tap.forward",
        whole: "learning bridge between TAP devices by tap:, 64-byte frames",
        looped: "of that, the loop",
    },
];

/// Adds the rows, the table that compares all kinds of ports, and a note on the method.
pub(super) fn rows(study: &mut Study<'_>, options: &run::Options, core: usize) {
    // The measuring thread sleeps while its children work; each child reports its own CPU time.
    let options = run::Options { cpu: None, ..options.clone() };
    let mut table = Sheet { title: TABLE.to_owned(), head: COLUMNS.map(str::to_owned).to_vec(), rows: Vec::new() };
    for contest in &CONTESTS {
        table.rows.push(contest.hold(study, &options, core));
    }
    study.beside().sheets.insert(0, table);
    study.note(
        "forward: one core does three steps in turn: frames from 1,000 stations are sent with sendmmsg, forwarded, \
         and counted at the far device. *.forward is the time of sending and forwarding, *.loop that of forwarding \
         alone. kernel: its bridge over such veths, which runs within the sender's call; it is the peer of tap, \
         too, since between TAP devices the kernel needs a program at either end. bare.xdp returns each frame to the device that it came from; \
         bare.tap has two devices in each direction",
    );
}

/// Returns the name and the port kind of each row.
#[cfg(test)]
pub(super) fn contests() -> Vec<(&'static str, Kind)> {
    CONTESTS.iter().map(|contest| (contest.name, contest.kind)).collect()
}

impl Contest {
    /// Measures this kind of port and returns its row of the comparison table.
    fn hold(&self, study: &mut Study<'_>, options: &run::Options, core: usize) -> Vec<Cell> {
        let (name, inner) = (self.name, format!("{}.loop", self.name));
        let (ours, bare, kernel) = (Who::Ours(self.kind), Who::Bare(self.kind), Who::Kernel);
        let [ours, bare, kernel] = [ours, bare, kernel].map(|who| Shared::new(move || Bench::start(who)));
        // Ticks of Bridge::input and the number of frames, summed over all builds.
        let bridge = Rc::new(cell::Cell::new([0u64; 2]));
        let side = |id: String, bench: &Shared<Bench>, part: Part| {
            let (bench, name) = (bench.clone(), id.clone());
            Side::new(id, move || Ok(Forward::new(&name, &bench.get()?, part, core)))
        };
        let looped = {
            let (bench, name, sum) = (ours.clone(), inner.clone(), Rc::clone(&bridge));
            Side::new(inner.clone(), move || Ok(Forward::new(&name, &bench.get()?, Part::Loop, core).adding_to(&sum)))
        };
        let sides = vec![
            side(name.to_owned(), &ours, Part::Whole),
            side(format!("bare.{name}"), &bare, Part::Whole),
            looped,
            side(format!("bare.{inner}"), &bare, Part::Loop),
            side(format!("kernel.{name}"), &kernel, Part::Whole),
        ];
        let group = study.measure_with(sides, options.clone());
        study.row(&group, name, self.whole, Unit::TICKS);
        study.row(&group, &inner, self.looped, Unit::TICKS);
        match self.parts(&group, bridge.get()) {
            Ok(text) => study.note(text),
            Err(why) => study.note(format!("{name}: {why:#}")),
        }
        match ours.get().and_then(|bench| self.stages(&mut bench.borrow_mut(), core, &group)) {
            Ok(sheet) => study.beside().sheets.push(sheet),
            Err(why) => study.note(format!("{name}: no stages: {why:#}")),
        }
        self.line(&group)
    }

    /// Returns the line of the comparison table: ticks per frame of our bridge, of the kernel's
    /// bridge and of the bare loop, and the ratios of the latter two to ours.
    fn line(&self, group: &Group) -> Vec<Cell> {
        let name = self.name;
        let figure = |id: &str| group.sample(id).summary().map_or("-".into(), |summary| Cell::from(summary.median));
        let times = |id: &str| match group.ratio(id, name) {
            Ok(ratio) => ratio.show(2).into(),
            Err(_) => Cell::from("-"),
        };
        let (kernel, bare) = (format!("kernel.{name}"), format!("bare.{name}"));
        vec![name.into(), figure(name), figure(&kernel), times(&kernel), figure(&bare), times(&bare)]
    }

    /// Returns the table of the loop's ticks by processing stage, from its cost ledger.
    fn stages(&self, ours: &mut Bench, core: usize, group: &Group) -> anyhow::Result<Sheet> {
        let LoopCosts { stages, readings, probes } = ours.costs(LEDGER_RUNS * FRAMES, core)?;
        let inner = format!("{}.loop", self.name);
        let (all, without) =
            (group.sample(&inner).summary()?.median, group.sample(&format!("bare.{inner}")).summary()?.median);
        let booked: f64 = stages.iter().filter(|stage| !stage.within).map(|stage| stage.ticks).sum();
        let row = |stage: String, ticks: f64, what: &str| vec![stage.into(), ticks.into(), what.into()];
        let mut rows: Vec<Vec<_>> = Vec::new();
        for stage in stages {
            rows.push(row(stage.stage, stage.ticks, if stage.within { "within port.rx, port.tx" } else { "" }));
        }
        rows.push(row("all stages".to_owned(), booked, "without the ledger's own readings"));
        rows.push(row("readings of the counter".to_owned(), probes, "subtracted from the stages"));
        rows.push(row("the loop, ledger off".to_owned(), all, "from the trials of the row above"));
        rows.push(row("bare loop".to_owned(), without, "receive, swap, send: no pool, no frames, no bridge"));
        let title = format!(
            "{}: ticks per frame in our loop, by stage; from {} frames with the ledger on, {readings:.2} readings \
             of the counter per frame. The bare loop includes these parts, too: taking from one ring, filling the \
             other, the kernel's call",
            self.name,
            LEDGER_RUNS * FRAMES
        );
        Ok(Sheet { title, head: ["stage", "ticks", ""].map(str::to_owned).to_vec(), rows })
    }

    /// Returns a sentence on the share of the loop's ticks that Bridge::input takes, and on the
    /// loop's extra cost over the bare loop.
    fn parts(&self, group: &Group, [ticks, frames]: [u64; 2]) -> anyhow::Result<String> {
        let inner = format!("{}.loop", self.name);
        let bare = format!("bare.{inner}");
        let ratio = group.ratio(&inner, &bare)?;
        let (all, without) = (group.sample(&inner).summary()?.median, group.sample(&bare).summary()?.median);
        let bridge = ticks as f64 / frames.max(1) as f64;
        Ok(format!(
            "{}: {all:.0} ticks per frame in our loop, {bridge:.0} of them in Bridge::input; {:.0} more than the bare loop's {without:.0}, \
             ratio {}; both include the kernel's copies and calls",
            self.name,
            all - without,
            ratio.show(3)
        ))
    }
}
