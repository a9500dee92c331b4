//! Two threads run one host, each with its part of the ports. No frame is lost or reordered.

use clock::{Clock, Strategy};
use inet::iface::IfaceAddr;
use linerate_node as node;
use lock::{Light, Locks, Up};
use node::Host;
use node::config::{HostConfig, IfaceConfig};
use port::Pairs;
use socket::Opt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const DATAGRAMS: u32 = 20_000;

fn host<L: Locks>(name: &str) -> Host<L> {
    let config = HostConfig { name: name.to_owned(), locks: L::NAME.to_owned(), ..HostConfig::default() };
    Host::new(&config, Clock::live(Strategy::default())).unwrap()
}

fn plug<L: Locks>(host: &Host<L>, net: u8, last: u8, pairs: &Pairs) {
    let addresses = vec![IfaceAddr { addr: [10, 9, net, last].into(), len: 24 }];
    let iface = IfaceConfig { addresses, ..IfaceConfig::on(&format!("pair:p{net}")) };
    host.add_port(&iface, pairs).unwrap();
}

/// Sends numbers to the shared host, and checks that they return in order.
fn echo(net: u8, pairs: &Pairs) {
    let far = host::<Up>(&format!("far{net}"));
    plug(&far, net, 2, pairs);
    let (calls, to) = (far.calls(), SocketAddr::from(([10, 9, net, 1], 7)));
    let fd = calls.socket().unwrap();
    calls.connect(fd, to).unwrap();
    calls.set_option(fd, Opt::RecvTimeout(Some(Duration::from_secs(10)))).unwrap();
    for n in 0..DATAGRAMS {
        calls.send(fd, &n.to_be_bytes()).unwrap();
        let mut got = [0; 8];
        assert_eq!(calls.recv(fd, &mut got).unwrap(), 4);
        assert_eq!(u32::from_be_bytes(*got.first_chunk().unwrap()), n);
    }
    let audit = far.stack.audit(far.cx());
    assert_eq!((audit.imbalance(), audit.dropped), (0, 0), "{audit:?}");
}

#[test]
fn two_threads_share_the_ports_of_a_host() {
    let pairs = Pairs::new();
    let mut near = host::<Light>("near");
    near.divide(2);
    [0, 1].iter().for_each(|net| plug(&near, *net, 1, &pairs));
    let over = AtomicBool::new(false);
    let is_over = || over.load(Ordering::Relaxed);
    thread::scope(|scope| {
        scope.spawn(|| near.run(is_over));
        scope.spawn(|| assert!(near.run_part(1, is_over)));
        // The sockets are bound before the remote hosts send, because a datagram to a closed port
        // is rejected.
        let bound = [0u8, 1].map(|net| {
            let calls = near.shared_calls();
            let fd = calls.socket().unwrap();
            calls.bind(fd, SocketAddr::from(([10, 9, net, 1], 7))).unwrap();
            calls.set_option(fd, Opt::RecvTimeout(Some(Duration::from_secs(10)))).unwrap();
            fd
        });
        for fd in bound {
            let near = &near;
            scope.spawn(move || {
                let calls = near.shared_calls();
                let mut buffer = [0; 64];
                for _ in 0..DATAGRAMS {
                    let (len, from) = calls.recv_from(fd, &mut buffer).unwrap();
                    calls.send_to(fd, &buffer[..len], &from).unwrap();
                }
            });
        }
        let far = [0, 1].map(|net| {
            let pairs = &pairs;
            scope.spawn(move || echo(net, pairs))
        });
        let done = far.map(|far| far.join());
        over.store(true, Ordering::Relaxed);
        assert!(done.into_iter().all(|done| done.is_ok()));
    });
    let audit = near.stack.audit(near.cx());
    assert_eq!((audit.imbalance(), audit.dropped), (0, 0), "{audit:?}");
    assert_eq!(near.stack.counter("inet.udp.sent"), 2 * u64::from(DATAGRAMS));
}
