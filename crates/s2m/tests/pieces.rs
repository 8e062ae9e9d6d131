//! Pieces of a bank, mined apart and joined: the bytes of one that was mined at once, or a refusal in words.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use s2m::Model;
use s2m::mine::{Piece, Request, mine};
use s2m::output::Existing;
use s2m::progress::Silent;
use s2m::session::Machine;
use s2m_model::bank::{Bank, extend, extend_while, join, join_while};
use tempfile::TempDir;

const MODELS: [&str; 3] = ["gaussians-exact", "mnist-even", "mnist-even-conditional"];
const PART: u64 = 1000;

struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn mine(&self, model: &str, (first, end): (u64, usize), name: &str) -> PathBuf {
        let out = self.path(name);
        Self::mine_with(model, 5, (PART, first, end), &out)
    }

    fn mine_with(
        model: &str,
        seed: u64,
        (part, first, end): (u64, u64, usize),
        out: &Path,
    ) -> PathBuf {
        let request = Request {
            model: Path::new(model),
            proposals: NonZeroUsize::new(end).unwrap(),
            piece: Piece { first, part },
            seed,
            machine: Machine::default(),
            out,
        };
        mine(&request, &Silent).unwrap();
        out.to_owned()
    }

    /// What joining these ends with, without the folder in front of names.
    fn refused(&self, pieces: &[PathBuf]) -> String {
        let out = self.path("refused");
        let error = join(pieces, &out, Existing::Keep).unwrap_err();
        assert!(!out.exists());
        let folder = self.0.path().display().to_string();
        error.to_string().replace(&format!("{folder}/"), "")
    }
}

/// Files of a bank, without its lock.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let named = entries.map(|entry| (entry.file_name().into_string().unwrap(), entry.path()));
    named
        .filter(|(name, _)| name != "mine.lock")
        .map(|(name, path)| (name, fs::read(path).unwrap()))
        .collect()
}

#[test]
fn pieces_in_any_order_make_the_bank_of_one_run() {
    for model in MODELS {
        let place = Place::new();
        let whole = place.mine(model, (0, 4320), "whole");
        let pieces = [
            place.mine(model, (3000, 4320), "c"),
            place.mine(model, (0, 2000), "a"),
            place.mine(model, (2000, 3000), "b"),
        ];
        let out = place.path("joined");
        let joined = join(&pieces, &out, Existing::Keep).unwrap();
        assert_eq!(
            (joined.pieces, joined.parts, joined.proposals),
            (3, 5, 4320)
        );
        assert!(files(&out) == files(&whole), "{model}");
        let query = |bank: &Path| {
            let ask = Model::open(model).unwrap().query("A - B").unwrap();
            ask.bank(bank).draw(100).unwrap().samples
        };
        assert_eq!(query(&out), query(&whole));
        // A joined bank is a bank: it can be mined on.
        let longer = place.mine(model, (0, 5500), "longer");
        place.mine(model, (0, 5500), "joined");
        assert!(files(&out) == files(&longer), "{model}");
    }
}

/// More pieces than a command line takes lie in one folder.
#[test]
fn a_folder_of_pieces_stands_for_all_of_them() {
    let place = Place::new();
    let model = "gaussians-exact";
    let whole = place.mine(model, (0, 4320), "whole");
    for (range, name) in [
        ((3000, 4320), "pieces/c"),
        ((0, 2000), "pieces/a"),
        ((2000, 3000), "pieces/b"),
    ] {
        place.mine(model, range, name);
    }
    std::fs::create_dir(place.path("pieces/notes")).unwrap();
    let (pieces, out) = (place.path("pieces"), place.path("joined"));
    let joined = join(std::slice::from_ref(&pieces), &out, Existing::Keep).unwrap();
    assert_eq!((joined.pieces, joined.proposals), (3, 4320));
    assert!(files(&out) == files(&whole));
    let none = join(&[place.path("pieces/notes")], &out, Existing::Replace);
    let none = none.unwrap_err().to_string();
    assert!(none.contains("is not a bank"), "{none}");
}

/// At every moment of it, and nothing is left but what was there.
#[test]
fn joining_can_be_stopped() {
    let place = Place::new();
    let model = "gaussians-exact";
    let bank = place.mine(model, (0, 2000), "bank");
    place.mine(model, (2000, 3000), "pieces/b");
    place.mine(model, (0, 2000), "pieces/a");
    let (pieces, out) = ([place.path("pieces")], place.path("joined"));
    let before = files(&bank);
    for looks in 0_u32.. {
        let left = std::cell::Cell::new(looks);
        let goes_on = |_| left.replace(left.get().saturating_sub(1)) > 0;
        match join_while(&pieces, &out, Existing::Keep, &goes_on) {
            Ok(_) => break,
            Err(error) => assert_eq!(error.to_string(), "stopped before the end"),
        }
        assert!(!out.exists(), "after {looks} looks");
    }
    assert!(out.exists());
    let more = [place.path("pieces/b")];
    let stopped = extend_while(&bank, &more, &|_| false).unwrap_err();
    assert_eq!(stopped.to_string(), "stopped before the end");
    assert!(files(&bank) == before);
}

/// Also where the bank ends inside a part, which the piece has whole.
#[test]
fn a_bank_is_extended_by_pieces() {
    let place = Place::new();
    let model = "gaussians-exact";
    let bank = place.mine(model, (0, 2304), "bank");
    let pieces = [
        place.mine(model, (3000, 4320), "b"),
        place.mine(model, (2000, 3000), "a"),
    ];
    let early = extend(&bank, &pieces[..1]).unwrap_err().to_string();
    assert!(
        early.starts_with("proposals 2000 to 2999 are in no piece"),
        "{early}"
    );
    let extended = extend(&bank, &pieces).unwrap();
    assert_eq!(
        (extended.pieces, extended.parts, extended.proposals),
        (2, 3, 4320)
    );
    let whole = place.mine(model, (0, 4320), "whole");
    assert!(files(&bank) == files(&whole));
    let other = Place::mine_with(model, 6, (PART, 4000, 5000), &place.path("seed"));
    extend(&bank, &[other]).unwrap_err();
    assert!(files(&bank) == files(&whole));
}

/// A piece that was stopped goes on, and a longer range extends it.
#[test]
fn a_piece_goes_on_where_it_was() {
    let place = Place::new();
    place.mine("gaussians-exact", (1000, 1504), "piece");
    place.mine("gaussians-exact", (1000, 2300), "piece");
    let at_once = place.mine("gaussians-exact", (1000, 2300), "at-once");
    assert!(files(&place.path("piece")) == files(&at_once));
}

#[test]
fn what_does_not_fit_is_refused_in_words() {
    let place = Place::new();
    let model = "gaussians-exact";
    let first = place.mine(model, (0, 1000), "first");
    let second = place.mine(model, (1000, 2000), "second");
    let short = place.mine(model, (1000, 1700), "short");
    let third = place.mine(model, (2000, 2500), "third");
    assert_eq!(
        place.refused(&[first.clone(), third.clone()]),
        "proposals 1000 to 1999 are in no piece: `first` ends there\nhint: `s2m mine` with `range = 1000..2000` mines them"
    );
    assert_eq!(
        place.refused(&[first.clone(), short, third.clone()]),
        "proposals 1700 to 1999 are in no piece: `short` ends there\nhint: `s2m mine` with `range = 1700..2000` mines them"
    );
    assert_eq!(
        place.refused(&[second.clone(), third]),
        "proposals 0 to 999 are in no piece: no piece begins at 0\nhint: `s2m mine` with `range = 0..1000` mines them"
    );
    let both = place.mine(model, (0, 2000), "both");
    assert_eq!(
        place.refused(&[second.clone(), both]),
        "proposals from 1000 on are in `both` and in `second`\nhint: leave one of them out"
    );
    let other = Place::mine_with(model, 6, (PART, 1000, 2000), &place.path("seed"));
    assert_eq!(
        place.refused(&[first.clone(), other]),
        "the bank `seed` was mined with seed 6, not 5\nhint: use seed 6, or mine another bank"
    );
    let other = Place::mine_with(model, 5, (500, 1000, 2000), &place.path("part"));
    assert_eq!(
        place.refused(&[first.clone(), other]),
        "`part` has parts of 500 proposals, `first` of 1000\nhint: mine all pieces with the same part"
    );
    let other = place.mine("gaussians", (1000, 2000), "model");
    let error = place.refused(&[first.clone(), other]);
    assert!(
        error.starts_with("the bank `model` belongs to another model"),
        "{error}"
    );
    assert_eq!(
        place.refused(&[first.clone(), place.path("nowhere")]),
        "there is no bank `nowhere`\nhint: `s2m mine` makes one"
    );
    fs::remove_file(place.path("both/part-00000000.parquet")).unwrap();
    let error = place.refused(&[place.path("both")]);
    assert!(
        error.contains("has a gap: `part-00000000.parquet` is missing"),
        "{error}"
    );
    let error = Bank::open(&second).unwrap_err().to_string();
    assert!(
        error.ends_with("is a piece of a bank, which begins at proposal 1000\nhint: `s2m bank join` makes a bank of all pieces"),
        "{error}"
    );
    join(
        &[first.clone(), second],
        &place.path("bank"),
        Existing::Keep,
    )
    .unwrap();
    let again = join(&[first], &place.path("bank"), Existing::Keep).unwrap_err();
    assert!(again.to_string().contains("bank"), "{again}");
}

#[test]
fn a_piece_begins_with_a_part_and_holds_something() {
    let place = Place::new();
    let refused = |first, end| {
        let request = Request {
            model: Path::new("gaussians-exact"),
            proposals: NonZeroUsize::new(end).unwrap(),
            piece: Piece { first, part: PART },
            seed: 5,
            machine: Machine::default(),
            out: &place.path("piece"),
        };
        mine(&request, &Silent).unwrap_err().to_string()
    };
    let error = refused(500, 2000);
    assert!(
        error.ends_with(
            "it begins at proposal 500; a piece begins at a multiple of its part, which is 1000"
        ),
        "{error}"
    );
    assert_eq!(
        refused(2000, 2000),
        "the range 2000..2000 holds no proposal"
    );
    assert!(!place.path("piece").exists());
}
