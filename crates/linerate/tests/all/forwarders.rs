//! Forwarders on virtual time: every decision, expiry, limits, and the audit after each.

use linerate::net::tasks::{TcpForwarder, TcpListener, TcpStream, UdpForwarder, UdpSocket, sleep};
use linerate::net::{self, Ancillary, Opt, OptKind};
use linerate::sim::World;
use linerate::{Host, HostBuilder, LocalHost};
use std::cell::Cell;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

/// Addresses of one family.
struct Net {
    /// Network of a link, without the number of the link, and its prefix length.
    link: &'static str,
    len: u8,
    local: &'static str,
    /// Destination that only the local route of the proxy covers.
    far: &'static str,
}

const NETS: [Net; 2] = [
    Net { link: "10.0.", len: 24, local: "0.0.0.0/0", far: "203.0.113.7" },
    Net { link: "fd00:", len: 32, local: "::/0", far: "2001:db8::7" },
];

impl Net {
    /// Returns the address of a host on a link, as text.
    fn host(&self, link: usize, host: usize) -> String {
        let between = if self.link.ends_with(':') { "::" } else { "." };
        format!("{}{link}{between}{host}", self.link)
    }

    /// Returns the client on the first link, with any port.
    fn client(&self) -> SocketAddr {
        SocketAddr::new(self.host(0, 2).parse().unwrap(), 0)
    }

    fn far(&self, port: u16) -> SocketAddr {
        SocketAddr::new(self.far.parse().unwrap(), port)
    }
}

/// Returns a world with a proxy for all addresses of `nets`, and a client on each of `links` that
/// uses it as its gateway.
fn proxy_and_clients(seed: u64, nets: &[Net], links: &[&str]) -> (World, LocalHost, Vec<LocalHost>) {
    let mut world = World::new(seed);
    let (mut proxy, mut clients) = (Host::builder().name("proxy"), Vec::new());
    for (at, port) in links.iter().enumerate() {
        let addrs = |host: HostBuilder, number| {
            nets.iter().fold(host.port(port), |host, net| host.addr(&format!("{}/{}", net.host(at, number), net.len)))
        };
        proxy = addrs(proxy, 1);
        let client = addrs(Host::builder().name(&format!("client{at}")), 2);
        let client = nets.iter().fold(client, |client, net| client.gateway(&net.host(at, 1)));
        clients.push(client.build_in(&mut world).unwrap());
    }
    let proxy = nets.iter().fold(proxy, |proxy, net| proxy.local(net.local)).build_in(&mut world).unwrap();
    world.run_for(Duration::from_secs(3)); // duplicate address detection
    (world, proxy, clients)
}

fn proxy_and_client(net: &Net, seed: u64, link: &str) -> (World, LocalHost, LocalHost) {
    let (world, proxy, mut clients) = proxy_and_clients(seed, std::slice::from_ref(net), &[link]);
    (world, proxy, clients.pop().unwrap())
}

/// Checks the audit once all connections have ended.
fn end(world: &World) {
    world.run_for(Duration::from_secs(200));
    assert_eq!(world.unaccounted(), []);
}

/// Polls a future once: it must not be complete.
fn begin<T>(future: std::pin::Pin<&mut impl Future<Output = T>>) {
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(future.poll(&mut cx).is_pending());
}

#[test]
fn a_connection_is_accepted_refused_or_ignored() {
    for (net, seed) in NETS.iter().flat_map(|net| (0..20).map(move |seed| (net, seed))) {
        let (world, proxy, client) = proxy_and_client(net, seed, "impair(loss=10%,delay=5ms):pair:lan");
        world.spawn(async move {
            let forwarder = TcpForwarder::bind(&proxy).unwrap();
            for _ in 0..3 {
                let request = forwarder.next().await.unwrap();
                assert_eq!(request.peer_addr().ip(), net.client().ip());
                match request.local_addr().port() {
                    80 => {
                        sleep(&proxy, Duration::from_millis(700)).await; // reaches the real destination
                        let (to, from) = (request.local_addr(), request.peer_addr());
                        assert_eq!(to, net.far(80));
                        let stream = request.accept().await.unwrap();
                        assert_eq!((stream.local_addr().unwrap(), stream.peer_addr().unwrap()), (to, from));
                        stream.write_all(b"accepted").await.unwrap();
                    }
                    81 => request.refuse().unwrap(),
                    _ => drop(request),
                }
            }
            std::future::pending::<()>().await; // the forwarder stays
        });
        let run = async |port: u16| {
            let (stream, mut text) = (TcpStream::connect(&client, net.far(port)).await?, Vec::new());
            stream.read_to_end(&mut text).await?;
            Ok::<_, std::io::Error>(text)
        };
        assert_eq!(world.block_on(run(80)).unwrap().unwrap(), b"accepted", "{} seed {seed}", net.far);
        let refused = world.block_on(run(81)).unwrap().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused, "{} seed {seed}", net.far);
        let ignored = world.block_on(run(82)).unwrap().unwrap_err();
        assert_eq!(ignored.kind(), ErrorKind::TimedOut, "{} seed {seed}", net.far);
        end(&world);
    }
}

/// An undecided request expires; a peer that gives up while its handshake is accepted ends the wait.
#[test]
fn requests_expire_and_accept_ends_when_the_peer_is_gone() {
    for net in &NETS {
        let (world, proxy, client) = proxy_and_client(net, 1, "pair:lan");
        let forwarder = TcpForwarder::bind(&proxy).unwrap();
        assert_eq!(TcpForwarder::bind(&proxy).unwrap_err().kind(), ErrorKind::AddrInUse);
        let connecting = TcpStream::connect(&client, net.far(80));
        let kept = world.block_on(async {
            begin(std::pin::pin!(connecting));
            forwarder.next().await.unwrap() // the connecting future is dropped here, and resets nothing
        });
        let request = kept.unwrap();
        client.remove_port("lan"); // the peer disappears
        let gone = world.block_on(request.accept()).unwrap();
        assert_eq!(gone.unwrap_err().kind(), ErrorKind::TimedOut);

        let (world, proxy, client) = proxy_and_client(net, 2, "pair:lan");
        let forwarder = TcpForwarder::bind(&proxy).unwrap();
        let client2 = client.clone();
        world.spawn(async move { drop(TcpStream::connect(&client2, net.far(80)).await) });
        let request = world.block_on(forwarder.next()).unwrap().unwrap();
        world.run_for(Duration::from_secs(300));
        assert_eq!(world.block_on(request.accept()).unwrap().unwrap_err().kind(), ErrorKind::TimedOut);
        end(&world);
    }
}

/// An accept that is given up leaves neither a handshake nor a connection behind, whether the peer's
/// ACK arrives before or after.
#[test]
fn a_cancelled_accept_leaves_nothing_behind() {
    for (net, delay) in NETS.iter().flat_map(|net| [(net, 0), (net, 30)]) {
        let (world, proxy, client) = proxy_and_client(net, 4, "impair(delay=10ms):pair:lan");
        let forwarder = TcpForwarder::bind(&proxy).unwrap();
        let connecting = client.clone();
        world.spawn(async move {
            if let Ok(stream) = TcpStream::connect(&connecting, net.far(80)).await {
                assert_eq!(stream.read(&mut [0]).await.unwrap_err().kind(), ErrorKind::ConnectionReset);
            }
        });
        let request = world.block_on(forwarder.next()).unwrap().unwrap();
        {
            let mut accepting = Box::pin(request.accept());
            begin(accepting.as_mut());
            world.run_for(Duration::from_millis(delay));
        }
        world.run_for(Duration::from_secs(10));
        assert_eq!(proxy.connections().len(), 1, "the listener alone");
        end(&world);
    }
}

#[test]
fn datagrams_are_accepted_refused_or_ignored() {
    for (net, seed) in NETS.iter().flat_map(|net| (0..20).map(move |seed| (net, seed))) {
        let (world, proxy, client) = proxy_and_client(net, seed, "impair(delay=1ms):pair:lan");
        let of_proxy = proxy.clone();
        world.spawn(async move {
            let forwarder = UdpForwarder::bind(&proxy).unwrap();
            assert_eq!(UdpForwarder::bind(&proxy).unwrap_err().kind(), ErrorKind::AddrInUse);
            for _ in 0..3 {
                let request = forwarder.next().await.unwrap();
                match request.local_addr().port() {
                    53 => {
                        sleep(&proxy, Duration::from_millis(20)).await;
                        let (to, from) = (request.local_addr(), request.peer_addr());
                        let socket = request.accept().unwrap();
                        assert_eq!((socket.local_addr().unwrap(), socket.peer_addr().unwrap()), (to, from));
                        assert_eq!((to, from.ip()), (net.far(53), net.client().ip()));
                        let mut buf = [0; 4096];
                        for n in 0..3 {
                            let len = socket.recv(&mut buf).await.unwrap();
                            let sent = if n == 1 { 3000 } else { 1 }; // the second one arrives in fragments
                            assert_eq!((len, buf[0]), (sent, n), "the held datagrams come first, in order");
                            socket.send(&buf[..1]).await.unwrap();
                        }
                    }
                    54 => request.refuse().unwrap(),
                    _ => drop(request),
                }
            }
        });
        let socket_to = async |port| {
            let socket = UdpSocket::bind(&client, net.client()).await.unwrap();
            socket.connect(net.far(port)).await.unwrap();
            socket
        };
        let answers = world.block_on(async {
            let (socket, mut received) = (socket_to(53).await, Vec::new());
            for n in 0..3u8 {
                socket.send(if n == 1 { &[1; 3000] } else { std::slice::from_ref(&n) }).await.unwrap();
            }
            for _ in 0..3 {
                let mut buf = [0; 16];
                let len = socket.recv(&mut buf).await.unwrap();
                received.extend_from_slice(&buf[..len]);
            }
            received
        });
        assert_eq!(answers.unwrap(), [0, 1, 2], "{} seed {seed}", net.far);
        let refused = world.block_on(async {
            let socket = socket_to(54).await;
            socket.send(b"x").await.unwrap();
            socket.recv(&mut [0; 1]).await.unwrap_err().kind()
        });
        assert_eq!(refused.unwrap(), ErrorKind::ConnectionRefused, "{} seed {seed}", net.far);
        assert_eq!(no_socket(&of_proxy), 1, "the refused datagram");
        world.block_on(async { socket_to(55).await.send(b"x").await.unwrap() }).unwrap();
        end(&world);
        assert_eq!(no_socket(&of_proxy), 2, "the ignored datagram");
    }
}

fn no_socket(host: &LocalHost) -> u64 {
    host.drops().iter().find(|drop| drop.name == "inet.udp.in.no_socket").map_or(0, |drop| drop.value)
}

const LINKS: [&str; 2] = ["impair(delay=2ms):pair:lan0", "impair(delay=3ms):pair:lan1"];

/// One forwarder of each kind takes the requests of several clients and of both families.
#[test]
fn clients_of_both_families_are_served_at_once() {
    for seed in 0..5 {
        let (world, proxy, clients) = proxy_and_clients(seed, &NETS, &LINKS);
        let (tcp, udp) = (TcpForwarder::bind(&proxy).unwrap(), UdpForwarder::bind(&proxy).unwrap());
        let text = |to: SocketAddr, from: SocketAddr| format!("{to} for {from}");
        world.spawn(async move {
            let (mut streams, mut datagrams) = (Vec::new(), Vec::new());
            for _ in 0..4 {
                streams.push(tcp.next().await.unwrap());
                datagrams.push(udp.next().await.unwrap());
            }
            for request in streams.into_iter().rev() {
                let answer = text(request.local_addr(), request.peer_addr());
                let stream = request.accept().await.unwrap();
                assert_eq!(text(stream.local_addr().unwrap(), stream.peer_addr().unwrap()), answer);
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
            for request in datagrams.into_iter().rev() {
                let answer = text(request.local_addr(), request.peer_addr());
                let socket = request.accept().unwrap();
                assert_eq!(text(socket.local_addr().unwrap(), socket.peer_addr().unwrap()), answer);
                socket.send(answer.as_bytes()).await.unwrap();
            }
            std::future::pending::<()>().await; // the forwarders stay
        });
        let served = Rc::new(Cell::new(0));
        for (net, client) in NETS.iter().flat_map(|net| clients.iter().map(move |client| (net, client.clone()))) {
            let served = served.clone();
            world.spawn(async move {
                let any = if net.far(0).is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
                let socket = UdpSocket::bind(&client, any).await.unwrap();
                socket.connect(net.far(53)).await.unwrap();
                socket.send(b"x").await.unwrap();
                let (stream, mut answer) = (TcpStream::connect(&client, net.far(80)).await.unwrap(), Vec::new());
                stream.read_to_end(&mut answer).await.unwrap();
                assert_eq!(answer, text(net.far(80), stream.local_addr().unwrap()).into_bytes());
                let mut buf = [0; 100];
                let len = socket.recv(&mut buf).await.unwrap();
                assert_eq!(buf[..len], *text(net.far(53), socket.local_addr().unwrap()).as_bytes());
                served.set(served.get() + 1);
            });
        }
        world.run_for(Duration::from_secs(10));
        assert_eq!(served.get(), 4, "seed {seed}");
        end(&world);
    }
}

/// Several forwarders share a host: the longest prefix applies, also to a forwarder for all
/// addresses, and what no prefix contains is refused.
#[test]
fn forwarders_serve_different_prefixes() {
    let (world, proxy, clients) = proxy_and_clients(1, &NETS, &LINKS[..1]);
    let client = &clients[0];
    let (tcp, udp) =
        (|prefix| TcpForwarder::bind_prefix(&proxy, prefix), |prefix| UdpForwarder::bind_prefix(&proxy, prefix));
    for prefix in ["", "203.0.113.0", "203.0.113.0/33", "2001:db8::/x"] {
        assert_eq!(tcp(prefix).unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(udp(prefix).unwrap_err().kind(), ErrorKind::InvalidInput);
    }
    let prefixes = ["203.0.113.0/24", "203.0.0.0/8", "2001:db8::/32"];
    let mut by_tcp: Vec<_> = prefixes.iter().map(|prefix| tcp(prefix).unwrap()).collect();
    let mut by_udp: Vec<_> = prefixes.iter().map(|prefix| udp(prefix).unwrap()).collect();
    assert_eq!(tcp("203.0.113.7/24").unwrap_err().kind(), ErrorKind::AddrInUse);
    assert_eq!(udp("203.0.113.7/24").unwrap_err().kind(), ErrorKind::AddrInUse);
    let connect = |to: &str| world.block_on(TcpStream::connect(client, to)).unwrap();
    assert_eq!(connect("198.51.100.1:80").unwrap_err().kind(), ErrorKind::ConnectionRefused);
    assert_eq!(connect("[3fff::1]:80").unwrap_err().kind(), ErrorKind::ConnectionRefused);
    by_tcp.push(TcpForwarder::bind(&proxy).unwrap());
    by_udp.push(UdpForwarder::bind(&proxy).unwrap());
    let check = |tcp: &TcpForwarder<LocalHost>, udp: &UdpForwarder<LocalHost>, to: &str| {
        let to: SocketAddr = to.parse().unwrap();
        let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let exchange = async {
            let mut connecting = Box::pin(TcpStream::connect(client, to));
            begin(connecting.as_mut());
            let request = tcp.next().await.unwrap();
            assert_eq!(request.local_addr(), to);
            let _stream = request.accept().await.unwrap();
            connecting.await.unwrap();
            let socket = UdpSocket::bind(client, any).await.unwrap();
            socket.send_to(b"x", to).await.unwrap();
            let request = udp.next().await.unwrap();
            assert_eq!(request.local_addr(), to);
            request.accept().unwrap().recv(&mut [0]).await.unwrap();
        };
        world.block_on_within(Duration::from_secs(10), exchange).unwrap();
    };
    let all = ["203.0.113.7:80", "203.9.0.1:80", "[2001:db8::7]:80", "198.51.100.1:81"];
    by_tcp.iter().zip(&by_udp).zip(all).for_each(|((tcp, udp), to)| check(tcp, udp, to));
    check(&by_tcp[3], &by_udp[3], "[3fff::1]:81");
    // The addresses of a forwarder that has ended belong to the next shorter prefix.
    drop((by_tcp.remove(0), by_udp.remove(0)));
    check(&by_tcp[0], &by_udp[0], "203.0.113.8:80");
    drop((by_tcp, by_udp));
    assert_eq!(connect("203.0.113.9:80").unwrap_err().kind(), ErrorKind::ConnectionRefused);
    end(&world);
}

/// A listener for any address and port is dual-stack, with mapped IPv4 addresses.
#[test]
fn a_listener_for_any_port_takes_both_families() {
    let (world, proxy, clients) = proxy_and_clients(1, &NETS, &LINKS);
    let listener = net::TcpListener::bind_with(&proxy, "[::]:0", &[Opt::BindAny(true)], 8).unwrap();
    assert_eq!(TcpForwarder::bind(&proxy).unwrap_err().kind(), ErrorKind::AddrInUse);
    let listener = TcpListener::from_blocking(listener).unwrap();
    for (net, client) in NETS.iter().zip(&clients) {
        let both = async {
            let (client, server) =
                (TcpStream::connect(client, net.far(443)).await.unwrap(), listener.accept().await.unwrap());
            (client, server.0)
        };
        let (_client, server) = world.block_on(both).unwrap();
        let local = server.local_addr().unwrap();
        assert_eq!((local.is_ipv6(), local.ip().to_canonical(), local.port()), (true, net.far(0).ip(), 443));
    }
    drop(listener);
    end(&world);
}

/// A datagram socket with `BindAny` sends from an address that the host does not have. An address
/// with a local route needs no option.
#[test]
fn a_datagram_socket_has_any_address() {
    for net in &NETS {
        let (world, proxy, client) = proxy_and_client(net, 1, "pair:any-source");
        let to = SocketAddr::new(net.host(0, 1).parse().unwrap(), 7);
        let receiver = net::UdpSocket::bind(&proxy, to).unwrap();
        assert_eq!(net::UdpSocket::bind(&client, net.far(53)).unwrap_err().kind(), ErrorKind::AddrNotAvailable);
        let far = net::UdpSocket::bind_with(&client, net.far(53), &[Opt::BindAny(true)]).unwrap();
        assert_eq!(far.local_addr().unwrap(), net.far(53));
        far.send_to(b"first", to).unwrap();
        // A socket without an address sends from any address, too, if it is in the ancillary data.
        let any = SocketAddr::new(if net.len == 24 { [0; 4].into() } else { [0; 16].into() }, 54);
        let source = Ancillary::source(net.far(0).ip());
        let plain = net::UdpSocket::bind(&client, any).unwrap();
        let refused = plain.send_msg(b"", to, &source).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::AddrNotAvailable);
        plain.set_option(Opt::BindAny(true)).unwrap();
        assert_eq!(plain.option(OptKind::BindAny).unwrap(), Opt::BindAny(true));
        plain.send_msg(b"second", to, &source).unwrap();
        world.run_for(Duration::from_secs(1));
        let mut buf = [0; 9];
        receiver.set_nonblocking(true).unwrap();
        assert_eq!(receiver.recv_from(&mut buf).unwrap(), (5, net.far(53)));
        assert_eq!(receiver.recv_from(&mut buf).unwrap(), (6, net.far(54)));
        for (local, port) in [(net.far(53), 53), (any, any.port())] {
            let local = net::UdpSocket::bind(&proxy, local).unwrap();
            net::UdpSocket::bind(&client, net.client()).unwrap().send_to(b"by route", net.far(port)).unwrap();
            world.run_for(Duration::from_secs(1));
            local.set_nonblocking(true).unwrap();
            assert_eq!(local.recv_from(&mut buf).unwrap().0, 8);
        }
        drop((far, plain, receiver));
        end(&world);
    }
}

/// A flood of first packets fills the limits and nothing else: the excess is dropped and counted.
#[test]
fn floods_of_first_packets_are_limited() {
    for net in &NETS {
        let (world, proxy, client) = proxy_and_client(net, 3, "pair:lan");
        let (tcp, udp) = (TcpForwarder::bind(&proxy).unwrap(), UdpForwarder::bind(&proxy).unwrap());
        let attack = client.clone();
        world.spawn(async move {
            for port in 1..1500u16 {
                let socket = UdpSocket::bind(&attack, net.client()).await.unwrap();
                socket.send_to(b"x", net.far(port)).await.unwrap();
                let mut connecting = Box::pin(TcpStream::connect(&attack, net.far(port)));
                begin(connecting.as_mut());
                sleep(&attack, Duration::from_micros(100)).await;
            }
        });
        world.run_for(Duration::from_secs(1));
        let drops = proxy.drops();
        let of = |name: &str| drops.iter().find(|drop| drop.name == name).map_or(0, |drop| drop.value);
        assert_eq!(of("inet.tcp.in.accept_queue_full"), 1499 - 1024, "{drops:?}");
        // At most an eighth of the 4096 buffers.
        assert_eq!(of("inet.udp.in.no_socket"), 1499 - 512, "{drops:?}");
        assert_eq!(proxy.audit().held, 512);
        drop((tcp, udp));
        assert_eq!(proxy.audit().held, 0);
        end(&world);
    }
}
