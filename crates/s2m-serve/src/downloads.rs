//! The folder that `s2m sample` writes, as one zip file: drawn again, into a folder for a while, by the very same call.

use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use s2m::output::Existing;
use s2m::sample::{Request, Wanted, sample};
use s2m::settings::SampleSettings;
use tempfile::TempDir;

use crate::asked::Asked;
use crate::drawings::{Watcher, admit, turn};
use crate::pipe::{Pen, pipe};
use crate::refused::Refused;
use crate::shared::Shared;
use crate::zip::Zip;

/// Name of the folder inside the file, and of the file.
pub(crate) const FOLDER: &str = "samples";

/// Bytes that are sent at a time.
const PIECE: usize = 1 << 16;

/// Draws, and gives a body that goes on until the last file. Dropping the future stops the drawing.
pub(crate) async fn begin(
    shared: &Arc<Shared>,
    visitor: &str,
    asked: Asked,
    settings: SampleSettings,
) -> Result<Body, Refused> {
    admit(shared)?;
    let begun = shared
        .visitors
        .begin_download(visitor)
        .ok_or_else(Refused::stranger)?;
    let turn = turn(shared, &begun, None)
        .await
        .ok_or_else(Refused::stopped)?;
    let (stop, shared) = (Arc::clone(&begun.stop), Arc::clone(shared));
    let drawn = tokio::task::spawn_blocking(move || {
        let _turn = turn;
        let watcher = Watcher::new(&stop, None);
        let folder = tempfile::tempdir().map_err(|e| Refused::fault(&e.to_string()))?;
        draw(
            &shared,
            &asked,
            settings,
            &folder.path().join(FOLDER),
            &watcher,
        )?;
        Ok::<TempDir, Refused>(folder)
    });
    let drawn = drawn
        .await
        .map_err(|_| Refused::fault("the drawing broke off"))?;
    let folder = drawn?;
    drop(begun);
    let (pen, body) = pipe();
    tokio::task::spawn_blocking(move || {
        let mut zip = Zip::new(io::BufWriter::with_capacity(PIECE, Sent(pen.clone())));
        let sent = add_all(&mut zip, &folder.path().join(FOLDER), FOLDER);
        if sent.and_then(|()| zip.finish()).is_err() {
            pen.break_off();
        }
    });
    Ok(body)
}

fn draw(
    shared: &Shared,
    asked: &Asked,
    settings: SampleSettings,
    out: &Path,
    watcher: &Watcher<'_>,
) -> Result<(), Refused> {
    let request = Request {
        model: &shared.path,
        wanted: Wanted::Query(&asked.query),
        samples: NonZeroUsize::new(asked.n).unwrap_or(NonZeroUsize::MIN),
        settings,
        machine: shared.model.machine(),
        bank: shared.source.bank(),
        proposal: None,
        out,
        existing: Existing::Keep,
    };
    match sample(&request, watcher) {
        Ok(answers) => match answers.into_iter().next() {
            Some(Err(refusal)) => Err(Refused::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                &refusal.to_string(),
            )),
            _ => Ok(()),
        },
        Err(error) => Err(Refused::of(&error)),
    }
}

/// Adds the files of a folder and of the folders in it, in the order of their names.
fn add_all<W: Write>(zip: &mut Zip<W>, folder: &Path, name: &str) -> io::Result<()> {
    let mut entries = std::fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let name = format!("{name}/{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            add_all(zip, &entry.path(), &name)?;
        } else {
            zip.add(&name, &std::fs::read(entry.path())?)?;
        }
    }
    Ok(())
}

/// Sends what is written.
struct Sent(Pen);

impl Write for Sent {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let sent = self.0.write(Bytes::copy_from_slice(bytes));
        sent.map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
