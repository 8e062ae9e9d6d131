//! Runs training steps: one by one, or from a recording where the device has them.

use anyhow::Result;
use tch::Tensor;

use crate::device::Machine;
use crate::graph::{Graph, Graphs};
use crate::noise::{Draws, Needs, Noise};

/// Steps that are run one by one first, so that libtorch sets up what it sets up on first use.
const FIRST: u64 = 3;

/// The steps of one run.
pub struct Steps {
    noise: Noise,
    graphs: Option<Graphs>,
    taken: u64,
    recorded: Option<Recorded>,
}

/// A recorded step, the random numbers that it reads, and the losses that it writes.
struct Recorded {
    graph: Graph,
    numbers: [Tensor; 2],
    losses: Tensor,
}

impl Steps {
    pub fn new(keys: &[u64], needs: Needs, machine: &Machine) -> Self {
        Self {
            noise: Noise::new(keys, needs, machine.device),
            graphs: machine.graphs,
            taken: 0,
            recorded: None,
        }
    }

    /// Takes one step; `step` must do the same work every time.
    pub fn take(&mut self, at: u64, mut step: impl FnMut(&mut Draws) -> Tensor) -> Result<Tensor> {
        let numbers = self.noise.at(at);
        self.taken += 1;
        match self.graphs {
            Some(graphs) if self.taken > FIRST => {
                if self.recorded.is_none() {
                    self.recorded = Some(Recorded::new(graphs, &numbers, &mut step)?);
                }
                let recorded = self.recorded.as_mut().expect("recorded above");
                recorded.run(&numbers)
            }
            _ => Ok(step(&mut Draws::new(numbers))),
        }
    }

    /// Forgets the recording, because the next steps do other work.
    pub fn change(&mut self) {
        self.recorded = None;
        self.taken = 0;
    }
}

impl Recorded {
    fn new(
        graphs: Graphs,
        numbers: &[Tensor; 2],
        step: &mut impl FnMut(&mut Draws) -> Tensor,
    ) -> Result<Self> {
        let own = || numbers.each_ref().map(Tensor::copy);
        let numbers = own();
        let seen = numbers.each_ref().map(Tensor::shallow_clone);
        let (graph, losses) = graphs.record(|| step(&mut Draws::new(seen)))?;
        Ok(Self {
            graph,
            numbers,
            losses,
        })
    }

    fn run(&mut self, numbers: &[Tensor; 2]) -> Result<Tensor> {
        for (place, new) in self.numbers.iter_mut().zip(numbers) {
            place.copy_(new);
        }
        self.graph.replay()?;
        Ok(self.losses.shallow_clone())
    }
}
