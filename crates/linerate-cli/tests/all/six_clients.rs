//! Stock clients over IPv6 with our servers on a TAP device, and our client with a stock server:
//! curl, iperf3, redis-cli, nc. They use global and link-local addresses, and IPv4 at the same
//! servers.

use crate::common;
use crate::common::{Dir, Running, has, isolated, kernel, run};
use port::os::netlink::Netlink;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const OURS: &str = "fd00::2";
const NEAR: &str = "fe80::ff:fe00:2";

/// Returns whether this machine has the tools and an IPv6 kernel; if not, the test is skipped.
fn ready(test: &str, tools: &[&str]) -> bool {
    let missing = tools.iter().find(|tool| !has(tool));
    let speaks = std::fs::read_to_string("/proc/sys/net/ipv6/conf/all/disable_ipv6").is_ok_and(|off| off.trim() == "0");
    match missing {
        Some(tool) => println!("skipped: {test}: no {tool}"),
        None if !speaks => println!("skipped: {test}: a kernel without IPv6"),
        None => return true,
    }
    false
}

/// Starts one of our servers on tap0, with addresses of both families that are not tentative, and
/// with the kernel at the other end.
fn start(name: &str, words: &[&str]) -> Running {
    let on = ["--port", "tap:tap0", "--mac", "02:00:00:00:00:02", "--addr", "10.0.0.2/24", "--addr", "fd00::2/64"];
    let served = Running::start_as(name, &[words, &on].concat());
    let mut netlink = Netlink::open().unwrap();
    netlink.set_up("lo").unwrap();
    netlink.set_up("tap0").unwrap();
    netlink.add_addr("tap0", [10, 0, 0, 1], 24).unwrap();
    kernel("-6 addr add fd00::1/64 dev tap0 nodad");
    let since = Instant::now();
    while served.ok("ip -6 addr").contains("tentative") {
        assert!(since.elapsed() < Duration::from_secs(30), "addresses stay tentative");
        std::thread::sleep(Duration::from_millis(50));
    }
    served
}

/// Runs a client, which must succeed; returns its output.
#[track_caller]
fn printed(program: &str, words: &[&str]) -> String {
    let output = run(Command::new(program).args(words));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{program} {words:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

/// Ends the server: it must exit with 0, with every frame accounted for.
#[track_caller]
fn end(served: Running) {
    let (code, out, err) = served.interrupt();
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(format!("{out}{err}").contains("imbalance           0"), "{out}{err}");
}

#[test]
fn curl_reads_over_ipv6() {
    isolated("curl_reads_over_ipv6", || {
        if !ready("curl_reads_over_ipv6", &["ip", "curl"]) {
            return;
        }
        let dir = Dir::new("six-curl");
        let text: String = (0..200_000).map(|n| format!("{n}\n")).collect();
        let file = dir.file("text", &text);
        let served = start("six-httpd", &["httpd", "--root", &dir.path("")]);
        for url in
            [format!("http://[{OURS}]/text"), format!("http://[{NEAR}%25tap0]/text"), "http://10.0.0.2/text".into()]
        {
            let got = dir.path("got");
            printed("curl", &["-gsS", "--max-time", "60", "-o", &got, &url]);
            assert!(std::fs::read(&got).unwrap() == std::fs::read(&file).unwrap(), "{url}");
        }
        // Another port has no listener, so curl gets an error at once.
        let refused = run(Command::new("curl").args(["-gsS", "--max-time", "20", &format!("http://[{OURS}]:81/")]));
        assert_eq!(refused.status.code(), Some(7), "{}", String::from_utf8_lossy(&refused.stderr));
        end(served);
    });
}

#[test]
fn curl_downloads_and_uploads_over_ftp_and_ipv6() {
    isolated("curl_downloads_and_uploads_over_ftp_and_ipv6", || {
        if !ready("curl_downloads_and_uploads_over_ftp_and_ipv6", &["ip", "curl"]) {
            return;
        }
        let dir = Dir::new("six-ftp");
        let file = dir.file("sent", vec![b'x'; 500_000]);
        let served = start("six-ftpd", &["ftpd", "--root", &dir.path(""), "--uploads"]);
        // Extended passive and extended active mode (RFC 2428), since PASV and PORT cannot
        // represent these addresses.
        for (how, n) in [(&[][..], 1), (&["--ftp-port", "fd00::1"][..], 2)] {
            let (got, url) = (dir.path("got"), format!("ftp://anonymous@[{OURS}]/up{n}"));
            printed("curl", &[&["-gsS", "--max-time", "60"], how, &["-T", &file, &url]].concat());
            printed("curl", &[&["-gsS", "--max-time", "60"], how, &["-o", &got, &url]].concat());
            assert!(std::fs::read(&got).unwrap() == std::fs::read(&file).unwrap(), "{how:?}");
        }
        end(served);
    });
}

#[test]
fn iperf3_measures_over_ipv6_both_ways() {
    isolated("iperf3_measures_over_ipv6_both_ways", || {
        if !ready("iperf3_measures_over_ipv6_both_ways", &["ip", "iperf3"]) {
            return;
        }
        let served = start("six-iperf3", &["iperf3", "-s"]);
        for words in [&["-n", "2M"][..], &["-R", "-n", "2M"], &["-u", "-b", "20M", "-t", "1"], &["-P", "2", "-n", "2M"]]
        {
            printed("iperf3", &[&["-6", "-c", OURS], words].concat());
        }
        printed("iperf3", &["-c", "10.0.0.2", "-n", "1M"]);
        end(served);
        // Our client with a stock server.
        let mut server = Command::new("iperf3");
        let mut server = server.args(["-s", "-1", "-6"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let ours = ["--port", "tap:tap0", "--addr", "fd00::2/64"];
        let mut client = common::linerate(&[&["iperf3", "-6", "-c", "fd00::1", "-n", "2M"], &ours[..]].concat());
        let client = client.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let since = Instant::now();
        let mut netlink = Netlink::open().unwrap();
        while netlink.set_up("tap0").is_err() {
            assert!(since.elapsed() < Duration::from_secs(20), "no tap0");
            std::thread::sleep(Duration::from_millis(20));
        }
        kernel("-6 addr add fd00::1/64 dev tap0 nodad");
        let output = client.wait_with_output().unwrap();
        let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let _ = server.kill(); // it has ended if the client has
        let _ = server.wait();
        assert!(output.status.success() && text.contains("receiver"), "{text}");
    });
}

#[test]
fn redis_cli_works_over_ipv6() {
    isolated("redis_cli_works_over_ipv6", || {
        if !ready("redis_cli_works_over_ipv6", &["ip", "redis-cli"]) {
            return;
        }
        let served = start("six-kvd", &["kvd"]);
        assert_eq!(printed("redis-cli", &["-h", OURS, "set", "key", "six"]).trim(), "OK");
        assert_eq!(printed("redis-cli", &["-h", "10.0.0.2", "get", "key"]).trim(), "six");
        assert_eq!(printed("redis-cli", &["-h", &format!("{NEAR}%tap0"), "get", "key"]).trim(), "six");
        end(served);
    });
}

#[test]
fn datagrams_are_echoed_over_ipv6() {
    isolated("datagrams_are_echoed_over_ipv6", || {
        if !ready("datagrams_are_echoed_over_ipv6", &["ip"]) {
            return;
        }
        let served = start("six-echo", &["host", "--service", "echo:7007"]);
        for (to, from) in [(format!("[{OURS}]:7007"), "[::]:0"), ("10.0.0.2:7007".to_string(), "0.0.0.0:0")] {
            let socket = std::net::UdpSocket::bind(from).unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            socket.connect(&to).unwrap();
            for len in [0, 1, 1000, 1452, 1453, 20_000] {
                let sent = vec![len as u8; len];
                socket.send(&sent).unwrap();
                let mut got = vec![0; 65_536];
                let n = socket.recv(&mut got).unwrap_or_else(|why| panic!("{to}, {len} bytes: {why}"));
                assert!(got[..n] == sent, "{to}, {len} bytes");
            }
            // A port without a listener is reported.
            let nobody = std::net::UdpSocket::bind(from).unwrap();
            nobody.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            nobody.connect(to.replace("7007", "7008")).unwrap();
            nobody.send(b"?").unwrap();
            assert_eq!(nobody.recv(&mut [0; 8]).unwrap_err().kind(), std::io::ErrorKind::ConnectionRefused, "{to}");
        }
        let sockets = served.ok("ss -uan");
        assert!(sockets.contains("[::]:7007"), "{sockets}");
        end(served);
    });
}

/// Returns the kernel's link-local address on tap0, with the interface.
fn theirs() -> String {
    let text = printed("ip", &["-6", "addr", "show", "dev", "tap0", "scope", "link"]);
    let mut words = text.split_whitespace().skip_while(|word| *word != "inet6");
    let addr = words.nth(1).and_then(|word| word.split_once('/')).unwrap_or_else(|| panic!("{text}"));
    format!("{}%tap0", addr.0)
}

/// A running host as a client over IPv6, with addresses with and without an interface: nc, http
/// get, nslookup, iperf3 -c.
#[test]
fn a_running_host_is_a_client_over_ipv6() {
    use std::io::{Read, Write};
    isolated("a_running_host_is_a_client_over_ipv6", || {
        if !ready("a_running_host_is_a_client_over_ipv6", &["ip", "iperf3"]) {
            return;
        }
        let host = start("six-ask", &["host"]);
        let (url, near) = (host.url(), theirs());
        common::until("the kernel's address", || {
            !printed("ip", &["-6", "addr", "show", "dev", "tap0"]).contains("tentative")
        });
        let ask = |words: &[&str]| {
            common::printed(&run(&mut common::linerate(&[&[words[0], "--url", &url], &words[1..]].concat())))
        };
        let listener = std::net::TcpListener::bind("[::]:0").unwrap();
        let port = listener.local_addr().unwrap().port().to_string();
        let server = std::thread::spawn(move || {
            for _ in 0..3 {
                let (mut stream, _) = listener.accept().unwrap();
                let mut request = [0; 1024];
                let n = stream.read(&mut request).unwrap();
                let answer = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nsix\n";
                let answer = if request[..n].starts_with(b"GET") { answer.as_bytes() } else { &request[..n] };
                stream.write_all(answer).unwrap();
            }
        });
        let mut nc = common::linerate(&["nc", "--url", &url, &near, &port]);
        let mut child = nc.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(b"hello\n").unwrap();
        let out = child.wait_with_output().unwrap();
        assert!(out.status.success() && out.stdout == b"hello\n", "{out:?}");
        for authority in [format!("[fd00::1]:{port}"), format!("[{near}]:{port}")] {
            assert_eq!(
                ask(&["http", "get", &format!("http://{authority}/")]),
                (Some(0), "six\n".into(), String::new())
            );
        }
        server.join().unwrap();
        let (code, _, err) = ask(&["nslookup", "x.example", "fd00::1"]);
        assert!(code == Some(1) && err.contains("[fd00::1]:53: ECONNREFUSED"), "{err}");
        let (code, _, err) = ask(&["nc", "fe80::1%em9", "7"]);
        assert!(code == Some(1) && err.contains("'fe80::1%em9': the host has no interface of that name"), "{err}");
        let (code, _, err) = ask(&["nc", "fe80::1", "7"]);
        assert!(code == Some(1) && err.contains("give its interface"), "{err}");
        let server = common::Daemon::iperf3();
        for words in [&["-n", "1M"][..], &["-R", "-n", "1M"], &["-u", "-b", "10M", "-t", "1"]] {
            let (code, out, err) = ask(&[&["iperf3", "-6", "-c", &near], words].concat());
            assert!(code == Some(0) && out.contains("receiver"), "{words:?}: {out}{err}");
        }
        end(host);
        // A client with its own host, which has the interface by the same name.
        kernel("tuntap add tap1 mode tap");
        kernel("link set tap1 address 02:00:00:00:00:01");
        kernel("link set tap1 up");
        let ours = ["--port", "tap:tap1", "--addr", "fd01::2/64"];
        let words = [&["iperf3", "-c", "fe80::ff:fe00:1%tap1", "-u", "-b", "5M", "-t", "1"], &ours[..]].concat();
        let (code, out, err) = common::printed(&run(&mut common::linerate(&words)));
        drop(server);
        assert!(code == Some(0) && out.contains("receiver"), "{out}{err}");
    });
}
