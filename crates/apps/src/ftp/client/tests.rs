//! Tests of the client against a scripted server and against ours.

use super::*;
use crate::files::Root;
use crate::ftp::{Config, Ftp};
use crate::net::{Far, Net};
use crate::serve::Server;

const SERVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(1, 0, 0, 1)), 21);
const PATIENCE: Duration = Duration::from_secs(10);

fn down(enough: u64) -> Transfer {
    Transfer::Down { path: "/dev/zero", enough }
}

fn up(bytes: u64) -> Transfer {
    Transfer::Up { path: "/dev/null", bytes }
}

/// A client with a scripted server.
struct Played {
    net: Net,
    client: Server<Client, usize>,
    now: Instant,
    control: Far,
}

impl Played {
    fn new(transfer: Transfer) -> Played {
        Played::on(Net::default(), transfer)
    }

    fn on(mut net: Net, transfer: Transfer) -> Played {
        let now = Instant::from_millis(1_000);
        net.far_listens.insert(SERVER);
        net.far_listens.insert(SocketAddr::new(SERVER.ip(), 50_000));
        let client = Client::new(SERVER, transfer, PATIENCE, now);
        let mut client = Server::open(client, &mut net, &[], now).unwrap();
        let control = net.answer_connects()[0];
        turn(&mut client, &mut net, now);
        Played { net, client, now, control }
    }

    fn settle(&mut self) {
        turn(&mut self.client, &mut self.net, self.now);
    }

    /// Sends a reply; returns what the client sends next.
    fn say(&mut self, reply: &str) -> String {
        let mut rest = reply.as_bytes();
        while !rest.is_empty() {
            let n = self.net.far_send(self.control, rest);
            assert!(n > 0, "{reply}");
            rest = &rest[n..];
            self.settle();
        }
        String::from_utf8(self.net.far_recv(self.control, 10_000)).unwrap()
    }

    /// Runs the session up to the data connection and the transfer command.
    fn begin(&mut self) -> (Far, String) {
        assert_eq!(self.say("220-Welcome\r\n 220 not yet\r\n220 ready\r\n"), "USER anonymous\r\n");
        assert_eq!(self.say("331 password\r\n"), "PASS linerate@\r\n");
        assert_eq!(self.say("230 in\r\n"), "TYPE I\r\n");
        assert_eq!(self.say("200 image\r\n"), "EPSV\r\n");
        assert_eq!(self.say("229 Entering (|||50000|)\r\n"), "");
        let data = self.net.answer_connects()[0];
        self.settle();
        (data, self.say(""))
    }

    fn outcome(&mut self) -> Option<Result<(), Trouble>> {
        self.settle();
        self.client.app.outcome()
    }

    /// Returns the error text; checks that no channel or descriptor is left.
    fn trouble(&mut self) -> String {
        let trouble = self.outcome().expect("over").expect_err("failed").to_string();
        assert_eq!((self.client.open_chans(), self.client.lingering(), self.net.fds()), (0, 0, 0), "{trouble}");
        trouble
    }
}

fn turn(client: &mut Server<Client, usize>, net: &mut Net, now: Instant) {
    for turn in 0.. {
        assert!(turn < 10_000, "it does not settle");
        let worked = client.turn(net, now, Duration::ZERO);
        if worked == 0 && !client.is_runnable() && net.ready.is_empty() {
            return;
        }
    }
}

#[test]
fn a_download_is_aborted_after_enough_bytes() {
    let mut rig = Played::new(down(100_000));
    let (data, command) = rig.begin();
    assert_eq!(command, "RETR /dev/zero\r\n");
    // Data may arrive before the 150 reply.
    assert_eq!(rig.net.far_send(data, &[0; 60_000]), 60_000);
    assert_eq!(rig.say("150 here it comes\r\n"), "");
    assert_eq!((rig.client.app.moved(), rig.net.is_reset(data)), (60_000, false));
    assert_eq!(rig.net.far_send(data, &[0; 60_000]), 60_000);
    rig.settle();
    assert_eq!((rig.client.app.moved(), rig.net.is_reset(data)), (120_000, true));
    assert_eq!(rig.say("426 broke\r\n"), "QUIT\r\n");
    assert_eq!(rig.outcome(), None);
    assert_eq!(rig.say("221 bye\r\n"), "");
    assert_eq!(rig.outcome(), Some(Ok(())));
}

#[test]
fn a_complete_download_waits_for_the_reply_and_end_of_data() {
    for reply_first in [false, true] {
        let mut rig = Played::new(down(100_000));
        let (data, _) = rig.begin();
        rig.say("150 short\r\n");
        rig.net.far_send(data, b"short");
        if reply_first {
            assert_eq!(rig.say("226 done\r\n"), "");
        }
        rig.net.far_shut(data);
        rig.settle();
        let said = if reply_first { rig.say("") } else { rig.say("226 done\r\n") };
        assert_eq!(said, "QUIT\r\n", "reply first: {reply_first}");
        rig.say("221 bye\r\n");
        assert_eq!((rig.outcome(), rig.client.app.moved()), (Some(Ok(())), 5));
    }
}

#[test]
fn an_upload_starts_after_the_150_reply_and_ends_by_closing() {
    for bytes in [0, 5, 300_000] {
        let mut rig = Played::new(up(bytes));
        let (data, command) = rig.begin();
        assert_eq!((command.as_str(), rig.client.app.moved()), ("STOR /dev/null\r\n", 0));
        rig.say("150 send\r\n");
        let mut got = 0;
        while !rig.net.far_eof(data) {
            got += rig.net.far_recv(data, 50_000).len() as u64;
            rig.settle();
        }
        assert_eq!((got, rig.client.app.moved(), rig.net.is_reset(data)), (bytes, bytes, false));
        assert_eq!(rig.say("226 done\r\n"), "QUIT\r\n");
        rig.say("221 bye\r\n");
        assert_eq!(rig.outcome(), Some(Ok(())));
    }
}

#[test]
fn errors_quote_the_servers_reply() {
    for (transfer, replies, trouble) in [
        (down(1), &["421 full\r\n"][..], "connecting: server replied: 421 full"),
        (down(1), &["220 hi\r\n", "530 nobody\r\n"], "USER: server replied: 530 nobody"),
        (down(1), &["220 hi\r\n", "331 ?\r\n", "530 no\u{1b}[2J\r\n"], "PASS: server replied: 530 no?[2J"),
        (up(1), &["220 hi\r\n", "230 in\r\n", "504 no\r\n"], "TYPE: server replied: 504 no"),
        (
            up(1),
            &["220 hi\r\n", "230 in\r\n", "200 ok\r\n", "229 (|1|h|5|)\r\n"],
            "EPSV: server replied: 229 (|1|h|5|)",
        ),
        (up(1), &["hello\r\n"], "connecting: server replied: hello"),
        (up(1), &["22\r\n"], "connecting: server replied: 22"),
    ] {
        let mut rig = Played::new(transfer);
        replies.iter().for_each(|reply| drop(rig.say(reply)));
        assert_eq!(rig.trouble(), trouble);
    }
}

#[test]
fn refused_and_broken_transfers_are_reported_differently() {
    let mut refused = Played::new(down(1));
    refused.begin();
    refused.say("550 no such file\r\n");
    assert_eq!(refused.trouble(), "transfer: server replied: 550 no such file");
    let mut broken = Played::new(down(1));
    let (data, _) = broken.begin();
    broken.net.far_reset(data);
    assert_eq!(broken.trouble(), "transfer: data connection failed: connection closed or reset");
    // Reply 426 is an error unless the client has ended the download early.
    let mut failed = Played::new(down(10));
    failed.begin();
    failed.say("150 go\r\n426 broke\r\n");
    assert_eq!(failed.trouble(), "transfer: server replied: 426 broke");
}

#[test]
fn a_closed_or_silent_server_ends_the_session() {
    let mut gone = Played::new(down(1));
    gone.net.far_shut(gone.control);
    assert_eq!(gone.trouble(), "connecting: server closed the control connection");
    let mut silent = Played::new(down(1));
    silent.say("220 hi\r\n");
    silent.now = silent.now.after(PATIENCE);
    assert_eq!(silent.trouble(), "USER: timeout: no progress for 10 s");
    let mut endless = Played::new(down(1));
    // A multi-line reply that never ends exceeds the time limit.
    endless.say("220-a\r\n");
    for _ in 0..100 {
        endless.say("220-b\r\n");
    }
    endless.now = endless.now.after(PATIENCE);
    assert_eq!(endless.trouble(), "connecting: timeout: no progress for 10 s");
    let mut flood = Played::new(down(1));
    for _ in 0..100 {
        flood.net.far_send(flood.control, &[b'x'; 1_000]);
        flood.settle();
    }
    assert_eq!(flood.trouble(), "connecting: server replied: unterminated reply line");
}

#[test]
fn a_refused_connection_is_reported() {
    let now = Instant::from_millis(1);
    let mut net = Net::default();
    let mut client = Server::open(Client::new(SERVER, down(1), PATIENCE, now), &mut net, &[], now).unwrap();
    net.answer_connects();
    turn(&mut client, &mut net, now);
    let trouble = client.app.outcome().unwrap().unwrap_err();
    assert_eq!(trouble.to_string(), "connecting: control connection failed: connection refused");
}

#[test]
fn only_well_formed_229_replies_give_a_port() {
    assert_eq!(extended_port(b"229 Entering Extended Passive Mode (|||50000|)"), Some(50_000));
    assert_eq!(extended_port(b"229 (!!!7!)"), Some(7));
    for bad in [
        "229",
        "229 (",
        "229 ()",
        "229 (|||)",
        "229 (|||0|)",
        "229 (|||65536|)",
        "229 (||5|)",
        "229 (|||5)",
        "229 (1115 1)",
    ] {
        assert_eq!(extended_port(bad.as_bytes()), None, "{bad}");
    }
}

/// Transfers all data between two in-memory networks in both directions.
fn join(client: &mut Server<Client, usize>, server: &mut Server<Ftp, usize>, nets: &mut [Net; 2], now: Instant) {
    let mut joints: Vec<(Far, Far)> = Vec::new();
    for _ in 0..100_000 {
        client.turn(&mut nets[0], now, Duration::ZERO);
        server.turn(&mut nets[1], now, Duration::ZERO);
        let [near, far] = nets;
        near.far_listens.extend(far.listeners());
        for from in near.answer_connects() {
            let ends = near.ends_of(from);
            joints.push((
                from,
                far.connect_from(SocketAddr::from(([1, 0, 0, 2], ends.local.port())), ends.peer).unwrap(),
            ));
        }
        for &(a, b) in &joints {
            carry(near, a, far, b);
            carry(far, b, near, a);
        }
        if client.app.outcome().is_some() {
            return;
        }
    }
    panic!("it does not end");
}

/// Transfers bytes, FIN and reset from our side of `from` to our side of `to`.
fn carry(from: &mut Net, a: Far, to: &mut Net, b: Far) {
    let bytes = from.far_recv(a, to.far_room(b));
    if !bytes.is_empty() && !to.is_reset(b) {
        assert_eq!(to.far_send(b, &bytes), bytes.len());
    }
    if from.is_reset(a) && !to.is_reset(b) {
        to.far_reset(b);
    } else if from.far_eof(a) && !from.is_reset(a) {
        to.far_shut(b);
    }
}

#[test]
fn client_and_server_interoperate() {
    for (seed, transfer) in [(0, down(1_000_000)), (0, up(1_000_000)), (3, down(50_000)), (5, up(50_000)), (0, up(0))] {
        let now = Instant::from_millis(1_000);
        let what = format!("{transfer:?}, seed {seed}");
        let (bytes, is_up) = match transfer {
            Transfer::Down { enough, .. } => (enough, false),
            Transfer::Up { bytes, .. } => (bytes, true),
        };
        let mut nets = [Net { seed, window: 20_000, ..Net::default() }, Net { seed, window: 20_000, ..Net::default() }];
        let mut server = Server::open(Ftp::new(Config::new(Root::devices())), &mut nets[1], &[SERVER], now).unwrap();
        let mut client = Server::open(Client::new(SERVER, transfer, PATIENCE, now), &mut nets[0], &[], now).unwrap();
        join(&mut client, &mut server, &mut nets, now);
        assert_eq!(client.app.outcome(), Some(Ok(())), "{what}");
        assert!(client.app.moved() >= bytes, "{what}");
        let counts = &server.app.counts;
        let transfers = [counts.transfers.get(), counts.transfers_failed.get(), counts.bytes_in.get()];
        assert_eq!(transfers, if is_up { [1, 0, bytes] } else { [0, 1, 0] }, "{what}");
    }
}
