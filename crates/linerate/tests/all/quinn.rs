//! Sockets for quinn, through quinn's own trait.

use linerate::{Host, net};
use quinn::AsyncUdpSocket;
use quinn::udp::{EcnCodepoint, RecvMeta, Transmit};
use std::io::{self, ErrorKind, IoSliceMut};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

const TO: &str = "10.0.0.2:4433";

fn transmit(destination: SocketAddr, contents: &[u8]) -> Transmit<'_> {
    Transmit { destination, ecn: Some(EcnCodepoint::Ect0), contents, segment_size: None, src_ip: None }
}

/// Receives datagrams into buffers of `count` elements, and waits for the first one.
fn receive(socket: &dyn AsyncUdpSocket, count: usize) -> io::Result<Vec<(Vec<u8>, RecvMeta)>> {
    let (mut bytes, mut meta) = (vec![vec![0; 2000]; count], vec![RecvMeta::default(); count]);
    let began = Instant::now();
    loop {
        let mut bufs: Vec<_> = bytes.iter_mut().map(|bytes| IoSliceMut::new(bytes)).collect();
        let mut cx = Context::from_waker(Waker::noop());
        if let Poll::Ready(received) = socket.poll_recv(&mut cx, &mut bufs, &mut meta) {
            let all = bytes.into_iter().zip(meta).take(received?);
            return Ok(all.map(|(bytes, meta)| (bytes[..meta.len].to_vec(), meta)).collect());
        }
        assert!(began.elapsed() < Duration::from_secs(10), "no datagram");
        std::thread::yield_now();
    }
}

#[test]
fn datagrams_have_ecn_and_their_destination() {
    let a = Host::builder().port("pair:quinn").addr("10.0.0.1/24").addr("10.0.0.3/24").build().unwrap();
    let b = Host::builder().port("pair:quinn").addr("10.0.0.2/24").build().unwrap();
    let from = net::quinn::bind(&a, "0.0.0.0:5000".parse().unwrap()).unwrap();
    let to = net::quinn::bind(&b, "0.0.0.0:4433".parse().unwrap()).unwrap();
    assert!(!to.may_fragment() && to.local_addr().unwrap().port() == 4433);
    let at = TO.parse().unwrap();
    from.try_send(&Transmit { src_ip: Some([10, 0, 0, 3].into()), ..transmit(at, b"one") }).unwrap();
    let [(bytes, meta)] = &receive(&*to, 4).unwrap()[..] else { panic!("one datagram") };
    assert_eq!((bytes.as_slice(), meta.addr, meta.stride), (&b"one"[..], "10.0.0.3:5000".parse().unwrap(), 3));
    assert_eq!((meta.ecn, meta.dst_ip), (Some(EcnCodepoint::Ect0), Some([10, 0, 0, 2].into())));

    // A datagram that is longer than the path allows is lost, as probes of the path MTU are. An
    // error would end the connection.
    from.try_send(&transmit(at, &[7; 1600])).unwrap();
    from.try_send(&transmit("198.51.100.1:9".parse().unwrap(), b"without a route")).unwrap();
    from.try_send(&Transmit { ecn: None, ..transmit(at, b"two") }).unwrap();
    let [(bytes, meta)] = &receive(&*to, 4).unwrap()[..] else { panic!("one datagram") };
    assert_eq!((bytes.as_slice(), meta.ecn), (&b"two"[..], None));

    a.shutdown(Duration::ZERO).unwrap();
    let stopped = from.try_send(&transmit(at, b"three")).and_then(|()| receive(&*from, 1).map(drop)).unwrap_err();
    assert_eq!(stopped.kind(), ErrorKind::ConnectionAborted);
}

struct Count(AtomicU64);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A host without buffers makes the sender wait, and wakes it.
#[test]
fn a_sender_waits_for_buffers() {
    let host = Host::builder().port("null:n0").addr("10.0.0.1/24").buffers(64).build().unwrap();
    let socket = net::quinn::bind(&host, "10.0.0.1:5000".parse().unwrap()).unwrap();
    let hoard = net::UdpSocket::bind(&host, "127.0.0.1:9").unwrap();
    for _ in 0..200 {
        let _ = hoard.send_to(&[0; 100], "127.0.0.1:9"); // fails once no buffer is free
    }
    let waits = socket.try_send(&transmit("127.0.0.1:9".parse().unwrap(), b"x")).unwrap_err();
    assert_eq!(waits.kind(), ErrorKind::WouldBlock);
    let (count, mut poller) = (Arc::new(Count(AtomicU64::new(0))), socket.create_io_poller());
    let waker = Waker::from(count.clone());
    let mut cx = Context::from_waker(&waker);
    assert!(poller.as_mut().poll_writable(&mut cx).is_pending());
    drop(hoard); // with the datagrams that it has not read
    let began = Instant::now();
    while count.0.load(Ordering::Relaxed) == 0 {
        assert!(began.elapsed() < Duration::from_secs(10), "the task is not woken");
        std::thread::yield_now();
    }
    assert!(poller.as_mut().poll_writable(&mut cx).is_ready());
}
