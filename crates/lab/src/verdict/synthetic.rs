//! Simulated builds for tests: seeded noise of several distributions, and drift common to both
//! sides of a pair.

use clock::Random;

/// Noise distributions of a build's value, as seen on real machines.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Shape {
    /// Normal distribution, without disturbances.
    Normal,
    /// Normal, with one build in twenty slowed by up to ten deviations more.
    Bursts,
    /// Placement: a build is in a fast or a slow mode, 4 deviations apart, with equal probability.
    Bimodal,
    /// As `Bimodal`, with one build in five slow.
    Skewed,
    /// Cauchy distribution: no mean, no variance.
    Heavy,
}

impl Shape {
    /// All distributions, for loops over them.
    pub const ALL: [Shape; 5] = [Shape::Normal, Shape::Bursts, Shape::Bimodal, Shape::Skewed, Shape::Heavy];
}

/// Generator of the values of paired builds.
pub struct Noise {
    random: Random,
    shape: Shape,
    drift: f64,
}

impl Noise {
    /// Returns noise with bursts; equal seeds give equal noise.
    pub fn new(seed: u64) -> Noise {
        Noise::shaped(seed, Shape::Bursts)
    }

    /// Returns noise of distribution `shape`.
    pub fn shaped(seed: u64, shape: Shape) -> Noise {
        Noise { random: Random::new(seed), shape, drift: 0.0 }
    }

    /// Returns a normal number with mean 0 and deviation 1.
    pub fn normal(&mut self) -> f64 {
        self.random.normal()
    }

    /// Returns one build's deviation on the logarithmic scale.
    fn jitter(&mut self, deviation: f64) -> f64 {
        let normal = self.random.normal();
        let unit = self.random.unit();
        deviation
            * match self.shape {
                Shape::Normal => normal,
                Shape::Bursts => normal + if unit < 0.05 { 200.0 * unit } else { 0.0 },
                Shape::Bimodal => normal * 0.3 + if unit < 0.5 { 4.0 } else { 0.0 },
                Shape::Skewed => normal * 0.3 + if unit < 0.2 { 4.0 } else { 0.0 },
                Shape::Heavy => 0.5 * (std::f64::consts::PI * (unit - 0.5)).tan(),
            }
    }

    /// Returns `n` rounds of sides with costs in proportion to `ratios`; the machine's speed drifts
    /// by 2 % a round.
    pub fn rounds<const N: usize>(&mut self, n: usize, ratios: [f64; N], deviation: f64) -> [Vec<f64>; N] {
        let mut sides = [const { Vec::new() }; N];
        for _ in 0..n {
            self.drift += 0.02 * self.random.normal();
            let base = 100.0 * f64::exp(self.drift);
            for (side, ratio) in sides.iter_mut().zip(ratios) {
                side.push(base * ratio * self.jitter(deviation).exp());
            }
        }
        sides
    }

    /// Returns `n` paired builds in which the first takes `ratio` times as long as the second.
    pub fn pair(&mut self, n: usize, ratio: f64, deviation: f64) -> (Vec<f64>, Vec<f64>) {
        let [a, b] = self.rounds(n, [ratio, 1.0], deviation);
        (a, b)
    }
}
