//! `s2m bank`: what can be done with banks besides mining them.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Subcommand};
use s2m::output::Existing;
use s2m_model::bank::join;

use super::{Answer, print_json};
use crate::options::TalkOptions;
use crate::streams::Streams;

/// Put pieces of a bank together
#[derive(Debug, Args)]
pub(crate) struct BankArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Join(JoinArgs),
}

const EXAMPLES: &str = "Examples:
  s2m mine mnist-even --range 0..524288 --out pieces/0
  s2m mine mnist-even --range 524288..1048576 --out pieces/1
  s2m bank join pieces --out bank

The pieces stay as they are, and share their files with the bank where the file system can.";

/// Make one bank of pieces that were mined apart with `s2m mine --range`
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
struct JoinArgs {
    /// Folders of the pieces, in any order, or one folder that holds them
    #[arg(value_name = "PIECE", required = true)]
    pieces: Vec<PathBuf>,

    /// Folder of the bank
    #[arg(long, value_name = "BANK")]
    out: PathBuf,

    /// Replace a bank that is there
    #[arg(long)]
    force: bool,

    #[command(flatten)]
    talk: TalkOptions,
}

pub(crate) fn run(args: &BankArgs, streams: &mut Streams<'_>) -> Result<Answer> {
    let What::Join(args) = &args.what;
    let existing = if args.force {
        Existing::Replace
    } else {
        Existing::Keep
    };
    let joined = join(&args.pieces, &args.out, existing)?;
    if args.talk.json {
        print_json(&joined, streams)?;
    } else {
        writeln!(streams.out, "{}", args.out.display())?;
    }
    if !args.talk.quiet {
        writeln!(
            streams.err,
            "{} proposals of {} pieces in {} parts",
            joined.proposals, joined.pieces, joined.parts
        )?;
    }
    Ok(Answer::Yes)
}
