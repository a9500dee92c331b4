//! Notifies supervisors once everything runs: `--ready-fd N` gets a line break (s6's protocol), and
//! systemd, if it started the program with `Type=notify`, a datagram (sd_notify(3)).

use crate::exit::{Fault, notice};
use anyhow::Context;
use node::run::Event;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Supervisors to notify, and the number of hosts and switches that do not run yet.
pub struct Ready {
    /// Descriptor of `--ready-fd`.
    to: Option<File>,
    /// Socket connected with systemd.
    systemd: Option<UnixDatagram>,
    missing: usize,
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
        Ok(Ready { to: to.transpose()?, systemd, missing: parts })
    }

    /// Counts a running host or switch; sends both notifications once all of them run.
    ///
    /// # Errors
    /// The descriptor cannot be written to, or systemd does not receive.
    pub fn note(&mut self, event: &Event) -> anyhow::Result<()> {
        if !matches!(event, Event::Running { .. }) {
            return Ok(());
        }
        self.missing = self.missing.saturating_sub(1);
        if self.missing > 0 {
            return Ok(());
        }
        let text = b"READY=1\nSTATUS=all hosts and bridges run\n";
        let sent = self.systemd.take().map_or(Ok(0), |systemd| systemd.send(text)).context("NOTIFY_SOCKET");
        let written = self.to.take().map_or(Ok(()), |mut to| to.write_all(b"\n")).context("--ready-fd");
        sent.and(written)
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
