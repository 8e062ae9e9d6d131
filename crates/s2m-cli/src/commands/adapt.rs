//! `s2m adapt`: learn where a generator makes a rare combination, and keep it.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use s2m::Error;
use s2m::adapt::{DEFAULT_SAMPLES, Record, Request, adapt};
use s2m::output::Existing;
use s2m::typed::Typed;

use super::{Answer, print_json};
use crate::bars::Bars;
use crate::options::{AdaptName, AdaptOptions, MachineOptions, TalkOptions, WeighOptions, count};
use crate::streams::Streams;
use crate::table::table;

const EXAMPLES: &str = "Examples:
  s2m adapt faces.s2m \"Bald + Smiling - Male\" --out bald
  s2m sample faces.s2m \"Bald + Smiling - Male\" -n 1000 --proposal bald --out out
  s2m adapt faces.s2m \"Bald + Smiling - Male\" --adapt repeat --order \"Bald, Smiling, -Male\" --out bald

The proposal is good for any query of the same generator; it only saves calls for the one it was made for
and for queries near it.";

/// Learn where the generator makes a combination, and keep it for sampling
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct AdaptArgs {
    /// Bundle folder, or the name of an embedded model
    #[arg(value_name = "MODEL")]
    model: PathBuf,

    /// What items will have to satisfy
    #[arg(value_name = "QUERY", allow_hyphen_values = true)]
    query: String,

    /// Folder for the proposal
    #[arg(long, value_name = "DIR")]
    out: PathBuf,

    /// Replace what the folder holds
    #[arg(long)]
    force: bool,

    /// How to adapt
    #[arg(long, value_enum, value_name = "METHOD", default_value_t = AdaptName::Adaptive)]
    adapt: AdaptName,

    #[arg(short = 'n', long = "samples", value_name = "N", value_parser = count, help = format!(
        "Items that it will be used for: how much search pays off [default: {DEFAULT_SAMPLES}]"
    ))]
    samples: Option<NonZeroUsize>,

    /// Seed of the proposals
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,

    /// Most proposals to score
    #[arg(long, value_name = "N", value_parser = count)]
    max_calls: Option<NonZeroUsize>,

    #[command(flatten)]
    adapting: AdaptOptions,

    #[command(flatten)]
    weigh: WeighOptions,

    #[command(flatten)]
    machine: MachineOptions,

    #[command(flatten)]
    talk: TalkOptions,
}

pub(crate) fn run(args: &AdaptArgs, streams: &mut Streams<'_>) -> Result<Answer> {
    let mut typed = Typed {
        seed: Some(args.seed),
        max_calls: args.max_calls,
        ..Typed::default()
    };
    args.weigh.add_to(&mut typed);
    args.adapting.add_to(&mut typed, args.adapt);
    let request = Request {
        model: &args.model,
        query: &args.query,
        samples: args.samples.unwrap_or(DEFAULT_SAMPLES),
        settings: typed.settings()?,
        machine: args.machine.machine(),
        out: &args.out,
        existing: if args.force {
            Existing::Replace
        } else {
            Existing::Keep
        },
    };
    let bars = Bars::new(args.talk.quiet);
    let stored = adapt(&request, &bars);
    drop(bars);
    let stored = match stored {
        Err(Error::Refused(refusal)) => {
            writeln!(streams.err, "no proposal for {refusal}")?;
            return Ok(Answer::No);
        }
        stored => stored?,
    };
    let record = &stored.about.adaptation;
    if args.talk.json {
        print_json(&stored.about, streams)?;
    } else {
        writeln!(streams.out, "{}", args.out.display())?;
    }
    if !args.talk.quiet {
        tell_stages(record, streams)?;
        for warning in record.warnings() {
            writeln!(streams.err, "  warning: {warning}")?;
        }
    }
    Ok(Answer::Yes)
}

/// Tells what each stage showed.
pub(crate) fn tell_stages(record: &Record, streams: &mut Streams<'_>) -> Result<()> {
    let heading = [
        "stage",
        "drawn from",
        "query",
        "calls",
        "in support",
        "effective",
        "acceptance",
        "calls per sample",
    ];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    rows.extend(record.stages.iter().map(|stage| {
        vec![
            stage.stage.to_string(),
            stage.drawn_from.clone(),
            stage.query.clone(),
            stage.proposals.to_string(),
            stage.supported.to_string(),
            format!("{:.0}", stage.effective),
            format!("{:.4}", stage.acceptance),
            stage
                .calls_per_sample
                .map_or("-".to_owned(), |calls| format!("{calls:.1}")),
        ]
    }));
    for line in table(&rows).lines() {
        writeln!(streams.err, "  {line}")?;
    }
    let proposal = match &record.proposal {
        Some(p) => format!(
            "{} components with {} covariance in {} dimensions, {:.0} % prior",
            p.components,
            p.covariance,
            p.size,
            100.0 * p.prior_share
        ),
        None => "the prior itself".to_owned(),
    };
    writeln!(
        streams.err,
        "  adapted with {} calls, {}: {proposal}",
        record.calls, record.stopped
    )?;
    Ok(())
}
