//! The page of an evaluation: one file with the table, pictures of each query, curves and an embedding.
//!
//! It holds everything that it shows, loads nothing and runs no script. What comes from outside, such
//! as paths, queries and reasons, is escaped by `maud`. Equal evaluations give equal bytes.

mod nearness;
mod pictures;
mod table;

use std::path::Path;

use maud::{Markup, html};
use s2m_show::page::html::{count, counted};
use s2m_show::page::{document, section};

use super::items::{ItemSet, Items};
use crate::Error;
use crate::evaluation::{Evaluation, Side};

/// What is compared.
#[derive(Clone, Copy)]
pub(super) struct Sides<'a> {
    pub(super) real: &'a Side,
    pub(super) generated: &'a Side,
    /// Paths of both, as they were given.
    pub(super) paths: [&'a Path; 2],
}

/// The page, ready to be written.
pub(super) fn page(evaluation: &Evaluation, sides: Sides<'_>) -> Result<String, Error> {
    let body = html! {
        (header(evaluation, sides))
        (section("Metrics", &table::metrics(evaluation)))
        (samples(sides)?)
        div.pair {
            (section("Nearest real items", &nearness::curves(sides)))
            (section("All items in the plane", &nearness::embedding(sides)))
        }
    };
    let title = format!("Evaluation of {}", sides.paths[1].display());
    Ok(document(&title, &body))
}

/// What was compared, and with what.
fn header(evaluation: &Evaluation, sides: Sides<'_>) -> Markup {
    let items = |side: &Side| count(side.sets.iter().map(|set| set.items.len()).sum::<usize>());
    let path = |at: usize| html! { code { (sides.paths[at].display()) } };
    let versions = evaluation.versions.iter();
    let versions: Vec<String> = versions
        .map(|(name, version)| format!("{name} {version}"))
        .collect();
    let mut facts = vec![
        ("generated", path(1)),
        ("real", path(0)),
        ("features", html! { (evaluation.features) }),
    ];
    facts.extend(
        evaluation
            .referee
            .iter()
            .map(|name| ("referee", html! { (name) })),
    );
    facts.push(("versions", html! { (versions.join(", ")) }));
    html! {
        header {
            h1 { "Evaluation" }
            p {
                (items(sides.generated)) " generated items"
                @if !evaluation.queries.is_empty() {
                    " of " (counted(evaluation.queries.len(), "query", "queries"))
                }
                " against " (items(sides.real)) " real ones."
            }
            dl {
                @for (name, value) in facts { div { dt { (name) } dd { (value) } } }
            }
            @if !evaluation.skipped.is_empty() {
                details {
                    summary {
                        (counted(evaluation.skipped.len(), "image", "images"))
                        " could not be read and were left out"
                    }
                    ul {
                        @for reason in &evaluation.skipped { li { (reason) } }
                    }
                }
            }
        }
    }
}

/// Pictures, or points in the plane; nothing for rows that are neither.
fn samples(sides: Sides<'_>) -> Result<Markup, Error> {
    let kind = sides.generated.sets.first().map(|set| &set.items);
    let (title, figures) = match kind {
        Some(Items::Pictures(_)) => {
            let grids = pictures::grids(&sides.real.sets, &sides.generated.sets)?;
            ("Images", grids)
        }
        Some(Items::Rows(rows)) if rows.width() == 2 => ("Points", nearness::scatter(sides)),
        _ => return Ok(html! {}),
    };
    Ok(section(title, &html! { div.figures { (figures) } }))
}

/// One line in place of what cannot be shown.
fn left_out(what: &str, why: &str) -> Markup {
    html! { p.quiet { "No " (what) ": " (why) "." } }
}

/// What a set of generated items is called.
fn name_of(set: &ItemSet) -> String {
    set.query.clone().unwrap_or_else(|| "generated".to_owned())
}

/// At most so many of n numbers: one from each of equal stretches.
///
/// The place in the stretch moves on by the golden ratio, so that items in a pattern, such as class
/// after class, are not all taken from one place of it.
fn evenly(n: usize, most: usize) -> impl Iterator<Item = usize> {
    const GOLDEN: f64 = 0.618_033_988_749_894_9;
    let taken = n.min(most);
    let start = move |at: usize| (at as u128 * n as u128 / taken as u128) as usize;
    (0..taken).map(move |at| {
        let room = (start(at + 1) - start(at)) as f64;
        let place = (at as f64 * GOLDEN).fract();
        start(at) + (place * room) as usize
    })
}

#[cfg(test)]
mod tests;
