use proptest::prelude::*;

use super::targets::{Census, HeldOut, Showing, paired_gain, softmax};
use super::*;
use crate::calibration::isotonic::Curve;
use crate::labels::Labels;
use crate::posterior::PosteriorKind;
use crate::weight::{Calibration, Evidence, JointCalibration, Weighting};

fn labels(n: usize) -> Labels {
    Labels::new((0..n).map(|i| format!("L{i}"))).unwrap()
}

fn set(labels: &[usize]) -> LabelSet {
    labels.iter().copied().collect()
}

#[test]
fn lists_that_cannot_be_outputs_are_refused() {
    let message = |labels, sets: &[&[usize]], rest| {
        let sets = sets.iter().map(|s| set(s)).collect();
        LabelSets::new(labels, sets, rest).unwrap_err().to_string()
    };
    assert_eq!(
        message(1, &[&[0]], false),
        "one label has one label set; a joint head needs at least two labels"
    );
    assert_eq!(
        message(2, &[], true),
        "0 label sets are listed; 1 to 1024 are possible"
    );
    assert_eq!(
        message(2, &[&[0], &[]], true),
        "label set 2 of the list is empty"
    );
    assert_eq!(
        message(2, &[&[0], &[2]], true),
        "label set 2 of the list has a label beyond the 2 of the bundle"
    );
    assert_eq!(
        message(2, &[&[0], &[1], &[0]], true),
        "label sets 1 and 3 of the list are the same"
    );
    assert_eq!(
        message(3, &[&[0], &[1, 0]], false),
        "label 2 is in no label set of the list, and there is no output `rest`"
    );
    assert!(LabelSets::new(3, vec![set(&[0]), set(&[0, 1])], true).is_ok());
    assert_eq!(LabelSets::whole(8).unwrap().outputs(), 255);
    assert!(LabelSets::whole(12).is_err());
}

/// A labelling of either model with these numbers.
fn labelling(a: &[f64], per_class: bool) -> Labelling {
    if per_class {
        // a_c = p_data(c) / π_c.
        let ones = vec![1.0; a.len()];
        Labelling::per_class(&ones, a).unwrap()
    } else {
        Labelling::one_of(a).unwrap()
    }
}

/// A row as it is kept, and the sets' posteriors that it stands for: straight from the definition.
fn kept(sets: &LabelSets, logits: &[f32]) -> Vec<f32> {
    let mut row = vec![0.0; sets.shape().width()];
    sets.shape().keep(logits, &mut row);
    row
}

fn some_query(n: usize, picks: &[u64]) -> Option<Query> {
    let labels = labels(n);
    let all = labels.all().bits();
    let terms = picks.iter().filter_map(|bits| {
        let joint = Query::joint(LabelSet::from_bits(bits & all), &labels)?;
        Some(format!("({})", joint.text()))
    });
    Query::parse(&terms.collect::<Vec<_>>().join(" | "), &labels).ok()
}

proptest! {
    /// Bundles with 2 to 12 labels, both labelling models, with and without `rest`.
    #[test]
    fn posteriors_and_densities_are_sums_over_sets(
        n in 2usize..=12, a in prop::collection::vec(0.2..4.0f64, 12), per_class in any::<bool>(),
        logits in prop::collection::vec(-6.0..6.0f32, 300), class in prop::collection::vec(-3.0..3.0f32, 12),
        listed in prop::collection::vec(1u64..4096, 40), picks in prop::collection::vec(1u64..4096, 1..6),
        temperature in 0.5..3.0f64,
    ) {
        let labelling = labelling(&a[..n], per_class);
        let all = LabelSet::first(n).bits();
        let sets = if n <= MOST_WHOLE {
            LabelSets::whole(n).unwrap()
        } else {
            let mut chosen: Vec<LabelSet> =
                listed.iter().map(|bits| LabelSet::from_bits(bits & all)).filter(|s| !s.is_empty()).collect();
            chosen.sort_unstable();
            chosen.dedup();
            LabelSets::new(n, chosen, true).unwrap()
        };
        let Some(query) = some_query(n, &picks) else { return Ok(()) };
        let row = kept(&sets, &logits[..sets.outputs()]);
        let calibration = Calibration {
            joint: Some(JointCalibration { sets: sets.clone().into(), temperature }),
            ..Calibration::default()
        };
        let weighting = Weighting::calibrated(query.clone(), labelling.clone(), &calibration).unwrap();
        prop_assert_eq!(weighting.kind(), PosteriorKind::Joint);
        let evidence = Evidence {
            class_logits: &class[..n],
            real_logit: 0.7,
            fake_class_logits: None,
            joint: Some(sets.shape().read(&row)),
            log_latent_ratio: 0.0,
        };
        // Brute force: masses of all sets, from the row's own numbers.
        let mut mass: std::collections::BTreeMap<LabelSet, f64> = std::collections::BTreeMap::new();
        let mut rest = 0.0;
        for (output, logit) in sets.shape().read(&row).iter() {
            let p = (logit / temperature).exp();
            match sets.sets().get(output) {
                Some(set) => *mass.entry(*set).or_default() += p,
                None => rest = p,
            }
        }
        let norm: f64 = class[..n].iter().map(|l| f64::from(*l).exp()).sum();
        let mut f: Vec<(f64, usize)> = (0..n).map(|c| (f64::from(class[c]).exp() / norm / a[c], c)).collect();
        f.sort_by(|x, y| y.0.total_cmp(&x.0));
        let nested: Vec<(LabelSet, f64)> = (1..=n).map(|k| {
            let top: LabelSet = f[..k].iter().map(|(_, c)| *c).collect();
            let amount: f64 = top.iter().map(|c| a[c]).sum();
            (top, amount * (f[k - 1].0 - f.get(k).map_or(0.0, |next| next.0)))
        }).filter(|(s, _)| !sets.sets().contains(s)).collect();
        let unlisted: f64 = nested.iter().map(|(_, m)| m).sum();
        for (set, m) in nested {
            *mass.entry(set).or_default() += rest * m / unlisted;
        }
        let total: f64 = mass.values().sum();
        let r = |s: &LabelSet| if per_class { s.iter().map(|c| a[c]).sum::<f64>().recip() } else { 1.0 };
        let sum = |holds: &dyn Fn(LabelSet) -> bool| -> f64 {
            mass.iter().filter(|(s, _)| holds(**s)).map(|(s, m)| m / total * r(s)).sum()
        };
        let (r_q, any) = (sum(&|s| query.holds(s)), sum(&|_| true));
        let item = weighting.item_posterior(evidence).unwrap();
        let close = |found: f64, wanted: f64| (found - wanted).abs() < 1e-12 * wanted.max(1.0);
        prop_assert!(close(item.log_posterior(&query).exp(), r_q / any));
        prop_assert!(close(item.log_density(&query, 0.0).exp(), r_q));
        let weight = weighting.log_weight(evidence).unwrap();
        prop_assert!(r_q == 0.0 && weight == f64::NEG_INFINITY || (weight - r_q.ln() - f64::from(0.7_f32)).abs() < 1e-9);
        for label in 0..n {
            let with = sum(&|s| query.holds(s) && s.contains(label));
            match item.label_posterior(&query, label) {
                None => prop_assert_eq!(r_q, 0.0),
                Some(found) => prop_assert!(r_q == 0.0 || close(found, with / r_q)),
            }
        }
        let explained = weighting.explain(evidence).unwrap();
        prop_assert!(close(explained.sets.iter().filter(|s| s.1).map(|s| s.2.exp()).sum::<f64>(), r_q));
    }

    /// Targets of the first round against every set one by one, both labelling models, random weights and powers.
    #[test]
    fn targets_are_bayes_rule_on_sorted_levels(
        a in prop::collection::vec(0.2..4.0f64, 4), class in prop::collection::vec(-2.0..2.0f64, 4),
        per_class in any::<bool>(), label in 0usize..4, power in 0.5..2.0f64,
    ) {
        let own = labelling(&a, per_class);
        let showing = Showing::new(LabelSets::whole(4).unwrap(), own.clone());
        let norm: f64 = class.iter().map(|l| l.exp()).sum();
        let log_class: Vec<f64> = class.iter().map(|l| l - norm.ln()).collect();
        let mut found = vec![0.0; 15];
        showing.target_of_levels(&log_class, power, label, &mut found);
        let raised: Vec<f64> = (0..4).map(|c| (log_class[c].exp() / a[c]).powf(power)).collect();
        let scale: f64 = (0..4).map(|c| a[c] * raised[c]).sum();
        let f: Vec<f64> = raised.iter().map(|r| r / scale).collect();
        let amount = |bits: usize| (0..4).filter(|c| bits >> c & 1 == 1).map(|c| a[c]).sum::<f64>();
        let mut wanted: Vec<f64> = (1..16usize).map(|bits| {
            let inside = (0..4).filter(|c| bits >> c & 1 == 1).map(|c| f[c]).fold(f64::INFINITY, f64::min);
            let outside = (0..4).filter(|c| bits >> c & 1 == 0).map(|c| f[c]).fold(0.0, f64::max);
            let p = (amount(bits) * (inside - outside).max(0.0)).max(1e-3 / 15.0);
            if bits >> label & 1 == 1 { p * a[label] / amount(bits) } else { 0.0 }
        }).collect();
        let total: f64 = wanted.iter().sum();
        for w in &mut wanted {
            *w /= total;
        }
        for (found, wanted) in found.iter().zip(&wanted) {
            prop_assert!((found - wanted).abs() < 1e-12, "{} {}", found, wanted);
        }
        // Exact levels of ρ = 1 have the class head as their marginals.
        let mut shown = vec![0.0; 15];
        for (set, mass) in Levels::new(&own, log_class.iter().copied()).shown_sets() {
            shown[set.bits() as usize - 1] = mass;
        }
        for (c, log_class) in log_class.iter().enumerate() {
            prop_assert!((showing.marginal(&shown, &[], c) - log_class.exp()).abs() < 1e-12);
        }
    }
}

/// On paper: a sure {A} with a teacher at (.8, .2) has 40 % on {A, B} by levels; shown with A it is
/// 25 % after one round and 14 % after two.
#[test]
fn rounds_take_softness_away() {
    let labelling = Labelling::one_of(&[1.0, 1.0]).unwrap();
    let showing = Showing::new(LabelSets::whole(2).unwrap(), labelling.clone());
    let log_class = [0.8_f64.ln(), 0.2_f64.ln()];
    let levels = Levels::new(&labelling, log_class.iter().copied());
    let both = levels.shown_sets().find(|(s, _)| s.len() == 2).unwrap().1;
    assert!((both - 0.4).abs() < 1e-12);
    let mut first = [0.0; 3];
    showing.target_of_levels(&log_class, 1.0, 0, &mut first);
    assert!((first[2] - 0.25).abs() < 1e-3, "{first:?}");
    let mut second = [0.0; 3];
    showing.target_of_sets(&first, &log_class, 0, &mut second);
    assert!((second[2] - 1.0 / 7.0).abs() < 1e-3, "{second:?}");
}

#[test]
fn the_rest_has_the_sets_that_no_output_has() {
    let n = 10;
    let labelling = Labelling::one_of(&vec![1.0; n]).unwrap();
    let mut census = Census::new(labelling.clone());
    // Levels fall by half from label to label: nested sets {0}, {0, 1}, …
    let log_class: Vec<f64> = (0..n).map(|c| -(c as f64) * 2.0_f64.ln()).collect();
    census.count(&log_class, 0);
    let sets = census.sets().unwrap();
    assert_eq!((sets.outputs(), sets.has_rest()), (n + 1, true));
    let few = LabelSets::new(n, vec![set(&[0]), set(&[0, 1])], true).unwrap();
    let showing = Showing::new(few, labelling.clone());
    let mut target = [0.0; 3];
    showing.target_of_levels(&log_class, 1.0, 0, &mut target);
    let nested: Vec<(LabelSet, f64)> = {
        let norm = crate::log_sum_exp(log_class.iter().copied());
        let natural = log_class.iter().map(|l| l - norm);
        Levels::new(&labelling, natural).shown_sets().collect()
    };
    let given = |range: std::ops::Range<usize>| -> f64 {
        nested[range].iter().map(|(s, m)| m / s.len() as f64).sum()
    };
    assert!((target[2] - given(2..n) / given(0..n)).abs() < 1e-3);
    // What `rest` shows is what its sets show.
    let shown = showing.marginal(&[0.0, 0.0, 1.0], &log_class, 1);
    let rest: f64 = nested[2..].iter().map(|(_, m)| m).sum();
    assert!((shown - given(2..n) / rest).abs() < 1e-12);
}

/// The item's nested sets all have outputs, and these say no: nothing is left of it.
#[test]
fn a_rest_that_no_set_takes_leaves_an_item_without_weight() {
    let nested = vec![set(&[0]), set(&[0, 1])];
    let sets = LabelSets::new(2, nested, true).unwrap();
    let query = Query::parse("L0", &labels(2)).unwrap();
    let calibration = Calibration {
        joint: Some(JointCalibration {
            sets: sets.clone().into(),
            temperature: 1.0,
        }),
        ..Calibration::default()
    };
    let labelling = Labelling::one_of(&[1.0, 1.0]).unwrap();
    let weighting = Weighting::calibrated(query.clone(), labelling, &calibration).unwrap();
    let row = [-4000.0, -4000.0, 0.0];
    let evidence = Evidence {
        class_logits: &[1.0, 0.0],
        real_logit: 0.0,
        fake_class_logits: None,
        joint: Some(sets.shape().read(&row)),
        log_latent_ratio: 0.0,
    };
    assert_eq!(weighting.log_weight(evidence).unwrap(), f64::NEG_INFINITY);
    let item = weighting.item_posterior(evidence).unwrap();
    assert_eq!(item.log_posterior(&query), f64::NEG_INFINITY);
    assert_eq!(item.label_posterior(&query, 1), None);
}

#[test]
fn balanced_draws_change_a_set_by_what_it_shows() {
    let labelling = Labelling::one_of(&[1.0, 3.0]).unwrap();
    let showing = Showing::new(LabelSets::whole(2).unwrap(), labelling);
    let found = showing.log_draw_ratios(&[0.5, 2.0]);
    let wanted = [0.5_f64, 2.0, 0.25 * 0.5 + 0.75 * 2.0].map(f64::ln);
    for (found, wanted) in found.iter().zip(wanted) {
        assert!((found - wanted).abs() < 1e-12);
    }
}

/// Logits that are twice too sure have a temperature of two: labels are drawn as the halved logits say.
#[test]
fn the_temperature_is_the_one_that_labels_were_drawn_by() {
    let labelling = Labelling::one_of(&[1.0; 3]).unwrap();
    let showing = Showing::new(LabelSets::whole(3).unwrap(), labelling);
    let (mut logits, mut labels) = (Vec::new(), Vec::new());
    let mut word = 1_u64;
    let mut unit = || {
        word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (word >> 11) as f64 / (1_u64 << 53) as f64
    };
    let mut probabilities = vec![0.0; 7];
    for _ in 0..20_000 {
        let row: Vec<f32> = (0..7).map(|_| (8.0 * unit() - 4.0) as f32).collect();
        softmax(&row, 2.0, &mut probabilities);
        let mut place = unit();
        let label = (0..3).find(|&c| {
            place -= showing.marginal(&probabilities, &[], c);
            place < 0.0
        });
        labels.push(label.unwrap_or(2) as u8);
        logits.extend(row);
    }
    let items = HeldOut {
        logits: &logits,
        log_class: &[],
        labels: &labels,
    };
    let fit = showing.fit_temperature(items).unwrap();
    assert!((fit.temperature - 2.0).abs() < 0.15, "{fit:?}");
    assert!(fit.nll_after < fit.nll_before);
    let [at_two, at_one] = [2.0, 1.0].map(|t| showing.log_likelihoods(items, t));
    let [gain, error] = paired_gain(&at_two, &at_one);
    assert!(gain > 5.0 * error, "{gain} {error}");
    assert!(
        showing
            .fit_temperature(HeldOut {
                logits: &logits[1..],
                ..items
            })
            .is_err()
    );
}

#[test]
fn a_weighting_of_sets_refuses_what_is_for_levels() {
    let query = || Query::parse("L0 - L1", &labels(2)).unwrap();
    let labelling = || Labelling::one_of(&[1.0, 1.0]).unwrap();
    let sets = LabelSets::whole(2).unwrap();
    let joint = |temperature| JointCalibration {
        sets: sets.clone().into(),
        temperature,
    };
    let calibration = |margin, temperature| Calibration {
        margin,
        joint: Some(joint(temperature)),
        ensemble: Curve::new(vec![[0.0, 0.0], [1.0, 0.9]]),
        ..Calibration::default()
    };
    let message = |c: Calibration| {
        Weighting::calibrated(query(), labelling(), &c)
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        message(calibration(0.5, 1.0)),
        "an exclusion margin is for the posterior by levels\nhint: `posterior = levels`"
    );
    assert!(message(calibration(1.0, 0.0)).starts_with("the temperature of the joint head is 0"));
    let weighting = Weighting::calibrated(query(), labelling(), &calibration(1.0, 1.0)).unwrap();
    let mut evidence = Evidence {
        class_logits: &[0.0, 0.0],
        real_logit: 0.0,
        fake_class_logits: None,
        joint: None,
        log_latent_ratio: 0.0,
    };
    assert_eq!(
        weighting.log_weight(evidence).unwrap_err().to_string(),
        "a logit of the joint head is NaN"
    );
    let row = [f32::INFINITY, 0.0, 0.0];
    evidence.joint = Some(sets.shape().read(&row));
    assert_eq!(
        weighting.log_weight(evidence).unwrap_err().to_string(),
        "a logit of the joint head is inf"
    );
    // Three sets alike: P(A − B) is a third, and other networks say nine tenths of that.
    let row = [1.0; 3];
    evidence.joint = Some(sets.shape().read(&row));
    let explained = weighting.explain(evidence).unwrap();
    assert!((explained.posterior - 1.0 / 3.0).abs() < 1e-12);
    assert!((explained.predicted - 0.3).abs() < 1e-12);
}
