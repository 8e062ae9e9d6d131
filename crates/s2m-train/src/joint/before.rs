//! What an earlier run has learnt about label sets, taken from its files as it is: several discriminator variants stand
//! on one student, and only the first of them has to work it out.

use anyhow::{Context as _, Result};
use s2m_core::joint::LabelSets;
use s2m_core::labels::LabelSet;
use s2m_model::disk::read_plain_text;
use s2m_runs::folder::{JOINT_FOUND, JointFound};

use super::learnt::Learnt;
use super::lesson::Best;
use super::teaching::WEIGHTS;
use super::{Work, first_round_name, round_name};
use crate::networks::student::Student;
use crate::parameters::Parameters;

impl Work<'_> {
    /// What an earlier run came to, if it came to its end.
    pub(super) fn learnt_before(&self) -> Result<Option<Learnt>> {
        let path = self.folder.join(JOINT_FOUND);
        let Ok(text) = read_plain_text(&path) else {
            return Ok(None);
        };
        // Files of earlier versions do not name the sets; what they came to is worked out again.
        let Ok(found) = serde_json::from_str::<Vec<JointFound>>(&text) else {
            return Ok(None);
        };
        let Some(first) = found.first().filter(|_| found.len() == self.owns.len()) else {
            return Ok(None);
        };
        let sets = first.sets.iter().map(|&bits| LabelSet::from_bits(bits));
        let sets = LabelSets::new(self.classes, sets.collect(), first.rest)
            .with_context(|| format!("`{}`", path.display()))?;
        let network = self.student(&sets);
        let Some(student) = self.weights_of("student", &network, self.owns.len())? else {
            return Ok(None);
        };
        let mut members = Vec::new();
        for (owner, found) in found.iter().enumerate() {
            let Some(own) = self.members_of(owner, found, &network)? else {
                return Ok(None);
            };
            members.push(own);
        }
        let showings = self.showings(&sets);
        Ok(Some(self.learnt(sets, &showings, student, members)))
    }

    /// The networks of the folds of one replica, in its best round.
    fn members_of(
        &self,
        owner: usize,
        found: &JointFound,
        network: &Student,
    ) -> Result<Option<Vec<Parameters>>> {
        let name = match (found.round, found.power) {
            (Some(1), Some(power)) => first_round_name(power),
            (Some(number), _) => round_name(number),
            (None, _) => return Ok(Some(Vec::new())),
        };
        if !self.joint.members {
            return Ok(Some(Vec::new()));
        }
        let folds = self.joint.folds;
        let round = self.weights_of(&name, network, self.owns.len() * folds)?;
        let of = |round: &Parameters, fold| round.select(&[(owner * folds + fold) as i64]);
        Ok(round.map(|round| (0..folds).map(|fold| of(&round, fold)).collect()))
    }

    /// What a finished training has left.
    fn weights_of(
        &self,
        name: &str,
        network: &Student,
        networks: usize,
    ) -> Result<Option<Parameters>> {
        let path = self.folder.inside(name).join(WEIGHTS);
        let best = Best::open(&path, "student", network, networks, self.machine.device)?;
        Ok(best.weights)
    }
}
