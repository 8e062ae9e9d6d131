//! Small files and pictures for tests.

use std::env;
use std::fs;
use std::path::PathBuf;

use crate::dataset::Dataset;

/// A folder of these files.
pub(crate) fn files(files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    folder
}

/// A grey PNG of one row.
pub(crate) fn png(row: &[u8]) -> Vec<u8> {
    rows(row, 1)
}

/// A grey PNG of as many rows as columns, each pixel by its number.
pub(crate) fn square(side: usize, level: impl Fn(usize) -> u8) -> Vec<u8> {
    let levels: Vec<u8> = (0..side * side).map(level).collect();
    rows(&levels, side)
}

fn rows(levels: &[u8], height: usize) -> Vec<u8> {
    let mut file = Vec::new();
    let width = levels.len() / height;
    let mut encoder = png::Encoder::new(&mut file, width as u32, height as u32);
    encoder.set_color(png::ColorType::Grayscale);
    let mut writer = encoder.write_header().unwrap();
    writer.write_image_data(levels).unwrap();
    writer.finish().unwrap();
    file
}

/// A `.npy` file of this type, shape and bytes.
pub(crate) fn npy(descr: &str, shape: &str, bytes: &[u8]) -> Vec<u8> {
    let mut header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
    while !(10 + header.len() + 1).is_multiple_of(64) {
        header.push(' ');
    }
    header.push('\n');
    let length = (header.len() as u16).to_le_bytes();
    [b"\x93NUMPY\x01\0", &length[..], header.as_bytes(), bytes].concat()
}

/// The label sets as bits.
pub(crate) fn bits(data: &Dataset) -> Vec<u64> {
    data.truth.iter().map(|set| set.bits()).collect()
}

/// A folder of real data; says why a test is skipped where it is not there.
pub(crate) fn real_data(name: &str) -> Option<PathBuf> {
    let Some(folder) = env::var_os("S2M_DATA") else {
        eprintln!("skipped: set S2M_DATA to a folder that holds `{name}/`");
        return None;
    };
    let folder = PathBuf::from(folder).join(name);
    if !folder.is_dir() {
        eprintln!("skipped: there is no folder `{}`", folder.display());
        return None;
    }
    Some(folder)
}
