//! Grey or colour.

use serde::{Deserialize, Serialize};

use crate::error::Error;

/// What each pixel holds; written as the number of channels, 1 or 3.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "usize", into = "usize")]
pub enum Channels {
    /// One number: how bright.
    Grey,
    /// Red, green and blue.
    Rgb,
}

impl Channels {
    /// Numbers per pixel.
    pub fn count(self) -> usize {
        match self {
            Self::Grey => 1,
            Self::Rgb => 3,
        }
    }

    /// The channels with this many numbers per pixel, 1 or 3.
    pub fn of(count: usize) -> Option<Self> {
        [Self::Grey, Self::Rgb]
            .into_iter()
            .find(|channels| channels.count() == count)
    }
}

impl TryFrom<usize> for Channels {
    type Error = Error;

    fn try_from(count: usize) -> Result<Self, Error> {
        let refused =
            || Error::setting(format!("channels are 1 (grey) or 3 (colour), not {count}"));
        Self::of(count).ok_or_else(refused)
    }
}

impl From<Channels> for usize {
    fn from(channels: Channels) -> Self {
        channels.count()
    }
}
