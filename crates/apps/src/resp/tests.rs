use super::reply::{Garbage, Says, first};
use super::*;

fn all(bytes: &[u8], step: usize, limits: Limits) -> Result<Vec<Vec<Vec<u8>>>, Bad> {
    let (mut requests, mut found) = (Requests::new(limits), Vec::new());
    for part in bytes.chunks(step) {
        assert!(requests.room() >= part.len(), "no room for what a request wants");
        requests.push(part);
        while let Some(args) = requests.next_request()? {
            found.push(args.iter().map(<[u8]>::to_vec).collect());
        }
    }
    Ok(found)
}

fn words(bytes: &[u8]) -> Result<Vec<Vec<String>>, Bad> {
    let whole = all(bytes, bytes.len().max(1), Limits::default());
    assert_eq!(all(bytes, 1, Limits::default()), whole, "in single bytes");
    let text = |args: Vec<Vec<u8>>| args.into_iter().map(|arg| arg.escape_ascii().to_string()).collect();
    Ok(whole?.into_iter().map(text).collect())
}

#[test]
fn arrays_and_lines_are_requests() {
    assert_eq!(
        words(b"*2\r\n$3\r\nGET\r\n$3\r\na\rb\r\nPING\r\n*1\r\n$0\r\n\r\n").unwrap(),
        [vec!["GET", "a\\rb"], vec!["PING"], vec![""]]
    );
    // Empty requests are skipped.
    assert_eq!(words(b"\r\n*0\r\n\n*-1\r\n  \t\r\nA b\n").unwrap(), [["A", "b"]]);
    assert_eq!(words(b"*2\r\n$3\r\nGET\r\n$3\r\nab").unwrap(), Vec::<Vec<String>>::new());
}

#[test]
fn inline_words_may_be_quoted() {
    assert_eq!(
        words(b"a \"b c\" '\\'d \\n' \"\\x41\\n\\\"\\q\" e'f'\r\n").unwrap(),
        [["a", "b c", "\\\'d \\\\n", "A\\n\\\"q", "ef"]]
    );
    for line in [&b"\"a\r\n"[..], b"'a\r\n", b"\"a\"b\r\n", b"'a'b\r\n", b"\"a\\\r\n"] {
        assert_eq!(words(line), Err(Bad::Quotes), "{}", line.escape_ascii());
    }
}

#[test]
fn malformed_requests_are_rejected() {
    for (bytes, why) in [
        (&b"*a\r\n"[..], Bad::Count),
        (b"*1\n", Bad::Count),
        (b"*1x\r\n", Bad::Count),
        (b"*65537\r\n", Bad::Count),
        (b"*99999999999999999999\r\n", Bad::Count),
        (b"*000000000000000000000000000000001\r\n", Bad::CountLine),
        (b"*1\r\n:1\r\n", Bad::Expected(b':')),
        (b"*1\r\n$-1\r\n", Bad::Length),
        (b"*1\r\n$1048577\r\n", Bad::Length),
        (b"*1\r\n$+1\r\n", Bad::Length),
        (b"*1\r\n$11111111111111111111111111111111111\r\n", Bad::LengthLine),
        (b"*1\r\n$1\r\nab\r\n", Bad::End),
        (b"*1\r\n$1\r\na\n\n", Bad::End),
    ] {
        assert_eq!(words(bytes), Err(why), "{}", bytes.escape_ascii());
    }
    let limits = Limits { bulk: 100, args: 3, line: 10, request: 150 };
    assert_eq!(all(b"*4\r\n", 9, limits), Err(Bad::Count));
    assert_eq!(all(b"a b c d\r\n", 9, limits), Err(Bad::Count));
    assert_eq!(all(b"abcdefghijk", 1, limits), Err(Bad::Line));
    let two = [&b"*2\r\n$100\r\n"[..], &[b'x'; 100], b"\r\n$50\r\n"].concat();
    assert_eq!(all(&two, 7, limits), Err(Bad::Request));
    assert_eq!(Bad::Expected(b'\r').to_string(), "Protocol error: expected '$', got '\\r'");
}

#[test]
fn long_arguments_fit_and_pipelined_requests_are_bounded() {
    let mut requests = Requests::new(Limits::default());
    assert_eq!(requests.room(), AHEAD);
    requests.push(b"*1\r\n$1000000\r\n");
    assert!(requests.next_request().unwrap().is_none());
    assert!(requests.room() >= 1_000_002);
    requests.push(&[b'x'; 1_000_000]);
    requests.push(b"\r\n");
    assert_eq!(requests.next_request().unwrap().unwrap().bytes(), 1_000_000);
    assert!(requests.next_request().unwrap().is_none());
    assert!(requests.held() < 3 * AHEAD, "{}", requests.held());
    // Requests are not consumed: the buffer stops growing at its limit.
    let mut came = 0;
    while requests.room() > 0 {
        requests.push(b"P\r\n");
        came += 3;
    }
    assert!((AHEAD..AHEAD + 3).contains(&came));
}

#[test]
fn formatted_integers_parse_back() {
    for n in [0, 1, -1, 10, i64::MAX, i64::MIN, -90] {
        let mut digits = [0; 20];
        assert_eq!(integer(replies::decimal(n, &mut digits)), Some(n));
        assert_eq!(replies::decimal(n, &mut digits), n.to_string().as_bytes());
    }
    for text in ["", "-", "+1", "01", "-0", " 1", "1 ", "1.0", "9223372036854775808", "-9223372036854775809"] {
        assert_eq!(integer(text.as_bytes()), None, "{text}");
    }
}

#[test]
fn replies_are_encoded() {
    let mut out = Replies::new(1000);
    out.ok();
    out.line("PONG");
    out.error("ERR a\r\nb");
    out.integer(-5);
    out.array(2);
    out.bulk(b"a\r\nb");
    out.nil();
    out.nil_array();
    for score in [1.0, -0.5, 1e300, 1e-9, f64::INFINITY, f64::NEG_INFINITY] {
        out.double(score);
    }
    let wanted = "+OK\r\n+PONG\r\n-ERR a  b\r\n:-5\r\n*2\r\n$4\r\na\r\nb\r\n$-1\r\n*-1\r\n$1\r\n1\r\n$4\r\n-0.5\r\n\
                  $6\r\n1e+300\r\n$4\r\n1e-9\r\n$3\r\ninf\r\n$4\r\n-inf\r\n";
    assert_eq!(String::from_utf8_lossy(out.waiting()), wanted);
    out.sent(5);
    assert!(out.waiting().starts_with(b"+PONG"));
    out.sent(wanted.len() - 5);
    assert!(out.waiting().is_empty() && !out.is_over());
    out.bulk(&[0; 2000]);
    out.ok();
    assert!(out.waiting().is_empty() && out.is_over());
}

#[test]
fn the_end_of_a_reply_is_found() {
    let cases: [(&[u8], Says<'_>); 9] = [
        (b"+OK\r\n", Says::Line(b"OK")),
        (b"-ERR x\r\n", Says::Error(b"ERR x")),
        (b":-7\r\n", Says::Integer(-7)),
        (b"$3\r\na\nb\r\n", Says::Bulk(b"a\nb")),
        (b"$-1\r\n", Says::Nil),
        (b"*-1\r\n", Says::Nil),
        (b"*0\r\n", Says::Array(0)),
        (b"*2\r\n*1\r\n:1\r\n$1\r\nx\r\n", Says::Array(2)),
        (b"*1\r\n*1\r\n*1\r\n*0\r\n", Says::Array(1)),
    ];
    for (bytes, says) in cases {
        let more = [bytes, b"+next\r\n"].concat();
        assert_eq!(first(&more, 100), Ok(Some((says, bytes.len()))), "{}", bytes.escape_ascii());
        for n in 0..bytes.len() {
            assert_eq!(first(&bytes[..n], 100), Ok(None), "{n} of {}", bytes.escape_ascii());
        }
    }
    let deep = b"*1\r\n".repeat(9);
    let cases: [&[u8]; 7] = [b"x\r\n", b"+OK\n", b"$101\r\n", b"$1\r\nabc", b":a\r\n", b"*1048577\r\n", &deep];
    for bytes in cases {
        assert_eq!(first(bytes, 100), Err(Garbage), "{}", bytes.escape_ascii());
    }
}
