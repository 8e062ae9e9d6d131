//! What Table 1 compares: data sets, methods, and the paper's figures.

use std::num::NonZeroUsize;

use s2m::samplers::SamplerChoice;
use s2m::settings::{CalibrationChoice, DEFAULT_TV};
use s2m_fit::trainer::Kind;

use crate::results::Published;
use crate::stages::Stage;

/// Items of A that are not in B.
pub(crate) const QUERY: &str = "A - B";

/// Steps of the paper's chains on this data.
pub(crate) const STEPS: NonZeroUsize = NonZeroUsize::new(100).expect("100 is not zero");

macro_rules! stage {
    ($name:literal, $kind:ident) => {
        Stage {
            name: $name,
            kind: Kind::$kind,
            template: include_str!(concat!("../../../../experiments/table1/", $name, ".toml")),
        }
    };
}

/// Every network of the table, in the order of training.
pub(crate) const STAGES: [Stage; 10] = [
    stage!("referee-mnist", Referee),
    stage!("referee-fmnist", Referee),
    GAN,
    stage!("classifier-3-5", Classifier),
    stage!("classifier-even", Classifier),
    stage!("rumi-lsgan", Gan),
    stage!("cp-gan", Gan),
    stage!("gen-pu", Gan),
    stage!("conditional", Gan),
    stage!("classifier-conditional", Classifier),
];

/// The stage whose run file says what the data sets are, and which seeds there are.
pub(crate) const GAN: Stage = stage!("gan", Gan);

/// One data set of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DataSet {
    /// Name in the run files.
    pub(crate) name: &'static str,
    /// Name in the table.
    pub(crate) title: &'static str,
    /// Stage of the referee.
    pub(crate) referee: &'static str,
    /// Stage of the classifier over the unconditional GAN.
    pub(crate) classifier: &'static str,
    /// Picture that shows it.
    pub(crate) picture: &'static str,
}

pub(crate) const DATA: [DataSet; 3] = [
    DataSet {
        name: "mnist-3-5",
        title: "MNIST-3/5",
        referee: "referee-mnist",
        classifier: "classifier-3-5",
        picture: "mnist.png",
    },
    DataSet {
        name: "mnist-even",
        title: "MNIST-Even",
        referee: "referee-mnist",
        classifier: "classifier-even",
        picture: "mnist.png",
    },
    DataSet {
        name: "fmnist-even",
        title: "FMNIST-Even",
        referee: "referee-fmnist",
        classifier: "classifier-even",
        picture: "fmnist.png",
    },
];

/// Where a method's items come from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Source {
    /// A generator, as it is, of this stage.
    Alone(&'static str),
    /// S2M over the GAN.
    Gan(CalibrationChoice, SamplerChoice),
    /// S2M over the conditional GAN.
    Conditional(CalibrationChoice, SamplerChoice),
}

/// One row of the table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Method {
    pub(crate) name: &'static str,
    pub(crate) source: Source,
    /// Data sets that it is for, by name.
    pub(crate) data: &'static [&'static str],
    /// The paper's accuracy in % and FID†, by data set.
    pub(crate) paper: &'static [(&'static str, [Published; 2])],
    /// Its name beside a row of the picture, where it has one.
    pub(crate) shown: Option<&'static str>,
}

const ALL: &[&str] = &["mnist-3-5", "mnist-even", "fmnist-even"];

const MH: SamplerChoice = SamplerChoice::Mh { steps: STEPS };
const REJECT: SamplerChoice = SamplerChoice::Reject { tv: DEFAULT_TV };
const PAPER: CalibrationChoice = CalibrationChoice::Paper;
const CHOSEN: CalibrationChoice = CalibrationChoice::Bundle;

const GEN_PU: &[(&str, [Published; 2])] = &[("mnist-3-5", [[99.33, 0.56], [1.93, 1.10]])];
const RUMI_LSGAN: &[(&str, [Published; 2])] = &[
    ("mnist-3-5", [[77.06, 1.54], [13.20, 1.19]]),
    ("mnist-even", [[86.11, 4.83], [3.44, 1.39]]),
    ("fmnist-even", [[91.07, 0.88], [3.23, 2.48]]),
];
const CP_GAN: &[(&str, [Published; 2])] = &[
    ("mnist-3-5", [[66.89, 1.46], [19.50, 0.90]]),
    ("mnist-even", [[87.87, 0.40], [2.23, 0.08]]),
    ("fmnist-even", [[81.21, 0.67], [6.14, 0.56]]),
];
const S2M: &[(&str, [Published; 2])] = &[
    ("mnist-3-5", [[99.52, 0.34], [0.88, 0.21]]),
    ("mnist-even", [[96.37, 0.25], [0.86, 0.24]]),
    ("fmnist-even", [[97.87, 0.66], [2.48, 0.29]]),
];

/// A row that the paper has no figures for.
const fn ours(name: &'static str, source: Source, data: &'static [&'static str]) -> Method {
    Method {
        name,
        source,
        data,
        paper: &[],
        shown: None,
    }
}

impl Method {
    const fn beside(mut self, paper: &'static [(&'static str, [Published; 2])]) -> Self {
        self.paper = paper;
        self
    }

    const fn shown(mut self, name: &'static str) -> Self {
        self.shown = Some(name);
        self
    }

    /// The paper's figures on a data set.
    pub(crate) fn published(&self, data: &str) -> Option<[Published; 2]> {
        let found = self.paper.iter().find(|(name, _)| *name == data);
        found.map(|(_, figures)| *figures)
    }
}

/// Every row, in the order of the table.
pub(crate) const METHODS: [Method; 12] = [
    ours("GAN alone", Source::Alone("gan"), ALL).shown("GAN alone"),
    ours("GenPU", Source::Alone("gen-pu"), &["mnist-3-5"])
        .beside(GEN_PU)
        .shown("GenPU"),
    ours("RumiLSGAN", Source::Alone("rumi-lsgan"), ALL)
        .beside(RUMI_LSGAN)
        .shown("RumiLSGAN"),
    ours("CP-GAN", Source::Alone("cp-gan"), ALL)
        .beside(CP_GAN)
        .shown("CP-GAN"),
    ours(
        "GAN + S2M, paper's settings, mh, K = 100",
        Source::Gan(PAPER, MH),
        ALL,
    )
    .beside(S2M)
    .shown("S2M, paper's settings"),
    ours(
        "GAN + S2M, paper's settings, reject, TV 0.01",
        Source::Gan(PAPER, REJECT),
        ALL,
    ),
    ours(
        "GAN + S2M, chosen settings, mh, K = 100",
        Source::Gan(CHOSEN, MH),
        ALL,
    ),
    ours(
        "GAN + S2M, chosen settings, reject, TV 0.01",
        Source::Gan(CHOSEN, REJECT),
        ALL,
    )
    .shown("S2M, chosen settings"),
    ours(
        "conditional GAN + S2M, paper's settings, mh, K = 100",
        Source::Conditional(PAPER, MH),
        &["mnist-even"],
    ),
    ours(
        "conditional GAN + S2M, paper's settings, reject, TV 0.01",
        Source::Conditional(PAPER, REJECT),
        &["mnist-even"],
    ),
    ours(
        "conditional GAN + S2M, chosen settings, mh, K = 100",
        Source::Conditional(CHOSEN, MH),
        &["mnist-even"],
    ),
    ours(
        "conditional GAN + S2M, chosen settings, reject, TV 0.01",
        Source::Conditional(CHOSEN, REJECT),
        &["mnist-even"],
    )
    .shown("S2M, conditional"),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// A row's name says its sampler and whose settings it has.
    #[test]
    fn names_state_the_settings() {
        for method in METHODS {
            let (Source::Gan(calibration, sampler) | Source::Conditional(calibration, sampler)) =
                method.source
            else {
                assert!(!method.name.contains("S2M"));
                continue;
            };
            let whose = match calibration {
                CalibrationChoice::None => "no calibration",
                CalibrationChoice::Paper => "paper's settings",
                CalibrationChoice::Bundle => "chosen settings",
            };
            let ending = match sampler {
                SamplerChoice::Mh { steps } => format!("mh, K = {steps}"),
                SamplerChoice::Reject { tv } => format!("reject, TV {tv}"),
                other => panic!("{other:?}"),
            };
            assert!(method.name.ends_with(&format!("{whose}, {ending}")));
            let conditional = matches!(method.source, Source::Conditional(..));
            assert_eq!(conditional, method.name.starts_with("conditional"));
        }
    }

    #[test]
    fn every_name_refers_to_something_that_is_there() {
        let stage = |name: &str| STAGES.iter().any(|stage| stage.name == name);
        for data in DATA {
            assert!(stage(data.referee) && stage(data.classifier));
        }
        for method in METHODS {
            if let Source::Alone(name) = method.source {
                assert!(stage(name), "{name}");
            }
            let published = method.paper.iter().map(|(name, _)| name);
            for name in method.data.iter().chain(published) {
                assert!(ALL.contains(name), "{name}");
            }
        }
        assert_eq!(DATA.map(|data| data.name), ALL);
    }
}
