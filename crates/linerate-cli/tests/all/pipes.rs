//! Runs the scripts of examples/pipes on lines of text, as an ordinary user.

use crate::common;
use crate::common::{has, isolated, linerate, run, until, wait};
use port::os::netlink::Netlink;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Returns the path of a script.
fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/pipes").join(name)
}

fn command(name: &str, args: &[&str]) -> Command {
    let mut command = Command::new(script(name));
    command.args(args).env("LINERATE", env!("CARGO_BIN_EXE_linerate"));
    command
}

/// Returns the output of a filter for some text.
#[track_caller]
fn filter(name: &str, args: &[&str], text: &str) -> String {
    let mut child = command(name, args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{name}");
    String::from_utf8(output.stdout).unwrap()
}

/// Returns whether the program has this command; if not, the test is skipped with a message.
fn knows(test: &str, name: &str) -> bool {
    let known = run(&mut linerate(&[name, "--help"])).status.success();
    if !known {
        println!("skipped: {test}: no 'linerate {name}' yet");
    }
    known
}

fn have(test: &str, programs: &[&str]) -> bool {
    let missing = programs.iter().find(|program| !has(program));
    if let Some(missing) = missing {
        println!("skipped: {test}: no {missing}");
    }
    missing.is_none()
}

/// Returns the line of a frame between two machines, which are given by their last bytes.
fn line(dst: &str, src: u8, behind: &str) -> String {
    format!("{dst} 0200000000{src:02X} {behind}{}\n", " 00".repeat(46))
}

fn to(n: u8) -> String {
    format!("0200000000{n:02X}")
}

/// A script with pipes to its input and from its output.
struct Talking {
    child: Child,
    input: Option<ChildStdin>,
    output: std::io::Lines<BufReader<ChildStdout>>,
}

impl Talking {
    fn start(mut command: Command) -> Talking {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap()).lines();
        Talking { input: child.stdin.take(), child, output }
    }

    fn say(&mut self, line: &str) {
        self.input.as_mut().unwrap().write_all(line.as_bytes()).unwrap();
    }

    #[track_caller]
    fn hear(&mut self) -> String {
        self.output.next().unwrap().unwrap()
    }
}

#[test]
fn a_tag_is_taken_off() {
    let (tagged, other) = (line(&to(1), 2, "8100 20 01 08 00 45"), line(&to(1), 2, "8100 00 02 08 00 45"));
    let expected = line(&to(1), 2, "0800 45");
    assert_eq!(filter("vlan_untag.sh", &[], &(tagged.clone() + &other)), expected + &other);
    assert_eq!(filter("vlan_untag.sh", &["2"], &(tagged.clone() + &other)), tagged + &line(&to(1), 2, "0800 45"));
}

#[test]
fn one_vlan_passes() {
    let lines: Vec<String> =
        ["8100 00 02", "8100 00 01", "0800 00 02", "8100 E0 02"].iter().map(|behind| line(&to(1), 2, behind)).collect();
    assert_eq!(filter("vlan_filter.sh", &[], &lines.concat()), lines[0].clone() + &lines[3]);
    let large = line(&to(1), 2, "8100 0F A0");
    assert_eq!(filter("vlan_filter.sh", &["4000"], &(lines.concat() + &large)), large);
}

#[test]
fn ten_milliseconds_are_1250000_ticks() {
    let frame = line(&to(1), 2, "88B5");
    let text = format!("0000000000000010 {frame}no line\n01000000FFFFFFFF {frame}");
    let expected = format!("00000000001312E0 {frame}01000001001312CF {frame}");
    assert_eq!(filter("delay_10ms.sh", &[], &text), expected);
}

#[test]
fn a_mirror_copies() {
    let copy = std::env::temp_dir().join(format!("lr-pipes-{}-copy", std::process::id()));
    let text = line(&to(1), 2, "88B5") + &line(&to(2), 1, "88B5");
    assert_eq!(filter("mirror.sh", &[copy.to_str().unwrap()], &text), text);
    assert_eq!(std::fs::read_to_string(&copy).unwrap(), text);
    std::fs::remove_file(copy).unwrap();
}

#[test]
fn five_frames_are_a_second_apart_and_whole() {
    let path = script("5per1s.apkt").display().to_string();
    let output = run(&mut linerate(&["conv", "-o", "jsonl", "--strict", &path]));
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8(output.stdout).unwrap().lines().count(), 5);
    let text = std::fs::read_to_string(&path).unwrap();
    let ticks: Vec<u64> = text.lines().map(|line| u64::from_str_radix(&line[4..16], 16).unwrap()).collect();
    assert_eq!(ticks, [0, 1, 2, 3, 4].map(|n| n * 125_000_000));
    let begin = std::time::Instant::now();
    assert!(run(&mut linerate(&["put", "null:", &path])).status.success());
    assert!(begin.elapsed() >= std::time::Duration::from_secs(4));
    if have("five_frames_are_a_second_apart_and_whole", &["tcpdump"]) {
        let pcap = std::env::temp_dir().join(format!("lr-pipes-{}.pcap", std::process::id()));
        let pcap = pcap.display().to_string();
        std::fs::write(&pcap, run(&mut linerate(&["conv", "-o", "pcap", &path])).stdout).unwrap();
        let printed = run(Command::new("tcpdump").args(["-nvvr", &pcap]));
        std::fs::remove_file(&pcap).unwrap();
        assert_eq!(String::from_utf8(printed.stdout).unwrap().matches("udp sum ok").count(), 5);
    }
}

#[test]
fn what_was_recorded_is_sent_again() {
    let path =
        |name: &str| std::env::temp_dir().join(format!("lr-pipes-{}-{name}", std::process::id())).display().to_string();
    let (file, out) = (path("rec.txt"), path("out.pcap"));
    let port = "pktgen(count=5,rate=1k):pg0";
    let recorded = run(&mut command("replay.sh", &["record", port, &file, "3"]));
    assert!(recorded.status.success(), "{recorded:?}");
    let text = std::fs::read_to_string(&file).unwrap();
    assert_eq!(text.lines().count(), 3);
    let played = run(&mut command("replay.sh", &["play", &file, &format!("pcap(read=off):{out}"), "100pps"]));
    assert!(played.status.success(), "{played:?}");
    let again = String::from_utf8(run(&mut linerate(&["conv", "-o", "f1", &out])).stdout).unwrap();
    assert_eq!(again, text.lines().map(|line| line[17..].to_owned() + "\n").collect::<String>());
    for name in [file, out] {
        std::fs::remove_file(name).unwrap();
    }
}

#[test]
fn the_shells_switch_learns() {
    if !have("the_shells_switch_learns", &["flock"]) {
        return;
    }
    let dir = std::env::temp_dir().join(format!("lr-pipes-{}-switch", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let path = |name: &str| dir.join(name).display().to_string();
    let names: Vec<String> = (0..3).flat_map(|n| [path(&format!("{n}.in")), path(&format!("{n}.out"))]).collect();
    assert!(Command::new("mkfifo").args(&names).status().unwrap().success());
    let ports: Vec<String> = names.chunks(2).map(|pair| pair.join(",")).collect();
    let ports: Vec<&str> = ports.iter().map(String::as_str).collect();
    let mut switch = command("learning_switch.sh", &ports).spawn().unwrap();
    let open = |name: &str| std::fs::OpenOptions::new().read(true).write(true).open(path(name)).unwrap();
    let mut ins: Vec<_> =
        (0..3).map(|n| std::fs::OpenOptions::new().write(true).open(path(&format!("{n}.in"))).unwrap()).collect();
    let mut outs: Vec<_> =
        (0..3).map(|n| BufReader::new(open(&format!("{n}.out"))).lines().map_while(Result::ok)).collect();
    let mut hear = |n: usize| outs[n].next().unwrap() + "\n";
    // A frame from a group address is dropped, and one to an unknown address is flooded. The reply
    // is then sent to one port only.
    ins[0].write_all(line(&to(2), 1, "88B5").replace("020000000001", "030000000001").as_bytes()).unwrap();
    let requested = line(&to(2), 1, "88B5");
    ins[0].write_all(requested.as_bytes()).unwrap();
    assert_eq!((hear(1), hear(2)), (requested.clone(), requested));
    let answer = line(&to(1), 2, "88B5");
    ins[1].write_all(answer.as_bytes()).unwrap();
    assert_eq!(hear(0), answer);
    let last = line("FFFFFFFFFFFF", 1, "88B5");
    ins[0].write_all(last.as_bytes()).unwrap();
    assert_eq!((hear(1), hear(2)), (last.clone(), last), "2 saw no answer to 1");
    drop(ins);
    assert_eq!(wait(&mut switch), Some(0));
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_tunnel_carries_lines_both_ways() {
    if !have("a_tunnel_carries_lines_both_ways", &["nc"]) {
        return;
    }
    // A port number that was free shortly before.
    let l4port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let mut here = Talking::start(command("tunnel.sh", &["listen", &l4port, "-"]));
    let listening = || {
        run(Command::new("sh").args([
            "-c",
            &format!("grep -qi ':{:04X} 0*:0000 0A' /proc/net/tcp /proc/net/tcp6", l4port.parse::<u16>().unwrap()),
        ]))
    };
    let begin = std::time::Instant::now();
    while !listening().status.success() {
        assert!(begin.elapsed() < common::PATIENCE, "nc does not listen");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let mut there = Talking::start(command("tunnel.sh", &["connect", "127.0.0.1", &l4port, "-"]));
    let (a, b) = (line(&to(1), 2, "88B5"), line(&to(2), 1, "88B5"));
    here.say(&a);
    assert_eq!(there.hear() + "\n", a);
    there.say(&b);
    assert_eq!(here.hear() + "\n", b);
    drop(there.input.take());
    drop(here.input.take());
    wait(&mut there.child);
    wait(&mut here.child);
}

#[test]
fn the_shell_pings() {
    if !knows("the_shell_pings", "crc") {
        return;
    }
    let mut ping = Talking::start(command("ping.sh", &["10.0.0.1", "10.0.0.2"]));
    let requested = ping.hear();
    assert!(
        requested.starts_with("FFFFFFFFFFFF 0200000000FE 0806 00 01 08 00 06 04 00 01 02 00 00 00 00 FE 0A 00 00 02 "),
        "{requested}"
    );
    assert!(requested.contains("00 00 00 00 00 00 0A 00 00 01"), "{requested}");
    let zeros = " 00".repeat(18);
    ping.say(&format!("0200000000FE 020000000001 0806 00 01 08 00 06 04 00 02 02 00 00 00 00 01 0A 00 00 01 02 00 00 00 00 FE 0A 00 00 02{zeros}\n"));
    for n in 1..=3 {
        let request = ping.hear();
        let body = format!("12 34 00 0{n}{zeros}");
        assert!(
            request.starts_with(
                "020000000001 0200000000FE 0800 45 00 00 2E 00 00 40 00 40 01 26 CD 0A 00 00 02 0A 00 00 01 08 00 "
            ),
            "{request}"
        );
        assert!(request.ends_with(&body), "{request}");
        ping.say(&format!("0200000000FE 020000000001 0800 45 00 00 2E 00 00 40 00 40 01 26 CD 0A 00 00 01 0A 00 00 02 00 00 00 00 {body}\n"));
    }
    assert_eq!(wait(&mut ping.child), Some(0));
}

#[test]
fn the_kernel_answers_the_shell() {
    if !knows("the_kernel_answers_the_shell", "crc") {
        return;
    }
    isolated("the_kernel_answers_the_shell", || {
        let mut ping = command("ping.sh", &["10.0.0.1", "10.0.0.2", "tap(up=on):tap0"]).spawn().unwrap();
        let mut netlink = Netlink::open().unwrap();
        until("tap0 has an address", || netlink.add_addr("tap0", Ipv4Addr::new(10, 0, 0, 1), 24).is_ok());
        assert_eq!(wait(&mut ping), Some(0));
    });
}

#[test]
fn many_addresses_are_one() {
    if !knows("many_addresses_are_one", "rewrite") {
        return;
    }
    let frame = |udp: &str| String::from_utf8(run(&mut linerate(&["gen", "-n", "1", "--udp", udp])).stdout).unwrap();
    let out = filter("nat.sh", &["192.168.1.0/24", "203.0.113.5"], &frame("192.168.1.7:1000-198.51.100.9:53"));
    assert!(out.contains(" CB 00 71 05 C6 33 64 09 "), "{out}");
}

/// Returns the number of frames that the kernel has received from an interface.
fn received(dev: &str) -> Option<u64> {
    let table = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap();
    let line = table.lines().find_map(|line| line.trim().strip_prefix(&format!("{dev}:")).map(str::to_owned))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// The kernel receives through the other interfaces what it sends through one. All scripts end when
/// the first interface is removed.
#[test]
fn scripts_stand_between_interfaces() {
    isolated("scripts_stand_between_interfaces", || {
        let taps = ["tap(up=on):tap0", "tap(up=on):tap1", "tap(up=on):tap2"];
        for (name, ports) in [("delay_10ms.sh", 2), ("vlan_untag.sh", 2), ("mirror.sh", 3)] {
            let mut child = command(name, &taps[..ports]).stderr(Stdio::null()).spawn().unwrap();
            let mut netlink = Netlink::open().unwrap();
            until("tap0 has an address", || netlink.add_addr("tap0", Ipv4Addr::new(10, 0, 0, 1), 24).is_ok());
            let socket = UdpSocket::bind((Ipv4Addr::new(10, 0, 0, 1), 0)).unwrap();
            socket.set_broadcast(true).unwrap();
            for dev in ["tap1", "tap2"].iter().take(ports - 1) {
                until(dev, || {
                    let _ = socket.send_to(b"x", (Ipv4Addr::new(10, 0, 0, 255), 9));
                    received(dev) >= Some(3)
                });
            }
            netlink.delete_link("tap0").unwrap();
            wait(&mut child);
            until("all interfaces are gone", || received("tap1").or(received("tap2")).is_none());
        }
    });
}
