//! Ports that the caller implements and that carry IP packets without Ethernet headers.

use super::{FrameSink, FrameSource};
use crate::Port;
use crate::ip_link::{IpLink, Outgoing};
use buf::Pool;
use std::io::{self, ErrorKind};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use wire::{Mac, eth};

/// Creates a port called `name` from a source and a sink of IP packets. The first four bits of a
/// packet are its IP version. `host` is the MAC address of the host's iface. As on a TUN device,
/// the port itself answers the host's ARP requests and neighbor solicitations. Frames that are
/// neither IP packets nor address resolution are dropped and counted as `port.tx.errors`. The
/// descriptor of the source must not change.
///
/// # Errors
/// The system's errors, such as no available descriptors, or a descriptor that cannot be waited for
/// (epoll(7)).
pub fn packets(
    name: &str,
    host: Mac,
    pool: &Pool,
    source: impl FrameSource + 'static,
    sink: impl FrameSink + 'static,
) -> io::Result<Port> {
    let link = Arc::new(IpLink::new(host, source.fd())?);
    Ok(super::port(name, pool, PacketSource { source, link: link.clone() }, PacketSink { sink, link }))
}

/// Source of the port's frames: the packets of `source` with an Ethernet header, and the port's own
/// answers to the host.
struct PacketSource<S> {
    source: S,
    link: Arc<IpLink>,
}

impl<S: FrameSource> FrameSource for PacketSource<S> {
    fn recv(&mut self, frame: &mut [u8]) -> io::Result<usize> {
        if let Some(answer) = self.link.take_answer() {
            // If the answer does not fit, the returned length makes the port drop it.
            if let Some(place) = frame.get_mut(..answer.len()) {
                place.copy_from_slice(&answer);
            }
            return Ok(answer.len());
        }
        let (front, packet) = frame.split_first_chunk_mut::<{ eth::HEADER_LEN }>().ok_or(ErrorKind::InvalidInput)?;
        let len = self.source.recv(packet)?;
        match packet.get(..len).and_then(|packet| self.link.header(packet)) {
            Some(header) => *front = header,
            None => return Ok(usize::MAX), // makes the port drop it as too long
        }
        Ok(eth::HEADER_LEN + len)
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.link.fd()
    }

    fn is_ready(&self) -> bool {
        self.link.has_answer() || self.source.is_ready()
    }
}

/// Sink that passes on the packets in the frames that the host sends.
struct PacketSink<S> {
    sink: S,
    link: Arc<IpLink>,
}

impl<S: FrameSink> FrameSink for PacketSink<S> {
    fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        match self.link.send(frame) {
            Outgoing::Packet => self.sink.send(frame.get(eth::HEADER_LEN..).unwrap_or_default()),
            Outgoing::Handled => Ok(()),
            Outgoing::Rejected => Err(ErrorKind::Unsupported.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }
}

#[cfg(test)]
mod tests;
