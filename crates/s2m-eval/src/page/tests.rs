//! Whole pages of small evaluations.

use std::collections::BTreeMap;
use std::path::PathBuf;

use s2m_data::channels::Channels;

use super::super::items::{GivenRows, Pictures, Rows};
use super::super::measure::{Known, Metric, measure};
use super::super::truth::Truth;
use super::*;
use crate::evaluation::{Evaluated, Seen};

/// What an attacker would like a browser to run.
const SCRIPT: &str = "<script>alert('x')</script>";

/// Numbers between 0 and 1 in no simple order.
fn values(n: usize, salt: usize) -> impl Iterator<Item = f32> {
    (0..n).map(move |i| ((i * 7919 + salt * 104_729) % 1009) as f32 / 1009.0)
}

fn set(query: Option<&str>, items: Items) -> ItemSet {
    ItemSet {
        path: PathBuf::from("somewhere"),
        query: query.map(str::to_owned),
        items,
        truth: Truth::Nothing,
        skipped: Vec::new(),
    }
}

/// Sets of pictures, with features of this width where there are any.
fn pictures(queries: &[Option<&str>], n: usize, width: Option<usize>) -> Side {
    let shape = [5, 4, Channels::Rgb.count()];
    let one = |(salt, query): (usize, Option<&str>)| {
        let size: usize = shape.iter().product();
        let bytes = values(n * size, salt).map(|v| (255.0 * v) as u8).collect();
        let items = Items::Pictures(Pictures::Held { bytes, shape });
        let features = width.map(|width| {
            let values = values(n * width, salt + 50).collect();
            GivenRows::Single(Rows { values, width })
        });
        let seen = Seen {
            features,
            classes: None,
        };
        (set(query, items), seen)
    };
    let (sets, seen) = queries.iter().copied().enumerate().map(one).unzip();
    Side { sets, seen }
}

/// Sets of rows.
fn rows(queries: &[Option<&str>], all: &[GivenRows]) -> Side {
    let one = |(query, rows): (Option<&str>, &GivenRows)| {
        let seen = Seen {
            features: Some(rows.clone()),
            classes: None,
        };
        (set(query, Items::Rows(rows.clone())), seen)
    };
    let (sets, seen) = queries.iter().copied().zip(all).map(one).unzip();
    Side { sets, seen }
}

fn varied(n: usize, width: usize, salt: usize) -> GivenRows {
    GivenRows::Single(Rows {
        values: values(n * width, salt).collect(),
        width,
    })
}

fn evaluated(n_real: usize, generated: &ItemSet, seen: &Seen, real: &Seen) -> Evaluated {
    let n_generated = generated.items.len();
    let known = Known {
        real: real.features.as_ref(),
        generated: seen.features.as_ref(),
        classes: None,
        training: None,
        judged: None,
        n_real,
        n_generated,
    };
    Evaluated {
        n_generated,
        n_real,
        reference: "all real items",
        accuracy_by_label: BTreeMap::new(),
        measures: measure(&known, &Metric::ALL),
    }
}

/// Evaluates the first set as all together, and each set that has a query.
fn evaluation(real: &Side, generated: &Side) -> Evaluation {
    let each = generated.sets.iter().zip(&generated.seen);
    let n_real = real.sets[0].items.len();
    let of = |set, seen| evaluated(n_real, set, seen, &real.seen[0]);
    Evaluation {
        pooled: of(&generated.sets[0], &generated.seen[0]),
        queries: each
            .filter_map(|(set, seen)| Some((set.query.clone()?, of(set, seen))))
            .collect(),
        features: "the items themselves".to_owned(),
        referee: None,
        skipped: Vec::new(),
        versions: BTreeMap::from([("s2m".to_owned(), "0".to_owned())]),
        no_page: None,
    }
}

fn shown(real: &Side, generated: &Side) -> String {
    let evaluation = evaluation(real, generated);
    shown_as(&evaluation, real, generated)
}

fn shown_as(evaluation: &Evaluation, real: &Side, generated: &Side) -> String {
    let sides = Sides {
        real,
        generated,
        paths: [Path::new("real.npy"), Path::new("made/<b>")],
    };
    let html = page(evaluation, sides).unwrap();
    assert_eq!(unclosed(&html), Vec::<String>::new());
    html
}

/// Tags that are open at the end, or closed where another one was open.
fn unclosed(html: &str) -> Vec<String> {
    let mut open: Vec<String> = Vec::new();
    for tag in html.split('<').skip(1) {
        let (tag, _) = tag.split_once('>').expect("every tag ends");
        let name = tag.split([' ', '\n', '/']).find(|part| !part.is_empty());
        let name = name.expect("every tag has a name").to_owned();
        if let Some(closed) = tag.strip_prefix('/') {
            if open.last().is_some_and(|last| last == closed) {
                open.pop();
            } else {
                open.push(format!("/{closed}"));
            }
        } else if !tag.ends_with('/')
            && !matches!(name.as_str(), "!DOCTYPE" | "meta" | "img" | "br")
        {
            open.push(name);
        }
    }
    open
}

fn grids(html: &str) -> usize {
    html.matches("src=\"data:image/png;base64,").count()
}

fn plots(html: &str) -> usize {
    html.matches("<svg role=\"img\"").count()
}

#[test]
fn pictures_of_each_query_stand_beside_real_ones() {
    let real = pictures(&[None], 30, Some(6));
    let generated = pictures(&[Some("A"), Some("B"), Some("A + B")], 20, Some(6));
    let html = shown(&real, &generated);
    assert_eq!((grids(&html), plots(&html)), (4, 2));
    assert!(html.contains("<strong>A + B</strong> 20 of 20 images"));
    assert!(html.contains("60 generated items of 3 queries against 30 real ones."));
    assert!(html.contains("Trustworthiness 0."));
    // Queries are columns, groups of the embedding and names of grids.
    assert_eq!(html.matches("<th scope=\"col\"><code>").count(), 3);
    assert_eq!(html.matches("<li><svg").count(), 2 + 4);
    // The only addresses are the names of SVG itself.
    assert_eq!(html.matches("://").count(), plots(&html));
}

#[test]
fn rows_of_two_are_points_and_wider_ones_are_not_drawn() {
    let queries = ["a", "b", "c", "d", "e"].map(Some);
    for (width, wanted) in [(2, 5 + 2), (3, 2)] {
        let sets: Vec<GivenRows> = (1..=5).map(|salt| varied(40, width, salt)).collect();
        let html = shown(
            &rows(&[None], &[varied(50, width, 9)]),
            &rows(&queries, &sets),
        );
        assert_eq!((grids(&html), plots(&html)), (0, wanted));
        // Five queries are rows of the table, beside all together.
        assert_eq!(html.matches("<th scope=\"row\">").count(), 1 + 5);
        assert_eq!(
            html.matches("<th scope=\"col\">").count(),
            1 + Metric::ALL.len()
        );
    }
}

#[test]
fn nothing_from_outside_becomes_part_of_the_page() {
    let real = rows(&[None], &[varied(30, 2, 1)]);
    let generated = rows(
        &[Some(SCRIPT), Some("\" onload=\"x")],
        &[varied(30, 2, 2), varied(30, 2, 3)],
    );
    let mut evaluation = evaluation(&real, &generated);
    evaluation.features = SCRIPT.to_owned();
    evaluation.referee = Some(SCRIPT.to_owned());
    evaluation.skipped = vec![SCRIPT.to_owned()];
    evaluation
        .versions
        .insert(SCRIPT.to_owned(), SCRIPT.to_owned());
    evaluation.pooled.measures[0].note = Some(SCRIPT.to_owned());
    let labels = BTreeMap::from([(SCRIPT.to_owned(), [0.5, 0.25, 0.75])]);
    for found in evaluation.queries.values_mut() {
        found.accuracy_by_label.clone_from(&labels);
    }
    let html = shown_as(&evaluation, &real, &generated);
    assert!(!html.contains("<script") && !html.contains("<b>") && !html.contains("\" onload"));
    let safe = "&lt;script&gt;alert('x')&lt;/script&gt;";
    assert!(
        html.matches(safe).count() >= 10,
        "{}",
        html.matches(safe).count()
    );
    assert!(html.contains("1 image could not be read"));
    assert!(html.contains("0.5000<small>0.2500 to 0.7500</small>"));
}

#[test]
fn missing_values_are_dashes_with_numbered_reasons() {
    let real = pictures(&[None], 12, None);
    let generated = pictures(&[None], 12, None);
    let html = shown(&real, &generated);
    assert!(html.contains("<td>–<sup><a href=\"#note-1\">1</a></sup></td>"));
    assert!(html.contains("<li id=\"note-2\">it needs features: give `features = NET.onnx`</li>"));
    // Eight metrics share one reason.
    assert_eq!(html.matches("href=\"#note-2\"").count(), 8);
    for metric in Metric::ALL {
        assert!(
            html.contains(&html! { (metric.definition()) }.0),
            "{metric:?}"
        );
    }
}

#[test]
fn what_cannot_be_shown_is_one_line() {
    let no_features = shown(
        &pictures(&[None], 12, None),
        &pictures(&[Some("A")], 12, None),
    );
    assert_eq!((grids(&no_features), plots(&no_features)), (2, 0));
    let why = "there are no features: give `features = NET.onnx`.";
    assert!(no_features.contains(&format!("No curves: {why}")));
    assert!(no_features.contains(&format!("No embedding: {why}")));

    let one = shown(
        &pictures(&[None], 1, Some(3)),
        &pictures(&[None], 1, Some(3)),
    );
    assert_eq!((grids(&one), plots(&one)), (2, 0));
    assert!(one.contains("No curves: they need at least two real items and a generated one."));
    assert!(one.contains("No embedding: it needs at least four items."));

    let constant = |n: usize| {
        GivenRows::Single(Rows {
            values: vec![2.5; 2 * n],
            width: 2,
        })
    };
    let same = shown(
        &rows(&[None], &[constant(20)]),
        &rows(&[None], &[constant(10)]),
    );
    assert_eq!((grids(&same), plots(&same)), (0, 1));
    assert!(same.contains("No curves: all distances are zero."));
    assert!(same.contains("No embedding: all items have the same features."));

    let broken = rows(
        &[None],
        &[GivenRows::Single(Rows {
            values: vec![0.0, 1.0, f32::NAN, 3.0, 4.0, 5.0],
            width: 3,
        })],
    );
    let html = shown(&rows(&[None], &[varied(9, 3, 1)]), &broken);
    assert!(html.contains("No curves: feature 2 of item 0 is NaN."));
}

#[test]
fn a_metric_that_was_not_asked_for_is_not_in_the_table() {
    let (real, generated) = (pictures(&[None], 9, Some(2)), pictures(&[None], 9, Some(2)));
    let mut evaluation = evaluation(&real, &generated);
    evaluation
        .pooled
        .measures
        .retain(|m| m.metric == Metric::Kid);
    let html = shown_as(&evaluation, &real, &generated);
    assert_eq!(html.matches("<th scope=\"row\">").count(), 1);
    evaluation.pooled.measures.clear();
    assert!(shown_as(&evaluation, &real, &generated).contains("No metric was asked for."));
}

#[test]
fn equal_evaluations_give_equal_bytes() {
    let sides = || {
        let real = pictures(&[None], 40, Some(5));
        (real, pictures(&[Some("A"), Some("B")], 25, Some(5)))
    };
    let (first, second) = (sides(), sides());
    assert_eq!(shown(&first.0, &first.1), shown(&second.0, &second.1));
}

#[test]
fn one_number_is_taken_from_each_of_equal_stretches() {
    let taken = |n, most| evenly(n, most).collect::<Vec<_>>();
    assert_eq!(taken(3, 64), [0, 1, 2]);
    assert_eq!(taken(0, 4), [0; 0]);
    for (at, number) in evenly(1000, 100).enumerate() {
        assert_eq!(number / 10, at);
    }
    assert!(evenly(usize::MAX, 2).last() > Some(usize::MAX / 2));
    // Items that repeat every four, or every ten, are all taken about equally often.
    for period in [4, 10] {
        let mut found = vec![0; period];
        evenly(100 * period, 100).for_each(|number| found[number % period] += 1);
        let fair = 100 / period;
        assert!(found.iter().all(|n| fair.abs_diff(*n) <= 2), "{found:?}");
    }
}
