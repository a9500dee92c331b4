use super::*;
use port::pktgen::ROTATION;
use proptest::prelude::*;

fn config() -> GenConfig {
    GenConfig {
        size: 64,
        count: 3,
        loops: 1,
        mbps: None,
        tick_ns: 8,
        dst: Vec::new(),
        src: "00:22:cf:63:96:7b".parse().unwrap(),
        ethertype: EtherType(0x8899),
        udp: None,
    }
}

fn lines(config: GenConfig) -> Vec<String> {
    let mut made = Gen::new(config).unwrap();
    let (mut frames, mut text, mut out) = (Frames::new(), Vec::new(), String::new());
    while made.read(&mut frames).unwrap() && out.len() < 1 << 22 {
        let used = Encoder::new(Format::Text, 8).encode(&frames, &mut text).unwrap();
        out += std::str::from_utf8(&text[..used]).unwrap();
        frames.clear();
    }
    out.lines().map(str::to_owned).collect()
}

#[test]
fn default_frames_are_169_text_bytes_to_ten_destinations() {
    let lines = lines(GenConfig { dst: ROTATION.to_vec(), count: 12, ..config() });
    assert!(lines.iter().all(|line| line.len() + 1 == 169));
    let dst: Vec<&str> = lines.iter().map(|line| &line[..12]).collect();
    assert_eq!((dst[0], dst[8], dst[9], dst[10]), ("001111111111", "009999999999", "FFFFFFFFFFFF", "001111111111"));
    assert!(lines[0].starts_with("001111111111 0022CF63967B 8899 00 00"));
}

#[test]
fn stamps_are_84_ticks_apart_at_a_gigabit() {
    let lines = lines(GenConfig { mbps: Some(1000), loops: 2, ..config() });
    let stamps: Vec<&str> = lines.iter().map(|line| &line[..16]).collect();
    let round = ["1100000000000000", "0100000000000054", "01000000000000A8"];
    assert_eq!(stamps, [round, round].concat());
}

#[test]
fn a_datagram_has_its_checksums() {
    let udp = Some(("10.0.0.1:7".parse().unwrap(), "10.0.0.2:9".parse().unwrap()));
    let mut made = Gen::new(GenConfig { udp, size: 1518, ..config() }).unwrap();
    let mut frames = Frames::new();
    assert!(made.read(&mut frames).unwrap());
    let (frame, _) = frames.get(0).unwrap();
    let packet = &frame[14..];
    let ip = ip4::Header::parse(packet).unwrap();
    assert!(ip4::header_checksum_ok(packet, 20));
    assert_eq!((ip.total_len, ip.proto), (1500, Proto::UDP));
    let pseudo = checksum::Partial::pseudo4(ip.src, ip.dst, Proto::UDP, 1480);
    assert!(udp::checksum_ok(pseudo, ip.payload(packet)));
}

#[test]
fn invalid_frame_sizes_are_rejected() {
    for size in [0, 17, 262_149] {
        assert_eq!(Gen::new(GenConfig { size, ..config() }).unwrap_err(), BadGen::Size(size, 18, 262_148));
    }
    let udp = Some(("10.0.0.1:7".parse().unwrap(), "10.0.0.2:9".parse().unwrap()));
    assert_eq!(Gen::new(GenConfig { size: 45, udp, ..config() }).unwrap_err(), BadGen::Size(45, 46, 262_148));
}

#[test]
fn buffers_without_count_or_too_large_are_rejected() {
    let of = |count| Gen::new(GenConfig { mbps: Some(1000), count, ..config() }).unwrap().fixed(Format::Text);
    assert_eq!(of(0).unwrap_err(), BadGen::NoRound);
    assert!(matches!(of(u64::MAX).unwrap_err(), BadGen::LargeRound(_)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// A buffer that is written repeatedly contains the same lines as frames built one by one.
    #[test]
    fn a_buffer_matches_frames_made_one_by_one(
        size in 18..3000_usize, count in 1..9000_u64, loops in 1..3_u64, rotate: bool, mbps in prop::option::of(1..100_000_u64)
    ) {
        let dst = if rotate { ROTATION.to_vec() } else { Vec::new() };
        let config = GenConfig { size, count: count.min(1 + 4_000_000 / size as u64 / 3), loops, dst, mbps, ..config() };
        // A round with stamps begins at the first destination, because its buffer does.
        let config = if mbps.is_some() { GenConfig { dst: Vec::new(), ..config } } else { config };
        let fixed = Gen::new(config.clone()).unwrap().fixed(Format::Text).unwrap();
        let (mut out, mut written) = (Vec::new(), 0);
        loop {
            let (piece, frames) = fixed.piece(written);
            if frames == 0 { break }
            out.extend_from_slice(piece);
            written += frames;
        }
        prop_assert_eq!(written, config.count * loops);
        let all = lines(config);
        prop_assume!((all.len() as u64) == written);
        prop_assert_eq!(String::from_utf8(out).unwrap(), all.join("\n") + "\n");
    }
}
