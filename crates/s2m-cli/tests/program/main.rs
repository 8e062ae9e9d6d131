//! Whole-program tests: run `s2m`, look at everything it printed and wrote.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod absent;
mod adapting;
mod careless;
mod damaged;
mod errors;
mod eval;
mod faults;
mod hostile;
mod interruption;
mod memory;
mod moves;
mod output;
mod serve;
mod smc;
mod together;
mod training;

use std::path::Path;
use std::process::{Command, Output};

/// What a run of the program left.
struct Ran {
    code: i32,
    out: String,
    err: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// The program, ready to run in a folder.
fn program(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_s2m"));
    command.current_dir(folder);
    command
}

fn run(folder: &Path, arguments: &[&str]) -> Ran {
    program(folder).args(arguments).output().unwrap().into()
}
