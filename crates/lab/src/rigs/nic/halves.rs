//! Several loops, each on a core of its own with two ports of its own: a bridge in parts, between which nothing goes.
//!
//! Traffic stays among the ports of a part, so that each part has a bridge of its own and there is nothing to tell each other:
//! `node::switch` with its addresses pinned would do the same.

use super::NicRig;
use crate::os;
use crate::subject::{Reading, Subject};
use anyhow::{Context, anyhow};
use std::sync::{Arc, Barrier, mpsc};
use std::thread::JoinHandle;

/// A trial, begun together.
struct Order(Arc<Barrier>);

/// `n` loops on cores 0 to `n`-1, all at work at the same time.
pub struct NicHalves {
    id: String,
    orders: Vec<mpsc::Sender<Order>>,
    threads: Vec<JoinHandle<()>>,
    answers: mpsc::Receiver<anyhow::Result<Reading>>,
}

impl NicHalves {
    /// `loops` rigs of two ports as the words say.
    ///
    /// # Errors
    /// No thread.
    pub fn new(id: &str, loops: usize, words: &str) -> anyhow::Result<NicHalves> {
        let (answer, answers) = mpsc::channel();
        let (mut orders, mut threads) = (Vec::new(), Vec::new());
        for core in 0..loops {
            let (order, inbox) = mpsc::channel();
            let (answer, id, words) = (answer.clone(), format!("{id}.{core}"), format!("{words} ports=2"));
            let work = move |_| {
                let mut rig = NicRig::new(&id, &words); // made here: the pool belongs to the thread that uses it
                for Order(start) in inbox {
                    start.wait();
                    let reading = rig.as_mut().map_err(|why| anyhow!("{why:#}")).and_then(|rig| rig.trial());
                    if answer.send(reading).is_err() {
                        return;
                    }
                }
            };
            threads.push(dispatch::spawn_worker(&format!("loop{core}"), Some(core), work).context("no thread")?);
            orders.push(order);
        }
        Ok(NicHalves { id: id.to_owned(), orders, threads, answers })
    }
}

impl Subject for NicHalves {
    fn id(&self) -> &str {
        &self.id
    }

    /// Frames and ticks such that their ratio is the sum of the loops' rates.
    fn trial(&mut self) -> anyhow::Result<Reading> {
        let wall = os::monotonic_ns();
        let start = Arc::new(Barrier::new(self.orders.len()));
        for order in &self.orders {
            order.send(Order(start.clone())).map_err(|_| anyhow!("{}: a loop has gone", self.id))?;
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

impl Drop for NicHalves {
    fn drop(&mut self) {
        self.orders.clear();
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}
