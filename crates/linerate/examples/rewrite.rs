//! A packet filter and rewriter between two ports: it drops what a filter does not permit, and
//! redirects port 80 of the server to port 8080.

use linerate::net::UdpSocket;
use linerate::port::{Relay, Towards, Verdict};
use linerate::wire::L4Port;
use linerate::wire::edit::{Layout, Side};
use linerate::{Host, filter::Filter};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

static OVER: AtomicBool = AtomicBool::new(false);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let permitted = Filter::compile("arp or udp port 80 or udp port 8080")?;
    let decide = move |towards, frame: &mut [u8]| {
        if !permitted.matches(frame) {
            return Verdict::Drop;
        }
        let (layout, web, server) = (Layout::of(frame), L4Port(80), L4Port(8080));
        match (towards, layout.ports(frame)) {
            (Towards::Right, Some((_, to))) if to == web => layout.set_port(frame, Side::Dst, server),
            (Towards::Left, Some((from, _))) if from == server => layout.set_port(frame, Side::Src, web),
            _ => false,
        };
        Verdict::Pass
    };
    let mut relay = Relay::open("pair:outside", "pair:inside")?;
    let thread = std::thread::spawn(move || relay.run(decide, || OVER.load(Ordering::Relaxed)));
    let client = Host::builder().name("client").port("pair:outside").addr("10.0.0.1/24").build()?;
    let server = Host::builder().name("server").port("pair:inside").addr("10.0.0.2/24").build()?;
    let (ask, answer) = (UdpSocket::bind(&client, "10.0.0.1:0")?, UdpSocket::bind(&server, "10.0.0.2:8080")?);
    ask.set_read_timeout(Some(Duration::from_secs(5)))?;
    ask.send_to(b"question", "10.0.0.2:80")?;
    let (_, from) = answer.recv_from(&mut [0; 16])?;
    answer.send_to(b"answer", from)?;
    println!("an answer from {}", ask.recv_from(&mut [0; 16])?.1);
    OVER.store(true, Ordering::Relaxed);
    thread.join().map_err(|_| "the relay panicked".into())
}
