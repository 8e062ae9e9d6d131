//! Axes of plots: where they start and end, where their ticks are and what is written there.
//!
//! Limits follow the bulk of the values. With `p` and `q` the percentiles 0.5 and 99.5 and `s = q − p`,
//! they run from `max(smallest, p − s/4)` to `min(largest, q + s/4)`. Without far outliers that shows
//! every value; one far outlier among hundreds cannot squeeze the rest.

use std::ops::Range;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};

/// Share of values at each end that do not decide where an axis ends …
pub(crate) const OUTLYING: f64 = 0.005;
/// … but are shown up to this share of the others' span beyond them.
const REACH: f64 = 0.25;
/// Share of an axis left blank at each end.
pub(crate) const BLANK: f64 = 0.05;
/// An axis is at most so many steps long, from tick to tick.
const TICKS: f64 = 6.0;
/// Characters by which a label may stand out at each end of an axis.
const OVERHANG: f64 = 2.0;
/// Larger numbers are not drawn: their differences may not be finite.
const FARTHEST: f64 = 1e300;

/// Ends of what is to be shown on an axis, the lower one first.
pub(crate) type Ends = [f64; 2];

/// The bulk of the values, or nothing where no value can be drawn.
pub(crate) fn bulk(values: impl Iterator<Item = f64>) -> Option<Ends> {
    let mut sorted: Vec<f64> = values.filter(|v| v.abs() <= FARTHEST).collect();
    sorted.sort_unstable_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    let cut = (last as f64 * OUTLYING) as usize;
    let (low, high) = (sorted[cut], sorted[last - cut]);
    let reach = (high - low) * REACH;
    Some([sorted[0].max(low - reach), sorted[last].min(high + reach)])
}

/// Every value that can be drawn.
pub(crate) fn all(values: impl Iterator<Item = f64>) -> Option<Ends> {
    let drawable = values.filter(|v| v.abs() <= FARTHEST);
    drawable.map(|v| [v, v]).reduce(union)
}

/// The smallest ends that hold both.
pub(crate) fn union(one: Ends, other: Ends) -> Ends {
    [one[0].min(other[0]), one[1].max(other[1])]
}

/// A range with blanks at both ends; from 0 to 1 without ends.
pub(crate) fn padded(ends: Option<Ends>) -> Range<f64> {
    let [low, high] = ends.unwrap_or([0.0, 1.0]);
    let far = low.abs().max(high.abs());
    // Values on one place get an axis on which their digits differ.
    let span = if high - low > far * 1e-9 {
        high - low
    } else {
        far.max(1.0)
    };
    around(f64::midpoint(low, high), span * (1.0 + 2.0 * BLANK))
}

/// Padded ranges of one length, so that a step of one is as long across as it is up.
pub(crate) fn equal(ends: [Option<Ends>; 2]) -> [Range<f64>; 2] {
    let ranges = ends.map(padded);
    let span = ranges.iter().map(|r| r.end - r.start).fold(0.0, f64::max);
    ranges.map(|range| around(f64::midpoint(range.start, range.end), span))
}

fn around(middle: f64, span: f64) -> Range<f64> {
    middle - span / 2.0..middle + span / 2.0
}

/// What the numbers of an axis are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    One,
    /// Shares, written as percentages.
    Percent,
    /// The range and the ticks are exponents of ten.
    Power,
}

/// A line of numbers with ticks at round ones.
///
/// Ticks are counted, not added up, so that there are few of them whatever the numbers are.
#[derive(Debug, Clone)]
pub(crate) struct Axis {
    range: Range<f64>,
    ticks: Vec<f64>,
    step: f64,
    unit: Unit,
}

impl Axis {
    /// An axis from one number to a larger one.
    pub(crate) fn over(range: Range<f64>) -> Self {
        Self::stepping(range, 0.0, Unit::One)
    }

    /// An axis of shares, written as percentages.
    pub(crate) fn percent(range: Range<f64>) -> Self {
        Self::stepping(range, 0.0, Unit::Percent)
    }

    /// An axis with equal room for each power of ten, whole powers that hold all the values above zero.
    pub(crate) fn powers(values: impl Iterator<Item = f64>) -> Self {
        let exponents = values.filter(|v| (1.0 / FARTHEST..=FARTHEST).contains(v));
        let ends = all(exponents.map(f64::log10));
        let ends = ends.map(|[low, high]| [low.floor(), high.ceil().max(low.floor() + 1.0)]);
        Self::stepping(padded(ends), 1.0, Unit::Power)
    }

    fn stepping(range: Range<f64>, shortest: f64, unit: Unit) -> Self {
        let least = ((range.end - range.start) / TICKS).max(shortest);
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
        let ticks = ticks.map(|tick| tick.clamp(range.start, range.end));
        Self {
            ticks: ticks.collect(),
            range,
            step,
            unit,
        }
    }

    /// The same axis, so many characters long, without the ticks whose labels have no room.
    pub(crate) fn spaced(mut self, most: usize) -> Self {
        let length = |axis: &Self, tick: &f64| axis.label(*tick).chars().count();
        let fits = |tick: &f64| {
            let half = length(&self, tick) as f64 / 2.0;
            let at = (tick - self.range.start) / self.span() * most as f64;
            at + half <= most as f64 + OVERHANG && at - half >= -OVERHANG
        };
        let ticks: Vec<f64> = self.ticks.iter().copied().filter(fits).collect();
        let longest = ticks.iter().map(|tick| length(&self, tick)).max();
        let apart = self.step / self.span() * most as f64;
        let stride = ((longest.unwrap_or(0) + 1) as f64 / apart).ceil() as usize;
        let ticks = ticks.into_iter().step_by(stride.max(1)).collect();
        self.ticks = ticks;
        self
    }

    /// Where a value lies: 0 at the low end, 1 at the high end, beyond them or no number outside.
    pub(crate) fn place(&self, value: f64) -> f64 {
        let value = if self.unit == Unit::Power {
            value.log10()
        } else {
            value
        };
        (value - self.range.start) / self.span()
    }

    /// Whether a value lies between the ends.
    pub(crate) fn shows(&self, value: f64) -> bool {
        (0.0..=1.0).contains(&self.place(value))
    }

    /// Its length.
    pub(crate) fn span(&self) -> f64 {
        self.range.end - self.range.start
    }

    /// What is written at the ticks.
    pub(crate) fn labels(&self) -> impl Iterator<Item = String> {
        self.ticks.iter().map(|tick| self.label(*tick))
    }

    /// A tick as it stands beside the axis.
    fn label(&self, tick: f64) -> String {
        match self.unit {
            Unit::One => number(tick, self.step, self.farthest()),
            Unit::Percent => {
                let [tick, step, far] = [tick, self.step, self.farthest()].map(|v| 100.0 * v);
                number(tick, step, far) + " %"
            }
            Unit::Power if (-4.0..6.0).contains(&tick) => {
                let digits = (-tick).max(0.0) as usize;
                format!("{:.digits$}", 10_f64.powf(tick))
            }
            Unit::Power => minus(&format!("1e{tick}")),
        }
    }

    fn farthest(&self) -> f64 {
        self.range.start.abs().max(self.range.end.abs())
    }
}

/// A number with the digits that tell it from its neighbours, a step away.
fn number(value: f64, step: f64, far: f64) -> String {
    if !(1e-4..1e6).contains(&far) {
        let text = format!("{value:.1e}");
        return if value == 0.0 {
            "0".to_owned()
        } else {
            minus(&text)
        };
    }
    let digits = (-step.log10().floor()).clamp(0.0, 9.0) as usize;
    let text = format!("{value:.digits$}");
    // Nothing is below zero by a rounding error alone.
    if text.chars().all(|c| matches!(c, '-' | '0' | '.')) {
        return text.replace('-', "");
    }
    minus(&text)
}

fn minus(text: &str) -> String {
    text.replace('-', "−")
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (from, to): (i32, i32)) -> i32 {
        (f64::from(from) + self.place(*value) * f64::from(to - from)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() {
            return Vec::new();
        }
        let value = |&tick: &f64| match self.unit {
            Unit::Power => 10_f64.powf(tick),
            _ => tick,
        };
        self.ticks.iter().map(value).collect()
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

impl ValueFormatter<f64> for Axis {
    fn format_ext(&self, value: &f64) -> String {
        self.label(match self.unit {
            Unit::Power => value.log10().round(),
            _ => *value,
        })
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
        let shares: Vec<String> = Axis::percent(0.0..0.013).labels().collect();
        assert_eq!(shares, ["0.0 %", "0.5 %", "1.0 %"]);
    }

    #[test]
    fn powers_of_ten_are_written_as_people_write_them() {
        let labels = |values: &[f64]| -> Vec<String> {
            Axis::powers(values.iter().copied()).labels().collect()
        };
        assert_eq!(
            labels(&[10.0, 1e5, 0.0, f64::NAN]),
            ["10", "100", "1000", "10000", "100000"]
        );
        assert_eq!(labels(&[0.02, 1.0]), ["0.01", "0.1", "1"]);
        assert_eq!(labels(&[1e7]), ["1e7", "1e8"]);
        let axis = Axis::powers([10.0, 1e5].into_iter());
        assert!((axis.place(1000.0) - 0.5).abs() < 1e-9);
        assert!(!axis.shows(0.0) && !axis.shows(-1.0) && !axis.shows(f64::NAN));
        assert!(labels(&[1e-300, 1e300, f64::MAX]).len() <= 8);
        assert_eq!(labels(&[]), ["1", "10"]);
    }

    #[test]
    fn labels_in_a_row_have_room() {
        let spaced = |range| -> Vec<String> { Axis::over(range).spaced(24).labels().collect() };
        assert_eq!(spaced(0.0..5.0), ["0", "1", "2", "3", "4", "5"]);
        assert_eq!(spaced(0.0..500.0).len(), 6);
        assert_eq!(spaced(0.0..5e5).len(), 3);
        assert!(spaced(123_456.0..123_456.001).len() <= 2);
        assert_eq!(spaced(-1.0..0.9999)[0], "−1.0", "it may stand out a little");
    }

    #[test]
    fn ends_hold_every_value_when_none_is_far_out() {
        assert_eq!(bulk((0..1000).map(f64::from)), Some([0.0, 999.0]));
        let values = (0..=1000).map(|i| f64::from(i) / 1000.0);
        let far = [1e30, -1e30, f64::MAX, f64::NAN, f64::INFINITY];
        let [low, high] = bulk(values.chain(far)).unwrap();
        assert!(low > -0.3 && high < 1.3, "{low} to {high}");
        assert_eq!(bulk([f64::NAN, f64::INFINITY].into_iter()), None);
        assert_eq!(all([f64::NEG_INFINITY].into_iter()), None);
    }

    #[test]
    fn one_value_alone_still_gets_an_axis_of_some_length() {
        for value in [0.0, -3.5, 1e-40, 1e30, FARTHEST, -FARTHEST] {
            let axis = Axis::over(padded(all([value].into_iter())));
            assert!(axis.span() > 0.0 && axis.span().is_finite(), "{value}");
            assert!((axis.place(value) - 0.5).abs() < 1e-9);
        }
    }

    #[test]
    fn equal_ranges_are_equally_long_and_keep_their_middles() {
        let [x, y] = equal([Some([0.0, 10.0]), Some([5.0, 6.0])]);
        assert!((x.end - x.start - (y.end - y.start)).abs() < 1e-12);
        assert!((x.start + x.end - 10.0).abs() < 1e-12);
        assert!((y.start + y.end - 11.0).abs() < 1e-12);
        let swapped = equal([Some([5.0, 6.0]), Some([0.0, 10.0])]);
        assert_eq!(swapped, [y, x]);
    }

    #[test]
    fn every_axis_that_can_be_built_has_few_ticks() {
        let values = [0.0, 1e-38, 3e-7, 1.0, 12345.678, 1e30, 1e300];
        for a in values {
            for b in values {
                let count = Axis::over(padded(all([-a, b].into_iter()))).ticks.len();
                assert!((1..=8).contains(&count), "-{a} to {b}: {count}");
            }
        }
    }
}
