use clock::{Clock, SimClock};
use lock::{Locks, Up};
use node::Host;
use node::config::{HostConfig, IfaceConfig};
use port::Pairs;

fn config(name: &str, addr: &str, workstreams: usize) -> HostConfig {
    let mut config = HostConfig { name: name.to_string(), seed: Some(7), ..HostConfig::default() };
    config.isr.workstreams = workstreams;
    config.ifaces.push(IfaceConfig { name: Some("eth0".to_string()), ..IfaceConfig::on("pair:ab") });
    config.set_iface("addresses", addr).unwrap();
    config
}

fn say<L: Locks>(host: &Host<L>, line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    crate::host::run(host, &Pairs::new(), &words, false).unwrap_or_else(|why| panic!("{line}: {why}"))
}

fn no<L: Locks>(host: &Host<L>, line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    crate::host::run(host, &Pairs::new(), &words, false).unwrap_err().to_string()
}

#[test]
fn isr_sysctls_have_old_names_and_reject_invalid_values() {
    let pairs = Pairs::new();
    let host = |config: &HostConfig| node::build::<Up>(config, &pairs, Clock::sim(&SimClock::new())).unwrap();
    let (a, b) = (host(&config("a", "10.0.0.1/24", 0)), host(&config("b", "10.0.0.2/24", 1)));
    assert_eq!(
        say(&b, "sysctl -n net.isr.dispatch net.isr.direct net.isr.numthreads net.isr.maxprot"),
        "direct\n1\n1\n16\n"
    );
    assert_eq!(say(&b, "sysctl net.isr.enable=0"), "net.isr.enable: 1 -> 0\n");
    assert_eq!(say(&b, "sysctl -n net.isr.dispatch"), "deferred\n");
    say(&b, "sysctl net.isr.dispatch=hybrid");
    assert_eq!(say(&b, "sysctl -n net.isr.direct"), "0\n");
    say(&b, "sysctl net.isr.direct=0");
    assert_eq!(say(&b, "sysctl -n net.isr.dispatch"), "hybrid\n", "hybrid is not direct, so it does not change");
    say(&b, "sysctl net.isr.dispatch=1");
    assert_eq!(say(&b, "sysctl -n net.isr.dispatch"), "direct\n");
    say(&b, "sysctl net.isr.proto.arp.dispatch=deferred net.isr.proto.ip.policy=source net.isr.defaultqlimit=300");
    assert_eq!(
        say(&b, "sysctl -n net.isr.proto.arp net.isr.proto.ip"),
        "deferred\nsource\n300\ndefault\nsource\n300\n"
    );
    for (line, says) in [
        ("sysctl net.isr.dispatch=default", "EINVAL"),
        ("sysctl net.isr.dispatch=drect", "direct, hybrid or deferred"),
        ("sysctl net.isr.proto.ip.qlimit=10241", "must be at most 10240 (net.isr.maxqlimit)"),
        ("sysctl net.isr.proto.arp.policy=cpu", "arp: policy 'cpu' is not available"),
        ("sysctl net.isr.proto.ipx.policy=cpu", "net.isr.proto.ip"),
        ("sysctl net.isr.numthreads=2", "read only"),
        ("sysctl net.isr.direct=2", "0 or 1"),
    ] {
        let said = no(&b, line);
        assert!(said.contains(says), "{line}: {said}");
    }
    assert!(no(&a, "sysctl net.isr.dispatch=deferred").contains("choose isr.workstreams"));
    assert_eq!(say(&a, "sysctl net.isr.dispatch=direct"), "net.isr.dispatch: direct -> direct\n");
    assert!(say(&b, "netstat -Q").contains("Dispatch policy                 direct          n/a"));
    assert!(say(&a, "netstat -Q").contains("Thread count                         1           32"));
    assert!(
        say(&b, "show isr")
            .contains("Threads: 0 wakeups, 0 sleeps, 0 frames lost, 0 restarts\nSwitches: 0 frames at most")
    );
    let json = crate::host::run(&b, &Pairs::new(), &["netstat", "-Q"], true).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["dispatch-policy"], &json["workstreams"][0]["name"]), (&"direct".into(), &"ip".into()));
}
