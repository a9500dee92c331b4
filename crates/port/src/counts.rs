//! Counters of every port, and the totals from which the balance of received and sent frames is
//! computed.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

stats::counters! {
    /// Counters of the receiving direction: frames that the port passes to its host, and frames
    /// lost before that.
    pub struct RxCounts at "port.rx" {
        /// Frames received.
        frames,
        /// Bytes received (FCS not included).
        bytes,
        /// Number of polls that found no frame.
        idle,
        /// Number of times that the pool had no free buffer: the frame was not created, or stayed
        /// in the device.
        no_buffer,
        /// Frames dropped in the port because they were larger than a buffer, or not valid frames.
        malformed,
        /// Frames dropped before the port read them, because the kernel ran out of buffers or ring
        /// slots. Not included in `frames`.
        missed,
        /// Errors that ended the port or one of its connections.
        errors,
        /// Frames dropped on purpose by an impairment.
        impaired,
        /// Frames dropped in an impairment because its queue was full.
        queue_full,
        /// Duplicate frames created by an impairment.
        duplicated,
        /// Frames in which an impairment flipped one bit on purpose.
        corrupted,
        /// Frames that an impairment let overtake other frames on purpose.
        reordered,
        /// Frames currently held by an impairment (a level, not a count).
        held,
        /// Frames passed on but not written to the tracer's file, because the write failed.
        untraced,
        /// Large segments split in software before an impairment.
        segmented,
        /// Frames created by splitting large segments.
        segments,
        /// Frames lost by a bug in this program. Please report a nonzero value.
        bugs,
    }
}

stats::counters! {
    /// Counters of the transmitting direction: frames that the host passes to its port, and frames
    /// lost after that.
    pub struct TxCounts at "port.tx" {
        /// Frames sent.
        frames,
        /// Bytes sent (FCS not included).
        bytes,
        /// Bursts sent. Each costs one doorbell, which is one notification of the device.
        bursts,
        /// Frames dropped in the port because the device rejected them or no peer was connected.
        errors,
        /// Frames dropped in the port because they were longer than the device accepts.
        too_large,
        /// Frames dropped in the port because the host requested checksum offload, but the frame's
        /// headers do not allow it.
        malformed,
        /// Frames dropped because they exceeded a quota of the port's policy.
        over_quota,
        /// Frames dropped on purpose by an impairment.
        impaired,
        /// Frames dropped in an impairment because its queue was full.
        queue_full,
        /// Duplicate frames created by an impairment.
        duplicated,
        /// Frames in which an impairment flipped one bit on purpose.
        corrupted,
        /// Frames that an impairment let overtake other frames on purpose.
        reordered,
        /// Frames currently held by an impairment (a level, not a count).
        held,
        /// Frames passed on but not written to the tracer's file, because the write failed.
        untraced,
        /// Frames copied before sending, because the device cannot read their buffer, which is on
        /// loan or from another pool.
        copied,
        /// IP fragments among the frames sent.
        fragments,
        /// Large segments that were split in software, because the port cannot send them whole.
        segmented,
        /// Frames created by splitting large segments.
        segments,
        /// Number of times that no buffer was free while a large segment was split. The rest of the
        /// segment was lost.
        no_buffer,
        /// Frames lost by a bug in this program. Please report a nonzero value.
        bugs,
    }
}

/// Counters of both directions, aligned so that ports polled by different cores do not share a
/// cache line.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct PortCounts {
    /// Counters of the receiving direction.
    pub rx: RxCounts,
    /// Counters of the transmitting direction.
    pub tx: TxCounts,
    /// CPU ticks spent in each processing stage of the port, for ports that measure them (`xdp:`).
    /// Off by default.
    pub ledger: stats::Ledger,
    /// State of the link.
    pub link: LinkState,
}

impl PortCounts {
    /// Returns counters for a port on the kernel's device `name`, with the index and the speed that
    /// the kernel reports.
    #[cfg(target_os = "linux")]
    pub(crate) fn of_device(name: &str) -> PortCounts {
        let counts = PortCounts::default();
        if let Ok(link) = crate::os::netlink::Netlink::open().and_then(|mut kernel| kernel.device(name)) {
            counts.link.ifindex.store(link.index, Ordering::Relaxed);
        }
        let speed = std::fs::read_to_string(format!("/sys/class/net/{name}/speed")).unwrap_or_default();
        // The file of a device without a link or speed is unreadable or contains -1.
        if let Ok(mbits) = speed.trim().parse::<u64>() {
            counts.link.set_speed(mbits.saturating_mul(1_000_000));
        }
        counts
    }
}

/// State of a port's link, readable from any thread. A `unix:` port is down while it has no peer.
/// A port on a kernel device is down while the device is down or has no carrier, as far as its
/// owner follows the device ([`crate::links`]).
#[derive(Debug, Default)]
pub struct LinkState {
    is_down: AtomicBool,
    /// Bits per second; 0 if unknown.
    speed: AtomicU64,
    /// Index of the kernel's device; 0 if there is none.
    ifindex: AtomicU32,
}

impl LinkState {
    /// Returns whether the link is up.
    pub fn is_up(&self) -> bool {
        !self.is_down.load(Ordering::Acquire)
    }

    /// Sets whether the link is up. Called by the port, or by the owner of a port on a kernel
    /// device when the kernel reports a change.
    pub fn set_up(&self, is_up: bool) {
        self.is_down.store(!is_up, Ordering::Release);
    }

    /// Returns the bits per second of the link when the port was opened; `None` if they are
    /// unknown.
    pub fn speed(&self) -> Option<u64> {
        Some(self.speed.load(Ordering::Relaxed)).filter(|speed| *speed != 0)
    }

    /// Returns the index of the port's kernel device when the port was opened; `None` if the port
    /// has no device.
    pub fn ifindex(&self) -> Option<u32> {
        Some(self.ifindex.load(Ordering::Relaxed)).filter(|index| *index != 0)
    }

    /// Forgets the index of the device, which is in another network namespace, and sets its speed.
    #[cfg(target_os = "linux")]
    pub(crate) fn set_foreign(&self, speed: Option<u64>) {
        self.ifindex.store(0, Ordering::Relaxed);
        self.set_speed(speed.unwrap_or(0));
    }

    pub(crate) fn set_speed(&self, bits_per_second: u64) {
        self.speed.store(bits_per_second, Ordering::Relaxed);
    }
}

impl RxCounts {
    /// Returns the number of frames passed to the host, computed from the other counters. The audit
    /// of all frames compares it with the host's own count.
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
        failed + self.over_quota.get() + self.impaired.get() + self.queue_full.get()
    }

    /// Returns the number of frames that the host passed to the port, computed from the other
    /// counters. The audit of all frames compares it with the host's own count.
    pub fn from_host(&self) -> u64 {
        let came = self.frames.get() + self.dropped() + self.held.get() + self.segmented.get();
        came.wrapping_sub(self.duplicated.get() + self.segments.get())
    }
}
