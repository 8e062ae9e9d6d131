//! Numbers that are read in order, block by block: a slice, or more than memory holds.
//!
//! Sums over a series are taken in its order, whatever the blocks, so they have the same bits in memory and
//! out of it.

use std::ops::Range;

/// Numbers in a fixed order.
pub trait Series {
    /// How many there are.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Shows the numbers of a range in order, in blocks of any size.
    fn scan(&self, range: Range<usize>, see: &mut dyn FnMut(&[f64]));

    /// What `value` makes of the numbers, in descending order; those that become none are left out.
    fn descending(&self, value: &dyn Fn(f64) -> Option<f64>) -> Box<dyn Series>;
}

impl Series for [f64] {
    fn len(&self) -> usize {
        self.len()
    }

    fn scan(&self, range: Range<usize>, see: &mut dyn FnMut(&[f64])) {
        see(&self[range]);
    }

    fn descending(&self, value: &dyn Fn(f64) -> Option<f64>) -> Box<dyn Series> {
        let mut sorted: Vec<f64> = self.iter().filter_map(|&number| value(number)).collect();
        sorted.sort_unstable_by(|a, b| b.total_cmp(a));
        Box::new(sorted)
    }
}

/// A series that borrows or holds another one.
macro_rules! same_as_its_slice {
    ($(($($parameters:tt)*) $holder:ty),*) => {$(
        impl<$($parameters)*> Series for $holder {
            fn len(&self) -> usize {
                Series::len(&self[..])
            }

            fn scan(&self, range: Range<usize>, see: &mut dyn FnMut(&[f64])) {
                self[..].scan(range, see);
            }

            fn descending(&self, value: &dyn Fn(f64) -> Option<f64>) -> Box<dyn Series> {
                self[..].descending(value)
            }
        }
    )*};
}

same_as_its_slice!(() Vec<f64>, (const N: usize) [f64; N]);

impl<S: Series + ?Sized> Series for &S {
    fn len(&self) -> usize {
        S::len(self)
    }

    fn scan(&self, range: Range<usize>, see: &mut dyn FnMut(&[f64])) {
        S::scan(self, range, see);
    }

    fn descending(&self, value: &dyn Fn(f64) -> Option<f64>) -> Box<dyn Series> {
        S::descending(self, value)
    }
}

/// Some numbers of a series, in its order.
pub struct Part<'a, S: Series + ?Sized> {
    /// The whole series.
    pub of: &'a S,
    /// Which of its numbers.
    pub range: Range<usize>,
}

impl<S: Series + ?Sized> Series for Part<'_, S> {
    fn len(&self) -> usize {
        self.range.len()
    }

    fn scan(&self, range: Range<usize>, see: &mut dyn FnMut(&[f64])) {
        let first = self.range.start;
        self.of.scan(first + range.start..first + range.end, see);
    }

    fn descending(&self, value: &dyn Fn(f64) -> Option<f64>) -> Box<dyn Series> {
        let mut sorted = Vec::new();
        each(self, |number| sorted.extend(value(number)));
        sorted.sort_unstable_by(|a, b| b.total_cmp(a));
        Box::new(sorted)
    }
}

/// Shows every number in order.
pub fn each<S: Series + ?Sized>(series: &S, mut see: impl FnMut(f64)) {
    series.scan(0..series.len(), &mut |block| {
        for &number in block {
            see(number);
        }
    });
}

/// The largest number; `-∞` where there is none.
pub fn largest<S: Series + ?Sized>(series: &S) -> f64 {
    let mut largest = f64::NEG_INFINITY;
    each(series, |number| largest = largest.max(number));
    largest
}

/// How many numbers are finite.
pub fn finite<S: Series + ?Sized>(series: &S) -> usize {
    let mut count = 0;
    each(series, |number| count += usize::from(number.is_finite()));
    count
}

/// `log Σ exp` of all numbers, as [`crate::log_sum_exp`] has it.
pub fn log_sum_exp<S: Series + ?Sized>(series: &S) -> f64 {
    let largest = largest(series);
    if largest == f64::NEG_INFINITY {
        return largest;
    }
    let mut sum = 0.0;
    each(series, |number| sum += (number - largest).exp());
    largest + sum.ln()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The same numbers, shown in blocks of three.
    pub(crate) struct InBlocks(pub(crate) Vec<f64>);

    impl Series for InBlocks {
        fn len(&self) -> usize {
            self.0.len()
        }

        fn scan(&self, range: Range<usize>, see: &mut dyn FnMut(&[f64])) {
            self.0[range].chunks(3).for_each(see);
        }

        fn descending(&self, value: &dyn Fn(f64) -> Option<f64>) -> Box<dyn Series> {
            let mut sorted: Vec<f64> = self.0.iter().filter_map(|&number| value(number)).collect();
            sorted.sort_unstable_by(|a, b| b.total_cmp(a));
            Box::new(InBlocks(sorted))
        }
    }

    #[test]
    fn sums_have_the_bits_of_a_plain_loop_whatever_the_blocks() {
        let numbers: Vec<f64> = (0..1000)
            .map(|k| (f64::from(k) * 0.7).sin() * 30.0)
            .collect();
        let plain = crate::log_sum_exp(numbers.iter().copied());
        assert_eq!(log_sum_exp(&numbers).to_bits(), plain.to_bits());
        assert_eq!(log_sum_exp(&InBlocks(numbers)).to_bits(), plain.to_bits());
        assert_eq!(log_sum_exp(&[f64::NEG_INFINITY; 2]), f64::NEG_INFINITY);
    }
}
