//! Pictures in one folder per label: the form that single positive labels come in by themselves.
//!
//! ```text
//! pets/cat/001.jpg …   pets/dog/001.jpg …                 a seeded share is the test part
//! pets/train/cat/…     pets/test/cat/…     pets/valid/…   or the data has parts of its own
//! ```
//!
//! ```toml
//! source = { format = "folders", folder = "pets", size = [64, 64], channels = 3, test = 0.1 }
//! ```
//!
//! Labels are in the order of the folders' names. There are parts where a folder `train` holds
//! folders and no pictures. Names that start with a dot are passed over, and nothing deeper than a
//! label's folder is looked at. Links are followed: whoever sets them chooses the pictures.

use std::fs;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use s2m_core::labels::{LabelSet, Labels};
use serde::{Deserialize, Serialize};

use crate::channels::Channels;
use crate::error::{AtPath as _, Error};
use crate::labelled::{Aim, Item, Labelled, Parts, Portion, Sorting, Unlabelled};
use crate::picture_at::PictureAt;
use crate::picture_folder::{endings, list};
use crate::picture_set::Wanted;

/// Pictures in one folder per label.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Folders {
    /// The folder of the labels' folders; relative to where the program runs.
    pub folder: PathBuf,
    /// Height and width of all pictures; needed where they differ in size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<[NonZeroU32; 2]>,
    /// 1 for grey, 3 for colour; by the pictures where left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channels: Option<Channels>,
    /// Share of the test part, where there is no folder `test`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<f64>,
    /// What to do about pictures that lie beside the labels' folders.
    #[serde(default)]
    pub unlabelled: Unlabelled,
}

impl Folders {
    /// The folder of the labels' folders, with all else by what it holds.
    pub fn new(folder: PathBuf) -> Self {
        Self {
            folder,
            size: None,
            channels: None,
            test: None,
            unlabelled: Unlabelled::default(),
        }
    }

    /// Reads all pictures.
    pub(crate) fn read(&self, seed: u64) -> Result<Parts, Error> {
        let sorting = Sorting::new(Aim::Training, self.unlabelled, self.test, seed);
        let wanted = Wanted::new(self.size, self.channels);
        let parts = self.list()?.pictures(sorting, wanted);
        parts.at(&self.folder)
    }

    /// All pictures with their labels, none of them read.
    fn list(&self) -> Result<Labelled<PictureAt>, Error> {
        let portions = portions(&self.folder)?;
        let mut names = Vec::new();
        for (_, folder) in &portions {
            for label in subfolders(folder)? {
                names.push(name_of(&label)?);
            }
        }
        names.sort_unstable();
        names.dedup();
        if names.is_empty() {
            return Err(Error::not_found(format!(
                "`{}` has no folders in it, so there are no labels\nhint: put the images of each label into a folder with the label's name",
                self.folder.display()
            )));
        }
        let labels = Labels::new(names).map_err(|error| {
            Error::from(error).within(format_args!("the folders of `{}`", self.folder.display()))
        })?;
        let mut items = Vec::new();
        for (portion, folder) in portions {
            for path in list(&folder)? {
                items.push(Item::new(PictureAt::File(path), LabelSet::EMPTY, portion));
            }
            for folder in subfolders(&folder)? {
                let label = name_of(&folder)?;
                let truth = labels.find(&label).into_iter().collect();
                let paths = list(&folder)?;
                if paths.is_empty() {
                    return Err(Error::not_found(format!(
                        "`{}` holds no images, so no item has label `{label}`\nhint: images end in {}",
                        folder.display(),
                        endings()
                    )));
                }
                let item = |path| Item::new(PictureAt::File(path), truth, portion);
                items.extend(paths.into_iter().map(item));
            }
        }
        Ok(Labelled {
            labels,
            items,
            notes: Vec::new(),
        })
    }
}

/// The folders whose subfolders are labels, each with what its pictures are for.
fn portions(folder: &Path) -> Result<Vec<(Portion, PathBuf)>, Error> {
    let train = folder.join("train");
    let has_parts = train.is_dir() && list(&train)?.is_empty() && !subfolders(&train)?.is_empty();
    if !has_parts {
        return Ok(vec![(Portion::Train, folder.to_owned())]);
    }
    let mut portions = Vec::new();
    for folder in subfolders(folder)? {
        match Portion::named(&name_of(&folder)?) {
            Some(portion) => portions.push((portion, folder)),
            None => {
                return Err(Error::malformed(format!(
                    "`{}` stands beside `train`, but is neither `test` nor `valid`\nhint: move it into `train`, or away",
                    folder.display()
                )));
            }
        }
    }
    Ok(portions)
}

/// The folders in a folder, by sorted name.
fn subfolders(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let failed = Error::reading_folder(folder);
    let mut folders = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        if !hidden && entry.path().is_dir() {
            folders.push(entry.path());
        }
    }
    folders.sort_unstable();
    Ok(folders)
}

fn name_of(folder: &Path) -> Result<String, Error> {
    let name = folder.file_name().unwrap_or_default().to_str();
    name.map(str::to_owned).ok_or_else(|| {
        Error::unsupported(format!(
            "the name of `{}` is not UTF-8, so it cannot be a label",
            folder.display()
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::Values;
    use crate::made::{bits, files, png};

    fn folders(folder: &Path) -> Folders {
        Folders {
            folder: folder.to_owned(),
            size: None,
            channels: None,
            test: Some(0.25),
            unlabelled: Unlabelled::Refuse,
        }
    }

    fn message(folders: &Folders) -> String {
        let failure = folders.read(0).unwrap_err().to_string();
        failure.replace(folders.folder.to_str().unwrap(), "DIR")
    }

    #[test]
    fn each_folder_is_a_label() {
        let pictures: Vec<_> = (0..8).map(|i| png(&[i])).collect();
        let at = files(&[
            ("dog/b.png", &pictures[6]),
            ("dog/a.png", &pictures[5]),
            ("cat/x.png", &pictures[1]),
            ("cat/y.png", &pictures[2]),
            ("cat/notes.txt", b"cats"),
            ("cat/deeper/z.png", &pictures[7]),
            (".cache/x.png", &pictures[7]),
        ]);
        let parts = folders(at.path()).read(0).unwrap();
        assert_eq!(
            parts.train.labels.names().collect::<Vec<_>>(),
            ["cat", "dog"]
        );
        assert_eq!((parts.train.len(), parts.test.len()), (3, 1));
        assert_eq!(parts.train.items.shape, [1, 1, 1]);
        for data in [&parts.train, &parts.test] {
            let Values::Bytes(levels) = &data.items.values else {
                panic!("images are bytes")
            };
            let of_level = |&level: &u8| if level < 5 { 0b01 } else { 0b10 };
            assert_eq!(bits(data), levels.iter().map(of_level).collect::<Vec<_>>());
            assert!(data.truth.iter().all(|set| set.len() == 1));
        }
        assert_eq!(folders(at.path()).read(0).unwrap(), parts);
    }

    #[test]
    fn the_data_may_have_parts_of_its_own() {
        let picture = png(&[1, 2]);
        let at = files(&[
            ("train/a/1.png", &picture),
            ("train/b/1.png", &picture),
            ("train/b/2.png", &picture),
            ("valid/a/3.png", &picture),
            ("test/b/4.png", &picture),
            ("README.md", b"parts"),
        ]);
        let mut settings = folders(at.path());
        settings.test = None;
        let parts = settings.read(0).unwrap();
        assert_eq!(bits(&parts.train), [1, 2, 2, 1]);
        assert_eq!(parts.validation, Some(vec![3]));
        assert_eq!(bits(&parts.test), [2]);
        assert_eq!(parts.notes, ["no test item has label `a`"]);
        settings.test = Some(0.5);
        assert!(message(&settings).starts_with("`DIR`: `test = 0.5` is given, but"));

        let at = files(&[
            ("train/a/1.png", &picture),
            ("test/c/1.png", &picture),
            ("train/b/1.png", &picture),
        ]);
        assert_eq!(
            message(&Folders {
                test: None,
                ..folders(at.path())
            }),
            "`DIR`: label `c` is of test items only, so nothing can be learnt about it\n\
             hint: add training items that have it, or draw the test part with another seed"
        );
        let at = files(&[("train/a/1.png", &picture), ("cat/1.png", &picture)]);
        assert_eq!(
            message(&folders(at.path())),
            "`DIR/cat` stands beside `train`, but is neither `test` nor `valid`\n\
             hint: move it into `train`, or away"
        );
    }

    /// Pictures of trains and of tests are labels like any other.
    #[test]
    fn a_label_may_be_called_train() {
        let picture = png(&[1]);
        let at = files(&[
            ("train/1.png", &picture),
            ("train/2.png", &picture),
            ("train/deeper/3.png", &picture),
            ("test/1.png", &picture),
            ("test/2.png", &picture),
        ]);
        let parts = folders(at.path()).read(1).unwrap();
        assert_eq!(
            parts.train.labels.names().collect::<Vec<_>>(),
            ["test", "train"]
        );
    }

    #[test]
    fn what_is_missing_is_named() {
        let picture = png(&[1]);
        let at = files(&[("notes.txt", b"")]);
        assert_eq!(
            message(&folders(at.path())),
            "`DIR` has no folders in it, so there are no labels\n\
             hint: put the images of each label into a folder with the label's name"
        );
        let at = files(&[("cat/1.png", &picture), ("dog/1.gif", b"GIF89a")]);
        assert_eq!(
            message(&folders(at.path())),
            "`DIR/dog` holds no images, so no item has label `dog`\n\
             hint: images end in .png, .jpg, .jpeg"
        );
        let at = files(&[("cat/1.png", &picture), ("loose.png", &picture)]);
        assert_eq!(
            message(&folders(at.path())),
            "`DIR`: 1 of 2 items have no label; `DIR/loose.png` is the first\n\
             hint: give them labels, or leave them out with `unlabelled = \"skip\"`"
        );
        let at = files(&[("cat/1.png", &picture), ("a\"b/1.png", &picture)]);
        assert!(message(&folders(at.path())).starts_with("the folders of `DIR`: label name"));
        let missing = message(&folders(&at.path().join("none")));
        assert!(
            missing.starts_with("could not read the folder `DIR`: "),
            "{missing}"
        );
    }

    #[test]
    fn sizes_are_brought_together_on_request() {
        let at = files(&[
            ("a/1.png", &png(&[1, 1])),
            ("a/2.png", &png(&[1, 1])),
            ("b/1.png", &png(&[5, 9, 5])),
            ("b/2.png", &png(&[5, 9, 5])),
        ]);
        let mut settings = folders(at.path());
        let failure = message(&settings);
        assert!(
            failure.contains("`DIR/a/") && failure.contains("is 1 × 2,"),
            "{failure}"
        );
        assert!(
            failure.contains("`DIR/b/1.png` is 1 × 3, height by width"),
            "{failure}"
        );
        settings.size = Some([NonZeroU32::MIN; 2]);
        settings.channels = Some(Channels::Rgb);
        let parts = settings.read(0).unwrap();
        assert_eq!(parts.train.items.shape, [3, 1, 1]);
    }

    #[test]
    fn a_bad_picture_is_named() {
        let at = files(&[
            ("a/1.png", &png(&[1])),
            ("a/2.png", b"\x89PNG\r\n\x1a\nbroken"),
            ("b/3.png", &png(&[1])),
            ("b/4.png", &png(&[1])),
        ]);
        let failure = message(&folders(at.path()));
        assert!(
            failure.starts_with("`DIR`: could not decode the PNG `DIR/a/2.png`: "),
            "{failure}"
        );
    }
}
