//! A network in training: weights, optimiser and running average.

use s2m_runs::parts::OptimizerSettings;
use tch::{Device, Tensor};

use crate::optimizer::Optimizer;
use crate::parameters::{Average, Parameters, Spec};

/// One network in training; its name is the first part of its tensors' names in checkpoints.
pub struct Trained {
    pub name: &'static str,
    pub parameters: Parameters,
    pub optimizer: Optimizer,
    pub average: Option<Average>,
}

/// What all networks of a run have in common.
pub struct Start<'a> {
    /// One key per replica.
    pub keys: &'a [u64],
    pub optimizer: OptimizerSettings,
    /// Steps that their optimisers will take.
    pub steps: u64,
    pub device: Device,
}

impl Trained {
    pub fn new(name: &'static str, specs: Vec<Spec>, start: &Start<'_>) -> Self {
        let parameters = Parameters::new(name, specs, start.keys, start.device);
        let optimizer = Optimizer::new(start.optimizer, &parameters, start.steps);
        Self {
            name,
            parameters,
            optimizer,
            average: None,
        }
    }

    /// Keeps an average of the weights, which begins after so many steps; a decay of 0 keeps none.
    #[must_use]
    pub fn averaged(mut self, decay: f64, from: u64) -> Self {
        let average = || Average::new(&self.parameters, decay).beginning(from);
        self.average = (decay > 0.0).then(average);
        self
    }

    pub fn weights(&self) -> &[Tensor] {
        self.parameters.views()
    }

    /// One step down the loss, which is a sum over replicas.
    pub fn descend(&mut self, loss: &Tensor) {
        let gradient = self.parameters.gradient(loss);
        self.apply(&gradient);
    }

    /// One step down a gradient in the layout of the flat weights.
    pub fn apply(&mut self, gradient: &Tensor) {
        self.optimizer.descend(&mut self.parameters, gradient);
        if let Some(average) = &mut self.average {
            average.update(&self.parameters, self.optimizer.taken());
        }
    }

    /// The weights to use after training: the average where there is one.
    pub fn finished(&self) -> Parameters {
        let everyone: Vec<i64> = (0..self.parameters.replicas() as i64).collect();
        let mut finished = self.parameters.select(&everyone);
        if let Some(average) = &self.average {
            finished.set(average.flat());
        }
        finished
    }
}
