//! Label weights, or class priors, estimated from the items that carry two labels at once.
//!
//! Where an item carries labels i and j both, the two levels are equal, so its `D_r(i|x) / D_r(j|x)` is
//! one constant: `a_i / a_j` under `one-of`, `(p_data(i)/π_i) / (p_data(j)/π_j)` under `per-class`.
//! Items with only one of them have a ratio near zero or near infinity. The constant is therefore where
//! ratios crowd. The items there show label i or j in just that ratio, so counting them gives the
//! estimate and its standard error:
//!
//! ```text
//! log ratio = log n_i − log n_j,   standard error = √(1/n_i + 1/n_j)
//! ```
//!
//! One log weight per label then comes from all pairs by weighted least squares. Labels that no chain of
//! such pairs joins cannot be compared.

use super::temperature::not_rows;
use crate::error::Error;

/// Two labels that enough items carry at once.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pair {
    /// The labels.
    pub labels: [usize; 2],
    /// `t_i − t_j`, where `f_i = D_r(i|x) · exp(−t_i)`.
    pub log_ratio: f64,
    /// Its standard error.
    pub standard_error: f64,
    /// Items behind it.
    pub items: usize,
}

/// What was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Estimate {
    /// `t_i` of each label, mean zero over those that are joined; none for the others.
    pub log_weights: Vec<Option<f64>>,
    /// The pairs behind it.
    pub pairs: Vec<Pair>,
}

/// Log ratios beyond this are of items with one of the two labels.
const WIDEST: f64 = 5.0;

/// Width of the window in which ratios are counted to find where they crowd.
const WINDOW: f64 = 1.0;

/// Items at the crowd: this far from its middle.
const REACH: f64 = 1.0;

/// Fewest items at a crowd, and their least share of the items that show one of the labels.
const FEWEST: usize = 50;
const LEAST_SHARE: f64 = 0.02;

/// Estimates from class logits of held-out items and the labels that they show.
pub fn estimate(
    rows: &[f32],
    classes: usize,
    temperature: f64,
    observed: &[u8],
) -> Result<Estimate, Error> {
    let items = observed.len();
    if rows.len() != items * classes {
        return Err(not_rows(rows.len(), items, classes));
    }
    let mut pairs = Vec::new();
    for i in 0..classes {
        for j in i + 1..classes {
            pairs.extend(pair([i, j], rows, classes, temperature, observed));
        }
    }
    Ok(Estimate {
        log_weights: join(classes, &pairs),
        pairs,
    })
}

/// One pair, where its ratios crowd.
fn pair(
    labels: [usize; 2],
    rows: &[f32],
    classes: usize,
    temperature: f64,
    observed: &[u8],
) -> Option<Pair> {
    let shows = |label: u8| labels.iter().position(|&l| l == usize::from(label));
    let ratio = |row: &[f32]| f64::from(row[labels[0]] - row[labels[1]]) / temperature;
    let mut shown: Vec<(f64, usize)> = rows
        .chunks_exact(classes)
        .zip(observed)
        .filter_map(|(row, &label)| Some((ratio(row), shows(label)?)))
        .collect();
    let all = shown.len();
    shown.retain(|(ratio, _)| ratio.abs() <= WIDEST);
    shown.sort_by(|a, b| a.0.total_cmp(&b.0));
    let within = |start: usize| {
        let end = shown[start].0 + WINDOW;
        shown.partition_point(|(ratio, _)| *ratio <= end)
    };
    let start =
        (0..shown.len()).max_by_key(|&start| (within(start) - start, usize::MAX - start))?;
    let middle = shown[usize::midpoint(start, within(start) - 1)].0;
    let at = |(ratio, _): &&(f64, usize)| (ratio - middle).abs() <= REACH;
    let crowd: Vec<usize> = shown.iter().filter(at).map(|(_, label)| *label).collect();
    let second: usize = crowd.iter().sum();
    let first = crowd.len() - second;
    let enough = crowd.len() >= FEWEST && crowd.len() as f64 >= LEAST_SHARE * all as f64;
    (enough && first > 0 && second > 0).then(|| Pair {
        labels,
        log_ratio: (first as f64 / second as f64).ln(),
        standard_error: (1.0 / first as f64 + 1.0 / second as f64).sqrt(),
        items: crowd.len(),
    })
}

/// Sweeps of the least squares; each is exact for one label at a time.
const MOST_SWEEPS: usize = 10_000;

/// One number per label of the largest group that pairs join.
fn join(labels: usize, pairs: &[Pair]) -> Vec<Option<f64>> {
    let mut group: Vec<usize> = (0..labels).collect();
    for pair in pairs {
        let [from, to] = pair.labels.map(|label| group[label]);
        group
            .iter_mut()
            .filter(|g| **g == from)
            .for_each(|g| *g = to);
    }
    let size = |of: usize| group.iter().filter(|&&g| g == of).count();
    let largest = (0..labels)
        .max_by_key(|&g| (size(g), labels - g))
        .unwrap_or(0);
    if labels == 0 || size(largest) < 2 {
        return vec![None; labels];
    }
    let mut found = vec![0.0; labels];
    for _ in 0..MOST_SWEEPS {
        let mut moved = 0.0_f64;
        for label in 0..labels {
            let (mut weight, mut sum) = (0.0, 0.0);
            for pair in pairs {
                let precision = pair.standard_error.powi(-2);
                let [i, j] = pair.labels;
                if i == label {
                    weight += precision;
                    sum += precision * (found[j] + pair.log_ratio);
                } else if j == label {
                    weight += precision;
                    sum += precision * (found[i] - pair.log_ratio);
                }
            }
            if weight > 0.0 {
                moved = moved.max((sum / weight - found[label]).abs());
                found[label] = sum / weight;
            }
        }
        if moved < 1e-12 {
            break;
        }
    }
    let joined = |label: &usize| group[*label] == largest;
    let mean = (0..labels).filter(joined).map(|l| found[l]).sum::<f64>() / size(largest) as f64;
    (0..labels)
        .map(|label| joined(&label).then(|| found[label] - mean))
        .collect()
}

/// Stated weights where nothing is known, else estimated ones of the same total.
///
/// `stated` are label weights, or class priors where labels were `observed` in these shares.
pub fn estimated_weights(
    stated: &[f64],
    observed: Option<&[f64]>,
    log_weights: &[Option<f64>],
) -> Vec<Option<f64>> {
    // One-of: a_i = exp t_i. Per class: the prior is p_data(i) exp(-t_i), up to a constant.
    // One-of: a_i = exp t_i. Per class: the prior is p_data(i) exp(-t_i), up to a constant.
    let raw = |(label, t): (usize, &Option<f64>)| {
        t.map(|t| match observed {
            None => t.exp(),
            Some(observed) => observed[label] * (-t).exp(),
        })
    };
    let raw: Vec<Option<f64>> = log_weights.iter().enumerate().map(raw).collect();
    let known = |values: &[f64]| -> f64 {
        values
            .iter()
            .zip(&raw)
            .filter(|(_, raw)| raw.is_some())
            .map(|(value, _)| value)
            .sum()
    };
    let scale = known(stated) / raw.iter().flatten().sum::<f64>();
    raw.iter().map(|raw| raw.map(|raw| raw * scale)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three labels, items of {0}, {1}, {0, 1} and {2}, shown with weights 3 : 1.
    fn items() -> (Vec<f32>, Vec<u8>) {
        let (mut rows, mut shown) = (Vec::new(), Vec::new());
        for at in 0..400_u16 {
            // A little noise, symmetric about nothing in particular.
            let noise = f32::from(at * 37 % 41) / 100.0 - 0.2;
            let (row, label) = match at % 4 {
                0 => ([9.0, 0.0, 0.0], 0),
                1 => ([0.0, 9.0, 0.0], 1),
                2 => ([0.0, 0.0, 9.0], 2),
                _ => (
                    [3.0_f32.ln() + 5.0 + noise, 5.0, -4.0],
                    u8::from(at / 4 % 4 == 3),
                ),
            };
            rows.extend(row);
            shown.push(label);
        }
        (rows, shown)
    }

    #[test]
    fn items_with_both_labels_give_their_ratio() {
        let (rows, shown) = items();
        let found = estimate(&rows, 3, 1.0, &shown).unwrap();
        // 100 items have both; 75 show the first.
        assert_eq!(found.pairs.len(), 1, "{:?}", found.pairs);
        let pair = found.pairs[0];
        assert_eq!((pair.labels, pair.items), ([0, 1], 100));
        assert!((pair.log_ratio - 3.0_f64.ln()).abs() < 1e-12);
        let wanted = (1.0 / 75.0 + 1.0 / 25.0_f64).sqrt();
        assert!((pair.standard_error - wanted).abs() < 1e-12);
        // Label 2 is never with another: nothing is said about it.
        let half = 3.0_f64.ln() / 2.0;
        assert_eq!(found.log_weights[2], None);
        assert!((found.log_weights[0].unwrap() - half).abs() < 1e-9);
        assert!((found.log_weights[1].unwrap() + half).abs() < 1e-9);
    }

    #[test]
    fn pairs_join_by_least_squares() {
        let pair = |labels, log_ratio, standard_error| Pair {
            labels,
            log_ratio,
            standard_error,
            items: 100,
        };
        // 0 − 1 = 1, 1 − 2 = 1 and 0 − 2 = 5: residuals of 1 each way, by hand.
        let pairs = [
            pair([0, 1], 1.0, 0.1),
            pair([1, 2], 1.0, 0.1),
            pair([0, 2], 5.0, 0.1),
        ];
        let found: Vec<f64> = join(3, &pairs).into_iter().flatten().collect();
        for (found, wanted) in found.iter().zip([2.0, 0.0, -2.0]) {
            assert!((found - wanted).abs() < 1e-9, "{found} {wanted}");
        }
        assert_eq!(join(2, &[]), [None, None]);
        assert!(estimate(&[0.0; 3], 2, 1.0, &[0]).is_err());
        assert!(estimate(&[], 2, 1.0, &[]).unwrap().pairs.is_empty());
    }

    #[test]
    fn estimates_keep_the_total_of_what_they_replace() {
        let (stated, observed) = ([1.0, 1.0, 5.0], [0.4, 0.4, 0.2]);
        let log = [Some(3.0_f64.ln()), Some(0.0), None];
        let one_of = estimated_weights(&stated, None, &log);
        assert!((one_of[0].unwrap() - 1.5).abs() < 1e-12);
        assert!((one_of[1].unwrap() - 0.5).abs() < 1e-12);
        assert_eq!(one_of[2], None);
        // Shown three times as readily for its prior: its prior is a third.
        let per_class = estimated_weights(&stated, Some(&observed), &log);
        assert!((per_class[0].unwrap() - 0.5).abs() < 1e-12);
    }
}
