//! Counters of a card and its driver, and the same per frame: doorbells, write-backs, register
//! reads, bus clocks.

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
        /// Register reads (ICR, STATUS), each of which waits for a bus round trip.
        register_reads,
        /// Register writes other than doorbells (IMS, IMC, ITR).
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
        /// Times the receive ring had room for a buffer, but the pool was empty.
        no_buffer,
        /// Receive buffers posted.
        rx_posted,
        /// Receive buffers posted after reading their free-list link, because the pool links free
        /// buffers through their own memory.
        rx_links_read,
        /// Receive buffers posted after writing their first cache line (`nic.refill=touch`).
        rx_headers_written,
        /// Receive buffers posted as pointers taken from the pool in bulk, without touching the
        /// buffers (`nic.refill=stack`).
        rx_from_stock,
        /// Received frames for which the driver read the first cache line (`nic.parse=early`).
        rx_early_reads,
        /// Received frames for which the first cache line was prefetched (`nic.prefetch`).
        rx_prefetches,
        /// Buffers taken back from the transmit ring.
        cleaned,
        /// Cleaning passes that took buffers back.
        cleanings,
        /// Times the driver had frames while the transmit ring was full.
        tx_full,
        /// Dropped: no wire, or no peer at its other end.
        unplugged,
        /// Dropped on the card: requested offload that their headers do not allow.
        tx_malformed,
        /// Frames that the card created from large segments.
        tx_segments,
        /// Frames put onto the wire.
        tx_wire,
    }
}

/// One figure of [`NicCounts::report`].
#[derive(Clone, PartialEq, Debug)]
pub struct Figure {
    /// Name of the figure: `rx bus clocks`, for example.
    pub name: &'static str,
    /// Value divided by the number of frames received or sent, as the name indicates.
    pub per_frame: f64,
}

fn per(n: u64, frames: u64) -> f64 {
    if frames == 0 { 0.0 } else { n as f64 / frames as f64 }
}

impl NicCounts {
    /// Returns the bus clocks of both directions and of the driver's register accesses.
    pub fn bus_clocks(&self) -> u64 {
        let writes = self.rx_doorbells.get() + self.tx_doorbells.get() + self.register_writes.get();
        let registers = writes * bus::REGISTER_WRITE + self.register_reads.get() * bus::REGISTER_READ;
        self.rx_bus_clocks.get() + self.tx_bus_clocks.get() + registers
    }

    /// Returns the counters per frame: those of a direction divided by its frames, register
    /// accesses divided by the frames of both directions.
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

    /// Returns the frames per second, received plus sent, that the bus would carry if it did
    /// nothing else.
    pub fn bus_limit(&self, model: Model) -> Option<f64> {
        let frames = self.rx_frames.get() + self.tx_frames.get();
        let clocks = self.bus_clocks();
        (frames > 0 && clocks > 0).then(|| model.hertz() as f64 * frames as f64 / clocks as f64)
    }

    /// Returns the figures as lines of text. With a bus model, a line for the bus limit follows.
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
            let _ = writeln!(out, "{model} allows {limit:.0} frames/s, received plus sent");
        }
        out
    }
}
