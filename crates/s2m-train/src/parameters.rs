//! The weights of one network for all replicas: one flat tensor, seen through named views.
//!
//! Row `r` of `flat` holds replica `r`. Views share its memory, so an optimiser updates the whole
//! network in a few operations, whatever its number of layers. Names are those in saved files.
//! Running statistics of batch norms have names and views like weights, but memory of their own: no
//! optimiser sees them, and a training step may change them before gradients are taken.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use tch::{Device, Kind, Tensor, no_grad};

use crate::noise::{self, Purpose};

/// The first values of a tensor, and with them whether it is trained.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum First {
    /// A weight, uniform in (−bound, bound).
    Uniform(f64),
    /// A weight that starts as one number everywhere.
    Constant(f64),
    /// A weight of orthonormal rows or columns, whichever are fewer; a row is all that makes one output.
    Orthogonal,
    /// A running statistic, which no optimiser changes; one number everywhere.
    Statistic(f64),
    /// A running statistic of length 1 in a random direction.
    Direction,
}

/// One tensor of a network: its name, its shape for one replica, and its first values.
#[derive(Debug, Clone, PartialEq)]
pub struct Spec {
    pub name: String,
    pub shape: Vec<i64>,
    pub first: First,
}

impl Spec {
    /// Weight and bias of a layer with `fan_in` inputs per output, with PyTorch's default start.
    pub fn layer(name: &str, shape: &[i64]) -> [Self; 2] {
        let fan_in: i64 = shape[1..].iter().product();
        let bound = 1.0 / (fan_in as f64).sqrt();
        let spec = |kind: &str, shape: &[i64]| Self {
            name: format!("{name}.{kind}"),
            shape: shape.to_vec(),
            first: First::Uniform(bound),
        };
        [spec("weight", shape), spec("bias", &shape[..1])]
    }

    fn size(&self) -> i64 {
        self.shape.iter().product()
    }

    fn trained(&self) -> bool {
        !matches!(self.first, First::Statistic(_) | First::Direction)
    }

    /// First values `[replicas, …]`, one replica per key.
    fn start(&self, keys: &[u64], device: Device) -> Tensor {
        let shape = self.for_replicas(keys.len() as i64);
        match self.first {
            First::Uniform(bound) => {
                let unit = noise::uniform(keys, 0, self.size(), device);
                ((unit * 2.0 - 1.0) * bound).view(shape.as_slice())
            }
            First::Constant(value) | First::Statistic(value) => {
                Tensor::full(shape.as_slice(), value, (Kind::Float, device))
            }
            First::Orthogonal => {
                let rows = |all: &Tensor| orthonormal(&all.view([self.shape[0], -1]));
                let of: Vec<Tensor> = self.normal(keys).unbind(0).iter().map(rows).collect();
                Tensor::stack(&of, 0)
                    .view(shape.as_slice())
                    .to_device(device)
            }
            First::Direction => {
                let normal = self.normal(keys);
                let length = normal.norm_scalaropt_dim(2, [1].as_slice(), true);
                (normal / length).view(shape.as_slice()).to_device(device)
            }
        }
    }

    /// Normal numbers `[replicas, size]`; on the CPU, so that networks start alike on every device.
    fn normal(&self, keys: &[u64]) -> Tensor {
        let size = self.size();
        noise::normal(keys, 0, (size + 1) / 2, Device::Cpu).narrow(1, 0, size)
    }

    /// The shape with the replica axis.
    pub fn for_replicas(&self, replicas: i64) -> Vec<i64> {
        [&[replicas], self.shape.as_slice()].concat()
    }
}

/// Orthonormal rows or columns, whichever are fewer, uniform over all such matrices if the numbers are normal.
fn orthonormal(matrix: &Tensor) -> Tensor {
    let wide = matrix.size()[0] < matrix.size()[1];
    let tall = if wide {
        matrix.transpose(0, 1)
    } else {
        matrix.shallow_clone()
    };
    let (q, r) = Tensor::linalg_qr(&tall, "reduced");
    let q = q * r.diagonal(0, 0, 1).sign();
    if wide {
        q.transpose(0, 1).contiguous()
    } else {
        q
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
        let start = |spec: &Spec| {
            let name = format!("{network}.{}", spec.name);
            let key = |&seed: &u64| noise::key(seed, Purpose::Weights, &name);
            spec.start(&seeds.iter().map(key).collect::<Vec<_>>(), device)
        };
        let tensors: Vec<Tensor> = specs.iter().map(start).collect();
        Self::from_tensors(specs, &tensors)
    }

    /// The tensors of all specs in their order, `[replicas, …]` each; they are copied.
    pub fn from_tensors(specs: Vec<Spec>, tensors: &[Tensor]) -> Self {
        let replicas = tensors[0].size()[0];
        let pairs = specs.iter().zip(tensors);
        let (trained, statistics): (Vec<_>, Vec<_>) = pairs.partition(|(spec, _)| spec.trained());
        let flat: Vec<Tensor> = trained
            .iter()
            .map(|(_, tensor)| tensor.detach().reshape([replicas, -1]))
            .collect();
        let flat = Tensor::cat(&flat, 1);
        let statistics: Vec<Tensor> = statistics
            .iter()
            .map(|(_, tensor)| tensor.detach().copy())
            .collect();
        Self::with(specs, flat, statistics)
    }

    /// Weights that lie in `flat`, `[replicas, size]`; statistics are new.
    pub fn from_flat(specs: Vec<Spec>, flat: &Tensor) -> Self {
        let keys = vec![0; flat.size()[0] as usize];
        let statistics = specs
            .iter()
            .filter(|spec| !spec.trained())
            .map(|spec| spec.start(&keys, flat.device()))
            .collect();
        Self::with(specs, flat.detach().contiguous(), statistics)
    }

    fn with(specs: Vec<Spec>, flat: Tensor, statistics: Vec<Tensor>) -> Self {
        let replicas = flat.size()[0];
        let mut statistics = statistics.into_iter();
        let mut start = 0;
        let views = specs
            .iter()
            .map(|spec| {
                if !spec.trained() {
                    return statistics.next().expect("one tensor per statistic");
                }
                let shape = spec.for_replicas(replicas);
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

    /// Weights and statistics in the order of the specs: `[replicas, …]` each.
    pub fn views(&self) -> &[Tensor] {
        &self.views
    }

    pub fn replicas(&self) -> usize {
        self.flat.size()[0] as usize
    }

    /// The weights alone, in the order of `flat`.
    fn trained(&self) -> impl Iterator<Item = &Tensor> {
        let pairs = self.specs.iter().zip(&self.views);
        pairs
            .filter(|(spec, _)| spec.trained())
            .map(|(_, view)| view)
    }

    /// Overwrites all weights.
    pub fn set(&mut self, flat: &Tensor) {
        no_grad(|| self.flat.copy_(flat));
    }

    /// Overwrites weights and statistics, in the order of the specs.
    pub fn set_all(&mut self, tensors: &[&Tensor]) {
        no_grad(|| {
            for (view, tensor) in self.views.iter_mut().zip(tensors) {
                view.copy_(tensor);
            }
        });
    }

    /// The same network with the chosen replicas only.
    #[must_use]
    pub fn select(&self, replicas: &[i64]) -> Self {
        let index = Tensor::from_slice(replicas).to_device(self.flat.device());
        let chosen = |view: &Tensor| view.detach().index_select(0, &index);
        let tensors: Vec<Tensor> = self.views.iter().map(chosen).collect();
        Self::from_tensors(self.specs.clone(), &tensors)
    }

    /// One replica's weights and statistics as plain numbers.
    pub fn replica(&self, replica: usize) -> Result<Weights> {
        ensure!(replica < self.replicas(), "there is no replica {replica}");
        let pairs = self.specs.iter().zip(&self.views);
        pairs
            .map(|(spec, view)| {
                let row = view.detach().get(replica as i64).to_device(Device::Cpu);
                let values = Vec::<f32>::try_from(row.reshape([-1]))?;
                let shape = spec.shape.iter().map(|&side| side as usize).collect();
                Ok((spec.name.clone(), (shape, values)))
            })
            .collect()
    }

    /// Gradients of `loss` for all weights, in the layout of `flat`.
    pub fn gradient(&self, loss: &Tensor) -> Tensor {
        let weights: Vec<&Tensor> = self.trained().collect();
        self.flatten(Tensor::run_backward(&[loss], &weights, false, false))
    }

    /// One tensor in the layout of `flat` from one per weight.
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
    let weights: Vec<&Tensor> = networks
        .iter()
        .flat_map(|network| network.trained())
        .collect();
    let mut first = Tensor::run_backward(&[loss], &weights, false, false);
    let second = first.split_off(networks[0].trained().count());
    [networks[0].flatten(first), networks[1].flatten(second)]
}

/// An average of weights over steps: `average += (1 − decay)·(weights − average)`, which may begin later; until then
/// it is the weights themselves.
pub struct Average {
    decay: f64,
    from: u64,
    flat: Tensor,
}

impl Average {
    pub fn new(parameters: &Parameters, decay: f64) -> Self {
        Self {
            decay,
            from: 0,
            flat: parameters.flat.copy(),
        }
    }

    /// The same, beginning after so many steps.
    #[must_use]
    pub fn beginning(mut self, from: u64) -> Self {
        self.from = from;
        self
    }

    pub fn flat(&self) -> &Tensor {
        &self.flat
    }

    pub fn set(&mut self, flat: &Tensor) {
        no_grad(|| self.flat.copy_(flat));
    }

    /// Takes the weights in after a step; `taken` counts steps on the device, `[1]`.
    pub fn update(&mut self, parameters: &Parameters, taken: &Tensor) {
        let share = 1.0 - self.decay;
        let _ = no_grad(|| {
            if self.from == 0 {
                return self.flat.lerp_(&parameters.flat, share);
            }
            let from = i64::try_from(self.from).unwrap_or(i64::MAX);
            let early = taken.le(from).to_kind(self.flat.kind());
            let share = early * (1.0 - share) + share;
            self.flat.lerp_tensor_(&parameters.flat, &share)
        });
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
    fn statistics_are_saved_with_the_weights_but_not_trained_with_them() {
        let mut all = specs();
        all.insert(
            1,
            Spec {
                name: "norm.var".to_owned(),
                shape: vec![2],
                first: First::Statistic(1.5),
            },
        );
        let parameters = Parameters::new("critic", all, &[4, 9], Device::Cpu);
        let plain = Parameters::new("critic", specs(), &[4, 9], Device::Cpu);
        assert_eq!(parameters.flat(), plain.flat());
        let loss = (&parameters.views()[2] * &parameters.views()[1]).sum(Kind::Float)
            + parameters.views()[0].sum(Kind::Float);
        let gradient = Vec::<f32>::try_from(parameters.gradient(&loss).get(1)).unwrap();
        assert_eq!(gradient, [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.5, 1.5]);
        // Only the second replica's statistic is changed, and only it is found again.
        let _ = parameters.views[1].get(1).fill_(2.0);
        let one = parameters.select(&[1]);
        assert_eq!(one.replica(0).unwrap()["norm.var"].1, [2.0, 2.0]);
        assert_eq!(parameters.replica(0).unwrap()["norm.var"].1, [1.5, 1.5]);
    }

    #[test]
    fn the_average_follows_its_formula() {
        let mut parameters =
            Parameters::from_flat(specs(), &Tensor::zeros([1, 8], (Kind::Float, Device::Cpu)));
        let mut average = Average::new(&parameters, 0.75);
        parameters.set(&Tensor::ones([1, 8], (Kind::Float, Device::Cpu)));
        let taken = |steps: i64| Tensor::from_slice(&[steps]);
        average.update(&parameters, &taken(1));
        assert_eq!(average.flat().double_value(&[0, 0]), 0.25);
        average.update(&parameters, &taken(2));
        assert_eq!(average.flat().double_value(&[0, 7]), 0.25 + 0.25 * 0.75);
    }

    #[test]
    fn an_average_that_begins_later_is_the_weights_until_then() {
        let mut parameters =
            Parameters::from_flat(specs(), &Tensor::zeros([1, 8], (Kind::Float, Device::Cpu)));
        let mut average = Average::new(&parameters, 0.75).beginning(2);
        let found: Vec<f64> = [1, 2, 3, 4]
            .map(|step| {
                let weights = Tensor::full([1, 8], 0.1 * step as f64, (Kind::Float, Device::Cpu));
                parameters.set(&weights);
                average.update(&parameters, &Tensor::from_slice(&[step]));
                average.flat().double_value(&[0, 5])
            })
            .into();
        let third = 0.75 * f64::from(0.2_f32) + 0.25 * f64::from(0.3_f32);
        let wanted = [
            f64::from(0.1_f32),
            f64::from(0.2_f32),
            third,
            0.75 * third + 0.25 * f64::from(0.4_f32),
        ];
        for (found, wanted) in found.iter().zip(wanted) {
            assert!((found - wanted).abs() < 1e-7, "{found} against {wanted}");
        }
    }
}
