//! Pictures on the way: a grid of pictures, or a map of where points fall.

use std::path::Path;

use anyhow::{Context as _, Result};

use crate::folder::write_whole;

/// Pictures in a row of a grid.
const ROW: usize = 8;

/// Side of a map of points, and the part of the plane that it shows.
const MAP: usize = 256;
const REACH: f32 = 4.0;

/// Writes items of a shape: pictures [1, height, width] in [−1, 1] as a grid, points as a map.
pub fn write(path: &Path, items: &[f32], shape: &[usize]) -> Result<()> {
    let (width, pixels) = match *shape {
        [_, height, width] => grid(items, height, width),
        _ => (MAP, map(items, shape.iter().product())),
    };
    write_whole(path, &grey_png(width, &pixels)?)
}

fn grid(items: &[f32], height: usize, width: usize) -> (usize, Vec<u8>) {
    let rows = (items.len() / (height * width)).div_ceil(ROW);
    let line = ROW * width;
    let mut pixels = vec![0; line * rows * height];
    for (n, item) in items.chunks_exact(height * width).enumerate() {
        for (y, values) in item.chunks_exact(width).enumerate() {
            let start = ((n / ROW) * height + y) * line + (n % ROW) * width;
            for (pixel, value) in pixels[start..].iter_mut().zip(values) {
                *pixel = ((value + 1.0) * 127.5).round() as u8;
            }
        }
    }
    (line, pixels)
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

fn grey_png(width: usize, pixels: &[u8]) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width as u32, (pixels.len() / width) as u32);
    encoder.set_color(png::ColorType::Grayscale);
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
        let (width, pixels) = grid(&items, 1, 2);
        assert_eq!((width, pixels.len()), (16, 32));
        assert_eq!(pixels[..4], [0, 255, 0, 255]);
        assert_eq!(pixels[16..20], [0, 255, 0, 0]);
    }

    #[test]
    fn points_fall_where_they_lie() {
        let pixels = map(&[0.0, 0.0, 9.0, 9.0], 2);
        assert_eq!(pixels[128 * MAP + 128], 170);
        assert_eq!(pixels.iter().filter(|&&p| p != 255).count(), 1);
    }
}
