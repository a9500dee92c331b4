//! The way of a frame when more has a say than where its addresses are: VLANs, the state of ports, rules.
//!
//! Frame by frame, in this order: is it a frame at all; is it for a reserved group, which a port reads in all states but disabled; is its
//! port open; which VLAN is it in (IEEE 802.1Q 8.6.1, 8.6.2); do the port's rules let it pass; its source is learned in its VLAN (8.7); is its port
//! forwarding; where is its destination (8.6.3). Leaving: is that port open and in the VLAN (8.6.4, 8.8.9), then the tag, then its rules.

use super::flood::Way;
use super::input::{FLOOD, GROUP, NO_HEADER, OWN, RESERVED, Verdict, addresses};
use super::rules::Action;
use super::state::Extra;
use super::{Bridge, Member, PortState};
use crate::{Key, LOCAL, Learned, PortNo};
use buf::{Burst, Frame};
use clock::Instant;
use stats::DropReason;

impl Bridge {
    #[inline(never)]
    pub(super) fn input_checked(
        &mut self,
        from: PortNo,
        member: Member,
        burst: &mut Burst,
        now: Instant,
        out: &mut [Burst],
    ) {
        burst.as_slice().iter().for_each(Frame::prefetch);
        for frame in burst.drain() {
            let mut way = Way::plain(from);
            let verdict = self.check(&mut way, member, &frame, now).unwrap_or_else(Verdict::drop);
            self.give(way, verdict, frame, now, out);
        }
    }

    fn check(&mut self, way: &mut Way, member: Member, frame: &Frame, now: Instant) -> Result<Verdict, DropReason> {
        let from = way.from;
        let (dst, src) = addresses(frame).unwrap_or((0, NO_HEADER));
        if src & GROUP != 0 || src == 0 || member.span {
            return Ok(self.refused(member, src));
        }
        let state = self.state(from).unwrap_or_default();
        if dst & !0xf == RESERVED && state != PortState::Disabled {
            return Ok(self.reserved_verdict());
        }
        self.admit(from, state)?;
        (way.vid, way.tagging) = self.classify(from, frame.bytes())?;
        self.ask_rules_in(from, frame)?;
        if member.learn {
            let key = Key::of(way.vid, src);
            let learned = self.fdb.learn(key, from, member.sticky, now);
            if learned != Learned::Known {
                self.learned(key, from, learned, now).map_or(Ok(()), Err)?;
            }
        }
        if state == PortState::Learning {
            return Err(DropReason::BridgeLearning);
        }
        if dst & GROUP != 0 {
            return Ok(FLOOD);
        }
        self.towards(*way, &member, Key::of(way.vid, dst), now)
    }

    fn admit(&self, from: PortNo, state: PortState) -> Result<(), DropReason> {
        match state {
            PortState::Disabled | PortState::Discarding => Err(DropReason::BridgeDiscarding),
            _ if self.muted(from).is_some() => Err(DropReason::BridgeMuted),
            PortState::Learning | PortState::Forwarding => Ok(()),
        }
    }

    fn ask_rules_in(&mut self, from: PortNo, frame: &Frame) -> Result<(), DropReason> {
        let rules = self.extra_mut(from).and_then(|extra| extra.rules_in.as_mut());
        match rules.map(|rules| rules.judge(frame.bytes())) {
            Some(Action::Drop) => Err(DropReason::BridgeRuleIn),
            Some(Action::Pass) | None => Ok(()),
        }
    }

    fn towards(&self, way: Way, member: &Member, dst: Key, now: Instant) -> Result<Verdict, DropReason> {
        match self.fdb.lookup(dst, now) {
            None => Ok(FLOOD),
            Some(LOCAL) => Ok(OWN),
            Some(to) if to == way.from => Err(DropReason::BridgeSamePort),
            Some(to) if !self.may_go(member, to) => Err(DropReason::BridgeApart),
            Some(to) if !self.extra(to).is_some_and(Extra::is_open) => Err(DropReason::BridgeNotForwarding),
            Some(to) if !self.is_in(to, way.vid) => Err(DropReason::BridgeVlanOut),
            Some(to) => Ok(Verdict::to(to)),
        }
    }

    /// May a frame for several leave through `to`?
    pub(super) fn is_open(&self, way: Way, to: PortNo) -> bool {
        self.extra(to).is_some_and(Extra::is_open) && self.is_in(to, way.vid)
    }

    /// Through `to`, its tag as that port has it, if its rules let it pass.
    pub(super) fn put_checked(&mut self, way: Way, mut frame: Frame, to: PortNo, out: &mut [Burst]) -> bool {
        let passes = self.retag(&mut frame, way.tagging, way.vid, to).and_then(|()| self.ask_rules_out(to, &frame));
        match passes {
            Ok(()) => self.put(frame, to, out),
            Err(why) => {
                self.drops.bump(why);
                false
            }
        }
    }

    fn ask_rules_out(&mut self, to: PortNo, frame: &Frame) -> Result<(), DropReason> {
        let rules = self.extra_mut(to).and_then(|extra| extra.rules_out.as_mut());
        match rules.map(|rules| rules.judge(frame.bytes())) {
            Some(Action::Drop) => Err(DropReason::BridgeRuleOut),
            Some(Action::Pass) | None => Ok(()),
        }
    }
}
