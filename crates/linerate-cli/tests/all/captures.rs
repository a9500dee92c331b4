//! Captures of other programs: truncated, with large packets, of other link types, and with
//! metadata in their records.

use crate::common::{Dir, has, linerate, printed, run};
use port::pcap::{Direction, Interface, Reader};
use std::fs::File;
use std::process::{Output, Stdio};

/// A capture file under construction.
struct Capture(Vec<u8>);

impl Capture {
    /// Begins a pcap file with timestamps in microseconds. `link` is the field with link type and
    /// FCS length.
    fn pcap(link: u32) -> Capture {
        Capture::new(0xa1b2_c3d4, link)
    }

    fn new(magic: u32, link: u32) -> Capture {
        Capture(Vec::new()).u32(magic).u32(4 << 16 | 2).u32(0).u32(0).u32(262_144).u32(link)
    }

    fn u32(mut self, word: u32) -> Capture {
        self.0.extend(word.to_le_bytes());
        self
    }

    fn raw(mut self, bytes: &[u8]) -> Capture {
        self.0.extend(bytes);
        self
    }

    /// Adds a record of a pcap file.
    fn packet(self, data: &[u8], orig_len: usize) -> Capture {
        self.u32(1_700_000_000).u32(5).u32(data.len() as u32).u32(orig_len as u32).raw(data)
    }

    /// Adds a block of a pcapng file.
    fn block(self, ty: u32, words: &[u32], body: &[u8]) -> Capture {
        let len = 12 + 4 * words.len() + body.len().next_multiple_of(4);
        let mut out = self.u32(ty).u32(len as u32);
        for word in words {
            out = out.u32(*word);
        }
        out = out.raw(body);
        out.0.resize(out.0.len().next_multiple_of(4), 0);
        out.u32(len as u32)
    }

    fn section() -> Capture {
        Capture(Vec::new()).block(0x0a0d_0d0a, &[0x1a2b_3c4d, 1, u32::MAX, u32::MAX], &[])
    }
}

/// An Ethernet frame with a UDP datagram of `len` bytes of payload.
fn udp(len: usize) -> Vec<u8> {
    let mut frame = b"\x02\0\0\0\0\x0b\x02\0\0\0\0\x0a\x08\0".to_vec();
    frame.extend(udp_packet(len));
    frame
}

/// An IPv4 packet with a UDP datagram. The IP header checksum is correct, and the UDP checksum is
/// 0.
fn udp_packet(len: usize) -> Vec<u8> {
    let total = (28 + len) as u16;
    let mut packet = vec![0x45, 0, 0, 0, 0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 3, 232, 0, 80, 0, 0, 0, 0];
    packet[2..4].copy_from_slice(&total.to_be_bytes());
    packet[24..26].copy_from_slice(&(8 + len as u16).to_be_bytes());
    let sum: u32 = packet[..20].chunks(2).map(|two| u32::from(u16::from_be_bytes([two[0], two[1]]))).sum();
    packet[10..12].copy_from_slice(&(!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes());
    packet.resize(28 + len, 7);
    packet
}

/// Runs a shell line in `dir`.
fn of(dir: &Dir, line: &str) -> Output {
    let words: Vec<&str> = line.split_whitespace().collect();
    run(linerate(&words).current_dir(&dir.0))
}

#[track_caller]
fn expect(output: &Output, code: i32, lines: usize, why: &str) {
    let printed = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{printed}");
    assert_eq!(output.stdout.iter().filter(|byte| **byte == b'\n').count(), lines, "{printed}");
    assert!(printed.contains(why), "{printed}");
}

#[test]
fn packets_before_a_fault_are_written() {
    let dir = Dir::new("captures-cut");
    let mut whole = Capture::pcap(1);
    for _ in 0..5000 {
        whole = whole.packet(&udp(1), 43);
    }
    let cut = whole.packet(&udp(1), 43).0;
    dir.file("cut.pcap", &cut[..cut.len() - 3]);
    let interface = [1, 262_144];
    let good = |capture: Capture| {
        let frame = udp(2);
        capture.block(1, &interface, &[]).block(6, &[0, 0, 7, frame.len() as u32, frame.len() as u32], &frame)
    };
    dir.file("interface.pcapng", good(Capture::section()).block(6, &[7, 0, 0, 4, 4], b"abcd").0);
    dir.file("zeros.pcapng", good(Capture::section()).raw(&[0; 64]).0);
    let mut records = of(&dir, "conv -o bin2 interface.pcapng").stdout;
    records.extend(b"and no more");
    dir.file("bad.bpkt", &records);
    for jobs in ["", "-j 3 ", "-j 3 --unordered "] {
        expect(&of(&dir, &format!("conv {jobs}-o text cut.pcap")), 1, 5000, "truncated: 56 of 59 bytes");
        expect(&of(&dir, &format!("conv {jobs}-o jsonl cut.pcap")), 1, 5000, "truncated");
        expect(
            &of(&dir, &format!("conv {jobs}-o text interface.pcapng")),
            1,
            1,
            "unknown interface 7: 1 are described",
        );
        expect(&of(&dir, &format!("conv {jobs}-o text zeros.pcapng")), 1, 1, "length 0");
        expect(&of(&dir, &format!("conv {jobs}-o text bad.bpkt")), 1, 1, "record magic is");
    }
    expect(&of(&dir, "cat cut.pcap"), 1, 5000, "truncated");
    expect(&of(&dir, "cat pcap:cut.pcap"), 1, 5000, "truncated");
    // Exit codes are those of grep. The frames counted before the error are still written.
    let counted = of(&dir, "grep -c . cut.pcap");
    expect(&counted, 2, 1, "truncated");
    assert_eq!(counted.stdout, b"5000\n");
    let counted = of(&dir, "count -q --json cut.pcap");
    expect(&counted, 1, 1, "truncated");
    assert!(counted.stdout.starts_with(b"{\"frames\":5000,"), "{counted:?}");
    expect(&of(&dir, "top -q -k src cut.pcap"), 1, 3, "truncated");
    // With --strict, a bad line ends the output after the preceding frames.
    let line = String::from_utf8(of(&dir, "conv -o f1 zeros.pcapng").stdout).unwrap();
    dir.file("bad.txt", format!("{line}{line}no frame\n{line}"));
    for jobs in ["", "-j 2 "] {
        expect(&of(&dir, &format!("conv {jobs}--strict -o f1 bad.txt")), 1, 2, "line 3");
    }
}

/// Packets of TSO and GRO pass, and all others up to libpcap's limit.
#[test]
fn large_packets_pass_everywhere() {
    let dir = Dir::new("captures-large");
    for len in [2_048, 2_049, 9_014, 16_384, 65_549, 262_144] {
        let mut frame = udp(60);
        frame.resize(len, 0xab);
        let file = dir.file("large.pcap", Capture::pcap(1).packet(&frame, len).0);
        for line in ["cat pcap:large.pcap", "cat large.pcap", "conv -o text large.pcap", "conv -o jsonl large.pcap"] {
            expect(&of(&dir, line), 0, 1, "");
        }
        let counted = of(&dir, "grep -c -f ip large.pcap");
        assert_eq!((counted.status.code(), &counted.stdout[..]), (Some(0), &b"1\n"[..]), "{len}: {counted:?}");
        let text = of(&dir, "conv -o text large.pcap").stdout;
        dir.file("large.txt", &text);
        expect(&of(&dir, "grep -c ABABABAB --any-field large.txt"), 0, 1, "");
        let json = of(&dir, "conv -o jsonl large.pcap").stdout;
        dir.file("large.jsonl", &json);
        for from in ["large.txt", "large.jsonl", "large.pcap"] {
            let back = of(&dir, &format!("conv -o pcap {from}")).stdout;
            let mut reader = Reader::new(&back[..]);
            assert_eq!(reader.read().unwrap().unwrap().data, frame, "{from} {len}");
        }
        expect(&of(&dir, "put pcap(read=off):out.pcap large.txt"), 0, 0, "");
        let mut out = Reader::new(File::open(dir.path("out.pcap")).unwrap());
        assert_eq!(out.read().unwrap().unwrap().data, frame, "{len}");
        let records = of(&dir, &format!("conv -o bin1 {file}"));
        match len {
            ..=65_535 => assert_eq!(records.stdout.len(), 4 + len),
            _ => expect(&records, 2, 0, "too long for a binary record"),
        }
    }
    // One more byte is not a valid packet, which is reported.
    dir.file("longer.pcap", Capture::pcap(1).packet(&vec![0; 262_145], 262_145).packet(&udp(1), 43).0);
    expect(&of(&dir, "conv -o text longer.pcap"), 1, 1, "packet 1, length 262145");
    // The port cannot send one of the frames.
    dir.file("long.txt", of(&dir, "conv -o text longer.pcap").stdout.repeat(1));
    let mut line = String::from_utf8(of(&dir, "conv -o text longer.pcap").stdout).unwrap();
    line = line.trim_end().to_owned() + &" 00".repeat(9000) + "\n";
    dir.file("long.txt", line);
    expect(&of(&dir, "put null:n0 long.txt"), 1, 0, "1 frames not sent: longer than the port's maximum");
}

/// Bridges and hosts accept frames of any length from files, mixed with others.
#[test]
fn long_frames_pass_bridges_and_reach_hosts() {
    let dir = Dir::new("captures-long");
    for len in [2_049, 65_549, 262_144] {
        let mut frame = udp(60);
        frame.resize(len, 0xab);
        // More long frames than long buffers, with short frames between them.
        let mut capture = Capture::pcap(1);
        for _ in 0..70 {
            capture = capture.packet(&frame, len).packet(&udp(60), 102);
        }
        dir.file("long.pcap", capture.0);
        dir.file("long.txt", of(&dir, "conv -o text long.pcap").stdout);
        for from in ["pcap:long.pcap", "text:long.txt"] {
            let bridged = of(&dir, &format!("bridge --json {from} pcap(read=off):out.pcap"));
            assert_eq!(bridged.status.code(), Some(0), "{from} {len}: {bridged:?}");
            let mut reader = Reader::new(File::open(dir.path("out.pcap")).unwrap());
            let mut seen = 0;
            while let Some(record) = reader.read().unwrap() {
                assert_eq!(record.data.len(), if seen % 2 == 0 { len } else { udp(60).len() });
                seen += 1;
            }
            assert_eq!(seen, 140, "{from} {len}");
            let (code, out, err) = printed(&of(&dir, &format!("host --port {from} --addr 10.0.0.2/24")));
            assert_eq!(code, Some(0), "{from} {len}: {err}");
            assert!(out.contains(" received 140,") && out.contains("imbalance           0\n"), "{from} {len}: {out}");
        }
    }
}

/// A bridge whose ports have all closed has exit code 1 if a file was truncated or could not be
/// written.
#[test]
fn a_bridge_reports_a_truncated_file() {
    let dir = Dir::new("captures-bridge");
    let whole = Capture::pcap(1).packet(&udp(60), 102).packet(&udp(60), 102).0;
    dir.file("whole.pcap", &whole);
    dir.file("cut.pcap", &whole[..whole.len() - 5]);
    for (from, code, why) in [("whole", 0, ""), ("cut", 1, "pcap:cut.pcap: ")] {
        let output = of(&dir, &format!("bridge pcap:{from}.pcap null:n1"));
        let printed = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(code) && printed.contains(why), "{from}: {output:?}");
    }
    let output = of(&dir, "bridge pcap:whole.pcap pcap(read=off):/dev/full");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
}

#[test]
fn metadata_of_records_is_kept() {
    let dir = Dir::new("captures-about");
    let (cut, whole) = (udp(60), udp(5));
    dir.file("snap.pcap", Capture::pcap(1).packet(&cut[..40], 102).packet(&whole, whole.len()).0);
    for line in [
        "conv -o pcap snap.pcap",
        "conv -o pcapng snap.pcap",
        "grep --out pcap -f udp snap.pcap",
        "rewrite ip.ttl-=1 -i pcap",
        "crc snap.pcap",
        "delay 1ms snap.pcap",
        "rate -r 1G snap.pcap",
        "conv -j 2 -o pcap snap.pcap",
        "cat snap.pcap -o pcap",
    ] {
        let mut command = linerate(&line.split_whitespace().collect::<Vec<_>>());
        command.current_dir(&dir.0).stdin(File::open(dir.path("snap.pcap")).unwrap());
        let output = command.stdout(Stdio::piped()).stderr(Stdio::piped()).output().unwrap();
        assert!(output.status.success(), "{line}: {output:?}");
        let mut reader = Reader::new(&output.stdout[..]);
        let mut lens = Vec::new();
        while let Some(record) = reader.read().unwrap() {
            assert_eq!(record.ts_ns, 1_700_000_000_000_005_000, "{line}");
            lens.push((record.orig_len, record.data.len()));
        }
        assert_eq!(lens, [(102, 40), (47, 47)], "{line}");
    }
    let selected = of(&dir, "grep -f greater\u{a0}100 snap.pcap");
    assert_eq!(selected.status.code(), Some(2), "a blank of another kind is no expression");
    let counted = run(linerate(&["grep", "-c", "-f", "greater 100", "snap.pcap"]).current_dir(&dir.0));
    assert_eq!(counted.stdout, b"1\n", "lengths are those on the wire");
    let back = of(&dir, "conv -o jsonl snap.pcap").stdout;
    dir.file("snap.jsonl", &back);
    let again = of(&dir, "conv -o pcap snap.jsonl").stdout;
    assert_eq!(Reader::new(&again[..]).read().unwrap().unwrap().orig_len, 102);
    // Timestamps in microseconds stay in microseconds.
    assert_eq!(of(&dir, "conv -o pcap snap.pcap").stdout[..4], [0xd4, 0xc3, 0xb2, 0xa1]);

    let described = Capture::section().block(1, &[1, 0], b"\x02\0\x04\0lan0\x09\0\x01\0\x09\0\0\0").block(
        1,
        &[1, 0],
        b"\x02\0\x04\0wan0",
    );
    let len = whole.len() as u32;
    let first = [&whole[..], &[0], b"\x01\0\x05\0first\0\0\0\0\0\0\0"].concat();
    let second = [&whole[..], &[0], b"\x02\0\x04\0\x02\0\0\0\0\0\0\0"].concat();
    let both = described.block(6, &[0, 0, 7, len, len], &first).block(6, &[1, 0, 9, len, len], &second).0;
    dir.file("meta.pcapng", &both);
    for line in ["grep -f udp meta.pcapng", "conv meta.pcapng", "conv -j 3 meta.pcapng", "delay 1ms meta.pcapng"] {
        let output = of(&dir, line);
        assert!(output.status.success(), "{line}: {output:?}");
        let mut reader = Reader::new(&output.stdout[..]);
        let record = reader.read().unwrap().unwrap();
        assert_eq!((record.interface, record.ts_ns), (0, 7), "{line}");
        assert_eq!(record.options, b"\x01\0\x05\0first\0\0\0");
        let record = reader.read().unwrap().unwrap();
        assert_eq!((record.interface, record.ts_ns, record.direction), (1, 9_000, Direction::Outbound), "{line}");
        let names: Vec<_> = reader.section().interfaces.iter().map(Interface::name).collect();
        assert_eq!(names, [Some("lan0".to_owned()), Some("wan0".to_owned())], "{line}");
    }
    // Conversion to JSON and back.
    let json = String::from_utf8(of(&dir, "conv -o jsonl meta.pcapng").stdout).unwrap();
    assert!(json.contains(r#","interface":"lan0","comments":["first"],"payload":"#), "{json}");
    assert!(json.contains(r#","interface":"wan0","direction":"outbound","payload":"#), "{json}");
    dir.file("meta.jsonl", &json);
    let back = of(&dir, "conv -o pcapng meta.jsonl").stdout;
    let mut reader = Reader::new(&back[..]);
    assert_eq!(reader.read().unwrap().unwrap().options, b"\x01\0\x05\0first\0\0\0");
    assert_eq!(reader.read().unwrap().unwrap().direction, Direction::Outbound);
    for (broken, says) in [
        (json.replace("[\"first\"]", "\"first\""), "\"comments\" is not a list"),
        (json.replace("[\"first\"]", "[1]"), "\"comments\" contains a value that is not a string"),
        (json.replace("outbound", "sideways"), "neither inbound nor outbound"),
    ] {
        dir.file("broken.jsonl", broken);
        expect(&of(&dir, "conv -o jsonl broken.jsonl"), 0, 1, says);
    }
    // Several files in sequence, each with its own header and interfaces.
    let output = of(&dir, "grep --out pcapng -f udp meta.pcapng snap.pcap meta.pcapng");
    let (mut reader, mut interfaces) = (Reader::new(&output.stdout[..]), Vec::new());
    while let Some(record) = reader.read().unwrap() {
        interfaces.push(record.interface);
    }
    assert_eq!(interfaces, [0, 1, 2, 2, 3, 4], "{output:?}");
    // If no packet is selected, the output is a capture without packets.
    let none = of(&dir, "grep -f tcp meta.pcapng");
    assert_eq!(none.status.code(), Some(1));
    assert!(Reader::new(&none.stdout[..]).read().unwrap().is_none());
    if has("tshark") {
        let copy = dir.file("copy.pcapng", of(&dir, "grep -f udp meta.pcapng").stdout);
        let fields = ["-T", "fields", "-e", "frame.interface_name", "-e", "frame.comment"];
        let mut tshark = std::process::Command::new("tshark");
        let read = run(tshark.args(["-r", &copy]).args(fields).args(["-e", "frame.packet_flags_direction"]));
        assert_eq!(String::from_utf8_lossy(&read.stdout), "lan0\tfirst\t\nwan0\t\t0x00000002\n");
    }
}

#[test]
fn an_announced_fcs_and_the_modified_form_are_read() {
    let dir = Dir::new("captures-fcs");
    let frame = udp(4);
    let with_fcs = [&frame[..], &[0xde, 0xad, 0xbe, 0xef]].concat();
    dir.file("fcs.pcap", Capture::pcap(2 << 28 | 1 << 26 | 1).packet(&with_fcs, with_fcs.len()).0);
    let text = of(&dir, "conv -o text fcs.pcap").stdout;
    assert!(text.ends_with(b" 07 07 07 07\n"), "{}", String::from_utf8_lossy(&text));
    let len = frame.len() as u32;
    let modified =
        Capture::new(0xa1b2_cd34, 1).u32(7).u32(8).u32(len).u32(len).raw(&[1, 0, 0, 0, 8, 0, 4, 0]).raw(&frame);
    dir.file("modified.pcap", modified.0);
    expect(&of(&dir, "conv -o text modified.pcap"), 0, 1, "");
    // Bytes of an unknown format are not text.
    dir.file("unknown", [0x34, 0xcd, 0xb2, 0xa2, 0, 0, 0, 0]);
    expect(&of(&dir, "conv -o text unknown"), 1, 0, "begins with 34 cd b2 a2; expected text, a capture");
    expect(&of(&dir, "grep -c 00 unknown"), 2, 0, "expected text, a capture");
}

#[test]
fn other_link_types_are_read_or_rejected() {
    let dir = Dir::new("captures-links");
    let packet = udp_packet(3);
    let mut wrong = packet.clone();
    wrong[10] ^= 1;
    let sll = b"\0\x04\0\x01\0\x06\x02\0\0\0\0\x07\0\0\x08\0";
    let sll2 = b"\x08\0\0\0\0\0\0\x03\0\x01\x04\x06\x02\0\0\0\0\x07\0\0";
    for (link, header) in [
        (101, &[][..]),
        (228, &[]),
        (0, &[2, 0, 0, 0]),
        (0, &[0, 0, 0, 2]),
        (108, &[0, 0, 0, 2]),
        (113, sll),
        (276, sll2),
    ] {
        let data = [header, &packet].concat();
        let file = Capture::pcap(link).packet(&data, data.len());
        dir.file("link.pcap", &file.0);
        assert_eq!(of(&dir, "grep -c sport=1000 link.pcap").stdout, b"1\n", "{link}");
        for filter in ["udp", "ip", "src host 10.0.0.1"] {
            let output = run(linerate(&["grep", "-f", filter, "link.pcap"]).current_dir(&dir.0));
            assert_eq!(output.stdout, file.0, "{link} {filter}: the same file");
        }
        let json = of(&dir, "conv -o jsonl link.pcap");
        let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
        assert_eq!((&json["type"], json.get("dst")), (&"0x0800".into(), None), "{json}");
        expect(&of(&dir, "top -q link.pcap"), 0, 3, "");
        let counted = of(&dir, "count -q --json link.pcap");
        let sums: serde_json::Value = serde_json::from_slice(&counted.stdout).unwrap();
        assert_eq!(sums["wire_bytes"], 84, "{sums}");
        expect(&of(&dir, "crc --check -o jsonl link.pcap"), 0, 1, "0 of 2 checksums in 1 frames are wrong");
        let bad = [header, &wrong].concat();
        dir.file("wrong.pcap", Capture::pcap(link).packet(&bad, bad.len()).0);
        expect(&of(&dir, "crc --check -o jsonl wrong.pcap"), 1, 1, "1 of 2 checksums");
        let mended = of(&dir, "crc wrong.pcap").stdout;
        assert_eq!(
            Reader::new(&mended[..]).read().unwrap().unwrap().data[..header.len() + 12],
            data[..header.len() + 12]
        );
        for line in [
            "conv -o text link.pcap",
            "conv -o bin1 link.pcap",
            "cat link.pcap",
            "grep 0800 link.pcap",
            "put null:n0 link.pcap",
        ] {
            expect(&of(&dir, line), 2, 0, "has no Ethernet header and cannot be");
        }
        let mut rewrite = linerate(&["rewrite", "ip.ttl-=1"]);
        expect(
            &rewrite.current_dir(&dir.0).stdin(File::open(dir.path("link.pcap")).unwrap()).output().unwrap(),
            2,
            0,
            "cannot be rewritten",
        );
    }
    dir.file("wifi.pcap", Capture::pcap(105).packet(&packet, packet.len()).0);
    for line in ["conv -o text wifi.pcap", "crc --check wifi.pcap", "grep -c -f ip wifi.pcap", "count -q wifi.pcap"] {
        let output = of(&dir, line);
        assert_eq!(output.status.code(), Some(2), "{line}: {output:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("unsupported link type 105"), "{output:?}");
    }
    // Packets of two link types in one pcapng file cannot become one pcap file.
    let len = packet.len() as u32;
    let frame = udp(3);
    let both = Capture::section().block(1, &[1, 0], &[]).block(1, &[101, 0], &[]);
    let both = both.block(6, &[0, 0, 0, frame.len() as u32, frame.len() as u32], &frame);
    dir.file("both.pcapng", both.block(6, &[1, 0, 0, len, len], &packet).0);
    expect(&of(&dir, "grep -c sport=1000 both.pcapng"), 0, 1, "");
    expect(&of(&dir, "conv -o pcap both.pcapng"), 2, 0, "do not fit into one pcap file: use -o pcapng");
}

#[test]
fn extension_headers_hide_no_ports() {
    let dir = Dir::new("captures-ext");
    let six = |next: u8, payload: &[u8]| {
        let mut frame = b"\x02\0\0\0\0\x0b\x02\0\0\0\0\x0a\x86\xdd\x60\0\0\0".to_vec();
        frame.extend((payload.len() as u16).to_be_bytes());
        frame.extend([next, 64]);
        for last in [1, 2] {
            frame.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
        }
        frame.extend(payload);
        frame
    };
    let datagram = [3, 232, 0, 80, 0, 8, 0, 0];
    let padded = [17, 0, 1, 4, 0, 0, 0, 0];
    let options = [60, 0, 1, 4, 0, 0, 0, 0];
    let fragment = |offset: u8| [17, 0, 0, offset, 0, 0, 0, 9];
    let mut file = Capture::pcap(1);
    for frame in [
        six(17, &datagram),
        six(0, &[&padded[..], &datagram].concat()),
        six(0, &[&options[..], &padded, &datagram].concat()),
        six(44, &[&fragment(0)[..], &datagram].concat()), // atomic
    ] {
        file = file.packet(&frame, frame.len());
    }
    dir.file("six.pcap", &file.0);
    assert_eq!(of(&dir, "grep -c sport=1000 six.pcap").stdout, b"4\n");
    let top = of(&dir, "top -q -k flow six.pcap");
    let text = String::from_utf8(top.stdout).unwrap();
    assert!(text.contains("4 100.0%          0  fd00::1.1000 > fd00::2.80 UDP"), "{text}");
    let mut split = linerate(&["split", "-t", "a.txt", "-t", "b.txt", "six.pcap"]);
    let split = run(split.current_dir(&dir.0));
    // Standard output stays empty, without even a capture header.
    assert!(split.status.success() && split.stdout.is_empty(), "{split:?}");
    let sizes = ["a.txt", "b.txt"].map(|name| dir.read(name).lines().count());
    assert!(sizes == [4, 0] || sizes == [0, 4], "{sizes:?}");
    // A later fragment has no ports, and its payload must not be interpreted as ports.
    let later = six(44, &[&[17, 0, 0, 8, 0, 0, 0, 9][..], &datagram].concat());
    dir.file("later.pcap", Capture::pcap(1).packet(&later, later.len()).0);
    assert_eq!(of(&dir, "grep -c sport=1000 later.pcap").stdout, b"0\n");
}

#[test]
fn fragments_in_any_order_pass_the_translator() {
    let dir = Dir::new("captures-nat");
    let part = |id: u8, more: u8, offset: u8| {
        let mut frame = udp(8);
        frame[30..34].copy_from_slice(&[198, 51, 100, 7]);
        (frame[18], frame[19], frame[20], frame[21]) = (0, id, more << 5, offset);
        frame
    };
    let mut file = Capture::pcap(1);
    for frame in [part(1, 0, 2), part(1, 1, 0), part(2, 0, 2), part(3, 0, 2), part(2, 1, 0)] {
        file = file.packet(&frame, frame.len());
    }
    dir.file("parts.pcap", &file.0);
    let mut rewrite = linerate(&["rewrite", "--nat44", "10.0.0.0/8=192.0.2.1", "-o", "text"]);
    rewrite.current_dir(&dir.0).stdin(File::open(dir.path("parts.pcap")).unwrap());
    let output = rewrite.output().unwrap();
    expect(&output, 0, 4, "4 out, 0 in, 0 passed unchanged, 1 dropped: fragment without the first fragment");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.lines().all(|line| line.contains("C0 00 02 01")), "{text}");
}

/// RFC 8259 6: 1.7e+18 is the same number as 1700000000000000000, and jq 1.6 writes the first form.
#[test]
fn numbers_with_an_exponent_are_numbers() {
    let dir = Dir::new("captures-json");
    let line = |ts: &str| {
        format!(
            "{{\"ts_ns\":{ts},\"dst\":\"02:00:00:00:00:0b\",\"src\":\"02:00:00:00:00:0a\",\"type\":\"0x0800\",\"payload\":\"00\"}}\n"
        )
    };
    dir.file("good.jsonl", ["1.7e+18", "1700000000000000000", "1.7E18", "0", "5.0"].map(line).concat());
    let output = of(&dir, "conv -o jsonl good.jsonl");
    expect(&output, 0, 5, "");
    assert!(output.stdout.starts_with(b"{\"ts_ns\":1700000000000000000,"), "{output:?}");
    dir.file("bad.jsonl", ["-1", "0.5", "1e30", "\"7\"", "0"].map(line).concat());
    expect(&of(&dir, "conv -o text bad.jsonl"), 0, 1, "4 of 5 lines are not valid frames");
    // A file without any valid line is a failure.
    dir.file("none.jsonl", line("-1"));
    expect(&of(&dir, "conv -o text none.jsonl"), 1, 0, "1 of 1 lines are not valid frames");
    dir.file("none.txt", "no frame\n");
    expect(&of(&dir, "crc --check none.txt"), 1, 0, "1 of 1 lines are not valid frames");
}

#[test]
fn unwritable_packets_are_an_error() {
    let dir = Dir::new("captures-full");
    dir.file("f.pcap", Capture::pcap(1).packet(&udp(1), 43).0);
    for (line, code) in [
        ("count -q f.pcap", 1),
        ("count -q -I 1 f.pcap", 1),
        ("top -q f.pcap", 1),
        ("conv -o text f.pcap", 1),
        ("cat f.pcap", 1),
        ("grep -c . f.pcap", 2),
        ("grep -f udp f.pcap", 2),
        ("--help", 1),
        ("grep --help", 1),
        ("--version", 1),
    ] {
        let mut command = linerate(&line.split_whitespace().collect::<Vec<_>>());
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = command.current_dir(&dir.0).stdout(full).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{line}: {output:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("No space left on device"), "{line}: {output:?}");
    }
    // As with tee, the other targets continue, and the exit code reports that one failed.
    let mirrored = of(&dir, "mirror -t /dev/full -t copy.pcap -o text f.pcap");
    expect(&mirrored, 1, 1, "mirror /dev/full: 0 frames, 1 lost: No space left on device");
    assert_eq!(of(&dir, "grep -c -f udp copy.pcap").stdout, b"1\n");
    // A target that receives no frames is a capture without packets.
    expect(&of(&dir, "split --seed 1 -t a.pcap -t b.pcap f.pcap"), 0, 0, "");
    for name in ["a.pcap", "b.pcap"] {
        let mut reader = Reader::new(File::open(dir.path(name)).unwrap());
        assert!(reader.format().is_ok() && reader.read().is_ok(), "{name}");
    }
    // If only totals are printed, no capture header precedes them.
    assert!(of(&dir, "count -q f.pcap").stdout.starts_with(b"1 frames"));
}

/// `linerate cat` writes lines of text for any input format, as its help states.
#[test]
fn cat_writes_text() {
    let dir = Dir::new("captures-cat");
    let mut arp = b"\xff\xff\xff\xff\xff\xff\x02\0\0\0\0\x0a\x08\x06".to_vec();
    arp.resize(60, 0);
    dir.file("trace.pcap", Capture::pcap(1).packet(&arp, 60).packet(&udp(9), 51).0);
    let output = run(&mut dir.bash("linerate cat trace.pcap | grep -c ' 0806 '"));
    assert_eq!(output.stdout, b"1\n");
    assert!(of(&dir, "cat -o pcap trace.pcap").stdout.starts_with(&[0xd4, 0xc3, 0xb2, 0xa1]));
}
