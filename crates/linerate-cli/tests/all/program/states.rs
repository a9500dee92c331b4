//! The program of [`super::sockets_behave_as_those_of_the_kernel_in_every_state`]: moves sockets
//! through their states, and prints poll masks and results of calls.
#![allow(unsafe_code)] // unsafe code is confined here: poll(2) and socket(2)

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// Name of the test that is the program.
pub const NAME: &str = "program::states::the_program";
/// Variable that is set for the program.
pub const IS_PROGRAM: &str = "LINERATE_TEST_STATES";
/// Beginning of each printed line.
pub const MARK: &str = "state: ";

/// Returns the poll mask of a socket in words.
fn mask(fd: &impl AsRawFd) -> String {
    let wanted = libc::POLLIN | libc::POLLPRI | libc::POLLOUT | libc::POLLRDHUP;
    let mut polled = libc::pollfd { fd: fd.as_raw_fd(), events: wanted, revents: 0 };
    // SAFETY: `polled` is one valid structure.
    assert!(unsafe { libc::poll(&raw mut polled, 1, 0) } >= 0);
    let names = [
        (libc::POLLIN, "IN"),
        (libc::POLLPRI, "PRI"),
        (libc::POLLOUT, "OUT"),
        (libc::POLLERR, "ERR"),
        (libc::POLLHUP, "HUP"),
        (libc::POLLRDHUP, "RDHUP"),
    ];
    let set = names.iter().filter(|(bit, _)| polled.revents & bit != 0).map(|(_, name)| *name);
    set.collect::<Vec<_>>().join("|")
}

/// Waits until the mask is the same for 50 ms, since events take a moment to arrive, and prints it.
fn report_mask(what: &str, fd: &impl AsRawFd) {
    let (mut last, mut since) = (mask(fd), Instant::now());
    while since.elapsed() < Duration::from_millis(50) {
        std::thread::sleep(Duration::from_millis(2));
        let now = mask(fd);
        if now != last {
            (last, since) = (now, Instant::now());
        }
    }
    report(what, last);
}

/// Prints a state.
fn report(what: &str, value: impl std::fmt::Debug) {
    println!("\n{MARK}{what}: {value:?}");
}

/// Returns a socket that is neither bound nor connected.
fn fresh() -> OwnedFd {
    // SAFETY: the call has no pointers, and its result is owned by nothing else.
    unsafe { OwnedFd::from_raw_fd(libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0)) }
}

fn kind<T>(result: std::io::Result<T>) -> Option<ErrorKind> {
    result.err().map(|why| why.kind())
}

/// Returns the two ends of a connection through `listener`.
fn pair(listener: &TcpListener) -> (TcpStream, TcpStream) {
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (client, listener.accept().unwrap().0)
}

/// Sends 4 MiB, and ends the direction.
fn send(mut to: &TcpStream) {
    let block: Vec<u8> = (0..=255).cycle().take(64 << 10).collect();
    (0..64).for_each(|_| to.write_all(&block).unwrap());
    to.shutdown(Shutdown::Write).unwrap();
}

/// Receives until the end. Returns the number of bytes, and whether they are those of [`send`].
fn receive(mut from: &TcpStream) -> (usize, bool) {
    let mut all = Vec::new();
    from.read_to_end(&mut all).unwrap();
    (all.len(), all.iter().enumerate().all(|(at, byte)| *byte == at as u8))
}

#[test]
fn the_program() {
    if std::env::var_os(IS_PROGRAM).is_none() {
        return; // started by another test only
    }
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    report_mask("fresh", &fresh());
    let listener = TcpListener::bind(any).unwrap();
    let at = listener.local_addr().unwrap();
    report_mask("listening", &listener);
    report("bound twice", kind(TcpListener::bind(at)));
    let mut client = TcpStream::connect(at).unwrap();
    report_mask("connection waits", &listener);
    report_mask("connected", &client);
    let (mut server, peer) = listener.accept().unwrap();
    report_mask("accepted", &server);
    report_mask("no connection waits", &listener);
    let names = [client.local_addr(), client.peer_addr(), server.local_addr(), server.peer_addr()].map(Result::unwrap);
    report("addresses", (peer == names[0], names[1] == at, names[2] == at, names[3] == names[0]));

    server.write_all(b"abc").unwrap();
    report_mask("bytes wait", &client);
    let mut bytes = [0; 16];
    report("peeked", client.peek(&mut bytes).unwrap());
    report("read", client.read(&mut bytes).unwrap());
    report_mask("read", &client);
    client.set_nonblocking(true).unwrap();
    report("nothing to read", kind(client.read(&mut bytes)));
    client.set_nonblocking(false).unwrap();
    client.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    report("nothing to read in time", kind(client.read(&mut bytes)));
    client.set_read_timeout(None).unwrap();

    let mut copy = client.try_clone().unwrap();
    drop(client);
    copy.write_all(b"copy").unwrap();
    report("from the copy", server.read(&mut bytes).unwrap());
    server.shutdown(Shutdown::Write).unwrap();
    report_mask("peer has shut", &copy);
    report_mask("has shut", &server);
    report("end of file", copy.read(&mut bytes).unwrap());
    report("written after it", copy.write(b"late").unwrap());
    report("read after it", server.read(&mut bytes).unwrap());
    report("write after shutdown", kind(server.write(b"x")));
    drop(copy);
    report_mask("both have ended", &server);
    report("end of file", server.read(&mut bytes).unwrap());

    // A close with unread bytes resets the connection.
    let (mut client, server) = pair(&listener);
    client.write_all(b"unread").unwrap();
    report_mask("unread", &server);
    drop(server);
    report_mask("reset", &client);
    report("read", kind(client.read(&mut bytes)));
    report("read again", client.read(&mut bytes).map_err(|why| why.kind()));

    // More than the buffers hold, in both directions at once.
    let (client, server) = pair(&listener);
    let sums = std::thread::scope(|scope| {
        scope.spawn(|| send(&client));
        scope.spawn(|| send(&server));
        let there = scope.spawn(|| receive(&server));
        [receive(&client), there.join().unwrap()]
    });
    report("all bytes in order", sums);
    report_mask("both have shut", &client);

    // A writer that is not read becomes unwritable.
    let (client, server) = pair(&listener);
    client.set_nonblocking(true).unwrap();
    let mut full = &client;
    let mut is_full = false;
    while !is_full {
        is_full = full.write(&[0; 65_536]).is_err();
        std::thread::sleep(Duration::from_millis(200)); // until all buffers of the path are full
        is_full = is_full && mask(&client).is_empty();
        while full.write(&[0; 65_536]).is_ok() {}
    }
    report_mask("full", &client);
    drop(server);
    drop(listener);
    let closed = TcpListener::bind(any).unwrap().local_addr().unwrap();
    std::thread::sleep(Duration::from_millis(1_200));
    report("refused", kind(TcpStream::connect(closed)));
    report("bound again", kind(TcpListener::bind(at)));
}
