//! Mounts and unmounts FUSE file systems, with mount(2) where permitted, otherwise with the
//! set-user-ID program fusermount3.

use std::ffi::{CStr, CString, OsStr};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

/// File system type, as printed by mount(8).
pub const FUSE_TYPE: &str = "fuse.linerate";
const HELPER: &str = "fusermount3";

/// Returns the effective user ID and group ID of this process.
pub fn user() -> (u32, u32) {
    // SAFETY: these two calls have no arguments and cannot fail.
    unsafe { (libc::geteuid(), libc::getegid()) }
}

/// Mounts a FUSE file system at `dir`, an absolute path. The caller reads the kernel's requests
/// from the returned file, and writes the answers to it.
///
/// # Errors
/// System errors, or the error message of fusermount3.
pub fn fuse_mount(dir: &Path) -> io::Result<File> {
    match mount_directly(dir) {
        Err(error) if matches!(error.raw_os_error(), Some(libc::EPERM | libc::EACCES)) => mount_through_helper(dir),
        mounted => mounted,
    }
}

fn mount_directly(dir: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).write(true).open("/dev/fuse")?;
    let (uid, gid) = user();
    let options = format!("fd={},rootmode=40000,user_id={uid},group_id={gid},default_permissions", file.as_raw_fd());
    let (dir, options) = (CString::new(dir.as_os_str().as_bytes())?, CString::new(options)?);
    let kind = CString::new(FUSE_TYPE)?;
    // SAFETY: four strings that end in zero and outlive the call.
    let mounted = unsafe {
        let flags = libc::MS_NOSUID | libc::MS_NODEV;
        libc::mount(c"linerate".as_ptr(), dir.as_ptr(), kind.as_ptr(), flags, options.as_ptr().cast())
    };
    if mounted == 0 { Ok(file) } else { Err(io::Error::last_os_error()) }
}

/// Runs fusermount3, which opens /dev/fuse, mounts it, and sends the descriptor through the socket
/// whose number is in the environment variable `_FUSE_COMMFD`.
fn mount_through_helper(dir: &Path) -> io::Result<File> {
    let (ours, theirs) = UnixStream::pair()?;
    // SAFETY: a live descriptor; the copy stays open across exec because it is for the child.
    let passed = unsafe { libc::dup(theirs.as_raw_fd()) };
    if passed < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor returned by dup has no other owner.
    let passed = unsafe { OwnedFd::from_raw_fd(passed) };
    let options = "nosuid,nodev,default_permissions,fsname=linerate,subtype=linerate";
    let mut helper = Command::new(HELPER);
    helper.args(["-o", options, "--"]).arg(dir).env("_FUSE_COMMFD", passed.as_raw_fd().to_string());
    let output = helper.stdin(Stdio::null()).output().map_err(|error| {
        io::Error::new(error.kind(), format!("cannot run {HELPER}, which is needed to mount without root: {error}"))
    })?;
    drop((passed, theirs));
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.trim().trim_start_matches(HELPER).trim_start_matches(": ");
        return Err(io::Error::other(format!("{HELPER}: {said}")));
    }
    Ok(File::from(receive_fd(&ours)?))
}

/// Receives a file descriptor through `socket` (unix(7), SCM_RIGHTS).
fn receive_fd(socket: &UnixStream) -> io::Result<OwnedFd> {
    let mut byte = [0_u8; 1];
    let mut slice = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: byte.len() };
    // Space for one descriptor after its header, aligned as the header requires.
    let mut control = [0_u64; 8];
    // SAFETY: an all-zero msghdr is one without buffers.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &mut slice;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control);
    // SAFETY: the message points to live buffers of the lengths that it states.
    let got = unsafe { libc::recvmsg(socket.as_raw_fd(), &mut message, libc::MSG_CMSG_CLOEXEC) };
    if got < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: recvmsg wrote the headers within `control`, and CMSG_FIRSTHDR returns null or a
    // complete one.
    let fd = unsafe {
        let header = libc::CMSG_FIRSTHDR(&message);
        let fits = !header.is_null()
            && (*header).cmsg_level == libc::SOL_SOCKET
            && (*header).cmsg_type == libc::SCM_RIGHTS
            && (*header).cmsg_len >= libc::CMSG_LEN(size_of::<i32>() as u32) as usize;
        fits.then(|| libc::CMSG_DATA(header).cast::<i32>().read_unaligned())
    };
    let fd = fd.filter(|fd| *fd >= 0).ok_or_else(|| io::Error::other(format!("{HELPER} sent no descriptor")))?;
    // SAFETY: the kernel has just created this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Unmounts `dir`. If files are still open, the directory is detached at once, and the mount ends
/// when they are closed.
///
/// # Errors
/// System errors, for example because `dir` is not mounted.
pub fn fuse_unmount(dir: &Path) -> io::Result<()> {
    let path = CString::new(dir.as_os_str().as_bytes())?;
    match unmount(&path, 0) {
        Err(error) if error.raw_os_error() == Some(libc::EBUSY) => unmount(&path, libc::MNT_DETACH),
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
            let words = [OsStr::new("-u"), OsStr::new("-z"), OsStr::new("-q"), OsStr::new("--"), dir.as_os_str()];
            let status = Command::new(HELPER).args(words).stdin(Stdio::null()).status()?;
            if status.success() { Ok(()) } else { Err(io::Error::other(format!("cannot unmount: {HELPER} -u failed"))) }
        }
        done => done,
    }
}

fn unmount(path: &CStr, flags: i32) -> io::Result<()> {
    // SAFETY: a string that ends in zero and outlives the call.
    if unsafe { libc::umount2(path.as_ptr(), flags) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
