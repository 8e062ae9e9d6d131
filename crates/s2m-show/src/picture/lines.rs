//! Curves over steps or counts: small charts side by side, each with its own axes.

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::canvas::{Canvas, Colour};
use super::sheet::{
    Area, Done, INK, SMALL, SPACE, TITLE, drawn, line, look, paint, px, width, write,
};
use super::text::fit;
use crate::axis::{Axis, all, padded};
use crate::plot::frame;

/// Colours of the curves, told apart also by people who do not see red and green.
const COLOURS: [Colour; 5] = [
    [31, 95, 170],
    [213, 94, 0],
    [0, 140, 105],
    [170, 70, 140],
    [90, 90, 90],
];

const SIDE: [u32; 2] = [px(440), px(330)];
const EDGE: u32 = px(28);
const GAP: u32 = px(40);
const DOT: u32 = px(5);
const STROKE: u32 = px(3);
/// The line before a name in the legend.
const SAMPLE: u32 = px(40);
/// Most characters of the numbers below a chart.
const MOST_CHARACTERS: usize = 36;

/// One curve.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// Its name in the legend.
    pub name: String,
    /// Places and heights, from left to right; what is not finite is left out.
    pub points: Vec<[f64; 2]>,
}

/// One chart.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    /// Above it.
    pub title: String,
    /// Below it.
    pub x: String,
    /// The curves; those of one place in the list have one colour in all charts.
    pub curves: Vec<Curve>,
    /// Whether each axis counts in powers of ten.
    pub logarithmic: [bool; 2],
}

impl Chart {
    fn axes(&self) -> [Axis; 2] {
        [0, 1].map(|axis| {
            let points = self.curves.iter().flat_map(|curve| &curve.points);
            let values = points.map(|point| point[axis]);
            if self.logarithmic[axis] {
                Axis::powers(values)
            } else {
                Axis::over(padded(all(values)))
            }
        })
    }
}

/// Draws charts side by side, with one legend below; what is too long is cut.
pub fn charts(charts: &[Chart]) -> Canvas {
    let names = charts
        .iter()
        .map(|chart| chart.curves.as_slice())
        .max_by_key(|curves| curves.len())
        .unwrap_or_default();
    let axes: Vec<[Axis; 2]> = charts.iter().map(Chart::axes).collect();
    let labels = axes.iter().flat_map(|[_, y]| y.labels());
    let numbers = labels.map(|label| width(SMALL, &label)).max().unwrap_or(0);
    let [left, below] = look(numbers, ["x", ""]).room;
    let pitch = left + SIDE[0] + GAP;
    let across = 2 * EDGE + charts.len().max(1) as u32 * pitch - GAP;
    let top = EDGE + line(TITLE);
    let legend = top + SIDE[1] + below + SPACE;
    let height = legend + line(SMALL) * names.len() as u32 + EDGE;
    drawn([across, height], |sheet| {
        for (at, (chart, axes)) in charts.iter().zip(axes).enumerate() {
            let corner = EDGE + at as u32 * pitch;
            let title = fit(TITLE as f32, SIDE[0] as f32, &chart.title);
            write(
                sheet,
                (HPos::Left, [corner + left, EDGE]),
                (TITLE, INK),
                &title,
            )?;
            let size = (left + SIDE[0], SIDE[1] + below);
            draw(
                &sheet.clone().shrink((corner, top), size),
                chart,
                axes,
                numbers,
            )?;
        }
        for (at, curve) in names.iter().enumerate() {
            let y = legend + at as u32 * line(SMALL);
            let colour = paint(COLOURS[at % COLOURS.len()]);
            let middle = (y + line(SMALL) / 2).cast_signed();
            let [from, to] = [EDGE, EDGE + SAMPLE].map(u32::cast_signed);
            let sample = [(from, middle), (to, middle)];
            sheet.draw(&PathElement::new(sample, colour.stroke_width(STROKE)))?;
            let dot = (i32::midpoint(from, to), middle);
            sheet.draw(&Circle::new(dot, DOT, colour.filled()))?;
            let start = EDGE + SAMPLE + SPACE;
            let name = fit(SMALL as f32, (across - EDGE - start) as f32, &curve.name);
            write(sheet, (HPos::Left, [start, y]), (SMALL, INK), &name)?;
        }
        Ok(())
    })
}

fn draw(area: &Area<'_>, chart: &Chart, [x, y]: [Axis; 2], numbers: u32) -> Done {
    let words = fit(SMALL as f32, SIDE[0] as f32, &chart.x);
    let axes = [x.clone().spaced(MOST_CHARACTERS), y.clone()];
    let mut plot = frame(area, axes, &look(numbers, [&words, ""]))?;
    for (curve, colour) in chart.curves.iter().zip(COLOURS.into_iter().cycle()) {
        let shown = curve
            .points
            .iter()
            .filter(|p| x.shows(p[0]) && y.shows(p[1]));
        let points: Vec<(f64, f64)> = shown.map(|&[x, y]| (x, y)).collect();
        let dots = points
            .iter()
            .map(|&at| Circle::new(at, DOT, paint(colour).filled()));
        plot.draw_series(dots)?;
        plot.draw_series(LineSeries::new(points, paint(colour).stroke_width(STROKE)))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(points: &[[f64; 2]], logarithmic: [bool; 2]) -> Chart {
        Chart {
            title: "cost".to_owned(),
            x: "labels".to_owned(),
            curves: vec![Curve {
                name: "none".to_owned(),
                points: points.to_vec(),
            }],
            logarithmic,
        }
    }

    /// Pixels of the first curve's colour.
    fn dots(canvas: &Canvas) -> Vec<[i32; 2]> {
        let (width, height) = (canvas.width().cast_signed(), canvas.height().cast_signed());
        let pixels = (0..height).flat_map(|y| (0..width).map(move |x| [x, y]));
        let is_curve = |&[x, y]: &[i32; 2]| canvas.pixel(x, y) == Some(COLOURS[0]);
        pixels.filter(is_curve).collect()
    }

    #[test]
    fn points_lie_where_their_axes_say() {
        let points = [
            [1.0, 10.0],
            [5.0, 1e3],
            [9.0, 1e5],
            [9.0, f64::NAN],
            [9.0, 0.0],
        ];
        let one = chart(&points, [false, true]);
        let canvas = charts(std::slice::from_ref(&one));
        let legend = canvas.height().cast_signed() - 80;
        let all: Vec<_> = dots(&canvas)
            .into_iter()
            .filter(|at| at[1] < legend)
            .collect();
        let ends = [0, 1].map(|axis| {
            let places = || all.iter().map(|at| at[axis]);
            (places().min().unwrap(), places().max().unwrap())
        });
        // Nine tenths of an axis lie between the blanks at its ends, and half a dot beyond each.
        for ((low, high), side) in ends.into_iter().zip(SIDE) {
            let wanted = f64::from(side / px(1)) / 1.1 + 10.0;
            assert!(
                (f64::from(high - low) - wanted).abs() < 4.0,
                "{low} to {high}"
            );
        }
        let [middle_x, middle_y] = ends.map(|(low, high)| i32::midpoint(low, high));
        let is_middle =
            |at: &&[i32; 2]| at[0].abs_diff(middle_x) < 2 && at[1].abs_diff(middle_y) < 2;
        assert!(
            all.iter().find(is_middle).is_some(),
            "a straight line on a log axis"
        );
        assert!(charts(&[one.clone(), one]).width() > 2 * SIDE[0] / px(1));
    }

    #[test]
    fn every_chart_is_a_picture() {
        assert!(charts(&[]).to_png().is_ok());
        let odd = [
            f64::NAN,
            f64::INFINITY,
            -1.0,
            0.0,
            1e-320,
            1e-5,
            3.0,
            1e307,
            f64::MAX,
        ];
        let pairs: Vec<[f64; 2]> = odd.iter().flat_map(|&x| odd.map(|y| [x, y])).collect();
        for logarithmic in [[false, false], [true, false], [false, true], [true, true]] {
            let mut all = vec![chart(&[], logarithmic), chart(&pairs, logarithmic)];
            all.extend(pairs.iter().map(|&point| chart(&[point], logarithmic)));
            for chart in all {
                charts(std::slice::from_ref(&chart));
            }
        }
    }

    #[test]
    fn long_words_do_not_widen_a_chart() {
        let points = [[0.0, 0.0], [1.0, 1.0]];
        let mut long = chart(&points, [false, false]);
        let width = charts(std::slice::from_ref(&long)).width();
        long.title = "long ".repeat(200);
        long.x.clone_from(&long.title);
        long.curves[0].name.clone_from(&long.title);
        assert_eq!(charts(&[long]).width(), width);
    }
}
