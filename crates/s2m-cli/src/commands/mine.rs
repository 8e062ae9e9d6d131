//! `s2m mine`: score proposals once, for every query to come.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use s2m::mine::{Piece, Request, mine};
use s2m_model::bank::PART;

use super::{Answer, print_json};
use crate::bars::Bars;
use crate::options::{MachineOptions, TalkOptions, count};
use crate::streams::Streams;

const EXAMPLES: &str = "Examples:
  s2m mine gaussians-exact -n 1000000 --out bank
  s2m sample gaussians-exact \"A - B\" -n 1000 --bank bank --out out

A run that was stopped goes on where it was; a larger N extends the bank.

On many machines, each mines a range, and the pieces are joined:
  s2m mine gaussians-exact --range 0..524288 --out piece-0
  s2m mine gaussians-exact --range 524288..1000000 --out piece-1
  s2m bank join piece-0 piece-1 --out bank";

/// Score proposals once and keep the classifier's answers in a bank
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct MineArgs {
    /// Bundle folder, or the name of an embedded model
    #[arg(value_name = "MODEL")]
    model: PathBuf,

    /// Number of proposals
    #[arg(
        short = 'n',
        long = "proposals",
        value_name = "N",
        value_parser = count,
        required_unless_present = "range",
        conflicts_with = "range"
    )]
    proposals: Option<NonZeroUsize>,

    /// Only these proposals, from FROM to TO - 1: a piece of a bank, for `s2m bank join`
    #[arg(long, value_name = "FROM..TO", value_parser = range)]
    range: Option<(u64, NonZeroUsize)>,

    /// Proposals in each file of a new bank, a multiple of 64; ranges begin at multiples of it
    #[arg(long, value_name = "N", default_value_t = PART, value_parser = part)]
    part: u64,

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

/// `FROM..TO`, with something in between.
fn range(text: &str) -> Result<(u64, NonZeroUsize), String> {
    let parsed = || -> Option<(u64, NonZeroUsize)> {
        let (from, to) = text.split_once("..")?;
        let (from, to): (u64, NonZeroUsize) = (from.trim().parse().ok()?, to.trim().parse().ok()?);
        (from < to.get() as u64).then_some((from, to))
    };
    parsed().ok_or_else(|| "it must be FROM..TO, two whole numbers, the second larger".to_owned())
}

/// Networks round what is left over after whole vectors in another way, so that parts hold whole ones.
const WHOLE: u64 = 64;

fn part(text: &str) -> Result<u64, String> {
    let size = text
        .parse()
        .ok()
        .filter(|size: &u64| (1..=PART).contains(size) && size.is_multiple_of(WHOLE));
    size.ok_or_else(|| format!("it must be a multiple of {WHOLE}, at most {PART}"))
}

pub(crate) fn run(args: &MineArgs, streams: &mut Streams<'_>) -> Result<Answer> {
    let (first, proposals) = match (args.range, args.proposals) {
        (Some(range), _) => range,
        (None, Some(proposals)) => (0, proposals),
        (None, None) => unreachable!("one of both is required"),
    };
    let part = args.part;
    if !first.is_multiple_of(part) {
        let below = first / part * part;
        bail!(
            "the range begins at proposal {first}, inside a part of {part}\nhint: begin at {below} or {}, or choose a smaller --part",
            below + part
        );
    }
    let request = Request {
        model: &args.model,
        proposals,
        piece: Piece { first, part },
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
        let all = mined.proposals - first.min(mined.proposals);
        let place = if args.range.is_some() {
            "piece"
        } else {
            "bank"
        };
        writeln!(
            streams.err,
            "{all} proposals in the {place}, {new} of them new ({rate:.0} a second)"
        )?;
    }
    Ok(Answer::Yes)
}
