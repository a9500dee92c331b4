//! Ports of kind `text:`: two of our processes connected by FIFOs, an ordinary tool between them,
//! and every command that accepts a port.

use crate::common;
use crate::common::{Dir, Running, linerate, printed, run, wait};
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Output, Stdio};

/// Returns `count` frames between two machines, as lines.
fn frames(src: u8, dst: u8, count: usize) -> String {
    let words = format!("gen -n {count} --src 0200000000{src:02x} --dst 0200000000{dst:02x}");
    let output = run(&mut linerate(&words.split(' ').collect::<Vec<_>>()));
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn start(command: &mut Command) -> Child {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Waits for the end of a command and returns its output.
fn end(mut child: Child) -> (Option<i32>, String, String) {
    wait(&mut child);
    printed(&child.wait_with_output().unwrap())
}

const HOST: &str = r#"
[[host]]
name = "b"

[[host.iface]]
port = "text(write=OUT):IN"
name = "eth0"
mac = "02:00:00:00:00:aa"
addresses = ["10.0.0.2/24"]
"#;

/// Pings 10.0.0.2 over two FIFOs.
fn ping(write: &str, read: &str, count: &str) -> Output {
    let port = format!("text(write={write}):{read}");
    run(&mut linerate(&["nanoping", "10.0.0.2", &port, "-S", "10.0.0.1", "-c", count, "-i", "0", "-W", "30"]))
}

/// Two FIFOs act as a wire between two processes: one of our pings, and one of our hosts from a
/// TOML file.
#[test]
fn two_processes_on_two_fifos_ping() {
    let dir = Dir::new("text-wire");
    let (ab, ba) = (dir.fifo("ab"), dir.fifo("ba"));
    let toml = dir.file("b.toml", HOST.replace("OUT", &ba).replace("IN", &ab));
    let host = start(linerate(&["up", &toml, "--control-dir", &dir.path("")]).env("LC_ALL", "C"));
    let (code, out, err) = printed(&ping(&ab, &ba, "20"));
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(out.contains("10.0.0.2: 20 sent, 20 received, 0 lost, 0 stray"), "{out}");
    // The writer has exited, so the port is at its end, and the host ends.
    let (code, out, err) = end(host);
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(out.contains("imbalance           0"), "{out}");
    assert!(err.contains("b: eth0: port closed: end of input; no port is left, so the host ends"), "{err}");
}

/// The same with sed between the processes, which changes the address of the host.
#[test]
fn a_stream_editor_between_two_processes_changes_a_byte() {
    let dir = Dir::new("text-sed");
    let [ab, bs, sb, ba] = ["ab", "bs", "sb", "ba"].map(|name| dir.fifo(name));
    let toml = dir.file("b.toml", HOST.replace("OUT", &bs).replace("IN", &sb));
    let host = start(&mut linerate(&["up", &toml, "--control-dir", &dir.path("")]));
    let there = format!("sed -u -e s/^0200000000BB/0200000000AA/ < {ab} > {sb}");
    let back = "s/^\\([^ ]* 0200000000\\)AA/\\1BB/; s/02 00 00 00 00 AA/02 00 00 00 00 BB/";
    let back = format!("sed -u -e '{back}' < {bs} | tee seen > {ba}");
    let editors = [start(&mut dir.bash(&there)), start(&mut dir.bash(&back))];
    let (code, out, err) = printed(&ping(&ab, &ba, "10"));
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(out.contains("10 sent, 10 received, 0 lost"), "{out}");
    let (code, out, err) = end(host);
    assert_eq!((code, out.contains("imbalance           0")), (Some(0), true), "{out}{err}");
    for editor in editors {
        assert_eq!(end(editor).0, Some(0));
    }
    let seen = dir.read("seen");
    let answers = seen.lines().filter(|line| !line.starts_with("FFFFFFFFFFFF"));
    assert_eq!(answers.count(), 11, "to ARP, and ten");
    assert!(seen.lines().all(|line| line.contains(" 0200000000BB ")), "{seen}");
}

#[test]
fn a_file_of_lines_is_a_port_like_any_other() {
    let dir = Dir::new("text-file");
    let lines = frames(1, 2, 5);
    let file = dir.file("in", lines.clone() + "no frame\n");
    let cat = |words: &[&str]| printed(&run(&mut linerate(&[&["cat"], words].concat())));
    let warnings =
        "linerate: line 6, column 1: 'n' is not a hexadecimal digit\nlinerate: 1 of 6 lines are not valid frames\n";
    assert_eq!(cat(&[&format!("text:{file}")]), (Some(0), lines.clone(), warnings.to_owned()));
    // With -o, the lines are decoded and encoded instead of copied.
    assert_eq!(cat(&["-o", "f1", &format!("text:{file}")]).1, lines);
    let (code, out, err) = cat(&["-o", "f1", &format!("text(strict=on):{file}")]);
    assert_eq!((code, out), (Some(1), lines.clone()));
    assert!(err.contains(&format!("text:{file}: line 6, column 1: 'n' is not a hexadecimal digit")), "{err}");

    let out = dir.path("out");
    assert_eq!(run(&mut linerate(&["put", &format!("text(read=off):{out}"), &file])).status.code(), Some(0));
    assert_eq!(dir.read("out"), lines);
    let (code, text, _) = printed(&run(
        &mut dir.bash("linerate cat -c 3 text:in | linerate put text:- | cat; cat < in | linerate cat -c 2 text:-")
    ));
    let some: Vec<&str> = lines.lines().collect();
    assert_eq!((code, text), (Some(0), format!("{}\n{}\n", some[..3].join("\n"), some[..2].join("\n"))));

    // A wrapper around a port also works around this port.
    let traced = format!("tracer(file={}):text:{file}", dir.path("trace.pcapng"));
    assert_eq!(cat(&[&traced]).1, lines);
    let again = printed(&run(&mut linerate(&["conv", "-o", "f1", &dir.path("trace.pcapng")])));
    assert_eq!(again.1, lines);
    let (code, _, err) = cat(&["text:/no/such/file"]);
    assert_eq!(
        (code, err.trim()),
        (Some(1), "linerate: port text:/no/such/file: No such file or directory (os error 2)")
    );
}

#[test]
fn a_closed_reader_ends_the_writer_without_error() {
    let dir = Dir::new("text-epipe");
    let line = "linerate gen -n 1000000 | linerate put text:- | head -2; echo ${PIPESTATUS[1]}";
    let (_, out, err) = printed(&run(&mut dir.bash(line)));
    assert_eq!((out.lines().count(), out.lines().last(), err.contains("put")), (3, Some("0"), false), "{err}");
    dir.fifo("fifo");
    let line = "head -2 fifo > got & linerate gen -n 1000000 2> said | linerate put 'text(read=off):fifo'; echo ${PIPESTATUS[1]}; wait";
    assert_eq!(printed(&run(&mut dir.bash(line))), (Some(0), "0\n".to_owned(), String::new()));
    assert_eq!(dir.read("got"), frames_of(&dir));
    let (code, _, err) =
        printed(&run(&mut dir.bash("linerate gen -n 1 2> said | linerate put 'text(read=off):/dev/full'")));
    assert_eq!((code, err.as_str()), (Some(1), "linerate: text:/dev/full: No space left on device (os error 28)\n"));
}

fn frames_of(dir: &Dir) -> String {
    printed(&run(&mut dir.bash("linerate gen -n 2 2> said"))).1
}

/// A hundred thousand frames go through standard output to a slow reader. None is truncated or
/// lost.
#[test]
fn a_slow_reader_of_standard_output_gets_everything() {
    let dir = Dir::new("text-slow");
    let line =
        "linerate cat -c 100000 'pktgen(size=18):' > all; linerate put text:- < all | (sleep 0.5; cat) | cmp - all";
    assert_eq!(printed(&run(&mut dir.bash(line))), (Some(0), String::new(), String::new()));
    // Frames have different lengths, so that lines end anywhere in a page of the pipe.
    let line = "linerate gen -n 3000 -s 1400 2> said > all; linerate gen -n 3000 -s 77 2> said >> all; linerate put text:- < all | cmp - all";
    assert_eq!(printed(&run(&mut dir.bash(line))), (Some(0), String::new(), String::new()));
}

/// The same with a socket as standard output. It cannot be opened again, and is polled before each
/// piece.
#[test]
fn standard_output_may_be_a_socket() {
    let lines = frames(1, 2, 20_000);
    let (mut here, there) = UnixStream::pair().unwrap();
    let dir = Dir::new("text-socket");
    let file = dir.file("all", &lines);
    let there = Stdio::from(std::os::fd::OwnedFd::from(there));
    let mut child = linerate(&["put", "text:-", &file]).stdin(Stdio::null()).stdout(there).spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(200));
    let mut got = String::new();
    here.read_to_string(&mut got).unwrap();
    assert!(got == lines, "{} of {} bytes", got.len(), lines.len());
    assert_eq!(wait(&mut child), Some(0));
}

#[test]
fn a_switch_names_its_ports_of_text_in_the_grammar() {
    let dir = Dir::new("text-switch");
    let (a, b, c) = (frames(1, 2, 3), frames(2, 1, 2), frames(3, 1, 1));
    dir.file("a", &a);
    dir.file("b", b.clone() + "zz\n");
    dir.file("c", &c);
    let line = "linerate switch 'text(write=a.out):a' 'text(write=b.out):b' --text c,c.out";
    let (code, _, err) = printed(&run(&mut dir.bash(line)));
    assert_eq!(code, Some(0), "{err}");
    assert_eq!((dir.read("a.out"), dir.read("b.out"), dir.read("c.out")), (b + &c, a.clone(), a));
    assert!(err.contains("text(write=b.out):b: line 3, column 1: 'z' is not a hexadecimal digit"), "{err}");
}

/// A host whose wire is its standard input and output prints its audit elsewhere. A capture
/// contains the frames.
#[test]
fn a_host_on_standard_input_and_output() {
    let dir = Dir::new("text-host");
    let ask = "FFFFFFFFFFFF 020000000001 0806 00 01 08 00 06 04 00 01 02 00 00 00 00 01 0A 00 00 01 00 00 00 00 00 00 0A 00 00 02";
    dir.file("in", format!("{ask}\nnonsense\n"));
    let (code, out, err) =
        printed(&run(&mut dir.bash("linerate host --port text:- --mac 02:00:00:00:00:aa --addr 10.0.0.2/24 < in")));
    assert_eq!(code, Some(0), "{err}");
    let answer = "020000000001 0200000000AA 0806 00 01 08 00 06 04 00 02 02 00 00 00 00 AA 0A 00 00 02 02 00 00 00 00 01 0A 00 00 01";
    assert_eq!(out.lines().filter(|line| line.starts_with(answer)).count(), 1, "{out}");
    assert!(
        out.lines().all(|line| line.starts_with("FFFFFFFFFFFF 0200000000AA 0806") || line.starts_with(answer)),
        "{out}"
    );
    assert!(
        err.contains("imbalance           0") && err.contains(": line 2, column 1: 'n' is not a hexadecimal digit"),
        "{err}"
    );

    let (there, back) = (dir.fifo("there"), dir.fifo("back"));
    let port = format!("text(write={back}):{there}");
    let host = Running::start("text-dump", &["--port", &port, "--addr", "10.0.0.2/24", "--set", "stay=on"]);
    let mut dump = start(&mut linerate(&["tcpdump", "--url", &host.url(), "-n", "-t", "-c", "1"]));
    let begin = std::time::Instant::now();
    while host.json("capture list") == serde_json::json!([]) {
        assert!(begin.elapsed() < common::PATIENCE);
    }
    std::fs::write(&there, format!("nonsense\n{ask}\n")).unwrap();
    assert_eq!(wait(&mut dump), Some(0));
    let (_, lines, _) = printed(&dump.wait_with_output().unwrap());
    assert!(lines.contains("ARP, Request who-has 10.0.0.2 tell 10.0.0.1"), "{lines}");
    let begin = std::time::Instant::now();
    while host.json("show ports")[0]["gone"] == false {
        assert!(begin.elapsed() < common::PATIENCE);
    }
    let ports = host.json("show ports");
    assert_eq!((&ports[0]["port"], &ports[0]["gone"]), (&port.as_str().into(), &true.into()));
    assert_eq!(ports[0]["warnings"][0], "line 1, column 1: 'n' is not a hexadecimal digit");
    assert_eq!(
        (&ports[0]["counters"]["port.rx.malformed"], &ports[0]["counters"]["port.rx.frames"]),
        (&1.into(), &1.into())
    );
    // The replies are not read, so they stay queued, and the audit accounts for them.
    assert!(ports[0]["counters"]["port.tx.held"].as_u64() > Some(0), "{ports}");
    let (code, out, err) = host.interrupt();
    assert!(out.contains("imbalance           0"), "{code:?} {out}{err}");
}
