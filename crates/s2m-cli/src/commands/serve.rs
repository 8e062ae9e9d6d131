//! `s2m serve`: a page on which a model is asked and its samples are looked at.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use s2m_serve::{Request, Server};

use super::Answer;
use crate::options::MachineOptions;
use crate::streams::Streams;

const EXAMPLES: &str = "Examples:
  s2m serve
  s2m serve fmnist-even --port 8642
  s2m serve faces.s2m --bank bank --device cuda

Open the address that is printed; it holds a token, without which nothing is answered. Only programs on this
machine can reach it. Ctrl-C ends it.";

/// Serve a page on the loopback address: ask, see samples as they are accepted, and why
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ServeArgs {
    /// Bundle folder, or the name of an embedded model
    #[arg(value_name = "MODEL", default_value = "mnist-even")]
    model: PathBuf,

    /// Port on 127.0.0.1 [default: a free one]
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,

    /// Bank of scored proposals to draw from
    #[arg(long, value_name = "BANK")]
    bank: Option<PathBuf>,

    /// Say nothing but the address and errors
    #[arg(long, short)]
    quiet: bool,

    #[command(flatten)]
    machine: MachineOptions,
}

pub(crate) fn run(args: &ServeArgs, streams: &mut Streams<'_>) -> Result<Answer> {
    let server = Server::open(&Request {
        model: &args.model,
        bank: args.bank.as_deref(),
        port: args.port.unwrap_or(0),
        machine: args.machine.machine(),
    })?;
    writeln!(streams.out, "{}", server.address())?;
    streams.out.flush()?;
    if !args.quiet {
        writeln!(
            streams.err,
            "serving `{}` to this machine only; Ctrl-C ends it",
            args.model.display()
        )?;
    }
    server.run_until_interrupted()?;
    Ok(Answer::Yes)
}
