//! Where an axis starts and ends, and where its ticks are.
//!
//! Limits follow the bulk of the values. With `p₁` and `p₉₉` the 1st and 99th percentile and
//! `s = p₉₉ − p₁`, they run from `max(smallest, p₁ − s/4)` to `min(largest, p₉₉ + s/4)`. Without
//! far outliers that shows every value; one far outlier among hundreds cannot squeeze the rest.

/// Share of the axis left blank at each end.
const MARGIN: f64 = 0.05;
/// How far beyond the percentiles values are still shown, as a share of the percentiles' span.
const REACH: f64 = 0.25;
/// The axis is at most this many steps long, from tick to tick.
const TICK_SHARE: f64 = 6.0;

/// Values that one set of points needs to have shown.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Range {
    low: f64,
    high: f64,
}

impl Range {
    /// The bulk of the values, or nothing where no value is finite.
    pub(super) fn of_bulk(values: impl Iterator<Item = f32>) -> Option<Self> {
        let mut sorted: Vec<f64> = values.filter(|v| v.is_finite()).map(f64::from).collect();
        sorted.sort_unstable_by(f64::total_cmp);
        let last = sorted.len().checked_sub(1)?;
        let low_rank = last / 100;
        let (low, high) = (sorted[low_rank], sorted[last - low_rank]);
        let reach = REACH * (high - low);
        Some(Self {
            low: sorted[0].max(low - reach),
            high: sorted[last].min(high + reach),
        })
    }

    /// Every finite value.
    pub(super) fn of_all(values: impl Iterator<Item = f32>) -> Option<Self> {
        values
            .filter(|v| v.is_finite())
            .map(f64::from)
            .map(|value| Self {
                low: value,
                high: value,
            })
            .reduce(Self::union)
    }

    /// The smallest range that holds both.
    pub(super) fn union(self, other: Self) -> Self {
        Self {
            low: self.low.min(other.low),
            high: self.high.max(other.high),
        }
    }
}

/// A value on the axis that gets a tick, and what is written beside it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tick {
    pub(super) value: f64,
    pub(super) label: String,
}

/// A line from a lower to a strictly higher value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Axis {
    low: f64,
    high: f64,
}

impl Axis {
    /// An axis over a range with a margin at both ends; without a range it runs from 0 to 1.
    pub(super) fn over(range: Option<Range>) -> Self {
        let Range { low, high } = range.unwrap_or(Range {
            low: 0.0,
            high: 1.0,
        });
        // One value alone gets an axis wide enough for its own digits to differ.
        let span = if high > low {
            high - low
        } else {
            (low.abs() * 0.1).max(1.0)
        };
        Self::around(low.midpoint(high), span * (1.0 + 2.0 * MARGIN))
    }

    /// An axis that starts at zero, for heights of bars.
    pub(super) fn from_zero(high: f64) -> Self {
        let high = if high > 0.0 {
            high * (1.0 + MARGIN)
        } else {
            1.0
        };
        Self { low: 0.0, high }
    }

    /// Two axes of one length, so that a step of one is as long across as it is up.
    pub(super) fn equal(x: Option<Range>, y: Option<Range>) -> [Self; 2] {
        let axes = [Self::over(x), Self::over(y)];
        let span = axes[0].span().max(axes[1].span());
        axes.map(|axis| Self::around(axis.low.midpoint(axis.high), span))
    }

    fn around(middle: f64, span: f64) -> Self {
        Self {
            low: middle - span / 2.0,
            high: middle + span / 2.0,
        }
    }

    /// Its length.
    pub(super) fn span(self) -> f64 {
        self.high - self.low
    }

    /// Where a value lies: 0 at the low end, 1 at the high end, beyond them outside.
    pub(super) fn place(self, value: f64) -> f64 {
        (value - self.low) / self.span()
    }

    /// Ticks at whole multiples of 1, 2 or 5 times a power of ten, from low to high.
    pub(super) fn ticks(self) -> Vec<Tick> {
        let (step, exponent) = tick_step(self.span() / TICK_SHARE);
        let (first, last) = ((self.low / step).ceil(), (self.high / step).floor());
        let count = (last - first).clamp(0.0, TICK_SHARE) as u32;
        (0..=count)
            .map(|index| (first + f64::from(index)) * step)
            .filter(|value| (self.low..=self.high).contains(value))
            .map(|value| Tick {
                value,
                label: label(value, exponent),
            })
            .collect()
    }
}

/// The smallest of 1, 2 and 5 times `10^exponent` that is no less than `least`.
// Repeated products, not a logarithm: these give the same digits on every machine.
fn tick_step(least: f64) -> (f64, i32) {
    let (mut power, mut exponent) = (1.0, 0);
    while power < least && exponent < 300 {
        power *= 10.0;
        exponent += 1;
    }
    while power / 10.0 >= least && exponent > -300 {
        power /= 10.0;
        exponent -= 1;
    }
    match least / power {
        share if share <= 0.1 => (power / 10.0, exponent - 1),
        share if share <= 0.2 => (power / 5.0, exponent - 1),
        share if share <= 0.5 => (power / 2.0, exponent - 1),
        _ => (power, exponent),
    }
}

/// A tick's value with the digits that tell it from its neighbours.
fn label(value: f64, exponent: i32) -> String {
    let is_plain = value.abs() < 1e6 && exponent >= -4;
    let text = if is_plain {
        let decimals = usize::try_from(-exponent).unwrap_or(0);
        format!("{value:.decimals$}")
    } else {
        format!("{value:.1e}")
    };
    let is_zero = text.bytes().all(|b| b"-0.".contains(&b));
    if is_zero { "0".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: Axis) -> Vec<String> {
        axis.ticks().into_iter().map(|tick| tick.label).collect()
    }

    #[test]
    fn limits_hold_every_value_when_none_is_far_out() {
        let values = (0..1000).map(|i| i as f32);
        assert_eq!(
            Range::of_bulk(values),
            Some(Range {
                low: 0.0,
                high: 999.0
            })
        );
    }

    #[test]
    fn a_few_far_values_do_not_move_the_limits() {
        let bulk = (0..=1000).map(|i| i as f32 / 1000.0);
        let far = [1e30, -1e30, f32::MAX, f32::NAN, f32::INFINITY];
        let range = Range::of_bulk(bulk.chain(far)).unwrap();
        assert!(range.low > -0.3 && range.high < 1.3, "{range:?}");
    }

    #[test]
    fn values_that_are_not_finite_give_no_range() {
        assert_eq!(Range::of_bulk([f32::NAN, f32::INFINITY].into_iter()), None);
        assert_eq!(Range::of_all([f32::NEG_INFINITY].into_iter()), None);
    }

    #[test]
    fn one_value_alone_still_gets_an_axis_of_some_length() {
        for value in [0.0, -3.5, 1e-40, 1e30, f32::MAX, f32::MIN] {
            let axis = Axis::over(Range::of_all([value].into_iter()));
            assert!(axis.low < axis.high, "{value}");
            assert!((axis.place(f64::from(value)) - 0.5).abs() < 1e-9);
        }
    }

    #[test]
    fn equal_axes_are_equally_long_and_keep_their_middles() {
        let range = |low, high| Some(Range { low, high });
        let [x, y] = Axis::equal(range(0.0, 10.0), range(5.0, 6.0));
        assert!((x.span() - y.span()).abs() < 1e-12);
        assert!((x.place(5.0) - 0.5).abs() < 1e-12);
        assert!((y.place(5.5) - 0.5).abs() < 1e-12);
        let swapped = Axis::equal(range(5.0, 6.0), range(0.0, 10.0));
        assert_eq!(swapped, [y, x]);
    }

    #[test]
    fn ticks_are_round_numbers_inside_the_axis() {
        let axis = |low, high| Axis { low, high };
        assert_eq!(labels(axis(-0.2, 4.2)), ["0", "1", "2", "3", "4"]);
        assert_eq!(labels(axis(-1.1, 1.1)), ["-1.0", "-0.5", "0", "0.5", "1.0"]);
        assert_eq!(
            labels(axis(0.0, 0.04)),
            ["0", "0.01", "0.02", "0.03", "0.04"]
        );
        assert_eq!(labels(axis(-90.0, 310.0)), ["0", "100", "200", "300"]);
        assert_eq!(
            labels(axis(0.0, 4e7)),
            ["0", "1.0e7", "2.0e7", "3.0e7", "4.0e7"]
        );
    }

    #[test]
    fn steps_are_the_next_round_number_up() {
        for (least, wanted) in [
            (1.0, (1.0, 0)),
            (1.1, (2.0, 0)),
            (2.1, (5.0, 0)),
            (5.1, (10.0, 1)),
            (0.3, (0.5, -1)),
            (0.07, (0.1, -1)),
            (0.02, (0.02, -2)),
            (130.0, (200.0, 2)),
        ] {
            assert_eq!(tick_step(least), wanted, "{least}");
        }
    }

    #[test]
    fn every_axis_that_can_be_built_has_few_ticks() {
        let values = [0.0, 1e-38, 3e-7, 1.0, 12345.678, 1e30, f32::MAX];
        for a in values {
            for b in values {
                let ends = [-a, b].into_iter();
                let count = Axis::over(Range::of_all(ends)).ticks().len();
                assert!((1..=7).contains(&count), "-{a} to {b}: {count}");
            }
        }
    }
}
