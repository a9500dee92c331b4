//! Hosts of one configuration, run from start to end: pairs, services, control sockets, audits. The
//! file has only one test, because the command `stop` stops all hosts of the process.

use lock::Locks;
use node::Host;
use node::config::{self, HostConfig, ServiceConfig};
use node::control::request;
use node::run::{Event, Program, Programs, up_with};
use std::time::Duration;

const FILE: &str = r#"
[[host]]
name = "a"
locks = "light"
threads = 3
[[host.iface]]
port = "pair:ab"
name = "eth0"
addresses = ["10.1.0.1/24"]
[[host.service]]
kind = "echo"
[[host]]
name = "b"
[[host.iface]]
port = "pair:ab"
name = "eth0"
addresses = ["10.1.0.2/24"]
[[host.service]]
kind = "discard"
[[host.iface]]
port = "pktgen(rate=2k,count=100,dst=10.2.0.1,src=10.2.0.2,dst_port=9):pg0"
addresses = ["10.2.0.1/24"]
[[host]]
name = "s"
stacks = 2
[[host.iface]]
port = "pair:sp"
name = "eth0"
addresses = ["10.3.0.1/24"]
[[host]]
name = "p"
[[host.iface]]
port = "pair:sp"
addresses = ["10.3.0.2/24"]
"#;

/// All commands, and no programs.
#[derive(Clone)]
struct CommandsOnly;

impl Programs for CommandsOnly {
    type Commands = linerate_commands::All;

    fn open<'h, L: Locks>(&self, _: &'h Host<L>, service: ServiceConfig) -> Result<Box<dyn Program + 'h>, String> {
        Err(format!("no program for {}", service.kind))
    }
}

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_string).collect()
}

#[test]
fn hosts_run_and_end_with_a_balanced_audit() {
    let dir = std::env::temp_dir().join(format!("lr-up-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let mut hosts = config::read(FILE, "up.toml").unwrap();
    // A file in which a pair has only one end is rejected. A program may build such hosts, because
    // it can add the other end later.
    let mut c = HostConfig { name: "c".to_string(), services: Vec::new(), ..hosts[0].clone() };
    c.ifaces[0].port = "pair:loose".to_string();
    hosts.push(c);
    for host in &mut hosts {
        host.control = Some(dir.join(format!("{}.sock", host.name)));
    }

    // If one host cannot start, all hosts are stopped and the error is returned.
    let twice = HostConfig { name: "d".to_string(), ..hosts[0].clone() };
    let third = HostConfig { name: "e".to_string(), control: None, ..hosts[0].clone() };
    let fault = up_with(vec![HostConfig { control: None, ..hosts[0].clone() }, twice, third], CommandsOnly, |_| {});
    assert!(fault.unwrap_err().to_string().contains("both ends are already open"));

    let (tell, reported) = std::sync::mpsc::channel();
    let runner = std::thread::spawn(move || up_with(hosts, CommandsOnly, |event| drop(tell.send(event.clone()))));
    let mut running = 0;
    let mut loose = false;
    while running < 6 || !loose {
        match reported.recv_timeout(Duration::from_secs(20)).unwrap() {
            Event::Running { .. } => running += 1,
            Event::Notice(text) => loose |= text.contains("pair:loose: the other end is not open"),
            _ => {}
        }
    }
    let ask = |host: &str, line: &str| {
        let url = format!("unix://{}", dir.join(format!("{host}.sock")).display());
        request(&url, &words(line), false, Duration::from_secs(10)).unwrap()
    };
    // Each stack of a split host shows the shared queues and its own tables.
    let shown = ask("s.1", "show isr").text;
    assert!(shown.contains("Dispatched to stacks:\n\tnode.split.received"), "{shown}");
    let json: serde_json::Value = serde_json::from_str(&ask("s.1", "-j show isr").text).unwrap();
    assert!(json.to_string().contains("node.split.received"), "{json}");
    assert!(ask("s.0", "sysctl net.isr.proto.ip.qlimit=5").ok);
    assert!(ask("s.1", "netstat -Q").text.contains("ip         1      5   flow"));
    assert!(ask("s.0", "capture open eth0").ok && ask("s.0", "arp -a").ok && ask("s.0", "show drops").ok);
    assert!(ask("a", "sysctl kern.locks").text.contains("light"));
    assert!(ask("b", "show sockets").text.contains("[::]:9"));
    // The discard service reads all 100 datagrams.
    let deadline = std::time::Instant::now() + Duration::from_secs(20);
    while !ask("b", "audit").text.contains("(read 100)") {
        assert!(std::time::Instant::now() < deadline, "{}", ask("b", "audit").text);
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(!ask("b", "stp").ok);
    assert!(ask("b", "stop").ok);
    let outcomes = runner.join().unwrap().unwrap();
    assert_eq!(outcomes.iter().map(|o| o.name.as_str()).collect::<Vec<_>>(), ["a", "b", "s.0", "s.1", "s", "p", "c"]);
    assert!(outcomes.iter().all(|o| o.is_balanced()), "{outcomes:?}");
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 0, "the socket files are removed");
    std::fs::remove_dir(&dir).unwrap();
}
