//! Flow matching on a U-Net: straight ways from noise to data, whose mean velocity is learnt.
//!
//! ```text
//! x_t = (1 − t)·z + t·x,   z ~ N(0, I),  x real,  t uniform        E‖v(x_t, t) − (x − z)‖² / numbers in an image
//! ```
//!
//! Nobody plays against it, and no label is used. Reference: Lipman, Chen, Ben-Hamu, Nickel and Le, "Flow matching for
//! generative modeling", 2023; Liu, Gong and Liu, "Flow straight and fast", 2023.

use anyhow::Result;
use s2m_runs::parts::Precision;
use s2m_runs::regularise::Regularise;
use tch::{Kind, Tensor};

use super::{AnyGenerator, Code, Objective, Output, Setup, hinge::regularise};
use crate::feed::{Feed, Pool};
use crate::networks::unet::UNet;
use crate::noise::{Draws, Needs};
use crate::trained::Trained;

pub(super) struct Flow {
    batch: i64,
    regularise: Regularise,
    /// Of images in training.
    kind: Kind,
    generator: (UNet, Trained),
}

impl Flow {
    pub(super) fn new(setup: &Setup<'_>) -> Result<Self> {
        let settings = setup.network.unet()?;
        let network = UNet {
            picture: UNet::check(setup.shape)?,
            channels: settings.channels,
            steps: settings.steps,
        };
        let trained = setup.generator_of("generator", network.specs());
        Ok(Self {
            batch: setup.batch,
            regularise: setup.regularise.clone(),
            kind: match setup.precision {
                Precision::Bf16 => Kind::BFloat16,
                Precision::Float32 | Precision::Tf32 => Kind::Float,
            },
            generator: (network, trained),
        })
    }
}

impl Objective for Flow {
    fn needs(&self) -> Needs {
        let mirrored = regularise::real_needs(&self.regularise, self.batch);
        Needs {
            normal: self.batch * self.generator.0.latent(),
            uniform: 2 * self.batch + mirrored,
        }
    }

    fn losses(&self) -> &'static [&'static str] {
        &["velocity"]
    }

    fn step(&mut self, feed: &Feed, draws: &mut Draws) -> Tensor {
        let (network, trained) = &mut self.generator;
        let real = feed.draw(draws, Pool::All, self.batch).items;
        let real = regularise::real(&self.regularise, &real, network.picture, draws);
        let noise = draws.normal(self.batch, network.latent());
        let t = draws.uniform(self.batch);
        let on_the_way = &noise + (&real - &noise) * t.unsqueeze(-1);
        let found = network.velocity(&trained.parameters, &on_the_way, &t, self.kind);
        let off = (found - (real - noise)).square();
        let loss = off.mean_dim([1, 2].as_slice(), false, Kind::Float);
        trained.descend(&loss.sum(Kind::Float));
        loss.detach().unsqueeze(0)
    }

    fn members(&mut self) -> Vec<&mut Trained> {
        vec![&mut self.generator.1]
    }

    fn outputs(&self) -> Vec<Output> {
        let (network, trained) = &self.generator;
        vec![Output {
            file: "generator",
            network: AnyGenerator::UNet(network.clone()),
            weights: trained.finished(),
            code: Code::None,
        }]
    }
}
