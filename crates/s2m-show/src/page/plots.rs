//! Plots as SVG inside the page: points in the plane and curves.
//!
//! Colours are written as for a light page; the page's style sheet, made from the same list, exchanges
//! them on a dark one. Each kind of point has a shape of its own, so that colour is never all there is.

use std::ops::Range;

use maud::{Markup, PreEscaped, html};
use plotters::prelude::*;

use crate::axis::{Axis, BLANK, OUTLYING, bulk, equal};
use crate::plot::{Drawn, Look, frame};

/// Colours of real items, then of queries: on a light page, and on a dark one.
pub const COLOURS: [[&str; 2]; 7] = [
    ["#767C87", "#9097A3"],
    ["#0069AA", "#4FA8E8"],
    ["#C84B00", "#F28C4B"],
    ["#007F5C", "#3CC49B"],
    ["#A64C86", "#DE8FC2"],
    ["#8A6A00", "#D9B23B"],
    ["#3F3FBF", "#9A97FF"],
];
/// Colour of text and frames.
pub const INK: [&str; 2] = ["#4A4F58", "#B4BAC4"];
/// Colour of the lines behind curves.
pub const GUIDE: [&str; 2] = ["#E3E6EB", "#2F343C"];

/// Most groups that have a shape and colour of their own, beside the real items.
pub const MOST_GROUPS: usize = COLOURS.len() - 1;

/// Shapes of groups as corners about their middle; real items are discs.
const SHAPES: [&[[i32; 2]]; MOST_GROUPS] = [
    &[[0, -8], [7, 5], [-7, 5]],
    &[[-5, -5], [5, -5], [5, 5], [-5, 5]],
    &[[0, -8], [7, 0], [0, 8], [-7, 0]],
    &[[0, 8], [7, -5], [-7, -5]],
    &[
        [-2, -8],
        [2, -8],
        [2, -2],
        [8, -2],
        [8, 2],
        [2, 2],
        [2, 8],
        [-2, 8],
        [-2, 2],
        [-8, 2],
        [-8, -2],
        [-2, -2],
    ],
    &[
        [-7, -4],
        [-4, -7],
        [0, -3],
        [4, -7],
        [7, -4],
        [3, 0],
        [7, 4],
        [4, 7],
        [0, 3],
        [-4, 7],
        [-7, 4],
        [-3, 0],
    ],
];
const DISC_RADIUS: i32 = 5;
const OPACITY: f64 = 0.75;

/// Units of a drawing; on a screen it takes about half as many pixels.
const PLANE_SIDE: u32 = 720;
const CURVE_SIZE: [u32; 2] = [800, 580];
const TEXT: u32 = 30;
const LEFT: u32 = 100;
const BELOW: u32 = 92;
const MARGIN: u32 = 24;

/// Items that are drawn alike.
pub struct Group {
    /// Its name.
    pub name: String,
    /// Places in the plane.
    pub points: Vec<[f64; 2]>,
}

/// Whether the numbers at the axes mean something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Axes {
    /// They are written.
    Numbered,
    /// Only a frame is drawn.
    Bare,
}

/// What is seen of the plane; a step is as long across as it is up.
#[derive(Debug, Clone, PartialEq)]
pub struct View([Range<f64>; 2]);

impl View {
    /// All points but far outliers.
    pub fn of<'a>(points: impl Iterator<Item = &'a [f64; 2]>) -> Self {
        let points: Vec<&[f64; 2]> = points.collect();
        Self(equal(
            [0, 1].map(|axis| bulk(points.iter().map(|point| point[axis]))),
        ))
    }

    fn shows(&self, point: &[f64; 2]) -> bool {
        self.0[0].contains(&point[0]) && self.0[1].contains(&point[1])
    }

    /// How many points lie outside.
    pub fn hidden<'a>(&self, points: impl Iterator<Item = &'a [f64; 2]>) -> usize {
        points.filter(|point| !self.shows(point)).count()
    }
}

/// Points in the plane: real items, then groups that lie over them.
pub fn plane(real: &Group, groups: &[Group], view: &View, axes: Axes, alt: &str) -> Markup {
    let (room, margin) = match axes {
        Axes::Numbered => ([LEFT, TEXT + MARGIN], MARGIN),
        Axes::Bare => ([0, 0], 2),
    };
    let size = room.map(|room| PLANE_SIDE + room);
    let svg = drawing(size, ("plane", alt), |root| {
        let both = [0, 1].map(|axis| Axis::over(view.0[axis].clone()));
        let border = Some(colour(GUIDE[0]).stroke_width(2));
        let look = Look {
            room,
            margin: [margin, 0],
            border,
            ..look([""; 2])
        };
        let mut chart = frame(root, both, &look)?;
        let seen = |group: &Group| -> Vec<(f64, f64)> {
            let shown = group.points.iter().filter(|point| view.shows(point));
            shown.map(|&[x, y]| (x, y)).collect()
        };
        let paint = |at: usize| colour(COLOURS[at][0]).mix(OPACITY).filled();
        chart.draw_series(
            seen(real)
                .into_iter()
                .map(|point| Circle::new(point, DISC_RADIUS, paint(0))),
        )?;
        for (at, group) in groups.iter().enumerate().take(MOST_GROUPS) {
            let corners: Vec<(i32, i32)> = SHAPES[at].iter().map(|&[x, y]| (x, y)).collect();
            chart.draw_series(seen(group).into_iter().map(|point| {
                EmptyElement::at(point) + Polygon::new(corners.clone(), paint(at + 1))
            }))?;
        }
        Ok(())
    });
    let groups = groups.iter().enumerate().take(MOST_GROUPS);
    let marks = groups.map(|(at, group)| (group_mark(at), group.name.as_str()));
    let marks = std::iter::once((disc_mark(COLOURS[0][0]), real.name.as_str())).chain(marks);
    html! { (legend(marks)) (svg) }
}

/// Shares of two lists of rising values at or below each value: real items dashed, others in full.
///
/// Both lists hold a value, and the last of one is above zero.
pub fn shares(real: &[f64], generated: &[f64], alt: &str) -> Markup {
    let end = reach(real, generated) * (1.0 + BLANK);
    let svg = drawing(CURVE_SIZE, ("curves", alt), |root| {
        let axes = [Axis::over(0.0..end), Axis::percent(0.0..1.0)];
        let words = [
            "distance to the nearest real item",
            "share of items within it",
        ];
        let mut chart = frame(root, axes, &look(words))?;
        for (values, at) in [(real, 0), (generated, 1)] {
            let style = colour(COLOURS[at][0]).stroke_width(4);
            chart.draw_series(LineSeries::new(steps(values, end), style))?;
        }
        Ok(())
    });
    let line =
        |at: usize| mark(&html! { path d="M-9 0H9" stroke=(COLOURS[at][0]) stroke-width="4" {} });
    let names = [
        (line(0), "real to the nearest other real"),
        (line(1), "generated to the nearest real"),
    ];
    html! { (legend(names.into_iter())) (svg) }
}

/// Colour of the curves of [`reliability`]: the last has that of generated items, the one before the real one's.
fn shade(at: usize) -> &'static str {
    COLOURS[[1, 0][at.min(1)]][0]
}

/// Predicted against seen shares: the diagonal is where they agree, and a disc grows with its items.
pub fn reliability(curves: &[(&str, Vec<[f64; 3]>)], alt: &str) -> Markup {
    let side = CURVE_SIZE[1];
    let svg = drawing([side + LEFT, side], ("curves", alt), |root| {
        let axes = [0, 1].map(|_| Axis::percent(0.0..1.0));
        let look = Look {
            margin: [MARGIN, TEXT],
            ..look(["predicted", "seen"])
        };
        let mut chart = frame(root, axes, &look)?;
        let guide = colour(INK[0]).stroke_width(1);
        chart.draw_series(LineSeries::new([(0.0, 0.0), (1.0, 1.0)], guide))?;
        for (at, (_, points)) in curves.iter().rev().enumerate() {
            let paint = colour(shade(at));
            let line = points.iter().map(|&[x, y, _]| (x, y));
            chart.draw_series(LineSeries::new(line, paint.stroke_width(4)))?;
            let disc = |&[x, y, share]: &[f64; 3]| {
                let radius = 4 + (20.0 * share.sqrt()) as i32;
                Circle::new((x, y), radius, paint.mix(OPACITY).filled())
            };
            chart.draw_series(points.iter().map(disc))?;
        }
        Ok(())
    });
    let marks = curves.iter().rev().enumerate();
    let marks = marks.map(|(at, (name, _))| (disc_mark(shade(at)), *name));
    html! { (legend(marks)) (svg) }
}

/// Where nearly all values of both lists end, or all of them where nearly all are zero.
fn reach(real: &[f64], generated: &[f64]) -> f64 {
    let within = |share: f64| {
        let last = |values: &[f64]| values[((values.len() - 1) as f64 * share) as usize];
        last(real).max(last(generated))
    };
    let nearly_all = within(1.0 - OUTLYING);
    if nearly_all.is_normal() {
        nearly_all
    } else {
        within(1.0)
    }
}

/// The share of values at or below each place, as a stair that ends where the axis does.
fn steps(values: &[f64], end: f64) -> Vec<(f64, f64)> {
    let share = |n: usize| n as f64 / values.len() as f64;
    let within = values.partition_point(|value| *value <= end);
    let mut stair = vec![(0.0, 0.0)];
    for (at, &value) in values[..within].iter().enumerate() {
        stair.extend([(value, share(at)), (value, share(at + 1))]);
    }
    stair.push((end, share(within)));
    stair
}

/// How frames look on a page.
fn look(words: [&str; 2]) -> Look<'_> {
    Look {
        text: TEXT,
        room: [LEFT + TEXT, BELOW],
        margin: [MARGIN, 0],
        tick: 5,
        stroke: 1,
        ink: colour(INK[0]),
        line: colour(INK[0]),
        guide: colour(GUIDE[0]),
        border: None,
        words,
    }
}

type Root<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

/// A drawing of a class, with what is read out where it cannot be seen.
fn drawing(
    [width, height]: [u32; 2],
    (class, alt): (&str, &str),
    draw: impl FnOnce(&Root<'_>) -> Drawn<(), SVGBackend<'static>>,
) -> Markup {
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, (width, height)).into_drawing_area();
        draw(&root)
            .and_then(|()| root.present())
            .expect("a text has room for any drawing");
    }
    // The outermost tag is ours.
    let (_, inside) = svg.split_once('>').expect("a drawing starts with a tag");
    let inside = inside.trim_end().trim_end_matches("</svg>");
    html! {
        svg role="img" class=(class) aria-label=(alt) width=(width) height=(height)
            viewBox={ "0 0 " (width) " " (height) } xmlns="http://www.w3.org/2000/svg" {
            (PreEscaped(inside))
        }
    }
}

fn legend<'a>(entries: impl Iterator<Item = (Markup, &'a str)>) -> Markup {
    html! {
        ul.legend {
            @for (mark, name) in entries { li { (mark) (name) } }
        }
    }
}

fn mark(shape: &Markup) -> Markup {
    html! { svg width="18" height="18" viewBox="-9 -9 18 18" aria-hidden="true" { (shape) } }
}

fn disc_mark(colour: &str) -> Markup {
    mark(&html! { circle r=(DISC_RADIUS) fill=(colour) {} })
}

fn group_mark(at: usize) -> Markup {
    let corners: Vec<String> = SHAPES[at].iter().map(|[x, y]| format!("{x},{y}")).collect();
    mark(&html! { polygon points=(corners.join(" ")) fill=(COLOURS[at + 1][0]) {} })
}

/// The colour that a text such as `#0069AA` names.
fn colour(text: &str) -> RGBColor {
    let value = u32::from_str_radix(&text[1..], 16).expect("colours here are six digits");
    let [_, red, green, blue] = value.to_be_bytes();
    RGBColor(red, green, blue)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_holds_the_bulk_and_counts_the_rest() {
        let mut points: Vec<[f64; 2]> = (0..1000).map(|i| [f64::from(i), 0.0]).collect();
        assert_eq!(
            View::of(points[..100].iter()).hidden(points[..100].iter()),
            0
        );
        points.push([1e12, 0.0]);
        let view = View::of(points.iter());
        assert_eq!(view.hidden(points.iter()), 1);
        assert!(view.0[0].end < 2000.0);
        let span = |axis: usize| view.0[axis].end - view.0[axis].start;
        assert!((span(0) - span(1)).abs() < 1e-9);
    }

    #[test]
    fn points_of_any_size_are_drawn() {
        for far in [0.0, 1e-300, 1e-5, 1.0, 1e20, 3e38] {
            let points = vec![[far, -far], [far, far], [-far, 0.0]];
            let group = |name: &str| Group {
                name: name.to_owned(),
                points: points.clone(),
            };
            let view = View::of(points.iter());
            for axes in [Axes::Numbered, Axes::Bare] {
                let svg = plane(
                    &group("real"),
                    &[group("a"), group("b")],
                    &view,
                    axes,
                    "alt",
                )
                .into_string();
                assert_eq!(svg.matches("<circle").count(), 4, "{far}");
                assert_eq!(svg.matches("<polygon").count(), 8, "{far}");
                assert!(!svg.contains("NaN") && !svg.contains("inf"), "{far}");
            }
        }
    }

    #[test]
    fn a_stair_rises_to_one_and_has_a_step_for_each_value() {
        let stair = steps(&[1.0, 1.0, 2.0, 9.0], 4.0);
        assert_eq!(stair.first(), Some(&(0.0, 0.0)));
        assert_eq!(stair.last(), Some(&(4.0, 0.75)));
        assert!(stair.contains(&(1.0, 0.5)) && stair.contains(&(2.0, 0.75)));
        assert_eq!(steps(&[1.0], 4.0).last(), Some(&(4.0, 1.0)));
    }

    #[test]
    fn a_curve_ends_with_the_bulk_unless_that_is_zero() {
        let mut values = vec![0.0; 1000];
        values.extend([3.0, 4.0]);
        assert_eq!(reach(&values, &[0.0]), 4.0);
        assert_eq!(reach(&values, &[1.0]), 1.0);
        assert_eq!(reach(&[2.0], &[0.0]), 2.0);
        assert!(!shares(&[0.0], &values, "").0.contains("NaN"));
    }

    #[test]
    fn names_of_groups_are_safe() {
        let group = Group {
            name: "<b>".to_owned(),
            points: vec![[0.0, 0.0]],
        };
        let view = View::of(group.points.iter());
        let svg = plane(&group, &[], &view, Axes::Bare, "\"<i>").into_string();
        assert!(!svg.contains("<b>") && !svg.contains("<i>"));
        assert!(svg.contains("&lt;b&gt;") && svg.contains("aria-label=\"&quot;&lt;i&gt;\""));
    }
}
