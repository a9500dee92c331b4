//! Clients in a running host: `ping`, `traceroute`, `nc`, `nslookup`, `http get`. They run against
//! the kernel on a TAP device in the test's own namespace, and in virtual time.

use crate::common;
use crate::common::{Dir, Running, isolated, linerate, printed, run};
use port::os::netlink::Netlink;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::process::Stdio;
use std::thread;

const THEIRS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);

/// Starts a host on tap0 and configures the kernel's side of tap0.
fn start() -> (Running, Netlink) {
    let host = Running::start("ask", &["--port", "tap:tap0", "--addr", "10.0.0.2/24"]);
    let mut netlink = Netlink::open().unwrap();
    netlink.set_up("lo").unwrap();
    netlink.set_up("tap0").unwrap();
    netlink.add_addr("tap0", THEIRS, 24).unwrap();
    (host, netlink)
}

#[test]
fn clients_reach_the_kernel_and_its_servers() {
    isolated("clients_reach_the_kernel_and_its_servers", || {
        let (host, _netlink) = start();
        let url = host.url();
        let ask = |words: &[&str]| printed(&run(&mut linerate(&[&[words[0], "--url", &url], &words[1..]].concat())));

        let (code, out, err) = ask(&["ping", "-c", "3", "-i", "0.05", "10.0.0.1"]);
        assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
        assert_eq!(out.matches("64 bytes from 10.0.0.1: icmp_seq=").count(), 3, "{out}");
        assert!(
            out.contains("ttl=64 time=") && out.contains("3 packets transmitted, 3 received, 0% packet loss"),
            "{out}"
        );
        let (code, out, _) = ask(&["ping", "-j", "-c", "1", "10.0.0.1"]);
        let last: serde_json::Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
        assert_eq!((code, &last["received"]), (Some(0), &1.into()), "{out}");
        let (code, out, _) = ask(&["ping", "-c", "1", "-W", "0.2", "10.0.0.77"]);
        assert!(code == Some(1) && out.contains("1 packets transmitted, 0 received"), "{out}");
        let (code, out, err) = ask(&["traceroute", "-q", "1", "10.0.0.1"]);
        assert_eq!((code, err.as_str()), (Some(0), ""));
        assert_eq!(out.lines().nth(1).unwrap().split_whitespace().take(2).collect::<Vec<_>>(), ["1", "10.0.0.1"]);

        // Ctrl-C ends a ping with its summary. A reader that closes the pipe ends it without a
        // message.
        let mut endless = linerate(&["ping", "--url", &url, "-i", "0.1", "10.0.0.1"]);
        let child = endless.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        thread::sleep(std::time::Duration::from_millis(700));
        // The child has not been waited for, so its process number is not reused.
        let kill = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status();
        assert!(kill.unwrap().success());
        let (code, out, err) = printed(&child.wait_with_output().unwrap());
        assert!(code == Some(0) && out.contains("ping statistics ---") && err.is_empty(), "{out}{err}");
        let dir = Dir::new("ask-pipe");
        let line = format!("linerate ping --url {url} -i 0.05 10.0.0.1 | head -1; echo ${{PIPESTATUS[0]}}");
        let (_, out, err) = printed(&dir.bash(&line).output().unwrap());
        assert!(out.starts_with("PING 10.0.0.1 ") && out.ends_with("\n0\n") && err.is_empty(), "{out}{err}");

        pages(&ask);
        names(&ask);

        // A server that echoes a connection until its end, and a port without a listener.
        let listener = TcpListener::bind((THEIRS, 0)).unwrap();
        let port = listener.local_addr().unwrap().port().to_string();
        let echo = thread::spawn(move || {
            let (mut stream, peer) = listener.accept().unwrap();
            let mut all = Vec::new();
            stream.read_to_end(&mut all).unwrap();
            stream.write_all(&all).unwrap();
            peer.ip()
        });
        let mut nc = linerate(&["nc", "--url", &url, "10.0.0.1", &port]);
        let mut child = nc.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let text: Vec<u8> = (0..100_000u32).map(|n| n as u8).collect();
        child.stdin.take().unwrap().write_all(&text).unwrap();
        let out = child.wait_with_output().unwrap();
        assert!(out.status.success() && out.stdout == text, "{} of {} bytes", out.stdout.len(), text.len());
        assert_eq!(echo.join().unwrap(), Ipv4Addr::new(10, 0, 0, 2));
        let (code, _, err) = ask(&["nc", "10.0.0.1", &port]);
        assert!(code == Some(1) && err.contains("ECONNREFUSED"), "{err}");

        measured(&ask);
        assert_eq!(host.json("job list"), serde_json::json!([]), "nothing stays behind");
        let (code, out, err) = host.interrupt();
        assert!(code == Some(0) && out.contains("imbalance           0\n"), "{out}{err}");
    });
}

type Ask<'a> = &'a dyn Fn(&[&str]) -> (Option<i32>, String, String);

/// Gets pages with a length, in chunks, and one that does not exist.
fn pages(ask: Ask<'_>) {
    let listener = TcpListener::bind((THEIRS, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = thread::spawn(move || {
        let mut requests = Vec::new();
        for answer in [
            "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n",
            "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
        ] {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = vec![0; 4096];
            let n = stream.read(&mut request).unwrap();
            requests.push(String::from_utf8_lossy(&request[..n]).into_owned());
            stream.write_all(answer.as_bytes()).unwrap();
        }
        requests
    });
    let page = |path: &str| format!("http://10.0.0.1:{port}{path}");
    assert_eq!(ask(&["http", "get", &page("/a?b=c")]), (Some(0), "hello\n".into(), String::new()));
    let (code, out, _) = ask(&["http", "-i", "get", &page("")]);
    assert_eq!((code, out.as_str()), (Some(0), "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nabcdefg"));
    let (code, out, err) = ask(&["http", "get", &page("/none")]);
    assert!(code == Some(1) && out.is_empty() && err.contains("status 404"), "{err}");
    let requests = server.join().unwrap();
    assert!(requests[0].starts_with("GET /a?b=c HTTP/1.1\r\nHost: 10.0.0.1:"), "{}", requests[0]);
    assert!(requests[1].starts_with("GET / HTTP/1.1\r\n"), "{}", requests[1]);
    assert_eq!(ask(&["http", "get", "https://10.0.0.1/"]).0, Some(2));
}

/// Looks up a name with addresses, a name that does not exist, the name of an address, a name whose
/// second query fails, and a name whose answer is too long for a datagram.
fn names(ask: Ask<'_>) {
    let socket = UdpSocket::bind((THEIRS, 0)).unwrap();
    let server = format!("10.0.0.1:{}", socket.local_addr().unwrap().port());
    let answers = thread::spawn(move || {
        let mut buffer = [0; 512];
        const A: &[u8] = b"\xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04\x0a\x01\x02\x03";
        const AAAA: &[u8] = b"\xc0\x0c\0\x1c\0\x01\0\0\0\x3c\0\x10\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01";
        const PTR: &[u8] = b"\xc0\x0c\0\x0c\0\x01\0\0\0\x3c\0\x06\x01h\x02lr\0";
        // Flags, response code and record of each answer.
        let answers: [(u8, u8, &[u8]); 7] =
            [(0x84, 0, A), (0x84, 0, AAAA), (0x84, 3, b""), (0x84, 0, PTR), (0x84, 0, A), (0x84, 2, b""), (0x86, 0, A)];
        for (flags, rcode, record) in answers {
            let (n, from) = socket.recv_from(&mut buffer).unwrap();
            let mut answer = buffer[..n].to_vec();
            (answer[2], answer[3], answer[7]) = (flags, rcode, u8::from(!record.is_empty()));
            answer.extend(record);
            socket.send_to(&answer, from).unwrap();
        }
    });
    let (code, out, err) = ask(&["nslookup", "www.example.org", &server]);
    assert_eq!(code, Some(0), "{err}");
    let names = "Name:\twww.example.org\nAddress: 10.1.2.3\nName:\twww.example.org\nAddress: 2001:db8::1\n";
    assert!(out.starts_with("Server:\t\t10.0.0.1\n") && out.ends_with(names), "{out}");
    let (code, out, _) = ask(&["nslookup", "none.example.org", &server]);
    assert!(code == Some(1) && out.contains("** server can't find none.example.org: NXDOMAIN"), "{out}");
    let (code, out, _) = ask(&["nslookup", "10.1.2.3", &server]);
    assert!(code == Some(0) && out.contains("3.2.1.10.in-addr.arpa\tname = h.lr.\n"), "{out}");
    let (code, out, err) = ask(&["nslookup", "four.example.org", &server]);
    assert!(code == Some(0) && out.ends_with("Name:\tfour.example.org\nAddress: 10.1.2.3\n"), "{out}");
    assert!(err.contains("IPv6 addresses are unknown: SERVFAIL"), "{err}");
    let (code, out, err) = ask(&["nslookup", "large.example.org", &server]);
    // The answer is truncated, and the server's TCP port has no listener.
    assert!(code == Some(1) && out.is_empty() && err.contains(&format!("{server}: ECONNREFUSED")), "{err}");
    answers.join().unwrap();
    assert_eq!(ask(&["nslookup", "a..b", &server]).0, Some(2));
}

/// Runs the host as an iperf3 client in both directions. The server is stock iperf3.
fn measured(ask: Ask<'_>) {
    if !common::has("iperf3") {
        println!("skipped: no iperf3 here");
        return;
    }
    let mut stock = std::process::Command::new("iperf3");
    let mut server = stock.args(["-s", "-p", "5301"]).stdout(Stdio::null()).spawn().unwrap();
    let until = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while std::net::TcpStream::connect((THEIRS, 5301)).is_err() && std::time::Instant::now() < until {
        thread::sleep(std::time::Duration::from_millis(20));
    }
    for reverse in [&[][..], &["-R"]] {
        let (code, out, err) = ask(&[&["iperf3", "-c", "10.0.0.1", "-p", "5301", "-t", "1", "-J"], reverse].concat());
        assert_eq!(code, Some(0), "{err}");
        let report: serde_json::Value = serde_json::from_str(&out).unwrap();
        let rate = report["end"]["sum_received"]["bits_per_second"].as_f64();
        assert!(rate > Some(1e6), "{report}");
    }
    let (code, out, _) = ask(&["iperf3", "-c", "10.0.0.1", "-p", "5301", "-t", "1"]);
    assert!(code == Some(0) && out.contains(" sender") && out.contains("Connecting to host 10.0.0.1"), "{out}");
    let (code, _, err) = ask(&["iperf3", "-c", "10.0.0.1", "-p", "1", "-t", "1"]);
    assert!(code == Some(1) && err.contains("unable to connect to server"), "{err}");
    server.kill().unwrap();
    server.wait().unwrap();
}

/// The same commands in virtual time: round trips are those of the simulated links.
#[test]
fn clients_run_in_a_simulation() {
    let dir = Dir::new("ask-sim");
    let file = dir.file(
        "two.toml",
        r#"
        [[host]]
        name = "a"
        [[host.iface]]
        name = "em0"
        port = "impair(delay=5ms):pair:l"
        addresses = ["10.0.0.1/24"]
        [[host]]
        name = "b"
        [[host.iface]]
        name = "em0"
        port = "impair(delay=5ms):pair:l"
        addresses = ["10.0.0.2/24"]
        [[host.service]]
        kind = "echo"
        [[host.service]]
        kind = "iperf3"
        "#,
    );
    // nc with its input, and servers that do not exist, do not reply, or are on no host.
    for (line, says) in [
        ("a nc -u 10.0.0.2 7", "ping\n"),
        ("a nc 10.0.0.2 7", "10.0.0.2:7: ECONNREFUSED"),
        ("a nslookup x.example 10.0.0.2", "10.0.0.2:53: ECONNREFUSED"),
        ("a http get http://10.0.0.2/", "10.0.0.2:80: ECONNREFUSED"),
        ("a nslookup x.example 10.0.0.2:7", "10.0.0.2:7: no reply to 3 queries"),
        ("a nslookup x.example 10.0.0.9", "10.0.0.9:53: EHOSTUNREACH"),
    ] {
        let line = format!("printf 'ping\\n' | linerate up --sim 10 two.toml --do '{line}'");
        let (code, out, err) = printed(&dir.bash(&line).output().unwrap());
        assert!(code == Some(0) && out.contains(says), "{line}: {out}{err}");
    }
    let sim = |words: &[&str]| {
        let flags: Vec<&str> = words.iter().flat_map(|line| ["--do", *line]).collect();
        printed(&run(linerate(&["up", "--sim", "30", &file]).args(flags)))
    };
    let (code, out, err) = sim(&["a ping -c 2 10.0.0.2", "a traceroute -q 1 10.0.0.2", "b ip -br addr"]);
    assert_eq!(code, Some(0), "{err}");
    assert!(out.contains("2 packets transmitted, 2 received, 0% packet loss, time 10"), "{out}");
    assert!(out.contains("64 bytes from 10.0.0.2: icmp_seq=2 ttl=64 time=10.0"), "there and back: {out}");
    assert!(out.contains("\n 1  10.0.0.2  10.0"), "{out}");
    assert!(out.lines().any(|line| line.starts_with("em0 ") && line.contains("10.0.0.2/24")), "{out}");
    // Streams and datagrams take the time of the links, regardless of the machine. The same seed
    // prints the same output.
    let lines = [
        "a iperf3 -c 10.0.0.2 -u -b 10M -t 2",
        "a iperf3 -c 10.0.0.2 -n 3M -w 64K",
        "a iperf3 -c 10.0.0.2 -n 3M -R",
        "a iperf3 -c 10.0.0.2 -u -b 20M -t 2",
        "a iperf3 -c 10.0.0.2 -u -b 20M -t 2 -R",
        "a iperf3 -c 10.0.0.2 -u -b 20M -t 1 -O 2",
    ];
    let (code, out, err) = sim(&lines);
    assert_eq!(code, Some(0), "{err}");
    assert_eq!(out.matches("iperf Done.").count(), lines.len(), "{out}");
    assert!(out.contains("0/1713 (0%)  receiver"), "{out}");
    // 5 MB in datagrams of 1,460 bytes are 3,424.7 datagrams.
    assert_eq!(out.matches("0/3425 (0%)  receiver").count(), 2, "{out}");
    // The measured second follows two omitted seconds.
    assert!(out.contains("0/1712 (0%)  sender"), "{out}");
    // A window of 64 KiB in each round trip of 10 ms is 52 Mbit/s.
    let sender = out.lines().filter(|line| line.ends_with("sender")).nth(1).unwrap();
    let rate: f64 = sender.split_whitespace().nth(6).unwrap().parse().unwrap();
    assert!(sender.contains("Mbits/sec") && (20.0..56.0).contains(&rate), "{sender}");
    assert_eq!(sim(&lines).1, out);
    for (words, says) in [
        ("a iperf3 -c 10.0.0.2 --cport 7", "--cport cannot be used in virtual time"),
        ("a iperf3 -c 10.0.0.2 -f k", "-f cannot be used in a running host"),
        ("a iperf3 -c 10.0.0.2 -V", "-V cannot be used in a running host"),
        ("a iperf3 -s", "expected -c HOST"),
        ("c ping 10.0.0.2", "unknown host 'c'"),
        ("a pong", "unknown command 'pong'"),
        ("", "expected 'HOST WORDS'"),
        ("a nc", "required"),
    ] {
        let (code, _, err) = sim(&[words]);
        assert!(code == Some(2) && err.contains(says), "{words}: {err}");
    }
}
