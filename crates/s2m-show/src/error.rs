//! What can keep a picture from being drawn or written.

use thiserror::Error;

/// Why a picture could not be drawn or written.
#[derive(Debug, Error)]
pub enum Error {
    #[error("a picture needs at least one pixel, got {width} x {height}")]
    Empty { width: u32, height: u32 },
    #[error("a picture has 1 to 4 channels, got {0}")]
    Channels(u8),
    #[error("a picture has 1, 2, 4, 8 or 16 bits for each level, got {0}")]
    Bits(u8),
    #[error(
        "a picture of {width} x {height} with {channels} channels needs {wanted} levels, got {got}"
    )]
    LevelCount {
        width: u32,
        height: u32,
        channels: u8,
        wanted: u128,
        got: usize,
    },
    #[error("level {index} is {level}, more than {bits} bits can hold")]
    LevelTooLarge { index: usize, level: u16, bits: u8 },
    #[error("picture {index} of the grid is {got:?} pixels, the first is {wanted:?}")]
    SizesDiffer {
        index: usize,
        wanted: (u32, u32),
        got: (u32, u32),
    },
    #[error("writing the PNG")]
    Encode(#[from] png::EncodingError),
}
