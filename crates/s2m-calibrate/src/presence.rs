//! Which joint classes the data holds, by held-out real items with the labels that they show.
//!
//! [`s2m_core::calibration::presence`] has the rule. A class is judged at its own floor, since samples are;
//! where it has none, at [`presence::REFERENCE_FLOOR`].

use std::collections::BTreeMap;
use std::fmt::Write as _;

use s2m_core::calibration::presence::{self, FLOORS, Item, Verdict};
use s2m_core::query::Query;
use s2m_core::setting::Setting;
use s2m_core::weight::Weighting;
use s2m_model::manifest::{LabellingEntry, LabellingModel};
use s2m_model::presence::PresenceEntry;

use crate::error::Error;
use crate::found::{JointClass, PresenceFound};
use crate::held_out::Rows;

/// A joint class, how items are judged by it, and its floor.
pub(super) struct Class {
    pub(super) query: Query,
    pub(super) weighting: Weighting,
    pub(super) floor: f64,
}

/// Counts held-out items for every class.
pub(super) fn find(
    classes: &[Class],
    rows: &Rows,
    labelling: &LabellingEntry,
) -> Result<BTreeMap<String, PresenceFound>, Error> {
    let readiness = match labelling.model {
        LabellingModel::OneOf => labelling.weights.clone(),
        LabellingModel::PerClass => presence::readiness(&labelling.observed, &labelling.weights),
    };
    let rows_of = by_item(rows);
    let mut found = BTreeMap::new();
    for class in classes {
        let stands_for = presence::stands_for(&class.query, &readiness);
        let item = |rows_of: &Vec<usize>| {
            let evidence = rows.evidence(rows_of[0]);
            let explained = class.weighting.explain(evidence);
            let explained = explained.map_err(|e| Error::Setting(e.to_string()))?;
            let shown = rows_of.iter().map(|&at| usize::from(rows.labels[at]));
            Ok(Item {
                posterior: explained.posterior,
                stands_for: shown.map(|label| stands_for[label]).fold(0.0, f64::max),
            })
        };
        let items = rows_of
            .iter()
            .map(item)
            .collect::<Result<Vec<_>, Error>>()?;
        let of = of_items(&items, presence::judged_at(class.floor));
        found.insert(class.query.text().to_owned(), of);
    }
    Ok(found)
}

/// What items say about one class.
fn of_items(items: &[Item], floor: f64) -> PresenceFound {
    let counted = presence::count(items, floor);
    let at = FLOORS.map(|floor| (floor, presence::reached(items, floor)));
    PresenceFound {
        verdict: counted.verdict().name().to_owned(),
        floor,
        items: counted.items,
        reached: counted.reached,
        explained: counted.explained,
        upper_limit: counted.upper_limit(),
        reached_at: at.to_vec(),
    }
}

/// The rows of every item.
fn by_item(rows: &Rows) -> Vec<Vec<usize>> {
    let mut all: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for at in 0..rows.count() {
        all.entry(rows.item(at)).or_default().push(at);
    }
    all.into_values().collect()
}

/// What a bundle keeps of it; none where nothing was counted.
pub(super) fn entry(found: &BTreeMap<String, PresenceFound>) -> Option<PresenceEntry> {
    let items = found.values().next()?.items;
    let class = |(text, of): (&String, &PresenceFound)| {
        (text.clone(), (of.floor, of.reached, of.explained))
    };
    Some(PresenceEntry {
        items,
        classes: found.iter().map(class).collect(),
    })
}

/// Most joint classes that a warning names.
const MOST_NAMED: usize = 8;

/// What a person should know: classes that the data may not hold, and those that are too rare to tell.
pub(super) fn warnings(classes: &BTreeMap<String, JointClass>) -> Vec<String> {
    let named = |verdict: Verdict| {
        let is = |joint: &JointClass| {
            let found = joint.presence.as_ref();
            found.is_some_and(|found| found.verdict == verdict.name())
        };
        let all = classes.iter().filter(|(_, joint)| is(joint));
        let all: Vec<&str> = all.map(|(query, _)| query.as_str()).collect();
        let more = all.len().saturating_sub(MOST_NAMED);
        let mut text = all[..all.len() - more].join("; ");
        if more > 0 {
            let _ = write!(text, " and {more} more");
        }
        (!all.is_empty()).then_some(text)
    };
    let absent = named(Verdict::Absent).map(|named| {
        format!("the data may hold no item of {named}: no held-out item reaches the floor, or no more than errors explain; samples of it need {}", Setting("floor").to(0))
    });
    let undecided = named(Verdict::Undecided).map(|named| {
        format!("too few held-out items reach the floor to tell whether the data holds {named}")
    });
    absent.into_iter().chain(undecided).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_counts_once_and_its_floor_is_told() {
        let rows = Rows {
            classes: 1,
            class: vec![0.0; 4],
            real: vec![0.0; 4],
            labels: vec![0; 4],
            items: vec![7, 3, 7, 9],
            ..Rows::default()
        };
        assert_eq!(by_item(&rows), [vec![1], vec![0, 2], vec![3]]);
        let item = |posterior| Item {
            posterior,
            stands_for: 0.0,
        };
        let items = [item(0.95), item(0.85), item(0.6), item(0.2)];
        let found = of_items(&items, 0.8);
        assert_eq!((found.floor, found.reached, found.items), (0.8, 2, 4));
        assert_eq!(found.reached_at[0], (0.1, 4));
        assert_eq!(found.reached_at[9], (0.95, 1));
        let found = of_items(&items, 0.5);
        let kept = entry(&BTreeMap::from([("A".to_owned(), found.clone())])).unwrap();
        assert_eq!(kept.classes["A"], (0.5, 3, found.explained));
        assert_eq!(entry(&BTreeMap::new()), None);
    }
}
