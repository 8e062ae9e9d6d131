//! Curves over steps or counts: small charts side by side, each with its own axes.

use super::axis::{Axis, Range};
use super::canvas::{Canvas, Colour};
use super::font::{CAPITAL_ROWS, text_width};

const PAPER: Colour = [255, 255, 255];
const INK: Colour = [31, 35, 40];
const QUIET: Colour = [101, 109, 118];
const FRAME: Colour = [190, 196, 203];
const GUIDE: Colour = [238, 240, 243];

/// Colours of the curves, told apart also by people who do not see red and green.
const COLOURS: [Colour; 5] = [
    [31, 95, 170],
    [213, 94, 0],
    [0, 140, 105],
    [170, 70, 140],
    [90, 90, 90],
];

const SIDE: [u32; 2] = [440, 330];
const EDGE: u32 = 28;
const LEFT: u32 = 96;
const GAP: u32 = 40;
const SPACE: u32 = 12;
const SCALE: u32 = 2;
const TITLE_SCALE: u32 = 3;
const DOT: f32 = 5.0;

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

/// Draws charts side by side, with one legend below.
pub fn charts(charts: &[Chart]) -> Canvas {
    let [width, height] = SIDE;
    let line = SCALE * CAPITAL_ROWS;
    let names: Vec<&str> = charts
        .iter()
        .max_by_key(|chart| chart.curves.len())
        .map(|chart| {
            chart
                .curves
                .iter()
                .map(|curve| curve.name.as_str())
                .collect()
        })
        .unwrap_or_default();
    let top = EDGE + TITLE_SCALE * CAPITAL_ROWS + 2 * SPACE;
    let bottom = 4 * SPACE + 2 * line;
    let legend = (line + SPACE) * names.len() as u32;
    let sheet = [
        charts.len().max(1) as u32 * (LEFT + width + GAP) + EDGE,
        top + height + bottom + legend + EDGE,
    ];
    let mut canvas = Canvas::new(sheet[0], sheet[1], PAPER);
    for (at, chart) in charts.iter().enumerate() {
        let corner = [(at as u32 * (LEFT + width + GAP) + LEFT) as i32, top as i32];
        draw(&mut canvas, chart, corner);
    }
    for (at, name) in names.iter().enumerate() {
        let y = (top + height + bottom) as i32 + at as i32 * (line + SPACE) as i32;
        let colour = COLOURS[at % COLOURS.len()];
        let middle = y + line as i32 / 2;
        thick_line(
            &mut canvas,
            [LEFT as i32, middle],
            [LEFT as i32 + 40, middle],
            colour,
        );
        canvas.disc([LEFT as f32 + 20.0, middle as f32], DOT, colour, 1.0);
        canvas.text(LEFT as i32 + 52, y, SCALE, INK, name);
    }
    canvas
}

fn draw(canvas: &mut Canvas, chart: &Chart, corner: [i32; 2]) {
    let [width, height] = SIDE;
    let axes = [0, 1].map(|axis| Scale::of(chart, axis));
    canvas.text(
        corner[0],
        corner[1] - (TITLE_SCALE * CAPITAL_ROWS + SPACE) as i32,
        TITLE_SCALE,
        INK,
        &chart.title,
    );
    let line = (SCALE * CAPITAL_ROWS) as i32;
    let right = corner[0] + width as i32;
    let low = corner[1] + height as i32;
    for (place, label) in axes[0].ticks() {
        let x = corner[0] + (place * f64::from(width)) as i32;
        canvas.line([x, corner[1]], [x, low], GUIDE);
        let half = text_width(SCALE, &label) as i32 / 2;
        canvas.text(x - half, low + SPACE as i32, SCALE, QUIET, &label);
    }
    for (place, label) in axes[1].ticks() {
        let y = low - (place * f64::from(height)) as i32;
        canvas.line([corner[0], y], [right, y], GUIDE);
        let wide = text_width(SCALE, &label) as i32;
        canvas.text(
            corner[0] - SPACE as i32 - wide,
            y - line / 2,
            SCALE,
            QUIET,
            &label,
        );
    }
    canvas.rectangle(corner, SIDE, FRAME);
    let middle = corner[0] + (width as i32 - text_width(SCALE, &chart.x) as i32) / 2;
    canvas.text(
        middle,
        low + 2 * SPACE as i32 + line,
        SCALE,
        QUIET,
        &chart.x,
    );
    for (curve, colour) in chart.curves.iter().zip(COLOURS.iter().cycle()) {
        let mut before: Option<[i32; 2]> = None;
        for point in &curve.points {
            let places = [0, 1].map(|axis| axes[axis].place(point[axis]));
            let [Some(x), Some(y)] = places else { continue };
            let at = [
                corner[0] + (x * f64::from(width)) as i32,
                low - (y * f64::from(height)) as i32,
            ];
            if let Some(from) = before {
                thick_line(canvas, from, at, *colour);
            }
            canvas.disc([at[0] as f32, at[1] as f32], DOT, *colour, 1.0);
            before = Some(at);
        }
    }
}

fn thick_line(canvas: &mut Canvas, from: [i32; 2], to: [i32; 2], colour: Colour) {
    for shift in -1..=1 {
        let moved = |p: [i32; 2]| [p[0], p[1] + shift];
        canvas.line(moved(from), moved(to), colour);
    }
}

/// One axis of a chart.
struct Scale {
    axis: Axis,
    logarithmic: bool,
    /// Whole powers of ten that it covers.
    powers: std::ops::RangeInclusive<i32>,
}

impl Scale {
    fn of(chart: &Chart, axis: usize) -> Self {
        let logarithmic = chart.logarithmic[axis];
        let points = chart.curves.iter().flat_map(|curve| &curve.points);
        let values: Vec<f64> = points
            .map(|point| point[axis])
            .filter(|v| v.is_finite() && (!logarithmic || *v > 0.0))
            .map(|v| if logarithmic { v.log10() } else { v })
            .collect();
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let powers = if logarithmic && !values.is_empty() {
            least.floor() as i32..=most.ceil() as i32
        } else {
            0..=0
        };
        let range = if logarithmic {
            Range::of_all([*powers.start() as f32, *powers.end() as f32].into_iter())
        } else {
            Range::of_all(values.iter().map(|&v| v as f32))
        };
        Self {
            axis: Axis::over(range),
            logarithmic,
            powers,
        }
    }

    fn place(&self, value: f64) -> Option<f64> {
        let value = if self.logarithmic {
            value.log10()
        } else {
            value
        };
        value.is_finite().then(|| self.axis.place(value))
    }

    fn ticks(&self) -> Vec<(f64, String)> {
        if self.logarithmic {
            let powers = self.powers.clone();
            return powers
                .map(|power| (self.axis.place(f64::from(power)), short(power)))
                .collect();
        }
        let ticks = self.axis.ticks().into_iter();
        ticks
            .map(|tick| (self.axis.place(tick.value), tick.label))
            .collect()
    }
}

/// A power of ten as people write it.
fn short(power: i32) -> String {
    match power {
        -3..=0 => format!(
            "{:.*}",
            usize::try_from(-power).unwrap_or(0),
            10_f64.powi(power)
        ),
        1..=5 => 10_u32.pow(power.unsigned_abs()).to_string(),
        _ => format!("1e{power}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_lie_where_their_axes_say() {
        let chart = Chart {
            title: "cost".to_owned(),
            x: "labels".to_owned(),
            curves: vec![Curve {
                name: "none".to_owned(),
                points: vec![[1.0, 10.0], [8.0, 100_000.0], [9.0, f64::NAN]],
            }],
            logarithmic: [false, true],
        };
        let scale = Scale::of(&chart, 1);
        let labels: Vec<String> = scale.ticks().into_iter().map(|t| t.1).collect();
        assert_eq!(labels, ["10", "100", "1000", "10000", "100000"]);
        assert!((scale.place(1000.0).unwrap() - 0.5).abs() < 1e-9);
        assert_eq!(scale.place(0.0), None);
        let canvas = charts(&[chart.clone(), chart]);
        assert!(canvas.width() > 2 * SIDE[0]);
        assert!(canvas.to_png().is_ok());
        assert!(charts(&[]).to_png().is_ok());
        assert_eq!([-2, 0, 3, 7].map(short), ["0.01", "1", "1000", "1e7"]);
    }
}
