//! How the logit of `D_v` becomes log odds: three corrections, and the choice among them.
//!
//! ```text
//! temperature   v / T
//! Platt         a v + b
//! isotonic      a rising curve through the shares of real items
//! ```
//!
//! Each is fitted by likelihood, real and generated items counting alike. Which one is used is decided
//! on items that it was not fitted to: the simplest whose loss is within one standard error of the
//! best one's.
//!
//! Reference: Platt, "Probabilistic Outputs for Support Vector Machines", 1999; Zadrozny and Elkan,
//! "Transforming Classifier Scores into Accurate Multiclass Probability Estimates", 2002.

use super::isotonic::{Curve, Observation};
use super::temperature::{fit_real, softplus};

use crate::error::Error;

/// From a logit of `D_v` to log odds of real against generated, before they are clipped and capped.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Correction {
    /// The logit itself; a temperature does the rest.
    #[default]
    None,
    /// `slope · v + shift`.
    Platt {
        /// Above zero.
        slope: f64,
        /// Log odds at a logit of zero.
        shift: f64,
    },
    /// A rising curve from logits to log odds.
    Isotonic(Curve),
}

impl Correction {
    /// Its name, as reports write it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::None => "temperature",
            Self::Platt { .. } => "platt",
            Self::Isotonic(_) => "isotonic",
        }
    }

    /// Corrected log odds.
    pub fn log_odds(&self, logit: f64) -> f64 {
        match self {
            Self::None => logit,
            Self::Platt { slope, shift } => slope * logit + shift,
            Self::Isotonic(curve) => curve.at(logit),
        }
    }
}

/// A correction, with the temperature that goes with it.
#[derive(Debug, Clone, PartialEq)]
pub struct Corrected {
    /// The correction.
    pub correction: Correction,
    /// Divides the corrected log odds; 1 for all but [`Correction::None`].
    pub temperature: f64,
}

impl Corrected {
    fn log_odds(&self, logit: f32) -> f64 {
        self.correction.log_odds(f64::from(logit)) / self.temperature
    }
}

/// One correction as it did on items that it was not fitted to.
#[derive(Debug, Clone, PartialEq)]
pub struct Tried {
    /// Its name.
    pub name: &'static str,
    /// Mean loss of a real and of a generated item, together.
    pub loss: f64,
    /// How much more than the least loss of all, and the standard error of that.
    pub excess: [f64; 2],
}

/// The correction chosen, fitted to all items, and how each did.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// The one to use.
    pub chosen: Corrected,
    /// All of them, the simplest first.
    pub tried: Vec<Tried>,
    /// Log odds of real and of generated items, each by the chosen kind fitted without its part; in no
    /// order of meaning.
    pub held_out: [Vec<f64>; 2],
}

/// Parts that items are dealt into; each is judged by what was fitted to the others.
const FOLDS: usize = 5;

/// Chooses a correction from logits of held-out real and generated items.
///
/// A real item that is there several times has the same number in `items` each time, and is dealt as one.
pub fn choose(real: &[f32], items: &[u32], generated: &[f32], clip: f64) -> Result<Choice, Error> {
    let by_item = Order::of(items);
    let fits: [Fit; 3] = [by_temperature, by_platt, by_isotonic];
    let mut log_odds: [[Vec<f64>; 2]; 3] = Default::default();
    for fold in 0..FOLDS {
        let sides = [
            deal(real, |at| by_item.fold(items[at]) == fold),
            deal(generated, |at| at % FOLDS == fold),
        ];
        let (train, test): (Vec<_>, Vec<_>) = sides.into_iter().unzip();
        for (fit, log_odds) in fits.iter().zip(&mut log_odds) {
            // A side with fewer items than folds is too small to choose by.
            if test.iter().any(Vec::is_empty) || train.iter().any(Vec::is_empty) {
                continue;
            }
            let fitted = fit(&train[0], &train[1], clip)?;
            for (side, log_odds) in test.iter().zip(log_odds) {
                log_odds.extend(side.iter().map(|v| bounded(fitted.log_odds(*v), clip)));
            }
        }
    }
    let tried = compare(&log_odds);
    let within = |tried: &Tried| tried.excess[0] <= tried.excess[1];
    let at = tried.iter().position(within).unwrap_or(0);
    Ok(Choice {
        chosen: fits[at](real, generated, clip)?,
        tried,
        held_out: log_odds[at].clone(),
    })
}

type Fit = fn(&[f32], &[f32], f64) -> Result<Corrected, Error>;

/// Distinct numbers of items, in order.
struct Order(Vec<u32>);

impl Order {
    fn of(items: &[u32]) -> Self {
        let mut distinct = items.to_vec();
        distinct.sort_unstable();
        distinct.dedup();
        Self(distinct)
    }

    fn fold(&self, item: u32) -> usize {
        self.0.partition_point(|&other| other < item) % FOLDS
    }
}

/// The items that are not in a fold, and those that are.
fn deal(side: &[f32], is_in: impl Fn(usize) -> bool) -> (Vec<f32>, Vec<f32>) {
    let mut parts = (Vec::new(), Vec::new());
    for (at, &logit) in side.iter().enumerate() {
        if is_in(at) {
            parts.1.push(logit);
        } else {
            parts.0.push(logit);
        }
    }
    parts
}

fn bounded(log_odds: f64, clip: f64) -> f64 {
    log_odds.clamp(-clip.ln(), clip.ln())
}

const NAMES: [&str; 3] = ["temperature", "platt", "isotonic"];

/// Mean losses, and their excess over the least with its standard error from paired differences.
fn compare(log_odds: &[[Vec<f64>; 2]; 3]) -> Vec<Tried> {
    let losses = |of: usize, side: usize| -> Vec<f64> {
        let sign = [1.0, -1.0][side];
        let loss = |log_odds: &f64| softplus(-sign * log_odds);
        log_odds[of][side].iter().map(loss).collect()
    };
    let total = |of: usize| (0..2).map(|side| moments(&losses(of, side))[0]).sum();
    let totals: [f64; 3] = [0, 1, 2].map(total);
    let best = (0..3)
        .min_by(|&a, &b| totals[a].total_cmp(&totals[b]))
        .unwrap_or(0);
    let tried = |of: usize| {
        let squared: f64 = (0..2)
            .map(|side| {
                let pairs = losses(of, side).into_iter().zip(losses(best, side));
                let differences: Vec<f64> = pairs.map(|(a, b)| a - b).collect();
                moments(&differences)[1] / differences.len().max(1) as f64
            })
            .sum();
        Tried {
            name: NAMES[of],
            loss: totals[of],
            excess: [totals[of] - totals[best], squared.sqrt()],
        }
    };
    (0..3).map(tried).collect()
}

/// Mean and variance; zeros of nothing.
fn moments(values: &[f64]) -> [f64; 2] {
    let n = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
    [mean, variance]
}

fn by_temperature(real: &[f32], generated: &[f32], _clip: f64) -> Result<Corrected, Error> {
    Ok(Corrected {
        correction: Correction::None,
        temperature: fit_real(real, generated)?.temperature,
    })
}

/// Steps of Newton's method that always suffice.
const MOST_STEPS: usize = 100;

/// Slopes that are kept: those of the temperatures.
const SLOPES: [f64; 2] = [1e-4, 1e4];

fn by_platt(real: &[f32], generated: &[f32], _clip: f64) -> Result<Corrected, Error> {
    let mut slope = 1.0 / fit_real(real, generated)?.temperature;
    let mut shift = 0.0;
    let mut last = platt_loss(real, generated, slope, shift);
    for _ in 0..MOST_STEPS {
        let ([by_slope, by_shift], [ss, sb, bb]) = platt_slopes(real, generated, slope, shift);
        let determinant = ss * bb - sb * sb;
        if determinant.is_nan() || determinant <= 0.0 {
            break;
        }
        let step = [
            (bb * by_slope - sb * by_shift) / determinant,
            (ss * by_shift - sb * by_slope) / determinant,
        ];
        // The loss is convex: a step that is halved often enough goes down.
        let mut share = 1.0;
        let next = loop {
            let at = [slope - share * step[0], shift - share * step[1]];
            let loss = platt_loss(real, generated, at[0], at[1]);
            if loss <= last || share < 1e-9 {
                break (at, loss);
            }
            share /= 2.0;
        };
        let gain = last - next.1;
        ([slope, shift], last) = next;
        if gain.is_nan() || gain <= 1e-14 {
            break;
        }
    }
    // A slope that is not above zero would turn the ranking around: then nothing is known, and both
    // sides count alike.
    if slope < SLOPES[0] {
        (slope, shift) = (SLOPES[0], 0.0);
    }
    Ok(Corrected {
        correction: Correction::Platt {
            slope: slope.min(SLOPES[1]),
            shift,
        },
        temperature: 1.0,
    })
}

/// Mean loss over both sides at `slope · v + shift`.
fn platt_loss(real: &[f32], generated: &[f32], slope: f64, shift: f64) -> f64 {
    let side = |side: &[f32], sign: f64| {
        let loss = |v: &f32| softplus(-sign * (slope * f64::from(*v) + shift));
        side.iter().map(loss).sum::<f64>() / side.len() as f64
    };
    side(real, 1.0) + side(generated, -1.0)
}

/// Gradient and curvature (slope twice, slope and shift, shift twice) of [`platt_loss`].
fn platt_slopes(real: &[f32], generated: &[f32], slope: f64, shift: f64) -> ([f64; 2], [f64; 3]) {
    let (mut gradient, mut curvature) = ([0.0; 2], [0.0; 3]);
    for (side, is_real) in [(real, 1.0), (generated, 0.0)] {
        let weight = 1.0 / side.len() as f64;
        for &v in side {
            let v = f64::from(v);
            let p = 1.0 / (1.0 + (-(slope * v + shift)).exp());
            let (error, spread) = (weight * (p - is_real), weight * p * (1.0 - p));
            for (sum, value) in gradient.iter_mut().zip([error * v, error]) {
                *sum += value;
            }
            for (sum, value) in curvature
                .iter_mut()
                .zip([spread * v * v, spread * v, spread])
            {
                *sum += value;
            }
        }
    }
    (gradient, curvature)
}

fn by_isotonic(real: &[f32], generated: &[f32], clip: f64) -> Result<Corrected, Error> {
    // The check of the logits is the temperature's.
    fit_real(real, generated)?;
    let mut seen = Vec::with_capacity(real.len() + generated.len());
    for (side, value) in [(real, 1.0), (generated, 0.0)] {
        let weight = 1.0 / side.len() as f64;
        seen.extend(side.iter().map(|&v| Observation {
            at: f64::from(v),
            value,
            weight,
        }));
    }
    let log_odds = |share: f64| bounded(share.ln() - (-share).ln_1p(), clip);
    let curve = Curve::fit(&seen).and_then(|curve| curve.map(log_odds));
    let correction = curve.map_or(Correction::None, Correction::Isotonic);
    Ok(Corrected {
        correction,
        temperature: 1.0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Logits on a lattice, so that the share of real items at each logit is what `odds` says.
    fn lattice(log_odds: impl Fn(f64) -> f64, each: usize) -> [Vec<f32>; 2] {
        let (mut real, mut generated) = (Vec::new(), Vec::new());
        for step in -12..=12 {
            let v = f64::from(step) / 4.0;
            let p = 1.0 / (1.0 + (-log_odds(v)).exp());
            let count = (p * each as f64).round() as usize;
            real.extend(vec![v as f32; count]);
            generated.extend(vec![v as f32; each - count]);
        }
        // Dealt evenly: neighbours in a fold must not be neighbours on the lattice.
        let mix = |mut side: Vec<f32>| {
            let n = side.len();
            let mut out = Vec::with_capacity(n);
            for start in 0..7 {
                out.extend(side.iter().skip(start).step_by(7).copied());
            }
            side.clear();
            out
        };
        [mix(real), mix(generated)]
    }

    // scikit-learn 1.9.1: LogisticRegression(C=np.inf, tol=1e-14, solver="newton-cholesky",
    //   max_iter=1000).fit(v[:, None], t, sample_weight=w) on
    //   j = np.arange(20); real = ((7*j) % 20)/4 - 1.5
    //   k = np.arange(35); gen = ((11*k) % 35)/5 - 5, each side of weight 1 in all.
    #[test]
    fn platt_is_logistic_regression_with_a_shift() {
        let real: Vec<f32> = (0..20_u16)
            .map(|j| f32::from(7 * j % 20) / 4.0 - 1.5)
            .collect();
        let generated: Vec<f32> = (0..35_u16)
            .map(|k| f32::from(11 * k % 35) / 5.0 - 5.0)
            .collect();
        let Correction::Platt { slope, shift } =
            by_platt(&real, &generated, 100.0).unwrap().correction
        else {
            panic!("Platt was asked for");
        };
        // At the best, both residuals vanish: the mean of p and of p·v are those of the truth.
        let (gradient, _) = platt_slopes(&real, &generated, slope, shift);
        assert!(gradient.iter().all(|g| g.abs() < 1e-9), "{gradient:?}");
        assert!(
            (slope - PEER[0]).abs() < 1e-6 && (shift - PEER[1]).abs() < 1e-6,
            "{slope} {shift}"
        );
    }

    const PEER: [f64; 2] = [0.771_207_985_254_915_2, 0.197_703_480_446_782_26];

    #[test]
    fn the_simplest_that_fits_is_chosen() {
        let named = |log_odds: fn(f64) -> f64| {
            let [real, generated] = lattice(log_odds, 4000);
            let items: Vec<u32> = (0..real.len() as u32).collect();
            choose(&real, &items, &generated, 1000.0).unwrap().chosen
        };
        let plain = named(|v| v / 2.0);
        assert_eq!(plain.correction, Correction::None);
        assert!((plain.temperature - 2.0).abs() < 0.02, "{plain:?}");
        let Correction::Platt { slope, shift } = named(|v| 0.8 * v + 0.7).correction else {
            panic!("a shift asks for Platt");
        };
        // Sides count alike, so the shift loses the log of their sizes.
        assert!((slope - 0.8).abs() < 0.02, "{slope} {shift}");
        let stepped = named(|v| if v < 0.0 { -2.0 } else { 2.0 });
        assert_eq!(stepped.correction.name(), "isotonic");
        assert!((stepped.log_odds(2.5) - 2.0).abs() < 0.1);
        assert!((stepped.log_odds(-3.0) + 2.0).abs() < 0.1);
    }

    #[test]
    fn a_few_items_get_a_temperature() {
        let chosen = choose(&[1.0, 2.0, -0.5], &[0, 1, 2], &[0.0, -1.0], 4.0);
        assert_eq!(chosen.unwrap().chosen.correction, Correction::None);
        assert!(choose(&[], &[], &[1.0], 4.0).is_err());
        assert!(choose(&[f32::NAN; 9], &[0; 9], &[1.0; 9], 4.0).is_err());
    }

    /// An item that is there twice is in one fold, or a curve would be judged on what it was fitted to.
    #[test]
    fn an_item_is_dealt_as_one() {
        let items = [7, 7, 3, 9, 9, 1, 5, 5];
        let order = Order::of(&items);
        // In order the items are 1, 3, 5, 7, 9.
        assert_eq!(items.map(|item| order.fold(item)), [3, 3, 1, 4, 4, 0, 2, 2]);
    }

    #[test]
    fn separated_items_stay_within_the_clip() {
        let fitted = by_isotonic(&[1.0; 10], &[-1.0; 10], 11.0).unwrap();
        assert!((fitted.log_odds(5.0) - 11.0_f64.ln()).abs() < 1e-12);
        assert!((fitted.log_odds(-5.0) + 11.0_f64.ln()).abs() < 1e-12);
    }
}
