//! From the device to a host.
//!
//! Frames come out of the ring in the buffers that were given to be filled, and as many empty ones go in. When nothing comes
//! there is time to look, now and then, whether the device is still there and what the kernel dropped: a socket whose
//! device has gone does not become readable.

use crate::offload::{self, RxCsum};
use crate::os::bpf::Redirect;
use crate::os::xdp::frames::FrameRx;
use crate::{PortCounts, RxHalf};
use buf::{Burst, Pool};
use clock::{Duration, Instant, tsc};
use stats::Stage;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// Fewer buffers than this are not fetched while frames come: a pool is asked for several at a time.
const FEW: usize = 16;
/// Between two looks at the device: by time, and by times that there was nothing.
const LOOK: Duration = Duration::from_millis(50);
const IDLE: u32 = 1 << 12;

pub(super) struct XdpRx {
    frames: FrameRx,
    pool: Pool,
    counts: Arc<PortCounts>,
    /// Buffers that the kernel is to have.
    most: usize,
    /// Open checksums.
    open_csum: RxCsum,
    remarks: Vec<String>,
    /// On their way from the pool to the kernel.
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
        remarks: Vec<String>,
        redirect: Arc<Redirect>,
    ) -> XdpRx {
        let pool = frames.pool().clone();
        let mut rx = XdpRx {
            frames,
            pool,
            counts,
            most,
            open_csum,
            remarks,
            empty: Burst::new(),
            look_at: Instant::ZERO,
            idle: 0,
            why_gone: None,
            _redirect: redirect,
        };
        rx.refill();
        rx
    }

    /// Has the kernel have its share of empty buffers again, as far as the pool has any.
    fn refill(&mut self) {
        loop {
            let want = self.most.saturating_sub(self.frames.away()).min(buf::BURST_MAX);
            if want == 0 {
                return;
            }
            let got = self.pool.get_burst(want, &mut self.empty);
            self.frames.refill(&mut self.empty);
            self.empty.clear(); // the ring has more places than `most`: nothing is left
            if got < want {
                self.counts.rx.no_buffer.bump();
                return;
            }
        }
    }

    /// Is the device still there, and what was missed?
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

    fn remarks(&self) -> Vec<String> {
        self.remarks.clone()
    }

    fn held(&self) -> usize {
        self.frames.away()
    }
}
