//! Numbers and pictures as a page holds them.

/// A count with its thousands apart.
pub fn count(n: usize) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A count of things, one or many.
pub fn counted(n: usize, one: &str, many: &str) -> String {
    format!("{} {}", count(n), if n == 1 { one } else { many })
}

/// How numbers that are read together are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Digits {
    /// So many digits behind the point.
    Behind(usize),
    /// A factor and a power of ten.
    Power,
}

impl Digits {
    /// Four digits for the largest number, and as many behind the point for the others.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let largest = values
            .into_iter()
            .fold(0.0_f64, |most, v| most.max(v.abs()));
        let before = largest.log10().floor();
        if largest == 0.0 {
            Self::Behind(0)
        } else if (-4.0..9.0).contains(&before) {
            Self::Behind((3.0 - before).max(0.0) as usize)
        } else {
            Self::Power
        }
    }

    /// A number, ready for the page.
    pub fn write(self, value: f64) -> String {
        let text = match self {
            Self::Behind(digits) => format!("{value:.digits$}"),
            Self::Power => format!("{value:.2e}"),
        };
        text.replace('-', "−")
    }
}

/// A PNG as an address that holds it.
pub fn png_address(png: &[u8]) -> String {
    format!("data:image/png;base64,{}", base64(png))
}

/// Three bytes as four letters (RFC 4648).
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or(0));
        let all = byte(0) << 16 | byte(1) << 8 | byte(2);
        for letter in 0..4 {
            let six = (all >> (18 - 6 * letter)) & 63;
            let is_filling = letter > chunk.len();
            text.push(if is_filling {
                '='
            } else {
                char::from(LETTERS[six as usize])
            });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    // The examples of RFC 4648, section 10.
    #[test]
    fn bytes_become_the_letters_of_the_standard() {
        let pairs = [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ];
        for (bytes, wanted) in pairs {
            assert_eq!(base64(bytes.as_bytes()), wanted);
        }
        assert_eq!(base64(&[0xff, 0xfe, 0xfb]), "//77");
    }

    #[test]
    fn counts_have_their_thousands_apart() {
        let found = [0, 999, 1000, 1_234_567].map(count);
        assert_eq!(found, ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(counted(1, "image", "images"), "1 image");
        assert_eq!(counted(0, "image", "images"), "0 images");
    }

    #[test]
    fn numbers_that_are_read_together_have_equally_many_digits() {
        let write = |values: [f64; 3]| values.map(|value| Digits::of(values).write(value));
        assert_eq!(write([0.5, 0.25, 0.75]), ["0.5000", "0.2500", "0.7500"]);
        assert_eq!(write([12.345, -1.0, 9.0]), ["12.35", "−1.00", "9.00"]);
        assert_eq!(write([123_456.7, 0.1, 1.0]), ["123457", "0", "1"]);
        assert_eq!(write([2e-9, 0.0, 1e-9]), ["2.00e−9", "0.00e0", "1.00e−9"]);
        assert_eq!(write([0.0; 3]), ["0", "0", "0"]);
        assert_eq!(Digits::of([f64::MAX]).write(f64::MAX), "1.80e308");
    }
}
