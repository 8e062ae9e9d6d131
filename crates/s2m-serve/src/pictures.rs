//! Items as the page takes them: pictures as PNG files in base 64, points as their numbers.

use s2m::{Error, Items};
use s2m_model::bundle::Bundle;
use s2m_show::picture::Picture;
use serde::Serialize;

/// What is wrong with a model or a request; large, and therefore in a box.
pub(crate) type Fault = Box<Error>;

/// One item.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Shown {
    /// A PNG file in base 64.
    Picture(String),
    /// Coordinates.
    Point(Vec<f32>),
}

/// All items of a list.
pub(crate) fn shown(bundle: &Bundle, items: &Items) -> Result<Vec<Shown>, Fault> {
    let output = &bundle.manifest().generator.output;
    let size: usize = output.shape.iter().product();
    let values = items.to_floats();
    let each = values.chunks_exact(size.max(1));
    let Some([height, width, channels]) = output.picture_size() else {
        return Ok(each.map(|point| Shown::Point(point.to_vec())).collect());
    };
    each.map(|levels| {
        let picture = Picture {
            width: width as u32,
            height: height as u32,
            channels: channels as u8,
            bits: output.bits.unwrap_or(8),
            levels: levels.iter().map(|&level| level as u16).collect(),
        };
        Ok(Shown::Picture(base64(
            &picture.to_png().map_err(Error::from)?,
        )))
    })
    .collect()
}

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Bytes in base 64, as RFC 4648 has it.
fn base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let at = |place: usize| u32::from(three.get(place).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for place in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * place)) as usize & 63];
            text.push(if place <= three.len() {
                char::from(digit)
            } else {
                '='
            });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of RFC 4648, section 10.
    #[test]
    fn base_64_agrees_with_its_standard() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
        assert_eq!(base64(&[0xfb, 0xff]), "+/8=");
    }
}
