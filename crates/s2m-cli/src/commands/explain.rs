//! `s2m explain`: why one proposal is kept or not.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use s2m::Error;
use s2m::explain::{Explained, Request, explain};
use s2m::settings::DEFAULT_TV;
use s2m::typed::Typed;

use super::{Answer, print_json};
use crate::bars::Bars;
use crate::options::{MachineOptions, TalkOptions, WeighOptions};
use crate::streams::Streams;
use crate::table::table;

const EXAMPLES: &str = "Examples:
  s2m explain gaussians-exact \"A - B\" --proposal 3
  s2m explain gaussians-exact \"A - B\" --proposal 3 --run out";

/// Show every step from one proposal's classifier answers to its fate
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ExplainArgs {
    /// Bundle folder, or the name of an embedded model
    #[arg(value_name = "MODEL")]
    model: PathBuf,

    /// What every item must satisfy
    #[arg(value_name = "QUERY", allow_hyphen_values = true)]
    query: String,

    /// The proposal's number, as in metadata.csv
    #[arg(long, value_name = "K")]
    proposal: u64,

    /// Output folder of `s2m sample`: its seed, settings and cap then hold
    #[arg(long, value_name = "DIR", conflicts_with_all = ["seed", "tv"])]
    run: Option<PathBuf>,

    /// Seed of the proposals
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,

    /// Distance from the target for which a short draw chooses the cap
    #[arg(long, value_name = "TV", default_value_t = DEFAULT_TV)]
    tv: f64,

    #[command(flatten)]
    weigh: WeighOptions,

    #[command(flatten)]
    machine: MachineOptions,

    #[command(flatten)]
    talk: TalkOptions,
}

pub(crate) fn run(args: &ExplainArgs, streams: &mut Streams<'_>) -> Result<Answer> {
    let mut typed = Typed {
        seed: Some(args.seed),
        tv: Some(args.tv),
        ..Typed::default()
    };
    args.weigh.add_to(&mut typed);
    let settings = typed.settings()?;
    settings.sampler.check()?;
    let request = Request {
        model: &args.model,
        query: &args.query,
        proposal: args.proposal,
        run: args.run.as_deref(),
        settings,
        machine: args.machine.machine(),
    };
    let bars = Bars::new(args.talk.quiet);
    let explained = explain(&request, &bars);
    drop(bars);
    match explained {
        Ok(explained) if args.talk.json => print_json(&explained, streams)?,
        Ok(explained) => show(&explained, streams)?,
        Err(Error::Refused(refusal)) => {
            writeln!(streams.err, "no samples for {refusal}")?;
            return Ok(Answer::No);
        }
        Err(error) => return Err(error.into()),
    }
    Ok(Answer::Yes)
}

fn show(e: &Explained, streams: &mut Streams<'_>) -> Result<()> {
    let line = |name: &str, value: String| vec![name.to_owned(), value];
    let list = |values: &[f64]| {
        values
            .iter()
            .map(|v| format!("{v:.4}"))
            .collect::<Vec<_>>()
            .join("  ")
    };
    let logits: Vec<f64> = e.class_logits.iter().map(|&v| f64::from(v)).collect();
    let mut rows = vec![
        line("proposal", format!("{} of seed {}", e.proposal, e.seed)),
        line("query", e.query.clone()),
    ];
    rows.extend(
        e.class
            .as_ref()
            .map(|class| line("class asked for", class.clone())),
    );
    rows.extend([
        line("class logits", list(&logits)),
        line("class probabilities", list(&e.class_probabilities)),
        line("levels", list(&e.levels)),
    ]);
    for set in &e.sets {
        let holds = if set.holds { "holds" } else { "does not hold" };
        rows.push(line(
            &format!("  {{{}}}", set.labels.join(", ")),
            format!("density {:.4}, the query {holds}", set.density),
        ));
    }
    rows.extend([
        line(
            "posterior of the query",
            format!(
                "{:.4} by {} (floor {:.4})",
                e.posterior, e.posterior_by, e.floor
            ),
        ),
        line("log density of the query", format!("{:.4}", e.log_density)),
        line("log odds real:generated", format!("{:.4}", e.log_odds)),
        line("log conditional term", format!("{:.4}", e.log_conditional)),
    ]);
    if e.log_latent_ratio != 0.0 {
        let ratio = format!("{:.4}", e.log_latent_ratio);
        rows.push(line("log prior over proposal", ratio));
    }
    rows.push(line("log weight", format!("{:.4}", e.log_weight)));
    if let (Some(log_cap), Some(acceptance)) = (e.log_cap, e.acceptance) {
        rows.extend([
            line("log cap", format!("{log_cap:.4}")),
            line("acceptance", format!("{acceptance:.4}")),
        ]);
        if let Some(claimed) = e.claimed {
            let range = format!("{claimed:.4} to {:.4}", claimed + acceptance);
            rows.push(line("uniform numbers of this query", range));
        }
        rows.push(line("its uniform number", format!("{:.4}", e.uniform)));
    }
    // Left-aligned values read better here than a table of numbers.
    let width = rows
        .iter()
        .map(|row| row[0].chars().count())
        .max()
        .unwrap_or(0);
    let padded: Vec<Vec<String>> = rows
        .into_iter()
        .map(|row| vec![format!("{:<width$}  {}", row[0], row[1])])
        .collect();
    write!(streams.out, "{}", table(&padded))?;
    writeln!(streams.out, "{}", e.verdict)?;
    Ok(())
}
