//! Runs the lines of shell in examples/pipes/README.md as they are.

use crate::common::{Dir, has, isolated, linerate, printed, run, until, wait};
use port::os::netlink::Netlink;
use std::fs;
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Returns the lines of code under the heading `## title`.
fn lines_under(title: &str) -> Vec<String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/pipes/README.md");
    let text = fs::read_to_string(page).unwrap();
    let section = text.split("\n## ").find(|section| section.lines().next() == Some(title));
    let section = section.unwrap_or_else(|| panic!("no heading '{title}'"));
    section.lines().filter_map(|line| Some(line.strip_prefix("    ")?.to_string())).collect()
}

fn have(test: &str, programs: &[&str]) -> bool {
    let missing = programs.iter().find(|program| !has(program));
    if let Some(missing) = missing {
        println!("skipped: {test}: no {missing}");
    }
    missing.is_none()
}

/// Runs a line to its end. Returns its output.
#[track_caller]
fn sh(dir: &Dir, line: &str) -> String {
    let (code, out, err) = printed(&run(&mut with_ssh(dir, line)));
    assert_eq!(code, Some(0), "{line}\n{out}{err}");
    out
}

fn start(mut command: Command) -> Child {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Returns a command that runs a shell line in `dir`, with `ssh` from the directory's bin, if there
/// is one.
fn with_ssh(dir: &Dir, line: &str) -> Command {
    dir.bash(&format!("PATH={}:$PATH\n{line}", dir.path("bin")))
}

/// Creates an `ssh` that reaches the host `there`: by sshd, for this connection only and without a
/// network, or, without sshd, by a script that runs the given command.
fn make_ssh(dir: &Dir) {
    fs::create_dir_all(dir.path("bin")).unwrap();
    let script = |text: String| {
        let path = dir.file("bin/ssh", text);
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    };
    if let Some(text) = real_ssh(dir) {
        script(text);
        let printed = printed(&run(&mut with_ssh(dir, "ssh there echo here")));
        if printed == (Some(0), "here\n".to_string(), String::new()) {
            return println!("by sshd");
        }
        println!("sshd does not work here: {printed:?}");
    }
    script("#!/bin/sh\nshift\nexec sh -c \"$*\"\n".to_string());
}

/// Returns a script that calls the real ssh, with a real sshd at the other end of a pipe.
fn real_ssh(dir: &Dir) -> Option<String> {
    let path = format!("{}:/usr/local/sbin:/usr/sbin", std::env::var("PATH").unwrap_or_default());
    let find = |name: &str| std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| file.is_file());
    let (ssh, sshd) = (find("ssh")?, find("sshd")?);
    for key in ["host", "user"] {
        let mut keygen = Command::new("ssh-keygen");
        keygen.args(["-q", "-t", "ed25519", "-N", "", "-f", &dir.path(key)]);
        run(&mut keygen).status.success().then_some(())?;
    }
    let bin = Path::new(env!("CARGO_BIN_EXE_linerate")).parent().unwrap().display();
    let conf = dir.file(
        "sshd_config",
        format!(
            "HostKey {}\nAuthorizedKeysFile {}\nStrictModes no\nUsePAM no\nPidFile none\nPermitRootLogin yes\n\
             LogLevel QUIET\nSetEnv PATH={bin}:{path}\n",
            dir.path("host"),
            dir.path("user.pub")
        ),
    );
    Some(format!(
        "#!/bin/sh\nexec {} -F none -i {} -o BatchMode=yes -o LogLevel=ERROR -o StrictHostKeyChecking=no \
         -o UserKnownHostsFile=/dev/null -o 'ProxyCommand={} -i -f {conf}' \"$@\"\n",
        ssh.display(),
        dir.path("user"),
        sshd.display()
    ))
}

/// Returns the lines that a generator writes.
fn generated(words: &[&str]) -> String {
    String::from_utf8(run(&mut linerate(&[&["cat"], words].concat())).stdout).unwrap()
}

#[test]
fn a_recording_is_kept_read_and_sent() {
    if !have("a_recording_is_kept_read_and_sent", &["zstd", "tcpdump"]) {
        return;
    }
    let dir = Dir::new("oneliners-record");
    let lines = lines_under("Recording");
    let [keep, look, send, part, forms, capture] = &lines[..] else { panic!("six lines: {lines:?}") };
    sh(&dir, keep);
    assert_eq!(sh(&dir, look), "1000\n");
    assert_eq!(sh(&dir, send), "");
    assert_eq!(dir.read("again.txt"), generated(&["-c", "1000", "pktgen(size=18):"]));
    assert_eq!(sh(&dir, part), "100\n");
    assert_eq!(dir.read("all.txt").lines().count(), 1000);
    sh(&dir, forms);
    let hundred = generated(&["-c", "100", "pktgen(size=18):"]);
    assert_eq!(dir.read("last.txt"), hundred);
    // bash does not wait for the commands in >( ).
    until("both copies are whole", || {
        let zst = printed(&run(&mut dir.bash("zstd -qdc all.zst"))).1;
        let pcapng = printed(&run(&mut dir.bash("linerate conv -o f1 all.pcapng"))).1;
        zst == hundred && pcapng == hundred
    });
    let printed = sh(&dir, capture);
    assert_eq!(printed.matches("1.0.0.2.12345 > 1.0.0.1.54321: UDP, length 18").count(), 10, "{printed}");
    let again = sh(&dir, "linerate conv -o f1 some.pcapng");
    assert_eq!(again, generated(&["-c", "10", "pktgen(size=18):"]));
}

#[test]
fn a_remote_port_and_host_are_reached_by_ssh() {
    if !have("a_remote_port_and_host_are_reached_by_ssh", &["zstd"]) {
        return;
    }
    let dir = Dir::new("oneliners-ssh");
    make_ssh(&dir);
    let lines = lines_under("By ssh");
    let [see, wire, _interfaces] = &lines[..] else { panic!("three lines: {lines:?}") };
    assert_eq!(sh(&dir, see), "1000\n");
    assert_eq!(dir.read("there.txt"), generated(&["-c", "1000", "pktgen(size=18):"]));
    let printed = sh(&dir, wire);
    assert!(printed.contains("10.0.0.2: 5 sent, 5 received, 0 lost, 0 stray"), "{printed}");
}

/// The kernel receives through one interface what it sends through the other.
#[test]
fn two_interfaces_are_one_segment_by_ssh() {
    isolated("two_interfaces_are_one_segment_by_ssh", || {
        let dir = Dir::new("oneliners-tap");
        make_ssh(&dir);
        let lines = lines_under("By ssh");
        let mut child = start(with_ssh(&dir, &lines[2]));
        let mut netlink = Netlink::open().unwrap();
        until("vpn0 has an address", || netlink.add_addr("vpn0", Ipv4Addr::new(10, 0, 0, 1), 24).is_ok());
        let socket = UdpSocket::bind((Ipv4Addr::new(10, 0, 0, 1), 0)).unwrap();
        socket.set_broadcast(true).unwrap();
        until("vpn1 has received", || {
            let _ = socket.send_to(b"x", (Ipv4Addr::new(10, 0, 0, 255), 9));
            received("vpn1") >= Some(3)
        });
        // When the first interface is removed, all commands end.
        netlink.delete_link("vpn0").unwrap();
        wait(&mut child);
        until("vpn1 is gone", || received("vpn1").is_none());
    });
}

/// Returns the number of frames that the kernel has received from an interface.
fn received(dev: &str) -> Option<u64> {
    let table = fs::read_to_string("/proc/thread-self/net/dev").unwrap();
    let line = table.lines().find_map(|line| line.trim().strip_prefix(&format!("{dev}:")).map(str::to_owned))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

#[test]
fn a_remote_host_is_reached_by_nc() {
    if !have("a_remote_host_is_reached_by_nc", &["nc"]) {
        return;
    }
    let (here, there) = (Dir::new("oneliners-here"), Dir::new("oneliners-there"));
    let lines = lines_under("By nc");
    let [serve, ask] = &lines[..] else { panic!("two lines: {lines:?}") };
    // A port number that was free shortly before.
    let number = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let number_in = |line: &str| line.replace("7000", &number.to_string());
    // The server listens only for local clients.
    let mut server = start(there.bash(&number_in(serve).replace("nc -l", "nc -l 127.0.0.1")));
    let listens = format!("0100007F:{number:04X} 00000000:0000 0A");
    until("nc listens", || fs::read_to_string("/proc/net/tcp").unwrap().contains(&listens));
    let printed = sh(&here, &number_in(ask).replace("there", "127.0.0.1"));
    assert!(printed.contains("10.0.0.2: 5 sent, 5 received, 0 lost, 0 stray"), "{printed}");
    wait(&mut server);
}
