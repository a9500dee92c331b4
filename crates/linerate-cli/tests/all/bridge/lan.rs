//! A bridge of linerate in the test's namespace. Its ports are connected to hosts of the kernel,
//! each in its own namespace.
//!
//! Host N has the device eth0 with 10.0.0.N and 02:00:00:00:00:0N. At a port of kind `tap`, eth0 is
//! the kernel's side of the bridge's TAP device, moved into the host's namespace. At other ports,
//! it is the far end of a veth pair. A namespace exists as long as a sleeping process in it, which
//! is killed when the host is dropped, or ends by itself.

use crate::common::{Running, replies, run};
use port::os::netns;
use serde_json::Value;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Maximum time of a test in seconds, after which a namespace is removed.
const LIFE_S: &str = "60";

/// Kind of a port of the bridge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Tap,
    Packet,
    Xdp,
}

impl Kind {
    /// Returns the port specification for host `n`.
    pub fn port(self, n: usize) -> String {
        match self {
            Kind::Tap => format!("tap:p{n}"),
            Kind::Packet => format!("packet:p{n}"),
            Kind::Xdp => format!("xdp:p{n}"),
        }
    }
}

/// Runs a shell line, which must succeed. Returns its output.
#[track_caller]
pub fn ok(line: &str) -> String {
    printed(Command::new("sh").args(["-c", line]), line)
}

#[track_caller]
fn printed(command: &mut Command, line: &str) -> String {
    let output = run(command);
    assert!(output.status.success(), "{line}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// A namespace with one host.
pub struct Host {
    holder: Child,
    pub n: usize,
}

impl Host {
    pub fn new(n: usize) -> Host {
        let mut sleep = Command::new("sleep");
        sleep.arg(LIFE_S).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let host = Host { holder: netns::command(&mut sleep).spawn().unwrap(), n };
        host.ok("ip link set lo up; echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6");
        host
    }

    /// Returns a command that runs a shell line in the host's namespace.
    pub fn sh(&self, line: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["-t", &self.holder.id().to_string(), "-n", "sh", "-c", &format!("exec 2>&1; {line}")]);
        command
    }

    /// Runs a shell line in the host, which must succeed. Returns its output.
    #[track_caller]
    pub fn ok(&self, line: &str) -> String {
        printed(&mut self.sh(line), line)
    }

    pub fn addr(&self) -> String {
        format!("10.0.0.{}", self.n)
    }

    pub fn mac(&self) -> String {
        format!("02:00:00:00:00:{:02x}", self.n)
    }

    /// Moves a device of the test's namespace into the host as eth0.
    pub fn take(&self, device: &str) {
        ok(&format!("ip link set dev {device} netns {}", self.holder.id()));
        let (mac, addr) = (self.mac(), self.addr());
        self.ok(&format!(
            "ip link set dev {device} name eth0 address {mac} && ip addr add {addr}/24 dev eth0 && ip link set eth0 up"
        ));
    }

    /// Sends `count` pings to another host, one per 50 ms. Returns the number of replies.
    pub fn ping(&self, other: &Host, count: usize) -> usize {
        let output = run(&mut self.sh(&format!("ping -n -c {count} -i 0.05 -w 5 {}", other.addr())));
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("packets transmitted"), "{output:?}");
        replies(&text, count)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// Hosts, and the bridge that connects them.
pub struct Lan {
    pub hosts: Vec<Host>,
    pub kinds: Vec<Kind>,
    pub bridge: Running,
}

impl Lan {
    /// Creates a host at a port of each kind in `kinds`. `flags` are the flags of the bridge.
    pub fn new(kinds: &[Kind], flags: &[&str]) -> Lan {
        let hosts: Vec<Host> = (1..=kinds.len()).map(Host::new).collect();
        for (host, kind) in hosts.iter().zip(kinds) {
            prepare(host, *kind);
        }
        let ports: Vec<String> = kinds.iter().zip(1..).map(|(kind, n)| kind.port(n)).collect();
        let mut words = vec!["bridge", "--json"];
        words.extend(ports.iter().map(String::as_str));
        words.extend(flags);
        let lan = Lan { bridge: Running::start_as("bridge", &words), kinds: kinds.to_vec(), hosts };
        lan.hosts.iter().for_each(|host| lan.plug(host));
        lan
    }

    pub fn kind(&self, host: &Host) -> Kind {
        self.kinds[host.n - 1]
    }

    /// Connects the host once the bridge has opened its port.
    pub fn plug(&self, host: &Host) {
        if self.kind(host) == Kind::Tap {
            host.take(&format!("p{}", host.n));
        }
    }

    /// Pings between all pairs of hosts at once and checks that no ping is lost.
    pub fn ping_all(&self, count: usize) {
        std::thread::scope(|scope| {
            for one in &self.hosts {
                for other in self.hosts.iter().filter(|other| other.n != one.n) {
                    scope.spawn(move || assert_eq!(one.ping(other, count), count, "{} to {}", one.n, other.n));
                }
            }
        });
    }

    /// Returns the port at which the bridge has learned an address.
    pub fn port_of(&self, mac: &str) -> Option<String> {
        let fdb = fdb(&self.bridge);
        let row = fdb.as_array().unwrap().iter().find(|row| row["mac"] == mac)?;
        row["ifname"].as_str().map(str::to_string)
    }

    /// Checks that each host's address is learned at the host's port.
    pub fn all_known(&self) {
        for host in &self.hosts {
            assert_eq!(self.port_of(&host.mac()), Some(format!("p{}", host.n)), "{}", fdb(&self.bridge));
        }
    }

    /// Ends the bridge by Ctrl-C. Returns its audit, which must account for all frames, and the
    /// rest of its output.
    pub fn end(self) -> (Value, String) {
        end(self.bridge)
    }
}

/// Prepares what a port of this kind needs before the bridge starts.
pub fn prepare(host: &Host, kind: Kind) {
    if kind == Kind::Tap {
        return;
    }
    let n = host.n;
    let quiet = "/proc/sys/net/ipv6/conf/default/disable_ipv6";
    ok(&format!("echo 1 > {quiet}; ip link add p{n} type veth peer name e{n} && ip link set p{n} up"));
    host.take(&format!("e{n}"));
}

/// Returns the bridge's address table without the bridge's own addresses.
pub fn fdb(bridge: &Running) -> Value {
    let output = run(&mut crate::common::linerate(&["bridge", "--url", &bridge.url(), "-j", "fdb", "show"]));
    assert!(output.status.success(), "{output:?}");
    let mut fdb: Value = serde_json::from_slice(&output.stdout).unwrap();
    fdb.as_array_mut().unwrap().retain(|row| row["state"] != "permanent");
    fdb
}

/// Returns the number of frames dropped for `reason`.
pub fn dropped(bridge: &Running, reason: &str) -> u64 {
    let drops = bridge.json("show drops");
    let row = drops.as_array().unwrap().iter().find(|row| row["name"] == reason);
    row.map_or(0, |row| row["value"].as_u64().unwrap())
}

/// Ends a bridge that runs with `--json` by Ctrl-C. Returns its audit, which must account for all
/// frames, and the rest of its output.
pub fn end(bridge: Running) -> (Value, String) {
    let (code, out, err) = bridge.interrupt();
    assert_eq!(code, Some(0), "{out}{err}");
    let audit: Value = serde_json::from_str(out.lines().last().unwrap_or_default()).unwrap();
    assert_eq!((&audit["holds"], &audit["held"]), (&true.into(), &0.into()), "{audit}");
    (audit, err)
}

/// Waits until the condition `so` is true, for at most `most_s` seconds. Returns the time that it
/// took.
#[track_caller]
pub fn until(what: &str, most_s: u64, mut so: impl FnMut() -> bool) -> Duration {
    let begun = Instant::now();
    while !so() {
        assert!(begun.elapsed() < Duration::from_secs(most_s), "{what}: not within {most_s} s");
        std::thread::sleep(Duration::from_millis(20));
    }
    begun.elapsed()
}
