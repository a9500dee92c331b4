//! QEMU as the peer of `unix:` ports: the network boot program of its virtio network card (iPXE)
//! obtains a lease and downloads files over HTTP from hosts of the library.

use linerate::net::{TcpListener, UdpSocket};
use linerate::{Error, Host, State};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Boot program of QEMU's virtio card in Debian's package `ipxe-qemu`.
const ROM: &str = "/usr/lib/ipxe/qemu/efi-virtio.rom";
/// Commands for the boot program.
const SCRIPT: &[u8] = b"#!ipxe\nimgfetch http://10.0.0.1/payload\nimgfetch http://10.0.0.1/done\nsleep 60\n";
/// Length of the payload in bytes: several windows of the boot program.
const PAYLOAD: usize = 1 << 20;

/// Directory of a test, removed at its end.
struct Dir(PathBuf);

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Ends the threads of a test, also if the test fails.
struct Servers<'h>(&'h Host);

impl Drop for Servers<'_> {
    fn drop(&mut self) {
        let _ = self.0.shutdown(Duration::from_secs(1));
    }
}

/// QEMU, ended with the test.
struct Guest(Child);

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a machine that boots from the network device `netdev`.
fn boot(netdev: &str) -> Guest {
    let mut qemu = Command::new("qemu-system-x86_64");
    qemu.args(["-accel", "tcg", "-m", "64", "-nodefaults", "-display", "none", "-boot", "n"]);
    qemu.args(["-netdev", netdev, "-device", "virtio-net-pci,netdev=n"]);
    Guest(qemu.stdin(Stdio::null()).spawn().unwrap())
}

/// Returns the reply of a DHCP server to a message (RFC 2131), which offers or confirms 10.0.0.2;
/// `None` for a message that is not answered.
fn lease(message: &[u8]) -> Option<Vec<u8>> {
    let mut options = message.get(240..)?;
    let kind = loop {
        match *options {
            [53, 1, kind, ..] => break kind,
            [0, ref rest @ ..] => options = rest,
            [_, len, ref rest @ ..] => options = rest.get(usize::from(len)..)?,
            _ => return None,
        }
    };
    let answer = match kind {
        1 => 2, // DHCPDISCOVER, DHCPOFFER
        3 => 5, // DHCPREQUEST, DHCPACK
        _ => return None,
    };
    let mut reply = message[..240].to_vec();
    reply[0] = 2;
    reply[16..24].copy_from_slice(&[10, 0, 0, 2, 10, 0, 0, 1]); // the client's address, the server's
    reply[44..236].fill(0);
    reply.extend([53, 1, answer, 54, 4, 10, 0, 0, 1, 51, 4, 0, 0, 14, 16, 1, 4, 255, 255, 255, 0]);
    let url = b"http://10.0.0.1/boot";
    reply.extend([67, url.len() as u8]);
    reply.extend(url);
    reply.push(255);
    Some(reply)
}

/// Serves one request by HTTP. Returns the path.
fn serve(listener: &TcpListener) -> std::io::Result<String> {
    let (mut stream, _) = listener.accept()?;
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        let mut bytes = [0; 1024];
        match stream.read(&mut bytes)? {
            0 => return Ok(String::new()),
            n => request.extend(&bytes[..n]),
        }
    }
    let request = String::from_utf8_lossy(&request).into_owned();
    let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
    let body = match path.as_str() {
        "/boot" => SCRIPT.to_vec(),
        "/payload" => vec![0x5a; PAYLOAD],
        _ => b"done".to_vec(),
    };
    write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len())?;
    stream.write_all(&body)?;
    Ok(path)
}

fn build(port: &str) -> Result<Host, Error> {
    Host::builder().port(port).addr("10.0.0.1/24").build()
}

/// Starts a machine behind the port `spec`, and waits until it has fetched everything.
fn fetched_by(spec: &str, netdev: &str) {
    let host = build(spec).unwrap();
    let socket = UdpSocket::bind(&host, "0.0.0.0:67").unwrap();
    socket.set_broadcast(true).unwrap();
    let listener = TcpListener::bind(&host, "10.0.0.1:80").unwrap();
    let done = AtomicUsize::new(0);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            let mut message = [0; 2048];
            while let Ok((len, _)) = socket.recv_from(&mut message) {
                if let Some(reply) = lease(&message[..len]) {
                    let _ = socket.send_to(&reply, "255.255.255.255:68"); // the host may be ending
                }
            }
        });
        threads.spawn(|| {
            while !host.is_stopped() {
                let Ok(path) = serve(&listener) else { continue };
                let expected = ["/boot", "/payload", "/done"];
                let at = expected.iter().position(|name| *name == path);
                done.fetch_max(at.map_or(0, |at| at + 1), Ordering::SeqCst);
            }
        });
        let _servers = Servers(&host);
        let (mut guest, start) = (boot(netdev), Instant::now());
        while done.load(Ordering::SeqCst) < 3 && start.elapsed() < Duration::from_secs(180) {
            assert!(guest.0.try_wait().unwrap().is_none(), "QEMU has ended");
            std::thread::sleep(Duration::from_millis(20));
        }
        let open = host.connections().iter().filter(|one| one.state == Some(State::Established)).count();
        assert_eq!(done.load(Ordering::SeqCst), 3, "{open} connections: {:?}", host.drops());
    });
    assert_eq!(host.audit().unaccounted, 0);
}

/// Returns whether QEMU with the network device `kind` and its boot program are installed. Prints
/// that the test is skipped otherwise.
fn has_qemu(test: &str, kind: &str) -> bool {
    let help = Command::new("qemu-system-x86_64").args(["-netdev", "help"]).output();
    let kinds = help.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let found = kinds.lines().any(|line| line == kind) && Path::new(ROM).exists();
    if !found {
        println!("skipped: {test}: needs qemu-system-x86_64 7.2 or later, and {ROM}");
    }
    found
}

fn dir(name: &str) -> Dir {
    let dir = std::env::temp_dir().join(format!("linerate-{name}-{}", std::process::id()));
    std::fs::create_dir(&dir).unwrap();
    Dir(dir)
}

#[test]
fn a_machine_boots_over_a_stream() {
    if has_qemu("a_machine_boots_over_a_stream", "stream") {
        let dir = dir("qemu-stream");
        let path = dir.0.join("s").display().to_string();
        let netdev = format!("stream,id=n,server=off,addr.type=unix,addr.path={path}");
        fetched_by(&format!("unix(server=on):{path}"), &netdev);
    }
}

#[test]
fn a_machine_boots_over_datagrams() {
    if has_qemu("a_machine_boots_over_datagrams", "dgram") {
        let dir = dir("qemu-datagrams");
        let [host, guest] = ["host", "guest"].map(|name| dir.0.join(name).display().to_string());
        let netdev = format!("dgram,id=n,local.type=unix,local.path={guest},remote.type=unix,remote.path={host}");
        fetched_by(&format!("unix(type=dgram,local={host}):{guest}"), &netdev);
    }
}
