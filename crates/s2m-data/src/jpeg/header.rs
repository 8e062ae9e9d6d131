//! What stands before the pixels of a plain JPEG file (annex B).

use super::Component;
use super::colour::Chroma;
use super::huffman::Huffman;
use crate::picture_file::Channels;

/// A file whose header is that of a plain JPEG.
#[derive(Debug)]
pub(crate) struct Plain<'a> {
    /// Pixels in a row.
    pub(crate) width: usize,
    /// Rows.
    pub(crate) height: usize,
    pub(super) chroma: Chroma,
    /// Grey, or brightness, blue and red.
    pub(super) components: Vec<Component>,
    /// Units between restart markers, 0 where there are none.
    pub(super) restart: usize,
    /// The coded data and all behind them.
    pub(super) scan: &'a [u8],
}

/// Most codes of one kind, and most tables of steps.
const TABLES: usize = 4;

/// What was read so far.
#[derive(Default)]
struct Tables {
    steps: [Option<[u16; 64]>; TABLES],
    dc: [Option<Huffman>; TABLES],
    ac: [Option<Huffman>; TABLES],
    restart: usize,
    frame: Option<Frame>,
}

/// The frame's header.
struct Frame {
    width: usize,
    height: usize,
    chroma: Chroma,
    parts: Vec<FramePart>,
}

/// What the frame says about a component.
struct FramePart {
    name: u8,
    across: usize,
    down: usize,
    steps: usize,
}

impl<'a> Plain<'a> {
    /// Reads a header; `None` where it is not one of a plain JPEG.
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let mut rest = bytes.strip_prefix(&[0xff, 0xd8])?;
        let mut tables = Tables::default();
        loop {
            let [0xff, kind, high, low, ..] = *rest else {
                return None;
            };
            let length = usize::from(u16::from_be_bytes([high, low]));
            let segment = rest.get(4..2 + length)?;
            rest = &rest[2 + length..];
            match kind {
                0xc0 if tables.frame.is_none() => tables.frame = Some(Frame::parse(segment)?),
                0xc4 => tables.codes(segment)?,
                0xdb => tables.steps(segment)?,
                0xdd => tables.restart = usize::from(u16::from_be_bytes(segment.try_into().ok()?)),
                0xda => return tables.scan(segment, rest),
                // Adobe's segment: its last byte says how colours are stored, 1 is the usual way.
                0xee if segment.starts_with(b"Adobe") && segment.get(11) != Some(&1) => {
                    return None;
                }
                0xe0..=0xef | 0xfe => {}
                _ => return None,
            }
        }
    }

    /// What each pixel holds.
    pub(crate) fn channels(&self) -> Channels {
        match self.components[..] {
            [_] => Channels::Grey,
            _ => Channels::Rgb,
        }
    }
}

impl Frame {
    /// Section B.2.2; a frame without width or height is not plain.
    fn parse(segment: &[u8]) -> Option<Self> {
        let (&[8, h0, h1, w0, w1, count], parts) = segment.split_first_chunk()? else {
            return None;
        };
        let (parts, []) = parts.as_chunks() else {
            return None;
        };
        let mut parts: Vec<_> = parts.iter().copied().map(FramePart::new).collect();
        let chroma = match &mut parts[..] {
            // A unit of a lone component is one block, whatever its factors say.
            [grey] if (1..=4).contains(&grey.across) && (1..=4).contains(&grey.down) => {
                [grey.across, grey.down] = [1, 1];
                Chroma::Full
            }
            [first, second, third] => {
                let names = [first.name, second.name, third.name] == [1, 2, 3];
                let ones = [second, third].map(|part| [part.across, part.down]) == [[1, 1]; 2];
                match [first.across, first.down] {
                    _ if !names || !ones => return None,
                    [1, 1] => Chroma::Full,
                    [2, 1] => Chroma::Half,
                    [2, 2] => Chroma::Quarter,
                    _ => return None,
                }
            }
            _ => return None,
        };
        let [width, height] = [[w0, w1], [h0, h1]].map(|side| u16::from_be_bytes(side).into());
        let complete = parts.len() == usize::from(count) && width > 0 && height > 0;
        complete.then_some(Self {
            width,
            height,
            chroma,
            parts,
        })
    }
}

impl FramePart {
    fn new([name, factors, steps]: [u8; 3]) -> Self {
        Self {
            name,
            across: usize::from(factors >> 4),
            down: usize::from(factors & 15),
            steps: usize::from(steps),
        }
    }
}

impl Tables {
    /// Huffman codes (section B.2.4.2).
    fn codes(&mut self, mut segment: &[u8]) -> Option<()> {
        while let Some((&place, rest)) = segment.split_first() {
            let (&counts, rest) = rest.split_first_chunk()?;
            let count = counts.iter().map(|&count| usize::from(count)).sum();
            let (symbols, rest) = rest.split_at_checked(count)?;
            let code = Huffman::new(counts, symbols)?;
            let (tables, most) = match place >> 4 {
                0 => (&mut self.dc, 11),
                1 => (&mut self.ac, 255),
                _ => return None,
            };
            code.all(|symbol| symbol <= most).then_some(())?;
            *tables.get_mut(usize::from(place & 15))? = Some(code);
            segment = rest;
        }
        Some(())
    }

    /// Steps of coefficients (section B.2.4.1), of 8 bits as in every baseline file.
    fn steps(&mut self, segment: &[u8]) -> Option<()> {
        let (tables, []) = segment.as_chunks::<65>() else {
            return None;
        };
        for [place, steps @ ..] in tables {
            *self.steps.get_mut(usize::from(*place))? = Some(steps.map(u16::from));
        }
        Some(())
    }

    /// The scan's header (section B.2.3): one scan has all components and all coefficients.
    fn scan<'a>(self, segment: &[u8], scan: &'a [u8]) -> Option<Plain<'a>> {
        let frame = self.frame?;
        let (&[count], segment) = segment.split_first_chunk()?;
        let (parts, &[0, 63, 0]) = segment.split_last_chunk()? else {
            return None;
        };
        let (parts, []) = parts.as_chunks() else {
            return None;
        };
        if ![parts.len(), count.into()]
            .iter()
            .all(|&n| n == frame.parts.len())
        {
            return None;
        }
        let component = |(part, &[name, codes]): (&FramePart, &[u8; 2])| {
            (part.name == name).then_some(())?;
            Some(Component {
                across: part.across,
                down: part.down,
                steps: (*self.steps.get(part.steps)?)?,
                dc: self.dc.get(usize::from(codes >> 4))?.clone()?,
                ac: self.ac.get(usize::from(codes & 15))?.clone()?,
            })
        };
        let components: Option<_> = frame.parts.iter().zip(parts).map(component).collect();
        Some(Plain {
            width: frame.width,
            height: frame.height,
            chroma: frame.chroma,
            components: components?,
            restart: self.restart,
            scan,
        })
    }
}
