//! Hosts whose blocking calls run the rounds.

use buf::{Burst, Frame};
use clock::{Clock, Instant, Strategy};
use linerate_node as node;
use lock::Up;
use node::Host;
use node::config::{HostConfig, IfaceConfig};
use port::{Caps, Port, PortCounts, RxHalf, TxHalf};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use wire::Mac;

/// Port that delivers no frames, and counts the requests for its descriptor. Each request is a
/// sleep of the host.
struct Silent {
    fd: UnixStream,
    requested: Arc<AtomicU32>,
}

impl RxHalf for Silent {
    fn rx_burst(&mut self, _into: &mut Burst, _most: usize, _now: Instant) -> usize {
        0
    }

    fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        self.requested.fetch_add(1, Ordering::Relaxed);
        Some(self.fd.as_fd())
    }
}

struct Sink;

impl TxHalf for Sink {
    fn tx_burst(&mut self, from: &mut Burst, _now: Instant) -> usize {
        from.drain().map(drop::<Frame>).count()
    }
}

fn host() -> Host<Up> {
    Host::new(&HostConfig::default(), Clock::live(Strategy::Timespec)).unwrap()
}

/// A call does not read the clock unless it blocks. Its timeout starts when the wait starts.
#[test]
fn a_wait_is_measured_from_its_start() {
    let host = host();
    let calls = host.calls();
    let at = SocketAddr::from((Ipv4Addr::LOCALHOST, 7000));
    let wait = clock::Duration::from_millis(20);
    let (datagrams, listener) = (calls.socket().unwrap(), calls.stream_socket().unwrap());
    calls.bind(listener, at).unwrap();
    calls.listen(listener, 1).unwrap();
    for fd in [datagrams, listener] {
        calls.set_option(fd, socket::Opt::RecvTimeout(Some(wait))).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(40)); // the application has something else to do
        let until = host.clock.now().after(wait);
        let error = if fd == listener { calls.accept(fd).err() } else { calls.recv(fd, &mut [0; 4]).err() };
        assert_eq!((error, host.clock.now() >= until), (Some(socket::Errno::EAGAIN), true));
    }
}

#[test]
fn a_call_does_not_sleep_when_a_round_made_data_ready() {
    let host = host();
    let (fd, _other) = UnixStream::pair().unwrap();
    let requested = Arc::new(AtomicU32::new(0));
    let port = Port {
        name: "silent".to_string(),
        spec: "silent".to_string(),
        caps: Caps::PLAIN,
        rx: Box::new(Silent { fd, requested: requested.clone() }),
        tx: Box::new(Sink),
        counts: Arc::new(PortCounts::default()),
        nic: None,
    };
    host.attach("em0", Mac([2, 0, 0, 0, 0, 1]), port, &IfaceConfig::default()).unwrap();
    let calls = host.calls();
    let at = SocketAddr::from((Ipv4Addr::LOCALHOST, 7000));
    let fd = calls.socket().unwrap();
    calls.bind(fd, at).unwrap();
    for n in 0..5u8 {
        calls.send_to(fd, &[n], &at).unwrap();
        let mut got = [9; 4];
        assert_eq!(calls.recv(fd, &mut got).unwrap(), 1); // through the loopback queue: no frame of any port
        assert_eq!((got[0], requested.load(Ordering::Relaxed)), (n, 0), "the host did not sleep");
    }
    calls.set_option(fd, socket::Opt::RecvTimeout(Some(clock::Duration::from_millis(100)))).unwrap();
    // If the thread is scheduled again only after its timeout, the call does not sleep, and the
    // attempt is repeated.
    for _ in 0..5 {
        let until = host.clock.now().after(clock::Duration::from_millis(100));
        assert_eq!(calls.recv(fd, &mut [0; 4]), Err(socket::Errno::EAGAIN));
        assert!(host.clock.now() >= until);
        if requested.load(Ordering::Relaxed) > 0 {
            return;
        }
    }
    panic!("the host never slept while no data arrived");
}
