//! Runs the programs as a user does, and checks their output and their length.

use std::process::{Command, Output};

fn run(program: &str) -> String {
    // A program that hangs is a failure, and does not stop the tests.
    let ran = Command::new("timeout").args(["120", program]).output();
    let Output { status, stdout, stderr } = ran.expect("the program starts");
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{program}: {status}\n{stdout}{stderr}");
    stdout.into_owned()
}

/// Checks that each program prints a line that contains a text.
macro_rules! prints {
    ($($name:ident: $text:expr;)+) => { $(
        #[test]
        fn $name() {
            let printed = run(env!(concat!("CARGO_BIN_EXE_", stringify!($name))));
            assert!(printed.contains($text), "{printed}");
        }
    )+ };
}

prints! {
    tcp_echo: "8 connections echoed a megabyte each";
    web: "hello from axum";
    tasks: "echoed: datagram, stream";
    lossy: "of virtual time";
    event_loop: "1000000 bytes from 100 connections";
    router: "bytes from [fd00:1::2]";
    bridge: "VLAN 10 to VLAN 10: true, to VLAN 20: false";
    own_port: "received 18 bytes";
    proxy: "TCP: an answer; UDP: 6 bytes; port 81: Connection refused";
    rewrite: "an answer from 10.0.0.2:80";
    quic: "5000000 bytes echoed";
}

/// Programs with a host contain its commands only if they call them: the commands are a fifth of a
/// small program.
#[test]
fn programs_without_commands_do_not_contain_them() {
    // In parts, so that this program contains it only because of `command`.
    let text = ["Show and configure interfaces,", " in BSD's syntax"].concat();
    let contains = |program: &str| {
        let bytes = std::fs::read(program).unwrap();
        bytes.windows(text.len()).any(|window| window == text.as_bytes())
    };
    for program in [env!("CARGO_BIN_EXE_udp_echo"), env!("CARGO_BIN_EXE_tcp_echo"), env!("CARGO_BIN_EXE_router")] {
        assert!(!contains(program), "{program}");
    }
    std::hint::black_box(linerate::Host::command as fn(&linerate::Host, &[&str]) -> _);
    assert!(contains(std::env::current_exe().unwrap().to_str().unwrap()));
}

/// The kernel sends a datagram through a TAP device, in a network namespace of its own.
#[test]
fn udp_echo() {
    let script = "ip tuntap add tap0 mode tap && ip addr add 10.0.0.1/24 dev tap0 && ip link set tap0 up || exit 9
        $1 & echo=$!
        for try in 1 2 3 4 5 6 7 8 9 10; do
            printf hello | nc -u -w1 10.0.0.2 7 | grep -q hello && break
        done
        answer=$?; kill $echo; exit $answer";
    let program = env!("CARGO_BIN_EXE_udp_echo");
    let ran = Command::new("unshare").args(["-rn", "sh", "-c", script, "sh", program]).output();
    let ran = ran.expect("unshare starts");
    let stderr = String::from_utf8_lossy(&ran.stderr);
    if stderr.contains("unshare failed") || ran.status.code() == Some(9) {
        println!("skipped: no network namespaces or TAP devices here: {stderr}");
        return;
    }
    assert!(ran.status.success(), "{}{stderr}", String::from_utf8_lossy(&ran.stdout));
}

#[test]
fn each_program_has_at_most_40_lines() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../crates/linerate/examples");
    let mut programs = 0;
    for entry in std::fs::read_dir(directory).expect("the examples exist") {
        let path = entry.expect("the entry is readable").path();
        let lines = std::fs::read_to_string(&path).expect("the example is text").lines().count();
        assert!(lines <= 40, "{}: {lines} lines", path.display());
        programs += 1;
    }
    assert_eq!(programs, 11);
}
