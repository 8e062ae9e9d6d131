//! `s2m classes`: what the generator reaches, joint class by joint class.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use s2m::classes::{DEFAULT_PROPOSALS, JointClass, Request, classes};
use s2m::typed::Typed;

use super::{Answer, print_json};
use crate::bars::Bars;
use crate::options::{AdaptName, AdaptOptions, MachineOptions, TalkOptions, WeighOptions, count};
use crate::streams::Streams;
use crate::table::{percent, table};

const EXAMPLES: &str = "Examples:
  s2m classes gaussians-exact
  s2m classes faces.s2m --bank bank --top 20
  s2m classes faces.s2m --adapt adaptive";

/// List every joint class: share, effective sample size, calls per sample, reachable or not
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ClassesArgs {
    /// Bundle folder, or the name of an embedded model
    #[arg(value_name = "MODEL")]
    model: PathBuf,

    /// Bank of scored proposals to look into
    #[arg(long, value_name = "BANK")]
    bank: Option<PathBuf>,

    #[arg(short = 'n', long = "proposals", value_name = "N", value_parser = count, help = format!(
        "Proposals to look at [default: all of the bank, or {DEFAULT_PROPOSALS}]"
    ))]
    proposals: Option<NonZeroUsize>,

    /// Show only the N largest classes; needed for more than 10 labels
    #[arg(long, value_name = "N", value_parser = count)]
    top: Option<NonZeroUsize>,

    /// Seed of the proposals [default: 0, or the bank's]
    #[arg(long, value_name = "S")]
    seed: Option<u64>,

    /// Also adapt to every class, and show what a sample costs then
    #[arg(long, value_enum, value_name = "METHOD", default_value_t = AdaptName::None)]
    adapt: AdaptName,

    #[command(flatten)]
    adapting: AdaptOptions,

    #[command(flatten)]
    weigh: WeighOptions,

    #[command(flatten)]
    machine: MachineOptions,

    #[command(flatten)]
    talk: TalkOptions,
}

pub(crate) fn run(args: &ClassesArgs, streams: &mut Streams<'_>) -> Result<Answer> {
    let mut typed = Typed {
        seed: args.seed,
        ..Typed::default()
    };
    args.weigh.add_to(&mut typed);
    args.adapting.add_to(&mut typed, args.adapt);
    let request = Request {
        model: &args.model,
        bank: args.bank.as_deref(),
        proposals: args.proposals.map(NonZeroUsize::get),
        top: args.top.map(NonZeroUsize::get),
        settings: typed.settings()?,
        machine: args.machine.machine(),
    };
    let bars = Bars::new(args.talk.quiet);
    let found = classes(&request, &bars)?;
    drop(bars);
    if args.talk.json {
        print_json(&found, streams)?;
        return Ok(Answer::Yes);
    }
    let mut heading = vec![
        "class",
        "share",
        "in support",
        "effective",
        "calls per sample",
        "reachable",
    ];
    let in_data = found.classes.iter().any(|class| class.in_data.is_some());
    if in_data {
        heading.push("in the data");
    }
    if args.adapt != AdaptName::None {
        heading.extend(["adapted calls per sample", "search"]);
    }
    let heading = heading.into_iter().map(str::to_owned).collect();
    let row = |class: &JointClass| row(class, [in_data, args.adapt != AdaptName::None]);
    let rows: Vec<Vec<String>> = std::iter::once(heading)
        .chain(found.classes.iter().map(row))
        .collect();
    write!(streams.out, "{}", table(&rows))?;
    if !args.talk.quiet {
        writeln!(
            streams.err,
            "{} of {} joint classes, from {} proposals, by the posterior `{}`",
            found.classes.len(),
            found.joint_classes,
            found.proposals,
            found.posterior
        )?;
        if let Some(reach) = found.reach {
            match reach.warning() {
                None => writeln!(streams.err, "{}", reach.in_words())?,
                Some(warning) => writeln!(streams.err, "warning: {warning}")?,
            }
        }
    }
    Ok(Answer::Yes)
}

/// The cells of a class, with its verdict and what adaptation makes of it where these are shown.
fn row(class: &JointClass, [in_data, adapts]: [bool; 2]) -> Vec<String> {
    let calls = |calls: Option<f64>| calls.map_or("-".to_owned(), |calls| format!("{calls:.1}"));
    let mut row = vec![
        class.query.clone(),
        percent(class.share),
        percent(class.support_share),
        format!("{:.0}", class.effective),
        calls(class.calls_per_sample),
        if class.reachable { "yes" } else { "no" }.to_owned(),
    ];
    if in_data {
        row.push(class.in_data.unwrap_or("-").to_owned());
    }
    if adapts {
        let adapted = class.adapted.as_ref();
        row.push(calls(adapted.and_then(|a| a.calls_per_sample)));
        row.push(adapted.map_or("-".to_owned(), |a| a.search_calls.to_string()));
    }
    row
}
