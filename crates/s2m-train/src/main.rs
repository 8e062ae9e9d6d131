//! `s2m-train`: the training half of the program, started by `s2m train` and `s2m reproduce`.

use std::io;
use std::path::PathBuf;
use std::process::{self, ExitCode};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use anyhow::Result;
use clap::{Args, Parser, Subcommand};
use s2m_model::disk::{Lock, read_plain_text};
use s2m_runs::Ended;
use s2m_train::device::{DeviceChoice, Machine};
use s2m_train::folder::read_run_file;
use s2m_train::stopped::{Diverged, Panicked};

/// Train the networks that `s2m` samples with
#[derive(Parser)]
#[command(version)]
struct Program {
    /// End when standard input does, which whoever started this holds open
    #[arg(long, global = true)]
    with_caller: bool,

    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Generators, for all data sets and seeds of a run file at once
    Gan(Run),
    /// Three classifiers on one trunk for every generator of a GAN run, and the bundles
    Classifier {
        #[command(flatten)]
        run: Run,

        /// Runs on the same label sets that follow this one, which the forecast is to include
        #[arg(long, value_name = "N", default_value_t = 0)]
        further: u64,
    },
    /// Calibrates the bundles of a finished classifier run again, by the run file's `calibration`
    Calibrate(Run),
    /// A classifier of the original classes that judges samples
    Referee(Run),
}

#[derive(Args)]
struct Run {
    /// File that states everything about the run
    #[arg(value_name = "RUN.toml")]
    file: PathBuf,

    /// Folder for the result; an unfinished run in it goes on
    #[arg(long, value_name = "DIR")]
    out: PathBuf,

    /// Where to train
    #[arg(long, value_enum, default_value = "cpu")]
    device: DeviceChoice,

    /// ONNX Runtime's library, for the check of exported files
    #[arg(long, value_name = "FILE")]
    onnxruntime: Option<PathBuf>,
}

impl Run {
    fn machine(&self) -> Result<Machine> {
        Machine::open(self.device, self.onnxruntime.as_deref())
    }
}

fn main() -> ExitCode {
    s2m_core::setting::call_by(s2m_core::setting::flag);
    // libtorch's errors (no memory left, a driver that fails) reach Rust as panics, and so do our own.
    let place = Arc::new(Mutex::new((String::new(), 0)));
    let noted = place.clone();
    std::panic::set_hook(Box::new(move |info| {
        let found = info.location().map(|at| (at.file().to_owned(), at.line()));
        *noted.lock().unwrap_or_else(PoisonError::into_inner) = found.unwrap_or_default();
    }));
    let outcome = std::panic::catch_unwind(run).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text
            .or(panic.downcast_ref::<&str>().copied())
            .unwrap_or("unknown error");
        let (file, line) = &*place.lock().unwrap_or_else(PoisonError::into_inner);
        Err(Panicked::new(file, *line, text, &run_file()).into())
    });
    match outcome {
        Ok(()) => ExitCode::from(Ended::Done.code()),
        Err(error) => {
            #[expect(clippy::print_stderr, reason = "errors are for people")]
            {
                eprintln!("error: {error:#}");
            }
            // A training that ran and came to nothing is an answer; all else could not run.
            let diverged = error.downcast_ref::<Diverged>().is_some();
            ExitCode::from(if diverged {
                Ended::No.code()
            } else {
                Ended::COULD_NOT_RUN
            })
        }
    }
}

fn run() -> Result<()> {
    let Program {
        with_caller,
        command,
    } = Program::parse();
    if with_caller {
        thread::spawn(end_with_caller);
    }
    let (Command::Gan(args)
    | Command::Classifier { run: args, .. }
    | Command::Calibrate(args)
    | Command::Referee(args)) = &command;
    // One training per folder at a time.
    let _lock = Lock::beside(&args.out)?;
    match &command {
        Command::Gan(args) => {
            s2m_train::gan::train(&read_run_file(&args.file)?, &args.out, &args.machine()?)
        }
        Command::Classifier { run, further } => {
            let (settings, machine) = (read_run_file(&run.file)?, run.machine()?);
            s2m_train::classifier::train_before(&settings, &run.out, &machine, *further)
        }
        Command::Calibrate(args) => s2m_train::classifier::calibrate_again(
            &read_run_file(&args.file)?,
            &args.out,
            &args.machine()?,
        ),
        Command::Referee(args) => {
            s2m_train::referee::train(&read_run_file(&args.file)?, &args.out, &args.machine()?)
        }
    }
}

/// A caller that was killed leaves no training behind that would hold its folder; the run goes on from its last
/// checkpoint when it is started again.
fn end_with_caller() {
    if io::copy(&mut io::stdin().lock(), &mut io::sink()).is_ok() {
        process::exit(Ended::COULD_NOT_RUN.into());
    }
}

/// The text of the run file on the command line; empty where there is none.
fn run_file() -> String {
    let file = |program: Program| match program.command {
        Command::Gan(run)
        | Command::Classifier { run, .. }
        | Command::Calibrate(run)
        | Command::Referee(run) => read_plain_text(&run.file).ok(),
    };
    Program::try_parse().ok().and_then(file).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use s2m_runs::Kind;

    use super::*;

    #[test]
    fn every_kind_that_s2m_asks_for_is_a_command() {
        for kind in Kind::ALL {
            let typed = ["s2m-train", kind.name(), "run.toml", "--out", "folder"];
            let command = Program::try_parse_from(typed).unwrap().command;
            let same = match kind {
                Kind::Gan => matches!(command, Command::Gan(_)),
                Kind::Classifier => matches!(command, Command::Classifier { .. }),
                Kind::Referee => matches!(command, Command::Referee(_)),
            };
            assert!(same, "{}", kind.name());
        }
    }
}
