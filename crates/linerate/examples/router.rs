//! Two hosts on different networks, and a router between them.

use linerate::net::UdpSocket;
use linerate::{Host, HostBuilder, Router};
use std::time::Duration;

/// Adds an interface with an IPv4 and an IPv6 address.
fn on(builder: HostBuilder, port: &str, addr: &str, addr6: &str) -> HostBuilder {
    builder.port(port).addr(addr).addr(addr6)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let router = on(Router::builder(), "pair:left", "10.1.0.1/24", "fd00:1::1/64");
    let router = on(router, "pair:right", "10.2.0.1/24", "fd00:2::1/64").build()?;
    let left = on(Host::builder().name("left"), "pair:left", "10.1.0.2/24", "fd00:1::2/64");
    let left = left.gateway("10.1.0.1").gateway("fd00:1::1").build()?;
    let right = on(Host::builder().name("right"), "pair:right", "10.2.0.2/24", "fd00:2::2/64");
    let right = right.gateway("10.2.0.1").gateway("fd00:2::1").build()?;
    for host in [&router, &left, &right] {
        host.wait_configured()?; // duplicate address detection of IPv6 takes a second
    }
    for (from, to) in [("10.1.0.2:0", "10.2.0.2:9"), ("[fd00:1::2]:0", "[fd00:2::2]:9")] {
        let (client, server) = (UdpSocket::bind(&left, from)?, UdpSocket::bind(&right, to)?);
        server.set_read_timeout(Some(Duration::from_secs(5)))?;
        client.send_to(b"routed", to)?;
        let (len, peer) = server.recv_from(&mut [0; 16])?;
        println!("{len} bytes from {peer} to {to}");
    }
    println!("{} IPv4 packets forwarded", router.counter("inet.ip4.forwarded").unwrap_or(0));
    Ok(())
}
