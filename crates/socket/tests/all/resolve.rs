//! Name lookups on virtual time: the resolver runs on host a. A name server runs on host b, with
//! answers that the test provides.

use crate::common::*;
use inet::resolvers::ResolverSource;
use linerate_socket::net::lookup;
use linerate_socket::resolve::{Families, Lookup, LookupError};
use linerate_socket::{Errno, Fd};
use lock::Up;
use std::cell::RefCell;
use std::net::{IpAddr, SocketAddr};
use wire::dns::{Query, ty};

/// Reply of the name server to a query.
#[derive(Clone, Debug, Default)]
struct Reply {
    rcode: u8,
    is_truncated: bool,
    /// Owner name and data of each record: an address, or the name to which an alias refers.
    records: Vec<(String, String)>,
    /// Forged replies, which are sent before the real one.
    forged: Vec<Vec<u8>>,
    is_silent: bool,
}

fn records(records: &[(&str, &str)]) -> Reply {
    let owned = |(name, data): &(&str, &str)| (name.to_string(), data.to_string());
    Reply { records: records.iter().map(owned).collect(), ..Reply::default() }
}

fn rcode(rcode: u8) -> Reply {
    Reply { rcode, ..Reply::default() }
}

fn silent() -> Reply {
    Reply { is_silent: true, ..Reply::default() }
}

/// Name, type and transport of each query that the server received.
type Log = RefCell<Vec<String>>;

struct Server<'w> {
    world: &'w World<Up>,
    udp: Fd,
    tcp: Fd,
    open: RefCell<Vec<(Fd, Vec<u8>)>>,
    log: Log,
}

fn labels(name: &str) -> Vec<u8> {
    let labels = name.split('.').flat_map(|label| [&[label.len() as u8], label.as_bytes()].concat());
    labels.chain([0]).collect()
}

/// Parses the question of a query. Returns its name, its type, and the offset of its end.
fn question(message: &[u8]) -> (String, u16, usize) {
    let (mut at, mut name) = (12, Vec::new());
    while message[at] != 0 {
        let len = usize::from(message[at]);
        name.push(String::from_utf8(message[at + 1..at + 1 + len].to_vec()).unwrap());
        at += 1 + len;
    }
    (name.join("."), u16::from_be_bytes([message[at + 1], message[at + 2]]), at + 5)
}

fn response(query: &[u8], reply: &Reply) -> Vec<u8> {
    let (_, ty, end) = question(query);
    let mut out = query[..end].to_vec();
    (out[2], out[3]) = (0x81 | u8::from(reply.is_truncated) << 1, 0x80 | reply.rcode);
    let mut count = 0u8;
    for (name, data) in &reply.records {
        let (kind, data) = match data.parse() {
            Ok(IpAddr::V4(v4)) => (ty::A, v4.octets().to_vec()),
            Ok(IpAddr::V6(v6)) => (ty::AAAA, v6.octets().to_vec()),
            Err(_) => (ty::CNAME, labels(data)),
        };
        if kind == ty || kind == ty::CNAME {
            out.extend([labels(name), kind.to_be_bytes().into(), vec![0, 1, 0, 0, 0, 60]].concat());
            out.extend([(data.len() as u16).to_be_bytes().into(), data].concat());
            count += 1;
        }
    }
    out[7] = count;
    out
}

impl<'w> Server<'w> {
    fn new(world: &'w World<Up>) -> Server<'w> {
        let b = world.b();
        let udp = b.socket().unwrap();
        b.bind(udp, at(0, 53)).unwrap();
        nonblocking(&b, udp);
        let tcp = world.listener(53, 8);
        nonblocking(&b, tcp);
        Server { world, udp, tcp, open: RefCell::default(), log: Log::default() }
    }

    /// Answers the queries that have arrived.
    fn turn(&self, answer: &impl Fn(&str, u16, &str) -> Reply) {
        let b = self.world.b();
        let mut buffer = [0; 2000];
        let reply_to = |message: &[u8], transport: &str| {
            let (name, ty, _) = question(message);
            self.log.borrow_mut().push(format!("{name} {} {transport}", if ty == ty::A { "A" } else { "AAAA" }));
            answer(&name, ty, transport)
        };
        while let Ok((len, from)) = b.recv_from(self.udp, &mut buffer) {
            let reply = reply_to(&buffer[..len], "udp");
            for forged in &reply.forged {
                b.send_to(self.udp, forged, &from).unwrap();
            }
            if !reply.is_silent {
                b.send_to(self.udp, &response(&buffer[..len], &reply), &from).unwrap();
            }
        }
        while let Ok((fd, _)) = b.accept(self.tcp) {
            nonblocking(&b, fd);
            self.open.borrow_mut().push((fd, Vec::new()));
        }
        for (fd, input) in self.open.borrow_mut().iter_mut() {
            while let Ok(len @ 1..) = b.recv(*fd, &mut buffer) {
                input.extend(&buffer[..len]);
            }
            while input.len() >= 2 && input.len() >= 2 + usize::from(u16::from_be_bytes([input[0], input[1]])) {
                let rest = input.split_off(2 + usize::from(u16::from_be_bytes([input[0], input[1]])));
                let message = std::mem::replace(input, rest).split_off(2);
                let out = response(&message, &reply_to(&message, "tcp"));
                // The reply is sent in two pieces; the first one ends within the length prefix.
                let out = [&(out.len() as u16).to_be_bytes()[..], &out].concat();
                b.send(*fd, &out[..1]).unwrap();
                self.world.pass(ms(1));
                b.send(*fd, &out[1..]).unwrap();
            }
        }
    }

    fn log(&self) -> Vec<String> {
        std::mem::take(&mut self.log.borrow_mut())
    }

    fn close(self) {
        let b = self.world.b();
        self.open.into_inner().into_iter().for_each(|(fd, _)| b.close(fd).unwrap());
        b.close(self.tcp).unwrap();
        b.close(self.udp).unwrap();
    }
}

fn configure(w: &World<Up>, servers: &[&str], domains: &[&str]) {
    let servers: Vec<SocketAddr> = servers.iter().map(|addr| SocketAddr::new(addr.parse().unwrap(), 0)).collect();
    let domains: Vec<String> = domains.iter().map(|domain| domain.to_string()).collect();
    let until = clock::Instant::NEVER;
    w.nodes[0].stack.set_resolvers(w.cx(), ResolverSource::Configured, &servers, &domains, until);
}

fn look_up(
    w: &World<Up>,
    server: &Server<'_>,
    host: &str,
    families: Families,
    answer: impl Fn(&str, u16, &str) -> Reply,
) -> Result<Vec<String>, LookupError> {
    let mut lookup = Lookup::new(&w.a(), host, 80, families);
    for _ in 0..100_000 {
        if let Some(found) = lookup.turn(&w.a()) {
            return found.map(|addrs| addrs.iter().map(|addr| addr.to_string()).collect());
        }
        server.turn(&answer);
        w.step(lookup.next());
    }
    panic!("the lookup does not finish");
}

/// Returns two hosts; the only name server of host a runs on host b.
fn world() -> World<Up> {
    let w = World::new();
    configure(&w, &["10.0.0.2"], &[]);
    w
}

#[test]
fn an_address_of_the_hosts_family_is_found() {
    let w = world();
    let server = Server::new(&w);
    let zone = |name: &str, _: u16, _: &str| records(&[(name, "10.0.0.7"), (name, "10.0.0.8")]);
    let found = look_up(&w, &server, "www.example.org", Families::Any, zone).unwrap();
    assert_eq!(found, ["10.0.0.7:80", "10.0.0.8:80"]);
    assert_eq!(server.log(), ["www.example.org A udp"], "host a has no IPv6 address to use");
    let both = |name: &str, _: u16, _: &str| records(&[(name, "2001:db8::1")]);
    assert_eq!(look_up(&w, &server, "six.", Families::V6, both).unwrap(), ["[2001:db8::1]:80"]);
    assert_eq!(server.log(), ["six AAAA udp"]);
    server.close();
    w.end();
}

#[test]
fn aliases_are_followed_even_if_the_answer_ends_with_one() {
    let w = world();
    let server = Server::new(&w);
    let zone = |name: &str, _: u16, _: &str| match name {
        "a.test" => records(&[("a.test", "b.test"), ("b.test", "10.0.0.7"), ("c.test", "10.0.0.66")]),
        "x.test" => records(&[("x.test", "y.test")]),
        "y.test" => records(&[("y.test", "10.0.0.9")]),
        "loop.test" => records(&[("loop.test", "pool.test")]),
        "pool.test" => records(&[("pool.test", "loop.test")]),
        _ => rcode(3),
    };
    assert_eq!(look_up(&w, &server, "a.test", Families::V4, zone).unwrap(), ["10.0.0.7:80"]);
    assert_eq!(look_up(&w, &server, "x.test", Families::V4, zone).unwrap(), ["10.0.0.9:80"]);
    let circle = look_up(&w, &server, "loop.test", Families::V4, zone);
    assert_eq!(circle, Err(LookupError::NoAddress("loop.test".into())));
    server.close();
    w.end();
}

#[test]
fn the_search_list_is_tried_and_no_address_differs_from_not_found() {
    let w = world();
    configure(&w, &["10.0.0.2"], &["lab.test", "test"]);
    let server = Server::new(&w);
    let zone = |name: &str, _: u16, _: &str| match name {
        "www.test" => records(&[(name, "10.0.0.7")]),
        "mail.lab.test" => Reply::default(),
        _ => rcode(3),
    };
    assert_eq!(look_up(&w, &server, "www", Families::V4, zone).unwrap(), ["10.0.0.7:80"]);
    assert_eq!(server.log(), ["www.lab.test A udp", "www.test A udp"]);
    let none = look_up(&w, &server, "mail", Families::V4, zone);
    assert_eq!(none, Err(LookupError::NoAddress("mail".into())));
    // The result is the same if the server refuses the queries for the other candidates.
    let refusing = |name: &str, _: u16, _: &str| if name == "mail.lab.test" { Reply::default() } else { rcode(5) };
    let none = look_up(&w, &server, "mail", Families::V4, refusing);
    assert_eq!(none, Err(LookupError::NoAddress("mail".into())));
    assert_eq!(look_up(&w, &server, "gone", Families::V4, zone), Err(LookupError::NotFound("gone".into())));
    server.close();
    w.end();
}

#[test]
fn a_truncated_answer_is_queried_again_by_tcp() {
    let w = world();
    let server = Server::new(&w);
    let many: Vec<String> = (0..100).map(|n| format!("10.0.1.{n}")).collect();
    let zone = |name: &str, _: u16, transport: &str| match transport {
        "udp" => Reply { is_truncated: true, ..records(&[(name, "10.0.0.66")]) },
        _ => records(&many.iter().map(|addr| (name, addr.as_str())).collect::<Vec<_>>()),
    };
    let found = look_up(&w, &server, "many.test", Families::V4, zone).unwrap();
    assert_eq!(found.len(), 100);
    assert_eq!(server.log(), ["many.test A udp", "many.test A tcp"]);
    server.close();
    w.end();
}

#[test]
fn a_failed_server_is_skipped_and_no_answer_times_out() {
    let w = world();
    let server = Server::new(&w);
    let began = w.now();
    let timed_out = look_up(&w, &server, "www.test", Families::V4, |_, _, _| silent());
    let at_b = at(2, 53);
    assert_eq!(timed_out, Err(LookupError::TimedOut { name: "www.test".into(), server: at_b }));
    assert_eq!(server.log().len(), 2, "each server is queried twice");
    assert_eq!(w.now().since(began).as_secs(), 10);
    let failed = look_up(&w, &server, "www.test", Families::V4, |_, _, _| rcode(2));
    assert_eq!(failed, Err(LookupError::Failed { name: "www.test".into(), server: at_b, rcode: 2 }));
    assert_eq!(server.log().len(), 2);
    // The first server of three does not exist, the second has no service, the third answers.
    configure(&w, &["10.0.0.99", "10.0.0.1", "10.0.0.2"], &[]);
    let zone = |name: &str, _: u16, _: &str| records(&[(name, "10.0.0.7")]);
    assert_eq!(look_up(&w, &server, "www.test", Families::V4, zone).unwrap(), ["10.0.0.7:80"]);
    // If only one family is answered, its addresses are the result.
    let zone = |name: &str, ty: u16, _: &str| if ty == ty::A { records(&[(name, "10.0.0.7")]) } else { silent() };
    w.nodes[0].stack.add_addr6(w.cx(), EM0, inet::ip6::IfaceAddr6::new("2001:db8::1".parse().unwrap(), 64)).unwrap();
    configure(&w, &["10.0.0.2"], &[]);
    assert_eq!(look_up(&w, &server, "www.test", Families::Any, zone).unwrap(), ["10.0.0.7:80"]);
    server.close();
    w.end();
}

/// Forged replies have no effect: wrong identifier, wrong question, no question, random bytes.
#[test]
fn forged_answers_are_ignored() {
    let w = world();
    let server = Server::new(&w);
    let forge = |id: u16, name: &str| {
        let mut query = Vec::new();
        Query { id, name: name.into(), ty: ty::A }.emit(&mut query).unwrap();
        response(&query, &records(&[(name, "10.0.0.66")]))
    };
    let zone = |name: &str, _: u16, _: &str| {
        let ids = (0..65_535u16).step_by(900);
        let mut forged: Vec<_> = ids.map(|id| forge(id, "other.test")).collect();
        forged.extend([vec![], vec![0; 12], vec![0xff; 600], forge(0, name)[..20].to_vec()]);
        Reply { forged, ..records(&[(name, "10.0.0.7")]) }
    };
    assert_eq!(look_up(&w, &server, "www.test", Families::V4, zone).unwrap(), ["10.0.0.7:80"]);
    server.close();
    w.end();
}

/// Identifiers and source ports of queries must not be predictable (RFC 5452 9.2).
#[test]
fn identifiers_and_ports_differ_from_query_to_query() {
    let w = world();
    let server = Server::new(&w);
    let seen = RefCell::new(std::collections::HashSet::new());
    for n in 0..50 {
        let mut lookup = Lookup::new(&w.a(), &format!("n{n}.test"), 0, Families::V4);
        assert_eq!(lookup.turn(&w.a()), None);
        w.pass(ms(1));
        let mut message = [0; 600];
        let (_, from) = w.b().recv_from(server.udp, &mut message).unwrap();
        seen.borrow_mut().insert((from.port(), [message[0], message[1]]));
        lookup.close(&w.a());
    }
    let seen = seen.into_inner();
    let ports: std::collections::HashSet<_> = seen.iter().map(|(port, _)| port).collect();
    let ids: std::collections::HashSet<_> = seen.iter().map(|(_, id)| id).collect();
    assert!(ports.len() >= 49 && ids.len() >= 49, "{} {}", ports.len(), ids.len());
    server.close();
    w.end();
}

#[test]
fn literals_and_bad_names_need_no_server() {
    let w = World::<Up>::new();
    let of = |host: &str, families| lookup(&w.a(), host, 7, families).map(|found| found[0].to_string());
    assert_eq!(of("10.0.0.2", Families::Any).unwrap(), "10.0.0.2:7");
    assert_eq!(of("2001:db8::1", Families::Any).unwrap(), "[2001:db8::1]:7");
    assert_eq!(of("[::1]", Families::V6).unwrap(), "[::1]:7");
    assert_eq!(of("fe80::1%em0", Families::Any).unwrap(), "[fe80::1%2]:7");
    assert_eq!(of("fe80::1%2", Families::Any).unwrap(), "[fe80::1%2]:7");
    assert_eq!(of("localhost", Families::V4).unwrap(), "127.0.0.1:7");
    assert_eq!(of("localhost", Families::V6).unwrap(), "[::1]:7");
    assert_eq!(of("fe80::1%em7", Families::Any), Err(LookupError::BadZone("fe80::1%em7".into())));
    assert_eq!(of("10.0.0.2", Families::V6), Err(LookupError::OtherFamily("10.0.0.2".into(), "IPv6")));
    assert_eq!(of("::1", Families::V4), Err(LookupError::OtherFamily("::1".into(), "IPv4")));
    for bad in ["", ".", "a..b", "10.0.2", "300.1.1.1", "7", "fe80::x", &"a".repeat(300)] {
        assert_eq!(of(bad, Families::Any), Err(LookupError::BadName(bad.into())), "{bad}");
    }
    assert_eq!(of("www", Families::Any), Err(LookupError::NoServers("www".into())));
    w.end();
}

/// The waiting call runs the host, which belongs to the calling thread.
#[test]
fn a_blocking_lookup_times_out_without_an_answer() {
    let w = world();
    let why = lookup(&w.a(), "www.test", 0, Families::V4).unwrap_err();
    // Host b has no name server, and its ICMP error ends each attempt at once.
    let server = at(2, 53);
    assert_eq!(why, LookupError::Unreachable { name: "www.test".into(), server, why: Errno::ECONNREFUSED });
    assert!(w.now().since(clock::Instant::ZERO).as_secs() < 1);
    w.lose(|_, _| true);
    let why = lookup(&w.a(), "www.test", 0, Families::V4).unwrap_err();
    assert!(matches!(why, LookupError::TimedOut { .. } | LookupError::Unreachable { .. }), "{why}");
    w.end();
}
