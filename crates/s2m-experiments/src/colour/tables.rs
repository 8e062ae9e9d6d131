//! Tables and pictures, out of the files of the chains.

use s2m_show::picture::{Canvas, Chart, Curve, charts};

use super::chains::{From, Kept, Subject};
use super::measure::{Figures, OfClass, Pooled};
use super::{Link, Training};
use crate::Error;
use crate::evaluation::Finding;
use crate::line::Line;
use crate::results::{NOTHING, Table, published};

/// What can be shown of the chains that are made.
pub(super) struct Shown {
    pub(super) tables: Vec<Table>,
    pub(super) missing: Vec<String>,
    pub(super) curve: Option<Canvas>,
}

pub(super) fn of(subject: &Subject, links: &[Link]) -> Result<Shown, Error> {
    let mut lines = Vec::new();
    let mut missing = Vec::new();
    for chain in subject.chains {
        let own: Vec<&Link> = links
            .iter()
            .filter(|l| l.chain.name == chain.name)
            .collect();
        let seeds: Vec<u64> = own.iter().map(|link| link.seed).collect();
        missing.extend(own.iter().filter_map(|link| unmade(subject, link)));
        for kept in chain.lines {
            let line = Line::measure(kept.name, &seeds, |seed| {
                let link = own.iter().find(|link| link.seed == seed);
                let made = link.and_then(|link| link.made.as_ref());
                let found = made.and_then(|made| made.lines.get(kept.name));
                Ok(found.cloned().map(Finding::Measured))
            })?;
            if line.measured().next().is_some() {
                lines.push((*kept, line));
            }
        }
    }
    let tables = vec![
        main_table(subject, links, &lines),
        ablation(subject, &lines),
        floors(&lines),
        by_class(&lines),
        statistics(links),
        on_the_way(subject, links),
        times(links),
        trainings(links),
    ];
    Ok(Shown {
        tables: tables.into_iter().filter(|t| !t.rows.is_empty()).collect(),
        missing,
        curve: curve(&lines),
    })
}

/// What a chain lacks, and what makes it.
fn unmade(subject: &Subject, link: &Link) -> Option<String> {
    let (name, seed) = (link.chain.name, link.seed);
    let lacks = match &link.made {
        None => "not made".to_owned(),
        Some(made) => {
            let lines = link.chain.lines.iter().map(|line| line.name);
            let lacking: Vec<&str> = lines
                .filter(|name| !made.lines.contains_key(*name))
                .collect();
            if lacking.is_empty() {
                return None;
            }
            format!("not made: {}", lacking.join("; "))
        }
    };
    Some(format!(
        "chain `{name}`, seed {seed}: {lacks}; `s2m reproduce {} --rows {name} --seeds {seed}` makes it",
        subject.name
    ))
}

type Lines = [(Kept, Line<Figures>)];

fn accuracy(figures: &Figures) -> Option<f64> {
    figures.mean(|class| Some(100.0 * class.accuracy))
}

fn pooled(figures: &Figures, of: fn(&Pooled) -> f64) -> Option<f64> {
    figures.pooled.as_ref().map(of)
}

/// A figure of the paper, where it has one.
fn paper(subject: &Subject, kept: &Kept, at: usize, decimals: usize) -> String {
    published(subject.published(kept.name, at), decimals)
}

fn main_table(subject: &Subject, links: &[Link], lines: &Lines) -> Table {
    let common = Common::of(subject, links);
    let mut columns = vec!["line", "accuracy %"];
    columns.extend(common.as_ref().map(|_| "of common classes"));
    columns.extend([
        "FID",
        "Inception score",
        "precision",
        "recall",
        "density",
        "coverage",
        "KID × 1000, mean of classes",
        "calls per sample",
        "predicted %",
        "TV bound",
        "seeds",
    ]);
    let mut table = Table::new("All joint classes", &columns);
    let part_of_ablation =
        |from| matches!(from, From::Paper { temperature, margin } if !(temperature && margin));
    let main = lines
        .iter()
        .filter(|(kept, _)| kept.whole && !part_of_ablation(kept.from));
    for (kept, line) in main {
        let mut row = vec![line.name.clone(), line.cell(2, accuracy)];
        row.extend(common.as_ref().map(|common| common.cell(line)));
        row.extend([
            line.cell(2, |f| pooled(f, |p| p.fid)),
            line.cell(2, |f| f.pooled.as_ref()?.inception_score),
            line.cell(3, |f| pooled(f, |p| p.precision)),
            line.cell(3, |f| pooled(f, |p| p.recall)),
            line.cell(3, |f| pooled(f, |p| p.density)),
            line.cell(3, |f| pooled(f, |p| p.coverage)),
            line.cell(2, |f| f.mean(|class| Some(1000.0 * class.kid?))),
            line.cell(1, |f| f.mean(|class| Some(class.calls))),
            line.cell(2, |f| f.mean(|class| Some(100.0 * class.predicted?))),
            line.cell(4, |f| f.largest(|class| class.tv_bound)),
            line.seeds(),
        ]);
        table.rows.push(row);
        if subject.published(kept.name, 0).is_some() {
            let mut row = vec![format!("the paper's {}", line.name)];
            row.push(paper(subject, kept, 0, 2));
            row.extend(common.as_ref().map(|_| NOTHING.to_owned()));
            row.extend((1..7).map(|at| paper(subject, kept, at, 2)));
            row.resize(columns.len(), NOTHING.to_owned());
            table.rows.push(row);
        }
    }
    table.notes.extend(common.map(|common| common.words()));
    table
}

/// The joint classes with many test items, where a table tells them apart.
struct Common {
    least: usize,
    names: Vec<String>,
    /// Joint classes that have test items at all.
    any: usize,
}

impl Common {
    fn of(subject: &Subject, links: &[Link]) -> Option<Self> {
        let least = subject.common?;
        let made = links.iter().filter_map(|link| link.made.as_ref());
        let counts: Vec<(&String, usize)> = made
            .flat_map(|made| &made.statistics)
            .map(|(query, [_, _, test])| (query, *test))
            .collect();
        let many = counts.iter().filter(|(_, test)| *test >= least);
        Some(Self {
            least,
            names: many.map(|(query, _)| (*query).clone()).collect(),
            any: counts.iter().filter(|(_, test)| *test > 0).count(),
        })
    }

    fn cell(&self, line: &Line<Figures>) -> String {
        line.cell(2, |figures| {
            let own = |name: &String| figures.classes.get(name).copied().flatten();
            let known: Vec<f64> = self
                .names
                .iter()
                .filter_map(own)
                .map(|c| c.accuracy)
                .collect();
            let count = known.len() as f64;
            (!known.is_empty()).then(|| 100.0 * known.iter().sum::<f64>() / count)
        })
    }

    fn words(&self) -> String {
        format!(
            "Common: the {} of {} joint classes that have at least {} test items.",
            self.names.len(),
            self.any,
            self.least
        )
    }
}

fn ablation(subject: &Subject, lines: &Lines) -> Table {
    let columns = [
        "line",
        "accuracy %",
        "(paper)",
        "FID",
        "(paper)",
        "calls per sample",
        "seeds",
    ];
    let mut table = Table::new("Ablation of the paper's way", &columns);
    let own = lines
        .iter()
        .filter(|(kept, _)| matches!(kept.from, From::Paper { .. }));
    for (kept, line) in own {
        table.rows.push(vec![
            line.name.clone(),
            line.cell(2, accuracy),
            paper(subject, kept, 0, 2),
            line.cell(2, |f| pooled(f, |p| p.fid)),
            paper(subject, kept, 1, 2),
            line.cell(1, |f| f.mean(|class| Some(class.calls))),
            line.seeds(),
        ]);
    }
    table
}

fn floors(lines: &Lines) -> Table {
    let columns = [
        "line",
        "accuracy %",
        "predicted %",
        "plain prediction %",
        "calls per sample",
        "classes drawn",
        "seeds",
    ];
    let mut table = Table::new("Floors: accuracy and calls", &columns);
    let own = lines
        .iter()
        .filter(|(kept, _)| matches!(kept.from, From::Ours(_) | From::Ceiling(_)));
    for (_, line) in own {
        let drawn = |f: &Figures| Some(f.classes.values().flatten().count() as f64);
        table.rows.push(vec![
            line.name.clone(),
            line.cell(2, accuracy),
            line.cell(2, |f| f.mean(|class| Some(100.0 * class.predicted?))),
            line.cell(2, |f| f.mean(|class| Some(100.0 * class.plain?))),
            line.cell(1, |f| f.mean(|class| Some(class.calls))),
            line.cell(1, drawn),
            line.seeds(),
        ]);
    }
    table
}

fn by_class(lines: &Lines) -> Table {
    let names: Vec<String> = lines
        .iter()
        .flat_map(|(_, line)| {
            line.measured()
                .map(|(_, f)| f.classes.keys().cloned().collect())
        })
        .max_by_key(Vec::len)
        .unwrap_or_default();
    let columns: Vec<&str> = std::iter::once("line")
        .chain(names.iter().map(String::as_str))
        .collect();
    let mut table = Table::new("By joint class: accuracy % / KID × 1000 / calls", &columns);
    for (_, line) in lines.iter().filter(|(kept, _)| kept.whole) {
        let mut row = vec![line.name.clone()];
        for name in &names {
            let of = |f: &Figures| f.classes.get(name).copied().flatten();
            let cell = |decimals, value: fn(OfClass) -> Option<f64>| {
                line.cell(decimals, |f| of(f).and_then(value))
            };
            row.push(format!(
                "{} / {} / {}",
                cell(1, |class| Some(100.0 * class.accuracy)),
                cell(2, |class| Some(1000.0 * class.kid?)),
                cell(1, |class| Some(class.calls)),
            ));
        }
        table.rows.push(row);
    }
    table
}

fn trainings(links: &[Link]) -> Table {
    let columns = [
        "training",
        "seed",
        "steps",
        "minutes",
        "steps per second",
        "device",
    ];
    let mut table = Table::new("Trainings", &columns);
    for link in links {
        for training in link.made.iter().flat_map(|made| &made.trained) {
            let Training {
                stage,
                steps,
                seconds,
                device,
            } = training;
            let rate = steps.zip(*seconds).map(|(steps, s)| steps as f64 / s);
            let text = |value: Option<String>| value.unwrap_or(NOTHING.to_owned());
            table.rows.push(vec![
                stage.clone(),
                link.seed.to_string(),
                text(steps.map(|steps| steps.to_string())),
                text(seconds.map(|seconds| format!("{:.1}", seconds / 60.0))),
                text(rate.map(|rate| format!("{rate:.1}"))),
                text(device.clone()),
            ]);
        }
    }
    table
}

fn statistics(links: &[Link]) -> Table {
    let columns = [
        "joint class",
        "training items",
        "held-out items",
        "test items",
    ];
    let mut table = Table::new("The data", &columns);
    let made = links.iter().filter_map(|link| link.made.as_ref());
    for (query, counts) in made.flat_map(|made| &made.statistics) {
        let counts = counts.iter().map(ToString::to_string);
        let row = std::iter::once(format!("`{query}`")).chain(counts);
        table.rows.push(row.collect());
    }
    table
}

fn on_the_way(subject: &Subject, links: &[Link]) -> Table {
    let columns = ["generator", "seed", "step", "minutes", "FID"];
    let mut table = Table::new("FID of the generator alone, along its training", &columns);
    for link in links {
        for at in link.made.iter().flat_map(|made| &made.on_the_way) {
            table.rows.push(vec![
                link.chain.name.to_owned(),
                link.seed.to_string(),
                at.step.to_string(),
                at.minutes
                    .map_or(NOTHING.to_owned(), |minutes| format!("{minutes:.1}")),
                format!("{:.2}", at.fid),
            ]);
        }
    }
    if !table.rows.is_empty() {
        table.notes.extend(subject.elsewhere.map(str::to_owned));
    }
    table
}

fn times(links: &[Link]) -> Table {
    let columns = [
        "generator",
        "seed",
        "alone",
        "with the paper's classifiers",
        "and adapted latents",
        "with ours",
    ];
    let mut table = Table::new("Milliseconds for a batch of 64 proposals", &columns);
    for link in links {
        let Some(times) = link.made.as_ref().and_then(|made| made.times) else {
            continue;
        };
        let text = |time: Option<f64>| time.map_or(NOTHING.to_owned(), |t| format!("{t:.2}"));
        table.rows.push(vec![
            link.chain.name.to_owned(),
            link.seed.to_string(),
            text(Some(times.generator)),
            text(times.paper),
            text(times.adapted),
            text(times.ours),
        ]);
    }
    if !table.rows.is_empty() {
        table.notes.push(PAPER_TIMES.to_owned());
    }
    table
}

/// The paper's table of times, for its networks on CelebA-BMS.
const PAPER_TIMES: &str = "The paper, on CelebA-BMS at 64 pixels with an RTX 3090: BigGAN 29.56, with its projection discriminator 31.66, with classifiers 35.86, with classifiers and adapted latents 36.18, CP-GAN 31.61.";

/// Accuracy against calls along the floors, first seed of each chain.
fn curve(lines: &Lines) -> Option<Canvas> {
    let along = |name: &str, wanted: fn(From) -> bool, figure: fn(&Figures) -> Option<f64>| {
        let own = lines
            .iter()
            .filter(|(kept, line)| wanted(kept.from) && line.name.starts_with(name));
        let mut points: Vec<[f64; 2]> = own
            .filter_map(|(_, line)| {
                let (_, figures) = line.measured().next()?;
                let calls = figures.mean(|class| Some(class.calls))?;
                Some([calls, figure(figures)?])
            })
            .collect();
        points.sort_by(|a, b| a[0].total_cmp(&b[0]));
        points
    };
    let ours = |from: From| matches!(from, From::Ours(_));
    let ceiling = |from: From| matches!(from, From::Ceiling(_));
    let curves = |figure: fn(&Figures) -> Option<f64>| {
        let all = [
            ("GAN + S2M, ours", along("GAN", ours, figure)),
            ("cGAN-PD + S2M, ours", along("cGAN-PD", ours, figure)),
            ("GAN, all labels shown", along("GAN", ceiling, figure)),
        ];
        all.into_iter()
            .filter(|(_, points)| !points.is_empty())
            .map(|(name, points)| Curve {
                name: name.to_owned(),
                points,
            })
            .collect::<Vec<_>>()
    };
    let chart = |title: &str, figure| Chart {
        title: title.to_owned(),
        x: "calls per sample".to_owned(),
        curves: curves(figure),
        logarithmic: [true, false],
    };
    let both = [
        chart("accuracy %", accuracy),
        chart("predicted %", |f: &Figures| {
            f.mean(|class| Some(100.0 * class.predicted?))
        }),
    ];
    both.iter()
        .any(|chart| !chart.curves.is_empty())
        .then(|| charts(&both))
}
