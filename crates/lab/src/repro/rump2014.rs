//! rump2014: what a UDP `sendto` costs, one choice after the other.

use crate::bench;
use crate::env::Environment;
use crate::ladder;
use crate::result::{Change, Figure, Report, Row};
use crate::rigs::{HostsRig, RecvRig, SharedRig};
use crate::run;
use crate::sample::{Sample, Summary};
use crate::study::{Options, Progress, Steps};
use crate::subject::Subject;
use crate::timer;
use anyhow::Context;

/// rump2014: the ladder of one UDP send, and the parts on receiving and on several cores that it announced.
///
/// # Errors
/// A rig could not be built, or lost a frame.
pub fn rump2014(options: &Options, progress: &mut dyn FnMut(Progress)) -> anyhow::Result<Report> {
    let env = Environment::detect(); // before the trials: their load is ours
    let run_options = options.run(20);
    let mut steps = Steps::new(ladder::parts() + 2, progress);
    let climbed = ladder::climb(&run_options, &mut steps)?;
    let mut rows = climbed.rows;
    let mut notes = vec![ladder::CONVENTION.to_owned()];
    notes.extend(climbed.notes);
    let sends = rows.iter().filter_map(|row| row.now.as_ref()).map(|now| now.median).fold(f64::INFINITY, f64::min);
    let hertz = timer::rate().hz as f64;
    notes.push(format!(
        "fewest ticks per sendto: {sends:.1}, {:.1} M sends/s; the report's best: 2357 cycles, 1.04 M sends/s",
        hertz / sends / 1e6
    ));
    steps.next("part 2: receiving");
    let mut one: Vec<Box<dyn Subject>> = vec![Box::new(RecvRig::new("part2.one_thread", 1)?)];
    let samples = run::interleave(&mut one, &run_options, &mut |_| ())?;
    let figure = rate_figure(samples.first().context("no sample")?)?;
    rows.push(Row::new("part2.one_thread", "receive: generator, input and recvfrom on one thread", figure));
    let mut two = bench::two_threads(&run_options)?;
    two.id = "part2.two_threads".to_owned();
    rows.push(two);
    steps.next("part 3: several cores");
    rows.extend(cores(&run_options, &climbed.floor)?);
    notes.push(
        "part 2 and 3 were announced in the report and not measured there: 'easier and more performance to structure things so \
         that you just run multiple disjoint networking stacks'"
            .to_owned(),
    );
    Ok(Report {
        name: "repro rump2014".to_owned(),
        env,
        noise_floor: climbed.floor,
        rows,
        peers: Vec::new(),
        notes,
        beside: None,
    })
}

fn rate_figure(sample: &Sample) -> anyhow::Result<Figure> {
    let hertz = timer::rate().hz as f64;
    let rates: Vec<f64> = sample.values().iter().map(|ticks| hertz / ticks / 1e6).collect();
    Ok(Figure::new(&Summary::of(&rates)?, "M/s"))
}

/// 1..n disjoint hosts against one shared host entered by as many threads.
fn cores(options: &run::Options, floor: &crate::verdict::NoiseFloor) -> anyhow::Result<Vec<Row>> {
    let options = run::Options { min_cpu_share: None, cpu: None, ..options.clone() };
    let most = dispatch::cores().min(4);
    let mut subjects: Vec<Box<dyn Subject>> = Vec::new();
    let mut titles = Vec::new();
    for n in 1..=most {
        subjects.push(Box::new(HostsRig::new(&format!("part3.hosts_{n}"), n, "locks=up")?));
        titles.push(format!("{n} disjoint host{} on as many cores", if n == 1 { "" } else { "s" }));
    }
    for n in 1..=most {
        subjects.push(Box::new(SharedRig::new(&format!("part3.shared_{n}"), n, "locks=light")?));
        titles.push(format!("one shared host, {n} thread{}", if n == 1 { "" } else { "s" }));
    }
    let samples = run::interleave(&mut subjects, &options, &mut |_| ())?;
    let mut rows = Vec::new();
    let mut before: Option<&Sample> = None;
    for (sample, title) in samples.iter().zip(&titles) {
        let mut row = Row::new(&sample.id, title, rate_figure(sample)?);
        row.vs_previous = before.map(|before| Change::paired(before, sample, floor)).transpose()?;
        rows.push(row);
        before = Some(sample);
    }
    Ok(rows)
}
