//! A draw that is watched, stopped, explained and predicted, all in memory.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use s2m::neighbours::{Around, Which};
use s2m::progress::{Progress, Silent};
use s2m::samplers::{Details, SamplerChoice};
use s2m::watch::News;
use s2m::{Ask, Error, Model, Samples};

/// What somebody who follows the news has in the end.
fn followed(ask: &Ask, samples: usize) -> (Vec<u64>, Vec<f32>, s2m::report::Report, usize) {
    let mut told: Vec<(u64, Vec<f32>)> = Vec::new();
    let mut news = 0;
    let report = ask
        .watch(samples, &Silent, &mut |piece| {
            news += 1;
            match piece {
                News::Accepted(samples) => told.extend(each(&samples)),
                News::Withdrawn(places) => {
                    for place in places.into_iter().rev() {
                        told.remove(place);
                    }
                }
            }
            ControlFlow::Continue(())
        })
        .expect("the query has samples");
    let (numbers, items): (Vec<u64>, Vec<Vec<f32>>) = told.into_iter().unzip();
    (numbers, items.concat(), report, news)
}

fn each(samples: &Samples) -> Vec<(u64, Vec<f32>)> {
    let items = samples.items.to_floats();
    let size = items.len() / samples.len();
    let items = items.chunks(size).map(<[f32]>::to_vec);
    samples.proposals.iter().copied().zip(items).collect()
}

/// Every model, queries that are cheap and dear, and a purity: news end with the samples of a draw.
#[test]
fn news_end_with_the_samples_of_a_draw() {
    for (model, query, samples, seed) in [
        ("gaussians-exact", "A - B", 3000, 7),
        ("gaussians-exact", "A | B", 1, 0),
        ("mnist-even", "A - B", 64, 7),
        ("mnist-even-conditional", "A - B", 48, 3),
    ] {
        let ask = Model::open(model).unwrap().query(query).unwrap().seed(seed);
        let draw = ask.draw(samples).unwrap();
        let (numbers, items, report, _) = followed(&ask, samples);
        assert_eq!(numbers, draw.samples.proposals, "{model} {query}");
        assert_eq!(items, draw.samples.items.to_floats(), "{model} {query}");
        assert_eq!(report.details, draw.report.details, "{model} {query}");
    }
    let model = Model::open("mnist-even").unwrap();
    let ask = model.query("A - B").unwrap().seed(1).purity(0.97);
    assert_eq!(
        followed(&ask, 32).0,
        ask.draw(32).unwrap().samples.proposals
    );
}

/// Tight distances make caps grow after samples were told of; they are then taken back.
#[test]
fn samples_that_a_growing_cap_takes_back_are_withdrawn() {
    let model = Model::open("mnist-even-conditional").unwrap();
    let mut withdrawn = 0;
    for seed in 0..12 {
        let ask = model.query("A - B").unwrap().seed(seed).tv(0.01);
        let mut told: Vec<u64> = Vec::new();
        let mut see = |piece| {
            match piece {
                News::Accepted(samples) => told.extend(samples.proposals),
                News::Withdrawn(places) => {
                    withdrawn += places.len();
                    for place in places.into_iter().rev() {
                        told.remove(place);
                    }
                }
            }
            ControlFlow::Continue(())
        };
        ask.watch(200, &Silent, &mut see).unwrap();
        assert_eq!(
            told,
            ask.draw(200).unwrap().samples.proposals,
            "seed {seed}"
        );
    }
    assert!(withdrawn > 0);
}

/// Samplers that decide at the end tell of everything then.
#[test]
fn chains_are_told_of_at_the_end() {
    let model = Model::open("gaussians-exact").unwrap();
    let steps = std::num::NonZeroUsize::new(20).unwrap();
    let ask = model
        .query("A + B")
        .unwrap()
        .sampler(SamplerChoice::Mh { steps });
    assert_eq!(
        followed(&ask, 50).0,
        ask.draw(50).unwrap().samples.proposals
    );
}

/// Stops after so many signs of life.
struct Patience(AtomicUsize);

impl Progress for Patience {
    fn stopped(&self) -> bool {
        self.0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                left.checked_sub(1)
            })
            .is_err()
    }
}

#[test]
fn whoever_leaves_stops_the_draw() {
    let ask = Model::open("mnist-even").unwrap().query("A - B").unwrap();
    let patience = Patience(AtomicUsize::new(3));
    let stopped = ask.draw_with(20_000, &patience).unwrap_err();
    assert!(matches!(stopped, Error::Stopped), "{stopped}");
    assert_eq!(stopped.to_string(), "stopped before the end");
    let patience = Patience(AtomicUsize::new(6));
    let watched = ask.watch(20_000, &patience, &mut |_| ControlFlow::Continue(()));
    assert!(matches!(watched, Err(Error::Stopped)));
    // Whoever sees can end it too.
    let ended = ask.watch(64, &Silent, &mut |_| ControlFlow::Break(()));
    assert!(matches!(ended, Err(Error::Stopped)));
}

/// Every sample was accepted under the cap of its draw, and the steps lead to its weight.
#[test]
fn samples_are_explained_by_the_report_of_their_draw() {
    for (model, purity) in [
        ("gaussians-exact", None),
        ("mnist-even", Some(0.98)),
        ("mnist-even-conditional", None),
    ] {
        let model = Model::open(model).unwrap();
        let mut ask = model.query("A - B").unwrap().seed(5);
        if let Some(purity) = purity {
            ask = ask.purity(purity);
        }
        let draw = ask.draw(8).unwrap();
        let Details::Reject { log_cap, .. } = draw.report.details else {
            panic!("the default is `reject`");
        };
        for (at, &proposal) in draw.samples.proposals.iter().enumerate() {
            let explained = model.explain(&draw.report, proposal).unwrap();
            assert!(explained.accepted, "{}", explained.verdict);
            assert_eq!(explained.log_cap, Some(log_cap));
            assert_eq!(explained.floor, draw.report.calibration.floor);
            assert!((explained.log_weight - draw.samples.log_weights[at]).abs() < 1e-4);
        }
    }
    let model = Model::open("gaussians-exact").unwrap();
    let report = model.query("A").unwrap().draw(4).unwrap().report;
    let far = model.explain(&report, u64::MAX).unwrap_err();
    assert!(
        far.to_string()
            .starts_with("`proposal` is 18446744073709551615")
    );
    let other = Model::open("gaussians")
        .unwrap()
        .explain(&report, 0)
        .unwrap_err();
    assert_eq!(other.to_string(), "this was drawn from another model");
}

/// Predictions from proposals in memory come true when the query is drawn.
#[test]
fn predictions_come_true() {
    for name in ["gaussians-exact", "mnist-even", "mnist-even-conditional"] {
        let model = Model::open(name).unwrap();
        let mut scored = model.scored(0).unwrap();
        scored.score(1 << 14, &Silent).unwrap();
        let found = scored.classes(64, &Silent).unwrap();
        for class in found.classes.iter().filter(|class| class.reachable) {
            let ask = model.query(&class.query).unwrap();
            let prediction = ask.predict(&mut scored, &[0.9, 0.999_999_999]).unwrap();
            let own = prediction.own.unwrap();
            // The table of joint classes says the same of the same proposals. Its shares are of what floors leave.
            let floors = name != "gaussians-exact";
            let apart = class.share - own.share;
            assert!(
                apart > -0.02 && (floors || apart.abs() < 1e-9),
                "{name}: {own:?} {class:?}"
            );
            assert!((own.calls_per_sample - class.calls_per_sample.unwrap()).abs() < 1e-9);
            assert!((own.predicted_purity - class.predicted_purity.unwrap()).abs() < 1e-9);
            // A draw fixes its cap on a pilot of its own, with slack, so that it accepts less the heavier the weights are.
            let report = ask.clone().seed(11).draw(500).unwrap().report;
            let apart = (report.acceptance * own.calls_per_sample).ln().abs();
            assert!(apart < 2.0_f64.ln(), "{name} {}: {apart}", class.query);
            assert!((report.predicted_purity - own.predicted_purity).abs() < 0.02);
            if let Some(pure) = prediction.at[0] {
                assert!(pure.share <= 1.0);
                assert!(pure.predicted_purity >= 0.9);
            }
        }
    }
}

#[test]
fn a_purer_wish_costs_more_and_one_out_of_reach_has_no_prediction() {
    let model = Model::open("mnist-even").unwrap();
    let mut scored = model.scored(3).unwrap();
    scored.score(1 << 13, &Silent).unwrap();
    let ask = model.query("A - B").unwrap();
    let wishes = [0.5, 0.8, 0.9, 0.95, 0.99, 1.0 - 1e-15];
    let prediction = ask.predict(&mut scored, &wishes).unwrap();
    let calls: Vec<f64> = prediction
        .at
        .iter()
        .flatten()
        .map(|p| p.calls_per_sample)
        .collect();
    assert!(
        calls.len() >= 4 && calls.windows(2).all(|pair| pair[0] <= pair[1]),
        "{calls:?}"
    );
    assert_eq!(prediction.at.last(), Some(&None));
    let wrong = ask.predict(&mut scored, &[1.0]).unwrap_err();
    assert_eq!(
        wrong.to_string(),
        "`purity` is 1; it must lie strictly between 0 and 1"
    );
    let other = Model::open("gaussians").unwrap().query("A").unwrap();
    assert!(
        other
            .predict(&mut scored, &[])
            .unwrap_err()
            .to_string()
            .contains("another model")
    );
}

/// Against distances of latents that are written out, one by one.
#[test]
fn neighbours_are_the_nearest_latents() {
    let model = Model::open("gaussians-exact").unwrap();
    let mut scored = model.scored(0).unwrap();
    scored.score(2000, &Silent).unwrap();
    let ask = model.query("A - B").unwrap();
    let around = Around {
        seed: 0,
        proposal: 17,
        class: None,
    };
    let any = ask
        .neighbours(&mut scored, around, (Which::Any, 5))
        .unwrap();
    assert_eq!((any.nearest.len(), any.among), (5, 1999));
    let latent = |proposal: u64| {
        let size = model.bundle().manifest().generator.latents[0].size();
        let mut latent = vec![0.0; size];
        s2m_core::proposals::Proposals::new(0).fill_normal(0, proposal, size, &mut latent);
        latent
    };
    let centre = latent(17);
    let mut plain: Vec<(f32, u64)> = (0..2000)
        .filter(|k| *k != 17)
        .map(|k| {
            let squares = latent(k)
                .iter()
                .zip(&centre)
                .map(|(a, b)| (a - b) * (a - b))
                .sum::<f32>();
            (squares.sqrt(), k)
        })
        .collect();
    plain.sort_by(|a, b| a.0.total_cmp(&b.0));
    let found: Vec<u64> = any.nearest.iter().map(|one| one.proposal).collect();
    assert_eq!(
        found,
        plain[..5].iter().map(|(_, k)| *k).collect::<Vec<_>>()
    );
    assert_eq!(any.nearest[0].distance as f32, plain[0].0);
    assert_eq!(any.median as f32, plain[999].0);
    let weighted = ask
        .neighbours(&mut scored, around, (Which::Likely, 12))
        .unwrap();
    assert_eq!(weighted.nearest.len(), 12);
    assert!(
        weighted
            .nearest
            .iter()
            .all(|one| one.weighted && one.predicted >= 0.5)
    );
    assert!(
        weighted
            .nearest
            .windows(2)
            .all(|pair| pair[0].distance <= pair[1].distance)
    );
    // A proposal of another seed is no scored one, so that nothing is left out.
    let elsewhere = Around { seed: 1, ..around };
    let other = ask
        .neighbours(&mut scored, elsewhere, (Which::Any, 3))
        .unwrap();
    assert_eq!(other.among, 2000);
    assert_ne!(other.nearest[0].proposal, any.nearest[0].proposal);
}

#[test]
fn neighbours_in_a_conditional_model_have_the_same_class() {
    let model = Model::open("mnist-even-conditional").unwrap();
    let mut scored = model.scored(0).unwrap();
    scored.score(1000, &Silent).unwrap();
    let ask = model.query("A - B").unwrap();
    let around = Around {
        seed: 0,
        proposal: 40,
        class: Some(0),
    };
    let found = ask
        .neighbours(&mut scored, around, (Which::Any, 20))
        .unwrap();
    assert_eq!(found.among, 499);
    assert!(found.nearest.iter().all(|one| one.proposal % 2 == 0));
}

/// A bank's proposals are those in memory.
#[test]
fn proposals_of_a_bank_are_predicted_from_as_well() {
    let folder = tempfile::tempdir().unwrap();
    let bank = folder.path().join("bank");
    let request = s2m::mine::Request {
        model: Path::new("gaussians-exact"),
        proposals: std::num::NonZeroUsize::new(5000).unwrap(),
        piece: s2m::mine::Piece::default(),
        seed: 9,
        machine: s2m::session::Machine::default(),
        out: &bank,
    };
    s2m::mine::mine(&request, &Silent).unwrap();
    let model = Model::open("gaussians-exact").unwrap();
    let ask = model.query("A + B").unwrap();
    let mut banked = model.scored_in(&bank).unwrap();
    assert_eq!(
        (banked.seed(), banked.in_bank(), banked.is_empty()),
        (9, 5000, true)
    );
    banked.score(5000, &Silent).unwrap();
    let mut scored = model.scored(9).unwrap();
    scored.score(5000, &Silent).unwrap();
    let predicted = |scored| ask.predict(scored, &[0.9]).unwrap();
    assert_eq!(predicted(&mut banked), predicted(&mut scored));
    assert_eq!(
        banked.items(&[3, 1], &Silent).unwrap(),
        scored.items(&[3, 1], &Silent).unwrap()
    );
}
