//! Gaussian mixtures: what latents are drawn from once something is known about the query.
//!
//! ```text
//! q(z) = (1 − ε) Σ_k π_k N(z | μ_k, L_k L_kᵀ) + ε N(z | 0, I)
//! ```
//!
//! The share `ε` of the prior bounds the prior's density over this one by `1/ε` everywhere, so
//! that weights stay bounded however badly the mixture fits. Densities are exact, by forward
//! substitution with the Cholesky factors `L_k`. Proposal `k` is a pure function of seed, stage and
//! `k`: the component by a uniform number of its own, then `μ + L·n` with the normal numbers `n`
//! that the prior would use.
//!
//! [`em`] fits mixtures to weighted points, [`count`] says how many components they need, [`select`]
//! which covariances too.

pub mod count;
pub mod em;
mod parallel;
mod reshape;
pub mod select;
mod span;
mod start;
mod triangle;
mod wide;

use crate::error::Error;
use crate::log_sum_exp;
use crate::proposals::{Proposals, Purpose};
use triangle::{Column, Symmetric, TILE, Triangle, tiles};
use wide::wide;

/// How far from 1 the weights of the components may sum: rounding, and a few printed digits.
const WEIGHT_ROUNDING: f64 = 1e-9;

/// Points whose densities are computed together.
const PANEL: usize = 64;

/// What the covariances of a mixture have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Covariance {
    /// One full covariance for all components.
    Shared,
    /// A diagonal covariance for each component.
    Diagonal,
    /// A full covariance for each component.
    Full,
}

impl Covariance {
    /// Numbers that the covariances of a mixture consist of, or their factors.
    pub fn numbers(self, size: usize, components: usize) -> usize {
        match self {
            Self::Shared => size * size,
            Self::Diagonal => components * size,
            Self::Full => components * size * size,
        }
    }
}

/// A mixture as plain lists, to be stored and read again.
#[derive(Debug, Clone, PartialEq)]
pub struct Parts {
    /// What the covariances have in common.
    pub covariance: Covariance,
    /// Number of dimensions.
    pub size: usize,
    /// One weight per component; they sum to 1.
    pub weights: Vec<f64>,
    /// Mean by mean.
    pub means: Vec<f64>,
    /// Lower Cholesky factors row by row, zeros included: one (shared) or one per component (full);
    /// or the standard deviations of each component (diagonal).
    pub factors: Vec<f64>,
    /// The share `ε` of the prior.
    pub prior_share: f64,
}

/// The Cholesky factors of all components.
#[derive(Debug, Clone, PartialEq)]
enum Factors {
    /// One factor, and the means it whitens: `L⁻¹ μ_k`.
    Shared {
        factor: Triangle,
        centres: Vec<f64>,
    },
    /// Standard deviations, and of each component its mean and one over its deviations, padded to
    /// whole tiles.
    Diagonal {
        deviations: Vec<f64>,
        whitening: Vec<[Vec<f64>; 2]>,
    },
    Full(Vec<Triangle>),
}

/// A mixture of normal distributions and the standard normal prior.
#[derive(Debug, Clone, PartialEq)]
pub struct Mixture {
    size: usize,
    weights: Vec<f64>,
    means: Vec<f64>,
    factors: Factors,
    prior_share: f64,
    /// `log π_k` of each component.
    log_weights: Vec<f64>,
    /// `log N(μ_k | μ_k, Σ_k)` of each component.
    log_peaks: Vec<f64>,
}

impl Mixture {
    /// A mixture out of its parts.
    pub fn new(parts: Parts) -> Result<Self, Error> {
        let Parts {
            covariance,
            size,
            weights,
            means,
            factors,
            prior_share,
        } = parts;
        check_lists(size, &weights, &means)?;
        let wanted = covariance.numbers(size, weights.len());
        check("factors", &factors, wanted)?;
        let triangle = |(component, rows): (usize, &[f64])| {
            Triangle::from_rows(size, rows).map_err(|row| indefinite(component, row))
        };
        let rows = factors.chunks(size * size).enumerate();
        let factors = match covariance {
            Covariance::Shared => Factors::shared(triangle((0, &factors))?),
            Covariance::Full => Factors::Full(rows.map(triangle).collect::<Result<_, _>>()?),
            Covariance::Diagonal => Factors::diagonal(size, factors)?,
        };
        Self::assemble(size, weights, means, factors).with_prior_share(prior_share)
    }

    /// A mixture out of covariances (row by row; variances where they are diagonal), without a share
    /// of the prior.
    pub fn from_covariances(
        covariance: Covariance,
        weights: &[f64],
        means: &[f64],
        covariances: &[f64],
    ) -> Result<Self, Error> {
        let size = means.len() / weights.len().max(1);
        check_lists(size, weights, means)?;
        let wanted = covariance.numbers(size, weights.len());
        check("covariances", covariances, wanted)?;
        let factors = match covariance {
            Covariance::Diagonal => {
                Factors::diagonal(size, covariances.iter().map(|v| v.sqrt()).collect())?
            }
            Covariance::Shared | Covariance::Full => {
                let matrices = covariances.chunks(size * size);
                let matrices = matrices.map(|rows| Symmetric::from_rows(size, rows));
                Factors::from_matrices(covariance, matrices.collect())?
            }
        };
        Ok(Self::assemble(
            size,
            weights.to_vec(),
            means.to_vec(),
            factors,
        ))
    }

    /// Puts checked parts together.
    fn assemble(size: usize, weights: Vec<f64>, means: Vec<f64>, factors: Factors) -> Self {
        let log_weights = weights.iter().map(|w| w.ln()).collect();
        let mut mixture = Self {
            size,
            weights,
            means,
            factors,
            prior_share: 0.0,
            log_weights,
            log_peaks: Vec::new(),
        };
        mixture.whiten_means();
        let at_zero = log_standard_normal(size, 0.0);
        mixture.log_peaks = (0..mixture.components())
            .map(|k| {
                at_zero
                    - match &mixture.factors {
                        Factors::Shared { factor, .. } => factor.log_determinant(),
                        Factors::Full(factors) => factors[k].log_determinant(),
                        Factors::Diagonal { deviations, .. } => {
                            let own = &deviations[k * size..(k + 1) * size];
                            own.iter().map(|s| s.ln()).sum()
                        }
                    }
            })
            .collect();
        mixture
    }

    /// Fills in what factors make of the means.
    fn whiten_means(&mut self) {
        let (size, length) = (self.size, TILE * tiles(self.size));
        match &mut self.factors {
            Factors::Shared { factor, centres } => {
                centres.clear();
                for mean in self.means.chunks(size) {
                    let mut group = vec![[0.0; TILE]; length];
                    for (column, &value) in group.iter_mut().zip(mean) {
                        column[0] = value;
                    }
                    factor.solve(&mut group);
                    centres.extend(group.iter().map(|column| column[0]));
                }
            }
            Factors::Diagonal {
                deviations,
                whitening,
            } => {
                let padded = |mut list: Vec<f64>| {
                    list.resize(length, 0.0);
                    list
                };
                let components = self.means.chunks(size).zip(deviations.chunks(size));
                *whitening = components
                    .map(|(mean, own)| [mean.to_vec(), own.iter().map(|s| 1.0 / s).collect()])
                    .map(|lists| lists.map(padded))
                    .collect();
            }
            Factors::Full(_) => {}
        }
    }

    /// The same mixture in which the standard normal prior has the share `epsilon`.
    pub fn with_prior_share(mut self, epsilon: f64) -> Result<Self, Error> {
        if !(0.0..=1.0).contains(&epsilon) {
            return Err(Error::value(format!(
                "the share of the prior is {epsilon}, which is not within 0 and 1"
            )));
        }
        self.prior_share = epsilon;
        Ok(self)
    }

    /// All that is needed to build this mixture again.
    pub fn parts(&self) -> Parts {
        Parts {
            covariance: self.covariance(),
            size: self.size,
            weights: self.weights.clone(),
            means: self.means.clone(),
            factors: match &self.factors {
                Factors::Shared { factor, .. } => factor.to_rows(),
                Factors::Diagonal { deviations, .. } => deviations.clone(),
                Factors::Full(factors) => factors.iter().flat_map(Triangle::to_rows).collect(),
            },
            prior_share: self.prior_share,
        }
    }

    /// What the covariances have in common.
    pub fn covariance(&self) -> Covariance {
        match self.factors {
            Factors::Shared { .. } => Covariance::Shared,
            Factors::Diagonal { .. } => Covariance::Diagonal,
            Factors::Full(_) => Covariance::Full,
        }
    }

    /// Number of dimensions.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Number of components, the prior not counted.
    pub fn components(&self) -> usize {
        self.weights.len()
    }

    /// The weights of the components among themselves.
    pub fn weights(&self) -> &[f64] {
        &self.weights
    }

    /// The mean of a component.
    pub fn mean(&self, component: usize) -> &[f64] {
        &self.means[component * self.size..(component + 1) * self.size]
    }

    /// The share of the prior.
    pub fn prior_share(&self) -> f64 {
        self.prior_share
    }

    /// Log density at one point.
    pub fn log_density(&self, point: &[f32]) -> f64 {
        let mut out = [0.0];
        self.log_densities(point, &mut out);
        out[0]
    }

    /// Log densities at points that lie one after the other; as many as `out` holds.
    pub fn log_densities(&self, points: &[f32], out: &mut [f64]) {
        assert_eq!(
            points.len(),
            out.len() * self.size,
            "points of {} numbers",
            self.size
        );
        let panels = points.chunks(PANEL * self.size).zip(out.chunks_mut(PANEL));
        parallel::each(panels.collect(), |(points, out)| {
            let logs = self.component_logs(points);
            for (i, (out, point)) in out.iter_mut().zip(points.chunks(self.size)).enumerate() {
                let terms = logs.iter().zip(&self.log_weights);
                let mixture = log_sum_exp(terms.map(|(log, weight)| log[i] + weight));
                *out = self.add_prior(mixture, point);
            }
        });
    }

    /// Log density of the whole, where the components alone have log density `log_mixture`.
    fn add_prior(&self, log_mixture: f64, point: &[f32]) -> f64 {
        if self.prior_share == 0.0 {
            return log_mixture;
        }
        let terms = [
            (-self.prior_share).ln_1p() + log_mixture,
            self.prior_share.ln() + log_prior(point),
        ];
        log_sum_exp(terms.into_iter())
    }

    /// `log N(point | 0, I)` less the log density here: what the prior is weighted by where proposals
    /// come from this mixture. Never above `−log ε`.
    pub fn log_prior_ratio(&self, point: &[f32]) -> f64 {
        let mut out = [0.0];
        self.log_prior_ratios(point, &mut out);
        out[0]
    }

    /// [`Self::log_prior_ratio`] of points that lie one after the other; as many as `out` holds.
    pub fn log_prior_ratios(&self, points: &[f32], out: &mut [f64]) {
        self.log_densities(points, out);
        for (out, point) in out.iter_mut().zip(points.chunks(self.size)) {
            // The bound is exact; the difference of two large logarithms is not.
            *out = (log_prior(point) - *out).min(-self.prior_share.ln());
        }
    }

    /// Log densities of up to [`PANEL`] points under each component, without its weight.
    fn component_logs(&self, points: &[f32]) -> Vec<[f64; PANEL]> {
        let length = TILE * tiles(self.size);
        let mut x = vec![[0.0; TILE]; length * (points.len() / self.size).div_ceil(TILE)];
        for (i, point) in points.chunks(self.size).enumerate() {
            let group = &mut x[i / TILE * length..][..self.size];
            for (column, &value) in group.iter_mut().zip(point) {
                column[i % TILE] = f64::from(value);
            }
        }
        let peaks = self.log_peaks.iter().enumerate();
        let ones = vec![1.0; length];
        match &self.factors {
            Factors::Shared { factor, centres } => {
                factor.solve(&mut x);
                let centre = |k: usize| &centres[k * length..][..length];
                peaks
                    .map(|(k, &peak)| peak_less_distance(peak, &x, centre(k), &ones))
                    .collect()
            }
            Factors::Diagonal { whitening, .. } => peaks
                .zip(whitening)
                .map(|((_, &peak), [centre, scale])| peak_less_distance(peak, &x, centre, scale))
                .collect(),
            Factors::Full(factors) => {
                let mut centred = x.clone();
                let zeros = vec![0.0; length];
                peaks
                    .map(|(k, &peak)| {
                        let groups = centred.chunks_mut(length).zip(x.chunks(length));
                        for (to, from) in groups {
                            for ((to, from), mean) in to.iter_mut().zip(from).zip(self.mean(k)) {
                                *to = from.map(|value| value - mean);
                            }
                        }
                        factors[k].solve(&mut centred);
                        peak_less_distance(peak, &centred, &zeros, &ones)
                    })
                    .collect()
            }
        }
    }

    /// Proposals `first …`, as many as `out` holds; each is a pure function of seed, stage and its
    /// number.
    pub fn fill(&self, proposals: Proposals, first: u64, out: &mut [f32]) {
        proposals.fill_normal(0, first, self.size, out);
        let mut normal = vec![0.0; TILE * tiles(self.size)];
        for (proposal, out) in (first..).zip(out.chunks_mut(self.size)) {
            let uniform = proposals.uniform(Purpose::Component, proposal);
            let Some(component) = self.component(uniform) else {
                continue; // The prior: the normal numbers themselves.
            };
            for (normal, &value) in normal.iter_mut().zip(&*out) {
                *normal = f64::from(value);
            }
            let mean = self.mean(component);
            match &self.factors {
                Factors::Diagonal { deviations, .. } => {
                    let deviations = &deviations[component * self.size..];
                    for (j, out) in out.iter_mut().enumerate() {
                        *out = (mean[j] + deviations[j] * normal[j]) as f32;
                    }
                }
                Factors::Shared { factor, .. } => {
                    factor.multiply(&normal, |j, value| out[j] = (mean[j] + value) as f32);
                }
                Factors::Full(factors) => factors[component]
                    .multiply(&normal, |j, value| out[j] = (mean[j] + value) as f32),
            }
        }
    }

    /// The component that a proposal comes from; none is the prior.
    pub fn component_of(&self, proposals: Proposals, number: u64) -> Option<usize> {
        self.component(proposals.uniform(Purpose::Component, number))
    }

    /// The same mixture without one of its components.
    fn without(&self, component: usize) -> Self {
        let but = |list: &[f64]| {
            let parts = list.chunks(list.len() / self.components()).enumerate();
            let kept = parts.filter(|(k, _)| *k != component);
            kept.flat_map(|(_, part)| part.to_vec()).collect::<Vec<_>>()
        };
        let mut weights = but(&self.weights);
        let sum: f64 = weights.iter().sum();
        for weight in &mut weights {
            *weight /= sum;
        }
        let mut factors = self.factors.clone();
        match &mut factors {
            Factors::Shared { .. } => {}
            Factors::Diagonal { deviations, .. } => *deviations = but(deviations),
            Factors::Full(factors) => drop(factors.remove(component)),
        }
        Self::assemble(self.size, weights, but(&self.means), factors)
    }

    /// `tr Σ_k⁻¹` of a component.
    fn trace_of_inverse(&self, component: usize) -> f64 {
        match &self.factors {
            Factors::Shared { factor, .. } => factor.trace_of_inverse(),
            Factors::Full(factors) => factors[component].trace_of_inverse(),
            Factors::Diagonal { deviations, .. } => {
                let own = &deviations[component * self.size..][..self.size];
                own.iter().map(|s| (s * s).recip()).sum()
            }
        }
    }

    /// Which component a uniform number picks; none is the prior.
    fn component(&self, uniform: f64) -> Option<usize> {
        let mut left = uniform - self.prior_share;
        if left < 0.0 {
            return None;
        }
        for (component, weight) in self.weights.iter().enumerate() {
            left -= (1.0 - self.prior_share) * weight;
            if left < 0.0 {
                return Some(component);
            }
        }
        // Rounding left a little over: the last component that can be drawn at all.
        self.weights.iter().rposition(|&w| w > 0.0)
    }
}

impl Factors {
    fn shared(factor: Triangle) -> Self {
        Self::Shared {
            factor,
            centres: Vec::new(),
        }
    }

    fn diagonal(size: usize, deviations: Vec<f64>) -> Result<Self, Error> {
        if let Some(at) = deviations.iter().position(|s| s.is_nan() || *s <= 0.0) {
            let (component, row) = (at / size, at % size);
            return Err(indefinite(component, row));
        }
        Ok(Self::Diagonal {
            deviations,
            whitening: Vec::new(),
        })
    }

    /// Factors of full covariances: one if they share it, or one per component.
    fn from_matrices(covariance: Covariance, matrices: Vec<Symmetric>) -> Result<Self, Error> {
        let work = matrices.into_iter().enumerate().collect();
        let factors = parallel::each(work, |(component, matrix): (usize, Symmetric)| {
            matrix.cholesky().map_err(|row| indefinite(component, row))
        });
        let mut factors: Vec<Triangle> = factors.into_iter().collect::<Result<_, _>>()?;
        Ok(match covariance {
            Covariance::Shared => Self::shared(factors.swap_remove(0)),
            Covariance::Diagonal | Covariance::Full => Self::Full(factors),
        })
    }
}

/// `peak − ½ Σ_j (scale_j (x_j − centre_j))²` of every point; lists are padded to whole tiles.
fn peak_less_distance(peak: f64, x: &[Column], centre: &[f64], scale: &[f64]) -> [f64; PANEL] {
    wide!(plain_peak_less_distance(peak: f64, x: &[Column], centre: &[f64], scale: &[f64]) -> [f64; PANEL])
}

#[inline(always)]
#[expect(clippy::inline_always, reason = "compiled for each width of vectors")]
fn plain_peak_less_distance(
    peak: f64,
    x: &[Column],
    centre: &[f64],
    scale: &[f64],
) -> [f64; PANEL] {
    let mut out = [0.0; PANEL];
    let (centres, scales) = (centre.as_chunks::<2>().0, scale.as_chunks::<2>().0);
    for (group, out) in x.chunks(centre.len()).zip(out.chunks_mut(TILE)) {
        // Two sums in turn, since each has to wait for itself.
        let mut sums = [[0.0; TILE]; 2];
        let columns = group.as_chunks::<2>().0.iter();
        for ((columns, centres), scales) in columns.zip(centres).zip(scales) {
            for half in 0..2 {
                for lane in 0..TILE {
                    let distance = scales[half] * (columns[half][lane] - centres[half]);
                    sums[half][lane] += distance * distance;
                }
            }
        }
        for (lane, out) in out.iter_mut().enumerate() {
            *out = peak - 0.5 * (sums[0][lane] + sums[1][lane]);
        }
    }
    out
}

/// `log N(point | 0, I)`.
pub fn log_prior(point: &[f32]) -> f64 {
    let squares = point.iter().map(|&v| f64::from(v) * f64::from(v));
    log_standard_normal(point.len(), squares.sum())
}

/// Log density of the standard normal distribution where the squares sum to `squares`.
fn log_standard_normal(size: usize, squares: f64) -> f64 {
    -0.5 * (size as f64 * std::f64::consts::TAU.ln() + squares)
}

fn indefinite(component: usize, row: usize) -> Error {
    Error::value(format!(
        "the covariance of component {component} is not positive definite at row {row}"
    ))
}

fn check_lists(size: usize, weights: &[f64], means: &[f64]) -> Result<(), Error> {
    if size == 0 || weights.is_empty() {
        return Err(Error::setting(
            "a mixture needs at least one component and one dimension",
        ));
    }
    check("weights", weights, weights.len())?;
    check("means", means, weights.len() * size)?;
    if let Some(component) = weights.iter().position(|&w| w < 0.0) {
        let value = weights[component];
        return Err(Error::value(format!(
            "the weight of component {component} is {value}"
        )));
    }
    let sum: f64 = weights.iter().sum();
    if (sum - 1.0).abs() > WEIGHT_ROUNDING {
        return Err(Error::value(format!(
            "the weights of the components sum to {sum}, not to 1"
        )));
    }
    Ok(())
}

fn check(what: &'static str, list: &[f64], wanted: usize) -> Result<(), Error> {
    if list.len() != wanted {
        let found = list.len();
        return Err(Error::mismatch(format!(
            "{what}: wanted {wanted} numbers, found {found}"
        )));
    }
    match list.iter().position(|v| !v.is_finite()) {
        Some(at) => Err(Error::value(format!("{what}: number {at} is {}", list[at]))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
