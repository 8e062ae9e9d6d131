//! `s2m reproduce`: starts `s2m-reproduce`, which has the experiments and is no part of the published program.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result};
use clap::Args;

use super::Answer;

/// The program that has the experiments.
const PROGRAM: &str = "s2m-reproduce";

/// Make a table or figure of the paper: train, draw, judge, write RESULTS.md and images
#[derive(Debug, Args)]
#[command(
    disable_help_flag = true,
    after_help = "Example:\n  s2m reproduce --help"
)]
pub(crate) struct ReproduceArgs {
    /// Which experiment, and options; --help lists them
    #[arg(
        value_name = "ARGUMENT",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    arguments: Vec<OsString>,
}

/// Becomes the other program where the system can, or waits for it.
pub(crate) fn run(args: &ReproduceArgs) -> Result<Answer> {
    let mut command = Command::new(find()?);
    command.args(&args.arguments);
    #[cfg(unix)]
    {
        let failed = std::os::unix::process::CommandExt::exec(&mut command);
        Err(failed).with_context(|| format!("could not start `{PROGRAM}`"))
    }
    #[cfg(not(unix))]
    {
        let ended = command.status();
        let ended = ended.with_context(|| format!("could not start `{PROGRAM}`"))?;
        std::process::exit(ended.code().unwrap_or(2));
    }
}

/// Beside this program, or on PATH.
fn find() -> Result<PathBuf> {
    let executable = env::current_exe().and_then(|path| path.canonicalize());
    let beside = executable
        .ok()
        .and_then(|path| path.parent().map(PathBuf::from));
    let path = env::var_os("PATH").unwrap_or_default();
    beside
        .into_iter()
        .chain(env::split_paths(&path))
        .map(|folder| folder.join(PROGRAM))
        .find(|program| program.is_file())
        .with_context(|| format!("`{PROGRAM}` was not found beside `s2m` or on PATH\nhint: experiments are in the repository and not in the package; `make build` builds them"))
}
