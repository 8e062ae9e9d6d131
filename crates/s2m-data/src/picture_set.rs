//! Pictures of any size to items of one size, decoded on all cores.
//!
//! The size is the one asked for, or the one that all pictures have. A picture of another size is
//! first cut to the wanted proportions, the same from both sides, and then resized by
//! [`Filter::Bicubic`]; levels are rounded to the nearest and cut to 0 to 255.
//!
//! Pictures are grey where all of them are, and else red, green and blue, unless asked otherwise.

use std::fmt::Display;
use std::num::{NonZeroU32, NonZeroUsize};
use std::panic;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::channels::Channels;
use crate::dataset::{Items, Values};
use crate::error::Error;
use crate::picture_file::{MAX_SIDE, Picture};
use crate::resize::{Filter, Resizer};

/// Most bytes of all pictures together.
pub const MAX_BYTES: u64 = 1 << 36;

/// What pictures are brought to.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Wanted {
    /// Height and width; those of the pictures where left out.
    pub(crate) size: Option<[NonZeroU32; 2]>,
    /// Grey or colour; by the pictures where left out.
    pub(crate) channels: Option<Channels>,
}

impl Wanted {
    pub(crate) fn new(size: Option<[NonZeroU32; 2]>, channels: Option<Channels>) -> Self {
        Self { size, channels }
    }
}

/// Something that a picture can be read from; it shows as the picture's name.
pub(crate) trait Pictured: Sync + Display {
    /// Reads and decodes the picture.
    fn picture(&self) -> Result<Picture, Error>;
}

/// Reads all pictures, in order, as items `[channels, height, width]`.
///
/// Where several fail, the error is of the first.
pub(crate) fn read<P: Pictured>(places: &[P], wanted: Wanted) -> Result<Items, Error> {
    let Some(first) = places.first() else {
        return Ok(Items {
            shape: vec![0, 0, 0],
            values: Values::Bytes(Vec::new()),
        });
    };
    let size = match wanted.size {
        Some(size) => check(size.map(NonZeroU32::get))?,
        None => size_of(&first.picture()?),
    };
    // Not known before all are read: so there is room for colour, and grey gives it back.
    let most = wanted.channels.unwrap_or(Channels::Rgb);
    let item = most.count() * size[0] * size[1];
    let bytes = places.len().checked_mul(item);
    let Some(bytes) = bytes.filter(|&bytes| bytes as u64 <= MAX_BYTES) else {
        let count = places.len();
        return Err(Error::too_large(format!(
            "{count} images of {} × {} take more than {MAX_BYTES} bytes\nhint: choose a smaller size, for example `size = [64, 64]`",
            size[0], size[1]
        )));
    };
    let coloured = AtomicBool::new(false);
    let mut values = vec![0; bytes];
    fill(&mut values, item, |i, out| {
        let picture = places[i].picture()?;
        if wanted.size.is_none() && size_of(&picture) != size {
            return Err(Error::mismatch(format!(
                "images differ in size: {first} is {} × {}, {} is {} × {}, height by width\nhint: bring all to one size, for example with `size = [{}, {}]`",
                size[0],
                size[1],
                places[i],
                size_of(&picture)[0],
                size_of(&picture)[1],
                size[0],
                size[1]
            )));
        }
        if picture.channels == Channels::Rgb {
            coloured.store(true, Ordering::Relaxed);
        }
        planes(&fit(picture, size).to_channels(most), out);
        Ok(())
    })?;
    let channels = match wanted.channels {
        None if !coloured.into_inner() => {
            keep_first_plane(&mut values, most.count(), size[0] * size[1]);
            Channels::Grey
        }
        _ => most,
    };
    Ok(Items {
        shape: vec![channels.count(), size[0], size[1]],
        values: Values::Bytes(values),
    })
}

fn check(size: [u32; 2]) -> Result<[usize; 2], Error> {
    if size.iter().any(|&side| side > MAX_SIDE) {
        return Err(Error::too_large(format!(
            "`size = {size:?}` is not possible: a side has 1 to {MAX_SIDE} pixels"
        )));
    }
    Ok(size.map(|side| side as usize))
}

fn size_of(picture: &Picture) -> [usize; 2] {
    [picture.height, picture.width]
}

/// Runs `work` on every piece of `size` values, spread over the cores, up to the first error.
fn fill<T: Send, E: Send>(
    values: &mut [T],
    size: usize,
    work: impl Fn(usize, &mut [T]) -> Result<(), E> + Sync,
) -> Result<(), E> {
    let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let pieces = Mutex::new(values.chunks_exact_mut(size).enumerate());
    let failed = Mutex::new(None);
    let take_turns = || {
        // Pieces are given out in order, so all before a failed one are finished by someone.
        while failed.lock().expect(NO_PANIC).is_none() {
            let next = pieces.lock().expect(NO_PANIC).next();
            let Some((i, piece)) = next else { return };
            if let Err(error) = work(i, piece) {
                let mut failed = failed.lock().expect(NO_PANIC);
                if failed.as_ref().is_none_or(|&(other, _)| i < other) {
                    *failed = Some((i, error));
                }
            }
        }
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(take_turns)).collect();
        for thread in threads {
            thread
                .join()
                .unwrap_or_else(|panic| panic::resume_unwind(panic));
        }
    });
    match failed.into_inner().expect(NO_PANIC) {
        Some((_, error)) => Err(error),
        None => Ok(()),
    }
}

const NO_PANIC: &str = "nothing panics while it holds the lock";

/// The picture cut to the proportions of `size` and resized to it.
fn fit(picture: Picture, size: [usize; 2]) -> Picture {
    if size_of(&picture) == size {
        return picture;
    }
    let cut = cut(picture, size);
    let resizer = Resizer::new(size_of(&cut), size, Filter::Bicubic);
    let resized = resizer.levels(&cut.bytes, cut.channels.count());
    Picture {
        height: size[0],
        width: size[1],
        channels: cut.channels,
        // The cast cuts to 0 to 255.
        bytes: resized
            .into_iter()
            .map(|level| level.round() as u8)
            .collect(),
    }
}

/// The largest part around the middle whose sides are as `size`, to the nearest pixel.
fn cut(picture: Picture, size: [usize; 2]) -> Picture {
    let old = size_of(&picture);
    let part =
        |side: usize, by: usize, of: usize| ((side * by) as f64 / of as f64).round() as usize;
    let new = [
        part(old[1], size[0], size[1]).clamp(1, old[0]),
        part(old[0], size[1], size[0]).clamp(1, old[1]),
    ];
    if new == old {
        return picture;
    }
    let [top, left] = [0, 1].map(|side| (old[side] - new[side]) / 2);
    let depth = picture.channels.count();
    let mut bytes = picture.bytes;
    let row = new[1] * depth;
    for y in 0..new[0] {
        // What is still to be read is never written to: a row moves towards the start.
        let start = ((top + y) * old[1] + left) * depth;
        bytes.copy_within(start..start + row, y * row);
    }
    bytes.truncate(new[0] * row);
    Picture {
        height: new[0],
        width: new[1],
        channels: picture.channels,
        bytes,
    }
}

/// `[height, width, channels]` to `[channels, height, width]`.
fn planes(picture: &Picture, out: &mut [u8]) {
    let depth = picture.channels.count();
    let pixels = out.len() / depth;
    for (channel, plane) in out.chunks_exact_mut(pixels).enumerate() {
        let pixels = picture.bytes.chunks_exact(depth);
        for (to, pixel) in plane.iter_mut().zip(pixels) {
            *to = pixel[channel];
        }
    }
}

/// Keeps the first of every `depth` planes.
fn keep_first_plane(values: &mut Vec<u8>, depth: usize, plane: usize) {
    let items = values.len() / (depth * plane);
    for item in 1..items {
        let start = item * depth * plane;
        values.copy_within(start..start + plane, item * plane);
    }
    values.truncate(items * plane);
    values.shrink_to_fit();
}

#[cfg(test)]
mod tests {
    use std::fmt;
    use std::path::Path;
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::picture_file;

    /// A picture in memory; one without rows cannot be read, and the one called `first` is slow.
    struct Made(&'static str, Picture);

    impl Display for Made {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "`{}`", self.0)
        }
    }

    impl Pictured for Made {
        fn picture(&self) -> Result<Picture, Error> {
            if self.0 == "first" {
                thread::sleep(Duration::from_millis(5));
            }
            if self.1.height == 0 {
                return picture_file::decode(b"none", Path::new(self.0));
            }
            Ok(self.1.clone())
        }
    }

    fn picture(height: usize, width: usize, channels: Channels, bytes: Vec<u8>) -> Picture {
        assert_eq!(bytes.len(), height * width * channels.count());
        Picture {
            width,
            height,
            channels,
            bytes,
        }
    }

    fn grey(height: usize, width: usize, bytes: Vec<u8>) -> Picture {
        picture(height, width, Channels::Grey, bytes)
    }

    fn sized(size: [u32; 2]) -> Wanted {
        Wanted {
            size: Some(size.map(|side| NonZeroU32::new(side).unwrap())),
            channels: None,
        }
    }

    #[test]
    fn colour_is_laid_out_in_planes_and_grey_stays_grey() {
        let colours = picture(1, 2, Channels::Rgb, vec![1, 2, 3, 4, 5, 6]);
        let items = read(&[Made("a", colours.clone())], Wanted::default()).unwrap();
        assert_eq!(items.shape, [3, 1, 2]);
        assert_eq!(items.values, Values::Bytes(vec![1, 4, 2, 5, 3, 6]));

        let greys = [
            Made("a", grey(1, 2, vec![1, 2])),
            Made("b", grey(1, 2, vec![3, 4])),
            Made("c", grey(1, 2, vec![5, 6])),
        ];
        let items = read(&greys, Wanted::default()).unwrap();
        assert_eq!(items.shape, [1, 1, 2]);
        assert_eq!(items.values, Values::Bytes((1..=6).collect()));

        let mixed = [Made("a", grey(1, 2, vec![7, 8])), Made("b", colours)];
        let items = read(&mixed, Wanted::default()).unwrap();
        assert_eq!(items.shape, [3, 1, 2]);
        let bytes = vec![7, 8, 7, 8, 7, 8, 1, 4, 2, 5, 3, 6];
        assert_eq!(items.values, Values::Bytes(bytes));
        for (channels, shape) in [(Channels::Grey, [1, 1, 2]), (Channels::Rgb, [3, 1, 2])] {
            let wanted = Wanted {
                size: None,
                channels: Some(channels),
            };
            assert_eq!(read(&mixed, wanted).unwrap().shape, shape);
        }
    }

    #[test]
    fn mixed_sizes_name_two_pictures_and_the_cure() {
        let places = [
            Made("a", grey(2, 3, vec![0; 6])),
            Made("b", grey(2, 3, vec![0; 6])),
            Made("c", grey(3, 2, vec![0; 6])),
            Made("d", grey(1, 1, vec![0; 1])),
        ];
        assert_eq!(
            read(&places, Wanted::default()).unwrap_err().to_string(),
            "images differ in size: `a` is 2 × 3, `c` is 3 × 2, height by width\n\
             hint: bring all to one size, for example with `size = [2, 3]`"
        );
        assert_eq!(read(&places, sized([2, 2])).unwrap().shape, [1, 2, 2]);
        assert_eq!(
            read(&places, sized([2, 99_999])).unwrap_err().to_string(),
            "`size = [2, 99999]` is not possible: a side has 1 to 16384 pixels"
        );
        let many: Vec<_> = (0..300).map(|_| Made("a", grey(1, 1, vec![0]))).collect();
        assert_eq!(
            read(&many, sized([16_384, 16_384]))
                .unwrap_err()
                .to_string(),
            "300 images of 16384 × 16384 take more than 68719476736 bytes\n\
             hint: choose a smaller size, for example `size = [64, 64]`"
        );
    }

    /// Whatever the threads do, the first bad picture is named, even where it fails last.
    #[test]
    fn the_first_bad_picture_is_the_error() {
        for _ in 0..10 {
            let places: Vec<_> = (0..64)
                .map(|i| match i {
                    20 => Made("first", grey(0, 0, vec![])),
                    21.. => Made("later", grey(0, 0, vec![])),
                    _ => Made("good", grey(1, 1, vec![0])),
                })
                .collect();
            let failure = read(&places, Wanted::default()).unwrap_err().to_string();
            assert!(failure.starts_with("`first` is neither"), "{failure}");
        }
    }

    #[test]
    fn the_middle_is_cut_out_before_resizing() {
        // Columns 0 to 5 of two rows: the middle two make a square.
        let wide = grey(2, 6, vec![0, 1, 2, 3, 4, 5, 10, 11, 12, 13, 14, 15]);
        assert_eq!(cut(wide.clone(), [7, 7]), grey(2, 2, vec![2, 3, 12, 13]));
        assert_eq!(fit(wide.clone(), [2, 2]), grey(2, 2, vec![2, 3, 12, 13]));
        let tall = picture(3, 1, Channels::Rgb, (0..9).collect());
        assert_eq!(
            cut(tall, [64, 64]),
            picture(1, 1, Channels::Rgb, vec![3, 4, 5])
        );
        // 4 × 3 out of 218 × 178, as `218 * 3 / 4` is 163.5.
        let portrait = grey(218, 178, vec![0; 218 * 178]);
        assert_eq!(size_of(&cut(portrait, [4, 3])), [218, 164]);
        assert_eq!(cut(wide.clone(), [1, 3]), wide);
    }

    // Pillow 13.0.0 and NumPy 2.4.6:
    //
    // y, x = np.mgrid[0:12, 0:20]
    // a = ((37*x + 61*y + x*y) % 256).astype("u1")
    // Image.fromarray(a[:, 4:16]).resize((5, 5), Image.BICUBIC)
    #[test]
    fn resized_levels_agree_with_pillow_to_one() {
        const PILLOW: [u8; 25] = [
            156, 92, 128, 116, 96, 123, 148, 112, 126, 121, 100, 121, 147, 132, 136, 142, 121, 131,
            113, 124, 100, 149, 106, 135, 132,
        ];
        let level = |x: usize, y: usize| ((37 * x + 61 * y + x * y) % 256) as u8;
        let bytes = (0..240).map(|i| level(i % 20, i / 20)).collect();
        let small = fit(grey(12, 20, bytes), [5, 5]);
        for (a, b) in small.bytes.iter().zip(PILLOW) {
            assert!(a.abs_diff(b) <= 1, "{:?}", small.bytes);
        }
    }

    #[test]
    fn overshoot_is_cut_to_the_range() {
        let edge = grey(1, 8, vec![0, 0, 0, 0, 255, 255, 255, 255]);
        let doubled = fit(edge, [2, 16]);
        assert_eq!(doubled.bytes[6], 0);
        assert_eq!(doubled.bytes[9], 255);
    }

    proptest! {
        #[test]
        fn any_size_fits_any_other(
            old in [1..40usize, 1..40usize],
            new in [1..40usize, 1..40usize],
            level: u8,
        ) {
            let flat = grey(old[0], old[1], vec![level; old[0] * old[1]]);
            let part = cut(flat.clone(), new);
            // At least one side is whole.
            prop_assert!(part.height == old[0] || part.width == old[1]);
            let fitted = fit(flat, new);
            prop_assert_eq!(fitted.bytes, vec![level; new[0] * new[1]]);
        }
    }
}
