//! `netperf` and `netserver`: convert flags to a test, a placement and an output style.

use crate::args::{FamilyArgs, LimitArgs, ServedArgs};
use crate::exit::{Exit, Fault};
use crate::place::{PlaceArgs, seconds, serve_kernel, serve_ours};
use crate::surroundings::{self, Form};
use apps::netperf::confidence::ConfidenceGoal;
use apps::netperf::report::Style;
use apps::netperf::session::{Netserver, Session};
use apps::netperf::{BufferSizes, Length, Options, PORT, Test};
use clap::{Args, Parser};
use std::ffi::OsString;
use std::time::Duration;

/// Arguments of `netperf`.
#[derive(Args, Debug)]
#[command(after_help = "\
Tests: TCP_STREAM TCP_MAERTS UDP_STREAM TCP_RR TCP_CC TCP_CRR UDP_RR. The flags of the test follow --: -m and -M \
bytes per send and receive call, -s and -S local and remote socket buffers, -r request,response sizes, -b additional \
requests in flight, -D TCP_NODELAY ('linerate netperf -- -h').

Both ends run here unless -H gives the far end ('linerate netserver'). --over pair, nic and router use linerate hosts \
on one thread, or with --threads on one thread each. native uses the kernel over loopback. veth uses the kernel as \
host, router and host, with segments of 64 KiB, or of the MTU with --link tso=off. tap uses a linerate host and the \
kernel. veth and tap run in network namespaces.

Examples:
  linerate netperf -t TCP_RR -l 5 -v 2
  linerate netperf -t TCP_RR --topo topo/dumbbell.toml --near a1 --far b1
  linerate netperf -t TCP_STREAM -i 10,3 -I 95,5 --over native -- -m 65536
  linerate netperf -H 10.0.0.1 --port tap:tap0 --addr 10.0.0.2/24
  linerate netperf -6 -t UDP_RR --over router
  linerate netperf -H fe80::1%tap0 --port tap:tap0 --addr fd00::2/64")]
pub struct NetperfArgs {
    /// Run this test
    #[arg(short = 't', value_name = "TEST", default_value = "TCP_STREAM", ignore_case = true)]
    pub test: Test,
    /// Stop after N seconds; negative: after N transactions (RR) or bytes (STREAM)
    #[arg(short = 'l', value_name = "N", default_value = "10", allow_hyphen_values = true, value_parser = length)]
    pub length: Length,
    /// Set the maximum and minimum number of iterations, each 3 to 30
    #[arg(short = 'i', value_name = "MAX,MIN", value_parser = runs)]
    pub runs: Option<(usize, usize)>,
    /// Set the confidence level (95 or 99 percent) and interval width in percent of the mean
    #[arg(short = 'I', value_name = "LEVEL,WIDTH", value_parser = interval)]
    pub interval: Option<(u32, f64)>,
    #[command(flatten)]
    pub print: PrintArgs,
    #[command(flatten)]
    pub place: PlaceArgs,
    /// Pass these flags to the test
    #[arg(last = true, value_name = "TEST FLAGS", allow_hyphen_values = true)]
    pub test_words: Vec<String>,
}

/// Flags that select the output.
#[derive(Args, Debug)]
pub struct PrintArgs {
    /// Print test banner and headers (1) or only figures (0)
    #[arg(short = 'P', value_name = "0|1", default_value_t = 1, value_parser = clap::value_parser!(u8).range(..=1))]
    pub headers: u8,
    /// Set the verbosity: 0: figure only; 1: table; 2: with histogram and percentiles
    #[arg(short = 'v', value_name = "LEVEL", default_value_t = 1, value_parser = clap::value_parser!(u8).range(..=2))]
    pub verbosity: u8,
    /// Print one JSON object instead of text
    #[arg(short = 'j', long)]
    pub json: bool,
    /// Print interim results every SECONDS
    #[arg(short = 'D', value_name = "SECONDS", num_args = 0..=1, default_missing_value = "1", value_parser = seconds)]
    pub interim: Option<Duration>,
}

/// Flags of the test, after `--`.
#[derive(Parser, Debug)]
#[command(name = "linerate netperf --", no_binary_name = true)]
struct TestArgs {
    /// Set the size of a send call in bytes [default: the socket's send buffer]
    #[arg(short = 'm', value_name = "BYTES", value_parser = bytes)]
    send_size: Option<usize>,
    /// Set the size of a receive call in bytes [default: the socket's receive buffer]
    #[arg(short = 'M', value_name = "BYTES", value_parser = bytes)]
    recv_size: Option<usize>,
    /// Set the local send and receive socket buffer sizes
    #[arg(short = 's', value_name = "BYTES[,BYTES]", value_parser = two)]
    near: Option<(usize, usize)>,
    /// Set the remote send and receive socket buffer sizes
    #[arg(short = 'S', value_name = "BYTES[,BYTES]", value_parser = two)]
    far: Option<(usize, usize)>,
    /// Set the request and response sizes in bytes
    #[arg(short = 'r', value_name = "BYTES[,BYTES]", default_value = "1", value_parser = two)]
    sizes: (usize, usize),
    /// Keep N additional requests in flight
    #[arg(short = 'b', value_name = "N", default_value_t = 0)]
    burst: usize,
    /// Set TCP_NODELAY
    #[arg(short = 'D')]
    nodelay: bool,
}

/// Arguments of `netserver`.
#[derive(Args, Debug)]
#[command(after_help = "\
The flags of 'linerate host' apply, and the host ends in the same cases. It serves 'linerate netperf' \
only: other netperf versions use another control protocol.

Examples:
  linerate netserver --port tap:tap0 --addr 10.0.0.2/24
  linerate netserver --native -p 12865")]
pub struct NetserverArgs {
    /// Serve on the kernel's sockets, at all addresses of this machine
    #[arg(long)]
    pub native: bool,
    #[command(flatten)]
    pub family: FamilyArgs,
    #[command(flatten)]
    pub limits: LimitArgs,
    #[command(flatten)]
    pub served: ServedArgs,
}

/// Runs `netperf`.
pub fn run(args: &NetperfArgs, words: &[OsString]) -> anyhow::Result<Exit> {
    let options = options(args)?;
    let wish = ConfidenceGoal::of(args.runs, args.interval);
    let place = args.place.place(words, PORT)?;
    let style = Style {
        headers: args.print.headers == 1,
        verbosity: args.print.verbosity,
        host: place.far(),
        address: place.far(),
    };
    let json = args.print.json;
    surroundings::measured(Form::of(json), |out| place.play(&mut Session { options, wish, style, json, out }))
}

/// Runs `netserver`.
pub fn serve(args: &NetserverArgs, words: &[OsString]) -> anyhow::Result<Exit> {
    let port = args.served.listen.unwrap_or(PORT);
    match args.native {
        true => serve_kernel::<Netserver>("netserver", &args.served, args.family, port, args.limits),
        false => serve_ours::<Netserver>(&args.served, words, args.family, port, args.limits),
    }
}

fn options(args: &NetperfArgs) -> anyhow::Result<Options> {
    let own = TestArgs::try_parse_from(&args.test_words);
    let own = match own {
        Ok(own) => own,
        Err(error) if !error.use_stderr() => error.exit(), // help
        Err(error) => return Err(Fault::usage(crate::exit::misused(&error, &["netperf".to_owned()]))),
    };
    let sizes = |pair: Option<(usize, usize)>| {
        let (send, recv) = pair.unzip();
        BufferSizes { send, recv }
    };
    let options = Options {
        test: args.test,
        length: args.length,
        send_size: own.send_size,
        recv_size: own.recv_size,
        request: own.sizes.0,
        response: own.sizes.1,
        burst: own.burst,
        near: sizes(own.near),
        far: sizes(own.far),
        nodelay: own.nodelay,
        times: args.print.verbosity > 1,
        interim: args.print.interim,
    };
    options.check().map_err(Fault::usage)?;
    Ok(options)
}

fn length(word: &str) -> Result<Length, String> {
    if let Some(count) = word.strip_prefix('-') {
        return Ok(Length::Count(bytes(count)? as u64));
    }
    seconds(word).map(Length::Time)
}

/// Parses a number of bytes, with K, M or G for powers of two and k, m or g for powers of ten, as
/// in netperf.
fn bytes(word: &str) -> Result<usize, String> {
    let digits = word.trim_end_matches(|unit: char| unit.is_ascii_alphabetic());
    let unit: usize = match word.get(digits.len()..) {
        Some("") => 1,
        Some("k") => 1_000,
        Some("m") => 1_000_000,
        Some("g") => 1_000_000_000,
        Some("K") => 1 << 10,
        Some("M") => 1 << 20,
        Some("G") => 1 << 30,
        _ => return Err("expected a number, with k, m, g or K, M, G".to_owned()),
    };
    let number = digits.parse::<usize>().ok().and_then(|number| number.checked_mul(unit));
    number.ok_or_else(|| "expected a number, with k, m, g or K, M, G".to_owned())
}

/// Parses `1,100`; a single number is used for both.
fn two(word: &str) -> Result<(usize, usize), String> {
    let (first, second) = word.split_once(',').unwrap_or((word, word));
    Ok((bytes(first)?, bytes(second)?))
}

fn runs(word: &str) -> Result<(usize, usize), String> {
    let (max, min) = two(word)?;
    let most = apps::netperf::confidence::RUNS_MAX;
    if (1..=most).contains(&max) && (1..=most).contains(&min) {
        Ok((max, min))
    } else {
        Err(format!("expected MAX,MIN, each 1 to {most}, as in 10,3"))
    }
}

fn interval(word: &str) -> Result<(u32, f64), String> {
    let (level, width) = word.split_once(',').unwrap_or((word, "5"));
    let level = level.parse().ok().filter(|level| [95, 99].contains(level));
    let width = width.parse().ok().filter(|width| (0.01..=100.0).contains(width));
    level.zip(width).ok_or_else(|| "expected 95 or 99, and the interval's width in percent, as in 99,5".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_parsed() {
        assert_eq!(length("-100"), Ok(Length::Count(100)));
        assert_eq!(length("0.5"), Ok(Length::Time(Duration::from_millis(500))));
        assert!(length("0").is_err() && length("-").is_err() && length("NaN").is_err() && length("86401").is_err());
        assert_eq!((two("1,2K"), two("3k")), (Ok((1, 2048)), Ok((3000, 3000))));
        assert!(bytes("5q").is_err() && bytes("99999999999999999999").is_err() && bytes("9999999999999G").is_err());
        assert_eq!((interval("95,10"), interval("99")), (Ok((95, 10.0)), Ok((99, 5.0))));
        assert!(interval("90,5").is_err() && interval("99,0").is_err());
        assert!(runs("10,3") == Ok((10, 3)) && runs("0,3").is_err() && runs("31").is_err());
    }
}
