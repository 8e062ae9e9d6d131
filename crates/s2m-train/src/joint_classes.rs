//! The joint classes that training items have: what an oracle is shown in the place of single labels, and what
//! generators of single labels can be asked for.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use s2m_core::labels::{LabelSet, Labels};
use s2m_data::recipe::Loaded;
use s2m_data::view::Positive;

/// Most joint classes of one run.
const MOST: usize = 64;

/// The label sets of the training items that show a label, in ascending order of their bits.
fn sets(data: &Loaded) -> Vec<LabelSet> {
    let items: BTreeSet<u32> = data.positives.iter().map(|shown| shown.item).collect();
    let sets = items.iter().map(|&item| data.train.truth[item as usize]);
    let found: BTreeSet<LabelSet> = sets.filter(|set| !set.is_empty()).collect();
    found.into_iter().collect()
}

/// The query that asks for a joint class: `A + B - C`.
fn query(set: LabelSet, labels: &Labels) -> String {
    let names = |wanted: bool| -> Vec<&str> {
        let names = labels.names().enumerate();
        let chosen = names.filter(|(label, _)| set.contains(*label) == wanted);
        chosen.map(|(_, name)| name).collect()
    };
    let mut parts = vec![names(true).join(" + ")];
    parts.extend(names(false).into_iter().map(str::to_owned));
    parts.join(" - ")
}

/// Names of the joint classes, as queries; none where there are too many for a table.
pub fn names(data: &Loaded) -> Vec<String> {
    let sets = sets(data);
    if sets.len() > MOST {
        return Vec::new();
    }
    let labels = &data.train.labels;
    sets.iter().map(|&set| query(set, labels)).collect()
}

/// The code of every joint class: `1/n` for each of its `n` labels; none where there are too many.
pub fn codes(data: &Loaded) -> Vec<Vec<f32>> {
    let sets = sets(data);
    if sets.len() > MOST {
        return Vec::new();
    }
    let code = |set: &LabelSet| {
        let share = 1.0 / set.len() as f32;
        let value = |label| if set.contains(label) { share } else { 0.0 };
        (0..data.train.labels.len()).map(value).collect()
    };
    sets.iter().map(code).collect()
}

/// Share of every joint class among the items that training shows.
pub fn shares(data: &Loaded) -> Vec<f64> {
    let sets = sets(data);
    let mut counts = vec![0.0; sets.len()];
    for shown in &data.positives {
        if let Ok(at) = sets.binary_search(&data.train.truth[shown.item as usize]) {
            counts[at] += 1.0;
        }
    }
    let all: f64 = counts.iter().sum();
    counts.iter().map(|count| count / all).collect()
}

/// The same data, every item shown once with the number of its joint class in the place of a label.
pub fn shown(mut data: Loaded) -> Result<Loaded> {
    let sets = sets(&data);
    ensure!(
        sets.len() <= MOST,
        "`oracle` is for at most {MOST} joint classes; the data has {}",
        sets.len()
    );
    let observed = {
        data.positives.sort_by_key(|shown| shown.item);
        data.positives.dedup_by_key(|shown| shown.item);
        shares(&data)
    };
    let names = names(&data);
    let truth = &data.train.truth;
    let class = |shown: &Positive| Positive {
        item: shown.item,
        label: sets
            .binary_search(&truth[shown.item as usize])
            .map_or(0, |at| at as u8),
    };
    data.positives = data.positives.iter().map(class).collect();
    data.validation_positives.clear();
    data.observed = observed;
    data.train.labels = Labels::new(names)?;
    Ok(data)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data() -> Loaded {
        let recipe = r#"
            name = "line"
            source = { format = "illustration", items = 600 }
            labelling = { model = "per-class" }"#;
        let recipe: s2m_data::recipe::DataRecipe = toml::from_str(recipe).unwrap();
        recipe.load().unwrap()
    }

    #[test]
    fn joint_classes_have_names_codes_and_shares() {
        let data = data();
        assert_eq!(names(&data), ["A - B", "B - A", "A + B"]);
        let wanted = [[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]];
        assert_eq!(codes(&data), wanted.map(|code| code.to_vec()));
        assert!((shares(&data).iter().sum::<f64>() - 1.0).abs() < 1e-12);
    }

    #[test]
    fn an_oracle_is_shown_every_item_once_with_its_joint_class() {
        let data = data();
        let shown = shown(data.clone()).unwrap();
        let mut items: Vec<u32> = data.positives.iter().map(|p| p.item).collect();
        items.sort_unstable();
        items.dedup();
        assert!(items.len() < data.positives.len());
        let seen: Vec<u32> = shown.positives.iter().map(|p| p.item).collect();
        assert_eq!(seen, items);
        for positive in &shown.positives {
            let set = data.train.truth[positive.item as usize];
            let name = shown.train.labels.name(usize::from(positive.label));
            assert_eq!(name, query(set, &data.train.labels));
        }
        let share = |label: u8| {
            let own = shown.positives.iter().filter(|p| p.label == label).count();
            own as f64 / shown.positives.len() as f64
        };
        assert_eq!(shown.observed, [share(0), share(1), share(2)]);
    }
}
