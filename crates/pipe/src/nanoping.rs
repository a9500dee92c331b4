//! `nanoping`: measures round-trip times in nanoseconds with a clock at the sending port, as
//! ethpipe's `nanosecping` does.
//!
//! [`Ping`] uses neither a port nor a clock: its caller sends and receives the frames and passes
//! the time. It resolves the target's address by ARP (RFC 826), then sends ICMP echo requests (RFC
//! 792). It also answers ARP requests for its own address, because the target could not reply
//! otherwise.

use clock::{Duration, Instant};
use std::net::Ipv4Addr;
use wire::eth::{self, EtherType};
use wire::icmp4::{self, Message};
use wire::{Mac, Proto, arp, ip4};

/// Interval between two ARP requests.
const ARP_EVERY: Duration = Duration::from_millis(500);
/// Maximum number of ARP requests.
const ARP_TRIES: u32 = 10;

/// Parameters of a measurement.
#[derive(Debug, Clone)]
pub struct PingConfig {
    /// IP address of the target.
    pub addr: Ipv4Addr,
    /// IP address of this station.
    pub own: Ipv4Addr,
    /// MAC address of this station.
    pub mac: Mac,
    /// ICMP identifier, which distinguishes these echo requests from those of other programs.
    pub ident: u16,
    /// Length of the ICMP payload in bytes, at most 1472.
    pub size: usize,
    /// Number of echo requests to send.
    pub count: u32,
    /// Interval between two requests. If it is zero, each request is sent when the reply to the
    /// previous one arrives.
    pub interval: Duration,
    /// Maximum time to wait for the reply to a request.
    pub wait: Duration,
}

/// Results of a measurement.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Figures {
    /// Number of requests sent.
    pub sent: u32,
    /// Number of replies received in time.
    pub received: u32,
    /// Number of replies that were duplicates or arrived too late.
    pub stray: u32,
    /// True if the target has answered an ARP request.
    pub found: bool,
    /// Round-trip times in nanoseconds, shortest first.
    pub rtts: Vec<u64>,
}

impl Figures {
    /// Returns the `percent`-th percentile of the round-trip times in nanoseconds (nearest rank);
    /// `None` if there are no round-trip times.
    pub fn percentile(&self, percent: usize) -> Option<u64> {
        let rank = (self.rtts.len() * percent).div_ceil(100).max(1);
        self.rtts.get(rank - 1).copied()
    }

    /// Returns the number of requests without a reply.
    pub fn lost(&self) -> u32 {
        self.sent.saturating_sub(self.received)
    }
}

/// A measurement in progress.
#[derive(Debug)]
pub struct Ping {
    config: PingConfig,
    target: Option<Mac>,
    requested: u32,
    /// Time at which the next frame is sent.
    next: Instant,
    /// Sending time of each request; `None` once the request is answered. The sequence number of a
    /// request is its index modulo 65536.
    sent: Vec<Option<Instant>>,
    last: Instant,
    figures: Figures,
}

impl Ping {
    /// Creates a measurement, which starts at the first call of [`Ping::poll`].
    pub fn new(config: PingConfig) -> Ping {
        let config = PingConfig { size: config.size.min(1472), ..config };
        let (next, last) = (Instant::ZERO, Instant::ZERO);
        Ping { config, target: None, requested: 0, next, sent: Vec::new(), last, figures: Figures::default() }
    }

    /// Returns the frame to send at `now`, if one is due.
    pub fn poll(&mut self, now: Instant) -> Option<Vec<u8>> {
        if now < self.next {
            return None;
        }
        let Some(target) = self.target else {
            if self.requested >= ARP_TRIES {
                return None;
            }
            self.requested += 1;
            self.next = now.after(ARP_EVERY);
            return Some(self.arp(arp::Op::Request, Mac::ZERO, self.config.addr));
        };
        if self.sent.len() >= self.config.count as usize {
            return None;
        }
        self.next = now.after(if self.config.interval.is_zero() { self.config.wait } else { self.config.interval });
        let frame = self.echo(target);
        self.sent.push(Some(now));
        self.last = now;
        self.figures.sent += 1;
        Some(frame)
    }

    /// Corrects the sending time of the last request to `at`, a time that was read just before the
    /// frame was passed to the port.
    pub fn left(&mut self, at: Instant) {
        if let Some(Some(sent)) = self.sent.last_mut() {
            *sent = at;
        }
    }

    /// Returns the time at which [`Ping::poll`] must be called next.
    pub fn next_event(&self) -> Instant {
        self.next
    }

    /// Returns whether the measurement has ended: all requests are answered or timed out, or the
    /// address could not be resolved.
    pub fn is_over(&self, now: Instant) -> bool {
        match self.target {
            None => self.requested >= ARP_TRIES && now >= self.next,
            Some(_) => {
                let all = self.sent.len() >= self.config.count as usize;
                all && (self.figures.lost() == 0 || now.since(self.last) >= self.config.wait)
            }
        }
    }

    /// Processes a frame received at `now`. Returns the frame to send in reply, if any.
    pub fn input(&mut self, frame: &[u8], now: Instant) -> Option<Vec<u8>> {
        let header = eth::Header::parse(frame).ok()?;
        let packet = frame.get(eth::HEADER_LEN..)?;
        match header.ethertype {
            EtherType::ARP => self.arp_input(packet, now),
            EtherType::IPV4 => {
                self.ip_input(packet, now);
                None
            }
            _ => None,
        }
    }

    fn arp_input(&mut self, packet: &[u8], now: Instant) -> Option<Vec<u8>> {
        let packet = arp::Packet::parse(packet).ok()?;
        if packet.spa == self.config.addr && packet.tpa == self.config.own && self.target.is_none() {
            self.target = Some(packet.sha);
            self.figures.found = true;
            self.next = now;
        }
        (packet.op == arp::Op::Request && packet.tpa == self.config.own)
            .then(|| self.arp(arp::Op::Reply, packet.sha, packet.spa))
    }

    fn ip_input(&mut self, packet: &[u8], now: Instant) {
        let Ok(header) = ip4::Header::parse(packet) else { return };
        if (header.src, header.dst, header.proto) != (self.config.addr, self.config.own, Proto::ICMP)
            || header.is_fragment()
        {
            return;
        }
        let Ok(Message::EchoReply { ident, seq, .. }) = Message::parse(header.payload(packet)) else { return };
        if ident != self.config.ident {
            return;
        }
        // Find the latest request with this sequence number.
        let n = self.sent.len();
        let back = usize::from((n as u16).wrapping_sub(1).wrapping_sub(seq));
        let slot = n.checked_sub(1 + back).and_then(|at| self.sent.get_mut(at));
        match slot.and_then(Option::take).map(|sent| now.since(sent)) {
            Some(rtt) if rtt <= self.config.wait => {
                self.figures.received += 1;
                self.figures.rtts.push(u64::try_from(rtt.as_nanos()).unwrap_or(u64::MAX));
                if self.config.interval.is_zero() && back == 0 {
                    self.next = now;
                }
            }
            _ => self.figures.stray += 1,
        }
    }

    /// Returns the results so far.
    pub fn figures(&self) -> Figures {
        let mut figures = self.figures.clone();
        figures.rtts.sort_unstable();
        figures
    }

    fn frame(&self, dst: Mac, ethertype: EtherType, packet: &[u8]) -> Vec<u8> {
        let mut header = [0; eth::HEADER_LEN];
        eth::Header { dst, src: self.config.mac, ethertype }.emit(&mut header);
        let mut frame = [&header[..], packet].concat();
        frame.resize(frame.len().max(eth::MIN_FRAME_LEN), 0);
        frame
    }

    fn arp(&self, op: arp::Op, tha: Mac, tpa: Ipv4Addr) -> Vec<u8> {
        let packet = arp::Packet { op, sha: self.config.mac, spa: self.config.own, tha, tpa };
        let dst = if op == arp::Op::Request { Mac::BROADCAST } else { tha };
        self.frame(dst, EtherType::ARP, &packet.emit())
    }

    fn echo(&self, target: Mac) -> Vec<u8> {
        let payload: Vec<u8> = (0..self.config.size).map(|at| at as u8).collect();
        let mut message = vec![0; icmp4::HEADER_LEN + payload.len()];
        let seq = self.sent.len() as u16;
        // The buffer is long enough for header and payload, so no error is possible.
        icmp4::emit_echo(icmp4::ty::ECHO_REQUEST, self.config.ident, seq, &payload, &mut message);
        let mut packet = [0; ip4::HEADER_LEN];
        if let Some(header) = ip4::Header::new(self.config.own, self.config.addr, Proto::ICMP, message.len()) {
            header.emit(&mut packet);
        }
        self.frame(target, EtherType::IPV4, &[&packet[..], &message].concat())
    }
}

#[cfg(test)]
mod tests;
