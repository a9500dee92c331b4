//! The frame totals of a switch.

use super::Switch;
use dispatch::dataflow;
use stats::{DropReason, Entry};

/// Frame totals over all threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Audit {
    /// Frames dispatched to workers; all 0 if there are no workers.
    pub posted: dataflow::Audit,
    /// Totals of the bridge replicas.
    pub bridge: bridge::Audit,
    /// Frames sent through ports.
    pub sent: u64,
    /// Frames dropped in a port because its device did not accept them.
    pub failed: u64,
    /// Frames dropped because the queue from the workers to a port was full.
    pub full: u64,
    /// Frames dropped because their port was removed, or still full when the switch shut down.
    pub late: u64,
    /// Frames queued and not sent yet.
    pub held: u64,
}

/// Names of the counters of the dispatcher and its workers that count dropped frames.
pub const DISPATCH_DROPS: &[&str] = &[
    "dataflow.post.lane_full",
    "dataflow.post.no_worker",
    "dataflow.post.discarded",
    "dataflow.work.unfinished",
    "dataflow.work.lost",
];

impl Audit {
    /// Returns whether all frames passed to ports are accounted for.
    pub fn is_sent(&self) -> bool {
        self.bridge.given == self.sent + self.failed + self.full + self.late + self.held
    }

    /// Returns whether the bridges received all frames dispatched to workers.
    pub fn is_posted(&self) -> bool {
        self.posted.holds() && (self.posted.offered == 0 || self.posted.done == self.bridge.received)
    }

    /// Returns whether all frames are accounted for.
    pub fn holds(&self) -> bool {
        self.is_posted() && self.bridge.holds() && self.is_sent()
    }

    /// Returns the number of frames that are not accounted for between the ports, the dispatcher,
    /// the bridge and the ports again. It is 0 if no frame was lost.
    pub fn unaccounted(&self) -> i64 {
        let [bridge, ports, _] = self.imbalance();
        let offered = self.posted.offered as i64;
        let posted = offered - (self.posted.done + self.posted.dropped + self.posted.held) as i64;
        bridge.abs() + ports.abs() + posted.abs()
    }

    /// Returns the numbers of frames that are (unaccounted for in the bridge, unaccounted for
    /// between the bridge and its ports, not sent yet).
    pub fn imbalance(&self) -> [i64; 3] {
        let bridge = &self.bridge;
        let less = |a: u64, b: u64| a as i64 - b as i64;
        [
            less(bridge.received + bridge.made + bridge.copied, bridge.given + bridge.dropped + bridge.local),
            less(bridge.given, self.sent + self.failed + self.full + self.late + self.held),
            self.held as i64,
        ]
    }
}

impl Switch {
    /// Returns the frame totals. Meanwhile, all threads are stopped between two turns, so that no
    /// frame is being processed.
    pub fn audit(&self) -> Audit {
        let threads: Vec<_> = (0..self.threads()).filter_map(|number| self.thread(number)).collect();
        let posted = self.flow.as_ref().map(|flow| flow.audit()).unwrap_or_default();
        let mut all = Audit { posted, ..Audit::default() };
        for thread in &threads {
            let (bridge, counts) = (thread.bridge.audit(), thread.total());
            all.bridge.received += bridge.received;
            all.bridge.made += bridge.made;
            all.bridge.copied += bridge.copied;
            all.bridge.given += bridge.given;
            all.bridge.dropped += bridge.dropped;
            all.bridge.local += bridge.local;
            all.sent += counts.sent;
            all.failed += counts.failed;
            all.full += counts.full;
            all.late += counts.late;
            all.held += counts.held;
        }
        all
    }

    /// Returns the drop reasons with their counts, summed over all threads. All reasons are
    /// included, also those without drops. `audit` are the frame totals.
    pub fn drops(&self, audit: &Audit) -> Vec<Entry> {
        let mut sums = vec![0; DropReason::ALL.len()];
        self.each_thread(|thread| {
            let drops = thread.bridge.drops();
            sums.iter_mut().zip(DropReason::ALL).for_each(|(sum, reason)| *sum += drops.get(*reason));
        });
        let behind = [
            (DropReason::BridgePortFailed, audit.failed),
            (DropReason::BridgeQueueFull, audit.full),
            (DropReason::BridgePortRemoved, audit.late),
        ];
        let of = |(&reason, sum): (&DropReason, u64)| {
            let behind = behind.iter().find(|(other, _)| *other == reason);
            let value = behind.map_or(sum, |(_, value)| *value);
            Entry { name: reason.name().to_owned(), sentence: reason.sentence(), value }
        };
        let mut all: Vec<Entry> = DropReason::ALL.iter().zip(sums).map(of).collect();
        if let Some(flow) = self.dataflow() {
            let counted = stats::entries(&flow.posted).into_iter().chain(flow.worked());
            all.extend(counted.filter(|entry| DISPATCH_DROPS.contains(&entry.name.as_str())));
        }
        all
    }

    /// Returns the frame totals `audit` of this switch as text, with a note if they do not balance.
    pub fn audit_text(&self, audit: &Audit) -> String {
        let (name, b) = (&self.name, audit.bridge);
        let verdict = |holds: bool| if holds { "" } else { ": DOES NOT ADD UP" };
        let dispatched = self.dataflow().map(|_| {
            let dataflow::Audit { offered, done, dropped, held } = audit.posted;
            let verdict = verdict(audit.is_posted());
            format!("{name}: {offered} offered = {done} done + {dropped} dropped + {held} held{verdict}\n")
        });
        dispatched.unwrap_or_default()
            + &format!(
                "{name}: {} received + {} made + {} copied = {} given + {} dropped + {} local{}\n\
             {name}: {} given = {} sent + {} failed + {} full + {} late + {} held{}\n",
                b.received,
                b.made,
                b.copied,
                b.given,
                b.dropped,
                b.local,
                verdict(b.holds()),
                b.given,
                audit.sent,
                audit.failed,
                audit.full,
                audit.late,
                audit.held,
                verdict(audit.is_sent())
            )
    }
}
