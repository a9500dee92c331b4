//! Parts of a host's configuration: tunnels, offloads and static neighbors.

use linerate::net::tasks::UdpSocket;
use linerate::sim::World;
use linerate::{Host, LocalHost, Offload, Tunnel};
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
        let shown = hosts[0].command(&["ifconfig", name]).unwrap();
        assert!(shown.contains("10.9.0.1"), "{shown}");
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
fn offloads_are_set_or_rejected() {
    let flags = |port: &str, what, on| {
        let host = Host::builder().port(port).addr("10.0.0.1/24").offload(what, on).build_local()?;
        host.command(&["ifconfig", "p0"])
    };
    let kinds = [Offload::TransportChecksum, Offload::Segmentation, Offload::ReceiveChecksum, Offload::IpChecksum];
    for what in kinds {
        let why = flags("pair:p0", what, true).unwrap_err().to_string();
        assert!(why.contains("does not support"), "{why}");
        if what == Offload::Segmentation {
            continue; // only devices of the kernel support it
        }
        let (off, on) = (flags("pktgen:p0", what, false).unwrap(), flags("pktgen:p0", what, true).unwrap());
        assert_ne!(on, off, "{what:?}");
    }
}

#[test]
fn static_neighbors_of_both_families_need_no_resolution() {
    let host = Host::builder().port("null:n0").addr("10.0.0.1/24").addr("fd00::1/64");
    let host = host.neighbor([10, 0, 0, 9], [2, 0, 0, 0, 0, 9]);
    let host = host.neighbor("fd00::9".parse::<std::net::Ipv6Addr>().unwrap(), [2, 0, 0, 0, 0, 9]);
    let host = host.iface_name("renamed0").build_local().unwrap();
    let shown = host.command(&["ip", "neigh"]).unwrap();
    for addr in ["10.0.0.9", "fd00::9"] {
        let line = shown.lines().find(|line| line.starts_with(addr)).unwrap_or_else(|| panic!("{shown}"));
        assert!(line.contains("02:00:00:00:00:09") && line.contains("PERMANENT"), "{line}");
    }
    let far = "fd00::9".parse::<std::net::Ipv6Addr>().unwrap();
    assert!(Host::builder().neighbor(far, [2, 0, 0, 0, 0, 9]).build().is_err(), "there is no interface");
}
