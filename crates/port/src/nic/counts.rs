//! What a card and its driver count, and what that is per frame: doorbells, write-backs, register reads, the bus.

use super::bus::{self, Model};
use std::fmt::Write;

stats::counters! {
    /// A descriptor-ring Ethernet controller and its driver.
    pub struct NicCounts at "port.nic" {
        /// Frames the driver took from the receive ring.
        rx_frames,
        /// Frames the driver put into the transmit ring.
        tx_frames,
        /// Writes of RDT: more receive descriptors for the card.
        rx_doorbells,
        /// Writes of TDT: more transmit descriptors for the card.
        tx_doorbells,
        /// Register reads (ICR, STATUS), each as slow as the bus there and back.
        register_reads,
        /// Register writes besides the doorbells (IMS, IMC, ITR).
        register_writes,
        /// Reads of receive descriptors by the card, up to four at a time.
        rx_fetches,
        /// Reads of transmit descriptors by the card, up to four at a time.
        tx_fetches,
        /// Status write-backs to receive descriptors, up to four at a time.
        rx_writebacks,
        /// Status write-backs to transmit descriptors.
        tx_writebacks,
        /// Bus clocks of the receiving direction: fetches, payload, write-backs.
        rx_bus_clocks,
        /// Bus clocks of the transmitting direction.
        tx_bus_clocks,
        /// Frames the card put into buffers.
        rx_stored,
        /// Bytes the card moved into buffers.
        rx_bytes,
        /// Bytes the card moved out of buffers (FCS not included).
        tx_bytes,
        /// Missed: no receive descriptor (MPC).
        missed,
        /// Missed: longer than a buffer, or of another VLAN.
        refused,
        /// The driver wanted to post a buffer, and the pool had none.
        no_buffer,
        /// Receive buffers posted.
        rx_posted,
        /// Receive buffers posted whose link was read: they came from a list that goes through the
        /// buffers.
        rx_links_read,
        /// Receive buffers posted whose first line was written (`nic.refill=touch`).
        rx_headers_written,
        /// Receive buffers posted from the array of pointers, untouched (`nic.refill=stack`).
        rx_from_stock,
        /// Received frames whose first line the driver read (`nic.parse=early`).
        rx_early_reads,
        /// Received frames whose first line was prefetched (`nic.prefetch`).
        rx_prefetches,
        /// Buffers taken back from the transmit ring.
        cleaned,
        /// Rounds of cleaning that took some.
        cleanings,
        /// Times the driver had frames and the transmit ring no room.
        tx_full,
        /// Dropped: no wire, or nobody at its other end.
        unplugged,
        /// Dropped on the card: asks for work that its headers do not allow.
        tx_malformed,
        /// Frames that large segments were cut into on the card.
        tx_segments,
        /// Frames put onto the wire.
        tx_wire,
    }
}

/// One figure of [`NicCounts::report`].
#[derive(Clone, PartialEq, Debug)]
pub struct Figure {
    /// What it is.
    pub name: &'static str,
    /// How much of it for one frame, received or sent as the name says.
    pub per_frame: f64,
}

fn per(n: u64, frames: u64) -> f64 {
    if frames == 0 { 0.0 } else { n as f64 / frames as f64 }
}

impl NicCounts {
    /// Bus clocks of both directions and of the driver's register accesses.
    pub fn bus_clocks(&self) -> u64 {
        let writes = self.rx_doorbells.get() + self.tx_doorbells.get() + self.register_writes.get();
        let registers = writes * bus::REGISTER_WRITE + self.register_reads.get() * bus::REGISTER_READ;
        self.rx_bus_clocks.get() + self.tx_bus_clocks.get() + registers
    }

    /// What one frame has cost: each figure by the frames of its own direction, register accesses by all.
    pub fn report(&self) -> Vec<Figure> {
        let (rx, tx) = (self.rx_frames.get(), self.tx_frames.get());
        [
            ("rx doorbells", per(self.rx_doorbells.get(), rx)),
            ("tx doorbells", per(self.tx_doorbells.get(), tx)),
            ("rx write-backs", per(self.rx_writebacks.get(), rx)),
            ("tx write-backs", per(self.tx_writebacks.get(), tx)),
            ("rx descriptor fetches", per(self.rx_fetches.get(), rx)),
            ("tx descriptor fetches", per(self.tx_fetches.get(), tx)),
            ("register reads", per(self.register_reads.get(), rx + tx)),
            ("cleaned at a time", per(self.cleaned.get(), self.cleanings.get())),
            ("rx bus clocks", per(self.rx_bus_clocks.get(), rx)),
            ("tx bus clocks", per(self.tx_bus_clocks.get(), tx)),
        ]
        .into_iter()
        .map(|(name, per_frame)| Figure { name, per_frame })
        .collect()
    }

    /// Frames a second, received and sent counted together, that the bus would carry if it did nothing else.
    pub fn bus_limit(&self, model: Model) -> Option<f64> {
        let frames = self.rx_frames.get() + self.tx_frames.get();
        let clocks = self.bus_clocks();
        (frames > 0 && clocks > 0).then(|| model.hertz() as f64 * frames as f64 / clocks as f64)
    }

    /// The figures as lines of text, and what the bus allows if a model of it is counted.
    pub fn show(&self, model: Option<Model>) -> String {
        let mut out = format!(
            "frames: {} received, {} sent; refused {}, unplugged {}\n",
            self.rx_frames.get(),
            self.tx_frames.get(),
            self.refused.get(),
            self.unplugged.get()
        );
        for Figure { name, per_frame } in self.report() {
            let unit = if name.starts_with("cleaned") { "" } else { " per frame" };
            let _ = writeln!(out, "{name:<24} {per_frame:>9.4}{unit}");
        }
        if let Some(model) = model
            && let Some(limit) = self.bus_limit(model)
        {
            let _ = writeln!(out, "{model} allows {limit:.0} frames/s, received and sent together");
        }
        out
    }
}
