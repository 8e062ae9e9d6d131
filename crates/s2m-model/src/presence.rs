//! `presence` in a bundle's calibration: which joint classes held-out items show to be in the data.

use std::collections::BTreeMap;

use s2m_core::calibration::presence::Counted;
use s2m_core::labels::{LabelSet, Labels};
use s2m_core::query::Query;
use serde::{Deserialize, Serialize};

/// Counts of held-out real items.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PresenceEntry {
    /// Held-out real items.
    pub items: usize,
    /// By joint class: the floor, items whose posterior reaches it, and how many of them errors explain.
    pub classes: BTreeMap<String, (f64, usize, f64)>,
}

impl PresenceEntry {
    /// What is known about every joint class on which a query holds: its floor and its counts.
    ///
    /// None where one of them was not counted, or where the labels are too many to have been.
    pub fn of(&self, query: &Query, labels: &Labels) -> Option<Vec<(f64, Counted)>> {
        if labels.len() >= usize::BITS as usize || self.classes.len() as u64 != labels.all().bits()
        {
            return None;
        }
        let sets = (1..=labels.all().bits()).map(LabelSet::from_bits);
        let known = sets.filter(|&set| query.holds(set)).map(|set| {
            let text = Query::joint(set, labels)?.text().to_owned();
            let &(floor, reached, explained) = self.classes.get(&text)?;
            let counted = Counted {
                items: self.items,
                reached,
                explained,
            };
            Some((floor, counted))
        });
        known.collect()
    }

    /// What is wrong with it, in words.
    pub(crate) fn fault(&self, labels: &Labels) -> Option<String> {
        let fits = |(floor, reached, explained): &(f64, usize, f64)| {
            (0.0..=1.0).contains(floor)
                && *reached <= self.items
                && explained.is_finite()
                && *explained >= 0.0
        };
        self.classes.iter().find_map(|(text, counted)| {
            if let Err(error) = Query::parse(text, labels) {
                return Some(format!("presence of \"{text}\": {error}"));
            }
            (!fits(counted)).then(|| format!("presence of \"{text}\" is no floor and two counts"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels() -> Labels {
        Labels::new(["A", "B"]).unwrap()
    }

    fn entry() -> PresenceEntry {
        let classes = [
            ("A - B", (0.5, 40, 2.0)),
            ("B - A", (0.9, 0, 0.0)),
            ("A + B", (0.8, 5, 6.5)),
        ];
        PresenceEntry {
            items: 100,
            classes: classes.map(|(text, of)| (text.to_owned(), of)).into(),
        }
    }

    #[test]
    fn a_query_is_known_by_its_joint_classes() {
        let labels = labels();
        let found = |text| entry().of(&Query::parse(text, &labels).unwrap(), &labels);
        let b = found("B").unwrap();
        assert_eq!(
            b.iter().map(|(floor, _)| *floor).collect::<Vec<_>>(),
            [0.9, 0.8]
        );
        assert_eq!(b.iter().map(|(_, c)| c.reached).collect::<Vec<_>>(), [0, 5]);
        assert_eq!(found("(A | B) - B").unwrap()[0].1.explained, 2.0);
        // One that was not counted leaves everything open.
        let mut some = entry();
        some.classes.remove("A + B");
        let a = Query::parse("A - B", &labels).unwrap();
        assert_eq!(some.of(&a, &labels), None);
    }

    #[test]
    fn it_is_kept_as_text_and_checked() {
        let text = toml::to_string(&entry()).unwrap();
        assert!(text.contains("\"A - B\" = [0.5, 40, 2.0]"), "{text}");
        assert_eq!(toml::from_str::<PresenceEntry>(&text).unwrap(), entry());
        assert_eq!(entry().fault(&labels()), None);
        let wrong = |text: &str, of| {
            let mut entry = entry();
            entry.classes.insert(text.to_owned(), of);
            entry.fault(&labels()).unwrap()
        };
        for of in [
            (0.5, 101, 0.0),
            (1.5, 1, 0.0),
            (0.5, 1, -1.0),
            (0.5, 1, f64::NAN),
        ] {
            assert_eq!(
                wrong("A + B", of),
                "presence of \"A + B\" is no floor and two counts"
            );
        }
        assert!(wrong("C", (0.5, 1, 0.0)).starts_with("presence of \"C\": unknown label `C`"));
    }
}
