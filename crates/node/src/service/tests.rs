use super::*;
use crate::Host;
use crate::config::HostConfig;
use clock::{Clock, SimClock};
use lock::Up;
use std::net::Ipv4Addr;
use wire::L4Port;

fn host() -> Host<Up> {
    let config = HostConfig { name: "h".to_string(), pool_buffers: 64, seed: Some(1), ..HostConfig::default() };
    Host::new(&config, Clock::sim(&SimClock::new())).unwrap()
}

/// Sends a datagram from port `from` to a service of `kind` on `port`, and returns the length of
/// the reply.
fn answer(host: &Host<Up>, kind: ServiceKind, port: u16, from: u16) -> Result<usize, Errno> {
    let calls = host.shared_calls();
    let service = Service::open(&calls, ServiceConfig { kind, port: L4Port(port) }).unwrap();
    let fd = calls.socket().unwrap();
    calls.set_option(fd, Opt::NonBlocking(true)).unwrap();
    calls.bind(fd, SocketAddr::from((Ipv4Addr::LOCALHOST, from))).unwrap();
    calls.send_to(fd, b"hello", &SocketAddr::from((Ipv4Addr::LOCALHOST, port))).unwrap();
    host.step();
    assert_eq!(service.serve(&calls, &mut [0; 64]), 1, "the datagram is read, even if it is not answered");
    host.step();
    let got = calls.recv_from(fd, &mut [0; 64]).map(|(len, _)| len);
    calls.close(fd).unwrap();
    calls.close(service.fd()).unwrap();
    got
}

#[test]
fn echo_answers_and_discard_does_not() {
    let host = host();
    for from in [1024, 5000, 65_535] {
        assert_eq!(answer(&host, ServiceKind::Echo, 7, from), Ok(5), "from {from}");
        assert_eq!(answer(&host, ServiceKind::Discard, 9, from), Err(Errno::EAGAIN));
    }
    assert_eq!(host.stack.audit(host.cx()).imbalance(), 0);
}

/// CVE-1999-0103: a datagram whose forged source port is that of a service would make two services
/// answer each other forever.
#[test]
fn an_echo_does_not_answer_services() {
    let host = host();
    for (port, from) in [(7, 9), (7, 13), (7, 17), (7, 19), (7, 53), (7, 1023), (7007, 19), (7007, 7)] {
        assert_eq!(answer(&host, ServiceKind::Echo, port, from), Err(Errno::EAGAIN), "{port} from {from}");
    }
    // The service's own port cannot be bound twice, but a remote host may use it. The test
    // therefore binds it at another address.
    let calls = host.shared_calls();
    let service = Service::open(&calls, ServiceConfig { kind: ServiceKind::Echo, port: L4Port(7007) }).unwrap();
    let own = SocketAddr::from((Ipv4Addr::LOCALHOST, 7007));
    calls.send_to(service.fd(), b"loop", &own).unwrap();
    host.step();
    assert_eq!(service.serve(&calls, &mut [0; 64]), 1);
    host.step();
    assert_eq!(service.serve(&calls, &mut [0; 64]), 0, "the loop has not started");
    assert_eq!(host.stack.audit(host.cx()).imbalance(), 0);
}
