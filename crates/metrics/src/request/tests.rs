use super::*;
use proptest::prelude::*;

fn request(text: &str) -> Result<Option<Request>, RequestError> {
    parse(text.as_bytes()).map(|parsed| parsed.map(|parsed| parsed.request))
}

#[test]
fn the_format_follows_from_the_accept_header() {
    let prometheus = "Accept: application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
    for (header, format) in [
        (prometheus, Format::OpenMetrics),
        ("ACCEPT:Application/OpenMetrics-Text", Format::OpenMetrics),
        ("Accept: text/plain, application/openmetrics-text ; q=0.1", Format::OpenMetrics),
        ("Accept: application/openmetrics-text;q=0, */*", Format::Prometheus),
        ("Accept: text/plain", Format::Prometheus),
        ("X-Accept: application/openmetrics-text", Format::Prometheus),
        ("Host: a", Format::Prometheus),
    ] {
        let text = format!("GET /metrics HTTP/1.1\r\nHost: b\r\n{header}\r\n\r\n");
        assert_eq!(request(&text), Ok(Some(Request::Metrics(format))), "{header}");
    }
    assert_eq!(request("GET /metrics?x=1 HTTP/1.0\n\n"), Ok(Some(Request::Metrics(Format::Prometheus))));
    assert_eq!(request("GET /-/ready HTTP/1.1\r\n\r\n"), Ok(Some(Request::Ready)));
    assert!(parse(b"HEAD /-/healthy HTTP/1.1\r\n\r\n").unwrap().unwrap().is_head);
}

#[test]
fn other_requests_are_rejected() {
    for (text, why) in [
        ("GET / HTTP/1.1\r\n\r\n", RequestError::NotFound),
        ("GET /metric HTTP/1.1\r\n\r\n", RequestError::NotFound),
        ("POST /metrics HTTP/1.1\r\n\r\n", RequestError::Method),
        ("get /metrics HTTP/1.1\r\n\r\n", RequestError::Method),
        ("GET /metrics\r\n\r\n", RequestError::Malformed),
        ("GET  /metrics HTTP/1.1\r\n\r\n", RequestError::Malformed),
        ("GET http://a/metrics HTTP/1.1\r\n\r\n", RequestError::Malformed),
        ("GET /metrics HTTP/2\r\n\r\n", RequestError::Malformed),
        ("\r\n\r\n", RequestError::Malformed),
    ] {
        assert_eq!(request(text), Err(why), "{text}");
    }
    assert_eq!(parse(b"\xff\r\n\r\n"), Err(RequestError::Malformed));
    assert_eq!(request("GET /metrics HTTP/1.1\r\n"), Ok(None));
    let long = format!("GET /metrics HTTP/1.1\r\nA: {}", "x".repeat(REQUEST_MAX));
    assert_eq!(request(&long), Err(RequestError::TooLong));
    assert_eq!(request(&format!("{long}\r\n\r\n")), Err(RequestError::TooLong));
}

/// Seeds of the fuzz target, which are written to disk if the repository is writable.
#[test]
fn seeds_hold() {
    let seeds = [
        ("metrics", "GET /metrics HTTP/1.1\r\nHost: a\r\nAccept: application/openmetrics-text\r\n\r\n"),
        ("head", "HEAD /-/ready HTTP/1.0\n\n"),
        ("post", "POST /metrics HTTP/1.1\r\n\r\nx"),
        ("cut", "GET /metrics HTTP/1.1\r\nHost"),
    ];
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/metrics_request");
    let is_writable = std::fs::create_dir_all(&dir).is_ok();
    for (name, seed) in seeds {
        (0..=seed.len()).for_each(|len| crate::fuzz::request(&seed.as_bytes()[..len]));
        if is_writable {
            std::fs::write(dir.join(name), seed).unwrap();
        }
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes_hold(data in prop::collection::vec(any::<u8>(), 0..300), line in "(GET|HEAD) /[a-z/-]{0,9} HTTP/1.[01]\r\n") {
        crate::fuzz::request(&data);
        crate::fuzz::request(&[line.as_bytes(), &data, b"\r\n\r\n"].concat());
    }
}
