//! A host on virtual time, with the test as its DHCP server. A lease configures the host, and the
//! end of the lease removes this configuration.

use buf::{Burst, Frame};
use clock::{Clock, Duration, SimClock};
use dhcproto::v4::{CLIENT_PORT, DhcpOption, HType, Message, MessageType, Opcode, SERVER_PORT};
use dhcproto::{Decodable, Decoder, Encodable};
use lock::Up;
use node::Host;
use node::config::HostConfig;
use port::{Pairs, Port};
use std::cell::RefCell;
use std::net::Ipv4Addr;
use wire::checksum::Partial;
use wire::eth::{self, EtherType};
use wire::{L4Port, Mac, Proto, arp, ip4, udp};

const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const LEASED: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 77);

/// Returns a server's answer to `query`.
fn answer(query: &Message, ty: MessageType) -> Message {
    let mut message = Message::default();
    let reply = message.set_opcode(Opcode::BootReply).set_htype(HType::Eth).set_xid(query.xid());
    reply.set_yiaddr(LEASED).set_chaddr(query.chaddr());
    let options = [
        DhcpOption::MessageType(ty),
        DhcpOption::ServerIdentifier(SERVER),
        DhcpOption::AddressLeaseTime(3600),
        DhcpOption::SubnetMask(Ipv4Addr::new(255, 255, 255, 0)),
        DhcpOption::Router(vec![SERVER]),
        DhcpOption::DomainNameServer(vec![SERVER]),
        DhcpOption::DomainName("lab.test".into()),
    ];
    options.into_iter().for_each(|option| _ = message.opts_mut().insert(option));
    message
}

const SERVER_MAC: Mac = Mac([2, 0, 0, 0, 0, 0x11]);

/// A host with the interface `em0`, and the server's end of its link.
struct Link {
    host: Host<Up>,
    pairs: Pairs,
    clock: SimClock,
    far: RefCell<Port>,
}

impl Link {
    fn new() -> Link {
        let (clock, pairs) = (SimClock::new(), Pairs::new());
        clock.advance(Duration::from_secs(1));
        let config = HostConfig { name: "a".into(), pool_buffers: 256, seed: Some(7), ..HostConfig::default() };
        let host = Host::<Up>::new(&config, Clock::sim(&clock)).unwrap();
        let spec = port::Spec::parse("pair:ab").unwrap();
        let env = port::Env { pool: host.stack.pool.clone(), pairs: &pairs, mac: SERVER_MAC, unit: 0 };
        let far = RefCell::new(port::open(&spec, &env).unwrap());
        let link = Link { host, pairs, clock: clock.clone(), far };
        link.ok("ifconfig em0 create port pair:ab");
        link
    }

    /// Sends a frame to the host.
    fn send(&self, dst: Mac, ethertype: EtherType, payload: &[u8]) {
        let mut frame: Frame = self.host.stack.pool.get().unwrap();
        let mut link = [0; eth::HEADER_LEN];
        eth::Header { dst, src: SERVER_MAC, ethertype }.emit(&mut link);
        frame.extend(&[&link[..], payload].concat()).unwrap();
        let now = self.host.clock.now();
        assert_eq!(self.far.borrow_mut().tx.tx_burst(&mut Burst::of(frame), now), 1);
    }

    /// Sends a message of the server to `dst`.
    fn answer(&self, to: (Mac, Ipv4Addr), message: &Message) {
        let payload = message.to_vec().unwrap();
        let len = (payload.len() + udp::HEADER_LEN) as u16;
        let header = udp::Header { src: L4Port(SERVER_PORT), dst: L4Port(CLIENT_PORT), len, checksum: 0 };
        let (mut transport, mut network) = ([0; udp::HEADER_LEN], [0; ip4::HEADER_LEN]);
        header.with_checksum(Partial::pseudo4(SERVER, to.1, Proto::UDP, len), &payload).emit(&mut transport);
        ip4::Header::new(SERVER, to.1, Proto::UDP, len.into()).unwrap().emit(&mut network);
        ip4::fill_checksum(&mut network);
        self.send(to.0, EtherType::IPV4, &[&network[..], &transport, &payload].concat());
    }

    /// Claims an address by ARP.
    fn claim(&self, addr: Ipv4Addr) {
        let packet = arp::Packet { op: arp::Op::Request, sha: SERVER_MAC, spa: addr, tha: Mac::ZERO, tpa: addr };
        self.send(Mac::BROADCAST, EtherType::ARP, &packet.emit());
        while self.host.step().frames > 0 {}
    }

    /// Advances the time. The server answers ARP requests for its address, and answers each message
    /// with `reply`. Returns the types of the client's messages, and whether each was a broadcast.
    fn run(&self, ms: u64, reply: impl Fn(&Message, MessageType) -> Option<Message>) -> Vec<(MessageType, Cast)> {
        let mut seen = Vec::new();
        for _ in 0..ms {
            while self.host.step().frames > 0 {}
            let mut burst = Burst::new();
            self.far.borrow_mut().rx.rx_burst(&mut burst, 32, self.host.clock.now());
            for frame in burst.drain() {
                let link = eth::Header::parse(frame.bytes()).unwrap();
                let packet = &frame.bytes()[eth::HEADER_LEN..];
                if link.ethertype == EtherType::ARP {
                    let requested = arp::Packet::parse(packet).unwrap();
                    if requested.tpa == SERVER && requested.op == arp::Op::Request {
                        let (sha, spa) = (SERVER_MAC, SERVER);
                        let reported =
                            arp::Packet { op: arp::Op::Reply, sha, spa, tha: requested.sha, tpa: requested.spa };
                        self.send(requested.sha, EtherType::ARP, &reported.emit());
                    }
                    continue;
                }
                let ip = ip4::Header::parse(packet).unwrap();
                let payload = &ip.payload(packet)[udp::HEADER_LEN..];
                let message = Message::decode(&mut Decoder::new(payload)).unwrap();
                let ty = message.opts().msg_type().unwrap();
                seen.push((ty, if ip.dst.is_broadcast() { Cast::Broad } else { Cast::Uni }));
                if let Some(answer) = reply(&message, ty) {
                    let to = match message.ciaddr().is_unspecified() {
                        true => (Mac::BROADCAST, Ipv4Addr::BROADCAST),
                        false => (link.src, message.ciaddr()),
                    };
                    self.answer(to, &answer);
                }
            }
            self.clock.advance(Duration::from_millis(1));
        }
        seen
    }

    fn say(&self, line: &str) -> Result<String, String> {
        let words: Vec<&str> = line.split(' ').collect();
        crate::host::run(&self.host, &self.pairs, &words, false).map_err(|why| why.to_string())
    }

    #[track_caller]
    fn ok(&self, line: &str) -> String {
        self.say(line).unwrap_or_else(|why| panic!("{line}: {why}"))
    }

    #[track_caller]
    fn end(&self) {
        let host = &self.host;
        assert_eq!(host.stack.audit(host.cx()).imbalance(), 0);
    }
}

/// Transmission of a message as unicast or broadcast.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Cast {
    Uni,
    Broad,
}

const DISCOVER: (MessageType, Cast) = (MessageType::Discover, Cast::Broad);
const REQUEST: (MessageType, Cast) = (MessageType::Request, Cast::Broad);

/// Offers and acknowledges a lease of one minute with an MTU.
fn serve(query: &Message, ty: MessageType) -> Option<Message> {
    let ty = match ty {
        MessageType::Discover => MessageType::Offer,
        MessageType::Request => MessageType::Ack,
        _ => return None,
    };
    let mut message = answer(query, ty);
    message.opts_mut().insert(DhcpOption::AddressLeaseTime(60));
    message.opts_mut().insert(DhcpOption::InterfaceMtu(1400));
    Some(message)
}

#[test]
fn a_lease_configures_a_host_until_it_ends() {
    let link = Link::new();
    let before = (link.ok("ifconfig em0"), link.ok("ip route"));
    link.ok("dhclient em0");
    assert_eq!(link.run(1000, serve), [DISCOVER, REQUEST]);
    assert!(link.ok("dhclient").contains(&format!("em0: BOUND {LEASED}/24 from {SERVER}")), "{}", link.ok("dhclient"));
    let text = link.ok("ifconfig em0");
    assert!(text.contains(&LEASED.to_string()) && text.contains("mtu 1400"), "{text}");
    assert!(link.ok("ip route").contains(&format!("default via {SERVER} dev em0")));
    let resolvers = format!("nameserver {SERVER} (DHCP, em0)\nsearch lab.test (DHCP, em0)\n");
    assert_eq!(link.ok("resolvectl"), resolvers);
    // Half a minute later the lease is renewed by unicast, and nothing changes.
    assert_eq!(link.run(40_000, serve), [(MessageType::Request, Cast::Uni)]);
    assert_eq!((link.ok("ifconfig em0"), link.ok("resolvectl")), (text, resolvers));
    // Without answers, the client requests renewal from any server. At the end of the lease, its
    // configuration is removed, and discovery starts again.
    let sent = link.run(62_000, |_, _| None);
    assert!(sent.contains(&(MessageType::Request, Cast::Uni)) && sent.contains(&REQUEST), "{sent:?}");
    assert_eq!(sent.last(), Some(&DISCOVER));
    assert_eq!((link.ok("ifconfig em0"), link.ok("ip route"), link.ok("resolvectl")), (before.0, before.1, "".into()));
    link.end();
}

/// Configured addresses and routes are neither replaced nor removed.
#[test]
fn a_lease_keeps_configured_settings() {
    let link = Link::new();
    link.ok("ifconfig em0 inet 10.0.0.5/24");
    link.ok("ip route add default via 10.0.0.9");
    let before = (link.ok("ifconfig em0"), link.ok("ip route"));
    link.ok("dhclient em0");
    assert_eq!(link.run(1000, serve), [DISCOVER, REQUEST]);
    assert!(link.ok("ifconfig em0").contains(&LEASED.to_string()) && link.ok("ifconfig em0").contains("10.0.0.5"));
    assert!(link.ok("ip route").contains("default via 10.0.0.9"));
    link.ok("dhclient -r em0");
    assert_eq!(link.run(100, serve).first(), Some(&(MessageType::Release, Cast::Uni)));
    assert_eq!((link.ok("ifconfig em0"), link.ok("ip route"), link.ok("dhclient")), (before.0, before.1, "".into()));
    link.end();
}

/// An address claimed by another station during the probe is declined.
#[test]
fn a_claimed_address_is_declined() {
    let link = Link::new();
    link.ok("dhclient em0");
    link.run(20, serve);
    link.claim(LEASED);
    assert_eq!(link.run(1000, serve), [(MessageType::Decline, Cast::Broad)]);
    assert!(!link.ok("ifconfig em0").contains(&LEASED.to_string()));
    assert_eq!(link.run(11_000, serve), [DISCOVER, REQUEST], "ten seconds later it starts again");
    assert!(link.ok("dhclient").contains("BOUND"));
    link.end();
}

/// A client that is stopped or restarted during a probe ends the probe. Frames from the other
/// station are then processed again.
#[test]
fn the_probe_ends_with_the_client() {
    for line in ["dhclient -r em0", "dhclient em0"] {
        let link = Link::new();
        link.ok("dhclient em0");
        link.run(20, serve);
        assert!(link.ok("dhclient").contains("CHECKING"), "{}", link.ok("dhclient"));
        link.ok(line);
        link.claim(LEASED);
        assert_eq!(link.host.stack.counter("inet.arp.conflicts"), 0, "{line}");
        link.end();
    }
}

#[test]
fn invalid_dhclient_commands_are_rejected_with_reasons() {
    let link = Link::new();
    let no = |line: &str| link.say(line).unwrap_err();
    assert_eq!(no("dhclient -r em0"), "em0: no DHCP client runs on this interface");
    assert!(no("dhclient -r").contains("an interface"));
    assert!(no("dhclient lo0").contains("DHCP needs an Ethernet interface"));
    assert!(no("dhclient em7").contains("em7"));
    assert!(no("resolvectl dns banana").contains("an IP address"));
    assert!(no("resolvectl domain a..b").contains("a domain name"));
    assert!(no("resolvectl dsn 10.0.0.1").contains("did you mean 'dns'"));
    link.ok("resolvectl dns 10.0.0.1 2001:db8::53");
    link.ok("resolvectl domain lab.test");
    let text = "nameserver 10.0.0.1 (configured)\nnameserver 2001:db8::53 (configured)\nsearch lab.test (configured)\n";
    assert_eq!(link.ok("resolvectl"), text);
}
