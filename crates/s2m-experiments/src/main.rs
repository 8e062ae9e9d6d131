//! `s2m-reproduce`: a table or figure of the paper, ours beside the paper's; `s2m reproduce` starts it.
//!
//! A program of its own, since experiments are no part of the published program. What it shares with that one, it takes
//! from its folder.

#[path = "../../s2m-cli/src/bars.rs"]
mod bars;
#[allow(dead_code, reason = "options of other commands")]
#[path = "../../s2m-cli/src/options.rs"]
mod options;
#[path = "../../s2m-cli/src/shown.rs"]
mod shown;
#[path = "../../s2m-cli/src/streams.rs"]
mod streams;
#[allow(dead_code, reason = "cells of other commands")]
#[path = "../../s2m-cli/src/table.rs"]
mod table;

use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use s2m::session::Machine;
use s2m_experiments::{DEFAULT_SAMPLES, Experiment, Reproduced, Request, reproduce};
use s2m_fit::trainer::Train;
use s2m_model::networks::RunSettings;

use bars::Bars;
use options::{TalkOptions, TrainOptions, cores, count};
use shown::{Shown, cut};
use streams::Streams;
use table::table;

const EXAMPLES: &str = "Examples:
  s2m reproduce gaussians
  s2m reproduce rare-toys --seeds 0
  s2m reproduce table1 --data data --device cuda
  s2m reproduce table1 --data data --evaluate-only

Finished training runs are used again, unfinished ones go on where they were, and nothing is
measured twice. Samples are drawn and judged on the CPU, wherever networks were trained, unless --judge-there. Remarks in
NOTES.md beside RESULTS.md are kept at its end.";

fn examples() -> String {
    let lines = Experiment::ALL.map(|e| format!("  {:12}  {}", e.name(), e.about()));
    format!("Experiments:\n{}\n\n{EXAMPLES}", lines.join("\n"))
}

/// Make a table or figure of the paper: train, draw, judge, write RESULTS.md and images
#[derive(Debug, Parser)]
#[command(name = "s2m reproduce", bin_name = "s2m reproduce", version, max_term_width = 100, after_help = examples())]
struct ReproduceArgs {
    /// Which experiment, out of those below
    #[arg(value_name = "NAME")]
    name: String,

    /// Folder with `mnist` and `fashion-mnist` as idx files and `cifar10` in its binary version, where images are needed
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,

    /// Folder for networks, banks and measurements [default: runs/NAME]
    #[arg(long, value_name = "DIR")]
    work: Option<PathBuf>,

    /// Folder for RESULTS.md and images [default: experiments/NAME]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Seeds to evaluate, out of those in the run files, as in 0,1 [default: all]
    #[arg(long, value_name = "S,…", value_delimiter = ',')]
    seeds: Option<Vec<u64>>,

    /// Rows to make, by name, in experiments whose rows can be made apart; others are taken from what is there
    #[arg(
        long,
        visible_alias = "row",
        value_name = "NAME,…",
        value_delimiter = ','
    )]
    rows: Option<Vec<String>>,

    /// Samples per line
    #[arg(
        short = 'n',
        long = "samples",
        value_name = "N",
        default_value_t = NonZeroUsize::new(DEFAULT_SAMPLES).expect("it is not zero"),
        value_parser = count
    )]
    samples: NonZeroUsize,

    /// Train nothing: use what is finished, and name the rest as missing
    #[arg(long)]
    evaluate_only: bool,

    #[command(flatten)]
    train: TrainOptions,

    /// Draw and judge where networks are trained, in the place of the CPU
    #[arg(long)]
    judge_there: bool,

    /// Draw in half precision on CUDA, with TF32 and exhaustive search
    #[arg(long, requires = "judge_there")]
    fast: bool,

    /// Cores for drawing and judging [default: all]
    #[arg(long, value_name = "N", value_parser = cores, help_heading = "Running")]
    threads: Option<NonZeroUsize>,

    #[command(flatten)]
    talk: TalkOptions,
}

fn main() -> ExitCode {
    s2m::setting::call_by(s2m::setting::flag);
    let args = ReproduceArgs::parse();
    let (mut out, mut err) = (Shown(io::stdout().lock()), Shown(io::stderr()));
    let mut streams = Streams {
        out: &mut out,
        err: &mut err,
    };
    match run(&args, &mut streams) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(streams.err, "error: {}", cut(&error.to_string()));
            ExitCode::from(2)
        }
    }
}

/// A reader that has seen enough, such as `head`, is not a fault.
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
    kind == Some(io::ErrorKind::BrokenPipe)
}

fn run(args: &ReproduceArgs, streams: &mut Streams<'_>) -> Result<()> {
    let experiment = Experiment::parse(&args.name)?;
    let folder = |root: &str, name: &str| Path::new(root).join(name);
    let work = args.work.clone();
    let work = work.unwrap_or_else(|| folder("runs", experiment.networks()));
    let out = args.out.clone();
    let out = out.unwrap_or_else(|| folder("experiments", experiment.name()));
    let default = RunSettings::default();
    let request = Request {
        experiment,
        data: args.data.as_deref(),
        work: &work,
        out: &out,
        seeds: args.seeds.as_deref(),
        rows: args.rows.as_deref(),
        samples: args.samples,
        machine: Machine {
            run: RunSettings {
                threads: args.threads.unwrap_or(default.threads),
                device: if args.judge_there {
                    args.train.trainer().device
                } else {
                    default.device
                },
                fast: args.fast,
                ..default
            },
            onnxruntime: args.train.onnxruntime(),
        },
    };
    let trainer = args.train.trainer();
    let trainer: Option<&dyn Train> = if args.evaluate_only {
        None
    } else {
        Some(&trainer)
    };
    let bars = Bars::new(args.talk.quiet);
    let made = reproduce(&request, trainer, &bars)?;
    drop(bars);
    if args.talk.json {
        writeln!(streams.out, "{}", serde_json::to_string_pretty(&made)?)?;
    } else {
        show(&made, streams)?;
    }
    if !args.talk.quiet {
        writeln!(streams.err, "results: {}", made.results.display())?;
        for picture in &made.pictures {
            writeln!(streams.err, "image: {}", picture.display())?;
        }
    }
    Ok(())
}

fn show(made: &Reproduced, streams: &mut Streams<'_>) -> Result<()> {
    for shown in &made.tables {
        let rows: Vec<Vec<String>> = [&shown.columns]
            .into_iter()
            .chain(&shown.rows)
            .cloned()
            .collect();
        writeln!(streams.out, "{}\n{}", shown.title, table(&rows))?;
    }
    for missing in &made.missing {
        writeln!(streams.err, "missing: {missing}")?;
    }
    Ok(())
}
