//! The part of bpf(2) that AF_XDP needs: a map of sockets, a program that passes each frame of a
//! device to the socket of its queue, and a link. The program stays on the device as long as a
//! process has the link open.
//!
//! The program has six instructions, encoded by hand (RFC 9669). Frames of queues without a socket
//! continue to the kernel's stack. The numbers are from linux/bpf.h.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

const MAP_CREATE: i32 = 0;
const MAP_UPDATE_ELEM: i32 = 2;
const PROG_LOAD: i32 = 5;
const PROG_GET_FD_BY_ID: i32 = 13;
const MAP_GET_FD_BY_ID: i32 = 14;
const OBJ_GET_INFO_BY_FD: i32 = 15;
const LINK_CREATE: i32 = 28;
const LINK_GET_FD_BY_ID: i32 = 30;
const LINK_GET_NEXT_ID: i32 = 31;

const MAP_TYPE_XSKMAP: u32 = 17;
const PROG_TYPE_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;
const LINK_TYPE_XDP: u32 = 6;
const FUNC_REDIRECT_MAP: i32 = 51;
const PSEUDO_MAP_FD: u8 = 1;
const XDP_PASS: i32 = 2;
/// Offset of `rx_queue_index` in `struct xdp_md`.
const RX_QUEUE_INDEX: i16 = 16;

/// Number of entries in the map, one per queue of the device.
pub const QUEUES: u32 = 256;
/// Name of the program and of its map, by which other linerate processes recognize them.
const NAME: &[u8; 16] = b"linerate_xdp\0\0\0\0";

/// Step name: creating the map of sockets.
pub const STEP_MAP: &str = "BPF_MAP_CREATE";
/// Step name: loading the program.
pub const STEP_LOAD: &str = "BPF_PROG_LOAD";
/// Step name: attaching the program to the device.
pub const STEP_ATTACH: &str = "BPF_LINK_CREATE";
/// Step name: inserting a socket into the map.
pub const STEP_INSERT: &str = "BPF_MAP_UPDATE_ELEM";

/// Hook at which the XDP program runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hook {
    /// In the driver, before the kernel builds a packet from the frame.
    Native,
    /// In the kernel's receive path. This works with any driver.
    Generic,
}

/// A program on a device, with its map. The kernel removes the program when its last owner drops
/// it.
#[derive(Debug)]
pub struct Redirect {
    map: OwnedFd,
    _link: OwnedFd,
}

/// An argument of bpf(2): the words of the command's part of `union bpf_attr`, in their order and
/// width, followed by zeros.
#[repr(C, align(8))]
struct Attr([u8; 128]);

impl Attr {
    fn of(parts: &[&[u8]]) -> Attr {
        let mut attr = Attr([0; 128]);
        attr.0.iter_mut().zip(parts.iter().copied().flatten()).for_each(|(to, byte)| *to = *byte);
        attr
    }
}

fn word(value: u32) -> [u8; 4] {
    value.to_ne_bytes()
}

fn fd_word(fd: BorrowedFd<'_>) -> [u8; 4] {
    fd.as_raw_fd().to_ne_bytes()
}

fn pointer<T>(to: *const T) -> [u8; 8] {
    (to as u64).to_ne_bytes()
}

/// Calls bpf(2). Returns the result of the command.
///
/// # Safety
/// Pointers in `attr` must be to live memory of the lengths given in `attr`.
unsafe fn bpf(command: i32, attr: &mut Attr) -> io::Result<i32> {
    let len = size_of::<Attr>();
    // SAFETY: the attribute is alive and `len` bytes long, and the caller guarantees its pointers.
    let answer = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(attr), len) };
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(answer as i32) }
}

/// Calls bpf(2) with a command that returns a descriptor.
///
/// # Safety
/// The conditions of [`bpf`], and the command must return a new descriptor.
unsafe fn bpf_fd(command: i32, attr: &mut Attr) -> io::Result<OwnedFd> {
    // SAFETY: guaranteed by the caller; the descriptor is new and has no other owner.
    unsafe { bpf(command, attr).map(|fd| OwnedFd::from_raw_fd(fd)) }
}

/// Memory layout of the frames passed to the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extent {
    /// One buffer per frame. A device rejects this program if its MTU does not fit in one buffer.
    Whole,
    /// Several buffers for a long frame (since Linux 5.18).
    Pieces,
}

/// Flag of a program that accepts frames in several buffers (`BPF_F_XDP_HAS_FRAGS`).
const XDP_HAS_FRAGS: u32 = 1 << 5;

impl Redirect {
    /// Attaches the program to a device. `present` is the number of the program that is already
    /// attached, if any. If that is a program of linerate (of another port or process), it is
    /// shared.
    ///
    /// # Errors
    /// The failed step and its error. EBUSY or EEXIST at [`STEP_ATTACH`] means that the device has
    /// another program.
    pub fn attach(
        ifindex: u32,
        hook: Hook,
        present: Option<u32>,
        extent: Extent,
    ) -> Result<Redirect, (&'static str, io::Error)> {
        if let Some(shared) = present.and_then(|program| shared(ifindex, program)) {
            return Ok(shared);
        }
        let map = create_map().map_err(|error| (STEP_MAP, error))?;
        let program = load(map.as_fd(), extent).map_err(|error| (STEP_LOAD, error))?;
        let link = link(program.as_fd(), ifindex, hook).map_err(|error| (STEP_ATTACH, error))?;
        Ok(Redirect { map, _link: link })
    }

    /// Redirects the frames of `queue` to `socket`.
    ///
    /// # Errors
    /// E2BIG if the map has no entry for this queue number.
    pub fn insert(&self, queue: u32, socket: BorrowedFd<'_>) -> io::Result<()> {
        let (key, value) = (word(queue), fd_word(socket));
        let parts: [&[u8]; 4] = [&fd_word(self.map.as_fd()), &word(0), &pointer(&key), &pointer(&value)];
        // SAFETY: key and value live across the call and have the map's sizes, four bytes each.
        unsafe { bpf(MAP_UPDATE_ELEM, &mut Attr::of(&parts)) }.map(drop)
    }
}

fn create_map() -> io::Result<OwnedFd> {
    // Fields: map_type, key_size, value_size, max_entries, map_flags, inner_map_fd, numa_node,
    // map_name.
    let head: Vec<u8> = [MAP_TYPE_XSKMAP, 4, 4, QUEUES, 0, 0, 0].into_iter().flat_map(word).collect();
    // SAFETY: the attribute contains no pointers.
    unsafe { bpf_fd(MAP_CREATE, &mut Attr::of(&[&head, NAME])) }
}

/// Encodes one instruction: opcode, registers, offset, immediate.
fn instruction(opcode: u8, dst: u8, src: u8, offset: i16, immediate: i32) -> [u8; 8] {
    let mut bytes = [opcode, src << 4 | dst, 0, 0, 0, 0, 0, 0];
    let tail = offset.to_ne_bytes().into_iter().chain(immediate.to_ne_bytes());
    bytes.iter_mut().skip(2).zip(tail).for_each(|(to, byte)| *to = byte);
    bytes
}

/// Returns the code of `return bpf_redirect_map(&map, ctx->rx_queue_index, XDP_PASS)`. If there is
/// no entry for the queue, the helper returns its last argument.
fn program(map: i32) -> Vec<u8> {
    const LDX_W: u8 = 0x61;
    const LD_DW: u8 = 0x18;
    const MOV_K: u8 = 0xb7;
    const CALL: u8 = 0x85;
    const EXIT: u8 = 0x95;
    [
        instruction(LDX_W, 2, 1, RX_QUEUE_INDEX, 0),
        instruction(LD_DW, 1, PSEUDO_MAP_FD, 0, map),
        instruction(0, 0, 0, 0, 0), // the upper half of the immediate
        instruction(MOV_K, 3, 0, 0, XDP_PASS),
        instruction(CALL, 0, 0, 0, FUNC_REDIRECT_MAP),
        instruction(EXIT, 0, 0, 0, 0),
    ]
    .concat()
}

fn load(map: BorrowedFd<'_>, extent: Extent) -> io::Result<OwnedFd> {
    let program = program(map.as_raw_fd());
    let license = c"Dual MIT/GPL";
    let count = word((program.len() / 8) as u32);
    let (code, license) = (pointer(program.as_ptr()), pointer(license.as_ptr()));
    // Fields: prog_type, insn_cnt, insns, license, log_level, log_size, log_buf, kern_version,
    // prog_flags, prog_name.
    let flags = word(if extent == Extent::Pieces { XDP_HAS_FRAGS } else { 0 });
    let parts: [&[u8]; 7] = [&word(PROG_TYPE_XDP), &count, &code, &license, &[0; 20], &flags, NAME];
    // SAFETY: program and license live across the call; their lengths are given by the count and
    // the final NUL.
    unsafe { bpf_fd(PROG_LOAD, &mut Attr::of(&parts)) }
}

fn link(program: BorrowedFd<'_>, ifindex: u32, hook: Hook) -> io::Result<OwnedFd> {
    let flags: u32 = match hook {
        Hook::Generic => 1 << 1, // XDP_FLAGS_SKB_MODE
        Hook::Native => 1 << 2,  // XDP_FLAGS_DRV_MODE
    };
    let parts: [&[u8]; 4] = [&fd_word(program), &word(ifindex), &word(ATTACH_XDP), &word(flags)];
    // SAFETY: the attribute contains no pointers.
    unsafe { bpf_fd(LINK_CREATE, &mut Attr::of(&parts)) }
}

/// Returns the link that keeps `program` on a device, and the program's map. Returns `None` if it
/// is not a program of linerate, or is not visible to this process (which requires CAP_SYS_ADMIN).
fn shared(ifindex: u32, program: u32) -> Option<Redirect> {
    let map = map_of(program)?;
    let mut id = 0;
    // Other processes may add links at the same time, so the loop ends after more links than any
    // machine has.
    for _ in 0..65_536 {
        id = next_link(id)?;
        let Some(link) = by_id(LINK_GET_FD_BY_ID, id) else { continue };
        // Fields of struct bpf_link_info: type, id, prog_id, and, for an XDP link, ifindex at byte
        // 16.
        let Some(info) = info_of(link.as_fd(), [0; 32]) else { continue };
        if (at(&info, 0), at(&info, 8), at(&info, 16)) == (LINK_TYPE_XDP, program, ifindex) {
            return Some(Redirect { map, _link: link });
        }
    }
    None
}

/// Returns the map of the program with the number `id`, if the map's name is [`NAME`].
fn map_of(id: u32) -> Option<OwnedFd> {
    let program = by_id(PROG_GET_FD_BY_ID, id)?;
    let mut maps = [0u32; 1];
    // Fields of struct bpf_prog_info: nr_map_ids at byte 52, map_ids at 56, name at 64.
    let mut requested = [0u8; 80];
    requested.get_mut(52..56)?.copy_from_slice(&word(1));
    requested.get_mut(56..64)?.copy_from_slice(&pointer(maps.as_mut_ptr()));
    let info = info_of(program.as_fd(), requested)?;
    if at(&info, 52) != 1 || info.get(64..80) != Some(&NAME[..]) {
        return None;
    }
    let [map] = maps;
    by_id(MAP_GET_FD_BY_ID, map)
}

fn next_link(after: u32) -> Option<u32> {
    let mut attr = Attr::of(&[&word(after)]); // start_id, next_id
    // SAFETY: the attribute contains no pointers.
    unsafe { bpf(LINK_GET_NEXT_ID, &mut attr) }.ok()?;
    Some(at(&attr.0, 4))
}

fn by_id(command: i32, id: u32) -> Option<OwnedFd> {
    // SAFETY: the attribute contains no pointers.
    unsafe { bpf_fd(command, &mut Attr::of(&[&word(id)])) }.ok()
}

/// Reads information about an object. `requested` may contain a pointer to an array, and the
/// array's length.
fn info_of<const N: usize>(fd: BorrowedFd<'_>, mut requested: [u8; N]) -> Option<[u8; N]> {
    let into = pointer(requested.as_mut_ptr());
    let parts: [&[u8]; 3] = [&fd_word(fd), &word(N as u32), &into];
    // SAFETY: `requested` is alive during the call and N bytes long. The only pointer that it can
    // contain is set by `map_of`, and points to a live array of the stated length.
    unsafe { bpf(OBJ_GET_INFO_BY_FD, &mut Attr::of(&parts)) }.ok()?;
    Some(requested)
}

/// Returns the 32-bit word at byte offset `place`; 0 beyond the end.
fn at(bytes: &[u8], place: usize) -> u32 {
    bytes.get(place..).and_then(|rest| rest.first_chunk()).map_or(0, |word| u32::from_ne_bytes(*word))
}
