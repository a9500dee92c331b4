//! Netisr of the built program: `netstat -Q`, modes that change while frames arrive, and two hosts
//! of one file. No frame is lost.

use crate::common;
use crate::common::{Dir, Running, linerate, run, until};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

fn sum(table: &Value, column: &str) -> u64 {
    table["workstreams"].as_array().unwrap().iter().map(|row| row[column].as_u64().unwrap()).sum()
}

#[test]
fn modes_are_switched_while_frames_come() {
    let port = "pktgen(rate=20k,dst=10.2.0.1,src=10.2.0.2,dst_port=9):pg0";
    let mut flags = vec!["--port", port, "--addr", "10.2.0.1/24", "--service", "discard:9"];
    for set in ["locks=light", "isr.workstreams=2", "isr.maxqlimit=20000", "net.isr.defaultqlimit=20000"] {
        flags.extend(["--set", set]);
    }
    let host = Running::start("isr", &flags);
    for (mode, column) in [
        ("deferred", "queued"),
        ("hybrid", "handled"),
        ("direct", "dispatched"),
        ("deferred", "queued"),
        ("direct", "dispatched"),
    ] {
        assert!(host.ok(&format!("sysctl net.isr.dispatch={mode}")).ends_with(&format!("-> {mode}\n")));
        let before = sum(&host.json("netstat -Q"), column);
        until(mode, || sum(&host.json("netstat -Q"), column) > before + 500);
    }
    let text = host.ok("netstat -Q");
    for line in [
        "Setting                        Current        Limit",
        "Thread count                         2           32",
        "Default queue limit              20000        20000",
        "ip         1  20000   flow  default   C-F",
        "WSID CPU   Name     Len WMark   Disp'd  HDisp'd   QDrops   Queued  Handled",
    ] {
        assert!(text.contains(line), "{line:?} not in {text}");
    }
    assert_eq!(host.ok("sysctl -n net.isr.direct net.isr.enable net.isr.numthreads"), "1\n1\n2\n");
    assert!(host.no("sysctl net.isr.dispatch=default").contains("EINVAL"));
    assert!(host.no("sysctl net.isr.maxqlimit=1").contains("read only"));
    assert!(host.ok("show isr").contains("0 frames lost"));
    let table = host.json("netstat -Q");
    assert_eq!((sum(&table, "queue-drops"), sum(&table, "lost")), (0, 0));
    let (code, out, err) = host.interrupt();
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert!(out.contains("imbalance           0\n"), "{out}");
}

const FILE: &str = r#"
[[host]]
name = "a"
isr = { workstreams = 1 }
control = "DIR/a.sock"
stay = true
[[host.iface]]
port = "pair:ab"
addresses = ["10.1.0.1/24"]
[[host.iface]]
port = "pktgen(rate=5k,dst=10.1.0.2,src=10.2.0.2,dst_port=7,count=200000):pg0"
addresses = ["10.2.0.1/24"]
[host.sysctl]
net.inet.ip.forwarding = 1
net.isr.dispatch = "deferred"
[[host]]
name = "b"
locks = "light"
threads = 2
isr = { workstreams = 2, bind = true }
control = "DIR/b.sock"
stay = true
[[host.iface]]
port = "pair:ab"
addresses = ["10.1.0.2/24"]
[[host.route]]
to = "default"
via = "10.1.0.1"
[[host.service]]
kind = "echo"
"#;

#[test]
fn two_hosts_of_a_file_end_balanced() {
    let dir = Dir::new("isr-up");
    let file = dir.0.join("up.toml");
    std::fs::write(&file, FILE.replace("DIR", &dir.0.display().to_string())).unwrap();
    let mut command = linerate(&["up", &file.display().to_string()]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    let mut printed = String::new();
    while printed.matches("running").count() < 2 {
        assert!(lines.read_line(&mut printed).unwrap() > 0, "{printed}");
    }
    let ask = |host: &str, line: &str| {
        let url = format!("unix://{}", dir.0.join(format!("{host}.sock")).display());
        let mut words = vec!["ctl", "--url", &url, "-j"];
        words.extend(line.split(' '));
        let output = run(&mut linerate(&words));
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice::<Value>(&output.stdout).unwrap_or_default()
    };
    for mode in ["deferred", "hybrid", "direct", "deferred"] {
        ask("b", &format!("sysctl net.isr.dispatch={mode}"));
        let before = sum(&ask("b", "netstat -Q"), "handled");
        until(mode, || sum(&ask("b", "netstat -Q"), "handled") > before + 500);
    }
    let (a, b) = (ask("a", "netstat -Q"), ask("b", "netstat -Q"));
    assert_eq!((a["threads"].as_u64(), b["threads"].as_u64(), b["bound"].as_bool()), (Some(1), Some(2), Some(true)));
    assert!(sum(&a, "queued") > 500 && sum(&a, "dispatched") == 0, "{a}");
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    assert_eq!(common::wait(&mut child), Some(0));
    let mut out = String::new();
    child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    assert_eq!(out.matches("imbalance           0\n").count(), 2, "{out}");
}

#[test]
fn invalid_netisr_settings_are_rejected_at_start() {
    for (set, says) in [
        ("isr.workstreams=2", "isr.workstreams = 2 needs locks = 'light' or 'heavy'"),
        ("isr.bind=on", "isr.bind: netisr has no threads to pin"),
        ("isr.workstreams=33", "a number from 0 to 32"),
        ("net.isr.dispatch=deferred", "the host has no workstreams"),
        ("net.isr.dispatch=default", "EINVAL"),
    ] {
        let output = run(&mut linerate(&["host", "--port", "null:n0", "--set", set]));
        let printed = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && printed.contains(says), "{set}: {printed}");
    }
}
