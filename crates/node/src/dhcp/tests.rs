//! DHCP clients: against simulated servers on virtual time, and with hostile answers.

use super::lease::Lease;
use super::v4::{Action, Client, State, To, parse};
use super::v6;
use clock::{Duration, Instant};
use dhcproto::v4::{DhcpOption, Flags, HType, Message, MessageType, Opcode, OptionCode};
use dhcproto::v6 as wire6;
use dhcproto::{Decodable, Decoder, Encodable};
use std::net::Ipv4Addr;
use wire::Mac;

const MAC: Mac = Mac([0xb2, 0, 0, 0, 0, 1]);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const LEASED: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 77);

fn at(seconds: u64) -> Instant {
    Instant::from_millis(1000 * (1 + seconds))
}

/// Parses the only message among the actions.
#[track_caller]
fn sent(actions: &[Action]) -> (Message, To) {
    match actions {
        [Action::Send(bytes, to)] => {
            assert!(bytes.len() >= 300, "relays drop shorter messages");
            (Message::decode(&mut Decoder::new(bytes)).unwrap(), *to)
        }
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn configured(actions: &[Action]) -> Lease {
    match actions {
        [Action::Configure(Some(lease))] => (**lease).clone(),
        other => panic!("{other:?}"),
    }
}

/// Returns a server's answer to `query`.
fn answer(query: &Message, ty: MessageType) -> Message {
    let mut message = Message::default();
    message
        .set_opcode(Opcode::BootReply)
        .set_htype(HType::Eth)
        .set_xid(query.xid())
        .set_yiaddr(LEASED)
        .set_chaddr(query.chaddr());
    let options = message.opts_mut();
    for option in [
        DhcpOption::MessageType(ty),
        DhcpOption::ServerIdentifier(SERVER),
        DhcpOption::AddressLeaseTime(3600),
        DhcpOption::SubnetMask(Ipv4Addr::new(255, 255, 255, 0)),
        DhcpOption::Router(vec![SERVER]),
        DhcpOption::DomainNameServer(vec![SERVER]),
        DhcpOption::DomainName("lab.test".into()),
    ] {
        options.insert(option);
    }
    message
}

fn bytes(message: &Message) -> Vec<u8> {
    message.to_vec().unwrap()
}

/// A client with a lease from [`SERVER`], bound at `at(0)`.
fn bound() -> Client {
    let mut client = Client::new(MAC, "h");
    let (discover, _) = sent(&client.poll(at(0), 1));
    assert!(client.input(&bytes(&answer(&discover, MessageType::Offer)), at(0)).is_empty());
    let (request, _) = sent(&client.poll(at(0), 2));
    assert!(client.input(&bytes(&answer(&request, MessageType::Ack)), at(0)).is_empty());
    configured(&checked(&mut client, at(0)));
    assert_eq!(client.state(), State::Bound);
    client
}

/// Polls the client while it probes for its address, and lets the probes time out.
#[track_caller]
fn checked(client: &mut Client, mut now: Instant) -> Vec<Action> {
    for _ in 0..2 {
        assert_eq!((client.state(), client.poll(now, 5)), (State::Checking, vec![Action::Probe(LEASED)]));
        now = client.next();
    }
    client.poll(now, 5)
}

#[test]
fn a_lease_is_requested_renewed_and_released() {
    let mut client = Client::new(MAC, "h");
    let (discover, to) = sent(&client.poll(at(0), 7));
    assert_eq!(
        (discover.opcode(), discover.xid(), discover.chaddr(), to),
        (Opcode::BootRequest, 7, &MAC.0[..], To::Broadcast)
    );
    assert_eq!(discover.flags(), Flags::default().set_broadcast(), "without an address it receives broadcasts only");
    assert_eq!(discover.opts().get(OptionCode::Hostname), Some(&DhcpOption::Hostname("h".into())));
    client.input(&bytes(&answer(&discover, MessageType::Offer)), at(1));
    let (request, to) = sent(&client.poll(at(1), 8));
    assert_eq!((request.xid(), to, request.opts().msg_type()), (7, To::Broadcast, Some(MessageType::Request)));
    assert_eq!(request.opts().get(OptionCode::RequestedIpAddress), Some(&DhcpOption::RequestedIpAddress(LEASED)));
    assert_eq!(request.opts().get(OptionCode::ServerIdentifier), Some(&DhcpOption::ServerIdentifier(SERVER)));
    assert!(client.input(&bytes(&answer(&request, MessageType::Ack)), at(1)).is_empty());
    let lease = configured(&checked(&mut client, at(1)));
    assert_eq!((lease.addr.addr, lease.addr.len, lease.server), (LEASED, 24, SERVER));
    assert_eq!((lease.renew_at, lease.rebind_at, lease.until), (at(1801), at(3151), at(3601)));
    assert_eq!((lease.domains, lease.name_servers), (vec!["lab.test".to_string()], vec![SERVER]));
    // Renewing: after half of the lease time, the client sends a request to its server by unicast.
    assert_eq!(client.next(), at(1801));
    let (request, to) = sent(&client.poll(at(1801), 9));
    assert_eq!((client.state(), request.ciaddr(), to), (State::Renewing, LEASED, To::Server(SERVER)));
    assert_eq!(request.opts().get(OptionCode::ServerIdentifier), None, "RFC 2131 4.3.6");
    assert_eq!(client.next(), at(1801 + 675), "half of the time to T2");
    configured(&client.input(&bytes(&answer(&request, MessageType::Ack)), at(1802)));
    assert_eq!(client.next(), at(1802 + 1800));
    let actions = client.release(at(2000), 10);
    assert!(matches!(actions[..], [Action::Send(_, To::Server(SERVER)), Action::Configure(None)]), "{actions:?}");
    assert_eq!((client.next(), client.lease()), (Instant::NEVER, None));
}

#[test]
fn unanswered_discovers_back_off() {
    let mut client = Client::new(MAC, "h");
    let mut pauses = Vec::new();
    let mut now = at(0);
    for _ in 0..7 {
        sent(&client.poll(now, 1000));
        pauses.push(client.next().since(now).as_secs());
        now = client.next();
    }
    assert_eq!(pauses, [3, 7, 15, 31, 63, 63, 63], "4, 8, ... 64 s, less a second at random");
    // After four requests without an acknowledgment the client abandons the server.
    let (discover, _) = sent(&client.poll(now, 5));
    client.input(&bytes(&answer(&discover, MessageType::Offer)), now);
    for _ in 0..4 {
        now = now.max(client.next());
        assert_eq!(sent(&client.poll(now, 6)).0.opts().msg_type(), Some(MessageType::Request));
    }
    now = client.next();
    assert_eq!(sent(&client.poll(now, 6)).0.opts().msg_type(), Some(MessageType::Discover));
}

#[test]
fn a_lease_without_renewal_expires() {
    let mut client = bound();
    let mut tos = Vec::new();
    while client.next() < at(3600) {
        let (_, to) = sent(&client.poll(client.next(), 3));
        tos.push(to);
    }
    let direct = tos.iter().filter(|to| **to == To::Server(SERVER)).count();
    assert!(direct >= 3 && tos.len() > direct && tos.len() < 20, "{tos:?}");
    assert_eq!(client.poll(at(3600), 3), [Action::Configure(None)]);
    assert_eq!((client.state(), client.lease()), (State::Selecting, None));
    // Rebinding accepts any server.
    let mut client = bound();
    while client.state() != State::Rebinding {
        client.poll(client.next(), 3);
    }
    let (request, _) = sent(&client.poll(client.next(), 4));
    let mut other = answer(&request, MessageType::Ack);
    other.opts_mut().insert(DhcpOption::ServerIdentifier(Ipv4Addr::new(10, 0, 0, 9)));
    assert_eq!(configured(&client.input(&bytes(&other), at(3300))).server, Ipv4Addr::new(10, 0, 0, 9));
}

#[test]
fn a_nak_ends_the_lease_and_the_client_pauses() {
    let mut client = bound();
    let (request, _) = sent(&client.poll(client.next(), 3));
    let mut nak = answer(&request, MessageType::Nak);
    nak.set_yiaddr(Ipv4Addr::UNSPECIFIED);
    assert_eq!(client.input(&bytes(&nak), at(1900)), [Action::Configure(None)]);
    assert_eq!((client.state(), client.next()), (State::Selecting, at(1910)));
}

/// An address in use by another station is declined, and the client starts again after a pause.
#[test]
fn a_taken_address_is_declined() {
    let mut client = Client::new(MAC, "h");
    let (discover, _) = sent(&client.poll(at(0), 1));
    client.input(&bytes(&answer(&discover, MessageType::Offer)), at(0));
    let (request, _) = sent(&client.poll(at(0), 2));
    client.input(&bytes(&answer(&request, MessageType::Ack)), at(0));
    assert_eq!(client.poll(at(0), 3), [Action::Probe(LEASED)]);
    let (decline, to) = sent(&client.decline(at(0)));
    assert_eq!(
        (decline.opts().msg_type(), to, decline.ciaddr()),
        (Some(MessageType::Decline), To::Broadcast, Ipv4Addr::UNSPECIFIED)
    );
    assert_eq!(decline.opts().get(OptionCode::RequestedIpAddress), Some(&DhcpOption::RequestedIpAddress(LEASED)));
    assert_eq!(decline.opts().get(OptionCode::ServerIdentifier), Some(&DhcpOption::ServerIdentifier(SERVER)));
    assert_eq!((client.state(), client.next(), client.lease()), (State::Selecting, at(10), None));
    assert!(client.decline(at(0)).is_empty());
}

/// Forged and corrupted answers have no effect.
#[test]
fn replies_for_other_clients_are_ignored() {
    let query = |client: &mut Client| sent(&client.poll(at(0), 7)).0;
    let with = |change: &dyn Fn(&mut Message)| {
        let mut client = Client::new(MAC, "h");
        let mut offer = answer(&query(&mut client), MessageType::Offer);
        change(&mut offer);
        let actions = client.input(&bytes(&offer), at(0));
        assert!(actions.is_empty());
        client.state()
    };
    assert_eq!(with(&|_| {}), State::Requesting);
    let changes: [&dyn Fn(&mut Message); 10] = [
        &|m| _ = m.set_xid(8),
        &|m| _ = m.set_chaddr(&[0xb2, 0, 0, 0, 0, 2]),
        &|m| _ = m.set_opcode(Opcode::BootRequest),
        &|m| drop(m.opts_mut().insert(DhcpOption::MessageType(MessageType::Discover))),
        &|m| drop(m.opts_mut().remove(OptionCode::ServerIdentifier)),
        &|m| drop(m.opts_mut().remove(OptionCode::AddressLeaseTime)),
        &|m| _ = m.set_yiaddr(Ipv4Addr::UNSPECIFIED),
        &|m| _ = m.set_yiaddr(Ipv4Addr::new(127, 0, 0, 1)),
        &|m| _ = m.set_yiaddr(Ipv4Addr::new(224, 0, 0, 1)),
        &|m| _ = m.set_yiaddr(Ipv4Addr::BROADCAST),
    ];
    for (at, change) in changes.iter().enumerate() {
        assert_eq!(with(change), State::Selecting, "change {at}");
    }
    // An acknowledgment from a server other than that of the accepted offer.
    let mut client = Client::new(MAC, "h");
    let discover = query(&mut client);
    client.input(&bytes(&answer(&discover, MessageType::Offer)), at(0));
    let (request, _) = sent(&client.poll(at(0), 8));
    let mut ack = answer(&request, MessageType::Ack);
    ack.opts_mut().insert(DhcpOption::ServerIdentifier(Ipv4Addr::new(10, 0, 0, 66)));
    assert!(client.input(&bytes(&ack), at(0)).is_empty());
    // Truncated answers.
    let whole = bytes(&answer(&request, MessageType::Ack));
    for len in 0..whole.len() - 80 {
        client.input(&whole[..len], at(0));
    }
    assert!(matches!(client.state(), State::Requesting | State::Checking));
    // Options with wrong lengths, including some for which the decoder would panic.
    for code in 1..=254 {
        for len in [0, 1, 3, 5, 255] {
            let start = &whole[..240];
            parse(&[start, &[code, len], &vec![code; len.into()], &[255]].concat());
        }
    }
    for hlen in [0, 16, 17, 255] {
        let mut other = whole.clone();
        other[2] = hlen;
        assert_eq!(parse(&other), None);
    }
    // A client that has sent no message accepts no answer.
    let mut idle = Client::new(MAC, "h");
    assert!(idle.input(&bytes(&answer(&Message::default(), MessageType::Ack)), at(0)).is_empty());
    assert_eq!(idle.state(), State::Selecting);
}

#[test]
fn lease_values_are_clamped() {
    let of = |change: &dyn Fn(&mut Message)| {
        let mut query = Message::default();
        query.set_chaddr(&MAC.0);
        let mut ack = answer(&query, MessageType::Ack);
        change(&mut ack);
        // The lease is encoded and decoded, as if it were received from a server.
        Lease::of(&parse(&bytes(&ack)).unwrap(), at(0)).unwrap()
    };
    let set = |option: DhcpOption| of(&|m| drop(m.opts_mut().insert(option.clone())));
    assert_eq!(set(DhcpOption::AddressLeaseTime(0)).until, at(20), "a short lease time is raised to the minimum");
    assert_eq!(set(DhcpOption::AddressLeaseTime(u32::MAX)).renew_at, Instant::NEVER);
    assert_eq!(set(DhcpOption::Renewal(4000)).renew_at, at(1800), "T1 is after the end of the lease");
    assert_eq!(set(DhcpOption::Renewal(0)).renew_at, at(1800));
    let timed = of(&|m| {
        m.opts_mut().insert(DhcpOption::Renewal(600));
        m.opts_mut().insert(DhcpOption::Rebinding(1200));
    });
    assert_eq!((timed.renew_at, timed.rebind_at), (at(600), at(1200)));
    for (mask, len) in [([255, 255, 255, 255], 32), ([255, 0, 255, 0], 8), ([0, 0, 0, 0], 8), ([255, 255, 240, 0], 20)]
    {
        assert_eq!(set(DhcpOption::SubnetMask(mask.into())).addr.len, len, "{mask:?}");
    }
    assert_eq!(set(DhcpOption::InterfaceMtu(100)).mtu, None);
    assert_eq!(set(DhcpOption::InterfaceMtu(1400)).mtu, Some(1400));
    let routes = |lease: Lease| lease.routes.iter().map(|(to, via)| format!("{to} {via}")).collect::<Vec<_>>();
    assert_eq!(
        routes(set(DhcpOption::Router(vec![LEASED, Ipv4Addr::UNSPECIFIED]))),
        [""; 0],
        "the client itself is not a gateway"
    );
    let classless = DhcpOption::ClasslessStaticRoute(vec![
        ("10.1.0.0/16".parse().unwrap(), SERVER),
        ("10.2.0.0/16".parse().unwrap(), Ipv4Addr::UNSPECIFIED),
        ("10.3.0.0/16".parse().unwrap(), Ipv4Addr::BROADCAST),
    ]);
    assert_eq!(routes(set(classless)), ["10.1.0.0/16 10.0.0.1", "10.2.0.0/16 0.0.0.0"], "RFC 3442: no default route");
}

#[test]
fn a_stateless_client_requests_and_refreshes() {
    let mut client = v6::Client::new(MAC);
    let first = client.poll(at(0), 0x0102_0304_0506_0708).unwrap();
    let request = v6::parse(&first).unwrap();
    assert_eq!((request.msg_type(), request.xid()), (wire6::MessageType::InformationRequest, [1, 2, 3]));
    let pause = client.next().since(at(0));
    assert!((Duration::from_millis(900)..=Duration::from_millis(1100)).contains(&pause), "{pause:?}");
    assert_eq!(client.poll(at(0), 1), None);
    let again = v6::parse(&client.poll(client.next(), 1).unwrap()).unwrap();
    assert_eq!(again.xid(), [1, 2, 3], "a retransmission");
    let reply = |change: &dyn Fn(&mut wire6::Message)| {
        let mut reply = wire6::Message::new_with_id(wire6::MessageType::Reply, [1, 2, 3]);
        reply.opts_mut().insert(wire6::DhcpOption::ServerId(vec![0, 3, 0, 1, 2, 2, 2, 2, 2, 2]));
        reply.opts_mut().insert(request.opts().get(wire6::OptionCode::ClientId).unwrap().clone());
        let servers = ["2001:db8::53", "ff02::1", "::1"].map(|addr| addr.parse().unwrap()).to_vec();
        reply.opts_mut().insert(wire6::DhcpOption::DomainNameServers(servers));
        reply.opts_mut().insert(wire6::DhcpOption::DomainSearchList(vec!["lab.test".parse().unwrap()]));
        change(&mut reply);
        reply.to_vec().unwrap()
    };
    let changes: [&dyn Fn(&mut wire6::Message); 4] = [
        &|m| _ = m.set_xid([9, 9, 9]),
        &|m| _ = m.set_msg_type(wire6::MessageType::Advertise),
        &|m| drop(m.opts_mut().remove(wire6::OptionCode::ServerId)),
        &|m| drop(m.opts_mut().remove(wire6::OptionCode::ClientId)),
    ];
    for change in changes {
        assert_eq!(client.input(&reply(change), at(2)), None);
    }
    let whole = reply(&|_| {});
    for len in 0..whole.len() {
        v6::parse(&whole[..len]);
    }
    // Options with wrong lengths, including some for which the decoder would panic. The other
    // options are read.
    for code in 0..=200u8 {
        for len in [0, 1, 3, 5, 255] {
            let (head, rest) = whole.split_at(4);
            let option = [&[0, code, 0, len][..], &vec![code; len.into()]].concat();
            let read = v6::parse(&[head, &option, rest].concat()).unwrap();
            assert!(read.opts().get(wire6::OptionCode::ServerId).is_some(), "after option {code} of {len} bytes");
        }
    }
    let refresh = |m: &mut wire6::Message| m.opts_mut().insert(wire6::DhcpOption::InformationRefreshTime(1));
    let taken = client.input(&reply(&refresh), at(2)).unwrap();
    assert_eq!(taken.name_servers, ["[2001:db8::53]:0".parse().unwrap()]);
    assert_eq!(taken.domains.iter().map(|d| d.trim_end_matches('.')).collect::<Vec<_>>(), ["lab.test"]);
    assert_eq!(client.next(), at(602), "at most one request per ten minutes");
    assert_eq!(client.input(&whole, at(3)), None, "the transaction is over");
}
