//! IPv6 autoconfiguration over TAP devices, with radvd and our host, and with our router and the
//! kernel. Also in virtual time with our router and our host.

use crate::common;
use crate::common::{Daemon, Dir, Running, has_all, isolated, kernel, linerate, run, until};
use std::process::Command;

/// Starts radvd on tap0.
fn radvd(dir: &Dir, prefix: &str) -> Daemon {
    let text = format!(
        "interface tap0 {{\n  AdvSendAdvert on;\n  MinRtrAdvInterval 3;\n  MaxRtrAdvInterval 4;\n  AdvLinkMTU 1400;\n  {prefix}\n}};\n"
    );
    let conf = dir.file("radvd.conf", text);
    let pid = dir.path("radvd.pid");
    Daemon::start(Command::new("radvd").args(["--nodaemon", "--logmethod=stderr", "-C", &conf, "-p", &pid]))
}

/// Returns whether this machine has the tools and a kernel that forwards IPv6; if not, the test is
/// skipped.
fn ready(test: &str, tools: &[&str]) -> bool {
    if !has_all(test, tools) {
        return false;
    }
    let forwards = std::fs::write("/proc/sys/net/ipv6/conf/all/forwarding", "1").is_ok();
    if !forwards {
        println!("skipped: {test}: a kernel without IPv6");
    }
    forwards
}

/// Pings from the host and returns the output.
#[track_caller]
fn ping(host: &Running, words: &str) -> String {
    let url = host.url();
    let words: Vec<&str> = ["ping", "--url", &url].into_iter().chain(words.split_whitespace()).collect();
    let (code, out, err) = common::printed(&run(&mut linerate(&words)));
    assert_eq!(code, Some(0), "{out}{err}");
    out
}

/// Waits until the output of a control command satisfies `wanted`, and returns it.
#[track_caller]
fn output_until(host: &Running, words: &str, wanted: impl Fn(&str) -> bool) -> String {
    let mut output = String::new();
    until(words, || {
        output = host.ok(words);
        wanted(&output)
    });
    output
}

#[test]
fn radvd_configures_our_host() {
    let name = "radvd_configures_our_host";
    isolated(name, || {
        if !ready(name, &["ip", "radvd", "ping"]) {
            return;
        }
        let dir = Dir::new("radvd");
        let host = Running::start("radvd", &["--port", "tap:tap0", "--addr", "auto", "--service", "echo:7"]);
        kernel("link set lo up");
        kernel("link set tap0 up");
        kernel("-6 addr add 2001:db8:1::1/64 dev tap0 nodad");
        kernel("-6 addr add 2001:db8:ffff::1/128 dev lo nodad"); // beyond the router
        let prefix = "prefix 2001:db8:1::/64 { AdvValidLifetime 3600; AdvPreferredLifetime 1800; };";
        let daemon = radvd(&dir, prefix);
        let is_certain = |text: &str| text.contains("autoconf") && !text.contains("tentative");
        let text = output_until(&host, "ifconfig tap0", is_certain);
        let line = text.lines().find(|line| line.contains("autoconf")).unwrap();
        let own = line.split_whitespace().nth(1).unwrap();
        assert!(own.starts_with("2001:db8:1:") && line.contains(" prefixlen 64 autoconf pltime 1"), "{text}");
        let info = &host.json("ip -6 addr show tap0")[0]["addr_info"];
        let info = info.as_array().unwrap().iter().find(|info| info["local"] == own).unwrap();
        assert!(info["dynamic"] == true && info["valid_life_time"].as_u64() <= Some(3600), "{info}");
        let routers = host.json("ndp -r");
        assert!(routers[0]["preference"] == "medium" && routers[0]["dev"] == "tap0", "{routers}");
        assert_eq!(host.json("ndp -p")[0]["prefix"], "2001:db8:1::/64");
        // The kernel reaches the host's address, and the host reaches an address beyond the router.
        let pinged = run(Command::new("ping").args(["-6", "-c", "2", "-i", "0.2", "-W", "20", own]));
        assert!(pinged.status.success(), "{}", String::from_utf8_lossy(&pinged.stdout));
        let out = ping(&host, "-c 2 -i 0.2 2001:db8:ffff::1");
        assert!(out.contains("2 packets transmitted, 2 received, 0% packet loss"), "{out}");
        // The advertised MTU of 1,400 applies: an echo of 1,448 bytes is sent in two fragments.
        let out = ping(&host, "-c 1 -s 1400 2001:db8:ffff::1");
        assert!(out.contains("1 packets transmitted, 1 received"), "{out}");
        let counted = host.ok("netstat -s -p ip6");
        assert!(counted.lines().any(|line| line.trim() == "2 fragments created"), "{counted}");
        // A lifetime of 0 removes the default route. The address has its own lifetimes.
        daemon.terminate(); // an advertisement with the lifetime 0
        output_until(&host, "ndp -r", str::is_empty);
        assert!(!host.ok("ip -6 route").contains("default") && host.ok("ifconfig tap0").contains(own));
        host.end();
    });
}

/// Two hosts with default settings on one link; the prefix expires when radvd is killed.
#[test]
fn addresses_of_two_hosts_differ_and_expire() {
    let name = "addresses_of_two_hosts_differ_and_expire";
    isolated(name, || {
        if !ready(name, &["ip", "radvd"]) {
            return;
        }
        let dir = Dir::new("radvd-two");
        let [one, other] =
            ["tap1", "tap2"].map(|port| Running::start(port, &["--port", &format!("tap:{port}"), "--addr", "auto"]));
        kernel("link add tap0 type bridge");
        for port in ["tap1", "tap2"] {
            kernel(&format!("link set {port} master tap0"));
            kernel(&format!("link set {port} up"));
        }
        kernel("link set tap0 up");
        kernel("-6 addr add 2001:db8:1::1/64 dev tap0 nodad");
        let routers = radvd(&dir, "prefix 2001:db8:1::/64 { AdvValidLifetime 20; AdvPreferredLifetime 10; };");
        let is_certain = |text: &str| text.contains("autoconf") && !text.contains("tentative");
        let [a, b] = [(&one, "tap1"), (&other, "tap2")].map(|(host, port)| {
            let text = output_until(host, &format!("ifconfig {port}"), is_certain);
            let line = text.lines().find(|line| line.contains("autoconf")).unwrap().to_owned();
            line.split_whitespace().nth(1).unwrap().to_owned()
        });
        assert_ne!(a, b);
        let out = ping(&one, &format!("-c 2 -i 0.2 {b}"));
        assert!(out.contains("2 packets transmitted, 2 received"), "{out}");
        drop(routers); // killed: it sends no lifetime 0
        output_until(&one, "ifconfig tap1", |text| text.contains("deprecated autoconf"));
        output_until(&one, "ifconfig tap1", |text| !text.contains("autoconf"));
        [one, other].into_iter().for_each(common::Running::end);
    });
}

/// The kernel gets its address and its default route from our router.
#[test]
fn our_router_configures_the_kernel() {
    let name = "our_router_configures_the_kernel";
    isolated(name, || {
        if !ready(name, &["ip", "ping"]) {
            return;
        }
        let far = ["--port", "null:far", "--addr", "2001:db8:6::1/64", "--set", "net.inet6.ip6.forwarding=1"];
        let router =
            Running::start("advertise", &[&["--port", "tap:tap0", "--addr", "2001:db8:5::1/64"], &far[..]].concat());
        router.ok("ifconfig tap0 inet6 advertise maxinterval 4");
        kernel("link set lo up");
        if std::fs::write("/proc/sys/net/ipv6/conf/tap0/accept_ra", "2").is_err() {
            return println!("skipped: {name}: a kernel without IPv6");
        }
        kernel("link set tap0 up");
        let ip_until = |words: &str, wanted: &dyn Fn(&str) -> bool| {
            let mut printed = String::new();
            until(words, || {
                let output = run(Command::new("ip").args(words.split_whitespace()));
                printed = String::from_utf8_lossy(&output.stdout).into_owned();
                wanted(&printed)
            });
            printed
        };
        let text = ip_until("-6 addr show dev tap0 scope global", &|text| {
            text.contains("inet6 2001:db8:5:0:") && !text.contains("tentative")
        });
        assert!(text.contains("valid_lft 2591") || text.contains("valid_lft 2592000sec"), "{text}");
        let route = ip_until("-6 route show default", &|text| text.contains("proto ra"));
        assert!(route.contains("via fe80::") && route.contains("dev tap0"), "{route}");
        // The kernel reaches the router's address on its other link by that route.
        let pinged = run(Command::new("ping").args(["-6", "-c", "2", "-i", "0.2", "-W", "20", "2001:db8:6::1"]));
        assert!(pinged.status.success(), "{}", String::from_utf8_lossy(&pinged.stdout));
        router.end();
    });
}

/// A client connects when it has an address and a default route.
#[test]
fn a_client_waits_for_the_first_router() {
    let name = "a_client_waits_for_the_first_router";
    isolated(name, || {
        if !ready(name, &["ip", "radvd", "iperf3"]) {
            return;
        }
        let dir = Dir::new("radvd-client");
        for line in [
            "link set lo up",
            "tuntap add tap0 mode tap", // persistent: the client comes and goes
            "link set tap0 up",
            "-6 addr add 2001:db8:1::1/64 dev tap0 nodad",
            "-6 addr add 2001:db8:ffff::1/128 dev lo nodad",
        ] {
            kernel(line);
        }
        let _radvd = radvd(&dir, "prefix 2001:db8:1::/64 { };");
        let _iperf3 = Daemon::iperf3();
        let words = ["iperf3", "-c", "2001:db8:ffff::1", "-n", "1M", "--port", "tap:tap0", "--addr", "auto"];
        let (code, out, err) = common::printed(&run(&mut linerate(&words)));
        assert!(code == Some(0) && out.contains("iperf Done."), "{out}{err}");
    });
}

/// Router and host in virtual time, from their configuration files.
#[test]
fn our_router_configures_our_host() {
    let dir = Dir::new("advertise-sim");
    let file = dir.file(
        "two.toml",
        "[[host]]\nname = 'r'\nsysctl = { 'net.inet6.ip6.forwarding' = 1 }\n[[host.iface]]\nname = 'em0'\nport = 'pair:l'\n\
         addresses = ['2001:db8:5::1/64']\nadvertise = true\n[[host.iface]]\nname = 'em1'\nport = 'null:far'\n\
         addresses = ['2001:db8:6::1/64']\n[[host]]\nname = 'h'\n[[host.iface]]\nname = 'em0'\nport = 'pair:l'\n\
         addresses = ['auto']\n",
    );
    let lines = ["h ping -c 6 127.0.0.1", "h ip -6 addr show em0", "h ping -c 2 2001:db8:6::1", "h ndp -r"];
    let flags: Vec<&str> = lines.iter().flat_map(|line| ["--do", *line]).collect();
    let (code, out, err) = common::printed(&run(linerate(&["up", "--sim", "30", &file]).args(flags)));
    assert_eq!(code, Some(0), "{out}{err}");
    for wanted in ["inet6 2001:db8:5:0:", "scope global dynamic", "2 packets transmitted, 2 received", "pref=medium"] {
        assert!(out.contains(wanted), "{wanted}: {out}{err}");
    }
}

/// Without a router, a client reports that it waits, and why it failed.
#[test]
fn a_client_reports_that_there_is_no_router() {
    let words = ["-c", "2001:db8::1", "-n", "1M", "--port", "null:x", "--addr", "auto"];
    let (code, _, err) = common::printed(&run(&mut linerate(&[&["iperf3"], &words[..]].concat())));
    assert_eq!(code, Some(1), "{err}");
    let lines = [
        "host: x: waiting for a router advertisement",
        "host: x: no router advertisement received, so IPv6 has no default route",
        "unable to connect to server: Network is unreachable",
    ];
    let at: Vec<_> = lines.iter().map(|line| err.find(line)).collect();
    assert!(at.iter().all(Option::is_some) && at.is_sorted(), "{err}");
    let words = ["netperf", "-H", "2001:db8::1", "--port", "null:x", "--addr", "auto"];
    let (code, _, err) = common::printed(&run(&mut linerate(&words)));
    assert!(code == Some(1) && err.contains("no router advertisement received"), "{err}");
}
