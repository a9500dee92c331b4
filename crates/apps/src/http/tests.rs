use super::range::{Ranged, ranged};
use super::request::Scan;
use super::*;
use crate::files::{Builtin, Uploads};
use crate::net::{Far, Net, Rig};
use proptest::prelude::*;

fn root() -> Root {
    Root::devices()
        .with("/ten", Builtin::Bytes(b"0123456789"[..].into()))
        .with("/empty", Builtin::Bytes(b""[..].into()))
        .with("/d/index.html", Builtin::Bytes([b'x'; 20_000][..].into()))
}

fn rig() -> Rig<Http> {
    Rig::new(Http::new(Config::new(root())), Net::default())
}

fn status(answer: &str) -> u16 {
    answer.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)?.parse().ok()).unwrap_or(0)
}

/// Sends one request on a new connection. Returns the answer and whether the connection was closed.
fn ask(head: &str) -> (String, bool) {
    let mut rig = rig();
    let client = rig.client();
    let answer = rig.say(client, head.as_bytes());
    (answer, rig.net.far_eof(client))
}

fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").map_or("", |(_, body)| body)
}

#[test]
fn get_head_and_ranges_of_a_file() {
    let (answer, ended) = ask("GET /ten HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(
        answer,
        "HTTP/1.1 200 OK\r\nServer: linerate\r\nAccept-Ranges: bytes\r\nContent-Type: application/octet-stream\r\n\
         Content-Length: 10\r\n\r\n0123456789"
    );
    assert!(!ended);
    let (head, ended) = ask("HEAD /ten HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(head.contains("Content-Length: 10\r\n") && body(&head).is_empty() && !ended);
    for (range, code, expected) in [
        ("bytes=2-4", 206, "234"),
        ("bytes=7-", 206, "789"),
        ("bytes=-3", 206, "789"),
        ("bytes=0-99", 206, "0123456789"),
        ("bytes=-99", 206, "0123456789"),
        ("bytes=1-2,4-5", 200, "0123456789"),
        // RFC 9110 5.6.1.2: empty list elements are ignored.
        ("bytes=, 1-2 ,,", 206, "12"),
        ("bytes=99999999999999999999-", 416, "range beyond the end of the file\n"),
        ("bytes=-99999999999999999999", 206, "0123456789"),
        // 14.1.1 and 14.2: an invalid set of ranges may be rejected; an unknown unit must be
        // ignored.
        ("bytes=4-2", 400, "invalid Range field\n"),
        ("bytes=x", 400, "invalid Range field\n"),
        ("bytes=", 400, "invalid Range field\n"),
        ("bytes", 400, "invalid Range field\n"),
        ("bytes=-", 400, "invalid Range field\n"),
        ("bytes=1", 400, "invalid Range field\n"),
        ("bytes=1-2-3", 400, "invalid Range field\n"),
        ("bytes=+1-2", 400, "invalid Range field\n"),
        ("bytes=1-2,x", 400, "invalid Range field\n"),
        ("x", 200, "0123456789"),
        ("lines=x", 200, "0123456789"),
        ("lines=1-2", 200, "0123456789"),
        ("bytes=10-", 416, "range beyond the end of the file\n"),
        ("bytes=-0", 416, "range beyond the end of the file\n"),
    ] {
        let (answer, _) = ask(&format!("GET /ten HTTP/1.1\r\nHost: a\r\nRange: {range}\r\n\r\n"));
        assert_eq!((status(&answer), body(&answer)), (code, expected), "{range}");
    }
    // 14.1.2: a suffix range of an empty file is the whole file; other ranges are unsatisfiable.
    for (range, code) in [("bytes=-1", 200), ("bytes=-0", 416), ("bytes=0-", 416), ("bytes=0-0", 416), ("bytes=x", 400)]
    {
        let (answer, ended) = ask(&format!("GET /empty HTTP/1.1\r\nHost: a\r\nRange: {range}\r\n\r\n"));
        assert_eq!((status(&answer), ended), (code, false), "{range}");
        assert!(code != 200 || answer.contains("Content-Length: 0\r\n") && body(&answer).is_empty(), "{answer}");
    }
    // 14.2: Range is ignored for methods other than GET.
    let (head, _) = ask("HEAD /ten HTTP/1.1\r\nHost: a\r\nRange: bytes=x\r\n\r\n");
    assert_eq!(status(&head), 200);
    let (answer, _) = ask("GET /ten HTTP/1.1\r\nHost: a\r\nRange: bytes=2-4\r\n\r\n");
    assert!(answer.contains("Content-Range: bytes 2-4/10\r\nAccept"), "{answer}");
    let (answer, _) = ask("GET /d/ HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(answer.contains("text/html") && body(&answer).len() == 20_000);
    let (answer, _) = ask("GET /d HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(status(&answer) == 301 && answer.contains("Location: /d/\r\n"), "{answer}");
}

#[test]
fn errors_keep_the_connection_open() {
    for (target, code) in [
        ("/x", 404),
        ("/", 404),
        ("/ten/", 404),
        ("/dev/", 404),
        ("/../ten", 400),
        ("/%2e%2e/ten", 400),
        ("/a%0ab", 400),
    ] {
        let (answer, ended) = ask(&format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert_eq!((status(&answer), ended), (code, false), "{target}");
    }
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PATCH"] {
        let (answer, ended) = ask(&format!("{method} /ten HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert!(status(&answer) == 405 && answer.contains("Allow: GET, HEAD\r\n") && !ended, "{method}");
    }
    assert_eq!(status(&ask("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n").0), 405);
}

#[test]
fn what_is_no_request_ends_the_connection() {
    let long = format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "a".repeat(HEAD_MAX));
    let big = format!("GET /ten HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "a".repeat(HEAD_MAX));
    let many = format!("GET /ten HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: a\r\n".repeat(FIELDS_MAX));
    let with = |field: &str| format!("GET /ten HTTP/1.1\r\nHost: a\r\n{field}\r\n\r\n");
    let refused = [
        (400, "GET /ten HTTP/1.1\nHost: a\n\n".to_owned()),
        (400, "GET /ten HTTP/1.1\r\nHost: a\n\r\n".to_owned()),
        (400, "GET /ten HTTP/1.1\rHost: a\r\n\r\n".to_owned()),
        (400, with("X: a\rY: b")),
        (400, with("X: a\0b")),
        (400, with("X: a\r\n b")),
        (400, with(" X: a")),
        (400, with("X : a")),
        (400, with(": a")),
        (400, with("X")),
        (400, with("X(: a")),
        (400, "GET /ten HTTP/1.1\r\n\r\n".to_owned()),
        (400, with("Host: b")),
        (400, "GET /ten HTTP/1.1\r\nHost: a b\r\n\r\n".to_owned()),
        (400, "GET  /ten HTTP/1.1\r\nHost: a\r\n\r\n".to_owned()),
        (400, "GET /ten  HTTP/1.1\r\nHost: a\r\n\r\n".to_owned()),
        (400, "GET /ten\r\n\r\n".to_owned()),
        (400, "GET /ten HTTP/1.1 \r\nHost: a\r\n\r\n".to_owned()),
        (400, "GET /ten http/1.1\r\nHost: a\r\n\r\n".to_owned()),
        (400, "GET /ten HTTP/11\r\nHost: a\r\n\r\n".to_owned()),
        (400, "G(T /ten HTTP/1.1\r\nHost: a\r\n\r\n".to_owned()),
        (400, "GET ten HTTP/1.1\r\nHost: a\r\n\r\n".to_owned()),
        (400, "GET * HTTP/1.1\r\nHost: a\r\n\r\n".to_owned()),
        (400, "GET /t#n HTTP/1.1\r\nHost: a\r\n\r\n".to_owned()),
        (400, "GET /\u{e9} HTTP/1.1\r\nHost: a\r\n\r\n".to_owned()),
        (400, "GET /a%2fb HTTP/1.1\r\nHost: a\r\n\r\n".to_owned()),
        (400, "GET /a%00 HTTP/1.1\r\nHost: a\r\n\r\n".to_owned()),
        (400, "GET /a%4 HTTP/1.1\r\nHost: a\r\n\r\n".to_owned()),
        (400, "GET /a%+1 HTTP/1.1\r\nHost: a\r\n\r\n".to_owned()),
        (400, "GET http:///ten HTTP/1.1\r\nHost: a\r\n\r\n".to_owned()),
        (400, "GET http://u@a/ten HTTP/1.1\r\nHost: a\r\n\r\n".to_owned()),
        (400, with("Content-Length: 5\r\nContent-Length: 5")),
        (400, with("Content-Length: 5, 5")),
        (400, with("Content-Length: +5")),
        (400, with("Content-Length: 0x5")),
        (400, with("Content-Length: -1")),
        (400, with("Content-Length:")),
        (413, with("Content-Length: 99999999999999999999")),
        (413, with("Content-Length: 65537")),
        (400, with("Content-Length: 5\r\nTransfer-Encoding: chunked")),
        (400, with("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked")),
        (400, "GET /ten HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned()),
        (411, with("Transfer-Encoding: chunked")),
        (411, with("Transfer-Encoding: Chunked")),
        (501, with("Transfer-Encoding: gzip, chunked")),
        (501, with("Transfer-Encoding: xchunked")),
        (400, with("Range: bytes=0-1\r\nRange: bytes=2-3")),
        (414, long),
        (431, big),
        (431, many),
        (417, with("Expect: coffee")),
        (501, "BREW /ten HTTP/1.1\r\nHost: a\r\n\r\n".to_owned()),
        (505, "GET /ten HTTP/2.0\r\nHost: a\r\n\r\n".to_owned()),
        (505, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned()),
        (400, "\x16\x03\x01\x02\x00\x01".to_owned() + "\n"),
    ];
    for (code, head) in refused {
        // Bytes after the rejected head must never be parsed as a request.
        let (answer, ended) = ask(&format!("{head}GET /ten HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert_eq!((status(&answer), ended), (code, true), "{head:?}: {answer}");
        assert!(!answer.contains("0123456789") && answer.contains("Connection: close\r\n"), "{head:?}");
    }
}

#[test]
fn requests_follow_each_other() {
    let mut rig = rig();
    let client = rig.client();
    let one = "GET /ten HTTP/1.1\r\nHost: a\r\n\r\n";
    // Three requests at once; a request byte by byte after an empty line; requests with bodies to
    // skip.
    assert_eq!(rig.say(client, one.repeat(3).as_bytes()).matches("0123456789").count(), 3);
    let slow: String = format!("\r\n{one}").bytes().map(|byte| rig.say(client, &[byte])).collect();
    assert_eq!(slow.matches("0123456789").count(), 1);
    let with_body = "GET /ten HTTP/1.1\r\nHost: a\r\nContent-Length: 31\r\n\r\nGET /x HTTP/1.1\r\nHost: a\r\n\r\n123";
    let answers = rig.say(client, format!("{with_body}{one}").as_bytes());
    assert_eq!((answers.matches("HTTP/1.1 200").count(), answers.matches("HTTP/1.1").count()), (2, 2));
    assert_eq!(rig.server.app.counts.answered.get(), 6);
    // The last answer announces the close; requests after it are ignored.
    let last = "GET /ten HTTP/1.1\r\nHost: a\r\nConnection: x, Close\r\n\r\n";
    let answers = rig.say(client, format!("{last}{one}").as_bytes());
    assert_eq!(answers.matches("HTTP/1.1").count(), 1);
    assert!(rig.net.far_eof(client) && answers.contains("Connection: close\r\n"));
    // HTTP/1.0 closes the connection unless the client sends keep-alive.
    assert!(ask("GET /ten HTTP/1.0\r\n\r\n").1);
    let (answer, ended) = ask("GET /ten HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    assert!(!ended && answer.contains("Connection: keep-alive\r\n"));
    // Expect: 100-continue is answered at once; the connection closes since the body may be
    // missing.
    let (answer, ended) = ask("GET /ten HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n");
    assert!(status(&answer) == 200 && ended);
}

#[test]
fn conditional_requests() {
    let dir = std::env::temp_dir().join(format!("linerate-http-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("f.txt"), "0123456789").unwrap();
    let root = Root::empty().with_directory(&dir, Uploads::Refused, 0).unwrap();
    let mut rig = Rig::new(Http::new(Config { wall: Some(Wall::default()), ..Config::new(root) }), Net::default());
    let client = rig.client();
    let mut ask = |fields: &str| rig.say(client, format!("GET /f.txt HTTP/1.1\r\nHost: a\r\n{fields}\r\n").as_bytes());
    let whole = ask("");
    assert!(whole.contains("Date: Thu, 01 Jan 1970 00:00:01 GMT\r\n"), "{whole}");
    let field = |name: &str| {
        let at = whole.find(name).unwrap() + name.len() + 2;
        whole[at..].split("\r\n").next().unwrap().to_owned()
    };
    let (tag, modified) = (field("ETag"), field("Last-Modified"));
    let old = "Sun, 06 Nov 1994 08:49:37 GMT";
    for (fields, code) in [
        (format!("If-None-Match: {tag}\r\n"), 304),
        (format!("If-None-Match: \"x\", W/{tag}\r\n"), 304),
        ("If-None-Match: *\r\n".to_owned(), 304),
        ("If-None-Match: \"x\"\r\n".to_owned(), 200),
        (format!("If-None-Match: \"x\"\r\nIf-Modified-Since: {modified}\r\n"), 200),
        (format!("If-Modified-Since: {modified}\r\n"), 304),
        (format!("If-Modified-Since: {old}\r\n"), 200),
        ("If-Modified-Since: yesterday\r\n".to_owned(), 200),
        (format!("If-Match: {tag}\r\n"), 200),
        (format!("If-Match: W/{tag}\r\n"), 412),
        ("If-Match: \"x\"\r\n".to_owned(), 412),
        (format!("If-Unmodified-Since: {old}\r\n"), 412),
        (format!("If-Unmodified-Since: {modified}\r\n"), 200),
        (format!("Range: bytes=0-0\r\nIf-Range: {tag}\r\n"), 206),
        ("Range: bytes=0-0\r\nIf-Range: \"x\"\r\n".to_owned(), 200),
        (format!("Range: bytes=0-0\r\nIf-Range: {modified}\r\n"), 206),
        (format!("Range: bytes=0-0\r\nIf-Range: {old}\r\n"), 200),
    ] {
        assert_eq!(status(&ask(&fields)), code, "{fields}");
    }
    // A file truncated while being sent resets the connection; the answer is not padded.
    std::fs::write(dir.join("f.txt"), vec![b'y'; 1_000_000]).unwrap();
    rig.net.far_send(client, b"GET /f.txt HTTP/1.1\r\nHost: a\r\n\r\n");
    rig.run_until_idle();
    std::fs::write(dir.join("f.txt"), "").unwrap();
    assert!(rig.receive(client).len() < 1_000_000);
    assert!(rig.net.is_reset(client));
    assert_eq!(rig.server.app.counts.cut_short.get(), 1);
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn dev_zero_over_http() {
    let mut rig = rig();
    let client = rig.client();
    rig.net.far_send(client, b"GET /dev/zero?bytes=300000 HTTP/1.1\r\nHost: a\r\n\r\n");
    let answer = rig.receive(client);
    assert!(answer.contains("Content-Length: 300000\r\n") && body(&answer).len() == 300_000);
    rig.net.far_send(client, b"GET /dev/zero HTTP/1.1\r\nHost: a\r\n\r\n");
    rig.run_until_idle();
    let mut bytes = 0;
    for _ in 0..100 {
        bytes += rig.net.far_recv(client, 1 << 20).len();
        rig.run_until_idle();
    }
    assert_eq!(bytes, 100 * 64 * 1024);
    assert!(!rig.net.far_eof(client));
}

#[test]
fn the_slow_are_ended() {
    let mut rig = rig();
    let (silent, slow, deaf) = (rig.client(), rig.client(), rig.client());
    rig.net.far_send(deaf, b"GET /dev/zero HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut heard = String::new();
    for byte in b"GET /ten HTTP/1." {
        heard += &rig.say(slow, &[*byte]);
        rig.pass(Duration::from_secs(1));
    }
    // The time limit for a head is fifteen seconds, even if bytes keep arriving.
    assert_eq!(status(&heard), 408);
    assert!(rig.net.far_eof(slow) && rig.net.far_eof(silent));
    assert!(!rig.net.far_eof(deaf));
    rig.pass(Duration::from_secs(30));
    assert!(rig.net.is_reset(deaf));
    let counts = &rig.server.app.counts;
    assert_eq!((counts.head_late.get(), counts.idle.get(), counts.stalled.get()), (1, 1, 1));
    rig.pass(Duration::from_secs(3));
    assert_eq!((rig.server.app.conns(), rig.net.fds()), (0, 1));
}

#[test]
fn pipelining_does_not_pile_up() {
    let mut rig = Rig::new(Http::new(Config::new(root())), Net { window: 1_000, ..Net::default() });
    let client = rig.client();
    let mut taken = 0;
    for _ in 0..5_000 {
        taken += rig.net.far_send(client, b"GET /ten HTTP/1.1\r\nHost: a\r\n\r\n");
        rig.run_until_idle();
    }
    // The server accepts as much as fills one head buffer and the socket windows, plus the few
    // requests whose answers fit into the window.
    assert!(taken < HEAD_MAX + 3_000, "{taken}");
    assert!(rig.server.app.counts.answered.get() < 20);
}

#[test]
fn an_empty_line_does_not_start_a_request() {
    // RFC 9112 2.2: an empty line before a request line is skipped; it does not extend the time.
    for blank in [&b"\r\n"[..], b"\r"] {
        let mut rig = rig();
        let client = rig.client();
        rig.pass(Duration::from_secs(14));
        assert_eq!(rig.say(client, blank), "");
        rig.pass(Duration::from_secs(1));
        assert!(rig.net.far_eof(client), "{}", blank.escape_ascii());
        assert_eq!((rig.server.app.counts.idle.get(), rig.server.app.counts.head_late.get()), (1, 0));
    }
    // The time limit of the next request starts at its first byte.
    let mut rig = rig();
    let client = rig.client();
    rig.pass(Duration::from_secs(14));
    assert_eq!(rig.say(client, b"\r\nGET /ten"), "");
    rig.pass(Duration::from_secs(14));
    assert_eq!(status(&rig.say(client, b" HTTP/1.1\r\nHost: a\r\n\r\n")), 200);
    // The same applies between two requests.
    rig.pass(Duration::from_secs(14));
    rig.say(client, b"\r\n");
    rig.pass(Duration::from_secs(1));
    assert!(rig.net.far_eof(client));
}

#[test]
fn connections_have_limits() {
    let config = Config { conns_max: 3, conns_per_peer: 2, requests_max: 2, ..Config::new(root()) };
    let mut rig = Rig::new(Http::new(config), Net::default());
    let clients: [Far; 5] =
        [rig.client(), rig.client(), rig.client(), rig.client_from([1, 0, 0, 3]), rig.client_from([1, 0, 0, 4])];
    let one = "GET /ten HTTP/1.1\r\nHost: a\r\n\r\n";
    let heard = clients.map(|client| status(&rig.say(client, one.as_bytes())));
    assert_eq!(heard, [200, 200, 503, 200, 503]);
    assert_eq!(rig.server.app.counts.refused.get(), 2);
    let second = rig.say(clients[0], one.as_bytes());
    assert!(second.contains("Connection: close") && rig.net.far_eof(clients[0]), "the last of two");
}

#[test]
fn the_longest_idle_connection_is_evicted() {
    let config = Config { conns_max: 2, ..Config::new(root()) };
    let mut rig = Rig::new(Http::new(config), Net::default());
    let one = "GET /ten HTTP/1.1\r\nHost: a\r\n\r\n";
    let (idle, reader) = (rig.client(), rig.client_from([1, 0, 0, 3]));
    rig.say(idle, one.as_bytes());
    rig.net.far_send(reader, b"GET /dev/zero HTTP/1.1\r\nHost: a\r\n\r\n");
    for _ in 0..4 {
        rig.pass(Duration::from_millis(500));
        rig.net.far_recv(reader, 1 << 20);
        rig.run_until_idle();
    }
    let next = rig.client_from([1, 0, 0, 4]);
    assert_eq!(status(&rig.say(next, one.as_bytes())), 200);
    assert!(rig.net.is_reset(idle) && !rig.net.is_reset(reader));
    assert_eq!((rig.server.app.counts.evicted.get(), rig.server.app.conns(), rig.net.fds()), (1, 2, 3));
}

proptest! {
    #[test]
    fn any_range_lies_within_the_file(field in "bytes=[0-9]{0,3}-[0-9]{0,3}", len in 0..500u64) {
        if let Ranged::Part(first, n) = ranged(&field, len) {
            prop_assert!(n >= 1 && first + n <= len);
        }
    }

    #[test]
    fn any_head_is_parsed_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let mut head = bytes;
        head.extend(b"\r\n\r\n");
        let _ = Request::parse(&head);
    }

    /// Interrupted scans give the same result as a single scan.
    #[test]
    fn scanning_does_not_depend_on_segmentation(head in "(GET|X|\r\n|\r|\n|: a){0,12}", cuts in proptest::collection::vec(0..6usize, 0..20)) {
        let bytes = head.as_bytes();
        let whole = Scan::default().advance(bytes);
        let (mut scan, mut at) = (Scan::default(), 0);
        for cut in cuts {
            at = (at + cut).min(bytes.len());
            let part = scan.advance(&bytes[..at]);
            if part != Ok(None) {
                prop_assert_eq!(part, whole);
                return Ok(());
            }
        }
        prop_assert_eq!(scan.advance(bytes), whole);
    }

    /// Accepted requests have a normalized path, and the order of fields does not matter.
    #[test]
    fn parsing_does_not_depend_on_field_order(path in "(/|a|%41|%2e|\\?|b=1|\\.\\.){0,8}", order in any::<bool>()) {
        let fields = ["Host: a\r\n", "Content-Length: 3\r\n"];
        let (first, second) = if order { (0, 1) } else { (1, 0) };
        let head = format!("GET /{path} HTTP/1.1\r\n{}{}\r\n", fields[first], fields[second]);
        let request = Request::parse(head.as_bytes()).unwrap();
        prop_assert!(request.path.starts_with(b"/") && !request.path.contains(&b'%') && !request.path.contains(&b'?'));
        prop_assert_eq!((request.body, request.keep), (3, true));
    }
}
