//! What a chain leaves in its file: its lines, and the trainings behind them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::chains::{Chain, Kept};
use super::measure::Figures;
use super::times::Times;

/// What a chain leaves.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Made {
    /// Hash of the generator file that all its lines rest on; none for real items.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) generator: Option<String>,
    /// The trainings behind it.
    pub(super) trained: Vec<Training>,
    pub(super) lines: BTreeMap<String, Figures>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) on_the_way: Vec<OnTheWay>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) times: Option<Times>,
    /// Items of every joint class for training, held out and for tests.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) statistics: BTreeMap<String, [usize; 3]>,
}

impl Made {
    /// As the file of a chain has it; none where there is none that can be read.
    pub(super) fn read(path: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(path).ok()?).ok()
    }

    /// Whether every line is measured.
    pub(super) fn whole(&self, chain: &Chain) -> bool {
        let mut lines = chain.lines.iter();
        lines.all(|line| self.lines.contains_key(line.name))
    }

    /// The lines that are to be measured: those it lacks, or all again where it lacks none.
    pub(super) fn left(&self, chain: &'static Chain) -> Vec<&'static Kept> {
        let whole = self.whole(chain);
        let lines = chain.lines.iter();
        lines
            .filter(|line| whole || !self.lines.contains_key(line.name))
            .collect()
    }

    /// Puts trainings in the place of older ones of the same stages.
    pub(super) fn add(&mut self, trained: &[Training]) {
        let again = |old: &Training| trained.iter().any(|new| new.stage == old.stage);
        self.trained.retain(|old| !again(old));
        self.trained.extend_from_slice(trained);
    }
}

/// What a generator that was kept on the way is worth.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct OnTheWay {
    pub(super) step: u64,
    pub(super) minutes: Option<f64>,
    pub(super) fid: f64,
}

/// A training, as its trainer says it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Training {
    pub(super) stage: String,
    pub(super) steps: Option<u64>,
    pub(super) seconds: Option<f64>,
    pub(super) device: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::super::chains::{From, baseline, line};
    use super::*;
    use crate::stages::Stage;
    use s2m_fit::trainer::Kind;

    #[test]
    fn a_chain_goes_on_with_the_lines_it_lacks_and_begins_again_where_it_lacks_none() {
        const GAN: Stage = Stage {
            name: "gan",
            kind: Kind::Gan,
            template: "",
        };
        const CHAIN: &Chain = &baseline(
            "gan",
            "gan.png",
            GAN,
            &[
                line("alone", From::Unfiltered),
                line("ours", From::Ours(None)),
            ],
        );
        let names =
            |made: &Made| -> Vec<&str> { made.left(CHAIN).iter().map(|line| line.name).collect() };
        let mut made = Made::default();
        assert_eq!(names(&made), ["alone", "ours"]);
        let figures = Figures {
            classes: BTreeMap::new(),
            pooled: None,
        };
        made.lines.insert("alone".to_owned(), figures.clone());
        assert_eq!(names(&made), ["ours"]);
        made.lines.insert("ours".to_owned(), figures);
        assert_eq!(names(&made), ["alone", "ours"]);
    }
}
