//! Addresses that come by themselves: a host with `--addr auto` on a TAP device, where radvd advertises on the kernel's side.

use crate::common;
use crate::common::{Dir, Running, has, isolated, linerate, run};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// radvd on tap0, ended when dropped.
struct Radvd(Child);

impl Radvd {
    fn start(dir: &Dir, prefix: &str) -> Radvd {
        let text = format!(
            "interface tap0 {{\n  AdvSendAdvert on;\n  MinRtrAdvInterval 3;\n  MaxRtrAdvInterval 4;\n  AdvLinkMTU 1400;\n  {prefix}\n}};\n"
        );
        let conf = dir.file("radvd.conf", text);
        let mut command = Command::new("radvd");
        command.args(["--nodaemon", "--logmethod=stderr", "-C", &conf, "-p", &dir.path("radvd.pid")]);
        Radvd(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    /// Lets it say farewell, with lifetimes of 0.
    fn end(mut self) {
        assert!(Command::new("kill").args(["-TERM", &self.0.id().to_string()]).status().unwrap().success());
        common::wait(&mut self.0);
    }
}

impl Drop for Radvd {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[track_caller]
fn ip(line: &str) {
    let output = run(Command::new("ip").args(line.split_whitespace()));
    assert!(output.status.success(), "ip {line}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Pings from the host, and returns what ping said.
#[track_caller]
fn ping(host: &Running, words: &str) -> String {
    let url = host.url();
    let words: Vec<&str> = ["ping", "--url", &url].into_iter().chain(words.split_whitespace()).collect();
    let (code, out, err) = common::said(&run(&mut linerate(&words)));
    assert_eq!(code, Some(0), "{out}{err}");
    out
}

/// Waits until what the host says to `words` is as wanted, and returns it.
#[track_caller]
fn until(host: &Running, words: &str, wanted: impl Fn(&str) -> bool) -> String {
    let since = Instant::now();
    loop {
        let said = host.ok(words);
        if wanted(&said) {
            return said;
        }
        assert!(since.elapsed() < Duration::from_secs(60), "{words}: {said}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn radvd_gives_an_address_and_a_way_out_and_takes_the_way_back() {
    let name = "radvd_gives_an_address_and_a_way_out_and_takes_the_way_back";
    isolated(name, || {
        let missing = ["ip", "radvd", "ping"].into_iter().find(|tool| !has(tool));
        if let Some(tool) = missing {
            return println!("skipped: {name}: no {tool}");
        }
        if std::fs::write("/proc/sys/net/ipv6/conf/all/forwarding", "1").is_err() {
            return println!("skipped: {name}: a kernel without IPv6");
        }
        let dir = Dir::new("radvd");
        let host = Running::start("radvd", &["--port", "tap:tap0", "--addr", "auto", "--service", "echo:7"]);
        ip("link set lo up");
        ip("link set tap0 up");
        ip("-6 addr add 2001:db8:1::1/64 dev tap0 nodad");
        ip("-6 addr add 2001:db8:ffff::1/128 dev lo nodad"); // beyond the router
        let prefix = "prefix 2001:db8:1::/64 { AdvValidLifetime 3600; AdvPreferredLifetime 1800; };";
        let radvd = Radvd::start(&dir, prefix);
        let is_certain = |text: &str| text.contains("autoconf") && !text.contains("tentative");
        let text = until(&host, "ifconfig tap0", is_certain);
        let line = text.lines().find(|line| line.contains("autoconf")).unwrap();
        let own = line.split_whitespace().nth(1).unwrap();
        assert!(own.starts_with("2001:db8:1:") && line.contains(" prefixlen 64 autoconf pltime 1"), "{text}");
        let info = &host.json("ip -6 addr show tap0")[0]["addr_info"];
        let info = info.as_array().unwrap().iter().find(|info| info["local"] == own).unwrap();
        assert!(info["dynamic"] == true && info["valid_life_time"].as_u64() <= Some(3600), "{info}");
        let routers = host.json("ndp -r");
        assert!(routers[0]["preference"] == "medium" && routers[0]["dev"] == "tap0", "{routers}");
        assert_eq!(host.json("ndp -p")[0]["prefix"], "2001:db8:1::/64");
        // Both ways: the kernel reaches the address, and we what is behind the router.
        let pinged = run(Command::new("ping").args(["-6", "-c", "2", "-i", "0.2", "-W", "20", own]));
        assert!(pinged.status.success(), "{}", String::from_utf8_lossy(&pinged.stdout));
        let out = ping(&host, "-c 2 -i 0.2 2001:db8:ffff::1");
        assert!(out.contains("2 packets transmitted, 2 received, 0% packet loss"), "{out}");
        // The link carries what the router says: this fits a packet of 1,500 bytes and not one of 1,400.
        let out = ping(&host, "-c 1 -s 1400 2001:db8:ffff::1");
        assert!(out.contains("1 packets transmitted, 1 received"), "{out}");
        let counted = host.ok("netstat -s -p ip6");
        assert!(counted.lines().any(|line| line.trim() == "2 fragments created"), "{counted}");
        // radvd ends: it is no router any more (lifetime 0), and the address lives on.
        radvd.end();
        until(&host, "ndp -r", str::is_empty);
        assert!(!host.ok("ip -6 route").contains("default") && host.ok("ifconfig tap0").contains(own));
        let (code, out, err) = host.interrupt();
        assert!(code == Some(0) && format!("{out}{err}").contains("imbalance           0"), "{out}{err}");
    });
}

/// Two hosts with default settings on one link choose different addresses; and a prefix of a second's life goes again.
#[test]
fn two_hosts_choose_two_addresses_that_end() {
    let name = "two_hosts_choose_two_addresses_that_end";
    isolated(name, || {
        if let Some(tool) = ["ip", "radvd"].into_iter().find(|tool| !has(tool)) {
            return println!("skipped: {name}: no {tool}");
        }
        if std::fs::write("/proc/sys/net/ipv6/conf/all/forwarding", "1").is_err() {
            return println!("skipped: {name}: a kernel without IPv6");
        }
        let dir = Dir::new("radvd-two");
        let [one, other] =
            ["tap1", "tap2"].map(|port| Running::start(port, &["--port", &format!("tap:{port}"), "--addr", "auto"]));
        ip("link add tap0 type bridge");
        for port in ["tap1", "tap2"] {
            ip(&format!("link set {port} master tap0"));
            ip(&format!("link set {port} up"));
        }
        ip("link set tap0 up");
        ip("-6 addr add 2001:db8:1::1/64 dev tap0 nodad");
        let radvd = Radvd::start(&dir, "prefix 2001:db8:1::/64 { AdvValidLifetime 20; AdvPreferredLifetime 10; };");
        let is_certain = |text: &str| text.contains("autoconf") && !text.contains("tentative");
        let [a, b] = [(&one, "tap1"), (&other, "tap2")].map(|(host, port)| {
            let text = until(host, &format!("ifconfig {port}"), is_certain);
            let line = text.lines().find(|line| line.contains("autoconf")).unwrap().to_owned();
            line.split_whitespace().nth(1).unwrap().to_owned()
        });
        assert_ne!(a, b);
        let out = ping(&one, &format!("-c 2 -i 0.2 {b}"));
        assert!(out.contains("2 packets transmitted, 2 received"), "{out}");
        drop(radvd); // killed: it says nothing
        until(&one, "ifconfig tap1", |text| text.contains("deprecated autoconf"));
        until(&one, "ifconfig tap1", |text| !text.contains("autoconf"));
        for host in [one, other] {
            let (code, out, err) = host.interrupt();
            assert!(code == Some(0) && format!("{out}{err}").contains("imbalance           0"), "{out}{err}");
        }
    });
}

/// The other way round: the kernel takes its address and its default route from our router, and loses the route when that ends.
#[test]
fn the_kernel_believes_our_router() {
    let name = "the_kernel_believes_our_router";
    isolated(name, || {
        if let Some(tool) = ["ip", "ping"].into_iter().find(|tool| !has(tool)) {
            return println!("skipped: {name}: no {tool}");
        }
        let far = ["--port", "null:far", "--addr", "2001:db8:6::1/64", "--set", "net.inet6.ip6.forwarding=1"];
        let router =
            Running::start("advertise", &[&["--port", "tap:tap0", "--addr", "2001:db8:5::1/64"], &far[..]].concat());
        router.ok("ifconfig tap0 inet6 advertise maxinterval 4");
        ip("link set lo up");
        if std::fs::write("/proc/sys/net/ipv6/conf/tap0/accept_ra", "2").is_err() {
            return println!("skipped: {name}: a kernel without IPv6");
        }
        ip("link set tap0 up");
        let kernels = |words: &str, wanted: &dyn Fn(&str) -> bool| {
            let since = Instant::now();
            loop {
                let output = run(Command::new("ip").args(words.split_whitespace()));
                let said = String::from_utf8_lossy(&output.stdout).into_owned();
                if wanted(&said) {
                    return said;
                }
                assert!(since.elapsed() < Duration::from_secs(60), "ip {words}: {said}");
                std::thread::sleep(Duration::from_millis(100));
            }
        };
        let text = kernels("-6 addr show dev tap0 scope global", &|text| {
            text.contains("inet6 2001:db8:5:0:") && !text.contains("tentative")
        });
        assert!(text.contains("valid_lft 2591") || text.contains("valid_lft 2592000sec"), "{text}");
        let route = kernels("-6 route show default", &|text| text.contains("proto ra"));
        assert!(route.contains("via fe80::") && route.contains("dev tap0"), "{route}");
        // The router itself, on its other link, by that route.
        let pinged = run(Command::new("ping").args(["-6", "-c", "2", "-i", "0.2", "-W", "20", "2001:db8:6::1"]));
        assert!(pinged.status.success(), "{}", String::from_utf8_lossy(&pinged.stdout));
        let (code, out, err) = router.interrupt();
        assert!(code == Some(0) && format!("{out}{err}").contains("imbalance           0"), "{out}{err}");
    });
}

/// A client waits until it has an address and a way out, and then begins.
#[test]
fn a_client_waits_for_a_router() {
    let name = "a_client_waits_for_a_router";
    isolated(name, || {
        if let Some(tool) = ["ip", "radvd", "iperf3"].into_iter().find(|tool| !has(tool)) {
            return println!("skipped: {name}: no {tool}");
        }
        if std::fs::write("/proc/sys/net/ipv6/conf/all/forwarding", "1").is_err() {
            return println!("skipped: {name}: a kernel without IPv6");
        }
        let dir = Dir::new("radvd-client");
        for line in [
            "link set lo up",
            "tuntap add tap0 mode tap", // it stays when the client goes
            "link set tap0 up",
            "-6 addr add 2001:db8:1::1/64 dev tap0 nodad",
            "-6 addr add 2001:db8:ffff::1/128 dev lo nodad",
        ] {
            ip(line);
        }
        let _radvd = Radvd::start(&dir, "prefix 2001:db8:1::/64 { };");
        let mut server = Command::new("iperf3").arg("-s").stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let since = Instant::now();
        while !std::fs::read_to_string("/proc/self/net/tcp6").unwrap().contains(":1451 ") {
            assert!(since.elapsed() < Duration::from_secs(30), "iperf3 -s does not listen");
            std::thread::sleep(Duration::from_millis(50));
        }
        let words = ["iperf3", "-c", "2001:db8:ffff::1", "-n", "1M", "--port", "tap:tap0", "--addr", "auto"];
        let (code, out, err) = common::said(&run(&mut linerate(&words)));
        let _ = server.kill();
        let _ = server.wait();
        assert!(code == Some(0) && out.contains("iperf Done."), "{out}{err}");
    });
}

/// A router and a host of ours on virtual time, by their configuration alone.
#[test]
fn a_router_of_ours_gives_a_host_of_ours_its_address() {
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
    let (code, out, err) = common::said(&run(linerate(&["up", "--sim", "30", &file]).args(flags)));
    assert_eq!(code, Some(0), "{out}{err}");
    for wanted in ["inet6 2001:db8:5:0:", "scope global dynamic", "2 packets transmitted, 2 received", "pref=medium"] {
        assert!(out.contains(wanted), "{wanted}: {out}{err}");
    }
}
