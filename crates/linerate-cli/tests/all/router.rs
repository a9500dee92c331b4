//! The router of `linerate` compared with the kernel's.

mod twin;
