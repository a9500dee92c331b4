//! Prints what each peer costs on this machine: ticks per operation, one run, trials interleaved.

use std::process::ExitCode;

use anyhow::Context;
use lab::run::{self, Options};
use lab::sample::Sample;

const USAGE: &str = "usage: linerate-bench [rounds, default 30] [processor, default 1]";

fn main() -> ExitCode {
    lab::native::child_main_if_asked();
    match table() {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("linerate-bench: {why:#}");
            ExitCode::FAILURE
        }
    }
}

fn table() -> anyhow::Result<()> {
    let mut words = std::env::args().skip(1);
    let keep = words.next().map_or(Ok(30), |word| word.parse()).context(USAGE)?;
    let cpu = words.next().map_or(Ok(1), |word| word.parse()).context(USAGE)?;
    // Before the peers try which way of calling is the fastest.
    let _pinned = lab::os::pin_to_cpu(cpu).with_context(|| format!("cannot stay on processor {cpu}"))?;
    let (peers, missing) = linerate_bench::peers_and_missing();
    let (mut subjects, hows): (Vec<_>, Vec<_>) = peers.into_iter().map(|peer| (peer.subject, peer.how)).unzip();
    let options = Options { keep, cpu: Some(cpu), ..Options::default() };
    let samples = run::interleave(&mut subjects, &options, &mut |_| ())?;
    println!("{:<24} {:>9}  {:>19} {:>9} {:>4} {:>8}", "ticks per operation", "median", "95 %", "min", "n", "redone");
    for sample in &samples {
        println!("{}", row(sample)?);
    }
    println!("timer cost subtracted: {} ticks per trial; processor {cpu}", lab::timer::cost());
    for (sample, how) in samples.iter().zip(hows) {
        println!("{}: {how}", sample.id);
    }
    for why in missing {
        println!("missing: {why}");
    }
    Ok(())
}

fn row(sample: &Sample) -> anyhow::Result<String> {
    let summary = sample.summary()?;
    let min = sample.values().into_iter().fold(f64::INFINITY, f64::min);
    let noisy = if sample.noisy { " noisy" } else { "" };
    let interval = format!("{:.1} .. {:.1}", summary.lo, summary.hi);
    Ok(format!(
        "{:<24} {:>9.1}  {interval:>19} {min:>9.1} {:>4} {:>8}{noisy}",
        sample.id,
        summary.median,
        summary.n,
        sample.dropped.len()
    ))
}
