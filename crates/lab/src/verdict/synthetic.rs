//! Made-up trials for tests: seeded noise with heavy tails, and drift that both sides of a pair share.

/// A seeded source (SplitMix64: Steele, Lea, Flood 2014).
pub struct Noise(u64);

impl Noise {
    /// Equal seeds give equal noise.
    pub fn new(seed: u64) -> Noise {
        Noise(seed.wrapping_mul(0x2545_f491_4f6c_dd1d))
    }

    /// Even in (0, 1).
    pub fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (((z ^ (z >> 31)) >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    /// Normal with mean 0 and deviation 1 (Box and Muller 1958).
    pub fn normal(&mut self) -> f64 {
        (-2.0 * self.unit().ln()).sqrt() * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// What a trial on a shared machine looks like: normal, and one time in twenty slowed by up to ten deviations more.
    fn jitter(&mut self, deviation: f64) -> f64 {
        let burst = if self.unit() < 0.05 { 10.0 * self.unit() } else { 0.0 };
        deviation * (self.normal() + burst)
    }

    /// `n` paired trials in which the first takes `ratio` times as long as the second.
    pub fn pair(&mut self, n: usize, ratio: f64, deviation: f64) -> (Vec<f64>, Vec<f64>) {
        let mut drift = 0.0;
        let pairs = (0..n).map(|_| {
            drift += 0.02 * self.normal();
            let base = 100.0 * f64::exp(drift);
            (base * ratio * self.jitter(deviation).exp(), base * self.jitter(deviation).exp())
        });
        pairs.collect()
    }
}
