//! The `s2m` program: reads what was typed, runs one command, prints errors, picks the exit code.

mod bars;
mod commands;
mod options;
mod shown;
mod streams;
mod table;

use std::io;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};

use commands::Answer;
use commands::{
    adapt, bank, calibrate, classes, demo, eval, explain, fit, info, mine, reproduce, sample,
    serve, train,
};
use shown::{Shown, cut};
use streams::Streams;

/// Multi-label samples from a generator and single positive labels
///
/// Data goes to standard output, everything said to a person goes to standard error. Exit codes: 0
/// done, 1 ran and the answer is no, 2 could not run.
#[derive(Debug, Parser)]
#[command(name = "s2m", version, max_term_width = 100, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "Examples:
  s2m demo
  s2m sample gaussians-exact \"A + B\" -n 1000 --out out
  s2m classes gaussians-exact
  s2m serve
  s2m explain gaussians-exact \"A - B\" --proposal 3
  s2m reproduce gaussians";

#[derive(Debug, Subcommand)]
enum Command {
    Sample(sample::SampleArgs),
    Adapt(adapt::AdaptArgs),
    Mine(mine::MineArgs),
    Bank(bank::BankArgs),
    Classes(classes::ClassesArgs),
    Serve(serve::ServeArgs),
    Explain(explain::ExplainArgs),
    Info(info::InfoArgs),
    Fit(fit::FitArgs),
    Calibrate(calibrate::CalibrateArgs),
    Eval(eval::EvalArgs),
    Demo(demo::DemoArgs),
    Train(train::TrainArgs),
    Reproduce(reproduce::ReproduceArgs),
    /// Print a completion script for a shell
    #[command(
        after_help = "Example:\n  s2m completions bash > ~/.local/share/bash-completion/completions/s2m"
    )]
    Completions {
        /// Shell to complete for
        shell: clap_complete::Shell,
    },
}

fn main() -> ExitCode {
    s2m::setting::call_by(s2m::setting::flag);
    let cli = Cli::parse();
    let (mut out, mut err) = (Shown(io::stdout().lock()), Shown(io::stderr()));
    let mut streams = Streams {
        out: &mut out,
        err: &mut err,
    };
    let outcome = match &cli.command {
        Command::Sample(args) => sample::run(args, &mut streams),
        Command::Adapt(args) => adapt::run(args, &mut streams),
        Command::Mine(args) => mine::run(args, &mut streams),
        Command::Bank(args) => bank::run(args, &mut streams),
        Command::Classes(args) => classes::run(args, &mut streams),
        Command::Serve(args) => serve::run(args, &mut streams),
        Command::Explain(args) => explain::run(args, &mut streams),
        Command::Info(args) => info::run(args, &mut streams),
        Command::Fit(args) => fit::run(args, &mut streams),
        Command::Calibrate(args) => calibrate::run(args, &mut streams),
        Command::Eval(args) => eval::run(args, &mut streams),
        Command::Demo(args) => demo::run(args, &mut streams),
        Command::Train(args) => train::run(args, &mut streams),
        Command::Reproduce(args) => reproduce::run(args),
        Command::Completions { shell } => {
            // Into memory first: a reader that has gone is an error there and not a panic.
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "s2m", &mut script);
            let written = streams
                .out
                .write_all(&script)
                .and_then(|()| streams.out.flush());
            written.map(|()| Answer::Yes).map_err(Into::into)
        }
    };
    match outcome {
        Ok(Answer::Yes) => ExitCode::SUCCESS,
        Ok(Answer::No) => ExitCode::from(1),
        // A reader that has seen enough, such as `head`, is not a fault.
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            // Every message names its cause itself, so the chain of sources would only repeat it.
            let _ = writeln!(streams.err, "error: {}", cut(&error.to_string()));
            ExitCode::from(2)
        }
    }
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
    kind == Some(io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::*;

    /// Names that messages of the libraries call settings by.
    fn settings(folder: &Path, found: &mut BTreeSet<String>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                settings(&path, found);
            } else if path.extension().is_some_and(|end| end == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                let named = text.split("Setting(\"").skip(1);
                let names = named.filter_map(|rest| rest.split_once("\")"));
                let is_name = |name: &str| name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
                found.extend(
                    names
                        .map(|(name, _)| name.to_owned())
                        .filter(|name| is_name(name)),
                );
            }
        }
    }

    #[test]
    fn every_setting_that_a_message_names_is_a_flag() {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut named = BTreeSet::new();
        for library in [
            "s2m",
            "s2m-core",
            "s2m-model",
            "s2m-calibrate",
            "s2m-fit",
            "s2m-eval",
            "s2m-serve",
        ] {
            settings(&crates.join(library).join("src"), &mut named);
        }
        assert!(named.len() > 30, "{named:?}");
        let program = Cli::command();
        let flags: BTreeSet<String> = program
            .get_subcommands()
            .flat_map(clap::Command::get_arguments)
            .filter_map(clap::Arg::get_long)
            .map(|long| long.replace('-', "_"))
            .collect();
        for name in named {
            assert!(
                flags.contains(&name),
                "no command has --{}",
                name.replace('_', "-")
            );
        }
    }
}
