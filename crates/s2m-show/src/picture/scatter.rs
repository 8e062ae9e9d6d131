//! Samples of one or two numbers as small plots, side by side and to one scale.
//!
//! Points are laid over one another as translucent discs. Where `k` discs of opacity `a` meet, the
//! paper keeps a share `(1 − a)^k` of its white, so darker means denser. The shares are kept as
//! fractions until a panel is done: rounded to bytes after each disc, faint ones would be lost.

use super::axis::{Axis, Range};
use super::canvas::{Canvas, Colour, visit_disc};
use super::font::{CAPITAL_ROWS, ROWS, fit, text_width, wrap};

const PAPER: Colour = [255, 255, 255];
const INK: Colour = [31, 35, 40];
const QUIET: Colour = [101, 109, 118];
const FRAME: Colour = [190, 196, 203];
const GUIDE: Colour = [238, 240, 243];
const MARK: Colour = [180, 186, 194];

/// Pixels for each dot of the font.
const HEADING_SCALE: u32 = 4;
const TITLE_SCALE: u32 = 3;
const SMALL_SCALE: u32 = 2;

/// Sides of a plot's frame; three columns fill a page of text at half size, which is sharp.
const PLOT_SIDE: u32 = 460;
const BARS_HEIGHT: u32 = 300;
const EDGE: u32 = 28;
const GAP: u32 = 36;
const TICK_LENGTH: u32 = 6;
const SPACE: u32 = 12;
const MOST_LINES: usize = 3;

const DISC_RADIUS: f32 = 2.0;
/// Up to this many points stay nearly solid; the opacity then falls with the root of the count.
const SOLID_POINTS: f32 = 250.0;
const OPACITY: std::ops::RangeInclusive<f32> = 0.06..=0.85;

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
/// beyond the limits are not drawn; a note in the panel counts them. Columns are at least one. No
/// panels, and panels without points, give a valid picture too.
pub fn scatter(panels: &[Panel], columns: usize, heading: &str) -> Canvas {
    let scales = Scales::of(panels);
    let layout = Layout::of(panels, columns, heading, &scales);
    let [width, height] = layout.sheet();
    let mut canvas = Canvas::new(width, height, PAPER);
    write_lines(
        &mut canvas,
        [EDGE, EDGE],
        HEADING_SCALE,
        INK,
        &layout.heading,
    );
    for (index, panel) in panels.iter().enumerate() {
        let plot = layout.plot(index, scales.axes(panel.drawing));
        draw_panel(&mut canvas, &plot, panel, scales.bins);
    }
    canvas
}

/// The axes that panels of one kind share.
#[derive(Debug, Clone, Copy)]
struct Scales {
    points: [Axis; 2],
    bars: [Axis; 2],
    bins: usize,
}

impl Scales {
    fn of(panels: &[Panel]) -> Self {
        let range = |drawing, coordinate| shared_range(panels, drawing, coordinate);
        let x = Axis::over(range(Drawing::Bars, 0));
        let bars = || panels.iter().filter(|p| p.drawing == Drawing::Bars);
        let bins = bin_count(bars().map(|p| p.points.len()).max().unwrap_or(0));
        let highest = bars()
            .flat_map(|panel| {
                shares(panel, x, bins)
                    .into_iter()
                    .chain(curve_shares(panel, x, bins))
            })
            .fold(0.0, f64::max);
        Self {
            points: Axis::equal(range(Drawing::Points, 0), range(Drawing::Points, 1)),
            bars: [x, Axis::from_zero(100.0 * highest)],
            bins,
        }
    }

    fn axes(&self, drawing: Drawing) -> [Axis; 2] {
        match drawing {
            Drawing::Points => self.points,
            Drawing::Bars => self.bars,
        }
    }
}

/// What the panels of one kind need shown of one coordinate.
///
/// Each panel has its own bulk, so that a small panel is not an outlier among large ones.
fn shared_range(panels: &[Panel], drawing: Drawing, coordinate: usize) -> Option<Range> {
    let values = |places: &[[f32; 2]]| -> Vec<f32> {
        let finite = places.iter().filter(|&&p| is_usable(drawing, p));
        finite.map(|p| p[coordinate]).collect()
    };
    panels
        .iter()
        .filter(|panel| panel.drawing == drawing)
        .flat_map(|panel| {
            let bulk = Range::of_bulk(values(&panel.points).into_iter());
            let curve = match drawing {
                Drawing::Points => &[][..],
                Drawing::Bars => &panel.curve,
            };
            let all = |places| Range::of_all(values(places).into_iter());
            [bulk, all(&panel.marks), all(curve)]
        })
        .flatten()
        .reduce(Range::union)
}

/// Whether the coordinates that a drawing looks at are finite.
fn is_usable(drawing: Drawing, place: [f32; 2]) -> bool {
    let used = match drawing {
        Drawing::Points => 2,
        Drawing::Bars => 1,
    };
    place[..used].iter().all(|c| c.is_finite())
}

/// Bars for so many points: the root of the count, within what can be seen.
fn bin_count(points: usize) -> usize {
    ((points as f64).sqrt().ceil() as usize).clamp(10, 60)
}

/// The share of a panel's points in each bar.
fn shares(panel: &Panel, x: Axis, bins: usize) -> Vec<f64> {
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

/// The share that a bar at each place of the curve would have, were it the density there.
fn curve_shares(panel: &Panel, x: Axis, bins: usize) -> impl Iterator<Item = f64> {
    let width = x.span() / bins as f64;
    panel
        .curve
        .iter()
        .map(move |place| width * f64::from(place[1]))
}

/// Where things go, in pixels.
#[derive(Debug)]
struct Layout {
    columns: usize,
    heading: Vec<String>,
    /// Width of the tick labels to the left of a plot.
    labels: u32,
    /// Width and height of a plot.
    plot: [u32; 2],
    /// Lines of the longest caption in each row of panels.
    captions: Vec<u32>, // [rows]
}

impl Layout {
    fn of(panels: &[Panel], columns: usize, heading: &str, scales: &Scales) -> Self {
        let columns = columns.clamp(1, panels.len().max(1));
        let only_bars = !panels.is_empty() && panels.iter().all(|p| p.drawing == Drawing::Bars);
        let mut layout = Self {
            columns,
            heading: Vec::new(),
            labels: widest_label(panels, scales),
            plot: [PLOT_SIDE, if only_bars { BARS_HEIGHT } else { PLOT_SIDE }],
            captions: panels.chunks(columns).map(most_caption_lines).collect(),
        };
        let width = layout.sheet()[0] - 2 * EDGE;
        layout.heading = wrap(HEADING_SCALE, width, MOST_LINES, heading);
        layout
    }

    /// Pixels left of a plot that belong to it.
    fn left(&self) -> u32 {
        self.labels + TICK_LENGTH + SPACE
    }

    /// Height of a row of panels with its title and captions, and of the gap below.
    fn row_height(&self, caption_lines: u32) -> u32 {
        let below = TICK_LENGTH + SPACE + line_height(SMALL_SCALE) * (caption_lines + 1);
        line_height(TITLE_SCALE) + self.plot[1] + below + GAP
    }

    /// Height of all that is above a row of panels.
    fn above(&self, row: usize) -> u32 {
        let lines = self.heading.len() as u32;
        let gap = if lines > 0 { SPACE } else { 0 };
        let rows = self.captions[..row].iter();
        let rows: u32 = rows.map(|&lines| self.row_height(lines)).sum();
        EDGE + lines * line_height(HEADING_SCALE) + gap + rows
    }

    fn sheet(&self) -> [u32; 2] {
        let across = (self.left() + self.plot[0] + GAP) * self.columns as u32;
        let last_gap = if self.captions.is_empty() { 0 } else { GAP };
        let down = self.above(self.captions.len()) - last_gap;
        [2 * EDGE + across - GAP, down + EDGE]
    }

    fn plot(&self, index: usize, axes: [Axis; 2]) -> Plot {
        let (column, row) = ((index % self.columns) as u32, index / self.columns);
        let across = self.left() + self.plot[0] + GAP;
        let corner = [
            EDGE + column * across + self.left(),
            self.above(row) + line_height(TITLE_SCALE),
        ];
        Plot {
            corner,
            size: self.plot,
            axes,
        }
    }
}

fn widest_label(panels: &[Panel], scales: &Scales) -> u32 {
    panels
        .iter()
        .flat_map(|panel| height_labels(panel.drawing, scales.axes(panel.drawing)[1]))
        .map(|(_, label)| text_width(SMALL_SCALE, &label))
        .max()
        .unwrap_or(0)
}

fn most_caption_lines(row: &[Panel]) -> u32 {
    let lines = row.iter().map(|panel| caption_lines(panel).len() as u32);
    lines.max().unwrap_or(0)
}

/// A line of text and the space to the next.
fn line_height(scale: u32) -> u32 {
    scale * (ROWS + 3)
}

fn caption_lines(panel: &Panel) -> Vec<String> {
    wrap(SMALL_SCALE, PLOT_SIDE, MOST_LINES, &panel.caption)
}

/// Places and labels of the ticks on the upright axis; heights of bars are in per cent.
fn height_labels(drawing: Drawing, axis: Axis) -> Vec<(f64, String)> {
    let unit = if drawing == Drawing::Bars { "%" } else { "" };
    let with_unit = |label: String| label + unit;
    let ticks = axis.ticks().into_iter();
    ticks
        .map(|t| (axis.place(t.value), with_unit(t.label)))
        .collect()
}

/// The inside of one frame, and what its pixels stand for.
#[derive(Debug, Clone, Copy)]
struct Plot {
    corner: [u32; 2],
    size: [u32; 2],
    axes: [Axis; 2],
}

impl Plot {
    /// Where a point lies, in pixels from the top left of the frame; nothing outside of it.
    fn locate(&self, point: [f32; 2]) -> Option<[f32; 2]> {
        let [x, y] = [0, 1].map(|i| self.axes[i].place(f64::from(point[i])));
        let is_inside = [x, y].iter().all(|place| (0.0..=1.0).contains(place));
        let [width, height] = self.size.map(f64::from);
        is_inside.then_some([(x * width) as f32, ((1.0 - y) * height) as f32])
    }

    /// The pixel on the sheet of a pixel in the frame.
    fn on_sheet(&self, x: i32, y: i32) -> [i32; 2] {
        [
            x.saturating_add_unsigned(self.corner[0]),
            y.saturating_add_unsigned(self.corner[1]),
        ]
    }

    /// The column of pixels at a share of the width, from 0 to 1.
    fn column(&self, place: f64) -> i32 {
        (place * f64::from(self.size[0] - 1)).round() as i32
    }

    /// The row of pixels at a share of the height, from 0 (bottom) to 1 (top).
    fn row(&self, place: f64) -> i32 {
        ((1.0 - place) * f64::from(self.size[1] - 1)).round() as i32
    }
}

fn draw_panel(canvas: &mut Canvas, plot: &Plot, panel: &Panel, bins: usize) {
    draw_words(canvas, plot, panel);
    draw_axes(canvas, plot, panel.drawing);
    match panel.drawing {
        Drawing::Points => {
            draw_rings(canvas, plot, &panel.marks);
            draw_points(canvas, plot, panel);
        }
        Drawing::Bars => {
            draw_uprights(canvas, plot, &panel.marks);
            draw_bars(canvas, plot, panel, bins);
            draw_curve(canvas, plot, panel, bins);
        }
    }
    let [width, height] = plot.size;
    canvas.rectangle(plot.on_sheet(-1, -1), [width + 2, height + 2], FRAME);
    draw_note(canvas, plot, panel);
}

/// Title and caption, both flush with the frame.
fn draw_words(canvas: &mut Canvas, plot: &Plot, panel: &Panel) {
    let title = fit(TITLE_SCALE, plot.size[0], &panel.title);
    let [x, y] = plot.on_sheet(0, -line_height(TITLE_SCALE).cast_signed());
    canvas.text(x, y, TITLE_SCALE, INK, &title);
    let below = TICK_LENGTH + SPACE + line_height(SMALL_SCALE);
    let corner = [plot.corner[0], plot.corner[1] + plot.size[1] + below];
    write_lines(canvas, corner, SMALL_SCALE, QUIET, &caption_lines(panel));
}

fn write_lines(
    canvas: &mut Canvas,
    corner: [u32; 2],
    scale: u32,
    colour: Colour,
    lines: &[String],
) {
    let mut top = corner[1];
    for line in lines {
        canvas.text(
            corner[0].cast_signed(),
            top.cast_signed(),
            scale,
            colour,
            line,
        );
        top += line_height(scale);
    }
}

/// Faint guides, ticks and their numbers.
fn draw_axes(canvas: &mut Canvas, plot: &Plot, drawing: Drawing) {
    let mut free_from = i32::MIN;
    for tick in plot.axes[0].ticks() {
        let at = plot.column(plot.axes[0].place(tick.value));
        canvas.fill(plot.on_sheet(at, 0), [1, plot.size[1]], GUIDE);
        canvas.fill(
            plot.on_sheet(at, plot.size[1].cast_signed()),
            [1, TICK_LENGTH],
            FRAME,
        );
        let width = text_width(SMALL_SCALE, &tick.label).cast_signed();
        if at - width / 2 >= free_from {
            let below = plot.size[1] + TICK_LENGTH + SPACE / 2;
            let [x, y] = plot.on_sheet(at - width / 2, below.cast_signed());
            canvas.text(x, y, SMALL_SCALE, QUIET, &tick.label);
            free_from = at + width / 2 + SPACE.cast_signed();
        }
    }
    let tick_length = TICK_LENGTH.cast_signed();
    for (place, label) in height_labels(drawing, plot.axes[1]) {
        let at = plot.row(place);
        canvas.fill(plot.on_sheet(0, at), [plot.size[0], 1], GUIDE);
        canvas.fill(plot.on_sheet(-tick_length, at), [TICK_LENGTH, 1], FRAME);
        let left =
            -tick_length - SPACE.cast_signed() / 2 - text_width(SMALL_SCALE, &label).cast_signed();
        let [x, y] = plot.on_sheet(left, at - (SMALL_SCALE * CAPITAL_ROWS / 2).cast_signed());
        canvas.text(x, y, SMALL_SCALE, QUIET, &label);
    }
}

fn draw_rings(canvas: &mut Canvas, plot: &Plot, marks: &[[f32; 2]]) {
    for [x, y] in marks.iter().filter_map(|&mark| plot.locate(mark)) {
        let centre = [x + plot.corner[0] as f32, y + plot.corner[1] as f32];
        canvas.ring(centre, 8.0, 1.6, MARK);
    }
}

fn draw_uprights(canvas: &mut Canvas, plot: &Plot, marks: &[[f32; 2]]) {
    let places = marks
        .iter()
        .map(|mark| plot.axes[0].place(f64::from(mark[0])));
    for place in places.filter(|place| (0.0..=1.0).contains(place)) {
        canvas.fill(
            plot.on_sheet(plot.column(place), 0),
            [2, plot.size[1]],
            MARK,
        );
    }
}

/// Opacity of one disc among so many.
fn opacity(points: usize) -> f32 {
    (SOLID_POINTS / points.max(1) as f32)
        .sqrt()
        .clamp(*OPACITY.start(), *OPACITY.end())
}

fn draw_points(canvas: &mut Canvas, plot: &Plot, panel: &Panel) {
    let white = white_left(plot, panel);
    let [width, height] = plot.size.map(u32::cast_signed);
    let places = (0..height).flat_map(|y| (0..width).map(move |x| (x, y)));
    for ((x, y), white) in places.zip(white).filter(|&(_, white)| white < 1.0) {
        let [x, y] = plot.on_sheet(x, y);
        canvas.blend(x, y, panel.colour, 1.0 - white);
    }
}

/// The share of white that each pixel of a plot keeps under all its discs, row by row.
fn white_left(plot: &Plot, panel: &Panel) -> Vec<f32> {
    let [width, height] = plot.size.map(|side| side as usize);
    let alpha = opacity(panel.points.len());
    let mut white = vec![1.0; width * height]; // [height, width]
    for centre in panel.points.iter().filter_map(|&point| plot.locate(point)) {
        visit_disc(centre, DISC_RADIUS, |x, y, coverage| {
            let (Ok(x), Ok(y)) = (usize::try_from(x), usize::try_from(y)) else {
                return;
            };
            if x < width && y < height {
                white[y * width + x] *= 1.0 - alpha * coverage;
            }
        });
    }
    white
}

fn draw_bars(canvas: &mut Canvas, plot: &Plot, panel: &Panel, bins: usize) {
    let edge = |bin: usize| (bin as u32 * plot.size[0] / bins as u32).cast_signed();
    for (bin, share) in shares(panel, plot.axes[0], bins).into_iter().enumerate() {
        let top = plot.row(plot.axes[1].place(100.0 * share));
        let width = (edge(bin + 1) - edge(bin) - 1).max(1).cast_unsigned();
        let height = plot.size[1].saturating_sub(top.max(0).cast_unsigned());
        if share > 0.0 {
            canvas.fill(plot.on_sheet(edge(bin), top), [width, height], panel.colour);
        }
    }
}

/// The curve as a line about three pixels wide, in the unit of the bars.
fn draw_curve(canvas: &mut Canvas, plot: &Plot, panel: &Panel, bins: usize) {
    let heights = curve_shares(panel, plot.axes[0], bins).map(|share| 100.0 * share);
    let places: Vec<[i32; 2]> = panel
        .curve
        .iter()
        .zip(heights)
        .map(|(place, height)| {
            let across = plot.column(plot.axes[0].place(f64::from(place[0])));
            [across, plot.row(plot.axes[1].place(height))]
        })
        .collect();
    for pair in places.windows(2) {
        for [dx, dy] in [[0, 0], [-1, 0], [1, 0], [0, -1], [0, 1]] {
            let [from, to] = [pair[0], pair[1]].map(|[x, y]| plot.on_sheet(x + dx, y + dy));
            canvas.line(from, to, INK);
        }
    }
}

/// Says what the panel does not show.
fn draw_note(canvas: &mut Canvas, plot: &Plot, panel: &Panel) {
    let Some(note) = note(plot, panel) else {
        return;
    };
    let left = plot.size[0].saturating_sub(text_width(SMALL_SCALE, &note) + SPACE);
    let [x, y] = plot.on_sheet(left.cast_signed(), SPACE.cast_signed());
    canvas.text(x, y, SMALL_SCALE, QUIET, &note);
}

fn note(plot: &Plot, panel: &Panel) -> Option<String> {
    if panel.points.is_empty() {
        return Some("no points".to_owned());
    }
    let is_shown = |point: &&[f32; 2]| match panel.drawing {
        Drawing::Points => plot.locate(**point).is_some(),
        Drawing::Bars => (0.0..=1.0).contains(&plot.axes[0].place(f64::from(point[0]))),
    };
    let hidden = panel.points.len() - panel.points.iter().filter(is_shown).count();
    (hidden > 0).then(|| format!("{hidden} out of view"))
}

#[cfg(test)]
mod tests;
