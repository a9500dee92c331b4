//! Parts of a host's configuration: tunnels, automatic addresses and search domains.

use linerate::error::BuildError;
use linerate::net::tasks::{self, UdpSocket};
use linerate::sim::World;
use linerate::{Error, Host, LocalHost, Router, Tunnel};
use std::error::Error as _;
use std::time::Duration;

/// Sends a datagram from one end of a tunnel to the other.
async fn exchange(from: &LocalHost, to: &LocalHost, [src, dst]: [&str; 2]) {
    let to = UdpSocket::bind(to, format!("{dst}:9").as_str()).await.unwrap();
    let from = UdpSocket::bind(from, format!("{src}:0").as_str()).await.unwrap();
    from.send_to(b"hello", format!("{dst}:9").as_str()).await.unwrap();
    let mut text = [0; 16];
    assert_eq!(to.recv(&mut text).await.unwrap(), 5);
}

#[test]
fn tunnels_of_each_kind_connect_hosts() {
    let (four, six) = (["10.0.0.1", "10.0.0.2"], ["fd00::1", "fd00::2"]);
    for (name, ends) in [("gif0", six), ("gre3", four), ("etherip1", four), ("vxlan7", six)] {
        let mut world = World::new(1);
        let mut hosts = Vec::new();
        for at in [0, 1] {
            let [near, far] = [ends[at], ends[1 - at]].map(|text| text.parse::<std::net::IpAddr>().unwrap());
            let tunnel = match Tunnel::between(near, far).ttl(9) {
                tunnel if name.starts_with("gre") => tunnel.key(7).sequence().checksum(),
                tunnel if name.starts_with("vxlan") => tunnel.vni(42).udp_port(8472),
                tunnel => tunnel,
            };
            let host = Host::builder().name(["a", "b"][at]).port("pair:outer");
            let host = host.addr(&format!("{}/24", four[at])).addr(&format!("{}/64", six[at]));
            let host = host.tunnel(name, tunnel).addr(&format!("10.9.0.{}/24", at + 1));
            hosts.push(host.build_in(&mut world).unwrap());
        }
        world.run_for(Duration::from_secs(3)); // duplicate address detection
        world.block_on(exchange(&hosts[0], &hosts[1], ["10.9.0.1", "10.9.0.2"])).unwrap();
        assert!(hosts[0].addrs().iter().any(|(iface, addr, _)| iface == name && addr.to_string() == "10.9.0.1"));
        world.run_for(Duration::from_secs(200));
        assert_eq!(world.unaccounted(), [], "{name}");
    }
    let ends = Tunnel::between([10, 0, 0, 1], [10, 0, 0, 2]);
    let wrong = Host::builder().tunnel("gif0", ends.key(7)).build().unwrap_err();
    assert!(wrong.to_string().contains("'key' has no effect"), "{wrong}");
    let wrong = Host::builder().tunnel("sit0", ends).build().unwrap_err();
    assert!(wrong.to_string().contains("sit0") && wrong.to_string().contains("gre0"), "{wrong}");
}

#[test]
fn a_host_configures_itself_from_a_router() {
    let mut world = World::new(1);
    let router = Router::builder().port("pair:lan").addr("2001:db8::1/64").advertise().build_in(&mut world).unwrap();
    let host = Host::builder().port("pair:lan").autoconf().build_in(&mut world).unwrap();
    world.run_for(Duration::from_secs(10));
    let addr = host.addrs().into_iter().map(|(_, addr, _)| addr.to_string()).find(|addr| addr.starts_with("2001:db8:"));
    let host_only = Host::builder().port("pair:none").advertise().build_local().unwrap_err().to_string();
    assert!(host_only.contains("Router::builder()"), "{host_only}");
    let addr = format!("[{}]", addr.unwrap());
    world.block_on(exchange(&router, &host, ["[2001:db8::1]", &addr])).unwrap();
}

/// A name without a dot is looked up in the search domains, one after the other.
#[test]
fn names_are_looked_up_in_the_search_domains() {
    let mut world = World::new(1);
    let a = Host::builder().name("a").port("pair:dns").addr("10.0.0.1/24").dns([10, 0, 0, 2].into());
    let a = a.search("other.test").search("lab.test").build_in(&mut world).unwrap();
    let b = Host::builder().name("b").port("pair:dns").addr("10.0.0.2/24").build_in(&mut world).unwrap();
    world.spawn(async move {
        let server = UdpSocket::bind(&b, "10.0.0.2:53").await.unwrap();
        let mut query = [0; 512];
        while let Ok((len, from)) = server.recv_from(&mut query).await {
            let question = &query[12..len];
            let is_known = question.starts_with(b"\x03web\x03lab\x04test\0\0\x01"); // type A
            let mut answer = query[..2].to_vec();
            answer.extend([0x81, if is_known { 0x80 } else { 0x83 }, 0, 1, 0, u8::from(is_known), 0, 0, 0, 0]);
            answer.extend(&question[..question.iter().position(|byte| *byte == 0).unwrap() + 5]);
            if is_known {
                answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 10, 0, 0, 7]);
            }
            server.send_to(&answer, from).await.unwrap();
        }
    });
    let found = world.block_on(tasks::lookup(&a, "web:80")).unwrap().unwrap();
    assert_eq!(found, ["10.0.0.7:80".parse().unwrap()]);
    assert!(world.block_on(tasks::lookup(&a, "ftp:21")).unwrap().is_err());
}

#[test]
#[cfg(feature = "dhcp")]
fn a_host_requests_an_address_by_dhcp() {
    let mut world = World::new(1);
    let _client = Host::builder().name("client").port("pair:dhcp").dhcp().build_in(&mut world).unwrap();
    let server = Host::builder().name("server").port("pair:dhcp").addr("10.0.0.1/24").build_in(&mut world).unwrap();
    let discover = world.block_on(async move {
        let mut message = vec![0; 600];
        let socket = UdpSocket::bind(&server, "0.0.0.0:67").await.unwrap();
        let len = socket.recv(&mut message).await.unwrap();
        message.truncate(len);
        message
    });
    let discover = discover.unwrap();
    assert_eq!((discover[0], &discover[236..240]), (1, &[99, 130, 83, 99][..]), "BOOTREQUEST");
    assert!(discover[240..].windows(3).any(|option| option == [53, 1, 1]), "DHCPDISCOVER");
}

#[test]
fn errors_of_building_have_their_causes_as_sources() {
    let unreachable = Host::builder().port("pair:sources").addr("10.0.0.1/24").route("10.9.0.0/16", "10.8.0.1");
    let error = unreachable.build_local().unwrap_err();
    assert!(matches!(&error, Error::Build(why) if matches!(**why, BuildError::Rejected { .. })), "{error:?}");
    assert!(error.source().unwrap().is::<linerate::error::CommandError>(), "{error}");
    let error = Host::builder().port("packet:nosuchdev").build_local().unwrap_err();
    assert!(error.source().is_some(), "{error}");
}

#[test]
fn a_routing_engine_needs_a_loopback_address_and_a_thread() {
    let listen = |address: &str| Host::builder().fpm(address.parse().unwrap());
    let text = |error: Error| error.to_string();
    let why = text(listen("10.0.0.1:2620").build().unwrap_err());
    assert!(why.contains("fpm 10.0.0.1:2620") && why.contains("use a loopback address"), "{why}");
    let why = text(listen("127.0.0.1:2620").build_local().unwrap_err());
    assert!(why.contains("fpm.listen 127.0.0.1:2620") && why.contains("use build()"), "{why}");
    let first = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = first.local_addr().unwrap();
    let why = text(listen(&address.to_string()).build().unwrap_err());
    assert!(why.contains(&format!("fpm.listen {address}: Address already in use")), "{why}");
    let host = listen("127.0.0.1:0").build().unwrap();
    drop(host);
}
