use super::*;
use clock::Instant;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Place {
        Place(std::env::temp_dir().join(format!("lr-{}-{name}", std::process::id())))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Serves clients once, at `secs` seconds after the epoch. Echoes some commands and rejects others.
fn serve(server: &mut Server, secs: u64) {
    server.serve_with(Instant::from_millis(secs * 1000), |words, json| match words {
        ["echo", rest @ ..] => Ok(format!("{json} {}", rest.join("|"))),
        ["large"] => Ok("x".repeat(4 << 20)),
        ["huge"] => Ok("x".repeat(ANSWER_MAX + 1)),
        _ => Err("no".to_string()),
    });
}

fn connect(place: &Place) -> UnixStream {
    let stream = UnixStream::connect(&place.0).unwrap();
    stream.set_nonblocking(true).unwrap();
    stream
}

fn read(mut stream: &UnixStream) -> (String, bool) {
    let (mut text, mut chunk) = (Vec::new(), [0; 65536]);
    loop {
        match stream.read(&mut chunk) {
            Ok(0) => return (String::from_utf8(text).unwrap(), true),
            Ok(n) => text.extend(&chunk[..n]),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return (String::from_utf8(text).unwrap(), false),
            Err(_) => return (String::from_utf8(text).unwrap(), true),
        }
    }
}

#[test]
fn the_socket_file_is_private_and_replaces_only_a_dead_one() {
    let place = Place::new("file");
    let server = Server::bind(&place.0).unwrap();
    assert_eq!(std::fs::metadata(&place.0).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(Server::bind(&place.0).unwrap_err().kind(), io::ErrorKind::AddrInUse);
    drop(server);
    assert!(!place.0.exists());
    drop(std::os::unix::net::UnixListener::bind(&place.0).unwrap()); // leaves its file behind
    drop(Server::bind(&place.0).unwrap());
    std::fs::write(&place.0, "precious").unwrap();
    assert_eq!(Server::bind(&place.0).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    assert_eq!(std::fs::read(&place.0).unwrap(), b"precious");
}

#[test]
fn fragmented_requests_are_answered_in_order() {
    let place = Place::new("order");
    let mut server = Server::bind(&place.0).unwrap();
    let mut client = connect(&place);
    client.write_all(b"echo a \"b c\"\n-j echo\nnope\nec").unwrap();
    serve(&mut server, 1);
    assert_eq!(read(&client), ("ok 11\nfalse a|b cok 5\ntrue error 2\nno".to_string(), false));
    client.write_all(b"ho z\r\n").unwrap();
    serve(&mut server, 2);
    assert_eq!(read(&client).0, "ok 7\nfalse z");
    assert_eq!((server.counts.requests.get(), server.counts.errors.get()), (4, 1));
    drop(client);
    serve(&mut server, 3);
    assert_eq!(server.clients(), 0);
}

#[test]
fn garbage_overlong_and_silent_clients_are_disconnected_with_an_error() {
    let place = Place::new("bad");
    let mut server = Server::bind(&place.0).unwrap();
    let (mut garbage, mut control, mut long, mut silent) =
        (connect(&place), connect(&place), connect(&place), connect(&place));
    garbage.write_all(b"\xff\xfe\n").unwrap();
    control.write_all(b"arp\x1b[2J -a\n").unwrap();
    silent.write_all(b"echo").unwrap();
    let _ = long.write(&vec![b'a'; LINE_MAX + 5000]);
    for _ in 0..4 {
        serve(&mut server, 1);
    }
    for (client, says) in [(&garbage, "UTF-8"), (&control, "control characters"), (&long, "at most 65536 bytes")] {
        let (text, ended) = read(client);
        assert!(text.starts_with("error ") && text.contains(says) && ended, "{text:?} {ended}");
    }
    serve(&mut server, 30);
    assert_eq!(read(&silent), (String::new(), false));
    serve(&mut server, 32);
    let (text, ended) = read(&silent);
    assert!(text.contains("not completed within 30 s") && ended, "{text}");
    let counts = &server.counts;
    assert_eq!((counts.garbage.get(), counts.overlong.get(), counts.silent.get()), (2, 1, 1));
    assert_eq!(server.clients(), 0);
}

#[test]
fn a_slow_reader_does_not_block_others_and_is_disconnected() {
    let place = Place::new("slow");
    let mut server = Server::bind(&place.0).unwrap();
    let (mut slow, mut quick) = (connect(&place), connect(&place));
    slow.write_all(b"large\n").unwrap();
    quick.write_all(b"echo q\n").unwrap();
    serve(&mut server, 1);
    assert!(server.is_writing());
    assert_eq!(server.fds().len(), 2, "the listener and the quick client");
    assert_eq!(read(&quick).0, "ok 7\nfalse q");
    serve(&mut server, 20);
    serve(&mut server, 40);
    assert_eq!((server.counts.slow.get(), server.clients()), (1, 1));
    let mut huge = connect(&place);
    huge.write_all(b"huge\n").unwrap();
    serve(&mut server, 41);
    assert!(read(&huge).0.contains("narrow the request"));
}

#[test]
fn idle_clients_are_evicted_at_the_limit() {
    let place = Place::new("many");
    let mut server = Server::bind(&place.0).unwrap();
    let mut clients: Vec<_> = (0..CLIENTS_MAX).map(|_| connect(&place)).collect();
    serve(&mut server, 1);
    for client in &mut clients[1..] {
        client.write_all(b"ec").unwrap();
    }
    serve(&mut server, 2);
    let more = [connect(&place), connect(&place)];
    serve(&mut server, 3);
    assert!(read(&clients[0]).0.contains("idle"), "the idle client was disconnected");
    serve(&mut server, 4);
    assert_eq!(server.clients(), CLIENTS_MAX);
    // The first new client was itself idle, and was disconnected for the second one.
    assert!(more.iter().any(|client| read(client).1));
    assert_eq!(server.counts.evicted.get(), 2);
    for client in &more {
        let _ = (&*client).write_all(b"ec");
    }
    serve(&mut server, 5);
    let late = connect(&place);
    serve(&mut server, 6);
    assert!(read(&late).0.contains("too many clients"));
    assert_eq!(server.counts.refused.get(), 1);
}

#[test]
fn lines_are_split_and_joined() {
    let words = ["", "a b", "\"q\\", "tracer(file=\"x\"):null:", "plain"];
    assert_eq!(line::split(line::join(&words).as_bytes()).unwrap(), words);
    assert_eq!(line::split(b"\"open"), Err(line::LineError::Quote));
    assert_eq!(line::split(b"\"a\"b"), Err(line::LineError::Quote));
    assert_eq!(line::split(b"  \t "), Ok(vec![]));
}

#[test]
fn the_client_reports_errors() {
    let second = Duration::from_secs(1);
    let words = ["arp".to_string()];
    let fault = |url: &str| request(url, &words, false, second).unwrap_err().to_string();
    assert!(fault("tcp://1.2.3.4:5").contains("expected unix:///path"));
    assert!(fault("unix://").contains("expected unix:///path"));
    assert!(fault("/nonexistent/socket").contains("check that a host runs"));
    assert!(request("/x", &["a\nb".to_string()], false, second).unwrap_err().to_string().contains("line break"));
    // Servers of other programs: one that never answers, and one with another protocol.
    let place = Place::new("other");
    let listener = std::os::unix::net::UnixListener::bind(&place.0).unwrap();
    let url = place.0.display().to_string();
    let short = request(&url, &words, false, Duration::from_millis(50)).unwrap_err().to_string();
    assert!(short.contains("no answer within"), "{short}");
    let other = std::thread::spawn(move || {
        let (_silent, _) = listener.accept().unwrap();
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\n").unwrap();
    });
    assert!(fault(&url).contains("check that it is a control socket"));
    other.join().unwrap();
}

#[test]
fn only_servers_of_the_user_or_root_are_trusted() {
    let trusted = [(1000, 1000), (0, 1000), (0, 0), (1001, 0)];
    assert!(trusted.iter().all(|(uid, own)| client::is_trusted(*uid, *own)));
    assert!(!client::is_trusted(1001, 1000));
}
