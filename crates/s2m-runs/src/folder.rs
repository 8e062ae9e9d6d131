//! The folder of a run: what lies where.
//!
//! ```text
//! run.toml                     the run file with everything that it left out
//! metrics.jsonl                losses, a line per log point and replica
//! checkpoint.safetensors       where an unfinished run stands
//! done.json                    written last: the run is finished
//! DATA/seed-N/generator.toml   `gan`: what goes into a generator and out of it; the network lies beside it
//! DATA/seed-N/classes.json     what the classes are that it can be asked for
//! generator.safetensors        the generators of all replicas
//! DATA-seed-N.s2m              `classifier`: a bundle
//! held-out.json                what its calibration has found
//! joint                        the trainings behind an output per label set; `joint.json` says what they came to
//! referee.onnx                 `referee`: the network
//! referee.json                 how often it is right
//! referee.toml                 what its answers are, where it judges labels
//! ```

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The run file as the trainer resolved it.
pub const RUN_FILE: &str = "run.toml";

/// Losses, a line of JSON per log point and replica.
pub const LOG: &str = "metrics.jsonl";

/// Weights and optimisers of an unfinished run.
pub const CHECKPOINT: &str = "checkpoint.safetensors";

/// Written last by the trainer.
pub const DONE: &str = "done.json";

/// The entry of a generator, in the form of a bundle's `[generator]`.
pub const GENERATOR: &str = "generator.toml";

/// What the numbers of classes mean; beside generators that take one.
pub const CLASSES: &str = "classes.json";

/// The finished generators of all replicas.
pub const WEIGHTS: &str = "generator.safetensors";

/// What a calibration has found.
pub const HELD_OUT: &str = "held-out.json";

/// Folder of the trainings behind an output per label set.
pub const JOINT: &str = "joint";

/// What these have come to.
pub const JOINT_FOUND: &str = "joint.json";

/// The network of a referee.
pub const REFEREE: &str = "referee.onnx";

/// What a referee reaches.
pub const REFEREE_FOUND: &str = "referee.json";

/// What the answers of a referee are, for `s2m eval`.
pub const REFEREE_SETTINGS: &str = "referee.toml";

/// The folder of a replica's generators, which is also its name for people.
pub fn replica(data: &str, seed: u64) -> String {
    format!("{data}/seed-{seed}")
}

/// The folder of a replica's bundle.
pub fn bundle(data: &str, seed: u64) -> String {
    format!("{data}-seed-{seed}.s2m")
}

/// What [`CLASSES`] says: of every generator that takes a class, what its classes are.
pub type ClassNames = BTreeMap<String, Vec<String>>;

/// A line of [`LOG`]: the losses of one replica over the steps since its line before.
///
/// Keys are in the order of the alphabet in all that is written here.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Logged {
    /// Mean losses by name.
    #[serde(default)]
    pub losses: BTreeMap<String, f64>,
    /// The replica, as [`replica`] names it.
    #[serde(default)]
    pub replica: String,
    /// Steps taken.
    pub step: u64,
}

/// What a referee reaches, in [`REFEREE_FOUND`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RefereeFound {
    /// How many answers it has.
    pub classes: i64,
    /// Share of the test items that it is right about.
    pub test_accuracy: f64,
    /// Share of the validation items.
    pub validation_accuracy: f64,
}

/// What learning label sets of one replica has come to, in [`JOINT_FOUND`]; a student that was shown every label has
/// no rounds.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct JointFound {
    /// Held-out loss of the class networks, mean over the folds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class_nll: Option<f64>,
    /// Steps after which each of them was best.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub class_steps: Vec<u64>,
    /// Their temperatures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub class_temperatures: Vec<f64>,
    /// The power that levels were raised to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power: Option<f64>,
    /// All powers that were tried.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub powers: Vec<PowerTried>,
    /// The replica, as people read it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replica: Option<String>,
    /// Whether one output stands for all sets that are not listed.
    pub rest: bool,
    /// The best round, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub round: Option<usize>,
    /// Held-out loss of the students of every round.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rounds: Vec<f64>,
    /// The label sets that have outputs, as bits.
    pub sets: Vec<u64>,
    /// Held-out loss of the student of all items.
    pub student_nll: f64,
    /// Steps after which it was best.
    pub student_step: u64,
    /// Its temperature.
    pub student_temperature: f64,
    /// Whether it was shown every label.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub supervised: bool,
}

/// A power that levels were raised to, and the held-out loss of the students that learnt from them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PowerTried {
    /// Held-out loss.
    pub nll: f64,
    /// The power.
    pub power: f64,
}

/// What the trainer says about a finished run, in [`DONE`]; older runs say less.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Done {
    /// Where it was trained.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Of the generators that classifiers were trained for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generators: Option<String>,
    /// Largest difference between exported networks and libtorch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub largest_export_difference: Option<f64>,
    /// Trainings side by side.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<u64>,
    /// Seconds of all steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// Steps taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<u64>,
    /// Steps in a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps_per_second: Option<f64>,
}

impl Done {
    /// A run of so many replicas that took so many steps in so many seconds.
    pub fn new(replicas: usize, (steps, seconds): (u64, f64), device: &str) -> Self {
        Self {
            device: Some(device.to_owned()),
            replicas: Some(replicas as u64),
            seconds: Some(seconds),
            steps: Some(steps),
            steps_per_second: Some(steps as f64 / seconds),
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_log_is_read_as_it_was_written() {
        let text =
            r#"{"losses":{"critic":0.5,"generator":-2.0},"replica":"digits/seed-3","step":10}"#;
        let line: Logged = serde_json::from_str(text).expect("it is read");
        assert_eq!((line.step, line.losses["generator"]), (10, -2.0));
        assert_eq!(line.replica, replica("digits", 3));
        assert_eq!(serde_json::to_string(&line).expect("it is plain"), text);
    }

    #[test]
    fn what_is_written_is_read_and_what_older_runs_left_out_is_none() {
        let done = Done {
            largest_export_difference: Some(0.5),
            ..Done::new(2, (100, 4.0), "cpu")
        };
        let text = serde_json::to_string(&done).expect("it is plain");
        assert_eq!(
            text,
            r#"{"device":"cpu","largest_export_difference":0.5,"replicas":2,"seconds":4.0,"steps":100,"steps_per_second":25.0}"#
        );
        assert_eq!(
            serde_json::from_str::<Done>(&text).expect("it is read"),
            done
        );
        assert_eq!(
            serde_json::from_str::<Done>(r#"{"bundles":3}"#).expect("it is read"),
            Done::default()
        );
    }
    #[test]
    fn what_label_sets_came_to_is_written_in_the_order_of_the_alphabet_and_read_again() {
        let found = JointFound {
            class_nll: Some(0.5),
            powers: vec![PowerTried {
                nll: 0.25,
                power: 1.6,
            }],
            round: Some(1),
            rounds: vec![0.125],
            sets: vec![1, 2, 3],
            student_step: 7,
            ..JointFound::default()
        };
        let text = serde_json::to_string(&found).expect("it is plain");
        assert_eq!(
            text,
            r#"{"class_nll":0.5,"powers":[{"nll":0.25,"power":1.6}],"rest":false,"round":1,"rounds":[0.125],"sets":[1,2,3],"student_nll":0.0,"student_step":7,"student_temperature":0.0}"#
        );
        assert_eq!(
            serde_json::from_str::<JointFound>(&text).expect("it is read"),
            found
        );
    }
}
