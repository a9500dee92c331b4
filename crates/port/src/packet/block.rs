//! What stands in a block of the receiving ring: from the kernel's bytes to frames (`struct tpacket_hdr_v1`, `struct tpacket3_hdr`).

use crate::os::tun::VNET_HDR_LEN;
use buf::Frame;

/// Where a block says how many frames it has, and where the first one is.
const COUNT: usize = 12;
const FIRST: usize = 16;

/// Bytes of `struct tpacket3_hdr`.
const HEADER_LEN: usize = 48;

/// The destination and source addresses: a tag stands behind them.
const ADDRESSES: usize = 12;

/// Where a tag's protocol is taken from when the kernel does not say.
const TPID: u16 = 0x8100;

/// How far a block has been read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cursor {
    /// Where the next frame's header is.
    at: usize,
    /// Frames not yet read.
    left: u32,
}

/// A frame in a block.
#[derive(Debug)]
pub struct Packet<'a> {
    /// Its bytes, as far as they were kept.
    pub bytes: &'a [u8],
    /// The VLAN tag that was taken from it.
    pub tag: Option<[u8; 4]>,
    /// The virtio header in front of it, whatever stands there.
    pub vnet: [u8; VNET_HDR_LEN],
    /// `tp_status`.
    pub status: u32,
    /// Is it shorter than it was?
    pub is_cut: bool,
    next: usize,
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

impl Cursor {
    /// At the beginning of `block`.
    pub fn new(block: &[u8]) -> Cursor {
        let at = word(block, FIRST).unwrap_or_default() as usize;
        Cursor { at, left: word(block, COUNT).unwrap_or_default() }
    }

    /// Has all been read?
    #[inline]
    pub fn is_done(self) -> bool {
        self.left == 0
    }

    /// The next frame of `block`; `None`: no such thing there.
    #[inline]
    pub fn packet(self, block: &[u8]) -> Option<Packet<'_>> {
        let header: &[u8; HEADER_LEN] = block.get(self.at..)?.first_chunk()?;
        let long = |at| word(header, at).unwrap_or_default();
        let (kept, len, status) = (long(12) as usize, long(16) as usize, long(20));
        let mac = self.at + usize::from(u16::from_ne_bytes([header[24], header[25]]));
        let bytes = block.get(mac..mac + kept)?;
        let tag = (status & libc::TP_STATUS_VLAN_VALID != 0).then(|| {
            let told = status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
            let [p0, p1] = if told { u16::from_ne_bytes([header[36], header[37]]) } else { TPID }.to_be_bytes();
            let [t0, t1] = (long(32) as u16).to_be_bytes();
            [p0, p1, t0, t1]
        });
        let vnet = block.get(mac.checked_sub(VNET_HDR_LEN)?..)?.first_chunk().copied()?;
        Some(Packet { bytes, tag, vnet, status, is_cut: kept < len, next: long(0) as usize })
    }

    /// Goes past `packet`, the next one.
    #[inline]
    pub fn pass(&mut self, next: usize) {
        self.at += next;
        self.left -= u32::from(self.left > 0);
    }
}

impl Packet<'_> {
    /// How far it is to the next one.
    pub fn next(&self) -> usize {
        self.next
    }

    /// Bytes of the frame with its tag.
    #[inline]
    pub fn len(&self) -> usize {
        self.bytes.len() + self.tag.map_or(0, |tag| tag.len())
    }

    /// The one copy: into `frame`, with the tag where it was. `None`: it has no room.
    #[inline]
    pub fn copy_to(&self, frame: &mut Frame) -> Option<()> {
        let Some(tag) = &self.tag else { return frame.extend(self.bytes) };
        let (addresses, rest) = self.bytes.split_at_checked(ADDRESSES)?;
        frame.extend(addresses)?;
        frame.extend(tag)?;
        frame.extend(rest)
    }
}
