//! VLANs (IEEE 802.1Q 6.9, 8.6): to which one a frame belongs when it comes in, and what its tag is when it leaves.
//!
//! Coming in, a tag of the bridge's EtherType says the VLAN; a frame without one, or whose tag says 0 (priority only), is in its
//! port's PVID's. Only the outer tag counts. Leaving, a port has a VLAN tagged or untagged: the tag is pushed or pulled in place, the two
//! addresses moving by four bytes, or rewritten where it said 0; priority and drop eligibility stay as they came. A frame that gets shorter than 60
//! bytes is not padded: who puts it on a wire does that.

mod set;

pub use set::{BadVlans, VlanSet};

use super::Bridge;
use crate::PortNo;
use buf::Frame;
use stats::DropReason;
use wire::eth::EtherType;
use wire::vlan::{TAG_LEN, Tag};

/// Both addresses.
const ADDRESSES: usize = 12;
const HEADER: usize = wire::eth::HEADER_LEN;
/// No VLAN (IEEE 802.1Q table 9-2).
const NOBODY: u16 = 0xfff;

/// Which frames a port takes (IEEE 802.1Q 6.9.1). A tag that says 0 is none here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Admit {
    /// All.
    #[default]
    All,
    /// Those with a tag.
    Tagged,
    /// Those without.
    Untagged,
}

/// What a port does with frames of two tags.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Stacked {
    /// Drops them: who may send a tag could reach the inner one's VLAN behind a bridge that pulls the outer.
    #[default]
    Refuse,
    /// Looks at the outer tag only, as a provider's bridge has to.
    Pass,
}

/// A port's VLANs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortVlan {
    /// The VLAN of frames without a tag, 1 to 4094; 0: they are not admitted.
    pub pvid: u16,
    /// The VLANs whose frames leave through the port.
    pub member: VlanSet,
    /// Those of them that leave without a tag.
    pub untagged: VlanSet,
    /// Which frames it takes.
    pub admit: Admit,
    /// Frames of VLANs that it is not a member of are dropped as they come in; otherwise taken.
    pub ingress_filter: bool,
    /// Frames of two tags.
    pub stacked: Stacked,
}

impl Default for PortVlan {
    /// In VLAN 1, untagged (IEEE 802.1Q 9.6, table 9-2); ingress filtering on.
    fn default() -> PortVlan {
        PortVlan::access(1)
    }
}

impl PortVlan {
    /// In one VLAN, untagged.
    pub fn access(vid: u16) -> PortVlan {
        let one: VlanSet = [vid].into_iter().collect();
        PortVlan {
            pvid: vid,
            member: one.clone(),
            untagged: one,
            admit: Admit::All,
            ingress_filter: true,
            stacked: Stacked::Refuse,
        }
    }

    /// In `member`, tagged, and nothing without a tag.
    pub fn trunk(member: VlanSet) -> PortVlan {
        PortVlan { pvid: 0, member, untagged: VlanSet::default(), admit: Admit::Tagged, ..PortVlan::access(1) }
    }
}

/// The tag a frame came with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tagging {
    /// Nobody looks at tags.
    Untouched,
    Bare,
    Tagged,
}

fn ether_type(bytes: &[u8], at: usize) -> Option<EtherType> {
    let two = bytes.get(at..)?.first_chunk::<2>()?;
    Some(EtherType(u16::from_be_bytes(*two)))
}

/// Are there two tags, whatever their kinds?
fn is_stacked(bytes: &[u8]) -> bool {
    [ADDRESSES, ADDRESSES + TAG_LEN].into_iter().all(|at| ether_type(bytes, at).is_some_and(EtherType::is_tag))
}

impl PortVlan {
    /// The VLAN of a frame that came through the port, and its tag.
    fn classify(&self, bytes: &[u8], tags: EtherType) -> Result<(u16, Tagging), DropReason> {
        let (said, tagging) = match ether_type(bytes, ADDRESSES) {
            Some(there) if there == tags => {
                let tag =
                    Tag::parse(bytes.get(HEADER..).unwrap_or_default()).map_err(|_| DropReason::BridgeTagShort)?;
                (tag.vid, Tagging::Tagged)
            }
            _ => (0, Tagging::Bare),
        };
        if self.stacked == Stacked::Refuse && is_stacked(bytes) {
            return Err(DropReason::BridgeDoubleTag);
        }
        let vid = match (said, self.admit) {
            (NOBODY, _) => return Err(DropReason::BridgeBadVid),
            (0, Admit::Tagged) => return Err(DropReason::BridgeNotAdmitted),
            (0, _) if self.pvid == 0 => return Err(DropReason::BridgeNotAdmitted),
            (0, _) => self.pvid,
            (_, Admit::Untagged) => return Err(DropReason::BridgeNotAdmitted),
            (vid, _) => vid,
        };
        if self.ingress_filter && !self.member.contains(vid) {
            return Err(DropReason::BridgeVlanIn);
        }
        Ok((vid, tagging))
    }
}

/// Makes of a frame's tag what a port wants that has `vid` untagged or not.
fn retag(frame: &mut Frame, tagging: Tagging, vid: u16, tags: EtherType, untagged: bool) -> Result<(), DropReason> {
    match (tagging, untagged) {
        (Tagging::Untouched, _) | (Tagging::Bare, true) => return Ok(()),
        _ if !frame.make_own() => return Err(DropReason::BridgeNoCopy),
        (Tagging::Bare, false) => push(frame, vid, tags),
        (Tagging::Tagged, true) => pull(frame),
        (Tagging::Tagged, false) => rewrite(frame, vid),
    }
    .ok_or(DropReason::BridgeNoTagRoom)
}

fn push(frame: &mut Frame, vid: u16, tags: EtherType) -> Option<()> {
    frame.push::<TAG_LEN>()?;
    frame.mark_l3();
    let head = frame.bytes_mut().get_mut(..ADDRESSES + TAG_LEN)?;
    head.copy_within(TAG_LEN.., 0);
    let (_, tag) = head.split_last_chunk_mut::<TAG_LEN>()?;
    let [t0, t1] = tags.0.to_be_bytes();
    let [v0, v1] = vid.to_be_bytes();
    *tag = [t0, t1, v0, v1];
    Some(())
}

fn pull(frame: &mut Frame) -> Option<()> {
    frame.bytes_mut().get_mut(..ADDRESSES + TAG_LEN)?.copy_within(..ADDRESSES, TAG_LEN);
    frame.pull(TAG_LEN).then(|| frame.mark_l3())
}

fn rewrite(frame: &mut Frame, vid: u16) -> Option<()> {
    let control = frame.bytes_mut().get_mut(HEADER..)?.first_chunk_mut::<2>()?;
    let kept = u16::from_be_bytes(*control) & !0xfff;
    *control = (kept | vid).to_be_bytes();
    Some(())
}

impl Bridge {
    /// Keeps VLANs apart, by tags of this EtherType ([`EtherType::VLAN`], or [`EtherType::QINQ`] in a provider's bridge); `None`, as at
    /// first: does not look at tags, and all is VLAN 0. What was learned before is under other VLANs: [`crate::Fdb::flush`].
    pub fn set_vlan_filtering(&mut self, tags: Option<EtherType>) {
        self.tags = tags;
        self.reconsider();
    }

    /// By which tags VLANs are kept apart.
    pub fn vlan_filtering(&self) -> Option<EtherType> {
        self.tags
    }

    /// A port's VLANs.
    pub fn port_vlan(&self, port: PortNo) -> Option<&PortVlan> {
        self.extra(port).map(|extra| &extra.vlan)
    }

    /// Sets those; [`PortVlan::default`] at first. They bear only while VLANs are kept apart.
    pub fn set_port_vlan(&mut self, port: PortNo, vlan: PortVlan) {
        if let Some(extra) = self.extra_mut(port) {
            extra.vlan = vlan;
            extra.vlan.pvid %= NOBODY;
        }
    }

    pub(super) fn classify(&self, from: PortNo, bytes: &[u8]) -> Result<(u16, Tagging), DropReason> {
        match (self.tags, self.port_vlan(from)) {
            (Some(tags), Some(vlan)) => vlan.classify(bytes, tags),
            _ => Ok((0, Tagging::Untouched)),
        }
    }

    /// Is `port` in VLAN `vid`? Where they are not kept apart, all are.
    pub(super) fn is_in(&self, port: PortNo, vid: u16) -> bool {
        self.tags.is_none() || self.port_vlan(port).is_some_and(|vlan| vlan.member.contains(vid))
    }

    pub(super) fn retag(&self, frame: &mut Frame, tagging: Tagging, vid: u16, to: PortNo) -> Result<(), DropReason> {
        match (self.tags, self.port_vlan(to)) {
            (Some(tags), Some(vlan)) => retag(frame, tagging, vid, tags, vlan.untagged.contains(vid)),
            _ => Ok(()),
        }
    }
}
