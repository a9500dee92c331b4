//! An axis: the positions of values, and the values of its ticks.

/// Kind of an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Axis {
    /// Linear axis, which begins at zero.
    Linear,
    /// Logarithmic axis, for positive values.
    Log,
}

/// Ratio of the largest to the smallest value above which the axis is logarithmic.
const FAR_APART: f64 = 20.0;

/// Returns the kind of axis on which `values` can be distinguished.
pub fn fitting(values: &[f64]) -> Axis {
    let (least, most) = range(values);
    if least > 0.0 && most / least > FAR_APART { Axis::Log } else { Axis::Linear }
}

/// An axis with its ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scale {
    axis: Axis,
    from: f64,
    to: f64,
}

impl Scale {
    /// Creates an axis that covers `values`. It is linear unless all values are positive and `axis`
    /// is logarithmic.
    pub fn new(axis: Axis, values: &[f64]) -> Scale {
        let (least, most) = range(values);
        if axis == Axis::Log && least > 0.0 {
            return Scale { axis, from: least / 1.25, to: most * 1.25 };
        }
        let (from, to) = (least.min(0.0), most.max(0.0));
        let room = if to > from { (to - from) * 0.04 } else { 1.0 };
        Scale { axis: Axis::Linear, from: if from < 0.0 { from - room } else { 0.0 }, to: to + room }
    }

    /// Returns the position of a value: 0 at the left end, 1 at the right; values beyond the ends
    /// are clamped.
    pub fn place(&self, value: f64) -> f64 {
        let share = match self.axis {
            Axis::Linear => (value - self.from) / (self.to - self.from),
            Axis::Log => (value / self.from).ln() / (self.to / self.from).ln(),
        };
        if share.is_nan() { 0.0 } else { share.clamp(0.0, 1.0) }
    }

    /// Returns the position of zero, where bars begin. `None` for a logarithmic axis, on which the
    /// length of a bar has no meaning.
    pub fn zero(&self) -> Option<f64> {
        (self.axis == Axis::Linear).then(|| self.place(0.0))
    }

    /// Returns round values between the ends, at most about `wanted` of them.
    pub fn ticks(&self, wanted: usize) -> Vec<f64> {
        match self.axis {
            Axis::Linear => self.linear_ticks(wanted.max(2)),
            Axis::Log => self.log_ticks(wanted.max(2)),
        }
    }

    fn linear_ticks(&self, wanted: usize) -> Vec<f64> {
        let rough = (self.to - self.from) / wanted as f64;
        let power = 10f64.powf(rough.log10().floor());
        let step =
            [1.0, 2.0, 5.0, 10.0].map(|round| round * power).into_iter().find(|step| *step >= rough).unwrap_or(rough);
        let first = (self.from / step).ceil() as i64;
        let last = (self.to / step).floor() as i64;
        (first..=last).map(|i| i as f64 * step).collect()
    }

    fn log_ticks(&self, wanted: usize) -> Vec<f64> {
        let decades = (self.from.log10().floor() as i32)..=(self.to.log10().ceil() as i32);
        let ticks = |rounds: &[f64]| -> Vec<f64> {
            let all = decades.clone().flat_map(|power| rounds.iter().map(move |round| round * 10f64.powi(power)));
            all.filter(|tick| (self.from..=self.to).contains(tick)).collect()
        };
        let fine = ticks(&[1.0, 2.0, 5.0]);
        if fine.len() <= wanted { fine } else { ticks(&[1.0]) }
    }
}

fn range(values: &[f64]) -> (f64, f64) {
    let finite = values.iter().copied().filter(|value| value.is_finite());
    let (least, most) =
        finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(lo, hi), value| (lo.min(value), hi.max(value)));
    if least <= most { (least, most) } else { (0.0, 1.0) }
}
