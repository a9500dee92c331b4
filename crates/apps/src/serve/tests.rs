use super::*;
use crate::net::{Net, Rig};
use crate::small::{Config, Kind, Small};

fn echo(net: Net) -> Rig<Small> {
    Rig::new(Small::new(Config::new(Kind::Echo)), net)
}

#[test]
fn one_who_does_not_read_costs_what_is_held_for_him_and_nobody_else_waits() {
    let mut rig = echo(Net { window: 1000, ..Net::default() });
    let (deaf, polite) = (rig.client(), rig.client());
    let mut taken = 0;
    for _ in 0..10_000 {
        taken += rig.net.far_send(deaf, &[7; 1000]);
        rig.run_until_idle();
    }
    // The receive window, the echo buffer and the send window are full, so nothing more is
    // accepted.
    assert_eq!(taken, 1000 + crate::small::ECHO_MAX + 1000);
    assert_eq!(rig.say(polite, b"hello"), "hello");
    // When the client reads at last, it receives everything.
    assert_eq!(rig.receive(deaf).len(), taken);
    assert_eq!(rig.server.counts.bytes_in.get(), taken as u64 + 5);
    assert_eq!(rig.server.counts.bytes_out.get(), taken as u64 + 5);
}

#[test]
fn accept_is_retried_after_a_descriptor_is_freed() {
    let mut rig = echo(Net { fds_max: 3, ..Net::default() });
    let (first, _second, third) = (rig.client(), rig.client(), rig.client());
    assert_eq!(rig.server.counts.accept_failed.get(), 1);
    assert_eq!(rig.say(third, b"a"), "", "it waits at the listener");
    rig.net.far_shut(first);
    rig.run_until_idle();
    assert_eq!(rig.receive(third), "a");
    assert_eq!(rig.server.counts.accepted.get(), 3);
}

#[test]
fn a_stalled_listener_retries_after_a_timeout() {
    let mut rig = echo(Net { fds_max: 1, ..Net::default() });
    let client = rig.client();
    rig.net.fds_max = 0;
    assert_eq!(rig.say(client, b"a"), "");
    rig.pass(STALL);
    assert_eq!(rig.receive(client), "a");
}

#[test]
fn a_closed_connection_lingers_for_a_limited_time() {
    let mut rig =
        Rig::new(crate::http::Http::new(crate::http::Config::new(crate::files::Root::empty())), Net::default());
    let client = rig.client();
    assert!(rig.say(client, b"nonsense\r\n\r\n").starts_with("HTTP/1.1 400 "));
    assert!(rig.net.far_eof(client));
    assert_eq!((rig.server.open_chans(), rig.server.lingering()), (0, 1));
    // Further data is discarded and does not reset the connection.
    for _ in 0..4 {
        assert_eq!(rig.net.far_send(client, &[b'x'; 50_000]), 50_000);
        rig.run_until_idle();
    }
    assert!(!rig.net.is_reset(client));
    rig.pass(Duration::from_secs(2));
    assert_eq!((rig.server.lingering(), rig.server.counts.linger_cut.get(), rig.net.fds()), (0, 1, 1));
}

#[test]
fn endless_data_on_a_closed_connection_is_cut_off() {
    let mut rig =
        Rig::new(crate::http::Http::new(crate::http::Config::new(crate::files::Root::empty())), Net::default());
    let client = rig.client();
    rig.say(client, b"nonsense\r\n\r\n");
    for _ in 0..20 {
        rig.net.far_send(client, &[b'x'; 60_000]);
        rig.run_until_idle();
    }
    assert_eq!((rig.server.lingering(), rig.server.counts.linger_cut.get(), rig.net.fds()), (0, 1, 1));
}

#[test]
fn the_number_of_lingering_connections_is_limited() {
    let mut config = crate::http::Config::new(crate::files::Root::empty());
    config.conns_per_peer = 1000;
    let mut rig = Rig::new(crate::http::Http::new(config), Net::default());
    for _ in 0..300 {
        let client = rig.client();
        rig.say(client, b"nonsense\r\n\r\n");
    }
    assert_eq!((rig.server.lingering(), rig.server.counts.linger_cut.get()), (256, 44));
    assert_eq!(rig.net.fds(), 257);
}

#[test]
fn short_reads_and_writes_change_nothing() {
    for seed in 1..50 {
        let mut rig = echo(Net { seed, window: 777, ..Net::default() });
        let client = rig.client();
        let bytes: Vec<u8> = (0..50_000u32).map(|n| b'a' + (n % 23) as u8).collect();
        let (mut heard, mut at) = (String::new(), 0);
        while heard.len() < bytes.len() {
            at += rig.net.far_send(client, &bytes[at..]);
            rig.run_until_idle();
            heard += &rig.receive(client);
        }
        assert!(heard.as_bytes() == bytes, "seed {seed}");
    }
}

#[test]
fn an_address_in_use_is_an_error_without_leaks() {
    let mut net = Net::default();
    let at = SocketAddr::from(([1, 0, 0, 1], 7));
    let other = SocketAddr::from(([1, 0, 0, 1], 8));
    let error = Server::open(Small::new(Config::new(Kind::Echo)), &mut net, &[at, other, at], Instant::ZERO);
    assert_eq!(error.err(), Some((at, Failure::InUse)));
    assert_eq!(net.fds(), 0);
}

#[test]
fn close_frees_everything() {
    let mut rig = echo(Net::default());
    let client = rig.client();
    rig.say(client, b"x");
    let app = rig.server.close(&mut rig.net);
    assert_eq!((app.counts.accepted.get(), rig.net.fds()), (1, 0));
    assert!(rig.net.is_reset(client));
}
