//! The nearest items of each item, exact in double precision.
//!
//! Bounds on the distances of a block leave a short list: whoever may be nearer than the k-th
//! smallest upper bound. Only the short lists are measured exactly, at the end. Items at the same
//! distance come in the order of their numbers.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::pairs::{Block, LANES, Side, in_parallel, squared_distance};

/// Longest list that a block may leave for an item, beyond a few times k. A longer one means ties,
/// which are settled at once.
const LONGEST: usize = 32;

/// An item that may be among the nearest of another.
pub(crate) struct Candidate {
    owner: usize,
    item: usize,
    lower: f32,
    upper: f32,
}

/// What is known of each item's k-th nearest: no farther than its bound, a scaled squared distance.
///
/// Threads share it. The order of their work decides how short the lists are, not what comes out.
pub(crate) struct Bounds(Vec<AtomicU32>);

impl Bounds {
    pub(crate) fn unknown(items: usize) -> Self {
        let infinite = || AtomicU32::new(f32::INFINITY.to_bits());
        Self((0..items).map(|_| infinite()).collect())
    }

    fn get(&self, item: usize) -> f32 {
        f32::from_bits(self.0[item].load(Ordering::Relaxed))
    }

    /// Lowers a bound. Bits of numbers that are not negative are ordered as the numbers are.
    fn lower(&self, item: usize, bound: f32) {
        if bound >= 0.0 {
            self.0[item].fetch_min(bound.to_bits(), Ordering::Relaxed);
        }
    }
}

/// The candidates for the `k` nearest in a block of pairs of one side, for rows and for columns.
pub(crate) fn shortlist_within(block: &Block<'_>, k: usize, bounds: &Bounds) -> Vec<Candidate> {
    let lists = |items: std::ops::Range<usize>| -> Vec<List> {
        items.map(|item| List::new(k, bounds.get(item))).collect()
    };
    let mut rows = lists(block.rows.clone());
    let mut columns = lists(block.columns.clone());
    let mut bound: Vec<f32> = columns.iter().map(|list| list.bound).collect();
    for (row, first, products) in block.pairs() {
        let (low_row, low) = block.low(row);
        let mut row_bound = rows[row].bound;
        let (low, bound) = (&low[first..], &mut bound[first..]);
        for from in (0..products.len()).step_by(LANES) {
            let to = products.len().min(from + LANES);
            let lower = |at: usize| low_row + low[at] - 2.0 * products[at];
            let near = |at: usize| lower(at) <= row_bound.max(bound[at]);
            if !(from..to).fold(false, |any, at| any | near(at)) {
                continue;
            }
            for at in from..to {
                let (lower, column) = (lower(at), first + at);
                if lower <= row_bound {
                    let upper = block.upper(row, column, products[at]);
                    rows[row].offer(lower, upper, column);
                    row_bound = rows[row].bound;
                }
                if lower <= bound[at] {
                    let upper = block.upper(row, column, products[at]);
                    columns[column].offer(lower, upper, row);
                    bound[at] = columns[column].bound;
                }
            }
        }
    }
    let mut found = Vec::new();
    for (row, list) in rows.into_iter().enumerate() {
        let owner = block.rows.start + row;
        let list = list.finish(|column| block.exact(row, column));
        list.report(owner, block.columns.start, bounds, &mut found);
    }
    for (column, list) in columns.into_iter().enumerate() {
        let owner = block.columns.start + column;
        let list = list.finish(|row| block.exact(row, column));
        list.report(owner, block.rows.start, bounds, &mut found);
    }
    found
}

/// The candidates for the `k` nearest on the right of each item on the left.
pub(crate) fn shortlist_across(block: &Block<'_>, k: usize, bounds: &Bounds) -> Vec<Candidate> {
    let mut found = Vec::new();
    for (row, first, products) in block.pairs() {
        let owner = block.rows.start + row;
        let mut list = List::new(k, bounds.get(owner));
        let (low_row, low) = block.low(row);
        for (column, product) in (first..).zip(products) {
            let lower = low_row + low[column] - 2.0 * product;
            if lower <= list.bound {
                list.offer(lower, block.upper(row, column, *product), column);
            }
        }
        let list = list.finish(|column| block.exact(row, column));
        list.report(owner, block.columns.start, bounds, &mut found);
    }
    found
}

/// Candidates of one item in one block, by their places there.
struct List {
    k: usize,
    /// No k-th nearest lies beyond.
    bound: f32,
    /// Length at which the list is looked through.
    full: usize,
    found: Vec<(f32, f32, usize)>, // lower, upper, place
}

impl List {
    fn new(k: usize, bound: f32) -> Self {
        Self {
            k,
            bound,
            full: 2 * k + 2,
            found: Vec::new(),
        }
    }

    fn offer(&mut self, lower: f32, upper: f32, place: usize) {
        self.found.push((lower, upper, place));
        if self.found.len() >= self.full {
            self.tighten();
            self.full = self.full.max(2 * self.found.len());
        }
    }

    /// Lowers the bound to the k-th smallest upper bound, and drops who lies beyond.
    fn tighten(&mut self) {
        if self.found.len() >= self.k {
            let by_upper = |a: &(f32, f32, usize), b: &(f32, f32, usize)| a.1.total_cmp(&b.1);
            let (_, kth, _) = self.found.select_nth_unstable_by(self.k - 1, by_upper);
            self.bound = self.bound.min(kth.1);
        }
        let bound = self.bound;
        self.found.retain(|(lower, _, _)| *lower <= bound);
    }

    /// Shortens the list; a long one by exact distances, until k are known to be the nearest.
    fn finish(mut self, exact: impl Fn(usize) -> f64) -> Self {
        self.tighten();
        if self.found.len() > 4 * self.k + LONGEST {
            self.found.sort_unstable_by_key(|(_, _, place)| *place);
            let mut measured: Vec<(f64, (f32, f32, usize))> = Vec::new();
            let mut equal = 0;
            for candidate in self.found {
                let distance = exact(candidate.2);
                measured.push((distance, candidate));
                equal += usize::from(distance == 0.0);
                // Nothing is nearer than zero.
                if equal == self.k {
                    break;
                }
            }
            measured.sort_by(|a, b| a.0.total_cmp(&b.0));
            measured.truncate(self.k);
            self.found = measured.into_iter().map(|(_, found)| found).collect();
        }
        self
    }

    fn report(self, owner: usize, first: usize, bounds: &Bounds, to: &mut Vec<Candidate>) {
        bounds.lower(owner, self.bound);
        to.extend(
            self.found
                .into_iter()
                .map(|(lower, upper, place)| Candidate {
                    owner,
                    item: first + place,
                    lower,
                    upper,
                }),
        );
    }
}

/// Another item and its squared distance.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Near {
    pub(crate) square: f64,
    pub(crate) item: usize,
}

/// The `k` nearest on the right of each item on the left, nearest first.
///
/// Each item must have `k` others there at least.
pub(crate) fn nearest(
    left: &Side<'_>,
    right: &Side<'_>,
    k: usize,
    shortlists: Vec<Vec<Candidate>>,
) -> Vec<Vec<Near>> {
    let mut lists: Vec<Vec<Candidate>> = (0..left.items()).map(|_| Vec::new()).collect();
    for candidate in shortlists.into_iter().flatten() {
        lists[candidate.owner].push(candidate);
    }
    let of_item = |(): &mut (), owner: usize| {
        let list = &lists[owner];
        let mut upper: Vec<f32> = list.iter().map(|c| c.upper).collect();
        let (_, bound, _) = upper.select_nth_unstable_by(k - 1, f32::total_cmp);
        let candidates = list.iter().filter(|c| c.lower <= *bound);
        let mut near: Vec<Near> = candidates
            .map(|c| {
                let (x, y) = (left.features.row(owner), right.features.row(c.item));
                let square = squared_distance(x, y);
                Near {
                    square,
                    item: c.item,
                }
            })
            .collect();
        near.sort_by(|a, b| a.square.total_cmp(&b.square).then(a.item.cmp(&b.item)));
        near.truncate(k);
        near
    };
    in_parallel(left.items(), || (), of_item)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::features::{Features, Row};
    use crate::pairs::{across, within};

    /// All distances, sorted.
    fn twin(left: Features<'_>, right: Features<'_>, k: usize, same: bool) -> Vec<Vec<Near>> {
        let of_item = |(owner, x): (usize, Row<'_>)| {
            let mut all: Vec<Near> = right
                .rows()
                .enumerate()
                .filter(|(item, _)| !same || *item != owner)
                .map(|(item, y)| Near {
                    square: squared_distance(x, y),
                    item,
                })
                .collect();
            all.sort_by(|a, b| a.square.total_cmp(&b.square).then(a.item.cmp(&b.item)));
            all.truncate(k);
            all
        };
        left.rows().enumerate().map(of_item).collect()
    }

    fn check(left: &[f32], right: &[f32], width: usize, k: usize) {
        let (a, b) = (
            Features::new(left, width).unwrap(),
            Features::new(right, width).unwrap(),
        );
        let [x, y] = Side::together([a, b]);
        if x.items() > k {
            let bounds = Bounds::unknown(x.items());
            let lists = within(&x, |block| shortlist_within(block, k, &bounds));
            assert_eq!(nearest(&x, &x, k, lists), twin(a, a, k, true));
        }
        if y.items() >= k {
            let bounds = Bounds::unknown(x.items());
            let lists = across(&x, &y, |block| shortlist_across(block, k, &bounds));
            assert_eq!(nearest(&x, &y, k, lists), twin(a, b, k, false));
        }
    }

    proptest! {
        #[test]
        fn the_nearest_are_the_twins(
            left in prop::collection::vec(-1.0..1.0f32, 2..120),
            right in prop::collection::vec(-1.0..1.0f32, 2..120),
            (width, k) in (1..4usize, 1..6usize),
            offset in prop_oneof![Just(0.0f32), Just(1e4f32)],
        ) {
            let whole = |values: &[f32]| -> Vec<f32> {
                let values = &values[..values.len() / width * width];
                values.iter().map(|x| x + offset).collect()
            };
            check(&whole(&left), &whole(&right), width, k);
        }

        #[test]
        fn the_nearest_are_the_twins_with_ties_and_repeats(
            left in prop::collection::vec(0..3u8, 2..600),
            right in prop::collection::vec(0..3u8, 2..600),
            (width, k) in (1..4usize, 1..6usize),
        ) {
            let whole = |values: &[u8]| -> Vec<f32> {
                let values = &values[..values.len() / width * width];
                values.iter().map(|x| f32::from(*x)).collect()
            };
            check(&whole(&left), &whole(&right), width, k);
        }
    }

    #[test]
    fn more_items_than_a_block_holds() {
        let values: Vec<f32> = (0..2 * 1300).map(|i| (i * i % 1009) as f32).collect();
        check(&values, &values[..2 * 700], 2, 5);
        // All alike, and all alike but one.
        let mut same = vec![1.5; 1300];
        check(&same, &same, 1, 5);
        same[800] = 2.5;
        check(&same, &[0.0; 600], 1, 3);
    }
}
