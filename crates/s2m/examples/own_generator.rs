//! Draws from networks of one's own, given as bytes: a bundle needs no folder.
//!
//! `cargo run --release -p s2m --example own_generator`
//!
//! The generator makes points of the plane. The labelled data holds points to the right and points at the top, each
//! with one label; what is neither was never seen, and the discriminator says so.

use std::error::Error;
use std::io::{self, Write};

use s2m::{Items, Model};
use s2m_model::bundle::sha256;
use s2m_model::onnx::{Element, GraphBuilder, Reduced};

fn main() -> Result<(), Box<dyn Error>> {
    run(&mut io::stdout())
}

/// In the place of a file that PyTorch exported.
fn generator() -> Result<Vec<u8>, s2m_model::Error> {
    let mut graph = GraphBuilder::new("generator");
    let z = graph.input("z", &[2], Element::F32)?;
    let one = graph.scalar(1.0);
    let x = graph.mul(&z, &one)?;
    graph.output(&x, "x")?;
    Ok(graph.to_bytes())
}

/// Logits of the two labels, and of real against generated.
fn classifier() -> Result<Vec<u8>, s2m_model::Error> {
    let mut graph = GraphBuilder::new("classifier");
    let x = graph.input("x", &[2], Element::F32)?;
    let steep = graph.scalar(10_000.0);
    let logits = graph.mul(&x, &steep)?;
    let logits = graph.clip(&logits, -20.0, 0.0)?;
    let real = graph.reduce_max(&logits, 1, Reduced::Kept)?;
    graph.output(&logits, "class_logits")?;
    graph.output(&real, "real_logit")?;
    Ok(graph.to_bytes())
}

/// Half of what is drawn without labels in mind is to the right, a quarter satisfies the query.
pub(crate) fn run(out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let (generator, classifier) = (generator()?, classifier()?);
    let about = format!(
        r#"
format = 1
name = "plane"
labels = ["right", "top"]
labelling = {{ model = "one-of", weights = [1.0, 1.0], observed = [0.5, 0.5] }}
provenance = {{ data = "points of the plane", licence = "CC0" }}

[generator]
file = "generator.onnx"
sha256 = "{}"
latents = [{{ input = "z", shape = [2], prior = "normal" }}]
output = {{ name = "x", shape = [2] }}

[classifier]
file = "classifier.onnx"
sha256 = "{}"
input = {{ name = "x", shape = [2] }}
outputs = {{ class = "class_logits", real = "real_logit" }}

[calibration]
temperature = {{ class = 1.0, real = 1.0 }}
"#,
        sha256(&generator),
        sha256(&classifier)
    );
    let model = Model::from_files(&[
        ("model.toml", about.as_bytes()),
        ("generator.onnx", &generator),
        ("classifier.onnx", &classifier),
    ])?;
    let mut stream = model.query("right - top")?.seed(1).stream(100)?;
    for batch in stream.by_ref().take(3) {
        let batch = batch?;
        let Items::Points(points) = &batch.items else {
            return Err("these are points".into());
        };
        let right = points.chunks_exact(2).filter(|p| p[0] > 0.0 && p[1] < 0.0);
        writeln!(out, "{} of {} points are right", right.count(), batch.len())?;
    }
    let acceptance = stream.report().acceptance;
    writeln!(
        out,
        "{:.0} % of the proposals are accepted",
        100.0 * acceptance
    )?;
    Ok(())
}
