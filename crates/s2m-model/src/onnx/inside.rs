//! Weights that a model keeps in other files, brought inside.
//!
//! A tensor outside states a file, where its bytes begin there (`offset`, 0 where left out) and how many they are
//! (`length`, up to the end where left out). They are the same bytes as `raw_data` would be. Initializers and the
//! tensors of attributes are looked at, in graphs inside graphs too; what else may lie outside stays there.
//!
//! Reference: <https://onnx.ai/onnx/repo-docs/ExternalData.html>.

use std::collections::BTreeMap;

use super::proto::{GraphProto, ModelProto, TensorProto};

/// Bytes of a file outside, by the path that a tensor states.
type Read<'r> = dyn FnMut(&str) -> Result<Vec<u8>, String> + 'r;

/// The file that a tensor lies in, and why it cannot be brought inside.
pub type Fault = (String, String);

/// Brings weights inside, up to so many bytes of them.
pub fn with_weights_inside(
    model: &mut ModelProto,
    most: u64,
    read: &mut Read<'_>,
) -> Result<(), Fault> {
    let mut files = BTreeMap::new();
    let mut taken = 0;
    let mut each = |tensor: &mut TensorProto| {
        if tensor.data_location != 1 {
            return Ok(());
        }
        let stated = |key: &str| {
            let entry = tensor.external_data.iter().find(|entry| entry.key == key);
            entry.map(|entry| entry.value.clone())
        };
        let path = stated("location").unwrap_or_default();
        let fault = |why: &str| (path.clone(), why.to_owned());
        let number = |key: &str| match stated(key) {
            None => Ok(None),
            Some(text) => {
                let number = text.parse::<usize>().ok();
                let why = format!("`{key}` of `{}` is `{text}`", tensor.name);
                number.map(Some).ok_or((path.clone(), why))
            }
        };
        let (offset, length) = (number("offset")?.unwrap_or(0), number("length")?);
        if !files.contains_key(&path) {
            let bytes = read(&path).map_err(|why| fault(&why))?;
            files.insert(path.clone(), bytes);
        }
        let rest = files[&path].get(offset..);
        let own = rest.and_then(|rest| rest.get(..length.unwrap_or(rest.len())));
        let own = own.ok_or_else(|| fault(&format!("it ends before `{}` does", tensor.name)))?;
        taken += own.len() as u64;
        if taken > most {
            return Err(fault(&format!("all weights take more than {most} bytes")));
        }
        tensor.raw_data = Some(own.to_vec());
        tensor.data_location = 0;
        tensor.external_data.clear();
        Ok(())
    };
    match &mut model.graph {
        Some(graph) => tensors(graph, &mut each),
        None => Ok(()),
    }
}

/// Calls `each` with every tensor of a graph; nesting is at most as deep as the decoder's own limit.
fn tensors(
    graph: &mut GraphProto,
    each: &mut dyn FnMut(&mut TensorProto) -> Result<(), Fault>,
) -> Result<(), Fault> {
    graph.initializer.iter_mut().try_for_each(&mut *each)?;
    let attributes = graph.node.iter_mut().flat_map(|node| &mut node.attribute);
    for attribute in attributes {
        let own = attribute.t.iter_mut().chain(&mut attribute.tensors);
        own.into_iter().try_for_each(&mut *each)?;
        for graph in attribute.g.iter_mut().chain(&mut attribute.graphs) {
            tensors(graph, each)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::onnx::external_paths;
    use crate::onnx::proto::{AttributeProto, NodeProto, StringStringEntryProto};

    fn outside(name: &str, entries: &[(&str, &str)]) -> TensorProto {
        let entry = |(key, value): &(&str, &str)| StringStringEntryProto {
            key: (*key).to_owned(),
            value: (*value).to_owned(),
        };
        TensorProto {
            name: name.to_owned(),
            data_location: 1,
            external_data: entries.iter().map(entry).collect(),
            ..TensorProto::default()
        }
    }

    fn model(tensor: TensorProto) -> ModelProto {
        let nested = GraphProto {
            initializer: vec![outside("tail", &[("location", "w"), ("offset", "3")])],
            ..GraphProto::default()
        };
        let attribute = AttributeProto {
            g: Some(nested),
            ..AttributeProto::default()
        };
        let graph = GraphProto {
            initializer: vec![tensor, TensorProto::f32("here", &[1], &[0.5])],
            node: vec![NodeProto::new("If", &[], "y").with(attribute)],
            ..GraphProto::default()
        };
        ModelProto {
            graph: Some(graph),
            ..ModelProto::default()
        }
    }

    fn five(path: &str) -> Result<Vec<u8>, String> {
        match path {
            "w" => Ok(vec![1, 2, 3, 4, 5]),
            other => Err(format!("there is no `{other}`")),
        }
    }

    #[test]
    fn offsets_and_lengths_cut_a_file_that_is_read_once() {
        let place = [("location", "w"), ("offset", "1"), ("length", "2")];
        let mut model = model(outside("head", &place));
        let mut times = 0;
        let read = &mut |path: &str| {
            times += 1;
            five(path)
        };
        with_weights_inside(&mut model, 4, read).unwrap();
        assert_eq!(times, 1);
        assert!(external_paths(&model).is_empty());
        let graph = model.graph.unwrap();
        assert_eq!(graph.initializer[0].raw_data, Some(vec![2, 3]));
        assert_eq!(graph.initializer[1], TensorProto::f32("here", &[1], &[0.5]));
        let nested = graph.node[0].attribute[0].g.as_ref().unwrap();
        assert_eq!(nested.initializer[0].raw_data, Some(vec![4, 5]));
    }

    #[test]
    fn what_cannot_be_brought_inside_is_said() {
        let why = |place: &[(&str, &str)], most| {
            let mut model = model(outside("head", place));
            with_weights_inside(&mut model, most, &mut five)
                .unwrap_err()
                .1
        };
        let whole = [("location", "w")];
        assert_eq!(why(&whole, 6), "all weights take more than 6 bytes");
        let long = [("location", "w"), ("offset", "4"), ("length", "2")];
        assert_eq!(why(&long, 99), "it ends before `head` does");
        let word = [("location", "w"), ("length", "-1")];
        assert_eq!(why(&word, 99), "`length` of `head` is `-1`");
        let mut model = model(outside("head", &whole));
        let gone = &mut |_: &str| Err("it is gone".to_owned());
        let fault = with_weights_inside(&mut model, 99, gone).unwrap_err();
        assert_eq!(fault, ("w".to_owned(), "it is gone".to_owned()));
    }
}
