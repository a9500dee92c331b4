//! Tests of the socket calls, one file per subject. They are built as one program, since the code
//! under test is compiled for each program. The program `alloc` is separate, since it replaces the
//! allocator.

mod common;

mod ancillary;
mod bind;
mod limits;
mod raw;
mod ready;
mod resolve;
mod shared;
mod streams;
mod tasks;
