//! The weights of one network for all replicas: one flat tensor, seen through named views.
//!
//! Row `r` of `flat` holds replica `r`. Views share its memory, so an optimiser updates the whole
//! network in a few operations, whatever its number of layers. Names are those in saved files.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use tch::{Device, Kind, Tensor, no_grad};

use crate::noise::{self, Purpose};

/// One weight tensor: its name, its shape for one replica, and the bound of its first values.
#[derive(Debug, Clone, PartialEq)]
pub struct Spec {
    pub name: String,
    pub shape: Vec<i64>,
    /// First values are uniform in (−bound, bound).
    pub bound: f64,
}

impl Spec {
    /// Weight and bias of a layer with `fan_in` inputs per output, with PyTorch's default start.
    pub fn layer(name: &str, shape: &[i64]) -> [Self; 2] {
        let fan_in: i64 = shape[1..].iter().product();
        let bound = 1.0 / (fan_in as f64).sqrt();
        let spec = |kind: &str, shape: &[i64]| Self {
            name: format!("{name}.{kind}"),
            shape: shape.to_vec(),
            bound,
        };
        [spec("weight", shape), spec("bias", &shape[..1])]
    }

    fn size(&self) -> i64 {
        self.shape.iter().product()
    }
}

/// Weights of one replica as plain numbers, by name.
pub type Weights = BTreeMap<String, (Vec<usize>, Vec<f32>)>;

/// All weights of one network.
pub struct Parameters {
    specs: Vec<Spec>,
    flat: Tensor,
    views: Vec<Tensor>,
}

impl Parameters {
    /// First weights: each replica's from its own seed, `network` telling networks apart.
    pub fn new(network: &str, specs: Vec<Spec>, seeds: &[u64], device: Device) -> Self {
        let parts: Vec<Tensor> = specs
            .iter()
            .map(|spec| {
                let name = format!("{network}.{}", spec.name);
                let keys: Vec<u64> = seeds
                    .iter()
                    .map(|&seed| noise::key(seed, Purpose::Weights, &name))
                    .collect();
                (noise::uniform(&keys, 0, spec.size(), device) * 2.0 - 1.0) * spec.bound
            })
            .collect();
        Self::from_flat(specs, &Tensor::cat(&parts, 1))
    }

    /// Weights that lie in `flat`: `[replicas, size]`.
    pub fn from_flat(specs: Vec<Spec>, flat: &Tensor) -> Self {
        let flat = flat.detach().contiguous();
        let replicas = flat.size()[0];
        let mut start = 0;
        let views = specs
            .iter()
            .map(|spec| {
                let shape: Vec<i64> = [&[replicas], spec.shape.as_slice()].concat();
                let view = flat.narrow(1, start, spec.size()).view(shape.as_slice());
                start += spec.size();
                view.detach().set_requires_grad(true)
            })
            .collect();
        Self { specs, flat, views }
    }

    pub fn specs(&self) -> &[Spec] {
        &self.specs
    }

    pub fn flat(&self) -> &Tensor {
        &self.flat
    }

    /// The memory that all views share; change it outside any graph of gradients.
    pub fn flat_mut(&mut self) -> &mut Tensor {
        &mut self.flat
    }

    /// The weights in the order of the specs: `[replicas, …]` each.
    pub fn views(&self) -> &[Tensor] {
        &self.views
    }

    pub fn replicas(&self) -> usize {
        self.flat.size()[0] as usize
    }

    /// Overwrites all weights.
    pub fn set(&mut self, flat: &Tensor) {
        no_grad(|| self.flat.copy_(flat));
    }

    /// The same network with the chosen replicas only.
    #[must_use]
    pub fn select(&self, replicas: &[i64]) -> Self {
        let index = Tensor::from_slice(replicas).to_device(self.flat.device());
        Self::from_flat(self.specs.clone(), &self.flat.index_select(0, &index))
    }

    /// One replica's weights as plain numbers.
    pub fn replica(&self, replica: usize) -> Result<Weights> {
        ensure!(replica < self.replicas(), "there is no replica {replica}");
        let row = self.flat.get(replica as i64).to_device(Device::Cpu);
        let mut start = 0;
        self.specs
            .iter()
            .map(|spec| {
                let values = Vec::<f32>::try_from(row.narrow(0, start, spec.size()))?;
                start += spec.size();
                let shape = spec.shape.iter().map(|&side| side as usize).collect();
                Ok((spec.name.clone(), (shape, values)))
            })
            .collect()
    }

    /// Gradients of `loss` for all weights, in the layout of `flat`.
    pub fn gradient(&self, loss: &Tensor) -> Tensor {
        self.flatten(Tensor::run_backward(&[loss], &self.views, false, false))
    }

    /// One tensor in the layout of `flat` from one per view.
    fn flatten(&self, parts: Vec<Tensor>) -> Tensor {
        let rows = self.flat.size()[0];
        let parts: Vec<Tensor> = parts
            .into_iter()
            .map(|part| part.reshape([rows, -1]))
            .collect();
        Tensor::cat(&parts, 1)
    }
}

/// Gradients of one loss for two networks, by one pass.
pub fn gradients(loss: &Tensor, networks: [&Parameters; 2]) -> [Tensor; 2] {
    let views: Vec<&Tensor> = networks
        .iter()
        .flat_map(|network| network.views())
        .collect();
    let mut first = Tensor::run_backward(&[loss], &views, false, false);
    let second = first.split_off(networks[0].views.len());
    [networks[0].flatten(first), networks[1].flatten(second)]
}

/// An average of weights over steps: `average += (1 − decay)·(weights − average)`.
pub struct Average {
    decay: f64,
    flat: Tensor,
}

impl Average {
    pub fn new(parameters: &Parameters, decay: f64) -> Self {
        Self {
            decay,
            flat: parameters.flat.copy(),
        }
    }

    pub fn flat(&self) -> &Tensor {
        &self.flat
    }

    pub fn set(&mut self, flat: &Tensor) {
        no_grad(|| self.flat.copy_(flat));
    }

    pub fn update(&mut self, parameters: &Parameters) {
        let share = 1.0 - self.decay;
        let _ = no_grad(|| self.flat.lerp_(&parameters.flat, share));
    }
}

/// Zeros in the layout of a network's weights, for an optimiser's memory.
pub fn zeros_like(parameters: &Parameters) -> Tensor {
    parameters.flat.zeros_like().to_kind(Kind::Float)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn specs() -> Vec<Spec> {
        Spec::layer("layers.0", &[2, 3]).into()
    }

    #[test]
    fn views_share_the_flat_memory_and_gradients_come_back_in_its_layout() {
        let parameters = Parameters::new("critic", specs(), &[0, 1], Device::Cpu);
        // Σ over replicas r of (r + 1)·Σ weights: every gradient of replica r is r + 1.
        let scale = Tensor::from_slice(&[1.0_f32, 2.0]);
        let [weight, bias] = parameters.views() else {
            panic!("two views")
        };
        let per_replica = weight.sum_dim_intlist([1, 2].as_slice(), false, Kind::Float)
            + bias.sum_dim_intlist([1].as_slice(), false, Kind::Float);
        let gradient = parameters.gradient(&(per_replica * scale).sum(Kind::Float));
        assert_eq!(
            gradient,
            Tensor::from_slice(&[1.0_f32, 2.0])
                .unsqueeze(1)
                .expand([2, 8], false)
        );
        let mut flat = parameters.flat().shallow_clone();
        let _ = no_grad(|| flat.fill_(0.5));
        assert_eq!(weight.double_value(&[1, 1, 2]), 0.5);
    }

    #[test]
    fn a_replica_starts_the_same_alone_and_among_others() {
        let many = Parameters::new("critic", specs(), &[4, 9], Device::Cpu);
        let one = Parameters::new("critic", specs(), &[9], Device::Cpu);
        assert_eq!(many.replica(1).unwrap(), one.replica(0).unwrap());
        assert_ne!(many.replica(0).unwrap(), one.replica(0).unwrap());
        assert!(one.flat().abs().max().double_value(&[]) < 1.0 / 3.0_f64.sqrt());
    }

    #[test]
    fn the_average_follows_its_formula() {
        let mut parameters =
            Parameters::from_flat(specs(), &Tensor::zeros([1, 8], (Kind::Float, Device::Cpu)));
        let mut average = Average::new(&parameters, 0.75);
        parameters.set(&Tensor::ones([1, 8], (Kind::Float, Device::Cpu)));
        average.update(&parameters);
        assert_eq!(average.flat().double_value(&[0, 0]), 0.25);
        average.update(&parameters);
        assert_eq!(average.flat().double_value(&[0, 7]), 0.25 + 0.25 * 0.75);
    }
}
