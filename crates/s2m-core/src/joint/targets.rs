//! What a network of label sets is trained on, and how likely it makes single labels.
//!
//! An item of picture x was shown with label c. By a class network that never saw it, with levels `f` raised to
//! a power ρ and rescaled to `Σ_c a_c f_c = 1`, sorted levels give `P̃(S|x)`; then
//!
//! ```text
//! target(S) ∝ P̃(S|x) · P(c|S),      P(c|S) = a_c / A(S) for c in S, else 0
//! ```
//!
//! In later rounds `P̃(S|x)` comes from a network of label sets itself, again one that never saw the item. Held-out items
//! judge such a network by the label that they show, with probability `Σ_S P̃(S|x)·P(c|S)`.

use std::collections::HashMap;

use super::{LabelSets, MOST_SETS, MOST_WHOLE};
use crate::calibration::temperature::{TemperatureFit, all_finite, none_held_out, not_rows};
use crate::density::{Labelling, Levels};
use crate::error::Error;
use crate::labels::LabelSet;

/// Share of all mass that sets have together that no level speaks for: a shown label which the class network
/// thinks impossible then says little, in the place of "all labels at once".
const LEAST: f64 = 1e-3;

/// Label sets with the probabilities of showing each label.
#[derive(Debug, Clone)]
pub struct Showing {
    sets: LabelSets,
    labelling: Labelling,
    weights: Vec<f64>,
    amounts: Vec<f64>,
    places: HashMap<LabelSet, usize>,
}

/// What a class network says about one item that it never saw: `log D_r`, one per label.
pub type LogClass<'a> = &'a [f64];

impl Showing {
    /// For the outputs of a network and the way that labels came about.
    pub fn new(sets: LabelSets, labelling: Labelling) -> Self {
        let amounts = sets.sets().iter().map(|&set| labelling.shown_amount(set));
        Self {
            weights: labelling.shown_weights().collect(),
            amounts: amounts.collect(),
            places: (0..).zip(sets.sets()).map(|(at, &set)| (set, at)).collect(),
            sets,
            labelling,
        }
    }

    /// The sets that outputs stand for.
    pub fn sets(&self) -> &LabelSets {
        &self.sets
    }

    /// `P(c|S)` of an output that stands for a set.
    fn shows(&self, output: usize, label: usize) -> f64 {
        if self.sets.sets()[output].contains(label) {
            self.weights[label] / self.amounts[output]
        } else {
            0.0
        }
    }

    /// Levels raised to a power and rescaled.
    fn levels(&self, log_class: LogClass<'_>, power: f64) -> Levels<'_> {
        raised(&self.labelling, log_class, power)
    }

    /// `P(c|rest)`: by the item's nested sets that have no output.
    fn shows_in_rest(&self, log_class: LogClass<'_>, label: usize) -> f64 {
        let levels = self.levels(log_class, 1.0);
        let (mut with, mut all) = (0.0, 0.0);
        for (set, mass) in levels.shown_sets() {
            if self.places.contains_key(&set) {
                continue;
            }
            all += mass;
            if set.contains(label) {
                with += mass * self.weights[label] / self.labelling.shown_amount(set);
            }
        }
        if all > 0.0 { with / all } else { 0.0 }
    }

    /// The first round's target of an item that was shown with a label, one number per output.
    pub fn target_of_levels(
        &self,
        log_class: LogClass<'_>,
        power: f64,
        label: usize,
        target: &mut [f64],
    ) {
        target.fill(0.0);
        let mut rest = 0.0;
        for (set, mass) in self.levels(log_class, power).shown_sets() {
            match self.places.get(&set) {
                Some(&at) => target[at] = mass,
                None if set.contains(label) => {
                    rest += mass * self.weights[label] / self.labelling.shown_amount(set);
                }
                None => {}
            }
        }
        self.given_label(label, rest, target);
    }

    /// A later round's target, from the probabilities of all outputs.
    pub fn target_of_sets(
        &self,
        probabilities: &[f64],
        log_class: LogClass<'_>,
        label: usize,
        target: &mut [f64],
    ) {
        target.copy_from_slice(probabilities);
        let rest = match probabilities.get(self.sets.sets().len()) {
            Some(&mass) if mass > 0.0 => mass * self.shows_in_rest(log_class, label),
            _ => 0.0,
        };
        self.given_label(label, rest, target);
    }

    /// Multiplies by the probability of the shown label, and normalises; `rest` has its factor already.
    fn given_label(&self, label: usize, rest: f64, target: &mut [f64]) {
        let listed = self.sets.sets().len();
        let least = LEAST / listed as f64;
        for (output, mass) in target[..listed].iter_mut().enumerate() {
            *mass = mass.max(least) * self.shows(output, label);
        }
        if let Some(mass) = target.get_mut(listed) {
            *mass = rest.max(least);
        }
        let total: f64 = target.iter().sum();
        for mass in target {
            *mass /= total;
        }
    }

    /// Probability of showing a label, by the probabilities of all outputs.
    pub fn marginal(&self, probabilities: &[f64], log_class: LogClass<'_>, label: usize) -> f64 {
        let listed = self.sets.sets().len();
        let terms = probabilities[..listed].iter().enumerate();
        let sum: f64 = terms.map(|(at, p)| p * self.shows(at, label)).sum();
        match probabilities.get(listed) {
            Some(&rest) if rest > 0.0 => sum + rest * self.shows_in_rest(log_class, label),
            _ => sum,
        }
    }

    /// For every output the logarithm of how much more often its items are drawn where labels are drawn with
    /// other shares: `log Σ_{c∈S} P(c|S)·ratio(c)`, the ratio being the new share over the old one.
    pub fn log_draw_ratios(&self, ratios: &[f64]) -> Vec<f64> {
        let listed = (0..self.sets.sets().len()).map(|output| {
            let terms = (0..ratios.len()).map(|label| self.shows(output, label) * ratios[label]);
            terms.sum::<f64>().ln()
        });
        let everything: f64 = self.weights.iter().sum();
        let mean = self.weights.iter().zip(ratios).map(|(a, r)| a * r);
        let rest = (mean.sum::<f64>() / everything).ln();
        listed.chain(self.sets.has_rest().then_some(rest)).collect()
    }
}

/// Levels raised to a power and rescaled so that `Σ_c a_c f_c = 1`.
fn raised<'a>(labelling: &'a Labelling, log_class: LogClass<'_>, power: f64) -> Levels<'a> {
    let pairs = || labelling.shown_weights().zip(log_class);
    let log_raised = |(a, log_class): (f64, &f64)| a.ln() + power * (log_class - a.ln());
    let log_norm = crate::log_sum_exp(pairs().map(log_raised));
    Levels::new(labelling, pairs().map(|pair| log_raised(pair) - log_norm))
}

/// Adds up the first round's targets of many items, to find the sets that hold their mass.
#[derive(Debug, Clone)]
pub struct Census {
    labelling: Labelling,
    masses: HashMap<LabelSet, f64>,
}

impl Census {
    /// An empty one.
    pub fn new(labelling: Labelling) -> Self {
        Self {
            labelling,
            masses: HashMap::new(),
        }
    }

    /// Counts an item that was shown with a label.
    pub fn count(&mut self, log_class: LogClass<'_>, label: usize) {
        let levels = raised(&self.labelling, log_class, 1.0);
        let shown = levels.shown_sets().filter(|(set, _)| set.contains(label));
        let given = shown.map(|(set, mass)| (set, mass / self.labelling.shown_amount(set)));
        let total: f64 = given.clone().map(|(_, mass)| mass).sum();
        for (set, mass) in given.filter(|(_, mass)| *mass > 0.0) {
            *self.masses.entry(set).or_default() += mass / total;
        }
    }

    /// Every set where there are few labels, else those with most mass; `rest` stands for the others.
    pub fn sets(&self) -> Result<LabelSets, Error> {
        let labels = self.labelling.label_count();
        if labels <= MOST_WHOLE {
            return LabelSets::whole(labels);
        }
        let mut found: Vec<(LabelSet, f64)> = self.masses.iter().map(|(s, m)| (*s, *m)).collect();
        found.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        found.truncate(MOST_SETS);
        let mut sets: Vec<LabelSet> = found.into_iter().map(|(set, _)| set).collect();
        sets.sort_unstable();
        LabelSets::new(labels, sets, true)
    }
}

/// Held-out items: logits of the set outputs and `log D_r` row by row, and the labels that items show.
#[derive(Debug, Clone, Copy)]
pub struct HeldOut<'a> {
    /// One row of outputs per item.
    pub logits: &'a [f32],
    /// One row of labels per item; read where there is an output `rest`.
    pub log_class: &'a [f64],
    /// The label that each item shows.
    pub labels: &'a [u8],
}

/// Probabilities of outputs at a temperature.
pub fn softmax(logits: &[f32], temperature: f64, probabilities: &mut [f64]) {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut total = 0.0;
    for (p, &logit) in probabilities.iter_mut().zip(logits) {
        *p = ((f64::from(logit) - f64::from(largest)) / temperature).exp();
        total += *p;
    }
    for p in probabilities {
        *p /= total;
    }
}

/// Temperatures tried before the best of them is refined.
const TRIED: usize = 33;

/// Temperatures beyond these are no temperatures of a network that learnt something.
const RANGE: [f64; 2] = [0.2, 8.0];

/// Steps of the golden section.
const REFINED: usize = 24;

impl Showing {
    /// Log probability of the label that each held-out item shows.
    pub fn log_likelihoods(&self, items: HeldOut<'_>, temperature: f64) -> Vec<f64> {
        let (outputs, classes) = (self.sets.outputs(), self.sets.labels());
        let mut probabilities = vec![0.0; outputs];
        let rows = items.logits.chunks_exact(outputs).zip(items.labels);
        let term = |(at, (row, &label)): (usize, (&[f32], &u8))| {
            softmax(row, temperature, &mut probabilities);
            let log_class = items.log_class.get(at * classes..(at + 1) * classes);
            let label = usize::from(label);
            let p = self.marginal(&probabilities, log_class.unwrap_or_default(), label);
            p.max(f64::MIN_POSITIVE).ln()
        };
        rows.enumerate().map(term).collect()
    }

    /// The temperature at which held-out items are likeliest to show what they show.
    ///
    /// The likelihood of a mixture need not be convex: a row of temperatures is tried and the best refined.
    pub fn fit_temperature(&self, items: HeldOut<'_>) -> Result<TemperatureFit, Error> {
        self.check(items)?;
        let nll = |temperature: f64| {
            let terms = self.log_likelihoods(items, temperature);
            -terms.iter().sum::<f64>() / terms.len() as f64
        };
        let [low, high] = RANGE.map(f64::ln);
        let at = |step: usize| (low + (high - low) * step as f64 / (TRIED - 1) as f64).exp();
        let tried: Vec<f64> = (0..TRIED).map(|step| nll(at(step))).collect();
        let best = (0..TRIED).min_by(|&a, &b| tried[a].total_cmp(&tried[b]));
        let best = best.unwrap_or(0);
        let (mut left, mut right) = (
            at(best.saturating_sub(1)).ln(),
            at((best + 1).min(TRIED - 1)).ln(),
        );
        let golden = (5.0_f64.sqrt() - 1.0) / 2.0;
        for _ in 0..REFINED {
            let (a, b) = (
                right - golden * (right - left),
                left + golden * (right - left),
            );
            if nll(a.exp()) <= nll(b.exp()) {
                right = b;
            } else {
                left = a;
            }
        }
        let temperature = f64::midpoint(left, right).exp();
        Ok(TemperatureFit {
            temperature,
            nll_before: nll(1.0),
            nll_after: nll(temperature),
            items: items.labels.len(),
            at_limit: best == 0 || best == TRIED - 1,
        })
    }

    fn check(&self, items: HeldOut<'_>) -> Result<(), Error> {
        let (outputs, count) = (self.sets.outputs(), items.labels.len());
        if count == 0 {
            return Err(none_held_out("labelled"));
        }
        if items.logits.len() != count * outputs {
            return Err(not_rows(items.logits.len(), count, outputs));
        }
        all_finite(items.logits, outputs)
    }
}

/// Mean of `a − b` over items, and its standard error.
pub fn paired_gain(a: &[f64], b: &[f64]) -> [f64; 2] {
    let differences: Vec<f64> = a.iter().zip(b).map(|(a, b)| a - b).collect();
    let n = differences.len().max(1) as f64;
    let mean = differences.iter().sum::<f64>() / n;
    let spread = differences.iter().map(|d| (d - mean).powi(2)).sum::<f64>();
    [mean, (spread / (n - 1.0).max(1.0) / n).sqrt()]
}
