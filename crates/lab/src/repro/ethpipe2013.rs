//! `linerate repro ethpipe2013`: a port read, written and forwarded as text by dd(1), and what commands do with its lines.
//!
//! The report measured reading and forwarding at one block size and 64 bytes, from one buffer of lines that never changed, and grep with a
//! nominal time. Here a row says whether lines were made once or one by one, times are measured, and what the report planned and never
//! measured is there: writing, block sizes from 64 B to 4 MiB, 1518 bytes, the table of commands.

use crate::bench::{FIVE, GIGABYTES};
use crate::env::Environment;
use crate::native::shell::{Corpus, Mounted, SIZES, Shell, is_installed};
use crate::result::{Figure, Report, Row};
use crate::run;
use crate::sample::Sample;
use crate::built::Steps;
use crate::study::{self, Options, Progress};
use crate::subject::Subject;
use std::rc::Rc;

/// Bytes of each file.
const BYTES: u64 = 300_000_000;
/// dd's block sizes.
const BLOCKS: [(u64, &str); 9] = [
    (64, "64"),
    (256, "256"),
    (1 << 10, "1K"),
    (4 << 10, "4K"),
    (16 << 10, "16K"),
    (64 << 10, "64K"),
    (256 << 10, "256K"),
    (1 << 20, "1M"),
    (4 << 20, "4M"),
];
/// What the report had: GB/s, GB/s, and 421 MB/s of 2^20 bytes.
const THEN: [f64; 3] = [14.0, 7.1, 0.4415];

struct Lab {
    corpus: Rc<Corpus>,
    hertz: u64,
    options: run::Options,
}

impl Lab {
    /// Some scripts in turn: a sample of each; a script that fails says why.
    fn measure(&self, scripts: &[(String, String, u64)]) -> anyhow::Result<Vec<Sample>> {
        let subjects: anyhow::Result<Vec<Box<dyn Subject>>> = scripts
            .iter()
            .map(|(id, script, ops)| {
                let shell = Shell::new(id, script, *ops, &self.corpus, self.hertz)?;
                Ok(Box::new(shell) as Box<dyn Subject>)
            })
            .collect();
        crate::built::interleave(&mut subjects?, &self.options, &mut |_| ())
    }

    fn rows(&self, scripts: &[(String, String, u64)], titles: &[String], rows: &mut Vec<Row>) -> anyhow::Result<()> {
        match self.measure(scripts) {
            Ok(samples) => {
                for (sample, title) in samples.iter().zip(titles) {
                    rows.push(Row::new(&sample.id, title, Figure::new(&crate::sample::Summary::of(&sample.values().into_iter().map(GIGABYTES.of).collect::<Vec<_>>())?, GIGABYTES.name)));
                }
            }
            Err(why) => {
                for ((id, ..), title) in scripts.iter().zip(titles) {
                    rows.push(Row::missing(id, title, &format!("{why:#}")));
                }
            }
        }
        Ok(())
    }
}

/// A generator whose frames have `size` bytes with FCS.
fn generator(size: usize, made_once: bool) -> String {
    let once = if made_once { "static=on," } else { "" };
    format!("pktgen({once}rotate=on,size={}):", size - 46)
}

/// The report's tables, then and now.
///
/// # Errors
/// No room for the files.
pub fn ethpipe2013(options: &Options, progress: &mut dyn FnMut(Progress)) -> anyhow::Result<Report> {
    let env = Environment::detect(); // before the trials: their load is ours
    let mut steps = crate::built::Steps::new(9, progress);
    steps.next("A against A: the noise floor");
    let corpus = Rc::new(Corpus::new(if options.quick { BYTES / 5 } else { BYTES })?);
    let keep = options.rounds.map_or(if options.quick { 2 } else { 5 }, |rounds| rounds.clamp(1, 50));
    let wait = run::Options { warmup: 1, keep, max_seconds: None, cpu: None, min_cpu_share: None, replacements: 0, ..run::Options::default() };
    let hertz = env.tsc_hz;
    let lab = Lab { corpus: Rc::clone(&corpus), hertz, options: wait.clone() };
    let bytes = corpus.len("f64.txt")?;
    let floor_options = run::Options { keep: keep.max(6), ..wait };
    let floor =
        crate::built::floor(Box::new(Shell::new("floor", "cat f64.txt > /dev/null", bytes, &corpus, hertz)?), &floor_options)?;
    let mut rows = Vec::new();
    steps.next("the report's three results");
    results(&lab, &mut rows)?;
    for (size, file) in SIZES {
        steps.next("block sizes, through a pipe");
        sweep(&lab, size, file, &mut rows)?;
    }
    steps.next("block sizes, through FUSE");
    through_fuse(&lab, &mut rows)?;
    for (size, file) in SIZES {
        steps.next("the table of commands");
        commands(&lab, size, file, &mut rows)?;
    }
    let notes = vec![
        "frame sizes with FCS: 64 bytes are a line of 169, 1518 one of 4531; GB/s of text, 10^9 bytes".to_owned(),
        "10GE at 64 bytes needs 14.88 Mframe/s = 2.515 GB/s of text, 1GE a tenth; at 1518 bytes 0.813 Mframe/s = 3.68 GB/s".to_owned(),
        wires(&rows),
        "then: ethpipe2013, Intel Core i5 760, a driver that copied one buffer of lines: 14.0 GB/s are 82.9 million lines a second of memcpy, \
         not frames made. Its 421 MB/s of grep are counted lines over a nominal 5 s, twice (half of them matched), in units of 2^20"
            .to_owned(),
        "delay.*: how long a frame waits at most until the block that it is in is full, which is what a block size costs: block / throughput"
            .to_owned(),
        "read: lines made once, as in the report; generated: frames made and written one by one; write: dd into a port that takes all; \
         forward: a port's lines by dd into a port"
            .to_owned(),
    ];
    Ok(Report {
        name: "repro ethpipe2013".to_owned(),
        env,
        noise_floor: floor,
        rows,
        peers: Vec::new(),
        notes,
        beside: None,
        version: crate::result::VERSION,
        samples: Vec::new(),
    })
}

fn results(lab: &Lab, rows: &mut Vec<Row>) -> anyhow::Result<()> {
    let lines = 6_000_000_u64;
    let file = lab.corpus.len("f64.txt")?;
    let once = generator(64, true);
    let scripts = [
        ("read".to_owned(), format!("$LINERATE cat -c {lines} '{once}' | dd of=/dev/null bs=1M"), lines * 169),
        (
            "forward".to_owned(),
            format!("$LINERATE cat -c {lines} '{once}' | dd bs=1M iflag=fullblock | $LINERATE put null:"),
            lines * 169,
        ),
        ("grep".to_owned(), format!("LC_ALL=C grep '{FIVE}' < f64.txt > out.txt; rm out.txt"), file),
        ("grep.ours".to_owned(), format!("$LINERATE grep '{FIVE}' < f64.txt > out.txt; rm out.txt"), file),
    ];
    let titles = [
        "dd from the device, lines made once",
        "dd from the device to the device",
        "GNU grep of five of the ten addresses, into a file in memory",
        "the same by linerate grep",
    ]
    .map(str::to_owned);
    let from = rows.len();
    lab.rows(&scripts, &titles, rows)?;
    for (row, then) in rows.iter_mut().skip(from).zip(THEN.iter().chain([&THEN[2]])) {
        *row = row.clone().then(*then, "GB/s");
    }
    Ok(())
}

/// Bytes that dd moves at a block size: a quarter of a second's worth, about.
fn volume(block: u64) -> u64 {
    (block * 400_000).clamp(8 << 20, 256 << 20)
}

/// All that is measured at a block size is measured by turns; in the table each curve stands by itself.
fn sweep(lab: &Lab, size: usize, file: &str, all: &mut Vec<Row>) -> anyhow::Result<()> {
    let rows = &mut Vec::new();
    let line = wire::text::len(size - 4) as u64;
    for (block, name) in BLOCKS {
        let bytes = volume(block).min(lab.corpus.len(file)?);
        let (lines, blocks) = (bytes / line, bytes.div_ceil(block));
        let (once, made) = (generator(size, true), generator(size, false));
        let moved = lines * line;
        let script = |what: &str, script: String| (format!("{what}.{size}.{name}"), script, moved);
        let scripts = [
            script("read", format!("$LINERATE cat -c {lines} '{once}' | dd of=/dev/null bs={block}")),
            script("generated", format!("$LINERATE cat -c {lines} '{made}' | dd of=/dev/null bs={block}")),
            script("write", format!("dd if={file} bs={block} count={blocks} | $LINERATE put null:")),
            script("forward", format!("$LINERATE cat -c {lines} '{once}' | dd bs={block} | $LINERATE put null:")),
        ];
        let titles = ["read", "read, made one by one", "write", "forward"];
        let titles: Vec<String> =
            titles.iter().map(|title| format!("{title}, {size}-byte frames, dd bs={name}")).collect();
        lab.rows(&scripts, &titles, rows)?;
        let read = rows.iter().rev().find(|row| row.id == format!("forward.{size}.{name}"));
        if let Some(now) = read.and_then(|row| row.now.clone()) {
            let us = |rate: f64| block as f64 / rate / 1e3;
            let delay =
                Figure { median: us(now.median), lo: us(now.hi), hi: us(now.lo), n: now.n, unit: "us".to_owned() };
            let title = format!("a frame's wait for its block, forwarding {size}-byte frames, bs={name}");
            rows.push(Row::new(&format!("delay.{size}.{name}"), &title, delay));
        }
    }
    for curve in ["read.", "generated.", "write.", "forward.", "delay."] {
        all.extend(rows.extract_if(.., |row| row.id.starts_with(curve)));
    }
    Ok(())
}

fn through_fuse(lab: &Lab, rows: &mut Vec<Row>) -> anyhow::Result<()> {
    for (size, _) in SIZES {
        let port = format!("{}pg0", generator(size, false));
        let title = |name: &str| format!("read through FUSE, {size}-byte frames, dd bs={name}");
        let mounted = match Mounted::new(&lab.corpus, &port) {
            Ok(mounted) => mounted,
            Err(why) => {
                rows.push(Row::missing(&format!("fuse.{size}"), &title("*"), &format!("{why:#}")));
                continue;
            }
        };
        let file = mounted.file.display();
        // Below a page each read is a question to another process by itself: a few show it.
        for (block, name) in BLOCKS.into_iter().filter(|(block, _)| *block >= 1 << 10) {
            let bytes = (volume(block) / 4).max(4 << 20);
            let count = bytes / block;
            let script = format!("dd if={file} of=/dev/null bs={block} count={count} iflag=fullblock");
            lab.rows(&[(format!("fuse.{size}.{name}"), script, count * block)], &[title(name)], rows)?;
        }
    }
    Ok(())
}

fn commands(lab: &Lab, size: usize, file: &str, rows: &mut Vec<Row>) -> anyhow::Result<()> {
    let bytes = lab.corpus.len(file)?;
    let table: [(&str, &str, String); 12] = [
        ("linerate.grep", "sh", format!("$LINERATE grep '{FIVE}' < {file}")),
        ("linerate.grep.terms", "sh", format!("$LINERATE grep 'dst=00:11:* type=0x8899' < {file}")),
        ("linerate.conv", "sh", format!("$LINERATE conv < {file}")),
        ("linerate.rewrite", "sh", format!("$LINERATE rewrite dst=02:00:00:00:00:01 < {file}")),
        ("linerate.vlan", "sh", format!("$LINERATE rewrite vlan.push=7 + rewrite vlan.pop < {file}")),
        ("linerate.count", "sh", format!("$LINERATE count -q < {file} 2>&1")),
        ("gnu_grep", "grep", format!("LC_ALL=C grep '{FIVE}' < {file}")),
        ("ripgrep", "rg", format!("rg '{}' < {file}", FIVE.replace('\\', ""))),
        ("sed", "sed", format!("LC_ALL=C sed -e 's/8899/8898/' < {file}")),
        ("awk", "awk", format!("LC_ALL=C awk '$1==\"001111111111\"{{print $0}}' < {file}")),
        ("tr", "tr", format!("tr A-F a-f < {file}")),
        ("wc", "wc", format!("wc -l < {file}")),
    ];
    for (name, tool, script) in table {
        let (id, title) =
            (format!("cmd.{size}.{name}"), format!("{size}-byte frames: {}", script.replace("$LINERATE", "linerate")));
        if is_installed(tool) {
            lab.rows(&[(id, format!("{script} | cat > /dev/null"), bytes)], &[title], rows)?;
        } else {
            rows.push(Row::missing(&id, &title, &format!("{tool} is not installed")));
        }
    }
    Ok(())
}

/// The three results in frames and in bits of a wire.
fn wires(rows: &[Row]) -> String {
    let said = ["read", "forward", "grep", "grep.ours"].map(|id| {
        let rate =
            rows.iter().find(|row| row.id == id).and_then(|row| row.now.as_ref()).map_or(f64::NAN, |now| now.median);
        let frames = rate * 1e9 / 169.0;
        format!(
            "{id} {:.1} Mframe/s, {:.1} Gbit/s on a wire (84 bytes a frame)",
            frames / 1e6,
            frames * 84.0 * 8.0 / 1e9
        )
    });
    said.join("; ")
}
