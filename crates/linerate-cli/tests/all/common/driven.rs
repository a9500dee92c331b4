//! Hosts in the test's own process, which the test steps itself while a client or server of the
//! kernel communicates with them.

use lock::Up;
use node::Host;
use port::Pairs;
use socket::{Errno, Fd, Opt};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);

/// Returns the host's reply to a control command.
#[track_caller]
pub fn word(host: &Host<Up>, line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    commands::host::run(host, &Pairs::new(), &words, false).unwrap_or_else(|why| panic!("{line}: {why}"))
}

/// Steps the hosts until `done` returns true. Sleeps briefly if no frame arrives.
pub fn drive(hosts: &[&Host<Up>], what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !done() {
        let frames: usize = hosts.iter().map(|host| host.step().frames).sum();
        if frames == 0 {
            std::thread::sleep(Duration::from_micros(200));
        }
        assert!(Instant::now() < deadline, "{what}: stalled");
    }
}

/// Creates a non-blocking TCP socket.
pub fn stream(host: &Host<Up>) -> Fd {
    let fd = host.calls().stream_socket().unwrap();
    host.calls().set_option(fd, Opt::NonBlocking(true)).unwrap();
    fd
}

/// Opens a connection from `a` to the address `to` of `b`. Returns both ends.
pub fn connected(a: &Host<Up>, b: &Host<Up>, to: SocketAddr, what: &str) -> (Fd, Fd) {
    let listener = stream(b);
    b.calls().bind(listener, to).unwrap();
    b.calls().listen(listener, 1).unwrap();
    let fd = stream(a);
    assert_eq!(a.calls().connect(fd, to), Err(Errno::EINPROGRESS));
    let mut child = None;
    drive(&[a, b], what, || {
        child = b.calls().accept(listener).ok().map(|(fd, _)| fd);
        child.is_some()
    });
    let child = child.unwrap();
    b.calls().set_option(child, Opt::NonBlocking(true)).unwrap();
    (fd, child)
}

/// Sends `text` from `a` to `b` and checks that it arrives unchanged.
pub fn heard(a: &Host<Up>, b: &Host<Up>, (fd, child): (Fd, Fd), text: &[u8], what: &str) {
    let (mut sent, mut heard, mut into) = (0, Vec::new(), [0; 8192]);
    drive(&[a, b], what, || {
        while let Some(n) = a.calls().send(fd, &text[sent..]).ok().filter(|n| *n > 0) {
            sent += n;
        }
        while let Some(n) = b.calls().recv(child, &mut into).ok().filter(|n| *n > 0) {
            heard.extend_from_slice(&into[..n]);
        }
        heard.len() == text.len()
    });
    assert!(heard == text, "{what}");
}

/// Returns the bytes of a transfer. Adjacent bytes differ, and so do bytes that are 256 apart.
pub fn pattern() -> Vec<u8> {
    (0..150_001).map(|i: usize| (i * 7 + (i >> 8) * 13) as u8).collect()
}

/// Sends back the data received on `fd`. Returns true after its end.
fn echo(host: &Host<Up>, fd: Fd, held: &mut Vec<u8>, over: &mut bool) -> bool {
    let (calls, mut into) = (host.calls(), [0; 8192]);
    while !*over && held.len() < 65_536 {
        match calls.recv(fd, &mut into) {
            Ok(0) => *over = true,
            Ok(n) => held.extend_from_slice(&into[..n]),
            Err(Errno::EAGAIN) => break,
            Err(error) => panic!("{error}"),
        }
    }
    while !held.is_empty() {
        match calls.send(fd, held) {
            Ok(n) => drop(held.drain(..n)),
            Err(Errno::EAGAIN) => return false,
            Err(error) => panic!("{error}"),
        }
    }
    *over
}

/// Sends the pattern from a stream of the kernel to `host` and receives it back, while stepping all
/// `hosts`.
pub fn transfer(hosts: &[&Host<Up>], host: &Host<Up>, at: [u8; 4], what: &str) {
    let to = SocketAddr::from((at, 7777));
    let listener = stream(host);
    host.calls().set_option(listener, Opt::ReuseAddr(true)).unwrap();
    host.calls().bind(listener, to).unwrap();
    host.calls().listen(listener, 1).unwrap();
    let theirs = std::thread::spawn(move || {
        let mut stream = TcpStream::connect_timeout(&to, PATIENCE).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut writer = stream.try_clone().unwrap();
        let sender = std::thread::spawn(move || {
            writer.write_all(&pattern()).unwrap();
            writer.shutdown(Shutdown::Write).unwrap();
        });
        let mut received = Vec::new();
        stream.read_to_end(&mut received).unwrap();
        sender.join().unwrap();
        received
    });
    let mut child = None;
    drive(hosts, what, || {
        child = host.calls().accept(listener).ok().map(|(fd, _)| fd);
        child.is_some()
    });
    let child = child.unwrap();
    host.calls().set_option(child, Opt::NonBlocking(true)).unwrap();
    let (mut held, mut over) = (Vec::new(), false);
    drive(hosts, what, || echo(host, child, &mut held, &mut over));
    host.calls().close(child).unwrap();
    host.calls().close(listener).unwrap();
    drive(hosts, what, || theirs.is_finished());
    assert!(theirs.join().unwrap() == pattern(), "{what}: other bytes came back");
}
