//! Ports as files (ethpipe2013's /dev/ethpipe): a directory in which a port is a file of lines and a file of records.
//!
//! ```text
//! DIR/tap0        lines, F1 or F2: read what the port receives, write what it is to send
//! DIR/rtap0       the same as records (v2)
//! DIR/global_time, local_time1 .. local_time7      the counter of stamps, and the registers that stamps of frames to be sent count from
//! DIR/stats/tap0  counters
//! ```
//!
//! - A read waits for a frame and gives whole frames, as many as fit. One with less room than a frame gives it in pieces, so that a shell's
//!   `read`, which asks byte by byte, works too. All who have the file open for reading get all frames from then on.
//! - A write may have many lines, and end within one: the rest is expected with the next write of the same open file, and closing it ends
//!   the line. Frames leave in their order; one whose stamp says when holds those behind it back. A bad line is counted; a write of which
//!   nothing is a frame is EINVAL. Behind a bad record the rest of the write is dropped: nothing says where the next one begins.
//!
//! It is FUSE's protocol itself ([`fuse`]), without a library: a reader that waits must hear of a signal (FUSE_INTERRUPT), or Ctrl-C would
//! not end `cat`; fuser 0.18 tells the kernel that there is no such thing.

mod device;
mod fuse;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
mod kernel;
mod lines;
mod ring;
mod session;

pub use device::Counts;
pub use session::Names;

use crate::os;
use crate::ports::{Arrivals, Counter, MOST, PortSink, PortSource, Registers};
use crate::run::Sink;
use buf::Pool;
use device::Device;
use kernel::Kernel;
use port::Port;
use session::Session;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// The longest sleep, so that a request to stop is seen.
const NAP: Duration = Duration::from_millis(20);
/// How long files may stay open when the mount is to end, in naps.
const PATIENCE: u32 = 25;
/// Threads that answer requests: what waits for a frame keeps none, but copying to one reader should not stop the next.
const THREADS: usize = 4;

/// What a mount is to be.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where.
    pub dir: PathBuf,
    /// Files called 0, 1, ... instead of by their ports' names.
    pub numbered: bool,
    /// Lines with the time of arrival in front.
    pub stamped: bool,
    /// Are stamps of frames to be sent obeyed?
    pub timed: bool,
    /// Bytes that are kept for slow readers of a file.
    pub ring: usize,
    /// Nanoseconds of a stamp's tick.
    pub tick_ns: u64,
    /// Says when it is to end, and is asked to say so when the mount has ended by itself: `dispatch::stop_requested`.
    pub stop: fn() -> bool,
}

/// Why there is no mount.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// What the files would be called.
    #[error("{0}")]
    Names(String),
    /// A mount whose program has ended.
    #[error(
        "{0}: a mount whose program is gone is still there; 'fusermount3 -u {0}' (as root: 'umount {0}') removes it"
    )]
    Stale(String),
    /// Another mount of ours.
    #[error("{0}: is mounted already; another directory, or end that mount with 'fusermount3 -u {0}'")]
    Mounted(String),
    /// No directory.
    #[error("{0}: {1}; it must be a directory that exists")]
    Dir(String, io::Error),
    /// Mounting.
    #[error("{0}: cannot mount: {1}")]
    Mount(String, io::Error),
    /// Threads, requests.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// What became of a port.
#[derive(Debug)]
pub struct Report {
    /// Its name.
    pub port: String,
    /// What was counted.
    pub counts: Counts,
    /// Why it ended before the mount did, if that was no end of its own.
    pub lost: Option<String>,
    /// What was wrong with what it received, a sentence each.
    pub remarks: Vec<String>,
}

/// Mounts `ports`, each with the pool of its buffers, and answers until it is told to stop, the mount is taken away, or all ports are over
/// and read. `ready` is called when the files are there.
///
/// # Errors
/// Why there is no mount, or no more.
pub fn serve(
    ports: Vec<(Port, Pool)>,
    options: &Options,
    ready: impl FnOnce(&Names),
) -> Result<Vec<Report>, MountError> {
    let names = Names::new(ports.iter().map(|(port, _)| port.name.as_str()), options.numbered);
    let names = names.map_err(MountError::Names)?;
    let dir = check(&options.dir)?;
    let said = |error| MountError::Mount(dir.display().to_string(), error);
    let kernel = Arc::new(Kernel::new(os::fuse_mount(&dir).map_err(said)?));
    // From here on the directory is given back, whatever happens.
    let mounted = Mounted(dir);
    let counter = Counter::new(options.tick_ns);
    let registers = Registers::new(counter.ticks(counter.now()));
    let mut devices = Vec::new();
    let mut workers = Vec::new();
    for (port, pool) in ports {
        let (device, threads) = start(port, pool, options, &counter, &registers, &kernel)?;
        devices.push(device);
        workers.push(threads);
    }
    let session = Session::new(kernel.clone(), devices.clone(), &names, counter, registers);
    let running = answer(Arc::new(session))?;
    ready(&names);
    while !(options.stop)() && running.load(Ordering::Relaxed) > 0 && !devices.iter().all(|device| device.is_done()) {
        dispatch::wait_readable(&[], Some(NAP))?;
    }
    devices.iter().for_each(|device| device.shut(&kernel));
    for _ in 0..PATIENCE {
        if running.load(Ordering::Relaxed) == 0 || !devices.iter().any(|device| device.is_open()) {
            break;
        }
        dispatch::wait_readable(&[], Some(NAP))?;
    }
    drop(mounted);
    // The ports' threads look at the same request.
    dispatch::request_stop();
    let mut reports = Vec::new();
    for (device, (receiver, sender)) in devices.iter().zip(workers) {
        let (lost, remarks) = receiver.and_then(|thread| thread.join().ok()).unwrap_or_default();
        let _ = sender.join();
        reports.push(Report { port: device.name().to_owned(), counts: device.counts().0, lost, remarks });
    }
    Ok(reports)
}

/// A directory that is mounted; no longer when dropped.
struct Mounted(PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        // It may have been taken away from outside: then there is nothing to do.
        let _ = os::fuse_unmount(&self.0);
    }
}

/// The directory by its full name, if something can be mounted there.
fn check(dir: &Path) -> Result<PathBuf, MountError> {
    let name = || dir.display().to_string();
    match std::fs::metadata(dir) {
        Err(error) if error.raw_os_error() == Some(libc::ENOTCONN) => return Err(MountError::Stale(name())),
        Err(error) => return Err(MountError::Dir(name(), error)),
        Ok(found) if !found.is_dir() => {
            return Err(MountError::Dir(name(), io::Error::from_raw_os_error(libc::ENOTDIR)));
        }
        Ok(_) => {}
    }
    let full = dir.canonicalize().map_err(|error| MountError::Dir(name(), error))?;
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let ours = |line: &str| {
        let mut words = line.split(' ').skip(1);
        words.next().is_some_and(|at| Path::new(at) == full) && words.next() == Some(os::FUSE_TYPE)
    };
    if mounts.lines().any(ours) {
        return Err(MountError::Mounted(name()));
    }
    Ok(full)
}

/// Threads that answer requests; how many still do.
fn answer(session: Arc<Session>) -> io::Result<Arc<AtomicUsize>> {
    let count = dispatch::cores().clamp(2, THREADS);
    let running = Arc::new(AtomicUsize::new(count));
    for number in 0..count {
        let (session, running) = (session.clone(), running.clone());
        // They end with the mount; one whose files are still open is taken away later, when the process has ended.
        dispatch::spawn_worker(&format!("fuse-{number}"), None, move |_| {
            let _ = session.run();
            running.fetch_sub(1, Ordering::Relaxed);
        })?;
    }
    Ok(running)
}

/// A port's threads: who receives, and says why the port was lost and what was wrong with what came, and who sends.
type Threads = (Option<JoinHandle<(Option<String>, Vec<String>)>>, JoinHandle<()>);

fn start(
    port: Port,
    pool: Pool,
    options: &Options,
    counter: &Counter,
    registers: &Registers,
    kernel: &Arc<Kernel>,
) -> io::Result<(Arc<Device>, Threads)> {
    let stop = options.stop;
    let (announces, silent) = (port.rx.wait_fd().is_some(), port.rx.is_silent());
    let device = Arc::new(Device::new(&port.name, options.stamped, announces, options.ring));
    let name = port.name.clone();
    let (mut sink, rx) = PortSink::new(port, pool, counter.clone(), options.timed, stop);
    sink.share(registers.clone());
    let sender = {
        let (device, kernel) = (device.clone(), kernel.clone());
        dispatch::spawn_worker(&format!("{name}-tx"), None, move |_| send(&device, &mut sink, &kernel, stop))?
    };
    // A port that gives nothing by its nature is never over: it is there to be written to.
    if silent {
        return Ok((device, (None, sender)));
    }
    let mut source = PortSource::new(rx, None, counter.clone(), Arrivals::Stamped, None, stop);
    let receiver = {
        let (device, kernel, counter) = (device.clone(), kernel.clone(), counter.clone());
        dispatch::spawn_worker(&format!("{name}-rx"), None, move |_| {
            let lost = receive(&device, &mut source, &counter, &kernel, stop);
            device.end(lost.is_some(), &kernel);
            (lost, source.remarks())
        })?
    };
    Ok((device, (Some(receiver), sender)))
}

/// Hands on what the port receives, until it is over; says why if it was lost.
fn receive(
    device: &Device,
    source: &mut PortSource,
    counter: &Counter,
    kernel: &Kernel,
    stop: fn() -> bool,
) -> Option<String> {
    // Did the last burst look as if there were more behind it?
    let mut more = false;
    loop {
        device.wait_for_room(stop);
        if stop() {
            return None;
        }
        if more && let Some((burst, now)) = source.burst_now() {
            more = burst.len() >= MOST;
            device.received(burst, counter.ticks(now), more, kernel);
            continue;
        }
        if std::mem::take(&mut more) {
            device.pause(kernel);
        }
        match source.burst() {
            Ok(Some((burst, now))) => {
                more = burst.len() >= MOST;
                device.received(burst, counter.ticks(now), more, kernel);
            }
            Ok(None) => return None,
            Err(why) => return Some(why.to_string()),
        }
    }
}

/// Sends what is written, each frame when its time has come.
fn send(device: &Device, sink: &mut PortSink, kernel: &Kernel, stop: fn() -> bool) {
    while let Some(batch) = device.next(stop) {
        // What a request to stop leaves is told by the counts.
        let ran = sink.write(&batch).and_then(|()| sink.drain());
        let (sent, too_long) = sink.counts();
        device.sent(&batch, sent, too_long, kernel);
        if ran.is_err() {
            break;
        }
    }
}
