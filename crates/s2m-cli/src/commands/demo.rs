//! `s2m demo`: the main job on an embedded model whose truth is known.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use s2m_eval::demo::{Demo, Request, Row, demo};

use super::{Answer, print_json};
use crate::bars::Bars;
use crate::options::{MachineOptions, TalkOptions, count};
use crate::streams::Streams;
use crate::table::table;

/// Draw six queries from an embedded model and compare with the truth and the paper
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  s2m demo --out demo")]
pub(crate) struct DemoArgs {
    /// Folder for the images and the table
    #[arg(long, value_name = "DIR", default_value = "demo")]
    out: PathBuf,

    /// Items per query and sampler
    #[arg(
        short = 'n',
        long = "samples",
        value_name = "N",
        default_value = "10000",
        value_parser = count
    )]
    samples: NonZeroUsize,

    /// Seed of the proposals
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,

    #[command(flatten)]
    machine: MachineOptions,

    #[command(flatten)]
    talk: TalkOptions,
}

pub(crate) fn run(args: &DemoArgs, streams: &mut Streams<'_>) -> Result<Answer> {
    let request = Request {
        samples: args.samples,
        seed: args.seed,
        machine: args.machine.machine(),
        out: &args.out,
    };
    let bars = Bars::new(args.talk.quiet);
    let shown = demo(&request, &bars)?;
    drop(bars);
    if args.talk.json {
        print_json(&shown, streams)?;
    } else {
        show(&shown, streams)?;
    }
    Ok(Answer::Yes)
}

fn show(demo: &Demo, streams: &mut Streams<'_>) -> Result<()> {
    let heading = [
        "query",
        "sampler",
        "accuracy %",
        "(paper)",
        "high quality %",
        "(paper)",
        "std. dev.",
        "(paper)",
        "calls per sample",
        "TV bound",
    ];
    let [accuracy, quality, spread] = demo.ceiling;
    let perfect = [
        "perfect",
        "",
        &format!("{accuracy:.2}"),
        "",
        &format!("{quality:.2}"),
        "",
        &format!("{spread:.3}"),
        "",
        "",
        "",
    ];
    for model in &demo.models {
        let lines = demo.rows.iter().filter(|line| line.model == *model);
        let rows: Vec<Vec<String>> = std::iter::once(heading.map(str::to_owned).to_vec())
            .chain(lines.map(row))
            .chain([perfect.map(str::to_owned).to_vec()])
            .collect();
        if demo.models.len() > 1 {
            writeln!(streams.out, "{model}")?;
        }
        write!(streams.out, "{}", table(&rows))?;
    }
    writeln!(
        streams.err,
        "{} samples per line from `{}`; the paper's figures are means for trained networks (its table of the 2x16 Gaussians)",
        demo.samples,
        demo.models.join("`, `")
    )?;
    for picture in &demo.pictures {
        writeln!(streams.err, "image: {}", picture.display())?;
    }
    Ok(())
}

fn row(row: &Row) -> Vec<String> {
    let paper = |at: usize, digits: usize| {
        row.paper
            .map_or("-".to_owned(), |p| format!("{:.digits$}", p[at]))
    };
    vec![
        row.query.clone(),
        row.sampler.to_owned(),
        format!("{:.2}", row.accuracy),
        paper(0, 2),
        format!("{:.2}", row.high_quality),
        paper(1, 2),
        format!("{:.3}", row.spread),
        paper(2, 3),
        format!("{:.1}", row.calls_per_sample),
        row.tv_bound
            .map_or("-".to_owned(), |bound| format!("{bound:.4}")),
    ]
}
