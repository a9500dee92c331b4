//! `linerate iperf3` and stock iperf3 at the two ends of a TAP device, each as client and as
//! server. Both must report the same bytes, and one end that disappears must not affect other
//! tests.
//!
//! The tests run in their own network namespace: the test's binary runs again inside it. Every
//! host's audit must account for all frames at its end. Rates are checked by bytes, not by time.

use crate::common;
use crate::common::{Running, has, isolated, run};
use port::os::netlink::Netlink;
use serde_json::Value;
use std::io::Read;
use std::net::Ipv4Addr;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

const THEIRS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);

/// Starts `linerate iperf3 WORDS` on tap0 and configures the kernel's side.
fn ours(words: &[&str]) -> Running {
    let running =
        Running::start_as("iperf3", &[&["iperf3"], words, &["--port", "tap:tap0", "--addr", "10.0.0.2/24"]].concat());
    kernel_side();
    running
}

fn kernel_side() {
    let mut netlink = Netlink::open().unwrap();
    netlink.set_up("lo").unwrap();
    netlink.set_up("tap0").unwrap();
    netlink.add_addr("tap0", THEIRS, 24).unwrap();
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Runs stock iperf3's client against our server.
fn stock(args: &[&str]) -> Output {
    run(Command::new("iperf3").args(["-c", "10.0.0.2"]).args(args))
}

fn report(args: &[&str], json: &[u8]) -> Value {
    let report: Value = serde_json::from_slice(json).unwrap_or_else(|why| panic!("{args:?}: {why}"));
    assert_eq!(report.get("error"), None, "{args:?}: {report:#}");
    report
}

/// Returns whether a socket listens at this L4 port of the namespace (proc_net_tcp(5): local
/// address in hexadecimal digits, then state 0A).
fn listens(port: u16) -> bool {
    let end = format!(":{port:04X}");
    ["/proc/self/net/tcp", "/proc/self/net/tcp6"].iter().any(|table| {
        let table = std::fs::read_to_string(table).unwrap_or_default();
        table.lines().any(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            words.get(1).is_some_and(|at| at.ends_with(&end)) && words.get(3) == Some(&"0A")
        })
    })
}

/// Stock iperf3's server, which is killed when dropped.
struct StockServer(Child);

impl StockServer {
    fn start() -> StockServer {
        StockServer::start_with(&[])
    }

    fn start_with(args: &[&str]) -> StockServer {
        let child =
            Command::new("iperf3").arg("-s").args(args).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let server = StockServer(child);
        // Any connection would be a client of the server, so /proc is read to find out whether it
        // listens.
        for _ in 0..1000 {
            if listens(5201) {
                return server;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("iperf3 -s does not listen");
    }
}

impl Drop for StockServer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs our client against the kernel's side. Returns exit code, standard output and standard
/// error.
fn client(args: &[&str]) -> (Option<i32>, String, String) {
    ours(&[&["-c", "10.0.0.1"], args].concat()).wait()
}

fn client_report(args: &[&str]) -> Value {
    let (code, out, err) = client(&[args, &["-J"]].concat());
    assert_eq!(code, Some(0), "{args:?}: {out}{err}");
    assert!(err.contains("imbalance           0\n") && !err.contains("kernel  "), "{err}");
    let report = report(args, out.as_bytes());
    assert!(report["linerate"]["env"]["kernel"].is_string(), "{report:#}");
    assert!(report["linerate"]["warnings"].is_array(), "{report:#}");
    report
}

fn end(served: Running) -> String {
    let (code, out, err) = served.interrupt();
    // With -J, the environment is in the reports; otherwise it is on standard error.
    let says_where = err.starts_with("\ncpu     ") && err.contains("\nkernel  ");
    assert!(code == Some(0) && (err.is_empty() || says_where), "{out}{err}");
    assert!(out.contains("imbalance           0\n"), "{out}");
    out
}

/// Checks that the report has the required sums, that none is 0, and that both ends report the same
/// number of datagrams.
fn holds(args: &[&str], report: &Value) {
    let end = &report["end"];
    let both = if args.contains(&"--bidir") { &["", "_bidir_reverse"][..] } else { &[""] };
    for suffix in both {
        let of = |name: &str, what: &str| end[format!("{name}{suffix}")][what].as_f64().unwrap_or(-1.0);
        let (sent, received) = (of("sum_sent", "bytes"), of("sum_received", "bytes"));
        assert!(received > 0.0 && received <= sent, "{args:?}: sent {sent}, received {received}: {end:#}");
        if args.contains(&"-u") {
            // At a rate far below that of the path, only datagrams in flight at the end of the test
            // are lost.
            assert_eq!(of("sum_received", "lost_packets"), 0.0, "{args:?}: {end:#}");
            assert!(sent - received <= 0.1 * sent, "{args:?}: sent {sent}, received {received}");
            assert!(of("sum_sent", "packets") > 0.0 && of("sum_received", "jitter_ms") >= 0.0, "{end:#}");
        }
    }
    let streams: usize = args.iter().position(|arg| *arg == "-P").map_or(1, |at| args[at + 1].parse().unwrap());
    assert_eq!(end["streams"].as_array().unwrap().len(), streams * both.len());
    assert!(!report["intervals"].as_array().unwrap().is_empty(), "{report:#}");
}

/// Checks the rate of each stream: at most a tenth above `bits`, and at least half of it, since the
/// machine may be busy. `ask.rs` tests exact rates in virtual time.
fn keeps_rate(report: &Value, bits: f64) {
    for stream in report["end"]["streams"].as_array().unwrap() {
        let of = |what: &str| stream["udp"][what].as_f64().unwrap();
        let due = bits / 8.0 * of("seconds");
        assert!((0.5 * due..=1.1 * due).contains(&of("bytes")), "{} bytes instead of {due}: {stream:#}", of("bytes"));
    }
}

const CASES: [&[&str]; 5] = [
    &["-t", "1"],
    &["-t", "1", "-R"],
    &["-t", "1", "--bidir", "-P", "2"],
    &["-t", "1", "-P", "4", "-i", "0.5", "-b", "50M"],
    &["-n", "2M", "-M", "1000", "-N"],
];

const DATAGRAMS: [&[&str]; 4] = [
    &["-u", "-t", "1", "-b", "20M"],
    &["-u", "-t", "1", "-b", "20M/10", "-R", "--udp-counters-64bit"],
    &["-u", "-t", "1", "-b", "10M", "--bidir", "-P", "2"],
    &["-u", "-t", "1", "-b", "5M", "-P", "4", "-R", "-l", "500"],
];

#[test]
fn our_client_measures_stock_servers() {
    isolated("our_client_measures_stock_servers", || {
        if !has("iperf3") {
            return println!("skipped: iperf3 is not installed");
        }
        let server = StockServer::start();
        for args in CASES.iter().chain(&DATAGRAMS) {
            let report = client_report(args);
            holds(args, &report);
            println!(
                "{args:?}: {:.0} Mbit/s",
                report["end"]["sum_received"]["bits_per_second"].as_f64().unwrap() / 1e6
            );
        }
        keeps_rate(&client_report(&["-u", "-t", "2", "-b", "30M"]), 30e6);
        // The text has what stock iperf3 prints in these positions.
        let (code, out, err) = client(&["-n", "1M", "--get-server-output", "-V", "--latency"]);
        assert_eq!(code, Some(0), "{out}{err}");
        assert!(err.contains("\nkernel  ") && !out.contains("\nkernel  "), "{out}{err}");
        for line in [
            "Connecting to host 10.0.0.1, port 5201",
            "[ ID] Interval           Transfer     Bitrate         Retr  Cwnd",
            "- - - - - - - - - - - - - - - - - - - - - - - - -",
            "[ ID] Interval           Transfer     Bitrate         Retr",
            "Server output:",
            "iperf Done.",
        ] {
            assert!(out.lines().any(|printed| printed == line), "{line}\n{out}");
        }
        assert!(out.contains("the server does not support it"), "{out}");
        drop(server);
        let (code, out, err) = client(&["-n", "1M"]);
        assert_eq!(code, Some(1), "{out}{err}");
        assert!(err.contains("iperf3: error - unable to connect to server: Connection refused"), "{err}");
    });
}

#[test]
fn a_killed_server_is_reported() {
    isolated("a_killed_server_is_reported", || {
        if !has("iperf3") {
            return println!("skipped: iperf3 is not installed");
        }
        let server = StockServer::start();
        let testing = ours(&["-c", "10.0.0.1", "-t", "30", "-J"]);
        std::thread::sleep(Duration::from_millis(2500));
        drop(server);
        let (code, out, err) = testing.wait();
        assert_eq!(code, Some(1), "{out}{err}");
        assert!(err.contains("iperf3: error - ") && err.contains("imbalance           0\n"), "{err}");
        let report: Value = serde_json::from_str(&out).unwrap();
        assert!(report["error"].is_string() && !report["intervals"].as_array().unwrap().is_empty(), "{report:#}");
    });
}

#[test]
fn an_interrupt_ends_both_ends_with_a_report() {
    isolated("an_interrupt_ends_both_ends_with_a_report", || {
        if !has("iperf3") {
            return println!("skipped: iperf3 is not installed");
        }
        // Our client with stock iperf3's server.
        let mut server = StockServer::start_with(&["-1"]);
        let testing = ours(&["-c", "10.0.0.1", "-t", "30", "-i", "0.5"]);
        std::thread::sleep(Duration::from_millis(2500));
        let (code, out, err) = testing.interrupt();
        assert_eq!(code, Some(1), "{out}{err}");
        assert!(err.contains("iperf3: interrupt - the client has terminated"), "{err}");
        assert!(err.contains("imbalance           0\n"), "{err}");
        assert!(out.contains("  sender\n") && out.contains("  receiver\n"), "{out}");
        let mut printed = String::new();
        let _ = common::wait(&mut server.0);
        server.0.stdout.take().unwrap().read_to_string(&mut printed).unwrap();
        // Its error message is on standard error, which is not captured; its report is sufficient.
        assert!(printed.contains("  receiver\n"), "{printed}");
        drop(server);
        // Our server with stock iperf3's client.
        let served = ours(&["-s"]);
        let mut command = Command::new("iperf3");
        command.args(["-c", "10.0.0.2", "-t", "30", "-J"]).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut testing = command.spawn().unwrap();
        std::thread::sleep(Duration::from_millis(1500));
        let out = end(served);
        assert!(out.contains("  receiver\n") && out.contains("interrupt - the server has terminated"), "{out}");
        common::wait(&mut testing); // with -J it says what went wrong in there, and ends with 0
        let mut json = Vec::new();
        testing.stdout.take().unwrap().read_to_end(&mut json).unwrap();
        let report: Value = serde_json::from_slice(&json).unwrap();
        assert!(report["error"].as_str().is_some_and(|why| why.contains("the server has terminated")), "{report:#}");
    });
}

#[test]
fn stock_clients_measure_our_server() {
    isolated("stock_clients_measure_our_server", || {
        if !has("iperf3") {
            return println!("skipped: iperf3 is not installed");
        }
        let served = ours(&["-s", "-J"]);
        for args in CASES.iter().chain(&DATAGRAMS) {
            let output = stock(&[args, &["-J"][..]].concat());
            let report = report(args, &output.stdout);
            holds(args, &report);
            println!(
                "{args:?}: {:.0} Mbit/s",
                report["end"]["sum_received"]["bits_per_second"].as_f64().unwrap() / 1e6
            );
        }
        let reverse = stock(&["-u", "-t", "2", "-b", "30M", "-R", "-J"]);
        keeps_rate(&report(&["-R"], &reverse.stdout), 30e6);
        let out = end(served);
        let reports: Vec<Value> = serde_json::Deserializer::from_str(&out).into_iter().map_while(Result::ok).collect();
        assert_eq!(reports.len(), 10, "{out}");
        assert!(reports.iter().all(|report| report.get("error").is_none()), "{out}");
    });
}

/// Omitted times that are shorter and longer than the test, for streams and datagrams, in each
/// direction and in both.
const OMITTED: [&[&str]; 6] = [
    &["-u", "-t", "1", "-O", "1", "-b", "10M"],
    &["-u", "-t", "1", "-O", "2", "-b", "10M", "-R"],
    &["-u", "-t", "2", "-O", "1", "-b", "10M", "--bidir", "-P", "2"],
    // Blocks are small, so that an incomplete last block has little effect.
    &["-t", "1", "-O", "2", "-b", "20M", "-l", "16K"],
    &["-t", "2", "-O", "1", "-b", "20M", "-l", "16K", "-R"],
    &["-t", "1", "-O", "1", "-b", "20M", "-l", "16K", "--bidir"],
];

/// Checks that both ends of each direction counted only the seconds of `-t` at the rate of `-b`: at
/// most 15 % more, since the ends start up to 0.1 s apart, and at least 40 %, since the machine may
/// be busy. `ask.rs` tests exact counts in virtual time.
fn counts_without_omitted(args: &[&str], report: &Value) {
    let after = |flag: &str| args.iter().position(|arg| *arg == flag).map(|at| args[at + 1].trim_end_matches('M'));
    let number = |flag: &str| after(flag).map_or(1.0, |text| text.parse::<f64>().unwrap());
    let due = number("-b") * 1e6 / 8.0 * number("-t") * number("-P");
    let both = if args.contains(&"--bidir") { &["", "_bidir_reverse"][..] } else { &[""] };
    for suffix in both {
        for end in ["sum_sent", "sum_received"] {
            let sum = &report["end"][format!("{end}{suffix}")];
            let of = |what: &str| sum[what].as_f64().unwrap_or_else(|| panic!("{args:?} {what}: {report:#}"));
            let near = 0.4 * due..=1.15 * due;
            assert!(near.contains(&of("bytes")), "{args:?} {end}{suffix}: {due} due: {sum:#}");
            if args.contains(&"-u") {
                let length = report["start"]["test_start"]["blksize"].as_f64().unwrap();
                assert!(near.contains(&(of("packets") * length)), "{args:?} {end}{suffix}: {sum:#}");
                assert!(of("lost_packets").abs() < 1.0, "{args:?} {end}{suffix}: {sum:#}");
            }
        }
    }
}

#[test]
fn omitted_seconds_do_not_count_at_either_end() {
    isolated("omitted_seconds_do_not_count_at_either_end", || {
        if !has("iperf3") {
            return println!("skipped: iperf3 is not installed");
        }
        let server = StockServer::start();
        for args in OMITTED {
            counts_without_omitted(args, &client_report(args));
        }
        drop(server);
        let served = ours(&["-s"]);
        for args in OMITTED {
            counts_without_omitted(args, &report(args, &stock(&[args, &["-J"][..]].concat()).stdout));
        }
        end(served);
    });
}

/// Timestamps in front of lines are in local time, as in stock iperf3.
#[test]
fn timestamps_are_local_times() {
    // Only %z and %Z are compared, since they do not change while the test runs.
    let words = ["--timestamps=%z %Z %% %! <", "--connect-timeout", "100", "--port", "null:", "--addr", "10.0.0.2/24"];
    for (zone, stamp) in
        [("Asia/Tokyo", "+0900 JST % %! <"), ("XYZ-05:45", "+0545 XYZ % %! <"), ("UTC", "+0000 UTC % %! <")]
    {
        if zone.contains('/') && !std::path::Path::new("/usr/share/zoneinfo").join(zone).exists() {
            println!("skipped: {zone}: no tzdata");
            continue;
        }
        let output = run(common::linerate(&[&["iperf3", "-c", "10.0.0.1"], &words[..]].concat()).env("TZ", zone));
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(printed.starts_with(&format!("{stamp}Connecting to host 10.0.0.1")), "{zone}: {printed}");
        if has("iperf3") {
            let mut stock = Command::new("iperf3");
            stock.args(["-c", "127.0.0.1", "-p", "1", "--timestamps=%z %Z %% %! <", "-V"]).env("TZ", zone);
            let printed = text(&run(&mut stock));
            assert!(printed.lines().any(|line| line.starts_with(stamp)), "{zone}: {printed}");
        }
    }
}

/// Flags that have no effect in the given role are rejected before anything is opened, as in stock
/// iperf3.
#[test]
fn flags_of_the_other_role_are_refused() {
    for (line, why) in [
        ("iperf3", "must either be a client (-c) or server (-s)"),
        ("iperf3 -s -t 5", "'--server' cannot be used with '--time <S>'"),
        ("iperf3 -s -P 2", "'--server' cannot be used with '--parallel <N>'"),
        ("iperf3 -s -R", "'--server' cannot be used with '--reverse'"),
        ("iperf3 -s --cport 5", "'--server' cannot be used with '--cport <L4PORT>'"),
        ("iperf3 -c 10.0.0.1 -F /none/x --port null:", "-F /none/x: No such file"),
        ("iperf3 -c 10.0.0.1 -R -F /none/x --port null:", "-F /none/x: No such file"),
    ] {
        common::refused(line, 2, why);
    }
    let output = run(&mut common::linerate(&["iperf3", "-c", "10.0.0.1"]));
    let printed = text(&output);
    assert!(output.status.code() == Some(1) && printed.contains("host: no port, host is unreachable"), "{printed}");
}

#[test]
fn flags_do_what_stock_s_do() {
    isolated("flags_do_what_stock_s_do", || {
        if !has("iperf3") {
            return println!("skipped: iperf3 is not installed");
        }
        let dir = std::env::temp_dir().join(format!("linerate-iperf3-flags-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let path = |name: &str| dir.join(name).display().to_string();
        let bytes: Vec<u8> = (0..300_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        std::fs::write(path("source"), &bytes).unwrap();
        // Stock iperf3's server writes what it receives until the client ends the test. What has
        // arrived by then is the beginning of our file, or of the digits.
        let server = StockServer::start_with(&["-F", &path("theirs")]);
        let (code, out, err) = client(&["-F", &path("source"), "-b", "5M", "-l", "10K"]);
        assert_eq!(code, Some(0), "{out}{err}");
        assert!(out.contains(&format!("Sent  293 KBytes /  293 KBytes (100%) of {}\n", path("source"))), "{out}");
        let theirs = std::fs::read(path("theirs")).unwrap();
        assert!(!theirs.is_empty() && bytes.starts_with(&theirs), "{} bytes", theirs.len());
        let (code, out, err) = client(&["--repeating-payload", "-t", "1", "-b", "5M", "-l", "10K"]);
        assert_eq!(code, Some(0), "{out}{err}");
        assert!(std::fs::read(path("theirs")).unwrap().starts_with(b"01234567890123456789"));
        drop(server);
        let server = StockServer::start_with(&["-F", &path("source")]);
        // The rate is limited, since stock iperf3 3.12 overwrites the rest of a block after a send
        // that accepted only a part of it.
        let (code, out, err) = client(&["-R", "-F", &path("ours"), "-t", "2", "-b", "5M", "-l", "10K"]);
        assert_eq!(code, Some(0), "{out}{err}");
        let ours = std::fs::read(path("ours")).unwrap();
        let same = ours.iter().zip(&bytes).take_while(|(one, other)| one == other).count();
        assert!(ours == bytes, "{} bytes, {same} of them the same\n{out}", ours.len());
        drop(server);
        // Tests rates, times, the log file, the address and the type of service.
        let server = StockServer::start();
        let log = path("log");
        let words = [
            "-n",
            "1M",
            "-f",
            "K",
            "-4",
            "--timestamps=%F <",
            "--logfile",
            &log,
            "--forceflush",
            "-B",
            "10.0.0.2",
            "--dscp",
            "ef",
            "-A",
            "0",
            "-Z",
            "-d",
        ];
        let (code, out, err) = client(&words);
        assert_eq!((code, out.as_str()), (Some(0), ""), "{err}");
        let printed = std::fs::read_to_string(&log).unwrap();
        assert!(
            printed.lines().count() > 8
                && printed.lines().all(|line| line.starts_with("20") && line.get(10..12) == Some(" <")),
            "{printed}"
        );
        assert!(
            printed.contains(" KBytes/sec") && !printed.contains("bits/sec") && printed.contains("local 10.0.0.2 port"),
            "{printed}"
        );
        let (code, _, err) = client(&["-n", "1M", "-B", "10.0.0.9"]);
        assert!(code == Some(1) && err.contains("iperf3: error - unable to connect to server"), "{err}");
        drop(server);
        for (words, why) in [
            (&["-6"][..], "-c 10.0.0.1 is an IPv4 address, but -6 selects IPv6"),
            (&["-D"], "cannot be used with"),
            (&["-A", "0,1"], "expected one core"),
            (&["--dscp", "af44"], "expected 0 to 63, af11"),
            (&["-f", "b"], "expected one of k, m, g, t"),
            (&["-F", "x", "-u"], "--udp"),
            (&["-F", "x", "-R", "-P", "2"], "-F with -R: only one stream"),
            (&["--logfile", "/none/x"], "--logfile /none/x: No such file"),
        ] {
            let words = [&["iperf3", "-c", "10.0.0.1"], words, &["--port", "null:", "--addr", "10.0.0.2/24"]].concat();
            let output = run(&mut common::linerate(&words));
            let printed = text(&output);
            assert!(output.status.code() == Some(2) && printed.contains(why), "{words:?}: {printed}");
        }
        std::fs::remove_dir_all(&dir).unwrap();
    });
}

/// With -D the command ends once the server runs in the background, or reports why it cannot.
#[test]
fn a_server_runs_in_the_background() {
    isolated("a_server_runs_in_the_background", || {
        if !has("iperf3") {
            return println!("skipped: iperf3 is not installed");
        }
        let words = ["iperf3", "-sD", "--port", "tap:tap0", "--addr", "10.0.0.2/24"];
        let output = run(&mut common::linerate(&words));
        let printed = text(&output);
        assert!(output.status.success(), "{printed}");
        let (_, pid) = printed.trim_end().rsplit_once("process ").unwrap();
        let second = run(&mut common::linerate(&words));
        assert!(second.status.code() == Some(1) && text(&second).contains("tap0"), "{second:?}");
        kernel_side();
        let measured = run(Command::new("iperf3").args(["-c", "10.0.0.2", "-n", "1M"]));
        let ended = Command::new("kill").args(["-INT", pid]).status().unwrap();
        assert!(measured.status.success() && ended.success(), "{measured:?}");
    });
}

#[test]
fn ten_stock_clients_measure_at_once() {
    isolated("ten_stock_clients_measure_at_once", || {
        if !has("iperf3") {
            return println!("skipped: iperf3 is not installed");
        }
        let served = ours(&["-s"]);
        let begin = |_| {
            let mut command = Command::new("iperf3");
            command.args(["-c", "10.0.0.2", "-t", "3", "-b", "2M", "-J"]);
            command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
        };
        let mut clients: Vec<Child> = (0..10).map(begin).collect();
        for client in &mut clients {
            assert_eq!(common::wait(client), Some(0));
            let mut json = Vec::new();
            client.stdout.take().unwrap().read_to_end(&mut json).unwrap();
            holds(&[], &report(&[], &json));
        }
        end(served);
    });
}

#[test]
fn several_clients_at_once_and_one_that_is_killed() {
    isolated("several_clients_at_once_and_one_that_is_killed", || {
        if !has("iperf3") {
            return println!("skipped: iperf3 is not installed");
        }
        let served = ours(&["-s", "--max-clients", "2"]);
        let begin = |args: &[&str]| {
            let mut command = Command::new("iperf3");
            command.args(["-c", "10.0.0.2", "-J"]).args(args).stdout(Stdio::piped()).stderr(Stdio::null());
            command.spawn().unwrap()
        };
        let mut stream = begin(&["-t", "3", "-b", "50M"]);
        let mut datagrams = begin(&["-u", "-t", "3", "-b", "5M"]);
        std::thread::sleep(Duration::from_millis(800));
        let third = stock(&["-t", "1"]);
        assert!(text(&third).contains("the server is busy"), "{}", text(&third));
        for (args, child) in [(&["-P", "1"][..], &mut stream), (&["-u"][..], &mut datagrams)] {
            assert_eq!(common::wait(child), Some(0));
            let mut json = Vec::new();
            child.stdout.take().unwrap().read_to_end(&mut json).unwrap();
            holds(args, &report(args, &json));
        }
        // The client is killed during a test, with TCP and with datagrams. The next clients must
        // find the server available.
        for args in [&["-t", "30", "-b", "5M"][..], &["-u", "-t", "30"], &["-t", "30", "-R"]] {
            let mut killed = begin(args);
            std::thread::sleep(Duration::from_millis(700));
            killed.kill().unwrap();
            killed.wait().unwrap();
        }
        let (mut one, mut other) = (begin(&["-n", "1M"]), begin(&["-u", "-n", "100K", "-R"]));
        assert_eq!((common::wait(&mut one), common::wait(&mut other)), (Some(0), Some(0)));
        let out = end(served);
        assert_eq!(out.matches("iperf3: the client has unexpectedly closed the connection").count(), 3, "{out}");
    });
}

/// RFC 1122 4.1.3.5: a server at an alias also answers UDP from the address of the alias, in both
/// directions.
#[test]
fn an_alias_is_measured_over_udp() {
    if !has("iperf3") {
        return println!("skipped: iperf3 is not installed");
    }
    isolated("an_alias_is_measured_over_udp", || {
        let served = ours(&["-s"]);
        served.ok("ifconfig tap0 inet 10.0.0.3/24 alias");
        for args in [&["-t", "1"][..], &["-t", "1", "-u", "-b", "5M"], &["-t", "1", "-u", "-b", "5M", "-R"]] {
            let mut client = Command::new("timeout");
            let output = run(client.args(["20", "iperf3", "-J", "-c", "10.0.0.3"]).args(args));
            let report = report(args, &output.stdout);
            let bytes = &report["end"][if args.contains(&"-u") { "sum" } else { "sum_received" }]["bytes"];
            assert!(bytes.as_u64() > Some(100_000), "{args:?}: {report:#}");
        }
        end(served);
    });
}
