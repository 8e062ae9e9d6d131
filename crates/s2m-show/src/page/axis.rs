//! Axes of plots: where their ticks are and what is written there.

use std::ops::Range;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};

/// An axis is at most so many steps long, from tick to tick.
const TICKS: f64 = 6.0;

/// A line of numbers with ticks at round ones.
///
/// Ticks are counted, not added up, so that there are few of them whatever the numbers are.
pub(super) struct Axis {
    range: Range<f64>,
    ticks: Vec<f64>,
    step: f64,
}

impl Axis {
    /// An axis from one number to a larger one.
    pub(super) fn over(range: Range<f64>) -> Self {
        let least = (range.end - range.start) / TICKS;
        let power = 10_f64.powf(least.log10().floor());
        let steps = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
        let step = steps
            .into_iter()
            .find(|step| *step >= least)
            .unwrap_or(least);
        let first = (range.start / step).ceil();
        let ticks = (0..8).map(|at| (first + f64::from(at)) * step);
        // The last tick may lie beyond the end by rounding alone.
        let ticks = ticks.filter(|tick| *tick <= range.end + step * 1e-9);
        let ticks = ticks
            .map(|tick| tick.clamp(range.start, range.end))
            .collect();
        Self { range, ticks, step }
    }

    /// A number as it stands beside the axis.
    fn label(&self, value: f64) -> String {
        let far = self.range.start.abs().max(self.range.end.abs());
        if !(1e-4..1e6).contains(&far) {
            return format!("{value:.1e}").replace('-', "−");
        }
        let digits = (-self.step.log10().floor()).clamp(0.0, 9.0) as usize;
        let text = format!("{value:.digits$}");
        // Nothing is below zero by a rounding error alone.
        let is_zero = text.chars().all(|c| matches!(c, '-' | '0' | '.'));
        text.replace('-', if is_zero { "" } else { "−" })
    }
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (from, to): (i32, i32)) -> i32 {
        let place = (value - self.range.start) / (self.range.end - self.range.start);
        (f64::from(from) + place * f64::from(to - from)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() {
            Vec::new()
        } else {
            self.ticks.clone()
        }
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

impl ValueFormatter<f64> for Axis {
    fn format_ext(&self, value: &f64) -> String {
        self.label(*value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_few_and_round() {
        let ticks = |range| Axis::over(range).ticks;
        assert_eq!(
            ticks(0.0..1.0),
            [0.0, 0.2, 0.4, 0.600_000_000_000_000_1, 0.8, 1.0]
        );
        assert_eq!(ticks(-3.2..3.1), [-2.0, 0.0, 2.0]);
        for range in [
            0.0..1e-300,
            -1e300..1e300,
            1e9..1e9 + 1e-3,
            0.0..f64::MIN_POSITIVE,
        ] {
            let count = ticks(range.clone()).len();
            assert!(count <= 8, "{range:?}: {count}");
        }
        let axis = Axis::over(-0.3..0.3);
        assert_eq!(
            [-0.2, -1e-17, 0.2].map(|v| axis.label(v)),
            ["−0.2", "0.0", "0.2"]
        );
        assert_eq!(Axis::over(0.0..3e7).label(1e7), "1.0e7");
    }
}
