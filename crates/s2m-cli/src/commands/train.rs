//! `s2m train`: train the paper's networks, by the second executable.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum};
use s2m_fit::trainer::{Ended, Job, Kind, Train as _};

use super::Answer;
use crate::options::TrainOptions;
use crate::streams::Streams;

const EXAMPLES: &str = "Examples:
  s2m train gan gan.toml --out runs/gan --device cuda
  s2m train classifier classifier.toml --out runs/classifier
  s2m train referee referee.toml --out runs/referee

A run file states everything; those of the paper are in the folder `experiments`. The
resolved file is written beside the result. A run that was stopped goes on where it was, and
a finished one is left as it is. The work is done by `s2m-train`, which lies beside `s2m`;
libtorch is found for it.";

/// Train a generator, its classifiers, or a referee
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TrainArgs {
    /// What to train
    #[arg(value_name = "WHAT")]
    what: What,

    /// Run file
    #[arg(value_name = "RUN.toml")]
    run_file: PathBuf,

    /// Folder for the result
    #[arg(long, value_name = "DIR")]
    out: PathBuf,

    #[command(flatten)]
    train: TrainOptions,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum What {
    /// A generator, by one of the objectives
    Gan,
    /// The three-headed classifiers of trained generators, as bundles
    Classifier,
    /// A fully supervised classifier to judge results by
    Referee,
}

pub(crate) fn run(args: &TrainArgs, streams: &mut Streams<'_>) -> Result<Answer> {
    let job = Job {
        kind: match args.what {
            What::Gan => Kind::Gan,
            What::Classifier => Kind::Classifier,
            What::Referee => Kind::Referee,
        },
        run_file: &args.run_file,
        out: &args.out,
        further: 0,
    };
    match args.train.trainer().train(&job)? {
        Ended::Done => {
            writeln!(streams.out, "{}", args.out.display())?;
            Ok(Answer::Yes)
        }
        Ended::No => Ok(Answer::No),
    }
}
