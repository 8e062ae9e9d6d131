//! Features that were computed beforehand, by a network that is not trained.
//!
//! ```text
//! y = (x − mean)·factor
//! ```
//!
//! Mean and factor bring every feature to mean 0 and variance 1, whatever its scale, so that one learning rate
//! serves all heads. They are statistics: saved with the weights, and never trained. They stay apart from the heads in
//! the exported file too, because x − mean is exact where x is near the mean, and products with a large mean are not.

use anyhow::Result;
use s2m_model::onnx::graph::{self, GraphBuilder};
use tch::{Kind, Tensor, no_grad};

use super::constant;
use crate::parameters::{First, Parameters, Spec, Weights};

/// Rows of given features.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Given {
    pub size: i64,
}

const MEAN: &str = "mean";
const FACTOR: &str = "factor";

/// A feature that varies by less than this share of its mean is left out: in 32-bit floats that is rounding.
const LEAST_SPREAD: f64 = 1e-6;

impl Given {
    pub fn specs(self) -> Vec<Spec> {
        let spec = |name: &str, first| Spec {
            name: name.to_owned(),
            shape: vec![self.size],
            first: First::Statistic(first),
        };
        vec![spec(MEAN, 0.0), spec(FACTOR, 1.0)]
    }
}

/// `x` is `[replicas, batch, size]`; `weights` are in the order of [`Given::specs`].
pub fn forward(weights: &[Tensor], x: &Tensor) -> Tensor {
    (x - weights[0].unsqueeze(1)) * weights[1].unsqueeze(1)
}

/// The same in a graph, with every name behind `prefix`.
pub fn onnx(
    graph: &mut GraphBuilder,
    x: &graph::Tensor,
    weights: &Weights,
    prefix: &str,
) -> Result<graph::Tensor> {
    let mean = constant(graph, weights, &format!("{prefix}{MEAN}"))?;
    let factor = constant(graph, weights, &format!("{prefix}{FACTOR}"))?;
    let centred = graph.sub(x, &mean)?;
    Ok(graph.mul(&centred, &factor)?)
}

/// Sets mean and factor of one replica by two kinds of rows, `[rows, size]`, which count the same: a batch has as
/// many of each.
pub fn standardise(class: &Parameters, replica: i64, kinds: [&Tensor; 2]) {
    let average = |of: &dyn Fn(&Tensor) -> Tensor| {
        let [a, b] = kinds.map(|rows| of(rows).mean_dim([0].as_slice(), false, Kind::Double));
        (a + b) / 2.0
    };
    let mean = average(&Tensor::shallow_clone);
    let near = mean.to_kind(Kind::Float);
    let spread = average(&|rows| (rows - &near).square()).sqrt();
    let varies = spread.gt_tensor(&(mean.abs() * LEAST_SPREAD));
    let factor = spread
        .reciprocal()
        .where_self(&varies, &spread.zeros_like());
    no_grad(|| {
        for (view, values) in class.views().iter().zip([near, factor]) {
            view.get(replica).copy_(&values);
        }
    });
}

#[cfg(test)]
mod tests {
    use tch::Device;

    use super::*;

    /// Features of very different scales, one of which never varies.
    #[test]
    fn features_of_any_scale_come_to_mean_0_and_variance_1() {
        let rows = |values: &[f32]| Tensor::from_slice(values).view([2, 3]);
        let kinds = [
            rows(&[1.0, 1e6 + 1.0, 7.0, 3.0, 1e6 + 2.0, 7.0]),
            rows(&[5.0, 1e6 + 3.0, 7.0, 7.0, 1e6 + 4.0, 7.0]),
        ];
        let head = Spec::layer("class", &[2, 3]);
        let specs = [Given { size: 3 }.specs(), head.into()].concat();
        let parameters = Parameters::new("class", specs, &[1, 2], Device::Cpu);
        standardise(&parameters, 1, [&kinds[0], &kinds[1]]);
        let both = Tensor::cat(&kinds, 0).unsqueeze(0).expand([2, 4, 3], false);
        let found = forward(parameters.views(), &both);
        assert_eq!(found.get(0), both.get(0));
        let wanted = [-1.5_f32, -0.5, 0.5, 1.5].map(|step| step / 1.25_f32.sqrt());
        for (row, wanted) in wanted.into_iter().enumerate() {
            for feature in 0..2 {
                let found = found.double_value(&[1, row as i64, feature]);
                assert!((found - f64::from(wanted)).abs() < 1e-5, "{found} {wanted}");
            }
            assert_eq!(found.double_value(&[1, row as i64, 2]), 0.0);
        }
    }
}
