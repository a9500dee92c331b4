//! Static tracepoints (USDT), provider `linerate`: the points that rump2014 had LTTng for. See
//! docs/tracing.md.
//!
//! A point is one `nop` in the code and a note of version 3 in the ELF section `.note.stapsdt`,
//! which perf, bpftrace, gdb and SystemTap read. They replace the `nop` by a trap while they are
//! attached; otherwise nothing is called and nothing is tested. Arguments are 8-byte integers in
//! registers. On other targets than Linux on x86-64 a point is nothing.
//!
//! The crate `probe` emits the same notes, but lets its assembly read memory. The compiler then has
//! every value in memory before each point. Here `nomem` leaves values in registers; a `sendto` with
//! its three points has 16 instructions more than without (docs/decisions/0022).
#![allow(unsafe_code)] // inline assembly

use crate::DropReason;

/// One point: its name, and its arguments with the size that the note states (negative: signed).
macro_rules! point {
    ($name:literal $(, $size:literal @ $arg:expr)+) => {
        #[cfg(all(target_arch = "x86_64", target_os = "linux", not(miri)))]
        // SAFETY: one `nop` is executed; the rest goes to sections that are not loaded, or not
        // executed.
        unsafe {
            std::arch::asm!(
                "771: nop",
                // In the group of the function's section, so that it goes where the function goes.
                ".pushsection .note.stapsdt, \"?\", \"note\"",
                ".balign 4",
                ".4byte 773f - 772f, 775f - 774f, 3",
                "772: .asciz \"stapsdt\"",
                "773: .balign 4",
                // The place, the base that tells by how much a prelinker moved it, no semaphore.
                "774: .8byte 771b, _.stapsdt.base, 0",
                concat!(".asciz \"linerate\", \"", $name, "\", \"", point!(@list $($size),+), "\""),
                "775: .balign 4",
                ".popsection",
                ".ifndef _.stapsdt.base",
                ".pushsection .stapsdt.base, \"aG\", \"progbits\", .stapsdt.base, comdat",
                ".weak _.stapsdt.base",
                ".hidden _.stapsdt.base",
                "_.stapsdt.base: .space 1",
                ".size _.stapsdt.base, 1",
                ".popsection",
                ".endif",
                $(in(reg) $arg as u64,)+
                options(att_syntax, nomem, nostack, preserves_flags)
            );
        }
        #[cfg(not(all(target_arch = "x86_64", target_os = "linux", not(miri))))]
        let _ = ($($arg,)+);
    };
    (@list $first:literal $(, $size:literal)*) => { concat!($first, "@{}" $(, " ", $size, "@{}")*) };
}

/// `sendto` or `send` begins: descriptor, bytes of payload.
#[inline(always)]
pub fn sendto_start(fd: usize, len: usize) {
    point!("sendto_start", "8" @ fd, "8" @ len);
}

/// `sendto` or `send` returns: descriptor, bytes sent or a negative errno.
#[inline(always)]
pub fn sendto_done(fd: usize, result: isize) {
    point!("sendto_done", "8" @ fd, "-8" @ result);
}

/// `recvfrom` or `recv` begins: descriptor, bytes that fit.
#[inline(always)]
pub fn recvfrom_start(fd: usize, room: usize) {
    point!("recvfrom_start", "8" @ fd, "8" @ room);
}

/// `recvfrom` or `recv` returns: descriptor, bytes received or a negative errno.
#[inline(always)]
pub fn recvfrom_done(fd: usize, result: isize) {
    point!("recvfrom_done", "8" @ fd, "-8" @ result);
}

/// A host made a buffer for a datagram or segment of its own: the pool's number.
#[inline(always)]
pub fn buffer_made(pool: u16) {
    point!("buffer_made", "8" @ pool);
}

/// A port's burst was delivered to the stack: the iface's number, frames.
#[inline(always)]
pub fn burst_delivered(iface: u16, frames: usize) {
    point!("burst_delivered", "8" @ iface, "8" @ frames);
}

/// A frame was dropped: the reason's number, and its dotted name as address and length.
#[inline]
pub(crate) fn frame_dropped(why: DropReason) {
    let name = why.name();
    point!("frame_dropped", "8" @ why as u8, "8" @ name.as_ptr(), "8" @ name.len());
}
