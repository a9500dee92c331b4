//! Quotas: limits on the rate and on the total number of bytes of each station.

use super::bounded::SearchPace;
use super::direction::{Both, Direction};
use clock::{Duration, Instant};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};

/// Maximum number of stations with quotas behind one policy.
pub const SOURCES_MAX: usize = 4096;
/// Time without a packet after which a station may be forgotten, unless a quota limits the total
/// number of bytes.
const IDLE: Duration = Duration::from_secs(60);
/// Minimum of the default burst, in bytes.
const BURST_MIN: u64 = 64 << 10;
/// Number of leading bits of an IPv6 address by which stations are distinguished.
const PREFIX6: u32 = 64;

/// Limit on the bytes that a station may transfer in one direction.
///
/// All bytes of an Ethernet frame except the FCS are counted. A packet beyond the limit is dropped.
/// Stations are distinguished by their IP addresses. Stations that have no address yet (DHCP)
/// therefore share one quota, and so do all receivers of a broadcast.
///
/// ```
/// # use linerate_node::policy::Quota;
/// let slow = Quota::rate(1_000_000).burst(100_000); // 1 MB/s on average, 100 kB at once
/// let trial = Quota::total(10_000_000).with_rate(1_000_000);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Quota {
    rate: Option<u64>,
    burst: Option<u64>,
    total: Option<u64>,
}

impl Quota {
    /// Limits the average rate to `bytes` per second. The default burst is the number of bytes in a
    /// tenth of a second, but at least 64 KiB.
    pub const fn rate(bytes: u64) -> Quota {
        Quota { rate: Some(bytes), burst: None, total: None }
    }

    /// Limits the total number of bytes.
    pub const fn total(bytes: u64) -> Quota {
        Quota { rate: None, burst: None, total: Some(bytes) }
    }

    /// Limits the average rate to `bytes` per second, in addition to the existing limits.
    #[must_use]
    pub const fn with_rate(self, bytes: u64) -> Quota {
        Quota { rate: Some(bytes), ..self }
    }

    /// Limits the total number of bytes, in addition to the existing limits.
    #[must_use]
    pub const fn with_total(self, bytes: u64) -> Quota {
        Quota { total: Some(bytes), ..self }
    }

    /// Sets the burst: the number of bytes by which a station may exceed the rate at once. A packet
    /// is admitted as a whole if at least one of its bytes fits.
    #[must_use]
    pub const fn burst(self, bytes: u64) -> Quota {
        Quota { burst: Some(bytes), ..self }
    }

    /// Returns the time that `bytes` take at the limited rate.
    fn time(rate: u64, bytes: u64) -> Duration {
        let ns = u128::from(bytes) * 1_000_000_000 / u128::from(rate.max(1));
        Duration::from_nanos(ns.min(u128::from(u64::MAX / 4)) as u64)
    }
}

/// Reason why a quota does not admit a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Exceeded {
    Rate,
    Total,
    /// The table of stations is full.
    Sources,
}

/// Bytes that a station has transferred in one direction.
#[derive(Clone, Copy, Default, Debug)]
struct Meter {
    /// Time at which the transfer of the bytes so far would have ended at the limited rate.
    due: Instant,
    bytes: u64,
}

impl Meter {
    /// Admits and counts a packet of `len` bytes, or returns the limit that it exceeds.
    fn take(&mut self, quota: &Quota, len: u64, now: Instant) -> Result<(), Exceeded> {
        if quota.total.is_some_and(|total| self.bytes.saturating_add(len) > total) {
            return Err(Exceeded::Total);
        }
        if let Some(rate) = quota.rate {
            let burst = quota.burst.unwrap_or((rate / 10).max(BURST_MIN));
            let due = self.due.max(now);
            if rate == 0 || due.since(now) >= Quota::time(rate, burst.max(1)) {
                return Err(Exceeded::Rate);
            }
            self.due = due.after(Quota::time(rate, len));
        }
        self.bytes += len;
        Ok(())
    }
}

#[derive(Debug, Default)]
struct Source {
    meters: Both<Meter>,
    used: Instant,
}

impl Source {
    fn take(&mut self, direction: Direction, quota: &Quota, len: u64, now: Instant) -> Result<(), Exceeded> {
        self.used = now;
        self.meters.get_mut(direction).take(quota, len, now)
    }
}

/// The stations, with the numbers of bytes that they have transferred.
#[derive(Debug)]
pub(super) struct Sources {
    quotas: Both<Option<Quota>>,
    table: HashMap<IpAddr, Source>,
    pace: SearchPace,
}

impl Sources {
    pub fn new(quotas: Both<Option<Quota>>) -> Sources {
        Sources { quotas, table: HashMap::new(), pace: SearchPace::default() }
    }

    /// Sets or removes the quota of a direction, and resets its meters.
    pub fn limit(&mut self, direction: Direction, quota: Option<Quota>) {
        self.table.values_mut().for_each(|source| *source.meters.get_mut(direction) = Meter::default());
        *self.quotas.get_mut(direction) = quota;
    }

    /// Admits and counts a packet of `len` bytes that `station` transfers in a direction.
    pub fn take(&mut self, station: IpAddr, direction: Direction, len: u64, now: Instant) -> Result<(), Exceeded> {
        let Some(quota) = *self.quotas.get(direction) else { return Ok(()) };
        let key = source_of(station);
        if let Some(source) = self.table.get_mut(&key) {
            return source.take(direction, &quota, len, now);
        }
        if self.table.len() >= SOURCES_MAX {
            self.forget_idle(now);
            if self.table.len() >= SOURCES_MAX {
                return Err(Exceeded::Sources);
            }
        }
        self.table.entry(key).or_default().take(direction, &quota, len, now)
    }

    /// Forgets the stations that have been idle. If a quota limits the total number of bytes, keeps
    /// all stations, since a forgotten station could transfer that number of bytes again.
    fn forget_idle(&mut self, now: Instant) {
        if !self.pace.is_due(now) {
            return;
        }
        if [self.quotas.sent, self.quotas.received].into_iter().flatten().all(|quota| quota.total.is_none()) {
            self.table.retain(|_, source| {
                now.since(source.used) < IDLE || source.meters.sent.due > now || source.meters.received.due > now
            });
        }
    }
}

/// Returns the address under which a station is counted. For IPv6 this is the prefix of the
/// address, since a station may use any address in its prefix.
pub(crate) fn source_of(addr: IpAddr) -> IpAddr {
    match addr {
        IpAddr::V4(_) => addr,
        IpAddr::V6(addr) => Ipv6Addr::from_bits(addr.to_bits() >> (128 - PREFIX6) << (128 - PREFIX6)).into(),
    }
}
