//! Socket files. A socket has mode 0600 before it becomes visible at its path, and never replaces
//! the socket of a running process.

use libc::{EPERM, EPROTOTYPE};
use std::fs::{self, DirBuilder, File, Permissions, TryLockError};
use std::io::{self, ErrorKind};
use std::mem::offset_of;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// The file of a bound socket. Dropping this value removes the file, unless another socket has
/// replaced it. It must be dropped before the socket is closed. Otherwise a new server could
/// replace the file between the check and the removal.
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
    let _lock = lock(path);
    clear(path)?;
    // The path to which the socket is bound is the source address of each datagram, so the socket
    // cannot be created at a temporary path.
    let socket = super::bind_private(path)?;
    let meta = fs::symlink_metadata(path)?;
    socket.set_nonblocking(true)?;
    Ok((socket, SocketFile { path: path.to_path_buf(), identity: (meta.dev(), meta.ino()) }))
}

/// Creates a socket in a directory that only this user can enter, and then links it to `path`, so
/// that other users can never connect.
fn visible<T>(path: &Path, create: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<(T, SocketFile)> {
    super::address(path)?; // fails if clients could not use the path
    let _lock = lock(path);
    clear(path)?;
    let room = Room::new(path)?;
    let hidden = room.path.join(NEW);
    let socket = create(&room.name())?;
    fs::set_permissions(&hidden, Permissions::from_mode(0o600))?;
    let meta = fs::symlink_metadata(&hidden)?;
    fs::hard_link(&hidden, path).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => in_use(), // the file was created after `clear`
        _ => error,
    })?;
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
        _ => Err(in_use()),
    }
}

fn in_use() -> io::Error {
    io::Error::new(ErrorKind::AddrInUse, "another process uses this socket; choose another path")
}

fn open_directory(path: &Path) -> io::Result<File> {
    File::options().read(true).custom_flags(libc::O_DIRECTORY).open(path)
}

/// Returns the directory of `path`.
fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Locks the directory of `path`, so that only one of several servers that start at the same time
/// replaces the file of a process that has ended. Returns `None` if the directory cannot be locked,
/// or if another process holds the lock for 1 s.
fn lock(path: &Path) -> Option<File> {
    let directory = open_directory(parent(path)).ok()?;
    for _ in 0..500 {
        match directory.try_lock() {
            Ok(()) => return Some(directory),
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(2)),
            Err(TryLockError::Error(_)) => return None,
        }
    }
    None
}

/// Checks whether a process uses the datagram socket at `path`. Connects a datagram socket instead
/// of a stream, so that a process that listens at `path` receives no connection.
///
/// # Errors
/// `ConnectionRefused` if no process uses the socket, EPROTOTYPE if it is a stream socket, and
/// other errors of the system.
pub fn probe(path: &Path) -> io::Result<()> {
    match UnixDatagram::unbound()?.connect(path) {
        // EPERM: the socket is in use and connected to its peer, which may be a socket of the
        // caller.
        Err(error) if error.raw_os_error() == Some(EPERM) => Ok(()),
        done => done,
    }
}

/// Maximum number of names that are tried for the temporary directory.
const ROOMS: u32 = 1000;

/// File name of the new socket in its [`Room`].
const NEW: &str = "s";
/// Maximum length of a socket's path in bytes.
const NAME_MAX: usize = size_of::<libc::sockaddr_un>() - offset_of!(libc::sockaddr_un, sun_path) - 1;

/// Temporary directory of mode 0700 next to the socket, removed when it is dropped.
struct Room {
    path: PathBuf,
    directory: File,
}

impl Room {
    fn new(path: &Path) -> io::Result<Room> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        for _ in 0..ROOMS {
            let n = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = parent(path).join(format!(".lr{}.{n}", std::process::id()));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => {
                    let directory = open_directory(&path).inspect_err(|_| _ = fs::remove_dir(&path))?;
                    return Ok(Room { path, directory });
                }
                // A killed process with the same process ID has left a directory of this name.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(ErrorKind::AlreadyExists.into())
    }

    /// Returns the path of the new socket for `bind`. On Linux, a path that is too long is replaced
    /// by a shorter one in /proc/self/fd.
    fn name(&self) -> PathBuf {
        let path = self.path.join(NEW);
        if path.as_os_str().len() <= NAME_MAX || !cfg!(target_os = "linux") {
            return path;
        }
        PathBuf::from(format!("/proc/self/fd/{}/{NEW}", self.directory.as_raw_fd()))
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let _ = fs::remove_file(self.path.join(NEW));
        let _ = fs::remove_dir(&self.path);
    }
}

/// Creates the file that a process which has ended leaves. Waits until the socket is closed in each
/// process, because one that another thread is just starting has a copy of it until it executes its
/// program.
#[cfg(test)]
pub fn leave_file(path: &Path) {
    drop(UnixListener::bind(path).unwrap());
    let end = std::time::Instant::now() + Duration::from_secs(30);
    while !probe(path).is_err_and(|why| why.kind() == ErrorKind::ConnectionRefused) {
        assert!(std::time::Instant::now() < end, "the socket is not closed");
        std::thread::yield_now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;
    use std::sync::Barrier;

    struct Dir(PathBuf);

    impl Dir {
        fn new(name: &str) -> Dir {
            let dir = std::env::temp_dir().join(format!("linerate-file-{name}-{}", std::process::id()));
            fs::create_dir(&dir).unwrap();
            Dir(dir)
        }
    }

    impl Drop for Dir {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    /// Starts several servers at the same time at a path where an ended process has left its socket
    /// file. Exactly one of them listens, and clients reach it.
    #[test]
    fn one_of_several_servers_replaces_the_file_of_a_process_that_ended() {
        let dir = Dir::new("several");
        let path = dir.0.join("s");
        for round in 0..200 {
            leave_file(&path);
            let barrier = Barrier::new(4);
            let servers: Vec<_> = std::thread::scope(|threads| {
                let listen = || {
                    barrier.wait();
                    listen(&path)
                };
                let all = [0; 4].map(|_| threads.spawn(listen));
                all.into_iter().map(|one| one.join().unwrap()).collect()
            });
            let (bound, refused): (Vec<_>, Vec<_>) = servers.into_iter().partition(Result::is_ok);
            assert!(bound.len() == 1, "round {round}: {bound:?} {refused:?}");
            assert!(refused.iter().all(|why| why.as_ref().is_err_and(|why| why.kind() == ErrorKind::AddrInUse)));
            UnixStream::connect(&path).unwrap();
            let listener = &bound[0].as_ref().unwrap().0;
            assert!(listener.accept().is_ok(), "round {round}: another server has the file");
            drop(bound);
            assert_eq!(fs::read_dir(&dir.0).unwrap().count(), 0, "round {round}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_longest_names_can_be_used() {
        let dir = Dir::new("long");
        for len in 90..=NAME_MAX {
            let path = dir.0.join("x".repeat(len - dir.0.as_os_str().len() - 1));
            for _ in 0..2 {
                let (listener, file) = listen(&path).unwrap();
                UnixStream::connect(&path).unwrap();
                listener.accept().unwrap();
                assert!(fs::symlink_metadata(&path).unwrap().mode() & 0o777 == 0o600);
                drop(file);
                leave_file(&path);
            }
        }
        assert!(listen(&dir.0.join("x".repeat(120))).is_err());
    }
}
