//! CIFAR-7to3: seven joint classes of three labels, in equal parts.

use std::num::NonZeroUsize;

use s2m_fit::Network;
use s2m_fit::trainer::Kind;

use super::chains::{Chain, From, Ours, Stages, Subject, baseline, chains, line};
use crate::fits::{Fit, Source};
use crate::results::Published;
use crate::stages::Stage;

macro_rules! stage {
    ($name:literal, $kind:ident) => {
        Stage {
            name: $name,
            kind: Kind::$kind,
            template: include_str!(concat!("../../../../experiments/cifar/", $name, ".toml")),
        }
    };
}

const STAGES: Stages = Stages {
    gan: stage!("gan", Gan),
    paper_gan: stage!("paper-gan", Classifier),
    cgan_pd: stage!("cgan-pd", Gan),
    paper_cgan_pd: stage!("paper-cgan-pd", Classifier),
    ac_gan: stage!("ac-gan", Gan),
    cp_gan: stage!("cp-gan", Gan),
    oracle_cgan_pd: stage!("oracle-cgan-pd", Gan),
    oracle_ac_gan: stage!("oracle-ac-gan", Gan),
};

/// The chain of the bundle that ships.
const SMALL: Chain = Chain {
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
};

/// A generator that is no GAN.
const FLOW: Chain = Chain {
    ours: Some(Ours::Fit(Fit::learnt(
        "flow-ours",
        "",
        Source::Stage("flow"),
        Some(Network::Resnet9),
    ))),
    ..baseline(
        "flow",
        "flow.png",
        stage!("flow", Gan),
        &[
            line("flow alone, by the referee's class", From::Unfiltered),
            line("flow + S2M, ours, defaults", From::Ours(None)),
        ],
    )
};

const CHAINS: [Chain; 9] = {
    let [
        real,
        gan,
        cgan_pd,
        ac_gan,
        cp_gan,
        oracle_cgan_pd,
        oracle_ac_gan,
    ] = chains(&STAGES, &[0, 1, 2]);
    [
        real,
        gan,
        cgan_pd,
        ac_gan,
        cp_gan,
        oracle_cgan_pd,
        oracle_ac_gan,
        SMALL,
        FLOW,
    ]
};

/// Table 2 of the paper, its part on CIFAR-7to3.
pub(crate) const CIFAR: Subject = Subject {
    name: "cifar",
    title: "CIFAR-7to3",
    data: "cifar-7to3",
    steps: NonZeroUsize::new(200).expect("200 is not zero"),
    referee: Stage {
        name: "referee",
        kind: Kind::Referee,
        template: include_str!("../../../../experiments/existing-gan/referee.toml"),
    },
    chains: &CHAINS,
    published: PUBLISHED,
    common: None,
    about: "Samples are of all seven joint classes in equal parts. Accuracy: the referee, a ResNet-9 over the seven classes, agrees with what was asked for. FID, precision, recall, density and coverage are over all joint classes together against the 7,000 test items, KID is per joint class, all on features of an InceptionV3 for ImageNet that is not the network of published FIDs: they compare lines of this table, and the paper's figures beside them are of its own network. The paper's way: MobileNetV2, all outputs on one trunk, `mh` with K = 200, its temperatures and γ. Ours: `s2m fit` and `s2m sample` with defaults, `reject` at TV 0.01; floor `defaults` is the bundle's. At most 200 calls per sample. Starred: asked for a joint class of n labels with 1/n for each.",
    elsewhere: Some(STUDIOGAN),
};

/// Published figures of another protocol.
const STUDIOGAN: &str = "Beside it, StudioGAN's class-conditional BigGAN on all of CIFAR-10 (batch 64, five critic steps, 10,000 samples against test items, its own feature network): 28.6, 14.9, 11.2, 9.5 and 8.1 after 10,000, 20,000, 30,000, 40,000 and 100,000 steps; with DiffAugment 28.0, 16.3, 13.1, 11.2 and 8.1.";

/// Table 2 and the ablation.
const PUBLISHED: &[(&str, &[Published])] = &[
    (
        "GAN + S2M, paper's way, actual logits",
        &[[62.73, 1.63], [14.99, 0.17]],
    ),
    (
        "GAN + S2M, paper's way, temperature",
        &[[68.40, 0.82], [14.81, 0.23]],
    ),
    (
        "GAN + S2M, paper's way, both",
        &[
            [77.65, 1.22],
            [14.42, 0.55],
            [8.71, 0.16],
            [0.72, 0.00],
            [0.67, 0.00],
            [0.92, 0.02],
            [0.87, 0.01],
        ],
    ),
    (
        "cGAN-PD*",
        &[
            [27.19, 0.53],
            [21.12, 0.62],
            [7.94, 0.02],
            [0.71, 0.01],
            [0.66, 0.00],
            [0.81, 0.03],
            [0.78, 0.01],
        ],
    ),
    (
        "cGAN-PD + S2M, paper's way, actual logits",
        &[[72.33, 0.52], [14.11, 0.23]],
    ),
    (
        "cGAN-PD + S2M, paper's way, temperature",
        &[[76.32, 1.44], [14.12, 0.31]],
    ),
    (
        "cGAN-PD + S2M, paper's way, both",
        &[
            [80.62, 2.08],
            [14.14, 0.34],
            [9.06, 0.18],
            [0.75, 0.01],
            [0.66, 0.01],
            [1.09, 0.12],
            [0.90, 0.01],
        ],
    ),
    (
        "AC-GAN*",
        &[
            [31.06, 1.17],
            [26.42, 0.82],
            [7.31, 0.10],
            [0.69, 0.01],
            [0.66, 0.01],
            [0.71, 0.01],
            [0.70, 0.01],
        ],
    ),
    (
        "CP-GAN",
        &[
            [42.62, 0.54],
            [27.88, 2.00],
            [7.42, 0.06],
            [0.71, 0.00],
            [0.66, 0.00],
            [0.76, 0.00],
            [0.71, 0.02],
        ],
    ),
    (
        "oracle cGAN-PD (shown the joint class)",
        &[
            [87.60, 0.15],
            [16.55, 0.69],
            [8.39, 0.18],
            [0.73, 0.01],
            [0.65, 0.01],
            [0.89, 0.05],
            [0.85, 0.02],
        ],
    ),
    (
        "oracle AC-GAN (shown the joint class)",
        &[
            [94.14, 0.39],
            [16.14, 0.43],
            [8.44, 0.03],
            [0.74, 0.00],
            [0.63, 0.00],
            [0.89, 0.02],
            [0.84, 0.00],
        ],
    ),
];
