//! Outputs of classifiers that saw every label equally often, turned back to the labels' own shares.
//!
//! With shares p(c) in the data and p′(c) = 1/n in the draws, p(x, c) = r(c)·p′(x, c) for r(c) = p(c)/p′(c). So
//! D_r(c|x) ∝ r(c)·D′_r(c|x), and p(x)/p′(x) = Σ_c r(c)·D′_r(c|x) = 1 / Σ_c D_r(c|x)/r(c):
//!
//! ```text
//! class logits = class logits′ + log r,    real logit = real logit′ − log Σ_c softmax(class logits)_c / r(c)
//! ```
//!
//! The sum has positive terms only and lies between the least and the largest 1/r, so nothing cancels.

use anyhow::{Context as _, Result};
use s2m_model::onnx::graph::{self, GraphBuilder};
use tch::{Kind, Tensor};

use super::classifier::Outputs;
use crate::parameters::Weights;

/// Shares of the labels over those of the draws, r; all above zero.
#[derive(Debug, Clone, PartialEq)]
pub struct Balance {
    ratios: Vec<f64>,
}

impl Balance {
    /// From the labels' shares in the training data.
    pub fn new(observed: &[f64]) -> Self {
        let labels = observed.len() as f64;
        Self {
            ratios: observed.iter().map(|share| share * labels).collect(),
        }
    }

    /// Outputs of a network that was trained on balanced draws, as they are for the data.
    pub fn natural(&self, outputs: Outputs) -> Outputs {
        let row = |of: fn(f64) -> f64| {
            let values: Vec<f32> = self.ratios.iter().map(|&r| of(r) as f32).collect();
            Tensor::from_slice(&values).to_device(outputs.class.device())
        };
        let class = &outputs.class + row(f64::ln);
        let inverse = class.softmax(-1, Kind::Float) * row(f64::recip);
        let inverse = inverse.sum_dim_intlist([-1].as_slice(), false, Kind::Float);
        Outputs {
            real: outputs.real - inverse.log(),
            class,
            fake_class: outputs.fake_class,
        }
    }

    /// The same weights with log r in the bias of the `class` head.
    pub fn fold(&self, weights: &Weights) -> Result<Weights> {
        let mut weights = weights.clone();
        let (_, bias) = weights
            .get_mut("class.bias")
            .context("weight `class.bias` is missing")?;
        for (bias, ratio) in bias.iter_mut().zip(&self.ratios) {
            *bias = (f64::from(*bias) + ratio.ln()) as f32;
        }
        Ok(weights)
    }

    /// The real logit in a graph, from the class logits of folded weights.
    pub fn real_onnx(
        &self,
        graph: &mut GraphBuilder,
        class: &graph::Tensor,
        real: &graph::Tensor,
    ) -> Result<graph::Tensor> {
        let inverse: Vec<f32> = self.ratios.iter().map(|r| r.recip() as f32).collect();
        let inverse = graph.constant("balance", &[inverse.len(), 1], &inverse)?;
        let shares = graph.softmax(class, 1)?;
        let sum = graph.matmul(&shares, &inverse)?;
        let log = graph.log(&sum)?;
        let log = graph.squeeze(&log, 1)?;
        Ok(graph.sub(real, &log)?)
    }
}

#[cfg(test)]
mod tests {
    use tch::Device;

    use super::*;
    use crate::device::{DeviceChoice, Machine};
    use crate::export::{self, Input};
    use crate::networks::classifier::{Classifier, Trunk};
    use crate::parameters::Parameters;
    use s2m_runs::Way;

    /// Shares of three labels, of four places given each label, and of the places under a generator.
    const LABELS: [f64; 3] = [0.9, 0.09, 0.01];
    const PLACES: [[f64; 4]; 3] = [
        [0.7, 0.2, 0.1, 1e-6],
        [0.1, 0.6, 0.2, 0.1],
        [1e-7, 0.2, 0.3, 0.5],
    ];
    const GENERATED: [f64; 4] = [0.25, 0.05, 0.3, 0.4];

    fn share(place: usize, labels: [f64; 3]) -> f64 {
        (0..3).map(|c| labels[c] * PLACES[c][place]).sum()
    }

    /// A network that is exact for balanced draws: an item says which place it is, and the heads know the
    /// logarithms. The one hidden layer hands items on.
    fn exact() -> (Classifier, [Parameters; 2]) {
        let network = Classifier {
            trunk: Trunk::mlp(4, &[4]).unwrap(),
            classes: 3,
            conditional: false,
            fit: Way::Shared,
        };
        let identity = (0..16).map(|k| f32::from(u8::from(k % 5 == 0)));
        let class = PLACES.as_flattened().iter().map(|p| p.ln() as f32);
        let class: Vec<f32> = identity
            .chain([0.0; 4])
            .chain(class)
            .chain([0.0; 3])
            .collect();
        let balanced = [1.0 / 3.0; 3];
        let real = (0..4).map(|x| (share(x, balanced) / GENERATED[x]).ln() as f32);
        let real: Vec<f32> = real.chain([0.0]).collect();
        let parameters = |specs, values: &[f32]| {
            Parameters::from_flat(specs, &Tensor::from_slice(values).view([1, -1]))
        };
        let weights = [
            parameters(network.class_specs(), &class),
            parameters(network.other_specs(), &real),
        ];
        (network, weights)
    }

    #[test]
    fn corrected_outputs_are_those_of_the_natural_distribution() {
        let (network, weights) = exact();
        let balance = Balance::new(&LABELS);
        let x = Tensor::eye(4, (Kind::Float, Device::Cpu)).view([1, 4, 4]);
        let [class, others] = weights.each_ref().map(Parameters::views);
        let outputs = tch::no_grad(|| balance.natural(network.forward(class, others, &x)));
        let class = outputs.class.log_softmax(-1, Kind::Float);
        for place in 0..4 {
            let all = share(place, LABELS);
            let at = [0, place as i64];
            let found = outputs.real.double_value(&at);
            assert!(
                (found - (all / GENERATED[place]).ln()).abs() < 1e-5,
                "{found}"
            );
            for label in 0..3 {
                let found = class.double_value(&[0, place as i64, label as i64]);
                let wanted = (LABELS[label] * PLACES[label][place] / all).ln();
                assert!((found - wanted).abs() < 1e-5, "{found} against {wanted}");
            }
        }
        // The file says the same.
        let mut saved = weights[0].replica(0).unwrap();
        saved.extend(weights[1].replica(0).unwrap());
        let file = network.onnx(&saved, &[4], Some(&balance), None).unwrap();
        let rows = x.view([4, 4]);
        let input = Input {
            name: "x",
            rows: &rows,
        };
        let wanted = [
            ("class_logits", &outputs.class),
            ("real_logit", &outputs.real),
        ];
        let runtime = Machine::open(DeviceChoice::Cpu, None).unwrap().runtime;
        assert!(export::check(&runtime, &file, &[input], &wanted).unwrap() < 1e-5);
    }

    #[test]
    fn equal_shares_change_nothing() {
        let (network, weights) = exact();
        let x = Tensor::eye(4, (Kind::Float, Device::Cpu)).view([1, 4, 4]);
        let [class, others] = weights.each_ref().map(Parameters::views);
        let before = tch::no_grad(|| network.forward(class, others, &x));
        let (class, real) = (before.class.copy(), before.real.copy());
        let after = Balance::new(&[1.0 / 3.0; 3]).natural(before);
        assert!((after.class - class).abs().max().double_value(&[]) < 1e-6);
        assert!((after.real - real).abs().max().double_value(&[]) < 1e-6);
    }
}
