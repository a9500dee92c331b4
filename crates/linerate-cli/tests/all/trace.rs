//! The static tracepoints of the built program: its ELF notes, and the events that bpftrace reads.

use object::{Object, ObjectSection};
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

const PROGRAM: &str = env!("CARGO_BIN_EXE_linerate");

/// The tracepoints and the sizes of their arguments, as in docs/tracing.md. A negative size means
/// signed.
const POINTS: &[(&str, &str)] = &[
    ("buffer_made", "8"),
    ("burst_delivered", "8 8"),
    ("frame_dropped", "8 8 8"),
    ("recvfrom_done", "8 -8"),
    ("recvfrom_start", "8 8"),
    ("sendto_done", "8 -8"),
    ("sendto_start", "8 8"),
];

/// One note of `.note.stapsdt`.
struct Note {
    place: u64,
    semaphore: u64,
    provider: String,
    name: String,
    arguments: String,
}

fn word(bytes: &[u8], at: usize) -> usize {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize
}

/// Parses the section. Each note has three lengths, the owner's name, and a description of three
/// addresses and three strings.
fn notes(mut bytes: &[u8]) -> Vec<Note> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let (owner, len, kind) = (word(bytes, 0), word(bytes, 4), word(bytes, 8));
        assert_eq!((&bytes[12..12 + owner], kind), (&b"stapsdt\0"[..], 3));
        let from = 12 + owner.next_multiple_of(4);
        let description = &bytes[from..from + len];
        let mut words =
            description[24..].split(|byte| *byte == 0).map(|word| String::from_utf8(word.to_vec()).unwrap());
        let mut next = || words.next().unwrap();
        let address = |at: usize| u64::from_le_bytes(description[at..at + 8].try_into().unwrap());
        let (place, semaphore) = (address(0), address(16));
        all.push(Note { place, semaphore, provider: next(), name: next(), arguments: next() });
        bytes = &bytes[from + len.next_multiple_of(4)..];
    }
    all
}

#[test]
fn the_program_has_exactly_these_points_each_at_a_nop_with_its_arguments_in_registers() {
    let file = std::fs::read(PROGRAM).unwrap();
    let elf = object::File::parse(&*file).unwrap();
    let section = elf.section_by_name(".note.stapsdt").expect("the program has no .note.stapsdt");
    let text = elf.section_by_name(".text").unwrap();
    let code = text.data().unwrap();
    let probes = elf.section_by_name(".probes").unwrap();
    let mut found: BTreeMap<String, String> = BTreeMap::new();
    let mut places = BTreeSet::new();
    for note in notes(section.data().unwrap()) {
        assert_eq!(note.provider, "linerate", "{}", note.name);
        assert_eq!((note.semaphore, probes.size()), (probes.address(), 8), "{}: one semaphore for all", note.name);
        let Some(at) = note.place.checked_sub(text.address()).filter(|at| *at < code.len() as u64) else {
            continue; // the linker left the function out
        };
        assert_eq!(code[at as usize], 0x90, "{} at {:#x} is no nop", note.name, note.place);
        assert!(places.insert(note.place), "two points at {:#x}", note.place);
        let argument = |argument: &str| {
            let (size, place) = argument.split_once('@').unwrap_or_else(|| panic!("{}: {argument}", note.name));
            assert!(place.starts_with('%'), "{}: {argument} is in no register", note.name);
            size.to_owned()
        };
        let sizes: Vec<String> = note.arguments.split(' ').map(argument).collect();
        let before = found.insert(note.name.clone(), sizes.join(" "));
        assert!(before.is_none_or(|before| before == sizes.join(" ")), "{}: {}", note.name, note.arguments);
    }
    let expected = POINTS.iter().map(|(name, sizes)| (name.to_string(), sizes.to_string())).collect();
    assert_eq!(found, expected);
}

/// Runs bpftrace with `script` on `command`. Returns `None` and prints a message if bpftrace is not
/// installed or the test does not run as root.
fn bpftrace(script: &str, command: &str) -> Option<String> {
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
    let has_it = Command::new("bpftrace").arg("--version").output().is_ok();
    if !is_root || !has_it {
        println!("skipped: this test needs bpftrace, and root");
        return None;
    }
    let run = Command::new("bpftrace").args(["-e", script, "-c", command]).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success(), "{out}\n{err}");
    Some(out.into_owned())
}

#[test]
fn bpftrace_counts_the_datagrams_that_the_program_sends() {
    let point = |name: &str| format!("usdt:{PROGRAM}:linerate:{name}");
    let script = format!(
        "{} {{ @started = count(); }} {} {{ @sent[arg1] = count(); }} {} {{ @buffers = count(); }}",
        point("sendto_start"),
        point("sendto_done"),
        point("buffer_made")
    );
    let Some(out) = bpftrace(&script, &format!("{PROGRAM} testtool -c 1000 send")) else { return };
    assert!(out.contains("@started: 1000\n"), "{out}");
    assert!(out.contains("@sent[22]: 1000\n"), "{out}");
    let buffers = out.lines().find_map(|line| line.strip_prefix("@buffers: ")).unwrap_or_else(|| panic!("{out}"));
    // The gratuitous ARP packet of the host also has a buffer.
    assert!(buffers.parse::<u64>().unwrap() >= 1000, "{out}");
}

#[test]
fn bpftrace_adds_up_the_frames_of_the_bursts_that_a_port_delivers() {
    let script = format!("usdt:{PROGRAM}:linerate:burst_delivered {{ @frames = sum(arg1); @most = max(arg1); }}");
    let Some(out) = bpftrace(&script, &format!("{PROGRAM} testtool -c 1000 -b 32 recv")) else { return };
    let figure = |name: &str| -> u64 {
        let found = out.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")?.parse().ok());
        found.unwrap_or_else(|| panic!("{name} in\n{out}"))
    };
    assert!(figure("@frames") >= 1000, "{out}");
    assert!((1..=256).contains(&figure("@most")), "{out}");
}

#[test]
fn bpftrace_counts_what_is_received_and_what_is_dropped_and_why() {
    let point = |name: &str| format!("usdt:{PROGRAM}:linerate:{name}");
    let script = format!(
        "{} {{ @begun = count(); }} {} {{ @received[arg1] = count(); }}",
        point("recvfrom_start"),
        point("recvfrom_done")
    );
    let Some(out) = bpftrace(&script, &format!("{PROGRAM} testtool -c 1000 recv")) else { return };
    let received = out.lines().find_map(|line| line.strip_prefix("@received[22]: ")).unwrap_or_else(|| panic!("{out}"));
    assert!(received.parse::<u64>().unwrap() >= 1000 && out.contains("@begun: "), "{out}");
    // The destination port of the frames has no socket, so each is dropped for that reason.
    let script = format!("{} {{ @[str(arg1, arg2)] = count(); }}", point("frame_dropped"));
    let host = format!("{PROGRAM} host --port pktgen(count=100):pg0 --addr 1.0.0.1/8");
    let Some(out) = bpftrace(&script, &host) else { return };
    assert!(out.contains("@[inet.udp.in.no_socket]: 100\n"), "{out}");
}
