//! Tar archives: the names and places of their files; nothing is ever unpacked to disk.
//!
//! ```text
//! header, 512 bytes: name 100 | … | size at 124 | … | checksum at 148 | kind at 156 | … | prefix at 345
//! then the bytes of the file, filled up to a multiple of 512; at the end zeros
//! ```
//!
//! Sizes are octal digits or, for GNU, a number in base 256. Long names come in an entry before
//! their file: kind `L` for GNU, kind `x` for pax. Links, folders and devices are passed over.
//!
//! Read by hand: the crate `tar` 0.4 does not say at which byte an archive is damaged or cut short, and reads
//! a long name of any length; its type of a header would save little more than `number` below.
//!
//! References: POSIX.1-2017, `pax`, "ustar Interchange Format"; the manual of GNU tar, "Basic Tar
//! Format".

use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use crate::error::Error;
use crate::plain_file;

/// Headers and files start at multiples of this.
const BLOCK: u64 = 512;

/// Most bytes of an entry that holds a long name.
const MAX_NAME: u64 = 1 << 16;

/// A file of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Its name with folders, as written: for comparing only, never a path to open.
    pub(crate) name: String,
    /// Where its bytes start.
    pub(crate) offset: u64,
    pub(crate) size: u64,
}

/// Lists the files of an archive.
pub(crate) fn entries(path: &Path) -> Result<Vec<Entry>, Error> {
    let failed = Error::reading(path);
    let file = plain_file::open(path).map_err(failed)?;
    let length = file.metadata().map_err(failed)?.len();
    let reader = BufReader::new(file);
    Archive {
        path,
        reader,
        length,
    }
    .entries()
}

struct Archive<'a, R> {
    path: &'a Path,
    reader: R,
    length: u64,
}

/// What entries before a file say about it.
#[derive(Default)]
struct Said {
    name: Option<String>,
    size: Option<u64>,
}

impl<R: Read + Seek> Archive<'_, R> {
    fn entries(mut self) -> Result<Vec<Entry>, Error> {
        let (mut at, mut found, mut said) = (0, Vec::new(), Said::default());
        while at < self.length {
            let block: [u8; BLOCK as usize] = self.header(at)?;
            if block.iter().all(|&byte| byte == 0) {
                break;
            }
            let header = Header::parse(&block).ok_or_else(|| self.no_header(at))?;
            let offset = at + BLOCK;
            let kind = header.kind;
            // A long name's own size is in its header; what was said is about the file after it.
            let is_file = matches!(kind, b'0' | 0 | b'7');
            let size = said.size.filter(|_| is_file).unwrap_or(header.size);
            let end = offset.checked_add(size).filter(|&end| end <= self.length);
            let end = end.ok_or_else(|| self.cut_short(at))?;
            match kind {
                b'L' => {
                    let name = self.long(at, offset, size)?;
                    let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
                    said.name = Some(String::from_utf8_lossy(name).into_owned());
                }
                b'x' => {
                    let records = self.long(at, offset, size)?;
                    said.read_pax(&records).ok_or_else(|| self.no_header(at))?;
                }
                // About all entries, or a long target of a link: neither matters here.
                b'g' | b'K' => {}
                _ => {
                    let name = said.name.take().unwrap_or(header.name);
                    if is_file {
                        found.push(Entry { name, offset, size });
                    }
                    said = Said::default();
                }
            }
            at = end.next_multiple_of(BLOCK);
        }
        Ok(found)
    }

    fn cut_short(&self, at: u64) -> Error {
        Error::malformed(format!(
            "`{}` ends within the entry at byte {at}\nhint: the file is cut short; fetch it again",
            self.path.display()
        ))
    }

    fn no_header(&self, at: u64) -> Error {
        Error::malformed(format!(
            "`{}` has no sound header at byte {at}\nhint: the file is damaged or no tar archive",
            self.path.display()
        ))
    }

    fn header(&mut self, at: u64) -> Result<[u8; BLOCK as usize], Error> {
        let mut block = [0; BLOCK as usize];
        if self.length - at < BLOCK {
            // Whatever is too short for a header, at the very start, is something else.
            return Err(if at == 0 {
                self.no_header(0)
            } else {
                self.cut_short(at)
            });
        }
        self.fill(at, &mut block)?;
        if at == 0 && block.starts_with(&[0x1f, 0x8b]) {
            return Err(Error::unsupported(format!(
                "`{}` is in gzip\nhint: unpack it with `gunzip`, so that images can be read in any order",
                self.path.display()
            )));
        }
        Ok(block)
    }

    /// The bytes of an entry that says something about the next.
    fn long(&mut self, at: u64, offset: u64, size: u64) -> Result<Vec<u8>, Error> {
        if size > MAX_NAME {
            return Err(Error::too_large(format!(
                "`{}` has a name of {size} bytes at byte {at}; {MAX_NAME} are the most",
                self.path.display()
            )));
        }
        let mut bytes = vec![0; size as usize];
        self.fill(offset, &mut bytes)?;
        Ok(bytes)
    }

    fn fill(&mut self, at: u64, bytes: &mut [u8]) -> Result<(), Error> {
        let sought = self.reader.seek(SeekFrom::Start(at));
        let read = sought.and_then(|_| self.reader.read_exact(bytes));
        read.map_err(Error::reading(self.path))
    }
}

/// What a header says.
struct Header {
    name: String,
    size: u64,
    kind: u8,
}

impl Header {
    fn parse(block: &[u8; BLOCK as usize]) -> Option<Self> {
        let stated = number(&block[148..156])?;
        let counted = |(i, &byte): (usize, &u8)| match i {
            // The checksum counts as if it were spaces.
            148..156 => u64::from(b' '),
            _ => u64::from(byte),
        };
        if block.iter().enumerate().map(counted).sum::<u64>() != stated {
            return None;
        }
        let mut name = text(&block[..100]);
        // GNU has "ustar " here and other things in place of the prefix.
        let prefix = text(&block[345..500]);
        if &block[257..263] == b"ustar\0" && !prefix.is_empty() {
            name = format!("{prefix}/{name}");
        }
        Some(Self {
            name,
            size: number(&block[124..136])?,
            kind: block[156],
        })
    }
}

impl Said {
    /// Reads pax records, `length key=value newline`; none where one is damaged.
    fn read_pax(&mut self, mut records: &[u8]) -> Option<()> {
        while !records.is_empty() {
            let space = records.iter().position(|&byte| byte == b' ')?;
            let length: usize = str::from_utf8(&records[..space]).ok()?.parse().ok()?;
            let record = records.get(space + 1..length)?.strip_suffix(b"\n")?;
            let equals = record.iter().position(|&byte| byte == b'=')?;
            let value = String::from_utf8_lossy(&record[equals + 1..]);
            match &record[..equals] {
                b"path" => self.name = Some(value.into_owned()),
                b"size" => self.size = Some(value.parse().ok()?),
                _ => {}
            }
            records = &records[length..];
        }
        Some(())
    }
}

/// Text up to the first zero.
fn text(bytes: &[u8]) -> String {
    let text = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).into_owned()
}

/// Octal digits with spaces or zeros around them, or a number in base 256 after a set bit.
fn number(bytes: &[u8]) -> Option<u64> {
    if bytes.first()? & 0x80 != 0 {
        let (rest, last) = bytes.split_at(bytes.len().saturating_sub(8));
        // Of the first byte only the mark may be set; so the number fits into 63 bits.
        if rest.iter().skip(1).any(|&byte| byte != 0) || rest.first().is_some_and(|&b| b != 0x80) {
            return None;
        }
        let value = last
            .iter()
            .fold(0u64, |sum, &byte| sum << 8 | u64::from(byte));
        return Some(value).filter(|&value| i64::try_from(value).is_ok());
    }
    let digits = str::from_utf8(bytes).ok()?;
    let digits = digits.trim_matches([' ', '\0']);
    if digits.is_empty() {
        return Some(0);
    }
    u64::from_str_radix(digits, 8).ok()
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Cursor;

    use proptest::prelude::*;

    use super::*;

    /// A header and bytes filled up to whole blocks.
    fn entry(name: &[u8], kind: u8, bytes: &[u8]) -> Vec<u8> {
        let mut block = [0; 512];
        block[..name.len()].copy_from_slice(name);
        block[124..136].copy_from_slice(format!("{:011o}\0", bytes.len()).as_bytes());
        block[156] = kind;
        block[257..265].copy_from_slice(b"ustar  \0");
        let mut out = sealed(block);
        out.extend(bytes);
        out.resize(out.len().next_multiple_of(512), 0);
        out
    }

    fn sealed(mut block: [u8; 512]) -> Vec<u8> {
        block[148..156].fill(b' ');
        let sum: u32 = block.iter().map(|&byte| u32::from(byte)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        block.to_vec()
    }

    /// An archive of these files as GNU tar would write it.
    pub(crate) fn tar(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut out = Vec::new();
        for (name, bytes) in files {
            out.extend(entry(name.as_bytes(), b'0', bytes));
        }
        out.resize(out.len() + 1024, 0);
        out
    }

    fn parse(bytes: &[u8]) -> Result<Vec<Entry>, Error> {
        Archive {
            path: Path::new("d/f.tar"),
            reader: Cursor::new(bytes),
            length: bytes.len() as u64,
        }
        .entries()
    }

    fn message(bytes: &[u8]) -> String {
        parse(bytes).unwrap_err().to_string()
    }

    fn names_and_bytes(bytes: &[u8]) -> Vec<(String, Vec<u8>)> {
        let entries = parse(bytes).unwrap().into_iter();
        entries
            .map(|e| {
                (
                    e.name,
                    bytes[e.offset as usize..][..e.size as usize].to_vec(),
                )
            })
            .collect()
    }

    #[test]
    fn files_are_found_and_all_else_passed_over() {
        let bytes = [
            entry(b"d/", b'5', b""),
            entry(b"d/a.jpg", b'0', b"first"),
            entry(b"link", b'2', b""),
            entry(b"about all", b'g', b"9 a=bcde\n"),
            entry(b"b.jpg", 0, &[7; 512]),
            entry(b"empty.jpg", b'0', b""),
            vec![0; 1024],
            b"whatever follows the end".to_vec(),
        ]
        .concat();
        assert_eq!(
            names_and_bytes(&bytes),
            [
                ("d/a.jpg".to_owned(), b"first".to_vec()),
                ("b.jpg".to_owned(), vec![7; 512]),
                ("empty.jpg".to_owned(), vec![]),
            ]
        );
        // Some programs leave out the zeros at the end.
        assert_eq!(parse(&entry(b"a", b'0', b"x")).unwrap().len(), 1);
        assert_eq!(parse(&[]).unwrap(), []);
    }

    #[test]
    fn long_names_of_both_kinds_are_read() {
        let long = "x".repeat(150) + ".jpg";
        let gnu = [
            entry(b"././@LongLink", b'L', format!("{long}\0").as_bytes()),
            entry(&long.as_bytes()[..100], b'0', b"one"),
            entry(b"short.jpg", b'0', b"two"),
        ]
        .concat();
        let record = format!(" path={long}\n");
        let length = record.len() + 3;
        let records = format!("{length}{record}11 size=12\n");
        let pax = [
            entry(b"PaxHeaders/x", b'x', records.as_bytes()),
            entry(b"short", b'0', b"hello, world"),
        ]
        .concat();
        let found = names_and_bytes(&gnu);
        assert_eq!(found[0], (long.clone(), b"one".to_vec()));
        assert_eq!(found[1], ("short.jpg".to_owned(), b"two".to_vec()));
        assert_eq!(names_and_bytes(&pax), [(long, b"hello, world".to_vec())]);
    }

    #[test]
    fn posix_prefixes_and_large_sizes_are_read() {
        let mut block: [u8; 512] = entry(b"a.jpg", b'0', b"")[..512].try_into().unwrap();
        block[257..265].copy_from_slice(b"ustar\x0000");
        block[345..348].copy_from_slice(b"d/e");
        // Base 256: 0x80, zeros, and 5 at the end.
        block[124..136].copy_from_slice(&[0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5]);
        let bytes = [sealed(block), b"12345".to_vec()].concat();
        // GNU keeps times where others keep the prefix.
        block[257..265].copy_from_slice(b"ustar  \0");
        let gnu = [sealed(block), b"12345".to_vec()].concat();
        assert_eq!(parse(&gnu).unwrap()[0].name, "a.jpg");
        assert_eq!(
            names_and_bytes(&bytes),
            [("d/e/a.jpg".to_owned(), b"12345".to_vec())]
        );
    }

    #[test]
    fn damaged_archives_are_refused() {
        let hint = "hint: the file is damaged or no tar archive";
        let mut bytes = tar(&[("a.jpg", b"1"), ("b.jpg", b"2")]);
        bytes[1024] ^= 1;
        assert_eq!(
            message(&bytes),
            format!("`d/f.tar` has no sound header at byte 1024\n{hint}")
        );
        assert_eq!(
            message(b"\xff\xd8\xff"),
            format!("`d/f.tar` has no sound header at byte 0\n{hint}")
        );
        assert_eq!(
            message(&tar(&[("a.jpg", &[1; 600])])[..1000]),
            "`d/f.tar` ends within the entry at byte 0\n\
             hint: the file is cut short; fetch it again"
        );
        let mut packed = vec![0x1f, 0x8b];
        packed.resize(600, 1);
        assert!(message(&packed).starts_with("`d/f.tar` is in gzip\nhint: unpack it"));
        assert_eq!(
            message(&entry(b"x", b'L', &vec![b'a'; 70_000])),
            "`d/f.tar` has a name of 70000 bytes at byte 0; 65536 are the most"
        );
        for size in [[0xff; 12], [b'7'; 12]] {
            let mut block: [u8; 512] = entry(b"a", b'0', b"")[..512].try_into().unwrap();
            block[124..136].copy_from_slice(&size);
            assert!(parse(&sealed(block)).is_err());
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
            let _ = parse(&bytes);
        }

        /// Checksums stop most damage; here they fit.
        #[test]
        fn arbitrary_fields_with_sound_checksums_never_panic(
            size in any::<[u8; 12]>(),
            kind in prop::sample::select(b"0Lx75g\0".to_vec()),
            body in prop::collection::vec(any::<u8>(), 0..600),
            end in any::<prop::sample::Index>(),
        ) {
            let mut bytes = entry(b"x", kind, &body);
            let _ = parse(&bytes);
            bytes.extend(tar(&[("a.jpg", b"bytes")]));
            let _ = parse(&bytes[..end.index(bytes.len())]);
            let mut block: [u8; 512] = bytes[..512].try_into().unwrap();
            block[124..136].copy_from_slice(&size);
            if let Ok(entries) = parse(&[&sealed(block)[..], &bytes[512..]].concat()) {
                for entry in entries {
                    prop_assert!(entry.offset + entry.size <= bytes.len() as u64);
                }
            }
        }
    }
}
