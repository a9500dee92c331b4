//! Notifies supervisors of the state of the program. `--ready-fd N` gets a line break once
//! everything runs (s6's protocol). systemd, if it started the program with `Type=notify`, also
//! learns of reloads, of the end, and that all threads run (sd_notify(3)).

use crate::exit::{Fault, notice};
use anyhow::Context;
use node::reload::ReloadOutcome;
use node::run::Event;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};

/// Supervisors to notify, and the number of hosts and switches that do not run yet.
pub struct Ready {
    /// Descriptor of `--ready-fd`.
    to: Option<File>,
    /// Socket connected with systemd.
    systemd: Option<UnixDatagram>,
    watchdog: Option<Watchdog>,
    missing: usize,
    is_stopping: bool,
    /// Last notification that systemd had no room for.
    unsent: Option<String>,
}

/// Watchdog of systemd (`WatchdogSec=`).
struct Watchdog {
    /// Interval of the notifications: a quarter of the time after which systemd ends the program.
    every: Duration,
    last: Option<Instant>,
}

impl Watchdog {
    /// Returns the watchdog that `WATCHDOG_USEC` requests for this process; `None` if there is
    /// none.
    fn from_environment() -> Option<Watchdog> {
        let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
        let time = Duration::from_micros(number("WATCHDOG_USEC").filter(|time| *time > 0)?);
        let is_ours = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
        is_ours.then_some(Watchdog { every: time / 4, last: None })
    }

    /// Returns whether a notification is due, and then counts the interval from now.
    fn is_due(&mut self) -> bool {
        let is_due = self.last.is_none_or(|last| last.elapsed() >= self.every);
        if is_due {
            self.last = Some(Instant::now());
        }
        is_due
    }
}

impl Ready {
    /// Takes ownership of descriptor `fd`, if one is given, and connects with systemd, if
    /// `NOTIFY_SOCKET` is set, to notify them once `parts` hosts and switches run. Called before
    /// the program drops its privileges.
    ///
    /// # Errors
    /// Usage error: the descriptor was not open for writing when the program began, or is 0 to 2.
    pub fn new(fd: Option<u32>, parts: usize) -> anyhow::Result<Ready> {
        let take = |fd: u32| port::os::inherited_for_writing(i32::try_from(fd).unwrap_or(i32::MAX)).map(File::from);
        let to = fd.map(|fd| take(fd).map_err(|why| Fault::usage(format!("--ready-fd {fd}: {why}"))));
        let systemd = std::env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()).and_then(|name| {
            connect(&name).map_err(|why| notice(&format!("NOTIFY_SOCKET={}: {why}", name.display()))).ok()
        });
        let watchdog = systemd.as_ref().and_then(|_| Watchdog::from_environment());
        Ok(Ready { to: to.transpose()?, systemd, watchdog, missing: parts, is_stopping: false, unsent: None })
    }

    /// Notifies the supervisors of an event: once, when all hosts and switches run; of reloads; of
    /// the end.
    ///
    /// # Errors
    /// The descriptor cannot be written to, or systemd does not receive.
    pub fn note(&mut self, event: &Event) -> anyhow::Result<()> {
        match event {
            Event::Running { .. } => {
                let before = self.missing;
                self.missing = before.saturating_sub(1);
                if before != 1 {
                    return Ok(());
                }
                let sent = self.tell("READY=1\nSTATUS=all hosts and bridges run\n");
                let written = self.to.take().map_or(Ok(()), |mut to| to.write_all(b"\n")).context("--ready-fd");
                sent.and(written)
            }
            Event::Reloading => self.tell(&format!(
                "RELOADING=1\nMONOTONIC_USEC={}\nSTATUS=reloading the configuration\n",
                dispatch::monotonic_us()
            )),
            Event::Reloaded(outcome) => self.tell(&format!(
                "READY=1\nSTATUS=all hosts and bridges run; {}\n",
                match outcome {
                    ReloadOutcome::Done => "reloaded",
                    ReloadOutcome::Unchanged => "the last reload failed and changed nothing",
                    ReloadOutcome::Partly => "the last reload failed on some hosts, which have undone their changes",
                }
            )),
            Event::Stopping if !std::mem::replace(&mut self.is_stopping, true) => {
                self.tell("STOPPING=1\nSTATUS=stopping\n")
            }
            Event::Alive => {
                // Notifications that systemd had no room for are sent again.
                let unsent = self.unsent.take().map_or(Ok(()), |text| self.tell(&text));
                let is_due = self.watchdog.as_mut().is_some_and(Watchdog::is_due);
                unsent.and(if is_due { self.tell("WATCHDOG=1\n") } else { Ok(()) })
            }
            Event::Stopping | Event::Notice(_) | Event::Log(_) => Ok(()),
        }
    }

    fn tell(&mut self, text: &str) -> anyhow::Result<()> {
        let sent = self.systemd.as_ref().map_or(Ok(0), |systemd| systemd.send(text.as_bytes()));
        let is_full = sent.as_ref().is_err_and(|why| why.kind() == io::ErrorKind::WouldBlock);
        if is_full && text.starts_with("WATCHDOG") {
            return Ok(()); // the next one has the same text
        }
        if is_full {
            self.unsent = Some(text.to_string());
        }
        sent.map(drop).context("NOTIFY_SOCKET")
    }
}

/// Notifies systemd of the end, unless it knows.
impl Drop for Ready {
    fn drop(&mut self) {
        let _ = self.note(&Event::Stopping); // the program ends in any case
    }
}

/// Connects with the socket `name`: a path, or `@` and an abstract name.
fn connect(name: &OsStr) -> io::Result<UnixDatagram> {
    let address = match name.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        [b'/', ..] => SocketAddr::from_pathname(name)?,
        _ => return Err(io::Error::new(io::ErrorKind::InvalidInput, "expected a path or @NAME")),
    };
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?; // a supervisor that does not read must not block a host
    socket.connect_addr(&address)?;
    Ok(socket)
}
