//! The receiving half: takes frames from the device.
//!
//! Frames are taken from the receive ring in the buffers that were given to the kernel, and the
//! kernel gets as many empty buffers in return. While no frames arrive, the port periodically
//! checks whether the device still exists and how many frames the kernel has dropped, because a
//! socket does not become readable when its device is gone.

use crate::offload::{self, RxCsum};
use crate::os::bpf::Redirect;
use crate::os::xdp::frames::FrameRx;
use crate::{PortCounts, RxHalf};
use buf::{Burst, Pool};
use clock::{Duration, Instant, tsc};
use stats::Stage;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// Minimum number of buffers fetched while frames arrive, because taking several from a pool at
/// once is cheaper.
const FEW: usize = 16;
/// Time after which an empty poll checks the device again. [`IDLE`] empty polls since the last
/// check have the same effect.
const LOOK: Duration = Duration::from_millis(50);
const IDLE: u32 = 1 << 12;

pub(super) struct XdpRx {
    frames: FrameRx,
    pool: Pool,
    counts: Arc<PortCounts>,
    /// Number of buffers that the kernel has after each refill, if the pool is not empty.
    most: usize,
    /// Handling of open checksums.
    open_csum: RxCsum,
    warnings: Vec<String>,
    /// Empty buffers that were taken from the pool and not yet given to the kernel.
    empty: Burst,
    look_at: Instant,
    idle: u32,
    why_gone: Option<String>,
    _redirect: Arc<Redirect>,
}

impl XdpRx {
    pub(super) fn new(
        frames: FrameRx,
        counts: Arc<PortCounts>,
        most: usize,
        open_csum: RxCsum,
        warnings: Vec<String>,
        redirect: Arc<Redirect>,
    ) -> XdpRx {
        let pool = frames.pool().clone();
        let mut rx = XdpRx {
            frames,
            pool,
            counts,
            most,
            open_csum,
            warnings,
            empty: Burst::new(),
            look_at: Instant::ZERO,
            idle: 0,
            why_gone: None,
            _redirect: redirect,
        };
        rx.refill();
        rx
    }

    /// Gives the kernel empty buffers up to its share, or as many as the pool has.
    fn refill(&mut self) {
        loop {
            let want = self.most.saturating_sub(self.frames.away()).min(buf::BURST_MAX);
            if want == 0 {
                return;
            }
            let got = self.pool.get_burst(want, &mut self.empty);
            self.frames.refill(&mut self.empty);
            self.empty.clear(); // the ring has more than `most` entries, so no buffer is left over
            if got < want {
                self.counts.rx.no_buffer.bump();
                return;
            }
        }
    }

    /// Checks whether the device still exists, and updates the counter of missed frames.
    #[cold]
    fn look(&mut self, now: Instant) {
        (self.look_at, self.idle) = (now.after(LOOK), 0);
        if let Ok(all) = self.frames.statistics() {
            let missed = all.missed();
            self.counts.rx.missed.add(missed.saturating_sub(self.counts.rx.missed.get()));
        }
        let error = self.frames.look();
        if self.why_gone.is_none() && (error.is_some() || self.frames.is_gone()) {
            let why = error.map_or_else(String::new, |error| format!(": {error}"));
            self.counts.rx.errors.bump();
            self.why_gone = Some(format!("the interface is gone{why}"));
        }
    }
}

impl RxHalf for XdpRx {
    fn rx_burst(&mut self, into: &mut Burst, most: usize, now: Instant) -> usize {
        let began = self.counts.ledger.begin(tsc::ticks);
        let before = into.len();
        let got = self.frames.receive(into, most);
        if self.open_csum != RxCsum::Off {
            let new = into.as_mut_slice().iter_mut().skip(before);
            new.for_each(|frame| offload::note_open(frame, self.open_csum));
        }
        let taken = self.counts.ledger.since(began, Stage::PortTake, got.frames as u64, tsc::ticks);
        let rx = &self.counts.rx;
        rx.frames.add(got.frames as u64);
        rx.bytes.add(got.bytes as u64);
        rx.malformed.add(got.malformed as u64);
        let lacking = self.most.saturating_sub(self.frames.away());
        if lacking >= FEW.min(self.most) || (lacking > 0 && got.frames == 0) {
            self.refill();
            self.counts.ledger.since(taken, Stage::PortRefill, lacking as u64, tsc::ticks);
        }
        if got.frames == 0 {
            self.counts.rx.idle.bump();
            self.idle += 1;
            if now >= self.look_at && now > Instant::ZERO || self.idle >= IDLE {
                self.look(now);
            }
        }
        got.frames
    }

    fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        self.why_gone.is_none().then(|| self.frames.socket())
    }

    fn is_gone(&self) -> bool {
        self.why_gone.is_some()
    }

    fn why_gone(&self) -> Option<String> {
        self.why_gone.clone()
    }

    fn warnings(&self) -> Vec<String> {
        self.warnings.clone()
    }

    fn held(&self) -> usize {
        self.frames.away()
    }
}
