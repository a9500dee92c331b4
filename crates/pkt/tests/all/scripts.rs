//! Runs every script in `scripts/`. The scripts are sorted into directories by initial state and
//! subject.

use linerate_pkt::{PktError, Rules, parse, run_file, run_text, versions_of};
use std::path::{Path, PathBuf};

fn scripts() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts");
    let folders = std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path());
    let files = folders.flat_map(|folder| std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()));
    let mut files: Vec<PathBuf> = files.filter(|path| path.extension().is_some_and(|ext| ext == "pkt")).collect();
    files.sort();
    files
}

/// Every script passes in each IP version for which it is written.
#[test]
fn every_script_holds_in_each_version() {
    let files = scripts();
    let (mut played, mut failed) = ([0; 3], Vec::new());
    for file in &files {
        for version in versions_of(file).unwrap() {
            played[*version as usize] += 1;
            let rules = Rules { ip_version: Some(*version), ..Rules::default() };
            if let Err(error) = run_file(file, rules) {
                failed.push(format!("{}: {error}", version.name()));
            }
        }
    }
    assert!(failed.is_empty(), "{} of {played:?} fail\n{}", failed.len(), failed.join("\n"));
    let [four, mapped, six] = played;
    assert!(four >= 500 && mapped >= 500 && six >= 500, "{four} {mapped} {six} scripts");
}

/// Every script ends with a `counters` line; without one it could not detect a missing counter.
#[test]
fn every_script_states_its_counters() {
    for file in scripts() {
        let text = std::fs::read_to_string(&file).unwrap();
        let last = text.trim_end().lines().last().unwrap().to_owned();
        assert!(last.trim().starts_with("+0 counters"), "{}: ends with '{last}'", file.display());
        assert!(text.starts_with("// "), "{}: does not begin with a description", file.display());
    }
}

/// Replaces `from` by `to` in a correct script, and returns the error of the changed script.
fn broken(from: &str, to: &str) -> PktError {
    let text = include_str!("../../scripts/established/write_and_ack.pkt");
    assert!(text.contains(from), "{from}");
    run_text(&text.replacen(from, to, 1), None, Rules::default()).unwrap_err()
}

/// Every deviation from the script is detected and reported, with the expected and the actual
/// value.
#[test]
fn deviations_from_a_script_are_reported() {
    let cases = [
        ("> . 1:1001(1000)", "> . 2:1002(1000)", "wrong sequence number at 100ms\n  expected: IP 192.168.0.1.8080"),
        ("> . 1:1001(1000)", "> . 1:901(900)", "wrong length"),
        ("> . 1:1001(1000)", "> P. 1:1001(1000)", "wrong flags"),
        ("> . 1:1001(1000) ack 1", "> . 1:1001(1000) ack 2", "wrong acknowledgment"),
        ("> . 1:1001(1000) ack 1", "> . 1:1001(1000) ack 1 win 7", "wrong window"),
        ("> . 1:1001(1000) ack 1", "> . 1:1001(1000) ack 1 <nop,nop,TS val 1 ecr 1>", "wrong options"),
        ("> . 1:1001(1000) ack 1", "> [ect0] . 1:1001(1000) ack 1", "wrong ECN"),
        ("   +0 > . 1:1001", "  +.1 > . 1:1001", "sent at 100ms, expected at 200ms"),
        (
            "> P. 2001:2501(500) ack 1",
            "> P. 2001:2501(500) ack 1\n   +0 > . 1:2(1) ack 1",
            "no packet sent\n  expected:",
        ),
        ("   +0 > P. 2001:2501(500) ack 1\n", "", "unexpected packet"),
        ("write(4, ..., 2500) = 2500", "write(4, ..., 2500) = 2400", "write() = 2500\n  expected: 2400"),
        ("write(4, ..., 2500) = 2500", "write(4, ..., 2500) = -1 EPIPE (x)", "expected: -1 EPIPE"),
        ("write(4, ..., 2500) = 2500", "read(4, ..., 2500) = 2500", "read() blocks, expected to return at once"),
        ("tcpi_unacked == 0", "tcpi_unacked == 1", "tcpi_unacked is 0"),
        ("tcp.in.received +1", "tcp.in.received +9", "wrong counter changes"),
        ("counters tcp", "counters tcp.no_such +1 tcp", "unknown counter 'tcp.no_such'"),
    ];
    for (from, to, expected) in cases {
        let error = broken(from, to);
        assert!(error.ran && error.what.contains(expected), "{from} -> {to}: {error}");
        assert!(error.line > 5, "{error}");
    }
}

#[test]
fn parse_errors_state_their_line() {
    let cases = [
        ("0 socket(..., SOCK_STREAM, 0) = ", "1: expected a value, found the end"),
        ("0 < S 0:10(11) win 5", "1: 0:10(11): the end must be the start plus the length"),
        ("0 < Q 0:0(0)", "1: expected flags from F S R P . U E W, found 'Q'"),
        ("// one\n/* two\n*/ 0 < S 0:0(0) <mss 1,what>", "3: unknown TCP option 'what'"),
        ("0 `ls", "1: unterminated quote"),
        ("99999999999 close(3) = 0", "1: expected a time within ten years, found '99999999999'"),
        ("0 < ipv6 1:1(0)", "1: unsupported encapsulation 'ipv6'"),
        ("0 < . 1:1(0) <...>", "1: expected options other than <...> in an injected packet, found the end"),
    ];
    for (text, expected) in cases {
        let error = parse(text).unwrap_err();
        assert_eq!(format!("{}: {}", error.line, error.what), expected);
    }
    let refused = |text: &str| run_text(text, None, Rules::default()).unwrap_err().what;
    assert_eq!(refused("0 `rm -rf /`"), "unsupported command 'rm -rf /': only sysctls can be set");
    assert_eq!(refused("0 `sysctl net.ipv4.no_such=1`"), "unknown sysctl 'net.ipv4.no_such'");
    assert_eq!(refused("0 `./x.sh`"), "./x.sh: cannot read files here");
    assert_eq!(refused("--ip_version=ipv5\n0 close(3) = 0"), "--ip_version=ipv5: invalid value");
    assert_eq!(refused("--ip_version=ipv6\n--local_ip=192.0.2.1"), "--local_ip=192.0.2.1: invalid value");
    assert_eq!(refused("0 fork() = 0"), "unsupported call 'fork()'");
}
