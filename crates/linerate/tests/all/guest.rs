//! The kernel as a guest: stock programs behind a TAP device, whose traffic a policy decides.

use linerate::Host;
use linerate::net::{TcpForwarder, UdpSocket};
use linerate::policy::{Decision, Policy};
use std::io::{Read, Write};
use std::process::{Command, Output};
use std::time::Duration;

/// Set in the test program that runs inside its own network namespace.
const INSIDE: &str = "LINERATE_GUEST";

/// Runs a shell command with name resolution by 10.0.0.1.
fn sh(words: &str) -> Output {
    let resolv = std::env::temp_dir().join(format!("linerate-guest-{}", std::process::id()));
    std::fs::write(&resolv, "nameserver 10.0.0.1\n").unwrap();
    let script = format!("mount --bind {} /etc/resolv.conf && {words}", resolv.display());
    let output = Command::new("unshare").args(["--mount", "sh", "-c", &script]).output().unwrap();
    std::fs::remove_file(resolv).unwrap();
    output
}

/// Replies to queries for A records of any name with 203.0.113.7.
fn serve_names(server: &UdpSocket) -> std::io::Result<()> {
    let mut message = [0; 512];
    loop {
        let (len, from) = server.recv_from(&mut message)?;
        let end = 12 + message[12..len].iter().position(|byte| *byte == 0).unwrap_or_default() + 5;
        let mut answer = message[..end.min(len)].to_vec();
        let is_a = answer[end - 3] == 1;
        answer[2..4].copy_from_slice(&[0x81, 0x80]);
        answer[6..12].copy_from_slice(&[0, u8::from(is_a), 0, 0, 0, 0]); // without the query's EDNS record
        if is_a {
            answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 203, 0, 113, 7]);
        }
        server.send_to(&answer, from)?;
    }
}

/// Replies to each HTTP request with `hello`.
fn serve_web(forwarder: &TcpForwarder) -> std::io::Result<()> {
    loop {
        let mut stream = forwarder.next()?.accept()?;
        let _ = stream.read(&mut [0; 1024])?;
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nhello\n")?;
    }
}

#[test]
fn a_guest_reaches_the_names_that_the_policy_allows() {
    const TEST: &str = "guest::a_guest_reaches_the_names_that_the_policy_allows";
    if std::env::var(INSIDE).is_err() {
        if let Err(why) = port::os::netns::available() {
            return println!("skipped: {TEST}: {why}");
        }
        if let Err(why) = std::fs::OpenOptions::new().read(true).write(true).open("/dev/net/tun") {
            return println!("skipped: {TEST}: /dev/net/tun: {why}");
        }
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", TEST, "--nocapture"]).env(INSIDE, "1");
        let output = port::os::netns::command(&mut command).output().unwrap();
        let text = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
        print!("{text}");
        return assert!(output.status.success() && text.contains("1 passed"));
    }
    let policy = Policy::new(|flow| match (flow.destination.to_string().as_str(), flow.name.as_deref()) {
        ("10.0.0.1:53", _) | (_, Some("example.org")) => Decision::Allow,
        _ => Decision::Refuse,
    });
    let host = Host::builder().port("tap:guest0").addr("10.0.0.1/24").policy(&policy).local("0.0.0.0/0");
    let host = host.build().unwrap();
    let (server, forwarder) = (UdpSocket::bind(&host, "10.0.0.1:53").unwrap(), TcpForwarder::bind(&host).unwrap());
    let servers = [
        std::thread::spawn(move || serve_names(&server).unwrap_err()),
        std::thread::spawn(move || serve_web(&forwarder).unwrap_err()),
    ];
    let setup = sh("ip addr add 10.0.0.2/24 dev guest0 && ip link set lo up && ip link set guest0 up \
                    && ip route add default via 10.0.0.1");
    assert!(setup.status.success(), "{setup:?}");

    // curl's exit code 7: an address that was not looked up, and another name of an address, are
    // refused. Without an answer the code would be 28.
    let curl = |url: &str| sh(&format!("curl -sS -m 20 {url}"));
    let refused = curl("http://203.0.113.7/");
    assert_eq!(refused.status.code(), Some(7), "{refused:?}");
    let refused = curl("http://elsewhere.example/");
    assert_eq!(refused.status.code(), Some(7), "{refused:?}");
    // An echo request gets an ICMP error.
    let ping = sh("ping -c 1 -w 5 203.0.113.7");
    let text = String::from_utf8_lossy(&ping.stdout).into_owned();
    assert!(!ping.status.success() && text.contains("filtered"), "{text}");

    let fetched = curl("http://example.org/");
    assert_eq!(String::from_utf8_lossy(&fetched.stdout), "hello\n", "{fetched:?}");
    assert!(policy.flows().iter().any(|state| state.flow.name.as_deref() == Some("example.org")));
    assert!(policy.counts().refused.get() >= 3, "{policy:?}");
    host.shutdown(Duration::from_secs(1)).unwrap();
    servers.into_iter().for_each(|server| drop(server.join().unwrap()));
    assert_eq!(host.audit().unaccounted, 0);
}
