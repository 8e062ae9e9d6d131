//! CelebA: its list of attributes, its list of parts, and the JPEG files in a folder or a tar archive.
//!
//! ```text
//! list_attr_celeba.txt         list_eval_partition.txt
//! 202599                       000001.jpg 0        0 training
//! 5_o_Clock_Shadow Arched_…    000002.jpg 1        1 validation
//! 000001.jpg -1  1  1 -1 …     000003.jpg 2        2 test
//! ```
//!
//! ```toml
//! source = { format = "celeba", folder = "celeba", pictures = "celeba/img_align_celeba.tar", labels = ["Black_Hair", "Male", "Smiling"], size = [64, 64] }
//! ```
//!
//! With `framing = "ffhq"` faces are cut as in FFHQ, for generators that were trained on it ([`crate::framing`]).
//!
//! Both lists may be packed with gzip or zip. Pictures of the lists that are not there are passed
//! over, because many copies are only a part of the set; a note counts them. Pictures that have none
//! of the labels chosen are left out, as classes do it elsewhere; a note counts these too.
//!
//! Reference: Liu et al., "Deep Learning Face Attributes in the Wild", 2015.

use std::collections::HashMap;
use std::fs;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use s2m_core::labels::{LabelSet, Labels};
use serde::{Deserialize, Serialize};

use crate::channels::Channels;
use crate::dataset::Dataset;
use crate::error::{AtPath as _, Error};
use crate::framing::{Framed, Framing};
use crate::labelled::{Aim, Item, Labelled, Parts, Portion, Sorting, Unlabelled};
use crate::picture_at::PictureAt;
use crate::picture_folder::{has_picture_name, list};
use crate::picture_set::Wanted;
use crate::tar;
use crate::text_file;

const ATTRIBUTES: &str = "list_attr_celeba.txt";
const PARTITION: &str = "list_eval_partition.txt";

/// The folder of the pictures as they are published.
const PICTURES: &str = "img_align_celeba";

/// CelebA, or a part of its pictures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Celeba {
    /// The folder of the two lists; relative to where the program runs.
    pub folder: PathBuf,
    /// A folder or a tar archive of the pictures; relative to where the program runs.
    ///
    /// Where left out, `img_align_celeba` in the folder of the lists, or else its only archive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pictures: Option<PathBuf>,
    /// The attributes to learn.
    pub labels: Vec<String>,
    /// Height and width of all pictures; needed where they differ in size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<[NonZeroU32; 2]>,
    /// 1 for grey, 3 for colour; by the pictures where left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channels: Option<Channels>,
    /// The part of each picture that is kept; all of it where left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub framing: Option<Framing>,
}

impl Celeba {
    /// Reads the lists and all pictures that are there.
    pub(crate) fn read(&self, seed: u64) -> Result<Parts, Error> {
        self.parts(Aim::Training, seed)
    }

    /// Reads all pictures that are there and not for testing, with these attributes.
    pub(crate) fn audit(&self, labels: &Labels, seed: u64) -> Result<Dataset, Error> {
        let asked = Self {
            labels: labels.names().map(str::to_owned).collect(),
            ..self.clone()
        };
        Ok(asked.parts(Aim::Audit(labels), seed)?.train)
    }

    fn parts(&self, aim: Aim<'_>, seed: u64) -> Result<Parts, Error> {
        let sorting = Sorting::new(aim, Unlabelled::Skip, None, seed);
        let wanted = Wanted::new(self.size, self.channels);
        let listed = self.list()?;
        let parts = match self.framing {
            None => listed.pictures(sorting, wanted),
            Some(framing) => {
                let framed = |place| Framed {
                    place,
                    framing,
                    size: self.size,
                };
                listed.moved(framed).pictures(sorting, wanted)
            }
        };
        parts.at(&self.folder)
    }

    /// All pictures that are there with their labels, in the order of the list; none is read.
    pub(crate) fn list(&self) -> Result<Labelled<PictureAt>, Error> {
        let labels = Labels::new(&self.labels).map_err(Error::of_labels)?;
        let attributes = find(&self.folder, ATTRIBUTES)?;
        let partition = find(&self.folder, PARTITION)?;
        let place = self.pictures_at()?;
        let text = text_file::read(&attributes)?;
        let sets = List::new(&attributes, &text).attributes(&self.labels)?;
        let text = text_file::read(&partition)?;
        let portions = List::new(&partition, &text).portions()?;
        let mut pictures = pictures(&place)?;
        let total = sets.len();
        let mut items = Vec::new();
        for (name, set) in sets {
            let Some(picture) = pictures.remove(name) else {
                continue;
            };
            let portion = portions.get(name).ok_or_else(|| {
                Error::not_found(format!("`{}` has no row for `{name}`", partition.display()))
            })?;
            items.push(Item::new(picture, set, *portion));
        }
        if items.is_empty() {
            return Err(Error::not_found(format!(
                "`{}` holds none of the {total} images of the list",
                place.display()
            )));
        }
        let mut notes = Vec::new();
        if items.len() < total {
            notes.push(format!(
                "{} of the {total} images of the list are not in `{}`",
                total - items.len(),
                place.display()
            ));
        }
        if let Some(first) = pictures.keys().min() {
            notes.push(format!(
                "{} images of `{}` are not in the list and are left out; `{first}` is the first",
                pictures.len(),
                place.display()
            ));
        }
        Ok(Labelled {
            labels,
            items,
            notes,
        })
    }

    /// The folder or archive of the pictures.
    fn pictures_at(&self) -> Result<PathBuf, Error> {
        if let Some(path) = &self.pictures {
            return Ok(path.clone());
        }
        let usual = self.folder.join(PICTURES);
        if usual.is_dir() {
            return Ok(usual);
        }
        let failed = Error::reading_folder(&self.folder);
        let mut archives = Vec::new();
        for entry in fs::read_dir(&self.folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if path.extension().is_some_and(|end| end == "tar") {
                archives.push(path);
            }
        }
        match archives.pop() {
            Some(only) if archives.is_empty() => Ok(only),
            _ => Err(Error::not_found(format!(
                "`{}` has no folder `{PICTURES}` and not one .tar archive alone\nhint: say where the images are with `pictures = \"…\"`",
                self.folder.display()
            ))),
        }
    }
}

fn find(folder: &Path, name: &'static str) -> Result<PathBuf, Error> {
    let mut paths = ["", ".gz", ".zip"].map(|end| folder.join(format!("{name}{end}")));
    let found = paths.iter_mut().find(|path| path.is_file());
    found.map(std::mem::take).ok_or_else(|| {
        Error::not_found(format!(
            "`{}` has no `{name}`, nor one that ends in .gz or .zip\nhint: put CelebA's two lists into that folder",
            folder.display()
        ))
    })
}

/// The pictures of a folder or an archive, by name without folders.
fn pictures(place: &Path) -> Result<HashMap<String, PictureAt>, Error> {
    let mut found = HashMap::new();
    if place.is_dir() {
        for path in list(place)? {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            found.insert(name.into_owned(), PictureAt::File(path));
        }
        return Ok(found);
    }
    let archive: Arc<Path> = place.into();
    for entry in tar::entries(place)? {
        let name = entry.name.rsplit('/').next().unwrap_or_default().to_owned();
        if !has_picture_name(Path::new(&name)) {
            continue;
        }
        let picture = PictureAt::Tar {
            archive: Arc::clone(&archive),
            name: entry.name,
            offset: entry.offset,
            size: entry.size,
        };
        if found.insert(name.clone(), picture).is_some() {
            return Err(repeated(place, &name));
        }
    }
    Ok(found)
}

/// A list of values by the names of pictures.
struct List<'a> {
    path: &'a Path,
    text: &'a str,
}

impl<'a> List<'a> {
    fn new(path: &'a Path, text: &'a str) -> Self {
        Self { path, text }
    }

    /// The name of every picture with those of the wanted attributes that it has.
    fn attributes(&self, wanted: &[String]) -> Result<Vec<(&'a str, LabelSet)>, Error> {
        let mut lines = (1..).zip(self.text.lines());
        let head = |line, wanted| {
            Error::malformed(format!(
                "`{}` should have {wanted} in line {line}",
                self.path.display()
            ))
        };
        let count = lines.next().and_then(|(_, text)| text.trim().parse().ok());
        let count: usize = count.ok_or_else(|| head(1, "the number of images"))?;
        let names = lines.next().map(|(_, text)| text.split_whitespace());
        let names: Vec<_> = names.into_iter().flatten().collect();
        if names.is_empty() {
            return Err(head(2, "the names of the attributes"));
        }
        let columns = wanted
            .iter()
            .map(|label| names.iter().position(|name| name == label).ok_or(label))
            .collect::<Result<Vec<usize>, _>>();
        let columns = columns.map_err(|label| {
            Error::not_found(format!(
                "`{}` has no attribute `{label}`; it has {}",
                self.path.display(),
                names.join(", ")
            ))
        })?;
        let mut rows = Vec::new();
        for (line, text) in lines {
            let mut values = text.split_whitespace();
            let Some(name) = values.next() else { continue };
            let values: Vec<_> = values.collect();
            self.check_width(line, values.len(), names.len())?;
            let mut set = LabelSet::EMPTY;
            for (label, &column) in columns.iter().enumerate() {
                match values[column] {
                    "1" => set = set.with(label),
                    "-1" | "0" => {}
                    other => return Err(self.value(line, other, "1 or -1")),
                }
            }
            rows.push((name, set));
        }
        if rows.len() != count {
            return Err(Error::malformed(format!(
                "`{}` has {} rows, but says {count}\nhint: the file is cut short; fetch it again",
                self.path.display(),
                rows.len()
            )));
        }
        let mut names: Vec<_> = rows.iter().map(|&(name, _)| name).collect();
        names.sort_unstable();
        match names.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(repeated(self.path, pair[0])),
            None => Ok(rows),
        }
    }

    /// What every picture is for.
    fn portions(&self) -> Result<HashMap<&'a str, Portion>, Error> {
        let mut portions = HashMap::new();
        for (line, text) in (1..).zip(self.text.lines()) {
            let mut values = text.split_whitespace();
            let Some(name) = values.next() else { continue };
            let values: Vec<_> = values.collect();
            self.check_width(line, values.len(), 1)?;
            let portion = match values[0] {
                "0" => Portion::Train,
                "1" => Portion::Validation,
                "2" => Portion::Test,
                other => return Err(self.value(line, other, "0, 1 or 2")),
            };
            if portions.insert(name, portion).is_some() {
                return Err(repeated(self.path, name));
            }
        }
        Ok(portions)
    }

    fn check_width(&self, line: usize, found: usize, wanted: usize) -> Result<(), Error> {
        if found == wanted {
            return Ok(());
        }
        Err(Error::malformed(format!(
            "`{}`, line {line}: {found} values, wanted {wanted}",
            self.path.display()
        )))
    }

    fn value(&self, line: usize, found: &str, wanted: &'static str) -> Error {
        Error::malformed(format!(
            "`{}`, line {line}: found `{found}`, wanted {wanted}",
            self.path.display()
        ))
    }
}

fn repeated(path: &Path, name: &str) -> Error {
    Error::malformed(format!("`{}` names `{name}` twice", path.display()))
}

#[cfg(test)]
mod tests;
