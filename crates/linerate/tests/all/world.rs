//! Simulations: tasks on virtual time, deadlocks, and calls that cannot wait.

use linerate::net::tasks::{self, TcpListener, TcpStream};
use linerate::net::{self, UdpSocket};
use linerate::sim::{Stalled, World};
use linerate::{Host, LocalHost};
use std::io::ErrorKind;
use std::time::Duration;

fn two(world: &mut World, link: &str) -> (LocalHost, LocalHost) {
    let a = Host::builder().name("a").port(link).addr("10.0.0.1/24").dns([10, 0, 0, 2].into());
    let a = a.build_in(world).unwrap();
    let b = Host::builder().name("b").port(link).addr("10.0.0.2/24").build_in(world).unwrap();
    (a, b)
}

/// A blocking call returns an error that says what to do; it does not hang.
#[test]
fn a_blocking_call_in_a_world_is_an_error() {
    let mut world = World::new(1);
    let (a, b) = two(&mut world, "pair:link");
    let listener = net::TcpListener::bind(&b, "10.0.0.2:80").unwrap();
    let socket = UdpSocket::bind(&a, "10.0.0.1:0").unwrap();
    for error in [
        net::TcpStream::connect(&a, "10.0.0.2:80").unwrap_err(),
        listener.accept().unwrap_err(),
        socket.recv(&mut [0]).unwrap_err(),
        net::TcpStream::connect(&a, "example.org:80").unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Deadlock);
        assert!(error.to_string().contains("net::tasks"), "{error}");
    }
    // Non-blocking sockets work between steps of the world.
    let peer = UdpSocket::bind(&b, "10.0.0.2:9").unwrap();
    peer.set_nonblocking(true).unwrap();
    socket.send_to(b"x", "10.0.0.2:9").unwrap();
    assert_eq!(peer.recv(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
    world.run_for(Duration::from_secs(1));
    assert_eq!(peer.recv(&mut [0]).unwrap(), 1);
}

#[test]
fn a_task_that_nothing_can_wake_is_reported() {
    let mut world = World::new(1);
    let (a, b) = two(&mut world, "pair:link");
    let socket = world.block_on(tasks::UdpSocket::bind(&b, "10.0.0.2:9")).unwrap().unwrap();
    let stalled = world.block_on_within(Duration::from_secs(3600), socket.recv(&mut [0])).unwrap_err();
    assert!(matches!(stalled, Stalled::NoEvent { .. } | Stalled::TimedOut { .. }), "{stalled}");
    let late = world.block_on_within(Duration::from_secs(1), tasks::sleep(&a, Duration::from_secs(2)));
    assert_eq!(late.unwrap_err(), Stalled::TimedOut { limit: Duration::from_secs(1) });
    let began = world.elapsed();
    world.block_on(tasks::sleep(&a, Duration::from_secs(5))).unwrap();
    assert!(world.elapsed() - began >= Duration::from_secs(5));
}

/// A hundred tasks on two hosts; the same seed gives the same packets, another seed others.
#[test]
fn the_same_seed_gives_the_same_world() {
    let run = |seed| {
        let mut world = World::new(seed);
        let (a, b) = two(&mut world, "impair(loss=1%,delay=1ms):pair:link");
        let server = b.clone();
        world.spawn(async move {
            let listener = TcpListener::bind(&server, "10.0.0.2:80").await.unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                let mut text = Vec::new();
                if stream.read_to_end(&mut text).await.is_ok() {
                    drop(stream.write_all(&text).await);
                }
            }
        });
        let done = std::rc::Rc::new(std::cell::Cell::new(0));
        for n in 0..100u8 {
            let (host, done) = (a.clone(), done.clone());
            world.spawn(async move {
                let stream = TcpStream::connect(&host, "10.0.0.2:80").await.unwrap();
                stream.write_all(&[n; 1000]).await.unwrap();
                stream.shutdown().await.unwrap();
                let mut echo = Vec::new();
                stream.read_to_end(&mut echo).await.unwrap();
                assert_eq!(echo, [n; 1000]);
                done.set(done.get() + 1);
            });
        }
        world.run_for(Duration::from_secs(600));
        assert_eq!(done.get(), 100);
        assert_eq!(world.unaccounted(), []);
        (a.counter("inet.ip4.sent"), b.counter("inet.ip4.sent"), a.counter("tcp.out.data_bytes"))
    };
    assert_eq!(run(5), run(5));
    assert_ne!(run(5), run(6));
}
