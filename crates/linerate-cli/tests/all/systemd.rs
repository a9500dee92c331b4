//! Readiness for systemd (sd_notify(3)), and the example unit.

use crate::common::{self, has, linerate, run};
use std::io::{BufRead, BufReader};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::PathBuf;
use std::process::{Command, Stdio};

const READY: &[u8] = b"READY=1\nSTATUS=all hosts and bridges run\n";

/// Runs the program until it has notified `socket`, whose name is `name`; then stops it.
fn notified(dir: &common::Dir, words: &[&str], socket: &UnixDatagram, name: &str) {
    socket.set_read_timeout(Some(common::PATIENCE)).unwrap();
    let mut command = linerate(words);
    command.current_dir(dir.path(".")).env("NOTIFY_SOCKET", name).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut text = [0; 200];
    let received = socket.recv(&mut text);
    let mut last = [0; 200];
    let _ = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    let code = common::wait(&mut child);
    let lines: Vec<_> = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap).collect();
    let length = received.unwrap_or_else(|why| panic!("{words:?}: {why}: {lines:?}"));
    assert_eq!((&text[..length], code), (READY, Some(0)), "{words:?}: {lines:?}");
    let stopping = socket.recv(&mut last).map(|length| last[..length].starts_with(b"STOPPING=1\n"));
    assert!(stopping.is_ok_and(|is| is), "{words:?}: {}", String::from_utf8_lossy(&last));
    assert!(socket.set_nonblocking(true).is_ok() && socket.recv(&mut text).is_err(), "{words:?}: notified once");
    socket.set_nonblocking(false).unwrap();
}

#[test]
fn systemd_is_notified_once_all_hosts_and_bridges_run() {
    let dir = common::Dir::new("notify");
    dir.file(
        "topo.toml",
        "[[host]]\nname = 'a'\n[[host.iface]]\nport = 'pair:as'\n\
         [[host]]\nname = 'b'\n[[host.iface]]\nport = 'pair:bs'\n\
         [[switch]]\nname = 's'\nports = ['pair:as', 'pair:bs']\n",
    );
    let path = dir.path("notify.sock");
    let socket = UnixDatagram::bind(&path).unwrap();
    let address = "10.0.0.1/24";
    for words in [
        &["up", "topo.toml"][..],
        &["host", "--port", "null:n0", "--addr", address],
        &["bridge", "--stay", "null:n0", "null:n1"],
        &["serve", "discard", "--port", "null:n0", "--addr", address],
        &["netserver", "--port", "null:n0", "--addr", address],
    ] {
        notified(&dir, words, &socket, &path);
    }
    let name = format!("linerate-notify-{}", std::process::id());
    let socket = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    notified(&dir, &["up", "topo.toml"], &socket, &format!("@{name}"));
}

#[test]
fn a_supervisor_that_is_not_there_or_does_not_read_stops_nothing() {
    let dir = common::Dir::new("notify-bad");
    for (name, why) in [("relative", "expected a path or @NAME"), ("/nonexistent/notify", "No such file")] {
        let line = format!(
            "NOTIFY_SOCKET={name} linerate host --port null:n0 --control h.sock & pid=$!; \
             linerate ctl --url ./h.sock --wait=10s stop; wait $pid"
        );
        let output = dir.bash(&line).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && text.contains(&format!("NOTIFY_SOCKET={name}: {why}")), "{text}");
    }
    let path = dir.path("full.sock");
    let _full = UnixDatagram::bind(&path).unwrap();
    let sender = UnixDatagram::unbound().unwrap();
    sender.set_nonblocking(true).unwrap();
    while sender.send_to(b"x", &path).is_ok() {}
    let line = format!(
        "NOTIFY_SOCKET={path} linerate host --port null:n0 --control h.sock --ready-fd 3 3> ready & pid=$!; \
         linerate ctl --url ./h.sock --wait=10s stop; wait $pid"
    );
    let output = dir.bash(&line).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && text.contains("NOTIFY_SOCKET: Resource temporarily unavailable"), "{text}");
    assert_eq!(dir.read("ready"), "\n", "the other supervisor is notified");
}

#[test]
fn the_example_unit_is_valid_and_confined() {
    if !has("systemd-analyze") {
        return println!("skipped: the_example_unit_is_valid_and_confined: systemd is not installed");
    }
    let examples = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples/systemd");
    let unit = std::fs::read_to_string(examples.join("linerate@.service")).unwrap();
    let dir = common::Dir::new("unit");
    // systemd-analyze requires that the program exists.
    dir.file("linerate@a.service", unit.replace("/usr/local/bin/linerate", "/bin/true"));
    let analyze = |words: &[&str]| run(Command::new("systemd-analyze").args(words).current_dir(dir.path(".")));
    let verified = analyze(&["verify", "--man=no", "./linerate@a.service"]);
    assert!(verified.status.success() && verified.stderr.is_empty(), "{verified:?}");
    // The threshold is ten times the exposure.
    let exposure = |most: &str| {
        let threshold = format!("--threshold={most}");
        analyze(&["security", "--offline=true", &threshold, "./linerate@a.service"])
    };
    let output = exposure("21");
    assert!(output.status.success(), "exposure of 2.1 at most: {output:?}");
    // With the rights for mirrors, and the namespace.
    dir.file("netns@dataplane.service", std::fs::read(examples.join("netns@.service")).unwrap());
    let verified = analyze(&["verify", "--man=no", "./netns@dataplane.service"]);
    assert!(verified.status.success() && verified.stderr.is_empty(), "{verified:?}");
    std::fs::create_dir(dir.path("linerate@a.service.d")).unwrap();
    dir.file("linerate@a.service.d/mirror.conf", std::fs::read(examples.join("mirror.conf")).unwrap());
    let output = exposure("25");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("Service has administrator privileges"), "2.5: {text}");
}
