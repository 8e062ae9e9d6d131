//! Samples to files: pictures or points, a table, a grid to look at.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::time::Instant;

use s2m_core::weight::Evidence;
use s2m_model::disk::Column;
use s2m_model::latents::LatentSource;

use crate::draw::Target;
use crate::drawing::Job;
use crate::error::Error;
use crate::output::{NpyWriter, Staging, csv, csv_field};
use crate::pace::Pace;
use crate::pool::Pool;
use crate::progress::Progress;
use crate::sample::Answer;
use crate::samples::{Known, Maker};
use crate::session::Session;
use crate::weigh::Weighed;
use s2m_show::picture::{Drawing, Panel, Picture, image_grid, scatter};

/// Numbers of samples that are held at a time, where a round of the networks is not more.
const MAX_HELD: usize = 1 << 21;

/// Rows of the table that are looked up at a time.
const ROWS: usize = 1 << 14;

/// Items shown in the grid.
const SHOWN_PICTURES: usize = 64;
const SHOWN_POINTS: usize = 10_000;

/// Draws a query and writes its folder: samples, table, grid and report.
pub(crate) fn write_folder(
    job: Job<'_>,
    folder: &str,
    staging: &Staging,
    progress: &dyn Progress,
) -> Result<Answer, Error> {
    let started = Instant::now();
    let session = job.session;
    let (drawing, pool) = match job.draw(progress) {
        Err(Error::Refused(refusal)) => return Ok(Err(*refusal)),
        drawn => drawn?,
    };
    let writer = SampleWriter {
        session,
        pool,
        target: &drawing.target,
        staging,
        folder,
    };
    writer.write(&drawing.kept, progress)?;
    let report = drawing.report(session, started.elapsed().as_secs_f64());
    let json = serde_json::to_string_pretty(&report).expect("a report has only plain fields");
    staging.write(&writer.file("report.json"), json.as_bytes())?;
    Ok(Ok(report))
}

/// Writes the samples of one query.
struct SampleWriter<'w> {
    session: &'w Session,
    pool: &'w Pool,
    target: &'w Target,
    staging: &'w Staging,
    folder: &'w str,
}

impl SampleWriter<'_> {
    /// A file of this query inside the output.
    fn file(&self, name: &str) -> String {
        if self.folder.is_empty() {
            name.to_owned()
        } else {
            format!("{}/{name}", self.folder)
        }
    }

    /// Writes everything but the report.
    fn write(&self, kept: &Column<u64>, progress: &dyn Progress) -> Result<(), Error> {
        self.write_items(kept, progress)?;
        if self.session.settings.latents {
            self.write_latents(kept)?;
        }
        self.write_table(kept)
    }

    /// Writes one line per sample.
    fn write_table(&self, kept: &Column<u64>) -> Result<(), Error> {
        let query = self.target.weighting.query();
        let names = self.session.bundle.labels();
        let conditional = self.session.bundle.classes().is_some();
        let adapted = self.pool.is_adapted();
        let mut table = self.staging.create(&self.file("metadata.csv"))?;
        table.append(csv([header(names.names(), conditional, adapted)]).as_bytes())?;
        let forced = (0..names.len()).map(|label| query.forced(label));
        let forced = forced.map(|value| value.map_or(String::new(), |v| u8::from(v).to_string()));
        let forced: Vec<String> = forced.collect();
        let mut at = 0;
        let mut write = |row: u64, evidence: Evidence<'_>| {
            let known = Known::of(self.pool, self.target, row, evidence)?;
            let mut line = vec![self.item_name(at, kept.len())];
            line.extend_from_slice(&forced);
            let posteriors = known.posteriors.iter();
            line.extend(posteriors.map(|p| p.map_or(String::new(), |p| format!("{p:.6}"))));
            line.push(known.proposal.to_string());
            line.push(format!("{:.6}", known.log_weight));
            line.extend(
                known
                    .class
                    .map(|class| names.name(class as usize).to_owned()),
            );
            line.extend(adapted.then(|| known.stage.to_string()));
            at += 1;
            Ok(table.append(csv([line]).as_bytes())?)
        };
        for first in (0..kept.len()).step_by(ROWS) {
            let rows = kept.read(first..kept.len().min(first + ROWS))?;
            self.pool.look_at(&rows, &mut write)?;
        }
        Ok(table.finish()?)
    }

    /// The name under which a sample is found, relative to the query's folder.
    fn item_name(&self, at: usize, total: usize) -> String {
        if !self.session.bundle.manifest().generator.output.is_picture() {
            return "samples.npy".to_owned();
        }
        let width = (total - 1).to_string().len().max(5);
        format!("images/{at:0width$}.png")
    }

    fn write_items(&self, kept: &Column<u64>, progress: &dyn Progress) -> Result<(), Error> {
        let maker = Maker::open(self.session)?;
        let output = &self.session.bundle.manifest().generator.output;
        let mut points = if output.is_picture() {
            None
        } else {
            Some(self.points_file(kept.len())?)
        };
        let (mut pictures, mut dots) = (Vec::new(), Vec::new());
        progress.begin("writing samples", Some(kept.len() as u64));
        let mut pace = Pace::new(maker.round());
        let mut written = 0;
        let most = (MAX_HELD / maker.item_size()).max(maker.round());
        while written < kept.len() {
            let piece = pace.begin(kept.len() - written).min(most);
            let items = maker.make(self.pool, &kept.read(written..written + piece)?)?;
            let piece = items.len() / maker.item_size();
            if let Some(points) = &mut points {
                points.append(&items)?;
                let wanted = SHOWN_POINTS - dots.len().min(SHOWN_POINTS);
                dots.extend(
                    items
                        .chunks_exact(maker.item_size())
                        .take(wanted)
                        .map(plane),
                );
            } else {
                for (row, item) in items.chunks_exact(maker.item_size()).enumerate() {
                    let at = written + row;
                    let picture = self.picture(item);
                    let file = self.file(&self.item_name(at, kept.len()));
                    self.staging.write(&file, &picture.to_png()?)?;
                    if at < SHOWN_PICTURES {
                        pictures.push(picture);
                    }
                }
            }
            written += piece;
            progress.at(written as u64);
            pace.end();
        }
        progress.end();
        let grid = match points {
            Some(points) => {
                points.finish()?;
                scatter(&[self.panel(dots, kept.len(), maker.item_size())], 1, "")
            }
            None => image_grid(&pictures, None)?,
        };
        self.staging
            .write(&self.file("grid.png"), &grid.to_png()?)?;
        Ok(())
    }

    fn points_file(&self, count: usize) -> Result<NpyWriter, Error> {
        let output = &self.session.bundle.manifest().generator.output;
        let shape: Vec<usize> = std::iter::once(count)
            .chain(output.shape.iter().copied())
            .collect();
        let folder = self.staging.path(self.folder);
        std::fs::create_dir_all(&folder).map_err(Error::write(&folder))?;
        NpyWriter::create(folder.join("samples.npy"), &shape)
    }

    fn picture(&self, levels: &[f32]) -> Picture {
        let output = &self.session.bundle.manifest().generator.output;
        let [height, width, channels] = output
            .picture_size()
            .expect("the bundle says that these are pictures");
        Picture {
            width: width as u32,
            height: height as u32,
            channels: channels as u8,
            bits: output.bits.unwrap_or(8),
            levels: levels.iter().map(|&level| level as u16).collect(),
        }
    }

    fn panel(&self, points: Vec<[f32; 2]>, total: usize, dimensions: usize) -> Panel {
        let axes = if dimensions > 2 {
            ", first two of "
        } else {
            ""
        };
        let axes = if dimensions > 2 {
            format!("{axes}{dimensions} axes")
        } else {
            String::new()
        };
        Panel {
            title: self.target.weighting.query().text().to_owned(),
            caption: format!("{total} samples{axes}"),
            points,
            drawing: if dimensions == 1 {
                Drawing::Bars
            } else {
                Drawing::Points
            },
            colour: [31, 95, 170],
            ..Panel::default()
        }
    }

    fn write_latents(&self, kept: &Column<u64>) -> Result<(), Error> {
        let latents = &self.session.bundle.manifest().generator.latents;
        for (input, latent) in latents.iter().enumerate() {
            let file = if latents.len() == 1 {
                "latents.npy".to_owned()
            } else {
                format!("latents-{input}.npy")
            };
            let shape: Vec<usize> = std::iter::once(kept.len())
                .chain(latent.shape.iter().copied())
                .collect();
            let mut writer = NpyWriter::create(self.staging.path(&self.file(&file)), &shape)?;
            let most = (MAX_HELD / latent.size().max(1)).max(1);
            for first in (0..kept.len()).step_by(most) {
                let numbers = kept.read(first..kept.len().min(first + most))?;
                let mut left = numbers.as_slice();
                while !left.is_empty() {
                    let (origin, own_numbers, rest) = self.pool.same_origin(left);
                    let source = LatentSource {
                        proposals: origin.proposals,
                        mixture: origin.mixture.as_deref().filter(|_| input == 0),
                        input: input as u16,
                        prior: latent.prior,
                        size: latent.size(),
                    };
                    let mut values = vec![0.0; own_numbers.len() * latent.size()];
                    source.fill(&own_numbers, &mut values);
                    writer.append(&values)?;
                    left = rest;
                }
            }
            writer.finish()?;
        }
        Ok(())
    }
}

/// The first two coordinates of a point; a single one stands on a line.
fn plane(item: &[f32]) -> [f32; 2] {
    [item[0], item.get(1).copied().unwrap_or(0.0)]
}

fn header<'a>(
    labels: impl Iterator<Item = &'a str> + Clone,
    conditional: bool,
    adapted: bool,
) -> Vec<String> {
    let mut header = vec!["file_name".to_owned()];
    header.extend(labels.clone().map(str::to_owned));
    header.extend(labels.map(|label| format!("p_{label}")));
    header.extend(["proposal", "log_weight"].map(str::to_owned));
    header.extend(conditional.then(|| "class".to_owned()));
    header.extend(adapted.then(|| "stage".to_owned()));
    header
}

/// One table and one report over all joint classes.
pub(crate) fn write_joint_summary(
    staging: &Staging,
    weighed: &[Weighed],
    folders: &[String],
    answers: &[Answer],
) -> Result<(), Error> {
    let (mut table, mut begun) = (staging.create("metadata.csv")?, false);
    let mut summary = Vec::new();
    for ((weighed, folder), answer) in weighed.iter().zip(folders).zip(answers) {
        let query = weighed.query();
        match answer {
            Ok(report) => {
                let path = staging.path(&format!("{folder}/metadata.csv"));
                let fail = |e: std::io::Error| Error::Read {
                    path: path.clone(),
                    reason: e.to_string(),
                };
                let mut lines = BufReader::new(File::open(&path).map_err(fail)?).lines();
                let header = lines.next().transpose().map_err(fail)?;
                if !std::mem::replace(&mut begun, true) {
                    let header = header.unwrap_or_default();
                    table.append(format!("query,{header}\n").as_bytes())?;
                }
                let name = csv_field(query.text());
                for row in lines {
                    let row = row.map_err(fail)?;
                    table.append(format!("{name},{folder}/{row}\n").as_bytes())?;
                }
                summary.push(BTreeMap::from([
                    ("query", serde_json::json!(query.text())),
                    ("folder", serde_json::json!(folder)),
                    ("samples", serde_json::json!(report.samples)),
                    (
                        "calls_per_sample",
                        serde_json::json!(report.calls_per_sample),
                    ),
                    (
                        "predicted_purity",
                        serde_json::json!(report.predicted_purity),
                    ),
                    ("tv_bound", serde_json::json!(report.tv_bound)),
                ]));
            }
            Err(refusal) => summary.push(BTreeMap::from([
                ("query", serde_json::json!(query.text())),
                ("samples", serde_json::json!(0)),
                ("why", serde_json::json!(refusal.failure.to_string())),
            ])),
        }
    }
    if !begun {
        table.append(b"\n")?;
    }
    table.finish()?;
    let json = serde_json::to_string_pretty(&summary).expect("a summary has only plain fields");
    Ok(staging.write("report.json", json.as_bytes())?)
}
