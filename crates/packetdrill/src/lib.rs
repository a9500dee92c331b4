//! Our TCP behind packetdrill's shared-object interface: scripts that nobody here wrote run against it.
//!
//! ```text
//!  packetdrill --so_filename=liblinerate_packetdrill.so --so_flags=tcp_ecn=1 SCRIPT
//!
//!  face       the C face: pointers become slices, errors become errno; nothing is decided there
//!  calls      the calls by descriptor; what may wait, waits in door
//!  door       who waits for what, and time: it jumps (or passes), and everything due happens at its own instant
//!  host       one stack on one iface; packets from netdev_send, packets for netdev_receive
//!  files      descriptors: real ones of the kernel stand for our sockets
//!  options, info, addr   numbers and layouts of Linux's C interface
//!  flags, follow   knobs: from --so_flags, and from the sysctls that a script sets while it runs
//!  os         system calls on pipes and files
//!  interpose  what packetdrill asks the kernel directly about our descriptors
//! ```
//!
//! `docs/packetdrill.md` says how it is used. Everything runs under one mutex: packetdrill has one thread for the script and
//! one for a call that blocks.

mod addr;
mod calls;
mod door;
#[allow(unsafe_code)]
pub mod face;
mod files;
mod flags;
mod follow;
mod host;
mod info;
#[allow(unsafe_code)]
mod interpose;
mod options;
#[allow(unsafe_code)]
mod os;

/// A number of `errno`.
type Errno = i32;
