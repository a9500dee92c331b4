//! The C interface: `packetdrill_interface_init` and the functions in its table.
//!
//! Uses unsafe code. This module only converts pointers to slices, and results to return values and
//! `errno`; the other modules implement the calls. The layout is that of `struct
//! packetdrill_interface`, in packetdrill's order.
//!
//! Two of the functions are variadic in C. They are declared here with the single optional
//! argument. It is passed in the same register with both declarations (System V on x86-64, AAPCS64
//! on Linux), and is read only for commands that have it.

use crate::Errno;
use crate::calls::ready::Polled;
use crate::calls::{Done, Received};
use crate::door::Door;
use crate::flags::Settings;
use crate::interpose;
use clock::Duration;
use libc::{c_char, c_int, c_long, c_longlong, c_uint, c_ulong, c_void, epoll_event, iovec, loff_t, msghdr};
use libc::{nfds_t, pollfd, size_t, sockaddr, socklen_t, ssize_t, timeval, useconds_t};
use std::ffi::CStr;
use std::process::exit;
use std::ptr;

/// The C structure `struct packetdrill_interface`, with the functions that packetdrill calls.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(missing_docs, reason = "each is the call of its name; netdev_send and netdev_receive are the wire")]
pub struct Interface {
    pub userdata: *mut c_void,
    pub free: unsafe extern "C" fn(*mut c_void),
    pub socket: unsafe extern "C" fn(*mut c_void, c_int, c_int, c_int) -> c_int,
    pub bind: unsafe extern "C" fn(*mut c_void, c_int, *const sockaddr, socklen_t) -> c_int,
    pub listen: unsafe extern "C" fn(*mut c_void, c_int, c_int) -> c_int,
    pub accept: unsafe extern "C" fn(*mut c_void, c_int, *mut sockaddr, *mut socklen_t) -> c_int,
    pub connect: unsafe extern "C" fn(*mut c_void, c_int, *const sockaddr, socklen_t) -> c_int,
    pub read: unsafe extern "C" fn(*mut c_void, c_int, *mut c_void, size_t) -> ssize_t,
    pub readv: unsafe extern "C" fn(*mut c_void, c_int, *const iovec, c_int) -> ssize_t,
    pub recv: unsafe extern "C" fn(*mut c_void, c_int, *mut c_void, size_t, c_int) -> ssize_t,
    pub recvfrom:
        unsafe extern "C" fn(*mut c_void, c_int, *mut c_void, size_t, c_int, *mut sockaddr, *mut socklen_t) -> ssize_t,
    pub recvmsg: unsafe extern "C" fn(*mut c_void, c_int, *mut msghdr, c_int) -> ssize_t,
    pub write: unsafe extern "C" fn(*mut c_void, c_int, *const c_void, size_t) -> ssize_t,
    pub writev: unsafe extern "C" fn(*mut c_void, c_int, *const iovec, c_int) -> ssize_t,
    pub send: unsafe extern "C" fn(*mut c_void, c_int, *const c_void, size_t, c_int) -> ssize_t,
    pub sendto:
        unsafe extern "C" fn(*mut c_void, c_int, *const c_void, size_t, c_int, *const sockaddr, socklen_t) -> ssize_t,
    pub sendmsg: unsafe extern "C" fn(*mut c_void, c_int, *const msghdr, c_int) -> ssize_t,
    pub fcntl: unsafe extern "C" fn(*mut c_void, c_int, c_int, c_long) -> c_int,
    pub ioctl: unsafe extern "C" fn(*mut c_void, c_int, c_ulong, *mut c_void) -> c_int,
    pub close: unsafe extern "C" fn(*mut c_void, c_int) -> c_int,
    pub shutdown: unsafe extern "C" fn(*mut c_void, c_int, c_int) -> c_int,
    pub getsockopt: unsafe extern "C" fn(*mut c_void, c_int, c_int, c_int, *mut c_void, *mut socklen_t) -> c_int,
    pub setsockopt: unsafe extern "C" fn(*mut c_void, c_int, c_int, c_int, *const c_void, socklen_t) -> c_int,
    pub poll: unsafe extern "C" fn(*mut c_void, *mut pollfd, nfds_t, c_int) -> c_int,
    pub netdev_send: unsafe extern "C" fn(*mut c_void, *const c_void, size_t) -> c_int,
    pub netdev_receive: unsafe extern "C" fn(*mut c_void, *mut c_void, *mut size_t, *mut c_longlong) -> c_int,
    pub usleep: unsafe extern "C" fn(*mut c_void, useconds_t) -> c_int,
    pub gettimeofday: unsafe extern "C" fn(*mut c_void, *mut timeval, *mut c_void) -> c_int,
    pub epoll_create: unsafe extern "C" fn(*mut c_void, c_int) -> c_int,
    pub epoll_ctl: unsafe extern "C" fn(*mut c_void, c_int, c_int, c_int, *mut epoll_event) -> c_int,
    pub epoll_wait: unsafe extern "C" fn(*mut c_void, c_int, *mut epoll_event, c_int, c_int) -> c_int,
    pub pipe: unsafe extern "C" fn(*mut c_void, *mut c_int) -> c_int,
    pub splice: unsafe extern "C" fn(*mut c_void, c_int, *mut loff_t, c_int, *mut loff_t, size_t, c_uint) -> ssize_t,
}

/// Fills in `interface` for a new host configured by `flags`.
///
/// Invalid flags are reported on standard error and end the process, since the interface has no
/// other method to report an error.
///
/// # Safety
/// `flags` is null or a C string. `interface` is writable, and its functions are called with its
/// `userdata` only until its `free` is called.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn packetdrill_interface_init(flags: *const c_char, interface: *mut Interface) {
    let text = match flags.is_null() {
        true => "".into(),
        // SAFETY: not null, so it is a C string by the caller's contract.
        false => unsafe { CStr::from_ptr(flags) }.to_string_lossy(),
    };
    let made = Settings::parse(&text).and_then(|settings| Door::new(&settings).map(|door| (door, settings)));
    let (door, settings) = match made {
        Ok(made) => made,
        Err(why) => {
            eprintln!("linerate: --so_flags: {why}");
            exit(2);
        }
    };
    let door = Box::into_raw(Box::new(door));
    if settings.interpose {
        // SAFETY: the door lives until `free`, which removes it there.
        unsafe { interpose::install(door) };
    }
    // SAFETY: writable by the caller's contract.
    unsafe { interface.write(table(door.cast())) };
}

fn table(userdata: *mut c_void) -> Interface {
    Interface {
        userdata,
        free,
        socket,
        bind,
        listen,
        accept,
        connect,
        read,
        readv,
        recv,
        recvfrom,
        recvmsg,
        write,
        writev,
        send,
        sendto,
        sendmsg,
        fcntl,
        ioctl,
        close,
        shutdown,
        getsockopt,
        setsockopt,
        poll,
        netdev_send,
        netdev_receive,
        usleep,
        gettimeofday,
        epoll_create,
        epoll_ctl,
        epoll_wait,
        pipe,
        splice,
    }
}

/// Returns the instance to which `userdata` points.
///
/// # Safety
/// `userdata` came from [`packetdrill_interface_init`] and was not freed.
unsafe fn door<'a>(userdata: *mut c_void) -> &'a Door {
    // SAFETY: a door by the caller's contract; threads share it and only borrow it.
    unsafe { &*userdata.cast::<Door>() }
}

fn set_errno(errno: Errno) {
    // SAFETY: the calling thread's own errno.
    unsafe { *libc::__errno_location() = errno };
}

/// Converts a result to a return value, or to -1 and `errno`.
pub(crate) fn returns<T, R: From<i8>>(done: Done<T>, value: impl FnOnce(T) -> R) -> R {
    match done {
        Ok(done) => value(done),
        Err(errno) => {
            set_errno(errno);
            R::from(-1)
        }
    }
}

fn zero(done: Done<()>) -> c_int {
    returns(done, |()| 0)
}

/// Returns the `len` bytes at `at`; `None` for a null pointer.
///
/// # Safety
/// `at` is null, or `len` bytes are readable there for the lifetime of the result.
unsafe fn bytes<'a>(at: *const c_void, len: usize) -> Option<&'a [u8]> {
    // SAFETY: not null, so readable by the caller's contract.
    (!at.is_null()).then(|| unsafe { std::slice::from_raw_parts(at.cast::<u8>(), len) })
}

/// Copies `from` to `at`, up to `len` bytes; returns the number of bytes copied.
///
/// # Safety
/// `at` is null, or `len` bytes are writable there.
unsafe fn copy(from: &[u8], at: *mut c_void, len: usize) -> usize {
    let n = if at.is_null() { 0 } else { from.len().min(len) };
    if n > 0 {
        // SAFETY: both have `n` bytes, and `from` is ours.
        unsafe { ptr::copy_nonoverlapping(from.as_ptr(), at.cast::<u8>(), n) };
    }
    n
}

/// Writes a `struct sockaddr`, truncated to the available space, and its full length. Does nothing
/// if a pointer is null.
///
/// # Safety
/// `addr` is null or has space for the number of bytes that `len` points to.
unsafe fn write_name(name: &[u8], addr: *mut sockaddr, len: *mut socklen_t) {
    if addr.is_null() || len.is_null() {
        return;
    }
    // SAFETY: by the caller's contract.
    unsafe {
        copy(name, addr.cast(), *len as usize);
        *len = name.len() as socklen_t;
    }
}

// SAFETY: the caller passes the `userdata` of a live instance, and valid pointers.
unsafe extern "C" fn free(userdata: *mut c_void) {
    interpose::remove(userdata.cast());
    // SAFETY: from `Box::into_raw` in `packetdrill_interface_init`; freed once.
    let door = unsafe { Box::from_raw(userdata.cast::<Door>()) };
    let imbalance = door.imbalance();
    if imbalance != 0 {
        eprintln!("linerate: {imbalance} frames are unaccounted for");
        exit(3);
    }
}

// In all following functions, `userdata` is the pointer that packetdrill received from
// `packetdrill_interface_init`. As the system calls of the same names require, all other pointers
// are null, or valid for the length passed with them.

// SAFETY: the caller passes the `userdata` of a live instance, and valid pointers.
unsafe extern "C" fn socket(userdata: *mut c_void, domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    // SAFETY: the caller passes valid pointers.
    returns(unsafe { door(userdata) }.socket(domain, kind, protocol), |token| token)
}

// SAFETY: the caller passes the `userdata` of a live instance, and valid pointers.
unsafe extern "C" fn bind(userdata: *mut c_void, fd: c_int, addr: *const sockaddr, len: socklen_t) -> c_int {
    // SAFETY: the caller passes valid pointers.
    let (door, name) = unsafe { (door(userdata), bytes(addr.cast(), len as usize)) };
    zero(name.ok_or(libc::EFAULT).and_then(|name| door.bind(fd, name)))
}

// SAFETY: the caller passes the `userdata` of a live instance, and valid pointers.
unsafe extern "C" fn listen(userdata: *mut c_void, fd: c_int, backlog: c_int) -> c_int {
    // SAFETY: the caller passes valid pointers.
    zero(unsafe { door(userdata) }.listen(fd, backlog))
}

// SAFETY: the caller passes the `userdata` of a live instance, and valid pointers.
unsafe extern "C" fn accept(userdata: *mut c_void, fd: c_int, addr: *mut sockaddr, len: *mut socklen_t) -> c_int {
    // SAFETY: the caller passes valid pointers.
    returns(unsafe { door(userdata) }.accept(fd), |(token, name)| {
        // SAFETY: the caller passes valid pointers.
        unsafe { write_name(&name, addr, len) };
        token
    })
}

// SAFETY: the caller passes the `userdata` of a live instance, and valid pointers.
unsafe extern "C" fn connect(userdata: *mut c_void, fd: c_int, addr: *const sockaddr, len: socklen_t) -> c_int {
    // SAFETY: the caller passes valid pointers.
    let (door, name) = unsafe { (door(userdata), bytes(addr.cast(), len as usize)) };
    zero(name.ok_or(libc::EFAULT).and_then(|name| door.connect(fd, name)))
}

/// Returns the entries of an `iovec` array.
///
/// # Safety
/// `count` entries are readable at `iov`.
unsafe fn pieces<'a>(iov: *const iovec, count: usize) -> &'a [iovec] {
    // SAFETY: by the caller's contract; a null pointer yields an empty slice.
    if iov.is_null() { &[] } else { unsafe { std::slice::from_raw_parts(iov, count) } }
}

/// Receives into `pieces`.
///
/// # Safety
/// Each piece is writable.
unsafe fn receive(door: &Door, fd: c_int, pieces: &[iovec], flags: c_int) -> Done<Received> {
    let len = pieces.iter().fold(0usize, |sum, piece| sum.saturating_add(piece.iov_len));
    let writable = pieces.iter().all(|piece| piece.iov_len == 0 || !piece.iov_base.is_null());
    let got = door.recv(fd, len, flags, writable)?;
    let mut rest = got.bytes.as_slice();
    for piece in pieces {
        // SAFETY: by the caller's contract.
        let n = unsafe { copy(rest, piece.iov_base, piece.iov_len) };
        rest = rest.get(n..).unwrap_or_default();
    }
    Ok(got)
}

// SAFETY: the caller passes the `userdata` of a live instance, and valid pointers.
unsafe extern "C" fn read(userdata: *mut c_void, fd: c_int, buf: *mut c_void, count: size_t) -> ssize_t {
    // SAFETY: the caller passes valid pointers.
    let door = unsafe { door(userdata) };
    if !door.has(fd) {
        // SAFETY: the caller passes valid pointers; the kernel checks the other arguments.
        return unsafe { libc::read(fd, buf, count) };
    }
    let piece = iovec { iov_base: buf, iov_len: count };
    // SAFETY: the caller passes valid pointers.
    returns(unsafe { receive(door, fd, &[piece], 0) }, |got| got.len as ssize_t)
}

// SAFETY: the caller passes the `userdata` of a live instance, and valid pointers.
unsafe extern "C" fn readv(userdata: *mut c_void, fd: c_int, iov: *const iovec, count: c_int) -> ssize_t {
    // SAFETY: the caller passes valid pointers.
    let (door, pieces) = unsafe { (door(userdata), pieces(iov, count.max(0) as usize)) };
    // SAFETY: the caller passes valid pointers.
    returns(unsafe { receive(door, fd, pieces, 0) }, |got| got.len as ssize_t)
}

// SAFETY: the caller passes the `userdata` of a live instance, and valid pointers.
unsafe extern "C" fn recv(userdata: *mut c_void, fd: c_int, buf: *mut c_void, len: size_t, flags: c_int) -> ssize_t {
    // SAFETY: the caller passes valid pointers.
    unsafe { recvfrom(userdata, fd, buf, len, flags, ptr::null_mut(), ptr::null_mut()) }
}

// SAFETY: the caller passes the `userdata` of a live instance, and valid pointers.
unsafe extern "C" fn recvfrom(
    userdata: *mut c_void,
    fd: c_int,
    buf: *mut c_void,
    len: size_t,
    flags: c_int,
    addr: *mut sockaddr,
    addr_len: *mut socklen_t,
) -> ssize_t {
    let piece = iovec { iov_base: buf, iov_len: len };
    // SAFETY: the caller passes valid pointers.
    returns(unsafe { receive(door(userdata), fd, &[piece], flags) }, |got| {
        // SAFETY: the caller passes valid pointers.
        unsafe { write_name(&got.from.unwrap_or_default(), addr, addr_len) };
        got.len as ssize_t
    })
}

// SAFETY: the caller passes the `userdata` of a live instance, and valid pointers.
unsafe extern "C" fn recvmsg(userdata: *mut c_void, fd: c_int, msg: *mut msghdr, flags: c_int) -> ssize_t {
    // SAFETY: the caller passes valid pointers.
    let Some(msg) = (unsafe { msg.as_mut() }) else { return returns(Err::<(), _>(libc::EFAULT), |()| 0) };
    // SAFETY: the caller passes valid pointers.
    let got = unsafe { receive(door(userdata), fd, pieces(msg.msg_iov, msg.msg_iovlen), flags) };
    returns(got, |got| {
        let name = got.from.unwrap_or_default();
        let control: Vec<u8> = got.control.concat();
        // SAFETY: the pointers of the header are null, or valid for the lengths stored with them.
        unsafe {
            copy(&name, msg.msg_name, msg.msg_namelen as usize);
            msg.msg_controllen = copy(&control, msg.msg_control, msg.msg_controllen);
        }
        msg.msg_namelen = name.len() as socklen_t;
        msg.msg_flags = got.flags;
        got.len as ssize_t
    })
}

// SAFETY: the caller passes the `userdata` of a live instance, and valid pointers.
unsafe extern "C" fn write(userdata: *mut c_void, fd: c_int, buf: *const c_void, count: size_t) -> ssize_t {
    // SAFETY: the caller passes valid pointers.
    let door = unsafe { door(userdata) };
    if !door.has(fd) {
        // SAFETY: the caller passes valid pointers; the kernel checks the other arguments.
        return unsafe { libc::write(fd, buf, count) };
    }
    // SAFETY: the caller passes valid pointers.
    unsafe { send(userdata, fd, buf, count, 0) }
}

// SAFETY: the caller passes the `userdata` of a live instance, and valid pointers.
unsafe extern "C" fn writev(userdata: *mut c_void, fd: c_int, iov: *const iovec, count: c_int) -> ssize_t {
    // SAFETY: the caller passes valid pointers.
    let done = unsafe { gathered(pieces(iov, count.max(0) as usize)) };
    // SAFETY: the caller passes valid pointers.
    returns(done.and_then(|bytes| unsafe { door(userdata) }.send(fd, bytes, 0, None)), |n| n as ssize_t)
}

/// Concatenates the bytes of `pieces`.
///
/// # Safety
/// Each piece is readable.
unsafe fn gathered(pieces: &[iovec]) -> Done<Vec<u8>> {
    let mut out = Vec::new();
    for piece in pieces.iter().filter(|piece| piece.iov_len > 0) {
        // SAFETY: by the caller's contract.
        out.extend(unsafe { bytes(piece.iov_base, piece.iov_len) }.ok_or(libc::EFAULT)?);
    }
    Ok(out)
}

// SAFETY: the caller passes the `userdata` of a live instance, and valid pointers.
unsafe extern "C" fn send(userdata: *mut c_void, fd: c_int, buf: *const c_void, len: size_t, flags: c_int) -> ssize_t {
    // SAFETY: the caller passes valid pointers.
    unsafe { sendto(userdata, fd, buf, len, flags, ptr::null(), 0) }
}

// SAFETY: the caller passes the `userdata` of a live instance, and valid pointers.
unsafe extern "C" fn sendto(
    userdata: *mut c_void,
    fd: c_int,
    buf: *const c_void,
    len: size_t,
    flags: c_int,
    addr: *const sockaddr,
    addr_len: socklen_t,
) -> ssize_t {
    let piece = iovec { iov_base: buf.cast_mut(), iov_len: len };
    // SAFETY: the caller passes valid pointers.
    let (door, done, to) = unsafe { (door(userdata), gathered(&[piece]), bytes(addr.cast(), addr_len as usize)) };
    returns(done.and_then(|bytes| door.send(fd, bytes, flags, to)), |n| n as ssize_t)
}

// SAFETY: the caller passes the `userdata` of a live instance, and valid pointers.
unsafe extern "C" fn sendmsg(userdata: *mut c_void, fd: c_int, msg: *const msghdr, flags: c_int) -> ssize_t {
    // SAFETY: the caller passes valid pointers.
    let Some(msg) = (unsafe { msg.as_ref() }) else { return returns(Err::<(), _>(libc::EFAULT), |()| 0) };
    // SAFETY: the pointers of the header are null, or valid for the lengths stored with them.
    let (door, done, to) = unsafe {
        let pieces = pieces(msg.msg_iov, msg.msg_iovlen);
        (door(userdata), gathered(pieces), bytes(msg.msg_name, msg.msg_namelen as usize))
    };
    returns(done.and_then(|bytes| door.send(fd, bytes, flags, to)), |n| n as ssize_t)
}

// SAFETY: the caller passes the `userdata` of a live instance, and valid pointers.
unsafe extern "C" fn fcntl(userdata: *mut c_void, fd: c_int, command: c_int, arg: c_long) -> c_int {
    // SAFETY: the caller passes valid pointers.
    let door = unsafe { door(userdata) };
    if !door.has(fd) {
        // SAFETY: the kernel reads the argument only for commands that have one.
        return unsafe { libc::fcntl(fd, command, arg) };
    }
    returns(door.fcntl(fd, command, arg as c_int), |value| value)
}

// SAFETY: the caller passes the `userdata` of a live instance, and valid pointers.
unsafe extern "C" fn ioctl(userdata: *mut c_void, fd: c_int, request: c_ulong, arg: *mut c_void) -> c_int {
    // SAFETY: the caller passes valid pointers.
    let door = unsafe { door(userdata) };
    let arg: *mut c_int = arg.cast();
    // SAFETY: the argument is read only for supported requests, for all of which packetdrill passes
    // a pointer to an int.
    let given = match door.takes_int(request) {
        true => unsafe { arg.as_ref() }.copied(),
        false => None,
    };
    returns(door.ioctl(fd, request, given), |answer| {
        if let Some(answer) = answer {
            // SAFETY: an answer exists only if `arg` is a valid pointer to an int.
            unsafe { arg.write(answer) };
        }
        0
    })
}

// SAFETY: the caller passes the `userdata` of a live instance, and valid pointers.
unsafe extern "C" fn close(userdata: *mut c_void, fd: c_int) -> c_int {
    // SAFETY: the caller passes valid pointers.
    let door = unsafe { door(userdata) };
    if !door.has(fd) {
        // SAFETY: no pointers.
        return unsafe { libc::close(fd) };
    }
    zero(door.close(fd))
}

// SAFETY: the caller passes the `userdata` of a live instance, and valid pointers.
unsafe extern "C" fn shutdown(userdata: *mut c_void, fd: c_int, how: c_int) -> c_int {
    // SAFETY: the caller passes valid pointers.
    zero(unsafe { door(userdata) }.shutdown(fd, how))
}

// SAFETY: the caller passes the `userdata` of a live instance, and valid pointers.
pub(crate) unsafe extern "C" fn getsockopt(
    userdata: *mut c_void,
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    // SAFETY: the caller passes valid pointers.
    let Some(len) = (unsafe { len.as_mut() }) else { return zero(Err(libc::EFAULT)) };
    // SAFETY: the caller passes valid pointers.
    let done = unsafe { door(userdata) }.option(fd, level, name, *len as usize);
    returns(done, |bytes| {
        // SAFETY: `len` bytes are writable there.
        unsafe { copy(&bytes, value, *len as usize) };
        *len = bytes.len() as socklen_t;
        0
    })
}

// SAFETY: the caller passes the `userdata` of a live instance, and valid pointers.
unsafe extern "C" fn setsockopt(
    userdata: *mut c_void,
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: socklen_t,
) -> c_int {
    // SAFETY: the caller passes valid pointers.
    let (door, bytes) = unsafe { (door(userdata), bytes(value, len as usize)) };
    zero(bytes.ok_or(libc::EFAULT).and_then(|bytes| door.set_option(fd, level, name, bytes)))
}

// SAFETY: the caller passes the `userdata` of a live instance, and valid pointers.
unsafe extern "C" fn poll(userdata: *mut c_void, fds: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int {
    // SAFETY: the caller passes valid pointers.
    let fds = if fds.is_null() { &mut [] } else { unsafe { std::slice::from_raw_parts_mut(fds, count as usize) } };
    let mut polled: Vec<Polled> =
        fds.iter().map(|fd| Polled { token: fd.fd, requested: fd.events, reported: 0 }).collect();
    // SAFETY: the caller passes valid pointers.
    let n = unsafe { door(userdata) }.poll(&mut polled, timeout);
    for (fd, polled) in fds.iter_mut().zip(polled) {
        fd.revents = polled.reported;
    }
    n as c_int
}

// SAFETY: the caller passes the `userdata` of a live instance, and valid pointers.
unsafe extern "C" fn netdev_send(userdata: *mut c_void, packet: *const c_void, len: size_t) -> c_int {
    // SAFETY: the caller passes valid pointers.
    let (door, packet) = unsafe { (door(userdata), bytes(packet, len)) };
    zero(packet.ok_or(libc::EFAULT).and_then(|packet| door.send_packet(packet)))
}

/// Returns 0 bytes if no packet will come. packetdrill reports this as a missing packet instead of
/// waiting forever.
// SAFETY: the caller passes the `userdata` of a live instance, and valid pointers.
unsafe extern "C" fn netdev_receive(
    userdata: *mut c_void,
    packet: *mut c_void,
    len: *mut size_t,
    time_us: *mut c_longlong,
) -> c_int {
    // SAFETY: the caller passes valid pointers.
    let (door, Some(len), Some(time_us)) = (unsafe { (door(userdata), len.as_mut(), time_us.as_mut()) }) else {
        return zero(Err(libc::EFAULT));
    };
    let (us, bytes) = door.receive_packet().unwrap_or_default();
    // SAFETY: `len` bytes are writable there.
    *len = unsafe { copy(&bytes, packet, *len) };
    *time_us = us as c_longlong;
    0
}

// SAFETY: the caller passes the `userdata` of a live instance, and valid pointers.
unsafe extern "C" fn usleep(userdata: *mut c_void, us: useconds_t) -> c_int {
    // SAFETY: the caller passes valid pointers.
    unsafe { door(userdata) }.usleep(Duration::from_micros(us.into()));
    0
}

// SAFETY: the caller passes the `userdata` of a live instance, and valid pointers.
unsafe extern "C" fn gettimeofday(userdata: *mut c_void, tv: *mut timeval, _zone: *mut c_void) -> c_int {
    // SAFETY: the caller passes valid pointers.
    let (s, us) = unsafe { door(userdata) }.time();
    // SAFETY: the caller passes valid pointers.
    if let Some(tv) = unsafe { tv.as_mut() } {
        *tv = timeval { tv_sec: s as _, tv_usec: us as _ };
    }
    0
}

// SAFETY: the caller passes the `userdata` of a live instance, and valid pointers.
unsafe extern "C" fn epoll_create(userdata: *mut c_void, size: c_int) -> c_int {
    if size <= 0 {
        return zero(Err(libc::EINVAL));
    }
    // SAFETY: the caller passes valid pointers.
    returns(unsafe { door(userdata) }.epoll_create(), |token| token)
}

// SAFETY: the caller passes the `userdata` of a live instance, and valid pointers.
unsafe extern "C" fn epoll_ctl(
    userdata: *mut c_void,
    epoll: c_int,
    op: c_int,
    fd: c_int,
    event: *mut epoll_event,
) -> c_int {
    // SAFETY: the caller passes valid pointers.
    let event = unsafe { event.as_ref() }.map(|event| (event.events, event.u64));
    // SAFETY: the caller passes valid pointers.
    zero(unsafe { door(userdata) }.epoll_ctl(epoll, op, fd, event))
}

// SAFETY: the caller passes the `userdata` of a live instance, and valid pointers.
unsafe extern "C" fn epoll_wait(
    userdata: *mut c_void,
    epoll: c_int,
    events: *mut epoll_event,
    most: c_int,
    timeout: c_int,
) -> c_int {
    let most = match usize::try_from(most) {
        Ok(most @ 1..) if !events.is_null() => most,
        _ => return zero(Err(libc::EINVAL)),
    };
    // SAFETY: the caller passes valid pointers.
    returns(unsafe { door(userdata) }.epoll_wait(epoll, most, timeout), |reported| {
        for (at, (events_of, data)) in reported.iter().enumerate() {
            // SAFETY: there is space for `most` events, and no more are returned.
            unsafe { events.add(at).write(epoll_event { events: *events_of, u64: *data }) };
        }
        reported.len() as c_int
    })
}

/// Creates a kernel pipe, since it only transports bytes.
// SAFETY: the caller passes the `userdata` of a live instance, and valid pointers.
unsafe extern "C" fn pipe(_userdata: *mut c_void, fds: *mut c_int) -> c_int {
    // SAFETY: the caller passes valid pointers.
    unsafe { libc::pipe(fds) }
}

// SAFETY: the caller passes the `userdata` of a live instance, and valid pointers.
unsafe extern "C" fn splice(
    userdata: *mut c_void,
    from: c_int,
    off_from: *mut loff_t,
    to: c_int,
    off_to: *mut loff_t,
    len: size_t,
    flags: c_uint,
) -> ssize_t {
    // Sockets and pipes have no offsets. Where a script has NULL, packetdrill passes a pointer to a
    // 0 of its own, so the offsets are ignored for our sockets.
    // SAFETY: the caller passes valid pointers.
    let door = unsafe { door(userdata) };
    match (door.has(from), door.has(to)) {
        // SAFETY: the kernel checks its arguments.
        (false, false) => unsafe { libc::splice(from, off_from, to, off_to, len, flags) },
        (true, true) => returns(Err::<(), _>(libc::EINVAL), |()| 0), // one of them must be a pipe
        (true, false) => returns(door.splice_out(from, to, len, flags), |n| n as ssize_t),
        (false, true) => returns(door.splice_in(from, to, len, flags), |n| n as ssize_t),
    }
}
