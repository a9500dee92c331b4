//! Counters of every port, and the balance between frames in and frames out.

stats::counters! {
    /// Counters of the receiving direction: frames that the port passes to its host, and losses on
    /// the way.
    pub struct RxCounts at "port.rx" {
        /// Frames received.
        frames,
        /// Bytes received (FCS not included).
        bytes,
        /// Times the port was polled and had no frame.
        idle,
        /// Times the pool had no free buffer: the frame was not created, or stayed in the device.
        no_buffer,
        /// Dropped in the port: larger than a buffer, or not a valid frame.
        malformed,
        /// Frames dropped before the port read them, because the kernel ran out of buffers or ring
        /// slots. Not included in `frames`.
        missed,
        /// Failures of the device or file that ended the port.
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
        /// Frames passed on but not written to the trace, because the write failed.
        untraced,
        /// Large segments split in software before an impairment.
        segmented,
        /// Frames created by splitting large segments.
        segments,
        /// Frames lost by a bug in this program: a nonzero value should be reported.
        bugs,
    }
}

stats::counters! {
    /// Counters of the transmitting direction: frames that the host passes to its port, and losses
    /// on the way.
    pub struct TxCounts at "port.tx" {
        /// Frames sent.
        frames,
        /// Bytes sent (FCS not included).
        bytes,
        /// Bursts sent (one doorbell each, that is one notification of the device).
        bursts,
        /// Dropped in the port: the device rejected them.
        errors,
        /// Dropped in the port: longer than the device accepts.
        too_large,
        /// Dropped in the port: the host requested checksum offload, but the frame's headers do not
        /// allow it.
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
        /// Frames passed on but not written to the trace, because the write failed.
        untraced,
        /// Copied before sending: the device cannot read the buffer, which is on loan or from
        /// another pool.
        copied,
        /// IP fragments among the frames sent.
        fragments,
        /// Large segments that were split in software, because the port cannot send them whole.
        segmented,
        /// Frames created by splitting large segments.
        segments,
        /// Times no buffer was free while splitting a large segment: the rest of the segment was
        /// lost.
        no_buffer,
        /// Frames lost by a bug in this program: a nonzero value should be reported.
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
    /// CPU ticks of the port's own processing stages, for ports that measure them (`xdp:`); off by
    /// default.
    pub ledger: stats::Ledger,
}

impl RxCounts {
    /// Returns the number of frames passed to the host, computed from the other counters. The audit
    /// compares it with the host's own count.
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

    /// Returns the number of frames that the host passed to the port, computed from the other
    /// counters. The audit compares it with the host's own count.
    pub fn from_host(&self) -> u64 {
        let came = self.frames.get() + self.dropped() + self.held.get() + self.segmented.get();
        came.wrapping_sub(self.duplicated.get() + self.segments.get())
    }
}
