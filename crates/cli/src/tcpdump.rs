//! `tcpdump`: frames of a running host or bridge as they pass its ports, frames that it drops, or those of
//! a file; printed a line each, or written as pcapng or pcap.
//!
//! A host only copies the frames that the expression matches (`node::capture`). They are read from its
//! control socket a few times a second and end on Ctrl-C or after -c frames. Frames for which the host
//! had no room are counted; the number is printed at the end.

mod files;
mod print;

use crate::args::TcpdumpArgs;
use crate::exit::{Exit, Fault, notice};
use crate::running::{Capture, Running};
use anyhow::Context;
use files::Files;
use node::capture::{Batch, Fate};
use port::pcap::{Direction, Format, Reader, Record, Writer};
use print::{Lines, Seen};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::Path;
use std::time::Duration;
use wire::filter::Filter;

/// Time between two readings of a quiet host.
const PAUSE: Duration = Duration::from_millis(20);

/// `tcpdump`.
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
    let mut sink = Sink::of(args)?; // before the host keeps anything
    let place = if args.dropped { "dropped" } else { &args.iface };
    let capture = host.open(place, args.snaplen, &expression)?;
    notice(&format!("listening on {place}, snapshot length {} bytes", args.snaplen));
    let (mut taken, mut missed) = (0, 0);
    let ended = follow(&capture, args.count, &mut sink, &mut taken, &mut missed);
    let closed = capture.close();
    notice(&format!("{taken} frames captured, {missed} missed for want of room"));
    ended.and(closed.map(|()| Exit::Fine))
}

/// Writes frames of an iface of the host at `url` that match `expression`, as pcapng to `out`, until
/// nobody reads it or a signal comes.
///
/// # Errors
/// Those of the host, or of `out`.
pub fn record(url: &str, iface: &str, out: Box<dyn Write>, snaplen: u32, expression: &str) -> anyhow::Result<Exit> {
    let host = Running::of(Some(url))?;
    let mut sink = Sink::to(Writer::new(out, Format::Pcapng, snaplen)?);
    sink.flush()?;
    let capture = host.open(iface, snaplen, expression)?;
    let (mut taken, mut missed) = (0, 0);
    let ended = follow(&capture, None, &mut sink, &mut taken, &mut missed);
    let closed = capture.close();
    if missed > 0 {
        notice(&format!("{missed} frames missed for want of room"));
    }
    ended.and(closed.map(|()| Exit::Fine))
}

/// `-D`: the ports of the host or bridge, numbered.
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

/// `-r`: the packets of a file that the filter matches.
fn read(path: &Path, filter: &Filter, args: &TcpdumpArgs) -> anyhow::Result<Exit> {
    let of_it = || path.display().to_string();
    let input: Box<dyn Read> = match path.as_os_str() == "-" {
        true => Box::new(io::stdin()),
        false => Box::new(File::open(path).with_context(of_it)?),
    };
    let mut reader = Reader::new(BufReader::with_capacity(256 * 1024, input));
    let linktype = reader.linktype().with_context(of_it)?;
    let kind = linktype.map_or("none".into(), |number| match wire::link::LinkType::of(number) {
        Some(known) => format!("{} ({number})", known.name()),
        None => format!("{number}"),
    });
    notice(&format!("reading from file {}, link-type {kind}", path.display()));
    let mut sink = Sink::of(args)?;
    let mut taken = 0;
    let ended = loop {
        if args.count.is_some_and(|count| taken >= count) {
            break Ok(());
        }
        let record = match reader.read() {
            Ok(Some(record)) => record,
            Ok(None) => break Ok(()),
            Err(why) => break Err(anyhow::Error::from(why).context(of_it())),
        };
        let ethernet = print::as_ethernet(record.linktype, record.data);
        let cut = record.orig_len as usize - record.data.len().min(record.orig_len as usize);
        if !ethernet.as_ref().is_some_and(|frame| filter.matches_captured(frame, frame.len() + cut)) {
            continue;
        }
        taken += 1;
        let owned = record.data.to_vec();
        let options = record.options.to_vec();
        let record = Record { data: &owned, options: &options, ..record };
        let interface = reader.section().interfaces.get(record.interface as usize).and_then(|of| of.name());
        sink.take_record(&record, interface.as_deref())?;
    };
    sink.flush()?;
    ended.map(|()| Exit::Fine)
}

/// Takes frames until there are `count`, or Ctrl-C.
fn follow(
    capture: &Capture<'_>,
    count: Option<u64>,
    sink: &mut Sink,
    taken: &mut u64,
    missed: &mut u64,
) -> anyhow::Result<()> {
    loop {
        let stop = dispatch::stop_requested(); // frames that came before it are still read
        let mut batch = capture.read()?;
        *missed = batch.missed;
        let left = count.map_or(usize::MAX, |count| count.saturating_sub(*taken) as usize);
        batch.frames.truncate(left);
        *taken += batch.frames.len() as u64;
        sink.take(&batch)?;
        if stop || batch.frames.len() == left {
            return Ok(());
        }
        if batch.frames.is_empty() {
            std::thread::sleep(PAUSE);
        }
    }
}

/// Destination of frames: lines on standard output, or files.
struct Sink {
    out: Out,
    interfaces: HashMap<String, u32>,
    /// Difference between the calendar and the host's clock, once it is known.
    epoch_ns: Option<u64>,
}

enum Out {
    Lines(Lines),
    Files(Box<Files>),
    Writer(Writer<Box<dyn Write>>),
}

impl Sink {
    fn of(args: &TcpdumpArgs) -> anyhow::Result<Sink> {
        let out = match Files::of(args)? {
            Some(files) => Out::Files(Box::new(files)),
            None => Out::Lines(Lines::of(args)),
        };
        Ok(Sink { out, interfaces: HashMap::new(), epoch_ns: None })
    }

    fn to(writer: Writer<Box<dyn Write>>) -> Sink {
        Sink { out: Out::Writer(writer), interfaces: HashMap::new(), epoch_ns: None }
    }

    fn flush(&mut self) -> anyhow::Result<()> {
        match &mut self.out {
            Out::Lines(_) => Ok(()),
            Out::Files(files) => files.flush(),
            Out::Writer(writer) => Ok(writer.flush()?),
        }
    }

    /// Takes frames of a running host.
    fn take(&mut self, batch: &Batch) -> anyhow::Result<()> {
        let epoch = *self.epoch_ns.get_or_insert(port::os::calendar_ns().saturating_sub(batch.now_ns));
        let mut text = String::new();
        for frame in &batch.frames {
            let ts_ns = frame.at_ns.saturating_add(epoch);
            if let Out::Lines(lines) = &self.out {
                let (iface, fate) = (Some(frame.iface.as_str()), Some(frame.fate));
                text += &lines.line(&Seen { ts_ns, iface, fate, data: &frame.data, len: frame.len as usize });
                continue;
            }
            let options = options(frame.fate);
            let direction = match frame.fate {
                Fate::Passed(direction) => direction,
                Fate::Dropped(_) => Direction::Unknown,
            };
            let record = Record {
                ts_ns,
                orig_len: frame.len,
                data: &frame.data,
                direction,
                options: &options,
                ..Record::default()
            };
            self.write(&record, Some(&frame.iface))?;
        }
        if !text.is_empty() {
            crate::exit::print(&text)?;
        }
        self.flush()
    }

    /// Takes a packet of a file.
    fn take_record(&mut self, record: &Record<'_>, iface: Option<&str>) -> anyhow::Result<()> {
        let Out::Lines(lines) = &self.out else { return self.write(record, iface) };
        let Some(frame) = print::as_ethernet(record.linktype, record.data) else { return Ok(()) };
        let cut = (record.orig_len as usize).saturating_sub(record.data.len());
        let fate = (record.direction != Direction::Unknown).then_some(Fate::Passed(record.direction));
        let len = frame.len() + cut;
        crate::exit::print(&lines.line(&Seen { ts_ns: record.ts_ns, iface, fate, data: &frame, len }))
    }

    fn write(&mut self, record: &Record<'_>, iface: Option<&str>) -> anyhow::Result<()> {
        let name = iface.unwrap_or("?");
        match &mut self.out {
            Out::Lines(_) => Ok(()),
            Out::Files(files) => files.write(record, name),
            Out::Writer(writer) => {
                let interface = match self.interfaces.get(name) {
                    Some(known) => *known,
                    None => {
                        let added = writer.add_interface(name)?;
                        self.interfaces.insert(name.to_string(), added);
                        added
                    }
                };
                Ok(writer.write(&Record { interface, ..*record })?)
            }
        }
    }
}

/// Options of a pcapng packet block: of a dropped frame a comment with the reason, else none.
fn options(fate: Fate) -> Vec<u8> {
    let Fate::Dropped(why) = fate else { return Vec::new() };
    let text = format!("dropped: {}: {}", why.name(), why.sentence());
    let mut out = vec![1, 0]; // opt_comment
    out.extend((text.len() as u16).to_le_bytes());
    out.extend(text.as_bytes());
    out.resize(out.len().next_multiple_of(4), 0);
    out
}
