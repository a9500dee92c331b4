//! Descriptors: each of our sockets has a real one of the kernel's, which packetdrill may close and compare.

use crate::Errno;
use inet::udp::Domain;
use libc::c_int;
use socket::Fd;
use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd};

/// What a descriptor of ours is.
pub(crate) enum File {
    Socket(Socket),
    Epoll(Epoll),
}

/// A socket, and what of it only its descriptor knows: in the stack none of them waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Socket {
    pub fd: Fd,
    pub domain: Domain,
    pub nonblocking: bool,
    /// A connect is under way that no call has reported the end of.
    pub connecting: bool,
    /// `SHUT_RD`: what still comes can be read, and then there is the end. Nothing of it shows on the wire.
    pub shut_read: bool,
    /// `TCP_INQ`: a receive tells what is left.
    pub inq: bool,
    /// `TCP_NOTSENT_LOWAT`.
    pub lowat: Option<u32>,
    /// A writer found no room, and was not told since that there is some.
    pub no_space: bool,
    /// Bytes of the last chunk taken; bytes taken since one was pushed; what the send buffer has grown to.
    pub tail: usize,
    pub unpushed: usize,
    pub grown: usize,
    /// `SO_SNDBUF` and `SO_RCVBUF` as they were set, doubled.
    pub send_buffer: Option<usize>,
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

/// An epoll instance: level- or edge-triggered, as each descriptor's events say.
#[derive(Default)]
pub(crate) struct Epoll {
    pub interests: BTreeMap<c_int, Interest>,
}

/// What has come to a socket for its reader.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Came {
    /// Bytes of a stream, connections of a listener, datagrams.
    pub count: u64,
    /// A stream's state: its handshake is over, its peer has sent all.
    pub state: Option<tcp::State>,
    pub failed: bool,
}

/// What epoll is asked to tell about a descriptor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interest {
    pub events: u32,
    pub data: u64,
    /// Something has happened since it was told last.
    pub fresh: bool,
    /// What had come to it when it was looked at last.
    pub seen: Came,
    /// `EPOLLONESHOT`, told.
    pub spent: bool,
}

/// The open descriptors.
#[derive(Default)]
pub(crate) struct Files(BTreeMap<c_int, (OwnedFd, File)>);

impl Files {
    /// The descriptor for a new file.
    ///
    /// # Errors
    /// `EMFILE`.
    pub fn open(&mut self, file: File) -> Result<c_int, Errno> {
        let kernels = std::fs::File::open("/dev/null").map_err(|_| libc::EMFILE)?;
        let token = kernels.as_raw_fd();
        self.0.insert(token, (kernels.into(), file));
        Ok(token)
    }

    /// Lets go of a descriptor, the kernel's too.
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

    /// The socket behind `token`, as it is now.
    ///
    /// # Errors
    /// `EBADF`, `ENOTSOCK`.
    pub fn get(&self, token: c_int) -> Result<Socket, Errno> {
        match self.0.get(&token) {
            Some((_, File::Socket(socket))) => Ok(*socket),
            Some((_, File::Epoll(_))) => Err(libc::ENOTSOCK),
            None => Err(libc::EBADF),
        }
    }

    /// The socket behind `token`, to be changed.
    ///
    /// # Errors
    /// `EBADF`, `ENOTSOCK`.
    pub fn socket(&mut self, token: c_int) -> Result<&mut Socket, Errno> {
        match self.0.get_mut(&token) {
            Some((_, File::Socket(socket))) => Ok(socket),
            Some((_, File::Epoll(_))) => Err(libc::ENOTSOCK),
            None => Err(libc::EBADF),
        }
    }

    /// The epoll instance behind `token`.
    ///
    /// # Errors
    /// `EBADF`, `EINVAL`.
    pub fn epoll(&mut self, token: c_int) -> Result<&mut Epoll, Errno> {
        match self.0.get_mut(&token) {
            Some((_, File::Epoll(epoll))) => Ok(epoll),
            Some((_, File::Socket(_))) => Err(libc::EINVAL),
            None => Err(libc::EBADF),
        }
    }
}

impl Drop for Files {
    /// The kernel's descriptors are left open: packetdrill closes those of the sockets that a script left, itself.
    fn drop(&mut self) {
        for (_, (kernels, _)) in std::mem::take(&mut self.0) {
            let _ = kernels.into_raw_fd();
        }
    }
}
