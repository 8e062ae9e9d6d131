//! What outputs are made of: NumPy files and tables. The folders that they appear in are made by
//! [`Staging`].

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

pub use s2m_model::disk::{Existing, Kind, Lock, Plan, Staging};

use crate::error::Error;

/// Writes one file whole: it has its old content or the new one, never a part.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    s2m_model::disk::write_whole(path, bytes).map_err(Error::write(path))
}

/// A NumPy file of 32-bit floats, written row by row.
pub struct NpyWriter {
    file: io::BufWriter<fs::File>,
    path: PathBuf,
}

impl NpyWriter {
    /// Starts a file for an array of this shape.
    pub fn create(path: PathBuf, shape: &[usize]) -> Result<Self, Error> {
        let file = fs::File::create(&path).map_err(Error::write(&path))?;
        let mut file = io::BufWriter::new(file);
        file.write_all(&npy_header(shape))
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

/// The bytes before the numbers of an array of this shape.
pub fn npy_header(shape: &[usize]) -> Vec<u8> {
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
    let start = [
        b"\x93NUMPY\x01\x00".as_slice(),
        &(header.len() as u16).to_le_bytes(),
        header.as_bytes(),
    ];
    start.concat()
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
