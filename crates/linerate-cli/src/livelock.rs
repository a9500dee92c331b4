//! `livelock`: converts flags to options, and curves to a table, JSON or a chart.

use crate::exit::{Exit, notice, print};
use crate::run::{Output, bar};
use anyhow::Context;
use clap::{Args, ValueHint};
use lab::livelock;
use std::path::PathBuf;

/// Arguments of `livelock`.
#[derive(Args, Debug)]
#[command(after_help = "\
One processor forwards from nic:em0 to nic:em1. In mode interrupts, the handler moves frames from the ring to a queue \
of 50, before all other work; in mode moderated, at most once per --itr. In modes clock, adaptive and wakeup, frames \
are polled. The time spent on simulating generator, wires and NICs is subtracted. The options of nic: set the cost of \
a register access ('linerate ports nic'). A second table shows whether the loop of a bridge obeys the kern.polling \
sysctls (user_frac and others) while a user process runs on its core.

Example:
  linerate livelock --svg livelock.svg")]
pub struct LivelockArgs {
    /// Print one JSON object instead of the table
    #[arg(short, long)]
    pub json: bool,
    /// Run one short round, to try the command; the results are imprecise
    #[arg(long)]
    pub quick: bool,
    /// Write a chart of the curves to this SVG file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub svg: Option<PathBuf>,
    /// Set the processing time per frame in nanoseconds
    #[arg(long, value_name = "NS", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(..=100_000))]
    pub cost: u64,
    /// Set the minimum interval between two moderated interrupts in microseconds
    #[arg(long, value_name = "US", default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub itr: u64,
    /// Set the highest offered load in thousands of frames per second
    #[arg(long, value_name = "KPPS", default_value_t = 4000, value_parser = clap::value_parser!(u32).range(10..=20_000))]
    pub most: u32,
    /// Use virtual time: all costs are fixed numbers, and results repeat exactly
    #[arg(long = "virtual")]
    pub simulated: bool,
    /// Repeat all measurements N times [default: 5; with --quick or --virtual 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: Option<u32>,
    /// Pin to this CPU core [default: chosen by the system]
    #[arg(long, value_name = "N", value_parser = crate::args::usable_core)]
    pub core: Option<usize>,
}

pub fn run(args: &LivelockArgs) -> anyhow::Result<Exit> {
    if let Some(core) = args.core {
        dispatch::pin_to_core(core).with_context(|| format!("--core {core}"))?;
    }
    dispatch::install_stop_handler().context("cannot catch Ctrl-C")?;
    let svg = Output::open("--svg", args.svg.as_ref())?;
    let all = if args.quick { livelock::Options::quick() } else { livelock::Options::default() };
    let core = args.core.unwrap_or_else(dispatch::last_core);
    let rounds = args.rounds.map_or(all.rounds, |rounds| rounds as usize);
    let (timing, rounds) =
        if args.simulated { (livelock::Timing::Virtual, 1) } else { (livelock::Timing::Live, rounds) };
    let options = livelock::Options {
        cost_ns: args.cost,
        itr_us: args.itr,
        most: f64::from(args.most) * 1e3,
        rounds,
        timing,
        core,
        ..all
    };
    let bar = bar();
    bar.set_length(livelock::steps(&options) as u64);
    let curves = livelock::measure(&options, |mode| {
        bar.set_message(mode.to_owned());
        bar.inc(1);
    });
    bar.finish_and_clear();
    let curves = curves?;
    let text = if args.json { curves.to_json()? + "\n" } else { curves.text() };
    print(&text)?;
    if let Some(output) = svg {
        output.write(|out| out.write_all(curves.svg().as_bytes()))?;
    }
    if dispatch::stop_requested() {
        notice("interrupted: the figures are those of the finished rounds");
        return Ok(Exit::Failed);
    }
    Ok(Exit::Fine)
}
