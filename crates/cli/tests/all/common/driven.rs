//! Hosts of ours in a test's own process, which it steps itself while something of the kernel's talks to them.

use lock::Up;
use node::Host;
use port::Pairs;
use socket::{Errno, Fd, Opt};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);

/// What the host says to a control word.
#[track_caller]
pub fn word(host: &Host<Up>, line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    node::words::run(host, &Pairs::new(), &words, false).unwrap_or_else(|why| panic!("{line}: {why}"))
}

/// Steps the hosts until `done`, and sleeps a little where nothing comes.
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

/// A TCP socket that never waits.
pub fn stream(host: &Host<Up>) -> Fd {
    let fd = host.calls().stream_socket().unwrap();
    host.calls().set_option(fd, Opt::NonBlocking(true)).unwrap();
    fd
}

/// A connection of ours from `a` to `b`'s address `to`: both its ends.
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

/// `text` from `a` to `b`, which hears it as it is.
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
