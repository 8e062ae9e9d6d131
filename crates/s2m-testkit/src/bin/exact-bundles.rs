//! Writes the exact bundles that ship with the program: `exact-bundles models`.

use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(folder) = std::env::args_os().nth(1).map(PathBuf::from) else {
        return ExitCode::from(2);
    };
    let target = folder.join("gaussians-exact.s2m");
    match s2m_model::bundle::write(&target, &s2m_testkit::exact::gaussians_exact()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
