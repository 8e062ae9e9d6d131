//! Pictures of samples: PNG files, montages, scatter plots, histograms and curves.
//!
//! Plots are drawn by `plotters`, as on pages. The font is part of the program, so that a picture needs
//! no installed one, and the same samples always give the same bytes.

mod canvas;
mod grid;
mod lines;
mod rows;
mod scatter;
mod sheet;
mod text;

use crate::Error;

pub use canvas::{Canvas, Colour};
pub use grid::{Picture, image_grid};
pub use lines::{Chart, Curve, charts};
pub use rows::{Mark, Marked, Row, Section, named_rows};
pub use scatter::{Drawing, Panel, scatter};

/// What a PNG header says about its pixels.
#[derive(Debug, Clone, Copy)]
struct Format {
    width: u32,
    height: u32,
    colour: png::ColorType,
    depth: png::BitDepth,
}

/// Writes packed rows as a PNG; equal input gives equal bytes.
///
/// The bytes, though not the pixels, may change with the version of `png` or the backend of its
/// `flate2`. The fast setting would avoid `flate2`, but makes plots up to four times larger.
fn encode(format: Format, rows: &[u8]) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, format.width, format.height);
    encoder.set_color(format.colour);
    encoder.set_depth(format.depth);
    encoder.set_compression(png::Compression::Balanced);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(rows)?;
    writer.finish()?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_the_wrong_length_are_an_error_and_not_a_broken_file() {
        let format = Format {
            width: 2,
            height: 2,
            colour: png::ColorType::Grayscale,
            depth: png::BitDepth::Eight,
        };
        let err = encode(format, &[0; 3]).unwrap_err();
        assert!(matches!(err, Error::Encode(_)));
        assert_eq!(err.to_string(), "writing the PNG");
    }

    #[test]
    fn public_types_cross_threads() {
        fn crosses<T: Send + Sync>() {}
        crosses::<(Canvas, Picture, Panel, Drawing, Section, Error)>();
    }
}
