//! netperf's output: banner, column titles, results, and with `-v 2` histogram and percentiles; or
//! one JSON object.
//!
//! Widths, spaces and blank lines are those of netperf 2.7, built without its omni tests. netperf's
//! banner lists some of its build options (`demo`, `histogram`, `first burst N`). Here these words
//! appear if the feature is in use.

use super::confidence::{ConfidenceGoal, Runs};
use super::hist::PERCENTILES;
use super::near::Interim;
use super::{Outcome, Test};
use serde_json::{Value, json};
use std::fmt::Write;

#[derive(Clone, PartialEq, Debug)]
pub struct Style {
    /// Set if banner and column titles are printed (`-P`).
    pub headers: bool,
    /// Amount of output (`-v`). 0: only the main result; 1: the table; 2: also histogram and
    /// percentiles.
    pub verbosity: u8,
    /// Name of the far end, as the user gave it.
    pub host: String,
    /// Address of the far end.
    pub address: String,
}

/// Formats the banner, which is printed before the test and ends with the options in use.
pub fn banner(style: &Style, options: &super::Options, wish: Option<&ConfidenceGoal>) -> String {
    let name = match options.test {
        Test::TcpStream => "TCP STREAM TEST",
        Test::TcpMaerts => "TCP MAERTS TEST",
        Test::TcpRr => "TCP REQUEST/RESPONSE TEST",
        Test::TcpCc => "TCP Connect/Close TEST",
        Test::TcpCrr => "TCP Connect/Request/Response TEST",
        Test::UdpStream => "UDP UNIDIRECTIONAL SEND TEST",
        Test::UdpRr => "UDP REQUEST/RESPONSE TEST",
    };
    let (any, family) =
        if style.address.contains(':') { ("::0 (::)", "AF_INET6") } else { ("0.0.0.0 (0.0.0.0)", "AF_INET") };
    let mut out = format!("{name} from {any} port 0 {family} to {} ({}) port 0 {family}", style.host, style.address);
    if let Some(wish) = wish {
        let _ = write!(out, " : +/-{:.3}% @ {:2}% conf. ", wish.width / 0.02, wish.level);
    }
    if options.nodelay {
        out += " : nodelay";
    }
    if options.times {
        out += " : histogram";
    }
    if options.interim.is_some() {
        out += " : demo";
    }
    if options.burst > 0 {
        let _ = write!(out, " : first burst {}", options.burst);
    }
    out + "\n"
}

/// Formats netperf's line for an interim result. `at` is the time of day in seconds since 1970.
pub fn interim(test: Test, interim: &Interim, at: f64) -> String {
    let unit = if test.is_stream() { "10^6bits" } else { "Trans" };
    let Interim { figure, seconds } = interim;
    format!("Interim result: {figure:7.2} {unit}/s over {seconds:.3} seconds ending at {at:.3}\n")
}

/// Returns netperf's warning that the confidence interval is wider than requested.
///
/// netperf's two rows about CPU utilization are omitted: CPU utilization is not measured, and
/// netperf without `-c` and `-C` prints 0.000% there.
pub fn warning(runs: &Runs, wish: &ConfidenceGoal) -> String {
    format!(
        "!!! WARNING\n\
         !!! Desired confidence was not achieved within the specified iterations.\n\
         !!! This implies that there was variability in the test environment that\n\
         !!! must be investigated before going further.\n\
         !!! Confidence intervals: Throughput      : {:4.3}%\n\n",
        100.0 * runs.width(wish.level),
    )
}

const STREAM: &str = "\
Recv   Send    Send                          \n\
Socket Socket  Message  Elapsed              \n\
Size   Size    Size     Time     Throughput  \n\
bytes  bytes   bytes    secs.    10^6bits/sec  \n\n";

const RR: &str = "\
Local /Remote\n\
Socket Size   Request  Resp.   Elapsed  Trans.\n\
Send   Recv   Size     Size    Time     Rate         \n\
bytes  Bytes  bytes    bytes   secs.    per sec   \n\n";

const UDP_STREAM: &str = "\
Socket  Message  Elapsed      Messages                \n\
Size    Size     Time         Okay Errors   Throughput\n\
bytes   bytes    secs            #      #   10^6bits/sec\n\n";

/// Formats the results, with column titles if they are enabled.
pub fn figures(style: &Style, outcome: &Outcome) -> String {
    if style.verbosity == 0 {
        let end = if matches!(outcome.test, Test::TcpStream | Test::TcpMaerts | Test::TcpRr | Test::UdpRr) {
            " "
        } else {
            ""
        };
        return format!("{:7.2}{end}\n", outcome.figure());
    }
    let titles = match outcome.test {
        _ if !style.headers => "",
        Test::TcpStream | Test::TcpMaerts => STREAM,
        Test::UdpStream => UDP_STREAM,
        _ => RR,
    };
    let rows = match outcome.test {
        Test::TcpStream | Test::TcpMaerts => stream(outcome),
        Test::UdpStream => udp_stream(outcome),
        _ => rr(outcome),
    };
    let more = if style.verbosity > 1 { more(outcome) } else { String::new() };
    format!("{titles}{rows}{more}")
}

fn stream(outcome: &Outcome) -> String {
    let (recv, send) = match outcome.test {
        Test::TcpMaerts => (outcome.near.recv, outcome.far.send),
        _ => (outcome.far.recv, outcome.near.send),
    };
    let (size, elapsed, figure) = (outcome.send_size, outcome.elapsed, outcome.figure());
    format!("{recv:6} {send:6} {size:6}    {elapsed:<6.2}   {figure:7.2}   \n")
}

fn udp_stream(outcome: &Outcome) -> String {
    let Outcome { elapsed, messages, errors, send_size, .. } = outcome;
    let (sent, received, arrived) = (outcome.figure(), outcome.received(), outcome.tally.messages);
    format!(
        "{:6}  {send_size:6}   {elapsed:<7.2}   {messages:7} {errors:6}    {sent:7.2}\n\
         {:6}           {elapsed:<7.2}   {arrived:7}           {received:7.2}\n\n",
        outcome.near.send, outcome.far.recv
    )
}

fn rr(outcome: &Outcome) -> String {
    let Outcome { near, far, request, response, elapsed, .. } = outcome;
    format!(
        "{:<6} {:<6} {request:<6}   {response:<6}  {elapsed:<6.2}   {:7.2}   \n{:<6} {:<6}\n",
        near.send,
        near.recv,
        outcome.figure(),
        far.send,
        far.recv
    )
}

/// Formats the additional output of `-v 2`: calls, round trips and times as netperf prints them,
/// then percentiles, which netperf does not print.
fn more(outcome: &Outcome) -> String {
    let mut out = String::new();
    let what = match outcome.test {
        Test::TcpStream | Test::TcpMaerts => {
            out += &calls(outcome);
            "\n\nHistogram of time spent in send() call.\n"
        }
        Test::UdpStream => "\nHistogram of time spent in send() call\n",
        Test::TcpRr | Test::UdpRr => {
            out += &round_trips(outcome);
            "\nHistogram of request/response times\n"
        }
        Test::TcpCc | Test::TcpCrr => "\nHistogram of request/response times\n",
    };
    let what = if outcome.test == Test::TcpMaerts { what.replace("send()", "recv()") } else { what.to_owned() };
    if let Some(times) = &outcome.times {
        out += &what;
        out += &times.rows();
        out += &times.percentiles();
    }
    out
}

fn calls(outcome: &Outcome) -> String {
    let per = |calls: u64| outcome.bytes as f64 / calls.max(1) as f64;
    let (sends, recvs) = match outcome.test {
        Test::TcpMaerts => (outcome.tally.calls, outcome.messages),
        _ => (outcome.messages, outcome.tally.calls),
    };
    format!(
        "\nAlignment      Offset         Bytes    Bytes       Sends   Bytes    Recvs\n\
         Local  Remote  Local  Remote  Xfered   Per                 Per\n\
         Send   Recv    Send   Recv             Send (avg)          Recv (avg)\n\
         {:5}   {:5}  {:5}   {:5} {}  {:6.2}    {sends:6}   {:6.2} {recvs:6}\n",
        8,
        8,
        0,
        0,
        short(outcome.bytes as f64),
        per(sends),
        per(recvs)
    )
}

/// Formats a number like C's `%6.4g`; the result is correct only for integers and for numbers of
/// 10^4 or more.
fn short(x: f64) -> String {
    let text = if x >= 1e4 {
        let power = x.log10().floor() as i32;
        let mut digits = format!("{:.3}", x / 10f64.powi(power));
        while digits.ends_with('0') {
            digits.pop();
        }
        format!("{}e+{power:02}", digits.trim_end_matches('.'))
    } else {
        format!("{x}")
    };
    format!("{text:>6}")
}

fn round_trips(outcome: &Outcome) -> String {
    let rate = outcome.figure();
    let usec = 1e6 / rate.max(1e-9) * (1 + outcome.burst) as f64;
    let mbit = |bytes: usize| rate * bytes as f64 * 8e-6;
    format!(
        "Alignment      Offset         RoundTrip  Trans    Throughput\n\
         Local  Remote  Local  Remote  Latency    Rate     10^6bits/s\n\
         Send   Recv    Send   Recv    usec/Tran  per sec  Outbound   Inbound\n\
         {:5}  {:5}   {:5}  {:5}   {usec:<6.3}   {rate:<6.3} {:<6.3}    {:<6.3}\n",
        8,
        0,
        0,
        0,
        mbit(outcome.request),
        mbit(outcome.response)
    )
}

/// Returns all results of the test as one JSON object.
pub fn json(style: &Style, outcome: &Outcome, runs: &Runs, wish: Option<&ConfidenceGoal>) -> Value {
    let unit = if outcome.test.is_stream() { "10^6bits/s" } else { "trans/s" };
    let mut found = json!({
        "test": outcome.test.name(),
        "host": style.host,
        "figure": outcome.figure(),
        "unit": unit,
        "elapsed_s": outcome.elapsed,
        "bytes": outcome.bytes,
        "messages": outcome.messages,
        "near": { "send_buffer": outcome.near.send, "recv_buffer": outcome.near.recv },
        "far": { "send_buffer": outcome.far.send, "recv_buffer": outcome.far.recv },
        "runs": runs.len(),
        "cut": outcome.cut,
    });
    let mut put = |key: &str, value: Value| {
        if let Some(object) = found.as_object_mut() {
            object.insert(key.to_owned(), value);
        }
    };
    match outcome.test {
        Test::UdpStream => {
            put("send_size", outcome.send_size.into());
            put("errors", outcome.errors.into());
            put(
                "received",
                json!({ "figure": outcome.received(), "messages": outcome.tally.messages, "bytes": outcome.tally.bytes }),
            );
        }
        Test::TcpStream | Test::TcpMaerts => put("send_size", outcome.send_size.into()),
        _ => {
            put("request", outcome.request.into());
            put("response", outcome.response.into());
            put("burst", outcome.burst.into());
        }
    }
    if let Some(wish) = wish {
        let (width, achieved) = (runs.width(wish.level), runs.width(wish.level) <= wish.width);
        put("confidence", json!({ "level": wish.level, "wished": wish.width, "width": width, "achieved": achieved }));
    }
    if let Some(times) = &outcome.times {
        let of = |(name, share): (&str, f64)| (name.to_owned(), Value::from(times.percentile(share)));
        let latency: serde_json::Map<String, Value> = PERCENTILES.into_iter().map(of).collect();
        put("latency_ns", latency.into());
    }
    found
}

/// Returns the mean of several runs as netperf prints it; counts are averaged, too. `None` without
/// runs.
pub fn mean(outcomes: &[Outcome]) -> Option<Outcome> {
    let n = outcomes.len() as u64;
    let mut mean = outcomes.last()?.clone();
    let whole = |of: fn(&Outcome) -> u64| outcomes.iter().map(of).sum::<u64>() / n.max(1);
    let seconds = |of: fn(&Outcome) -> f64| outcomes.iter().map(of).sum::<f64>() / n.max(1) as f64;
    mean.elapsed = seconds(|outcome| outcome.elapsed);
    mean.preempted = seconds(|outcome| outcome.preempted);
    mean.messages = whole(|outcome| outcome.messages);
    mean.errors = whole(|outcome| outcome.errors);
    mean.bytes = whole(|outcome| outcome.bytes);
    mean.tally.bytes = whole(|outcome| outcome.tally.bytes);
    mean.tally.messages = whole(|outcome| outcome.tally.messages);
    mean.tally.calls = whole(|outcome| outcome.tally.calls);
    mean.cut = outcomes.iter().any(|outcome| outcome.cut);
    if let Some(times) = &mut mean.times {
        for other in outcomes.iter().rev().skip(1).filter_map(|outcome| outcome.times.as_ref()) {
            times.merge(other);
        }
    }
    Some(mean)
}
