//! Counters of every port, and the balance between frames in and frames out.

stats::counters! {
    /// Frames passed from the port to its host.
    pub struct RxCounts at "port.rx" {
        /// Frames received.
        frames,
        /// Bytes received (FCS not included).
        bytes,
        /// Times the port was polled and had no frame.
        idle,
        /// No buffer in the pool: the frame was not created, or stayed in the device.
        no_buffer,
        /// Dropped in the port: larger than a buffer, or not a valid frame.
        malformed,
        /// Dropped before the port read them: the kernel ran out of buffers or ring slots; not
        /// included in the frames received.
        missed,
        /// The device or file failed and the port ended.
        errors,
        /// Dropped on purpose by an impairment.
        impaired,
        /// Dropped in an impairment: its queue was full.
        queue_full,
        /// Duplicates created by an impairment.
        duplicated,
        /// One bit flipped on purpose by an impairment.
        corrupted,
        /// Reordered on purpose by an impairment: overtook other frames.
        reordered,
        /// Frames currently held by an impairment (a level, not a count).
        held,
        /// Passed on, but not written to the trace: the write failed.
        untraced,
        /// Large segments split in software before an impairment.
        segmented,
        /// Frames created by splitting large segments.
        segments,
        /// Lost by a bug in this program, where no frame should ever be lost: please report it.
        bugs,
    }
}

stats::counters! {
    /// Frames passed from the host to its port.
    pub struct TxCounts at "port.tx" {
        /// Frames sent.
        frames,
        /// Bytes sent (FCS not included).
        bytes,
        /// Bursts sent (one doorbell each).
        bursts,
        /// Dropped in the port: the device rejected them.
        errors,
        /// Dropped in the port: longer than the device accepts.
        too_large,
        /// Dropped in the port: requested checksum offload that their headers do not allow.
        malformed,
        /// Dropped on purpose by an impairment.
        impaired,
        /// Dropped in an impairment: its queue was full.
        queue_full,
        /// Duplicates created by an impairment.
        duplicated,
        /// One bit flipped on purpose by an impairment.
        corrupted,
        /// Reordered on purpose by an impairment: overtook other frames.
        reordered,
        /// Frames currently held by an impairment (a level, not a count).
        held,
        /// Passed on, but not written to the trace: the write failed.
        untraced,
        /// Copied before sending: the device cannot read the buffer, which is on loan or from
        /// another pool.
        copied,
        /// IP fragments among the frames sent.
        fragments,
        /// Large segments split in software, because the port cannot.
        segmented,
        /// Frames created by splitting large segments.
        segments,
        /// No buffer to split a large segment into: the rest of it was lost.
        no_buffer,
        /// Lost by a bug in this program, where no frame should ever be lost: please report it.
        bugs,
    }
}

/// Counters of both directions, aligned so that ports polled by different cores share no cache
/// line.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct PortCounts {
    /// Counters of the receiving direction.
    pub rx: RxCounts,
    /// Counters of the transmitting direction.
    pub tx: TxCounts,
    /// Cost of the port's own stages, for ports that measure it (`xdp:`); off by default.
    pub ledger: stats::Ledger,
}

impl RxCounts {
    /// Returns the number of frames passed to the host, computed from the other counters, for an
    /// audit.
    pub fn to_host(&self) -> u64 {
        let lost =
            self.impaired.get() + self.queue_full.get() + self.held.get() + self.segmented.get() + self.bugs.get();
        (self.frames.get() + self.duplicated.get() + self.segments.get()).wrapping_sub(lost)
    }
}

impl TxCounts {
    /// Returns the number of frames dropped in the port.
    pub fn dropped(&self) -> u64 {
        let failed = self.errors.get() + self.too_large.get() + self.malformed.get() + self.bugs.get();
        failed + self.impaired.get() + self.queue_full.get()
    }

    /// Returns the number of frames that the host passed in, computed from the other counters, for
    /// an audit.
    pub fn from_host(&self) -> u64 {
        let came = self.frames.get() + self.dropped() + self.held.get() + self.segmented.get();
        came.wrapping_sub(self.duplicated.get() + self.segments.get())
    }
}
