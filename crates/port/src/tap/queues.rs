//! `tap(queues=2):tap0` opened twice in one process gives two ports of one device, a queue each: here the second finds the first.
//!
//! The kernel spreads what it sends over the queues by flow, and a flow's frames come to the queue through which its other direction was
//! sent last. Offloads and the virtio header belong to the device and not to a queue: opened otherwise, the second would change them
//! under the first, so that is refused.

use super::{TapConfig, TapError};
use crate::Port;
use crate::offload::large;
use buf::Pool;
use std::collections::HashMap;
use std::fs::File;
use std::sync::{Mutex, PoisonError, Weak};

/// The devices with several queues that a process has open, by name. What is closed is forgotten when its name is asked for again.
#[derive(Debug, Default)]
pub struct Queues(Mutex<HashMap<String, Device>>);

#[derive(Debug)]
struct Device {
    config: TapConfig,
    open: Vec<Weak<File>>,
}

impl Queues {
    /// Opens the device, or another queue of it.
    ///
    /// # Errors
    /// As [`super::open`]; and if its queues are open already, or the options are not those of the queue that was opened first.
    pub fn open(&self, name: &str, config: &TapConfig, pool: &Pool) -> Result<Port, TapError> {
        let mut devices = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(device) = devices.get_mut(name) {
            device.open.retain(|queue| queue.strong_count() > 0);
            let queues = device.config.queues;
            match device.open.len() {
                0 => drop(devices.remove(name)),
                _ if device.config != *config => return Err(TapError::Differs { name: name.to_string() }),
                open if open >= usize::from(queues) => {
                    return Err(TapError::QueuesTaken { name: name.to_string(), queues });
                }
                _ => {}
            }
        }
        let (port, queue) = super::open_queue(name, config, pool, large::LARGE_BUFFERS)?;
        if config.queues > 1 {
            let new = || Device { config: config.clone(), open: Vec::new() };
            devices.entry(port.name.clone()).or_insert_with(new).open.push(queue);
        }
        Ok(port)
    }
}

#[cfg(test)]
mod tests;
