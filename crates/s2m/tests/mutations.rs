//! Files that were damaged at random: bundles, banks, proposals, journals, recipes, pictures and arrays.
//! Whatever is in them, reading ends, with an error or with a value: no panic, no hang, and nothing is
//! written.
//!
//! `make fuzz` tries more of them: `S2M_FUZZ_CASES` of each kind, from the seed `S2M_FUZZ_SEED` on.

use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;

use s2m::adapt::{self, AdaptChoice, PRIOR_SHARE, Pilot, Stored};
use s2m::mine::{self, mine};
use s2m::output::Existing;
use s2m::progress::Silent;
use s2m::session::Machine;
use s2m::settings::SampleSettings;
use s2m_data::recipe::DataRecipe;
use s2m_data::{npy, picture_file};
use s2m_model::bank::Bank;
use s2m_model::bundle::{self, Bundle, sha256};
use s2m_model::journal::Journal;
use s2m_model::logits::RowShape;
use s2m_show::picture::Picture;
use s2m_testkit::damage::survive;
use s2m_testkit::exact;

#[test]
fn damaged_bundles() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("toy.s2m");
    bundle::write(&folder, &exact::gaussians_exact()).unwrap();
    survive("bundle", &folder, "model.toml", &|folder| {
        Bundle::open(folder).is_ok()
    });
    // With a hash that fits, so that the file itself is looked at.
    let manifest = fs::read_to_string(folder.join("model.toml")).unwrap();
    for file in ["generator.onnx", "classifier.onnx"] {
        let old = sha256(&fs::read(folder.join(file)).unwrap());
        survive("bundle", &folder, file, &|folder| {
            let network = fs::read(folder.join(file)).unwrap();
            let manifest = manifest.replace(&old, &sha256(&network));
            let files = ["generator.onnx", "classifier.onnx"];
            let files = files.map(|name| (name, fs::read(folder.join(name)).unwrap()));
            let mut all: Vec<(&str, &[u8])> = vec![("model.toml", manifest.as_bytes())];
            all.extend(files.iter().map(|(name, bytes)| (*name, bytes.as_slice())));
            Bundle::from_files(&all).is_ok()
        });
    }
}

#[test]
fn damaged_banks() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("bank");
    let asked = mine::Request {
        model: Path::new("gaussians-exact"),
        proposals: NonZeroUsize::new(300).unwrap(),
        piece: mine::Piece::default(),
        seed: 0,
        machine: Machine::default(),
        out: &folder,
    };
    mine(&asked, &Silent).unwrap();
    let sound = Bank::open(&folder).unwrap().read(0, 300).unwrap();
    for file in ["bank.toml", "part-00000000.parquet"] {
        survive("bank", &folder, file, &|folder| {
            let Ok(bank) = Bank::open(folder) else {
                return false;
            };
            let rows = bank.read(0, bank.len() as usize);
            if let Ok(rows) = &rows {
                // What can be read is what was written.
                assert!(rows == &sound, "other numbers");
            }
            rows.is_ok()
        });
    }
}

#[test]
fn damaged_proposals() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("proposal");
    let count = |value| NonZeroUsize::new(value).unwrap();
    let pilot = Pilot {
        pilots: count(300),
        steps: count(10),
        components: count(2),
    };
    let asked = adapt::Request {
        model: Path::new("gaussians-exact"),
        query: "A - B",
        samples: count(100),
        settings: SampleSettings {
            adapt: AdaptChoice::Once {
                pilot,
                prior_share: PRIOR_SHARE,
            },
            ..SampleSettings::default()
        },
        machine: Machine::default(),
        out: &folder,
        existing: Existing::Keep,
    };
    let kept = adapt::adapt(&asked, &Silent).unwrap();
    assert!(kept.mixture.is_some());
    let bundle = exact::open(&exact::gaussians_exact());
    for file in adapt::FILES {
        survive("proposal", &folder, file, &|folder| {
            Stored::open(folder, &bundle).is_ok()
        });
    }
}

#[test]
fn damaged_journals() {
    const SHAPE: RowShape = RowShape {
        labels: 2,
        conditional: false,
        joint: 0,
        members: 0,
    };
    let root = tempfile::tempdir().unwrap();
    let (mut journal, _) = Journal::open(&root.path().join("a.journal"), "x", SHAPE).unwrap();
    for first in 0..20_u8 {
        journal.append(&[f32::from(first); 9]).unwrap();
    }
    drop(journal);
    let work = tempfile::tempdir().unwrap();
    survive("journal", root.path(), "a.journal", &|folder| {
        // Opening cuts a damaged tail, so a copy is opened.
        let copy = work.path().join("a.journal");
        fs::copy(folder.join("a.journal"), &copy).unwrap();
        let (_, rows) = Journal::open(&copy, "x", SHAPE).unwrap();
        // Records before the damage are as they were written.
        for (row, values) in rows.values().chunks(9).enumerate() {
            assert!(
                values.iter().all(|value| *value == row as f32),
                "other numbers"
            );
        }
        rows.len() == 60
    });
}

#[test]
fn damaged_recipes() {
    let root = tempfile::tempdir().unwrap();
    let text = "name = \"gaussians\"\nseed = 3\nvalidation = 0.5\nlabelling = { model = \"one-of\", weights = [1.0, 2.0] }\nsource = { format = \"gaussians\", items = 2000 }\n";
    fs::write(root.path().join("data.toml"), text).unwrap();
    survive("recipe", root.path(), "data.toml", &|folder| {
        let bytes = fs::read(folder.join("data.toml")).unwrap();
        str::from_utf8(&bytes).is_ok_and(|text| toml::from_str::<DataRecipe>(text).is_ok())
    });
}

#[test]
fn damaged_pictures_and_arrays() {
    let root = tempfile::tempdir().unwrap();
    for (bits, channels) in [(8, 3), (1, 1), (16, 4)] {
        let name = format!("{bits}-{channels}.png");
        let picture = Picture {
            width: 20,
            height: 14,
            channels,
            bits,
            levels: (0..20 * 14 * u16::from(channels))
                .map(|level| level % 2)
                .collect(),
        };
        fs::write(root.path().join(&name), picture.to_png().unwrap()).unwrap();
        survive("picture", root.path(), &name, &|folder| {
            picture_file::read(&folder.join(&name)).is_ok()
        });
    }
    let mut array = s2m::output::NpyWriter::create(root.path().join("a.npy"), &[20, 3]).unwrap();
    array.append(&[0.5; 60]).unwrap();
    array.finish().unwrap();
    survive("array", root.path(), "a.npy", &|folder| {
        npy::read(&folder.join("a.npy"), None).is_ok()
    });
}
