//! What a run has learnt about label sets, as the next training and the files take it.

use anyhow::{Context as _, Result};
use s2m_core::joint::LabelSets;
use s2m_model::manifest::JointEntry;
use tch::Tensor;

use crate::networks::Mode;
use crate::networks::classifier::{JOINT, SetOutputs, member_name};
use crate::networks::student::Student;
use crate::parameters::{Parameters, Weights};

/// What a run has learnt about label sets.
pub struct Learnt {
    pub sets: LabelSets,
    /// Trunk, class and set outputs of every replica's student.
    pub network: Student,
    pub student: Parameters,
    /// For every replica the networks of its folds, one replica each.
    pub members: Vec<Vec<Parameters>>,
    /// What balanced draws have changed in the outputs, replica by replica; empty without.
    pub shifts: Vec<Vec<f64>>,
}

/// The outputs per label set of one replica, as files have them.
pub struct OwnSets {
    sets: LabelSets,
    network: Student,
    parameters: Vec<Parameters>,
    /// The student's weights, and those of the folds' networks; what balanced draws changed is taken back.
    weights: Vec<Weights>,
    shift: Vec<f64>,
}

impl Learnt {
    /// What one replica has learnt.
    pub fn of(&self, replica: usize) -> Result<OwnSets> {
        let shift = self.shifts[replica].clone();
        let everyone = |own: &Parameters| own.select(&[0]);
        let mut parameters = vec![self.student.select(&[replica as i64])];
        parameters.extend(self.members[replica].iter().map(everyone));
        let weights = parameters
            .iter()
            .map(|own| {
                let mut weights = own.replica(0)?;
                let (_, bias) = weights
                    .get_mut("joint.bias")
                    .context("weight `joint.bias` is missing")?;
                for (bias, shift) in bias.iter_mut().zip(&shift) {
                    *bias = (f64::from(*bias) - shift) as f32;
                }
                Ok(weights)
            })
            .collect::<Result<_>>()?;
        Ok(OwnSets {
            sets: self.sets.clone(),
            network: self.network.clone(),
            parameters,
            weights,
            shift,
        })
    }

    /// Gives a trunk and a class head their first weights: the student's.
    pub fn start(&self, class: &mut Parameters) -> Result<()> {
        let student = self.student.specs().iter().zip(self.student.views());
        let named: std::collections::BTreeMap<&str, &Tensor> = student
            .map(|(spec, view)| (spec.name.as_str(), view))
            .collect();
        let tensors = class
            .specs()
            .iter()
            .map(|spec| {
                let found = named.get(spec.name.as_str()).copied();
                found.with_context(|| format!("the student has no weight `{}`", spec.name))
            })
            .collect::<Result<Vec<_>>>()?;
        class.set_all(&tensors);
        Ok(())
    }
}

impl OwnSets {
    /// Weights for a file.
    pub fn outputs(&self) -> SetOutputs<'_> {
        SetOutputs {
            student: &self.weights[0],
            members: &self.weights[1..],
        }
    }

    /// How a bundle writes the outputs.
    pub fn entry(&self) -> JointEntry {
        let members = (0..self.weights.len() - 1).map(member_name).collect();
        JointEntry::of(JOINT, &self.sets, members)
    }

    /// What the networks say about items `[1, items, size]`, by the names of their outputs.
    pub fn said(&self, x: &Tensor) -> Vec<(String, Tensor)> {
        let shift: Vec<f32> = self.shift.iter().map(|&shift| shift as f32).collect();
        let said = |(at, own): (usize, &Parameters)| {
            let name = at
                .checked_sub(1)
                .map_or_else(|| JOINT.to_owned(), member_name);
            let joint = self.network.forward(own.views(), x, Mode::Evaluation).joint;
            let joint = joint.unwrap_or_else(|| x.shallow_clone());
            if shift.is_empty() {
                return (name, joint);
            }
            (
                name,
                joint - Tensor::from_slice(&shift).to_device(x.device()),
            )
        };
        self.parameters.iter().enumerate().map(said).collect()
    }
}
