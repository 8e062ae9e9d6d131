//! Tables of results: means over seeds, and the text of `RESULTS.md`.
//!
//! A cell is the mean over seeds ± the standard deviation (N − 1), as in the paper's tables. One seed
//! has no deviation, and a seed without a result is named, never averaged over.

use std::fmt::Write as _;

use serde::Serialize;

/// Mean and standard deviation over seeds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Summary {
    /// The mean.
    pub mean: f64,
    /// Standard deviation (N − 1); none for a single value.
    pub sd: Option<f64>,
}

impl Summary {
    /// Of some values; none where there are none.
    pub fn of(values: &[f64]) -> Option<Self> {
        let n = values.len() as f64;
        if values.is_empty() {
            return None;
        }
        let mean = values.iter().sum::<f64>() / n;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let sd = (values.len() > 1).then(|| (squares / (n - 1.0)).sqrt());
        Some(Self { mean, sd })
    }

    /// As `mean ± sd` with so many decimals.
    pub fn text(&self, decimals: usize) -> String {
        let mean = format!("{:.decimals$}", self.mean);
        match self.sd {
            Some(sd) => format!("{mean} ± {sd:.decimals$}"),
            None => mean,
        }
    }
}

/// A cell without a value.
pub(crate) const NOTHING: &str = "-";

/// The mean over the seeds that have a value, as text; where some have none, how many have.
pub(crate) fn cell(values: impl IntoIterator<Item = Option<f64>>, decimals: usize) -> String {
    let values: Vec<Option<f64>> = values.into_iter().collect();
    let known: Vec<f64> = values.iter().copied().flatten().collect();
    let Some(summary) = Summary::of(&known) else {
        return NOTHING.to_owned();
    };
    let text = summary.text(decimals);
    if known.len() == values.len() {
        text
    } else {
        format!("{text} ({} of {})", known.len(), values.len())
    }
}

/// A figure of the paper: mean and standard deviation.
pub(crate) type Published = [f64; 2];

/// A figure of the paper as text.
pub(crate) fn published(figure: Option<Published>, decimals: usize) -> String {
    figure.map_or(NOTHING.to_owned(), |[mean, sd]| {
        format!("{mean:.decimals$} ± {sd:.decimals$}")
    })
}

/// Seeds as text.
pub(crate) fn list(seeds: &[u64]) -> String {
    let texts: Vec<String> = seeds.iter().map(u64::to_string).collect();
    texts.join(", ")
}

/// Which seeds a line is made of, and which are missing.
pub(crate) fn seeds(present: &[u64], wanted: &[u64]) -> String {
    let missing: Vec<u64> = wanted
        .iter()
        .copied()
        .filter(|s| !present.contains(s))
        .collect();
    match (present.is_empty(), missing.is_empty()) {
        (_, true) => list(present),
        (true, _) => format!("{} missing", list(&missing)),
        _ => format!("{}; {} missing", list(present), list(&missing)),
    }
}

/// A table; the first column is names, the others are figures.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Table {
    /// Above it.
    pub title: String,
    /// Column names.
    pub columns: Vec<String>,
    /// Cells, one row each.
    pub rows: Vec<Vec<String>>,
    /// Below it.
    pub notes: Vec<String>,
}

impl Table {
    /// A table without rows.
    pub(crate) fn new(title: &str, columns: &[&str]) -> Self {
        Self {
            title: title.to_owned(),
            columns: columns.iter().map(|&column| column.to_owned()).collect(),
            rows: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// As Markdown, under its title.
    pub(crate) fn markdown(&self) -> String {
        let mut text = format!("## {}\n\n{}", self.title, self.grid());
        for note in &self.notes {
            write!(text, "\n{note}\n").expect("writing to a string cannot fail");
        }
        text
    }

    /// Columns and rows alone, as Markdown.
    pub(crate) fn grid(&self) -> String {
        let line = |cells: &[String]| {
            let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
            format!("| {} |\n", cells.join(" | "))
        };
        let mut text = line(&self.columns);
        let rules = self.columns.iter().enumerate();
        let rules = rules.map(|(at, _)| if at == 0 { "---" } else { "---:" });
        let rules: Vec<String> = rules.map(str::to_owned).collect();
        text += &line(&rules);
        for row in &self.rows {
            text += &line(row);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_and_deviations_are_exact() {
        assert_eq!(Summary::of(&[]), None);
        let one = Summary::of(&[97.5]).unwrap();
        assert_eq!(
            (one.mean, one.sd, one.text(2).as_str()),
            (97.5, None, "97.50")
        );
        // Deviations −1, 0, 1 about 2: variance 2/2.
        let three = Summary::of(&[1.0, 2.0, 3.0]).unwrap();
        assert_eq!((three.mean, three.sd), (2.0, Some(1.0)));
        assert_eq!(three.text(1), "2.0 ± 1.0");
    }

    #[test]
    fn seeds_without_a_value_are_left_out_of_the_mean_and_named() {
        assert_eq!(
            cell([Some(1.0), None, Some(3.0)], 2),
            "2.00 ± 1.41 (2 of 3)"
        );
        assert_eq!(cell([None, None], 2), "-");
        assert_eq!(seeds(&[0, 1, 2], &[0, 1, 2]), "0, 1, 2");
        assert_eq!(seeds(&[1], &[0, 1, 2]), "1; 0, 2 missing");
        assert_eq!(seeds(&[], &[0, 1]), "0, 1 missing");
    }

    #[test]
    fn markdown_keeps_bars_inside_cells() {
        let mut table = Table::new("Title", &["query", "share"]);
        table.rows.push(vec!["A | B".to_owned(), "1.0".to_owned()]);
        table.notes.push("Below.".to_owned());
        assert_eq!(
            table.markdown(),
            "## Title\n\n| query | share |\n| --- | ---: |\n| A \\| B | 1.0 |\n\nBelow.\n"
        );
        assert_eq!(published(Some([99.52, 0.34]), 2), "99.52 ± 0.34");
        assert_eq!(published(None, 2), "-");
    }
}
