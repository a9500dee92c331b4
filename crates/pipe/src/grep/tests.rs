use super::*;
use proptest::prelude::*;
use std::io::Write;
use std::process::{Command, Stdio};

const A: &str = "FFFFFFFFFFFF 0022CF63967B 8899 23 1E 0A 00 22 CF\n";
const B: &str = "001111111111 002222222222 0800 45 00 88 99\n";

fn matcher(patterns: &[&str], syntax: Syntax) -> Matcher {
    let patterns = patterns.iter().map(|pattern| pattern.to_string()).collect();
    Matcher::new(&Wanted { patterns, syntax, ..Wanted::default() }).unwrap()
}

fn search(matcher: &Matcher, shown: Shown, text: &[u8]) -> (Vec<u8>, Found) {
    let mut out = Selection::default();
    let found = Lines::new(matcher, shown).search(text, 0, u64::MAX, &mut out);
    let mut written = Vec::new();
    out.write(text, &mut written).unwrap();
    assert_eq!(out.to_vec(text), written);
    (written, found)
}

#[test]
fn common_patterns_use_the_fast_path() {
    let five = r"001111111111\|002222222222\|003333333333\|004444444444\|FFFFFFFFFFFF";
    assert!(matcher(&[five], Syntax::Basic).has_columns());
    assert!(matcher(&["0022CF.*8899"], Syntax::Basic).has_columns());
    assert!(matcher(&["abc", "def0"], Syntax::Fixed).has_columns());
    for (pattern, syntax) in [
        ("8100 00", Syntax::Basic),
        ("a|b", Syntax::Basic),
        ("00", Syntax::Fixed),
        ("0022C.", Syntax::Basic),
        ("0011111111112", Syntax::Fixed),
    ] {
        assert!(!matcher(&[pattern], syntax).has_columns(), "{pattern}");
    }
    let text = format!("{A}{B}");
    assert_eq!(
        search(&matcher(&[five], Syntax::Basic), Shown::default(), text.as_bytes()).1,
        Found { lines: 2, selected: 2 }
    );
    assert_eq!(search(&matcher(&["0022CF.*8899"], Syntax::Basic), Shown::default(), text.as_bytes()).0, A.as_bytes());
}

#[test]
fn any_field_ignores_field_boundaries() {
    let any = |pattern: &str, syntax, line: &str| {
        let wanted = Wanted { patterns: vec![pattern.into()], syntax, any_field: true, ..Wanted::default() };
        Matcher::new(&wanted).unwrap().is_match(line.trim_end().as_bytes())
    };
    for syntax in [Syntax::Basic, Syntax::Extended, Syntax::Fixed] {
        assert!(any("0022CF", syntax, A) && any("231E0A", syntax, A) && any("0A 00 22", syntax, A));
        assert!(!any("231F", syntax, A));
    }
    assert!(any("23[0-9]E0A", Syntax::Basic, A));
    assert!(any(r"4500\|9999", Syntax::Basic, B));
}

/// A set may include the newline by a range or a class, but no line contains one (POSIX 9.3.5,
/// grep(1)).
#[test]
fn a_set_with_a_newline_matches_within_a_line() {
    let text = b"ab\n\ncd\n";
    for pattern in ["b[[:cntrl:]]*c", "b[\u{1}-\u{20}]*c", "b[[:cntrl:]x]c", "b[[:space:]]*c"] {
        let found = search(&matcher(&[pattern], Syntax::Basic), Shown::default(), text);
        assert_eq!(found.1.selected, 0, "{pattern}: {:?}", String::from_utf8_lossy(&found.0));
    }
    let found = search(&matcher(&["^[\u{1}-z]*$"], Syntax::Basic), Shown::default(), text);
    assert_eq!((found.1.selected, found.0.as_slice()), (3, &text[..]));
}

#[test]
fn pattern_errors_show_a_caret() {
    let error = |pattern: &str, syntax| {
        let wanted = Wanted { patterns: vec![pattern.into()], syntax, ..Wanted::default() };
        Matcher::new(&wanted).unwrap_err().to_string()
    };
    assert_eq!(error(r"ab\(c", Syntax::Basic), "unmatched ( or \\(\n  ab\\(c\n    ^");
    assert_eq!(error(r"ab\)c", Syntax::Basic), "unmatched \\)\n  ab\\)c\n    ^");
    assert_eq!(error("[z-a]", Syntax::Extended), "invalid range: its end is lower than its start\n  [z-a]\n   ^");
    assert_eq!(error(r"\(a\)\1", Syntax::Basic), "back references are not supported: use grep\n  \\(a\\)\\1\n       ^");
    assert_eq!(error("a{3,2}", Syntax::Extended).lines().nth(2), Some("   ^"));
    assert_eq!(error("(a{30000}){30000}", Syntax::Extended), "pattern too large: needs more than 64 MiB");
}

#[test]
fn terms_match_header_fields() {
    // The UDP sample of ethpipe's generator: IPv4, port 12345 to 54321.
    let mut udp = vec![2, 0, 0, 0, 0, 1, 0x12, 0x23, 0x34, 0x45, 0x56, 0, 8, 0];
    let mut header = ip4_header();
    udp.append(&mut header);
    udp.extend([0x30, 0x39, 0xd4, 0x31, 0, 8, 0, 0]);
    let mut tagged = udp.clone();
    tagged.splice(12..12, [0x81, 0, 0, 7]);
    let holds = |terms: &str, frame: &[u8]| Terms::parse(terms).unwrap().matches(frame, frame.len());
    for frame in [&udp, &tagged] {
        for good in [
            "dst=02:00:00:00:00:01",
            "dst=02:00:*",
            "dst=0200*",
            "dst=*:*:*:0:0:1",
            "mac=12:23:*",
            "src!=02:*",
            "type=ip",
            "type=0x0800",
            "ip.src=1.0.0.2",
            "ip=1.0.0.0/8",
            "ip.dst=1.0.*",
            "ip!=2.0.0.0/8",
            "proto=udp",
            "ttl=1-5",
            "port=54321",
            "sport=12345 dport=54000-55000",
        ] {
            assert!(holds(good, frame), "{good}");
        }
        for bad in
            ["dst=02:00:01:*", "type=arp", "ip=::/0", "dport=443", "port!=12345", "ttl!=5", "len=14", "proto!=17"]
        {
            assert!(!holds(bad, frame), "{bad}");
        }
    }
    assert!(holds("vlan=7 len=46", &tagged) && !holds("vlan=7", &udp) && !holds("vlan!=7", &udp));
    assert!(
        Terms::is_like("dst=00")
            && Terms::is_like(" ip.src!=1.2.3.4")
            && !Terms::is_like("0022CF.*8899")
            && !Terms::is_like("=a")
    );
    let error = |text: &str| Terms::parse(text).unwrap_err().to_string();
    assert!(error("type=ip foo=3").starts_with("unknown field 'foo'; fields: dst src"));
    assert!(error("type=ip foo=3").ends_with("\n  type=ip foo=3\n          ^"));
    assert!(error("dst=zz").ends_with("\n  dst=zz\n      ^"));
    assert!(error("sport=5-4").starts_with("expected a port"));
}

fn ip4_header() -> Vec<u8> {
    let mut header = wire::ip4::Header::new([1, 0, 0, 2].into(), [1, 0, 0, 1].into(), wire::Proto::UDP, 8).unwrap();
    header.ttl = 5;
    let mut out = [0; wire::ip4::HEADER_LEN];
    header.emit(&mut out);
    out.to_vec()
}

/// Runs GNU grep on `text`; returns `None` if it is not installed.
fn grep(flags: &[&str], patterns: &[&str], text: &[u8]) -> Option<Vec<u8>> {
    let mut command = Command::new("grep");
    command.env("LC_ALL", "C").arg("-a").args(flags);
    patterns.iter().for_each(|pattern| {
        command.args(["-e", pattern]);
    });
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().ok()?;
    let mut stdin = child.stdin.take()?;
    let text = text.to_vec();
    let feeder = std::thread::spawn(move || {
        let _ = stdin.write_all(&text);
    });
    let output = child.wait_with_output().ok()?;
    feeder.join().ok()?;
    assert_ne!(output.status.code(), Some(2), "grep does not accept {patterns:?}");
    Some(output.stdout)
}

/// Returns lines in standard form, and some in other forms.
fn corpus() -> Vec<u8> {
    let mut text = Vec::new();
    let mut seed = 12345_u32;
    let mut random = |most: u32| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (seed >> 8) % most
    };
    let macs = ["001111111111", "002222222222", "0022CF63967B", "FFFFFFFFFFFF", "009999999999"];
    for at in 0..400 {
        let mut line = format!(
            "{} {} {}",
            macs[random(5) as usize],
            macs[random(5) as usize],
            ["8899", "0800", "8100"][random(3) as usize]
        );
        for _ in 0..random(60) {
            line += &format!(" {:02X}", random(256));
        }
        match at % 9 {
            0 => line.insert(random(12) as usize, ' '),
            1 => line = line.to_lowercase(),
            2 => line = format!("{:016X} {line}", random(1 << 20)),
            3 => line = line.replace(' ', ""),
            4 => line.push_str(" 001111111111"),
            5 => line.truncate(random(40) as usize),
            _ => {}
        }
        text.extend(line.as_bytes());
        text.push(b'\n');
    }
    text.extend(b"no newline at the end FFFFFFFFFFFF");
    text
}

#[test]
fn output_matches_gnu_grep() {
    let text = corpus();
    let five = r"001111111111\|002222222222\|003333333333\|004444444444\|FFFFFFFFFFFF";
    let many: Vec<String> = (0..60).map(|n| format!("{:012X}", n * 0x11_1111_1111_u64)).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let cases: &[(Syntax, &[&str])] = &[
        (Syntax::Basic, &[five]),
        (Syntax::Basic, &["0022CF.*8899"]),
        (Syntax::Basic, &["0022CF.*8899", "1111.*2222.*08"]),
        (Syntax::Fixed, &many),
        (Syntax::Fixed, &["0022CF63967B", "9999"]),
        (Syntax::Basic, &["8100 0[0-3] ..", "^FFFF"]),
        (Syntax::Extended, &["(00|FF){3,}", " 0?8 "]),
        (Syntax::Basic, &[r"^\(00\)\{1,2\}[^1]", "a*b\\+$"]),
        (Syntax::Extended, &["[[:xdigit:]]{40}|^.{13}$", "[]x]|[^]A-F0-9 ]"]),
        (Syntax::Basic, &["*a", r"\<08\>", "^*ab**"]),
        (Syntax::Basic, &[""]),
        (Syntax::Extended, &["^$"]),
    ];
    let mut compared = 0;
    for (syntax, patterns) in cases {
        let how = match syntax {
            Syntax::Basic => "-G",
            Syntax::Extended => "-E",
            Syntax::Fixed => "-F",
        };
        let judge = matcher(patterns, *syntax);
        for (flags, shown) in [
            (&[how][..], Shown::default()),
            (&[how, "-v"], Shown { invert: true, ..Shown::default() }),
            (&[how, "-n"], Shown { numbers: true, ..Shown::default() }),
            (&[how, "-vn"], Shown { numbers: true, invert: true, ..Shown::default() }),
            (&[how, "-o"], Shown { only_matching: true, ..Shown::default() }),
        ] {
            let Some(expected) = grep(flags, patterns, &text) else {
                println!("skipped: grep is not installed");
                return;
            };
            let (got, found) = search(&judge, shown, &text);
            assert!(got == expected, "{flags:?} {patterns:?}: {}", first_difference(&got, &expected));
            if !shown.only_matching {
                assert_eq!(found.selected, memchr::memchr_iter(b'\n', &expected).count() as u64);
            }
            compared += 1;
        }
        for (flag, wanted) in [
            ("-i", Wanted { ignore_case: true, ..Wanted::default() }),
            ("-w", Wanted { words: true, ..Wanted::default() }),
            ("-x", Wanted { whole_lines: true, ..Wanted::default() }),
        ] {
            let patterns_owned = patterns.iter().map(|pattern| pattern.to_string()).collect();
            let judge = Matcher::new(&Wanted { patterns: patterns_owned, syntax: *syntax, ..wanted }).unwrap();
            let expected = grep(&[how, flag], patterns, &text).unwrap();
            let (got, _) = search(&judge, Shown::default(), &text);
            assert!(got == expected, "{flag} {patterns:?}: {}", first_difference(&got, &expected));
            compared += 1;
        }
    }
    assert_eq!(compared, cases.len() * 8);
}

fn first_difference(got: &[u8], expected: &[u8]) -> String {
    let lines = |bytes: &[u8]| {
        bytes.split(|b| *b == b'\n').map(|l| String::from_utf8_lossy(l).into_owned()).collect::<Vec<_>>()
    };
    let (got, expected) = (lines(got), lines(expected));
    let at = got.iter().zip(&expected).position(|(a, b)| a != b).unwrap_or(got.len().min(expected.len()));
    format!(
        "line {at}: {:?} where grep has {:?} ({} lines, {})",
        got.get(at),
        expected.get(at),
        got.len(),
        expected.len()
    )
}

proptest! {
    /// The fast path gives the same result as the regular expression.
    #[test]
    fn fast_path_matches_the_regular_expression(words in prop::collection::vec(prop::collection::vec("[01A]{3,12}", 1..3), 1..4), lines in prop::collection::vec("[01A]{12} [01A]{12} [01A]{4}( [01A]{2}){0,30}|[01A ]{0,60}", 0..40)) {
        let pattern = words.iter().map(|row| row.join(".*")).collect::<Vec<_>>().join("|");
        let short = matcher(&[&pattern], Syntax::Extended);
        prop_assert!(short.has_columns());
        let mut long = short.clone();
        long.columns = None;
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        for shown in [Shown::default(), Shown { invert: true, ..Shown::default() }] {
            prop_assert_eq!(search(&short, shown, text.as_bytes()), search(&long, shown, text.as_bytes()));
        }
    }

    #[test]
    fn any_pattern_does_not_panic(pattern in "\\PC{0,20}", line in prop::collection::vec(any::<u8>(), 0..60)) {
        for syntax in [Syntax::Basic, Syntax::Extended, Syntax::Fixed] {
            for any_field in [false, true] {
                let wanted = Wanted { patterns: vec![pattern.clone()], syntax, any_field, ..Wanted::default() };
                if let Ok(matcher) = Matcher::new(&wanted) {
                    let _ = search(&matcher, Shown { only_matching: true, ..Shown::default() }, &line);
                    let _ = search(&matcher, Shown::default(), &line);
                }
            }
        }
        let _ = Terms::parse(&pattern).map(|terms| terms.matches(&line, line.len()));
    }
}
