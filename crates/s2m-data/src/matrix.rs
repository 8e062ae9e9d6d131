//! Label matrices: one row per item and one column per label, of 1 where a label holds.
//!
//! All else that may stand there, 0, −1 and what is not a number, means that it is not known to. In an
//! [`audit`](crate::audit) 0 and −1 mean that it does not hold, and every entry is a number.

use s2m_core::labels::{LabelSet, Labels};

use crate::classes::{ClassEntry, ClassMap};
use crate::error::Error;
use crate::npy::{Array, Values};

/// Which labels each column stands for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Columns {
    pub(crate) labels: Labels,
    sets: Vec<LabelSet>,
}

impl Columns {
    /// Columns by their names, all of them, or by classes of column numbers.
    pub(crate) fn new(
        columns: usize,
        names: Option<&[String]>,
        classes: &[ClassEntry],
    ) -> Result<Self, Error> {
        match names {
            Some(_) if !classes.is_empty() => Err(Error::setting(
                "both `labels` and `classes` are given\nhint: `labels` names all columns, `classes` chooses some; keep one",
            )),
            None if classes.is_empty() => Err(Error::setting(format!(
                "its {columns} columns have no names\nhint: name all with `labels = [\"…\"]`, or choose some with `classes = [{{ name = \"A\", of = [0] }}]`"
            ))),
            Some(names) if names.len() != columns => Err(Error::mismatch(format!(
                "`labels` has {} names for {columns} columns",
                names.len()
            ))),
            Some(names) => Ok(Self {
                labels: Labels::new(names).map_err(Error::of_labels)?,
                sets: (0..columns).map(|c| LabelSet::EMPTY.with(c)).collect(),
            }),
            None => {
                let map = ClassMap::new(classes)?;
                for entry in classes {
                    if let Some(&column) = entry.of.iter().find(|&&c| c as usize >= columns) {
                        return Err(Error::mismatch(format!(
                            "class `{}` lists column {column}, but columns are 0 to {}",
                            entry.name,
                            columns - 1
                        )));
                    }
                }
                // Classes list numbers up to 255; later columns belong to none.
                let set = |column| u8::try_from(column).map_or(LabelSet::EMPTY, |c| map.truth(c));
                Ok(Self {
                    labels: map.labels().clone(),
                    sets: (0..columns).map(set).collect(),
                })
            }
        }
    }

    /// The label set of every row of a matrix with these columns.
    pub(crate) fn sets(&self, matrix: &Array) -> Result<Vec<LabelSet>, Error> {
        let [rows, columns] = shape(matrix)?;
        if columns != self.sets.len() {
            return Err(Error::mismatch(format!(
                "`labels` has {} names for {columns} columns",
                self.sets.len()
            )));
        }
        let number = |at: usize| number(matrix, at);
        let mut sets = vec![LabelSet::EMPTY; rows];
        for (row, set) in sets.iter_mut().enumerate() {
            for (column, &labels) in self.sets.iter().enumerate() {
                let found = number(row * columns + column);
                if found == 1.0 {
                    *set = set.union(labels);
                } else if !(found == 0.0 || found == -1.0 || found.is_nan()) {
                    return Err(Error::malformed(format!(
                        "row {row}, column {column} holds {found}, wanted 1, 0 or -1"
                    )));
                }
            }
        }
        Ok(sets)
    }

    /// Every row of a matrix with these columns has a number for each label asked for.
    pub(crate) fn check_known(&self, matrix: &Array, asked: &Labels) -> Result<(), Error> {
        let asked: LabelSet = asked.names().filter_map(|l| self.labels.find(l)).collect();
        let [rows, columns] = shape(matrix)?;
        for row in 0..rows {
            for (column, labels) in self.sets.iter().enumerate() {
                if labels.meets(asked) && number(matrix, row * columns + column).is_nan() {
                    return Err(Error::mismatch(format!(
                        "row {row}, column {column} is not a number, but an audit needs every label of every item"
                    )));
                }
            }
        }
        Ok(())
    }
}

fn number(matrix: &Array, at: usize) -> f32 {
    match &matrix.values {
        Values::U8(values) => f32::from(values[at]),
        Values::F32(values) => values[at],
    }
}

/// Rows and columns of an array, which has to be a matrix.
pub(crate) fn shape(array: &Array) -> Result<[usize; 2], Error> {
    match array.shape[..] {
        [rows, columns] if columns > 0 => Ok([rows, columns]),
        _ => Err(Error::malformed(format!(
            "it is of shape {:?}, wanted one row per item and one column per label",
            array.shape
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matrix(shape: &[usize], values: &[f32]) -> Array {
        Array {
            shape: shape.to_vec(),
            values: Values::F32(values.to_vec()),
        }
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    fn class(name: &str, of: &[u32]) -> ClassEntry {
        ClassEntry {
            name: name.to_owned(),
            of: of.to_vec(),
        }
    }

    fn bits(sets: &[LabelSet]) -> Vec<u64> {
        sets.iter().map(|set| set.bits()).collect()
    }

    #[test]
    fn rows_become_sets() {
        let columns = Columns::new(3, Some(&names(&["A", "B", "C"])), &[]).unwrap();
        let numbers = [1.0, 0.0, -1.0, f32::NAN, 1.0, 1.0];
        let sets = columns.sets(&matrix(&[2, 3], &numbers)).unwrap();
        assert_eq!(bits(&sets), [0b001, 0b110]);
        let bytes = Array {
            shape: vec![2, 3],
            values: Values::U8(vec![0, 1, 0, 1, 0, 1]),
        };
        assert_eq!(bits(&columns.sets(&bytes).unwrap()), [0b010, 0b101]);
    }

    /// A class holds where one of its columns does.
    #[test]
    fn classes_choose_and_join_columns() {
        let classes = [class("last", &[299 % 100]), class("pair", &[0, 2])];
        let columns = Columns::new(300, None, &classes).unwrap();
        let mut numbers = vec![0.0; 600];
        numbers[2] = 1.0;
        numbers[299] = 1.0;
        numbers[300 + 99] = 1.0;
        numbers[300] = 1.0;
        let sets = columns.sets(&matrix(&[2, 300], &numbers)).unwrap();
        assert_eq!(bits(&sets), [0b10, 0b11]);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let message = |columns, labels: Option<&[String]>, classes: &[ClassEntry]| {
            Columns::new(columns, labels, classes)
                .unwrap_err()
                .to_string()
        };
        let two = names(&["A", "B"]);
        assert_eq!(
            message(3, Some(&two), &[]),
            "`labels` has 2 names for 3 columns"
        );
        assert!(message(2, None, &[]).starts_with("its 2 columns have no names\nhint: "));
        assert!(message(2, Some(&two), &[class("A", &[0])]).starts_with("both `labels` and"));
        assert_eq!(
            message(2, None, &[class("A", &[0, 2])]),
            "class `A` lists column 2, but columns are 0 to 1"
        );
        let many: Vec<_> = (0..80).map(|i| i.to_string()).collect();
        assert_eq!(
            message(80, Some(&many), &[]),
            "`labels`: at most 64 labels are possible, got 80"
        );
        let columns = Columns::new(2, Some(&two), &[]).unwrap();
        let message = |array: &Array| columns.sets(array).unwrap_err().to_string();
        assert_eq!(
            message(&matrix(&[2, 2], &[1.0, 0.0, 0.5, 0.0])),
            "row 1, column 0 holds 0.5, wanted 1, 0 or -1"
        );
        assert_eq!(
            message(&matrix(&[4], &[0.0; 4])),
            "it is of shape [4], wanted one row per item and one column per label"
        );
        assert_eq!(
            message(&matrix(&[1, 3], &[0.0; 3])),
            "`labels` has 2 names for 3 columns"
        );
    }
}
