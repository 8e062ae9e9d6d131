//! What keeps a critic from learning its data by heart; `regularise` in a run file of `gan`.
//!
//! Formulae and references stand with what does it, in `s2m-train/src/objectives/hinge/regularise.rs`.

use serde::{Deserialize, Serialize};

use crate::error::{Error, ensure};

/// Which of them, and how strongly.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Regularise {
    /// Mirrors every second real picture, left to right.
    #[serde(default)]
    pub flip: bool,
    /// Changes of all that the critic sees.
    #[serde(default)]
    pub diff_augment: Vec<Change>,
    /// λ of the consistency term; 0 leaves it out.
    #[serde(default)]
    pub consistency: f64,
    /// The LeCam term, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lecam: Option<Lecam>,
}

/// The LeCam term.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Lecam {
    /// λ.
    pub weight: f64,
    /// Decay of the running means.
    #[serde(default = "decay")]
    pub decay: f64,
    /// Generator steps before the term counts.
    #[serde(default = "from")]
    pub from: u64,
}

fn decay() -> f64 {
    0.99
}

fn from() -> u64 {
    1000
}

impl Regularise {
    /// Refuses weights that no term has.
    pub fn check(&self) -> Result<(), Error> {
        let lecam = self.lecam.map_or(0.0, |lecam| lecam.weight);
        for (name, weight) in [("consistency", self.consistency), ("lecam.weight", lecam)] {
            ensure!(
                weight.is_finite() && weight >= 0.0,
                "`regularise.{name}` is {weight}; it must be 0 or more"
            );
        }
        let decay = self.lecam.map_or(0.0, |lecam| lecam.decay);
        ensure!(
            (0.0..1.0).contains(&decay),
            "`regularise.lecam.decay` is {decay}; it must be from 0 to below 1"
        );
        Ok(())
    }
}

/// A change of pictures; in `diff-augment`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// Brightness, saturation and contrast.
    Colour,
    /// Moves the picture.
    Shift,
    /// Makes a square mid-grey.
    Cutout,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_that_no_term_has_are_refused() {
        let refused = |text: &str| {
            let regularise: Regularise = toml::from_str(text).unwrap();
            regularise.check().unwrap_err().to_string()
        };
        assert_eq!(
            refused("consistency = -1.0"),
            "`regularise.consistency` is -1; it must be 0 or more"
        );
        assert!(refused("lecam = { weight = inf }").contains("lecam.weight"));
        assert!(refused("lecam = { weight = 0.3, decay = 1.0 }").contains("lecam.decay"));
    }
}
