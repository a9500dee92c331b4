use super::*;
use apps::netperf::report::Style;
use apps::netperf::session::Session;
use apps::netperf::{Length, Options, Test};
use serde_json::Value;
use std::time::Duration;

fn found(place: &Place, options: Options) -> Value {
    let mut out = Vec::new();
    let style = Style { headers: true, verbosity: 1, host: "far".to_owned(), address: String::new() };
    let mut session = Session { options, wish: None, style, json: true, out: &mut out };
    place.run(&mut session).unwrap();
    serde_json::from_slice(&out).unwrap()
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
        all_tests(&Place::new(over));
    }
}

#[test]
fn all_tests_on_a_thread_for_each_host() {
    for over in [Over::Pair, Over::Nic, Over::Router, Over::Native] {
        all_tests(&Place { drivers: Drivers::Each, ..Place::new(over) });
    }
}

#[test]
fn large_segments_pass_whole() {
    all_tests(&Place { link: "tso=on,csum=on".to_owned(), ..Place::new(Over::Pair) });
}

#[test]
fn a_link_that_cannot_be_is_told() {
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
