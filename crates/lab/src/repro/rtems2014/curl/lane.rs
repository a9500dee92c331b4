//! Sessions of curl, in turns: one that fails is made again, and a configuration that keeps failing does not stop the others.

use crate::child::numbers;
use crate::run;
use crate::sample::Sample;
use crate::subject::{Reading, Subject};
use crate::timer;
use anyhow::{Context, ensure};
use std::cell::RefCell;
use std::io;
use std::rc::Rc;

/// Sessions that a trial may take. A loaded machine can leave curl without its first byte until its time is over.
pub(super) const ATTEMPTS: u32 = 3;

/// Sends an order to the process of the hosts, and returns its answer.
pub(in super::super) type Ask = Rc<RefCell<dyn FnMut(&str) -> anyhow::Result<String>>>;

/// One configuration, one way.
pub(super) struct Lane {
    pub(super) id: String,
    /// The order for a session.
    pub(super) order: String,
}

/// What became of a lane.
pub(super) struct Outcome {
    pub(super) id: String,
    /// Its trials, or why there are none.
    pub(super) sample: Result<Sample, String>,
    /// Sessions that failed.
    pub(super) failed: u32,
    /// Why the last of them failed.
    pub(super) last: Option<String>,
}

/// The failures of a lane's sessions.
#[derive(Default)]
struct Failures {
    count: u32,
    last: Option<String>,
    /// A trial failed: its sessions were used up.
    is_broken: bool,
    /// The process of the hosts is gone or does not answer: no lane can go on.
    is_gone: bool,
}

/// Measures the lanes in turns. One that cannot go on is left out, with its reason, and the others are measured again.
pub(super) fn in_turns(lanes: &[Lane], ask: &Ask, options: &run::Options) -> Vec<Outcome> {
    let failures: Vec<Rc<RefCell<Failures>>> = lanes.iter().map(|_| Rc::default()).collect();
    let mut samples: Vec<Result<Sample, String>> = lanes.iter().map(|_| Err("was not measured".to_owned())).collect();
    let mut left: Vec<usize> = (0..lanes.len()).collect();
    while !left.is_empty() {
        let session = |at: &usize| -> Box<dyn Subject> {
            let Lane { id, order } = &lanes[*at];
            Box::new(Session {
                id: id.clone(),
                order: order.clone(),
                ask: ask.clone(),
                failures: failures[*at].clone(),
            })
        };
        let mut subjects: Vec<_> = left.iter().map(session).collect();
        match run::interleave(&mut subjects, options, &mut |_| ()) {
            Ok(measured) => left.drain(..).zip(measured).for_each(|(at, sample)| samples[at] = Ok(sample)),
            Err(why) => {
                let why = format!("{why:#}");
                let stays = |at: &usize| !failures[*at].borrow().is_broken;
                let gone = left.iter().any(|at| failures[*at].borrow().is_gone) || left.iter().all(stays);
                left.iter().filter(|at| gone || !stays(at)).for_each(|at| samples[*at] = Err(why.clone()));
                left.retain(|at| !gone && stays(at));
            }
        }
    }
    let outcome = |((lane, sample), failures): ((&Lane, _), &Rc<RefCell<Failures>>)| {
        let failures = failures.borrow();
        Outcome { id: lane.id.clone(), sample, failed: failures.count, last: failures.last.clone() }
    };
    lanes.iter().zip(samples).zip(&failures).map(outcome).collect()
}

/// A trial is one session, or as many as it takes until one succeeds.
struct Session {
    id: String,
    order: String,
    ask: Ask,
    failures: Rc<RefCell<Failures>>,
}

impl Subject for Session {
    fn id(&self) -> &str {
        &self.id
    }

    fn trial(&mut self) -> anyhow::Result<Reading> {
        let mut attempt = 1;
        loop {
            let why = match self.once() {
                Ok(reading) => return Ok(reading),
                Err(why) => why,
            };
            let mut failures = self.failures.borrow_mut();
            failures.count += 1;
            failures.last = Some(format!("{why:#}"));
            // Reading from or writing to the process failed; a session that failed is an answer.
            failures.is_gone |= why.downcast_ref::<io::Error>().is_some();
            if failures.is_gone || attempt == ATTEMPTS {
                failures.is_broken = true;
                return Err(why).with_context(|| format!("{attempt} sessions failed, the last"));
            }
            attempt += 1;
        }
    }
}

impl Session {
    fn once(&self) -> anyhow::Result<Reading> {
        let answer = (self.ask.borrow_mut())(&self.order)?;
        let [ops, wall_ns, cpu_ns] = numbers(&answer)?;
        ensure!(ops > 0, "curl moved nothing");
        let ticks = (wall_ns as f64 * timer::rate().hz as f64 / 1e9) as u64;
        Ok(Reading { ops, ticks, wall_ns, cpu_ns })
    }
}
