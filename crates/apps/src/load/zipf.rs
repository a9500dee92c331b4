//! Random numbers with a Zipf distribution.
//!
//! The n-th most popular item is drawn with a probability proportional to 1/n^s. YCSB (Cooper et
//! al., SoCC 2010) uses s = 0.99. Each draw takes constant time, by the method of Gray et al.
//! ("Quickly generating billion-record synthetic databases", SIGMOD 1994, figure 3).

use linerate::sim::Random;

/// Zipf distribution over the ranks 0 to n - 1; rank 0 is the most popular.
#[derive(Clone, Copy, Debug)]
pub struct Zipf {
    n: u64,
    alpha: f64,
    zeta: f64,
    eta: f64,
    second: f64,
}

impl Zipf {
    /// Creates a distribution over `n` ranks, with exponent `s` from 0 (uniform) to below 1.
    pub fn new(n: u64, s: f64) -> Zipf {
        let (n, s) = (n.max(1), s.clamp(0.0, 0.9999));
        let zeta: f64 = (1..=n).map(|rank| (rank as f64).powf(-s)).sum();
        let second = 0.5f64.powf(s);
        let eta = (1.0 - (2.0 / n as f64).powf(1.0 - s)) / (1.0 - (1.0 + second) / zeta);
        Zipf { n, alpha: 1.0 / (1.0 - s), zeta, eta: if eta.is_finite() { eta } else { 0.0 }, second }
    }

    pub fn rank(&self, random: &mut Random) -> u64 {
        let share = random.unit();
        let place = share * self.zeta;
        if place < 1.0 || self.n == 1 {
            return 0;
        }
        if place < 1.0 + self.second {
            return 1;
        }
        let rank = self.n as f64 * (self.eta * share - self.eta + 1.0).powf(self.alpha);
        (rank as u64).min(self.n - 1)
    }
}
