//! Builds `src/graph.cpp` as a library that is carried inside the program and loaded on CUDA machines.
//!
//! Where libtorch comes without CUDA's headers the library is left empty, and training on CUDA runs
//! operation by operation.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=src/graph.cpp");
    println!("cargo:rerun-if-env-changed=LIBTORCH");
    let library = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it")).join("graph.so");
    let built =
        env::var_os("LIBTORCH").is_some_and(|libtorch| build(Path::new(&libtorch), &library));
    if !built {
        println!(
            "cargo:warning=no CUDA headers beside libtorch: training on CUDA will run operation by operation"
        );
        fs::write(&library, []).expect("cargo's output folder can be written");
    }
}

fn build(libtorch: &Path, library: &Path) -> bool {
    let cuda = libtorch.join("../nvidia/cu13/include");
    if !cuda.join("cuda_runtime_api.h").is_file() {
        return false;
    }
    let compiler = env::var("CXX").unwrap_or_else(|_| "c++".to_owned());
    let status = Command::new(compiler)
        .args(["-std=c++20", "-O1", "-fPIC", "-shared", "-w", "-s", "-o"])
        .arg(library)
        .arg("src/graph.cpp")
        .arg("-I")
        .arg(libtorch.join("include"))
        .arg("-I")
        .arg(libtorch.join("include/torch/csrc/api/include"))
        .arg("-I")
        .arg(cuda)
        .status();
    status.is_ok_and(|status| status.success())
}
