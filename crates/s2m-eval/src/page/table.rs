//! The table of metrics, the reasons for its gaps, and what its numbers mean.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use s2m_show::page::html::{Digits, count, escape};

use super::super::measure::Metric;
use super::super::{Evaluated, Evaluation};

/// Most queries that are columns; more of them are rows.
const MOST_COLUMNS: usize = 4;

/// Digits of shares, as many as 10,000 items can fill.
const SHARE: Digits = Digits::Behind(4);

/// What stands where there is no number.
const MISSING: &str = "–";

/// What was measured of one query, or of all together.
struct Part<'a> {
    /// Its name, ready for the page.
    name: String,
    found: &'a Evaluated,
}

impl Part<'_> {
    fn heading(&self, scope: &str) -> String {
        format!(
            "<th scope=\"{scope}\">{}<small>{} generated<br>{} real</small></th>",
            self.name,
            count(self.found.n_generated),
            count(self.found.n_real)
        )
    }
}

/// Reasons below a table; equal ones share a number.
#[derive(Default)]
struct Notes(Vec<String>);

impl Notes {
    fn mark(&mut self, note: &str) -> String {
        let known = self.0.iter().position(|other| other == note);
        let at = known.unwrap_or_else(|| {
            self.0.push(note.to_owned());
            self.0.len() - 1
        });
        let number = at + 1;
        format!("<sup><a href=\"#note-{number}\">{number}</a></sup>")
    }

    fn list(&self) -> String {
        let mut html = String::new();
        for (at, note) in self.0.iter().enumerate() {
            let _ = writeln!(html, "<li id=\"note-{}\">{}</li>", at + 1, escape(note));
        }
        if html.is_empty() {
            html
        } else {
            format!("<ol class=\"notes\">\n{html}</ol>\n")
        }
    }
}

/// All metrics, with the reasons for gaps and the definitions below.
pub(super) fn metrics(evaluation: &Evaluation) -> String {
    let parts = parts(evaluation);
    let metrics: Vec<Metric> = evaluation
        .pooled
        .measures
        .iter()
        .map(|measure| measure.metric)
        .collect();
    if metrics.is_empty() {
        return "<p class=\"quiet\">No metric was asked for.</p>\n".to_owned();
    }
    let mut notes = Notes::default();
    let (class, rows) = if evaluation.queries.len() > MOST_COLUMNS {
        ("wide", parts_as_rows(&parts, &metrics, &mut notes))
    } else {
        ("narrow", parts_as_columns(&parts, &metrics, &mut notes))
    };
    let table = scrolling(class, "All metrics", &caption(&parts), &rows);
    let by_label = by_label(evaluation);
    let definitions = definitions(&metrics);
    format!("{table}{}{by_label}{definitions}", notes.list())
}

/// All together and each query; one query is all there is.
fn parts(evaluation: &Evaluation) -> Vec<Part<'_>> {
    let pooled = Part {
        name: "all together".to_owned(),
        found: &evaluation.pooled,
    };
    let by_query = evaluation.queries.iter().map(|(query, found)| Part {
        name: format!("<code>{}</code>", escape(query)),
        found,
    });
    let is_alone = evaluation.queries.len() == 1;
    let pooled = (!is_alone).then_some(pooled);
    pooled.into_iter().chain(by_query).collect()
}

/// A table that scrolls by itself where the screen is narrow.
fn scrolling(class: &str, label: &str, caption: &str, rows: &str) -> String {
    format!(
        "<div class=\"scroll\" role=\"region\" aria-label=\"{label}\" tabindex=\"0\">\n<table class=\"{class}\">\n\
         <caption><span>{caption}</span></caption>\n{rows}</table>\n</div>\n"
    )
}

fn caption(parts: &[Part<'_>]) -> String {
    let references: BTreeSet<&str> = parts.iter().map(|part| part.found.reference).collect();
    let references: Vec<String> = references.into_iter().map(escape).collect();
    format!(
        "Compared with {}. ↑ larger is better, ↓ smaller is better; 95 % intervals in small print.",
        references.join(" or ")
    )
}

fn parts_as_columns(parts: &[Part<'_>], metrics: &[Metric], notes: &mut Notes) -> String {
    let mut html = "<thead>\n<tr><th scope=\"col\">metric</th>".to_owned();
    html.extend(parts.iter().map(|part| part.heading("col")));
    html.push_str("</tr>\n</thead>\n<tbody>\n");
    for &metric in metrics {
        let _ = write!(html, "<tr>{}", metric_heading(metric, "row"));
        let digits = digits(metric, parts);
        html.extend(
            parts
                .iter()
                .map(|part| cell(part.found, metric, digits, notes)),
        );
        html.push_str("</tr>\n");
    }
    html + "</tbody>\n"
}

fn parts_as_rows(parts: &[Part<'_>], metrics: &[Metric], notes: &mut Notes) -> String {
    let mut html = "<thead>\n<tr><th scope=\"col\">query</th>".to_owned();
    html.extend(metrics.iter().map(|&metric| metric_heading(metric, "col")));
    html.push_str("</tr>\n</thead>\n<tbody>\n");
    for part in parts {
        let _ = write!(html, "<tr>{}", part.heading("row"));
        html.extend(metrics.iter().map(|&metric| {
            let digits = digits(metric, parts);
            cell(part.found, metric, digits, notes)
        }));
        html.push_str("</tr>\n");
    }
    html + "</tbody>\n"
}

/// A metric with its arrow, and what tells its definition from others in small print.
fn metric_heading(metric: Metric, scope: &str) -> String {
    let title = metric.title();
    let (name, details) = title.split_once(" (").unwrap_or((title, ""));
    let details = details.trim_end_matches(')');
    format!(
        "<th scope=\"{scope}\">{}{}<small>{}</small></th>",
        escape(name),
        arrow(metric),
        escape(details)
    )
}

fn arrow(metric: Metric) -> String {
    let (sign, meaning) = match metric.larger_is_better() {
        Some(true) => ("↑", "larger is better"),
        Some(false) => ("↓", "smaller is better"),
        None => return String::new(),
    };
    format!(" <span role=\"img\" aria-label=\"{meaning}\" title=\"{meaning}\">{sign}</span>")
}

/// How a metric is written in all its cells.
fn digits(metric: Metric, parts: &[Part<'_>]) -> Digits {
    match metric {
        Metric::Fid | Metric::Kid | Metric::Is | Metric::Diversity => {
            let measures = parts.iter().flat_map(|part| &part.found.measures);
            Digits::of(measures.filter(|m| m.metric == metric).flat_map(|measure| {
                // Ends of an interval count a tenth: they decide only where the value is next to nothing.
                let ends = measure.interval.into_iter().flatten().map(|end| end / 10.0);
                measure.value.into_iter().chain(ends)
            }))
        }
        _ => SHARE,
    }
}

fn cell(found: &Evaluated, metric: Metric, digits: Digits, notes: &mut Notes) -> String {
    let measure = found.measures.iter().find(|m| m.metric == metric);
    let note = measure.and_then(|measure| measure.note.as_deref());
    let mark = note.map_or(String::new(), |note| notes.mark(note));
    let value = measure.map_or(MISSING.to_owned(), |measure| match measure.value {
        None => MISSING.to_owned(),
        Some(value) => with_interval(value, measure.interval, digits),
    });
    format!("<td>{value}{mark}</td>")
}

fn with_interval(value: f64, interval: Option<[f64; 2]>, digits: Digits) -> String {
    let value = digits.write(value);
    match interval.map(|ends| ends.map(|end| digits.write(end))) {
        None => value,
        Some([low, high]) => format!("{value}<small>{low} to {high}</small>"),
    }
}

/// Accuracy of each label that a query decides.
fn by_label(evaluation: &Evaluation) -> String {
    let queries = &evaluation.queries;
    let labels: BTreeSet<&String> = queries
        .values()
        .flat_map(|found| found.accuracy_by_label.keys())
        .collect();
    if labels.is_empty() {
        return String::new();
    }
    let mut html = "<thead>\n<tr><th scope=\"col\">query</th>".to_owned();
    html.extend(
        labels
            .iter()
            .map(|label| format!("<th scope=\"col\">{}</th>", escape(label))),
    );
    html.push_str("</tr>\n</thead>\n<tbody>\n");
    for (query, found) in queries {
        let _ = write!(
            html,
            "<tr><th scope=\"row\"><code>{}</code></th>",
            escape(query)
        );
        html.extend(
            labels
                .iter()
                .map(|&label| match found.accuracy_by_label.get(label) {
                    None => format!("<td>{MISSING}</td>"),
                    Some(&[share, low, high]) => {
                        format!(
                            "<td>{}</td>",
                            with_interval(share, Some([low, high]), SHARE)
                        )
                    }
                }),
        );
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody>\n");
    let caption =
        "Accuracy of each label that a query decides, with 95 % intervals; – where it does not.";
    scrolling("narrow", "Accuracy by label", caption, &html)
}

fn definitions(metrics: &[Metric]) -> String {
    let mut html = "<details open>\n<summary>What the numbers are</summary>\n<dl>\n".to_owned();
    for metric in metrics {
        let (title, meaning) = (escape(metric.title()), escape(metric.definition()));
        let _ = writeln!(html, "<div><dt>{title}</dt><dd>{meaning}</dd></div>");
    }
    html + "</dl>\n</details>\n"
}
