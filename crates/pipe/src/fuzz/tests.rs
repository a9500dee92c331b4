use super::*;

/// Runs `body` on each seed, on variants with one byte changed, and on the whole corpus. Writes the
/// seeds to disk if the repository is writable.
fn hold(target: &str, seeds: &[(&str, Vec<u8>)], body: fn(&[u8])) {
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let writable = std::fs::create_dir_all(&dir).is_ok();
    for (name, seed) in seeds {
        println!("{name}");
        body(seed);
        let path = dir.join(name);
        if writable && std::fs::read(&path).ok().as_ref() != Some(seed) {
            std::fs::write(&path, seed).unwrap();
        }
        for at in (0..seed.len()).step_by(1 + seed.len() / 16) {
            for byte in [b'9', 0xff] {
                let mut damaged = seed.clone();
                damaged[at] = byte;
                body(&damaged);
                damaged.truncate(at);
                body(&damaged);
            }
        }
    }
    for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
        body(&std::fs::read(entry.path()).unwrap());
    }
}

const LINES: &str =
    "FFFFFFFFFFFF 0022CF63967B 8899 23 1E 0A\n0000000000000001 FFFFFFFFFFFF 0022CF63967B 0800 45 00\nzz\n\n00 11\n";

#[test]
fn grep_seeds_and_mutations_hold() {
    let seed = |flags: u8, pattern: &str| [&[flags], pattern.as_bytes(), b"\n", LINES.as_bytes()].concat();
    let seeds = [
        ("basic", seed(0, "^FF*\\(00\\|22\\)")),
        ("extended", seed(1, "(8899|0800) .{2}")),
        ("fixed", seed(2, "0022CF63967B")),
        ("word", seed(8, "8899")),
        ("whole", seed(16 | 1, "[0-9A-F ]+")),
        ("any_field", seed(32, "CF63")),
        ("ignore_case", seed(4, "cf.*0a$")),
        ("anchors", seed(1, "^$|^z")),
        ("repeat", seed(1, "(F{2}){3}|")),
        ("terms", seed(1, "src=00:22:* type=ip len=>14")),
    ];
    hold("pipe_grep", &seeds, grep);
}

/// Keys that every JSON line must contain.
const FRAME: &str =
    "\"dst\":\"00:01:02:03:04:05\",\"src\":\"06:07:08:09:0a:0b\",\"type\":\"0x0800\",\"payload\":\"4500\"";

/// Returns JSON lines with each direction and with none, with one comment and with several.
fn noted_lines() -> String {
    let notes = [
        "\"direction\":\"inbound\"",
        "\"direction\":\"outbound\",\"comments\":[]",
        "\"comments\":[\"one\"]",
        "\"ts_ns\":7,\"orig_len\":60,\"direction\":\"inbound\",\"comments\":[\"\",\"a\\nb\",\"\\u00f6 \\\"\"]",
    ];
    notes.iter().map(|note| format!("{{{FRAME},{note}}}\n")).collect()
}

/// Returns JSON lines that are rejected because of their direction or comments.
fn refused_notes() -> String {
    let notes = [
        "\"direction\":\"sideways\"",
        "\"direction\":1",
        "\"comments\":\"text\"",
        "\"comments\":[1]",
        "\"comments\":null",
    ];
    notes.iter().map(|note| format!("{{{FRAME},{note}}}\n")).collect()
}

/// Returns the frames of [`noted_lines`] as a pcapng capture.
fn noted_capture() -> Vec<u8> {
    let (mut frames, mut out) = (Frames::new(), Vec::new());
    let mut input = crate::Input::new(std::io::Cursor::new(noted_lines()), Some(Format::Jsonl), true);
    assert!(input.read(&mut frames).unwrap());
    let len = Encoder::new(Format::Pcapng, 1).encode(&frames, &mut out).unwrap();
    out.truncate(len);
    [crate::output::header(Format::Pcapng, None, None), out].concat()
}

#[test]
fn seeds_of_comments_and_directions_are_read() {
    let read = |bytes: &[u8], format| {
        let mut input = crate::Input::new(std::io::Cursor::new(bytes.to_vec()), Some(format), false);
        let (mut frames, mut notes) = (Frames::new(), Vec::new());
        while input.read(&mut frames).unwrap() {
            notes.extend((0..frames.len()).map(|at| lines::noted_of(frames.about(at))));
            frames.clear();
        }
        (notes, input.tally().bad)
    };
    use port::pcap::Direction::{Inbound, Outbound, Unknown};
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let wanted = vec![
        (texts(&[]), Inbound, 0),
        (texts(&[]), Outbound, 0),
        (texts(&["one"]), Unknown, 0),
        (texts(&["", "a\nb", "\u{f6} \""]), Inbound, 44),
    ];
    assert_eq!(read(noted_lines().as_bytes(), Format::Jsonl), (wanted.clone(), 0));
    assert_eq!(read(&noted_capture(), Format::Pcap), (wanted, 0));
    assert_eq!(read(refused_notes().as_bytes(), Format::Jsonl), (Vec::new(), 5));
}

#[test]
fn input_seeds_of_each_format_hold() {
    let encoded = |format: Format| {
        let mut frames = Frames::new();
        for (len, stamp) in [(14, 5), (60, 6), (1514, 7)] {
            let frame: Vec<u8> = (0..len).map(|at| at as u8).collect();
            assert!(frames.push(&frame, crate::Time::Stamp(wire::text::Stamp(stamp))));
        }
        let mut out = Vec::new();
        let len = Encoder::new(format, 1).encode(&frames, &mut out).unwrap();
        out.truncate(len);
        out
    };
    let captured = |format| {
        let mut writer = port::pcap::Writer::new(Vec::new(), format, u32::MAX).unwrap();
        writer.add_interface("a").unwrap();
        for len in [14, 60] {
            let record =
                port::pcap::Record { data: &vec![5; len], orig_len: len as u32, linktype: 1, ..Default::default() };
            writer.write(&record).unwrap();
        }
        writer.into_inner()
    };
    let seed = |flags: u8, bytes: &[u8]| [&[flags], bytes].concat();
    // Bare IP (link type 101), almost all of it not captured. With an Ethernet header its length
    // exceeds 32 bits.
    let longest = {
        let mut writer = port::pcap::Writer::new(Vec::new(), port::pcap::Format::Pcap, u32::MAX).unwrap();
        let record = port::pcap::Record { data: &[0x45; 20], orig_len: u32::MAX, linktype: 101, ..Default::default() };
        writer.write(&record).unwrap();
        let mut file = writer.into_inner();
        file[20] = 101;
        file
    };
    let noted = noted_lines();
    let refused = refused_notes();
    let seeds = [
        ("json_comments", seed(0x42, noted.as_bytes())),
        ("json_comments_refused", seed(0x32, refused.as_bytes())),
        ("pcap_longest", seed(5, &longest)),
        ("pcapng_comments", seed(0x65, &noted_capture())),
        ("text", seed(0x50, LINES.as_bytes())),
        ("strict", seed(0x58, LINES.as_bytes())),
        ("jsonl", seed(0x12, &encoded(Format::Jsonl))),
        ("json_told", seed(0x30, b"{\"frame\": \"0011\", \"ts_ns\": 1.5e3}\n{}\n[1]\nnull\n{\"frame\": 7}\n")),
        ("bin1", seed(0x23, &encoded(Format::Bin1))),
        ("bin2", seed(0x70, &encoded(Format::Bin2))),
        ("pcap", seed(0x05, &captured(port::pcap::Format::Pcap))),
        ("pcapng", seed(0x90, &captured(port::pcap::Format::Pcapng))),
    ];
    hold("pipe_input", &seeds, input);
}

#[test]
fn mount_request_seeds_hold() {
    let one = |what: u8, node: u8, body: &[u8]| [&[what, node, body.len() as u8], body].concat();
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<u8>>();
    let init = one(26, 0, &words(&[7, 31, 65_536, u32::MAX]));
    // LOOKUP 1, GETATTR 3, OPEN 14, READ 15, WRITE 16, RELEASE 18, OPENDIR 27, READDIR 28, POLL 40,
    // INTERRUPT 36, DESTROY 38.
    let open = |node| one(14, node, &words(&[2, 0]));
    let read = |node, fh| one(15, node, &words(&[fh, 0, 0, 0, 4000, 0, 0, 0, 0, 0]));
    let line = LINES.as_bytes().split_inclusive(|byte| *byte == b'\n').next().unwrap();
    let write = |node, fh| {
        let head = words(&[fh, 0, 0, 0, line.len() as u32, 0, 0, 0, 0, 0]);
        one(16, node, &[&head, line].concat())
    };
    let frame = one(0, 0, &[0x45; 40]);
    let all = |parts: &[Vec<u8>]| parts.concat();
    let names = [&b"a\0"[..], b"ra\0", b"stats\0", b"nothing\0"].map(|name| one(1, 1, name));
    let seeds = [
        ("begin", all(&[init.clone(), names.concat(), one(3, 1, &[0; 16]), one(38, 0, &[])])),
        (
            "read",
            all(&[
                init.clone(),
                open(11),
                frame.clone(),
                read(11, 1),
                frame.clone(),
                read(11, 1),
                one(18, 11, &words(&[1, 0])),
            ]),
        ),
        ("write", all(&[init.clone(), open(11), write(11, 1), open(12), write(12, 2), write(3, 3)])),
        ("list", all(&[init.clone(), one(27, 1, &[]), one(28, 1, &words(&[0, 0, 0, 0, 4000, 0, 0, 0, 0, 0]))])),
        (
            "poll",
            all(&[
                init.clone(),
                open(14),
                one(40, 14, &words(&[1, 0, 9, 0, 1, 1])),
                frame,
                one(36, 14, &words(&[2, 0])),
            ]),
        ),
        ("small", all(&[init, open(3), read(3, 1), open(4), read(4, 2), read(10, 3)])),
        ("raw", one(255, 0, &[40; 60])),
    ];
    hold("pipe_fuse", &seeds, fuse);
}
