//! A folder of pictures: the files' names now, the pictures a batch at a time.
//!
//! The pictures of a folder are its files that end in `.png`, `.jpg` or `.jpeg`, in the order of
//! their names. Where there are none, those of its subfolder `images` are taken, which is where
//! `s2m sample` puts them; no other subfolder is looked into. Names that start with a dot are not
//! pictures: some systems leave such files beside each picture.
//!
//! Only names are kept, so a folder may hold far more pictures than fit in memory.
//!
//! ```no_run
//! use std::num::NonZeroUsize;
//! use std::path::Path;
//! use s2m_data::channels::Channels;
//! use s2m_data::picture_folder::{BadPictures, PictureFolder};
//!
//! let folder = PictureFolder::open(Path::new("samples"))?;
//! let size = NonZeroUsize::new(64).expect("64 is not zero");
//! for batch in folder.batches(size, BadPictures::Skip, |picture| picture.to_channels(Channels::Rgb)) {
//!     let batch = batch?;
//!     assert!(batch.items.len() + batch.skipped.len() <= 64);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::fs;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::panic;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::error::{Error, Kind};
use crate::picture_file::{self, Picture};

/// How the names of pictures end, in small or capital letters.
const ENDINGS: [&str; 3] = ["png", "jpg", "jpeg"];

/// Where pictures may lie when the folder itself has none.
const SUBFOLDER: &str = "images";

pub(crate) fn endings() -> String {
    let dotted: Vec<_> = ENDINGS.iter().map(|end| format!(".{end}")).collect();
    dotted.join(", ")
}

/// The names of the pictures of a folder; there is at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PictureFolder {
    paths: Vec<PathBuf>,
}

/// What to do about a file with a picture's name that is not one.
///
/// A file that cannot be read at all is always an error: a disk that fails half way must not
/// pass for a smaller folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BadPictures {
    /// Stop with an error that names the file.
    #[default]
    Refuse,
    /// Go on without it and say so in [`Batch::skipped`].
    Skip,
}

/// What consecutive files of a folder became.
#[derive(Debug)]
pub struct Batch<T> {
    /// One item per picture, each with the number of its file, in order.
    pub items: Vec<(usize, T)>,
    /// Why files were left out; each names its file. Empty unless asked to skip.
    pub skipped: Vec<Error>,
}

impl PictureFolder {
    /// Lists the pictures of a folder, or else those of its subfolder `images`.
    pub fn open(folder: &Path) -> Result<Self, Error> {
        let mut paths = list(folder)?;
        let subfolder = folder.join(SUBFOLDER);
        if paths.is_empty() && subfolder.is_dir() {
            paths = list(&subfolder)?;
        }
        if paths.is_empty() {
            return Err(Error::not_found(format!(
                "`{}` holds no images, nor does a subfolder `{SUBFOLDER}` of it\nhint: images end in {}",
                folder.display(),
                endings()
            )));
        }
        Ok(Self { paths })
    }

    /// Number of files.
    pub fn len(&self) -> usize {
        self.paths.len()
    }

    /// Whether there is no file, which never holds.
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    /// The files, by sorted name.
    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// The name of file `i` without its folder; panics where `i` is out of range.
    pub fn name(&self, i: usize) -> String {
        let name = self.paths[i].file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    /// Reads the picture of file `i`; panics where `i` is out of range.
    pub fn read(&self, i: usize) -> Result<Picture, Error> {
        picture_file::read(&self.paths[i])
    }

    /// Goes through all files in order, `size` at a time, with a thread for each core.
    ///
    /// `make` runs on those threads: it turns each picture, of whatever size, into what is wanted
    /// of it. After an error there are no more batches.
    pub fn batches<T, F>(&self, size: NonZeroUsize, bad: BadPictures, make: F) -> Batches<'_, F>
    where
        T: Send,
        F: Fn(Picture) -> T + Sync,
    {
        Batches {
            folder: self,
            left: 0..self.len(),
            size,
            bad,
            make,
        }
    }
}

/// The pictures of a folder, a batch at a time; see [`PictureFolder::batches`].
#[derive(Debug, Clone)]
pub struct Batches<'a, F> {
    folder: &'a PictureFolder,
    left: Range<usize>,
    size: NonZeroUsize,
    bad: BadPictures,
    make: F,
}

impl<T, F> Iterator for Batches<'_, F>
where
    T: Send,
    F: Fn(Picture) -> T + Sync,
{
    type Item = Result<Batch<T>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let start = self.left.start;
        let end = self.left.end.min(start.saturating_add(self.size.get()));
        if start == end {
            return None;
        }
        self.left.start = end;
        let made = in_order(start..end, |i| self.folder.read(i).map(&self.make));
        let batch = gather(start, made, self.bad);
        if batch.is_err() {
            self.left.start = self.left.end;
        }
        Some(batch)
    }
}

/// Sorts results into items and files left out, or gives the first error.
fn gather<T>(
    start: usize,
    made: Vec<Result<T, Error>>,
    bad: BadPictures,
) -> Result<Batch<T>, Error> {
    let (mut items, mut skipped) = (Vec::with_capacity(made.len()), Vec::new());
    for (i, result) in (start..).zip(made) {
        match result {
            Ok(item) => items.push((i, item)),
            Err(error) if bad == BadPictures::Refuse || error.kind() == Kind::Read => {
                return Err(error);
            }
            Err(error) => skipped.push(error),
        }
    }
    Ok(Batch { items, skipped })
}

/// Runs `work` on every number, spread over the cores; results are in the order of the numbers.
fn in_order<R: Send>(numbers: Range<usize>, work: impl Fn(usize) -> R + Sync) -> Vec<R> {
    let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let next = AtomicUsize::new(numbers.start);
    let take_turns = || {
        let mut done = Vec::new();
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            if i >= numbers.end {
                return done;
            }
            done.push((i, work(i)));
        }
    };
    let mut done = thread::scope(|scope| {
        let threads = cores.min(numbers.len());
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(take_turns)).collect();
        let finished = threads.into_iter().flat_map(|thread| {
            thread
                .join()
                .unwrap_or_else(|panic| panic::resume_unwind(panic))
        });
        finished.collect::<Vec<_>>()
    });
    done.sort_unstable_by_key(|&(i, _)| i);
    done.into_iter().map(|(_, result)| result).collect()
}

/// The files of a folder with a picture's ending, by sorted name.
pub(crate) fn list(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let failed = Error::reading_folder(folder);
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if has_picture_name(&path) && path.is_file() {
            paths.push(path);
        }
    }
    paths.sort_unstable();
    Ok(paths)
}

pub(crate) fn has_picture_name(path: &Path) -> bool {
    let hidden = path
        .file_name()
        .is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
    let ending = path.extension().unwrap_or_default();
    !hidden && ENDINGS.iter().any(|end| ending.eq_ignore_ascii_case(end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channels::Channels;

    /// A grey PNG of one row.
    fn png(row: &[u8]) -> Vec<u8> {
        let mut file = Vec::new();
        let mut encoder = png::Encoder::new(&mut file, row.len() as u32, 1);
        encoder.set_color(png::ColorType::Grayscale);
        let mut writer = encoder.write_header().unwrap();
        writer.write_image_data(row).unwrap();
        writer.finish().unwrap();
        file
    }

    fn folder(files: &[(&str, &[u8])]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, bytes) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
        folder
    }

    fn names(folder: &PictureFolder) -> Vec<String> {
        (0..folder.len()).map(|i| folder.name(i)).collect()
    }

    fn size(n: usize) -> NonZeroUsize {
        NonZeroUsize::new(n).unwrap()
    }

    #[test]
    fn pictures_are_listed_by_name_and_others_ignored() {
        let files = folder(&[
            ("b.PNG", &[]),
            ("c.jpeg", &[]),
            ("a.jpg", &[]),
            ("._a.jpg", &[]),
            ("metadata.csv", &[]),
            ("samples.npy", &[]),
            ("png", &[]),
            ("images/z.png", &[]),
            ("folder.png/inside.txt", &[]),
        ]);
        let pictures = PictureFolder::open(files.path()).unwrap();
        assert_eq!(names(&pictures), ["a.jpg", "b.PNG", "c.jpeg"]);
        assert_eq!(pictures.paths()[0], files.path().join("a.jpg"));
        assert!(!pictures.is_empty());
    }

    #[test]
    fn what_sample_wrote_is_found_in_its_subfolder() {
        let files = folder(&[
            ("report.json", &[]),
            ("images/00001.png", &png(&[1, 1])),
            ("images/00000.png", &png(&[0])),
        ]);
        let pictures = PictureFolder::open(files.path()).unwrap();
        assert_eq!(names(&pictures), ["00000.png", "00001.png"]);
        let second = pictures.read(1).unwrap();
        assert_eq!((second.width, second.bytes), (2, vec![1, 1]));
    }

    #[test]
    fn a_folder_without_pictures_is_an_error() {
        let files = folder(&[("images/notes.txt", &[]), ("deeper/a.png", &[])]);
        let failure = PictureFolder::open(files.path()).unwrap_err().to_string();
        assert_eq!(
            failure,
            format!(
                "`{}` holds no images, nor does a subfolder `images` of it\n\
                 hint: images end in .png, .jpg, .jpeg",
                files.path().display()
            )
        );
        let missing = files.path().join("missing");
        let failure = PictureFolder::open(&missing).unwrap_err().to_string();
        let start = format!("could not read the folder `{}`: ", missing.display());
        assert!(failure.starts_with(&start), "{failure}");
    }

    /// Pictures of many sizes, on as many threads as there are, still come in order.
    #[test]
    fn batches_hold_every_picture_once_and_in_order() {
        let rows: Vec<Vec<u8>> = (0..47)
            .map(|i| vec![i; 1 + usize::from(i) * 37 % 11])
            .collect();
        let pngs: Vec<_> = rows.iter().map(|row| png(row)).collect();
        let named: Vec<_> = (0..47).map(|i| format!("{i:03}.png")).collect();
        let files = named
            .iter()
            .map(String::as_str)
            .zip(pngs.iter().map(Vec::as_slice));
        let files = folder(&files.collect::<Vec<_>>());
        let pictures = PictureFolder::open(files.path()).unwrap();
        for batch_size in [1, 10, 47, 1000] {
            let batches = pictures.batches(size(batch_size), BadPictures::Refuse, |picture| {
                picture.to_channels(Channels::Rgb).bytes
            });
            let batches: Vec<_> = batches.map(Result::unwrap).collect();
            assert_eq!(batches.len(), 47usize.div_ceil(batch_size));
            let items: Vec<_> = batches.into_iter().flat_map(|batch| batch.items).collect();
            let wanted: Vec<_> = rows.iter().map(|row| row.repeat(3)).enumerate().collect();
            assert_eq!(items, wanted);
        }
    }

    #[test]
    fn a_bad_picture_is_an_error_or_skipped_and_named() {
        let good = png(&[5]);
        let files = folder(&[
            ("0.png", &good),
            ("1.png", b"GIF89a"),
            ("2.png", &good),
            ("3.jpg", &[0xff, 0xd8, 0xff]),
            ("4.png", &good),
        ]);
        let pictures = PictureFolder::open(files.path()).unwrap();
        let mut refusing = pictures.batches(size(1), BadPictures::Refuse, |picture| picture);
        assert!(refusing.next().unwrap().is_ok());
        let failure = refusing.next().unwrap().unwrap_err().to_string();
        assert!(
            failure.contains("1.png` is neither PNG nor JPEG"),
            "{failure}"
        );
        assert!(refusing.next().is_none());

        let mut skipping = pictures.batches(size(4), BadPictures::Skip, |picture| picture.bytes);
        let batch = skipping.next().unwrap().unwrap();
        assert_eq!(batch.items, [(0, vec![5]), (2, vec![5])]);
        let skipped: Vec<_> = batch.skipped.iter().map(Error::kind).collect();
        assert_eq!(skipped, [Kind::Unsupported, Kind::Malformed]);
        for (skipped, i) in batch.skipped.iter().zip([1, 3]) {
            let path = pictures.paths()[i].display().to_string();
            assert!(skipped.to_string().contains(&path), "{skipped}");
        }
        let batch = skipping.next().unwrap().unwrap();
        assert_eq!((batch.items, batch.skipped.len()), (vec![(4, vec![5])], 0));
        assert!(skipping.next().is_none());
    }

    #[test]
    fn a_file_that_cannot_be_read_is_never_skipped() {
        let files = folder(&[("0.png", &png(&[5])), ("1.png", &png(&[6]))]);
        let pictures = PictureFolder::open(files.path()).unwrap();
        fs::remove_file(files.path().join("1.png")).unwrap();
        let mut batches = pictures.batches(size(2), BadPictures::Skip, |picture| picture);
        let failure = batches.next().unwrap().unwrap_err().to_string();
        assert!(failure.starts_with("could not read `"), "{failure}");
        assert!(batches.next().is_none());
    }

    #[test]
    fn folders_and_errors_can_be_sent_between_threads() {
        fn shared<T: Send + Sync>() {}
        shared::<PictureFolder>();
        shared::<Error>();
    }
}
