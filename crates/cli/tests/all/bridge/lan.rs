//! A bridge of ours in the test's namespace, and hosts of the kernel's, each in one of its own, at its ports.
//!
//! Host N has the device eth0, 10.0.0.N and 02:00:00:00:00:0N. At a port of kind `tap` eth0 is the kernel's side of the bridge's TAP
//! device, moved; at the others it is the far end of a pair of veth devices. A namespace lives as long as a sleeping process in it, which is
//! killed when the host is dropped, or ends by itself.

use crate::common::{Running, run};
use port::os::netns;
use serde_json::Value;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The most that a test takes, and a namespace lives.
const LIFE_S: &str = "60";

/// What the bridge's port is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Tap,
    Packet,
    Xdp,
}

impl Kind {
    /// The port's name with which the bridge is told of host `n`.
    pub fn port(self, n: usize) -> String {
        match self {
            Kind::Tap => format!("tap:p{n}"),
            Kind::Packet => format!("packet:p{n}"),
            Kind::Xdp => format!("xdp:p{n}"),
        }
    }
}

/// Runs a line of words and wants it to succeed; gives what it printed.
#[track_caller]
pub fn ok(line: &str) -> String {
    said(Command::new("sh").args(["-c", line]), line)
}

#[track_caller]
fn said(command: &mut Command, line: &str) -> String {
    let output = run(command);
    assert!(output.status.success(), "{line}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// A namespace with a host in it.
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

    /// A line of shell in the host.
    pub fn sh(&self, line: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["-t", &self.holder.id().to_string(), "-n", "sh", "-c", &format!("exec 2>&1; {line}")]);
        command
    }

    /// The same, run to its end, which is to be a good one.
    #[track_caller]
    pub fn ok(&self, line: &str) -> String {
        said(&mut self.sh(line), line)
    }

    pub fn addr(&self) -> String {
        format!("10.0.0.{}", self.n)
    }

    pub fn mac(&self) -> String {
        format!("02:00:00:00:00:{:02x}", self.n)
    }

    /// Takes a device of the test's namespace as eth0.
    pub fn take(&self, device: &str) {
        ok(&format!("ip link set dev {device} netns {}", self.holder.id()));
        let (mac, addr) = (self.mac(), self.addr());
        self.ok(&format!(
            "ip link set dev {device} name eth0 address {mac} && ip addr add {addr}/24 dev eth0 && ip link set eth0 up"
        ));
    }

    /// So many pings of another, a twentieth of a second apart; how many were answered.
    pub fn ping(&self, other: &Host, count: usize) -> usize {
        let output = run(&mut self.sh(&format!("ping -n -q -c {count} -i 0.05 -W 3 {}", other.addr())));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let received = text.split(", ").find_map(|part| part.strip_suffix(" received"));
        received.and_then(|count| count.parse().ok()).unwrap_or_else(|| panic!("{output:?}"))
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// Hosts and the bridge between them.
pub struct Lan {
    pub hosts: Vec<Host>,
    pub kinds: Vec<Kind>,
    pub bridge: Running,
}

impl Lan {
    /// A host at a port of each of these kinds; `flags` are the bridge's.
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

    /// What is to be done once the bridge has its port.
    pub fn plug(&self, host: &Host) {
        if self.kind(host) == Kind::Tap {
            host.take(&format!("p{}", host.n));
        }
    }

    /// Every host pings every other, all at once: nothing is lost.
    pub fn ping_all(&self, count: usize) {
        std::thread::scope(|scope| {
            for one in &self.hosts {
                for other in self.hosts.iter().filter(|other| other.n != one.n) {
                    scope.spawn(move || assert_eq!(one.ping(other, count), count, "{} to {}", one.n, other.n));
                }
            }
        });
    }

    /// At which port the bridge knows an address to be.
    pub fn port_of(&self, mac: &str) -> Option<String> {
        let fdb = fdb(&self.bridge);
        let row = fdb.as_array().unwrap().iter().find(|row| row["mac"] == mac)?;
        row["ifname"].as_str().map(str::to_string)
    }

    /// Each host's address is at its port.
    pub fn all_known(&self) {
        for host in &self.hosts {
            assert_eq!(self.port_of(&host.mac()), Some(format!("p{}", host.n)), "{}", fdb(&self.bridge));
        }
    }

    /// Ctrl-C; its audit, which adds up, and the rest of what it said.
    pub fn end(self) -> (Value, String) {
        end(self.bridge)
    }
}

/// What a port of that kind needs before the bridge is there.
pub fn prepare(host: &Host, kind: Kind) {
    if kind == Kind::Tap {
        return;
    }
    let n = host.n;
    let quiet = "/proc/sys/net/ipv6/conf/default/disable_ipv6";
    ok(&format!("echo 1 > {quiet}; ip link add p{n} type veth peer name e{n} && ip link set p{n} up"));
    host.take(&format!("e{n}"));
}

/// What the bridge knows of addresses, but for its own.
pub fn fdb(bridge: &Running) -> Value {
    let output = run(&mut crate::common::linerate(&["bridge", "--url", &bridge.url(), "-j", "fdb", "show"]));
    assert!(output.status.success(), "{output:?}");
    let mut fdb: Value = serde_json::from_slice(&output.stdout).unwrap();
    fdb.as_array_mut().unwrap().retain(|row| row["state"] != "permanent");
    fdb
}

/// Frames dropped for that reason.
pub fn dropped(bridge: &Running, reason: &str) -> u64 {
    let drops = bridge.json("show drops");
    let row = drops.as_array().unwrap().iter().find(|row| row["name"] == reason);
    row.map_or(0, |row| row["value"].as_u64().unwrap())
}

/// Ctrl-C to a bridge with `--json`; its audit, which adds up, and the rest of what it said.
pub fn end(bridge: Running) -> (Value, String) {
    let (code, out, err) = bridge.interrupt();
    assert_eq!(code, Some(0), "{out}{err}");
    let audit: Value = serde_json::from_str(out.lines().last().unwrap_or_default()).unwrap();
    assert_eq!((&audit["holds"], &audit["held"]), (&true.into(), &0.into()), "{audit}");
    (audit, err)
}

/// Waits until it is so, for at most so many seconds; how long it took.
#[track_caller]
pub fn until(what: &str, most_s: u64, mut so: impl FnMut() -> bool) -> Duration {
    let begun = Instant::now();
    while !so() {
        assert!(begun.elapsed() < Duration::from_secs(most_s), "{what}: not within {most_s} s");
        std::thread::sleep(Duration::from_millis(20));
    }
    begun.elapsed()
}
