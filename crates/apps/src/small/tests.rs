use super::*;
use crate::net::{Net, Rig};

fn rig(kind: Kind, net: Net) -> Rig<Small> {
    Rig::new(Small::new(Config { conns_max: 3, ..Config::new(kind) }), net)
}

#[test]
fn echo_returns_all_bytes_and_then_closes() {
    let mut rig = rig(Kind::Echo, Net { window: 10, ..Net::default() });
    let client = rig.client();
    rig.net.far_send(client, b"0123456789");
    rig.net.far_shut(client);
    assert_eq!(rig.receive(client), "0123456789");
    assert!(rig.net.far_eof(client) && !rig.net.is_reset(client));
    assert_eq!((rig.server.open_chans(), rig.server.app.conns.len()), (0, 0));
}

#[test]
fn sink_reports_the_bytes_received() {
    let mut rig = rig(Kind::Sink, Net::default());
    let client = rig.client();
    assert_eq!(rig.say(client, &[1; 300_000]), "");
    rig.net.far_shut(client);
    assert_eq!(rig.receive(client), "300000 bytes\n");
    assert!(rig.net.far_eof(client));
}

#[test]
fn chargen_rotates_its_pattern_with_backpressure() {
    let mut rig = rig(Kind::Chargen, Net { window: 500, seed: 9, ..Net::default() });
    let client = rig.client();
    rig.run_until_idle();
    assert_eq!(rig.net.held(), 500);
    let mut got = Vec::new();
    while got.len() < 300_000 {
        let some = rig.net.far_recv(client, 499);
        assert!(!some.is_empty());
        got.extend(some);
        rig.run_until_idle();
    }
    for (at, line) in got.chunks_exact(LINE).enumerate() {
        for (place, byte) in line[..LINE - 2].iter().enumerate() {
            assert_eq!(*byte, b' ' + ((at % PRINTING + place) % PRINTING) as u8, "line {at}, place {place}");
        }
        assert_eq!(&line[LINE - 2..], b"\r\n");
    }
}

#[test]
fn connections_are_limited_and_idle_ones_closed() {
    let mut rig = rig(Kind::Discard, Net::default());
    let clients = [rig.client(), rig.client(), rig.client()];
    let fourth = rig.client();
    assert!(rig.net.is_reset(fourth));
    assert_eq!((rig.server.app.counts.refused.get(), rig.server.counts.refused.get()), (1, 1));
    rig.pass(Duration::from_secs(200));
    rig.say(clients[0], b"x");
    rig.pass(Duration::from_secs(100));
    assert_eq!(rig.server.app.counts.idle.get(), 2);
    assert!(!rig.net.is_reset(clients[0]) && rig.net.is_reset(clients[1]) && rig.net.is_reset(clients[2]));
    rig.pass(Duration::from_secs(200));
    assert_eq!((rig.server.app.counts.idle.get(), rig.server.open_chans()), (3, 0));
}

#[test]
fn the_longest_idle_is_evicted_and_connections_per_peer_are_limited() {
    let mut rig =
        Rig::new(Small::new(Config { conns_max: 3, conns_per_peer: 2, ..Config::new(Kind::Echo) }), Net::default());
    let clients = [rig.client(), rig.client(), rig.client_from([1, 0, 0, 3])];
    rig.pass(Duration::from_secs(2));
    let greedy = rig.client();
    assert!(rig.net.is_reset(greedy) && clients.iter().all(|client| !rig.net.is_reset(*client)));
    assert_eq!(rig.say(clients[0], b"x"), "x");
    let other = rig.client_from([1, 0, 0, 4]);
    assert_eq!(rig.say(other, b"y"), "y");
    assert!(rig.net.is_reset(clients[1]) && !rig.net.is_reset(clients[0]) && !rig.net.is_reset(clients[2]));
    assert_eq!((rig.server.app.counts.evicted.get(), rig.server.app.counts.refused.get()), (1, 1));
    assert_eq!((rig.server.open_chans(), rig.net.fds()), (3, 4));
}

#[test]
fn a_reset_frees_the_connection() {
    for kind in [Kind::Echo, Kind::Discard, Kind::Chargen, Kind::Sink] {
        let mut rig = rig(kind, Net::default());
        let client = rig.client();
        rig.say(client, b"x");
        rig.net.far_reset(client);
        rig.run_until_idle();
        assert_eq!((rig.server.counts.gone.get(), rig.net.fds()), (1, 1), "{kind:?}");
    }
}
