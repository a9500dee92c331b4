//! VLANs (IEEE 802.1Q 6.9, 8.6): classification of frames on ingress, tags on egress.
//!
//! On ingress, a tag with the bridge's EtherType determines the VLAN. An untagged or
//! priority-tagged (VID 0) frame belongs to the PVID of its port. Only the outer tag is evaluated.
//! On egress, the port is a tagged or untagged member of the VLAN. A tag is added or removed in
//! place, by moving the two MAC addresses by four bytes, or rewritten if its VID was 0. Priority
//! and drop eligibility are preserved. A frame that becomes shorter than 60 bytes is not padded
//! here; the driver pads it.

mod set;

pub use set::{BadVlans, VlanSet};

use super::Bridge;
use crate::PortNo;
use buf::Frame;
use stats::DropReason;
use wire::eth::EtherType;
use wire::vlan::{TAG_LEN, Tag};

/// Bytes of the two MAC addresses in front of a tag.
const ADDRESSES: usize = 12;
const HEADER: usize = wire::eth::HEADER_LEN;
/// Reserved VID that does not identify a VLAN (IEEE 802.1Q table 9-2).
const NOBODY: u16 = 0xfff;

/// Frames that a port admits (IEEE 802.1Q 6.9.1). Priority-tagged frames are treated as untagged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Admit {
    /// Tagged and untagged frames.
    #[default]
    All,
    /// Only frames with a tag.
    Tagged,
    /// Only frames without a tag.
    Untagged,
}

/// Handling of double-tagged frames received on a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Stacked {
    /// Drop them. Otherwise a host that sends double-tagged frames could reach the VLAN of the
    /// inner tag, if another bridge removes the outer tag.
    #[default]
    Refuse,
    /// Use the outer tag only, as a provider bridge must.
    Pass,
}

/// VLAN settings of a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortVlan {
    /// VLAN of untagged frames, 1 to 4094. If it is 0, untagged frames are dropped.
    pub pvid: u16,
    /// VLANs of which the port is a member: their frames leave through the port.
    pub member: VlanSet,
    /// VLANs of `member` whose frames leave through the port untagged.
    pub untagged: VlanSet,
    /// Frames that the port admits.
    pub admit: Admit,
    /// True if received frames are dropped unless the port is a member of their VLAN.
    pub ingress_filter: bool,
    /// Handling of double-tagged frames.
    pub stacked: Stacked,
}

impl Default for PortVlan {
    /// Returns the settings of an untagged member of VLAN 1 (IEEE 802.1Q 9.6, table 9-2) with
    /// ingress filtering.
    fn default() -> PortVlan {
        PortVlan::access(1)
    }
}

impl PortVlan {
    /// Returns the settings of an access port, which is an untagged member of a single VLAN.
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

    /// Makes `pvid` the VLAN of untagged frames, for reception and transmission; 0 for none, so
    /// that only tagged frames are admitted.
    pub fn set_untagged(&mut self, pvid: u16) {
        self.member.remove(self.pvid);
        self.untagged.remove(self.pvid);
        self.pvid = pvid;
        if pvid > 0 {
            self.member.insert(pvid);
            self.untagged.insert(pvid);
        }
        self.admit = if pvid > 0 { Admit::All } else { Admit::Tagged };
    }

    /// Makes `list` the VLANs whose frames have tags. The VLANs of which the port is an untagged
    /// member do not change.
    pub fn set_tagged(&mut self, list: &VlanSet) {
        self.member = list.iter().chain(self.untagged.clone().iter()).collect();
    }

    /// Returns the settings of a trunk port, which is a tagged member of all VLANs in `member` and
    /// drops untagged frames.
    pub fn trunk(member: VlanSet) -> PortVlan {
        PortVlan { pvid: 0, member, untagged: VlanSet::default(), admit: Admit::Tagged, ..PortVlan::access(1) }
    }
}

/// Tag of a frame on ingress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tagging {
    /// The tag is not parsed, because VLAN filtering is off.
    Untouched,
    Bare,
    Tagged,
}

fn ether_type(bytes: &[u8], at: usize) -> Option<EtherType> {
    let two = bytes.get(at..)?.first_chunk::<2>()?;
    Some(EtherType(u16::from_be_bytes(*two)))
}

/// Returns whether the frame has two tags, whatever their EtherTypes.
fn is_stacked(bytes: &[u8]) -> bool {
    [ADDRESSES, ADDRESSES + TAG_LEN].into_iter().all(|at| ether_type(bytes, at).is_some_and(EtherType::is_tag))
}

impl PortVlan {
    /// Returns the VLAN and the tag of a frame received on the port, or the reason to drop it.
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

/// Adds, removes or rewrites the tag of a frame for a port that is a tagged or untagged member of
/// `vid`.
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
    /// Enables VLAN filtering with tags of the given EtherType ([`EtherType::VLAN`], or
    /// [`EtherType::QINQ`] in a provider bridge). `None`, the initial state, disables it: tags are
    /// ignored and all frames are in VLAN 0. Addresses learned before remain in the table under
    /// their old VLANs; [`crate::Fdb::flush`] removes them.
    pub fn set_vlan_filtering(&mut self, tags: Option<EtherType>) {
        self.tags = tags;
        self.reconsider();
    }

    /// Returns the EtherType used for VLAN filtering; `None` if it is disabled.
    pub fn vlan_filtering(&self) -> Option<EtherType> {
        self.tags
    }

    /// Returns the VLAN settings of a port.
    pub fn port_vlan(&self, port: PortNo) -> Option<&PortVlan> {
        self.extra(port).map(|extra| &extra.vlan)
    }

    /// Changes the VLAN settings of a port; they are [`PortVlan::default`] initially. They take
    /// effect only if VLAN filtering is enabled.
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

    /// Returns whether `port` is a member of VLAN `vid`. Without VLAN filtering, every port is.
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
