//! A generator of any kind, as whoever exports or runs it sees it.

use anyhow::Result;
use tch::{Tensor, no_grad};

use super::{biggan, mlp, unet};
use crate::parameters::{Parameters, Spec, Weights};

/// The kinds of generators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Generator {
    Mlp(mlp::Generator),
    BigGan(biggan::generator::Generator),
    UNet(unet::UNet),
}

/// How a class code reaches an exported generator.
#[derive(Debug, Clone, PartialEq)]
pub enum Code {
    None,
    /// An input of the file: one of so many classes.
    Class,
    /// An input of the file: one of these rows of fixed numbers.
    Rows(Vec<Vec<f32>>),
    /// Fixed numbers.
    Fixed(Vec<f32>),
}

impl Generator {
    /// Numbers in the latent.
    pub fn latent(&self) -> i64 {
        match self {
            Self::Mlp(network) => network.latent,
            Self::BigGan(network) => network.latent,
            Self::UNet(network) => network.latent(),
        }
    }

    /// Numbers in the class code; 0 for an unconditional generator.
    pub fn codes(&self) -> i64 {
        match self {
            Self::Mlp(network) => network.codes,
            Self::BigGan(network) => network.codes,
            Self::UNet(_) => 0,
        }
    }

    pub fn specs(&self) -> Vec<Spec> {
        match self {
            Self::Mlp(network) => network.mlp.specs(),
            Self::BigGan(network) => network.specs(),
            Self::UNet(network) => network.specs(),
        }
    }

    /// Items of a finished generator from latents `[replicas, batch, latent]` and codes
    /// `[replicas, batch, codes]`.
    pub fn items(&self, weights: &Parameters, latent: &Tensor, code: Option<&Tensor>) -> Tensor {
        no_grad(|| match self {
            Self::Mlp(network) => network.forward(weights.views(), latent, code),
            Self::BigGan(network) => network.evaluate(weights, latent, code),
            Self::UNet(network) => network.flow(weights, latent),
        })
    }

    /// The finished generator as an ONNX file for items of a shape.
    pub fn onnx(&self, weights: &Weights, code: &Code, shape: &[usize]) -> Result<Vec<u8>> {
        let identity = || one_hot_rows(self.codes() as usize);
        match (self, code) {
            (Self::Mlp(network), Code::None) => network.onnx_by_class(weights, None, shape),
            (Self::Mlp(network), Code::Class) => {
                network.onnx_by_class(weights, Some(&identity()), shape)
            }
            (Self::Mlp(network), Code::Rows(rows)) => {
                network.onnx_by_class(weights, Some(rows), shape)
            }
            (Self::Mlp(network), Code::Fixed(code)) => network.onnx_with_code(weights, code, shape),
            (Self::BigGan(network), Code::None) => network.onnx(weights, None),
            (Self::BigGan(network), Code::Class) => network.onnx(weights, Some(&identity())),
            (Self::BigGan(network), Code::Rows(rows)) => network.onnx(weights, Some(rows)),
            (Self::BigGan(_), Code::Fixed(_)) => {
                anyhow::bail!("a BigGAN takes its class as an input, not as fixed numbers")
            }
            (Self::UNet(network), Code::None) => network.onnx(weights),
            (Self::UNet(_), _) => anyhow::bail!("a U-Net takes no class"),
        }
    }
}

impl Code {
    /// Classes that a file can be asked for; none where it takes none.
    pub fn classes(&self, codes: i64) -> Option<i64> {
        match self {
            Self::None | Self::Fixed(_) => None,
            Self::Class => Some(codes),
            Self::Rows(rows) => Some(rows.len() as i64),
        }
    }

    /// The codes of classes `[replicas, batch]`, or of items that all have the same.
    pub fn of(&self, classes: &Tensor, codes: i64) -> Option<Tensor> {
        match self {
            Self::None => None,
            Self::Class => Some(crate::feed::one_hot(classes, codes)),
            Self::Rows(rows) => {
                let table = Tensor::from_slice(&rows.concat()).view([-1, codes]);
                let table = table.to_device(classes.device());
                let shape = [classes.size(), vec![codes]].concat();
                let chosen = table.index_select(0, &classes.reshape([-1]));
                Some(chosen.view(shape.as_slice()))
            }
            Self::Fixed(code) => {
                let shape = [classes.size(), vec![codes]].concat();
                let code = Tensor::from_slice(code).to_device(classes.device());
                Some(code.expand(shape.as_slice(), false))
            }
        }
    }
}

/// One row per class with a single one.
fn one_hot_rows(classes: usize) -> Vec<Vec<f32>> {
    let row = |class: usize| (0..classes).map(move |at| f32::from(u8::from(at == class)));
    (0..classes).map(|class| row(class).collect()).collect()
}
