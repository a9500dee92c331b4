//! Runs the events of a script in virtual time against one host.
//!
//! Virtual time does not advance while events are processed, and then jumps to the next timer or
//! event. A blocking call runs the player ([`Drive`]): the packets of the script are processed
//! until the call returns or times out.
//!
//! Packets sent by our host are queued with their time until the script expects them. Several
//! segments may together match one stated segment, because a port may split large segments
//! (`--strict_segments` forbids this).

mod claims;
mod expect;

use super::conn::Conn;
use super::counted::{Counts, counters};
use super::error::PktError;
use super::script::{Action, Body, Event, Icmp, IpVersion, Packet, Script, When};
use super::segment::{self, Ends, Seg};
use super::settings::Settings;
use super::shell;
use buf::{Burst, Frame, Pool, PoolConfig};
use clock::{Duration, Instant};
use inet::Stack;
use inet::fib::Prefix;
use inet::fib::Prefix6;
use inet::iface::{IfaceAddr, IfaceId, Offload, Output};
use inet::ip6::IfaceAddr6;
use inet::route::Via;
use inet::route::Via6;
use lock::{Cx, How, Up};
use socket::{Calls, Drive, Fd};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use wire::Mac;
use wire::eth::EtherType;

/// Time on the host's clock at which the script starts.
const START: Instant = Instant::from_millis(1_000_000);
/// Maximum time to wait for an expected packet for which the script states no time.
const PATIENCE: Duration = Duration::from_secs(7200);
const IFACE: IfaceId = IfaceId(1);
const MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);
const ROUTER_MAC: Mac = Mac([2, 0, 0, 0, 0, 0xfe]);
/// First L4 port assigned to peers for which the script states no port.
const PEER_PORTS: u16 = 40_000;
/// Maximum number of bytes that a script may write or read at once.
pub(super) const BYTES_MAX: usize = 64 << 20;
/// Maximum length in bytes of a packet for which a buffer of the host's own pool is used.
const SMALL: usize = 2000;
/// Maximum number of polls at one instant; more indicate that the host is stuck.
const POLLS_MAX: usize = 10_000;

/// Result of a successful script.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Played {
    /// Number of events that were run.
    pub events: usize,
    /// Virtual time from start to end of the script.
    pub time: Duration,
    /// The `counters` lines that [`Rules::any_counters`] accepted: line number, and the correct
    /// content.
    pub counters: Vec<(usize, String)>,
}

/// Rules for running scripts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rules {
    /// IP version to use regardless of the script. With `None`, the version that the script sets,
    /// or IPv4.
    pub ip_version: Option<IpVersion>,
    /// True if PSH is accepted on any segment. RFC 9293 3.9.1.2 leaves the use of PSH mostly to the
    /// sender, and scripts for other stacks expect different rules.
    pub any_psh: bool,
    /// True if any `counters` line is accepted. [`Played::counters`] then has the correct content.
    pub any_counters: bool,
}

/// Packets sent by the host, with their times.
type Wire = Arc<Mutex<VecDeque<(Instant, Vec<u8>)>>>;

struct Out(Wire);

impl Output for Out {
    fn output(&mut self, burst: &mut Burst, now: Instant) -> usize {
        let mut wire = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let n = burst.len();
        for frame in burst.drain() {
            let Some((header, packet)) = frame.bytes().split_at_checked(wire::eth::HEADER_LEN) else { continue };
            let is_four = header.ends_with(&EtherType::IPV4.0.to_be_bytes());
            let is_six = header.ends_with(&EtherType::IPV6.0.to_be_bytes());
            if is_four || is_six && !wire::icmp6::is_link_upkeep(packet) {
                wire.push_back((now, packet.to_vec()));
            }
        }
        n
    }
}

/// Progress of the script and state of its connections.
pub(super) struct State {
    /// Index of the next event of the script.
    at: usize,
    /// Time of the previous event, to which relative times refer.
    base: Instant,
    conns: Vec<Conn>,
    current: Option<usize>,
    /// Concatenation of the segments received so far that are parts of one larger segment in the
    /// script.
    gathered: Option<Seg>,
    peer_port: u16,
    failed: Option<PktError>,
    counters: Counts,
    /// Descriptors of the script, by number.
    pub fds: BTreeMap<i64, Fd>,
    /// L4 port that was bound last. It is the destination port of packets from peers for which the
    /// script states no port.
    pub bound: u16,
    /// Time until which the current call may block.
    deadline: Instant,
    restated: Vec<(usize, String)>,
    /// Variables assigned in `%{ }%` code.
    vars: BTreeMap<String, i64>,
    /// Number of bytes written to and read from each descriptor, for checking the content of
    /// streams.
    pub streams: BTreeMap<i64, (u64, u64)>,
}

impl State {
    /// Returns the sequence number of the first data byte of the peer with L4 port `port`.
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
    /// Pool for packets that do not fit the host's own buffers.
    large: Pool,
    wire: Wire,
    now: Cell<Instant>,
    pub state: RefCell<State>,
}

/// Configures the host's address, and a default route via a router. The neighbor entries of the
/// router and of the peer have the same MAC address.
fn apply_settings(stack: &Stack<Up>, cx: Cx, settings: &Settings) -> Result<(), String> {
    match (settings.local, settings.remote) {
        (IpAddr::V4(local), IpAddr::V4(remote)) => {
            let [a, b, ..] = local.octets();
            let router = Ipv4Addr::new(a, b, 255, 254);
            stack.add_addr(cx, IFACE, IfaceAddr { addr: local, len: 16 }).map_err(|why| format!("{why:?}"))?;
            for neighbor in [router, remote] {
                stack.set_neighbor(cx, IFACE, neighbor, ROUTER_MAC);
            }
            stack.add_route(cx, Prefix::DEFAULT, Via::Gateway(IFACE, router)).map_err(|why| format!("{why:?}"))?;
        }
        (local, remote) => {
            let (local, remote) = (segment::six(local), segment::six(remote));
            let [a, b, c, ..] = local.segments();
            let router = Ipv6Addr::new(a, b, c, 0x8888, 0, 0, 0, 1);
            stack.sysctls.dad_count.set(0); // the address is usable from the start
            stack.add_addr6(cx, IFACE, IfaceAddr6::new(local, 48)).map_err(|why| format!("{local}: {why:?}"))?;
            for neighbor in [router, remote] {
                stack.set_neighbor6(cx, IFACE, neighbor, ROUTER_MAC);
            }
            stack.add_route6(cx, Prefix6::DEFAULT, Via6::Gateway(IFACE, router)).map_err(|why| format!("{why:?}"))?;
        }
    }
    Ok(())
}

/// Runs `script` against a new host.
pub(super) fn play(script: &Script, dir: Option<&Path>, rules: Rules) -> Result<Played, PktError> {
    let settings = Settings::of(script, rules.ip_version)?;
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
        stack.add_iface("em0", MAC, settings.mtu, Offload::default()).ok_or("cannot add an iface")?;
        apply_settings(&stack, cx, &settings)?;
        stack.set_output(cx, IFACE, Some(Box::new(Out(wire.clone()))));
        let state = State {
            at: 0,
            base: START,
            conns: Vec::new(),
            current: None,
            gathered: None,
            peer_port: PEER_PORTS,
            failed: None,
            counters: counters(&stack, settings.version),
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

    /// Checks that a call with a stated return time did not return earlier.
    fn check_return(&self, event: &Event, deadline: Instant) -> Result<(), PktError> {
        let twice = self.settings.tolerance.saturating_mul(2);
        if self.now.get().after(twice) >= deadline {
            return Ok(());
        }
        let (now, then) = (self.now.get().since(START), deadline.since(START).saturating_sub(self.settings.tolerance));
        Err(PktError::ran(event.line, format!("returned at {now:?}, expected at {then:?}")))
    }

    /// Returns the time `nanos` nanoseconds after the start of the script or, for a relative
    /// `when`, after `base`.
    fn moment(&self, when: When, nanos: i64, base: Instant) -> Instant {
        let from = match when {
            When::At(_) | When::Within(..) => START,
            When::After(_) | When::AfterWithin(..) | When::Any => base,
        };
        from.after(Duration::from_nanos(nanos.max(0) as u64))
    }

    /// Returns the first and last instant at which an event may occur.
    fn window(&self, event: &Event) -> (Instant, Instant) {
        let base = self.state.borrow().base;
        let at = |nanos| self.moment(event.when, nanos, base);
        match event.when {
            When::At(t) | When::After(t) => (at(t), at(t)),
            When::Within(from, to) | When::AfterWithin(from, to) => (at(from), at(to)),
            When::Any => (base.max(START), base.after(PATIENCE)),
        }
    }

    /// Performs one step. Processes the next event if it is due and is not a call; otherwise
    /// advances the time to the next event or timer, but not beyond `cap`.
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

    /// Runs the host's timers that are due; returns the time of the next one.
    fn poll(&self) -> Result<Instant, PktError> {
        for _ in 0..POLLS_MAX {
            match self.stack.poll(self.cx()) {
                Some(next) if next <= self.now.get() => {}
                next => return Ok(next.unwrap_or(Instant::NEVER)),
            }
        }
        Err(PktError::ran(0, format!("the host's timers make no progress at {:?}", self.now.get().since(START))))
    }

    fn act(&self, event: &Event) -> Result<(), PktError> {
        let done = match &event.what {
            Action::In(packet) => self.inject(packet),
            Action::Code(code) => self.assert(code),
            Action::Command(text) => shell::run(text, &self.stack.sysctls, self.dir, 0),
            Action::Counters(stated) => self.check_counters(event.line, stated),
            Action::Out(_) | Action::Call(_) => Ok(()),
        };
        done.map_err(|what| PktError::ran(event.line, what))?;
        self.poll().map(drop)
    }

    // ---- packets for our host ----

    fn inject(&self, packet: &Packet) -> Result<(), String> {
        let bytes = {
            let mut state = self.state.borrow_mut();
            match &packet.body {
                Body::Tcp(tcp) => {
                    let conn = self.conn(&mut state, packet.ports)?;
                    let seg = conn.arriving(tcp);
                    let (us, peer) = sides(conn.ends);
                    seg.emit(peer, us, packet.ip)
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
        let mut frame: Frame = pool.get().ok_or("no free buffer")?;
        let is_six = self.settings.version == IpVersion::V6;
        let kind = if is_six { EtherType::IPV6 } else { EtherType::IPV4 };
        let header = [&MAC.0[..], &ROUTER_MAC.0, &kind.0.to_be_bytes()].concat();
        frame.extend(&header).and_then(|()| frame.extend(&bytes)).ok_or("the packet is larger than a buffer")?;
        self.stack.input(self.cx(), IFACE, &mut Burst::of(frame));
        Ok(())
    }

    /// Returns the connection of a packet from the peer, creating it if there is none.
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
        let conn = state.current.and_then(|at| state.conns.get(at)).ok_or("ICMP error without a connection")?;
        let (us, peer) = sides(conn.ends);
        let quoted = match icmp.udp {
            Some(len) => segment::datagram(us, peer, len, Default::default()),
            None => {
                let mut seg = conn.last.clone().ok_or("ICMP error before the first sent segment")?;
                seg.seq = icmp.seq.map_or(seg.seq, |seq| conn.live_seq(seq));
                seg.emit(us, peer, Default::default())
            }
        };
        let message = icmp.words.message(self.settings.version == IpVersion::V6)?;
        Ok(segment::icmp_error(peer.0, message, &quoted, us.0))
    }
}

impl Drive for Player<'_> {
    /// Continues the script while a call blocks, until the call may return or times out.
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
    /// Returns whether the current call may block.
    fn is_blocking(&self) -> bool {
        let before = self.state.borrow().at.checked_sub(1);
        let event = before.and_then(|at| self.script.events.get(at));
        // If the previous event is a packet, it was processed during the call, so the call is
        // blocking.
        event.is_none_or(|event| !matches!(&event.what, Action::Call(call) if call.until.is_none()))
    }
}

fn sides(ends: Ends) -> ((IpAddr, u16), (IpAddr, u16)) {
    ((ends.local, ends.local_port), (ends.remote, ends.remote_port))
}
