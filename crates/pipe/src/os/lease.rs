//! A file's bytes where they lie, while nobody can change them.
//!
//! Copying a file out of the page cache costs more than searching it. Mapping it instead has two dangers: whoever cuts it short ends its
//! reader by SIGBUS, and whoever writes to it changes what is borrowed. A read lease (fcntl(2), F_SETLEASE) excludes both: as long as we
//! have it, an open(2) for writing and a truncate(2) wait. So it is taken for a piece of work at a time, some 100 us, and never while
//! waiting for anybody; and where it is not to be had (a writer, another user's file), or where a page may be missing (disks that fail, holes
//! on a full file system), there is no [`Leased`], and the file is read as ever.

use std::fs::File;
use std::ops::Deref;
use std::os::fd::AsRawFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// fcntl(2): which signal says that somebody waits. Of Linux's generic header; every architecture has this number.
const F_SETSIG: i32 = 10;

/// A mapped file, whole, of a file system in memory.
#[derive(Debug)]
pub struct Leased {
    file: File,
    at: *const u8,
    len: usize,
    /// So many have the lease.
    holders: Mutex<usize>,
}

// SAFETY: the mapping is only read, and only while the lease excludes writers; all else is shareable anyway.
unsafe impl Send for Leased {}
// SAFETY: as above.
unsafe impl Sync for Leased {}

impl Leased {
    /// `None` where a lease is refused or the file is not wholly in memory.
    pub fn of(file: &File) -> Option<Leased> {
        let file = file.try_clone().ok()?;
        if !is_in_memory(&file) {
            return None;
        }
        let (len, whole) = size(&file)?;
        if len == 0 || !whole {
            return None;
        }
        // SAFETY: a new mapping somewhere, read-only.
        let at =
            unsafe { libc::mmap(std::ptr::null_mut(), len, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), 0) };
        if at == libc::MAP_FAILED {
            return None;
        }
        let leased = Leased { file, at: at.cast(), len, holders: Mutex::new(0) };
        let granted = leased.lease().is_some();
        granted.then_some(leased)
    }

    /// Its bytes, for as long as what is returned lives: a writer waits meanwhile. `None` if one has been let in, or waits already.
    pub fn lease(&self) -> Option<Lease<'_>> {
        let mut holders = self.holders();
        match *holders {
            0 if !self.set_lease(libc::F_RDLCK) => return None,
            0 if size(&self.file).is_none_or(|(len, whole)| len < self.len || !whole) => {
                self.set_lease(libc::F_UNLCK);
                return None;
            }
            0 => {}
            // SAFETY: fcntl(2) with numbers alone.
            _ if unsafe { libc::fcntl(self.file.as_raw_fd(), libc::F_GETLEASE) } != libc::F_RDLCK => return None,
            _ => {}
        }
        *holders += 1;
        Some(Lease(self))
    }

    /// Takes the lease or gives it back. That somebody waits for it is told by a signal: one that is ignored unless asked for, in place of
    /// SIGIO, which ends a process; giving it back forgets which.
    fn set_lease(&self, kind: i32) -> bool {
        let fd = self.file.as_raw_fd();
        // SAFETY: fcntl(2) with numbers alone.
        unsafe { libc::fcntl(fd, F_SETSIG, libc::SIGURG) == 0 && libc::fcntl(fd, libc::F_SETLEASE, kind) == 0 }
    }

    fn holders(&self) -> MutexGuard<'_, usize> {
        self.holders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Leased {
    fn drop(&mut self) {
        // SAFETY: our own mapping; who holds it borrows `self`.
        unsafe { libc::munmap(self.at.cast_mut().cast(), self.len) };
    }
}

/// The bytes, and the lease on them.
#[derive(Debug)]
pub struct Lease<'a>(&'a Leased);

impl Deref for Lease<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the mapping has `len` bytes, all of them in memory, and the lease lets nobody change one.
        unsafe { std::slice::from_raw_parts(self.0.at, self.0.len) }
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        let mut holders = self.0.holders();
        *holders -= 1;
        if *holders == 0 {
            self.0.set_lease(libc::F_UNLCK);
        }
    }
}

/// Is it on tmpfs, whose pages cannot fail to be read?
fn is_in_memory(file: &File) -> bool {
    // SAFETY: an all-zero statfs is a valid one.
    let mut about: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: a live statfs to write to.
    unsafe { libc::fstatfs(file.as_raw_fd(), &mut about) == 0 && about.f_type == libc::TMPFS_MAGIC }
}

/// Its length, and whether it has no holes: a page for one would have to be found first.
fn size(file: &File) -> Option<(usize, bool)> {
    use std::os::unix::fs::MetadataExt;
    let about = file.metadata().ok()?;
    let whole = about.blocks() * 512 >= about.len();
    Some((usize::try_from(about.len()).ok()?, about.is_file() && whole))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::path::PathBuf;
    use std::sync::mpsc;

    struct Shm(PathBuf);

    impl Shm {
        fn new(name: &str, text: &[u8]) -> Option<Shm> {
            let path = PathBuf::from(format!("/dev/shm/linerate-lease-{name}-{}", std::process::id()));
            let mut file = File::create(&path).inspect_err(|why| println!("skipped: /dev/shm: {why}")).ok()?;
            file.write_all(text).unwrap();
            Some(Shm(path))
        }
    }

    impl Drop for Shm {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    #[test]
    fn a_writer_waits_until_it_is_let_go_of_and_nothing_changes_meanwhile() {
        let Some(shm) = Shm::new("writer", &[b'a'; 10_000]) else { return };
        let Some(leased) = Leased::of(&File::open(&shm.0).unwrap()) else {
            return println!("skipped: no leases on /dev/shm");
        };
        let (first, second) = (leased.lease().unwrap(), leased.lease().unwrap());
        let (path, (done, written)) = (shm.0.clone(), mpsc::channel());
        let writer = std::thread::spawn(move || {
            let mut file = File::create(path).unwrap();
            done.send(()).unwrap();
            file.write_all(b"short").unwrap();
        });
        // Until it waits: then the lease is not lent any more.
        let begun = std::time::Instant::now();
        while leased.lease().is_some() {
            assert!(begun.elapsed().as_secs() < 60, "nobody came");
            std::thread::yield_now();
        }
        assert!(written.try_recv().is_err());
        assert!(first.len() == 10_000 && first.iter().chain(second.iter()).all(|byte| *byte == b'a'));
        drop(first);
        assert!(written.try_recv().is_err());
        assert_eq!(second.last(), Some(&b'a'));
        drop(second);
        writer.join().unwrap();
        assert!(leased.lease().is_none(), "it is shorter now");
        assert!(Leased::of(&File::open(&shm.0).unwrap()).is_some());
    }

    #[test]
    fn what_may_change_or_fail_is_not_held() {
        let Some(shm) = Shm::new("none", b"text\n") else { return };
        let writer = File::options().append(true).open(&shm.0).unwrap();
        assert!(Leased::of(&File::open(&shm.0).unwrap()).is_none(), "somebody may write");
        writer.set_len(1 << 20).unwrap();
        drop(writer);
        assert!(Leased::of(&File::open(&shm.0).unwrap()).is_none(), "it has a hole");
        assert!(Leased::of(&File::open("/proc/self/status").unwrap()).is_none(), "it is made as it is read");
        assert!(Leased::of(&File::open("/dev/null").unwrap()).is_none());
    }
}
