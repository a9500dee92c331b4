//! Addresses and names from dnsmasq over TAP devices: DHCP, name servers, and clients that resolve
//! names.

use crate::common;
use crate::common::{Daemon, Dir, Running, has_all, isolated, kernel, linerate, run, until};
use std::process::Command;

/// Starts dnsmasq on tap0.
fn dnsmasq(dir: &Dir, options: &[&str]) -> Daemon {
    let mut command = Command::new("dnsmasq");
    command.args(["--keep-in-foreground", "--conf-file=/dev/null", "--no-resolv", "--no-hosts", "--user=root"]);
    command.args(["--bind-interfaces", "--interface=tap0", "--except-interface=lo", "--log-facility=-"]);
    command.arg(format!("--pid-file={}", dir.path("dnsmasq.pid")));
    command.arg(format!("--dhcp-leasefile={}", dir.path("leases")));
    Daemon::start(command.args(options))
}

/// Runs a client of the host and returns exit code and output.
fn client(host: &Running, words: &str) -> (Option<i32>, String) {
    let url = host.url();
    let mut words: Vec<&str> = words.split_whitespace().collect();
    words.splice(1..1, ["--url", &url]);
    let (code, out, err) = common::printed(&run(&mut linerate(&words)));
    (code, format!("{out}{err}"))
}

#[track_caller]
fn succeeds(host: &Running, words: &str, wanted: &str) -> String {
    let (code, out) = client(host, words);
    assert!(code == Some(0) && out.contains(wanted), "{words}: {code:?}\n{out}");
    out
}

fn tap0() {
    kernel("link set lo up");
    kernel("link set tap0 up");
    kernel("addr add 10.9.0.1/24 dev tap0");
    kernel("addr add 10.99.0.1/32 dev lo"); // beyond the router
}

#[test]
fn a_lease_of_dnsmasq_configures_our_host_and_its_clients_take_names() {
    let name = "a_lease_of_dnsmasq_configures_our_host_and_its_clients_take_names";
    isolated(name, || {
        if !has_all(name, &["ip", "dnsmasq", "ping", "iperf3"]) {
            return;
        }
        let dir = Dir::new("dnsmasq");
        let host =
            Running::start("leased", &["--port", "tap:tap0", "--dhcp", "--name", "leased", "--service", "echo:7"]);
        tap0();
        let many: Vec<String> = (0..120).map(|n| format!("--host-record=many.lab.test,10.9.1.{n}")).collect();
        let mut options = vec![
            "--dhcp-range=10.9.0.50,10.9.0.59,255.255.255.0,2m",
            "--dhcp-option=option:mtu,1400",
            "--domain=lab.test",
            "--local=/lab.test/",
            "--host-record=far.lab.test,10.99.0.1",
            "--cname=alias.lab.test,far.lab.test",
        ];
        options.extend(many.iter().map(String::as_str));
        let server = dnsmasq(&dir, &options);
        until("a lease", || host.ok("dhclient").contains("BOUND"));
        let lease = &host.json("dhclient")[0];
        assert!(
            lease["server"] == "10.9.0.1" && lease["prefixlen"] == 24 && lease["expires_s"].as_u64() <= Some(120),
            "{lease}"
        );
        let own = lease["address"].as_str().unwrap().to_string();
        assert!(own.starts_with("10.9.0.5"), "{own}");
        assert!(host.ok("ifconfig tap0").contains("mtu 1400"), "{}", host.ok("ifconfig tap0"));
        assert!(host.ok("ip route").contains("default via 10.9.0.1 dev tap0"));
        let resolvers = host.ok("resolvectl");
        assert_eq!(resolvers, "nameserver 10.9.0.1 (DHCP, tap0)\nsearch lab.test (DHCP, tap0)\n");
        // The kernel reaches the leased address.
        let pinged = run(Command::new("ping").args(["-c", "1", "-W", "20", &own]));
        assert!(pinged.status.success(), "{}", String::from_utf8_lossy(&pinged.stdout));
        // Clients resolve names: complete names, names completed by the search list, and aliases.
        for host_name in ["far.lab.test", "far", "alias"] {
            let out = succeeds(&host, &format!("ping -c 1 {host_name}"), "1 packets transmitted, 1 received");
            assert!(out.starts_with(&format!("PING {host_name} (10.99.0.1) 56(84) bytes of data.")), "{out}");
        }
        let _iperf3 = Daemon::iperf3();
        succeeds(&host, "iperf3 -c far -n 1M", "iperf Done.");
        succeeds(&host, "traceroute far", "traceroute to far (10.99.0.1), 30 hops max");
        succeeds(&host, "nslookup alias.lab.test", "canonical name = far.lab.test.");
        // 120 records do not fit a datagram of 512 bytes, so the answer is sent over TCP.
        let out = succeeds(&host, "nslookup many.lab.test", "Address: 10.9.1.119");
        assert_eq!(out.matches("Address: 10.9.1.").count(), 120, "{out}");
        // dnsmasq has learned the host's own name from its request.
        succeeds(&host, "nslookup leased.lab.test", &format!("Address: {own}"));
        for (words, expected) in [
            ("ping -c 1 no.lab.test", "'no.lab.test': no such name"),
            ("iperf3 -6 -c far -n 1M", "'far': the name has no address"),
            ("iperf3 -c no.lab.test", "'no.lab.test': no such name"),
            ("nc no.lab.test 9", "'no.lab.test': no such name"),
            ("http get http://no.lab.test/", "'no.lab.test': no such name"),
            ("ping -6 -c 1 far", "'far': the name has no address"),
            ("nslookup nobody.lab.test", "server can't find nobody.lab.test: NXDOMAIN"),
        ] {
            let (code, out) = client(&host, words);
            assert!(code != Some(0) && out.contains(expected), "{words}: {out}");
        }
        // The server is stopped. The error contains its address.
        drop(server);
        let (_, out) = client(&host, "ping -c 1 far");
        assert!(out.contains("'far.lab.test': cannot reach name server 10.9.0.1:53: ECONNREFUSED"), "{out}");
        // The lease is released.
        host.ok("dhclient -r tap0");
        assert_eq!((host.ok("dhclient"), host.ok("resolvectl")), (String::new(), String::new()));
        assert!(!host.ok("ifconfig tap0").contains(&own) && host.ok("ifconfig tap0").contains("mtu 1500"));
        assert!(!host.ok("ip route").contains("10.9.0."), "{}", host.ok("ip route"));
        let (_, out) = client(&host, "ping -c 1 far");
        assert!(out.contains("'far': no name server is configured"), "{out}");
        host.end();
    });
}

/// A client with its own host leases an address and resolves its server's name.
#[test]
fn a_client_of_its_own_host_takes_a_name() {
    let name = "a_client_of_its_own_host_takes_a_name";
    isolated(name, || {
        if !has_all(name, &["ip", "dnsmasq", "iperf3"]) {
            return;
        }
        let dir = Dir::new("dnsmasq-client");
        kernel("tuntap add dev tap0 mode tap");
        tap0();
        let options = [
            "--dhcp-range=10.9.0.50,10.9.0.59,255.255.255.0,2m",
            "--local=/lab.test/",
            "--domain=lab.test",
            "--host-record=server.lab.test,10.9.0.1",
        ];
        let _dnsmasq = dnsmasq(&dir, &options);
        let _iperf3 = Daemon::iperf3();
        let on_tap0 = ["--port", "tap:tap0", "--dhcp"];
        let (code, out, err) = common::printed(&run(linerate(&["iperf3", "-c", "server", "-n", "1M"]).args(on_tap0)));
        assert!(code == Some(0) && out.contains("iperf Done."), "{out}{err}");
        let (code, _, err) = common::printed(&run(linerate(&["iperf3", "-c", "no.lab.test"]).args(on_tap0)));
        assert!(code == Some(1) && err.contains("'no.lab.test': no such name"), "{code:?} {err}");
        let (code, _, err) = common::printed(&run(linerate(&["netperf", "-H", "server", "-l", "-10"]).args(on_tap0)));
        assert!(code == Some(1) && err.contains("10.9.0.1:12865"), "nobody serves netperf there: {code:?} {err}");
    });
}

/// Two hosts with default settings on one link. Another host requests its lease later.
#[test]
fn two_hosts_get_two_leases() {
    let name = "two_hosts_get_two_leases";
    isolated(name, || {
        if !has_all(name, &["ip", "dnsmasq"]) {
            return;
        }
        let dir = Dir::new("dnsmasq-two");
        let one = Running::start("tap1", &["--port", "tap:tap1", "--dhcp"]);
        let other = Running::start("tap2", &["--port", "tap:tap2", "--addr", "10.9.0.9/24"]);
        kernel("link add tap0 type bridge");
        for port in ["tap1", "tap2"] {
            kernel(&format!("link set {port} master tap0"));
            kernel(&format!("link set {port} up"));
        }
        tap0();
        let _dnsmasq = dnsmasq(&dir, &["--dhcp-range=10.9.0.50,10.9.0.59,255.255.255.0,2m", "--port=0"]);
        other.ok("dhclient tap2");
        let leased = |host: &Running| {
            until("a lease", || host.ok("dhclient").contains("BOUND"));
            host.json("dhclient")[0]["address"].as_str().unwrap().to_string()
        };
        let (first, second) = (leased(&one), leased(&other));
        assert_ne!(first, second);
        assert!(other.ok("ifconfig tap2").contains("10.9.0.9"), "the configured address stays");
        let (code, out) = client(&one, &format!("ping -c 1 {second}"));
        assert_eq!(code, Some(0), "{out}");
        // The extension of the lease keeps the address.
        one.ok("dhclient tap1");
        until("an extension", || host_state(&one) == "BOUND");
        assert_eq!(leased(&one), first);
        one.end();
        other.end();
    });
}

fn host_state(host: &Running) -> String {
    host.json("dhclient")[0]["state"].as_str().unwrap_or_default().to_string()
}

/// The only address of the pool belongs to another station, so it is declined. It is used once it
/// is free.
#[test]
fn an_address_in_use_is_declined() {
    let name = "an_address_in_use_is_declined";
    isolated(name, || {
        if !has_all(name, &["ip", "dnsmasq"]) {
            return;
        }
        let dir = Dir::new("dnsmasq-taken");
        let squatter = Running::start("tap2", &["--port", "tap:tap2", "--addr", "10.9.0.50/24"]);
        let host = Running::start("tap1", &["--port", "tap:tap1", "--dhcp"]);
        kernel("link add tap0 type bridge");
        for port in ["tap1", "tap2"] {
            kernel(&format!("link set {port} master tap0"));
            kernel(&format!("link set {port} up"));
        }
        tap0();
        // With --no-ping, since dnsmasq would otherwise detect the conflict itself.
        let options =
            ["--dhcp-range=10.9.0.50,10.9.0.51,255.255.255.0,2m", "--port=0", "--no-ping", "--dhcp-sequential-ip"];
        let _dnsmasq = dnsmasq(&dir, &options);
        until("a lease", || host.ok("dhclient").contains("BOUND"));
        assert_eq!(host.json("dhclient")[0]["address"], "10.9.0.51");
        host.end();
        squatter.end();
    });
}

/// Name servers are learned by DHCPv6, after router advertisements with the O flag, and by RDNSS in
/// router advertisements.
#[test]
fn name_servers_come_by_dhcpv6_and_by_router_advertisements() {
    let name = "name_servers_come_by_dhcpv6_and_by_router_advertisements";
    isolated(name, || {
        if !has_all(name, &["ip", "dnsmasq"]) {
            return;
        }
        if std::fs::write("/proc/sys/net/ipv6/conf/all/forwarding", "1").is_err() {
            println!("skipped: {name}: a kernel without IPv6");
            return;
        }
        let dir = Dir::new("dnsmasq-six");
        let host = Running::start("six", &["--port", "tap:tap0", "--addr", "auto"]);
        kernel("link set lo up");
        kernel("link set tap0 up");
        kernel("-6 addr add 2001:db8:9::1/64 dev tap0 nodad");
        kernel("-6 addr add 2001:db8:99::1/128 dev lo nodad");
        let _dnsmasq = dnsmasq(
            &dir,
            &[
                "--enable-ra",
                "--dhcp-range=2001:db8:9::,ra-stateless,2m",
                "--dhcp-option=option6:dns-server,[2001:db8:9::1]",
                "--dhcp-option=option6:domain-search,lab.test",
                "--local=/lab.test/",
                "--host-record=far.lab.test,2001:db8:99::1",
            ],
        );
        until("DHCPv6", || host.ok("resolvectl").contains("nameserver 2001:db8:9::1 (DHCPv6, tap0)"));
        let all = host.ok("resolvectl");
        assert!(all.contains("nameserver 2001:db8:9::1 (router advertisement, tap0)"), "{all}");
        assert!(all.contains("search lab.test (DHCPv6, tap0)"), "{all}");
        until("an address", || !host.ok("ifconfig tap0").contains("tentative"));
        let out = succeeds(&host, "ping -c 1 far", "1 packets transmitted, 1 received");
        assert!(out.starts_with("PING far (2001:db8:99::1) 56(104) bytes of data."), "{out}");
        succeeds(&host, "nslookup far.lab.test", "Address: 2001:db8:99::1");
        host.end();
    });
}

/// A client that starts with `--dhcp` waits for its lease, and reports an error if it gets none.
#[test]
fn a_client_waits_for_its_lease() {
    let name = "a_client_waits_for_its_lease";
    isolated(name, || {
        let words = ["iperf3", "-c", "10.9.0.1", "-t", "1", "--port", "null:n0", "--dhcp"];
        let (code, out, err) = common::printed(&run(&mut linerate(&words)));
        assert_ne!(code, Some(0), "{out}");
        for line in
            ["n0: waiting for a DHCP server", "n0: no DHCP server replied, so the interface has no IPv4 address"]
        {
            assert!(err.contains(line), "{err}");
        }
    });
}
