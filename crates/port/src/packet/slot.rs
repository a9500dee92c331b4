//! A slot of the receive ring: conversion of the kernel's bytes (`struct tpacket2_hdr`) to a frame.

use crate::os::packet::rx::HEADER_LEN;
use crate::os::tun::VNET_HDR_LEN;
use buf::Frame;

/// Bytes of the two MAC addresses in front of a tag.
const ADDRESSES: usize = 12;

/// EtherType of a removed tag if the kernel does not report it.
const TPID: u16 = 0x8100;

/// A frame in a slot.
#[derive(Debug)]
pub struct Packet<'a> {
    /// Bytes of the frame that are in the slot.
    pub bytes: &'a [u8],
    /// The VLAN tag that the kernel removed from the frame, if any.
    pub tag: Option<[u8; 4]>,
    /// The virtio header in front of the frame, unchecked.
    pub vnet: [u8; VNET_HDR_LEN],
    /// The field `tp_status` of the slot's header.
    pub status: u32,
    /// Length of the frame on the interface in bytes, without the tag.
    whole: usize,
}

/// Part of the frame that is in the slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extent {
    /// The whole frame.
    Whole,
    /// The beginning of the frame; the whole frame is in the socket's queue.
    Queued,
    /// The beginning of the frame; the rest is lost.
    Cut,
}

impl Packet<'_> {
    /// Parses the frame in `slot`. Returns `None` if the slot is not valid.
    #[inline]
    pub fn parse(slot: &[u8]) -> Option<Packet<'_>> {
        let header: &[u8; HEADER_LEN] = slot.first_chunk()?;
        let &[s0, s1, s2, s3, l0, l1, l2, l3, k0, k1, k2, k3, m0, m1, ..] = header;
        let long = |bytes| u32::from_ne_bytes(bytes) as usize;
        let (status, whole) = (u32::from_ne_bytes([s0, s1, s2, s3]), long([l0, l1, l2, l3]));
        let (kept, mac) = (long([k0, k1, k2, k3]), usize::from(u16::from_ne_bytes([m0, m1])));
        let bytes = slot.get(mac..)?.get(..kept)?;
        let vnet = *slot.get(mac.checked_sub(VNET_HDR_LEN)?..)?.first_chunk()?;
        let tag = (status & libc::TP_STATUS_VLAN_VALID != 0).then(|| tag(header, status));
        Some(Packet { bytes, tag, vnet, status, whole })
    }

    /// Returns which part of the frame is in the slot.
    #[inline]
    pub fn extent(&self) -> Extent {
        match (self.bytes.len() < self.whole, self.status & libc::TP_STATUS_COPY != 0) {
            (false, false) => Extent::Whole,
            (_, true) => Extent::Queued,
            (true, false) => Extent::Cut,
        }
    }

    /// Returns the length of the whole frame, including its tag.
    #[inline]
    pub fn len(&self) -> usize {
        self.whole + self.tag.map_or(0, |tag| tag.len())
    }

    /// Copies the bytes in the slot into `frame`, with the tag restored. Returns `None` if they do
    /// not fit.
    #[inline]
    pub fn copy_to(&self, frame: &mut Frame) -> Option<()> {
        let Some(tag) = &self.tag else { return frame.extend(self.bytes) };
        let (addresses, rest) = self.bytes.split_at_checked(ADDRESSES)?;
        frame.extend(addresses)?;
        frame.extend(tag)?;
        frame.extend(rest)
    }
}

/// Returns the VLAN tag that the kernel removed from a frame, in the format of the wire (from
/// `tp_vlan_tci` and `tp_vlan_tpid`).
#[cold]
fn tag(header: &[u8; HEADER_LEN], status: u32) -> [u8; 4] {
    let &[.., i0, i1, p0, p1, _, _, _, _] = header;
    let reported = status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
    let [p0, p1] = if reported { u16::from_ne_bytes([p0, p1]) } else { TPID }.to_be_bytes();
    let [t0, t1] = u16::from_ne_bytes([i0, i1]).to_be_bytes();
    [p0, p1, t0, t1]
}

/// Inserts a tag into a frame without one. Returns `None` if the frame has no space for it, or has
/// no complete addresses.
#[cold]
pub fn insert_tag(frame: &mut Frame, tag: [u8; 4]) -> Option<()> {
    frame.push_n(tag.len())?;
    let bytes = frame.bytes_mut();
    bytes.get_mut(..tag.len() + ADDRESSES)?.copy_within(tag.len().., 0);
    bytes.get_mut(ADDRESSES..)?.first_chunk_mut().map(|at| *at = tag)
}
