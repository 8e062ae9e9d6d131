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
use std::io;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use s2m_core::labels::{LabelSet, Labels, LabelsError};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::dataset::Dataset;
use crate::framing::{Framed, Framing};
use crate::labelled::{Aim, Item, Labelled, LabelledError, Parts, Portion, Sorting, Unlabelled};
use crate::message::{At, AtPath as _};
use crate::picture_at::PictureAt;
use crate::picture_file::Channels;
use crate::picture_folder::{PictureFolderError, has_picture_name, list};
use crate::picture_set::Wanted;
use crate::tar::{self, TarError};
use crate::text_file::{self, TextError};

const ATTRIBUTES: &str = "list_attr_celeba.txt";
const PARTITION: &str = "list_eval_partition.txt";

/// The folder of the pictures as they are published.
const PICTURES: &str = "img_align_celeba";

/// Why CelebA gives no data.
#[derive(Debug, Error)]
pub enum CelebaError {
    /// A list is not there.
    #[error("`{}` has no `{name}`, nor one that ends in .gz or .zip\nhint: put CelebA's two lists into that folder", .folder.display())]
    NoList {
        /// Which folder.
        folder: PathBuf,
        /// The list.
        name: &'static str,
    },
    /// There are no pictures by the usual name.
    #[error(
        "`{}` has no folder `{PICTURES}` and not one .tar archive alone\nhint: say where the images are with `pictures = \"…\"`",
        .folder.display()
    )]
    WherePictures {
        /// Which folder.
        folder: PathBuf,
    },
    /// A folder cannot be read.
    #[error("could not read the folder `{}`: {source}", .path.display())]
    Read {
        /// Which folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A list cannot be read.
    #[error(transparent)]
    Text(#[from] TextError),
    /// The archive cannot be read.
    #[error(transparent)]
    Tar(#[from] TarError),
    /// The folder of the pictures cannot be read.
    #[error(transparent)]
    Pictures(#[from] PictureFolderError),
    /// The list of attributes does not start as it should.
    #[error("`{}` should have {wanted} in line {line}", .path.display())]
    Head {
        /// Which file.
        path: PathBuf,
        /// Which line.
        line: usize,
        /// What should be there.
        wanted: &'static str,
    },
    /// A list does not have as many rows as it says.
    #[error("`{}` has {found} rows, but says {wanted}\nhint: the file is cut short; fetch it again", .path.display())]
    Rows {
        /// Which file.
        path: PathBuf,
        /// Rows there.
        found: usize,
        /// Rows stated.
        wanted: usize,
    },
    /// A row has another number of values.
    #[error("`{}`, line {line}: {found} values, wanted {wanted}", .path.display())]
    Width {
        /// Which file.
        path: PathBuf,
        /// Which line.
        line: usize,
        /// Values there.
        found: usize,
        /// Values wanted.
        wanted: usize,
    },
    /// A value is not one of those it can be.
    #[error("`{}`, line {line}: found `{found}`, wanted {wanted}", .path.display())]
    Value {
        /// Which file.
        path: PathBuf,
        /// Which line.
        line: usize,
        /// The value.
        found: String,
        /// What it could be.
        wanted: &'static str,
    },
    /// A name is there twice.
    #[error("`{}` names `{name}` twice", .path.display())]
    Repeated {
        /// Which list or archive.
        path: PathBuf,
        /// The name.
        name: String,
    },
    /// A label is not an attribute.
    #[error("`{}` has no attribute `{name}`; it has {}", .path.display(), .attributes.join(", "))]
    NoAttribute {
        /// Which file.
        path: PathBuf,
        /// The label.
        name: String,
        /// The attributes there are.
        attributes: Vec<String>,
    },
    /// The labels do not work.
    #[error("`labels`: {0}")]
    Labels(#[from] LabelsError),
    /// None of the pictures is there.
    #[error("`{}` holds none of the {wanted} images of the list", .path.display())]
    NoPictures {
        /// Where they were looked for.
        path: PathBuf,
        /// Pictures in the list.
        wanted: usize,
    },
    /// A picture has no part.
    #[error("`{}` has no row for `{name}`", .path.display())]
    NoPart {
        /// Which file.
        path: PathBuf,
        /// The picture.
        name: String,
    },
    /// The items cannot be used.
    #[error(transparent)]
    Items(#[from] At<LabelledError>),
}

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
    pub(crate) fn read(&self, seed: u64) -> Result<Parts, CelebaError> {
        self.parts(Aim::Training, seed)
    }

    /// Reads all pictures that are there and not for testing, with these attributes.
    pub(crate) fn audit(&self, labels: &Labels, seed: u64) -> Result<Dataset, CelebaError> {
        let asked = Self {
            labels: labels.names().map(str::to_owned).collect(),
            ..self.clone()
        };
        Ok(asked.parts(Aim::Audit(labels), seed)?.train)
    }

    fn parts(&self, aim: Aim<'_>, seed: u64) -> Result<Parts, CelebaError> {
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
        Ok(parts.at(&self.folder)?)
    }

    /// All pictures that are there with their labels, in the order of the list; none is read.
    pub(crate) fn list(&self) -> Result<Labelled<PictureAt>, CelebaError> {
        let labels = Labels::new(&self.labels)?;
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
            let portion = portions.get(name).ok_or_else(|| CelebaError::NoPart {
                path: partition.clone(),
                name: name.to_owned(),
            })?;
            items.push(Item::new(picture, set, *portion));
        }
        if items.is_empty() {
            return Err(CelebaError::NoPictures {
                path: place,
                wanted: total,
            });
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
    fn pictures_at(&self) -> Result<PathBuf, CelebaError> {
        if let Some(path) = &self.pictures {
            return Ok(path.clone());
        }
        let usual = self.folder.join(PICTURES);
        if usual.is_dir() {
            return Ok(usual);
        }
        let failed = |source| CelebaError::Read {
            path: self.folder.clone(),
            source,
        };
        let mut archives = Vec::new();
        for entry in fs::read_dir(&self.folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if path.extension().is_some_and(|end| end == "tar") {
                archives.push(path);
            }
        }
        match archives.pop() {
            Some(only) if archives.is_empty() => Ok(only),
            _ => Err(CelebaError::WherePictures {
                folder: self.folder.clone(),
            }),
        }
    }
}

fn find(folder: &Path, name: &'static str) -> Result<PathBuf, CelebaError> {
    let mut paths = ["", ".gz", ".zip"].map(|end| folder.join(format!("{name}{end}")));
    let found = paths.iter_mut().find(|path| path.is_file());
    found
        .map(std::mem::take)
        .ok_or_else(|| CelebaError::NoList {
            folder: folder.to_owned(),
            name,
        })
}

/// The pictures of a folder or an archive, by name without folders.
fn pictures(place: &Path) -> Result<HashMap<String, PictureAt>, CelebaError> {
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
            return Err(CelebaError::Repeated {
                path: place.to_owned(),
                name,
            });
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
    fn attributes(&self, wanted: &[String]) -> Result<Vec<(&'a str, LabelSet)>, CelebaError> {
        let mut lines = (1..).zip(self.text.lines());
        let head = |line, wanted| CelebaError::Head {
            path: self.path.to_owned(),
            line,
            wanted,
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
        let columns = columns.map_err(|label| CelebaError::NoAttribute {
            path: self.path.to_owned(),
            name: label.clone(),
            attributes: names.iter().map(|&name| name.to_owned()).collect(),
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
            return Err(CelebaError::Rows {
                path: self.path.to_owned(),
                found: rows.len(),
                wanted: count,
            });
        }
        let mut names: Vec<_> = rows.iter().map(|&(name, _)| name).collect();
        names.sort_unstable();
        match names.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(self.repeated(pair[0])),
            None => Ok(rows),
        }
    }

    /// What every picture is for.
    fn portions(&self) -> Result<HashMap<&'a str, Portion>, CelebaError> {
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
                return Err(self.repeated(name));
            }
        }
        Ok(portions)
    }

    fn check_width(&self, line: usize, found: usize, wanted: usize) -> Result<(), CelebaError> {
        if found == wanted {
            return Ok(());
        }
        Err(CelebaError::Width {
            path: self.path.to_owned(),
            line,
            found,
            wanted,
        })
    }

    fn value(&self, line: usize, found: &str, wanted: &'static str) -> CelebaError {
        CelebaError::Value {
            path: self.path.to_owned(),
            line,
            found: found.to_owned(),
            wanted,
        }
    }

    fn repeated(&self, name: &str) -> CelebaError {
        CelebaError::Repeated {
            path: self.path.to_owned(),
            name: name.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests;
