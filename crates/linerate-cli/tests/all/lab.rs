//! The measuring commands as a user runs them: output files, Ctrl-C, few rounds, the self-test.

use crate::common::{Dir, has, linerate, printed, run};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A short comparison: two runs of true(1) in each round.
const SHORT: [&str; 6] = ["ab", "--a", "true", "--b", "true", "--rounds"];

fn short(rounds: &str, more: &[&str]) -> (Option<i32>, String, String) {
    let words = [&SHORT[..], &[rounds], more, &["--", "{}"]].concat();
    printed(&run(&mut linerate(&words)))
}

#[test]
fn a_run_without_one_figure_fails() {
    let words = ["ab", "--a", "x", "--b", "y", "--rounds", "1", "--", "/nonexistent/{}"];
    let (code, out, err) = printed(&run(&mut linerate(&words)));
    assert_eq!(code, Some(1), "{out}{err}");
    assert!(out.contains("cannot start /nonexistent/x") && err.contains("nothing was measured"), "{out}{err}");
}

#[test]
fn the_self_test_counts_every_kind_of_row() {
    let words = ["lab", "selftest", "--comparisons", "6", "--rounds", "2", "--quick", "--json"];
    let (code, out, err) = printed(&run(&mut linerate(&words)));
    let json: Value = serde_json::from_str(&out).unwrap_or_else(|why| panic!("{why}: {out}{err}"));
    assert_eq!((json["comparisons"].as_u64(), json["planted"].as_u64()), (Some(6), Some(6)), "{json}");
    assert_eq!((json["firm"].as_u64(), json["found"].as_u64()), (Some(0), Some(0)), "two builds show nothing");
    assert!(json["covered"].is_u64());
    let kinds: Vec<&str> = json["kinds"].as_array().unwrap().iter().filter_map(|kind| kind["kind"].as_str()).collect();
    assert!(
        ["ladder", "bench", "repro", "ab"].iter().all(|command| kinds.iter().any(|kind| kind.starts_with(command)))
    );
    // No planted difference was found. With six planted differences, this is beyond chance.
    assert_eq!(code, Some(1), "{err}");
    let (code, out, _) = printed(&run(&mut linerate(&["lab", "selftest", "--comparisons", "0"])));
    assert_eq!((code, out.as_str()), (Some(2), ""));
}

#[test]
fn output_files_are_opened_before_anything_is_measured() {
    let begun = Instant::now();
    for line in [
        "bench udp --svg",
        "bench udp --trials",
        "livelock --svg",
        "rfc2544 --svg",
        "profile -- testtool -c 1000000000 send --svg",
    ] {
        let mut words: Vec<&str> = line.split(' ').collect();
        let flag = words.pop().unwrap();
        let at = words.iter().position(|word| *word == "--").unwrap_or(words.len());
        words.splice(at..at, [flag, "/nonexistent/file"]);
        let (code, out, err) = printed(&run(&mut linerate(&words)));
        assert_eq!((code, out.as_str()), (Some(1), ""), "{line}");
        assert!(err.starts_with(&format!("linerate: {flag} /nonexistent/file: No such file")), "{err}");
    }
    assert!(begun.elapsed() < Duration::from_secs(20), "nothing was measured");
}

#[test]
fn a_nonexistent_core_is_a_usage_error() {
    for line in ["bench udp", "ladder udp-send", "lab selftest", "livelock"] {
        let words: Vec<&str> = line.split(' ').chain(["--core", "999"]).collect();
        let (code, out, err) = printed(&run(&mut linerate(&words)));
        assert_eq!((code, out.as_str()), (Some(2), ""), "{line}");
        assert!(err.contains("--core") && err.contains("core is not in this process's affinity mask"), "{err}");
    }
}

#[test]
fn a_full_disk_costs_the_file_and_not_the_table() {
    let (code, out, err) = short("8", &["--trials", "/dev/full"]);
    assert!(out.contains("against the row before") && out.contains("true"), "{out}");
    assert_eq!(
        (code, err.as_str()),
        (Some(1), "linerate: --trials /dev/full: No space left on device (os error 28)\n")
    );
}

#[test]
fn every_trial_is_kept_if_asked() {
    let dir = Dir::new("trials");
    let file = dir.path("trials.jsonl");
    let (code, _, err) = short("8", &["--trials", &file]);
    assert_eq!(code, Some(0), "{err}");
    let lines: Vec<Value> =
        fs::read_to_string(&file).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kept = |id: &str| lines.iter().filter(|line| line["id"] == id && line["kept"] == true).count();
    assert_eq!([kept("a"), kept("b"), kept("a (twin)")], [8, 8, 8], "one trial a build");
    assert!(lines.iter().all(|line| line["round"].is_u64() && line["reading"]["wall_ns"].is_u64()));
}

#[test]
fn few_rounds_give_no_verdict() {
    for (rounds, interval) in [("1", ""), ("3", "..")] {
        let (code, out, _) = short(rounds, &[]);
        let row = out.lines().find(|line| line.starts_with("b  ")).unwrap().to_owned();
        assert!(code == Some(0) && row.contains("inconclusive (too few builds)"), "{row}");
        assert!(!row.contains('[') && row.contains(interval), "{row}");
    }
}

#[test]
fn a_command_that_fails_is_a_row_with_a_reason() {
    let words = ["ab", "--a", "true", "--b", "echo no room >&2; exit 3", "--rounds", "8", "--", "{}"];
    let (code, out, _) = printed(&run(&mut linerate(&words)));
    let row = out.lines().find(|line| line.starts_with("b  ")).unwrap().to_owned();
    assert!(code == Some(0) && row.contains("no room") && row.contains("exit status: 3"), "{row}");
    let row = out.lines().find(|line| line.starts_with("a  ")).unwrap().to_owned();
    assert!(row.contains("ms") && !row.contains("inconclusive"), "the other side has its figure: {row}");
}

#[test]
fn an_interrupted_run_prints_the_finished_rows() {
    let words = ["ab", "--a", "sleep 0.05", "--b", "sleep 0.05", "--rounds", "10000", "--", "{}"];
    for to in [To::Process, To::Group] {
        let (out, err) = interrupted(&words, to);
        assert!(out.contains("fewer rounds than requested: interrupted") && out.contains("sleep 0.05"), "{out}");
        assert!(out.lines().any(|line| line.starts_with("b  ") && line.contains(" ms")), "a round was finished: {out}");
        assert!(err.contains("interrupted: only finished rows"), "{err}");
    }
    let (out, err) = interrupted(&["livelock", "--quick", "--rounds", "1000"], To::Process);
    assert!(out.contains("note: interrupted") && err.contains("interrupted: the figures"), "{out}{err}");
}

/// An interrupt also ends a part whose work is not in rounds, or runs in a separate process in a
/// namespace. A trial that runs another program ends with that program.
#[test]
fn an_interrupt_ends_every_part_within_seconds() {
    let mut commands = vec![
        ("repro ethpipe2013 --quick", To::Group),
        ("bench bridge --quick", To::Process),
        ("repro netisr2005", To::Process),
    ];
    match (port::os::netns::available(), has("redis-benchmark") && has("redis-server")) {
        (Ok(()), true) => commands.push(("bench services", To::Process)),
        (Err(why), _) => println!("skipped: bench services: {why}"),
        _ => println!("skipped: bench services: redis is not installed"),
    }
    for (command, to) in commands {
        let words: Vec<&str> = command.split(' ').collect();
        let (out, err) = interrupted(&words, to);
        assert!(
            out.contains("interrupted") && err.contains("interrupted: only finished rows"),
            "{command}: {out}{err}"
        );
    }
}

/// The process in the namespace ends when the process outside ends, even if that one was killed.
#[test]
fn a_killed_bench_of_services_leaves_no_process() {
    if let Err(why) = port::os::netns::available() {
        return println!("skipped: bench services: {why}");
    }
    if !has("redis-benchmark") || !has("redis-server") {
        return println!("skipped: bench services: redis is not installed");
    }
    let mut outer = linerate(&["bench", "services"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    std::thread::sleep(Duration::from_secs(3));
    let children = format!("/proc/{0}/task/{0}/children", outer.id());
    let inner: Vec<String> = fs::read_to_string(children).unwrap().split_whitespace().map(str::to_owned).collect();
    assert_eq!(inner.len(), 1, "{inner:?}");
    outer.kill().unwrap();
    outer.wait().unwrap();
    let until = Instant::now() + Duration::from_secs(40);
    // If the process number has been reused by now, the check ends after this time.
    while fs::read_to_string(format!("/proc/{}/cmdline", inner[0])).is_ok_and(|line| line.contains("services")) {
        assert!(Instant::now() < until, "process {} goes on", inner[0]);
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Receiver of the signal.
#[derive(Clone, Copy)]
enum To {
    /// Only the process.
    Process,
    /// The process and its children, as Ctrl-C in a terminal does.
    Group,
}

/// Interrupts a measurement after three seconds. Checks exit code 1 and returns the output.
fn interrupted(words: &[&str], to: To) -> (String, String) {
    let mut command = linerate(words);
    let child = command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_secs(3));
    // The child has not been waited for, so its process id is not reused.
    let (process, group) = (child.id().to_string(), format!("-{}", child.id()));
    let id = match to {
        To::Process => &process,
        To::Group => &group,
    };
    assert!(Command::new("kill").args(["-INT", "--", id]).status().unwrap().success());
    let (done, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || done.send(child.wait_with_output())); // reads both pipes
    let Ok(output) = ended.recv_timeout(Duration::from_secs(40)) else {
        // The child has not been waited for, so the number is still that of its group.
        let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
        panic!("it goes on");
    };
    let output = output.unwrap();
    let (code, out, err) = printed(&output);
    assert_eq!(code, Some(1), "{err}");
    (out, err)
}

#[test]
fn a_rung_of_another_build_needs_the_source_tree() {
    let words = ["ladder", "udp-send", "--quick", "--rounds", "1", "--json", "--source", "/nonexistent"];
    let (code, out, err) = printed(&run(&mut linerate(&words)));
    let json: Value = serde_json::from_str(&out).unwrap_or_else(|why| panic!("{why}: {err}"));
    let row = |id: &str| json["rows"].as_array().unwrap().iter().find(|row| row["id"] == id).unwrap().clone();
    assert!(row("2.static")["missing"].as_str().unwrap().contains("--source /nonexistent: not a source tree"));
    assert!(row("4.locks_up")["now"]["median"].is_f64());
    assert_eq!(code, Some(0));
}

/// A command that hangs in its third run ends the study at the time limit. The report is JSON, the
/// trials file contains the complete rounds, and the command is killed.
#[test]
fn a_hanging_command_ends_the_study_with_what_was_measured() {
    let dir = Dir::new("hang");
    let (trials, runs, alone) = (dir.path("trials.jsonl"), dir.path("runs"), dir.path("process"));
    // There are two processes: the shell, and the sleep that it waits for.
    let hangs = format!("echo >> {runs}; [ $(wc -l < {runs}) -lt 3 ] || {{ echo $$ > {alone}; sleep 1000; true; }}");
    let words = ["ab", "--a", "true", "--b", &hangs, "--rounds", "8", "--limit", "2", "--json", "--trials", &trials];
    let (code, out, err) = printed(&run(&mut linerate(&[&words[..], &["--", "{}"]].concat())));
    let why = "b exceeded the time limit of 2 s";
    assert_eq!(code, Some(1), "{out}{err}");
    assert_eq!(err, format!("linerate: {why}; the rows above are complete\n"));
    let json: Value = serde_json::from_str(&out).unwrap_or_else(|why| panic!("{why}: {out}"));
    assert_eq!((json["name"].as_str(), json["rows"].as_array().map(Vec::len)), (Some("ab"), Some(0)), "{json}");
    assert!(json["notes"].to_string().contains(&format!("incomplete: {why}")), "{json}");
    let text = fs::read_to_string(&trials).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(text.ends_with('\n'), "complete lines: {text}");
    for side in ["a", "a (twin)", "b"] {
        let rounds = |line: &&Value| line["id"] == side && line["kept"] == true;
        let rounds: Vec<_> = lines.iter().filter(rounds).map(|line| line["round"].as_u64().unwrap()).collect();
        assert_eq!(rounds, [0, 1], "{side}: {text}");
    }
    let shell = fs::read_to_string(&alone).unwrap();
    let goes_on =
        || fs::read_to_string(format!("/proc/{}/stat", shell.trim())).is_ok_and(|stat| !stat.contains(") Z "));
    let until = Instant::now() + Duration::from_secs(10);
    while goes_on() {
        assert!(Instant::now() < until, "process {shell} goes on");
        std::thread::sleep(Duration::from_millis(20));
    }
    let (code, out, _) = printed(&run(&mut linerate(&["bench", "udp", "--limit", "0"])));
    assert_eq!((code, out.as_str()), (Some(2), ""));
}

/// Lock of the measuring process in its own directory, held by flock(1) until dropped.
struct Held {
    dir: Dir,
    child: Child,
}

impl Held {
    fn new(name: &str) -> Held {
        let dir = Dir::new(name);
        let mut flock = Command::new("flock");
        flock.arg(dir.path("linerate-measuring.lock")).args(["-c", "echo held; cat"]);
        let mut child = flock.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut held = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut held).unwrap();
        assert_eq!(held, "held\n");
        Held { dir, child }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        drop(self.child.stdin.take()); // ends cat(1)
        self.child.wait().unwrap();
    }
}

const BESIDE: &str = "WARNING: another linerate is measuring on this machine";

/// Runs `line` with the measuring lock in `dir`.
fn measured_in(dir: &Dir, line: &str) -> (Option<i32>, String, String) {
    let words: Vec<&str> = line.split(' ').collect();
    printed(&run(linerate(&words).env("TMPDIR", dir.path(""))))
}

/// Runs commands that print a measured figure while another measurement is running. A text report
/// is on standard output or standard error with a warning, and JSON has the key `env` and, unless
/// it is a report with rows, `warnings`.
#[test]
fn every_command_with_a_figure_warns_of_another_measurement() {
    let held = Held::new("measured-beside");
    for line in [
        "testtool -c 1000 send",
        "profile -- testtool -c 1000 send",
        "profile --folded -- testtool -c 1000 send",
        "netperf -t TCP_RR -l -50",
        "netrate tcpconnect -l 0.05",
        "netrate netblast -l 0.05",
        "netrate juggle --cycles 10",
        "netrate juggle --descriptors --cycles 10",
        "netrate tcpp -b 100 -m 1",
        "netrate http -n 1 -s 0.05",
        "kvload -l 0.05 -c 1 -n 100",
        "fileload -l 0.05 -c 1 -n 10",
        "ab --a true --b true --rounds 1 -- {}",
    ] {
        let (code, out, err) = measured_in(&held.dir, line);
        assert_eq!(code, Some(0), "{line}: {err}");
        assert!(out.contains(BESIDE) || err.contains(BESIDE), "{line}: {out}{err}");
    }
    for line in [
        "testtool -j -c 1000 send",
        "profile -j -- testtool -c 1000 send",
        "netperf -j -t TCP_RR -l -50",
        "kvload -j -l 0.05 -c 1 -n 100",
        "fileload -j -l 0.05 -c 1 -n 10",
        "nanoping --json 10.0.0.1 null: -c 1 -i 0 -W 0.01",
    ] {
        let (_, out, err) = measured_in(&held.dir, line);
        let json: Value = serde_json::from_str(&out).unwrap_or_else(|why| panic!("{line}: {why}: {out}{err}"));
        assert_eq!(json["env"]["measured_beside"], true, "{line}: {json}");
        assert!(json["warnings"].to_string().contains(BESIDE), "{line}: {json}");
    }
    let (_, out, _) = measured_in(&held.dir, "ab --json --a true --b true --rounds 1 -- {}");
    let json: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(json["env"]["measured_beside"], true, "{json}");
}

/// A command that another measurement runs is not a second measurement, whether it runs in the same
/// process, in a namespace, or as the command line of `ab`.
#[test]
fn parts_of_a_measurement_do_not_warn_of_each_other() {
    let dir = Dir::new("measured-alone");
    let mut lines = vec!["testtool -c 1000 send", "profile -- testtool -c 1000 send", "netperf -t TCP_RR -l -50"];
    match port::os::netns::available() {
        Ok(()) => lines.extend(["netperf -t TCP_RR -l -50 --over veth", "netrate tcpconnect -l 0.05 --over veth"]),
        Err(why) => println!("skipped: over veth: {why}"),
    }
    for line in lines {
        let (code, out, err) = measured_in(&dir, line);
        assert_eq!(code, Some(0), "{line}: {err}");
        assert!(err.contains("\nbuild   ") && !out.contains(BESIDE) && !err.contains(BESIDE), "{line}: {out}{err}");
    }
    // The side fails if its command prints a warning.
    let program = env!("CARGO_BIN_EXE_linerate");
    let side = format!("! {program} testtool -c 1000 send 2>&1 | grep 'another linerate'");
    let words = ["ab", "--a", &side, "--b", "true", "--rounds", "1", "--json", "--", "{}"];
    let (_, out, err) = printed(&run(linerate(&words).env("TMPDIR", dir.path(""))));
    let json: Value = serde_json::from_str(&out).unwrap_or_else(|why| panic!("{why}: {err}"));
    assert!(json["rows"][0]["now"]["median"].is_f64(), "{json}");
}
