//! Label matrices as Cole et al. keep them: names of pictures and rows of 1 and 0 in `.npy` files.
//!
//! ```text
//! images.npy [n]   labels.npy [n, labels]   labels_obs.npy [n, labels]: 1 seen, 0 not known
//! ```
//!
//! ```toml
//! source = { format = "cole", folder = "pascal", pictures = "VOC2012/JPEGImages", labels = ["aeroplane", "…"], size = [64, 64] }
//! ```
//!
//! Their own files are called `formatted_train_images.npy` and so on, with `formatted_val_…` for the
//! part that they test on; they are found by either name. Images are names, relative to the folder
//! of the pictures, or the pictures themselves. Where an observed matrix is there, training sees its
//! labels and no others: with one label in each row, `one-of` shows just that one. Where it is there
//! alone, it is also the truth.
//!
//! Reference: Cole et al., "Multi-Label Learning from Single Positive Labels", 2021.

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use s2m_core::labels::{LabelSet, Labels};
use serde::{Deserialize, Serialize};

use crate::array_items::{InMemory, items};
use crate::asked::not_known;
use crate::channels::Channels;
use crate::classes::ClassEntry;
use crate::dataset::{Dataset, Items, Values};
use crate::error::{AtPath as _, Error};
use crate::file_name;
use crate::labelled::{Aim, Item, Labelled, Parts, Portion, Sorting, Unlabelled};
use crate::matrix::{Columns, shape};
use crate::npy::{self, Array, Content};
use crate::picture_at::PictureAt;
use crate::picture_set::Wanted;

/// Label matrices with names of pictures, or with pictures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Cole {
    /// The folder of the arrays; relative to where the program runs.
    pub folder: PathBuf,
    /// The folder that names are relative to, where it is another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pictures: Option<PathBuf>,
    /// Names of all columns; `classes` chooses columns by number where left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<Vec<String>>,
    /// Height and width of all pictures; needed where they differ in size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<[NonZeroU32; 2]>,
    /// 1 for grey, 3 for colour; by the pictures where left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channels: Option<Channels>,
    /// Share of the test part, where it has no arrays of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<f64>,
    /// What to do about rows without a label.
    #[serde(default)]
    pub unlabelled: Unlabelled,
}

/// The arrays of one part.
struct Rows {
    images_path: PathBuf,
    images: Images,
    truth: Vec<LabelSet>,
    shown: Vec<LabelSet>,
    portion: Portion,
}

enum Images {
    Names(Vec<String>),
    Pictures(Items),
}

impl Cole {
    /// Reads the arrays and all pictures.
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
        let path = match self.need("train", "labels") {
            Err(_) if self.find("train", "labels_obs").is_some() => {
                let what = format!("`{}` has observed labels alone", self.folder.display());
                return Err(not_known(&what));
            }
            found => found?,
        };
        let matrix = npy::read(&path, None)?;
        let columns = self.columns(&matrix, classes);
        let known = columns.and_then(|columns| columns.check_known(&matrix, labels));
        known.at(&path)?;
        Ok(self.read_for(Aim::Audit(labels), classes, seed)?.train)
    }

    /// What the columns of a matrix stand for.
    fn columns(&self, matrix: &Array, classes: &[ClassEntry]) -> Result<Columns, Error> {
        let [_, width] = shape(matrix)?;
        Columns::new(width, self.labels.as_deref(), classes)
    }

    fn read_for(&self, aim: Aim<'_>, classes: &[ClassEntry], seed: u64) -> Result<Parts, Error> {
        let (columns, train) = self.rows("train", Portion::Train, None, classes)?;
        let test = match self.find("val", "images") {
            Some(_) => Some(self.rows("val", Portion::Test, Some(&columns), classes)?.1),
            None => None,
        };
        let unseen = train.shown.iter().filter(|set| set.is_empty()).count();
        let differs = train.shown != train.truth;
        let mut notes = Vec::new();
        if differs && unseen > 0 {
            notes.push(format!("{unseen} training items have no observed label"));
        }
        let sorting = Sorting::new(aim, self.unlabelled, self.test, seed);
        let wanted = Wanted::new(self.size, self.channels);
        let parts: Vec<Rows> = [train].into_iter().chain(test).collect();
        let labels = columns.labels;
        let read = if let Some(pictures) = all_pictures(&parts)? {
            let in_memory = parts.iter().zip(pictures).flat_map(|(rows, items)| {
                let count = items.len() as u32;
                let place = (0..count).map(move |number| InMemory { items, number });
                rows.items(place)
            });
            let items = in_memory.collect();
            Labelled {
                labels,
                items,
                notes,
            }
            .pictures(sorting, wanted)
        } else {
            let mut items = Vec::new();
            for rows in &parts {
                let paths = self.paths(rows)?;
                items.extend(rows.items(paths.into_iter().map(PictureAt::File)));
            }
            Labelled {
                labels,
                items,
                notes,
            }
            .pictures(sorting, wanted)
        };
        read.at(&self.folder)
    }

    /// The two names of a file; only the training part has a short one.
    fn names(part: &str, what: &str) -> [String; 2] {
        let long = format!("formatted_{part}_{what}.npy");
        let short = if part == "train" {
            format!("{what}.npy")
        } else {
            format!("{part}_{what}.npy")
        };
        [short, long]
    }

    fn find(&self, part: &str, what: &str) -> Option<PathBuf> {
        let paths = Self::names(part, what).map(|name| self.folder.join(name));
        paths.into_iter().find(|path| path.is_file())
    }

    fn need(&self, part: &str, what: &str) -> Result<PathBuf, Error> {
        self.find(part, what).ok_or_else(|| {
            let [short, long] = Self::names(part, what);
            Error::not_found(format!(
                "`{}` has neither `{short}` nor `{long}`",
                self.folder.display()
            ))
        })
    }

    /// The arrays of one part, with the columns where they are not known yet.
    fn rows(
        &self,
        part: &str,
        portion: Portion,
        columns: Option<&Columns>,
        classes: &[ClassEntry],
    ) -> Result<(Columns, Rows), Error> {
        let images_path = self.need(part, "images")?;
        let observed = self.find(part, "labels_obs");
        let labels = match (&observed, self.find(part, "labels")) {
            (_, Some(labels)) => labels,
            (Some(observed), None) => observed.clone(),
            (None, None) => self.need(part, "labels")?,
        };
        let matrix = npy::read(&labels, None)?;
        let columns = match columns {
            Some(columns) => columns.clone(),
            None => self.columns(&matrix, classes).at(&labels)?,
        };
        let truth = columns.sets(&matrix).at(&labels)?;
        let shown = match &observed {
            Some(observed) => {
                let shown = sets(&columns, &npy::read(observed, None)?, truth.len());
                let shown = shown.at(observed)?;
                check_shown(&columns, [observed, &labels], &shown, &truth)?;
                shown
            }
            None => truth.clone(),
        };
        let images = read_images(&images_path)?;
        let count = match &images {
            Images::Names(names) => names.len(),
            Images::Pictures(items) => items.len(),
        };
        if truth.len() != count {
            return Err(rows_differ(truth.len(), count)).at(&labels);
        }
        let rows = Rows {
            images_path,
            images,
            truth,
            shown,
            portion,
        };
        Ok((columns, rows))
    }

    /// The files of all names; each is there, once, and lies in the folder of the pictures.
    fn paths(&self, rows: &Rows) -> Result<Vec<PathBuf>, Error> {
        let Images::Names(names) = &rows.images else {
            return Ok(Vec::new());
        };
        let folder = self.pictures.as_ref().unwrap_or(&self.folder);
        let list = &rows.images_path;
        let row = |row: usize| format!("row {row}");
        let listed = names.iter().map(String::as_str);
        let (paths, missing) = file_name::locate(list, listed, row, folder)?;
        match missing.first() {
            None => Ok(paths),
            Some(&row) => Err(Error::not_found(format!(
                "`{}`, row {row}: `{}` is not in `{}`\nhint: say where the images are with `pictures = \"…\"`",
                list.display(),
                names[row],
                folder.display()
            ))),
        }
    }
}

impl Rows {
    /// The items at these places.
    fn items<P>(&self, places: impl Iterator<Item = P>) -> Vec<Item<P>> {
        let sets = self.truth.iter().zip(&self.shown);
        places
            .zip(sets)
            .map(|(place, (&truth, &shown))| Item {
                shown,
                ..Item::new(place, truth, self.portion)
            })
            .collect()
    }
}

/// The pictures of all parts; none where they are names.
fn all_pictures(parts: &[Rows]) -> Result<Option<Vec<&Items>>, Error> {
    let (mut pictures, mut names) = (Vec::new(), None);
    for rows in parts {
        match &rows.images {
            Images::Pictures(items) => pictures.push((items, &rows.images_path)),
            Images::Names(_) => names = Some(&rows.images_path),
        }
    }
    match (names, pictures.first()) {
        (Some(names), Some((_, pictures))) => Err(Error::mismatch(format!(
            "`{}` holds names, `{}` images; wanted the same in both",
            names.display(),
            pictures.display()
        ))),
        (Some(_), None) => Ok(None),
        (None, _) => Ok(Some(pictures.into_iter().map(|(items, _)| items).collect())),
    }
}

/// The label sets of a matrix with this many rows.
fn sets(columns: &Columns, matrix: &Array, items: usize) -> Result<Vec<LabelSet>, Error> {
    let sets = columns.sets(matrix)?;
    if sets.len() == items {
        Ok(sets)
    } else {
        Err(rows_differ(sets.len(), items))
    }
}

fn rows_differ(rows: usize, items: usize) -> Error {
    Error::mismatch(format!("it has {rows} rows for {items} items"))
}

/// Every label that is seen holds.
fn check_shown(
    columns: &Columns,
    [observed, labels]: [&Path; 2],
    shown: &[LabelSet],
    truth: &[LabelSet],
) -> Result<(), Error> {
    for (row, (shown, truth)) in shown.iter().zip(truth).enumerate() {
        if let Some(label) = shown.iter().find(|&label| !truth.contains(label)) {
            return Err(Error::mismatch(format!(
                "`{}`, row {row}: label `{}` is observed, but does not hold by `{}`",
                observed.display(),
                columns.labels.name(label),
                labels.display()
            )));
        }
    }
    Ok(())
}

fn read_images(path: &Path) -> Result<Images, Error> {
    let array = match npy::read_content(path, None)? {
        Content::Texts(names) => return Ok(Images::Names(names)),
        Content::Numbers(array) => array,
    };
    let items = items(array).at(path)?;
    match items.values {
        Values::Bytes(_) => Ok(Images::Pictures(items)),
        Values::Floats(_) => Err(Error::malformed(format!(
            "`{}` holds points, wanted names or images",
            path.display()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::made::{bits, files, npy, png};

    fn cole(folder: &Path) -> Cole {
        Cole {
            folder: folder.to_owned(),
            pictures: None,
            labels: Some(vec!["A".to_owned(), "B".to_owned()]),
            size: None,
            channels: None,
            test: Some(0.25),
            unlabelled: Unlabelled::Refuse,
        }
    }

    fn message(cole: &Cole) -> String {
        let failure = cole.read(&[], 0).unwrap_err().to_string();
        failure.replace(cole.folder.to_str().unwrap(), "DIR")
    }

    /// Names of up to nine letters.
    fn names(names: &[&str]) -> Vec<u8> {
        let letters = names.iter().flat_map(|name| {
            let mut letters: Vec<u32> = name.chars().map(u32::from).collect();
            letters.resize(9, 0);
            letters
        });
        let bytes: Vec<u8> = letters.flat_map(u32::to_le_bytes).collect();
        npy("<U9", &format!("({},)", names.len()), &bytes)
    }

    fn matrix(rows: &[[u8; 2]]) -> Vec<u8> {
        npy("|u1", &format!("({}, 2)", rows.len()), rows.as_flattened())
    }

    #[test]
    fn names_and_observed_labels_in_their_own_files() {
        let at = files(&[
            ("formatted_train_images.npy", &names(&["x/a.png", "b.png"])),
            ("formatted_train_labels.npy", &matrix(&[[1, 1], [1, 0]])),
            ("formatted_train_labels_obs.npy", &matrix(&[[0, 1], [1, 0]])),
            ("formatted_val_images.npy", &names(&["c.png"])),
            ("formatted_val_labels.npy", &matrix(&[[1, 1]])),
            ("pictures/x/a.png", &png(&[1])),
            ("pictures/b.png", &png(&[2])),
            ("pictures/c.png", &png(&[3])),
        ]);
        let settings = Cole {
            pictures: Some(at.path().join("pictures")),
            test: None,
            ..cole(at.path())
        };
        let parts = settings.read(&[], 0).unwrap();
        assert_eq!(bits(&parts.train), [0b11, 0b01]);
        let shown: Vec<_> = parts.shown.unwrap().iter().map(|set| set.bits()).collect();
        assert_eq!(shown, [0b10, 0b01]);
        assert_eq!(parts.train.items.values, Values::Bytes(vec![1, 2]));
        assert_eq!(parts.test.items.values, Values::Bytes(vec![3]));
        assert_eq!(bits(&parts.test), [0b11]);
        let failure = message(&cole(at.path()));
        assert_eq!(
            failure,
            "`DIR/formatted_train_images.npy`, row 0: `x/a.png` is not in `DIR`\n\
             hint: say where the images are with `pictures = \"…\"`"
        );
    }

    #[test]
    fn without_observed_labels_all_may_be_seen() {
        let at = files(&[
            ("images.npy", &npy("|u1", "(2, 1, 1)", &[0, 1])),
            ("labels.npy", &matrix(&[[1, 1], [1, 0]])),
            ("val_images.npy", &npy("|u1", "(1, 1, 1)", &[2])),
            ("val_labels.npy", &matrix(&[[0, 1]])),
        ]);
        let settings = Cole {
            test: None,
            ..cole(at.path())
        };
        let parts = settings.read(&[], 0).unwrap();
        assert_eq!(
            (bits(&parts.train), bits(&parts.test)),
            (vec![3, 1], vec![2])
        );
        assert_eq!(parts.shown, None);
    }

    #[test]
    fn pictures_may_be_in_the_array_and_observed_labels_alone() {
        let at = files(&[
            (
                "images.npy",
                &npy("|u1", "(4, 1, 2)", &[0, 0, 1, 1, 2, 2, 3, 3]),
            ),
            ("labels_obs.npy", &matrix(&[[1, 0], [0, 1], [1, 0], [0, 1]])),
        ]);
        let parts = cole(at.path()).read(&[], 0).unwrap();
        assert_eq!((parts.train.len(), parts.test.len()), (3, 1));
        assert_eq!(parts.shown, None);
        assert_eq!(parts.train.items.shape, [1, 1, 2]);
        let chosen = Cole {
            labels: None,
            ..cole(at.path())
        };
        let either = ClassEntry {
            name: "either".to_owned(),
            of: vec![0, 1],
        };
        let parts = chosen.read(&[either], 0).unwrap();
        assert_eq!(bits(&parts.train), [1, 1, 1]);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let pictures = npy("|u1", "(2, 1, 2)", &[0, 0, 1, 1]);
        let with = |list: &[(&str, &[u8])]| message(&cole(files(list).path()));
        assert_eq!(
            with(&[]),
            "`DIR` has neither `images.npy` nor `formatted_train_images.npy`"
        );
        assert_eq!(
            with(&[("images.npy", &pictures)]),
            "`DIR` has neither `labels.npy` nor `formatted_train_labels.npy`"
        );
        assert_eq!(
            with(&[
                ("images.npy", &pictures),
                ("labels.npy", &matrix(&[[1, 1]]))
            ]),
            "`DIR/labels.npy`: it has 1 rows for 2 items"
        );
        let both = matrix(&[[1, 0], [0, 1]]);
        assert_eq!(
            with(&[
                ("images.npy", &pictures),
                ("labels.npy", &both),
                ("labels_obs.npy", &matrix(&[[1, 0], [1, 0]])),
            ]),
            "`DIR/labels_obs.npy`, row 1: label `A` is observed, but does not hold by \
             `DIR/labels.npy`"
        );
        assert_eq!(
            with(&[
                ("images.npy", &names(&["../a.png", "b.png"])),
                ("labels.npy", &both)
            ]),
            "`DIR/images.npy`, row 0: the file name \"../a.png\" is refused: \
             it leads upwards with `..`"
        );
        assert_eq!(
            with(&[
                ("images.npy", &names(&["a.png", "./a.png"])),
                ("labels.npy", &both),
                ("a.png", b"")
            ]),
            "`DIR/images.npy`: `./a.png` is in row 0 and again in row 1"
        );
        assert_eq!(
            with(&[
                ("images.npy", &npy("|u1", "(2,)", &[1, 2])),
                ("labels.npy", &both)
            ]),
            "`DIR/images.npy` holds points, wanted names or images"
        );
        assert_eq!(
            with(&[
                ("images.npy", &pictures),
                ("labels.npy", &both),
                ("val_images.npy", &names(&["a.png"])),
                ("val_labels.npy", &matrix(&[[1, 1]])),
            ]),
            "`DIR/val_images.npy` holds names, `DIR/images.npy` images; wanted the same in both"
        );
        let cut = with(&[
            ("images.npy", &pictures),
            ("labels.npy", &both[..both.len() - 1]),
        ]);
        assert!(cut.starts_with("`DIR/labels.npy` is of shape [2, 2], so it should"));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn damaged_arrays_never_panic(
            at in any::<prop::sample::Index>(),
            byte: u8,
            which in 0..3usize,
        ) {
            let mut arrays = [
                names(&["a.png", "b.png"]),
                matrix(&[[1, 1], [1, 1]]),
                matrix(&[[1, 0], [0, 1]]),
            ];
            let at = at.index(arrays[which].len());
            arrays[which][at] = byte;
            let read = |arrays: &[Vec<u8>; 3]| {
                let folder = files(&[
                    ("images.npy", &arrays[0]),
                    ("labels.npy", &arrays[1]),
                    ("labels_obs.npy", &arrays[2]),
                    ("a.png", &png(&[1])),
                    ("b.png", &png(&[2])),
                ]);
                let _ = cole(folder.path()).read(&[], 0);
            };
            read(&arrays);
            arrays[which].truncate(at);
            read(&arrays);
        }
    }
}
