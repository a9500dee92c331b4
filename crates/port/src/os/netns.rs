//! Private network namespaces, in which tests and measurements have their own devices.
//!
//! A namespace belongs to a child process: [`command`] makes the child enter a new one between fork
//! and exec. Root needs only a network namespace. Other users also need a user namespace, in which
//! they are root.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// Contents of the files in /proc/self that map user and group IDs. They are built before the fork,
/// because no memory may be allocated after it.
#[derive(Clone)]
struct Maps {
    uid_map: String,
    gid_map: String,
    root: bool,
}

impl Maps {
    fn new() -> Maps {
        // SAFETY: geteuid and getegid take no arguments and cannot fail.
        let (uid, gid) = unsafe { (libc::geteuid(), libc::getegid()) };
        Maps { uid_map: format!("0 {uid} 1\n"), gid_map: format!("0 {gid} 1\n"), root: uid == 0 }
    }

    /// Enters the namespaces. Only makes system calls, so it can run between fork and exec.
    fn enter(&self) -> io::Result<()> {
        if self.root && unshare(libc::CLONE_NEWNET).is_ok() {
            return Ok(());
        }
        unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNET)?;
        // Kernels before 3.19 have no file setgroups, and do not need it.
        let _ = write(c"/proc/self/setgroups", b"deny");
        write(c"/proc/self/uid_map", self.uid_map.as_bytes())?;
        write(c"/proc/self/gid_map", self.gid_map.as_bytes())
    }
}

fn unshare(flags: i32) -> io::Result<()> {
    // SAFETY: unshare(2) takes no pointers. It changes the namespaces of this thread, not its
    // memory.
    if unsafe { libc::unshare(flags) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn write(path: &CStr, text: &[u8]) -> io::Result<()> {
    // SAFETY: `path` ends in NUL; open(2) only reads it.
    let fd = unsafe { libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: pointer and length describe one live slice.
    let written = unsafe { libc::write(fd, text.as_ptr().cast(), text.len()) };
    let error = io::Error::last_os_error();
    // SAFETY: `fd` was opened above and is not used elsewhere.
    unsafe { libc::close(fd) };
    if written == text.len() as isize { Ok(()) } else { Err(error) }
}

/// Moves the calling process to a new network namespace. Unless the user is root, also moves it to
/// a new user namespace.
///
/// For a child between fork and exec, as in [`command`], or for a single-threaded process, because
/// a process with several threads cannot enter a user namespace.
///
/// # Errors
/// Errors of unshare(2) or of writing the ID maps: EPERM if user namespaces are forbidden, ENOSPC
/// if there are too many of them.
pub fn enter_new() -> io::Result<()> {
    Maps::new().enter()
}

/// Makes `cmd` run in its own network namespace. Unless the user is root, it also runs as root of
/// its own user namespace. The network namespace has only a loopback interface, which is down. If
/// the system does not permit this, `cmd.spawn()` fails with the reason.
pub fn command(cmd: &mut Command) -> &mut Command {
    let maps = Maps::new();
    // SAFETY: `enter` only makes system calls, and accesses only `maps`, which was allocated before
    // the fork.
    unsafe { cmd.pre_exec(move || maps.enter()) }
}

/// An open network namespace. Threads of a process that is root in its user namespace can switch
/// between these namespaces.
#[derive(Debug)]
pub struct Namespace(File);

impl Namespace {
    /// Creates a namespace whose loopback interface is down. The calling thread stays in its
    /// current namespace.
    ///
    /// # Errors
    /// EPERM if the process is root neither of the machine nor of a user namespace (see
    /// [`command`]); ENOSPC if there are too many namespaces.
    pub fn new() -> io::Result<Namespace> {
        let here = Namespace::of_this_thread()?;
        unshare(libc::CLONE_NEWNET)?;
        let made = Namespace::of_this_thread();
        here.enter()?;
        made
    }

    /// Returns the namespace of the calling thread.
    ///
    /// # Errors
    /// There is no /proc, or no descriptors are available.
    pub fn of_this_thread() -> io::Result<Namespace> {
        File::open("/proc/thread-self/ns/net").map(Namespace)
    }

    /// Opens the namespace of a file: one of /run/netns, which `ip netns` creates, or one of
    /// /proc/PID/ns.
    ///
    /// # Errors
    /// The file cannot be opened, or it is not one of a namespace (EINVAL).
    pub fn open(path: &Path) -> io::Result<Namespace> {
        let file = File::open(path)?;
        let mut kind = std::mem::MaybeUninit::<libc::statfs>::uninit();
        // SAFETY: `kind` is writable for the size of a statfs during the call.
        if unsafe { libc::fstatfs(file.as_raw_fd(), kind.as_mut_ptr()) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: fstatfs succeeded, so the kernel has written the structure.
        let kind = unsafe { kind.assume_init() }.f_type;
        if kind as libc::c_long != libc::NSFS_MAGIC as libc::c_long {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        Ok(Namespace(file))
    }

    /// Returns whether both are the same namespace.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn is(&self, other: &Namespace) -> io::Result<bool> {
        let (one, two) = (self.0.metadata()?, other.0.metadata()?);
        Ok((one.dev(), one.ino()) == (two.dev(), two.ino()))
    }

    /// Returns another handle to the same namespace.
    ///
    /// # Errors
    /// No descriptors are available.
    pub fn try_clone(&self) -> io::Result<Namespace> {
        self.0.try_clone().map(Namespace)
    }

    /// Moves the calling thread to this namespace. Open descriptors keep the namespace in which
    /// they were opened.
    ///
    /// # Errors
    /// EPERM, for the same reason as in [`Namespace::new`].
    pub fn enter(&self) -> io::Result<()> {
        // SAFETY: setns(2) takes no pointers; the descriptor is open while it is called.
        if unsafe { libc::setns(self.0.as_raw_fd(), libc::CLONE_NEWNET) } == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }

    /// Runs `act` in this namespace, then returns to the previous one.
    ///
    /// # Errors
    /// The same errors as [`Namespace::enter`].
    pub fn within<R>(&self, act: impl FnOnce() -> R) -> io::Result<R> {
        let here = Namespace::of_this_thread()?;
        self.enter()?;
        let done = act();
        here.enter()?;
        Ok(done)
    }
}

impl AsFd for Namespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Checks whether [`command`] works on this system, by trying it in a child process.
///
/// # Errors
/// The reason why [`command`] does not work, as a sentence.
pub fn available() -> Result<(), String> {
    let maps = Maps::new();
    // SAFETY: the child makes only async-signal-safe calls (unshare, open, write, close, _exit) and
    // does not return from this function.
    let child = unsafe { libc::fork() };
    match child {
        -1 => Err(format!("cannot fork: {}", io::Error::last_os_error())),
        0 => {
            let errno = maps.enter().map_or_else(|error| error.raw_os_error().unwrap_or(libc::EINVAL), |()| 0);
            // SAFETY: _exit ends the child at once, without running destructors that belong to the
            // parent.
            unsafe { libc::_exit(errno) }
        }
        child => match wait(child)? {
            0 => Ok(()),
            errno => Err(format!("cannot create a network namespace: unshare: {}", super::errno_text(errno))),
        },
    }
}

fn wait(child: libc::pid_t) -> Result<i32, String> {
    loop {
        let mut status = 0;
        // SAFETY: `status` is writable during the call; `child` is a child of this process.
        if unsafe { libc::waitpid(child, &mut status, 0) } == child {
            return if libc::WIFEXITED(status) {
                Ok(libc::WEXITSTATUS(status))
            } else {
                Err(format!("namespace probe was killed by signal {}", libc::WTERMSIG(status)))
            };
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(format!("cannot wait for the namespace probe: {error}"));
        }
    }
}
