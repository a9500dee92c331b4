use super::*;
use apps::netperf::report::Style;
use apps::netperf::session::Session;
use apps::netperf::{Length, Options, Test};
use apps::netrate::{Fetch, PATH, Tcpp};
use serde_json::Value;
use std::time::Duration;

fn found(place: &Place, options: Options) -> Value {
    let mut out = Vec::new();
    let style = Style { headers: true, verbosity: 1, host: "far".to_owned(), address: String::new() };
    let mut session = Session { options, wish: None, style, json: true, out: &mut out };
    place.run(&mut session).unwrap();
    serde_json::from_slice(&out).unwrap()
}

fn both(mut test: impl FnMut(Domain)) {
    [Domain::Inet, Domain::Inet6].into_iter().for_each(&mut test);
}

fn all_tests(place: &Place) {
    for test in Test::ALL {
        let length = match test {
            Test::UdpStream => Length::Time(Duration::from_millis(50)),
            Test::TcpStream | Test::TcpMaerts => Length::Count(3_000_001),
            _ => Length::Count(100),
        };
        let found = found(place, Options { length, send_size: test.is_udp().then_some(1400), ..Options::new(test) });
        assert!(found["figure"].as_f64() > Some(0.0), "{place:?}: {found}");
        match test {
            Test::UdpStream => assert!(found["received"]["messages"].as_u64() > Some(0), "{place:?}: {found}"),
            Test::TcpStream | Test::TcpMaerts => assert_eq!(found["bytes"], 3_000_001, "{place:?}: {found}"),
            _ => assert_eq!(found["messages"], 100, "{place:?}: {found}"),
        }
    }
}

#[test]
fn all_tests_on_one_thread() {
    for over in [Over::Pair, Over::Nic, Over::Router, Over::Native] {
        both(|family| all_tests(&Place { family, ..Place::new(over) }));
    }
}

#[test]
fn all_tests_on_a_thread_for_each_host() {
    for over in [Over::Pair, Over::Nic, Over::Router, Over::Native] {
        both(|family| all_tests(&Place { family, drivers: Drivers::Each, ..Place::new(over) }));
    }
}

#[test]
fn large_segments_are_not_split() {
    both(|family| all_tests(&Place { family, link: "tso=on,csum=on".to_owned(), ..Place::new(Over::Pair) }));
}

#[test]
fn an_invalid_link_is_rejected() {
    let place = Place { link: "speed=9".to_owned(), ..Place::new(Over::Pair) };
    let style = Style { headers: false, verbosity: 0, host: String::new(), address: String::new() };
    let mut out = Vec::new();
    for drivers in [Drivers::One, Drivers::Each] {
        let mut session = Session {
            options: Options::new(Test::TcpRr),
            wish: None,
            style: style.clone(),
            json: false,
            out: &mut out,
        };
        let why = Place { drivers, ..place.clone() }.run(&mut session).unwrap_err();
        assert!(format!("{why:#}").contains("speed"), "{why:#}");
    }
}

/// Checks that no SYN is dropped, and so none is retransmitted, if neighbors are resolved before 32
/// connections begin at once.
fn no_syn_again(place: &Place, play: &mut impl Play, also: &[&str]) {
    let seen = place.run_counted(play).unwrap();
    let none = ["inet.neigh.queue_full", "tcp.listen.duplicate_syns", "tcp.listen.retransmitted"];
    for name in none.iter().chain(also) {
        assert_eq!(seen.counters.get(*name), Some(&0), "{place:?}: {name}");
    }
}

/// Uses the default sizes of tcpp and http. A transfer of a megabyte or more also loses segments
/// when a pair's ring is full, so the counter of the retransmission timer is checked with one byte
/// per connection.
#[test]
fn time_starts_after_neighbor_resolution() {
    for over in [Over::Pair, Over::Router] {
        let (place, mut out) = (Place::new(over), Vec::new());
        no_syn_again(&place, &mut Tcpp::new(&mut out), &[]);
        no_syn_again(&place, &mut Tcpp { bytes: 1, ..Tcpp::new(&mut out) }, &["tcp.timer.rexmit"]);
        let time = Duration::from_millis(100);
        no_syn_again(&place, &mut Fetch { at_a_time: 32, time, path: PATH, out: &mut out, done: None }, &[]);
        let text = String::from_utf8(out).unwrap();
        assert!(text.starts_with("335544320 bytes transferred in ") && text.ends_with("0 errors/second\n"), "{text}");
    }
}
