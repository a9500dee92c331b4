//! Socket file of the control socket. It has mode 0600 before it becomes visible at its path, and
//! it never replaces the socket of a running server.

use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Device and inode number of a file.
pub(super) type Identity = (u64, u64);

/// Listens at `path`. The socket is created in a directory that only this user can enter, and then
/// linked to `path`, so that other users can never connect.
pub(super) fn listen(path: &Path) -> io::Result<(UnixListener, Identity)> {
    clear(path)?;
    let room = Room::new(path)?;
    let hidden = room.0.join("s");
    let listener = UnixListener::bind(&hidden)?;
    listener.set_nonblocking(true)?;
    fs::set_permissions(&hidden, Permissions::from_mode(0o600))?;
    let linked = fs::hard_link(&hidden, path);
    let meta = fs::symlink_metadata(&hidden)?;
    fs::remove_file(&hidden)?;
    linked?;
    Ok((listener, (meta.dev(), meta.ino())))
}

/// Removes the socket file of a server that has ended.
fn clear(path: &Path) -> io::Result<()> {
    let meta = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        other => other?,
    };
    if !meta.file_type().is_socket() {
        return Err(io::Error::new(ErrorKind::AlreadyExists, "the file exists and is not a socket"));
    }
    match UnixStream::connect(path) {
        Ok(_) => Err(io::Error::new(ErrorKind::AddrInUse, "another server listens at this path; choose another path")),
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => fs::remove_file(path),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Removes the file at `path` if it is still the file with this identity.
pub(super) fn remove_ours(path: &Path, identity: Identity) {
    if fs::symlink_metadata(path).is_ok_and(|meta| (meta.dev(), meta.ino()) == identity) {
        // An error is harmless, because most likely the file has been removed in the meantime.
        let _ = fs::remove_file(path);
    }
}

/// Temporary directory of mode 0700 next to the socket.
struct Room(PathBuf);

impl Room {
    fn new(path: &Path) -> io::Result<Room> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let room = parent.join(format!(".lr{}.{n}", std::process::id()));
        DirBuilder::new().mode(0o700).create(&room)?;
        Ok(Room(room))
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let _ = fs::remove_file(self.0.join("s"));
        let _ = fs::remove_dir(&self.0);
    }
}
