//! The ladder of rump2014: one choice after the other, each against the best so far, kept or rejected by its verdict.
//!
//! Steps 0 to 6 are the report's, as ours: 0 and 1 are the rig as a dynamic library (`cargo xtask ladder` builds it), from 2
//! on it is linked in. The steps after are our own. A step that turns out slower is not taken further, as in the report.

use crate::dylib;
use crate::env::Environment;
use crate::result::{Change, Figure, Report, Row};
use crate::rigs::{LoadedSend, SendRig};
use crate::run;
use crate::sample::Sample;
use crate::study::{self, Options, Progress, Steps};
use crate::subject::Subject;
use crate::verdict::{NoiseFloor, Verdict};

/// How a step is built.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Build {
    /// The dynamic library of this variant.
    Loaded(&'static str),
    /// Linked in, one datagram a call.
    Linked,
    /// Linked in, 32 datagrams a call.
    LinkedBursts,
}

struct Step {
    id: &'static str,
    title: &'static str,
    then: Option<f64>,
    build: Build,
    /// Words that override those kept so far.
    words: &'static str,
}

impl Step {
    /// Beside the ladder: shown against its end, never taken further.
    fn is_side(&self) -> bool {
        self.id.starts_with("side.")
    }
}

/// Where the ladder begins: what rump's default build had.
const START: &str = "locks=light context=call header_cache=off pool=zone clock=timespec offload=off burst=1";

const STEPS: &[Step] = &[
    Step {
        id: "0.baseline",
        title: "dynamic library, opt-level 2, no LTO; context by three calls, light locks, zone pool",
        then: Some(4753.0),
        build: Build::Loaded("baseline"),
        words: "",
    },
    Step {
        id: "1.compiler_flags",
        title: "+ code for this very CPU (target-cpu=native)",
        then: Some(4994.0),
        build: Build::Loaded("native"),
        words: "",
    },
    Step {
        id: "2.static",
        title: "statically linked, whole-program optimisation",
        then: Some(3209.0),
        build: Build::Linked,
        words: "",
    },
    Step {
        id: "3.context_inline",
        title: "current context: inlined thread-local",
        then: Some(2737.0),
        build: Build::Linked,
        words: "context=inline",
    },
    Step {
        id: "4.locks_up",
        title: "locks up: no atomics",
        then: Some(2517.0),
        build: Build::Linked,
        words: "locks=up",
    },
    Step {
        id: "5.offload",
        title: "IPv4 and UDP checksums left to the port",
        then: Some(2357.0),
        build: Build::Linked,
        words: "offload=on",
    },
    Step {
        id: "7.context_register",
        title: "current context: an argument",
        then: None,
        build: Build::Linked,
        words: "context=register",
    },
    Step {
        id: "8.clock",
        title: "time read once a burst, not every call",
        then: None,
        build: Build::Linked,
        words: "clock=none",
    },
    Step {
        id: "9.pool_freelist",
        title: "pool: linked freelist",
        then: None,
        build: Build::Linked,
        words: "pool=freelist",
    },
    Step {
        id: "10.pool_stack",
        title: "pool: stack of pointers",
        then: None,
        build: Build::Linked,
        words: "pool=stack",
    },
    Step {
        id: "11.header_cache",
        title: "headers, route and neighbor kept",
        then: None,
        build: Build::Linked,
        words: "header_cache=on",
    },
    Step { id: "12.prefetch", title: "next buffer prefetched", then: None, build: Build::Linked, words: "prefetch=on" },
    Step { id: "13.huge_pages", title: "pool on 2 MiB pages", then: None, build: Build::Linked, words: "pages=2m" },
    Step {
        id: "14.burst",
        title: "port called once for 32 frames",
        then: None,
        build: Build::Linked,
        words: "burst=32",
    },
    Step {
        id: "15.send_burst",
        title: "application sends 32 datagrams a call",
        then: None,
        build: Build::LinkedBursts,
        words: "",
    },
    Step {
        id: "side.malloc",
        title: "beside the ladder: system malloc for every frame",
        then: None,
        build: Build::Linked,
        words: "pool=malloc",
    },
    Step {
        id: "side.heavy",
        title: "beside the ladder: heavy locks",
        then: None,
        build: Build::Linked,
        words: "locks=heavy",
    },
    Step {
        id: "side.checksum",
        title: "beside the ladder: checksums in software again",
        then: None,
        build: Build::Linked,
        words: "offload=off",
    },
];

const OTHER_COMPILER: (&str, &str, f64) = ("6.other_compiler", "the other compiler", 2399.0);
const NO_OTHER_COMPILER: &str = "not to be had: this release of Rust ships one code generator (LLVM), and its profile-guided \
     optimisation needs llvm-profdata of the same LLVM, which no package here provides";

/// What the ladder found.
pub(crate) struct Climbed {
    pub(crate) rows: Vec<Row>,
    pub(crate) floor: NoiseFloor,
    pub(crate) notes: Vec<String>,
}

/// Climbs the ladder.
pub(crate) fn climb(options: &run::Options, steps: &mut Steps<'_>) -> anyhow::Result<Climbed> {
    let mut notes = Vec::new();
    steps.next("building the dynamic rungs");
    if let Err(why) = dylib::build() {
        notes.push(format!("the dynamic rungs could not be built anew: {why:#}"));
    }
    steps.next("A against A: the noise floor");
    let mut floor_rig = SendRig::new("floor", "locks=up", false)?;
    let floor = study::floor(&mut floor_rig, options)?;
    let (mut rows, mut best): (Vec<Row>, Option<Best>) = (Vec::new(), None);
    for step in STEPS {
        steps.next(step.title);
        let side = step.is_side();
        match attempt(step, best.as_ref(), options) {
            Ok(tried) => {
                let change =
                    tried.against.as_ref().map(|before| Change::paired(before, &tried.sample, &floor)).transpose()?;
                let slower = change.as_ref().is_some_and(|change| change.verdict == Verdict::Slower);
                let mut row = Row::new(step.id, step.title, Figure::ticks(&tried.sample)?);
                row.vs_previous = change;
                if let Some(then) = step.then {
                    row = row.then(then, "cycles/op");
                }
                rows.push(row);
                if !slower && !side {
                    best = Some(Best { build: step.build, words: tried.words, id: step.id });
                } else if slower && !side {
                    notes.push(format!("{} is slower: not taken further", step.id));
                }
            }
            Err(why) => {
                let mut row = Row::missing(step.id, step.title, &format!("{why:#}"));
                if let Some(then) = step.then {
                    row = row.then(then, "cycles/op");
                }
                rows.push(row);
            }
        }
        if step.id == "5.offload" {
            let (id, title, then) = OTHER_COMPILER;
            rows.push(Row::missing(id, title, NO_OTHER_COMPILER).then(then, "cycles/op"));
        }
    }
    if let Some(best) = &best {
        notes.push(format!("the ladder ends at {}: {}", best.id, best.words));
        let mut rig = SendRig::new("each", &best.words, false)?;
        notes.push(format!(
            "the report's way, the counter read around every sendto: {:.1} ticks, reading subtracted; {:.0} lock acquisitions a call",
            rig.ticks_each_call(),
            rig.acquisitions_per_call()
        ));
    }
    Ok(Climbed { rows, floor, notes })
}

struct Best {
    build: Build,
    words: String,
    id: &'static str,
}

struct Tried {
    sample: Sample,
    against: Option<Sample>,
    words: String,
}

/// Measures a step and the best so far in turn.
fn attempt(step: &Step, best: Option<&Best>, options: &run::Options) -> anyhow::Result<Tried> {
    let words = format!("{} {}", best.map_or(START, |best| &best.words), step.words);
    let build = match best {
        Some(best) if step.is_side() => best.build,
        _ => step.build,
    };
    let mut subjects = vec![subject(step.id, build, &words)?];
    if let Some(best) = best {
        subjects.insert(0, subject(best.id, best.build, &best.words)?);
    }
    let mut samples = run::interleave(&mut subjects, options, &mut |_| ())?;
    let sample = samples.pop().ok_or_else(|| anyhow::anyhow!("no sample"))?;
    Ok(Tried { sample, against: samples.pop(), words })
}

fn subject(id: &str, build: Build, words: &str) -> anyhow::Result<Box<dyn Subject>> {
    Ok(match build {
        Build::Loaded(variant) => Box::new(LoadedSend::new(id, variant, words)?),
        Build::Linked => Box::new(SendRig::new(id, words, false)?),
        Build::LinkedBursts => Box::new(SendRig::new(id, words, true)?),
    })
}

/// Parts a climb reports.
pub(crate) fn parts() -> usize {
    STEPS.len() + 2
}

/// `linerate ladder udp-send`.
///
/// # Errors
/// A rig could not be built, or lost a frame.
pub fn udp_send(options: &Options, progress: &mut dyn FnMut(Progress)) -> anyhow::Result<Report> {
    let run_options = options.run(30);
    let mut steps = Steps::new(parts(), progress);
    let climbed = climb(&run_options, &mut steps)?;
    Ok(Report {
        name: "ladder udp-send".to_owned(),
        env: Environment::detect(),
        noise_floor: climbed.floor,
        rows: climbed.rows,
        peers: Vec::new(),
        notes: [vec![CONVENTION.to_owned()], climbed.notes].concat(),
        beside: None,
    })
}

pub(crate) const CONVENTION: &str = "one operation: sendto of 22 bytes to the pktgen sink, a 64-byte frame without FCS; one \
     core; then: cycles of a 2.53 GHz Core 2 Duo; now: TSC ticks, timer cost subtracted";
