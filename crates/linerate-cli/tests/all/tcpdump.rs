//! `linerate tcpdump` with a running host: lines, files, limits, Ctrl-C, and a host that ends
//! first.

use crate::common::{Dir, Running, has, linerate, printed, run, wait};
use port::pcap::{Direction, Reader};
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

const PORT: &str = "pktgen(rate=1k,dst=10.2.0.1,src=10.2.0.2,dst_port=9):pg0";

fn start(name: &str) -> Running {
    Running::start(name, &["--port", PORT, "--addr", "10.2.0.1/24", "--service", "discard:9"])
}

#[test]
fn lines_equal_those_of_tcpdump() {
    let host = start("dump-lines");
    let url = host.url();
    let out = run(&mut linerate(&["tcpdump", "--url", &url, "-i", "pg0", "-n", "-t", "-c", "5"]));
    let (text, notes) = (String::from_utf8(out.stdout).unwrap(), String::from_utf8(out.stderr).unwrap());
    assert!(out.status.success(), "{notes}");
    assert_eq!(text.lines().count(), 5, "{text}");
    assert!(text.lines().all(|l| l.starts_with("IP 10.2.0.2.") && l.contains(" > 10.2.0.1.9: UDP, length ")), "{text}");
    assert!(notes.contains("listening on pg0, snapshot length 262144 bytes"), "{notes}");
    assert!(notes.contains("5 frames captured, 0 missed"), "{notes}");
    let out = run(&mut linerate(&["tcpdump", "--url", &url, "-e", "-c", "1"]));
    let text = String::from_utf8(out.stdout).unwrap();
    let (time, rest) = text.split_once(' ').unwrap();
    assert!(time.len() == 15 && time.as_bytes()[2] == b':' && time.as_bytes()[8] == b'.', "{text}");
    assert!(rest.starts_with("pg0    In  ") && rest.contains(", ethertype IPv4 (0x0800), length "), "{text}");
    assert_eq!(host.json("capture list"), serde_json::json!([]), "nothing stays behind");
    let (code, out, err) = host.interrupt();
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert!(out.contains("imbalance           0"), "{out}");
}

#[test]
fn a_file_is_pcapng_that_others_read() {
    let host = start("dump-file");
    let file = std::env::temp_dir().join(format!("lr-dump-{}.pcapng", std::process::id()));
    let path = file.display().to_string();
    let out = run(&mut linerate(&["tcpdump", "--url", &host.url(), "-i", "pg0", "-w", &path, "-c", "7", "-s", "40"]));
    assert!(out.status.success() && out.stdout.is_empty(), "{out:?}");
    let bytes = std::fs::read(&file).unwrap();
    let mut reader = Reader::new(bytes.as_slice());
    let (mut frames, mut last) = (0, 0);
    while let Some(record) = reader.read().unwrap() {
        assert_eq!((record.data.len(), record.direction, record.interface), (40, Direction::Inbound, 0));
        assert!(record.orig_len > 40 && record.ts_ns >= last && record.ts_ns > 1_700_000_000_000_000_000);
        (frames, last) = (frames + 1, record.ts_ns);
    }
    assert_eq!(frames, 7);
    if has("tcpdump") {
        let read = run(Command::new("tcpdump").args(["-n", "-r", &path]));
        assert_eq!(String::from_utf8(read.stdout).unwrap().lines().count(), 7);
    }
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn a_capture_ends_on_ctrl_c_and_with_the_host() {
    let host = start("dump-stop");
    let url = host.url();
    let follow = || {
        let mut command = linerate(&["tcpdump", "--url", &url, "-i", "pg0"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut first = String::new();
        lines.read_line(&mut first).unwrap();
        assert!(first.contains(" IP 10.2.0.2."), "{first}");
        // Unread output would fill the pipe and block the program.
        let rest = std::thread::spawn(move || lines.read_to_string(&mut String::new()).unwrap());
        (child, rest)
    };
    let (mut child, rest) = follow();
    // The child has not been waited for, so its process number is not reused.
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    assert_eq!(wait(&mut child), Some(0));
    rest.join().unwrap();
    let mut notes = String::new();
    child.stderr.take().unwrap().read_to_string(&mut notes).unwrap();
    assert!(notes.contains(" frames captured, 0 missed"), "{notes}");
    assert_eq!(host.json("capture list"), serde_json::json!([]));

    let (mut child, rest) = follow();
    drop(host);
    assert_eq!(wait(&mut child), Some(3));
    rest.join().unwrap();
}

#[test]
fn invalid_arguments_are_rejected() {
    let host = Running::start("dump-wrong", &["--port", "null:n0"]);
    let url = host.url();
    for (words, code, says) in [
        (&["tcpdump"][..], 2, "give --url unix:///path, or set LINERATE_CTL"),
        (&["tcpdump", "--url", "/nonexistent"], 3, "check that a host runs"),
        (&["tcpdump", "--url", &url, "-i", "n1"], 1, "unknown iface 'n1' (did you mean 'n0'?)"),
        (&["tcpdump", "--url", &url, "-i", "lo0"], 1, "lo0: cannot be captured: the interface has no port"),
        (&["tcpdump", "--url", &url, "-w", "/nonexistent/x"], 1, "/nonexistent/x: No such file"),
    ] {
        let out = run(&mut linerate(words));
        let err = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(code), "{words:?}: {err}");
        assert!(err.contains(says) && err.lines().count() == 1, "{words:?}: {err}");
    }
    assert_eq!(run(&mut linerate(&["tcpdump", "-c", "0"])).status.code(), Some(2));
}

/// Frames of a bridge's ports are captured in both directions, as on a host, and dropped frames
/// with the drop reason.
#[test]
fn a_bridge_is_captured_like_a_host() {
    let bridge = Running::start_as("dump-bridge", &["bridge", "--stay", PORT, "null:n0", "null:n1"]);
    let url = bridge.url();
    let dump = |flags: &[&str]| {
        let out = run(linerate(&["tcpdump", "--url", &url, "-t", "-c", "4"]).args(flags));
        let (code, text, notes) = printed(&out);
        assert_eq!(code, Some(0), "{flags:?}: {notes}");
        assert_eq!(text.matches("10.2.0.2.").count(), 4, "{flags:?}: {text}");
        text
    };
    assert!(dump(&["-i", "pg0", "udp", "port", "9"]).contains("IP 10.2.0.2."));
    assert!(dump(&["-i", "bridge0"]).contains("IP 10.2.0.2."), "the bridge itself: all its ports");
    let unknown = bridge.no("brigde link");
    assert!(
        unknown.contains("did you mean 'bridge'?") || unknown.contains("possible: ifconfig, bridge, ip,"),
        "{unknown}"
    );
    assert!(!bridge.no("zebra").contains(", ,"), "{}", bridge.no("zebra"));
    assert!(dump(&["-i", "n1"]).contains(" > 10.2.0.1.9: UDP"), "flooded");
    let any = printed(&run(&mut linerate(&["tcpdump", "--url", &url, "-t", "-c", "200"]))).1;
    assert!(any.contains("pg0    In  ") && any.contains("Out IP 10.2.0.2."), "{any}");
    let list = printed(&run(&mut linerate(&["tcpdump", "--url", &url, "-D"]))).1;
    assert!(list.starts_with("1.pg0 [pktgen(") && list.ends_with("4.any (all of them)\n"), "{list}");
    bridge.ok("ifconfig bridge0 down");
    assert!(dump(&["--dropped"]).contains("pg0    Drop IP 10.2.0.2."));
    assert!(dump(&["--dropped", "-v"]).contains(", ttl 5, ") && dump(&["--dropped"]).contains(" [bridge.in.down]\n"));
    let why = printed(&run(&mut linerate(&["why", "--url", &url, "--for", "300ms", "udp", "10.2.0.1:9"]))).1;
    assert!(why.contains("  dropped at pg0: ") && why.contains("    bridge.in.down: "), "{why}");
    assert!(why.contains("\nstation ") && why.contains("  unknown address: sent to all ports\n"), "{why}");
}

/// A datagram to a closed port: `why` reports where it arrived, what happened to it, the route
/// back, and that there is no socket.
#[test]
fn why_explains_a_flow() {
    let host = Running::start("why", &["--port", PORT, "--addr", "10.2.0.1/24"]);
    let url = host.url();
    let why = |words: &[&str]| printed(&run(linerate(&["why", "--url", &url, "--for", "300ms"]).args(words)));
    let (code, text, notes) = why(&["udp", "10.2.0.1:9"]);
    assert_eq!(code, Some(0), "{notes}");
    for says in [
        "  received at pg0: ",
        "  dropped in the host: ",
        "    inet.udp.in.no_socket: ",
        "route to 10.2.0.1\n",
        "arrives on pg0",
        "no matching socket",
    ] {
        assert!(text.contains(says), "{says}: {text}");
    }
    let json: serde_json::Value = serde_json::from_str(&why(&["-j", "udp", "port", "9"]).1).unwrap();
    assert_eq!(json["frames"][0]["fate"], "received");
    let reasons: Vec<_> = json["frames"].as_array().unwrap().iter().map(|row| &row["dropped"]["reason"]).collect();
    assert!(reasons.contains(&&"inet.udp.in.no_socket".into()), "{json}");
    assert_eq!(json["missed"], 0, "{json}");
    assert!(why(&["tcp", "10.9.9.9"]).1.contains("no frame of"), "nothing such");
    host.ok("ifconfig pg0 inet6 fd00::1/64");
    let six = why(&["tcp", "fd00::7"]).1;
    assert!(six.contains("  the neighbor fd00::7 on pg0 is not known: the first packet waits"), "{six}");
    let listening = Running::start("why-ss", &["--port", PORT, "--addr", "10.2.0.1/24", "--service", "echo:9"]);
    let text =
        printed(&run(&mut linerate(&["why", "--url", &listening.url(), "--for", "300ms", "udp", "10.2.0.1:9"]))).1;
    let socket = text.lines().find(|line| line.starts_with("  udp ")).unwrap_or_else(|| panic!("no socket: {text}"));
    assert!(
        socket.contains(" 0.0.0.0:9 *:*") || socket.contains(" [::]:9 *:*") || socket.contains(" *:9 *:*"),
        "{socket}"
    );
    assert_eq!(why(&["--for", "0s", "udp prot 9"]).0, Some(2));
    let known = printed(&run(&mut linerate(&["why", "--url", &url, "--for", "0s", "udp", "10.2.0.1:9"]))).1;
    assert!(known.contains("dropped earlier") && known.contains("  inet.udp.in.no_socket in the host: "), "{known}");
}

/// The drop reason is a comment, which tshark reads. Files are started one after the other by size,
/// and in a ring.
#[test]
fn dropped_frames_and_many_files_are_written() {
    let dir = Dir::new("dump-files");
    let host = Running::start("dump-files-host", &["--port", PORT, "--addr", "10.2.0.1/24"]);
    let url = host.url();
    let (file, ring) = (dir.path("d.pcapng"), dir.path("r.pcap"));
    let write = |flags: &[&str]| {
        let (code, _, notes) = printed(&run(linerate(&["tcpdump", "--url", &url]).args(flags)));
        assert_eq!(code, Some(0), "{flags:?}: {notes}");
    };
    write(&["--dropped", "-c", "3", "-s", "0", "-w", &file, "udp port 9"]);
    let shown = printed(&run(&mut linerate(&["tcpdump", "-r", &file, "-t", "udp"]))).1;
    assert_eq!(shown.lines().filter(|line| line.starts_with("IP 10.2.0.2.")).count(), 3, "{shown}");
    if has("tshark") {
        let out = run(Command::new("tshark").args(["-r", &file, "-T", "fields", "-e", "frame.comment"]));
        let comments = String::from_utf8(out.stdout).unwrap();
        assert!(comments.lines().all(|line| line.starts_with("dropped: inet.udp.in.no_socket: ")), "{comments}");
        assert_eq!(comments.lines().count(), 3, "{comments}");
    }
    // With 64-byte frames, a file of a million bytes would take long, so three files are started by
    // time instead.
    let timed = dir.path("t-%s.pcap");
    write(&["-i", "pg0", "-G", "1", "-W", "2", "-w", &timed]);
    let names =
        || std::fs::read_dir(dir.path("")).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(names().filter(|name| name.starts_with("t-")).count(), 2, "{:?}", names().collect::<Vec<_>>());
    // An unknown conversion stays unchanged, as in stock tcpdump.
    write(&["-i", "pg0", "-G", "1", "-W", "1", "-w", &dir.path("x%!%%")]);
    assert!(names().any(|name| name == "x%!%"), "{:?}", names().collect::<Vec<_>>());
    for (flags, says) in [
        (&["-W", "2", "-w", &ring][..], "-W requires -C or -G"),
        (&["-C", "1"][..], "-C requires -w FILE"),
        (&["-G", "1", "-w", "-"][..], "require a file name for -w"),
        (&["tcp", "prot", "80"][..], "expected 'and', 'or' or the end"),
        (&["-s", "262145"][..], "expected 0 to 262144 bytes"),
    ] {
        let (code, _, notes) = printed(&run(linerate(&["tcpdump", "--url", &url]).args(flags)));
        assert!(code == Some(2) && notes.contains(says), "{flags:?}: {notes}");
    }
}

/// The lines equal those of stock tcpdump for the same file: brief, verbose, with bytes, and in
/// local time.
#[test]
fn a_file_is_read_as_tcpdump_reads_it() {
    if !has("tcpdump") {
        println!("skipped: no tcpdump here");
        return;
    }
    let dir = Dir::new("dump-read");
    let host = start("dump-read-host");
    let file = dir.path("f.pcap");
    assert!(
        run(&mut linerate(&["tcpdump", "--url", &host.url(), "-i", "pg0", "-c", "5", "-w", &file])).status.success()
    );
    let both = |flags: &[&str]| {
        let ours = printed(&run(linerate(&["tcpdump", "-r", &file, "-nt"]).args(flags))).1;
        let theirs = run(Command::new("tcpdump").args(["-r", &file, "-nt"]).args(flags));
        (ours, String::from_utf8(theirs.stdout).unwrap())
    };
    for flags in [&[][..], &["-c", "2"], &["-x"], &["-X"], &["-XX"], &["-e"], &["udp port 9"], &["tcp"], &["-v"]] {
        let (ours, theirs) = both(flags);
        assert_eq!(ours, theirs, "{flags:?}");
    }
    // Zones: five and a half hours east of Greenwich, ten hours west, and a zone by its name.
    for zone in ["IST-5:30", "HST10", "Asia/Tokyo"] {
        let ours = printed(&run(linerate(&["tcpdump", "-r", &file, "-n"]).env("TZ", zone))).1;
        let theirs = run(Command::new("tcpdump").args(["-r", &file, "-n"]).env("TZ", zone));
        assert_eq!(ours, String::from_utf8(theirs.stdout).unwrap(), "{zone}");
    }
}

/// With -C and -W, the files equal those of stock tcpdump for the same packets.
#[test]
fn files_are_begun_as_tcpdump_begins_them() {
    if !has("tcpdump") {
        println!("skipped: no tcpdump here");
        return;
    }
    let dir = Dir::new("dump-size");
    let line = "linerate gen -n 40000 --udp 10.0.0.1:7-10.0.0.2:9 | linerate conv -o pcap > all.pcap";
    assert!(dir.bash(line).output().unwrap().status.success());
    for (count, flags) in [("3", &["-C", "1"][..]), ("2", &["-C", "1", "-W", "2"]), ("12", &["-C", "1", "-W", "12"])] {
        for (program, name) in [("linerate", "ours"), ("tcpdump", "theirs")] {
            std::fs::create_dir_all(dir.path(name)).unwrap();
            let sub = if program == "linerate" { "linerate tcpdump" } else { "tcpdump -Z root" };
            let line = format!("cd {name} && rm -f x* && {sub} -r ../all.pcap {} -w x", flags.join(" "));
            let output = dir.bash(&line).output().unwrap();
            assert!(output.status.success(), "{line}: {output:?}");
        }
        let files = |name: &str| -> Vec<(String, usize)> {
            let entries = std::fs::read_dir(dir.path(name)).unwrap().map(|entry| entry.unwrap());
            let packets = |path: &std::path::Path| {
                let bytes = std::fs::read(path).unwrap();
                let mut reader = Reader::new(bytes.as_slice());
                std::iter::from_fn(|| reader.read().unwrap().map(|_| ())).count()
            };
            let mut all: Vec<_> = entries.map(|e| (e.file_name().into_string().unwrap(), packets(&e.path()))).collect();
            all.sort();
            all
        };
        let names = |name: &str| files(name).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        assert_eq!(names("ours"), names("theirs"), "{count} {flags:?}");
        let kept = |name: &str| files(name).into_iter().map(|(_, packets)| packets).sum::<usize>();
        if flags.len() == 2 {
            assert_eq!((kept("ours"), kept("theirs")), (40_000, 40_000));
        }
    }
}

/// A selection from a capture with another link type, several interfaces and comments keeps them. A
/// pcap file with packets of two link types is rejected.
#[test]
fn a_selection_from_a_file_keeps_metadata() {
    let dir = Dir::new("dump-keeps");
    let host = Running::start("dump-keeps-host", &["--port", PORT, "--addr", "10.2.0.1/24"]);
    let (dropped, copy) = (dir.path("d.pcapng"), dir.path("c.pcapng"));
    let write = ["tcpdump", "--url", &host.url(), "--dropped", "-c", "2", "-w", &dropped, "udp port 9"];
    assert!(run(&mut linerate(&write)).status.success());
    let out = run(&mut linerate(&["tcpdump", "-r", &dropped, "-w", &copy, "udp"]));
    assert!(out.status.success(), "{out:?}");
    let packets = |path: &str| {
        let bytes = std::fs::read(path).unwrap();
        let mut reader = Reader::new(bytes.as_slice());
        let mut all = Vec::new();
        while let Some(record) = reader.read().unwrap() {
            all.push((record.ts_ns, record.orig_len, record.linktype, record.data.to_vec(), record.options.to_vec()));
        }
        let names: Vec<_> = reader.section().interfaces.iter().map(|interface| interface.name()).collect();
        (all, names)
    };
    assert_eq!(packets(&copy), packets(&dropped));
    let options = packets(&copy).0[0].4.clone();
    assert!(options.windows(8).any(|part| part == b"dropped:"), "the reason is still there");
    // The link type is LINKTYPE_RAW.
    let mut raw = [0xa1b2_c3d4_u32, 4 << 16 | 2, 0, 0, 65_535, 101, 1, 0, 28, 28].map(u32::to_le_bytes).concat();
    raw.extend([0x45, 0, 0, 28, 0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0, 7, 0, 9, 0, 8, 0, 0]);
    let (file, copy) = (dir.file("raw.pcap", &raw), dir.path("raw-copy.pcap"));
    assert!(run(&mut linerate(&["tcpdump", "-r", &file, "-w", &copy])).status.success());
    assert_eq!(std::fs::read(&copy).unwrap(), raw);
    let shown = printed(&run(&mut linerate(&["tcpdump", "-r", &file, "-t"]))).1;
    assert_eq!(shown, "IP 10.0.0.1.7 > 10.0.0.2.9: UDP, length 0\n");
}
