//! Runs each worker of a dataflow on a separate thread.

use super::{Config, Dispatcher, Work, dataflow};
use crate::spawn_worker;
use clock::Clock;
use std::any::Any;
use std::fmt;
use std::io;
use std::thread::JoinHandle;

/// A worker that panicked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Panicked {
    /// Number of the worker that panicked.
    pub worker: usize,
    /// Message of the panic.
    pub said: String,
}

impl fmt::Display for Panicked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Panicked { worker, said } = self;
        write!(f, "worker {worker} panicked and lost the frames of its current task: {said}")
    }
}

impl std::error::Error for Panicked {}

/// The threads of the workers. Each thread returns its work function when it ends.
#[derive(Debug)]
pub struct Crew<W>(Vec<JoinHandle<W>>);

impl<W: Work + Send + 'static> Crew<W> {
    /// Starts one thread for each of `works`, called `name.0`, `name.1` and so on. The threads are
    /// not pinned to cores.
    ///
    /// # Errors
    /// System error if a thread cannot be created. Threads that were already started end.
    pub fn spawn(name: &str, config: &Config, works: Vec<W>, clock: &Clock) -> io::Result<(Dispatcher, Crew<W>)> {
        let (dispatcher, workers) = dataflow(config, works.len());
        let mut crew = Vec::new();
        for (mut worker, mut work) in workers.into_iter().zip(works) {
            let (name, clock) = (format!("{name}.{}", worker.number()), clock.clone());
            crew.push(spawn_worker(&name, None, move |_| {
                worker.run(&mut work, || clock.now());
                work
            })?);
        }
        Ok((dispatcher, Crew(crew)))
    }

    /// Waits for all workers, which end once the dispatcher is dropped. For each worker, returns
    /// its work function or its panic.
    pub fn join(self) -> Vec<Result<W, Panicked>> {
        let joined = self.0.into_iter().map(JoinHandle::join).enumerate();
        joined
            .map(|(worker, work)| work.map_err(|panic| Panicked { worker, said: panic_message(panic.as_ref()) }))
            .collect()
    }
}

/// Returns the message of a panic.
fn panic_message(panic: &(dyn Any + Send)) -> String {
    let words = panic.downcast_ref::<&str>().map(ToString::to_string);
    words.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "nothing".to_string())
}
