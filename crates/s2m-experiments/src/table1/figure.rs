//! The paper's figure: random samples of each method, wrong ones in red boxes.

use s2m_show::picture::{Canvas, Mark, Marked, Picture, Row, Section, named_rows};

use super::methods::{DATA, DataSet, Method};
use super::{Figures, drawn};
use crate::Error;
use crate::Run;
use crate::evaluation::Evaluator;
use crate::line::Line;

/// Samples in a row.
pub(super) const SHOWN: usize = 20;

/// A data set with its lines, as the table has them.
pub(super) struct Measured<'m> {
    pub(super) data: &'m DataSet,
    /// Original classes that are wanted.
    pub(super) wanted: String,
    pub(super) lines: Vec<(Method, Line<Figures>)>,
}

/// The pictures: one per family of data, with a section per data set.
pub(super) fn pictures(
    evaluator: &Evaluator<'_>,
    runs: &[Run],
    measured: &[Measured<'_>],
) -> Result<Vec<(&'static str, Canvas)>, Error> {
    let mut names: Vec<&'static str> = DATA.iter().map(|data| data.picture).collect();
    names.dedup();
    let mut pictures = Vec::new();
    for name in names {
        let mut sections = Vec::new();
        for measured in measured.iter().filter(|m| m.data.picture == name) {
            sections.push(section(evaluator, runs, measured)?);
        }
        sections.retain(|section| !section.rows.is_empty());
        if !sections.is_empty() {
            pictures.push((name, named_rows(&sections)?));
        }
    }
    Ok(pictures)
}

fn section(
    evaluator: &Evaluator<'_>,
    runs: &[Run],
    measured: &Measured<'_>,
) -> Result<Section, Error> {
    let mut rows = Vec::new();
    for (method, line) in &measured.lines {
        let (Some(name), Some((seed, figures))) = (method.shown, line.measured().next()) else {
            continue;
        };
        let Some(drawn) = drawn(runs, measured.data, method, seed)? else {
            continue;
        };
        let shown = figures.verdict.right.len();
        let levels = evaluator.render(&drawn, &figures.sampled, shown)?;
        rows.push(Row {
            name: name.to_owned(),
            pictures: marked(&levels, &figures.verdict.right),
        });
    }
    let DataSet { title, .. } = measured.data;
    Ok(Section {
        title: format!("{title}: wanted {}", measured.wanted),
        rows,
    })
}

/// Square grey pictures out of levels, with a mark each.
fn marked(levels: &[f32], right: &[bool]) -> Vec<Marked> {
    let size = levels.len() / right.len().max(1);
    let side = size.isqrt();
    let picture = |levels: &[f32]| Picture {
        width: side as u32,
        height: side as u32,
        channels: 1,
        bits: 8,
        levels: levels.iter().map(|&level| level as u16).collect(),
    };
    let pictures = levels.chunks_exact(size.max(1)).map(picture);
    let mark = |right: &bool| if *right { Mark::Right } else { Mark::Wrong };
    pictures
        .zip(right.iter().map(mark))
        .map(|(picture, mark)| Marked { picture, mark })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::methods::METHODS;
    use super::*;

    #[test]
    fn marks_follow_the_referee() {
        let levels = [[0.0; 4], [7.0; 4], [255.0; 4]].concat();
        let found = marked(&levels, &[true, false, true]);
        let marks: Vec<Mark> = found.iter().map(|m| m.mark).collect();
        assert_eq!(marks, [Mark::Right, Mark::Wrong, Mark::Right]);
        assert_eq!(found[1].picture.levels, [7; 4]);
        assert_eq!((found[1].picture.width, found[1].picture.height), (2, 2));
        assert!(marked(&[], &[]).is_empty());
    }

    #[test]
    fn every_data_set_shows_the_methods_of_the_papers_figure() {
        for data in DATA {
            let for_it = METHODS.iter().filter(|m| m.data.contains(&data.name));
            let shown: Vec<&str> = for_it.filter_map(|m| m.shown).collect();
            for name in ["RumiLSGAN", "CP-GAN", "S2M, paper's settings"] {
                assert!(shown.contains(&name), "{}: {shown:?}", data.name);
            }
        }
    }
}
