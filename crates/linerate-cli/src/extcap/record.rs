//! Captures frames that match the capture filter, and writes them to Wireshark's FIFO as pcapng
//! with nanosecond timestamps.

use super::interface::{EXAMPLE, Interface};
use crate::args::ExtcapArgs;
use crate::exit::{Exit, Fault, notice};
use crate::{pipe, tcpdump};
use ::pipe::ports::{Arrivals, Counter, PortSource};
use anyhow::Context;
use port::pcap::{Direction, Format, LINKTYPE_ETHERNET, Record, Writer};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::time::Duration;
use wire::filter::Filter;

/// Interval between two checks of whether the FIFO has a reader.
const LOOK: Duration = Duration::from_millis(10);

/// Captures until the port ends, the FIFO is closed or a signal arrives. All three are treated as
/// success.
pub fn run(interface: &Interface, args: &ExtcapArgs, expression: &str, filter: &Filter) -> anyhow::Result<Exit> {
    let Some(fifo) = &args.fifo else { return Err(Fault::usage("--capture: requires --fifo")) };
    dispatch::install_stop_handler().context("cannot catch Ctrl-C")?;
    let Some(out) = open(fifo).with_context(|| fifo.display().to_string())? else { return Ok(Exit::Fine) };
    if out.metadata()?.file_type().is_fifo() {
        let watched = out.try_clone()?;
        dispatch::spawn_worker("fifo", None, move |_| watch(&watched))?;
    }
    let out = BufWriter::with_capacity(64 * 1024, out);
    match interface {
        Interface::Any => port(args.port.as_deref().unwrap_or(EXAMPLE), out, args.snaplen, filter),
        Interface::Running { url, iface, .. } => tcpdump::record(url, iface, Box::new(out), args.snaplen, expression),
    }
}

/// Opens the FIFO once it has a reader; `None` if a signal arrives first.
fn open(path: &Path) -> io::Result<Option<File>> {
    if !fs::metadata(path).is_ok_and(|what| what.file_type().is_fifo()) {
        return File::create(path).map(Some);
    }
    while !dispatch::stop_requested() {
        if let Some(_held) = port::os::open_fifo(path)? {
            // The FIFO is opened again in blocking mode, which returns at once because there is a
            // reader. The first descriptor stays open until then; otherwise the reader would
            // receive end of file.
            return OpenOptions::new().write(true).open(path).map(Some);
        }
        std::thread::sleep(LOOK);
    }
    Ok(None)
}

/// Requests a stop when the FIFO's reader is gone. Without this, a capture at an idle port would
/// not end, since it writes nothing.
fn watch(fifo: &File) {
    while !dispatch::stop_requested() {
        // The writing end of a FIFO is never readable: the wait returns only when the reader is
        // gone.
        if dispatch::wait_readable(&[fifo.as_fd()], None).is_ok_and(|ready| ready == [true]) {
            dispatch::request_stop();
        }
    }
}

/// Captures the frames that the port `spec` receives.
fn port(spec: &str, out: impl Write, snaplen: u32, filter: &Filter) -> anyhow::Result<Exit> {
    let (port, _pool) = pipe::open(spec)?;
    let mut writer = Writer::new(out, Format::Pcapng, snaplen)?;
    writer.add_interface(&port.spec)?;
    writer.flush()?;
    let stop = dispatch::stop_requested;
    let mut source = PortSource::new(port.rx, Some(port.tx), Counter::new(1), Arrivals::Wall, None, stop);
    while let Some((burst, _)) = source.burst()? {
        let ts_ns = port::os::calendar_ns();
        for frame in burst.drain().filter(|frame| filter.matches(frame.bytes())) {
            let (data, orig_len) = (frame.bytes(), frame.len() as u32);
            let (linktype, direction) = (LINKTYPE_ETHERNET, Direction::Inbound);
            writer.write(&Record { ts_ns, orig_len, data, linktype, interface: 0, direction, options: &[] })?;
        }
        writer.flush()?;
    }
    source.warnings().iter().for_each(|warning| notice(warning));
    Ok(Exit::Fine)
}
