//! `--ready-fd N`: writes a line break to an open descriptor once everything runs, for scripts and
//! supervisors (s6's notification protocol).

use crate::exit::Fault;
use anyhow::Context;
use node::run::Event;
use std::fs::File;
use std::io::Write;

/// Descriptor to notify, and the number of hosts and switches that do not run yet.
pub struct Ready {
    to: Option<File>,
    missing: usize,
}

impl Ready {
    /// Takes ownership of descriptor `fd`, if one is given, to notify it once `parts` hosts and
    /// switches run.
    ///
    /// # Errors
    /// Usage error: the descriptor was not open for writing when the program began, or is 0 to 2.
    pub fn new(fd: Option<u32>, parts: usize) -> anyhow::Result<Ready> {
        let take = |fd: u32| port::os::inherited_for_writing(i32::try_from(fd).unwrap_or(i32::MAX)).map(File::from);
        let to = fd.map(|fd| take(fd).map_err(|why| Fault::usage(format!("--ready-fd {fd}: {why}"))));
        Ok(Ready { to: to.transpose()?, missing: parts })
    }

    /// Counts a running host; writes the notification once all of them run.
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
