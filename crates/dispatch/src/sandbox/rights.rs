//! Capabilities of one thread (capabilities(7)), changed by capset(2) and prctl(2).

use super::{Confine, User};

/// Capabilities that opening a port may need: CAP_NET_ADMIN (TAP devices, links), CAP_NET_RAW
/// (packet and XDP sockets), CAP_IPC_LOCK (an XDP socket's memory above RLIMIT_MEMLOCK), CAP_BPF
/// (an XDP socket's program).
pub(super) const FOR_PORTS: u64 = 1 << 12 | 1 << 13 | 1 << 14 | 1 << 39;

/// _LINUX_CAPABILITY_VERSION_3, in which each set has two words.
const VERSION_3: u32 = 0x2008_0522;

#[repr(C)]
struct Header {
    version: u32,
    pid: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Data {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// The permitted, effective and inheritable capability sets of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Sets {
    effective: u64,
    permitted: u64,
    inheritable: u64,
}

impl Sets {
    /// Reads the sets of the calling thread. Async-signal-safe.
    fn get() -> Result<Sets, i32> {
        let mut header = Header { version: VERSION_3, pid: 0 };
        let mut data = [Data::default(); 2];
        // SAFETY: header and data have the layout of version 3, and are writable.
        let status = unsafe { libc::syscall(libc::SYS_capget, &mut header, data.as_mut_ptr()) };
        checked(status)?;
        let [low, high] = data;
        let join = |low: u32, high: u32| u64::from(high) << 32 | u64::from(low);
        Ok(Sets {
            effective: join(low.effective, high.effective),
            permitted: join(low.permitted, high.permitted),
            inheritable: join(low.inheritable, high.inheritable),
        })
    }

    /// Replaces the capability sets of the calling thread. Async-signal-safe.
    fn set(self) -> Result<(), i32> {
        let mut header = Header { version: VERSION_3, pid: 0 };
        let part = |shift: u32| Data {
            effective: (self.effective >> shift) as u32,
            permitted: (self.permitted >> shift) as u32,
            inheritable: (self.inheritable >> shift) as u32,
        };
        let data = [part(0), part(32)];
        // SAFETY: header and data have the layout of version 3; the kernel reads them.
        checked(unsafe { libc::syscall(libc::SYS_capset, &mut header, data.as_ptr()) })
    }
}

/// Changes that every thread of the process makes to its own rights.
pub(super) struct Plan<'a> {
    pub(super) user: Option<&'a User>,
    pub(super) confine: Confine,
    /// Capabilities that stay permitted if the thread has them now.
    pub(super) keep: u64,
}

impl Plan<'_> {
    /// Applies the plan to the calling thread. On an error, returns the failed step and its errno.
    /// Async-signal-safe: makes only system calls.
    pub(super) fn apply(&self) -> Result<(), (&'static str, i32)> {
        if self.confine == Confine::On {
            drop_bounding();
        }
        if let Some(user) = self.user {
            change_user(user, self.confine == Confine::On && self.keep != 0)?;
        }
        if self.confine == Confine::Off {
            return Ok(());
        }
        let now = Sets::get().map_err(|why| ("capget", why))?;
        let kept = Sets { effective: 0, permitted: now.permitted & self.keep, inheritable: 0 };
        kept.set().map_err(|why| ("capset", why))?;
        // Fails only on kernels before 4.3, which have no ambient set.
        let _ = prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL as libc::c_ulong);
        prctl(libc::PR_SET_NO_NEW_PRIVS, 1).map(drop).map_err(|why| ("PR_SET_NO_NEW_PRIVS", why))
    }
}

/// Empties the bounding set. This fails for a thread without CAP_SETPCAP. NO_NEW_PRIVS then has the
/// same effect, because a program that the thread executes gains no capabilities either.
fn drop_bounding() {
    for cap in 0..64 {
        match prctl(libc::PR_CAPBSET_READ, cap) {
            Ok(1) => drop(prctl(libc::PR_CAPBSET_DROP, cap)),
            Ok(_) => {}
            Err(_) => return, // beyond the last capability
        }
    }
}

/// Changes the user by direct system calls. The C library functions of the same names change all
/// threads and are not async-signal-safe.
fn change_user(user: &User, keep: bool) -> Result<(), (&'static str, i32)> {
    prctl(libc::PR_SET_KEEPCAPS, libc::c_ulong::from(keep)).map_err(|why| ("PR_SET_KEEPCAPS", why))?;
    // SAFETY: the kernel reads as many ids as given by the length.
    let status = unsafe { libc::syscall(libc::SYS_setgroups, user.groups.len(), user.groups.as_ptr()) };
    match checked(status) {
        // A process without CAP_SETGID may still request the user that it already runs as.
        Err(libc::EPERM) if is(user) => return Ok(()),
        done => done.map_err(|why| ("setgroups", why))?,
    }
    // SAFETY: the arguments are three numbers.
    let status = unsafe { libc::syscall(libc::SYS_setresgid, user.gid, user.gid, user.gid) };
    checked(status).map_err(|why| ("setresgid", why))?;
    // SAFETY: the arguments are three numbers.
    let status = unsafe { libc::syscall(libc::SYS_setresuid, user.uid, user.uid, user.uid) };
    checked(status).map_err(|why| ("setresuid", why))
}

/// Returns whether the process already runs as the given user and group.
fn is(user: &User) -> bool {
    // SAFETY: these calls have no arguments and cannot fail.
    unsafe {
        (libc::getuid(), libc::geteuid()) == (user.uid, user.uid)
            && (libc::getgid(), libc::getegid()) == (user.gid, user.gid)
    }
}

fn prctl(what: libc::c_int, value: libc::c_ulong) -> Result<libc::c_long, i32> {
    // SAFETY: the options used here have only numbers as arguments.
    let status = unsafe { libc::syscall(libc::SYS_prctl, what, value, 0, 0, 0) };
    checked(status).map(|()| status)
}

fn checked(status: libc::c_long) -> Result<(), i32> {
    // SAFETY: errno belongs to the calling thread.
    if status < 0 { Err(unsafe { *libc::__errno_location() }) } else { Ok(()) }
}

/// Guard that keeps the calling thread's permitted capabilities effective until it is dropped. See
/// [`port_rights`].
#[derive(Debug)]
pub struct PortRights {
    former: Option<Sets>,
    /// Makes the type `!Send`, because the guard must be dropped on its thread.
    here: std::marker::PhantomData<*const ()>,
}

impl Drop for PortRights {
    fn drop(&mut self) {
        if let Some(former) = self.former {
            // Dropping effective capabilities is always permitted.
            let _ = former.set();
        }
    }
}

/// Makes the capabilities kept for [`super::Needs::live_ports`] effective on the calling thread, so
/// that it can open a port. Changes nothing if the process keeps no such capabilities or is not
/// confined. Opening the port then reports the missing capability.
pub fn port_rights() -> PortRights {
    // If the filter does not allow capget, no capabilities are kept for ports, and none can be made
    // effective.
    let now = super::filter::keeps_port_rights().then(Sets::get).and_then(Result::ok);
    let raised =
        now.filter(|now| now.effective != now.permitted && Sets { effective: now.permitted, ..*now }.set().is_ok());
    PortRights { former: raised, here: std::marker::PhantomData }
}
