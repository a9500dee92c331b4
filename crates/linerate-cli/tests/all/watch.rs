//! `linerate top` with running hosts, and `linerate ab`, as run from a shell.

use crate::common::{Running, linerate, printed, run};
use serde_json::Value;

fn words(line: &str) -> (Option<i32>, String, String) {
    printed(&run(&mut linerate(&line.split_whitespace().collect::<Vec<_>>())))
}

/// Starts a host that receives 20,000 frames per second, which its netisr queues.
fn busy() -> Running {
    let port = "pktgen(rate=20k,dst=10.2.0.1,src=10.2.0.2,dst_port=9):pg0";
    let mut flags = vec!["--port", port, "--addr", "10.2.0.1/24", "--service", "discard:9"];
    flags.extend(["--set", "isr.workstreams=1", "--set", "net.isr.dispatch=deferred"]);
    Running::start("top", &flags)
}

#[test]
fn rates_of_a_running_host_are_shown() {
    let host = busy();
    let (code, out, err) = words(&format!("top --url {} --batch --times 2 -d 0.3 --ledger", host.url()));
    assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
    for part in ["buffers in use", "netisr deferred", "0 ip", "stage", "inet."] {
        assert!(out.contains(part), "{part:?} not in {out}");
    }
    assert!(host.json("show ledger")["readings"].as_u64() > Some(0));
    let marks = host.json("show ledger")["readings"].clone();
    std::thread::sleep(std::time::Duration::from_millis(100));
    assert_eq!(host.json("show ledger")["readings"], marks, "the ledger is off again");

    let (code, out, _) = words(&format!("top --url {} --json --times 3 -d 0.3", host.url()));
    assert_eq!((code, out.lines().count()), (Some(0), 3), "{out}");
    let reported: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(reported.iter().any(|reported| reported["ports"][0]["rx_fps"].as_f64() > Some(100.0)), "{out}");
    assert!(reported.iter().any(|reported| reported["workstreams"][0]["queued_per_s"].as_f64() > Some(100.0)), "{out}");
    assert_eq!(reported[0]["dispatch"], "deferred");
    drop(host.interrupt());
}

#[test]
fn no_host_is_exit_code_three_and_frames_are_still_read() {
    let (code, _, err) = words("top --url /nowhere/x.sock --batch");
    assert!(code == Some(3) && err.contains("no host answers"), "{err}");
    let (code, _, err) = words("top --url x -d 0");
    assert!(code == Some(2) && err.contains("0.1 to 3600"), "{err}");
    let mut row = linerate(&["gen", "-n", "5", "+", "top", "-q", "-k", "type"]);
    let (code, out, err) = printed(&run(&mut row));
    assert!(code == Some(0) && out.contains('5'), "{out}{err}");
}

#[test]
fn ab_reports_the_faster_variant_with_reasons() {
    let line =
        "ab --a net.isr.dispatch=direct --b net.isr.dispatch=deferred --both over=router -l 0.02 --rounds 6 TCP_RR";
    let (code, out, err) = words(line);
    assert_eq!(code, Some(0), "{err}");
    for part in ["net.isr.dispatch=deferred", "noise floor", "netisr.queued", "inet.", "x A", "+ B"] {
        assert!(out.contains(part), "{part:?} not in {out}");
    }
    let (code, out, err) = words("ab --a link.tso=off --b link.tso=on -l 0.02 --rounds 6 --json TCP_STREAM");
    assert_eq!(code, Some(0), "{err}");
    let reported: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (&reported["rows"][0]["title"], &reported["rows"][1]["title"]),
        (&"link.tso=off".into(), &"link.tso=on".into())
    );
    assert!(reported["rows"][1]["vs_previous"]["verdict"].is_string(), "{out}");
}

#[test]
fn invalid_sysctls_have_exit_code_two() {
    for (line, part) in [
        ("ab --a over=moon --b over=pair TCP_RR", "--a over=moon"),
        ("ab --a burst=8 --b brst=8 TCP_RR", "--b brst=8"),
        ("ab --a burst=8 --b burst=16 TCP_NONE", "tcpconnect"),
        ("ab --a burst --b burst=16 TCP_RR", "K=V"),
        ("ab --a burst=8 TCP_RR", "--b"),
        ("netperf --set locks=light", "--threads"),
        ("netperf --topo x.toml --dispatch direct", "--dispatch"),
        ("netperf -H 127.0.0.1 --over native --threads", "--threads"),
    ] {
        let (code, out, err) = words(line);
        assert!(code == Some(2) && err.contains(part), "{line}: {code:?} {out}{err}");
    }
}

/// Ports, drops and buffers of a bridge are shown like those of a host. A bridge has no
/// workstreams.
#[test]
fn a_bridge_is_watched_too() {
    let port = "pktgen(rate=20k,dst=10.2.0.1,src=10.2.0.2,dst_port=9):pg0";
    let bridge = Running::start_as("top-bridge", &["bridge", "--stay", port, "null:n0"]);
    let (code, out, err) = words(&format!("top --url {} --json --times 2 -d 0.3", bridge.url()));
    assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
    let reported: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(reported.iter().any(|reported| reported["ports"][0]["rx_fps"].as_f64() > Some(100.0)), "{out}");
    assert!(reported[0]["buffers"]["all"].as_u64() > Some(0) && reported[0]["ports"][1]["ifname"] == "n0", "{out}");
    let link = bridge.ok("ip -br link");
    let states: Vec<Vec<&str>> = link.lines().map(|line| line.split_whitespace().take(2).collect()).collect();
    assert_eq!(states, [["bridge0", "UP"], ["pg0", "UP"], ["n0", "UP"]], "{link}");
    assert!(
        bridge
            .ok("ip link show dev n0")
            .starts_with("3: n0: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500 master bridge0 state UP\n")
    );
    let stats = bridge.json("ip -s link show n0");
    assert!(stats[0]["stats64"]["tx"]["packets"].as_u64() > Some(100), "{stats}");
    let table = bridge.ok("netstat -i");
    assert!(table.starts_with("Name ") && table.lines().count() == 4, "{table}");
    bridge.ok("ip link set dev bridge0 down");
    assert_eq!(bridge.json("ip link show bridge0")[0]["operstate"], "DOWN");
    assert!(bridge.no("ip addr").contains("a bridge has no IP addresses"));
    assert!(bridge.no("ip link set dev n0 down").contains("only the bridge can be set up or down here"));
}
