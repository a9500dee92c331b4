//! Internal crate of [linerate](https://docs.rs/linerate): its interface may change in any release.
//!
//! Runs the applications of the crate `apps` on hosts of a configuration, with any kind of locks,
//! on the threads that run these hosts. `apps` uses the library only; the code that needs the
//! parts of a host is here.
//!
//! ```text
//!  run::run             runs a host with one application from start to end
//!  servers::Servers     implements the services of the hosts in a configuration file
//!  streams::HostStreams sockets for applications; polling them runs the host
//!  netperf::OurSockets  sockets for netperf, netrate and workloads; netperf::serve: one end
//!  command              runs a program of the system on the sockets of a host
//!  testtool             the test tool of rump-pktgenif
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(
    not(any(test, fuzzing)),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unreachable)
)]

pub mod command;
pub mod netperf;
pub mod run;
pub mod servers;
pub mod streams;
pub mod testtool;

pub use run::{Ended, Role, RunError, everywhere, everywhere_of, run, run_as};
