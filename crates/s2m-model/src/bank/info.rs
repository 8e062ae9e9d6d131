//! What was mined: the description in `bank.toml`, read and checked.

use s2m_core::joint::MOST_SETS;
use s2m_core::labels::Labels;
use serde::{Deserialize, Serialize};

use super::{FORMAT, PART};
use crate::bundle::one_line;
use crate::error::Error;
use crate::logits::RowShape;

/// Longest text in `model`, `scoring_hash` and `device`.
pub(super) const MAX_TEXT: usize = 200;

/// Most outputs of a network of label sets: one per set and one for the rest.
pub(super) const MOST_OUTPUTS: usize = MOST_SETS + 1;

/// What was mined; the whole of `bank.toml`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BankInfo {
    /// Version of this format.
    pub format: u32,
    /// Name of the bundle.
    pub model: String,
    /// Hash of all that decides the logits.
    pub scoring_hash: String,
    /// Label names, in the order of the columns.
    pub labels: Vec<String>,
    /// Whether there are fake-class logits and classes.
    pub conditional: bool,
    /// Number of classes `n`: proposal `k` has class `k mod n`; conditional generators only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub classes: Option<usize>,
    /// Outputs of the joint head, of which the likeliest are kept; left out without one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub joint: usize,
    /// Seed of the proposals.
    pub seed: u64,
    /// Proposals in a part.
    pub part: u64,
    /// First proposal of a piece, at the beginning of a part; left out where it is 0, as in every whole bank.
    #[serde(default, skip_serializing_if = "is_first")]
    pub first: u64,
    /// Device on which the logits were computed.
    pub device: String,
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(outputs: &usize) -> bool {
    *outputs == 0
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_first(proposal: &u64) -> bool {
    *proposal == 0
}

impl BankInfo {
    /// What a row holds.
    pub fn shape(&self) -> RowShape {
        RowShape {
            labels: self.labels.len(),
            conditional: self.conditional,
            joint: self.joint,
            members: 0,
        }
    }

    /// Reads and checks a description.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, Error> {
        #[derive(Deserialize)]
        struct Version {
            format: u32,
        }
        let text = str::from_utf8(bytes).map_err(|_| Error::malformed("it is not UTF-8 text"))?;
        // First the format alone, so that keys of a later one are not called misspelt.
        let syntax = |error: toml::de::Error| Error::malformed(one_line(&error, text));
        let version: Version = toml::from_str(text).map_err(syntax)?;
        if version.format != FORMAT {
            return Err(Error::unsupported(format!(
                "format {} is not known; this program reads format {FORMAT}",
                version.format
            )));
        }
        let info: Self = toml::from_str(text).map_err(syntax)?;
        info.check()?;
        Ok(info)
    }

    fn check(&self) -> Result<(), Error> {
        Labels::new(self.labels.iter().cloned())?;
        let texts = [
            ("model", &self.model),
            ("scoring_hash", &self.scoring_hash),
            ("device", &self.device),
        ];
        if let Some((key, _)) = texts.iter().find(|(_, text)| text.len() > MAX_TEXT) {
            return Err(Error::too_large(format!(
                "`{key}` is longer than {MAX_TEXT} bytes"
            )));
        }
        if self.joint > MOST_OUTPUTS {
            return Err(Error::malformed(format!(
                "`joint` is {}; at most {MOST_OUTPUTS} are possible",
                self.joint
            )));
        }
        if !(1..=PART).contains(&self.part) {
            return Err(Error::malformed(format!(
                "`part` is {}; 1 to {PART} are possible",
                self.part
            )));
        }
        if !self.first.is_multiple_of(self.part) {
            return Err(Error::malformed(format!(
                "it begins at proposal {}; a piece begins at a multiple of its part, which is {}",
                self.first, self.part
            )));
        }
        let possible = match self.classes {
            // The column of classes holds 32-bit numbers.
            Some(classes) => self.conditional && (1..=i32::MAX as usize).contains(&classes),
            None => !self.conditional,
        };
        possible.then_some(()).ok_or_else(|| {
            Error::malformed(
                "`classes` is at least 1 where `conditional` is true, and left out where it is not",
            )
        })
    }

    /// Says which part of which bank a file is.
    pub(super) fn identity(&self, part: u64) -> String {
        format!("{} seed {} part {part}", self.scoring_hash, self.seed)
    }

    /// Labels and classes in words.
    pub(super) fn columns_in_words(&self) -> String {
        let labels = labels_in_words(&self.labels);
        match self.classes {
            None => labels,
            Some(classes) => format!("{labels} and {classes} classes"),
        }
    }
}

pub(super) fn labels_in_words(labels: &[String]) -> String {
    let quoted: Vec<_> = labels.iter().map(|label| format!("`{label}`")).collect();
    quoted.join(", ")
}
