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
    give_memory_back();
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

/// Large buffers go back to the system when they are freed.
///
/// glibc raises the size from which they do with every one that is freed, up to 32 MiB. From then on they lie among the
/// small ones, and a process that draws for hours holds two to three times what it needs.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn give_memory_back() {
    use std::ffi::c_int;
    unsafe extern "C" {
        fn mallopt(parameter: c_int, value: c_int) -> c_int;
    }
    const TRIM_THRESHOLD: c_int = -1;
    const MMAP_THRESHOLD: c_int = -3;
    // What glibc starts with, in bytes.
    const SIZE: c_int = 128 << 10;
    // SAFETY: as in malloc.h; it takes two numbers, locks the allocator by itself, and refuses what it does not know.
    unsafe {
        mallopt(MMAP_THRESHOLD, SIZE);
        mallopt(TRIM_THRESHOLD, SIZE);
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn give_memory_back() {}
