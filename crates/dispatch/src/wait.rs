//! Waiting until one of several file descriptors is readable.
#![allow(unsafe_code)] // unsafe code is confined here: poll(2), ppoll(2)

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

/// Waits until one of `fds` is readable, but not longer than `timeout` (`None`: without limit).
/// Returns for each of them whether it is readable. A signal ends the wait early.
///
/// # Errors
/// Errors of ppoll(2), or of poll(2) where there is no ppoll.
pub fn wait_readable(fds: &[BorrowedFd<'_>], timeout: Option<Duration>) -> io::Result<Vec<bool>> {
    let mut polled: Vec<libc::pollfd> =
        fds.iter().map(|fd| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 }).collect();
    let n = poll(&mut polled, timeout);
    if n < 0 {
        let error = io::Error::last_os_error();
        return if error.kind() == io::ErrorKind::Interrupted { Ok(vec![false; fds.len()]) } else { Err(error) };
    }
    Ok(polled.iter().map(|p| p.revents != 0).collect())
}

/// Waits with the resolution of the clock. poll(2) has a resolution of milliseconds, with which a
/// timeout below one millisecond could be rounded to 0 and cause a busy loop.
#[cfg(target_os = "linux")]
fn poll(polled: &mut [libc::pollfd], timeout: Option<Duration>) -> libc::c_int {
    let spec = timeout.map(|t| libc::timespec { tv_sec: t.as_secs() as i64, tv_nsec: i64::from(t.subsec_nanos()) });
    let spec = spec.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: `polled` is an array of the given length, `spec` is null or valid for the call, and
    // there is no signal mask.
    unsafe { libc::ppoll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, spec, std::ptr::null()) }
}

/// Waits with a resolution of milliseconds, rounded up.
#[cfg(not(target_os = "linux"))]
fn poll(polled: &mut [libc::pollfd], timeout: Option<Duration>) -> libc::c_int {
    let ms = timeout.map_or(-1, |t| i32::try_from(t.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX));
    // SAFETY: `polled` is an array of the given length.
    unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, ms) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;
    use std::time::Instant;

    #[test]
    fn readable_descriptors_are_reported_and_the_timeout_is_kept() {
        let ((mut a, b), (_c, d)) = (UnixStream::pair().unwrap(), UnixStream::pair().unwrap());
        let start = Instant::now();
        let short = Some(Duration::from_millis(10));
        assert_eq!(wait_readable(&[b.as_fd(), d.as_fd()], short).unwrap(), [false, false]);
        assert!(start.elapsed() >= Duration::from_millis(10));
        a.write_all(b"x").unwrap();
        assert_eq!(wait_readable(&[b.as_fd(), d.as_fd()], None).unwrap(), [true, false]);
    }
}
