//! Ports on UNIX sockets between processes: hosts, a bridge, pipelines, and a peer in Python that
//! implements QEMU's framing. No test needs a privilege.

use crate::common;
use crate::common::{Daemon, Dir, Running, has, has_all, isolated, kernel, linerate, printed, run, until};
use serde_json::Value;
use std::io::{Read, Write};
use std::process::Command;

/// Runs `linerate ping` in a running host, and returns whether all of three requests are answered.
fn pings(host: &Running, to: &str) -> bool {
    run(&mut linerate(&["ping", "--url", &host.url(), "-c", "3", "-i", "0.1", to])).status.success()
}

/// Returns the flags that `ip link` shows for the only Ethernet interface of the host.
fn flags(host: &Running) -> Vec<String> {
    let links = host.json("ip link");
    let of = |link: &&Value| link["link_type"] == "ether";
    let link = links.as_array().unwrap().iter().find(of).unwrap().clone();
    serde_json::from_value(link["flags"].clone()).unwrap()
}

fn has_carrier(host: &Running) -> bool {
    !flags(host).iter().any(|flag| flag == "NO-CARRIER")
}

#[test]
fn two_processes_transfer_bytes_over_tcp() {
    let dir = Dir::new("unix-tcp");
    let (server, client) = (format!("unix(server=on):{}", dir.path("s")), format!("unix:{}", dir.path("s")));
    let running = Running::start_as("unix-tcp", &["iperf3", "-s", "--port", &server, "--addr", "10.0.0.2/24"]);
    for reverse in [&["-n", "20M"][..], &["-R", "-n", "20M"]] {
        let words = [&["iperf3", "-c", "10.0.0.2", "-J", "--port", &client, "--addr", "10.0.0.1/24"], reverse].concat();
        let (code, out, err) = printed(&run(&mut linerate(&words)));
        assert_eq!(code, Some(0), "{out}{err}");
        let report: Value = serde_json::from_str(&out).unwrap();
        assert!(report["end"]["sum_received"]["bytes"].as_u64().unwrap() >= 15 << 20, "{report:#}");
    }
    running.end();
    assert_eq!(std::fs::read_dir(&dir.0).unwrap().count(), 0, "the socket file is removed");
}

/// The client is confined by its sandbox, and connects again to a server that replaces a dead one.
#[test]
fn a_host_connects_again_to_a_server_that_is_started_again() {
    let dir = Dir::new("unix-again");
    let (path, port) = (dir.path("s"), format!("impair(delay=1ms):unix(reconnect=100ms):{}", dir.path("s")));
    let client = Running::start("unix-a", &["--port", &port, "--addr", "10.0.0.1/24"]);
    assert!(!has_carrier(&client));
    let shown = client.json("show ports");
    assert!(shown[0]["link"] == "down" && shown[0]["warnings"][0].as_str().unwrap().contains("No such file"));
    assert!(client.ok("ifconfig").contains("status: no carrier"));
    let start = || {
        let port = format!("unix(server=on):{path}");
        Running::start("unix-b", &["--port", &port, "--addr", "10.0.0.2/24", "--mac", "02:00:00:00:00:0b"])
    };
    let server = start();
    until("the link is up", || has_carrier(&client));
    assert!(pings(&client, "10.0.0.2") && pings(&server, "10.0.0.1"));
    drop(server); // killed: its socket file stays
    until("the link is down", || !has_carrier(&client));
    assert!(std::path::Path::new(&path).exists());
    let server = start();
    until("the link is up again", || has_carrier(&client));
    assert!(pings(&client, "10.0.0.2") && pings(&server, "10.0.0.1"));
    server.end();
    client.end();
}

#[test]
fn a_bridge_and_hosts_use_ports_that_are_added_while_they_run() {
    let dir = Dir::new("unix-bridge");
    let (one, two) = (dir.path("1"), dir.path("2"));
    let first = format!("unix(server=on):{one}");
    let bridge = Running::start_as("unix-bridge", &["bridge", &first, "null:n"]);
    bridge.ok(&format!("ifconfig bridge0 addm unix(server=on):{two}"));
    let (local, remote) = (dir.path("l"), dir.path("r"));
    bridge.ok(&format!("ifconfig bridge0 addm unix(type=dgram,local={local}):{remote}"));
    let host = |name: &str, port: String, addr: &str| Running::start(name, &["--port", &port, "--addr", addr]);
    let a = host("unix-1", format!("unix(reconnect=50ms):{one}"), "10.0.0.1/24");
    let b = host("unix-2", format!("unix(reconnect=50ms):{two}"), "10.0.0.2/24");
    let c = host("unix-3", format!("unix(type=dgram,local={remote}):{local}"), "10.0.0.3/24");
    assert!(pings(&a, "10.0.0.2") && pings(&c, "10.0.0.1") && pings(&b, "10.0.0.3"));
    c.end();
    let state = |name: &str| {
        let links = bridge.json("ip link");
        let found = links.as_array().unwrap().iter().find(|link| link["ifname"] == name).unwrap().clone();
        found["operstate"].as_str().unwrap().to_owned()
    };
    drop(b);
    until("the link of the lost peer is down", || state(&two) == "DOWN");
    assert_eq!(state(&one), "UP");
    bridge.ok(&format!("ifconfig bridge0 deletem {two}"));
    until("the socket file is removed", || !std::path::Path::new(&two).exists());
    a.end();
    assert_eq!(bridge.interrupt().0, Some(0));
}

#[test]
fn a_running_host_opens_and_closes_a_port() {
    let dir = Dir::new("unix-live");
    let path = dir.path("s");
    let host = Running::start("unix-live", &["--port", "null:n", "--addr", "10.1.0.1/24"]);
    host.ok(&format!("ifconfig u1 create port unix(server=on):{path}"));
    host.ok("ifconfig u1 inet 10.0.0.2/24");
    let peer = Running::start("unix-peer", &["--port", &format!("unix:{path}"), "--addr", "10.0.0.3/24"]);
    assert!(pings(&host, "10.0.0.3"));
    host.ok("ifconfig u1 destroy");
    assert!(!std::path::Path::new(&path).exists());
    until("the link is down", || !has_carrier(&peer));
    peer.end();
    host.end();
}

#[test]
fn a_topology_file_joins_hosts_by_a_socket() {
    let dir = Dir::new("unix-up");
    let host = |name: &str, port: &str, n: u8| {
        format!("[[host]]\nname = \"{name}\"\n[[host.iface]]\nport = \"{port}\"\naddresses = [\"10.1.0.{n}/24\"]\n")
    };
    let text = host("a", "unix(reconnect=50ms):s", 1) + &host("b", "unix(server=on):s", 2);
    dir.file("net.toml", text);
    let line = "linerate up net.toml --control-dir ctl 2> err & for i in $(seq 200); do [ -S ctl/b.sock ] && break; \
                sleep 0.05; done; sleep 0.3; linerate ping --url ctl/a.sock -c 2 10.1.0.2; code=$?; kill -INT %1; wait; \
                exit $code";
    let (code, out, err) = printed(&run(&mut dir.bash(line)));
    assert_eq!(code, Some(0), "{out}{err}{}", dir.read("err"));
}

#[test]
fn pipelines_end_with_their_peer_and_lose_no_frame() {
    let dir = Dir::new("unix-pipe");
    let line = "linerate cat -c 500 'pktgen(size=100):' > sent; linerate put 'unix(server=on):s' < sent & put=$!; \
                for i in $(seq 200); do [ -S s ] && break; sleep 0.05; done; \
                linerate cat unix:s > got && wait $put && cmp sent got";
    let (code, out, err) = printed(&run(&mut dir.bash(line)));
    assert_eq!(code, Some(0), "{out}{err}");
    assert_eq!(dir.read("got").lines().count(), 500);
    common::refused(&format!("cat unix:{}", dir.path("none")), 1, "start the server first");
    let file = dir.file("file", "precious");
    common::refused(&format!("cat unix(server=on):{file}"), 1, "the file exists and is not a socket");
    common::refused(&format!("host --port unix(type=dgram):{file}"), 1, "type=dgram requires local=PATH");
}

#[test]
fn an_ordinary_user_joins_hosts_and_others_cannot_connect() {
    let id = run(Command::new("id").arg("-u"));
    if id.stdout != b"0\n" || !has("setpriv") {
        return println!("skipped: running as another user needs root and setpriv");
    }
    let dir = Dir::new("unix-user");
    std::fs::set_permissions(&dir.0, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    let line = "as='setpriv --clear-groups --bounding-set=-all --inh-caps=-all --reuid'; \
                $as 65534 linerate host --port 'unix(server=on):s' --addr 10.0.0.2/24 2> server & \
                for i in $(seq 200); do [ -S s ] && break; sleep 0.05; done; \
                $as 65533 linerate host --port unix:s --addr 10.0.0.3/24 2> other; \
                $as 65534 linerate host --port unix:s --addr 10.0.0.1/24 --control ./c 2> client & \
                for i in $(seq 200); do [ -S c ] && break; sleep 0.05; done; \
                $as 65534 linerate ping --url ./c -c 2 10.0.0.2; code=$?; kill -INT %1 %2; wait; exit $code";
    let (code, out, err) = printed(&run(&mut dir.bash(line)));
    assert_eq!(code, Some(0), "{out}{err} {} {}", dir.read("server"), dir.read("client"));
    assert!(dir.read("other").contains("connect: Permission denied"), "{}", dir.read("other"));
}

/// An independent implementation of the framing exchanges ARP with a host, on streams and datagrams.
const PEER: &str = r#"
import socket, struct, sys, time
kind, path, local = sys.argv[1:]
request = bytes.fromhex("ffffffffffff0200000000020806000108000604000102000000000 20a000002000000000000 0a000001".replace(" ", ""))
def exact(sock, n):
    data = b""
    while len(data) < n:
        part = sock.recv(n - len(data))
        if not part: sys.exit("end of stream")
        data += part
    return data
if kind == "stream":
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.connect(path)
    framed = struct.pack("!I", len(request)) + request
    send = lambda: [(sock.sendall(framed[i:i + 1]), time.sleep(0.001)) for i in range(len(framed))]
    receive = lambda: exact(sock, struct.unpack("!I", exact(sock, 4))[0])
else:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    sock.bind(local)
    send = lambda: sock.sendto(request, path)
    receive = lambda: sock.recv(65536)
sock.settimeout(60)
for _ in range(5):
    send()
    while True:
        frame = receive()
        if frame[12:14] == b"\x08\x06" and frame[20:22] == b"\x00\x02":
            assert frame[28:32] == bytes([10, 0, 0, 1]), frame
            break
"#;

#[test]
fn a_peer_in_python_exchanges_frames_with_a_host() {
    if !has_all("a_peer_in_python_exchanges_frames_with_a_host", &["python3"]) {
        return;
    }
    let dir = Dir::new("unix-python");
    let script = dir.file("peer.py", PEER);
    let (path, local) = (dir.path("s"), dir.path("peer"));
    for (kind, port) in
        [("stream", format!("unix(server=on):{path}")), ("dgram", format!("unix(type=dgram,local={path}):{local}"))]
    {
        let host = Running::start("unix-python", &["--port", &port, "--addr", "10.0.0.1/24"]);
        let (code, out, err) = printed(&run(Command::new("python3").args([&script, kind, &path, &local])));
        assert_eq!(code, Some(0), "{kind}: {out}{err}");
        until("the peer is gone", || !has_carrier(&host) || kind == "dgram");
        host.end();
    }
}

/// passt, an independent program, connects a host to a TCP server, and again after passt was started
/// again. Both run in a network namespace with an interface that has a route, which passt needs.
#[test]
fn passt_connects_a_host_to_a_server() {
    let test = "passt_connects_a_host_to_a_server";
    if !has_all(test, &["passt", "ip"]) {
        return;
    }
    isolated(test, || {
        kernel("link set lo up");
        kernel("link add v0 type veth peer name v1");
        kernel("link set v1 up");
        kernel("link set v0 up");
        kernel("addr add 198.51.100.1/24 dev v0");
        kernel("route add default via 198.51.100.2");
        connect_by_passt();
    });
}

fn connect_by_passt() {
    let dir = Dir::new("unix-passt");
    let path = dir.path("s");
    let is_root = run(Command::new("id").arg("-u")).stdout == b"0\n";
    let passt = || {
        let mut command = Command::new("passt");
        command.args(["-f", "-s", &path, "-a", "10.9.0.2", "-n", "24", "-g", "10.9.0.1"]);
        command.args(if is_root { &["--runas", "0"][..] } else { &[] });
        Daemon::start(&mut command)
    };
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://10.9.0.1:{}/", listener.local_addr().unwrap().port());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\nConnection: close\r\n\r\n";
            let _ = stream.write_all(&[&head[..], &[b'x'; 1_000_000]].concat());
            let _ = stream.read(&mut [0; 1]); // the client closes first
        }
    });
    let daemon = passt();
    let start = std::time::Instant::now();
    while std::os::unix::net::UnixStream::connect(&path).is_err() {
        assert!(start.elapsed().as_secs() < 10, "passt does not start");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let port = format!("unix(reconnect=100ms):{path}");
    let host = Running::start("unix-passt", &["--port", &port, "--addr", "10.9.0.2/24", "--route", "default,10.9.0.1"]);
    let fetches = || run(&mut linerate(&["http", "get", "--url", &host.url(), &url])).stdout.len() == 1_000_000;
    until("the link is up", || has_carrier(&host));
    assert!(fetches());
    daemon.terminate();
    until("the link is down", || !has_carrier(&host));
    let _ = std::fs::remove_file(&path);
    let _daemon = passt();
    until("the link is up again", || has_carrier(&host));
    assert!(fetches());
    host.end();
}
