//! CUBIC: the window is a cubic function of the time since the last reduction (RFC 9438).
//!
//! The window rises fast to near its size at the last loss (`w_max`), stays there for a while, and
//! then grows beyond it. Where Reno's window would be larger, on paths with a short round trip or
//! little bandwidth, CUBIC follows Reno (4.3). [`HyStart`] controls the first slow start.
//! Arithmetic uses integers: windows in bytes, time in ticks of 2^-16 s. The curve deviates from
//! its formula by at most 0.01 %.
//!
//! The time `t` includes only time in which the window was in use (5.8): a connection whose
//! application was idle does not resume with a window that was never tested.

use super::congestion::{Ack, Congestion, Signal};
use super::hystart::{self, HyStart, Phase};
use alloc::boxed::Box;
use clock::{Duration, Instant};
use core::num::NonZeroU32;

/// Windows are never reduced below two segments (RFC 9438 4.6).
const MIN_SEGMENTS: u32 = 2;
/// Factor of a reduction as numerator and denominator: beta_cubic = 0.7 (4.6).
const BETA: (u64, u64) = (7, 10);
/// Factor for fast convergence: (1 + beta) / 2 (4.7).
const FAST_CONVERGENCE: (u64, u64) = (17, 20);
/// alpha_cubic = 3 (1 - beta) / (1 + beta). With this value, CUBIC's estimate of Reno's window has
/// the same average as Reno's window (4.3).
const ALPHA: (u64, u64) = (9, 17);
/// The constant C = 0.4 segments/s^3 (5.1), in units of 2^-16.
const C: u128 = 26_214;
/// The fraction 1 / C as numerator and denominator.
const INVERSE_C: (u128, u128) = (5, 2);
/// Maximum time since a reduction, in ticks of 2^-16 s: about 4.5 hours, when the curve is far
/// above any possible window.
const T_MAX: u32 = 1 << 30;

fn scaled(bytes: u32, (over, under): (u64, u64)) -> u32 {
    u32::try_from(u64::from(bytes) * over / under).unwrap_or(u32::MAX)
}

/// Converts nanoseconds to ticks of 2^-16 s, at most [`T_MAX`].
fn ticks(ns: u64) -> u32 {
    let ticks = (u128::from(ns) * 281_475) >> 32; // 2^48 / 10^9
    u32::try_from(ticks).unwrap_or(T_MAX).min(T_MAX)
}

/// Returns the greatest integer whose cube is at most `n`, for `n` below 2^96.
fn cube_root(n: u128) -> u32 {
    let mut root = 0u32;
    for bit in (0..32).rev() {
        let longer = root | 1 << bit;
        if u128::from(longer).pow(3) <= n {
            root = longer;
        }
    }
    root
}

/// One stage of congestion avoidance: from a reduction of the window to the next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Epoch {
    /// Time since the stage began, in nanoseconds. Ticks would be too coarse: on a fast path two
    /// ACKs arrive within one tick.
    t: u64,
    /// Time at which the curve reaches `origin`, in ticks of 2^-16 s.
    k: u32,
    /// Height of the plateau in bytes: `w_max`, or the window at the start of the stage if that is
    /// larger.
    origin: NonZeroU32,
    /// Estimate of the window that Reno would have, in 2^-16 bytes.
    w_est: u64,
}

impl Epoch {
    /// Begins a stage with a window of `cwnd` bytes (4.2). A `w_max` of 0 means that no reduction
    /// set one (4.8, 4.10).
    fn begin(cwnd: u32, w_max: u32, mss: u32) -> Epoch {
        let below = u128::from(w_max.saturating_sub(cwnd));
        let cubed = (below << 48) * INVERSE_C.0 / (INVERSE_C.1 * u128::from(mss.max(1)));
        let origin = NonZeroU32::new(w_max.max(cwnd)).unwrap_or(NonZeroU32::MIN);
        Epoch { t: 0, k: cube_root(cubed), origin, w_est: u64::from(cwnd) << 16 }
    }

    /// Returns W_cubic at `t`: C (t - K)^3 + W_max (4.2, figure 1).
    fn w_cubic(&self, t: u32, mss: u32) -> u32 {
        let distance = u128::from(t.min(T_MAX).abs_diff(self.k));
        let bytes = (distance * distance * distance * u128::from(mss) * C) >> (48 + 16);
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let origin = self.origin.get();
        if t < self.k { origin.saturating_sub(bytes) } else { origin.saturating_add(bytes) }
    }

    /// Grows the estimate of Reno's window: by alpha segments per window acknowledged, or by a
    /// whole segment once the estimate has reached the window before the reduction (4.3, figure 4).
    fn grow_w_est(&mut self, acked: u32, cwnd: u32, cwnd_prior: u32, mss: u32) {
        let alpha = if self.w_est >> 16 < u64::from(cwnd_prior) { ALPHA } else { (1, 1) };
        let windows = (u64::from(acked.min(cwnd)) << 32) / u64::from(cwnd.max(1)); // in 2^-32
        self.w_est = self.w_est.saturating_add(((windows * u64::from(mss)) >> 16) * alpha.0 / alpha.1);
    }
}

/// State from before a reduction, restored if the reduction proves spurious (4.9).
#[derive(Clone, Copy, Debug, Default)]
struct Prior {
    cwnd: u32,
    ssthresh: u32,
    w_max: u32,
    cwnd_prior: u32,
    epoch: Option<Epoch>,
}

/// State of the CUBIC algorithm.
#[derive(Clone, Debug)]
pub struct Cubic {
    cwnd: u32,
    ssthresh: u32,
    w_max: u32,
    /// The window before the last reduction, in bytes.
    cwnd_prior: u32,
    /// Growth not yet applied to the window, as bytes multiplied by `cwnd`.
    credit: u64,
    epoch: Option<Epoch>,
    /// Time of the previous ACK; `NEVER` means that the stage's clock is stopped.
    last_ack: Instant,
    /// Latest round-trip time, in microseconds.
    last_rtt_us: u32,
    hystart: HyStart,
    prior: Option<Box<Prior>>, // none before the first reduction
    initial_window: u32,
    mss: u16,
    after_rto: bool,
}

impl Cubic {
    /// Begins in slow start with a window of `initial_window` bytes.
    pub fn new(mss: u16, initial_window: u32) -> Cubic {
        let mss = mss.max(1);
        Cubic {
            cwnd: initial_window.max(u32::from(mss)),
            ssthresh: u32::MAX,
            w_max: 0,
            cwnd_prior: 0,
            credit: 0,
            epoch: None,
            last_ack: Instant::NEVER,
            last_rtt_us: 0,
            hystart: HyStart::default(),
            prior: None,
            initial_window: initial_window.max(u32::from(mss)),
            mss,
            after_rto: false,
        }
    }

    fn mss(&self) -> u32 {
        u32::from(self.mss)
    }

    /// Grows the window in slow start. Returns the part of the ACK's bytes left for congestion
    /// avoidance.
    #[inline(never)]
    fn slow_start(&mut self, ack: &Ack) -> u32 {
        let phase = match self.ssthresh {
            u32::MAX => self.hystart.on_ack(ack.rtt_us, ack.round_start),
            _ => Phase::SlowStart, // RFC 9406 4.3: later slow starts end at ssthresh
        };
        let most = self.mss().saturating_mul(if self.after_rto { 1 } else { hystart::L });
        let bytes = if ack.limit_growth { ack.bytes.min(most) } else { ack.bytes };
        match phase {
            Phase::SlowStart => {
                let step = bytes.min(self.ssthresh.saturating_sub(self.cwnd));
                self.cwnd = self.cwnd.saturating_add(step);
                bytes.saturating_sub(step)
            }
            Phase::Conservative => {
                self.cwnd = self.cwnd.saturating_add(bytes / hystart::CSS_GROWTH_DIVISOR);
                0
            }
            Phase::Over => {
                self.ssthresh = self.cwnd;
                bytes
            }
        }
    }

    /// Grows the window in congestion avoidance (4.2 to 4.5), after an ACK of `bytes` bytes.
    /// `passed` is the time since the previous ACK, in nanoseconds.
    #[inline(never)]
    fn avoid(&mut self, bytes: u32, passed: u64) {
        let (mss, cwnd) = (self.mss(), self.cwnd);
        if let Some(epoch) = &mut self.epoch {
            epoch.t = epoch.t.saturating_add(passed);
        }
        let w_max = self.w_max;
        let epoch = self.epoch.get_or_insert_with(|| Epoch::begin(cwnd, w_max, mss));
        epoch.grow_w_est(bytes, cwnd, self.cwnd_prior, mss);
        let friendly = u32::try_from(epoch.w_est >> 16).unwrap_or(u32::MAX);
        let t = ticks(epoch.t);
        if epoch.w_cubic(t, mss) < friendly {
            self.cwnd = cwnd.max(friendly);
            return;
        }
        let target = epoch.w_cubic(t.saturating_add(ticks(u64::from(self.last_rtt_us) * 1000)), mss);
        let target = target.clamp(cwnd, cwnd.saturating_add(cwnd / 2));
        self.credit = self.credit.saturating_add(u64::from(target.saturating_sub(cwnd)) * u64::from(bytes));
        let step = self.credit / u64::from(cwnd.max(1));
        self.credit %= u64::from(cwnd.max(1));
        self.cwnd = cwnd.saturating_add(u32::try_from(step).unwrap_or(u32::MAX));
    }

    /// Reduces the window: multiplicative decrease (4.6) and fast convergence (4.7).
    fn reduce(&mut self, in_flight: u32) {
        **self.prior.get_or_insert_default() = Prior {
            cwnd: self.cwnd,
            ssthresh: self.ssthresh,
            w_max: self.w_max,
            cwnd_prior: self.cwnd_prior,
            epoch: self.epoch,
        };
        self.cwnd_prior = self.cwnd;
        // the window is below the last plateau, so other flows need a share of the bandwidth:
        // release some of it sooner
        self.w_max = if self.cwnd < self.w_max { scaled(self.cwnd, FAST_CONVERGENCE) } else { self.cwnd };
        self.ssthresh = scaled(in_flight, BETA).max(MIN_SEGMENTS * self.mss());
        self.end_epoch();
    }

    fn end_epoch(&mut self) {
        self.epoch = None;
        self.credit = 0;
    }
}

impl Congestion for Cubic {
    #[inline]
    fn on_ack(&mut self, ack: &Ack, now: Instant) {
        let last = core::mem::replace(&mut self.last_ack, now);
        let passed = now.nanos().saturating_sub(last.nanos());
        self.last_rtt_us = ack.rtt_us.unwrap_or(self.last_rtt_us);
        if ack.in_recovery || !ack.cwnd_limited {
            return;
        }
        let mut bytes = ack.bytes;
        if self.cwnd < self.ssthresh {
            bytes = self.slow_start(ack);
        }
        if self.cwnd >= self.ssthresh {
            self.after_rto = false;
            if bytes > 0 {
                self.avoid(bytes, passed);
            }
        }
    }

    fn on_congestion(&mut self, in_flight: u32, _why: Signal, _now: Instant) {
        self.reduce(in_flight);
    }

    fn on_recovery_exit(&mut self, _now: Instant) {
        self.end_epoch();
        self.last_ack = Instant::NEVER; // time in recovery does not count for the next stage
    }

    /// Reduces the window as Reno does, with CUBIC's beta; the next stage starts a new plateau
    /// (4.8).
    fn on_rto(&mut self, in_flight: u32, first: bool, _now: Instant) {
        if first {
            self.reduce(in_flight);
        }
        self.w_max = 0;
        self.cwnd = self.mss();
        self.after_rto = true;
        self.end_epoch();
        self.last_ack = Instant::NEVER;
    }

    /// Restores the state before the reduction, so that the stage goes on where it was (4.9).
    fn undo(&mut self) {
        let Prior { cwnd, ssthresh, w_max, cwnd_prior, epoch } = self.prior.as_deref().copied().unwrap_or_default();
        self.cwnd = self.cwnd.max(cwnd);
        self.ssthresh = self.ssthresh.max(ssthresh);
        (self.w_max, self.cwnd_prior, self.epoch) = (w_max, cwnd_prior, epoch);
        (self.credit, self.last_ack, self.after_rto) = (0, Instant::NEVER, false);
    }

    /// Shrinks the window after idle time as [`super::NewReno`] does. Idle time is not part of the
    /// time of the stage (5.8).
    fn on_idle_restart(&mut self, idle: Duration, rto: Duration) {
        let restart = self.initial_window.min(self.cwnd);
        self.ssthresh = self.ssthresh.max(self.cwnd / 4 * 3);
        let silent = idle.as_nanos() / rto.as_nanos().max(1);
        self.cwnd = self.cwnd.checked_shr(u32::try_from(silent).unwrap_or(u32::MAX)).unwrap_or(0).max(restart);
        self.end_epoch();
        self.last_ack = Instant::NEVER;
    }

    #[inline]
    fn cwnd(&self) -> u32 {
        self.cwnd
    }

    #[inline]
    fn ssthresh(&self) -> u32 {
        self.ssthresh
    }

    fn set_cwnd(&mut self, cwnd: u32) {
        self.cwnd = cwnd.max(self.mss());
    }

    fn set_mss(&mut self, mss: u16) {
        self.mss = mss.max(1);
        self.cwnd = self.cwnd.max(self.mss());
    }

    fn name(&self) -> &'static str {
        "cubic"
    }
}

#[cfg(test)]
mod tests;
