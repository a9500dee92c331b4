//! `linerate bench text`: frames as lines of text, measured as whole commands compared with
//! equivalent tools, and the codec alone.

use crate::native::shell::{Corpus, Mounted, Shell, is_installed};
use crate::result::{Report, Row};
use crate::run;
use crate::side::Side;
use crate::study::{Entry, Options, Progress, Study, Unit};
use crate::subject::{Reading, Subject, measure};
use crate::timer;
use std::rc::Rc;
use wire::text::{self, Kind, MAX_FRAME, Next, SLACK};

/// Pattern of the report ethpipe2013: five of the ten destination addresses of its frames.
pub(crate) const FIVE: &str = r"001111111111\|002222222222\|003333333333\|004444444444\|FFFFFFFFFFFF";
const FIVE_EXTENDED: &str = "001111111111|002222222222|003333333333|004444444444|FFFFFFFFFFFF";
/// Number of lines that `dd` reads in a trial.
const DD_LINES: u64 = 12_000_000;
/// Size of a text file, in bytes.
const BYTES: u64 = 500_000_000;

/// A row that runs commands: our script, the number of operations, and the peers with their
/// scripts.
struct Contest {
    id: &'static str,
    title: &'static str,
    unit: Unit,
    script: String,
    ops: u64,
    peers: Vec<(&'static str, &'static str, String)>,
}

/// Throughput of text: 10^9 bytes per second, from ticks per byte.
pub(crate) const GIGABYTES: Unit = Unit { name: "GB/s", of: |ticks| timer::rate().hz as f64 / ticks / 1e9 };
/// Throughput of frames: 10^6 frames per second, from ticks per frame.
pub(crate) const MEGAFRAMES: Unit = Unit { name: "Mframe/s", of: |ticks| timer::rate().hz as f64 / ticks / 1e6 };

/// Subject that converts frames to lines of text or back, on data that stays in the cache.
pub(crate) struct Codec {
    id: String,
    kind: Kind,
    decode: bool,
    frames: Vec<u8>,
    lines: Vec<u8>,
    /// Buffer for a decoded frame, allocated once, since zeroing a new one costs more than decoding
    /// a burst.
    frame: Vec<u8>,
}

/// Number of frames in a burst. Their 10,816 bytes of text fit into the first-level cache; with 100
/// kB of text, in the second-level cache, the speed is about half.
const CODEC_FRAMES: usize = 64;
const FRAME: usize = 60;

impl Codec {
    pub(crate) fn new(id: &str, kind: Kind, decode: bool) -> Codec {
        let frames: Vec<u8> = (0..FRAME * CODEC_FRAMES).map(|at| (at * 7 + at / 97) as u8).collect();
        let id = id.to_owned();
        let lines = vec![0; text::len(FRAME) * CODEC_FRAMES + SLACK];
        let mut codec = Codec { id, kind, decode, frames, lines, frame: vec![0; MAX_FRAME + SLACK] };
        codec.encode();
        codec
    }

    fn encode(&mut self) {
        let (kind, mut at) = (self.kind, 0);
        for frame in self.frames.chunks_exact(FRAME) {
            at += text::encode_with(kind, frame, None, &mut self.lines[at..]).unwrap_or(0);
        }
    }

    fn decode(&mut self) -> usize {
        let (mut rest, mut count) = (&self.lines[..text::len(FRAME) * CODEC_FRAMES], 0);
        while let Next::Frame { used, .. } = text::next_with(self.kind, rest, &mut self.frame) {
            (rest, count) = (&rest[used..], count + 1);
        }
        count
    }
}

impl Subject for Codec {
    fn id(&self) -> &str {
        &self.id
    }

    fn trial(&mut self) -> anyhow::Result<Reading> {
        const ROUNDS: u64 = 2000;
        let bytes = ROUNDS * (text::len(FRAME) * CODEC_FRAMES) as u64;
        let mut decoded = CODEC_FRAMES;
        let reading = measure(bytes, || {
            for _ in 0..ROUNDS {
                if self.decode {
                    decoded = decoded.min(self.decode());
                } else {
                    self.encode();
                }
            }
        });
        anyhow::ensure!(decoded == CODEC_FRAMES, "only {} of {CODEC_FRAMES} lines were decoded", decoded);
        Ok(reading)
    }
}

/// Runs `linerate bench text`.
///
/// # Errors
/// The files of frames cannot be written.
pub fn text(options: &Options, progress: &mut dyn FnMut(Progress)) -> anyhow::Result<Report> {
    let mut study = Study::new("bench text", options.run(20), 16, progress);
    study.note("GB/s of text, 10^9 bytes; frames of 64 bytes with FCS are lines of 169; 10GE at 64 bytes is 14.88 Mframe/s = 2.515 GB/s of text");
    study.note("commands: wall clock from start to end, run by sh in /dev/shm; grep rows print counts (-c), grep.pipes prints lines");
    study.part("the codec");
    codec(&mut study);
    study.part("writing files of frames");
    let corpus = Rc::new(Corpus::new(if options.quick { BYTES / 5 } else { BYTES })?);
    let keep = options.rounds.map_or(if options.quick { 3 } else { 11 }, |rounds| rounds.clamp(1, 100));
    let wait = run::Options { keep, max_seconds: None, cpu: None, ..study.options().one_trial().waiting() };
    for contest in contests(&corpus, DD_LINES)? {
        study.part(contest.id);
        hold(&mut study, contest, &corpus, &wait);
    }
    study.part("fuse.read");
    match Mounted::new(&corpus, "pktgen(rotate=on,size=18):pg0") {
        Ok(mounted) => hold(&mut study, fuse(&mounted), &corpus, &wait),
        Err(why) => study.rows([Row::missing("fuse.read", FUSE, &format!("{why:#}"))]),
    }
    Ok(study.finish())
}

/// Measures encoding and decoding with the widest instructions of this machine. The narrower
/// instruction sets are measured as peers and show the speed of machines that lack the widest one.
fn codec(study: &mut Study<'_>) {
    let ways = [
        ("encode.64", false, "frames to lines, in the first-level cache"),
        ("decode.64", true, "lines to frames, in the first-level cache"),
    ];
    for (id, decode, title) in ways {
        let narrower = Kind::available()
            .filter(|kind| *kind != Kind::best())
            .map(|kind| Side::new(format!("{}.{id}", kind.name()), move || Ok(Codec::new(kind.name(), kind, decode))));
        let ours =
            Entry::new(Side::new(id, move || Ok(Codec::new(id, Kind::best(), decode))), title).with_sides(narrower);
        study.compare_entries(vec![ours.unit(GIGABYTES)]);
    }
}

const FUSE: &str = "dd from the mounted port, 1 MiB a read, frames made one by one";

fn fuse(mounted: &Mounted) -> Contest {
    const READS: u64 = 80;
    let dd = |file: &str| format!("dd if={file} of=/dev/null bs=1M count={READS} iflag=fullblock");
    Contest {
        id: "fuse.read",
        title: FUSE,
        unit: GIGABYTES,
        script: dd(&mounted.file.display().to_string()),
        ops: READS << 20,
        peers: vec![("tmpfs", "dd", dd("f64.txt"))],
    }
}

/// Measures one row and its peers. Each trial starts new processes, so a round has nothing to
/// build.
fn hold(study: &mut Study<'_>, contest: Contest, corpus: &Rc<Corpus>, options: &run::Options) {
    let hertz = study.report.env.tsc_hz;
    let Contest { id, title, unit, script, ops, peers: beside } = contest;
    let side = |id: String, script: String| {
        let (corpus, name) = (Rc::clone(corpus), id.clone());
        Side::new(id, move || Shell::new(&name, &script, ops, &corpus, hertz))
    };
    let mut entry = Entry::new(side(id.to_owned(), script), title).unit(unit);
    for (peer, tool, script) in beside {
        if is_installed(tool) {
            entry = entry.with_sides([side(format!("{peer}.{id}"), script)]);
        } else {
            study.note(format!("{id}: without {peer}: {tool} is not installed"));
        }
    }
    study.measure_entries(vec![entry], options.clone());
}

/// Returns the rows that run commands; `dd` reads `dd_lines` lines.
fn contests(corpus: &Corpus, dd_lines: u64) -> anyhow::Result<Vec<Contest>> {
    let (f64, ip64) = (corpus.len("f64.txt")?, corpus.len("ip64.txt")?);
    let dd = |port: &str| format!("$LINERATE cat -c {dd_lines} '{port}' | dd of=/dev/null bs=256k");
    let count = |flags: &str, pattern: &str| format!("$LINERATE grep -c {flags} {pattern} f64.txt");
    let rg = |flags: &str, pattern: &str| format!("rg -c {flags} {pattern} f64.txt");
    let gnu = |flags: &str, pattern: &str| format!("LC_ALL=C grep -c {flags} {pattern} f64.txt");
    let contest = |id, title, script: String, ops, peers| Contest { id, title, unit: GIGABYTES, script, ops, peers };
    let lines = |len: u64| len / 169;
    Ok(vec![
        contest(
            "dd.static",
            "cat of a generator into dd, 256 KiB a read: lines made once (what ethpipe2013 measured)",
            dd("pktgen(static=on,rotate=on,size=18):"),
            dd_lines * 169,
            vec![],
        ),
        contest(
            "dd.generated",
            "cat of a generator into dd, 256 KiB a read: frames made and written one by one",
            dd("pktgen(rotate=on,size=18):"),
            dd_lines * 169,
            vec![],
        ),
        contest(
            "grep.five",
            "grep of ethpipe2013's five addresses in a file in memory",
            count("", &format!("'{FIVE}'")),
            f64,
            vec![
                ("ripgrep", "rg", rg("", &format!("'{FIVE_EXTENDED}'"))),
                ("gnu_grep", "grep", gnu("", &format!("'{FIVE}'"))),
            ],
        ),
        contest(
            "grep.five.two_cores",
            "grep of ethpipe2013's five addresses in a file in memory, two threads",
            count("-j 2", &format!("'{FIVE}'")),
            f64,
            vec![],
        ),
        contest(
            "grep.wildcard",
            "grep of 0022CF.*8899",
            count("", "'0022CF.*8899'"),
            f64,
            vec![("ripgrep", "rg", rg("", "'0022CF.*8899'")), ("gnu_grep", "grep", gnu("", "'0022CF.*8899'"))],
        ),
        contest(
            "grep.5000",
            "grep -F of 5000 addresses, two of which occur",
            count("-F --file addresses.txt", ""),
            f64,
            vec![
                ("ripgrep", "rg", rg("-F -f addresses.txt", "")),
                ("gnu_grep", "grep", gnu("-F -f addresses.txt", "")),
            ],
        ),
        contest(
            "grep.pipes",
            "grep of the five addresses from a pipe into a pipe",
            format!("cat f64.txt | $LINERATE grep '{FIVE}' | cat > /dev/null"),
            f64,
            vec![
                ("ripgrep", "rg", format!("cat f64.txt | rg '{FIVE_EXTENDED}' | cat > /dev/null")),
                ("gnu_grep", "grep", format!("cat f64.txt | LC_ALL=C grep '{FIVE}' | cat > /dev/null")),
            ],
        ),
        contest(
            "rewrite",
            "a field set and the checksum updated: ip.ttl-=1 (sed: an address replaced, no checksum)",
            "$LINERATE rewrite ip.ttl-=1 < ip64.txt > /dev/null".to_owned(),
            ip64,
            vec![("sed", "sed", "LC_ALL=C sed -e 's/^001111111111/001111111112/' ip64.txt > /dev/null".to_owned())],
        ),
        Contest {
            unit: MEGAFRAMES,
            ..contest(
                "fused",
                "grep + rewrite + put in one process, half of the frames selected",
                format!("$LINERATE grep '{FIVE}' ip64.txt + rewrite ip.ttl-=1 + put null:"),
                lines(ip64),
                vec![],
            )
        },
        Contest {
            unit: MEGAFRAMES,
            ..contest(
                "conv.pcap",
                "a capture to lines (tcpdump: its own output)",
                "$LINERATE conv -o f1 ip64.pcap > /dev/null".to_owned(),
                (corpus.len("ip64.pcap")? - 24) / 76,
                vec![("tcpdump", "tcpdump", "tcpdump -nr ip64.pcap > /dev/null".to_owned())],
            )
        },
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_codec_decodes_its_own_lines() {
        for kind in Kind::available() {
            for decode in [false, true] {
                let mut codec = Codec::new("codec", kind, decode);
                codec.lines.fill(0);
                if decode {
                    assert!(codec.trial().is_err(), "{kind:?}: there is nothing to decode");
                    codec.encode();
                }
                let reading = codec.trial().unwrap();
                assert!(reading.ops == 2000 * 64 * 169 && reading.ticks > 0, "{kind:?}: {reading:?}");
                assert_eq!(codec.decode(), CODEC_FRAMES, "{kind:?}: it encodes");
            }
        }
    }

    /// Runs `script` with `wc -l` in place of the discarded output; returns its first word: lines,
    /// matches, or the bytes that dd copied.
    fn says(script: &str, corpus: &Rc<Corpus>) -> String {
        let counted = script.replace("| cat > /dev/null", "| wc -l").replace("> /dev/null", "| wc -l");
        let counted = counted.replace(" + put null:", " | wc -l");
        let output = Shell::new("counted", &counted, 1, corpus, 1).unwrap().output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        let copied = text.lines().find(|line| line.contains(" copied,"));
        copied.or(text.lines().next()).and_then(|line| line.split_whitespace().next()).unwrap_or_default().to_owned()
    }

    #[test]
    fn commands_and_peers_produce_the_expected_lines() {
        const LINES: u64 = 1000;
        if let Err(why) = crate::native::shell::program() {
            return println!("skipped: rows of bench text: {why}");
        }
        let corpus = Rc::new(Corpus::new(LINES * 169).unwrap());
        let frames = (corpus.len("ip64.pcap").unwrap() - 24) / 76;
        let expected = [
            ("dd.static", 500 * 169),
            ("dd.generated", 500 * 169),
            ("grep.five", LINES / 2),
            ("grep.five.two_cores", LINES / 2),
            ("grep.wildcard", LINES),
            ("grep.5000", LINES / 5),
            ("grep.pipes", LINES / 2),
            ("rewrite", LINES),
            ("fused", LINES / 2),
            ("conv.pcap", frames),
        ];
        let contests = contests(&corpus, 500).unwrap();
        assert!(contests.iter().map(|contest| contest.id).eq(expected.map(|(id, _)| id)));
        for (contest, (id, expected)) in contests.iter().zip(expected) {
            assert_eq!(says(&contest.script, &corpus), expected.to_string(), "{id}: {}", contest.script);
            for (peer, tool, script) in contest.peers.iter().filter(|(_, tool, _)| is_installed(tool)) {
                assert_eq!(says(script, &corpus), expected.to_string(), "{peer}.{id} ({tool}): {script}");
            }
        }
    }

    #[test]
    fn the_fuse_row_reads_its_bytes_from_the_mounted_port() {
        let corpus = Rc::new(Corpus::new(1_000_000).unwrap());
        let mounted = match Mounted::new(&corpus, "pktgen(rotate=on,size=18):pg0") {
            Ok(mounted) => mounted,
            Err(why) => return println!("skipped: fuse.read: {why:#}"),
        };
        let contest = fuse(&mounted);
        assert_eq!(says(&contest.script, &corpus), contest.ops.to_string());
    }

    #[test]
    fn the_corpus_has_the_reports_frames_and_is_removed() {
        let corpus = Corpus::new(1_000_000).unwrap();
        assert_eq!(corpus.len("f64.txt").unwrap(), 1_000_000 / 1690 * 1690);
        assert_eq!(corpus.len("f1518.txt").unwrap(), 1_000_000 / 45_310 * 45_310);
        assert_eq!(corpus.len("addresses.txt").unwrap(), 5000 * 13);
        assert_eq!((corpus.len("ip64.pcap").unwrap() - 24) % 76, 0);
        let dir = corpus.dir().to_owned();
        assert!(dir.is_dir());
        // A directory left by a killed process is not locked; one in use is.
        let stale = dir.with_file_name(format!("linerate-lab-{}-stale", std::process::id()));
        std::fs::create_dir(&stale).unwrap();
        std::fs::write(stale.join("lock"), "").unwrap();
        drop(Corpus::new(100_000).unwrap());
        assert!(!stale.exists() && dir.is_dir());
        drop(corpus);
        assert!(!dir.exists());
    }
}
