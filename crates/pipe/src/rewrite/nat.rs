//! NAT44: many inside addresses behind one outside address, as iptables' MASQUERADE does it (RFC 3022, RFC 4787, RFC 5382, RFC 5508).
//!
//! A frame is told by its addresses. From inside to elsewhere it leaves with the outside address and a port of its session's; to the outside
//! address it goes back to the session's inside end, or nowhere: what nobody asked for is dropped. A session is one 5-tuple (for echoes, the
//! identifier is the port): it takes the port it comes with if that is free towards this remote end, so two inside hosts may use one.
//! An ICMP error belongs to the session of the packet it quotes, and the quote is translated with it. Fragments follow their first.
//!
//! Frames between others pass as they are, and what is no IPv4. From inside to the outside address ("hairpin") nothing goes: what answers
//! there would have to have asked this host before, under an address that it does not have.
//!
//! Not done: other protocols, payloads (FTP's PORT), and MAC addresses, which [`super::Rewrite`] does behind it.

mod knobs;
mod table;
#[cfg(test)]
mod tests;

pub use knobs::{BadKnob, Between, Timeouts};

use crate::stage::{BadLink, StageError};
use crate::{About, FrameMut, Frames, Stage, Time};
use clock::{Clock, Duration, Instant};
use std::collections::{HashMap, VecDeque};
use std::net::Ipv4Addr;
use std::ops::RangeInclusive;
use table::{Table, Tuple};
use wire::edit::{Layout, Side, Upper};
use wire::eth::EtherType;
use wire::icmp4::{self, ty};
use wire::tcp::{self, Flags};
use wire::{L4Port, ip4};

/// Which way frames go.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Dir {
    /// As their addresses say.
    #[default]
    Auto,
    /// All come from inside.
    Out,
    /// All come from outside.
    In,
}

/// How to translate.
#[derive(Clone, Debug)]
pub struct Config {
    /// Whom it stands between.
    pub between: Between,
    /// Which way frames go.
    pub dir: Dir,
    /// Outside ports, of which a session gets one.
    pub ports: RangeInclusive<u16>,
    /// Sessions at most; one more ends the one that has been idle longest.
    pub limit: usize,
    /// How long a session lives without a packet.
    pub timeouts: Timeouts,
}

impl Config {
    /// With what the RFCs say.
    pub fn new(between: Between) -> Config {
        let (dir, timeouts) = (Dir::default(), Timeouts::default());
        Config { between, dir, ports: 1..=u16::MAX, limit: 65_536, timeouts }
    }
}

/// Why a frame went nowhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Drop {
    /// From outside, and nobody inside asked for it; or a reset, or an error, of no session.
    Unsolicited,
    /// From inside to the outside address.
    Hairpin,
    /// Neither TCP nor UDP nor an echo nor an ICMP error.
    Unsupported,
    /// To a group, or to all.
    NotUnicast,
    /// A fragment whose first did not come, or came long before it.
    Fragment,
    /// Headers that are not all there.
    Malformed,
    /// No port is free towards that remote end.
    NoPort,
}

/// The reasons, each with its sentence.
const DROPS: [(Drop, &str); 7] = [
    (Drop::Unsolicited, "unsolicited"),
    (Drop::Hairpin, "from inside to the outside address"),
    (Drop::Unsupported, "of other protocols"),
    (Drop::NotUnicast, "to groups"),
    (Drop::Fragment, "fragments without their first"),
    (Drop::Malformed, "malformed"),
    (Drop::NoPort, "without a free port"),
];

/// What became of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// None of ours: as it was.
    Passed,
    /// Translated, from inside.
    Out,
    /// Translated, from outside.
    In,
    /// Went nowhere.
    Dropped(Drop),
    /// A fragment whose first has not come yet: as it was, and to be translated again then. Not counted.
    Early,
}

/// What was counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// All frames: the sum of the next four.
    pub frames: u64,
    /// None of ours.
    pub passed: u64,
    /// Translated, from inside.
    pub out: u64,
    /// Translated, from outside.
    pub inward: u64,
    /// Went nowhere, by reason.
    pub dropped: [u64; DROPS.len()],
    /// Sessions there were.
    pub sessions: u64,
    /// Ended by their timeout.
    pub expired: u64,
    /// Ended to make room.
    pub evicted: u64,
}

impl Counts {
    /// How many were dropped for `why`.
    pub fn dropped_for(&self, why: Drop) -> u64 {
        self.dropped.iter().zip(DROPS).filter(|(_, (drop, _))| *drop == why).map(|(count, _)| count).sum()
    }
}

/// Datagrams whose first fragment has passed: which one it is, and the address it got.
#[derive(Debug, Default)]
struct Fragments {
    known: HashMap<Datagram, (Ipv4Addr, Instant)>,
    /// In the order in which they came; one that came again stands in it twice.
    order: VecDeque<(Datagram, Instant)>,
}

/// What fragments of one datagram have in common (RFC 791 3.2).
type Datagram = (Ipv4Addr, Ipv4Addr, u8, u16);

/// The most datagrams of which fragments are expected.
const MAX_DATAGRAMS: usize = 4096;
/// How long: what Linux waits for a datagram's last.
const FRAGMENT_TIMEOUT: Duration = Duration::from_secs(30);

impl Fragments {
    fn insert(&mut self, datagram: Datagram, addr: Ipv4Addr, now: Instant) {
        if self.order.len() >= MAX_DATAGRAMS {
            self.forget_first();
        }
        self.known.insert(datagram, (addr, now));
        self.order.push_back((datagram, now));
    }

    fn expire(&mut self, now: Instant) {
        while self.order.front().is_some_and(|(_, at)| now.since(*at) >= FRAGMENT_TIMEOUT) {
            self.forget_first();
        }
    }

    fn forget_first(&mut self) {
        let Some((datagram, at)) = self.order.pop_front() else { return };
        if self.known.get(&datagram).is_some_and(|(_, last)| *last == at) {
            self.known.remove(&datagram);
        }
    }

    fn get(&self, datagram: &Datagram) -> Option<Ipv4Addr> {
        self.known.get(datagram).map(|(addr, _)| *addr)
    }
}

/// A translator and its sessions.
#[derive(Debug)]
pub struct Nat {
    config: Config,
    table: Table,
    fragments: Fragments,
    now: Instant,
    counts: Counts,
}

type Translated<T> = Result<T, Drop>;

impl Nat {
    /// Without sessions.
    pub fn new(config: Config) -> Nat {
        let table = Table::new(&config);
        Nat { config, table, fragments: Fragments::default(), now: Instant::ZERO, counts: Counts::default() }
    }

    /// It is `now`: what has been idle too long ends.
    pub fn advance(&mut self, now: Instant) {
        self.now = self.now.max(now);
        self.counts.expired += self.table.expire(self.now);
        self.fragments.expire(self.now);
    }

    /// What was counted so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Sessions there are.
    pub fn sessions(&self) -> usize {
        self.table.len()
    }

    /// Translates one frame. One that is dropped may have been changed in part.
    pub fn translate(&mut self, frame: &mut [u8]) -> Fate {
        let fate = match self.decide(frame) {
            Err(Drop::Fragment) => return Fate::Early,
            fate => fate.unwrap_or_else(Fate::Dropped),
        };
        self.count(fate, 1);
        fate
    }

    /// Gives `count` early fragments up: their first does not come.
    fn give_up(&mut self, count: u64) {
        self.count(Fate::Dropped(Drop::Fragment), count);
    }

    fn count(&mut self, fate: Fate, frames: u64) {
        self.counts.frames += frames;
        match fate {
            Fate::Passed => self.counts.passed += frames,
            Fate::Out => self.counts.out += frames,
            Fate::In => self.counts.inward += frames,
            Fate::Early => {}
            Fate::Dropped(why) => {
                let counts = self.counts.dropped.iter_mut().zip(DROPS).filter(|(_, (drop, _))| *drop == why);
                counts.for_each(|(count, _)| *count += frames);
            }
        }
    }

    fn decide(&mut self, frame: &mut [u8]) -> Translated<Fate> {
        let layout = Layout::of(frame);
        let Some(header) = layout.header4(frame) else {
            let is_ip4 = layout.ethertype(frame) == Some(EtherType::IPV4);
            return if is_ip4 { Err(Drop::Malformed) } else { Ok(Fate::Passed) };
        };
        let Config { between, dir, .. } = &self.config;
        let (from_inside, to_outside) = (between.contains(header.src), header.dst == between.outside);
        if from_inside && *dir != Dir::In {
            if between.contains(header.dst) {
                return Ok(Fate::Passed);
            }
            if to_outside {
                return Err(Drop::Hairpin);
            }
            self.outward(frame, &layout, &header)?;
            return Ok(Fate::Out);
        }
        if to_outside && *dir != Dir::Out {
            self.inward(frame, &layout, &header)?;
            return Ok(Fate::In);
        }
        Ok(Fate::Passed)
    }

    fn outward(&mut self, frame: &mut [u8], layout: &Layout, header: &ip4::Header) -> Translated<()> {
        let outside = self.config.between.outside;
        if header.dst.is_multicast() || header.dst.is_broadcast() {
            return Err(Drop::NotUnicast);
        }
        let port = match Asked::of(frame, layout, header)? {
            Asked::Later => {
                self.fragments.get(&datagram(header)).ok_or(Drop::Fragment)?;
                None
            }
            Asked::Error => {
                let table = &self.table;
                layout
                    .change_quoted(frame, |quoted| quoted_inward(quoted, table, outside))
                    .ok_or(Drop::Malformed)??;
                None
            }
            Asked::Session { proto, src, dst, flags } => {
                if proto == Upper::Icmp && !is_echo(frame, layout, ty::ECHO_REQUEST) {
                    return Err(Drop::Unsolicited); // an answer to what nobody could ask
                }
                let tuple = Tuple { proto, addr: header.src, port: src, remote: header.dst, remote_port: dst };
                Some(self.session(tuple, flags)?)
            }
        };
        self.remember(header, outside);
        layout.set_addr4(frame, Side::Src, outside);
        if let Some(port) = port {
            set_end(frame, layout, Side::Src, port);
        }
        Ok(())
    }

    fn inward(&mut self, frame: &mut [u8], layout: &Layout, header: &ip4::Header) -> Translated<()> {
        let outside = self.config.between.outside;
        let (addr, port) = match Asked::of(frame, layout, header)? {
            Asked::Later => (self.fragments.get(&datagram(header)).ok_or(Drop::Fragment)?, None),
            Asked::Error => {
                let table = &self.table;
                let quoted = layout.change_quoted(frame, |quoted| quoted_outward(quoted, table, outside));
                (quoted.ok_or(Drop::Malformed)??, None)
            }
            Asked::Session { proto, src, dst, flags } => {
                // An echo's identifier is its only port.
                let (port, remote_port) = if proto == Upper::Icmp { (src, 0) } else { (dst, src) };
                if proto == Upper::Icmp && !is_echo(frame, layout, ty::ECHO_REPLY) {
                    return Err(Drop::Unsolicited);
                }
                let tuple = Tuple { proto, addr: outside, port, remote: header.src, remote_port };
                let (at, inside) = self.table.find(&tuple).ok_or(Drop::Unsolicited)?;
                self.table.saw(at, Side::Dst, flags, self.now);
                (inside.addr, Some(inside.port))
            }
        };
        self.remember(header, addr);
        layout.set_addr4(frame, Side::Dst, addr);
        if let Some(port) = port {
            set_end(frame, layout, Side::Dst, port);
        }
        Ok(())
    }

    /// The outside port of the session of an inside packet: the one there is, or a new one.
    fn session(&mut self, tuple: Tuple, flags: Flags) -> Translated<u16> {
        if let Some((at, outside)) = self.table.find(&tuple) {
            self.table.saw(at, Side::Src, flags, self.now);
            return Ok(outside.port);
        }
        if flags.contains(Flags::RST) {
            return Err(Drop::Unsolicited); // it ends nothing
        }
        let (port, evicted) = self.table.insert(tuple, flags, self.now).ok_or(Drop::NoPort)?;
        self.counts.sessions += 1;
        self.counts.evicted += u64::from(evicted);
        Ok(port)
    }

    /// Others of this datagram's fragments go the same way.
    fn remember(&mut self, header: &ip4::Header, addr: Ipv4Addr) {
        if header.mf && header.frag_off == 0 {
            self.fragments.insert(datagram(header), addr, self.now);
        }
    }
}

fn datagram(header: &ip4::Header) -> Datagram {
    (header.src, header.dst, header.proto.0, header.id)
}

/// What a packet asks of a translator.
enum Asked {
    /// A session's; of an echo both ports are its identifier, or 0.
    Session { proto: Upper, src: u16, dst: u16, flags: Flags },
    /// An ICMP error.
    Error,
    /// A fragment that is not the first.
    Later,
}

impl Asked {
    fn of(frame: &[u8], layout: &Layout, header: &ip4::Header) -> Translated<Asked> {
        if header.frag_off != 0 {
            return Ok(Asked::Later);
        }
        let payload = layout.payload(frame);
        let proto = layout.upper();
        let flags = match proto {
            Upper::Tcp => tcp::Header::parse(payload).map_err(|_| Drop::Malformed)?.flags,
            _ => Flags::default(),
        };
        if proto == Upper::Icmp {
            let header = icmp4::Header::parse(payload).map_err(|_| Drop::Malformed)?;
            let [i0, i1, ..] = header.rest;
            return match header.ty {
                ty::ECHO_REQUEST | ty::ECHO_REPLY => {
                    Ok(Asked::Session { proto, src: u16::from_be_bytes([i0, i1]), dst: 0, flags })
                }
                ty::UNREACHABLE | ty::SOURCE_QUENCH | ty::TIME_EXCEEDED | ty::PARAMETER_PROBLEM => Ok(Asked::Error),
                _ => Err(Drop::Unsupported),
            };
        }
        match layout.ports(frame) {
            Some((src, dst)) => Ok(Asked::Session { proto, src: src.0, dst: dst.0, flags }),
            None if matches!(proto, Upper::Tcp | Upper::Udp) => Err(Drop::Malformed),
            None => Err(Drop::Unsupported),
        }
    }
}

fn is_echo(frame: &[u8], layout: &Layout, ty: u8) -> bool {
    layout.payload(frame).first() == Some(&ty)
}

/// Writes the port of one end, or an echo's identifier.
fn set_end(frame: &mut [u8], layout: &Layout, side: Side, port: u16) {
    if layout.upper() == Upper::Icmp {
        layout.set_icmp_id(frame, port);
    } else {
        layout.set_port(frame, side, L4Port(port));
    }
}

/// The protocol, the addresses and the ports of a packet that an error quotes.
fn quoted_ends(quoted: &[u8]) -> Translated<(Layout, ip4::Header, u16, u16)> {
    let layout = Layout::of_ip4(quoted);
    let header = layout.header4(quoted).ok_or(Drop::Malformed)?;
    match Asked::quoted(quoted, &layout) {
        Some((src, dst)) => Ok((layout, header, src, dst)),
        None => Err(Drop::Unsolicited),
    }
}

impl Asked {
    /// The ports of a quoted packet, of which 8 bytes behind its header need to be there (RFC 792).
    fn quoted(quoted: &[u8], layout: &Layout) -> Option<(u16, u16)> {
        if layout.upper() != Upper::Icmp {
            return layout.ports(quoted).map(|(src, dst)| (src.0, dst.0));
        }
        let header = icmp4::Header::parse(layout.payload(quoted)).ok()?;
        let [i0, i1, ..] = header.rest;
        let id = u16::from_be_bytes([i0, i1]);
        matches!(header.ty, ty::ECHO_REQUEST | ty::ECHO_REPLY).then_some((id, id))
    }
}

/// An error from outside quotes what we sent: it gets its inside source back. Says which.
fn quoted_outward(quoted: &mut [u8], table: &Table, outside: Ipv4Addr) -> Translated<Ipv4Addr> {
    let (layout, header, port, remote_port) = quoted_ends(quoted)?;
    let proto = layout.upper();
    let remote_port = if proto == Upper::Icmp { 0 } else { remote_port };
    let tuple = Tuple { proto, addr: outside, port, remote: header.dst, remote_port };
    let (_, inside) = table.find(&tuple).filter(|_| header.src == outside).ok_or(Drop::Unsolicited)?;
    layout.set_addr4(quoted, Side::Src, inside.addr);
    set_end(quoted, &layout, Side::Src, inside.port);
    Ok(inside.addr)
}

/// An error from inside quotes what we let in: it gets its outside destination back.
fn quoted_inward(quoted: &mut [u8], table: &Table, outside: Ipv4Addr) -> Translated<()> {
    let (layout, header, remote_port, port) = quoted_ends(quoted)?;
    let proto = layout.upper();
    let remote_port = if proto == Upper::Icmp { 0 } else { remote_port };
    let tuple = Tuple { proto, addr: header.dst, port, remote: header.src, remote_port };
    let (_, found) = table.find(&tuple).filter(|_| header.dst != outside).ok_or(Drop::Unsolicited)?;
    layout.set_addr4(quoted, Side::Dst, outside);
    set_end(quoted, &layout, Side::Dst, found.port);
    Ok(())
}

/// Fragments that wait for the first of their datagram (RFC 4787 REQ-14), in the order in which they came.
#[derive(Debug)]
struct Early {
    waiting: VecDeque<(Instant, Datagram)>,
    /// Their frames.
    frames: VecDeque<(Box<[u8]>, Time, About)>,
    bytes: usize,
}

/// Fragments that wait at most, and their bytes: of more, the oldest are dropped.
const EARLY_MAX: usize = 4096;
const EARLY_BYTES_MAX: usize = 4 << 20;

impl Early {
    fn push(&mut self, frame: &FrameMut<'_>, now: Instant) {
        let Some(header) = Layout::of(frame.bytes()).header4(frame.bytes()) else { return };
        self.waiting.push_back((now, datagram(&header)));
        self.frames.push_back((frame.bytes().into(), frame.time(), frame.about().clone()));
        self.bytes += frame.bytes().len();
    }

    /// Drops those that waited too long, or have no room; returns how many.
    fn expire(&mut self, now: Instant) -> u64 {
        let mut dropped = 0;
        while self.waiting.front().is_some_and(|(at, _)| {
            self.waiting.len() > EARLY_MAX || self.bytes > EARLY_BYTES_MAX || now.since(*at) >= FRAGMENT_TIMEOUT
        }) {
            self.waiting.pop_front();
            self.bytes -= self.frames.pop_front().map_or(0, |(frame, ..)| frame.len());
            dropped += 1;
        }
        dropped
    }

    /// Translates and appends to `out` those whose first has come.
    fn release(&mut self, nat: &mut Nat, out: &mut Frames) {
        if !self.waiting.iter().any(|(_, datagram)| nat.fragments.get(datagram).is_some()) {
            return;
        }
        for _ in 0..self.waiting.len() {
            let (Some(wait), Some((mut frame, time, about))) = (self.waiting.pop_front(), self.frames.pop_front())
            else {
                return;
            };
            match nat.translate(&mut frame) {
                Fate::Early => {
                    self.waiting.push_back(wait);
                    self.frames.push_back((frame, time, about));
                    continue;
                }
                Fate::Dropped(_) => {}
                Fate::Passed | Fate::Out | Fate::In => _ = out.push_about(&frame, time, &about),
            }
            self.bytes -= frame.len();
        }
    }
}

/// [`Nat`] as a stage. Asks the clock once a batch.
#[derive(Debug)]
pub struct NatStage {
    nat: Nat,
    clock: Clock,
    early: Early,
}

impl NatStage {
    /// By this clock.
    pub fn new(config: Config, clock: Clock) -> NatStage {
        let early = Early { waiting: VecDeque::new(), frames: VecDeque::new(), bytes: 0 };
        NatStage { nat: Nat::new(config), clock, early }
    }
}

impl Stage for NatStage {
    fn run(&mut self, frames: &mut Frames) -> Result<(), StageError> {
        BadLink::check(frames, "rewritten").map_err(StageError::LinkType)?;
        let now = self.clock.now();
        self.nat.advance(now);
        frames.retain(|frame| match self.nat.translate(frame.bytes_mut()) {
            Fate::Passed | Fate::Out | Fate::In => true,
            Fate::Dropped(_) => false,
            Fate::Early => {
                self.early.push(frame, now);
                false
            }
        });
        self.early.release(&mut self.nat, frames);
        let dropped = self.early.expire(now);
        self.nat.give_up(dropped);
        Ok(())
    }

    fn finish(&mut self, _: &mut Frames) -> Result<(), StageError> {
        self.nat.give_up(self.early.waiting.len() as u64);
        self.early.waiting.clear();
        self.early.frames.clear();
        Ok(())
    }

    fn report(&self) -> Option<String> {
        let counts = self.nat.counts();
        let Counts { frames, passed, out, inward, sessions, expired, evicted, .. } = counts;
        let mut said = format!("nat44: {frames} frames: {out} out, {inward} in, {passed} passed as they are");
        for (count, (_, why)) in counts.dropped.iter().zip(DROPS).filter(|(count, _)| **count > 0) {
            said += &format!(", {count} dropped: {why}");
        }
        said += &format!("; {sessions} sessions, {expired} expired, {evicted} ended to make room");
        Some(said)
    }
}
