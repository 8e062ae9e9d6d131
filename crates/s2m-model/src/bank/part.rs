//! One part of a bank: a Parquet file with a column per logit and a row per proposal.
//!
//! Parts are written by the crate `parquet` and read by the few lines below, which know the one layout that we write (plain,
//! uncompressed, one page per column and row group) and look before every step: the crate's own reader can be made to panic,
//! to ask for all memory and to run for hours. It replaces them once invalid bytes are errors there
//! (<https://github.com/apache/arrow-rs/issues/9742>) and it passes `a_flipped_bit_never_changes_what_is_read`.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::{Compression, Encoding, Repetition, Type as Physical};
use parquet::data_type::{DataType, FloatType, Int32Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::Type;

use super::thrift::Thrift;
use super::{BankInfo, PART};
use crate::disk::{crc32, open_plain};
use crate::error::Error;
use crate::logits::Logits;

/// Rows in a row group.
const ROW_GROUP: usize = 1 << 16;

/// Who wrote a part; fixed, so that the bytes do not change with the version of `parquet`.
const CREATED_BY: &str = "s2m bank 2";

/// Who wrote parts before there were checksums; these are read without.
const CREATED_WITHOUT_CHECKSUMS: &str = "s2m bank 1";

/// Key in a part's footer; its value says which part of which bank the file is.
const IDENTITY: &str = "s2m.part";

/// Key in a part's footer; its value has the CRC-32 of every column of every row group, in order, each
/// in eight hexadecimal digits.
const CHECKSUMS: &str = "s2m.crc32";

/// Largest footer that is read; 64 labels with the longest names need about half of it.
const MAX_FOOTER: u64 = 1 << 20;

/// Longest page header that is read; ours have about 20 bytes.
const MAX_PAGE_HEADER: u64 = 256;

/// Bytes of one number in a column.
const NUMBER: usize = size_of::<f32>();

/// Why a part cannot be read: what is wrong with it, or what the system said.
#[derive(Debug, thiserror::Error)]
pub(super) enum PartError {
    /// The system could not read it.
    #[error(transparent)]
    System(io::Error),
    /// It does not end as Parquet files do.
    #[error("it is cut short, or no Parquet file")]
    End,
    /// The footer makes no sense.
    #[error("its footer cannot be read")]
    Footer,
    /// The footer is for another part or bank.
    #[error("it belongs to another place or another bank")]
    Identity,
    /// The columns have other names, kinds or lengths.
    #[error("its columns are not those of a bank")]
    Columns,
    /// The number of proposals is impossible.
    #[error("it holds {found} proposals, where {wanted} were expected")]
    Rows {
        /// How many there are.
        found: u64,
        /// How many there should be.
        wanted: u64,
    },
    /// A page is not where or what the footer says.
    #[error("its footer and its pages do not agree")]
    Page,
    /// The numbers are not those that were written.
    #[error("its numbers have changed since they were written")]
    Checksum,
}

/// Name of a part's file.
pub(super) fn part_name(part: u64) -> String {
    format!("part-{part:08}.parquet")
}

/// Number of the part whose file has this name.
pub(super) fn part_number(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("part-")?.strip_suffix(".parquet")?;
    let part = digits.parse().ok()?;
    (part_name(part) == name).then_some(part)
}

/// Names and kinds of the columns.
fn columns(info: &BankInfo) -> Vec<(String, Physical)> {
    let logits = |kind: &'static str| {
        let column = move |label| (format!("{kind}.{label}"), Physical::FLOAT);
        info.labels.iter().map(column)
    };
    let mut columns: Vec<_> = logits("class_logit").collect();
    columns.push(("real_logit".to_owned(), Physical::FLOAT));
    if info.conditional {
        columns.extend(logits("fake_class_logit"));
    }
    if info.joint > 0 {
        let slots = 0..info.shape().sets().width();
        columns.extend(slots.map(|slot| (format!("joint.{slot}"), Physical::FLOAT)));
    }
    if info.conditional {
        columns.push(("class".to_owned(), Physical::INT32));
    }
    columns
}

/// Writes one part; the same rows give the same bytes.
pub(super) fn write(file: &File, info: &BankInfo, part: u64, rows: &Logits) -> io::Result<()> {
    write_parquet(file, info, part, rows).map_err(io_error)
}

fn write_parquet(
    file: &File,
    info: &BankInfo,
    part: u64,
    rows: &Logits,
) -> Result<(), ParquetError> {
    let mut writer = SerializedFileWriter::new(file, schema(info)?, Arc::new(properties()))?;
    let identity = KeyValue::new(IDENTITY.to_owned(), info.identity(part));
    writer.append_key_value_metadata(identity);
    let width = rows.shape().width();
    let mut first = part * info.part;
    let mut checksums = String::new();
    let mut note = |bytes: &[u8]| {
        write!(checksums, "{:08x}", crc32(&[bytes])).expect("writing to a string cannot fail");
    };
    for rows in rows.values().chunks(ROW_GROUP * width) {
        let mut group = writer.next_row_group()?;
        for column in 0..width {
            let values: Vec<f32> = rows[column..].iter().step_by(width).copied().collect();
            write_column::<FloatType>(&mut group, &values)?;
            note(
                &values
                    .iter()
                    .flat_map(|v| v.to_le_bytes())
                    .collect::<Vec<u8>>(),
            );
        }
        let end = first + (rows.len() / width) as u64;
        if let Some(classes) = info.classes {
            let class = |proposal| (proposal % classes as u64) as i32;
            let values: Vec<i32> = (first..end).map(class).collect();
            write_column::<Int32Type>(&mut group, &values)?;
            note(
                &values
                    .iter()
                    .flat_map(|v| v.to_le_bytes())
                    .collect::<Vec<u8>>(),
            );
        }
        group.close()?;
        first = end;
    }
    writer.append_key_value_metadata(KeyValue::new(CHECKSUMS.to_owned(), checksums));
    writer.finish()?;
    Ok(())
}

fn write_column<Number: DataType>(
    group: &mut SerializedRowGroupWriter<'_, &File>,
    values: &[Number::T],
) -> Result<(), ParquetError> {
    let mut column = group.next_column()?.expect("the schema has this column");
    column.typed::<Number>().write_batch(values, None, None)?;
    column.close()
}

fn schema(info: &BankInfo) -> Result<Arc<Type>, ParquetError> {
    let column = |(name, kind): (String, Physical)| {
        let builder = Type::primitive_type_builder(&name, kind);
        let built = builder.with_repetition(Repetition::REQUIRED).build()?;
        Ok(Arc::new(built))
    };
    let columns: Result<_, ParquetError> = columns(info).into_iter().map(column).collect();
    let root = Type::group_type_builder("proposals").with_fields(columns?);
    Ok(Arc::new(root.build()?))
}

fn properties() -> WriterProperties {
    WriterProperties::builder()
        .set_created_by(CREATED_BY.to_owned())
        .set_encoding(Encoding::PLAIN)
        .set_compression(Compression::UNCOMPRESSED)
        .set_dictionary_enabled(false)
        .set_statistics_enabled(EnabledStatistics::None)
        .set_offset_index_disabled(true)
        // One page per column and row group: the limits lie beyond what a row group holds.
        .set_data_page_row_count_limit(2 * ROW_GROUP)
        .set_data_page_size_limit(2 * ROW_GROUP * NUMBER)
        .set_write_batch_size(ROW_GROUP)
        .build()
}

/// The system's own error, where there is one inside.
fn io_error(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(inner) => io::Error::other(inner),
        },
        other => io::Error::other(other),
    }
}

/// One part, opened for reading.
#[derive(Debug)]
pub(super) struct PartFile {
    path: PathBuf,
    file: File,
    width: usize,
    groups: Vec<Group>,
}

/// A row group: its rows, and where its columns lie.
#[derive(Debug)]
struct Group {
    rows: usize,
    chunks: Vec<Chunk>,
}

/// One column of one row group: a page header and the numbers after it.
#[derive(Debug)]
struct Chunk {
    header: u64,
    numbers: u64,
    /// CRC-32 of the numbers; none in a part from before there were any.
    checksum: Option<u32>,
}

impl From<io::Error> for PartError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Self::End,
            _ => Self::System(error),
        }
    }
}

impl PartError {
    /// Names the file that it is in.
    pub(super) fn at(self, path: &Path) -> Error {
        match self {
            Self::System(source) => Error::reading(path)(source),
            damage => Error::malformed(format!(
                "`{}` is damaged: {damage}\nhint: delete it and mine again; the other parts are kept",
                path.display()
            )),
        }
    }
}

impl PartFile {
    /// Opens the file of a part and checks its footer.
    pub(super) fn open(path: PathBuf, info: &BankInfo, part: u64) -> Result<Self, Error> {
        let open = || -> Result<_, PartError> {
            let file = open_plain(&path)?;
            let groups = read_footer(&file, info, part)?;
            Ok((file, groups))
        };
        match open() {
            Ok((file, groups)) => Ok(Self {
                path,
                file,
                width: info.shape().width(),
                groups,
            }),
            Err(error) => Err(error.at(&path)),
        }
    }

    /// Number of proposals.
    pub(super) fn rows(&self) -> u64 {
        total_rows(&self.groups)
    }

    /// Reads whole rows from row `first` on into `rows`.
    pub(super) fn read(&self, first: usize, rows: &mut [f32]) -> Result<(), Error> {
        self.read_rows(first, rows)
            .map_err(|error| error.at(&self.path))
    }

    fn read_rows(&self, first: usize, rows: &mut [f32]) -> Result<(), PartError> {
        let end = first + rows.len() / self.width;
        let (found, wanted) = (self.rows(), end as u64);
        if found < wanted {
            // The file was exchanged for a shorter one since the bank was opened.
            return Err(PartError::Rows { found, wanted });
        }
        let mut start = 0;
        for group in &self.groups {
            let (from, to) = (first.max(start), end.min(start + group.rows));
            if from < to {
                let target = &mut rows[(from - first) * self.width..(to - first) * self.width];
                self.read_group(group, from - start, target)?;
            }
            start += group.rows;
        }
        Ok(())
    }

    /// Reads the columns of one row group from its row `first` on, and interleaves them to rows.
    fn read_group(&self, group: &Group, first: usize, rows: &mut [f32]) -> Result<(), PartError> {
        let count = rows.len() / self.width;
        for (column, chunk) in group.chunks.iter().take(self.width).enumerate() {
            let header = read_bytes(&self.file, chunk.header, chunk.numbers - chunk.header)?;
            check_page(&header, group.rows).ok_or(PartError::Page)?;
            let wanted = first * NUMBER..(first + count) * NUMBER;
            let bytes = match chunk.checksum {
                None => {
                    let start = chunk.numbers + wanted.start as u64;
                    read_bytes(&self.file, start, wanted.len() as u64)?
                }
                Some(checksum) => {
                    // Only all of a column can be checked.
                    let size = (group.rows * NUMBER) as u64;
                    let mut all = read_bytes(&self.file, chunk.numbers, size)?;
                    if crc32(&[&all]) != checksum {
                        return Err(PartError::Checksum);
                    }
                    all.truncate(wanted.end);
                    all.split_off(wanted.start)
                }
            };
            let values = bytes.as_chunks().0.iter().map(|&b| f32::from_le_bytes(b));
            let target = rows[column..].iter_mut().step_by(self.width);
            target.zip(values).for_each(|(slot, value)| *slot = value);
        }
        Ok(())
    }
}

fn total_rows(groups: &[Group]) -> u64 {
    groups.iter().map(|group| group.rows as u64).sum()
}

/// Reads a stretch of a file; its length must have been checked.
fn read_bytes(mut file: &File, start: u64, length: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length as usize];
    file.seek(SeekFrom::Start(start))?;
    file.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn read_footer(file: &File, info: &BankInfo, part: u64) -> Result<Vec<Group>, PartError> {
    const TAIL: u64 = 8;
    let size = file.metadata()?.len();
    let end = size.checked_sub(TAIL).ok_or(PartError::End)?;
    let tail = read_bytes(file, end, TAIL)?;
    let [a, b, c, d, b'P', b'A', b'R', b'1'] = tail[..] else {
        return Err(PartError::End);
    };
    let length = u64::from(u32::from_le_bytes([a, b, c, d]));
    if length > MAX_FOOTER.min(end) {
        return Err(PartError::End);
    }
    let start = end - length;
    let bytes = read_bytes(file, start, length)?;
    let (footer, _) = Thrift::parse(&bytes).ok_or(PartError::Footer)?;
    check_footer(&footer, start, info, part)
}

// The numbers below are field numbers of `parquet.thrift`, format 2, and these are its values.
const REQUIRED: i64 = 0;
const UNCOMPRESSED: i64 = 0;
const DATA_PAGE: i64 = 0;
const PLAIN: i64 = 0;

/// Checks what a footer says; returns the row groups.
fn check_footer(
    footer: &Thrift,
    data_end: u64,
    info: &BankInfo,
    part: u64,
) -> Result<Vec<Group>, PartError> {
    let columns = columns(info);
    let schema = footer.list(2).ok_or(PartError::Footer)?;
    if !is_schema_of(schema, &columns) {
        return Err(PartError::Columns);
    }
    let identity = info.identity(part);
    let ours = |pair: &Thrift| {
        pair.text(1) == Some(IDENTITY.as_bytes()) && pair.text(2) == Some(identity.as_bytes())
    };
    if !footer.list(5).is_some_and(|pairs| pairs.iter().any(ours)) {
        return Err(PartError::Identity);
    }
    let groups = footer.list(4).ok_or(PartError::Footer)?.iter();
    let groups: Option<Vec<_>> = groups
        .map(|group| check_group(group, data_end, columns.len()))
        .collect();
    let mut groups = groups.ok_or(PartError::Footer)?;
    if footer.text(6) != Some(CREATED_WITHOUT_CHECKSUMS.as_bytes()) {
        let chunks = groups.iter_mut().flat_map(|group| &mut group.chunks);
        note_checksums(footer, chunks.collect()).ok_or(PartError::Footer)?;
    }
    let (found, wanted) = (total_rows(&groups), info.part);
    if found == 0 || found > wanted {
        return Err(PartError::Rows { found, wanted });
    }
    if footer.integer(3) != i64::try_from(found).ok() {
        return Err(PartError::Footer);
    }
    Ok(groups)
}

/// Takes the checksums of all columns from a footer.
fn note_checksums(footer: &Thrift, chunks: Vec<&mut Chunk>) -> Option<()> {
    let mut pairs = footer.list(5)?.iter();
    let pair = pairs.find(|pair| pair.text(1) == Some(CHECKSUMS.as_bytes()))?;
    let (digits, rest) = pair.text(2)?.as_chunks::<8>();
    if digits.len() != chunks.len() || !rest.is_empty() {
        return None;
    }
    for (chunk, digits) in chunks.into_iter().zip(digits) {
        let digits = str::from_utf8(digits).ok()?;
        chunk.checksum = Some(u32::from_str_radix(digits, 16).ok()?);
    }
    Some(())
}

/// Whether a schema is a root and then just these columns.
fn is_schema_of(schema: &[Thrift], columns: &[(String, Physical)]) -> bool {
    let same = |(element, (name, kind)): (&Thrift, &(String, Physical))| {
        element.text(4) == Some(name.as_bytes())
            && element.integer(1) == Some(*kind as i64)
            && element.integer(3) == Some(REQUIRED)
    };
    schema.len() == columns.len() + 1 && schema[1..].iter().zip(columns).all(same)
}

fn check_group(group: &Thrift, data_end: u64, columns: usize) -> Option<Group> {
    let rows = u64::try_from(group.integer(3)?).ok()?;
    let chunks = group.list(1)?;
    if rows > PART || chunks.len() != columns {
        return None;
    }
    let rows = rows as usize;
    let chunks = chunks
        .iter()
        .map(|chunk| check_chunk(chunk.field(3)?, data_end, rows))
        .collect::<Option<_>>()?;
    Some(Group { rows, chunks })
}

/// Checks that a column is plain, uncompressed and inside the file.
fn check_chunk(chunk: &Thrift, data_end: u64, rows: usize) -> Option<Chunk> {
    let codec = chunk.integer(4)?;
    let size = u64::try_from(chunk.integer(7)?).ok()?;
    let header = u64::try_from(chunk.integer(9)?).ok()?;
    let dictionary = chunk.field(11);
    let header_size = size.checked_sub((rows * NUMBER) as u64)?;
    let plain = codec == UNCOMPRESSED && dictionary.is_none();
    let inside = header.checked_add(size)? <= data_end && header_size <= MAX_PAGE_HEADER;
    (plain && inside).then(|| Chunk {
        header,
        numbers: header + header_size,
        checksum: None,
    })
}

/// Checks that a page header announces `rows` plain numbers and nothing else.
fn check_page(bytes: &[u8], rows: usize) -> Option<()> {
    let (header, length) = Thrift::parse(bytes)?;
    let (kind, sizes) = (header.integer(1)?, [header.integer(2)?, header.integer(3)?]);
    let data = header.field(5)?;
    let (count, encoding) = (data.integer(1)?, data.integer(2)?);
    let sound = length == bytes.len()
        && (kind, encoding) == (DATA_PAGE, PLAIN)
        && sizes == [i64::try_from(rows * NUMBER).ok()?; 2]
        && count == i64::try_from(rows).ok()?;
    sound.then_some(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use parquet::file::reader::{FileReader as _, SerializedFileReader};
    use parquet::record::Field;

    use super::*;
    use crate::bank::tests::{WANTED, error_after, info, mine, mine_to_the_end, rewrite, score};
    use crate::bank::{Bank, BankWriter};

    #[test]
    fn several_row_groups_come_back() {
        let mut info = info(true);
        info.part = PART;
        let folder = tempfile::tempdir().unwrap();
        let count = 2 * ROW_GROUP + 5;
        let mut writer = BankWriter::open(folder.path(), info.clone(), count as u64).unwrap();
        mine(&mut writer, 50_000);
        writer.finish().unwrap();
        let bank = Bank::open(folder.path()).unwrap();
        let all = bank.read(0, count).unwrap();
        assert_eq!(all.values(), score(&info, 0, count).values());
        let first = ROW_GROUP as u64 - 2;
        let across = bank.read(first, ROW_GROUP + 4).unwrap();
        assert_eq!(across, score(&info, first, ROW_GROUP + 4));
    }

    /// The twin: the crate's own reader finds the columns and numbers that ours finds.
    #[test]
    fn parts_are_parquet_files_that_others_can_read() {
        let info = info(true);
        let folder = tempfile::tempdir().unwrap();
        mine_to_the_end(folder.path(), &info, WANTED);
        let file = File::open(folder.path().join("part-00000001.parquet")).unwrap();
        let reader = SerializedFileReader::new(file).unwrap();
        let names = [
            "class_logit.A",
            "class_logit.Bläck hair",
            "real_logit",
            "fake_class_logit.A",
            "fake_class_logit.Bläck hair",
            "class",
        ];
        let expected = score(&info, 8, 8);
        let mut rows = 0;
        for (row, record) in reader.get_row_iter(None).unwrap().enumerate() {
            let record = record.unwrap();
            let found: Vec<_> = record.get_column_iter().collect();
            let found_names: Vec<_> = found.iter().map(|(name, _)| name.as_str()).collect();
            assert_eq!(found_names, names);
            for (column, &value) in expected.row(row).iter().enumerate() {
                assert_eq!(found[column].1, &Field::Float(value));
            }
            assert_eq!(found[5].1, &Field::Int([2, 0, 1][row % 3]));
            rows += 1;
        }
        assert_eq!(rows, 8);
    }

    #[test]
    fn the_most_and_longest_labels_fit_the_limits() {
        let mut info = info(true);
        let name = |label| format!("{label:02}{}", "\u{1f600}".repeat(198));
        info.labels = (0..64).map(name).collect();
        info.part = PART;
        let folder = tempfile::tempdir().unwrap();
        let count = 3 * ROW_GROUP + 1;
        let mut writer = BankWriter::open(folder.path(), info.clone(), count as u64).unwrap();
        mine(&mut writer, count);
        writer.finish().unwrap();
        let bank = Bank::open(folder.path()).unwrap();
        let last = bank.read(count as u64 - 1, 1).unwrap();
        assert_eq!(last, score(&info, count as u64 - 1, 1));
    }

    /// Flips every bit of a part once: it is noticed, or does not change what is read.
    #[test]
    fn a_flipped_bit_never_changes_what_is_read() {
        let info = info(true);
        let folder = tempfile::tempdir().unwrap();
        mine_to_the_end(folder.path(), &info, 8);
        let path = folder.path().join("part-00000000.parquet");
        let sound = fs::read(&path).unwrap();
        let mut noticed = 0;
        for bit in 0..sound.len() * 8 {
            let mut damaged = sound.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            fs::write(&path, damaged).unwrap();
            let Ok(found) = Bank::open(folder.path()).and_then(|bank| bank.read(0, 8)) else {
                noticed += 1;
                continue;
            };
            assert!(found == score(&info, 0, 8), "bit {bit}");
        }
        assert!(noticed > 2000, "{noticed}");
    }

    /// Also where only rows beside the damaged one are asked for.
    #[test]
    fn damaged_numbers_are_named_with_their_cure() {
        let info = info(false);
        let folder = tempfile::tempdir().unwrap();
        mine_to_the_end(folder.path(), &info, 8);
        let path = folder.path().join("part-00000000.parquet");
        let part = PartFile::open(path.clone(), &info, 0).unwrap();
        let mut bytes = fs::read(&path).unwrap();
        bytes[part.groups[0].chunks[1].numbers as usize] ^= 1;
        fs::write(&path, bytes).unwrap();
        let error = Bank::open(folder.path()).unwrap().read(5, 2).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "`{}` is damaged: its numbers have changed since they were written\n\
                 hint: delete it and mine again; the other parts are kept",
                path.display()
            )
        );
    }

    /// A part as it was written before there were checksums.
    #[test]
    fn a_part_without_checksums_is_read() {
        let info = info(true);
        let folder = tempfile::tempdir().unwrap();
        mine_to_the_end(folder.path(), &info, 8);
        let path = folder.path().join("part-00000000.parquet");
        let mut bytes = fs::read(&path).unwrap();
        for (from, to) in [
            (CREATED_BY, CREATED_WITHOUT_CHECKSUMS),
            (CHECKSUMS, "an other!"),
        ] {
            assert_eq!(from.len(), to.len());
            let at = bytes
                .windows(from.len())
                .position(|part| part == from.as_bytes());
            let at = at.unwrap();
            bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
        }
        fs::write(&path, bytes).unwrap();
        let bank = Bank::open(folder.path()).unwrap();
        assert_eq!(bank.read(2, 5).unwrap(), score(&info, 2, 5));
        // It can be extended too; what is written then has checksums.
        mine_to_the_end(folder.path(), &info, 12);
        assert_eq!(
            Bank::open(folder.path()).unwrap().read(0, 12).unwrap(),
            score(&info, 0, 12)
        );
    }

    #[test]
    fn a_damaged_part_is_named_with_its_cure() {
        let part = |folder: &Path| folder.join("part-00000001.parquet");
        let edit = |change: fn(&mut Vec<u8>)| {
            error_after(|folder| {
                let mut bytes = fs::read(part(folder)).unwrap();
                change(&mut bytes);
                fs::write(part(folder), bytes).unwrap();
            })
        };
        let wording = |damage: &str| {
            format!(
                "`DIR/part-00000001.parquet` is damaged: {damage}\n\
                 hint: delete it and mine again; the other parts are kept"
            )
        };
        let cut = edit(|bytes| bytes.truncate(100));
        assert_eq!(cut, wording("it is cut short, or no Parquet file"));
        assert_eq!(edit(Vec::clear), cut);
        // The last byte before the footer's length ends the footer's struct.
        let unended = edit(|bytes| {
            let end = bytes.len() - 9;
            bytes[end] = 0xff;
        });
        assert_eq!(unended, wording("its footer cannot be read"));
        let swapped = error_after(|folder| {
            fs::copy(folder.join("part-00000000.parquet"), part(folder)).unwrap();
        });
        assert_eq!(
            swapped,
            wording("it belongs to another place or another bank")
        );
        let renamed = error_after(|folder| rewrite(folder, "\"A\"", "\"C\""));
        assert!(
            renamed.contains("its columns are not those of a bank"),
            "{renamed}"
        );
        let page = edit(|bytes| bytes[5] ^= 2);
        assert_eq!(page, wording("its footer and its pages do not agree"));
        let short = error_after(|folder| rewrite(folder, "part = 8", "part = 9"));
        assert!(
            short.contains("it holds 8 proposals, where 9 were expected"),
            "{short}"
        );
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_reported_in_the_words_of_the_system() {
        let full = fs::OpenOptions::new()
            .write(true)
            .open("/dev/full")
            .unwrap();
        let rows = score(&info(true), 0, 8);
        let err = write(&full, &info(true), 0, &rows).unwrap_err();
        assert_eq!(err.to_string(), "No space left on device (os error 28)");
    }
}
