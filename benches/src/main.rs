//! Benchmarks by question; each prints what was measured beside what is wanted.
//!
//! `s2m-bench` asks all of them; `s2m-bench NAME …` asks one.

mod calls;
mod decisions;
mod decode;
mod metrics;
mod mixture;
mod scoring;

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};

const USAGE: &str = "usage: s2m-bench scoring PYTHON PEER.py NETWORKS | decisions | calls | metrics FOLDER WIDTH | mixture FOLDER SIZE STEPS | decode FOLDER";

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["scoring", python, peer, networks] => scoring::run(
            &PathBuf::from(python),
            &PathBuf::from(peer),
            &PathBuf::from(networks),
        ),
        ["decisions"] => decisions::run(),
        ["decide", model, bank] => decisions::decide(&PathBuf::from(model), &PathBuf::from(bank)),
        ["calls"] => calls::run(),
        ["decode", folder] => decode::run(&PathBuf::from(folder)),
        ["metrics", folder, width] => metrics::run(&PathBuf::from(folder), width.parse()?),
        ["mixture", folder, size, steps] => {
            mixture::run(&PathBuf::from(folder), size.parse()?, steps.parse()?)
        }
        _ => bail!("{USAGE}"),
    }
}

/// Prints one line of a benchmark.
#[expect(
    clippy::print_stdout,
    reason = "a benchmark's result is what it prints"
)]
pub(crate) fn say(line: &str) {
    println!("{line}");
}

/// Peak resident memory of this process in megabytes.
pub(crate) fn peak_memory() -> Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status
        .lines()
        .find(|l| l.starts_with("VmHWM"))
        .context("no VmHWM")?;
    let kilobytes: f64 = line
        .split_whitespace()
        .nth(1)
        .context("no number")?
        .parse()?;
    Ok(kilobytes / 1000.0)
}
