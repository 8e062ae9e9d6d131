//! Finding and loading ONNX Runtime.
//!
//! Looked for in this order: an explicit setting, `ORT_DYLIB_PATH`, beside the executable, the
//! project's folder `.runtime` above the executable, an installed Python package. Only the library
//! file is used; no Python runs.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use s2m_core::setting::Setting;

use crate::error::Error;

/// The version that the project is tested with.
pub const VERSION: &str = "1.31.1";

/// Folder of native libraries inside the project, filled by `make`.
const PROJECT_FOLDER: &str = ".runtime";

/// A loaded ONNX Runtime; there is one per process.
#[derive(Debug, Clone)]
pub struct Runtime {
    path: PathBuf,
    environment: ort::environment::Environment,
}

impl Runtime {
    /// Finds and loads the library; later calls give the one that was loaded first.
    pub fn load(explicit: Option<&Path>) -> Result<Self, Error> {
        static LOADED: OnceLock<Result<Runtime, Error>> = OnceLock::new();
        LOADED.get_or_init(|| load(&locate(explicit)?)).clone()
    }

    /// Where the library lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it came with CUDA; a device may still be missing.
    #[expect(clippy::unused_self, reason = "only a loaded library can tell")]
    pub fn has_cuda(&self) -> bool {
        use ort::ep::ExecutionProvider as _;
        ort::ep::CUDA::is_available().unwrap_or(false)
    }

    /// Its version, as far as the file's name tells.
    pub fn version(&self) -> String {
        let real = self
            .path
            .canonicalize()
            .unwrap_or_else(|_| self.path.clone());
        let name = real
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        name.split_once(".so.")
            .map_or("unknown".to_owned(), |(_, version)| version.to_owned())
    }

    /// What sessions are made in.
    pub fn environment(&self) -> &ort::environment::Environment {
        &self.environment
    }
}

fn load(path: &Path) -> Result<Runtime, Error> {
    let fail = |reason: String| {
        Error::network(format!(
            "could not load ONNX Runtime from `{}`: {reason}",
            path.display()
        ))
    };
    let environment = ort::init_from(path)
        .map_err(|e| fail(e.to_string()))?
        .with_name("s2m")
        .with_telemetry(false)
        .build()
        .map_err(|e| fail(e.to_string()))?;
    // Its own log would mix with ours on stderr; errors come back as errors anyway.
    environment.set_log_level(ort::logging::LogLevel::Fatal);
    Ok(Runtime {
        path: path.to_owned(),
        environment,
    })
}

fn locate(explicit: Option<&Path>) -> Result<PathBuf, Error> {
    let variable = env::var_os("ORT_DYLIB_PATH")
        .filter(|v| !v.is_empty())
        .map(PathBuf::from);
    let named = [
        (
            explicit.map(Path::to_owned),
            Setting("onnxruntime").to_string(),
        ),
        (variable, "ORT_DYLIB_PATH".to_owned()),
    ];
    if let Some((path, by)) = named.into_iter().find_map(|(path, by)| Some((path?, by))) {
        return if path.is_file() {
            Ok(path)
        } else {
            Err(Error::not_found(format!(
                "no ONNX Runtime library at `{}`, named by {by}",
                path.display()
            )))
        };
    }
    let executable = env::current_exe()
        .and_then(|e| e.canonicalize())
        .unwrap_or_default();
    let beside = executable.parent().into_iter().map(Path::to_owned);
    let project = executable
        .ancestors()
        .skip(2)
        .take(4)
        .map(|a| a.join(PROJECT_FOLDER));
    beside
        .chain(project)
        .chain(python_folders())
        .find_map(|folder| library_in(&folder))
        .ok_or_else(not_found)
}

fn not_found() -> Error {
    Error::not_found(format!(
        "ONNX Runtime was not found\nhint: run `make build` in the project, or `pip install onnxruntime=={VERSION}`, or point ORT_DYLIB_PATH at libonnxruntime.so"
    ))
}

/// The library in a folder, with or without a version behind its name.
fn library_in(folder: &Path) -> Option<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(folder)
        .ok()?
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name == "libonnxruntime.dylib" || name.starts_with("libonnxruntime.so")
        })
        .filter(|path| path.is_file())
        .collect();
    found.sort_by_key(|path| version_numbers(path));
    found.pop()
}

/// The numbers in a file's name, so that 1.31.1 is newer than 1.9.0.
fn version_numbers(path: &Path) -> Vec<u64> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.split(|c: char| !c.is_ascii_digit())
        .filter_map(|part| part.parse().ok())
        .collect()
}

/// Folders in which the Python package keeps the library.
fn python_folders() -> impl Iterator<Item = PathBuf> {
    python_packages().map(|packages| packages.join("onnxruntime/capi"))
}

/// Folders of installed Python packages: active environment first, then the user's, then the
/// system's.
pub fn python_packages() -> impl Iterator<Item = PathBuf> {
    let environment = env::var_os("VIRTUAL_ENV").map(PathBuf::from);
    let user = env::var_os("HOME").map(|home| PathBuf::from(home).join(".local"));
    let roots = environment
        .into_iter()
        .chain(user)
        .chain(["/usr/local".into(), "/usr".into()]);
    roots.flat_map(|root| {
        let lib = root.join("lib");
        let versions = fs::read_dir(&lib)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path());
        let mut pythons: Vec<PathBuf> = versions
            .filter(|path| {
                path.file_name()
                    .is_some_and(|n| n.to_string_lossy().starts_with("python3"))
            })
            .collect();
        pythons.sort_by_key(|path| std::cmp::Reverse(version_numbers(path)));
        pythons
            .into_iter()
            .flat_map(|python| ["site-packages", "dist-packages"].map(|kind| python.join(kind)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_is_explained_in_one_line_and_a_hint() {
        let message = not_found().to_string();
        assert_eq!(message.lines().count(), 2);
        assert!(message.contains("pip install onnxruntime==1.31.1"));
        let path = Path::new("/nowhere/libonnxruntime.so");
        assert_eq!(
            locate(Some(path)).unwrap_err().to_string(),
            "no ONNX Runtime library at `/nowhere/libonnxruntime.so`, named by `onnxruntime`"
        );
    }

    #[test]
    fn the_newest_library_of_a_folder_is_taken_and_other_files_are_not() {
        let folder = tempfile::tempdir().unwrap();
        for name in [
            "libonnxruntime.so.1.9.0",
            "libonnxruntime.so.1.31.1",
            "libonnxruntime_providers_shared.so",
            "x.txt",
        ] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        let found = library_in(folder.path()).unwrap();
        assert!(found.ends_with("libonnxruntime.so.1.31.1"));
        assert_eq!(library_in(Path::new("/nowhere")), None);
    }
}
