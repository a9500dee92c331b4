use super::*;
use proptest::prelude::*;

fn config() -> Config {
    Config {
        flags: Flags::PROPOSAL.with(Flags::LEARNING).with_role(SenderRole::Designated),
        root: BridgeId::new(0x8000, Mac([2, 0, 0, 0, 0, 1])),
        root_path_cost: 20_000,
        bridge: BridgeId::new(0x9000, Mac([2, 0, 0, 0, 0, 2])),
        port: PortId::new(128, 3),
        message_age: 256,
        max_age: 20 * 256,
        hello_time: 2 * 256,
        forward_delay: 15 * 256,
    }
}

/// Checks a BPDU octet by octet (IEEE 802.1D-2004 figures 9-1 and 9-3).
#[test]
fn a_known_rst_bpdu() {
    let octets = [
        0x42, 0x42, 0x03, 0, 0, 2, 2, 0x1e, 0x80, 0, 2, 0, 0, 0, 0, 1, 0, 0, 0x4e, 0x20, 0x90, 0, 2, 0, 0, 0, 0, 2,
        0x80, 3, 1, 0, 20, 0, 2, 0, 15, 0, 0,
    ];
    assert_eq!(Bpdu::parse_llc(&octets), Ok(Bpdu::Rst(config())));
    let frame = Bpdu::Rst(config()).emit_frame(Mac([2, 0, 0, 0, 0, 9]));
    assert_eq!(frame[..14], [1, 0x80, 0xc2, 0, 0, 0, 2, 0, 0, 0, 0, 9, 0, 39]);
    assert_eq!(frame[14..14 + 39], octets);
    assert!(frame[14 + 39..].iter().all(|byte| *byte == 0));
}

#[test]
fn a_configuration_and_a_notification_are_shorter() {
    for (bpdu, len) in [(Bpdu::Config(config()), 38), (Bpdu::Tcn, 7)] {
        let frame = bpdu.emit_frame(Mac::ZERO);
        assert_eq!(frame[12..14], [0, len]);
        assert_eq!(Bpdu::parse_frame(&frame), Ok(bpdu));
        assert_eq!(frame[16..18], [3, 0]);
    }
    assert_eq!(Bpdu::Tcn.emit_frame(Mac::ZERO)[14..21], [0x42, 0x42, 3, 0, 0, 0, 0x80]);
}

/// BPDUs that are too short, of another protocol, of an unknown type, or RST with an old version
/// are rejected (IEEE 802.1D-2004 9.3.4).
#[test]
fn junk() {
    let rst = &Bpdu::Rst(config()).emit_frame(Mac::ZERO)[17..17 + RST_LEN];
    for len in 0..RST_LEN {
        assert!(matches!(Bpdu::parse(&rst[..len]), Err(Malformed::Truncated { layer: Layer::Bpdu, .. })), "{len}");
    }
    let with = |at: usize, value: u8| {
        let mut octets = rst.to_vec();
        octets[at] = value;
        Bpdu::parse(&octets)
    };
    assert_eq!(with(0, 1), Err(Malformed::BadBpduProtocol(0x100)));
    assert_eq!(with(2, 1), Err(Malformed::BadVersion { layer: Layer::Bpdu, found: 1 }));
    assert_eq!(with(3, 7), Err(Malformed::BadBpduType(7)));
    assert_eq!(with(2, 3), Ok(Bpdu::Rst(config())), "MSTP is read as RSTP");
    let frame = Bpdu::Tcn.emit_frame(Mac::ZERO);
    assert_eq!(Bpdu::parse_frame(&[&[1, 0x80, 0xc2, 0, 0, 1], &frame[6..]].concat()), Err(Malformed::BadLlc));
    assert_eq!(Bpdu::parse_llc(&[0x42, 0x42, 0x13, 0, 0, 0, 0x80]), Err(Malformed::BadLlc));
    let long = [&frame[..12], &[5, 0xdc], &frame[14..]].concat();
    assert_eq!(Bpdu::parse_frame(&long), Err(Malformed::Truncated { layer: Layer::Bpdu, need: 1500, have: 46 }));
}

#[test]
fn lower_vectors_are_better() {
    let (a, b) = (BridgeId::new(0x1000, Mac([0xff; 6])), BridgeId::new(0x2000, Mac::ZERO));
    assert!(a < b);
    assert_eq!((a.priority(), a.address()), (0x1000, Mac([0xff; 6])));
    assert_eq!(b.to_string(), "2000.00:00:00:00:00:00");
    let port = PortId::new(0x90, 0xfff);
    assert_eq!((port.priority(), port.number(), port.to_string().as_str()), (0x90, 0xfff, "9fff"));
    assert!(PortId::new(16, 4000) < PortId::new(32, 1));
}

proptest! {
    #[test]
    fn round_trip(octets in prop::collection::vec(any::<u8>(), RST_LEN), kind in 0..3usize) {
        let mut octets = octets;
        octets[..4].copy_from_slice(&[[0, 0, 0, 0], [0, 0, 0, 0x80], [0, 0, 2, 2]][kind]);
        let bpdu = Bpdu::parse(&octets).unwrap();
        let frame = bpdu.emit_frame(Mac::ZERO);
        prop_assert_eq!(Bpdu::parse_frame(&frame), Ok(bpdu));
        if kind != 1 {
            prop_assert_eq!(&frame[17..17 + CONFIG_LEN], &octets[..CONFIG_LEN]);
        }
    }
}
