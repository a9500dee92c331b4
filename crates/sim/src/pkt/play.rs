//! The player: a script's events on virtual time against one host.
//!
//! Time stands still while anything happens and then jumps to the next timer or event. A call that blocks drives the
//! player ([`Drive`]): the script goes on with its packets until the call returns, or is late.
//!
//! What our host sends waits, with its time, until the script expects it. Several segments may make up one that the script
//! states whole, as they would through a port that cuts segments up (`--strict_segments` forbids it).

use super::conn::Conn;
use super::counted::counters;
use super::script::{Action, Body, Event, Icmp, Packet, Script, Tcp, When};
use super::segment::{self, Ends, Seg, Sent};
use super::{PktError, Played, Rules, code, shell};
use buf::{Burst, Frame, Pool, PoolConfig};
use clock::{Duration, Instant};
use inet::Stack;
use inet::fib::Prefix;
use inet::iface::{IfaceAddr, IfaceId, Offload, Output};
use inet::route::Via;
use lock::{Cx, How, Up};
use socket::{Calls, Drive, Fd};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use wire::Mac;
use wire::tcp::Flags;

/// The script's time 0 on the host's clock.
const START: Instant = Instant::from_millis(1_000_000);
/// How long a packet that may come whenever is waited for.
const PATIENCE: Duration = Duration::from_secs(7200);
const IFACE: IfaceId = IfaceId(1);
const ROUTER_MAC: Mac = Mac([2, 0, 0, 0, 0, 0xfe]);
/// L4 ports of peers whose script names none begin here.
const PEER_PORTS: u16 = 40_000;
/// What a script may write or read at once.
pub(super) const BYTES_MAX: usize = 64 << 20;
/// Packets up to this fit the host's buffers.
const SMALL: usize = 2000;
/// Polls at one instant before a host is called stuck.
const POLLS_MAX: usize = 10_000;

/// Packets that left the host, and when.
type Wire = Arc<Mutex<VecDeque<(Instant, Vec<u8>)>>>;

struct Out(Wire);

impl Output for Out {
    fn output(&mut self, burst: &mut Burst, now: Instant) -> usize {
        let mut wire = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let n = burst.len();
        for frame in burst.drain() {
            let ip = frame.bytes().get(12..14) == Some(&[8, 0]);
            if ip && let Some(packet) = frame.bytes().get(wire::eth::HEADER_LEN..) {
                wire.push_back((now, packet.to_vec()));
            }
        }
        n
    }
}

/// `--name=value`s.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    pub local: Ipv4Addr,
    pub remote: Ipv4Addr,
    pub bind_port: u16,
    pub connect_port: u16,
    mtu: u16,
    tolerance: Duration,
    tick_ns: u64,
    strict: bool,
}

impl Settings {
    fn of(script: &Script) -> Result<Settings, PktError> {
        let mut out = Settings {
            local: Ipv4Addr::new(192, 168, 0, 1),
            remote: Ipv4Addr::new(192, 0, 2, 1),
            bind_port: 8080,
            connect_port: 8080,
            mtu: 1500,
            tolerance: Duration::from_micros(4000),
            tick_ns: 0,
            strict: false,
        };
        for (line, name, value) in &script.flags {
            let bad = || PktError::at(*line, format!("--{name}={value}: not a value for it"));
            match name.as_str() {
                "local_ip" => out.local = value.parse().map_err(|_| bad())?,
                "remote_ip" => out.remote = value.parse().map_err(|_| bad())?,
                "bind_port" => out.bind_port = value.parse().map_err(|_| bad())?,
                "connect_port" => out.connect_port = value.parse().map_err(|_| bad())?,
                "mtu" => out.mtu = value.parse().ok().filter(|mtu| *mtu >= 68).ok_or_else(bad)?,
                "tolerance_usecs" => {
                    let us: u32 = value.parse().map_err(|_| bad())?;
                    out.tolerance = Duration::from_micros(us.into());
                }
                "tcp_ts_tick_usecs" => {
                    let us: u32 = value.parse().map_err(|_| bad())?;
                    out.tick_ns = u64::from(us) * 1000;
                }
                "ip_version" if value == "ipv4" => {}
                "ip_version" => return Err(PktError::at(*line, format!("--ip_version={value}: IPv4 is spoken here"))),
                "strict_segments" => out.strict = true,
                // What stands for a wire that is not here, or is so anyway.
                "tcp_ts_ecr_scaled" | "gateway_ip" | "netmask_ip" | "speed" | "verbose" | "non_fatal" | "mss" => {}
                _ => return Err(PktError::at(*line, format!("--{name} is not known here"))),
            }
        }
        Ok(out)
    }
}

/// The script's progress and what it knows of its connections.
pub(super) struct State {
    /// The next event.
    at: usize,
    /// The time of the event before.
    base: Instant,
    conns: Vec<Conn>,
    current: Option<usize>,
    /// Of a segment stated whole, what has come.
    gathered: Option<Seg>,
    peer_port: u16,
    failed: Option<PktError>,
    counters: BTreeMap<String, u64>,
    /// The script's descriptors.
    pub fds: BTreeMap<i64, Fd>,
    /// The L4 port bound last: where peers go whose script names none.
    pub bound: u16,
    /// Until when the call under way may block.
    deadline: Instant,
    restated: Vec<(usize, String)>,
    /// What code has named.
    vars: BTreeMap<String, i64>,
    /// Bytes written to and read from each descriptor: the content of streams is checked.
    pub streams: BTreeMap<i64, (u64, u64)>,
}

impl State {
    /// The sequence number of the first byte of text of the peer with that port.
    pub fn peer_text(&self, port: u16) -> Option<u32> {
        self.conns.iter().rev().find(|conn| conn.ends.remote_port == port)?.peer_text()
    }
}

pub(super) struct Player<'s> {
    script: &'s Script,
    dir: Option<&'s Path>,
    rules: Rules,
    pub settings: Settings,
    pub stack: Stack<Up>,
    /// For packets that are larger than the host's buffers.
    large: Pool,
    wire: Wire,
    now: Cell<Instant>,
    pub state: RefCell<State>,
}

/// Plays `script`.
pub(super) fn play(script: &Script, dir: Option<&Path>, rules: Rules) -> Result<Played, PktError> {
    let settings = Settings::of(script)?;
    let player = Player::new(script, dir, settings, rules).map_err(|why| PktError::at(1, why))?;
    player.run()?;
    let time = player.now.get().since(START);
    Ok(Played { events: script.events.len(), time, counters: player.state.into_inner().restated })
}

impl<'s> Player<'s> {
    fn new(script: &'s Script, dir: Option<&'s Path>, settings: Settings, rules: Rules) -> Result<Player<'s>, String> {
        let config = PoolConfig { buffers: 16_384, data: 2048 + 64, ..PoolConfig::default() };
        let pool = Pool::new(&config).map_err(|why| why.to_string())?;
        let large = PoolConfig { buffers: 64, data: 65_536 + 64, ..PoolConfig::default() };
        let large = Pool::new(&large).map_err(|why| why.to_string())?;
        let cx = Cx::enter(How::Register, START);
        let stack: Stack<Up> = Stack::new(cx, inet::Config { seed: Some(1), ..inet::Config::new("pkt", pool) });
        let wire = Wire::default();
        stack
            .add_iface("em0", Mac([2, 0, 0, 0, 0, 1]), settings.mtu, Offload::default())
            .ok_or("no room for an iface")?;
        let [a, b, ..] = settings.local.octets();
        let router = Ipv4Addr::new(a, b, 255, 254);
        stack.add_addr(cx, IFACE, IfaceAddr { addr: settings.local, len: 16 }).map_err(|why| format!("{why:?}"))?;
        for neighbor in [router, settings.remote] {
            stack.set_neighbor(cx, IFACE, neighbor, ROUTER_MAC);
        }
        stack.add_route(cx, Prefix::DEFAULT, Via::Gateway(IFACE, router)).map_err(|why| format!("{why:?}"))?;
        stack.set_output(cx, IFACE, Some(Box::new(Out(wire.clone()))));
        let state = State {
            at: 0,
            base: START,
            conns: Vec::new(),
            current: None,
            gathered: None,
            peer_port: PEER_PORTS,
            failed: None,
            counters: counters(&stack),
            fds: BTreeMap::new(),
            bound: settings.bind_port,
            deadline: START,
            restated: Vec::new(),
            vars: BTreeMap::new(),
            streams: BTreeMap::new(),
        };
        Ok(Player {
            script,
            dir,
            rules,
            settings,
            stack,
            large,
            wire,
            now: Cell::new(START),
            state: RefCell::new(state),
        })
    }

    pub fn cx(&self) -> Cx {
        Cx::enter(How::Register, self.now.get())
    }

    pub fn calls(&self) -> Calls<'_, Up> {
        Calls::driving(&self.stack, self.cx(), self)
    }

    fn queue(&self) -> std::sync::MutexGuard<'_, VecDeque<(Instant, Vec<u8>)>> {
        self.wire.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self) -> Option<&'s Event> {
        self.script.events.get(self.state.borrow().at)
    }

    fn run(&self) -> Result<(), PktError> {
        while let Some(event) = self.next() {
            let due = self.window(event).0;
            match &event.what {
                Action::Call(call) if due <= self.now.get() => {
                    {
                        let mut state = self.state.borrow_mut();
                        state.at += 1;
                        let until = call.until.map(|until| self.moment(event.when, until, state.base));
                        state.base = due;
                        state.deadline = until.map_or(self.now.get(), |until| until.after(self.settings.tolerance));
                    }
                    let until = Instant::min(self.state.borrow().deadline, Instant::NEVER);
                    let done = self.call(call);
                    if let Some(error) = self.state.borrow_mut().failed.take() {
                        return Err(error);
                    }
                    done.map_err(|what| PktError::ran(event.line, what))?;
                    if call.until.is_some() {
                        self.check_return(event, until)?;
                    }
                }
                Action::Call(_) => self.progress(due)?,
                _ => self.progress(Instant::NEVER)?,
            }
        }
        Ok(())
    }

    /// A call that says when it returns must not return before.
    fn check_return(&self, event: &Event, deadline: Instant) -> Result<(), PktError> {
        let twice = self.settings.tolerance.saturating_mul(2);
        if self.now.get().after(twice) >= deadline {
            return Ok(());
        }
        let (now, then) = (self.now.get().since(START), deadline.since(START).saturating_sub(self.settings.tolerance));
        Err(PktError::ran(event.line, format!("returned at {now:?}, expected at {then:?}")))
    }

    /// `nanos` after what `when` counts from.
    fn moment(&self, when: When, nanos: i64, base: Instant) -> Instant {
        let from = match when {
            When::At(_) | When::Within(..) => START,
            When::After(_) | When::AfterWithin(..) | When::Any => base,
        };
        from.after(Duration::from_nanos(nanos.max(0) as u64))
    }

    /// The first and last instant of an event.
    fn window(&self, event: &Event) -> (Instant, Instant) {
        let base = self.state.borrow().base;
        let at = |nanos| self.moment(event.when, nanos, base);
        match event.when {
            When::At(t) | When::After(t) => (at(t), at(t)),
            When::Within(from, to) | When::AfterWithin(from, to) => (at(from), at(to)),
            When::Any => (base.max(START), base.after(PATIENCE)),
        }
    }

    /// One step: the next event if it is due and no call, else time goes on to what comes first, not past `cap`.
    fn progress(&self, cap: Instant) -> Result<(), PktError> {
        let timer = self.poll()?;
        let mut target = cap.min(timer);
        if let Some(event) = self.next() {
            let (first, last) = self.window(event);
            match &event.what {
                Action::Call(_) => {}
                Action::Out(packet) => {
                    if self.expect(event, packet, first, last)? {
                        return Ok(());
                    }
                    let late = last.after(self.settings.tolerance);
                    if self.now.get() >= late {
                        return Err(self.nothing_came(event, packet));
                    }
                    target = target.min(late);
                }
                _ if first <= self.now.get() => {
                    let mut state = self.state.borrow_mut();
                    state.at += 1;
                    state.base = if event.when == When::Any { self.now.get() } else { first };
                    drop(state);
                    return self.act(event);
                }
                _ => target = target.min(first),
            }
        }
        self.now.set(self.now.get().max(target));
        Ok(())
    }

    /// Lets the host do what is due now; says when it wants to again.
    fn poll(&self) -> Result<Instant, PktError> {
        for _ in 0..POLLS_MAX {
            match self.stack.poll(self.cx()) {
                Some(next) if next <= self.now.get() => {}
                next => return Ok(next.unwrap_or(Instant::NEVER)),
            }
        }
        Err(PktError::ran(0, format!("the host's timers stand still at {:?}", self.now.get().since(START))))
    }

    fn act(&self, event: &Event) -> Result<(), PktError> {
        let done = match &event.what {
            Action::In(packet) => self.inject(packet),
            Action::Code(code) => self.assert(code),
            Action::Command(text) => shell::run(text, &self.stack.knobs, self.dir, 0),
            Action::Counters(stated) => self.check_counters(event.line, stated),
            Action::Out(_) | Action::Call(_) => Ok(()),
        };
        done.map_err(|what| PktError::ran(event.line, what))?;
        self.poll().map(drop)
    }

    // ---- packets for our host -----------------------------------------------------------------------------------

    fn inject(&self, packet: &Packet) -> Result<(), String> {
        let bytes = {
            let mut state = self.state.borrow_mut();
            match &packet.body {
                Body::Tcp(tcp) => {
                    let conn = self.conn(&mut state, packet.ports)?;
                    let seg = conn.arriving(tcp);
                    let (us, peer) = sides(conn.ends);
                    seg.emit(peer, us, segment::tos_of(packet.ip), packet.ip.ttl.unwrap_or(64))
                }
                Body::Udp(len) => {
                    let conn = self.conn(&mut state, packet.ports)?;
                    let (us, peer) = sides(conn.ends);
                    segment::datagram(peer, us, *len, packet.ip)
                }
                Body::Icmp(icmp) => self.icmp(&mut state, icmp)?,
            }
        };
        let pool = if bytes.len() > SMALL { &self.large } else { &self.stack.pool };
        let mut frame: Frame = pool.get().ok_or("no buffer free")?;
        let header = [&[2, 0, 0, 0, 0, 1][..], &ROUTER_MAC.0, &[8, 0]].concat();
        frame.extend(&header).and_then(|()| frame.extend(&bytes)).ok_or("the packet is larger than a buffer")?;
        self.stack.input(self.cx(), IFACE, &mut Burst::of(frame));
        Ok(())
    }

    /// The connection that a packet of the peer's belongs to, made when there is none.
    fn conn<'c>(&self, state: &'c mut State, ports: Option<(u16, u16)>) -> Result<&'c mut Conn, String> {
        let found = match ports {
            None => state.current,
            Some((peer, us)) => {
                let same = |conn: &Conn| (conn.ends.remote_port, conn.ends.local_port) == (peer, us);
                state.conns.iter().position(same)
            }
        };
        let at = match found {
            Some(at) => at,
            None => {
                let (remote_port, local_port) = ports.unwrap_or((state.peer_port, state.bound));
                state.peer_port = state.peer_port.wrapping_add(u16::from(ports.is_none()));
                let Settings { local, remote, .. } = self.settings;
                state.conns.push(Conn::new(Ends { local, local_port, remote, remote_port }));
                state.conns.len() - 1
            }
        };
        state.current = Some(at);
        state.conns.get_mut(at).ok_or_else(|| "no connection".to_owned())
    }

    fn icmp(&self, state: &mut State, icmp: &Icmp) -> Result<Vec<u8>, String> {
        let conn = state.current.and_then(|at| state.conns.get(at)).ok_or("an ICMP error about nothing")?;
        let (us, peer) = sides(conn.ends);
        let quoted = match icmp.udp {
            Some(len) => segment::datagram(us, peer, len, Default::default()),
            None => {
                let mut seg = conn.last.clone().ok_or("an ICMP error before anything was sent")?;
                seg.seq = icmp.seq.map_or(seg.seq, |seq| conn.live_seq(seq));
                seg.emit(us, peer, 0, 64)
            }
        };
        let quoted = quoted.get(..28).unwrap_or(&quoted);
        Ok(segment::icmp_error(peer.0, icmp, quoted, us.0))
    }

    // ---- packets of our host ------------------------------------------------------------------------------------

    /// Has what the script expects come? Takes it then.
    fn expect(&self, event: &Event, packet: &Packet, first: Instant, last: Instant) -> Result<bool, PktError> {
        loop {
            let Some((at, bytes)) = self.queue().pop_front() else { return Ok(false) };
            if self.compare(event, packet, at, &bytes)? {
                return self.check_time(event, at, &bytes, first, last).map(|()| true);
            }
        }
    }

    /// Does a packet of ours fit what is stated? False: it is a part of it.
    fn compare(&self, event: &Event, packet: &Packet, at: Instant, bytes: &[u8]) -> Result<bool, PktError> {
        let fail = |what: String| PktError::ran(event.line, what);
        let came = wire::dissect::packet_line(bytes).to_string();
        let sent =
            segment::read(bytes).map_err(|why| fail(format!("sent a packet that is broken: {why}\n  {came}")))?;
        let mut state = self.state.borrow_mut();
        let difference = match (&packet.body, sent) {
            (Body::Tcp(tcp), Sent::Tcp(ends, ip, live, text)) => {
                let seen = self.expect_tcp(&mut state, packet, tcp, ends, &live).map_err(&fail)?;
                let text = bytes.get(text..).unwrap_or_default();
                if let Some(conn) = state.current.and_then(|at| state.conns.get(at))
                    && !conn.is_written(live.seq, text)
                {
                    return Err(fail(format!("sent bytes that nobody wrote\n  came:     {came}")));
                }
                let Some(seen) = seen else { return Ok(false) }; // a part of it
                let different = segment::difference(tcp, &seen).or_else(|| segment::ip_difference(packet.ip, &ip));
                different.map(|what| (what, stated_line(tcp, &seen, ends), line_of(&seen, ends)))
            }
            (Body::Udp(len), Sent::Udp(ends, ip, seen)) => {
                self.meet(&mut state, ends, packet.ports, true).map_err(&fail)?;
                let different = if *len != seen { Some("length") } else { segment::ip_difference(packet.ip, &ip) };
                different.map(|what| (what, format!("udp ({len})"), came.clone()))
            }
            (Body::Icmp(icmp), Sent::Icmp(ty, code)) => {
                let same = (icmp.ty, icmp.code) == (ty, code);
                (!same).then(|| ("type or code", format!("icmp type {} code {}", icmp.ty, icmp.code), came.clone()))
            }
            (body, _) => {
                let name = match body {
                    Body::Tcp(_) => "a TCP segment",
                    Body::Udp(_) => "a UDP datagram",
                    Body::Icmp(_) => "an ICMP message",
                };
                Some(("protocol", name.to_owned(), came.clone()))
            }
        };
        if let Some((what, stated, seen)) = difference {
            let when = at.since(START);
            return Err(fail(format!("another {what} at {when:?}\n  expected: {stated}\n  came:     {seen}")));
        }
        Ok(true)
    }

    /// A packet that fits what is stated: did it come in time? Then the script goes on from there.
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
            let what = format!("came at {:?}, expected {window}\n  came:     {came}", at.since(START));
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

    /// Brings a segment into the script's numbers, joined to what came of it before; `None`: more is to come.
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
                return Err(format!("another segment in between\n  expected: {expected}\n  came:     {came}"));
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

    /// The connection that a packet of ours belongs to. It becomes the current one if it is new and may be (`opens`).
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
            return Err(format!("expected ports {} > {}, came {us} > {peer}", ports.0, ports.1));
        }
        let at = match state.conns.iter().position(|conn| conn.ends == ends) {
            Some(at) => at,
            None if opens => {
                state.conns.push(Conn::new(ends));
                state.conns.len() - 1
            }
            None => return Err(format!("a packet of a connection that the script does not know: {ends:?}")),
        };
        if ports.is_none() && state.current != Some(at) && !opens {
            return Err(format!("a packet of another connection: {ends:?}"));
        }
        state.current = Some(at);
        state.conns.get_mut(at).ok_or_else(|| "no connection".to_owned())
    }

    fn nothing_came(&self, event: &Event, packet: &Packet) -> PktError {
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
            Body::Icmp(icmp) => format!("icmp type {} code {}", icmp.ty, icmp.code),
        };
        let came = match &state.gathered {
            Some(part) => format!("only its first {} bytes", part.len),
            None => format!("nothing until {:?}", self.now.get().since(START)),
        };
        PktError::ran(event.line, format!("nothing came\n  expected: {stated}\n  came:     {came}"))
    }

    // ---- assertions ---------------------------------------------------------------------------------------------

    fn assert(&self, text: &str) -> Result<(), String> {
        let mut state = self.state.borrow_mut();
        let ends = state.current.and_then(|at| state.conns.get(at)).map(|conn| conn.ends);
        let calls = self.calls();
        let mine = |fd: &&Fd| {
            let local = calls.local_addr(**fd).map(|addr| addr.port()).ok();
            let peer = calls.peer_addr(**fd).map(|addr| addr.port()).ok();
            ends.is_some_and(|ends| local == Some(ends.local_port) && peer == Some(ends.remote_port))
        };
        let info = |fd: &Fd| calls.tcp_info(*fd).ok();
        let found = state.fds.values().rev().find(mine).and_then(info);
        let info = found.or_else(|| state.fds.values().rev().find_map(info));
        code::run(text, &info.ok_or("no socket to ask for TCP_INFO")?, &mut state.vars)
    }

    /// All changes since the last time, no more and no less; and nothing waits that was not expected.
    fn check_counters(&self, at: usize, stated: &[(String, i64)]) -> Result<(), String> {
        let mut state = self.state.borrow_mut();
        let now = counters(&self.stack);
        let mut changes = BTreeMap::new();
        for (name, value) in &now {
            let change = value.wrapping_sub(state.counters.get(name).copied().unwrap_or(0)) as i64;
            if change != 0 {
                changes.insert(name.clone(), change);
            }
        }
        if let Some((name, _)) = stated.iter().find(|(name, _)| !now.contains_key(name)) {
            return Err(format!("{name} is no counter that is stated here"));
        }
        state.counters = now;
        let expected: BTreeMap<String, i64> = stated.iter().cloned().collect();
        if let Some((at, packet)) = self.queue().front() {
            let line = wire::dissect::packet_line(packet);
            return Err(format!("a packet that nobody expected, at {:?}\n  came:     {line}", at.since(START)));
        }
        if expected == changes {
            return Ok(());
        }
        let line = |changes: &BTreeMap<String, i64>| {
            let words: Vec<String> = changes.iter().map(|(name, change)| format!("{name} +{change}")).collect();
            format!("counters {}", words.join(" "))
        };
        if self.rules.any_counters {
            state.restated.push((at, line(&changes)));
            return Ok(());
        }
        Err(format!("other changes\n  expected: {}\n  came:     {}", line(&expected), line(&changes)))
    }
}

impl Drive for Player<'_> {
    /// A call waits: the script goes on without it until it may return, or is late.
    fn drive(&self, until: Instant) -> Option<Instant> {
        let deadline = self.state.borrow().deadline;
        let due = self
            .next()
            .is_some_and(|event| !matches!(event.what, Action::Call(_)) && self.window(event).0 <= self.now.get());
        if self.now.get() >= deadline && !(due && self.is_blocking()) {
            return None;
        }
        if let Err(error) = self.progress(until.min(deadline)) {
            self.state.borrow_mut().failed = Some(error);
            return None;
        }
        Some(self.now.get())
    }
}

impl Player<'_> {
    /// May the call under way block at all?
    fn is_blocking(&self) -> bool {
        let before = self.state.borrow().at.checked_sub(1);
        let event = before.and_then(|at| self.script.events.get(at));
        // Packets played meanwhile stand behind the call: then it blocks, or they would not have been.
        event.is_none_or(|event| !matches!(&event.what, Action::Call(call) if call.until.is_none()))
    }
}

fn sides(ends: Ends) -> ((Ipv4Addr, u16), (Ipv4Addr, u16)) {
    ((ends.local, ends.local_port), (ends.remote, ends.remote_port))
}

fn line_of(seg: &Seg, ends: Ends) -> String {
    let (us, peer) = sides(ends);
    seg.line(us, peer)
}

/// What was stated, with what was left open as it came.
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
