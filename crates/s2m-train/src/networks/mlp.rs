//! Fully connected layers with ReLU between them; `tanh` at the end where pictures come out.

use anyhow::Result;
use s2m_model::onnx::graph::{self, GraphBuilder};
use tch::Tensor;

use super::{linear, linear_onnx};
use crate::parameters::{Spec, Weights};

/// What follows the last layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Nothing: points and scores.
    Linear,
    /// ReLU: features for further layers.
    Relu,
    /// Hyperbolic tangent: pictures in (−1, 1).
    Tanh,
}

/// Layer sizes, input first, and the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mlp {
    pub sizes: Vec<i64>,
    pub end: End,
}

impl Mlp {
    pub fn new(input: i64, hidden: &[i64], output: i64, end: End) -> Self {
        Self {
            sizes: [&[input], hidden, &[output]].concat(),
            end,
        }
    }

    /// Number of layers.
    pub fn layers(&self) -> usize {
        self.sizes.len() - 1
    }

    pub fn specs(&self) -> Vec<Spec> {
        let layer =
            |(i, pair): (usize, &[i64])| Spec::layer(&format!("layers.{i}"), &[pair[1], pair[0]]);
        self.sizes.windows(2).enumerate().flat_map(layer).collect()
    }

    /// `x` is `[replicas, batch, in]`; `weights` are in the order of [`Mlp::specs`].
    pub fn forward(&self, weights: &[Tensor], x: &Tensor) -> Tensor {
        let mut x = x.shallow_clone();
        for (i, layer) in weights.chunks_exact(2).take(self.layers()).enumerate() {
            x = linear(&x, &layer[0], &layer[1]);
            x = match (i + 1 == self.layers(), self.end) {
                (false, _) | (true, End::Relu) => x.relu(),
                (true, End::Linear) => x,
                (true, End::Tanh) => x.tanh(),
            };
        }
        x
    }

    /// The same layers in a graph, with every name behind `prefix`.
    pub fn onnx(
        &self,
        graph: &mut GraphBuilder,
        x: &graph::Tensor,
        weights: &Weights,
        prefix: &str,
    ) -> Result<graph::Tensor> {
        let mut x = x.clone();
        for i in 0..self.layers() {
            x = linear_onnx(graph, &x, weights, &format!("{prefix}layers.{i}"))?;
            x = match (i + 1 == self.layers(), self.end) {
                (false, _) | (true, End::Relu) => graph.relu(&x)?,
                (true, End::Linear) => x,
                (true, End::Tanh) => graph.tanh(&x)?,
            };
        }
        Ok(x)
    }
}

/// A generator whose first layer also sees a code of `codes` numbers behind the latent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Generator {
    pub latent: i64,
    /// Numbers in the class code; 0 for an unconditional generator.
    pub codes: i64,
    pub mlp: Mlp,
}

impl Generator {
    pub fn new(latent: i64, codes: i64, hidden: &[i64], output: i64, end: End) -> Self {
        Self {
            latent,
            codes,
            mlp: Mlp::new(latent + codes, hidden, output, end),
        }
    }

    /// Items from latents `[replicas, batch, latent]` and codes `[replicas, batch, codes]`.
    pub fn forward(&self, weights: &[Tensor], latent: &Tensor, code: Option<&Tensor>) -> Tensor {
        match code {
            None => self.mlp.forward(weights, latent),
            Some(code) => self.mlp.forward(weights, &Tensor::cat(&[latent, code], -1)),
        }
    }

    /// The generator from `z`, and from a class index `c` where `rows` holds the code of every class.
    pub fn onnx_by_class(
        &self,
        weights: &Weights,
        rows: Option<&[Vec<f32>]>,
        output: &[usize],
    ) -> Result<Vec<u8>> {
        let mut graph = GraphBuilder::new("generator");
        let latent = self.latent as usize;
        let z = graph.input("z", &[latent], graph::Element::F32)?;
        let input = match rows {
            None => z,
            Some(rows) => {
                let class = graph.input("c", &[], graph::Element::I64)?;
                let shape = [rows.len(), self.codes as usize];
                let table = graph.constant("codes", &shape, &rows.concat())?;
                let code = graph.gather(&table, &class)?;
                graph.concat(&[&z, &code], 1)?
            }
        };
        self.finish(graph, &input, weights, output)
    }

    /// The generator from `z` alone with one fixed code, folded into the first layer's bias.
    pub fn onnx_with_code(
        &self,
        weights: &Weights,
        code: &[f32],
        output: &[usize],
    ) -> Result<Vec<u8>> {
        let weights = self.fold_code(weights, code);
        let mut graph = GraphBuilder::new("generator");
        let z = graph.input("z", &[self.latent as usize], graph::Element::F32)?;
        self.finish(graph, &z, &weights, output)
    }

    fn finish(
        &self,
        mut graph: GraphBuilder,
        input: &graph::Tensor,
        weights: &Weights,
        output: &[usize],
    ) -> Result<Vec<u8>> {
        let x = self.mlp.onnx(&mut graph, input, weights, "")?;
        let x = if output.len() > 1 {
            graph.reshape(&x, output)?
        } else {
            x
        };
        graph.output(&x, "x")?;
        Ok(graph.to_bytes())
    }

    fn fold_code(&self, weights: &Weights, code: &[f32]) -> Weights {
        let mut weights = weights.clone();
        let (shape, full) = weights["layers.0.weight"].clone();
        let (latent, columns) = (self.latent as usize, shape[1]);
        let rows = full.chunks_exact(columns);
        let kept = rows
            .clone()
            .flat_map(|row| row[..latent].to_vec())
            .collect();
        let shift = rows.map(|row| {
            row[latent..]
                .iter()
                .zip(code)
                .map(|(w, s)| w * s)
                .sum::<f32>()
        });
        if let Some((_, bias)) = weights.get_mut("layers.0.bias") {
            bias.iter_mut().zip(shift).for_each(|(b, s)| *b += s);
        }
        weights.insert("layers.0.weight".to_owned(), (vec![shape[0], latent], kept));
        weights
    }
}
