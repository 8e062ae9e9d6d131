//! Scores proposals once and asks two queries of them.
//!
//! `cargo run --release -p s2m --example bank`

use std::error::Error;
use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::path::Path;

use s2m::Model;
use s2m::mine::{self, mine};
use s2m::progress::Silent;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::temp_dir().join(format!("s2m-example-bank-{}", std::process::id()));
    let done = run(&folder, &mut io::stdout());
    std::fs::remove_dir_all(&folder)?;
    done
}

/// Keeps the bank in a folder.
pub(crate) fn run(folder: &Path, out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let model = Model::open("gaussians-exact")?;
    let bank = mine::Request {
        model: Path::new("gaussians-exact"),
        proposals: NonZeroUsize::new(20_000).ok_or("20,000 is not zero")?,
        piece: mine::Piece::default(),
        seed: 0,
        machine: model.machine(),
        out: folder,
    };
    let mined = mine(&bank, &Silent)?;
    writeln!(out, "{} proposals in the bank", mined.proposals)?;
    for query in ["A - B", "A | B"] {
        let report = model.query(query)?.bank(folder).draw(1000)?.report;
        writeln!(
            out,
            "{query}: {} items, {} of {} proposals from the bank",
            report.samples, report.from_bank, report.generator_calls
        )?;
    }
    Ok(())
}
