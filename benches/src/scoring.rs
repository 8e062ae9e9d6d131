//! How many proposals a second, against PyTorch eager and a bare ONNX Runtime loop?
//!
//! All sides run the same networks on the same two cores, one after the other, each at its own best
//! batch; five rounds, medians of the rates and of the ratios within a round.

use std::io::{BufRead as _, BufReader, Write as _};
use std::num::NonZeroUsize;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result};
use s2m_core::proposals::Proposals;
use s2m_model::bundle::Bundle;
use s2m_model::networks::{Requested, RunSettings, Scorer};
use s2m_model::runtime::Runtime;

use crate::say;

const THREADS: usize = 2;
const ROUNDS: usize = 5;

/// One pair of networks, the batches tried and the rate wanted against PyTorch.
struct Pair {
    name: &'static str,
    peer_batches: &'static [usize],
    our_batches: &'static [usize],
    seconds: f64,
    wanted: f64,
}

const PAIRS: [Pair; 2] = [
    Pair {
        name: "mlp-lenet",
        peer_batches: &[32, 128, 512, 2048],
        our_batches: &[32, 64, 128, 256, 512],
        seconds: 3.0,
        wanted: 1.3,
    },
    Pair {
        name: "biggan-mobilenet",
        peer_batches: &[8, 32],
        our_batches: &[2, 8, 16, 32],
        seconds: 6.0,
        wanted: 1.0,
    },
];

pub(crate) fn run(python: &Path, peer: &Path, networks: &Path) -> Result<()> {
    say(
        "scoring: proposals a second on 2 threads, each side at its own best batch, median of 5 rounds",
    );
    let runtime = Runtime::load(None)?;
    let mut peer = Peer::start(python, peer, networks)?;
    for pair in PAIRS {
        let bundle = Bundle::open(&networks.join(format!("{}.s2m", pair.name)))?;
        let torch = peer.best_batch("torch", &pair)?;
        let bare = peer.best_batch("onnxruntime", &pair)?;
        let ours = best_batch(&bundle, &runtime, &pair)?;
        let scorer = open(&bundle, &runtime, ours)?;
        let mut rounds = Vec::new();
        for _ in 0..ROUNDS {
            rounds.push([
                rate(&scorer, pair.seconds)?,
                peer.rate("torch", pair.name, torch, pair.seconds)?,
                peer.rate("onnxruntime", pair.name, bare, pair.seconds)?,
            ]);
        }
        let rates = |side: usize| median(rounds.iter().map(|r| r[side]).collect());
        let ratio = |side: usize| median(rounds.iter().map(|r| r[0] / r[side]).collect());
        say(&format!(
            "  {:<17} s2m {:.0} (batch {ours}), PyTorch {:.0} (batch {torch}), bare ONNX Runtime {:.0} (batch {bare})",
            pair.name,
            rates(0),
            rates(1),
            rates(2)
        ));
        say(&format!(
            "  {:<17} {:.2} of PyTorch, wanted {:.1}; {:.2} of bare ONNX Runtime, wanted 0.9",
            "",
            ratio(1),
            pair.wanted,
            ratio(2)
        ));
    }
    peer.stop()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn open(bundle: &Bundle, runtime: &Runtime, batch: usize) -> Result<Scorer> {
    let threads = NonZeroUsize::new(THREADS).context("not zero")?;
    let settings = RunSettings {
        threads,
        batch: NonZeroUsize::new(batch),
        ..RunSettings::default()
    };
    Ok(Scorer::open(bundle, runtime, &settings)?)
}

fn best_batch(bundle: &Bundle, runtime: &Runtime, pair: &Pair) -> Result<usize> {
    let mut best = (0.0, 0);
    for &batch in pair.our_batches {
        let found = rate(&open(bundle, runtime, batch)?, pair.seconds / 3.0)?;
        if found > best.0 {
            best = (found, batch);
        }
    }
    Ok(best.1)
}

/// Proposals a second, latents and all, in pieces of about a quarter of a second as `mine` has them.
fn rate(scorer: &Scorer, seconds: f64) -> Result<f64> {
    let mut first = 0;
    let mut step = |count: usize| -> Result<f64> {
        let numbers: Vec<u64> = (first..first + count as u64).collect();
        first += count as u64;
        let started = Instant::now();
        let requested = Requested {
            mixture: None,
            proposals: Proposals::new(0),
            numbers: &numbers,
            classes: &[],
        };
        scorer.score(requested)?;
        Ok(started.elapsed().as_secs_f64())
    };
    step(scorer.round())?;
    let rounds = (0.25 / step(scorer.round())?).max(1.0) as usize;
    let (mut done, mut taken) = (0, 0.0);
    while taken < seconds {
        taken += step(rounds * scorer.round())?;
        done += rounds * scorer.round();
    }
    Ok(done as f64 / taken)
}

/// The Python side, answering one request at a time.
struct Peer {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Peer {
    fn start(python: &Path, script: &Path, networks: &Path) -> Result<Self> {
        let mut child = Command::new(python)
            .arg(script)
            .arg("serve")
            .arg(networks)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = child.stdin.take().context("the peer has an input")?;
        let output = BufReader::new(child.stdout.take().context("the peer has an output")?);
        Ok(Self {
            child,
            input,
            output,
        })
    }

    fn rate(&mut self, side: &str, net: &str, batch: usize, seconds: f64) -> Result<f64> {
        writeln!(self.input, "{side} {net} {batch} {seconds}")?;
        self.input.flush()?;
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        let answer: serde_json::Value =
            serde_json::from_str(&line).with_context(|| line.clone())?;
        answer["proposals_per_second"]
            .as_f64()
            .with_context(|| line)
    }

    fn best_batch(&mut self, side: &str, pair: &Pair) -> Result<usize> {
        let mut best = (0.0, 0);
        for &batch in pair.peer_batches {
            let found = self.rate(side, pair.name, batch, pair.seconds / 3.0)?;
            if found > best.0 {
                best = (found, batch);
            }
        }
        Ok(best.1)
    }

    fn stop(mut self) -> Result<()> {
        writeln!(self.input, "quit")?;
        drop(self.input);
        self.child.wait()?;
        Ok(())
    }
}
