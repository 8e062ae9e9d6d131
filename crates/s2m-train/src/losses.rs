//! Losses of all steps since the last log point, kept on the device and looked at in one go.

use anyhow::{Result, anyhow};
use tch::{Device, Kind, Tensor};

use crate::replica::Replica;
use crate::stopped::Diverged;

/// Room for the losses of one log interval.
pub struct Losses {
    names: &'static [&'static str],
    /// `[interval, losses, replicas]`
    kept: Tensor,
    first: u64,
    filled: i64,
}

impl Losses {
    pub fn new(
        names: &'static [&'static str],
        interval: u64,
        replicas: usize,
        device: Device,
    ) -> Self {
        let shape = [interval as i64, names.len() as i64, replicas as i64];
        Self {
            names,
            kept: Tensor::zeros(shape, (Kind::Float, device)),
            first: 0,
            filled: 0,
        }
    }

    /// Keeps the losses of one step: `[losses, replicas]`.
    pub fn keep(&mut self, step: u64, losses: &Tensor) {
        if self.filled == 0 {
            self.first = step;
        }
        self.kept.get(self.filled).copy_(losses);
        self.filled += 1;
    }

    /// Means since the last call, per replica and loss; an error names the first step that is not
    /// finite.
    pub fn take(&mut self, replicas: &[Replica]) -> Result<Vec<Vec<f64>>> {
        let kept = self.check(replicas)?;
        self.filled = 0;
        let means = kept.mean_dim([0].as_slice(), false, Kind::Double);
        let of = |replica: usize| {
            let value = |loss: usize| means.double_value(&[loss as i64, replica as i64]);
            (0..self.names.len()).map(value).collect()
        };
        Ok((0..replicas.len()).map(of).collect())
    }

    /// The losses since the last log point; an error names the first step that is not finite.
    pub fn check(&self, replicas: &[Replica]) -> Result<Tensor> {
        let kept = self.kept.narrow(0, 0, self.filled).to_device(Device::Cpu);
        if bool::try_from(kept.isfinite().all())? {
            return Ok(kept);
        }
        for row in 0..self.filled {
            for (at, replica) in replicas.iter().enumerate() {
                for (loss, name) in self.names.iter().enumerate() {
                    let value = kept.double_value(&[row, loss as i64, at as i64]);
                    if !value.is_finite() {
                        return Err(anyhow!(Diverged {
                            replica: replica.title(),
                            step: self.first + row as u64 + 1,
                            loss: name,
                            value,
                        }));
                    }
                }
            }
        }
        Ok(kept)
    }
}
