//! The frame of every plot: its axes, their numbers and words, and the lines behind what is drawn.

use plotters::coord::Shift;
use plotters::coord::cartesian::Cartesian2d;
use plotters::prelude::*;

use crate::axis::Axis;

/// A frame to draw in, in the units of its axes.
pub(crate) type Chart<'a, DB> = ChartContext<'a, DB, Cartesian2d<Axis, Axis>>;
/// Whether drawing went well.
pub(crate) type Drawn<T, DB> = Result<T, DrawingAreaErrorKind<<DB as DrawingBackend>::ErrorType>>;

/// What a frame looks like.
pub(crate) struct Look<'a> {
    /// Height of a line of text.
    pub(crate) text: u32,
    /// Room on the left and below for numbers and words; without it they are not written, and no lines drawn.
    pub(crate) room: [u32; 2],
    /// Blank on all sides, and more on the right.
    pub(crate) margin: [u32; 2],
    /// Length of a tick; numbers stand twice as far from the axis.
    pub(crate) tick: u32,
    /// Width of ticks and guides.
    pub(crate) stroke: u32,
    /// Colour of what is written.
    pub(crate) ink: RGBColor,
    /// Colour of axes and ticks.
    pub(crate) line: RGBColor,
    /// Colour of the lines behind what is drawn.
    pub(crate) guide: RGBColor,
    /// The line on the sides without an axis, if there is one.
    pub(crate) border: Option<ShapeStyle>,
    /// What the numbers are, across and up; empty where that is clear.
    pub(crate) words: [&'a str; 2],
}

/// Draws a frame for an axis across and one up.
pub(crate) fn frame<'a, DB: DrawingBackend>(
    area: &'a DrawingArea<DB, Shift>,
    [x, y]: [Axis; 2],
    look: &Look<'_>,
) -> Drawn<Chart<'a, DB>, DB> {
    let [left, below] = look.room;
    let [margin, right] = look.margin;
    let mut chart = ChartBuilder::on(area)
        .margin(margin)
        .margin_right(margin + right)
        .x_label_area_size(below)
        .y_label_area_size(left)
        .build_cartesian_2d(x, y)?;
    let mut mesh = chart.configure_mesh();
    mesh.bold_line_style(look.guide.stroke_width(look.stroke))
        .axis_style(look.line.stroke_width(look.stroke))
        .label_style(("sans-serif", look.text).into_font().color(&look.ink))
        .set_all_tick_mark_size(look.tick);
    if look.room == [0, 0] {
        mesh.disable_mesh().disable_axes();
    }
    let [across, up] = look.words;
    if !across.is_empty() {
        mesh.x_desc(across);
    }
    if !up.is_empty() {
        mesh.y_desc(up);
    }
    mesh.draw()?;
    if let Some(border) = look.border {
        let inside = chart.plotting_area().strip_coord_spec();
        let (right, low) = inside.dim_in_pixel();
        let (right, low) = (right.cast_signed(), low.cast_signed());
        let mut corners = vec![(0, 0), (right, 0), (right, low)];
        // The other sides are the axes.
        if look.room == [0, 0] {
            corners.extend([(0, low), (0, 0)]);
        }
        inside.draw(&PathElement::new(corners, border))?;
    }
    Ok(chart)
}
