//! Tests the servers with stock clients over the kernel's loopback: curl for FTP and HTTP, iperf3,
//! and plain sockets for the others.
//!
//! A test whose client is not installed prints a message and passes.

mod kernel;

use kernel::Running;
use linerate_apps::files::{Builtin, Root, Uploads};
use linerate_apps::ftp::{self, Ftp};
use linerate_apps::http::{self, Http};
use linerate_apps::iperf3::{self, Iperf3};
use linerate_apps::small::{self, Small};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Output};

fn is_there(tool: &str) -> bool {
    let found = Command::new(tool).arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        println!("skipped: {tool} is not installed");
    }
    found
}

fn curl(args: &[&str]) -> Output {
    Command::new("curl")
        .args(["--silent", "--show-error", "--noproxy", "*", "--max-time", "20"])
        .args(args)
        .output()
        .unwrap()
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// A temporary directory of one test, with files and a symbolic link that leads outside.
struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Dir {
        let path = std::env::temp_dir().join(format!("linerate-apps-{name}-{}", std::process::id()));
        std::fs::create_dir_all(path.join("sub")).unwrap();
        std::fs::write(path.join("a.txt"), "one\ntwo\n").unwrap();
        let big: Vec<u8> = (0..3_000_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        std::fs::write(path.join("big.bin"), big).unwrap();
        std::fs::write(path.join("sub/index.html"), "<p>sub</p>\n").unwrap();
        let _ = std::os::unix::fs::symlink("/etc", path.join("out"));
        Dir(path)
    }

    fn root(&self) -> Root {
        Root::devices().with_directory(&self.0, Uploads::Replace, 1 << 24).unwrap()
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn curl_over_ftp() {
    if !is_there("curl") {
        return;
    }
    let dir = Dir::new("ftp");
    let server = Running::start(Ftp::new(ftp::Config::new(dir.root())));
    let url = |path: &str| format!("ftp://anonymous@{}{path}", server.at);
    // Downloads and uploads, with EPSV, PASV and PORT.
    for how in
        [&[][..], &["--disable-epsv"], &["--ftp-port", "127.0.0.1"], &["--ftp-port", "127.0.0.1", "--disable-eprt"]]
    {
        let (got, sent) = (dir.file("got"), dir.file("sent"));
        let big = dir.file("big.bin");
        let down = curl(&[how, &["-o", &got, &url("/big.bin")]].concat());
        assert!(down.status.success(), "{how:?}: {}", text(&down));
        assert!(std::fs::read(&got).unwrap() == std::fs::read(&big).unwrap(), "{how:?}");
        let up = curl(&[how, &["-T", &big, &url("/sub/sent")]].concat());
        assert!(up.status.success(), "{how:?}: {}", text(&up));
        assert!(std::fs::read(dir.file("sub/sent")).unwrap() == std::fs::read(&big).unwrap(), "{how:?}");
        let null = curl(&[how, &["-T", &big, &url("/dev/null")]].concat());
        assert!(null.status.success(), "{how:?}: {}", text(&null));
        let _ = std::fs::remove_file(sent);
    }
    // A part of a file, listings, and a transfer as text.
    let part = curl(&["-r", "4-", &url("/a.txt")]);
    assert_eq!(text(&part), "two\n");
    let listing = text(&curl(&[&url("/")]));
    assert!(listing.contains("a.txt") && listing.contains("dev") && listing.contains("sub"), "{listing}");
    assert!(!listing.contains("out"), "a link that leads out is not shown: {listing}");
    assert_eq!(text(&curl(&["--list-only", &url("/sub/")])).lines().count(), 2);
    let as_text = curl(&["--use-ascii", &url("/a.txt")]);
    assert_eq!(text(&as_text), "one\ntwo\n", "curl takes out the CRs that came");
    // Resumed and appended uploads: curl uses APPE for both.
    let size = |name: &str| std::fs::metadata(dir.0.join(name)).map(|meta| meta.len()).unwrap_or(0);
    std::fs::write(dir.0.join("half"), &std::fs::read(dir.0.join("big.bin")).unwrap()[..1_000_000]).unwrap();
    let resumed = curl(&["-T", &dir.file("big.bin"), "-C", "-", &url("/half")]);
    assert!(resumed.status.success(), "{}", text(&resumed));
    assert!(std::fs::read(dir.file("half")).unwrap() == std::fs::read(dir.file("big.bin")).unwrap());
    for _ in 0..2 {
        let appended = curl(&["-T", &dir.file("a.txt"), "-a", &url("/appended")]);
        assert!(appended.status.success(), "{}", text(&appended));
    }
    assert_eq!(size("appended"), 16);
    // Commands other than transfers: directories are created, names changed, files removed.
    let changed = curl(&[
        "-Q",
        "MKD made",
        "-Q",
        "RNFR appended",
        "-Q",
        "RNTO made/moved",
        "-Q",
        "CDUP",
        "--list-only",
        &url("/made/"),
    ]);
    assert_eq!(text(&changed), "moved\n");
    let removed = curl(&["-Q", "DELE made/moved", "-Q", "RMD made", "--list-only", &url("/")]);
    assert!(removed.status.success() && !text(&removed).contains("made"), "{}", text(&removed));
    assert_eq!(curl(&["-X", "NLST *.txt", &url("/")]).stdout, b"a.txt\n");
    let facts = text(&curl(&["-X", "MLSD", &url("/sub/")]));
    assert!(facts.contains("type=file;size=11;modify=") && facts.contains("; index.html\n"), "{facts}");
    // Files that must not be served.
    for path in ["/nothing", "/out/passwd", "//../etc/passwd", "/sub"] {
        let refused = curl(&["--path-as-is", &url(path)]);
        assert!(!refused.status.success(), "{path}: {}", text(&refused));
    }
    let root = curl(&["--user", "root:x", &format!("ftp://{}/a.txt", server.at)]);
    assert_eq!(root.status.code(), Some(67), "login denied: {}", text(&root));
    // Endless zeros: curl closes the connection when its time limit expires.
    let zeros = curl(&["--max-time", "1", "-o", "/dev/null", "--write-out", "%{size_download}", &url("/dev/zero")]);
    assert_eq!(zeros.status.code(), Some(28), "{}", text(&zeros));
    let bytes: u64 = String::from_utf8_lossy(&zeros.stdout).trim().parse().unwrap();
    assert!(bytes > 1_000_000, "{bytes}");
    println!("ftp: {} MB of zeros in a second", bytes / 1_000_000);
    let app = server.stop();
    assert_eq!((app.counts.logins_refused.get(), app.counts.bounces.get(), app.counts.thefts.get()), (1, 0, 0));
    assert!(app.counts.transfers.get() >= 16 && app.counts.transfers_failed.get() <= 1);
}

#[test]
fn curl_over_http() {
    if !is_there("curl") {
        return;
    }
    let dir = Dir::new("http");
    let root = dir.root().with("/hello.html", Builtin::Bytes(b"<p>hello</p>\n"[..].into()));
    let server = Running::start(Http::new(http::Config::new(root)));
    let url = |path: &str| format!("http://{}{path}", server.at);
    assert_eq!(text(&curl(&[&url("/hello.html")])), "<p>hello</p>\n");
    let got = dir.file("got");
    assert!(curl(&["-o", &got, &url("/big.bin")]).status.success());
    assert!(std::fs::read(&got).unwrap() == std::fs::read(dir.file("big.bin")).unwrap());
    assert_eq!(text(&curl(&["-L", &url("/sub")])), "<p>sub</p>\n");
    assert_eq!(text(&curl(&["-r", "4-6", &url("/a.txt")])), "two");
    std::fs::write(dir.0.join("empty"), "").unwrap();
    let of_empty = curl(&["-r", "-1", "--write-out", "%{http_code}", &url("/empty")]);
    assert_eq!(text(&of_empty), "200", "a suffix of nothing is the whole");
    // All requests use one connection.
    let many = curl(&["--write-out", "%{num_connects} ", &url("/a.txt"), &url("/a.txt"), &url("/a.txt")]);
    assert_eq!(text(&many).matches("1 ").count(), 1, "{}", text(&many));
    // A file that the client already has is not sent again: curl compares entity tags and dates.
    let (copy, tag) = (dir.file("copy"), dir.file("tag"));
    assert!(curl(&["--etag-save", &tag, "-o", &copy, &url("/a.txt")]).status.success());
    let code = |args: &[&str]| text(&curl(&[args, &["-o", "/dev/null", "--write-out", "%{http_code}"]].concat()));
    assert_eq!(code(&["--etag-compare", &tag, &url("/a.txt")]), "304");
    assert_eq!(code(&["-z", &copy, &url("/a.txt")]), "304");
    assert_eq!(code(&["-I", &url("/a.txt")]), "200");
    assert_eq!(code(&["-d", "x=1", &url("/a.txt")]), "405");
    assert_eq!(code(&[&url("/out/passwd")]), "404");
    assert_eq!(code(&["--path-as-is", &url("/../../etc/passwd")]), "400");
    assert_eq!(code(&["--http1.0", &url("/a.txt")]), "200");
    // A given number of zeros, and endless zeros.
    let zeros = ["-o", "/dev/null", "--write-out", "%{size_download}"];
    assert_eq!(text(&curl(&[&zeros[..], &[&url("/dev/zero?bytes=5000000")]].concat())), "5000000");
    let endless = curl(&[&zeros[..], &["--max-time", "1", &url("/dev/zero")]].concat());
    assert_eq!(endless.status.code(), Some(28), "{}", text(&endless));
    let app = server.stop();
    assert_eq!((app.counts.malformed.get(), app.counts.cut_short.get()), (0, 0));
    assert_eq!(app.counts.unserved.get(), 3);
}

fn iperf3_json(at: std::net::SocketAddr, args: &[&str]) -> Value {
    let port = at.port().to_string();
    let output = Command::new("timeout")
        .args(["20", "iperf3", "-J", "-c", "127.0.0.1", "-p", &port])
        .args(args)
        .output()
        .unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", text(&output)))
}

#[test]
fn stock_iperf3() {
    if !is_there("iperf3") || !is_there("timeout") {
        return;
    }
    let config = iperf3::Config { json: true, clients_max: 1, ..iperf3::Config::default() };
    let server = Running::start(Iperf3::new(config));
    let runs: &[&[&str]] = &[
        &["-t", "1"],
        &["-t", "1", "-R"],
        &["-t", "1", "-P", "3"],
        &["-t", "1", "--bidir", "-P", "2"],
        &["-n", "20M"],
        &["-n", "20M", "-R"],
        &["-k", "100", "-l", "64K"],
        &["-k", "100", "-l", "64K", "-R"],
        &["-t", "1", "-O", "1", "-R"],
        &["-t", "1", "-b", "80M", "-R"],
        &["-t", "1", "-N", "-M", "1000", "-w", "100K", "-C", "cubic", "--get-server-output", "-T", "name"],
    ];
    for args in runs {
        let report = iperf3_json(server.at, args);
        assert_eq!(report.get("error"), None, "{args:?}: {report:#}");
        let sum = |name: &str| report["end"][name]["bytes"].as_u64().unwrap_or(0);
        let (sent, received) = (sum("sum_sent"), sum("sum_received"));
        // With omitted time, the two ends begin to count at different moments.
        let sound = received <= sent || args.contains(&"-O");
        assert!(sent > 0 && received > 0 && sound, "{args:?}: sent {sent}, received {received}");
        if args.contains(&"--bidir") {
            assert!(sum("sum_received_bidir_reverse") > 0, "{args:?}");
        }
        if args.contains(&"-n") {
            // Data in flight when the client sends TEST_END is not counted, as in stock servers.
            let counted = if args.contains(&"-R") { received } else { sent };
            assert!(counted >= 20 << 20, "{args:?}: {counted}");
        }
        if args.contains(&"-b") {
            assert!((8_000_000..13_000_000).contains(&sent), "{args:?}: {sent} bytes of 10 MB");
        }
        if args.contains(&"--get-server-output") {
            let theirs = &report["server_output_json"]["end"]["sum_received"]["bytes"];
            assert!(theirs.as_u64().unwrap() > 0, "{args:?}");
        }
    }
    // A test that the server does not support is answered with an error message, and the next test
    // runs.
    let udp = iperf3_json(server.at, &["-u", "-t", "1"]);
    assert!(udp["error"].as_str().unwrap().contains("implemented"), "{udp:#}");
    // A test beyond the maximum number is refused with a message.
    let port = server.at.port().to_string();
    let mut first = Command::new("iperf3")
        .args(["-c", "127.0.0.1", "-p", &port, "-t", "2", "-J"])
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    server.wait_until("the first of two tests has begun", |app| app.is_testing());
    let second = iperf3_json(server.at, &["-t", "1"]);
    assert!(second["error"].as_str().unwrap().contains("busy"), "{second:#}");
    assert!(first.wait().unwrap().success());
    // The client exits once IPERF_DONE is sent; the server may not have read it yet.
    server.wait_until("the last test has ended", |app| !app.is_testing());
    let mut app = server.stop();
    assert_eq!(app.counts.finished.get(), runs.len() as u64 + 1);
    assert_eq!((app.counts.failed.get(), app.counts.denied.get()), (1, 1));
    // Reports of our server: one JSON object per test, with consistent counts.
    let output = app.take_output();
    let reports: Vec<Value> = serde_json::Deserializer::from_str(&output).into_iter().map(Result::unwrap).collect();
    assert_eq!(reports.len(), runs.len() + 2);
    let first = &reports[0];
    let of_intervals: u64 =
        first["intervals"].as_array().unwrap().iter().map(|i| i["sum"]["bytes"].as_u64().unwrap()).sum();
    assert_eq!(of_intervals, first["end"]["sum_received"]["bytes"].as_u64().unwrap());
    assert_eq!(reports[3]["end"]["streams"].as_array().unwrap().len(), 4);
}

#[test]
fn plain_sockets() {
    let exchange = |kind, send: &[u8]| {
        let server = Running::start(Small::new(small::Config::new(kind)));
        let mut client = TcpStream::connect(server.at).unwrap();
        let mut writer = client.try_clone().unwrap();
        let bytes = send.to_vec();
        let sender = std::thread::spawn(move || {
            writer.write_all(&bytes).unwrap();
            if kind != small::Kind::Chargen {
                writer.shutdown(Shutdown::Write).unwrap();
            }
        });
        let mut got = Vec::new();
        if kind == small::Kind::Chargen {
            got.resize(74 * 95, 0);
            client.read_exact(&mut got).unwrap();
        } else {
            client.read_to_end(&mut got).unwrap();
        }
        sender.join().unwrap();
        drop(client);
        (got, server.stop().counts.received.get())
    };
    let bytes: Vec<u8> = (0..1_000_000u32).map(|n| n as u8).collect();
    assert!(exchange(small::Kind::Echo, &bytes) == (bytes.clone(), 1_000_000));
    assert_eq!(exchange(small::Kind::Discard, &bytes), (Vec::new(), 1_000_000));
    assert_eq!(exchange(small::Kind::Sink, &bytes), (b"1000000 bytes\n".to_vec(), 1_000_000));
    let (lines, _) = exchange(small::Kind::Chargen, b"");
    assert!(lines.starts_with(b" !\"#$%&'()*+,-./0123456789:;<=>?@ABC"));
    assert_eq!(&lines[74 * 95 - 2..], b"\r\n");
}
