use super::*;
use crate::error::Error;
use crate::onnx::proto::{
    DimensionValue, GraphProto, NodeProto, StringStringEntryProto, TypeValue, ValueInfoProto,
};
use crate::onnx::{Element, GraphBuilder};

/// Noise `z` of three numbers, twelve of which become an item of this shape.
fn generator(shape: &[usize], scale: f32, shift: f32) -> GraphBuilder {
    let mut g = GraphBuilder::new("generator");
    let z = g.input("z", &[3], Element::F32).unwrap();
    let weights: Vec<f32> = (0..36)
        .map(|k| ((k * 7) % 11) as f32 / 10.0 - 0.5)
        .collect();
    let weight = g.constant("weight", &[12, 3], &weights).unwrap();
    let bias = g.constant("bias", &[12], &[0.0; 12]).unwrap();
    let y = g.linear(&z, &weight, &bias).unwrap();
    let y = g.tanh(&y).unwrap();
    let (scale, shift) = (g.scalar(scale), g.scalar(shift));
    let y = g.mul(&y, &scale).unwrap();
    let y = g.add(&y, &shift).unwrap();
    let y = g.reshape(&y, shape).unwrap();
    g.output(&y, "x").unwrap();
    g
}

fn found(bytes: Vec<u8>, labels: usize, said: &Said) -> Result<Probed, Error> {
    let runtime = Runtime::load(None).unwrap();
    probe("g.onnx", bytes, labels, said, &runtime)
}

fn picture(shape: &[usize], scale: f32, shift: f32) -> ItemEntry {
    let bytes = generator(shape, scale, shift).to_bytes();
    found(bytes, 2, &Said::default()).unwrap().entry.output
}

#[test]
fn pictures_and_points_are_told_by_their_axes_and_ranges_by_their_values() {
    let plain = picture(&[3, 2, 2], 1.0, 0.0);
    assert_eq!(
        (plain.layout, plain.range, plain.bits),
        (Some(LayoutName::Nchw), Some([-1.0, 1.0]), Some(8))
    );
    let last = picture(&[2, 2, 3], 0.5, 0.5);
    assert_eq!(
        (last.layout, last.range),
        (Some(LayoutName::Nhwc), Some([0.0, 1.0]))
    );
    assert_eq!(picture(&[1, 3, 4], 127.5, 127.5).range, Some([0.0, 255.0]));
    let point = picture(&[12], 5.0, 0.0);
    assert_eq!(
        (point.layout, point.range, point.shape),
        (None, None, vec![12])
    );
}

#[test]
fn flat_items_are_pictures_where_the_data_has_pictures_of_as_many_numbers() {
    let flat = |layout, picture| {
        let said = Said {
            layout,
            picture: Some(picture),
            ..Said::default()
        };
        let probed = found(generator(&[12], 0.5, 0.5).to_bytes(), 2, &said).unwrap();
        (probed.entry.output, probed.decided[1].clone())
    };
    let (item, decided) = flat(None, [2, 2, 3]);
    assert_eq!(
        (item.layout, item.shape, item.range, item.bits),
        (
            Some(LayoutName::Nchw),
            vec![3, 2, 2],
            Some([0.0, 1.0]),
            Some(8)
        )
    );
    assert_eq!(
        decided,
        "items: 12 numbers each, taken as images of 2 by 2 pixels in colour (NCHW), as in the data, values from 0 to 1"
    );
    let (item, _) = flat(Some(LayoutName::Nhwc), [2, 2, 3]);
    assert_eq!(
        (item.layout, item.shape),
        (Some(LayoutName::Nhwc), vec![2, 2, 3])
    );
    let (item, decided) = flat(None, [5, 5, 1]);
    assert_eq!((item.layout, item.shape), (None, vec![12]));
    assert_eq!(decided, "items: points of 12 numbers");
}

#[test]
fn what_is_decided_is_said_and_can_be_said_otherwise() {
    let bytes = || generator(&[3, 2, 2], 3.0, 0.0).to_bytes();
    let error = found(bytes(), 2, &Said::default()).unwrap_err().to_string();
    assert!(error.contains("`range = LOW,HIGH`"), "{error}");
    let said = Said {
        uniform: vec!["z".to_owned()],
        range: Some([-3.0, 3.0]),
        ..Said::default()
    };
    let probed = found(bytes(), 2, &said).unwrap();
    assert_eq!(probed.entry.latents[0].prior, Prior::Uniform);
    assert_eq!(probed.entry.output.range, Some([-3.0, 3.0]));
    assert_eq!(
        probed.decided,
        [
            "noise: input `z` of shape [3], uniform on (-1, 1)",
            "items: images of 2 by 2 pixels in colour (NCHW), values from -3 to 3"
        ]
    );
    let said = Said {
        uniform: vec!["w".to_owned()],
        ..Said::default()
    };
    let error = found(bytes(), 2, &said).unwrap_err().to_string();
    assert_eq!(error, "the generator has no input `w`; it has `z`");
}

#[test]
fn whole_numbers_and_rows_of_as_many_floats_as_labels_are_classes() {
    let conditional = |index: bool| {
        let mut g = GraphBuilder::new("generator");
        let z = g.input("z", &[2], Element::F32).unwrap();
        let y = if index {
            let c = g.input("which", &[], Element::I64).unwrap();
            let table = g.constant("table", &[2, 2], &[1.0, 2.0, 3.0, 4.0]).unwrap();
            let row = g.gather(&table, &c).unwrap();
            g.add(&z, &row).unwrap()
        } else {
            let c = g.input("label", &[2], Element::F32).unwrap();
            g.add(&z, &c).unwrap()
        };
        g.output(&y, "x").unwrap();
        g.to_bytes()
    };
    for (index, form) in [(true, ClassForm::Index), (false, ClassForm::OneHot)] {
        let probed = found(conditional(index), 2, &Said::default()).unwrap();
        let class = probed.entry.class.unwrap();
        assert_eq!((class.form, class.prior), (form, vec![0.5, 0.5]));
        assert_eq!(probed.entry.latents.len(), 1);
    }
    // With other labels the row is noise.
    let probed = found(conditional(false), 3, &Said::default()).unwrap();
    assert_eq!((probed.entry.class, probed.entry.latents.len()), (None, 2));
}

#[test]
fn generators_that_cannot_be_used_are_named() {
    let message = |bytes| found(bytes, 2, &Said::default()).unwrap_err().to_string();
    assert!(message(b"junk".to_vec()).contains("`g.onnx` is no ONNX file"));
    assert!(message(generator(&[2, 3, 2], 1.0, 0.0).to_bytes()).contains("shape [2, 3, 2]"));
    assert_eq!(
        message(generator(&[12], 0.0, 1.0).to_bytes()),
        "the generator gave the same item 16 times, whatever noise it got"
    );
    assert_eq!(
        message(generator(&[12], f32::INFINITY, 0.0).to_bytes()),
        "the generator gave values that are not numbers, in 16 of 16 items of the trial run"
    );
}

#[test]
fn half_precision_gets_casts() {
    let port = |name| {
        let dims = vec![DimensionValue::batch(), DimensionValue::DimValue(2)];
        ValueInfoProto::tensor(name, 10, dims)
    };
    let graph = GraphProto {
        name: "half".to_owned(),
        node: vec![NodeProto::new("Identity", &["z"], "x")],
        input: vec![port("z")],
        output: vec![port("x")],
        ..GraphProto::default()
    };
    let opset = crate::onnx::proto::OperatorSetIdProto::default_domain(17);
    let model = ModelProto::around(graph, 9, vec![opset]);
    let probed = found(model.encode_to_vec(), 2, &Said::default()).unwrap();
    assert!(
        probed.decided[0].starts_with("element types"),
        "{:?}",
        probed.decided
    );
    assert_eq!(probed.entry.output.shape, [2]);
    assert_eq!(probed.entry.sha256, sha256(&probed.bytes));
}

/// A file that was exported for batches of one size.
fn exported_for(batch: i64, bytes: &[u8]) -> Vec<u8> {
    let mut model = ModelProto::decode(bytes).unwrap();
    let graph = model.graph.as_mut().unwrap();
    for port in graph.input.iter_mut().chain(&mut graph.output) {
        let Some(TypeValue::Tensor(tensor)) = &mut port.r#type.as_mut().unwrap().value else {
            panic!("inputs and outputs are tensors");
        };
        tensor.shape.as_mut().unwrap().dim[0].value = Some(DimensionValue::DimValue(batch));
    }
    model.encode_to_vec()
}

/// One item says nothing about the others: the trial goes on until it has seen sixteen, and decides the same.
#[test]
fn a_fixed_batch_is_run_until_the_trial_has_seen_enough() {
    let plain = generator(&[3, 2, 2], 1.0, 0.0).to_bytes();
    let free = found(plain.clone(), 2, &Said::default()).unwrap();
    for (batch, line) in [
        (
            1,
            "batch: the file makes one item at a time; a dynamic first axis would be faster",
        ),
        (5, "batch: the file makes 5 items at a time, always"),
    ] {
        let fixed = found(exported_for(batch, &plain), 2, &Said::default()).unwrap();
        assert_eq!(fixed.entry.output, free.entry.output);
        assert_eq!(fixed.decided[1], line);
        assert_eq!(fixed.decided.len(), free.decided.len() + 1);
    }
    let same = exported_for(1, &generator(&[12], 0.0, 1.0).to_bytes());
    assert_eq!(
        found(same, 2, &Said::default()).unwrap_err().to_string(),
        "the generator gave the same item 16 times, whatever noise it got"
    );
}

#[test]
fn weights_beside_the_file_are_brought_inside() {
    let whole = generator(&[3, 2, 2], 1.0, 0.0).to_bytes();
    let mut model = ModelProto::decode(whole.as_slice()).unwrap();
    let mut outside = Vec::new();
    for tensor in &mut model.graph.as_mut().unwrap().initializer {
        // What is not stored as bytes stays where it is.
        let Some(bytes) = tensor.raw_data.take() else {
            continue;
        };
        let entry = |key: &str, value: String| StringStringEntryProto {
            key: key.to_owned(),
            value,
        };
        tensor.data_location = 1;
        tensor.external_data = vec![
            entry("location", "g.onnx.data".to_owned()),
            entry("offset", outside.len().to_string()),
            entry("length", bytes.len().to_string()),
        ];
        outside.extend(bytes);
    }
    assert!(!outside.is_empty());
    let (folder, split) = (tempfile::tempdir().unwrap(), model.encode_to_vec());
    let file = folder.path().join("g.onnx");
    let gone = with_weights(&file, split.clone()).unwrap_err().to_string();
    let start = format!(
        "`{}` keeps weights in another file, `g.onnx.data`, which cannot be used: ",
        file.display()
    );
    assert!(gone.starts_with(&start), "{gone}");
    assert!(gone.ends_with("\nhint: put that file beside it, or export the generator as one file"));
    std::fs::write(folder.path().join("g.onnx.data"), &outside).unwrap();
    assert_eq!(with_weights(&file, split).unwrap(), whole);
    assert_eq!(with_weights(&file, whole.clone()).unwrap(), whole);
    assert_eq!(with_weights(&file, b"junk".to_vec()).unwrap(), b"junk");
}
