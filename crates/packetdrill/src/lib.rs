//! Our TCP stack as a shared object for packetdrill, so that third-party scripts can be run against
//! it.
//!
//! ```text
//!  packetdrill --so_filename=liblinerate_packetdrill.so --so_flags=tcp_ecn=1 SCRIPT
//!
//!  face       C interface: pointers become slices, errors become errno
//!  calls      socket calls by descriptor; door implements blocking
//!  door       blocking calls and time: virtual (or live), each event at its own time
//!  host       configures the host under test (pkt::host), and adds addresses that scripts use
//!  files      descriptors: each of our sockets has a real kernel descriptor
//!  options, info, addr   numbers and layouts of Linux's C interface
//!  flags, follow   sysctls: from --so_flags, and from sysctls set by a running script
//!  os         system calls on pipes and files
//!  interpose  redirects packetdrill's direct system calls for our descriptors
//! ```
//!
//! `docs/packetdrill.md` describes the usage. Everything runs under one mutex, since packetdrill
//! has only one thread for the script and one for a blocking call.

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

/// An `errno` value.
type Errno = i32;
