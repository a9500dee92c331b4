//! `linerate tcpdump` against a running host: lines, files, limits, Ctrl-C, and a host that ends first.

mod common;

use common::{Running, has, linerate, run, wait};
use port::pcap::{Direction, Reader};
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

const PORT: &str = "pktgen(rate=1k,dst=10.2.0.1,src=10.2.0.2,dst_port=9):pg0";

fn start(name: &str) -> Running {
    Running::start(name, &["--port", PORT, "--addr", "10.2.0.1/24", "--service", "discard:9"])
}

#[test]
fn lines_are_tcpdumps() {
    let host = start("dump-lines");
    let url = host.url();
    let out = run(&mut linerate(&["tcpdump", "--url", &url, "-i", "pg0", "-n", "-t", "-c", "5"]));
    let (text, notes) = (String::from_utf8(out.stdout).unwrap(), String::from_utf8(out.stderr).unwrap());
    assert!(out.status.success(), "{notes}");
    assert_eq!(text.lines().count(), 5, "{text}");
    assert!(text.lines().all(|l| l.starts_with("IP 10.2.0.2.") && l.contains(" > 10.2.0.1.9: UDP, length ")), "{text}");
    assert!(notes.contains("listening on pg0, snapshot length 262144 bytes"), "{notes}");
    assert!(notes.contains("5 frames captured, 0 missed"), "{notes}");
    let out = run(&mut linerate(&["tcpdump", "--url", &url, "-e", "-c", "1"]));
    let text = String::from_utf8(out.stdout).unwrap();
    let (time, rest) = text.split_once(' ').unwrap();
    assert!(time.len() == 15 && time.as_bytes()[2] == b':' && time.as_bytes()[8] == b'.', "{text}");
    assert!(rest.starts_with("pg0    In  ") && rest.contains(", ethertype IPv4 (0x0800), length "), "{text}");
    assert_eq!(host.json("capture list"), serde_json::json!([]), "nothing stays behind");
    let (code, out, err) = host.interrupt();
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert!(out.contains("imbalance           0"), "{out}");
}

#[test]
fn a_file_is_pcapng_that_others_read() {
    let host = start("dump-file");
    let file = std::env::temp_dir().join(format!("lr-dump-{}.pcapng", std::process::id()));
    let path = file.display().to_string();
    let out = run(&mut linerate(&["tcpdump", "--url", &host.url(), "-i", "pg0", "-w", &path, "-c", "7", "-s", "40"]));
    assert!(out.status.success() && out.stdout.is_empty(), "{out:?}");
    let bytes = std::fs::read(&file).unwrap();
    let mut reader = Reader::new(bytes.as_slice());
    let (mut frames, mut last) = (0, 0);
    while let Some(record) = reader.read().unwrap() {
        assert_eq!((record.data.len(), record.direction, record.interface), (40, Direction::Inbound, 0));
        assert!(record.orig_len > 40 && record.ts_ns >= last && record.ts_ns > 1_700_000_000_000_000_000);
        (frames, last) = (frames + 1, record.ts_ns);
    }
    assert_eq!(frames, 7);
    if has("tcpdump") {
        let read = run(Command::new("tcpdump").args(["-n", "-r", &path]));
        assert_eq!(String::from_utf8(read.stdout).unwrap().lines().count(), 7);
    }
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn ctrl_c_ends_it_and_so_does_the_hosts_end() {
    let host = start("dump-stop");
    let url = host.url();
    let follow = || {
        let mut command = linerate(&["tcpdump", "--url", &url, "-i", "pg0"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut first = String::new();
        lines.read_line(&mut first).unwrap();
        assert!(first.contains(" IP 10.2.0.2."), "{first}");
        // What is not read would fill the pipe and hold it up.
        let rest = std::thread::spawn(move || lines.read_to_string(&mut String::new()).unwrap());
        (child, rest)
    };
    let (mut child, rest) = follow();
    // The process is our own child and has not been waited for: its number cannot be anybody else's.
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    assert_eq!(wait(&mut child), Some(0));
    rest.join().unwrap();
    let mut notes = String::new();
    child.stderr.take().unwrap().read_to_string(&mut notes).unwrap();
    assert!(notes.contains(" frames captured, 0 missed"), "{notes}");
    assert_eq!(host.json("capture list"), serde_json::json!([]));

    let (mut child, rest) = follow();
    drop(host);
    assert_eq!(wait(&mut child), Some(3));
    rest.join().unwrap();
}

#[test]
fn what_is_wrong_is_said() {
    let host = Running::start("dump-wrong", &["--port", "null:n0"]);
    let url = host.url();
    for (words, code, says) in [
        (&["tcpdump"][..], 2, "give --url unix:///path, or set LINERATE_CTL"),
        (&["tcpdump", "--url", "/nonexistent"], 3, "is a host running"),
        (&["tcpdump", "--url", &url, "-i", "n1"], 1, "unknown iface 'n1' (did you mean 'n0'?)"),
        (&["tcpdump", "--url", &url, "-i", "lo0"], 1, "lo0: has no port"),
        (&["tcpdump", "--url", &url, "-w", "/nonexistent/x"], 1, "/nonexistent/x: No such file"),
    ] {
        let out = run(&mut linerate(words));
        let err = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(code), "{words:?}: {err}");
        assert!(err.contains(says) && err.lines().count() == 1, "{words:?}: {err}");
    }
    assert_eq!(run(&mut linerate(&["tcpdump", "-c", "0"])).status.code(), Some(2));
}
