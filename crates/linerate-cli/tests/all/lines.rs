//! Pipeline commands with the usual tools between them: cat, put, pipe, conv, grep, and several in
//! one process.

use crate::common::{has, linerate, run};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A directory of one test, which is removed at its end.
struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Dir {
        Dir::under(&std::env::temp_dir(), name)
    }

    fn under(parent: &Path, name: &str) -> Dir {
        let dir = parent.join(format!("linerate-lines-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        Dir(dir)
    }

    fn file(&self, name: &str, bytes: &[u8]) -> String {
        let path = self.0.join(name);
        fs::write(&path, bytes).unwrap();
        path.display().to_string()
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs a shell line with the program as `linerate`.
fn sh(line: &str) -> Output {
    let bin = Path::new(env!("CARGO_BIN_EXE_linerate")).parent().unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    run(Command::new("bash").args(["-c", line]).env("PATH", format!("{}:{path}", bin.display())).env("LC_ALL", "C"))
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns `count` lines as a generator writes them, with ten destinations in turn.
fn frames(count: usize) -> Vec<u8> {
    let output = sh(&format!("linerate cat -c {count} 'pktgen(rotate=on,size=18,flows=100):'"));
    assert_eq!(output.stdout.len(), 169 * count);
    output.stdout
}

fn fed(args: &[&str], input: &[u8]) -> Output {
    let mut child = linerate(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let feeder = std::thread::spawn(move || {
        // A program that needs no more input closes its end of the pipe.
        let _ = stdin.write_all(&input);
    });
    let output = child.wait_with_output().unwrap();
    feeder.join().unwrap();
    output
}

#[test]
fn every_format_converts_to_every_other_and_back() {
    let lines = frames(1000);
    for form in ["bin1", "bin2", "pcap", "pcapng", "jsonl", "f1", "f2"] {
        let other = fed(&["conv", "-o", form], &lines);
        assert!(other.status.success() && other.stderr.is_empty(), "{form}");
        let back = fed(&["conv", "-o", "f1"], &other.stdout);
        assert!(back.stdout == lines, "{form}");
        // With several threads, the order is kept.
        let spread = fed(&["conv", "-o", form, "-j", "3"], &lines);
        assert!(spread.stdout == other.stdout, "{form}");
    }
}

#[test]
fn captures_are_read_by_tcpdump() {
    if !has("tcpdump") {
        println!("skipped: tcpdump is not installed");
        return;
    }
    let output = sh("linerate cat -c 50 -o pcapng 'pktgen(size=18):' | tcpdump -nr - 2>/dev/null");
    assert_eq!(
        text(&output).lines().filter(|line| line.contains("1.0.0.2.12345 > 1.0.0.1.54321: UDP, length 18")).count(),
        50
    );
    let dir = Dir::new("tcpdump");
    let pcap = fed(&["conv", "-o", "pcap"], &frames(500)).stdout;
    let file = dir.file("some.pcap", &pcap);
    for filter in ["udp port 10007", "ether dst 00:33:33:33:33:33", "ip[8] < 6 and not broadcast", "tcp"] {
        let theirs = sh(&format!("tcpdump -nr {file} '{filter}' 2>/dev/null | wc -l"));
        let ours = sh(&format!("linerate grep -c -f '{filter}' {file}"));
        assert_eq!(text(&ours), text(&theirs), "{filter}");
    }
}

#[test]
fn bad_lines_are_counted_and_strict_stops_at_the_first() {
    let mut lines = frames(3);
    lines.extend(b"zz\n00 11\n\n");
    let loose = fed(&["conv"], &lines);
    assert!(loose.status.success());
    assert_eq!(loose.stdout.len(), 3 * 169);
    let printed = String::from_utf8_lossy(&loose.stderr).into_owned();
    assert_eq!(
        printed,
        "linerate: line 4, column 1: 'z' is not a hexadecimal digit\n\
         linerate: line 5, column 6: frame of 2 bytes: must be at least 14\n\
         linerate: 2 of 6 lines are not valid frames\n"
    );
    let strict = fed(&["conv", "--strict"], &lines);
    assert_eq!(strict.status.code(), Some(1));
    // An input of a gigabyte would behave in the same way, since none of it is stored.
    let endless = sh("head -c 30000000 /dev/zero | tr '\\0' 0 | linerate conv | wc -c");
    assert_eq!(text(&endless).trim(), "0");
    let cut = fed(&["conv"], &fed(&["conv", "-o", "pcap"], &frames(3)).stdout[..200]);
    assert_eq!(cut.status.code(), Some(1));
    assert!(
        String::from_utf8_lossy(&cut.stderr).contains("standard input"),
        "{}",
        String::from_utf8_lossy(&cut.stderr)
    );
}

#[test]
fn grep_equals_gnu_grep() {
    let dir = Dir::new("grep");
    // A file on tmpfs without a newline at its end.
    let shm = Path::new("/dev/shm");
    let memory = if shm.is_dir() { Dir::under(shm, "grep") } else { Dir::new("grep-memory") };
    let (file, mut open) = (dir.file("frames.txt", &frames(5000)), frames(20_000));
    open.pop();
    let in_memory = memory.file("frames.txt", &open);
    let five = r"001111111111\|002222222222\|003333333333\|004444444444\|FFFFFFFFFFFF";
    for words in [
        format!("-n '{five}'"),
        format!("-v '{five}'"),
        format!("-c '{five}'"),
        "-m 7 0022".to_owned(),
        "-o '0[1-3]\\{3,\\}'".to_owned(),
        "-E '(30 ){2}'".to_owned(),
        "'0022.*1122'".to_owned(),
        "-F -e 005555 -e FFFF".to_owned(),
        "-i ffff".to_owned(),
    ] {
        let theirs = sh(&format!("grep {words} {file}"));
        let theirs_in_memory = sh(&format!("grep {words} {in_memory}"));
        for (file, theirs) in [(&file, &theirs), (&in_memory, &theirs_in_memory)] {
            for jobs in ["", "-j 3"] {
                let ours = sh(&format!("linerate grep {jobs} {words} {file}"));
                assert!(ours.stdout == theirs.stdout, "{jobs} {words} {file}");
                assert_eq!(ours.status.code(), theirs.status.code(), "{jobs} {words} {file}");
            }
        }
        let piped = sh(&format!("cat {file} | linerate grep {words} | cat"));
        assert!(piped.stdout == theirs.stdout, "{words}");
    }
    let code = |words: &str| sh(&format!("linerate grep {words} {file} > /dev/null")).status.code();
    assert_eq!(
        (code("nothing"), code("-q 0011"), code("'a\\(b'"), code("-E 'a{5,2}'")),
        (Some(1), Some(0), Some(2), Some(2))
    );
    assert_eq!(sh("linerate grep x /no/such/file").status.code(), Some(2));
    let caret = sh(&format!("linerate grep 'dst=00:zz' {file}"));
    assert!(
        String::from_utf8_lossy(&caret.stderr).contains("  dst=00:zz\n      ^"),
        "{}",
        String::from_utf8_lossy(&caret.stderr)
    );
    // Selection by fields, and the same frames by their bytes in a format without lines.
    let terms = sh(&format!("linerate grep 'dst=00:22:* sport=10000-10050' {file}"));
    let by_line = sh(&format!("grep -c '^002222222222' {file}"));
    assert!(!terms.stdout.is_empty() && terms.stdout.len() / 169 <= text(&by_line).trim().parse().unwrap());
    let binary = sh(&format!(
        "linerate conv -o bin2 {file} | linerate grep 'dst=00:22:* sport=10000-10050' | linerate conv -o f1"
    ));
    assert!(binary.stdout == terms.stdout);
    assert_eq!(text(&sh(&format!("linerate grep --any-field -c 01000001 {file}"))).trim(), "5000");
}

#[test]
fn a_joined_pipeline_equals_a_shell_pipe() {
    let lines = frames(2000);
    let apart = sh(
        "linerate cat -c 2000 'pktgen(rotate=on,size=18,flows=100):' | linerate grep 'FFFF' | linerate conv -o jsonl",
    );
    let row = sh("linerate cat -c 2000 'pktgen(rotate=on,size=18,flows=100):' + grep FFFF + conv -o jsonl");
    assert!(row.status.success(), "{}", String::from_utf8_lossy(&row.stderr));
    assert!(row.stdout == apart.stdout && row.stdout.len() > 1000);
    let spread = fed(&["grep", "FFFF", "-j", "2", "+", "conv", "-o", "jsonl"], &lines);
    assert!(spread.stdout == apart.stdout);
    for (words, why) in [
        (&["conv", "+", "nonsense"][..], "'nonsense': not a command for a pipeline"),
        (&["conv", "+", "cat", "pktgen:"], "must be the first command of a pipeline"),
        (&["put", "null:", "+", "conv"], "must be the last command of a pipeline"),
        (&["conv", "-o", "f1", "+", "conv"], "-o is only allowed in the last command"),
    ] {
        let output = fed(words, b"");
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains(why), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn a_closed_reader_ends_a_pipeline_without_error() {
    for line in [
        "linerate cat 'pktgen(static=on,rotate=on,size=18):' | head -2",
        "linerate cat 'pktgen(size=18):' | head -2",
        "linerate cat -t 'pktgen(size=18):' + conv | head -2",
        "linerate cat 'pktgen(size=18):' | linerate grep 0800 | head -2",
    ] {
        let output = sh(&format!("timeout 20 {line}; echo ${{PIPESTATUS[0]}}"));
        assert!(output.stderr.is_empty(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        let printed = text(&output);
        assert_eq!((printed.lines().count(), printed.lines().last()), (3, Some("0")), "{line}");
    }
}

#[test]
fn static_lines_have_the_requested_number() {
    for count in [1, 10, 6204, 6205, 20_000] {
        let output = sh(&format!("linerate cat -c {count} 'pktgen(static=on,rotate=on,size=18):' | cat"));
        assert_eq!(output.stdout.len(), 169 * count);
        let lines = output.stdout.chunks(169);
        assert!(lines.enumerate().all(|(at, line)| line.starts_with(if at % 10 == 9 {
            b"FFFFFFFFFFFF"
        } else {
            b"00"
        })));
    }
    // A slow reader loses no frame and receives none twice, since each frame has its number.
    let slow = sh("linerate cat -c 100000 'pktgen(size=18):' | (sleep 0.3; cat) | md5sum");
    let file = sh("linerate cat -c 100000 'pktgen(size=18):' > /tmp/lr-$$; md5sum < /tmp/lr-$$; rm /tmp/lr-$$");
    assert_eq!(text(&slow), text(&file));
}

#[test]
fn a_timestamp_sets_the_send_time() {
    // The first frame resets register 1 and leaves at once. The second leaves 50 ms later, in ticks
    // of 8 ns.
    let line = String::from_utf8(frames(1)).unwrap();
    let (first, second) = (0x1100_0000_0000_0000_u64, 0x0100_0000_0000_0000_u64 + 50_000_000 / 8);
    let text = format!("{first:016X} {line}{second:016X} {line}");
    let begun = std::time::Instant::now();
    assert!(fed(&["put", "null:"], text.as_bytes()).status.success());
    assert!(begun.elapsed().as_millis() >= 50, "{:?}", begun.elapsed());
    assert!(fed(&["put", "--at-once", "null:"], text.as_bytes()).status.success());
}

/// `grep` maps no file into memory. If a file on tmpfs is truncated while it is read, the search
/// ends at its new end with grep's exit code, and not by SIGBUS. No byte can change between its
/// selection and its output.
#[test]
fn a_file_on_tmpfs_may_be_cut_short_while_grep_reads_it() {
    let shm = Path::new("/dev/shm");
    if !shm.is_dir() {
        return println!("skipped: no /dev/shm");
    }
    let dir = Dir::under(shm, "cut");
    let line = frames(1);
    let lines = |bytes: &[u8]| bytes.len() / line.len();
    for jobs in ["1", "2"] {
        let path = dir.file("lines", &line.repeat(50_000));
        let mut grep = linerate(&["grep", "-j", jobs, "^.", &path]);
        let mut child = grep.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut out = child.stdout.take().unwrap();
        // The pipe is full, and the program waits in the middle of the file.
        let mut first = vec![0; line.len()];
        std::io::Read::read_exact(&mut out, &mut first).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(50));
        let maps = fs::read_to_string(format!("/proc/{}/maps", child.id())).unwrap();
        assert!(!maps.contains(&path), "-j {jobs}: {maps}");
        let end = 45_000 * line.len() - 100;
        fs::File::options().write(true).open(&path).unwrap().set_len(end as u64).unwrap();
        let mut rest = Vec::new();
        std::io::Read::read_to_end(&mut out, &mut rest).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "-j {jobs}: {output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "-j {jobs}");
        let all = [first, rest].concat();
        assert_eq!(lines(&all), 44_999, "-j {jobs}");
        let (whole, part) = all.split_at(44_999 * line.len());
        assert!(whole.chunks(line.len()).all(|found| found == line), "-j {jobs}");
        // The truncated line is a line without a newline.
        let part = part.strip_suffix(b"\n").unwrap_or(part);
        assert_eq!(part, &line[..line.len() - 100], "-j {jobs}");
    }
}

/// The caret is in the right position even beyond column 65,535, the largest width of a format
/// string.
#[test]
fn an_error_in_a_long_line_is_shown() {
    let blanks = " ".repeat(66_000);
    for words in [
        vec!["grep", "-f", &format!("{blanks}prot 9")],
        vec!["grep", &format!("dst=00:11:22:33:44:55{blanks}src=00:zz")],
        vec!["grep", "-E", &format!("{}(", "x|".repeat(33_000))],
    ] {
        let output = run(&mut linerate(&words));
        let printed = String::from_utf8_lossy(&output.stderr);
        let caret = printed.lines().find(|line| line.trim() == "^").map(str::len);
        assert!(output.status.code() == Some(2) && caret > Some(65_535), "{} {caret:?}", words[1]);
    }
    let output = run(&mut linerate(&["rewrite", &format!("dst=02:00:00:00:00:01{blanks}ip.tt=1")]));
    assert_eq!(output.status.code(), Some(2));
}
