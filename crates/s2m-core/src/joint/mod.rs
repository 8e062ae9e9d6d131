//! Posteriors of whole label sets: what a network with one output per set says about an item.
//!
//! With `a_c` how readily label `c` is shown ([`Labelling::shown_weights`]) and `A(S) = Σ_{c∈S} a_c`, the
//! network gives `P̃(S|x)`, the posterior of the set for items *as they are shown*. Then
//!
//! ```text
//! one-of      r_Q = Σ_{S⊨Q} P̃(S|x)
//! per-class   r_Q = Σ_{S⊨Q} P̃(S|x) / A(S)          P(Q|x) = r_Q / r_any
//! ```
//!
//! Not every set has an output where there are many labels. What is left has one output, `rest`; its mass
//! goes to those of the item's sorted-level sets ([`Levels`]) that are not listed.
//!
//! - `packed`: the likeliest sets of an item in a few numbers;
//! - [`targets`]: what a network of this kind is trained on, and how likely it makes single labels.

mod packed;
pub mod targets;

use crate::density::{Labelling, Levels};
use crate::error::Error;
use crate::labels::LabelSet;
use crate::query::Query;

use packed::MOST_SLOTS;
pub use packed::{SetLogits, SetShape};

/// Most labels of which every set has an output of its own.
pub const MOST_WHOLE: usize = 8;

/// Most sets with an output of their own.
pub const MOST_SETS: usize = 1024;

/// The label sets that the outputs of a network stand for, in their order; checked once, here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelSets {
    labels: usize,
    sets: Vec<LabelSet>,
    rest: bool,
}

impl LabelSets {
    /// Sets by the outputs' order; with `rest` one more output follows for all others.
    pub fn new(labels: usize, sets: Vec<LabelSet>, rest: bool) -> Result<Self, Error> {
        if labels < 2 {
            return Err(Error::labels(
                "one label has one label set; a joint head needs at least two labels",
            ));
        }
        if !(1..=MOST_SETS).contains(&sets.len()) {
            return Err(Error::too_large(format!(
                "{} label sets are listed; 1 to {MOST_SETS} are possible",
                sets.len()
            )));
        }
        let all = LabelSet::first(labels);
        for (at, set) in sets.iter().enumerate() {
            if set.is_empty() {
                return Err(Error::labels(format!(
                    "label set {} of the list is empty",
                    at + 1
                )));
            }
            if set.bits() & !all.bits() != 0 {
                return Err(Error::labels(format!(
                    "label set {} of the list has a label beyond the {labels} of the bundle",
                    at + 1
                )));
            }
        }
        let mut order: Vec<usize> = (0..sets.len()).collect();
        order.sort_by_key(|&at| (sets[at], at));
        if let Some(pair) = order.windows(2).find(|pair| sets[pair[0]] == sets[pair[1]]) {
            let (first, second) = (pair[0] + 1, pair[1] + 1);
            return Err(Error::labels(format!(
                "label sets {first} and {second} of the list are the same"
            )));
        }
        let covered = sets
            .iter()
            .fold(LabelSet::EMPTY, |all, set| all.union(*set));
        if let Some(label) = (0..labels).find(|&label| !rest && !covered.contains(label)) {
            return Err(Error::uncovered(format!(
                "label {label} is in no label set of the list, and there is no output `rest`"
            )));
        }
        Ok(Self { labels, sets, rest })
    }

    /// Every set of so many labels, the first label alone first; up to [`MOST_WHOLE`] labels.
    pub fn whole(labels: usize) -> Result<Self, Error> {
        let count = (1_usize << labels.min(MOST_WHOLE + 4)) - 1;
        let sets = (1..=count as u64).map(LabelSet::from_bits).collect();
        Self::new(labels, sets, false)
    }

    /// Number of labels.
    pub fn labels(&self) -> usize {
        self.labels
    }

    /// The sets with an output of their own.
    pub fn sets(&self) -> &[LabelSet] {
        &self.sets
    }

    /// Whether one more output stands for all other sets.
    pub fn has_rest(&self) -> bool {
        self.rest
    }

    /// Number of outputs.
    pub fn outputs(&self) -> usize {
        self.sets.len() + usize::from(self.rest)
    }

    /// How a row of logits keeps what these outputs say.
    pub fn shape(&self) -> SetShape {
        SetShape::of(self.outputs())
    }

    fn lists(&self, set: LabelSet) -> bool {
        self.sets.contains(&set)
    }
}

/// Most sets that one item's posterior speaks of: the slots of a row and the item's nested sets.
const MOST_ENTRIES: usize = MOST_SLOTS + crate::labels::MAX_LABELS;

/// Densities `r` of an item's label sets; their sum is `r_any`.
#[derive(Debug, Clone)]
pub struct SetPosterior {
    entries: [(LabelSet, f64); MOST_ENTRIES],
    len: usize,
}

impl SetPosterior {
    /// From what a network says, its logits divided by a temperature. `levels` are asked for where `rest`
    /// has mass.
    pub fn new<'a>(
        sets: &LabelSets,
        labelling: &Labelling,
        logits: SetLogits<'_>,
        temperature: f64,
        levels: impl FnOnce() -> Levels<'a>,
    ) -> Self {
        let mut posterior = Self {
            entries: [(LabelSet::EMPTY, 0.0); MOST_ENTRIES],
            len: 0,
        };
        let largest = logits
            .iter()
            .map(|(_, logit)| logit)
            .fold(f64::NEG_INFINITY, f64::max);
        let (mut rest, mut total) = (0.0, 0.0);
        for (output, logit) in logits.iter() {
            let mass = ((logit - largest) / temperature).exp();
            total += mass;
            match sets.sets.get(output) {
                Some(&set) => posterior.push(set, mass),
                None => rest = mass,
            }
        }
        if rest > 0.0 {
            total -= rest - posterior.spread(sets, &levels(), rest);
        }
        // All mass may lie on a rest that none of the item's nested sets takes: then nothing is known.
        let scale = if total > 0.0 { total.recip() } else { 0.0 };
        for (set, mass) in &mut posterior.entries[..posterior.len] {
            *mass *= scale * labelling.density_of_shown(*set);
        }
        posterior
    }

    fn push(&mut self, set: LabelSet, mass: f64) {
        self.entries[self.len] = (set, mass);
        self.len += 1;
    }

    /// Gives the mass of `rest` to the item's nested sets that are not listed; returns what was given.
    fn spread(&mut self, sets: &LabelSets, levels: &Levels<'_>, rest: f64) -> f64 {
        let unlisted = || levels.shown_sets().filter(|(set, _)| !sets.lists(*set));
        let sum: f64 = unlisted().map(|(_, mass)| mass).sum();
        if sum <= 0.0 {
            return 0.0;
        }
        for (set, mass) in unlisted() {
            self.push(set, rest * mass / sum);
        }
        rest
    }

    /// The sets, with the density of each.
    pub fn sets(&self) -> impl Iterator<Item = (LabelSet, f64)> + Clone + '_ {
        self.entries[..self.len].iter().copied()
    }

    fn sum(&self, counts: impl Fn(LabelSet) -> bool) -> f64 {
        let counted = self.sets().filter(|(set, _)| counts(*set));
        counted.map(|(_, density)| density).sum()
    }

    /// `log r_Q`; `-∞` where no set of the item satisfies the query.
    pub fn log_density(&self, query: &Query) -> f64 {
        self.sum(|set| query.holds(set)).ln()
    }

    /// `log P(Q|x)`; `-∞` where nothing is known about the item.
    pub fn log_posterior(&self, query: &Query) -> f64 {
        let (any, holding) = (self.sum(|_| true), self.sum(|set| query.holds(set)));
        if any > 0.0 {
            (holding / any).ln().min(0.0)
        } else {
            f64::NEG_INFINITY
        }
    }

    /// `P(label | Q, x)`; none where the query has no density at this item.
    pub fn label_posterior(&self, query: &Query, label: usize) -> Option<f64> {
        if let Some(forced) = query.forced(label) {
            return Some(f64::from(u8::from(forced)));
        }
        let holding = self.sum(|set| query.holds(set));
        let with = self.sum(|set| query.holds(set) && set.contains(label));
        (holding > 0.0).then(|| (with / holding).min(1.0))
    }
}

#[cfg(test)]
mod tests;
