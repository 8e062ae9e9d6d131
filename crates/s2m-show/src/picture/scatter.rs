//! Samples of one or two numbers as small plots, side by side and to one scale.
//!
//! Points are laid over one another as translucent discs, so darker means denser.

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::canvas::{Canvas, Colour};
use super::sheet::{
    Area, Done, INK, QUIET, SMALL, SPACE, TITLE, drawn, line, look, paint, px, width, write,
};
use super::text::{fit, wrap};
use crate::axis::{Axis, Ends, all, bulk, equal, padded, union};
use crate::plot::frame;

const MARK: Colour = [180, 186, 194];
const HEADING: u32 = px(36);

/// Sides of a plot's frame; three columns fill a page of text at half size, which is sharp.
const SIDE: u32 = px(460);
const BARS_HEIGHT: u32 = px(300);
const EDGE: u32 = px(28);
const GAP: u32 = px(36);
const MOST_LINES: usize = 3;
/// Most characters of the numbers below a plot.
const MOST_CHARACTERS: usize = 36;

const DISC_RADIUS: u32 = px(2);
const RING_RADIUS: u32 = px(8);
/// Up to this many points stay nearly solid; the opacity then falls with the root of the count.
const SOLID_POINTS: f64 = 250.0;
const OPACITY: std::ops::RangeInclusive<f64> = 0.06..=0.85;

/// How a panel shows its points.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Drawing {
    /// A disc for each point.
    #[default]
    Points,
    /// A histogram of the first coordinate; the second is ignored.
    Bars,
}

/// One plot of a figure.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Panel {
    /// Written above the plot; cut where it is too long.
    pub title: String,
    /// Written below the plot, smaller, on up to three lines.
    pub caption: String,
    /// Points that are not finite are not drawn, and counted as out of view.
    pub points: Vec<[f32; 2]>,
    /// Places to compare with, such as true modes: grey rings, or lines behind bars.
    pub marks: Vec<[f32; 2]>,
    /// A density to hold bars against, as places and heights from left to right; drawn as a line.
    pub curve: Vec<[f32; 2]>,
    /// Colour of points and bars.
    pub colour: Colour,
    /// How points are drawn.
    pub drawing: Drawing,
}

/// Draws panels row by row under a heading.
///
/// All panels of points share their limits, with equal axes, and so do all panels of bars. Points
/// beyond the limits are not drawn; a note above the panel counts them. Columns are at least one. No
/// panels, and panels without points, give a valid picture too.
pub fn scatter(panels: &[Panel], columns: usize, heading: &str) -> Canvas {
    let scales = Scales::of(panels);
    let layout = Layout::of(panels, &scales);
    let columns = columns.clamp(1, panels.len().max(1));
    let [width, height] = layout.size();
    let [pitch_x, pitch_y] = [width + GAP, height + GAP];
    let across = 2 * EDGE + columns as u32 * pitch_x - GAP;
    let heading = wrap(
        HEADING as f32,
        (across - 2 * EDGE) as f32,
        MOST_LINES,
        heading,
    );
    let gap = if heading.is_empty() { 0 } else { SPACE };
    let top = EDGE + heading.len() as u32 * line(HEADING) + gap;
    let rows = panels.len().div_ceil(columns) as u32;
    let down = top + (rows * pitch_y).saturating_sub(GAP) + EDGE;
    drawn([across, down], |sheet| {
        write_lines(sheet, [EDGE, EDGE], (HEADING, INK), &heading)?;
        for (index, panel) in panels.iter().enumerate() {
            let [x, y] = [index % columns, index / columns].map(|at| at as u32);
            let corner = (EDGE + x * pitch_x, top + y * pitch_y);
            let cell = sheet.clone().shrink(corner, (width, height));
            layout.draw(&cell, panel, &scales)?;
        }
        Ok(())
    })
}

/// The axes that panels of one kind share.
#[derive(Debug, Clone)]
struct Scales {
    points: [Axis; 2],
    bars: [Axis; 2],
    bins: usize,
}

impl Scales {
    fn of(panels: &[Panel]) -> Self {
        let ends = |drawing, coordinate| shared_ends(panels, drawing, coordinate);
        let x = Axis::over(padded(ends(Drawing::Bars, 0)));
        let bars = || panels.iter().filter(|p| p.drawing == Drawing::Bars);
        let bins = bin_count(bars().map(|p| p.points.len()).max().unwrap_or(0));
        let heights = bars().flat_map(|panel| {
            let curve = curve_shares(panel, &x, bins).map(|place| place.1);
            shares(panel, &x, bins).into_iter().chain(curve)
        });
        let highest = heights.fold(0.0, f64::max);
        let top = if highest > 0.0 {
            padded(Some([0.0, highest])).end
        } else {
            0.01
        };
        let both = equal([ends(Drawing::Points, 0), ends(Drawing::Points, 1)]);
        Self {
            points: both.map(Axis::over),
            bars: [x, Axis::percent(0.0..top)],
            bins,
        }
    }

    fn axes(&self, drawing: Drawing) -> &[Axis; 2] {
        match drawing {
            Drawing::Points => &self.points,
            Drawing::Bars => &self.bars,
        }
    }

    /// Points of a panel that its axes show.
    fn shown<'a>(
        &self,
        panel: &'a Panel,
        places: &'a [[f32; 2]],
    ) -> impl Iterator<Item = (f64, f64)> {
        let [x, y] = self.axes(panel.drawing);
        let places = places.iter().map(|place| place.map(f64::from));
        let is_shown = move |at: &[f64; 2]| {
            x.shows(at[0]) && (panel.drawing == Drawing::Bars || y.shows(at[1]))
        };
        places.filter(is_shown).map(Into::into)
    }
}

/// What the panels of one kind need shown of one coordinate.
///
/// Each panel has its own bulk, so that a small panel is not an outlier among large ones.
fn shared_ends(panels: &[Panel], drawing: Drawing, coordinate: usize) -> Option<Ends> {
    let used = match drawing {
        Drawing::Points => 2,
        Drawing::Bars => 1,
    };
    let values = |places: &[[f32; 2]]| -> Vec<f64> {
        let finite = |place: &&[f32; 2]| place[..used].iter().all(|c| c.is_finite());
        places
            .iter()
            .filter(finite)
            .map(|p| f64::from(p[coordinate]))
            .collect()
    };
    let alike = panels.iter().filter(|panel| panel.drawing == drawing);
    let ends = alike.flat_map(|panel| {
        let curve = match drawing {
            Drawing::Points => &[][..],
            Drawing::Bars => &panel.curve,
        };
        [
            bulk(values(&panel.points).into_iter()),
            all(values(&panel.marks).into_iter()),
            all(values(curve).into_iter()),
        ]
    });
    ends.flatten().reduce(union)
}

/// Bars for so many points: the root of the count, within what can be seen.
fn bin_count(points: usize) -> usize {
    ((points as f64).sqrt().ceil() as usize).clamp(10, 60)
}

/// The share of a panel's points in each bar.
fn shares(panel: &Panel, x: &Axis, bins: usize) -> Vec<f64> {
    let mut counts = vec![0_usize; bins];
    let finite = panel.points.iter().filter(|p| p[0].is_finite());
    for place in finite.clone().map(|p| x.place(f64::from(p[0]))) {
        if (0.0..=1.0).contains(&place) {
            let bin = (place * bins as f64) as usize;
            counts[bin.min(bins - 1)] += 1;
        }
    }
    let total = finite.count().max(1) as f64;
    counts.iter().map(|&count| count as f64 / total).collect()
}

/// Places of the curve, and the share that a bar there would have, were the curve the density.
fn curve_shares(panel: &Panel, x: &Axis, bins: usize) -> impl Iterator<Item = (f64, f64)> {
    let width = x.span() / bins as f64;
    let finite = panel
        .curve
        .iter()
        .filter(|p| p.iter().all(|c| c.is_finite()));
    finite.map(move |p| (f64::from(p[0]), width * f64::from(p[1])))
}

/// Where things go in every panel.
#[derive(Debug)]
struct Layout {
    /// Width of the numbers to the left of a plot.
    numbers: u32,
    /// What numbers take to the left of a plot and below.
    room: [u32; 2],
    height: u32,
    /// Lines of the longest caption.
    captions: u32,
}

impl Layout {
    fn of(panels: &[Panel], scales: &Scales) -> Self {
        let labels = panels
            .iter()
            .flat_map(|p| scales.axes(p.drawing)[1].labels());
        let numbers = labels.map(|label| width(SMALL, &label)).max().unwrap_or(0);
        let only_bars = panels.iter().all(|p| p.drawing == Drawing::Bars);
        let captions = panels.iter().map(|panel| caption(panel).len() as u32);
        Self {
            numbers,
            room: look(numbers, [""; 2]).room,
            height: if only_bars { BARS_HEIGHT } else { SIDE },
            captions: captions.max().unwrap_or(0),
        }
    }

    fn size(&self) -> [u32; 2] {
        let height = line(TITLE) + self.height + self.room[1] + self.captions * line(SMALL);
        [self.room[0] + SIDE, height]
    }

    fn draw(&self, cell: &Area<'_>, panel: &Panel, scales: &Scales) -> Done {
        let left = self.room[0];
        let note = note(panel, scales).unwrap_or_default();
        let title = fit(
            TITLE as f32,
            (SIDE - width(SMALL, &note) - SPACE) as f32,
            &panel.title,
        );
        write(cell, (HPos::Left, [left, 0]), (TITLE, INK), &title)?;
        let end = [left + SIDE, TITLE - SMALL];
        write(cell, (HPos::Right, end), (SMALL, QUIET), &note)?;
        let below = line(TITLE) + self.height + self.room[1];
        write_lines(cell, [left, below], (SMALL, QUIET), &caption(panel))?;
        let size = (left + SIDE, self.height + self.room[1]);
        self.plot(&cell.clone().shrink((0, line(TITLE)), size), panel, scales)
    }

    fn plot(&self, area: &Area<'_>, panel: &Panel, scales: &Scales) -> Done {
        let [x, y] = scales.axes(panel.drawing).clone();
        let axes = [x.clone().spaced(MOST_CHARACTERS), y];
        let mut plot = frame(area, axes, &look(self.numbers, [""; 2]))?;
        let marks = scales.shown(panel, &panel.marks);
        let colour = paint(panel.colour);
        match panel.drawing {
            Drawing::Points => {
                let style = paint(MARK).stroke_width(px(2));
                plot.draw_series(marks.map(|at| Circle::new(at, RING_RADIUS, style)))?;
                let style = colour.mix(opacity(panel.points.len())).filled();
                let points = scales.shown(panel, &panel.points);
                plot.draw_series(points.map(|at| Circle::new(at, DISC_RADIUS, style)))?;
            }
            Drawing::Bars => {
                let top = plot.y_range().end;
                let style = paint(MARK).stroke_width(px(2));
                let upright = |(x, _)| PathElement::new([(x, 0.0), (x, top)], style);
                plot.draw_series(marks.map(upright))?;
                let start = plot.x_range().start;
                let edge = |bin: usize| start + x.span() * bin as f64 / scales.bins as f64;
                let bars = shares(panel, &x, scales.bins).into_iter().enumerate();
                plot.draw_series(bars.filter(|bar| bar.1 > 0.0).map(|(bin, share)| {
                    let corners = [(edge(bin), share), (edge(bin + 1), 0.0)];
                    let mut bar = Rectangle::new(corners, colour.filled());
                    bar.set_margin(0, 0, 0, px(1));
                    bar
                }))?;
                let curve = curve_shares(panel, &x, scales.bins);
                plot.draw_series(LineSeries::new(curve, paint(INK).stroke_width(px(3))))?;
            }
        }
        Ok(())
    }
}

fn caption(panel: &Panel) -> Vec<String> {
    wrap(SMALL as f32, SIDE as f32, MOST_LINES, &panel.caption)
}

fn write_lines(
    area: &Area<'_>,
    [x, mut y]: [u32; 2],
    style: (u32, Colour),
    lines: &[String],
) -> Done {
    for text in lines {
        write(area, (HPos::Left, [x, y]), style, text)?;
        y += line(style.0);
    }
    Ok(())
}

/// Opacity of one disc among so many.
fn opacity(points: usize) -> f64 {
    (SOLID_POINTS / points.max(1) as f64)
        .sqrt()
        .clamp(*OPACITY.start(), *OPACITY.end())
}

/// Says what a panel does not show.
fn note(panel: &Panel, scales: &Scales) -> Option<String> {
    if panel.points.is_empty() {
        return Some("no points".to_owned());
    }
    let hidden = panel.points.len() - scales.shown(panel, &panel.points).count();
    (hidden > 0).then(|| format!("{hidden} out of view"))
}

#[cfg(test)]
mod tests;
