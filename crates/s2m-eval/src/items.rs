//! What `--real` and `--generated` may be: pictures or rows of numbers, in one set or by query.
//!
//! | path | items |
//! | --- | --- |
//! | output folder of `s2m sample` | its pictures or points, by query |
//! | folder of pictures | PNG and JPEG files; `metadata.csv` beside them may hold labels |
//! | `.npy`, `.npz` | bytes `[n, h, w]`, `[n, h, w, c]` or `[n, c, h, w]` are pictures; floats `[n, d]` are features, in the precision given |
//! | idx file of images | pictures, with the classes of the labels file beside it |

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use s2m_data::channels::Channels;
use s2m_data::idx;
use s2m_data::npy::{self, Array, Precise, Values};
use s2m_data::picture_file::Picture;
use s2m_data::picture_folder::{BadPictures, PictureFolder};
use s2m_metrics::features::{Features, Row};
use s2m_model::disk::read_plain_text;
use serde::Deserialize;

use super::truth::{Truth, read_metadata};
use crate::Error;

/// Pictures that are tried at a time.
const TRIED: NonZeroUsize = NonZeroUsize::new(256).expect("256 is not zero");

/// Items of one side, or of one query of it.
#[derive(Debug)]
pub struct ItemSet {
    /// Where they are.
    pub path: PathBuf,
    /// The query that they were drawn for.
    pub query: Option<String>,
    /// The items.
    pub items: Items,
    /// What is known about each.
    pub truth: Truth,
    /// Pictures that could not be read and were left out.
    pub skipped: Vec<String>,
}

/// Pictures, or rows of numbers that are their own features.
#[derive(Debug)]
pub enum Items {
    /// Pictures.
    Pictures(Pictures),
    /// Rows.
    Rows(GivenRows),
}

/// Rows of numbers in the precision in which they were given; networks give 32 bits.
#[derive(Debug, Clone, PartialEq)]
pub enum GivenRows {
    /// Of 32 bits.
    Single(Rows),
    /// Of 64 bits.
    Double(Rows<f64>),
}

impl GivenRows {
    /// Numbers in a row.
    pub fn width(&self) -> usize {
        match self {
            Self::Single(rows) => rows.width,
            Self::Double(rows) => rows.width,
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            Self::Single(rows) => rows.len(),
            Self::Double(rows) => rows.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The rows of these numbers.
    #[must_use]
    pub fn select(&self, chosen: &[usize]) -> Self {
        match self {
            Self::Single(rows) => Self::Single(rows.select(chosen)),
            Self::Double(rows) => Self::Double(rows.select(chosen)),
        }
    }

    /// One after the other, in the widest precision of any; none of nothing.
    pub fn join(all: &[&Self]) -> Option<Self> {
        let width = all.first()?.width();
        let single: Option<Vec<&[f32]>> = all.iter().map(|rows| rows.single()).collect();
        Some(match single {
            Some(single) => Self::Single(Rows {
                values: single.concat(),
                width,
            }),
            None => Self::Double(Rows {
                values: all.iter().flat_map(|rows| rows.doubles()).collect(),
                width,
            }),
        })
    }

    fn single(&self) -> Option<&[f32]> {
        match self {
            Self::Single(rows) => Some(&rows.values),
            Self::Double(_) => None,
        }
    }

    /// All numbers, row after row.
    pub fn doubles(&self) -> Vec<f64> {
        match self {
            Self::Single(rows) => rows.values.iter().copied().map(f64::from).collect(),
            Self::Double(rows) => rows.values.clone(),
        }
    }

    /// The first value that metrics do not take: its row, its place there, and what it is.
    pub fn unusable(&self) -> Option<(usize, usize, f64)> {
        let values = match self {
            Self::Single(rows) => Row::Single(&rows.values),
            Self::Double(rows) => Row::Double(&rows.values),
        };
        let at = values.unusable()?;
        Some((at / self.width(), at % self.width(), values.at(at)))
    }

    /// As metrics take them.
    pub fn features(&self) -> Result<Features<'_>, s2m_metrics::Error> {
        match self {
            Self::Single(rows) => Features::new(&rows.values, rows.width),
            Self::Double(rows) => Features::of_doubles(&rows.values, rows.width),
        }
    }
}

/// Rows of numbers.
#[derive(Debug, Clone, PartialEq)]
pub struct Rows<T = f32> {
    /// All of them, row after row.
    pub values: Vec<T>,
    /// Numbers in a row.
    pub width: usize,
}

impl<T: Copy> Rows<T> {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.values.len() / self.width
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The rows of these numbers.
    #[must_use]
    pub fn select(&self, chosen: &[usize]) -> Self {
        let rows = chosen
            .iter()
            .flat_map(|&at| &self.values[at * self.width..(at + 1) * self.width]);
        Self {
            values: rows.copied().collect(),
            width: self.width,
        }
    }
}

/// Pictures on disk or in memory.
#[derive(Debug)]
pub enum Pictures {
    /// Files, and which of them count.
    Folder {
        /// All files.
        folder: PictureFolder,
        /// Numbers of those that can be read.
        kept: Vec<usize>,
    },
    /// Levels of equal pictures, `[n, height, width, channels]`.
    Held {
        /// All levels.
        bytes: Vec<u8>,
        /// Height, width and channels.
        shape: [usize; 3],
    },
}

impl Pictures {
    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            Self::Folder { kept, .. } => kept.len(),
            Self::Held { bytes, shape } => bytes.len() / shape.iter().product::<usize>(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One picture.
    pub fn read(&self, at: usize) -> Result<Picture, Error> {
        match self {
            Self::Folder { folder, kept } => folder.read(kept[at]).map_err(Error::Picture),
            Self::Held { bytes, shape } => {
                let [height, width, channels] = *shape;
                let size: usize = shape.iter().product();
                Ok(Picture {
                    width,
                    height,
                    channels: Channels::of(channels).expect("checked when they were read"),
                    bytes: bytes[at * size..(at + 1) * size].to_vec(),
                })
            }
        }
    }
}

impl Items {
    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            Self::Pictures(pictures) => pictures.len(),
            Self::Rows(rows) => rows.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Opens what a path holds: one set, or one for every query.
pub fn open(path: &Path, skip_bad: bool) -> Result<Vec<ItemSet>, Error> {
    let sets = if path.is_dir() {
        open_folder(path, skip_bad)?
    } else {
        vec![open_file(path)?]
    };
    match sets.iter().find(|set| set.items.is_empty()) {
        Some(empty) => Err(Error::Empty(empty.path.clone())),
        None => Ok(sets),
    }
}

/// The part of a report that says what was drawn.
#[derive(Deserialize)]
struct Drawn {
    query: String,
    #[serde(default)]
    folder: Option<String>,
}

/// What a `report.json` says: one query, or many with a folder each.
#[derive(Deserialize)]
#[serde(untagged)]
enum Reported {
    One(Drawn),
    Many(Vec<Drawn>),
}

fn open_folder(path: &Path, skip_bad: bool) -> Result<Vec<ItemSet>, Error> {
    let report = path.join("report.json");
    if !report.is_file() {
        return Ok(vec![open_pictures(path, None, skip_bad)?]);
    }
    let fail = |reason: String| Error::Read {
        path: report.clone(),
        reason,
    };
    let text = read_plain_text(&report).map_err(|e| fail(e.to_string()))?;
    match serde_json::from_str(&text).map_err(|e| fail(e.to_string()))? {
        Reported::One(drawn) => Ok(vec![open_drawn(path, drawn.query, skip_bad)?]),
        Reported::Many(all) => {
            // A query that was not reached has no folder.
            let reached = all
                .into_iter()
                .filter_map(|drawn| Some((drawn.folder?, drawn.query)));
            let mut sets = Vec::new();
            for (folder, query) in reached {
                let inside = !folder.is_empty() && !folder.contains(['/', '\\']) && folder != "..";
                if !inside {
                    return Err(fail(format!("folder `{folder}` is not inside the output")));
                }
                sets.push(open_drawn(&path.join(folder), query, skip_bad)?);
            }
            if sets.is_empty() {
                return Err(Error::Empty(path.to_owned()));
            }
            Ok(sets)
        }
    }
}

/// Samples of one query.
fn open_drawn(path: &Path, query: String, skip_bad: bool) -> Result<ItemSet, Error> {
    let points = path.join("samples.npy");
    if points.is_file() {
        return Ok(ItemSet {
            query: Some(query),
            ..open_file(&points)?
        });
    }
    // The folder itself holds a picture too: the grid.
    open_pictures(&path.join("images"), Some(query), skip_bad)
}

fn open_pictures(path: &Path, query: Option<String>, skip_bad: bool) -> Result<ItemSet, Error> {
    let folder = PictureFolder::open(path)?;
    let (kept, skipped) = if skip_bad {
        readable(&folder)?
    } else {
        ((0..folder.len()).collect(), Vec::new())
    };
    let metadata = path.join("metadata.csv");
    let truth = if query.is_none() && metadata.is_file() {
        read_metadata(&metadata, &names(&folder, &kept))?
    } else {
        Truth::Nothing
    };
    Ok(ItemSet {
        path: path.to_owned(),
        query,
        items: Items::Pictures(Pictures::Folder { folder, kept }),
        truth,
        skipped,
    })
}

fn names(folder: &PictureFolder, kept: &[usize]) -> Vec<String> {
    kept.iter().map(|&at| folder.name(at)).collect()
}

/// Numbers of the pictures that can be read, and why the others cannot.
fn readable(folder: &PictureFolder) -> Result<(Vec<usize>, Vec<String>), Error> {
    let (mut kept, mut skipped) = (Vec::new(), Vec::new());
    for batch in folder.batches(TRIED, BadPictures::Skip, |_| ()) {
        let batch = batch.map_err(Error::Picture)?;
        kept.extend(batch.items.iter().map(|(at, ())| *at));
        skipped.extend(batch.skipped.iter().map(ToString::to_string));
    }
    Ok((kept, skipped))
}

fn open_file(path: &Path) -> Result<ItemSet, Error> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let (items, truth) = if name.ends_with(".npy") || name.ends_with(".npz") {
        let array = npy::read_precise(path, None)?;
        (of_array(path, array)?, Truth::Nothing)
    } else if name.contains("ubyte") {
        of_idx(path)?
    } else {
        return Err(Error::Unknown(path.to_owned()));
    };
    Ok(ItemSet {
        path: path.to_owned(),
        query: None,
        items,
        truth,
        skipped: Vec::new(),
    })
}

fn of_idx(path: &Path) -> Result<(Items, Truth), Error> {
    let read = idx::read_images(path)?;
    let shape = [read.shape[1], read.shape[2], 1];
    let s2m_data::Values::Bytes(bytes) = read.values else {
        unreachable!("idx images are bytes");
    };
    let beside = path
        .to_string_lossy()
        .replace("images", "labels")
        .replace("idx3", "idx1");
    let beside = PathBuf::from(beside);
    let truth = if beside != path && beside.is_file() {
        let classes = idx::read_labels(&beside)?;
        let items = bytes.len() / shape.iter().product::<usize>().max(1);
        if classes.len() != items {
            return Err(Error::Labels {
                path: beside,
                labels: classes.len(),
                items,
            });
        }
        Truth::Classes(classes)
    } else {
        Truth::Nothing
    };
    Ok((Items::Pictures(held(path, bytes, shape)?), truth))
}

/// Bytes as pictures; sides of zero are refused, so that sizes can be divided by.
fn held(path: &Path, bytes: Vec<u8>, shape: [usize; 3]) -> Result<Pictures, Error> {
    if shape.contains(&0) {
        return Err(Error::Empty(path.to_owned()));
    }
    Ok(Pictures::Held { bytes, shape })
}

fn of_array(path: &Path, array: Precise) -> Result<Items, Error> {
    let refused = |shape: &[usize]| Error::Shape {
        path: path.to_owned(),
        shape: shape.to_vec(),
    };
    let Array { shape, values } = match array {
        Precise::Single(array) => array,
        Precise::Double { shape, values } => {
            return match *shape {
                [_, width] if width > 0 => {
                    Ok(Items::Rows(GivenRows::Double(Rows { values, width })))
                }
                _ => Err(refused(&shape)),
            };
        }
    };
    match (values, shape.as_slice()) {
        (Values::F32(values), [_, width]) if *width > 0 => {
            Ok(Items::Rows(GivenRows::Single(Rows {
                values,
                width: *width,
            })))
        }
        (Values::U8(bytes), [_, height, width]) => {
            Ok(Items::Pictures(held(path, bytes, [*height, *width, 1])?))
        }
        (Values::U8(bytes), [_, height, width, channels @ (1 | 3)]) => Ok(Items::Pictures(held(
            path,
            bytes,
            [*height, *width, *channels],
        )?)),
        (Values::U8(bytes), [_, channels @ (1 | 3), height, width]) => {
            let bytes = interleaved(&bytes, [*channels, *height, *width]);
            Ok(Items::Pictures(held(
                path,
                bytes,
                [*height, *width, *channels],
            )?))
        }
        (_, shape) => Err(refused(shape)),
    }
}

/// Planes of each picture to pixels.
pub fn interleaved(bytes: &[u8], [channels, height, width]: [usize; 3]) -> Vec<u8> {
    let plane = height * width;
    let mut pixels = Vec::with_capacity(bytes.len());
    for picture in bytes.chunks_exact((channels * plane).max(1)) {
        for pixel in 0..plane {
            pixels.extend((0..channels).map(|channel| picture[channel * plane + pixel]));
        }
    }
    pixels
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn planes_become_pixels() {
        // Two pictures of 1×2 pixels with three channels.
        let planes = [1, 2, 3, 4, 5, 6, 11, 12, 13, 14, 15, 16];
        let wanted = [1, 3, 5, 2, 4, 6, 11, 13, 15, 12, 14, 16];
        assert_eq!(interleaved(&planes, [3, 1, 2]), wanted);
    }

    #[test]
    fn rows_are_selected_by_number() {
        let rows = Rows {
            values: vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
            width: 2,
        };
        assert_eq!(rows.select(&[2, 0]).values, [5.0, 6.0, 1.0, 2.0]);
        assert_eq!(rows.len(), 3);
    }

    #[test]
    fn rows_are_joined_in_the_widest_precision() {
        let single = GivenRows::Single(Rows {
            values: vec![1.0, 2.0],
            width: 2,
        });
        let double = GivenRows::Double(Rows {
            values: vec![1e8 + 0.25, 3.0],
            width: 2,
        });
        let both = GivenRows::join(&[&single, &double]).unwrap();
        assert_eq!(both.doubles(), [1.0, 2.0, 1e8 + 0.25, 3.0]);
        assert_eq!(both.select(&[1]), double);
        assert_eq!(GivenRows::join(&[&single]), Some(single));
        assert_eq!(GivenRows::join(&[]), None);
    }
}
