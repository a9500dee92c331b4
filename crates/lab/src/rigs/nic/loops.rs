//! The cards of a bridge shared among loops, each on its own core; [`NicRig::shared`] assigns the
//! ports.
//!
//! Traffic stays within a loop: of four ports each loop has two that exchange frames, of two ports
//! each loop has one direction. The loops exchange no address updates, like the loops of a
//! `node::switch` with static addresses. Two loops share only what the two halves of a card share.

use super::NicRig;
use crate::os;
use crate::subject::{Reading, Subject};
use anyhow::{Context, anyhow};
use std::sync::{Arc, Barrier, mpsc};
use std::thread::JoinHandle;

/// Command that starts a trial in all loops together.
struct Order(Arc<Barrier>);

/// `n` loops on cores 0 to `n`-1, running at the same time.
pub struct NicLoops {
    id: String,
    orders: Vec<mpsc::Sender<Order>>,
    threads: Vec<JoinHandle<()>>,
    answers: mpsc::Receiver<anyhow::Result<Reading>>,
}

impl NicLoops {
    /// Creates one or two loops for the ports in the settings.
    ///
    /// # Errors
    /// A setting is invalid, memory cannot be allocated, or a thread cannot be started.
    pub fn new(id: &str, loops: usize, words: &str) -> anyhow::Result<NicLoops> {
        let (answer, answers) = mpsc::channel();
        let (mut orders, mut threads) = (Vec::new(), Vec::new());
        for (core, mut rig) in NicRig::shared(id, loops, words)?.into_iter().enumerate() {
            let (order, inbox) = mpsc::channel();
            let answer = answer.clone();
            let work = move |_| {
                for Order(start) in inbox {
                    start.wait();
                    if answer.send(rig.trial()).is_err() {
                        return;
                    }
                }
            };
            threads.push(
                dispatch::spawn_worker(&format!("loop{core}"), Some(core), work)
                    .context("cannot start a thread for a loop")?,
            );
            orders.push(order);
        }
        Ok(NicLoops { id: id.to_owned(), orders, threads, answers })
    }
}

impl Subject for NicLoops {
    fn id(&self) -> &str {
        &self.id
    }

    /// Returns the frames of all loops together, with a number of ticks such that frames divided by
    /// ticks is the sum of the loops' rates.
    fn trial(&mut self) -> anyhow::Result<Reading> {
        let wall = os::monotonic_ns();
        let start = Arc::new(Barrier::new(self.orders.len()));
        for order in &self.orders {
            order.send(Order(start.clone())).map_err(|_| anyhow!("{}: a loop has ended", self.id))?;
        }
        let (mut ops, mut rate) = (0, 0.0);
        for _ in &self.orders {
            let reading = self.answers.recv()?.with_context(|| self.id.clone())?;
            ops += reading.ops;
            rate += reading.ops as f64 / reading.ticks.max(1) as f64;
        }
        let wall_ns = os::monotonic_ns() - wall;
        Ok(Reading { ops, ticks: (ops as f64 / rate) as u64, wall_ns, cpu_ns: wall_ns })
    }
}

impl Drop for NicLoops {
    fn drop(&mut self) {
        self.orders.clear();
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}
