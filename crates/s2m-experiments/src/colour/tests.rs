//! What every table of colour images keeps to.

use super::chains::{From, Ours, Subject};
use s2m_runs::{ClassifierSettings, GanSettings};

use super::*;
use crate::stages;

const ALL: [&Subject; 3] = [&CIFAR, &BMS, &ABMNSW];

#[test]
fn names_are_told_apart_and_lines_have_what_they_rest_on() {
    for subject in ALL {
        let lines = subject.chains.iter().flat_map(|chain| chain.lines);
        let mut names: Vec<&str> = lines.map(|line| line.name).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
        for (line, _) in subject.published {
            assert!(names.contains(line), "{line}");
        }
        for chain in subject.chains {
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
}

#[test]
fn every_generator_and_the_referee_have_one_data_set() {
    for subject in ALL {
        let file = stages::outline(&subject.referee);
        let referee = file.recipe(subject.data).cloned().unwrap();
        for gan in subject.chains.iter().filter_map(|chain| chain.gan) {
            let recipe = stages::outline(&gan).recipe(subject.data).cloned().unwrap();
            assert_eq!(recipe.classes, referee.classes, "{}", gan.name);
            assert_eq!(recipe.source, referee.source, "{}", gan.name);
            assert_eq!(recipe.labelling, referee.labelling, "{}", gan.name);
            let oracle = gan.name.starts_with("oracle");
            let settings: GanSettings = toml::from_str(gan.template).unwrap();
            settings.check().unwrap();
            assert_eq!(settings.oracle, oracle, "{}", gan.name);
        }
        for chain in subject.chains {
            let ours = match chain.ours {
                Some(Ours::Stage(stage)) => Some(stage),
                Some(Ours::Fit(_)) | None => None,
            };
            for classifiers in chain.paper.into_iter().chain(ours) {
                let settings: ClassifierSettings = toml::from_str(classifiers.template).unwrap();
                settings.check().unwrap();
                assert_eq!(settings.gan, chain.gan.map(|gan| gan.name.into()));
            }
        }
    }
}

/// The paper's settings: temperatures by the number of excluded labels, γ by data and generator.
#[test]
fn the_papers_classifiers_have_its_settings() {
    let three = vec![0.2, 1.0, 1.2];
    let six = vec![0.1, 0.1, 1.0, 1.0, 1.6, 1.6];
    for (subject, chain, margin, temperatures) in [
        (&CIFAR, "gan", 0.5, &three),
        (&CIFAR, "cgan-pd", 0.8, &three),
        (&BMS, "gan", 0.1, &three),
        (&BMS, "cgan-pd", 0.1, &three),
        (&ABMNSW, "gan", 0.5, &six),
        (&ABMNSW, "cgan-pd", 0.5, &six),
    ] {
        let chain = subject.chains.iter().find(|c| c.name == chain).unwrap();
        let file = chain.paper.unwrap().template;
        let settings: ClassifierSettings = toml::from_str(file).unwrap();
        let entry = settings.paper.unwrap();
        assert_eq!(entry.margin["default"], margin);
        let wanted = s2m_model::manifest::TemperatureValue::ByExcluded(temperatures.clone());
        assert_eq!(entry.temperature.class, wanted);
        assert_eq!(entry.temperature.fake_class, wanted);
    }
}

/// Classes are drawn as often as test items are, rare ones as often as their accuracy needs.
#[test]
fn rare_classes_are_drawn_more_often_than_they_are_pooled() {
    let labels = s2m_core::labels::Labels::new(["A", "B"]).unwrap();
    let shares: Vec<_> = Query::all_joint(&labels).zip([0.5, 0.499, 0.001]).collect();
    let samples = NonZeroUsize::new(10_000).unwrap();
    let wanted = Wanted::all(shares.clone(), samples);
    let counts = wanted.iter().map(|w| (w.samples.get(), w.pooled));
    assert_eq!(
        counts.collect::<Vec<_>>(),
        [(5000, 5000), (4990, 4990), (200, 10)]
    );
    let few = Wanted::all(shares, NonZeroUsize::new(6).unwrap());
    let counts = few.iter().map(|w| (w.samples.get(), w.pooled));
    assert_eq!(counts.collect::<Vec<_>>(), [(3, 3), (3, 3), (2, 1)]);
}
