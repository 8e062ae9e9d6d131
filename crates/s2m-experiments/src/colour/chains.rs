//! What a table compares: one chain for every GAN, the lines that rest on it, and the paper's figures.
//!
//! The lines are the same for all data; run files and published figures are each data set's own.

use std::num::NonZeroUsize;

use s2m_fit::Network;
use s2m_runs::folder::GENERATOR;

use crate::fits::{Fit, Source};
use crate::results::Published;
use crate::stages::Stage;

/// A table of colour images.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Subject {
    /// Name of the experiment.
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    /// The name of the data in every run file.
    pub(super) data: &'static str,
    /// Steps of the paper's chains, and so the most calls of a sample.
    pub(super) steps: NonZeroUsize,
    /// The judge of all lines.
    pub(super) referee: Stage,
    /// In the order of the table.
    pub(super) chains: &'static [Chain],
    /// The paper's figures by line: accuracy in %, FID, Inception score, precision, recall, density, coverage.
    pub(super) published: &'static [(&'static str, &'static [Published])],
    /// Fewest test items of a joint class that counts as common, where classes differ in that.
    pub(super) common: Option<usize>,
    /// Above the tables.
    pub(super) about: &'static str,
    /// Below the one of FID along trainings.
    pub(super) elsewhere: Option<&'static str>,
}

impl Subject {
    /// The stage whose run file says what the data is.
    pub(super) fn data_of(&self) -> &'static Stage {
        let mut gans = self.chains.iter().filter_map(|chain| chain.gan.as_ref());
        gans.next().expect("a test looks for generators")
    }

    /// A figure of the paper, where it has one.
    pub(super) fn published(&self, line: &str, at: usize) -> Option<Published> {
        let own = self.published.iter().find(|(name, _)| *name == line)?;
        own.1.get(at).copied()
    }
}

/// A GAN, and all lines that rest on it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chain {
    /// Name of `--rows`, of its file and of its picture.
    pub(super) name: &'static str,
    pub(super) picture: &'static str,
    /// How its generator is trained; none for lines of real items.
    pub(super) gan: Option<Stage>,
    /// The paper's classifiers over it.
    pub(super) paper: Option<Stage>,
    pub(super) ours: Option<Ours>,
    /// Shown every item's label set.
    pub(super) ceiling: Option<Fit>,
    /// One seed for every row, three for ours.
    pub(super) seeds: &'static [u64],
    pub(super) lines: &'static [Kept],
}

/// Where our classifiers over a generator come from.
#[derive(Debug, Clone, Copy)]
pub(super) enum Ours {
    /// `s2m fit` with its defaults.
    Fit(Fit),
    /// A run file, for networks that are smaller than those of `s2m fit`.
    Stage(Stage),
}

/// One line of the table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Kept {
    pub(super) name: &'static str,
    pub(super) from: From,
    /// Whether features are looked at too, and not the referee's answers alone.
    pub(super) whole: bool,
}

/// Where the items of a line come from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum From {
    /// Training items of every joint class.
    Training,
    /// The first items of the generator that the referee takes for a joint class.
    Unfiltered,
    /// A generator that takes the joint class; the entry lies in this file.
    Asked(&'static str),
    /// The paper's way, with its temperatures and its margin or without.
    Paper { temperature: bool, margin: bool },
    /// Our way, with this floor or the bundle's own.
    Ours(Option<f64>),
    /// The same with a network that was shown all labels.
    Ceiling(Option<f64>),
}

impl From {
    /// What is measured first: what others rest on, then what takes the least.
    pub(super) const fn turn(self) -> u8 {
        match self {
            Self::Training | Self::Unfiltered | Self::Asked(_) => 0,
            Self::Ours(_) => 1,
            Self::Ceiling(_) => 2,
            Self::Paper { .. } => 3,
        }
    }
}

pub(super) const fn line(name: &'static str, from: From) -> Kept {
    Kept {
        name,
        from,
        whole: true,
    }
}

impl Kept {
    /// Judged by the referee alone.
    const fn judged(mut self) -> Self {
        self.whole = false;
        self
    }
}

const fn corrected(name: &'static str, temperature: bool, margin: bool) -> Kept {
    line(
        name,
        From::Paper {
            temperature,
            margin,
        },
    )
}

/// The entry of a generator that takes shares of classes.
pub(super) const JOINT: &str = "generator-joint.toml";
const ASKED: From = From::Asked(JOINT);
const ORACLE: From = From::Asked(GENERATOR);

const OURS_GAN: Fit = Fit::learnt("gan-ours", "", Source::Stage("gan"), Some(Network::Resnet9));
const OURS_CGAN_PD: Fit = Fit::learnt(
    "cgan-pd-ours",
    "",
    Source::Stage("cgan-pd"),
    Some(Network::Resnet9),
);

/// The run files of a data set.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stages {
    pub(super) gan: Stage,
    pub(super) paper_gan: Stage,
    pub(super) cgan_pd: Stage,
    pub(super) paper_cgan_pd: Stage,
    pub(super) ac_gan: Stage,
    pub(super) cp_gan: Stage,
    pub(super) oracle_cgan_pd: Stage,
    pub(super) oracle_ac_gan: Stage,
}

/// The chains that every data set has, in the order of the table; `seeds` are those of ours.
pub(super) const fn chains(stages: &Stages, seeds: &'static [u64]) -> [Chain; 7] {
    [
        Chain {
            name: "real",
            picture: "real.png",
            gan: None,
            paper: None,
            ours: None,
            ceiling: None,
            seeds: &[0],
            lines: REAL,
        },
        Chain {
            name: "gan",
            picture: "gan.png",
            gan: Some(stages.gan),
            paper: Some(stages.paper_gan),
            ours: Some(Ours::Fit(OURS_GAN)),
            ceiling: Some(OURS_GAN.ceiling("gan-ceiling", "")),
            seeds,
            lines: GAN_LINES,
        },
        Chain {
            name: "cgan-pd",
            picture: "cgan-pd.png",
            gan: Some(stages.cgan_pd),
            paper: Some(stages.paper_cgan_pd),
            ours: Some(Ours::Fit(OURS_CGAN_PD)),
            ceiling: None,
            seeds,
            lines: CGAN_PD_LINES,
        },
        baseline("ac-gan", "ac-gan.png", stages.ac_gan, AC_GAN),
        baseline("cp-gan", "cp-gan.png", stages.cp_gan, CP_GAN),
        baseline(
            "oracle-cgan-pd",
            "oracle-cgan-pd.png",
            stages.oracle_cgan_pd,
            ORACLE_CGAN_PD,
        ),
        baseline(
            "oracle-ac-gan",
            "oracle-ac-gan.png",
            stages.oracle_ac_gan,
            ORACLE_AC_GAN,
        ),
    ]
}

/// A chain without classifiers, of one seed.
pub(super) const fn baseline(
    name: &'static str,
    picture: &'static str,
    gan: Stage,
    lines: &'static [Kept],
) -> Chain {
    Chain {
        name,
        picture,
        gan: Some(gan),
        paper: None,
        ours: None,
        ceiling: None,
        seeds: &[0],
        lines,
    }
}

const REAL: &[Kept] = &[line("real training items (floor)", From::Training)];
const AC_GAN: &[Kept] = &[line("AC-GAN*", ASKED)];
const CP_GAN: &[Kept] = &[line("CP-GAN", ASKED)];
const ORACLE_CGAN_PD: &[Kept] = &[line("oracle cGAN-PD (shown the joint class)", ORACLE)];
const ORACLE_AC_GAN: &[Kept] = &[line("oracle AC-GAN (shown the joint class)", ORACLE)];

const GAN_LINES: &[Kept] = &[
    line("GAN alone, by the referee's class", From::Unfiltered),
    corrected("GAN + S2M, paper's way, actual logits", false, false),
    corrected("GAN + S2M, paper's way, temperature", true, false),
    corrected("GAN + S2M, paper's way, γ", false, true),
    corrected("GAN + S2M, paper's way, both", true, true),
    line("GAN + S2M, ours, floor 0", From::Ours(Some(0.0))),
    line("GAN + S2M, ours, floor 0.5", From::Ours(Some(0.5))).judged(),
    line("GAN + S2M, ours, floor 0.7", From::Ours(Some(0.7))).judged(),
    line("GAN + S2M, ours, floor 0.8", From::Ours(Some(0.8))),
    line("GAN + S2M, ours, floor 0.9", From::Ours(Some(0.9))),
    line("GAN + S2M, ours, floor 0.95", From::Ours(Some(0.95))).judged(),
    line("GAN + S2M, ours, defaults", From::Ours(None)),
    line(
        "GAN, all labels shown (ceiling), floor 0.9",
        From::Ceiling(Some(0.9)),
    )
    .judged(),
    line(
        "GAN, all labels shown (ceiling), defaults",
        From::Ceiling(None),
    ),
];

const CGAN_PD_LINES: &[Kept] = &[
    line("cGAN-PD*", ASKED),
    corrected("cGAN-PD + S2M, paper's way, actual logits", false, false),
    corrected("cGAN-PD + S2M, paper's way, temperature", true, false),
    corrected("cGAN-PD + S2M, paper's way, γ", false, true),
    corrected("cGAN-PD + S2M, paper's way, both", true, true),
    line("cGAN-PD + S2M, ours, floor 0", From::Ours(Some(0.0))),
    line("cGAN-PD + S2M, ours, floor 0.8", From::Ours(Some(0.8))),
    line("cGAN-PD + S2M, ours, floor 0.9", From::Ours(Some(0.9))),
    line("cGAN-PD + S2M, ours, floor 0.95", From::Ours(Some(0.95))).judged(),
    line("cGAN-PD + S2M, ours, defaults", From::Ours(None)),
];
