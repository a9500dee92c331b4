//! Socket files. A socket has mode 0600 before it becomes visible at its path, and never replaces
//! the socket of a running process.

use libc::{EPERM, EPROTOTYPE};
use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// The file of a bound socket. Dropping it removes the file, unless it was replaced meanwhile.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    /// Device and inode number of the file.
    identity: (u64, u64),
}

impl SocketFile {
    /// Returns the path of the socket.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|meta| (meta.dev(), meta.ino()) == self.identity) {
            // An error is harmless, because most likely the file has been removed in the meantime.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Listens at `path`, without waiting in `accept`. Only this user can connect. Replaces the socket
/// file of a process that has ended.
///
/// # Errors
/// `AddrInUse` if a process uses the socket at `path`, `AlreadyExists` if the file is not a socket,
/// and errors of the system.
pub fn listen(path: &Path) -> io::Result<(UnixListener, SocketFile)> {
    let (listener, file) = visible(path, |hidden| UnixListener::bind(hidden))?;
    listener.set_nonblocking(true)?;
    Ok((listener, file))
}

/// Binds a datagram socket to `path`, as [`listen`] does with a stream socket.
///
/// # Errors
/// The errors of [`listen`].
pub fn bind(path: &Path) -> io::Result<(UnixDatagram, SocketFile)> {
    clear(path)?;
    // The name that is bound is the source address of each datagram, so the socket cannot be
    // created at another name.
    let socket = super::bind_private(path)?;
    let meta = fs::symlink_metadata(path)?;
    socket.set_nonblocking(true)?;
    Ok((socket, SocketFile { path: path.to_path_buf(), identity: (meta.dev(), meta.ino()) }))
}

/// Creates a socket in a directory that only this user can enter, and then links it to `path`, so
/// that other users can never connect.
fn visible<T>(path: &Path, create: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<(T, SocketFile)> {
    clear(path)?;
    let room = Room::new(path)?;
    let hidden = room.0.join("s");
    let socket = create(&hidden)?;
    fs::set_permissions(&hidden, Permissions::from_mode(0o600))?;
    let linked = fs::hard_link(&hidden, path);
    let meta = fs::symlink_metadata(&hidden)?;
    fs::remove_file(&hidden)?;
    linked?;
    Ok((socket, SocketFile { path: path.to_path_buf(), identity: (meta.dev(), meta.ino()) }))
}

/// Removes the socket file of a process that has ended.
fn clear(path: &Path) -> io::Result<()> {
    let meta = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        other => other?,
    };
    if !meta.file_type().is_socket() {
        return Err(io::Error::new(ErrorKind::AlreadyExists, "the file exists and is not a socket"));
    }
    match probe(path) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => fs::remove_file(path),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) if error.raw_os_error() != Some(EPROTOTYPE) => Err(error),
        _ => Err(io::Error::new(ErrorKind::AddrInUse, "another process uses this socket; choose another path")),
    }
}

/// Checks whether a process uses the datagram socket at `path`. No stream is connected, so that a
/// process that listens there receives no event.
///
/// # Errors
/// `ConnectionRefused` if no process uses the socket, EPROTOTYPE if it is a stream socket, and
/// other errors of the system.
pub fn probe(path: &Path) -> io::Result<()> {
    match UnixDatagram::unbound()?.connect(path) {
        // The socket is connected to its peer, which may be the caller's.
        Err(error) if error.raw_os_error() == Some(EPERM) => Ok(()),
        done => done,
    }
}

/// Number of directories that are tried.
const ROOMS: u32 = 1000;

/// Temporary directory of mode 0700 next to the socket.
struct Room(PathBuf);

impl Room {
    fn new(path: &Path) -> io::Result<Room> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        for _ in 0..ROOMS {
            let n = NEXT.fetch_add(1, Ordering::Relaxed);
            let room = parent.join(format!(".lr{}.{n}", std::process::id()));
            match DirBuilder::new().mode(0o700).create(&room) {
                Ok(()) => return Ok(Room(room)),
                // Left behind by a process of the same number that was killed.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(ErrorKind::AlreadyExists.into())
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let _ = fs::remove_file(self.0.join("s"));
        let _ = fs::remove_dir(&self.0);
    }
}
