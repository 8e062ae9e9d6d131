//! Items dealt into folds, each item with all its showings, so that no network judges what it has seen.

use anyhow::{Result, ensure};
use s2m_core::streams::training::FOLDS;
use s2m_data::recipe::Loaded;

use crate::noise::{self, Purpose};
use crate::replica::Replica;

/// The fold of every showing of a replica's data, in the order of [`crate::feed::shown`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Folds {
    pub count: usize,
    of: Vec<usize>,
}

impl Folds {
    /// Deals the items that a replica's data shows into `count` folds of the same size, by the replica's own key.
    pub(super) fn deal(
        data: &Loaded,
        replica: &Replica,
        count: usize,
        shown: &[(u32, u8)],
    ) -> Result<Self> {
        let mut items: Vec<u32> = shown.iter().map(|(item, _)| *item).collect();
        items.sort_unstable();
        items.dedup();
        let key = noise::key(replica.key(), Purpose::Weights, FOLDS);
        let place = |item: u32| noise::key(key, Purpose::Uniform, &item.to_string());
        items.sort_by_key(|&item| (place(item), item));
        let most = items
            .iter()
            .copied()
            .max()
            .map_or(0, |last| last as usize + 1);
        let mut fold = vec![0; most];
        for (at, &item) in items.iter().enumerate() {
            fold[item as usize] = at % count;
        }
        let folds = Self {
            count,
            of: shown.iter().map(|(item, _)| fold[*item as usize]).collect(),
        };
        for (label, name) in data.train.labels.names().enumerate() {
            let in_fold = |at: usize| {
                let showings = shown.iter().zip(&folds.of);
                let of_label =
                    showings.filter(|((_, l), fold)| usize::from(*l) == label && **fold == at);
                of_label.count()
            };
            let sizes: Vec<usize> = (0..count).map(in_fold).collect();
            let all: usize = sizes.iter().sum();
            ensure!(
                sizes.iter().all(|&size| size < all),
                "label `{name}` is shown by {all} items, too few for {count} folds\nhint: show it by more items, or set `joint = false`"
            );
        }
        Ok(folds)
    }

    /// Whether a network of a fold learns from a showing: from all but its own fold's.
    pub(super) fn teaches(&self, fold: usize, showing: usize) -> bool {
        self.of[showing] != fold
    }

    /// The showings that a network of a fold judges.
    pub(super) fn judged_by(&self, fold: usize) -> impl Iterator<Item = usize> + '_ {
        (0..self.of.len()).filter(move |&showing| !self.teaches(fold, showing))
    }
}

#[cfg(test)]
mod tests {
    use s2m_data::recipe::DataRecipe;

    use super::*;
    use crate::feed::shown;
    use crate::replica::{load, replicas};

    fn loaded(labelling: &str) -> (Vec<Loaded>, Vec<Replica>) {
        let recipe: DataRecipe = toml::from_str(&format!(
            "name = \"line\"\nsource = {{ format = \"illustration\", items = 600 }}\nlabelling = {labelling}\n"
        ))
        .unwrap();
        let recipes = [recipe];
        (load(&recipes).unwrap(), replicas(&recipes, &[0]))
    }

    /// Every showing is judged once, by the one network that never saw its item.
    #[test]
    fn no_item_is_judged_by_a_network_that_saw_it() {
        for labelling in ["{ model = \"one-of\" }", "{ model = \"per-class\" }"] {
            let (loaded, replicas) = loaded(labelling);
            let shown = shown(&loaded[0]);
            let folds = Folds::deal(&loaded[0], &replicas[0], 3, &shown).unwrap();
            let mut judged = vec![0; shown.len()];
            for fold in 0..3 {
                let seen: Vec<u32> = (0..shown.len())
                    .filter(|&showing| folds.teaches(fold, showing))
                    .map(|showing| shown[showing].0)
                    .collect();
                for showing in folds.judged_by(fold) {
                    judged[showing] += 1;
                    assert!(!seen.contains(&shown[showing].0), "{labelling}");
                }
                let share = seen.len() as f64 / shown.len() as f64;
                assert!((share - 2.0 / 3.0).abs() < 0.05, "{share}");
            }
            assert!(judged.iter().all(|&times| times == 1));
        }
    }

    #[test]
    fn a_label_with_too_few_items_is_named() {
        let (mut loaded, replicas) = loaded("{ model = \"one-of\" }");
        let data = &mut loaded[0];
        let mut left = 1;
        data.positives.retain(|p| {
            let keep = p.label == 0 || left > 0;
            left -= usize::from(p.label != 0 && left > 0);
            keep
        });
        let shown = shown(data);
        let error = Folds::deal(data, &replicas[0], 3, &shown).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("is shown by 1 items, too few for 3 folds"),
            "{error}"
        );
    }
}
