//! Items out of an array: pictures of bytes in either layout, or points.

use std::fmt;

use crate::channels::Channels;
use crate::dataset::{Items, Values};
use crate::error::Error;
use crate::npy::{self, Array};
use crate::picture_file::Picture;
use crate::picture_set::Pictured;

/// The items of an array; pictures become `[channels, height, width]`.
pub(crate) fn items(array: Array) -> Result<Items, Error> {
    let Array { shape, values } = array;
    if shape.is_empty() || shape.contains(&0) {
        return Err(Error::malformed(format!(
            "it is of shape {shape:?}, so it holds nothing"
        )));
    }
    let channels = |side: usize| Channels::of(side).is_some();
    let size = match shape[1..] {
        [] => return points(values, vec![1]),
        [side] => return points(values, vec![side]),
        [height, width] => [1, height, width],
        [c, height, width] if channels(c) && !channels(width) => [c, height, width],
        [height, width, c] if channels(c) && !channels(height) => [c, height, width],
        _ => {
            return Err(Error::unsupported(format!(
                "it is of shape {shape:?}, wanted points [n, d], or images [n, height, width], [n, height, width, c] or [n, c, height, width] where just one side can be c = 1 or 3 channels"
            )));
        }
    };
    let npy::Values::U8(bytes) = values else {
        return Err(Error::unsupported(format!(
            "it is of shape {shape:?}, so of images, but not of bytes\nhint: save levels of 0 to 255, for instance with `(255 * x).round().astype(\"uint8\")`"
        )));
    };
    let channels_last = shape.len() == 4 && shape[1..] != size;
    Ok(Items {
        shape: size.to_vec(),
        values: Values::Bytes(if channels_last {
            planar(&bytes, size)
        } else {
            bytes
        }),
    })
}

fn points(values: npy::Values, shape: Vec<usize>) -> Result<Items, Error> {
    let values = match values {
        npy::Values::U8(bytes) => bytes.into_iter().map(f32::from).collect(),
        npy::Values::F32(values) => values,
    };
    if let Some(at) = values.iter().position(|value| !value.is_finite()) {
        return Err(Error::malformed(format!(
            "item {} holds {}, which is not a finite number",
            at / shape[0],
            values[at]
        )));
    }
    Ok(Items {
        shape,
        values: Values::Floats(values),
    })
}

/// `[n, height, width, channels]` to `[n, channels, height, width]`.
fn planar(bytes: &[u8], [channels, height, width]: [usize; 3]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    for picture in bytes.chunks_exact(channels * height * width) {
        for channel in 0..channels {
            out.extend(picture.iter().skip(channel).step_by(channels));
        }
    }
    out
}

/// A picture among items in memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InMemory<'a> {
    pub(crate) items: &'a Items,
    pub(crate) number: u32,
}

impl fmt::Display for InMemory<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "item {}", self.number)
    }
}

impl Pictured for InMemory<'_> {
    fn picture(&self) -> Result<Picture, Error> {
        let chosen = self.items.select(&[self.number]);
        let (Values::Bytes(planes), &[depth, height, width]) = (&chosen.values, &chosen.shape[..])
        else {
            unreachable!("only images are asked for their image");
        };
        let channels = Channels::of(depth).expect("images have 1 or 3 channels");
        let pixels = height * width;
        let pixel = |i: usize| planes.iter().skip(i).step_by(pixels).copied();
        Ok(Picture {
            width,
            height,
            channels,
            bytes: (0..pixels).flat_map(pixel).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(shape: &[usize]) -> Array {
        let count: usize = shape.iter().product();
        Array {
            shape: shape.to_vec(),
            values: npy::Values::U8((0..count).map(|i| i as u8).collect()),
        }
    }

    fn floats(shape: &[usize], values: &[f32]) -> Array {
        Array {
            shape: shape.to_vec(),
            values: npy::Values::F32(values.to_vec()),
        }
    }

    #[test]
    fn pictures_of_either_layout_become_planes() {
        let last = items(bytes(&[2, 2, 2, 3])).unwrap();
        assert_eq!(last.shape, [3, 2, 2]);
        let planes =
            |start: u8| (0..3u8).flat_map(move |c| (0..4u8).map(move |i| start + c + 3 * i));
        let wanted: Vec<u8> = planes(0).chain(planes(12)).collect();
        assert_eq!(last.values, Values::Bytes(wanted));

        let first = items(bytes(&[2, 3, 2, 2])).unwrap();
        assert_eq!(first.shape, [3, 2, 2]);
        assert_eq!(first.values, Values::Bytes((0..24).collect()));

        let grey = items(bytes(&[2, 3, 2])).unwrap();
        assert_eq!(grey.shape, [1, 3, 2]);
        assert_eq!(items(bytes(&[2, 4, 2, 1])).unwrap().shape, [1, 4, 2]);
    }

    #[test]
    fn points_are_floats() {
        let points = items(floats(&[2, 2], &[0.5, 1.0, 1.5, 2.0])).unwrap();
        assert_eq!(points.shape, [2]);
        assert_eq!(points.values, Values::Floats(vec![0.5, 1.0, 1.5, 2.0]));
        assert_eq!(items(bytes(&[3])).unwrap().shape, [1]);
        assert_eq!(
            items(floats(&[2, 2], &[0.0, 1.0, f32::INFINITY, 0.0]))
                .unwrap_err()
                .to_string(),
            "item 1 holds inf, which is not a finite number"
        );
    }

    #[test]
    fn other_arrays_are_refused() {
        let message = |array| items(array).unwrap_err().to_string();
        assert_eq!(
            message(bytes(&[])),
            "it is of shape [], so it holds nothing"
        );
        assert!(message(bytes(&[0, 2])).ends_with("so it holds nothing"));
        assert!(message(bytes(&[1, 4, 4, 4])).starts_with("it is of shape [1, 4, 4, 4], wanted"));
        assert!(message(bytes(&[1, 3, 4, 3])).starts_with("it is of shape [1, 3, 4, 3], wanted"));
        assert!(message(bytes(&[1, 3, 4, 3, 1])).starts_with("it is of shape [1, 3, 4, 3, 1]"));
        assert_eq!(
            message(floats(&[1, 1, 2], &[0.0, 1.0])),
            "it is of shape [1, 1, 2], so of images, but not of bytes\n\
             hint: save levels of 0 to 255, for instance with \
             `(255 * x).round().astype(\"uint8\")`"
        );
    }

    #[test]
    fn pictures_come_back_from_memory() {
        let items = items(bytes(&[2, 2, 2, 3])).unwrap();
        let second = InMemory {
            items: &items,
            number: 1,
        };
        let picture = second.picture().unwrap();
        assert_eq!(picture.bytes, (12..24).collect::<Vec<u8>>());
        assert_eq!(second.to_string(), "item 1");
    }
}
