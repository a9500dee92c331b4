//! Static tracepoints (USDT) of the provider `linerate`. See docs/tracing.md.
//!
//! A tracepoint is one `nop` in the code, and a note (version 3) in the ELF section
//! `.note.stapsdt`, which perf, bpftrace, gdb and SystemTap read. These tracers replace the `nop`
//! by a trap while they are attached. All tracepoints share one semaphore, which is the number of
//! attached tracers and is maintained by the kernel. It is stored next to the number of active
//! ledgers, so that one compare and one branch cover both numbers ([`crate::Ledger::lap_at`],
//! [`crate::Lap::mark_at`]). Arguments are 8-byte integers in registers, computed after that
//! branch. On targets other than Linux on x86-64, tracepoints compile to nothing.
//!
//! The crate `probe` is not used, because it emits notes without a semaphore: a `nop` whose
//! arguments must always be in registers costs more than the compare (docs/decisions/0022).
#![allow(unsafe_code)] // inline assembly

use crate::DropReason;
use core::sync::atomic::{AtomicU16, AtomicU32, Ordering};

/// Numbers of attached tracers and of active ledgers. While both numbers are 0, no tracepoint fires
/// and no ticks are booked.
#[repr(C, align(8))]
struct Hooks {
    /// Number of attached tracers. The kernel counts them in every process that runs the program
    /// file.
    tracers: AtomicU16,
    /// Number of ledgers that are switched on.
    ledgers: AtomicU32,
}

#[cfg(all(target_arch = "x86_64", target_os = "linux", not(miri)))]
mod hooks {
    use super::Hooks;

    core::arch::global_asm!(
        ".pushsection .probes, \"aw\", \"progbits\"",
        ".balign 8",
        ".globl linerate_hooks",
        ".hidden linerate_hooks",
        ".type linerate_hooks, @object",
        ".size linerate_hooks, 8",
        "linerate_hooks: .8byte 0",
        ".popsection",
    );

    // SAFETY: the assembly above defines the symbol with this size and alignment, and zero is a
    // valid value.
    unsafe extern "C" {
        #[link_name = "linerate_hooks"]
        pub(super) safe static HOOKS: Hooks;
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(super) fn any() -> bool {
        // SAFETY: reads the eight bytes of `HOOKS`. In this assembly, their address is part of the
        // compare instruction; the compiler would load the address of a static from the global
        // offset table. `nomem` allows values to stay in registers across the compare; as a
        // consequence, this thread may notice its own change one mark late.
        unsafe {
            core::arch::asm!(
                "cmpq $0, linerate_hooks(%rip)",
                "jne {any}",
                any = label {
                    crate::hint::cold_path();
                    return true;
                },
                options(att_syntax, nomem, nostack)
            );
        }
        false
    }
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux", not(miri))))]
mod hooks {
    use super::{AtomicU16, AtomicU32, Hooks, Ordering};

    pub(super) static HOOKS: Hooks = Hooks { tracers: AtomicU16::new(0), ledgers: AtomicU32::new(0) };

    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(super) fn any() -> bool {
        if HOOKS.ledgers.load(Ordering::Relaxed) != 0 {
            crate::hint::cold_path();
            return true;
        }
        false
    }
}

/// Returns whether a tracer is attached or a ledger is on.
#[inline(always)]
pub(crate) fn is_hooked() -> bool {
    hooks::any()
}

/// Returns whether a tracer is attached to any point.
#[inline(always)]
fn is_attached() -> bool {
    is_hooked() && hooks::HOOKS.tracers.load(Ordering::Relaxed) != 0
}

/// Returns the number of ledgers that are on.
#[cfg(test)]
pub(crate) fn ledgers() -> u32 {
    hooks::HOOKS.ledgers.load(Ordering::Relaxed)
}

/// Updates the number of active ledgers when a ledger is switched on or off.
#[cfg(feature = "std")]
pub(crate) fn count_ledger(on: bool) {
    let ledgers = &hooks::HOOKS.ledgers;
    if on {
        ledgers.fetch_add(1, Ordering::Relaxed)
    } else {
        ledgers.fetch_sub(1, Ordering::Relaxed)
    };
}

/// Emits one tracepoint. Its arguments are the name, then each value with its size as written in
/// the note (negative: signed).
macro_rules! point {
    ($name:literal $(, $size:literal @ $arg:expr)+) => {
        #[cfg(all(target_arch = "x86_64", target_os = "linux", not(miri)))]
        // SAFETY: one `nop` is executed; the rest goes to sections that are not loaded or not
        // executed.
        unsafe {
            core::arch::asm!(
                "771: nop",
                // The note is in the section group of the function, so that the linker keeps or
                // drops both together.
                ".pushsection .note.stapsdt, \"?\", \"note\"",
                ".balign 4",
                ".4byte 773f - 772f, 775f - 774f, 3",
                "772: .asciz \"stapsdt\"",
                "773: .balign 4",
                // Address of the tracepoint, base address (to correct for prelinking), and
                // semaphore.
                "774: .8byte 771b, _.stapsdt.base, linerate_hooks",
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

/// Fires at the start of `sendto` or `send`. Arguments: descriptor, payload length in bytes.
#[inline(always)]
pub fn sendto_start(fd: usize, len: usize) {
    if is_attached() {
        point!("sendto_start", "8" @ fd, "8" @ len);
    }
}

/// Fires at the end of `sendto` or `send`. Arguments: descriptor, bytes sent or a negative errno.
#[inline(always)]
pub fn sendto_done(fd: usize, result: isize) {
    if is_attached() {
        point!("sendto_done", "8" @ fd, "-8" @ result);
    }
}

/// Fires at the start of `recvfrom` or `recv`. Arguments: descriptor, buffer size in bytes.
#[inline(always)]
pub fn recvfrom_start(fd: usize, room: usize) {
    if is_attached() {
        point!("recvfrom_start", "8" @ fd, "8" @ room);
    }
}

/// Fires at the end of `recvfrom` or `recv`. Arguments: descriptor, bytes received or a negative
/// errno.
#[inline(always)]
pub fn recvfrom_done(fd: usize, result: isize) {
    if is_attached() {
        point!("recvfrom_done", "8" @ fd, "-8" @ result);
    }
}

/// Fires when a host allocates a buffer for a datagram or segment to send. Argument: number of the
/// pool.
#[inline(always)]
pub fn buffer_made(pool: impl FnOnce() -> u16) {
    if is_attached() {
        point!("buffer_made", "8" @ pool());
    }
}

/// Fires when a burst from a port is delivered to the stack. Arguments: number of the interface,
/// number of frames.
#[inline(always)]
pub fn burst_delivered(iface: u16, frames: usize) {
    if is_attached() {
        point!("burst_delivered", "8" @ iface, "8" @ frames);
    }
}

/// Fires when a frame is dropped. Arguments: number of the reason, and address and length of the
/// reason's dotted name.
#[inline]
pub(crate) fn frame_dropped(why: DropReason) {
    if is_attached() {
        let name = why.name();
        point!("frame_dropped", "8" @ why as u8, "8" @ name.as_ptr(), "8" @ name.len());
    }
}
