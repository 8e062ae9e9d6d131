//! CelebA with three and with six labels, at 64 pixels, on the part of its pictures that is at hand.

use std::num::NonZeroUsize;

use s2m_fit::trainer::Kind;

use super::chains::{Chain, Stages, Subject, chains};
use crate::results::Published;
use crate::stages::Stage;

macro_rules! stage {
    ($folder:literal, $name:literal, $kind:ident) => {
        Stage {
            name: $name,
            kind: Kind::$kind,
            template: include_str!(concat!(
                "../../../../experiments/",
                $folder,
                "/",
                $name,
                ".toml"
            )),
        }
    };
}

macro_rules! stages {
    ($folder:literal) => {
        Stages {
            gan: stage!($folder, "gan", Gan),
            paper_gan: stage!($folder, "paper-gan", Classifier),
            cgan_pd: stage!($folder, "cgan-pd", Gan),
            paper_cgan_pd: stage!($folder, "paper-cgan-pd", Classifier),
            ac_gan: stage!($folder, "ac-gan", Gan),
            cp_gan: stage!($folder, "cp-gan", Gan),
            oracle_cgan_pd: stage!($folder, "oracle-cgan-pd", Gan),
            oracle_ac_gan: stage!($folder, "oracle-ac-gan", Gan),
        }
    };
}

const BMS_CHAINS: [Chain; 7] = chains(&stages!("celeba-bms"), &[0]);
const ABMNSW_CHAINS: [Chain; 7] = chains(&stages!("celeba-abmnsw"), &[0]);

/// Black hair, male, smiling.
pub(crate) const BMS: Subject = Subject {
    name: "celeba-bms",
    title: "CelebA-BMS",
    data: "celeba-bms",
    steps: NonZeroUsize::new(200).expect("200 is not zero"),
    referee: stage!("celeba-bms", "referee", Referee),
    chains: &BMS_CHAINS,
    published: BMS_PUBLISHED,
    common: None,
    about: "Labels: black hair, male, smiling; images without any of them are left out. The paper trained on all 202,599 images; here are 30,000 of them at 64 × 64 pixels, so that its figures stand beside ours as a landmark, and the lines of real items and of all labels shown are floor and ceiling. Samples are of every joint class as often as test items are, at least 200 of each for its accuracy. Accuracy: the referee, a ResNet-9 that judges each label apart, agrees with what was asked for, mean of joint classes. FID, precision, recall, density and coverage are over all joint classes together against the test items, KID is per joint class, all on features of an InceptionV3 for ImageNet that is not the network of published FIDs. The paper's way: MobileNetV2, all outputs on one trunk, `mh`, its temperatures and γ. Ours: `s2m fit` and `s2m sample` with defaults, `reject` at TV 0.01; floor `defaults` is the bundle's. Starred: asked for a joint class of n labels with 1/n for each. At most 200 calls per sample.",
    elsewhere: None,
};

/// Bangs, black hair, male, no beard, smiling, wearing lipstick.
pub(crate) const ABMNSW: Subject = Subject {
    name: "celeba-abmnsw",
    title: "CelebA-ABMNSW",
    data: "celeba-abmnsw",
    steps: NonZeroUsize::new(1000).expect("1000 is not zero"),
    referee: stage!("celeba-abmnsw", "referee", Referee),
    chains: &ABMNSW_CHAINS,
    published: ABMNSW_PUBLISHED,
    common: Some(50),
    about: "Labels: bangs, black hair, male, no beard, smiling, wearing lipstick; images without any of them are left out. Lines are of the joint classes that have an item for training and one for tests; those of at least 50 test items have a mean of their own, because the others have few items to learn from. The paper trained on all 202,599 images; here are 30,000 of them at 64 × 64 pixels, so that its figures stand beside ours as a landmark, and the lines of real items and of all labels shown are floor and ceiling. Samples are of every joint class as often as test items are, at least 200 of each for its accuracy. Accuracy: the referee, a ResNet-9 that judges each label apart, agrees with what was asked for, mean of joint classes. FID, precision, recall, density and coverage are over all joint classes together against the test items, KID is per joint class, all on features of an InceptionV3 for ImageNet that is not the network of published FIDs. The paper's way: MobileNetV2, all outputs on one trunk, `mh`, its temperatures and γ. Ours: `s2m fit` and `s2m sample` with defaults, `reject` at TV 0.01; floor `defaults` is the bundle's. Starred: asked for a joint class of n labels with 1/n for each. At most 1,000 calls per sample.",
    elsewhere: None,
};

/// Table 2 and the ablation.
const BMS_PUBLISHED: &[(&str, &[Published])] = &[
    (
        "GAN + S2M, paper's way, actual logits",
        &[[71.14, 1.46], [9.86, 1.41]],
    ),
    (
        "GAN + S2M, paper's way, temperature",
        &[[74.99, 1.95], [9.81, 1.21]],
    ),
    (
        "GAN + S2M, paper's way, both",
        &[
            [85.22, 4.27],
            [10.50, 0.97],
            [2.51, 0.08],
            [0.83, 0.02],
            [0.48, 0.03],
            [1.36, 0.08],
            [0.89, 0.02],
        ],
    ),
    (
        "cGAN-PD*",
        &[
            [39.84, 0.70],
            [10.97, 1.56],
            [2.32, 0.06],
            [0.79, 0.01],
            [0.48, 0.04],
            [1.19, 0.05],
            [0.86, 0.02],
        ],
    ),
    (
        "cGAN-PD + S2M, paper's way, actual logits",
        &[[73.32, 4.62], [10.29, 0.83]],
    ),
    (
        "cGAN-PD + S2M, paper's way, temperature",
        &[[78.50, 2.63], [10.21, 0.41]],
    ),
    (
        "cGAN-PD + S2M, paper's way, both",
        &[
            [90.44, 1.05],
            [10.63, 0.29],
            [2.46, 0.06],
            [0.84, 0.00],
            [0.48, 0.02],
            [1.40, 0.02],
            [0.88, 0.01],
        ],
    ),
    (
        "AC-GAN*",
        &[
            [52.01, 1.81],
            [12.39, 1.02],
            [2.32, 0.10],
            [0.79, 0.02],
            [0.49, 0.01],
            [1.17, 0.09],
            [0.85, 0.02],
        ],
    ),
    (
        "CP-GAN",
        &[
            [87.36, 2.05],
            [13.38, 1.36],
            [2.43, 0.09],
            [0.78, 0.01],
            [0.45, 0.02],
            [1.08, 0.04],
            [0.82, 0.02],
        ],
    ),
    (
        "oracle cGAN-PD (shown the joint class)",
        &[
            [78.35, 1.99],
            [10.38, 0.55],
            [2.45, 0.07],
            [0.79, 0.03],
            [0.48, 0.02],
            [1.12, 0.18],
            [0.86, 0.02],
        ],
    ),
    (
        "oracle AC-GAN (shown the joint class)",
        &[
            [91.57, 0.43],
            [10.41, 1.52],
            [2.40, 0.03],
            [0.79, 0.02],
            [0.49, 0.04],
            [1.18, 0.12],
            [0.86, 0.03],
        ],
    ),
];

/// Table 2.
const ABMNSW_PUBLISHED: &[(&str, &[Published])] = &[
    (
        "GAN + S2M, paper's way, both",
        &[
            [70.04, 2.97],
            [9.77, 0.22],
            [2.62, 0.05],
            [0.81, 0.01],
            [0.47, 0.01],
            [1.28, 0.04],
            [0.87, 0.01],
        ],
    ),
    (
        "cGAN-PD*",
        &[
            [15.28, 0.08],
            [11.09, 0.67],
            [2.32, 0.03],
            [0.80, 0.01],
            [0.47, 0.03],
            [1.19, 0.07],
            [0.85, 0.02],
        ],
    ),
    (
        "cGAN-PD + S2M, paper's way, both",
        &[
            [79.74, 0.78],
            [10.30, 0.48],
            [2.45, 0.06],
            [0.85, 0.01],
            [0.47, 0.02],
            [1.45, 0.06],
            [0.88, 0.00],
        ],
    ),
    (
        "AC-GAN*",
        &[
            [23.97, 0.64],
            [11.92, 2.06],
            [2.44, 0.06],
            [0.77, 0.04],
            [0.45, 0.02],
            [1.11, 0.13],
            [0.82, 0.04],
        ],
    ),
    (
        "CP-GAN",
        &[
            [79.09, 1.14],
            [14.97, 4.18],
            [2.45, 0.04],
            [0.74, 0.03],
            [0.46, 0.03],
            [0.95, 0.08],
            [0.77, 0.06],
        ],
    ),
    (
        "oracle cGAN-PD (shown the joint class)",
        &[
            [69.61, 2.91],
            [13.54, 2.54],
            [2.44, 0.11],
            [0.79, 0.02],
            [0.42, 0.04],
            [1.15, 0.10],
            [0.84, 0.02],
        ],
    ),
    (
        "oracle AC-GAN (shown the joint class)",
        &[
            [91.37, 1.14],
            [13.46, 1.29],
            [2.30, 0.05],
            [0.80, 0.02],
            [0.36, 0.01],
            [1.17, 0.09],
            [0.82, 0.01],
        ],
    ),
];
