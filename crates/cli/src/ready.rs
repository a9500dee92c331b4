//! `--ready-fd N`: a line break to an open descriptor once everything runs, for scripts and supervisors
//! (s6's notification protocol).

use crate::exit::Fault;
use anyhow::Context;
use node::run::Event;
use std::fs::{File, OpenOptions};
use std::io::Write;

/// Where readiness is told, and how many hosts and switches it takes.
pub struct Ready {
    to: Option<File>,
    missing: usize,
}

impl Ready {
    /// Takes descriptor `fd`, if one is given, for `parts` hosts and switches.
    ///
    /// # Errors
    /// A usage error: the descriptor is not open for writing.
    pub fn new(fd: Option<u32>, parts: usize) -> anyhow::Result<Ready> {
        let open = |fd: u32| OpenOptions::new().write(true).open(format!("/proc/self/fd/{fd}"));
        let to = fd.map(|fd| open(fd).map_err(|why| Fault::usage(format!("--ready-fd {fd}: {why}"))));
        Ok(Ready { to: to.transpose()?, missing: parts })
    }

    /// Notes an event of a host: the last one to run is told.
    ///
    /// # Errors
    /// The descriptor cannot be written to.
    pub fn note(&mut self, event: &Event) -> anyhow::Result<()> {
        if !matches!(event, Event::Running { .. }) {
            return Ok(());
        }
        self.missing = self.missing.saturating_sub(1);
        match self.to.take_if(|_| self.missing == 0) {
            Some(mut to) => to.write_all(b"\n").context("--ready-fd"),
            None => Ok(()),
        }
    }
}
