//! Where a run trains, and what checks its exports.

use std::ffi::c_int;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use clap::ValueEnum;
use s2m_model::networks::{self, RunSettings};
use s2m_model::runtime::Runtime;
use s2m_runs::parts::Precision;
use tch::{Cuda, Device};

use crate::graph::{self, Graphs};

/// The choice on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DeviceChoice {
    Cpu,
    Cuda,
}

/// What a run works with.
pub struct Machine {
    pub device: Device,
    pub runtime: Runtime,
    /// How ONNX files are run: on the same device where ONNX Runtime came with CUDA.
    pub run: RunSettings,
    /// CUDA only, where libtorch was built with it.
    pub graphs: Option<Graphs>,
}

impl Machine {
    pub fn open(choice: DeviceChoice, onnxruntime: Option<&Path>) -> Result<Self> {
        let device = open(choice)?;
        keep_freed_memory();
        let runtime = Runtime::load(onnxruntime)?;
        let on_cuda = device.is_cuda() && runtime.has_cuda();
        Ok(Self {
            device,
            run: RunSettings {
                device: if on_cuda {
                    networks::Device::Cuda
                } else {
                    networks::Device::Cpu
                },
                ..RunSettings::default()
            },
            runtime,
            graphs: if device.is_cuda() {
                Graphs::load()?
            } else {
                None
            },
        })
    }

    /// Sets the precision of all that follows.
    pub fn set(&self, precision: Precision) -> Result<()> {
        ensure!(
            precision != Precision::Bf16 || self.device.is_cuda(),
            "`precision` is `bf16`: half-precision arithmetic is for CUDA devices, and this run is on the CPU\nhint: precision = \"float32\""
        );
        if let Some(graphs) = self.graphs {
            return graphs.allow_tf32(precision != Precision::Float32);
        }
        ensure!(
            precision == Precision::Float32 || !self.device.is_cuda(),
            "this build cannot set `precision`: libtorch came without CUDA's headers\nhint: `make train` builds with them"
        );
        Ok(())
    }

    /// What makes work shorter that takes too long here, as a hint.
    pub fn shorter(&self, less: &str) -> String {
        let card = " or a graphics card (--device cuda)";
        let other = if self.device.is_cuda() { "" } else { card };
        format!("{less}{other} make it shorter")
    }

    /// The device's name in reports.
    pub fn name(&self) -> &'static str {
        if self.device.is_cuda() { "cuda" } else { "cpu" }
    }
}

/// Opens the device. libtorch finds its CUDA part only when that library is loaded into the program,
/// and the program does not link it, so that it also runs where there is none.
fn open(choice: DeviceChoice) -> Result<Device> {
    match choice {
        DeviceChoice::Cpu => Ok(Device::Cpu),
        DeviceChoice::Cuda => {
            let hint = "hint: --device cpu, or a libtorch with CUDA and its NVIDIA libraries";
            graph::load("libtorch_cuda.so")
                .with_context(|| format!("there is no CUDA part of libtorch\n{hint}"))?;
            ensure!(
                Cuda::is_available(),
                "libtorch finds no CUDA device\n{hint}"
            );
            Ok(Device::Cuda(0))
        }
    }
}

unsafe extern "C" {
    fn mallopt(parameter: c_int, value: c_int) -> c_int;
}

/// Parameters of glibc's `mallopt`.
const TRIM_THRESHOLD: c_int = -1;
const MMAP_THRESHOLD: c_int = -3;

/// Keeps freed memory in the program. A step on a CPU frees what it made and the next one asks for
/// the same again; large pieces would go back to the system in between, and clearing new pages costs
/// a fifth of a step of MobileNetV2.
fn keep_freed_memory() {
    // SAFETY: the calls set two numbers of the allocator; what it does not know it ignores.
    unsafe {
        mallopt(TRIM_THRESHOLD, -1);
        mallopt(MMAP_THRESHOLD, 1 << 30);
    }
}
