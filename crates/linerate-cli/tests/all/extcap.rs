//! `linerate extcap`: the calls that Wireshark makes to a program in its extcap folder, and tshark
//! itself.

use crate::common::{Dir, has, linerate, printed, run, until, wait};
use port::pcap::Reader;
use std::fs::{self, File};
use std::io::Read;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const GENERATED: &str = "pktgen(rate=1k,count=20,flows=20):pg0";

/// Runs the program as Wireshark does, without a command in front of the flags.
fn extcap(words: &[&str]) -> (Option<i32>, String, String) {
    printed(&run(linerate(words).env("XDG_RUNTIME_DIR", "/nonexistent")))
}

/// Starts a capture of `port` into a FIFO.
fn capture(fifo: &str, port: &str) -> Child {
    let words = ["--capture", "--extcap-interface", "linerate", "--fifo", fifo, "--port", port];
    linerate(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn terminate(child: &Child) {
    // The child has not been waited for, so its process number is not reused.
    assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap().success());
}

/// Returns whether a process has a handler of SIGTERM (`SigCgt` in proc(5)).
fn handles_sigterm(child: &Child) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
    u64::from_str_radix(mask.trim(), 16).unwrap() & 1 << (libc::SIGTERM - 1) != 0
}

#[track_caller]
fn ended_quietly(mut child: Child) {
    let begin = Instant::now();
    assert_eq!(wait(&mut child), Some(0));
    let (_, out, err) = printed(&child.wait_with_output().unwrap());
    assert_eq!((out.as_str(), err.as_str()), ("", ""));
    assert!(begin.elapsed() < Duration::from_secs(30), "{:?}", begin.elapsed());
}

#[test]
fn interfaces_and_options_are_listed() {
    let (code, out, err) = extcap(&["--extcap-interfaces", "--extcap-version=4.0"]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    let lines: Vec<&str> = out.lines().collect();
    assert!(lines[0].starts_with("extcap {version="), "{out}");
    assert_eq!(lines[1], "interface {value=linerate}{display=Any port of linerate, by its name}");
    let of = |flag| extcap(&[flag, "--extcap-interface", "linerate"]).1;
    assert_eq!(of("--extcap-dlts"), "dlt {number=1}{name=EN10MB}{display=Ethernet}\n");
    let config = of("--extcap-config");
    assert!(config.starts_with("arg {number=0}{call=--port}{display=Port}{type=string}{default=pktgen("), "{config}");
    assert!(config.contains("\narg {number=1}{call=--snaplen}"), "{config}");
    // The result is the same with the command in front of the flags.
    assert_eq!(extcap(&["extcap", "--extcap-config", "--extcap-interface", "linerate"]).1, config);
}

/// Empty output means that the filter is valid. An error is printed with the exit code of success,
/// since Wireshark otherwise ignores it.
#[test]
fn a_filter_is_checked_before_the_capture() {
    let judge = |filter: &str| extcap(&["--extcap-interface", "linerate", "--extcap-capture-filter", filter]);
    for good in ["tcp port 443", "", "ether src 12:23:34:45:56:00 and not vlan"] {
        assert_eq!(judge(good), (Some(0), String::new(), String::new()), "{good}");
    }
    let (code, out, err) = judge("tcp port 443 and or");
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert!(out.lines().next().unwrap().starts_with("expected a primitive"), "{out}");
    let dir = Dir::new("extcap-filter");
    let fifo = dir.path("out");
    let words = ["--capture", "--extcap-interface", "linerate", "--fifo", &fifo, "--extcap-capture-filter", "tcp and"];
    let (code, _, err) = extcap(&words);
    assert_eq!(code, Some(2));
    assert!(err.contains("--extcap-capture-filter: ") && !fs::exists(&fifo).unwrap(), "{err}");
}

#[test]
fn invalid_arguments_are_rejected() {
    for (words, code, says) in [
        (&["--extcap-dlts", "--extcap-interface", "eth0"][..], 2, "eth0: no such interface"),
        (&["--capture", "--extcap-interface", "linerate"], 2, "requires --fifo"),
        (&["--capture", "--extcap-interface", "linerate", "--fifo", "/no/such/x"], 1, "/no/such/x: No such file"),
        (&["--extcap-interface", "linerate"], 2, "also give --extcap-dlts"),
        (&["extcap"], 2, "no action"),
        (&["--extcap-nonsense"], 2, "'--extcap-nonsense'"),
    ] {
        let (got, out, err) = extcap(words);
        assert_eq!((got, out.as_str(), err.lines().count()), (Some(code), "", 1), "{words:?}: {err}");
        assert!(err.contains(says), "{words:?}: {err}");
    }
    let dir = Dir::new("extcap-wrong");
    let words = ["--capture", "--extcap-interface", "linerate", "--fifo", &dir.path("out"), "--port"];
    assert_eq!(extcap(&[&words[..], &["tpa:x"]].concat()).0, Some(2));
    assert_eq!(extcap(&[&words[..], &["pcap:/no/such/file"]].concat()).0, Some(1));
}

#[test]
fn only_matching_frames_are_captured_with_nanoseconds() {
    let dir = Dir::new("extcap-frames");
    let out = dir.path("out.pcapng");
    let take = |more: &[&str]| {
        let words = ["--capture", "--extcap-interface", "linerate", "--fifo", &out, "--port", GENERATED];
        assert_eq!(extcap(&[&words, more].concat()), (Some(0), String::new(), String::new()));
        let bytes = fs::read(&out).unwrap();
        let (mut reader, mut stamps, mut lens) = (Reader::new(bytes.as_slice()), Vec::new(), Vec::new());
        while let Some(record) = reader.read().unwrap() {
            stamps.push(record.ts_ns);
            lens.push((record.data.len(), record.orig_len));
        }
        (stamps, lens)
    };
    let (stamps, lens) = take(&[]);
    assert_eq!(stamps.len(), 20);
    assert!(stamps.is_sorted() && stamps[0] > 1_700_000_000_000_000_000, "the calendar's");
    assert!(stamps.iter().any(|ns| ns % 1000 != 0), "microseconds alone: {stamps:?}");
    assert!(lens.iter().all(|(kept, len)| *kept as u32 == *len && *len >= 42));
    let whole = lens[0].1;
    let (stamps, lens) =
        take(&["--extcap-capture-filter", "udp src port 10003 or udp src port 10004", "--snaplen", "40"]);
    assert_eq!((stamps.len(), lens[0]), (2, (40, whole)), "the filter sees what is not kept");
    assert_eq!(take(&["--extcap-capture-filter", "tcp"]).0.len(), 0);
}

/// A capture ends without a message when its reader closes, on a signal, and with its port, whether
/// frames arrive or not.
#[test]
fn capture_ends_with_reader_signal_or_port() {
    let dir = Dir::new("extcap-ends");
    let fifo = dir.fifo("fifo");
    let busy = "pktgen(rate=1k):pg0";
    let idle = format!("text:{}", dir.fifo("idle"));
    for port in [busy, &idle] {
        let child = capture(&fifo, port);
        let mut head = [0; 28];
        let mut reader = File::open(&fifo).unwrap();
        reader.read_exact(&mut head).unwrap();
        assert_eq!(head[..4], [0x0a, 0x0d, 0x0d, 0x0a], "pcapng begins at once, also where nothing happens");
        drop(reader);
        ended_quietly(child);

        let child = capture(&fifo, port);
        let mut reader = File::open(&fifo).unwrap();
        reader.read_exact(&mut head).unwrap();
        terminate(&child);
        reader.read_to_end(&mut Vec::new()).unwrap();
        ended_quietly(child);
    }
    // The signal arrives before the FIFO has a reader.
    let child = capture(&fifo, busy);
    until("the program handles the signal", || handles_sigterm(&child));
    terminate(&child);
    ended_quietly(child);
    let child = capture(&fifo, GENERATED);
    let mut all = Vec::new();
    File::open(&fifo).unwrap().read_to_end(&mut all).unwrap();
    assert!(all.len() > 20 * 60);
    ended_quietly(child);
}

#[test]
fn install_replaces_its_link_but_no_other_file() {
    let dir = Dir::new("extcap-link");
    let folder = dir.path("new/extcap");
    for _ in 0..2 {
        let (code, out, err) = extcap(&["extcap", "--install", &folder]);
        assert_eq!((code, err.as_str()), (Some(0), ""));
        assert!(out.starts_with(&format!("{folder}/linerate -> /")), "{out}");
    }
    let output = run(Command::new(format!("{folder}/linerate")).arg("--extcap-interfaces"));
    assert!(printed(&output).1.contains("interface {value=linerate}"));
    fs::remove_file(format!("{folder}/linerate")).unwrap();
    dir.file("new/extcap/linerate", "mine");
    let (code, _, err) = extcap(&["extcap", "--install", &folder]);
    assert_eq!(code, Some(1), "{err}");
    assert_eq!(dir.read("new/extcap/linerate"), "mine");
}

/// tshark with its own home directory, in which the program is linked as the help describes.
struct Tshark<'a>(&'a Dir);

impl Tshark<'_> {
    fn env<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        for name in ["XDG_CONFIG_HOME", "WIRESHARK_CONFIG_DIR", "WIRESHARK_EXTCAP_DIR", "LINERATE_CTL"] {
            command.env_remove(name);
        }
        command.env("HOME", self.0.path("home")).env("XDG_RUNTIME_DIR", self.0.path("run"))
    }

    fn run(&self, words: &[&str]) -> Output {
        run(self.env(Command::new("tshark").args(words)))
    }

    /// Returns the fields of the frames of a capture, one line per frame.
    #[track_caller]
    fn fields(&self, words: &[&str]) -> Vec<String> {
        let (code, out, err) =
            printed(&self.run(&[words, &["-T", "fields", "-e", "eth.src", "-e", "udp.srcport"]].concat()));
        assert_eq!(code, Some(0), "{words:?}: {err}");
        out.lines().map(str::to_owned).collect()
    }
}

#[test]
fn tshark_captures_from_ports_and_running_hosts() {
    if !has("tshark") {
        return println!("skipped: tshark_captures_from_ports_and_running_hosts: no tshark");
    }
    let dir = Dir::new("extcap-tshark");
    let tshark = Tshark(&dir);
    fs::create_dir_all(dir.path("home")).unwrap();
    fs::create_dir_all(dir.path("run")).unwrap();
    let (code, out, err) = printed(&run(tshark.env(&mut linerate(&["extcap", "--install"]))));
    assert_eq!(code, Some(0), "{err}");
    assert!(out.starts_with(&dir.path("home/")), "{out}");

    let listed = printed(&tshark.run(&["-D"])).1;
    assert!(listed.contains(" linerate (Any port of linerate, by its name)"), "{listed}");
    let frames = tshark.fields(&["-i", "linerate", "-c", "10"]);
    assert_eq!(frames, vec!["12:23:34:45:56:00\t12345"; 10], "what is captured when nothing is said");
    // Captures to the end of the port, with and without a filter.
    let port = format!("extcap.linerate.port:{GENERATED}");
    assert_eq!(tshark.fields(&["-i", "linerate", "-o", &port]).len(), 20);
    let frames = tshark.fields(&["-i", "linerate", "-o", &port, "-f", "udp src port 10007"]);
    assert_eq!(frames, ["12:23:34:45:56:00\t10007"]);
    let text = dir.file("frames.txt", printed(&run(&mut linerate(&["cat", "-c", "5", "pktgen(size=18):"]))).1);
    let port = format!("extcap.linerate.port:text:{text}");
    assert_eq!(tshark.fields(&["-i", "linerate", "-o", &port]).len(), 5);

    // A host whose control socket is in the directory of 'up' is found, and captured by the name of
    // its port.
    let toml =
        "[[host]]\nname = \"a\"\n[[host.iface]]\nport = \"pktgen(rate=1k):pg0\"\n[[host.iface]]\nport = \"null:n0\"\n";
    let toml = dir.file("a.toml", toml);
    let mut host =
        tshark.env(&mut linerate(&["up", &toml])).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let begin = Instant::now();
    let listed = loop {
        let listed = printed(&tshark.run(&["-D"])).1;
        if listed.contains("linerate-a-") || begin.elapsed() > Duration::from_secs(30) {
            break listed;
        }
    };
    assert!(listed.contains(" linerate-a-pg0 (pg0 of a running host: pktgen(rate=1k):pg0)"), "{listed}");
    assert!(listed.contains(" linerate-a-n0 ("), "{listed}");
    assert_eq!(tshark.fields(&["-i", "linerate-a-pg0", "-c", "10"]).len(), 10);
    assert_eq!(tshark.fields(&["-i", "linerate-a-pg0", "-c", "3", "-f", "udp and not port 9"]).len(), 3);
    terminate(&host);
    assert_eq!(wait(&mut host), Some(0));
}
