//! Expectation–maximisation: the mixture under which weighted points are likeliest.
//!
//! Points are blurred by normal noise of a small variance `ρ`, so that no component can shrink to a
//! point. What climbs is the weighted mean over points of
//!
//! ```text
//! log Σ_k π_k exp(E_e log N(x + e | μ_k, Σ_k)),   e ~ N(0, ρI)
//!   = log Σ_k π_k N(x | μ_k, Σ_k) exp(−½ ρ tr Σ_k⁻¹)
//! ```
//!
//! whose maximising step adds exactly `ρ` to the diagonal of each covariance. Every step raises it, or
//! leaves it, up to rounding. scikit-learn adds the same `reg_covar` but leaves `exp(−½ ρ tr Σ⁻¹)` out
//! of its expectations, so that its likelihood can fall; the two agree as far as `ρ` is small, and
//! wholly with shared covariance.
//!
//! A component that too little is left for is dropped. Results do not depend on the number of threads.
//!
//! References: Dempster, Laird and Rubin, "Maximum Likelihood from Incomplete Data via the EM
//! Algorithm", 1977; Arthur and Vassilvitskii, "k-means++: The Advantages of Careful Seeding", 2007.

use std::borrow::Cow;
use std::num::NonZeroUsize;
use std::ops::Range;

use super::triangle::{Scatter, Symmetric};
use super::wide::wide;
use super::{Covariance, Factors, Mixture, PANEL, parallel, start};
use crate::error::Error;
use crate::proposals::Proposals;

/// A component is dropped below this share of what it would have if all had the same.
pub const LEAST_SHARE: f64 = 0.01;

/// A component is dropped where fewer points than this are left for it: they have no covariance.
pub const LEAST_POINTS: f64 = 2.0;

/// A component whose density is this far (in log) below the largest one gets nothing of a point: its
/// share of below 1e-26 would not change any sum.
const NEGLIGIBLE: f64 = -60.0;

/// Points that are fetched from memory together.
const FETCHED: usize = 32;

/// What is fitted, and for how long.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// Number of components to start with.
    pub components: NonZeroUsize,
    /// What their covariances have in common.
    pub covariance: Covariance,
    /// What is added to every variance, as a share of the mean variance of the points.
    pub regularisation: f64,
    /// Steps after which the fit ends at the latest.
    pub most_steps: usize,
    /// The fit ends at a step that changes the mean log likelihood by less.
    pub tolerance: f64,
}

impl Default for Settings {
    /// One component with a full covariance. The rest as in scikit-learn, with a finer tolerance.
    fn default() -> Self {
        Self {
            components: NonZeroUsize::MIN,
            covariance: Covariance::Full,
            regularisation: 1e-6,
            most_steps: 100,
            tolerance: 1e-4,
        }
    }
}

/// A fitted mixture and how it came about.
#[derive(Debug, Clone, PartialEq)]
pub struct Fit {
    /// The mixture; the prior has no share of it yet.
    pub mixture: Mixture,
    /// Weighted mean log density of the points.
    pub log_likelihood: f64,
    /// What climbed, at the start and after each step.
    pub path: Vec<f64>,
    /// Number of steps.
    pub steps: usize,
    /// The last step changed less than the tolerance.
    pub converged: bool,
    /// Components that were asked for and dropped, or never found a point.
    pub dropped: usize,
    /// Effective number of points behind it: `(Σw)² / Σw²`.
    pub effective_points: f64,
}

/// Fits a mixture to points, from a k-means++ start that `proposals` (seed and stage) decides.
///
/// Weights come as logarithms, up to a constant; `-∞` is a point that does not count. The size of a
/// point follows from their number. However few points the weights leave, something is fitted: look at
/// [`Fit::effective_points`].
pub fn fit(
    points: &[f32],
    log_weights: &[f64],
    settings: &Settings,
    proposals: Proposals,
) -> Result<Fit, Error> {
    settings.check()?;
    let data = Data::new(points, log_weights)?;
    let start = start::start(&data, settings, proposals)?;
    climb(start, &data, settings)
}

/// Fits a mixture to points, from a given start; see [`fit`]. Its own number of components counts, and
/// its share of the prior is left out.
pub fn fit_from(
    start: Mixture,
    points: &[f32],
    log_weights: &[f64],
    settings: &Settings,
) -> Result<Fit, Error> {
    settings.check()?;
    let data = Data::new(points, log_weights)?;
    let mismatch = |start: String, wanted: String| {
        Err(Error::mismatch(format!(
            "the start has {start} and the fit wants {wanted}"
        )))
    };
    if start.size() != data.size {
        let dimensions = |n: usize| format!("{n} dimensions");
        return mismatch(dimensions(start.size()), dimensions(data.size));
    }
    if start.covariance() != settings.covariance {
        let kind = |c: Covariance| format!("{c:?} covariance").to_lowercase();
        return mismatch(kind(start.covariance()), kind(settings.covariance));
    }
    let settings = Settings {
        components: NonZeroUsize::new(start.components()).unwrap_or(NonZeroUsize::MIN),
        ..*settings
    };
    climb(start.with_prior_share(0.0)?, &data, &settings)
}

pub(super) fn no_weight() -> Error {
    Error::too_few("no point has a weight above zero")
}

/// Whether points and weights could be fitted at all.
pub(super) fn check(points: &[f32], log_weights: &[f64]) -> Result<(), Error> {
    Data::new(points, log_weights).map(|_| ())
}

impl Settings {
    fn check(&self) -> Result<(), Error> {
        for (what, value) in [
            ("the regularisation", self.regularisation),
            ("the tolerance", self.tolerance),
        ] {
            if !(value >= 0.0 && value.is_finite()) {
                return Err(Error::value(format!(
                    "{what} is {value}, which is not a number from 0 up"
                )));
            }
        }
        Ok(())
    }
}

/// Checked points with weights that sum to 1; points without weight are left out.
pub(super) struct Data<'a> {
    pub(super) size: usize,
    pub(super) points: Cow<'a, [f32]>,
    pub(super) weights: Vec<f64>,
    /// Weighted mean of the points.
    mean: Vec<f64>,
    /// Their variance, averaged over dimensions.
    variance: f64,
    effective_points: f64,
}

impl<'a> Data<'a> {
    fn new(points: &'a [f32], log_weights: &[f64]) -> Result<Self, Error> {
        let count = log_weights.len();
        let size = points.len() / count.max(1);
        if size == 0 || points.len() != size * count {
            let numbers = points.len();
            return Err(Error::mismatch(format!(
                "{numbers} numbers are not {count} points of the same size"
            )));
        }
        if let Some(at) = points.iter().position(|v| !v.is_finite()) {
            let (point, value) = (at / size, points[at]);
            return Err(Error::value(format!("point {point} holds {value}")));
        }
        let bad = |w: &f64| w.is_nan() || *w == f64::INFINITY;
        if let Some(point) = log_weights.iter().position(bad) {
            let value = log_weights[point];
            return Err(Error::value(format!(
                "the log weight of point {point} is {value}"
            )));
        }
        let largest = log_weights
            .iter()
            .copied()
            .fold(f64::NEG_INFINITY, f64::max);
        if largest == f64::NEG_INFINITY {
            return Err(no_weight());
        }
        let all: Vec<f64> = log_weights.iter().map(|w| (w - largest).exp()).collect();
        let sum: f64 = all.iter().sum();
        let squares: f64 = all.iter().map(|w| w * w).sum();
        let points = if all.contains(&0.0) {
            let kept = points.chunks(size).zip(&all).filter(|(_, w)| **w > 0.0);
            Cow::Owned(kept.flat_map(|(point, _)| point).copied().collect())
        } else {
            Cow::Borrowed(points)
        };
        let weights = all.iter().filter(|w| **w > 0.0).map(|w| w / sum).collect();
        let mut data = Self {
            size,
            points,
            weights,
            mean: Vec::new(),
            variance: 0.0,
            effective_points: sum * sum / squares,
        };
        let all = [data.all()];
        let moments = data.moments(&all, &data.first_points(&all));
        data.variance = moments.variances.iter().sum::<f64>() / size as f64;
        data.mean = moments.means;
        if data.variance == 0.0 {
            return Err(Error::too_few("all points of any weight are the same"));
        }
        Ok(data)
    }

    /// Every point with its weight.
    fn all(&self) -> Vec<(usize, f64)> {
        self.weights.iter().copied().enumerate().collect()
    }

    /// The first point of each component.
    pub(super) fn first_points(&self, shares: &[Vec<(usize, f64)>]) -> Vec<f64> {
        let first = |own: &Vec<(usize, f64)>| &self.points[own[0].0 * self.size..][..self.size];
        shares
            .iter()
            .flat_map(first)
            .copied()
            .map(f64::from)
            .collect()
    }

    /// Means and variances of each component's points, dimension by dimension. They are summed as
    /// distances from `centres`: any will do, and the nearer they are to the means the less is rounded.
    pub(super) fn moments(&self, shares: &[Vec<(usize, f64)>], centres: &[f64]) -> Moments {
        let weights: Vec<f64> = shares.iter().map(|own| total(own)).collect();
        let width = self.size.div_ceil(parallel::threads());
        let ranges = (0..self.size).step_by(width);
        let ranges: Vec<Range<usize>> = ranges.map(|a| a..self.size.min(a + width)).collect();
        let parts = parallel::each(ranges.clone(), |range| self.sums(shares, centres, &range));
        let mut means = centres.to_vec();
        let mut variances = vec![0.0; centres.len()];
        for (range, part) in ranges.iter().zip(parts) {
            for (k, ([first, second], weight)) in part.iter().zip(&weights).enumerate() {
                let place = k * self.size + range.start..k * self.size + range.end;
                let (means, variances) = (&mut means[place.clone()], &mut variances[place]);
                for (mean, sum) in means.iter_mut().zip(first) {
                    *mean += sum / weight;
                }
                for ((variance, first), second) in variances.iter_mut().zip(first).zip(second) {
                    *variance = (second / weight - (first / weight).powi(2)).max(0.0);
                }
            }
        }
        Moments {
            weights,
            means,
            variances,
        }
    }

    /// `Σ share·(x − centre)` and `Σ share·(x − centre)²` over each component's points, in some
    /// dimensions.
    fn sums(
        &self,
        shares: &[Vec<(usize, f64)>],
        centres: &[f64],
        range: &Range<usize>,
    ) -> Vec<[Vec<f64>; 2]> {
        let data = self;
        wide!(plain_sums(data: &Data<'_>, shares: &[Vec<(usize, f64)>], centres: &[f64], range: &Range<usize>) -> Vec<[Vec<f64>; 2]>)
    }

    /// `Σ share·(x − mean)(x − mean)ᵀ` of each component's points.
    fn scatters(&self, shares: &[Vec<(usize, f64)>], means: &[f64]) -> Vec<Symmetric> {
        let mut matrices = vec![Symmetric::zeros(self.size); shares.len()];
        let centres = means.chunks(self.size);
        let mut work = Vec::new();
        for ((matrix, shares), centre) in matrices.iter_mut().zip(shares).zip(centres) {
            let scatter = Scatter {
                points: &self.points,
                shares,
                centre,
            };
            let pieces = matrix.pieces(parallel::threads());
            work.extend(
                pieces
                    .into_iter()
                    .enumerate()
                    .map(|(p, piece)| (p, scatter, piece)),
            );
        }
        // Each thread gets the same piece of every matrix.
        work.sort_by_key(|(piece, ..)| *piece);
        parallel::each(work, |(_, scatter, (rows, columns))| {
            scatter.add_to(rows, columns);
        });
        matrices
    }
}

#[inline(always)]
#[expect(clippy::inline_always, reason = "compiled for each width of vectors")]
fn plain_sums(
    data: &Data<'_>,
    shares: &[Vec<(usize, f64)>],
    centres: &[f64],
    range: &Range<usize>,
) -> Vec<[Vec<f64>; 2]> {
    let mut sums = vec![[vec![0.0; range.len()], vec![0.0; range.len()]]; shares.len()];
    let mut left: Vec<&[(usize, f64)]> = shares.iter().map(Vec::as_slice).collect();
    // All components of some points, then of the next ones: points are then fetched only once.
    for end in (FETCHED..data.weights.len() + FETCHED).step_by(FETCHED) {
        let components = left.iter_mut().zip(centres.chunks(data.size));
        for ((left, centre), sums) in components.zip(&mut sums) {
            let within = left[..FETCHED.min(left.len())].partition_point(|own| own.0 < end);
            let (own, others) = left.split_at(within);
            *left = others;
            for four in own.chunks(4) {
                let point = |i: usize| {
                    // What is missing to four counts for nothing.
                    let (item, share) = four.get(i).copied().unwrap_or((four[0].0, 0.0));
                    (&data.points[item * data.size..][range.clone()], share)
                };
                let four = [point(0), point(1), point(2), point(3)];
                add(sums, &centre[range.clone()], four);
            }
        }
    }
    sums
}

/// Adds what four points bring. One at a time, sums would be read and written four times as often.
#[inline(always)]
#[expect(clippy::inline_always, reason = "compiled for each width of vectors")]
fn add(
    [first, second]: &mut [Vec<f64>; 2],
    centre: &[f64],
    [(a, p), (b, q), (c, r), (d, s)]: [(&[f32], f64); 4],
) {
    let n = centre.len();
    // All of one length, so that nothing is checked within.
    let (first, second) = (&mut first[..n], &mut second[..n]);
    let (a, b, c, d) = (&a[..n], &b[..n], &c[..n], &d[..n]);
    for j in 0..n {
        let distance = |x: f32| f64::from(x) - centre[j];
        let (a, b, c, d) = (
            distance(a[j]),
            distance(b[j]),
            distance(c[j]),
            distance(d[j]),
        );
        let (ap, bq, cr, ds) = (p * a, q * b, r * c, s * d);
        first[j] = first[j] + ap + bq + cr + ds;
        second[j] = second[j] + ap * a + bq * b + cr * c + ds * d;
    }
}

/// The sum of all shares: in four parts, since each has to wait for itself.
fn total(shares: &[(usize, f64)]) -> f64 {
    let (fours, rest) = shares.as_chunks::<4>();
    let mut sums = [0.0; 4];
    for four in fours {
        for (sum, own) in sums.iter_mut().zip(four) {
            *sum += own.1;
        }
    }
    sums.iter().sum::<f64>() + rest.iter().map(|own| own.1).sum::<f64>()
}

/// Weights, means and variances of components.
pub(super) struct Moments {
    pub(super) weights: Vec<f64>,
    pub(super) means: Vec<f64>,
    pub(super) variances: Vec<f64>,
}

/// What the points expect: each component's share of each point, and what climbs.
struct Expected {
    /// The points of each component, with its share times the point's weight.
    shares: Vec<Vec<(usize, f64)>>,
    objective: f64,
}

/// One fit in progress.
struct Climb<'a> {
    data: &'a Data<'a>,
    covariance: Covariance,
    /// The variance `ρ` of the noise.
    noise: f64,
    /// Scatter of all points about their mean; empty unless covariance is shared.
    total: Vec<Symmetric>,
}

fn climb(start: Mixture, data: &Data<'_>, settings: &Settings) -> Result<Fit, Error> {
    let climb = Climb::new(data, settings);
    let (mut mixture, mut expected) = climb.expect_without_the_empty(start);
    let mut path = vec![expected.objective];
    let mut converged = false;
    while path.len() <= settings.most_steps && !converged {
        let components = mixture.components();
        mixture = climb.maximise(&mixture, &expected.shares)?;
        let before = expected.objective;
        (mixture, expected) = climb.expect_without_the_empty(mixture);
        path.push(expected.objective);
        converged = mixture.components() == components
            && (expected.objective - before).abs() < settings.tolerance;
    }
    let mut logs = vec![0.0; data.weights.len()];
    mixture.log_densities(&data.points, &mut logs);
    Ok(Fit {
        log_likelihood: logs.iter().zip(&data.weights).map(|(l, w)| l * w).sum(),
        steps: path.len() - 1,
        path,
        converged,
        dropped: settings.components.get() - mixture.components(),
        effective_points: data.effective_points,
        mixture,
    })
}

impl<'a> Climb<'a> {
    fn new(data: &'a Data<'a>, settings: &Settings) -> Self {
        let total = match settings.covariance {
            Covariance::Shared => data.scatters(&[data.all()], &data.mean),
            Covariance::Diagonal | Covariance::Full => Vec::new(),
        };
        Self {
            data,
            covariance: settings.covariance,
            noise: settings.regularisation * data.variance,
            total,
        }
    }

    /// The shares of every component, with those dropped that too little is left for.
    fn expect_without_the_empty(&self, mut mixture: Mixture) -> (Mixture, Expected) {
        loop {
            let expected = self.expect(&mixture);
            let weights = expected.shares.iter().map(|own| total(own));
            let smallest = weights.enumerate().min_by(|a, b| a.1.total_cmp(&b.1));
            let least = (LEAST_SHARE / mixture.components() as f64)
                .max(LEAST_POINTS / self.data.effective_points);
            match smallest {
                Some((component, weight)) if weight < least && mixture.components() > 1 => {
                    mixture = mixture.without(component);
                }
                _ => return (mixture, expected),
            }
        }
    }

    fn expect(&self, mixture: &Mixture) -> Expected {
        let components = mixture.components();
        let terms = self.log_terms(mixture);
        let panels = self.data.points.chunks(PANEL * self.data.size);
        let panels = panels.zip(self.data.weights.chunks(PANEL)).enumerate();
        let parts = parallel::each(panels.collect(), |(panel, (points, weights))| {
            let logs = mixture.component_logs(points);
            let mut shares = Vec::new();
            shares.resize_with(components, || Vec::with_capacity(weights.len()));
            let mut objective = 0.0;
            let mut own = vec![0.0; components];
            for (i, weight) in weights.iter().enumerate() {
                for ((own, log), term) in own.iter_mut().zip(&logs).zip(&terms) {
                    *own = log[i] + term;
                }
                let largest = own.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                for own in &mut own {
                    let gap = *own - largest;
                    *own = if gap < NEGLIGIBLE { 0.0 } else { gap.exp() };
                }
                let sum: f64 = own.iter().sum();
                objective += weight * (largest + sum.ln());
                for (shares, own) in shares.iter_mut().zip(&own) {
                    if *own > 0.0 {
                        shares.push((panel * PANEL + i, weight * own / sum));
                    }
                }
            }
            (shares, objective)
        });
        let joined = |k: usize| {
            let own: Vec<&[(usize, f64)]> = parts.iter().map(|part| &*part.0[k]).collect();
            own.concat()
        };
        Expected {
            shares: (0..components).map(joined).collect(),
            objective: parts.iter().map(|part| part.1).sum(),
        }
    }

    /// `log π_k − ½ ρ tr Σ_k⁻¹` of each component.
    fn log_terms(&self, mixture: &Mixture) -> Vec<f64> {
        let components = mixture.components();
        let trace = |k: usize| mixture.trace_of_inverse(k);
        let traces = match mixture.covariance() {
            _ if self.noise == 0.0 => vec![0.0; components],
            Covariance::Shared => vec![trace(0); components],
            Covariance::Diagonal => (0..components).map(trace).collect(),
            Covariance::Full => parallel::each((0..components).collect(), trace),
        };
        let pairs = mixture.log_weights.iter().zip(traces);
        pairs
            .map(|(log, trace)| log - 0.5 * self.noise * trace)
            .collect()
    }

    /// The likeliest mixture where components have these shares of the points, which they have by the
    /// mixture `before`.
    fn maximise(&self, before: &Mixture, shares: &[Vec<(usize, f64)>]) -> Result<Mixture, Error> {
        let Moments {
            mut weights,
            means,
            variances,
        } = self.data.moments(shares, &before.means);
        let factors = match self.covariance {
            Covariance::Diagonal => {
                let deviations = variances.iter().map(|v| (v + self.noise).sqrt());
                Factors::diagonal(self.data.size, deviations.collect())?
            }
            Covariance::Shared => {
                let matrix = self.within(&weights, &means).scaled_plus(1.0, self.noise);
                Factors::from_matrices(self.covariance, vec![matrix])?
            }
            Covariance::Full => {
                let matrices = self.data.scatters(shares, &means).into_iter().zip(&weights);
                let matrices = matrices.map(|(m, weight)| m.scaled_plus(1.0 / weight, self.noise));
                Factors::from_matrices(self.covariance, matrices.collect())?
            }
        };
        let sum: f64 = weights.iter().sum();
        for weight in &mut weights {
            *weight /= sum;
        }
        Ok(Mixture::assemble(self.data.size, weights, means, factors))
    }

    /// Covariance within components: all of it less that between them.
    fn within(&self, weights: &[f64], means: &[f64]) -> Symmetric {
        let shares: Vec<(usize, f64)> = weights.iter().copied().enumerate().collect();
        let mut between = Symmetric::zeros(self.data.size);
        for (rows, columns) in between.pieces(1) {
            let scatter = Scatter {
                points: means,
                shares: &shares,
                centre: &self.data.mean,
            };
            scatter.add_to(rows, columns);
        }
        self.total[0].minus(&between)
    }
}

/// A mixture whose components have the points that are nearest to them, and one covariance for all: that
/// within them.
pub(super) fn from_groups(
    data: &Data<'_>,
    settings: &Settings,
    groups: &[Vec<(usize, f64)>],
) -> Result<Mixture, Error> {
    let noise = settings.regularisation * data.variance;
    let Moments {
        weights,
        means,
        variances,
    } = data.moments(groups, &data.first_points(groups));
    let factors = if settings.covariance == Covariance::Diagonal {
        let within = |j: usize| {
            let own = variances[j..].iter().step_by(data.size);
            own.zip(&weights).map(|(v, w)| v * w).sum::<f64>()
        };
        let deviations: Vec<f64> = (0..data.size).map(|j| (within(j) + noise).sqrt()).collect();
        Factors::diagonal(data.size, deviations.repeat(groups.len()))?
    } else {
        let shared = Settings {
            covariance: Covariance::Shared,
            ..*settings
        };
        let matrix = Climb::new(data, &shared).within(&weights, &means);
        let matrix = matrix.scaled_plus(1.0, noise);
        match Factors::from_matrices(Covariance::Shared, vec![matrix])? {
            Factors::Shared { factor, .. } if settings.covariance == Covariance::Full => {
                Factors::Full(vec![factor; groups.len()])
            }
            factors => factors,
        }
    };
    Ok(Mixture::assemble(data.size, weights, means, factors))
}

#[cfg(test)]
mod tests;
