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

use crate::conn::Conn;
use crate::counted::{Counts, counters};
use crate::error::PktError;
use crate::host::{Host, START};
use crate::script::{Action, Body, Event, Icmp, IpVersion, Packet, Script, When};
use crate::segment::{self, Ends, Seg};
use crate::settings::Settings;
use crate::shell;
use clock::{Duration, Instant};
use lock::Up;
use socket::{Calls, Drive, Fd};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;

/// Maximum time to wait for an expected packet for which the script states no time.
const PATIENCE: Duration = Duration::from_secs(7200);
/// First L4 port assigned to peers for which the script states no port.
const PEER_PORTS: u16 = 40_000;
/// Maximum number of bytes that a script may write or read at once.
pub(crate) const BYTES_MAX: usize = 64 << 20;

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

/// Progress of the script and state of its connections.
pub(crate) struct State {
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

pub(crate) struct Player<'s> {
    script: &'s Script,
    dir: Option<&'s Path>,
    rules: Rules,
    pub settings: Settings,
    pub host: Host<Up>,
    pub state: RefCell<State>,
}

/// Runs `script` against a new host.
pub(crate) fn play(script: &Script, dir: Option<&Path>, rules: Rules) -> Result<Played, PktError> {
    let settings = Settings::of(script, rules.ip_version)?;
    let player = Player::new(script, dir, settings, rules).map_err(|why| PktError::at(1, why))?;
    player.run()?;
    let time = player.host.now().since(START);
    Ok(Played { events: script.events.len(), time, counters: player.state.into_inner().restated })
}

impl<'s> Player<'s> {
    fn new(script: &'s Script, dir: Option<&'s Path>, settings: Settings, rules: Rules) -> Result<Player<'s>, String> {
        let host = Host::new("pkt", settings.mtu, Some(1))?;
        host.add_first_addr(settings.local)?;
        host.set_neighbor(settings.remote);
        let state = State {
            at: 0,
            base: START,
            conns: Vec::new(),
            current: None,
            gathered: None,
            peer_port: PEER_PORTS,
            failed: None,
            counters: counters(&host.stack, settings.version),
            fds: BTreeMap::new(),
            bound: settings.bind_port,
            deadline: START,
            restated: Vec::new(),
            vars: BTreeMap::new(),
            streams: BTreeMap::new(),
        };
        Ok(Player { script, dir, rules, settings, host, state: RefCell::new(state) })
    }

    pub fn calls(&self) -> Calls<'_, Up> {
        Calls::driving(&self.host.stack, self.host.cx(), self)
    }

    fn next(&self) -> Option<&'s Event> {
        self.script.events.get(self.state.borrow().at)
    }

    fn run(&self) -> Result<(), PktError> {
        while let Some(event) = self.next() {
            let due = self.window(event).0;
            match &event.what {
                Action::Call(call) if due <= self.host.now() => {
                    {
                        let mut state = self.state.borrow_mut();
                        state.at += 1;
                        let until = call.until.map(|until| self.moment(event.when, until, state.base));
                        state.base = due;
                        state.deadline = until.map_or(self.host.now(), |until| until.after(self.settings.tolerance));
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
        if self.host.now().after(twice) >= deadline {
            return Ok(());
        }
        let (now, then) = (self.host.now().since(START), deadline.since(START).saturating_sub(self.settings.tolerance));
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
                    if self.host.now() >= late {
                        return Err(self.nothing_came(event, packet));
                    }
                    target = target.min(late);
                }
                _ if first <= self.host.now() => {
                    let mut state = self.state.borrow_mut();
                    state.at += 1;
                    state.base = if event.when == When::Any { self.host.now() } else { first };
                    drop(state);
                    return self.act(event);
                }
                _ => target = target.min(first),
            }
        }
        self.host.advance(target);
        Ok(())
    }

    /// Runs the host's timers that are due; returns the time of the next one.
    fn poll(&self) -> Result<Instant, PktError> {
        self.host.poll().ok_or_else(|| {
            let now = self.host.now().since(START);
            PktError::ran(0, format!("the host's timers make no progress at {now:?}"))
        })
    }

    fn act(&self, event: &Event) -> Result<(), PktError> {
        let done = match &event.what {
            Action::In(packet) => self.inject(packet),
            Action::Code(code) => self.assert(code),
            Action::Command(text) => shell::run(text, &self.host.stack.sysctls, self.dir, 0),
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
        Ok(self.host.input(&bytes)?)
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
            .is_some_and(|event| !matches!(event.what, Action::Call(_)) && self.window(event).0 <= self.host.now());
        if self.host.now() >= deadline && !(due && self.is_blocking()) {
            return None;
        }
        if let Err(error) = self.progress(until.min(deadline)) {
            self.state.borrow_mut().failed = Some(error);
            return None;
        }
        Some(self.host.now())
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
