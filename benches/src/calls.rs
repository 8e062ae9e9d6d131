//! How many generator calls does a sample cost, against the paper's 400?

use std::num::NonZeroUsize;
use std::path::Path;

use anyhow::{Context as _, Result};
use s2m::output::Existing;
use s2m::progress::Silent;
use s2m::sample::{Request, Wanted, sample};
use s2m::session::Machine;
use s2m::settings::SampleSettings;

use crate::say;

pub(crate) fn run() -> Result<()> {
    say(
        "calls: gaussians-exact, n = 10000, reject at TV <= 0.01 (the paper spends 400 calls per sample)",
    );
    let folder = tempfile::tempdir()?;
    for query in ["A", "A - B", "A + B"] {
        let out = folder.path().join("out");
        let request = Request {
            model: Path::new("gaussians-exact"),
            wanted: Wanted::Query(query),
            samples: NonZeroUsize::new(10_000).context("not zero")?,
            settings: SampleSettings {
                seed: Some(7),
                ..SampleSettings::default()
            },
            machine: Machine::default(),
            bank: None,
            proposal: None,
            out: &out,
            existing: Existing::Replace,
        };
        let report = sample(&request, &Silent)?.remove(0)?;
        let bound = report
            .tv_bound
            .map_or("none".to_owned(), |b| format!("{b:.4}"));
        let wanted = if query == "A + B" {
            ", wanted at most 8"
        } else {
            ""
        };
        say(&format!(
            "  {query:<6} {:.2} calls per sample{wanted}; TV bound {bound}; {:.2} s",
            report.calls_per_sample, report.seconds
        ));
    }
    Ok(())
}
