//! JPEG files: `zune-jpeg` decodes, and what it leaves open is decided here.
//!
//! - A file that is cut short is refused: the decoder fills up what is missing in the last row of blocks.
//! - Three components with Adobe's mark 0 are red, green and blue; the decoder takes them for CMYK.
//!
//! Levels differ from libjpeg's (and so Pillow's) where colours have half the resolution, as in most files:
//! over 3,000 pictures of CelebA by 0.3 on average and 5 at most, and by more in the last column and row where
//! those cut through a block. They are the same with and without the CPU's vector instructions.
//!
//! Reference: ITU-T Recommendation T.81 (JPEG); sections below are of it.

use std::borrow::Cow;

use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

use crate::channels::Channels;
use crate::error::Error;

/// A file whose header has been read.
pub(crate) struct Jpeg<'a> {
    pub(crate) width: usize,
    pub(crate) height: usize,
    /// What each pixel holds, or else the name of its colours.
    pub(crate) channels: Result<Channels, &'static str>,
    bytes: &'a [u8],
    decoder: Decoder<'a>,
}

type Decoder<'a> = JpegDecoder<ZCursor<Cow<'a, [u8]>>>;

impl<'a> Jpeg<'a> {
    /// Reads the header; no memory is reserved for pixels.
    pub(crate) fn open(bytes: &'a [u8]) -> Result<Self, Error> {
        let mut decoder = decoder(bytes.into())?;
        let header = decoder.info().expect("it is there once it has been read");
        let (channels, out) = match (header.components, decoder.input_colorspace()) {
            (1, _) => (Ok(Channels::Grey), ColorSpace::Luma),
            (3, Some(ColorSpace::CMYK)) => {
                // Without the mark they are taken for YCbCr, and given as they are stored.
                decoder = self::decoder(without_mark(bytes).into())?;
                (Ok(Channels::Rgb), ColorSpace::YCbCr)
            }
            (3, _) => (Ok(Channels::Rgb), ColorSpace::RGB),
            (4, _) => (Err("CMYK colours"), ColorSpace::CMYK),
            _ => (Err("neither 1, 3 nor 4 channels"), ColorSpace::Unknown),
        };
        decoder.set_options(decoder.options().jpeg_set_out_colorspace(out));
        Ok(Self {
            width: header.width.into(),
            height: header.height.into(),
            channels,
            bytes,
            decoder,
        })
    }

    /// The pixels, row by row from the top, one number each or three.
    pub(crate) fn pixels(&mut self) -> Result<Vec<u8>, Error> {
        let pixels = self.decoder.decode().map_err(|error| said(&error))?;
        has_end(self.bytes).then_some(pixels).ok_or_else(|| {
            Error::malformed(
                "it has no mark of its end\nhint: the file is cut short; fetch it again",
            )
        })
    }
}

/// Reads a header; what is wrong with a file is refused, and its size is left to the caller.
fn decoder(bytes: Cow<'_, [u8]>) -> Result<Decoder<'_>, Error> {
    let longest = usize::from(u16::MAX);
    let options = DecoderOptions::default()
        .set_strict_mode(true)
        .set_max_width(longest)
        .set_max_height(longest);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), options);
    decoder.decode_headers().map_err(|error| said(&error))?;
    Ok(decoder)
}

fn said(error: &zune_jpeg::errors::DecodeErrors) -> Error {
    Error::malformed(error.to_string().trim_matches('"'))
}

/// The file with a segment of Adobe's that says nothing.
fn without_mark(bytes: &[u8]) -> Vec<u8> {
    let name = b"Adobe";
    let mut bytes = bytes.to_vec();
    let mut windows = bytes.windows(name.len());
    if let Some(at) = windows.position(|window| window == name) {
        bytes[at] = b'-';
    }
    bytes
}

/// Whether a file goes on to the mark of its end (section B.1.1).
///
/// Segments state their lengths; in coded data 0xff comes only before 0 and in the marks of restarts.
fn has_end(bytes: &[u8]) -> bool {
    let mut rest = bytes;
    loop {
        let is_mark =
            |pair: &[u8]| pair[0] == 0xff && !matches!(pair[1], 0 | 1 | 0xd0..=0xd8 | 0xff);
        let Some(at) = rest.windows(2).position(is_mark) else {
            return false;
        };
        if rest[at + 1] == 0xd9 {
            return true;
        }
        let segment = &rest[at + 2..];
        let Some(&[high, low]) = segment.first_chunk() else {
            return false;
        };
        let length = usize::from(u16::from_be_bytes([high, low]));
        let Some(after) = segment.get(length..) else {
            return false;
        };
        rest = after;
    }
}

#[cfg(test)]
mod tests;
