//! Runs the code blocks of README.md as they are, and the topologies.

use crate::common;
use crate::common::{has, isolated, linerate, run, run_within, wait};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Returns the lines of the code blocks under the heading `## title` of README.md.
fn code_under(title: &str) -> Vec<String> {
    let text = std::fs::read_to_string(root().join("README.md")).unwrap();
    let section = text.split("\n## ").find(|section| section.lines().next() == Some(title));
    let section = section.unwrap_or_else(|| panic!("README.md has no heading '{title}'"));
    section.lines().filter_map(|line| Some(line.strip_prefix("    ")?.to_string())).collect()
}

/// Returns a command that runs a shell line with the built program as `linerate`.
fn shell(line: &str) -> Command {
    let bin = Path::new(env!("CARGO_BIN_EXE_linerate")).parent().unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    let mut shell = Command::new("sh");
    shell.args(["-c", line]).env("PATH", format!("{}:{path}", bin.display())).env_remove("LINERATE_CTL");
    shell.current_dir(root());
    shell
}

/// Runs the block under `title` in a shell, then `after`. Returns the output. `/tmp` is replaced by
/// a directory of the test.
fn paste(title: &str, after: &str) -> String {
    let dir = std::env::temp_dir().join(format!("lr-readme-{}-{}", title.replace(' ', "-"), std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let lines = code_under(title).join("\n").replace("/tmp/", &format!("{}/", dir.display()));
    let output = run(&mut shell(&format!("{lines}\n{after}")));
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let _ = std::fs::remove_dir_all(&dir);
    assert!(output.status.success(), "{lines}\n{out}{err}");
    for line in err.lines() {
        assert!(!line.contains("Cannot find device") && !line.contains("no host answers"), "{lines}\n{err}");
    }
    out.into_owned()
}

/// Maximum time of the first command, in which cargo builds the stack in five variants.
const BUILDING: Duration = Duration::from_secs(900);

/// Runs the first of the two commands with few trials. The second command runs this test itself, so
/// it is not run here.
#[test]
fn two_commands() {
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

/// The block "Frames as lines": each command prints the comments below it.
#[test]
fn frames_as_lines() {
    let lines = code_under("Frames as lines");
    let (expected, commands): (Vec<&String>, Vec<&String>) = lines.iter().partition(|line| line.starts_with('#'));
    assert_eq!((commands.len(), expected.len()), (3, 6));
    let pasted = paste("Frames as lines", "");
    let expected: Vec<&str> = expected.iter().map(|line| line.trim_start_matches("# ")).collect();
    assert_eq!(pasted.lines().collect::<Vec<_>>(), expected);
}

/// The block "On your PATH", except for the build. The program is found in the build profile of
/// this test.
#[test]
fn on_your_path() {
    let lines = code_under("On your PATH");
    let [build, export, version] = &lines[..] else { panic!("three lines: {lines:?}") };
    assert_eq!(build, "cargo build --release");
    let bin = Path::new(env!("CARGO_BIN_EXE_linerate")).parent().unwrap();
    let profile = bin.file_name().unwrap().to_str().unwrap();
    let line = format!("PATH=/usr/bin:/bin; {}; {version}", export.replace("release", profile));
    let output = run(Command::new("sh").args(["-c", &line]).current_dir(bin.join("../..")));
    assert!(output.stdout.starts_with(b"linerate "), "{line}: {output:?}");
}

/// Sections whose blocks are run, with the name of the test, and other sections, with the reason.
const BLOCKS: &[(&str, Option<&str>)] = &[
    ("Two commands", None),
    ("On your PATH", None),
    ("FTP over our TCP", None),
    ("Frames as lines", None),
    ("A host on a TAP", None),
    ("A bridge", None),
    ("A router between two hosts", None),
    ("RFC 2544 between two ports", None),
    ("For developers", Some("parts of .ci/run")),
];

/// A new section with a block needs a test or a reason.
#[test]
fn every_block_is_taken() {
    let text = std::fs::read_to_string(root().join("README.md")).unwrap();
    let has_block = |section: &&str| section.lines().any(|line| line.starts_with("    "));
    let sections = text.split("\n## ").skip(1).filter(has_block).filter_map(|section| section.lines().next());
    assert_eq!(sections.collect::<Vec<_>>(), BLOCKS.iter().map(|(title, _)| *title).collect::<Vec<_>>());
    let tests = include_str!("readme.rs");
    for (title, reason) in BLOCKS {
        let test = format!("fn {}()", title.to_lowercase().replace(' ', "_"));
        assert!(reason.is_some() || tests.contains(&test), "{title}: no test {test}");
    }
    let ci = std::fs::read_to_string(root().join(".ci/run")).unwrap();
    for line in code_under("For developers") {
        let part = line.split_whitespace().nth(2).unwrap();
        assert!(ci.contains(part) || ["bench", "miri"].contains(&part), "{line}: not in .ci/run");
    }
}

/// The block "A host on a TAP", line for line.
#[test]
fn a_host_on_a_tap() {
    if !has("ip") || !has("ping") {
        return println!("skipped: a_host_on_a_tap: iproute2 and iputils-ping are not both installed");
    }
    isolated("a_host_on_a_tap", || {
        let printed = paste("A host on a TAP", "kill -INT $!; wait");
        assert!(printed.contains(" 0% packet loss"), "{printed}");
        assert!(printed.contains("? (10.0.0.1) at ") && printed.contains(" on tap0 "), "{printed}");
        assert_eq!(printed.matches("imbalance           0").count(), 2, "{printed}");
    });
}

/// The block "A bridge", line for line.
#[test]
fn a_bridge() {
    isolated("a_bridge", || {
        let printed = paste("A bridge", "kill -INT $!; wait");
        for part in ["2: tap1: <", "state blocking", "loop 0: adaptive, polls tap0 tap1", "0 late"] {
            assert!(printed.contains(part), "no '{part}' in\n{printed}");
        }
    });
}

/// The block "A router between two hosts", with the sockets in another directory.
#[test]
fn a_router_between_two_hosts() {
    let printed = paste("A router between two hosts", "kill -INT $!; wait");
    for part in [
        "TCP REQUEST/RESPONSE TEST",
        "no check drops the packet",
        "net.isr.dispatch: direct -> deferred",
        "Dispatch policy               deferred",
    ] {
        assert!(printed.contains(part), "no '{part}' in\n{printed}");
    }
    // Three commands in virtual time, three at the end.
    assert_eq!(printed.matches("imbalance           0").count(), 6, "{printed}");
}

/// The block "RFC 2544 between two ports", with fewer trials. A bridge of the kernel connects the
/// TAPs.
#[test]
fn rfc_2544_between_two_ports() {
    if !has("ip") {
        return println!("skipped: rfc_2544_between_two_ports: iproute2 is not installed");
    }
    isolated("rfc_2544_between_two_ports", || {
        let lines = code_under("RFC 2544 between two ports");
        let [memory, taps] = &lines[..] else { panic!("two lines: {lines:?}") };
        let bridge = "ip link add br0 type bridge; ip link set br0 up; for t in tap0 tap1; do ip tuntap add $t mode tap; \
                      ip link set $t master br0 up; done";
        let taps = taps.replace("--duration 10s", "--duration 200ms --size 64");
        for line in [format!("{memory} --test throughput,latency"), format!("{bridge}; {taps}")] {
            let output = run(&mut shell(&line));
            let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            assert!(output.status.success(), "{line}\n{out}{err}");
            assert!(out.contains("throughput (26.1)") && out.contains("latency (26.2)"), "{line}\n{out}");
        }
    });
}

/// The block "FTP over our TCP", line for line.
#[test]
fn ftp_over_our_tcp() {
    if !has("ip") || !has("curl") {
        return println!("skipped: ftp_over_our_tcp: iproute2 and curl are not both installed");
    }
    isolated("ftp_over_our_tcp", || {
        // The first curl ends by its time limit, since /dev/zero has no end: exit code 28.
        let printed = paste("FTP over our TCP", "echo \"the last: $?\"; kill -INT $!; wait");
        assert!(printed.contains("the last: 0\n") && printed.contains("imbalance           0"), "{printed}");
    });
}

/// Runs topo/tap-echo.toml with the commands in its first lines.
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

/// topo/router.toml forwards the frames of its generator.
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

/// Starts a host by a shell line, and returns when it runs.
fn in_background(line: &str) -> (Child, BufReader<ChildStderr>) {
    let line = format!("exec {line}");
    let mut child = shell(&line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut first = String::new();
    stderr.read_line(&mut first).unwrap();
    assert!(first.contains(": running"), "{first}");
    (child, stderr)
}

/// Sends Ctrl-C. Returns exit code and standard output.
fn interrupt(child: &mut Child) -> (Option<i32>, String) {
    // The child has not been waited for, so its process number is not reused.
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let code = wait(child);
    let mut out = String::new();
    child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    (code, out)
}
