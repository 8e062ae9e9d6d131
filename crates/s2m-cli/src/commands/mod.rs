//! One file per command: arguments, their meaning, one call, what to print.

pub(crate) mod adapt;
pub(crate) mod bank;
pub(crate) mod calibrate;
pub(crate) mod classes;
pub(crate) mod demo;
pub(crate) mod eval;
pub(crate) mod explain;
pub(crate) mod fit;
pub(crate) mod info;
pub(crate) mod mine;
pub(crate) mod reproduce;
pub(crate) mod sample;
pub(crate) mod serve;
pub(crate) mod train;

use anyhow::Result;
use serde::Serialize;

use crate::streams::Streams;

/// What a command that could run has to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Done.
    Yes,
    /// It ran, and the answer is no.
    No,
}

/// Prints a value as JSON on standard output.
pub(crate) fn print_json(value: &impl Serialize, streams: &mut Streams<'_>) -> Result<()> {
    writeln!(streams.out, "{}", serde_json::to_string_pretty(value)?)?;
    Ok(())
}
