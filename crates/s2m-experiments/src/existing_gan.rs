//! GANs from elsewhere on CIFAR-7to3: `s2m fit` by class probabilities and by label sets, all seven joint classes.
//!
//! The generators are files that nobody here has trained. Two trunks are fitted, each way of the discriminator is
//! looked at by itself, and as a ceiling a network is shown every item's whole label set.

use s2m_data::recipe::DataRecipe;
use s2m_fit::trainer::Kind;
use s2m_fit::{Network, Way};

use super::fits::{self, BANK, Court, Fit, Source, Subject};
use super::stages::Stage;
use super::{Bench, Findings, stage};
use crate::Error;

const REFEREE: Stage = Stage {
    name: "referee",
    kind: Kind::Referee,
    template: include_str!("../../../experiments/existing-gan/referee.toml"),
};

/// Every network that a run file states.
pub(super) const STAGES: [Stage; 1] = [REFEREE];

const DATA: &str = "cifar-7to3";

/// Share of the training items that a fit holds out; the referee needs fewer.
const HELD_OUT: f64 = 0.1;

const BIGGAN: Source = Source::File("cifar-gan/biggan32-cifar7to3.onnx");
const DCGAN: Source = Source::File("cifar-gan/dcgan-seed-{seed}.onnx");

const RESNET9: Fit = Fit::learnt("resnet9", "ResNet-9", BIGGAN, Some(Network::Resnet9));
const ROUGH: Fit = Fit::learnt("dcgan", "DCGAN, ResNet-9", DCGAN, Some(Network::Resnet9));

const FITS: [Fit; 8] = [
    RESNET9,
    RESNET9.in_way("resnet9-shared", "ResNet-9, way `shared`", Way::Shared),
    RESNET9.in_way("resnet9-frozen", "ResNet-9, way `frozen`", Way::Frozen),
    RESNET9.in_way(
        "resnet9-smoothed",
        "ResNet-9, way `smoothed`",
        Way::Smoothed,
    ),
    Fit::learnt(
        "mobilenet-v2",
        "MobileNetV2",
        BIGGAN,
        Some(Network::MobilenetV2),
    ),
    RESNET9.ceiling("ceiling", "ResNet-9, all labels (ceiling)"),
    ROUGH,
    ROUGH.ceiling("dcgan-ceiling", "DCGAN, ResNet-9, all labels (ceiling)"),
];

pub(super) fn run(bench: &Bench<'_>) -> Result<Findings, Error> {
    let runs = bench.finish(&STAGES)?;
    let recipe = DataRecipe {
        validation: HELD_OUT,
        ..bench
            .place
            .run_file(&REFEREE)?
            .recipe(DATA)
            .cloned()
            .expect("a test looks for the data set")
    };
    let subject = Subject {
        court: Court::open(bench, stage(&runs, REFEREE.name), &recipe)?,
        recipe,
        fits: &FITS,
    };
    let rows = fits::rows(bench, &subject)?;
    Ok(Findings {
        title: "An existing GAN: CIFAR-7to3, class probabilities against label sets",
        preface: vec![format!(
            "`s2m fit` for a BigGAN-32 (`cifar-gan/biggan32-cifar7to3.onnx`) and for DCGANs of [docs/existing-gan.md](../../docs/existing-gan.md), trained elsewhere, from one label per picture; then `s2m sample` of every joint class by `reject` at TV 0.01. The referee is a ResNet-9 over the seven classes. Right: means over the joint classes that gave samples within {BANK} calls each. Predicted: by networks that had no part in selecting; plain: by the one that selected. Floor `own`: the bundle's. No D_v: the discriminator has no say; 0.5 of D_v: half of its log odds count."
        )],
        seeds: rows.seeds,
        runs,
        tables: rows.tables,
        missing: rows.missing,
        pictures: rows
            .prediction
            .map(|picture| ("prediction.png", picture))
            .into_iter()
            .collect(),
    })
}

#[cfg(test)]
mod tests {
    use s2m_core::labels::{LabelSet, Labels};

    use super::*;
    use crate::stages;

    #[test]
    fn the_referee_knows_the_data_set_and_its_seven_joint_classes() {
        let recipe = stages::outline(&REFEREE).recipe(DATA).cloned().unwrap();
        let names = recipe.classes.iter().map(|class| class.name.clone());
        let labels = Labels::new(names).unwrap();
        let mut sets: Vec<LabelSet> = (0..7_u32)
            .map(|class| {
                let has = |label: &usize| recipe.classes[*label].of.contains(&class);
                (0..labels.len()).filter(has).collect()
            })
            .collect();
        sets.sort_unstable();
        sets.dedup();
        assert_eq!(sets.len(), 7);
    }

    /// A row by one way rests on the trainings of another row, of the same generator and network.
    #[test]
    fn rows_by_one_way_rest_on_a_row_that_is_there() {
        for fit in FITS {
            let Some(trained_by) = fit.trained_by else {
                continue;
            };
            let own = FITS.iter().find(|own| own.name == trained_by).unwrap();
            assert_eq!((own.generator, own.network), (fit.generator, fit.network));
            assert!(own.way.is_none() && fit.way.is_some());
        }
    }
}
