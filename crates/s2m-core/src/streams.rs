//! Which random numbers belong to what: the one list, so that no two uses of a seed share any.
//!
//! Every stream of a seed has a stage and a [`Purpose`]. Proposals that are drawn count up from 0, the prior; what is
//! drawn for anything else has a stage at the other end. [`metrics`] and [`trials`] number streams under seeds of their own,
//! and [`training`] those of another generator, so that their numbers are theirs alone.

use std::ops::RangeInclusive;

/// What a stream of random numbers is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Latent input number `.0` of the generator.
    Latent(u16),
    /// The class of a proposal.
    Class,
    /// The number that decides whether a proposal is accepted.
    Accept,
    /// The offset of systematic resampling.
    Resample,
    /// Starting points of expectation-maximisation, and which points it holds out.
    Mixture,
    /// The component of a mixture that a proposal comes from.
    Component,
}

impl Purpose {
    /// Its place in the number of a stream: the lower 32 bits.
    pub(crate) fn number(self) -> u64 {
        let (kind, input) = match self {
            Self::Latent(input) => (0, input),
            Self::Class => (1, 0),
            Self::Accept => (2, 0),
            Self::Resample => (3, 0),
            Self::Mixture => (4, 0),
            Self::Component => (5, 0),
        };
        kind | u64::from(input) << 16
    }
}

/// The prior, and the stages of a search for a proposal distribution.
pub const SEARCH: RangeInclusive<u16> = 0..=64;
/// Fresh proposals of an adapted proposal distribution.
pub const FRESH: u16 = 65;
/// Coverage checks and repairs that take a search further.
pub const REPAIRS: RangeInclusive<u16> = 66..=16_383;
/// Steps of the walks that find the extent of a mode.
pub const WALKS: RangeInclusive<u16> = 16_384..=59_999;
/// Proposals of calibration.
pub const CALIBRATION: u16 = 60_000;
/// Proposals of the trial run of a generator that is not known yet.
pub const TRIAL: u16 = 60_001;
/// Proposals that classifiers are trained on.
pub const TRAINING: u16 = 60_002;
/// Moves of particles of sequential Monte Carlo.
pub const PARTICLES: u16 = 60_003;
/// Which items are annotated with a label that they do not have, and with which.
pub const LABEL_NOISE: u16 = 65_530;
/// Which items are the test set, where data has none of its own.
pub const TEST_SET: u16 = 65_531;
/// The test items of a toy.
pub const TOY_TEST: u16 = 65_532;
/// The training items of a toy.
pub const TOY_TRAINING: u16 = 65_533;
/// Which items are for validation.
pub const SPLIT: u16 = 65_534;
/// Which of its labels an item is annotated with.
pub const OBSERVED: u16 = 65_535;

/// Which uniform number of [`Purpose::Mixture`] decides whether point 0 is held out; those before it place centres.
pub const HELD_OUT_POINTS: u64 = 1 << 32;
/// Which of them decides whether point 0 of a fit stays or is thinned out.
pub const THINNED_POINTS: u64 = 1 << 40;

/// Stages under the seed of a metric.
pub mod metrics {
    /// Subsets of real items.
    pub const REAL: u16 = 0;
    /// Subsets of generated items.
    pub const GENERATED: u16 = 1;
    /// The first group of values that are resampled; the others follow it.
    pub const GROUPS: u16 = 0;
}

/// Stages under the seeds of experiments, which draw their own items there.
pub mod trials {
    /// Items that stand for real ones.
    pub const REAL: u16 = 1;
    /// Items that stand for generated ones.
    pub const GENERATED: u16 = 2;
    /// Further ones, by which a share is known.
    pub const FRESH: u16 = 3;
    /// Exact draws of a rare toy.
    pub const EXACT: u16 = u16::MAX;
}

/// Streams of training, which has a generator of its own on every device: a key out of a seed, a purpose and a name.
pub mod training {
    /// What a stream of training is for.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Purpose {
        /// Initial weights of a network, and keys of all that is told apart by a name.
        Weights,
        /// Latents.
        Normal,
        /// Choices of items and mixing shares.
        Uniform,
        /// Latents of sample grids and of checks.
        Shown,
    }

    impl Purpose {
        /// Its place in a key.
        pub fn number(self) -> u64 {
            match self {
                Self::Weights => 1,
                Self::Normal => 2,
                Self::Uniform => 3,
                Self::Shown => 4,
            }
        }
    }

    /// The name of what has no other.
    pub const UNNAMED: &str = "";
    /// Classifiers of a replica.
    pub const CLASSIFIER: &str = "classifier";
    /// Which fold an item is in.
    pub const FOLDS: &str = "folds";
    /// Items that are made before training.
    pub const MADE: &str = "made";
    /// Batches by which the statistics of finished weights are measured.
    pub const STATISTICS: &str = "statistics";
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [RangeInclusive<u16>; 13] = [
        SEARCH,
        FRESH..=FRESH,
        REPAIRS,
        WALKS,
        CALIBRATION..=CALIBRATION,
        TRIAL..=TRIAL,
        TRAINING..=TRAINING,
        LABEL_NOISE..=LABEL_NOISE,
        TEST_SET..=TEST_SET,
        TOY_TEST..=TOY_TEST,
        TOY_TRAINING..=TOY_TRAINING,
        SPLIT..=SPLIT,
        OBSERVED..=OBSERVED,
    ];

    #[test]
    fn no_stage_belongs_to_two_uses() {
        for stage in 0..=u16::MAX {
            let uses = ALL.iter().filter(|range| range.contains(&stage)).count();
            assert!(uses <= 1, "{stage}");
        }
    }

    #[test]
    fn what_has_a_seed_of_its_own_has_distinct_numbers_too() {
        let [real, generated] = [metrics::REAL, metrics::GENERATED];
        assert_ne!(real, generated);
        let trials = [
            trials::REAL,
            trials::GENERATED,
            trials::FRESH,
            trials::EXACT,
        ];
        let distinct: std::collections::HashSet<u16> = trials.into();
        assert_eq!(distinct.len(), trials.len());
        // Points are fewer than 2^32, and places of centres too.
        const { assert!(HELD_OUT_POINTS >= 1 << 32 && THINNED_POINTS - HELD_OUT_POINTS >= 1 << 32) }
    }

    #[test]
    fn streams_of_training_are_told_apart_by_number_and_name() {
        use training::Purpose::{Normal, Shown, Uniform, Weights};
        assert_eq!(
            [Weights, Normal, Uniform, Shown].map(training::Purpose::number),
            [1, 2, 3, 4]
        );
        let names = [
            training::UNNAMED,
            training::CLASSIFIER,
            training::FOLDS,
            training::MADE,
            training::STATISTICS,
        ];
        let distinct: std::collections::HashSet<&str> = names.into();
        assert_eq!(distinct.len(), names.len());
    }

    #[test]
    fn no_two_purposes_share_a_stream() {
        use Purpose::{Accept, Class, Component, Latent, Mixture, Resample};
        let all = [
            Latent(0),
            Latent(1),
            Latent(u16::MAX),
            Class,
            Accept,
            Resample,
            Mixture,
            Component,
        ];
        let numbers: std::collections::HashSet<u64> = all.map(Purpose::number).into();
        assert_eq!(numbers.len(), all.len());
        // Stages begin above.
        assert!(numbers.iter().all(|number| number >> 32 == 0));
    }
}
