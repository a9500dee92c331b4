//! The measuring commands from outside: output files, Ctrl-C, few rounds, the self-test.

mod common;

use common::{Dir, has, linerate, run, said};
use serde_json::Value;
use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A short comparison: two runs of true(1) in each round.
const SHORT: [&str; 6] = ["ab", "--a", "true", "--b", "true", "--rounds"];

fn short(rounds: &str, more: &[&str]) -> (Option<i32>, String, String) {
    let words = [&SHORT[..], &[rounds], more, &["--", "{}"]].concat();
    said(&run(&mut linerate(&words)))
}

#[test]
fn a_run_without_one_figure_fails() {
    let words = ["ab", "--a", "x", "--b", "y", "--rounds", "1", "--", "/nonexistent/{}"];
    let (code, out, err) = said(&run(&mut linerate(&words)));
    assert_eq!(code, Some(1), "{out}{err}");
    assert!(out.contains("cannot start /nonexistent/x") && err.contains("nothing was measured"), "{out}{err}");
}

#[test]
fn the_self_test_counts_every_kind_of_row() {
    let words = ["lab", "selftest", "--comparisons", "6", "--rounds", "2", "--quick", "--json"];
    let (code, out, err) = said(&run(&mut linerate(&words)));
    let json: Value = serde_json::from_str(&out).unwrap_or_else(|why| panic!("{why}: {out}{err}"));
    assert_eq!((json["comparisons"].as_u64(), json["planted"].as_u64()), (Some(6), Some(6)), "{json}");
    assert_eq!((json["firm"].as_u64(), json["found"].as_u64()), (Some(0), Some(0)), "two builds show nothing");
    assert!(json["covered"].is_u64());
    let kinds: Vec<&str> = json["kinds"].as_array().unwrap().iter().filter_map(|kind| kind["kind"].as_str()).collect();
    assert!(
        ["ladder", "bench", "repro", "ab"].iter().all(|command| kinds.iter().any(|kind| kind.starts_with(command)))
    );
    // No planted difference was found: with six of them that is beyond chance.
    assert_eq!(code, Some(1), "{err}");
    let (code, out, _) = said(&run(&mut linerate(&["lab", "selftest", "--comparisons", "0"])));
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
        let (code, out, err) = said(&run(&mut linerate(&words)));
        assert_eq!((code, out.as_str()), (Some(1), ""), "{line}");
        assert!(err.starts_with(&format!("linerate: {flag} /nonexistent/file: No such file")), "{err}");
    }
    assert!(begun.elapsed() < Duration::from_secs(20), "nothing was measured");
}

#[test]
fn a_core_that_is_not_there_is_a_usage_error() {
    for line in ["bench udp", "ladder udp-send", "lab selftest", "livelock"] {
        let words: Vec<&str> = line.split(' ').chain(["--core", "999"]).collect();
        let (code, out, err) = said(&run(&mut linerate(&words)));
        assert_eq!((code, out.as_str()), (Some(2), ""), "{line}");
        assert!(err.contains("--core") && err.contains("no such core for this program, which runs on"), "{err}");
    }
}

#[test]
fn a_full_disk_costs_the_file_and_not_the_table() {
    let (code, out, err) = short("8", &["--trials", "/dev/full"]);
    assert!(out.contains("against the one before") && out.contains("true"), "{out}");
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
fn few_rounds_claim_nothing() {
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
    let (code, out, _) = said(&run(&mut linerate(&words)));
    let row = out.lines().find(|line| line.starts_with("b  ")).unwrap().to_owned();
    assert!(code == Some(0) && row.contains("no room") && row.contains("exit status: 3"), "{row}");
    let row = out.lines().find(|line| line.starts_with("a  ")).unwrap().to_owned();
    assert!(row.contains("ms") && !row.contains("inconclusive"), "the other side has its figure: {row}");
}

#[test]
fn interrupted_it_prints_the_rows_that_were_finished() {
    let words = ["ab", "--a", "sleep 0.05", "--b", "sleep 0.05", "--rounds", "10000", "--", "{}"];
    for to in [To::Process, To::Group] {
        let (out, err) = interrupted(&words, to);
        assert!(out.contains("fewer rounds than asked for: interrupted") && out.contains("sleep 0.05"), "{out}");
        assert!(out.lines().any(|line| line.starts_with("b  ") && line.contains(" ms")), "a round was finished: {out}");
        assert!(err.contains("interrupted: the rows above"), "{err}");
    }
    let (out, err) = interrupted(&["livelock", "--quick", "--rounds", "1000"], To::Process);
    assert!(out.contains("note: interrupted") && err.contains("interrupted: the figures above"), "{out}{err}");
}

/// Also where the work of a part is not in rounds, or in a process of its own in a namespace. A
/// trial that is another program's run ends with that program.
#[test]
fn interrupted_in_any_part_it_ends_within_seconds() {
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
        assert!(out.contains("interrupted") && err.contains("interrupted: the rows above"), "{command}: {out}{err}");
    }
}

/// The process in the namespace ends with the one outside, also if that one was killed.
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
    // A number that another process has by now is not asked for longer than that.
    while fs::read_to_string(format!("/proc/{}/cmdline", inner[0])).is_ok_and(|line| line.contains("services")) {
        assert!(Instant::now() < until, "process {} goes on", inner[0]);
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Receiver of the signal.
#[derive(Clone, Copy)]
enum To {
    /// The process alone.
    Process,
    /// The process and its children, as a terminal's Ctrl-C.
    Group,
}

/// Interrupts a measurement after three seconds; returns its output, and checks exit code 1.
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
        // It was not waited for: the number is its group's still.
        let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
        panic!("it goes on");
    };
    let output = output.unwrap();
    let (code, out, err) = said(&output);
    assert_eq!(code, Some(1), "{err}");
    (out, err)
}

#[test]
fn a_rung_of_another_build_needs_the_source_tree() {
    let words = ["ladder", "udp-send", "--quick", "--rounds", "1", "--json", "--source", "/nonexistent"];
    let (code, out, err) = said(&run(&mut linerate(&words)));
    let json: Value = serde_json::from_str(&out).unwrap_or_else(|why| panic!("{why}: {err}"));
    let row = |id: &str| json["rows"].as_array().unwrap().iter().find(|row| row["id"] == id).unwrap().clone();
    assert!(row("2.static")["missing"].as_str().unwrap().contains("--source /nonexistent: not a source tree"));
    assert!(row("4.locks_up")["now"]["median"].is_f64());
    assert_eq!(code, Some(0));
}
