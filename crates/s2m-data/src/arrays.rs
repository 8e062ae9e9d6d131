//! Arrays of NumPy: pictures or points, with a class or a row of labels for each.
//!
//! ```toml
//! source = { format = "arrays", items = "mnist.npz/x_train", truth = "mnist.npz/y_train", test-items = "mnist.npz/x_test", test-truth = "mnist.npz/y_test" }
//! classes = [{ name = "odd", of = [1, 3, 5, 7, 9] }, { name = "small", of = [0, 1, 2, 3, 4] }]
//! ```
//!
//! ```toml
//! source = { format = "arrays", items = "points.npy", truth = "labels.npy", labels = ["A", "B"], test = 0.1 }
//! ```
//!
//! A path goes on into an archive: `data.npz/x` is the array `x` of `data.npz`. The truth is one
//! class of 0 to 255 for each item, which `classes` turns into labels as for idx files, or a matrix
//! of 1 and 0 whose columns have the names `labels`, or are chosen by number with `classes`. Items
//! of no class are left out, and a note counts them.

use std::fmt;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use s2m_core::labels::Labels;
use serde::{Deserialize, Serialize};

use crate::array_items::{InMemory, items};
use crate::channels::Channels;
use crate::classes::{ClassEntry, ClassMap};
use crate::dataset::{Dataset, Items, Values};
use crate::error::{AtPath as _, Error};
use crate::labelled::{Aim, Item, Labelled, Parts, Portion, Sorting, Unlabelled};
use crate::matrix::{Columns, shape};
use crate::npy::{self, Array};
use crate::picture_set::Wanted;

/// Pictures or points in arrays of NumPy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Arrays {
    /// The items; like all paths here relative to where the program runs.
    pub items: PathBuf,
    /// One class or one row of labels for each item.
    pub truth: PathBuf,
    /// The items of the test part; a share of all items where left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test_items: Option<PathBuf>,
    /// Their classes or rows of labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test_truth: Option<PathBuf>,
    /// Names of the columns of a matrix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<Vec<String>>,
    /// Height and width of all pictures; their own where left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<[NonZeroU32; 2]>,
    /// 1 for grey, 3 for colour; by the pictures where left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channels: Option<Channels>,
    /// Share of the test part, where it has no arrays of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<f64>,
    /// What to do about items whose row names no label.
    #[serde(default)]
    pub unlabelled: Unlabelled,
}

/// The number of an item in memory.
#[derive(Debug, Clone, Copy)]
struct Number(u32);

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "item {}", self.0)
    }
}

impl Arrays {
    /// Reads all arrays.
    pub(crate) fn read(&self, classes: &[ClassEntry], seed: u64) -> Result<Parts, Error> {
        self.read_for(Aim::Training, classes, seed)
    }

    /// Reads all items that are not for testing, with these labels.
    pub(crate) fn audit(
        &self,
        classes: &[ClassEntry],
        labels: &Labels,
        seed: u64,
    ) -> Result<Dataset, Error> {
        let truth = read_array(&self.truth)?;
        if let Meaning::Columns(columns) = self.meaning(&truth, classes)? {
            columns.check_known(&truth, labels).at(&self.truth)?;
        }
        Ok(self.read_for(Aim::Audit(labels), classes, seed)?.train)
    }

    fn read_for(&self, aim: Aim<'_>, classes: &[ClassEntry], seed: u64) -> Result<Parts, Error> {
        let mut items = read_items(&self.items)?;
        let truth = read_array(&self.truth)?;
        let meaning = self.meaning(&truth, classes)?;
        let train = items.len();
        let mut labelled = Labelled {
            labels: meaning.labels(),
            items: numbered(&meaning, [&self.items, &self.truth], train, &truth)?,
            notes: Vec::new(),
        };
        match (&self.test_items, &self.test_truth) {
            (None, None) => {}
            (Some(test_items), Some(test_truth)) => {
                let test = read_items(test_items)?;
                let truth = read_array(test_truth)?;
                let mut more = numbered(&meaning, [test_items, test_truth], test.len(), &truth)?;
                for item in &mut more {
                    item.place.0 += train as u32;
                    item.portion = Portion::Test;
                }
                labelled.items.extend(more);
                append(&mut items, test).map_err(|test| {
                    Error::mismatch(format!(
                        "`{}` holds items of shape {:?}, but those of `{}` are of shape {:?}",
                        test_items.display(),
                        test[1],
                        self.items.display(),
                        test[0]
                    ))
                })?;
            }
            _ => {
                return Err(Error::setting(
                    "`test-items` and `test-truth` are given together or not at all",
                ));
            }
        }
        let unlabelled = match meaning {
            Meaning::Classes(_) => Unlabelled::Skip,
            Meaning::Columns(_) => self.unlabelled,
        };
        let sorting = Sorting::new(aim, unlabelled, self.test, seed);
        self.parts(labelled, &items, sorting)
    }

    fn parts(
        &self,
        labelled: Labelled<Number>,
        items: &Items,
        sorting: Sorting<'_>,
    ) -> Result<Parts, Error> {
        let wanted = Wanted::new(self.size, self.channels);
        let as_they_are = wanted.size.is_none() && wanted.channels.is_none();
        let parts = match items.values {
            _ if as_they_are => labelled.pick(sorting, items, |number| number.0),
            Values::Bytes(_) => {
                let in_memory = |Number(number)| InMemory { items, number };
                labelled.moved(in_memory).pictures(sorting, wanted)
            }
            Values::Floats(_) => {
                return Err(Error::setting(format!(
                    "`{}` holds points, so `size` and `channels` cannot be given",
                    self.items.display()
                )));
            }
        };
        parts.at(&self.items)
    }

    /// How the truth is to be read.
    fn meaning(&self, truth: &Array, classes: &[ClassEntry]) -> Result<Meaning, Error> {
        if truth.shape.len() == 1 {
            if self.labels.is_some() {
                return Err(Error::setting(format!(
                    "`{}` holds one class for each item, so `labels` cannot be given\nhint: write `classes = [{{ name = \"A\", of = [0] }}]` instead",
                    self.truth.display()
                )));
            }
            return Ok(Meaning::Classes(ClassMap::new(classes)?));
        }
        let columns = shape(truth)
            .and_then(|[_, columns]| Columns::new(columns, self.labels.as_deref(), classes));
        Ok(Meaning::Columns(columns.at(&self.truth)?))
    }
}

/// How the truth is to be read.
enum Meaning {
    /// One class for each item.
    Classes(ClassMap),
    /// One row of a matrix for each item.
    Columns(Columns),
}

impl Meaning {
    fn labels(&self) -> Labels {
        match self {
            Self::Classes(map) => map.labels().clone(),
            Self::Columns(columns) => columns.labels.clone(),
        }
    }

    /// The items with their label sets, numbered from 0.
    fn items(&self, truth: &Array, path: &Path) -> Result<Vec<Item<Number>>, Error> {
        match self {
            Self::Classes(map) => {
                let classes = (0..).zip(original(truth, path)?);
                let item = |(number, class)| {
                    let truth = map.truth(class);
                    Item {
                        original: Some(class),
                        ..Item::new(Number(number), truth, Portion::Train)
                    }
                };
                Ok(classes.map(item).collect())
            }
            Self::Columns(columns) => {
                let sets = columns.sets(truth).at(path)?;
                let item = |(number, set)| Item::new(Number(number), set, Portion::Train);
                Ok((0..).zip(sets).map(item).collect())
            }
        }
    }
}

/// One item for each of `count`, or an error that names both arrays.
fn numbered(
    meaning: &Meaning,
    [items, truth]: [&Path; 2],
    count: usize,
    array: &Array,
) -> Result<Vec<Item<Number>>, Error> {
    let rows = array.shape.first().copied().unwrap_or(0);
    if rows != count {
        return Err(Error::mismatch(format!(
            "`{}` holds {count} items, but `{}` holds labels of {rows}",
            items.display(),
            truth.display()
        )));
    }
    meaning.items(array, truth)
}

/// Classes as bytes.
fn original(truth: &Array, path: &Path) -> Result<Vec<u8>, Error> {
    let numbers = match (&truth.values, truth.shape.len()) {
        (npy::Values::U8(classes), 1) => return Ok(classes.clone()),
        (npy::Values::F32(numbers), 1) => numbers,
        _ => {
            let shape = &truth.shape;
            return Err(Error::malformed(format!(
                "it is of shape {shape:?}, wanted one row per item and one column per label"
            )))
            .at(path);
        }
    };
    let byte = |(item, &class): (usize, &f32)| {
        // A cast cuts and rounds, so what comes back unchanged was a byte.
        let byte = class as u8;
        if f32::from(byte) == class {
            return Ok(byte);
        }
        Err(Error::malformed(format!(
            "`{}`: item {item} is of class {class}, but classes are whole numbers of 0 to 255",
            path.display()
        )))
    };
    numbers.iter().enumerate().map(byte).collect()
}

/// Appends items of the same shape; the two shapes where they differ.
fn append(items: &mut Items, more: Items) -> Result<(), [Vec<usize>; 2]> {
    if items.shape != more.shape {
        return Err([items.shape.clone(), more.shape]);
    }
    match (&mut items.values, more.values) {
        (Values::Bytes(all), Values::Bytes(more)) => all.extend(more),
        (Values::Floats(all), Values::Floats(more)) => all.extend(more),
        _ => unreachable!("images and points differ in shape"),
    }
    Ok(())
}

fn read_items(path: &Path) -> Result<Items, Error> {
    items(read_array(path)?).at(path)
}

/// Reads an array whose path may go on into an archive.
fn read_array(path: &Path) -> Result<Array, Error> {
    if let (Some(archive), Some(entry)) = (path.parent(), path.file_name())
        && archive.is_file()
    {
        return npy::read(archive, Some(&entry.to_string_lossy()));
    }
    npy::read(path, None).map_err(|error| match npy::names(path) {
        Ok(names) if names.len() != 1 => Error::setting(format!(
            "`{}` holds {} arrays\nhint: say which one, for example `{}`",
            path.display(),
            names.len(),
            path.join(names.first().map_or("x", String::as_str))
                .display()
        )),
        _ => error,
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use proptest::prelude::*;

    use super::*;
    use crate::made::{bits, files, npy};
    use crate::text_file::tests::zip;

    fn arrays(folder: &tempfile::TempDir) -> Arrays {
        Arrays {
            items: folder.path().join("x.npy"),
            truth: folder.path().join("y.npy"),
            test_items: None,
            test_truth: None,
            labels: None,
            size: None,
            channels: None,
            test: Some(0.25),
            unlabelled: Unlabelled::Refuse,
        }
    }

    fn floats(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|v| v.to_le_bytes()).collect()
    }

    fn classes(list: &[(&str, &[u32])]) -> Vec<ClassEntry> {
        let entry = |&(name, of): &(&str, &[u32])| ClassEntry {
            name: name.to_owned(),
            of: of.to_vec(),
        };
        list.iter().map(entry).collect()
    }

    fn odd_or_small() -> Vec<ClassEntry> {
        classes(&[("odd", &[1, 3]), ("small", &[0, 1])])
    }

    #[test]
    fn points_with_rows_of_labels() {
        let x: Vec<f32> = (0..8).map(|i| i as f32).collect();
        let folder = files(&[
            ("x.npy", &npy("<f4", "(4, 2)", &floats(&x))),
            ("y.npy", &npy("|u1", "(4, 2)", &[1, 0, 1, 1, 0, 1, 1, 1])),
        ]);
        let named = Arrays {
            labels: Some(vec!["A".to_owned(), "B".to_owned()]),
            ..arrays(&folder)
        };
        let parts = named.read(&[], 0).unwrap();
        assert_eq!((parts.train.len(), parts.test.len()), (3, 1));
        assert_eq!(parts.train.items.shape, [2]);
        let truth = [1, 3, 2, 3];
        for data in [&parts.train, &parts.test] {
            let Values::Floats(points) = &data.items.values else {
                panic!("points are floats")
            };
            let wanted = points.chunks(2).map(|p| truth[p[0] as usize / 2]);
            assert_eq!(bits(data), wanted.collect::<Vec<u64>>());
        }
        let sized = Arrays {
            channels: Some(Channels::Grey),
            ..named
        };
        let failure = sized.read(&[], 0).unwrap_err().to_string();
        assert!(
            failure.ends_with("holds points, so `size` and `channels` cannot be given"),
            "{failure}"
        );
    }

    #[test]
    fn pictures_with_classes_and_a_test_part_in_an_archive() {
        let archive = zip(&[
            (
                "x_train.npy",
                &npy("|u1", "(4, 1, 2)", &[0, 0, 1, 1, 2, 2, 3, 3]),
            ),
            (
                "y_train.npy",
                &npy(
                    "<i4",
                    "(4,)",
                    &[0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0],
                ),
            ),
            ("x_test.npy", &npy("|u1", "(2, 1, 2)", &[1, 1, 3, 3])),
            ("y_test.npy", &npy("|u1", "(2,)", &[1, 3])),
        ]);
        let folder = files(&[("data.npz", &archive)]);
        let at = |name: &str| folder.path().join("data.npz").join(name);
        let whole = Arrays {
            items: at("x_train"),
            truth: at("y_train"),
            test_items: Some(at("x_test")),
            test_truth: Some(at("y_test")),
            test: None,
            ..arrays(&folder)
        };
        let parts = whole.read(&odd_or_small(), 0).unwrap();
        assert_eq!(parts.train.original, [0, 1, 3]);
        assert_eq!(bits(&parts.train), [0b10, 0b11, 0b01]);
        assert_eq!(
            parts.train.items.values,
            Values::Bytes(vec![0, 0, 1, 1, 3, 3])
        );
        assert_eq!(parts.test.original, [1, 3]);
        assert_eq!(
            parts.notes,
            ["1 of 6 items have no label and are left out; item 2 is the first"]
        );
        let coloured = Arrays {
            size: Some([1, 1].map(|side| NonZeroU32::new(side).unwrap())),
            channels: Some(Channels::Rgb),
            ..whole.clone()
        };
        let parts = coloured.read(&odd_or_small(), 0).unwrap();
        assert_eq!(parts.train.items.shape, [3, 1, 1]);
        assert_eq!(
            parts.test.items.values,
            Values::Bytes(vec![1, 1, 1, 3, 3, 3])
        );
        let half = Arrays {
            test_truth: None,
            ..whole.clone()
        };
        assert_eq!(
            half.read(&odd_or_small(), 0).unwrap_err().to_string(),
            "`test-items` and `test-truth` are given together or not at all"
        );
        let unnamed = Arrays {
            items: folder.path().join("data.npz"),
            ..whole.clone()
        };
        let failure = unnamed.read(&odd_or_small(), 0).unwrap_err().to_string();
        let name = folder.path().join("data.npz");
        let name = name.display();
        assert_eq!(
            failure,
            format!("`{name}` holds 4 arrays\nhint: say which one, for example `{name}/x_train`")
        );
        let none = Arrays {
            truth: at("y"),
            ..whole
        };
        let failure = none.read(&odd_or_small(), 0).unwrap_err().to_string();
        assert!(
            failure.contains("data.npz` has no array `y`, only "),
            "{failure}"
        );
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let message = |x: &[u8], y: &[u8], labels: Option<&[&str]>, list: &[ClassEntry]| {
            let folder = files(&[("x.npy", x), ("y.npy", y)]);
            let labels = labels.map(|names| names.iter().map(|&n| n.to_owned()).collect());
            let arrays = Arrays {
                labels,
                ..arrays(&folder)
            };
            let failure = arrays.read(list, 0).unwrap_err().to_string();
            failure.replace(folder.path().to_str().unwrap(), "DIR")
        };
        let (x, y) = (
            npy("|u1", "(3,)", &[1, 2, 3]),
            npy("|u1", "(3,)", &[0, 1, 3]),
        );
        let list = odd_or_small();
        assert_eq!(
            message(&x, &npy("|u1", "(2,)", &[0, 1]), None, &list),
            "`DIR/x.npy` holds 3 items, but `DIR/y.npy` holds labels of 2"
        );
        assert_eq!(
            message(
                &x,
                &npy("<f4", "(3,)", &floats(&[0.0, 256.0, 1.0])),
                None,
                &list
            ),
            "`DIR/y.npy`: item 1 is of class 256, but classes are whole numbers of 0 to 255"
        );
        assert_eq!(
            message(&x, &y, Some(&["A"]), &[]),
            "`DIR/y.npy` holds one class for each item, so `labels` cannot be given\n\
             hint: write `classes = [{ name = \"A\", of = [0] }]` instead"
        );
        assert!(message(&x, &y, None, &[]).starts_with("no class is given\nhint: "));
        let matrix = npy("|u1", "(3, 1)", &[1, 1, 1]);
        assert!(message(&x, &matrix, None, &[]).starts_with("`DIR/y.npy`: its 1 columns have no"));
        assert!(message(&x[..80], &y, None, &list).contains("`DIR/x.npy`"));
        let cut = message(&x[..x.len() - 1], &y, None, &list);
        assert!(
            cut.starts_with("`DIR/x.npy` is of shape [3], so it should have"),
            "{cut}"
        );
        let unknown = message(&x, &y, None, &classes(&[("A", &[0, 1, 3]), ("B", &[9])]));
        assert!(
            unknown.starts_with("`DIR/x.npy`: no item has label `B`"),
            "{unknown}"
        );
        let none = npy("|u1", "(3, 1)", &[1, 0, 1]);
        let without = message(&x, &none, Some(&["A"]), &[]);
        assert!(
            without.starts_with("`DIR/x.npy`: 1 of 3 items have no label; item 1 is the first"),
            "{without}"
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn arbitrary_arrays_never_panic(
            shape in prop::collection::vec(0..4usize, 0..5),
            kind in prop::sample::select(vec!["|u1", "<f4", "<i8", "|b1"]),
            bytes in prop::collection::vec(any::<u8>(), 0..64),
            end in any::<prop::sample::Index>(),
        ) {
            let sides: Vec<_> = shape.iter().map(|side| format!("{side},")).collect();
            let file = npy(kind, &format!("({})", sides.concat()), &bytes);
            let good = npy("|u1", "(3,)", &[0, 1, 3]);
            let folder = files(&[("x.npy", &file), ("y.npy", &good)]);
            let _ = arrays(&folder).read(&odd_or_small(), 0);
            fs::write(folder.path().join("x.npy"), &good).unwrap();
            fs::write(folder.path().join("y.npy"), &file).unwrap();
            let _ = arrays(&folder).read(&odd_or_small(), 0);
            fs::write(folder.path().join("y.npy"), &good[..end.index(good.len())]).unwrap();
            let _ = arrays(&folder).read(&odd_or_small(), 0);
        }

        #[test]
        fn whole_arrays_of_any_shape_never_panic(
            shape in prop::collection::vec(1..4usize, 1..5),
            level: u8,
        ) {
            let count = shape.iter().product();
            let sides: Vec<_> = shape.iter().map(|side| format!("{side},")).collect();
            let file = npy("|u1", &format!("({})", sides.concat()), &vec![level; count]);
            let classes = vec![level % 4; shape[0]];
            let y = npy("|u1", &format!("({},)", shape[0]), &classes);
            let folder = files(&[("x.npy", &file), ("y.npy", &y)]);
            let _ = arrays(&folder).read(&odd_or_small(), 0);
        }
    }
}
