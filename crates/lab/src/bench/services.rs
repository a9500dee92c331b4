//! `linerate bench services`: our servers and clients, driven by stock tools, compared with the
//! servers and clients usually used with these tools.
//!
//! ```text
//!  redis-benchmark -> TAP -> linerate kvd          wrk -> TAP -> linerate httpd
//!                  -> loopback -> redis-server         -> loopback -> nginx
//!  linerate iperf3 -c --latency -> veth -> linerate iperf3 -s
//!  linerate iperf3 -c -u -> TAP -> iperf3 -s, and iperf3 -c -u -> TAP -> linerate iperf3 -s:
//!                           the gaps between departures, as captured by tcpdump
//! ```
//! Every server and client is a separate process in the network namespace of this process (see
//! [`crate::netperf::Place::wants_namespace`]); a trial is one run of the tool. If a tool is not
//! installed, its rows are missing, with that reason.

use crate::result::{Report, Row};
use crate::run;
use crate::side::{Shared, Side};
use crate::study::{Options, Progress, Study, Unit};
use crate::subject::{Reading, Subject};
use anyhow::{Context, bail, ensure};
use port::os::netlink::Netlink;
use serde_json::Value;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Time limit for a server to start listening.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time limit of one run of a tool.
const TRIAL_MAX: Duration = Duration::from_secs(60);
/// Size of the file fetched by HTTP, in bytes.
const BODY: usize = 1024;
/// Rate and payload of the datagrams: 50 Mbit/s, a gap of 160 us.
const RATE: &str = "50M";
const PAYLOAD: &str = "1000";
/// Number of datagram departures evaluated.
const DEPARTURES: usize = 2000;
/// Number of departures skipped at the start, until the sender has reached its steady rate.
const LEFT_OUT: usize = 100;

/// Measures all rows of `linerate bench services`.
///
/// # Errors
/// No netlink socket, or the loopback interface cannot be set up.
pub fn services(options: &Options, progress: &mut dyn FnMut(Progress)) -> anyhow::Result<Report> {
    let mut study = Study::new("bench services", options.run(8), 4, progress);
    let tsc_hz = study.report.env.tsc_hz;
    let size = Size { n: if options.quick { 20_000 } else { 200_000 }, tsc_hz };
    Netlink::open()?.set_up("lo")?;
    let contests: [(&str, &str, &str, Build); 4] = [
        ("keys and values", "kv", "redis", keys),
        ("files", "http", "nginx", files),
        ("round trips under load", "iperf3.latency", "", latency),
        ("gaps between datagrams", "iperf3.pacing", "iperf3", pacing),
    ];
    for (part, name, peer, build) in contests {
        study.part(part);
        hold(&mut study, size, name, peer, build);
    }
    study.note(
        "kv: redis-benchmark, 50 connections, 16 requests in flight, 3-byte values; http: wrk, 32 connections, 1 \
         KiB; ours over a TAP device, redis-server and nginx (one process each) over loopback, which is the \
         shorter path",
    );
    study.note(
        "iperf3.latency: round trips of the probe while one stream runs at full speed, or at 1 Mbit/s; both ends \
         ours, over veth; percentiles of one second",
    );
    study.note(format!(
        "iperf3.pacing: {RATE}bit/s of {PAYLOAD} bytes; standard deviation of {DEPARTURES} gaps between departures into a TAP device"
    ));
    Ok(study.finish())
}

/// Number of requests of a trial, and the rate of the TSC.
#[derive(Clone, Copy)]
struct Size {
    /// Number of requests in a trial.
    n: u32,
    tsc_hz: u64,
}

/// Function that starts the servers of a comparison; it is called anew for each round.
type Build = fn(&Size, &mut Netlink) -> anyhow::Result<Contest>;

/// A comparison of our server with a peer's: the running servers, and the rows. Each row has a tool
/// that runs against our server and one that runs against the peer's.
struct Contest {
    /// The servers, which are ended when this is dropped.
    _served: Vec<Served>,
    rows: Vec<Line>,
}

/// One row of a comparison.
struct Line {
    id: &'static str,
    title: &'static str,
    /// Unit of the figure; `None`: ticks per operation.
    unit: Option<&'static str>,
    ours: Option<Tool>,
    peer: Option<Tool>,
}

impl Contest {
    /// Removes the tool `id` from its row and returns it; `None` if the comparison has no such tool
    /// or it was already removed.
    fn take(&mut self, id: &str) -> Option<Tool> {
        let tools = self.rows.iter_mut().flat_map(|line| [&mut line.ours, &mut line.peer]);
        tools.into_iter().find(|tool| tool.as_ref().is_some_and(|tool| tool.id == id))?.take()
    }
}

/// Measures a comparison, row by row. For each row, the servers are started anew in each round.
fn hold(study: &mut Study<'_>, size: Size, name: &str, peer: &str, build: Build) {
    let start = move || build(&size, &mut Netlink::open()?);
    let lines: Vec<(&'static str, &'static str, Option<&'static str>, bool)> = match start() {
        Ok(contest) => contest.rows.iter().map(|row| (row.id, row.title, row.unit, row.peer.is_some())).collect(),
        Err(why) => return study.rows([Row::missing(name, "measured with a stock tool", &format!("{why:#}"))]),
    };
    let options = run::Options { max_seconds: None, cpu: None, warmup: 1, ..study.options().one_trial().waiting() };
    for (id, title, unit, has_peer) in lines {
        let contest = Shared::new(start);
        let side = |id: String| {
            let (contest, name) = (contest.clone(), id.clone());
            Side::new(id, move || {
                let contest = contest.get()?;
                let mut tool =
                    contest.borrow_mut().take(&name).with_context(|| format!("no tool for {name} in this round"))?;
                Ok(crate::subject::from_fn(name.clone(), move || {
                    let _served = &contest;
                    tool.trial()
                }))
            })
        };
        let theirs = format!("{peer}.{id}");
        let mut sides = vec![side(id.to_owned())];
        sides.extend(has_peer.then(|| side(theirs.clone())));
        let group = study.measure_with(sides, options.clone());
        let unit = Unit { name: unit.unwrap_or(Unit::TICKS.name), of: |value| value };
        study.row(&group, id, title, unit);
        if let ([Ok(ours), Ok(beside)], "ticks/op") = ([id, &theirs].map(|id| group.sample(id).summary()), unit.name) {
            let rate = |ticks: f64| size.tsc_hz as f64 / ticks;
            study.note(format!("{id}: {:.0} per second; {peer} {:.0}", rate(ours.median), rate(beside.median)));
        }
    }
}

/// Function that runs a tool; returns the number of operations and their duration, or a single
/// value, which is reported as that many ticks.
type Run = Box<dyn FnMut() -> anyhow::Result<(u64, Took)>>;

enum Took {
    Time(Duration),
    Value(u64),
}

struct Tool {
    id: String,
    run: Run,
    tsc_hz: u64,
}

impl Tool {
    fn new(id: &str, tsc_hz: u64, run: impl FnMut() -> anyhow::Result<(u64, Took)> + 'static) -> Tool {
        Tool { id: id.to_owned(), run: Box::new(run), tsc_hz }
    }
}

impl Subject for Tool {
    fn id(&self) -> &str {
        &self.id
    }

    fn trial(&mut self) -> anyhow::Result<Reading> {
        let begun = Instant::now();
        let (ops, took) = (self.run)()?;
        let wall_ns = begun.elapsed().as_nanos() as u64;
        let ticks = match took {
            Took::Time(time) => (time.as_nanos() * u128::from(self.tsc_hz) / 1_000_000_000) as u64,
            Took::Value(value) => value,
        };
        Ok(Reading { ops, ticks, wall_ns, cpu_ns: wall_ns })
    }
}

/// A server process, which is killed when dropped, and its temporary directory.
struct Served {
    child: Child,
    dir: Option<PathBuf>,
}

impl Drop for Served {
    fn drop(&mut self) {
        // safe: the child has not been waited for, so its process id is not reused
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(dir) = &self.dir {
            let _ = fs::remove_dir_all(dir);
        }
    }
}

fn serve(command: &mut Command) -> anyhow::Result<Served> {
    let name = command.get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Ok(Served { child: command.spawn().with_context(|| format!("cannot start {name}"))?, dir: None })
}

/// Returns a command that runs this program as one of its servers or clients.
fn linerate(words: &[&str]) -> Command {
    // /proc/self/exe is this program even if its file was replaced after the start
    let mut command = Command::new("/proc/self/exe");
    crate::child::no_child(command.args(words)).env_remove("LINERATE_CTL");
    command
}

/// Starts one of our servers on a TAP device, with the kernel at 10.0.N.1 and the server at
/// 10.0.N.2.
fn serve_ours(netlink: &mut Netlink, net: u8, words: &[&str]) -> anyhow::Result<Served> {
    let (device, addr) = (format!("sv{net}"), format!("10.0.{net}.2/24"));
    let port = format!("tap:{device}");
    let served = serve(&mut linerate(&[words, &["--port", &port, "--addr", &addr]].concat()))?;
    until("a TAP device", || netlink.set_up(&device).is_ok())?;
    netlink.add_addr(&device, Ipv4Addr::new(10, 0, net, 1), 24)?;
    Ok(served)
}

/// Removes the network device `device` if it remains from an earlier round.
fn without(device: &str) {
    let _ = Command::new("ip").args(["link", "del", device]).stderr(Stdio::null()).status();
}

fn ours(net: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, net, 2)
}

fn until(what: &str, mut done: impl FnMut() -> bool) -> anyhow::Result<()> {
    let end = Instant::now() + PATIENCE;
    while !done() {
        ensure!(Instant::now() < end, "{what} is not available after {} seconds", PATIENCE.as_secs());
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

fn listens(at: SocketAddr) -> anyhow::Result<()> {
    until(&format!("a server at {at}"), || TcpStream::connect_timeout(&at, Duration::from_millis(500)).is_ok())
}

/// Runs a tool and returns its output. Fails if the tool fails or exceeds [`TRIAL_MAX`].
fn output_of(command: &mut Command) -> anyhow::Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().with_context(|| format!("cannot start {name}"))?;
    let Output { status, stdout, stderr } = finish(child).with_context(|| name.clone())?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    ensure!(status.success(), "{name} failed: {status}: {}{}", text(&stderr), text(&stdout));
    Ok(text(&stdout))
}

fn finish(mut child: Child) -> anyhow::Result<Output> {
    // Both pipes are read while waiting, so that a tool with much output does not block.
    let (out, err) = (child.stdout.take(), child.stderr.take());
    std::thread::scope(|scope| {
        let out = dispatch::spawn_scoped(scope, "out", move || read(out))?;
        let err = dispatch::spawn_scoped(scope, "err", move || read(err))?;
        let end = Instant::now() + TRIAL_MAX;
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            if Instant::now() > end {
                let _ = child.kill();
                let _ = child.wait();
                bail!("did not exit within {} s", TRIAL_MAX.as_secs());
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        let text = |read: std::thread::Result<Vec<u8>>| read.unwrap_or_default();
        Ok(Output { status, stdout: text(out.join()), stderr: text(err.join()) })
    })
}

fn read(from: Option<impl std::io::Read>) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(mut from) = from {
        let _ = from.read_to_end(&mut bytes); // what was read before an error is used
    }
    bytes
}

/// Compares `linerate kvd` with redis-server under redis-benchmark.
fn keys(size: &Size, netlink: &mut Netlink) -> anyhow::Result<Contest> {
    let (here, there) = (ours(10), Ipv4Addr::LOCALHOST);
    let kvd = serve_ours(netlink, 10, &["kvd"])?;
    listens(SocketAddr::from((here, 6379)))?;
    let mut served = vec![kvd];
    let words = ["--port", "6379", "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"];
    let redis = serve(Command::new("redis-server").args(words)).and_then(|redis| {
        listens(SocketAddr::from((there, 6379)))?;
        Ok(redis)
    });
    let beside = redis.is_ok();
    served.extend(redis.ok());
    let (n, tsc_hz) = (size.n, size.tsc_hz);
    let tool = |id: &str, at: Ipv4Addr, test: &'static str| {
        Tool::new(id, tsc_hz, move || {
            let (at, n) = (at.to_string(), n.to_string());
            let words = ["-h", &at, "-t", test, "-n", &n, "-c", "50", "-P", "16", "--csv"];
            let text = output_of(Command::new("redis-benchmark").args(words))?;
            let rate = text.lines().filter(|line| line.starts_with(&format!("\"{}\"", test.to_uppercase())));
            let rate = rate.filter_map(|line| line.split(',').nth(1)?.trim_matches('"').parse::<f64>().ok()).next();
            let rate = rate
                .filter(|rate| *rate > 0.0)
                .with_context(|| format!("no request rate in the output of redis-benchmark: {text}"))?;
            Ok((n.parse()?, Took::Time(Duration::from_secs_f64(n.parse::<f64>()? / rate))))
        })
    };
    let row = |id, title, test, theirs: &str| Line {
        id,
        title,
        unit: None,
        ours: Some(tool(id, here, test)),
        peer: beside.then(|| tool(theirs, there, test)),
    };
    let rows = vec![
        row("kv.set", "SET, redis-benchmark against kvd", "set", "redis.kv.set"),
        row("kv.get", "GET, redis-benchmark against kvd", "get", "redis.kv.get"),
    ];
    Ok(Contest { _served: served, rows })
}

/// Compares `linerate httpd` with nginx under wrk.
fn files(size: &Size, netlink: &mut Netlink) -> anyhow::Result<Contest> {
    let here = SocketAddr::from((ours(11), 8080));
    let mut served = vec![serve_ours(netlink, 11, &["httpd", "-p", "8080"])?];
    listens(here)?;
    let there = SocketAddr::from((Ipv4Addr::LOCALHOST, 8081));
    let nginx = nginx(there);
    let beside = nginx.is_ok();
    served.extend(nginx.ok());
    let tsc_hz = size.tsc_hz;
    let seconds = if size.n < 100_000 { "1s" } else { "2s" };
    let tool = |id: &str, url: String| {
        Tool::new(id, tsc_hz, move || {
            let text = output_of(Command::new("wrk").args(["-t", "2", "-c", "32", "-d", seconds, &url]))?;
            ensure!(
                !text.contains("Non-2xx") && !text.contains("Socket errors"),
                "wrk reports failed requests: {text}"
            );
            let rate = text.lines().find_map(|line| line.strip_prefix("Requests/sec:")?.trim().parse::<f64>().ok());
            let rate = rate
                .filter(|rate| *rate > 0.0)
                .with_context(|| format!("no request rate in the output of wrk: {text}"))?;
            Ok((rate as u64, Took::Time(Duration::from_secs_f64((rate as u64) as f64 / rate))))
        })
    };
    let row = Line {
        id: "http.small",
        title: "1 KiB by HTTP, wrk against httpd",
        unit: None,
        ours: Some(tool("http.small", format!("http://{here}/dev/zero?bytes={BODY}"))),
        peer: beside.then(|| tool("nginx.http.small", format!("http://{there}/small"))),
    };
    Ok(Contest { _served: served, rows: vec![row] })
}

/// Starts nginx with one process and one file.
fn nginx(at: SocketAddr) -> anyhow::Result<Served> {
    let dir = std::env::temp_dir().join(format!("linerate-nginx-{}", std::process::id()));
    let _ = fs::remove_dir_all(&dir); // left by an earlier round
    fs::create_dir_all(&dir)?;
    fs::write(dir.join("small"), vec![b'0'; BODY])?;
    let path = dir.display();
    let text = format!(
        "daemon off;\nmaster_process off;\nworker_processes 1;\npid {path}/pid;\nerror_log {path}/error;\nevents {{ worker_connections 1024; }}\n\
         http {{ access_log off; client_body_temp_path {path}/b; proxy_temp_path {path}/p; fastcgi_temp_path {path}/f; uwsgi_temp_path {path}/u; \
         scgi_temp_path {path}/s; keepalive_requests 1000000000; server {{ listen {at}; root {path}; }} }}\n"
    );
    let conf = dir.join("conf");
    fs::write(&conf, text)?;
    let mut served = serve(Command::new("nginx").arg("-c").arg(&conf))?;
    served.dir = Some(dir);
    listens(at)?;
    Ok(served)
}

/// Measures the round-trip times reported by our iperf3 client (`--latency`), with and without
/// load. Client and server are both ours.
fn latency(size: &Size, netlink: &mut Netlink) -> anyhow::Result<Contest> {
    without("sl0");
    netlink.add_veth("sl0", "sl1")?;
    netlink.set_up("sl0")?;
    netlink.set_up("sl1")?;
    let server = serve(&mut linerate(&["iperf3", "-s", "--port", "packet:sl0", "--addr", "10.0.12.2/24"]))?;
    let tool = |id: &str, load: &'static [&'static str], which: &'static str| {
        Tool::new(id, size.tsc_hz, move || {
            let words = [
                "iperf3",
                "-c",
                "10.0.12.2",
                "-t",
                "1",
                "-J",
                "--latency",
                "--port",
                "packet:sl1",
                "--addr",
                "10.0.12.1/24",
            ];
            let text = output_of(&mut linerate(&[&words[..], load].concat()))?;
            let report: Value =
                serde_json::from_str(&text).context("cannot parse the JSON report of our iperf3 client")?;
            let us = report["end"]["latency"][which].as_f64();
            Ok((1, Took::Value((us.with_context(|| format!("no latency in {text}"))? * 1000.0) as u64)))
        })
    };
    let row =
        |id, title, load, which| Line { id, title, unit: Some("ns"), ours: Some(tool(id, load, which)), peer: None };
    let rows = vec![
        row("iperf3.latency.idle", "p99 of round trips during a stream of 1 Mbit/s", &["-b", "1M"][..], "p99_us"),
        row("iperf3.latency.p50", "p50 of round trips during a stream at full speed", &[][..], "p50_us"),
        row("iperf3.latency.p99", "p99 of round trips during a stream at full speed", &[][..], "p99_us"),
    ];
    Ok(Contest { _served: vec![server], rows })
}

/// Compares how evenly our client and the stock iperf3 client send datagrams.
fn pacing(size: &Size, netlink: &mut Netlink) -> anyhow::Result<Contest> {
    let ours_to_stock = {
        // The stock server runs throughout; our client creates its host for each run.
        let port = 5301;
        let stock = serve(Command::new("iperf3").args(["-s", "-p", "5301"]))?;
        listens(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
        stock
    };
    // A persistent TAP device, which our client opens in each run.
    without("sv13");
    let made = Command::new("ip").args(["tuntap", "add", "sv13", "mode", "tap"]).status().context("cannot start ip")?;
    ensure!(made.success(), "ip tuntap add failed: {made}");
    netlink.set_up("sv13")?;
    netlink.add_addr("sv13", Ipv4Addr::new(10, 0, 13, 1), 24)?;
    let server = serve_ours(netlink, 14, &["iperf3", "-s"])?;
    listens(SocketAddr::from((ours(14), 5201)))?;
    let load = ["-u", "-b", RATE, "-l", PAYLOAD, "-t", "1"];
    let here = Tool::new("iperf3.pacing", size.tsc_hz, move || {
        let words = ["iperf3", "-c", "10.0.13.1", "-p", "5301", "--port", "tap:sv13", "--addr", "10.0.13.2/24"];
        spread("sv13", Ipv4Addr::new(10, 0, 13, 2), &mut linerate(&[&words[..], &load].concat()))
    });
    let there = Tool::new("iperf3.iperf3.pacing", size.tsc_hz, move || {
        spread("sv14", Ipv4Addr::new(10, 0, 14, 1), Command::new("iperf3").args(["-c", "10.0.14.2"]).args(load))
    });
    let row = Line {
        id: "iperf3.pacing",
        title: "variation of the gaps between our client's datagrams",
        unit: Some("ns"),
        ours: Some(here),
        peer: Some(there),
    };
    Ok(Contest { _served: vec![ours_to_stock, server], rows: vec![row] })
}

/// Runs the command `sender` and returns the standard deviation, in nanoseconds, of the gaps
/// between its datagrams as they leave through `device`.
fn spread(device: &str, from: Ipv4Addr, sender: &mut Command) -> anyhow::Result<(u64, Took)> {
    let count = (DEPARTURES + LEFT_OUT + 1).to_string();
    let filter = format!("udp and src host {from} and greater 1000");
    let words = ["-i", device, "-n", "-q", "-tt", "--time-stamp-precision=nano", "-B", "8192", "-c", &count, &filter];
    let mut seen = Command::new("tcpdump");
    seen.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let seen = seen.spawn().context("cannot start tcpdump")?;
    std::thread::sleep(Duration::from_millis(300)); // until tcpdump captures
    output_of(sender)?;
    let text = String::from_utf8_lossy(&finish(seen).context("tcpdump")?.stdout).into_owned();
    let times: Vec<u64> = text.lines().filter_map(|line| nanos(line.split_whitespace().next()?)).collect();
    ensure!(times.len() == DEPARTURES + LEFT_OUT + 1, "tcpdump captured {} datagrams", times.len());
    let gaps: Vec<f64> = times.windows(2).skip(LEFT_OUT).map(|two| two[1].saturating_sub(two[0]) as f64).collect();
    Ok((1, Took::Value(deviation(&gaps).round() as u64)))
}

/// Parses `SECONDS.NANOSECONDS` into nanoseconds.
fn nanos(word: &str) -> Option<u64> {
    let (seconds, rest) = word.split_once('.')?;
    let rest: u64 = if rest.len() == 9 { rest.parse().ok()? } else { return None };
    seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(rest)
}

fn deviation(values: &[f64]) -> f64 {
    let n = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / n;
    (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / n).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_their_spread() {
        assert_eq!(nanos("1764021234.000000007"), Some(1_764_021_234_000_000_007));
        assert_eq!([nanos("12:00:01.5"), nanos("1.5"), nanos("")], [None; 3]);
        assert_eq!(deviation(&[160.0; 5]), 0.0);
        assert_eq!(deviation(&[100.0, 300.0]), 100.0);
    }

    #[test]
    fn a_missing_or_failed_tool_is_reported() {
        let why = output_of(&mut Command::new("/nowhere/tool")).unwrap_err();
        assert!(format!("{why:#}").contains("/nowhere/tool"), "{why:#}");
        let why = output_of(Command::new("sh").args(["-c", "echo no >&2; exit 3"])).unwrap_err();
        assert!(format!("{why:#}").contains("no"), "{why:#}");
        let much = output_of(Command::new("sh").args(["-c", "head -c 1000000 /dev/zero"])).unwrap();
        assert_eq!(much.len(), 1_000_000);
    }
}
