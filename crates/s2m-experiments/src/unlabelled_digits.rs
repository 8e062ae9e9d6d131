//! A digit GAN that also makes digits for which there is no label: what the discriminator is worth, by every way to
//! fit it and along its price.
//!
//! Labels are even, high and loop; the digits 1 and 3 have none of them, so the labelled data lacks them, while the
//! generator makes all ten. Class outputs know nothing about them and are sure all the same.

use s2m_fit::trainer::Kind;
use s2m_fit::{Network, Way};

use super::fits::{self, BANK, Court, Fit, Source, Subject};
use super::stages::Stage;
use super::{Bench, Findings, stage};
use crate::Error;

const REFEREE: Stage = Stage {
    name: "referee-mnist",
    kind: Kind::Referee,
    template: include_str!("../../../experiments/table1/referee-mnist.toml"),
};

/// Says what the labels are; nothing is trained by it.
const LABELS: Stage = Stage {
    name: "labels",
    kind: Kind::Referee,
    template: include_str!("../../../experiments/unlabelled-digits/labels.toml"),
};

const DATA: &str = "unlabelled-digits";

/// A generator of convolutions that makes all ten digits.
const GAN: Stage = Stage {
    name: "gan",
    kind: Kind::Gan,
    template: include_str!("../../../experiments/unlabelled-digits/gan.toml"),
};

/// Two generators that make all ten digits: a good one, and a rough one of fully connected layers.
const GOOD: Source = Source::Network("gan/digits/seed-0/generator.onnx");
const ROUGH: Source = Source::Embedded("mnist-even");

const LENET5: Fit = Fit::learnt(
    "lenet5",
    "rough GAN, chosen way",
    ROUGH,
    Some(Network::Lenet5),
);
const BIGGAN: Fit = Fit::learnt("biggan", "chosen way", GOOD, Some(Network::Lenet5));

const FITS: [Fit; 10] = [
    BIGGAN,
    BIGGAN.in_way("biggan-shared", "way `shared`", Way::Shared),
    BIGGAN.in_way("biggan-frozen", "way `frozen`", Way::Frozen),
    BIGGAN.in_way("biggan-smoothed", "way `smoothed`", Way::Smoothed),
    BIGGAN.ceiling("biggan-ceiling", "all labels shown (ceiling)"),
    LENET5,
    LENET5.in_way("lenet5-shared", "rough GAN, way `shared`", Way::Shared),
    LENET5.in_way("lenet5-frozen", "rough GAN, way `frozen`", Way::Frozen),
    LENET5.in_way(
        "lenet5-smoothed",
        "rough GAN, way `smoothed`",
        Way::Smoothed,
    ),
    LENET5.ceiling("ceiling", "rough GAN, all labels shown (ceiling)"),
];

pub(super) fn run(bench: &Bench<'_>) -> Result<Findings, Error> {
    let rows = bench.request.rows;
    let of_good = |row: &String| row.starts_with(BIGGAN.name);
    let good = rows.is_none_or(|rows| rows.iter().any(of_good));
    let stages = [REFEREE, GAN];
    let runs = bench.finish(&stages[..if good { 2 } else { 1 }])?;
    let file = bench.place.run_file(&LABELS)?;
    let recipe = file
        .recipe(DATA)
        .cloned()
        .expect("a test looks for the data set");
    let subject = Subject {
        court: Court::open(bench, stage(&runs, REFEREE.name), &recipe)?,
        recipe,
        fits: &FITS,
    };
    let rows = fits::rows(bench, &subject)?;
    Ok(Findings {
        title: "Digits that no label is for",
        preface: vec![format!(
            "`s2m fit` for two generators that make all ten digits, a BigGAN (`gan.toml`) and the rough one of `mnist-even`, with labels even, high (5 or more) and loop (0, 6, 8, 9); the digits 1 and 3 carry none, so the labelled data lacks them. No digit is \"even + high - loop\" or \"loop - even - high\". Then `s2m sample` of the five joint classes that exist, by `reject` at TV 0.01, judged by a LeNet5 over ten digits. Right: means over the joint classes that gave samples within {BANK} calls each. Predicted: by networks that had no part in selecting; plain: by the one that selected. Floor `own`: the bundle's. No D_v: the discriminator has no say; 0.5 of D_v: half of its log odds count."
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
    use super::*;
    use crate::stages;

    #[test]
    fn the_generator_can_be_trained() {
        let settings: s2m_runs::GanSettings = toml::from_str(GAN.template).unwrap();
        settings.check().unwrap();
    }

    #[test]
    fn digits_one_and_three_have_no_label() {
        let recipe = stages::outline(&LABELS).recipe(DATA).cloned().unwrap();
        let labelled = |digit: u32| recipe.classes.iter().any(|class| class.of.contains(&digit));
        let without: Vec<u32> = (0..10).filter(|digit| !labelled(*digit)).collect();
        assert_eq!(without, [1, 3]);
    }
}
