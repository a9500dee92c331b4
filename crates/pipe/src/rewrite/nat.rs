//! NAT44: several inside addresses share one outside address, as with iptables' MASQUERADE (RFC
//! 3022, RFC 4787, RFC 5382, RFC 5508).
//!
//! The addresses of a frame determine its direction. A frame from an inside address leaves with the
//! outside address and the port of its session. A frame to the outside address is forwarded to the
//! inside end of its session, or dropped as unsolicited if there is none. A session is one 5-tuple.
//! For an ICMP echo, the identifier takes the place of the port. A session keeps its source port
//! unless another session uses this port with the same remote end. Two inside hosts may therefore
//! use the same outside port with different remote ends. An ICMP error belongs to the session of
//! the packet that it quotes, and the quoted packet is translated too. All fragments of a datagram
//! are translated like its first fragment, which has the ports. Frames between other addresses, and
//! frames other than IPv4, pass unchanged. Hairpinning, that is, sending from inside to the outside
//! address, is not supported, and such frames are dropped. They could only be delivered to an
//! inside host with a session whose remote end is the outside address. There is no such session,
//! since frames from inside to the outside address do not create one.
//!
//! These are not translated: other protocols, addresses in payloads (such as FTP's PORT), and MAC
//! addresses, which a later [`super::Rewrite`] can set.

mod config;
mod table;
#[cfg(test)]
mod tests;

pub use config::{BadOption, Between, Config, Dir, Timeouts};

use crate::stage::{BadLink, StageError};
use crate::{About, FrameMut, Frames, Stage, Time};
use clock::{Clock, Duration, Instant};
use std::collections::{HashMap, VecDeque};
use std::net::Ipv4Addr;
use table::{Table, Tuple};
use wire::edit::{Layout, Side, Upper};
use wire::eth::EtherType;
use wire::icmp4::{self, ty};
use wire::tcp::{self, Flags};
use wire::{L4Port, ip4};

/// Reason why a frame is dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Drop {
    /// A frame from outside, a TCP reset or an ICMP error that does not belong to a session.
    Unsolicited,
    /// A frame from inside to the outside address.
    Hairpin,
    /// The protocol is not TCP, UDP, an ICMP echo or an ICMP error.
    Unsupported,
    /// A frame from inside to a multicast or broadcast address.
    NotUnicast,
    /// A later fragment of a datagram whose first fragment did not arrive, or arrived too long ago.
    Fragment,
    /// The headers are incomplete.
    Malformed,
    /// All outside ports that were tried are in use with the same remote end.
    NoPort,
}

/// All drop reasons, with their text in reports.
const DROPS: [(Drop, &str); 7] = [
    (Drop::Unsolicited, "unsolicited"),
    (Drop::Hairpin, "sent from inside to the outside address"),
    (Drop::Unsupported, "unsupported protocol"),
    (Drop::NotUnicast, "multicast or broadcast"),
    (Drop::Fragment, "fragment without the first fragment"),
    (Drop::Malformed, "malformed"),
    (Drop::NoPort, "no free port"),
];

/// Result of translating a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// The frame is not subject to translation, and is unchanged.
    Passed,
    /// The frame was translated from inside to outside.
    Out,
    /// The frame was translated from outside to inside.
    In,
    /// The frame was dropped for this reason.
    Dropped(Drop),
    /// A fragment that arrived before the first fragment of its datagram. It is unchanged and not
    /// counted; the caller translates it again after the first fragment.
    Early,
}

/// Counters of a translator.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Number of all frames, which is the sum of `passed`, `out`, `inward` and `dropped`.
    pub frames: u64,
    /// Number of frames not subject to translation.
    pub passed: u64,
    /// Number of frames translated from inside to outside.
    pub out: u64,
    /// Number of frames translated from outside to inside.
    pub inward: u64,
    /// Number of frames dropped, by reason.
    pub dropped: [u64; DROPS.len()],
    /// Number of sessions created so far.
    pub sessions: u64,
    /// Number of sessions ended by their timeout.
    pub expired: u64,
    /// Number of sessions ended because the table was full.
    pub evicted: u64,
}

impl Counts {
    /// Returns the number of frames dropped for the reason `why`.
    pub fn dropped_for(&self, why: Drop) -> u64 {
        self.dropped.iter().zip(DROPS).filter(|(_, (drop, _))| *drop == why).map(|(count, _)| count).sum()
    }
}

/// Datagrams whose first fragment was translated. The other fragments are translated to the same
/// address as the first one.
#[derive(Debug, Default)]
struct Fragments {
    known: HashMap<Datagram, (Ipv4Addr, Instant)>,
    /// Datagrams in order of arrival. A datagram whose first fragment arrived twice is listed
    /// twice.
    order: VecDeque<(Datagram, Instant)>,
}

/// Key of a datagram, which all its fragments share (RFC 791 3.2): source, destination, protocol
/// and identification.
type Datagram = (Ipv4Addr, Ipv4Addr, u8, u16);

/// Maximum number of datagrams for which fragments are expected.
const MAX_DATAGRAMS: usize = 4096;
/// Time for which fragments are expected after the first one. It equals the reassembly timeout of
/// Linux.
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
    /// Creates a translator without sessions.
    pub fn new(config: Config) -> Nat {
        let table = Table::new(&config);
        Nat { config, table, fragments: Fragments::default(), now: Instant::ZERO, counts: Counts::default() }
    }

    /// Sets the time to `now` and ends the sessions that have timed out.
    pub fn advance(&mut self, now: Instant) {
        self.now = self.now.max(now);
        self.counts.expired += self.table.expire(self.now);
        self.fragments.expire(self.now);
    }

    /// Returns the counters so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Returns the number of current sessions.
    pub fn sessions(&self) -> usize {
        self.table.len()
    }

    /// Translates one frame. A dropped frame may be partly changed.
    pub fn translate(&mut self, frame: &mut [u8]) -> Fate {
        let fate = match self.decide(frame) {
            Err(Drop::Fragment) => return Fate::Early,
            fate => fate.unwrap_or_else(Fate::Dropped),
        };
        self.count(fate, 1);
        fate
    }

    /// Counts `count` early fragments as dropped because their first fragment did not arrive.
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
        let port = match Wanted::of(frame, layout, header)? {
            Wanted::Later => {
                self.fragments.get(&datagram(header)).ok_or(Drop::Fragment)?;
                None
            }
            Wanted::Error => {
                let table = &self.table;
                layout
                    .change_quoted(frame, |quoted| quoted_inward(quoted, table, outside))
                    .ok_or(Drop::Malformed)??;
                None
            }
            Wanted::Session { proto, src, dst, flags } => {
                if proto == Upper::Icmp && !is_echo(frame, layout, ty::ECHO_REQUEST) {
                    return Err(Drop::Unsolicited); // a reply without a request
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
        let (addr, port) = match Wanted::of(frame, layout, header)? {
            Wanted::Later => (self.fragments.get(&datagram(header)).ok_or(Drop::Fragment)?, None),
            Wanted::Error => {
                let table = &self.table;
                let quoted = layout.change_quoted(frame, |quoted| quoted_outward(quoted, table, outside));
                (quoted.ok_or(Drop::Malformed)??, None)
            }
            Wanted::Session { proto, src, dst, flags } => {
                // For an echo, the identifier is used in place of the outside port, and the remote
                // port is 0.
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

    /// Returns the outside port of the session of a packet from inside, creating the session if
    /// necessary.
    fn session(&mut self, tuple: Tuple, flags: Flags) -> Translated<u16> {
        if let Some((at, outside)) = self.table.find(&tuple) {
            self.table.saw(at, Side::Src, flags, self.now);
            return Ok(outside.port);
        }
        if flags.contains(Flags::RST) {
            return Err(Drop::Unsolicited); // a reset does not create a session
        }
        let (port, evicted) = self.table.insert(tuple, flags, self.now).ok_or(Drop::NoPort)?;
        self.counts.sessions += 1;
        self.counts.evicted += u64::from(evicted);
        Ok(port)
    }

    /// Records `addr` if the packet is a first fragment, so that the other fragments of its
    /// datagram are translated in the same way.
    fn remember(&mut self, header: &ip4::Header, addr: Ipv4Addr) {
        if header.mf && header.frag_off == 0 {
            self.fragments.insert(datagram(header), addr, self.now);
        }
    }
}

fn datagram(header: &ip4::Header) -> Datagram {
    (header.src, header.dst, header.proto.0, header.id)
}

/// Kind of translation that a packet requires.
enum Wanted {
    /// A packet of a session. For an echo, `src` is the identifier and `dst` is 0.
    Session { proto: Upper, src: u16, dst: u16, flags: Flags },
    /// An ICMP error, which quotes a packet of a session.
    Error,
    /// A fragment other than the first.
    Later,
}

impl Wanted {
    fn of(frame: &[u8], layout: &Layout, header: &ip4::Header) -> Translated<Wanted> {
        if header.frag_off != 0 {
            return Ok(Wanted::Later);
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
                    Ok(Wanted::Session { proto, src: u16::from_be_bytes([i0, i1]), dst: 0, flags })
                }
                ty::UNREACHABLE | ty::SOURCE_QUENCH | ty::TIME_EXCEEDED | ty::PARAMETER_PROBLEM => Ok(Wanted::Error),
                _ => Err(Drop::Unsupported),
            };
        }
        match layout.ports(frame) {
            Some((src, dst)) => Ok(Wanted::Session { proto, src: src.0, dst: dst.0, flags }),
            None if matches!(proto, Upper::Tcp | Upper::Udp) => Err(Drop::Malformed),
            None => Err(Drop::Unsupported),
        }
    }
}

fn is_echo(frame: &[u8], layout: &Layout, ty: u8) -> bool {
    layout.payload(frame).first() == Some(&ty)
}

/// Sets the source or destination port, or the identifier of an echo.
fn set_end(frame: &mut [u8], layout: &Layout, side: Side, port: u16) {
    if layout.upper() == Upper::Icmp {
        layout.set_icmp_id(frame, port);
    } else {
        layout.set_port(frame, side, L4Port(port));
    }
}

/// Returns the layout, the header, and the source and destination port of a packet quoted in an
/// ICMP error.
fn quoted_ends(quoted: &[u8]) -> Translated<(Layout, ip4::Header, u16, u16)> {
    let layout = Layout::of_ip4(quoted);
    let header = layout.header4(quoted).ok_or(Drop::Malformed)?;
    match Wanted::quoted(quoted, &layout) {
        Some((src, dst)) => Ok((layout, header, src, dst)),
        None => Err(Drop::Unsolicited),
    }
}

impl Wanted {
    /// Returns the source and destination port of a quoted packet; for an echo, the identifier as
    /// both. They are in the first eight bytes after the IP header, the minimum that an error
    /// quotes (RFC 792).
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

/// Restores the inside source address and port in a translated packet that an ICMP error from
/// outside quotes. Returns this address.
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

/// Restores the outside destination address and port in a translated packet that an ICMP error from
/// inside quotes.
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

/// Fragments that wait for the first fragment of their datagram (RFC 4787 REQ-14), in order of
/// arrival.
#[derive(Debug)]
struct Early {
    waiting: VecDeque<(Instant, Datagram)>,
    /// Frames of the fragments in `waiting`, in the same order.
    frames: VecDeque<(Box<[u8]>, Time, About)>,
    bytes: usize,
}

/// Maximum number of waiting fragments. `EARLY_BYTES_MAX` is the maximum of their total length in
/// bytes. When a maximum is exceeded, the oldest fragments are dropped.
const EARLY_MAX: usize = 4096;
const EARLY_BYTES_MAX: usize = 4 << 20;

impl Early {
    fn push(&mut self, frame: &FrameMut<'_>, now: Instant) {
        let Some(header) = Layout::of(frame.bytes()).header4(frame.bytes()) else { return };
        self.waiting.push_back((now, datagram(&header)));
        self.frames.push_back((frame.bytes().into(), frame.time(), frame.about().clone()));
        self.bytes += frame.bytes().len();
    }

    /// Drops fragments that have waited too long or exceed the limits. Returns the number of
    /// fragments dropped.
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

    /// Translates the fragments whose first fragment has arrived, and appends them to `out`.
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

/// Stage that translates frames with a [`Nat`]. It reads the clock once per batch.
#[derive(Debug)]
pub struct NatStage {
    nat: Nat,
    clock: Clock,
    early: Early,
}

impl NatStage {
    /// Creates a stage that reads the time from `clock`.
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
        let mut said = format!("nat44: {frames} frames: {out} out, {inward} in, {passed} passed unchanged");
        for (count, (_, why)) in counts.dropped.iter().zip(DROPS).filter(|(count, _)| **count > 0) {
            said += &format!(", {count} dropped: {why}");
        }
        said += &format!("; {sessions} sessions, {expired} expired, {evicted} evicted");
        Some(said)
    }
}
