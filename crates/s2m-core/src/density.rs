//! The density of a query, from the levels of the single labels.
//!
//! Under the method's assumption the label sets of an item are nested: with the levels sorted,
//! `f_(1) ≥ f_(2) ≥ …`, the item has label set `S_k` = "the top k" with density
//! `A(S_k)·(f_(k) − f_(k+1))`, where `f_(n+1) = 0`. So
//!
//! ```text
//! r_Q = Σ_k [Q holds on S_k] · A(S_k) · (f_(k) − f_(k+1))
//! ```
//!
//! How the labels came about decides `f` and `A` ([`Labelling`]). A margin `g ≤ 1` raises the lower
//! end of each run of levels on which Q holds from `f_(b+1)` to `f_(b+1)/g`.
//!
//! Reference: Theorem 1 of "Mining Multi-Label Samples from Single Positive Labels", NeurIPS 2022,
//! whose `(min_I f − max_J f)^+` is the case of a plain "all of I, none of J" with A = 1.

use crate::error::Error;
use crate::labels::{LabelSet, MAX_LABELS};
use crate::logspace::{log_sub_exp, log_sum_exp};
use crate::query::Query;

/// How the single positive labels came about.
#[derive(Debug, Clone, PartialEq)]
pub struct Labelling {
    /// `log f_i − log D_r(i|x)` for each label.
    log_factor: Vec<f64>,
    /// `a_c` of each label, or none where `A = 1`.
    weights: Option<Vec<f64>>,
    /// Whether the density of a query takes `A` into account; posteriors always do.
    corrected: bool,
}

impl Labelling {
    /// Items were drawn for each label: `f_i = (π_i / p_data(i))·D_r(i|x)` and `A = 1`.
    pub fn per_class(priors: &[f64], observed: &[f64]) -> Result<Self, Error> {
        check("weights", priors, priors.len())?;
        check("observed", observed, priors.len())?;
        let log_factor = priors
            .iter()
            .zip(observed)
            .map(|(p, o)| p.ln() - o.ln())
            .collect();
        Self {
            log_factor,
            weights: None,
            corrected: true,
        }
        .with_sound_sums()
    }

    /// Refuses weights that cannot be added up.
    fn with_sound_sums(self) -> Result<Self, Error> {
        let shown: f64 = self.shown_weights().sum();
        if shown.is_finite() && shown > 0.0 {
            Ok(self)
        } else {
            Err(overflow())
        }
    }

    /// Each item shows one label drawn from its set with weights `a`: `f_i = D_r(i|x)/a_i` and
    /// `A(S) = Σ_{c∈S} a_c`.
    pub fn one_of(weights: &[f64]) -> Result<Self, Error> {
        check("weights", weights, weights.len())?;
        let log_factor = weights.iter().map(|a| -a.ln()).collect();
        Self {
            log_factor,
            weights: Some(weights.to_vec()),
            corrected: true,
        }
        .with_sound_sums()
    }

    /// The paper's uncorrected formula: densities of queries with `A = 1`.
    ///
    /// Posteriors stay right: they say how good the samples are, whatever formula drew them.
    #[must_use]
    pub fn uncorrected(self) -> Self {
        Self {
            corrected: false,
            ..self
        }
    }

    /// Number of labels.
    pub fn label_count(&self) -> usize {
        self.log_factor.len()
    }

    /// `a_c`: how readily an item that carries label `c` shows it, up to a constant. The stated weight, or
    /// `p_data(c)/π_c` where items were drawn for each label; `f_c = D_r(c|x) / a_c` in both cases.
    pub fn shown_weights(&self) -> impl Iterator<Item = f64> + Clone + '_ {
        self.log_factor.iter().map(|log_factor| (-log_factor).exp())
    }

    /// `A(S) = Σ_{c∈S} a_c`.
    pub fn shown_amount(&self, set: LabelSet) -> f64 {
        set.iter().map(|c| (-self.log_factor[c]).exp()).sum()
    }

    /// Density of a set among items, over its posterior among items as they are shown: 1, or `1/A(S)` where
    /// items were drawn for each label and those with many labels come often.
    pub(crate) fn density_of_shown(&self, set: LabelSet) -> f64 {
        match self.weights {
            Some(_) => 1.0,
            None => self.shown_amount(set).recip(),
        }
    }

    /// The weights behind `A` of a density, or none where `A = 1`.
    fn density_weights(&self) -> Option<&[f64]> {
        self.weights.as_deref().filter(|_| self.corrected)
    }
}

/// `log A(S)`.
fn log_amount(weights: Option<&[f64]>, set: LabelSet) -> f64 {
    match weights {
        None => 0.0,
        Some(weights) => set.iter().map(|c| weights[c]).sum::<f64>().ln(),
    }
}

fn overflow() -> Error {
    Error::value(
        "labelling.weights (over labelling.observed, where items were drawn for each label) are so large or so small that their sum is not a positive number",
    )
}

fn check(list: &'static str, values: &[f64], wanted: usize) -> Result<(), Error> {
    if values.len() != wanted {
        return Err(Error::mismatch(format!(
            "labelling.{list} has {} entries for {wanted} labels",
            values.len()
        )));
    }
    match values.iter().find(|v| !(v.is_finite() && **v > 0.0)) {
        Some(&value) => Err(Error::value(format!(
            "labelling.{list} holds {value}, which is not a positive number"
        ))),
        None if !values.iter().sum::<f64>().is_finite() => Err(overflow()),
        None => Ok(()),
    }
}

/// The levels of one item: `log f_i` per label, and their order.
#[derive(Debug, Clone)]
pub struct Levels<'a> {
    labelling: &'a Labelling,
    log_level: [f64; MAX_LABELS],
    order: [u8; MAX_LABELS],
}

impl<'a> Levels<'a> {
    /// Levels of an item whose class of real items is `log_class` (log D_r, one per label).
    pub fn new(labelling: &'a Labelling, log_class: impl Iterator<Item = f64>) -> Self {
        let n = labelling.label_count();
        let mut levels = Self {
            labelling,
            log_level: [f64::NEG_INFINITY; MAX_LABELS],
            order: [0; MAX_LABELS],
        };
        for (label, (value, factor)) in log_class.zip(&labelling.log_factor).enumerate() {
            levels.log_level[label] = value + factor;
            levels.order[label] = label as u8;
        }
        let Self {
            log_level, order, ..
        } = &mut levels;
        order[..n].sort_by(|&a, &b| log_level[b as usize].total_cmp(&log_level[a as usize]));
        levels
    }

    fn len(&self) -> usize {
        self.labelling.label_count()
    }

    /// `log f` of one label.
    pub fn log_level(&self, label: usize) -> f64 {
        self.log_level[label]
    }

    /// The nested label sets that this item can have, with the log density of each.
    pub fn sets(&self) -> impl Iterator<Item = (LabelSet, f64)> + Clone + '_ {
        (1..=self.len()).map(|k| {
            let set = self.top(k);
            let width = log_sub_exp(self.sorted(k), self.sorted(k + 1));
            (
                set,
                log_amount(self.labelling.weights.as_deref(), set) + width,
            )
        })
    }

    /// The same sets with `P̃(S_k|x) = A(S_k)·(f_(k) − f_(k+1))`, the posterior of each for items as they are
    /// shown; not in log space.
    pub fn shown_sets(&self) -> impl Iterator<Item = (LabelSet, f64)> + Clone + '_ {
        (1..=self.len()).map(|k| {
            let set = self.top(k);
            let width = log_sub_exp(self.sorted(k), self.sorted(k + 1)).exp();
            (set, self.labelling.shown_amount(set) * width)
        })
    }

    /// `log r_Q` with margin `exp(log_margin)`; `-∞` outside the query's support.
    pub fn log_density(&self, query: &Query, log_margin: f64) -> f64 {
        self.log_density_with(self.labelling.density_weights(), query, log_margin)
    }

    fn log_density_with(&self, weights: Option<&[f64]>, query: &Query, log_margin: f64) -> f64 {
        if let Some((present, absent)) = query.conjunction() {
            let complete = present.len() + absent.len() == self.len();
            if weights.is_none() || complete {
                return log_amount(weights, present)
                    + self.log_conjunction(present, absent, log_margin);
            }
        }
        log_sum_exp(
            self.runs(query)
                .flat_map(|run| self.run_terms(weights, run, log_margin)),
        )
    }

    /// `log (min_I f − max_J f / g)^+`, the plain case without sorting.
    fn log_conjunction(&self, present: LabelSet, absent: LabelSet, log_margin: f64) -> f64 {
        let level = |label: usize| self.log_level[label];
        let weakest = present.iter().map(level).fold(f64::INFINITY, f64::min);
        let strongest = absent.iter().map(level).fold(f64::NEG_INFINITY, f64::max);
        log_sub_exp(weakest, strongest - log_margin)
    }

    /// `log r_any`: at least one label holds.
    pub fn log_any(&self) -> f64 {
        log_sum_exp(self.sets().map(|(_, log_density)| log_density))
    }

    /// `log P(Q|x) = log r_Q − log r_any`, at margin 1.
    pub fn log_posterior(&self, query: &Query) -> f64 {
        let weights = self.labelling.weights.as_deref();
        (self.log_density_with(weights, query, 0.0) - self.log_any()).min(0.0)
    }

    /// `P(label | Q, x)`, at margin 1; none where the query has no density at this item.
    pub fn label_posterior(&self, query: &Query, label: usize) -> Option<f64> {
        if let Some(forced) = query.forced(label) {
            return Some(f64::from(u8::from(forced)));
        }
        let holding = self.sets().filter(|(set, _)| query.holds(*set));
        let total = log_sum_exp(holding.clone().map(|(_, d)| d));
        let with = log_sum_exp(
            holding
                .filter(|(set, _)| set.contains(label))
                .map(|(_, d)| d),
        );
        (total > f64::NEG_INFINITY).then(|| (with - total).exp().min(1.0))
    }

    /// `log f_(k)`, counted from 1; `-∞` past the last.
    fn sorted(&self, k: usize) -> f64 {
        if k > self.len() {
            f64::NEG_INFINITY
        } else {
            self.log_level[self.order[k - 1] as usize]
        }
    }

    /// `S_k`: the labels with the k highest levels.
    fn top(&self, k: usize) -> LabelSet {
        self.order[..k].iter().map(|&l| l as usize).collect()
    }

    /// Maximal runs `(a, b)` of levels on which Q holds.
    ///
    /// A level without width carries no item: it neither belongs to a run nor ends one, so that
    /// equal levels may stand in either order.
    fn runs(&self, query: &Query) -> impl Iterator<Item = (usize, usize)> + Clone {
        let mut runs: Vec<(usize, usize)> = Vec::new();
        let mut open = false;
        for k in 1..=self.len() {
            if self.sorted(k) <= self.sorted(k + 1) {
                continue;
            }
            let holds = query.holds(self.top(k));
            match runs.last_mut() {
                Some(run) if holds && open => run.1 = k,
                _ if holds => runs.push((k, k)),
                _ => {}
            }
            open = holds;
        }
        runs.into_iter()
    }

    /// The log terms of one run, with its lower end raised by the margin.
    fn run_terms(
        &self,
        weights: Option<&[f64]>,
        (a, b): (usize, usize),
        log_margin: f64,
    ) -> impl Iterator<Item = f64> + Clone {
        let floor = self.sorted(b + 1) - log_margin;
        (a..=b).map(move |k| {
            let (high, low) = (self.sorted(k).max(floor), self.sorted(k + 1).max(floor));
            log_amount(weights, self.top(k)) + log_sub_exp(high, low)
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::labels::Labels;

    fn labels(n: usize) -> Labels {
        Labels::new((0..n).map(|i| format!("L{i}"))).unwrap()
    }

    fn levels<'a>(labelling: &'a Labelling, f: &[f64]) -> Levels<'a> {
        Levels::new(labelling, f.iter().map(|v| v.ln()))
    }

    /// The paper's theorem: `(min_I f − max_J f)^+`, straight from its page.
    fn paper(f: &[f64], present: LabelSet, absent: LabelSet, g: f64) -> f64 {
        let low = present.iter().map(|i| f[i]).fold(f64::INFINITY, f64::min);
        let high = absent.iter().map(|j| f[j]).fold(0.0, f64::max);
        (g * low - high).max(0.0)
    }

    /// Some boolean queries over four labels, plain and otherwise.
    fn some_query() -> impl Strategy<Value = Query> {
        any::<u16>().prop_filter_map("must hold somewhere, not on the empty set", |table| {
            let labels = labels(4);
            let terms: Vec<String> = (1..16u64)
                .filter(|bits| table >> bits & 1 == 1)
                .map(|bits| {
                    Query::joint(LabelSet::from_bits(bits), &labels)
                        .unwrap()
                        .text()
                        .to_owned()
                })
                .collect();
            Query::parse(&terms.join(" | "), &labels).ok()
        })
    }

    fn random_levels() -> impl Strategy<Value = Vec<f64>> {
        prop::collection::vec(1e-6..1.0f64, 4)
    }

    proptest! {
        #[test]
        fn a_boolean_density_is_the_sum_over_its_joint_classes(f in random_levels(), q in some_query()) {
            let labelling = Labelling::per_class(&[0.4; 4], &[0.25; 4]).unwrap();
            let levels = levels(&labelling, &f);
            let scaled: Vec<f64> = f.iter().map(|v| v * 0.4 / 0.25).collect();
            let all = LabelSet::first(4);
            let sum: f64 = (1..16).map(LabelSet::from_bits).filter(|s| q.holds(*s))
                .map(|s| paper(&scaled, s, LabelSet::from_bits(all.bits() & !s.bits()), 1.0)).sum();
            prop_assert!((levels.log_density(&q, 0.0).exp() - sum).abs() < 1e-12);
        }

        #[test]
        fn the_margin_on_a_plain_query_is_the_papers(f in random_levels(), bits in 1u64..16, other in 0u64..16, g in 0.01..1.0f64) {
            let labels = labels(4);
            let (present, absent) = (LabelSet::from_bits(bits), LabelSet::from_bits(other & !bits));
            let text: Vec<String> = present.iter().map(|i| format!("L{i}"))
                .chain(absent.iter().map(|j| format!("!L{j}"))).collect();
            let query = Query::parse(&text.join(" + "), &labels).unwrap();
            prop_assert_eq!(query.conjunction(), Some((present, absent)));
            let labelling = Labelling::per_class(&[0.25; 4], &[0.25; 4]).unwrap();
            let levels = levels(&labelling, &f);
            let ours = levels.log_density(&query, g.ln()).exp() * g;
            prop_assert!((ours - paper(&f, present, absent, g)).abs() < 1e-12);
            // The sorted general path gives the same as the fast one.
            let slow = log_sum_exp(levels.runs(&query).flat_map(|run| levels.run_terms(None, run, g.ln())));
            prop_assert!((slow.exp() * g - ours).abs() < 1e-12);
        }

        #[test]
        fn one_of_densities_are_exact_posteriors(
            joint in prop::collection::vec(0.01..1.0f64, 4), order in Just(vec![0usize, 1, 2, 3]).prop_shuffle(),
            a in prop::collection::vec(0.2..3.0f64, 4), q in some_query(),
        ) {
            // An item whose possible label sets are nested, with these probabilities.
            let sets: Vec<LabelSet> = (1..=4).map(|k| order[..k].iter().copied().collect()).collect();
            let total: f64 = joint.iter().sum();
            let truth = |holds: &dyn Fn(LabelSet) -> bool| -> f64 {
                sets.iter().zip(&joint).filter(|(s, _)| holds(**s)).map(|(_, p)| p / total).sum()
            };
            // The label it shows: one of its set, with probability proportional to a.
            let amount = |s: LabelSet| s.iter().map(|c| a[c]).sum::<f64>();
            let shown: Vec<f64> = (0..4).map(|c| sets.iter().zip(&joint)
                .filter(|(s, _)| s.contains(c)).map(|(s, p)| p / total * a[c] / amount(*s)).sum()).collect();
            let labelling = Labelling::one_of(&a).unwrap();
            let levels = levels(&labelling, &shown);
            prop_assert!((levels.log_any().exp() - 1.0).abs() < 1e-12);
            prop_assert!((levels.log_posterior(&q).exp() - truth(&|s| q.holds(s))).abs() < 1e-12);
            let expected = truth(&|s| q.holds(s));
            if expected > 1e-6 {
                for label in 0..4 {
                    let with = truth(&|s| q.holds(s) && s.contains(label)) / expected;
                    let found = levels.label_posterior(&q, label).unwrap();
                    prop_assert!((found - with).abs() < 1e-9, "{} {}", found, with);
                }
            }
        }

        #[test]
        fn a_smaller_margin_never_adds_density(f in random_levels(), q in some_query(), g in 0.01..1.0f64) {
            let labelling = Labelling::one_of(&[1.0, 2.0, 0.5, 1.0]).unwrap();
            let levels = levels(&labelling, &f);
            prop_assert!(levels.log_density(&q, g.ln()) <= levels.log_density(&q, 0.0) + 1e-12);
        }
    }

    #[test]
    fn equal_levels_may_stand_in_either_order() {
        // Q holds on {0}, {0,1} and {0,1,2}, not on {0,2}: with f_1 = f_2 the order must not matter.
        let labels = labels(3);
        let query = Query::parse("L0 - (L2 - L1)", &labels).unwrap();
        let labelling = Labelling::per_class(&[1.0; 3], &[1.0; 3]).unwrap();
        let one = levels(&labelling, &[0.6, 0.2, 0.2]).log_density(&query, 0.5_f64.ln());
        assert!((one.exp() - 0.6).abs() < 1e-12);
        let labelling = Labelling::per_class(&[1.0; 3], &[1.0; 3]).unwrap();
        let swapped = Query::parse("L0 - (L1 - L2)", &labels).unwrap();
        let two = levels(&labelling, &[0.6, 0.2, 0.2]).log_density(&swapped, 0.5_f64.ln());
        assert_eq!(one, two);
    }

    #[test]
    fn without_the_correction_a_partial_query_is_off() {
        // Top set {0,1} with probability 1 under one-of: P(L0) = 1, but the paper's form says 1/2.
        let labels = labels(2);
        let query = Query::parse("L0", &labels).unwrap();
        let corrected = Labelling::one_of(&[1.0, 1.0]).unwrap();
        let paper = corrected.clone().uncorrected();
        assert!(
            (levels(&corrected, &[0.5, 0.5])
                .log_density(&query, 0.0)
                .exp()
                - 1.0)
                .abs()
                < 1e-12
        );
        assert!((levels(&paper, &[0.5, 0.5]).log_density(&query, 0.0).exp() - 0.5).abs() < 1e-12);
    }

    #[test]
    fn bad_numbers_are_named() {
        let message = |e: Error| e.to_string();
        assert_eq!(
            message(Labelling::per_class(&[0.5, 0.5], &[1.0]).unwrap_err()),
            "labelling.observed has 1 entries for 2 labels"
        );
        assert_eq!(
            message(Labelling::one_of(&[1.0, 0.0]).unwrap_err()),
            "labelling.weights holds 0, which is not a positive number"
        );
    }
}
