//! What is known about items, and which labels a class stands for.
//!
//! A referee may speak of classes (`0` to `9`) where queries speak of labels (`A`, `B`). Each label is a
//! list of classes, `--label B=1,3,5,7,9`; without such lists every class is a label of its own.

use std::fs;
use std::path::Path;

use s2m_core::labels::{LabelSet, Labels};
use s2m_core::query::Query;
use s2m_model::disk::read_plain_text;

use crate::Error;

/// Largest table of labels that is read.
const LARGEST_TABLE: u64 = 1 << 30;

/// What is known about each item of a set.
#[derive(Debug, Clone, PartialEq)]
pub enum Truth {
    /// Nothing.
    Nothing,
    /// Its class, as a number.
    Classes(Vec<u8>),
    /// Which of these labels it has; none where the table leaves it open.
    Labels {
        /// Names of the labels.
        names: Vec<String>,
        /// One row per item.
        rows: Vec<Vec<Option<bool>>>,
    },
}

/// Labels as lists of classes.
#[derive(Debug, Clone, PartialEq)]
pub struct LabelMap {
    labels: Labels,
    /// Labels of each class.
    of_class: Vec<LabelSet>,
    class_names: Vec<String>,
}

/// One label and the classes that carry it, as `--label` gives them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelEntry {
    /// The label.
    pub label: String,
    /// Names of classes.
    pub classes: Vec<String>,
}

impl LabelMap {
    /// Labels over classes of these names; every class is a label where no list is given.
    pub fn new(entries: &[LabelEntry], class_names: &[String]) -> Result<Self, Error> {
        let own: Vec<LabelEntry> = class_names
            .iter()
            .map(|name| LabelEntry {
                label: name.clone(),
                classes: vec![name.clone()],
            })
            .collect();
        let entries = if entries.is_empty() { &own } else { entries };
        let names = entries.iter().map(|entry| entry.label.clone());
        let labels = Labels::new(names)?;
        let mut bits = vec![0_u64; class_names.len()];
        for (label, entry) in entries.iter().enumerate() {
            for class in &entry.classes {
                let at = class_names.iter().position(|name| name == class);
                let at = at.ok_or_else(|| Error::NoClass {
                    label: entry.label.clone(),
                    class: class.clone(),
                    classes: class_names.to_vec(),
                })?;
                bits[at] |= 1 << label;
            }
        }
        Ok(Self {
            labels,
            of_class: bits.into_iter().map(LabelSet::from_bits).collect(),
            class_names: class_names.to_vec(),
        })
    }

    /// The labels.
    pub fn labels(&self) -> &Labels {
        &self.labels
    }

    /// A query over these labels.
    pub fn query(&self, text: &str) -> Result<Query, Error> {
        Query::parse(text, &self.labels).map_err(|source| Error::OtherLabels {
            query: text.to_owned(),
            labels: self.labels.names().map(ToOwned::to_owned).collect(),
            source,
        })
    }

    /// Labels of an item that has all of these classes.
    pub fn of(&self, classes: impl IntoIterator<Item = usize>) -> LabelSet {
        let bits = classes
            .into_iter()
            .filter_map(|class| self.of_class.get(class))
            .fold(0, |all, set| all | set.bits());
        LabelSet::from_bits(bits)
    }

    /// Numbers of the items that satisfy a query, where that is known of each; none where nothing is.
    pub fn satisfying(&self, truth: &Truth, query: &Query) -> Result<Option<Vec<usize>>, Error> {
        match truth {
            Truth::Nothing => Ok(None),
            Truth::Classes(classes) => {
                let holds = |class: u8| {
                    let name = class.to_string();
                    let at = self.class_names.iter().position(|known| *known == name);
                    query.holds(self.of(at))
                };
                let chosen = (0..classes.len()).filter(|&at| holds(classes[at]));
                Ok(Some(chosen.collect()))
            }
            Truth::Labels { names, rows } => {
                let columns = self.columns(names)?;
                // An item with an open label is not known to satisfy anything.
                let labels = |row: &Vec<Option<bool>>| -> Option<LabelSet> {
                    let mut set = LabelSet::default();
                    for (label, &column) in columns.iter().enumerate() {
                        if row[column]? {
                            set = set.with(label);
                        }
                    }
                    Some(set)
                };
                let holds =
                    |row: &Vec<Option<bool>>| labels(row).is_some_and(|set| query.holds(set));
                let chosen = (0..rows.len()).filter(|&at| holds(&rows[at]));
                Ok(Some(chosen.collect()))
            }
        }
    }

    /// Where each label stands in a table.
    fn columns(&self, names: &[String]) -> Result<Vec<usize>, Error> {
        let column = |label: &str| {
            let at = names.iter().position(|name| name == label);
            at.ok_or_else(|| Error::NoColumn {
                label: label.to_owned(),
                columns: names.to_vec(),
            })
        };
        self.labels.names().map(column).collect()
    }
}

/// Labels of pictures out of `metadata.csv`: a column `file_name`, and one of 0, 1 or nothing per label.
pub(super) fn read_metadata(path: &Path, pictures: &[String]) -> Result<Truth, Error> {
    let fail = |reason: String| Error::Read {
        path: path.to_owned(),
        reason,
    };
    let size = fs::metadata(path).map_err(|e| fail(e.to_string()))?.len();
    if size > LARGEST_TABLE {
        return Err(fail(format!("it is larger than {LARGEST_TABLE} bytes")));
    }
    let text = read_plain_text(path).map_err(|e| fail(e.to_string()))?;
    let mut rows = records(&text).map_err(fail)?.into_iter();
    let header = rows.next().unwrap_or_default();
    let Some(named) = header.iter().position(|name| name == "file_name") else {
        return Ok(Truth::Nothing);
    };
    let rows: Vec<Vec<String>> = rows.collect();
    if let Some(at) = rows.iter().position(|row| row.len() != header.len()) {
        return Err(fail(format!(
            "row {} has {} fields, the header {}",
            at + 2,
            rows[at].len(),
            header.len()
        )));
    }
    let is_label = |column: &usize| {
        *column != named
            && rows
                .iter()
                .all(|row| matches!(row[*column].as_str(), "" | "0" | "1"))
    };
    let columns: Vec<usize> = (0..header.len()).filter(is_label).collect();
    if columns.is_empty() {
        return Ok(Truth::Nothing);
    }
    let by_name: std::collections::HashMap<&str, &Vec<String>> = rows
        .iter()
        .map(|row| (row[named].rsplit('/').next().unwrap_or_default(), row))
        .collect();
    let of_picture = |name: &String| {
        let row = by_name.get(name.rsplit('/').next().unwrap_or_default());
        let row = row.ok_or_else(|| fail(format!("it has no row for `{name}`")))?;
        Ok(columns
            .iter()
            .map(|&column| match row[column].as_str() {
                "1" => Some(true),
                "0" => Some(false),
                _ => None,
            })
            .collect())
    };
    Ok(Truth::Labels {
        names: columns
            .iter()
            .map(|&column| header[column].clone())
            .collect(),
        rows: pictures
            .iter()
            .map(of_picture)
            .collect::<Result<_, Error>>()?,
    })
}

/// Records of a table with commas, quotes doubled inside quoted fields (RFC 4180).
fn records(text: &str) -> Result<Vec<Vec<String>>, String> {
    let mut records = Vec::new();
    let (mut record, mut field, mut quoted) = (Vec::new(), String::new(), false);
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match (letter, quoted) {
            ('"', true) if letters.peek() == Some(&'"') => {
                letters.next();
                field.push('"');
            }
            ('"', _) => quoted = !quoted,
            (',', false) => record.push(std::mem::take(&mut field)),
            ('\n', false) => {
                record.push(std::mem::take(&mut field));
                records.push(std::mem::take(&mut record));
            }
            ('\r', false) if letters.peek() == Some(&'\n') => {}
            (letter, _) => field.push(letter),
        }
    }
    if quoted {
        return Err("a quote is not closed".to_owned());
    }
    if !field.is_empty() || !record.is_empty() {
        record.push(field);
        records.push(record);
    }
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digits() -> Vec<String> {
        (0..10).map(|class: u32| class.to_string()).collect()
    }

    fn entry(label: &str, classes: &[&str]) -> LabelEntry {
        LabelEntry {
            label: label.to_owned(),
            classes: classes.iter().map(ToString::to_string).collect(),
        }
    }

    #[test]
    fn classes_stand_for_labels() {
        let entries = [entry("A", &["3", "5"]), entry("B", &["3"])];
        let map = LabelMap::new(&entries, &digits()).unwrap();
        let query = map.query("A - B").unwrap();
        let holds = |class| query.holds(map.of([class]));
        assert_eq!((holds(3), holds(5), holds(7)), (false, true, false));
        let truth = Truth::Classes(vec![5, 3, 7, 5]);
        assert_eq!(map.satisfying(&truth, &query).unwrap(), Some(vec![0, 3]));
        assert_eq!(map.satisfying(&Truth::Nothing, &query).unwrap(), None);
    }

    #[test]
    fn every_class_is_a_label_where_no_list_is_given() {
        let map = LabelMap::new(&[], &digits()).unwrap();
        assert!(map.query("7").unwrap().holds(map.of([7])));
        let error = map.query("A").unwrap_err().to_string();
        assert!(error.contains("`label = "), "{error}");
    }

    #[test]
    fn a_class_that_the_referee_does_not_know_is_named() {
        let error = LabelMap::new(&[entry("A", &["cat"])], &digits()).unwrap_err();
        assert!(error.to_string().contains("`cat`"), "{error}");
    }

    #[test]
    fn tables_are_read_with_their_quotes() {
        let found = records("a,\"b,\"\"c\"\"\"\r\n1,\n\"x\ny\",2").unwrap();
        assert_eq!(found, [["a", "b,\"c\""], ["1", ""], ["x\ny", "2"]]);
        assert!(records("a,\"b").is_err());
        assert!(records("").unwrap().is_empty());
    }

    #[test]
    fn labels_of_pictures_come_from_the_table_beside_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metadata.csv");
        fs::write(
            &path,
            "file_name,A,score,B\nimages/1.png,1,0.5,\nimages/0.png,0,0.7,1\n",
        )
        .unwrap();
        let pictures = ["0.png".to_owned(), "1.png".to_owned()];
        let truth = read_metadata(&path, &pictures).unwrap();
        let Truth::Labels { names, rows } = &truth else {
            panic!("{truth:?}");
        };
        assert_eq!(names, &["A", "B"]);
        assert_eq!(
            rows,
            &[vec![Some(false), Some(true)], vec![Some(true), None]]
        );
        let missing = read_metadata(&path, &["2.png".to_owned()]).unwrap_err();
        assert!(missing.to_string().contains("`2.png`"), "{missing}");
    }
}
