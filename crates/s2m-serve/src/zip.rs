//! A folder as one zip file, written from front to back. Files are stored as they are: images are compressed already.
//!
//! Reference: PKWARE, ".ZIP File Format Specification", version 6.3, sections 4.3.7, 4.3.12 and 4.3.16.

use std::io::{self, Write};

/// Least version that is needed to take files out of folders.
const VERSION: u16 = 20;

/// Names are UTF-8.
const UTF8: u16 = 1 << 11;

/// The first day that the format knows; the same files give the same bytes.
const DATE: u16 = (1 << 5) | 1;

/// A zip file that is being written.
pub(crate) struct Zip<W> {
    out: W,
    at: u64,
    directory: Vec<u8>,
    files: u16,
}

impl<W: Write> Zip<W> {
    pub(crate) fn new(out: W) -> Self {
        Self {
            out,
            at: 0,
            directory: Vec::new(),
            files: 0,
        }
    }

    /// Adds a file. The form without extensions ends at 65,535 files and 4 GiB; what is beyond is an error.
    pub(crate) fn add(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let large = |_| io::Error::other("the zip file would be too large");
        let size = u32::try_from(bytes.len()).map_err(large)?;
        let offset = u32::try_from(self.at).map_err(large)?;
        let length = u16::try_from(name.len()).map_err(large)?;
        self.files = self
            .files
            .checked_add(1)
            .ok_or_else(|| io::Error::other("too many files"))?;
        let mut common = Vec::with_capacity(26);
        for value in [VERSION, UTF8, 0, 0, DATE] {
            common.extend(value.to_le_bytes());
        }
        for value in [crc32fast::hash(bytes), size, size] {
            common.extend(value.to_le_bytes());
        }
        common.extend(length.to_le_bytes());
        common.extend(0_u16.to_le_bytes());
        self.write(b"PK\x03\x04")?;
        self.write(&common)?;
        self.write(name.as_bytes())?;
        self.write(bytes)?;
        let directory = &mut self.directory;
        directory.extend(b"PK\x01\x02");
        // Made by: Unix, whose rights follow below.
        directory.extend(((3 << 8) | VERSION).to_le_bytes());
        directory.extend(&common);
        // No comment, first disk, no inner attributes.
        directory.extend([0; 6]);
        // A plain file that its owner may write and everybody read.
        directory.extend((0o100_644_u32 << 16).to_le_bytes());
        directory.extend(offset.to_le_bytes());
        directory.extend(name.as_bytes());
        Ok(())
    }

    /// Writes what stands at the end.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        let directory = std::mem::take(&mut self.directory);
        let large = |_| io::Error::other("the zip file would be too large");
        let start = u32::try_from(self.at).map_err(large)?;
        let size = u32::try_from(directory.len()).map_err(large)?;
        let mut end = b"PK\x05\x06\0\0\0\0".to_vec();
        end.extend(self.files.to_le_bytes());
        end.extend(self.files.to_le_bytes());
        end.extend(size.to_le_bytes());
        end.extend(start.to_le_bytes());
        end.extend([0; 2]);
        self.write(&directory)?;
        self.write(&end)?;
        self.out.flush()
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.at += bytes.len() as u64;
        self.out.write_all(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Python 3's `zipfile` reads it, checks every sum, and finds the same bytes.
    #[test]
    fn another_program_reads_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("samples.zip");
        let mut zip = Zip::new(std::fs::File::create(&path).unwrap());
        zip.add("samples/a.txt", b"hello").unwrap();
        zip.add("samples/images/\u{e9}.bin", &[0; 1000]).unwrap();
        zip.add("samples/empty", b"").unwrap();
        zip.finish().unwrap();
        let script = "import sys, zipfile\nz = zipfile.ZipFile(sys.argv[1])\nassert z.testzip() is None\nprint(z.namelist(), [len(z.read(n)) for n in z.namelist()], z.read('samples/a.txt'))";
        let python = std::process::Command::new("python3")
            .args(["-c", script, &path.display().to_string()])
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&python.stderr), "");
        assert_eq!(
            String::from_utf8_lossy(&python.stdout),
            "['samples/a.txt', 'samples/images/é.bin', 'samples/empty'] [5, 1000, 0] b'hello'\n"
        );
    }
}
