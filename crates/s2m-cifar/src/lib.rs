//! The bundle `cifar-7to3`, which `s2m` has among its embedded models: 32×32 images of seven classes of CIFAR-10 with
//! three labels.
//!
//! It is a crate of its own because crates.io takes at most 10 MB of each, most of which the other models fill.
#![warn(missing_docs)]

/// Its name and its files.
pub const CIFAR_7TO3: (&str, [(&str, &[u8]); 3]) = (
    "cifar-7to3",
    [
        (
            "model.toml",
            include_bytes!("../models/cifar-7to3.s2m/model.toml"),
        ),
        (
            "generator.onnx",
            include_bytes!("../models/cifar-7to3.s2m/generator.onnx"),
        ),
        (
            "classifier.onnx",
            include_bytes!("../models/cifar-7to3.s2m/classifier.onnx"),
        ),
    ],
);
