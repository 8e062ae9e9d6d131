//! Measures samples of trained networks against samples of exact ones.
//!
//! `cargo run --release -p s2m --example metrics`

use std::error::Error;
use std::io::{self, Write};

use s2m::Model;
use s2m_metrics::features::Features;
use s2m_metrics::fid::fid;
use s2m_metrics::prdc::{DEFAULT_K, prdc};

fn main() -> Result<(), Box<dyn Error>> {
    run(&mut io::stdout())
}

/// The same query of both models.
pub(crate) fn run(out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let drawn = |model: &str, seed: u64| -> Result<Vec<f32>, Box<dyn Error>> {
        let draw = Model::open(model)?.query("A - B")?.seed(seed).draw(2000)?;
        Ok(draw.samples.items.to_floats())
    };
    let real = drawn("gaussians-exact", 0)?;
    for model in ["gaussians", "gaussians-exact"] {
        let generated = drawn(model, 1)?;
        let (real, generated) = (Features::new(&real, 2)?, Features::new(&generated, 2)?);
        let found = prdc(real, generated, DEFAULT_K)?;
        writeln!(
            out,
            "{model}: Fréchet distance {:.4}, precision {:.3}, recall {:.3}, density {:.3}, coverage {:.3}",
            fid(real, generated)?,
            found.precision,
            found.recall,
            found.density,
            found.coverage
        )?;
    }
    Ok(())
}
