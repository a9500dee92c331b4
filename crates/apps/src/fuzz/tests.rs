use super::*;
use std::fs;
use std::path::PathBuf;

/// Builder of a fuzz input.
struct Tape(Vec<u8>);

impl Tape {
    fn new(seed: u8) -> Tape {
        Tape(vec![seed])
    }

    fn event(mut self, what: u8, client: u8, len: u8) -> Tape {
        self.0.extend([what | client << 3, len]);
        self
    }

    fn send(mut self, client: u8, bytes: &[u8]) -> Tape {
        for part in bytes.chunks(255) {
            self.0.extend([1 | client << 3, part.len() as u8]);
            self.0.extend(part);
        }
        self
    }
}

impl Tape {
    fn bytes(mut self, bytes: &[u8]) -> Tape {
        self.0.extend(bytes);
        self
    }
}

type Seeds = Vec<(&'static str, Vec<u8>)>;

fn ftp_seeds() -> Seeds {
    let login = |seed| Tape::new(seed).send(0, b"USER ftp\r\nPASS x\r\nTYPE I\r\n");
    vec![
        ("passive", login(0).send(0, b"PASV\r\nRETR /a\r\n").event(6, 0, 0).event(3, 1, 255).event(3, 0, 255).0),
        ("early", login(8).send(0, b"EPSV\r\n").event(6, 0, 0).send(0, b"LIST\r\n").event(3, 1, 9).0),
        (
            "active",
            login(2)
                .send(0, b"EPRT |1|1.0.0.2|50000|\r\nRETR /dev/zero\r\n")
                .event(7, 0, 0)
                .event(3, 1, 99)
                .send(0, b"ABOR\r\n")
                .0,
        ),
        ("refused", login(0).send(0, b"PORT 1,0,0,2,4,0\r\nRETR /a\r\n").event(7, 0, 0).event(5, 0, 255).0),
        ("bounce", login(0).send(0, b"PORT 1,0,0,9,200,1\r\nEPRT |1|1.0.0.2|25|\r\nRETR /a\r\n").0),
        ("theft", login(6).send(0, b"PASV\r\nRETR /d/index.html\r\n").event(6, 0, 1).event(6, 0, 0).event(3, 2, 255).0),
        ("store", login(4).send(0, b"EPSV\r\nSTOR /dev/null\r\n").event(6, 0, 0).send(1, &[7; 900]).event(4, 1, 0).0),
        ("stall", login(0).send(0, b"EPSV\r\nRETR /dev/zero\r\n").event(6, 0, 0).event(5, 0, 255).event(5, 0, 255).0),
        ("text", login(0).send(0, b"TYPE A\r\nEPSV\r\nRETR /a\r\n").event(6, 0, 0).event(3, 1, 255).0),
        (
            "names",
            login(0)
                .send(0, b"CWD d\r\nPWD\r\nCDUP\r\nCDUP\r\nSIZE /a\r\nMDTM a\r\nREST 5\r\nRETR ../../x\r\nNLST -la\r\n")
                .0,
        ),
        (
            "patterns",
            login(0)
                .send(0, b"STAT /[ad]*\r\nMLST a\r\nOPTS MLST size;\r\nEPSV\r\nNLST /d/*[!x].h?ml\r\n")
                .event(6, 0, 0)
                .event(3, 1, 255)
                .0,
        ),
        (
            "changes",
            login(0).send(0, b"MKD x\r\nRNFR a\r\nRNTO b\r\nDELE a\r\nRMD d\r\nEPSV\r\nAPPE /dev/null\r\nMLSD\r\n").0,
        ),
        ("telnet", login(0).send(0, b"\xff\xf4\xff\xf2ABOR\r\n\xff\xfb\x01NO\xff\xffOP\r\nQUIT\r\n").0),
        (
            "endless",
            Tape::new(0)
                .send(0, &[b'x'; 2_500])
                .event(5, 0, 255)
                .event(0, 0, 0)
                .event(0, 0, 0)
                .event(0, 0, 0)
                .event(0, 0, 0)
                .0,
        ),
        ("half_close", login(0).send(0, b"EPSV\r\nRETR /a\r\n").event(4, 0, 0).event(6, 0, 0).event(3, 1, 255).0),
        ("deaf", login(0).send(0, &b"HELP\r\n".repeat(100)).event(5, 0, 255).0),
    ]
}

fn http_seeds() -> Seeds {
    let get =
        |seed, rest: &[u8]| Tape::new(seed).send(0, &[&b"GET /a HTTP/1.1\r\nHost: a\r\n"[..], rest, b"\r\n"].concat());
    vec![
        ("get", get(0, b"").event(3, 0, 255).0),
        (
            "pipelined",
            get(8, b"")
                .send(0, b"HEAD /a HTTP/1.1\r\nHost:a\r\n\r\nGET /d/ HTTP/1.1\r\nHost: a\r\n\r\n")
                .event(3, 0, 255)
                .event(3, 0, 255)
                .0,
        ),
        ("ranges", get(0, b"Range: bytes=2-4\r\nIf-Range: \"x\"\r\n").0),
        ("conditions", get(0, b"If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\nIf-None-Match: W/\"a\", *\r\n").0),
        ("smuggler", get(0, b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n").send(0, b"0\r\n\r\nGET /x").0),
        ("bare_lf", Tape::new(0).send(0, b"GET / HTTP/1.1\nHost: a\n\n").0),
        ("folded", get(0, b"X: a\r\n b\r\n").0),
        ("body", get(4, b"Content-Length: 300\r\n").send(0, &[b'x'; 310]).event(3, 0, 255).0),
        ("expect", get(0, b"Content-Length: 3\r\nExpect: 100-continue\r\n").send(0, b"abc").0),
        (
            "zeros",
            Tape::new(2)
                .send(0, b"GET /dev/zero?bytes=9000 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
                .event(3, 0, 200)
                .event(3, 0, 200)
                .0,
        ),
        (
            "endless",
            Tape::new(0)
                .send(0, b"GET http://a/dev/zero HTTP/1.1\r\nHost: a\r\n\r\n")
                .event(3, 0, 255)
                .event(5, 0, 255)
                .0,
        ),
        ("slow_head", Tape::new(0).send(0, b"GET / HT").event(5, 0, 40).send(0, b"TP/1.1\r\n").event(5, 0, 40).0),
        (
            "paths",
            Tape::new(0).send(0, b"GET /d HTTP/1.1\r\nHost: a\r\n\r\nGET /%2e%2e/a%2fb HTTP/1.1\r\nHost: a\r\n\r\n").0,
        ),
        ("storm", (0..8).fold(Tape::new(0), |tape, n| tape.event(0, 0, n).send(n, b"GET / HTTP/2.0\r\n\r\n")).0),
        ("half_close", get(0, b"").event(4, 0, 0).event(3, 0, 255).0),
    ]
}

fn framed(json: &str) -> Vec<u8> {
    [&(json.len() as u32).to_be_bytes()[..], json.as_bytes()].concat()
}

fn iperf3_seeds() -> Seeds {
    let cookie = *b"abcdefghijklmnopqrstuvwxyz0123456789\0";
    let begin = |seed, json: &str| Tape::new(seed).send(0, &cookie).send(0, &framed(json)).event(3, 0, 1);
    let results = framed(
        r#"{"cpu_util_total":1,"cpu_util_user":1,"cpu_util_system":0,"sender_has_retransmits":1,"streams":[{"id":1,"bytes":700,"retransmits":0,"jitter":0,"errors":0,"packets":0,"start_time":0,"end_time":1}]}"#,
    );
    let hello = |tape: Tape, client: u8, hello: &[u8]| tape.event(2, client, 4).bytes(hello);
    let tcp = r#"{"tcp":true,"omit":0,"time":1,"num":0,"blockcount":0,"parallel":1,"len":700}"#;
    vec![
        (
            "upload",
            begin(1, tcp)
                .event(0, 0, 0)
                .send(1, &cookie)
                .send(1, &[7; 700])
                .event(5, 0, 5)
                .send(0, &[4])
                .send(0, &results)
                .event(3, 0, 255)
                .send(0, &[16])
                .0,
        ),
        (
            "download",
            begin(0, r#"{"tcp":true,"time":1,"reverse":true,"len":1000,"bandwidth":80000,"get_server_output":1}"#)
                .event(0, 0, 0)
                .send(1, &cookie)
                .event(3, 1, 255)
                .event(5, 0, 9)
                .event(3, 1, 255)
                .send(0, &[4])
                .send(0, &results)
                .0,
        ),
        (
            "bidir",
            begin(6, r#"{"tcp":true,"time":1,"omit":1,"bidirectional":true,"parallel":2}"#)
                .event(0, 0, 0)
                .send(1, &cookie)
                .event(0, 0, 0)
                .send(2, &cookie)
                .event(0, 0, 0)
                .send(3, &cookie)
                .event(0, 0, 0)
                .send(4, &cookie)
                .event(5, 0, 9)
                .0,
        ),
        ("denied", begin(0, tcp).event(0, 0, 0).send(1, b"Abcdefghijklmnopqrstuvwxyz0123456789\0").event(3, 1, 1).0),
        ("udp", begin(0, r#"{"udp":true}"#).event(3, 0, 1).0),
        (
            "datagrams",
            hello(begin(1, r#"{"udp":true,"time":1,"len":16,"bandwidth":1000000}"#), 0, b"9876")
                .event(2, 0, 16)
                .bytes(&[0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0])
                .event(2, 0, 4)
                .bytes(b"9876") // the reply was lost
                .event(2, 7, 4)
                .bytes(b"9876")
                .event(2, 16, 4)
                .bytes(b"9876") // stray datagrams
                .event(5, 0, 5)
                .send(0, &[4])
                .send(0, &results)
                .event(3, 0, 255)
                .send(0, &[16])
                .0,
        ),
        (
            "datagrams_down",
            hello(
                hello(begin(6, r#"{"udp":true,"time":1,"reverse":true,"len":500,"parallel":2}"#), 0, b"9876"),
                1,
                &123_456_789u32.to_le_bytes(),
            )
            .event(3, 0, 255)
            .event(5, 0, 5)
            .event(3, 0, 255)
            .event(5, 0, 5)
            .send(0, &[4])
            .0,
        ),
        (
            // Two UDP streams of one client address; the second waits until the first is connected.
            "datagrams_turn",
            begin(0, r#"{"udp":true,"time":1,"len":16,"bandwidth":100000,"bidirectional":true}"#)
                .event(0, 0, 0)
                .send(1, b"Abcdefghijklmnopqrstuvwxyz0123456789\0")
                .send(1, &framed(r#"{"udp":true,"time":1,"len":16}"#))
                .event(2, 0, 4)
                .bytes(b"9876")
                .event(2, 1, 4)
                .bytes(b"9876")
                .event(3, 1, 9)
                .event(2, 2, 4)
                .bytes(b"9876")
                .event(5, 0, 9)
                .event(4, 0, 1)
                .event(5, 0, 255)
                .0,
        ),
        (
            "sums",
            begin(1, r#"{"tcp":true,"time":1,"parallel":2}"#)
                .event(0, 0, 0)
                .send(1, &cookie)
                .event(0, 0, 0)
                .send(2, &cookie)
                .event(5, 0, 5)
                .send(0, &[4])
                .send(0, &framed(r#"{"cpu_util_total":1,"cpu_util_user":1,"cpu_util_system":0,"streams":[{"id":1,"bytes":18446744073709551615},{"id":3,"bytes":18446744073709551615}]}"#))
                .0,
        ),
        ("nonsense", begin(0, "[1,2").0),
        ("too_long", Tape::new(0).send(0, &cookie).send(0, &[0xff; 8]).0),
        ("silent", Tape::new(0).send(0, b"abc").event(5, 0, 255).0),
        ("terminated", begin(1, tcp).send(0, &[12]).0),
        ("wrong_state", begin(0, tcp).send(0, &[4]).0),
        ("held", begin(0, tcp).event(0, 0, 0).send(1, &cookie).event(5, 0, 255).event(5, 0, 255).0),
        ("numbers", begin(0, r#"{"tcp":true,"time":-1,"parallel":1e3,"len":0.5,"num":1e300}"#).0),
    ]
}

fn iperf3_client_seeds() -> Seeds {
    let results = framed(
        r#"{"cpu_util_total":1,"cpu_util_user":1,"cpu_util_system":0,"sender_has_retransmits":1,"streams":[{"id":1,"bytes":700,"retransmits":0,"jitter":0.001,"errors":1,"packets":9,"start_time":0,"end_time":1}]}"#,
    );
    // The flags byte, then the server's bytes on the control connection (connection 0).
    let begin = |flags: u8| Tape(vec![flags]).send(0, &[9]).send(0, &[10]);
    let end = |tape: Tape| tape.event(5, 0, 120).send(0, &[13]).send(0, &results).send(0, &[14]).event(3, 0, 255);
    let streams = |tape: Tape| tape.event(3, 1, 1).event(3, 2, 1).send(0, &[1, 2]);
    let hello = |tape: Tape| tape.event(2, 0, 4).bytes(b"6789").event(2, 0, 4).bytes(b"6789").send(0, &[1, 2]);
    vec![
        ("upload", end(streams(begin(0))).0),
        ("download", end(streams(begin(2)).event(0, 1, 3).bytes(b"abc")).0),
        ("bidir_json", end(streams(begin(4 + 32))).0),
        ("latency", end(streams(begin(16)).event(0, 3, 1).bytes(&[255])).0),
        ("datagrams", end(hello(begin(1))).0),
        ("datagrams_down", end(hello(begin(3)).event(2, 0, 16).bytes(&[0; 16])).0),
        ("busy", Tape(vec![0]).send(0, &[255]).0),
        ("error", Tape(vec![0]).send(0, &[9, 254, 0, 0, 0, 6, 0, 0, 0, 0]).0),
        ("too_long", streams(begin(8)).event(5, 0, 120).send(0, &[13, 0xff, 0xff, 0xff, 0xff]).0),
        ("gone", streams(begin(0)).event(4, 1, 1).event(4, 2, 1).event(5, 0, 200).0),
        ("silent", begin(0).event(5, 0, 255).0),
    ]
}

fn kv_seeds() -> Seeds {
    let array = |words: &[&str]| {
        let bulk = |word: &&str| format!("${}\r\n{word}\r\n", word.len());
        format!("*{}\r\n{}", words.len(), words.iter().map(bulk).collect::<String>()).into_bytes()
    };
    let say = |seed, lines: &str| Tape::new(seed).send(0, lines.replace('|', "\r\n").as_bytes());
    vec![
        (
            "texts",
            say(0, "SET a 1 EX 5|APPEND a 23|INCRBY a -7|MSET b x c y|MGET a b c|STRLEN a|GETX|").event(3, 0, 9).0,
        ),
        (
            "arrays",
            Tape::new(6).send(0, &array(&["SET", "a", "b\r\nc"])).send(0, &array(&["GET", "a"])).event(3, 0, 1).0,
        ),
        (
            "lists",
            say(0, "LPUSH l a b c|RPUSH l d|LRANGE l 0 -2|LPOP l 2|RPOP l|LLEN l|LPOP l|LPOP l|").event(3, 0, 9).0,
        ),
        ("members", say(2, "SADD s a b|SPOP s|HSET h a 1 b 2|HGETALL h|ZADD z 1 a -inf b|ZPOPMIN z 2|SPOP s 9|").0),
        (
            "time",
            say(0, "SET a 1 PX 9|SET b 1 EX 60|EXPIRE b 30|TTL b|PERSIST b|DBSIZE|")
                .event(5, 0, 1)
                .send(0, b"KEYS\r\n")
                .0,
        ),
        (
            "asked",
            say(0, "INFO|COMMAND|CONFIG GET *|SELECT 0|CLIENT SETNAME x|PING|ECHO \"\\x41\"|QUIT|").event(3, 0, 255).0,
        ),
        (
            "full",
            (0..9).fold(Tape::new(0), |tape, n| tape.send(0, &array(&["SET", &n.to_string(), &"x".repeat(5_000)]))).0,
        ),
        (
            "deaf",
            say(0, "SET a xxxxxxxxxxxxxxxxxxxxxxxxxxxxx|")
                .send(0, &b"MGET a a a a a a a a a a a a a a\r\n".repeat(400))
                .0,
        ),
        ("too_long", Tape::new(0).send(0, b"*2\r\n$9999\r\nabc").event(5, 0, 255).event(5, 0, 255).0),
        ("no_array", Tape::new(0).send(0, b"*2\r\n$3\r\nGET\r\n:1\r\n").event(3, 0, 9).0),
        ("no_count", Tape::new(0).send(0, b"*-2147483648\r\n*2147483647\r\n").event(3, 0, 9).0),
        ("quotes", say(4, "SET 'a b' \"c\\n\\xff\\\"|GET 'a b|").0),
        ("browser", say(0, "POST / HTTP/1.1|Host: a||FLUSHALL|").0),
        ("half_close", say(0, "PING|GET a").event(4, 0, 0).event(3, 0, 255).0),
        ("storm", (0..8).fold(Tape::new(0), |tape, n| tape.event(0, 0, n).send(n, b"INCR a\r\n")).0),
        ("exactly_full", (0..52).fold(Tape::new(0), |tape, n| tape.send(0, format!("INCR {n}\r\n").as_bytes())).0),
        (
            "growing",
            (0..9)
                .fold(Tape::new(0), |tape, n| {
                    tape.send(0, &array(&["APPEND", if n % 2 > 0 { "a" } else { "b" }, &"x".repeat(2_500)]))
                })
                .0,
        ),
        ("hello", say(0, "HELLO 3 SETNAME a AUTH default b|GET a|HGETALL a|INFO|CLIENT LIST|HELLO 2|HELLO 9|RESET|").0),
        (
            "transactions",
            say(1, "WATCH a|MULTI|INCR a|LPUSH a x|EXEC|MULTI|GETX|EXEC|WATCH a b|")
                .send(1, b"SET a 1\r\nMULTI\r\nGET a\r\n")
                .send(0, b"MULTI\r\nGET a\r\nEXEC\r\n")
                .event(4, 1, 0)
                .0,
        ),
        (
            "patterns",
            say(
                0,
                "MSET aa 1 ab 2 b 3|KEYS *[^b]|SCAN 0 MATCH a* COUNT 1 TYPE string|SCAN 2|ZADD z 1 a 2 b|ZSCAN z 0|",
            )
            .send(0, b"ZRANGE z (1 +inf BYSCORE REV LIMIT 0 -1 WITHSCORES\r\nKEYS *a*a*[b-\r\n")
            .0,
        ),
        ("replies", Tape(b"*2\r\n*1\r\n:1\r\n$3\r\nabc\r\n-ERR\r\n$-1\r\n".to_vec()).0),
    ]
}

fn filed_seeds() -> Seeds {
    use crate::filed::proto::{Kind, Op, ROOT, ask};
    let say = |seed, ops: &[Op<'_>]| {
        let mut bytes = Vec::new();
        ops.iter().zip(1..).for_each(|(op, number)| ask(&mut bytes, number, op));
        Tape::new(seed).send(0, &bytes)
    };
    let (file, dir) = (ROOT + 1, ROOT + 2);
    vec![
        (
            "life",
            say(
                0,
                &[
                    Op::Create(ROOT, Kind::File, b"a"),
                    Op::Write(file, 5, b"hello"),
                    Op::Read(file, 0, 100),
                    Op::GetAttr(file),
                    Op::Lookup(ROOT, b"a"),
                    Op::Remove(ROOT, b"a"),
                    Op::GetAttr(file),
                ],
            )
            .event(3, 0, 9)
            .0,
        ),
        (
            "directories",
            say(
                6,
                &[
                    Op::Create(ROOT, Kind::File, b"a"),
                    Op::Create(ROOT, Kind::Directory, b"d"),
                    Op::Create(dir, Kind::File, b"f"),
                    Op::Remove(ROOT, b"d"),
                    Op::Lookup(dir, b"f"),
                    Op::Lookup(file, b"f"),
                ],
            )
            .event(3, 0, 9)
            .0,
        ),
        (
            "full",
            say(
                0,
                &[Op::Create(ROOT, Kind::File, b"a"), Op::Write(file, 9_990, b"x"), Op::Write(file, u64::MAX, b"x")],
            )
            .send(0, &[0, 0, 0, 9])
            .event(5, 0, 255)
            .0,
        ),
        (
            "deaf",
            say(0, &[Op::Create(ROOT, Kind::File, b"a"), Op::Write(file, 0, &[b'x'; 5_000])])
                .send(
                    0,
                    &[0, 0, 0, 25, 0, 0, 0, 1, 3, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0]
                        .repeat(60),
                )
                .0,
        ),
        ("no_record", Tape::new(2).send(0, &[0, 0, 0, 4, 1, 2, 3, 4]).send(0, b"GET /").0),
        ("half_close", say(0, &[Op::GetAttr(ROOT)]).event(4, 0, 0).event(3, 0, 255).0),
    ]
}

/// Writes missing or outdated seeds, so that the corpus follows the tests. Other files of the
/// corpus are kept.
fn each(target: &str, seeds: Seeds, body: fn(&[u8])) {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    if fs::create_dir_all(&dir).is_ok() {
        for (name, seed) in &seeds {
            if fs::read(dir.join(name)).ok().as_ref() != Some(seed) {
                fs::write(dir.join(name), seed).unwrap();
            }
        }
    } else {
        println!("skipped writing: {} cannot be written", dir.display());
    }
    let kept = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path());
    let mut inputs: Vec<(String, Vec<u8>)> =
        kept.map(|path| (path.display().to_string(), fs::read(path).unwrap())).collect();
    inputs.sort();
    assert!(inputs.len() >= seeds.len());
    for (name, data) in &inputs {
        println!("{name}");
        body(data);
    }
    let mut word = 0x1a7e_u64;
    let mut next = || {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        (word >> 11) as usize
    };
    for round in 0..400 {
        let (name, mut data) = inputs[next() % inputs.len()].clone();
        for _ in 0..1 + next() % 6 {
            let at = next() % data.len().max(1);
            match next() % 4 {
                0 => data.insert(at, next() as u8),
                1 => drop(data.get_mut(at).map(|byte| *byte = next() as u8)),
                2 => data.truncate(at.max(4)),
                _ => {
                    let more = data[at..].to_vec();
                    data.extend(more);
                }
            }
        }
        println!("round {round} of {name}");
        body(&data);
    }
}

#[test]
fn ftp_conversations_hold() {
    each("apps_ftp", ftp_seeds(), ftp);
}

#[test]
fn http_conversations_hold() {
    each("apps_http", http_seeds(), http);
}

#[test]
fn kv_conversations_hold() {
    each("apps_kv", kv_seeds(), kv);
}

#[test]
fn filed_conversations_hold() {
    each("apps_filed", filed_seeds(), filed);
}

#[test]
fn iperf3_client_conversations_hold() {
    each("apps_iperf3_client", iperf3_client_seeds(), iperf3_client);
}

#[test]
fn iperf3_conversations_hold() {
    each("apps_iperf3", iperf3_seeds(), iperf3);
}

fn netperf_seeds() -> Seeds {
    let order = |test: &str, bytes: u64| {
        format!(
            "{{\"test\":{{\"test\":\"{test}\",\"time_ns\":1000000000,\"bytes\":{bytes},\"request\":10,\"response\":20,\
             \"send_buffer\":null,\"recv_buffer\":4096,\"nodelay\":true}}}}\n"
        )
    };
    let test = |test: &str| Tape::new(0).event(0, 0, 0).send(0, order(test, 500).as_bytes()).event(0, 1, 1);
    let mut seeds: Seeds = ["TCP_STREAM", "TCP_MAERTS", "TCP_RR", "TCP_CRR", "UDP_RR", "UDP_STREAM"]
        .map(|name| {
            let talk = test(name).send(1, &[7; 200]).event(2, 1, 9).bytes(&[1; 9]).event(3, 1, 20).event(5, 0, 20);
            (name, talk.send(0, b"\"results\"\n").event(4, 1, 0).event(4, 0, 0).0)
        })
        .into();
    let kind = |kind: u8| {
        let talk = Tape::new(kind).event(0, 0, 0).event(0, 0, 1).send(0, b"message").event(2, 0, 4).bytes(b"data");
        talk.send(1, &[9; 255]).event(3, 0, 9).event(4, 0, 1).event(4, 1, 0).0
    };
    seeds.extend([
        ("echo_one", kind(1)),
        ("take_datagrams", kind(2)),
        ("echo_all", kind(3)),
        ("take_streams", kind(4)),
    ]);
    seeds.extend([
        (
            "said",
            b"\0{\"ready\":{\"port\":7,\"send_buffer\":1,\"recv_buffer\":1,\"send_size\":1}}\n{\"refused\":\"no\"}\n"
                .to_vec(),
        ),
        ("nonsense", Tape::new(0).event(0, 0, 0).send(0, b"{}\n").event(0, 0, 0).send(1, b"{\"test\":1}\n").0),
        ("silent", Tape::new(0).event(0, 0, 0).event(5, 0, 255).event(5, 0, 255).event(0, 0, 0).0),
    ]);
    seeds
}

fn client_seeds() -> Seeds {
    let ftp = |seed: u8, talk: &[u8]| Tape::new(seed).send(0, talk);
    let login = b"220 hello\r\n331 name\r\n230 in\r\n200 image\r\n229 (|||50000|)\r\n";
    vec![
        (
            "down",
            ftp(0, login)
                .event(5, 0, 1)
                .send(0, b"150 now\r\n")
                .send(1, &[7; 255])
                .event(4, 1, 0)
                .send(0, b"226 done\r\n221 bye\r\n")
                .0,
        ),
        (
            "up",
            ftp(0x81, login)
                .event(5, 0, 1)
                .send(0, b"150 now\r\n")
                .event(3, 1, 255)
                .send(0, b"226 done\r\n221 bye\r\n")
                .0,
        ),
        ("refused", ftp(3, b"220 hello\r\n530 not you\r\n").0),
        ("lines", ftp(6, b"220-several\r\n 220 lines\r\n220 end\r\n331 ok\r\n").0),
        ("epsv", ftp(0, b"220 a\r\n230 in\r\n200 t\r\n229 (|||99999|)\r\n").0),
        ("resp", b"\x01+OK\r\n+OK\r\n$20\r\nxxxxxxxxxxxxxxxxxxxx\r\n$-1\r\n-ERR no\r\n:5\r\n".to_vec()),
        ("resp_short", b"\x01+OK\r\n$20\r\nxxx".to_vec()),
        ("filed", [&[2_u8][..], &[0, 0, 0, 9, 0, 0, 0, 1, 0, 0, 0, 0, 0], &[0, 0, 0, 5, 0, 0, 0, 2, 0]].concat()),
    ]
}

#[test]
fn netperf_conversations_hold() {
    each("apps_netperf", netperf_seeds(), netperf);
}

#[test]
fn answers_to_clients_hold() {
    each("apps_clients", client_seeds(), clients);
}
