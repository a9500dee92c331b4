//! `linerate kvd` with stock clients on the kernel's side of a TAP device: redis-benchmark and
//! redis-cli (Debian's redis-tools).
//!
//! The tests run in their own network namespace, as in `serve.rs`. Every host's audit must account
//! for all frames at its end.

use crate::common::{Running, has, isolated, linerate, run};
use port::os::netlink::Netlink;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

fn start(words: &[&str]) -> Running {
    let served = Running::start_as(words[0], &[words, &["--port", "tap:tap0", "--addr", "10.0.0.2/24"]].concat());
    let mut netlink = Netlink::open().unwrap();
    netlink.set_up("lo").unwrap();
    netlink.set_up("tap0").unwrap();
    netlink.add_addr("tap0", Ipv4Addr::new(10, 0, 0, 1), 24).unwrap();
    served
}

fn end(served: Running) {
    let counters = served.json("netstat -s");
    assert_eq!(counters.get("inet.tcp.bad_checksum"), None, "{counters}");
    let (code, out, err) = served.interrupt();
    assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
    assert!(out.contains("imbalance           0\n"), "{out}");
}

fn is_there(tool: &str, test: &str) -> bool {
    let found = has(tool);
    if !found {
        println!("skipped: {test}: {tool} is not installed");
    }
    found
}

/// Returns the lines that redis-cli prints.
fn cli(words: &[&str]) -> Vec<String> {
    let output = run(Command::new("redis-cli").args(["-h", "10.0.0.2"]).args(words));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{words:?}: {text}");
    text.lines().map(str::to_owned).collect()
}

#[test]
fn redis_benchmark_runs_its_tests() {
    isolated("redis_benchmark_runs_its_tests", || {
        if !is_there("redis-benchmark", "redis-benchmark") {
            return;
        }
        let served = start(&["kvd"]);
        let tests = "ping,set,get,incr,lpush,rpush,lpop,rpop,sadd,hset,spop,zadd,zpopmin,lrange,mset";
        for (depth, more) in [("1", &[][..]), ("16", &["-r", "1000"]), ("16", &["-3"])] {
            let words = ["-h", "10.0.0.2", "-t", tests, "-n", "2000", "-c", "20", "-P", depth, "--csv"];
            let output = run(Command::new("redis-benchmark").args(words).args(more));
            let printed = String::from_utf8_lossy(&output.stdout).into_owned();
            let errors = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success() && errors.is_empty(), "{printed}{errors}");
            println!("-P {depth}:\n{printed}");
            // A title line, and a row per test: PING is two tests, and LRANGE is four and one that
            // fills its list.
            let rows: Vec<&str> = printed.lines().filter(|line| line.starts_with('"')).skip(1).collect();
            assert_eq!(rows.len(), 20, "{printed}");
            for row in rows {
                let rate: f64 = row.split(',').nth(1).unwrap().trim_matches('"').parse().unwrap();
                assert!(rate > 100.0, "{row}");
            }
        }
        end(served);
    });
}

#[test]
fn redis_cli_gets_replies() {
    isolated("redis_cli_gets_replies", || {
        if !is_there("redis-cli", "redis-cli") {
            return;
        }
        let served = start(&["kvd", "--memory", "1", "-p", "7000"]);
        let cli = |words: &[&str]| cli(&[&["-p", "7000"], words].concat());
        assert_eq!(cli(&["ping"]), ["PONG"]);
        assert_eq!(cli(&["set", "a", "one two", "ex", "100"]), ["OK"]);
        assert_eq!(cli(&["get", "a"]), ["one two"]);
        assert_eq!(cli(&["ttl", "a"]), ["100"]);
        assert_eq!(cli(&["rpush", "l", "x", "y", "z"]), ["3"]);
        assert_eq!(cli(&["lrange", "l", "0", "-1"]), ["x", "y", "z"]);
        assert_eq!(cli(&["hset", "h", "f", "v"]), ["1"]);
        assert_eq!(cli(&["incr", "l"])[0], "WRONGTYPE Operation against a key holding the wrong kind of value");
        assert_eq!(cli(&["dbsize"]), ["3"]);
        assert!(cli(&["info", "server"]).iter().any(|line| line.starts_with("server:linerate")));
        // With RESP3, redis-cli prints doubles and maps as their own types.
        assert_eq!(cli(&["-3", "ping"]), ["PONG"]);
        assert_eq!(cli(&["zadd", "z", "1.5", "m"]), ["1"]);
        assert_eq!(cli(&["-3", "--no-raw", "zscore", "z", "m"]), ["(double) 1.5"]);
        assert_eq!(cli(&["-3", "--no-raw", "hgetall", "h"]), ["1# \"f\" => \"v\""]);
        assert_eq!(cli(&["-3", "--no-raw", "get", "none"]), ["(nil)"]);
        assert_eq!(cli(&["hello", "9"])[0], "NOPROTO unsupported protocol version");
        // Transactions in one connection, iteration over keys by cursor, and errors for unknown
        // commands.
        let script = "multi\nincr n\nlrange l 0 0\nexec\n";
        let mut command = Command::new("sh");
        command.args(["-c", &format!("printf '{script}' | redis-cli -h 10.0.0.2 -p 7000")]);
        let printed = String::from_utf8_lossy(&run(&mut command).stdout).into_owned();
        assert_eq!(printed, "OK\nQUEUED\nQUEUED\n1\nx\n");
        let mut names = cli(&["--scan", "--pattern", "[alh]"]);
        names.sort();
        assert_eq!(names, ["a", "h", "l"]);
        assert!(cli(&["--bigkeys"]).iter().any(|line| line.starts_with("Biggest   list found")));
        assert_eq!(cli(&["nonsense", "x"])[0], "ERR unknown command 'nonsense', with args beginning with: 'x' ");
        assert_eq!(cli(&["del", "n", "z"]), ["2"]);
        let text = "x".repeat(100_000);
        let mut answers: Vec<_> = (0..20).map(|n| cli(&["set", &format!("k{n}"), &text])).collect();
        let last = answers.pop().unwrap();
        assert_eq!(last[0], "OOM command not allowed when used memory > 'maxmemory'.");
        assert_eq!(cli(&["flushall"]), ["OK"]);
        end(served);
    });
}

/// Returns a request as an array of bulk strings, the form in which memtier_benchmark sends all
/// requests (protocol.cpp).
fn request(words: &str) -> String {
    let words: Vec<&str> = words.split(' ').collect();
    words.iter().fold(format!("*{}\r\n", words.len()), |all, word| format!("{all}${}\r\n{word}\r\n", word.len()))
}

/// Sends `setup` in one write, then `traffic` in one write, on a new connection. Returns all
/// replies, with `|` for CR LF.
fn replies(at: SocketAddr, setup: &[&str], traffic: &[&str]) -> String {
    let mut client = TcpStream::connect_timeout(&at, Duration::from_secs(10)).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let mut all = String::new();
    for lines in [setup, traffic] {
        let text: String = lines.iter().map(|line| request(line)).collect();
        client.write_all((text + &request("PING end")).as_bytes()).unwrap();
        let mut heard = Vec::new();
        while !heard.ends_with(b"$3\r\nend\r\n") {
            let mut some = [0; 4096];
            let n = client.read(&mut some).unwrap();
            assert!(n > 0, "the end of {}", heard.escape_ascii());
            heard.extend_from_slice(&some[..n]);
        }
        all += &String::from_utf8(heard).unwrap().replace("$3\r\nend\r\n", "");
    }
    all.replace("\r\n", "|")
}

/// Replaces the fields of the reply to HELLO that differ between servers by `?`: name, version and
/// client number.
fn anonymous(replies: &str) -> String {
    let mut words: Vec<&str> = replies.split('|').collect();
    for (name, len) in [("server", 2), ("version", 2), ("id", 1)] {
        let at = words.iter().position(|word| *word == name).unwrap_or_else(|| panic!("no {name}: {replies}"));
        words.splice(at + 1..=at + len, ["?"]);
    }
    words.join("|")
}

/// The requests that memtier_benchmark sends on each connection (shard_connection.cpp,
/// send_conn_setup_commands): AUTH by `--authenticate`, HELLO by `--protocol=resp2` or `resp3`,
/// then SETs and GETs in a pipeline. The replies must be those of redis 7.0.15, byte for byte
/// except for the server's name and numbers. If redis-server is installed, its replies are
/// compared, too.
#[test]
fn memtiers_first_requests_get_the_replies_of_redis() {
    isolated("memtiers_first_requests_get_the_replies_of_redis", || {
        let served = start(&["kvd"]);
        let redis = has("redis-server").then(|| {
            let words = ["--port", "6390", "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", "/tmp"];
            Stock(Command::new("redis-server").args(words).stdout(Stdio::null()).spawn().unwrap())
        });
        let stock = SocketAddr::from((Ipv4Addr::LOCALHOST, 6390));
        if redis.is_some() {
            let is_up = (0..1_000).any(|_| {
                std::thread::sleep(Duration::from_millis(20));
                TcpStream::connect(stock).is_ok()
            });
            assert!(is_up, "redis-server listens");
        } else {
            println!("redis-server is not installed: compared with its recorded replies alone");
        }
        let value = "x".repeat(32);
        let set = format!("SET memtier-1 {value}");
        let traffic = [&set, "GET memtier-1", "GET memtier-2", "GET memtier-1", "GET memtier-3"];
        let hello = |head: &str, version: u8| {
            format!(
                "{head}|$6|server|?|$7|version|?|$5|proto|:{version}|$2|id|?|$4|mode|$10|standalone|$4|role|$6|master|\
                 $7|modules|*0|"
            )
        };
        let found = |nil: &str| format!("+OK|$32|{value}|{nil}|$32|{value}|{nil}|");
        let (two, three) = (hello("*14", 2) + &found("$-1"), hello("%7", 3) + &found("_"));
        let no_password = "-ERR AUTH <password> called without any password configured for the default user. Are you sure \
                           your configuration is correct?|";
        for (setup, expected) in [
            (&["HELLO 2"][..], two.clone()),
            (&["HELLO 3"], three.clone()),
            // First with --authenticate=secret, then with --authenticate=USER:secret.
            (&["AUTH secret", "HELLO 3"], no_password.to_owned() + &three),
            (&["AUTH default secret", "HELLO 2"], "+OK|".to_owned() + &two),
            (&["AUTH default secret", "SELECT 0", "HELLO 3"], "+OK|+OK|".to_owned() + &three),
            (
                &["AUTH other secret", "HELLO 2"],
                "-WRONGPASS invalid username-password pair or user is disabled.|".to_owned() + &two,
            ),
        ] {
            let ours = replies(SocketAddr::from((Ipv4Addr::new(10, 0, 0, 2), 6379)), setup, &traffic);
            assert_eq!(anonymous(&ours), expected, "{setup:?}");
            if redis.is_some() {
                assert_eq!(anonymous(&replies(stock, setup, &traffic)), expected, "redis-server: {setup:?}");
            }
        }
        drop(redis);
        end(served);
    });
}

/// A redis-server of one test, which is ended with the test.
struct Stock(Child);

impl Drop for Stock {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn garbage_closes_only_its_own_connection() {
    isolated("garbage_closes_only_its_own_connection", || {
        let served = start(&["kvd"]);
        let connect = || {
            let at = SocketAddr::from((Ipv4Addr::new(10, 0, 0, 2), 6379));
            let client = TcpStream::connect_timeout(&at, Duration::from_secs(5)).unwrap();
            client.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            client
        };
        let mut other = connect();
        let mut word = 0x9e37_79b9_7f4a_7c15_u64;
        for round in 0..50 {
            let mut junk = match round % 3 {
                0 => b"*3\r\n$3\r\nSET\r\n$1\r\n".to_vec(),
                1 => b"*2147483647\r\n".to_vec(),
                _ => Vec::new(),
            };
            for _ in 0..2000 {
                word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                junk.push((word >> 56) as u8);
            }
            let mut client = connect();
            // The server may close the connection while the client sends.
            let printed = client.write_all(&junk);
            let mut heard = Vec::new();
            if round % 3 < 2 {
                // No request can follow. The server sends the reason and closes the connection.
                let end = client.read_to_end(&mut heard);
                assert!(end.is_ok(), "round {round}: {end:?} behind {}", heard.escape_ascii());
                let last = heard.split_inclusive(|byte| *byte == b'\n').next_back().unwrap_or_default();
                assert!(last.starts_with(b"-ERR Protocol error: "), "round {round}: {}", heard.escape_ascii());
            } else {
                let _ = printed.and_then(|()| client.shutdown(Shutdown::Write));
                let _ = client.read_to_end(&mut heard);
            }
            other.write_all(b"PING\r\n").unwrap();
            let mut pong = [0; 7];
            other.read_exact(&mut pong).unwrap();
            assert_eq!(&pong, b"+PONG\r\n", "round {round}");
        }
        drop(other);
        end(served);
    });
}

#[test]
fn connections_per_peer_are_limited() {
    isolated("connections_per_peer_are_limited", || {
        let served = start(&["kvd", "--per-peer", "2"]);
        let at = SocketAddr::from((Ipv4Addr::new(10, 0, 0, 2), 6379));
        let mut clients: Vec<TcpStream> =
            (0..3).map(|_| TcpStream::connect_timeout(&at, Duration::from_secs(5)).unwrap()).collect();
        let mut printed = String::new();
        clients[2].read_to_string(&mut printed).unwrap();
        assert_eq!(printed, "-ERR max number of clients reached\r\n");
        clients[0].write_all(b"PING\r\n").unwrap();
        let mut pong = [0; 7];
        clients[0].read_exact(&mut pong).unwrap();
        assert_eq!(&pong, b"+PONG\r\n");
        drop(clients);
        end(served);
    });
}

#[test]
fn load_generators_run_in_each_placement() {
    for place in ["pair", "pair --threads", "nic", "router", "native", "native --threads"] {
        for (load, kind) in [("kvload -n 1000", "GET"), ("fileload -n 100", "GETATTR")] {
            let line = format!("{load} -l 0.1 -c 3 -P 2 -j --over {place}");
            let output = run(&mut linerate(&line.split_whitespace().collect::<Vec<_>>()));
            let printed = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(output.status.success(), "{line}: {printed}{}", String::from_utf8_lossy(&output.stderr));
            let json: serde_json::Value = serde_json::from_str(&printed).unwrap();
            // On a busy machine few requests are answered in a tenth of a second: at least one per
            // slot of each client.
            assert!(json["times"]["all"]["requests"].as_u64() >= Some(6), "{line}: {json}");
            assert!(json["times"][kind]["p99_us"].as_f64() > Some(0.0), "{line}: {json}");
        }
    }
    for (line, why) in [
        ("kvload --zipf 1", "from 0 to below 1"),
        ("kvload -c 513", "513"),
        ("kvload -H 10.0.0.9", "-H: requires --over native or --port"),
        ("kvd --memory 0", "0"),
    ] {
        let output = run(&mut linerate(&line.split_whitespace().collect::<Vec<_>>()));
        let printed = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && printed.contains(why), "{line}: {printed}");
    }
}

#[test]
fn a_file_service_serves_an_external_client() {
    isolated("a_file_service_serves_an_external_client", || {
        let served = start(&["filed"]);
        let line = ["fileload", "-l", "0.3", "-n", "50", "-c", "4", "-H", "10.0.0.2", "--over", "native"];
        let output = run(&mut linerate(&line));
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
        assert!(printed.contains("50 files of 32 KiB, 8 KiB at a time; 4 clients"), "{printed}");
        end(served);
    });
}

#[test]
fn a_database_serves_clients_over_tap() {
    isolated("a_database_serves_clients_over_tap", || {
        for from in ["ours", "kernel"] {
            let output = run(&mut linerate(&["kvload", "-l", "0.2", "-n", "500", "--over", "tap", "--from", from]));
            let printed = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
            let settings = "500 keys (Zipf 0.99), values of 100 bytes; 8 clients, 1 in flight each\n";
            assert!(printed.contains(settings), "{printed}");
        }
    });
}
