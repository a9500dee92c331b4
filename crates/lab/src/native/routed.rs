//! The kernel's setup of host, router and host, as a peer of our own: [`crate::netperf::veth`] in a
//! child in a network namespace of its own.
//!
//! The child is this program again ([`crate::child`]). It sets up its devices once, and executes a
//! run for each line from the parent: `CPU MILLISECONDS WORK`, where WORK is the name of a netperf
//! test or `tcpconnect`. One thread, pinned to that processor, drives both ends.

use crate::child::{self, Child, numbers};
use crate::netperf::Drivers;
use crate::netperf::veth::{Segments, Veth};
use crate::rigs::Work;
use crate::subject::{Reading, Subject};
use anyhow::Context;
use apps::netperf::{Length, Options, Test};
use clock::Duration;
use socket::Domain;

/// Kind of the child; its role is [`WHOLE`] or [`CUT`].
pub(crate) const KIND: &str = "routed";
const WHOLE: &str = "whole";
const CUT: &str = "cut";
/// Word that requests tcpconnect in a command line of the parent.
const CONNECT: &str = "tcpconnect";

/// Subject that runs a test through the kernel's router.
#[derive(Debug)]
pub struct Routed {
    id: String,
    child: Child,
    line: String,
}

impl Routed {
    /// Creates a subject that runs `test`, or tcpconnect if `test` is `None`, for `time` per trial
    /// on processor `core`.
    ///
    /// # Errors
    /// Namespaces, veth devices or forwarding are unavailable.
    pub fn new(
        id: &str,
        segments: Segments,
        test: Option<Test>,
        time: Duration,
        core: usize,
    ) -> anyhow::Result<Routed> {
        let role = if segments == Segments::Whole { WHOLE } else { CUT };
        let child = Child::start_apart(child::again(KIND, role)?)?;
        let line = format!("{core} {} {}", time.as_millis(), test.map_or(CONNECT, Test::name));
        Ok(Routed { id: id.to_owned(), child, line })
    }
}

impl Subject for Routed {
    fn id(&self) -> &str {
        &self.id
    }

    fn trial(&mut self) -> anyhow::Result<Reading> {
        let [ops, ticks, wall_ns, cpu_ns] = numbers(&self.child.ask(&self.line)?)?;
        Ok(Reading { ops, ticks, wall_ns, cpu_ns })
    }
}

pub(crate) fn serve(role: &str) -> anyhow::Result<()> {
    let segments = match role {
        WHOLE => Ok(Segments::Whole),
        CUT => Ok(Segments::Cut),
        _ => Err(anyhow::anyhow!("unknown child role '{role}'")),
    };
    let begin = || Ok((Veth::new(Domain::Inet, segments?, Drivers::One)?, role.to_owned()));
    let obey = |veth: &mut Veth, order: &str| {
        let Reading { ops, ticks, wall_ns, cpu_ns } = run_command(veth, order)?;
        Ok(format!("{ops} {ticks} {wall_ns} {cpu_ns}"))
    };
    child::serve(begin, obey).map(|_| ())
}

fn run_command(veth: &Veth, line: &str) -> anyhow::Result<Reading> {
    let (of, word) = line.rsplit_once(' ').context("no test name in the command")?;
    let [core, ms] = numbers(of)?;
    let time = Duration::from_millis(ms);
    let work = match word {
        CONNECT => Work::Connect(time),
        test => {
            let test: Test = test.parse().map_err(anyhow::Error::msg)?;
            Work::Netperf(Options { length: Length::Time(time), ..Options::new(test) })
        }
    };
    let _pinned = dispatch::pinned_to_core(core as usize).with_context(|| format!("cannot pin to core {core}"))?;
    Ok(work.reading(veth, true)?.0)
}
