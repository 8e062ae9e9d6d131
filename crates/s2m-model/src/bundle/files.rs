//! The files of a bundle, read: within limits, from inside the folder, and with the hashes that the manifest states.

use std::collections::BTreeMap;
use std::io::{self, Read as _};
use std::path::{Component, Path, PathBuf};

use prost::Message as _;
use sha2::{Digest as _, Sha256};

use super::{MANIFEST, Network, hexadecimal, in_manifest, sha256};
use crate::disk::open_plain;
use crate::error::Error;
use crate::manifest::{FORMAT, Manifest};
use crate::onnx::{ModelProto, external_paths};

/// Largest manifest that is read.
pub(super) const MAX_MANIFEST: u64 = 1 << 20;

/// Largest ONNX file that is read: protocol buffers end at 2 GiB.
pub(crate) const MAX_NETWORK: u64 = 1 << 31;

/// Where a bundle's files come from.
pub(super) enum Source<'a> {
    Folder(&'a Path),
    Memory(&'a [(&'a str, &'a [u8])]),
}

impl Source<'_> {
    /// The bytes of one file, and its path where it has one.
    pub(super) fn read(
        &self,
        file: &str,
        what: &'static str,
    ) -> Result<(Vec<u8>, Option<PathBuf>), Error> {
        match self {
            Self::Folder(folder) => {
                let path = inside(folder, file, what)?;
                Ok((read(&path, MAX_NETWORK)?, Some(path)))
            }
            Self::Memory(files) => {
                let found = files.iter().find(|(name, _)| *name == file);
                let missing = || Error::reading(Path::new(file))(io::ErrorKind::NotFound.into());
                Ok((found.ok_or_else(missing)?.1.to_vec(), None))
            }
        }
    }
}

/// The path of a file in a folder, refused where it leads elsewhere, by `..` or by a link.
pub(crate) fn inside(folder: &Path, file: &str, what: &'static str) -> Result<PathBuf, Error> {
    let plain = !file.is_empty()
        && Path::new(file)
            .components()
            .all(|part| matches!(part, Component::Normal(_)));
    if !plain {
        return Err(outside(what, file));
    }
    let path = folder.join(file);
    let resolve = |path: &Path| path.canonicalize().map_err(Error::reading(path));
    let (folder, resolved) = (resolve(folder)?, resolve(&path)?);
    if resolved.starts_with(&folder) {
        Ok(resolved)
    } else {
        Err(outside(what, file))
    }
}

fn outside(what: &str, file: &str) -> Error {
    Error::malformed(format!("{what} `{file}` leads outside the bundle"))
}

fn other_hash(file: &str, wanted: &str, found: &str) -> Error {
    Error::malformed(format!(
        "the SHA-256 of `{file}` is {found}, but {MANIFEST} says {wanted}\nhint: copy the bundle again; if you changed the file yourself, write its new hash into {MANIFEST}"
    ))
}

/// Of bytes that are no network.
pub(crate) fn not_onnx(file: &str, reason: &str) -> Error {
    Error::malformed(format!(
        "`{file}` is not an ONNX file, or is cut short: {reason}"
    ))
}

/// Reads a whole file, up to a limit.
pub(crate) fn read(path: &Path, limit: u64) -> Result<Vec<u8>, Error> {
    let fail = Error::reading(path);
    let file = open_plain(path).map_err(fail)?;
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes).map_err(fail)?;
    if bytes.len() as u64 > limit {
        return Err(larger(path, limit));
    }
    Ok(bytes)
}

/// Of a file beyond a limit.
pub(crate) fn larger(path: &Path, limit: u64) -> Error {
    Error::too_large(format!("`{}` is larger than {limit} bytes", path.display()))
}

/// The one key that every format has.
#[derive(serde::Deserialize)]
struct Version {
    format: u32,
}

pub(super) fn text(bytes: &[u8]) -> Result<&str, Error> {
    std::str::from_utf8(bytes).map_err(|e| Error::malformed(format!("not UTF-8 text: {e}")))
}

pub(super) fn parse(bytes: &[u8]) -> Result<Manifest, Error> {
    let text = text(bytes).map_err(in_manifest)?;
    // The format number first: a bundle from another time should say so, not "unknown key".
    if let Ok(Version { format: found }) = toml::from_str(text)
        && found != FORMAT
    {
        return Err(Error::unsupported(format!(
            "{MANIFEST}: format {found} is not known; this program reads format {FORMAT}"
        )));
    }
    toml::from_str(text).map_err(|e| in_manifest(Error::malformed(one_line(&e, text))))
}

/// A TOML error in one line: what and where.
pub(crate) fn one_line(error: &toml::de::Error, text: &str) -> String {
    let line = error.span().map(|span| {
        let before = text.char_indices().take_while(|(at, _)| *at < span.start);
        1 + before.filter(|(_, c)| *c == '\n').count()
    });
    let message = error.message().replace('\n', ", ");
    line.map_or(message.clone(), |line| format!("line {line}: {message}"))
}

pub(super) fn network(source: &Source<'_>, file: &str, wanted: &str) -> Result<Network, Error> {
    let (bytes, path) = source.read(file, "file")?;
    let found = sha256(&bytes);
    if !found.eq_ignore_ascii_case(wanted) {
        return Err(other_hash(file, wanted, &found));
    }
    let broken = |reason: String| not_onnx(file, &reason);
    let model = ModelProto::decode(bytes.as_slice()).map_err(|e| broken(e.to_string()))?;
    if model.graph.is_none() {
        return Err(broken("it holds no graph".to_owned()));
    }
    let mut external = external_paths(&model);
    external.sort();
    external.dedup();
    let (mut digest, mut hashes) = (Sha256::new(), Vec::new());
    digest.update(&bytes);
    for location in &external {
        let what = "external data";
        let Source::Folder(folder) = source else {
            return Err(outside(what, location));
        };
        // ONNX Runtime looks beside the network's own file, which may lie in a folder of the bundle.
        let beside = Path::new(file).parent().unwrap_or(Path::new(""));
        let from_root = beside.join(location).to_string_lossy().into_owned();
        digest.update(from_root.as_bytes());
        let mut own = Sha256::new();
        hash_file(&inside(folder, &from_root, what)?, [&mut digest, &mut own])?;
        hashes.push((from_root, hexadecimal(&own.finalize())));
    }
    let path = path.filter(|_| !external.is_empty());
    Ok(Network {
        file: file.into(),
        bytes,
        model,
        path,
        digest: hexadecimal(&digest.finalize()),
        external: hashes,
    })
}

/// Compares files of external data with what the manifest says of them, and has it list them all; gives
/// those that it did not.
pub(super) fn check_external(
    manifest: &mut Manifest,
    networks: [&Network; 2],
) -> Result<Vec<String>, Error> {
    let found: BTreeMap<String, String> = networks
        .into_iter()
        .flat_map(|network| network.external.iter().cloned())
        .collect();
    let listed = std::mem::take(&mut manifest.external);
    for (file, wanted) in &listed {
        match found.get(file) {
            Some(found) if found.eq_ignore_ascii_case(wanted) => {}
            Some(found) => {
                return Err(other_hash(file, wanted, found));
            }
            None => {
                let text = format!("external lists `{file}`, which no network reads");
                return Err(in_manifest(Error::malformed(text)));
            }
        }
    }
    let unlisted = found.keys().filter(|file| !listed.contains_key(*file));
    let unlisted = unlisted.cloned().collect();
    manifest.external = found;
    Ok(unlisted)
}

/// Adds a file to hashes, piece by piece: external data may be larger than memory.
fn hash_file(path: &Path, mut digests: [&mut Sha256; 2]) -> Result<(), Error> {
    let fail = Error::reading(path);
    let mut file = open_plain(path).map_err(fail)?;
    let mut piece = vec![0; 1 << 20];
    loop {
        match file.read(&mut piece).map_err(fail)? {
            0 => return Ok(()),
            count => digests
                .iter_mut()
                .for_each(|digest| digest.update(&piece[..count])),
        }
    }
}
