//! `tcpdump`: prints frames one per line, or writes them as pcapng or pcap. The frames are those
//! that pass the ports of a running host or bridge, those that it drops, or those of a file.
//!
//! A host copies only the frames that match the expression (`node::capture`). This process reads
//! them from the host's control socket a few times a second, until Ctrl-C or after -c frames.
//! Frames that do not fit the host's capture buffer are counted; their number is printed at the
//! end.

mod files;
mod print;

use crate::args::TcpdumpArgs;
use crate::exit::{Exit, Fault, notice};
use crate::running::Running;
use anyhow::Context;
use files::{Files, Origin};
use node::capture::{Batch, Fate};
use port::pcap::{Direction, Reader, Record, Section};
use print::{Capture, Lines};
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::Path;
use wire::filter::Filter;

/// Runs `tcpdump`.
///
/// # Errors
/// Wrong flags or expression, no host, or a file that cannot be read or written.
pub fn run(args: &TcpdumpArgs) -> anyhow::Result<Exit> {
    let expression = args.expression.join(" ");
    let filter = Filter::compile(&expression).map_err(Fault::usage)?;
    files::check(args)?;
    if args.list {
        return list(&Running::of(args.url.as_deref())?);
    }
    if let Some(path) = &args.read {
        return read(path, &filter, args);
    }
    let host = Running::of(args.url.as_deref())?;
    dispatch::install_stop_handler().context("cannot catch Ctrl-C")?;
    let mut sink = Sink::of(args, None)?; // before the host starts to capture
    let place = if args.dropped { "dropped" } else { &args.iface };
    let capture = host.open(place, args.snaplen, &expression)?;
    notice(&format!("listening on {place}, snapshot length {} bytes", args.snaplen));
    let (missed, ended) = capture.follow(None, |batch| sink.take(&batch));
    notice(&format!("{} frames captured, {missed} missed (buffer full)", sink.taken));
    ended.map(|()| Exit::Fine)
}

/// Captures frames that match `expression` at the iface `iface` of the host at `url`, and writes
/// them as pcapng to `out`. Ends when the reader closes `out` or a signal arrives.
///
/// # Errors
/// Those of the host, or of `out`.
pub fn record(url: &str, iface: &str, out: Box<dyn Write>, snaplen: u32, expression: &str) -> anyhow::Result<Exit> {
    let host = Running::of(Some(url))?;
    let mut files = Files::to(out, snaplen)?;
    files.flush()?;
    let mut sink = Sink::new(Out::Files(Box::new(files)), None);
    let (missed, ended) = host.open(iface, snaplen, expression)?.follow(None, |batch| sink.take(&batch));
    if missed > 0 {
        notice(&format!("{missed} frames missed (buffer full)"));
    }
    ended.map(|()| Exit::Fine)
}

/// Prints a numbered list of the ports of the host or bridge (`-D`).
fn list(host: &Running) -> anyhow::Result<Exit> {
    let ports: Vec<serde_json::Value> =
        serde_json::from_str(&host.ask(&["show", "ports"], true)?).context("show ports: not JSON")?;
    let mut names: Vec<String> = Vec::new();
    for port in &ports {
        let word = |key| port.get(key).and_then(serde_json::Value::as_str).unwrap_or_default().to_string();
        let line = format!("{} [{}]", word("ifname"), word("port"));
        names.extend((!names.contains(&line)).then_some(line));
    }
    names.push("any (all of them)".to_string());
    let lines = names.iter().enumerate().map(|(at, name)| format!("{}.{name}\n", at + 1));
    crate::exit::print(&lines.collect::<String>()).map(|()| Exit::Fine)
}

/// Prints or writes the packets of a file that match the filter (`-r`).
fn read(path: &Path, filter: &Filter, args: &TcpdumpArgs) -> anyhow::Result<Exit> {
    let of_it = || path.display().to_string();
    let input: Box<dyn Read> = match path.as_os_str() == "-" {
        true => Box::new(io::stdin()),
        false => Box::new(File::open(path).with_context(of_it)?),
    };
    dispatch::install_stop_handler().context("cannot catch Ctrl-C")?;
    let mut reader = Reader::new(BufReader::with_capacity(256 * 1024, UntilStopped(input)));
    let linktype = reader.linktype().with_context(of_it)?;
    let kind = linktype.map_or("none".into(), |number| match wire::link::LinkType::of(number) {
        Some(known) => format!("{} ({number})", known.name()),
        None => format!("{number}"),
    });
    notice(&format!("reading from file {}, link-type {kind}", path.display()));
    let mut sink = Sink::of(args, Some(reader.section()))?;
    let ended = loop {
        let record = match reader.read() {
            Ok(Some(record)) => record,
            Ok(None) => break Ok(()),
            Err(_) if dispatch::stop_requested() => break Ok(()), // in the middle of a packet
            Err(why) => break Err(anyhow::Error::from(why).context(of_it())),
        };
        let ethernet = print::as_ethernet(record.linktype, record.data);
        let cut = record.orig_len as usize - record.data.len().min(record.orig_len as usize);
        if !ethernet.as_ref().is_some_and(|frame| filter.matches_captured(frame, frame.len() + cut)) {
            continue;
        }
        let owned = record.data.to_vec();
        let options = record.options.to_vec();
        let record = Record { data: &owned, options: &options, ..record };
        if !sink.take_record(&record, reader.section())? {
            break Ok(());
        }
    };
    sink.flush()?;
    ended.map(|()| Exit::Fine)
}

/// Input whose reads return end of file on Ctrl-C, even while they wait for data.
struct UntilStopped(Box<dyn Read>);

impl Read for UntilStopped {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        loop {
            if dispatch::stop_requested() {
                return Ok(0);
            }
            match self.0.read(bytes) {
                Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
                read => return read,
            }
        }
    }
}

/// Destination of captured frames: lines on standard output, or files.
struct Sink {
    out: Out,
    /// Calendar time at the zero of the host's clock, in nanoseconds since 1970; `None` until the
    /// first frames arrive.
    epoch_ns: Option<u64>,
    /// Number of frames printed or written.
    taken: u64,
    /// Number of frames that may still be printed or written (-c).
    left: u64,
}

enum Out {
    Lines(Lines),
    Files(Box<Files>),
}

impl Sink {
    fn new(out: Out, count: Option<u64>) -> Sink {
        Sink { out, epoch_ns: None, taken: 0, left: count.unwrap_or(u64::MAX) }
    }

    fn of(args: &TcpdumpArgs, section: Option<&Section>) -> anyhow::Result<Sink> {
        let out = match Files::of(args, section)? {
            Some(files) => Out::Files(Box::new(files)),
            None => Out::Lines(Lines::of(args)),
        };
        Ok(Sink::new(out, args.count))
    }

    fn flush(&mut self) -> anyhow::Result<()> {
        match &mut self.out {
            Out::Lines(_) => Ok(()),
            Out::Files(files) => files.flush(),
        }
    }

    /// Counts a frame. If the last file has no space for it, the capture ends.
    fn count(&mut self, has_room: bool) {
        self.taken += u64::from(has_room);
        self.left = if has_room { self.left.saturating_sub(1) } else { 0 };
    }

    /// Prints or writes frames of a running host; returns whether more frames are accepted.
    fn take(&mut self, batch: &Batch) -> anyhow::Result<bool> {
        let epoch = *self.epoch_ns.get_or_insert(port::os::calendar_ns().saturating_sub(batch.now_ns));
        let mut text = String::new();
        for frame in &batch.frames {
            if self.left == 0 {
                break;
            }
            let ts_ns = frame.at_ns.saturating_add(epoch);
            let has_room = match &mut self.out {
                Out::Lines(lines) => {
                    let (iface, fate, len) = (frame.iface.as_str(), Some(frame.fate), frame.len as usize);
                    text += &lines.line(&Capture { ts_ns, iface, fate, data: &frame.data, len });
                    true
                }
                Out::Files(files) => {
                    let options = options(frame.fate);
                    let direction = match frame.fate {
                        Fate::Passed(direction) => direction,
                        Fate::Dropped(_) => Direction::Unknown,
                    };
                    let (orig_len, data) = (frame.len, &frame.data);
                    let record = Record { ts_ns, orig_len, data, direction, options: &options, ..Record::default() };
                    files.write(&record, Origin::Port(&frame.iface))?
                }
            };
            self.count(has_room);
        }
        if !text.is_empty() {
            crate::exit::print(&text)?;
        }
        self.flush()?;
        Ok(self.left > 0)
    }

    /// Prints or writes a packet of a file; returns whether more packets are accepted.
    fn take_record(&mut self, record: &Record<'_>, section: &Section) -> anyhow::Result<bool> {
        let has_room = match &mut self.out {
            Out::Files(files) => files.write(record, Origin::Capture(section))?,
            Out::Lines(lines) => {
                if let Some(frame) = print::as_ethernet(record.linktype, record.data) {
                    let cut = (record.orig_len as usize).saturating_sub(record.data.len());
                    let len = frame.len() + cut;
                    let seen = Capture { ts_ns: record.ts_ns, iface: "", fate: None, data: &frame, len };
                    crate::exit::print(&lines.line(&seen))?;
                }
                true
            }
        };
        self.count(has_room);
        Ok(self.left > 0)
    }
}

/// Returns the encoded options of a pcapng packet block: for a dropped frame, a comment with the
/// drop reason; for any other frame, none.
fn options(fate: Fate) -> Vec<u8> {
    let Fate::Dropped(why) = fate else { return Vec::new() };
    let text = format!("dropped: {}: {}", why.name(), why.sentence());
    let mut out = vec![1, 0]; // opt_comment
    out.extend((text.len() as u16).to_le_bytes());
    out.extend(text.as_bytes());
    out.resize(out.len().next_multiple_of(4), 0);
    out
}
