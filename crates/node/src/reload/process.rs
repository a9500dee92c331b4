//! Reloads all hosts of a process in two steps: each host first checks the difference between its
//! configuration and the file, and no host changes anything unless all differences can be applied
//! without a restart. Errors that only the application finds, such as a port that cannot be opened,
//! concern one host, which undoes its changes.
//!
//! The main thread reads the file and decides ([`Coordinator`]). The thread of each host checks and
//! applies ([`Participant`]), between two of its rounds.

use super::file::read_for_reload;
use super::{Change, ReloadError};
use crate::Host;
use crate::config::{ConfigFile, HostConfig, Network};
use crate::topology::Topology;
use lock::Locks;
use port::Pairs;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Number of ticks of the main thread after which a reload ends, whatever the hosts do.
const TICKS_MAX: u32 = 50;

/// The main thread has not decided yet.
const OPEN: u8 = 0;
/// The hosts apply their changes.
const APPLY: u8 = 1;
/// Nothing changes.
const DROP: u8 = 2;

/// A reload in progress, which the threads of the hosts see.
#[derive(Debug)]
struct Request {
    number: usize,
    hosts: Vec<HostConfig>,
    topology: Arc<Topology>,
    decision: AtomicU8,
}

/// Requests of the main thread.
#[derive(Debug, Default)]
pub(crate) struct Reload {
    /// Number of requests so far.
    number: AtomicUsize,
    request: Mutex<Option<Arc<Request>>>,
}

/// Report of a host to the main thread.
#[derive(Debug)]
pub(crate) struct ReloadReport {
    host: String,
    /// Number of the request.
    number: usize,
    step: Step,
}

/// Result of a step of one host.
#[derive(Debug)]
enum Step {
    /// The differences can be applied, or not.
    Checked(Result<(), ReloadError>),
    /// The changes were applied, or not. Each line describes one.
    Applied(Result<Vec<String>, ReloadError>),
}

/// The part of a host in reloads.
#[derive(Debug, Default)]
pub(crate) struct Participant {
    seen: usize,
    request: Option<Arc<Request>>,
}

impl Participant {
    /// Takes the next step of a reload, if one is due. Returns its result.
    #[inline]
    pub(crate) fn turn<L: Locks>(&mut self, reload: &Reload, host: &Host<L>, pairs: &Pairs) -> Option<ReloadReport> {
        let number = reload.number.load(Ordering::Acquire);
        if number == self.seen && self.request.is_none() {
            return None;
        }
        let (number, step) = self.step(number, reload, host, pairs)?;
        Some(ReloadReport { host: host.stack.name.clone(), number, step })
    }

    #[cold]
    fn step<L: Locks>(
        &mut self,
        number: usize,
        reload: &Reload,
        host: &Host<L>,
        pairs: &Pairs,
    ) -> Option<(usize, Step)> {
        let config = |request: &Request| request.hosts.iter().find(|of| of.name == host.stack.name).cloned();
        if number != self.seen {
            self.seen = number;
            let request = reload.request.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
            let to = config(&request)?;
            let number = request.number;
            self.request = Some(request);
            return Some((number, Step::Checked(check(host, &to))));
        }
        let request = self.request.take()?;
        match request.decision.load(Ordering::Acquire) {
            APPLY => {
                let applied = host.change_unless_unconfirmed(&config(&request)?, pairs);
                if applied.is_ok() {
                    host.set_topology(request.topology.clone());
                }
                let lines = applied.map(|changes| changes.iter().map(Change::to_string).collect());
                Some((request.number, Step::Applied(lines)))
            }
            DROP => None,
            _ => {
                self.request = Some(request);
                None
            }
        }
    }
}

fn check<L: Locks>(host: &Host<L>, to: &HostConfig) -> Result<(), ReloadError> {
    if host.unconfirmed_until().is_some() {
        return Err(ReloadError::Unconfirmed);
    }
    match host.plan_to(to).restart {
        restart if restart.is_empty() => Ok(()),
        restart => Err(ReloadError::Restart(restart)),
    }
}

/// Result of a reload of all hosts of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReloadOutcome {
    /// All hosts have their new configurations.
    Done,
    /// It failed, and nothing has changed.
    Unchanged,
    /// It failed on some hosts, which have undone their changes. Other hosts have their new
    /// configurations.
    Partly,
}

/// Progress of a reload, which the main thread reports to the user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Progress {
    /// A reload has begun.
    Begun,
    /// A line about it.
    Line(String),
    /// It has ended.
    Ended(ReloadOutcome),
}

/// The main thread's part in reloads.
#[derive(Debug, Default)]
pub(crate) struct Coordinator {
    /// Number of reloads that were requested and have been begun.
    begun: usize,
    current: Option<Current>,
}

#[derive(Debug)]
struct Current {
    request: Arc<Request>,
    /// Hosts whose report on the current step is missing.
    missing: BTreeSet<String>,
    /// All hosts that take part.
    hosts: BTreeSet<String>,
    failed: bool,
    /// True if a host has applied its changes.
    is_applied: bool,
    ticks: u32,
}

impl Coordinator {
    /// Begins a reload if one was requested and none is in progress; otherwise checks its time.
    /// `requested` is the number of requests so far, `alive` has the names of the running hosts.
    /// Called regularly.
    pub(crate) fn tick(
        &mut self,
        requested: usize,
        file: Option<&ConfigFile>,
        reload: &Reload,
        alive: &BTreeSet<String>,
    ) -> Vec<Progress> {
        let Some(current) = &mut self.current else {
            if std::mem::replace(&mut self.begun, requested) == requested {
                return Vec::new();
            }
            return match file.ok_or(ReloadError::NoFile).and_then(read_for_reload) {
                Ok(network) => self.begin(network, reload, alive),
                Err(why) => {
                    let line = Progress::Line(format!("reload: {why}"));
                    vec![Progress::Begun, line, Progress::Ended(ReloadOutcome::Unchanged)]
                }
            };
        };
        current.missing.retain(|host| alive.contains(host));
        current.ticks += 1;
        let mut out = Vec::new();
        if current.ticks > TICKS_MAX && !current.missing.is_empty() {
            current.failed = true;
            let missing: Vec<&str> = current.missing.iter().map(String::as_str).collect();
            out.push(Progress::Line(format!("reload: {} did not answer in time", missing.join(", "))));
            current.missing.clear();
            // After the decision, a late host applies its changes when it runs again.
            current.is_applied |= current.request.decision.load(Ordering::Relaxed) == APPLY;
        }
        out.extend(self.advance());
        out
    }

    /// Requests that all running hosts of `network` check their differences.
    fn begin(&mut self, network: Network, reload: &Reload, alive: &BTreeSet<String>) -> Vec<Progress> {
        let topology = Arc::new(Topology::of_network(&network));
        let Network { hosts, .. } = network;
        let names = hosts.iter().filter(|host| host.stacks == 1).map(|host| host.name.clone());
        let (names, ended): (BTreeSet<String>, BTreeSet<String>) = names.partition(|name| alive.contains(name));
        let number = reload.number.load(Ordering::Relaxed) + 1;
        let request = Arc::new(Request { number, hosts, topology, decision: AtomicU8::new(OPEN) });
        *reload.request.lock().unwrap_or_else(PoisonError::into_inner) = Some(request.clone());
        reload.number.store(number, Ordering::Release);
        let (missing, failed, is_applied, ticks) = (names.clone(), false, false, 0);
        self.current = Some(Current { request, missing, hosts: names, failed, is_applied, ticks });
        let ended = ended.into_iter().map(|name| Progress::Line(format!("{name}: has ended; not reloaded")));
        std::iter::once(Progress::Begun).chain(ended).chain(self.advance()).collect()
    }

    /// Takes the report of a host.
    pub(crate) fn take(&mut self, report: ReloadReport) -> Vec<Progress> {
        let ReloadReport { host, number, step } = report;
        let is_checked = matches!(step, Step::Checked(_));
        // A host that did not answer in time may answer later, to an earlier request or step.
        let is_expected = |current: &&mut Current| {
            let is_open = current.request.decision.load(Ordering::Relaxed) == OPEN;
            current.request.number == number && is_open == is_checked
        };
        let current = self.current.as_mut().filter(is_expected);
        let mut out = Vec::new();
        match &step {
            Step::Checked(Ok(())) => {}
            Step::Checked(Err(why)) | Step::Applied(Err(why)) => {
                out.push(Progress::Line(format!("{host}: reload: {why}")));
            }
            Step::Applied(Ok(lines)) => {
                let head = match lines.len() {
                    0 => "reloaded; nothing to change".to_string(),
                    1 => "reloaded; 1 change".to_string(),
                    n => format!("reloaded; {n} changes"),
                };
                let lines = std::iter::once(head).chain(lines.iter().cloned());
                out.extend(lines.map(|line| Progress::Line(format!("{host}: {line}"))));
            }
        }
        if let Some(current) = current {
            current.missing.remove(&host);
            current.failed |= matches!(step, Step::Checked(Err(_)) | Step::Applied(Err(_)));
            current.is_applied |= matches!(step, Step::Applied(Ok(_)));
            out.extend(self.advance());
        }
        out
    }

    /// Takes the next step once all hosts have reported.
    fn advance(&mut self) -> Option<Progress> {
        let current = self.current.as_mut().filter(|current| current.missing.is_empty())?;
        let is_open = current.request.decision.load(Ordering::Relaxed) == OPEN;
        if is_open {
            let decision = if current.failed { DROP } else { APPLY };
            current.request.decision.store(decision, Ordering::Release);
            if decision == APPLY && !current.hosts.is_empty() {
                current.missing = current.hosts.clone();
                current.ticks = 0;
                return None;
            }
        }
        let outcome = match (current.failed, current.is_applied) {
            (false, _) => ReloadOutcome::Done,
            (true, false) => ReloadOutcome::Unchanged,
            (true, true) => ReloadOutcome::Partly,
        };
        self.current = None;
        Some(Progress::Ended(outcome))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(host: &str, number: usize, step: Step) -> ReloadReport {
        ReloadReport { host: host.to_string(), number, step }
    }

    fn outcome(progress: &[Progress]) -> Option<ReloadOutcome> {
        progress.iter().find_map(|of| match of {
            Progress::Ended(outcome) => Some(*outcome),
            _ => None,
        })
    }

    /// Hosts that do not answer in time end a reload, and their late answers count neither for
    /// another step nor for the next reload.
    #[test]
    fn late_answers_do_not_count() {
        let alive: BTreeSet<String> = ["a", "b"].map(str::to_string).into();
        let hosts = || alive.iter().map(|name| HostConfig { name: name.clone(), ..HostConfig::default() });
        let network = || Network { hosts: hosts().collect(), ..Network::default() };
        let (reload, mut main) = (Reload::default(), Coordinator::default());
        let wait = |main: &mut Coordinator| (0..=TICKS_MAX).find_map(|_| outcome(&main.tick(0, None, &reload, &alive)));
        assert_eq!(main.begin(network(), &reload, &alive), [Progress::Begun]);
        assert_eq!(main.take(report("a", 1, Step::Checked(Ok(())))), []);
        assert_eq!(wait(&mut main), Some(ReloadOutcome::Unchanged), "b did not answer");
        assert_eq!(main.take(report("b", 1, Step::Checked(Ok(())))), [], "nothing is in progress");

        assert_eq!(main.begin(network(), &reload, &alive), [Progress::Begun]);
        main.take(report("b", 1, Step::Checked(Ok(()))));
        main.take(report("a", 2, Step::Checked(Ok(()))));
        let decision = |main: &Coordinator| main.current.as_ref().unwrap().request.decision.load(Ordering::Relaxed);
        assert_eq!(decision(&main), OPEN, "the answer of b was to the request before");
        main.take(report("b", 2, Step::Checked(Ok(()))));
        assert_eq!(decision(&main), APPLY);
        main.take(report("b", 2, Step::Checked(Err(ReloadError::Unconfirmed))));
        main.take(report("a", 2, Step::Applied(Ok(Vec::new()))));
        assert_eq!(wait(&mut main), Some(ReloadOutcome::Partly), "b may apply its changes later");

        main.begin(network(), &reload, &alive);
        main.take(report("a", 3, Step::Checked(Err(ReloadError::Unconfirmed))));
        assert_eq!(outcome(&main.take(report("b", 3, Step::Checked(Ok(()))))), Some(ReloadOutcome::Unchanged));
        // A host that ends is not waited for.
        main.begin(network(), &reload, &alive);
        let only_a = BTreeSet::from(["a".to_string()]);
        main.take(report("a", 4, Step::Checked(Ok(()))));
        main.tick(0, None, &reload, &only_a);
        assert_eq!(decision(&main), APPLY);
    }
}
