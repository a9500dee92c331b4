//! GRE headers written by hand from the RFCs' figures, and round trips.

use super::*;

#[test]
fn headers_equal_the_rfcs_figures() {
    let plain = [0, 0, 0x08, 0];
    let header = Header { protocol: EtherType::IPV4, has_checksum: false, key: None, sequence: None };
    assert_eq!(Header::parse(&plain), Ok(header));
    let all = [0xb0, 0, 0x08, 0, 0x22, 0xe1, 0, 0, 0, 0, 0, 5, 0, 0, 0, 9, 0xaa, 0xbb, 0xcc];
    let header = Header { has_checksum: true, key: Some(5), sequence: Some(9), ..header };
    assert_eq!((Header::parse(&all), header.header_len()), (Ok(header), MAX_HEADER_LEN));
    let mut out = all;
    out[..16].fill(0xff);
    header.emit(&mut out).unwrap();
    assert!(checksum_ok(&out));
    out[18] ^= 1;
    assert!(!checksum_ok(&out));
    assert_eq!((out[..4].to_vec(), out[6..18].to_vec()), (all[..4].to_vec(), all[6..18].to_vec()));
    let key_alone = Header { has_checksum: false, sequence: None, ..header };
    let mut out = [0; 8];
    key_alone.emit(&mut out).unwrap();
    assert_eq!(out, [0x20, 0, 0x08, 0, 0, 0, 0, 5]);
    assert_eq!(key_alone.emit(&mut out[..7]), None);
}

#[test]
fn invalid_headers_are_rejected() {
    let refused = |found| Err(Malformed::BadFlags { layer: Layer::Gre, found });
    assert_eq!(Header::parse(&[0x40, 0, 8, 0, 0, 0, 0, 0]), refused(0x4000), "routing");
    assert_eq!(Header::parse(&[0x08, 0, 8, 0]), refused(0x0800), "strict source route");
    assert_eq!(Header::parse(&[0, 1, 8, 0]), Err(Malformed::BadVersion { layer: Layer::Gre, found: 1 }), "PPTP's");
    assert!(Header::parse(&[0, 0x80, 8, 0]).is_ok(), "reserved: ignored on receipt");
    for len in 0..8 {
        assert!(
            matches!(Header::parse(&[0x20, 0, 8, 0, 0, 0, 0, 5][..len]), Err(Malformed::Truncated { .. })),
            "{len}"
        );
    }
}
