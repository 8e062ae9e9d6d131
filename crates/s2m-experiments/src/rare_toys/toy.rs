//! Exact targets of any rarity: half-spaces of a latent space, written as ONNX from formulae.
//!
//! Points are their latents. Every point has the label `any`; label `i` is present with level
//!
//! ```text
//! s_i(z) = 1 / (1 + exp(−k·(u_i·z − t))),   or with |u_i·z|, which has two parts
//! ```
//!
//! for orthonormal directions `u_i` that are no axes. The class head is `(1, s_1, …, s_n)` over their sum,
//! so the density of "all labels" over the prior is `(n + 1)·min s / (1 + Σ s)`. It depends on the `n`
//! numbers `v_i = u_i·z` alone, which are independent and standard normal under the prior: for one or
//! two labels its shares and cells come from sums over a fine grid. Across all other directions the
//! target is the prior.

use std::sync::Arc;

use s2m_core::proposals::Proposals;
use s2m_model::bundle::{self, Bundle};
use s2m_model::manifest::Manifest;
use s2m_model::onnx::{Element, GraphBuilder};

use crate::Error;

/// Steepness of a label's level.
const SLOPE: f64 = 12.0;

/// Seed of the directions.
const DIRECTIONS: u64 = 77;

/// The grid on which sums are taken, in each direction.
const GRID: [f64; 2] = [-6.5, 6.5];
const GRID_POINTS: usize = 1300;

/// Cells along each direction; all have the same share of the target.
pub(crate) const CELLS: usize = 6;

/// One target.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Toy {
    /// Numbers in a latent.
    pub(crate) size: usize,
    /// Labels beside `any`.
    pub(crate) labels: usize,
    /// Where a label's level is one half.
    pub(crate) threshold: f64,
    /// Whether labels are present on both sides.
    pub(crate) two_sided: bool,
}

impl Toy {
    /// A target of two labels that has this share of the generator's items.
    pub(crate) fn of_share(share: f64, size: usize, two_sided: bool) -> Self {
        let toy = |threshold| Self {
            size,
            labels: 2,
            threshold,
            two_sided,
        };
        let (mut low, mut high) = (-2.0, 6.0);
        for _ in 0..40 {
            let middle = 0.5 * (low + high);
            if toy(middle).share() > share {
                low = middle;
            } else {
                high = middle;
            }
        }
        toy(0.5 * (low + high))
    }

    /// All labels at once.
    pub(crate) fn query(&self) -> String {
        let labels: Vec<String> = (1..=self.labels).map(|i| format!("L{i}")).collect();
        format!("any + {}", labels.join(" + "))
    }

    fn level(&self, v: f64) -> f64 {
        let v = if self.two_sided { v.abs() } else { v };
        1.0 / (1.0 + (-SLOPE * (v - self.threshold)).exp())
    }

    /// Share of the generator's items that the query has; for two labels.
    pub(crate) fn share(&self) -> f64 {
        self.grid().iter().flatten().sum()
    }

    /// Mass of the target, up to its share, in the squares of the grid.
    fn grid(&self) -> Vec<Vec<f64>> {
        let step = (GRID[1] - GRID[0]) / GRID_POINTS as f64;
        let at = |i: usize| GRID[0] + (i as f64 + 0.5) * step;
        let normal = |v: f64| (-0.5 * v * v).exp() / std::f64::consts::TAU.sqrt() * step;
        let sides: Vec<(f64, f64)> = (0..GRID_POINTS)
            .map(|i| (self.level(at(i)), normal(at(i))))
            .collect();
        let row = |a: &(f64, f64)| {
            let cell = |b: &(f64, f64)| a.1 * b.1 * density(&[a.0, b.0]);
            sides.iter().map(cell).collect()
        };
        sides.iter().map(row).collect()
    }

    /// Cells of equal share, slab by slab of the first direction; for two labels.
    pub(crate) fn cells(&self) -> Cells {
        let grid = self.grid();
        let step = (GRID[1] - GRID[0]) / GRID_POINTS as f64;
        let rows: Vec<f64> = grid.iter().map(|row| row.iter().sum()).collect();
        let ends = quantiles(&rows, step);
        let mut slabs = Vec::new();
        let mut from = 0;
        for end in ends.iter().copied().chain([f64::INFINITY]) {
            let to = (0..GRID_POINTS).find(|&i| GRID[0] + (i as f64 + 1.0) * step > end);
            let to = to.unwrap_or(GRID_POINTS);
            let mut columns = vec![0.0; GRID_POINTS];
            for row in &grid[from..to.max(from + 1)] {
                for (sum, mass) in columns.iter_mut().zip(row) {
                    *sum += mass;
                }
            }
            slabs.push(quantiles(&columns, step));
            from = to;
        }
        // Ends lie between grid points, so shares are a little off: they are what the grid says.
        let mut shares = vec![0.0; CELLS * CELLS];
        let total: f64 = rows.iter().sum();
        let cells = Cells {
            ends,
            slabs,
            shares: Vec::new(),
        };
        let at = |i: usize| GRID[0] + (i as f64 + 0.5) * step;
        for (i, row) in grid.iter().enumerate() {
            for (j, mass) in row.iter().enumerate() {
                shares[cells.find([at(i), at(j)])] += mass / total;
            }
        }
        Cells { shares, ..cells }
    }

    /// Orthonormal directions, one after the other.
    pub(crate) fn directions(&self) -> Vec<Vec<f64>> {
        let mut found: Vec<Vec<f64>> = Vec::new();
        let proposals = Proposals::new(DIRECTIONS);
        for number in 0..self.labels as u64 {
            let mut numbers = vec![0.0_f32; self.size];
            proposals.fill_normal(0, number, self.size, &mut numbers);
            let mut direction: Vec<f64> = numbers.iter().map(|&v| f64::from(v)).collect();
            for other in &found {
                let along: f64 = dot(&direction, other);
                direction
                    .iter_mut()
                    .zip(other)
                    .for_each(|(v, o)| *v -= along * o);
            }
            let length = dot(&direction, &direction).sqrt();
            for value in &mut direction {
                *value /= length;
            }
            found.push(direction);
        }
        found
    }

    /// The bundle.
    pub(crate) fn bundle(&self) -> Result<Arc<Bundle>, Error> {
        let graphs = self.generator().and_then(|g| Ok((g, self.classifier()?)));
        let (generator, classifier) = graphs.expect("the layers fit together");
        let files = bundle::files(&self.manifest(), generator, classifier)?;
        let files: Vec<(&str, &[u8])> = files
            .iter()
            .map(|(name, bytes)| (name.as_str(), bytes.as_slice()))
            .collect();
        Ok(Arc::new(Bundle::from_files(&files)?))
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
        let (size, labels) = (self.size, self.labels);
        let mut g = GraphBuilder::new("half_spaces");
        let x = g.input("x", &[size], Element::F32)?;
        let directions = self.directions();
        let columns: Vec<f32> = (0..size)
            .flat_map(|row| directions.iter().map(move |d| d[row] as f32))
            .collect();
        let columns = g.constant("directions", &[size, labels], &columns)?;
        let mut v = g.matmul(&x, &columns)?;
        if self.two_sided {
            v = g.abs(&v)?;
        }
        let (threshold, slope) = (g.scalar(self.threshold as f32), g.scalar(SLOPE as f32));
        let a = g.sub(&v, &threshold)?;
        let a = g.mul(&a, &slope)?;
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
        let logs = g.neg(&sum)?;
        let zeros = vec![0.0; size];
        let zeros = g.constant("none", &[size, 1], &zeros)?;
        let any = g.matmul(&x, &zeros)?;
        let class = g.concat(&[&any, &logs], 1)?;
        let real = g.mul(&any, &one)?;
        g.output(&class, "class_logits")?;
        g.output(&real, "real_logit")?;
        Ok(g.to_bytes())
    }

    fn manifest(&self) -> Manifest {
        let labels =
            std::iter::once("any".to_owned()).chain((1..=self.labels).map(|i| format!("L{i}")));
        Manifest::of_points("half-spaces", labels.collect(), self.size)
    }
}

pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Density of the query over the prior, which is its posterior too.
fn density(levels: &[f64]) -> f64 {
    let least = levels.iter().copied().fold(1.0, f64::min);
    (levels.len() as f64 + 1.0) * least / (1.0 + levels.iter().sum::<f64>())
}

/// Values that cut masses along the grid into [`CELLS`] equal parts.
fn quantiles(masses: &[f64], step: f64) -> Vec<f64> {
    let total: f64 = masses.iter().sum();
    let mut passed = 0.0;
    let mut ends = Vec::new();
    for (i, mass) in masses.iter().enumerate() {
        passed += mass;
        while ends.len() + 1 < CELLS && passed >= total * (ends.len() + 1) as f64 / CELLS as f64 {
            ends.push(GRID[0] + (i as f64 + 1.0) * step);
        }
    }
    ends.resize(CELLS - 1, GRID[1]);
    ends
}

/// A partition of the plane of two directions, with the target's share of every cell.
#[derive(Debug, Clone)]
pub(crate) struct Cells {
    ends: Vec<f64>,
    slabs: Vec<Vec<f64>>,
    pub(crate) shares: Vec<f64>,
}

impl Cells {
    /// The cell of a place.
    pub(crate) fn find(&self, place: [f64; 2]) -> usize {
        let slab = self.ends.partition_point(|end| *end <= place[0]);
        let cell = self.slabs[slab].partition_point(|end| *end <= place[1]);
        slab * CELLS + cell
    }
}

#[cfg(test)]
mod tests {
    use s2m_core::query::Query;
    use s2m_core::weight::Evidence;
    use s2m_model::networks::{Requested, RunSettings, Scorer};
    use s2m_model::runtime::Runtime;

    use super::*;
    use s2m::settings::SampleSettings;

    #[test]
    fn shares_and_cells_are_what_they_should_be() {
        for (share, two_sided) in [(0.03, false), (0.003, true)] {
            let toy = Toy::of_share(share, 5, two_sided);
            assert!((toy.share() / share - 1.0).abs() < 1e-6);
            let cells = toy.cells();
            assert!((cells.shares.iter().sum::<f64>() - 1.0).abs() < 1e-9);
            let even = 1.0 / (CELLS * CELLS) as f64;
            let worst = cells.shares.iter().map(|s| (s - even).abs() / even);
            assert!(worst.fold(0.0, f64::max) < 0.35, "{:?}", cells.shares);
        }
    }

    /// The weight that the program computes is the density of the formula.
    #[test]
    fn networks_say_what_the_formula_says() {
        let toy = Toy::of_share(0.03, 7, true);
        let bundle = toy.bundle().unwrap();
        let runtime = Runtime::load(None).unwrap();
        let scorer = Scorer::open(&bundle, &runtime, &RunSettings::default()).unwrap();
        let numbers: Vec<u64> = (0..500).collect();
        let proposals = Proposals::new(1);
        let requested = Requested {
            proposals,
            mixture: None,
            numbers: &numbers,
            classes: &[],
        };
        let logits = scorer.score(requested).unwrap();
        let query = Query::parse(&toy.query(), bundle.labels()).unwrap();
        let weighting = s2m::weigh::weigh(&bundle, &query, &SampleSettings::default())
            .unwrap()
            .weighting;
        let mut latents = vec![0.0; 500 * 7];
        proposals.fill_normal(0, 0, 7, &mut latents);
        for (row, z) in latents.chunks(7).enumerate() {
            let z: Vec<f64> = z.iter().map(|&v| f64::from(v)).collect();
            let levels: Vec<f64> = toy
                .directions()
                .iter()
                .map(|d| toy.level(dot(d, &z)))
                .collect();
            let evidence: Evidence<'_> = logits.evidence(row);
            let found = weighting.log_weight(evidence).unwrap();
            let wanted = density(&levels).ln();
            assert!((found - wanted).abs() < 1e-3, "{found} for {wanted}");
        }
    }
}
