//! Reloads of a running program: SIGHUP, the control commands, and the notifications of systemd.

use crate::common::{self, Dir, linerate, run, until};
use std::io::Write;
use std::os::unix::net::UnixDatagram;
use std::process::{Child, Command, Stdio};

const TWO: &str = "\
[[host]]
name = 'a'
[[host.iface]]
port = 'pair:ab'
name = 'eth0'
addresses = ['10.0.0.1/24']
[[host]]
name = 'b'
[[host.iface]]
port = 'pair:ab'
name = 'eth0'
addresses = ['10.0.0.2/24']
[[host.service]]
kind = 'iperf3'
[[host]]
name = 'split'
stacks = 2
[[host.iface]]
port = 'null:q0'
[[switch]]
name = 's'
ports = ['null:n0', 'null:n1']
";

/// `linerate up` with a file, and the socket of its supervisor.
struct Up {
    dir: Dir,
    child: Child,
    notifications: UnixDatagram,
}

impl Up {
    fn start(name: &str, text: &str, flags: &[&str], watchdog: Option<&str>) -> Up {
        let dir = Dir::new(name);
        dir.file("net.toml", text);
        let path = dir.path("notify.sock");
        let notifications = UnixDatagram::bind(&path).unwrap();
        notifications.set_read_timeout(Some(common::PATIENCE)).unwrap();
        let err = std::fs::File::create(dir.path("err")).unwrap();
        let mut command = linerate(&[&["up", "net.toml", "--control-dir", "ctl"], flags].concat());
        command.current_dir(dir.path(".")).env("NOTIFY_SOCKET", &path).env_remove("WATCHDOG_USEC");
        command.envs(watchdog.map(|us| ("WATCHDOG_USEC", us)));
        let child = command.stdout(Stdio::null()).stderr(err).spawn().unwrap();
        let up = Up { dir, child, notifications };
        assert!(up.notified().starts_with("READY=1\n"));
        up
    }

    /// Returns the next notification.
    #[track_caller]
    fn notified(&self) -> String {
        let mut text = [0; 300];
        let length = self.notifications.recv(&mut text).unwrap_or_else(|why| panic!("{why}: {}", self.dir.read("err")));
        String::from_utf8(text[..length].to_vec()).unwrap()
    }

    fn signal(&self, name: &str) {
        assert!(Command::new("kill").args([name, &self.child.id().to_string()]).status().unwrap().success());
    }

    /// Reloads `text` by SIGHUP. Returns whether it succeeded, and what was printed meanwhile.
    #[track_caller]
    fn hangup(&self, text: &str) -> (bool, String) {
        let before = self.dir.read("err").len();
        self.dir.file("net.toml", text);
        self.signal("-HUP");
        let begun = self.notified();
        assert!(begun.starts_with("RELOADING=1\nMONOTONIC_USEC="), "{begun}");
        let ended = self.notified();
        assert!(ended.starts_with("READY=1\nSTATUS="), "{ended}");
        let is_fine = !ended.contains("failed");
        let word = if is_fine { "reload: done\n" } else { "reload: failed" };
        until(word, || self.dir.read("err")[before..].contains(word));
        (is_fine, self.dir.read("err")[before..].to_string())
    }

    fn say(&self, host: &str, line: &str) -> (Option<i32>, String, String) {
        let url = self.dir.path(&format!("ctl/{host}.sock"));
        let words: Vec<&str> = ["ctl", "--url", &url].into_iter().chain(line.split(' ')).collect();
        common::printed(&run(&mut linerate(&words)))
    }

    #[track_caller]
    fn ok(&self, host: &str, line: &str) -> String {
        let (code, out, err) = self.say(host, line);
        assert_eq!(code, Some(0), "{line}: {err}");
        out
    }

    #[track_caller]
    fn no(&self, host: &str, line: &str) -> String {
        let (code, out, err) = self.say(host, line);
        assert_eq!(code, Some(1), "{line}: {out}");
        err
    }

    /// Ends the program by SIGINT, with exact audits.
    #[track_caller]
    fn end(mut self) {
        self.signal("-INT");
        assert!(self.notified().starts_with("STOPPING=1\n"));
        assert_eq!(common::wait(&mut self.child), Some(0), "{}", self.dir.read("err"));
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_reload_by_signal_changes_all_hosts_or_none_and_keeps_connections() {
    let up = Up::start("reload-hup", TWO, &[], None);
    // Connections that are in use until their client ends.
    let url = up.dir.path("ctl/a.sock");
    let mut client = linerate(&["iperf3", "--url", &url, "-c", "10.0.0.2", "-b", "1M", "-t", "600", "-i", "0"]);
    let mut client = client.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let ends = || {
        let text = up.ok("b", "ss -tn state established");
        let lines = text.lines().filter(|line| line.contains(":5201"));
        let mut ends: Vec<String> = lines.map(|line| line.split_whitespace().skip(4).collect()).collect();
        ends.sort();
        ends
    };
    until("connections", || ends().len() == 2);
    let connections = ends();

    let changed = TWO
        .replace("['10.0.0.2/24']", "['10.0.0.2/24', '10.5.0.2/24']\nmtu = 1400")
        .replace("name = 'b'\n", "name = 'b'\nsysctl = { 'net.inet.ip.forwarding' = 1 }\n")
        .replace("['10.0.0.1/24']", "['10.0.0.1/24']\n[[host.iface]]\nport = 'null:n1'\naddresses = ['10.7.0.1/24']");
    let (is_fine, text) = up.hangup(&changed);
    assert!(is_fine && text.contains("a: reloaded; 1 change") && text.contains("b: reloaded; 3 changes"), "{text}");
    assert!(up.ok("a", "ip addr").contains("10.7.0.1/24") && up.ok("b", "ip addr").contains("10.5.0.2/24"));
    assert_eq!(up.ok("b", "sysctl -n net.inet.ip.forwarding"), "1\n");
    assert!(up.ok("a", "show topology").contains("n1"));
    assert_eq!(ends(), connections);

    // A host that cannot change keeps all others from changing, too.
    for (text, why) in [
        (
            TWO.replace("name = 'b'", "name = 'b'\nlocks = 'light'"),
            "b: reload: locks cannot change from 'up' to 'light'",
        ),
        (TWO.replace("stacks = 2", "stacks = 2\nburst = 9"), "host split was changed and has several stacks"),
        (TWO.replace("stacks = 2\n", ""), "host split was changed and has several stacks"),
        (TWO.replace("'pair:ab'", "'pair:ab'\nmac = '02:00:00:00:00:01'"), "only addresses and settings of pair:ab"),
        (TWO.replace("'null:n1']", "'null:n2']"), "switch s was changed"),
        (TWO.replace("name = 's'", "name = 't'"), "switch t was added; switch s was removed"),
        (format!("{TWO}{}bust = 1\n", "#\n".repeat(877)), "net.toml:900: unknown key 'bust'"),
    ] {
        let (is_fine, said) = up.hangup(&text);
        assert!(!is_fine && said.contains(why), "{why}: {said}");
        assert!(up.ok("a", "ip addr").contains("10.7.0.1/24") && up.ok("b", "ip addr").contains("10.5.0.2/24"));
    }
    // A change that fails on one host is undone there; the other host is changed.
    let text =
        changed.replace("'null:n1'\n", "'pcap:/nonexistent.pcap'\nname = 'n1'\n").replace("10.5.0.2", "10.5.0.3");
    let (is_fine, said) = up.hangup(&text);
    assert!(!is_fine && said.contains("all changes were undone") && said.contains("failed on some hosts"), "{said}");
    assert!(up.ok("a", "ip addr").contains("10.7.0.1/24") && up.ok("b", "ip addr").contains("10.5.0.3/24"));
    let (is_fine, said) = up.hangup(TWO);
    assert!(is_fine && said.contains("a: - iface n1 port null:n1 addresses 10.7.0.1/24"), "{said}");
    assert_eq!(ends(), connections);
    assert!(client.try_wait().unwrap().is_none(), "the client has ended");
    assert!(Command::new("kill").args(["-INT", &client.id().to_string()]).status().unwrap().success());
    common::wait(&mut client);
    up.end();
}

#[test]
fn commands_show_save_and_confirm_the_configuration() {
    let up = Up::start("reload-ctl", TWO, &["--set", "net.inet.ip.ttl=33"], None);
    assert_eq!(up.ok("a", "reload --dry-run"), "nothing to change\n");
    up.ok("a", "ip addr add 10.0.0.77/24 dev eth0");
    up.ok("a", "ip route add 10.9.0.0/16 via 10.0.0.2");
    assert_eq!(
        up.ok("a", "reload --dry-run"),
        "- route 10.9.0.0/16 via 10.0.0.2 dev eth0\n- address eth0 10.0.0.77/24\n"
    );
    let json: serde_json::Value = serde_json::from_str(&up.ok("a", "-j reload --dry-run")).unwrap();
    assert_eq!(json[1]["change"], "- address eth0 10.0.0.77/24");
    let text = up.ok("a", "show running-config");
    for part in ["\"net.inet.ip.ttl\" = 33", "addresses = [\"10.0.0.1/24\", \"10.0.0.77/24\"]", "to = \"10.9.0.0/16\""]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("control"), "{text}");
    assert_eq!(up.ok("a", "write"), "saved net.toml without comments; the file before it is net.toml.1\n");
    assert_eq!(up.ok("a", "reload"), "nothing to change\n");
    assert_eq!(up.dir.read("net.toml.1"), TWO);
    // The saved file starts the same network.
    let checked = run(linerate(&["up", "--check", "net.toml"]).current_dir(up.dir.path(".")));
    assert!(checked.status.success(), "{checked:?}");
    let out = String::from_utf8(checked.stdout).unwrap();
    assert!(out.contains("host b: ports pair:ab; services iperf3:5201\n"), "{out}");

    up.dir.file("net.toml", TWO);
    assert!(up.ok("a", "commit-confirmed 1h").contains("- address eth0 10.0.0.77/24"));
    assert!(up.no("a", "reload").contains("a configuration waits for its confirmation"));
    assert!(!up.ok("a", "ip addr").contains("10.0.0.77"));
    up.ok("a", "commit");
    up.ok("a", "ip addr add 10.0.0.77/24 dev eth0");
    up.ok("a", "commit-confirmed 1s");
    until("the preceding configuration", || up.ok("a", "ip addr").contains("10.0.0.77/24"));
    assert!(up.dir.read("err").contains("a: the configuration was not confirmed: went back to the preceding one"));
    assert!(up.no("a", "commit").contains("no configuration waits for its confirmation"));
    up.ok("a", "commit-confirmed 1h");
    up.ok("a", "commit");
    assert_eq!(up.ok("a", "reload"), "nothing to change\n");
    for (line, why) in [
        ("commit-confirmed 0s", "1s to 86400s"),
        ("commit-confirmed 99999999999999999999h", "1s to 86400s"),
        ("commit-confirmed 5x", "1s to 86400s"),
        ("commit-confirmed", "TIME"),
        ("write relative.toml", "an absolute path"),
        ("write /nonexistent/x.toml", "/nonexistent/x.toml"),
        ("reload now", "now"),
    ] {
        let (code, _, err) = up.say("a", line);
        assert!(code != Some(0) && err.contains(why), "{line}: {err}");
    }
    up.end();
}

/// Notifications for the watchdog arrive while all threads run.
#[test]
fn the_watchdog_is_fed() {
    let up = Up::start("reload-watchdog", TWO, &[], Some("400000"));
    for _ in 0..3 {
        assert_eq!(up.notified(), "WATCHDOG=1\n");
    }
    up.signal("-INT");
    until("the end", || up.notified().starts_with("STOPPING=1\n"));
}

/// The events of hosts are JSON lines, or fields for the journal.
#[test]
fn events_are_logged_in_each_format() {
    let text = TWO.split("[[host]]\nname = 'split'").next().unwrap().replace("name = 'b'", "name = 'b'\nstay = true");
    let journal = Dir::new("journal");
    let path = journal.path("socket");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(common::PATIENCE)).unwrap();
    for format in ["json", &format!("journal:{path}")] {
        let up = Up::start("reload-log", &text, &["--log", format], None);
        // The other end of the cable goes, and with it the link and the routes of its addresses.
        std::thread::sleep(std::time::Duration::from_millis(1500)); // the hosts have been checked once
        up.ok("a", "ifconfig eth0 destroy");
        let err = || up.dir.read("err");
        if format == "json" {
            until("events", || err().contains("link_down") && err().contains("routes_lost"));
            let rows =
                err().lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()).collect::<Vec<_>>();
            let down = rows.iter().find(|row| row["event"] == "link_down").unwrap();
            assert_eq!((&down["host"], &down["iface"], &down["priority"]), (&"b".into(), &"eth0".into(), &4.into()));
            assert!(down["message"] == "eth0: link down" && down["time"].as_str().unwrap().ends_with('Z'), "{down}");
            assert!(
                rows.iter()
                    .any(|row| row["event"] == "notice" && row["message"].as_str().unwrap().contains("a: running"))
            );
        } else {
            let mut record = [0; 2000];
            until("events", || {
                let length = socket.recv(&mut record).unwrap();
                let record = String::from_utf8_lossy(&record[..length]).into_owned();
                record.contains("\nPRIORITY=4\nSYSLOG_IDENTIFIER=linerate\nLINERATE_EVENT=link_down\nLINERATE_HOST=b\n")
            });
            assert_eq!(err(), "");
        }
        up.signal("-INT");
    }
    common::refused("host --port null:n0 --log xml", 2, "expected text, json, journal or journal:PATH");
    common::refused("host --port null:n0 --log journal:/nonexistent/socket", 1, "--log journal: /nonexistent/socket");
}

/// A full file system leaves the file as it was.
#[test]
fn a_full_disk_does_not_lose_the_file() {
    common::isolated("a_full_disk_does_not_lose_the_file", || {
        let full = Dir::new("full-disk");
        let path = full.path("");
        let mount = ["-t", "tmpfs", "-o", "size=16k", "none", &path];
        if !run(Command::new("mount").args(mount)).status.success() {
            return println!("skipped: a_full_disk_does_not_lose_the_file: no mounts in this namespace");
        }
        let text = format!("[[host]]\nname = 'a'\nstay = true\n#{}\n", "x".repeat(4000));
        full.file("net.toml", &text);
        let control = Dir::new("full-disk-ctl");
        let (file, url) = (full.path("net.toml"), control.path("a.sock"));
        let mut child = linerate(&["up", &file, "--control-dir", &control.path("")]).spawn().unwrap();
        assert!(run(&mut linerate(&["ctl", "--url", &url, "--wait=30s"])).status.success());
        let mut rest = std::fs::File::create(full.path("rest")).unwrap();
        while rest.write_all(&[0; 4096]).is_ok() {}
        let output = common::printed(&run(&mut linerate(&["ctl", "--url", &url, "write"])));
        assert!(output.0 == Some(1) && output.2.contains("the file was not changed"), "{output:?}");
        assert_eq!(full.read("net.toml"), text);
        assert!(run(&mut linerate(&["ctl", "--url", &url, "stop"])).status.success());
        assert_eq!(common::wait(&mut child), Some(0));
        drop(rest);
        assert!(run(Command::new("umount").arg(&path)).status.success());
    });
}

#[test]
fn flags_are_checked_without_opening_anything() {
    let host = ["host", "--check", "--port", "tap:nonexistent0", "--service", "echo", "--fpm", "127.0.0.1:2620"];
    let (code, out, err) = common::printed(&run(&mut linerate(&host)));
    assert_eq!(
        (code, out.as_str()),
        (Some(0), "host host: ports tap:nonexistent0; services echo:7; fpm 127.0.0.1:2620\n"),
        "{err}"
    );
    let (code, out, err) = common::printed(&run(&mut linerate(&["bridge", "--check", "null:a", "null:b"])));
    assert_eq!((code, out.as_str()), (Some(0), "switch bridge0: ports null:a, null:b\n"), "{err}");
    common::refused("host --check --port tap:t0 --set burst=0", 2, "burst");
    common::refused("bridge --check null:a null:a", 2, "there are two ports called 'a'");
}
