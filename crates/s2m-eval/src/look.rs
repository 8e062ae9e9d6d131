//! Items through a network, in pieces, and kept on disk.
//!
//! A picture is brought to the network's size and channels with an anti-aliased filter in floats and to
//! its range; it is never rounded in between. What the network says is kept under a name that is a
//! hash of everything that decides it: the pictures, the network and how it is used.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use s2m::output::npy_header;
use s2m::progress::Progress;
use s2m_data::channels::Channels;
use s2m_data::npy::{self, Values};
use s2m_data::picture_file::Picture;
use s2m_data::resize::{Filter, Resizer};
use s2m_model::bundle::sha256;
use s2m_model::disk::{crc32, read_plain, write_whole};

use super::items::{Pictures, Rows};
use super::network::EvalNetwork;
use crate::Error;

/// Changes when the meaning of what is kept does; 2 came with checksums.
const FORMAT: u32 = 2;

/// Most numbers that pictures of one piece may have.
const PIECE: usize = 1 << 25;

/// The level of white.
const WHITE: f32 = 255.0;

/// What a network says about pictures.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Seen {
    /// Features, where it has them.
    pub features: Option<Rows>,
    /// A number per class, where it has them.
    pub classes: Option<Rows>,
}

/// Shows pictures to a network, or takes what it said before from a folder.
pub fn look(
    pictures: &Pictures,
    network: &EvalNetwork,
    cache: Option<&Path>,
    progress: &dyn Progress,
) -> Result<Seen, Error> {
    let shape = Shape::of(network)?;
    let Some(folder) = cache else {
        return show(pictures, network, shape, progress);
    };
    let key = digest(pictures)?;
    let key = sha256(format!("{FORMAT} {} {key}", network.identity()).as_bytes());
    let file = |kind: &str| folder.join(format!("{}-{kind}.npy", &key[..32]));
    let kept =
        |kind, width: Option<usize>| width.map(|width| take(&file(kind), width, pictures.len()));
    let features = kept("features", network.feature_width());
    let classes = kept("classes", network.class_count());
    if !matches!(features, Some(None)) && !matches!(classes, Some(None)) {
        return Ok(Seen {
            features: features.flatten(),
            classes: classes.flatten(),
        });
    }
    // Before the work, so that it is not lost.
    check_cache(folder)?;
    let seen = show(pictures, network, shape, progress)?;
    for (kind, rows) in [("features", &seen.features), ("classes", &seen.classes)] {
        if let Some(rows) = rows {
            keep(&file(kind), rows).map_err(cannot_keep(folder))?;
        }
    }
    Ok(seen)
}

/// Makes the folder in which features are kept, and sees whether files can be made there.
fn check_cache(folder: &Path) -> Result<(), Error> {
    let try_out = || -> io::Result<()> {
        fs::create_dir_all(folder)?;
        let trial = folder.join(format!(".trial-{}", std::process::id()));
        fs::write(&trial, "")?;
        fs::remove_file(&trial)
    };
    try_out().map_err(cannot_keep(folder))
}

fn cannot_keep(folder: &Path) -> impl FnOnce(io::Error) -> Error + '_ {
    |source| Error::Cache {
        folder: folder.to_owned(),
        source,
    }
}

/// What the network takes: channels, height, width.
#[derive(Debug, Clone, Copy)]
struct Shape {
    channels: Channels,
    height: usize,
    width: usize,
    range: [f32; 2],
}

impl Shape {
    fn of(network: &EvalNetwork) -> Result<Self, Error> {
        let sides = network.judge.item_shape();
        let wrong = || Error::NotPictures {
            network: network.name.clone(),
            shape: sides.to_vec(),
        };
        let [channels, height, width] = *sides else {
            return Err(wrong());
        };
        Ok(Self {
            channels: Channels::of(channels).ok_or_else(wrong)?,
            height,
            width,
            range: network.settings.range,
        })
    }

    fn size(&self) -> usize {
        self.channels.count() * self.height * self.width
    }

    /// A picture as the network takes it, planes one after the other.
    fn prepare(&self, picture: &Picture, filter: Filter) -> Vec<f32> {
        let picture = picture.to_channels(self.channels);
        let from = [picture.height, picture.width];
        let to = [self.height, self.width];
        let levels: Vec<f32> = picture
            .bytes
            .iter()
            .map(|&level| f32::from(level))
            .collect();
        let channels = self.channels.count();
        let levels = if from == to {
            levels
        } else {
            Resizer::new(from, to, filter).interleaved(&levels, channels)
        };
        let [black, white] = self.range;
        let scale = (white - black) / WHITE;
        let plane = self.height * self.width;
        let mut planes = vec![0.0; levels.len()];
        for (pixel, values) in levels.chunks_exact(channels).enumerate() {
            for (channel, &level) in values.iter().enumerate() {
                // A cubic overshoots at edges; what lies beyond black and white is cut, as in a file.
                planes[channel * plane + pixel] = level.clamp(0.0, WHITE) * scale + black;
            }
        }
        planes
    }
}

/// All pictures through the network, piece by piece.
fn show(
    pictures: &Pictures,
    network: &EvalNetwork,
    shape: Shape,
    progress: &dyn Progress,
) -> Result<Seen, Error> {
    let piece = (PIECE / shape.size()).clamp(1, 1024);
    let mut answers: Vec<Vec<f32>> = network.judge.output_sizes().map(|_| Vec::new()).collect();
    let count = pictures.len();
    progress.begin(
        &format!("looking with {}", network.name),
        Some(count as u64),
    );
    for first in (0..count).step_by(piece) {
        let last = (first + piece).min(count);
        let items = prepared(pictures, network, shape, first..last)?;
        for (all, part) in answers.iter_mut().zip(network.judge.judge(&items)?) {
            all.extend(part);
        }
        progress.at(last as u64);
    }
    progress.end();
    let rows = |at: Option<usize>, width: Option<usize>| {
        Some(Rows {
            values: answers[at?].clone(),
            width: width?,
        })
    };
    Ok(Seen {
        features: rows(network.features, network.feature_width()),
        classes: rows(network.classes, network.class_count()),
    })
}

/// Reads and resizes pictures on all cores; they come out in order.
fn prepared(
    pictures: &Pictures,
    network: &EvalNetwork,
    shape: Shape,
    range: std::ops::Range<usize>,
) -> Result<Vec<f32>, Error> {
    let mut items = vec![0.0; range.len() * shape.size()];
    let rooms: Vec<Mutex<&mut [f32]>> = items
        .chunks_exact_mut(shape.size())
        .map(Mutex::new)
        .collect();
    let next = AtomicUsize::new(0);
    let filter = network.settings.resize.filter();
    let work = || -> Result<(), Error> {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(room) = rooms.get(at) else {
                return Ok(());
            };
            let planes = shape.prepare(&pictures.read(range.start + at)?, filter);
            room.lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner)
                .copy_from_slice(&planes);
        }
    };
    let cores = thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
    thread::scope(|scope| {
        let running: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        running
            .into_iter()
            .try_for_each(|thread| match thread.join() {
                Ok(done) => done,
                Err(panic) => std::panic::resume_unwind(panic),
            })
    })?;
    drop(rooms);
    Ok(items)
}

/// A hash of all pictures: of files as they lie there, of levels with their shape.
fn digest(pictures: &Pictures) -> Result<String, Error> {
    match pictures {
        Pictures::Held { bytes, shape } => {
            Ok(sha256(format!("{shape:?} {}", sha256(bytes)).as_bytes()))
        }
        Pictures::Folder { folder, kept } => {
            let mut all = String::new();
            for &at in kept {
                let path = &folder.paths()[at];
                let bytes = read_plain(path).map_err(|e| Error::Read {
                    path: path.to_owned(),
                    reason: e.to_string(),
                })?;
                all.push_str(&sha256(&bytes));
            }
            Ok(sha256(all.as_bytes()))
        }
    }
}

/// The checksum of a file that was kept, in a file beside it.
fn checksum_file(path: &Path) -> PathBuf {
    path.with_extension("crc32")
}

/// What was kept, where it is whole, unchanged and of this size.
fn take(path: &Path, width: usize, items: usize) -> Option<Rows> {
    let noted = fs::read_to_string(checksum_file(path)).ok()?;
    if noted.trim_end() != checksum(&fs::read(path).ok()?) {
        return None;
    }
    let array = npy::read(path, None).ok()?;
    match (array.shape.as_slice(), array.values) {
        ([n, d], Values::F32(values)) if (*n, *d) == (items, width) => Some(Rows { values, width }),
        _ => None,
    }
}

fn checksum(bytes: &[u8]) -> String {
    format!("{:08x}", crc32(&[bytes]))
}

/// Keeps rows; the file appears whole, after its checksum.
fn keep(path: &Path, rows: &Rows) -> io::Result<()> {
    let mut bytes = npy_header(&[rows.len(), rows.width]);
    bytes.extend(rows.values.iter().flat_map(|value| value.to_le_bytes()));
    write_whole(&checksum_file(path), checksum(&bytes).as_bytes())?;
    write_whole(path, &bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flipped_bit_in_what_was_kept_is_noticed() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a-features.npy");
        let rows = Rows {
            values: vec![1.0, -2.0, 3.5, 0.25],
            width: 2,
        };
        keep(&path, &rows).unwrap();
        assert_eq!(take(&path, 2, 2), Some(rows));
        assert_eq!(take(&path, 4, 1), None, "another size");
        let sound = fs::read(&path).unwrap();
        for bit in 0..sound.len() * 8 {
            let mut damaged = sound.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            fs::write(&path, damaged).unwrap();
            assert_eq!(take(&path, 2, 2), None, "bit {bit}");
        }
    }
}
