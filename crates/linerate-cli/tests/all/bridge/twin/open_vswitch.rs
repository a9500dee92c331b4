//! Open vSwitch in user space: its database and its switch run as two processes of the test, in
//! their own directory, over the test's TAP devices. The kernel's bridge has VLANs only if it was
//! built with them; Open vSwitch always has them.
//!
//! The VLANs of a port are set in its own terms (vlan_mode, tag, trunks). It stores no flows
//! (flow-limit 0). A stored decision would apply until the revalidators run, some milliseconds
//! after an address was learned, whereas the comparison is made frame by frame.

use super::super::lan::until;
use super::draw::Set;
use crate::common::{Dir, run};
use bridge::Admit;
use serde_json::{Value, json};
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

pub const PROGRAMS: [&str; 4] = ["ovsdb-tool", "ovsdb-server", "ovs-vswitchd", "ovs-vsctl"];
const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";
/// Seconds after which the processes end by themselves, if the test does not end them.
const LIFE_S: &str = "120";
/// Maximum time in seconds to start, or to process a frame.
const PATIENCE_S: u64 = 10;

pub struct OpenVswitch {
    dir: Dir,
    processes: Vec<Child>,
    /// Connection to the switch for queries.
    control: UnixStream,
    /// Number of frames that the switch was given.
    given: u64,
}

impl OpenVswitch {
    /// Creates a bridge with ports t0, t1 and so on.
    pub fn new(sets: &[Set]) -> OpenVswitch {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let dir = Dir::new(&format!("ovs{}", MADE.fetch_add(1, Ordering::Relaxed)));
        let (db, socket) = (dir.path("conf.db"), format!("unix:{}", dir.path("db.sock")));
        printed(Command::new("ovsdb-tool").args(["create", &db, SCHEMA]));
        let remote = format!("--remote=p{socket}");
        let mut processes = vec![start(&dir, &["ovsdb-server", &db, &remote, &named(&dir, "db")])];
        until("the database's socket", PATIENCE_S, || std::fs::exists(dir.path("db.sock")).unwrap());
        vsctl(&socket, &["--no-wait", "init", "--", "set", "Open_vSwitch", ".", "other_config:flow-limit=0"]);
        processes.push(start(&dir, &["ovs-vswitchd", &socket, &named(&dir, "switch")]));
        until("the switch's socket", PATIENCE_S, || std::fs::exists(dir.path("switch.ctl")).unwrap());
        let mut words: Vec<String> = vec!["add-br br0 -- set bridge br0 datapath_type=netdev".to_string()];
        words.extend(sets.iter().enumerate().map(|(at, set)| port(at, set)));
        vsctl(&socket, &words.join(" -- ").split(' ').collect::<Vec<_>>());
        let control = UnixStream::connect(dir.path("switch.ctl")).unwrap();
        control.set_read_timeout(Some(Duration::from_secs(PATIENCE_S))).unwrap();
        let mut ovs = OpenVswitch { dir, processes, control, given: 0 };
        ovs.given = ovs.seen();
        ovs
    }

    /// Waits until the switch has processed one more frame.
    pub fn has_seen_one_more(&mut self) {
        self.given += 1;
        let begun = Instant::now();
        while self.seen() < self.given {
            let log = || std::fs::read_to_string(self.dir.path("switch.log"));
            assert!(begun.elapsed() < Duration::from_secs(PATIENCE_S), "{} was not looked at: {:?}", self.given, log());
        }
    }

    /// Returns the number of frames that the switch has processed. Since it stores no flows, it
    /// counts them as lost.
    fn seen(&mut self) -> u64 {
        let shown = self.ask("dpctl/show");
        let lookups = shown.lines().find(|line| line.contains("lookups:")).unwrap_or_else(|| panic!("{shown}"));
        let of = |name: &str| lookups.split_whitespace().find_map(|word| word.strip_prefix(name)?.parse::<u64>().ok());
        let each = ["hit:", "missed:", "lost:"].map(|name| of(name).unwrap_or_else(|| panic!("{shown}")));
        each.into_iter().sum()
    }

    /// Sends a command of ovs-appctl: JSON-RPC over the switch's socket.
    fn ask(&mut self, method: &str) -> String {
        write!(&self.control, "{}", json!({ "id": 0, "method": method, "params": [] })).unwrap();
        let answer = serde_json::Deserializer::from_reader(&self.control).into_iter::<Value>().next();
        let answer = answer.unwrap_or_else(|| panic!("{method}: no answer")).unwrap();
        answer["result"].as_str().unwrap_or_else(|| panic!("{method}: {answer}")).to_string()
    }
}

/// Returns the configuration of a port as words for ovs-vsctl.
fn port(at: usize, set: &Set) -> String {
    let mode = match (set.admit, set.pvid, set.member.iter().any(|(_, untagged)| *untagged)) {
        (Admit::Untagged, _, _) => "access",
        (_, None, _) => "trunk",
        (_, Some(_), false) => "native-tagged",
        (_, Some(_), true) => "native-untagged",
    };
    let mut words = format!("add-port br0 t{at} -- set port t{at} vlan_mode={mode}");
    if let Some(tag) = set.pvid {
        words += &format!(" tag={tag}");
    }
    if mode != "access" {
        let vids: Vec<String> = set.member.iter().map(|(vid, _)| vid.to_string()).collect();
        words += &format!(" trunks={}", vids.join(","));
    }
    words
}

fn vsctl(socket: &str, words: &[&str]) {
    printed(Command::new("ovs-vsctl").args([&format!("--db={socket}"), "--timeout=10"]).args(words));
}

#[track_caller]
fn printed(command: &mut Command) {
    let output = run(command);
    assert!(output.status.success(), "{command:?}: {output:?}");
}

/// Returns the path of the socket for queries.
fn named(dir: &Dir, name: &str) -> String {
    format!("--unixctl={}", dir.path(&format!("{name}.ctl")))
}

/// Starts a program in the foreground, with a time limit. Its output goes to its log.
fn start(dir: &Dir, words: &[&str]) -> Child {
    let log = if words[0] == "ovs-vswitchd" { "switch.log" } else { "db.log" };
    let mut command = Command::new("timeout");
    command.args(["-k", "5", LIFE_S]).args(words);
    for place in ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR"] {
        command.env(place, &dir.0);
    }
    let log = std::fs::File::create(dir.path(log)).unwrap();
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap()
}

impl Drop for OpenVswitch {
    /// Ends the switch first, since it would otherwise search for its database.
    fn drop(&mut self) {
        for mut process in self.processes.drain(..).rev() {
            // The child has not been waited for, so its process number is not reused. `timeout`
            // forwards the signal.
            let _ = Command::new("kill").args(["-TERM", &process.id().to_string()]).status();
            let _ = process.wait();
        }
    }
}
