//! Runs the examples in the help of every command as they are printed.
//!
//! They run in the test's own network namespace and in a directory with the files that they use;
//! `/tmp/` in an example is replaced by that directory. An example passes if its exit code is 0.
//! Examples of the commands in [`RUNNING_ON`] may still run after [`PATIENCE`], and are then
//! interrupted.

use crate::common::{has, isolated, linerate, run_within};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Seconds that an example of [`RUNNING_ON`] runs before it is interrupted.
const PATIENCE: &str = "1.5";
/// Maximum seconds of every other example.
const END: &str = "60";
/// Maximum time of one example, including the commands before it.
const LONGEST: Duration = Duration::from_secs(240);
/// Shell code that configures the kernel's side of tap0 once a program has created it.
const TAP_UP: &str = "for i in $(seq 200); do ip link show tap0 >/dev/null 2>&1 && break; sleep 0.05; done; ip addr add 10.0.0.1/24 dev tap0; ip link set tap0 up;";

/// Examples that are not run, as a part of the line and the reason.
const NOT_RUN: &[(&str, &str)] = &[
    ("| ssh there", "needs a second machine"),
    ("| wireshark", "needs a display"),
    ("extcap --install", "installs into the user's folder; tests/extcap.rs does it in a folder of its own"),
    ("bench udp", "builds the stack for ten minutes; .ci/run does it"),
    ("bench bridge", "builds the stack for ten minutes; .ci/run does it"),
    ("gate --baseline", "needs the baseline of a bench"),
    ("lab selftest", "takes an hour; .ci/run does a short one"),
    ("livelock", "takes minutes; tests/lab.rs runs it with --quick"),
    ("dd if=", "a line of the example before it, which reads a device for ten frames"),
    ("linerate nc", "needs a web server at 10.0.0.1; tests/ask.rs has one"),
    ("http --url", "needs a web server at 10.0.0.1; tests/ask.rs has one"),
    ("nslookup --url", "needs a name server; tests/ask.rs has one"),
    ("awk '$1", "a line of the example before it, which copies a device until the end"),
    ("printf '%s", "a line of the example before it, with a frame of the reader's"),
];

/// Commands that run before an example, selected by a part of it: its first lines, or a host that
/// it needs.
const BEFORE: &[(&str, &str)] = &[
    ("curl -o /dev/null ftp", "linerate ftpd --port tap:tap0 --addr 10.0.0.2/24 & sleep 0.5; TAP_UP"),
    ("iperf3 -c 10.0.0.2", "linerate iperf3 -s --port tap:tap0 --addr 10.0.0.2/24 & sleep 0.5; TAP_UP"),
    ("redis-benchmark -h", "linerate kvd --port tap:tap0 --addr 10.0.0.2/24 & sleep 0.5; TAP_UP"),
    ("fileload -H 10.0.0.2", "linerate filed --port tap:tap0 --addr 10.0.0.2/24 & sleep 0.5; TAP_UP"),
    ("iperf3 -c 10.0.0.1", "iperf3 -s >&2 & (TAP_UP) &"),
    ("netperf -H 10.0.0.1", "linerate netserver --native & (TAP_UP) &"),
    ("kvload -H 127.0.0.1", "redis-server --port 6379 --save '' >&2 & sleep 0.5;"),
    ("curl http://10.0.0.1/", "(TAP_UP printf 'HTTP/1.0 200 OK\\r\\n\\r\\n' | nc -l -N 10.0.0.1 80) >&2 &"),
    ("nanoping 10.0.0.1", "(TAP_UP) &"),
    ("ctl --url /tmp/lr/a.sock", "linerate up topo/pair.toml --control-dir /tmp/lr & sleep 0.7;"),
    ("ctl --url /tmp/lr/s1.sock", "linerate up topo/switched-ring.toml --control-dir /tmp/lr & sleep 0.7;"),
    ("top --url a", "linerate up topo/pair.toml & sleep 0.7;"),
    (
        "/tmp/h.sock",
        "linerate host --port tap:tap0 --addr 10.0.0.2/24 --control /tmp/h.sock & sleep 0.5; TAP_UP ping -q -i 0.2 -w 9 10.0.0.2 >&2 &",
    ),
    (
        "xdp:veth0",
        "ip link add veth0 type veth peer name veth9; ip link add veth1 type veth peer name veth8; for v in 0 1 8 9; do ip link set veth$v up; done;",
    ),
    ("--diff before.folded", "echo 'main;send 10' > before.folded;"),
    ("report results", "linerate ladder udp-send --help > results/a.txt;"),
    ("put tap:tap0", "ip tuntap add dev tap0 mode tap; ip link set tap0 up;"),
    ("mkfifo in out", "rm -f in out;"),
    ("mkfifo back", "rm -f back;"),
    ("linerate mount", "mkdir -p /tmp/net;"),
];

/// Commands with an example that runs until it is interrupted, or for longer than the test waits.
const RUNNING_ON: &[&str] = &[
    "ab",
    "bridge",
    "cat",
    "count",
    "delay",
    "filed",
    "fileload",
    "ftpd",
    "gen",
    "grep",
    "host",
    "httpd",
    "iperf3",
    "kvd",
    "kvload",
    "mirror",
    "netperf",
    "netrate",
    "netserver",
    "pipe",
    "pkt",
    "profile",
    "put",
    "rate",
    "rewrite",
    "rfc2544",
    "run",
    "serve",
    "split",
    "tcpdump",
    "top",
    "why",
];

/// Exit code of timeout(1) after it has sent its signal.
const INTERRUPTED: i32 = 124;

/// Returns the words of all commands.
fn commands(dir: &Path) -> Vec<Vec<String>> {
    let pages = dir.join("man");
    assert!(linerate(&["man", pages.to_str().unwrap()]).status().unwrap().success());
    let mut found = Vec::new();
    for page in std::fs::read_dir(pages).unwrap() {
        let name = page.unwrap().file_name().into_string().unwrap();
        if !name.ends_with(".1") {
            continue; // about files, not a command
        }
        let words: Vec<String> = name.trim_end_matches(".1").split('-').skip(1).map(str::to_owned).collect();
        // A dash may be part of a command name, as in netrate tcpp-server.
        let joined = |at: usize| [&words[..at], &[words[at..].join("-")]].concat();
        found.extend((0..words.len()).rev().map(joined).find(|words| help(words).is_some()));
    }
    found.sort();
    found.dedup();
    assert!(found.len() > 50, "{found:?}");
    found
}

/// Returns the help of a command on a terminal that is so wide that no line is wrapped.
fn help(words: &[String]) -> Option<String> {
    if words.first().is_some_and(|word| word == "ministat" || word == "help") {
        return None; // FreeBSD's own text; a list of the others
    }
    let words: Vec<&str> = words.iter().map(String::as_str).chain(["--help"]).collect();
    let output = linerate(&words).env("COLUMNS", "1000").output().unwrap();
    output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
}

/// Returns the lines of shell under 'Example:' and 'Examples:'.
fn examples(help: &str) -> Vec<String> {
    let after = help.lines().skip_while(|line| !line.starts_with("Example"));
    after.filter_map(|line| Some(line.strip_prefix("  ")?.to_owned())).collect()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Creates the files that examples use.
fn prepare(dir: &Path) {
    let shell = "set -e
        for d in topo crates docs; do ln -s \"$ROOT/$d\" $d; done
        mkdir -p results run srv/files
        linerate gen -n 50 --udp 10.0.0.1:7-10.0.0.2:443 > trace.txt
        arp='00 01 08 00 06 04 00 01 02 00 00 00 00 01 0A 00 00 01 00 00 00 00 00 00 0A 00 00 02'
        ip='45 00 00 28 00 00 00 00 40 06 00 00 0A 00 00 01 0A 00 00 02'
        tcp='04 00 01 BB 00 00 00 00 00 00 00 00 50 02 00 00 00 00 00 00'
        cp trace.txt raw.txt; echo \"FFFFFFFFFFFF 122334455600 0806 $arp\" >> raw.txt
        echo \"001122334455 122334455600 0800 $ip $tcp\" >> raw.txt; linerate crc < raw.txt > trace.txt
        linerate conv -o pcap trace.txt > trace.pcap
        cp trace.txt frames.txt
        linerate gen -n 5 -t 1000 > recv.apkt
        echo 122334455600 > addresses.txt
        printf '#!/bin/sh\\nexit 0\\n' > before; cp before after; chmod +x before after";
    let output = command(dir, shell, END).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// Returns a command that runs `line` in a shell and interrupts it after `patience` seconds.
fn command(dir: &Path, line: &str, patience: &str) -> Command {
    let bin = Path::new(env!("CARGO_BIN_EXE_linerate")).parent().unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
    let mut shell = Command::new("timeout");
    shell.args(["-s", "INT", "-k", "120", patience, "bash", "-o", "pipefail", "-c", line]).current_dir(dir);
    shell.env("PATH", path).env("ROOT", root()).env("XDG_RUNTIME_DIR", dir.join("run")).env_remove("LINERATE_CTL");
    shell
}

/// Returns all examples, each with the words of its command.
fn all(dir: &Path) -> Vec<(String, String)> {
    let of = |words: Vec<String>| {
        let found = examples(&help(&words).unwrap_or_default());
        found.into_iter().map(move |example| (words.join(" "), example))
    };
    commands(dir).into_iter().flat_map(of).collect()
}

fn directory(test: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("lr-{test}-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

#[test]
fn the_tables_name_examples() {
    let dir = directory("examples");
    let all = all(&dir);
    let _ = std::fs::remove_dir_all(&dir);
    assert!(all.len() > 90, "{} examples: the pattern finds no more", all.len());
    let tables = NOT_RUN.iter().chain(BEFORE).map(|(part, _)| *part);
    let unused: Vec<&str> = tables.filter(|part| !all.iter().any(|(_, example)| example.contains(part))).collect();
    assert!(unused.is_empty(), "no example has {unused:?}");
}

/// Runs every fourth example, beginning with number `part`.
fn run_part(test: &str, part: usize) {
    if let Some(tool) = ["ip", "timeout", "bash"].into_iter().find(|tool| !has(tool)) {
        return println!("skipped: {test}: {tool} is not installed");
    }
    isolated(test, || {
        let dir = directory(test);
        prepare(&dir);
        assert!(Command::new("ip").args(["link", "set", "lo", "up"]).status().unwrap().success());
        let each = all(&dir).into_iter().skip(part).step_by(4);
        let failed: Vec<String> =
            each.filter_map(|(words, example)| run_example(&dir, &words, &example).err()).collect();
        let _ = std::fs::remove_dir_all(&dir);
        assert!(failed.is_empty(), "{}", failed.join("\n"));
    });
}

/// Runs one example, or skips it. Returns what failed.
fn run_example(dir: &Path, words: &str, example: &str) -> Result<(), String> {
    if NOT_RUN.iter().any(|(part, _)| example.contains(part)) {
        return Ok(());
    }
    let before = BEFORE.iter().find(|(part, _)| example.contains(part)).map_or("", |(_, line)| *line);
    let before = before.replace("TAP_UP", TAP_UP);
    // Programs that examples need.
    let tools = ["jq", "tshark", "redis-benchmark", "redis-server", "iperf3", "curl"];
    let whole = format!("{before} {example}");
    let names = |tool: &str| whole.split_whitespace().any(|word| word == tool);
    if let Some(tool) = tools.into_iter().find(|tool| names(tool) && !has(tool)) {
        println!("skipped: {example}: {tool} is not installed");
        return Ok(());
    }
    let clean = "kill -INT $(jobs -p) 2>/dev/null; wait; ip tuntap del dev tap0 mode tap 2>/dev/null";
    let rest = if example.ends_with('&') { "sleep 1" } else { "" };
    let line = format!("trap '{clean}' EXIT; {before} {example} {rest}");
    let line = line.replace("/tmp/", &format!("{}/", dir.display())).replace("/srv/files", "srv/files");
    let runs_on = RUNNING_ON.contains(&words);
    let output = run_within(&mut command(dir, &line, if runs_on { PATIENCE } else { END }), LONGEST);
    let printed = String::from_utf8_lossy(&output.stderr);
    let is_good = output.status.code() == Some(0) || runs_on && output.status.code() == Some(INTERRUPTED);
    if !is_good || printed.contains("panicked") || printed.contains("command not found") {
        return Err(format!("{words}: {example}\n  {:?} {printed}", output.status.code()));
    }
    Ok(())
}

#[test]
fn every_example_runs_1() {
    run_part("every_example_runs_1", 0);
}

#[test]
fn every_example_runs_2() {
    run_part("every_example_runs_2", 1);
}

#[test]
fn every_example_runs_3() {
    run_part("every_example_runs_3", 2);
}

#[test]
fn every_example_runs_4() {
    run_part("every_example_runs_4", 3);
}
