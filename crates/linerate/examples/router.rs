//! Two hosts on different networks, and a router between them.

use linerate::net::UdpSocket;
use linerate::{Host, Router};
use std::time::Duration;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let router = Router::builder()
        .port("pair:left").addr("10.1.0.1/24").addr("fd00:1::1/64")
        .port("pair:right").addr("10.2.0.1/24").addr("fd00:2::1/64")
        .build()?;
    let left = Host::builder().name("left")
        .port("pair:left").addr("10.1.0.2/24").addr("fd00:1::2/64")
        .gateway("10.1.0.1").gateway("fd00:1::1")
        .build()?;
    let right = Host::builder().name("right")
        .port("pair:right").addr("10.2.0.2/24").addr("fd00:2::2/64")
        .gateway("10.2.0.1").gateway("fd00:2::1")
        .build()?;
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
    println!("{} packets forwarded", router.counter("inet.ip4.forwarded"));
    Ok(())
}
