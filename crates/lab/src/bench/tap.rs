//! The rows over TAP devices: stock iperf3 and the kernel's TCP at one end, a host of ours, passt or slirp4netns at the other.

use crate::env::Environment;
use crate::native::tap::{Place, Stream, Way, Who};
use crate::result::{Figure, Peer, Row};
use crate::run;
use crate::sample::Sample;
use crate::study::Options;
use crate::subject::Subject;
use anyhow::Context;
use std::cell::RefCell;
use std::rc::Rc;

/// What came of them.
#[derive(Debug, Default)]
pub(super) struct Rows {
    pub rows: Vec<Row>,
    pub peers: Vec<Peer>,
    pub notes: Vec<String>,
}

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

/// Measures them, or says why not. They are no part of the others' rounds: several processes on all cores, a second a trial.
///
/// # Errors
/// A trial that failed after its place was set up.
pub(super) fn rows(options: &Options, env: &Environment) -> anyhow::Result<Rows> {
    let mut out = Rows::default();
    for contest in [&FAST, &LOSSY] {
        match Place::start(contest.ours) {
            Ok(place) => contest.hold(place, options, env, &mut out)?,
            Err(why) => {
                for (way, title) in [("down", contest.down), ("up", contest.up)] {
                    out.rows.push(Row::missing(&format!("{}.{way}", contest.name), title, &format!("{why:#}")));
                }
            }
        }
    }
    out.notes.push(
        "tap: ticks are of the wall clock, all cores at work. passt and slirp4netns end the TCP of a namespace in user space and \
         hand its bytes to iperf3's socket on loopback; ours ends it in user space and is the iperf3 server itself"
            .to_owned(),
    );
    out.notes.push(
        "tap.loss: frames are lost in each direction; kernel: its TCP at both ends, a router of ours with the same impairment between"
            .to_owned(),
    );
    Ok(out)
}

impl Contest {
    fn hold(&self, ours: Place, options: &Options, env: &Environment, out: &mut Rows) -> anyhow::Result<()> {
        let mut subjects: Vec<Box<dyn Subject>> = Vec::new();
        let mut add = |who: &str, place: Place| {
            let place = Rc::new(RefCell::new(place));
            for (way, name) in [(Way::Down, "down"), (Way::Up, "up")] {
                let id = format!("{who}{}.{name}", self.name);
                subjects.push(Box::new(Stream::new(&id, &place, way, self.seconds, env.tsc_hz)));
            }
        };
        add("", ours);
        for (name, who) in self.peers {
            match Place::start(*who) {
                Ok(place) => add(&format!("{name}."), place),
                Err(why) => out.notes.push(format!("{}: without {name}: {why:#}", self.name)),
            }
        }
        let usual = if options.quick { 3 } else { 7 };
        let keep = options.rounds.map_or(usual, |rounds| rounds.clamp(1, 100));
        let run_options =
            run::Options { warmup: 1, keep, max_seconds: None, cpu: None, min_cpu_share: None, replacements: 0 };
        let samples = run::interleave(&mut subjects, &run_options, &mut |_| ())?;
        let sample = |id: &str| samples.iter().find(|s| s.id == id).with_context(|| format!("no sample of {id}"));
        for (way, title) in [("down", self.down), ("up", self.up)] {
            let id = format!("{}.{way}", self.name);
            let ours = sample(&id)?;
            out.rows.push(Row::new(&id, title, Figure::ticks(ours)?));
            let mut said = format!("{id}: {} Gbit/s", gigabits(ours, env)?);
            for (name, _) in self.peers {
                let Ok(theirs) = sample(&format!("{name}.{id}")) else { continue };
                out.peers.push(Peer::new(name, theirs, ours)?);
                said += &format!("; {name} {}", gigabits(theirs, env)?);
            }
            out.notes.push(said);
        }
        Ok(())
    }
}

/// The median, for people.
fn gigabits(sample: &Sample, env: &Environment) -> anyhow::Result<String> {
    let ticks = sample.summary()?.median;
    let gigabits = env.tsc_hz as f64 / ticks * 8.0 / 1e9;
    Ok(if gigabits < 1.0 { format!("{gigabits:.4}") } else { format!("{gigabits:.1}") })
}
