//! How near generated items come to real ones: curves of distances, and all items in the plane.

use maud::{Markup, html};
use s2m_core::setting::Setting;
use s2m_metrics::nearest::{Nearest, nearest};
use s2m_metrics::tsne::{TsneSettings, trustworthiness, tsne};
use s2m_show::page::html::{Digits, count, counted};
use s2m_show::page::plots::{Axes, Group, MOST_GROUPS, View, plane, shares};

use super::super::items::{GivenRows, ItemSet};
use super::{Sides, evenly, left_out};
use crate::evaluation::Seen;

/// Most items of each side whose distances are measured.
const MEASURED: usize = 2000;
/// Most items of each side that are embedded.
const EMBEDDED: usize = 500;
/// Neighbours that trustworthiness looks at.
const NEIGHBOURS: usize = 5;
/// Most items in a scatter plot, and fewest where there are many plots.
const SCATTERED: [usize; 2] = [200, 1000];
/// Items in all scatter plots together, about.
const SCATTERED_IN_ALL: usize = 12_000;

/// Features of items that were taken evenly from all sets of a side.
struct Taken {
    rows: GivenRows,
    /// The number of the set of each.
    sets: Vec<usize>,
}

impl Taken {
    /// At most so many items; or why there are no features.
    fn of(seen: &[Seen], most: usize) -> Result<Self, String> {
        let all: Option<Vec<&GivenRows>> = seen.iter().map(|one| one.features.as_ref()).collect();
        let all = all.ok_or_else(|| {
            format!(
                "there are no features: give {}",
                Setting("features").to("NET.onnx")
            )
        })?;
        let places: Vec<(usize, usize)> = (0..all.len())
            .flat_map(|set| (0..all[set].len()).map(move |at| (set, at)))
            .collect();
        let places: Vec<(usize, usize)> = evenly(places.len(), most).map(|i| places[i]).collect();
        let chosen = |set: usize| {
            let own = places.iter().filter(|place| place.0 == set);
            all[set].select(&own.map(|place| place.1).collect::<Vec<_>>())
        };
        let chosen: Vec<GivenRows> = (0..all.len()).map(chosen).collect();
        let rows = GivenRows::join(&chosen.iter().collect::<Vec<_>>());
        Ok(Self {
            rows: rows.ok_or("there are no items")?,
            sets: places.iter().map(|(set, _)| *set).collect(),
        })
    }
}

/// Curves of the distances to the nearest real item.
pub(super) fn curves(sides: Sides<'_>) -> Markup {
    curves_or_why(sides).unwrap_or_else(|why| left_out("curves", &why))
}

fn curves_or_why(sides: Sides<'_>) -> Result<Markup, String> {
    let real = Taken::of(&sides.real.seen, MEASURED)?.rows;
    let generated = Taken::of(&sides.generated.seen, MEASURED)?.rows;
    if real.len() < 2 || generated.is_empty() {
        return Err("they need at least two real items and a generated one".to_owned());
    }
    let found = nearest_of(&real, &generated)?;
    let mut across: Vec<f64> = found.iter().map(|near| near.distance).collect();
    let mut within = nearest_other(&real)?;
    across.sort_unstable_by(f64::total_cmp);
    within.sort_unstable_by(f64::total_cmp);
    // An axis needs a length that a number can hold.
    let last = across[across.len() - 1].max(within[within.len() - 1]);
    if !last.is_normal() {
        return Err("all distances are zero".to_owned());
    }
    let middles = [middle(&across), middle(&within)];
    let [made, true_ones] = middles.map(|half| Digits::of(middles).write(half));
    let svg = shares(
        &within,
        &across,
        "Shares of items within a distance of the nearest real item",
    );
    Ok(html! {
        figure {
            (svg)
            figcaption {
                "Half of the generated items lie within " (made) " of a real item, and half of the real ones within "
                (true_ones) " of another. A curve left of the real one tells of copies or of little variety, one right \
                of it of items unlike any real one. " (count(across.len())) " generated and " (count(within.len()))
                " real items."
            }
        }
    })
}

/// The nearest of some rows to each of others.
fn nearest_of(rows: &GivenRows, to: &GivenRows) -> Result<Vec<Nearest>, String> {
    let [rows, to] = [rows, to].map(|rows| rows.features().map_err(|e| e.to_string()));
    nearest(rows?, to?).map_err(|e| e.to_string())
}

/// The middle of rising values.
fn middle(values: &[f64]) -> f64 {
    let half = values.len() / 2;
    if values.len().is_multiple_of(2) {
        f64::midpoint(values[half - 1], values[half])
    } else {
        values[half]
    }
}

/// The distance of each item to the nearest other one.
///
/// Numbers of two items differ in some bit. So for every bit, items without it are matched with those
/// that have it, both ways, and the least distance is kept.
fn nearest_other(rows: &GivenRows) -> Result<Vec<f64>, String> {
    let mut least = vec![f64::INFINITY; rows.len()];
    let bits = usize::BITS - rows.len().saturating_sub(1).leading_zeros();
    for bit in 0..bits {
        let (without, with): (Vec<usize>, Vec<usize>) =
            (0..rows.len()).partition(|at| at >> bit & 1 == 0);
        for (own, others) in [(&without, &with), (&with, &without)] {
            let (own_rows, other_rows) = (rows.select(own), rows.select(others));
            let found = nearest_of(&other_rows, &own_rows)?;
            for (&at, near) in own.iter().zip(found) {
                least[at] = least[at].min(near.distance);
            }
        }
    }
    Ok(least)
}

/// All items in the plane, by t-SNE.
pub(super) fn embedding(sides: Sides<'_>) -> Markup {
    embedding_or_why(sides).unwrap_or_else(|why| left_out("embedding", &why))
}

fn embedding_or_why(sides: Sides<'_>) -> Result<Markup, String> {
    let real = Taken::of(&sides.real.seen, EMBEDDED)?;
    let generated = Taken::of(&sides.generated.seen, EMBEDDED)?;
    let n_real = real.rows.len();
    let all = GivenRows::join(&[&real.rows, &generated.rows]).ok_or("there are no items")?;
    let (n, items) = (all.len(), all.features().map_err(|e| e.to_string())?);
    if n < 4 {
        return Err("it needs at least four items".to_owned());
    }
    if items.rows().all(|row| row == items.row(0)) {
        return Err("all items have the same features".to_owned());
    }
    let settings = TsneSettings {
        perplexity: TsneSettings::default().perplexity.min((n - 1) as f64 / 3.0),
        ..TsneSettings::default()
    };
    let neighbours = NEIGHBOURS.min(n.div_ceil(2) - 1);
    let points = tsne(items, settings).map_err(|e| e.to_string())?;
    let trust = trustworthiness(items, &points, neighbours).map_err(|e| e.to_string())?;
    if points.iter().flatten().any(|place| !place.is_finite()) {
        return Err("t-SNE did not converge".to_owned());
    }
    let (real, made) = points.split_at(n_real);
    let groups = groups(&sides.generated.sets, made, &generated.sets);
    let view = View::of(points.iter());
    let svg = plane(
        &named_group("real", real.to_vec()),
        &groups,
        &view,
        Axes::Bare,
        "Real and generated items in the plane by t-SNE",
    );
    Ok(html! {
        figure {
            (svg)
            figcaption {
                "t-SNE with perplexity " (format!("{:.0}", settings.perplexity)) " of " (count(n_real)) " real and "
                (count(made.len())) " generated items. Trustworthiness " (format!("{trust:.3}")) " ("
                (counted(neighbours, "neighbour", "neighbours")) " each): near 1, neighbours here are neighbours by \
                their features; distances between far groups mean little." (hidden(&view, &points))
            }
        }
    })
}

/// Generated items by query, or all alike where there are too many queries or none.
fn groups(sets: &[ItemSet], points: &[[f64; 2]], of: &[usize]) -> Vec<Group> {
    let names: Option<Vec<&String>> = sets.iter().map(|set| set.query.as_ref()).collect();
    let Some(names) = names.filter(|names| names.len() <= MOST_GROUPS) else {
        return vec![named_group("generated", points.to_vec())];
    };
    let group = |(set, name): (usize, &String)| {
        let own = points.iter().zip(of).filter(|(_, of)| **of == set);
        named_group(name, own.map(|(point, _)| *point).collect())
    };
    names.into_iter().enumerate().map(group).collect()
}

fn named_group(name: &str, points: Vec<[f64; 2]>) -> Group {
    Group {
        name: name.to_owned(),
        points,
    }
}

/// Says what lies outside a view.
fn hidden(view: &View, points: &[[f64; 2]]) -> String {
    match view.hidden(points.iter()) {
        0 => String::new(),
        n => format!(
            " {} outside the frame.",
            counted(n, "point lies", "points lie")
        ),
    }
}

/// Rows of two numbers as points: each set of generated items over the real ones.
pub(super) fn scatter(sides: Sides<'_>) -> Markup {
    scatter_or_why(sides).unwrap_or_else(|why| left_out("scatter plots", &why))
}

fn scatter_or_why(sides: Sides<'_>) -> Result<Markup, String> {
    let most =
        (SCATTERED_IN_ALL / sides.generated.sets.len().max(1)).clamp(SCATTERED[0], SCATTERED[1]);
    let points =
        |taken: &Taken| -> Vec<[f64; 2]> { taken.rows.doubles().as_chunks::<2>().0.to_vec() };
    let real = points(&Taken::of(&sides.real.seen, most)?);
    let mut made = Vec::new();
    for seen in &sides.generated.seen {
        made.push(points(&Taken::of(std::slice::from_ref(seen), most)?));
    }
    let view = View::of(real.iter().chain(made.iter().flatten()));
    let figures = sides.generated.sets.iter().zip(made).map(|(set, made)| {
        let name = super::name_of(set);
        let shown = count(made.len());
        let hidden = hidden(&view, &[real.as_slice(), &made].concat());
        let svg = plane(
            &named_group("real", real.clone()),
            &[named_group("generated", made)],
            &view,
            Axes::Numbered,
            &format!("Points of {name} over real points"),
        );
        html! {
            figure {
                (svg)
                figcaption {
                    strong { (name) } " " (shown) " of " (counted(set.items.len(), "item", "items")) " over "
                    (count(real.len())) " real ones." (hidden)
                }
            }
        }
    });
    Ok(html! { @for figure in figures { (figure) } })
}

#[cfg(test)]
mod tests {
    use super::super::super::items::Rows;
    use super::*;

    /// Against all pairs, one by one.
    #[test]
    fn the_nearest_other_item_is_found_whatever_the_number_of_items() {
        for n in 2..40_usize {
            let values: Vec<f32> = (0..3 * n).map(|i| (i * i * 7 % 101) as f32).collect();
            let row = |at: usize| &values[3 * at..][..3];
            let distance = |a: usize, b: usize| {
                let squares = row(a)
                    .iter()
                    .zip(row(b))
                    .map(|(x, y)| f64::from(x - y).powi(2));
                squares.sum::<f64>().sqrt()
            };
            let others = |a: usize| (0..n).filter(move |b| *b != a);
            let wanted: Vec<f64> = (0..n)
                .map(|a| {
                    others(a)
                        .map(|b| distance(a, b))
                        .fold(f64::INFINITY, f64::min)
                })
                .collect();
            let rows = GivenRows::Single(Rows { values, width: 3 });
            assert_eq!(nearest_other(&rows).unwrap(), wanted, "{n}");
        }
    }

    #[test]
    fn the_middle_of_an_even_number_lies_between_two() {
        assert_eq!(middle(&[1.0, 2.0, 4.0]), 2.0);
        assert_eq!(middle(&[1.0, 2.0, 4.0, 5.0]), 3.0);
    }
}
