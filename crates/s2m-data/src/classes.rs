//! Classes made of original labels, such as `A` = any digit and `B` = odd digits.

use s2m_core::labels::{LabelSet, Labels};
use serde::{Deserialize, Serialize};

use crate::dataset::Dataset;
use crate::error::Error;
use crate::idx::Pictures;

const EXAMPLE: &str = "write for example `classes = [{ name = \"A\", of = [3, 5] }]`";

/// One class as a run file gives it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClassEntry {
    /// Name of the class.
    pub name: String,
    /// Original labels of its items.
    pub of: Vec<u32>,
}

/// Which original labels belong to which classes; checked once, here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassMap {
    labels: Labels,
    /// The classes of each original label.
    truth: Vec<LabelSet>,
}

impl ClassMap {
    /// Checks classes; label c is the c-th entry.
    pub fn new(entries: &[ClassEntry]) -> Result<Self, Error> {
        if entries.is_empty() {
            return Err(Error::setting(format!(
                "no class is given\nhint: {EXAMPLE}"
            )));
        }
        let labels = Labels::new(entries.iter().map(|entry| &entry.name))
            .map_err(|error| Error::from(error).within("classes"))?;
        let mut truth = vec![LabelSet::EMPTY; 256];
        for (class, entry) in entries.iter().enumerate() {
            let name = &entry.name;
            if entry.of.is_empty() {
                return Err(Error::setting(format!(
                    "class `{name}` lists no original label\nhint: {EXAMPLE}"
                )));
            }
            for &label in &entry.of {
                let Some(set) = truth.get_mut(label as usize) else {
                    return Err(Error::setting(format!(
                        "class `{name}` lists original label {label}, but original labels are 0 to 255"
                    )));
                };
                if set.contains(class) {
                    return Err(Error::setting(format!(
                        "class `{name}` lists original label {label} twice"
                    )));
                }
                *set = set.with(class);
            }
        }
        Ok(Self { labels, truth })
    }

    /// The labels, in the order of the entries.
    pub fn labels(&self) -> &Labels {
        &self.labels
    }

    /// The classes of an item with this original label; empty where it has none.
    pub fn truth(&self, original: u8) -> LabelSet {
        self.truth[original as usize]
    }

    /// Pictures with their classes; those without any are dropped.
    pub fn apply(&self, pictures: Pictures) -> Result<Dataset, Error> {
        self.check_found(&pictures.original)?;
        Ok(self.mark(pictures).only_labelled())
    }

    /// All pictures with their classes, also those without any.
    pub(crate) fn mark(&self, pictures: Pictures) -> Dataset {
        let Pictures { items, original } = pictures;
        Dataset {
            labels: self.labels.clone(),
            items,
            truth: original.iter().map(|&label| self.truth(label)).collect(),
            original,
        }
    }

    /// Every class has an item.
    fn check_found(&self, original: &[u8]) -> Result<(), Error> {
        let present = original.iter().fold([false; 256], |mut present, &label| {
            present[label as usize] = true;
            present
        });
        let found = || (0..=255).filter(|&label: &u8| present[label as usize]);
        let reached = found().fold(LabelSet::EMPTY, |all, label| all.union(self.truth(label)));
        let Some(class) = (0..self.labels.len()).find(|&class| !reached.contains(class)) else {
            return Ok(());
        };
        let name = self.labels.name(class);
        let wanted: Vec<u8> = (0..=255)
            .filter(|&l| self.truth(l).contains(class))
            .collect();
        let found: Vec<u8> = found().collect();
        Err(Error::mismatch(format!(
            "no item belongs to class `{name}`: none has an original label out of {wanted:?}; the labels found are {found:?}"
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::{Items, Values};

    fn map(entries: &[(&str, &[u32])]) -> Result<ClassMap, Error> {
        let entry = |&(name, of): &(&str, &[u32])| ClassEntry {
            name: name.to_owned(),
            of: of.to_vec(),
        };
        ClassMap::new(&entries.iter().map(entry).collect::<Vec<_>>())
    }

    fn message(entries: &[(&str, &[u32])]) -> String {
        map(entries).unwrap_err().to_string()
    }

    /// Pictures of two pixels that show their own number.
    fn pictures(original: &[u8]) -> Pictures {
        let numbers = 0..original.len() as u8;
        Pictures {
            items: Items {
                shape: vec![1, 1, 2],
                values: Values::Bytes(numbers.flat_map(|i| [i, i]).collect()),
            },
            original: original.to_vec(),
        }
    }

    #[test]
    fn labels_come_in_the_order_written() {
        let map = map(&[("odd", &[1, 3, 255]), ("any", &[0, 1, 2, 3])]).unwrap();
        assert_eq!(map.labels().names().collect::<Vec<_>>(), ["odd", "any"]);
        let bits = [0, 1, 3, 4, 255].map(|label| map.truth(label).bits());
        assert_eq!(bits, [0b10, 0b11, 0b11, 0b00, 0b01]);
    }

    #[test]
    fn items_without_a_class_are_dropped() {
        let map = map(&[("A", &[3, 5]), ("B", &[5])]).unwrap();
        let data = map.apply(pictures(&[5, 9, 3, 0, 5])).unwrap();
        assert_eq!(data.original, [5, 3, 5]);
        assert_eq!(data.items.values, Values::Bytes(vec![0, 0, 2, 2, 4, 4]));
        let bits: Vec<_> = data.truth.iter().map(|set| set.bits()).collect();
        assert_eq!(bits, [0b11, 0b01, 0b11]);
        assert_eq!(data.len(), 3);
    }

    #[test]
    fn unusable_classes_are_refused_with_the_reason() {
        let hint = "\nhint: write for example `classes = [{ name = \"A\", of = [3, 5] }]`";
        assert_eq!(message(&[]), format!("no class is given{hint}"));
        assert_eq!(
            message(&[("A", &[1]), ("B", &[])]),
            format!("class `B` lists no original label{hint}")
        );
        assert_eq!(
            message(&[("A", &[1]), ("A", &[2])]),
            "classes: label `A` is listed twice"
        );
        assert_eq!(
            message(&[("A", &[1, 2, 1])]),
            "class `A` lists original label 1 twice"
        );
        assert_eq!(
            message(&[("A", &[256])]),
            "class `A` lists original label 256, but original labels are 0 to 255"
        );
        let map = map(&[("A", &[0]), ("B", &[3, 7])]).unwrap();
        assert_eq!(
            map.apply(pictures(&[2, 0, 2])).unwrap_err().to_string(),
            "no item belongs to class `B`: none has an original label out of [3, 7]; \
             the labels found are [0, 2]"
        );
    }
}
