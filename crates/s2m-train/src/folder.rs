//! A run's folder: the resolved run file, the log, and files that appear whole or not at all.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use s2m_model::disk;
use s2m_runs::Done;
use s2m_runs::folder::{DONE, LOG, Logged, RUN_FILE};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::export::LIMIT;

/// Writes a file whole, and its folder where there is none.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    let write = || {
        fs::create_dir_all(path.parent().unwrap_or(Path::new(".")))?;
        disk::write_whole(path, bytes)
    };
    write().with_context(|| format!("`{}` cannot be written", path.display()))
}

/// Reads a run file; unknown keys are errors that name the key.
pub fn read_run_file<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let text = disk::read_plain_text(path)
        .with_context(|| format!("run file `{}` cannot be read", path.display()))?;
    toml::from_str(&text).with_context(|| format!("run file `{}`", path.display()))
}

/// A run's folder.
pub struct RunFolder {
    path: PathBuf,
}

impl RunFolder {
    /// Looks at a folder for a run; one that holds another run is refused. Nothing is written yet.
    pub fn open(path: &Path, settings: &impl Serialize) -> Result<Self> {
        let resolved = toml::to_string(settings).context("the run file cannot be written out")?;
        if let Ok(found) = disk::read_plain_text(&path.join(RUN_FILE))
            && found != resolved
        {
            bail!(
                "`{}` holds a run with other settings\nhint: choose another --out, or remove that folder",
                path.display()
            );
        }
        Ok(Self {
            path: path.to_owned(),
        })
    }

    /// The folder of a finished run.
    pub fn finished_run(path: &Path) -> Result<Self> {
        let folder = Self {
            path: path.to_owned(),
        };
        ensure!(
            folder.finished(),
            "`{}` holds no finished run\nhint: give the --out folder of one",
            path.display()
        );
        Ok(folder)
    }

    /// The resolved run file.
    pub fn settings<T: DeserializeOwned>(&self) -> Result<T> {
        read_run_file(&self.join(RUN_FILE))
    }

    /// Writes the resolved run file: the folder is now this run's.
    pub fn claim(&self, settings: &impl Serialize) -> Result<()> {
        let resolved = toml::to_string(settings).context("the run file cannot be written out")?;
        write_whole(&self.join(RUN_FILE), resolved.as_bytes())
    }

    /// A part of the run, in a folder of its own.
    #[must_use]
    pub fn inside(&self, name: &str) -> Self {
        Self {
            path: self.path.join(name),
        }
    }

    pub fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// What the finished run said about itself.
    pub fn finished(&self) -> bool {
        self.join(DONE).is_file()
    }

    /// Ends the run: says how well its exported networks agree with libtorch, and writes the summary.
    pub fn finish(&self, export_difference: f64, done: Done) -> Result<()> {
        self.finish_within(LIMIT, export_difference, done)
    }

    /// The same for networks that may differ by so much.
    #[expect(clippy::print_stderr, reason = "talk goes to stderr")]
    pub fn finish_within(&self, limit: f64, export_difference: f64, mut done: Done) -> Result<()> {
        eprintln!(
            "exported networks differ from libtorch by at most {export_difference:.1e} (allowed: {limit:.0e})"
        );
        done.largest_export_difference = Some(export_difference);
        self.write_json(DONE, &done)
    }

    pub fn write_json(&self, name: &str, value: &impl Serialize) -> Result<()> {
        let text = serde_json::to_string_pretty(value)?;
        write_whole(&self.join(name), format!("{text}\n").as_bytes())
    }

    /// The log, without what was written after `step`.
    pub fn log(&self, step: u64) -> Result<Log> {
        let path = self.join(LOG);
        let mut kept = String::new();
        if let Ok(file) = File::open(&path) {
            for line in BufReader::new(file).lines() {
                let line = line?;
                let entry = serde_json::from_str::<Logged>(&line);
                if entry.is_ok_and(|entry| entry.step <= step) {
                    kept.push_str(&line);
                    kept.push('\n');
                }
            }
        }
        write_whole(&path, kept.as_bytes())?;
        let file = File::options()
            .append(true)
            .open(&path)
            .with_context(|| format!("`{}` cannot be written", path.display()))?;
        Ok(Log { file, path })
    }
}

/// Lines of JSON, one per log point and replica.
pub struct Log {
    file: File,
    path: PathBuf,
}

impl Log {
    pub fn write(&mut self, entry: &Logged) -> Result<()> {
        let line = serde_json::to_string(entry)?;
        writeln!(self.file, "{line}")
            .with_context(|| format!("`{}` cannot be written", self.path.display()))
    }
}
