//! Redirects calls that packetdrill makes directly to the kernel for our descriptors: `getsockopt`,
//! whose values scripts check, and `sendfile`.
//!
//! Uses unsafe code. packetdrill makes both calls outside its interface. This module changes the
//! program's relocation slots for the two symbols, which the dynamic linker has set to the
//! functions of the C library. The replacements handle our descriptors and pass all other
//! descriptors to the kernel. `interpose=0` leaves the program unchanged. A statically linked
//! program has no such slots and also stays unchanged.

use crate::door::Door;
use crate::face;
use libc::{c_char, c_int, c_void, dl_phdr_info, off_t, size_t, socklen_t, ssize_t};
use std::ffi::CStr;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Addresses of the instances whose descriptors are handled. They are in a static variable, since
/// the C library's functions, unlike those of the interface, have no userdata argument.
static DOORS: Mutex<Vec<usize>> = Mutex::new(Vec::new());

fn doors() -> MutexGuard<'static, Vec<usize>> {
    DOORS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An entry of a program's dynamic section.
#[repr(C)]
struct Dyn {
    tag: i64,
    value: u64,
}

/// A relocation: offset, symbol and type, addend.
#[repr(C)]
struct Rela {
    offset: u64,
    info: u64,
    addend: i64,
}

/// A symbol; only its name is used.
#[repr(C)]
struct Sym {
    name: u32,
    rest: [u32; 5],
}

const DT_PLTRELSZ: i64 = 2;
const DT_STRTAB: i64 = 5;
const DT_SYMTAB: i64 = 6;
const DT_RELA: i64 = 7;
const DT_RELASZ: i64 = 8;
const DT_JMPREL: i64 = 23;

/// Relocation types that set a slot to a function's address.
#[cfg(target_arch = "x86_64")]
const SLOTS: &[u32] = &[6, 7]; // GLOB_DAT, JUMP_SLOT
#[cfg(target_arch = "aarch64")]
const SLOTS: &[u32] = &[1025, 1026];
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const SLOTS: &[u32] = &[];

/// Redirects the calls on descriptors of `door` to this module.
///
/// # Safety
/// `door` must exist until [`remove`] is called.
pub(crate) unsafe fn install(door: *mut Door) {
    doors().push(door as usize);
    // SAFETY: `program` reads only what the dynamic linker passes to it.
    unsafe { libc::dl_iterate_phdr(Some(program), ptr::null_mut()) };
}

/// Ends the redirection of calls on descriptors of `door`.
pub(crate) fn remove(door: *mut Door) {
    doors().retain(|one| *one != door as usize);
}

/// Returns the replacement for a symbol.
fn ours(symbol: &CStr) -> Option<*mut c_void> {
    match symbol.to_bytes() {
        b"getsockopt" => Some(getsockopt as *mut c_void),
        b"sendfile" | b"sendfile64" => Some(sendfile as *mut c_void),
        _ => None,
    }
}

/// Callback for each loaded object. The first object is the program; the result 1 ends the
/// iteration after it.
///
/// # Safety
/// `info` comes from the dynamic linker.
unsafe extern "C" fn program(info: *mut dl_phdr_info, _size: size_t, _data: *mut c_void) -> c_int {
    // SAFETY: the dynamic linker's description of a loaded program: its headers, and what they
    // point to, are mapped.
    unsafe {
        let info = &*info;
        let headers = std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into());
        if let Some(header) = headers.iter().find(|header| header.p_type == libc::PT_DYNAMIC) {
            fill(info.dlpi_addr, (info.dlpi_addr + header.p_vaddr) as *const Dyn);
        }
    }
    1
}

/// Sets the slots of the program at `base`.
///
/// # Safety
/// `dynamic` is the dynamic section of this program.
unsafe fn fill(base: u64, dynamic: *const Dyn) {
    let (mut symbols, mut names) = (0, 0);
    let mut tables = [(0, 0), (0, 0)];
    let mut entry = dynamic;
    // The section's addresses are already absolute if the dynamic linker has relocated them.
    let absolute = |at: u64| if at < base { base + at } else { at };
    // SAFETY: the section ends with an entry of tag 0.
    while let Dyn { tag: tag @ 1.., value } = unsafe { entry.read() } {
        match tag {
            DT_SYMTAB => symbols = absolute(value),
            DT_STRTAB => names = absolute(value),
            DT_RELA => tables[0].0 = absolute(value),
            DT_RELASZ => tables[0].1 = value,
            DT_JMPREL => tables[1].0 = absolute(value),
            DT_PLTRELSZ => tables[1].1 = value,
            _ => {}
        }
        // SAFETY: this was not the last entry.
        entry = unsafe { entry.add(1) };
    }
    for (table, bytes) in tables {
        if table == 0 || symbols == 0 || names == 0 {
            continue;
        }
        let count = bytes as usize / size_of::<Rela>();
        // SAFETY: the dynamic section describes a table of this size.
        for rela in unsafe { std::slice::from_raw_parts(table as *const Rela, count) } {
            if !SLOTS.contains(&(rela.info as u32)) {
                continue;
            }
            // SAFETY: a relocation's symbol is in the symbol table, and its name in the string
            // table.
            let name = unsafe {
                let symbol = &*(symbols as *const Sym).add((rela.info >> 32) as usize);
                CStr::from_ptr((names as *const c_char).add(symbol.name as usize))
            };
            if let Some(function) = ours(name) {
                // SAFETY: the slot is for a function of this name and type.
                unsafe { write_slot((base + rela.offset) as *mut *mut c_void, function) };
            }
        }
    }
}

/// Writes a relocation slot, which the dynamic linker may have made read-only (RELRO).
///
/// # Safety
/// `slot` is a relocation slot of the program, and `function` has the type of the slot's function.
unsafe fn write_slot(slot: *mut *mut c_void, function: *mut c_void) {
    // SAFETY: no pointers.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) }.max(4096) as usize;
    let start = slot as usize & !(page - 1);
    // SAFETY: the page is the program's own and readable, and contains no code.
    if unsafe { libc::mprotect(start as *mut c_void, page, libc::PROT_READ | libc::PROT_WRITE) } == 0 {
        // SAFETY: writable now; an aligned pointer, read by others atomically.
        unsafe { AtomicPtr::from_ptr(slot) }.store(function, Ordering::Release);
    }
}

/// Returns the instance that owns `fd`.
fn owner(fd: c_int) -> Option<&'static Door> {
    // SAFETY: the caller of `install` guarantees that the door lives until it is removed.
    doors().iter().filter_map(|door| unsafe { (*door as *const Door).as_ref() }).find(|door| door.has(fd))
}

/// Replacement of the C library's `getsockopt`.
///
/// # Safety
/// The pointers are valid for getsockopt(2).
unsafe extern "C" fn getsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    match owner(fd) {
        // SAFETY: the caller's pointers are valid for getsockopt(2).
        Some(door) => unsafe { face::getsockopt(ptr::from_ref(door).cast_mut().cast(), fd, level, name, value, len) },
        // The symbol of the C library may refer to this function, so the system call is used.
        // SAFETY: the kernel checks the arguments.
        None => unsafe { libc::syscall(libc::SYS_getsockopt, fd, level, name, value, len) as c_int },
    }
}

/// Replacement of the C library's `sendfile`.
///
/// # Safety
/// The pointer is valid for sendfile(2).
unsafe extern "C" fn sendfile(to: c_int, from: c_int, offset: *mut off_t, count: size_t) -> ssize_t {
    match owner(to) {
        // SAFETY: `offset` is null or a valid pointer of the caller.
        Some(door) => face::returns(door.sendfile(to, from, unsafe { offset.as_mut() }, count), |n| n as ssize_t),
        // SAFETY: the kernel checks the arguments.
        None => unsafe { libc::syscall(libc::SYS_sendfile, to, from, offset, count) as ssize_t },
    }
}
