//! Ports opened by their specification.

use crate::os::is_readable;
use crate::os::unix::leave_file;
use crate::own::unix::FRAME_MAX;
use crate::{Env, Pairs, Port, Spec, open};
use buf::{Burst, Pool, PoolConfig};
use clock::Instant;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::PathBuf;
use wire::Mac;

struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Dir {
        let dir = std::env::temp_dir().join(format!("lr-unix-{}-{name}", std::process::id()));
        std::fs::create_dir(&dir).unwrap();
        Dir(dir)
    }

    fn at(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn try_open(spec: &str) -> Result<Port, String> {
    let pairs = Pairs::new();
    let pool = Pool::new(&PoolConfig { buffers: 64, ..PoolConfig::default() }).unwrap();
    let env = Env { pool, pairs: &pairs, mac: Mac::ZERO, unit: 0 };
    open(&Spec::parse(spec).unwrap(), &env).map_err(|error| error.to_string())
}

fn port(spec: &str) -> Port {
    try_open(spec).unwrap()
}

fn ms(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

fn frames(lens: &[usize]) -> Burst {
    let pool = Pool::new(&PoolConfig { buffers: 64, data: FRAME_MAX, ..PoolConfig::default() }).unwrap();
    let mut burst = Burst::new();
    for len in lens {
        let mut frame = pool.get().unwrap();
        frame.extend(&vec![*len as u8; *len]).unwrap();
        burst.push(frame).unwrap();
    }
    burst
}

/// Returns the lengths of the frames that are received at `now`.
fn lens(port: &mut Port, now: Instant) -> Vec<usize> {
    let mut burst = Burst::new();
    port.rx.rx_burst(&mut burst, 32, now);
    burst.as_slice().iter().map(|frame| frame.len()).collect()
}

fn counts(port: &Port) -> [u64; 5] {
    let (rx, tx) = (&port.counts.rx, &port.counts.tx);
    [rx.frames.get(), rx.malformed.get(), rx.errors.get(), tx.frames.get(), tx.errors.get()]
}

#[test]
fn a_client_and_a_server_exchange_frames_and_survive_each_others_end() {
    let dir = Dir::new("pair");
    let path = dir.at("s");
    let mut client = port(&format!("unix:{path}"));
    assert!(
        !client.counts.link.is_up() && client.rx.warnings()[0].contains("No such file"),
        "{:?}",
        client.rx.warnings()
    );
    assert_eq!((client.tx.tx_burst(&mut frames(&[60]), ms(0)), counts(&client)), (1, [0, 0, 0, 0, 1]), "lost");
    let mut server = port(&format!("unix(server=on):{path}"));
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(lens(&mut client, ms(999)), []);
    assert_eq!((client.counts.link.is_up(), client.rx.next_event()), (false, Some(ms(1000))));
    assert_eq!(lens(&mut client, ms(1000)), []);
    assert!(client.counts.link.is_up() && client.rx.next_event().is_none() && client.rx.warnings().is_empty());
    for round in 1..=3 {
        assert_eq!(client.tx.tx_burst(&mut frames(&[60, 1514]), ms(1000)), 2);
        assert!(is_readable(server.rx.wait_fd().unwrap()));
        assert_eq!(lens(&mut server, ms(1000)), [60, 1514]);
        assert!(server.counts.link.is_up() && !is_readable(server.rx.wait_fd().unwrap()));
        assert_eq!(server.tx.tx_burst(&mut frames(&[61]), ms(1000)), 1);
        assert!(is_readable(client.rx.wait_fd().unwrap()));
        assert_eq!(lens(&mut client, ms(1000)), [61]);
        assert_eq!(counts(&server), [2 * round, 0, 0, round, 0]);
        // The client is started again. The server accepts the next one.
        client = port(&format!("unix:{path}"));
        assert!(is_readable(server.rx.wait_fd().unwrap()));
        assert_eq!((lens(&mut server, ms(1000)), server.counts.link.is_up()), (vec![], false));
        assert!(is_readable(server.rx.wait_fd().unwrap()), "the next client waits");
    }
    assert_eq!((lens(&mut server, ms(1000)), server.counts.link.is_up()), (vec![], true));
    // The server is started again. The client connects after the interval.
    drop(server);
    assert!(!std::path::Path::new(&path).exists());
    assert_eq!(client.tx.tx_burst(&mut frames(&[60, 60]), ms(1000)), 2);
    assert_eq!((counts(&client)[3..].to_vec(), client.counts.link.is_up()), (vec![0, 2], false));
    let mut server = port(&format!("unix(server=on):{path}"));
    client.tx.poll(ms(1999));
    assert!(!client.counts.link.is_up());
    client.tx.poll(ms(2000));
    assert!(client.counts.link.is_up());
    assert_eq!(client.tx.tx_burst(&mut frames(&[77]), ms(2000)), 1);
    assert_eq!(lens(&mut server, ms(2000)), [77]);
}

#[test]
fn a_server_has_one_peer_at_a_time() {
    let dir = Dir::new("one");
    let path = dir.at("s");
    let mut server = port(&format!("unix(server=on):{path}"));
    let send = |len: u8| {
        let mut stream = UnixStream::connect(&path).unwrap();
        stream.write_all(&[&[0, 0, 0, len][..], &vec![0; len.into()]].concat()).unwrap();
        stream
    };
    let (one, _two) = (send(60), send(61));
    for _ in 0..3 {
        lens(&mut server, ms(0));
    }
    assert_eq!(counts(&server)[0], 1);
    drop(one);
    assert_eq!([lens(&mut server, ms(0)), lens(&mut server, ms(0))], [vec![], vec![61]]);
}

#[test]
fn bad_input_ends_the_connection_and_is_counted() {
    let dir = Dir::new("bad");
    let path = dir.at("s");
    let mut server = port(&format!("unix(server=on):{path}"));
    let long = [&3000_u32.to_be_bytes()[..], &[7; 3000], &[0, 0, 0, 2, 1, 2]].concat();
    // (bytes, lengths of received frames, malformed frames, errors)
    let inputs: [(&[u8], &[usize], u64, u64); 6] = [
        (&[0, 0, 0, 0, 0, 0, 0, 1, 9], &[0, 1], 0, 0),
        (&[0xff; 4096], &[], 0, 1),
        (&[0, 1, 0, 18], &[], 0, 1), // one more than FRAME_MAX
        (&[0, 0, 0, 60, 1, 2, 3], &[], 0, 1),
        (&[0, 0], &[], 0, 1),
        (&long, &[2], 1, 0),
    ];
    let mut before = counts(&server);
    for (bytes, received, malformed, errors) in inputs {
        let mut peer = UnixStream::connect(&path).unwrap();
        peer.write_all(bytes).unwrap();
        peer.shutdown(std::net::Shutdown::Write).unwrap();
        let got: Vec<usize> = (0..4).flat_map(|_| lens(&mut server, ms(0))).collect();
        assert_eq!((got.as_slice(), server.counts.link.is_up()), (received, false), "{bytes:?}");
        let after = counts(&server);
        assert_eq!((after[1] - before[1], after[2] - before[2]), (malformed, errors), "{bytes:?}");
        assert!(matches!(peer.read(&mut [0]), Ok(0) | Err(_)), "the connection has ended");
        before = after;
    }
    let warnings = server.rx.warnings();
    assert!(warnings.len() == 4 && warnings[0].contains("4294967295"), "{warnings:?}");
    for _ in 0..20 {
        UnixStream::connect(&path).unwrap().write_all(&[0xff; 4]).unwrap();
        (0..3).for_each(|_| _ = lens(&mut server, ms(0)));
    }
    let warnings = server.rx.warnings();
    assert_eq!((warnings.len(), warnings[8].as_str()), (9, "16 more connections ended with an error"));
    assert!(!server.rx.is_gone());
}

/// A peer that reads slowly receives whole frames, and the others wait with the sender.
#[test]
fn a_full_socket_accepts_no_more_frames_and_loses_none() {
    let dir = Dir::new("full");
    let path = dir.at("s");
    let listener = UnixListener::bind(&path).unwrap();
    let mut client = port(&format!("unix(mtu=65k):{path}"));
    let (mut peer, _) = listener.accept().unwrap();
    let (mut sent, mut burst) = (0, Burst::new());
    while burst.is_empty() {
        burst = frames(&[60_000]);
        sent += client.tx.tx_burst(&mut burst, ms(0));
    }
    assert_eq!((client.counts.tx.frames.get(), counts(&client)[4]), (sent as u64, 0));
    let retry = client.tx.next_event().expect("a part of a frame waits");
    assert!(retry > ms(0) && retry < ms(1));
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        peer.read_to_end(&mut bytes).map(|_| bytes)
    });
    let mut now = retry;
    while let Some(at) = client.tx.next_event() {
        now = at.max(now);
        client.tx.poll(now);
    }
    drop(client);
    let bytes = reader.join().unwrap().unwrap();
    let frame = [&60_000_u32.to_be_bytes()[..], &[96; 60_000]].concat();
    assert!(bytes.len() == sent * frame.len() && bytes.chunks(frame.len()).all(|chunk| chunk == frame));
}

/// Frames that were read from the socket together are due at once, although the descriptor is not
/// readable any more.
#[test]
fn frames_that_wait_in_the_port_are_due() {
    let dir = Dir::new("due");
    let path = dir.at("s");
    let mut server = port(&format!("impair(delay=5ms,dir=rx):unix(server=on):{path}"));
    let mut peer = UnixStream::connect(&path).unwrap();
    let frame = [0, 0, 0, 2, 1, 1];
    peer.write_all(&frame.repeat(50)).unwrap();
    let mut received = lens(&mut server, ms(0)).len();
    assert!(!is_readable(server.rx.wait_fd().unwrap()));
    assert_eq!((received, server.rx.next_event()), (0, Some(Instant::ZERO)));
    (0..3).for_each(|_| received += lens(&mut server, ms(0)).len());
    assert_eq!((received, server.rx.next_event()), (0, Some(ms(5))));
    (0..4).for_each(|_| received += lens(&mut server, ms(5)).len());
    assert_eq!((received, server.rx.next_event()), (50, None));
}

#[test]
fn a_lost_rest_of_a_frame_is_an_error_and_the_sum_is_right() {
    lost_rest(false);
    lost_rest(true);
}

/// `by_burst`: the next burst, not a poll, detects the end.
fn lost_rest(by_burst: bool) {
    let dir = Dir::new("rest");
    let path = dir.at("s");
    let listener = UnixListener::bind(&path).unwrap();
    let mut client = port(&format!("unix:{path}"));
    let (peer, _) = listener.accept().unwrap();
    let (mut passed, mut burst) = (0, Burst::new());
    while burst.is_empty() {
        burst = frames(&[60_000]);
        passed += client.tx.tx_burst(&mut burst, ms(0)) as u64;
    }
    drop(peer);
    let mut errors = 1;
    if by_burst {
        assert_eq!(client.tx.tx_burst(&mut burst, ms(1)), 1);
        (passed, errors) = (passed + 1, 2);
    } else {
        client.tx.poll(ms(1));
    }
    let tx = &client.counts.tx;
    assert_eq!((counts(&client)[3..].to_vec(), tx.from_host()), (vec![passed - errors, errors], passed));
    assert_eq!(tx.bytes.get(), tx.frames.get() * 60_000);
    assert!(!client.counts.link.is_up() && client.tx.next_event().is_none());
}

#[test]
fn without_reconnect_the_port_ends_with_its_first_connection() {
    let dir = Dir::new("once");
    let path = dir.at("s");
    let refused = try_open(&format!("unix(reconnect=0s):{path}")).unwrap_err();
    assert!(refused.starts_with(&format!("unix:{path}: connect: No such file")), "{refused}");
    let mut server = port(&format!("unix(server=on,reconnect=0s):{path}"));
    let mut burst = frames(&[60]);
    assert_eq!((server.tx.tx_burst(&mut burst, ms(0)), burst.len()), (0, 1), "frames wait for the peer");
    let mut client = port(&format!("unix(reconnect=0s):{path}"));
    assert_eq!(server.tx.tx_burst(&mut burst, ms(0)), 1);
    drop(server);
    assert_eq!(lens(&mut client, ms(0)), [60]);
    assert_eq!(client.tx.tx_burst(&mut frames(&[60]), ms(0)), 1);
    assert!(client.tx.is_gone());
    assert_eq!(lens(&mut client, ms(0)), []);
    assert_eq!((client.rx.is_gone(), client.rx.why_gone()), (true, None));
    assert!(client.rx.wait_fd().is_none() && client.rx.next_event().is_none());
}

/// Frames that arrived before the end are received, even if the sending half notices the end first.
#[test]
fn the_last_frames_of_a_peer_are_received() {
    last_frames(true);
    last_frames(false);
}

/// `has_received`: the receiving half was used before.
fn last_frames(has_received: bool) {
    let dir = Dir::new("last");
    let path = dir.at("s");
    let listener = UnixListener::bind(&path).unwrap();
    let mut client = port(&format!("unix:{path}"));
    if has_received {
        assert_eq!(lens(&mut client, ms(0)), []);
    }
    let (mut peer, _) = listener.accept().unwrap();
    peer.write_all(&[0, 0, 0, 1, 5, 0, 0, 0, 2, 5, 5]).unwrap();
    drop(peer);
    assert_eq!(client.tx.tx_burst(&mut frames(&[60]), ms(0)), 1);
    assert!(!client.counts.link.is_up());
    assert_eq!(client.rx.next_event(), Some(Instant::ZERO));
    assert_eq!(lens(&mut client, ms(0)), [1, 2]);
    assert_eq!(client.rx.next_event(), Some(ms(1000)));
}

#[test]
fn datagrams_find_a_peer_that_is_started_again() {
    let dir = Dir::new("dgram");
    let (a, b) = (dir.at("a"), dir.at("b"));
    let mut one = port(&format!("unix(type=dgram,local={a}):{b}"));
    assert!(!one.counts.link.is_up() && one.rx.warnings().len() == 1);
    assert_eq!((one.tx.tx_burst(&mut frames(&[60]), ms(0)), counts(&one)), (1, [0, 0, 0, 0, 1]));
    for round in 1..=2 {
        let mut two = port(&format!("unix(type=dgram,local={b}):{a}"));
        assert_eq!(lens(&mut one, ms(round * 2000)), []);
        assert!(one.counts.link.is_up() && two.counts.link.is_up());
        assert_eq!(one.tx.tx_burst(&mut frames(&[60, 1514]), ms(0)), 2);
        assert_eq!((lens(&mut two, ms(0)), two.tx.tx_burst(&mut frames(&[61]), ms(0))), (vec![60, 1514], 1));
        assert!(is_readable(one.rx.wait_fd().unwrap()));
        assert_eq!(lens(&mut one, ms(0)), [61]);
        drop(two);
        assert_eq!((one.tx.tx_burst(&mut frames(&[60]), ms(0)), one.counts.link.is_up()), (1, false));
        assert_eq!(counts(&one), [round, 0, 0, 2 * round, 1 + round]);
    }
    let raw = UnixDatagram::bind(&b).unwrap();
    assert_eq!(one.tx.tx_burst(&mut frames(&[60]), ms(0)), 1);
    let (_, from) = raw.recv_from(&mut [0; 100]).unwrap();
    assert_eq!(from.as_pathname(), Some(a.as_ref()), "a peer can reply to the sender");
    assert_eq!(std::fs::metadata(&a).unwrap().permissions().mode() & 0o777, 0o600);
    raw.send_to(&[1; 5000], &a).unwrap();
    raw.send_to(&[], &a).unwrap();
    assert_eq!((lens(&mut one, ms(0)), counts(&one)[1]), (vec![0], 1), "a long one is dropped, not cut");
    let stream = dir.at("stream");
    let _listener = UnixListener::bind(&stream).unwrap();
    let wrong = port(&format!("unix(type=dgram,local={}):{stream}", dir.at("c")));
    assert!(!wrong.counts.link.is_up(), "the peer is a stream socket");
}

#[test]
fn a_full_datagram_queue_keeps_the_frames_with_the_sender() {
    let dir = Dir::new("queue");
    let (a, b) = (dir.at("a"), dir.at("b"));
    let (mut one, mut two) =
        (port(&format!("unix(type=dgram,local={a}):{b}")), port(&format!("unix(type=dgram,local={b}):{a}")));
    let (mut sent, mut burst) = (0, Burst::new());
    while burst.is_empty() {
        burst = frames(&[1514]);
        sent += one.tx.tx_burst(&mut burst, ms(0));
    }
    assert_eq!(counts(&one), [0, 0, 0, sent as u64, 0]);
    let got: usize = (0..sent).map(|_| lens(&mut two, ms(0)).len()).sum();
    assert_eq!((got, one.tx.tx_burst(&mut burst, ms(0))), (sent, 1));
}

#[test]
fn paths_that_are_in_use_or_no_sockets_are_refused() {
    let dir = Dir::new("refused");
    let (path, file) = (dir.at("s"), dir.at("f"));
    leave_file(path.as_ref());
    let server = port(&format!("unix(server=on):{path}"));
    let refused = |spec: String| try_open(&spec).unwrap_err();
    assert!(refused(format!("unix(server=on):{path}")).contains("another process uses this socket"));
    assert!(refused(format!("unix(type=dgram,local={path}):{path}")).contains("another process uses this socket"));
    std::fs::write(&file, "precious").unwrap();
    for spec in [format!("unix(server=on):{file}"), format!("unix(type=dgram,local={file}):{path}")] {
        assert!(refused(spec).contains("the file exists and is not a socket"));
    }
    assert!(refused(format!("unix:{file}")).contains("the file is not a socket"));
    assert_eq!(std::fs::read(&file).unwrap(), b"precious");
    let _datagrams = UnixDatagram::bind(dir.at("d")).unwrap();
    assert!(refused(format!("unix:{}", dir.at("d"))).ends_with("use type=dgram for a datagram socket"));
    for (options, why) in [
        ("type=dgram", "type=dgram requires local=PATH"),
        ("type=dgram,local=x,server=on", "server requires type=stream"),
        ("local=x", "local requires type=dgram"),
    ] {
        assert!(refused(format!("unix({options}):{path}")).contains(why));
    }
    // Another process may have replaced the file, which is then not removed.
    std::fs::remove_file(&path).unwrap();
    let _other = UnixListener::bind(&path).unwrap();
    drop(server);
    assert!(std::path::Path::new(&path).exists());
    let hidden = std::fs::read_dir(&dir.0)
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with('.'));
    assert_eq!(hidden.count(), 0);
}

/// A process of the same number that was killed may have left its temporary directory.
#[test]
fn temporary_directories_of_dead_processes_are_no_obstacle() {
    let dir = Dir::new("rooms");
    for n in 0..200 {
        std::fs::create_dir(dir.at(&format!(".lr{}.{n}", std::process::id()))).unwrap();
    }
    let _server = port(&format!("unix(server=on):{}", dir.at("s")));
}

/// A server whose queue is full does not stop the port.
#[test]
fn a_full_server_is_no_reason_to_wait() {
    let dir = Dir::new("backlog");
    let path = dir.at("s");
    let _listener = UnixListener::bind(&path).unwrap();
    let mut clients = Vec::new();
    while let Ok(stream) = crate::os::unix::connect(path.as_ref()) {
        clients.push(stream);
        assert!(clients.len() < 10_000);
    }
    let mut late = port(&format!("unix:{path}"));
    assert_eq!((lens(&mut late, ms(0)), late.counts.link.is_up()), (vec![], false));
}
