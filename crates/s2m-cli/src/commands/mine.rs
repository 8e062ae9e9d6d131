//! `s2m mine`: score proposals once, for every query to come.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use s2m::mine::{Request, mine};

use super::{Answer, print_json};
use crate::bars::Bars;
use crate::options::{MachineOptions, TalkOptions, count};
use crate::streams::Streams;

const EXAMPLES: &str = "Examples:
  s2m mine gaussians-exact -n 1000000 --out bank
  s2m sample gaussians-exact \"A - B\" -n 1000 --bank bank --out out

A run that was stopped goes on where it was; a larger N extends the bank.";

/// Score proposals once and keep the classifier's answers in a bank
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct MineArgs {
    /// Bundle folder, or the name of an embedded model
    #[arg(value_name = "MODEL")]
    model: PathBuf,

    /// Number of proposals
    #[arg(short = 'n', long = "proposals", value_name = "N", value_parser = count)]
    proposals: NonZeroUsize,

    /// Folder of the bank
    #[arg(long, value_name = "BANK")]
    out: PathBuf,

    /// Seed of the proposals
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,

    #[command(flatten)]
    machine: MachineOptions,

    #[command(flatten)]
    talk: TalkOptions,
}

pub(crate) fn run(args: &MineArgs, streams: &mut Streams<'_>) -> Result<Answer> {
    let request = Request {
        model: &args.model,
        proposals: args.proposals,
        seed: args.seed,
        machine: args.machine.machine(),
        out: &args.out,
    };
    let bars = Bars::new(args.talk.quiet);
    let mined = mine(&request, &bars)?;
    drop(bars);
    if args.talk.json {
        print_json(&mined, streams)?;
    } else {
        writeln!(streams.out, "{}", args.out.display())?;
    }
    if !args.talk.quiet {
        let new = mined.proposals - mined.resumed_at.min(mined.proposals);
        let rate = new as f64 / mined.seconds.max(1e-9);
        writeln!(
            streams.err,
            "{} proposals in the bank, {new} of them new ({rate:.0} a second)",
            mined.proposals
        )?;
    }
    Ok(Answer::Yes)
}
