//! Learns where a generator makes something rare, and draws it with far fewer calls.
//!
//! `cargo run --release -p s2m --example rare`
//!
//! One point in a thousand lies beyond 3.09 on the first of sixteen axes.

use std::error::Error;
use std::io::{self, Write};

use s2m::Model;
use s2m::adapt::AdaptChoice;
use s2m_model::bundle::sha256;
use s2m_model::onnx::{Element, GraphBuilder};

fn main() -> Result<(), Box<dyn Error>> {
    run(&mut io::stdout())
}

fn generator() -> Result<Vec<u8>, s2m_model::Error> {
    let mut graph = GraphBuilder::new("generator");
    let z = graph.input("z", &[16], Element::F32)?;
    let one = graph.scalar(1.0);
    let x = graph.mul(&z, &one)?;
    graph.output(&x, "x")?;
    Ok(graph.to_bytes())
}

/// Everything has the label `any`; a discriminator that cannot tell says 0.
fn classifier() -> Result<Vec<u8>, s2m_model::Error> {
    let mut graph = GraphBuilder::new("classifier");
    let x = graph.input("x", &[16], Element::F32)?;
    let first = graph.slice(&x, 1, 0..1)?;
    let (limit, steep, nothing) = (graph.scalar(3.09), graph.scalar(100.0), graph.scalar(0.0));
    let beyond = graph.sub(&first, &limit)?;
    let beyond = graph.mul(&beyond, &steep)?;
    let rare = graph.clip(&beyond, -30.0, 0.0)?;
    let any = graph.mul(&first, &nothing)?;
    let logits = graph.concat(&[&any, &rare], 1)?;
    let real = graph.mul(&first, &nothing)?;
    graph.output(&logits, "class_logits")?;
    graph.output(&real, "real_logit")?;
    Ok(graph.to_bytes())
}

fn model() -> Result<Model, Box<dyn Error>> {
    let (generator, classifier) = (generator()?, classifier()?);
    let about = format!(
        r#"
format = 1
name = "tail"
labels = ["any", "rare"]
labelling = {{ model = "one-of", weights = [1.0, 1.0], observed = [0.9995, 0.0005] }}
provenance = {{ data = "a normal distribution", licence = "CC0" }}

[generator]
file = "generator.onnx"
sha256 = "{}"
latents = [{{ input = "z", shape = [16], prior = "normal" }}]
output = {{ name = "x", shape = [16] }}

[classifier]
file = "classifier.onnx"
sha256 = "{}"
input = {{ name = "x", shape = [16] }}
outputs = {{ class = "class_logits", real = "real_logit" }}

[calibration]
temperature = {{ class = 1.0, real = 1.0 }}
"#,
        sha256(&generator),
        sha256(&classifier)
    );
    Ok(Model::from_files(&[
        ("model.toml", about.as_bytes()),
        ("generator.onnx", &generator),
        ("classifier.onnx", &classifier),
    ])?)
}

/// The same query with and without adaptation.
pub(crate) fn run(out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let model = model()?;
    for (name, choice) in [
        ("as it is", AdaptChoice::None),
        ("adapted", AdaptChoice::adaptive()),
    ] {
        let draw = model.query("rare")?.seed(2).adapt(choice).draw(2000)?;
        let floats = draw.samples.items.to_floats();
        let mean = floats
            .chunks_exact(16)
            .map(|x| f64::from(x[0]))
            .sum::<f64>()
            / 2000.0;
        writeln!(
            out,
            "{name}: {:.0} calls per sample, mean of the first axis {mean:.2} (3.37 is right)",
            draw.report.calls_per_sample
        )?;
    }
    Ok(())
}
