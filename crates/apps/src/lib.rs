//! Programs on our sockets.
//!
//! [`testtool`] is rump2014's: it sends, receives or routes UDP as fast as the stack can and prints the report's result
//! block. More programs come with TCP.
#![forbid(unsafe_code)]

pub mod testtool;
