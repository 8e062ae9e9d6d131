//! Adapted proposals against known truth, and what is refused.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::HashSet;
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use s2m::adapt::{self, AdaptChoice, PRIOR_SHARE, Pilot};
use s2m::output::Existing;
use s2m::progress::Silent;
use s2m::report::Report;
use s2m::sample::{Request, Wanted, sample};
use s2m::samplers::SamplerChoice;
use s2m::session::Machine;
use s2m::settings::{DEFAULT_TV, SampleSettings};
use s2m_data::gaussians::modes;
use s2m_metrics::modes::nearest;
use s2m_model::bundle;
use s2m_model::networks::RunSettings;
use s2m_testkit::chi_square::chi_square_score;
use s2m_testkit::exact::{self, ToyGenerator, ToyLabels};
use s2m_testkit::linear::linear;
use tempfile::TempDir;

const SAMPLES: usize = 6000;

/// Stage of the proposals that are sampled.
const FRESH: &str = "65";

fn count(n: usize) -> NonZeroUsize {
    NonZeroUsize::new(n).unwrap()
}

fn pilot(pilots: usize, steps: usize, components: usize) -> Pilot {
    Pilot {
        pilots: count(pilots),
        steps: count(steps),
        components: count(components),
    }
}

fn once() -> AdaptChoice {
    AdaptChoice::Once {
        pilot: pilot(1000, 20, 4),
        prior_share: PRIOR_SHARE,
    }
}

fn repeat(order: Option<&[&str]>) -> AdaptChoice {
    AdaptChoice::Repeat {
        pilot: pilot(1000, 20, 4),
        order: order.map(|names| names.iter().map(|&n| n.to_owned()).collect()),
        prior_share: PRIOR_SHARE,
    }
}

fn request<'a>(model: &'a Path, query: &'a str, out: &'a Path, adapt: AdaptChoice) -> Request<'a> {
    Request {
        model,
        wanted: Wanted::Query(query),
        samples: count(SAMPLES),
        settings: SampleSettings {
            seed: Some(3),
            adapt,
            ..SampleSettings::default()
        },
        machine: Machine::default(),
        bank: None,
        proposal: None,
        out,
        existing: Existing::Keep,
    }
}

fn drawn(request: &Request<'_>) -> Report {
    let mut answers = sample(request, &Silent).unwrap();
    answers.remove(0).unwrap()
}

/// A proposal for "A - B", kept in a folder.
fn keep(model: &Path, samples: usize, adapt: AdaptChoice, out: &Path) -> adapt::Stored {
    let asked = adapt::Request {
        model,
        query: "A - B",
        samples: count(samples),
        settings: SampleSettings {
            seed: Some(3),
            adapt,
            ..SampleSettings::default()
        },
        machine: Machine::default(),
        out,
        existing: Existing::Keep,
    };
    adapt::adapt(&asked, &Silent).unwrap()
}

fn written(files: &[(String, Vec<u8>)], root: &TempDir) -> PathBuf {
    let folder = root.path().join("toy.s2m");
    bundle::write(&folder, files).unwrap();
    folder
}

/// The points of a run, `size` numbers each.
fn points(out: &Path, size: usize) -> Vec<Vec<f32>> {
    let bytes = fs::read(out.join("samples.npy")).unwrap();
    let start = bytes.len() - 4 * SAMPLES * size;
    let numbers = bytes[start..].as_chunks::<4>().0.iter();
    let numbers: Vec<f32> = numbers.map(|b| f32::from_le_bytes(*b)).collect();
    numbers.chunks_exact(size).map(<[f32]>::to_vec).collect()
}

/// Columns `stage` and `proposal` of a run's table.
fn origins(out: &Path) -> Vec<(String, String)> {
    let table = fs::read_to_string(out.join("metadata.csv")).unwrap();
    let header: Vec<&str> = table.lines().next().unwrap().split(',').collect();
    let column = |name: &str| header.iter().position(|h| *h == name).unwrap();
    let (stage, proposal) = (column("stage"), column("proposal"));
    let rows = table
        .lines()
        .skip(1)
        .map(|row| row.split(',').collect::<Vec<_>>());
    rows.map(|row| (row[stage].to_owned(), row[proposal].to_owned()))
        .collect()
}

/// How far counts on the modes of "A - B" (all alike) are from even, in standard deviations.
fn unevenness(out: &Path) -> f64 {
    let all = modes();
    let wanted: Vec<usize> = (0..all.len())
        .filter(|&m| all[m].labels.contains(0) && !all[m].labels.contains(1))
        .collect();
    let centres: Vec<[f64; 2]> = all.iter().map(|mode| mode.centre).collect();
    let mut counts = vec![0; wanted.len()];
    for point in points(out, 2) {
        let (mode, _) = nearest(&centres, &point);
        let at = wanted.iter().position(|&m| m == mode);
        counts[at.expect("a sample of another class")] += 1;
    }
    let share = vec![1.0 / wanted.len() as f64; wanted.len()];
    chi_square_score(&counts, &share)
}

#[test]
fn every_way_and_sampler_draws_the_exact_target() {
    let root = tempfile::tempdir().unwrap();
    let samplers = [
        SamplerChoice::Reject { tv: DEFAULT_TV },
        SamplerChoice::Mh { steps: count(40) },
        SamplerChoice::Resample { unique: false },
    ];
    for generator in [ToyGenerator::Plain, ToyGenerator::Conditional] {
        let model = written(&exact::toy(ToyLabels::PerClass, generator), &root);
        for adapt in [once(), repeat(None), AdaptChoice::adaptive()] {
            for sampler in samplers {
                let out = root.path().join("out");
                let _ = fs::remove_dir_all(&out);
                let name = format!("{generator:?}, {}, {}", adapt.name(), sampler.name());
                let mut asked = request(&model, "A - B", &out, adapt.clone());
                asked.settings.sampler = sampler;
                let report = drawn(&asked);
                let record = report.adaptation.as_ref().unwrap();
                assert_eq!(record.method, adapt.name());
                assert!(report.generator_calls >= record.calls, "{name}");
                assert!(record.warnings().is_empty(), "{name}");
                let score = unevenness(&out);
                assert!(score < 5.0, "{name}: {score} standard deviations off");
            }
        }
    }
}

#[test]
fn chains_and_rejection_draw_fresh_proposals_and_resampling_uses_old_ones_too() {
    let root = tempfile::tempdir().unwrap();
    let model = written(&exact::gaussians_exact(), &root);
    let stages = |sampler| {
        let out = root.path().join("out");
        let _ = fs::remove_dir_all(&out);
        let mut asked = request(&model, "A - B", &out, AdaptChoice::adaptive());
        asked.settings.sampler = sampler;
        drawn(&asked);
        origins(&out)
            .into_iter()
            .map(|(stage, _)| stage)
            .collect::<HashSet<_>>()
    };
    let fresh = HashSet::from([FRESH.to_owned()]);
    assert_eq!(stages(SamplerChoice::Reject { tv: DEFAULT_TV }), fresh);
    assert_eq!(stages(SamplerChoice::Mh { steps: count(20) }), fresh);
    let resampled = stages(SamplerChoice::Resample { unique: false });
    assert!(
        resampled.contains("0") && resampled.contains("1"),
        "{resampled:?}"
    );
}

#[test]
fn threads_and_batches_change_no_byte() {
    let root = tempfile::tempdir().unwrap();
    let model = written(&exact::gaussians_exact(), &root);
    let mut first = None;
    for (at, (threads, batch)) in [(1, 1000), (2, 7), (2, 512)].into_iter().enumerate() {
        let out = root.path().join(format!("out{at}"));
        let machine = Machine {
            run: RunSettings {
                threads: count(threads),
                batch: Some(count(batch)),
                ..RunSettings::default()
            },
            onnxruntime: None,
        };
        let mut asked = request(&model, "A - B", &out, AdaptChoice::adaptive());
        asked.settings.latents = true;
        asked.machine = machine;
        drawn(&asked);
        let found = s2m_testkit::folder::contents(&out, &["seconds"]);
        assert!(found.iter().any(|(name, _)| name.ends_with("mixture.bin")));
        let expected = first.get_or_insert_with(|| found.clone());
        assert!(*expected == found, "machine {at}");
    }
}

#[test]
fn a_kept_proposal_draws_as_the_search_that_made_it() {
    let root = tempfile::tempdir().unwrap();
    let model = written(&exact::gaussians_exact(), &root);
    let kept = root.path().join("kept");
    let stored = keep(&model, SAMPLES, AdaptChoice::adaptive(), &kept);
    assert!(stored.mixture.is_some());
    let (one, other) = (root.path().join("one"), root.path().join("other"));
    let searched = drawn(&request(&model, "A - B", &one, AdaptChoice::adaptive()));
    let again = drawn(&Request {
        proposal: Some(&kept),
        ..request(&model, "A - B", &other, AdaptChoice::None)
    });
    assert_eq!(points(&one, 2), points(&other, 2));
    let calls = stored.about.adaptation.calls;
    assert_eq!(searched.generator_calls, again.generator_calls + calls);
    // Another query may use it as well: weights make up for it.
    let third = root.path().join("third");
    drawn(&Request {
        proposal: Some(&kept),
        ..request(&model, "A + B", &third, AdaptChoice::None)
    });
}

#[test]
fn a_search_that_ends_at_the_prior_is_counted_whole() {
    let root = tempfile::tempdir().unwrap();
    let model = written(&exact::gaussians_exact(), &root);
    let out = root.path().join("out");
    for sampler in [
        SamplerChoice::Reject { tv: DEFAULT_TV },
        SamplerChoice::Resample { unique: false },
    ] {
        let _ = fs::remove_dir_all(&out);
        let mut asked = request(&model, "A - B", &out, AdaptChoice::adaptive());
        asked.samples = count(10);
        asked.settings.sampler = sampler;
        let report = drawn(&asked);
        let record = report.adaptation.unwrap();
        assert!(record.proposal.is_none());
        assert!(report.generator_calls >= record.calls, "{}", sampler.name());
    }
}

/// With more samples to draw than any search costs, nothing but its gain ends a search.
#[test]
fn a_search_goes_on_while_a_stage_gains_what_was_asked() {
    let root = tempfile::tempdir().unwrap();
    let model = written(&exact::gaussians_exact(), &root);
    for (gain, least, reason) in [
        (0.1, 3, "the last stage gained too little"),
        (0.5, 2, "no stage was much better than the prior"),
    ] {
        let choice = AdaptChoice::Adaptive {
            gain,
            prior_share: PRIOR_SHARE,
        };
        let out = root.path().join(format!("{gain}"));
        let stored = keep(&model, 100_000_000, choice, &out);
        let record = stored.about.adaptation;
        assert_eq!(record.stopped, reason);
        assert_eq!(stored.mixture.is_some(), gain < 0.5);
        let searched = |stage: &&adapt::StageRecord| !stage.drawn_from.contains("to judge");
        let costs = record
            .stages
            .iter()
            .filter(searched)
            .map(|stage| stage.calls_per_sample.unwrap());
        let costs: Vec<f64> = costs.collect();
        assert!(costs.len() >= least, "{costs:?}");
        let mut gains = costs.windows(2).map(|pair| 1.0 - pair[1] / pair[0]);
        assert!(gains.next_back().unwrap() < gain, "{costs:?}");
        assert!(gains.all(|gained| gained >= gain), "{costs:?}");
    }
}

/// A uniform prior is adapted in normal coordinates; means with and without agree within five standard
/// errors, and latents stay inside.
#[test]
fn a_uniform_prior_keeps_its_target() {
    let root = tempfile::tempdir().unwrap();
    let mut files = linear(3);
    let manifest = String::from_utf8(files[0].1.clone()).unwrap();
    assert!(manifest.contains("\"normal\""));
    files[0].1 = manifest.replace("\"normal\"", "\"uniform\"").into_bytes();
    let model = written(&files, &root);
    let query = "L0 - L1 - L2";
    let summary = |adapt: AdaptChoice, name: &str| {
        let out = root.path().join(name);
        let report = drawn(&request(&model, query, &out, adapt));
        let points = points(&out, 4);
        assert!(points.iter().flatten().all(|v| v.abs() <= 2.0));
        let n = points.len() as f64;
        let means: Vec<[f64; 2]> = (0..4)
            .map(|axis| {
                let values = points.iter().map(|p| f64::from(p[axis]));
                let mean = values.clone().sum::<f64>() / n;
                let variance = values.map(|v| (v - mean).powi(2)).sum::<f64>() / n;
                [mean, variance / n]
            })
            .collect();
        (report, means)
    };
    let (_, plain) = summary(AdaptChoice::None, "plain");
    let (report, adapted) = summary(AdaptChoice::adaptive(), "adapted");
    assert!(report.adaptation.unwrap().proposal.is_some());
    for (a, b) in plain.iter().zip(&adapted) {
        let error = (a[1] + b[1]).sqrt();
        assert!((a[0] - b[0]).abs() < 5.0 * error, "{a:?} and {b:?}");
    }
}

#[test]
fn any_budget_is_kept_and_a_bank_is_the_first_stage() {
    let root = tempfile::tempdir().unwrap();
    let model = written(&exact::gaussians_exact(), &root);
    let out = root.path().join("out");
    for budget in [1, 10, 100, 2500, 5000] {
        let mut asked = request(&model, "A - B", &out, AdaptChoice::adaptive());
        asked.settings.max_calls = Some(budget);
        let answers = sample(&asked, &Silent).unwrap();
        assert!(answers[0].is_err(), "{budget} calls for {SAMPLES} samples");
        assert!(!out.exists());
    }
    let bank = root.path().join("bank");
    let mined = s2m::mine::Request {
        model: &model,
        proposals: count(30_000),
        piece: s2m::mine::Piece::default(),
        seed: 3,
        machine: Machine::default(),
        out: &bank,
    };
    s2m::mine::mine(&mined, &Silent).unwrap();
    let report = drawn(&Request {
        bank: Some(&bank),
        ..request(&model, "A - B", &out, AdaptChoice::adaptive())
    });
    assert_eq!(report.from_bank, 30_000);
    assert_eq!(report.adaptation.unwrap().stages[0].proposals, 30_000);
    assert!(unevenness(&out) < 5.0);
}

/// The message of a request that is refused.
fn refused(request: &Request<'_>) -> String {
    let message = sample(request, &Silent).unwrap_err().to_string();
    assert!(!request.out.exists());
    message
}

#[test]
fn what_cannot_be_adapted_is_said() {
    let root = tempfile::tempdir().unwrap();
    let model = written(&linear(4), &root);
    let out = root.path().join("out");
    let message = |query: &str, adapt: AdaptChoice| refused(&request(&model, query, &out, adapt));
    let plain = message("L0 | L1", repeat(None));
    assert!(plain.contains("is not a plain"), "{plain}");
    for (order, wanted) in [
        (&["L0"][..], "it leaves out `-L1`"),
        (&["-L1", "L0"], "its first label must be one to be present"),
        (&["L0", "-L9"], "it names `L9`, which is no label"),
        (&["L0", "L1"], "the query does not ask for `L1`"),
        (&["L0", "L0", "-L1"], "it names `L0` twice"),
    ] {
        let found = message("L0 - L1", repeat(Some(order)));
        assert!(found.contains(wanted), "{found}");
    }
    let few = AdaptChoice::Once {
        pilot: pilot(20, 1, 8),
        prior_share: PRIOR_SHARE,
    };
    let found = message("L0 + L1 + L2 + L3", few);
    assert!(
        found.starts_with(
            "too few pilot latents for `L0 + L1 + L2 + L3`: 20 of 20 chains of 1 steps"
        ),
        "{found}"
    );
    assert!(found.contains("need at least 26 different ones"), "{found}");
    assert!(
        found.contains("more generator calls would be needed"),
        "{found}"
    );
    let share = AdaptChoice::Adaptive {
        gain: 0.1,
        prior_share: 0.0,
    };
    assert!(message("L0", share).contains("`prior_share` is 0"));
    let mut dear = request(&model, "L0", &out, once());
    dear.settings.max_calls = Some(1000);
    assert!(refused(&dear).contains("spends 20000 generator calls on its pilot alone"));
}

#[test]
fn a_proposal_of_another_bundle_or_a_broken_one_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let model = written(&exact::gaussians_exact(), &root);
    let kept = root.path().join("kept");
    keep(&model, SAMPLES, AdaptChoice::adaptive(), &kept);
    let out = root.path().join("out");
    let message = |model: &Path, query: &str| {
        refused(&Request {
            proposal: Some(&kept),
            ..request(model, query, &out, AdaptChoice::None)
        })
    };
    let other = root.path().join("other.s2m");
    bundle::write(&other, &linear(3)).unwrap();
    let found = message(&other, "L0");
    assert!(
        found.contains("was adapted for another generator (of the model `gaussians-exact`)"),
        "{found}"
    );
    let numbers = kept.join("mixture.bin");
    let whole = fs::read(&numbers).unwrap();
    fs::write(&numbers, &whole[..whole.len() - 8]).unwrap();
    assert!(message(&model, "A").contains("bytes, not"));
    let mut changed = whole.clone();
    changed[3] ^= 1;
    fs::write(&numbers, &changed).unwrap();
    assert!(message(&model, "A").contains("is not the file that it was made with"));
    fs::remove_file(&numbers).unwrap();
    assert!(message(&model, "A").contains("cannot be used: `mixture.bin`"));
    fs::write(&numbers, &whole).unwrap();
    let about = kept.join("proposal.json");
    let text = fs::read_to_string(&about).unwrap();
    for (from, to) in [
        ("\"format\": 1", "\"format\": 9"),
        (
            "\"size\": 4,\n    \"components\"",
            "\"size\": 400000,\n    \"components\"",
        ),
        (
            "\"covariance\": \"full\",\n    \"size\"",
            "\"covariance\": \"round\",\n    \"size\"",
        ),
    ] {
        assert!(text.contains(from), "{from}");
        fs::write(&about, text.replace(from, to)).unwrap();
        assert!(message(&model, "A").contains("cannot be used"), "{to}");
    }
}
