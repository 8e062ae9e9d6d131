//! `s2m eval`: whether samples are right, real and varied.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use s2m_eval::measure::{Measure, Metric};
use s2m_eval::truth::LabelEntry;
use s2m_eval::{Evaluated, Evaluation, Request, evaluate};

use super::{Answer, print_json};
use crate::bars::Bars;
use crate::options::{MachineOptions, TalkOptions};
use crate::streams::Streams;
use crate::table::table;

const EXAMPLES: &str = "Examples:
  s2m eval --real photos --generated out --features inception.onnx --html report.html
  s2m eval --real real.npy --generated made.npy --metrics fid,kid
  s2m eval --real mnist/t10k-images-idx3-ubyte.gz --generated evens --referee models/referees/mnist.onnx \\
    --label A=0,1,2,3,4,5,6,7,8,9 --label B=1,3,5,7,9";

/// Measure samples: accuracy, FID, KID, IS, precision, recall, density, coverage and more
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct EvalArgs {
    /// Real items: a folder of images, an array (.npy, .npz), or an idx file
    #[arg(long, value_name = "PATH")]
    real: PathBuf,

    /// Generated items: the same, or an output folder of `s2m sample`
    #[arg(long, value_name = "PATH")]
    generated: PathBuf,

    /// Items that the generator was trained on, for the copying check
    #[arg(long, value_name = "PATH")]
    training: Option<PathBuf>,

    /// Network that turns images into features: NAME.onnx or NAME.onnx.gz, settings in NAME.toml beside it
    #[arg(long, value_name = "NET.onnx")]
    features: Option<PathBuf>,

    /// Network that tells the labels of an image; without --features its features serve too
    #[arg(long, value_name = "NET.onnx")]
    referee: Option<PathBuf>,

    /// Query that the generated items are to satisfy, where they do not say so themselves
    #[arg(long, value_name = "QUERY")]
    query: Option<String>,

    /// Classes that carry a label; repeat for every label [default: every class is a label]
    #[arg(long = "label", value_name = "NAME=CLASS,…", value_parser = label)]
    labels: Vec<LabelEntry>,

    /// Metrics to measure [default: all]
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    metrics: Vec<Metric>,

    /// Leave out images that cannot be read, and count them
    #[arg(long)]
    skip_bad: bool,

    /// Folder in which features are kept [default: s2m in the user's cache folder]
    #[arg(long, value_name = "DIR", conflicts_with = "no_cache")]
    cache: Option<PathBuf>,

    /// Keep no features
    #[arg(long)]
    no_cache: bool,

    /// Write a page with the table, images and plots
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    #[command(flatten)]
    machine: MachineOptions,

    #[command(flatten)]
    talk: TalkOptions,
}

/// `NAME=CLASS,CLASS`.
fn label(text: &str) -> Result<LabelEntry, String> {
    let wrong = || "it must be NAME=CLASS,CLASS, such as B=1,3,5".to_owned();
    let (label, classes) = text.split_once('=').ok_or_else(wrong)?;
    let classes: Vec<String> = classes.split(',').map(|c| c.trim().to_owned()).collect();
    if label.trim().is_empty() || classes.iter().any(String::is_empty) {
        return Err(wrong());
    }
    Ok(LabelEntry {
        label: label.trim().to_owned(),
        classes,
    })
}

/// Where features are kept unless told otherwise.
fn default_cache() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let base = set("XDG_CACHE_HOME").map(PathBuf::from);
    let base = base.or_else(|| set("HOME").map(|home| PathBuf::from(home).join(".cache")));
    base.map(|base| base.join("s2m"))
}

pub(crate) fn run(args: &EvalArgs, streams: &mut Streams<'_>) -> Result<Answer> {
    let cache = if args.no_cache {
        None
    } else {
        args.cache.clone().or_else(default_cache)
    };
    let metrics = if args.metrics.is_empty() {
        &Metric::ALL[..]
    } else {
        &args.metrics
    };
    let request = Request {
        real: &args.real,
        generated: &args.generated,
        training: args.training.as_deref(),
        features: args.features.as_deref(),
        referee: args.referee.as_deref(),
        query: args.query.as_deref(),
        labels: &args.labels,
        metrics,
        skip_bad: args.skip_bad,
        cache: cache.as_deref(),
        machine: args.machine.machine(),
        html: args.html.as_deref(),
    };
    let bars = Bars::new(args.talk.quiet);
    let found = evaluate(&request, &bars)?;
    drop(bars);
    if args.talk.json {
        print_json(&found, streams)?;
    } else {
        show(&found, streams)?;
    }
    if !args.talk.quiet {
        remarks(&found, args, streams)?;
    }
    match found.no_page {
        None => Ok(Answer::Yes),
        Some(why) => anyhow::bail!(why),
    }
}

/// A table for all samples together, and one for every query where there are several.
fn show(found: &Evaluation, streams: &mut Streams<'_>) -> Result<()> {
    let mut parts: Vec<(String, &Evaluated)> = Vec::new();
    if found.queries.len() != 1 {
        parts.push(("all together".to_owned(), &found.pooled));
    }
    parts.extend(
        found
            .queries
            .iter()
            .map(|(query, part)| (query.clone(), part)),
    );
    for (at, (name, part)) in parts.iter().enumerate() {
        if at > 0 {
            writeln!(streams.out)?;
        }
        writeln!(
            streams.out,
            "{name}: {} generated items against {} {}",
            part.n_generated, part.n_real, part.reference
        )?;
        let heading = ["metric", "value", "95 % interval"].map(str::to_owned);
        let rows: Vec<Vec<String>> = std::iter::once(heading.to_vec())
            .chain(part.measures.iter().filter(|m| m.value.is_some()).map(row))
            .chain(
                part.accuracy_by_label
                    .iter()
                    .map(|(label, [share, low, high])| {
                        vec![
                            format!("  accuracy of {label}"),
                            format!("{share:.4}"),
                            format!("[{low:.4}, {high:.4}]"),
                        ]
                    }),
            )
            .collect();
        write!(streams.out, "{}", table(&rows))?;
    }
    Ok(())
}

fn row(measure: &Measure) -> Vec<String> {
    let digits = digits(measure);
    let number = |value: f64| format!("{value:.digits$}");
    let interval = measure.interval.map_or("-".to_owned(), |[low, high]| {
        format!("[{}, {}]", number(low), number(high))
    });
    vec![
        measure.metric.title().to_owned(),
        measure.value.map_or("-".to_owned(), number),
        interval,
    ]
}

/// Digits behind the point that a value deserves.
fn digits(measure: &Measure) -> usize {
    match measure.metric {
        Metric::Fid | Metric::Is | Metric::Diversity => 3,
        Metric::Kid => 6,
        _ => 4,
    }
}

/// What to know besides the numbers, on standard error.
fn remarks(found: &Evaluation, args: &EvalArgs, streams: &mut Streams<'_>) -> Result<()> {
    let referee = found.referee.as_deref();
    let judge = referee.map_or(String::new(), |name| format!(", labels by `{name}`"));
    writeln!(streams.err, "features: {}{judge}", found.features)?;
    let noted = found
        .pooled
        .measures
        .iter()
        .chain(found.queries.values().flat_map(|part| &part.measures));
    let mut said = Vec::new();
    for measure in noted {
        let Some(why) = &measure.note else { continue };
        let line = format!("no {}: {why}", measure.metric.name());
        // Whoever names metrics wants to hear about all of them; else only what was tried and failed.
        let asked = !args.metrics.is_empty() || !why.starts_with("it needs");
        if asked && !said.contains(&line) {
            writeln!(streams.err, "{line}")?;
            said.push(line);
        }
    }
    if !found.skipped.is_empty() {
        writeln!(streams.err, "{} images were left out:", found.skipped.len())?;
        for why in &found.skipped {
            writeln!(streams.err, "  {why}")?;
        }
    }
    if let (Some(page), None) = (&args.html, &found.no_page) {
        writeln!(streams.err, "page: {}", page.display())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_a_name_and_classes() {
        let found = label("B=1, 3,5").unwrap();
        assert_eq!((found.label.as_str(), found.classes.len()), ("B", 3));
        for wrong in ["B", "B=", "=1", "B=1,,2"] {
            assert!(label(wrong).is_err(), "{wrong}");
        }
    }
}
