//! FRR's daemons, which run for a test, possibly in a network namespace of their own.

use super::{Daemon, Dir, Far, has_all, run, until_every};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Directory of FRR's daemons, which is not on the path.
const FRR: &str = "/usr/lib/frr";

/// Returns whether FRR and the programs `tools` are installed; prints "skipped" if not.
pub fn has_frr(test: &str, tools: &[&str]) -> bool {
    let has_frr = Path::new(FRR).join("zebra").exists();
    if !has_frr {
        println!("skipped: {test}: no zebra in {FRR}");
    }
    has_frr && has_all(test, tools)
}

/// Running daemons with their configurations.
pub struct Frr<'f> {
    dir: Dir,
    within: Option<&'f Far>,
    names: Vec<&'static str>,
    daemons: Vec<Daemon>,
}

impl<'f> Frr<'f> {
    /// Starts zebra, with the configuration `conf`, and staticd, in the namespace of the test.
    pub fn start(name: &str, conf: &str) -> Frr<'f> {
        Frr::start_in(None, name, &[("zebra", conf), ("staticd", "")])
    }

    /// Starts the daemons `confs`, each with its configuration, in the namespace `within`. The first
    /// is zebra.
    pub fn start_in(within: Option<&'f Far>, name: &str, confs: &[(&'static str, &str)]) -> Frr<'f> {
        let dir = Dir::new(name);
        // The daemons run as user frr.
        assert!(run(Command::new("chmod").args(["777", &dir.path("")])).status.success());
        for (name, conf) in confs {
            let fpm = if *name == "zebra" { "fpm address 127.0.0.1 port 2620\n" } else { "" };
            dir.file(&format!("{name}.conf"), format!("{fpm}{conf}"));
        }
        let names = confs.iter().map(|(name, _)| *name).collect();
        let mut frr = Frr { dir, within, names, daemons: Vec::new() };
        frr.run();
        frr
    }

    fn daemon(&self, name: &str) -> Daemon {
        let path = |end: &str| self.dir.path(&format!("{name}{end}"));
        let (conf, pid, socket, sockets) = (path(".conf"), path(".pid"), self.dir.path("z.api"), self.dir.path(""));
        let program = format!("{FRR}/{name}");
        let mut command = self.within.map_or_else(|| Command::new(&program), |far| far.command(&program));
        command.args(["-f", &conf, "-i", &pid, "-z", &socket, "--vty_socket", sockets.trim_end_matches('/')]);
        command.args(["-A", "127.0.0.1"]);
        match name {
            "zebra" => drop(command.args(["-M", "dplane_fpm_nl"])),
            "bfdd" => drop(command.args(["--bfdctl", &path(".sock")])),
            _ => {}
        }
        Daemon::start(&mut command)
    }

    /// Starts the daemons, the others when zebra runs.
    pub fn run(&mut self) {
        for name in self.names.clone() {
            let daemon = self.daemon(name);
            self.daemons.push(daemon);
            if name == "zebra" {
                until_every(Duration::from_millis(50), "zebra", || self.vtysh(&["show version"]).contains("FRRouting"));
            }
        }
    }

    /// Sends a signal to zebra, which is the first daemon.
    pub fn signal_zebra(&self, name: &str) {
        self.daemons[0].signal(name);
    }

    /// Kills the daemons, as by SIGKILL.
    pub fn kill(&mut self) {
        self.daemons.clear();
        let _ = std::fs::remove_file(self.dir.path("zebra.vty"));
    }

    pub fn vtysh(&self, commands: &[&str]) -> String {
        let mut command = Command::new("vtysh");
        command.args(["--vty_socket", self.dir.path("").trim_end_matches('/')]).stderr(Stdio::null());
        command.args(commands.iter().flat_map(|line| ["-c", line]));
        String::from_utf8_lossy(&run(&mut command).stdout).into_owned()
    }

    /// Returns the JSON output of a command; null if it is none.
    pub fn json(&self, command: &str) -> serde_json::Value {
        serde_json::from_str(&self.vtysh(&[command])).unwrap_or_default()
    }

    /// Runs commands of the configuration, once a daemon accepts them.
    #[track_caller]
    pub fn configure(&self, lines: &[&str]) {
        let all: Vec<&str> = std::iter::once("configure terminal").chain(lines.iter().copied()).collect();
        let last = self.names.last().copied().unwrap_or("zebra");
        until_every(Duration::from_millis(50), "vtysh", || self.vtysh(&["show daemons"]).contains(last));
        let output = self.vtysh(&all);
        assert!(!output.contains('%'), "{lines:?}: {output}");
    }
}
