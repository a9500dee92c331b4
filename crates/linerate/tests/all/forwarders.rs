//! Forwarders on virtual time: every decision, expiry, limits, and the audit after each.

use linerate::net::tasks::{TcpForwarder, TcpStream, UdpForwarder, UdpSocket, sleep};
use linerate::sim::World;
use linerate::{Host, LocalHost};
use std::io::ErrorKind;
use std::time::Duration;

/// Returns a world with a proxy for all addresses, and a client that uses it as its gateway.
fn proxy_and_client(seed: u64, link: &str) -> (World, LocalHost, LocalHost) {
    let mut world = World::new(seed);
    let lan = || Host::builder().port(link);
    let proxy = lan().name("proxy").addr("10.0.0.1/24").local("0.0.0.0/0").build_in(&mut world).unwrap();
    let client = lan().name("client").addr("10.0.0.2/24").gateway("10.0.0.1").build_in(&mut world).unwrap();
    (world, proxy, client)
}

/// Checks the audit once all connections have ended.
fn end(world: &World) {
    world.run_for(Duration::from_secs(200));
    assert_eq!(world.unaccounted(), []);
}

#[test]
fn a_connection_is_accepted_refused_or_ignored() {
    for seed in 0..20 {
        let (world, proxy, client) = proxy_and_client(seed, "impair(loss=10%,delay=5ms):pair:lan");
        world.spawn(async move {
            let forwarder = TcpForwarder::bind(&proxy).unwrap();
            for _ in 0..3 {
                let request = forwarder.next().await.unwrap();
                assert_eq!(request.peer_addr().ip().to_string(), "10.0.0.2");
                match request.local_addr().port() {
                    80 => {
                        sleep(&proxy, Duration::from_millis(700)).await; // reaches the real destination
                        let to = request.local_addr();
                        let stream = request.accept().await.unwrap();
                        assert_eq!(stream.local_addr().unwrap(), to);
                        stream.write_all(b"accepted").await.unwrap();
                    }
                    81 => request.refuse().unwrap(),
                    _ => drop(request),
                }
            }
            std::future::pending::<()>().await; // the forwarder stays
        });
        let run = async |port: u16| {
            let (stream, mut text) = (TcpStream::connect(&client, ([203, 0, 113, 7], port)).await?, Vec::new());
            stream.read_to_end(&mut text).await?;
            Ok::<_, std::io::Error>(text)
        };
        assert_eq!(world.block_on(run(80)).unwrap().unwrap(), b"accepted", "seed {seed}");
        let refused = world.block_on(run(81)).unwrap().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused, "seed {seed}");
        let ignored = world.block_on(run(82)).unwrap().unwrap_err();
        assert_eq!(ignored.kind(), ErrorKind::TimedOut, "seed {seed}");
        end(&world);
    }
}

/// An undecided request expires; a peer that gives up while its handshake is accepted ends the wait.
#[test]
fn requests_expire_and_accept_ends_when_the_peer_is_gone() {
    let (world, proxy, client) = proxy_and_client(1, "pair:lan");
    let forwarder = TcpForwarder::bind(&proxy).unwrap();
    assert_eq!(TcpForwarder::bind(&proxy).unwrap_err().kind(), ErrorKind::AddrInUse);
    let connecting = TcpStream::connect(&client, "203.0.113.7:80");
    let kept = world.block_on(async {
        let mut connecting = std::pin::pin!(connecting);
        let waker = std::task::Waker::noop();
        assert!(connecting.as_mut().poll(&mut std::task::Context::from_waker(waker)).is_pending());
        forwarder.next().await.unwrap() // the connecting future is dropped here, and resets nothing
    });
    let request = kept.unwrap();
    client.remove_port("lan"); // the peer disappears
    let gone = world.block_on(request.accept()).unwrap();
    assert_eq!(gone.unwrap_err().kind(), ErrorKind::TimedOut);

    let (world, proxy, client) = proxy_and_client(2, "pair:lan");
    let forwarder = TcpForwarder::bind(&proxy).unwrap();
    let client2 = client.clone();
    world.spawn(async move { drop(TcpStream::connect(&client2, "203.0.113.7:80").await) });
    let request = world.block_on(forwarder.next()).unwrap().unwrap();
    world.run_for(Duration::from_secs(300));
    assert_eq!(world.block_on(request.accept()).unwrap().unwrap_err().kind(), ErrorKind::TimedOut);
    end(&world);
}

/// An accept that is given up leaves neither a handshake nor a connection behind, whether the peer's
/// ACK arrives before or after.
#[test]
fn a_cancelled_accept_leaves_nothing_behind() {
    for delay in [0, 30] {
        let (world, proxy, client) = proxy_and_client(4, "impair(delay=10ms):pair:lan");
        let forwarder = TcpForwarder::bind(&proxy).unwrap();
        let connecting = client.clone();
        world.spawn(async move {
            if let Ok(stream) = TcpStream::connect(&connecting, "203.0.113.7:80").await {
                assert_eq!(stream.read(&mut [0]).await.unwrap_err().kind(), ErrorKind::ConnectionReset);
            }
        });
        let request = world.block_on(forwarder.next()).unwrap().unwrap();
        {
            let mut accepting = Box::pin(request.accept());
            let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
            assert!(accepting.as_mut().poll(&mut cx).is_pending());
            world.run_for(Duration::from_millis(delay));
        }
        world.run_for(Duration::from_secs(10));
        assert_eq!(proxy.connections().len(), 1, "the listener alone");
        end(&world);
    }
}

#[test]
fn datagrams_are_accepted_refused_or_ignored() {
    for seed in 0..20 {
        let (world, proxy, client) = proxy_and_client(seed, "impair(delay=1ms):pair:lan");
        world.spawn(async move {
            let forwarder = UdpForwarder::bind(&proxy).unwrap();
            assert_eq!(UdpForwarder::bind(&proxy).unwrap_err().kind(), ErrorKind::AddrInUse);
            for _ in 0..3 {
                let request = forwarder.next().await.unwrap();
                match request.local_addr().port() {
                    53 => {
                        sleep(&proxy, Duration::from_millis(20)).await;
                        let socket = request.accept().unwrap();
                        let mut buf = [0; 16];
                        for n in 0..3 {
                            let len = socket.recv(&mut buf).await.unwrap();
                            assert_eq!(&buf[..len], [n], "the held datagrams come first, in order");
                            socket.send(&buf[..len]).await.unwrap();
                        }
                    }
                    54 => request.refuse().unwrap(),
                    _ => drop(request),
                }
            }
        });
        let client = &client;
        let answers = world.block_on(async {
            let socket = UdpSocket::bind(client, "10.0.0.2:0").await.unwrap();
            socket.connect("203.0.113.7:53").await.unwrap();
            let mut received = Vec::new();
            for n in 0..3u8 {
                socket.send(&[n]).await.unwrap();
            }
            for _ in 0..3 {
                let mut buf = [0; 16];
                let len = socket.recv(&mut buf).await.unwrap();
                received.extend_from_slice(&buf[..len]);
            }
            received
        });
        assert_eq!(answers.unwrap(), [0, 1, 2], "seed {seed}");
        let refused = world.block_on(async {
            let socket = UdpSocket::bind(client, "10.0.0.2:0").await.unwrap();
            socket.connect("203.0.113.7:54").await.unwrap();
            socket.send(b"x").await.unwrap();
            socket.recv(&mut [0; 1]).await.unwrap_err().kind()
        });
        assert_eq!(refused.unwrap(), ErrorKind::ConnectionRefused, "seed {seed}");
        world
            .block_on(async {
                let socket = UdpSocket::bind(client, "10.0.0.2:0").await.unwrap();
                socket.send_to(b"x", "203.0.113.7:55").await.unwrap();
            })
            .unwrap();
        end(&world);
    }
}

/// A flood of first packets fills the limits and nothing else: the excess is dropped and counted.
#[test]
fn floods_of_first_packets_are_limited() {
    let (world, proxy, client) = proxy_and_client(3, "pair:lan");
    let (tcp, udp) = (TcpForwarder::bind(&proxy).unwrap(), UdpForwarder::bind(&proxy).unwrap());
    let attack = client.clone();
    world.spawn(async move {
        for port in 1..1500u16 {
            let attack = attack.clone();
            let socket = UdpSocket::bind(&attack, "10.0.0.2:0").await.unwrap();
            socket.send_to(b"x", ([203, 0, 113, 7], port)).await.unwrap();
            let connecting = TcpStream::connect(&attack, ([203, 0, 113, 7], port));
            let mut connecting = Box::pin(connecting);
            let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
            assert!(connecting.as_mut().poll(&mut cx).is_pending());
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
