//! Training on libtorch: generators, three-headed classifiers and referees, exported as ONNX.
//!
//! All data sets and seeds of a run train together along a leading replica axis, because networks
//! this small leave a GPU waiting for its next order when they run one at a time.

pub mod augment;
pub mod bundle;
pub mod calibrate;
pub mod checkpoint;
pub mod classifier;
pub mod device;
pub mod diff_augment;
pub mod export;
pub mod feed;
pub mod folder;
pub mod frozen;
pub mod gan;
pub mod generators;
pub mod graph;
pub mod joint;
pub mod joint_classes;
mod labelling;
pub mod losses;
pub mod networks;
pub mod noise;
pub mod objectives;
pub mod optimizer;
pub mod parameters;
pub mod progress;
pub mod referee;
pub mod replica;
pub mod shown;
pub mod steps;
pub mod stopped;
pub mod trained;
pub mod training;
