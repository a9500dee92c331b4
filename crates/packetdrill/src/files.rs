//! Descriptors. Each socket of this interface has its own kernel descriptor, so that packetdrill
//! can close and compare descriptors.

use crate::Errno;
use inet::udp::Domain;
use libc::c_int;
use socket::Fd;
use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd};

/// Object to which one of the interface's descriptors refers.
pub(crate) enum File {
    Socket(Socket),
    Epoll(Epoll),
}

/// A socket, with the state that belongs to its descriptor. In the stack all sockets are
/// non-blocking.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Socket {
    pub fd: Fd,
    pub domain: Domain,
    pub nonblocking: bool,
    /// True if a connect was started and no call has returned its result yet.
    pub connecting: bool,
    /// True if the receive direction is closed (`SHUT_RD`): pending data can still be read,
    /// followed by end of file. There is no effect on the wire.
    pub shut_read: bool,
    /// True if receive calls report the number of unread bytes (`TCP_INQ`).
    pub inq: bool,
    /// Value of `TCP_NOTSENT_LOWAT` in bytes; `None` if not set.
    pub lowat: Option<u32>,
    /// True if a writer found no space and has not been notified since.
    pub no_space: bool,
    /// Number of bytes accepted in the last chunk.
    pub tail: usize,
    /// Number of bytes accepted since the last push.
    pub unpushed: usize,
    /// Size to which a send buffer of default size has grown, in bytes.
    pub grown: usize,
    /// Value of `SO_SNDBUF` in bytes, doubled as in Linux; `None` if not set.
    pub send_buffer: Option<usize>,
    /// Value of `SO_RCVBUF` in bytes, doubled as in Linux; `None` if not set.
    pub recv_buffer: Option<usize>,
}

impl Socket {
    pub fn new(fd: Fd, domain: Domain, nonblocking: bool) -> Socket {
        Socket {
            fd,
            domain,
            nonblocking,
            connecting: false,
            shut_read: false,
            inq: false,
            lowat: None,
            no_space: false,
            tail: 0,
            unpushed: 0,
            grown: 0,
            send_buffer: None,
            recv_buffer: None,
        }
    }
}

/// An epoll instance. It is level- or edge-triggered, depending on the events of each descriptor.
#[derive(Default)]
pub(crate) struct Epoll {
    pub interests: BTreeMap<c_int, Interest>,
}

/// Summary of the data that a socket has received. Edge-triggered events are detected by comparing
/// it with an earlier summary.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Came {
    /// Number of bytes received on a stream, of connections to a listener, or of datagrams
    /// received.
    pub count: u64,
    /// State of a stream, which indicates the end of the handshake or of the peer's data.
    pub state: Option<tcp::State>,
    pub failed: bool,
}

/// Registration of a descriptor in an epoll instance.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interest {
    pub events: u32,
    pub data: u64,
    /// Set if the socket has received data since its last event was returned.
    pub fresh: bool,
    /// Value of [`Came`] at the last check.
    pub seen: Came,
    /// Set if an event was returned for a registration with `EPOLLONESHOT`.
    pub spent: bool,
}

#[derive(Default)]
pub(crate) struct Files(BTreeMap<c_int, (OwnedFd, File)>);

impl Files {
    /// Opens a descriptor for a new file.
    ///
    /// # Errors
    /// Returns `EMFILE`.
    pub fn open(&mut self, file: File) -> Result<c_int, Errno> {
        let kernels = std::fs::File::open("/dev/null").map_err(|_| libc::EMFILE)?;
        let token = kernels.as_raw_fd();
        self.0.insert(token, (kernels.into(), file));
        Ok(token)
    }

    /// Closes a descriptor and its kernel descriptor.
    pub fn close(&mut self, token: c_int) -> Option<File> {
        let (_, file) = self.0.remove(&token)?;
        for (_, file) in self.0.values_mut() {
            if let File::Epoll(epoll) = file {
                epoll.interests.remove(&token);
            }
        }
        Some(file)
    }

    pub fn has(&self, token: c_int) -> bool {
        self.0.contains_key(&token)
    }

    /// Returns a copy of the socket with descriptor `token`.
    ///
    /// # Errors
    /// Returns `EBADF` or `ENOTSOCK`.
    pub fn get(&self, token: c_int) -> Result<Socket, Errno> {
        match self.0.get(&token) {
            Some((_, File::Socket(socket))) => Ok(*socket),
            Some((_, File::Epoll(_))) => Err(libc::ENOTSOCK),
            None => Err(libc::EBADF),
        }
    }

    /// Returns the socket with descriptor `token`, so that the caller can change it.
    ///
    /// # Errors
    /// Returns `EBADF` or `ENOTSOCK`.
    pub fn socket(&mut self, token: c_int) -> Result<&mut Socket, Errno> {
        match self.0.get_mut(&token) {
            Some((_, File::Socket(socket))) => Ok(socket),
            Some((_, File::Epoll(_))) => Err(libc::ENOTSOCK),
            None => Err(libc::EBADF),
        }
    }

    /// Returns the epoll instance with descriptor `token`.
    ///
    /// # Errors
    /// Returns `EBADF` or `EINVAL`.
    pub fn epoll(&mut self, token: c_int) -> Result<&mut Epoll, Errno> {
        match self.0.get_mut(&token) {
            Some((_, File::Epoll(epoll))) => Ok(epoll),
            Some((_, File::Socket(_))) => Err(libc::EINVAL),
            None => Err(libc::EBADF),
        }
    }
}

impl Drop for Files {
    /// Leaves the kernel descriptors open, since packetdrill itself closes the descriptors that a
    /// script left open.
    fn drop(&mut self) {
        for (_, (kernels, _)) in std::mem::take(&mut self.0) {
            let _ = kernels.into_raw_fd();
        }
    }
}
