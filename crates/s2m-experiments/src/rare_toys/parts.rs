//! Exact targets in separate parts of unequal mass, written as ONNX from formulae.
//!
//! Points are their latents. Every point has the label `any`; the label `L` is present with level
//!
//! ```text
//! s(z) = 1 / (1 + exp(−k·max_j (u_j·z − t_j)))
//! ```
//!
//! for directions `u_j` that are no axes: orthonormal ones, or in the plane evenly spread ones. The density of
//! "any + L" over the prior is `2·s / (1 + s)`. Where `u_j·z − t_j` is the largest, `z` belongs to part `j`;
//! its mass is a sum over a fine grid of one normal number, since parts lie so far out that hardly anything
//! is in two of them.

use std::sync::Arc;

use s2m_core::proposals::Proposals;
use s2m_core::streams::trials;
use s2m_model::bundle::{self, Bundle};
use s2m_model::manifest::Manifest;
use s2m_model::onnx::{Element, GraphBuilder};

use super::toy::{Toy, dot};
use crate::Error;

/// Steepness of the level.
const SLOPE: f64 = 12.0;

/// The grid on which sums are taken.
const GRID: [f64; 2] = [-8.0, 9.0];
const GRID_POINTS: usize = 34_000;

/// One target.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PartsToy {
    /// Numbers in a latent.
    pub(crate) size: usize,
    /// Share of the generator's items that the query has.
    pub(crate) share: f64,
    /// What share of the target each part has; they sum to 1.
    pub(crate) masses: Vec<f64>,
    thresholds: Vec<f64>,
}

impl PartsToy {
    /// A target of this share, with parts of these masses.
    pub(crate) fn new(size: usize, share: f64, masses: &[f64]) -> Self {
        let thresholds = masses.iter().map(|mass| threshold(mass * share)).collect();
        Self {
            size,
            share,
            masses: masses.to_vec(),
            thresholds,
        }
    }

    /// It in words.
    pub(crate) fn name(&self) -> String {
        let masses: Vec<String> = self
            .masses
            .iter()
            .map(|m| format!("{:.0}", 100.0 * m))
            .collect();
        format!(
            "{}, {} %, {} %",
            self.size,
            100.0 * self.share,
            masses.join(" / ")
        )
    }

    /// A name for its folder.
    pub(crate) fn file_name(&self) -> String {
        let masses = self.masses.iter().map(|m| format!("-{:.0}", 100.0 * m));
        format!(
            "parts-{}-{}{}.s2m",
            self.size,
            self.share,
            masses.collect::<String>()
        )
    }

    /// Calls per sample of `reject` without adaptation: weights are at most 1, and their mean is the share.
    pub(crate) fn plain_cost(&self) -> f64 {
        1.0 / self.share
    }

    /// The query.
    pub(crate) fn query() -> &'static str {
        "any + L"
    }

    /// The directions of the parts.
    pub(crate) fn directions(&self) -> Vec<Vec<f64>> {
        let parts = self.masses.len();
        if self.size == 2 {
            let angle = |j: usize| 0.3 + std::f64::consts::TAU * j as f64 / parts as f64;
            return (0..parts)
                .map(|j| vec![angle(j).cos(), angle(j).sin()])
                .collect();
        }
        let toy = Toy {
            size: self.size,
            labels: parts,
            threshold: 0.0,
            two_sided: false,
        };
        toy.directions()
    }

    /// The part of a latent and the log density of the target over the prior there.
    pub(crate) fn place(&self, directions: &[Vec<f64>], z: &[f64]) -> (usize, f64) {
        let above = directions.iter().zip(&self.thresholds);
        let above = above.map(|(u, t)| dot(u, z) - t).enumerate();
        let (part, above) = above.max_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or((0, 0.0));
        (part, density(above).ln())
    }

    /// Exact draws of the target: latents, one after the other.
    pub(crate) fn exact(&self, count: usize, seed: u64) -> Vec<f32> {
        let (directions, proposals) = (
            self.directions(),
            Proposals::new(seed).at_stage(trials::EXACT),
        );
        let quantiles: Vec<Vec<f64>> = self.thresholds.iter().map(|t| cumulated(*t)).collect();
        let mut latents = vec![0.0; count * self.size];
        proposals.fill_normal(0, 0, self.size, &mut latents);
        let mut uniforms = vec![0.0; 2 * count];
        proposals.fill_uniform(s2m_core::proposals::Purpose::Class, 0, &mut uniforms);
        for (latent, uniforms) in latents.chunks_mut(self.size).zip(uniforms.chunks(2)) {
            let mut left = uniforms[0];
            let mut part = 0;
            while part + 1 < self.masses.len() && left >= self.masses[part] {
                left -= self.masses[part];
                part += 1;
            }
            let along = quantiles[part].partition_point(|c| *c < uniforms[1]);
            let wanted = grid(along);
            let u = &directions[part];
            let found: f64 = latent.iter().zip(u).map(|(z, u)| f64::from(*z) * u).sum();
            for (z, u) in latent.iter_mut().zip(u) {
                *z += ((wanted - found) * u) as f32;
            }
        }
        latents
    }

    /// The bundle.
    pub(crate) fn bundle(&self) -> Result<Arc<Bundle>, Error> {
        let files = self.files()?;
        let files: Vec<(&str, &[u8])> = files
            .iter()
            .map(|(name, bytes)| (name.as_str(), bytes.as_slice()))
            .collect();
        Ok(Arc::new(Bundle::from_files(&files)?))
    }

    /// The files of the bundle.
    pub(crate) fn files(&self) -> Result<Vec<(String, Vec<u8>)>, Error> {
        let graphs = self.generator().and_then(|g| Ok((g, self.classifier()?)));
        let (generator, classifier) = graphs.expect("the layers fit together");
        let labels = ["any", "L"].map(str::to_owned).to_vec();
        let manifest = Manifest::of_points("parts", labels, self.size);
        Ok(bundle::files(&manifest, generator, classifier)?.to_vec())
    }

    fn generator(&self) -> Result<Vec<u8>, s2m_model::Error> {
        let mut g = GraphBuilder::new("identity");
        let z = g.input("z", &[self.size], Element::F32)?;
        let one = g.scalar(1.0);
        let x = g.mul(&z, &one)?;
        g.output(&x, "x")?;
        Ok(g.to_bytes())
    }

    fn classifier(&self) -> Result<Vec<u8>, s2m_model::Error> {
        let mut g = GraphBuilder::new("parts");
        let x = g.input("x", &[self.size], Element::F32)?;
        let mut highest = None;
        for (j, (u, t)) in self.directions().iter().zip(&self.thresholds).enumerate() {
            let column: Vec<f32> = u.iter().map(|&u| u as f32).collect();
            let column = g.constant(&format!("direction_{j}"), &[self.size, 1], &column)?;
            let along = g.matmul(&x, &column)?;
            let threshold = g.scalar(*t as f32);
            let above = g.sub(&along, &threshold)?;
            highest = Some(match highest {
                None => above,
                Some(before) => {
                    // max(a, b) = b + max(a − b, 0).
                    let gap = g.sub(&before, &above)?;
                    let gap = g.relu(&gap)?;
                    g.add(&above, &gap)?
                }
            });
        }
        let highest = highest.expect("a target has a part");
        let slope = g.scalar(SLOPE as f32);
        let a = g.mul(&highest, &slope)?;
        // log s = min(a, 0) − log(1 + exp(−|a|)).
        let below = g.neg(&a)?;
        let below = g.relu(&below)?;
        let size_of = g.abs(&a)?;
        let size_of = g.neg(&size_of)?;
        let rest = g.exp(&size_of)?;
        let one = g.scalar(1.0);
        let rest = g.add(&rest, &one)?;
        let rest = g.log(&rest)?;
        let sum = g.add(&below, &rest)?;
        let log_level = g.neg(&sum)?;
        let zeros = g.constant("none", &[self.size, 1], &vec![0.0; self.size])?;
        let any = g.matmul(&x, &zeros)?;
        let class = g.concat(&[&any, &log_level], 1)?;
        let real = g.mul(&any, &one)?;
        g.output(&class, "class_logits")?;
        g.output(&real, "real_logit")?;
        Ok(g.to_bytes())
    }
}

/// Density of the target over the prior so far above a threshold.
fn density(above: f64) -> f64 {
    2.0 / (2.0 + (-SLOPE * above).exp())
}

fn grid(at: usize) -> f64 {
    GRID[0] + (at as f64 + 0.5) * (GRID[1] - GRID[0]) / GRID_POINTS as f64
}

/// Mass of a part with this threshold, in the cells of the grid.
fn cells(threshold: f64) -> impl Iterator<Item = f64> {
    let step = (GRID[1] - GRID[0]) / GRID_POINTS as f64;
    (0..GRID_POINTS).map(move |i| {
        let v = grid(i);
        (-0.5 * v * v).exp() / std::f64::consts::TAU.sqrt() * step * density(v - threshold)
    })
}

/// Shares of a part up to each point of the grid.
fn cumulated(threshold: f64) -> Vec<f64> {
    let total: f64 = cells(threshold).sum();
    let mut sum = 0.0;
    cells(threshold)
        .map(|mass| {
            sum += mass / total;
            sum
        })
        .collect()
}

/// The threshold at which a part has this mass under the prior.
fn threshold(mass: f64) -> f64 {
    let (mut low, mut high) = (-2.0, 8.0);
    for _ in 0..50 {
        let middle = 0.5 * (low + high);
        if cells(middle).sum::<f64>() > mass {
            low = middle;
        } else {
            high = middle;
        }
    }
    0.5 * (low + high)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exact draws lie in the parts by their masses, within five standard errors, and a part's mass under the
    /// prior is its share of the whole.
    #[test]
    fn exact_draws_have_the_masses_of_the_parts() {
        for size in [2, 5] {
            let toy = PartsToy::new(size, 0.002, &[0.7, 0.28, 0.02]);
            let directions = toy.directions();
            let mut counts = [0.0; 3];
            for z in toy.exact(20_000, 3).chunks(size) {
                let z: Vec<f64> = z.iter().map(|&v| f64::from(v)).collect();
                let (part, log_density) = toy.place(&directions, &z);
                counts[part] += 1.0;
                assert!(log_density > -12.0, "{log_density}");
            }
            for (count, mass) in counts.iter().zip(&toy.masses) {
                let error = (20_000.0 * mass * (1.0 - mass)).sqrt();
                assert!((count - 20_000.0 * mass).abs() < 5.0 * error, "{counts:?}");
            }
        }
    }
}
