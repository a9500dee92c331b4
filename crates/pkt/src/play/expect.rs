//! Compares packets sent by our host with the script. Translates their sequence numbers and
//! timestamps, then checks content and time.

use super::{Player, START, State, sides};
use crate::conn::Conn;
use crate::error::PktError;
use crate::script::{Body, Event, IpVersion, Packet, Tcp, When};
use crate::segment::{self, Ends, Seg, Sent};
use crate::settings::Settings;
use clock::Instant;
use wire::tcp::Flags;

impl Player<'_> {
    /// Returns whether our host has sent the expected packet. If so, removes the packet from the
    /// queue.
    pub(super) fn expect(
        &self,
        event: &Event,
        packet: &Packet,
        first: Instant,
        last: Instant,
    ) -> Result<bool, PktError> {
        loop {
            let Some((at, bytes)) = self.host.output() else { return Ok(false) };
            if self.compare(event, packet, at, &bytes)? {
                return self.check_time(event, at, &bytes, first, last).map(|()| true);
            }
        }
    }

    /// Compares a packet of our host with the script. Returns false if the packet is only a part of
    /// the stated segment.
    fn compare(&self, event: &Event, packet: &Packet, at: Instant, bytes: &[u8]) -> Result<bool, PktError> {
        let fail = |what: String| PktError::ran(event.line, what);
        let came = wire::dissect::packet_line(bytes).to_string();
        let sent = segment::read(bytes).map_err(|why| fail(format!("sent a malformed packet: {why}\n  {came}")))?;
        let mut state = self.state.borrow_mut();
        let difference = match (&packet.body, sent) {
            (Body::Tcp(tcp), Sent::Tcp(ends, ip, live, text)) => {
                let seen = self.expect_tcp(&mut state, packet, tcp, ends, &live).map_err(&fail)?;
                let text = bytes.get(text..).unwrap_or_default();
                if let Some(conn) = state.current.and_then(|at| state.conns.get(at))
                    && !conn.is_written(live.seq, text)
                {
                    return Err(fail(format!("sent bytes that were not written\n  actual:   {came}")));
                }
                let Some(seen) = seen else { return Ok(false) }; // only a part so far
                let different = segment::difference(tcp, &seen).map(str::to_owned);
                let different = different.or_else(|| segment::ip_difference(packet.ip, &ip));
                different.map(|what| (what, stated_line(tcp, &seen, ends), line_of(&seen, ends)))
            }
            (Body::Udp(len), Sent::Udp(ends, ip, seen)) => {
                self.meet(&mut state, ends, packet.ports, true).map_err(&fail)?;
                let different =
                    if *len != seen { Some("length".to_owned()) } else { segment::ip_difference(packet.ip, &ip) };
                different.map(|what| (what, format!("udp ({len})"), came.clone()))
            }
            (Body::Icmp(icmp), Sent::Icmp(ty, code)) => {
                let message = icmp.words.message(self.settings.version == IpVersion::V6).map_err(&fail)?;
                let same = (message.ty, message.code) == (ty, code);
                (!same).then(|| ("type or code".to_owned(), format!("icmp {}", icmp.words.shown()), came.clone()))
            }
            (body, _) => {
                let name = match body {
                    Body::Tcp(_) => "a TCP segment",
                    Body::Udp(_) => "a UDP datagram",
                    Body::Icmp(_) => "an ICMP message",
                };
                Some(("protocol".to_owned(), name.to_owned(), came.clone()))
            }
        };
        if let Some((what, stated, seen)) = difference {
            let when = at.since(START);
            return Err(fail(format!("wrong {what} at {when:?}\n  expected: {stated}\n  actual:   {seen}")));
        }
        Ok(true)
    }

    /// Checks the time of a packet whose content matches. A relative time of the next event in the
    /// script starts at the time of this event.
    fn check_time(
        &self,
        event: &Event,
        at: Instant,
        bytes: &[u8],
        first: Instant,
        last: Instant,
    ) -> Result<(), PktError> {
        let tolerance = self.settings.tolerance;
        let any = event.when == When::Any;
        if !any && (at.after(tolerance) < first || at > last.after(tolerance)) {
            let (from, to) = (first.since(START), last.since(START));
            let window = if from == to { format!("at {from:?}") } else { format!("between {from:?} and {to:?}") };
            let came = wire::dissect::packet_line(bytes);
            let what = format!("sent at {:?}, expected {window}\n  actual:   {came}", at.since(START));
            return Err(PktError::ran(event.line, what));
        }
        let mut state = self.state.borrow_mut();
        state.at += 1;
        state.base = match event.when {
            When::At(_) | When::After(_) => first,
            _ => at,
        };
        Ok(())
    }

    /// Translates a segment to the script's sequence numbers and appends it to the parts of the
    /// stated segment that were received before. Returns `None` if more parts are needed.
    fn expect_tcp(
        &self,
        state: &mut State,
        packet: &Packet,
        tcp: &Tcp,
        ends: Ends,
        live: &Seg,
    ) -> Result<Option<Seg>, String> {
        let opens = live.flags.contains(Flags::SYN) && !live.flags.contains(Flags::ACK);
        let tolerance = self.settings.tolerance.as_nanos() as u64;
        let tick = self.settings.tick_ns;
        let conn = self.meet(state, ends, packet.ports, opens)?;
        let mut seen = conn.leaving(live, tcp, tick, tolerance);
        if let Some(before) = state.gathered.take() {
            let fits =
                seen.seq == before.seq.wrapping_add(before.len) && (seen.ack, seen.win) == (before.ack, before.win);
            if !fits {
                let (expected, came) = (stated_line(tcp, &before, ends), line_of(&seen, ends));
                return Err(format!("unexpected segment between parts\n  expected: {expected}\n  actual:   {came}"));
            }
            (seen.seq, seen.len) = (before.seq, before.len.saturating_add(seen.len));
        }
        let part = !self.settings.strict
            && seen.seq == tcp.seq
            && seen.len > 0
            && seen.len < tcp.len
            && !seen.flags.intersects(Flags::FIN | Flags::SYN | Flags::RST);
        if part {
            state.gathered = Some(seen);
            return Ok(None);
        }
        if self.rules.any_psh {
            seen.flags = Flags(seen.flags.0 & !Flags::PSH.0 | tcp.flags.0 & Flags::PSH.0);
        }
        Ok(Some(seen))
    }

    /// Returns the connection of a packet from our host, which becomes the current connection. If
    /// the packet belongs to no known connection, creates one if `opens` permits.
    fn meet<'c>(
        &self,
        state: &'c mut State,
        ends: Ends,
        ports: Option<(u16, u16)>,
        opens: bool,
    ) -> Result<&'c mut Conn, String> {
        if let Some(ports) = ports
            && ports != (ends.local_port, ends.remote_port)
        {
            let (us, peer) = (ends.local_port, ends.remote_port);
            return Err(format!("expected ports {} > {}, found {us} > {peer}", ports.0, ports.1));
        }
        let at = match state.conns.iter().position(|conn| conn.ends == ends) {
            Some(at) => at,
            None if opens => {
                state.conns.push(Conn::new(ends));
                state.conns.len() - 1
            }
            None => return Err(format!("packet of an unknown connection: {ends:?}")),
        };
        if ports.is_none() && state.current != Some(at) && !opens {
            return Err(format!("packet of another connection: {ends:?}"));
        }
        state.current = Some(at);
        state.conns.get_mut(at).ok_or_else(|| "no connection".to_owned())
    }

    pub(super) fn nothing_came(&self, event: &Event, packet: &Packet) -> PktError {
        let state = self.state.borrow();
        let stated = match &packet.body {
            Body::Tcp(tcp) => {
                let ends = state.current.and_then(|at| state.conns.get(at)).map(|conn| conn.ends);
                let Settings { local, remote, bind_port, connect_port, .. } = self.settings;
                let ends = ends.unwrap_or(Ends { local, local_port: bind_port, remote, remote_port: connect_port });
                let open = Seg {
                    flags: tcp.flags,
                    seq: tcp.seq,
                    ack: tcp.ack.unwrap_or(0),
                    win: 0,
                    urgent: 0,
                    len: tcp.len,
                    options: Vec::new(),
                };
                stated_line(tcp, &open, ends)
            }
            Body::Udp(len) => format!("udp ({len})"),
            Body::Icmp(icmp) => format!("icmp {}", icmp.words.shown()),
        };
        let came = match &state.gathered {
            Some(part) => format!("only the first {} bytes", part.len),
            None => format!("nothing until {:?}", self.host.now().since(START)),
        };
        PktError::ran(event.line, format!("no packet sent\n  expected: {stated}\n  actual:   {came}"))
    }
}

fn line_of(seg: &Seg, ends: Ends) -> String {
    let (us, peer) = sides(ends);
    seg.line(us, peer)
}

/// Formats the stated segment; fields that the script does not state are taken from `seen`.
fn stated_line(tcp: &Tcp, seen: &Seg, ends: Ends) -> String {
    let stated = Seg {
        flags: tcp.flags,
        seq: tcp.seq,
        ack: tcp.ack.unwrap_or(0),
        win: tcp.win.unwrap_or(seen.win),
        urgent: tcp.urgent,
        len: tcp.len,
        options: tcp.options.clone().unwrap_or_else(|| seen.options.clone()),
    };
    line_of(&stated, ends)
}
