//! BigGAN's critic: blocks that halve the side, flat ones, and heads on the sum over the picture.
//!
//! ```text
//! first block  x → 3×3 → ReLU → 3×3 → halved,             plus x → halved → 1×1
//! block        x → ReLU → 3×3 → ReLU → 3×3 (→ halved),    plus x (→ halved → 1×1)
//! features     h = sum of ReLU(x) over the picture
//! score        linear(h), and with a projection + (code·E)·h;     class logits: linear(h)
//! ```
//!
//! Halved means the mean of every 2×2 pixels. Features and heads have 32 bits.
//! Reference for the projection: Miyato and Koyama, "cGANs with projection discriminator", 2018.

use tch::{Kind, Tensor};

use super::{Ready, attention, channels_last, critic_widths};
use crate::networks::spectral;
use crate::parameters::Spec;

/// What is asked beside the score.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Head {
    /// Nothing.
    Score,
    /// The score of an item together with the code of so many classes.
    Projection(i64),
    /// The logits of so many classes.
    Classes(i64),
}

/// The network for pictures of one shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Critic {
    /// Colours, height, width.
    pub picture: [i64; 3],
    /// The unit of all widths.
    pub channels: i64,
    pub head: Head,
    pub attention: bool,
}

/// What the critic says about a batch.
pub struct Judged {
    /// `[replicas, batch]`
    pub score: Tensor,
    /// `[replicas, batch, classes]`; empty without such a head.
    pub class: Tensor,
}

struct Block {
    name: String,
    from: i64,
    to: i64,
    halves: bool,
    first: bool,
}

impl Block {
    fn has_shortcut(&self) -> bool {
        self.halves || self.from != self.to
    }

    fn specs(&self) -> Vec<Spec> {
        let (from, to) = (self.from, self.to);
        let mut layers = vec![("first", [to, from, 3, 3]), ("second", [to, to, 3, 3])];
        if self.has_shortcut() {
            layers.push(("shortcut", [to, from, 1, 1]));
        }
        let spec = |(part, shape): (&str, [i64; 4])| {
            spectral::specs_with_bias(&format!("{}.{part}", self.name), &shape)
        };
        layers.into_iter().flat_map(spec).collect()
    }

    fn forward(&self, ready: &Ready, x: &Tensor) -> Tensor {
        let name = |part: &str| format!("{}.{part}", self.name);
        let halved = |x: Tensor| {
            if self.halves {
                x.avg_pool2d(2, 2, 0, false, true, None)
            } else {
                x
            }
        };
        let h = if self.first {
            ready.conv(x, &name("first"))
        } else {
            ready.conv(&x.relu(), &name("first"))
        };
        let h = halved(ready.conv(&h.relu(), &name("second")));
        if !self.has_shortcut() {
            return h + x;
        }
        h + ready.conv(&halved(x.shallow_clone()), &name("shortcut"))
    }
}

impl Critic {
    fn blocks(&self) -> Vec<Block> {
        let (widths, halving) = critic_widths(self.picture[1]);
        let width = |n: usize| match n {
            0 => self.picture[0],
            n => widths[n - 1] * self.channels,
        };
        let block = |n: usize| Block {
            name: format!("blocks.{n}"),
            from: width(n),
            to: width(n + 1),
            halves: n < halving,
            first: n == 0,
        };
        (0..widths.len()).map(block).collect()
    }

    /// Channels where attention stands: behind the first block.
    pub fn attended(&self) -> i64 {
        self.blocks()[0].to
    }

    pub fn specs(&self) -> Vec<Spec> {
        let blocks = self.blocks();
        let features = blocks[blocks.len() - 1].to;
        let mut specs: Vec<Spec> = blocks.iter().flat_map(Block::specs).collect();
        if self.attention {
            specs.extend(attention::specs(self.attended()));
        }
        specs.extend(spectral::specs_with_bias("score", &[1, features]));
        match self.head {
            Head::Score => {}
            Head::Projection(classes) => {
                specs.extend(spectral::specs("projection", &[classes, features]));
            }
            Head::Classes(classes) => {
                specs.extend(spectral::specs_with_bias("class", &[classes, features]));
            }
        }
        specs
    }

    /// Pictures `[replicas, batch, size]`, with codes `[replicas, batch, classes]` for a projection; blocks are
    /// computed in `kind`.
    pub fn forward(
        &self,
        ready: &[Ready],
        x: &Tensor,
        code: Option<&Tensor>,
        kind: Kind,
    ) -> Judged {
        let (mut scores, mut classes) = (Vec::new(), Vec::new());
        for (replica, ready) in (0_i64..).zip(ready) {
            let h = self.features(ready, &x.get(replica), kind); // [batch, features]
            let mut score = ready.linear(&h, "score").squeeze_dim(-1);
            if let (Head::Projection(_), Some(code)) = (self.head, code) {
                let wanted = code.get(replica).matmul(ready.get("projection.weight"));
                score += (wanted * &h).sum_dim_intlist([-1].as_slice(), false, h.kind());
            }
            scores.push(score);
            if let Head::Classes(_) = self.head {
                classes.push(ready.linear(&h, "class"));
            }
        }
        Judged {
            class: match self.head {
                Head::Classes(_) => Tensor::stack(&classes, 0),
                _ => Tensor::new(),
            },
            score: Tensor::stack(&scores, 0),
        }
    }

    fn features(&self, ready: &Ready, x: &Tensor, kind: Kind) -> Tensor {
        let exact = x.kind();
        let [colours, height, width] = self.picture;
        let mut x = channels_last(&x.reshape([-1, colours, height, width]), kind);
        for (n, block) in self.blocks().iter().enumerate() {
            x = block.forward(ready, &x);
            if self.attention && n == 0 {
                x = attention::forward(ready, &x);
            }
        }
        x.relu().sum_dim_intlist([2, 3].as_slice(), false, exact)
    }
}
