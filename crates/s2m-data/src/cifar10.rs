//! CIFAR-10 in its binary form: records of one byte for the class and 3072 for the picture.
//!
//! ```text
//! class | 1024 bytes of red, row by row from the top | 1024 of green | 1024 of blue
//! ```
//!
//! ```toml
//! source = { format = "cifar10", folder = "cifar-10-batches-bin" }
//! classes = [{ name = "animal", of = [2, 3, 4, 5, 6, 7] }, { name = "flies", of = [0, 2] }]
//! ```
//!
//! The classes are 0 airplane, 1 automobile, 2 bird, 3 cat, 4 deer, 5 dog, 6 frog, 7 horse, 8 ship
//! and 9 truck.
//!
//! Reference: <https://www.cs.toronto.edu/~kriz/cifar.html>.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::dataset::{Items, Part, Values};
use crate::error::Error;
use crate::idx::Pictures;
use crate::plain_file;

/// Bytes of a picture, and with its class.
const PICTURE: usize = 3 * SIDE * SIDE;
const RECORD: usize = 1 + PICTURE;
const SIDE: usize = 32;

/// Number of classes.
const CLASSES: u8 = 10;

/// Pictures in each file as published; a file may have fewer, but not more.
const PER_FILE: usize = 10_000;

/// The six files of CIFAR-10; their ten classes become labels by `classes`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Cifar10 {
    /// Their folder; relative to where the program runs.
    pub folder: PathBuf,
}

impl Cifar10 {
    /// Reads the pictures and classes of one part.
    pub(crate) fn read(&self, part: Part) -> Result<Pictures, Error> {
        let files: Vec<String> = match part {
            Part::Train => (1..=5).map(|i| format!("data_batch_{i}.bin")).collect(),
            Part::Test => vec!["test_batch.bin".to_owned()],
        };
        let (mut original, mut values) = (Vec::new(), Vec::new());
        for file in files {
            let path = self.folder.join(file);
            for (picture, record) in read(&path)?.chunks_exact(RECORD).enumerate() {
                let class = record[0];
                if class >= CLASSES {
                    return Err(Error::malformed(format!(
                        "`{}`: image {picture} is of class {class}, but classes are 0 to 9",
                        path.display()
                    )));
                }
                original.push(class);
                values.extend_from_slice(&record[1..]);
            }
        }
        Ok(Pictures {
            items: Items {
                shape: vec![3, SIDE, SIDE],
                values: Values::Bytes(values),
            },
            original,
        })
    }
}

/// The bytes of a file, which are whole records.
fn read(path: &Path) -> Result<Vec<u8>, Error> {
    let failed = |source: io::Error| {
        Error::read(format!(
            "could not read `{}`: {source}\nhint: the folder should hold data_batch_1.bin to data_batch_5.bin and test_batch.bin",
            path.display()
        ))
        .because(source)
    };
    let mut bytes = Vec::new();
    let limited = plain_file::open(path).map_err(failed)?;
    let mut limited = limited.take((PER_FILE * RECORD + 1) as u64);
    limited.read_to_end(&mut bytes).map_err(failed)?;
    let found = bytes.len();
    if found == 0 || found > PER_FILE * RECORD || !found.is_multiple_of(RECORD) {
        return Err(Error::malformed(format!(
            "`{}` has {found} bytes, wanted 1 to {PER_FILE} records of {RECORD} bytes\nhint: the file is cut short or in another form; fetch the binary version again",
            path.display()
        )));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::env;

    use proptest::prelude::*;

    use super::*;
    use crate::made::files;

    /// A picture of this class whose bytes are red, then green, then blue.
    fn record(class: u8, colour: [u8; 3]) -> Vec<u8> {
        let planes = colour.iter().flat_map(|&level| vec![level; SIDE * SIDE]);
        [class].into_iter().chain(planes).collect()
    }

    fn folder(first: &[u8]) -> tempfile::TempDir {
        let other = record(7, [7; 3]);
        files(&[
            ("data_batch_1.bin", first),
            ("data_batch_2.bin", &other),
            ("data_batch_3.bin", &other),
            ("data_batch_4.bin", &other),
            ("data_batch_5.bin", &record(9, [9; 3])),
            ("test_batch.bin", &record(2, [2; 3])),
        ])
    }

    fn cifar10(at: &tempfile::TempDir) -> Cifar10 {
        Cifar10 {
            folder: at.path().to_owned(),
        }
    }

    fn message(first: &[u8]) -> String {
        let at = folder(first);
        let failure = cifar10(&at).read(Part::Train).unwrap_err().to_string();
        failure.replace(at.path().to_str().unwrap(), "DIR")
    }

    #[test]
    fn records_are_read_file_by_file() {
        let at = folder(&[record(0, [1, 2, 3]), record(5, [4, 5, 6])].concat());
        let train = cifar10(&at).read(Part::Train).unwrap();
        assert_eq!(train.original, [0, 5, 7, 7, 7, 9]);
        assert_eq!(train.items.shape, [3, 32, 32]);
        assert_eq!(train.items.len(), 6);
        let Values::Bytes(bytes) = train.items.values else {
            panic!("images are bytes")
        };
        assert_eq!(
            [0, 1023, 1024, 2048, 3072].map(|i| bytes[i]),
            [1, 1, 2, 3, 4]
        );
        assert_eq!(cifar10(&at).read(Part::Test).unwrap().original, [2]);
    }

    #[test]
    fn files_that_are_cut_short_are_refused() {
        let hint = "hint: the file is cut short or in another form; fetch the binary version again";
        for length in [0, 1, 3072, 3074] {
            assert_eq!(
                message(&vec![0; length]),
                format!(
                    "`DIR/data_batch_1.bin` has {length} bytes, \
                     wanted 1 to 10000 records of 3073 bytes\n{hint}"
                )
            );
        }
        assert!(message(&vec![0; 10_001 * RECORD]).contains("has 30730001 bytes"));
        assert_eq!(
            message(&[record(0, [0; 3]), record(10, [0; 3])].concat()),
            "`DIR/data_batch_1.bin`: image 1 is of class 10, but classes are 0 to 9"
        );
        let at = files(&[]);
        let failure = cifar10(&at).read(Part::Test).unwrap_err().to_string();
        assert!(
            failure.contains("test_batch.bin`: No such file"),
            "{failure}"
        );
        assert!(failure.ends_with("data_batch_5.bin and test_batch.bin"));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn arbitrary_bytes_never_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..7000),
            whole: bool,
        ) {
            let end = if whole { bytes.len() / RECORD * RECORD } else { bytes.len() };
            let at = folder(&bytes[..end]);
            let _ = cifar10(&at).read(Part::Train);
        }
    }

    /// Five thousand and one thousand pictures of each class, as published.
    #[test]
    fn cifar10_itself_is_read() {
        let Some(folder) = env::var_os("S2M_CIFAR10") else {
            eprintln!("skipped: set S2M_CIFAR10 to a folder that holds data_batch_1.bin");
            return;
        };
        let settings = Cifar10 {
            folder: folder.into(),
        };
        for (part, each) in [(Part::Train, 5000), (Part::Test, 1000)] {
            let read = settings.read(part).unwrap();
            let mut count = [0; 10];
            for class in read.original {
                count[usize::from(class)] += 1;
            }
            assert_eq!(count, [each; 10]);
        }
    }
}
