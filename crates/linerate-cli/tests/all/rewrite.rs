//! `linerate rewrite` and `linerate crc`: edits compared with sed, checksums compared with tcpdump,
//! and invalid arguments.

use crate::common::{has, linerate};
use std::io::Write;
use std::process::{Command, Output, Stdio};

/// UDP from 10.0.0.1:1000 to 10.0.0.2:53, and a ping, without checksums.
const FRAMES: &str = "\
020000000002 020000000001 0800 45 00 00 1E 00 01 00 00 40 11 00 00 0A 00 00 01 0A 00 00 02 03 E8 00 35 00 0A 00 00 AB CD
020000000002 020000000001 0800 45 00 00 1E 00 02 00 00 40 01 00 00 0A 00 00 01 C6 33 64 07 08 00 00 00 00 07 00 01 01 02
020000000002 020000000001 0800 45 00 00 1E 00 03 00 00 40 11 00 00 0A 00 00 01 C6 33 64 07 03 E8 00 35 00 0A 00 00 AB CD
";

fn fed(command: &mut Command, input: &[u8]) -> Output {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // The input fits the pipe, so the write does not block.
    child.stdin.take().unwrap().write_all(input).unwrap();
    child.wait_with_output().unwrap()
}

/// Returns the output of `linerate WORDS` for `input`.
#[track_caller]
fn through(words: &[&str], input: &str) -> String {
    let out = fed(&mut linerate(words), input.as_bytes());
    assert!(out.status.success(), "{words:?}: {out:?}");
    String::from_utf8(out.stdout).unwrap()
}

#[test]
fn edits_of_addresses_equal_those_of_sed() {
    let sums = through(&["crc"], FRAMES);
    let ours = through(&["rewrite", "dst=00:11:22:33:44:55", "src=*:*:*:*:*:ff"], &sums);
    let tagged = through(&["rewrite", "vlan.push=1"], &sums);
    assert!(tagged.lines().all(|line| line.contains(" 8100 00 01 08 00 45 ")), "{tagged}");
    assert_eq!(through(&["rewrite", "vlan.pop"], &tagged), sums);
    if !has("sed") {
        return println!("skipped: sed is not installed");
    }
    let script = "s/^............ \\(..........\\)../001122334455 \\1FF/";
    let theirs = fed(Command::new("sed").arg(script), sums.as_bytes());
    assert_eq!(ours, String::from_utf8(theirs.stdout).unwrap());
}

#[test]
fn tcpdump_finds_all_checksums_correct() {
    if !has("tcpdump") {
        return println!("skipped: tcpdump is not installed");
    }
    let edits = [
        "ip.src=192.0.2.7",
        "ip.ttl-=3",
        "ip.dscp=46",
        "ip.id=77",
        "dport=9999",
        "swap=port",
        "vlan.push=5,1",
        "vlan.push=6,2,0x88a8",
    ];
    let nat = ["--nat44", "10.0.0.0/24=192.0.2.9", "--nat44-ports", "40000-40009", "ip.ttl-=1"];
    for (words, seen) in [(&edits[..], "192.0.2.7.9999 > 10.0.0.2.1000"), (&nat, "192.0.2.9.4000")] {
        let mut row = vec!["crc", "+", "rewrite"];
        row.extend(words);
        row.extend(["-o", "pcap"]);
        let capture = fed(&mut linerate(&row), FRAMES.as_bytes());
        assert!(capture.status.success(), "{capture:?}");
        let out = fed(Command::new("tcpdump").args(["-vv", "-n", "-r", "-"]), &capture.stdout);
        let text = String::from_utf8(out.stdout).unwrap();
        assert!(!text.contains("bad") && !text.contains("wrong"), "{text}");
        assert!(text.contains(seen) && text.matches("udp sum ok").count() == 2, "{text}");
    }
    // tcpdump does report wrong checksums.
    let capture = fed(&mut linerate(&["rewrite", "swap=mac", "-o", "pcap"]), FRAMES.as_bytes());
    let out = fed(Command::new("tcpdump").args(["-vv", "-n", "-r", "-"]), &capture.stdout);
    assert!(String::from_utf8(out.stdout).unwrap().contains("bad cksum 0"));
}

#[test]
fn crc_reports_wrong_checksums() {
    let out = fed(&mut linerate(&["crc", "--check"]), FRAMES.as_bytes());
    let err = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(1));
    assert_eq!(String::from_utf8(out.stdout).unwrap(), FRAMES);
    assert_eq!(err, "linerate: crc: 4 of 6 checksums in 3 frames are wrong (IPv4 3, ICMP 1)\n");
    let sums = through(&["crc", "--udp-zero", "--pad"], FRAMES);
    assert!(sums.lines().all(|line| line.len() == 168));
    assert_eq!(through(&["crc", "--check"], &sums), sums);
    assert_eq!(through(&["crc", "--udp-zero", "-j", "2"], &sums), sums);
}

#[test]
fn replies_pass_back_through_nat() {
    // The translated frames are turned into replies by swapping their ends. A new translator then
    // gets the original frames and the replies.
    let requested = through(&["crc", "+", "rewrite", "--nat44", "10.0.0.0/24=192.0.2.9"], FRAMES);
    assert_eq!(requested.lines().count(), 3, "{requested}");
    let answers = through(&["rewrite", "swap=mac", "swap=ip", "swap=port"], &requested);
    let both = format!("{}{answers}", through(&["crc"], FRAMES));
    let out = fed(
        &mut linerate(&["rewrite", "--nat44", "10.0.0.0/24=192.0.2.9", "--nat44-timeouts", "udp=120"]),
        both.as_bytes(),
    );
    let (frames, printed) = (String::from_utf8(out.stdout).unwrap(), String::from_utf8(out.stderr).unwrap());
    // Both ends of the first frame are inside the network. The swapped echo request is still a
    // request and not a reply, so it is dropped.
    assert!(printed.contains("6 frames: 2 out, 1 in, 2 passed unchanged, 1 dropped: unsolicited"), "{printed}");
    assert!(frames.lines().last().unwrap().contains("C6 33 64 07 0A 00 00 01 00 35 03 E8"), "{frames}");
}

#[test]
fn invalid_expressions_are_shown_with_a_caret() {
    for (words, says) in [
        (
            &["rewrite", "ip.ttl=300"][..],
            "linerate:   ip.ttl=300\nlinerate:          ^\nlinerate: 'ip.ttl=300', column 8: expected a number from 0 to 255; see 'linerate rewrite --help'\n",
        ),
        (
            &["cat", "-", "+", "rewrite", "x"],
            "linerate:   x\nlinerate:    ^\nlinerate: 'x', column 2: expected FIELD=VALUE, as in ip.ttl=64; see 'linerate rewrite --help'\n",
        ),
    ] {
        let out = fed(&mut linerate(words), b"");
        assert_eq!((out.status.code(), String::from_utf8(out.stderr).unwrap().as_str()), (Some(2), says), "{words:?}");
    }
    for (words, says) in [
        (&["rewrite"][..], "EXPR"),
        (&["rewrite", "--nat44", "10.0.0.0/8"], "INSIDE_NET=OUTSIDE_ADDR"),
        (&["rewrite", "--nat44", "10.0.0.0/8=10.0.0.1"], "must not belong to the inside network"),
        (&["rewrite", "--nat44-ports", "9-1", "--nat44", "10.0.0.0/8=1.1.1.1"], "two ports"),
        (&["rewrite", "--nat44-limit", "5", "swap=ip"], "--nat44"),
        (&["crc", "--check", "--pad"], "cannot be used with"),
    ] {
        let out = fed(&mut linerate(words), b"");
        let err = String::from_utf8(out.stderr).unwrap();
        assert!(out.status.code() == Some(2) && err.contains(says) && err.lines().count() == 1, "{words:?}: {err}");
    }
}
