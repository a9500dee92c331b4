//! Internal crate of [linerate](https://docs.rs/linerate): its interface may change in any release.
//!
//! Threads and the distribution of frames to them: pinned workers, netisr, polling, dataflow. Also
//! waiting, stopping, and the rights of the process.
//!
//! Contains the parts that every host needs: a thread that is pinned to a core, sleeping until a
//! port has frames, and a clean end on Ctrl-C. It also measures the processor time of a thread, and
//! how long the thread waited for a core. Finally, it implements the dispatch policies and polling
//! modes that measurements compare.
#![deny(unsafe_code)]

mod affinity;
pub mod dataflow;
pub mod netisr;
pub mod polling;
#[allow(unsafe_code)] // unsafe code is confined here: capset, prctl, seccomp, signal handlers
pub mod sandbox;
mod stop;
mod usage;
mod wait;
mod worker;

pub use affinity::{Pinned, core_at, cores, last_core, other_core, pin_to_core, pinned_to_core};
pub use stop::{install_reload_handler, install_stop_handler, reloads_requested, request_stop, stop_requested};
pub use usage::{context_switches, monotonic_us, process_cpu_s, thread_cpu_ns, thread_delay_ns};
pub use wait::wait_readable;
pub use worker::{OnThread, on_thread, spawn_scoped, spawn_worker};
