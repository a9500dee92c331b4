//! `linerate repro ethpipe2013`: dd(1) reads, writes and forwards the frames of a port as text, and
//! commands process such lines.
//!
//! The report measured reading and forwarding at one block size, with 64-byte frames and one buffer
//! of lines that never changed. It computed the rate of grep from a nominal time. Here a row states
//! whether lines were generated once or one by one, and all times are measured. Measurements that
//! the report planned but did not make are added: writing; block sizes from 64 B to 4 MiB, and the
//! delay that they add to a frame ([`sweep`]); files of FUSE ([`mounted`]); frames of 1518 bytes;
//! and the table of commands with wildcards and several threads ([`commands`]). `--svg` draws
//! throughput by block size, as the report planned ([`crate::plot::sweep`]).

mod commands;
mod mounted;
mod sweep;

use crate::bench::{FIVE, GIGABYTES};
use crate::native::delay;
use crate::native::shell::{Corpus, SIZES, Shell};
use crate::result::{Report, Row};
use crate::run;
use crate::sample::Sample;
use crate::side::Side;
use crate::study::{Options, Progress, Study, row_of};
use std::cell::RefCell;
use std::rc::Rc;

/// Size of each file of frames, in bytes.
const BYTES: u64 = 300_000_000;
/// Block sizes of dd, with their names.
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
/// Figures of the report for reading, forwarding and grep, in GB/s. The last figure is 421 MB/s
/// there, in units of 2^20 bytes.
const THEN: [f64; 3] = [14.0, 7.1, 0.4415];

/// Explanation of why the report's figure of forwarding differs from ours.
const FORWARD: &str = "then one process: dd made two copies, from and to one buffer of lines in a driver that decoded none. Now three \
                       processes and two pipes on the available cores: forward.copied has dd's two copies and the copy from \
                       the second pipe, forward also decodes every line to a frame and sends it. put is the slowest of the three: \
                       sampled (perf, cpu-clock, 2026-11-25), half of its time is the kernel's copy out of the pipe and its pages, \
                       37 % decodes, 10 % hands frames to the port; it reads 256 KiB at a time";

struct Lab {
    corpus: Rc<Corpus>,
    hertz: u64,
    options: run::Options,
    /// Samples of all trials so far.
    samples: RefCell<Vec<Sample>>,
}

impl Lab {
    /// Measures `scripts` in interleaved trials and adds a row for each. Each trial starts new
    /// processes, so a round has nothing to build.
    fn rows(&self, scripts: &[(String, String, u64)], titles: &[String], rows: &mut Vec<Row>) {
        let side = |(id, script, ops): &(String, String, u64)| {
            let (name, script, ops) = (id.clone(), script.clone(), *ops);
            let (corpus, hertz) = (Rc::clone(&self.corpus), self.hertz);
            Side::new(id.clone(), move || Shell::new(&name, &script, ops, &corpus, hertz))
        };
        let sides: Vec<Side> = scripts.iter().map(side).collect();
        match run::interleave(&sides, &self.options) {
            Ok(samples) => {
                rows.extend(samples.iter().zip(titles).map(|(sample, title)| row_of(sample, title, GIGABYTES)));
                self.samples.borrow_mut().extend(samples);
            }
            Err(why) => {
                let missing =
                    |((id, ..), title): (&(String, String, u64), &String)| Row::missing(id, title, &format!("{why:#}"));
                rows.extend(scripts.iter().zip(titles).map(missing));
            }
        }
    }
}

/// Returns the specification of a generator of frames of `size` bytes with FCS.
fn generator(size: usize, made_once: bool) -> String {
    let once = if made_once { "static=on," } else { "" };
    format!("pktgen({once}rotate=on,size={}):", size - 46)
}

/// Measures the rows of the report's tables and compares them with the report's figures.
///
/// # Errors
/// The files of frames cannot be written, for example because memory is full.
pub fn ethpipe2013(options: &Options, progress: &mut dyn FnMut(Progress)) -> anyhow::Result<Report> {
    let mut study = Study::new("repro ethpipe2013", options.run(8), 9, progress);
    study.part("writing files of frames");
    let corpus = Rc::new(Corpus::new(if options.quick { BYTES / 5 } else { BYTES })?);
    let keep = options.rounds.map_or(if options.quick { 2 } else { 8 }, |rounds| rounds.clamp(1, 50));
    let wait = run::Options { keep, max_seconds: None, cpu: None, ..study.options().one_trial().waiting() };
    let hertz = study.report.env.tsc_hz;
    let lab = Lab { corpus: Rc::clone(&corpus), hertz, options: wait, samples: RefCell::default() };
    let mut rows = Vec::new();
    study.part("the report's three results");
    results(&lab, &mut rows)?;
    study.rows(rows.drain(..));
    let mut sheets = Vec::new();
    for (size, file) in SIZES {
        study.part("block sizes, through a pipe");
        sweep::throughput(&lab, size, file, &mut rows)?;
        study.rows(rows.drain(..));
        study.part("block sizes, delay frame by frame");
        sheets.push(sweep::delays(&lab, size, &mut rows));
        study.rows(rows.drain(..));
    }
    for (size, file) in SIZES {
        study.part("block sizes, through FUSE");
        mounted::throughput(&lab, size, file, &mut rows)?;
        study.rows(rows.drain(..));
    }
    for (size, file) in SIZES {
        study.part("the table of commands");
        commands::table(&lab, size, file, &mut rows)?;
        study.rows(rows.drain(..));
    }
    let notes = vec![
        "frame sizes with FCS: 64 bytes are a line of 169, 1518 one of 4531; GB/s of text, 10^9 bytes".to_owned(),
        "10GE at 64 bytes needs 14.88 Mframe/s = 2.515 GB/s of text, 1GE a tenth; at 1518 bytes 0.813 Mframe/s = 3.68 GB/s".to_owned(),
        wires(&study.report.rows),
        "then: ethpipe2013, Intel Core i5 760, a driver that copied one buffer of lines: 14.0 GB/s are 82.9 million lines a second of memcpy, \
         not frames made. Its 421 MB/s of grep are counted lines over a nominal 5 s, twice (half of them matched), in units of 2^20"
            .to_owned(),
        format!(
            "delay.*: from a line's write to the end of its read by another process, frame by frame, at {} Mbit/s on a wire \
             ({:.0} and {:.0} frame/s at 64 and 1518 bytes); dd iflag=fullblock, so that a frame waits for the rest of its block; \
             the sheets have dd without it and the pipe alone",
            delay::WIRE / 1_000_000,
            delay::rate(64),
            delay::rate(1518)
        ),
        forward(&study.report.rows),
        "read: lines made once, as in the report; generated: frames made and written one by one; write: dd into a null port; \
         forward: lines of a port by dd into a port"
            .to_owned(),
    ];
    notes.into_iter().for_each(|note| study.note(note));
    study.report.samples.extend(lab.samples.into_inner());
    study.beside().sheets = sheets;
    Ok(study.finish())
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
        (
            "forward.copied".to_owned(),
            format!("$LINERATE cat -c {lines} '{once}' | dd bs=1M iflag=fullblock | dd of=/dev/null bs=1M"),
            lines * 169,
        ),
        ("grep".to_owned(), format!("LC_ALL=C grep '{FIVE}' < f64.txt > out.txt; rm out.txt"), file),
        ("grep.ours".to_owned(), format!("$LINERATE grep '{FIVE}' < f64.txt > out.txt; rm out.txt"), file),
    ];
    let titles = [
        "dd from the device, lines made once",
        "dd from the device to the device",
        "the same bytes without decoding: dd to dd",
        "GNU grep of five of the ten addresses, into a file in memory",
        "linerate grep of five of the ten addresses, into a file in memory",
    ]
    .map(str::to_owned);
    let from = rows.len();
    lab.rows(&scripts, &titles, rows);
    for (row, then) in rows.iter_mut().skip(from).zip([THEN[0], THEN[1], THEN[1], THEN[2], THEN[2]]) {
        *row = row.clone().then(then, "GB/s");
    }
    Ok(())
}

/// Returns a note that compares the report's rate of forwarding with ours and names our bottleneck.
fn forward(rows: &[Row]) -> String {
    let now = |id: &str| rows.iter().find(|row| row.id == id).and_then(|row| row.now.as_ref());
    let now = now("forward").map_or("not measured".to_owned(), |now| format!("{:.2} GB/s", now.median));
    format!("forward: then {} GB/s, now {now}; {FORWARD}", THEN[1])
}

/// Returns the results for reading, forwarding and both grep rows, converted to frames per second
/// and to bits per second on a wire.
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
