//! `nanoping`: how long a station takes to answer, by the clock of the port that asks (ethpipe's `nanosecping`).
//!
//! [`Ping`] knows neither port nor clock: it says what to send and when, is shown what comes, and keeps the times. ARP first
//! (RFC 826), then ICMP echo (RFC 792); who asks for our own address gets an answer, or the replies would not find us.

use clock::{Duration, Instant};
use std::net::Ipv4Addr;
use wire::eth::{self, EtherType};
use wire::icmp4::{self, Message};
use wire::{Mac, Proto, arp, ip4};

/// Between two questions for the hardware address.
const ARP_EVERY: Duration = Duration::from_millis(500);
/// How often that is asked.
const ARP_TRIES: u32 = 10;

/// Who asks whom, how often.
#[derive(Debug, Clone)]
pub struct PingConfig {
    /// Who is asked.
    pub addr: Ipv4Addr,
    /// Our address.
    pub own: Ipv4Addr,
    /// Our hardware address.
    pub mac: Mac,
    /// Tells our echoes from others'.
    pub ident: u16,
    /// Bytes of payload.
    pub size: usize,
    /// How many requests.
    pub count: u32,
    /// Between two; zero: the next follows the answer.
    pub interval: Duration,
    /// How long an answer is waited for.
    pub wait: Duration,
}

/// The times of the answers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Figures {
    /// Requests sent.
    pub sent: u32,
    /// Answers in time.
    pub received: u32,
    /// Answers that came again, or too late.
    pub stray: u32,
    /// Did it say its hardware address?
    pub found: bool,
    /// Nanoseconds, shortest first.
    pub rtts: Vec<u64>,
}

impl Figures {
    /// What so many of a hundred do not exceed (nearest rank).
    pub fn percentile(&self, percent: usize) -> Option<u64> {
        let rank = (self.rtts.len() * percent).div_ceil(100).max(1);
        self.rtts.get(rank - 1).copied()
    }

    /// Requests without an answer.
    pub fn lost(&self) -> u32 {
        self.sent.saturating_sub(self.received)
    }
}

/// A conversation.
#[derive(Debug)]
pub struct Ping {
    config: PingConfig,
    target: Option<Mac>,
    asked: u32,
    /// When there is something to send.
    next: Instant,
    /// When each request was sent; `None`: it was answered. Sequence numbers are places in it, modulo 65536.
    sent: Vec<Option<Instant>>,
    last: Instant,
    figures: Figures,
}

impl Ping {
    /// Begins when it is first polled.
    pub fn new(config: PingConfig) -> Ping {
        let config = PingConfig { size: config.size.min(1472), ..config };
        let (next, last) = (Instant::ZERO, Instant::ZERO);
        Ping { config, target: None, asked: 0, next, sent: Vec::new(), last, figures: Figures::default() }
    }

    /// What is to be sent now, if anything.
    pub fn poll(&mut self, now: Instant) -> Option<Vec<u8>> {
        if now < self.next {
            return None;
        }
        let Some(target) = self.target else {
            if self.asked >= ARP_TRIES {
                return None;
            }
            self.asked += 1;
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

    /// The request's time, read again right before it was handed to the port.
    pub fn left(&mut self, at: Instant) {
        if let Some(Some(sent)) = self.sent.last_mut() {
            *sent = at;
        }
    }

    /// When to poll.
    pub fn next_event(&self) -> Instant {
        self.next
    }

    /// All asked, and all answered or given up; or nobody says who he is.
    pub fn is_over(&self, now: Instant) -> bool {
        match self.target {
            None => self.asked >= ARP_TRIES && now >= self.next,
            Some(_) => {
                let all = self.sent.len() >= self.config.count as usize;
                all && (self.figures.lost() == 0 || now.since(self.last) >= self.config.wait)
            }
        }
    }

    /// Shows it a frame that came at `now`; what is to be answered to it, if anything.
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
        // The latest request of this number.
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

    /// What was found.
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
        // There is room for both.
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
