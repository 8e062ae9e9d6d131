//! How fast are decisions alone, out of a bank of a million proposals with three labels?

use std::num::NonZeroUsize;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result};
use s2m::draw::draw;
use s2m::mine;
use s2m::models;
use s2m::progress::Silent;
use s2m::session::{Machine, Session};
use s2m::settings::SampleSettings;
use s2m_core::query::Query;
use s2m_core::samplers::Goal;
use s2m_model::bundle;
use s2m_testkit::linear::linear;

use crate::{peak_memory, say};

const PROPOSALS: usize = 1_000_000;
const SAMPLES: usize = 10_000;

/// Mines the bank here, then measures decisions in a process of their own.
pub(crate) fn run() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (model, bank) = (folder.path().join("linear.s2m"), folder.path().join("bank"));
    bundle::write(&model, &linear(3))?;
    let request = mine::Request {
        model: &model,
        proposals: NonZeroUsize::new(PROPOSALS).context("not zero")?,
        piece: mine::Piece::default(),
        seed: 1,
        machine: Machine::default(),
        out: &bank,
    };
    mine::mine(&request, &Silent)?;
    say(
        "decisions: bank of 1000000 proposals, 3 labels, 10000 samples of each of the 7 joint classes",
    );
    let status = Command::new(std::env::current_exe()?)
        .arg("decide")
        .args([&model, &bank])
        .status()?;
    anyhow::ensure!(status.success(), "the measurement failed");
    Ok(())
}

pub(crate) fn decide(model: &Path, bank: &Path) -> Result<()> {
    let bundle = models::open(model)?;
    let settings = SampleSettings::default();
    let session = Session::open(&bundle, &Machine::default(), &settings, Some(bank))?;
    let mut times = Vec::new();
    for _ in 0..5 {
        let started = Instant::now();
        let mut pool = session.shared_pool(None)?;
        for query in Query::all_joint(bundle.labels()) {
            let mut target = session.plan_shared(&session.weigh(&query)?, &mut pool, &Silent)?;
            let goal = Goal {
                samples: NonZeroUsize::new(SAMPLES).context("not zero")?,
                max_calls: PROPOSALS,
            };
            let drawn = draw(&mut pool, &mut target, settings.sampler, goal, &Silent)?;
            anyhow::ensure!(drawn.outcome?.samples == SAMPLES, "all samples were found");
        }
        times.push(started.elapsed().as_secs_f64());
    }
    times.sort_by(f64::total_cmp);
    say(&format!(
        "  {:.2} s in all (median of 5; {:.2} to {:.2}), wanted under 2",
        times[2], times[0], times[4]
    ));
    say(&format!(
        "  peak memory {:.0} MB, wanted under 300",
        peak_memory()?
    ));
    Ok(())
}
