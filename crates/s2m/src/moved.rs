//! Where samples stand after their moves, and how it went.

use s2m_model::manifest::LatentEntry;
use s2m_model::networks::{Given, Renderer};
use serde::{Deserialize, Serialize};

/// Plain calls that a gradient counts as.
pub const CALLS_PER_GRADIENT: usize = 3;

/// How samples were moved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MovesRecord {
    /// Steps of each sample.
    pub steps: usize,
    /// The size of a step, between 0 and 4: at 4 nothing of the place before is left.
    pub step_size: f64,
    /// Steps taken as a share of those tried.
    pub acceptance: f64,
    /// Latents of which a gradient was computed, for the samples and for the size of their steps.
    pub gradients: usize,
    /// Samples that were drawn beyond those asked for, to find the size.
    pub pilots: usize,
    /// Samples that stand where they stood.
    pub unmoved: usize,
    /// Samples that repeat another.
    pub duplicates: usize,
}

impl MovesRecord {
    /// What the gradients cost, in plain calls.
    pub fn calls(&self) -> usize {
        CALLS_PER_GRADIENT * self.gradients
    }
}

/// Latents that proposals have moved to.
pub(crate) struct MovedRows {
    /// Rows of all inputs' numbers, as the generator takes them.
    pub(crate) latents: Vec<f32>,
    pub(crate) width: usize,
    /// Stage and number of the proposals that they started from.
    pub(crate) starts: Vec<(u16, u64)>,
    /// Empty for an unconditional generator.
    pub(crate) classes: Vec<u32>,
    /// Whether those proposals came from anything but the prior.
    pub(crate) adapted: bool,
}

impl MovedRows {
    pub(crate) fn start(&self, row: u64) -> (u16, u64) {
        self.starts[row as usize]
    }

    pub(crate) fn class(&self, row: u64) -> Option<u32> {
        self.classes.get(row as usize).copied()
    }

    fn latent(&self, row: u64) -> &[f32] {
        &self.latents[row as usize * self.width..][..self.width]
    }

    /// The numbers of one input for some rows.
    pub(crate) fn input(&self, rows: &[u64], input: usize, latents: &[LatentEntry]) -> Vec<f32> {
        let first: usize = latents[..input].iter().map(LatentEntry::size).sum();
        let range = first..first + latents[input].size();
        let own = rows
            .iter()
            .flat_map(|&row| &self.latent(row)[range.clone()]);
        own.copied().collect()
    }

    /// The items of some rows.
    pub(crate) fn render(
        &self,
        renderer: &Renderer,
        rows: &[u64],
    ) -> Result<Vec<f32>, s2m_model::Error> {
        let latents: Vec<f32> = rows
            .iter()
            .flat_map(|&row| self.latent(row))
            .copied()
            .collect();
        let numbers: Vec<u64> = rows.iter().map(|&row| self.start(row).1).collect();
        let classes: Vec<u32> = rows.iter().filter_map(|&row| self.class(row)).collect();
        renderer.render_given(Given {
            latents: &latents,
            numbers: &numbers,
            classes: &classes,
        })
    }
}
