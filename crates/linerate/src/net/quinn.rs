//! QUIC with the crate [`quinn`] (feature `quinn`).
//!
//! [`bind`] opens a UDP socket of a host for a `quinn::Endpoint`. The program selects the runtime
//! and the cryptography by features of quinn.
//!
//! ```no_run
//! use linerate::{Host, net};
//! use std::sync::Arc;
//!
//! // `runtime` is quinn::TokioRuntime, for example.
//! fn endpoint(
//!     host: &Host,
//!     config: quinn::EndpointConfig,
//!     runtime: Arc<dyn quinn::Runtime>,
//! ) -> Result<quinn::Endpoint, Box<dyn std::error::Error>> {
//!     let socket = net::quinn::bind(host, "10.0.0.2:4433".parse()?)?;
//!     Ok(quinn::Endpoint::new_with_abstract_socket(config, None, socket, runtime)?)
//! }
//! ```

use crate::Host;
use crate::net::tasks::UdpSocket;
use ::quinn::udp::{EcnCodepoint, RecvMeta, Transmit};
use ::quinn::{AsyncUdpSocket, UdpPoller};
use socket::{Ancillary, Message, Opt, PacketInfo};
use std::io::{self, ErrorKind, IoSliceMut};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// Bits of the type of service that contain ECN (RFC 3168 5).
const ECN: u8 = 3;

/// Opens a UDP socket for `quinn::Endpoint::new_with_abstract_socket`. Datagrams are not
/// fragmented, so that QUIC discovers the path MTU.
///
/// # Errors
/// `AddrInUse` if another socket has the address, `AddrNotAvailable` if the host does not have it.
pub fn bind(host: &Host, addr: SocketAddr) -> io::Result<Arc<dyn AsyncUdpSocket>> {
    let socket = super::UdpSocket::bind(host, addr)?;
    [Opt::DontFragment(true), Opt::RecvPacketInfo(true), Opt::RecvTos(true)]
        .into_iter()
        .try_for_each(|opt| socket.set_option(opt))?;
    Ok(Arc::new(Socket(UdpSocket::from_blocking(socket)?)))
}

#[derive(Debug)]
struct Socket(UdpSocket);

/// Waits until a socket can send, after a send has found no free buffer.
#[derive(Debug)]
struct Poller(Arc<Socket>);

impl AsyncUdpSocket for Socket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Box::pin(Poller(self))
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let info = transmit.src_ip.map(|addr| PacketInfo { addr, iface: None });
        let ancillary = Ancillary { info, tos: transmit.ecn.map(|ecn| ecn as u8), ..Ancillary::default() };
        let mut cx = Context::from_waker(Waker::noop());
        match self.0.poll_send_msg(&mut cx, transmit.contents, transmit.destination, &ancillary) {
            // quinn ends the connection on an error. Therefore a datagram that has no route or is
            // too long, such as a path MTU probe, is lost without an error.
            Poll::Ready(Err(why)) if why.kind() == ErrorKind::ConnectionAborted => Err(why),
            Poll::Ready(_) => Ok(()),
            Poll::Pending => Err(ErrorKind::WouldBlock.into()),
        }
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let mut count = 0;
        for (buf, meta) in bufs.iter_mut().zip(meta) {
            // Waits for the first datagram only.
            let received = match count {
                0 => std::task::ready!(self.0.poll_recv_msg(cx, buf))?,
                _ => match self.0.as_blocking().recv_msg(buf) {
                    Ok(message) => message,
                    Err(_) => break, // none, or an error that the next call reports
                },
            };
            *meta = meta_of(&received);
            count += 1;
        }
        Poll::Ready(Ok(count))
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    fn may_fragment(&self) -> bool {
        false
    }
}

impl UdpPoller for Poller {
    fn poll_writable(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.0.poll_writable(cx)
    }
}

fn meta_of(message: &Message) -> RecvMeta {
    let mut meta = RecvMeta::default();
    (meta.addr, meta.len, meta.stride) = (message.from, message.len, message.len);
    meta.ecn = message.ancillary.tos.and_then(|tos| EcnCodepoint::from_bits(tos & ECN));
    meta.dst_ip = message.ancillary.info.map(|info| info.addr);
    meta
}
