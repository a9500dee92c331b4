//! Typical uses of gen, mirror, split, delay, rate, count, top, switch, tap and nanoping, compared
//! with coreutils where possible.

use crate::common;
use crate::common::{has, isolated, linerate, run, wait};
use port::os::netlink::Netlink;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A directory of one test.
struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Dir {
        let dir = std::env::temp_dir().join(format!("lr-flow-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        Dir(dir)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[track_caller]
fn ok(line: &str) -> (String, String) {
    let words: Vec<&str> = line.split_whitespace().collect();
    let Output { status, stdout, stderr } = run(&mut linerate(&words));
    let err = String::from_utf8(stderr).unwrap();
    assert!(status.success(), "{line}: {err}");
    (String::from_utf8(stdout).unwrap(), err)
}

/// Runs `script` in a shell, with the program as $L.
#[track_caller]
fn shell(script: &str) -> String {
    let output = run(Command::new("bash").args(["-c", script]).env("L", env!("CARGO_BIN_EXE_linerate")));
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_reports_stream_is_generated_in_both_modes() {
    let (one, printed) = ok("gen --rotate -n 100");
    assert_eq!((one.len(), printed.as_str()), (16_900, "linerate: 100 frames, generated one by one\n"));
    let (again, printed) = ok("gen --rotate -n 100 --static");
    assert_eq!(one, again);
    assert!(
        printed.starts_with("linerate: 100 frames: one buffer of ") && printed.ends_with(" written repeatedly\n"),
        "{printed}"
    );
    // Half of all frames, as the pattern of the report ethpipe2013 selects.
    let five = "001111111111|002222222222|003333333333|004444444444|FFFFFFFFFFFF";
    assert_eq!(shell(&format!("$L gen --static --rotate -n 100000 2>/dev/null | grep -cE '^({five})'")), "50000\n");
    assert_eq!(shell("$L gen --static 2>/dev/null | head -c 500000000 | wc -c"), "500000000\n");
}

#[test]
fn a_gigabits_stamps_are_84_ticks_apart() {
    let script = "$L gen -n 4 -t 1000 2>/dev/null | awk '{ print $1 }'";
    assert_eq!(shell(script), "1100000000000000\n0100000000000054\n01000000000000A8\n01000000000000FC\n");
}

#[test]
fn counts_equal_those_of_wc() {
    let dir = Dir::new("count");
    let file = dir.path("frames.txt");
    std::fs::write(&file, ok("gen -n 1000 --rotate").0 + &ok("gen -n 10 -s 1518").0).unwrap();
    let wc = shell(&format!("wc -lc < {file}"));
    let sums: serde_json::Value = serde_json::from_str(&ok(&format!("count -q --json {file}")).0).unwrap();
    let expected: Vec<u64> = wc.split_whitespace().map(|word| word.parse().unwrap()).collect();
    assert_eq!((sums["frames"].as_u64(), sums["text_bytes"].as_u64()), (Some(expected[0]), Some(expected[1])));
    assert_eq!(sums["wire_bytes"], 1000 * 84 + 10 * 1538);
    let (passed, printed) = ok(&format!("count -j 2 {file}"));
    assert_eq!(passed, std::fs::read_to_string(&file).unwrap());
    assert!(printed.starts_with("linerate: 1010 frames, "), "{printed}");
}

#[test]
fn top_equals_sort_and_uniq() {
    let dir = Dir::new("top");
    let file = dir.path("frames.txt");
    let lines = (1..=30).map(|n| ok(&format!("gen -n {} --dst 0200000000{n:02x}", n * 7 % 31)).0);
    std::fs::write(&file, lines.collect::<String>()).unwrap();
    let theirs =
        shell(&format!("cut -c1-12 {file} | sort | uniq -c | sort -rn | head -5 | awk '{{ print $1, tolower($2) }}'"));
    let ours: serde_json::Value = serde_json::from_str(&ok(&format!("top -q --json -k dst -n 5 {file}")).0).unwrap();
    let ours = ours["top"].as_array().unwrap().iter();
    let ours: Vec<String> =
        ours.map(|row| format!("{} {}", row["frames"], row["dst"].as_str().unwrap().replace(':', ""))).collect();
    assert_eq!(ours, theirs.lines().collect::<Vec<_>>());
}

#[test]
fn a_mirror_copies_as_tee_and_a_split_loses_nothing() {
    let dir = Dir::new("mirror");
    let (a, b, c) = (dir.path("a.txt"), dir.path("b.pcap"), dir.path("c.txt"));
    let (made, _) = ok("gen --rotate -n 50");
    let (out, printed) = ok(&format!("gen --rotate -n 50 + mirror -t {a} -t {b}"));
    assert_eq!((&out, &dir.read("a.txt")), (&made, &made));
    assert_eq!(ok(&format!("conv -o f1 {b}")).0, made);
    assert!(printed.contains(&format!("mirror {a}: 50 frames\n")), "{printed}");
    let (out, printed) = ok(&format!("gen --rotate -n 50 + balance --by dst --seed 1 -t - -t {a} -t {c}"));
    let mut all: Vec<String> =
        [out, dir.read("a.txt"), dir.read("c.txt")].concat().lines().map(str::to_owned).collect();
    let mut expected: Vec<String> = made.lines().map(str::to_owned).collect();
    all.sort();
    expected.sort();
    assert_eq!(all, expected, "{printed}");
}

/// A target that is also the input or another target would be truncated.
#[test]
fn targets_must_be_distinct_files() {
    let dir = common::Dir::new("targets");
    let file = dir.file("in.txt", ok("gen --rotate -n 5").0);
    let before = dir.read("in.txt");
    let (name, new) = (file.as_str(), dir.path("new.txt"));
    for (line, part) in [
        (format!("split -t {name} {name}"), "the file is also read as input"),
        (format!("mirror -t {name} - < {name}"), "the file is also read as input"),
        (format!("split -t {name} < {name}"), "the file is also read as input"),
        (format!("split -t {new} -t ./new.txt {name}"), "./new.txt: the file is given twice"),
        (format!("split -t ./in.txt -t {name} < /dev/null"), "the file is given twice"),
    ] {
        let output = run(&mut dir.bash(&format!("linerate {line}")));
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && err.contains(part), "{line}: {err}");
        assert_eq!(dir.read("in.txt"), before, "{line}");
    }
    let output = run(&mut dir.bash(&format!("linerate split --by round -t /dev/null -t /dev/null {name}")));
    assert!(output.status.success(), "devices may be given twice: {output:?}");
}

#[test]
fn delays_and_rates_are_kept() {
    let begin = Instant::now();
    let (out, _) = ok("gen --rotate -n 20 + delay 300ms");
    assert!(begin.elapsed() >= Duration::from_millis(300));
    assert_eq!(out, ok("gen --rotate -n 20").0);
    let begin = Instant::now();
    let (out, _) = ok("gen -n 100 + rate -r 200pps --burst 1");
    assert!(begin.elapsed() >= Duration::from_millis(495));
    assert_eq!(out.lines().count(), 100);
    let (out, printed) = ok("gen -n 100 + rate -r 1000pps --limit 1000 --drop");
    assert_eq!(out.lines().count(), 8);
    assert!(printed.contains("rate: 8 frames passed, 92 dropped (queue full)"), "{printed}");
    let later = ok("gen -n 2 -t 1000 + delay --stamp 10ms").0;
    let stamps: Vec<&str> = later.lines().map(|line| &line[..16]).collect();
    assert_eq!(stamps, ["11000000001312D0", "0100000000131324"]);
}

/// While no frames arrive, time still passes: held frames leave, and each interval prints its line.
#[test]
fn frames_leave_while_the_input_stays_open() {
    let mut child = linerate(&["count", "-I", "0.1", "+", "delay", "50ms"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let line = ok("gen -n 1").0;
    input.write_all(line.as_bytes()).unwrap();
    let mut got = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut got).unwrap();
    assert_eq!(got, line);
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    let mut printed = String::new();
    errors.read_line(&mut printed).unwrap();
    assert!(printed.starts_with("linerate: 1 frames, 169 bytes of text, 84 on the wire in 0.1"), "{printed}");
    drop(input);
    assert_eq!(wait(&mut child), Some(0));
}

#[test]
fn invalid_arguments_are_usage_errors() {
    for (line, part) in [
        ("delay 10mz", "'10mz', column 3: expected a time"),
        ("rate -r 0", "expected a rate"),
        ("gen -s 3", "must be 18 to 262148 bytes"),
        ("gen --static -t 1000", "requires a number of frames"),
        ("gen --static + count", "--static: not supported in a pipeline"),
        ("split --by dst --both-ways -t -", "requires --by flow"),
        ("split -t - -t -", "given twice"),
        ("top -k colour", "must be one of flow, dst"),
        ("switch null:a", "at least two ports"),
        ("switch null:a --text x", "expected IN,OUT"),
        ("tap a:b", "invalid interface name"),
        ("cat - + gen -n 1", "must be the first command"),
    ] {
        let words: Vec<&str> = line.split_whitespace().collect();
        let output = run(&mut linerate(&words));
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!(
            (output.status.code(), err.contains(part), err.lines().count()),
            (Some(2), true, 1),
            "{line}: {err}"
        );
    }
}

#[test]
fn a_switch_of_captures_and_text() {
    let dir = Dir::new("switch");
    let (a, b) = (dir.path("a.pcap"), dir.path("b.txt"));
    let frames = |words: &str| ok(&format!("gen {words}")).0;
    shell(&format!("$L gen -n 3 --src 020000000001 --dst 020000000002 -o pcap > {a}"));
    std::fs::write(&b, frames("-n 2 --src 020000000002 --dst 020000000001")).unwrap();
    let out = dir.path("out.txt");
    let (_, printed) = ok(&format!("switch pcap(write={}):{a} --text {b},{out}", dir.path("a.out.pcap")));
    assert_eq!(dir.read("out.txt"), frames("-n 3 --src 020000000001 --dst 020000000002"));
    let back = ok(&format!("conv -o f1 {}", dir.path("a.out.pcap"))).0;
    assert!(back.contains(&frames("-n 2 --src 020000000002 --dst 020000000001")), "{back}");
    assert!(printed.contains("2 addresses known, 0 moved"), "{printed}");
}

#[test]
fn nanoping_without_a_peer_reports_no_reply() {
    let output = run(&mut linerate(&["nanoping", "10.0.0.1", "null:", "-c", "1", "-i", "0", "--json"]));
    let reported: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &reported["arp"], &reported["received"]), (Some(1), &false.into(), &0.into()));
}

#[test]
fn the_kernel_answers_a_nanoping() {
    isolated("the_kernel_answers_a_nanoping", || {
        let mut child = linerate(&["nanoping", "10.0.0.1", "tap(up=on):tap0", "-c", "20", "-i", "0", "--json"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut netlink = Netlink::open().unwrap();
        let begin = Instant::now();
        // Without a link there is no route, and the kernel sends no ARP request.
        while !is_up("tap0") || netlink.add_addr("tap0", Ipv4Addr::new(10, 0, 0, 1), 24).is_err() {
            assert!(begin.elapsed() < Duration::from_secs(20));
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(wait(&mut child), Some(0));
        let mut out = String::new();
        child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        let reported: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert_eq!(
            (&reported["sent"], &reported["received"], &reported["lost"]),
            (&20.into(), &20.into(), &0.into()),
            "{out}"
        );
        assert!(reported["min_ns"].as_u64() <= reported["median_ns"].as_u64() && reported["min_ns"].as_u64() > Some(0));
    });
}

/// A TAP interface through text in both directions: frames from the kernel are printed, and frames
/// that are written reach it.
#[test]
fn an_interface_of_text() {
    isolated("an_interface_of_text", || {
        if !has("ping") {
            return println!("skipped: an_interface_of_text: no ping");
        }
        let mut child = linerate(&["tap", "tap0"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut netlink = Netlink::open().unwrap();
        let begin = Instant::now();
        // Without a link there is no route, and the kernel sends no ARP request.
        while !is_up("tap0") || netlink.add_addr("tap0", Ipv4Addr::new(10, 0, 0, 1), 24).is_err() {
            assert!(begin.elapsed() < Duration::from_secs(20));
            std::thread::sleep(Duration::from_millis(5));
        }
        let mut ping =
            Command::new("ping").args(["-c", "3", "-W", "1", "10.0.0.9"]).stdout(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let requested = lines.find(|line| line.starts_with("FFFFFFFFFFFF") && line[26..].starts_with("0806")).unwrap();
        assert!(requested.contains("0A 00 00 01") && requested.contains("0A 00 00 09"), "{requested}");
        wait(&mut ping);
        drop(child.stdin.take());
        assert_eq!(wait(&mut child), Some(0));
    });
}

#[test]
fn ctrl_c_ends_the_reading_of_a_pipe() {
    for words in ["conv", "rewrite ip.ttl=3", "crc", "conv + delay 1ms", "conv -j 2", "count"] {
        let words: Vec<&str> = words.split(' ').collect();
        let mut child =
            linerate(&words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut into = child.stdin.take().unwrap();
        writeln!(into, "FFFFFFFFFFFF 0022CF63967B 8899 00").unwrap();
        // The first line that is passed on shows that the program runs.
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("FFFFFFFFFFFF"), "{words:?}: {line}");
        assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
        assert_eq!(wait(&mut child), Some(0), "{words:?}");
        drop(into);
    }
}

#[test]
fn an_endless_source_stops_with_any_stage() {
    let script = r#"timeout -s INT -k 10 1 $L gen + delay 1ms | tail -c 170 | wc -l; echo ${PIPESTATUS[0]}"#;
    let printed = shell(script);
    assert!(printed.ends_with("\n124\n"), "{printed}");
}

/// Ctrl-C ends the program while it processes a file in memory, where no read reports the end.
#[test]
fn ctrl_c_ends_the_reading_of_a_file_in_memory() {
    const LINES: usize = 100_000;
    let file = format!("/dev/shm/linerate-flow-{}", std::process::id());
    if let Err(why) = std::fs::write(&file, "FFFFFFFFFFFF 0022CF63967B 8899 00\n".repeat(LINES)) {
        return println!("skipped: {file}: {why}");
    }
    for words in [&["conv", "-o", "jsonl", &file][..], &["conv", "-j", "2", "-o", "jsonl", &file]] {
        let mut child = linerate(words).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        // The pipe is full long before the end of the file, so the rest is not written yet.
        assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
        let lines = 1 + out.lines().count();
        assert_eq!(wait(&mut child), Some(0), "{words:?}");
        assert!(lines < LINES, "{words:?}: all {lines}");
    }
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn missing_flags_of_a_joined_command_are_named() {
    let Output { status, stderr, .. } = run(&mut linerate(&["gen", "+", "rate", "10pps"]));
    assert_eq!(status.code(), Some(2));
    let printed = String::from_utf8(stderr).unwrap();
    assert!(printed.contains("not provided: --rate <RATE>; see 'linerate rate --help'"), "{printed}");
}

#[test]
fn a_pipeline_that_never_started_reports_nothing() {
    let Output { status, stdout, stderr } = run(&mut linerate(&["crc", "/nobody/has/this"]));
    assert_eq!((status.code(), stdout.len()), (Some(1), 0));
    let printed = String::from_utf8(stderr).unwrap();
    assert_eq!(printed, "linerate: /nobody/has/this: No such file or directory (os error 2)\n");
}

/// Returns whether the interface is up.
fn is_up(name: &str) -> bool {
    port::os::link::status(name).is_ok_and(|link| link.up)
}
