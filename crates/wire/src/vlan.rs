//! The 802.1Q tag: four bytes between the source address and the EtherType (IEEE 802.1Q 9.6).
//!
//! The tag protocol identifier (TPID, 0x8100 or 0x88a8) is at the position of the EtherType of the
//! preceding header. A [`Tag`] consists of the two bytes of control information after the TPID and
//! the next EtherType. The caller handles nested tags, and limits their number.

use crate::eth::EtherType;
use crate::{Layer, Malformed};

#[cfg(test)]
mod tests;

/// Length in bytes of a tag after its TPID: the control information and the next EtherType.
pub const TAG_LEN: usize = 4;

/// A VLAN tag, as received after the tag protocol identifier.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Tag {
    /// Priority code point, 0 to 7.
    pub pcp: u8,
    /// Drop eligible indicator (DEI).
    pub dei: bool,
    /// VLAN identifier, 0 to 4095; 0 is "priority only", 4095 is reserved (IEEE 802.1Q table 9-2).
    pub vid: u16,
    /// EtherType after the tag.
    pub ethertype: EtherType,
}

impl Tag {
    /// Parses a tag from the bytes after an EtherType of 0x8100 or 0x88a8.
    #[inline]
    pub fn parse(after_tpid: &[u8]) -> Result<Tag, Malformed> {
        let Some(&[c0, c1, t0, t1]) = after_tpid.first_chunk::<TAG_LEN>() else {
            return Err(Malformed::truncated(Layer::Vlan, TAG_LEN, after_tpid.len()));
        };
        Ok(Tag {
            pcp: c0 >> 5,
            dei: c0 & 0x10 != 0,
            vid: u16::from_be_bytes([c0 & 0x0f, c1]),
            ethertype: EtherType(u16::from_be_bytes([t0, t1])),
        })
    }

    /// Writes the tag with the low 3 bits of `pcp` and the low 12 bits of `vid`.
    #[inline]
    pub fn emit(&self, out: &mut [u8; TAG_LEN]) {
        let control = u16::from(self.pcp & 7) << 13 | u16::from(self.dei) << 12 | self.vid & 0x0fff;
        let [c0, c1] = control.to_be_bytes();
        let [t0, t1] = self.ethertype.0.to_be_bytes();
        *out = [c0, c1, t0, t1];
    }
}

/// Skips priority tags (VLAN 0: priority only; IEEE 802.1Q table 9-2) at the beginning of the
/// payload of a frame with this EtherType. Returns the EtherType that follows and the number of
/// bytes skipped. A tag with a VLAN is not skipped; the EtherType is then its TPID.
pub fn skip_priority(ethertype: EtherType, payload: &[u8]) -> (EtherType, usize) {
    let (mut ethertype, mut skipped) = (ethertype, 0);
    while ethertype.is_tag()
        && let Ok(Tag { vid: 0, ethertype: inner, .. }) = Tag::parse(payload.get(skipped..).unwrap_or_default())
    {
        (ethertype, skipped) = (inner, skipped + TAG_LEN);
    }
    (ethertype, skipped)
}
