//! Made-up builds for tests: seeded noise of several shapes, and drift that both sides of a pair share.

use crate::random::Random;

/// The shapes of noise that a build's value has on real machines.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Shape {
    /// Normal.
    Normal,
    /// Normal, and one build in twenty slowed by up to ten deviations more.
    Bursts,
    /// Placement: a build is in a fast or in a slow mode, 4 deviations apart, by a coin.
    Bimodal,
    /// The same, one build in five slow.
    Skewed,
    /// Cauchy: no mean, no variance.
    Heavy,
}

impl Shape {
    /// All of them.
    pub const ALL: [Shape; 5] = [Shape::Normal, Shape::Bursts, Shape::Bimodal, Shape::Skewed, Shape::Heavy];
}

/// A source of paired builds.
pub struct Noise {
    random: Random,
    shape: Shape,
    drift: f64,
}

impl Noise {
    /// Noise with bursts; equal seeds give equal noise.
    pub fn new(seed: u64) -> Noise {
        Noise::shaped(seed, Shape::Bursts)
    }

    /// Noise of `shape`.
    pub fn shaped(seed: u64, shape: Shape) -> Noise {
        Noise { random: Random::new(seed), shape, drift: 0.0 }
    }

    /// A normal number with mean 0 and deviation 1.
    pub fn normal(&mut self) -> f64 {
        self.random.normal()
    }

    /// One build's deviation on the logarithm's scale.
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

    /// `n` rounds of sides whose costs stand to each other as `ratios`; the machine's speed drifts by 2 % a round.
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

    /// `n` paired builds in which the first takes `ratio` times as long as the second.
    pub fn pair(&mut self, n: usize, ratio: f64, deviation: f64) -> (Vec<f64>, Vec<f64>) {
        let [a, b] = self.rounds(n, [ratio, 1.0], deviation);
        (a, b)
    }
}
