//! Pictures on the way: a grid of pictures, or a map of where points fall.

use std::path::Path;

use anyhow::{Context as _, Result};

use crate::folder::write_whole;

/// Pictures in a row of a grid.
const ROW: usize = 8;

/// Side of a map of points, and the part of the plane that it shows.
const MAP: usize = 256;
const REACH: f32 = 4.0;

/// Writes items of a shape: pictures [channels, height, width] in [−1, 1] as a grid, in colour where they have
/// three channels, points as a map.
pub fn write(path: &Path, items: &[f32], shape: &[usize]) -> Result<()> {
    let (width, channels, pixels) = match *shape {
        [3, height, width] => (ROW * width, 3, grid(items, [3, height, width])),
        [_, height, width] => (ROW * width, 1, grid(items, [1, height, width])),
        _ => (MAP, 1, map(items, shape.iter().product())),
    };
    write_whole(path, &png_of(width, channels, &pixels)?)
}

/// Pixels of a grid, the channels of each side by side.
fn grid(items: &[f32], [channels, height, width]: [usize; 3]) -> Vec<u8> {
    let size = channels * height * width;
    let rows = (items.len() / size).div_ceil(ROW);
    let line = ROW * width;
    let mut pixels = vec![0; line * rows * height * channels];
    for (n, item) in items.chunks_exact(size).enumerate() {
        for (at, value) in item.iter().enumerate() {
            let (channel, place) = (at / (height * width), at % (height * width));
            let (y, x) = (place / width, place % width);
            let pixel = ((n / ROW) * height + y) * line + (n % ROW) * width + x;
            pixels[pixel * channels + channel] = ((value + 1.0) * 127.5).round() as u8;
        }
    }
    pixels
}

fn map(items: &[f32], size: usize) -> Vec<u8> {
    let mut pixels = vec![255_u8; MAP * MAP];
    let place = |value: f32| {
        let at = (value + REACH) / (2.0 * REACH) * MAP as f32;
        (0.0..MAP as f32).contains(&at).then_some(at as usize)
    };
    for item in items.chunks_exact(size) {
        let y = item.get(1).copied().unwrap_or(0.0);
        if let (Some(x), Some(y)) = (place(item[0]), place(-y)) {
            pixels[y * MAP + x] = pixels[y * MAP + x].saturating_sub(85);
        }
    }
    pixels
}

fn png_of(width: usize, channels: usize, pixels: &[u8]) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let height = pixels.len() / (width * channels);
    let mut encoder = png::Encoder::new(&mut bytes, width as u32, height as u32);
    encoder.set_color(match channels {
        3 => png::ColorType::Rgb,
        _ => png::ColorType::Grayscale,
    });
    encoder.set_depth(png::BitDepth::Eight);
    encoder
        .write_header()
        .and_then(|mut writer| writer.write_image_data(pixels))
        .context("a picture cannot be encoded")?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_that_are_not_square_keep_their_sides() {
        // Nine pictures of 1×2: eight in the first line of the grid, one in the second.
        let items: Vec<f32> = (0..9).flat_map(|_| [-1.0, 1.0]).collect();
        let pixels = grid(&items, [1, 1, 2]);
        assert_eq!(pixels.len(), 32);
        assert_eq!(pixels[..4], [0, 255, 0, 255]);
        assert_eq!(pixels[16..20], [0, 255, 0, 0]);
    }

    #[test]
    fn colours_of_a_pixel_stand_side_by_side() {
        // Two pictures of 1×2: red and black, then green and white.
        let items = [
            [1.0, -1.0, -1.0, -1.0, -1.0, -1.0],
            [-1.0, 1.0, 1.0, 1.0, -1.0, 1.0],
        ];
        let pixels = grid(&items.concat(), [3, 1, 2]);
        assert_eq!(pixels[..6], [255, 0, 0, 0, 0, 0]);
        assert_eq!(pixels[6..12], [0, 255, 0, 255, 255, 255]);
        assert!(png_of(ROW * 2, 3, &pixels).is_ok());
    }

    #[test]
    fn points_fall_where_they_lie() {
        let pixels = map(&[0.0, 0.0, 9.0, 9.0], 2);
        assert_eq!(pixels[128 * MAP + 128], 170);
        assert_eq!(pixels.iter().filter(|&&p| p != 255).count(), 1);
    }
}
