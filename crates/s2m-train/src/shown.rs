//! Pictures on the way: a grid of pictures, or a map of where points fall.

use std::path::Path;

use anyhow::{Context as _, Result};

use crate::folder::write_whole;

/// Pictures in a row of a grid.
const ROW: usize = 8;

/// Side of a map of points, and the part of the plane that it shows.
const MAP: usize = 256;
const REACH: f32 = 4.0;

/// Writes items of `size` numbers: square pictures in [−1, 1] as a grid, points as a map.
pub fn write(path: &Path, items: &[f32], size: usize, picture: bool) -> Result<()> {
    let (width, pixels) = if picture {
        grid(items, size)
    } else {
        (MAP, map(items, size))
    };
    write_whole(path, &grey_png(width, &pixels)?)
}

fn grid(items: &[f32], size: usize) -> (usize, Vec<u8>) {
    let side = size.isqrt();
    let rows = (items.len() / size).div_ceil(ROW);
    let width = ROW * side;
    let mut pixels = vec![0; width * rows * side];
    for (n, item) in items.chunks_exact(size).enumerate() {
        for (y, line) in item.chunks_exact(side).enumerate() {
            let start = ((n / ROW) * side + y) * width + (n % ROW) * side;
            for (pixel, value) in pixels[start..].iter_mut().zip(line) {
                *pixel = ((value + 1.0) * 127.5).round() as u8;
            }
        }
    }
    (width, pixels)
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
