//! The main thread: starts the rounds of all hosts, passes on their messages, and reloads the
//! configuration.

use super::beats::Seen;
use super::error::UpError;
use super::shared::{Event, Report, Shared};
use crate::reload::{Coordinator, Progress};
use clock::{Clock, Duration, Strategy};
use dispatch::sandbox::Sandbox;
use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, RecvTimeoutError};

/// Interval at which the main thread checks for signals and for threads that do not run.
const TICK: Duration = Duration::from_millis(200);

/// Passes the messages of the threads to `each`, until all threads have ended or one has failed.
/// When all threads have started, enters the sandbox and gives the start signal. Reloads the
/// configuration on SIGHUP.
pub(super) fn attend<P>(
    said: &Receiver<Report>,
    hosts: usize,
    shared: &Shared<P>,
    sandbox: &Sandbox,
    each: &mut impl FnMut(&Event),
) -> Option<UpError> {
    let pairs = &shared.pairs;
    let (mut running, mut started) = (0, Vec::new());
    let clock = Clock::live(Strategy::default());
    let (mut alive, mut coordinator, mut seen) = (BTreeSet::new(), Coordinator::default(), Seen::default());
    let (mut next, mut is_stopping) = (clock.now(), false);
    loop {
        let now = clock.now();
        if now >= next {
            next = now.after(TICK);
            if dispatch::stop_requested() && !std::mem::replace(&mut is_stopping, true) {
                each(&Event::Stopping);
            }
            if running == hosts {
                let requested = dispatch::reloads_requested();
                let progress = coordinator.tick(requested, shared.file.as_deref(), &shared.reload, &alive);
                progress.into_iter().for_each(|progress| each(&progress.into()));
                if seen.have_all_run(&shared.beats) {
                    each(&Event::Alive);
                }
            }
        }
        let said = match said.recv_timeout(next.since(clock.now())) {
            Ok(said) => said,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => return None,
        };
        match said {
            Report::Failed(why) => return Some(why),
            Report::Notice(text) => each(&Event::Notice(text)),
            Report::Log(event) => each(&Event::Log(event)),
            Report::Reload(report) => {
                coordinator.take(report).into_iter().for_each(|progress| each(&progress.into()));
            }
            Report::Ended(name) => drop(alive.remove(&name)),
            Report::Running(event) => {
                running += 1;
                if let Event::Running { name, .. } = &event {
                    alive.insert(name.clone());
                }
                started.push(event);
                if running == hosts {
                    match sandbox.enter() {
                        Ok(warning) => warning.into_iter().for_each(|text| each(&Event::Notice(text.to_owned()))),
                        Err(why) => return Some(why.into()),
                    }
                    started.drain(..).for_each(|event| each(&event));
                    shared.gate.open();
                    let loose = pairs.unfinished().into_iter();
                    loose.for_each(|name| each(&Event::Notice(format!("pair:{name}: the other end is not open"))));
                    let wires = pairs.unfinished_wires().into_iter();
                    wires.for_each(|name| each(&Event::Notice(format!("wire {name}: only one nic is attached"))));
                }
            }
        }
    }
}

impl From<Progress> for Event {
    fn from(progress: Progress) -> Event {
        match progress {
            Progress::Begun => Event::Reloading,
            Progress::Line(text) => Event::Notice(text),
            Progress::Ended(outcome) => Event::Reloaded(outcome),
        }
    }
}
