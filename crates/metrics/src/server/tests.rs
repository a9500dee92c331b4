use super::*;
use node::figures::Figures;
use std::net::SocketAddr;

/// A collector with the node "h", whose thread answers until the test ends.
struct Node {
    collector: Arc<Collector>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<u64>>,
}

impl Node {
    fn start() -> Node {
        let (collector, is_over) = (Arc::new(Collector::default()), Arc::new(AtomicBool::new(false)));
        let (source, over) = (collector.join("h").unwrap(), is_over.clone());
        let thread = std::thread::spawn(move || {
            let mut served = 0;
            while !over.load(Ordering::Relaxed) {
                let _ = dispatch::wait_readable(&[source.fd()], Some(Duration::from_millis(5)));
                source.serve(|| {
                    served += 1;
                    Figures { node: "h".to_owned(), ..Figures::default() }
                });
            }
            served
        });
        Node { collector, is_over, thread: Some(thread) }
    }

    fn serve(&self) -> (Server, SocketAddr) {
        let bound = Bound::new(&"127.0.0.1:0".parse().unwrap()).unwrap();
        let MetricsAddress::Tcp(addr) = *bound.address() else { panic!("{}", bound.address()) };
        (bound.serve(self.collector.clone(), 10_000).unwrap(), addr)
    }

    /// Ends the thread, and returns the number of its answers.
    fn end(mut self) -> u64 {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }
}

fn get(mut stream: impl Read + Write, path: &str, accept: &str) -> String {
    write!(stream, "GET {path} HTTP/1.1\r\nHost: a\r\nAccept: {accept}\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn metrics_are_served_over_tcp_in_both_formats() {
    let node = Node::start();
    let (_server, addr) = node.serve();
    let text = get(TcpStream::connect(addr).unwrap(), "/metrics", "text/plain");
    assert!(
        text.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"),
        "{text}"
    );
    assert!(text.contains("\nlinerate_up{host=\"h\"} 1\n") && !text.contains("# EOF"), "{text}");
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
    let text = get(TcpStream::connect(addr).unwrap(), "/metrics", "application/openmetrics-text;version=1.0.0");
    assert!(text.contains("application/openmetrics-text; version=1.0.0") && text.ends_with("# EOF\n"), "{text}");
    assert!(get(TcpStream::connect(addr).unwrap(), "/-/ready", "*/*").contains("200 OK"));
    assert!(get(TcpStream::connect(addr).unwrap(), "/-/healthy", "*/*").contains("200 OK"));
    assert!(get(TcpStream::connect(addr).unwrap(), "/other", "*/*").contains("404 Not Found"));
    node.end();
}

#[test]
fn metrics_are_served_over_a_unix_socket() {
    let path = std::env::temp_dir().join(format!("lr-metrics-{}.sock", std::process::id()));
    let node = Node::start();
    let address: MetricsAddress = format!("unix:{}", path.display()).parse().unwrap();
    let server = Bound::new(&address).unwrap().serve(node.collector.clone(), 10_000).unwrap();
    assert!(get(UnixStream::connect(&path).unwrap(), "/metrics", "*/*").contains("linerate_up"));
    assert_eq!(Bound::new(&address).unwrap_err().kind(), ErrorKind::AddrInUse);
    drop(server);
    assert!(!path.exists(), "the file is removed");
    node.end();
}

/// A node whose thread does not answer is reported, and is not ready.
#[test]
fn a_silent_node_is_reported() {
    let node = Node::start();
    let _silent = node.collector.join("s").unwrap();
    let (_server, addr) = node.serve();
    let text = get(TcpStream::connect(addr).unwrap(), "/metrics", "*/*");
    assert!(text.contains("linerate_up{host=\"s\"} 0\n"), "{text}");
    let text = get(TcpStream::connect(addr).unwrap(), "/-/ready", "*/*");
    assert!(text.contains("503 Service Unavailable") && text.contains("No answer from: s"), "{text}");
    node.end();
}

/// Clients that send nothing, or one byte at a time, do not keep another client from its answer,
/// and are disconnected.
#[test]
fn slow_clients_do_not_delay_others() {
    let node = Node::start();
    let (_server, addr) = node.serve();
    let mut slow: Vec<TcpStream> = (0..3 * CLIENTS_MAX).map(|_| TcpStream::connect(addr).unwrap()).collect();
    for stream in &mut slow {
        let _ = stream.write(b"G");
    }
    assert!(get(TcpStream::connect(addr).unwrap(), "/metrics", "*/*").contains("linerate_up"));
    let deadline = Instant::now() + Duration::from_secs(60);
    let is_closed = |read: io::Result<usize>| match read {
        Ok(read) => read == 0,
        Err(why) => why.kind() == ErrorKind::ConnectionReset, // a byte was not read
    };
    for stream in &mut slow {
        stream.set_read_timeout(Some(deadline.saturating_duration_since(Instant::now()))).unwrap();
        let read = stream.read(&mut [0; 8]);
        assert!(is_closed(read), "a client of {PATIENCE:?} is still connected");
    }
    node.end();
}

/// A client that reads slowly gets the whole answer, and a rejected request with unread bytes gets
/// an answer instead of a reset.
#[test]
fn answers_arrive_whole() {
    let node = Node::start();
    let name = "n".repeat(1_000_000); // more than socket buffers hold
    for _ in 0..4 {
        let broken = node.collector.join(&name).unwrap();
        let panics = move || {
            let _broken = broken;
            std::panic::resume_unwind(Box::new("a panic of this test")) // prints no message
        };
        let ended: std::thread::Result<()> = std::thread::spawn(panics).join();
        assert!(ended.is_err());
    }
    let (_server, addr) = node.serve();
    let mut slow = TcpStream::connect(addr).unwrap();
    slow.write_all(b"GET /metrics HTTP/1.1\r\n\r\nGET /metrics HTTP/1.1\r\n\r\n").unwrap();
    let (mut text, mut bytes) = (Vec::new(), vec![0; 1 << 16]);
    while let Ok(read @ 1..) = slow.read(&mut bytes) {
        text.extend(&bytes[..read]);
        std::thread::sleep(Duration::from_millis(1));
    }
    let text = String::from_utf8(text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
    assert_eq!(body.matches("nn\"} 0\n").count(), 4);
    let mut long = TcpStream::connect(addr).unwrap();
    long.write_all(&[b'x'; 100_000]).unwrap();
    let mut text = String::new();
    long.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 431 "), "{text}");
    let mut head = TcpStream::connect(addr).unwrap();
    head.write_all(b"HEAD /none HTTP/1.1\r\n\r\n").unwrap();
    let mut text = String::new();
    head.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 404 ") && text.ends_with("\r\n\r\n"), "{text}");
    node.end();
}

/// Requests in quick succession share the figures of one collection.
#[test]
fn many_scrapes_do_not_burden_the_nodes() {
    let node = Node::start();
    let (_server, addr) = node.serve();
    let began = Instant::now();
    for _ in 0..200 {
        assert!(get(TcpStream::connect(addr).unwrap(), "/metrics", "*/*").contains("linerate_up"));
    }
    let most = 2 + began.elapsed().as_millis() as u64 / FRESH.as_millis() as u64;
    let served = node.end();
    assert!((1..=most).contains(&served), "{served} answers of the node, at most {most} expected");
}

#[test]
fn addresses_are_parsed() {
    for good in ["127.0.0.1:9273", "[::1]:9273", "unix:/tmp/m.sock"] {
        assert!(good.parse::<MetricsAddress>().is_ok(), "{good}");
    }
    for bad in ["", "9273", "localhost:9273", "127.0.0.1", "unix:", "127.0.0.1:99999"] {
        assert!(bad.parse::<MetricsAddress>().unwrap_err().to_string().contains("127.0.0.1:9273"), "{bad}");
    }
}
