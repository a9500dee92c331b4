//! `linerate ladder`: applies one setting after the other. Each step (rung) is compared with the
//! best rung so far, and its setting is kept or rejected by the verdict.
//!
//! Rungs 0 to 6 are those of the report rump2014; the other rungs are additions of this project.
//! Rungs that need other compiler options are libraries and programs built by `cargo xtask ladder`,
//! which run in a new process in each round. From rung 2b on, the rig is linked into this program.
//! A slower rung is not kept, as in the report. Rungs are ordered so that each can have an effect:
//! the context is fetched only with locks, so it comes before `locks=up`. Prefetching and huge
//! pages matter only for buffers outside the cache, so they are measured on a rig that rotates more
//! buffers than fit into the last-level cache.

mod steps;

use crate::result::{Cell, Report, Sheet};
use crate::rigs::{BuiltSend, SendRig};
use crate::run;
use crate::sample::{Sample, Summary, Trial};
use crate::side::Side;
use crate::source::Source;
use crate::study::{Options, Progress, Study, Unit};
use crate::subject::Subject;
use crate::timer;
use crate::verdict::Verdict;
use std::path::PathBuf;
use steps::{Build, COLD, START, STEPS, Step};

/// The fastest rung so far: its name, its build and its settings.
#[derive(Clone)]
struct Best {
    id: &'static str,
    build: Build,
    words: String,
}

/// Measures all rungs (the settings of the ladder, in order) and adds rows, notes and the table of
/// rates to `study`.
pub(crate) fn climb(study: &mut Study<'_>, source: Option<PathBuf>) {
    study.part("building the rungs with other build options");
    let source = Source::build(source.as_deref()).map_err(|why| format!("{why:#}"));
    if let Err(why) = &source {
        study.note(format!("rungs with other build options are left out: {why}"));
    }
    let mut best: Option<Best> = None;
    let mut rates = Vec::new();
    for step in STEPS {
        study.part(step.title);
        if let Some(tried) = attempt(study, step, best.as_ref(), &source) {
            rates.push(rates_row(step, &tried.sample));
            if let Some(note) = product(&tried.sample).and_then(|product| product_note(step.id, product)) {
                study.note(note);
            }
            if !tried.slower && !step.is_side() {
                best = Some(tried.best);
            } else if tried.slower && !step.is_side() {
                study.note(format!("{} is slower: not kept", step.id));
            }
        }
    }
    let Some(best) = best else { return };
    cold(study, &best, &mut rates);
    study.note(format!("the best rung is {}, with the settings {}", best.id, best.words));
    study.beside().sheets.push(Sheet {
        title: "ticks and rates of every rung; then: the report rump2014; now: this run; product: ticks times sends per second, divided by \
                the tick rate (the rest up to 1 is time outside the timed calls)"
            .to_owned(),
        head: ["rung", "cycles then", "sends/s then", "product then", "ticks now", "sends/s now", "product now"]
            .map(str::to_owned)
            .to_vec(),
        rows: rates,
    });
    match SendRig::new("each", &best.words, false) {
        Ok(mut rig) => study.note(format!(
            "measured with the report's method, a counter reading before and after every sendto: {:.1} ticks, after subtracting the {} \
             ticks of an empty pair of fenced readings; {:.0} lock acquisitions per call",
            rig.ticks_each_call(),
            timer::cost(),
            rig.acquisitions_per_call()
        )),
        Err(why) => study.note(format!("measurement with the report's method failed: {why:#}")),
    }
}

struct Tried {
    sample: Sample,
    slower: bool,
    best: Best,
}

/// Measures a step interleaved with the best rung so far; `None` if the step could not be measured.
fn attempt(study: &mut Study<'_>, step: &Step, best: Option<&Best>, source: &Result<Source, String>) -> Option<Tried> {
    let words = format!("{} {}", best.map_or(START, |best| &best.words), step.words);
    let build = match best {
        Some(best) if step.is_side() => best.build,
        _ => step.build,
    };
    let mut sides: Vec<Side> = best.map(|best| side(best.id, best.build, &best.words, source)).into_iter().collect();
    sides.push(side(step.id, build, &words, source));
    let group = study.compare(sides);
    let row = match best {
        Some(best) => group.against(step.id, step.title, Unit::TICKS, best.id),
        None => group.row(step.id, step.title, Unit::TICKS),
    };
    let row = match step.then {
        Some((cycles, _)) => row.then(cycles, "cycles/op"),
        None => row,
    };
    let slower = row.vs_previous.as_ref().is_some_and(|change| change.verdict == Verdict::Slower);
    let measured = row.now.is_some();
    study.rows([row]);
    let best = Best { id: step.id, build, words };
    measured.then(|| Tried { sample: group.sample(step.id), slower, best })
}

/// Measures prefetching and huge pages with buffers that are not in the cache. The best rung is run
/// with buffer rotation alone, with prefetching, with huge pages, and with both.
fn cold(study: &mut Study<'_>, best: &Best, rates: &mut Vec<Vec<Cell>>) {
    study.part("buffers outside the cache");
    let rotate = steps::rotation(cache_bytes());
    let none = Err("not built".to_owned());
    let words = |step: &Step| format!("{} rotate={rotate} {}", best.words, step.words);
    let sides = COLD.iter().map(|step| side(step.id, best.build, &words(step), &none)).collect();
    let usual = study.options();
    // Each side has half a gigabyte of buffers and takes half a second to build.
    let group = study.compare_with(sides, run::Options { keep: usual.keep.min(12), ..usual });
    for (at, step) in COLD.iter().enumerate() {
        let row = if at == 0 {
            group.row(step.id, step.title, Unit::TICKS)
        } else {
            group.against(step.id, step.title, Unit::TICKS, COLD[0].id)
        };
        rates.push(rates_row(step, &group.sample(step.id)));
        study.rows([row]);
    }
    let (touched, cache) = (rotate * steps::TOUCHED, cache_bytes());
    study.note(format!(
        "cold.*: {rotate} buffers of 2 KiB in rotation, {} MiB of lines touched, last-level cache {} MiB{}; compared with cold.none",
        touched >> 20,
        cache >> 20,
        if touched > cache { "" } else { ": all fit into the cache, so these rungs do not measure cache misses" }
    ));
}

/// Returns the size of processor 0's last-level cache in bytes; 32 MiB if it cannot be read.
fn cache_bytes() -> usize {
    let of = |level: u32| {
        let text = std::fs::read_to_string(format!("/sys/devices/system/cpu/cpu0/cache/index{level}/size")).ok()?;
        text.trim().strip_suffix('K')?.parse::<usize>().ok()
    };
    (2..5).rev().find_map(of).map_or(32 << 20, |kib| kib << 10)
}

fn side(id: &'static str, build: Build, words: &str, source: &Result<Source, String>) -> Side {
    let (words, source) = (words.to_owned(), source.clone());
    Side::new(id, move || {
        let rung = |variant, file| -> anyhow::Result<PathBuf> {
            source.as_ref().map_err(|why| anyhow::anyhow!("{why}"))?.rung(variant, file)
        };
        Ok(match build {
            Build::Library(variant) => {
                Box::new(BuiltSend::library(id, &rung(variant, "liblinerate_rung.so")?, &words)?) as Box<dyn Subject>
            }
            Build::Program(variant) => Box::new(BuiltSend::program(id, &rung(variant, "linerate-rung")?, &words)?),
            Build::Linked => Box::new(SendRig::new(id, &words, false)?),
            Build::LinkedBursts => Box::new(SendRig::new(id, &words, true)?),
        })
    })
}

/// Clock rate in Hz of the machine in the report rump2014, a Core 2 Duo T9400.
const THEN_HZ: f64 = 2.53e9;

/// Returns a rung's row of the table of rates; sends per second are measured by the wall clock.
fn rates_row(step: &Step, sample: &Sample) -> Vec<Cell> {
    let dash = || Cell::from("-");
    let then = match step.then {
        Some((cycles, Some(rate))) => [cycles.into(), rate.into(), (cycles * rate / THEN_HZ).into()],
        Some((cycles, None)) => [cycles.into(), dash(), dash()],
        None => [dash(), dash(), dash()],
    };
    let rates: Vec<f64> = sample.trials.iter().map(|trial| trial.reading.ops_per_second()).collect();
    let now = match (sample.summary(), Summary::of(&rates), product(sample)) {
        (Ok(ticks), Ok(rate), Some(product)) => [ticks.median.into(), rate.median.into(), product.into()],
        _ => [dash(), dash(), dash()],
    };
    std::iter::once(Cell::from(step.id)).chain(then).chain(now).collect()
}

/// Deviation of a rung's [`product`] from 1 up to which no note is added.
const PRODUCT_SLACK: f64 = 0.05;

/// Returns the median, over the trials, of ticks per operation times operations per second, divided
/// by the tick rate. It is below 1 if the wall-clock time includes time outside the timed calls.
/// `None` if there are no trials.
fn product(sample: &Sample) -> Option<f64> {
    let of = |trial: &Trial| trial.reading.ticks_per_op() * trial.reading.ops_per_second() / timer::rate().hz as f64;
    let products: Vec<f64> = sample.trials.iter().map(of).collect();
    Summary::of(&products).ok().map(|summary| summary.median)
}

/// Returns a note if the product differs from 1 by more than [`PRODUCT_SLACK`].
fn product_note(id: &str, product: f64) -> Option<String> {
    ((product - 1.0).abs() > PRODUCT_SLACK)
        .then(|| format!("{id}: ticks times sends per second is {product:.3} of the tick rate, more than 5 % off"))
}

/// Returns the number of progress steps that [`climb`] reports.
pub(crate) fn parts() -> usize {
    STEPS.len() + 2
}

/// Runs `linerate ladder udp-send`.
///
/// # Errors
/// Returns no error: a row that could not be measured states the reason instead.
pub fn udp_send(options: &Options, progress: &mut dyn FnMut(Progress)) -> anyhow::Result<Report> {
    let mut study = Study::new("ladder udp-send", options.run(30), parts(), progress);
    study.note(CONVENTION);
    climb(&mut study, options.source.clone());
    Ok(study.finish())
}

pub(crate) const CONVENTION: &str = "one operation is a sendto of 22 bytes to the pktgen sink, a 64-byte frame without FCS; all rungs run on one \
     core; every rung is rebuilt for each round, and rungs with other build options run in a new process; then: cycles of a 2.53 GHz Core 2 Duo; \
     now: TSC ticks, after subtracting the cost of the timer";

#[cfg(test)]
mod tests;
