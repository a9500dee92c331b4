//! Registry of the multi-queue TAP devices of a process: each time `tap(queues=2):tap0` is opened
//! again, the result is a port on another queue of the same device.
//!
//! The kernel distributes frames over the queues by flow: frames of a flow arrive on the queue from
//! which the port last sent frames of the opposite direction. Offloads and the virtio header are
//! settings of the device, not of a queue. A second queue with different options would change them
//! for the first queue, so opening it is refused.

use super::{TapConfig, TapError};
use crate::Port;
use crate::offload::large;
use buf::Pool;
use std::collections::HashMap;
use std::fs::File;
use std::sync::{Mutex, PoisonError, Weak};

/// Multi-queue devices that a process has opened, by name. A closed device is removed when its name
/// is opened again.
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
    /// The same errors as [`super::open`]. Also an error if all queues are open, or if the options
    /// differ from those of the first queue.
    pub fn open(&self, name: &str, config: &TapConfig, pool: &Pool) -> Result<Port, TapError> {
        let mut devices = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(device) = devices.get_mut(name) {
            device.open.retain(|queue| queue.strong_count() > 0);
            let queues = device.config.queues;
            match device.open.len() {
                0 => drop(devices.remove(name)),
                _ if device.config != *config => return Err(TapError::Differs { port: format!("tap:{name}") }),
                open if open >= usize::from(queues) => {
                    return Err(TapError::QueuesTaken { port: format!("tap:{name}"), queues });
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
