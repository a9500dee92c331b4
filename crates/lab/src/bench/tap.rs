//! The rows over TAP devices: stock iperf3 and the kernel's TCP at one end; one of our hosts, passt
//! or slirp4netns at the other.

use crate::native::tap::{Place, Stream, Way, Who};
use crate::run;
use crate::side::{Shared, Side};
use crate::study::{Group, Options, Study, Unit};
use crate::table;

/// One comparison: our side, and its peers.
struct Contest {
    name: &'static str,
    down: &'static str,
    up: &'static str,
    ours: Who,
    peers: &'static [(&'static str, Who)],
    seconds: u32,
}

const FAST: Contest = Contest {
    name: "tap",
    down: "a byte from our host to stock iperf3 over TAP, one stream",
    up: "a byte from stock iperf3 to our host over TAP, one stream",
    ours: Who::Ours,
    peers: &[("passt", Who::Pasta), ("slirp4netns", Who::Slirp4netns)],
    seconds: 1,
};

const LOSSY: Contest = Contest {
    name: "tap.loss",
    down: "a byte over TAP, 20 ms round trip and 1 % loss, our TCP sending",
    up: "a byte over TAP, 20 ms round trip and 1 % loss, the kernel's TCP sending",
    ours: Who::Lossy,
    peers: &[("kernel", Who::LossyKernel)],
    seconds: 4,
};

/// Adds the rows over TAP devices. They have rounds of their own, since a trial takes one to four
/// seconds and its processes use all cores.
pub(super) fn rows(study: &mut Study<'_>, options: &Options) {
    for contest in [&FAST, &LOSSY] {
        contest.hold(study, options);
    }
    study.note(
        "tap: ticks of wall-clock time, on all cores. passt and slirp4netns terminate the TCP of a namespace \
         in user space and pass its bytes to iperf3's socket on loopback; ours terminates TCP in user space and is \
         the iperf3 server itself",
    );
    study.note(
        "tap.loss: frames are lost in each direction; kernel: the kernel's TCP at both ends, our router with \
         the same impairment between them",
    );
}

impl Contest {
    fn hold(&self, study: &mut Study<'_>, options: &Options) {
        let usual = if options.quick { 3 } else { 8 };
        let keep = options.rounds.map_or(usual, |rounds| rounds.clamp(1, 100));
        let run_options = run::Options { keep, max_seconds: None, cpu: None, ..study.options().one_trial().waiting() };
        let (seconds, tsc_hz) = (self.seconds, study.report.env.tsc_hz);
        let mut sides = Vec::new();
        for (name, who) in [("", self.ours)].iter().chain(self.peers) {
            let who = *who;
            let place = Shared::new(move || Place::start(who));
            for (way, word) in [(Way::Down, "down"), (Way::Up, "up")] {
                let dot = if name.is_empty() { "" } else { "." };
                let id = format!("{name}{dot}{}.{word}", self.name);
                let (place, name) = (place.clone(), id.clone());
                sides.push(Side::new(id, move || Ok(Stream::new(&name, &place.get()?, way, seconds, tsc_hz))));
            }
        }
        let group = study.measure_with(sides, run_options);
        for (word, title) in [("down", self.down), ("up", self.up)] {
            let id = format!("{}.{word}", self.name);
            study.row(&group, &id, title, Unit::TICKS);
            self.note_rates(&id, &group, study);
        }
    }

    /// Adds a note with the median of every side in Gbit/s.
    fn note_rates(&self, id: &str, group: &Group, study: &mut Study<'_>) {
        let hz = study.report.env.tsc_hz as f64;
        let rate = |name: &str, side: &str| {
            let sample = group.sample(side);
            match sample.summary() {
                Ok(ticks) => format!("{name} {}", table::number(hz / ticks.median * 8.0 / 1e9)),
                Err(_) => format!("without {name}: {}", sample.failed.unwrap_or_default()),
            }
        };
        let theirs = self.peers.iter().map(|(name, _)| rate(name, &format!("{name}.{id}")));
        let rates: Vec<String> = std::iter::once(rate("ours", id)).chain(theirs).collect();
        study.note(format!("{id}: Gbit/s, medians: {}", rates.join("; ")));
    }
}
