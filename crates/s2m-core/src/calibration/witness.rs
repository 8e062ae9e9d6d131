//! Witnesses: how well logits still tell held-out real items from weighted generated ones.
//!
//! Odds of `D_v` are worth what they make generated items look like. A witness is any logit of real
//! against generated; with a weight `w` for each generated item `y`, and a real item `x`,
//!
//! ```text
//! AUC = Σ_x Σ_y w_y ψ(v(x) − v(y)) / (n Σ w),   ψ = 1, ½ or 0 above, at and below zero
//! likeness: S = Σ over witnesses of |AUC − ½|
//! ```
//!
//! Zero means that no witness can tell. Standard errors are the infinitesimal jackknife over items: with
//! `V(x) = Σ_y w_y ψ / Σ w` and `V(y) = Σ_x ψ / n`, item x moves the AUC by `(V(x) − AUC) / n` and item y
//! by `w_y (V(y) − AUC) / Σ w`, and the variance is the sum of their squares. Where all weights are equal
//! this is DeLong's variance but for `n − 1`; where they are not, items count by their effective number.
//! Moves of several witnesses, or of two weightings, are added before they are squared, so that what
//! they share cancels.
//!
//! Reference: DeLong et al., "Comparing the Areas under Two or More Correlated Receiver Operating
//! Characteristic Curves", 1988.

/// Logits of one witness, of held-out real items and of generated ones. They must be numbers.
#[derive(Debug, Clone, Copy)]
pub struct Witness<'a> {
    /// Of real items.
    pub real: &'a [f32],
    /// Of generated items.
    pub generated: &'a [f32],
}

/// Witnesses of the same items, ready to judge any weighting.
#[derive(Debug, Clone)]
pub struct Witnesses {
    /// Which item a real row is of, as a place among the distinct ones.
    item_at: Vec<usize>,
    /// How many distinct real items there are.
    items: usize,
    generated: usize,
    /// Of each witness the rows of equal logit, rising; generated rows come behind the real ones.
    order: Vec<Vec<Vec<usize>>>,
}

/// Standard errors from one half beyond which a witness tells. Three witnesses that know nothing are all
/// within it in more than 99 cases of 100.
pub const TELLS: f64 = 3.0;

/// Distance from one half that is nothing, however sure: such a witness is right about 51 pairs of 100.
pub const NOTHING: f64 = 0.01;

/// What witnesses say about one weighting.
#[derive(Debug, Clone, PartialEq)]
pub struct Likeness {
    /// `Σ |AUC − ½|`.
    pub sum: f64,
    /// AUC of each witness and its standard error.
    pub aucs: Vec<[f64; 2]>,
    /// What each distinct real item, and each generated one, adds to the sum.
    moves: [Vec<f64>; 2],
}

impl Witnesses {
    /// Witnesses of real rows, of which those with the same number are one item, and of generated items.
    ///
    /// Every witness has a logit for each of them.
    pub fn new(items: &[u32], generated: usize, witnesses: &[Witness<'_>]) -> Self {
        let mut distinct = items.to_vec();
        distinct.sort_unstable();
        distinct.dedup();
        let place = |item: &u32| distinct.partition_point(|other| other < item);
        Self {
            item_at: items.iter().map(place).collect(),
            items: distinct.len(),
            generated,
            order: witnesses.iter().map(by_logit).collect(),
        }
    }

    /// How many witnesses there are.
    pub fn count(&self) -> usize {
        self.order.len()
    }

    /// What they say about generated items of these log weights.
    pub fn judge(&self, log_weights: &[f64]) -> Likeness {
        let weights = relative(log_weights);
        let mut found = Likeness {
            sum: 0.0,
            aucs: Vec::new(),
            moves: [vec![0.0; self.items], vec![0.0; self.generated]],
        };
        for order in &self.order {
            let (auc, moves) = self.auc(order, &weights);
            found.sum += (auc - 0.5).abs();
            found.aucs.push([auc, root_of_squares(&moves)]);
            let sign = if auc < 0.5 { -1.0 } else { 1.0 };
            for (sums, moves) in found.moves.iter_mut().zip(&moves) {
                for (sum, by) in sums.iter_mut().zip(moves) {
                    *sum += sign * by;
                }
            }
        }
        found
    }

    /// The AUC of one witness, and how far each item moves it.
    fn auc(&self, order: &[Vec<usize>], weights: &[f64]) -> (f64, [Vec<f64>; 2]) {
        let (n, total) = (self.item_at.len() as f64, weights.iter().sum::<f64>());
        if n == 0.0 || total <= 0.0 {
            let none = [vec![0.0; self.items], vec![0.0; self.generated]];
            return (0.5, none);
        }
        let real_rows = self.item_at.len();
        let (mut weight_below, mut real_below) = (0.0, 0.0);
        // V of real rows, then of generated ones.
        let mut values = vec![0.0; real_rows + self.generated];
        let mut auc = 0.0;
        for equal in order {
            let is_real = |row: &&usize| **row < real_rows;
            let real_here = equal.iter().filter(is_real).count() as f64;
            let made = equal.iter().filter(|row| !is_real(row));
            let weight_here: f64 = made.map(|&row| weights[row - real_rows]).sum();
            let of_real = (weight_below + 0.5 * weight_here) / total;
            let of_generated = (n - real_below - 0.5 * real_here) / n;
            for &row in equal {
                values[row] = if row < real_rows {
                    of_real
                } else {
                    of_generated
                };
            }
            auc += real_here * of_real / n;
            weight_below += weight_here;
            real_below += real_here;
        }
        let mut moves = [vec![0.0; self.items], Vec::with_capacity(self.generated)];
        let (real, generated) = values.split_at(real_rows);
        for (&item, value) in self.item_at.iter().zip(real) {
            moves[0][item] += (value - auc) / n;
        }
        let each = generated.iter().zip(weights);
        moves[1].extend(each.map(|(value, weight)| weight * (value - auc) / total));
        (auc, moves)
    }
}

impl Likeness {
    /// Standard error of the sum.
    pub fn standard_error(&self) -> f64 {
        root_of_squares(&self.moves)
    }

    /// Whether a witness tells real from weighted generated items by more than chance explains, and by
    /// more than [`NOTHING`].
    pub fn tells(&self) -> bool {
        let beyond = |[auc, error]: &[f64; 2]| (auc - 0.5).abs() > NOTHING.max(TELLS * error);
        self.aucs.iter().any(beyond)
    }

    /// The same without standard errors, for tests of what is decided by sums alone.
    #[cfg(test)]
    pub(super) fn without_moves(mut self) -> Self {
        self.moves.iter_mut().flatten().for_each(|by| *by = 0.0);
        self
    }

    /// How much lower this sum is than another one of the same witnesses, and the standard error of that.
    pub fn below(&self, other: &Self) -> [f64; 2] {
        let differences = [0, 1].map(|side| -> Vec<f64> {
            let pairs = other.moves[side].iter().zip(&self.moves[side]);
            pairs.map(|(a, b)| a - b).collect()
        });
        [other.sum - self.sum, root_of_squares(&differences)]
    }
}

/// Rows in groups of equal logit, rising.
fn by_logit(witness: &Witness<'_>) -> Vec<Vec<usize>> {
    // Adding zero makes −0 a plain 0, so that both are one group.
    let logits = witness.real.iter().chain(witness.generated);
    let mut rows: Vec<(f32, usize)> = logits.map(|v| v + 0.0).zip(0..).collect();
    rows.sort_by(|a, b| a.0.total_cmp(&b.0));
    let equal = rows.chunk_by(|a, b| a.0 == b.0);
    equal
        .map(|group| group.iter().map(|&(_, row)| row).collect())
        .collect()
}

/// Weights as multiples of the largest one; zeros where there is none.
fn relative(log_weights: &[f64]) -> Vec<f64> {
    let largest = log_weights
        .iter()
        .copied()
        .fold(f64::NEG_INFINITY, f64::max);
    if largest == f64::NEG_INFINITY {
        return vec![0.0; log_weights.len()];
    }
    log_weights.iter().map(|w| (w - largest).exp()).collect()
}

fn root_of_squares(moves: &[Vec<f64>; 2]) -> f64 {
    moves.iter().flatten().map(|by| by * by).sum::<f64>().sqrt()
}

/// Effective share of items under log weights, `(Σw)² / (N Σw²)`; zero where none has weight.
pub fn effective_share(log_weights: &[f64]) -> f64 {
    let weights = relative(log_weights);
    let sum: f64 = weights.iter().sum();
    let squares: f64 = weights.iter().map(|w| w * w).sum();
    if squares > 0.0 {
        sum * sum / (weights.len() as f64 * squares)
    } else {
        0.0
    }
}

/// Share of generated items outside the data, `E_generated[(1 − odds)⁺]`; zero for no items.
///
/// Where the odds are right this is the total variation distance of generated items from the data.
pub fn outside(log_odds: &[f64]) -> f64 {
    let beyond = |log_odds: &f64| (-log_odds.exp_m1()).max(0.0);
    log_odds.iter().map(beyond).sum::<f64>() / log_odds.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// All pairs, one by one.
    fn slow_auc(witness: Witness<'_>, weights: &[f64]) -> f64 {
        let (mut wins, mut total) = (0.0, 0.0);
        for r in witness.real {
            for (g, w) in witness.generated.iter().zip(weights) {
                total += w;
                wins += w * match r.partial_cmp(g) {
                    Some(std::cmp::Ordering::Greater) => 1.0,
                    Some(std::cmp::Ordering::Equal) => 0.5,
                    _ => 0.0,
                };
            }
        }
        wins / total
    }

    /// The sum when items count `real` and `weights` times: what the moves are the slopes of.
    fn slow_sum(witnesses: &[Witness<'_>], real: &[f64], weights: &[f64]) -> f64 {
        let mut sum = 0.0;
        for witness in witnesses {
            let (mut wins, mut total) = (0.0, 0.0);
            for (r, u) in witness.real.iter().zip(real) {
                for (g, w) in witness.generated.iter().zip(weights) {
                    total += u * w;
                    wins += u
                        * w
                        * f64::midpoint(f64::from(u8::from(r > g)), f64::from(u8::from(r >= g)));
                }
            }
            sum += (wins / total - 0.5).abs();
        }
        sum
    }

    fn whole(values: &[i8]) -> Vec<f32> {
        // Whole numbers, so that there are ties; every other zero is a negative one.
        let value = |&v: &i8| if v == 0 { -0.0 } else { f32::from(v % 3) };
        values.iter().map(value).collect()
    }

    proptest! {
        #[test]
        fn auc_counts_weighted_pairs(
            real in prop::collection::vec(-4i8..4, 1..20),
            made in prop::collection::vec((-4i8..4, 1u8..9), 1..20),
        ) {
            let real = whole(&real);
            let generated = whole(&made.iter().map(|m| m.0).collect::<Vec<_>>());
            let weights: Vec<f64> = made.iter().map(|m| f64::from(m.1)).collect();
            let witness = Witness { real: &real, generated: &generated };
            let items: Vec<u32> = (0..real.len() as u32).collect();
            let judged = Witnesses::new(&items, generated.len(), &[witness]);
            let log: Vec<f64> = weights.iter().map(|w| w.ln() - 700.0).collect();
            let found = judged.judge(&log);
            let slow = slow_auc(witness, &weights);
            prop_assert!((found.aucs[0][0] - slow).abs() < 1e-12, "{} {slow}", found.aucs[0][0]);
            prop_assert!((found.sum - (slow - 0.5).abs()).abs() < 1e-12);
        }

        /// Twin: a thousandth more or less of an item moves the sum as its move says.
        #[test]
        fn moves_are_slopes_of_the_sum(
            real in prop::collection::vec((-9i8..9, -9i8..9), 3..9),
            made in prop::collection::vec((-9i8..9, -9i8..9, 1u8..9), 3..9),
            at in 0usize..3,
        ) {
            let column = |values: Vec<i8>| -> Vec<f32> { values.into_iter().map(f32::from).collect() };
            let [a, b] = [column(real.iter().map(|r| r.0).collect()), column(real.iter().map(|r| r.1).collect())];
            let [c, d] = [column(made.iter().map(|m| m.0).collect()), column(made.iter().map(|m| m.1).collect())];
            let witnesses = [Witness { real: &a, generated: &c }, Witness { real: &b, generated: &d }];
            let weights: Vec<f64> = made.iter().map(|m| f64::from(m.2)).collect();
            let items: Vec<u32> = (0..a.len() as u32).collect();
            let judged = Witnesses::new(&items, c.len(), &witnesses);
            let found = judged.judge(&weights.iter().map(|w| w.ln()).collect::<Vec<_>>());
            // At one half the absolute value has a corner.
            prop_assume!(found.aucs.iter().all(|[auc, _]| (auc - 0.5).abs() > 0.01));
            let slope = |change: &dyn Fn(f64) -> f64| (change(1e-4) - change(-1e-4)) / 2e-4;
            let of_real = slope(&|by| {
                let mut counts = vec![1.0; a.len()];
                counts[at] += by;
                slow_sum(&witnesses, &counts, &weights)
            });
            let of_made = slope(&|by| {
                let mut changed = weights.clone();
                changed[at] *= 1.0 + by;
                slow_sum(&witnesses, &vec![1.0; a.len()], &changed)
            });
            prop_assert!((found.moves[0][at] - of_real).abs() < 1e-6, "{} {of_real}", found.moves[0][at]);
            prop_assert!((found.moves[1][at] - of_made).abs() < 1e-6, "{} {of_made}", found.moves[1][at]);
        }
    }

    /// V(x) = 1/2, 1 and V(y) = 1/2, 1 with AUC 3/4, so each side has 2 · (1/4)² / 2².
    #[test]
    fn a_standard_error_computed_on_paper() {
        let witness = Witness {
            real: &[1.0, 3.0],
            generated: &[2.0, 0.0],
        };
        let judged = Witnesses::new(&[0, 1], 2, &[witness]);
        let found = judged.judge(&[0.0, 0.0]);
        assert_eq!(found.aucs[0][0], 0.75);
        let wanted = (2.0 * (2.0 * 0.0625 / 4.0_f64)).sqrt();
        assert!((found.aucs[0][1] - wanted).abs() < 1e-12);
        assert!((found.standard_error() - wanted).abs() < 1e-12);
        // All weight on the item below everything: told apart without doubt.
        let found = judged.judge(&[f64::NEG_INFINITY, 0.0]);
        assert_eq!(found.sum, 0.5);
        assert_eq!(found.standard_error(), 0.0);
        assert!(found.tells());
    }

    #[test]
    fn rows_of_one_item_count_as_one() {
        let judge = |items: &[u32], real: &[f32]| {
            let generated = &[0.5, 1.5, 2.5, 3.5];
            Witnesses::new(items, 4, &[Witness { real, generated }]).judge(&[0.0; 4])
        };
        let once = judge(&[0, 1, 2], &[1.0, 2.0, 4.0]);
        let twice = judge(&[0, 0, 1, 1, 2, 2], &[1.0, 1.0, 2.0, 2.0, 4.0, 4.0]);
        assert!((once.sum - twice.sum).abs() < 1e-12);
        assert!((once.standard_error() - twice.standard_error()).abs() < 1e-12);
    }

    #[test]
    fn a_weighting_beside_itself_is_no_lower() {
        let witness = Witness {
            real: &[1.0, 2.0, 3.0],
            generated: &[0.0, 1.0, 5.0],
        };
        let judged = Witnesses::new(&[0, 1, 2], 3, &[witness, witness]);
        let (plain, other) = (judged.judge(&[0.0; 3]), judged.judge(&[0.0, 1.0, 2.0]));
        assert_eq!(judged.count(), 2);
        assert_eq!(plain.below(&plain), [0.0, 0.0]);
        let [lower, error] = other.below(&plain);
        assert!((lower - (plain.sum - other.sum)).abs() < 1e-12 && error > 0.0);
        // Two witnesses that say the same are one witness twice.
        let one = Witnesses::new(&[0, 1, 2], 3, &[witness]).judge(&[0.0; 3]);
        assert!((plain.sum - 2.0 * one.sum).abs() < 1e-12);
        assert!((plain.standard_error() - 2.0 * one.standard_error()).abs() < 1e-12);
    }

    /// Statistical: over many draws the AUC of a weighting varies as its standard error says.
    #[test]
    fn standard_errors_are_those_of_repeated_draws() {
        use crate::normal::normal_quantile;
        let (runs, n, m) = (400_u64, 150_u64, 300_u64);
        let uniform = |seed: u64| {
            let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((x ^ (x >> 31)) >> 11) as f64 / (1u64 << 53) as f64 + 1e-17
        };
        let mut seen = Vec::new();
        let mut stated = 0.0;
        for run in 0..runs {
            let draw = |at: u64| normal_quantile(uniform(run * 1000 + at + 1));
            let real: Vec<f32> = (0..n).map(|at| (draw(at) + 0.5) as f32).collect();
            let generated: Vec<f32> = (0..m).map(|at| draw(500 + at) as f32).collect();
            // Half of what the odds exp(v/2 − 1/8) ask for, so that something is left to tell.
            let log_weights: Vec<f64> = generated.iter().map(|v| f64::from(*v) / 4.0).collect();
            let items: Vec<u32> = (0..n as u32).collect();
            let witness = Witness {
                real: &real,
                generated: &generated,
            };
            let found = Witnesses::new(&items, m as usize, &[witness]).judge(&log_weights);
            seen.push(found.aucs[0][0]);
            stated += found.aucs[0][1] / runs as f64;
        }
        let mean = seen.iter().sum::<f64>() / runs as f64;
        let spread = seen.iter().map(|a| (a - mean).powi(2)).sum::<f64>() / (runs - 1) as f64;
        // A standard deviation of 400 draws is itself known to 1 in √800; four of these.
        let ratio = spread.sqrt() / stated;
        assert!((ratio - 1.0).abs() < 4.0 / 800.0_f64.sqrt(), "{ratio}");
        // The AUC of N(½, 1) against N(¼, 1) is Φ(¼ / √2) = 0.5702.
        assert!((mean - 0.5702).abs() < 4.0 * stated / 20.0, "{mean}");
    }

    #[test]
    fn shares_computed_on_paper() {
        // Odds 4, 1, 1: (4+1+1)² / (3·18).
        let log_odds = [4.0_f64.ln(), 0.0, 0.0];
        assert!((effective_share(&log_odds) - 36.0 / 54.0).abs() < 1e-12);
        assert_eq!(effective_share(&[f64::NEG_INFINITY; 2]), 0.0);
        assert_eq!(effective_share(&[]), 0.0);
        // Odds 4, 1/2 and 0: none, a half and all of an item.
        let log_odds = [4.0_f64.ln(), 0.5_f64.ln(), f64::NEG_INFINITY];
        assert!((outside(&log_odds) - 0.5).abs() < 1e-12);
        assert_eq!(outside(&[]), 0.0);
    }

    #[test]
    fn nothing_to_judge_tells_nothing() {
        let empty = Witness {
            real: &[],
            generated: &[1.0],
        };
        let found = Witnesses::new(&[], 1, &[empty]).judge(&[0.0]);
        assert_eq!((found.sum, found.tells()), (0.0, false));
        let weightless = Witness {
            real: &[1.0],
            generated: &[0.0],
        };
        let found = Witnesses::new(&[3], 1, &[weightless]).judge(&[f64::NEG_INFINITY]);
        assert_eq!((found.sum, found.tells()), (0.0, false));
        assert!(!Witnesses::new(&[], 0, &[]).judge(&[]).tells());
    }
}
