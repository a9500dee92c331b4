//! Fuzz target of the spanning tree: BPDUs, links, settings and time in any order.
//!
//! The bytes are interpreted as steps. No step may panic. After each step, the state machines must
//! be at rest, the number of effects must be bounded, and a port without a link must be discarding.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "broken invariants must panic; built for tests and fuzzing only"
)]

use super::{Duplex, Effect, Guarded, Link, MAX_UNSENT, PortRole, Stp, StpConfig, StpPort, StpVersion};
use crate::PortNo;
use crate::PortState;
use clock::{Duration, Instant};
use wire::Mac;
use wire::bpdu::{Bpdu, BridgeId, Config, Flags, PortId};

const PORTS: PortNo = 6;
const STEPS: usize = 2000;

struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    fn or_zero(&mut self) -> u8 {
        self.byte().unwrap_or(0)
    }

    fn some(&mut self, len: usize) -> Vec<u8> {
        let (some, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        some.to_vec()
    }
}

/// Runs the steps encoded in `data`.
pub fn stp(data: &[u8]) {
    let mut bytes = Bytes(data);
    let version = if bytes.or_zero() & 1 == 0 { StpVersion::Rstp } else { StpVersion::Stp };
    let mut now = Instant::ZERO;
    let config = StpConfig { address: Mac([2, 0, 0, 0, 0, 7]), version, ..StpConfig::default() };
    let mut stp = Stp::new(config, now).unwrap();
    for no in 0..PORTS {
        stp.add_port(no, requested(bytes.or_zero()), now).unwrap();
        stp.set_link(no, link(2), now);
    }
    for _ in 0..STEPS {
        let Some(step) = bytes.byte() else { break };
        one(&mut stp, step, &mut bytes, &mut now);
        check(&mut stp, now);
    }
}

fn requested(byte: u8) -> StpPort {
    let is = |bit: u8| byte & bit != 0;
    StpPort {
        edge: is(1),
        auto_edge: is(2),
        bpdu_guard: is(4) && is(8),
        guard_recovery: is(1).then_some(Duration::from_secs(5)),
        root_guard: is(16),
        loop_guard: is(32),
        bpdu_filter: is(64) && is(8),
        path_cost: is(128).then_some(u32::from(byte) * 100_000),
        ..StpPort::default()
    }
}

fn link(byte: u8) -> Link {
    let duplex = if byte & 1 == 0 { Duplex::Full } else { Duplex::Half };
    if byte & 2 == 0 { Link::Down } else { Link::Up { duplex, speed_kbps: 1_000_000 >> (byte >> 4) } }
}

/// Builds a BPDU from a few bytes. It is usually plausible.
fn bpdu(bytes: &mut Bytes<'_>) -> Bpdu {
    let mut id = || BridgeId::new(u16::from(bytes.or_zero()) << 8, Mac([2, 0, 0, 0, 0, bytes.or_zero() & 7]));
    let (root, bridge) = (id(), id());
    let config = Config {
        flags: Flags(bytes.or_zero()),
        root,
        root_path_cost: u32::from_be_bytes([0, bytes.or_zero(), bytes.or_zero(), 0]),
        bridge,
        port: PortId(0x8000 | u16::from(bytes.or_zero() & 7)),
        message_age: u16::from(bytes.or_zero()) << 5,
        max_age: 20 << 8,
        hello_time: u16::from(bytes.or_zero()) << 4,
        forward_delay: u16::from(bytes.or_zero()) << 6,
    };
    match bytes.or_zero() & 3 {
        0 => Bpdu::Tcn,
        1 => Bpdu::Config(config),
        _ => Bpdu::Rst(config),
    }
}

fn one(stp: &mut Stp, step: u8, bytes: &mut Bytes<'_>, now: &mut Instant) {
    let no = PortNo::from(step >> 4) % PORTS;
    match step & 15 {
        0..=5 => stp.on_bpdu(no, &bpdu(bytes).emit_frame(Mac([2; 6])), *now),
        6 => {
            let len = usize::from(bytes.or_zero() & 63);
            let junk = bytes.some(len);
            stp.on_bpdu(no, &junk, *now);
        }
        7 => {
            let octets = [&wire::bpdu::LLC[..], &[0, 0, 2, 2], &bytes.some(32)].concat();
            stp.on_bpdu(no, &octets, *now);
        }
        8 => stp.set_link(no, link(bytes.or_zero()), *now),
        9 => stp.set_port(no, requested(bytes.or_zero()), *now).unwrap(),
        10 => stp.set_priority(u16::from(bytes.or_zero() >> 4) << 12, *now).unwrap(),
        11 => {
            stp.remove_port(no, *now);
            stp.add_port(no, requested(bytes.or_zero()), *now).unwrap();
            stp.set_link(no, link(bytes.or_zero()), *now);
        }
        12 => stp.migrate(no, *now),
        13 => stp.reenable(no, *now),
        14 => *now = now.after(Duration::from_millis(u64::from(bytes.or_zero()) * 300)),
        _ => *now = now.after(Duration::from_secs(1)),
    }
}

fn check(stp: &mut Stp, now: Instant) {
    let next = stp.poll(now);
    assert!(next.is_none_or(|next| next > now));
    let mut effects = 0;
    while let Some(effect) = stp.next_effect() {
        effects += 1;
        if let Effect::State(no, state) = effect {
            assert_eq!(stp.state(no), state);
        }
    }
    assert!(effects <= MAX_UNSENT.min(PORTS as usize * 40), "{effects}");
    assert_eq!(stp.view().unsettled, 0);
    let view = stp.view();
    assert!(view.root <= view.bridge);
    for port in stp.ports() {
        if port.role == PortRole::Disabled || matches!(port.role, PortRole::Alternate | PortRole::Backup) {
            assert_eq!(port.state, PortState::Discarding, "{port:?}");
        }
        if matches!(port.guarded, Some(Guarded::Bpdu(_) | Guarded::Loop)) {
            assert_eq!(port.state, PortState::Discarding, "{port:?}");
        }
        assert_eq!(port.role == PortRole::Root, view.root_port == Some(port.port));
    }
}
