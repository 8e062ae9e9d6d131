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
mod tests {
    use super::*;

    fn panel(points: Vec<[f32; 2]>) -> Panel {
        Panel {
            title: "title".to_owned(),
            caption: "caption".to_owned(),
            points,
            colour: [200, 30, 30],
            ..Panel::default()
        }
    }

    fn count(canvas: &Canvas, wanted: impl Fn(Colour) -> bool) -> usize {
        let (width, height) = (canvas.width().cast_signed(), canvas.height().cast_signed());
        (0..height)
            .flat_map(|y| (0..width).map(move |x| (x, y)))
            .filter(|&(x, y)| canvas.pixel(x, y).is_some_and(&wanted))
            .count()
    }

    fn is_reddish([r, g, b]: Colour) -> bool {
        g == b && r > g.saturating_add(20)
    }

    fn square(side: f32) -> Vec<[f32; 2]> {
        vec![[0.0, 0.0], [0.0, side], [side, 0.0], [side, side]]
    }

    #[test]
    fn nothing_at_all_is_still_a_picture() {
        for heading in [
            "",
            "A heading that is far too long for an empty sheet, so it is wrapped",
        ] {
            let canvas = scatter(&[], 0, heading);
            assert!(canvas.to_png().is_ok());
        }
    }

    #[test]
    fn panels_without_a_finite_point_are_drawn_empty() {
        let odd = vec![[f32::NAN, 0.0], [f32::INFINITY, f32::NAN]];
        for drawing in [Drawing::Points, Drawing::Bars] {
            for points in [vec![], odd.clone()] {
                let empty = Panel {
                    drawing,
                    marks: odd.clone(),
                    ..panel(points)
                };
                let canvas = scatter(&[empty.clone(), Panel::default(), empty], 2, "");
                assert_eq!(count(&canvas, is_reddish), 0);
            }
        }
    }

    #[test]
    fn points_of_any_size_give_a_picture() {
        for side in [0.0, 1e-40, 1e-5, 1.0, 1e20, f32::MAX] {
            for drawing in [Drawing::Points, Drawing::Bars] {
                let panel = Panel {
                    drawing,
                    marks: square(-side),
                    ..panel(square(side))
                };
                assert!(count(&scatter(&[panel], 1, ""), is_reddish) > 0, "{side}");
            }
        }
    }

    #[test]
    fn four_points_are_four_discs() {
        let canvas = scatter(&[panel(square(1.0))], 1, "");
        let area = count(&canvas, is_reddish);
        assert!((4 * 12..=4 * 24).contains(&area), "{area}");
    }

    #[test]
    fn one_step_is_as_long_across_as_it_is_up() {
        let scales = Scales::of(&[panel(vec![[0.0, 0.0], [10.0, 1.0]]), panel(square(2.0))]);
        let plot = Plot {
            corner: [0, 0],
            size: [PLOT_SIDE; 2],
            axes: scales.points,
        };
        let [x0, y0] = plot.locate([1.0, 0.5]).unwrap();
        let [x1, y1] = plot.locate([2.0, 1.5]).unwrap();
        assert!((x1 - x0 - (y0 - y1)).abs() < 1e-3);
        assert!(y1 < y0, "larger values are higher up");
    }

    #[test]
    fn a_small_panel_is_not_an_outlier_among_large_ones() {
        let large = panel((0..10_000).map(|i| [i as f32 / 1e4, 0.0]).collect());
        let small = panel(vec![[5.0, 5.0]; 3]);
        let axes = Scales::of(&[large, small.clone()]).points;
        let plot = Plot {
            corner: [0, 0],
            size: [PLOT_SIDE; 2],
            axes,
        };
        assert_eq!(note(&plot, &small), None);
    }

    #[test]
    fn points_out_of_view_are_counted_in_a_note() {
        let mut points: Vec<_> = (0..1000).map(|i| [i as f32, (i % 10) as f32]).collect();
        points.extend([[1e9, 0.0], [f32::NAN, 0.0]]);
        for drawing in [Drawing::Points, Drawing::Bars] {
            let panel = Panel {
                drawing,
                ..panel(points.clone())
            };
            let axes = Scales::of(std::slice::from_ref(&panel)).axes(drawing);
            let plot = Plot {
                corner: [0, 0],
                size: [PLOT_SIDE; 2],
                axes,
            };
            assert_eq!(note(&plot, &panel).as_deref(), Some("2 out of view"));
        }
    }

    #[test]
    fn more_points_are_fainter_but_never_invisible() {
        let opacities = [0, 100, 1_000, 10_000, usize::MAX].map(opacity);
        assert!(opacities.is_sorted_by(|a, b| a >= b), "{opacities:?}");
        assert!(opacities[4] > 0.05);
    }

    #[test]
    fn bars_hold_every_point_once() {
        let points: Vec<_> = (0..=1000)
            .map(|i| [i as f32 / 7.0, f32::from(i as i16)])
            .collect();
        let bars = Panel {
            drawing: Drawing::Bars,
            ..panel(points)
        };
        let scales = Scales::of(std::slice::from_ref(&bars));
        let total: f64 = shares(&bars, scales.bars[0], scales.bins).iter().sum();
        assert!((total - 1.0).abs() < 1e-12, "{total}");
    }

    #[test]
    fn a_point_on_either_end_of_the_axis_is_in_the_bar_there() {
        let ends = panel(vec![[0.0, 0.0], [1.0, 0.0], [1.0, 0.0], [1.0, 0.0]]);
        let from_zero_to_one = Axis::from_zero(0.0);
        assert_eq!(shares(&ends, from_zero_to_one, 3), [0.25, 0.0, 0.75]);
    }

    #[test]
    fn bars_ignore_the_second_coordinate() {
        let bars = |y| Panel {
            drawing: Drawing::Bars,
            ..panel(vec![[0.0, y], [1.0, y], [1.5, y]])
        };
        assert_eq!(
            scatter(&[bars(0.0)], 1, ""),
            scatter(&[bars(f32::NAN)], 1, "")
        );
    }

    #[test]
    fn taller_bars_stand_for_more_points() {
        let mut points = vec![[0.0, 0.0]; 30];
        points.extend(vec![[1.0, 0.0]; 10]);
        let bars = Panel {
            drawing: Drawing::Bars,
            ..panel(points)
        };
        let canvas = scatter(&[bars], 1, "");
        let is_bar = |x, y| canvas.pixel(x, y).is_some_and(is_reddish);
        let heights: Vec<usize> = (0..canvas.width().cast_signed())
            .map(|x| {
                (0..canvas.height().cast_signed())
                    .filter(|&y| is_bar(x, y))
                    .count()
            })
            .filter(|&height| height > 0)
            .collect();
        let (first, last) = (heights[0] as f64, heights[heights.len() - 1] as f64);
        assert!((first / last - 3.0).abs() < 0.05, "{first} and {last}");
    }

    /// Even points and their own density: the line runs along the tops of the bars.
    #[test]
    fn a_curve_is_in_the_unit_of_the_bars() {
        let even = Panel {
            drawing: Drawing::Bars,
            curve: (0..=20).map(|i| [i as f32 / 10.0, 0.5]).collect(),
            ..panel((0..3000).map(|i| [i as f32 / 1500.0, 0.0]).collect())
        };
        let scales = Scales::of(std::slice::from_ref(&even));
        let bars = shares(&even, scales.bars[0], scales.bins);
        let middle = bars[bars.len() / 2];
        for share in curve_shares(&even, scales.bars[0], scales.bins) {
            assert!((share / middle - 1.0).abs() < 0.05, "{share} {middle}");
        }
        let without = Panel {
            curve: Vec::new(),
            ..even.clone()
        };
        let ink = |panel: &Panel| {
            let canvas = scatter(std::slice::from_ref(panel), 1, "");
            count(&canvas, |colour| colour == INK)
        };
        // Three pixels for each column between the two ends, which the margin leaves out.
        let drawn = ink(&even) - ink(&without);
        assert!((1200..=3 * 460).contains(&drawn), "{drawn}");
    }

    #[test]
    fn faint_discs_on_one_place_add_up_to_the_full_colour() {
        let many = panel(vec![[0.0, 0.0]; 100_000]);
        let canvas = scatter(&[many], 1, "");
        assert!(count(&canvas, |colour| colour == [200, 30, 30]) > 0);
    }

    #[test]
    fn only_the_longest_caption_of_a_row_makes_it_higher() {
        let long = Panel {
            caption: "one\ntwo\nthree\nfour".to_owned(),
            ..panel(vec![])
        };
        let height = |panels: &[Panel]| scatter(panels, 2, "").height();
        let short = || panel(vec![]);
        let base = height(&[short(), short(), short()]);
        let step = 2 * line_height(SMALL_SCALE);
        assert_eq!(height(&[long.clone(), long.clone(), short()]), base + step);
        assert_eq!(height(&[long.clone(), short(), long]), base + 2 * step);
    }

    #[test]
    fn columns_stay_between_one_and_the_number_of_panels() {
        let panels = vec![panel(square(1.0)); 3];
        let width = |columns| scatter(&panels, columns, "").width();
        assert_eq!(width(0), width(1));
        assert_eq!(width(3), width(usize::MAX));
        assert!(width(2) > width(1));
    }

    #[test]
    fn equal_panels_give_equal_bytes() {
        let draw = || {
            scatter(&[panel(square(3.0))], 1, "heading")
                .to_png()
                .unwrap()
        };
        assert_eq!(draw(), draw());
    }
}
