//! The topologies of `topo/`: each runs live, in virtual time, and between netperf's two ends. A
//! link that connects no hosts is rejected.

use crate::common;
use crate::common::{Dir, isolated, linerate, printed, run};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const SHAPES: [&str; 5] = ["chain", "dumbbell", "four-port-router", "host-host", "host-router-host"];

fn file(shape: &str) -> String {
    format!("{}/../../topo/{shape}.toml", env!("CARGO_MANIFEST_DIR"))
}

fn hosts(shape: &str) -> Vec<node::config::HostConfig> {
    node::config::load(Path::new(&file(shape))).unwrap()
}

fn words(line: &str) -> (Option<i32>, String, String) {
    printed(&run(&mut linerate(&line.split_whitespace().collect::<Vec<_>>())))
}

#[track_caller]
fn ok(line: &str) -> String {
    let (code, out, err) = words(line);
    assert_eq!(code, Some(0), "{line}: {out}{err}");
    out
}

/// `linerate up FILE` with all its hosts running, and their sockets in `dir`.
struct Up<'d> {
    child: Child,
    dir: &'d Dir,
}

impl<'d> Up<'d> {
    fn start(file: &str, hosts: usize, dir: &'d Dir) -> Up<'d> {
        let mut command = linerate(&["up", file, "--control-dir", &dir.path("")]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap());
        for _ in 0..hosts {
            let mut line = String::new();
            lines.read_line(&mut line).unwrap();
            assert!(line.contains("running; control"), "{file}: {line}");
        }
        std::thread::spawn(move || lines.read_to_string(&mut String::new()));
        Up { child, dir }
    }

    #[track_caller]
    fn ctl(&self, host: &str, line: &str) -> String {
        ok(&format!("ctl --url {} {line}", self.dir.path(&format!("{host}.sock"))))
    }

    fn json(&self, host: &str, line: &str) -> Value {
        serde_json::from_str(&self.ctl(host, &format!("-j {line}"))).unwrap()
    }

    fn end(mut self) -> (Option<i32>, String) {
        // The child has not been waited for, so its process number is not reused.
        assert!(Command::new("kill").args(["-INT", &self.child.id().to_string()]).status().unwrap().success());
        let mut out = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        (common::wait(&mut self.child), out)
    }
}

impl Drop for Up<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn address(host: &node::config::HostConfig) -> Ipv4Addr {
    host.ifaces[0].addresses[0].addr
}

/// A generator is added to the first host while it runs, and the last host's discard service reads
/// what it sends. Some datagrams are lost: while a hop resolves its next hop, at most 16 packets
/// wait there, and over the dumbbell a reply takes 20 ms.
fn datagrams_cross(up: &Up<'_>, first: &str, last: &node::config::HostConfig) {
    let to = address(last);
    up.ctl(first, "sysctl net.inet.ip.forwarding=1");
    let before = up.json(&last.name, "audit")["read"].as_u64().unwrap();
    let port = format!("pktgen(rate=1k,count=200,src=192.0.2.2,dst={to},dst_port=9):pg0");
    up.ctl(first, &format!("ifconfig pg0 create port {port} inet 192.0.2.1/24"));
    let deadline = Instant::now() + Duration::from_secs(60);
    while up.json(&last.name, "audit")["read"].as_u64().unwrap() < before + 150 {
        assert!(Instant::now() < deadline, "{}", up.ctl(&last.name, "audit"));
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn every_topology_runs_live() {
    for shape in SHAPES {
        let (dir, hosts) = (Dir::new(shape), hosts(shape));
        let (first, last) = (hosts.first().unwrap(), hosts.last().unwrap());
        let up = Up::start(&file(shape), hosts.len(), &dir);
        let map = up.json(&last.name, "show topology");
        assert_eq!(map.as_array().unwrap().len(), hosts.len(), "{shape}");
        let this: Vec<&Value> = map.as_array().unwrap().iter().filter(|host| host["this"] == true).collect();
        assert_eq!(this.len(), 1);
        assert_eq!(this[0]["host"], last.name.as_str());
        for iface in map.as_array().unwrap().iter().flat_map(|host| host["ifaces"].as_array().unwrap()) {
            assert!(iface["far"]["host"].is_string(), "{shape}: {iface}");
        }
        let text = up.ctl(&first.name, "show topology");
        assert!(text.contains(&format!("{}  (this host)\n", first.name)), "{text}");
        datagrams_cross(&up, &first.name, last);
        for host in hosts.iter().filter(|host| !host.services.is_empty()) {
            let sockets = up.ctl(&host.name, "ss -tuan");
            for port in [":7 ", ":9 ", ":5201 ", ":12865 "] {
                assert!(sockets.contains(port), "{shape}: {}: {sockets}", host.name);
            }
        }
        let (code, audits) = up.end();
        assert_eq!(code, Some(0), "{shape}: {audits}");
        assert_eq!(audits.matches("imbalance           0\n").count(), hosts.len(), "{shape}: {audits}");
    }
}

#[test]
fn every_topology_runs_in_virtual_time() {
    for shape in SHAPES {
        let hosts = hosts(shape);
        let line = format!("up --sim 3 {}", file(shape));
        let out = ok(&line);
        let serving = hosts.iter().filter(|host| !host.services.is_empty()).count();
        let requested: Vec<&str> = out.lines().filter(|line| line.contains(" of 3")).collect();
        assert_eq!(requested.len(), serving * (hosts.len() - 1), "{shape}: {out}");
        assert!(requested.iter().all(|line| line.contains(" 3 of 3  ")), "{shape}: {out}");
        assert_eq!(out.matches("imbalance           0\n").count(), hosts.len(), "{shape}: {out}");
        assert_eq!(out, ok(&line), "the same again, to the byte");
    }
    let out = ok(&format!("up --sim 3 --seed 5 {}", file("dumbbell")));
    let far = out.lines().find(|line| line.starts_with("a1 ") && line.contains(" b1 ")).unwrap();
    assert!(far.contains(" 20."), "10 ms there and 10 ms back: {far}");
}

#[test]
fn netperf_runs_in_every_topology() {
    for shape in SHAPES {
        for test in ["TCP_STREAM", "TCP_RR", "UDP_RR"] {
            let found: Value =
                serde_json::from_str(&ok(&format!("netperf -t {test} -l 0.3 -j --topo {}", file(shape)))).unwrap();
            assert!(found["figure"].as_f64() > Some(0.0), "{shape}: {found}");
        }
    }
    let line = format!("netperf -t TCP_RR -l 0.5 -j --topo {} --near a2 --far b3", file("dumbbell"));
    let found: Value = serde_json::from_str(&ok(&line)).unwrap();
    let figure = found["figure"].as_f64().unwrap();
    assert!(figure < 50.0, "20 ms there and back are 50 a second at most: {figure}");
    for (line, says) in [
        ("--near x", "unknown host 'x': expected one of a1"),
        ("--near b1 --far b1", "two different hosts"),
        ("--over nic", "cannot be used with"),
    ] {
        let (code, _, err) = words(&format!("netperf --topo {} {line}", file("dumbbell")));
        assert!(code == Some(2) && err.contains(says), "{line}: {err}");
    }
}

/// Netisr's workstreams and sysctls in one file, which runs in three ways. If one thread steps all
/// hosts, it also runs their workstreams, and a host that is configured with threads reports this.
#[test]
fn a_file_with_netisr_runs_live_on_virtual_time_and_between_netperfs_ends() {
    let dir = Dir::new("topo-isr");
    let host = |name: &str, addr: &str, head: &str, rest: &str| {
        format!(
            "[[host]]\nname = '{name}'\n{head}\n[[host.iface]]\nport = 'pair:ab'\nname = 'eth0'\n\
             addresses = ['{addr}/24']\n[[host.service]]\nkind = 'echo'\n{rest}\n"
        )
    };
    let sysctls = "[host.sysctl]\n'net.isr.dispatch' = 'deferred'\n'net.isr.proto.ip.qlimit' = 100";
    let a = host("a", "10.0.0.1", "isr = { workstreams = 1 }", sysctls);
    let threads = "locks = 'light'\nisr = { workstreams = 2, bind = true }";
    let b = host("b", "10.0.0.2", threads, &format!("[[host.service]]\nkind = 'iperf3'\n{sysctls}"));
    let file = dir.path("isr.toml");
    std::fs::write(&file, a + &b).unwrap();
    let own = "linerate: b: isr.workstreams = 2 and isr.bind: netisr has no threads here; the host's own thread runs \
               one workstream\n";

    let (code, out, err) = words(&format!("up --sim 3 {file}"));
    assert_eq!((code, err), (Some(0), own.to_string()), "{out}");
    assert_eq!(out.matches(" 3 of 3  ").count(), 2, "{out}");

    let (code, out, err) = words(&format!("netperf --topo {file} -t TCP_RR -l -100 -j"));
    assert_eq!((code, err.as_str()), (Some(0), own), "{out}");

    let up = Up::start(&file, 2, &dir);
    for (name, workstreams) in [("a", 1), ("b", 2)] {
        let table = up.json(name, "netstat -Q");
        assert_eq!(table["workstreams"].as_array().unwrap().len(), 4 * workstreams, "{name}: {table}");
        let behind = up.ctl(name, "netstat -Q -j");
        assert!(behind.starts_with('{') && behind.contains("workstreams"), "-j behind the words: {behind}");
        assert_eq!(up.ctl(name, "sysctl -n net.isr.dispatch net.isr.proto.ip.qlimit"), "deferred\n100\n");
    }
    assert_eq!(up.end().0, Some(0));
}

#[test]
fn an_unconnected_link_is_rejected_with_its_line() {
    let dir = Dir::new("loose");
    let host = |name: &str| format!("[[host]]\nname = '{name}'\n[[host.iface]]\nport = 'pair:ab'\nname = 'eth0'\n");
    for (text, says) in [
        (
            host("a"),
            "loose.toml:4: host a: eth0: pair:ab: the other end is missing; give a second iface the port pair:ab",
        ),
        (
            host("a") + &host("b") + &host("c"),
            "loose.toml:14: host c: eth0: pair:ab: pair:ab already has two ends, a:eth0",
        ),
    ] {
        let path = dir.file("loose.toml", text);
        for how in ["", "--check", "--sim 1"] {
            let (code, out, err) = words(&format!("up {how} {path}"));
            assert_eq!((code, out.as_str(), err.lines().count()), (Some(2), "", 1), "{how}: {err}");
            assert!(err.contains(says), "{err}");
        }
    }
    let (code, _, err) = words(&format!("up --sim 1 {}", file("tap-echo")));
    assert!(code == Some(2) && err.contains("no tap ports in virtual time"), "{err}");
}

#[test]
fn a_host_of_up_is_reached_by_its_name() {
    let dir = Dir::new("named");
    let named = |words: &[&str]| {
        let mut command = linerate(words);
        command.env("XDG_RUNTIME_DIR", dir.path("")).current_dir(&dir.0);
        command
    };
    let mut command = named(&["up", &file("host-host")]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    for _ in 0..2 {
        lines.read_line(&mut String::new()).unwrap();
    }
    let answer = printed(&run(&mut named(&["ctl", "--url", "b", "show", "topology"])));
    let stopped = printed(&run(&mut named(&["ctl", "--url", "a", "stop"])));
    let code = common::wait(&mut child);
    assert!(answer.1.contains("b  (this host)"), "{answer:?}");
    assert_eq!((stopped.0, code), (Some(0), Some(0)), "{stopped:?}");
    let (code, _, err) = printed(&run(&mut named(&["ctl", "--url", "c", "audit"])));
    assert!(code == Some(3) && err.contains("c.sock"), "{err}");
}

/// A service beyond one of our routers: the kernel measures it with netperf, and with iperf3 if it
/// is installed.
#[test]
fn the_kernel_measures_a_service_behind_a_router() {
    isolated("the_kernel_measures_a_service_behind_a_router", || {
        let dir = Dir::new("behind");
        let path = dir.file(
            "behind.toml",
            "[[host]]\nname='r'\n[[host.iface]]\nport='tap:lr0'\naddresses=['10.9.1.2/24']\n[[host.iface]]\n\
             port='pair:rb'\naddresses=['10.9.2.254/24']\n[host.sysctl]\nnet.inet.ip.forwarding = 1\n\
             [[host]]\nname='b'\npool = { buffers = 16384 }\n[[host.iface]]\nport='pair:rb'\naddresses=['10.9.2.1/24']\n\
             [[host.route]]\nto='default'\nvia='10.9.2.254'\n[[host.service]]\nkind='netserver'\n[[host.service]]\nkind='iperf3'\n",
        );
        let up = Up::start(&path, 2, &dir);
        let ip = |line: &str| Command::new("ip").args(line.split_whitespace()).status().is_ok_and(|s| s.success());
        if !(ip("addr add 10.9.1.1/24 dev lr0") && ip("link set lr0 up") && ip("route add 10.9.2.0/24 via 10.9.1.2")) {
            return println!("skipped: no ip(8)");
        }
        for test in ["TCP_RR", "TCP_STREAM", "TCP_CRR"] {
            let found = ok(&format!("netperf -H 10.9.2.1 --over native -t {test} -l 0.3 -j"));
            let found: Value = serde_json::from_str(&found).unwrap();
            assert!(found["figure"].as_f64() > Some(0.0), "{found}");
        }
        if common::has("iperf3") {
            for flags in ["", "-R", "-u -b 10M"] {
                let line = format!("-c 10.9.2.1 -t 1 -J {flags}");
                let output = run(Command::new("iperf3").args(line.split_whitespace()));
                assert!(output.status.success(), "{flags}: {}", printed(&output).1);
            }
        }
        let (code, audits) = up.end();
        assert_eq!(code, Some(0), "{audits}");
    });
}

/// A file with switches that form a ring, which the spanning tree opens.
#[test]
fn switches_of_a_file_run_live_and_on_virtual_time() {
    let path = file("switched-ring");
    let network = node::config::load_network(Path::new(&path)).unwrap();
    let (hosts, switches) = (&network.hosts, &network.switches);
    let checked = ok(&format!("up --check {path}"));
    assert!(checked.contains("valid\nhost a: ports pair:a; services echo:7, discard:9\n"), "{checked}");
    assert!(checked.contains("\nswitch s3: ports pair:c, pair:s1s3, pair:s2s3\n"), "{checked}");
    let dir = Dir::new("switched-ring");
    let up = Up::start(&path, hosts.len() + switches.len(), &dir);
    let map = up.json("a", "show topology");
    assert_eq!(map.as_array().unwrap().len(), hosts.len() + switches.len());
    assert_eq!(map[0]["ifaces"][0]["far"]["host"], "s1", "{map}");
    // The datagrams are so many that the first ones may be lost while the tree converges.
    let before = up.json("c", "audit")["read"].as_u64().unwrap();
    let port = "pktgen(rate=100,count=3000,src=192.0.2.2,dst=10.4.0.3,dst_port=9):pg0";
    up.ctl("a", "sysctl net.inet.ip.forwarding=1");
    up.ctl("a", &format!("ifconfig pg0 create port {port} inet 192.0.2.1/24"));
    let deadline = Instant::now() + Duration::from_secs(60);
    while up.json("c", "audit")["read"].as_u64().unwrap() < before + 150 {
        assert!(Instant::now() < deadline, "{}", up.ctl("s3", "ifconfig"));
        std::thread::sleep(Duration::from_millis(20));
    }
    let roots = ["s1", "s2", "s3"].map(|switch| up.ctl(switch, "ifconfig"));
    assert!(roots.iter().all(|text| text.contains("root id ")), "{roots:?}");
    let fdb = up.ctl("s3", "bridge fdb show");
    assert!(fdb.contains("dev c ") && fdb.contains("dev s1s3 "), "{fdb}");
    let (code, audits) = up.end();
    assert_eq!(code, Some(0), "{audits}");
    assert!(switches.iter().all(|switch| audits.contains(&format!("{}\n", switch.name))), "{audits}");

    let line = format!("up --sim 10 {path}");
    let out = ok(&line);
    let requested: Vec<&str> = out.lines().filter(|line| line.contains(" of 10")).collect();
    assert_eq!(requested.len(), hosts.len() * (hosts.len() - 1), "{out}");
    let answered = |line: &&str| line.split_whitespace().nth(2).unwrap().parse::<u32>().unwrap();
    assert!(requested.iter().map(answered).all(|n| n >= 4), "within three hello times: {out}");
    assert_eq!(out, ok(&line), "the same again, to the byte");
    let (code, _, err) = words(&format!("netperf -t UDP_RR --topo {path}"));
    assert!(code == Some(2) && err.contains("switches are not supported here; use 'linerate up'"), "{err}");
}
