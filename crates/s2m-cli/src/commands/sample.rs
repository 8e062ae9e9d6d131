//! `s2m sample`: draw items for a query, or for every joint class.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Args, ValueEnum};
use s2m::output::Existing;
use s2m::report::Report;
use s2m::sample::{Request, Wanted, sample};
use s2m::settings::{ClassChoice, DEFAULT_TV, SampleSettings, SamplerChoice};

use super::{Answer, print_json};
use crate::bars::Bars;
use crate::options::{MachineOptions, TalkOptions, WeighOptions};
use crate::streams::Streams;

const EXAMPLES: &str = "Examples:
  s2m sample gaussians-exact \"A + B\" -n 1000 --out out
  s2m sample faces.s2m \"Black_Hair + Smiling - Male\" -n 64 --out faces
  s2m sample faces.s2m \"(Smiling | Young) - Male\" --purity 0.9 --out faces
  s2m sample faces.s2m Smiling --sampler mh --steps 100 --out paper
  s2m sample faces.s2m --all-joint -n 1000 --out balanced --bank bank

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
    #[arg(short = 'n', long = "samples", value_name = "N", default_value = "16")]
    samples: NonZeroUsize,

    /// Folder for the items, their table and the report
    #[arg(long, value_name = "DIR")]
    out: PathBuf,

    /// Replace what the folder holds
    #[arg(long)]
    force: bool,

    /// Sampler
    #[arg(long, value_enum, default_value_t = SamplerName::Reject)]
    sampler: SamplerName,

    /// Distance from the target in total variation, for `reject` and for automatic steps of `mh`
    #[arg(long, value_name = "TV", default_value_t = DEFAULT_TV)]
    tv: f64,

    /// Steps per item for `mh` [default: as many as --tv needs]
    #[arg(long, value_name = "K")]
    steps: Option<NonZeroUsize>,

    /// Refuse to take a proposal twice, for `resample`
    #[arg(long)]
    unique: bool,

    /// Seed; the same seed, device and versions give the same items [default: 0, or the bank's]
    #[arg(long, value_name = "S")]
    seed: Option<u64>,

    /// Bank of scored proposals to draw from
    #[arg(long, value_name = "BANK")]
    bank: Option<PathBuf>,

    /// Most proposals to score [default: 2000 per item]
    #[arg(long, value_name = "N")]
    max_calls: Option<NonZeroUsize>,

    /// Class asked of a conditional generator where several would do
    #[arg(long, value_enum, default_value_t = ClassName::Best)]
    classes: ClassName,

    /// Write the latents too
    #[arg(long)]
    latents: bool,

    #[command(flatten)]
    weigh: WeighOptions,

    #[command(flatten)]
    machine: MachineOptions,

    #[command(flatten)]
    talk: TalkOptions,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum SamplerName {
    /// Independent items within a stated distance of the target
    Reject,
    /// The paper's Metropolis-Hastings
    Mh,
    /// Systematic resampling out of one pool
    Resample,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ClassName {
    Best,
    First,
}

impl SampleArgs {
    fn sampler(&self) -> Result<SamplerChoice> {
        if let (Some(_), SamplerName::Reject | SamplerName::Resample) = (self.steps, self.sampler) {
            anyhow::bail!("--steps is for --sampler mh");
        }
        if self.unique && self.sampler != SamplerName::Resample {
            anyhow::bail!("--unique is for --sampler resample");
        }
        Ok(match (self.sampler, self.steps) {
            (SamplerName::Reject, _) => SamplerChoice::Reject { tv: self.tv },
            (SamplerName::Mh, Some(steps)) => SamplerChoice::Mh { steps },
            (SamplerName::Mh, None) => SamplerChoice::MhAuto { tv: self.tv },
            (SamplerName::Resample, _) => SamplerChoice::Resample {
                unique: self.unique,
            },
        })
    }

    fn settings(&self) -> Result<SampleSettings> {
        Ok(SampleSettings {
            seed: self.seed,
            sampler: self.sampler()?,
            max_calls: self.max_calls.map(NonZeroUsize::get),
            density: self.weigh.density(),
            calibration: self.weigh.calibration(),
            overrides: self.weigh.overrides(),
            classes: match self.classes {
                ClassName::Best => ClassChoice::Best,
                ClassName::First => ClassChoice::First,
            },
            latents: self.latents,
        })
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
        match (args.all_joint, reports.as_slice()) {
            (false, [report]) => print_json(report, streams)?,
            (false, _) => {}
            (true, reports) => print_json(&reports, streams)?,
        }
    } else if !reports.is_empty() {
        writeln!(streams.out, "{}", args.out.display())?;
    }
    for answer in &answers {
        match answer {
            Ok(report) if !args.talk.quiet => tell(report, &args.out, streams)?,
            Ok(_) => {}
            Err(refusal) => writeln!(streams.err, "no samples for {refusal}")?,
        }
    }
    let complete = answers.iter().all(Result::is_ok);
    Ok(if complete { Answer::Yes } else { Answer::No })
}

fn tell(report: &Report, out: &Path, streams: &mut Streams<'_>) -> Result<()> {
    let bound = match (report.tv_bound, report.tv_estimate) {
        (Some(bound), _) => format!("within TV {bound:.4} of the target"),
        (None, Some(estimate)) => format!("TV estimated at {estimate:.4}, no bound"),
        (None, None) => "no error bound".to_owned(),
    };
    writeln!(
        streams.err,
        "{}: {} items, {:.1} generator calls each, {bound}, predicted purity {:.1} % ({:.1} s) in {}",
        report.query,
        report.samples,
        report.calls_per_sample,
        100.0 * report.predicted_purity,
        report.seconds,
        out.display()
    )?;
    for warning in &report.warnings {
        writeln!(streams.err, "  warning: {warning}")?;
    }
    Ok(())
}
