use super::*;
use proptest::prelude::*;

#[test]
fn a_known_tag() {
    let tag = Tag::parse(&[0xb0, 0x64, 0x08, 0x00, 9]).unwrap();
    assert_eq!(tag, Tag { pcp: 5, dei: true, vid: 100, ethertype: EtherType::IPV4 });
    assert_eq!(Tag::parse(&[0; 3]), Err(Malformed::Truncated { layer: Layer::Vlan, need: 4, have: 3 }));
}

#[test]
fn fields_stay_in_their_bits() {
    let mut bytes = [0; TAG_LEN];
    Tag { pcp: 0xff, dei: false, vid: 0xffff, ethertype: EtherType(0) }.emit(&mut bytes);
    assert_eq!(bytes, [0xef, 0xff, 0, 0]);
}

proptest! {
    #[test]
    fn round_trip(pcp in 0..8u8, dei: bool, vid in 0..4096u16, ethertype: u16) {
        let tag = Tag { pcp, dei, vid, ethertype: EtherType(ethertype) };
        let mut bytes = [0; TAG_LEN];
        tag.emit(&mut bytes);
        prop_assert_eq!(Tag::parse(&bytes), Ok(tag));
    }
}
