//! The rows over TAP devices: stock iperf3 and the kernel's TCP at one end, a host of ours, passt or slirp4netns at the other.

use crate::native::tap::{Place, Stream, Way, Who};
use crate::run;
use crate::sample::Sample;
use crate::side::{Shared, Side};
use crate::study::{Group, Options, Study, Unit};

/// Ratio of a peer's best run to its worst from which on the peer has two states: a ratio to their
/// median compares nothing.
const BISTABLE: f64 = 5.0;

/// One comparison: ours, and who else.
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
    down: "the same behind 20 ms round trip and 1 % loss, our TCP sending",
    up: "the same, the kernel's TCP sending",
    ours: Who::Lossy,
    peers: &[("kernel", Who::LossyKernel)],
    seconds: 4,
};

/// Adds the rows. They have rounds of their own: several processes use all cores, for one or
/// several seconds per trial.
pub(super) fn rows(study: &mut Study<'_>, options: &Options) {
    for contest in [&FAST, &LOSSY] {
        contest.hold(study, options);
    }
    study.note(
        "tap: ticks of the wall clock, all cores at work. passt and slirp4netns terminate the TCP of a namespace \
         in user space and pass its bytes to iperf3's socket on loopback; ours terminates TCP in user space and is \
         the iperf3 server itself",
    );
    study.note(
        "tap.loss: frames are lost in each direction; kernel: the kernel's TCP at both ends, a router of ours with \
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
            self.report(&format!("{}.{word}", self.name), title, &group, study);
        }
    }

    /// Adds the row and its peers, and a note with the median, worst and best run of every side.
    fn report(&self, id: &str, title: &str, group: &Group, study: &mut Study<'_>) {
        study.rows([group.row(id, title, Unit::TICKS)]);
        let hz = study.report.env.tsc_hz;
        let ours = spread(&group.sample(id), hz);
        let mut said =
            format!("{id}: Gbit/s, median (worst to best of n): ours {}", ours.as_ref().map_or("-", |of| &of.text));
        for (name, _) in self.peers {
            let theirs = group.sample(&format!("{name}.{id}"));
            match spread(&theirs, hz) {
                Some(of) if of.best > BISTABLE * of.worst => {
                    said += &format!("; {name} {}, two states: no ratio is given", of.text);
                }
                Some(of) => {
                    said += &format!("; {name} {}", of.text);
                    study.report.peers.extend(group.peers(id).into_iter().filter(|peer| peer.id.starts_with(name)));
                }
                None => said += &format!("; without {name}: {}", theirs.failed.unwrap_or_default()),
            }
        }
        study.note(said);
    }
}

/// Worst and best run of a side in Gbit/s, and a text that also has the median.
struct Spread {
    worst: f64,
    best: f64,
    text: String,
}

fn spread(sample: &Sample, tsc_hz: u64) -> Option<Spread> {
    let rate = |ticks: f64| tsc_hz as f64 / ticks * 8.0 / 1e9;
    let values = sample.values();
    let [worst, best] = [values.iter().copied().reduce(f64::max)?, values.iter().copied().reduce(f64::min)?].map(rate);
    let median = rate(sample.summary().ok()?.median);
    let short = |gigabits: f64| if gigabits < 1.0 { format!("{gigabits:.4}") } else { format!("{gigabits:.1}") };
    let text = format!("{} ({} to {} of {})", short(median), short(worst), short(best), values.len());
    Some(Spread { worst, best, text })
}
