//! What programs ask of sockets, one file a question. One program, as what they call is compiled for each; `alloc` has an allocator of its own.

mod common;

mod ancillary;
mod bind;
mod limits;
mod raw;
mod ready;
mod resolve;
mod shared;
mod streams;
