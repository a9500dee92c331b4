//! The servers on our hosts with stock clients on the kernel's side of a TAP device: curl for FTP
//! and HTTP, wrk, iperf3, and the kernel's own sockets for the small services.
//!
//! The tests run in their own network namespace: the test's binary runs again inside it. Every
//! host's audit must account for all frames at its end.

use crate::common::{Running, has, isolated, run};
use port::os::netlink::Netlink;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

const OURS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const THEIRS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);

/// Starts `linerate WORDS` on tap0 and configures the kernel's side.
fn start(words: &[&str]) -> Running {
    let served = Running::start_as(words[0], &[words, &["--port", "tap:tap0", "--addr", "10.0.0.2/24"]].concat());
    let mut netlink = Netlink::open().unwrap();
    netlink.set_up("lo").unwrap();
    netlink.set_up("tap0").unwrap();
    netlink.add_addr("tap0", THEIRS, 24).unwrap();
    served
}

/// Ends the server. Its TCP must have received no malformed segments, and every frame must be
/// accounted for.
fn end(served: Running) -> String {
    let counters = served.json("netstat -s");
    assert_eq!(counters.get("inet.tcp.bad_checksum"), None, "{counters}");
    let (code, out, err) = served.interrupt();
    assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
    assert!(out.contains("imbalance           0\n"), "{out}");
    out
}

fn is_there(tool: &str, test: &str) -> bool {
    let found = has(tool);
    if !found {
        println!("skipped: {test}: {tool} is not installed");
    }
    found
}

fn curl(args: &[&str]) -> Output {
    run(Command::new("curl").args(["--silent", "--show-error", "--noproxy", "*", "--max-time", "20"]).args(args))
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Downloads endless zeros for a second. Returns the number of bytes. The download must not stall
/// in the last tenth of a second.
fn zeros(url: &str) -> u64 {
    let args = ["--max-time", "2", "--speed-time", "1", "--speed-limit", "100000", "-o", "/dev/null"];
    let output = curl(&[&args[..], &["--write-out", "%{size_download}", url]].concat());
    let printed = text(&output);
    // Exit code 28 also means a rate below the limit for a second, but with another message.
    assert_eq!(output.status.code(), Some(28), "{printed}");
    assert!(!printed.contains("too slow"), "{printed}");
    let bytes = String::from_utf8_lossy(&output.stdout).trim().parse().unwrap();
    assert!(bytes > 2_000_000, "{bytes} bytes in 2 s: {printed}");
    println!("{url}: {} MB/s", bytes / 2_000_000);
    bytes
}

/// A directory of one test, with 3 MB in it.
struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Dir {
        let path = std::env::temp_dir().join(format!("linerate-serve-{name}-{}", std::process::id()));
        std::fs::create_dir_all(path.join("sub")).unwrap();
        let big: Vec<u8> = (0..3_000_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        std::fs::write(path.join("big.bin"), big).unwrap();
        Dir(path)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn same(a: impl AsRef<Path>, b: impl AsRef<Path>) -> bool {
    std::fs::read(a).unwrap() == std::fs::read(b).unwrap()
}

#[test]
fn curl_downloads_and_uploads_over_ftp() {
    isolated("curl_downloads_and_uploads_over_ftp", || {
        if !is_there("curl", "ftp") {
            return;
        }
        let dir = Dir::new("ftp");
        let (root, big) = (dir.path(""), dir.path("big.bin"));
        let served = start(&["ftpd", "--root", &root, "--uploads"]);
        let url = |path: &str| format!("ftp://anonymous@10.0.0.2{path}");
        zeros(&url("/dev/zero"));
        let up = curl(&["-T", &big, "--write-out", "%{size_upload}", &url("/dev/null")]);
        assert_eq!((up.status.code(), text(&up).as_str()), (Some(0), "3000000"));
        // The data connection is opened by the client, then by the server.
        for how in [&[][..], &["--disable-epsv"], &["--ftp-port", "10.0.0.1"]] {
            let (got, name) = (dir.path("got"), format!("/sub/sent{}", how.len()));
            let down = curl(&[how, &["-o", &got, &url("/big.bin")]].concat());
            assert!(down.status.success(), "{how:?}: {}", text(&down));
            assert!(same(&got, &big), "{how:?}");
            let up = curl(&[how, &["-T", &big, &url(&name)]].concat());
            assert!(up.status.success(), "{how:?}: {}", text(&up));
            assert!(same(dir.path(&name[1..]), &big), "{how:?}");
        }
        assert!(!curl(&[&url("/nothing")]).status.success());
        end(served);
    });
}

#[test]
fn curl_reads_over_http() {
    isolated("curl_reads_over_http", || {
        if !is_there("curl", "http") {
            return;
        }
        let dir = Dir::new("http");
        let served = start(&["httpd", "--root", &dir.path(""), "-p", "8080"]);
        let url = |path: &str| format!("http://10.0.0.2:8080{path}");
        let got = dir.path("got");
        let down = curl(&["-o", &got, "--write-out", "%{http_code}", &url("/big.bin")]);
        assert_eq!(text(&down), "200");
        assert!(same(&got, dir.path("big.bin")));
        zeros(&url("/dev/zero"));
        let counted = curl(&["-o", "/dev/null", "--write-out", "%{size_download}", &url("/dev/zero?bytes=5000000")]);
        assert_eq!(text(&counted), "5000000");
        let missing = curl(&["-o", "/dev/null", "--write-out", "%{http_code}", &url("/nothing")]);
        assert_eq!(text(&missing), "404");
        let nobody = curl(&["http://10.0.0.2:81/"]);
        assert_eq!(nobody.status.code(), Some(7), "refused at once: {}", text(&nobody));
        end(served);
    });
}

/// Runs wrk on `path` with 20 connections for a second. Returns its output and the number of
/// answered requests.
fn wrk(path: &str, more: &[&str]) -> (String, u64) {
    let url = format!("http://10.0.0.2:8080{path}");
    let output = run(Command::new("wrk").args(["-t", "2", "-c", "20", "-d", "1s"]).args(more).arg(url));
    let printed = text(&output);
    assert!(output.status.success() && !printed.contains("Socket errors"), "{printed}");
    let line = printed.lines().find(|line| line.contains(" requests in ")).unwrap_or_else(|| panic!("{printed}"));
    let requests = line.split_whitespace().next().unwrap().parse().unwrap();
    (printed, requests)
}

#[test]
fn wrk_gets_responses_on_every_connection() {
    isolated("wrk_gets_responses_on_every_connection", || {
        if !is_there("wrk", "http") {
            return;
        }
        let dir = Dir::new("wrk");
        let served = start(&["httpd", "--root", &dir.path(""), "-p", "8080"]);
        for more in [&[][..], &["-H", "Connection: close"]] {
            let (printed, requests) = wrk("/dev/zero?bytes=10000", more);
            assert!(requests > 100 && !printed.contains("Non-2xx"), "{printed}");
        }
        let (printed, requests) = wrk("/nothing", &[]);
        assert!(printed.contains(&format!("Non-2xx or 3xx responses: {requests}")), "{printed}");
        end(served);
    });
}

fn iperf3(args: &[&str]) -> Value {
    let output = run(Command::new("iperf3").args(["-J", "-c", "10.0.0.2"]).args(args));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|why| panic!("{why}: {}", text(&output)));
    assert_eq!(report.get("error"), None, "{args:?}: {report:#}");
    report
}

#[test]
fn stock_iperf3_measures_us() {
    isolated("stock_iperf3_measures_us", || {
        if !is_there("iperf3", "iperf3") {
            return;
        }
        let served = start(&["iperf3", "-s", "-J"]);
        for args in [&["-t", "2"][..], &["-t", "2", "-R"], &["-t", "1", "--bidir", "-P", "2"]] {
            let report = iperf3(args);
            let sum = |name: &str| report["end"][name]["bytes"].as_u64().unwrap_or(0);
            let (sent, received) = (sum("sum_sent"), sum("sum_received"));
            assert!(received > 1_000_000 && received <= sent, "{args:?}: sent {sent}, received {received}");
            println!(
                "iperf3 {args:?}: {:.0} Mbit/s",
                report["end"]["sum_received"]["bits_per_second"].as_f64().unwrap() / 1e6
            );
            for interval in report["intervals"].as_array().unwrap() {
                assert!(interval["sum"]["bytes"].as_u64() > Some(0), "{args:?} stood still: {interval:#}");
            }
        }
        let out = end(served);
        let reports: Vec<Value> = serde_json::Deserializer::from_str(&out).into_iter().map_while(Result::ok).collect();
        assert_eq!(reports.len(), 3, "{out}");
        assert!(reports[1]["end"]["sum_sent"]["bytes"].as_u64() > Some(1_000_000), "{:#}", reports[1]);
    });
}

#[test]
fn one_off_ends_after_one_test() {
    isolated("one_off_ends_after_one_test", || {
        if !is_there("iperf3", "iperf3 -1") {
            return;
        }
        let served = start(&["iperf3", "-s", "-1", "-p", "5300"]);
        iperf3(&["-p", "5300", "-n", "1M"]);
        let (code, out, err) = served.wait();
        assert_eq!(code, Some(0), "{out}{err}");
        // The environment is on standard error, once.
        assert!(err.starts_with("\ncpu     ") && err.matches("\nkernel  ").count() == 1, "{err}");
        assert!(out.contains("receiver") && out.contains("imbalance           0\n"), "{out}");
    });
}

fn exchange(send: &[u8], mut get: impl FnMut(&mut TcpStream)) {
    let at = SocketAddr::from((OURS, 4000));
    let mut client = TcpStream::connect_timeout(&at, Duration::from_secs(5)).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let (mut writer, bytes) = (client.try_clone().unwrap(), send.to_vec());
    let sender = std::thread::spawn(move || {
        writer.write_all(&bytes).unwrap();
        if !bytes.is_empty() {
            writer.shutdown(Shutdown::Write).unwrap();
        }
    });
    get(&mut client);
    sender.join().unwrap();
}

#[test]
fn small_services_conform_to_their_rfcs() {
    isolated("small_services_conform_to_their_rfcs", || {
        let bytes: Vec<u8> = (0..1_000_000u32).map(|n| n as u8).collect();
        let whole = |client: &mut TcpStream| {
            let mut got = Vec::new();
            client.read_to_end(&mut got).unwrap();
            got
        };
        let served = start(&["serve", "echo", "-p", "4000"]);
        exchange(&bytes, |client| assert!(whole(client) == bytes));
        end(served);
        let served = start(&["serve", "sink", "-p", "4000", "--gateway", "10.0.0.1"]);
        exchange(&bytes, |client| assert_eq!(whole(client), b"1000000 bytes\n"));
        assert!(served.ok("ip route").contains("default via 10.0.0.1"));
        end(served);
        let served = start(&["serve", "discard", "-p", "4000", "--locks", "light"]);
        exchange(&bytes, |client| assert_eq!(whole(client), b""));
        end(served);
        let served = start(&["serve", "chargen", "-p", "4000"]);
        exchange(b"", |client| {
            let mut lines = vec![0; 74 * 95];
            client.read_exact(&mut lines).unwrap();
            assert!(lines.starts_with(b" !\"#$%&'()*+,-./0123456789:;<=>?@ABC") && lines.ends_with(b"\r\n"));
        });
        end(served);
    });
}

/// `--service` runs in addition to the application of each server command: all listen, and stock
/// iperf3 is served.
#[test]
fn services_run_beside_every_server() {
    for (name, words, own) in [
        ("ftpd", &["ftpd"][..], 21),
        ("httpd", &["httpd"], 80),
        ("serve", &["serve", "echo"], 7),
        ("kvd", &["kvd"], 6379),
        ("filed", &["filed"], 52_049),
        ("iperf3", &["iperf3", "-s", "-p", "5300"], 5300),
        ("netserver", &["netserver", "-p", "12000"], 12_000),
        ("tcpreceive", &["netrate", "tcpreceive"], 6060),
        ("host", &["host"], 12_865),
    ] {
        let flags = ["--port", "pair:a", "--service", "iperf3", "--service", "netserver", "--service", "discard:99"];
        let served = Running::start_as(&format!("beside-{name}"), &[words, &flags].concat());
        let sockets = served.ok("ss -ltun");
        for port in [own, 5201, 12_865, 99] {
            assert!(sockets.contains(&format!(":{port} ")), "{name} has no port {port}:\n{sockets}");
        }
        assert_eq!(served.interrupt().0, Some(0), "{name}");
    }
}

#[test]
fn a_service_beside_a_server_serves_stock_iperf3() {
    isolated("a_service_beside_a_server_serves_stock_iperf3", || {
        if !is_there("iperf3", "a_service_beside_a_server_serves_stock_iperf3") {
            return;
        }
        let served = start(&["httpd", "--service", "iperf3"]);
        let report = iperf3(&["-t", "1"]);
        let end = &report["end"];
        assert!(end["sum_received"]["bytes"].as_u64() > Some(1_000_000), "{end}");
        // The processor time is measured (getrusage), not a constant 0.
        assert!(end["cpu_utilization_percent"]["remote_total"].as_f64() > Some(0.0), "{end}");
        zeros("http://10.0.0.2/dev/zero");
        let (code, out, err) = served.interrupt();
        assert_eq!(code, Some(0), "{out}");
        assert!(err.contains("iperf3") || err.contains("[SUM]") || err.contains("receiver"), "{err}");
    });
}
