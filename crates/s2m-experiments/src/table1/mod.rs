//! Table 1: items of one class that are not in a class inside it, on MNIST and Fashion-MNIST.
//!
//! - [`methods`]: what is compared, and the paper's figures;
//! - [`referee`]: accuracy and FID†;
//! - [`figure`]: the paper's figure of samples.

mod figure;
pub(super) mod methods;
pub(super) mod referee;

use s2m::settings::{CalibrationChoice, SampleSettings};
use s2m::weigh;
use s2m_core::query::Query;
use s2m_model::bundle::Bundle;
use s2m_runs::folder::GENERATOR;
use serde::{Deserialize, Serialize};

use super::evaluation::{Drawn, Evaluator, Finding, Sampled, Way};
use super::line::Line;
use super::results::{NOTHING, Table, published};
use super::stages::Run;
use super::{Bench, Findings, stage};
use crate::Error;

use figure::{Measured, SHOWN};
use methods::{DATA, DataSet, GAN, METHODS, Method, QUERY, STAGES, STEPS, Source};
use referee::{Bounds, Referee, Verdict};

/// What is measured of one draw.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Figures {
    verdict: Verdict,
    sampled: Sampled,
}

pub(super) fn run(bench: &Bench<'_>) -> Result<Findings, Error> {
    let seeds = bench.seeds(&GAN)?;
    let runs = bench.finish(&STAGES)?;
    let evaluator = bench.evaluator(STEPS);
    let (mut tables, mut missing, mut measured) = (Vec::new(), Vec::new(), Vec::new());
    for data in &DATA {
        let Some(referee) = referee::of_data(&runs, data, bench)? else {
            missing.push(format!(
                "{}: there is no referee ({}), so nothing is judged",
                data.title, data.referee
            ));
            continue;
        };
        let lines = lines(&evaluator, &runs, data, &referee, &seeds)?;
        let named = lines.iter().flat_map(|(_, line)| line.missing());
        missing.extend(named.map(|text| format!("{}: {text}", data.title)));
        tables.push(table(data, &referee, &lines, &referee.bounds(&evaluator)?));
        measured.push(Measured {
            data,
            wanted: referee.wanted(),
            lines,
        });
    }
    tables.push(settings_table(&runs, &seeds)?);
    Ok(Findings {
        title: "Table 1: MNIST-3/5, MNIST-Even, FMNIST-Even",
        preface: vec![format!(
            "Query `{QUERY}`. Accuracy is by one referee for all methods, a fully supervised LeNet5 over the ten original classes. FID† is on its 84 post-ReLU features against the test items of the target: it compares methods under this referee, and not with the paper's figures, which came from another one. Purity is what the classifier predicts, without the referee. Calls are generator calls per sample. The paper's figures stand beside the rows that do the same."
        )],
        pictures: figure::pictures(&evaluator, &runs, &measured)?,
        seeds,
        runs,
        tables,
        missing,
    })
}

fn lines(
    evaluator: &Evaluator<'_>,
    runs: &[Run],
    data: &DataSet,
    referee: &Referee,
    seeds: &[u64],
) -> Result<Vec<(Method, Line<Figures>)>, Error> {
    let mut lines = Vec::new();
    for method in METHODS.iter().filter(|m| m.data.contains(&data.name)) {
        let line = Line::measure(method.name, seeds, |seed| {
            let Some(drawn) = drawn(runs, data, method, seed)? else {
                return Ok(None);
            };
            let name = format!("{}-seed-{seed}", data.name);
            let identity = referee.identity();
            let finding: Finding<Figures> =
                evaluator.measure(&name, &[&identity], &drawn, |sampled, levels| {
                    let verdict = referee.judge(levels, SHOWN)?;
                    Ok(Figures { verdict, sampled })
                })?;
            Ok(Some(finding))
        })?;
        lines.push((*method, line));
    }
    Ok(lines)
}

/// The model behind a row, where it is trained.
fn drawn(
    runs: &[Run],
    data: &DataSet,
    method: &Method,
    seed: u64,
) -> Result<Option<Drawn<'static>>, Error> {
    let (name, calibration, sampler) = match method.source {
        Source::Alone(name) => {
            let run = stage(runs, name);
            let file = run.and_then(|run| run.generator(data.name, seed, GENERATOR));
            return file.map(|file| Drawn::alone(&file)).transpose();
        }
        Source::Gan(calibration, sampler) => (data.classifier, calibration, sampler),
        Source::Conditional(calibration, sampler) => {
            ("classifier-conditional", calibration, sampler)
        }
    };
    let folder = stage(runs, name).and_then(|run| run.bundle(data.name, seed));
    let way = Way {
        sampler,
        calibration,
        ..Way::of(QUERY)
    };
    folder.map(|folder| Drawn::query(folder, way)).transpose()
}

fn table(
    data: &DataSet,
    referee: &Referee,
    lines: &[(Method, Line<Figures>)],
    bounds: &Bounds,
) -> Table {
    let columns = [
        "method",
        "accuracy %",
        "(paper)",
        "FID†",
        "(paper)",
        "calls per sample",
        "purity %",
        "TV bound",
        "seeds",
    ];
    let title = format!("{} (wanted: {})", data.title, referee.wanted());
    let mut table = Table::new(&title, &columns);
    for (method, line) in lines {
        let paper = method.published(data.name);
        table.rows.push(vec![
            line.name.clone(),
            line.cell(2, |f| Some(100.0 * f.verdict.accuracy)),
            published(paper.map(|p| p[0]), 2),
            line.cell(2, |f| f.verdict.fid),
            published(paper.map(|p| p[1]), 2),
            line.cell(1, |f| Some(f.sampled.calls_per_sample)),
            line.cell(2, |f| f.sampled.predicted_purity.map(|p| 100.0 * p)),
            line.cell(4, |f| f.sampled.tv_bound),
            line.seeds(),
        ]);
    }
    let real = |name: &str, accuracy: f64, fid: Option<f64>| {
        let mut cells = vec![NOTHING.to_owned(); columns.len()];
        name.clone_into(&mut cells[0]);
        cells[1] = format!("{:.2}", 100.0 * accuracy);
        cells[3] = fid.map_or(NOTHING.to_owned(), |fid| format!("{fid:.2}"));
        cells
    };
    let Bounds { train, test } = bounds;
    table.rows.push(real(
        "real training items (FID† floor)",
        train.accuracy,
        train.fid,
    ));
    table
        .rows
        .push(real("real test items (accuracy ceiling)", *test, None));
    table
}

/// The calibrations in force, bundle by bundle.
fn settings_table(runs: &[Run], seeds: &[u64]) -> Result<Table, Error> {
    let columns = [
        "bundle",
        "settings",
        "T(D_r)",
        "T(D_f)",
        "T(D_v)",
        "odds clip",
        "margin",
        "floor",
    ];
    let mut table = Table::new(&format!("Settings in force for `{QUERY}`"), &columns);
    for data in &DATA {
        for name in [data.classifier, "classifier-conditional"] {
            for &seed in seeds {
                let folder = stage(runs, name).and_then(|run| run.bundle(data.name, seed));
                let Some(folder) = folder else { continue };
                let bundle = Bundle::open(&folder)?;
                for choice in [CalibrationChoice::Paper, CalibrationChoice::Bundle] {
                    let row = settings_row(&bundle, choice)?;
                    let name = format!("{name}: {} seed {seed}", data.title);
                    table.rows.push([vec![name], row].concat());
                }
            }
        }
    }
    Ok(table)
}

fn settings_row(bundle: &Bundle, choice: CalibrationChoice) -> Result<Vec<String>, Error> {
    let query = Query::parse(QUERY, bundle.labels())?;
    let settings = SampleSettings {
        calibration: choice,
        ..SampleSettings::default()
    };
    let used = weigh::calibration(bundle, &query, &settings)?;
    let whose = match choice {
        CalibrationChoice::Paper => "paper's",
        CalibrationChoice::Bundle => "chosen",
        CalibrationChoice::None => "none",
    };
    let clip = if used.odds_clip.is_finite() {
        format!("{:.0}", used.odds_clip)
    } else {
        NOTHING.to_owned()
    };
    let fake = bundle.classes().map(|_| used.fake_class.at(&query));
    let fake = fake.transpose()?;
    Ok(vec![
        whose.to_owned(),
        format!("{:.3}", used.class.at(&query)?),
        fake.map_or(NOTHING.to_owned(), |t| format!("{t:.3}")),
        format!("{:.3}", used.real),
        clip,
        format!("{:.4}", used.margin),
        format!("{:.3}", used.floor),
    ])
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::stages::{self, Stage};

    pub(in super::super) const ALL: &[Stage] = &STAGES;

    #[test]
    fn every_data_set_is_in_the_run_files_that_train_for_it() {
        let has = |name: &str, data: &str| {
            let stage = STAGES.iter().find(|stage| stage.name == name).unwrap();
            stages::outline(stage).recipe(data).is_some()
        };
        for data in DATA {
            assert!(has("gan", data.name), "{}", data.name);
        }
        for method in METHODS {
            for data in method.data {
                match method.source {
                    Source::Alone(stage) => assert!(has(stage, data), "{stage} {data}"),
                    Source::Conditional(..) => assert!(has("conditional", data)),
                    Source::Gan(..) => {}
                }
            }
        }
    }
}
