//! ONNX files, checked on the spot: the file must say what libtorch says, to 1e-4.

use anyhow::{Context as _, Result, ensure};
use ort::session::Session;
use ort::value::{DynValue, Tensor as OrtTensor};
use s2m_model::onnx::half;
use s2m_model::runtime::Runtime;
use s2m_runs::parts::Stored;
use tch::{Device, Tensor};

/// Largest difference allowed between the file and libtorch.
pub const LIMIT: f64 = 1e-4;

/// The same for a file whose weights are stored in half precision: a few levels of a picture's 256.
pub const HALF_LIMIT: f64 = 5e-2;

/// An ONNX file with its weights stored so.
pub fn stored(stored: Stored, bytes: Vec<u8>) -> Result<Vec<u8>> {
    match stored {
        Stored::Float32 => Ok(bytes),
        Stored::Half => half::file_in_half(&bytes).context("the exported file cannot be read back"),
    }
}

/// Largest difference allowed between a file with such weights and libtorch.
pub fn limit(stored: Stored) -> f64 {
    match stored {
        Stored::Float32 => LIMIT,
        Stored::Half => HALF_LIMIT,
    }
}

/// One input of a network: its name and its rows.
pub struct Input<'a> {
    pub name: &'static str,
    pub rows: &'a Tensor,
}

/// Runs the file on the inputs and compares every named output: the largest difference found, which is not allowed to
/// be above [`LIMIT`].
pub fn check(
    runtime: &Runtime,
    file: &[u8],
    inputs: &[Input<'_>],
    wanted: &[(&str, &Tensor)],
) -> Result<f64> {
    check_within(LIMIT, runtime, file, inputs, wanted)
}

/// [`check`] with another limit.
pub fn check_within(
    limit: f64,
    runtime: &Runtime,
    file: &[u8],
    inputs: &[Input<'_>],
    wanted: &[(&str, &Tensor)],
) -> Result<f64> {
    let mut session = Session::builder(runtime.environment())?.commit_from_memory(file)?;
    let values = inputs
        .iter()
        .map(|input| Ok((input.name, value(input.rows)?)))
        .collect::<Result<Vec<_>>>()?;
    let outputs = session.run(values)?;
    let mut largest = 0.0_f64;
    for (name, wanted) in wanted {
        let found = outputs
            .get(*name)
            .with_context(|| format!("the exported file has no output `{name}`"))?;
        let (_, found) = found.try_extract_tensor::<f32>()?;
        let wanted = Vec::<f32>::try_from(wanted.to_device(Device::Cpu).contiguous().view(-1))?;
        ensure!(
            found.len() == wanted.len(),
            "output `{name}` of the exported file has {} numbers, libtorch {}",
            found.len(),
            wanted.len()
        );
        for (a, b) in found.iter().zip(&wanted) {
            let difference = f64::from((a - b).abs());
            // A NaN on either side must not pass for equal.
            largest = if difference.is_nan() {
                f64::INFINITY
            } else {
                largest.max(difference)
            };
        }
    }
    ensure!(
        largest <= limit,
        "the exported file differs from libtorch by {largest:.1e}, more than {limit:.0e}"
    );
    Ok(largest)
}

fn value(rows: &Tensor) -> Result<DynValue> {
    let rows = rows.to_device(Device::Cpu).contiguous();
    let shape = rows.size();
    let flat = rows.view(-1);
    Ok(if rows.kind() == tch::Kind::Int64 {
        OrtTensor::from_array((shape, Vec::<i64>::try_from(flat)?))?.into_dyn()
    } else {
        OrtTensor::from_array((shape, Vec::<f32>::try_from(flat)?))?.into_dyn()
    })
}
