//! The row `bridge.two_cores`.

use crate::result::{Figure, Row};
use crate::rigs::{LanesRig, Leave};
use crate::run;
use crate::sample::{Ratio, Sample, StatError};
use crate::subject::Subject;
use crate::timer;

const ID: &str = "bridge.two_cores";
const TITLE: &str = "frames a second of two loops on two cores, each with two ports of a switch, as times one loop's";

/// Two loops against one, in turns; across loops as a note.
///
/// # Errors
/// A frame was lost.
pub(super) fn row(options: &run::Options, notes: &mut Vec<String>) -> anyhow::Result<Row> {
    if dispatch::cores() < 2 {
        return Ok(Row::missing(ID, TITLE, "skipped: this machine has one core"));
    }
    // Loops have their own threads: the measuring thread sleeps, so its CPU share is no sign of disturbance.
    let options = run::Options { min_cpu_share: None, cpu: None, ..options.clone() };
    let mut subjects: Vec<Box<dyn Subject>> = vec![
        Box::new(LanesRig::new("lanes.one", 1, Leave::Same)?),
        Box::new(LanesRig::new("lanes.two", 2, Leave::Same)?),
        Box::new(LanesRig::new("lanes.across", 2, Leave::Across)?),
        Box::new(LanesRig::with_workers("lanes.worker", 1)?),
    ];
    let samples = run::interleave(&mut subjects, &options, &mut |_| ())?;
    let [one, two, across, worker] = samples.as_slice() else { anyhow::bail!("no samples of loops") };
    let [ratio, crossed, posted] = [two, across, worker].map(|two| Ratio::paired(&one.values(), &two.values()));
    let (ratio, crossed, posted) = (ratio?, crossed?, posted?);
    notes.push(format!(
        "{ID}: one loop passes {:.1} M frames/s on, two together {:.1}; {:.1} where all frames leave by the other loop's ports, \
         {:.2} [{:.2}, {:.2}] times one; a frame a place of a pair's ring, in and out, the loop of `linerate bridge` around it",
        rate(one)?,
        rate(two)?,
        rate(across)?,
        crossed.median,
        crossed.lo,
        crossed.hi
    ));
    notes.push(format!(
        "{ID}: a loop that posts to one worker passes {:.1} M frames/s on, {:.2} [{:.2}, {:.2}] times one loop that decides itself",
        rate(worker)?,
        posted.median,
        posted.lo,
        posted.hi
    ));
    let figure = Figure { median: ratio.median, lo: ratio.lo, hi: ratio.hi, n: ratio.n, unit: "times one".to_owned() };
    Ok(Row::new(ID, TITLE, figure))
}

/// Millions a second.
fn rate(sample: &Sample) -> Result<f64, StatError> {
    Ok(timer::rate().hz as f64 / sample.summary()?.median / 1e6)
}
