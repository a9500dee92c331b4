//! `rfc2544`: converts flags to a plan and ports or an in-memory device, and results to tables,
//! JSON or a chart.

use crate::args::FamilyArgs;
use crate::exit::{Exit, Fault, notice, print};
use crate::run::{Output, bar};
use anyhow::Context;
use buf::{Pool, PoolConfig, PoolLocks};
use clap::{Args, ValueEnum, ValueHint};
use lab::measuring::Measuring;
use lab::rfc2544::trial::Refusal;
use lab::rfc2544::{Directions, Domain, Max, Plan, Results, Test, Tester, dut, frames, report};
use lab::study::Progress;
use node::remote::Families;
use pipe::units::{self, Rate};
use port::spec::{Kind, Spec};
use port::{Env, Pairs, Port};
use std::path::PathBuf;
use std::time::Duration;

/// Buffers of the tester's pool: enough for all rings of an in-memory device and the tester's own
/// frames.
const BUFFERS: usize = 4 * dut::SLOTS + 1024;

/// Arguments of `rfc2544`.
#[derive(Args, Debug, Clone)]
#[command(after_help = "\
Test frames are UDP from 198.18.1.2 to 198.19.1.2, port 7, or with -6 from 2001:2:0:1::2 to 2001:2:0:2::2 (RFC 5180), \
with a sequence number and a timestamp. Before each trial both ports send a broadcast ARP request or a neighbor \
solicitation, so that a bridge learns their addresses. Only test frames are counted. The tester occupies one core. By \
the RFC, one frame size takes hours: trials of 60 s with pauses of 5 s, and 50 searches for the longest burst; --quick \
is for a first try. If the tester is too slow for a rate, the figure is marked 'at least'. Ctrl-C ends the measurement \
and prints the results so far. Exit code 1: a port was lost, or no frame passes the device.

Examples:
  linerate rfc2544 --quick --size 64,1518
  linerate rfc2544 tap:tap0 tap:tap1 --max-rate 1G --test throughput,latency
  linerate rfc2544 'nic(wire=w):em0' 'nic(wire=w):em1' --quick --max-rate 1G")]
pub struct Rfc2544Args {
    /// Measure the device between these two ports, as in tap:tap0 tap:tap1 [default: a device in
    /// memory, see --dut]
    #[arg(value_name = "PORT", num_args = 0..=2)]
    pub ports: Vec<String>,
    /// Run these tests
    #[arg(long, value_name = "TEST", value_delimiter = ',', default_value = "throughput,latency,loss,back-to-back")]
    pub test: Vec<TestArg>,
    /// Set the frame sizes in bytes, including FCS [default: 64,128,256,512,1024,1280,1518; IPv6:
    /// 84 instead of 64]
    #[arg(long, value_name = "BYTES", value_delimiter = ',', value_parser = size)]
    pub size: Vec<usize>,
    /// Set the sending time of a trial [default: 60s; with --quick 200ms]
    #[arg(long, value_name = "DURATION", value_parser = span)]
    pub duration: Option<Duration>,
    /// Run short trials and few bursts, to try the command; the results are imprecise
    #[arg(long)]
    pub quick: bool,
    /// Set the maximum rate in each direction: frames per second (1488095, 1.4Mpps) or line rate in
    /// bits per second (10G) [default: the tester's maximum]
    #[arg(long, value_name = "PPS", value_parser = max_rate)]
    pub max_rate: Option<MaxRate>,
    /// Set the resolution of the throughput search, in percent of the rate
    #[arg(long, value_name = "PERCENT", value_parser = percent, default_value = "1%")]
    pub resolution: f64,
    /// Set the time to wait for late frames [default: 2s; with --quick 100ms]
    #[arg(long, value_name = "DURATION", value_parser = span)]
    pub drain: Option<Duration>,
    /// Set the pause between trials [default: 5s; with --quick or a device in memory 0s]
    #[arg(long, value_name = "DURATION", value_parser = units::duration)]
    pub settle: Option<Duration>,
    /// Repeat the search for the longest burst N times [default: 50; with --quick 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeats: Option<u32>,
    /// Select the device if no ports are given: bridge, or loop, to measure the tester's limits
    #[arg(long, value_name = "DUT", default_value = "bridge", conflicts_with = "ports")]
    pub dut: DutArg,
    #[command(flatten)]
    pub family: FamilyArgs,
    /// Send frames in both directions at once
    #[arg(long)]
    pub bidirectional: bool,
    /// Print one JSON object instead of tables
    #[arg(short, long)]
    pub json: bool,
    /// Write a chart of throughput and latency to this SVG file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub svg: Option<PathBuf>,
}

/// Tests of RFC 2544.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum TestArg {
    /// Measure the highest rate without loss (RFC 2544 26.1)
    Throughput,
    /// Measure the latency at the throughput rate (26.2)
    Latency,
    /// Measure the loss rate at rates from the maximum downwards (26.3)
    Loss,
    /// Measure the longest burst without loss (26.4)
    BackToBack,
}

/// Device in memory, used if no ports are given.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum DutArg {
    /// Use linerate's bridge, in its own thread
    Bridge,
    /// Use no device: frames sent to one port arrive at the other
    Loop,
}

/// Value of `--max-rate`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MaxRate(Max);

fn size(word: &str) -> Result<usize, String> {
    let (least, most) = (frames::size_min(Domain::Inet), frames::SIZE_MAX);
    let size = word.parse().ok().filter(|size| (least..=most).contains(size));
    size.ok_or_else(|| format!("frame size must be {least} to {most} bytes, FCS included"))
}

fn span(word: &str) -> Result<Duration, String> {
    let span = units::duration(word).map_err(|why| why.to_string())?;
    let fits = (Duration::from_millis(1)..=Duration::from_secs(3600)).contains(&span);
    if fits { Ok(span) } else { Err("expected 1ms to 60m".to_owned()) }
}

fn percent(word: &str) -> Result<f64, String> {
    let percent = word.strip_suffix('%').unwrap_or(word).parse::<f64>().ok();
    let percent = percent.filter(|percent| (0.001..=50.0).contains(percent));
    percent.map(|percent| percent / 100.0).ok_or_else(|| "expected 0.001% to 50%".to_owned())
}

/// Parses a rate; a bare number means frames a second, as in other testers.
fn max_rate(word: &str) -> Result<MaxRate, String> {
    let rate = match word.parse::<u64>() {
        Ok(frames) if frames > 0 => Rate::Frames(frames),
        _ => units::rate(word).map_err(|why| why.to_string())?,
    };
    Ok(MaxRate(match rate {
        Rate::Frames(frames) => Max::Frames(frames),
        Rate::Bits(bits) => Max::Line(bits),
    }))
}

pub fn run(args: &Rfc2544Args) -> anyhow::Result<Exit> {
    let plan = plan(args)?;
    let svg = Output::open("--svg", args.svg.as_ref())?;
    let (_measuring, env) = Measuring::begin();
    dispatch::install_stop_handler().context("cannot catch Ctrl-C")?;
    let data = plan.sizes.iter().copied().fold(2048, usize::max);
    let config = PoolConfig { buffers: BUFFERS, data, locks: PoolLocks::Light, ..PoolConfig::default() };
    let pool = Pool::new(&config)?;
    let results = match args.ports.as_slice() {
        [] => {
            let kind = match args.dut {
                DutArg::Bridge => dut::Kind::Bridge,
                DutArg::Loop => dut::Kind::Loop,
            };
            let (_device, ports, refusal) = dut::start(kind)?;
            measure(args, &plan, ports, pool, refusal, kind.name())?
        }
        [a, b] => {
            let ports = open(a, b, &pool)?;
            check_sizes(&plan, &ports)?;
            measure(args, &plan, ports, pool, Refusal::Limit, "the device between the ports")?
        }
        _ => {
            return Err(Fault::usage("only one port is given: give two, or none for a device in memory"));
        }
    };
    let report = report::Report::of(env, results);
    let text = if args.json { serde_json::to_string_pretty(&report)? + "\n" } else { lab::rfc2544::render(&report) };
    print(&text)?;
    if let Some(output) = svg {
        output.write(|out| out.write_all(report::chart(&report.results).svg().as_bytes()))?;
    }
    match &report.results.cut {
        Some(why) if !dispatch::stop_requested() => {
            notice(why);
            Ok(Exit::Failed)
        }
        _ => Ok(Exit::Fine),
    }
}

/// Returns the address family of the test frames.
fn family(args: &Rfc2544Args) -> Domain {
    if args.family.families() == Families::V6 { Domain::Inet6 } else { Domain::Inet }
}

fn plan(args: &Rfc2544Args) -> anyhow::Result<Plan> {
    let least = frames::size_min(family(args));
    if let Some(size) = args.size.iter().find(|size| **size < least) {
        return Err(Fault::usage(format!(
            "--size {size}: an IPv6 test frame has at least {least} bytes, FCS included"
        )));
    }
    let base = if args.quick { Plan::quick() } else { Plan::by_the_book() };
    let settle = if args.ports.is_empty() { Duration::ZERO } else { base.settle };
    let tests = args.test.iter().map(|test| match test {
        TestArg::Throughput => Test::Throughput,
        TestArg::Latency => Test::Latency,
        TestArg::Loss => Test::Loss,
        TestArg::BackToBack => Test::BackToBack,
    });
    Ok(Plan {
        tests: tests.collect(),
        sizes: if args.size.is_empty() { frames::sizes(family(args)).to_vec() } else { args.size.clone() },
        duration: args.duration.unwrap_or(base.duration),
        max: args.max_rate.map_or(base.max, |rate| rate.0),
        resolution: args.resolution,
        settle: args.settle.unwrap_or(settle),
        repeats: args.repeats.unwrap_or(base.repeats),
        ..base
    })
}

/// Opens both ports.
fn open(a: &str, b: &str, pool: &Pool) -> anyhow::Result<[Port; 2]> {
    let parse = |name: &str| Spec::parse(name).map_err(Fault::usage);
    let (a, b) = (parse(a)?, parse(b)?);
    if a.port.kind == b.port.kind && a.name == b.name && a.port.kind != Kind::Pair {
        return Err(Fault::usage(format!("{b}: the same port is given twice: give two different ports")));
    }
    let pairs = Pairs::new();
    let open = |spec: &Spec, unit| {
        let env = Env { pool: pool.clone(), pairs: &pairs, mac: frames::MACS[usize::from(unit)], unit };
        port::open(spec, &env).map_err(|why| anyhow::anyhow!("port {}", port::port_message(&spec.to_string(), &why)))
    };
    let ports = [open(&a, 0)?, open(&b, 1)?];
    if let Some(name) = pairs.unfinished().first().or(pairs.unfinished_wires().first()) {
        return Err(Fault::usage(format!("{name}: the other end is not open in this process")));
    }
    match ports.iter().find(|port| port.rx.is_silent()) {
        Some(port) => Err(Fault::usage(format!("{}: port never receives frames and cannot be measured", port.spec))),
        None => Ok(ports),
    }
}

/// Checks that the frames fit through the ports.
fn check_sizes(plan: &Plan, ports: &[Port; 2]) -> anyhow::Result<()> {
    let largest = plan.sizes.iter().max().copied().unwrap_or(0);
    let fits = |port: &&Port| usize::from(port.caps.mtu) + wire::eth::HEADER_LEN + frames::FCS >= largest;
    match ports.iter().find(|port| !fits(port)) {
        Some(port) => {
            let (spec, mtu) = (&port.spec, port.caps.mtu);
            Err(Fault::usage(format!("{spec}: MTU {mtu} is too small for frames of {largest} bytes, FCS included")))
        }
        None => Ok(()),
    }
}

fn measure(
    args: &Rfc2544Args,
    plan: &Plan,
    ports: [Port; 2],
    pool: Pool,
    refusal: Refusal,
    name: &str,
) -> anyhow::Result<Results> {
    let mut time = dut::Live::new();
    let drain = if args.quick { Duration::from_millis(100) } else { Duration::from_secs(2) };
    let mut tester = Tester {
        ports,
        pool,
        time: &mut time,
        stop: &dispatch::stop_requested,
        refusal,
        ways: if args.bidirectional { Directions::Both } else { Directions::One },
        drain: args.drain.unwrap_or(drain),
        family: family(args),
        ident: std::process::id(),
        trials: 0,
    };
    let bar = bar();
    let results = lab::rfc2544::run(plan, &mut tester, name, &mut |progress: Progress| {
        bar.set_length(progress.total as u64);
        bar.set_position(progress.done as u64);
        bar.set_message(progress.what);
    });
    bar.finish_and_clear();
    for port in &tester.ports {
        port.rx.warnings().iter().for_each(|warning| notice(&format!("{}: {warning}", port.spec)));
    }
    Ok(results)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_parsed() {
        assert_eq!(max_rate("148809"), Ok(MaxRate(Max::Frames(148_809))));
        assert_eq!(max_rate("1.5Mpps"), Ok(MaxRate(Max::Frames(1_500_000))));
        assert_eq!(max_rate("10G"), Ok(MaxRate(Max::Line(10_000_000_000))));
        assert!(max_rate("0").is_err() && max_rate("-1").is_err() && max_rate("fast").is_err());
        assert_eq!((percent("1%"), percent("0.5")), (Ok(0.01), Ok(0.005)));
        assert!(percent("0%").is_err() && percent("NaN").is_err() && percent("60%").is_err());
        assert!(size("63").is_err() && size("64").is_ok() && size("9018").is_ok() && size("9019").is_err());
        assert!(span("0s").is_err() && span("61m").is_err() && span("60s").is_ok());
    }
}
