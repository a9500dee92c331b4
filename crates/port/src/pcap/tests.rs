use super::*;
use crate::{Pairs, Spec};
use buf::{Burst, Pool, PoolConfig};
use proptest::prelude::*;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Builder of parts of files, in either byte order.
struct Bytes {
    big: bool,
    out: Vec<u8>,
}

impl Bytes {
    fn new(big: bool) -> Bytes {
        Bytes { big, out: Vec::new() }
    }
    fn done(&mut self) {}
    fn u16(&mut self, n: u16) -> &mut Bytes {
        self.out.extend(if self.big { n.to_be_bytes() } else { n.to_le_bytes() });
        self
    }
    fn u32(&mut self, n: u32) -> &mut Bytes {
        self.out.extend(if self.big { n.to_be_bytes() } else { n.to_le_bytes() });
        self
    }
    fn raw(&mut self, bytes: &[u8]) -> &mut Bytes {
        self.out.extend(bytes);
        self
    }
    fn block(&mut self, ty: u32, fill: impl FnOnce(&mut Bytes)) -> &mut Bytes {
        let mut body = Bytes::new(self.big);
        fill(&mut body);
        let len = body.out.len() as u32 + 12;
        self.u32(ty).u32(len).raw(&body.out).u32(len)
    }
    fn section(&mut self) -> &mut Bytes {
        self.block(ng::SECTION, |b| {
            b.u32(ng::BYTE_ORDER).u16(1).u16(0).u32(u32::MAX).u32(u32::MAX);
        })
    }
    fn interface(&mut self, snaplen: u32, options: &[(u16, &[u8])]) -> &mut Bytes {
        self.block(ng::INTERFACE, |b| {
            b.u16(1).u16(0).u32(snaplen);
            for (code, value) in options {
                b.u16(*code)
                    .u16(value.len() as u16)
                    .raw(value)
                    .raw(&vec![0; value.len().next_multiple_of(4) - value.len()]);
            }
        })
    }
    fn packet(&mut self, interface: u32, ts: u64, data: &[u8]) -> &mut Bytes {
        self.block(ng::PACKET, |b| {
            b.u32(interface).u32((ts >> 32) as u32).u32(ts as u32).u32(data.len() as u32).u32(data.len() as u32);
            b.raw(data).raw(&vec![0; data.len().next_multiple_of(4) - data.len()]);
        })
    }
}

type Seen = Vec<(u64, u32, Vec<u8>)>;

fn read(bytes: &[u8]) -> (Seen, Option<PcapError>) {
    let (mut reader, mut seen) = (Reader::new(bytes), Vec::new());
    loop {
        match reader.read() {
            Ok(Some(record)) => seen.push((record.ts_ns, record.orig_len, record.data.to_vec())),
            Ok(None) => return (seen, None),
            Err(error) => return (seen, Some(error)),
        }
    }
}

#[test]
fn pcap_of_both_orders_and_both_resolutions_is_read() {
    for big in [false, true] {
        for (magic, fraction, ns) in [(0xa1b2_c3d4, 5, 5_000), (0xa1b2_3c4d, 5, 5)] {
            let mut file = Bytes::new(big);
            file.u32(magic).u16(2).u16(4).u32(0).u32(0).u32(65_535).u32(1);
            file.u32(7).u32(fraction).u32(3).u32(60).raw(b"abc").u32(8).u32(0).u32(0).u32(0);
            let (seen, error) = read(&file.out);
            assert!(error.is_none());
            assert_eq!(seen, [(7_000_000_000 + ns, 60, b"abc".to_vec()), (8_000_000_000, 0, vec![])]);
        }
    }
}

/// Checks that an FCS is removed. If bit 26 of the word with the link type is set, the word's upper
/// 4 bits are the FCS length in units of 2 bytes (draft-ietf-opsawg-pcap 4).
#[test]
fn an_announced_fcs_is_stripped_as_far_as_it_was_captured() {
    let mut file = Bytes::new(false);
    file.u32(0xa1b2_c3d4).u16(2).u16(4).u32(0).u32(0).u32(65_535).u32(2 << 28 | 1 << 26 | 1);
    for (captured, orig) in [(10, 10), (8, 10), (6, 10), (4, 10), (3, 3)] {
        file.u32(0).u32(0).u32(captured).u32(orig).raw(&b"framefcss."[..captured as usize]);
    }
    let (seen, error) = read(&file.out);
    assert!(error.is_none());
    let lens: Vec<(u32, usize)> = seen.iter().map(|(_, orig, data)| (*orig, data.len())).collect();
    assert_eq!(lens, [(6, 6), (6, 6), (6, 6), (6, 4), (0, 0)]);
    // In pcapng, the FCS length is given by the interface and by the packet's own flags (4 << 5),
    // which are cleared.
    for big in [false, true] {
        let mut file = Bytes::new(big);
        file.section().interface(0, &[(13, &[2])]).packet(0, 0, b"frame..");
        file.block(ng::PACKET, |b| {
            b.u32(0).u32(0).u32(0).u32(9).u32(9).raw(b"frame....\0\0\0");
            // An option with a code above 255 in front of the flags must not hide the flags.
            b.u16(0x0b00).u16(0).u16(2).u16(4).u32(4 << 5 | 2).u32(0);
        });
        let mut reader = Reader::new(&file.out[..]);
        assert_eq!(reader.read().unwrap().unwrap().data, b"frame");
        let record = reader.read().unwrap().unwrap();
        assert_eq!((record.data, record.orig_len, record.direction), (&b"frame"[..], 5, Direction::Outbound));
        assert_eq!(record.options, [0, 11, 0, 0, 2, 0, 4, 0, 2, 0, 0, 0]);
        assert_eq!(written(Format::Pcapng, reader.section())[0].fcs_len, 0);
    }
}

/// Reads the form that is written by patched kernels, AVM's routers and editcap -F modpcap.
#[test]
fn the_modified_form_has_8_more_bytes_a_record() {
    for big in [false, true] {
        let mut file = Bytes::new(big);
        file.u32(0xa1b2_cd34).u16(2).u16(4).u32(0).u32(0).u32(65_535).u32(1);
        for kind in [0, 4, 9] {
            file.u32(1).u32(2).u32(3).u32(60).u32(7).u16(0x0800).raw(&[kind, 0]).raw(b"abc");
        }
        let mut reader = Reader::new(&file.out[..]);
        for direction in [Direction::Inbound, Direction::Outbound, Direction::Unknown] {
            let record = reader.read().unwrap().unwrap();
            assert_eq!((record.ts_ns, record.orig_len, record.data), (1_000_002_000, 60, &b"abc"[..]));
            assert_eq!(record.direction, direction);
        }
        assert!(reader.read().unwrap().is_none());
    }
}

/// Checks that options are copied in little-endian byte order: numbers are swapped, names and
/// comments are not, and hashes are omitted.
#[test]
fn metadata_of_interfaces_and_packets_survives_a_copy() {
    for big in [false, true] {
        let number = |n: u64| if big { n.to_be_bytes() } else { n.to_le_bytes() };
        let mut file = Bytes::new(big);
        file.section().interface(96, &[(2, b"lan0"), (8, &number(1_000_000_000)), (9, &[6])]);
        file.block(ng::INTERFACE, |b| {
            b.u16(113).u16(0).u32(0).u16(2).u16(4).raw(b"any0").u16(9).u16(1).raw(&[0x8a, 0, 0, 0]);
        });
        file.block(ng::PACKET, |b| {
            b.u32(1).u32(0).u32(1024 + 512).u32(2).u32(60).raw(b"ab\0\0");
            b.u16(1).u16(5).raw(b"first\0\0\0").u16(3).u16(1).raw(&[1, 0, 0, 0]).u16(4).u16(8).raw(&number(3)).u32(0);
        });
        let mut reader = Reader::new(&file.out[..]);
        let (ts_ns, options) = {
            let record = reader.read().unwrap().unwrap();
            assert_eq!((record.linktype, record.interface, record.orig_len), (113, 1, 60));
            (record.ts_ns, record.options.to_vec())
        };
        assert_eq!(options, b"\x01\0\x05\0first\0\0\0\x04\0\x08\0\x03\0\0\0\0\0\0\0");
        let section = reader.section().clone();
        let names: Vec<_> = section.interfaces.iter().map(Interface::name).collect();
        assert_eq!(names, [Some("lan0".to_owned()), Some("any0".to_owned())]);
        let mut writer = Writer::like(Vec::new(), Format::Pcapng, &section).unwrap();
        written(Format::Pcapng, &section).iter().for_each(|interface| _ = writer.describe(interface).unwrap());
        let options = &options[..];
        writer.write(&Record { ts_ns, orig_len: 60, data: b"ab", interface: 1, options, ..Record::default() }).unwrap();
        let copy = writer.into_inner();
        let speed = [&[8, 0, 8, 0][..], &1_000_000_000u64.to_le_bytes()].concat();
        assert!(copy.windows(speed.len()).any(|window| window == speed));
        let mut again = Reader::new(&copy[..]);
        let record = again.read().unwrap().unwrap();
        assert_eq!((record.ts_ns, record.linktype, record.options), (1_500_000_000, 113, options));
        assert_eq!(again.section().interfaces, section.interfaces);
    }
}

#[test]
fn pcapng_of_both_orders_with_sections_options_and_unknown_blocks_is_read() {
    for big in [false, true] {
        let mut file = Bytes::new(big);
        file.section().block(0x0bad, |b| {
            b.raw(&[0; 40]);
        });
        let offset = if big { 100i64.to_be_bytes() } else { 100i64.to_le_bytes() };
        file.interface(2, &[]).interface(0, &[(9, &[9])]).interface(0, &[(2, b"eth0"), (9, &[0x8a]), (14, &offset)]);
        file.packet(0, 3, b"micro").packet(1, 3, b"nano").packet(2, 1024 * 3 + 512, b"binary, offset");
        file.block(ng::SIMPLE_PACKET, |b| {
            b.u32(9).raw(b"ab\0\0"); // truncated to snaplen 2
        });
        file.block(ng::OLD_PACKET, |b| {
            b.u16(1).u16(0).u32(0).u32(77).u32(4).u32(5).raw(b"obso");
        });
        // The next section numbers its interfaces from zero, and has its own byte order.
        let mut second = Bytes::new(!big);
        second.section().interface(0, &[(9, &[12])]).packet(0, 5_000, b"pico");
        file.raw(&second.out);
        let (seen, error) = read(&file.out);
        assert!(error.is_none(), "{error:?}");
        let wanted: [(u64, u32, &[u8]); 6] = [
            (3_000, 5, b"micro"),
            (3, 4, b"nano"),
            (103_500_000_000, 14, b"binary, offset"),
            (103_500_000_000, 9, b"ab"),
            (77, 5, b"obso"),
            (5, 4, b"pico"),
        ];
        assert_eq!(seen, wanted.map(|(ts, len, data)| (ts, len, data.to_vec())));
    }
}

#[test]
fn errors_name_their_position() {
    let pcap = |record: &[u32]| {
        let mut file = Bytes::new(false);
        file.u32(0xa1b2_c3d4).u16(2).u16(4).u32(0).u32(0).u32(65_535).u32(1);
        record.iter().for_each(|word| file.u32(*word).done());
        file.out
    };
    let ng = |fill: &dyn Fn(&mut Bytes)| {
        let mut file = Bytes::new(false);
        file.section().interface(0, &[]);
        fill(&mut file);
        file.out
    };
    for (bytes, says) in [
        (vec![], "at byte 0: truncated: 0 of 4 bytes"),
        (b"GIF89a".to_vec(), "at byte 0: neither pcap nor pcapng: begins with 47 49 46 38"),
        (pcap(&[])[..23].to_vec(), "at byte 0: truncated: 23 of 24 bytes"),
        (pcap(&[0, 0, 0]), "at byte 24: truncated: 12 of 16 bytes"),
        (pcap(&[0, 0, 100, 100, 1]), "at byte 24: truncated: 20 of 116 bytes"),
        (pcap(&[0, 0, u32::MAX, 100]), "at byte 24: length 4294967295: too long for a record"),
        (
            ng(&|f| f.u32(6).u32(u32::MAX - 3).done()),
            "at byte 48: length 4294967292: too long for a block of this type",
        ),
        (ng(&|f| f.u32(6).u32(13).done()), "at byte 48: length 13: must be a multiple of 4, and at least 12"),
        (ng(&|f| f.u32(99).u32(8).done()), "at byte 48: length 8: must be a multiple of 4, and at least 12"),
        (ng(&|f| f.u32(99).u32(1 << 30).u32(0).done()), "at byte 60: truncated: 0 of 1 bytes"),
        (ng(&|f| f.u32(99).u32(12).u32(16).done()), "at byte 56: block length is 12 at the start and 16 at the end"),
        (ng(&|f| f.u32(6).u32(12).u32(16).done()), "at byte 48: block length is 12 at the start and 16 at the end"),
        (ng(&|f| f.packet(3, 0, b"x").done()), "at byte 48: unknown interface 3: 1 are described"),
        (
            ng(&|f| f.block(6, |b| b.u32(0).u32(0).u32(0).u32(99).u32(99).done()).done()),
            "at byte 48: length 99: the packet is longer than its block",
        ),
        (ng(&|f| f.block(6, |b| b.u32(0).done()).done()), "at byte 48: length 4: too short for a block of this type"),
        (
            ng(&|f| f.block(1, |b| b.u32(0).done()).done()),
            "at byte 48: length 16: too short for an interface description",
        ),
    ] {
        let error = read(&bytes).1.expect(says);
        assert_eq!(error.to_string(), says);
    }
    let mut many = Bytes::new(false);
    many.section();
    (0..=MAX_INTERFACES).for_each(|_| many.interface(0, &[]).done());
    assert!(matches!(read(&many.out).1, Some(PcapError { fault: Fault::TooManyInterfaces, .. })));
}

#[test]
fn a_length_field_alone_allocates_nothing() {
    let mut file = Bytes::new(false);
    file.u32(0xa1b2_c3d4).u16(2).u16(4).u32(0).u32(0).u32(65_535).u32(1).u32(0).u32(0).u32(MAX_BLOCK as u32).u32(0);
    let mut reader = Reader::new(&file.out[..]);
    assert!(reader.read().is_err());
    assert!(reader.allocated() < 300 * 1024, "{}", reader.allocated());
}

fn temp(name: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("linerate-port-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    dir.join(name)
}

fn records() -> Vec<(u64, Vec<u8>)> {
    (0..50u64).map(|i| (1_700_000_000_000_000_000 + i * 1_000_000_007, vec![i as u8; 60 + 13 * i as usize])).collect()
}

fn write_file(path: &Path, format: Format) {
    let mut writer = Writer::new(std::fs::File::create(path).unwrap(), format, 262_144).unwrap();
    writer.add_interface("pg0").unwrap();
    for (i, (ts_ns, data)) in records().iter().enumerate() {
        let direction = if i % 2 == 0 { Direction::Inbound } else { Direction::Outbound };
        let orig_len = data.len() as u32;
        let record = Record { ts_ns: *ts_ns, orig_len, data, direction, ..Record::default() };
        writer.write(&record).unwrap();
    }
}

/// Returns the output of a tool. If it is not installed, prints a notice and returns `None`.
fn tool(name: &str, args: &[&str]) -> Option<String> {
    match Command::new(name).args(args).output() {
        Ok(output) => {
            assert!(output.status.success(), "{name} {args:?}: {}", String::from_utf8_lossy(&output.stderr));
            Some(String::from_utf8_lossy(&output.stdout).into_owned())
        }
        Err(error) => {
            println!("skipped: {name}: {error}");
            None
        }
    }
}

#[test]
fn tshark_tcpdump_and_capinfos_read_written_files() {
    for (format, name, ty) in [(Format::Pcap, "ours.pcap", "nanosecond "), (Format::Pcapng, "ours.pcapng", "pcapng")] {
        let path = temp(name);
        write_file(&path, format);
        let file = path.to_str().unwrap();
        let wanted: Vec<String> = records()
            .iter()
            .map(|(ts, data)| format!("{}.{:09}\t{}", ts / 1_000_000_000, ts % 1_000_000_000, data.len()))
            .collect();
        if let Some(text) = tool("tshark", &["-r", file, "-T", "fields", "-e", "frame.time_epoch", "-e", "frame.len"]) {
            assert_eq!(text.lines().collect::<Vec<_>>(), wanted);
        }
        if let Some(text) = tool("capinfos", &["-t", "-c", "-E", file]) {
            assert!(text.contains(ty) && text.contains("Ethernet") && text.contains("50"), "{text}");
        }
        if let Some(text) = tool("tcpdump", &["-r", file, "-tt", "-n", "--nano"]) {
            assert_eq!(text.lines().filter(|line| !line.starts_with('\t')).count(), 50, "{text}");
        }
    }
    let file = temp("ours.pcapng");
    if let Some(text) = tool(
        "tshark",
        &[
            "-r",
            file.to_str().unwrap(),
            "-T",
            "fields",
            "-e",
            "frame.packet_flags_direction",
            "-e",
            "frame.interface_name",
        ],
    ) {
        let wanted: Vec<_> = (0..50).map(|i| if i % 2 == 0 { "0x00000001\tpg0" } else { "0x00000002\tpg0" }).collect();
        assert_eq!(text.lines().collect::<Vec<_>>(), wanted);
    }
}

#[test]
fn files_of_wiresharks_tools_are_read() {
    let path = temp("source.pcapng");
    write_file(&path, Format::Pcapng);
    for format in ["pcap", "nsecpcap", "pcapng"] {
        let out = temp(&format!("edited.{format}"));
        if tool("editcap", &["-F", format, path.to_str().unwrap(), out.to_str().unwrap()]).is_none() {
            return;
        }
        let (seen, error) = read(&std::fs::read(out).unwrap());
        assert!(error.is_none(), "{error:?}");
        let unit = if format == "pcap" { 1_000 } else { 1 };
        let wanted: Seen =
            records().into_iter().map(|(ts, data)| (ts / unit * unit, data.len() as u32, data)).collect();
        assert_eq!(seen, wanted, "{format}");
    }
    let out = temp("tcpdump.pcap");
    if tool("tcpdump", &["-r", path.to_str().unwrap(), "--nano", "-w", out.to_str().unwrap()]).is_some() {
        assert_eq!(read(&std::fs::read(out).unwrap()).0.len(), 50);
    }
}

fn open_text(text: &str, pool: &Pool) -> Result<crate::Port, String> {
    let pairs = Pairs::new();
    let env = crate::Env { pool: pool.clone(), pairs: &pairs, mac: wire::Mac::ZERO, unit: 0 };
    crate::open(&Spec::parse(text).map_err(|error| error.to_string())?, &env).map_err(|error| error.to_string())
}

fn pool() -> Pool {
    Pool::new(&PoolConfig { buffers: 256, ..PoolConfig::default() }).unwrap()
}

/// Checks that buffered packets are written at the end, and that an error of this write is
/// reported.
#[test]
fn a_write_error_ends_the_port() {
    let (pool, (reader, writer)) = (pool(), std::io::pipe().unwrap());
    let spec = format!("pcap(read=off):/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&writer));
    let mut port = open_text(&spec, &pool).unwrap();
    drop(reader);
    let send = |port: &mut crate::Port| {
        let mut frame = pool.get().unwrap();
        frame.extend(&[7; 60]).unwrap();
        assert_eq!(port.tx.tx_burst(&mut Burst::of(frame), Instant::ZERO), 1);
    };
    send(&mut port);
    assert!(!port.tx.is_gone(), "buffered");
    port.tx.finish();
    assert!(port.tx.is_gone() && port.tx.why_gone().is_none(), "a closed pipe is not an error");
    send(&mut port);
    assert_eq!((port.counts.tx.errors.get(), port.counts.tx.frames.get()), (1, 1));
}

#[test]
fn a_port_writes_what_another_replays() {
    let (pool, path) = (pool(), temp("replay.pcapng"));
    let file = path.to_str().unwrap();
    let mut out = open_text(&format!("pcap(read=off,snaplen=100):{file}"), &pool).unwrap();
    for i in 0..5u64 {
        let mut burst = Burst::new();
        let mut frame = pool.get().unwrap();
        frame.extend(&[i as u8; 200]).unwrap();
        burst.push(frame).unwrap();
        assert_eq!(out.tx.tx_burst(&mut burst, Instant::from_millis(i * 10)), 1);
    }
    assert_eq!((out.counts.tx.frames.get(), out.counts.tx.bytes.get()), (5, 1000));
    drop(out);

    let mut port = open_text(&format!("pcap(pace=on,loop=2):{file}"), &pool).unwrap();
    let (mut burst, mut at) = (Burst::new(), Vec::new());
    let mut now = Instant::from_millis(1000);
    while !port.rx.is_gone() {
        let got = port.rx.rx_burst(&mut burst, 32, now);
        at.extend(std::iter::repeat_n(now.nanos() / 1_000_000, got));
        assert_eq!(port.rx.held(), usize::from(port.rx.next_event().is_some()));
        now = port.rx.next_event().unwrap_or(now);
    }
    assert_eq!(at, [1000, 1010, 1020, 1030, 1040, 1040, 1050, 1060, 1070, 1080]);
    assert!(burst.as_slice().iter().all(|frame| frame.len() == 100) && burst.as_slice()[9].bytes()[0] == 4);
    assert_eq!((port.counts.rx.frames.get(), port.rx.why_gone()), (10, None));
}

/// Runs this test again in a child process, with the capture on its standard input.
#[test]
fn standard_input_is_read_without_blocking() {
    const CHILD: &str = "LINERATE_PCAP_STDIN";
    let pool = pool();
    if std::env::var_os(CHILD).is_some() {
        let mut port = open_text("pcap:-", &pool).unwrap();
        while !port.rx.is_gone() {
            assert!(port.rx.wait_fd().is_some());
            let mut burst = Burst::new();
            port.rx.rx_burst(&mut burst, 32, Instant::ZERO);
            std::thread::sleep(Duration::from_millis(1));
        }
        let rx = &port.counts.rx;
        assert!(rx.idle.get() > 10, "some polls found no frame");
        return println!("received {} of {} bytes", rx.frames.get(), rx.bytes.get());
    }
    let path = temp("stdin.pcapng");
    write_file(&path, Format::Pcapng);
    let bytes = std::fs::read(&path).unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "pcap::tests::standard_input_is_read_without_blocking", "--nocapture"])
        .env(CHILD, "1")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    for piece in bytes.chunks(bytes.len() / 3) {
        std::io::Write::write_all(&mut input, piece).unwrap();
        std::thread::sleep(Duration::from_millis(50));
    }
    drop(input);
    let text = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
    let total: usize = records().iter().map(|(_, data)| data.len()).sum();
    assert!(text.contains(&format!("received 50 of {total} bytes")), "{text}");
}

#[test]
fn a_truncated_file_ends_the_port_with_a_reason() {
    let (pool, path) = (pool(), temp("broken.pcap"));
    write_file(&path, Format::Pcap);
    let whole = std::fs::read(&path).unwrap();
    std::fs::write(&path, &whole[..24 + 76 + 30]).unwrap();
    let file = path.to_str().unwrap();
    let mut port = open_text(&format!("pcap(loop=0):{file}"), &pool).unwrap();
    let mut burst = Burst::new();
    assert_eq!(port.rx.rx_burst(&mut burst, 32, Instant::ZERO), 1);
    assert!(port.rx.is_gone());
    let why = port.rx.why_gone().unwrap();
    assert_eq!(why, format!("pcap:{file}: at byte 100: truncated: 30 of 89 bytes"));
    assert_eq!((port.counts.rx.errors.get(), port.rx.rx_burst(&mut burst, 32, Instant::ZERO)), (1, 0));

    std::fs::write(&path, &whole[..24]).unwrap();
    let mut port = open_text(&format!("pcap(loop=0):{file}"), &pool).unwrap();
    assert_eq!(port.rx.rx_burst(&mut burst, 32, Instant::ZERO), 0);
    assert!(port.rx.is_gone(), "a file without frames is not read forever");

    std::fs::write(&path, b"no capture").unwrap();
    assert!(open_text(&format!("pcap:{file}"), &pool).unwrap_err().contains("neither pcap nor pcapng"));
    std::fs::write(&path, [&whole[..20], &[113, 0, 0, 0]].concat()).unwrap();
    assert!(open_text(&format!("pcap:{file}"), &pool).unwrap_err().contains("link type 113 is not Ethernet"));
    assert!(open_text("pcap:/nowhere/x.pcap", &pool).unwrap_err().contains("No such file"));
    assert!(open_text("pcap(read=off):/nowhere/x.pcap", &pool).unwrap_err().contains("No such file"));
    assert!(open_text("pcap(loop=2):-", &pool).unwrap_err().contains("standard input can be read only once"));
    assert!(open_text("tracer(file=/nowhere/x):null:", &pool).unwrap_err().contains("No such file"));
}

#[test]
fn long_frames_are_received_and_empty_records_reported() {
    let (pool, path) = (pool(), temp("large.pcap"));
    let mut writer = Writer::new(std::fs::File::create(&path).unwrap(), Format::Pcap, 262_144).unwrap();
    for len in [60usize, 5000, 0, 61] {
        let (data, orig_len) = (vec![1; len], len as u32);
        let direction = Direction::Unknown;
        writer.write(&Record { ts_ns: 0, orig_len, data: &data, direction, ..Record::default() }).unwrap();
    }
    drop(writer);
    let mut port = open_text(&format!("impair(delay=1ms,dir=rx):pcap:{}", path.display()), &pool).unwrap();
    let mut burst = Burst::new();
    assert_eq!(port.rx.rx_burst(&mut burst, 32, Instant::ZERO), 0);
    assert!(!port.rx.is_gone(), "held");
    assert_eq!(port.rx.rx_burst(&mut burst, 32, Instant::from_millis(1)), 3);
    let lens: Vec<usize> = burst.as_slice().iter().map(buf::Frame::len).collect();
    assert_eq!((lens, port.counts.rx.malformed.get(), port.rx.is_gone()), (vec![60, 5000, 61], 1, true));
    assert_eq!(port.rx.warnings(), ["1 records are not valid frames; the first: empty"]);
    drop((port, burst));
    assert_eq!(pool.stats().live(), 0);
}

#[test]
fn timestamps_can_be_wall_clock_time() {
    let mut stamps = Stamps::Wall(None);
    let first = stamps.at(Instant::from_millis(5));
    assert!(first > 1_600_000_000_000_000_000);
    assert_eq!(stamps.at(Instant::from_millis(7)) - first, Duration::from_millis(2).as_nanos() as u64);
    assert_eq!(Stamps::Clock.at(Instant::from_millis(5)), 5_000_000);
}

proptest! {
    #[test]
    fn written_records_are_read_back(
        all in proptest::collection::vec((0..u64::from(u32::MAX) * 1_000_000_000, proptest::collection::vec(any::<u8>(), 0..300)), 0..20),
        ng: bool, snaplen in 1..400u32,
    ) {
        let format = if ng { Format::Pcapng } else { Format::Pcap };
        let mut writer = Writer::new(Vec::new(), format, snaplen).unwrap();
        writer.add_interface("x").unwrap();
        for (ts_ns, data) in &all {
            let (orig_len, direction) = (data.len() as u32, Direction::Unknown);
            writer.write(&Record { ts_ns: *ts_ns, orig_len, data, direction, ..Record::default() }).unwrap();
        }
        let bytes = writer.into_inner();
        let wanted: Seen = all.iter().map(|(ts, data)| (*ts, data.len() as u32, data[..data.len().min(snaplen as usize)].to_vec())).collect();
        let (seen, error) = read(&bytes);
        prop_assert!(error.is_none());
        prop_assert_eq!(seen, wanted);
        // Truncated input results in the records before the cut, then in an end or an error, never
        // in a panic.
        let cut = bytes.len() / 2;
        prop_assert!(read(&bytes[..cut]).0.len() <= all.len());
    }
}

/// A record of an interface that no block describes cannot be read, so it is not written.
#[test]
fn a_record_needs_a_described_interface() {
    let mut writer = Writer::new(Vec::new(), Format::Pcapng, MAX_SNAPLEN).unwrap();
    let refused = writer.write(&Record::default()).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::InvalidInput);
    assert_eq!(writer.add_interface("tap0").unwrap(), 0);
    writer.write(&Record::default()).unwrap();
    writer.write(&Record { interface: 1, ..Record::default() }).unwrap_err();
    let mut pcap = Writer::new(Vec::new(), Format::Pcap, MAX_SNAPLEN).unwrap();
    pcap.write(&Record { interface: 7, ..Record::default() }).unwrap(); // one interface, without a number
}
