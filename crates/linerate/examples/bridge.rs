//! A learning bridge with VLANs: a and b are in VLAN 10, c is in VLAN 20.

use linerate::net::UdpSocket;
use linerate::{Bridge, Host};
use std::time::Duration;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let bridge = Bridge::builder()
        .port("pair:a")
        .port("pair:b")
        .port("pair:c")
        .vlan_filtering()
        .untagged("a", 10)
        .untagged("b", 10)
        .untagged("c", 20)
        .build()?;
    let host = |name: &str, addr: &str| Host::builder().name(name).port(&format!("pair:{name}")).addr(addr).build();
    let (a, b, c) = (host("a", "10.0.0.1/24")?, host("b", "10.0.0.2/24")?, host("c", "10.0.0.3/24")?);

    let receives = |receiver: &Host, addr: &str, wait: u64| -> std::io::Result<bool> {
        let (to, from) = (UdpSocket::bind(receiver, addr)?, UdpSocket::bind(&a, "10.0.0.1:0")?);
        to.set_read_timeout(Some(Duration::from_millis(wait)))?;
        from.send_to(b"hello", addr)?;
        Ok(to.recv(&mut [0; 16]).is_ok())
    };
    let (same, other) = (receives(&b, "10.0.0.2:9", 10_000)?, receives(&c, "10.0.0.3:9", 500)?);
    println!("VLAN 10 to VLAN 10: {same}, to VLAN 20: {other}");
    bridge.addrs().iter().for_each(|addr| println!("{} in VLAN {} at port {}", addr.mac, addr.vlan, addr.port));
    assert!(same && !other && bridge.wait_idle(Duration::from_secs(10)));
    Ok(())
}
