//! Plain text tables: columns as wide as their widest cell, numbers to the right.

/// Lays out a table; the first row is the heading.
pub(crate) fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells = row
            .iter()
            .zip(&widths)
            .enumerate()
            .map(|(column, (cell, &width))| {
                if column == 0 {
                    format!("{cell:<width$}")
                } else {
                    format!("{cell:>width$}")
                }
            });
        text += cells.collect::<Vec<_>>().join("  ").trim_end();
        text.push('\n');
    }
    text
}

/// A share as a percentage with sensible digits.
pub(crate) fn percent(share: f64) -> String {
    if share > 0.0 && share < 0.001 {
        format!("{:.4} %", 100.0 * share)
    } else {
        format!("{:.2} %", 100.0 * share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let row = |cells: [&str; 2]| cells.map(str::to_owned).to_vec();
        let text = table(&[row(["query", "share"]), row(["A", "7.00 %"])]);
        assert_eq!(text, "query   share\nA      7.00 %\n");
    }
}
