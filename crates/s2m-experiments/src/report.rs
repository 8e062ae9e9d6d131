//! What an experiment found, as `RESULTS.md` and pictures.

use std::fs;
use std::path::Path;

use s2m::output::write_whole;
use s2m_model::runtime::Runtime;
use s2m_show::picture::Canvas;

use super::results::{self, NOTHING, Table};
use super::stages::Run;
use super::{Reproduced, Request};
use crate::Error;

/// Remarks by hand, appended to the results.
const NOTES: &str = "NOTES.md";

/// The results.
const RESULTS: &str = "RESULTS.md";

/// What an experiment has to say.
pub(crate) struct Findings {
    /// What it is, in a line.
    pub(super) title: &'static str,
    /// How to read it.
    pub(super) preface: Vec<String>,
    pub(super) seeds: Vec<u64>,
    pub(super) runs: Vec<Run>,
    pub(super) tables: Vec<Table>,
    pub(super) missing: Vec<String>,
    pub(super) pictures: Vec<(&'static str, Canvas)>,
}

/// Writes pictures and `RESULTS.md`.
pub(super) fn write(request: &Request<'_>, findings: Findings) -> Result<Reproduced, Error> {
    let out = request.out;
    fs::create_dir_all(out).map_err(Error::write(out))?;
    let mut pictures = Vec::new();
    for (name, canvas) in &findings.pictures {
        let path = out.join(name);
        write_whole(&path, &canvas.to_png()?)?;
        pictures.push(path);
    }
    let shown = shown(out, &findings);
    let notes = fs::read_to_string(out.join(NOTES)).ok();
    let runtime = Runtime::load(request.machine.onnxruntime)?.version();
    let text = text(request, &findings, &runtime, &shown, notes.as_deref());
    let results = out.join(RESULTS);
    write_whole(&results, text.as_bytes())?;
    Ok(Reproduced {
        experiment: request.experiment,
        tables: findings.tables,
        missing: findings.missing,
        results,
        pictures,
    })
}

/// Names of the pictures: those of this run, then those that earlier ones have left beside them, where rows can be
/// made on different days.
fn shown(out: &Path, findings: &Findings) -> Vec<String> {
    let mut names: Vec<String> = findings
        .pictures
        .iter()
        .map(|(name, _)| (*name).to_owned())
        .collect();
    let there = fs::read_dir(out).into_iter().flatten().flatten();
    let mut earlier: Vec<String> = there
        .filter(|entry| entry.path().extension().is_some_and(|end| end == "png"))
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| !names.contains(name))
        .collect();
    earlier.sort();
    names.append(&mut earlier);
    names
}

/// The text of `RESULTS.md`.
fn text(
    request: &Request<'_>,
    findings: &Findings,
    runtime: &str,
    pictures: &[String],
    notes: Option<&str>,
) -> String {
    let name = request.experiment.name();
    let mut parts = vec![
        format!(
            "# {}\n\nWritten by `s2m reproduce {name}`, which replaces this file; remarks by hand belong in `{NOTES}` beside it.\n",
            findings.title
        ),
        format!(
            "## What was run\n\n{} samples per line; seeds {}, cells are mean ± standard deviation (N - 1) over seeds. s2m {}, ONNX Runtime {runtime}, judged on {}.\n",
            request.samples,
            results::list(&findings.seeds),
            env!("CARGO_PKG_VERSION"),
            request.machine.run.device.name(),
        ),
    ];
    parts.push(run_table(request, &findings.runs));
    parts.extend(findings.preface.iter().map(|line| format!("{line}\n")));
    parts.extend(findings.tables.iter().map(Table::markdown));
    if !findings.missing.is_empty() {
        let lines: Vec<String> = findings
            .missing
            .iter()
            .map(|m| format!("- {m}\n"))
            .collect();
        parts.push(format!("## Missing\n\n{}", lines.concat()));
    }
    let pictures: Vec<String> = pictures
        .iter()
        .map(|name| format!("![{name}]({name})\n"))
        .collect();
    if !pictures.is_empty() {
        parts.push(format!("## Pictures\n\n{}", pictures.join("\n")));
    }
    if let Some(notes) = notes {
        parts.push(format!("## Notes\n\n{}\n", notes.trim()));
    }
    parts.join("\n")
}

/// How each stage was trained, in the trainer's own words.
fn run_table(request: &Request<'_>, runs: &[Run]) -> String {
    // Run files of another experiment lie in its folder.
    let link = |name: &str| {
        let file = format!("{name}.toml");
        let networks = request.experiment.networks();
        if networks == request.experiment.name() || request.out.join(&file).exists() {
            return file;
        }
        format!("../{networks}/{file}")
    };
    let mut table = Table::new(
        "",
        &[
            "training run",
            "steps",
            "replicas",
            "device",
            "seconds",
            "steps per second",
        ],
    );
    let number = |value: Option<f64>, digits: usize| {
        value.map_or(NOTHING.to_owned(), |value| format!("{value:.digits$}"))
    };
    let whole = |value: Option<u64>| value.map_or(NOTHING.to_owned(), |value| value.to_string());
    for Run { name, done, .. } in runs {
        table.rows.push(vec![
            format!("[{name}]({})", link(name)),
            whole(done.steps),
            whole(done.replicas),
            done.device.clone().unwrap_or(NOTHING.to_owned()),
            number(done.seconds, 0),
            number(done.steps_per_second, 1),
        ]);
    }
    table.grid()
}
