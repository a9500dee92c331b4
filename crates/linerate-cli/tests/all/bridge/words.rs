//! The command `bridge`: rejected arguments, commands at its start and while it runs, and its end.

use super::lan::Kind::Tap;
use super::lan::{Lan, dropped, end, ok};
use crate::common::{Running, has, isolated, linerate, printed, run};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

/// Returns exit status and standard error of a command that ends by itself. Its standard output
/// must be empty.
fn refused(words: &[&str]) -> (Option<i32>, String) {
    let (code, out, err) = printed(&run(&mut linerate(&[&["bridge"], words].concat())));
    assert_eq!(out, "", "{words:?}");
    (code, err)
}

#[test]
fn invalid_arguments_are_rejected() {
    let two = ["null:a", "null:b"];
    for (words, part) in [
        (&["null:a"] as &[_], "at least two ports"),
        (&["null:a", "wire:b"], "wire"),
        (&["null:a", "null:a"], "already polled by loop 0"),
        (&["null:a", "null:a"], "(EEXIST)"),
        (&[two[0], two[1], "--do", "flush"], "--do 'flush': "),
        (&[two[0], two[1], "--do", "ifconfig bridge1 addr"], "bridge1"),
        (&[two[0], two[1], "--set", "kern.polling.mod=clock"], "kern.polling.mode"),
        (&[two[0], two[1], "--set", "kern.polling.mode=now"], "adaptive, clock, wakeup"),
        (&[two[0], two[1], "--loops", "0"], "--loops"),
        (&[two[0], two[1], "--table", "0"], "--table"),
        (&[two[0], two[1], "--age", "0s"], "at least 500ms"),
        (&[two[0], two[1], "--name", "a b"], "without spaces"),
        (&[two[0], two[1], "--set", "pool.kind=heap"], "stack, freelist, zone or malloc"),
        (&[two[0], two[1], "--set", "pool.strides=odd"], "pool.stride"),
        (&[two[0], two[1], "--set", "nic.rx_tail_batch=8"], "and the switch has none"),
        (&["nic(wire=w):em0", "nic(wire=w):em1", "--set", "nic.rx_ring=64"], "when the port is opened"),
        (&["nic(wire=w):em0", "nic(wire=v):em0"], "(EEXIST)"),
        (&["fdb", "show"], "no control socket"),
    ] {
        let (code, err) = refused(words);
        assert!(code == Some(2) && err.contains(part), "{words:?}: {code:?} {err}");
    }
    let (code, err) = refused(&["--url", "unix:///nonexistent/b", "fdb", "show"]);
    assert!(code != Some(0) && err.contains("/nonexistent/b"), "{code:?} {err}");
}

/// Without the privilege to open a device, the error has the device and the missing privilege.
#[test]
fn missing_privileges_are_reported() {
    if !has("setpriv") {
        return println!("skipped: words::missing_privileges_are_reported: setpriv is not installed");
    }
    isolated("missing_privileges_are_reported", || {
        let mut plain = std::process::Command::new("setpriv");
        plain.args(["--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"]);
        plain.args([env!("CARGO_BIN_EXE_linerate"), "bridge", "tap:p1", "null:b"]);
        let (code, _, err) = printed(&run(&mut plain));
        assert_eq!(code, Some(1), "{err}");
        assert!(err.contains("port tap:p1") && err.contains("CAP_NET_ADMIN"), "{err}");
    });
}

/// Sysctls of simulated NICs and of the pool are set at the start.
#[test]
fn sysctls_of_nics_and_of_the_pool() {
    let words = [
        &["bridge", "--json", "--stay", "nic(wire=w):em0", "nic(wire=w):em1", "--set", "nic.rx_tail_batch=64"][..],
        &["--set", "pool.kind=freelist", "--set", "pool.buffers=2000", "--set", "pool.stride=power2"],
    ];
    let bridge = Running::start_as("sysctls", &words.concat());
    assert_eq!(bridge.ok("sysctl -n nic.rx_tail_batch").trim(), "64");
    let pool = bridge.json("show pools");
    assert_eq!((&pool[0]["kind"], &pool[0]["buffers"]), (&"freelist".into(), &2000.into()), "{pool}");
    end(bridge);
}

/// Zero copy is requested from the driver, with buffers that suit the device. `veth` has none,
/// which is reported. A driver that only copies is reported at the start, not at the end.
#[test]
fn missing_driver_features_are_reported_at_start() {
    isolated("missing_driver_features_are_reported_at_start", || {
        ok("ip link add p1 type veth peer name e1 && ip link set p1 up && ip link set e1 up");
        let (code, err) = refused(&["xdp(mode=zerocopy):p1", "null:b"]);
        assert_eq!(code, Some(1), "{err}");
        assert!(err.contains("driver does not support zero copy"), "not for the pool's sake: {err}");
        let (_, err) = refused(&["xdp(mode=zerocopy):p1", "null:b", "--set", "pool.stride=odd"]);
        assert!(err.contains("driver does not support zero copy"), "the port gets buffers within pages: {err}");
        let mut running = linerate(&["bridge", "--stay", "xdp:p1", "null:b"]);
        let mut child = running.stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let heard = [lines.next().unwrap().unwrap(), lines.next().unwrap().unwrap()];
        assert!(heard.iter().any(|line| line.contains("the kernel copies each frame")), "{heard:?}");
        assert!(heard.iter().any(|line| line.contains("running")), "{heard:?}");
        assert!(child.try_wait().unwrap().is_none(), "while it runs");
        assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
        let rest: Vec<String> = lines.map(Result::unwrap).collect();
        assert!(!rest.iter().any(|line| line.contains("the kernel copies")), "once: {rest:?}");
        assert!(child.wait().unwrap().success());
    });
}

#[test]
fn commands_work_at_start_and_at_run_time() {
    isolated("commands_work_at_start_and_at_run_time", || {
        let flags = ["--do", "bridge fdb add 02:00:00:00:00:77 dev p2 static", "--set", "kern.polling.each_burst=7"];
        let lan = Lan::new(&[Tap, Tap], &flags);
        let bridge = &lan.bridge;
        assert_eq!(lan.port_of("02:00:00:00:00:77").as_deref(), Some("p2"));
        assert_eq!(bridge.ok("sysctl -n kern.polling.each_burst").trim(), "7");
        bridge.ok("sysctl kern.polling.mode=clock");
        lan.ping_all(2);
        assert_eq!(bridge.json("show polling")[0]["mode"], "clock");
        bridge.ok("sysctl -w kern.polling.mode=wakeup");
        lan.ping_all(2);
        assert!(bridge.no("sysctl kern.polling.burst=1").contains("read only"));
        let ports = bridge.json("show ports");
        assert_eq!((&ports[0]["ifname"], &ports[1]["port"]), (&"p1".into(), &"tap:p2".into()), "{ports}");
        assert!(
            bridge.ok("show bridge").contains("member: p2 flags=300003<LEARNING,DISCOVER,MULTICAST,BROADCAST>"),
            "{}",
            bridge.ok("show bridge")
        );
        assert!(bridge.no("ifconfig bridge0 addm tap:p1").contains("p1"), "it is there");
        assert!(bridge.no("ifconfig bridge0 deletem p9").contains("p9"));
        private(&lan);
        lan.end();
    });
}

/// Two private ports do not reach each other.
fn private(lan: &Lan) {
    lan.bridge.ok("ifconfig bridge0 private p1 private p2");
    assert_eq!(lan.hosts[0].ping(&lan.hosts[1], 1), 0);
    lan.bridge.ok("ifconfig bridge0 -private p1");
    lan.ping_all(2);
    assert!(dropped(&lan.bridge, "bridge.in.apart") + dropped(&lan.bridge, "bridge.in.nowhere") > 0);
}

/// The command `stop` and its earlier name end a bridge.
#[test]
fn a_bridge_ends_on_the_stop_command() {
    let bridge = Running::start_as("switch", &["switch", "--json", "--stay", "null:a", "null:b", "--loops", "2"]);
    assert_eq!(bridge.json("show polling").as_array().unwrap().len(), 2);
    bridge.ok("stop");
    let (code, out, err) = bridge.wait();
    assert_eq!(code, Some(0), "{err}");
    assert!(out.contains("\"holds\":true"), "{out}");
    let bridge = Running::start_as("interrupted", &["bridge", "--json", "--stay", "null:a", "null:b"]);
    end(bridge);
}
