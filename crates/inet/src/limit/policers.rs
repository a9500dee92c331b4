//! Rate limits of packets for the control plane, by class.

use super::TokenBucket;
use clock::Instant;
use wire::control::ControlClass;

/// One token bucket for each class.
#[derive(Debug, Default)]
pub(crate) struct Policers([TokenBucket; ControlClass::ALL.len()]);

impl Policers {
    /// Returns whether a packet of `class` may be passed now; `rate` is the rate of the class in
    /// packets per second.
    pub(crate) fn take(&mut self, class: ControlClass, rate: u64, now: Instant) -> bool {
        self.0.get_mut(class as usize).is_none_or(|bucket| bucket.take(rate, now))
    }
}
