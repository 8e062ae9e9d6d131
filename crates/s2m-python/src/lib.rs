//! The Python module `s2m._s2m`: models, draws and banks of the library, on NumPy arrays.
//!
//! What people see is in `python/s2m`; here nothing has a default and settings come as JSON, by the names of
//! the program's options. Python's lock is released while networks run.
//!
//! - [`model`]: a model, and what can be asked of it;
//! - [`draw`]: samples as arrays;
//! - [`watch`]: progress, and Ctrl-C.

#![allow(clippy::needless_pass_by_value, reason = "Python gives paths by value")]
#![allow(
    clippy::result_large_err,
    reason = "errors of the library become Python's at once"
)]

mod draw;
mod model;
mod watch;

use std::path::PathBuf;

use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use s2m::progress::Progress as _;
use s2m::typed::Typed;
use s2m_model::bank::{Bank, GoesOn, Joined, extend_while, join_while};
use serde::Serialize;

create_exception!(
    s2m,
    Error,
    PyException,
    "Why a request could not run: the words of the program, with a hint where there is a cure."
);
create_exception!(
    s2m,
    Refused,
    Error,
    "A query has no samples: the generator does not make them, or the calls are spent. An answer, and no fault."
);

/// An error of the library as Python's.
fn raised(error: &s2m::Error) -> PyErr {
    match error {
        s2m::Error::Refused(refusal) => Refused::new_err(refusal.to_string()),
        other => Error::new_err(other.to_string()),
    }
}

/// Anything else that has words.
fn told(error: impl ToString) -> PyErr {
    Error::new_err(error.to_string())
}

/// What something that can be serialised says, as JSON.
fn json(value: &impl Serialize) -> PyResult<String> {
    serde_json::to_string(value).map_err(told)
}

/// Names of the models inside the package.
#[pyfunction]
fn models() -> Vec<&'static str> {
    s2m::models::embedded_names().collect()
}

/// What a bank's description says, and how many proposals it holds, as JSON.
#[pyfunction]
fn bank_info(folder: PathBuf) -> PyResult<String> {
    let bank = Bank::open(&folder).map_err(told)?;
    let mut info = serde_json::to_value(bank.info()).map_err(told)?;
    info["proposals"] = bank.len().into();
    Ok(info.to_string())
}

/// Joins as long as Python waits for it; what was joined, as JSON.
fn watched(
    py: Python<'_>,
    work: impl FnOnce(GoesOn<'_>) -> Result<Joined, s2m_model::Error> + Send,
) -> PyResult<String> {
    let watch = watch::Watch::new(None);
    let joined = py.detach(|| {
        work(&|done| {
            watch.at(done);
            !watch.stopped()
        })
    });
    let joined = joined.map_err(|error| match error.kind() {
        s2m_model::Kind::Stopped => s2m::Error::Stopped,
        _ => s2m::Error::Model(error),
    });
    json(&watch.result(joined)?)
}

/// Makes a bank of pieces; what was joined, as JSON.
#[pyfunction]
fn join_banks(
    py: Python<'_>,
    pieces: Vec<PathBuf>,
    out: PathBuf,
    replace: bool,
) -> PyResult<String> {
    watched(py, |goes_on| {
        join_while(&pieces, &out, draw::existing(replace), goes_on)
    })
}

/// Adds pieces to a bank; what was added, as JSON.
#[pyfunction]
fn extend_bank(py: Python<'_>, bank: PathBuf, pieces: Vec<PathBuf>) -> PyResult<String> {
    watched(py, |goes_on| extend_while(&bank, &pieces, goes_on))
}

#[pymodule]
fn _s2m(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("PART", s2m_model::bank::PART)?;
    module.add("CALLS_PER_SAMPLE", s2m::settings::CALLS_PER_SAMPLE)?;
    module.add("SETTINGS", Typed::names())?;
    module.add("Error", module.py().get_type::<Error>())?;
    module.add("Refused", module.py().get_type::<Refused>())?;
    module.add_class::<model::Model>()?;
    module.add_class::<model::Stream>()?;
    module.add_class::<draw::Draw>()?;
    module.add_function(wrap_pyfunction!(models, module)?)?;
    module.add_function(wrap_pyfunction!(bank_info, module)?)?;
    module.add_function(wrap_pyfunction!(extend_bank, module)?)?;
    module.add_function(wrap_pyfunction!(join_banks, module)?)
}
