//! Starts a program with the filter, in namespaces of its own.

use super::{check, notify::Notifications};
use crate::filter;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

/// Space for one control message with one descriptor.
const CONTROL: usize = 64;

/// Starts `command` behind the filter, in a network namespace of its own that has only a loopback
/// interface: a socket that passes the filter has no route. An ordinary user gets a user namespace
/// for this, in which the user and the group have the same numbers.
///
/// # Errors
/// Errors of fork, unshare, seccomp and exec. `EBUSY` if the program would be behind another filter
/// with notifications.
pub fn spawn(command: &mut Command) -> io::Result<(Child, Notifications)> {
    let mut program: Vec<libc::sock_filter> =
        filter::program().into_iter().map(|(code, jt, jf, k)| libc::sock_filter { code, jt, jf, k }).collect();
    // SAFETY: the calls have no arguments and always succeed.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    let maps = [
        ("/proc/self/setgroups\0", "deny".to_owned()),
        ("/proc/self/uid_map\0", format!("{user} {user} 1")),
        ("/proc/self/gid_map\0", format!("{group} {group} 1")),
    ];
    let (ours, theirs) = UnixStream::pair()?;
    let there = theirs.as_raw_fd();
    let prepare = move || {
        isolate(user, &maps)?;
        send_descriptor(there, install(&mut program)?)
    };
    // SAFETY: between fork and exec, `prepare` makes system calls only: it does not allocate, and
    // the strings and the filter are not changed by any thread of the parent.
    let child = unsafe { command.pre_exec(prepare) }.spawn()?;
    drop(theirs);
    Ok((child, Notifications::new(receive_descriptor(ours.as_raw_fd())?)))
}

/// Enters a network namespace and sets its loopback interface up.
fn isolate(user: libc::uid_t, maps: &[(&str, String)]) -> io::Result<()> {
    let flags = libc::CLONE_NEWNET | if user == 0 { 0 } else { libc::CLONE_NEWUSER };
    // SAFETY: the call has no pointers.
    check(unsafe { libc::unshare(flags) })?;
    if user != 0 {
        maps.iter().try_for_each(|(path, text)| write_file(path, text))?;
    }
    // SAFETY: the call has no pointers.
    let fd = check(unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) })?;
    // SAFETY: all fields are integers, for which zero is valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_name.iter_mut().zip(*b"lo").for_each(|(to, from)| *to = from as libc::c_char);
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: `request` is valid for the call, and `fd` is open and not used elsewhere.
    let done = unsafe { (libc::ioctl(fd, libc::SIOCSIFFLAGS, &raw const request), libc::close(fd)) };
    check(done.0).map(drop)
}

/// Writes `text` to the file `path`, which ends with a zero byte.
fn write_file(path: &str, text: &str) -> io::Result<()> {
    // SAFETY: `path` ends with a zero byte.
    let fd = check(unsafe { libc::open(path.as_ptr().cast(), libc::O_WRONLY | libc::O_CLOEXEC) })?;
    // SAFETY: `text` has the given length, and `fd` is open and not used elsewhere.
    let (n, _) = unsafe { (libc::write(fd, text.as_ptr().cast(), text.len()), libc::close(fd)) };
    super::transferred(n).map(drop)
}

/// Installs the filter for the calling thread and its children. Returns the descriptor at which the
/// notifications arrive.
fn install(program: &mut [libc::sock_filter]) -> io::Result<RawFd> {
    let filter = libc::sock_fprog { len: program.len() as libc::c_ushort, filter: program.as_mut_ptr() };
    // SAFETY: the call has no pointers.
    check(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) })?;
    let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
    // SAFETY: `filter` describes the instructions of `program`.
    let fd = unsafe {
        libc::syscall(libc::SYS_seccomp, libc::c_long::from(libc::SECCOMP_SET_MODE_FILTER), flags, &raw const filter)
    };
    check(fd as libc::c_int)
}

/// Sends a descriptor over a UNIX socket.
fn send_descriptor(to: RawFd, fd: RawFd) -> io::Result<()> {
    let (mut byte, mut control) = (0u8, [0u64; CONTROL / 8]);
    let mut part = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    let message = message(&mut part, &mut control, size_of::<RawFd>());
    // SAFETY: `control` has space for a header and a descriptor, and is aligned for the header.
    unsafe {
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(size_of::<RawFd>() as u32) as usize;
        libc::CMSG_DATA(header).cast::<RawFd>().write_unaligned(fd);
    }
    // SAFETY: `message` refers to memory that is valid for the call.
    super::transferred(unsafe { libc::sendmsg(to, &raw const message, 0) }).map(drop)
}

/// Receives a descriptor from a UNIX socket.
fn receive_descriptor(from: RawFd) -> io::Result<OwnedFd> {
    let (mut byte, mut control) = (0u8, [0u64; CONTROL / 8]);
    let mut part = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    let mut message = message(&mut part, &mut control, size_of::<RawFd>());
    // SAFETY: `message` refers to memory that is valid for the call.
    super::transferred(unsafe { libc::recvmsg(from, &raw mut message, libc::MSG_CMSG_CLOEXEC) })?;
    // SAFETY: the kernel has written `message`; a header that it returns is within `control`.
    unsafe {
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        if header.is_null() || (*header).cmsg_type != libc::SCM_RIGHTS {
            return Err(io::Error::other("the program ended before it was started"));
        }
        Ok(OwnedFd::from_raw_fd(libc::CMSG_DATA(header).cast::<RawFd>().read_unaligned()))
    }
}

/// Returns a message of one part, with space for control data of `len` bytes.
fn message(part: &mut libc::iovec, control: &mut [u64; CONTROL / 8], len: usize) -> libc::msghdr {
    // SAFETY: zero is valid for all fields.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    (message.msg_iov, message.msg_iovlen) = (part, 1);
    message.msg_control = control.as_mut_ptr().cast();
    // SAFETY: the function computes a size.
    message.msg_controllen = unsafe { libc::CMSG_SPACE(len as u32) } as usize;
    message
}
