//! `traceroute`: sends echo requests with increasing TTLs, and prints lines like traceroute -I.

use super::ms;
use super::ping::refused;
use clock::{Duration, Instant};
use inet::echo::{Answer, Kind, Request};
use inet::iface::IfaceId;
use lock::Locks;
use node::jobs::{Around, End, Work};
use std::net::IpAddr;

/// Payload of a probe in bytes. IPv4 packets then have 60 bytes, as in traceroute.
const SIZE: usize = 32;

/// Parameters of `traceroute`.
#[derive(Clone, Debug)]
pub(crate) struct TraceConfig {
    /// Destination as the user wrote it, for the output.
    pub(crate) name: String,
    pub(crate) dst: IpAddr,
    /// Interface for a link-local destination; otherwise `None`.
    pub(crate) iface: Option<IfaceId>,
    pub(crate) src: Option<IpAddr>,
    pub(crate) first: u8,
    pub(crate) hops: u8,
    /// Number of probes per hop.
    pub(crate) probes: u8,
    /// Time to wait for the reply to a probe.
    pub(crate) timeout: Duration,
}

pub(crate) struct Trace {
    config: TraceConfig,
    ident: Option<u16>,
    hop: u8,
    /// Number of probes sent for the current hop.
    probe: u8,
    seq: u16,
    sent: Option<Instant>,
    /// Source of the last reply, as printed in the current line.
    shown: Option<IpAddr>,
    reached: bool,
}

impl Trace {
    pub(crate) fn new(config: TraceConfig) -> Trace {
        let (ident, sent, shown) = Default::default();
        Trace { hop: config.first, config, ident, probe: 0, seq: 0, sent, shown, reached: false }
    }

    fn on_reply(&mut self, answer: &Answer, sent: Instant, out: &mut String) {
        if self.shown != Some(answer.from) {
            *out += &format!("  {}", answer.from);
            self.shown = Some(answer.from);
        }
        *out += &format!("  {} ms", ms(answer.at.since(sent)));
        let mark = match answer.kind {
            Kind::Unreachable(code) => match (answer.from.is_ipv6(), code) {
                (false, 0) | (true, 0) => " !N".into(),
                (false, 1) | (true, 3) => " !H".into(),
                (false, 2) => " !P".into(),
                (false, 9 | 10 | 13) | (true, 1) => " !X".into(),
                (_, code) => format!(" !<{code}>"),
            },
            Kind::TooBig(mtu) => format!(" !F-{mtu}"),
            _ => String::new(),
        };
        *out += &mark;
        self.reached |= !matches!(answer.kind, Kind::TimeExceeded);
        self.sent = None;
    }
}

impl<L: Locks> Work<L> for Trace {
    fn turn(&mut self, around: &Around<'_, L>, out: &mut String) -> Option<End> {
        let TraceConfig { dst, iface, src, hops, probes, timeout, .. } = self.config;
        let ident = match self.ident {
            Some(ident) => ident,
            None => {
                let Some(ident) = around.stack.open_echo(around.cx) else {
                    return Some(End::Failed("too many pings are running".into()));
                };
                self.ident = Some(ident);
                let header = if dst.is_ipv6() { 48 } else { 28 };
                *out += &format!(
                    "traceroute to {} ({dst}), {hops} hops max, {} byte packets\n",
                    self.config.name,
                    SIZE + header
                );
                *out += &format!("{:>2}", self.hop);
                ident
            }
        };
        while let Some(answer) = around.stack.take_answer(around.cx, ident) {
            if answer.seq == self.seq
                && let Some(sent) = self.sent
            {
                self.on_reply(&answer, sent, out);
            }
        }
        if self.sent.is_some_and(|sent| around.cx.now.since(sent) >= timeout) {
            *out += "  *";
            self.sent = None;
        }
        if self.sent.is_some() {
            return None;
        }
        if self.probe >= probes {
            out.push('\n');
            if self.reached {
                return Some(End::Done);
            }
            if self.hop >= hops {
                return Some(End::Failed(format!("{dst}: not reached in {hops} hops")));
            }
            (self.hop, self.probe, self.shown) = (self.hop + 1, 0, None);
            *out += &format!("{:>2}", self.hop);
        }
        (self.probe, self.seq) = (self.probe + 1, self.seq.wrapping_add(1));
        let (payload, ttl) = ([0; SIZE], Some(self.hop));
        let request = Request { dst, src, iface, ident, seq: self.seq, ttl, whole: false, payload: &payload };
        match around.stack.send_echo(around.cx, &request) {
            Ok(()) => {
                self.sent = Some(around.cx.now);
                None
            }
            Err(why) => {
                out.push('\n');
                Some(End::Failed(refused(why)))
            }
        }
    }

    fn next(&self) -> Instant {
        self.sent.map_or(Instant::ZERO, |sent| sent.after(self.config.timeout))
    }

    fn close(&mut self, around: &Around<'_, L>) {
        if let Some(ident) = self.ident.take() {
            around.stack.close_echo(around.cx, ident);
        }
    }
}
