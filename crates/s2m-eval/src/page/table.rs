//! The table of metrics, the reasons for its gaps, and what its numbers mean.

use std::collections::BTreeSet;

use maud::{Markup, html};
use s2m_show::page::html::{Digits, count};

use super::super::measure::Metric;
use crate::evaluation::{Evaluated, Evaluation};

/// Most queries that are columns; more of them are rows.
const MOST_COLUMNS: usize = 4;

/// Digits of shares, as many as 10,000 items can fill.
const SHARE: Digits = Digits::Behind(4);

/// What stands where there is no number.
const MISSING: &str = "–";

/// What was measured of one query, or of all together.
struct Part<'a> {
    name: Markup,
    found: &'a Evaluated,
}

impl Part<'_> {
    fn heading(&self, scope: &str) -> Markup {
        html! {
            th scope=(scope) {
                (self.name)
                small {
                    (count(self.found.n_generated)) " generated" br; (count(self.found.n_real)) " real"
                }
            }
        }
    }
}

/// Reasons below a table; equal ones share a number.
#[derive(Default)]
struct Notes(Vec<String>);

impl Notes {
    fn mark(&mut self, note: &str) -> Markup {
        let known = self.0.iter().position(|other| other == note);
        let at = known.unwrap_or_else(|| {
            self.0.push(note.to_owned());
            self.0.len() - 1
        });
        html! { sup { a href={ "#note-" (at + 1) } { (at + 1) } } }
    }

    fn list(&self) -> Markup {
        html! {
            @if !self.0.is_empty() {
                ol.notes {
                    @for (at, note) in self.0.iter().enumerate() {
                        li id={ "note-" (at + 1) } { (note) }
                    }
                }
            }
        }
    }
}

/// All metrics, with the reasons for gaps and the definitions below.
pub(super) fn metrics(evaluation: &Evaluation) -> Markup {
    let parts = parts(evaluation);
    let metrics: Vec<Metric> = evaluation
        .pooled
        .measures
        .iter()
        .map(|measure| measure.metric)
        .collect();
    if metrics.is_empty() {
        return html! { p.quiet { "No metric was asked for." } };
    }
    let mut notes = Notes::default();
    let (class, rows) = if evaluation.queries.len() > MOST_COLUMNS {
        ("wide", parts_as_rows(&parts, &metrics, &mut notes))
    } else {
        ("narrow", parts_as_columns(&parts, &metrics, &mut notes))
    };
    html! {
        (scrolling(class, "All metrics", &caption(&parts), &rows))
        (notes.list())
        (by_label(evaluation))
        (definitions(&metrics))
    }
}

/// All together and each query; one query is all there is.
fn parts(evaluation: &Evaluation) -> Vec<Part<'_>> {
    let pooled = Part {
        name: html! { "all together" },
        found: &evaluation.pooled,
    };
    let by_query = evaluation.queries.iter().map(|(query, found)| Part {
        name: html! { code { (query) } },
        found,
    });
    let is_alone = evaluation.queries.len() == 1;
    let pooled = (!is_alone).then_some(pooled);
    pooled.into_iter().chain(by_query).collect()
}

/// A table that scrolls by itself where the screen is narrow.
fn scrolling(class: &str, label: &str, caption: &str, rows: &Markup) -> Markup {
    html! {
        div.scroll role="region" aria-label=(label) tabindex="0" {
            table class=(class) {
                caption { span { (caption) } }
                (rows)
            }
        }
    }
}

fn caption(parts: &[Part<'_>]) -> String {
    let references: BTreeSet<&str> = parts.iter().map(|part| part.found.reference).collect();
    let references: Vec<&str> = references.into_iter().collect();
    format!(
        "Compared with {}. ↑ larger is better, ↓ smaller is better; 95 % intervals in small print.",
        references.join(" or ")
    )
}

fn parts_as_columns(parts: &[Part<'_>], metrics: &[Metric], notes: &mut Notes) -> Markup {
    html! {
        thead {
            tr {
                th scope="col" { "metric" }
                @for part in parts { (part.heading("col")) }
            }
        }
        tbody {
            @for &metric in metrics {
                tr {
                    (metric_heading(metric, "row"))
                    @for part in parts { (cell(part.found, metric, digits(metric, parts), notes)) }
                }
            }
        }
    }
}

fn parts_as_rows(parts: &[Part<'_>], metrics: &[Metric], notes: &mut Notes) -> Markup {
    html! {
        thead {
            tr {
                th scope="col" { "query" }
                @for &metric in metrics { (metric_heading(metric, "col")) }
            }
        }
        tbody {
            @for part in parts {
                tr {
                    (part.heading("row"))
                    @for &metric in metrics { (cell(part.found, metric, digits(metric, parts), notes)) }
                }
            }
        }
    }
}

/// A metric with its arrow, and what tells its definition from others in small print.
fn metric_heading(metric: Metric, scope: &str) -> Markup {
    let title = metric.title();
    let (name, details) = title.split_once(" (").unwrap_or((title, ""));
    let arrow = metric.larger_is_better().map(|larger| {
        if larger {
            ("↑", "larger is better")
        } else {
            ("↓", "smaller is better")
        }
    });
    html! {
        th scope=(scope) {
            (name)
            @if let Some((sign, meaning)) = arrow {
                " " span role="img" aria-label=(meaning) title=(meaning) { (sign) }
            }
            small { (details.trim_end_matches(')')) }
        }
    }
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

fn cell(found: &Evaluated, metric: Metric, digits: Digits, notes: &mut Notes) -> Markup {
    let measure = found.measures.iter().find(|m| m.metric == metric);
    let value = measure.and_then(|m| Some((m.value?, m.interval)));
    let note = measure.and_then(|measure| measure.note.as_deref());
    html! {
        td {
            @match value {
                None => (MISSING),
                Some((value, interval)) => (with_interval(value, interval, digits)),
            }
            @if let Some(note) = note { (notes.mark(note)) }
        }
    }
}

fn with_interval(value: f64, interval: Option<[f64; 2]>, digits: Digits) -> Markup {
    html! {
        (digits.write(value))
        @if let Some([low, high]) = interval {
            small { (digits.write(low)) " to " (digits.write(high)) }
        }
    }
}

/// Accuracy of each label that a query decides.
fn by_label(evaluation: &Evaluation) -> Markup {
    let queries = &evaluation.queries;
    let labels: BTreeSet<&String> = queries
        .values()
        .flat_map(|found| found.accuracy_by_label.keys())
        .collect();
    if labels.is_empty() {
        return html! {};
    }
    let rows = html! {
        thead {
            tr {
                th scope="col" { "query" }
                @for label in &labels { th scope="col" { (label) } }
            }
        }
        tbody {
            @for (query, found) in queries {
                tr {
                    th scope="row" { code { (query) } }
                    @for &label in &labels {
                        td {
                            @match found.accuracy_by_label.get(label) {
                                None => (MISSING),
                                Some(&[share, low, high]) => (with_interval(share, Some([low, high]), SHARE)),
                            }
                        }
                    }
                }
            }
        }
    };
    let caption =
        "Accuracy of each label that a query decides, with 95 % intervals; – where it does not.";
    scrolling("narrow", "Accuracy by label", caption, &rows)
}

fn definitions(metrics: &[Metric]) -> Markup {
    html! {
        details open {
            summary { "What the numbers are" }
            dl {
                @for metric in metrics {
                    div { dt { (metric.title()) } dd { (metric.definition()) } }
                }
            }
        }
    }
}
