//! Temperature by held-out likelihood.
//!
//! One number `T` divides all logits of a head; it is chosen where held-out items are likeliest:
//!
//! ```text
//! class:  NLL(T) = mean over items of −log softmax(logits / T)[observed]
//! real:   NLL(T) = mean over real of softplus(−v/T) + mean over generated of softplus(v/T)
//! ```
//!
//! Both are convex in `b = 1/T`, so Newton's method finds the minimum, with bisection wherever a
//! step leaves the interval that is known to hold it. The second weighs real and generated items
//! equally, however many there are of each, as the odds of `D_v` mean it.
//!
//! Reference: Guo et al., "On Calibration of Modern Neural Networks", 2017.

use crate::error::Error;

/// Least and largest temperature that a fit returns.
pub const LIMITS: [f64; 2] = [0.01, 100.0];

/// Steps after which the search ends at the latest; bisection alone needs about fifty.
const MOST_STEPS: usize = 200;

/// A gain in likelihood that is none.
const NEGLIGIBLE: f64 = 1e-9;

/// A temperature and what it changed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TemperatureFit {
    /// The temperature.
    pub temperature: f64,
    /// Negative log likelihood at temperature 1.
    pub nll_before: f64,
    /// Negative log likelihood at this temperature.
    pub nll_after: f64,
    /// Held-out items behind it.
    pub items: usize,
    /// No temperature within [`LIMITS`] is best: the items separate without error (least
    /// temperature), are guessed worse than by chance (largest), or no temperature changes anything (1).
    pub at_limit: bool,
}

/// The likelihood at one inverse temperature: value, slope and curvature.
#[derive(Debug, Clone, Copy, Default)]
struct Likelihood {
    nll: f64,
    slope: f64,
    curvature: f64,
}

impl Likelihood {
    /// Adds `weight` times the terms of one item.
    fn add(&mut self, weight: f64, nll: f64, slope: f64, curvature: f64) {
        self.nll += weight * nll;
        self.slope += weight * slope;
        self.curvature += weight * curvature;
    }
}

/// The temperature of a head with `classes` outputs; `rows` holds the logits item by item.
pub fn fit_class(rows: &[f32], classes: usize, observed: &[u8]) -> Result<TemperatureFit, Error> {
    let items = observed.len();
    if items == 0 {
        return Err(none_held_out("labelled"));
    }
    if rows.len() != items * classes {
        return Err(not_rows(rows.len(), items, classes));
    }
    all_finite(rows, classes)?;
    if let Some(item) = observed.iter().position(|&c| usize::from(c) >= classes) {
        let class = observed[item];
        return Err(Error::value(format!(
            "item {item} is observed with class {class}, and there are {classes}"
        )));
    }
    Ok(minimise(items, |inverse| {
        let mut sum = Likelihood::default();
        for (row, &class) in rows.chunks_exact(classes).zip(observed) {
            add_class(&mut sum, row, usize::from(class), inverse, items);
        }
        sum
    }))
}

/// The temperature of `D_v`'s logit, from held-out real and generated items.
pub fn fit_real(real: &[f32], generated: &[f32]) -> Result<TemperatureFit, Error> {
    for (what, side) in [("real", real), ("generated", generated)] {
        if side.is_empty() {
            return Err(none_held_out(what));
        }
        all_finite(side, 1)?;
    }
    Ok(minimise(real.len() + generated.len(), |inverse| {
        let mut sum = Likelihood::default();
        for (side, sign) in [(real, 1.0), (generated, -1.0)] {
            for &logit in side {
                // Logit in favour of the truth, and the probability of the wrong answer.
                let right = sign * f64::from(logit);
                let nll = softplus(-inverse * right);
                let wrong = -(-nll).exp_m1();
                let curvature = right * right * wrong * (1.0 - wrong);
                sum.add(1.0 / side.len() as f64, nll, -right * wrong, curvature);
            }
        }
        sum
    }))
}

/// One item of a head with several classes: mean and variance of the logits under the softmax.
fn add_class(sum: &mut Likelihood, row: &[f32], class: usize, inverse: f64, items: usize) {
    let observed = f64::from(row[class]);
    let largest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let (mut total, mut first, mut second) = (0.0, 0.0, 0.0);
    for &logit in row {
        // Relative to the observed logit, so that an item told apart without error gives exact zeros.
        let gap = f64::from(logit) - observed;
        let p = (inverse * (f64::from(logit) - f64::from(largest))).exp();
        total += p;
        first += p * gap;
        second += p * gap * gap;
    }
    let mean = first / total;
    let nll = inverse * (f64::from(largest) - observed) + total.ln();
    let variance = second / total - mean * mean;
    sum.add(1.0 / items as f64, nll, mean, variance.max(0.0));
}

/// `log(1 + e^x)` without overflow.
pub(super) fn softplus(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

pub(crate) fn not_rows(logits: usize, items: usize, classes: usize) -> Error {
    Error::mismatch(format!("{logits} logits are not {items} rows of {classes}"))
}

pub(crate) fn none_held_out(what: &str) -> Error {
    Error::too_few(format!(
        "a temperature needs at least one held-out {what} item"
    ))
}

pub(crate) fn all_finite(logits: &[f32], width: usize) -> Result<(), Error> {
    match logits.iter().position(|l| !l.is_finite()) {
        None => Ok(()),
        Some(at) => Err(Error::value(format!(
            "the logits of item {} hold {}",
            at / width,
            logits[at]
        ))),
    }
}

/// Minimises a convex function of the inverse temperature within [`LIMITS`].
fn minimise(items: usize, likelihood: impl Fn(f64) -> Likelihood) -> TemperatureFit {
    let fit = |inverse: f64, at_limit: bool| TemperatureFit {
        temperature: 1.0 / inverse,
        nll_before: likelihood(1.0).nll,
        nll_after: likelihood(inverse).nll,
        items,
        at_limit,
    };
    let (mut low, mut high) = (1.0 / LIMITS[1], 1.0 / LIMITS[0]);
    let (at_low, at_high) = (likelihood(low).slope, likelihood(high).slope);
    if at_low == 0.0 && at_high == 0.0 {
        return fit(1.0, true);
    }
    for (at, slope) in [(low, at_low), (high, -at_high)] {
        if slope >= 0.0 {
            let found = fit(at, true);
            // Where a temperature changes nothing it stays 1.
            let changes = found.nll_before - found.nll_after > NEGLIGIBLE;
            return if changes { found } else { fit(1.0, true) };
        }
    }
    let mut inverse = 1.0;
    for _ in 0..MOST_STEPS {
        let Likelihood {
            slope, curvature, ..
        } = likelihood(inverse);
        if slope == 0.0 {
            break;
        }
        if slope < 0.0 {
            low = inverse;
        } else {
            high = inverse;
        }
        let newton = inverse - slope / curvature;
        let next = if (low..=high).contains(&newton) {
            newton
        } else {
            f64::midpoint(low, high)
        };
        let step = (next - inverse).abs();
        inverse = next;
        // Newton's error is about the square of its step.
        if step <= 1e-10 * inverse {
            break;
        }
    }
    fit(inverse, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The likelihood of a class head, straight from its definition.
    fn class_nll(rows: &[f32], classes: usize, observed: &[u8], temperature: f64) -> f64 {
        let terms = rows.chunks(classes).zip(observed).map(|(row, &c)| {
            let gap = |l: f32| f64::from(l) - f64::from(row[usize::from(c)]);
            let odds = row.iter().map(|&l| (gap(l) / temperature).exp());
            odds.sum::<f64>().ln()
        });
        terms.sum::<f64>() / observed.len() as f64
    }

    fn real_nll(real: &[f32], generated: &[f32], temperature: f64) -> f64 {
        let term = |v: f64| (1.0 + (-v / temperature).exp()).ln();
        let mean = |terms: Vec<f64>| terms.iter().sum::<f64>() / terms.len() as f64;
        mean(real.iter().map(|&v| term(f64::from(v))).collect())
            + mean(generated.iter().map(|&v| term(-f64::from(v))).collect())
    }

    /// The best of a fine grid of temperatures.
    fn best_on_grid(nll: impl Fn(f64) -> f64) -> f64 {
        (0..=60_000)
            .map(|i| 10.0_f64.powf(f64::from(i) / 15_000.0 - 2.0))
            .min_by(|a, b| nll(*a).total_cmp(&nll(*b)))
            .unwrap()
    }

    #[test]
    fn shares_of_right_and_wrong_give_the_temperature() {
        // One logit gap of 6; three of four items are right, so σ(6/T) = 3/4 and T = 6 / ln 3.
        let rows = [6.0, 0.0, 0.0, 6.0, 6.0, 0.0, 6.0, 0.0];
        let found = fit_class(&rows, 2, &[0, 1, 0, 1]).unwrap();
        assert!((found.temperature - 6.0 / 3.0_f64.ln()).abs() < 1e-9);
        // At the best temperature: the entropy of (3/4, 1/4).
        let entropy = -0.75 * 0.75_f64.ln() - 0.25 * 0.25_f64.ln();
        assert!((found.nll_after - entropy).abs() < 1e-12);
        assert!((found.nll_before - class_nll(&rows, 2, &[0, 1, 0, 1], 1.0)).abs() < 1e-12);
        assert_eq!((found.items, found.at_limit), (4, false));
        // The binary logit: nine of ten right on one side, eight of ten on the other, each a half.
        let real: Vec<f32> = (0..10).map(|i| if i < 9 { 0.5 } else { -0.5 }).collect();
        let generated: Vec<f32> = (0..20).map(|i| if i < 16 { -0.5 } else { 0.5 }).collect();
        let found = fit_real(&real, &generated).unwrap();
        let wanted = 0.5 / (0.85_f64 / 0.15).ln();
        assert!((found.temperature - wanted).abs() < 1e-9, "{found:?}");
        assert_eq!(found.items, 30);
    }

    /// 30 items of three classes, most of them right.
    fn thirty() -> (Vec<f32>, Vec<u8>) {
        let (mut rows, mut observed) = (Vec::new(), Vec::new());
        for i in 0..30_u16 {
            let row = [
                f32::from((7 * i + 3) % 11) / 2.0,
                f32::from((5 * i + 1) % 13) / 2.0,
                f32::from((3 * i + 4) % 9),
            ];
            let largest = row.iter().copied().fold(0.0, f32::max);
            let first = row.iter().position(|&l| l == largest).unwrap() as u8;
            observed.push(if i % 3 == 0 { (i / 3 % 3) as u8 } else { first });
            rows.extend(row);
        }
        (rows, observed)
    }

    fn two_sides() -> (Vec<f32>, Vec<f32>) {
        let real = (0..20_u16).map(|j| f32::from(7 * j % 20) / 4.0 - 1.5);
        let generated = (0..35_u16).map(|k| f32::from(11 * k % 35) / 5.0 - 5.0);
        (real.collect(), generated.collect())
    }

    #[test]
    fn a_grid_search_finds_the_same() {
        let (rows, observed) = thirty();
        // Hot, cold and as they are.
        for scale in [0.05, 1.0, 20.0] {
            let rows: Vec<f32> = rows.iter().map(|l| l * scale).collect();
            let found = fit_class(&rows, 3, &observed).unwrap();
            let grid = best_on_grid(|t| class_nll(&rows, 3, &observed, t));
            assert!(
                (found.temperature / grid - 1.0).abs() < 2e-4,
                "{found:?}, {grid}"
            );
            assert!(found.nll_after <= class_nll(&rows, 3, &observed, grid) + 1e-14);
        }
        let (real, generated) = two_sides();
        let found = fit_real(&real, &generated).unwrap();
        let grid = best_on_grid(|t| real_nll(&real, &generated, t));
        assert!(
            (found.temperature / grid - 1.0).abs() < 2e-4,
            "{found:?}, {grid}"
        );
    }

    // scipy 1.17.1, scikit-learn 1.9.1, numpy 2.4.6:
    //   i = np.arange(30)
    //   L = np.stack([((7*i+3) % 11)/2, ((5*i+1) % 13)/2, ((3*i+4) % 9)/1], 1)
    //   y = np.where(i % 3 == 0, i // 3 % 3, L.argmax(1))
    //   nll = lambda b: np.mean(logsumexp(b*L, axis=1) - b*L[i, y])
    //   r = minimize_scalar(nll, bounds=(0.01, 100), method="bounded", options={"xatol": 1e-12})
    //   print(1/r.x, nll(1), r.fun)
    //   j = np.arange(20); real = ((7*j) % 20)/4 - 1.5
    //   k = np.arange(35); gen = ((11*k) % 35)/5 - 5
    //   v, t = np.r_[real, gen], np.r_[np.ones(20), np.zeros(35)]
    //   w = np.r_[np.ones(20)/20, np.ones(35)/35]
    //   m = LogisticRegression(C=np.inf, fit_intercept=False, tol=1e-14, solver="newton-cholesky",
    //                          max_iter=1000).fit(v[:, None], t, sample_weight=w)
    //   print(1/m.coef_[0, 0])
    #[test]
    fn scipy_and_scikit_learn_agree() {
        let (rows, observed) = thirty();
        let found = fit_class(&rows, 3, &observed).unwrap();
        assert!(
            (found.temperature - 1.517_808_088_9).abs() < 1e-6,
            "{found:?}"
        );
        assert!((found.nll_before - 0.774_149_765_166_765).abs() < 1e-12);
        assert!((found.nll_after - 0.727_391_939_371_372_4).abs() < 1e-12);
        let (real, generated) = two_sides();
        let found = fit_real(&real, &generated).unwrap();
        assert!(
            (found.temperature - 1.306_260_665_358).abs() < 1e-6,
            "{found:?}"
        );
        assert!((found.nll_before - 1.019_404_108_514_755_2).abs() < 1e-7);
        assert!((found.nll_after - 1.000_984_712_047_439_8).abs() < 1e-7);
    }

    #[test]
    fn a_fit_at_the_border_says_so() {
        // Separated without error; nothing is gained where every wrong probability is below the smallest double.
        for (gap, wanted) in [(1.0, LIMITS[0]), (1e4, 1.0)] {
            let separated = fit_class(&[gap, 0.0, 0.0, gap], 2, &[0, 1]).unwrap();
            assert!(separated.at_limit && (separated.temperature - wanted).abs() < 1e-12);
            let separated = fit_real(&[gap], &[-gap]).unwrap();
            assert!(separated.at_limit && (separated.temperature - wanted).abs() < 1e-12);
        }
        let wrong = fit_real(&[-1.0, -2.0], &[3.0]).unwrap();
        assert!(wrong.at_limit && (wrong.temperature - LIMITS[1]).abs() < 1e-9);
        let silent = fit_class(&[2.0; 6], 3, &[0, 1]).unwrap();
        assert!(silent.at_limit);
        assert_eq!(silent.temperature, 1.0);
        assert!((silent.nll_after - 3.0_f64.ln()).abs() < 1e-12);
    }

    #[test]
    fn bad_input_is_named() {
        let class = |rows: &[f32], classes, observed: &[u8]| {
            fit_class(rows, classes, observed).unwrap_err().to_string()
        };
        assert_eq!(
            class(&[], 2, &[]),
            "a temperature needs at least one held-out labelled item"
        );
        assert_eq!(class(&[0.0; 5], 2, &[0, 1]), "5 logits are not 2 rows of 2");
        assert_eq!(
            class(&[0.0, 1.0, f32::NAN, 0.0], 2, &[0, 1]),
            "the logits of item 1 hold NaN"
        );
        assert_eq!(
            class(&[0.0; 4], 2, &[0, 2]),
            "item 1 is observed with class 2, and there are 2"
        );
        assert!(fit_class(&[], 0, &[0]).is_err());
        assert_eq!(
            fit_real(&[1.0], &[]).unwrap_err().to_string(),
            "a temperature needs at least one held-out generated item"
        );
        assert_eq!(
            fit_real(&[1.0, f32::INFINITY], &[0.0])
                .unwrap_err()
                .to_string(),
            "the logits of item 1 hold inf"
        );
    }
}
