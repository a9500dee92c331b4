//! Costs of a bridged frame other than ticks. Cards and drivers count them, so they are exact.

use port::nic::Nic;

/// Sums of the counters of all cards.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Totals {
    doorbells: u64,
    writebacks: u64,
    reads: u64,
    clocks: u64,
    interrupts: u64,
    fetches: u64,
    links: u64,
    headers: u64,
    stock: u64,
    early: u64,
    prefetches: u64,
}

/// Costs per bridged frame, of the card that received it and the card that sent it together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NicCosts {
    /// Number of writes of the tail registers RDT and TDT by the drivers.
    pub doorbells: f64,
    /// Number of descriptor status write-backs by the cards, for receiving and transmitting.
    pub writebacks: f64,
    /// Number of register reads by the drivers.
    pub register_reads: f64,
    /// Number of interrupts delivered by the cards.
    pub interrupts: f64,
    /// Number of bus clocks used; 0 if no bus is modelled.
    pub bus_clocks: f64,
    /// Frames per second that one bus of this kind, shared by all cards, could carry; 0 if no bus
    /// is modelled.
    pub bus_allows: f64,
    /// Time for which the processor waits for registers, in nanoseconds.
    pub stall_ns: f64,
    /// Number of descriptor reads by the cards.
    pub fetches: f64,
    /// Buffers posted after their link was read, because their free list is linked through the
    /// buffers.
    pub links_read: f64,
    /// Number of buffers that were posted after their first cache line was written.
    pub headers_written: f64,
    /// Number of buffers that were posted from an array of pointers.
    pub from_stock: f64,
    /// Number of frames of which the driver read the first cache line.
    pub early_reads: f64,
    /// Number of frames of which the driver prefetched the first cache line.
    pub prefetches: f64,
}

impl Totals {
    pub(super) fn of<'a>(nics: impl Iterator<Item = &'a Nic>) -> Totals {
        let mut totals = Totals::default();
        for nic in nics {
            let counts = &nic.counts;
            totals.doorbells += counts.rx_doorbells.get() + counts.tx_doorbells.get();
            totals.writebacks += counts.rx_writebacks.get() + counts.tx_writebacks.get();
            totals.reads += counts.register_reads.get();
            totals.clocks += counts.bus_clocks();
            totals.interrupts += nic.interrupts();
            totals.fetches += counts.rx_fetches.get() + counts.tx_fetches.get();
            totals.links += counts.rx_links_read.get();
            totals.headers += counts.rx_headers_written.get();
            totals.stock += counts.rx_from_stock.get();
            totals.early += counts.rx_early_reads.get();
            totals.prefetches += counts.rx_prefetches.get();
        }
        totals
    }

    pub(super) fn since(&self, before: &Totals) -> Totals {
        Totals {
            doorbells: self.doorbells - before.doorbells,
            writebacks: self.writebacks - before.writebacks,
            reads: self.reads - before.reads,
            clocks: self.clocks - before.clocks,
            interrupts: self.interrupts - before.interrupts,
            fetches: self.fetches - before.fetches,
            links: self.links - before.links,
            headers: self.headers - before.headers,
            stock: self.stock - before.stock,
            early: self.early - before.early,
            prefetches: self.prefetches - before.prefetches,
        }
    }

    pub(super) fn per_frame(&self, frames: u64, nic: &Nic) -> NicCosts {
        let per = |n: u64| n as f64 / frames as f64;
        let (doorbells, register_reads, bus_clocks) = (per(self.doorbells), per(self.reads), per(self.clocks));
        let hertz = nic.bus_model().map_or(0, |model| model.hertz()) as f64;
        let (write, read) = (nic.settings.reg_write_ns.get() as f64, nic.settings.reg_read_ns.get() as f64);
        NicCosts {
            doorbells,
            writebacks: per(self.writebacks),
            register_reads,
            interrupts: per(self.interrupts),
            bus_clocks,
            bus_allows: if bus_clocks > 0.0 { hertz / bus_clocks } else { 0.0 },
            stall_ns: doorbells * write + register_reads * read,
            fetches: per(self.fetches),
            links_read: per(self.links),
            headers_written: per(self.headers),
            from_stock: per(self.stock),
            early_reads: per(self.early),
            prefetches: per(self.prefetches),
        }
    }
}
