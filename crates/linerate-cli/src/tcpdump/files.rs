//! Files of `tcpdump -w`: a single file, or a new file whenever one reaches a size (-C) or an age
//! (-G). -W limits the number of files.

use crate::args::TcpdumpArgs;
use crate::exit::Fault;
use crate::local_time;
use anyhow::Context;
use port::pcap::{Format, Record, Section, Writer};
use std::cell::Cell;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::rc::Rc;

/// Unit of -C in bytes.
const MEGABYTE: u64 = 1_000_000;

/// Checks that -C, -G and -W are used only where they have an effect.
///
/// # Errors
/// A usage error.
pub fn check(args: &TcpdumpArgs) -> anyhow::Result<()> {
    let Some(path) = &args.write else {
        let lone = [("-C", args.size.is_some()), ("-W", args.files.is_some()), ("-G", args.seconds.is_some())];
        return match lone.iter().find(|(_, given)| *given) {
            Some((flag, _)) => Err(Fault::usage(format!("tcpdump: {flag} requires -w FILE"))),
            None => Ok(()),
        };
    };
    let turns = args.size.is_some() || args.seconds.is_some();
    if args.files.is_some() && !turns {
        return Err(Fault::usage("tcpdump: -W requires -C or -G"));
    }
    if turns && path.as_os_str() == "-" {
        return Err(Fault::usage("tcpdump: -C and -G require a file name for -w, not -"));
    }
    Ok(())
}

/// Current file, and the conditions for starting the next file.
pub struct Files {
    pattern: String,
    format: Format,
    snaplen: u32,
    size: Option<u64>,
    seconds: Option<u64>,
    most: Option<u64>,
    /// Number of files started, including the current one.
    begun: u64,
    /// Number in the file name, for -C.
    number: u64,
    /// Start time of the current file in seconds since 1970, for -G.
    since: u64,
    now: Current,
}

struct Current {
    writer: Writer<Counted>,
    written: Rc<Cell<u64>>,
    interfaces: HashMap<String, u32>,
}

/// Output that counts its bytes.
struct Counted {
    out: Box<dyn Write>,
    written: Rc<Cell<u64>>,
}

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.out.write(bytes)?;
        self.written.set(self.written.get() + n as u64);
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Origin of a packet, which determines its interface in the written file.
#[derive(Clone, Copy)]
pub enum Origin<'a> {
    /// Port of a running host, by name.
    Port(&'a str),
    /// Capture file; its link types, interfaces and their options are kept.
    Capture(&'a Section),
}

impl Current {
    fn new(out: Box<dyn Write>, format: Format, snaplen: u32, section: Option<&Section>) -> anyhow::Result<Current> {
        let written = Rc::new(Cell::new(0));
        let counted = Counted { out, written: written.clone() };
        let writer = match section {
            Some(section) => Writer::like(counted, format, section)?,
            None => Writer::new(counted, format, snaplen)?,
        };
        Ok(Current { writer, written, interfaces: HashMap::new() })
    }

    fn create(name: &str, format: Format, snaplen: u32, section: Option<&Section>) -> anyhow::Result<Current> {
        let out: Box<dyn Write> = match name {
            "-" => Box::new(io::stdout()),
            name => Box::new(BufWriter::new(File::create(name).with_context(|| name.to_string())?)),
        };
        Current::new(out, format, snaplen, section).with_context(|| name.to_string())
    }
}

impl Files {
    /// Creates the first file that the flags specify; returns `None` without -w. If the packets
    /// come from a capture file, `section` is its section, and the new file has the same
    /// interfaces.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn of(args: &TcpdumpArgs, section: Option<&Section>) -> anyhow::Result<Option<Files>> {
        let Some(path) = &args.write else { return Ok(None) };
        let pattern = path.to_string_lossy().into_owned();
        let (format, snaplen) = (Format::of_name(&pattern), args.snaplen);
        let since = port::os::calendar_ns() / 1_000_000_000;
        let (size, seconds, most) = (args.size.map(|n| n * MEGABYTE), args.seconds, args.files);
        let name = name(&pattern, seconds.is_some(), size.is_some(), most, 0, since);
        let now = Current::create(&name, format, snaplen, section)?;
        Ok(Some(Files { pattern, format, snaplen, size, seconds, most, begun: 1, number: 0, since, now }))
    }

    /// Creates a single pcapng file, written to `out`.
    ///
    /// # Errors
    /// `out` cannot be written.
    pub fn to(out: Box<dyn Write>, snaplen: u32) -> anyhow::Result<Files> {
        let (pattern, format) = ("-".to_string(), Format::Pcapng);
        let now = Current::new(out, format, snaplen, None)?;
        let (size, seconds, most) = (None, None, None);
        Ok(Files { pattern, format, snaplen, size, seconds, most, begun: 1, number: 0, since: 0, now })
    }

    /// Writes a packet. First starts the next file if the current one has reached its size or age.
    /// Returns `false`, without writing, if the current file was the last that -W permits with -G.
    ///
    /// # Errors
    /// A file cannot be written or created, or it is a pcap file of another link type than the
    /// packet's.
    pub fn write(&mut self, record: &Record<'_>, origin: Origin<'_>) -> anyhow::Result<bool> {
        let second = record.ts_ns / 1_000_000_000;
        let is_late = self.seconds.is_some_and(|seconds| second >= self.since.saturating_add(seconds));
        let is_large = self.size.is_some_and(|size| self.now.written.get() >= size);
        if is_late || is_large {
            if is_late && self.size.is_none() && self.most.is_some_and(|most| self.begun >= most) {
                return Ok(false);
            }
            self.turn(is_late, second, origin)?;
        }
        let Current { writer, interfaces, .. } = &mut self.now;
        let interface = match origin {
            Origin::Port(iface) => match interfaces.get(iface) {
                Some(known) => *known,
                None => {
                    let added = writer.add_interface(iface)?;
                    interfaces.insert(iface.to_string(), added);
                    added
                }
            },
            Origin::Capture(section) => {
                while let Some(interface) = section.interfaces.get(writer.described()) {
                    if writer.linktype().is_some() {
                        break; // a pcap file has a single interface
                    }
                    writer.describe(interface)?;
                }
                if let Some(linktype) = writer.linktype().filter(|linktype| *linktype != record.linktype) {
                    let other = record.linktype;
                    anyhow::bail!(
                        "{}: a pcap file of link type {linktype} cannot hold link type {other}: write *.pcapng",
                        self.pattern
                    );
                }
                record.interface
            }
        };
        writer.write(&Record { interface, ..*record }).with_context(|| self.pattern.clone())?;
        Ok(true)
    }

    /// Starts the next file.
    fn turn(&mut self, is_late: bool, second: u64, origin: Origin<'_>) -> anyhow::Result<()> {
        self.flush()?;
        self.begun += 1;
        if is_late {
            (self.since, self.number) = (second, 0);
        } else {
            self.number += 1;
            if self.most.is_some_and(|most| self.number >= most) {
                self.number = 0;
            }
        }
        let numbered = self.size.is_some();
        let name = name(&self.pattern, self.seconds.is_some(), numbered, self.most, self.number, self.since);
        let section = match origin {
            Origin::Port(_) => None,
            Origin::Capture(section) => Some(section),
        };
        self.now = Current::create(&name, self.format, self.snaplen, section)?;
        Ok(())
    }

    /// Writes buffered data to the file.
    ///
    /// # Errors
    /// Those of the file.
    pub fn flush(&mut self) -> anyhow::Result<()> {
        self.now.writer.flush().with_context(|| self.pattern.clone())
    }
}

/// Returns the name of a file: `pattern` with the file's start time (`timed`, for -G) and with a
/// number at the end (`numbered`, for -C). With -W, numbers begin at 0 and are padded with zeros;
/// without -W, the first file has no number, as in tcpdump.
fn name(pattern: &str, timed: bool, numbered: bool, most: Option<u64>, number: u64, second: u64) -> String {
    let base = if timed { named(pattern, second) } else { pattern.to_string() };
    match most {
        _ if !numbered => base,
        Some(most) => {
            let digits = most.saturating_sub(1).to_string().len();
            format!("{base}{number:0digits$}")
        }
        None if number == 0 => base,
        None => format!("{base}{number}"),
    }
}

/// Replaces the conversions of strftime(3) in `pattern` by the local time.
fn named(pattern: &str, second: u64) -> String {
    local_time::format(pattern, &local_time::local(second.saturating_mul(1_000_000_000)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_numbers_and_times() {
        let of = |most, number| name("x.pcap", false, true, most, number, 0);
        assert_eq!([of(None, 0), of(None, 1), of(None, 12)], ["x.pcap", "x.pcap1", "x.pcap12"]);
        assert_eq!([of(Some(3), 0), of(Some(3), 2), of(Some(20), 7)], ["x.pcap0", "x.pcap2", "x.pcap07"]);
        let timed = name("x-%F-%T.pcap", true, false, None, 0, 1_795_240_241);
        assert!(timed.starts_with("x-2026-11-2") && timed.ends_with(":41.pcap"), "{timed}");
        assert_eq!(named("%s-%S%%", 86_400), "86400-00%");
        // An unknown conversion is unchanged, as in tcpdump, which uses the C library.
        assert_eq!(named("x%!", 0), "x%!");
    }
}
