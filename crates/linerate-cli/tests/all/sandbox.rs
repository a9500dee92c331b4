//! Privileges of running servers according to /proc: no effective capabilities, no new privileges,
//! a system call filter on every thread, and the requested user.

use crate::common;
use crate::common::{Dir, Running, isolated, linerate, run, wait};
use port::os::netlink::Netlink;
use std::net::Ipv4Addr;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// CAP_NET_ADMIN, CAP_NET_RAW, CAP_IPC_LOCK and CAP_BPF: permitted but not effective, if ports can
/// be opened later.
const FOR_PORTS: u64 = 1 << 12 | 1 << 13 | 1 << 14 | 1 << 39;

/// A server of one test, which is ended when dropped.
struct Served(Child);

impl Served {
    fn start(words: &[&str]) -> Served {
        let mut command = linerate(words);
        Served(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    /// Waits until `key` has `value` in the process's status.
    #[track_caller]
    fn until(&mut self, key: &str, value: &str) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while of(&status(&format!("/proc/{}/status", self.0.id())), key) != value {
            assert!(self.0.try_wait().unwrap().is_none(), "it ended");
            assert!(Instant::now() < deadline, "{key} is not {value}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Returns the values of `key` in each thread.
    fn threads(&self, key: &str) -> Vec<String> {
        of_threads(self.0.id(), key)
    }

    fn end(mut self) {
        let pid = self.0.id().to_string();
        assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
        assert_eq!(wait(&mut self.0), Some(0));
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn status(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default() // a thread may have ended
}

fn of(status: &str, key: &str) -> String {
    let line = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    line.unwrap_or_default().trim().to_owned()
}

fn of_threads(pid: u32, key: &str) -> Vec<String> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let each = tasks.map(|task| status(&task.unwrap().path().join("status").display().to_string()));
    each.filter(|status| !status.is_empty()).map(|status| of(&status, key)).collect()
}

/// Checks that every thread is confined, and that capabilities beyond `kept` are not even
/// permitted.
#[track_caller]
fn confined(pid: u32, kept: u64, what: &str) {
    let sets = ["CapEff", "CapInh", "CapAmb"].map(|key| (key, "0000000000000000"));
    for (key, value) in sets.into_iter().chain([("NoNewPrivs", "1"), ("Seccomp", "2")]) {
        let found = of_threads(pid, key);
        assert!(!found.is_empty() && found.iter().all(|found| found == value), "{what}: {key}: {found:?}");
    }
    for permitted in of_threads(pid, "CapPrm") {
        let permitted = u64::from_str_radix(&permitted, 16).unwrap();
        assert_eq!(permitted & !kept, 0, "{what}: CapPrm {permitted:x}");
    }
    let bounding = of_threads(pid, "CapBnd");
    assert!(!is_root() || bounding.iter().all(|set| set == "0000000000000000"), "{what}: {bounding:?}");
}

fn is_root() -> bool {
    of(&status("/proc/self/status"), "Uid").starts_with('0')
}

#[test]
fn servers_without_a_control_socket_keep_no_privileges() {
    let dir = Dir::new("sandbox-files");
    let root = dir.0.display().to_string();
    let host = ["--port", "pair:x", "--addr", "10.0.0.2/24"];
    let servers: [&[&str]; 11] = [
        &["host"],
        &["httpd", "--root", &root],
        &["ftpd", "--root", &root],
        &["kvd"],
        &["filed"],
        &["serve", "echo"],
        &["serve", "sink"],
        &["iperf3", "-s"],
        &["netserver"],
        &["netrate", "tcpreceive"],
        &["host", "--locks", "light", "--set", "threads=2", "--service", "echo:7", "--service", "echo:8"],
    ];
    for words in servers {
        let mut served = Served::start(&[words, &host].concat());
        served.until("Seccomp", "2");
        confined(served.0.id(), 0, &words.join(" "));
        served.end();
    }
    let mut bridge = Served::start(&["bridge", "null:a", "null:b", "--loops", "2", "--stay"]);
    bridge.until("Seccomp", "2");
    confined(bridge.0.id(), 0, "bridge");
    bridge.end();
    let mut native = Served::start(&["netserver", "--native", "-p", "52997"]);
    native.until("Seccomp", "2");
    confined(native.0.id(), 0, "netserver --native");
    native.end();
}

#[test]
fn all_threads_of_up_are_confined_before_it_reports_that_it_runs() {
    let dir = Dir::new("sandbox-up");
    let file = dir.file(
        "net.toml",
        "[[host]]\nname = \"a\"\nstacks = 2\n[[host.iface]]\nport = \"pair:ab\"\naddresses = [\"10.1.0.1/24\"]\n\
         [[host]]\nname = \"b\"\nlocks = \"light\"\nisr.workstreams = 2\n[[host.iface]]\nport = \"pair:ab\"\n\
         addresses = [\"10.1.0.2/24\"]\n[[host.service]]\nkind = \"echo\"\nport = 7\n",
    );
    let mut served = Served::start(&["up", &file, "--control-dir", &dir.path("ctl")]);
    served.until("Seccomp", "2");
    let threads = served.threads("Seccomp").len();
    assert!(threads >= 6, "main, a dispatcher, two stacks, a host and its workers: {threads}");
    confined(served.0.id(), FOR_PORTS, "up");
    let url = dir.path("ctl/b.sock");
    let pinged = run(&mut linerate(&["ctl", "--url", &url, "ip", "addr"]));
    assert!(pinged.status.success(), "{pinged:?}");
    served.end();
}

#[test]
fn no_sandbox_keeps_all_privileges() {
    let own = status("/proc/self/status");
    let served = Running::start("no-sandbox", &["--port", "pair:x", "--no-sandbox"]);
    let pid = served.child.id();
    for key in ["CapEff", "CapPrm", "CapBnd", "NoNewPrivs", "Seccomp"] {
        assert!(of_threads(pid, key).iter().all(|value| *value == of(&own, key)), "{key}");
    }
    assert_eq!(served.interrupt().0, Some(0));
}

#[test]
fn a_user_that_does_not_exist_is_wrong_usage() {
    common::refused("kvd --port pair:x --user nobody-of-this-name", 2, "unknown user 'nobody-of-this-name'");
    common::refused("bridge null:a null:b --user 4000000000", 2, "specify the group too, as in 4000000000:4000000000");
}

/// With another user, files are served with that user's permissions, and ports can still be opened
/// later.
#[test]
fn a_server_of_another_user_serves_and_opens_ports() {
    isolated("a_server_of_another_user_serves_and_opens_ports", || {
        let dir = Dir::new("sandbox-user");
        std::fs::set_permissions(&dir.0, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        dir.file("public", "for all\n");
        let secret = dir.file("secret", "for root\n");
        std::fs::set_permissions(&secret, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        let root = dir.0.display().to_string();
        let words = ["httpd", "--root", &root, "--user", "12345:23456", "--port", "tap:tap0", "--addr", "10.0.0.2/24"];
        let served = Running::start_as("user", &words);
        let pid = served.child.id();
        let ids = |id: u32| format!("{id}\t{id}\t{id}\t{id}");
        assert!(of_threads(pid, "Uid").iter().all(|uid| *uid == ids(12_345)));
        assert!(of_threads(pid, "Gid").iter().all(|gid| *gid == ids(23_456)));
        assert!(of_threads(pid, "Groups").iter().all(|groups| groups == "23456"));
        confined(pid, FOR_PORTS, "httpd --user");
        let mut netlink = Netlink::open().unwrap();
        netlink.set_up("lo").unwrap();
        netlink.set_up("tap0").unwrap();
        netlink.add_addr("tap0", Ipv4Addr::new(10, 0, 0, 1), 24).unwrap();
        if common::has("curl") {
            let get = |path: &str| {
                let url = format!("http://10.0.0.2/{path}");
                let args = ["-s", "--noproxy", "*", "--max-time", "20", "-w", "%{http_code}", &url];
                String::from_utf8(run(Command::new("curl").args(args)).stdout).unwrap()
            };
            assert_eq!(get("public"), "for all\n200");
            assert!(!get("secret").contains("for root"), "{}", get("secret"));
        }
        served.ok("ifconfig p0 create port packet:lo inet 192.0.2.1/24");
        confined(pid, FOR_PORTS, "after a port was opened");
        served.ok("ifconfig p0 destroy");
        let (code, _, err) = served.interrupt();
        // A packet port of the loopback device receives what it sends, and the host reports that.
        assert!(code == Some(0) && !err.contains("sandbox"), "{code:?}: {err}");
    });
}

/// With root, TAP and XDP ports can be opened later, on a host and on a bridge.
#[test]
fn ports_open_live_on_hosts_and_bridges() {
    isolated("ports_open_live_on_hosts_and_bridges", || {
        Netlink::open().unwrap().set_up("lo").unwrap();
        // A frame with the loopback device's own MTU does not fit a buffer.
        assert!(Command::new("ip").args(["link", "set", "lo", "mtu", "1500"]).status().unwrap().success());
        let host = Running::start("live", &["--port", "pair:x"]);
        host.ok("ifconfig t0 create port tap:tap7 inet 192.0.2.1/24");
        host.ok("ifconfig x0 create port xdp(attach=skb):lo inet 192.0.3.1/24");
        confined(host.child.id(), FOR_PORTS, "host");
        let (code, _, err) = host.interrupt();
        assert!(code == Some(0) && !err.contains("sandbox"), "{code:?}: {err}");
        let bridge = Running::start_as("live-bridge", &["bridge", "null:a", "null:b", "--stay"]);
        bridge.ok("ifconfig bridge0 addm tap:tap8");
        confined(bridge.child.id(), FOR_PORTS, "bridge");
        let (code, _, err) = bridge.interrupt();
        assert_eq!(code, Some(0), "{err}");
        assert!(!err.contains("sandbox"), "{err}");
    });
}
