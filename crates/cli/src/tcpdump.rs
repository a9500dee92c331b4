//! `tcpdump`: frames of a running host as they pass its ports, printed a line each or written as pcapng.
//!
//! The host only copies frames (`node::capture`); they are read from its control socket a few times a second, printed by
//! `wire`'s dissector, and end with Ctrl-C or after -c. What the host had no room for is counted and told at the end.

use crate::args::TcpdumpArgs;
use crate::exit::{Exit, Fault, notice, print};
use anyhow::Context;
use node::capture::{self, Batch, Caught};
use node::control;
use port::pcap::{Direction, Format, Record, Writer};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::time::Duration;
use wire::dissect;
use wire::filter::Filter;

const PATIENCE: Duration = Duration::from_secs(10);
/// Between two readings of a quiet host; the buffer is good for 4 MiB.
const PAUSE: Duration = Duration::from_millis(20);

/// `tcpdump -i IFACE ...`.
pub fn run(args: &TcpdumpArgs) -> anyhow::Result<Exit> {
    let host = Host::of(args.url.as_deref())?;
    dispatch::install_stop_handler().context("cannot catch Ctrl-C")?;
    let mut sink = Sink::open(args)?; // before the host keeps anything
    let id = host.ask(&["open", &args.iface, &args.snaplen.to_string()])?;
    let id = id.trim();
    notice(&format!("listening on {}, snapshot length {} bytes", args.iface, args.snaplen));
    let (mut taken, mut missed) = (0, 0);
    let ended = follow(&host, id, args.count, &mut sink, &mut taken, &mut missed);
    let closed = host.ask(&["close", id]);
    notice(&format!("{taken} frames captured, {missed} missed for want of room"));
    ended.and(closed.map(|_| Exit::Fine))
}

/// Frames that `filter` wants of an iface of the host at `url`, as pcapng to `out`, until nobody reads it or a signal comes.
pub fn record(url: &str, iface: &str, out: Box<dyn Write>, snaplen: u32, filter: Filter) -> anyhow::Result<Exit> {
    let host = Host::of(Some(url))?;
    let mut sink = Sink::to(Writer::new(out, Format::Pcapng, snaplen)?, filter);
    sink.flush()?;
    // Whole: the filter may look behind what is kept.
    let id = host.ask(&["open", iface, &capture::SNAPLEN.to_string()])?;
    let (id, (mut taken, mut missed)) = (id.trim(), (0, 0));
    let ended = follow(&host, id, None, &mut sink, &mut taken, &mut missed);
    let closed = host.ask(&["close", id]);
    if missed > 0 {
        notice(&format!("{missed} frames missed for want of room"));
    }
    ended.and(closed.map(|_| Exit::Fine))
}

/// Takes frames until there are `count`, or Ctrl-C.
fn follow(
    host: &Host,
    id: &str,
    count: Option<u64>,
    sink: &mut Sink,
    taken: &mut u64,
    missed: &mut u64,
) -> anyhow::Result<()> {
    loop {
        let stop = dispatch::stop_requested(); // what came before it is still read
        let mut batch = host.read(id)?;
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

/// The host at the other end of a control socket.
struct Host<'a> {
    url: &'a str,
}

impl<'a> Host<'a> {
    fn of(url: Option<&'a str>) -> anyhow::Result<Host<'a>> {
        let url = url.ok_or_else(|| Fault::usage("no control socket: give --url unix:///path, or set LINERATE_CTL"))?;
        control::path_of(url).map_err(Fault::usage)?;
        Ok(Host { url })
    }

    fn ask(&self, words: &[&str]) -> anyhow::Result<String> {
        let words: Vec<String> = ["capture"].iter().chain(words).map(|word| word.to_string()).collect();
        match control::request(self.url, &words, false, PATIENCE) {
            Ok(answer) if answer.ok => Ok(answer.text),
            Ok(answer) => Err(anyhow::anyhow!("tcpdump: {}", answer.text.trim_end())),
            Err(error) => Err(Fault { exit: Exit::Nobody, what: error.to_string() }.into()),
        }
    }

    fn read(&self, id: &str) -> anyhow::Result<Batch> {
        let text = self.ask(&["read", id])?;
        capture::parse(&text).context("tcpdump: what the host answers is not understood: is it another version?")
    }
}

/// Where frames go: lines to standard output, or a file.
struct Sink {
    file: Option<Writer<Box<dyn Write>>>,
    /// Which frames a file gets.
    filter: Filter,
    /// The file's numbers of ifaces.
    ifaces: HashMap<String, u32>,
    /// What turns the host's clock into the calendar, once it is known.
    epoch_ns: Option<u64>,
    shown: Shown,
}

/// What a line shows.
#[derive(Clone, Copy)]
struct Shown {
    time: bool,
    link: bool,
    iface: bool,
}

impl Sink {
    fn open(args: &TcpdumpArgs) -> anyhow::Result<Sink> {
        let create = |path: &std::path::PathBuf| -> io::Result<Writer<Box<dyn Write>>> {
            let out: Box<dyn Write> = match path.as_os_str() == "-" {
                true => Box::new(io::stdout()),
                false => Box::new(BufWriter::new(File::create(path)?)),
            };
            Writer::new(out, Format::of_name(&path.to_string_lossy()), args.snaplen)
        };
        let file = args.write.as_ref().map(|path| create(path).with_context(|| path.display().to_string()));
        let shown = Shown { time: !args.no_time, link: args.link, iface: args.iface == "any" };
        let filter = Filter::compile("")?; // all
        Ok(Sink { file: file.transpose()?, filter, ifaces: HashMap::new(), epoch_ns: None, shown })
    }

    fn to(file: Writer<Box<dyn Write>>, filter: Filter) -> Sink {
        let shown = Shown { time: true, link: true, iface: true };
        Sink { file: Some(file), filter, ifaces: HashMap::new(), epoch_ns: None, shown }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.as_mut().map_or(Ok(()), Writer::flush)
    }

    fn take(&mut self, batch: &Batch) -> anyhow::Result<()> {
        let now = port::os::calendar_ns();
        let epoch = *self.epoch_ns.get_or_insert(now.saturating_sub(batch.now_ns));
        let Some(file) = &mut self.file else {
            let line = |frame: &Caught| self.shown.line(frame, epoch);
            return print(&batch.frames.iter().map(line).collect::<String>());
        };
        let filter = &self.filter;
        let wanted = |frame: &&Caught| filter.matches_captured(&frame.data, frame.len as usize);
        for frame in batch.frames.iter().filter(wanted) {
            let interface = match self.ifaces.get(&frame.iface) {
                Some(known) => *known,
                None => {
                    let added = file.add_interface(&frame.iface)?;
                    self.ifaces.insert(frame.iface.clone(), added);
                    added
                }
            };
            file.write(&Record {
                ts_ns: frame.at_ns.saturating_add(epoch),
                orig_len: frame.len,
                data: &frame.data,
                interface,
                direction: frame.direction,
                ..Record::default()
            })?;
        }
        Ok(file.flush()?)
    }
}

impl Shown {
    fn line(self, frame: &Caught, epoch_ns: u64) -> String {
        let mut out = if self.time { clock_time(frame.at_ns.saturating_add(epoch_ns)) + " " } else { String::new() };
        if self.iface {
            let way = if frame.direction == Direction::Outbound { "Out" } else { "In" };
            out += &format!("{:<6} {way:<3} ", frame.iface);
        }
        let len = frame.len as usize;
        match self.link {
            true => out += &dissect::line_of(&frame.data, len).to_string(),
            false => out += &dissect::brief(&frame.data, len).to_string(),
        }
        out + "\n"
    }
}

/// `06:04:01.123456`, UTC.
fn clock_time(ns: u64) -> String {
    let (seconds, micros) = (ns / 1_000_000_000, ns / 1000 % 1_000_000);
    let (hours, minutes) = (seconds / 3600 % 24, seconds / 60 % 60);
    format!("{hours:02}:{minutes:02}:{:02}.{micros:06}", seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_of_the_day() {
        assert_eq!(clock_time(0), "00:00:00.000000");
        assert_eq!(clock_time(86_399_999_999_999), "23:59:59.999999");
        assert_eq!(clock_time(1_795_240_241_123_456_789), "05:50:41.123456");
    }
}
