//! Starting `s2m-train`, the second executable, with libtorch in its library path.
//!
//! `s2m` itself never links libtorch. The program is looked for beside this one, then on `PATH`.
//! Libtorch is looked for in this order: an explicit setting, `LIBTORCH`, the project's folder
//! `.runtime/libtorch` above the executable, an installed Python package. Only its library files are
//! used; no Python runs.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use s2m_core::setting::Setting;
use s2m_model::networks::Device;
use s2m_runs::PROGRAM;
pub use s2m_runs::{Ended, Kind};

use crate::error::{Error, LIBRARY};

/// Folder of libtorch inside the project, filled by `make`.
const PROJECT_FOLDER: &str = ".runtime/libtorch";

/// Folders between `.runtime/libtorch` and `torch`: `lib/python3.x/site-packages` is three.
const DEEPEST: usize = 4;

/// One training run.
#[derive(Debug, Clone, Copy)]
pub struct Job<'a> {
    /// What is trained.
    pub kind: Kind,
    /// The run file.
    pub run_file: &'a Path,
    /// Folder for the result; a run that was stopped goes on there.
    pub out: &'a Path,
    /// Runs on the same label sets that follow, which a forecast is to include.
    pub further: usize,
}

/// Whoever trains.
pub trait Train {
    /// Runs a job to its end, or continues it.
    fn train(&self, job: &Job<'_>) -> Result<Ended, Error>;

    /// Where it trains.
    fn device(&self) -> Device {
        Device::Cpu
    }
}

/// `s2m-train`, found when it is first needed.
#[derive(Debug, Clone, Copy, Default)]
pub struct Trainer<'a> {
    /// Where to train.
    pub device: Device,
    /// Explicit folder of libtorch.
    pub libtorch: Option<&'a Path>,
    /// Explicit path of ONNX Runtime, by which exported networks are checked.
    pub onnxruntime: Option<&'a Path>,
}

impl Train for Trainer<'_> {
    fn train(&self, job: &Job<'_>) -> Result<Ended, Error> {
        let program = find_program(&executable(), env::var_os("PATH"))?;
        let variable = env::var_os("LIBTORCH").filter(|value| !value.is_empty());
        let torch = find_libtorch(self.libtorch, variable.map(PathBuf::from), &executable())?;
        let mut command = Command::new(&program);
        command
            .arg(job.kind.name())
            .arg(job.run_file)
            .arg("--out")
            .arg(job.out)
            .args(["--device", self.device.name()])
            .env(
                "LD_LIBRARY_PATH",
                library_path(&torch, env::var_os("LD_LIBRARY_PATH")),
            );
        if job.further > 0 {
            command.arg("--further").arg(job.further.to_string());
        }
        if let Some(onnxruntime) = self.onnxruntime {
            command.env("ORT_DYLIB_PATH", onnxruntime);
        }
        let failed = |source| Error::Start {
            program: program.clone(),
            source,
        };
        // The trainer ends with its standard input: it is not left behind where this process is killed.
        let mut child = command
            .arg("--with-caller")
            .stdin(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let held = child.stdin.take();
        let status = child.wait().map_err(failed)?;
        drop(held);
        ended(job.kind, status)
    }

    fn device(&self) -> Device {
        self.device
    }
}

fn ended(kind: Kind, status: ExitStatus) -> Result<Ended, Error> {
    let ended = status.code().and_then(Ended::of_code);
    ended.ok_or_else(|| Error::CouldNotRun {
        kind: kind.name(),
        status: status.to_string(),
    })
}

fn executable() -> PathBuf {
    env::current_exe()
        .and_then(|path| path.canonicalize())
        .unwrap_or_default()
}

/// The second executable: beside this one, then on `PATH`.
fn find_program(executable: &Path, path: Option<OsString>) -> Result<PathBuf, Error> {
    let beside = executable.parent().map(Path::to_owned);
    let on_path: Vec<PathBuf> = path.map_or(Vec::new(), |path| env::split_paths(&path).collect());
    beside
        .into_iter()
        .chain(on_path)
        .map(|folder| folder.join(PROGRAM))
        .find(|program| program.is_file())
        .ok_or(Error::NoProgram)
}

/// The `torch` folder to use.
fn find_libtorch(
    explicit: Option<&Path>,
    variable: Option<PathBuf>,
    executable: &Path,
) -> Result<PathBuf, Error> {
    let named = [
        (
            explicit.map(Path::to_owned),
            Setting("libtorch").to_string(),
        ),
        (variable, "LIBTORCH".to_owned()),
    ];
    if let Some((folder, by)) = named.into_iter().find_map(|(path, by)| Some((path?, by))) {
        return torch_at(&folder).ok_or(Error::NotLibtorch { folder, by });
    }
    let project = executable.ancestors().skip(2).take(4);
    project
        .filter_map(|above| torch_below(&above.join(PROJECT_FOLDER), DEEPEST))
        .chain(s2m_model::runtime::python_packages().filter_map(|site| torch_at(&site)))
        .next()
        .ok_or(Error::NoLibtorch)
}

/// The `torch` folder that a folder is, or holds.
fn torch_at(folder: &Path) -> Option<PathBuf> {
    let is_torch = |folder: &Path| folder.join(LIBRARY).is_file();
    let inside = folder.join("torch");
    if is_torch(&inside) {
        Some(inside)
    } else {
        is_torch(folder).then(|| folder.to_owned())
    }
}

/// The first `torch` folder at most so many folders down, in the order of their names.
fn torch_below(folder: &Path, depth: usize) -> Option<PathBuf> {
    if let Some(torch) = torch_at(folder) {
        return Some(torch);
    }
    let depth = depth.checked_sub(1)?;
    let entries = fs::read_dir(folder).ok()?.flatten();
    let mut folders: Vec<PathBuf> = entries.map(|e| e.path()).filter(|p| p.is_dir()).collect();
    folders.sort();
    folders.iter().find_map(|inner| torch_below(inner, depth))
}

/// Libtorch's own libraries first, then those of the `nvidia` packages beside it, then what was there.
fn library_path(torch: &Path, before: Option<OsString>) -> OsString {
    let nvidia = torch.parent().map(|site| site.join("nvidia"));
    let packages = nvidia.and_then(|folder| fs::read_dir(folder).ok());
    let mut packages: Vec<PathBuf> = packages
        .into_iter()
        .flatten()
        .flatten()
        .map(|package| package.path().join("lib"))
        .filter(|lib| lib.is_dir())
        .collect();
    packages.sort();
    let before = before.filter(|path| !path.is_empty());
    let before = before.map_or(Vec::new(), |path| env::split_paths(&path).collect());
    let all = std::iter::once(torch.join("lib"))
        .chain(packages)
        .chain(before);
    // A folder with a colon in its name cannot be put on the path; the loader then says what it lacks.
    env::join_paths(all).unwrap_or_else(|_| torch.join("lib").into_os_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touch(path: &Path) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }

    #[test]
    fn the_program_is_looked_for_beside_this_one_and_then_on_the_path() {
        let root = tempfile::tempdir().unwrap();
        let own = root.path().join("bin/s2m");
        let elsewhere = root.path().join("other");
        let path = || Some(env::join_paths([Path::new("/nowhere"), &elsewhere]).unwrap());
        let error = find_program(&own, path()).unwrap_err().to_string();
        assert_eq!(
            error,
            "`s2m-train` was not found beside `s2m` or on PATH\nhint: `make train` builds it"
        );
        touch(&elsewhere.join("s2m-train"));
        assert_eq!(
            find_program(&own, path()).unwrap(),
            elsewhere.join("s2m-train")
        );
        touch(&root.path().join("bin/s2m-train"));
        assert_eq!(
            find_program(&own, path()).unwrap(),
            root.path().join("bin/s2m-train")
        );
    }

    #[test]
    fn libtorch_is_found_by_its_folder_by_its_packages_folder_and_in_the_project() {
        let root = tempfile::tempdir().unwrap();
        let site = root
            .path()
            .join(".runtime/libtorch/lib/python3.12/site-packages");
        let torch = site.join("torch");
        touch(&torch.join(LIBRARY));
        let own = root.path().join("target/release/s2m");
        assert_eq!(find_libtorch(Some(&torch), None, &own).unwrap(), torch);
        assert_eq!(find_libtorch(Some(&site), None, &own).unwrap(), torch);
        let by_variable = find_libtorch(None, Some(torch.clone()), &own).unwrap();
        assert_eq!(by_variable, torch);
        assert_eq!(find_libtorch(None, None, &own).unwrap(), torch);
    }

    #[test]
    fn a_wrong_folder_names_who_named_it() {
        let own = Path::new("/nowhere/bin/s2m");
        let message = |explicit: Option<&str>, variable: Option<&str>| {
            let found = find_libtorch(explicit.map(Path::new), variable.map(PathBuf::from), own);
            found.unwrap_err().to_string()
        };
        assert_eq!(
            message(Some("/a"), Some("/b")),
            "no libtorch in `/a`, named by `libtorch`: there is no `lib/libtorch_cpu.so` and no `torch/lib/libtorch_cpu.so`"
        );
        assert!(message(None, Some("/b")).contains("`/b`, named by LIBTORCH"));
        let missing = Error::NoLibtorch.to_string();
        assert!(
            missing.contains("\nhint: `make train` fetches it"),
            "{missing}"
        );
    }

    #[test]
    fn the_library_path_starts_with_libtorch_and_keeps_what_was_there() {
        let root = tempfile::tempdir().unwrap();
        let site = root.path();
        let torch = site.join("torch");
        touch(&torch.join(LIBRARY));
        touch(&site.join("nvidia/cudnn/lib/x.so"));
        touch(&site.join("nvidia/cu13/lib/x.so"));
        touch(&site.join("nvidia/empty/x"));
        let found = library_path(&torch, Some("/opt/lib:/more".into()));
        let found: Vec<PathBuf> = env::split_paths(&found).collect();
        let wanted = [
            torch.join("lib"),
            site.join("nvidia/cu13/lib"),
            site.join("nvidia/cudnn/lib"),
            "/opt/lib".into(),
            "/more".into(),
        ];
        assert_eq!(found, wanted);
        assert_eq!(
            library_path(&torch, Some(OsString::new())),
            library_path(&torch, None)
        );
    }

    #[cfg(unix)]
    #[test]
    fn exit_codes_mean_what_they_mean_for_s2m() {
        use std::os::unix::process::ExitStatusExt as _;
        let after = |raw| ended(Kind::Gan, ExitStatus::from_raw(raw));
        assert_eq!(after(0).unwrap(), Ended::Done);
        assert_eq!(after(1 << 8).unwrap(), Ended::No);
        let error = after(2 << 8).unwrap_err().to_string();
        assert_eq!(
            error,
            "`s2m-train gan` could not run (exit status: 2); what it said is above"
        );
        assert!(
            after(9)
                .unwrap_err()
                .to_string()
                .contains("signal: 9 (SIGKILL)")
        );
    }
}
