//! Edit operations on a frame. Parsing an expression gives such an operation.

use crate::FrameMut;
use std::ops::ControlFlow;
use wire::edit::{self, Changed, Layout, Side, TAG_AT, Upper};
use wire::eth::EtherType;
use wire::vlan::TAG_LEN;
use wire::{L4Port, Mac};

/// An edit operation with its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Edits a MAC address as part of 8 bytes of the Ethernet header, read as a little-endian
    /// number. Clears the bits that are not in `keep`, then sets the bits in `set`.
    Window {
        side: Side,
        keep: u64,
        set: u64,
    },
    Type(u16),
    SwapMac,
    SwapIp,
    SwapPort,
    Ip4 {
        side: Side,
        keep: u32,
        set: u32,
    },
    Ip6 {
        side: Side,
        keep: u128,
        set: u128,
    },
    Ttl(u8),
    TtlLess(u8),
    Dscp(u8),
    IpId(u16),
    /// Sets a port. With `of`, the port is set only in packets of the protocol `of`.
    Port {
        of: Option<Upper>,
        side: Side,
        port: u16,
    },
    Push {
        tpid: u16,
        pcp: u8,
        vid: u16,
    },
    Pop,
    /// Sets the VLAN identifier. With `from`, it is set only in a tag with the identifier `from`.
    VlanId {
        from: Option<u16>,
        to: u16,
    },
    Pcp(u8),
    Bytes {
        at: usize,
        bytes: Vec<u8>,
    },
}

/// Outcome of an edit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Done {
    Yes,
    /// The frame does not have the field.
    Absent,
    /// The TTL would reach 0, so the frame must be dropped.
    TtlOver,
    /// The frame would be too long with the tag, so it must be dropped.
    TooLong,
}

impl From<bool> for Done {
    #[inline(always)]
    fn from(done: bool) -> Done {
        if done { Done::Yes } else { Done::Absent }
    }
}

/// Bits of the 8 bytes of [`Op::Window`] that do not belong to the MAC address.
const BESIDE: u64 = !0 << 48;

impl Op {
    /// Returns the operation that edits a MAC address. Bytes that are 0xff in `keep` stay, and all
    /// other bytes are copied from `set`.
    pub fn mac(side: Side, keep: Mac, set: Mac) -> Op {
        let word = |mac: Mac| mac.0.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        Op::Window { side, keep: word(keep) | BESIDE, set: word(set) & !word(keep) }
    }

    /// Merges `next`, which is applied after this operation, into it. Returns `None` if the two
    /// cannot be merged.
    pub fn and_then(&mut self, next: &Op) -> Option<()> {
        let Op::Window { side, keep, set } = next else { return None };
        let Op::Window { side: own, keep: kept, set: was } = self else { return None };
        (own == side).then(|| (*kept, *was) = (*kept & keep, *was & keep | set))
    }

    /// Edits `frame`. `layout` caches the positions of its headers.
    #[inline(always)]
    pub fn apply(&self, frame: &mut FrameMut<'_>, layout: &mut Option<Layout>) -> Done {
        if let Op::Window { side, keep, set } = self {
            return window(frame.bytes_mut(), *side, *keep, *set).into();
        }
        if let Op::TtlLess(by) = self {
            return less(layout.as_ref(), frame.bytes_mut(), *by);
        }
        if let Op::Ip4 { side, keep, set } = self {
            let bytes = frame.bytes_mut();
            return layout.get_or_insert_with(|| Layout::of(bytes)).set_ip4(bytes, *side, *keep, *set).into();
        }
        match self.apply_rest(frame, layout) {
            ControlFlow::Continue(done) => done,
            ControlFlow::Break(done) => {
                *layout = None;
                done
            }
        }
    }

    /// Applies the less common edits, which are not inlined into the loop over frames. Returns
    /// `Break` if the edit may have moved headers, so that the cached layout is invalid.
    #[inline(never)]
    fn apply_rest(&self, frame: &mut FrameMut<'_>, layout: &mut Option<Layout>) -> ControlFlow<Done, Done> {
        let bytes = frame.bytes_mut();
        let layout = &*layout.get_or_insert_with(|| Layout::of(bytes));
        ControlFlow::Continue(match self {
            Op::Window { .. } | Op::TtlLess(_) | Op::Ip4 { .. } => Done::Absent, // handled by the caller
            Op::Type(ethertype) => {
                return ControlFlow::Break(layout.set_ethertype(bytes, EtherType(*ethertype)).into());
            }
            Op::SwapMac => edit::swap_macs(bytes).into(),
            Op::SwapIp => layout.swap_ip(bytes).into(),
            Op::SwapPort => layout.swap_ports(bytes).into(),
            Op::Ip6 { side, keep, set } => layout.set_ip6(bytes, *side, *keep, *set).into(),
            Op::Ttl(ttl) => (layout.change_ttl(bytes, |_| Some(*ttl)) == Changed::Done).into(),
            Op::Dscp(dscp) => layout.set_dscp(bytes, *dscp).into(),
            Op::IpId(id) => layout.set_ip_id(bytes, *id).into(),
            Op::Port { of, side, port } => {
                let is_its = of.is_none_or(|of| of == layout.upper());
                (is_its && layout.set_port(bytes, *side, L4Port(*port))).into()
            }
            Op::VlanId { from, to } => {
                let tag = edit::tag(bytes).filter(|tag| from.is_none_or(|from| tag.vid == from));
                let Some(mut tag) = tag else { return ControlFlow::Continue(Done::Absent) };
                tag.vid = *to;
                edit::set_tag(bytes, &tag);
                Done::Yes
            }
            Op::Pcp(pcp) => {
                let Some(mut tag) = edit::tag(bytes) else { return ControlFlow::Continue(Done::Absent) };
                tag.pcp = *pcp;
                edit::set_tag(bytes, &tag);
                Done::Yes
            }
            Op::Push { tpid, pcp, vid } => return ControlFlow::Break(push(frame, EtherType(*tpid), *pcp, *vid)),
            Op::Pop => {
                let done = edit::tag(bytes).is_some() && frame.remove(TAG_AT, TAG_LEN);
                return ControlFlow::Break(done.into());
            }
            Op::Bytes { at, bytes: new } => {
                let Some(place) = bytes.get_mut(*at..at + new.len()) else {
                    return ControlFlow::Continue(Done::Absent);
                };
                place.copy_from_slice(new);
                return ControlFlow::Break(Done::Yes);
            }
        })
    }
}

#[inline(always)]
fn window(frame: &mut [u8], side: Side, keep: u64, set: u64) -> bool {
    let place = match side {
        Side::Dst => frame.first_chunk_mut::<8>(),
        Side::Src => frame.get_mut(6..).and_then(<[u8]>::first_chunk_mut::<8>),
    };
    let Some(place) = place else { return false };
    *place = (u64::from_le_bytes(*place) & keep | set).to_le_bytes();
    true
}

#[inline(always)]
fn less(layout: Option<&Layout>, frame: &mut [u8], by: u8) -> Done {
    let less = |ttl: u8| ttl.checked_sub(by).filter(|left| *left > 0);
    let changed = match layout {
        Some(layout) => layout.change_ttl(frame, less),
        None => edit::change_ttl(frame, less),
    };
    match changed {
        Changed::Done => Done::Yes,
        Changed::Absent => Done::Absent,
        Changed::Refused => Done::TtlOver,
    }
}

fn push(frame: &mut FrameMut<'_>, tpid: EtherType, pcp: u8, vid: u16) -> Done {
    match frame.insert(TAG_AT, TAG_LEN) {
        Some(room) => {
            room.copy_from_slice(&edit::tag_bytes(tpid, pcp, vid));
            Done::Yes
        }
        None => Done::TooLong,
    }
}
