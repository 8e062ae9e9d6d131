//! Text files: plain, in gzip or in zip, as UTF-8; other encodings are named and refused.
//!
//! The first bytes of a file tell how it is packed, never its name. Nothing is unpacked beyond the
//! limit below.

use std::io::{self, BufReader, Read, Seek as _};
use std::path::Path;

use flate2::CrcReader;
use flate2::bufread::MultiGzDecoder;

use crate::error::Error;
use crate::plain_file;
use crate::zip::{Archive, damaged, in_archive};

/// Most bytes of a text: a table of a million rows and forty columns has a third of that.
pub const MAX_BYTES: u64 = 1 << 28;

/// First bytes of a gzip file and of a zip file.
const GZIP: &[u8] = &[0x1f, 0x8b];
const ZIP: &[u8] = b"PK";

/// Marks that some programs put before a text.
const UTF_8_MARK: &[u8] = &[0xef, 0xbb, 0xbf];
const UTF_16_MARKS: [&[u8]; 2] = [&[0xff, 0xfe], &[0xfe, 0xff]];

/// Reads a text file, unpacked where it has to be.
pub(crate) fn read(path: &Path) -> Result<String, Error> {
    let failed = Error::reading(path);
    let mut file = plain_file::open(path).map_err(failed)?;
    let mut start = Vec::new();
    let mut first = file.by_ref().take(2);
    first.read_to_end(&mut start).map_err(failed)?;
    file.rewind().map_err(failed)?;
    let bytes = if start == GZIP {
        up_to_limit(
            MultiGzDecoder::new(BufReader::new(file)),
            path,
            unpacking(path),
        )?
    } else if start == ZIP {
        unzip(file, path)?
    } else {
        up_to_limit(file, path, failed)?
    };
    decode(bytes, path)
}

/// The only file of an archive; some systems add files of their own about each file.
fn unzip(file: impl Read + io::Seek + 'static, path: &Path) -> Result<Vec<u8>, Error> {
    let failed = in_archive(path);
    let archive = Archive::open(file).map_err(failed)?;
    let counts = |name: &str| !name.ends_with('/') && !name.starts_with("__MACOSX/");
    let files = archive.entries.iter().filter(|entry| counts(&entry.name));
    let entry = match files.clone().next() {
        Some(entry) if files.clone().count() == 1 => entry.clone(),
        _ => {
            return Err(Error::malformed(format!(
                "`{}` should hold one file, but holds {}\nhint: unpack it and name the file itself",
                path.display(),
                files.count()
            )));
        }
    };
    let mut unpacked = CrcReader::new(archive.read(&entry).map_err(failed)?);
    let bytes = up_to_limit(&mut unpacked, path, unpacking(path))?;
    if unpacked.crc().sum() != entry.crc {
        return Err(failed(damaged("checksum")));
    }
    Ok(bytes)
}

fn unpacking(path: &Path) -> impl Fn(io::Error) -> Error + '_ {
    move |source| {
        Error::malformed(format!(
            "could not unpack `{}`: {source}\nhint: the file is damaged; fetch it again",
            path.display()
        ))
        .because(source)
    }
}

/// All bytes, of which there may be no more than the limit; memory grows with what is there.
fn up_to_limit(
    reader: impl Read,
    path: &Path,
    failed: impl FnOnce(io::Error) -> Error,
) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    let mut limited = reader.take(MAX_BYTES + 1);
    limited.read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(Error::too_large(format!(
            "`{}` is longer than {MAX_BYTES} bytes, the most for a text",
            path.display()
        )));
    }
    Ok(bytes)
}

/// Bytes as text, without the mark of UTF-8.
pub(crate) fn decode(mut bytes: Vec<u8>, path: &Path) -> Result<String, Error> {
    if bytes.starts_with(UTF_8_MARK) {
        bytes.drain(..UTF_8_MARK.len());
    }
    let line = |bytes: &[u8], at: usize| bytes[..at].split(|&byte| byte == b'\n').count();
    // A zero byte is valid UTF-8, but in a table it comes from UTF-16 without a mark.
    let marked = UTF_16_MARKS.iter().any(|mark| bytes.starts_with(mark));
    let utf_16 = if marked {
        Some(0)
    } else {
        bytes.iter().position(|&byte| byte == 0)
    };
    if let Some(at) = utf_16 {
        let (byte, line) = (bytes[at], line(&bytes, at));
        return Err(Error::unsupported(format!(
            "`{}` is in UTF-16: line {line} holds byte 0x{byte:02x}\nhint: save it as UTF-8",
            path.display()
        )));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let bytes = error.as_bytes();
        Error::unsupported(format!(
            "`{}` is not UTF-8: line {} holds byte 0x{:02x}\nhint: it may be Latin-1; save it as UTF-8",
            path.display(),
            line(bytes, at),
            bytes[at]
        ))
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use std::fs;
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use proptest::prelude::*;

    use super::*;

    pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    /// A zip archive of stored files.
    pub(crate) fn zip(files: &[(&str, &[u8])]) -> Vec<u8> {
        let (mut out, mut directory) = (Vec::new(), Vec::new());
        for (name, bytes) in files {
            let mut crc = flate2::Crc::new();
            crc.update(bytes);
            let size = (bytes.len() as u32).to_le_bytes();
            let common = [
                &[20, 0, 0, 0, 0, 0, 0, 0, 0, 0][..],
                &crc.sum().to_le_bytes(),
                &size,
                &size,
                &(name.len() as u16).to_le_bytes(),
                &[0, 0],
            ]
            .concat();
            let offset = (out.len() as u32).to_le_bytes();
            let record = [b"PK\x01\x02\x14\0", &common[..], &[0; 10], &offset];
            directory.extend([&record.concat(), name.as_bytes()].concat());
            out.extend([b"PK\x03\x04", &common[..], name.as_bytes(), bytes].concat());
        }
        let count = (files.len() as u16).to_le_bytes();
        let size = (directory.len() as u32).to_le_bytes();
        let offset = (out.len() as u32).to_le_bytes();
        let end = [b"PK\x05\x06\0\0\0\0", &count[..], &count, &size, &offset].concat();
        [out, directory, end, vec![0, 0]].concat()
    }

    fn parse(bytes: &[u8]) -> Result<String, Error> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        fs::write(&path, bytes).unwrap();
        read(&path)
    }

    fn message(bytes: &[u8]) -> String {
        decode(bytes.to_vec(), Path::new("d/f"))
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn plain_and_packed_texts_are_the_same() {
        let text = "é,1\n".as_bytes();
        let beside: &[(&str, &[u8])] = &[("d/", b""), ("d/t.txt", text), ("__MACOSX/t", b"\0")];
        for bytes in [
            text.to_vec(),
            [UTF_8_MARK, text].concat(),
            gzip(text),
            zip(beside),
        ] {
            assert_eq!(parse(&bytes).unwrap(), "é,1\n");
        }
    }

    #[test]
    fn other_encodings_are_named_with_byte_and_line() {
        assert_eq!(
            message(b"a\nb\nM\xfcller"),
            "`d/f` is not UTF-8: line 3 holds byte 0xfc\n\
             hint: it may be Latin-1; save it as UTF-8"
        );
        let hint = "hint: save it as UTF-8";
        assert_eq!(
            message(b"\xff\xfea\0"),
            format!("`d/f` is in UTF-16: line 1 holds byte 0xff\n{hint}")
        );
        assert_eq!(
            message(b"\xfe\xff\0a"),
            format!("`d/f` is in UTF-16: line 1 holds byte 0xfe\n{hint}")
        );
        assert_eq!(
            message(b"ab\na\0b\0"),
            format!("`d/f` is in UTF-16: line 2 holds byte 0x00\n{hint}")
        );
    }

    #[test]
    fn damaged_archives_are_refused() {
        let failure = |bytes: &[u8]| parse(bytes).unwrap_err().to_string();
        let two = failure(&zip(&[("a", b"1"), ("b", b"2")]));
        assert!(
            two.ends_with(
                "` should hold one file, but holds 2\nhint: unpack it and name the file itself"
            ),
            "{two}"
        );
        assert!(failure(&zip(&[])).contains("but holds 0"));
        let packed = gzip(b"some text");
        assert!(failure(&packed[..packed.len() - 3]).starts_with("could not unpack `"));
        let mut archive = zip(&[("a", b"12345")]);
        let at = archive.windows(5).position(|w| w == b"12345").unwrap();
        archive[at] = b'9';
        assert!(failure(&archive).contains("its checksum is damaged"));
    }

    /// A quarter of a gigabyte of zeros packs into a quarter of a megabyte.
    #[test]
    fn a_small_file_cannot_unpack_into_a_large_one() {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        let zeros = vec![0; 1 << 20];
        for _ in 0..=(MAX_BYTES >> 20) {
            encoder.write_all(&zeros).unwrap();
        }
        let failure = parse(&encoder.finish().unwrap()).unwrap_err().to_string();
        let wanted = "` is longer than 268435456 bytes, the most for a text";
        assert!(failure.ends_with(wanted), "{failure}");
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes);
            let _ = parse(&[GZIP, &bytes].concat());
            let _ = parse(&[ZIP, &bytes].concat());
        }

        #[test]
        fn damaged_archives_never_panic(at in any::<prop::sample::Index>(), byte: u8) {
            for mut bytes in [gzip(b"a,b\n1,2\n"), zip(&[("a", b"a,b\n1,2\n")])] {
                let at = at.index(bytes.len());
                let _ = parse(&bytes[..at]);
                bytes[at] = byte;
                let _ = parse(&bytes);
            }
        }
    }
}
