//! Output folders that appear whole or not at all, and the files in them.
//!
//! Everything is written into a sibling folder `NAME.partial` first, which takes the name `NAME`
//! when it is complete. A folder left by an interrupted run of the same request is continued.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::error::Error;

/// Names the request that a partial or finished folder belongs to.
const IDENTITY: &str = "request.txt";

/// What to do where the output folder already holds something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Existing {
    /// Keep it and refuse.
    #[default]
    Keep,
    /// Replace it.
    Replace,
}

/// A folder in the making.
#[derive(Debug)]
pub struct Staging {
    target: PathBuf,
    partial: PathBuf,
}

impl Staging {
    /// Starts or continues the folder for a request.
    pub fn open(target: &Path, identity: &str, existing: Existing) -> Result<Self, Error> {
        // A link to a folder stays a link; what it points at is filled.
        let resolved = target.is_symlink().then(|| target.canonicalize());
        let resolved = resolved.and_then(Result::ok);
        let target = resolved.as_deref().unwrap_or(target);
        if target.is_file() {
            return Err(Error::NotAFolder(target.to_owned()));
        }
        if existing == Existing::Keep {
            check_free(target)?;
        }
        let name = target
            .file_name()
            .filter(|name| !name.is_empty())
            .ok_or_else(|| {
                Error::Setting(format!("`{}` is not a name for a folder", target.display()))
            })?;
        let partial = target.with_file_name(format!("{}.partial", name.to_string_lossy()));
        let left = fs::read_to_string(partial.join(IDENTITY));
        match left {
            Ok(left) if left == identity => {}
            Ok(_) => fs::remove_dir_all(&partial).map_err(Error::write(&partial))?,
            // Not ours: nothing of s2m ever lies there without its identity.
            Err(_) => check_free(&partial)?,
        }
        fs::create_dir_all(&partial).map_err(Error::write(&partial))?;
        let staging = Self {
            target: target.to_owned(),
            partial,
        };
        staging.write(IDENTITY, identity.as_bytes())?;
        Ok(staging)
    }

    /// Where files go for now.
    pub fn path(&self, file: &str) -> PathBuf {
        self.partial.join(file)
    }

    /// Writes one file whole.
    pub fn write(&self, file: &str, bytes: &[u8]) -> Result<(), Error> {
        let path = self.path(file);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(Error::write(folder))?;
        }
        fs::write(&path, bytes).map_err(Error::write(&path))
    }

    /// Gives the folder its name, without what only resuming needed.
    pub fn finish(self, scaffolding: &[&str]) -> Result<(), Error> {
        for file in scaffolding.iter().chain([&IDENTITY]) {
            let path = self.path(file);
            if path.exists() {
                fs::remove_file(&path).map_err(Error::write(&path))?;
            }
        }
        sync(&self.partial)?;
        if self.target.exists() {
            fs::remove_dir_all(&self.target).map_err(Error::write(&self.target))?;
        }
        fs::rename(&self.partial, &self.target).map_err(Error::write(&self.target))
    }

    /// Takes everything away, for a request that ends without a result.
    pub fn discard(&self) {
        let _ = fs::remove_dir_all(&self.partial);
    }
}

/// Refuses a folder that holds anything.
fn check_free(target: &Path) -> Result<(), Error> {
    let occupied = |what| {
        Err(Error::Occupied {
            path: target.to_owned(),
            what,
        })
    };
    match fs::read_dir(target).map(Iterator::count) {
        Ok(0) => Ok(()),
        Ok(_) => occupied("files"),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Error::Write {
            path: target.to_owned(),
            source: error,
        }),
    }
}

/// Makes sure that a folder's entries are on the disk before its name changes.
fn sync(folder: &Path) -> Result<(), Error> {
    fs::File::open(folder)
        .and_then(|f| f.sync_all())
        .map_err(Error::write(folder))
}

/// Writes one file whole: it has its old content or the new one, never a part.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let partial = path.with_file_name(format!(".{name}.partial"));
    fs::write(&partial, bytes).map_err(Error::write(path))?;
    fs::rename(&partial, path).map_err(Error::write(path))
}

/// A NumPy file of 32-bit floats, written row by row.
pub struct NpyWriter {
    file: io::BufWriter<fs::File>,
    path: PathBuf,
}

impl NpyWriter {
    /// Starts a file for an array of this shape.
    pub fn create(path: PathBuf, shape: &[usize]) -> Result<Self, Error> {
        let sides: Vec<String> = shape.iter().map(ToString::to_string).collect();
        let comma = if shape.len() == 1 { "," } else { "" };
        let mut header = format!(
            "{{'descr': '<f4', 'fortran_order': False, 'shape': ({}{comma}), }}",
            sides.join(", ")
        );
        // Magic, version and length take ten bytes; the whole is padded to 64 and ends in a newline.
        let padding = 63 - (10 + header.len()) % 64;
        header.extend(std::iter::repeat_n(' ', padding));
        header.push('\n');
        let file = fs::File::create(&path).map_err(Error::write(&path))?;
        let mut file = io::BufWriter::new(file);
        let start = [
            b"\x93NUMPY\x01\x00".as_slice(),
            &(header.len() as u16).to_le_bytes(),
            header.as_bytes(),
        ];
        file.write_all(&start.concat())
            .map_err(Error::write(&path))?;
        Ok(Self { file, path })
    }

    /// Adds values.
    pub fn append(&mut self, values: &[f32]) -> Result<(), Error> {
        for value in values {
            self.file
                .write_all(&value.to_le_bytes())
                .map_err(Error::write(&self.path))?;
        }
        Ok(())
    }

    /// Ends the file.
    pub fn finish(mut self) -> Result<(), Error> {
        self.file.flush().map_err(Error::write(&self.path))
    }
}

/// One field of a CSV file, quoted where it must be.
pub fn csv_field(text: &str) -> String {
    if text.contains(['"', ',', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

/// The fields of one line of a CSV file.
pub fn csv_fields(line: &str) -> Vec<String> {
    let (mut fields, mut quoted) = (vec![String::new()], false);
    let mut characters = line.chars().peekable();
    while let Some(c) = characters.next() {
        let field = fields.last_mut().expect("there is always a field");
        match c {
            '"' if quoted && characters.peek() == Some(&'"') => {
                characters.next();
                field.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            other => field.push(other),
        }
    }
    fields
}

/// Text of a table, one line per row.
pub fn csv(rows: impl IntoIterator<Item = Vec<String>>) -> String {
    rows.into_iter().fold(String::new(), |mut text, row| {
        let fields: Vec<String> = row.iter().map(|field| csv_field(field)).collect();
        writeln!(text, "{}", fields.join(",")).expect("writing to a string cannot fail");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_appears_whole_and_only_at_the_end() {
        let root = tempfile::tempdir().unwrap();
        let target = root.path().join("out");
        let staging = Staging::open(&target, "one", Existing::Keep).unwrap();
        staging.write("images/0.png", b"x").unwrap();
        assert!(!target.exists());
        staging.finish(&[]).unwrap();
        assert!(target.join("images/0.png").exists());
        assert!(!root.path().join("out.partial").exists());
        assert!(!target.join(IDENTITY).exists());
    }

    #[test]
    fn an_interrupted_folder_is_continued_only_by_the_same_request() {
        let root = tempfile::tempdir().unwrap();
        let target = root.path().join("out");
        Staging::open(&target, "one", Existing::Keep)
            .unwrap()
            .write("journal", b"rows")
            .unwrap();
        let again = Staging::open(&target, "one", Existing::Keep).unwrap();
        assert!(again.path("journal").exists());
        let other = Staging::open(&target, "two", Existing::Keep).unwrap();
        assert!(!other.path("journal").exists());
    }

    #[test]
    fn what_is_there_is_kept_unless_told_otherwise() {
        let root = tempfile::tempdir().unwrap();
        let target = root.path().join("out");
        fs::create_dir(&target).unwrap();
        Staging::open(&target, "x", Existing::Keep)
            .unwrap()
            .discard();
        fs::write(target.join("precious"), "x").unwrap();
        let error = Staging::open(&target, "x", Existing::Keep)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("already holds files\nhint: choose another folder"),
            "{error}"
        );
        Staging::open(&target, "x", Existing::Replace)
            .unwrap()
            .finish(&[])
            .unwrap();
        assert!(!target.join("precious").exists());
        let file = root.path().join("file");
        fs::write(&file, "x").unwrap();
        let error = Staging::open(&file, "x", Existing::Keep)
            .unwrap_err()
            .to_string();
        assert!(error.ends_with("file` is a file, not a folder"), "{error}");
        // A folder of that name which is not ours is left alone.
        fs::create_dir(root.path().join("new.partial")).unwrap();
        fs::write(root.path().join("new.partial/thesis"), "x").unwrap();
        let error = Staging::open(&root.path().join("new"), "x", Existing::Keep).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("new.partial` already holds files"),
            "{error}"
        );
        assert!(root.path().join("new.partial/thesis").exists());
    }

    #[test]
    fn fields_with_commas_and_quotes_survive() {
        assert_eq!(csv_field("Black hair"), "Black hair");
        assert_eq!(csv_field("a, \"b\""), "\"a, \"\"b\"\"\"");
        let row = ["a, \"b\"", "", "c"].map(str::to_owned).to_vec();
        assert_eq!(csv_fields(csv([row.clone()]).trim_end()), row);
    }

    #[test]
    fn numpy_headers_are_padded_to_64_bytes() {
        let root = tempfile::tempdir().unwrap();
        for shape in [vec![3], vec![10_000, 2], vec![1, 28, 28, 3]] {
            let path = root.path().join("a.npy");
            NpyWriter::create(path.clone(), &shape)
                .unwrap()
                .finish()
                .unwrap();
            let bytes = fs::read(&path).unwrap();
            assert_eq!(bytes.len() % 64, 0);
            assert_eq!(bytes.last(), Some(&b'\n'));
        }
    }
}
