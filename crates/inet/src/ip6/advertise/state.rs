//! Configuration and schedule of router advertisements on an interface.

use clock::{Duration, Instant};

/// Number of initial advertisements, which are sent at shorter intervals (RFC 4861 10,
/// MAX_INITIAL_RTR_ADVERTISEMENTS).
const INITIAL_ADVERTS: u32 = 3;
/// Maximum interval between initial advertisements (RFC 4861 10, MAX_INITIAL_RTR_ADVERT_INTERVAL).
const INITIAL_INTERVAL_MAX: Duration = Duration::from_secs(16);
/// Minimum interval between two advertisements (RFC 4861 10, MIN_DELAY_BETWEEN_RAS).
const INTERVAL_MIN: Duration = Duration::from_secs(3);
/// Maximum delay of the reply to a router solicitation (RFC 4861 10, MAX_RA_DELAY_TIME).
pub(super) const REPLY_DELAY_MAX: Duration = Duration::from_millis(500);

/// Content and interval of router advertisements. All times are in seconds. The names in
/// parentheses are those in rtadvd.conf(5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Advertising {
    /// Router lifetime (rltime); 0 if this router is not a default router.
    pub lifetime: u16,
    /// Maximum interval between advertisements (maxinterval). The minimum interval is a third of
    /// it, but at least 3 seconds.
    pub max_interval: u16,
    /// Valid lifetime of the advertised prefixes (vltime).
    pub valid: u32,
    /// Preferred lifetime of the advertised prefixes (pltime).
    pub preferred: u32,
}

impl Default for Advertising {
    /// Returns the defaults of RFC 4861 6.2.1.
    fn default() -> Advertising {
        Advertising { lifetime: 1800, max_interval: 600, valid: 2_592_000, preferred: 604_800 }
    }
}

impl Advertising {
    /// Checks the ranges of RFC 4861 6.2.1.
    ///
    /// # Errors
    /// A message with the name of the invalid value and its range.
    pub fn check(&self) -> Result<(), &'static str> {
        if !(4..=1800).contains(&self.max_interval) {
            return Err("maxinterval must be from 4 to 1800 seconds");
        }
        if self.lifetime != 0 && !(self.max_interval..=9000).contains(&self.lifetime) {
            return Err("rltime must be 0, or from maxinterval to 9000 seconds");
        }
        if self.preferred > self.valid {
            return Err("pltime must be at most vltime");
        }
        Ok(())
    }
}

/// Advertising state of one interface.
#[derive(Debug)]
pub(crate) struct Advertiser {
    pub(super) config: Advertising,
    /// Time of the next advertisement.
    pub(super) due: Instant,
    /// Time of the last advertisement; `None` before the first one.
    pub(super) last: Option<Instant>,
    /// Number of advertisements sent.
    pub(super) sent: u32,
}

impl Advertiser {
    /// Records that an advertisement is sent now, and schedules the next one.
    pub(super) fn on_sent(&mut self, random: u64, now: Instant) {
        self.sent = self.sent.saturating_add(1);
        self.last = Some(now);
        let max = Duration::from_secs(u64::from(self.config.max_interval));
        let min = (max / 3).max(INTERVAL_MIN).min(max);
        let interval = min + up_to(max - min, random);
        let is_initial = self.sent < INITIAL_ADVERTS;
        self.due = now.after(if is_initial { interval.min(INITIAL_INTERVAL_MAX) } else { interval });
    }

    /// Schedules the reply to a router solicitation received now.
    pub(super) fn on_solicit(&mut self, random: u64, now: Instant) {
        let at = now.after(up_to(REPLY_DELAY_MAX, random));
        let at = self.last.map_or(at, |last| at.max(last.after(INTERVAL_MIN)));
        self.due = self.due.min(at);
    }
}

/// Returns a duration of at most `max`, selected by a random number.
pub(super) fn up_to(max: Duration, random: u64) -> Duration {
    Duration::from_nanos(random % (max.as_nanos() as u64 + 1))
}
