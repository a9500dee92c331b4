//! Ports as files, like /dev/ethpipe: a directory in which each port is a file of lines and a file
//! of records.
//!
//! ```text
//! DIR/tap0        lines, F1 or F2: read received frames, write frames to send
//! DIR/rtap0       records (v2): read received frames, write frames to send
//! DIR/global_time                  the counter of stamps
//! DIR/local_time1 .. local_time7   the registers that stamps of frames to send are relative to
//! DIR/stats/tap0  counters
//! ```
//!
//! - A read blocks until there is a frame. It returns complete frames, as many as fit. If not even
//!   one frame fits, the frame is returned in pieces, so that a shell's `read`, which reads byte by
//!   byte, works too. Each reader receives all frames that arrive while it has the file open.
//! - A write may contain many lines and may end within a line. The next write to the same open file
//!   continues this line, and closing the file ends it. Frames leave in order, so a frame with a
//!   sending time delays those after it. A bad line is counted. A write without any valid frame
//!   fails with EINVAL. After a bad record the rest of the write is dropped, because the start of
//!   the next record is unknown.
//!
//! Implements the FUSE protocol directly ([`fuse`]), without a library. A blocked reader must be
//! notified of a signal (FUSE_INTERRUPT), or Ctrl-C would not end `cat`. The library fuser 0.18
//! reports to the kernel that interrupts are not supported.

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

/// Maximum time between two checks for a request to stop.
const NAP: Duration = Duration::from_millis(20);
/// Time to wait for programs to close the files when the mount ends, in multiples of [`NAP`].
const PATIENCE: u32 = 25;
/// Number of threads that answer requests. A request that waits for a frame does not occupy a
/// thread. With several threads, frames can be copied to different readers at the same time.
const THREADS: usize = 4;

/// Parameters of a mount.
#[derive(Debug, Clone)]
pub struct Options {
    /// Directory to mount on.
    pub dir: PathBuf,
    /// True to name the files `0`, `1`, ... instead of using the names of the ports.
    pub numbered: bool,
    /// True to write the arrival time in front of each line.
    pub stamped: bool,
    /// True to send each frame at the time in its stamp. Otherwise stamps are ignored.
    pub timed: bool,
    /// Number of bytes of received frames that each file buffers for slow readers.
    pub ring: usize,
    /// Length of a stamp's tick in nanoseconds.
    pub tick_ns: u64,
    /// Function that returns whether the mount should end, normally `dispatch::stop_requested`. If
    /// the mount ends for another reason, [`serve`] requests a stop of the process.
    pub stop: fn() -> bool,
}

/// Reason why mounting failed or ended.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// The names of the ports cannot be used as file names.
    #[error("{0}")]
    Names(String),
    /// The directory is a stale mount: the program that served it has ended.
    #[error("{0}: stale mount, its program has ended; remove it with 'fusermount3 -u {0}' (as root: 'umount {0}')")]
    Stale(String),
    /// The directory is already a mount point of this program.
    #[error("{0}: already mounted; use another directory, or unmount it with 'fusermount3 -u {0}'")]
    Mounted(String),
    /// The directory does not exist or is not a directory.
    #[error("{0}: {1}; must be an existing directory")]
    Dir(String, io::Error),
    /// The kernel or fusermount3 rejected the mount.
    #[error("{0}: cannot mount: {1}")]
    Mount(String, io::Error),
    /// Error of starting a thread, or of reading requests of the kernel.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Report of a port after the mount has ended.
#[derive(Debug)]
pub struct Report {
    /// Name of the port.
    pub port: String,
    /// Counters of the port's files.
    pub counts: Counts,
    /// Reason why the port failed; `None` if it did not fail before the mount ended.
    pub lost: Option<String>,
    /// Receive warnings of the port, one sentence each.
    pub warnings: Vec<String>,
}

/// Mounts `ports`, each with the pool of its buffers. Serves the files until a stop is requested,
/// the directory is unmounted, or all ports have ended and their frames have been read. Calls
/// `ready` when the files are available.
///
/// # Errors
/// The reason why mounting failed or ended.
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
    // From here on the directory is unmounted on every exit.
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
    // The threads of the ports end when a stop is requested.
    dispatch::request_stop();
    let mut reports = Vec::new();
    for (device, (receiver, sender)) in devices.iter().zip(workers) {
        let (lost, warnings) = receiver.and_then(|thread| thread.join().ok()).unwrap_or_default();
        let _ = sender.join();
        reports.push(Report { port: device.name().to_owned(), counts: device.counts().0, lost, warnings });
    }
    Ok(reports)
}

/// A mounted directory, which is unmounted on drop.
struct Mounted(PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        // An error is ignored, because another program may have unmounted the directory already.
        let _ = os::fuse_unmount(&self.0);
    }
}

/// Checks that `dir` can be a mount point, and returns its absolute path.
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

/// Starts the threads that answer requests. Returns the counter of threads that are still running.
fn answer(session: Arc<Session>) -> io::Result<Arc<AtomicUsize>> {
    let count = dispatch::cores().clamp(2, THREADS);
    let running = Arc::new(AtomicUsize::new(count));
    for number in 0..count {
        let (session, running) = (session.clone(), running.clone());
        // These threads end with the mount and are not joined: if files are still open, the kernel
        // removes the mount only after the process has ended.
        dispatch::spawn_worker(&format!("fuse-{number}"), None, move |_| {
            let _ = session.run();
            running.fetch_sub(1, Ordering::Relaxed);
        })?;
    }
    Ok(running)
}

/// Threads of a port: the receiver and the sender. The receiver returns the reason if the port
/// failed, and the receive warnings of the port.
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
    // A port that never receives frames needs no receiver thread.
    if silent {
        return Ok((device, (None, sender)));
    }
    let mut source = PortSource::new(rx, None, counter.clone(), Arrivals::Stamped, None, stop);
    let receiver = {
        let (device, kernel, counter) = (device.clone(), kernel.clone(), counter.clone());
        dispatch::spawn_worker(&format!("{name}-rx"), None, move |_| {
            let lost = receive(&device, &mut source, &counter, &kernel, stop);
            device.end(lost.is_some(), &kernel);
            (lost, source.warnings())
        })?
    };
    Ok((device, (Some(receiver), sender)))
}

/// Passes the frames that the port receives to `device` until the port ends or `stop` returns true.
/// Returns the reason if the port failed.
fn receive(
    device: &Device,
    source: &mut PortSource,
    counter: &Counter,
    kernel: &Kernel,
    stop: fn() -> bool,
) -> Option<String> {
    // True if the last burst was full, so that more frames are likely.
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

/// Sends the frames that were written to the files of `device` until a stop is requested or the
/// port fails.
fn send(device: &Device, sink: &mut PortSink, kernel: &Kernel, stop: fn() -> bool) {
    while let Some(batch) = device.next(stop) {
        // Frames that a stop request leaves unsent are visible in the counts.
        let ran = sink.write(&batch).and_then(|()| sink.drain());
        let (sent, too_long) = sink.counts();
        device.sent(&batch, sent, too_long, kernel);
        if ran.is_err() {
            break;
        }
    }
}
