//! Pictures side by side, as many as can be looked at.

use maud::{Markup, html};
use s2m_data::channels::Channels;
use s2m_data::picture_file::Picture;
use s2m_data::resize::{Filter, resize};
use s2m_show::page::html::{count, counted, png_address};
use s2m_show::picture::Canvas;

use super::super::items::{ItemSet, Items, Pictures};
use super::{evenly, name_of};
use crate::Error;

/// Most pictures in a grid, and fewest where there are many grids.
const SHOWN: [usize; 2] = [8, 64];
/// Pictures in all grids of queries together, about.
const SHOWN_IN_ALL: usize = 1024;
/// Pictures in a row.
const COLUMNS: usize = 8;
/// Larger pictures are made smaller, to this many pixels on the longer side.
const LONGEST: usize = 96;
/// Small pictures are enlarged by a whole factor while a full row stays within so many pixels.
const WIDEST: usize = 560;
/// Pixels between pictures.
const GAP: usize = 1;
/// Between pictures: neither dark nor light.
const BACKGROUND: [u8; 3] = [128, 132, 140];

/// A grid of real pictures, then one for each set of generated ones.
pub(super) fn grids(real: &[ItemSet], generated: &[ItemSet]) -> Result<Markup, Error> {
    let most = (SHOWN_IN_ALL / generated.len().max(1)).clamp(SHOWN[0], SHOWN[1]);
    Ok(html! {
        (grid("real", real, SHOWN[1])?)
        @for set in generated { (grid(&name_of(set), std::slice::from_ref(set), most)?) }
    })
}

/// One grid of the pictures of some sets, taken evenly; nothing where there are none.
fn grid(name: &str, sets: &[ItemSet], most: usize) -> Result<Markup, Error> {
    let all: Vec<(&Pictures, usize)> = sets
        .iter()
        .filter_map(|set| match &set.items {
            Items::Pictures(pictures) => Some(pictures),
            Items::Rows(_) => None,
        })
        .flat_map(|pictures| (0..pictures.len()).map(move |at| (pictures, at)))
        .collect();
    let shown = evenly(all.len(), most)
        .map(|at| Ok(fitted(&all[at].0.read(all[at].1)?)))
        .collect::<Result<Vec<_>, Error>>()?;
    if shown.is_empty() {
        return Ok(html! {});
    }
    let sheet = sheet(&shown);
    let natural = [sheet.width() as usize, sheet.height() as usize];
    let row = COLUMNS * natural[0] / shown.len().min(COLUMNS);
    let factor = (WIDEST / row).max(1);
    let [width, height] = natural.map(|side| side * factor);
    let address = png_address(&sheet.to_png()?);
    let of = counted(all.len(), "image", "images");
    let shown = count(shown.len());
    Ok(html! {
        figure {
            img src=(address) width=(width) height=(height)
                class=(if factor > 1 { "enlarged" } else { "natural" })
                alt={ (shown) " of the " (of) ": " (name) };
            figcaption { strong { (name) } " " (shown) " of " (of) }
        }
    })
}

/// A picture in colour, no longer than a cell.
fn fitted(picture: &Picture) -> Picture {
    let picture = picture.to_channels(Channels::Rgb);
    let longer = picture.width.max(picture.height);
    if longer <= LONGEST {
        return picture;
    }
    let shrunk = |side: usize| (side * LONGEST).div_ceil(longer).max(1);
    let (width, height) = (shrunk(picture.width), shrunk(picture.height));
    let levels: Vec<f32> = picture.bytes.iter().map(|&level| level.into()).collect();
    let from = [picture.height, picture.width];
    let levels = resize(&levels, from, 3, [height, width], Filter::Bicubic);
    Picture {
        width,
        height,
        channels: Channels::Rgb,
        // Casting cuts what a cubic overshoots.
        bytes: levels.iter().map(|level| level.round() as u8).collect(),
    }
}

/// Pictures row by row, each in the middle of its cell.
fn sheet(pictures: &[Picture]) -> Canvas {
    let most = |side: fn(&Picture) -> usize| pictures.iter().map(side).max().unwrap_or(1);
    let cell = [most(|p| p.width), most(|p| p.height)];
    let columns = pictures.len().clamp(1, COLUMNS);
    let rows = pictures.len().div_ceil(columns);
    let extent = |cells: usize, side: usize| (cells * (side + GAP) + GAP) as u32;
    let mut canvas = Canvas::new(extent(columns, cell[0]), extent(rows, cell[1]), BACKGROUND);
    for (at, picture) in pictures.iter().enumerate() {
        let left = GAP + at % columns * (cell[0] + GAP) + (cell[0] - picture.width) / 2;
        let top = GAP + at / columns * (cell[1] + GAP) + (cell[1] - picture.height) / 2;
        let (pixels, _) = picture.bytes.as_chunks::<3>();
        for (pixel, &colour) in pixels.iter().enumerate() {
            let (x, y) = (left + pixel % picture.width, top + pixel / picture.width);
            canvas.set(x as i32, y as i32, colour);
        }
    }
    canvas
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture(width: usize, height: usize, level: u8) -> Picture {
        Picture {
            width,
            height,
            channels: Channels::Grey,
            bytes: vec![level; width * height],
        }
    }

    #[test]
    fn small_pictures_keep_their_pixels_and_large_ones_their_shape() {
        let small = fitted(&picture(28, 20, 7));
        assert_eq!((small.width, small.height), (28, 20));
        assert_eq!(small.bytes, vec![7; 3 * 28 * 20]);
        let large = fitted(&picture(1000, 3, 255));
        assert_eq!((large.width, large.height), (LONGEST, 1));
        assert!(large.bytes.iter().all(|&level| level == 255));
    }

    #[test]
    fn pictures_of_different_sizes_share_a_sheet() {
        let shown =
            [picture(2, 4, 255), picture(4, 2, 0), picture(4, 4, 9)].map(|one| fitted(&one));
        let sheet = sheet(&shown);
        assert_eq!((sheet.width(), sheet.height()), (3 * 5 + 1, 4 + 2));
        // The first is two pixels wide, in the middle of four.
        assert_eq!(sheet.pixel(1, 1), Some(BACKGROUND));
        assert_eq!(sheet.pixel(2, 1), Some([255; 3]));
        assert_eq!(sheet.pixel(6, 2), Some([0; 3]));
        assert_eq!(sheet.pixel(11, 1), Some([9; 3]));
    }
}
