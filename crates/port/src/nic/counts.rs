//! Counters of a card and its driver, as totals and per frame: doorbells, write-backs, register
//! reads, bus clocks.

use super::bus::{self, Model};
use std::fmt::Write;

stats::counters! {
    /// Counters of a descriptor-ring Ethernet controller and its driver.
    pub struct NicCounts at "port.nic" {
        /// Frames that the driver took from the receive ring.
        rx_frames,
        /// Frames that the driver put into the transmit ring.
        tx_frames,
        /// Writes of the register RDT, each of which passes more receive descriptors to the card.
        rx_doorbells,
        /// Writes of the register TDT, each of which passes more transmit descriptors to the card.
        tx_doorbells,
        /// Register reads (ICR, STATUS), each of which waits for a bus round trip.
        register_reads,
        /// Register writes other than doorbells (IMS, IMC, ITR).
        register_writes,
        /// Reads of receive descriptors by the card, each of up to `nic.fetch` descriptors.
        rx_fetches,
        /// Reads of transmit descriptors by the card, each of up to `nic.fetch` descriptors.
        tx_fetches,
        /// Status write-backs to receive descriptors, each of up to four descriptors.
        rx_writebacks,
        /// Status write-backs to transmit descriptors.
        tx_writebacks,
        /// Bus clocks of the receiving direction: fetches, payload, write-backs.
        rx_bus_clocks,
        /// Bus clocks of the transmitting direction.
        tx_bus_clocks,
        /// Frames that the card stored in buffers.
        rx_stored,
        /// Bytes that the card stored in buffers.
        rx_bytes,
        /// Bytes that the card read from buffers (FCS not included).
        tx_bytes,
        /// Frames missed because no receive descriptor was free (MPC).
        missed,
        /// Frames dropped on reception because they were longer than a buffer or of another VLAN.
        refused,
        /// Number of times that the receive ring had a free descriptor, but the pool was empty.
        no_buffer,
        /// Receive buffers posted.
        rx_posted,
        /// Receive buffers posted after a read of their free-list link, because the pool links free
        /// buffers through their own memory.
        rx_links_read,
        /// Receive buffers posted after a write to their first cache line (`nic.refill=touch`).
        rx_headers_written,
        /// Receive buffers posted as pointers taken from the pool in bulk, without touching the
        /// buffers (`nic.refill=stack`).
        rx_from_stock,
        /// Received frames whose first cache line the driver read (`nic.parse=early`).
        rx_early_reads,
        /// Received frames whose first cache line was prefetched (`nic.prefetch`).
        rx_prefetches,
        /// Buffers that the driver took back from the transmit ring.
        cleaned,
        /// Cleaning passes in which the driver took buffers back.
        cleanings,
        /// Number of times that the driver had frames to send while the transmit ring was full.
        tx_full,
        /// Frames dropped because there was no wire, or no peer at its other end.
        unplugged,
        /// Frames dropped on the card because they requested an offload that their headers do not
        /// allow.
        tx_malformed,
        /// Frames that the card created from large segments.
        tx_segments,
        /// Frames that the card put onto the wire.
        tx_wire,
    }
}

/// One figure of [`NicCounts::report`].
#[derive(Clone, PartialEq, Debug)]
pub struct Figure {
    /// Name of the figure, such as `rx bus clocks`.
    pub name: &'static str,
    /// The count divided by the number of frames received, sent or both, depending on the row. In
    /// the row `cleaned at a time`, the number of buffers freed by a cleaning pass.
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

    /// Returns the counters per frame. A counter of one direction is divided by the number of
    /// frames in that direction. The number of register reads is divided by the number of frames in
    /// both directions, and the number of cleaned buffers by the number of cleaning passes.
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

    /// Returns the number of frames per second, received plus sent, that the bus could transfer if
    /// it did nothing else.
    pub fn bus_limit(&self, model: Model) -> Option<f64> {
        let frames = self.rx_frames.get() + self.tx_frames.get();
        let clocks = self.bus_clocks();
        (frames > 0 && clocks > 0).then(|| model.hertz() as f64 * frames as f64 / clocks as f64)
    }

    /// Returns the figures as lines of text, followed by a line for the bus limit if there is a bus
    /// model.
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
