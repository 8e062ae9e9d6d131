//! `s2m calibrate`: a bundle's calibration from held-out items.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum};
use s2m_calibrate::found::{Found, JointClass};
use s2m_calibrate::{CalibrationSettings, LabelWeightsChoice, PAGE};
use s2m_fit::calibrate::{Request, request};

use super::{Answer, print_json};
use crate::bars::Bars;
use crate::options::{MachineOptions, TalkOptions};
use crate::streams::Streams;
use crate::table::{percent, table};

const EXAMPLES: &str = "Examples:
  s2m calibrate pets.s2m --data pets
  s2m calibrate pets.s2m --data pets --audit checked --purity 0.95
  s2m calibrate mnist-even --data mnist-even.toml --out mine.s2m

Held-out items with one label each decide temperatures, how the discriminator is corrected and tempered,
and, with generated ones, floors; `s2m fit` has done it once. The report is kept in the bundle, as
calibration.html and calibration.json. An audit is a table of items with every label known: it corrects
the purity that is predicted. Banks stay good.";

/// Calibrate a bundle from held-out items with one label each
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CalibrateArgs {
    /// Bundle to calibrate, in place unless --out is given
    model: PathBuf,

    /// Data that it was fitted to: a folder of images with labels, or a recipe (.toml)
    #[arg(long, value_name = "PATH")]
    data: PathBuf,

    /// None of the data was trained on: use all of it, not just what training held out
    #[arg(long)]
    unseen: bool,

    /// Items with every label known, in the same forms as the data
    #[arg(long, value_name = "PATH")]
    audit: Option<PathBuf>,

    /// Bundle to write
    #[arg(long, value_name = "NAME.s2m")]
    out: Option<PathBuf>,

    /// Replace a bundle of that name
    #[arg(long)]
    force: bool,

    #[command(flatten)]
    choice: ChoiceOptions,

    #[command(flatten)]
    machine: MachineOptions,

    #[command(flatten)]
    talk: TalkOptions,
}

/// How the calibration is chosen.
#[derive(Debug, Args)]
#[command(next_help_heading = "Choice")]
struct ChoiceOptions {
    /// Predicted purity that floors bring every reachable joint class to, at least
    #[arg(long, value_name = "P", default_value_t = CalibrationSettings::default().purity)]
    purity: f64,

    /// For experts: exclusion margins, by the largest share of held-out items with an excluded label that
    /// may get weight; larger, with a warning, where it would leave too few items [default: no margins]
    #[arg(long, value_name = "D")]
    exclusion_error: Option<f64>,

    /// Share of generated items that rejection accepts by the discriminator alone, down to which likeness to real
    /// ones is paid for: 0.5 doubles the calls [default: the knee]
    #[arg(long, value_name = "S", conflicts_with = "least_effective_share")]
    likeness: Option<f64>,

    /// In the place of likeness: share of every class's effective sample size that the discriminator must leave
    #[arg(long, value_name = "S")]
    least_effective_share: Option<f64>,

    /// Largest floor
    #[arg(long, value_name = "T", default_value_t = CalibrationSettings::default().highest_floor)]
    highest_floor: f64,

    /// Share of a class's effective items that its margin and floor leave; 0 to hold on to both
    #[arg(long, value_name = "S", default_value_t = CalibrationSettings::default().least_kept)]
    least_kept: f64,

    /// Label weights or class priors: as the bundle states them, or as items with two labels show them
    #[arg(long, value_enum, default_value_t = WeightsName::Stated)]
    label_weights: WeightsName,

    /// Fresh generated items to measure [default: by their size]
    #[arg(long, value_name = "N")]
    generated: Option<u64>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum WeightsName {
    Stated,
    Estimated,
}

pub(crate) fn run(args: &CalibrateArgs, streams: &mut Streams<'_>) -> Result<Answer> {
    let choice = &args.choice;
    let asked = Request {
        model: &args.model,
        data: &args.data,
        audit: args.audit.as_deref(),
        out: args.out.as_deref(),
        replace: args.force,
        all_held_out: args.unseen,
        settings: CalibrationSettings {
            purity: choice.purity,
            exclusion_error: choice.exclusion_error,
            likeness: choice.likeness,
            least_effective_share: choice.least_effective_share,
            highest_floor: choice.highest_floor,
            least_kept: choice.least_kept,
            label_weights: match choice.label_weights {
                WeightsName::Stated => LabelWeightsChoice::Stated,
                WeightsName::Estimated => LabelWeightsChoice::Estimated,
            },
            generated: choice.generated,
        },
        machine: args.machine.machine(),
    };
    let bars = Bars::new(args.talk.quiet);
    let done = request(&asked, &bars)?;
    drop(bars);
    if args.talk.json {
        print_json(&done.found, streams)?;
        return Ok(Answer::Yes);
    }
    if !args.talk.quiet {
        say(&done.found, streams)?;
    }
    writeln!(streams.err, "see {}", done.bundle.join(PAGE).display())?;
    writeln!(streams.out, "{}", done.bundle.display())?;
    Ok(Answer::Yes)
}

/// The figures that tell at a glance what a calibration is worth.
fn say(found: &Found, streams: &mut Streams<'_>) -> Result<()> {
    let real = &found.real;
    writeln!(
        streams.err,
        "real against generated: AUC {:.3} on held-out items, corrected by {}, temperature {:.2}, {}, mean distance of predicted and seen {}",
        real.auc,
        real.correction,
        real.by_likelihood,
        real.cap.map_or("odds not capped".to_owned(), |cap| format!(
            "odds capped at {cap:.2}"
        )),
        percent(real.after.error),
    )?;
    if let Some(likeness) = &found.likeness {
        writeln!(
            streams.err,
            "likeness: witnesses tell {:.3} without weights, {:.3} with them; the discriminator costs {:.1} times the calls ({}), {} of generated items lie outside the data",
            likeness.before[0],
            likeness.after[0],
            likeness.accepted_share.recip(),
            likeness.stopped,
            percent(found.way.outside.unwrap_or_default()),
        )?;
    }
    writeln!(
        streams.err,
        "class: temperature {:.2}, mean distance {}; mean largest probability {:.3} on real, {:.3} on generated items",
        found.class.temperature,
        percent(found.class_reliability.error),
        found.class_on_real.mean_largest_probability,
        found.class_on_generated.mean_largest_probability,
    )?;
    for warning in &found.warnings {
        writeln!(streams.err, "warning: {warning}")?;
    }
    let heads = [
        "query",
        "effective share",
        "floor",
        "predicted purity",
        "without floor",
        "in the data",
    ];
    let mut rows = vec![heads.map(str::to_owned).to_vec()];
    let share = |value: Option<f64>| value.map_or("-".to_owned(), percent);
    rows.extend(
        found
            .joint_classes
            .iter()
            .map(|(query, joint): (&String, &JointClass)| {
                vec![
                    query.clone(),
                    share(joint.effective_share.map(|shares| shares.used)),
                    format!("{:.3}", joint.floor),
                    share(joint.with_floor.map(|p| p.predicted_purity)),
                    share(joint.without_floor.map(|p| p.predicted_purity)),
                    joint
                        .presence
                        .as_ref()
                        .map_or("-".to_owned(), |found| found.verdict.clone()),
                ]
            }),
    );
    write!(streams.err, "{}", table(&rows))?;
    Ok(())
}
