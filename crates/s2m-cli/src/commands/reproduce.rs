//! `s2m reproduce`: a table or figure of the paper, ours beside the paper's.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use s2m::session::Machine;
use s2m_experiments::{DEFAULT_SAMPLES, Experiment, Reproduced, Request, reproduce};
use s2m_fit::trainer::Train;
use s2m_model::networks::RunSettings;

use super::{Answer, print_json};
use crate::bars::Bars;
use crate::options::{TalkOptions, TrainOptions, cores, count};
use crate::streams::Streams;
use crate::table::table;

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
#[derive(Debug, Args)]
#[command(after_help = examples())]
pub(crate) struct ReproduceArgs {
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

pub(crate) fn run(args: &ReproduceArgs, streams: &mut Streams<'_>) -> Result<Answer> {
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
        print_json(&made, streams)?;
    } else {
        show(&made, streams)?;
    }
    if !args.talk.quiet {
        writeln!(streams.err, "results: {}", made.results.display())?;
        for picture in &made.pictures {
            writeln!(streams.err, "image: {}", picture.display())?;
        }
    }
    Ok(Answer::Yes)
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
