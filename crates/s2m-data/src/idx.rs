//! Idx files, the format of MNIST: a short header and then bytes, plain or in gzip.
//!
//! ```text
//! 00 00 08 N | N sizes, 32 bits each, most significant byte first | the bytes
//! ```
//!
//! `08` says unsigned bytes, the only type read here. Files come from anywhere: nothing is reserved
//! or decompressed beyond what the header promises, and a promise is limited.
//!
//! Reference: the foot of <http://yann.lecun.com/exdb/mnist/>.

use std::array;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;

use crate::dataset::{Items, Part, Values};
use crate::error::Error;
use crate::message::quoted;
use crate::plain_file;

/// Most bytes that a header may promise: the largest file of this kind in use has 0.6 GB.
const MAX_BYTES: u64 = 1 << 31;

/// First bytes of a gzip file.
const GZIP: [u8; 2] = [0x1f, 0x8b];

fn hexadecimal(bytes: &[u8]) -> String {
    let pairs: Vec<_> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    pairs.join(" ")
}

/// Pictures with the classes that they came with.
#[derive(Debug, Clone, PartialEq)]
pub struct Pictures {
    /// The pictures, `[1, rows, columns]` each.
    pub items: Items,
    /// The original class of each.
    pub original: Vec<u8>,
}

/// Reads the images and labels of one part out of a folder of the four MNIST files.
///
/// Looks for `train-images-idx3-ubyte`, then `train-images.idx3-ubyte`, each first as it is and then
/// with `.gz`; in the same way for `train-labels-idx1-ubyte`, and `t10k-…` for the test part.
pub fn read_folder(folder: &Path, part: Part) -> Result<Pictures, Error> {
    let images_path = find(folder, part, "images", 3)?;
    let labels_path = find(folder, part, "labels", 1)?;
    let original = read_labels(&labels_path)?;
    let items = read_images(&images_path)?;
    if items.len() != original.len() {
        return Err(Error::mismatch(format!(
            "`{}` holds {} images, but `{}` holds {} labels",
            images_path.display(),
            items.len(),
            labels_path.display(),
            original.len()
        )));
    }
    Ok(Pictures { items, original })
}

/// Reads an idx file of images, `[items, rows, columns]`.
pub fn read_images(path: &Path) -> Result<Items, Error> {
    let ([_, rows, columns], bytes) = open(path)?.read("images")?;
    Ok(Items {
        shape: vec![1, rows as usize, columns as usize],
        values: Values::Bytes(bytes),
    })
}

/// Reads an idx file of labels, `[items]`.
pub fn read_labels(path: &Path) -> Result<Vec<u8>, Error> {
    let ([_], bytes) = open(path)?.read("labels")?;
    Ok(bytes)
}

fn find(
    folder: &Path,
    part: Part,
    what: &'static str,
    dimensions: usize,
) -> Result<PathBuf, Error> {
    let part = match part {
        Part::Train => "train",
        Part::Test => "t10k",
    };
    let looked_for: Vec<String> = ["-", "."]
        .iter()
        .flat_map(|dot| ["", ".gz"].map(|end| (dot, end)))
        .map(|(dot, end)| format!("{part}-{what}{dot}idx{dimensions}-ubyte{end}"))
        .collect();
    let mut paths = looked_for.iter().map(|name| folder.join(name));
    paths.find(|path| path.is_file()).ok_or_else(|| {
        let (folder, names) = (folder.display(), quoted(&looked_for));
        Error::not_found(format!(
            "`{folder}` has no {what} file; looked for {names}\nhint: put the four MNIST files into `{folder}`, as they are or with .gz, or name another folder"
        ))
    })
}

fn open(path: &Path) -> Result<Source<'_>, Error> {
    let failed = Error::reading(path);
    let file = BufReader::new(plain_file::open(path).map_err(failed)?);
    Source::new(path, file).map_err(failed)
}

/// An open idx file, decompressed where it has to be.
struct Source<'a> {
    path: &'a Path,
    reader: Box<dyn Read + 'a>,
    gzip: bool,
}

impl<'a> Source<'a> {
    fn new(path: &'a Path, mut reader: impl BufRead + 'a) -> io::Result<Self> {
        let gzip = reader.fill_buf()?.starts_with(&GZIP);
        let reader: Box<dyn Read> = if gzip {
            Box::new(MultiGzDecoder::new(reader))
        } else {
            Box::new(reader)
        };
        Ok(Self { path, reader, gzip })
    }

    /// The sizes and the bytes of a file with N dimensions.
    fn read<const N: usize>(mut self, what: &'static str) -> Result<([u32; N], Vec<u8>), Error> {
        self.magic(what, N)?;
        let header = self.exactly("header", 4 * N as u64)?;
        let (words, _) = header.as_chunks();
        let sizes: [u32; N] = array::from_fn(|i| u32::from_be_bytes(words[i]));
        let promised = self.promise(&sizes)?;
        let data = self.exactly("data", promised)?;
        // Reading once more also makes the decoder compare its checksum.
        if !self.up_to(1)?.is_empty() {
            return Err(Error::malformed(format!(
                "`{}` goes on after the {promised} bytes of data that its header promises",
                self.path.display()
            )));
        }
        Ok((sizes, data))
    }

    /// Checks the first four bytes.
    fn magic(&mut self, what: &'static str, dimensions: usize) -> Result<(), Error> {
        let path = self.path.display();
        match self.up_to(4)?[..] {
            [] => Err(Error::malformed(format!("`{path}` is empty"))),
            [0, 0, 8, found] if usize::from(found) == dimensions => Ok(()),
            [0, 0, 8, found] => Err(Error::malformed(format!(
                "`{path}` has {found} dimensions, but {what} have {dimensions}\nhint: images and labels may be swapped"
            ))),
            [0, 0, found, _] => Err(Error::unsupported(format!(
                "`{path}` holds numbers of type 0x{found:02x}; only unsigned bytes, 0x08, can be read"
            ))),
            ref found if [0, 0, 8].starts_with(found) => {
                Err(self.cut_short(found.len() as u64, 4, "first word"))
            }
            ref found => Err(Error::unsupported(format!(
                "`{path}` is not an idx file: it starts with {}, wanted 00 00 08",
                hexadecimal(found)
            ))),
        }
    }

    /// How many bytes the sizes in a header promise.
    fn promise(&self, sizes: &[u32]) -> Result<u64, Error> {
        let path = self.path.display();
        if sizes.contains(&0) {
            return Err(Error::malformed(format!(
                "`{path}` is {sizes:?} in size, so it holds nothing"
            )));
        }
        let product = sizes
            .iter()
            .try_fold(1, |product: u64, &size| product.checked_mul(size.into()));
        product.filter(|&bytes| bytes <= MAX_BYTES).ok_or_else(|| {
            Error::too_large(format!(
                "`{path}` is {sizes:?} in size by its header, which is more than {MAX_BYTES} bytes"
            ))
        })
    }

    fn exactly(&mut self, what: &'static str, wanted: u64) -> Result<Vec<u8>, Error> {
        let bytes = self.up_to(wanted)?;
        let found = bytes.len() as u64;
        if found == wanted {
            return Ok(bytes);
        }
        Err(self.cut_short(found, wanted, what))
    }

    fn cut_short(&self, found: u64, wanted: u64, what: &str) -> Error {
        Error::malformed(format!(
            "`{}` ends after {found} of the {wanted} bytes of its {what}\nhint: the file is cut short; fetch it again",
            self.path.display()
        ))
    }

    /// The next `limit` bytes, or fewer at the end; memory grows with what is there.
    fn up_to(&mut self, limit: u64) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        match self.reader.as_mut().take(limit).read_to_end(&mut bytes) {
            Ok(_) => Ok(bytes),
            Err(source) if self.gzip => Err(Error::malformed(format!(
                "could not decompress `{}`: {source}\nhint: the file is damaged; fetch it again",
                self.path.display()
            ))
            .because(source)),
            Err(source) => Err(Error::reading(self.path)(source)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use proptest::prelude::*;

    use super::*;

    /// Two pictures of 1×3.
    const IMAGES: &[u8] = &[
        0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 3, // header
        10, 11, 12, 20, 21, 22,
    ];
    const LABELS: &[u8] = &[0, 0, 8, 1, 0, 0, 0, 2, 7, 9];

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn parse(bytes: &[u8], dimensions: usize) -> Result<(Vec<u32>, Vec<u8>), Error> {
        let source = Source::new(Path::new("d/f"), bytes).unwrap();
        if dimensions == 3 {
            let images = source.read::<3>("images");
            images.map(|(sizes, bytes)| (sizes.to_vec(), bytes))
        } else {
            let labels = source.read::<1>("labels");
            labels.map(|(sizes, bytes)| (sizes.to_vec(), bytes))
        }
    }

    fn message(bytes: &[u8], dimensions: usize) -> String {
        parse(bytes, dimensions).unwrap_err().to_string()
    }

    /// A header for images with these sizes.
    fn header(sizes: [u32; 3]) -> Vec<u8> {
        let sizes = sizes.iter().flat_map(|size| size.to_be_bytes());
        [0, 0, 8, 3].into_iter().chain(sizes).collect()
    }

    fn folder(files: &[(&str, &[u8])]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, bytes) in files {
            fs::write(folder.path().join(name), bytes).unwrap();
        }
        folder
    }

    #[test]
    fn every_spelling_of_the_file_names_is_read() {
        let (images, labels) = (gzip(IMAGES), gzip(LABELS));
        let spellings: [&[(&str, &[u8])]; 4] = [
            &[
                ("train-images-idx3-ubyte", IMAGES),
                ("train-labels-idx1-ubyte", LABELS),
            ],
            &[
                ("train-images-idx3-ubyte.gz", &images),
                ("train-labels-idx1-ubyte.gz", &labels),
            ],
            &[
                ("train-images.idx3-ubyte", IMAGES),
                ("train-labels.idx1-ubyte.gz", &labels),
            ],
            // The first bytes decide, not the name.
            &[
                ("train-images-idx3-ubyte", &images),
                ("train-labels-idx1-ubyte.gz", LABELS),
            ],
        ];
        for files in spellings {
            let folder = folder(files);
            let read = read_folder(folder.path(), Part::Train).unwrap();
            assert_eq!(read.items.shape, [1, 1, 3]);
            let bytes = Values::Bytes(vec![10, 11, 12, 20, 21, 22]);
            assert_eq!(read.items.values, bytes);
            assert_eq!(read.original, [7, 9]);
        }
        let folder = folder(&[
            ("t10k-images-idx3-ubyte", IMAGES),
            ("t10k-labels-idx1-ubyte", LABELS),
        ]);
        assert_eq!(
            read_folder(folder.path(), Part::Test).unwrap().original,
            [7, 9]
        );
    }

    #[test]
    fn gzip_members_one_after_another_are_one_file() {
        let parts = [gzip(&IMAGES[..9]), gzip(&IMAGES[9..])].concat();
        assert_eq!(parse(&parts, 3).unwrap(), parse(IMAGES, 3).unwrap());
    }

    #[test]
    fn a_missing_file_says_what_was_looked_for() {
        let folder = folder(&[("train-images-idx3-ubyte", IMAGES)]);
        let at = folder.path().display();
        assert_eq!(
            read_folder(folder.path(), Part::Train)
                .unwrap_err()
                .to_string(),
            format!(
                "`{at}` has no labels file; looked for `train-labels-idx1-ubyte`, \
                 `train-labels-idx1-ubyte.gz`, `train-labels.idx1-ubyte`, \
                 `train-labels.idx1-ubyte.gz`\n\
                 hint: put the four MNIST files into `{at}`, as they are or with .gz, or name another folder"
            )
        );
        let message = read_folder(folder.path(), Part::Test).unwrap_err();
        assert!(message.to_string().starts_with(&format!(
            "`{at}` has no images file; looked for `t10k-images-"
        )));
    }

    #[test]
    fn a_file_that_cannot_be_opened_is_named() {
        assert_eq!(
            read_labels(Path::new("nowhere/f")).unwrap_err().to_string(),
            "could not read `nowhere/f`: No such file or directory (os error 2)"
        );
        let folder = folder(&[]);
        assert_eq!(
            read_labels(folder.path()).unwrap_err().to_string(),
            format!(
                "could not read `{}`: Is a directory (os error 21)",
                folder.path().display()
            )
        );
    }

    #[test]
    fn different_counts_name_both_files() {
        let folder = folder(&[
            ("train-images-idx3-ubyte", IMAGES),
            ("train-labels-idx1-ubyte", &[0, 0, 8, 1, 0, 0, 0, 1, 7]),
        ]);
        let at = folder.path().display();
        assert_eq!(
            read_folder(folder.path(), Part::Train)
                .unwrap_err()
                .to_string(),
            format!(
                "`{at}/train-images-idx3-ubyte` holds 2 images, \
                 but `{at}/train-labels-idx1-ubyte` holds 1 labels"
            )
        );
    }

    #[test]
    fn what_is_not_idx_is_refused() {
        assert_eq!(message(&[], 3), "`d/f` is empty");
        assert_eq!(message(&gzip(&[]), 3), "`d/f` is empty");
        assert_eq!(
            message(b"PK\x03\x04rest", 3),
            "`d/f` is not an idx file: it starts with 50 4b 03 04, wanted 00 00 08"
        );
        assert_eq!(
            message(&[0, 0, 8], 3),
            "`d/f` ends after 3 of the 4 bytes of its first word\n\
             hint: the file is cut short; fetch it again"
        );
        assert_eq!(
            message(&[0, 0, 0x0d, 3], 3),
            "`d/f` holds numbers of type 0x0d; only unsigned bytes, 0x08, can be read"
        );
        assert_eq!(
            message(LABELS, 3),
            "`d/f` has 1 dimensions, but images have 3\nhint: images and labels may be swapped"
        );
        assert_eq!(
            message(IMAGES, 1),
            "`d/f` has 3 dimensions, but labels have 1\nhint: images and labels may be swapped"
        );
    }

    #[test]
    fn absurd_sizes_are_refused_before_anything_is_read() {
        assert_eq!(
            message(&header([0, 28, 28]), 3),
            "`d/f` is [0, 28, 28] in size, so it holds nothing"
        );
        assert_eq!(
            message(&header([u32::MAX; 3]), 3),
            "`d/f` is [4294967295, 4294967295, 4294967295] in size by its header, \
             which is more than 2147483648 bytes"
        );
        assert!(message(&header([1 << 30, 2, 2]), 3).ends_with("more than 2147483648 bytes"));
        // At the limit the promise is believed, and found to be broken.
        assert_eq!(
            message(&header([1 << 30, 2, 1]), 3),
            "`d/f` ends after 0 of the 2147483648 bytes of its data\n\
             hint: the file is cut short; fetch it again"
        );
    }

    #[test]
    fn a_wrong_length_is_an_error_at_every_byte() {
        let hint = "\nhint: the file is cut short; fetch it again";
        assert_eq!(
            message(&IMAGES[..9], 3),
            format!("`d/f` ends after 5 of the 12 bytes of its header{hint}")
        );
        assert_eq!(
            message(&IMAGES[..IMAGES.len() - 1], 3),
            format!("`d/f` ends after 5 of the 6 bytes of its data{hint}")
        );
        let long = [IMAGES, &[0]].concat();
        let goes_on = "`d/f` goes on after the 6 bytes of data that its header promises";
        assert_eq!(message(&long, 3), goes_on);
        assert_eq!(message(&gzip(&long), 3), goes_on);
        for end in 0..IMAGES.len() {
            assert!(parse(&IMAGES[..end], 3).is_err(), "{end} bytes");
        }
        let packed = gzip(IMAGES);
        for end in 0..packed.len() {
            assert!(parse(&packed[..end], 3).is_err(), "{end} packed bytes");
        }
    }

    #[test]
    fn a_damaged_gzip_file_is_an_error() {
        let mut packed = gzip(IMAGES);
        let checksum = packed.len() - 8;
        packed[checksum] ^= 1;
        assert_eq!(
            message(&packed, 3),
            "could not decompress `d/f`: corrupt gzip stream does not have a matching checksum\n\
             hint: the file is damaged; fetch it again"
        );
        let followed = [&gzip(IMAGES)[..], b"rest"].concat();
        assert!(message(&followed, 3).starts_with("could not decompress `d/f`: "));
    }

    /// Fifty million zeros pack into fifty thousand bytes; no more is unpacked than the header promises.
    #[test]
    fn a_small_file_cannot_unpack_into_a_large_one() {
        let mut bomb = header([1, 1, 4]);
        bomb.resize(50_000_000, 0);
        let packed = gzip(&bomb);
        let (failure, counted) = count_reads(&packed);
        assert_eq!(
            failure,
            "`d/f` goes on after the 4 bytes of data that its header promises"
        );
        assert!(packed.len() > 40_000 && counted < 10_000, "{counted} bytes");
    }

    /// What is wrong with images, and how many packed bytes were taken to see it.
    fn count_reads(bytes: &[u8]) -> (String, usize) {
        let mut left = bytes;
        let reader = BufReader::with_capacity(512, &mut left);
        let source = Source::new(Path::new("d/f"), reader).unwrap();
        let failure = source.read::<3>("images").unwrap_err();
        (failure.to_string(), bytes.len() - left.len())
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = (parse(&bytes, 3), parse(&bytes, 1));
            let _ = parse(&[&GZIP[..], &bytes].concat(), 3);
        }

        #[test]
        fn arbitrary_headers_and_damage_never_panic(
            sizes in any::<[u32; 3]>(),
            data in prop::collection::vec(any::<u8>(), 0..100),
            at in any::<prop::sample::Index>(),
            flip in 1..=255u8,
        ) {
            let bytes = [header(sizes), data].concat();
            let mut packed = gzip(&bytes);
            prop_assert!(parse(&bytes, 3).is_err() == parse(&packed, 3).is_err());
            packed[at.index(bytes.len())] ^= flip;
            let _ = parse(&packed, 3);
        }

        #[test]
        fn what_is_written_is_read(rows in 1..5u32, columns in 1..5u32, n in 1..9u32, seed: u8) {
            let data: Vec<u8> = (0..n * rows * columns).map(|i| (i as u8) ^ seed).collect();
            let bytes = [header([n, rows, columns]), data.clone()].concat();
            for file in [gzip(&bytes), bytes] {
                let (sizes, read) = parse(&file, 3).unwrap();
                prop_assert_eq!(&sizes, &[n, rows, columns]);
                prop_assert_eq!(&read, &data);
            }
        }
    }
}
