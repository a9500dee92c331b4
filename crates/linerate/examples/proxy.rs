//! A transparent proxy for IPv4 and IPv6: it accepts a connection after it has reached its destination.
use linerate::net::{TcpForwarder, TcpListener, TcpStream, UdpForwarder, UdpSocket};
use linerate::{Error, Host};
use std::io::{self, Read, Write};
use std::{net::Shutdown::Write as Writing, thread::spawn};

fn relay(forwarder: &TcpForwarder, exit: &Host) -> io::Result<()> {
    let request = forwarder.next()?;
    let Ok(to) = TcpStream::connect(exit, request.local_addr()) else { return request.refuse() };
    let (from, answers) = (request.accept()?, to.try_clone()?);
    let asks = from.try_clone()?;
    spawn(move || io::copy(&mut &asks, &mut &to).and_then(|_| to.shutdown(Writing)));
    io::copy(&mut &answers, &mut &from).and_then(|_| from.shutdown(Writing))
}

fn relay_datagrams(forwarder: &UdpForwarder, exit: &Host) -> io::Result<()> {
    let (request, to, mut buf) = (forwarder.next()?, UdpSocket::bind(exit, "[::]:0")?, [0; 1500]);
    let (destination, from) = (request.local_addr(), request.accept()?);
    from.recv(&mut buf).and_then(|len| to.send_to(&buf[..len], destination))?;
    to.recv(&mut buf).and_then(|len| from.send(&buf[..len])).map(drop)
}

fn main() -> Result<(), Error> {
    let host = |port, four, six| Host::builder().sysctl("net.inet6.ip6.dad_count", 0).port(port).addr(four).addr(six);
    let proxy = host("pair:lan", "10.0.0.1/24", "fd00::1/64").local("0.0.0.0/0").local("::/0").build()?;
    let client = host("pair:lan", "10.0.0.2/24", "fd00::2/64").gateway("10.0.0.1").gateway("fd00::1").build()?;
    let exit = host("pair:wan", "192.0.2.1/24", "2001:db8::1/64").build()?;
    let origin = host("pair:wan", "192.0.2.80/24", "2001:db8::80/64").build()?;
    let (tcp, udp, also) = (TcpForwarder::bind(&proxy)?, UdpForwarder::bind(&proxy)?, exit.clone());
    spawn(move || (0..2).try_for_each(|_| relay(&tcp, &exit)));
    spawn(move || relay_datagrams(&udp, &also));
    let (web, dns) = (TcpListener::bind(&origin, "[2001:db8::80]:80")?, UdpSocket::bind(&origin, "192.0.2.80:53")?);
    spawn(move || web.accept()?.0.write_all(b"an answer"));
    spawn(move || dns.recv_from(&mut [0; 9]).and_then(|(_, from)| dns.send_to(b"a name", from)));
    let (mut text, ask) = (String::new(), UdpSocket::bind(&client, "10.0.0.2:0")?);
    TcpStream::connect(&client, "[2001:db8::80]:80")?.read_to_string(&mut text)?;
    let len = ask.send_to(b"a question", "192.0.2.80:53").and_then(|_| ask.recv(&mut [0; 9]))?;
    println!("TCP: {text}; UDP: {len} bytes; port 81: {}", TcpStream::connect(&client, "192.0.2.80:81").unwrap_err());
    Ok(())
}
