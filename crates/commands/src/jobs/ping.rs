//! `ping`: sends echo requests at an interval, and prints lines like ping of iputils.

use super::ms;
use clock::{Duration, Instant};
use inet::echo::{Answer, Kind, Request};
use inet::iface::IfaceId;
use lock::Locks;
use node::jobs::{Around, End, Work};
use serde_json::json;
use std::collections::VecDeque;
use std::net::IpAddr;

/// Maximum number of requests that are stored until their reply arrives.
const PENDING_MAX: usize = 1024;

/// Parameters of `ping`.
#[derive(Clone, Debug)]
pub(crate) struct PingConfig {
    /// Destination as the user wrote it, for the output.
    pub(crate) name: String,
    pub(crate) dst: IpAddr,
    pub(crate) src: Option<IpAddr>,
    pub(crate) iface: Option<IfaceId>,
    /// Number of requests; `None` for no limit.
    pub(crate) count: Option<u64>,
    pub(crate) interval: Duration,
    /// Time to wait for replies after the last request. `None` for the times of iputils' ping:
    /// twice the longest round trip but at least 1 s, or 10 s if there was no reply.
    pub(crate) timeout: Option<Duration>,
    /// Payload of a request, in bytes.
    pub(crate) size: usize,
    pub(crate) ttl: Option<u8>,
    /// Set if requests have the Don't Fragment flag.
    pub(crate) whole: bool,
    pub(crate) json: bool,
}

pub(crate) struct Ping {
    config: PingConfig,
    ident: Option<u16>,
    payload: Vec<u8>,
    begun: Option<Instant>,
    /// Time of the next request; [`Instant::NEVER`] after the last.
    due: Instant,
    /// Time until which ping waits for the last replies.
    until: Instant,
    sent: u64,
    received: u64,
    errors: u64,
    pending: VecDeque<(u16, Instant)>,
    times: Times,
}

/// Round-trip times.
#[derive(Default)]
struct Times {
    least: Option<Duration>,
    most: Duration,
    sum: f64,
    squares: f64,
}

impl Times {
    fn add(&mut self, time: Duration) {
        self.least = Some(self.least.map_or(time, |least| least.min(time)));
        self.most = self.most.max(time);
        let ms = time.as_secs_f64() * 1e3;
        self.sum += ms;
        self.squares += ms * ms;
    }

    /// Returns minimum, mean, maximum and standard deviation of `n` times, in milliseconds.
    fn summary(&self, n: u64) -> Option<[f64; 4]> {
        let (least, n) = (self.least?, n as f64);
        let mean = self.sum / n;
        let deviation = (self.squares / n - mean * mean).max(0.0).sqrt();
        Some([least.as_secs_f64() * 1e3, mean, self.most.as_secs_f64() * 1e3, deviation])
    }
}

impl Ping {
    pub(crate) fn new(config: PingConfig) -> Ping {
        Ping {
            payload: (0..config.size).map(|at| at as u8).collect(),
            config,
            ident: None,
            begun: None,
            due: Instant::ZERO,
            until: Instant::NEVER,
            sent: 0,
            received: 0,
            errors: 0,
            pending: VecDeque::new(),
            times: Times::default(),
        }
    }

    fn begin<L: Locks>(&mut self, around: &Around<'_, L>, out: &mut String) -> Option<u16> {
        let ident = around.stack.open_echo(around.cx)?;
        (self.ident, self.begun) = (Some(ident), Some(around.cx.now));
        if !self.config.json {
            let PingConfig { name, dst, size, .. } = &self.config;
            let header = if dst.is_ipv6() { 48 } else { 28 };
            *out += &format!("PING {name} ({dst}) {size}({}) bytes of data.\n", size + header);
        }
        Some(ident)
    }

    fn send<L: Locks>(&mut self, around: &Around<'_, L>, ident: u16, out: &mut String) {
        let (now, seq) = (around.cx.now, (self.sent + 1) as u16);
        let PingConfig { dst, src, iface, ttl, whole, .. } = self.config;
        let sent = around
            .stack
            .send_echo(around.cx, &Request { dst, src, iface, ident, seq, ttl, whole, payload: &self.payload });
        self.sent += 1;
        match sent {
            Ok(()) => {
                if self.pending.len() >= PENDING_MAX {
                    self.pending.pop_front();
                }
                self.pending.push_back((seq, now));
            }
            Err(why) => {
                self.errors += 1;
                self.print(out, seq, &format!("ping: sendmsg: {}", refused(why)), json!({ "error": refused(why) }));
            }
        }
        let is_last = self.config.count.is_some_and(|count| self.sent >= count);
        // Requests are sent at multiples of the interval, but requests that were missed during a
        // pause are not sent later.
        self.due = if is_last { Instant::NEVER } else { self.due.max(now).after(self.config.interval) };
        if is_last {
            let usual = if self.received > 0 { 2 * self.times.most } else { Duration::from_secs(10) };
            self.until = now.after(self.config.timeout.unwrap_or(usual.max(Duration::from_secs(1))));
        }
    }

    fn print(&self, out: &mut String, seq: u16, line: &str, mut fields: serde_json::Value) {
        if !self.config.json {
            *out += &format!("{line}\n");
            return;
        }
        crate::json::set(&mut fields, "seq", seq);
        *out += &format!("{fields}\n");
    }

    fn on_reply(&mut self, answer: &Answer, out: &mut String) {
        let Answer { from, seq, ttl, len, kind, .. } = *answer;
        let found = self.pending.iter().position(|(sent, _)| *sent == seq);
        let what = match kind {
            Kind::Reply => {
                let Some((_, sent)) = found.and_then(|at| self.pending.remove(at)) else {
                    self.print(
                        out,
                        seq,
                        &format!("{len} bytes from {from}: icmp_seq={seq} (DUP!)"),
                        json!({ "from": from.to_string(), "duplicate": true }),
                    );
                    return;
                };
                let time = answer.at.since(sent);
                self.received += 1;
                self.times.add(time);
                let line = format!("{len} bytes from {from}: icmp_seq={seq} ttl={ttl} time={} ms", ms(time));
                let fields =
                    json!({ "from": from.to_string(), "bytes": len, "ttl": ttl, "time_ms": time.as_secs_f64() * 1e3 });
                return self.print(out, seq, &line, fields);
            }
            Kind::TimeExceeded => "Time to live exceeded".to_string(),
            Kind::Unreachable(code) => format!("Destination {} Unreachable", unreachable_word(from.is_ipv6(), code)),
            Kind::TooBig(mtu) => format!("Frag needed and DF set (mtu = {mtu})"),
            Kind::Error => "Parameter problem".to_string(),
        };
        self.errors += u64::from(found.and_then(|at| self.pending.remove(at)).is_some());
        self.print(
            out,
            seq,
            &format!("From {from} icmp_seq={seq} {what}"),
            json!({ "from": from.to_string(), "error": what }),
        );
    }

    /// Returns the statistics that are printed at the end.
    fn summary(&self, now: Instant) -> String {
        let (sent, received, errors) = (self.sent, self.received, self.errors);
        let loss = if sent == 0 { 0.0 } else { 100.0 * sent.saturating_sub(received) as f64 / sent as f64 };
        let took = now.since(self.begun.unwrap_or(now)).as_millis();
        let times = self.times.summary(received);
        if self.config.json {
            let times = times.map(|[min, avg, max, mdev]| json!({ "min": min, "avg": avg, "max": max, "mdev": mdev }));
            let fields = json!({ "destination": self.config.dst.to_string(), "transmitted": sent, "received": received,
                "errors": errors, "loss_percent": loss, "time_ms": took as u64, "rtt_ms": times });
            return format!("{fields}\n");
        }
        let errors = if errors > 0 { format!(" +{errors} errors,") } else { String::new() };
        let loss = format!("{loss:.4}");
        let loss = loss.trim_end_matches('0').trim_end_matches('.');
        let mut out = format!(
            "\n--- {} ping statistics ---\n{sent} packets transmitted, {received} received,{errors} {loss}% packet loss, time {took}ms\n",
            self.config.name
        );
        if let Some([min, avg, max, mdev]) = times {
            out += &format!("rtt min/avg/max/mdev = {min:.3}/{avg:.3}/{max:.3}/{mdev:.3} ms\n");
        }
        out
    }
}

/// Returns the text for the code of an unreachable message (RFC 792, RFC 4443 3.1).
pub(super) fn unreachable_word(six: bool, code: u8) -> String {
    let word = match (six, code) {
        (false, 0) => "Net",
        (false, 1) | (true, 3) => "Host",
        (false, 2) => "Protocol",
        (false, 3) | (true, 4) => "Port",
        (true, 0) => "No route",
        (true, 1) => "Administratively prohibited",
        (false, 9 | 10 | 13) => "Administratively prohibited",
        (_, code) => return format!("code {code}"),
    };
    word.to_string()
}

/// Returns the error message for a request that was not sent.
pub(super) fn refused(why: inet::ip4::OutputError) -> String {
    use inet::ip4::OutputError;
    match why {
        OutputError::NoRoute => "Network is unreachable".into(),
        OutputError::Rejected => "No route to host".into(),
        OutputError::TooBig(mtu) => format!("Message too long, mtu={mtu}"),
        OutputError::IfaceDown => "Network is down".into(),
    }
}

impl<L: Locks> Work<L> for Ping {
    fn turn(&mut self, around: &Around<'_, L>, out: &mut String) -> Option<End> {
        let ident = match self.ident {
            Some(ident) => ident,
            None => match self.begin(around, out) {
                Some(ident) => ident,
                None => return Some(End::Failed("too many pings are running".into())),
            },
        };
        while let Some(answer) = around.stack.take_answer(around.cx, ident) {
            self.on_reply(&answer, out);
        }
        let now = around.cx.now;
        if now >= self.due {
            self.send(around, ident, out);
        }
        let all = self.due == Instant::NEVER && self.received + self.errors >= self.sent;
        (all || now >= self.until).then(|| {
            *out += &self.summary(now);
            if self.received > 0 { End::Done } else { End::Failed("no reply".into()) }
        })
    }

    fn next(&self) -> Instant {
        self.due.min(self.until)
    }

    /// Ends the ping and prints its summary.
    fn finish(&mut self) {
        (self.due, self.until) = (Instant::NEVER, Instant::ZERO);
    }

    fn close(&mut self, around: &Around<'_, L>) {
        if let Some(ident) = self.ident.take() {
            around.stack.close_echo(around.cx, ident);
        }
    }
}
