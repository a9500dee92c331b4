//! What README.md shows is run as it stands there; the topologies are run too.

mod common;

use common::{has, isolated, linerate, run, run_within, wait};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The code blocks under the heading `## title` of README.md, line by line.
fn code_under(title: &str) -> Vec<String> {
    let text = std::fs::read_to_string(root().join("README.md")).unwrap();
    let section = text.split("\n## ").find(|section| section.lines().next() == Some(title));
    let section = section.unwrap_or_else(|| panic!("README.md has no heading '{title}'"));
    section.lines().filter_map(|line| Some(line.strip_prefix("    ")?.to_string())).collect()
}

/// A line of shell with the built program as `linerate`.
fn shell(line: &str) -> Command {
    let bin = Path::new(env!("CARGO_BIN_EXE_linerate")).parent().unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    let mut shell = Command::new("sh");
    shell.args(["-c", line]).env("PATH", format!("{}:{path}", bin.display())).env_remove("LINERATE_CTL");
    shell.current_dir(root());
    shell
}

/// Longest run of the first command: cargo builds the stack for five rungs.
const BUILDING: Duration = Duration::from_secs(900);

/// The first of the two commands, with few trials; the second runs this test, here and in .ci/run.
#[test]
fn the_two_commands() {
    let [measure, test] = &code_under("Two commands")[..] else { panic!("README.md shows two commands first") };
    let words = measure.strip_prefix("cargo run --release -- ").expect("the program, in release");
    let mut command = linerate(&words.split_whitespace().collect::<Vec<_>>());
    let output = run_within(command.args(["--quick", "--rounds", "1"]), BUILDING);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(text.lines().next(), Some(words), "{text}");
    for row in
        ["2.static ", "6.other_compiler ", "14.send_burst ", "cold.none ", "part2.two_threads ", "part3.hosts_1 "]
    {
        assert!(text.lines().any(|line| line.starts_with(row)), "no row {row}\n{text}");
    }
    assert!(text.contains("inconclusive ("), "one round shows nothing\n{text}");
    let ci = std::fs::read_to_string(root().join(".ci/run")).unwrap();
    assert!(ci.contains(&format!("    {test} ")), ".ci/run does not run '{test}'");
}

/// The transcript "Frames as lines": each command says what stands below it.
#[test]
fn frames_as_lines() {
    let shown = code_under("Frames as lines").join("\n");
    let commands: Vec<&str> = shown.strip_prefix("$ ").expect("a command first").split("\n$ ").collect();
    assert_eq!(commands.len(), 3);
    for command in commands {
        let (line, expected) = command.split_once('\n').expect("what it says");
        let output = run(&mut shell(line));
        let said = String::from_utf8(output.stdout).unwrap();
        assert_eq!(said.trim_end(), expected, "{line}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

/// The block "A host on a TAP", line for line.
#[test]
fn a_host_on_a_tap() {
    if !has("ip") || !has("ping") {
        return println!("skipped: a_host_on_a_tap: iproute2 and iputils-ping are not both installed");
    }
    isolated("a_host_on_a_tap", || {
        let lines = code_under("A host on a TAP");
        let (host, rest) = lines.split_first().expect("the block begins with the host");
        let host = host.strip_suffix(" &").expect("the host runs in the background");
        let (mut child, _stderr) = in_background(host);
        let mut said = String::new();
        for line in rest {
            let output = run(&mut shell(line));
            let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            assert!(output.status.success(), "{line}\n{out}{err}");
            said.push_str(&out);
        }
        assert!(said.contains(" 0% packet loss"), "{said}");
        assert!(said.contains("? (10.0.0.1) at ") && said.contains(" on tap0 "), "{said}");
        assert!(said.contains("imbalance           0"), "{said}");
        let (code, out) = interrupt(&mut child);
        assert_eq!(code, Some(0), "{out}");
        assert!(out.contains("imbalance           0"), "{out}");
    });
}

/// The block "A bridge", line for line.
#[test]
fn a_bridge() {
    isolated("a_bridge", || {
        let lines = code_under("A bridge");
        let (bridge, rest) = lines.split_first().expect("the block begins with the bridge");
        let (mut child, _stderr) = in_background(bridge.strip_suffix(" &").expect("it runs in the background"));
        let mut said = String::new();
        for line in rest {
            let output = run(&mut shell(line));
            let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            assert!(output.status.success(), "{line}\n{out}{err}");
            said.push_str(&out);
        }
        for part in ["2: tap1: <", "state blocking", "loop 0: adaptive, polls tap0 tap1", "0 late"] {
            assert!(said.contains(part), "no '{part}' in\n{said}");
        }
        let (code, out) = interrupt(&mut child);
        assert_eq!(code, Some(0), "{out}");
    });
}

/// The block "A router between two hosts", line for line, but for where the sockets go.
#[test]
fn a_router_between_two_hosts() {
    let dir = std::env::temp_dir().join(format!("lr-readme-hosts-{}", std::process::id()));
    let lines = code_under("A router between two hosts");
    let (mut said, mut up) = (String::new(), None);
    for line in lines.iter().map(|line| line.replace("/tmp/lr", &dir.display().to_string())) {
        if let Some(line) = line.strip_suffix(" &") {
            up = Some(in_background(line));
            let deadline = Instant::now() + common::PATIENCE;
            while !dir.join("r.sock").exists() {
                assert!(Instant::now() < deadline, "{line}");
                std::thread::sleep(Duration::from_millis(20));
            }
            continue;
        }
        let output = run(&mut shell(&line));
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{line}\n{out}{err}");
        said.push_str(&out);
    }
    for part in [
        "TCP REQUEST/RESPONSE TEST",
        "imbalance           0",
        "nothing stands in its way",
        "net.isr.dispatch: direct -> deferred",
        "Dispatch policy               deferred",
    ] {
        assert!(said.contains(part), "no '{part}' in\n{said}");
    }
    let (mut child, _stderr) = up.expect("one line runs in the background");
    let (code, out) = interrupt(&mut child);
    assert_eq!((code, out.matches("imbalance           0").count()), (Some(0), 3), "{out}");
    let _ = std::fs::remove_dir_all(&dir);
}

/// The first line of "What is between two ports"; the other one wants a device between two TAPs (tests/rfc2544.rs).
#[test]
fn what_is_between_two_ports() {
    let lines = code_under("What is between two ports");
    let output = run(&mut shell(&format!("{} --test throughput,latency", lines[0])));
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("throughput (26.1)") && said.contains("latency (26.2)"), "{said}");
}

/// The block "FTP from a stack of our own", line for line.
#[test]
fn ftp_from_a_stack_of_our_own() {
    if !has("ip") || !has("curl") {
        return println!("skipped: ftp_from_a_stack_of_our_own: iproute2 and curl are not both installed");
    }
    isolated("ftp_from_a_stack_of_our_own", || {
        let lines = code_under("FTP from a stack of our own");
        let [host, setup, down, up] = &lines[..] else { panic!("four lines: {lines:?}") };
        let (mut child, _stderr) = in_background(host.strip_suffix(" &").expect("the server runs in the background"));
        let say = |line: &str| {
            let output = run(&mut shell(line));
            (output.status.code(), format!("{line}\n{}", String::from_utf8_lossy(&output.stderr)))
        };
        let (code, said) = say(setup);
        assert_eq!(code, Some(0), "{said}");
        let (code, said) = say(down);
        assert_eq!(code, Some(28), "/dev/zero has no end: curl's own time is over\n{said}");
        let (code, said) = say(up);
        assert_eq!(code, Some(0), "{said}");
        let (code, out) = interrupt(&mut child);
        assert_eq!(code, Some(0), "{out}");
        assert!(out.contains("imbalance           0"), "{out}");
    });
}

/// topo/tap-echo.toml, with what its first lines say beside it.
#[test]
fn the_tap_topology_runs() {
    if !has("ip") || !has("ping") {
        return println!("skipped: the_tap_topology_runs: iproute2 and iputils-ping are not both installed");
    }
    isolated("the_tap_topology_runs", || {
        let (mut child, _stderr) = in_background("linerate up topo/tap-echo.toml --control-dir /tmp/lr-tap-echo");
        let text = std::fs::read_to_string(root().join("topo/tap-echo.toml")).unwrap();
        let setup = text.lines().find_map(|line| line.strip_prefix("#   ").filter(|line| line.starts_with("ip ")));
        assert!(run(&mut shell(setup.expect("it says how to set tap0 up"))).status.success());
        assert!(run(&mut shell("ping -c 1 10.0.0.2")).status.success());
        let (code, out) = interrupt(&mut child);
        assert_eq!((code, out.contains("imbalance           0")), (Some(0), true), "{out}");
        let _ = std::fs::remove_dir_all("/tmp/lr-tap-echo");
    });
}

#[test]
fn every_topology_is_good() {
    let mut files = 0;
    for entry in std::fs::read_dir(root().join("topo")).unwrap() {
        let path = entry.unwrap().path();
        let output = run(&mut linerate(&["up", path.to_str().unwrap(), "--check"]));
        assert!(output.status.success(), "{}: {output:?}", path.display());
        files += 1;
    }
    assert!(files >= 3, "topo/ has {files} files");
}

/// topo/router.toml forwards what its generator makes.
#[test]
fn the_router_topology_forwards() {
    let dir = std::env::temp_dir().join(format!("lr-readme-router-{}", std::process::id()));
    let up = format!("linerate up topo/router.toml --control-dir {}", dir.display());
    let (mut child, _stderr) = in_background(&up);
    let url = dir.join("router.sock").display().to_string();
    let deadline = Instant::now() + common::PATIENCE;
    loop {
        let counters = run(&mut linerate(&["netstat", "--url", &url, "-j", "-s"]));
        let counters: serde_json::Value = serde_json::from_slice(&counters.stdout).unwrap();
        if counters["inet.ip4.forwarded"].as_u64() >= Some(10) {
            break;
        }
        assert!(Instant::now() < deadline, "{counters}");
        std::thread::sleep(Duration::from_millis(20));
    }
    let (code, out) = interrupt(&mut child);
    assert_eq!((code, out.contains("imbalance           0")), (Some(0), true), "{out}");
    let _ = std::fs::remove_dir_all(&dir);
}

/// A host started by a line of shell; back when it runs.
fn in_background(line: &str) -> (Child, BufReader<ChildStderr>) {
    let line = format!("exec {line}");
    let mut child = shell(&line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut first = String::new();
    stderr.read_line(&mut first).unwrap();
    assert!(first.contains(": running"), "{first}");
    (child, stderr)
}

/// Ctrl-C: exit code and standard output.
fn interrupt(child: &mut Child) -> (Option<i32>, String) {
    // It is our own child and has not been waited for: its number cannot be anybody else's.
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let code = wait(child);
    let mut out = String::new();
    child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    (code, out)
}
