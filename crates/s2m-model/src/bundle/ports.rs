//! Inputs and outputs of the networks, held against the manifest.

use s2m_core::labels::Labels;

use super::{MANIFEST, Network};
use crate::error::{Error, list};
use crate::manifest::{ClassForm, GeneratorEntry, ItemEntry, Manifest};
use crate::onnx::{self, Axes, Port, PortElement, describe};

fn find<'a>(
    network: &Network,
    ports: &'a [Port],
    kind: &'static str,
    name: &str,
) -> Result<&'a Port, Error> {
    ports.iter().find(|port| port.name == name).ok_or_else(|| {
        Error::not_found(format!(
            "`{}` has no {kind} `{name}`; it has {}",
            network.file,
            list(ports.iter().map(|port| &port.name))
        ))
    })
}

/// Holds a port against the element type and per-item shape that the manifest gives.
fn check_port(
    network: &Network,
    kind: &'static str,
    port: &Port,
    element: PortElement,
    shapes: &[&[usize]],
) -> Result<(), Error> {
    let fits = |shape: &[usize]| match &port.dims {
        None => true,
        Some(dims) => {
            dims.len() == shape.len() + 1
                && dims[1..]
                    .iter()
                    .zip(shape)
                    .all(|(dim, &side)| dim.is_none_or(|d| usize::try_from(d) == Ok(side)))
        }
    };
    if port.element == element && shapes.iter().any(|shape| fits(shape)) {
        return Ok(());
    }
    let side = |dim: &Option<i64>| dim.map_or("n".to_owned(), |d| d.to_string());
    let found = port
        .dims
        .as_ref()
        .map_or("of unknown shape".to_owned(), |dims| {
            format!("[{}]", dims.iter().map(side).collect::<Vec<_>>().join(", "))
        });
    let wanted = shapes.first().map_or(String::new(), |shape| {
        shape
            .iter()
            .fold("[n".to_owned(), |text, s| format!("{text}, {s}"))
            + "]"
    });
    Err(Error::unsupported(format!(
        "`{}`: {kind} `{}` is {} {found}, but {MANIFEST} says {element} {wanted}",
        network.file, port.name, port.element
    )))
}

pub(super) fn check_generator(entry: &GeneratorEntry, network: &Network) -> Result<Axes, Error> {
    let ports = describe(&network.model);
    for latent in &entry.latents {
        let port = find(network, &ports.inputs, "input", &latent.input)?;
        check_port(network, "input", port, PortElement::F32, &[&latent.shape])?;
    }
    if let Some(class) = &entry.class {
        let port = find(network, &ports.inputs, "input", &class.input)?;
        match class.form {
            ClassForm::Index if port.element != PortElement::I64 => {
                return Err(Error::unsupported(format!(
                    "`{}`: the class index `{}` is {}, and a class index must be i64\nhint: export it as a 64-bit integer, or take one number per class and say form = \"one-hot\"",
                    network.file, port.name, port.element
                )));
            }
            ClassForm::Index => check_port(network, "input", port, PortElement::I64, &[&[]])?,
            ClassForm::OneHot => {
                check_port(
                    network,
                    "input",
                    port,
                    PortElement::F32,
                    &[&[class.prior.len()]],
                )?;
            }
        }
    }
    let named = |name: &str| {
        entry.latents.iter().any(|latent| latent.input == name)
            || entry
                .class
                .as_ref()
                .is_some_and(|class| class.input == name)
    };
    if let Some(extra) = ports.inputs.iter().find(|port| !named(&port.name)) {
        return Err(Error::unsupported(format!(
            "`{}` has an input `{}` that {MANIFEST} does not mention",
            network.file, extra.name
        )));
    }
    let port = find(network, &ports.outputs, "output", &entry.output.name)?;
    item_axes(network, "output", port, &entry.output)
}

pub(super) fn check_classifier(
    manifest: &Manifest,
    labels: &Labels,
    network: &Network,
) -> Result<Axes, Error> {
    let ports = describe(&network.model);
    let entry = &manifest.classifier;
    let port = find(network, &ports.inputs, "input", &entry.input.name)?;
    let axes = item_axes(network, "input", port, &entry.input)?;
    if let Some(extra) = ports
        .inputs
        .iter()
        .find(|port| port.name != entry.input.name)
    {
        return Err(Error::unsupported(format!(
            "`{}` has an input `{}` that {MANIFEST} does not mention",
            network.file, extra.name
        )));
    }
    let classes = [labels.len()];
    let class = find(network, &ports.outputs, "output", &entry.outputs.class)?;
    check_port(network, "output", class, PortElement::F32, &[&classes])?;
    let real = find(network, &ports.outputs, "output", &entry.outputs.real)?;
    check_port(network, "output", real, PortElement::F32, &[&[1], &[]])?;
    if let Some(name) = &entry.outputs.fake_class {
        let fake = find(network, &ports.outputs, "output", name)?;
        check_port(network, "output", fake, PortElement::F32, &[&classes])?;
    }
    if let Some(joint) = &entry.joint {
        let sets = [joint.sets.len() + usize::from(joint.rest)];
        for name in std::iter::once(&joint.output).chain(&joint.members) {
            let output = find(network, &ports.outputs, "output", name)?;
            check_port(network, "output", output, PortElement::F32, &[&sets])?;
        }
    }
    Ok(axes)
}

/// Whether a network's item tensor has the item's own axes or is flat.
fn item_axes(
    network: &Network,
    kind: &'static str,
    port: &Port,
    item: &ItemEntry,
) -> Result<Axes, Error> {
    let numbers = item.shape.iter().product();
    check_port(
        network,
        kind,
        port,
        PortElement::F32,
        &[&item.shape, &[numbers]],
    )?;
    let rank = port.rank().unwrap_or(item.shape.len() + 1);
    Ok(Axes::of_rank(rank, &item.format()).unwrap_or(onnx::Axes::Item))
}
