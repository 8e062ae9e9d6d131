//! What can keep a picture from being drawn or written.

use thiserror::Error;

/// Why a picture could not be drawn or written.
#[derive(Debug, Error)]
pub enum Error {
    /// A picture without pixels.
    #[error("an image needs at least one pixel, got {width} x {height}")]
    Empty {
        /// Pixels from left to right.
        width: u32,
        /// Pixels from top to bottom.
        height: u32,
    },
    /// A number of channels that PNG files do not have.
    #[error("an image has 1 to 4 channels, got {0}")]
    Channels(u8),
    /// A number of bits that PNG files do not have.
    #[error("an image has 1, 2, 4, 8 or 16 bits for each level, got {0}")]
    Bits(u8),
    /// Levels that do not fit the size.
    #[error(
        "an image of {width} x {height} with {channels} channels needs {wanted} levels, got {got}"
    )]
    LevelCount {
        /// Pixels from left to right.
        width: u32,
        /// Pixels from top to bottom.
        height: u32,
        /// Levels of a pixel.
        channels: u8,
        /// Levels of the whole picture.
        wanted: u128,
        /// Levels that were given.
        got: usize,
    },
    /// A level that the bits cannot hold.
    #[error("level {index} is {level}, more than {bits} bits can hold")]
    LevelTooLarge {
        /// Which level.
        index: usize,
        /// Its value.
        level: u16,
        /// Bits for each level.
        bits: u8,
    },
    /// A grid of pictures that have different sizes.
    #[error("image {index} of the grid is {got:?} pixels, the first is {wanted:?}")]
    SizesDiffer {
        /// Which picture.
        index: usize,
        /// Size of the first.
        wanted: (u32, u32),
        /// Its own size.
        got: (u32, u32),
    },
    /// The PNG encoder failed.
    #[error("writing the PNG")]
    Encode(#[from] png::EncodingError),
}
