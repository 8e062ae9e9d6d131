//! Samples to files: pictures or points, a table, a grid to look at.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::time::Instant;

use s2m_core::query::Query;
use s2m_core::weight::Evidence;
use s2m_model::bundle::{Bundle, sha256};
use s2m_model::disk::{Column, OutputFile};
use s2m_model::latents::LatentSource;
use s2m_model::manifest::ItemEntry;

use crate::draw::Target;
use crate::drawing::Job;
use crate::error::Error;
use crate::model::Model;
use crate::output::{Existing, Kind, NpyWriter, Plan, Staging, csv, csv_field};
use crate::pace::Pace;
use crate::pool::Pool;
use crate::progress::{Progress, Silent};
use crate::report::Answer;
use crate::samples::{Draw, Known, Maker};
use crate::session::Session;
use crate::weigh::Weighed;
use s2m_show::picture::{Drawing, Panel, Picture, image_grid, scatter};

/// Numbers of samples that are held at a time, where a round of the networks is not more.
const MAX_HELD: usize = 1 << 21;

/// Numbers of samples in memory that are written between two looks at whoever waits.
const HELD_BETWEEN_LOOKS: usize = 1 << 18;

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
        pool: drawing.pool(pool),
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
        file_in(self.folder, name)
    }

    /// Writes everything but the report.
    fn write(&self, kept: &Column<u64>, progress: &dyn Progress) -> Result<(), Error> {
        self.write_items(kept, progress)?;
        if self.session.settings.latents {
            self.write_latents(kept)?;
        }
        self.write_table(kept)
    }

    fn form(&self, total: usize) -> Form<'_> {
        Form {
            bundle: &self.session.bundle,
            query: self.target.weighting.query(),
            adapted: self.pool.is_adapted(),
            total,
            staging: self.staging,
            folder: self.folder,
        }
    }

    /// Writes one line per sample.
    fn write_table(&self, kept: &Column<u64>) -> Result<(), Error> {
        let mut table = self.form(kept.len()).table()?;
        let mut write = |row: u64, evidence: Evidence<'_>| {
            table.add(&Known::of(self.pool, self.target, row, evidence)?)
        };
        for first in (0..kept.len()).step_by(ROWS) {
            let rows = kept.read(first..kept.len().min(first + ROWS))?;
            self.pool.look_at(&rows, &mut write)?;
        }
        Ok(table.file.finish()?)
    }

    fn write_items(&self, kept: &Column<u64>, progress: &dyn Progress) -> Result<(), Error> {
        let maker = Maker::open(self.session)?;
        let mut writer = self.form(kept.len()).items()?;
        progress.begin("writing samples", Some(kept.len() as u64));
        let mut pace = Pace::new(maker.round());
        let most = (MAX_HELD / maker.item_size()).max(maker.round());
        while writer.written < kept.len() {
            let written = writer.written;
            let piece = pace.begin(kept.len() - written).min(most);
            let items = maker.make(self.pool, &kept.read(written..written + piece)?)?;
            writer.add(&items)?;
            Error::unless_stopped(progress, writer.written as u64)?;
            pace.end();
        }
        progress.end();
        writer.finish()
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
                if let Some(moved) = self.pool.moved() {
                    writer.append(&moved.input(&numbers, input, latents))?;
                    continue;
                }
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

/// How the samples of one query lie in a folder.
#[derive(Clone, Copy)]
struct Form<'f> {
    bundle: &'f Bundle,
    query: &'f Query,
    /// Whether proposals come from anything but the prior.
    adapted: bool,
    /// Samples in all.
    total: usize,
    staging: &'f Staging,
    folder: &'f str,
}

impl<'f> Form<'f> {
    fn output(&self) -> &'f ItemEntry {
        &self.bundle.manifest().generator.output
    }

    fn file(&self, name: &str) -> String {
        file_in(self.folder, name)
    }

    /// The name under which a sample is found, relative to the query's folder.
    fn item_name(&self, at: usize) -> String {
        if !self.output().is_picture() {
            return "samples.npy".to_owned();
        }
        let width = (self.total - 1).to_string().len().max(5);
        format!("images/{at:0width$}.png")
    }

    /// The names of the columns.
    fn header(&self) -> Vec<String> {
        let names = self.bundle.labels();
        let mut header = vec!["file_name".to_owned()];
        header.extend(names.names().map(str::to_owned));
        header.extend(names.names().map(|label| format!("p_{label}")));
        header.extend(["proposal", "log_weight"].map(str::to_owned));
        header.extend(self.bundle.classes().map(|_| "class".to_owned()));
        header.extend(self.adapted.then(|| "stage".to_owned()));
        header
    }

    /// Begins the table.
    fn table(self) -> Result<Table<'f>, Error> {
        let mut file = self.staging.create(&self.file("metadata.csv"))?;
        file.append(csv([self.header()]).as_bytes())?;
        let forced = (0..self.bundle.labels().len()).map(|label| self.query.forced(label));
        let forced = forced.map(|value| value.map_or(String::new(), |v| u8::from(v).to_string()));
        Ok(Table {
            form: self,
            forced: forced.collect(),
            file,
            lines: 0,
        })
    }

    /// Begins the items.
    fn items(self) -> Result<ItemWriter<'f>, Error> {
        let output = self.output();
        let mut points = None;
        if !output.is_picture() {
            let sides = output.shape.iter().copied();
            let shape: Vec<usize> = std::iter::once(self.total).chain(sides).collect();
            let folder = self.staging.path(self.folder);
            std::fs::create_dir_all(&folder).map_err(Error::write(&folder))?;
            points = Some(NpyWriter::create(folder.join("samples.npy"), &shape)?);
        }
        Ok(ItemWriter {
            form: self,
            points,
            shown: Vec::new(),
            dots: Vec::new(),
            written: 0,
        })
    }
}

fn file_in(folder: &str, name: &str) -> String {
    if folder.is_empty() {
        name.to_owned()
    } else {
        format!("{folder}/{name}")
    }
}

/// `metadata.csv`, line by line.
struct Table<'f> {
    form: Form<'f>,
    /// What the query says about each label, as it is written.
    forced: Vec<String>,
    file: OutputFile,
    lines: usize,
}

impl Table<'_> {
    fn add(&mut self, known: &Known) -> Result<(), Error> {
        let names = self.form.bundle.labels();
        let mut line = vec![self.form.item_name(self.lines)];
        line.extend_from_slice(&self.forced);
        let posteriors = known.posteriors.iter();
        line.extend(posteriors.map(|p| p.map_or(String::new(), |p| format!("{p:.6}"))));
        line.push(known.proposal.to_string());
        line.push(format!("{:.6}", known.log_weight));
        line.extend(
            known
                .class
                .map(|class| names.name(class as usize).to_owned()),
        );
        line.extend(known.stage.map(|stage| stage.to_string()));
        self.lines += 1;
        Ok(self.file.append(csv([line]).as_bytes())?)
    }
}

/// Items to files, and the first of them to a grid.
struct ItemWriter<'f> {
    form: Form<'f>,
    points: Option<NpyWriter>,
    shown: Vec<Picture>,
    dots: Vec<[f32; 2]>,
    written: usize,
}

impl ItemWriter<'_> {
    /// Numbers in one item.
    fn size(&self) -> usize {
        self.form.output().shape.iter().product()
    }

    /// Writes items as a renderer gives them.
    fn add(&mut self, items: &[f32]) -> Result<(), Error> {
        let size = self.size();
        if let Some(points) = &mut self.points {
            points.append(items)?;
            let wanted = SHOWN_POINTS - self.dots.len().min(SHOWN_POINTS);
            self.dots
                .extend(items.chunks_exact(size).take(wanted).map(plane));
        } else {
            for (row, item) in items.chunks_exact(size).enumerate() {
                let at = self.written + row;
                let picture = self.picture(item);
                let file = self.form.file(&self.form.item_name(at));
                self.form.staging.write(&file, &picture.to_png()?)?;
                if at < SHOWN_PICTURES {
                    self.shown.push(picture);
                }
            }
        }
        self.written += items.len() / size;
        Ok(())
    }

    /// Ends the items and writes the grid.
    fn finish(mut self) -> Result<(), Error> {
        let grid = match self.points.take() {
            Some(points) => {
                points.finish()?;
                scatter(&[self.panel()], 1, "")
            }
            None => image_grid(&self.shown, None)?,
        };
        let file = self.form.file("grid.png");
        Ok(self.form.staging.write(&file, &grid.to_png()?)?)
    }

    fn picture(&self, levels: &[f32]) -> Picture {
        let output = self.form.output();
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

    fn panel(&mut self) -> Panel {
        let (total, dimensions) = (self.form.total, self.size());
        let axes = if dimensions > 2 {
            format!(", first two of {dimensions} axes")
        } else {
            String::new()
        };
        Panel {
            title: self.form.query.text().to_owned(),
            caption: format!("{total} samples{axes}"),
            points: std::mem::take(&mut self.dots),
            drawing: if dimensions == 1 {
                Drawing::Bars
            } else {
                Drawing::Points
            },
            colour: [31, 95, 170],
            ..Panel::default()
        }
    }
}

/// The first two coordinates of a point; a single one stands on a line.
fn plane(item: &[f32]) -> [f32; 2] {
    [item[0], item.get(1).copied().unwrap_or(0.0)]
}

impl Draw {
    /// Writes the folder that [`sample`](crate::sample::sample) writes for the same draw, without latents: images or points, a table, a
    /// grid and the report. It appears whole or not at all.
    pub fn save(&self, model: &Model, out: &Path, existing: Existing) -> Result<(), Error> {
        self.save_with(model, out, existing, &Silent)
    }

    /// The same, telling somebody how far it is.
    pub fn save_with(
        &self,
        model: &Model,
        out: &Path,
        existing: Existing,
        progress: &dyn Progress,
    ) -> Result<(), Error> {
        let bundle = model.bundle();
        if self.report.bundle_hash != bundle.hash() {
            return Err(Error::Setting(format!(
                "these samples are of another model than `{}`",
                bundle.manifest().name
            )));
        }
        let query = Query::parse(&self.report.query, bundle.labels())?;
        let json =
            serde_json::to_string_pretty(&self.report).expect("a report has only plain fields");
        let staging = Staging::open(&Plan {
            target: out,
            kind: Kind::Samples,
            identity: &sha256(json.as_bytes()),
            existing,
            inputs: &model.folder().into_iter().collect::<Vec<_>>(),
        })?;
        let form = Form {
            bundle,
            query: &query,
            adapted: !self.samples.stages.is_empty(),
            total: self.samples.len(),
            staging: &staging,
            folder: "",
        };
        let written = self.write(form, progress);
        let written = written.and_then(|()| Ok(staging.write("report.json", json.as_bytes())?));
        match written {
            Ok(()) => Ok(staging.finish()?),
            Err(error) => {
                staging.discard();
                Err(error)
            }
        }
    }

    /// Items and table.
    fn write(&self, form: Form<'_>, progress: &dyn Progress) -> Result<(), Error> {
        let samples = &self.samples;
        let mut items = form.items()?;
        let size = items.size();
        let most = (HELD_BETWEEN_LOOKS / size).max(1);
        progress.begin("writing samples", Some(samples.len() as u64));
        for first in (0..samples.len()).step_by(most) {
            let end = samples.len().min(first + most);
            items.add(&samples.items.floats(first * size..end * size))?;
            Error::unless_stopped(progress, end as u64)?;
        }
        items.finish()?;
        let mut table = form.table()?;
        for at in 0..samples.len() {
            table.add(&samples.known(at))?;
            if at.is_multiple_of(ROWS) {
                Error::unless_stopped(progress, samples.len() as u64)?;
            }
        }
        progress.end();
        Ok(table.file.finish()?)
    }
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
