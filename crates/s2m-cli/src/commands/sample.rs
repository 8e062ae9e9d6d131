//! `s2m sample`: draw items for a query, or for every joint class.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use anyhow::Result;
use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Args, ValueEnum};
use s2m::output::Existing;
use s2m::report::Report;
use s2m::sample::{self, Request, Wanted, sample};
use s2m::samplers::{self, Details};
use s2m::settings::{CALLS_PER_SAMPLE, ClassChoice, DEFAULT_TV, MOVES_PER_RUNG, SampleSettings};
use s2m::typed::Typed;
use s2m_model::manifest::LabellingModel;
use serde::Serialize;

use super::adapt::tell_stages;
use super::{Answer, print_json};
use crate::bars::Bars;
use crate::options::{AdaptName, AdaptOptions, MachineOptions, TalkOptions, WeighOptions, count};
use crate::streams::Streams;

const EXAMPLES: &str = "Examples:
  s2m sample gaussians-exact \"A + B\" -n 1000 --out out
  s2m sample faces.s2m \"Black_Hair + Smiling - Male\" -n 64 --out faces
  s2m sample faces.s2m \"(Smiling | Young) - Male\" --purity 0.9 --out faces
  s2m sample faces.s2m Smiling --sampler mh --steps 100 --out paper
  s2m sample faces.s2m --all-joint -n 1000 --out balanced --bank bank
  s2m sample faces.s2m \"Bald + Smiling - Male\" -n 1000 --adapt adaptive --out rare
  s2m sample faces.s2m \"Bald + Smiling - Male\" -n 1000 --adapt adaptive --tv 0.1 --moves 20 --out rare
  s2m sample faces.s2m \"Bald + Smiling - Male\" -n 1000 --sampler smc --out rare

Queries:
  A + B, A & B, A and B   both            A - B           A and not B
  A | B, A or B           either          !A, ~A, not A   not A
  ( )                     grouping        \"Black-hair\"    a name with other characters";

/// Draw items that show some labels and not others
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag that a person types"
)]
pub(crate) struct SampleArgs {
    /// Bundle folder, or the name of an embedded model
    #[arg(value_name = "MODEL")]
    model: PathBuf,

    /// What every item must satisfy
    #[arg(
        value_name = "QUERY",
        required_unless_present = "all_joint",
        allow_hyphen_values = true
    )]
    query: Option<String>,

    /// Draw N items of every joint class instead
    #[arg(long, conflicts_with = "query")]
    all_joint: bool,

    /// Number of items
    #[arg(short = 'n', long = "samples", value_name = "N", default_value = "16", value_parser = count)]
    samples: NonZeroUsize,

    /// Folder for the items, their table and the report
    #[arg(long, value_name = "DIR")]
    out: PathBuf,

    /// Replace what the folder holds
    #[arg(long)]
    force: bool,

    /// Sampler
    #[arg(long, default_value = samplers::NAMES[0].0, value_parser = sampler_names())]
    sampler: String,

    #[arg(long, value_name = "TV", help = format!(
        "Distance from the target in total variation, for `reject` and automatic steps of `mh` [default: {DEFAULT_TV}]"
    ))]
    tv: Option<f64>,

    /// Steps per item for `mh` [default: as many as --tv needs]
    #[arg(long, value_name = "K", value_parser = count)]
    steps: Option<NonZeroUsize>,

    /// Refuse to take a proposal twice, for `resample`
    #[arg(long)]
    unique: bool,

    #[arg(long, value_name = "N", value_parser = count, help = format!(
        "Steps along the gradient that each item takes after it was drawn; the target stays what it is. For `smc`, steps on every rung [default there: {MOVES_PER_RUNG}]"
    ))]
    moves: Option<NonZeroUsize>,

    /// Seed; the same seed, device and versions give the same items [default: 0, or the bank's]
    #[arg(long, value_name = "S")]
    seed: Option<u64>,

    /// Bank of scored proposals to draw from
    #[arg(long, value_name = "BANK")]
    bank: Option<PathBuf>,

    #[arg(long, value_name = "N", value_parser = count, help = format!(
        "Most proposals to score [default: {CALLS_PER_SAMPLE} per item]"
    ))]
    max_calls: Option<NonZeroUsize>,

    /// Classes asked of a conditional generator where several would do
    #[arg(long, value_enum, default_value_t = ClassName::Best)]
    classes: ClassName,

    /// Write the latents too
    #[arg(long)]
    latents: bool,

    /// First learn where the generator makes the query, for rare combinations
    #[arg(long, value_enum, value_name = "METHOD", default_value_t = AdaptName::None)]
    adapt: AdaptName,

    /// Draw from a proposal that `s2m adapt` has kept
    #[arg(long, value_name = "DIR")]
    proposal: Option<PathBuf>,

    #[command(flatten)]
    adapting: AdaptOptions,

    #[command(flatten)]
    weigh: WeighOptions,

    #[command(flatten)]
    machine: MachineOptions,

    #[command(flatten)]
    talk: TalkOptions,
}

/// Samplers, as the library lists them.
fn sampler_names() -> PossibleValuesParser {
    samplers::NAMES
        .map(|(name, help)| PossibleValue::new(name).help(help))
        .into()
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ClassName {
    /// All of them, or one that a short trial finds clearly ahead
    Best,
    /// The first alone
    First,
}

impl SampleArgs {
    fn settings(&self) -> Result<SampleSettings> {
        let mut typed = Typed {
            seed: self.seed,
            sampler: Some(self.sampler.clone()),
            tv: self.tv,
            steps: self.steps,
            unique: self.unique,
            moves: self.moves,
            max_calls: self.max_calls,
            classes: Some(match self.classes {
                ClassName::Best => ClassChoice::Best,
                ClassName::First => ClassChoice::First,
            }),
            latents: self.latents,
            ..Typed::default()
        };
        self.weigh.add_to(&mut typed);
        self.adapting.add_to(&mut typed, self.adapt);
        Ok(typed.settings()?)
    }
}

pub(crate) fn run(args: &SampleArgs, streams: &mut Streams<'_>) -> Result<Answer> {
    let request = Request {
        model: &args.model,
        wanted: args
            .query
            .as_deref()
            .map_or(Wanted::AllJoint, Wanted::Query),
        samples: args.samples,
        settings: args.settings()?,
        machine: args.machine.machine(),
        bank: args.bank.as_deref(),
        proposal: args.proposal.as_deref(),
        out: &args.out,
        existing: if args.force {
            Existing::Replace
        } else {
            Existing::Keep
        },
    };
    let bars = Bars::new(args.talk.quiet);
    let answers = sample(&request, &bars)?;
    drop(bars);
    let reports: Vec<&Report> = answers
        .iter()
        .filter_map(|answer| answer.as_ref().ok())
        .collect();
    if args.talk.json {
        let answers: Vec<Printed<'_>> = answers.iter().map(Printed::from).collect();
        match (args.all_joint, answers.as_slice()) {
            (false, [answer]) => print_json(answer, streams)?,
            (_, answers) => print_json(&answers, streams)?,
        }
    } else if !reports.is_empty() {
        writeln!(streams.out, "{}", args.out.display())?;
    }
    for answer in &answers {
        match answer {
            Ok(report) if !args.talk.quiet => tell(report, streams)?,
            Ok(_) => {}
            Err(refusal) => writeln!(streams.err, "no samples for {refusal}")?,
        }
    }
    let complete = answers.iter().all(Result::is_ok);
    Ok(if complete { Answer::Yes } else { Answer::No })
}

/// One answer as JSON: the report, or why there are no samples.
#[derive(Serialize)]
#[serde(untagged)]
enum Printed<'a> {
    Report(&'a Report),
    Refusal {
        query: &'a str,
        samples: usize,
        why: String,
        hint: &'a str,
    },
}

impl<'a> From<&'a sample::Answer> for Printed<'a> {
    fn from(answer: &'a sample::Answer) -> Self {
        match answer {
            Ok(report) => Self::Report(report),
            Err(refusal) => Self::Refusal {
                query: &refusal.query,
                samples: 0,
                why: refusal.failure.to_string(),
                hint: &refusal.advice,
            },
        }
    }
}

fn tell(report: &Report, streams: &mut Streams<'_>) -> Result<()> {
    let bound = match (report.tv_bound, report.tv_estimate) {
        (Some(bound), _) => format!("within TV {bound:.4} of the target"),
        (None, Some(estimate)) => format!("TV estimated at {estimate:.4}, no bound"),
        (None, None) => "no error bound".to_owned(),
    };
    let asked = report.asked_purity.map_or(String::new(), |asked| {
        let [low, high] = report.predicted_between;
        format!(
            " ({:.1} to {:.1} % at 95 %; {:.1} % was asked for)",
            100.0 * low,
            100.0 * high,
            100.0 * asked
        )
    });
    let among = match report.labelling {
        LabellingModel::OneOf => "",
        LabellingModel::PerClass => " of items with any label",
    };
    writeln!(
        streams.err,
        "{}: {} items, {:.1} generator calls each, {bound}, predicted purity {:.1} %{among}{asked} ({:.1} s)",
        report.query,
        report.samples,
        report.calls_per_sample,
        100.0 * report.predicted_purity,
        report.seconds
    )?;
    if let Some(moves) = &report.moves {
        writeln!(
            streams.err,
            "  moved {} steps each, {:.0} % of them taken; {} items stand where they stood, {} repeat another",
            moves.steps,
            100.0 * moves.acceptance,
            moves.unmoved,
            moves.duplicates
        )?;
    }
    if let Details::Smc {
        pool,
        ancestors,
        rungs,
    } = &report.details
    {
        writeln!(
            streams.err,
            "  {} from the prior to the target; the items come from {ancestors} of the first {pool} proposals",
            match rungs.len() {
                1 => "1 rung".to_owned(),
                rungs => format!("{rungs} rungs"),
            }
        )?;
    }
    if let Some(record) = &report.adaptation {
        tell_stages(record, streams)?;
    }
    for warning in &report.warnings {
        writeln!(streams.err, "  warning: {warning}")?;
    }
    Ok(())
}
