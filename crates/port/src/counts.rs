//! What every port counts, and how the two sides of it balance.

stats::counters! {
    /// Frames that a port gave to its host.
    pub struct RxCounts at "port.rx" {
        /// Frames received.
        frames,
        /// Bytes received (FCS not included).
        bytes,
        /// Times the port was asked and had nothing.
        idle,
        /// No buffer in the pool: a frame was not made, or was left waiting in the device.
        no_buffer,
        /// Dropped in the port: larger than a buffer, or otherwise not a frame.
        malformed,
        /// Dropped before the port, which came too late: the kernel had no buffer or no place left. Not among the frames received.
        missed,
        /// The device or file failed; it has ended.
        errors,
        /// Dropped on purpose by an impairment.
        impaired,
        /// Dropped in an impairment: its queue was full.
        queue_full,
        /// Made on purpose by an impairment: duplicates.
        duplicated,
        /// One bit flipped on purpose by an impairment.
        corrupted,
        /// Let overtake others on purpose by an impairment.
        reordered,
        /// Frames held by an impairment now (a level, not a count).
        held,
        /// Passed, but not written to the trace: writing failed.
        untraced,
        /// Large segments cut up in software before an impairment.
        segmented,
        /// Frames made of them.
        segments,
        /// Lost by a mistake in this program, in a place that no frame reaches: please report it.
        bugs,
    }
}

stats::counters! {
    /// Frames that a host gave to its port.
    pub struct TxCounts at "port.tx" {
        /// Frames sent.
        frames,
        /// Bytes sent (FCS not included).
        bytes,
        /// Bursts in which they came: the doorbells.
        bursts,
        /// Dropped in the port: the device would not take it.
        errors,
        /// Dropped in the port: longer than the device takes.
        too_large,
        /// Dropped in the port: asks for checksum work that its headers do not allow.
        malformed,
        /// Dropped on purpose by an impairment.
        impaired,
        /// Dropped in an impairment: its queue was full.
        queue_full,
        /// Made on purpose by an impairment: duplicates.
        duplicated,
        /// One bit flipped on purpose by an impairment.
        corrupted,
        /// Let overtake others on purpose by an impairment.
        reordered,
        /// Frames held by an impairment now (a level, not a count).
        held,
        /// Passed, but not written to the trace: writing failed.
        untraced,
        /// Copied to be sent, for the device cannot read them where they lay: another pool's, or on loan.
        copied,
        /// IP fragments among the frames sent.
        fragments,
        /// Large segments cut up in software, for the port does not.
        segmented,
        /// Frames made of them.
        segments,
        /// No buffer to cut a large segment into: the rest of it was lost.
        no_buffer,
        /// Lost by a mistake in this program, in a place that no frame reaches: please report it.
        bugs,
    }
}

/// Both directions. Aligned: ports that are polled by different cores share no line.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct PortCounts {
    /// Receiving.
    pub rx: RxCounts,
    /// Transmitting.
    pub tx: TxCounts,
    /// What its own stages cost, where a port has such (`xdp:`); off unless asked for.
    pub ledger: stats::Ledger,
}

impl RxCounts {
    /// How many frames the host was given, worked out from what became of those that came: for an audit.
    pub fn to_host(&self) -> u64 {
        let lost =
            self.impaired.get() + self.queue_full.get() + self.held.get() + self.segmented.get() + self.bugs.get();
        (self.frames.get() + self.duplicated.get() + self.segments.get()).wrapping_sub(lost)
    }
}

impl TxCounts {
    /// How many frames were dropped in the port.
    pub fn dropped(&self) -> u64 {
        let failed = self.errors.get() + self.too_large.get() + self.malformed.get() + self.bugs.get();
        failed + self.impaired.get() + self.queue_full.get()
    }

    /// How many frames the host gave, worked out from what became of them: for an audit.
    pub fn from_host(&self) -> u64 {
        let came = self.frames.get() + self.dropped() + self.held.get() + self.segmented.get();
        came.wrapping_sub(self.duplicated.get() + self.segments.get())
    }
}
