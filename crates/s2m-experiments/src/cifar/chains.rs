//! What the table compares: one chain for every GAN, the lines that rest on it, and the paper's figures.

use std::num::NonZeroUsize;

use s2m_fit::Network;
use s2m_fit::trainer::Kind;
use s2m_runs::folder::GENERATOR;

use crate::fits::{Fit, Source};
use crate::results::Published;
use crate::stages::Stage;

/// The name of the data in every run file.
pub(super) const DATA: &str = "cifar-7to3";

/// Steps of the paper's chains on this data.
pub(super) const STEPS: NonZeroUsize = NonZeroUsize::new(200).expect("200 is not zero");

macro_rules! stage {
    ($name:literal, $kind:ident) => {
        Stage {
            name: $name,
            kind: Kind::$kind,
            template: include_str!(concat!("../../../../experiments/cifar/", $name, ".toml")),
        }
    };
}

/// The judge of all lines.
pub(super) const REFEREE: Stage = Stage {
    name: "referee",
    kind: Kind::Referee,
    template: include_str!("../../../../experiments/existing-gan/referee.toml"),
};

/// The generator whose run file says what the data is.
pub(super) const GAN: Stage = stage!("gan", Gan);
const CGAN_PD: Stage = stage!("cgan-pd", Gan);

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
    /// The paper's figures, as far as it has them.
    pub(super) paper: &'static [Published],
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

const fn line(name: &'static str, from: From) -> Kept {
    Kept {
        name,
        from,
        whole: true,
        paper: &[],
    }
}

impl Kept {
    /// Judged by the referee alone.
    const fn judged(mut self) -> Self {
        self.whole = false;
        self
    }

    const fn beside(mut self, paper: &'static [Published]) -> Self {
        self.paper = paper;
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

const ASKED: From = From::Asked("generator-joint.toml");
const ORACLE: From = From::Asked(GENERATOR);

/// Accuracy in %, FID, Inception score, precision, recall, density, coverage: table 2 of the paper.
const PAPER_CGAN_PD: &[Published] = &[
    [27.19, 0.53],
    [21.12, 0.62],
    [7.94, 0.02],
    [0.71, 0.01],
    [0.66, 0.00],
    [0.81, 0.03],
    [0.78, 0.01],
];
const PAPER_AC_GAN: &[Published] = &[
    [31.06, 1.17],
    [26.42, 0.82],
    [7.31, 0.10],
    [0.69, 0.01],
    [0.66, 0.01],
    [0.71, 0.01],
    [0.70, 0.01],
];
const PAPER_CP_GAN: &[Published] = &[
    [42.62, 0.54],
    [27.88, 2.00],
    [7.42, 0.06],
    [0.71, 0.00],
    [0.66, 0.00],
    [0.76, 0.00],
    [0.71, 0.02],
];
const PAPER_GAN_S2M: &[Published] = &[
    [77.65, 1.22],
    [14.42, 0.55],
    [8.71, 0.16],
    [0.72, 0.00],
    [0.67, 0.00],
    [0.92, 0.02],
    [0.87, 0.01],
];
const PAPER_CGAN_PD_S2M: &[Published] = &[
    [80.62, 2.08],
    [14.14, 0.34],
    [9.06, 0.18],
    [0.75, 0.01],
    [0.66, 0.01],
    [1.09, 0.12],
    [0.90, 0.01],
];
const PAPER_ORACLE_CGAN_PD: &[Published] = &[
    [87.60, 0.15],
    [16.55, 0.69],
    [8.39, 0.18],
    [0.73, 0.01],
    [0.65, 0.01],
    [0.89, 0.05],
    [0.85, 0.02],
];
const PAPER_ORACLE_AC_GAN: &[Published] = &[
    [94.14, 0.39],
    [16.14, 0.43],
    [8.44, 0.03],
    [0.74, 0.00],
    [0.63, 0.00],
    [0.89, 0.02],
    [0.84, 0.00],
];

/// A chain without classifiers.
const fn baseline(
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

const OURS_GAN: Fit = Fit::learnt("gan-ours", "", Source::Stage("gan"), Some(Network::Resnet9));
const OURS_CGAN_PD: Fit = Fit::learnt(
    "cgan-pd-ours",
    "",
    Source::Stage("cgan-pd"),
    Some(Network::Resnet9),
);

/// Every chain, in the order of the table.
pub(super) const CHAINS: [Chain; 8] = [
    Chain {
        name: "real",
        picture: "real.png",
        gan: None,
        paper: None,
        ours: None,
        ceiling: None,
        seeds: &[0],
        lines: &[line("real training items (floor)", From::Training)],
    },
    Chain {
        name: "gan",
        picture: "gan.png",
        gan: Some(GAN),
        paper: Some(stage!("paper-gan", Classifier)),
        ours: Some(Ours::Fit(OURS_GAN)),
        ceiling: Some(OURS_GAN.ceiling("gan-ceiling", "")),
        seeds: &[0, 1, 2],
        lines: &[
            line("GAN alone, by the referee's class", From::Unfiltered),
            corrected("GAN + S2M, paper's way, actual logits", false, false)
                .beside(&[[62.73, 1.63], [14.99, 0.17]]),
            corrected("GAN + S2M, paper's way, temperature", true, false)
                .beside(&[[68.40, 0.82], [14.81, 0.23]]),
            corrected("GAN + S2M, paper's way, γ", false, true),
            corrected("GAN + S2M, paper's way, both", true, true).beside(PAPER_GAN_S2M),
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
        ],
    },
    Chain {
        name: "cgan-pd",
        picture: "cgan-pd.png",
        gan: Some(CGAN_PD),
        paper: Some(stage!("paper-cgan-pd", Classifier)),
        ours: Some(Ours::Fit(OURS_CGAN_PD)),
        ceiling: None,
        seeds: &[0, 1, 2],
        lines: &[
            line("cGAN-PD*", ASKED).beside(PAPER_CGAN_PD),
            corrected("cGAN-PD + S2M, paper's way, actual logits", false, false)
                .beside(&[[72.33, 0.52], [14.11, 0.23]]),
            corrected("cGAN-PD + S2M, paper's way, temperature", true, false)
                .beside(&[[76.32, 1.44], [14.12, 0.31]]),
            corrected("cGAN-PD + S2M, paper's way, γ", false, true),
            corrected("cGAN-PD + S2M, paper's way, both", true, true).beside(PAPER_CGAN_PD_S2M),
            line("cGAN-PD + S2M, ours, floor 0", From::Ours(Some(0.0))),
            line("cGAN-PD + S2M, ours, floor 0.8", From::Ours(Some(0.8))),
            line("cGAN-PD + S2M, ours, floor 0.9", From::Ours(Some(0.9))),
            line("cGAN-PD + S2M, ours, floor 0.95", From::Ours(Some(0.95))).judged(),
            line("cGAN-PD + S2M, ours, defaults", From::Ours(None)),
        ],
    },
    baseline(
        "ac-gan",
        "ac-gan.png",
        stage!("ac-gan", Gan),
        &[line("AC-GAN*", ASKED).beside(PAPER_AC_GAN)],
    ),
    baseline(
        "cp-gan",
        "cp-gan.png",
        stage!("cp-gan", Gan),
        &[line("CP-GAN", ASKED).beside(PAPER_CP_GAN)],
    ),
    baseline(
        "oracle-cgan-pd",
        "oracle-cgan-pd.png",
        stage!("oracle-cgan-pd", Gan),
        &[line("oracle cGAN-PD (shown the joint class)", ORACLE).beside(PAPER_ORACLE_CGAN_PD)],
    ),
    baseline(
        "oracle-ac-gan",
        "oracle-ac-gan.png",
        stage!("oracle-ac-gan", Gan),
        &[line("oracle AC-GAN (shown the joint class)", ORACLE).beside(PAPER_ORACLE_AC_GAN)],
    ),
    Chain {
        ours: Some(Ours::Stage(stage!("small-classifier", Classifier))),
        ..baseline(
            "small",
            "small.png",
            stage!("small", Gan),
            &[
                line("narrow GAN alone, by the referee's class", From::Unfiltered),
                line(
                    "narrow GAN + S2M, the bundle `cifar-7to3`",
                    From::Ours(None),
                ),
            ],
        )
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stages;

    #[test]
    fn names_are_told_apart_and_lines_have_what_they_rest_on() {
        let mut names: Vec<&str> = CHAINS
            .iter()
            .flat_map(|chain| chain.lines.iter().map(|line| line.name))
            .collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
        for chain in CHAINS {
            assert_eq!(chain.picture, format!("{}.png", chain.name));
            assert!(chain.gan.is_none_or(|gan| gan.name == chain.name));
            for line in chain.lines {
                let there = match line.from {
                    From::Training => chain.gan.is_none(),
                    From::Unfiltered | From::Asked(_) => chain.gan.is_some(),
                    From::Paper { .. } => chain.paper.is_some(),
                    From::Ours(_) => chain.ours.is_some(),
                    From::Ceiling(_) => chain.ceiling.is_some(),
                };
                assert!(there, "{}", line.name);
            }
        }
    }

    #[test]
    fn every_generator_and_the_referee_have_one_data_set() {
        let file = stages::template(&REFEREE);
        let referee = stages::recipe(&file, DATA).unwrap();
        for gan in CHAINS.iter().filter_map(|chain| chain.gan) {
            let recipe = stages::recipe(&stages::template(&gan), DATA).unwrap();
            assert_eq!(recipe.classes, referee.classes, "{}", gan.name);
            assert_eq!(recipe.labelling, referee.labelling, "{}", gan.name);
        }
        for chain in CHAINS {
            let ours = match chain.ours {
                Some(Ours::Stage(stage)) => Some(stage),
                Some(Ours::Fit(_)) | None => None,
            };
            for classifiers in chain.paper.into_iter().chain(ours) {
                let file = stages::template(&classifiers);
                let gan = file.get("gan").and_then(|gan| gan.as_str());
                assert_eq!(gan, chain.gan.map(|gan| gan.name));
            }
        }
    }

    /// The paper's settings: temperatures by the number of excluded labels, γ by the generator.
    #[test]
    fn the_papers_classifiers_have_its_settings() {
        for (chain, margin) in [("gan", 0.5), ("cgan-pd", 0.8)] {
            let chain = CHAINS.iter().find(|c| c.name == chain).unwrap();
            let file = stages::template(&chain.paper.unwrap());
            let entry: s2m_model::manifest::CalibrationEntry =
                file["paper"].clone().try_into().unwrap();
            assert_eq!(entry.margin["default"], margin);
            let by_excluded =
                s2m_model::manifest::TemperatureValue::ByExcluded(vec![0.2, 1.0, 1.2]);
            assert_eq!(entry.temperature.class, by_excluded);
            assert_eq!(entry.temperature.fake_class, by_excluded);
        }
    }
}
