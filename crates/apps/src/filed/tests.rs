use super::proto::{Kind, Op, ROOT, ask, handle, parse_reply, record};
use super::*;
use crate::net::{Far, Net, Rig};

fn rig_of(bounds: Bounds) -> Rig<Filed> {
    Rig::new(Filed::new(Config { bounds, clients_max: 3, key: Key::seeded(1), ..Config::default() }), Net::default())
}

fn rig() -> Rig<Filed> {
    rig_of(Bounds { nodes: 100, bytes: 1 << 20, file: 100_000 })
}

/// Sends bytes and reads until no more arrive.
fn exchange(rig: &mut Rig<Filed>, client: Far, bytes: &[u8]) -> Vec<u8> {
    let (mut rest, mut got) = (bytes, Vec::new());
    for _ in 0..1000 {
        let n = rig.net.far_send(client, rest);
        rest = &rest[n..];
        rig.run_until_idle();
        let some = rig.net.far_recv(client, 1 << 20);
        if some.is_empty() && rest.is_empty() {
            break;
        }
        got.extend(some);
    }
    got
}

/// Sends a request; returns the status and body of the answer.
fn say(rig: &mut Rig<Filed>, client: Far, op: Op<'_>) -> (u8, Vec<u8>) {
    let mut out = Vec::new();
    ask(&mut out, 7, &op);
    let got = exchange(rig, client, &out);
    let answer = record(&got).unwrap().unwrap();
    assert_eq!(answer.len() + 4, got.len());
    let (number, status, body) = parse_reply(answer).unwrap();
    assert_eq!(number, 7);
    (status, body.to_vec())
}

#[test]
fn a_file_is_created_written_read_and_removed() {
    let mut rig = rig();
    let c = rig.client();
    let (status, body) = say(&mut rig, c, Op::Create(ROOT, Kind::File, b"a"));
    let a = handle(&body).unwrap();
    assert_eq!((status, body[8]), (0, 1));
    assert_eq!(say(&mut rig, c, Op::Create(ROOT, Kind::File, b"a")).0, Status::Exists as u8);
    rig.pass(Duration::from_secs(1));
    let (status, body) = say(&mut rig, c, Op::Write(a, 3, b"bcd"));
    assert_eq!((status, &body[..9]), (0, &[1, 0, 0, 0, 0, 0, 0, 0, 6][..]));
    assert_eq!(u64::from_be_bytes(body[9..].try_into().unwrap()), rig.now.nanos());
    assert_eq!(say(&mut rig, c, Op::Read(a, 0, 100)), (0, b"\x01\0\0\0bcd".to_vec()));
    assert_eq!(say(&mut rig, c, Op::Read(a, 2, 2)), (0, b"\0\0b".to_vec()));
    assert_eq!(say(&mut rig, c, Op::Read(a, u64::MAX, 2)), (0, b"\x01".to_vec()));
    assert_eq!(say(&mut rig, c, Op::GetAttr(a)).1, body);
    let (status, found) = say(&mut rig, c, Op::Lookup(ROOT, b"a"));
    assert_eq!((status, handle(&found), &found[8..]), (0, Some(a), &body[..]));
    assert_eq!(say(&mut rig, c, Op::Remove(ROOT, b"a")), (0, vec![]));
    assert_eq!(say(&mut rig, c, Op::Lookup(ROOT, b"a")).0, Status::NoEntry as u8);
    // The slot is reused, but the old handle stays stale.
    let (_, body) = say(&mut rig, c, Op::Create(ROOT, Kind::File, b"b"));
    assert_eq!(handle(&body).unwrap() as u32, a as u32);
    for op in [Op::GetAttr(a), Op::Read(a, 0, 1), Op::Write(a, 0, b"x"), Op::Lookup(a, b"x")] {
        assert_eq!(say(&mut rig, c, op).0, Status::Stale as u8, "{op:?}");
    }
}

#[test]
fn directories_hold_names() {
    let mut rig = rig();
    let c = rig.client();
    let d = handle(&say(&mut rig, c, Op::Create(ROOT, Kind::Directory, b"d")).1).unwrap();
    let f = handle(&say(&mut rig, c, Op::Create(d, Kind::File, b"f")).1).unwrap();
    assert_eq!(say(&mut rig, c, Op::Remove(ROOT, b"d")).0, Status::NotEmpty as u8);
    assert_eq!(say(&mut rig, c, Op::Lookup(f, b"x")).0, Status::NotDirectory as u8);
    assert_eq!(say(&mut rig, c, Op::Create(f, Kind::File, b"x")).0, Status::NotDirectory as u8);
    assert_eq!(say(&mut rig, c, Op::Read(d, 0, 1)).0, Status::IsDirectory as u8);
    assert_eq!(say(&mut rig, c, Op::Write(d, 0, b"x")).0, Status::IsDirectory as u8);
    for name in [&b""[..], b".", b"..", b"a/b", b"a\0b"] {
        assert_eq!(say(&mut rig, c, Op::Create(d, Kind::File, name)).0, Status::Invalid as u8, "{name:?}");
    }
    assert_eq!(say(&mut rig, c, Op::Create(d, Kind::File, &[b'x'; 256])).0, Status::NameTooLong as u8);
    assert_eq!(say(&mut rig, c, Op::Remove(d, b"f")).0, 0);
    assert_eq!(say(&mut rig, c, Op::Remove(ROOT, b"d")).0, 0);
    assert_eq!((rig.server.app.nodes(), rig.server.app.bytes()), (1, tree::NODE));
}

/// The first byte of a file allocates eight.
#[test]
fn the_byte_limit_counts_the_allocated_size() {
    let mut rig = rig_of(Bounds { nodes: 10, bytes: 2 * tree::NODE + 1 + 7, file: 100 });
    let c = rig.client();
    let file = handle(&say(&mut rig, c, Op::Create(ROOT, Kind::File, b"a")).1).unwrap();
    assert_eq!(say(&mut rig, c, Op::Write(file, 0, b"x")).0, Status::NoSpace as u8);
    assert_eq!(rig.server.app.bytes(), 2 * tree::NODE + 1);
}

/// `Bounds::for_files` leaves enough space for all files at their maximum size.
#[test]
fn bounds_for_files_admit_all_files_at_full_size() {
    let mut rig = rig_of(Bounds::for_files(5, 1, 5_000));
    let c = rig.client();
    for n in 0..5 {
        let file = handle(&say(&mut rig, c, Op::Create(ROOT, Kind::File, &[b'a' + n])).1).unwrap();
        for at in 0..5 {
            assert_eq!(say(&mut rig, c, Op::Write(file, at * 1_000, &[b'x'; 1_000])).0, 0, "{n}, {at}");
        }
    }
    assert_eq!(say(&mut rig, c, Op::Create(ROOT, Kind::File, b"z")).0, Status::NoSpace as u8);
}

#[test]
fn memory_is_bounded() {
    let mut rig = rig_of(Bounds { nodes: 10, bytes: 50_000, file: 30_000 });
    let c = rig.client();
    let files: Vec<u64> =
        (0..9u8).map(|n| handle(&say(&mut rig, c, Op::Create(ROOT, Kind::File, &[b'a' + n])).1).unwrap()).collect();
    assert_eq!(say(&mut rig, c, Op::Create(ROOT, Kind::File, b"z")).0, Status::NoSpace as u8);
    assert_eq!(say(&mut rig, c, Op::Write(files[0], 30_000, b"x")).0, Status::TooBig as u8);
    assert_eq!(say(&mut rig, c, Op::Write(files[0], u64::MAX, b"x")).0, Status::TooBig as u8);
    assert_eq!(say(&mut rig, c, Op::Write(files[0], 29_999, b"x")).0, 0);
    assert_eq!(say(&mut rig, c, Op::Write(files[1], 20_000, b"x")).0, Status::NoSpace as u8);
    assert!(rig.server.app.bytes() <= 50_000);
    assert_eq!(say(&mut rig, c, Op::Remove(ROOT, b"a")).0, 0);
    assert_eq!(say(&mut rig, c, Op::Write(files[1], 20_000, b"x")).0, 0);
}

#[test]
fn a_malformed_record_disconnects_the_client() {
    let mut rig = rig();
    let other = rig.client();
    for bytes in [&b"\0\0\0\x04abcd"[..], b"\xff\xff\xff\xff", b"GET / HTTP/1.1\r\n\r\n"] {
        let client = rig.client();
        assert_eq!(exchange(&mut rig, client, bytes), b"");
        assert!(rig.net.far_eof(client), "{bytes:?}");
    }
    // An unknown or malformed operation is answered with an error.
    for body in
        [&b"\x09"[..], b"\x01", b"\x02\0\0\0\x01\0\0\0\0x", b"\x05\0\0\0\x01\0\0\0\0\x03a", b"\x03\0\0\0\x01\0\0\0\0"]
    {
        let bytes = [&(4 + body.len() as u32).to_be_bytes()[..], &[0, 0, 0, 9], body].concat();
        assert_eq!(exchange(&mut rig, other, &bytes), [0, 0, 0, 5, 0, 0, 0, 9, Status::Invalid as u8], "{body:?}");
    }
    assert_eq!((rig.server.app.counts.malformed.get(), rig.server.app.counts.unserved.get()), (3, 5));
}

#[test]
fn pipelined_requests_are_answered_in_order_with_backpressure() {
    let mut rig = rig();
    let c = rig.client();
    let a = handle(&say(&mut rig, c, Op::Create(ROOT, Kind::File, b"a")).1).unwrap();
    say(&mut rig, c, Op::Write(a, 0, &[b'x'; 60_000]));
    let mut requested = Vec::new();
    (0..100).for_each(|number| ask(&mut requested, number, &Op::Read(a, 0, 60_000)));
    rig.net.far_send(c, &requested);
    rig.run_until_idle();
    assert!(rig.server.app.counts.requests.get() < 8, "{}", rig.server.app.counts.requests.get());
    let mut got = Vec::new();
    for _ in 0..1000 {
        got.extend(rig.net.far_recv(c, 10_000));
        rig.run_until_idle();
    }
    let mut rest = got.as_slice();
    for number in 0..100 {
        let answer = record(rest).unwrap().unwrap();
        assert_eq!((parse_reply(answer).unwrap().0, answer.len()), (number, 60_006));
        rest = &rest[4 + answer.len()..];
    }
    assert!(rest.is_empty());
}

#[test]
fn clients_are_limited_and_idle_ones_disconnected() {
    let mut rig = rig();
    let clients: Vec<Far> = (0..4).map(|_| rig.client()).collect();
    assert_eq!((rig.server.app.counts.accepted.get(), rig.server.app.counts.refused.get()), (3, 1));
    assert!(rig.net.far_eof(clients[3]));
    rig.pass(Duration::from_secs(301));
    assert_eq!((rig.server.app.conns.len(), rig.server.app.counts.idle.get()), (0, 3));
}

#[test]
fn the_longest_idle_client_is_evicted_and_clients_per_peer_are_limited() {
    let config = Config { clients_max: 2, clients_per_peer: 1, key: Key::seeded(1), ..Config::default() };
    let mut rig = Rig::new(Filed::new(config), Net::default());
    let clients = [rig.client(), rig.client(), rig.client_from([1, 0, 0, 3])];
    assert!(rig.net.is_reset(clients[1]), "the second of one");
    rig.pass(Duration::from_secs(2));
    let next = rig.client_from([1, 0, 0, 4]);
    assert!(rig.net.is_reset(clients[0]) && !rig.net.is_reset(clients[2]) && !rig.net.is_reset(next));
    assert_eq!((rig.server.app.counts.evicted.get(), rig.server.app.counts.refused.get(), rig.net.fds()), (1, 1, 3));
}
