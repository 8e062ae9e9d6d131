use std::collections::BTreeMap;
use std::fs;
use std::io;

use super::folder::write_whole;
use super::part::part_name;
use super::*;
use crate::error::Error;
use crate::journal::Journal;

pub(super) const WANTED: u64 = 21;

/// A small bank: parts of eight proposals.
pub(super) fn info(conditional: bool) -> BankInfo {
    BankInfo {
        format: FORMAT,
        model: "toy".to_owned(),
        scoring_hash: "0123456789abcdef".to_owned(),
        labels: vec!["A".to_owned(), "Bläck hair".to_owned()],
        conditional,
        classes: conditional.then_some(3),
        joint: 0,
        seed: 7,
        first: 0,
        part: 8,
        device: "cpu".to_owned(),
    }
}

/// Logits that are a function of the proposal's number, as real ones are.
pub(super) fn score(info: &BankInfo, first: u64, count: usize) -> Logits {
    let mut logits = Logits::zeros(info.shape(), count);
    let start = first as usize * info.shape().width();
    for (index, value) in logits.values_mut().iter_mut().enumerate() {
        *value = ((start + index) as f32).sin();
    }
    logits
}

/// Mines in batches until there is nothing to do; does not finish.
pub(super) fn mine(writer: &mut BankWriter, batch: usize) {
    while writer.position() < writer.wanted() {
        push(writer, batch);
    }
}

fn push(writer: &mut BankWriter, batch: usize) {
    let logits = score(writer.info(), writer.position(), batch);
    writer.push(&logits).unwrap();
}

pub(super) fn mine_to_the_end(folder: &Path, info: &BankInfo, wanted: u64) {
    let mut writer = BankWriter::open(folder, info.clone(), wanted).unwrap();
    mine(&mut writer, 3);
    writer.finish().unwrap();
}

/// Names and bytes of all files in a folder.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let names = Folder(folder.to_owned()).names().unwrap();
    let read = |name: String| {
        let bytes = fs::read(folder.join(&name)).unwrap();
        (name, bytes)
    };
    names.into_iter().map(read).collect()
}

fn put(folder: &Path, files: &BTreeMap<String, Vec<u8>>) {
    let _ = fs::remove_dir_all(folder);
    fs::create_dir(folder).unwrap();
    for (name, bytes) in files {
        fs::write(folder.join(name), bytes).unwrap();
    }
}

/// The files of a bank that was mined in one go.
fn whole_bank(info: &BankInfo, wanted: u64) -> BTreeMap<String, Vec<u8>> {
    let folder = tempfile::tempdir().unwrap();
    mine_to_the_end(folder.path(), info, wanted);
    files(folder.path())
}

#[test]
fn every_stretch_of_proposals_comes_back() {
    for info in [info(false), info(true)] {
        let folder = tempfile::tempdir().unwrap();
        mine_to_the_end(folder.path(), &info, WANTED);
        let bank = Bank::open(folder.path()).unwrap();
        assert_eq!(bank.info(), &info);
        assert_eq!(bank.len(), WANTED);
        for first in 0..=WANTED {
            for count in 0..=(WANTED - first) as usize {
                let found = bank.read(first, count).unwrap();
                assert_eq!(found, score(&info, first, count), "{count} from {first}");
            }
        }
    }
}

#[test]
fn the_batch_size_does_not_change_the_bytes() {
    let expected = whole_bank(&info(true), WANTED);
    let names: Vec<_> = expected.keys().collect();
    assert_eq!(
        names,
        [
            "bank.toml",
            "part-00000000.parquet",
            "part-00000001.parquet",
            "part-00000002.parquet"
        ]
    );
    for batch in [1, 2, 7, 8, 9, 20, 100] {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = BankWriter::open(folder.path(), info(true), WANTED).unwrap();
        mine(&mut writer, batch);
        assert_eq!(writer.position(), WANTED);
        writer.finish().unwrap();
        assert!(files(folder.path()) == expected, "batch {batch}");
    }
}

/// Kills the run after every push, tears the journal at every byte, and goes on.
#[test]
fn a_killed_run_goes_on_and_ends_with_the_same_bytes() {
    let info = info(false);
    let expected = whole_bank(&info, WANTED);
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path().join("bank");
    for pushes in 0..=7 {
        let _ = fs::remove_dir_all(&folder);
        let mut writer = BankWriter::open(&folder, info.clone(), WANTED).unwrap();
        (0..pushes).for_each(|_| push(&mut writer, 3));
        let (before, journal) = (writer.position(), writer.folder.journal(writer.part));
        drop(writer);
        let mut left = files(&folder);
        let name = journal.file_name().unwrap().to_string_lossy().into_owned();
        let torn = left.get(&name).cloned().unwrap_or_default();
        for length in 0..=torn.len() {
            if !torn.is_empty() {
                left.insert(name.clone(), torn[..length].to_vec());
            }
            put(&folder, &left);
            let mut writer = BankWriter::open(&folder, info.clone(), WANTED).unwrap();
            let lost = before - writer.position();
            assert!(lost == 0 || length < torn.len() && lost < info.part);
            mine(&mut writer, 4);
            writer.finish().unwrap();
            assert!(
                files(&folder) == expected,
                "{pushes} pushes, {length} bytes"
            );
        }
    }
}

#[test]
fn a_run_killed_while_it_changes_files_goes_on() {
    let info = info(false);
    let expected = whole_bank(&info, WANTED);
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path().join("bank");
    let mut writer = BankWriter::open(&folder, info.clone(), WANTED).unwrap();
    (0..8).for_each(|_| push(&mut writer, 1));
    drop(writer);
    let part_done = files(&folder);
    // The journal of part 0 as it was when all eight rows were in it.
    let path = scratch.path().join("full.journal");
    let identity = format!("{} after 0", info.identity(0));
    let (mut journal, _) = Journal::open(&path, &identity, info.shape()).unwrap();
    journal.append(score(&info, 0, 8).values()).unwrap();
    let journal = fs::read(&path).unwrap();

    let mut not_renamed = part_done.clone();
    let part = not_renamed.remove("part-00000000.parquet").unwrap();
    not_renamed.insert("part-00000000.parquet.tmp".to_owned(), part[..40].to_vec());
    not_renamed.insert("part-00000000.journal".to_owned(), journal.clone());
    let mut journal_left = part_done.clone();
    journal_left.insert("part-00000000.journal".to_owned(), journal);
    let mut barely_begun = BTreeMap::new();
    barely_begun.insert("bank.toml.tmp".to_owned(), b"form".to_vec());
    let states = [(8, not_renamed), (8, journal_left), (0, barely_begun)];
    for (position, state) in states {
        put(&folder, &state);
        let mut writer = BankWriter::open(&folder, info.clone(), WANTED).unwrap();
        assert_eq!(writer.position(), position);
        mine(&mut writer, 3);
        writer.finish().unwrap();
        assert!(files(&folder) == expected, "{:?}", state.keys());
    }
}

#[test]
fn a_longer_bank_grows_out_of_a_shorter_one() {
    let info = info(true);
    let expected = whole_bank(&info, WANTED);
    for first in 0..=WANTED {
        let folder = tempfile::tempdir().unwrap();
        mine_to_the_end(folder.path(), &info, first);
        assert_eq!(Bank::open(folder.path()).unwrap().len(), first);
        let mut writer = BankWriter::open(folder.path(), info.clone(), WANTED).unwrap();
        assert_eq!(writer.position(), first);
        if first < WANTED {
            // Killed once more on the way.
            push(&mut writer, 2);
        }
        drop(writer);
        mine_to_the_end(folder.path(), &info, WANTED);
        assert!(files(folder.path()) == expected, "from {first}");
    }
}

#[test]
fn a_journal_that_outlived_an_extended_part_is_not_added_twice() {
    let info = info(false);
    let folder = tempfile::tempdir().unwrap();
    mine_to_the_end(folder.path(), &info, 3);
    let mut writer = BankWriter::open(folder.path(), info.clone(), 5).unwrap();
    push(&mut writer, 2);
    let journal = fs::read(folder.path().join("part-00000000.journal")).unwrap();
    writer.finish().unwrap();
    fs::write(folder.path().join("part-00000000.journal"), journal).unwrap();
    let writer = BankWriter::open(folder.path(), info, 8).unwrap();
    assert_eq!(writer.position(), 5);
}

#[test]
fn a_bank_that_is_long_enough_is_left_alone() {
    let info = info(false);
    let folder = tempfile::tempdir().unwrap();
    mine_to_the_end(folder.path(), &info, WANTED);
    let before = files(folder.path());
    for wanted in [0, 5, 16, WANTED] {
        let writer = BankWriter::open(folder.path(), info.clone(), wanted).unwrap();
        assert!(writer.position() >= wanted);
        writer.finish().unwrap();
        assert!(files(folder.path()) == before);
    }
}

#[test]
fn a_part_that_was_deleted_is_mined_again_alone() {
    let info = info(true);
    let expected = whole_bank(&info, 30);
    for (missing, position) in [(0, 0), (1, 8), (2, 16)] {
        let folder = tempfile::tempdir().unwrap();
        mine_to_the_end(folder.path(), &info, 29);
        fs::remove_file(folder.path().join(part_name(missing))).unwrap();
        let mut writer = BankWriter::open(folder.path(), info.clone(), 30).unwrap();
        assert_eq!(writer.position(), position);
        push(&mut writer, 11);
        assert_eq!(writer.position(), 29, "the parts after it are there");
        mine(&mut writer, 3);
        writer.finish().unwrap();
        assert!(files(folder.path()) == expected, "part {missing}");
    }
}

#[test]
fn leftovers_of_ours_are_removed_and_other_files_are_not() {
    let info = info(false);
    let folder = tempfile::tempdir().unwrap();
    mine_to_the_end(folder.path(), &info, 3);
    let mut expected = files(folder.path());
    expected.insert("notes.tmp".to_owned(), Vec::new());
    fs::write(folder.path().join("notes.tmp"), "").unwrap();
    for name in [
        "bank.toml.tmp",
        "part-00000004.parquet.tmp",
        "part-00000004.journal",
    ] {
        fs::write(folder.path().join(name), "half").unwrap();
    }
    drop(BankWriter::open(folder.path(), info, 3).unwrap());
    assert!(files(folder.path()) == expected);
}

#[test]
fn a_bank_keeps_its_part_size_and_its_name() {
    let folder = tempfile::tempdir().unwrap();
    mine_to_the_end(folder.path(), &info(false), 3);
    let mut other = info(false);
    other.part = PART;
    other.model = "renamed".to_owned();
    mine_to_the_end(folder.path(), &other, WANTED);
    assert!(files(folder.path()) == whole_bank(&info(false), WANTED));
}

#[test]
fn the_largest_seed_survives() {
    let mut info = info(false);
    info.seed = u64::MAX;
    let folder = tempfile::tempdir().unwrap();
    mine_to_the_end(folder.path(), &info, 3);
    assert_eq!(Bank::open(folder.path()).unwrap().info(), &info);
}

#[test]
fn types_can_be_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Bank>();
    shared::<BankWriter>();
    shared::<Error>();
}

/// Small numbers that look random; the same ones every time.
pub(super) struct Noise(pub(super) u64);

impl Noise {
    pub(in crate::bank) fn below(&mut self, limit: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) as usize % limit
    }

    /// Flips bits, overwrites, cuts or lengthens.
    fn damage(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        for _ in 0..=self.below(3) {
            let at = self.below(bytes.len().max(1));
            match self.below(5) {
                0 => bytes.truncate(at),
                1 => bytes.insert(at, self.below(256) as u8),
                2 if at < bytes.len() => bytes[at] = [0, 0x7f, 0x80, 0xff][self.below(4)],
                _ if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
                _ => {}
            }
        }
        bytes
    }
}

/// Opens, reads and goes on with a bank, whatever state it is in; every error is fine.
fn use_somehow(folder: &Path, info: &BankInfo) -> bool {
    let read = Bank::open(folder).and_then(|bank| bank.read(0, bank.len() as usize));
    let wrote = BankWriter::open(folder, info.clone(), WANTED).and_then(|mut writer| {
        mine(&mut writer, 8);
        writer.finish()
    });
    read.is_ok() && wrote.is_ok()
}

#[test]
fn damaged_files_end_in_an_error_or_in_a_bank() {
    let info = info(true);
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path().join("bank");
    let mut writer = BankWriter::open(&folder, info.clone(), WANTED).unwrap();
    (0..6).for_each(|_| push(&mut writer, 3));
    drop(writer);
    let sound = files(&folder);
    let mut noise = Noise(1);
    let mut survivors = |name: &str| -> usize {
        let mut try_once = || {
            let mut files = sound.clone();
            files.insert(name.to_owned(), noise.damage(&sound[name]));
            put(&folder, &files);
            use_somehow(&folder, &info)
        };
        (0..1000).map(|_| usize::from(try_once())).sum()
    };
    assert!(survivors("bank.toml") < 500);
    assert!(survivors("part-00000001.parquet") < 500);
    // Of a damaged journal the sound records are used; the rest is mined again.
    assert_eq!(survivors("part-00000002.journal"), 1000);
    assert!(files(&folder) == whole_bank(&info, WANTED));
}

/// A bank of three parts, the last of them short, and what opening it after a change says.
pub(super) fn error_after(change: impl FnOnce(&Path)) -> String {
    let folder = tempfile::tempdir().unwrap();
    mine_to_the_end(folder.path(), &info(false), WANTED);
    change(folder.path());
    let err = match Bank::open(folder.path()) {
        Err(err) => err,
        Ok(bank) => bank.read(0, bank.len() as usize).unwrap_err(),
    };
    plain(&err, folder.path())
}

/// An error's text with `DIR` in place of the folder.
fn plain(err: &Error, folder: &Path) -> String {
    err.to_string().replace(&*folder.to_string_lossy(), "DIR")
}

fn error_with(change: impl FnOnce(&mut BankInfo)) -> String {
    let folder = tempfile::tempdir().unwrap();
    mine_to_the_end(folder.path(), &info(false), 3);
    let mut info = info(false);
    change(&mut info);
    let err = BankWriter::open(folder.path(), info, 3).unwrap_err();
    plain(&err, folder.path())
}

pub(super) fn rewrite(folder: &Path, from: &str, to: &str) {
    let path = folder.join(DESCRIPTION);
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains(from), "{text}");
    fs::write(path, text.replace(from, to)).unwrap();
}

#[test]
fn a_bank_of_another_model_is_named_with_both() {
    let wording = "the bank `DIR` belongs to another model: it was mined with `toy` \
             (scoring hash 0123456789ab…), this is `face` (fedc)\n\
             hint: mine a new bank for this model";
    let found = error_with(|info| {
        info.model = "face".to_owned();
        info.scoring_hash = "fedc".to_owned();
    });
    assert_eq!(found, wording);
    let folder = tempfile::tempdir().unwrap();
    mine_to_the_end(folder.path(), &info(false), 3);
    let bank = Bank::open(folder.path()).unwrap();
    let labels = info(false).labels;
    let err = bank.check("face", "fedc", &labels).unwrap_err();
    assert_eq!(plain(&err, folder.path()), wording);
    bank.check("face", "0123456789abcdef", &labels).unwrap();
    bank.check_seed(7).unwrap();
}

#[test]
fn a_bank_with_other_columns_lists_both() {
    assert_eq!(
        error_with(|info| info.labels.reverse()),
        "the bank `DIR` has other columns than the model: `A`, `Bläck hair`, not \
             `Bläck hair`, `A`\nhint: mine a new bank for this model"
    );
    let conditional = |bank_info: &mut BankInfo| *bank_info = info(true);
    assert_eq!(
        error_with(conditional),
        "the bank `DIR` has other columns than the model: `A`, `Bläck hair`, not \
             `A`, `Bläck hair` and 3 classes\nhint: mine a new bank for this model"
    );
}

#[test]
fn a_bank_of_another_seed_names_both_seeds() {
    assert_eq!(
        error_with(|info| info.seed = 8),
        "the bank `DIR` was mined with seed 7, not 8\n\
             hint: use seed 7, or mine another bank"
    );
}

#[test]
fn a_bank_of_another_device_names_both_devices() {
    assert_eq!(
        error_with(|info| info.device = "cuda".to_owned()),
        "the bank `DIR` was mined on `cpu`, not on `cuda`\n\
             hint: go on with `cpu`, or mine another bank"
    );
}

#[test]
fn a_folder_that_is_missing_or_no_bank_is_named() {
    let folder = tempfile::tempdir().unwrap();
    assert!(!Bank::exists(folder.path()));
    let open = |folder: &Path| Bank::open(folder).unwrap_err().to_string();
    assert_eq!(
        plain(&Bank::open(folder.path()).unwrap_err(), folder.path()),
        "`DIR` is not a bank: it has no bank.toml"
    );
    assert_eq!(
        open(Path::new("/nowhere/bank")),
        "there is no bank `/nowhere/bank`\nhint: `s2m mine` makes one"
    );
    mine_to_the_end(folder.path(), &info(false), 0);
    assert!(Bank::exists(folder.path()));
    assert!(Bank::open(folder.path()).unwrap().is_empty());
}

#[test]
fn a_folder_with_other_files_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("thesis.tex"), "").unwrap();
    let err = BankWriter::open(folder.path(), info(false), 3).unwrap_err();
    assert_eq!(
        plain(&err, folder.path()),
        "`DIR` holds other files and no bank.toml\n\
             hint: name a new or an empty folder for the bank"
    );
    assert_eq!(files(folder.path()).len(), 1, "nothing was written");
}

#[test]
fn a_bank_is_mined_by_one_run_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let _held = BankWriter::open(folder.path(), info(false), 3).unwrap();
    let err = BankWriter::open(folder.path(), info(false), 3).unwrap_err();
    assert_eq!(
        plain(&err, folder.path()),
        format!(
            "`DIR` is in use by process {}\nhint: wait for it, or name another place",
            std::process::id()
        )
    );
    Bank::open(folder.path()).unwrap();
}

#[test]
fn a_bad_description_says_what_is_wrong() {
    let cases = [
        (
            "part = 8",
            "part = 0",
            "`part` is 0; 1 to 262144 are possible",
        ),
        (
            "format = 1",
            "format = 2",
            "format 2 is not known; this program reads format 1",
        ),
        (
            "conditional = false",
            "conditional = true",
            "`classes` is at least 1 where `conditional` is true, and left out where it is not",
        ),
        (
            "\"A\", \"Bläck hair\"",
            "",
            "a bundle needs at least one label",
        ),
    ];
    for (from, to, wording) in cases {
        let found = error_after(|folder| rewrite(folder, from, to));
        assert_eq!(found, format!("`DIR/bank.toml`: {wording}"));
    }
    let long = "x".repeat(201);
    assert_eq!(
        error_after(|folder| rewrite(folder, "cpu", &long)),
        "`DIR/bank.toml`: `device` is longer than 200 bytes"
    );
    let misspelt = error_after(|folder| rewrite(folder, "seed =", "sede ="));
    assert!(
        misspelt.starts_with("`DIR/bank.toml`: line 6: unknown field `sede`"),
        "{misspelt}"
    );
    assert_eq!(misspelt.lines().count(), 1, "{misspelt}");
    let write = |bytes: &[u8]| {
        let bytes = bytes.to_vec();
        error_after(move |folder| fs::write(folder.join(DESCRIPTION), bytes).unwrap())
    };
    assert_eq!(write(b"\xff"), "`DIR/bank.toml`: it is not UTF-8 text");
    assert_eq!(
        write(&vec![b' '; (1 << 20) + 1]),
        "`DIR/bank.toml` is larger than 1048576 bytes"
    );
}

#[test]
fn a_new_bank_with_a_bad_description_is_not_begun() {
    let folder = tempfile::tempdir().unwrap();
    let mut bad = info(false);
    bad.part = PART + 1;
    let err = BankWriter::open(folder.path(), bad, 3).unwrap_err();
    assert_eq!(
        plain(&err, folder.path()),
        "`DIR/bank.toml`: `part` is 262145; 1 to 262144 are possible"
    );
    assert!(files(folder.path()).is_empty());
}

#[test]
fn a_gap_names_the_missing_part() {
    let found = error_after(|folder| {
        fs::remove_file(folder.join("part-00000001.parquet")).unwrap();
    });
    assert_eq!(
        found,
        "the bank `DIR` has a gap: `part-00000001.parquet` is missing\n\
             hint: mine again to fill it"
    );
}

#[test]
fn proposals_beyond_the_end_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    mine_to_the_end(folder.path(), &info(false), WANTED);
    let bank = Bank::open(folder.path()).unwrap();
    let err = bank.read(20, 2).unwrap_err();
    assert_eq!(
        plain(&err, folder.path()),
        "the bank `DIR` holds 21 proposals; 2 from number 20 were asked for"
    );
    bank.read(u64::MAX, 2).unwrap_err();
}

#[test]
fn system_errors_name_the_file_and_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let err = BankWriter::open(&file.join("bank"), info(false), 3).unwrap_err();
    assert_eq!(
        plain(&err, folder.path()),
        "could not read `DIR/file/bank/bank.toml`: Not a directory (os error 20)"
    );
    let err = BankWriter::open(Path::new("/proc/bank"), info(false), 3).unwrap_err();
    assert_eq!(
        err.to_string(),
        "could not write `/proc/bank`: No such file or directory (os error 2)"
    );
    let bank = folder.path().join("bank");
    fs::create_dir_all(bank.join(DESCRIPTION)).unwrap();
    let err = Bank::open(&bank).unwrap_err();
    assert_eq!(
        plain(&err, folder.path()),
        "could not read `DIR/bank/bank.toml`: it is not a plain file"
    );
}

#[test]
fn a_failed_write_leaves_no_temporary_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("part");
    let err = write_whole(&path, |_| Err(io::Error::other("no")));
    assert_eq!(
        plain(&err.unwrap_err(), folder.path()),
        "could not write `DIR/part`: no"
    );
    assert!(files(folder.path()).is_empty());
}
