//! Draws in memory: the same samples as in a folder, streams with the law of a draw, and refusals.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use s2m::adapt::{AdaptChoice, PRIOR_SHARE, Pilot};
use s2m::mine;
use s2m::output::{Existing, csv_fields};
use s2m::progress::{Progress, Silent};
use s2m::sample::{Request, Wanted, sample};
use s2m::samplers::SamplerChoice;
use s2m::session::Machine;
use s2m::settings::SampleSettings;
use s2m::{Ask, Draw, Error, Items, Model, Samples};
use s2m_data::gaussians::modes;
use s2m_metrics::modes::nearest;
use s2m_model::bundle;
use s2m_model::manifest::LayoutName;
use s2m_model::networks::RunSettings;
use s2m_testkit::chi_square::chi_square_score;
use s2m_testkit::exact::{self, Files, ToyGenerator, ToyLabels};
use s2m_testkit::pictures::{Kind, pictures};
use tempfile::TempDir;

const SAMPLERS: [SamplerChoice; 4] = [
    SamplerChoice::Reject { tv: 0.01 },
    SamplerChoice::Mh {
        steps: NonZeroUsize::new(20).expect("20 is not zero"),
    },
    SamplerChoice::MhAuto { tv: 0.01 },
    SamplerChoice::Resample { unique: false },
];

const COLOUR: Kind = Kind {
    layout: LayoutName::Nchw,
    range: [-1.0, 1.0],
    bits: 8,
    conditional: false,
};

fn write(root: &TempDir, name: &str, files: &Files) -> PathBuf {
    let folder = root.path().join(name);
    bundle::write(&folder, files).unwrap();
    folder
}

/// Draws to a folder; gives its report and table.
fn to_folder(
    model: &Path,
    query: &str,
    settings: &SampleSettings,
    out: &Path,
) -> (serde_json::Value, Vec<Vec<String>>) {
    let request = Request {
        model,
        wanted: Wanted::Query(query),
        samples: NonZeroUsize::new(150).unwrap(),
        settings: settings.clone(),
        machine: Machine::default(),
        bank: None,
        proposal: None,
        out,
        existing: Existing::Keep,
    };
    sample(&request, &Silent).unwrap().remove(0).unwrap();
    let report = fs::read_to_string(out.join("report.json")).unwrap();
    let table = fs::read_to_string(out.join("metadata.csv")).unwrap();
    let rows = table.lines().skip(1).map(csv_fields).collect();
    (serde_json::from_str(&report).unwrap(), rows)
}

/// Compares a draw in memory with the folder of the same draw, but for the seconds.
fn compare(draw: &Draw, model: &Model, out: &Path, written: (serde_json::Value, Vec<Vec<String>>)) {
    let (mut report, rows) = written;
    let mut own = serde_json::to_value(&draw.report).unwrap();
    for report in [&mut report, &mut own] {
        report["seconds"] = 0.into();
        report["settings"]["latents"] = false.into();
    }
    assert_eq!(own, report);
    let samples = &draw.samples;
    let labels = model.labels().count();
    assert_eq!(samples.len(), rows.len());
    for (at, row) in rows.iter().enumerate() {
        let forced = samples.labels.iter().map(|held| match held {
            Some(held) => u8::from(*held).to_string(),
            None => String::new(),
        });
        let posteriors = samples.posteriors_of(at).iter().map(|p| format!("{p:.6}"));
        let told: Vec<String> = forced.chain(posteriors).collect();
        assert_eq!(told, row[1..=2 * labels], "row {at}");
        assert_eq!(samples.proposals[at].to_string(), row[2 * labels + 1]);
        assert_eq!(
            format!("{:.6}", samples.log_weights[at]),
            row[2 * labels + 2]
        );
    }
    match &samples.items {
        Items::Points(points) => {
            let bytes = fs::read(out.join("samples.npy")).unwrap();
            let own: Vec<u8> = points.iter().flat_map(|v| v.to_le_bytes()).collect();
            assert_eq!(bytes[bytes.len() - own.len()..], own);
        }
        Items::Pictures8(levels) => {
            let size: usize = samples.shape.iter().product();
            for (row, own) in rows.iter().zip(levels.chunks_exact(size)) {
                let file = fs::File::open(out.join(&row[0])).unwrap();
                let mut decoder = png::Decoder::new(std::io::BufReader::new(file))
                    .read_info()
                    .unwrap();
                let mut pixels = vec![0; decoder.output_buffer_size().unwrap()];
                decoder.next_frame(&mut pixels).unwrap();
                assert_eq!(pixels, own);
            }
        }
        Items::Pictures16(_) => panic!("pictures of 8 bits were expected"),
    }
}

/// All files under a folder but the report, by name.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(inner) = folders.pop() {
        for entry in fs::read_dir(inner).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if !path.ends_with("report.json") {
                let name = path.strip_prefix(folder).unwrap().to_owned();
                found.insert(name, fs::read(&path).unwrap());
            }
        }
    }
    found
}

/// Saves a draw and compares it with the folder of the same draw, byte for byte but for the report, which has other
/// seconds.
fn compare_saved(draw: &Draw, model: &Model, out: &Path) {
    let saved = out.with_extension("saved");
    draw.save(model, &saved, Existing::Keep).unwrap();
    let mut written = files(out);
    // What a search found is not part of a draw in memory.
    written.retain(|name, _| !name.starts_with("proposal"));
    assert_eq!(
        files(&saved).keys().collect::<Vec<_>>(),
        written.keys().collect::<Vec<_>>()
    );
    assert!(files(&saved) == written, "{}", out.display());
    let report = fs::read_to_string(saved.join("report.json")).unwrap();
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report, serde_json::to_value(&draw.report).unwrap());
    let again = draw.save(model, &saved, Existing::Keep).unwrap_err();
    let occupied = |error: &s2m_model::Error| error.kind() == s2m_model::Kind::Place;
    assert!(
        matches!(&again, Error::Model(error) if occupied(error)),
        "{again}"
    );
    draw.save(model, &saved, Existing::Replace).unwrap();
}

#[test]
fn an_adapted_draw_is_saved_with_its_stages() {
    let root = TempDir::new().unwrap();
    let folder = write(&root, "model.s2m", &exact::gaussians_exact());
    let count = |number| NonZeroUsize::new(number).unwrap();
    let once = AdaptChoice::Once {
        pilot: Pilot {
            pilots: count(1000),
            steps: count(20),
            components: count(4),
        },
        prior_share: PRIOR_SHARE,
    };
    for (at, sampler) in SAMPLERS.into_iter().enumerate() {
        let settings = SampleSettings {
            seed: Some(5),
            sampler,
            adapt: once.clone(),
            ..SampleSettings::default()
        };
        let out = root.path().join(format!("out-{at}"));
        let written = to_folder(&folder, "A - B", &settings, &out);
        let model = Model::open(&folder).unwrap();
        let draw = model.query("A - B").unwrap().with_settings(settings);
        let draw = draw.draw(150).unwrap();
        assert_eq!(draw.samples.stages.len(), 150);
        compare(&draw, &model, &out, written);
        compare_saved(&draw, &model, &out);
    }
}

#[test]
fn a_draw_is_not_saved_as_that_of_another_model() {
    let root = TempDir::new().unwrap();
    let model = Model::open("gaussians-exact").unwrap();
    let draw = model.query("A").unwrap().draw(5).unwrap();
    let out = root.path().join("out");
    let other = Model::open("mnist-even").unwrap();
    let error = draw.save(&other, &out, Existing::Keep).unwrap_err();
    assert_eq!(
        error.to_string(),
        "these samples are of another model than `mnist-even`"
    );
    assert!(!out.exists());
}

/// Waits for so many steps.
struct Impatient(AtomicUsize);

impl Progress for Impatient {
    fn stopped(&self) -> bool {
        self.0.fetch_sub(1, Ordering::Relaxed) <= 1
    }
}

#[test]
fn work_ends_where_nobody_waits_for_it_any_longer() {
    let root = TempDir::new().unwrap();
    let model = Model::open("mnist-even").unwrap();
    let ask = model.query("A - B").unwrap();
    for steps in 1..=2 {
        let stopped = ask.draw_with(3000, &Impatient(AtomicUsize::new(steps)));
        assert!(matches!(stopped, Err(Error::Stopped)));
    }
    let patience = AtomicUsize::new(usize::MAX);
    ask.draw_with(10, &Impatient(patience)).unwrap();
    let stream = ask.stream_with(8, &Impatient(AtomicUsize::new(1)));
    assert!(matches!(stream, Err(Error::Stopped)));
    let mut stream = ask.stream(5000).unwrap();
    let stopped = stream.next_with(&Impatient(AtomicUsize::new(1)));
    assert!(matches!(stopped, Some(Err(Error::Stopped))));
    assert!(stream.next().is_none());
    let request = mine::Request {
        model: Path::new("mnist-even"),
        proposals: NonZeroUsize::new(100_000).unwrap(),
        piece: mine::Piece::default(),
        seed: 0,
        machine: Machine::default(),
        out: &root.path().join("bank"),
    };
    let stopped = mine::mine(&request, &Impatient(AtomicUsize::new(1)));
    assert!(matches!(stopped, Err(Error::Stopped)));
}

#[test]
fn a_draw_in_memory_is_the_draw_to_a_folder() {
    let root = TempDir::new().unwrap();
    let cases = [
        (
            exact::toy(ToyLabels::OneOf, ToyGenerator::Plain),
            AdaptChoice::None,
        ),
        (
            exact::toy(ToyLabels::PerClass, ToyGenerator::Conditional),
            AdaptChoice::None,
        ),
        (exact::gaussians_exact(), AdaptChoice::adaptive()),
        (pictures(COLOUR), AdaptChoice::None),
    ];
    for (case, (files, adapt)) in cases.into_iter().enumerate() {
        let folder = write(&root, &format!("model-{case}.s2m"), &files);
        for (at, sampler) in SAMPLERS.into_iter().enumerate() {
            let settings = SampleSettings {
                seed: Some(5),
                sampler,
                adapt: adapt.clone(),
                ..SampleSettings::default()
            };
            let out = root.path().join(format!("out-{case}-{at}"));
            let written = to_folder(&folder, "A", &settings, &out);
            let model = Model::open(&folder).unwrap();
            let ask = model.query("A").unwrap().with_settings(settings);
            let draw = ask.draw(150).unwrap();
            compare(&draw, &model, &out, written);
            compare_saved(&draw, &model, &out);
        }
    }
}

fn toy() -> Model {
    let files = exact::gaussians_exact();
    let files: Vec<(&str, &[u8])> = files
        .iter()
        .map(|(name, bytes)| (name.as_str(), bytes.as_slice()))
        .collect();
    Model::from_files(&files).unwrap()
}

fn taken(ask: &Ask, batch: usize, batches: usize) -> Vec<Samples> {
    let stream = ask.stream(batch).unwrap();
    stream.take(batches).collect::<Result<_, _>>().unwrap()
}

/// Batches only cut the stream, a bank only spares calls, and `reject` at the same cap keeps the same proposals.
#[test]
fn a_stream_is_the_same_whatever_the_batches_and_the_bank() {
    let root = TempDir::new().unwrap();
    let model = toy();
    let folder = write(&root, "model.s2m", &exact::gaussians_exact());
    let bank = root.path().join("bank");
    let request = mine::Request {
        model: &folder,
        proposals: NonZeroUsize::new(700).unwrap(),
        piece: mine::Piece::default(),
        seed: 3,
        machine: Machine::default(),
        out: &bank,
    };
    mine::mine(&request, &Silent).unwrap();
    for sampler in &SAMPLERS[..2] {
        let ask = model.query("A - B").unwrap().seed(3).sampler(*sampler);
        let numbers = |batches: &[Samples]| -> Vec<u64> {
            let all = batches.iter().flat_map(|batch| &batch.proposals);
            all.copied().collect()
        };
        let small = numbers(&taken(&ask, 50, 20));
        let large = taken(&ask, 250, 4);
        assert_eq!(small, numbers(&large));
        let from_bank = Model::open(&folder).unwrap().query("A - B").unwrap();
        let from_bank = from_bank.sampler(*sampler).bank(&bank);
        assert_eq!(small, numbers(&taken(&from_bank, 100, 10)));
        // The short draw's samples come first, and all that is known about them is the same.
        let drawn = ask.draw(256).unwrap();
        assert_eq!(small[..256], drawn.samples.proposals);
        assert_eq!(large[0].log_weights, drawn.samples.log_weights[..250]);
        assert_eq!(large[0].posteriors[..500], drawn.samples.posteriors[..500]);
    }
}

/// A round of the networks that is larger than what a stream looks at together is no fault.
#[test]
fn a_stream_takes_networks_of_any_batch() {
    let run = RunSettings {
        batch: NonZeroUsize::new(20_000),
        ..RunSettings::default()
    };
    let large = toy().on(run).query("A").unwrap();
    let small = toy().query("A").unwrap();
    assert_eq!(taken(&large, 10, 40), taken(&small, 10, 40));
}

/// All modes of the query are equally likely in a stream.
#[test]
fn a_stream_has_the_law_of_the_target() {
    let all = modes();
    let centres: Vec<[f64; 2]> = all.iter().map(|mode| mode.centre).collect();
    for (at, sampler) in SAMPLERS[..3].iter().enumerate() {
        let ask = toy()
            .query("A")
            .unwrap()
            .seed(40 + at as u64)
            .sampler(*sampler);
        let mut counts = vec![0; all.len()];
        for batch in taken(&ask, 200, 15) {
            for point in batch.items.to_floats().chunks_exact(2) {
                counts[nearest(&centres, point).0] += 1;
            }
        }
        let inside = (0..all.len()).filter(|&mode| all[mode].labels.contains(0));
        let inside: Vec<usize> = inside.map(|mode| counts[mode]).collect();
        let outside = 3000 - inside.iter().sum::<usize>();
        assert!(outside <= 30, "{sampler:?}: {outside} outside");
        let even = vec![1.0 / inside.len() as f64; inside.len()];
        let score = chi_square_score(&inside, &even);
        // Three draws with fixed seeds; 3.7 is exceeded once in 1e4.
        assert!(score < 3.7, "{sampler:?}: {score:.2} {inside:?}");
    }
}

#[test]
fn what_cannot_be_drawn_is_refused_in_words() {
    let model = toy();
    let ask = || model.query("A - B").unwrap();
    let text = |result: Result<Draw, Error>| result.unwrap_err().to_string();
    assert_eq!(
        text(ask().draw(0)),
        "no samples were asked for; it must be at least 1"
    );
    let refused = ask().max_calls(2000).draw(1000).unwrap_err();
    assert!(
        matches!(&refused, Error::Refused(refusal) if refusal.query == "A - B"),
        "{refused}"
    );
    let told = |ask: Ask, batch| ask.stream(batch).err().unwrap().to_string();
    assert_eq!(
        told(ask(), 0),
        "batches of no samples were asked for; it must be at least 1"
    );
    let resample = SamplerChoice::Resample { unique: false };
    assert!(told(ask().sampler(resample), 8).starts_with("`resample` draws out of one pool"));
    assert!(
        model
            .query("A + D")
            .unwrap_err()
            .to_string()
            .contains("`D`")
    );
    // All calls are for the whole stream; it ends with the reason, once.
    let mut stream = ask().max_calls(3000).stream(200).unwrap();
    let full = stream.by_ref().take_while(Result::is_ok).count();
    assert!((1..15).contains(&full), "{full} batches");
    assert!(stream.next().is_none());
}

/// Proposals that are there already change nothing but the time.
#[test]
fn scored_proposals_give_the_samples_of_a_draw_of_its_own() {
    let model = toy();
    let mut scored = model.scored(9).unwrap();
    for query in ["A - B", "A | B", "A - B"] {
        let ask = model.query(query).unwrap();
        let shared = ask.draw_from(&mut scored, 200, &Silent).unwrap();
        let own = ask.clone().seed(9).draw(200).unwrap();
        assert_eq!(shared.samples, own.samples, "{query}");
        assert_eq!(shared.report.seed, 9);
        assert_eq!(shared.report.tv_estimate, own.report.tv_estimate);
        assert_eq!(shared.report.generator_calls, own.report.generator_calls);
    }
    let first = scored.generated(3, &Silent).unwrap().to_floats();
    assert_eq!(first.len(), 6);
    let drawn = model
        .query("A | B")
        .unwrap()
        .seed(9)
        .floor(0.0)
        .draw(50)
        .unwrap();
    let at = drawn.samples.proposals.iter().position(|&k| k < 3).unwrap();
    let number = 2 * drawn.samples.proposals[at] as usize;
    let floats = drawn.samples.items.to_floats();
    assert_eq!(first[number..number + 2], floats[2 * at..2 * at + 2]);
    let other = Model::open("gaussians").unwrap().query("A").unwrap();
    let told = other.draw_from(&mut scored, 5, &Silent).unwrap_err();
    assert!(
        told.to_string()
            .starts_with("scored proposals are the prior's"),
        "{told}"
    );
    let adapted = model.query("A").unwrap().adapt(AdaptChoice::adaptive());
    assert!(adapted.draw_from(&mut scored, 5, &Silent).is_err());
}

#[test]
fn everything_that_is_asked_can_cross_threads() {
    fn crosses<T: Send>() {}
    fn is_shared<T: Send + Sync>() {}
    is_shared::<Model>();
    is_shared::<Ask>();
    is_shared::<Draw>();
    crosses::<s2m::Stream>();
    crosses::<s2m::Selected>();
}
