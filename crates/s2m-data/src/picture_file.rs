//! Picture files: one PNG or JPEG becomes rows of bytes.
//!
//! The first bytes of a file tell its kind, never its name. Colours become what Pillow's
//! `convert("L")` (files without colour) and `convert("RGB")` (all others, palettes too) give, with
//! these choices written down:
//!
//! - alpha is dropped, not blended, and so is a transparent colour;
//! - 16 bits become 8 by keeping the high byte. Pillow does so for colour; 16-bit grey it clips at
//!   255, which turns nearly all of a picture white, so there we differ on purpose;
//! - grey of 1, 2 or 4 bits is stretched to 0 to 255;
//! - JPEG levels agree with Pillow's to a few levels: the standard leaves the rounding open;
//! - colour profiles, gamma and the orientation in Exif data are ignored, as Pillow does on opening.
//!
//! Files come from anywhere: a picture's memory is reserved only where a file of that length could
//! hold so many pixels.
//!
//! References: <https://pillow.readthedocs.io/en/stable/handbook/concepts.html#modes>;
//! <https://www.w3.org/TR/png-3/>; ITU-T Recommendation T.81 (JPEG).

use std::io::{Cursor, Read as _};
use std::path::Path;

use png::{ColorType, Transformations};

use crate::channels::Channels;
use crate::error::Error;
use crate::jpeg::Jpeg;
use crate::plain_file;

/// Longest side of a picture, in pixels.
pub const MAX_SIDE: u32 = 16_384;

/// Most bytes of a picture file; a photograph of 16,384 × 16,384 pixels stays below.
pub const MAX_FILE_BYTES: u64 = 1 << 28;

/// Bytes that one byte of deflate can become at most: 258 for every two bits.
pub(crate) const DEFLATE_GAIN: u64 = 1032;

/// Pixels that one byte of JPEG can become at most: 64, a block, for every bit.
const JPEG_GAIN: u64 = 512;

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";
const JPEG: &[u8] = &[0xff, 0xd8, 0xff];

fn hexadecimal(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return "nothing, it is empty".to_owned();
    }
    let pairs: Vec<_> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    pairs.join(" ")
}

/// A decoded picture: 0 is black, 255 is white.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    /// Pixels in a row.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// What each pixel holds.
    pub channels: Channels,
    /// `[height, width, channels]`, row by row from the top.
    pub bytes: Vec<u8>,
}

impl Picture {
    /// The picture in grey or in colour.
    ///
    /// Grey is repeated for all three colours. Colour becomes its ITU-R 601-2 luma,
    /// `0.299 R + 0.587 G + 0.114 B`, in Pillow's whole numbers: each factor times 2¹⁶, rounded.
    #[must_use]
    pub fn to_channels(&self, channels: Channels) -> Self {
        let bytes = match (self.channels, channels) {
            (Channels::Grey, Channels::Rgb) => {
                self.bytes.iter().flat_map(|&grey| [grey; 3]).collect()
            }
            (Channels::Rgb, Channels::Grey) => {
                let (pixels, _) = self.bytes.as_chunks();
                pixels.iter().copied().map(luma).collect()
            }
            _ => self.bytes.clone(),
        };
        Self {
            channels,
            bytes,
            ..*self
        }
    }
}

fn luma(rgb: [u8; 3]) -> u8 {
    let [r, g, b] = rgb.map(u32::from);
    let sum = 19_595 * r + 38_470 * g + 7_471 * b; // the factors add up to 2¹⁶
    ((sum + (1 << 15)) >> 16) as u8
}

/// Reads a PNG or JPEG file.
pub fn read(path: &Path) -> Result<Picture, Error> {
    let failed = Error::reading(path);
    let file = plain_file::open(path).map_err(failed)?;
    let length = file.metadata().map_err(failed)?.len();
    let mut bytes = Vec::new();
    if length <= MAX_FILE_BYTES {
        bytes.reserve_exact(length as usize);
        let mut limited = file.take(MAX_FILE_BYTES + 1);
        limited.read_to_end(&mut bytes).map_err(failed)?;
    }
    if length.max(bytes.len() as u64) > MAX_FILE_BYTES {
        return Err(too_long(path));
    }
    decode(&bytes, path)
}

/// Of a file beyond the limit.
pub(crate) fn too_long(path: &Path) -> Error {
    Error::too_large(format!(
        "`{}` is longer than {MAX_FILE_BYTES} bytes, the most for an image",
        path.display()
    ))
}

/// Decodes the bytes of a PNG or JPEG file; `path` names them where that fails.
pub fn decode(bytes: &[u8], path: &Path) -> Result<Picture, Error> {
    let source = Source { bytes, path };
    if bytes.starts_with(PNG) {
        source.png()
    } else if bytes.starts_with(JPEG) {
        source.jpeg()
    } else {
        Err(Error::unsupported(format!(
            "`{}` is neither PNG nor JPEG: it starts with {}",
            path.display(),
            hexadecimal(&bytes[..bytes.len().min(PNG.len())])
        )))
    }
}

/// The bytes of a file with its name.
struct Source<'a> {
    bytes: &'a [u8],
    path: &'a Path,
}

impl Source<'_> {
    fn png(&self) -> Result<Picture, Error> {
        let failed = |source: png::DecodingError| {
            Error::malformed(format!(
                "could not decode the PNG `{}`: {source}",
                self.path.display()
            ))
            .because(source)
        };
        let mut decoder = png::Decoder::new(Cursor::new(self.bytes));
        decoder.set_transformations(Transformations::EXPAND | Transformations::STRIP_16);
        decoder.set_ignore_text_chunk(true);
        decoder.set_ignore_iccp_chunk(true);
        let header = decoder.read_header_info().map_err(failed)?;
        let (width, height) = (header.width, header.height);
        let rows = u64::from(height) * header.raw_row_length() as u64;
        self.check(width, height, rows <= DEFLATE_GAIN * self.length())?;
        let mut reader = decoder.read_info().map_err(failed)?;
        let (colours, _) = reader.output_color_type();
        let numbers = width as usize * height as usize * colours.samples();
        let mut bytes = vec![0; numbers];
        reader.next_frame(&mut bytes).map_err(failed)?;
        let (channels, bytes) = match colours {
            ColorType::Grayscale => (Channels::Grey, bytes),
            ColorType::GrayscaleAlpha => (Channels::Grey, without_alpha::<2>(&bytes)),
            ColorType::Rgba => (Channels::Rgb, without_alpha::<4>(&bytes)),
            // The decoder has replaced palettes by their colours.
            ColorType::Rgb | ColorType::Indexed => (Channels::Rgb, bytes),
        };
        Ok(Picture {
            width: width as usize,
            height: height as usize,
            channels,
            bytes,
        })
    }

    fn jpeg(&self) -> Result<Picture, Error> {
        let failed = |error: Error| {
            error.within(format_args!(
                "could not decode the JPEG `{}`",
                self.path.display()
            ))
        };
        let mut jpeg = Jpeg::open(self.bytes).map_err(failed)?;
        let channels = jpeg.channels.map_err(|found| {
            Error::unsupported(format!(
                "`{}` is a JPEG of {found}, which cannot be read\nhint: save it as RGB",
                self.path.display()
            ))
        })?;
        let (width, height) = (jpeg.width, jpeg.height);
        let holds = (width * height) as u64 <= JPEG_GAIN * self.length();
        self.check(width as u32, height as u32, holds)?;
        Ok(Picture {
            width,
            height,
            channels,
            bytes: jpeg.pixels().map_err(failed)?,
        })
    }

    fn length(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Refuses sides beyond the limit, and pictures that the file cannot hold.
    fn check(&self, width: u32, height: u32, holds: bool) -> Result<(), Error> {
        let path = self.path.display();
        if [width, height]
            .iter()
            .any(|side| !(1..=MAX_SIDE).contains(side))
        {
            return Err(Error::too_large(format!(
                "`{path}` is {width} × {height} pixels; a side has 1 to {MAX_SIDE}"
            )));
        }
        if !holds {
            return Err(Error::malformed(format!(
                "`{path}` is {width} × {height} pixels by its header, but has only {} bytes\nhint: the file is cut short; fetch it again",
                self.bytes.len()
            )));
        }
        Ok(())
    }
}

/// Pixels of N numbers without the last one.
fn without_alpha<const N: usize>(bytes: &[u8]) -> Vec<u8> {
    let (pixels, _) = bytes.as_chunks::<N>();
    pixels
        .iter()
        .flat_map(|pixel| &pixel[..N - 1])
        .copied()
        .collect()
}

#[cfg(test)]
mod tests;
